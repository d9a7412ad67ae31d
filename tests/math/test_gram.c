/* Gram matrices compared with naive loops in double: both precisions, every instruction set, odd sizes, accumulation,
 * thread counts. */
#include "linalg_testing.h"

static void check_gram(bo_context *context, size_t n, size_t rows, bool precise)
{
    size_t ldz = n + 1, ldg = n + 2;
    float *z = test_floats(rows * ldz, 1);
    double *g = test_doubles(n * ldg, 2), *before = test_doubles(n * ldg, 2);
    assert_ok(context, bo_gram(context, n, rows, z, ldz, g, ldg, precise));
    for (size_t i = 0; i < n; i++) {
        for (size_t j = i; j < n; j++) {
            double sum = 0, size = 0;
            for (size_t r = 0; r < rows; r++) {
                double product = (double)z[r * ldz + i] * z[r * ldz + j];
                sum += product, size += fabs(product);
            }
            double old = before[i * ldg + j];
            /* float32 sums cover at most 512 rows, and these are added in float64 */
            double bound = precise ? 2 * sum_bound(rows, 0x1p-53) : sum_bound(rows < 512 ? rows : 512, 0x1p-24);
            assert_close(g[i * ldg + j], old + sum, bound * (size + fabs(old)));
        }
        /* nothing after the end of a row changes */
        assert_memory_equal(g + i * ldg + n, before + i * ldg + n, 2 * sizeof *g);
    }
    free(z), free(g), free(before);
}

static void gram_matches_naive_loops(void **state)
{
    (void)state;
    FOR_EACH_ISA(context, 2)
    {
        const size_t sizes[][2] = {{1, 1}, {1, 700}, {13, 5}, {32, 512}, {33, 513}, {113, 257}, {257, 1031}, {300, 3}};
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            check_gram(context, sizes[s][0], sizes[s][1], false);
            check_gram(context, sizes[s][0], sizes[s][1], true);
        }
    }
}

/* The precise sum must be better than any float32 sum: values 1 and 2^-20 whose float32 sums lose the small ones. */
static void precise_keeps_small_products(void **state)
{
    (void)state;
    FOR_EACH_ISA(context, 2)
    {
        enum { ROWS = 500 };
        float z[ROWS];
        for (int r = 0; r < ROWS; r++) z[r] = r == 0 ? 1.0f : 0x1p-14f;
        double g = 0.0;
        assert_ok(context, bo_gram(context, 1, ROWS, z, 1, &g, 1, true));
        assert_true(g == 1.0 + (ROWS - 1) * 0x1p-28);
    }
}

/* At most 512 rows are summed in float32: next to 2^24 a float32 sum loses ones, but those of rows after the first 512
 * are summed separately. */
static void float_runs_are_short(void **state)
{
    (void)state;
    FOR_EACH_ISA(context, 1)
    {
        enum { ROWS = 1024 };
        float z[ROWS];
        for (int r = 0; r < ROWS; r++) z[r] = r == 0 ? 0x1p12f : 1.0f;
        double g = 0.0;
        assert_ok(context, bo_gram(context, 1, ROWS, z, 1, &g, 1, false));
        assert_true(g >= 0x1p24 + ROWS - 512);
    }
}

static void empty_sums_change_nothing(void **state)
{
    (void)state;
    FOR_EACH_ISA(context, 1)
    {
        double g = 3.0;
        assert_ok(context, bo_gram(context, 1, 0, NULL, 1, &g, 1, false));
        assert_ok(context, bo_gram(context, 0, 5, NULL, 1, &g, 1, true));
        assert_true(g == 3.0);
    }
}

static void bits_do_not_depend_on_threads(void **state)
{
    (void)state;
    enum { N = 389, ROWS = 1100 };
    float *z = test_floats(N * ROWS, 1);
    for (int kind = 0; kind < 2 * TEST_ISAS; kind++) {
        double *expected = NULL;
        for (int threads = 1; threads <= 3; threads++) {
            bo_context *context = test_isa_context(test_isas[kind / 2], threads);
            if (!context) break;
            double *g = calloc(N * N, sizeof *g);
            assert_ok(context, bo_gram(context, N, ROWS, z, N, g, N, kind % 2));
            bo_symmetrize(context, N, g, N);
            if (threads == 1) {
                expected = g;
            } else {
                assert_memory_equal(g, expected, N * N * sizeof *g);
                free(g);
            }
            bo_context_destroy(context);
        }
        free(expected);
    }
    free(z);
}

static void symmetrize_copies_upper_onto_lower(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    const size_t sizes[] = {1, 2, 31, 32, 33, 97};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        size_t n = sizes[s], ld = n + 1;
        double *g = test_doubles(n * ld, 1), *before = test_doubles(n * ld, 1);
        bo_symmetrize(context, n, g, ld);
        for (size_t i = 0; i < n; i++) {
            for (size_t j = 0; j < n; j++) {
                assert_true(g[i * ld + j] == (i <= j ? before[i * ld + j] : before[j * ld + i]));
            }
        }
        free(g), free(before);
    }
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gram_matches_naive_loops),      cmocka_unit_test(precise_keeps_small_products),
        cmocka_unit_test(empty_sums_change_nothing),     cmocka_unit_test(float_runs_are_short),
        cmocka_unit_test(bits_do_not_depend_on_threads), cmocka_unit_test(symmetrize_copies_upper_onto_lower),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
