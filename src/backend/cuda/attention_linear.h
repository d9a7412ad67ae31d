/* Attention with features as a part of HYBRID. */
#ifndef BO_BACKEND_CUDA_ATTENTION_LINEAR_H
#define BO_BACKEND_CUDA_ATTENTION_LINEAR_H

#include "attention.h"

/* Describes a call but for its map. forward: where what is written by forward is; backward: where the memory of
 * backward is, NULL: not needed. */
bo_cuda_linear_attention bo_cuda_linear_part(const bo_attention *attention, const bo_cuda_attention *call,
                                             bo_carver *forward, bo_carver *backward);
/* The same call with states, for sizes: about one token per sequence that continues from a state has other kernels. */
bo_cuda_attention bo_cuda_with_states(const bo_cuda_attention *call);
bo_status bo_cuda_linear_map(bo_context *context, const bo_attention *attention, bo_cuda_map *out);

#endif
