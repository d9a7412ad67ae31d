/* Fourier transforms compared with the defining sum, and circular convolution. */
#include "testing.h"
#include "math/fft.h"

/* A radix-2 transform with roots accurate to u has an error of at most log2(n) 6.7 u times the norm of its result
 * (Higham, theorem 24.2: η = μ + γ₄ (√2 + μ) with μ = u), and the step between real and complex spectra is one more
 * stage: 8 (1 + log2 n) u. The worst case of large odd radices and of chirp convolutions is larger, but in practice
 * rounding errors stay below the same bound. */
static double bound(size_t n, double u)
{
    return 8.0 * (1.0 + log2((double)n)) * u;
}

static const double u32 = 0x1p-24, u64 = 0x1p-53;
static const double pi = 3.14159265358979323846;

/* Buffers for one length in both precisions. Scratch is filled with NaN, which must not matter, and the bytes after
 * each buffer must not change. x32 and spectrum32 are not aligned. */
typedef struct bench {
    size_t n, bins;
    bo_fft_plan *plan;
    float *memory32, *x32, *spectrum32, *back32, *workspace32;
    double *memory64, *x64, *spectrum64, *back64, *workspace64;
    long double *roots; /* cos and sin of 2πk / n, in pairs */
    double norm;        /* norm of x */
} bench;

enum { GUARD = 4 };
static const double guard = 12345;

static void guard_buffers(const bench *b, bool check)
{
    size_t workspace = bo_fft_workspace(b->plan), n = b->n, bins = 2 * b->bins;
    float *ends32[4] = {b->x32 + n, b->spectrum32 + bins, b->back32 + n, b->workspace32 + workspace};
    double *ends64[4] = {b->x64 + n, b->spectrum64 + bins, b->back64 + n, b->workspace64 + workspace};
    for (int i = 0; i < 4 * GUARD; i++) {
        if (check) {
            assert_true(ends32[i / GUARD][i % GUARD] == (float)guard && ends64[i / GUARD][i % GUARD] == guard);
        }
        ends32[i / GUARD][i % GUARD] = (float)guard, ends64[i / GUARD][i % GUARD] = guard;
    }
    for (size_t i = 0; i < workspace; i++) b->workspace32[i] = NAN, b->workspace64[i] = NAN;
}

static bench make_bench(bo_context *context, size_t n)
{
    bench b = {.n = n, .bins = n / 2 + 1};
    assert_ok(context, bo_fft_plan_create(context, n, &b.plan));
    assert_int_equal(bo_fft_bins(b.plan), b.bins);
    size_t workspace = bo_fft_workspace(b.plan), total = 2 * n + 2 * b.bins + workspace + 4 * GUARD + 1;
    b.memory32 = malloc(total * sizeof *b.memory32), b.memory64 = malloc(total * sizeof *b.memory64);
    b.roots = malloc(2 * n * sizeof *b.roots);
    assert_true(b.memory32 && b.memory64 && b.roots);
    b.x32 = b.memory32 + 1, b.x64 = b.memory64 + 1;
    b.spectrum32 = b.x32 + n + GUARD, b.spectrum64 = b.x64 + n + GUARD;
    b.back32 = b.spectrum32 + 2 * b.bins + GUARD, b.back64 = b.spectrum64 + 2 * b.bins + GUARD;
    b.workspace32 = b.back32 + n + GUARD, b.workspace64 = b.back64 + n + GUARD;
    bo_rng rng = bo_rng_make(n, 1);
    for (size_t i = 0; i < n; i++) {
        b.x32[i] = (float)bo_rng_normal(&rng);
        b.x64[i] = b.x32[i];
        b.norm += b.x64[i] * b.x64[i];
        long double angle = 2 * 3.141592653589793238462643383279502884L * (long double)i / (long double)n;
        b.roots[2 * i] = cosl(angle), b.roots[2 * i + 1] = sinl(angle);
    }
    b.norm = sqrt(b.norm);
    guard_buffers(&b, false);
    return b;
}

static void end_bench(bench *b)
{
    bo_fft_plan_destroy(b->plan);
    free(b->memory32);
    free(b->memory64);
    free(b->roots);
}

/* The squared errors of bin f in both precisions, relative to the sum in extended precision if the host has it. */
static void bin_errors(const bench *b, size_t f, double *error32, double *error64)
{
    long double real = 0, imaginary = 0;
    for (size_t t = 0; t < b->n; t++) {
        size_t k = f * t % b->n;
        real += (long double)b->x64[t] * b->roots[2 * k], imaginary -= (long double)b->x64[t] * b->roots[2 * k + 1];
    }
    double e = (double)(b->spectrum32[2 * f] - real), i = (double)(b->spectrum32[2 * f + 1] - imaginary);
    *error32 = e * e + i * i;
    e = (double)(b->spectrum64[2 * f] - real), i = (double)(b->spectrum64[2 * f + 1] - imaginary);
    *error64 = e * e + i * i;
}

