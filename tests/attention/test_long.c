/* 100,000 tokens: the last outputs against the oracle, by forward and step by step: no drift, no NaN. */
#include "cases.h"

enum { TOKENS = 100000, LAST = 4, WIDTH = 4, VALUE = 3, FEATURES = 8 };

static const char *const names[] = {
    "linear elu",    "linear rbf, decay, not divided", "rfa",  "rfa-gate", "favor",
    "favor, convex", "favor sin/cos, convex",          "dark", "hybrid",   "exact in a window"};

/* The last few queries of the oracle, which sees every key. */
static double *last_outputs(const trial *t)
{
    double *q = oracle_zeros(LAST * WIDTH), *k = oracle_zeros(TOKENS * WIDTH), *v = oracle_zeros(TOKENS * VALUE);
    double *gate = oracle_zeros(TOKENS), *out = oracle_zeros(LAST * VALUE), sigma[WIDTH], m[WIDTH * WIDTH], mix[1];
    for (size_t i = 0; i < LAST * WIDTH; i++) q[i] = (double)t->array[Q][t->count[Q] - LAST * WIDTH + i];
    for (size_t i = 0; i < t->count[K]; i++) k[i] = (double)t->array[K][i];
    for (size_t i = 0; i < t->count[V]; i++) v[i] = (double)t->array[V][i];
    for (size_t i = 0; i < t->count[LOG_GATE]; i++) gate[i] = (double)t->array[LOG_GATE][i];
    for (size_t i = 0; i < t->count[SIGMA]; i++) sigma[i] = (double)t->array[SIGMA][i];
    for (size_t i = 0; i < t->count[M]; i++) m[i] = (double)t->array[M][i];
    for (size_t i = 0; i < t->count[MIX]; i++) mix[i] = (double)t->array[MIX][i];
    oracle_head head = {.context = t->context,
                        .desc = t->d,
                        .features = bo_attention_features(t->attention, 0),
                        .group = 1,
                        .queries = LAST,
                        .keys = TOKENS,
                        .q = q,
                        .k = k,
                        .v = v,
                        .log_gate = t->count[LOG_GATE] ? gate : NULL,
                        .sigma = t->count[SIGMA] ? sigma : NULL,
                        .m = t->count[M] ? m : NULL,
                        .mix = t->count[MIX] ? mix : NULL,
                        .out = out};
    oracle_compute(&head);
    free(q);
    free(k);
    free(v);
    free(gate);
    return out;
}

static void step_through(const trial *t, float *out)
{
    void *state = aligned_alloc(64, bo_attention_state_bytes(t->attention) / 64 * 64 + 64);
    assert_ok(t->context, bo_attention_state_begin(t->context, t->attention, state));
    bo_attention_inputs in = trial_inputs(t);
    for (size_t i = 0; i < TOKENS; i++) {
        assert_ok(t->context, bo_attention_step(t->context, t->attention, 1, &in, &state, out + i * VALUE));
        in.q += WIDTH, in.k += WIDTH, in.v += VALUE;
        if (in.log_gate) in.log_gate++;
    }
    assert_int_equal(bo_attention_state_tokens(state), TOKENS);
    free(state);
}

/* Values are near one, so that a sum grows with N. A sum of N float32 terms wanders by about √N / 4 of its own last place,
 * 2⁻²⁴ √N / 4 = 5e-6 of it for N steps; features of both signs cancel, and the same wandering is then more of what is left:
 * 20 times as much is allowed. With a gate that forgets nothing adds up, and the few roundings of one token remain. */
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
        for (size_t j = 0; j < t.count[V]; j++)
            t.array[V][j] += 1; /* averages of order one, so that drift would show */
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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(long_sequences_do_not_drift)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
