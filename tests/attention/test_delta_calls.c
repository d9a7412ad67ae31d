/* Calls of the delta rule: in parts, in batches, on threads, causal to the bit; and what goes wrong. */
#include "delta.h"

/* ---- the same in other ways ------------------------------------------------------------------------------------- */

static const problem whole = {
    "whole",      4,        2, 7, 5, 1, {75}, .gated = true, .weighed = true, .unit = true, .tokens_first = true,
    .gates = 0.2, .norm = 2};

/* Tokens [first, first + count) of a call with tokens first. */
static bo_attention_inputs part_of(const data *d, const answers *a, size_t first)
{
    const problem *p = d->p;
    return (bo_attention_inputs){.q = a->in[Q] + first * p->heads * p->dim,
                                 .k = a->in[K] + first * p->key_heads * p->dim,
                                 .v = a->in[V] + first * p->key_heads * p->values,
                                 .log_gate = a->in[GATE] + first * p->key_heads,
                                 .beta = a->in[BETA] + first * p->key_heads};
}

/* Blocks, then steps, then blocks; the last answer once more without keys. */
static void test_splits(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    data d = make(&whole);
    answers a = ready(context, &d);
    size_t tokens = d.p->lengths[0], width = d.p->heads * d.p->values;
    float *out = floats_of(NULL, d.outs), *again = floats_of(NULL, width);
    void *one = a.states[0];
    loss(&d);
    for (size_t first = 0, count; first < tokens; first += count) {
        bool steps = first >= 20 && first < 45;
        bo_attention_inputs in = part_of(&d, &a, first);
        bo_attention_shape shape = {.sequences = 1, .layout = BO_LAYOUT_TOKENS_FIRST};
        shape.tokens = count = steps ? 1 : first == 0 ? 20 : tokens - first;
        if (steps)
            assert_ok(context, bo_attention_step(context, a.attention, 1, &in, &one, out + first * width));
        else
            assert_ok(context, bo_attention_extend(context, a.attention, &shape, &in, &one, out + first * width));
    }
    assert_array(d.p, "out in parts", out, d.out, d.outs);
    bo_attention_inputs last = {.q = a.in[Q] + (tokens - 1) * d.p->heads * d.p->dim};
    assert_ok(context, bo_attention_step(context, a.attention, 1, &last, &one, again));
    assert_array(d.p, "out asked again", again, d.out + (tokens - 1) * width, width);
    assert_int_equal(bo_attention_state_tokens(one), tokens);
    free(out), free(again);
    drop(&d, &a);
    discard(&d);
    bo_context_destroy(context);
}

/* Twenty states step together as each does alone. */
static void test_step_batch(void **state)
{
    (void)state;
    enum { BATCH = 20 };
    bo_context *context = test_context(2);
    data d = make(&whole);
    answers a = ready(context, &d);
    size_t width = d.p->heads * d.p->values;
    void *together[BATCH], *alone[BATCH];
    float *out = floats_of(NULL, BATCH * width), *single = floats_of(NULL, width);
    for (size_t s = 0; s < BATCH; s++) together[s] = state_of(context, &a), alone[s] = state_of(context, &a);
    for (size_t round = 0; round < 3; round++) { /* tokens 20 round + s of the whole are sequence s's */
        bo_attention_inputs in = part_of(&d, &a, round * BATCH);
        assert_ok(context, bo_attention_step(context, a.attention, BATCH, &in, together, out));
        for (size_t s = 0; s < BATCH; s++) {
            bo_attention_inputs own = part_of(&d, &a, round * BATCH + s);
            assert_ok(context, bo_attention_step(context, a.attention, 1, &own, &alone[s], single));
            assert_memory_equal(single, out + s * width, width * sizeof *out);
        }
    }
    for (size_t s = 0; s < BATCH; s++) free(together[s]), free(alone[s]);
    free(out), free(single);
    drop(&d, &a);
    discard(&d);
    bo_context_destroy(context);
}

