/* Kernels of narrow storage types, for every instruction set: bfloat16 bit by bit, bytes with scales, and dot products
 * with both. */
#include "testing.h"
#include "isas.h"
#include "device/cpu/tables.h"

enum { LONGEST = 150, PADDED = 192, LINES = 11, ROWS = 9 };

static float from_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* By comparison: the nearer of the two neighbors, or the even one in a tie. */
static uint16_t nearest(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    uint16_t below = (uint16_t)(bits >> 16);
    double low = (double)from_bits(bits & 0xffff0000u), high = (double)from_bits((bits & 0xffff0000u) + 0x10000u);
    if (isinf(high)) high = copysign(0x1p128, high); /* the next value beyond the maximum */
    double down = fabs((double)x - low), up = fabs(high - (double)x);
    return (uint16_t)(below + (up < down || (up == down && below % 2 == 1)));
}

static void bfloat16_is_the_nearest(void **state)
{
    (void)state;
    enum { COUNT = 4099 };
    static float x[COUNT], back[COUNT];
    static uint16_t y[COUNT + 1];
    bo_rng rng = bo_rng_make(1, bo_rng_stream("test.stored", 0));
    for (size_t i = 0; i < COUNT; i++) {
        uint32_t bits = (uint32_t)bo_rng_bits(&rng);
        if (i % 3 == 0) bits = (bits & 0xffff0000u) | 0x8000u; /* ties */
        if ((bits & 0x7f800000u) == 0x7f800000u) bits &= 0x807fffffu;
        x[i] = from_bits(bits);
    }
    const float odd[] = {0.0f, -0.0f, INFINITY, -INFINITY, 3.4e38f, -3.4e38f, 1e-45f, 0x1.ffp-1f};
    memcpy(x, odd, sizeof odd);
    FOR_EACH_TABLE(table)
    {
        y[COUNT] = 0xabcd;
        table->round_bf16(COUNT, x, y);
        table->widen_bf16(COUNT, y, back);
        for (size_t i = 0; i < COUNT; i++) {
            if (isfinite(x[i])) assert_int_equal(y[i], nearest(x[i]));
            if (isinf(x[i])) assert_true(back[i] == x[i]);
            assert_true(back[i] == from_bits((uint32_t)y[i] << 16));
        }
        assert_int_equal(y[COUNT], 0xabcd);
        for (size_t n = 0; n < 40; n++) { /* extremes, and every kind of NaN */
            float nan[40], out[40];
            for (size_t i = 0; i < 40; i++) nan[i] = from_bits(i % 2 ? 0x7fffffffu : 0xff800001u), out[i] = 5;
            y[n] = 0xabcd;
            table->round_bf16(n, nan, y);
            table->widen_bf16(n, y, out);
            for (size_t i = 0; i < 40; i++) assert_true(i < n ? isnan(out[i]) : out[i] == 5);
            assert_int_equal(y[n], 0xabcd);
        }
    }
}

static void shorts_are_the_nearest(void **state)
{
    (void)state;
    float x[LONGEST];
    int16_t q[LONGEST + 1];
    for (size_t i = 0; i < LONGEST; i++) x[i] = 513.3f * (float)i - 30000;
    x[3] = NAN, x[5] = INFINITY, x[7] = -1e30f, x[9] = 2.5f, x[11] = 3.5f;
    FOR_EACH_TABLE(table)
    {
        for (size_t n = 0; n <= LONGEST; n++) {
            q[n] = 77;
            table->quantize_s16(n, 1, x, q);
            for (size_t i = 0; i < n; i++)
                assert_int_equal(q[i], isnan(x[i]) ? 0 : (int)rint(fmin(fmax((double)x[i], -32767), 32767)));
            assert_int_equal(q[n], 77);
        }
    }
}

static void bytes_are_scaled(void **state)
{
    (void)state;
    int8_t q[LONGEST];
    float y[LONGEST + 1];
    for (size_t i = 0; i < LONGEST; i++) q[i] = (int8_t)((int)(37 * i % 255) - 127);
    FOR_EACH_TABLE(table)
    {
        for (size_t n = 0; n <= LONGEST; n++) {
            y[n] = -77;
            table->widen_s8(n, 0.3f, q, y);
            for (size_t i = 0; i < n; i++) assert_true(y[i] == 0.3f * (float)q[i]);
            assert_true(y[n] == -77);
        }
    }
}

