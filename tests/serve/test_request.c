/* Requests: every member with right and wrong types and ranges, defaults, prompts, conversations, texts that are not
 * JSON or not UTF-8, and failures of memory at every allocation. */
#include <stdlib.h>
#include "../../src/text/unicode.h"
#include "base/counting.h"
#include "serve/request.h"

enum { VOCAB = 1000 };

/* ---- help -------------------------------------------------------------------------------------------------------- */

typedef struct setting {
    counting counted;
    bo_context *context;
    bo_request request;
    bo_refusal refusal;
} setting;

static int setup(void **state)
{
    setting *s = *state = calloc(1, sizeof *s);
    s->context = counting_context(&s->counted, 1);
    return 0;
}

static int teardown(void **state)
{
    setting *s = *state;
    bo_request_free(&s->request);
    bo_context_destroy(s->context);
    assert_int_equal(s->counted.live, 0);
    free(s);
    return 0;
}

/* Parses bytes in a block of their size, so that ASan finds reads behind it. */
static bool parse_bytes(setting *s, bo_request_kind kind, const char *body, size_t size)
{
    char *exact = malloc(size ? size : 1);
    memcpy(exact, body, size);
    bo_request_free(&s->request);
    s->refusal = (bo_refusal){0};
    const bool done = bo_request_parse(s->context, kind, exact, size, VOCAB, &s->request, &s->refusal);
    free(exact);
    return done;
}

static const bo_request *accept(setting *s, bo_request_kind kind, const char *body)
{
    if (!parse_bytes(s, kind, body, strlen(body))) fail_msg("%s was refused: %s", body, s->refusal.message);
    assert_int_equal(s->request.kind, kind);
    return &s->request;
}

/* The body is refused with status 400, this member, and a message that contains the words. */
static void refuse(setting *s, bo_request_kind kind, const char *body, const char *param, const char *message)
{
    if (parse_bytes(s, kind, body, strlen(body))) fail_msg("%s was accepted", body);
    if (s->refusal.status != 400) fail_msg("%s: status %d", body, s->refusal.status);
    if (strcmp(s->refusal.param, param) != 0) fail_msg("%s: param '%s'", body, s->refusal.param);
    if (!strstr(s->refusal.message, message)) fail_msg("%s: '%s' lacks '%s'", body, s->refusal.message, message);
    assert_true(!s->request.prompts && !s->request.variables && !s->request.biases && !s->request.stop_count);
}

/* ---- members ----------------------------------------------------------------------------------------------------- */

/* Values of each member that are accepted (they end before NULL), and that are refused. Every member may also be null,
 * and none may have a value of another type. */
