/* The last hidden states of a text, and logits of every token in lanes: hidden states times the embedding are the
 * logits of a tied model; lanes return the same as sessions, for every kind of attention and every mixer; the size of
 * saved states. */
#include "model/lanes.h"
#include "models.h"
#include <bochner/tasks.h>

enum { WIDTH = 16, FIRST = 7, LENGTH = 30 };

/* hidden x embedding^T in double. Both sums of WIDTH products are rounded to float32: errors of WIDTH 2^-24 of the sum
 * of magnitudes, which is below 20 here. */
static void expect_product(const char *name, const float *hidden, const float *embedding, const float *logits)
{
    for (size_t v = 0; v < VOCAB; v++) {
        double sum = 0, size = 0;
        for (size_t c = 0; c < WIDTH; c++) {
            const double product = (double)hidden[c] * (double)embedding[v * WIDTH + c];
            sum += product;
            size += fabs(product);
        }
        if (!(fabs(sum - (double)logits[v]) <= WIDTH * 0x1p-23 * (size + 1)))
            fail_msg("%s: logit %zu is %g, expected %g", name, v, (double)logits[v], sum);
    }
}

static void expect_close(const char *name, const float *found, const float *expected, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!(fabs((double)found[i] - (double)expected[i]) <= 2e-4))
            fail_msg("%s: number %zu: %g, expected %g", name, i, (double)found[i], (double)expected[i]);
}

static void check_session(bo_context *context, const char *name, const bo_model *model, const int32_t *ids)
{
    static float embedding[VOCAB * WIDTH], hidden[LENGTH * WIDTH], logits[LENGTH * VOCAB], last[VOCAB];
    bo_session *one, *other;
    assert_ok(context, bo_weights_get(context, bo_model_weights(model), "model.embed_tokens.weight", embedding, NULL));
    assert_ok(context, bo_session_create(context, model, NULL, &one));
    assert_ok(context, bo_session_create(context, model, NULL, &other));
    assert_ok(context, bo_session_feed(context, one, ids, FIRST, NULL));
    assert_ok(context, bo_session_feed(context, other, ids, FIRST, NULL));
    assert_ok(context,
              bo_session_read(context, one,
                              &(bo_session_reading){.ids = ids + FIRST, .count = LENGTH - FIRST, .hidden = hidden}));
    assert_ok(context,
              bo_session_read(context, other,
                              &(bo_session_reading){.ids = ids + FIRST, .count = LENGTH - FIRST, .logits = logits}));
    assert_int_equal(bo_session_tokens(one), LENGTH);
    for (size_t i = 0; i < LENGTH - FIRST; i++) expect_product(name, hidden + i * WIDTH, embedding, logits + i * VOCAB);
    /* the state after hidden states is that after logits */
    assert_fails(context, BO_INVALID, "no logits", bo_session_feed(context, one, NULL, 0, last));
    assert_ok(context, bo_session_feed(context, one, ids, 1, last));
    assert_ok(context, bo_session_feed(context, other, ids, 1, logits));
    expect_close(name, last, logits, VOCAB);
    bo_session_destroy(one);
    bo_session_destroy(other);
}

/* A lane reads blocks with all three functions, while another lane does not change. */
static void check_lanes(bo_context *context, const char *name, const bo_model *model, const int32_t *ids)
{
    enum { PART = LENGTH / 3 };
    static float found[PART * VOCAB], expected[PART * VOCAB], steps[2 * VOCAB];
    bo_lanes *lanes;
    bo_session *session;
    assert_ok(context, bo_lanes_create(context, model, &(bo_lanes_desc){.count = 2}, &lanes));
    assert_ok(context, bo_session_create(context, model, NULL, &session));
    assert_ok(context, bo_lanes_feed(context, lanes, 0, ids, FIRST, NULL));
    assert_ok(context, bo_lanes_hidden(context, lanes, 1, ids, PART, found));
    assert_ok(context,
              bo_session_read(context, session, &(bo_session_reading){.ids = ids, .count = PART, .hidden = expected}));
    assert_memory_equal(found, expected, PART * WIDTH * sizeof *found);
    assert_ok(context, bo_lanes_logits(context, lanes, 1, ids + PART, PART, found));
    assert_ok(context, bo_session_read(context, session,
                                       &(bo_session_reading){.ids = ids + PART, .count = PART, .logits = expected}));
    assert_memory_equal(found, expected, PART * VOCAB * sizeof *found);
    assert_ok(context, bo_lanes_feed(context, lanes, 1, ids + 2 * PART, PART, found));
    assert_ok(context, bo_session_feed(context, session, ids + 2 * PART, PART, expected));
    assert_memory_equal(found, expected, VOCAB * sizeof *found);
    assert_int_equal(bo_lanes_tokens(lanes, 0), FIRST);
    assert_int_equal(bo_lanes_tokens(lanes, 1), 3 * PART);
    assert_ok(context, bo_lanes_step(context, lanes, 2, (int32_t[]){ids[FIRST], 5}, steps));
    assert_ok(context, bo_session_feed(context, session, (int32_t[]){5}, 1, expected));
    expect_close(name, steps + VOCAB, expected, VOCAB);
    assert_ok(context, bo_session_reset(context, session));
    assert_ok(context, bo_session_feed(context, session, ids, FIRST, NULL));
    assert_ok(context, bo_session_feed(context, session, ids + FIRST, 1, expected));
    expect_close(name, steps, expected, VOCAB);
    bo_session_destroy(session);
    bo_lanes_destroy(lanes);
}

