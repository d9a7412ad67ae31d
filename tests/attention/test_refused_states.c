/* States that do not match, and tapes that are missing or belong to another pass, are refused with a message. */
#include "refusals.h"
#include "attention/internal.h"

/* ---- states ------------------------------------------------------------------------------------------------------ */

static void full_caches_are_refused(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    trial t = make_trial(context, (bo_attention_desc)EXACT_(GOOD, .capacity = 7, .causal = true), TOKENS);
    bo_attention_inputs in = trial_inputs(&t);
    bo_status status = bo_attention_extend(context, t.attention, &t.desc.shape, &in, t.initial, t.array[OUT]);
    assert_int_equal(status, BO_INVALID);
    assert_non_null(strstr(bo_context_error(context), "has 5 tokens, and 5 more exceed"));
    assert_non_null(strstr(bo_context_error(context), "7"));
    t.desc.shape.tokens = 3; /* one token too many */
    assert_fails(context, BO_INVALID, "and 3 more exceed",
                 bo_attention_extend(context, t.attention, &t.desc.shape, &in, t.initial, t.array[OUT]));
    t.desc.shape.tokens = 2;
    assert_ok(context, bo_attention_extend(context, t.attention, &t.desc.shape, &in, t.initial, t.array[OUT]));
    assert_fails(context, BO_INVALID, "capacity 7",
                 bo_attention_step(context, t.attention, 1, &in, t.initial, t.array[OUT]));
    t.desc.shape.tokens = TOKENS;
    trial_drop(&t);
    bo_context_destroy(context);
}

/* Each descriptor differs from the first in one property that a state depends on. A state that is smaller than expected
 * must be refused before it is read. */
static const bo_attention_desc favors[] = {
    FAVOR_(GOOD, .causal = true, .features.seed = 5),
    FAVOR_(GOOD, .causal = true, .features.seed = 6),
    FAVOR_(GOOD, .causal = true, .features.seed = 5, .scale = 0.5),
    FAVOR_(GOOD, .causal = true, .features.seed = 5, .gate = BO_GATE_DECAY),
    FAVOR_(GOOD, .causal = true, .features.seed = 5, .key_heads = 2),
    FAVOR_(GOOD, .causal = true, .features.seed = 5, .value_dim = 4),
    FAVOR_(GOOD, .causal = true, .features.seed = 5, .features.function = BO_FUNCTION_HYPERBOLIC),
    FAVOR_(GOOD, .causal = true, .features.seed = 5, .one_draw = true),
    HYBRID_(GOOD, .causal = true, .features.seed = 5),
    EXACT_(GOOD, .causal = true),
};
static const bo_attention_desc exacts[] = {
    EXACT_(GOOD, .causal = true, .capacity = 64),
    EXACT_(GOOD, .causal = true, .capacity = 65),
    EXACT_(GOOD, .causal = true, .capacity = 4096),
    EXACT_(GOOD, .causal = true, .window = 64),
    EXACT_(GOOD, .causal = true, .capacity = 64, .scale = 2),
    EXACT_(GOOD, .causal = true, .capacity = 64, .value_dim = 4),
    EXACT_(.heads = 4, .dim = 9, .causal = true, .capacity = 64),
    EXACT_(GOOD, .causal = true, .capacity = 64, .key_heads = 2),
};
static const bo_attention_desc hybrids[] = {
    HYBRID_(GOOD, .causal = true, .window = 5),
    HYBRID_(GOOD, .causal = true, .window = 6),
    HYBRID_(GOOD, .causal = true, .window = 4096),
    HYBRID_(GOOD, .causal = true, .window = 5, .scale = 2),
    HYBRID_(GOOD, .causal = true, .window = 5, .rank = 8), /* its keys are multiplied by M */
    HYBRID_(GOOD, .causal = true, .window = 5, .rank = 3),
    FAVOR_(GOOD, .causal = true),
};