static const struct {
    const char *name, *message; /* of the refusal */
    unsigned kinds;             /* bits */
    const char *good[8], *bad[12];
} members[] = {
#define COMPLETION (1u << BO_REQUEST_COMPLETION)
#define CHAT       (1u << BO_REQUEST_CHAT)
#define EMBEDDING  (1u << BO_REQUEST_EMBEDDING)
#define STATE      (1u << BO_REQUEST_STATE)
#define TOKENIZE   (1u << BO_REQUEST_TOKENIZE)
    {"max_tokens",
     "max_tokens: expected",
     COMPLETION | CHAT,
     {"0", "1", "16.0", "1e9", "1073741824"},
     {"-1", "1.5", "1073741825", "1e30", "1e999", "-1e999", "\"1\"", "true", "[1]", "{}"}},
    {"max_completion_tokens", "expected", CHAT, {"0", "5"}, {"-1", "1.5", "1e10", "\"1\""}},
    {"temperature",
     "expected a number from 0 to 100",
     COMPLETION | CHAT,
     {"0", "0.7", "1", "100", "1e-300"},
     {"-0.1", "100.1", "1e999", "\"1\"", "false", "[]"}},
    {"top_p", "top_p: expected a number", COMPLETION | CHAT, {"1", "0.5", "1e-9"}, {"0", "1.1", "-1", "\"1\"", "{}"}},
    {"min_p", "from 0 to 1", COMPLETION | CHAT, {"0", "0.5", "1"}, {"-0.5", "1.5", "true"}},
    {"top_k", "top_k: expected", COMPLETION | CHAT, {"-1", "0", "1", "40"}, {"-2", "0.5", "1e10", "\"4\"", "[4]"}},
    {"repetition_penalty", "expected a number", COMPLETION | CHAT, {"1", "0.5", "100"}, {"0", "-1", "101", "\"1\""}},
    {"presence_penalty", "from -2 to 2", COMPLETION | CHAT, {"-2", "0", "2"}, {"-2.1", "2.1", "\"0\""}},
    {"frequency_penalty", "from -2 to 2", COMPLETION | CHAT, {"-2", "0", "2"}, {"-2.1", "2.1", "\"0\""}},
    {"seed",
     "expected a whole number of 64 bits",
     COMPLETION | CHAT,
     {"0", "-1", "42", "9223372036854775807", "-9223372036854775808"},
     {"1.5", "9223372036854800000", "-9223372036854800000", "1e30", "-1e999", "\"7\"", "true"}},
    {"stop",
     "stop: ",
     COMPLETION | CHAT,
     {"\"x\"", "[]", "[\"a\", \"b\"]",
      "[\"0\",\"1\",\"2\",\"3\",\"4\",\"5\",\"6\",\"7\",\"8\",\"9\",\"a\",\"b\",\"c\",\"d\",\"e\",\"f\"]"},
     {"\"\"", "[\"a\", \"\"]", "5", "[5]", "true", "{}", "[null]",
      "[\"0\",\"1\",\"2\",\"3\",\"4\",\"5\",\"6\",\"7\",\"8\",\"9\",\"a\",\"b\",\"c\",\"d\",\"e\",\"f\",\"g\"]"}},
    {"ignore_eos", "expected true or false", COMPLETION | CHAT, {"true", "false"}, {"1", "\"true\"", "[]"}},
    {"n", "n: expected", COMPLETION | CHAT, {"1", "128"}, {"0", "129", "1.5", "-1", "\"1\"", "true"}},
    {"logit_bias",
     "logit_bias: expected",
     COMPLETION | CHAT,
     {"{}", "{\"0\": 1}", "{\"999\": -100, \"5\": 100}", "{\"007\": 0.5}"},
     {"[]", "5", "\"x\"", "{\"1000\": 1}", "{\"-1\": 1}", "{\"a\": 1}", "{\"\": 1}", "{\"1\": 101}", "{\"1\": \"1\"}",
      "{\"1\": null}", "{\"99999999999999999999\": 1}", "{\"1 \": 1}"}},
    {"logprobs", "from 0 to 20", COMPLETION, {"0", "20"}, {"-1", "21", "true", "false", "\"1\""}},
    {"logprobs", "expected a whole number", COMPLETION, {"3"}, {"0.5"}},
    {"logprobs", "expected true or false", CHAT, {"true", "false"}, {"0", "5", "\"true\""}},
    {"top_logprobs", "requires logprobs", CHAT, {NULL}, {"0", "5"}},
    {"echo", "expected true or false", COMPLETION, {"true", "false"}, {"1", "\"x\""}},
    {"stream", "expected true or false", COMPLETION | CHAT, {"true", "false"}, {"1", "\"true\""}},
    {"stream_options",
     "stream_options: ",
     COMPLETION | CHAT,
     {"{}", "{\"include_usage\": true}", "{\"include_usage\": null}", "{\"other\": false, \"more\": null}"},
     {"true", "[]", "\"x\"", "5", "{\"include_usage\": 1}", "{\"include_usage\": \"true\"}", "{\"other\": 1}",
      "{\"include_usage\": true, \"other\": true}"}},
    {"return_token_ids", "expected true or false", COMPLETION | CHAT, {"true", "false"}, {"1", "{}"}},
    {"state",
     "state: ",
     COMPLETION | CHAT | STATE,
     {"\"a\"", "\"0123456789012345678901234567890123456789012345678901234567890123\"", "\"A-z_9\"",
      "{\"data\": \"QQ==\"}", "{\"data\": \"\"}"},
     {"\"\"", "\"01234567890123456789012345678901234567890123456789012345678901234\"", "\"a b\"", "\"a/b\"",
      "\"\\u00e4\"", "\"..\"", "5", "true", "[]", "{}", "{\"data\": 5}", "{\"id\": \"a\"}"}},
    {"return_state",
     "expected true, false or",
     COMPLETION | CHAT,
     {"true", "false", "\"id\""},
     {"\"data\"", "\"\"", "1", "[]", "{}"}},
    {"chat_template_kwargs",
     "expected an object",
     CHAT,
     {"{}", "{\"a\": 1}", "{\"messages\": 5}"},
     {"[]", "5", "\"x\"", "true"}},
    {"encoding_format", "expected \"float\"", EMBEDDING, {"\"float\"", "\"base64\""}, {"\"Float\"", "5", "true", "[]"}},
    {"dimensions", "dimensions: expected", EMBEDDING, {"1", "64"}, {"0", "-1", "1.5", "\"64\"", "1e10"}},
    {"add_special_tokens", "expected true or false", TOKENIZE, {"true", "false"}, {"1", "\"x\""}},
    {"tools", "tools: expected a list", CHAT, {"[]", "[{\"type\": \"function\"}]"}, {"{}", "\"x\"", "true"}},
    {"tools",
     "strict set to true are not supported",
     CHAT,
     {"[{\"function\": {\"strict\": false}}]", "[1, {\"function\": null}]"},
     {"[1, {\"type\": \"function\", \"function\": {\"name\": \"f\", \"strict\": true}}]", "[{\"strict\": true}]"}},
    /* members that may change the response: values without an effect, and values that are refused */
    {"response_format",
     "response_format: this value is not supported; leave the member out, or give {\"type\": \"text\"}",
     COMPLETION | CHAT,
     {"{\"type\": \"text\"}"},
     {"{\"type\": \"json_object\"}", "{\"type\": \"json_schema\", \"json_schema\": {}}", "{}", "\"text\"", "[]", "0"}},
    {"tool_choice",
     "give one of \"none\", \"auto\"",
     CHAT | TOKENIZE | STATE,
     {"\"none\"", "\"auto\""},
     {"\"required\"", "{\"type\": \"function\", \"function\": {\"name\": \"f\"}}", "{\"type\": \"auto\"}", "true"}},
    {"function_call", "give one of", CHAT, {"\"none\"", "\"auto\""}, {"{\"name\": \"f\"}", "\"required\""}},
    {"functions", "give []", CHAT, {"[]"}, {"[{\"name\": \"f\"}]", "{}"}},
    {"grammar", "give \"\"", COMPLETION | CHAT, {"\"\""}, {"\"root ::= x\"", "{\"type\": \"json\"}", "false"}},
    {"json_schema", "is not supported; leave it out", COMPLETION | CHAT, {NULL}, {"{}", "\"\"", "true"}},
    {"guided_json", "is not supported", COMPLETION | CHAT, {NULL}, {"{}", "\"x\""}},
    {"guided_regex", "is not supported", COMPLETION | CHAT, {NULL}, {"\"a*\"", "\"\""}},
    {"guided_choice", "is not supported", COMPLETION | CHAT, {NULL}, {"[\"a\", \"b\"]", "[]"}},
    {"guided_grammar", "is not supported", COMPLETION | CHAT, {NULL}, {"\"x\""}},
    {"structured_outputs", "is not supported", COMPLETION | CHAT, {NULL}, {"{\"choice\": [\"a\"]}"}},
    {"suffix", "suffix: this value", COMPLETION, {"\"\""}, {"\"x\"", "[]", "5"}},
    {"suffix", "no such member", CHAT, {NULL}, {"\"\""}},
    {"best_of", "other than 1 and n (1)", COMPLETION, {"1"}, {"2", "128"}},
    {"best_of", "expected a whole number", COMPLETION, {"1.0"}, {"0", "-1", "1.5", "\"1\"", "129"}},
    {"modalities", "give [\"text\"]", CHAT, {"[\"text\"]"}, {"[\"audio\"]", "[\"text\", \"audio\"]", "[]", "\"text\""}},
    {"min_tokens", "give 0", COMPLETION | CHAT, {"0", "0.0"}, {"1", "5", "false"}},
    {"stop_token_ids", "give []", COMPLETION | CHAT, {"[]"}, {"[2]", "{}"}},
    {"use_beam_search", "give false", COMPLETION | CHAT, {"false"}, {"true", "0"}},
    {"add_special_tokens", "give true", COMPLETION | EMBEDDING, {"true"}, {"false"}},
    {"add_special_tokens", "give false", CHAT, {"false"}, {"true"}},
    {"truncate_prompt_tokens", "is not supported", COMPLETION | CHAT | EMBEDDING, {NULL}, {"5", "-1"}},
    {"echo", "give false", CHAT, {"false"}, {"true"}},
    {"normalize", "give false", EMBEDDING, {"false"}, {"true"}},
    /* members without an effect */
    {"user", "", COMPLETION | CHAT | EMBEDDING | STATE | TOKENIZE, {"\"me\"", "5", "{\"a\": []}", "false"}, {NULL}},
    {"metadata", "", COMPLETION | CHAT | EMBEDDING | STATE | TOKENIZE, {"{\"a\": \"b\"}"}, {NULL}},
    {"parallel_tool_calls", "", CHAT, {"true", "false"}, {NULL}},
    /* unknown members, including members of other kinds of requests and names in another case */
    {"nonsense", "no such member", COMPLETION | CHAT | EMBEDDING | STATE | TOKENIZE, {NULL}, {"5", "\"\"", "false"}},
    {"Temperature", "no such member", COMPLETION | CHAT, {NULL}, {"0"}},
    {"", "no such member", COMPLETION | CHAT | EMBEDDING | STATE | TOKENIZE, {NULL}, {"1"}},
    {"messages", "no such member", COMPLETION | EMBEDDING, {NULL}, {"[]"}},
    {"max_tokens", "no such member", EMBEDDING | STATE | TOKENIZE, {NULL}, {"5"}},
    {"tools", "tools requires messages", STATE | TOKENIZE, {NULL}, {"[]"}},
    {"chat_template_kwargs", "requires messages", STATE | TOKENIZE, {NULL}, {"{}"}},
};