static void test_every_mixer(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    int32_t ids[CONTEXT];
    test_tokens(CONTEXT, ids);
    for (size_t i = 0; test_kind(i); i++) {
        const bo_model_desc desc = test_desc(test_kind(i));
        bo_model *model = test_model(context, &desc, NULL);
        check_session(context, test_kind(i), model, ids);
        check_lanes(context, test_kind(i), model, ids);
        bo_model_destroy(model);
    }
    bo_context_destroy(context);
}

static void test_refused(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    const bo_model_desc desc = test_desc("softmax");
    bo_model *model = test_model(context, &desc, NULL);
    bo_session *session;
    bo_lanes *lanes;
    float hidden[4 * VOCAB];
    assert_ok(context, bo_session_create(context, model, &(bo_session_desc){.capacity = 3}, &session));
    assert_ok(context, bo_lanes_create(context, model, &(bo_lanes_desc){.count = 1, .capacity = 3}, &lanes));
    const int32_t good[] = {1, 2, 3, 4}, bad[] = {1, VOCAB};
    assert_fails(context, BO_INVALID, "id below 256",
                 bo_session_read(context, session, &(bo_session_reading){.ids = bad, .count = 2, .hidden = hidden}));
    assert_fails(context, BO_INVALID, "capacity is 3 tokens",
                 bo_session_read(context, session, &(bo_session_reading){.ids = good, .count = 4, .hidden = hidden}));
    assert_fails(context, BO_INVALID, "hidden",
                 bo_session_read(context, session, &(bo_session_reading){.ids = good, .count = 1, .hidden = NULL}));
    assert_ok(context, bo_session_read(context, session, &(bo_session_reading){.count = 0}));
    assert_int_equal(bo_session_tokens(session), 0);
    assert_fails(context, BO_INVALID, "id below 256", bo_lanes_hidden(context, lanes, 0, bad, 2, hidden));
    assert_fails(context, BO_INVALID, "id below 256", bo_lanes_logits(context, lanes, 0, bad, 2, hidden));
    assert_fails(context, BO_INVALID, "capacity is 3", bo_lanes_logits(context, lanes, 0, good, 4, hidden));
    assert_fails(context, BO_INVALID, "lane 1 is requested", bo_lanes_hidden(context, lanes, 1, good, 1, hidden));
    assert_fails(context, BO_INVALID, "at least one token", bo_lanes_logits(context, lanes, 0, good, 0, hidden));
    assert_int_equal(bo_lanes_tokens(lanes, 0), 0);
    bo_session_destroy(session);
    bo_lanes_destroy(lanes);
    bo_model_destroy(model);
    bo_context_destroy(context);
}

/* ---- the size of saved states ------------------------------------------------------------------------------------ */

static size_t saved_size(bo_context *context, const bo_session *session, void **bytes)
{
    size_t size;
    assert_ok(context, bo_session_save(context, session, &(bo_sink){.bytes = bytes, .size = &size}));
    return size;
}

