/* Finite inputs of any size: outputs and gradients are finite, or the call fails with BO_NUMERIC. */
#include "cases.h"

/* The array to change, and the amount. */
typedef struct extreme {
    const char *name;
    trial_array which;
    bool set; /* true: set to the value; false: multiply by it */
    float value;
} extreme;

static const extreme extremes[] = {
    {"q = 0", Q, true, 0},
    {"k = 0", K, true, 0},
    {"v of 1e30", V, false, 1e30F},
    {"v of 1e-40", V, false, 1e-40F},
    {"dout of 1e20", OUT, false, 1e20F},
    {"gates of e^-100", LOG_GATE, true, -100},
    {"gates of e^-1e5", LOG_GATE, true, -1e5F},
    {"gates of e^-3e38", LOG_GATE, true, -3e38F},
    {"gates of 1", LOG_GATE, true, 0},
    {"mix of 1e-30", MIX, true, 1e-30F},
    {"mix of 1e30", MIX, true, 1e30F},
    {"sigma of 0", SIGMA, true, 0},
    {"sigma of 1000", SIGMA, true, 1000},
    {"m of 0", M, true, 0},
    {"m of 10", M, true, 10},
    {"m_k of 0", M_K, true, 0},
    {"bias of 40", BIAS, true, 40},
    {"bias_k of -40", BIAS_K, true, -40},
    {"beta of 0", BETA, true, 0},
    {"lambda of 1e-10", LAMBDA, true, 1e-10F},
    {"lambda of 1e10", LAMBDA, true, 1e10F},
    {"decays of 1", LOG_DECAY, true, 0},
    {"decays of e^-1000", LOG_DECAY, true, -1000},
};

/* Checks that every written value is finite. */
static void assert_finite(const trial *t, const char *what)
{
    for (size_t i = 0; i < t->count[OUT]; i++)
        if (!isfinite(t->array[OUT][i]))
            fail_msg("%s, %s: output %zu is %g", t->desc.name, what, i, (double)t->array[OUT][i]);
    for (size_t a = Q; a < OUT; a++)
        for (size_t i = 0; i < t->count[a]; i++)
            if (!isfinite(t->gradient[a][i]))
                fail_msg("%s, %s: the gradient of %s, number %zu of %zu, is %g", t->desc.name, what, trial_names[a], i,
                         t->count[a], (double)t->gradient[a][i]);
}

static trial make_trial(bo_context *context, const kind_of *kind, bool causal, double norm, uint64_t seed)
{
    trial_desc desc = {.name = kind->name,
                       .attention = kind_desc(kind, 2, 1, 8, 4, causal, 16),
                       .shape = {.sequences = 1, .tokens = 40},
                       .norm = norm,
                       .seed = seed};
    return trial_make(context, &desc);
}

static void extreme_arrays_leave_numbers(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    for (size_t i = 0; i < 2 * KINDS; i++)
        for (size_t n = 0; n < sizeof extremes / sizeof *extremes; n++) {
            const extreme *e = &extremes[n];
            trial t = make_trial(context, &kinds[i / 2], i % 2, 1.5, 3);
            float *array = e->which == OUT ? t.gradient[OUT] : t.array[e->which];
            for (size_t j = 0; j < t.count[e->which]; j++) array[j] = e->set ? e->value : e->value * array[j];
            trial_forward(&t);
            trial_backward(&t);
            assert_finite(&t, e->name);
            trial_drop(&t);
        }
    bo_context_destroy(context);
}

/* Norms of any size. Up to 1000 every kind succeeds; for larger norms the call may fail, if exponents or products
 * overflow float32. */
static void queries_of_any_norm_give_finite_outputs(void **state)
{
    (void)state;
    static const double norms[] = {1e-30, 1e-6, 60, 100, 150, 200, 300, 500, 1000, 1e5, 1e12, 1e20, 1e36};
    bo_context *context = test_context(1);
    for (size_t i = 0; i < 2 * KINDS; i++)
        for (size_t n = 0; n < 3 * sizeof norms / sizeof *norms; n++) {
            char what[32];
            trial t = make_trial(context, &kinds[i / 2], i % 2, norms[n / 3], 100 + n % 3);
            bo_attention_inputs in = trial_inputs(&t);
            snprintf(what, sizeof what, "norm %g, seed %zu", norms[n / 3], 100 + n % 3);
            bo_status status =
                bo_attention_forward_arrays(context, t.attention, &t.desc.shape, &in, NULL, NULL, t.array[OUT], NULL);
            if (status != BO_OK && (status != BO_NUMERIC || norms[n / 3] <= 1000))
                fail_msg("%s, %s: %s", t.desc.name, what, bo_context_error(context));
            if (status == BO_OK && norms[n / 3] <= 1000) {
                trial_forward(&t);
                trial_backward(&t);
                assert_finite(&t, what);
            }
            for (size_t j = 0; status == BO_OK && j < t.count[OUT]; j++)
                if (!isfinite(t.array[OUT][j]))
                    fail_msg("%s, %s: output %g", t.desc.name, what, (double)t.array[OUT][j]);
            trial_drop(&t);
        }
    bo_context_destroy(context);
}

