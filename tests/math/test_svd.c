/* Singular values and vectors, checked by their definition. */
#include "linalg_testing.h"
#include <float.h>

/* A = U S Vᵀ, UᵀU = VᵀV = I, to 10 max(m, n) u as in the LAPACK users' guide (4.9). Returns the values. */
static double *check(bo_context *context, size_t m, size_t n, const double *a)
{
    const size_t k = m < n ? m : n, larger = m < n ? n : m;
    double *copy = malloc(m * n * sizeof *copy), *s = calloc(k, sizeof *s);
    double *u = calloc(m * k, sizeof *u), *vt = calloc(k * n, sizeof *vt);
    memcpy(copy, a, m * n * sizeof *copy);
    assert_ok(context, bo_svd(context, m, n, copy, u, s, vt));
    const double tolerance = 10 * (double)larger * 0x1p-53;
    for (size_t e = 0; e < k; e++) assert_true(s[e] >= 0 && (e == 0 || s[e - 1] >= s[e]));
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++) {
            double sum = 0;
            for (size_t e = 0; e < k; e++) sum += u[i * k + e] * s[e] * vt[e * n + j];
            assert_close(sum, a[i * n + j], tolerance * s[0]);
        }
    for (size_t e = 0; e < k; e++)
        for (size_t f = 0; f < k; f++) {
            double left = 0, right = 0;
            for (size_t i = 0; i < m; i++) left += u[i * k + e] * u[i * k + f];
            for (size_t j = 0; j < n; j++) right += vt[e * n + j] * vt[f * n + j];
            assert_close(left, e == f, tolerance);
            assert_close(right, e == f, tolerance);
        }
    free(copy), free(u), free(vt);
    return s;
}

static void accept(bo_context *context, size_t m, size_t n, double *a)
{
    free(check(context, m, n, a));
    free(a);
}

static void of_any_shape(void **state)
{
    (void)state;
    static const size_t shapes[][2] = {{1, 1},    {1, 5},   {5, 1},     {2, 2},    {3, 2},
                                       {7, 7},    {40, 9},  {5, 63},    {33, 33},  {65, 64},
                                       {64, 130}, {97, 97}, {130, 131}, {150, 31}, {31, 150}};
    FOR_EACH_ISA(context, 2)
    {
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
            accept(context, shapes[s][0], shapes[s][1], test_doubles(shapes[s][0] * shapes[s][1], s));
    }
}

/* A of the given rank: the product of an m x rank and a rank x n matrix. */
static double *of_rank(size_t m, size_t n, size_t rank)
{
    double *left = test_doubles(m * rank, 1), *right = test_doubles(rank * n, 2), *a = calloc(m * n, sizeof *a);
    for (size_t i = 0; i < m; i++)
        for (size_t p = 0; p < rank; p++)
            for (size_t j = 0; j < n; j++) a[i * n + j] += left[i * rank + p] * right[p * n + j];
    free(left), free(right);
    return a;
}

static void of_any_rank(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    static const size_t ranks[] = {0, 1, 2, 17, 39};
    static const size_t shapes[][2] = {{40, 40}, {40, 70}, {70, 40}};
    for (size_t r = 0; r < 5; r++)
        for (size_t s = 0; s < 3; s++) {
            size_t m = shapes[s][0], n = shapes[s][1];
            double *a = of_rank(m, n, ranks[r]), *values = check(context, m, n, a);
            for (size_t i = ranks[r]; i < 40; i++) assert_true(values[i] <= 10 * 70 * 0x1p-53 * values[0]);
            free(a), free(values);
        }
    bo_context_destroy(context);
}

static void of_special_matrices(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    enum { N = 60 };
    double *unit = calloc(N * N, sizeof *unit), *shifted = calloc(N * N, sizeof *shifted),
           *graded = test_doubles(N * N, 3);
    double *bidiagonal = calloc(N * N, sizeof *bidiagonal);
    for (size_t i = 0; i < N; i++) {
        unit[i * N + i] = 1;
        if (i + 1 < N) shifted[i * N + i + 1] = 1; /* zeros on the diagonal */
        for (size_t j = 0; j < N; j++) graded[i * N + j] *= pow(10, -0.3 * (double)(i + j));
        bidiagonal[i * N + i] = i % 7 == 3 ? 0 : 1;
        if (i + 1 < N) bidiagonal[i * N + i + 1] = i % 11 == 5 ? 0 : 2;
    }
    double *values = check(context, N, N, unit);
    for (size_t i = 0; i < N; i++) assert_close(values[i], 1, 1e-15);
    free(values), free(unit);
    values = check(context, N, N, shifted);
    for (size_t i = 0; i < N; i++) assert_close(values[i], i + 1 < N, 1e-15);
    free(values), free(shifted);
    accept(context, N, N, graded), accept(context, N, N, bidiagonal);
    bo_context_destroy(context);
}

/* Q of an n x n Gaussian matrix. */
static double *orthogonal(bo_context *context, size_t n, uint64_t seed)
{
    double *q = test_doubles(n * n, seed);
    assert_ok(context, bo_haar(context, n, n, q, n));
    return q;
}

