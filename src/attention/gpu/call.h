/* Attention on a GPU, for the modules above. A call is one struct, bo_gpu_attention, that is passed down to the
 * kernels. */
#ifndef BO_ATTENTION_GPU_CALL_H
#define BO_ATTENTION_GPU_CALL_H

#include "../../device/gpu/attention.h"
#include "../attention.h"

/* True if the GPU of the context has kernels for an attention. */
bool bo_gpu_attention_exists(const bo_context *context, const bo_attention *attention);
/* BO_UNSUPPORTED if the GPU of the context has no kernels for an attention, or no kernels for cross attention of a
 * causal attention (bo_gpu_attention.reads_first). */
bo_status bo_gpu_attention_check(bo_context *context, const bo_attention *attention, bool reads_first);
/* Returns the description of a call without its arrays: the caller sets `given`, `wanted`, `keeps`, `continues`, the
 * rows and the type before sizes are computed, and the addresses before the call. Strides are those of contiguous
 * arrays with tokens first; set other strides, like `unaligned`, before sizes are computed. Parameters that are not
 * given have their defaults. */
bo_gpu_attention bo_gpu_attention_of(const bo_context *context, const bo_attention *attention, bool cross);
/* Returns the bytes of `saved`, which forward writes for backward, and of `scratch`. */
size_t bo_gpu_attention_saved_bytes(const bo_attention *attention, const bo_gpu_attention *call);
size_t bo_gpu_attention_scratch_bytes(const bo_attention *attention, const bo_gpu_attention *call, bool backward);
/* Uploads frequencies if they are not on the device. Call it before a call, never while work is recorded. */
bo_status bo_gpu_attention_prepare(bo_context *context, const bo_attention *attention);
/* If the call has states and keys, forward updates the states after the last token. Gradients are overwritten. */
bo_status bo_gpu_attention_forward(bo_context *context, const bo_attention *attention, const bo_gpu_attention *call);
bo_status bo_gpu_attention_backward(bo_context *context, const bo_attention *attention, const bo_gpu_attention *call);

#endif
