/* Softmax attention and powers over explicit keys on the device: device/cuda/exact*.cu. */
#include "../kv_cache.h"
#include "engine.h"

/* heads x rows of queries. */
static size_t tape_floats(const bo_gpu_attention *call)
{
    return bo_padded((size_t)call->heads * call->queries.rows);
}

static size_t saved(const bo_attention *attention, const bo_gpu_attention *call)
{
    (void)attention;
    return 2 * tape_floats(call) * sizeof(float);
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */

enum { STEP_WIDTH = 128, PANELS_OF_A_BLOCK = 4, PANEL = 64, BLOCKS_OF_A_PROCESSOR = 32, MAX_PARTS = 64 };

/* True if there are at most as many queries as sequences, typically one per sequence: keys are then divided among
 * blocks. */
static bool is_step(const bo_attention *attention, const bo_gpu_attention *call)
{
    const bool panels = BO_PANEL == (int)PANEL; /* not in builds with tiny blocks */
    const bool supported = panels && !(attention->traits & BO_TRAIT_POWER) && call->value_dim <= STEP_WIDTH;
    const bool reads_another_stream = call->cross && bo_gpu_has(call, BO_GPU_ARRAY_K);
    return supported && !reads_another_stream && call->queries.rows <= (size_t)call->queries.sequences;
}

/* Number of parts that the keys of a sequence are split into, so that the parts occupy the device. */
static size_t parts_of(const bo_attention *attention, const bo_gpu_attention *call)
{
    const size_t cached_keys = attention->cached_keys;
    const size_t blocks = bo_max(1, call->queries.rows * (size_t)call->key_heads);
    const size_t requested_parts = bo_ceil_div((size_t)call->processors * BLOCKS_OF_A_PROCESSOR, blocks);
    const size_t max_parts = bo_max(1, bo_ceil_div(cached_keys, PANEL * PANELS_OF_A_BLOCK));
    return bo_min(bo_min(requested_parts, max_parts), MAX_PARTS);
}

static size_t partial_floats(const bo_attention *attention, const bo_gpu_attention *call)
{
    return parts_of(attention, call) * call->queries.rows * (size_t)call->heads * ((size_t)call->value_dim + 2);
}

/* ---- engine ------------------------------------------------------------------------------------------------------ */

static size_t scratch(const bo_attention *attention, const bo_gpu_attention *call, bool backward)
{
    if (backward) return tape_floats(call) * sizeof(float);
    return is_step(attention, call) ? partial_floats(attention, call) * sizeof(float) : 0;
}

static bo_gpu_exact describe(const bo_attention *attention, const bo_gpu_attention *call)
{
    bo_gpu_exact out = {.at = *call,
                        .window = (int)attention->desc.window,
                        .capacity = (int)attention->cached_keys,
                        .panel = BO_PANEL,
                        .top = call->saved};
    if (attention->traits & BO_TRAIT_POWER) out.power = (float)attention->desc.power;
    if (out.top) out.sum = out.top + tape_floats(call);
    return out;
}

static bool in_tiles(const bo_attention *attention, const bo_gpu_attention *call)
{
    return bo_gpu_exact_in_tiles(call, attention->traits & BO_TRAIT_POWER);
}

static bo_status forward(bo_context *context, const bo_attention *attention, const bo_gpu_attention *call)
{
    bo_gpu_exact e = describe(attention, call);
    if (call->continues && is_step(attention, call) && !call->keeps) {
        e.partial = call->scratch, e.parts = (int)parts_of(attention, call);
        return BO_LAUNCH(context, exact_step, &e);
    }
    if (in_tiles(attention, call)) BO_TRY(bo_gpu_require_aligned(context, call));
    BO_TRY(BO_LAUNCH(context, exact_forward, &e));
    return call->continues && bo_gpu_has(call, BO_GPU_ARRAY_K) ? BO_LAUNCH(context, exact_append, &e) : BO_OK;
}

static bo_status backward(bo_context *context, const bo_attention *attention, const bo_gpu_attention *call)
{
    bo_gpu_exact e = describe(attention, call);
    e.delta = call->scratch;
    if (in_tiles(attention, call)) BO_TRY(bo_gpu_require_aligned(context, call));
    return BO_LAUNCH(context, exact_backward, &e);
}

const bo_gpu_engine bo_gpu_engine_exact = {
    .reads_first = true,
    .saved = saved,
    .scratch = scratch,
    .forward = forward,
    .backward = backward,
};