/* What a request of the kind needs. */
static const char *const required[] = {
    [BO_REQUEST_COMPLETION] = "\"prompt\": \"a\"",
    [BO_REQUEST_CHAT] = "\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]",
    [BO_REQUEST_EMBEDDING] = "\"input\": \"a\"",
    [BO_REQUEST_TOKENIZE] = "\"prompt\": \"a\"",
    [BO_REQUEST_DETOKENIZE] = "\"tokens\": [1]",
    [BO_REQUEST_STATE] = "\"prompt\": \"a\"",
};

static void test_members(void **state)
{
    setting *s = *state;
    char body[1024];
    for (size_t m = 0; m < sizeof members / sizeof *members; m++)
        for (int kind = BO_REQUEST_COMPLETION; kind <= BO_REQUEST_STATE; kind++) {
            const char *name = members[m].name;
            if (!(members[m].kinds >> kind & 1)) continue;
            for (size_t i = 0; i < 8 && members[m].good[i]; i++) {
                snprintf(body, sizeof body, "{%s, \"%s\": %s}", required[kind], name, members[m].good[i]);
                accept(s, (bo_request_kind)kind, body);
                snprintf(body, sizeof body, " {\"%s\":%s,\"model\":[{}],%s}\n", name, members[m].good[i],
                         required[kind]);
                accept(s, (bo_request_kind)kind, body);
            }
            for (size_t i = 0; i < 12 && members[m].bad[i]; i++) {
                snprintf(body, sizeof body, "{%s, \"%s\": %s}", required[kind], name, members[m].bad[i]);
                refuse(s, (bo_request_kind)kind, body, name, members[m].message);
            }
            snprintf(body, sizeof body, "{%s, \"%s\": null}", required[kind], name);
            accept(s, (bo_request_kind)kind, body);
        }
}

