/* bo_sessions_feed: several sessions read together are as sessions that read alone. */
#include <bochner/generate.h>
#include "base/counting.h"
#include "models.h"

enum { SESSIONS = 5, STEPS = 6 };

static bo_session *open_session(bo_context *context, const bo_model *model, size_t capacity)
{
    bo_session *session;
    assert_ok(context, bo_session_create(context, model, &(bo_session_desc){.capacity = capacity}, &session));
    return session;
}

/* Logits are sums of dozens of terms in float32, grouped differently: errors of a few 1e-6; ridge attention also solves
 * linear systems. */
static void check_close(const char *kind, const float *a, const float *b)
{
    for (size_t v = 0; v < VOCAB; v++)
        if (!(fabsf(a[v] - b[v]) <= 2e-4f))
            fail_msg("%s, id %zu: %g, expected %g", kind, v, (double)a[v], (double)b[v]);
}

/* Prompts of different lengths in one call, then steps of one token each. Sessions 3 and 4 have another capacity. */
static void check_kind(bo_context *context, const char *kind)
{
    static const size_t lengths[SESSIONS] = {7, 1, 13, 5, 2};
    bo_model_desc desc = test_desc(kind);
    bo_model *model = test_model(context, &desc, NULL);
    bo_session *together[SESSIONS], *alone[SESSIONS];
    int32_t ids[CONTEXT];
    static float logits[SESSIONS * VOCAB], one[VOCAB];
    test_tokens(CONTEXT, ids);
    for (size_t i = 0; i < SESSIONS; i++) {
        together[i] = open_session(context, model, i < 3 ? 0 : 30);
        alone[i] = open_session(context, model, 0);
    }
    assert_ok(context, bo_sessions_feed(context, together, SESSIONS, ids, lengths, logits));
    for (size_t i = 0, at = 0; i < SESSIONS; at += lengths[i++]) {
        assert_ok(context, bo_session_feed(context, alone[i], ids + at, lengths[i], one));
        check_close(kind, logits + i * VOCAB, one);
        assert_int_equal(bo_session_tokens(together[i]), lengths[i]);
    }
    for (size_t step = 0; step < STEPS; step++) {
        assert_ok(context, bo_sessions_feed(context, together, SESSIONS, ids + step, NULL, logits));
        for (size_t i = 0; i < SESSIONS; i++) {
            assert_ok(context, bo_session_feed(context, alone[i], ids + step + i, 1, one));
            check_close(kind, logits + i * VOCAB, one);
            assert_ok(context, bo_session_feed(context, together[i], NULL, 0, one));
            assert_memory_equal(one, logits + i * VOCAB, sizeof one);
        }
    }
    for (size_t i = 0; i < SESSIONS; i++) { /* sessions continue separately */
        float other[VOCAB];
        assert_ok(context, bo_session_feed(context, together[i], ids, 3, one));
        assert_ok(context, bo_session_feed(context, alone[i], ids, 3, other));
        check_close(kind, one, other);
        bo_session_destroy(together[i]);
        bo_session_destroy(alone[i]);
    }
    bo_model_destroy(model);
}

static void test_kinds(void **unused)
{
    (void)unused;
    bo_context *context = test_context(2);
    for (size_t i = 0; test_kind(i); i++) check_kind(context, test_kind(i));
    bo_context_destroy(context);
}

/* The bits of a session depend neither on the tokens of other sessions nor on the number of threads. */
static void test_bits(void **unused)
{
    (void)unused;
    static float first[3 * VOCAB], second[3 * VOCAB];
    bo_context *contexts[2] = {test_context(1), test_context(2)};
    bo_model_desc desc = test_desc("rfa-gate");
    bo_model *model = test_model(contexts[0], &desc, NULL);
    int32_t ids[CONTEXT];
    test_tokens(CONTEXT, ids);
    for (size_t run = 0; run < 2; run++) {
        bo_session *sessions[3];
        bo_context *context = contexts[run];
        for (size_t i = 0; i < 3; i++) sessions[i] = open_session(context, model, 0);
        if (run) /* what sessions 0 and 2 read differs between the runs */
            for (size_t i = 0; i < 9; i++) ids[i] = i % 9 < 3 || i >= 6 ? (ids[i] + 17) % VOCAB : ids[i];
        assert_ok(context,
                  bo_sessions_feed(context, sessions, 3, ids, (const size_t[]){3, 3, 3}, run ? second : first));
        for (size_t i = 0; i < 3; i++) bo_session_destroy(sessions[i]);
    }
    assert_memory_equal(first + VOCAB, second + VOCAB, VOCAB * sizeof *first);
    assert_memory_not_equal(first, second, VOCAB * sizeof *first);
    bo_model_destroy(model);
    for (size_t i = 0; i < 2; i++) bo_context_destroy(contexts[i]);
}

