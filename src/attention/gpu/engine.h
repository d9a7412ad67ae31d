/* The engines of attention on GPUs. An engine computes some kinds. It describes a call for the kernels of
 * src/device/cuda. */
#ifndef BO_ATTENTION_GPU_ENGINE_H
#define BO_ATTENTION_GPU_ENGINE_H

#include "../../device/gpu/launch.h"
#include "../internal.h"

/* All functions get a description of the call. Functions that return sizes read no addresses, only `given`,
 * `requested`, `keeps` and `continues` (which may be set later); `queries` and `keys` have the largest shape. `scratch`
 * of the call belongs to the engine. Gradients are overwritten. */
typedef struct bo_gpu_engine {
    /* Returns why an attention is not supported on the GPU, as the end of a sentence; NULL: it is supported. */
    const char *(*refuses)(const bo_attention *attention, const bo_gpu_properties *gpu);
    bool reads_first; /* it supports cross attention of causal attentions (bo_gpu_attention.reads_first) */
    size_t (*saved)(const bo_attention *attention, const bo_gpu_attention *call);
    size_t (*scratch)(const bo_attention *attention, const bo_gpu_attention *call, bool backward);
    /* Uploads what the kernels need of the attention (frequencies). Called before a run, never while work is recorded.
     * Does nothing after the first upload. NULL: nothing to upload. */
    bo_status (*prepare)(bo_context *context, const bo_attention *attention);
    bo_status (*forward)(bo_context *context, const bo_attention *attention, const bo_gpu_attention *call);
    bo_status (*backward)(bo_context *context, const bo_attention *attention, const bo_gpu_attention *call);
} bo_gpu_engine;

/* Fails unless all arrays of a call start at multiples of 16 bytes in every row and head: for kernels that copy 16
 * bytes at a time. Sizes are computed without addresses, by bo_gpu_attention_is_aligned. */
bo_status bo_gpu_require_aligned(bo_context *context, const bo_gpu_attention *call);

/* call.c has the table: a kind without an engine is refused by name. */
extern const bo_gpu_engine bo_gpu_engine_exact, bo_gpu_engine_linear, bo_gpu_engine_hybrid, bo_gpu_engine_memory;

static inline bool bo_gpu_has(const bo_gpu_attention *call, unsigned array)
{
    return call->given & array;
}

static inline bool bo_gpu_requested(const bo_gpu_attention *call, unsigned array)
{
    return call->requested & array;
}

#endif