/* Lines of n elements: their values and their stored form. */
static size_t make_lines(const bo_kernels *table, size_t n, bool bytes, float *w, char *kept)
{
    size_t stride = bytes ? bo_s8_line(n) : n * sizeof(uint16_t);
    bo_rng rng = bo_rng_make(n, bo_rng_stream("test.stored", 1));
    for (size_t j = 0; j < LINES; j++) {
        char *line = kept + j * stride;
        for (size_t i = 0; i < n; i++) w[j * LONGEST + i] = (float)bo_rng_normal(&rng);
        if (!bytes) {
            table->round_bf16(n, w + j * LONGEST, (uint16_t *)(void *)line);
            table->widen_bf16(n, (uint16_t *)(void *)line, w + j * LONGEST);
            continue;
        }
        float *scales = (float *)(uintptr_t)bo_s8_scales((int8_t *)line, n);
        table->quantize(n, 40.0f, w + j * LONGEST, (int8_t *)line);
        for (size_t g = 0; g * BO_S8_GROUP < n; g++) scales[g] = 0.01f * (float)(g + j + 1);
        for (size_t i = 0; i < n; i++) w[j * LONGEST + i] = scales[i / BO_S8_GROUP] * (float)((int8_t *)line)[i];
    }
    return bytes ? stride : n;
}

/* Rows as float32, and for bytes as integers with scales that represent the same values. */
static void make_rows(size_t n, bool bytes, float *x, int16_t *whole, float *scales)
{
    bo_rng rng = bo_rng_make(n, bo_rng_stream("test.stored", 2));
    memset(whole, 0, ROWS * PADDED * sizeof *whole);
    for (size_t r = 0; r < ROWS; r++) {
        scales[r] = bytes ? 0x1p-12f * (float)(r + 1) : 1;
        for (size_t i = 0; i < n; i++) {
            whole[r * PADDED + i] = (int16_t)(i % 7 ? 4096 * bo_rng_normal(&rng) : 32767);
            x[r * PADDED + i] = scales[r] * (float)whole[r * PADDED + i];
        }
    }
}

/* Sums of n products in float32, with three more rounding errors for bytes; a row is bitwise equal alone and among
 * other rows. */
static void check_dots(const bo_kernels *table, size_t n, bool bytes)
{
    enum { LDO = LINES + 2 };
    static float w[LINES * LONGEST], x[ROWS * PADDED], out[ROWS * LDO], alone[LINES];
    static int16_t whole[ROWS * PADDED];
    static union {
        float aligned;
        char bytes[LINES * 4 * LONGEST];
    } kept;
    float scales[ROWS];
    size_t rows = n % (ROWS + 1), lines = n % (LINES + 1), ldw = make_lines(table, n, bytes, w, kept.bytes);
    make_rows(n, bytes, x, whole, scales);
    for (size_t i = 0; i < ROWS * LDO; i++) out[i] = -77;
    for (size_t r = 0; r <= rows; r++) { /* all together, then each alone */
        size_t first = r ? (r - 1) * PADDED : 0;
        float *to = r ? alone : out;
        if (bytes)
            table->dots_s8(lines, r ? 1 : rows, n, (int8_t *)kept.bytes, ldw, whole + first, PADDED,
                           scales + first / PADDED, to, LDO);
        else
            table->dots_bf16(lines, r ? 1 : rows, n, (void *)kept.bytes, ldw, x + first, PADDED, to, LDO);
        for (size_t j = 0; r && j < lines; j++) {
            double sum = 0, size = 0;
            for (size_t i = 0; i < n; i++) {
                double product = (double)w[j * LONGEST + i] * (double)x[first + i];
                sum += product, size += fabs(product);
            }
            assert_close(alone[j], sum, (double)(n + 4) * 0x1p-24 * size);
            assert_true(alone[j] == out[(r - 1) * LDO + j]);
        }
    }
    for (size_t i = 0; i < ROWS * LDO; i++)
        if (i / LDO >= rows || i % LDO >= lines) assert_true(out[i] == -77);
}

static void dots_of_few_rows(void **state)
{
    (void)state;
    FOR_EACH_TABLE(table)
    {
        for (size_t n = 0; n <= LONGEST; n++) {
            check_dots(table, n, false);
            check_dots(table, n, true);
        }
    }
}

enum { WIDE = 37 * BO_S4_GROUP }; /* elements of the longest line of codes */

/* Lines of random codes with scales; w receives their values. */
static size_t make_codes(size_t n, float *w, uint8_t *kept)
{
    static const int8_t values[] = {BO_S4_VALUES};
    const size_t stride = bo_s4_line(n);
    bo_rng rng = bo_rng_make(n, bo_rng_stream("test.stored", 3));
    for (size_t j = 0; j < LINES; j++) {
        uint8_t *line = kept + j * stride;
        for (size_t i = 0; i < bo_s4_groups(n) * BO_S4_BYTES; i++) line[i] = (uint8_t)(bo_rng_uniform(&rng) * 256);
        for (size_t g = 0; g < bo_s4_groups(n); g++) {
            float scale = (g % 2 ? -0.0625f : 0.0625f) * (float)(g + j + 1);
            bo_kernels_find("ref")->round_bf16(1, &scale, (uint16_t *)(uintptr_t)bo_s4_scales(line, n) + g);
        }
        for (size_t i = 0; i < n; i++) {
            size_t g = i / BO_S4_GROUP, inside = i % BO_S4_GROUP;
            size_t block = g / 16 * 16, wide = bo_s4_groups(n) - block < 16 ? bo_s4_groups(n) - block : 16;
            size_t quad = inside % 16 / 4; /* quads of a block are interleaved */
            uint8_t pair = line[block * BO_S4_BYTES + 4 * (quad * wide + g - block) + inside % 4];
            float scale = (g % 2 ? -0.0625f : 0.0625f) * (float)(g + j + 1);
            w[j * WIDE + i] = scale * values[inside < BO_S4_BYTES ? pair & 15 : pair >> 4];
        }
    }
    return stride;
}

