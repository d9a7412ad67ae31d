/* The cost of decoding after a long context: states that were not read decode like those that were, sizes equal those
 * of sessions, and unavailable lengths are reported. */
#include <bochner/model.h>
#include "base/counting.h"
#include "model/session.h"
#include "models.h"

enum { READ = 20 };

static bo_session *session_of(bo_context *context, const bo_model *model, size_t capacity)
{
    bo_session *session;
    assert_ok(context, bo_session_create(context, model, &(bo_session_desc){.capacity = capacity}, &session));
    return session;
}

/* Both sessions read the same tokens and return the same bits. */
static void check_same(bo_context *context, const char *kind, bo_session *a, bo_session *b)
{
    float x[VOCAB], y[VOCAB];
    for (int32_t id = 5; id < 9; id++) {
        assert_int_equal(bo_session_tokens(a), bo_session_tokens(b));
        assert_ok(context, bo_session_feed(context, a, &id, 1, x));
        assert_ok(context, bo_session_feed(context, b, &id, 1, y));
        if (memcmp(x, y, sizeof x) != 0) fail_msg("%s: the logits after token %d differ", kind, (int)id);
    }
}

/* The states of all layers are valid and have read this number of tokens. */
static void check_count(bo_context *context, const bo_session *session, uint64_t tokens)
{
    assert_int_equal(bo_session_tokens(session), tokens);
    for (size_t i = 0; i < session->lanes->model->desc.layers; i++) {
        const bo_attention *attention = session->lanes->attentions.all[i];
        if (!attention) continue;
        const void *state = session->lanes->all[0].block + session->lanes->lane.offsets[i];
        assert_ok(context, bo_attention_state_check(context, attention, state));
        assert_int_equal(bo_attention_state_tokens(state), tokens);
    }
}

/* ---- states ------------------------------------------------------------------------------------------------------ */

/* A state that is set to the tokens that it has read is unchanged; one that kept all keys can be set back. */
static void check_kind(bo_context *context, const char *kind)
{
    bo_model_desc desc = test_desc(kind);
    bo_model *model = test_model(context, &desc, NULL);
    bo_session *real = session_of(context, model, 60), *set = session_of(context, model, 60);
    int32_t ids[CONTEXT];
    float logits[VOCAB];
    test_tokens(CONTEXT, ids);
    assert_ok(context, bo_session_feed(context, real, ids, READ, NULL));
    assert_ok(context, bo_session_feed(context, set, ids, READ, NULL));
    assert_ok(context, bo_session_repeat(context, set, READ));
    assert_fails(context, BO_INVALID, "no logits", bo_session_feed(context, set, NULL, 0, logits));
    check_same(context, kind, real, set);
    if (bo_model_cached_attention(model)) {
        assert_ok(context, bo_session_reset(context, real));
        assert_ok(context, bo_session_feed(context, real, ids, READ, NULL));
        assert_ok(context, bo_session_repeat(context, set, READ));
        check_same(context, kind, real, set);
    }
    /* longer: the logits are finite, and the session continues */
    const size_t max_tokens = bo_model_attention(model, 0) ? 59 : 47;
    assert_ok(context, bo_session_repeat(context, set, max_tokens));
    check_count(context, set, max_tokens);
    assert_ok(context, bo_session_feed(context, set, ids, 1, logits));
    check_count(context, set, max_tokens + 1);
    for (size_t i = 0; i < VOCAB; i++) assert_true(isfinite(logits[i]));
    bo_session_destroy(real);
    bo_session_destroy(set);
    bo_model_destroy(model);
}

static void test_kinds(void **unused)
{
    (void)unused;
    bo_context *context = test_context(2);
    for (size_t i = 0; test_kind(i); i++) check_kind(context, test_kind(i));
    bo_context_destroy(context);
}

/* In one layer without positions, keys depend on their token only. A repeated state then equals the state after reading
 * the tokens again: also in a window, before and after it is full. */
static void check_repeated(bo_context *context, size_t window, size_t read, size_t tokens)
{
    bo_model_desc desc = test_desc("softmax");
    desc.layers = 1, desc.block.positions = BO_POSITIONS_NONE, desc.block.attention.window = window;
    bo_model *model;
    assert_ok(context, bo_model_create(context, &desc, NULL, &model));
    shake(context, model);
    bo_session *real = session_of(context, model, 200), *set = session_of(context, model, 200);
    int32_t ids[CONTEXT];
    char name[64];
    test_tokens(CONTEXT, ids);
    const size_t again = window && window < read ? read - window : 0; /* the first token that is repeated */
    for (size_t i = 0; i < tokens; i++) {
        const size_t at = i < read ? i : again + (i - read) % (read - again);
        assert_ok(context, bo_session_feed(context, real, ids + at, 1, NULL));
        if (i < read) assert_ok(context, bo_session_feed(context, set, ids + at, 1, NULL));
    }
    assert_ok(context, bo_session_repeat(context, set, tokens));
    check_count(context, set, tokens);
    snprintf(name, sizeof name, "window %zu, %zu of %zu tokens", window, read, tokens);
    check_same(context, name, real, set);
    bo_session_destroy(real);
    bo_session_destroy(set);
    bo_model_destroy(model);
}

