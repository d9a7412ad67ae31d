/* Singular values and vectors, checked by their definition. */
#include "linalg_testing.h"

/* A = U S Vᵀ, UᵀU = VᵀV = I, to 10 max(m, n) u as in the LAPACK users' guide (4.9). */
static void check(bo_context *context, size_t m, size_t n)
{
    const size_t k = m < n ? m : n, larger = m < n ? n : m;
    double *a = test_doubles(m * n, 4), *copy = test_doubles(m * n, 4), s[64];
    double *u = calloc(m * k, sizeof *u), *vt = calloc(k * n, sizeof *vt);
    assert_ok(context, bo_svd(context, m, n, copy, u, s, vt));
    const double tolerance = 10 * (double)larger * 0x1p-53 * (s[0] + 1);
    for (size_t e = 1; e < k; e++) assert_true(s[e - 1] >= s[e] && s[e] >= 0);
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++) {
            double sum = 0;
            for (size_t e = 0; e < k; e++) sum += u[i * k + e] * s[e] * vt[e * n + j];
            assert_close(sum, a[i * n + j], tolerance);
        }
    for (size_t e = 0; e < k; e++)
        for (size_t f = 0; f < k; f++) {
            double left = 0, right = 0;
            for (size_t i = 0; i < m; i++) left += u[i * k + e] * u[i * k + f];
            for (size_t j = 0; j < n; j++) right += vt[e * n + j] * vt[f * n + j];
            assert_close(left, e == f, tolerance);
            assert_close(right, e == f, tolerance);
        }
    free(a), free(copy), free(u), free(vt);
}

static void of_any_shape(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    check(context, 1, 1);
    check(context, 7, 7);
    check(context, 40, 9);
    check(context, 5, 63);
    bo_context_destroy(context);
}

static void what_cannot_be(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    double a[4] = {1, NAN, 0, 1}, u[4], s[2], vt[4];
    assert_ok(context, bo_svd(context, 0, 3, NULL, NULL, NULL, NULL));
    assert_fails(context, BO_INVALID, "40000", bo_svd(context, 40000, 2, NULL, NULL, NULL, NULL));
    assert_fails(context, BO_NUMERIC, "2 x 2", bo_svd(context, 2, 2, a, u, s, vt));
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(of_any_shape), cmocka_unit_test(what_cannot_be)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
