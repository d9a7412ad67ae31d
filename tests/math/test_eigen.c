/* Eigenvectors of symmetric matrices, checked by their definition: matrices with known, equal, close and graded
 * eigenvalues, sizes around the blocks, extreme entries, and refused inputs. */
#include "linalg_testing.h"
#include <float.h>

static double *square(size_t n)
{
    double *a = calloc(n * n + 1, sizeof *a);
    assert_non_null(a);
    return a;
}

/* A v = λ v and VᵀV = I up to a moderate multiple of n u ‖A‖ (LAPACK users' guide 4.7: p(n) u, usually with p(n) = 10
 * n). The upper triangle of a is given; below it the function gets NaN, which must not be read. Returns the values. */
static double *check(bo_context *context, size_t n, const double *a)
{
    size_t ld = n + 3;
    double *v = malloc(n * ld * sizeof *v), *values = malloc(n * sizeof *values), norm = 0;
    for (size_t i = 0; i < n; i++) {
        double sum = 0;
        for (size_t j = 0; j < n; j++) sum += fabs(a[j < i ? j * n + i : i * n + j]);
        norm = fmax(norm, sum);
        for (size_t j = 0; j < ld; j++) v[i * ld + j] = j < i || j >= n ? NAN : a[i * n + j];
    }
    assert_ok(context, bo_eigen(context, n, v, ld, values));
    double tolerance = 10 * (double)n * 0x1p-53;
    for (size_t e = 0; e < n; e++) {
        if (e > 0) assert_true(values[e - 1] <= values[e]);
        for (size_t i = 0; i < n; i++) {
            double sum = 0, inner = 0;
            for (size_t j = 0; j < n; j++) {
                sum += a[i <= j ? i * n + j : j * n + i] * v[e * ld + j];
                inner += v[e * ld + j] * v[i * ld + j];
            }
            assert_close(sum, values[e] * v[e * ld + i], tolerance * norm);
            assert_close(inner, e == i, tolerance);
        }
        for (size_t j = n; j < ld; j++) assert_true(isnan(v[e * ld + j])); /* nothing is written outside the rows */
    }
    free(v);
    return values;
}

static void accept(bo_context *context, size_t n, double *a)
{
    free(check(context, n, a));
    free(a);
}

static double *random_symmetric(size_t n, uint64_t seed)
{
    double *a = test_doubles(n * n, seed);
    return a;
}

static double *tridiagonal(size_t n, double (*diagonal)(size_t n, size_t i), double beside)
{
    double *a = square(n);
    for (size_t i = 0; i < n; i++) {
        a[i * n + i] = diagonal(n, i);
        if (i + 1 < n) a[i * n + i + 1] = beside;
    }
    return a;
}

static double two(size_t n, size_t i)
{
    (void)n, (void)i;
    return 2;
}

static double wilkinson(size_t n, size_t i)
{
    return fabs((double)i - (double)(n - 1) / 2);
}

/* Q D Qᵀ with a Haar-distributed Q. */
static double *with_spectrum(bo_context *context, size_t n, const double *d)
{
    double *q = test_doubles(n * n, 5), *a = square(n);
    assert_ok(context, bo_haar(context, n, n, q, n));
    for (size_t i = 0; i < n; i++)
        for (size_t j = i; j < n; j++)
            for (size_t p = 0; p < n; p++) a[i * n + j] += q[p * n + i] * d[p] * q[p * n + j];
    free(q);
    return a;
}

static void of_every_size(void **state)
{
    (void)state;
    static const size_t sizes[] = {1, 2, 3, 4, 5, 7, 8, 31, 32, 33, 63, 64, 65, 66, 97, 128, 129, 130, 161, 257, 301};
    FOR_EACH_ISA(context, 2)
    {
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
            accept(context, sizes[s], random_symmetric(sizes[s], sizes[s]));
    }
}