static void test_values(void **state)
{
    setting *s = *state;
    const bo_request *q = accept(
        s, BO_REQUEST_COMPLETION,
        "{\"prompt\": \"Once\", \"max_tokens\": 7, \"temperature\": 0.5, \"top_p\": 0.9, \"top_k\": 40, \"min_p\": 0.1,"
        "\"repetition_penalty\": 1.1, \"presence_penalty\": -1, \"frequency_penalty\": 2, \"seed\": -2, \"n\": 3,"
        "\"logit_bias\": {\"5\": -100, \"12\": 1.5}, \"stop\": [\"x\", \"yz\"], \"ignore_eos\": true, \"logprobs\": 4,"
        "\"echo\": true, \"stream\": true, \"stream_options\": {\"include_usage\": true}, \"return_token_ids\": true,"
        "\"return_state\": \"id\", \"user\": \"me\", \"best_of\": 1}");
    assert_int_equal(q->prompt_count, 1);
    assert_string_equal(q->prompts[0].text, "Once");
    assert_int_equal(q->prompts[0].bytes, 4);
    assert_int_equal(q->max_tokens, 7);
    assert_close(q->sampling.temperature, 0.5, 0);
    assert_close(q->sampling.top_p, 0.9, 0);
    assert_int_equal(q->sampling.top_k, 40);
    assert_close(q->sampling.min_p, 0.1, 0);
    assert_close(q->sampling.repetition_penalty, 1.1, 0);
    assert_false(q->sampling.greedy);
    assert_close(q->presence_penalty, -1, 0);
    assert_close(q->frequency_penalty, 2, 0);
    assert_true(q->seeded && q->sampling.seed == UINT64_MAX - 1);
    assert_int_equal(q->n, 3);
    assert_int_equal(q->bias_count, 2);
    assert_int_equal(q->biases[0].id, 5);
    assert_close((double)q->biases[0].amount, -100, 0);
    assert_int_equal(q->biases[1].id, 12);
    assert_int_equal(q->stop_count, 2);
    assert_string_equal(q->stops[1], "yz");
    assert_true(q->ignore_end && q->echo && q->stream && q->usage && q->token_ids);
    assert_int_equal(q->top, 4);
    assert_int_equal(q->return_state, BO_STATE_ID);
    assert_null(q->state);
    assert_null(q->variables);
    q = accept(s, BO_REQUEST_COMPLETION,
               "{\"temperature\": 0, \"top_k\": -1, \"return_state\": true, \"state\": \"s-1\"}");
    assert_true(q->sampling.greedy);
    assert_int_equal(q->sampling.top_k, 0);
    assert_int_equal(q->return_state, BO_STATE_DATA);
    assert_string_equal(q->state, "s-1");
    q = accept(s, BO_REQUEST_COMPLETION, "{\"state\": {\"data\": \"QUJD\"}, \"return_state\": false}");
    assert_string_equal(q->state_data, "QUJD");
    assert_null(q->state);
    assert_int_equal(q->return_state, BO_STATE_NONE);
    q = accept(s, BO_REQUEST_CHAT,
               "{\"messages\": [{\"role\": \"user\", \"content\": null}], \"logprobs\": true, \"top_logprobs\": 20, "
               "\"max_tokens\": 5,\"max_completion_tokens\": 6}");
    assert_int_equal(q->top, 20);
    assert_int_equal(q->max_tokens, 6);
    q = accept(s, BO_REQUEST_EMBEDDING, "{\"input\": \"a\", \"encoding_format\": \"base64\", \"dimensions\": 32}");
    assert_true(q->base64);
    assert_int_equal(q->dimensions, 32);
    q = accept(s, BO_REQUEST_TOKENIZE, "{\"prompt\": \"a\", \"add_special_tokens\": false}");
    assert_false(q->special_tokens);
    q = accept(s, BO_REQUEST_COMPLETION, "{\"seed\": 9223372036854775807}"); /* as a double: 2^63 */
    assert_true(q->sampling.seed == INT64_MAX);
    q = accept(s, BO_REQUEST_COMPLETION, "{\"seed\": -9223372036854775808}");
    assert_true(q->sampling.seed == UINT64_C(1) << 63);
}