static void transform(const bench *b)
{
    bo_fft_forward(b->plan, b->x32, b->spectrum32, b->workspace32);
    bo_fft_forward64(b->plan, b->x64, b->spectrum64, b->workspace64);
    guard_buffers(b, true);
}

/* Forward and inverse: the errors of both add up, and the inverse divides norms by √n. */
static void check_inverse(const bench *b)
{
    size_t bins = 2 * b->bins;
    float *kept = malloc(bins * sizeof *kept);
    assert_non_null(kept);
    memcpy(kept, b->spectrum32, bins * sizeof *kept);
    bo_fft_inverse(b->plan, b->spectrum32, b->back32, b->workspace32);
    bo_fft_inverse64(b->plan, b->spectrum64, b->back64, b->workspace64);
    assert_memory_equal(kept, b->spectrum32, bins * sizeof *kept);
    guard_buffers(b, true);
    double error32 = 0, error64 = 0;
    for (size_t i = 0; i < b->n; i++) {
        error32 += pow(b->back32[i] - b->x64[i], 2), error64 += pow(b->back64[i] - b->x64[i], 2);
    }
    if (!(sqrt(error32) <= 2 * bound(b->n, u32) * b->norm && sqrt(error64) <= 2 * bound(b->n, u64) * b->norm))
        fail_msg("there and back, length %zu: errors %g, %g", b->n, sqrt(error32) / b->norm, sqrt(error64) / b->norm);
    b->spectrum32[1] = 7; /* imaginary parts that are zero for real inputs are ignored */
    if (b->n % 2 == 0) b->spectrum32[b->n + 1] = 7;
    memcpy(b->x32, b->back32, b->n * sizeof *b->x32);
    bo_fft_inverse(b->plan, b->spectrum32, b->back32, b->workspace32);
    assert_memory_equal(b->x32, b->back32, b->n * sizeof *b->x32);
    free(kept);
}

/* Every length up to 300, every bin: the norm of the error. */
static void short_transforms_are_the_sum(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    for (size_t n = 1; n <= 300; n++) {
        bench b = make_bench(context, n);
        transform(&b);
        double error32 = 0, error64 = 0, norm = b.norm * sqrt((double)n);
        for (size_t f = 0; f < b.bins; f++) {
            double e32, e64, weight = f == 0 || 2 * f == n ? 1 : 2; /* the other half is the conjugate */
            bin_errors(&b, f, &e32, &e64);
            error32 += weight * e32, error64 += weight * e64;
        }
        if (!(sqrt(error32) <= bound(n, u32) * norm && sqrt(error64) <= bound(n, u64) * norm))
            fail_msg("length %zu: errors %g, %g", n, sqrt(error32) / norm, sqrt(error64) / norm);
        assert_true(b.spectrum32[1] == 0 && b.spectrum64[1] == 0); /* real bins are real */
        if (n % 2 == 0) assert_true(b.spectrum32[n + 1] == 0 && b.spectrum64[n + 1] == 0);
        check_inverse(&b);
        end_bench(&b);
    }
    bo_context_destroy(context);
}

/* Powers of 2, 3, 5, 7 and 31 and their neighbors, primes and twice primes, products of many factors; some bins each.
 * The error of one bin is at most the norm of all errors. */
static void long_transforms_are_the_sum(void **state)
{
    (void)state;
    static const size_t lengths[] = {511,  512,  513,   625,   729,   961,   1009,  1023,  1024,  1025,  1155,
                                     2018, 2048, 2187,  2401,  3125,  4095,  4096,  4097,  6561,  8191,  8192,
                                     9973, 9999, 10000, 15625, 19946, 29791, 30030, 32768, 65536, 65537, 131071};
    bo_context *context = test_context(1);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        size_t n = lengths[i];
        bench b = make_bench(context, n);
        transform(&b);
        double norm = b.norm * sqrt((double)n);
        for (size_t s = 0; s < 12; s++) {
            size_t f = s < 2 ? s : s < 4 ? b.bins - 1 - (s - 2) : (s - 3) * 7919 * n / 65521 % b.bins;
            double error32, error64;
            bin_errors(&b, f, &error32, &error64);
            if (!(sqrt(error32) <= bound(n, u32) * norm && sqrt(error64) <= bound(n, u64) * norm))
                fail_msg("length %zu, bin %zu: errors %g, %g", n, f, sqrt(error32) / norm, sqrt(error64) / norm);
        }
        check_inverse(&b);
        end_bench(&b);
    }
    bo_context_destroy(context);
}

