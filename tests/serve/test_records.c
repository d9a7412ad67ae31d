/* Generated tokens as JSON: both forms, names of tokens that are not UTF-8, tokens that share a name, offsets, the cut
 * before a stop text, models without a tokenizer, memory. */
#include <stdlib.h>
#include "base/counting.h"
#include "io/json.h"
#include "serve/choice.h"
#include "text/tokenizer.h"

/* The letter a twice (as itself and as a byte), a quote, a line end, an ä and the two bytes of an ä. */
static const char vocabulary[] =
    "{\"added_tokens\": [], \"decoder\": {\"type\": \"Sequence\", \"decoders\": [{\"type\": \"ByteFallback\"}, "
    "{\"type\": \"Fuse\"}]}, \"model\": {\"type\": \"BPE\", \"byte_fallback\": true, \"vocab\": {\"a\": 0, \"<0x61>\": "
    "1, \"\\\"\": 2, \"<0x0A>\": 3, \"\\u00e4\": 4, \"<0xC3>\": 5, \"<0xA4>\": 6}, \"merges\": []}}";
enum { A, A_AGAIN, QUOTE, LINE, UMLAUT, FIRST_BYTE, SECOND_BYTE };

typedef struct setting {
    counting counted;
    bo_context *context;
    bo_tokenizer *tokenizer;
    bo_service service; /* of which only the tokenizer is used */
    bo_choice_records records;
} setting;

static int setup(void **state)
{
    setting *s = *state = calloc(1, sizeof *s);
    s->context = counting_context(&s->counted, 1);
    assert_ok(s->context, bo_tokenizer_parse(s->context, "test", vocabulary, strlen(vocabulary), &s->tokenizer));
    s->service.tokenizer = s->tokenizer;
    return 0;
}

static int teardown(void **state)
{
    setting *s = *state;
    bo_records_free(&s->records);
    bo_tokenizer_destroy(s->tokenizer);
    bo_context_destroy(s->context);
    assert_int_equal(s->counted.live, 0);
    free(s);
    return 0;
}

static const float NO_SCORE = 1;

static void add(setting *s, int32_t id, float logprob, size_t tops, const int32_t *ids)
{
    bo_job_token token = {.id = id, .scored = logprob <= 0, .logprob = logprob, .top_count = tops};
    for (size_t i = 0; i < tops; i++) {
        token.top_ids[i] = ids[i];
        token.top_logprobs[i] = -0.5f * (float)(i + 1);
    }
    assert_ok(s->context, bo_records_add(s->context, &s->service, &s->records, &token));
}

static void expect(const setting *s, bool chat, bool ids, const char *expected)
{
    bo_json_text out = {.context = s->context};
    bo_json *json;
    bo_records_write(&s->service, &s->records, chat, ids, &out);
    assert_false(out.failed);
    assert_string_equal(out.bytes, expected);
    assert_ok(s->context, bo_json_parse(s->context, "records", out.bytes, out.length, 32, &json));
    bo_json_delete(json);
    bo_free(out.bytes);
}

static void expect_ids(const setting *s, const char *expected)
{
    bo_json_text out = {.context = s->context};
    bo_records_write_ids(&s->records, &out);
    assert_string_equal(out.bytes, expected);
    bo_free(out.bytes);
}

static void test_completion(void **state)
{
    setting *s = *state;
    expect(s, false, false, "{\"tokens\": [], \"token_logprobs\": [], \"top_logprobs\": [], \"text_offset\": []}");
    add(s, A, NO_SCORE, 0, NULL); /* the first token of a prompt */
    add(s, UMLAUT, -0.25f, 0, NULL);
    add(s, QUOTE, -INFINITY, 2, (int32_t[]){LINE, UMLAUT});
    expect(s, false, false,
           "{\"tokens\": [\"a\", \"\xc3\xa4\", \"\\\"\"], \"token_logprobs\": [null, -0.25, -9999], \"top_logprobs\": "
           "[null, {}, {\"\\n\": -0.5, \"\xc3\xa4\": -1}], \"text_offset\": [0, 1, 2]}");
    expect(s, false, true,
           "{\"tokens\": [\"a\", \"\xc3\xa4\", \"\\\"\"], \"token_logprobs\": [null, -0.25, -9999], \"top_logprobs\": "
           "[null, {}, {\"\\n\": -0.5, \"\xc3\xa4\": -1}], \"text_offset\": [0, 1, 2], \"top_token_ids\": [null, {}, "
           "{\"\\n\": 3, \"\xc3\xa4\": 4}]}");
    expect_ids(s, "[0, 4, 2]");
}

/* Names of bytes, and a character in two tokens: the second begins where the first does not end. */
static void test_bytes(void **state)
{
    setting *s = *state;
    add(s, FIRST_BYTE, -1, 1, (int32_t[]){SECOND_BYTE});
    add(s, SECOND_BYTE, -2, 0, NULL);
    add(s, A, -3, 0, NULL);
    expect(s, false, false,
           "{\"tokens\": [\"bytes:\\\\xc3\", \"bytes:\\\\xa4\", \"a\"], \"token_logprobs\": [-1, -2, -3], "
           "\"top_logprobs\": [{\"bytes:\\\\xa4\": -0.5}, {}, {}], \"text_offset\": [0, 1, 1]}");
    expect(s, true, false,
           "{\"content\": [{\"token\": \"bytes:\\\\xc3\", \"logprob\": -1, \"bytes\": [195], \"top_logprobs\": "
           "[{\"token\": \"bytes:\\\\xa4\", \"logprob\": -0.5, \"bytes\": [164]}]}, {\"token\": \"bytes:\\\\xa4\", "
           "\"logprob\": -2, \"bytes\": [164], \"top_logprobs\": []}, {\"token\": \"a\", \"logprob\": -3, \"bytes\": "
           "[97], \"top_logprobs\": []}], \"refusal\": null}");
}

