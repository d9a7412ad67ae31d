/* Blocked forward substitution. X is taken in strips, each packed as a panel of B: the rows already solved
 * are then the packed factor that the micro-kernel multiplies, and the tile it updates is the next rows of
 * the same panel. Inside a block of mr rows the recurrence itself runs, so the result is as stable as plain
 * substitution (no inverse is formed). */
#include <string.h>
#include "substitution.h"
#include "panel.h"
#include "../kernels/kernels.h"

enum { ROWS = 128, STRIP = 64 }; /* STRIP: right-hand sides of one task */

/* w: the lower triangle, `most` numbers a row, with the reciprocals of its diagonal. slivers: -w left of the
 * diagonal blocks, packed as panels of A; those of block s start at s * mr * most. strips: one packed strip
 * for each worker. */
struct bo_substitution {
    size_t mr, nr, most, strip;
    double *w, *slivers, *strips;
};

typedef struct strip_job {
    const bo_substitution *substitution;
    const bo_kernels *kernels;
    size_t n, m;
    bool reversed;
    double *x;
    size_t ldx;
} strip_job;

size_t bo_substitution_rows(const bo_context *context)
{
    return bo_whole_slivers(ROWS, bo_context_kernels(context)->gemm64.mr);
}

bo_status bo_substitution_create(bo_context *context, size_t rows, size_t columns, bo_substitution **out)
{
    *out = NULL;
    bo_substitution *made = bo_alloc(context, 1, sizeof *made, "a substitution");
    if (!made) return BO_MEMORY;
    const bo_kernels *kernels = bo_context_kernels(context);
    made->mr = kernels->gemm64.mr;
    made->nr = kernels->gemm64.nr;
    made->most = bo_round_up(rows, made->mr);
    made->strip = bo_smaller(bo_whole_slivers(STRIP, made->nr), bo_round_up(columns, made->nr));
    size_t workers = (size_t)bo_context_threads(context);
    made->w = bo_alloc_raw(context, made->most * made->most, sizeof(double), "a substitution");
    made->slivers = bo_alloc_raw(context, made->most * made->most, sizeof(double), "a substitution");
    made->strips = bo_alloc_raw(context, workers * made->most * made->strip, sizeof(double), "a substitution");
    if (!made->w || !made->slivers || !made->strips) {
        bo_substitution_destroy(made);
        return BO_MEMORY;
    }
    *out = made;
    return BO_OK;
}

void bo_substitution_destroy(bo_substitution *substitution)
{
    if (!substitution) return;
    bo_free(substitution->w);
    bo_free(substitution->slivers);
    bo_free(substitution->strips);
    bo_free(substitution);
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
    size_t most = substitution->most, mr = substitution->mr;
    double *w = substitution->w;
    for (size_t i = 0; i < n; i++) {
        for (size_t p = 0; p < i; p++) w[i * most + p] = element(triangle, n, t, ldt, i, p);
        w[i * most + i] = 1.0 / element(triangle, n, t, ldt, i, i);
    }
    for (size_t s = mr; s < n; s += mr) {
        bo_pack_f64(mr, bo_smaller(mr, n - s), s, -1.0, w + s * most, most, true, substitution->slivers + s * most);
    }
}

/* The recurrence inside the block of rows [first, first + rows) of one sliver of nr right-hand sides. */
static void solve_block(const bo_substitution *substitution, size_t first, size_t rows, double *restrict x)
{
    size_t nr = substitution->nr, most = substitution->most;
    for (size_t i = first; i < first + rows; i++) {
        const double *w = substitution->w + i * most;
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
        size_t rows = bo_smaller(mr, job->n - s);
        if (s > 0) {
            job->kernels->gemm64.f64(s, substitution->slivers + s * substitution->most, x, x + s * nr, nr, rows, nr,
                                     true);
        }
        solve_block(substitution, s, rows, x);
    }
}

/* Copies one row of a strip to (or from) its places in the packed panel. */
static void move_row(const strip_job *job, size_t i, size_t first, size_t columns, double *panel, bool into)
{
    size_t nr = job->substitution->nr;
    double *row = job->x + (job->reversed ? job->n - 1 - i : i) * job->ldx + first;
    for (size_t j = 0; j < columns; j += nr) {
        double *place = panel + j * job->n + i * nr;
        size_t bytes = bo_smaller(nr, columns - j) * sizeof *row;
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
    size_t first = index * substitution->strip, columns = bo_smaller(substitution->strip, job->m - first);
    double *panel = substitution->strips + (size_t)worker * substitution->most * substitution->strip;
    for (size_t i = 0; i < job->n; i++) move_row(job, i, first, columns, panel, true);
    for (size_t j = 0; j < columns; j += substitution->nr) solve_sliver(job, panel + j * job->n);
    for (size_t i = 0; i < job->n; i++) move_row(job, i, first, columns, panel, false);
}

void bo_substitution_solve(bo_context *context, bo_substitution *substitution, bo_triangle triangle, size_t n,
                           const double *t, size_t ldt, size_t m, double *x, size_t ldx)
{
    if (n == 0 || m == 0) return;
    load(substitution, triangle, n, t, ldt);
    strip_job job = {.substitution = substitution, .kernels = bo_context_kernels(context), .n = n, .m = m};
    job.reversed = triangle == BO_TRIANGLE_LOWER_TRANSPOSED;
    job.x = x, job.ldx = ldx;
    bo_parallel(context, bo_ceil_div(m, substitution->strip), strip_task, &job);
}
