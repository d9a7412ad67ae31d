/* A block of gated linear attention: products of gates, and what they do to queries and keys. */
#include <string.h>
#include "gla.h"

bo_gla_block bo_gla_block_make(const bo_attention *attention, const bo_attention_inputs *in, size_t key_head,
                               bo_carver *carver)
{
    size_t dim = attention->desc.dim, size = BO_GATED_ROWS * dim;
    bo_gla_block block = {.attention = attention,
                          .kernels = attention->kernels,
                          .front = bo_row_transform_make(attention, in, key_head, carver),
                          .dim = dim,
                          .value_dim = attention->desc.value_dim};
    block.g = bo_carve_floats(carver, size);
    block.upto = bo_carve_floats(carver, size);
    block.after = bo_carve_floats(carver, size);
    block.whole = bo_carve_floats(carver, dim);
    block.k_after = bo_carve_floats(carver, size);
    block.q = bo_carve_floats(carver, size);
    block.q_upto = bo_carve_floats(carver, size);
    block.t = bo_carve_floats(carver, size);
    return block;
}

/* `whole` from the sum of the logarithms: the state is multiplied by it again and again, and the rounding of each gate
 * would add up where gates are near 1. */
static void take_gates(bo_gla_block *block, const float *log_gate, size_t ld)
{
    const bo_kernels *kernels = block->kernels;
    size_t dim = block->dim, last = block->rows - 1;
    memcpy(block->whole, log_gate, dim * sizeof *block->whole);
    for (size_t t = 0; t <= last; t++) {
        kernels->exp_below(dim, log_gate + t * ld, 0, block->g + t * dim);
        if (t) kernels->axpy(dim, 1, log_gate + t * ld, block->whole);
    }
    kernels->exp_below(dim, block->whole, 0, block->whole);
    memcpy(block->upto, block->g, dim * sizeof *block->upto);
    for (size_t t = 1; t <= last; t++)
        kernels->product(dim, block->upto + (t - 1) * dim, block->g + t * dim, false, block->upto + t * dim);
    for (size_t c = 0; c < dim; c++) block->after[last * dim + c] = 1;
    for (size_t t = last; t > 0; t--)
        kernels->product(dim, block->after + t * dim, block->g + t * dim, false, block->after + (t - 1) * dim);
}

void bo_gla_take(bo_gla_block *block, size_t rows, const float *k, size_t ldk, const float *log_gate, size_t ldg)
{
    size_t dim = block->dim;
    block->rows = rows;
    take_gates(block, log_gate, ldg);
    block->k = bo_row_transform_forward(&block->front, BO_OF_KEYS, rows, k, ldk, block->t, &block->ldk);
    for (size_t j = 0; j < rows; j++)
        block->kernels->product(dim, block->k + j * block->ldk, block->after + j * dim, false,
                                block->k_after + j * dim);
}

void bo_gla_scaled(const bo_gla_block *block, size_t rows, const float *q, size_t ldq, float *out)
{
    size_t ld, dim = block->dim;
    float scale = (float)block->attention->desc.scale;
    const float *ready = bo_row_transform_forward(&block->front, BO_OF_QUERIES, rows, q, ldq, out, &ld);
    for (size_t i = 0; i < rows; i++) block->kernels->scale(dim, scale, ready + i * ld, out + i * dim);
}

void bo_gla_ask(bo_gla_block *block, const float *q, size_t ldq)
{
    bo_gla_scaled(block, block->rows, q, ldq, block->q);
    block->kernels->product(block->rows * block->dim, block->q, block->upto, false, block->q_upto);
}

void bo_gla_scores(const bo_gla_block *block, float *scores, size_t ld)
{
    size_t rows = block->rows, dim = block->dim;
    block->kernels->gated_scores(rows, dim, block->q, dim, block->k, block->ldk, block->g, dim, scores, ld);
    for (size_t i = 0; i < rows; i++) memset(scores + i * ld + i + 1, 0, (rows - i - 1) * sizeof *scores);
}

void bo_gla_decay(const bo_gla_block *block, const float *decay, float *s)
{
    size_t values = block->value_dim;
    for (size_t c = 0; c < block->dim; c++) block->kernels->scale(values, decay[c], s + c * values, s + c * values);
}

void bo_gla_fetch(bo_rows rows, size_t first, size_t end, size_t width)
{
    bo_rows_fetch(rows, first, bo_least(first + BO_GATED_ROWS, end), width);
}
