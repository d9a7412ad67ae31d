/* Cholesky factorization and triangular solves by blocked forward substitution.
 *
 * Substitution processes X in strips. Each strip is packed as a panel of B, so that the rows already solved are the
 * packed factor that the micro-kernel multiplies, and the tile that it updates consists of the next rows of the same
 * panel. Within a block of mr rows the plain recurrence runs, so the result is as stable as plain substitution (no
 * inverse is formed). */
#include <math.h>
#include <string.h>
#include "../base/trace.h"
#include "panel.h"
#include "../device/cpu/kernels.h"
#include "linalg.h"
#include "progress.h"
#include "upper.h"

/* The layout of the triangle in memory. Every case is solved as W X = X with W lower triangular and rows in ascending
 * order. */
typedef enum bo_triangle {
    BO_TRIANGLE_LOWER,            /* W[i][p] = t[i][p] */
    BO_TRIANGLE_UPPER_TRANSPOSED, /* W[i][p] = t[p][i] of an upper triangle t */
    BO_TRIANGLE_LOWER_TRANSPOSED, /* W = tᵀ of a lower triangle t, with rows and columns in reverse order */
} bo_triangle;

enum { ROWS = BO_SIZE(128, 8), STRIP = BO_SIZE(64, 8) }; /* STRIP: right-hand sides per task */

/* w: the lower triangle, `max_rows` numbers per row, with the reciprocals of its diagonal. slivers: -w left of the
 * diagonal blocks, packed as panels of A; the slivers of block s start at s * mr * max_rows. strips: one packed strip
 * per worker.
 */
typedef struct bo_substitution {
    size_t mr, nr, max_rows, strip;
    double *w, *slivers, *strips;
} bo_substitution;

typedef struct strip_job {
    const bo_substitution *substitution;
    const bo_kernels *kernels;
    size_t n, m;
    bool reversed;
    double *x;
    size_t ldx;
} strip_job;

/* Returns the number of rows of the largest triangle that is solved in one step: a multiple of the sliver of the
 * micro-kernel. */
static size_t bo_substitution_rows(const bo_context *context)
{
    return bo_whole_slivers(ROWS, bo_context_kernels(context)->gemm64.mr);
}

static void bo_substitution_destroy(bo_substitution *substitution)
{
    if (!substitution) return;
    bo_free(substitution->w);
    bo_free(substitution->slivers);
    bo_free(substitution->strips);
    bo_free(substitution);
}

/* Allocates for triangles of at most `rows` rows (<= bo_substitution_rows) and at most `columns` right-hand sides. */
static bo_status bo_substitution_create(bo_context *context, size_t rows, size_t columns, bo_substitution **out)
{
    *out = NULL;
    bo_substitution *made = bo_alloc(context, 1, sizeof *made, "a substitution");
    if (!made) return BO_MEMORY;
    const bo_kernels *kernels = bo_context_kernels(context);
    made->mr = kernels->gemm64.mr;
    made->nr = kernels->gemm64.nr;
    made->max_rows = bo_round_up(rows, made->mr);
    made->strip = bo_min(bo_whole_slivers(STRIP, made->nr), bo_round_up(columns, made->nr));
    size_t workers = (size_t)bo_context_threads(context);
    made->w = bo_alloc_raw(context, made->max_rows * made->max_rows, sizeof(double), "a substitution");
    made->slivers = bo_alloc_raw(context, made->max_rows * made->max_rows, sizeof(double), "a substitution");
    made->strips = bo_alloc_raw(context, workers * made->max_rows * made->strip, sizeof(double), "a substitution");
    if (!made->w || !made->slivers || !made->strips) {
        bo_substitution_destroy(made);
        return BO_MEMORY;
    }
    *out = made;
    return BO_OK;
}

static double element(bo_triangle triangle, size_t n, const double *t, size_t ldt, size_t i, size_t p)
{
    switch (triangle) {
    case BO_TRIANGLE_LOWER:
        return t[i * ldt + p];
    case BO_TRIANGLE_UPPER_TRANSPOSED:
        return t[p * ldt + i];
    case BO_TRIANGLE_LOWER_TRANSPOSED:
        return t[(n - 1 - p) * ldt + (n - 1 - i)];
    }
    return 0.0;
}

static void load(bo_substitution *substitution, bo_triangle triangle, size_t n, const double *t, size_t ldt)
{
    size_t max_rows = substitution->max_rows, mr = substitution->mr;
    double *w = substitution->w;
    for (size_t i = 0; i < n; i++) {
        for (size_t p = 0; p < i; p++) w[i * max_rows + p] = element(triangle, n, t, ldt, i, p);
        w[i * max_rows + i] = 1.0 / element(triangle, n, t, ldt, i, i);
    }
    for (size_t s = mr; s < n; s += mr) {
        bo_pack_f64(mr, bo_min(mr, n - s), s, -1.0, w + s * max_rows, max_rows, true,
                    substitution->slivers + s * max_rows);
    }
}