static void of_known_matrices(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    enum { N = 150 };
    double *a = tridiagonal(N, two, -1), *values = check(context, N, a), pi = acos(-1);
    for (size_t k = 0; k < N; k++) /* 2 - 2 cos(π k / (n + 1)), k = 1 … n */
        assert_close(values[k], 2 - 2 * cos(pi * (double)(k + 1) / (N + 1)), 10 * N * 0x1p-53 * 4);
    free(a), free(values);
    a = tridiagonal(21, wilkinson, 1); /* W21+: the largest two agree to 14 digits (Wilkinson 1965, 5.45) */
    values = check(context, 21, a);
    assert_close(values[20], 10.746194182903393, 1e-13);
    assert_close(values[19], 10.746194182903322, 1e-13);
    free(a), free(values);
    bo_context_destroy(context);
}

/* Copies of W21+ that are coupled weakly: many clusters of nearly equal eigenvalues. */
static void of_glued_matrices(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    enum { COPIES = 7, N = COPIES * 21 };
    static const double glue[] = {1e-3, 1e-8, 1e-14, 1e-200, 0};
    for (size_t g = 0; g < 5; g++) {
        double *a = square(N);
        for (size_t i = 0; i < N; i++) {
            a[i * N + i] = wilkinson(21, i % 21);
            if (i + 1 < N) a[i * N + i + 1] = i % 21 == 20 ? glue[g] : 1;
        }
        accept(context, N, a);
    }
    bo_context_destroy(context);
}

static void of_degenerate_matrices(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    enum { N = 100 };
    double *zero = square(N), *unit = square(N), *diagonal = square(N), *one = square(N), *ones = square(N);
    bo_rng rng = bo_rng_make(3, 1);
    for (size_t i = 0; i < N; i++) {
        unit[i * N + i] = 1;
        diagonal[i * N + i] = bo_rng_normal(&rng);
        for (size_t j = 0; j < N; j++) one[i * N + j] = (double)((i + 1) * (j + 1)), ones[i * N + j] = 1;
    }
    double *values = check(context, N, unit);
    for (size_t i = 0; i < N; i++) assert_true(values[i] == 1);
    free(values), free(unit);
    values = check(context, N, ones);
    assert_close(values[N - 1], N, 1e-11);
    for (size_t i = 0; i + 1 < N; i++) assert_close(values[i], 0, 1e-11);
    free(values), free(ones);
    accept(context, N, zero), accept(context, N, diagonal), accept(context, N, one);
    bo_context_destroy(context);
}

static void of_prescribed_spectra(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    enum { N = 131, KINDS = 5 };
    for (int kind = 0; kind < KINDS; kind++) {
        double d[N];
        for (size_t i = 0; i < N; i++) {
            const double t = (double)i / (N - 1);
            const double of_kind[KINDS] = {
                i < N / 2 ? 1 : 2,     /* two clusters */
                1 + 1e-15 * (double)i, /* one tight cluster */
                pow(10, -20 * t),      /* graded */
                i == 0   ? -1
                : i == 1 ? 1
                         : 1e-13,                   /* rank two and noise */
                (i % 2 ? -1 : 1) * (1 + (double)i), /* both signs */
            };
            d[i] = of_kind[kind];
        }
        double *a = with_spectrum(context, N, d), *values = check(context, N, a), max_abs = 0;
        for (size_t i = 0; i < N; i++) max_abs = fmax(max_abs, fabs(d[i]));
        for (size_t i = 1; i < N; i++) { /* sorts */
            double x = d[i];
            size_t at = i;
            for (; at > 0 && d[at - 1] > x; at--) d[at] = d[at - 1];
            d[at] = x;
        }
        for (size_t i = 0; i < N; i++) assert_close(values[i], d[i], 100 * N * 0x1p-53 * max_abs);
        free(a), free(values);
    }
    bo_context_destroy(context);
}

