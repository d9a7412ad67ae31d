/* GEMM of bfloat16 matrices, for every instruction set: panels bit by bit, products within the bound of bf16.h. */
#include "testing.h"
#include <float.h>
#include "isas.h"

enum { MAX_LINES = 50, MAX_DEPTH = 150, STRIDE = 160, PANEL = 64 * 160 };

static float random_number(bo_rng *rng)
{
    double sign = bo_rng_uniform(rng) < 0.5 ? -1 : 1;
    return (float)(sign * exp2(10 * bo_rng_uniform(rng) - 5));
}

static void fill(size_t n, uint64_t seed, float *x)
{
    bo_rng rng = bo_rng_make(seed, bo_rng_stream("test.bf16", 0));
    for (size_t i = 0; i < n; i++) x[i] = random_number(&rng);
}

static const size_t shapes[][2] = {{1, 1},   {1, 31},  {16, 32},  {17, 33}, {15, 2},
                                   {32, 64}, {33, 95}, {48, 150}, {7, 97}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

/* Every table packs the bits of plain C. */
static void panels_have_equal_bits(void **state)
{
    (void)state;
    static float x[STRIDE * STRIDE];
    static _Alignas(64) uint16_t expected[PANEL], found[PANEL];
    fill(STRIDE * STRIDE, 1, x);
    x[3] = INFINITY, x[STRIDE + 1] = -INFINITY, x[5] = 0, x[6] = -0.0f, x[7] = FLT_MAX;
    FOR_EACH_BF16_TABLE(table)
    for (size_t s = 0; s < SHAPES; s++)
        for (int how = 0; how < 8; how++) {
            bool along = how & 1, of_b = how & 2;
            float scale = how & 4 ? 0.75f : 1;
            size_t lines = shapes[s][0], k = shapes[s][1], bytes = bo_bf16_numbers(lines, k) * sizeof *found;
            memset(found, 0xa5, sizeof found);
            (of_b ? bo_ref_bf16.pack_b : bo_ref_bf16.pack_a)(lines, k, scale, x, STRIDE, along, expected);
            (of_b ? table->bf16->pack_b : table->bf16->pack_a)(lines, k, scale, x, STRIDE, along, found);
            assert_memory_equal(found, expected, bytes);
            assert_int_equal(found[bytes / sizeof *found], 0xa5a5);
        }
}

/* Plain C stores element (line, depth) at the index defined in bf16.h, rounded to nearest. */
static void panels_hold_rounded_numbers(void **state)
{
    (void)state;
    static float x[STRIDE * STRIDE];
    static _Alignas(64) uint16_t a[PANEL], b[PANEL];
    fill(STRIDE * STRIDE, 2, x);
    const size_t lines = 33, k = 95;
    bo_ref_bf16.pack_a(lines, k, 1, x, STRIDE, true, a);
    bo_ref_bf16.pack_b(lines, k, 1, x, STRIDE, true, b);
    for (size_t i = 0; i < lines; i++)
        for (size_t p = 0; p < k; p++) {
            uint16_t rounded;
            size_t block = i / 16 * 16 * 96 + p / 32 * 512;
            bo_kernels_find("ref")->round_bf16(1, &x[i * STRIDE + p], &rounded);
            assert_int_equal(a[block + i % 16 * 32 + p % 32], rounded);
            assert_int_equal(b[block + p % 32 / 2 * 32 + 2 * (i % 16) + p % 2], rounded);
        }
}

static double widened(const uint16_t *number)
{
    float x;
    bo_kernels_find("ref")->widen_bf16(1, number, &x);
    return (double)x;
}

/* Checks one product against sums in double. */
static void check_product(const bo_micro_bf16 *micro, size_t m, size_t n, size_t k, bool add)
{
    enum { LDC = 37 };
    static float x[STRIDE * STRIDE], y[STRIDE * STRIDE], c[40 * LDC], before[40 * LDC];
    static _Alignas(64) uint16_t a[PANEL], b[PANEL];
    fill(STRIDE * STRIDE, 3 + m, x), fill(STRIDE * STRIDE, 5 + n, y), fill(40 * LDC, 7 + k, before);
    memcpy(c, before, sizeof c);
    if (!add)
        for (size_t i = 0; i < m; i++)
            for (size_t j = 0; j < n; j++) c[i * LDC + j] = NAN; /* must be overwritten */
    micro->pack_a(m, k, 1, x, STRIDE, true, a);
    micro->pack_b(n, k, 1, y, STRIDE, true, b);
    if (micro->prepare) micro->prepare();
    micro->multiply(k, a, b, c, LDC, m, n, add);
    for (size_t i = 0; i < 40; i++)
        for (size_t j = 0; j < LDC; j++) {
            if (i >= m || j >= n) {
                assert_memory_equal(&c[i * LDC + j], &before[i * LDC + j], sizeof *c);
                continue;
            }
            double sum = add ? (double)before[i * LDC + j] : 0, total = fabs(sum);
            for (size_t p = 0; p < k; p++) {
                uint16_t left, right;
                bo_kernels_find("ref")->round_bf16(1, &x[i * STRIDE + p], &left);
                bo_kernels_find("ref")->round_bf16(1, &y[j * STRIDE + p], &right);
                double product = widened(&left) * widened(&right);
                sum += product, total += fabs(product);
            }
            assert_close(c[i * LDC + j], sum, (double)(k + 2) * 0x1p-23 * total);
        }
}

static void products_are_within_the_bound(void **state)
{
    (void)state;
    static const size_t sizes[][3] = {{1, 1, 1},    {16, 16, 32}, {32, 32, 64},  {32, 32, 150}, {17, 31, 33},
                                      {31, 16, 95}, {16, 32, 1},  {13, 15, 127}, {32, 7, 64},   {5, 32, 31}};
    FOR_EACH_BF16_TABLE(table)
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        check_product(table->bf16, sizes[s][0], sizes[s][1], sizes[s][2], false);
        check_product(table->bf16, sizes[s][0], sizes[s][1], sizes[s][2], true);
    }
}