/* Runs the recurrence inside the block of rows [first, first + rows) for one sliver of nr right-hand sides. */
static void solve_block(const bo_substitution *substitution, size_t first, size_t rows, double *restrict x)
{
    size_t nr = substitution->nr, max_rows = substitution->max_rows;
    for (size_t i = first; i < first + rows; i++) {
        const double *w = substitution->w + i * max_rows;
        double *restrict row = x + i * nr;
        for (size_t p = first; p < i; p++) {
            for (size_t j = 0; j < nr; j++) row[j] -= w[p] * x[p * nr + j];
        }
        for (size_t j = 0; j < nr; j++) row[j] *= w[i];
    }
}

static void solve_sliver(const strip_job *job, double *x)
{
    const bo_substitution *substitution = job->substitution;
    size_t mr = substitution->mr, nr = substitution->nr;
    for (size_t s = 0; s < job->n; s += mr) {
        size_t rows = bo_min(mr, job->n - s);
        if (s > 0) {
            job->kernels->gemm64.f64(s, substitution->slivers + s * substitution->max_rows, x, x + s * nr, nr, rows, nr,
                                     true);
        }
        solve_block(substitution, s, rows, x);
    }
}

/* Copies one row of a strip to or from its position in the packed panel. */
static void move_row(const strip_job *job, size_t i, size_t first, size_t columns, double *panel, bool into)
{
    size_t nr = job->substitution->nr;
    double *row = job->x + (job->reversed ? job->n - 1 - i : i) * job->ldx + first;
    for (size_t j = 0; j < columns; j += nr) {
        double *place = panel + j * job->n + i * nr;
        size_t bytes = bo_min(nr, columns - j) * sizeof *row;
        if (into) {
            memset(place, 0, nr * sizeof *place);
            memcpy(place, row + j, bytes);
        } else {
            memcpy(row + j, place, bytes);
        }
    }
}

static void strip_task(void *arg, size_t index, int worker)
{
    const strip_job *job = arg;
    const bo_substitution *substitution = job->substitution;
    size_t first = index * substitution->strip, columns = bo_min(substitution->strip, job->m - first);
    double *panel = substitution->strips + (size_t)worker * substitution->max_rows * substitution->strip;
    for (size_t i = 0; i < job->n; i++) move_row(job, i, first, columns, panel, true);
    for (size_t j = 0; j < columns; j += substitution->nr) solve_sliver(job, panel + j * job->n);
    for (size_t i = 0; i < job->n; i++) move_row(job, i, first, columns, panel, false);
}

/* Computes X (n x m) := T⁻¹ X for the triangle T given by (triangle, t); n and m are within the limits given at
 * creation. */
static void bo_substitution_solve(bo_context *context, bo_substitution *substitution, bo_triangle triangle, size_t n,
                                  const double *t, size_t ldt, size_t m, double *x, size_t ldx)
{
    if (n == 0 || m == 0) return;
    load(substitution, triangle, n, t, ldt);
    strip_job job = {.substitution = substitution, .kernels = bo_context_kernels(context), .n = n, .m = m};
    job.reversed = triangle == BO_TRIANGLE_LOWER_TRANSPOSED;
    job.x = x, job.ldx = ldx;
    bo_parallel(context, bo_ceil_div(m, substitution->strip), strip_task, &job);
}

/* ---- triangular solves ------------------------------------------------------------------------------------------- */

/* Triangular solves X := L⁻¹ X and L⁻ᵀ X: substitution on the diagonal blocks, GEMM for the rest. With one or two
 * right-hand sides the cost is reading L once; plain vector recurrences do this without packing. */

enum { FEW = 2, VECTOR_BLOCK = BO_SIZE(128, 8), VECTOR_TASK = BO_SIZE(64, 4) };

/* ---- one right-hand side ----------------------------------------------------------------------------------------- */

typedef struct vector_job {
    const double *l;
    size_t ldl;
    double *x;
    size_t first, last; /* the block of x solved last */
    size_t n;
} vector_job;

/* Uses four sums so that the additions overlap; their order is fixed. */
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

/* Task: subtracts the products with the block from the rows below it. */
static void subtract_below(void *arg, size_t index, int worker)
{
    (void)worker;
    const vector_job *job = arg;
    size_t begin = job->last + index * VECTOR_TASK, end = bo_min(begin + VECTOR_TASK, job->n);
    for (size_t i = begin; i < end; i++) {
        job->x[i] -= dot(job->last - job->first, job->l + i * job->ldl + job->first, job->x + job->first);
    }
}