/* A name that two tokens share is a member once, for the more likely token; in conversations both are listed. */
static void test_shared_names(void **state)
{
    setting *s = *state;
    add(s, A_AGAIN, -0.5f, 3, (int32_t[]){A_AGAIN, A, QUOTE});
    expect(s, false, true,
           "{\"tokens\": [\"a\"], \"token_logprobs\": [-0.5], \"top_logprobs\": [{\"a\": -0.5, \"\\\"\": -1.5}], "
           "\"text_offset\": [0], \"top_token_ids\": [{\"a\": 1, \"\\\"\": 2}]}");
    expect(
        s, true, true,
        "{\"content\": [{\"token\": \"a\", \"logprob\": -0.5, \"bytes\": [97], \"token_id\": 1, \"top_logprobs\": ["
        "{\"token\": \"a\", \"logprob\": -0.5, \"bytes\": [97], \"token_id\": 1}, {\"token\": \"a\", \"logprob\": -1, "
        "\"bytes\": [97], \"token_id\": 0}, {\"token\": \"\\\"\", \"logprob\": -1.5, \"bytes\": [34], \"token_id\": "
        "2}]}], \"refusal\": null}");
}

/* Offsets count characters from the start of the text, also after records were written and cleared. */
static void test_cleared(void **state)
{
    setting *s = *state;
    for (int i = 0; i < 100; i++) add(s, UMLAUT, -1, 1, (int32_t[]){A});
    assert_int_equal(s->records.bytes, 200);
    assert_int_equal(s->records.characters, 100);
    bo_records_clear(&s->records);
    expect_ids(s, "[]");
    add(s, QUOTE, -1, 1, (int32_t[]){LINE});
    expect(s, false, false,
           "{\"tokens\": [\"\\\"\"], \"token_logprobs\": [-1], \"top_logprobs\": [{\"\\n\": -0.5}], \"text_offset\": "
           "[100]}");
    bo_records_free(&s->records);
    assert_int_equal(s->records.bytes + s->records.capacity, 0);
}

/* Tokens that start at or after the end of the text are dropped; one that starts before it is kept. */
static void test_cut(void **state)
{
    setting *s = *state;
    static const struct {
        size_t bytes;
        const char *left;
    } cuts[] = {{9, "[0, 4, 0, 4]"}, {6, "[0, 4, 0, 4]"}, {5, "[0, 4, 0, 4]"}, {4, "[0, 4, 0]"},
                {3, "[0, 4]"},       {2, "[0, 4]"},       {1, "[0]"},          {0, "[]"}};
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        add(s, A, -1, 0, NULL);
        add(s, UMLAUT, -1, 2, (int32_t[]){A, QUOTE});
        add(s, A, -1, 0, NULL);
        add(s, UMLAUT, -1, 0, NULL);
        bo_records_cut(&s->records, cuts[i].bytes);
        expect_ids(s, cuts[i].left);
        bo_records_free(&s->records);
    }
    bo_records_cut(&s->records, 0);
}

static void test_without_tokenizer(void **state)
{
    setting *s = *state;
    s->service.tokenizer = NULL;
    add(s, 7, -1, 2, (int32_t[]){123456, 7});
    expect(s, false, false,
           "{\"tokens\": [\"7\"], \"token_logprobs\": [-1], \"top_logprobs\": [{\"123456\": -0.5, \"7\": -1}], "
           "\"text_offset\": [0]}");
    expect(
        s, true, false,
        "{\"content\": [{\"token\": \"7\", \"logprob\": -1, \"bytes\": [], \"top_logprobs\": [{\"token\": \"123456\", "
        "\"logprob\": -0.5, \"bytes\": []}, {\"token\": \"7\", \"logprob\": -1, \"bytes\": []}]}], \"refusal\": null}");
    expect_ids(s, "[7]");
}

static bo_status collect(void *arg)
{
    setting *s = arg;
    bo_choice_records records = {0};
    bo_job_token token = {.id = A, .scored = true, .top_count = BO_MAX_TOP};
    bo_status status = BO_OK;
    for (size_t i = 0; i < 200 && status == BO_OK; i++) {
        status = bo_records_add(s->context, &s->service, &records, &token);
        assert_int_equal(records.count, i + (status == BO_OK));
    }
    bo_records_free(&records);
    return status;
}

static void test_exhaustion(void **state)
{
    setting *s = *state;
    counting_inject(&(injection){
        .counted = &s->counted, .context = s->context, .work = collect, .what = s, .all = 100, .stride = 1});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_completion, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bytes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_shared_names, setup, teardown),
        cmocka_unit_test_setup_teardown(test_cleared, setup, teardown),
        cmocka_unit_test_setup_teardown(test_cut, setup, teardown),
        cmocka_unit_test_setup_teardown(test_without_tokenizer, setup, teardown),
        cmocka_unit_test_setup_teardown(test_exhaustion, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
