/* Arguments of attention with a matrix-valued memory: cuda/delta.cu, cuda/gla.cu, cuda/memory.cu. */
#ifndef BO_DEVICE_GPU_MEMORY_H
#define BO_DEVICE_GPU_MEMORY_H

/* The arrays after `chunk` are workspace. Tiles are chunks of `chunk` tokens of a sequence, numbered as by find_tile
 * (cuda/attention.cuh). `T`: the element type of the call. */
typedef struct bo_gpu_memory {
    bo_gpu_attention call;
    bool delta;           /* DELTA, else GLA */
    bool unit;            /* q and k are normalized */
    int chunk;            /* tokens */
    void *memories;       /* S before each chunk: tiles x key_heads x dim x value_dim; DELTA: T, GLA: float */
    void *gradients;      /* backward: the gradient of S after each chunk, in the same shape */
    float *ends;          /* S after the last token: sequences x key_heads x dim x value_dim; NULL: not needed */
    float *end_gradients; /* backward of memory_read: the gradient of `ends`; NULL: zero */
    /* DELTA */
    void *x;  /* errors of the memory: rows x key_heads x value_dim; T */
    void *w;  /* the coefficients of S in x: rows x key_heads x dim; T */
    void *du; /* backward: rows x key_heads x value_dim; T */
    /* GLA */
    float *decays; /* the sum of the log gates of each chunk: tiles x key_heads x dim */
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
