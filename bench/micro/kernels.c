/* Rates of compute kernels on blocks in cache, on one thread: products relative to the reference of small products
 * (LIBXSMM, 64 x 64 x 128), memory passes relative to the triad. All measurements alternate within one run, and the
 * best round counts, because other load on the host only slows them down.
 * Usage: bench_kernels [rounds] */
#include <stdio.h>
#include <stdlib.h>
#include "../reference.h"
#include "../../src/base/base.h"
#include "../../src/base/rng.h"
#include "../../src/device/cpu/kernels.h"

static double larger(double a, double b)
{
    return a > b ? a : b;
}

/* ---- products in cache ------------------------------------------------------------------------------------------- */

enum { BUFFER_FLOATS = 1 << 16 };

typedef struct shape {
    size_t m, n, k;
    bool transposed, add; /* A is stored as k rows of m; the product is added to C */
    double gflops;
} shape;

static double product_rate(const bo_kernels *kernels, const shape *s, const float *a, const float *b, float *c)
{
    double operations = 2e-9 * (double)(s->m * s->n * s->k);
    int calls = 1 + (int)(0.05 / operations);
    size_t row = s->transposed ? 1 : s->k, column = s->transposed ? s->m : 1;
    double start = bo_seconds();
    for (int i = 0; i < calls; i++) kernels->multiply(s->m, s->n, s->k, a, row, column, b, s->n, s->add, c, s->n);
    return operations * calls / (bo_seconds() - start);
}

static bo_status bench_products(bo_context *context, int rounds, float *buffer)
{
    shape shapes[] = {
        {.m = 64, .n = 64, .k = 128},
        {.m = 64, .n = 64, .k = 64},
        {.m = 64, .n = 64, .k = 32},
        {.m = 32, .n = 64, .k = 128},
        {.m = 32, .n = 64, .k = 64},
        {.m = 48, .n = 64, .k = 64, .add = true},
        {.m = 64, .n = 128, .k = 64},
        {.m = 64, .n = 128, .k = 128},
        {.m = 32, .n = 128, .k = 64},
        {.m = 64, .n = 32, .k = 64},
        {.m = 128, .n = 64, .k = 32, .transposed = true, .add = true},
        {.m = 128, .n = 64, .k = 64, .transposed = true, .add = true},
        {.m = 256, .n = 64, .k = 32, .transposed = true, .add = true},
        {.m = 256, .n = 64, .k = 64, .transposed = true, .add = true},
        {.m = 37, .n = 50, .k = 61},
        {.m = 61, .n = 65, .k = 70},
        {.m = 1, .n = 64, .k = 128},
        {.m = 2, .n = 64, .k = 128},
        {.m = 3, .n = 64, .k = 128},
        {.m = 4, .n = 64, .k = 128},
        {.m = 5, .n = 64, .k = 128},
        {.m = 6, .n = 64, .k = 128},
        {.m = 7, .n = 64, .k = 128},
        {.m = 8, .n = 64, .k = 128},
        {.m = 8, .n = 128, .k = 64},
    };
    enum { SHAPES = sizeof shapes / sizeof *shapes };
    const bo_kernels *kernels = bo_context_kernels(context);
    const char *reference = "";
    double reference_gflops = 0.0;
    for (int round = 0; round < rounds; round++) {
        double rate;
        BO_TRY(bo_reference_small_gemm(context, 1, &rate, &reference));
        reference_gflops = larger(reference_gflops, rate);
        for (size_t i = 0; i < SHAPES; i++) {
            rate = product_rate(kernels, &shapes[i], buffer, buffer + BUFFER_FLOATS, buffer + 2 * BUFFER_FLOATS);
            shapes[i].gflops = larger(shapes[i].gflops, rate);
        }
    }
    printf("products on one thread, %s: reference %s, %.1f GFLOP/s\n", kernels->isa, reference, reference_gflops);
    for (size_t i = 0; i < SHAPES; i++) {
        const shape *s = &shapes[i];
        printf("%4zu x %3zu x %3zu %-11s %-6s %8.1f GFLOP/s  %6.3f of the reference\n", s->m, s->n, s->k,
               s->transposed ? "transposed" : "", s->add ? "added" : "", s->gflops, s->gflops / reference_gflops);
    }
    return BO_OK;
}

/* ---- states in memory -------------------------------------------------------------------------------------------- */

enum { STATES = 2048, FEATURES = 128, VALUES = 64, MAX_QUERIES = 8 };

/* Gigabytes per second when S is read and written once, over states that do not fit in any cache. */
static double state_rate(const bo_kernels *kernels, size_t queries, float *states, const float *vectors, float *out)
{
    size_t size = (size_t)FEATURES * VALUES;
    double start = bo_seconds();
    for (size_t i = 0; i < STATES; i++) {
        kernels->state_step(FEATURES, VALUES, true, 0.99f, vectors, vectors + FEATURES, states + i * size, queries,
                            vectors + FEATURES + VALUES, FEATURES, out, VALUES);
    }
    return 2e-9 * (double)(STATES * size * sizeof(float)) / (bo_seconds() - start);
}

