/* bo_generate: the tokens of a loop of sessions and samplers; ends, stop texts, UTF-8, conversations, wrong
 * arguments. */
#include <bochner/generate.h>
#include "base/counting.h"
#include "io/files.h"
#include "models.h"
#include "text/unicode.h"

enum { MAX_TOKENS = 64, MAX_TEXT = 4 * MAX_TOKENS };

/* What the callback has received. */
typedef struct received {
    int32_t ids[MAX_TOKENS];
    double log_probabilities[MAX_TOKENS];
    char text[MAX_TEXT];
    size_t count, bytes, calls, prompt_tokens, cancel_at; /* cancel_at: number of tokens; 0: never */
    bo_generate_end end;
} received;

static bool receive(void *user, const bo_token *token)
{
    received *r = user;
    assert_non_null(token->text);
    assert_int_equal(r->end, BO_GENERATE_CONTINUES); /* no call follows the end */
    assert_true(r->bytes + token->bytes <= sizeof r->text);
    memcpy(r->text + r->bytes, token->text, token->bytes);
    r->bytes += token->bytes;
    assert_int_equal(token->index, r->count);
    if (token->id >= 0) {
        assert_true(r->count < MAX_TOKENS);
        r->log_probabilities[r->count] = token->log_probability;
        r->ids[r->count++] = token->id;
    }
    r->prompt_tokens = token->prompt_tokens;
    r->end = token->end;
    r->calls++;
    return !r->cancel_at || r->count < r->cancel_at;
}

typedef struct fixture {
    bo_context *context;
    bo_tokenizer *tokenizer;
    bo_model *model;
} fixture;

static void open_model(fixture *f, const char *kind)
{
    bo_model_desc desc = test_desc(kind);
    f->context = test_context(1);
    assert_ok(f->context, bo_tokenizer_create(f->context, &f->tokenizer));
    f->model = test_model(f->context, &desc, f->tokenizer);
}

static void close_model(fixture *f)
{
    bo_model_destroy(f->model);
    bo_tokenizer_destroy(f->tokenizer);
    bo_context_destroy(f->context);
}

static bo_session *open_session(const fixture *f, size_t capacity)
{
    bo_session *session;
    assert_ok(f->context, bo_session_create(f->context, f->model, &(bo_session_desc){.capacity = capacity}, &session));
    return session;
}

static received generate(const fixture *f, const bo_generate_desc *desc)
{
    received r = {0};
    assert_ok(f->context, bo_generate(f->context, f->model, desc, receive, &r));
    return r;
}

/* ---- the same as a loop ------------------------------------------------------------------------------------------ */

static const char prompt[] = "In the beginning";

/* -log softmax in double from the same floats: a few roundings of numbers of about 6. */
static double expected_log(const float *logits, int32_t id)
{
    double total = 0;
    for (size_t i = 0; i < VOCAB; i++) total += exp((double)logits[i]);
    return (double)logits[id] - log(total);
}

static void check_loop(const fixture *f, const bo_sampler_desc *sampling)
{
    const size_t length = strlen(prompt);
    bo_session *direct = open_session(f, 0), *other = open_session(f, 0);
    bo_sampler_desc later = *sampling;
    bo_sampler *sampler;
    bo_ids ids = {0};
    float logits[VOCAB], chosen[VOCAB], last[VOCAB];
    const received r = generate(
        f,
        &(bo_generate_desc){
            .prompt = prompt, .max_tokens = 20, .sampling = *sampling, .session = direct, .log_probabilities = true});
    assert_int_equal(r.count, 20);
    assert_int_equal(r.calls, 20);
    assert_int_equal(r.end, BO_GENERATE_LENGTH);
    assert_int_equal(r.prompt_tokens, length);
    later.drawn = length;
    assert_ok(f->context, bo_sampler_create(f->context, &later, &sampler));
    assert_ok(f->context, bo_tokenizer_encode(f->context, f->tokenizer, prompt, length, BO_ENCODE_PROMPT, &ids));
    assert_ok(f->context, bo_session_feed(f->context, other, ids.items, ids.count, logits));
    for (size_t i = 0; i < ids.count; i++) bo_sampler_remember(sampler, ids.items[i]);
    for (size_t i = 0; i < 20; i++) {
        memcpy(chosen, logits, sizeof chosen);
        const int32_t id = bo_sampler_next(sampler, chosen, VOCAB);
        assert_int_equal(r.ids[i], id);
        assert_close(r.log_probabilities[i], expected_log(logits, id), 1e-9);
        assert_ok(f->context, bo_session_feed(f->context, other, &id, 1, logits));
    }
    assert_ok(f->context, bo_session_feed(f->context, direct, NULL, 0, last));
    assert_memory_equal(last, logits, sizeof last);
    bo_ids_free(&ids);
    bo_sampler_destroy(sampler);
    bo_session_destroy(direct);
    bo_session_destroy(other);
}

