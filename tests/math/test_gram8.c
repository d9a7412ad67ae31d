/* Gram matrices of bytes are exact integers, so results must be equal. Odd sizes and strides, extremes, every split of
 * the rows, every instruction set and number of threads. */
#include "linalg_testing.h"

/* Bytes from -127 to 127; the extremes are frequent. */
static int8_t *test_bytes(size_t count, uint64_t seed)
{
    int8_t *values = malloc(count + 1);
    bo_rng rng = bo_rng_make(seed, 9);
    for (size_t i = 0; i < count; i++) {
        uint32_t draw = bo_rng_below(&rng, 320);
        values[i] = (int8_t)(draw < 255 ? (int)draw - 127 : draw % 2 ? 127 : -127);
    }
    return values;
}

static int64_t exact(size_t rows, const int8_t *q, size_t ldq, size_t i, size_t j)
{
    int64_t sum = 0;
    for (size_t r = 0; r < rows; r++) sum += q[r * ldq + i] * q[r * ldq + j];
    return sum;
}

static void check(bo_context *context, size_t n, size_t rows)
{
    size_t ldq = n + 3, ldg = n + 2;
    /* the last row ends with its last byte, so that a sanitizer detects reads after it */
    size_t bytes = (rows - 1) * ldq + n;
    int8_t *random = test_bytes(bytes, n + rows), *q = malloc(bytes);
    memcpy(q, random, bytes);
    double *g = malloc(n * ldg * sizeof *g);
    for (size_t i = 0; i < n * ldg; i++) g[i] = (double)i;
    assert_ok(context, bo_gram8(context, n, rows, q, ldq, 0.25, g, ldg));
    for (size_t i = 0; i < n; i++) {
        for (size_t j = i; j < n; j++) {
            double expected = (double)(i * ldg + j) + 0.25 * (double)exact(rows, q, ldq, i, j);
            if (g[i * ldg + j] != expected) {
                fail_msg("%s, n = %zu, rows = %zu: G[%zu][%zu] = %.17g, expected %.17g",
                         bo_context_describe(context)->isa, n, rows, i, j, g[i * ldg + j], expected);
            }
        }
        for (size_t j = n; j < ldg; j++) assert_true(g[i * ldg + j] == (double)(i * ldg + j));
    }
    free(random), free(q), free(g);
}

static void equals_integer_loops(void **state)
{
    (void)state;
    const size_t sizes[][2] = {{1, 1},    {1, 3},  {2, 2},     {5, 4099},  {13, 5},    {14, 4},   {15, 6},
                               {32, 512}, {33, 7}, {47, 2048}, {48, 2049}, {113, 257}, {129, 66}, {300, 3},
                               {257, 31}, {16, 1}, {17, 2},    {31, 9},    {7, 10000}};
    FOR_EACH_ISA(context, 2)
    {
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) check(context, sizes[s][0], sizes[s][1]);
    }
}

/* 70,000 rows at the ends of the range: one 32-bit sum of all rows holds 127² * 70,000 < 2^31, but one of bytes offset
 * by 128 would overflow. */
static void extremes_do_not_overflow(void **state)
{
    (void)state;
    enum { N = 37, ROWS = 70000 };
    int8_t *q = malloc((size_t)N * ROWS);
    for (size_t r = 0; r < ROWS; r++) {
        for (size_t j = 0; j < N; j++) q[r * N + j] = j % 3 == 0 ? 127 : j % 3 == 1 ? -127 : r % 2 ? 127 : -127;
    }
    FOR_EACH_ISA(context, 2)
    {
        double g[N * N] = {0};
        assert_ok(context, bo_gram8(context, N, ROWS, q, N, 1.0, g, N));
        for (size_t i = 0; i < N; i++) {
            for (size_t j = i; j < N; j++) {
                double sign = i % 3 == j % 3 ? 1.0 : i % 3 == 2 || j % 3 == 2 ? 0.0 : -1.0;
                assert_true(g[i * N + j] == sign * 127.0 * 127.0 * ROWS);
            }
        }
    }
    free(q);
}

/* With a scale that is a power of two every partial sum is exact. */
static void the_split_of_the_rows_does_not_change_the_result(void **state)
{
    (void)state;
    enum { N = 70, ROWS = 4500 };
    const size_t cuts[] = {1, 2, 3, 1000, 2047, 2048, 2049, 4499};
    int8_t *q = test_bytes(N * ROWS, 4);
    FOR_EACH_ISA(context, 2)
    {
        double whole[N * N] = {0};
        assert_ok(context, bo_gram8(context, N, ROWS, q, N, 0x1p-13, whole, N));
        for (size_t c = 0; c < sizeof cuts / sizeof *cuts; c++) {
            double parts[N * N] = {0};
            assert_ok(context, bo_gram8(context, N, cuts[c], q, N, 0x1p-13, parts, N));
            assert_ok(context, bo_gram8(context, N, ROWS - cuts[c], q + cuts[c] * N, N, 0x1p-13, parts, N));
            for (size_t i = 0; i < N; i++) {
                assert_memory_equal(parts + i * N + i, whole + i * N + i, (N - i) * sizeof *parts);
            }
        }
    }
    free(q);
}

/* Also if the scale makes every addition round: the same integer sums are added in the same runs and rounded once. */
static void bits_depend_on_neither_kernels_nor_threads(void **state)
{
    (void)state;
    enum { N = 270, ROWS = 2100 }; /* more than a tile, more than a run */
    int8_t *q = test_bytes(N * ROWS, 1);
    double *expected = NULL;
    for (size_t isa = 0; isa < TEST_ISAS; isa++) {
        for (int threads = 1; threads <= 3; threads++) {
            bo_context *context = test_isa_context(test_isas[isa], threads);
            if (!context) break;
            double *g = malloc(N * N * sizeof *g);
            for (size_t i = 0; i < N * N; i++) g[i] = 1.0 / (double)(i + 1);
            assert_ok(context, bo_gram8(context, N, ROWS, q, N, 1.0 / 3.0, g, N));
            bo_symmetrize(context, N, g, N);
            if (expected) {
                assert_memory_equal(g, expected, N * N * sizeof *g);
                free(g);
            } else {
                expected = g;
            }
            bo_context_destroy(context);
        }
    }
    free(expected), free(q);
}

static void empty_sums_change_nothing(void **state)
{
    (void)state;
    FOR_EACH_ISA(context, 1)
    {
        double g = 3.0;
        assert_ok(context, bo_gram8(context, 1, 0, NULL, 1, 1.0, &g, 1));
        assert_ok(context, bo_gram8(context, 0, 5, NULL, 1, 1.0, &g, 1));
        assert_true(g == 3.0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_integer_loops),
        cmocka_unit_test(extremes_do_not_overflow),
        cmocka_unit_test(the_split_of_the_rows_does_not_change_the_result),
        cmocka_unit_test(bits_depend_on_neither_kernels_nor_threads),
        cmocka_unit_test(empty_sums_change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
