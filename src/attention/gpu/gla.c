/* The engine of gated linear attention. */
#include "memory.h"

enum { CHUNK = 64 }; /* as in device/cuda/gla.cu */

static bo_gpu_memory memory_of(const bo_attention *attention, const bo_gpu_attention *call, bool backward,
                               bo_carver *carver)
{
    bo_gpu_memory out = bo_gpu_memory_of(attention, call, CHUNK, sizeof(float), backward, carver);
    const size_t tiles = bo_gpu_has(call, BO_GPU_ARRAY_K) ? bo_gpu_memory_tiles(&call->keys, CHUNK) : 0;
    out.decays = bo_carve_floats(carver, tiles * (size_t)call->key_heads * (size_t)call->dim);
    return out;
}

static size_t scratch(const bo_attention *attention, const bo_gpu_attention *call, bool backward)
{
    bo_carver carver = {0};
    memory_of(attention, call, backward, &carver);
    return carver.bytes;
}

static bo_status forward(bo_context *context, const bo_attention *attention, const bo_gpu_attention *call)
{
    bo_carver carver = {.at = call->scratch};
    const bo_gpu_memory memory = memory_of(attention, call, false, &carver);
    if (bo_gpu_memory_is_step(call)) return BO_LAUNCH(context, memory_step, &memory);
    if (bo_gpu_has(call, BO_GPU_ARRAY_K)) BO_TRY(BO_LAUNCH(context, gla_memories, &memory));
    if (!bo_gpu_has(call, BO_GPU_ARRAY_K) || call->reads_first) return BO_LAUNCH(context, memory_ask, &memory);
    return BO_LAUNCH(context, gla_outputs, &memory);
}

static bo_status backward(bo_context *context, const bo_attention *attention, const bo_gpu_attention *call)
{
    bo_carver carver = {.at = call->scratch};
    const bo_gpu_memory memory = memory_of(attention, call, true, &carver);
    BO_TRY(BO_LAUNCH(context, gla_memories, &memory));
    if (call->reads_first) BO_TRY(BO_LAUNCH(context, memory_ask_gradients, &memory));
    return BO_LAUNCH(context, gla_gradients, &memory);
}

const bo_gpu_engine bo_gpu_engine_gla = {
    .refuses = bo_gpu_memory_refuses,
    .reads_first = true,
    .scratch = scratch,
    .forward = forward,
    .backward = backward,
};
