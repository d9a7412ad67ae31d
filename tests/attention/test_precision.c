/* Attention with products in bfloat16 compared with float32.
 *
 * A factor of a product is rounded by at most 2^-8 of its size, by about u = 2^-9 on average. Roundings are
 * independent, so the norm of the error of a product is about u times the norm of the terms. From q, k and v to the
 * output there are at most six roundings of factors in a row (x and w, then the features or q and k, the weights or
 * scores, and v), to the gradients at most twelve. Outputs are means with positive weights. Gradients are differences
 * of two such means, which doubles the relative error. The bounds are 6 u and 24 u; a missing mask or a wrong key
 * changes results by their size. */
#include "cases.h"

enum { HEADS = 4, KEY_HEADS = 2, WIDTH = 24, VALUE = 20, FEATURES = 40 };
static const double u = 0x1p-9;

/* Kinds whose engine rounds, with positive weights. */
static const char *const rounded[] = {"softmax",          "softmax in a window",  "favor",
                                      "favor hyperbolic", "favor, fixed",         "dark",
                                      "hybrid",           "hybrid with M, fixed", "power"};
/* Kinds that compute in float32 in any precision. */
static const char *const exact[] = {"gla", "delta", "ridge"};

static bo_context *context_in(bo_precision precision, int threads)
{
    bo_context *context = NULL;
    assert_int_equal(bo_context_create(&(bo_context_desc){.threads = threads, .precision = precision}, &context),
                     BO_OK);
    assert_int_equal(bo_context_describe(context)->precision, precision);
    return context;
}

/* The norm of a difference relative to the norm of the first array. */
static double difference(size_t n, const float *a, const float *b)
{
    double error = 0, size = 0;
    for (size_t i = 0; i < n; i++) {
        assert_true(isfinite(b[i]));
        error += pow((double)a[i] - (double)b[i], 2), size += pow((double)a[i], 2);
    }
    return size > 0 ? sqrt(error / size) : sqrt(error);
}

static trial run(bo_context *context, const trial_desc *desc)
{
    trial t = trial_make(context, desc);
    trial_forward(&t);
    trial_backward(&t);
    return t;
}

static void compare(const trial_desc *desc, bool rounds)
{
    bo_context *contexts[2] = {context_in(BO_PRECISION_FLOAT32, 2), context_in(BO_PRECISION_BFLOAT16, 2)};
    trial single = run(contexts[0], desc), half = run(contexts[1], desc);
    double out = difference(single.count[OUT], single.array[OUT], half.array[OUT]);
    if (!(out <= (rounds ? 6 * u : 0))) fail_msg("%s: outputs differ by %g", desc->name, out);
    if (rounds && out == 0) fail_msg("%s: nothing was rounded", desc->name);
    for (size_t a = Q; a <= V; a++) {
        double slope = difference(single.count[a], single.gradient[a], half.gradient[a]);
        if (!(slope <= (rounds ? 24 * u : 0)))
            fail_msg("%s: gradients of %s differ by %g", desc->name, trial_names[a], slope);
    }
    trial_drop(&single), trial_drop(&half);
    bo_context_destroy(contexts[0]), bo_context_destroy(contexts[1]);
}

static trial_desc case_of(const char *name, size_t tokens, bool causal, size_t past)
{
    trial_desc desc = {.name = name, .shape = {.sequences = 2, .tokens = tokens}, .past = past, .norm = 1};
    desc.attention = kind_desc(kind_named(name), HEADS, KEY_HEADS, WIDTH, VALUE, causal, FEATURES);
    return desc;
}

static void results_differ_by_rounding(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rounded / sizeof *rounded; i++) {
        trial_desc cases[] = {case_of(rounded[i], 333, true, 0), case_of(rounded[i], 70, true, 37),
                              case_of(rounded[i], 1, true, 5)};
        for (size_t c = 0; c < 3; c++) compare(&cases[c], true);
        trial_desc both_ways = case_of(rounded[i], 150, false, 0);
        if (!kind_named(rounded[i])->causal_only) compare(&both_ways, true);
    }
}

static void other_kinds_do_not_change(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof exact / sizeof *exact; i++) {
        trial_desc desc = case_of(exact[i], 70, true, 5);
        compare(&desc, false);
    }
}

/* Redrawing the same frequencies gives bit-identical results: the precision of the maps does not change. */
static void new_maps_keep_the_precision(void **state)
{
    (void)state;
    bo_context *context = context_in(BO_PRECISION_BFLOAT16, 2);
    trial_desc desc = case_of("favor", 70, true, 0);
    trial first = run(context, &desc), again = trial_make(context, &desc);
    assert_ok(context, bo_attention_redraw(context, again.attention, 0));
    trial_forward(&again);
    assert_memory_equal(again.array[OUT], first.array[OUT], first.count[OUT] * sizeof(float));
    trial_drop(&first), trial_drop(&again);
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(results_differ_by_rounding),
                                       cmocka_unit_test(other_kinds_do_not_change),
                                       cmocka_unit_test(new_maps_keep_the_precision)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