static void test_threads(void **state)
{
    (void)state;
    static const int threads[] = {1, 2, 5};
    static const problem several = {"several",       6,           3, 8, 8, 2, {90, 90}, .gated = true, .weighed = true,
                                    .carried = true, .gates = 0.2};
    data d = make(&several);
    answers first = {0};
    for (size_t i = 0; i < 3; i++) {
        bo_context *context = test_context(threads[i]);
        answers a = ready(context, &d);
        assert_ok(context, forward(context, &d, &a));
        assert_ok(context, backward(context, &d, &a));
        if (i == 0) first = a;
        assert_memory_equal(a.out, first.out, d.outs * sizeof *a.out);
        for (int array = 0; array < ARRAYS; array++)
            assert_memory_equal(a.gradient[array], first.gradient[array], d.count[array] * sizeof(float));
        if (i > 0) drop(&d, &a);
        bo_context_destroy(context);
    }
    drop(&d, &first);
    discard(&d);
}

/* Another token t, and what comes before keeps its bits. */
static void test_causality(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    data d = make(&whole);
    size_t width = d.p->heads * d.p->values, tokens = d.p->lengths[0];
    answers before = ready(context, &d);
    assert_ok(context, forward(context, &d, &before));
    for (size_t t = 0; t < tokens; t += 7) {
        answers a = ready(context, &d);
        for (int array = 0; array < START; array++)
            for (size_t each = d.count[array] / tokens, i = t * each; i < (t + 1) * each; i++)
                a.in[array][i] = array == GATE ? -5 : 1 - a.in[array][i] / 2;
        assert_ok(context, forward(context, &d, &a));
        assert_memory_equal(a.out, before.out, t * width * sizeof *a.out);
        assert_memory_not_equal(a.out + t * width, before.out + t * width, width * sizeof *a.out);
        drop(&d, &a);
    }
    drop(&d, &before);
    discard(&d);
    bo_context_destroy(context);
}

/* ---- what goes wrong -------------------------------------------------------------------------------------------- */

static void test_divergence(void **state)
{
    (void)state;
    static const problem large = {"large keys", 1, 1, 8, 4, 1, {400}, .norm = 5};
    bo_context *context = test_context(1);
    data d = make(&large);
    answers a = ready(context, &d);
    assert_fails(context, BO_NUMERIC, "stable up to 2 (unit keys", forward(context, &d, &a));
    a.in[K][17] = NAN;
    assert_fails(context, BO_NUMERIC, "k is nan at sequence 0, head 0, token 2, column 1", forward(context, &d, &a));
    drop(&d, &a);
    discard(&d);
    bo_context_destroy(context);
}

/* k vᵀ leaves float, which a query of zeros does not see. */
static void test_final_overflow(void **state)
{
    (void)state;
    static const problem one = {"one", 1, 1, 2, 2, 1, {1}, .norm = 1};
    bo_context *context = test_context(1);
    data d = make(&one);
    answers a = ready(context, &d);
    for (size_t i = 0; i < 2; i++) a.in[Q][i] = 0, a.in[K][i] = a.in[V][i] = 1e20F;
    assert_fails(context, BO_NUMERIC, "numbers beyond float32", forward(context, &d, &a));
    drop(&d, &a);
    discard(&d);
    bo_context_destroy(context);
}

static void test_not_finite(void **state)
{
    (void)state;
    static const char *const words[] = {"q is inf", "k is inf", "v is inf", "log_gate is inf", "beta is inf"};
    bo_context *context = test_context(1);
    data d = make(&whole);
    answers a = ready(context, &d);
    for (int array = 0; array < START; array++) {
        float *last = a.in[array] + d.count[array] - 1, was = *last;
        *last = INFINITY;
        assert_fails(context, BO_NUMERIC, words[array], forward(context, &d, &a));
        *last = was;
    }
    assert_ok(context, forward(context, &d, &a));
    a.dout[3] = NAN;
    assert_fails(context, BO_NUMERIC, "dout is nan", backward(context, &d, &a));
    drop(&d, &a);
    discard(&d);
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_splits),     cmocka_unit_test(test_step_batch), cmocka_unit_test(test_threads),
        cmocka_unit_test(test_causality),  cmocka_unit_test(test_divergence), cmocka_unit_test(test_final_overflow),
        cmocka_unit_test(test_not_finite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
