/* Attention in float64 compared with the float64 oracle of the tests, with the float32 path, and with finite
 * differences of itself. */
#include "cases.h"
#include "features/facts.h"
#include "trial_f64.h"

/* ---- the oracle and float32 -------------------------------------------------------------------------------------- */

/* Float64 starts from empty states and does not support CUSTOM maps. */
static bool has_f64(const trial_desc *desc)
{
    return !desc->past && !desc->shape.no_keys && desc->attention.features.kernel != BO_KERNEL_CUSTOM;
}

/* The oracle rounds some numbers to float32 that the library has in double: the importance weights of drawn
 * frequencies, the dense matrix of structured ones, and log scales, which are the unit of a clamp. A rounded exponent
 * of size E leaves a relative error of E 2^-24, with E of several hundred for norms of 30. */
static double precision_of(const trial *t)
{
    const bo_features *map = bo_attention_features(t->attention, 0);
    const bo_features_desc *d = map ? bo_features_describe(map) : NULL;
    bool clamps = map && bo_features_scaled(map) && (t->desc.attention.clamp > 0 || !bo_features_nonnegative(map));
    bool rounded = map && (bo_features_importance(map) || d->draw == BO_DRAW_HADAMARD);
    if (!clamps && !rounded) return 1e-10;
    return t->desc.norm > 10 ? 3e-4 : 3e-6;
}

/* Both computations are in double and sum the same terms in another order. The terms of a row may be larger than the
 * row, so a small part of the largest number is allowed too, and of 1, which is the size of dout and of values. */
static void compare(const trial *t, const char *what, size_t count, size_t width, const double *found,
                    const double *truth)
{
    double largest = 0, precision = precision_of(t);
    for (size_t i = 0; i < count; i++) largest = fmax(largest, fabs(truth[i]));
    for (size_t row = 0; row * width < count; row++) {
        double size = 0;
        for (size_t i = row * width; i < (row + 1) * width; i++) size = fmax(size, fabs(truth[i]));
        double tolerance = precision * (size + 1e-2 * largest) + 1e-13;
        for (size_t i = row * width; i < (row + 1) * width; i++)
            if (!(fabs(found[i] - truth[i]) <= tolerance))
                fail_msg("%s: %s in float64, row %zu, column %zu: found %.17g, expected %.17g within %.3g",
                         t->desc.name, what, row, i - row * width, found[i], truth[i], tolerance);
    }
}

static void replace(double *truth, const double *found, size_t count)
{
    memcpy(truth, found, count * sizeof *truth);
}

/* The oracle reads frequencies times √γ in float32. A γ of 1/4 makes these exact. */
static void make_exact(bo_attention_desc *desc)
{
    if (desc->features.kernel != BO_KERNEL_SOFTMAX) return;
    if (desc->kind != BO_ATTENTION_LINEAR) desc->scale = 0.25;
    if (desc->kind == BO_ATTENTION_LINEAR || desc->kind == BO_ATTENTION_HYBRID) desc->features.gamma = 0.25;
}

/* Float64 agrees with the oracle; float32 agrees with float64 within the tolerances of float32. */
static void check_trial(trial *t)
{
    trial_forward(t);
    trial_backward(t);
    verify_expected v = verify_make(t);
    trial_f64 w = trial_f64_make(t);
    trial_f64_forward(t->context, &w);
    trial_f64_backward(t->context, &w);
    compare(t, "out", t->count[OUT], t->d->value_dim, w.array[OUT], v.truth.out);
    replace(v.truth.out, w.array[OUT], t->count[OUT]);
    for (size_t a = 0; a < OUT; a++) {
        char what[32];
        snprintf(what, sizeof what, "gradient of %s", trial_names[a]);
        compare(t, what, t->count[a], trial_width(t->d, (trial_array)a), w.gradient[a], v.truth.gradient[a]);
        replace(v.truth.gradient[a], w.gradient[a], t->count[a]);
    }
    const double *shaken[TRIAL_SHAKES];
    for (size_t n = 0; n < TRIAL_SHAKES; n++) shaken[n] = v.shaken[n].out;
    verify_compare(t, "out", t->count[OUT], t->d->value_dim, t->array[OUT], v.truth.out, shaken);
    verify_backward(t, &v);
    verify_drop(&v);
    trial_f64_drop(&w);
}

static void check(bo_context *context, const trial_desc *given)
{
    trial_desc desc = *given;
    desc.final_gradient = false;
    make_exact(&desc.attention);
    if (!has_f64(&desc)) return;
    trial t = trial_make(context, &desc);
    check_trial(&t);
    trial_drop(&t);
}

CASES_TEST(kinds, check)
CASES_TEST(widths, check)
CASES_TEST(groups, check)
CASES_TEST(packed, check)
CASES_TEST(cross, check)
CASES_TEST(norms, check)
CASES_TEST(clamps, check)

