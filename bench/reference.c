/* The references of bench/reference.h. */
#include <stdlib.h>
#include <string.h>
#include "reference.h"
#include "openblas.h"
#include "../cli/shared/rates.h"
#ifdef BOCHNER_HAVE_XSMM
#include <libxsmm.h>
#endif
#include "../src/math/linalg.h"
#include "../src/math/panel.h"
#include "../src/device/cpu/kernels.h"

/* ---- large products ---------------------------------------------------------------------------------------------- */

/* openblas: NULL if it is not installed. */
static bo_status time_gemm(bo_context *context, size_t n, int repeats, const float *a, const float *b, float *c,
                           const bo_openblas *openblas, bo_reference_rate *out)
{
    double openblas_rates[BO_RATE_REPEATS] = {0}, rates[BO_RATE_REPEATS],
           operations = 2e-9 * (double)n * (double)n * (double)n;
    const int size = (int)n, plain = BO_OPENBLAS_PLAIN;
    for (int r = -1; r < repeats; r++) { /* the first round is a warmup and is overwritten */
        int at = r < 0 ? 0 : r;
        double start = bo_seconds();
        if (openblas)
            openblas->sgemm(BO_OPENBLAS_ROW_MAJOR, plain, plain, size, size, size, 1, a, size, b, size, 0, c, size);
        double middle = bo_seconds();
        BO_TRY(bo_gemm(context, false, false, n, n, n, 1.0f, a, n, b, n, 0.0f, c, n));
        double end = bo_seconds();
        if (openblas) openblas_rates[at] = operations / (middle - start);
        rates[at] = operations / (end - middle);
    }
    out->openblas_gflops = bo_rate_median(openblas_rates, repeats);
    out->bochner_gflops = bo_rate_median(rates, repeats);
    out->best_gflops = out->openblas_gflops > out->bochner_gflops ? out->openblas_gflops : out->bochner_gflops;
    return BO_OK;
}

static bo_status measure_gemm(bo_context *context, size_t n, int repeats, const bo_openblas *openblas,
                              bo_reference_rate *out)
{
    BO_TRY(bo_rate_check_repeats(context, &repeats));
    if (n == 0) n = 2048;
    if (n > 32768) return bo_fail(context, BO_INVALID, "reference: size %zu, expected at most 32768", n);
    float *buffer = bo_alloc(context, 3 * n * n, sizeof *buffer, "the reference matrices");
    if (!buffer) return BO_MEMORY;
    bo_rate_fill(2 * n * n, buffer);
    bo_status status = time_gemm(context, n, repeats, buffer, buffer + n * n, buffer + 2 * n * n, openblas, out);
    bo_free(buffer);
    out->isa = bo_context_describe(context)->isa;
    out->bochner_threads = bo_context_describe(context)->threads;
    out->n = n;
    return status;
}

bo_status bo_reference_gemm(bo_context *context, size_t n, int repeats, bo_reference_rate *out)
{
    *out = (bo_reference_rate){0};
    const bo_openblas *openblas = bo_openblas_load(&out->library);
    BO_TRY(measure_gemm(context, n, repeats, openblas, out));
    if (openblas) {
        out->library = openblas->config();
        out->openblas_threads = openblas->threads();
    }
    return BO_OK;
}

/* ---- memory bandwidth -------------------------------------------------------------------------------------------- */

enum { TRIAD_TASK = 1 << 16 }; /* in floats: large compared with the cost of a task, small compared with the arrays */

typedef struct triad_job {
    size_t count;
    float *a;
    const float *b, *c;
} triad_job;

static void triad_task(void *arg, size_t index, int worker)
{
    (void)worker;
    const triad_job *job = arg;
    size_t begin = index * TRIAD_TASK, end = bo_min(begin + TRIAD_TASK, job->count);
    float *restrict a = job->a;
    const float *restrict b = job->b, *restrict c = job->c;
    for (size_t i = begin; i < end; i++) a[i] = b[i] + 0.5f * c[i];
}