/* ---- comparison with the reference ------------------------------------------------------------------------------- */

/* The first keys have score 0, and many later keys have a much larger score: sums of weights relative to a late maximum
 * must not overflow. */
static void rising_scores_do_not_overflow(void **state)
{
    (void)state;
    static const double scores[] = {2, 3.9, 4.1, 20, 60, 79.5, 87, 200};
    bo_context *context = test_context(1);
    for (size_t i = 0; i < 2 * sizeof scores / sizeof *scores; i++) {
        trial_desc desc = {
            .name = "rising scores",
            .attention = {.kind = BO_ATTENTION_SOFTMAX, .heads = 1, .dim = 4, .scale = 1, .causal = i % 2},
            .shape = {.sequences = 1, .tokens = i % 2 ? 600 : 5, .key_tokens = i % 2 ? 0 : 3000},
            .forward_only = true,
            .seed = i};
        trial t = trial_make(context, &desc);
        for (size_t j = 0; j < t.count[Q]; j++) t.array[Q][j] = j % 4 == 0 ? 10 : 0;
        for (size_t j = 0; j < t.count[K]; j++)
            t.array[K][j] = j % 4 == 0 && j >= 4 * 130 ? (float)(scores[i / 2] / 10) : 0;
        for (size_t j = 0; j < t.count[V]; j++) t.array[V][j] = 5 + t.array[V][j];
        trial_forward(&t);
        verify_expected expected = verify_make(&t);
        verify_forward(&t, &expected);
        verify_drop(&expected);
        trial_drop(&t);
    }
    bo_context_destroy(context);
}

/* All weights of the window are far below one, and the sums are still empty: the gradients of the sums are large in
 * proportion. */
static void faint_windows_have_gradients(void **state)
{
    (void)state;
    static const double scores[] = {-3, -8, -20, -40, -60};
    static const char *const names[] = {"hybrid of elu", "hybrid of relu", "hybrid"};
    bo_context *context = test_context(1);
    for (size_t i = 0; i < 15; i++) {
        trial_desc desc = {.name = names[i / 5],
                           .attention = kind_desc(kind_named(names[i / 5]), 2, 1, 4, 3, true, 8),
                           .shape = {.sequences = 1, .tokens = 3},
                           .norm = 0.3,
                           .final_gradient = true,
                           .no_parameters = true,
                           .seed = i};
        desc.attention.scale = -scores[i % 5] / 4; /* |q| = |k| = 2, opposite */
        desc.attention.window = 8;
        trial t = trial_make(context, &desc);
        t.initial = trial_states(&t);
        for (size_t j = 0; j < t.count[Q]; j++) t.array[Q][j] -= j % 4 == 0 ? 2 : 0;
        for (size_t j = 0; j < t.count[K]; j++) t.array[K][j] += j % 4 == 0 ? 2 : 0;
        verify_trial(&t);
        trial_drop(&t);
    }
    bo_context_destroy(context);
}

/* ---- log scales -------------------------------------------------------------------------------------------------- */

/* A state that has absorbed one key of norm 1000 contains exp(log_scale) z = φ(k). The log scale is about 2e5, where
 * float32 has a precision of only 0.01; the remainder must be in z. Projections have an error of 2⁻²² Σ|w_j x_j|, below
 * 1e-3. */