/* More sequences than groups in which gradients of parameters are summed. */
static void many_sequences(void **state)
{
    (void)state;
    static const char *const names[] = {"dark of low rank", "hybrid", "ridge"};
    bo_context *context = test_context(3);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        trial_desc desc = {.name = names[i],
                           .attention = kind_desc(kind_named(names[i]), 2, 1, 4, 3, true, 8),
                           .shape = {.sequences = 150, .tokens = 3},
                           .seed = i};
        check(context, &desc);
    }
    bo_context_destroy(context);
}

/* A hybrid whose gates clear the sums: the unit of the clamp is the largest weight in the window, here below 1, because
 * every score is negative. */
static void empty_sums_of_a_hybrid(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    trial_desc desc = {.name = "hybrid of elu, gates of 0",
                       .attention = kind_desc(kind_named("hybrid of elu, decay"), 1, 1, 4, 3, true, 8),
                       .shape = {.sequences = 1, .tokens = 21}};
    desc.attention.clamp = 20, desc.attention.window = 3;
    trial t = trial_make(context, &desc);
    for (size_t i = 0; i < t.count[LOG_GATE]; i++) t.array[LOG_GATE][i] = -1e9F;
    for (size_t i = 0; i < t.count[K]; i++) t.array[K][i] = fabsf(t.array[K][i]), t.array[Q][i] = -fabsf(t.array[Q][i]);
    check_trial(&t);
    trial_drop(&t);
    bo_context_destroy(context);
}

/* ---- finite differences ------------------------------------------------------------------------------------------ */

static double loss(bo_context *context, trial_f64 *w)
{
    trial_f64_forward(context, w);
    return oracle_dot(w->of->count[OUT], w->array[OUT], w->gradient[OUT]);
}

/* Moves numbers away from the ends of their ranges, so that both sides of a step are allowed and smooth: gates of 1 and
 * β = 0. Gates of 0 become moderate. */
static void make_smooth(trial_f64 *w)
{
    const size_t *count = w->of->count;
    for (size_t i = 0; i < count[LOG_GATE]; i++) w->array[LOG_GATE][i] = fmin(-0.02, fmax(-2, w->array[LOG_GATE][i]));
    for (size_t i = 0; i < count[LOG_DECAY]; i++) w->array[LOG_DECAY][i] = fmin(-0.02, w->array[LOG_DECAY][i]);
    for (size_t i = 0; i < count[BETA]; i++) w->array[BETA][i] = fmax(0.05, w->array[BETA][i]);
}

/* A central difference with step h has an error of ε |loss| / h + |third derivative| h², about 1e-9 and 1e-11 for h =
 * 1e-6, numbers of order one and sums of about ten outputs. */
static void check_differences(bo_context *context, const trial_desc *desc)
{
    const double step = 1e-6;
    trial t = trial_make(context, desc);
    trial_f64 w = trial_f64_make(&t);
    make_smooth(&w);
    trial_f64_backward(context, &w);
    double size = 1;
    for (size_t a = 0; a < OUT; a++)
        for (size_t i = 0; i < t.count[a]; i++) size = fmax(size, fabs(w.gradient[a][i]));
    for (size_t a = 0; a < OUT; a++)
        for (size_t i = 0; i < t.count[a]; i++) {
            double at = w.array[a][i], sides[2];
            for (int side = 0; side < 2; side++) {
                w.array[a][i] = at + (side ? step : -step);
                sides[side] = loss(context, &w);
            }
            w.array[a][i] = at;
            double slope = (sides[1] - sides[0]) / (2 * step);
            double tolerance = 1e-6 * fabs(slope) + 1e-7 * size;
            if (!(fabs(slope - w.gradient[a][i]) <= tolerance))
                fail_msg("%s: gradient of %s[%zu] is %.12g, the difference is %.12g within %.3g", desc->name,
                         trial_names[a], i, w.gradient[a][i], slope, tolerance);
        }
    trial_f64_drop(&w);
    trial_drop(&t);
}

static void gradients_are_differences(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    char name[128];
    for (size_t i = 0; i < KINDS; i++)
        for (int causal = kinds[i].causal_only; causal < 2; causal++) {
            trial_desc desc = {.name = CASE_NAME("%s%s", kinds[i].name, causal ? ", causal" : ""),
                               .attention = kind_desc(&kinds[i], 2, 1, 3, 2, causal, 6),
                               .shape = {.sequences = 1, .tokens = 8},
                               .norm = 0.7,
                               .one_map = causal,
                               .seed = i};
            if (desc.attention.window > 3) desc.attention.window = 3;
            if (has_f64(&desc)) check_differences(context, &desc);
        }
    bo_context_destroy(context);
}

/* ---- properties -------------------------------------------------------------------------------------------------- */

