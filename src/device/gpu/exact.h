/* Arguments of softmax attention over explicit keys: device/exact*.cu. */
#ifndef BO_DEVICE_GPU_EXACT_H
#define BO_DEVICE_GPU_EXACT_H

/* Positions number the keys of the state first, then the keys of the call. With a causal mask, a query attends to the
 * `window` latest positions up to its own (0: all). */
typedef struct bo_gpu_exact {
    bo_gpu_attention at;
    int window;
    float power; /* p: weights are |score|^p; 0: exp(score) */
    /* A state stores `capacity` positions, position p in slot p % capacity, and keys in panels of `panel` slots
     * (src/attention/kv_cache.h); exact_step requires panels of 64. */
    int capacity, panel;
    /* heads x rows of queries, for backward: the row maximum of the scores and the row sum of exp(score - top); both
     * INFINITY for a row without visible keys. Tensor-core kernels use only `top` and store the log-sum-exp of the
     * scores (lse) to base 2. NULL: no backward follows. */
    float *top, *sum;
    float *delta; /* backward: heads x rows of queries, dO·O */
    /* step: for each of `parts` splits of the keys, each sequence and head: value_dim floats, then top and sum */
    float *partial;
    int parts;
} bo_gpu_exact;

/* True if tensor-core kernels support the call: bfloat16, exponential weights (power 0), head rows in multiples of 16
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