static void test_loop(void **unused)
{
    static const char *const kinds[] = {"softmax", "rfa-gate", "favor"};
    (void)unused;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        fixture f;
        open_model(&f, kinds[k]);
        check_loop(&f, &(bo_sampler_desc){.temperature = 0.8, .seed = 3});
        check_loop(&f, &(bo_sampler_desc){.greedy = true, .repetition_penalty = 1.3});
        check_loop(&f, &(bo_sampler_desc){.top_k = 9, .top_p = 0.8, .seed = 1});
        close_model(&f);
    }
}

/* Two calls with one session write the same as one call. A session that left its last token continues with it. */
static void test_continues(void **unused)
{
    (void)unused;
    fixture f;
    open_model(&f, "rfa-gate");
    bo_generate_desc desc = {.prompt = prompt, .max_tokens = 20, .sampling = {.seed = 4}};
    const received whole = generate(&f, &desc);
    bo_session *session = open_session(&f, 0);
    desc.session = session;
    desc.max_tokens = 8;
    const received first = generate(&f, &desc);
    assert_int_equal(bo_session_tokens(session), strlen(prompt) + 8);
    desc.prompt = NULL;
    desc.leave_last = true;
    const received second = generate(&f, &desc);
    assert_int_equal(second.prompt_tokens, 0);
    assert_int_equal(bo_session_tokens(session), strlen(prompt) + 15);
    desc.ids = second.ids + 7;
    desc.id_count = 1;
    desc.max_tokens = 4;
    const received third = generate(&f, &desc);
    assert_memory_equal(whole.ids, first.ids, 8 * sizeof *whole.ids);
    assert_memory_equal(whole.ids + 8, second.ids, 8 * sizeof *whole.ids);
    assert_memory_equal(whole.ids + 16, third.ids, 4 * sizeof *whole.ids);
    bo_session_destroy(session);
    close_model(&f);
}

/* A sampler of the caller continues in its current state. */
static void test_sampler(void **unused)
{
    (void)unused;
    fixture f;
    bo_sampler *sampler;
    open_model(&f, "softmax");
    bo_generate_desc desc = {.prompt = prompt, .max_tokens = 10, .sampling = {.seed = 4}};
    const received direct = generate(&f, &desc);
    const bo_sampler_desc same = {.seed = 4, .drawn = strlen(prompt)};
    assert_ok(f.context, bo_sampler_create(f.context, &same, &sampler));
    desc.sampler = sampler;
    desc.sampling.seed = 5;
    const received fed = generate(&f, &desc);
    assert_memory_equal(direct.ids, fed.ids, 10 * sizeof *direct.ids);
    bo_sampler_destroy(sampler);
    close_model(&f);
}

/* ---- ends -------------------------------------------------------------------------------------------------------- */

static size_t place_of(const char *text, size_t length, const char *word, size_t bytes)
{
    for (size_t at = 0; at + bytes <= length; at++)
        if (memcmp(text + at, word, bytes) == 0) return at;
    return length;
}

