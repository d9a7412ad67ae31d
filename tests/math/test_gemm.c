/* Products against naive loops in double, with the classical error bound as threshold: every ISA, odd sizes,
 * strides, transposes; the same bits for any number of threads. */
#include "linalg_testing.h"

static const size_t sizes[][3] = {
    /* 1, primes, block sizes and their neighbours (tiles of 4..14 x 4..32, tasks of 112 x 256, runs of 448)
     */
    {1, 1, 1},     {1, 37, 5},      {13, 1, 7},     {14, 32, 448},  {15, 33, 449},
    {13, 31, 447}, {112, 256, 8},   {113, 257, 9},  {111, 255, 17}, {6, 16, 257},
    {61, 127, 97}, {127, 131, 911}, {300, 10, 101}, {1031, 3, 64},  {517, 13, 450},
};

/* |error| of element <= bound * (|alpha| |A||B| + |beta| |C|) */
#define CHECK_GEMM(u)                                                                                                  \
    do {                                                                                                               \
        for (size_t i = 0; i < m; i++) {                                                                               \
            for (size_t j = 0; j < n; j++) {                                                                           \
                double sum = 0, total = 0;                                                                             \
                for (size_t p = 0; p < k; p++) {                                                                       \
                    double product =                                                                                   \
                        (double)(ta ? a[p * lda + i] : a[i * lda + p]) * (tb ? b[j * ldb + p] : b[p * ldb + j]);       \
                    sum += product, total += fabs(product);                                                            \
                }                                                                                                      \
                double old = beta == 0 ? 0.0 : beta * (double)before[i * ldc + j];                                     \
                assert_close(c[i * ldc + j], alpha *sum + old,                                                         \
                             sum_bound(k, u) * (fabs((double)alpha) * total + fabs(old)));                             \
            }                                                                                                          \
            for (size_t j = n; j < ldc; j++) assert_memory_equal(c + i * ldc + j, before + i * ldc + j, sizeof *c);    \
        }                                                                                                              \
    } while (0)

static void check_f32(bo_context *context, const size_t *size, bool ta, bool tb, float alpha, float beta)
{
    size_t m = size[0], n = size[1], k = size[2];
    size_t lda = (ta ? m : k) + 3, ldb = (tb ? k : n) + 1, ldc = n + 2;
    float *a = test_floats(lda * (ta ? k : m), 1), *b = test_floats(ldb * (tb ? n : k), 2);
    float *c = test_floats(ldc * m, 3), *before = test_floats(ldc * m, 3);
    if (beta == 0) {
        for (size_t i = 0; i < m; i++) {
            for (size_t j = 0; j < n; j++) c[i * ldc + j] = NAN; /* must be overwritten, not scaled */
        }
    }
    assert_ok(context, bo_gemm(context, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc));
    CHECK_GEMM(0x1p-24);
    free(a), free(b), free(c), free(before);
}

static void check_f64(bo_context *context, const size_t *size, bool ta, bool tb, double alpha, double beta)
{
    size_t m = size[0], n = size[1], k = size[2];
    size_t lda = (ta ? m : k) + 3, ldb = (tb ? k : n) + 1, ldc = n + 2;
    double *a = test_doubles(lda * (ta ? k : m), 1), *b = test_doubles(ldb * (tb ? n : k), 2);
    double *c = test_doubles(ldc * m, 3), *before = test_doubles(ldc * m, 3);
    if (beta == 0) {
        for (size_t i = 0; i < m; i++) {
            for (size_t j = 0; j < n; j++) c[i * ldc + j] = NAN;
        }
    }
    assert_ok(context, bo_gemm64(context, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc));
    CHECK_GEMM(0x1p-52); /* twice the unit: the naive sum errs too */
    free(a), free(b), free(c), free(before);
}