static const bo_attention_desc powers[] = {
    POWER_(GOOD, .causal = true, .capacity = 64),
    POWER_(GOOD, .causal = true, .capacity = 64, .power = 3),
    EXACT_(GOOD, .causal = true, .capacity = 64),
};
static const bo_attention_desc memories[] = {
    DELTA_(GOOD),
    DELTA_(GOOD, .unit = true),
    DELTA_(GOOD, .gate = BO_GATE_DECAY),
    DELTA_(GOOD, .scale = 0.9),
    DELTA_(GOOD, .key_heads = 2),
    DELTA_(GOOD, .value_dim = 5),
    GLA_(GOOD),
    RIDGE_(GOOD),
    LINEAR_(GOOD, .causal = true),
};
static const bo_attention_desc ridges[] = {
    RIDGE_(GOOD),
    RIDGE_(GOOD, .gate = BO_GATE_DECAY),
    RIDGE_(GOOD, .unit = true),
    RIDGE_(GOOD, .value_dim = 5),
    DELTA_(GOOD, .value_dim = 24),
};
static const bo_attention_desc learned[] = {
    LEARNED_(GOOD, .causal = true),
    LEARNED_(GOOD, .causal = true, .features.kernel = BO_KERNEL_HEDGEHOG),
    LEARNED_(GOOD, .causal = true, .gate = BO_GATE_FIXED),
    LEARNED_(GOOD, .causal = true, .gate = BO_GATE_DECAY),
    LEARNED_(GOOD, .causal = true, .rank = 7),
    {.kind = BO_ATTENTION_LINEAR, GOOD, .causal = true, .features.kernel = BO_KERNEL_COSH},
};

static void check_foreign(const bo_attention_desc *descs, size_t count)
{
    bo_context *context = test_context(1);
    trial t = make_trial(context, descs[0], TOKENS);
    size_t bytes = bo_attention_state_bytes(t.attention);
    for (size_t i = 1; i < count; i++) {
        trial other = make_trial(context, descs[i], 0);
        bo_attention_inputs in = trial_inputs(&other);
        void *copy = aligned_alloc(64, bytes / 64 * 64 + 64), *states[] = {copy, t.initial[1]}; /* no additional byte */
        memcpy(copy, t.initial[0], bytes);
        if (bo_attention_state_check(context, other.attention, copy) != BO_INVALID) fail_msg("foreign state %zu", i);
        assert_fails(context, BO_INVALID, "another",
                     bo_attention_extend(context, other.attention, &other.desc.shape, &in, states, other.array[OUT]));
        assert_fails(context, BO_INVALID, "another",
                     bo_attention_step(context, other.attention, 1, &in, states, other.array[OUT]));
        free(copy);
        trial_drop(&other);
    }
    trial_drop(&t);
    bo_context_destroy(context);
}

static void foreign_states_are_refused(void **state)
{
    (void)state;
    check_foreign(favors, sizeof favors / sizeof *favors);
    check_foreign(exacts, sizeof exacts / sizeof *exacts);
    check_foreign(hybrids, sizeof hybrids / sizeof *hybrids);
    check_foreign(powers, sizeof powers / sizeof *powers);
    check_foreign(memories, sizeof memories / sizeof *memories);
    check_foreign(ridges, sizeof ridges / sizeof *ridges);
    check_foreign(learned, sizeof learned / sizeof *learned);
}

static void states_of_another_draw_are_refused(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    trial t = make_trial(context, (bo_attention_desc)FAVOR_(GOOD, .causal = true), TOKENS);
    assert_ok(context, bo_attention_state_check(context, t.attention, t.initial[0]));
    assert_ok(context, bo_attention_redraw(context, t.attention, 1));
    assert_fails(context, BO_INVALID, "draw", bo_attention_state_check(context, t.attention, t.initial[0]));
    assert_ok(context, bo_attention_redraw(context, t.attention, 0));
    assert_ok(context, bo_attention_state_check(context, t.attention, t.initial[0]));
    trial_drop(&t);
    bo_context_destroy(context);
}

