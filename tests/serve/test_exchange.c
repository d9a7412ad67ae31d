/* Exchanges: a text is not lost if there is no memory for the messages of its state. */
#include "io/files.h"
#include "model/models.h"
#include "serve/exchange.h"

/* An allocator that refuses large blocks. */
enum { LARGE = 1 << 20 };

static void *allocate(void *user, size_t bytes)
{
    (void)user;
    return bytes > LARGE ? NULL : aligned_alloc(64, (bytes + 63) / 64 * 64);
}

static void release(void *user, void *block)
{
    (void)user;
    free(block);
}

/* The HTTP thread: it is suspended until there is something to read. The server stops after the end of the response. */
static void suspend(void *user)
{
    (void)user;
}

static void resume(void *user)
{
    atomic_store((atomic_bool *)user, true);
}

static bool stops(void *user)
{
    return atomic_load((atomic_bool *)user);
}

/* The response to a conversation with a long message that the template does not use. */
static void get_response(test_directory *f, bool streams, char *out, size_t size)
{
    enum { NOTE = 2 * LARGE };
    static char body[NOTE + 256];
    const bo_allocator allocator = {allocate, release, NULL};
    const bo_context_desc with = {.threads = 1, .allocator = allocator};
    const bo_model_desc shape = test_desc("favor");
    bo_tokenizer *tokenizer;
    bo_context *context;
    bo_service service;
    bo_request request;
    bo_refusal refusal = {0};
    bo_exchange *exchange;
    atomic_bool ended = false;
    assert_int_equal(bo_context_create(&with, &context), BO_OK);
    assert_ok(f->context, bo_tokenizer_create(f->context, &tokenizer));
    bo_model *model = test_model(f->context, &shape, tokenizer);
    const bo_server_desc desc = {.model = model,
                                 .directory = f->path,
                                 .slots = 1,
                                 .capacity = 100,
                                 .queue = 2,
                                 .max_body = sizeof body,
                                 .max_prompt = 100,
                                 .timeout = 60,
                                 .grace = 60,
                                 .cache_bytes = 16 * LARGE,
                                 .stop = stops,
                                 .user = &ended};
    assert_ok(f->context, bo_service_create(f->context, &desc, &service));
    int used =
        sprintf(body,
                "{\"max_tokens\": 3, \"return_state\": true, \"stream\": %s, \"messages\": [{\"role\": \"user\", "
                "\"content\": \"a\", \"note\": \"",
                streams ? "true" : "false");
    memset(body + used, 'x', NOTE);
    used += NOTE;
    used += sprintf(body + used, "\"}]}");
    assert_true(bo_request_parse(f->context, BO_REQUEST_CHAT, body, (size_t)used, VOCAB, &request, &refusal));
    const bo_suspension sleeper = {suspend, resume, &ended};
    const bool started =
        bo_exchange_start(f->context, &service, &request, (bo_client){.id = 1}, sleeper, &exchange, &refusal);
    if (!started) fail_msg("%s", refusal.message);
    assert_false(bo_exchange_wait(exchange));
    assert_ok(context, bo_scheduler_run(context, service.scheduler));
    size_t count = 0;
    if (streams) {
        bo_stream_end end;
        do {
            count += bo_exchange_read(exchange, out + count, size - 1 - count, &end);
        } while (end == BO_STREAM_OPEN);
        assert_int_equal(end, BO_STREAM_COMPLETE);
    } else {
        const char *text;
        assert_int_equal(bo_exchange_finish(f->context, exchange, &text, &count), 200);
        assert_true(count < size);
        memcpy(out, text, count);
    }
    out[count] = 0;
    bo_exchange_release(exchange);
    bo_service_destroy(&service);
    bo_model_destroy(model);
    bo_tokenizer_destroy(tokenizer);
    bo_context_destroy(context);
}

static void test_lost_state(void **state)
{
    test_directory *f = *state;
    test_text(f, "tokenizer_config.json", "{\"chat_template\": \"{{ messages[0].content }}\"}");
    for (int streams = 0; streams < 2; streams++) {
        static char text[1 << 16];
        get_response(f, streams, text, sizeof text);
        const char *found = strstr(text, "\"state\": {\"error\"");
        if (!found) fail_msg("expected an error of the state, found %s", text);
        assert_non_null(strstr(found, "memory"));
        assert_non_null(strstr(text, "\"finish_reason\": \"length\""));
        assert_null(strstr(text, "\"data\""));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_lost_state)};
    return cmocka_run_group_tests(tests, test_setup, test_teardown);
}