/* One thread and several give the same bits. */
static void threads_do_not_change_bits(void **state)
{
    (void)state;
    bo_context *one = test_context(1), *many = test_context(4);
    for (size_t i = 0; i < CASE_ENGINES; i++) {
        trial_desc desc = {.name = case_engines[i],
                           .attention = kind_desc(kind_named(case_engines[i]), 4, 2, 4, 3, true, 8),
                           .shape = {.sequences = 3, .tokens = 9},
                           .seed = i};
        trial t = trial_make(one, &desc);
        trial_f64 a = trial_f64_make(&t), b = trial_f64_make(&t);
        trial_f64_forward(one, &a), trial_f64_backward(one, &a);
        trial_f64_forward(many, &b), trial_f64_backward(many, &b);
        for (size_t n = 0; n < TRIAL_ARRAYS; n++) {
            assert_memory_equal(a.array[n], b.array[n], t.count[n] * sizeof(double));
            assert_memory_equal(a.gradient[n], b.gradient[n], t.count[n] * sizeof(double));
        }
        trial_f64_drop(&a), trial_f64_drop(&b);
        trial_drop(&t);
    }
    bo_context_destroy(one);
    bo_context_destroy(many);
}

/* Norms of 1e3: exponents of a million overflow neither float32 nor float64. */
static void large_inputs_stay_finite(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    for (size_t i = 0; i < CASE_ENGINES; i++) {
        trial_desc desc = {.name = case_engines[i],
                           .attention = kind_desc(kind_named(case_engines[i]), 2, 1, 4, 3, true, 8),
                           .shape = {.sequences = 1, .tokens = 12},
                           .norm = 1e3,
                           .seed = i};
        trial t = trial_make(context, &desc);
        trial_f64 w = trial_f64_make(&t);
        trial_f64_forward(context, &w), trial_f64_backward(context, &w); /* NaN or infinity in a result is an error */
        trial_f64_drop(&w);
        trial_drop(&t);
    }
    bo_context_destroy(context);
}

/* Equal keys and a small Λ: H has rank one, and rounding makes H + Λ indefinite. */
static void nearly_singular_systems(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    for (int causal = 0; causal < 2; causal++) {
        trial_desc desc = {.name = "nearly singular ridge",
                           .attention = kind_desc(kind_named("ridge"), 1, 1, 5, 3, causal, 0),
                           .shape = {.sequences = 1, .tokens = 40}};
        trial t = trial_make(context, &desc);
        trial_f64 w = trial_f64_make(&t);
        for (size_t i = 0; i < t.count[K]; i++) w.array[K][i] = w.array[K][i % 5];
        for (size_t i = 0; i < t.count[LAMBDA]; i++) w.array[LAMBDA][i] = 1e-18;
        trial_f64_forward(context, &w), trial_f64_backward(context, &w);
        trial_f64_drop(&w);
        trial_drop(&t);
    }
    bo_context_destroy(context);
}

/* The gradient of a zero loss is zero, and gradients that are not requested are not written. */
static void gradients_are_optional(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    for (size_t i = 0; i < CASE_ENGINES; i++) {
        trial_desc desc = {.name = case_engines[i],
                           .attention = kind_desc(kind_named(case_engines[i]), 2, 1, 4, 3, true, 8),
                           .shape = {.sequences = 2, .tokens = 5},
                           .seed = i};
        trial t = trial_make(context, &desc);
        trial_f64 w = trial_f64_make(&t);
        bo_attention_inputs_f64 in = trial_f64_inputs(&w);
        bo_attention_gradients_f64 all = trial_f64_gradients(&w);
        trial_f64_backward(context, &w);
        for (size_t a = 0; a < OUT; a++) {
            double *alone = oracle_zeros(t.count[a]), *arrays[TRIAL_ARRAYS] = {0};
            if (!t.count[a]) {
                free(alone);
                continue;
            }
            arrays[a] = alone;
            bo_attention_gradients_f64 only = {TRIAL_F64_MEMBERS(arrays)};
            assert_ok(context,
                      bo_attention_backward_f64(context, t.attention, &desc.shape, &in, w.gradient[OUT], &only));
            assert_memory_equal(alone, w.gradient[a], t.count[a] * sizeof *alone);
            free(alone);
        }
        assert_ok(context, bo_attention_backward_f64(context, t.attention, &desc.shape, &in, NULL, &all));
        for (size_t a = 0; a < OUT; a++)
            for (size_t n = 0; n < t.count[a]; n++) assert_close(w.gradient[a][n], 0, 0);
        trial_f64_drop(&w);
        trial_drop(&t);
    }
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_kinds),
        cmocka_unit_test(of_widths),
        cmocka_unit_test(of_groups),
        cmocka_unit_test(of_packed),
        cmocka_unit_test(of_cross),
        cmocka_unit_test(of_norms),
        cmocka_unit_test(of_clamps),
        cmocka_unit_test(many_sequences),
        cmocka_unit_test(empty_sums_of_a_hybrid),
        cmocka_unit_test(gradients_are_differences),
        cmocka_unit_test(nearly_singular_systems),
        cmocka_unit_test(threads_do_not_change_bits),
        cmocka_unit_test(large_inputs_stay_finite),
        cmocka_unit_test(gradients_are_optional),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
