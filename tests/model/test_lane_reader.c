/* Blocks of tokens and saved states of single lanes: the same as with a session, for every kind of attention and every
 * mixer; other lanes do not change; invalid calls. */
#include "model/lanes.h"
#include "base/counting.h"
#include "models.h"
#include <bochner/tasks.h>

enum { LANES = 3, FIRST = 9, SECOND = 7, STEPS = 5, ALL = FIRST + SECOND + STEPS };

static const int32_t starts[LANES] = {0, 5, 11}; /* lanes read different parts of the tokens */

/* Logits of a session after each of the last STEPS tokens, read one at a time. */
static void by_session(bo_context *context, const bo_model *model, const int32_t *ids, float (*logits)[VOCAB])
{
    bo_session *session;
    assert_ok(context, bo_session_create(context, model, NULL, &session));
    assert_ok(context, bo_session_feed(context, session, ids, FIRST, NULL));
    assert_ok(context, bo_session_feed(context, session, ids + FIRST, SECOND, NULL));
    for (size_t t = 0; t < STEPS; t++)
        assert_ok(context, bo_session_feed(context, session, ids + FIRST + SECOND + t, 1, logits[t]));
    bo_session_destroy(session);
}

static void compare(const char *name, size_t lane, size_t step, const float *found, const float *expected)
{
    for (size_t i = 0; i < VOCAB; i++)
        if (!(fabs((double)found[i] - (double)expected[i]) <= 2e-4))
            fail_msg("%s: lane %zu, step %zu, logit %zu: %g, expected %g", name, lane, step, i, (double)found[i],
                     (double)expected[i]);
}

/* Lanes read blocks in turn, then step together. Halfway, their states are saved to memory and loaded into other
 * lanes. */
static void check_kind(bo_context *context, const char *name, const bo_model *model, const int32_t *ids)
{
    static float expected[LANES][STEPS][VOCAB], logits[LANES * VOCAB];
    bo_lanes *lanes, *other_lanes;
    for (size_t l = 0; l < LANES; l++) by_session(context, model, ids + starts[l], expected[l]);
    assert_ok(context, bo_lanes_create(context, model, &(bo_lanes_desc){.count = LANES}, &lanes));
    assert_ok(context, bo_lanes_create(context, model, &(bo_lanes_desc){.count = LANES}, &other_lanes));
    for (size_t l = 0; l < LANES; l++)
        assert_ok(context, bo_lanes_feed(context, lanes, l, ids + starts[l], FIRST, NULL));
    for (size_t l = LANES; l-- > 0;)
        assert_ok(context, bo_lanes_feed(context, lanes, l, ids + starts[l] + FIRST, SECOND, NULL));
    for (size_t t = 0; t < STEPS; t++) {
        int32_t next[LANES];
        for (size_t l = 0; l < LANES; l++) next[l] = ids[starts[l] + FIRST + SECOND + (int32_t)t];
        assert_ok(context, bo_lanes_step(context, lanes, LANES, next, logits));
        for (size_t l = 0; l < LANES; l++) {
            compare(name, l, t, logits + l * VOCAB, expected[l][t]);
            assert_int_equal(bo_lanes_tokens(lanes, l), FIRST + SECOND + t + 1);
        }
        if (t != STEPS / 2) continue;
        for (size_t l = 0; l < LANES; l++) {
            void *bytes;
            size_t size;
            assert_ok(context, bo_lanes_save_memory(context, lanes, l, &bytes, &size));
            assert_ok(context, bo_lanes_load_memory(context, other_lanes, l, bytes, size));
            bo_free(bytes);
        }
        bo_lanes *swap = lanes;
        lanes = other_lanes;
        other_lanes = swap;
    }
    bo_lanes_destroy(lanes);
    bo_lanes_destroy(other_lanes);
}

static void of_every_mixer(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    int32_t ids[CONTEXT];
    test_tokens(CONTEXT, ids);
    for (size_t i = 0; test_kind(i); i++) {
        const bo_model_desc desc = test_desc(test_kind(i));
        bo_model *model = test_model(context, &desc, NULL);
        check_kind(context, test_kind(i), model, ids);
        bo_model_destroy(model);
    }
    bo_context_destroy(context);
}

/* A session's state is loaded into a lane, and a lane's state into a session. Logits are then equal bit for bit. */
static void states_of_sessions(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    int32_t ids[CONTEXT];
    test_tokens(CONTEXT, ids);
    const bo_model_desc desc = test_desc("favor");
    bo_model *model = test_model(context, &desc, NULL);
    bo_lanes *lanes;
    bo_session *session;
    void *bytes;
    size_t size;
    float one[VOCAB], other[VOCAB];
    assert_ok(context, bo_lanes_create(context, model, &(bo_lanes_desc){.count = 2}, &lanes));
    assert_ok(context, bo_session_create(context, model, NULL, &session));
    assert_ok(context, bo_session_feed(context, session, ids, FIRST, NULL));
    assert_ok(context, bo_session_save(context, session, &(bo_sink){.bytes = &bytes, .size = &size}));
    assert_ok(context, bo_lanes_load_memory(context, lanes, 1, bytes, size));
    bo_free(bytes);
    assert_int_equal(bo_lanes_tokens(lanes, 0), 0);
    assert_int_equal(bo_lanes_tokens(lanes, 1), FIRST);
    assert_ok(context, bo_session_feed(context, session, ids + FIRST, SECOND, one));
    assert_ok(context, bo_lanes_feed(context, lanes, 1, ids + FIRST, SECOND, other));
    assert_memory_equal(one, other, sizeof one);
    assert_ok(context, bo_lanes_save_memory(context, lanes, 1, &bytes, &size));
    assert_ok(context, bo_session_reset(context, session));
    assert_ok(context, bo_session_load(context, session, &(bo_source){.bytes = bytes, .size = size}));
    assert_int_equal(bo_session_tokens(session), FIRST + SECOND);
    assert_ok(context, bo_session_feed(context, session, ids, 1, one));
    assert_ok(context, bo_lanes_feed(context, lanes, 1, ids, 1, other));
    assert_memory_equal(one, other, sizeof one);
    bo_free(bytes);
    bo_session_destroy(session);
    bo_lanes_destroy(lanes);
    bo_model_destroy(model);
    bo_context_destroy(context);
}