static void test_defaults(void **state)
{
    setting *s = *state;
    const bo_request *q = accept(s, BO_REQUEST_COMPLETION, "{}");
    assert_int_equal(q->prompt_count, 1);
    assert_string_equal(q->prompts[0].text, "");
    assert_int_equal(q->max_tokens, 16);
    assert_int_equal(q->n, 1);
    assert_int_equal(q->top, -1);
    assert_false(q->seeded || q->ignore_end || q->echo || q->stream || q->usage || q->token_ids || q->sampling.greedy);
    assert_close(q->sampling.temperature, 1, 0);
    assert_close(q->sampling.top_p, 1, 0);
    assert_close(q->sampling.repetition_penalty, 1, 0);
    assert_int_equal(q->sampling.top_k, 0);
    assert_int_equal(q->stop_count + q->bias_count, 0);
    assert_int_equal(q->return_state, BO_STATE_NONE);
    assert_true(!q->state && !q->state_data);
    q = accept(s, BO_REQUEST_CHAT, "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}");
    assert_int_equal(q->max_tokens, 1024);
    assert_int_equal(q->top, -1);
    assert_int_equal(
        accept(s, BO_REQUEST_CHAT, "{\"messages\": [{\"role\": \"u\", \"content\": \"\"}], \"logprobs\": true}")->top,
        0);
    assert_true(accept(s, BO_REQUEST_TOKENIZE, "{\"prompt\": \"a\"}")->special_tokens);
    q = accept(s, BO_REQUEST_EMBEDDING, "{\"input\": \"a\"}");
    assert_false(q->base64);
    assert_int_equal(q->dimensions, 0);
    assert_int_equal(q->n, 1);
}

/* ---- prompts ----------------------------------------------------------------------------------------------------- */

static void test_prompts(void **state)
{
    setting *s = *state;
    const bo_request *q = accept(s, BO_REQUEST_COMPLETION, "{\"prompt\": [\"a\", \"\", \"b\\u00e4\\ud83d\\ude00\"]}");
    assert_int_equal(q->prompt_count, 3);
    assert_string_equal(q->prompts[1].text, "");
    assert_string_equal(q->prompts[2].text, "b\xc3\xa4\xf0\x9f\x98\x80");
    assert_int_equal(q->prompts[2].bytes, 7);
    q = accept(s, BO_REQUEST_COMPLETION, "{\"prompt\": [0, 999, 5.0]}");
    assert_int_equal(q->prompt_count, 1);
    assert_null(q->prompts[0].text);
    assert_int_equal(q->prompts[0].count, 3);
    assert_memory_equal(q->prompts[0].ids, ((int32_t[]){0, 999, 5}), 3 * sizeof(int32_t));
    q = accept(s, BO_REQUEST_COMPLETION, "{\"prompt\": [[1], [2, 3], []]}");
    assert_int_equal(q->prompt_count, 3);
    assert_int_equal(q->prompts[1].count, 2);
    assert_int_equal(q->prompts[2].count, 0);
    q = accept(s, BO_REQUEST_COMPLETION, "{\"prompt\": []}"); /* no tokens; refused unless a state precedes them */
    assert_int_equal(q->prompt_count, 1);
    assert_int_equal(q->prompts[0].count, 0);
    q = accept(s, BO_REQUEST_DETOKENIZE, "{\"tokens\": []}");
    assert_int_equal(q->prompts[0].count, 0);
    q = accept(s, BO_REQUEST_DETOKENIZE, "{\"tokens\": [1, 2]}");
    assert_int_equal(q->prompts[0].count, 2);
    static const char *const bad[] = {"5",         "true",          "{}",           "[true]",       "[null]",
                                      "[{}]",      "[1, \"a\"]",    "[\"a\", 1]",   "[1000]",       "[-1]",
                                      "[1.5]",     "[[1], [1000]]", "[[\"a\"]]",    "[[[1]]]",      "[1e999]",
                                      "[1, null]", "[[1], null]",   "[[1], \"a\"]", "[\"a\", [1]]", "[99999999999]"};
    static const bo_request_kind kinds[] = {BO_REQUEST_COMPLETION, BO_REQUEST_EMBEDDING, BO_REQUEST_TOKENIZE,
                                            BO_REQUEST_STATE, BO_REQUEST_DETOKENIZE};
    static const char *const names[] = {"prompt", "input", "prompt", "prompt", "tokens"};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        char body[128];
        for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
            snprintf(body, sizeof body, "{\"%s\": %s}", names[k], bad[i]);
            refuse(s, kinds[k], body, names[k], "expected");
        }
        if (k > 0) refuse(s, kinds[k], "{}", names[k], k < 4 ? "is required" : "expected a list");
        if (k < 2) continue;
        snprintf(body, sizeof body, "{\"%s\": [[1]]}", names[k]);
        refuse(s, kinds[k], body, names[k], "expected one text or list of tokens");
    }
    refuse(s, BO_REQUEST_DETOKENIZE, "{\"tokens\": \"a\"}", "tokens", "expected a list");
    refuse(s, BO_REQUEST_COMPLETION, "{\"echo\": true, \"state\": \"a\"}", "echo", "leave out echo or state");
    refuse(s, BO_REQUEST_COMPLETION, "{\"echo\": true, \"state\": {\"data\": \"\"}}", "echo",
           "leave out echo or state");
}