static void log_scales_keep_precision(void **unused)
{
    (void)unused;
    static const bo_function functions[] = {BO_FUNCTION_POSITIVE, BO_FUNCTION_HYPERBOLIC, BO_FUNCTION_OPRF,
                                            BO_FUNCTION_SINCOS};
    enum { WIDE = 8, FEATURES = 16 };
    bo_context *context = test_context(1);
    for (size_t n = 0; n < 40; n++) {
        bo_attention_desc desc = {.kind = BO_ATTENTION_FAVOR,
                                  .heads = 1,
                                  .dim = WIDE,
                                  .value_dim = 1,
                                  .causal = true,
                                  .features = {.function = functions[n % 4],
                                               .features = FEATURES,
                                               .pair_norm = functions[n % 4] == BO_FUNCTION_OPRF ? 1 : 0,
                                               .seed = n}};
        trial_desc full = {
            .name = "one key", .attention = desc, .shape = {.sequences = 1, .tokens = 1}, .norm = 1000, .seed = n};
        trial t = trial_make(context, &full);
        trial_forward(&t);
        float s[FEATURES], z[FEATURES];
        double log_scale, x[WIDE], c, phi[FEATURES], largest = 0;
        assert_ok(context, bo_attention_state_get(context, t.attention, t.final[0], 0, s, z, &log_scale));
        for (size_t i = 0; i < WIDE; i++) x[i] = (double)t.array[K][i];
        oracle_map map = oracle_map_make(context, bo_attention_features(t.attention, 0));
        oracle_noise none = {0};
        oracle_phi(&map, 1, x, &c, phi, &none);
        oracle_map_drop(&map);
        for (size_t f = 0; f < FEATURES; f++) largest = fmax(largest, fabs(phi[f]));
        for (size_t f = 0; f < FEATURES; f++)
            if (fabs(phi[f]) > 0.3 * largest)
                assert_close(log(fabs((double)z[f])) + log_scale, log(fabs(phi[f])) + c, 2e-3);
        trial_drop(&t);
    }
    bo_context_destroy(context);
}

/* One of five keys is too large, without queries: the call fails immediately, not when the state is used. */
static void large_keys_are_refused_immediately(void **unused)
{
    (void)unused;
    static const bo_function functions[] = {BO_FUNCTION_POSITIVE, BO_FUNCTION_HYPERBOLIC, BO_FUNCTION_OPRF,
                                            BO_FUNCTION_SINCOS};
    static const float sizes[] = {4e5F, 3e8F, 4e20F, 1e38F};
    bo_context *context = test_context(1);
    for (size_t n = 0; n < 16; n++) {
        bo_attention_desc desc = {.kind = BO_ATTENTION_FAVOR,
                                  .heads = 1,
                                  .dim = 4,
                                  .features = {.function = functions[n % 4],
                                               .features = 8,
                                               .pair_norm = functions[n % 4] == BO_FUNCTION_OPRF ? 1 : 0,
                                               .seed = n}};
        trial_desc full = {.name = "keys", .attention = desc, .shape = {.sequences = 1, .key_tokens = 5}, .seed = n};
        trial t = trial_make(context, &full);
        bo_attention_inputs in = trial_inputs(&t);
        t.array[K][2 * 4] = sizes[n / 4];
        assert_int_equal(bo_attention_forward_arrays(context, t.attention, &full.shape, &in, NULL, t.final, NULL, NULL),
                         BO_NUMERIC);
        trial_drop(&t);
    }
    bo_context_destroy(context);
}

/* Also before the window: features of a key whose log scale has lost its fraction are refused, not dropped. */
static void large_keys_before_the_window_are_refused(void **unused)
{
    (void)unused;
    enum { TOKENS = 6, WIDTH = 4 };
    bo_context *context = test_context(1);
    bo_attention_desc desc = {.kind = BO_ATTENTION_HYBRID,
                              .heads = 1,
                              .dim = WIDTH,
                              .causal = true,
                              .window = 2,
                              .features = {.features = 16, .function = BO_FUNCTION_SINCOS}};
    bo_attention *attention;
    assert_ok(context, bo_attention_create(context, &desc, &attention));
    float q[TOKENS * WIDTH], k[TOKENS * WIDTH], v[TOKENS * WIDTH], out[TOKENS * WIDTH];
    for (int i = 0; i < TOKENS * WIDTH; i++) q[i] = 0.1f * (float)(i % 5), k[i] = i < WIDTH ? 1e5f : 0.2f, v[i] = 1;
    bo_attention_shape shape = {.sequences = 1, .tokens = TOKENS};
    bo_attention_inputs in = {.q = q, .k = k, .v = v};
    assert_fails(context, BO_NUMERIC, "k of norm 2e+05",
                 bo_attention_forward_arrays(context, attention, &shape, &in, NULL, NULL, out, NULL));
    void *state = aligned_alloc(64, (bo_attention_state_bytes(attention) + 63) / 64 * 64);
    assert_ok(context, bo_attention_state_init(context, attention, state));
    for (size_t t = 0; t < 3; t++) { /* at the third token, the first token leaves the window */
        bo_attention_inputs token = {.q = q + t * WIDTH, .k = k + t * WIDTH, .v = v + t * WIDTH};
        bo_status status = bo_attention_step(context, attention, 1, &token, &state, out);
        assert_int_equal(status, t < 2 ? BO_OK : BO_NUMERIC);
    }
    free(state);
    bo_attention_destroy(attention);
    bo_context_destroy(context);
}