/* Equal singular values: the numbers beside the diagonal stay at the size of rounding errors. */
static void of_clustered_values(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    for (size_t n = 3; n < 90; n += n < 20 ? 1 : 13) {
        double *q = orthogonal(context, n, n), *p = orthogonal(context, n, n + 1000);
        double *levels = calloc(n * n, sizeof *levels), *projector = calloc(n * n, sizeof *projector);
        double *near_unit = test_doubles(n * n, n), *cosines = malloc(n * n * sizeof *cosines);
        for (size_t i = 0; i < n; i++)
            for (size_t j = 0; j < n; j++) {
                for (size_t e = 0; e < n; e++) {
                    levels[i * n + j] += q[i * n + e] * (e % 2 ? 1 : 2) * p[e * n + j];
                    if (e < n / 2) projector[i * n + j] += q[e * n + i] * q[e * n + j];
                }
                near_unit[i * n + j] = 1e-14 * near_unit[i * n + j] + (i == j);
                cosines[i * n + j] =
                    sqrt((j == 0 ? 1.0 : 2.0) / (double)n) * cos(acos(-1) * ((double)i + 0.5) * (double)j / (double)n);
            }
        double *values = check(context, n, n, q);
        for (size_t i = 0; i < n; i++) assert_close(values[i], 1, 1e-13);
        free(values), free(q), free(p);
        accept(context, n, n, levels), accept(context, n, n, projector), accept(context, n, n, near_unit);
        accept(context, n, n, cosines);
    }
    bo_context_destroy(context);
}

/* Bidiagonal matrices of small integers: zeros at any place of the diagonal. */
static void of_zeros_on_the_diagonal(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_rng rng = bo_rng_make(1, 3);
    for (size_t trial = 0; trial < 300; trial++) {
        const size_t n = 2 + trial % 30;
        double *a = calloc(n * n, sizeof *a);
        for (size_t i = 0; i < n; i++) {
            a[i * n + i] = (double)bo_rng_below(&rng, 5) - 2;
            if (i + 1 < n) a[i * n + i + 1] = (double)bo_rng_below(&rng, 5) - 2;
        }
        accept(context, n, n, a);
    }
    const double known[] = {1, 1, 0, 0, 0, 0, 2, 0, 0, 0, 2, 1, 0, 0, 0, 2}; /* values 3, 2, √2, 0 */
    double *values = check(context, 4, 4, known);
    const double expected[] = {3, 2, sqrt(2), 0};
    for (size_t i = 0; i < 4; i++) assert_close(values[i], expected[i], 1e-14);
    free(values);
    bo_context_destroy(context);
}

/* A column whose numbers below the diagonal are all subnormal. */
static void of_subnormal_parts(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    const double x = 3 * 0x1p-1074, a[] = {1, 0, 0, 0, x, x, 0, x, -x};
    free(check(context, 3, 3, a));
    bo_context_destroy(context);
}

/* A power of two changes only exponents, so the vectors have the same bits. */
static void of_extreme_entries(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    enum { M = 30, N = 21 };
    double *plain = test_doubles(M * N, 9), u[M * N], vt[N * N], s[N], other_u[M * N], other_vt[N * N], other_s[N];
    assert_ok(context, bo_svd(context, M, N, plain, u, s, vt));
    for (int power = -1000; power <= 1000; power += 2000) {
        double *a = test_doubles(M * N, 9);
        for (size_t i = 0; i < M * N; i++) a[i] = ldexp(a[i], power);
        assert_ok(context, bo_svd(context, M, N, a, other_u, other_s, other_vt));
        for (size_t i = 0; i < N; i++) assert_true(other_s[i] == ldexp(s[i], power));
        assert_memory_equal(other_u, u, sizeof u);
        assert_memory_equal(other_vt, vt, sizeof vt);
        free(a);
    }
    free(plain);
    bo_context_destroy(context);
}

static void bits_do_not_depend_on_threads(void **state)
{
    (void)state;
    enum { M = 170, N = 201 };
    double *expected = NULL;
    for (int threads = 1; threads <= 3; threads++) {
        bo_context *context = test_context(threads);
        double *a = test_doubles(M * N, 2), *out = malloc((M * M + M + M * N) * sizeof *out);
        assert_ok(context, bo_svd(context, M, N, a, out, out + M * M, out + M * M + M));
        if (threads == 1) {
            expected = out;
        } else {
            assert_memory_equal(out, expected, (M * M + M + M * N) * sizeof *out);
            free(out);
        }
        free(a);
        bo_context_destroy(context);
    }
    free(expected);
}

static void what_cannot_be(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    double a[4] = {1, NAN, 0, 1}, b[4] = {1, 0, -INFINITY, 1}, u[4], s[2], vt[4];
    double huge[4] = {DBL_MAX, DBL_MAX, DBL_MAX, DBL_MAX};
    assert_ok(context, bo_svd(context, 0, 3, NULL, NULL, NULL, NULL));
    assert_fails(context, BO_NUMERIC, "row 0 of a 2 x 2 matrix is not finite", bo_svd(context, 2, 2, a, u, s, vt));
    assert_fails(context, BO_NUMERIC, "row 1 of a 2 x 2 matrix is not finite", bo_svd(context, 2, 2, b, u, s, vt));
    assert_fails(context, BO_NUMERIC, "largest number", bo_svd(context, 2, 2, huge, u, s, vt));
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(of_any_shape),
                                       cmocka_unit_test(of_any_rank),
                                       cmocka_unit_test(of_special_matrices),
                                       cmocka_unit_test(of_clustered_values),
                                       cmocka_unit_test(of_zeros_on_the_diagonal),
                                       cmocka_unit_test(of_subnormal_parts),
                                       cmocka_unit_test(of_extreme_entries),
                                       cmocka_unit_test(bits_do_not_depend_on_threads),
                                       cmocka_unit_test(what_cannot_be)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