static void test_repeated(void **unused)
{
    (void)unused;
    static const size_t cases[][3] = {{0, 1, 100}, {0, 7, 150},  {0, 40, 196}, {16, 5, 14},
                                      {16, 5, 40}, {16, 20, 21}, {16, 20, 99}, {70, 5, 100}};
    bo_context *context = test_context(1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_repeated(context, cases[i][0], cases[i][1], cases[i][2]);
    bo_context_destroy(context);
}

static void test_refused_states(void **unused)
{
    (void)unused;
    bo_context *context = test_context(1);
    bo_model_desc desc = test_desc("softmax");
    bo_model *model = test_model(context, &desc, NULL);
    bo_session *session = session_of(context, model, 30);
    const int32_t id = 1;
    assert_ok(context, bo_session_repeat(context, session, 0));
    assert_fails(context, BO_INVALID, "capacity is below 31 tokens", bo_session_repeat(context, session, 31));
    assert_fails(context, BO_INVALID, "has no tokens", bo_session_repeat(context, session, 3));
    assert_fails(context, BO_INVALID, "earlier call failed", bo_session_feed(context, session, &id, 1, NULL));
    assert_ok(context, bo_session_reset(context, session));
    assert_ok(context, bo_session_feed(context, session, &id, 1, NULL));
    assert_ok(context, bo_session_repeat(context, session, 30));
    assert_fails(context, BO_INVALID, "capacity is 30", bo_session_feed(context, session, &id, 1, NULL));
    bo_session_destroy(session);
    bo_model_destroy(model);
    bo_context_destroy(context);
}

/* ---- layers of two kinds ----------------------------------------------------------------------------------------- */

/* A model whose first layer has features and whose second one keeps all keys has a capacity, and only the state of the
 * second layer grows with it. */
static void test_two_kinds(void **unused)
{
    (void)unused;
    bo_context *context = test_context(2);
    bo_model_desc desc = test_desc("softmax");
    desc.block.query_norm = desc.block.output_norm = BO_CHOICE_NO;
    bo_model *softmax = test_model(context, &desc, NULL);
    desc.block.attention = (bo_attention_desc){.kind = BO_ATTENTION_FAVOR, .features = {.features = 32}};
    bo_model *favor = test_model(context, &desc, NULL);
    size_t grown[2], features[2], bytes[2], lengths[] = {10, 90};
    bo_session_cost costs[2];
    for (size_t i = 0; i < 2; i++) {
        const bo_session_desc size = {.capacity = lengths[i]};
        assert_ok(context, bo_session_estimate(context, softmax, &size, &grown[i], NULL));
        assert_ok(context, bo_session_estimate(context, favor, &size, &features[i], NULL));
    }
    bo_attention *first = softmax->attentions[0];
    softmax->attentions[0] = favor->attentions[0];
    for (size_t i = 0; i < 2; i++)
        assert_ok(context,
                  bo_session_estimate(context, softmax, &(bo_session_desc){.capacity = lengths[i]}, &bytes[i], NULL));
    assert_int_equal(features[0], features[1]);
    for (size_t i = 0; i < 2; i++) assert_int_equal(2 * bytes[i], grown[i] + features[i]);
    bo_session *session = session_of(context, softmax, 30);
    int32_t ids[CONTEXT];
    float logits[VOCAB];
    test_tokens(CONTEXT, ids);
    assert_ok(context, bo_session_feed(context, session, ids, READ, logits));
    check_count(context, session, READ);
    assert_int_equal(bo_session_remaining(session), 30 - READ);
    assert_ptr_equal(session->lanes->attentions.all[0], favor->attentions[0]);
    assert_fails(context, BO_INVALID, "attention softmax keeps all keys, and its capacity is 30",
                 bo_session_feed(context, session, ids, 11, NULL));
    assert_ok(context, bo_session_measure(context, softmax, lengths, 2, costs));
    for (size_t i = 0; i < 2; i++) assert_int_equal(costs[i].state_bytes, bytes[i]);
    bo_session_destroy(session);
    softmax->attentions[0] = first;
    bo_model_destroy(softmax);
    bo_model_destroy(favor);
    bo_context_destroy(context);
}

/* ---- costs ------------------------------------------------------------------------------------------------------- */

static void test_costs(void **unused)
{
    (void)unused;
    static const char *const kinds[] = {"softmax", "rfa-gate", "hybrid", "gla", "ssm"};
    static const size_t lengths[] = {1, 2, 48, 1000};
    enum { LENGTHS = sizeof lengths / sizeof *lengths };
    bo_context *context = test_context(2);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        bo_model_desc desc = test_desc(kinds[k]);
        bo_model *model = test_model(context, &desc, NULL);
        bo_session_cost costs[LENGTHS];
        assert_ok(context, bo_session_measure(context, model, lengths, LENGTHS, costs));
        for (size_t i = 0; i < LENGTHS; i++) {
            size_t bytes;
            const bo_session_desc size = {.capacity = lengths[i]};
            assert_ok(context, bo_session_estimate(context, model, &size, &bytes, NULL));
            assert_int_equal(costs[i].tokens, lengths[i]);
            assert_int_equal(costs[i].state_bytes, bytes);
            assert_true(costs[i].seconds > 0 && costs[i].seconds < 10);
            assert_int_equal(bytes > costs[0].state_bytes,
                             k == 0 && i > 1); /* two tokens fit into the same cache lines */
        }
        bo_model_destroy(model);
    }
    bo_context_destroy(context);
}