/* Values whose sums overflow float32: hybrid attention fails like the other kinds, for a sequence and in steps. */
static void overflowing_values_are_refused(void **unused)
{
    (void)unused;
    static const char *const names[] = {"hybrid", "hybrid of elu", "hybrid of hedgehog", "favor", "softmax"};
    enum { LENGTH = 60, WIDTH = 4 };
    bo_context *context = test_context(1);
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        bo_attention_desc desc = kind_desc(kind_named(names[n]), 1, 1, WIDTH, WIDTH, true, 16);
        if (desc.kind == BO_ATTENTION_HYBRID) desc.window = 4;
        bo_attention *attention;
        assert_ok(context, bo_attention_create(context, &desc, &attention));
        float q[LENGTH * WIDTH], v[LENGTH * WIDTH], out[LENGTH * WIDTH];
        for (size_t i = 0; i < LENGTH * WIDTH; i++) q[i] = 0.1f * (float)(i % 7), v[i] = 2e38f;
        bo_attention_inputs in = {.q = q, .k = q, .v = v};
        bo_attention_shape shape = {.sequences = 1, .tokens = LENGTH};
        assert_int_equal(bo_attention_forward_arrays(context, attention, &shape, &in, NULL, NULL, out, NULL),
                         BO_NUMERIC);
        void *state = aligned_alloc(64, (bo_attention_state_bytes(attention) + 63) / 64 * 64);
        assert_ok(context, bo_attention_state_init(context, attention, state));
        bo_status status = BO_OK;
        for (size_t t = 0; status == BO_OK && t < LENGTH; t++) {
            bo_attention_inputs token = {.q = q + t * WIDTH, .k = q + t * WIDTH, .v = v + t * WIDTH};
            status = bo_attention_step(context, attention, 1, &token, &state, out);
            for (size_t j = 0; status == BO_OK && j < WIDTH; j++) assert_true(isfinite(out[j]));
        }
        assert_int_equal(status, BO_NUMERIC);
        free(state);
        bo_attention_destroy(attention);
    }
    bo_context_destroy(context);
}

/* Backward with dout multiplied by `size`; all gradients are requested, including those of the initial states. */
static bo_status backward_of_size(trial *t, float size)
{
    for (size_t i = 0; i < t->count[OUT]; i++) t->gradient[OUT][i] *= size;
    trial_forward(t);
    float *requested[TRIAL_ARRAYS];
    for (size_t i = 0; i < TRIAL_ARRAYS; i++) requested[i] = t->count[i] ? t->gradient[i] : NULL;
    bo_attention_gradients g = trial_gradients(requested, t->initial ? t->d_initial : NULL);
    bo_attention_inputs in = trial_inputs(t);
    return bo_attention_backward_arrays(t->context, t->attention, &t->desc.shape, &in, (const void *const *)t->initial,
                                        t->array[OUT], t->tape, t->gradient[OUT], NULL, &g);
}

/* No kind returns finite values for gradients that overflow float32. */
static void overflowing_gradients_are_refused(void **unused)
{
    (void)unused;
    static const float sizes[] = {1e10f, 1e20f, 1e30f};
    bo_context *context = test_context(2);
    for (size_t i = 0; i < 3 * KINDS; i++) {
        trial_desc desc = {.name = kinds[i / 3].name,
                           .attention = kind_desc(&kinds[i / 3], 2, 1, 8, 4, true, 16),
                           .shape = {.sequences = 2, .tokens = 40},
                           .past = 3,
                           .seed = 5};
        trial t = trial_make(context, &desc);
        for (size_t j = 0; j < t.count[V]; j++) t.array[V][j] *= 1e25f;
        bo_status status = backward_of_size(&t, sizes[i % 3]);
        if (status == BO_OK) assert_finite(&t, "v of 1e25");
        for (size_t s = 0; status == BO_OK && s < 2; s++)
            for (size_t j = 0; j < t.gradient_floats; j++) assert_true(isfinite(t.d_initial[s][j]));
        if (status != BO_OK) assert_int_equal(status, BO_NUMERIC);
        /* normalized kinds may skip rows: attention.h, clamp */
        if (sizes[i % 3] == 1e30f && kind_is_memory(&kinds[i / 3])) assert_int_equal(status, BO_NUMERIC);
        trial_drop(&t);
    }
    bo_context_destroy(context);
}