/* Each byte is a token, so that a stop text of three bytes crosses two borders. Another stop text has the same start as
 * the text but does not occur, so its start is held back and then passed on. */
static void test_stops(void **unused)
{
    (void)unused;
    fixture f;
    size_t tried = 0;
    open_model(&f, "softmax");
    for (uint64_t seed = 0; seed < 20; seed++) {
        bo_generate_desc desc = {.prompt = prompt, .max_tokens = 30, .sampling = {.seed = seed}, .keep_bytes = true};
        const received all = generate(&f, &desc);
        assert_int_equal(all.bytes, 30);
        for (size_t i = 0; i < 30; i++) assert_int_equal((unsigned char)all.text[i], all.ids[i]);
        char stop[4] = {0}, other[4] = {0};
        memcpy(stop, all.text + 12, 3);
        memcpy(other, all.text + 5, 2);
        other[2] = (char)(all.text[7] == 'x' ? 'y' : 'x');
        if (memchr(all.text, 0, 30) || place_of(all.text, 30, other, 3) < 30) continue;
        const size_t at = place_of(all.text, 30, stop, 3);
        desc.stops = (const char *const[]){other, stop};
        desc.stop_count = 2;
        const received cut = generate(&f, &desc);
        assert_int_equal(cut.end, BO_GENERATE_STOP_TEXT);
        assert_int_equal(cut.count, at + 3);
        assert_int_equal(cut.bytes, at);
        assert_memory_equal(cut.text, all.text, at);
        tried++;
    }
    assert_true(tried > 5);
    close_model(&f);
}

/* Random bytes are seldom UTF-8: each piece is valid, and the texts are the whole text with U+FFFD for other bytes. */
static void test_utf8(void **unused)
{
    (void)unused;
    fixture f;
    open_model(&f, "softmax");
    size_t replaced = 0;
    for (uint64_t seed = 0; seed < 10; seed++) {
        bo_generate_desc desc = {.prompt = prompt, .max_tokens = 40, .sampling = {.seed = seed, .temperature = 2}};
        const received valid = generate(&f, &desc);
        desc.keep_bytes = true;
        const received raw = generate(&f, &desc);
        char expected[MAX_TEXT];
        size_t bytes = 0;
        for (size_t i = 0, size; i < raw.bytes; i += size ? size : 1) {
            size = bo_utf8_length(raw.text + i, raw.bytes - i);
            memcpy(expected + bytes, size ? raw.text + i : "\xef\xbf\xbd", size ? size : 3);
            bytes += size ? size : 3;
            replaced += !size;
        }
        assert_int_equal(bo_utf8_valid(valid.text, valid.bytes), valid.bytes);
        assert_int_equal(valid.bytes, bytes);
        assert_memory_equal(valid.text, expected, bytes);
    }
    assert_true(replaced > 20);
    close_model(&f);
}

static bool check_piece(void *user, const bo_token *token)
{
    (void)user;
    assert_int_equal(bo_utf8_valid(token->text, token->bytes), token->bytes);
    return true;
}

static void test_pieces(void **unused)
{
    (void)unused;
    fixture f;
    open_model(&f, "softmax");
    for (uint64_t seed = 0; seed < 20; seed++)
        assert_ok(f.context, bo_generate(f.context, f.model,
                                         &(bo_generate_desc){.prompt = prompt,
                                                             .max_tokens = 40,
                                                             .stops = (const char *const[]){"\xc3\xa9t\xc3\xa9"},
                                                             .stop_count = 1,
                                                             .sampling = {.seed = seed, .temperature = 3}},
                                         check_piece, NULL));
    close_model(&f);
}