static void codes_are_widened(void **state)
{
    (void)state;
    enum { GROUPS = WIDE / BO_S4_GROUP };
    static float w[LINES * WIDE];
    static _Alignas(uint16_t) uint8_t kept[LINES * WIDE];
    float y[GROUPS * BO_S4_GROUP + 1];
    make_codes((size_t)GROUPS * BO_S4_GROUP, w, kept);
    FOR_EACH_TABLE(table)
    {
        for (size_t groups = 0; groups <= GROUPS; groups++) {
            const size_t first = groups % 3 && groups < GROUPS ? 1 : 0;
            y[groups * BO_S4_GROUP] = -77;
            table->widen_s4((size_t)GROUPS * BO_S4_GROUP, kept, first, groups, y);
            for (size_t i = 0; i < groups * BO_S4_GROUP; i++) assert_true(y[i] == w[first * BO_S4_GROUP + i]);
            assert_true(y[groups * BO_S4_GROUP] == -77);
        }
    }
}

/* The sums of a group are exact; groups are added in float32 after two roundings of their factor and one of their
 * sum. */
static void check_code_dots(const bo_kernels *table, size_t n)
{
    enum { LDO = LINES + 2, LENGTH = (WIDE + BO_S4_BLOCK - 1) / BO_S4_BLOCK * BO_S4_BLOCK };
    static float w[LINES * WIDE], out[ROWS * LDO], scales[ROWS * LENGTH / BO_S4_GROUP];
    static _Alignas(uint16_t) uint8_t kept[LINES * WIDE];
    static int8_t bytes[ROWS * LENGTH];
    static int32_t starts[ROWS * LENGTH / BO_S4_GROUP];
    const size_t length = (n + BO_S4_BLOCK - 1) / BO_S4_BLOCK * BO_S4_BLOCK, rows = n % (ROWS + 1),
                 lines = n % (LINES + 1);
    const size_t ldw = make_codes(n, w, kept);
    memset(bytes, 0, sizeof bytes);
    memset(starts, 0, sizeof starts);
    for (size_t i = 0; i < rows * length; i++) {
        if (i % length < n) bytes[bo_s4_place(i)] = (int8_t)(i % 5 ? (int)(i * i % 255) - 127 : -127);
        starts[i / BO_S4_GROUP] -= 128 * bytes[bo_s4_place(i)];
        scales[i / BO_S4_GROUP] = 0.01f * (float)(i / BO_S4_GROUP + 1);
    }
    for (size_t i = 0; i < ROWS * LDO; i++) out[i] = -77;
    bo_byte_rows x = {.bytes = bytes, .starts = starts, .scales = scales, .length = length};
    table->dots_s4(lines, rows, n, kept, ldw, &x, out, LDO);
    for (size_t r = 0; r < ROWS; r++)
        for (size_t j = 0; j < LDO; j++) {
            double sum = 0, size = 0;
            for (size_t i = 0; i < n && r < rows && j < lines; i++) {
                double product = (double)w[j * WIDE + i] * (double)scales[(r * length + i) / BO_S4_GROUP] *
                                 bytes[r * length + bo_s4_place(i)];
                sum += product, size += fabs(product);
            }
            if (r < rows && j < lines)
                assert_close(out[r * LDO + j], sum, (double)(bo_s4_groups(n) + 8) * 0x1p-24 * size);
            else
                assert_true(out[r * LDO + j] == -77);
        }
}

/* Lines of less than a block of 16 groups, of one and two blocks, and of two blocks and a part. */
static void check_codes_of(const bo_kernels *table)
{
    const size_t block = BO_S4_BLOCK;
    for (size_t n = 0; n <= LONGEST; n++) check_code_dots(table, n);
    check_code_dots(table, block);
    check_code_dots(table, block + 3);
    check_code_dots(table, 2 * block);
    check_code_dots(table, WIDE - 1);
}

static void dots_of_codes(void **state)
{
    (void)state;
    FOR_EACH_TABLE(table) check_codes_of(table);
#if defined(__x86_64__)
    if (bo_kernels_find("avx512")) check_codes_of(&bo_kernels_avx512); /* the table without byte products */
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bfloat16_is_the_nearest), cmocka_unit_test(shorts_are_the_nearest),
        cmocka_unit_test(bytes_are_scaled),        cmocka_unit_test(dots_of_few_rows),
        cmocka_unit_test(codes_are_widened),       cmocka_unit_test(dots_of_codes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
