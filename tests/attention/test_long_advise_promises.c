/* Predictions of advice hold in actual attention: on the data it was computed from, on other data, and for each
 * draw. */
#include "features/enums.h"
#include "attention/enums.h"
#include "advice.h"

/* Every map that is predicted to reach the target reaches it with new draws, within the variation of a draw. Values
 * with a nonzero mean make the target easy, but not the denominators of signed features: a denominator close to 0 makes
 * the result wrong, which happens for single queries of some draws. */
static void predicted_maps_reach_the_target(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    data *d = make_data(0.9);
    for (int with_mean = 0; with_mean < 2; with_mean++) {
        for (size_t i = 0; with_mean && i < KEY_HEADS * TOKENS * VALUES; i++) d->v[i] += 2;
        for (int causal = 0; causal < 2; causal++) {
            float *exact = softmax_of(context, d, causal);
            bo_attention_advice *a = advise(context, d, causal, 0.15, 256);
            size_t kept = 0;
            for (size_t i = 0; i < a->map_count; i++) {
                const bo_attention_desc *desc = &a->maps[i].desc;
                assert_true(!a->maps[i].features || a->maps[i].error <= a->target);
                if (!a->maps[i].features) continue;
                assert_int_equal(desc->features.features, a->maps[i].features);
                double found = follow(context, d, d, desc, exact);
                if (!(found < 1.2 * a->target && fabs(found / a->maps[i].error - 1) < 0.4))
                    fail_msg("%s %s: predicted %g with %zu features, found %g", bo_attention_kind_name(desc->kind),
                             bo_function_name(desc->features.function), a->maps[i].error, a->maps[i].features, found);
                kept++;
            }
            assert_true(a->reachable && a->maps[0].features > 0 && kept >= 8);
            assert_null(strstr(a->reason, "none"));
            assert_non_null(strstr(a->reason, "features"));
            bo_attention_advice_destroy(a);
            free(exact);
        }
    }
    free(d);
    bo_context_destroy(context);
}

typedef enum shape_of_data { GAUSSIAN, ANISOTROPIC, UNIT, SHAPES } shape_of_data;

/* √s q of these shapes with norms of about `size`. */
static data *data_of(shape_of_data shape, double size, uint64_t seed)
{
    data *d = malloc(sizeof *d);
    bo_rng rng = bo_rng_make(seed, bo_rng_stream("test.advise.shapes", (uint64_t)shape));
    for (size_t r = 0; r < (HEADS + KEY_HEADS) * TOKENS; r++) {
        float *x = r < HEADS * TOKENS ? d->q + r * DIM : d->k + (r - HEADS * TOKENS) * DIM;
        double squares = 0, row[DIM];
        for (size_t j = 0; j < DIM; j++) {
            row[j] = (shape == ANISOTROPIC ? 0.66 * pow(0.75, (double)j) : 1 / sqrt(DIM)) * bo_rng_normal(&rng);
            squares += row[j] * row[j];
        }
        for (size_t j = 0; j < DIM; j++)
            x[j] = (float)(size * pow(DIM, 0.25) * row[j] / (shape == UNIT ? sqrt(squares) : 1));
    }
    for (size_t i = 0; i < KEY_HEADS * TOKENS * VALUES; i++) d->v[i] = (float)bo_rng_normal(&rng);
    return d;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The recommended map has the reported error on other arrays of the same distribution that it was not calibrated on:
 * within a quarter, in the median over pairs of data sets, each the median of draws. Causal: if every query sees all
 * keys, outputs are so similar that their norm depends on few numbers and varies widely. */
static void errors_hold_on_other_data(void **state)
{
    (void)state;
    enum { PAIRS = 3 };
    const double sizes[SHAPES] = {0.8, 0.8, 1};
    bo_context *context = test_context(2);
    for (int shape = 0; shape < SHAPES; shape++) {
        double ratios[PAIRS];
        for (uint64_t n = 0; n < PAIRS; n++) {
            data *d = data_of((shape_of_data)shape, sizes[shape], 2 * n);
            data *test_data = data_of((shape_of_data)shape, sizes[shape], 2 * n + 1);
            bo_attention_advice *a = advise(context, d, true, 0.1, 256);
            float *exact = softmax_of(context, test_data, true);
            assert_true(a->reachable);
            ratios[n] = a->maps[0].error / follow(context, d, test_data, &a->maps[0].desc, exact);
            bo_attention_advice_destroy(a);
            free(exact);
            free(d);
            free(test_data);
        }
        qsort(ratios, PAIRS, sizeof *ratios, ascending);
        if (!(ratios[PAIRS / 2] > 0.75 && ratios[PAIRS / 2] < 1.25))
            fail_msg("shape %d: predicted %g times the measured error (from %g to %g)", shape, ratios[PAIRS / 2],
                     ratios[0], ratios[PAIRS - 1]);
    }
    bo_context_destroy(context);
}

/* The error is the root mean square of three draws over every query at an odd position. If each head has its own key
 * head, advice tries exactly the maps of actual attention. */
static void errors_match_three_draws(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    data *d = make_data(0.9);
    bo_attention_desc desc = {.heads = KEY_HEADS, .dim = DIM, .value_dim = VALUES, .causal = true};
    bo_attention_inputs in = {.q = d->q, .k = d->k, .v = d->v};
    bo_attention_advice *a;
    desc.features.seed = 4;
    assert_ok(context, bo_attention_advise_arrays(context, &desc, &one_sequence, d->q, d->k, d->v, 0.15, 256, &a));
    size_t looked_at = 0, windows = 0;
    for (size_t i = 0; i < a->map_count; i++) {
        const bo_attention_desc *found = &a->maps[i].desc;
        if (!a->maps[i].features || found->proposal != BO_PROPOSAL_NONE ||
            found->features.sampling != BO_SAMPLING_DRAWN)
            continue; /* they see more rows of other sequences */
        windows += found->kind == BO_ATTENTION_HYBRID;
        bo_attention *attention;
        double squares = 0, worst = 0;
        assert_ok(context, bo_attention_create(context, found, &attention));
        for (uint64_t draw = 0; draw < 3; draw++) {
            bo_attention_accuracy error;
            assert_ok(context, bo_attention_redraw(context, attention, draw));
            assert_ok(context,
                      bo_attention_measure_arrays(context, attention, &one_sequence, &in, NULL, TOKENS / 2, &error));
            squares += error.against_softmax * error.against_softmax / 3;
            worst = fmax(worst, error.against_softmax);
        }
        assert_close(a->maps[i].error, sqrt(squares), 1e-4 * worst);
        assert_true(worst <= a->target);
        bo_attention_destroy(attention);
        looked_at++;
    }
    assert_true(looked_at >= 5 && windows >= 1);
    bo_attention_advice_destroy(a);
    free(d);
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(predicted_maps_reach_the_target),
        cmocka_unit_test(errors_hold_on_other_data),
        cmocka_unit_test(errors_match_three_draws),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
