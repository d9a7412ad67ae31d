/* Cholesky, triangular solves and Haar matrices, checked by their defining identities. */
#include "linalg_testing.h"

static const size_t sizes[] = {1, 2, 3, 5, 14, 31, 113, 125, 126, 127, 128, 129, 257, 401};

/* Symmetric positive definite: ZᵀZ / n + I / 8 in the upper triangle, NaN below it (it must not be read). */
static double *definite(size_t n, size_t ld)
{
    double *z = test_doubles(n * n, 11), *a = malloc(n * ld * sizeof *a);
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < n; j++) {
            double sum = i == j ? 0.125 : 0.0;
            for (size_t p = 0; p < n && i <= j; p++) sum += z[p * n + i] * z[p * n + j] / (double)n;
            a[i * ld + j] = i <= j ? sum : NAN;
        }
    }
    free(z);
    return a;
}

/* |L Lᵀ - A| <= (n + 1) u |L||Lᵀ| elementwise (Higham, theorem 10.3); twice that for the naive product, one
 * more for the reciprocals. */
static void cholesky_multiplies_back(void **state)
{
    (void)state;
    FOR_EACH_ISA(context, 2)
    {
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            size_t n = sizes[s], ld = n + 3;
            double *a = definite(n, ld), *l = definite(n, ld);
            assert_ok(context, bo_cholesky(context, n, l, ld, NULL));
            for (size_t i = 0; i < n; i++) {
                for (size_t j = i; j < n; j++) {
                    double sum = 0, size = 0;
                    for (size_t p = 0; p <= i; p++) {
                        sum += l[i * ld + p] * l[j * ld + p];
                        size += fabs(l[i * ld + p] * l[j * ld + p]);
                    }
                    assert_close(sum, a[i * ld + j], 3 * (double)(n + 1) * 0x1p-53 * size);
                }
            }
            free(a), free(l);
        }
    }
}

static void cholesky_names_the_bad_pivot(void **state)
{
    (void)state;
    FOR_EACH_ISA(context, 2)
    {
        const size_t bad[] = {0, 1, 13, 125, 126, 200, 299};
        for (size_t s = 0; s < sizeof bad / sizeof *bad; s++) {
            enum { N = 300 };
            double *a = definite(N, N);
            size_t pivot = 12345;
            char message[40];
            /* L[i][i]² = A[i][i] - (a number >= 0): a diagonal of -1 stays negative */
            a[bad[s] * N + bad[s]] = -1.0;
            snprintf(message, sizeof message, "pivot %zu of 300", bad[s]);
            assert_fails(context, BO_NUMERIC, message, bo_cholesky(context, N, a, N, &pivot));
            assert_int_equal(pivot, bad[s]);
            free(a);
        }
        double nan = NAN;
        assert_fails(context, BO_NUMERIC, "pivot 0 of 1", bo_cholesky(context, 1, &nan, 1, NULL));
    }
}

/* (L + dL) x = b with |dL| <= n u |L| (Higham, theorem 8.5), so |L x - b| <= n u |L||x|; doubled as above. */
static void check_solves(bo_context *context, size_t n, size_t m)
{
    size_t ldl = n + 2, ldx = m + 1;
    double *l = test_doubles(n * ldl, 5), *b = test_doubles(n * ldx, 6);
    for (size_t i = 0; i < n; i++) {
        for (size_t j = i + 1; j < n; j++) l[i * ldl + j] = NAN; /* never read */
        for (size_t j = 0; j < i; j++) l[i * ldl + j] /= sqrt((double)n);
        l[i * ldl + i] = 1.0 + fabs(l[i * ldl + i]);
    }
    for (int transposed = 0; transposed < 2; transposed++) {
        double *x = test_doubles(n * ldx, 6);
        assert_ok(context, (transposed ? bo_solve_lower_t : bo_solve_lower)(context, n, m, l, ldl, x, ldx));
        for (size_t i = 0; i < n; i++) {
            for (size_t j = 0; j < m; j++) {
                double sum = 0, size = 0;
                for (size_t p = transposed ? i : 0; p < (transposed ? n : i + 1); p++) {
                    double product = (transposed ? l[p * ldl + i] : l[i * ldl + p]) * x[p * ldx + j];
                    sum += product, size += fabs(product);
                }
                assert_close(sum, b[i * ldx + j], 3 * (double)(n + 1) * 0x1p-53 * size);
            }
            assert_true(x[i * ldx + m] == b[i * ldx + m]);
        }
        free(x);
    }
    free(l), free(b);
}

