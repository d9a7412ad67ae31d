/* Tokenizers of all kinds: ids and decoded texts agree with the package `tokenizers`. The cases are printed by
 * tests/peers/test_tokenizers.py --write. */
#include <stdlib.h>
#include "texts.h"
#include "io/bytes.h"
#include "io/json.h"

static bo_json *load_cases(bo_context *context)
{
    char path[1024], *text;
    size_t length;
    bo_json *cases;
    snprintf(path, sizeof path, "%s/tests/data/tokenizers.json.gz", getenv("BOCHNER_SOURCE"));
    assert_ok(context, bo_bytes_text(context, path, &bo_limits_tokenizer, &text, &length));
    assert_ok(context, bo_json_parse(context, path, text, length, 32, &cases));
    bo_free(text);
    return cases;
}

static bool equal_ids(const bo_ids *ids, const bo_json *expected)
{
    size_t i = 0;
    const bo_json *id;
    if (ids->count != (size_t)bo_json_count(expected)) return false;
    BO_JSON_EACH(id, expected) if (ids->items[i++] != (int)id->number) return false;
    return true;
}

static void check_case(bo_context *context, const bo_tokenizer *tokenizer, const char *name, const bo_json *item)
{
    const char *text = bo_json_member(item, "text")->text;
    const bo_json *decoded = bo_json_member(item, "decoded")->child;
    bo_ids ids = {0};
    assert_ok(context, bo_tokenizer_encode(context, tokenizer, text, strlen(text),
                                           BO_ENCODE_SPECIALS | BO_ENCODE_TEMPLATE, &ids));
    if (!equal_ids(&ids, bo_json_member(item, "ids"))) fail_msg("%s: other ids for \"%s\"", name, text);
    char *back;
    size_t bytes;
    assert_ok(context, bo_tokenizer_decode(context, tokenizer, ids.items, ids.count, &back, &bytes));
    if (decoded && strcmp(back, decoded->text) != 0)
        fail_msg("%s: \"%s\" is decoded to \"%s\" instead of \"%s\"", name, text, back, decoded->text);
    bo_free(back);
    bo_ids_free(&ids);
}

static void test_cases(void **state)
{
    test_directory *f = *state;
    bo_json *cases = load_cases(f->context), *item, *one;
    size_t seen = 0;
    BO_JSON_EACH(item, cases)
    {
        char *json = bo_json_print(bo_json_member(item, "tokenizer"));
        bo_tokenizer *tokenizer = test_parse(f->context, json);
        BO_JSON_EACH(one, bo_json_member(item, "cases"))
        check_case(f->context, tokenizer, bo_json_member(item, "name")->text, one);
        bo_tokenizer_destroy(tokenizer);
        free(json);
        seen++;
    }
    assert_true(seen > 130);
    bo_json_delete(cases);
}

/* A token may contain NUL, which is an escape in the file. */
static void test_nul(void **state)
{
    test_directory *f = *state;
    bo_tokenizer *tokenizer = test_parse(
        f->context, "{\"added_tokens\": [{\"id\": 4, \"content\": \"<\\u0000>\"}], \"decoder\": {\"type\": \"Fuse\"}, "
                    "\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"\\u0000\": 1, \"a\\u0000\": 2, \"<\": 3}, "
                    "\"merges\": [\"a \\u0000\"]}}");
    static const char text[] = "aa\0\0<\0>a";
    bo_ids ids = test_encode(f->context, tokenizer, text, sizeof text - 1);
    assert_int_equal(ids.count, 5);
    assert_memory_equal(ids.items, ((int32_t[]){0, 2, 1, 4, 0}), 5 * sizeof(int32_t));
    expect_round_trip(f->context, tokenizer, text, sizeof text - 1);
    bo_ids_free(&ids);
    bo_tokenizer_destroy(tokenizer);
}

