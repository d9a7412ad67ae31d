/* Reduction of a symmetric matrix to tridiagonal form by Householder reflectors (Golub and Van Loan, 8.3.1), in blocks
 * as in LAPACK's dsytrd.
 *
 * H A H = A - v wᵀ - w vᵀ with p = τ A v and w = p - (τ/2) (pᵀv) v. Within a block the matrix is not updated; a row is
 * corrected when it is reached, and so is each product A v. After the block, all its updates are one matrix product.
 * The products A v are half of the operations and read the upper triangle once per row: 4/3 n³ bytes in all. */
#include <string.h>
#include "../device/cpu/kernels.h"
#include "reflect.h"
#include "linalg.h"
#include "progress.h"
#include "tridiagonal.h"

enum {
    BLOCK = BO_SIZE(32, 3),      /* rows whose updates are collected */
    GROUP = 4,                   /* rows of the triangle that are read together */
    STRIPS = BO_SIZE(16, 4),     /* maximum number of tasks of a product A v */
    PART = BO_SIZE(1 << 14, 16), /* at least this many numbers of A per task */
};

/* pairs: rows v_0, w_0, v_1, w_1, … of the block; swapped: w_0, v_0, …; so the sum of all v wᵀ + w vᵀ is pairsᵀ
 * swapped. Columns are those of A. sums: one row per strip. workspace: of the matrix product. */
typedef struct reduction {
    bo_context *context;
    const bo_kernels *kernels;
    size_t n, lda;
    double *a, *pairs, *swapped, *sums;
    void *workspace;
    /* the current product: the triangle of rows >= first times x = v + first */
    size_t first, strips;
    const double *v;
} reduction;

