/* Samples of attention: their contents, and predictions compared with measurements. */
#include "features/enums.h"
#include "advice.h"
#include "attention/advise.h"

/* The survey of this data, created as in bo_attention_advise. */
typedef struct surveyed {
    bo_attention *exact;
    bo_geometry geometry;
    bo_survey survey;
} surveyed;

static void survey(bo_context *context, const data *d, bool causal, surveyed *s)
{
    bo_attention_desc desc = desc_of(causal);
    assert_ok(context, bo_attention_create(context, &desc, &s->exact));
    assert_ok(context, bo_geometry_make(context, s->exact, &one_sequence, &s->geometry));
    bo_call call = bo_layout_of(s->exact, &one_sequence, &s->geometry);
    assert_ok(context, bo_survey_make(context, &call, d->q, d->k, d->v, 256, &s->survey));
}

static void survey_drop(surveyed *s)
{
    bo_survey_free(&s->survey);
    bo_geometry_free(&s->geometry);
    bo_attention_destroy(s->exact);
}

/* The exact outputs are those of softmax attention at the sampled positions: all heads, 64 of the 150 queries at odd
 * positions, every key; 1e-5 allows for float rounding. Calibrations see even positions. */
static void samples_contain_the_exact_output(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    data *d = make_data(1.5);
    float *out = malloc(HEADS * TOKENS * VALUES * sizeof *out);
    for (int causal = 0; causal < 2; causal++) {
        surveyed s;
        survey(context, d, causal, &s);
        bo_attention_inputs in = {.q = d->q, .k = d->k, .v = d->v};
        assert_ok(context, bo_attention_forward_arrays(context, s.exact, &one_sequence, &in, NULL, NULL, out, NULL));
        assert_int_equal(s.survey.count, HEADS);
        for (size_t h = 0; h < HEADS; h++) {
            const bo_advice_problem *p = &s.survey.problems[h];
            assert_true(p->queries == 64 && p->keys == TOKENS && p->key_head == h / 2);
            for (size_t i = 0; i < p->queries; i++) {
                size_t place = 2 * (size_t)(TOKENS / 2 * ((double)i + 0.5) / 64) + 1;
                assert_int_equal(p->visible[i], causal ? place + 1 : TOKENS);
                for (size_t c = 0; c < VALUES; c++)
                    assert_close(p->exact[i * VALUES + c], (double)out[(h * TOKENS + place) * VALUES + c], 1e-5);
            }
        }
        for (size_t r = 0; r < HEADS * BO_CALIBRATION_ROWS; r++) {
            const float *row = s.survey.calibration_k + r * DIM,
                        *of = d->k + r / BO_CALIBRATION_ROWS / 2 * TOKENS * DIM;
            size_t t = 0;
            while (t < TOKENS && memcmp(row, of + t * DIM, DIM * sizeof *row)) t++;
            assert_true(t < TOKENS && t % 2 == 0);
        }
        survey_drop(&s);
    }
    free(out);
    free(d);
    bo_context_destroy(context);
}

static bo_attention *candidate(bo_context *context, bo_attention_kind kind, bo_function function, size_t features,
                               uint64_t seed)
{
    bo_attention_desc desc = {.kind = kind, .heads = HEADS, .dim = DIM, .value_dim = VALUES};
    desc.features = (bo_features_desc){.function = function, .features = features, .seed = seed, .draw = BO_DRAW_IID};
    if (function == BO_FUNCTION_OPRF) desc.features.pair_norm = 0.7;
    bo_attention *attention = NULL;
    assert_ok(context, bo_attention_create(context, &desc, &attention));
    return attention;
}

/* Independent draws, norms of 0.6, errors around 5%: to first order error² <= floor² + slope/m. Errors common to all
 * keys of a query cancel: a share of 1/(1 + exp(0.36)) = 0.41 for positive features, less for even ones. 12 seeds of 4
 * maps are 48 draws, whose squared errors vary by about √(2/48) = 0.2: from 0.59 - 0.2 to 1 + 0.2 of the prediction. */
static void errors_are_as_predicted(void **state)
{
    (void)state;
    enum { SEEDS = 12, FEATURES = 512 };
    bo_context *context = test_context(2);
    data *d = make_data(0.6);
    const struct {
        bo_attention_kind kind;
        bo_function function;
        double per_frequency;
    } maps[] = {{BO_ATTENTION_FAVOR, BO_FUNCTION_POSITIVE, 1},
                {BO_ATTENTION_FAVOR, BO_FUNCTION_HYPERBOLIC, 2},
                {BO_ATTENTION_FAVOR, BO_FUNCTION_SINCOS, 2},
                {BO_ATTENTION_FAVOR, BO_FUNCTION_OPRF, 1},
                {BO_ATTENTION_RFA, BO_FUNCTION_SINCOS, 2}};
    for (int causal = 0; causal < 2; causal++) {
        surveyed s;
        survey(context, d, causal, &s);
        for (size_t i = 0; i < sizeof maps / sizeof *maps; i++) {
            double measured = 0;
            bo_survey_result expected;
            bo_survey_prediction p = {0};
            for (uint64_t seed = 0; seed < SEEDS; seed++) {
                bo_attention *a = candidate(context, maps[i].kind, maps[i].function, FEATURES, seed);
                assert_ok(context, bo_survey_evaluate(&s.survey, a, &expected));
                measured += expected.error * expected.error / SEEDS;
                if (seed == 0) assert_ok(context, bo_survey_predict(&s.survey, a, &p));
                bo_attention_destroy(a);
            }
            double predicted = p.floor * p.floor + p.slope * maps[i].per_frequency / FEATURES;
            if (!(measured > 0.39 * predicted && measured < 1.2 * predicted))
                fail_msg("%s: error %g, predicted %g", bo_function_name(maps[i].function), sqrt(measured),
                         sqrt(predicted));
            assert_true((p.floor > 0.02) == (maps[i].kind == BO_ATTENTION_RFA));
        }
        survey_drop(&s);
    }
    free(d);
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_contain_the_exact_output),
        cmocka_unit_test(errors_are_as_predicted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