/* A power of two changes only exponents, so the vectors have the same bits. */
static void of_extreme_entries(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    enum { N = 77 };
    static const int powers[] = {-1000, -700, 700, 1000};
    double *plain = random_symmetric(N, 4), expected[N];
    assert_ok(context, bo_eigen(context, N, plain, N, expected));
    for (size_t p = 0; p < 4; p++) {
        double *a = random_symmetric(N, 4), values[N];
        for (size_t i = 0; i < N * N; i++) a[i] = ldexp(a[i], powers[p]);
        assert_ok(context, bo_eigen(context, N, a, N, values));
        for (size_t i = 0; i < N; i++) assert_true(values[i] == ldexp(expected[i], powers[p]));
        assert_memory_equal(a, plain, N * N * sizeof *a);
        free(a);
    }
    free(plain);
    double *graded = square(N), *block = random_symmetric(N, 6);
    for (size_t i = 0; i < N; i++) {
        graded[i * N + i] = pow(10, 300 - 600 * (double)i / (N - 1));
        if (i + 1 < N) graded[i * N + i + 1] = graded[i * N + i] / 3;
        for (size_t j = i; j < N; j++) block[i * N + j] *= i < N / 2 ? 1 : 1e-200; /* a tiny block */
    }
    accept(context, N, graded), accept(context, N, block);
    double tiny[3] = {DBL_TRUE_MIN, 0, 0}, values[2];
    double small[4] = {DBL_TRUE_MIN, 0, 0, 2 * DBL_TRUE_MIN};
    assert_ok(context, bo_eigen(context, 1, tiny, 1, values));
    assert_true(values[0] == DBL_TRUE_MIN && tiny[0] == 1);
    assert_ok(context, bo_eigen(context, 2, small, 2, values));
    assert_true(values[0] == DBL_TRUE_MIN && values[1] == 2 * DBL_TRUE_MIN);
    bo_context_destroy(context);
}

static void bits_do_not_depend_on_threads(void **state)
{
    (void)state;
    enum { N = 403 };
    FOR_EACH_ISA(one, 1)
    {
        double *expected = random_symmetric(N, 7), values[N];
        assert_ok(one, bo_eigen(one, N, expected, N, values));
        for (int threads = 2; threads <= 3; threads++) {
            bo_context *context = test_isa_context(bo_context_describe(one)->isa, threads);
            double *a = random_symmetric(N, 7), found[N];
            assert_ok(context, bo_eigen(context, N, a, N, found));
            assert_memory_equal(found, values, sizeof found);
            assert_memory_equal(a, expected, N * N * sizeof *a);
            free(a);
            bo_context_destroy(context);
        }
        free(expected);
    }
}

static void what_is_refused(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    enum { N = 70 };
    static const double wrong[] = {NAN, INFINITY, -INFINITY};
    double values[N];
    for (size_t w = 0; w < 3; w++) {
        double *a = random_symmetric(N, 8);
        a[41 * N + 60] = wrong[w];
        assert_fails(context, BO_NUMERIC, "row 41 of a 70 x 70 matrix is not finite",
                     bo_eigen(context, N, a, N, values));
        free(a);
    }
    double huge[4] = {DBL_MAX, DBL_MAX, 0, DBL_MAX};
    assert_fails(context, BO_NUMERIC, "largest number", bo_eigen(context, 2, huge, 2, values));
    assert_ok(context, bo_eigen(context, 0, NULL, 1, NULL));
    assert_fails(context, BO_MEMORY, "eigenvectors", bo_eigen(context, SIZE_MAX / 4, NULL, SIZE_MAX / 4, NULL));
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_every_size),
        cmocka_unit_test(of_known_matrices),
        cmocka_unit_test(of_glued_matrices),
        cmocka_unit_test(of_degenerate_matrices),
        cmocka_unit_test(of_prescribed_spectra),
        cmocka_unit_test(of_extreme_entries),
        cmocka_unit_test(bits_do_not_depend_on_threads),
        cmocka_unit_test(what_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
