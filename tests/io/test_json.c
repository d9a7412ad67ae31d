/* JSON: whole numbers of 64 bits read back as they were written; checksums find damage. */
#include "files.h"
#include "io/json.h"

/* The value of `text`; false if it is not a whole number of 64 bits. */
static bool read_back(bo_context *context, const char *text, uint64_t *out)
{
    bo_json *json;
    assert_ok(context, bo_json_parse(context, "text", text, strlen(text), 2, &json));
    const bool found = bo_json_uint64(json, out);
    bo_json_delete(json);
    return found;
}

static void every_width_survives(void **state)
{
    test_directory *f = *state;
    for (int bits = 0; bits <= 64; bits++)
        for (uint64_t less = 0; less < 3; less++) {
            const uint64_t value = (bits < 64 ? (uint64_t)1 << bits : 0) - less + 1;
            for (int digits = 0; digits < 2; digits++) {
                bo_json_text text = {.context = f->context};
                uint64_t found = 0;
                digits ? bo_json_digits(&text, value) : bo_json_whole(&text, value);
                assert_true(read_back(f->context, text.bytes, &found));
                assert_true(found == value);
                bo_free(text.bytes);
            }
        }
}

static void other_numbers_are_refused(void **state)
{
    test_directory *f = *state;
    static const char *const invalid[] = {"-1",   "0.5",   "9007199254740993",         "1e300",  "\"\"",
                                          "null", "\"x\"", "\"18446744073709551616\"", "\"-1\"", "\"1 \""};
    uint64_t found;
    for (size_t i = 0; i < sizeof invalid / sizeof *invalid; i++)
        if (read_back(f->context, invalid[i], &found)) fail_msg("%s is read as a whole number of 64 bits", invalid[i]);
}

/* Without a context there is no message. */
static void checksums(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    char text[] = BO_JSON_SEALED "\n  \"a\": 1\n}\n";
    assert_true(bo_json_seal(text, sizeof text - 1));
    assert_ok(context, bo_json_check(context, "x.json", text, sizeof text - 1));
    assert_int_equal(bo_json_check(NULL, "x.json", text, sizeof text - 1), BO_OK);
    text[sizeof text - 5] = '2';
    assert_fails(context, BO_FORMAT, "x.json: the file is damaged",
                 bo_json_check(context, "x.json", text, sizeof text - 1));
    assert_int_equal(bo_json_check(NULL, "x.json", text, sizeof text - 1), BO_FORMAT);
    assert_int_equal(bo_json_check(NULL, NULL, text, sizeof text - 1), BO_INVALID);
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(checksums), cmocka_unit_test(every_width_survives),
                                       cmocka_unit_test(other_numbers_are_refused)};
    return cmocka_run_group_tests(tests, test_setup, test_teardown);
}
