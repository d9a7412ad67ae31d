/* Rates of GEMM, Gram and Cholesky relative to sgemm of OpenBLAS. The measurements alternate within one run, so that
 * other load on the host affects all of them.
 * Usage: bench_linalg [n] [repeats] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cblas.h>
#include "../../src/base/base.h"
#include "../../src/base/rng.h"
#include "../../src/kernels/kernels.h"
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

int main(int argc, char **argv)
{
    size_t n = argc > 1 ? (size_t)atoi(argv[1]) : 2048;
    int repeats = argc > 2 ? atoi(argv[2]) : 7;
    if (n < 1 || repeats < 1 || repeats > 64) return 2;
    bo_context *context;
    if (bo_context_create(NULL, &context) != BO_OK) return 1;
    float *a = malloc(n * n * sizeof *a), *b = malloc(n * n * sizeof *b), *c = calloc(n * n, sizeof *c);
    double *g = calloc(n * n, sizeof *g), *h = calloc(n * n, sizeof *h);
    int8_t *q = malloc(n * n);
    bo_rng rng = bo_rng_make(1, 1);
    for (size_t i = 0; i < n * n; i++) a[i] = (float)bo_rng_uniform(&rng) - 0.5f, b[i] = a[i];
    bo_context_kernels(context)->quantize(n * n, 254.0f, a, q);
    double size = (double)n;
    series all[] = {
        {.name = "sgemm OpenBLAS", .flops = 2 * size * size * size},
        {.name = "bo_gemm", .flops = 2 * size * size * size},
        {.name = "bo_gram", .flops = size * (size + 1) * size},
        {.name = "bo_gram8", .flops = size * (size + 1) * size},
        {.name = "bo_gram precise", .flops = size * (size + 1) * size},
        {.name = "bo_cholesky", .flops = size * size * size / 3},
        {.name = "bo_solve_lower", .flops = size * size * size},
    };
    for (int r = -1; r < repeats; r++) { /* the first round is a warmup and is overwritten */
        int at = r < 0 ? 0 : r, s = 0, m = (int)n;
        double clock = bo_seconds();
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, m, m, m, 1.0f, a, m, b, m, 0.0f, c, m);
        all[s++].seconds[at] = ticked(&clock);
        bo_status status = bo_gemm(context, false, false, n, n, n, 1.0f, a, n, b, n, 0.0f, c, n);
        all[s++].seconds[at] = ticked(&clock);
        if (status == BO_OK) status = bo_gram(context, n, n, a, n, g, n, false);
        all[s++].seconds[at] = ticked(&clock);
        if (status == BO_OK) status = bo_gram8(context, n, n, q, n, 0x1p-20, g, n);
        all[s++].seconds[at] = ticked(&clock);
        if (status == BO_OK) status = bo_gram(context, n, n, a, n, g, n, true);
        all[s++].seconds[at] = ticked(&clock);
        memcpy(h, g, n * n * sizeof *h);
        for (size_t i = 0; i < n; i++) h[i * n + i] += size;
        clock = bo_seconds();
        if (status == BO_OK) status = bo_cholesky(context, n, h, n, NULL);
        all[s++].seconds[at] = ticked(&clock);
        if (status == BO_OK) status = bo_solve_lower(context, n, n, h, n, g, n);
        all[s++].seconds[at] = ticked(&clock);
        memset(g, 0, n * n * sizeof *g);
        if (status != BO_OK) {
            fprintf(stderr, "%s\n", bo_context_error(context));
            return 1;
        }
    }
    double yardstick = rate(&all[0], repeats);
    printf("n = %zu, %d threads, %s, OpenBLAS %s with %d threads\n", n, bo_context_threads(context),
           bo_context_isa(context), openblas_get_corename(), openblas_get_num_threads());
    for (size_t s = 0; s < sizeof all / sizeof *all; s++) {
        double gflops = rate(&all[s], repeats);
        printf("%-18s %8.1f GFLOP/s  %6.3f of sgemm\n", all[s].name, gflops, gflops / yardstick);
    }
    free(a), free(b), free(c), free(g), free(h), free(q);
    bo_context_destroy(context);
    return 0;
}
