/* Arguments of softmax attention over explicit keys: device/exact*.cu. */
#ifndef BO_DEVICE_GPU_EXACT_H
#define BO_DEVICE_GPU_EXACT_H

/* Keys have positions: those of a state first, then those of the call. With a causal mask a query sees the `window`
 * latest positions up to its own (0: all). */
typedef struct bo_gpu_exact {
    bo_gpu_attention at;
    int window;
    float power; /* p: weights are |score|^p; 0: exp(score) */
    /* A state holds `capacity` positions, position p in slot p % held, and keys in panels of `panel` slots
     * (src/attention/kv_cache.h); exact_step requires panels of 64. */
    int capacity, panel;
    /* heads x rows of queries, for backward: the largest score and the sum of exp(score - top) of a row; INFINITY in
     * both if it saw no key. Kernels for tensor cores use only `top`, and store log2 of the sum of exp(score). NULL: no
     * backward follows. */
    float *top, *sum;
    float *delta; /* backward: heads x rows of queries, dO·O */
    /* step: for each of `parts` parts of the keys, each sequence and head: value_dim numbers, then top and sum */
    float *partial;
    int parts;
} bo_gpu_exact;

/* True if bfloat16 numbers are multiplied on tensor cores: exponentials (power 0), rows of heads in pieces of 16
 * bytes. */
static inline bool bo_gpu_exact_in_tiles(const bo_gpu_attention *call, bool power)
{
    return call->type == BO_ELEMENT_BFLOAT16 && !power && call->dim <= 128 && call->value_dim <= 128 &&
           call->dim % 8 == 0 && call->value_dim % 8 == 0 && bo_gpu_attention_is_aligned(call);
}

#define BO_GPU_LAUNCHES_EXACT(X)                                                                                       \
    X(exact_forward, bo_gpu_exact)                                                                                     \
    X(exact_backward, bo_gpu_exact)                                                                                    \
    X(exact_step, bo_gpu_exact)                                                                                        \
    X(exact_append, bo_gpu_exact)

#endif