/* x delayed by one position has the spectrum multiplied by exp(-2πi f / n): checks every bin of a length that is too
 * long to sum. The bound covers both transforms and the product. */
static void delay_turns_the_spectrum(void **state)
{
    (void)state;
    static const size_t lengths[] = {8192, 8190, 8191, 6561};
    bo_context *context = test_context(1);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        size_t n = lengths[i];
        bench b = make_bench(context, n);
        transform(&b);
        double *delayed = malloc(n * sizeof *delayed), *spectrum = malloc(2 * b.bins * sizeof *spectrum), error = 0;
        assert_true(delayed && spectrum);
        for (size_t t = 0; t < n; t++) delayed[(t + 1) % n] = b.x64[t];
        bo_fft_forward64(b.plan, delayed, spectrum, b.workspace64);
        for (size_t f = 0; f < b.bins; f++) {
            double c = cos(2 * pi * (double)f / (double)n), s = -sin(2 * pi * (double)f / (double)n);
            error += pow(spectrum[2 * f] - (c * b.spectrum64[2 * f] - s * b.spectrum64[2 * f + 1]), 2);
            error += pow(spectrum[2 * f + 1] - (c * b.spectrum64[2 * f + 1] + s * b.spectrum64[2 * f]), 2);
        }
        if (!(sqrt(error) <= 2 * bound(n, u64) * b.norm * sqrt((double)n))) fail_msg("length %zu: %g", n, sqrt(error));
        free(delayed);
        free(spectrum);
        end_bench(&b);
    }
    bo_context_destroy(context);
}

/* The product of spectra is the spectrum of the sum over t of x[t] y[(i - t) mod n]; integers are restored exactly. */
static void product_is_circular_convolution(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    enum { N = 90, BINS = N / 2 + 1, WORKSPACE = 1000 };
    bo_fft_plan *plan;
    assert_ok(context, bo_fft_plan_create(context, N, &plan));
    assert_true(bo_fft_workspace(plan) <= WORKSPACE);
    double x[N], y[N], z[N], a[2 * BINS], b[2 * BINS], workspace[WORKSPACE];
    for (int i = 0; i < N; i++) x[i] = i % 5 - 2, y[i] = i % 7 - 3;
    bo_fft_forward64(plan, x, a, workspace);
    bo_fft_forward64(plan, y, b, workspace);
    for (int f = 0; f < BINS; f++) {
        double real = a[2 * f] * b[2 * f] - a[2 * f + 1] * b[2 * f + 1];
        a[2 * f + 1] = a[2 * f] * b[2 * f + 1] + a[2 * f + 1] * b[2 * f];
        a[2 * f] = real;
    }
    bo_fft_inverse64(plan, a, z, workspace);
    for (int i = 0; i < N; i++) {
        double sum = 0;
        for (int t = 0; t < N; t++) sum += x[t] * y[(i - t + N) % N];
        assert_close(z[i], sum, 1e-11);
    }
    bo_fft_plan_destroy(plan);
    bo_context_destroy(context);
}

typedef struct shared {
    const bo_fft_plan *plan;
    float x[64], expected[66];
    bool same[200];
} shared;

enum { SHARED_WORKSPACE = 1000 };

static void transform_task(void *arg, size_t index, int worker)
{
    (void)worker;
    shared *job = arg;
    float spectrum[66], workspace[SHARED_WORKSPACE];
    bo_fft_forward(job->plan, job->x, spectrum, workspace);
    job->same[index] = memcmp(spectrum, job->expected, sizeof spectrum) == 0;
}

static void one_plan_serves_many_threads(void **state)
{
    (void)state;
    bo_context *context = test_context(3);
    bo_fft_plan *plan;
    assert_ok(context, bo_fft_plan_create(context, 64, &plan));
    assert_true(bo_fft_workspace(plan) <= SHARED_WORKSPACE);
    shared job = {.plan = plan};
    float workspace[SHARED_WORKSPACE];
    for (int i = 0; i < 64; i++) job.x[i] = (float)(i * i % 17);
    bo_fft_forward(plan, job.x, job.expected, workspace);
    bo_parallel(context, 200, transform_task, &job);
    for (int i = 0; i < 200; i++) assert_true(job.same[i]);
    bo_fft_plan_destroy(plan);
    assert_fails(context, BO_INVALID, "length 0", bo_fft_plan_create(context, 0, &plan));
    assert_null(plan);
    bo_fft_plan_destroy(NULL);
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(short_transforms_are_the_sum), cmocka_unit_test(long_transforms_are_the_sum),
        cmocka_unit_test(delay_turns_the_spectrum),     cmocka_unit_test(product_is_circular_convolution),
        cmocka_unit_test(one_plan_serves_many_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
