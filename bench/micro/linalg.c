/* Rates of GEMM, Gram and Cholesky relative to sgemm of OpenBLAS, and times of eigenvectors and singular vectors
 * relative to its dsyevd and dgesdd. The measurements alternate within one run, so that other load on the host affects
 * all of them. The core type that OpenBLAS uses is chosen for this CPU (bench/openblas.c) unless OPENBLAS_CORETYPE is
 * set.
 * Usage: bench_linalg [n] [repeats] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "../openblas.h"
#include "../../src/base/base.h"
#include "../../src/base/rng.h"
#include "../../src/device/cpu/kernels.h"
#include "../../src/math/linalg.h"

typedef struct series {
    const char *name;
    double flops;
    double seconds[64];
} series;

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double rate(series *s, int repeats)
{
    qsort(s->seconds, (size_t)repeats, sizeof(double), by_value);
    return s->flops / s->seconds[repeats / 2] * 1e-9;
}

static double ticked(double *clock)
{
    double now = bo_seconds(), elapsed = now - *clock;
    *clock = now;
    return elapsed;
}

typedef struct operands {
    bo_context *context;
    const bo_openblas *openblas; /* NULL: not installed */
    size_t n;
    float *a, *b, *c;
    double *g, *h;
    int8_t *q;
} operands;

/* ---- products and factorizations --------------------------------------------------------------------------------- */

static bo_status run_products(const operands *o, int at, series *all)
{
    size_t n = o->n;
    int m = (int)n, s = 0;
    const int plain = BO_OPENBLAS_PLAIN;
    double clock = bo_seconds();
    if (o->openblas)
        o->openblas->sgemm(BO_OPENBLAS_ROW_MAJOR, plain, plain, m, m, m, 1.0f, o->a, m, o->b, m, 0.0f, o->c, m);
    all[s++].seconds[at] = ticked(&clock);
    BO_TRY(bo_gemm(o->context, false, false, n, n, n, 1.0f, o->a, n, o->b, n, 0.0f, o->c, n));
    all[s++].seconds[at] = ticked(&clock);
    BO_TRY(bo_gram(o->context, n, n, o->a, n, o->g, n, false));
    all[s++].seconds[at] = ticked(&clock);
    BO_TRY(bo_gram8(o->context, n, n, o->q, n, 0x1p-20, o->g, n));
    all[s++].seconds[at] = ticked(&clock);
    BO_TRY(bo_gram(o->context, n, n, o->a, n, o->g, n, true));
    all[s++].seconds[at] = ticked(&clock);
    memcpy(o->h, o->g, n * n * sizeof *o->h);
    for (size_t i = 0; i < n; i++) o->h[i * n + i] += (double)n;
    clock = bo_seconds();
    BO_TRY(bo_cholesky(o->context, n, o->h, n, NULL));
    all[s++].seconds[at] = ticked(&clock);
    BO_TRY(bo_solve_lower(o->context, n, n, o->h, n, o->g, n));
    all[s++].seconds[at] = ticked(&clock);
    memset(o->g, 0, n * n * sizeof *o->g);
    return BO_OK;
}

static bo_status compare_products(const operands *o, int repeats)
{
    double size = (double)o->n, cube = size * size * size;
    series all[] = {
        {.name = "sgemm OpenBLAS", .flops = 2 * cube},
        {.name = "bo_gemm", .flops = 2 * cube},
        {.name = "bo_gram", .flops = cube},
        {.name = "bo_gram8", .flops = cube},
        {.name = "bo_gram precise", .flops = cube},
        {.name = "bo_cholesky", .flops = cube / 3},
        {.name = "bo_solve_lower", .flops = cube},
    };
    for (int r = -1; r < repeats; r++) BO_TRY(run_products(o, r < 0 ? 0 : r, all)); /* the first round is a warmup */
    double reference = rate(&all[o->openblas ? 0 : 1], repeats);
    for (size_t s = o->openblas ? 0 : 1; s < sizeof all / sizeof *all; s++) {
        double gflops = rate(&all[s], repeats);
        printf("%-18s %8.1f GFLOP/s  %6.3f of %s\n", all[s].name, gflops, gflops / reference,
               o->openblas ? "sgemm" : "bo_gemm");
    }
    return BO_OK;
}

/* ---- eigenvectors and singular vectors --------------------------------------------------------------------------- */

/* g: a random matrix; h: a copy of it, which is overwritten. */
static void renew(const operands *o)
{
    memcpy(o->h, o->g, o->n * o->n * sizeof *o->h);
}

static bool run_dsyevd(const operands *o, double *workspace, int *integers)
{
    const int n = (int)o->n, workspace_size = 1 + 6 * n + 2 * n * n, integers_size = 3 + 5 * n;
    int info;
    o->openblas->dsyevd("V", "L", &n, o->h, &n, workspace, workspace + n, &workspace_size, integers, &integers_size,
                        &info, 1, 1);
    return info == 0;
}