/* Long words take n log n time, even if a pattern backtracks or the text is one word. */
static void test_long_words(void **state)
{
    test_directory *f = *state;
    enum { LENGTH = 1 << 18 };
    static const char *const parts[] = {
        "\"pre_tokenizer\": {\"type\": \"Split\", \"pattern\": {\"Regex\": "
        "\"[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?[\\\\p{Lu}\\\\p{Lo}]*[\\\\p{Ll}\\\\p{Lo}]+|[\\\\p{Lu}\\\\p{Lo}]+|\\\\s+\"}, "
        "\"behavior\": \"Isolated\"}, ",
        "\"normalizer\": {\"type\": \"NFC\"}, ",
        "\"pre_tokenizer\": {\"type\": \"Metaspace\", \"replacement\": \"_\", \"split\": false}, ",
        "",
    };
    static const char *const models[] = {
        "{\"type\": \"BPE\", \"unk_token\": \"?\", \"vocab\": {\"?\": 0, \"A\": 1, \"AA\": 2}, \"merges\": [\"A A\"]}",
        "{\"type\": \"Unigram\", \"unk_id\": 0, \"vocab\": [[\"?\", 0], [\"A\", -1], [\"AA\", -1.5]]}",
    };
    char *text = malloc(LENGTH);
    for (size_t p = 0; p < sizeof parts / sizeof *parts; p++)
        for (size_t m = 0; m < 2; m++)
            for (int uppercase = 0; uppercase < 2; uppercase++) {
                char json[1024];
                snprintf(json, sizeof json, "{%s\"model\": %s}", parts[p], models[m]);
                bo_tokenizer *tokenizer = test_parse(f->context, json);
                memset(text, uppercase ? 'A' : 'z', LENGTH);
                bo_ids ids = test_encode(f->context, tokenizer, text, LENGTH);
                if (uppercase) assert_true(ids.count >= LENGTH / 2 && ids.count <= LENGTH / 2 + 2);
                bo_ids_free(&ids);
                bo_tokenizer_destroy(tokenizer);
            }
    free(text);
}

static void test_special(void **state)
{
    test_directory *f = *state;
    bo_tokenizer *tokenizer = test_parse(
        f->context, "{\"added_tokens\": [{\"id\": 1, \"content\": \"<s>\", \"special\": true}, {\"id\": 2, "
                    "\"content\": \"x\"}], \"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": "
                    "[]}}");
    for (int32_t id = -1; id < 4; id++) assert_int_equal(bo_tokenizer_is_special(tokenizer, id), id == 1);
    bo_tokenizer_destroy(tokenizer);
    assert_false(bo_tokenizer_is_special(NULL, 0));
}

/* Without a decoder, tokens are separated by spaces. */
static void test_no_decoder(void **state)
{
    test_directory *f = *state;
    bo_tokenizer *tokenizer =
        test_parse(f->context, "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 1}, \"merges\": []}}");
    char *text;
    size_t bytes;
    assert_ok(f->context, bo_tokenizer_decode(f->context, tokenizer, (int32_t[]){0, 1, 0}, 3, &text, &bytes));
    assert_string_equal(text, "a b a");
    bo_free(text);
    bo_tokenizer_destroy(tokenizer);
}

/* Expressions that have no equivalent are refused by name. */
static void test_refused_expressions(void **state)
{
    test_directory *f = *state;
    static const char *const cases[][2] = {
        {"(?~ab)", "this kind of group"},
        {"a\\\\y", "a boundary of text segments"},
        {"[[:nothing:]]", "the name of a set"},
        {"\\\\pL", "a property without braces"},
        {"\\\\u12", "four digits"},
        {"[a", "a set has no end"},
        {"(a", "is invalid"},
        {"\\\\p{Nonsense}", "is invalid"},
        {"a\\\\", "a backslash at the end"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char json[512];
        bo_tokenizer *tokenizer;
        snprintf(json, sizeof json,
                 "{\"pre_tokenizer\": {\"type\": \"Split\", \"pattern\": {\"Regex\": \"%s\"}, \"behavior\": "
                 "\"Isolated\"}, \"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": []}}",
                 cases[i][0]);
        const bo_status status = bo_tokenizer_parse(f->context, "test", json, strlen(json), &tokenizer);
        assert_true(status == BO_UNSUPPORTED || status == BO_INVALID);
        assert_fails(f->context, status, cases[i][1], status);
        assert_null(tokenizer);
    }
}

int main(void)
{
#define WITH_DIRECTORY(test) cmocka_unit_test_setup_teardown(test, test_setup, test_teardown)
    const struct CMUnitTest tests[] = {
        WITH_DIRECTORY(test_cases),   WITH_DIRECTORY(test_nul),        WITH_DIRECTORY(test_long_words),
        WITH_DIRECTORY(test_special), WITH_DIRECTORY(test_no_decoder), WITH_DIRECTORY(test_refused_expressions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
