/* The engine of the kinds with a matrix memory, GLA and DELTA, by chunks of tokens: device/cuda/gla.cu, delta.cu,
 * memory.cu. */
#include "engine.h"

/* as in gla.cu; the largest dim, limited by the kernels' shared memory, and that of the kernels for tensor cores */
enum { GLA_CHUNK = 64, MAX_DIM = 256, FAST_DIM = 128 };

static const char *refuses(const bo_attention *attention, const bo_gpu_properties *gpu)
{
    (void)gpu;
    _Static_assert(MAX_DIM == 256, "the message");
    return attention->desc.dim > MAX_DIM ? "if dim is larger than 256" : NULL;
}

/* True if the call has about one token per sequence and continues from states: memory_step computes it. */
static bool is_step(const bo_gpu_attention *call)
{
    return call->continues && bo_gpu_has(call, BO_GPU_ARRAY_K) && !call->reads_first && !call->keeps &&
           call->queries.rows <= 2 * (size_t)call->queries.sequences;
}

/* True if the kernels for tensor cores compute the call. */
static bool is_fast(const bo_gpu_attention *call)
{
    return call->type == BO_ELEMENT_BFLOAT16 && call->dim <= FAST_DIM && !call->reads_first &&
           bo_gpu_has(call, BO_GPU_ARRAY_K);
}

/* DELTA: shared memory holds fewer keys if dim is larger. */
static int chunk_of(const bo_gpu_attention *call, bool delta, bool fast)
{
    if (!delta || fast) return GLA_CHUNK;
    return call->dim <= 64 ? 64 : call->dim <= 128 ? 32 : 16;
}

/* DELTA: errors of the memory, and their derivatives with respect to it. */
static void carve_errors(const bo_gpu_attention *call, bool backward, bo_carver *carver, bo_gpu_memory *out)
{
    const size_t bytes = bo_gpu_bytes(call->type),
                 rows = bo_gpu_has(call, BO_GPU_ARRAY_K) ? call->keys.rows * (size_t)call->key_heads : 0;
    out->x = bo_carve(carver, rows * (size_t)call->value_dim, bytes);
    out->w = bo_carve(carver, rows * (size_t)call->dim, bytes);
    if (backward) out->du = bo_carve(carver, rows * (size_t)call->value_dim, bytes);
}

/* The arrays of the kernels for tensor cores. */
static void carve_fast(const bo_gpu_attention *call, size_t tiles, bool backward, bo_carver *carver, bo_gpu_memory *out)
{
    const size_t chunks = tiles * (size_t)call->key_heads, padded = call->dim <= 64 ? 64 : 128,
                 matrix = (size_t)call->value_dim * padded, half = sizeof(uint16_t);
    const size_t all = backward ? tiles * (size_t)call->heads : chunks;
    out->padded = (int)padded;
    out->memories = bo_carve(carver, chunks * matrix, half);
    if (backward) out->gradients = bo_carve(carver, all * matrix, half);
    out->parts = bo_carve_floats(carver, all * matrix);
    out->decays = bo_carve_floats(carver, chunks * padded);
    if (backward && call->heads != call->key_heads) {
        const size_t rows = call->keys.rows * (size_t)call->heads;
        out->dk_parts = bo_carve_floats(carver, rows * (size_t)call->dim);
        out->dv_parts = bo_carve_floats(carver, rows * (size_t)call->value_dim);
        out->dlog_parts = bo_carve_floats(carver, out->delta ? rows : rows * (size_t)call->dim);
        if (out->delta) out->dbeta_parts = bo_carve_floats(carver, rows);
    }
    if (!out->delta) return;
    carve_errors(call, false, carver, out);
    out->transitions = bo_carve(carver, chunks * padded * padded, half);
    if (backward) out->inverses = bo_carve(carver, chunks * 2 * GLA_CHUNK * GLA_CHUNK, half);
}

static bo_gpu_memory memory_of(const bo_attention *attention, const bo_gpu_attention *call, bool backward,
                               bo_carver *carver)
{
    const bool delta = attention->desc.kind == BO_ATTENTION_DELTA, fast = is_fast(call);
    bo_gpu_memory out = {.call = *call,
                         .delta = delta,
                         .unit = attention->desc.unit,
                         .fast = fast,
                         .chunk = chunk_of(call, delta, fast)};
    const size_t heads = (size_t)call->key_heads, matrices = heads * (size_t)call->dim * (size_t)call->value_dim,
                 bytes = delta ? bo_gpu_bytes(call->type) : sizeof(float),
                 tiles = bo_gpu_has(call, BO_GPU_ARRAY_K)
                             ? call->keys.rows / (size_t)out.chunk + (size_t)call->keys.sequences
                             : 0,
                 ends = call->reads_first ? (size_t)call->keys.sequences * matrices : 0;
    if (fast) {
        carve_fast(call, tiles, backward, carver, &out);
        return out;
    }
    out.memories = bo_carve(carver, tiles * matrices, bytes);
    if (backward) out.gradients = bo_carve(carver, tiles * matrices, bytes);
    if (ends) out.ends = bo_carve_floats(carver, ends);
    if (ends && backward) out.end_gradients = bo_carve_floats(carver, ends);
    if (delta)
        carve_errors(call, backward, carver, &out);
    else
        out.decays = bo_carve_floats(carver, tiles * heads * (size_t)call->dim);
    return out;
}

static size_t scratch(const bo_attention *attention, const bo_gpu_attention *call, bool backward)
{
    bo_carver carver = {0};
    memory_of(attention, call, backward, &carver);
    return carver.bytes;
}

static bo_status find_memories(bo_context *context, const bo_gpu_memory *memory)
{
    return memory->delta ? BO_LAUNCH(context, delta_memories, memory) : BO_LAUNCH(context, gla_memories, memory);
}

static bo_status forward(bo_context *context, const bo_attention *attention, const bo_gpu_attention *call)
{
    bo_carver carver = {.at = call->scratch};
    const bo_gpu_memory memory = memory_of(attention, call, false, &carver);
    const bool reads = bo_gpu_has(call, BO_GPU_ARRAY_K);
    if (is_step(call)) return BO_LAUNCH(context, memory_step, &memory);
    if (reads) BO_TRY(find_memories(context, &memory));
    if (!reads || call->reads_first) return BO_LAUNCH(context, memory_read, &memory);
    return memory.delta ? BO_LAUNCH(context, delta_outputs, &memory) : BO_LAUNCH(context, gla_outputs, &memory);
}

static bo_status backward(bo_context *context, const bo_attention *attention, const bo_gpu_attention *call)
{
    bo_carver carver = {.at = call->scratch};
    const bo_gpu_memory memory = memory_of(attention, call, true, &carver);
    BO_TRY(find_memories(context, &memory));
    if (call->reads_first) BO_TRY(BO_LAUNCH(context, memory_read_gradients, &memory));
    return memory.delta ? BO_LAUNCH(context, delta_gradients, &memory) : BO_LAUNCH(context, gla_gradients, &memory);
}

const bo_gpu_engine bo_gpu_engine_memory = {
    .refuses = refuses,
    .reads_first = true,
    .scratch = scratch,
    .forward = forward,
    .backward = backward,
};