/* The number of inputs is bounded; the number of tokens is not bounded here. */
static void test_sizes(void **state)
{
    enum { TOKENS = 100000 };
    setting *s = *state;
    char *body = malloc(4 * TOKENS);
    for (size_t count = BO_REQUEST_MAX_INPUTS; count <= BO_REQUEST_MAX_INPUTS + 1; count++) {
        size_t at = (size_t)sprintf(body, "{\"input\": [");
        for (size_t i = 0; i < count; i++) at += (size_t)sprintf(body + at, "%s\"a\"", i ? "," : "");
        sprintf(body + at, "]}");
        if (count == BO_REQUEST_MAX_INPUTS)
            assert_int_equal(accept(s, BO_REQUEST_EMBEDDING, body)->prompt_count, count);
        else
            refuse(s, BO_REQUEST_EMBEDDING, body, "input", "at most 2048, found 2049");
    }
    size_t at = (size_t)sprintf(body, "{\"prompt\": [");
    for (int i = 0; i < TOKENS; i++) at += (size_t)sprintf(body + at, "%s%d", i ? "," : "", i % 10);
    sprintf(body + at, "]}");
    const bo_request *q = accept(s, BO_REQUEST_COMPLETION, body);
    assert_int_equal(q->prompts[0].count, TOKENS);
    assert_int_equal(q->prompts[0].ids[TOKENS - 1], 9);
    free(body);
}

/* ---- conversations ----------------------------------------------------------------------------------------------- */

static void test_messages(void **state)
{
    static const struct {
        const char *body, *variables;
    } good[] = {
        {"{\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}]}",
         "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"a\"},"
         "{\"text\": \"\"}, {\"text\": \"b\"}], \"name\": \"me\"}]}",
         "{\"messages\":[{\"role\":\"user\",\"name\":\"me\",\"content\":\"ab\"}]}"},
        {"{\"messages\": [{\"role\": \"system\", \"content\": null}, {\"role\": \"user\", \"content\": \"\"},"
         "{\"role\": \"assistant\", \"content\": []}]}",
         "{\"messages\":[{\"role\":\"system\",\"content\":\"\"},{\"role\":\"user\",\"content\":\"\"},"
         "{\"role\":\"assistant\",\"content\":\"\"}]}"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}], \"tools\": [1], \"chat_template_kwargs\":"
         "{\"x\": {\"y\": [2]}, \"messages\": 5, \"tools\": 6, \"b\": null}}",
         "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"tools\":[1],\"x\":{\"y\":[2]},\"b\":null}"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}], \"tools\": []}",
         "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"tools\":[]}"},
        /* a member that occurs twice does not reach the template as a list */
        {"{\"messages\": [{\"role\": \"user\", \"content\": \"a\", \"content\": [{\"text\": \"b\"}]}]}",
         "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}"},
    };
    static const char *const bad[] = {"[]",
                                      "{}",
                                      "\"a\"",
                                      "5",
                                      "[5]",
                                      "[\"a\"]",
                                      "[null]",
                                      "[[]]",
                                      "[{}]",
                                      "[{\"content\": \"a\"}]",
                                      "[{\"role\": \"user\"}]",
                                      "[{\"role\": 5, \"content\": \"a\"}]",
                                      "[{\"role\": null, \"content\": \"a\"}]",
                                      "[{\"role\": \"user\", \"content\": 5}]",
                                      "[{\"role\": \"user\", \"content\": true}]",
                                      "[{\"role\": \"user\", \"content\": {\"text\": \"a\"}}]",
                                      "[{\"role\": \"user\", \"content\": [\"a\"]}]",
                                      "[{\"role\": \"user\", \"content\": [{\"type\": \"image_url\"}]}]",
                                      "[{\"role\": \"user\", \"content\": [{\"text\": 5}]}]",
                                      "[{\"role\": \"user\", \"content\": [null]}]",
                                      "[{\"role\": \"user\", \"content\": \"a\"}, 5]"};
    static const bo_request_kind kinds[] = {BO_REQUEST_CHAT, BO_REQUEST_TOKENIZE, BO_REQUEST_STATE};
    setting *s = *state;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
            const bo_request *q = accept(s, kinds[k], good[i].body);
            assert_string_equal(q->variables, good[i].variables);
            assert_null(q->prompts);
        }
        for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
            char body[256];
            snprintf(body, sizeof body, "{\"messages\": %s}", bad[i]);
            refuse(s, kinds[k], body, "messages", "messages: ");
        }
        /* a tool that must not be called is not offered */
        assert_string_equal(
            accept(
                s, kinds[k],
                "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}], \"tools\": [1], \"tool_choice\": \"none\"}")
                ->variables,
            "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}");
    }
    refuse(s, BO_REQUEST_CHAT, "{}", "messages", "messages is required");
    refuse(s, BO_REQUEST_CHAT, "{\"messages\": null}", "messages", "messages is required");
    refuse(s, BO_REQUEST_CHAT, "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, 5]}", "messages",
           "message 1");
}

/* ---- bodies ------------------------------------------------------------------------------------------------------ */

