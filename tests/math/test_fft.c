/* Fourier transforms against the sum that defines them, and circular convolution by them. */
#include "testing.h"
#include "math/fft.h"

enum { MOST = 128 };

static const size_t lengths[] = {1, 2, 3, 8, 31, 64, 100, 127};

/* An FFT errs by a small multiple of log2(n) u in the Euclidean norm (Higham, theorem 24.2); 8 (1 + log2 n) u. */
static double tolerance(size_t n, double norm, double u)
{
    return 8.0 * (1.0 + log2((double)n)) * u * norm;
}

static void forward_is_the_sum(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    for (size_t s = 0; s < sizeof lengths / sizeof *lengths; s++) {
        size_t n = lengths[s];
        bo_fft_plan *plan;
        assert_ok(context, bo_fft_plan_create(context, n, &plan));
        assert_int_equal(bo_fft_bins(plan), n / 2 + 1);
        float room[MOST + 1], spectrum[MOST + 3], back[MOST];
        double x64[MOST], spectrum64[MOST + 2], back64[MOST], norm = 0;
        float *x = room + 1; /* not aligned */
        bo_rng rng = bo_rng_make(n, 1);
        for (size_t i = 0; i < n; i++) {
            x[i] = (float)bo_rng_normal(&rng);
            x64[i] = x[i], norm += x64[i] * x64[i];
        }
        norm = sqrt(norm * (double)n);
        bo_fft_forward(plan, x, spectrum + 1);
        bo_fft_forward64(plan, x64, spectrum64);
        for (size_t f = 0; f < n / 2 + 1; f++) {
            double real = 0, imaginary = 0;
            for (size_t t = 0; t < n; t++) {
                double angle = -2 * M_PI * (double)(f * t % n) / (double)n;
                real += x64[t] * cos(angle), imaginary += x64[t] * sin(angle);
            }
            assert_close(spectrum[1 + 2 * f], real, tolerance(n, norm, 0x1p-24));
            assert_close(spectrum[2 + 2 * f], imaginary, tolerance(n, norm, 0x1p-24));
            assert_close(spectrum64[2 * f], real, tolerance(n, norm, 0x1p-52) * 4);
            assert_close(spectrum64[2 * f + 1], imaginary, tolerance(n, norm, 0x1p-52) * 4);
        }
        double before = spectrum64[0];
        bo_fft_inverse(plan, spectrum + 1, back);
        bo_fft_inverse64(plan, spectrum64, back64);
        assert_true(spectrum64[0] == before); /* the input is kept */
        for (size_t i = 0; i < n; i++) {
            assert_close(back[i], x64[i], tolerance(n, norm, 0x1p-24));
            assert_close(back64[i], x64[i], tolerance(n, norm, 0x1p-52));
        }
        bo_fft_plan_destroy(plan);
    }
    bo_context_destroy(context);
}

/* The product of spectra is the spectrum of sum over t of x[t] y[(i - t) mod n]; integers come back exactly. */
static void product_is_circular_convolution(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    enum { N = 30, BINS = N / 2 + 1 };
    bo_fft_plan *plan;
    assert_ok(context, bo_fft_plan_create(context, N, &plan));
    double x[N], y[N], z[N], a[2 * BINS], b[2 * BINS];
    for (int i = 0; i < N; i++) x[i] = i % 5 - 2, y[i] = i % 7 - 3;
    bo_fft_forward64(plan, x, a);
    bo_fft_forward64(plan, y, b);
    for (int f = 0; f < BINS; f++) {
        double real = a[2 * f] * b[2 * f] - a[2 * f + 1] * b[2 * f + 1];
        a[2 * f + 1] = a[2 * f] * b[2 * f + 1] + a[2 * f + 1] * b[2 * f];
        a[2 * f] = real;
    }
    bo_fft_inverse64(plan, a, z);
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

static void transform_task(void *arg, size_t index, int worker)
{
    (void)worker;
    shared *job = arg;
    float spectrum[66];
    bo_fft_forward(job->plan, job->x, spectrum);
    job->same[index] = memcmp(spectrum, job->expected, sizeof spectrum) == 0;
}

static void one_plan_serves_many_threads(void **state)
{
    (void)state;
    bo_context *context = test_context(3);
    bo_fft_plan *plan;
    assert_ok(context, bo_fft_plan_create(context, 64, &plan));
    shared job = {.plan = plan};
    for (int i = 0; i < 64; i++) job.x[i] = (float)(i * i % 17);
    bo_fft_forward(plan, job.x, job.expected);
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
        cmocka_unit_test(forward_is_the_sum),
        cmocka_unit_test(product_is_circular_convolution),
        cmocka_unit_test(one_plan_serves_many_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
