/* Arguments of softmax attention in a window, and linear attention for older keys: cuda/hybrid.cu. */
#ifndef BO_DEVICE_GPU_HYBRID_H
#define BO_DEVICE_GPU_HYBRID_H

#include "exact.h"

/* exact_* computes the window and linear_attention* the past, both with the contiguous arrays of this struct. `T`: the
 * element type of the call. */
typedef struct bo_gpu_hybrid {
    bo_gpu_exact exact; /* the call, and the window */
    bool gated, convex; /* gates of the past; the weight of a key is 1 - g */
    bool stores_gates;  /* states store the gates of kept keys … */
    size_t gates_at;    /* … this many bytes after the kept keys of a key head */
    bool log2;          /* exact.top is log2 of the sum of exp(score), and exact.sum is not used */
    float clamp;
    /* The key that leaves the window at each row, its value, and its log weight (bo_gpu_linear_attention.entries). */
    void *k, *v; /* T */
    float *entries;
    /* Outputs of the window only, O_w: rows of queries x heads x value_dim; T. hybrid_merge replaces them by O_w - O,
     * or keeps O_w if the denominator was clamped, unless shares is NULL. */
    void *near;
    const float *numerators, *tops; /* of the past */
    float *norms;                   /* of the past: its denominators; hybrid_merge: its denominators for backward */
    float *shares; /* rows of queries x heads: the weight of O_w in the output; NULL: mix has no gradient */
    /* backward */
    void *out;                /* outputs, or 0 where the denominator was clamped: T */
    const void *dq, *dk, *dv; /* gradients by the past of q, and of k and v above: T; NULL: not needed */
    float *mix_parts;         /* mix_blocks x heads */
    int mix_blocks;
} bo_gpu_hybrid;

/* hybrid_leave: k, v and entries. hybrid_merge: the outputs, and the data that backward of both parts reads (norms,
 * exact.top, exact.sum). hybrid_keep: the gates of kept keys in states. hybrid_split: `out`, and the gradient of mix.
 * hybrid_return: adds the gradients by the past to those of the call. */
#define BO_GPU_LAUNCHES_HYBRID(X)                                                                                      \
    X(hybrid_keep, bo_gpu_hybrid)                                                                                      \
    X(hybrid_leave, bo_gpu_hybrid)                                                                                     \
    X(hybrid_merge, bo_gpu_hybrid)                                                                                     \
    X(hybrid_return, bo_gpu_hybrid)                                                                                    \
    X(hybrid_split, bo_gpu_hybrid)

#endif