static void test_refused(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_model_desc desc = test_desc("softmax"), other_desc = test_desc("favor");
    bo_model *model, *other;
    bo_lanes *lanes, *other_lanes;
    const int32_t good[] = {1, 2, 3, 4}, bad[] = {1, VOCAB};
    float before[VOCAB], after[VOCAB];
    void *bytes;
    size_t size;
    assert_ok(context, bo_model_create(context, &desc, NULL, &model));
    assert_ok(context, bo_model_create(context, &other_desc, NULL, &other));
    assert_ok(context, bo_lanes_create(context, model, &(bo_lanes_desc){.count = 2, .capacity = 3}, &lanes));
    assert_ok(context, bo_lanes_create(context, other, &(bo_lanes_desc){.count = 1}, &other_lanes));
    assert_fails(context, BO_INVALID, "lane 2 is requested, but there are only 2",
                 bo_lanes_feed(context, lanes, 2, good, 1, NULL));
    assert_fails(context, BO_INVALID, "lane 2 is requested", bo_lanes_restart(context, lanes, 2));
    assert_fails(context, BO_INVALID, "at least one token", bo_lanes_feed(context, lanes, 0, good, 0, NULL));
    assert_fails(context, BO_INVALID, "token 1 should be an id below 256",
                 bo_lanes_feed(context, lanes, 0, bad, 2, NULL));
    assert_fails(context, BO_INVALID, "capacity is 3 tokens", bo_lanes_feed(context, lanes, 0, good, 4, NULL));
    assert_int_equal(bo_lanes_tokens(lanes, 0), 0); /* refused before anything was read */
    assert_int_equal(bo_lanes_tokens(lanes, 9), 0);
    assert_ok(context, bo_lanes_feed(context, lanes, 0, good, 2, NULL));
    assert_ok(context, bo_lanes_save_memory(context, lanes, 0, &bytes, &size));
    assert_fails(context, BO_INVALID, "another model", bo_lanes_load_memory(context, other_lanes, 0, bytes, size));
    assert_fails(context, BO_FORMAT, "memory", bo_lanes_load_memory(context, lanes, 1, bytes, size / 2));
    bo_free(bytes);
    assert_ok(context, bo_lanes_feed(context, lanes, 0, good, 1, before));
    assert_ok(context, bo_lanes_restart(context, lanes, 0));
    assert_int_equal(bo_lanes_tokens(lanes, 0), 0);
    assert_ok(context, bo_lanes_feed(context, lanes, 0, good, 2, NULL));
    assert_ok(context, bo_lanes_feed(context, lanes, 0, good, 1, after));
    assert_memory_equal(before, after, sizeof before);
    bo_lanes_destroy(lanes);
    bo_lanes_destroy(other_lanes);
    bo_model_destroy(model);
    bo_model_destroy(other);
    bo_context_destroy(context);
}

/* A state is loaded into an empty lane with the memory of one lane, reserved or not; a state that cannot be loaded
 * leaves the lane empty and usable. */
static void memory_of_a_loaded_lane(void **state)
{
    (void)state;
    enum { CAPACITY = 20000 };
    counting counted = {0};
    bo_context *context = counting_context(&counted, 1);
    const bo_model_desc desc = test_desc("softmax");
    const int32_t ids[] = {1, 2, 3, 4};
    bo_model *model;
    bo_lanes *lanes;
    void *bytes;
    size_t size;
    float expected[VOCAB], found[VOCAB];
    assert_ok(context, bo_model_create(context, &desc, NULL, &model));
    assert_ok(context, bo_lanes_create(context, model, &(bo_lanes_desc){.count = 1, .capacity = CAPACITY}, &lanes));
    assert_ok(context, bo_lanes_feed(context, lanes, 0, ids, 3, NULL));
    assert_ok(context, bo_lanes_save_memory(context, lanes, 0, &bytes, &size));
    assert_ok(context, bo_lanes_feed(context, lanes, 0, ids + 3, 1, expected));
    assert_ok(context, bo_lanes_restart(context, lanes, 0)); /* empty, but with its memory */
    const size_t block = bo_lanes_state_bytes(lanes), before = counted.bytes;
    counted.peak = before;
    assert_ok(context, bo_lanes_load_memory(context, lanes, 0, bytes, size));
    if (counted.peak >= before + block / 2)
        fail_msg("a lane of %zu bytes was loaded with %zu more", block, counted.peak - before);
    assert_ok(context, bo_lanes_feed(context, lanes, 0, ids + 3, 1, found));
    assert_memory_equal(expected, found, sizeof found);
    assert_ok(context, bo_lanes_restart(context, lanes, 0));
    assert_fails(context, BO_FORMAT, "memory", bo_lanes_load_memory(context, lanes, 0, bytes, size / 2));
    assert_int_equal(bo_lanes_tokens(lanes, 0), 0);
    assert_ok(context, bo_lanes_feed(context, lanes, 0, ids, 4, found));
    assert_memory_equal(expected, found, sizeof found);
    bo_free(bytes);
    bo_lanes_destroy(lanes);
    bo_model_destroy(model);
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_every_mixer),
        cmocka_unit_test(states_of_sessions),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(memory_of_a_loaded_lane),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