static void test_end_tokens(void **unused)
{
    (void)unused;
    fixture f;
    open_model(&f, "softmax");
    bo_generate_desc desc = {.prompt = prompt, .max_tokens = 30, .sampling = {.seed = 2}, .keep_bytes = true};
    const received all = generate(&f, &desc);
    desc.ends = all.ids + 9;
    desc.end_count = 1;
    size_t at = 0;
    while (all.ids[at] != all.ids[9]) at++;
    const received ended = generate(&f, &desc);
    assert_int_equal(ended.end, BO_GENERATE_END_TOKEN);
    assert_int_equal(ended.count, at + 1); /* the end token has no text */
    assert_int_equal(ended.bytes, at);
    bo_session *session = open_session(&f, 0);
    desc.session = session;
    generate(&f, &desc);
    assert_int_equal(bo_session_tokens(session), strlen(prompt) + at);
    desc.session = NULL;
    desc.ignore_end = true;
    assert_int_equal(generate(&f, &desc).count, 30);
    bo_session_destroy(session);
    close_model(&f);
}

/* The text that was held back comes with the last call, and the session continues. */
static void test_cancel(void **unused)
{
    (void)unused;
    fixture f;
    open_model(&f, "rfa-gate");
    bo_session *session = open_session(&f, 0);
    bo_generate_desc desc = {.prompt = prompt, .max_tokens = 20, .sampling = {.seed = 4}, .keep_bytes = true};
    const received all = generate(&f, &desc);
    received r = {.cancel_at = 5};
    char stop[8] = {0};
    memcpy(stop, all.text + 3, 2); /* its start is held back when the text is canceled */
    strcat(stop, "zzz");
    desc.session = session;
    desc.stops = (const char *const[]){stop};
    desc.stop_count = 1;
    assert_fails(f.context, BO_CANCELED, "canceled", bo_generate(f.context, f.model, &desc, receive, &r));
    assert_int_equal(r.end, BO_GENERATE_CANCELED);
    assert_int_equal(r.calls, 6);
    assert_int_equal(r.count, 5);
    assert_int_equal(r.bytes, 5);
    assert_memory_equal(r.text, all.text, 5);
    assert_int_equal(bo_session_tokens(session), strlen(prompt) + 5);
    desc = (bo_generate_desc){.session = session, .max_tokens = 15, .sampling = {.seed = 4}};
    const received rest = generate(&f, &desc);
    assert_memory_equal(rest.ids, all.ids + 5, 15 * sizeof *rest.ids);
    bo_session_destroy(session);
    close_model(&f);
}

static bool refuse(void *user, const char *what, double done, double total)
{
    (void)user, (void)done, (void)total;
    return strcmp(what, "reading") != 0;
}

/* The progress callback cancels while the prompt is read. */
static void test_cancel_reading(void **unused)
{
    (void)unused;
    fixture f;
    open_model(&f, "rfa-gate");
    bo_context *other;
    received r = {0};
    assert_int_equal(bo_context_create(&(bo_context_desc){.threads = 1, .progress = refuse}, &other), BO_OK);
    assert_int_equal(bo_generate(other, f.model, &(bo_generate_desc){.prompt = prompt}, receive, &r), BO_CANCELED);
    assert_int_equal(r.end, BO_GENERATE_CANCELED);
    assert_int_equal(r.calls, 1);
    assert_int_equal(r.count, 0);
    bo_context_destroy(other);
    close_model(&f);
}

static void test_capacity(void **unused)
{
    (void)unused;
    fixture f;
    open_model(&f, "softmax");
    const size_t length = strlen(prompt), more = 6;
    bo_session *session = open_session(&f, length + more);
    bo_generate_desc desc = {.prompt = prompt, .max_tokens = 20, .session = session};
    const received full = generate(&f, &desc);
    assert_int_equal(full.end, BO_GENERATE_CAPACITY);
    assert_int_equal(full.count, more + 1); /* the last one is not read */
    assert_int_equal(bo_session_tokens(session), length + more);
    assert_fails(f.context, BO_INVALID, "its capacity is 22 tokens",
                 bo_generate(f.context, f.model, &desc, receive, NULL));
    bo_session_destroy(session);
    desc.session = NULL;
    desc.context = length + 3;
    assert_int_equal(generate(&f, &desc).count, 4);
    desc.context = length - 1;
    assert_fails(f.context, BO_INVALID, "its capacity is 15 tokens",
                 bo_generate(f.context, f.model, &desc, receive, NULL));
    desc.context = 0;
    desc.max_tokens = 0; /* 256 by default, more than the context of the model */
    desc.sampling.greedy = true;
    assert_int_equal(bo_generate(f.context, f.model, &desc, check_piece, NULL), BO_OK);
    close_model(&f);
}

