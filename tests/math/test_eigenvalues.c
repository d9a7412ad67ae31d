/* Eigenvalues of nonsymmetric matrices: known eigenvalues, and eigenvalues of similar matrices. */
#include "testing.h"
#include <float.h>
#include "math/linalg.h"

static void of_small_matrices(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    double turned[4] = {0, -2, 2, 0}, triangle[9] = {3, 5, 7, 0, -1, 2, 0, 0, 4}, real[3], imaginary[3];
    /* a rotation by 90 degrees, scaled by two: ±2i */
    assert_ok(context, bo_eigenvalues(context, 2, turned, real, imaginary));
    assert_close(real[0], 0, 1e-12);
    assert_close(fabs(imaginary[0]), 2, 1e-12);
    assert_close(imaginary[0] + imaginary[1], 0, 1e-12);
    assert_ok(context, bo_eigenvalues(context, 3, triangle, real, imaginary)); /* the diagonal */
    assert_close(real[0] + real[1] + real[2], 6, 1e-12);
    assert_close(real[0] * real[1] * real[2], -12, 1e-12);
    assert_close(imaginary[0], 0, 1e-12);
    double one[1] = {-7};
    assert_ok(context, bo_eigenvalues(context, 1, one, real, imaginary));
    assert_true(real[0] == -7 && imaginary[0] == 0);
    assert_ok(context, bo_eigenvalues(context, 0, NULL, NULL, NULL));
    bo_context_destroy(context);
}

/* I - 11ᵀ/n has the eigenvalue 1 n - 1 times, and 0; with shifts that are computed from sums of products, what is left
 * of the identity after the first eigenvalue is rounding, and QR never ends. Errors are some n rounding errors. */
static void of_almost_equal_eigenvalues(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_rng rng = bo_rng_make(2, 1);
    for (size_t n = 3; n <= 96; n += 3)
        for (int kind = 0; kind < 3; kind++) {
            static double a[96 * 96], real[96], imaginary[96];
            double sum = 0, min_abs = INFINITY;
            for (size_t i = 0; i < n * n; i++) {
                a[i] = (double)(i / n == i % n) - 1 / (double)n;
                if (kind == 1) a[i] = (double)(float)a[i];
                if (kind == 2) a[i] += 1e-15 * bo_rng_normal(&rng);
            }
            assert_ok(context, bo_eigenvalues(context, n, a, real, imaginary));
            for (size_t i = 0; i < n; i++) sum += real[i], min_abs = fmin(min_abs, fabs(real[i]));
            assert_close(sum, (double)n - 1, 1e-6 * (double)n); /* float32 in kind 1 */
            assert_close(min_abs, 0, 1e-6);
        }
    bo_context_destroy(context);
}

/* The cyclic permutation of n elements has the n-th roots of 1; QR with only the standard shifts would never end. */
static void of_a_permutation(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    for (size_t n = 3; n <= 24; n++) {
        double a[24 * 24] = {0}, real[24], imaginary[24], pi = acos(-1);
        for (size_t i = 0; i < n; i++) a[i * n + (i + 1) % n] = 1;
        assert_ok(context, bo_eigenvalues(context, n, a, real, imaginary));
        for (size_t k = 0; k < n; k++) {
            double nearest = INFINITY, angle = 2 * pi * (double)k / (double)n;
            for (size_t i = 0; i < n; i++)
                nearest = fmin(nearest, hypot(real[i] - cos(angle), imaginary[i] - sin(angle)));
            assert_close(nearest, 0, 1e-13);
        }
    }
    bo_context_destroy(context);
}