/* Frequencies drawn for other data are different frequencies. */
static void states_of_another_calibration_are_refused(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    trial_desc desc = {.name = "calibrated",
                       .attention = FAVOR_(GOOD, .causal = true, .proposal = BO_PROPOSAL_SDERF),
                       .shape = {.sequences = 1, .tokens = TOKENS},
                       .past = TOKENS,
                       .seed = 1};
    trial one = trial_make(context, &desc), same = trial_make(context, &desc);
    desc.seed = 2;
    trial other = trial_make(context, &desc);
    assert_ok(context, bo_attention_state_check(context, same.attention, one.initial[0]));
    assert_fails(context, BO_INVALID, "another", bo_attention_state_check(context, other.attention, one.initial[0]));
    trial_drop(&one);
    trial_drop(&same);
    trial_drop(&other);
    bo_context_destroy(context);
}

/* The state of a matrix kind: S only, or G and H; no log scale. */
static void matrices_of_other_kinds_are_refused(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    float s[64] = {0}, z[64] = {0};
    double scale;
    trial delta = make_trial(context, (bo_attention_desc)DELTA_(GOOD), 0),
          ridge = make_trial(context, (bo_attention_desc)RIDGE_(GOOD), 0);
    trial power = make_trial(context, (bo_attention_desc)POWER_(GOOD, .causal = true), 0);
    void *of_delta = delta.final[0], *of_ridge = ridge.final[0];
    assert_fails(context, BO_INVALID, "z", bo_attention_state_get(context, delta.attention, of_delta, 0, s, z, &scale));
    assert_fails(context, BO_INVALID, "z", bo_attention_state_set(context, delta.attention, of_delta, 0, s, z, 0));
    assert_fails(context, BO_INVALID, "z is NULL",
                 bo_attention_state_set(context, ridge.attention, of_ridge, 0, s, NULL, 0));
    assert_fails(context, BO_INVALID, "must be 0, found 1",
                 bo_attention_state_set(context, ridge.attention, of_ridge, 0, s, z, 1));
    assert_fails(context, BO_INVALID, "key head 4 does not exist",
                 bo_attention_state_set(context, ridge.attention, of_ridge, 4, s, z, 0));
    assert_fails(context, BO_INVALID, "power",
                 bo_attention_state_get(context, power.attention, power.final[0], 0, s, z, &scale));
    s[9] = NAN;
    assert_fails(context, BO_NUMERIC, "NaN or infinity",
                 bo_attention_state_set(context, delta.attention, of_delta, 0, s, NULL, 0));
    s[9] = 0, z[1] = INFINITY;
    assert_fails(context, BO_NUMERIC, "NaN or infinity",
                 bo_attention_state_set(context, ridge.attention, of_ridge, 0, s, z, 0));
    trial_drop(&delta);
    trial_drop(&ridge);
    trial_drop(&power);
    bo_context_destroy(context);
}

/* Two sequences must not write to the same state, and no sequence may read a state that another sequence writes. */
static void shared_states_are_refused(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    trial t = make_trial(context, (bo_attention_desc)FAVOR_(GOOD, .causal = true), TOKENS);
    bo_attention_inputs in = trial_inputs(&t);
    const bo_attention_shape *shape = &t.desc.shape;
    void *same[] = {t.final[0], t.final[0]}, *crossed[] = {t.initial[1], t.initial[0]};
    const void *const *from = (const void *const *)t.initial;
    const void *one[] = {t.initial[0], t.initial[0]};
    float *out = t.array[OUT];
    assert_fails(context, BO_INVALID, "0 and 1", bo_attention_step(context, t.attention, 2, &in, same, out));
    assert_fails(context, BO_INVALID, "0 and 1", bo_attention_extend(context, t.attention, shape, &in, same, out));
    assert_fails(context, BO_INVALID, "0 and 1",
                 bo_attention_forward_arrays(context, t.attention, shape, &in, from, crossed, out, NULL));
    /* a fork */
    assert_ok(context, bo_attention_forward_arrays(context, t.attention, shape, &in, one, t.final, out, NULL));
    /* a fork that changes a state which the other sequence still reads */
    void *in_place[] = {t.initial[0], t.final[1]};
    assert_fails(context, BO_INVALID, "0 and 1",
                 bo_attention_forward_arrays(context, t.attention, shape, &in, one, in_place, out, NULL));
    trial_drop(&t);
    bo_context_destroy(context);
}

