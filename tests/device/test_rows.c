/* Kernels of gates and rows, for every instruction set: products added to a decayed C, rows with individual factors,
 * exponents that cancel in double. */
#include "testing.h"
#include "isas.h"

enum { LONGEST = 70, STRIDE = 75, SIZE = LONGEST * STRIDE };
static const float untouched = -77.0f;

static void fill(uint64_t seed, size_t count, float *x)
{
    bo_rng rng = bo_rng_make(seed, bo_rng_stream("test.rows", 0));
    for (size_t i = 0; i < count; i++) x[i] = (float)bo_rng_normal(&rng);
}

/* The sum starts with keep C(i, j): it has the bits of scale followed by multiply. */
static void renew_is_scale_then_multiply(void **state)
{
    (void)state;
    static float a[SIZE], b[SIZE], start[SIZE], c[SIZE], expected[SIZE];
    const float keeps[] = {0.0f, 0.3f, 1.0f};
    fill(1, SIZE, a);
    fill(2, SIZE, b);
    fill(3, SIZE, start);
    FOR_EACH_TABLE(table)
    {
        for (size_t n = 1; n <= LONGEST; n += 3)
            for (size_t m = 1; m <= 13; m++)
                for (size_t i = 0; i < 3; i++) {
                    size_t k = n % 7; /* 0 too */
                    memcpy(c, start, sizeof c);
                    memcpy(expected, start, sizeof c);
                    for (size_t r = 0; r < m; r++)
                        table->scale(n, keeps[i], expected + r * STRIDE, expected + r * STRIDE);
                    table->multiply(m, n, k, a, 1, STRIDE, b, STRIDE, true, expected, STRIDE);
                    table->renew(m, n, k, a, 1, STRIDE, b, STRIDE, keeps[i], c, STRIDE);
                    assert_memory_equal(c, expected, sizeof c);
                }
    }
}

static void rows_have_separate_factors(void **state)
{
    (void)state;
    static float x[SIZE], y[SIZE];
    float a[LONGEST];
    fill(4, SIZE, x);
    fill(5, LONGEST, a);
    FOR_EACH_TABLE(table)
    {
        for (size_t n = 0; n <= LONGEST; n++) {
            size_t rows = n % 5;
            for (size_t i = 0; i < SIZE; i++) y[i] = untouched;
            table->scale_rows(rows, n, a, x, STRIDE, y, STRIDE + 2);
            for (size_t i = 0; i < SIZE; i++) {
                size_t r = i / (STRIDE + 2), j = i % (STRIDE + 2);
                assert_true(y[i] == (r < rows && j < n ? a[r] * x[r * STRIDE + j] : untouched));
            }
        }
    }
}

/* Exponents of 1e9 cancel completely. 2e-7 is the error of exp_below, and a sum of n floats has an error of at most n
 * 2^-24 of the sum of their magnitudes. */
static void wide_exponents_cancel(void **state)
{
    (void)state;
    double x[LONGEST + 16] = {0};
    float weight[LONGEST], y[LONGEST + 2];
    fill(6, LONGEST, weight);
    FOR_EACH_TABLE(table)
    {
        for (size_t n = 0; n <= LONGEST; n++) {
            for (size_t i = 0; i < n; i++) x[i] = 1e9 - 0.125 * (double)(i * i);
            for (size_t i = n; i < LONGEST + 16; i++) x[i] = NAN; /* read but not used */
            y[0] = y[n + 1] = untouched;
            memcpy(y + 1, weight, n * sizeof *y);
            double sum = 0, size = 0, total = (double)table->exp_weigh_wide(n, x, -1e9, y + 1);
            for (size_t i = 0; i < n; i++) {
                double expected = exp(-0.125 * (double)(i * i)) * (double)weight[i];
                assert_close(y[i + 1], expected, (2e-7 + 0x1p-24) * fabs((double)weight[i]));
                sum += (double)y[i + 1], size += fabs((double)y[i + 1]);
            }
            assert_close(total, sum, (double)n * 0x1p-24 * size);
            assert_true(y[0] == untouched && y[n + 1] == untouched);
        }
        double last[16] = {0, -INFINITY, -1e300};
        float ones[3] = {1, 1, 1};
        assert_true(table->exp_weigh_wide(3, last, 0, ones) == 1 && ones[0] == 1 && ones[1] == 0 && ones[2] == 0);
    }
}

