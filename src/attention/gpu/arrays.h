/* bo_strided_call on a GPU: calls that have been checked (../arrays.c). */
#ifndef BO_ATTENTION_GPU_ARRAYS_H
#define BO_ATTENTION_GPU_ARRAYS_H

#include "../arrays.h"

bo_status bo_gpu_arrays_bytes(bo_context *context, const bo_attention *attention, const bo_strided_call *call,
                              bool backward, size_t *tape, size_t *workspace);
bo_status bo_gpu_arrays_forward(bo_context *context, const bo_attention *attention, const bo_strided_call *call);
bo_status bo_gpu_arrays_backward(bo_context *context, const bo_attention *attention, const bo_strided_call *call);

#endif