static void test_bodies(void **state)
{
    static const char *const malformed[] = {"",
                                            " ",
                                            "{",
                                            "{\"a\"}",
                                            "{\"a\": }",
                                            "{\"a\": 1,}",
                                            "{} {}",
                                            "{}x",
                                            "nul",
                                            "{'a': 1}",
                                            "{\"a\": 01x}",
                                            "{\"a\": \"\\x\"}",
                                            "{\"a\": \"\\ud800\"}",
                                            "{\"a\": \"\\udc00x\"}",
                                            "{\"a\": \"",
                                            "\xef\xbb\xbf"};
    static const char *const other_bodies[] = {"null", "5", "\"a\"", "[]", "[{}]", "true"};
    static const char *const bytes[] = {"{\"prompt\": \"\xff\"}",
                                        "{\"prompt\": \"\xc3\"}",
                                        "{\"prompt\": \"\xc0\x80\"}",
                                        "{\"prompt\": \"\xed\xa0\x80\"}",
                                        "{\"prompt\": \"\xf4\x90\x80\x80\"}",
                                        "{\"\xe2\x82\": 1}"};
    setting *s = *state;
    for (size_t i = 0; i < sizeof malformed / sizeof *malformed; i++)
        refuse(s, BO_REQUEST_COMPLETION, malformed[i], "", "JSON");
    for (size_t i = 0; i < sizeof other_bodies / sizeof *other_bodies; i++)
        refuse(s, BO_REQUEST_COMPLETION, other_bodies[i], "", "must be a JSON object");
    for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++)
        refuse(s, BO_REQUEST_COMPLETION, bytes[i], "", "not UTF-8");
    refuse(s, BO_REQUEST_COMPLETION, "{\"prompt\": \"a\\u0000b\"}", "", "NUL");
    refuse(s, BO_REQUEST_COMPLETION, "{\"x\": [\"\\\\\\u0000\"]}", "", "NUL");
    assert_string_equal(accept(s, BO_REQUEST_COMPLETION, "{\"prompt\": \"a\\\\u0000\"}")->prompts[0].text, "a\\u0000");
    assert_false(parse_bytes(s, BO_REQUEST_COMPLETION, "{\"prompt\": \"a\0b\"}", 17));
    assert_non_null(strstr(s->refusal.message, "NUL"));
    assert_false(parse_bytes(s, BO_REQUEST_COMPLETION, "{}\0", 3));
    /* programs differ in which of two members with the same name they read */
    refuse(s, BO_REQUEST_COMPLETION, "{\"n\": 2, \"n\": 2}", "n", "n: the member occurs twice");
    refuse(s, BO_REQUEST_COMPLETION, "{\"user\": 1, \"prompt\": \"\", \"user\": null}", "user", "occurs twice");
    refuse(s, BO_REQUEST_CHAT,
           "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}], \"messages\": [{\"role\": \"user\", "
           "\"content\": \"b\"}]}",
           "messages", "occurs twice");
    /* null counts as absent */
    accept(s, BO_REQUEST_COMPLETION, "{\"nonsense\": null, \"grammar\": null, \"N\": null}");
    const bo_request *q = accept(s, BO_REQUEST_COMPLETION, "{\"n\": 3, \"best_of\": 3}");
    assert_int_equal(q->n, 3);
    accept(s, BO_REQUEST_COMPLETION, "{\"best_of\": 1, \"n\": 3}");
    refuse(s, BO_REQUEST_COMPLETION, "{\"n\": 3, \"best_of\": 4}", "best_of", "other than 1 and n (3)");
    refuse(s, BO_REQUEST_STATE, "{\"prompt\": \"a\", \"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}",
           "prompt", "found both");
}

/* Every beginning of a body is refused without a read behind it. */
static void test_truncated(void **state)
{
    static const char body[] =
        "{\"prompt\": [\"\xc3\xa4\\u00e4\", \"\"], \"stop\": [\"x\"], \"logit_bias\": {\"1\": 2e0}}";
    setting *s = *state;
    for (size_t size = 0; size < sizeof body - 1; size++) {
        assert_false(parse_bytes(s, BO_REQUEST_COMPLETION, body, size));
        assert_int_equal(s->refusal.status, 400);
        assert_true(strlen(s->refusal.message) > 10);
    }
    accept(s, BO_REQUEST_COMPLETION, body);
}

static void test_nesting(void **state)
{
    setting *s = *state;
    char body[512];
    for (int depth = 60; depth <= 200; depth += 140) {
        int at = sprintf(body, "{\"user\": ");
        for (int i = 0; i < depth; i++) at += sprintf(body + at, "[");
        for (int i = 0; i < depth; i++) at += sprintf(body + at, "]");
        sprintf(body + at, "}");
        if (depth == 60)
            accept(s, BO_REQUEST_COMPLETION, body);
        else
            refuse(s, BO_REQUEST_COMPLETION, body, "", "nested deeper");
    }
}

static void test_ids(void **state)
{
    (void)state;
    assert_true(bo_state_id_is_valid("a"));
    assert_true(bo_state_id_is_valid("state-0123_XYZ"));
    assert_false(bo_state_id_is_valid(""));
    assert_false(bo_state_id_is_valid("a.b"));
    assert_false(bo_state_id_is_valid("../a"));
    assert_false(bo_state_id_is_valid("a\n"));
}