/* Sums of products in float32, whose order depends on n only: a row is bitwise equal alone and among other rows. */
static void dots_of_few_rows(void **state)
{
    (void)state;
    static float w[SIZE], x[SIZE], out[SIZE], alone[LONGEST];
    fill(6, SIZE, w);
    fill(7, SIZE, x);
    FOR_EACH_TABLE(table)
    {
        for (size_t n = 0; n <= LONGEST; n++) {
            size_t rows = n % 9, lines = n % 11;
            for (size_t i = 0; i < SIZE; i++) out[i] = untouched;
            table->dots(lines, rows, n, w, STRIDE, x, STRIDE, out, STRIDE);
            for (size_t r = 0; r < LONGEST; r++) {
                if (r < rows) table->dots(lines, 1, n, w, STRIDE, x + r * STRIDE, STRIDE, alone, 1);
                for (size_t j = 0; j < STRIDE; j++) {
                    double sum = 0, size = 0;
                    for (size_t i = 0; r < rows && j < lines && i < n; i++) {
                        double product = (double)w[j * STRIDE + i] * (double)x[r * STRIDE + i];
                        sum += product, size += fabs(product);
                    }
                    if (r < rows && j < lines) {
                        assert_close(out[r * STRIDE + j], sum, (double)(n + 1) * 0x1p-24 * size);
                        assert_true(out[r * STRIDE + j] == alone[j]);
                    } else {
                        assert_true(out[r * STRIDE + j] == untouched);
                    }
                }
            }
        }
    }
}

/* Rows that do not fit in the first-level cache are multiplied by several lines together: remaining lines and the end
 * of a row have the same sums. */
static void dots_of_long_rows(void **state)
{
    (void)state;
    enum { LONG = 2100, LINES = 19, ROWS = 3 };
    static float w[LINES * LONG], x[ROWS * LONG], out[ROWS * STRIDE], alone[LINES];
    fill(8, LINES * LONG, w);
    fill(9, ROWS * LONG, x);
    FOR_EACH_TABLE(table)
    {
        for (size_t n = 2047; n <= LONG; n += n < 2050 ? 1 : 5)
            for (size_t lines = 0; lines <= LINES; lines += lines == 9 ? 7 : 1) {
                size_t rows = 1 + (n + lines) % ROWS;
                for (size_t i = 0; i < ROWS * STRIDE; i++) out[i] = untouched;
                table->dots(lines, rows, n, w, LONG, x, LONG, out, STRIDE);
                for (size_t r = 0; r < ROWS; r++) {
                    if (r < rows) table->dots(lines, 1, n, w, LONG, x + r * LONG, LONG, alone, 1);
                    for (size_t j = 0; j < STRIDE; j++) {
                        double sum = 0, size = 0;
                        if (r >= rows || j >= lines) {
                            assert_true(out[r * STRIDE + j] == untouched);
                            continue;
                        }
                        for (size_t i = 0; i < n; i++) {
                            double product = (double)w[j * LONG + i] * (double)x[r * LONG + i];
                            sum += product, size += fabs(product);
                        }
                        assert_close(out[r * STRIDE + j], sum, (double)(n + 1) * 0x1p-24 * size);
                        assert_true(out[r * STRIDE + j] == alone[j]);
                    }
                }
            }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(renew_is_scale_then_multiply),
        cmocka_unit_test(rows_have_separate_factors),
        cmocka_unit_test(wide_exponents_cancel),
        cmocka_unit_test(dots_of_few_rows),
        cmocka_unit_test(dots_of_long_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
