/* The largest eigenvalues and their eigenvectors agree with bo_eigen: decaying, clustered and flat spectra, low rank,
 * any number of threads. */
#include "linalg_testing.h"

enum { N = 400, COUNT = 7 };

/* Q diag(spectrum) Qᵀ with a random orthogonal Q. */
static double *with_spectrum(bo_context *context, double (*spectrum)(size_t i))
{
    double *q = test_doubles((size_t)N * N, 3), *scaled = malloc(sizeof(double) * N * N),
           *a = malloc(sizeof(double) * N * N);
    assert_ok(context, bo_haar(context, N, N, q, N));
    for (size_t i = 0; i < (size_t)N * N; i++) scaled[i] = spectrum(i / N) * q[i];
    assert_ok(context, bo_gemm64(context, true, false, N, N, N, 1, q, N, scaled, N, 0, a, N));
    free(q), free(scaled);
    return a;
}

static double decaying(size_t i)
{
    return pow(0.9, (double)i);
}
static double clustered(size_t i)
{
    return i < COUNT ? 5 : 1.0 / (double)(i + 1);
}
static double flat(size_t i)
{
    return 1 + 1e-3 * (double)(N - i) / N;
}
static double low_rank(size_t i)
{
    return i < 3 ? 1 : 0;
}
static double dominated(size_t i) /* as of columns of which one has a far larger unit */
{
    return i ? pow(0.9, (double)i) : 1e9;
}

static void agrees(void **state)
{
    (void)state;
    double (*const spectra[])(size_t) = {decaying, clustered, flat, low_rank, dominated};
    bo_context *one = test_context(1), *three = test_context(3);
    for (size_t s = 0; s < 5; s++) {
        double *a = with_spectrum(one, spectra[s]), *copy = malloc(sizeof(double) * N * N);
        double values[COUNT], again[COUNT], *v = malloc(sizeof(double) * COUNT * N),
                                            *w = malloc(sizeof(double) * COUNT * N);
        memcpy(copy, a, sizeof(double) * N * N);
        assert_ok(one, bo_eigen_top(one, N, COUNT, copy, values, v));
        memcpy(copy, a, sizeof(double) * N * N);
        assert_ok(three, bo_eigen_top(three, N, COUNT, copy, again, w));
        assert_memory_equal(values, again, sizeof values);
        assert_memory_equal(v, w, sizeof(double) * COUNT * N);
        for (size_t k = 0; k < COUNT; k++) { /* residuals bound the error of eigenvalues */
            const double error = 2e-9 * spectra[s](k) + 1e-13 * spectra[s](0);
            assert_close(values[k], spectra[s](k), error);
            for (size_t i = 0; i < N; i++) {
                double sum = 0;
                for (size_t j = 0; j < N; j++) sum += a[i <= j ? i * N + j : j * N + i] * v[k * N + j];
                assert_close(sum, values[k] * v[k * N + i], error);
            }
            for (size_t l = 0; l <= k; l++) {
                double inner = 0;
                for (size_t j = 0; j < N; j++) inner += v[k * N + j] * v[l * N + j];
                assert_close(inner, k == l, 1e-11);
            }
        }
        free(a), free(copy), free(v), free(w);
    }
    bo_context_destroy(one), bo_context_destroy(three);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(agrees)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