static void test_refusal(void **state)
{
    (void)state;
    bo_refusal refusal;
    char name[200], text[1000];
    memset(name, 'n', sizeof name);
    memset(text, 't', sizeof text);
    name[sizeof name - 1] = text[sizeof text - 1] = 0;
    assert_false(bo_refuse(&refusal, 404, name, "%s %d", text, 5));
    assert_int_equal(refusal.status, 404);
    assert_int_equal(strlen(refusal.param), sizeof refusal.param - 1);
    assert_int_equal(strlen(refusal.message), sizeof refusal.message - 1);
    /* a character is not cut */
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "%.*s", i, "aaa");
        while (strlen(name) < 150) strcat(name, "\xe6\x97\xa5");
        bo_refuse(&refusal, 400, name, "%s%s%s", name, name, name);
        assert_in_range(strlen(refusal.param), sizeof refusal.param - 3, sizeof refusal.param - 1);
        assert_int_equal(strlen(refusal.param) % 3, i);
        assert_in_range(strlen(refusal.message), sizeof refusal.message - 3, sizeof refusal.message - 1);
        assert_int_equal(bo_utf8_valid(refusal.message, strlen(refusal.message)), strlen(refusal.message));
    }
    assert_false(bo_refuse(&refusal, 500, NULL, "x"));
    assert_string_equal(refusal.param, "");
    assert_string_equal(refusal.message, "x");
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static const char *const long_bodies[] = {
    "{\"prompt\": [\"a\", \"b\"], \"stop\": [\"x\", \"y\"], \"logit_bias\": {\"1\": 1}, \"state\": \"a\"}",
    "{\"messages\": [{\"role\": \"user\", \"content\": [{\"text\": \"a\"}, {\"text\": \"b\"}]}, {\"role\": \"user\", "
    "\"content\": null}], \"stop\":\"x\", \"tools\": [1], \"chat_template_kwargs\": {\"a\": 1, \"b\": [2]}, \"state\": "
    "{\"data\": \"QQ==\"}}"};

static bo_status parse_all(void *arg)
{
    setting *s = arg;
    for (int i = 0; i < 2; i++) {
        const bo_request_kind kind = i ? BO_REQUEST_CHAT : BO_REQUEST_COMPLETION;
        const bool done =
            bo_request_parse(s->context, kind, long_bodies[i], strlen(long_bodies[i]), VOCAB, &s->request, &s->refusal);
        bo_request_free(&s->request);
        if (done) continue;
        assert_int_equal(s->refusal.status, 500);
        assert_string_equal(s->refusal.message, bo_context_error(s->context));
        return BO_MEMORY;
    }
    return BO_OK;
}

static void test_memory(void **state)
{
    setting *s = *state;
    counting_inject(&(injection){
        .counted = &s->counted, .context = s->context, .work = parse_all, .what = s, .all = 1000, .stride = 1});
}

/* The same for JSON trees, which are allocated with malloc. The functions of the C library are replaced by functions
 * that count and fail once, except under sanitizers. */
#if !defined(BO_SANITIZE_ADDRESS) && !defined(BO_SANITIZE_THREAD) && defined(__GLIBC__)
extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
static size_t json_calls, json_fails;
static bool json_counts;

static bool json_failure(void)
{
    return json_counts && ++json_calls == json_fails;
}

void *malloc(size_t size)
{
    return json_failure() ? NULL : __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    return json_failure() ? NULL : __libc_calloc(count, size);
}

void *realloc(void *block, size_t size)
{
    return json_failure() ? NULL : __libc_realloc(block, size);
}

static void test_json_memory(void **state)
{
    setting *s = *state;
    for (int i = 0; i < 2; i++) {
        const bo_request_kind kind = i ? BO_REQUEST_CHAT : BO_REQUEST_COMPLETION;
        for (json_fails = 1;; json_fails++) {
            json_calls = 0;
            bo_request_free(&s->request);
            s->refusal = (bo_refusal){0};
            json_counts = true;
            const bool done = bo_request_parse(s->context, kind, long_bodies[i], strlen(long_bodies[i]), VOCAB,
                                               &s->request, &s->refusal);
            json_counts = false;
            if (json_calls < json_fails) {
                assert_true(done);
                break;
            }
            if (done) fail_msg("allocation %zu failed, but the request was accepted", json_fails);
            assert_true(strlen(s->refusal.message) > 5);
        }
        assert_true(json_fails > 20);
    }
}
#else
static void test_json_memory(void **state)
{
    (void)state;
    skip();
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_members, setup, teardown),
        cmocka_unit_test_setup_teardown(test_values, setup, teardown),
        cmocka_unit_test_setup_teardown(test_defaults, setup, teardown),
        cmocka_unit_test_setup_teardown(test_prompts, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sizes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_messages, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bodies, setup, teardown),
        cmocka_unit_test_setup_teardown(test_truncated, setup, teardown),
        cmocka_unit_test_setup_teardown(test_nesting, setup, teardown),
        cmocka_unit_test(test_ids),
        cmocka_unit_test(test_refusal),
        cmocka_unit_test_setup_teardown(test_memory, setup, teardown),
        cmocka_unit_test_setup_teardown(test_json_memory, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