bo_status bo_reference_triad(bo_context *context, size_t bytes, int repeats, double *gigabytes_per_second)
{
    *gigabytes_per_second = 0.0;
    BO_TRY(bo_rate_check_repeats(context, &repeats));
    if (bytes == 0) bytes = (size_t)1 << 30;
    size_t count = bytes / (3 * sizeof(float));
    if (count == 0) return bo_fail(context, BO_INVALID, "triad: %zu bytes, expected at least 12", bytes);
    float *buffer = bo_alloc(context, 3 * count, sizeof *buffer, "the triad's arrays");
    if (!buffer) return BO_MEMORY;
    triad_job job = {count, buffer, buffer + count, buffer + 2 * count};
    double rates[BO_RATE_REPEATS];
    for (int r = -1; r < repeats; r++) {
        double start = bo_seconds();
        bo_parallel(context, bo_ceil_div(count, TRIAD_TASK), triad_task, &job);
        rates[r < 0 ? 0 : r] = 3e-9 * (double)count * sizeof(float) / (bo_seconds() - start);
    }
    *gigabytes_per_second = bo_rate_median(rates, repeats);
    bo_free(buffer);
    return BO_OK;
}

/* ---- small products ---------------------------------------------------------------------------------------------- */

enum { SMALL_M = 64, SMALL_N = 64, SMALL_K = 128, SMALL_CALLS = 2000, SMALL_BUFFER = 1 << 15 };

/* buffer: SMALL_BUFFER floats per task for A, B and C, packed or plain. */
typedef struct small_job {
    const bo_micro *micro;
#ifdef BOCHNER_HAVE_XSMM
    libxsmm_smmfunction product;
#endif
    float *buffer;
} small_job;

static void small_task(void *arg, size_t index, int worker)
{
    (void)worker;
    const small_job *job = arg;
    float *a = job->buffer + index * SMALL_BUFFER, *b = a + SMALL_BUFFER / 2, *c = b + SMALL_BUFFER * 3 / 8;
#ifdef BOCHNER_HAVE_XSMM
    for (int call = 0; call < SMALL_CALLS; call++) job->product(a, b, c);
#else
    const bo_micro *micro = job->micro;
    for (int call = 0; call < SMALL_CALLS; call++) {
        for (size_t i = 0; i < SMALL_M; i += micro->mr) {
            for (size_t j = 0; j < SMALL_N; j += micro->nr) {
                micro->f32(SMALL_K, a + i * SMALL_K, b + j * SMALL_K, c + i * SMALL_N + j, SMALL_N,
                           bo_min(micro->mr, SMALL_M - i), bo_min(micro->nr, SMALL_N - j), true);
            }
        }
    }
#endif
}

bo_status bo_reference_small_gemm(bo_context *context, int repeats, double *gflops, const char **implementation)
{
    *gflops = 0.0;
    *implementation = "Bochner's micro-kernel";
    BO_TRY(bo_rate_check_repeats(context, &repeats));
    size_t tasks = (size_t)bo_context_describe(context)->threads;
    small_job job = {.micro = &bo_context_kernels(context)->gemm};
#ifdef BOCHNER_HAVE_XSMM
    *implementation = "LIBXSMM";
    job.product = libxsmm_smmdispatch(SMALL_M, SMALL_N, SMALL_K, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
    if (!job.product) return bo_fail(context, BO_UNSUPPORTED, "LIBXSMM has no kernel for this CPU");
#endif
    job.buffer = bo_alloc(context, tasks * SMALL_BUFFER, sizeof(float), "the small reference matrices");
    if (!job.buffer) return BO_MEMORY;
    double rates[BO_RATE_REPEATS], operations = 2e-9 * SMALL_M * SMALL_N * SMALL_K * SMALL_CALLS * (double)tasks;
    for (int r = -1; r < repeats; r++) {
        double start = bo_seconds();
        bo_parallel(context, tasks, small_task, &job);
        rates[r < 0 ? 0 : r] = operations / (bo_seconds() - start);
    }
    *gflops = bo_rate_median(rates, repeats);
    bo_free(job.buffer);
    return BO_OK;
}
