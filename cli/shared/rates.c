#include "rates.h"
#include "../../src/base/base.h"
#include "../../src/base/rng.h"
#include "../../src/math/linalg.h"
#include <stdlib.h>

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bo_rate_median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, by_value);
    return values[count / 2];
}

bo_status bo_rate_check_repeats(bo_context *context, int *repeats)
{
    if (*repeats == 0) *repeats = 5;
    if (*repeats >= 1 && *repeats <= BO_RATE_REPEATS) return BO_OK;
    return bo_fail(context, BO_INVALID, "%d repeats of a measurement, expected 1 to %d", *repeats, BO_RATE_REPEATS);
}

void bo_rate_fill(size_t count, float *x)
{
    bo_rng rng = bo_rng_make(1, bo_rng_stream("yardstick", 0));
    for (size_t i = 0; i < count; i++) x[i] = (float)(bo_rng_uniform(&rng) - 0.5);
}

bo_status bo_gemm_rate(bo_context *context, size_t n, int repeats, double *gflops)
{
    *gflops = 0;
    BO_TRY(bo_rate_check_repeats(context, &repeats));
    float *a = bo_alloc(context, 3 * n * n, sizeof *a, "the matrices of a measurement");
    if (!a) return BO_MEMORY;
    float *b = a + n * n, *c = b + n * n;
    double rates[BO_RATE_REPEATS];
    const double operations = 2e-9 * (double)n * (double)n * (double)n;
    bo_status status = BO_OK;
    bo_rate_fill(2 * n * n, a);
    for (int r = -1; status == BO_OK && r < repeats; r++) { /* the first round is a warmup and is overwritten */
        const double start = bo_seconds();
        status = bo_gemm(context, false, false, n, n, n, 1.0f, a, n, b, n, 0.0f, c, n);
        rates[r < 0 ? 0 : r] = operations / (bo_seconds() - start);
    }
    if (status == BO_OK) *gflops = bo_rate_median(rates, repeats);
    bo_free(a);
    return status;
}
