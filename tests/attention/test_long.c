/* 100,000 tokens: the last outputs compared with the reference, by a forward pass and by steps: no drift, no NaN. */
#include "attention/enums.h"
#include "cases.h"

enum { TOKENS = 100000, LAST = 4, WIDTH = 4, VALUE = 3, FEATURES = 8 };

static const char *const names[] = {
    "linear elu",
    "linear rbf, decay, not divided",
    "rfa",
    "rfa-gate",
    "favor",
    "favor, convex",
    "favor sin/cos, convex",
    "dark",
    "hybrid",
    "hybrid with M",
    "hybrid, decay",
    "hybrid of elu, decay",
    "softmax in a window",
    "retention",
    "hedgehog",
    "hybrid of t2r",
    "gated delta",
    "delta of plain keys",
    "gla",
    "ridge",
    "gated ridge",
};

/* The last queries of the reference, which sees all keys. */
static double *last_outputs(const trial *t)
{
    trial_result result = trial_result_make(t);
    verify_head j = verify_head_make(t, 0, 0);
    double *out = oracle_zeros(LAST * VALUE), *from;
    if (trial_is_memory(t->d)) {
        memory_head head = verify_memory_make(&j, t, &result);
        memory_compute(&head);
        from = head.out + (TOKENS - LAST) * VALUE;
    } else {
        oracle_head head = verify_oracle(&j, t, &result);
        head.q += (TOKENS - LAST) * WIDTH;
        head.queries = LAST;
        head.s_final = NULL;
        oracle_compute(&head);
        from = head.out;
    }
    memcpy(out, from, LAST * VALUE * sizeof *out);
    verify_head_drop(&j);
    trial_result_drop(&result);
    return out;
}

static void step_through(const trial *t, float *out)
{
    void *state = aligned_alloc(64, bo_attention_state_bytes(t->attention) / 64 * 64 + 64);
    assert_ok(t->context, bo_attention_state_init(t->context, t->attention, state));
    bo_attention_inputs in = trial_inputs(t);
    for (size_t i = 0; i < TOKENS; i++) {
        assert_ok(t->context, bo_attention_step(t->context, t->attention, 1, &in, &state, out + i * VALUE));
        in.q += WIDTH, in.k += WIDTH, in.v += VALUE;
        if (in.log_gate) in.log_gate += trial_width(t->d, LOG_GATE);
        if (in.beta) in.beta++;
    }
    assert_int_equal(bo_attention_state_tokens(state), TOKENS);
    free(state);
}

/* Values are near one, so that a sum grows with N. A sum of N float32 terms drifts by about √N / 4 of its last place,
 * 2⁻²⁴ √N / 4 = 5e-6 of it for N steps. Features of both signs cancel, which increases the relative drift: 20 times
 * more is allowed. With a gate that forgets, errors do not accumulate, and only the rounding errors of one token
 * remain. */
static void check(const trial *t, const double *truth, const float *out, const char *what)
{
    double tolerance = t->d->gate ? 1e-5 : 1e-4;
    double largest = 1;
    for (size_t i = 0; i < LAST * VALUE; i++) largest = fmax(largest, fabs(truth[i]));
    for (size_t i = 0; i < t->count[OUT]; i++)
        if (!isfinite(out[i])) fail_msg("%s, %s: output %zu is %g", t->desc.name, what, i, (double)out[i]);
    for (size_t i = 0; i < LAST * VALUE; i++) {
        double found = (double)out[t->count[OUT] - LAST * VALUE + i];
        if (fabs(found - truth[i]) > tolerance * largest)
            fail_msg("%s, %s: found %.9g, expected %.9g", t->desc.name, what, found, truth[i]);
    }
}

