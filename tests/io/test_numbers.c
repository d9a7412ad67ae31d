/* Conversion of text to double must be correctly rounded; the reference is glibc's strtod in the C locale. */
#include "testing.h"
#include "io/numbers.h"

static double read_whole(const char *text)
{
    const char *stop;
    double value;
    if (!bo_number_read(text, text + strlen(text), &stop, &value) || *stop) fail_msg("'%s' is not read", text);
    return value;
}

static void assert_same_bits(const char *text)
{
    double expected = strtod(text, NULL), actual = read_whole(text);
    if (memcmp(&expected, &actual, sizeof actual) != 0) fail_msg("'%s' gives %.17g, not %.17g", text, actual, expected);
}

static void known_numbers(void **state)
{
    (void)state;
    static const char *const texts[] = {"0",
                                        "-0",
                                        "1",
                                        "+1",
                                        "1.",
                                        ".5",
                                        "-.5e1",
                                        "1e22",
                                        "1e23",
                                        "1E-22",
                                        "9007199254740993",
                                        "9007199254740992",
                                        "18446744073709551615",
                                        "18446744073709551616",
                                        "1.7976931348623157e308",
                                        "4.9e-324",
                                        "2.2250738585072011e-308",
                                        "1e400",
                                        "1e-400",
                                        "0.1",
                                        "0.30000000000000004",
                                        "123456789012345678901234567890e-20",
                                        "8.5000000000000000001",
                                        "9223372036854775807.5",
                                        "1e0000000000000000001",
                                        "0.000000000000000000000000000000000000000000000000001",
                                        "5e-324",
                                        "1e99999999999999999999",
                                        "0e99999999999999999999"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; ++i) assert_same_bits(texts[i]);
}

/* All three algorithms (53-bit, 64-bit, strtod) are used: 1 to 21 digits, exponents from -40 to 40, and numbers exactly
 * halfway between two doubles. */
static void random_numbers(void **state)
{
    (void)state;
    bo_rng rng = bo_rng_make(3, 1);
    for (int i = 0; i < 300000; ++i) {
        char text[80];
        int digits = 1 + (int)bo_rng_below(&rng, 21), point = (int)bo_rng_below(&rng, (uint64_t)digits + 1), at = 0;
        if (bo_rng_below(&rng, 2)) text[at++] = '-';
        for (int d = 0; d < digits; ++d) {
            if (d == point) text[at++] = '.';
            text[at++] = (char)('0' + bo_rng_below(&rng, 10));
        }
        text[at] = 0;
        if (bo_rng_below(&rng, 2))
            snprintf(text + at, sizeof text - (size_t)at, "e%d", (int)bo_rng_below(&rng, 81) - 40);
        assert_same_bits(text);
    }
    for (int i = 0; i < 20000; ++i) {
        char text[80];
        uint64_t odd = (bo_rng_bits(&rng) >> 10) | 1 | (uint64_t)1 << 53; /* 54 bits, odd: half way */
        snprintf(text, sizeof text, "%llu", (unsigned long long)odd);
        assert_same_bits(text);
        snprintf(text, sizeof text, "%llu.%d", (unsigned long long)odd, (int)bo_rng_below(&rng, 10));
        assert_same_bits(text);
        snprintf(text, sizeof text, "%.17g", (double)odd / 1024);
        assert_same_bits(text);
        snprintf(text, sizeof text, "%.18e", bo_rng_normal(&rng));
        assert_same_bits(text);
    }
}

static void cells(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bo_cell_kind kind;
    } cases[] = {
        {"", BO_CELL_MISSING},     {"  ", BO_CELL_MISSING},   {"NA", BO_CELL_MISSING},   {"nan", BO_CELL_MISSING},
        {"-NaN", BO_CELL_MISSING}, {"null", BO_CELL_MISSING}, {"NULL", BO_CELL_MISSING}, {"?", BO_CELL_MISSING},
        {" 1.5 ", BO_CELL_NUMBER}, {"\t7\r", BO_CELL_NUMBER}, {"inf", BO_CELL_NUMBER},   {"-Infinity", BO_CELL_NUMBER},
        {"1e", BO_CELL_TEXT},      {"e5", BO_CELL_TEXT},      {".", BO_CELL_TEXT},       {"+", BO_CELL_TEXT},
        {"0x10", BO_CELL_TEXT},    {"1 2", BO_CELL_TEXT},     {"1,5", BO_CELL_TEXT},     {"--1", BO_CELL_TEXT},
        {"na", BO_CELL_TEXT},      {"??", BO_CELL_TEXT},      {"nano", BO_CELL_TEXT},    {"1e+", BO_CELL_TEXT}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        double value;
        bo_cell_kind kind = bo_cell_read(cases[i].text, cases[i].text + strlen(cases[i].text), &value);
        if (kind != cases[i].kind) fail_msg("'%s' is of kind %d", cases[i].text, (int)kind);
        if (kind != BO_CELL_NUMBER) assert_true(isnan(value));
    }
}

