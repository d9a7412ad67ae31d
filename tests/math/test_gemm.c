/* Products compared with naive loops in double, with the classical error bound as threshold: every instruction set, odd
 * sizes, strides, transposes; the same bits for any number of threads. */
#include "linalg_testing.h"

static const size_t sizes[][3] = {
    /* 1, primes, block sizes and their neighbors (tiles of 4..14 x 4..32, tasks of 112 x 256, runs of 448)
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
                assert_close(c[i * ldc + j], alpha * sum + old,                                                        \
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
    CHECK_GEMM(0x1p-52); /* twice the unit, because the naive sum has an error too */
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
    for (size_t s = 0; s < TEST_ISAS; s++) {
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

/* Products that share A: each equals a separate product, with its own initial C; also with few rows. */
static void check_shared(bo_context *context, bool ta, size_t m, size_t k, size_t count, const size_t *widths)
{
    enum { MAX_PRODUCTS = 4 };
    size_t lda = (ta ? m : k) + 1;
    float *a = test_floats(lda * (ta ? k : m), 1), *b[MAX_PRODUCTS], *c[MAX_PRODUCTS], *base = test_floats(m * 1000, 9);
    float *row = test_floats(1000, 10);
    bo_gemm_product products[MAX_PRODUCTS];
    for (size_t i = 0; i < count; i++) {
        size_t n = widths[i];
        b[i] = test_floats(n * (k + 2), 2 + i), c[i] = test_floats(m * n, 20 + i);
        products[i] = (bo_gemm_product){.n = n, .tb = true, .b = b[i], .ldb = k + 2, .c = c[i], .ldc = n};
        if (i & 1) products[i].row = row;
        if (i & 2) products[i].beta = 0.5f, products[i].base = base, products[i].ldbase = n;
    }
    char *workspace =
        aligned_alloc(64, (bo_gemm_shared_bytes(context, BO_PRECISION_FLOAT32, m, k, count, products) + 64) / 64 * 64);
    bo_gemm_shared(context, BO_PRECISION_FLOAT32, ta, m, k, -0.7f, a, lda, count, products, workspace);
    for (size_t i = 0; i < count; i++) {
        size_t n = widths[i];
        for (size_t at = 0; at < m * n; at++) {
            double sum = 0, total = 0, begin = i & 2 ? 0.5 * (double)base[at] : 0;
            for (size_t p = 0; p < k; p++) {
                double x = (double)(ta ? a[p * lda + at / n] : a[at / n * lda + p]);
                double product = x * (double)b[i][at % n * (k + 2) + p];
                sum += product, total += fabs(product);
            }
            if (i & 1) begin += (double)row[at % n];
            assert_close(c[i][at], begin - (double)0.7f * sum, sum_bound(k, 0x1p-24) * (total + 3 * fabs(begin) + 3));
        }
        free(b[i]), free(c[i]);
    }
    free(a), free(base), free(row), free(workspace);
}

static void products_share_a_factor(void **state)
{
    (void)state;
    FOR_EACH_ISA(context, 2)
    {
        check_shared(context, false, 37, 61, 4, (size_t[]){31, 257, 1, 70});
        check_shared(context, true, 130, 451, 3, (size_t[]){300, 5, 64});
        check_shared(context, false, 8, 449, 4, (size_t[]){65, 3, 640, 33});
        check_shared(context, false, 1, 70, 2, (size_t[]){1, 700});
        check_shared(context, false, 1, 512, 3, (size_t[]){500, 3, 901}); /* tasks of several sizes */
        check_shared(context, false, 3, 2311, 2, (size_t[]){29, 4});
        check_shared(context, false, 300, 17, 1, (size_t[]){6}); /* faster transposed */
    }
}

/* alpha A Aᵀ + beta base also has the bits of its upper triangle below the diagonal. */
static void symmetric_products_are_halved(void **state)
{
    (void)state;
    static const size_t shapes[][2] = {{1, 1}, {13, 5}, {130, 451}, {300, 70}, {33, 900}};
    FOR_EACH_ISA(context, 2)
    {
        for (size_t s = 0; s < 5; s++) {
            for (int ta = 0; ta < 2; ta++) {
                size_t n = shapes[s][0], k = shapes[s][1], lda = ta ? n : k, ldc = n + 3;
                float *a = test_floats(n * k, 1), *c = test_floats(n * ldc, 2), *base = test_floats(n * ldc, 3);
                float *expected = malloc(n * ldc * sizeof *expected);
                for (size_t i = 0; i < n; i++)
                    for (size_t j = 0; j < i; j++) base[i * ldc + j] = base[j * ldc + i];
                memcpy(expected, base, n * ldc * sizeof *expected);
                void *workspace =
                    aligned_alloc(64, (bo_gemm_bytes(context, BO_PRECISION_FLOAT32, n, n, k) + 64) / 64 * 64);
                bo_gemm_symmetric(context, BO_PRECISION_FLOAT32, ta, n, k, 1.5f, a, lda, 0.5f, base, c, ldc, workspace);
                assert_ok(context, bo_gemm(context, ta, !ta, n, n, k, 1.5f, a, lda, a, lda, 0.5f, expected, ldc));
                for (size_t i = 0; i < n; i++)
                    for (size_t j = 0; j < n; j++) {
                        double tolerance = sum_bound(k, 0x1p-24) * 4 * (double)k;
                        assert_close(c[i * ldc + j], expected[i * ldc + j], tolerance);
                        assert_true(c[i * ldc + j] == c[j * ldc + i]);
                    }
                free(a), free(c), free(base), free(expected), free(workspace);
            }
        }
    }
}

/* A sequence has the same logits when it is decoded in a batch and alone. */
static void few_rows_have_the_bits_of_each_alone(void **state)
{
    enum { ROWS = 64, LINES = 70, LENGTH = 301 };
    (void)state;
    float *a = test_floats(ROWS * LENGTH, 1), *b = test_floats(LINES * LENGTH, 2), *c = test_floats(ROWS * LINES, 3);
    float alone[LINES];
    FOR_EACH_ISA(context, 2)
    {
        void *workspace = malloc(bo_gemm_bytes(context, BO_PRECISION_FLOAT32, ROWS, LINES, LENGTH));
        for (size_t rows = 1; rows <= ROWS; rows += 7) {
            bo_gemm_in(context, BO_PRECISION_FLOAT32, false, true, rows, LINES, LENGTH, 1, a, LENGTH, b, LENGTH, 0, c,
                       LINES, workspace);
            for (size_t r = 0; r < rows; r++) {
                bo_gemm_in(context, BO_PRECISION_FLOAT32, false, true, 1, LINES, LENGTH, 1, a + r * LENGTH, LENGTH, b,
                           LENGTH, 0, alone, LINES, workspace);
                assert_memory_equal(alone, c + r * LINES, sizeof alone);
            }
        }
        free(workspace);
    }
    free(a), free(b), free(c);
}

/* The scratch is large enough for smaller m and k too: runs along k may be longer there, and thin products may not be
 * swapped. */
static void workspace_serves_fewer_rows_and_shorter_sums(void **state)
{
    (void)state;
    static const size_t sides[] = {1, 7, 8, 9, 31, 32, 127, 128, 129, 447, 448, 449, 512, 900, 4096, 4100};
    enum { SIDES = sizeof sides / sizeof *sides };
    FOR_EACH_ISA(context, 1)
    {
        for (size_t at = 0; at < SIDES * SIDES * SIDES; at++) {
            size_t i = at % SIDES, j = at / SIDES % SIDES, p = at / SIDES / SIDES;
            size_t bytes = bo_gemm_bytes(context, BO_PRECISION_FLOAT32, sides[i], sides[j], sides[p]);
            if (i) assert_true(bo_gemm_bytes(context, BO_PRECISION_FLOAT32, sides[i - 1], sides[j], sides[p]) <= bytes);
            if (p) assert_true(bo_gemm_bytes(context, BO_PRECISION_FLOAT32, sides[i], sides[j], sides[p - 1]) <= bytes);
        }
    }
}

static void check_packed(bo_context *context, size_t m, size_t n, size_t k)
{
    size_t lda = k + 2, ldb = k + 1, ldc = n + 3;
    float *a = test_floats(m * lda, 1), *b = test_floats(n * ldb, 2), *c = test_floats(m * ldc, 3);
    float *before = test_floats(m * ldc, 3);
    bo_packed *packed;
    assert_ok(context, bo_packed_create(context, BO_PRECISION_FLOAT32, n, k, b, ldb, &packed));
    bool ta = false, tb = true;
    double alpha = 1, beta = 0;
    bo_packed_multiply(packed, m, a, lda, c, ldc);
    CHECK_GEMM(0x1p-24);
    bo_packed_destroy(packed);
    free(a), free(b), free(c), free(before);
}

/* In the caller's scratch, with B plain or transposed: the same bits. */
static void check_packed_in(bo_context *context, size_t m, size_t n, size_t k)
{
    float *a = test_floats(m * k, 1), *b = test_floats(n * k, 2), *turned = test_floats(n * k, 2);
    float *c = test_floats(m * n, 3), *other = test_floats(m * n, 4);
    void *workspace = bo_alloc_raw(context, bo_packed_bytes(context, BO_PRECISION_FLOAT32, n, k), 1, "a room");
    for (size_t i = 0; i < n; i++)
        for (size_t p = 0; p < k; p++) turned[p * n + i] = b[i * k + p];
    bo_packed *packed;
    assert_ok(context, bo_packed_create(context, BO_PRECISION_FLOAT32, n, k, b, k, &packed));
    bo_packed_multiply(packed, m, a, k, c, n);
    for (int tb = 0; tb < 2; tb++) {
        bo_packed_multiply(
            bo_packed_in(context, BO_PRECISION_FLOAT32, tb, n, k, tb ? b : turned, tb ? k : n, workspace), m, a, k,
            other, n);
        assert_memory_equal(c, other, m * n * sizeof *c);
    }
    bo_packed_destroy(packed);
    bo_free(workspace);
    free(a), free(b), free(turned), free(c), free(other);
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
        check_packed_in(context, 7, 70, 33);
        check_packed_in(context, 3, 41, 500);
        check_packed(context, 7, 9, 0); /* an empty sum is zero */
    }
}

/* bo_product64 with each pair of transposes, and once for the upper triangle only. */
static void check_product64(bo_context *context, const size_t *size, bool ta, bool tb, bool add)
{
    size_t m = size[0], n = size[1], k = size[2], lda = (ta ? m : k) + 3, ldb = (tb ? k : n) + 1, ldc = n + 2;
    const struct bo_kernels *kernels = bo_context_kernels(context);
    double *a = test_doubles(lda * (ta ? k : m), 4), *b = test_doubles(ldb * (tb ? n : k), 5), alpha = 1, beta = add;
    double *c = test_doubles(ldc * m, 6), *before = test_doubles(ldc * m, 6), *upper = test_doubles(ldc * m, 6);
    void *workspace = aligned_alloc(64, bo_product64_bytes(kernels, m, n, k) + 64);
    bo_product64 what = {.ta = ta, .tb = tb, .add = add, .m = m, .n = n, .k = k, .a = a, .lda = lda};
    what.b = b, what.ldb = ldb, what.c = c, what.ldc = ldc;
    bo_product64_run(kernels, &what, workspace);
    CHECK_GEMM(0x1p-53);
    what.upper = true, what.c = upper;
    bo_product64_run(kernels, &what, workspace);
    for (size_t i = 0; i < m; i++)
        for (size_t j = i; j < n; j++) assert_memory_equal(upper + i * ldc + j, c + i * ldc + j, sizeof *c);
    free(a), free(b), free(c), free(before), free(upper), free(workspace);
}

static void small_products_match_naive_loops(void **state)
{
    (void)state;
    FOR_EACH_ISA(context, 1)
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (int way = 0; way < 8; way++) check_product64(context, sizes[s], way & 1, way & 2, way & 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_match_naive_loops),
        cmocka_unit_test(degenerate_sizes_only_scale),
        cmocka_unit_test(super_blocks_are_joined),
        cmocka_unit_test(bits_do_not_depend_on_threads),
        cmocka_unit_test(packed_factor_multiplies),
        cmocka_unit_test(products_share_a_factor),
        cmocka_unit_test(symmetric_products_are_halved),
        cmocka_unit_test(workspace_serves_fewer_rows_and_shorter_sums),
        cmocka_unit_test(few_rows_have_the_bits_of_each_alone),
        cmocka_unit_test(small_products_match_naive_loops),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