static bo_status bench_states(bo_context *context, int rounds, const float *vectors, float *out)
{
    static const size_t queries[] = {1, 2, 4, 8};
    double triad = 0.0, rates[4] = {0};
    size_t size = (size_t)STATES * FEATURES * VALUES;
    float *states = bo_alloc(context, size, sizeof *states, "states");
    if (!states) return BO_MEMORY;
    for (size_t i = 0; i < size; i++) states[i] = 1.0f;
    bo_status status = BO_OK;
    for (int round = 0; status == BO_OK && round < rounds; round++) {
        double rate;
        status = bo_reference_triad(context, 3 * size * sizeof(float), 1, &rate);
        triad = larger(triad, rate);
        for (size_t q = 0; q < 4; q++) {
            rates[q] = larger(rates[q], state_rate(bo_context_kernels(context), queries[q], states, vectors, out));
        }
    }
    bo_free(states);
    if (status != BO_OK) return status;
    printf("a token for %d states of %d x %d: triad %.1f GB/s\n", STATES, FEATURES, VALUES, triad);
    for (size_t q = 0; q < 4; q++) {
        printf("%4zu queries %28s %8.1f GB/s     %6.3f of the triad\n", queries[q], "", rates[q], rates[q] / triad);
    }
    return BO_OK;
}

/* ---- vectors in cache -------------------------------------------------------------------------------------------- */

enum { SIDE = 64 };

/* Numbers per nanosecond of each kernel on 64 x 64 numbers. */
static void vector_rates(const bo_kernels *kernels, float *buffer, double best[6])
{
    enum { CALLS = 100, COUNT = SIDE * SIDE };
    float *y = buffer + BUFFER_FLOATS;
    static volatile float sink;
    double clock[7] = {bo_seconds()};
    for (int i = 0; i < CALLS; i++) kernels->transpose(SIDE, SIDE, buffer, SIDE, y, SIDE);
    clock[1] = bo_seconds();
    for (int i = 0; i < CALLS; i++) sink = kernels->max(COUNT, buffer);
    clock[2] = bo_seconds();
    for (int i = 0; i < CALLS; i++) kernels->scale(COUNT, 0.5f, buffer, y);
    clock[3] = bo_seconds();
    for (int i = 0; i < CALLS; i++) sink = kernels->exp_sum(COUNT, buffer, -1.0f, y);
    clock[4] = bo_seconds();
    for (int i = 0; i < CALLS; i++) sink = kernels->exp_weigh(COUNT, buffer, 0.0f, y);
    clock[5] = bo_seconds();
    for (int i = 0; i < CALLS; i++) sink = kernels->finite(COUNT, buffer);
    clock[6] = bo_seconds();
    (void)sink;
    for (int i = 0; i < 6; i++) best[i] = larger(best[i], 1e-9 * CALLS * COUNT / (clock[i + 1] - clock[i]));
}

static void bench_vectors(bo_context *context, int rounds, float *buffer)
{
    static const char *const names[] = {"transpose", "max", "scale", "exp_sum", "exp_weigh", "finite"};
    double best[6] = {0};
    for (int round = 0; round < rounds; round++) vector_rates(bo_context_kernels(context), buffer, best);
    printf("%d x %d numbers in cache\n", SIDE, SIDE);
    for (int i = 0; i < 6; i++) printf("%-41s %8.2f numbers/ns\n", names[i], best[i]);
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 30;
    bo_context_desc desc = {.threads = 1};
    bo_context *context;
    if (rounds < 1 || bo_context_create(&desc, &context) != BO_OK) return 2;
    float *buffer = bo_alloc(context, 3 * BUFFER_FLOATS, sizeof *buffer, "operands");
    bo_status status = buffer ? BO_OK : BO_MEMORY;
    bo_rng rng = bo_rng_make(1, 1);
    for (size_t i = 0; buffer && i < 3 * BUFFER_FLOATS; i++) buffer[i] = (float)bo_rng_uniform(&rng) - 0.5f;
    if (status == BO_OK) status = bench_products(context, rounds, buffer);
    if (status == BO_OK) bench_vectors(context, rounds, buffer);
    if (status == BO_OK) status = bench_states(context, rounds / 10 + 1, buffer, buffer + BUFFER_FLOATS);
    if (status != BO_OK) fprintf(stderr, "%s\n", bo_context_error(context));
    bo_free(buffer);
    bo_context_destroy(context);
    return status == BO_OK ? 0 : 1;
}
