/* Arguments of attention with a matrix-valued memory: cuda/delta.cu, cuda/gla.cu, cuda/memory.cu. */
#ifndef BO_DEVICE_GPU_MEMORY_H
#define BO_DEVICE_GPU_MEMORY_H

/* The arrays after `chunk` are workspace. Tiles are chunks of `chunk` tokens of a sequence, numbered as by find_tile
 * (cuda/attention.cuh). `T`: the element type of the call. */
typedef struct bo_gpu_memory {
    bo_gpu_attention call;
    bool delta; /* DELTA, else GLA */
    bool unit;  /* q and k are normalized */
    bool fast;  /* the tensor-core kernels for bfloat16, else the general kernels */
    int chunk;  /* tokens */
    int padded; /* fast: dim, padded to 64 or 128 */
    /* S before each chunk: tiles x key_heads x dim x value_dim; DELTA: T, GLA: float. fast: bfloat16, and transposed:
     * tiles x key_heads x value_dim x padded */
    void *memories;
    void *gradients;      /* backward: the gradient of S after each chunk, in the same shape */
    float *ends;          /* S after the last token: sequences x key_heads x dim x value_dim; NULL: not needed */
    float *end_gradients; /* backward of memory_read: the gradient of `ends`; NULL: zero */
    /* DELTA */
    void *x;  /* errors of the memory: rows x key_heads x value_dim; T */
    void *w;  /* the coefficients of S in x: rows x key_heads x dim; T */
    void *du; /* backward: rows x key_heads x value_dim; T */
    /* GLA: the sum of the log gates of each chunk: tiles x key_heads x dim. fast: the product of the gates; DELTA: the
     * diagonal of the matrix that S is multiplied by: tiles x key_heads x padded */
    float *decays;
    /* fast: what the tokens of each chunk add to S, then to its gradient: in the shape of `memories`, float */
    float *parts;
    /* fast, DELTA, bfloat16: the rest of that matrix: tiles x key_heads x padded x padded; and the inverses of the
     * triangular systems: tiles x key_heads x 2 x 64 x 64 */
    void *transitions, *inverses;
    /* fast, backward with several query heads per key head: the parts of the query heads in the gradients of keys,
     * values, log gates and β: rows x heads x width. Then `gradients` and `parts` have a matrix per query head, too. */
    float *dk_parts, *dv_parts, *dlog_parts, *dbeta_parts;
} bo_gpu_memory;

/* *_memories: S before each chunk, `ends` and the states. *_outputs: the outputs of causal queries. *_gradients: all
 * gradients, after *_memories. memory_read: the outputs of queries that read `ends`, or the states if `ends` is NULL.
 * memory_read_gradients: their dq, and end_gradients. memory_step: outputs and states, token by token, without
 * workspace. */
#define BO_GPU_LAUNCHES_MEMORY(X)                                                                                      \
    X(delta_gradients, bo_gpu_memory)                                                                                  \
    X(delta_memories, bo_gpu_memory)                                                                                   \
    X(delta_outputs, bo_gpu_memory)                                                                                    \
    X(gla_gradients, bo_gpu_memory)                                                                                    \
    X(gla_memories, bo_gpu_memory)                                                                                     \
    X(gla_outputs, bo_gpu_memory)                                                                                      \
    X(memory_read, bo_gpu_memory)                                                                                      \
    X(memory_read_gradients, bo_gpu_memory)                                                                            \
    X(memory_step, bo_gpu_memory)

#endif
