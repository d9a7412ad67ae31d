/* Tokens of a text that a model continues: with a template, without one, empty texts, texts that continue others. */
#include "text/facts.h"
#include "texts.h"
#include "base/counting.h"

/* Characters a and b, with additions of the test: further members, and further tokens of the vocabulary. */
#define TOKENIZER(members, vocab)                                                                                      \
    "{\"added_tokens\": [{\"id\": 1, \"content\": \"<s>\", \"special\": true}, {\"id\": 2, \"content\": \"</s>\", "    \
    "\"special\": true}], " members "\"model\": {\"type\": \"BPE\", \"vocab\": {\"<unk>\": 0, \"<s>\": 1, \"</s>\": "  \
    "2, \"a\": 3, \"b\": 4" vocab "}, \"merges\": []}}"

#define TEMPLATE                                                                                                       \
    "\"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": [{\"SpecialToken\": {\"id\": \"<s>\", "        \
    "\"type_id\": 0}}, {\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}], \"special_tokens\": {\"<s>\": {\"id\": "      \
    "\"<s>\", \"ids\": [1], \"tokens\": [\"<s>\"]}}}, "

static void expect(test_directory *f, const bo_tokenizer *tokenizer, const char *text, bool continues, size_t count,
                   const int32_t *expected)
{
    bo_ids ids = {0};
    assert_ok(f->context, bo_tokenizer_encode(f->context, tokenizer, *text ? text : NULL, strlen(text),
                                              continues ? BO_ENCODE_SPECIALS : BO_ENCODE_PROMPT, &ids));
    assert_int_equal(ids.count, count);
    if (count) assert_memory_equal(ids.items, expected, count * sizeof *expected);
    bo_ids_free(&ids);
}

static void test_template(void **state)
{
    test_directory *f = *state;
    bo_tokenizer *tokenizer = test_parse(f->context, TOKENIZER(TEMPLATE, ""));
    expect(f, tokenizer, "ab", false, 3, (int32_t[]){1, 3, 4});
    expect(f, tokenizer, "ab", true, 2, (int32_t[]){3, 4});
    expect(f, tokenizer, "", false, 1, (int32_t[]){1});
    expect(f, tokenizer, "", true, 0, NULL);
    expect(f, tokenizer, "a</s>b", true, 3, (int32_t[]){3, 2, 4}); /* special tokens that are written out */
    expect(f, tokenizer, "<s>a", false, 3, (int32_t[]){1, 1, 3});
    bo_tokenizer_destroy(tokenizer);
}

static void test_without_template(void **state)
{
    test_directory *f = *state;
    bo_tokenizer *tokenizer = test_parse(f->context, TOKENIZER("", ""));
    assert_int_equal(bo_tokenizer_end(tokenizer), 2);
    expect(f, tokenizer, "ab", false, 2, (int32_t[]){3, 4});
    expect(f, tokenizer, "", false, 1, (int32_t[]){2}); /* the token that ends a text also starts one */
    expect(f, tokenizer, "", true, 0, NULL);
    bo_tokenizer_destroy(tokenizer);
}

static void test_bytes(void **state)
{
    test_directory *f = *state;
    bo_tokenizer *tokenizer;
    assert_ok(f->context, bo_tokenizer_create(f->context, &tokenizer));
    expect(f, tokenizer, "a\xff", false, 2, (int32_t[]){'a', 0xff});
    if (bo_tokenizer_end(tokenizer) < 0) expect(f, tokenizer, "", false, 1, (int32_t[]){'\n'});
    expect(f, tokenizer, "", true, 0, NULL);
    bo_tokenizer_destroy(tokenizer);
}

/* Neither an end token nor a line end. */
static void test_no_start(void **state)
{
    test_directory *f = *state;
    bo_tokenizer *tokenizer =
        test_parse(f->context, "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 1}, \"merges\": []}}");
    bo_ids ids = {0};
    assert_true(bo_tokenizer_end(tokenizer) < 0);
    expect(f, tokenizer, "ba", false, 2, (int32_t[]){1, 0});
    assert_fails(f->context, BO_INVALID, "the prompt is empty",
                 bo_tokenizer_encode(f->context, tokenizer, "", 0, BO_ENCODE_PROMPT, &ids));
    assert_ok(f->context, bo_tokenizer_encode(f->context, tokenizer, "", 0, BO_ENCODE_SPECIALS, &ids));
    assert_int_equal(ids.count, 0);
    bo_ids_free(&ids);
    bo_tokenizer_destroy(tokenizer);
}

typedef struct exhausted {
    counting counted;
    bo_context *context;
    bo_tokenizer *tokenizer;
} exhausted;

static bo_status encode(void *what)
{
    const exhausted *e = what;
    static const char *const texts[] = {"abab", ""};
    bo_status status = BO_OK;
    for (int i = 0; i < 2 && status == BO_OK; i++) {
        bo_ids ids = {0};
        status = bo_tokenizer_encode(e->context, e->tokenizer, texts[i], strlen(texts[i]), BO_ENCODE_PROMPT, &ids);
        bo_ids_free(&ids);
    }
    return status;
}

static void test_exhaustion(void **state)
{
    (void)state;
    exhausted e = {0};
    e.context = counting_context(&e.counted, 1);
    e.tokenizer = test_parse(e.context, TOKENIZER("", ""));
    counting_inject(
        &(injection){.counted = &e.counted, .context = e.context, .work = encode, .what = &e, .all = 100, .stride = 1});
    bo_tokenizer_destroy(e.tokenizer);
    bo_context_destroy(e.context);
    assert_int_equal(e.counted.live, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_template), cmocka_unit_test(test_without_template), cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_no_start), cmocka_unit_test(test_exhaustion),
    };
    return cmocka_run_group_tests(tests, test_setup, test_teardown);
}