/* The message names the array. */
static void overflowing_gradients_are_named(void **unused)
{
    (void)unused;
    static const struct {
        const char *kind, *message;
        trial_array only; /* OUT means the gradient of the initial state */
    } cases[] = {{"delta", "the gradient of q is", Q},
                 {"gated delta", "the gradient of log_gate is", LOG_GATE},
                 {"ridge", "the gradient of k is", K},
                 {"ridge", "the gradient of lambda[", LAMBDA},
                 {"delta", "the gradient of beta is", BETA},
                 {"retention", "the gradient of log_decay[", LOG_DECAY},
                 {"ridge", "the gradient of the initial state of sequence 0 is", OUT}};
    bo_context *context = test_context(1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        trial_desc desc = {.name = cases[i].kind,
                           .attention = kind_desc(kind_named(cases[i].kind), 2, 1, 8, 4, true, 16),
                           .shape = {.sequences = 1, .tokens = 40},
                           .past = 3,
                           .seed = 6};
        trial t = trial_make(context, &desc);
        for (size_t j = 0; j < t.count[V]; j++) t.array[V][j] *= 1e25f;
        for (size_t j = 0; j < t.count[OUT]; j++) t.gradient[OUT][j] *= 1e25f;
        trial_forward(&t);
        float *requested[TRIAL_ARRAYS] = {NULL};
        if (cases[i].only != OUT) requested[cases[i].only] = t.gradient[cases[i].only];
        bo_attention_gradients g = trial_gradients(requested, cases[i].only == OUT ? t.d_initial : NULL);
        bo_attention_inputs in = trial_inputs(&t);
        assert_fails(context, BO_NUMERIC, cases[i].message,
                     bo_attention_backward_arrays(context, t.attention, &t.desc.shape, &in,
                                                  (const void *const *)t.initial, t.array[OUT], t.tape, t.gradient[OUT],
                                                  NULL, &g));
        trial_drop(&t);
    }
    bo_context_destroy(context);
}

/* With a convex gate of exactly 1, a token has the minimum weight 1e-30, which is constant for gates near 1: the
 * gradient consists of the decay's part, as large as the other gradients. */
static void gates_of_one_have_gradients_of_their_size(void **unused)
{
    (void)unused;
    bo_context *context = test_context(1);
    for (size_t i = 0; i < KINDS; i++) {
        if (kinds[i].gate != BO_GATE_CONVEX) continue;
        trial t = make_trial(context, &kinds[i], true, 1, 9);
        size_t tokens = t.count[LOG_GATE];
        for (size_t j = 0; j < tokens; j += 3) t.array[LOG_GATE][j] = 0;
        trial_forward(&t);
        trial_backward(&t);
        for (size_t j = 0; j < tokens; j++)
            if (!(fabsf(t.gradient[LOG_GATE][j]) < 1e4f))
                fail_msg("%s: the gradient of log gate %zu is %g", t.desc.name, j, (double)t.gradient[LOG_GATE][j]);
        trial_drop(&t);
    }
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(extreme_arrays_leave_numbers),
        cmocka_unit_test(queries_of_any_norm_give_finite_outputs),
        cmocka_unit_test(rising_scores_do_not_overflow),
        cmocka_unit_test(faint_windows_have_gradients),
        cmocka_unit_test(log_scales_keep_precision),
        cmocka_unit_test(large_keys_are_refused_immediately),
        cmocka_unit_test(large_keys_before_the_window_are_refused),
        cmocka_unit_test(overflowing_values_are_refused),
        cmocka_unit_test(overflowing_gradients_are_refused),
        cmocka_unit_test(overflowing_gradients_are_named),
        cmocka_unit_test(gates_of_one_have_gradients_of_their_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