static void test_refused(void **unused)
{
    (void)unused;
    bo_context *context = test_context(1);
    bo_model_desc desc = test_desc("softmax");
    bo_model *model = test_model(context, &desc, NULL), *other = test_model(context, &desc, NULL);
    bo_session *a = open_session(context, model, 4), *b = open_session(context, model, 4),
               *foreign = open_session(context, other, 4);
    const int32_t ids[] = {1, 2, 3, 4, 5, 6, 7, 8}, bad[] = {1, VOCAB};
    float logits[2 * VOCAB];
    assert_ok(context, bo_sessions_feed(context, NULL, 0, NULL, NULL, NULL));
    assert_fails(context, BO_INVALID, "0 and 1 are the same session",
                 bo_sessions_feed(context, (bo_session *const[]){a, a}, 2, ids, NULL, logits));
    assert_fails(context, BO_INVALID, "another model",
                 bo_sessions_feed(context, (bo_session *const[]){a, foreign}, 2, ids, NULL, logits));
    assert_fails(context, BO_INVALID, "session 1 is NULL",
                 bo_sessions_feed(context, (bo_session *const[]){a, NULL}, 2, ids, NULL, logits));
    assert_fails(context, BO_INVALID, "no tokens",
                 bo_sessions_feed(context, (bo_session *const[]){a, b}, 2, ids, (const size_t[]){1, 0}, logits));
    assert_fails(context, BO_INVALID, "capacity is 4",
                 bo_sessions_feed(context, (bo_session *const[]){a, b}, 2, ids, (const size_t[]){3, 5}, logits));
    assert_fails(context, BO_INVALID, "below 256",
                 bo_sessions_feed(context, (bo_session *const[]){a, b}, 2, bad, NULL, logits));
    assert_int_equal(bo_session_tokens(a) + bo_session_tokens(b), 0); /* no tokens were read */
    assert_ok(context, bo_sessions_feed(context, (bo_session *const[]){b, a}, 2, ids, NULL, NULL));
    assert_int_equal(bo_session_tokens(a) + bo_session_tokens(b), 2);
    bo_session_destroy(a); /* the graphs of a batch belong to one of its sessions */
    assert_ok(context, bo_session_feed(context, b, ids, 2, logits));
    bo_session_destroy(b);
    bo_session_destroy(foreign);
    bo_model_destroy(model);
    bo_model_destroy(other);
    bo_context_destroy(context);
}

typedef struct exhausted {
    counting counted;
    bo_context *context;
    bo_model *model;
} exhausted;

/* A call that runs out of memory reads no tokens. */
static bo_status work(void *what)
{
    const exhausted *e = what;
    bo_session *sessions[2] = {0};
    const int32_t ids[] = {1, 2, 3, 4};
    bo_status status = bo_session_create(e->context, e->model, NULL, &sessions[0]);
    if (status == BO_OK) status = bo_session_create(e->context, e->model, NULL, &sessions[1]);
    if (status == BO_OK) {
        status = bo_sessions_feed(e->context, sessions, 2, ids, (const size_t[]){3, 1}, NULL);
        assert_int_equal(bo_session_tokens(sessions[0]), status == BO_OK ? 3 : 0);
    }
    for (size_t i = 0; i < 2; i++) bo_session_destroy(sessions[i]);
    return status;
}

static void test_exhaustion(void **unused)
{
    (void)unused;
    exhausted e = {0};
    bo_model_desc desc = test_desc("favor");
    e.context = counting_context(&e.counted, 1);
    e.model = test_model(e.context, &desc, NULL);
    counting_inject(&(injection){.counted = &e.counted,
                                 .context = e.context,
                                 .work = work,
                                 .what = &e,
                                 .all = 1000,
                                 .stride = 7,
                                 .spared = "the sequences of a call"});
    bo_model_destroy(e.model);
    bo_context_destroy(e.context);
    assert_int_equal(e.counted.live, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_bits),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_exhaustion),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