/* Qᵀ B Q with an orthogonal Q, where B has 2 x 2 blocks (a b; -b a) with eigenvalues a ± bi, and some numbers above. */
static void of_similar_matrices(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    enum { N = 40 };
    double q[N * N], b[N * N] = {0}, half[N * N], a[N * N], real[N], imaginary[N];
    bo_rng rng = bo_rng_make(1, 1);
    for (size_t i = 0; i < N * N; i++) q[i] = bo_rng_normal(&rng);
    assert_ok(context, bo_haar(context, N, N, q, N));
    for (size_t i = 0; i < N; i += 2) {
        b[i * N + i] = b[(i + 1) * N + i + 1] = (double)i;
        b[i * N + i + 1] = (double)(i % 6), b[(i + 1) * N + i] = -(double)(i % 6);
        for (size_t j = i + 2; j < N; j++) b[i * N + j] = 0.1 * bo_rng_normal(&rng);
    }
    for (int scale = -700; scale <= 700; scale += 700) {
        assert_ok(context, bo_gemm64(context, true, false, N, N, N, 1, q, N, b, N, 0, half, N));
        assert_ok(context, bo_gemm64(context, false, false, N, N, N, 1, half, N, q, N, 0, a, N));
        for (size_t i = 0; i < N * N; i++) a[i] = ldexp(a[i], scale);
        assert_ok(context, bo_eigenvalues(context, N, a, real, imaginary));
        for (size_t k = 0; k < N; k++) {
            double nearest = INFINITY, expected = (k % 2 ? -1 : 1) * (double)((k - k % 2) % 6);
            for (size_t i = 0; i < N; i++)
                nearest = fmin(nearest, hypot(ldexp(real[i], -scale) - (double)(k - k % 2),
                                              ldexp(imaginary[i], -scale) - expected));
            assert_close(nearest, 0, 1e-6); /* real pairs are double eigenvalues: the root of the rounding error */
        }
    }
    bo_context_destroy(context);
}

/* Blocks of very different sizes, and small integers with many equal eigenvalues. */
static void of_hard_matrices(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    enum { N = 8 };
    double real[N], imaginary[N], a[N * N];
    bo_rng rng = bo_rng_make(2, 1);
    for (size_t trial = 0; trial < 20; trial++) {
        for (size_t i = 0; i < 5; i++)
            for (size_t j = 0; j < 5; j++) a[i * 5 + j] = i < 4 && j < 4 ? 1e-165 * bo_rng_normal(&rng) : i == j;
        assert_ok(context, bo_eigenvalues(context, 5, a, real, imaginary));
    }
    for (size_t trial = 0; trial < 20000; trial++) {
        const size_t n = 3 + trial % 6;
        double trace = 0;
        for (size_t i = 0; i < n * n; i++) a[i] = bo_rng_below(&rng, 2) ? 0 : (double)bo_rng_below(&rng, 3) - 1;
        for (size_t i = 0; i < n; i++) trace += a[i * n + i];
        assert_ok(context, bo_eigenvalues(context, n, a, real, imaginary));
        for (size_t i = 0; i < n; i++) trace -= real[i];
        assert_close(trace, 0, 1e-12);
    }
    double known[] = {1, 0, 0, 0, -1, 0, 0, 0, 0, 1, 1, -1, -1, -1, -1, 1, -1, 0, 0, 0, 0, 1, 0, 0, 0};
    assert_ok(context, bo_eigenvalues(context, 5, known, real, imaginary));
    for (size_t i = 0; i < N * N; i++) a[i] = 1e308;
    assert_fails(context, BO_NUMERIC, "largest number", bo_eigenvalues(context, N, a, real, imaginary));
    bo_context_destroy(context);
}

static void not_of_nan(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    double a[4] = {1, NAN, 0, 1}, real[2], imaginary[2];
    assert_fails(context, BO_NUMERIC, "not finite", bo_eigenvalues(context, 2, a, real, imaginary));
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(of_small_matrices),
                                       cmocka_unit_test(of_a_permutation),
                                       cmocka_unit_test(of_almost_equal_eigenvalues),
                                       cmocka_unit_test(of_similar_matrices),
                                       cmocka_unit_test(of_hard_matrices),
                                       cmocka_unit_test(not_of_nan)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