static bool run_dgesdd(const operands *o, double *workspace, int *integers)
{
    const int n = (int)o->n, workspace_size = 4 * n * n + 70 * n;
    const size_t square = o->n * o->n;
    int info;
    o->openblas->dgesdd("S", &n, &n, o->h, &n, workspace, workspace + n, &n, workspace + n + square, &n,
                        workspace + n + 2 * square, &workspace_size, integers, &info, 1);
    return info == 0;
}

static bo_status run_vectors(const operands *o, int at, series *all, double *workspace, int *integers)
{
    size_t n = o->n;
    renew(o);
    double clock = bo_seconds();
    if (o->openblas && !run_dsyevd(o, workspace, integers)) return bo_fail(o->context, BO_NUMERIC, "dsyevd failed");
    all[0].seconds[at] = ticked(&clock);
    renew(o);
    clock = bo_seconds();
    BO_TRY(bo_eigen(o->context, n, o->h, n, workspace));
    all[1].seconds[at] = ticked(&clock);
    renew(o);
    clock = bo_seconds();
    if (o->openblas && !run_dgesdd(o, workspace, integers)) return bo_fail(o->context, BO_NUMERIC, "dgesdd failed");
    all[2].seconds[at] = ticked(&clock);
    renew(o);
    clock = bo_seconds();
    BO_TRY(bo_svd(o->context, n, n, o->h, workspace + n, workspace, workspace + n + n * n));
    all[3].seconds[at] = ticked(&clock);
    renew(o);
    clock = bo_seconds();
    BO_TRY(bo_haar(o->context, n, n, o->h, n));
    all[4].seconds[at] = ticked(&clock);
    return BO_OK;
}

static bo_status compare_vectors(const operands *o, int repeats)
{
    series all[] = {{.name = "dsyevd OpenBLAS"},
                    {.name = "bo_eigen"},
                    {.name = "dgesdd OpenBLAS"},
                    {.name = "bo_svd"},
                    {.name = "bo_haar"}};
    enum { COUNT = sizeof all / sizeof *all };
    double seconds[COUNT], *workspace = bo_alloc_raw(o->context, 6 * o->n + 80, o->n * sizeof *workspace, "work space");
    int *integers = bo_alloc_raw(o->context, 8 * o->n + 3, sizeof *integers, "work space");
    bo_status status = workspace && integers ? BO_OK : BO_MEMORY;
    for (int r = -1; r < repeats && status == BO_OK; r++)
        status = run_vectors(o, r < 0 ? 0 : r, all, workspace, integers);
    bo_free(workspace);
    bo_free(integers);
    for (size_t s = 0; s < COUNT && status == BO_OK; s++) {
        bool is_openblas = s == 0 || s == 2;
        all[s].flops = 1e9;
        seconds[s] = 1 / rate(&all[s], repeats);
        if (is_openblas && !o->openblas) continue;
        printf("%-18s %8.4f s", all[s].name, seconds[s]);
        if (!is_openblas && s > 0 && s < 4 && o->openblas)
            printf("        %6.3f times as fast as %s", seconds[s - 1] / seconds[s], all[s - 1].name);
        putchar('\n');
    }
    return status;
}

int main(int argc, char **argv)
{
    size_t n = argc > 1 ? (size_t)atoi(argv[1]) : 2048;
    int repeats = argc > 2 ? atoi(argv[2]) : 7;
    const char *reason;
    operands o = {.n = n, .openblas = bo_openblas_load(&reason)};
    if (n < 1 || n > 16384 || repeats < 1 || repeats > 64) return 2;
    if (bo_context_create(NULL, &o.context) != BO_OK) return 1;
    o.a = malloc(n * n * sizeof *o.a), o.b = malloc(n * n * sizeof *o.b), o.c = calloc(n * n, sizeof *o.c);
    o.g = calloc(n * n, sizeof *o.g), o.h = calloc(n * n, sizeof *o.h), o.q = malloc(n * n);
    bo_rng rng = bo_rng_make(1, 1);
    for (size_t i = 0; i < n * n; i++) o.a[i] = (float)bo_rng_uniform(&rng) - 0.5f, o.b[i] = o.a[i];
    bo_context_kernels(o.context)->quantize(n * n, 254.0f, o.a, o.q);
    printf("n = %zu, %d threads, %s, ", n, bo_context_describe(o.context)->threads,
           bo_context_describe(o.context)->isa);
    if (o.openblas) {
        printf("OpenBLAS %s with %d threads\n", o.openblas->core(), o.openblas->threads());
    } else {
        printf("%s\n", reason);
    }
    bo_status status = compare_products(&o, repeats);
    for (size_t i = 0; i < n * n; i++) o.g[i] = (double)o.a[i];
    if (status == BO_OK) status = compare_vectors(&o, repeats);
    if (status != BO_OK) fprintf(stderr, "%s\n", bo_context_error(o.context));
    free(o.a), free(o.b), free(o.c), free(o.g), free(o.h), free(o.q);
    bo_context_destroy(o.context);
    return status == BO_OK ? 0 : 1;
}
