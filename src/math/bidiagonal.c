/* Reduction of a square matrix to bidiagonal form by Householder reflectors (Golub and Van Loan, 5.4.2), in blocks as
 * in LAPACK's dgebrd.
 *
 * Within a block A is not updated: the current matrix is A - Σ_t (v_t y_tᵀ + x_t u_tᵀ) with the vectors v of U and u of
 * V. A row or column is corrected when it is reached, and so are the products with A. After the block, all updates are
 * one matrix product. */
#include "bidiagonal.h"

#include <string.h>
#include "../device/cpu/kernels.h"
#include "linalg.h"
#include "progress.h"
#include "reflect.h"

enum {
    BLOCK = BO_SIZE(32, 3),
    ROWS = BO_SIZE(64, 4),     /* rows per task of a product A x */
    COLUMNS = BO_SIZE(128, 8), /* columns per task of a product xᵀ A */
};

/* down: rows v_0, x_0, v_1, x_1, …, indexed by rows of A; across: y_0, u_0, …, indexed by columns. */
typedef struct reduction {
    bo_context *context;
    const bo_kernels *kernels;
    const bo_bidiagonal *b;
    double *down, *across;
    void *workspace;
    /* the current product: with the part of A from (row, column) */
    size_t row, column;
    const double *x;
    double *y;
} reduction;

static void rows_task(void *arg, size_t index, int worker)
{
    (void)worker;
    const reduction *r = arg;
    size_t n = r->b->n, begin = r->row + index * ROWS, end = bo_min(begin + ROWS, n);
    memset(r->y + begin, 0, (end - begin) * sizeof *r->y);
    r->kernels->dots64(end - begin, n - r->column, r->b->a + begin * n + r->column, n, r->x + r->column, r->y + begin);
}

static void columns_task(void *arg, size_t index, int worker)
{
    (void)worker;
    const reduction *r = arg;
    size_t n = r->b->n, begin = r->column + index * COLUMNS, end = bo_min(begin + COLUMNS, n);
    memset(r->y + begin, 0, (end - begin) * sizeof *r->y);
    r->kernels->combine64(n - r->row, end - begin, r->b->a + r->row * n + begin, n, r->x + r->row, r->y + begin);
}

/* y = A x over the columns from `column`, for the rows from `row`. */
static void multiply(reduction *r, size_t row, size_t column, const double *x, double *y)
{
    r->row = row, r->column = column, r->x = x, r->y = y;
    bo_parallel(r->context, bo_ceil_div(r->b->n - row, ROWS), rows_task, r);
}

static void multiply_transposed(reduction *r, size_t row, size_t column, const double *x, double *y)
{
    r->row = row, r->column = column, r->x = x, r->y = y;
    bo_parallel(r->context, bo_ceil_div(r->b->n - column, COLUMNS), columns_task, r);
}

/* Subtracts the updates from the product with x: y -= Σ_t to_t (from_t · x), over `count` rows of `to` and `from`. */
static void correct(const reduction *r, size_t count, const double *from, size_t at, const double *to, size_t begin,
                    const double *x, double *y)
{
    size_t n = r->b->n;
    double factors[2 * BLOCK] = {0};
    r->kernels->dots64(count, n - at, from + at, n, x + at, factors);
    for (size_t t = 0; t < count; t++) factors[t] = -factors[t];
    r->kernels->combine64(count, n - begin, to + begin, n, factors, y + begin);
}

static void scale(size_t n, double factor, double *x)
{
    for (size_t i = 0; i < n; i++) x[i] *= factor;
}

/* Reduces column i, number q of its block: v to `down` and `left`, y to `across`. */
static void reduce_column(reduction *r, size_t i, size_t q)
{
    const bo_bidiagonal *b = r->b;
    size_t n = b->n, bytes = (n - i) * sizeof(double);
    double *v = r->down + 2 * q * n, *y = r->across + 2 * q * n, factors[2 * BLOCK];
    for (size_t p = i; p < n; p++) v[p] = b->a[p * n + i];
    for (size_t t = 0; t < 2 * q; t++) factors[t] = -r->across[t * n + i];
    r->kernels->combine64(2 * q, n - i, r->down + i, n, factors, v + i);
    b->d[i] = bo_reflector(r->context, n - i, v + i, &b->left_tau[i]);
    memcpy(b->left + i * n + i, v + i, bytes);
    multiply_transposed(r, i, i + 1, v, y);
    correct(r, 2 * q, r->down, i, r->across, i + 1, v, y);
    scale(n - i - 1, b->left_tau[i], y + i + 1);
}

/* Reduces row i right of the diagonal: u to `across` and A, x to `down`. */
static void reduce_row(reduction *r, size_t i, size_t q)
{
    const bo_bidiagonal *b = r->b;
    size_t n = b->n, first = i + 1;
    double *u = r->across + (2 * q + 1) * n, *x = r->down + (2 * q + 1) * n, *a = b->a + i * n, factors[2 * BLOCK];
    for (size_t t = 0; t < 2 * q + 1; t++) factors[t] = -r->down[t * n + i];
    r->kernels->combine64(2 * q + 1, n - first, r->across + first, n, factors, a + first);
    b->e[i] = bo_reflector(r->context, n - first, a + first, &b->right_tau[i]);
    memcpy(u + first, a + first, (n - first) * sizeof *u);
    multiply(r, first, first, u, x);
    correct(r, 2 * q + 1, r->across, first, r->down, first, u, x);
    scale(n - first, b->right_tau[i], x + first);
}

static bo_status reduce(reduction *r)
{
    const bo_bidiagonal *b = r->b;
    size_t n = b->n;
    for (size_t first = 0; first < n; first += BLOCK) {
        BO_TRY(bo_factorization_progress(r->context, "computing singular vectors", n, first));
        size_t count = bo_min(BLOCK, n - first), next = first + count;
        for (size_t q = 0; q < count; q++) {
            reduce_column(r, first + q, q);
            if (first + q + 1 < n) reduce_row(r, first + q, q);
        }
        bo_gemm64_in(r->context, true, false, n - next, n - next, 2 * count, -1, r->down + next, n, r->across + next, n,
                     1, b->a + next * n + next, n, r->workspace);
    }
    return BO_OK;
}

bo_status bo_bidiagonalize(bo_context *context, const bo_bidiagonal *b)
{
    reduction r = {.context = context, .kernels = bo_context_kernels(context), .b = b};
    r.down = bo_alloc_raw(context, 4 * BLOCK, b->n * sizeof *r.down, "a bidiagonal matrix");
    r.workspace = bo_alloc_raw(context, bo_gemm64_bytes(context, b->n, b->n, 2 * BLOCK), 1, "a bidiagonal matrix");
    bo_status status = r.down && r.workspace ? BO_OK : BO_MEMORY;
    if (status == BO_OK) {
        r.across = r.down + 2 * BLOCK * b->n;
        status = reduce(&r);
    }
    bo_free(r.down);
    bo_free(r.workspace);
    return status;
}
