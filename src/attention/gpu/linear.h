/* Attention with features: the engine LINEAR, and a part of HYBRID. */
#ifndef BO_ATTENTION_GPU_LINEAR_H
#define BO_ATTENTION_GPU_LINEAR_H

#include "engine.h"

/* A call without its map, and the transforms of queries and keys before it and of their gradients after it: DARK and
 * learned maps on tensor cores. */
typedef struct bo_gpu_linear_part {
    bo_gpu_linear_attention attention;
    bo_gpu_row_transform sides[2]; /* of queries, of keys */
    int count;                     /* of sides: 0: no transform precedes; 1: there are no keys */
} bo_gpu_linear_part;

/* kept: memory that forward writes for backward; scratch: all other memory. */
bo_gpu_linear_part bo_gpu_linear_make(const bo_attention *attention, const bo_gpu_attention *call, bool backward,
                                      bo_carver *kept, bo_carver *scratch);
bo_status bo_gpu_linear_forward(bo_context *context, const bo_attention *attention, bo_gpu_linear_part *part);
bo_status bo_gpu_linear_backward(bo_context *context, const bo_attention *attention, bo_gpu_linear_part *part);

/* The same call with states, for sizes: calls with about one token per sequence that continue from states use other
 * kernels. */
bo_gpu_attention bo_gpu_with_states(const bo_gpu_attention *call);

#endif