static void solves_multiply_back(void **state)
{
    (void)state;
    FOR_EACH_ISA(context, 2)
    {
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            const size_t columns[] = {1, 2, 3, 17, 130};
            for (size_t c = 0; c < 5; c++) check_solves(context, sizes[s], columns[c]);
        }
    }
}

static void bits_do_not_depend_on_threads(void **state)
{
    (void)state;
    enum { N = 400, M = 150 };
    for (size_t s = 0; s < TEST_ISAS; s++) {
        double *expected = NULL;
        for (int threads = 1; threads <= 3; threads++) {
            bo_context *context = test_isa_context(test_isas[s], threads);
            if (!context) break;
            double *all = malloc((2 * M + 2) * N * sizeof *all), *l = definite(N, N);
            double *x = test_doubles(N * M, 1), *y = test_doubles(N, 2);
            assert_ok(context, bo_cholesky(context, N, l, N, NULL));
            assert_ok(context, bo_solve_lower(context, N, M, l, N, x, M));
            memcpy(all, x, N * M * sizeof *x);
            assert_ok(context, bo_solve_lower_t(context, N, M, l, N, x, M));
            memcpy(all + N * M, x, N * M * sizeof *x);
            assert_ok(context, bo_solve_lower(context, N, 1, l, N, y, 1));
            memcpy(all + 2 * N * M, y, N * sizeof *y);
            assert_ok(context, bo_solve_lower_t(context, N, 1, l, N, y, 1));
            memcpy(all + 2 * N * M + N, y, N * sizeof *y);
            if (threads == 1) {
                expected = all;
            } else {
                assert_memory_equal(all, expected, (2 * M + 2) * N * sizeof *all);
                free(all);
            }
            free(l), free(x), free(y);
            bo_context_destroy(context);
        }
        free(expected);
    }
}

static void haar_is_orthogonal(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    const size_t some[] = {1, 2, 3, 31, 32, 33, 64, 100, 161};
    for (size_t s = 0; s < sizeof some / sizeof *some; s++) {
        size_t n = some[s], ld = n + 1;
        double *q = test_doubles(n * ld, 9);
        assert_ok(context, bo_haar(context, n, n, q, ld));
        for (size_t i = 0; i < n; i++) {
            for (size_t j = 0; j < n; j++) {
                double sum = 0;
                for (size_t p = 0; p < n; p++) sum += q[i * ld + p] * q[j * ld + p];
                assert_close(sum, i == j, 10 * (double)n * 0x1p-53);
            }
        }
        free(q);
    }
    bo_context_destroy(context);
}

/* The first rows alone equal those of the whole matrix: orthogonalization never uses later rows. Both have errors of
 * about n ε. */
static void haar_first_rows(void **state)
{
    (void)state;
    enum { N = 100, ROWS = 37 };
    bo_context *context = test_context(1);
    double *whole = test_doubles(N * N, 10), *part = test_doubles(N * N, 10);
    assert_ok(context, bo_haar(context, N, N, whole, N));
    assert_ok(context, bo_haar(context, ROWS, N, part, N));
    for (size_t i = 0; i < ROWS * N; i++) assert_close(part[i], whole[i], 100 * N * 0x1p-53);
    assert_fails(context, BO_INVALID, "101 rows", bo_haar(context, N + 1, N, part, N));
    free(whole), free(part);
    bo_context_destroy(context);
}