/* Task: subtracts the products with the block from the entries above it, one row of L at a time. */
static void subtract_above(void *arg, size_t index, int worker)
{
    (void)worker;
    const vector_job *job = arg;
    size_t begin = index * VECTOR_TASK, end = bo_min(begin + VECTOR_TASK, job->first);
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
        job.last = bo_min(first + VECTOR_BLOCK, n);
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
        job.last = bo_min(job.first + VECTOR_BLOCK, n);
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

/* ---- many right-hand sides --------------------------------------------------------------------------------------- */

static bo_status many_lower(bo_context *context, bo_substitution *substitution, size_t n, size_t m, const double *l,
                            size_t ldl, double *x, size_t ldx)
{
    size_t step = bo_substitution_rows(context);
    for (size_t first = 0; first < n; first += step) {
        size_t rows = bo_min(step, n - first), last = first + rows;
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
        size_t first = block * step, rows = bo_min(step, n - first);
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
    BO_TRY(bo_substitution_create(context, bo_min(n, bo_substitution_rows(context)), m, &substitution));
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

/* ---- Cholesky factorization -------------------------------------------------------------------------------------- */

/* Right-looking Cholesky factorization on the upper triangle: A = UᵀU, one block row at a time, so that every operand
 * is read along its rows. For each block: factor U11; U12 = U11⁻ᵀ A12; A22 -= U12ᵀ U12 (Golub and Van Loan, 4.2.6). */

/* Factors the upper triangle of an n x n block in place. Returns n, or the index of the first pivot that is not
 * positive. */
static size_t factor_block(size_t n, double *a, size_t lda)
{
    for (size_t p = 0; p < n; p++) {
        double *restrict pivot_row = a + p * lda;
        if (!(pivot_row[p] > 0.0 && isfinite(pivot_row[p]))) return p;
        double root = sqrt(pivot_row[p]), inverse = 1.0 / root;
        pivot_row[p] = root;
        for (size_t j = p + 1; j < n; j++) pivot_row[j] *= inverse;
        for (size_t i = p + 1; i < n; i++) {
            double factor = pivot_row[i];
            double *restrict row = a + i * lda;
            for (size_t j = i; j < n; j++) row[j] -= factor * pivot_row[j];
        }
    }
    return n;
}

/* substitution and panels serve the columns right of the first block; they may be NULL for a single block. */
static bo_status factor(bo_context *context, size_t n, double *a, size_t lda, size_t *pivot,
                        bo_substitution *substitution, const bo_upper_panels *panels)
{
    size_t step = bo_substitution_rows(context);
    for (size_t p = 0; p < n; p += step) {
        BO_TRY(bo_factorization_progress(context, "factorizing", n, p));
        size_t rows = bo_min(step, n - p), rest = n - p - rows;
        double *diagonal = a + p * lda + p, *right = diagonal + rows;
        size_t bad = factor_block(rows, diagonal, lda);
        if (bad < rows) {
            if (pivot) *pivot = p + bad;
            return bo_fail(context, BO_NUMERIC,
                           "Cholesky: pivot %zu of %zu is %g, expected a positive number: the matrix is not positive "
                           "definite",
                           p + bad, n, diagonal[bad * lda + bad]);
        }
        if (rest == 0) break;
        bo_substitution_solve(context, substitution, BO_TRIANGLE_UPPER_TRANSPOSED, rows, diagonal, lda, rest, right,
                              lda);
        bo_upper_update(context, BO_UPPER_F64, rest, rows, -1, right, lda, right + rows * lda, lda, panels);
    }
    bo_symmetrize(context, n, a, lda); /* L = Uᵀ */
    return BO_OK;
}

bo_status bo_cholesky(bo_context *context, size_t n, double *a, size_t lda, size_t *pivot)
{
    BO_SPAN(context, "math", "Cholesky");
    size_t step = bo_substitution_rows(context);
    if (n <= step) return factor(context, n, a, lda, pivot, NULL, NULL); /* one block: no columns right of it */
    bo_substitution *substitution;
    bo_upper_panels panels;
    BO_TRY(bo_substitution_create(context, step, n - step, &substitution));
    bo_status status = bo_upper_panels_create(context, BO_UPPER_F64, n - step, step, &panels);
    if (status == BO_OK) {
        status = factor(context, n, a, lda, pivot, substitution, &panels);
        bo_upper_panels_destroy(&panels);
    }
    bo_substitution_destroy(substitution);
    return status;
}

bo_status bo_inverse_factor(bo_context *context, size_t n, const double *l, size_t ldl, double *inverse)
{
    enum { PANEL = BO_SIZE(96, 4) };
    memset(inverse, 0, n * n * sizeof *inverse);
    for (size_t i = 0; i < n; i++) inverse[i * n + i] = 1;
    for (size_t j = 0; j < n; j += PANEL) {
        size_t columns = n - j < PANEL ? n - j : PANEL;
        BO_TRY(bo_solve_lower(context, n - j, columns, l + j * ldl + j, ldl, inverse + j * n + j, n));
    }
    return BO_OK;
}
