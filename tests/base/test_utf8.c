/* UTF-8: every character has the length of RFC 3629, and nothing else is a character. */
#include <bochner/base.h>
#include <string.h>
#include "testing.h"

/* Encodes a number below 2^21 in `count` bytes, even if fewer are enough. */
static void write_number(uint32_t number, size_t count, char *out)
{
    static const unsigned char marks[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = count; i-- > 1; number >>= 6) out[i] = (char)(0x80 | (number & 0x3f));
    out[0] = (char)(marks[count] | number);
}

static size_t min_bytes(uint32_t number)
{
    return number < 0x80 ? 1 : number < 0x800 ? 2 : number < 0x10000 ? 3 : 4;
}

/* Each number below 2^21 in every form that holds it: a form is a character if it is the shortest, not a surrogate, and
 * at most U+10FFFF. A truncated form, or one with another byte instead of a continuation, is not. */
static void test_every_form(void **state)
{
    static const uint32_t limits[] = {0, 1 << 7, 1 << 11, 1 << 16, 1 << 21};
    (void)state;
    for (uint32_t number = 0; number < 1u << 21; number++)
        for (size_t count = min_bytes(number); count <= 4; count++) {
            char text[4];
            const bool surrogate = number >= 0xd800 && number < 0xe000;
            const bool is = count == min_bytes(number) && !surrogate && number <= 0x10ffff;
            if (number >= limits[count]) fail();
            write_number(number, count, text);
            if (bo_utf8_length(text, count) != (is ? count : 0)) fail_msg("U+%04X in %zu bytes", number, count);
            if (bo_utf8_length(text, count - 1) != 0) fail_msg("U+%04X cut to %zu bytes", number, count - 1);
            if (count == 1) continue;
            text[count - 1] = 0;
            if (bo_utf8_length(text, 4) != 0) fail_msg("U+%04X with a NUL at its end", number);
        }
}

/* No character starts with a continuation byte, or with a byte beyond those of U+10FFFF. */
static void test_first_bytes(void **state)
{
    (void)state;
    for (unsigned first = 0x80; first < 0x100; first++) {
        const char text[4] = {(char)first, (char)0x80, (char)0x80, (char)0x80};
        if (first < 0xc2 || first >= 0xf5) assert_int_equal(bo_utf8_length(text, 4), 0);
    }
    assert_int_equal(bo_utf8_length("", 0), 0);
    assert_int_equal(bo_utf8_length("", 1), 1); /* NUL is a character */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_form), cmocka_unit_test(test_first_bytes)};
    return cmocka_run_group_tests_name("base.utf8", tests, NULL, NULL);
}