/* ---- conversations ----------------------------------------------------------------------------------------------- */

static const char jinja[] = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
                            "{% if add_generation_prompt %}{{ mark }}assistant: {% endif %}";

static void test_chat(void **state)
{
    test_directory *directory = *state;
    fixture f;
    bo_model *loaded;
    bo_chat_template *chat;
    bo_ids ids = {0};
    const bo_chat_message messages[] = {{.role = "system", .content = "Be brief."}, {.role = "user", .content = "Hi"}};
    open_model(&f, "favor");
    bo_generate_desc desc = {.messages = messages, .message_count = 2, .max_tokens = 12, .sampling = {.seed = 8}};
    assert_fails(f.context, BO_INVALID, "no chat template", bo_generate(f.context, f.model, &desc, receive, NULL));
    assert_ok(f.context, bo_model_save(f.context, f.model, &(bo_sink){.path = directory->path}));
    test_write(directory, "chat_template.jinja", jinja, sizeof jinja - 1);
    assert_ok(f.context, bo_model_load(f.context, &(bo_source){.path = directory->path}, NULL, &loaded));
    assert_ok(f.context, bo_chat_template_create(f.context, &(bo_chat_template_desc){.text = jinja}, &chat));
    const bo_chat_options options = {.add_generation_prompt = true, .variables = "{\"mark\": \"> \"}"};
    assert_ok(f.context, bo_chat_encode(f.context, chat, f.tokenizer, messages, 2, &options, &ids));
    bo_generate_desc plain = {.ids = ids.items, .id_count = ids.count, .max_tokens = 12, .sampling = {.seed = 8}};
    const received expected = generate(&f, &plain);
    desc.chat_variables = options.variables;
    received direct = {0};
    assert_ok(f.context, bo_generate(f.context, loaded, &desc, receive, &direct));
    desc.chat_template = chat;
    const received fed = generate(&f, &desc);
    assert_int_equal(direct.prompt_tokens, ids.count);
    assert_memory_equal(direct.ids, expected.ids, sizeof direct.ids);
    assert_memory_equal(fed.ids, expected.ids, sizeof direct.ids);
    desc.chat_variables = "[";
    assert_fails(f.context, BO_FORMAT, "", bo_generate(f.context, f.model, &desc, receive, NULL));
    bo_chat_template_destroy(chat);
    bo_ids_free(&ids);
    bo_model_destroy(loaded);
    close_model(&f);
}

/* ---- refused arguments ------------------------------------------------------------------------------------------- */