/* exp_line writes rounded exponentials in a sliver, then zeros, and returns their sum before rounding. The error of
 * exp_below is at most 2e-7 per element; rounding to bfloat16 is relative, at most 2^-8. */
static void lines_hold_exponentials(void **state)
{
    (void)state;
    static const size_t lengths[] = {0, 1, 16, 17, 32, 33, 63, 64};
    static float x[64];
    static _Alignas(64) uint16_t line[2 * BO_BF16_BLOCK];
    fill(64, 9, x);
    for (size_t p = 0; p < 64; p++) x[p] = -fabsf(x[p]);
    FOR_EACH_BF16_TABLE(table)
    for (size_t c = 0; c < 2 * sizeof lengths / sizeof *lengths; c++) {
        size_t n = lengths[c / 2];
        double sum = 0;
        float first = x[0];
        if (c % 2) x[0] = -INFINITY;
        memset(line, 0xa5, sizeof line);
        bo_bf16_prepare(table->bf16);
        float total = table->bf16->exp_line(n, x, -0.5f, 64, line);
        for (size_t p = 0; p < 64; p++) {
            double expected = p < n ? exp((double)x[p] - 0.5) : 0;
            double found = widened(&line[p / 32 * BO_BF16_BLOCK + p % 32]);
            assert_close(found, expected, expected > 0 ? 0x1.01p-8 * expected + 2e-7 : 0);
            sum += expected;
        }
        assert_close(total, sum, (double)n * (2e-7 + 0x1p-23 * sum));
        assert_int_equal(line[32], 0xa5a5); /* the next line of the sliver */
        x[0] = first;
    }
}

/* An element is bitwise independent of the shape of C and of its position. */
static void elements_do_not_depend_on_the_shape(void **state)
{
    (void)state;
    enum { K = 97 };
    static float x[STRIDE * STRIDE], y[STRIDE * STRIDE], whole[32 * 32], one[1];
    static _Alignas(64) uint16_t a[PANEL], b[PANEL], row[PANEL], column[PANEL];
    fill(STRIDE * STRIDE, 11, x), fill(STRIDE * STRIDE, 12, y);
    FOR_EACH_BF16_TABLE(table)
    {
        const bo_micro_bf16 *micro = table->bf16;
        if (micro->prepare) micro->prepare();
        micro->pack_a(32, K, 1, x, STRIDE, true, a);
        micro->pack_b(32, K, 1, y, STRIDE, true, b);
        micro->multiply(K, a, b, whole, 32, 32, 32, false);
        for (size_t i = 0; i < 32; i += 5)
            for (size_t j = 0; j < 32; j += 3) {
                micro->pack_a(1, K, 1, x + i * STRIDE, STRIDE, true, row);
                micro->pack_b(1, K, 1, y + j * STRIDE, STRIDE, true, column);
                micro->multiply(K, row, column, one, 1, 1, 1, false);
                assert_memory_equal(one, &whole[i * 32 + j], sizeof *one);
            }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(panels_have_equal_bits),
        cmocka_unit_test(panels_hold_rounded_numbers),
        cmocka_unit_test(products_are_within_the_bound),
        cmocka_unit_test(lines_hold_exponentials),
        cmocka_unit_test(elements_do_not_depend_on_the_shape),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
