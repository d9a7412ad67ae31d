/* What the engines GLA and DELTA share on the library's side. */
#include "memory.h"

const char *bo_gpu_memory_refuses(const bo_attention *attention, const bo_gpu_properties *gpu)
{
    (void)gpu;
    const bo_attention_desc *desc = &attention->desc;
    _Static_assert(BO_GPU_MEMORY_MOST_DIM == 256, "the message");
    return desc->dim > BO_GPU_MEMORY_MOST_DIM ? "if queries and keys have more than 256 numbers" : NULL;
}

bool bo_gpu_memory_is_step(const bo_gpu_attention *call)
{
    return call->continues && bo_gpu_has(call, BO_GPU_ARRAY_K) && !call->reads_first && !call->keeps &&
           call->queries.rows <= 2 * (size_t)call->queries.sequences;
}

size_t bo_gpu_memory_tiles(const bo_gpu_rows *rows, int chunk)
{
    return rows->rows / (size_t)chunk + (size_t)rows->sequences;
}

bo_gpu_memory bo_gpu_memory_of(const bo_attention *attention, const bo_gpu_attention *call, int chunk, size_t bytes,
                               bool backward, bo_carver *carver)
{
    const size_t matrices = (size_t)call->key_heads * (size_t)call->dim * (size_t)call->value_dim,
                 chunks = bo_gpu_has(call, BO_GPU_ARRAY_K) ? bo_gpu_memory_tiles(&call->keys, chunk) * matrices : 0,
                 ends = call->reads_first ? (size_t)call->keys.sequences * matrices : 0;
    bo_gpu_memory out = {.call = *call,
                         .delta = attention->desc.kind == BO_ATTENTION_DELTA,
                         .unit = attention->desc.unit,
                         .chunk = chunk};
    out.memories = bo_carve(carver, chunks, bytes);
    if (backward) out.slopes = bo_carve(carver, chunks, bytes);
    if (ends) out.ends = bo_carve_floats(carver, ends);
    if (ends && backward) out.end_slopes = bo_carve_floats(carver, ends);
    return out;
}
