/* Triangular solves X := L⁻¹ X and L⁻ᵀ X: substitution along the diagonal blocks, GEMM beside them. With one
 * or two right-hand sides the work is reading L once, and plain vector recurrences do that without packing
 * anything. */
#include "linalg.h"
#include "panel.h"
#include "substitution.h"

enum { FEW = 2, VECTOR_BLOCK = 128, VECTOR_TASK = 64 };

/* ---- one right-hand side ------------------------------------------------------------------------------- */

typedef struct vector_job {
    const double *l;
    size_t ldl;
    double *x;
    size_t first, last; /* the block of x just solved */
    size_t n;
} vector_job;

/* Four sums so that the additions overlap; their order is fixed. */
static double dot(size_t n, const double *x, const double *y)
{
    double sum[4] = {0};
    size_t i = 0;
    for (; i + 4 <= n; i += 4) {
        for (size_t j = 0; j < 4; j++) sum[j] += x[i + j] * y[i + j];
    }
    for (; i < n; i++) sum[0] += x[i] * y[i];
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

/* Task: rows below the block lose their products with it. */
static void subtract_below(void *arg, size_t index, int worker)
{
    (void)worker;
    const vector_job *job = arg;
    size_t begin = job->last + index * VECTOR_TASK, end = bo_smaller(begin + VECTOR_TASK, job->n);
    for (size_t i = begin; i < end; i++) {
        job->x[i] -= dot(job->last - job->first, job->l + i * job->ldl + job->first, job->x + job->first);
    }
}

/* Task: entries above the block lose their products with it, row of L by row of L. */
static void subtract_above(void *arg, size_t index, int worker)
{
    (void)worker;
    const vector_job *job = arg;
    size_t begin = index * VECTOR_TASK, end = bo_smaller(begin + VECTOR_TASK, job->first);
    for (size_t p = job->first; p < job->last; p++) {
        const double *row = job->l + p * job->ldl;
        double factor = job->x[p];
        for (size_t i = begin; i < end; i++) job->x[i] -= factor * row[i];
    }
}

static void vector_lower(bo_context *context, size_t n, const double *l, size_t ldl, double *x)
{
    vector_job job = {.l = l, .ldl = ldl, .x = x, .n = n};
    for (size_t first = 0; first < n; first += VECTOR_BLOCK) {
        job.first = first;
        job.last = bo_smaller(first + VECTOR_BLOCK, n);
        for (size_t i = first; i < job.last; i++) {
            x[i] = (x[i] - dot(i - first, l + i * ldl + first, x + first)) / l[i * ldl + i];
        }
        bo_parallel(context, bo_ceil_div(n - job.last, VECTOR_TASK), subtract_below, &job);
    }
}

static void vector_lower_t(bo_context *context, size_t n, const double *l, size_t ldl, double *x)
{
    vector_job job = {.l = l, .ldl = ldl, .x = x, .n = n};
    for (size_t block = bo_ceil_div(n, VECTOR_BLOCK); block-- > 0;) {
        job.first = block * VECTOR_BLOCK;
        job.last = bo_smaller(job.first + VECTOR_BLOCK, n);
        for (size_t p = job.last; p-- > job.first;) {
            x[p] /= l[p * ldl + p];
            for (size_t i = job.first; i < p; i++) x[i] -= x[p] * l[p * ldl + i];
        }
        bo_parallel(context, bo_ceil_div(job.first, VECTOR_TASK), subtract_above, &job);
    }
}

static bo_status few(bo_context *context, bool transposed, size_t n, size_t m, const double *l, size_t ldl, double *x,
                     size_t ldx)
{
    double *column = bo_alloc_raw(context, n, sizeof *column, "a right-hand side");
    if (!column) return BO_MEMORY;
    for (size_t j = 0; j < m; j++) {
        for (size_t i = 0; i < n; i++) column[i] = x[i * ldx + j];
        if (transposed) {
            vector_lower_t(context, n, l, ldl, column);
        } else {
            vector_lower(context, n, l, ldl, column);
        }
        for (size_t i = 0; i < n; i++) x[i * ldx + j] = column[i];
    }
    bo_free(column);
    return BO_OK;
}

/* ---- many right-hand sides ----------------------------------------------------------------------------- */

static bo_status many_lower(bo_context *context, bo_substitution *substitution, size_t n, size_t m, const double *l,
                            size_t ldl, double *x, size_t ldx)
{
    size_t step = bo_substitution_rows(context);
    for (size_t first = 0; first < n; first += step) {
        size_t rows = bo_smaller(step, n - first), last = first + rows;
        bo_substitution_solve(context, substitution, BO_TRIANGLE_LOWER, rows, l + first * ldl + first, ldl, m,
                              x + first * ldx, ldx);
        BO_TRY(bo_gemm64(context, false, false, n - last, m, rows, -1.0, l + last * ldl + first, ldl, x + first * ldx,
                         ldx, 1.0, x + last * ldx, ldx));
    }
    return BO_OK;
}

static bo_status many_lower_t(bo_context *context, bo_substitution *substitution, size_t n, size_t m, const double *l,
                              size_t ldl, double *x, size_t ldx)
{
    size_t step = bo_substitution_rows(context);
    for (size_t block = bo_ceil_div(n, step); block-- > 0;) {
        size_t first = block * step, rows = bo_smaller(step, n - first);
        bo_substitution_solve(context, substitution, BO_TRIANGLE_LOWER_TRANSPOSED, rows, l + first * ldl + first, ldl,
                              m, x + first * ldx, ldx);
        BO_TRY(bo_gemm64(context, true, false, first, m, rows, -1.0, l + first * ldl, ldl, x + first * ldx, ldx, 1.0, x,
                         ldx));
    }
    return BO_OK;
}

static bo_status solve(bo_context *context, bool transposed, size_t n, size_t m, const double *l, size_t ldl, double *x,
                       size_t ldx)
{
    if (n == 0 || m == 0) return BO_OK;
    if (m <= FEW) return few(context, transposed, n, m, l, ldl, x, ldx);
    bo_substitution *substitution;
    BO_TRY(bo_substitution_create(context, bo_smaller(n, bo_substitution_rows(context)), m, &substitution));
    bo_status status = transposed ? many_lower_t(context, substitution, n, m, l, ldl, x, ldx)
                                  : many_lower(context, substitution, n, m, l, ldl, x, ldx);
    bo_substitution_destroy(substitution);
    return status;
}

bo_status bo_solve_lower(bo_context *context, size_t n, size_t m, const double *l, size_t ldl, double *x, size_t ldx)
{
    return solve(context, false, n, m, l, ldl, x, ldx);
}

bo_status bo_solve_lower_t(bo_context *context, size_t n, size_t m, const double *l, size_t ldl, double *x, size_t ldx)
{
    return solve(context, true, n, m, l, ldl, x, ldx);
}
