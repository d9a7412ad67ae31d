/* Sparse rows: growth, copies, dense form, distances. */
#include "sparse.h"
#include <assert.h>
#include <math.h>
#include <string.h>
#include "../base/base.h"

bo_status bo_sparse_check(bo_context *context, const bo_sparse *rows)
{
    if (rows->rows > 0 && !rows->start) return bo_fail(context, BO_INVALID, "sparse rows: 'start' is NULL");
    for (size_t i = 0; i < rows->rows; i++) {
        const size_t begin = rows->start[i], end = rows->start[i + 1];
        if (begin > end)
            return bo_fail(context, BO_INVALID, "row %zu: expected ascending offsets, found %zu after %zu", i, end,
                           begin);
        if (begin < end && (!rows->column || !rows->value))
            return bo_fail(context, BO_INVALID, "sparse rows: '%s' is NULL", rows->column ? "value" : "column");
        for (size_t k = begin; k < end; k++)
            if (rows->column[k] >= rows->dim || (k > begin && rows->column[k] <= rows->column[k - 1]))
                return bo_fail(context, BO_INVALID, "row %zu: expected ascending columns below %zu, found column %u", i,
                               rows->dim, (unsigned)rows->column[k]);
    }
    return BO_OK;
}

bo_status bo_sparse_create(bo_context *context, size_t dim, bo_sparse_block **out)
{
    enum { ROWS = 64, NUMBERS = 1024 };
    bo_sparse_block *block = *out = bo_alloc(context, 1, sizeof *block, "sparse rows");
    if (!block) return BO_MEMORY;
    block->rows.dim = dim;
    block->rows.start = bo_alloc(context, ROWS + 1, sizeof(size_t), "sparse rows");
    block->rows.column = bo_alloc_raw(context, NUMBERS, sizeof(uint32_t), "sparse rows");
    block->rows.value = bo_alloc_raw(context, NUMBERS, sizeof(float), "sparse rows");
    block->row_capacity = ROWS;
    block->number_capacity = NUMBERS;
    if (block->rows.start && block->rows.column && block->rows.value) return BO_OK;
    bo_sparse_destroy(&block->rows);
    *out = NULL;
    return BO_MEMORY;
}

void bo_sparse_destroy(const bo_sparse *rows)
{
    if (!rows) return;
    bo_free((void *)rows->start);
    bo_free((void *)rows->column);
    bo_free((void *)rows->value);
    bo_free((void *)rows);
}

/* Replaces an array by a larger one; on failure it stays as it is. */
static bo_status grow(bo_context *context, const void *array, size_t count, size_t size, void *out)
{
    void *larger = bo_realloc(context, (void *)array, count, size, "sparse rows");
    if (!larger) return BO_MEMORY;
    memcpy(out, &larger, sizeof larger);
    return BO_OK;
}

bo_status bo_sparse_reserve(bo_context *context, bo_sparse_block *block, size_t numbers)
{
    bo_sparse *rows = &block->rows;
    if (rows->rows == block->row_capacity) {
        const size_t capacity = 2 * block->row_capacity;
        BO_TRY(grow(context, rows->start, capacity + 1, sizeof(size_t), &rows->start));
        block->row_capacity = capacity;
    }
    const size_t needed = block->numbers + numbers;
    if (needed <= block->number_capacity) return BO_OK;
    const size_t capacity = needed > block->number_capacity / 2 * 3 ? needed : block->number_capacity / 2 * 3;
    BO_TRY(grow(context, rows->column, capacity, sizeof(uint32_t), &rows->column));
    BO_TRY(grow(context, rows->value, capacity, sizeof(float), &rows->value));
    block->number_capacity = capacity;
    return BO_OK;
}

void bo_sparse_put(bo_sparse_block *block, size_t column, float value)
{
    assert(block->numbers < block->number_capacity && column < block->rows.dim);
    ((uint32_t *)block->rows.column)[block->numbers] = (uint32_t)column;
    ((float *)block->rows.value)[block->numbers++] = value;
}

void bo_sparse_end_row(bo_sparse_block *block)
{
    assert(block->rows.rows < block->row_capacity);
    ((size_t *)block->rows.start)[++block->rows.rows] = block->numbers;
}

void bo_sparse_clear(bo_sparse_block *block)
{
    block->rows.rows = block->numbers = 0;
}

bo_status bo_sparse_append(bo_context *context, bo_sparse_block *block, const bo_sparse *from, size_t row)
{
    const size_t first = from->start[row], end = from->start[row + 1];
    BO_TRY(bo_sparse_reserve(context, block, end - first));
    for (size_t k = first; k < end; k++) bo_sparse_put(block, from->column[k], from->value[k]);
    bo_sparse_end_row(block);
    return BO_OK;
}

bo_status bo_sparse_gather(bo_context *context, const bo_sparse *from, const size_t *index, size_t count,
                           bo_sparse_block **out)
{
    BO_TRY(bo_sparse_create(context, from->dim, out));
    for (size_t i = 0; i < count; i++) {
        if (bo_sparse_append(context, *out, from, index[i]) == BO_OK) continue;
        bo_sparse_destroy(&(*out)->rows);
        *out = NULL;
        return BO_MEMORY;
    }
    return BO_OK;
}

void bo_sparse_expand(const bo_sparse *rows, size_t row, float *x)
{
    memset(x, 0, rows->dim * sizeof *x);
    for (size_t k = rows->start[row]; k < rows->start[row + 1]; k++) x[rows->column[k]] = rows->value[k];
}

/* Rows of a block of bo_sparse_expand_blocks. */
static size_t expanded_rows(size_t rows, size_t dim)
{
    enum { NUMBERS = BO_SIZE(1 << 22, 64) };
    return bo_min(rows, NUMBERS / bo_max(dim, 1) + 1);
}

double bo_expanded_bytes(size_t rows, size_t dim)
{
    return (double)expanded_rows(rows, dim) * (double)dim * sizeof(float);
}

bo_status bo_sparse_expand_blocks(bo_context *context, const bo_sparse *rows, bo_dense_rows_fn use, void *arg)
{
    size_t dim = rows->dim, block = expanded_rows(rows->rows, dim);
    float *x = bo_alloc_raw(context, block * dim, sizeof *x, "a block of sparse rows");
    bo_status status = x ? BO_OK : BO_MEMORY;
    for (size_t first = 0; status == BO_OK && first < rows->rows; first += block) {
        size_t count = bo_min(block, rows->rows - first);
        for (size_t r = 0; r < count; r++) bo_sparse_expand(rows, first + r, x + r * dim);
        status = use(context, arg, first, count, x);
    }
    bo_free(x);
    return status;
}

/* Merges the two rows, whose columns ascend. */
bo_sparse_pair bo_sparse_compare(const bo_sparse *rows, size_t a, size_t b, const float *length_scales, double gamma)
{
    size_t i = rows->start[a], j = rows->start[b], i_end = rows->start[a + 1], j_end = rows->start[b + 1];
    bo_sparse_pair pair = {.product = 1};
    while (i < i_end || j < j_end) {
        const uint32_t left = i < i_end ? rows->column[i] : UINT32_MAX;
        const uint32_t right = j < j_end ? rows->column[j] : UINT32_MAX, column = left < right ? left : right;
        const double x = left == column ? (double)rows->value[i++] : 0,
                     y = right == column ? (double)rows->value[j++] : 0;
        const double d = (x - y) / (length_scales ? (double)length_scales[column] : 1);
        pair.square += d * d;
        pair.sum += fabs(d);
        pair.product *= 1 + gamma * d * gamma * d;
    }
    return pair;
}