/* Returns the first row of a strip of the triangle of m rows: all strips have about the same area. */
static size_t strip_begin(size_t m, size_t strips, size_t strip)
{
    size_t low = 0, high = m, target_area = m * m / strips * strip;
    if (strip == strips) return m;
    while (low < high) { /* the smallest row with at least the target area above it */
        size_t middle = (low + high) / 2, area = m * m - (m - middle) * (m - middle);
        if (area < target_area) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Adds the products of rows [begin, end) of the triangle, and of the columns that mirror them, to y. */
static void multiply_rows(const reduction *r, size_t begin, size_t end, const double *x, double *y)
{
    size_t m = r->n - r->first;
    const double *a = r->a + r->first * r->lda + r->first;
    for (size_t i = begin; i < end; i += GROUP) {
        size_t rows = bo_min(GROUP, end - i), next = i + rows;
        for (size_t p = i; p < next; p++) {
            y[p] += a[p * r->lda + p] * x[p];
            for (size_t q = p + 1; q < next; q++) {
                y[p] += a[p * r->lda + q] * x[q];
                y[q] += a[p * r->lda + q] * x[p];
            }
        }
        r->kernels->dots_combine64(rows, m - next, a + i * r->lda + next, r->lda, x + next, y + i, x + i, y + next);
    }
}

static void strip_task(void *arg, size_t index, int worker)
{
    (void)worker;
    const reduction *r = arg;
    size_t m = r->n - r->first, begin = strip_begin(m, r->strips, index), end = strip_begin(m, r->strips, index + 1);
    double *y = r->sums + index * r->n;
    memset(y + begin, 0, (m - begin) * sizeof *y);
    multiply_rows(r, begin, end, r->v + r->first, y);
}

/* Computes w = A v for the rows and columns >= first; the sums of the strips are added in their order. */
static void multiply(reduction *r, size_t first, const double *v, double *w)
{
    size_t m = r->n - first;
    r->first = first, r->v = v;
    r->strips = bo_max(1, bo_min(STRIPS, m * m / 2 / PART));
    bo_parallel(r->context, r->strips, strip_task, r);
    memcpy(w + first, r->sums, m * sizeof *w);
    for (size_t s = 1; s < r->strips; s++) {
        const double *restrict y = r->sums + s * r->n;
        double *restrict to = w + first;
        for (size_t i = strip_begin(m, r->strips, s); i < m; i++) to[i] += y[i];
    }
}

/* Applies the `count` updates of the block so far to row `row`, right of and including the diagonal. */
static void correct_row(const reduction *r, size_t row, size_t count)
{
    double factors[2 * BLOCK];
    for (size_t q = 0; q < 2 * count; q++) factors[q] = -r->swapped[q * r->n + row];
    r->kernels->combine64(2 * count, r->n - row, r->pairs + row, r->n, factors, r->a + row * r->lda + row);
}

/* Computes w of the reflector (v, tau), whose numbers before `first` are zero; `count` updates precede it. */
static void make_update(reduction *r, size_t first, size_t count, const double *v, double tau, double *w)
{
    size_t m = r->n - first;
    double factors[2 * BLOCK] = {0}, half = 0;
    multiply(r, first, v, w);
    r->kernels->dots64(2 * count, m, r->swapped + first, r->n, v + first, factors);
    for (size_t q = 0; q < 2 * count; q++) factors[q] = -factors[q];
    r->kernels->combine64(2 * count, m, r->pairs + first, r->n, factors, w + first);
    for (size_t i = first; i < r->n; i++) w[i] *= tau;
    r->kernels->dots64(1, m, w + first, m, v + first, &half);
    half *= -tau / 2;
    r->kernels->combine64(1, m, v + first, m, &half, w + first);
}

/* Reduces row `row`, number q of its block. */
static void reduce_row(reduction *r, size_t row, size_t q, double *d, double *e, double *tau)
{
    size_t first = row + 1, bytes = (r->n - first) * sizeof *d;
    double *a = r->a + row * r->lda, *v = r->pairs + 2 * q * r->n, *w = v + r->n;
    correct_row(r, row, q);
    d[row] = a[row];
    if (first == r->n) return;
    e[row] = bo_reflector(r->context, r->n - first, a + first, &tau[row]);
    memcpy(v + first, a + first, bytes);
    make_update(r, first, q, v, tau[row], w);
    memcpy(r->swapped + 2 * q * r->n + first, w + first, bytes);
    memcpy(r->swapped + (2 * q + 1) * r->n + first, v + first, bytes);
}

static bo_status reduce(reduction *r, double *d, double *e, double *tau)
{
    for (size_t row = 0; row < r->n; row += BLOCK) {
        BO_TRY(bo_factorization_progress(r->context, "computing eigenvectors", r->n, row));
        size_t count = bo_min(BLOCK, r->n - row), next = row + count;
        for (size_t q = 0; q < count; q++) reduce_row(r, row + q, q, d, e, tau);
        if (next < r->n) {
            bo_gemm64_upper(r->context, r->n - next, 2 * count, -1, r->pairs + next, r->swapped + next, r->n,
                            r->a + next * r->lda + next, r->lda, r->workspace);
        }
    }
    return BO_OK;
}

bo_status bo_tridiagonalize(bo_context *context, size_t n, double *a, size_t lda, double *d, double *e, double *tau)
{
    reduction r = {.context = context, .kernels = bo_context_kernels(context), .n = n, .lda = lda, .a = a};
    r.pairs = bo_alloc_raw(context, 4 * BLOCK + STRIPS, n * sizeof(double), "a tridiagonal matrix");
    r.workspace = bo_alloc_raw(context, bo_gemm64_bytes(context, n, n, 2 * BLOCK), 1, "a tridiagonal matrix");
    bo_status status = r.pairs && r.workspace ? BO_OK : BO_MEMORY;
    if (status == BO_OK) {
        r.swapped = r.pairs + 2 * BLOCK * n;
        r.sums = r.swapped + 2 * BLOCK * n;
        status = reduce(&r, d, e, tau);
    }
    bo_free(r.pairs);
    bo_free(r.workspace);
    return status;
}