/* Reads `count` tokens in a session of one capacity, and continues in sessions of other capacities. */
static void check_moved(bo_context *context, const bo_model *model, const int32_t *ids, size_t count, size_t capacity)
{
    static const size_t capacities[] = {1, 5, 12, 40, 0};
    bo_session *session, *other;
    float expected[VOCAB], found[VOCAB];
    void *bytes, *again;
    assert_ok(context, bo_session_create(context, model, &(bo_session_desc){.capacity = capacity}, &session));
    if (count) assert_ok(context, bo_session_feed(context, session, ids, count, NULL));
    const size_t size = saved_size(context, session, &bytes);
    if (capacity > count) assert_ok(context, bo_session_feed(context, session, ids + count, 1, expected));
    for (size_t i = 0; i < sizeof capacities / sizeof *capacities; i++) {
        const bool fits = !capacities[i] || capacities[i] >= count;
        assert_ok(context, bo_session_create(context, model, &(bo_session_desc){.capacity = capacities[i]}, &other));
        const bo_status status = bo_session_load(context, other, &(bo_source){.bytes = bytes, .size = size});
        assert_int_equal(status, fits ? BO_OK : BO_INVALID);
        if (fits) {
            assert_int_equal(bo_session_tokens(other), count);
            assert_int_equal(saved_size(context, other, &again), size); /* the same bytes again */
            assert_memory_equal(bytes, again, size);
            bo_free(again);
        }
        if (fits && capacity > count && bo_session_remaining(other) > 0) {
            assert_ok(context, bo_session_feed(context, other, ids + count, 1, found));
            assert_memory_equal(found, expected, sizeof found);
        }
        bo_session_destroy(other);
    }
    bo_free(bytes);
    bo_session_destroy(session);
}

/* A session that keeps every key saves the keys of the tokens read, regardless of its capacity. */
static void test_saved_size(void **state)
{
    (void)state;
    enum { MAX_TOKENS = 40, LARGE = 5000, VALUES = WIDTH * LAYERS * sizeof(float) };
    static const size_t counts[] = {0, 1, 5, 12, MAX_TOKENS};
    bo_context *context = test_context(1);
    const bo_model_desc desc = test_desc("softmax");
    bo_model *model = test_model(context, &desc, NULL);
    int32_t ids[CONTEXT];
    size_t sizes[sizeof counts / sizeof *counts];
    test_tokens(CONTEXT, ids);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        for (size_t capacity = counts[i] ? counts[i] : 1; capacity <= MAX_TOKENS; capacity += 13) {
            bo_session *session;
            void *bytes;
            assert_ok(context, bo_session_create(context, model, &(bo_session_desc){.capacity = capacity}, &session));
            if (counts[i]) assert_ok(context, bo_session_feed(context, session, ids, counts[i], NULL));
            const size_t size = saved_size(context, session, &bytes);
            if (capacity == (counts[i] ? counts[i] : 1)) sizes[i] = size;
            assert_int_equal(size, sizes[i]);
            bo_free(bytes);
            bo_session_destroy(session);
            check_moved(context, model, ids, counts[i], capacity);
        }
    /* values take VALUES bytes per token, up to alignment; keys are kept in panels of 64 */
    for (size_t i = 2; i < sizeof counts / sizeof *counts; i++) {
        const size_t more = VALUES * (counts[i] - counts[i - 1]);
        assert_true(sizes[i] + 256 >= sizes[i - 1] + more && sizes[i] <= sizes[i - 1] + more + 256);
    }
    bo_session *session;
    void *bytes;
    assert_ok(context, bo_session_create(context, model, &(bo_session_desc){.capacity = LARGE}, &session));
    assert_ok(context, bo_session_feed(context, session, ids, MAX_TOKENS, NULL));
    assert_int_equal(saved_size(context, session, &bytes), sizes[4]);
    assert_true(sizes[4] < LARGE * VALUES / 10);
    bo_free(bytes);
    bo_session_destroy(session);
    bo_model_destroy(model);
    bo_context_destroy(context);
}

/* States of fixed size do not grow. */
static void test_fixed_size(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    const bo_model_desc desc = test_desc("favor");
    bo_model *model = test_model(context, &desc, NULL);
    int32_t ids[CONTEXT];
    bo_session *session;
    void *bytes;
    test_tokens(CONTEXT, ids);
    assert_ok(context, bo_session_create(context, model, NULL, &session));
    assert_ok(context, bo_session_feed(context, session, ids, 1, NULL));
    const size_t one = saved_size(context, session, &bytes);
    bo_free(bytes);
    assert_ok(context, bo_session_feed(context, session, ids, 40, NULL));
    const size_t many = saved_size(context, session, &bytes);
    bo_free(bytes);
    assert_true(many <= one + 64);
    bo_session_destroy(session);
    bo_model_destroy(model);
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_mixer),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_saved_size),
        cmocka_unit_test(test_fixed_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