static void formatting(void **state)
{
    (void)state;
    char text[BO_NUMBER_TEXT];
    bo_rng rng = bo_rng_make(4, 1);
    assert_int_equal(bo_number_format(1, text, sizeof text), 1);
    assert_string_equal(text, "1");
    assert_int_equal(bo_number_format(-0.1, text, sizeof text), 4);
    assert_string_equal(text, "-0.1");
    for (int i = 0; i < 10000; ++i) {
        double value = bo_rng_normal(&rng) * pow(10, (double)bo_rng_below(&rng, 40) - 20);
        assert_true(bo_number_format(value, text, sizeof text) == strlen(text));
        assert_true(read_whole(text) == value);
    }
}

/* The longest number fits into 32 bytes; a smaller buffer is filled but not exceeded. */
static void formatting_in_small_buffers(void **state)
{
    (void)state;
    char text[8];
    assert_true(bo_number_format(-2.2250738585072014e-308, NULL, 0) == strlen("-2.2250738585072014e-308"));
    memset(text, 'x', sizeof text);
    assert_int_equal(bo_number_format(1.0 / 3, text, 5), 18);
    assert_string_equal(text, "0.33");
    assert_true(text[5] == 'x');
}

static void escape_in(size_t size, const char *text, const char *expected)
{
    char piece[64], all[128] = "";
    size_t length = 0;
    while (*text) {
        const size_t more = bo_json_escape(&text, piece, size);
        assert_true(more > 0 && more <= size);
        memcpy(all + length, piece, more);
        length += more;
    }
    all[length] = 0;
    assert_string_equal(all, expected);
}

/* Characters stay whole for any size of the pieces. */
static void escaping(void **state)
{
    (void)state;
    static const char text[] = "a\"b\\c\n\t\x01\x7f \xc3\xa9 \xf0\x9f\x8e\xb2 x\xff\xed\xa0\x80y";
    static const char escaped[] = "a\\\"b\\\\c\\n\\t\\u0001\\u007f \xc3\xa9 \xf0\x9f\x8e\xb2 "
                                  "x\\ufffd\\ufffd\\ufffd\\ufffdy";
    for (size_t size = 6; size <= 64; size++) escape_in(size, text, escaped);
    const char *rest = "\x01";
    char none[1];
    assert_int_equal(bo_json_escape(&rest, none, 1), 0); /* it does not fit and is not consumed */
    assert_true(*rest == 1);
}

/* All 65536 half-precision numbers compared with the definition: (-1)^s 2^(e-15) (1 + m/1024), subnormal 2^-14
 * m/1024. */
static void halves(void **state)
{
    (void)state;
    for (unsigned h = 0; h < 65536; ++h) {
        int e = (int)(h >> 10 & 31), m = (int)(h & 1023);
        double expected = e == 0 ? ldexp(m / 1024.0, -14) : ldexp(1 + m / 1024.0, e - 15);
        if (e == 31) expected = m ? NAN : INFINITY;
        if (h & 0x8000) expected = -expected;
        float actual = bo_half_to_float((uint16_t)h);
        if (isnan(expected))
            assert_true(isnan(actual));
        else
            assert_true((double)actual == expected && !signbit(actual) == !signbit(expected));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(known_numbers),
                                       cmocka_unit_test(random_numbers),
                                       cmocka_unit_test(cells),
                                       cmocka_unit_test(formatting),
                                       cmocka_unit_test(formatting_in_small_buffers),
                                       cmocka_unit_test(escaping),
                                       cmocka_unit_test(halves)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