static void test_refused(void **unused)
{
    (void)unused;
    fixture f, g;
    open_model(&f, "softmax");
    open_model(&g, "softmax");
    bo_session *foreign = open_session(&g, 0), *empty = open_session(&f, 0);
    const int32_t huge[] = {1, INT32_MAX}, negative[] = {-1};
    const bo_chat_message none = {0};
    received r = {0};
#define REFUSES(message, ...)                                                                                          \
    assert_fails(f.context, BO_INVALID, message,                                                                       \
                 bo_generate(f.context, f.model, &(bo_generate_desc){__VA_ARGS__}, receive, &r))
    REFUSES("found several", .prompt = "a", .ids = huge);
    REFUSES("prompt_bytes", .prompt_bytes = 3);
    REFUSES("ids is NULL", .id_count = 3);
    REFUSES("ends is NULL", .end_count = 3);
    REFUSES("messages is NULL", .message_count = 3);
    REFUSES("no messages", .messages = &none);
    REFUSES("stop text 0", .stop_count = 1);
    REFUSES("stop text 1", .stops = (const char *const[]){"a", ""}, .stop_count = 2);
    REFUSES("another model", .session = foreign);
    REFUSES("below 256", .ids = huge, .id_count = 2);
    REFUSES("below 256", .ids = negative, .id_count = 1);
    REFUSES("no tokens", .ids = huge, .id_count = 0);
    REFUSES("temperature", .prompt = "a", .sampling = {.temperature = -1});
    REFUSES("reserved", .prompt = "a", .reserved = {1});
#undef REFUSES
    assert_fails(f.context, BO_INVALID, "callback",
                 bo_generate(f.context, f.model, &(bo_generate_desc){.prompt = "a"}, NULL, NULL));
    assert_int_equal(r.calls, 0);
    /* an empty text starts with a newline, and a session needs no callback */
    bo_generate_desc desc = {.prompt = "", .max_tokens = 3, .session = empty};
    assert_ok(f.context, bo_generate(f.context, f.model, &desc, NULL, NULL));
    assert_int_equal(bo_session_tokens(empty), 4);
    bo_session_destroy(foreign);
    bo_session_destroy(empty);
    close_model(&f);
    close_model(&g);
}

static void test_without_tokenizer(void **unused)
{
    (void)unused;
    bo_context *context = test_context(1);
    bo_model_desc desc = test_desc("softmax");
    bo_model *model = test_model(context, &desc, NULL);
    received r = {0};
    const int32_t ids[] = {5, 6};
    assert_fails(context, BO_INVALID, "no tokenizer",
                 bo_generate(context, model, &(bo_generate_desc){.prompt = "a"}, receive, &r));
    assert_fails(context, BO_INVALID, "no tokens", bo_generate(context, model, &(bo_generate_desc){0}, receive, &r));
    assert_ok(context, bo_generate(context, model, &(bo_generate_desc){.ids = ids, .id_count = 2, .max_tokens = 5},
                                   receive, &r));
    assert_int_equal(r.count, 5);
    assert_int_equal(r.bytes, 0);
    bo_model_destroy(model);
    bo_context_destroy(context);
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

typedef struct exhausted {
    counting counted;
    bo_context *context;
    bo_model *model;
} exhausted;

static bo_status work(void *what)
{
    const exhausted *e = what;
    received r = {0};
    const bo_generate_desc desc = {.prompt = "ab",
                                   .max_tokens = 6,
                                   .stops = (const char *const[]){"abcdef"},
                                   .stop_count = 1,
                                   .log_probabilities = true,
                                   .sampling = {.temperature = 3}};
    return bo_generate(e->context, e->model, &desc, receive, &r);
}

static void test_exhaustion(void **unused)
{
    (void)unused;
    exhausted e = {0};
    bo_tokenizer *tokenizer;
    bo_model_desc desc = test_desc("favor");
    e.context = counting_context(&e.counted, 1);
    assert_ok(e.context, bo_tokenizer_create(e.context, &tokenizer));
    e.model = test_model(e.context, &desc, tokenizer);
    counting_inject(&(injection){.counted = &e.counted,
                                 .context = e.context,
                                 .work = work,
                                 .what = &e,
                                 .all = 1000,
                                 .stride = 7,
                                 .spared = "the sequences of a call"});
    bo_model_destroy(e.model);
    bo_tokenizer_destroy(tokenizer);
    bo_context_destroy(e.context);
    assert_int_equal(e.counted.live, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loop),
        cmocka_unit_test(test_continues),
        cmocka_unit_test(test_sampler),
        cmocka_unit_test(test_stops),
        cmocka_unit_test(test_utf8),
        cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_end_tokens),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_cancel_reading),
        cmocka_unit_test(test_capacity),
        cmocka_unit_test_setup_teardown(test_chat, test_setup, test_teardown),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_without_tokenizer),
        cmocka_unit_test(test_exhaustion),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