static void invalid_states_are_refused(void **unused)
{
    (void)unused;
    bo_context *context = test_context(1);
    trial t = make_trial(context, (bo_attention_desc)FAVOR_(GOOD, .causal = true), TOKENS);
    size_t bytes = bo_attention_state_bytes(t.attention);
    char *state = aligned_alloc(64, (bytes + 127) / 64 * 64);
    float *s = trial_floats(16 * 8), z[16] = {0};
    double scale;
    static const float scales[] = {NAN, INFINITY};
    for (size_t i = 0; i < 2; i++) {
        memcpy(state, t.initial[0], bytes);
        *bo_state_sums(t.attention, state, 1).log_scale = scales[i];
        assert_fails(context, BO_INVALID, "damaged", bo_attention_state_check(context, t.attention, state));
    }
    memcpy(state, t.initial[0], bytes);
    ((bo_state_header *)state)->tokens = UINT64_MAX - 3;
    assert_fails(context, BO_INVALID, "token count is 18446744073709551612",
                 bo_attention_state_check(context, t.attention, state));
    memset(state, 0, bytes);
    assert_fails(context, BO_INVALID, "not a state", bo_attention_state_check(context, t.attention, state));
    assert_fails(context, BO_INVALID, "NULL", bo_attention_state_check(context, t.attention, NULL));
    assert_fails(context, BO_INVALID, "8 bytes", bo_attention_state_check(context, t.attention, state + 4));
    assert_fails(context, BO_INVALID, "8 bytes", bo_attention_state_init(context, t.attention, state + 4));
    assert_fails(context, BO_INVALID, "NULL", bo_attention_state_init(context, t.attention, NULL));
    assert_fails(context, BO_INVALID, "key head 4 does not exist",
                 bo_attention_state_get(context, t.attention, t.initial[0], 4, s, z, &scale));
    assert_fails(context, BO_INVALID, "NULL",
                 bo_attention_state_set(context, t.attention, t.initial[0], 0, NULL, z, 0));
    assert_fails(context, BO_INVALID, "log_scale",
                 bo_attention_state_set(context, t.attention, t.initial[0], 0, s, z, NAN));
    s[5] = NAN;
    assert_fails(context, BO_NUMERIC, "NaN or infinity",
                 bo_attention_state_set(context, t.attention, t.initial[0], 0, s, z, 0));
    trial_drop(&t);
    t = make_trial(context, (bo_attention_desc)EXACT_(GOOD, .causal = true), 0);
    assert_fails(context, BO_INVALID, "softmax",
                 bo_attention_state_get(context, t.attention, t.final[0], 0, s, z, &scale));
    trial_drop(&t);
    free(state);
    free(s);
    bo_context_destroy(context);
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */

static void backward_refuses_unsupported_calls(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    trial t = make_trial(context, (bo_attention_desc)FAVOR_(GOOD, .causal = true), TOKENS);
    trial_forward(&t);
    bo_attention_inputs in = trial_inputs(&t);
    float *out = t.array[OUT], *dout = t.gradient[OUT];
    const void *const *from = (const void *const *)t.initial;
    const float *missing[] = {NULL, NULL};
    bo_attention_gradients g = {.q = t.gradient[Q]};
    const bo_attention_shape *shape = &t.desc.shape;
#define BACKWARD(out_, tape_, dout_, d_final_, gradients_)                                                             \
    bo_attention_backward_arrays(context, t.attention, shape, &in, from, out_, tape_, dout_, d_final_, gradients_)
    assert_fails(context, BO_INVALID, "gradients", BACKWARD(out, t.tape, dout, NULL, NULL));
    assert_fails(context, BO_INVALID, "tape", BACKWARD(out, NULL, dout, NULL, &g));
    assert_fails(context, BO_INVALID, "out", BACKWARD(NULL, t.tape, dout, NULL, &g));
    assert_fails(context, BO_INVALID, "final state 0", BACKWARD(out, t.tape, dout, missing, &g));
    dout[7] = NAN;
    assert_fails(context, BO_NUMERIC, "dout is nan at sequence 0, head 0, token 0",
                 BACKWARD(out, t.tape, dout, NULL, &g));
    dout[7] = 0;
    g.log_gate = out;
    assert_fails(context, BO_INVALID, "log_gate", BACKWARD(out, t.tape, dout, NULL, &g));
    g = (bo_attention_gradients){.sigma = out};
    assert_fails(context, BO_INVALID, "sigma", BACKWARD(out, t.tape, dout, NULL, &g));
    g = (bo_attention_gradients){.m = out};
    assert_fails(context, BO_INVALID, "m is", BACKWARD(out, t.tape, dout, NULL, &g));
    g = (bo_attention_gradients){.mix = out};
    assert_fails(context, BO_INVALID, "mix", BACKWARD(out, t.tape, dout, NULL, &g));
    g = (bo_attention_gradients){.initial = (float *const *)missing};
    assert_fails(context, BO_INVALID, "initial state 0", BACKWARD(out, t.tape, dout, NULL, &g));
    g = (bo_attention_gradients){0};
    assert_ok(context, BACKWARD(out, t.tape, dout, NULL, &g)); /* no gradient is requested */
    bo_attention_shape other = t.desc.shape;
    other.layout = BO_LAYOUT_TOKENS_FIRST, shape = &other;
    assert_fails(context, BO_INVALID, "another", BACKWARD(out, t.tape, dout, NULL, &g));
    other = (bo_attention_shape){.sequences = 1, .tokens = 2 * TOKENS};
    assert_fails(context, BO_INVALID, "another", BACKWARD(out, t.tape, dout, NULL, &g));
    shape = &t.desc.shape;
    from = NULL;
    assert_ok(context, bo_attention_redraw(context, t.attention, 1));
    assert_fails(context, BO_INVALID, "draw", BACKWARD(out, t.tape, dout, NULL, &g));
    assert_ok(context, bo_attention_redraw(context, t.attention, 0));
    from = (const void *const *)t.initial;
    g.q = t.gradient[Q];
    assert_ok(context, BACKWARD(out, t.tape, NULL, NULL, &g)); /* no gradient is given */
    for (size_t i = 0; i < t.count[Q]; i++) assert_close((double)t.gradient[Q][i], 0, 0);
    trial_drop(&t);
    bo_context_destroy(context);
}

/* A call that only computes a state also requires a tape for the backward pass. */
static void tapes_are_allocated_without_queries(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    trial t = make_trial(context, (bo_attention_desc)FAVOR_(GOOD), 0);
    bo_attention_shape shape = {.sequences = 2, .key_tokens = TOKENS};
    bo_attention_inputs in = trial_inputs(&t);
    bo_attention_gradients g = {.k = t.gradient[K]};
    in.q = NULL;
    assert_ok(context, bo_attention_forward_arrays(context, t.attention, &shape, &in, NULL, t.final, NULL, NULL));
    assert_fails(context, BO_INVALID, "tape",
                 bo_attention_backward_arrays(context, t.attention, &shape, &in, NULL, NULL, NULL, NULL,
                                              (const float *const *)t.d_final, &g));
    trial_drop(&t);
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(full_caches_are_refused),
        cmocka_unit_test(foreign_states_are_refused),
        cmocka_unit_test(states_of_another_draw_are_refused),
        cmocka_unit_test(states_of_another_calibration_are_refused),
        cmocka_unit_test(matrices_of_other_kinds_are_refused),
        cmocka_unit_test(shared_states_are_refused),
        cmocka_unit_test(invalid_states_are_refused),
        cmocka_unit_test(backward_refuses_unsupported_calls),
        cmocka_unit_test(tapes_are_allocated_without_queries),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
