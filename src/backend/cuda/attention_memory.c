/* What the engines GLA and DELTA share on the library's side. */
#include "attention_memory.h"

const char *bo_cuda_memory_refuses(const bo_attention *attention)
{
    const bo_attention_desc *desc = bo_attention_describe(attention);
    _Static_assert(BO_CUDA_MEMORY_MOST_DIM == 256, "the message");
    return desc->dim > BO_CUDA_MEMORY_MOST_DIM ? "if queries and keys have more than 256 numbers" : NULL;
}

bool bo_cuda_memory_is_step(const bo_cuda_attention *call)
{
    return call->states && call->k && !call->reads_first && !call->saved &&
           call->queries.rows <= 2 * (size_t)call->queries.sequences;
}

size_t bo_cuda_memory_tiles(const bo_cuda_rows *rows, int chunk)
{
    return rows->rows / (size_t)chunk + (size_t)rows->sequences;
}

bo_cuda_memory bo_cuda_memory_of(const bo_attention *attention, const bo_cuda_attention *call, int chunk, size_t bytes,
                                 bool backward, bo_carver *carver)
{
    const size_t matrices = (size_t)call->key_heads * (size_t)call->dim * (size_t)call->value_dim,
                 chunks = call->k ? bo_cuda_memory_tiles(&call->keys, chunk) * matrices : 0,
                 ends = call->reads_first ? (size_t)call->keys.sequences * matrices : 0;
    bo_cuda_memory out = {.call = *call,
                          .delta = bo_attention_describe(attention)->kind == BO_ATTENTION_DELTA,
                          .unit = bo_attention_describe(attention)->unit,
                          .chunk = chunk};
    out.memories = bo_carve(carver, chunks, bytes);
    if (backward) out.slopes = bo_carve(carver, chunks, bytes);
    if (ends) out.ends = bo_carve_floats(carver, ends);
    if (ends && backward) out.end_slopes = bo_carve_floats(carver, ends);
    return out;
}
