/* The public calls of attention on a GPU: host arrays are copied to the GPU and back; GPU arrays are used in place. */
#ifndef BO_ATTENTION_GPU_HOST_H
#define BO_ATTENTION_GPU_HOST_H

#include "../arrays.h"
#include "../internal.h"

/* True if a checked call on host arrays runs on the GPU of the context. The CPU computes the others: kinds without GPU
 * kernels, keys without queries, and gradients of calls with states. kept: the call has a tape or is backward. */
bool bo_gpu_host_supports(const bo_context *context, const bo_call *call, bool kept);
bo_status bo_gpu_host_forward(bo_context *context, const bo_call *call);
/* Repeats the forward pass, so that the tape stores no GPU results. */
bo_status bo_gpu_host_backward(bo_context *context, const bo_call *call);

/* True if the arrays of a call are in the memory of the context's GPU. BO_INVALID if only some of them are. */
bo_status bo_gpu_holds_arrays(bo_context *context, const bo_attention_inputs *inputs, const float *out,
                              bool *on_device);
/* The calls on such arrays, which are contiguous float32 arrays; states and tapes are also in GPU memory. final is NULL
 * or equal to initial. */
bo_status bo_gpu_device_forward(bo_context *context, const bo_attention *attention, const bo_attention_shape *shape,
                                const bo_attention_inputs *inputs, void *const *states, float *out, void *tape);
bo_status bo_gpu_device_backward(bo_context *context, const bo_attention *attention, const bo_attention_shape *shape,
                                 const bo_attention_inputs *inputs, const float *out, const void *tape,
                                 const float *dout, const bo_attention_gradients *gradients);
/* A call without a workspace: allocates one, and waits for the work. */
bo_status bo_gpu_strided_run(bo_context *context, const bo_attention *attention, bo_strided_call *c, bool backward);
/* Returns the bytes of a tape in GPU memory; 0 if the GPU does not support such calls. */
size_t bo_gpu_device_tape_bytes(const bo_context *context, const bo_attention *attention,
                                const bo_attention_shape *shape);

#endif
