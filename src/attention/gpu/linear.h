/* Attention with features: the engine LINEAR, and a part of HYBRID. */
#ifndef BO_ATTENTION_GPU_LINEAR_H
#define BO_ATTENTION_GPU_LINEAR_H

#include "engine.h"

/* A call but for its map, and the transforms of queries and keys that precede it, with gradients that follow it: DARK
 * and learned maps on tensor cores. */
typedef struct bo_gpu_linear_part {
    bo_gpu_linear_attention attention;
    bo_gpu_row_transform sides[2]; /* of queries, of keys */
    int count;                     /* of sides: 0: no transform precedes; 1: there are no keys */
} bo_gpu_linear_part;

/* kept: where what forward writes for backward is; scratch: where the other memory is. */
bo_gpu_linear_part bo_gpu_linear_make(const bo_attention *attention, const bo_gpu_attention *call, bool backward,
                                      bo_carver *kept, bo_carver *scratch);
bo_status bo_gpu_linear_forward(bo_context *context, const bo_attention *attention, bo_gpu_linear_part *part);
bo_status bo_gpu_linear_backward(bo_context *context, const bo_attention *attention, bo_gpu_linear_part *part);

/* The same call with states, for sizes: about one token per sequence that continues from a state has other kernels. */
bo_gpu_attention bo_gpu_with_states(const bo_gpu_attention *call);

#endif