static void products_match_naive_loops(void **state)
{
    (void)state;
    FOR_EACH_ISA(context, 2)
    {
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            for (int t = 0; t < 4; t++) {
                bool plain = (s + (size_t)t) % 2 == 0;
                check_f32(context, sizes[s], t & 1, t & 2, plain ? 1.0f : -0.7f, plain ? 0.0f : 0.3f);
                check_f64(context, sizes[s], t & 1, t & 2, plain ? 1.0 : -0.7, plain ? 1.0 : 0.0);
            }
        }
    }
}

static void degenerate_sizes_only_scale(void **state)
{
    (void)state;
    FOR_EACH_ISA(context, 2)
    {
        float c[4] = {1, 2, NAN, 4}, a[4] = {NAN, NAN, NAN, NAN};
        assert_ok(context, bo_gemm(context, false, false, 2, 2, 0, 1.0f, a, 2, a, 2, 0.0f, c, 2));
        for (int i = 0; i < 4; i++) assert_true(c[i] == 0.0f);
        assert_ok(context, bo_gemm(context, false, false, 0, 2, 2, 1.0f, a, 2, a, 2, 0.0f, c, 2));
        float d[4] = {1, 2, 3, 4};
        assert_ok(context, bo_gemm(context, false, false, 2, 2, 2, 0.0f, a, 2, a, 2, 2.0f, d, 2));
        for (int i = 0; i < 4; i++) assert_true(d[i] == 2.0f * (float)(i + 1));
    }
}

/* More than one super-block of 4096 lines. */
static void super_blocks_are_joined(void **state)
{
    (void)state;
    FOR_EACH_ISA(context, 2)
    {
        size_t wide[3] = {3, 8197, 5}, tall[3] = {8195, 2, 3};
        check_f32(context, wide, false, false, 1.0f, 0.0f);
        check_f32(context, tall, false, true, 1.0f, 0.5f);
        check_f64(context, tall, true, false, 1.0, 0.0);
    }
}

static void bits_do_not_depend_on_threads(void **state)
{
    (void)state;
    enum { M = 229, N = 523, K = 1009 };
    float *a = test_floats(M * K, 1), *b = test_floats(K * N, 2);
    for (size_t s = 0; s < 3; s++) {
        float *expected = NULL;
        for (int threads = 1; threads <= 3; threads++) {
            bo_context *context = test_isa_context(test_isas[s], threads);
            if (!context) break;
            float *c = test_floats(M * N, 3);
            assert_ok(context, bo_gemm(context, false, false, M, N, K, 1.0f, a, K, b, N, 0.5f, c, N));
            if (threads == 1) {
                expected = c;
            } else {
                assert_memory_equal(c, expected, M * N * sizeof *c);
                free(c);
            }
            bo_context_destroy(context);
        }
        free(expected);
    }
    free(a), free(b);
}

static void check_packed(bo_context *context, size_t m, size_t n, size_t k)
{
    size_t lda = k + 2, ldb = k + 1, ldc = n + 3;
    float *a = test_floats(m * lda, 1), *b = test_floats(n * ldb, 2), *c = test_floats(m * ldc, 3);
    float *before = test_floats(m * ldc, 3);
    bo_packed *packed;
    assert_ok(context, bo_packed_create(context, n, k, b, ldb, &packed));
    bool ta = false, tb = true;
    double alpha = 1, beta = 0;
    bo_packed_multiply(packed, m, a, lda, c, ldc);
    CHECK_GEMM(0x1p-24);
    bo_packed_destroy(packed);
    free(a), free(b), free(c), free(before);
}

static void packed_factor_multiplies(void **state)
{
    (void)state;
    FOR_EACH_ISA(context, 2)
    {
        check_packed(context, 1, 1, 1);
        check_packed(context, 113, 67, 451);
        check_packed(context, 227, 257, 784);
        check_packed(context, 5, 300, 31);
        check_packed(context, 7, 9, 0); /* an empty sum is zero */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_match_naive_loops), cmocka_unit_test(degenerate_sizes_only_scale),
        cmocka_unit_test(super_blocks_are_joined),    cmocka_unit_test(bits_do_not_depend_on_threads),
        cmocka_unit_test(packed_factor_multiplies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
