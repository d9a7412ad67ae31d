/* The engine of the delta rule. */
#include "memory.h"

/* The more numbers a key has, the fewer keys the shared memory holds. */
static int chunk_of(const bo_gpu_attention *call)
{
    return call->dim <= 64 ? 64 : call->dim <= 128 ? 32 : 16;
}

static bo_gpu_memory memory_of(const bo_attention *attention, const bo_gpu_attention *call, bool backward,
                               bo_carver *carver)
{
    const size_t bytes = bo_gpu_bytes(call->type),
                 rows = bo_gpu_has(call, BO_GPU_ARRAY_K) ? call->keys.rows * (size_t)call->key_heads : 0;
    bo_gpu_memory out = bo_gpu_memory_of(attention, call, chunk_of(call), bytes, backward, carver);
    out.x = bo_carve(carver, rows * (size_t)call->value_dim, bytes);
    out.w = bo_carve(carver, rows * (size_t)call->dim, bytes);
    if (backward) out.du = bo_carve(carver, rows * (size_t)call->value_dim, bytes);
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
    if (bo_gpu_has(call, BO_GPU_ARRAY_K)) BO_TRY(BO_LAUNCH(context, delta_memories, &memory));
    if (!bo_gpu_has(call, BO_GPU_ARRAY_K) || call->reads_first) return BO_LAUNCH(context, memory_ask, &memory);
    return BO_LAUNCH(context, delta_outputs, &memory);
}

static bo_status backward(bo_context *context, const bo_attention *attention, const bo_gpu_attention *call)
{
    bo_carver carver = {.at = call->scratch};
    const bo_gpu_memory memory = memory_of(attention, call, true, &carver);
    BO_TRY(BO_LAUNCH(context, delta_memories, &memory));
    if (call->reads_first) BO_TRY(BO_LAUNCH(context, memory_ask_gradients, &memory));
    return BO_LAUNCH(context, delta_gradients, &memory);
}

const bo_gpu_engine bo_gpu_engine_delta = {
    .refuses = bo_gpu_memory_refuses,
    .reads_first = true,
    .scratch = scratch,
    .forward = forward,
    .backward = backward,
};
