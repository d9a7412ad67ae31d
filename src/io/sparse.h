/* Sparse rows that own their arrays. */
#ifndef BO_IO_SPARSE_H
#define BO_IO_SPARSE_H

#include <bochner/data.h>

/* Invariants: `rows` is the first member, so that a pointer to it is a pointer to the block; its arrays belong to the
 * block and have capacity row_capacity + 1 (offsets) and number_capacity (numbers). */
typedef struct bo_sparse_block {
    bo_sparse rows;
    size_t row_capacity, number_capacity;
    size_t numbers; /* stored numbers, including the row that is being filled */
} bo_sparse_block;

/* BO_INVALID unless offsets and columns ascend, columns are below `dim` and no array that is needed is NULL. For rows
 * of a caller. */
bo_status bo_sparse_check(bo_context *context, const bo_sparse *rows);
bo_status bo_sparse_create(bo_context *context, size_t dim, bo_sparse_block **out);
/* Releases a block, given as its first member; or NULL. */
void bo_sparse_destroy(const bo_sparse *rows);
/* Reserves one more row with up to `numbers` numbers. */
bo_status bo_sparse_reserve(bo_context *context, bo_sparse_block *block, size_t numbers);
/* Adds a number to the row that bo_sparse_end_row completes; it must have been reserved. */
void bo_sparse_put(bo_sparse_block *block, size_t column, float value);
void bo_sparse_end_row(bo_sparse_block *block);
void bo_sparse_clear(bo_sparse_block *block);
/* Copies one row to the end. */
bo_status bo_sparse_append(bo_context *context, bo_sparse_block *block, const bo_sparse *from, size_t row);
/* Copies rows. */
bo_status bo_sparse_gather(bo_context *context, const bo_sparse *from, const size_t *index, size_t count,
                           bo_sparse_block **out);

static inline size_t bo_sparse_numbers(const bo_sparse *rows)
{
    return rows->start[rows->rows] - rows->start[0];
}
/* A view of some rows. */
static inline bo_sparse bo_sparse_slice(const bo_sparse *rows, size_t first, size_t count)
{
    return (bo_sparse){count, rows->dim, rows->start + first, rows->column, rows->value};
}
/* Writes a row in dense form: dim floats. */
void bo_sparse_expand(const bo_sparse *rows, size_t row, float *x);

/* Receives rows [first, first + count) in dense form: count x dim. */
typedef bo_status (*bo_dense_rows_fn)(bo_context *context, void *arg, size_t first, size_t count, const float *x);
/* Calls `use` for blocks of rows in dense form, at most bo_expanded_bytes at a time. */
bo_status bo_sparse_expand_blocks(bo_context *context, const bo_sparse *rows, bo_dense_rows_fn use, void *arg);
/* Bytes of a block: 16 MiB, or one row. */
double bo_expanded_bytes(size_t rows, size_t dim);

/* What kernels of differences need of two rows a and b; each column is divided by its length scale. */
typedef struct bo_sparse_pair {
    double square, sum; /* |a - b|², |a - b|₁ */
    double product;     /* Π (1 + γ² (a - b)_j²) */
} bo_sparse_pair;
bo_sparse_pair bo_sparse_compare(const bo_sparse *rows, size_t a, size_t b, const float *length_scales, double gamma);

#endif
