/* Attention on the device: the operation (attention.c) and the engines that compute it, one per engine of
 * src/attention. */
#ifndef BO_BACKEND_CUDA_ATTENTION_H
#define BO_BACKEND_CUDA_ATTENTION_H

#include "cuda.h"
#include "../../attention/device.h"

/* All functions get a description of the call. In those that return sizes, arrays of the call are NULL or any address:
 * only whether they are NULL matters (but `starts` and `states` are NULL, and may be set later), and `queries`, `keys`
 * have the largest shape. `scratch` of the call is that of the engine. Gradients are overwritten; attention.c converts
 * and adds them. */
typedef struct bo_cuda_engine {
    /* Returns why an attention is not supported on the device, as the end of a sentence; NULL: it is. */
    const char *(*refuses)(const bo_attention *attention);
    bool reads_first; /* it supports cross attention of causal attentions (bo_cuda_attention.reads_first) */
    bool no_states;   /* it does not support states */
    size_t (*saved)(const bo_attention *attention, const bo_cuda_attention *call);
    size_t (*scratch)(const bo_attention *attention, const bo_cuda_attention *call, bool backward);
    /* Uploads what the kernels need of the attention (frequencies). Called before a run, never in a recording; does
     * nothing if it was uploaded before. NULL: nothing to upload. */
    bo_status (*prepare)(bo_context *context, const bo_attention *attention);
    bo_status (*forward)(bo_context *context, const bo_attention *attention, const bo_cuda_attention *call);
    bo_status (*backward)(bo_context *context, const bo_attention *attention, const bo_cuda_attention *call);
} bo_cuda_engine;

/* attention.c has the table: a kind without an engine is refused by name. */
extern const bo_cuda_engine bo_cuda_engine_exact, bo_cuda_engine_linear, bo_cuda_engine_hybrid, bo_cuda_engine_gla,
    bo_cuda_engine_delta;

#endif
