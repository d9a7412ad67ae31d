/* JSON values: reading, printing, comparison and changes. */
#include "io/json_tree.h"
#include "testing.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static bo_json *read_text(const char *text)
{
    const char *stop;
    bo_json *value = bo_json_read(text, strlen(text), &stop);
    if (!value) fail_msg("not accepted: %s (byte %zu)", text, (size_t)(stop - text));
    return value;
}

/* Printed on one line, a text is itself. */
static void the_same_text(void **state)
{
    static const char *const texts[] = {"null",
                                        "true",
                                        "false",
                                        "0",
                                        "-1.5",
                                        "1e+300",
                                        "0.1",
                                        "123456789012345",
                                        "\"\"",
                                        "\"a\\\"\\\\\\n\\t\\b\\f\\r\\u0001\"",
                                        "\"\xc3\xa9\xe2\x82\xac\"",
                                        "[]",
                                        "{}",
                                        "[1,[2,[3]],{}]",
                                        "{\"a\":1,\"b\":{\"c\":[null,true]},\"a\":2}"};
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        bo_json *value = read_text(texts[i]), *copy = bo_json_copy(value);
        char *text = bo_json_print(value), *again = bo_json_print(copy);
        assert_string_equal(text, texts[i]);
        assert_string_equal(again, texts[i]);
        assert_true(bo_json_equal(value, copy) == !strstr(texts[i], "\"a\":2")); /* the first of two members counts */
        free(text);
        free(again);
        bo_json_delete(value);
        bo_json_delete(copy);
    }
}

static void texts_and_numbers(void **state)
{
    (void)state;
    static const struct {
        const char *json, *text;
    } texts[] = {{"\"\\u0041\\u00e9\\u20ac\"", "A\xc3\xa9\xe2\x82\xac"},
                 {"\"\\ud83d\\ude00\"", "\xf0\x9f\x98\x80"},
                 {"\"\\/\"", "/"},
                 {" \n\"x\" ", "x"},
                 {"\xef\xbb\xbf\"mark\"", "mark"}};
    static const struct {
        const char *json;
        double number;
    } numbers[] = {
        {"-0", 0},
        {"1E3", 1000},
        {"2.5e-3", 0.0025},
        {"1e400", INFINITY},
        {"9007199254740993", 9007199254740992},
        {"12345678901234567890123456789012345678901234567890123456789012345678901234567890", 1.2345678901234568e79}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        bo_json *value = read_text(texts[i].json);
        assert_string_equal(bo_json_text_or_null(value), texts[i].text);
        bo_json_delete(value);
    }
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        bo_json *value = read_text(numbers[i].json);
        assert_true(bo_json_is(value, BO_JSON_NUMBER) && value->number == numbers[i].number);
        bo_json_delete(value);
    }
    for (int i = 0; i < 1000; i++) { /* a printed number is the number, up to a rounding error */
        const double number = ldexp(sin(i), i % 200 - 100);
        bo_json *value = bo_json_new_number(number);
        char *text = bo_json_print(value);
        bo_json *again = read_text(text);
        assert_true(bo_json_equal(value, again));
        free(text);
        bo_json_delete(value);
        bo_json_delete(again);
    }
}

static void malformed(void **state)
{
    static const char *const texts[] = {
        "",       " ",       "nul",       "+1",          "-",           ".5",          "\"",
        "\"\\\"", "\"\\x\"", "\"\\u12\"", "\"\\u12g4\"", "\"\\ud800\"", "\"\\udc00\"", "\"\\ud800\\u0041\"",
        "[",      "[1",      "[1,",       "[,]",         "[1,]",        "[1 2]",       "{",
        "{1:2}",  "{\"a\"}", "{\"a\":}",  "{\"a\":1,}",  "{\"a\" 1}",   "}",           "]",
        "tru",    "\"\\"};
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const char *stop = NULL;
        bo_json *value = bo_json_read(texts[i], strlen(texts[i]), &stop);
        if (value) fail_msg("accepted: %s", texts[i]);
        assert_true(stop >= texts[i] && stop <= texts[i] + strlen(texts[i]));
    }
    assert_null(bo_json_read(NULL, 0, NULL));
}

static void nesting(void **state)
{
    enum { DEEP = BO_JSON_NESTING };
    char text[2 * DEEP + 3];
    (void)state;
    for (int depth = DEEP; depth <= DEEP + 1; depth++) {
        memset(text, '[', (size_t)depth);
        memset(text + depth, ']', (size_t)depth);
        bo_json *value = bo_json_read(text, 2 * (size_t)depth, NULL);
        assert_true((value != NULL) == (depth == DEEP));
        bo_json_delete(value);
    }
}

static void changes(void **state)
{
    (void)state;
    bo_json *value = read_text("{\"a\": [1, 2, 3], \"b\": \"x\"}"), *list = bo_json_member(value, "a");
    assert_int_equal(bo_json_count(list), 3);
    assert_null(bo_json_at(list, 3));
    assert_null(bo_json_at(list, -1));
    assert_null(bo_json_member(value, "A")); /* names are exact */
    assert_null(bo_json_member(list, "a"));
    bo_json *last = bo_json_detach(list, bo_json_at(list, 2));
    assert_null(bo_json_detach(list, last));
    bo_json_delete(last);
    assert_true(bo_json_append(list, bo_json_new_number(4)));
    bo_json *first = bo_json_detach(list, list->child);
    assert_true(bo_json_put(value, "c", first));
    char *text = bo_json_print(list);
    assert_string_equal(text, "[2,4]");
    free(text);
    while (list->child) bo_json_delete(bo_json_detach(list, list->child));
    assert_true(bo_json_append(list, bo_json_new_text("only")));
    text = bo_json_print_indented(list);
    assert_string_equal(text, "[\"only\"]");
    free(text);
    assert_false(bo_json_append(NULL, NULL) || bo_json_append(list, NULL) || bo_json_put(value, NULL, NULL));
    assert_null(bo_json_put_new(value, "e", NULL));
    bo_json_delete(value);
}

static void comparisons(void **state)
{
    static const struct {
        const char *a, *b;
        bool equal;
    } cases[] = {{"{\"a\":1,\"b\":2}", "{\"b\":2,\"a\":1}", true},
                 {"{\"a\":1}", "{\"a\":1,\"b\":2}", false},
                 {"{\"a\":1,\"b\":2}", "{\"a\":1}", false},
                 {"[1,2]", "[2,1]", false},
                 {"[1]", "[1,1]", false},
                 {"0.1", "0.10000000000000001", true},
                 {"1", "\"1\"", false},
                 {"true", "false", false},
                 {"null", "null", true},
                 {"\"a\"", "\"b\"", false}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bo_json *a = read_text(cases[i].a), *b = read_text(cases[i].b);
        assert_int_equal(bo_json_equal(a, b), cases[i].equal);
        bo_json_delete(a);
        bo_json_delete(b);
    }
    assert_false(bo_json_equal(NULL, NULL));
}

static void indented(void **state)
{
    (void)state;
    bo_json *value = read_text("{\"a\":[1,{\"b\":null}],\"c\":{}}");
    char *text = bo_json_print_indented(value);
    assert_string_equal(text, "{\n\t\"a\":\t[1, {\n\t\t\t\"b\":\tnull\n\t\t}],\n\t\"c\":\t{\n\t}\n}");
    free(text);
    bo_json_delete(value);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_same_text), cmocka_unit_test(texts_and_numbers),
                                       cmocka_unit_test(malformed),     cmocka_unit_test(nesting),
                                       cmocka_unit_test(changes),       cmocka_unit_test(comparisons),
                                       cmocka_unit_test(indented)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