static void haar_of_extremes(void **state)
{
    (void)state;
    enum { N = 40 };
    bo_context *context = test_context(2);
    double *plain = test_doubles(N * N, 10);
    assert_ok(context, bo_haar(context, N, N, plain, N));
    for (int power = -1000; power <= 1000; power += 2000) {
        double *scaled = test_doubles(N * N, 10);
        for (size_t i = 0; i < N * N; i++) scaled[i] = ldexp(scaled[i], power);
        assert_ok(context, bo_haar(context, N, N, scaled, N));
        for (size_t i = 0; i < N * N; i++) assert_close(scaled[i], plain[i], 100 * N * 0x1p-53);
        free(scaled);
    }
    plain[3 * N + 5] = NAN;
    assert_fails(context, BO_NUMERIC, "row 3", bo_haar(context, N, N, plain, N));
    free(plain);
    bo_context_destroy(context);
}

static void haar_bits_do_not_depend_on_threads(void **state)
{
    (void)state;
    enum { N = 190 };
    double *expected = test_doubles(N * N, 3);
    for (int threads = 1; threads <= 3; threads++) {
        bo_context *context = test_context(threads);
        double *found = threads == 1 ? expected : test_doubles(N * N, 3);
        assert_ok(context, bo_haar(context, N, N, found, N));
        assert_memory_equal(found, expected, N * N * sizeof *found);
        if (threads > 1) free(found);
        bo_context_destroy(context);
    }
    free(expected);
}

/* For a Haar matrix each entry has E q = 0, E q² = 1/n, E q⁴ = 3/(n(n+2)), E q⁸ = 105/(n(n+2)(n+4)(n+6)) (moments of a
 * coordinate on the sphere); these hold for the mean over draws of each entry. The trace has E = 0 and E tr² = 1
 * (irreducible representation). All are tested as z-scores over DRAWS independent matrices: |z| < 5 fails by chance
 * once in 1.7 million. Without the signs of R, Q[0][0] is never positive and its first z-score is about
 * -DRAWS^(1/2). */
static void haar_moments(void **state)
{
    (void)state;
    enum { N = 6, DRAWS = 4000 };
    bo_context *context = test_context(1);
    double first[N * N] = {0}, second[N * N] = {0}, fourth[N * N] = {0}, trace1 = 0, trace2 = 0;
    bo_rng rng = bo_rng_make(2024, bo_rng_stream("test.haar", 0));
    for (int d = 0; d < DRAWS; d++) {
        double q[N * N], trace = 0;
        for (int i = 0; i < N * N; i++) q[i] = bo_rng_normal(&rng);
        assert_ok(context, bo_haar(context, N, N, q, N));
        for (int i = 0; i < N * N; i++) {
            double square = q[i] * q[i];
            first[i] += q[i] / DRAWS, second[i] += square / DRAWS, fourth[i] += square * square / DRAWS;
        }
        for (int i = 0; i < N; i++) trace += q[i * N + i];
        trace1 += trace / DRAWS, trace2 += trace * trace / DRAWS;
    }
    double n = N, m2 = 1 / n, m4 = 3 / (n * (n + 2)), m8 = 105 / (n * (n + 2) * (n + 4) * (n + 6));
    for (int i = 0; i < N * N; i++) {
        assert_close(first[i], 0.0, 5 * sqrt(m2 / DRAWS));
        assert_close(second[i], m2, 5 * sqrt((m4 - m2 * m2) / DRAWS));
        assert_close(fourth[i], m4, 5 * sqrt((m8 - m4 * m4) / DRAWS));
    }
    assert_close(trace1, 0.0, 5 * sqrt(1.0 / DRAWS));
    /* the first n moments of tr are those of a normal variable: Var tr² = 2 */
    assert_close(trace2, 1.0, 5 * sqrt(2.0 / DRAWS));
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cholesky_multiplies_back),
        cmocka_unit_test(cholesky_names_the_bad_pivot),
        cmocka_unit_test(solves_multiply_back),
        cmocka_unit_test(bits_do_not_depend_on_threads),
        cmocka_unit_test(haar_is_orthogonal),
        cmocka_unit_test(haar_first_rows),
        cmocka_unit_test(haar_of_extremes),
        cmocka_unit_test(haar_bits_do_not_depend_on_threads),
        cmocka_unit_test(haar_moments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