static void long_sequences_do_not_drift(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    float *stepped = trial_floats(TOKENS * VALUE);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        trial_desc desc = {.name = names[i],
                           .attention = kind_desc(kind_named(names[i]), 1, 1, WIDTH, VALUE, true, FEATURES),
                           .shape = {.sequences = 1, .tokens = TOKENS},
                           .forward_only = true,
                           .seed = 4};
        trial t = trial_make(context, &desc);
        for (size_t j = 0; j < t.count[V]; j++) t.array[V][j] += 1; /* averages of order one, to make drift visible */
        double *truth = last_outputs(&t);
        trial_forward(&t);
        check(&t, truth, t.array[OUT], "forward");
        step_through(&t, stepped);
        check(&t, truth, stepped, "steps");
        free(truth);
        trial_drop(&t);
    }
    free(stepped);
    bo_context_destroy(context);
}

/* ---- slow gates -------------------------------------------------------------------------------------------------- */

/* The same key repeated with a gate that decays slowly: the sums are geometric series whose log scale is always that of
 * the key, a number much larger than log g. v = 1 for the first half and 0 for the second: o = (g^(N/2) - g^N) / (1 -
 * g^N) for both kinds of gates. */
static void check_slow_gate(bo_context *context, bo_gate gate, double norm, double log_gate)
{
    enum { HALF = 1000 };
    bo_attention_desc desc = {.kind = BO_ATTENTION_FAVOR,
                              .heads = 1,
                              .dim = WIDTH,
                              .value_dim = 1,
                              .causal = true,
                              .gate = gate,
                              .features = {.features = FEATURES, .seed = 2}};
    trial_desc full = {
        .name = "slow gate", .attention = desc, .shape = {.sequences = 1, .tokens = 2 * HALF}, .seed = 1};
    trial t = trial_make(context, &full);
    for (size_t i = 0; i < t.count[K]; i++) t.array[Q][i] = t.array[K][i] = (float)(norm / 2); /* WIDTH is 4 */
    for (size_t i = 0; i < t.count[V]; i++) t.array[V][i] = i < HALF;
    for (size_t i = 0; i < t.count[LOG_GATE]; i++) t.array[LOG_GATE][i] = (float)log_gate;
    double g = (double)(float)log_gate, truth = (exp(HALF * g) - exp(2 * HALF * g)) / -expm1(2 * HALF * g);
    float *stepped = trial_floats(2 * HALF);
    void *state = aligned_alloc(64, bo_attention_state_bytes(t.attention) / 64 * 64 + 64);
    assert_ok(context, bo_attention_state_init(context, t.attention, state));
    bo_attention_inputs in = trial_inputs(&t);
    for (size_t i = 0; i < 2 * HALF; i++, in.q += WIDTH, in.k += WIDTH, in.v++, in.log_gate++)
        assert_ok(context, bo_attention_step(context, t.attention, 1, &in, &state, stepped + i));
    trial_forward(&t);
    double found[] = {(double)t.array[OUT][2 * HALF - 1], (double)stepped[2 * HALF - 1]};
    for (size_t i = 0; i < 2; i++) /* 2000 rounding errors of a sum: 2⁻²⁴ √2000 = 3e-6; ten times more is allowed */
        if (fabs(found[i] - truth) > 3e-5)
            fail_msg("gate %s, |k| = %g, log g = %g, by %s: %.7g, expected %.7g", bo_gate_name(gate), norm, log_gate,
                     i ? "steps" : "forward", found[i], truth);
    free(stepped);
    free(state);
    trial_drop(&t);
}

static void slow_gates_are_not_lost(void **unused)
{
    (void)unused;
    static const double norms[] = {0.1, 30, 100, 1000}, gates[] = {-1e-2, -1e-3, -1e-4, -1e-5};
    bo_context *context = test_context(1);
    for (size_t i = 0; i < 16; i++) {
        check_slow_gate(context, BO_GATE_DECAY, norms[i / 4], gates[i % 4]);
        check_slow_gate(context, BO_GATE_CONVEX, norms[i / 4], gates[i % 4]);
    }
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(long_sequences_do_not_drift),
                                       cmocka_unit_test(slow_gates_are_not_lost)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