/* Lengths beyond the positions or the memory have no time. Nothing is allocated for them. */
static void test_unavailable(void **unused)
{
    (void)unused;
    const size_t lengths[] = {CONTEXT, CONTEXT + 1, (size_t)1 << 38, 3};
    bo_session_cost costs[4];
    counting memory = {0};
    bo_context *context = counting_context(&memory, 1);
    bo_model_desc desc = test_desc("softmax");
    desc.block.positions = BO_POSITIONS_LEARNED;
    bo_model *model = test_model(context, &desc, NULL);
    assert_ok(context, bo_session_measure(context, model, lengths, 4, costs));
    for (size_t i = 0; i < 4; i++) {
        const bool available = lengths[i] <= CONTEXT;
        assert_int_equal(costs[i].tokens, lengths[i]);
        assert_int_equal(!isnan(costs[i].seconds), available);
        assert_int_equal(costs[i].state_bytes > 0, available);
    }
    bo_model_destroy(model);
    desc.block.positions = BO_POSITIONS_NONE;
    model = test_model(context, &desc, NULL);
    assert_ok(context, bo_session_measure(context, model, lengths + 2, 1, costs));
    assert_true(isnan(costs[0].seconds));
    /* 2 layers, 16 numbers of a key and of a value each */
    assert_in_range(costs[0].state_bytes, lengths[2] * 2 * 2 * 16 * sizeof(float),
                    lengths[2] * 2 * 2 * 16 * sizeof(float) + 4096);
    assert_true(atomic_load(&memory.peak) < 64 << 20);
    bo_model_destroy(model);
    bo_context_destroy(context);
}

static bool stop(void *user, const char *what, double done, double total)
{
    (void)what, (void)done, (void)total;
    return ++*(int *)user < 3;
}

static void test_refused(void **unused)
{
    (void)unused;
    const size_t lengths[] = {5, 0};
    int calls = 0;
    bo_session_cost costs[2];
    bo_context *context;
    assert_int_equal(bo_context_create(&(bo_context_desc){.threads = 1, .progress = stop, .user = &calls}, &context),
                     BO_OK);
    bo_model_desc desc = test_desc("softmax");
    bo_model *model;
    assert_ok(context, bo_model_create(context, &desc, NULL, &model));
    assert_fails(context, BO_INVALID, "length 1 must be at least 1",
                 bo_session_measure(context, model, lengths, 2, costs));
    assert_int_equal(bo_session_measure(context, model, lengths, 1, costs), BO_CANCELED);
    assert_ok(context, bo_session_measure(context, model, NULL, 0, NULL));
    bo_model_destroy(model);
    desc.task = BO_MODEL_TASK_TRANSLATE;
    assert_ok(context, bo_model_create(context, &desc, NULL, &model));
    assert_fails(context, BO_INVALID, "translate", bo_session_measure(context, model, lengths, 1, costs));
    bo_model_destroy(model);
    bo_context_destroy(context);
}

typedef struct work {
    bo_context *context;
    const bo_model *model;
} work;

static bo_status measure_some(void *what)
{
    const work *w = what;
    bo_session_cost costs[2];
    return bo_session_measure(w->context, w->model, (const size_t[]){300, 4}, 2, costs);
}

static void test_memory(void **unused)
{
    (void)unused;
    counting memory = {0};
    bo_context *context = counting_context(&memory, 1);
    bo_model_desc desc = test_desc("softmax");
    desc.layers = 1;
    bo_model *model = test_model(context, &desc, NULL);
    work w = {context, model};
    counting_inject(&(injection){.counted = &memory,
                                 .context = context,
                                 .work = measure_some,
                                 .what = &w,
                                 .all = 40,
                                 .stride = 5,
                                 .spared = "the sequences of a call"});
    bo_model_destroy(model);
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kinds),     cmocka_unit_test(test_repeated), cmocka_unit_test(test_refused_states),
        cmocka_unit_test(test_two_kinds), cmocka_unit_test(test_costs),    cmocka_unit_test(test_unavailable),
        cmocka_unit_test(test_refused),   cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
