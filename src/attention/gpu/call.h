/* Attention on a GPU, for modules above: a call is one struct, bo_gpu_attention, from here to the kernels. */
#ifndef BO_ATTENTION_GPU_CALL_H
#define BO_ATTENTION_GPU_CALL_H

#include "../../device/gpu/attention.h"
#include "../attention.h"

/* True if the GPU of the context has kernels for an attention. */
bool bo_gpu_attention_exists(const bo_context *context, const bo_attention *attention);
/* BO_UNSUPPORTED if the GPU of the context has no kernels for an attention, or none for cross attention of a causal one
 * (bo_gpu_attention.reads_first). */
bo_status bo_gpu_attention_check(bo_context *context, const bo_attention *attention, bool reads_first);
/* Returns the description of a call without its arrays: the caller sets `given`, `wanted`, `keeps`, `continues`, the
 * rows and the type before sizes are computed, and the addresses before the call. Strides are those of arrays with
 * tokens first and without gaps; others are set before sizes are computed, like `unaligned`. Parameters that are not
 * given have their defaults. */
bo_gpu_attention bo_gpu_attention_of(const bo_context *context, const bo_attention *attention, bool cross);
/* Bytes of `saved`, which forward writes for backward, and of `scratch`. */
size_t bo_gpu_attention_saved_bytes(const bo_attention *attention, const bo_gpu_attention *call);
size_t bo_gpu_attention_scratch_bytes(const bo_attention *attention, const bo_gpu_attention *call, bool backward);
/* Uploads frequencies, unless they are there. Before a call, and never while work is recorded. */
bo_status bo_gpu_attention_prepare(bo_context *context, const bo_attention *attention);
/* With states, forward updates them after the last token, if the call has keys. Gradients are overwritten. */
bo_status bo_gpu_attention_forward(bo_context *context, const bo_attention *attention, const bo_gpu_attention *call);
bo_status bo_gpu_attention_backward(bo_context *context, const bo_attention *attention, const bo_gpu_attention *call);

#endif
