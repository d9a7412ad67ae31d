/* Calibration: statistics compared with their direct formulas, unbiased estimates for every proposal, and calibrated
 * attention that stays causal and fixed. */
#include "calibrations.h"

/* ---- statistics -------------------------------------------------------------------------------------------------- */

/* Mean and second moments of the rows of the first tokens of a batch. */
static void plain_moments(const data *d, size_t tokens, bool keys, size_t laws, size_t law, double *mean,
                          double *second)
{
    size_t heads = (keys ? KEY_HEADS : HEADS) / laws;
    double rows = (double)(heads * tokens);
    memset(mean, 0, DIM * sizeof *mean);
    memset(second, 0, DIM * DIM * sizeof *second);
    for (size_t r = 0; r < heads * tokens; r++) {
        size_t row = (law * heads + r / tokens) * TOKENS + r % tokens;
        const float *x = (keys ? d->k : d->q) + row * DIM;
        for (size_t i = 0; i < DIM * DIM; i++) second[i] += (double)x[i / DIM] * (double)x[i % DIM] / rows;
        for (size_t i = 0; i < DIM; i++) mean[i] += (double)x[i] / rows;
    }
}

/* Adds the first tokens of every head, in layout TOKENS_FIRST. */
static void add_batch(bo_context *context, bo_calibration *c, const data *d, size_t tokens)
{
    float q[HEADS * TOKENS * DIM], k[KEY_HEADS * TOKENS * DIM];
    bo_attention_inputs in = {.q = q, .k = k};
    bo_attention_shape shape = {.sequences = 1, .tokens = tokens, .layout = BO_LAYOUT_TOKENS_FIRST};
    for (size_t t = 0; t < tokens; t++) {
        for (size_t h = 0; h < HEADS; h++)
            memcpy(q + (t * HEADS + h) * DIM, d->q + (h * TOKENS + t) * DIM, DIM * sizeof *q);
        for (size_t h = 0; h < KEY_HEADS; h++)
            memcpy(k + (t * KEY_HEADS + h) * DIM, d->k + (h * TOKENS + t) * DIM, DIM * sizeof *k);
    }
    assert_ok(context, bo_calibration_add_arrays(context, c, &shape, &in));
}

/* Three batches of 90, 30 and 90 tokens: with momentum μ, S = μ² S₁ + μ (1 - μ) S₂ + (1 - μ) S₃; without, (90 S₁ + 30
 * S₂ + 90 S₃) / 210. */
static void moving_averages_agree_with_plain_ones(void **state)
{
    (void)state;
    const size_t tokens[3] = {TOKENS, TOKENS / 3, TOKENS};
    const double weights[2][3] = {{3 / 7.0, 1 / 7.0, 3 / 7.0}, {0.49, 0.21, 0.3}};
    bo_context *context = test_context(2);
    data *batches[3] = {make_data(1, 1), make_data(2, 1.5), make_data(3, 0.7)};
    for (int i = 0; i < 4; i++) {
        int one_draw = i / 2, with = i % 2;
        size_t laws = one_draw ? 1 : KEY_HEADS;
        bo_attention_desc desc = desc_of(BO_ATTENTION_FAVOR, BO_PROPOSAL_GAUSSIAN, BO_SAMPLING_DRAWN);
        desc.one_draw = one_draw;
        bo_attention *attention = create_attention(context, &desc);
        bo_calibration *c;
        assert_ok(context, bo_calibration_create(context, attention, with ? 0.7 : 0, &c));
        for (int b = 0; b < 3; b++) add_batch(context, c, batches[b], tokens[b]);
        assert_int_equal(c->laws, laws);
        for (size_t side = 0; side < 2 * laws; side++) {
            double mean[3][DIM], second[3][DIM * DIM];
            const bo_calibration_side *statistics = &c->sides[side];
            for (int b = 0; b < 3; b++)
                plain_moments(batches[b], tokens[b], side % 2, laws, side / 2, mean[b], second[b]);
            const double *w = weights[with];
            for (size_t j = 0; j < DIM; j++)
                assert_close(statistics->moments.mean[j], w[0] * mean[0][j] + w[1] * mean[1][j] + w[2] * mean[2][j],
                             1e-12);
            for (size_t j = 0; j < DIM * DIM; j++)
                assert_close(statistics->moments.second[j],
                             w[0] * second[0][j] + w[1] * second[1][j] + w[2] * second[2][j], 1e-12);
        }
        bo_calibration_destroy(c);
        bo_attention_destroy(attention);
    }
    for (int b = 0; b < 3; b++) free(batches[b]);
    bo_context_destroy(context);
}

/* All rows of batch b are (b, b, …), so the sampled rows show their batch. The shares of 512 rows vary by at most one
 * row per batch (slots are chosen evenly) and by the random choice of earlier rows that are replaced: 5 σ of a binomial
 * distribution. */
static void sampled_rows_have_the_batches_weights(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_attention_desc desc = desc_of(BO_ATTENTION_FAVOR, BO_PROPOSAL_NONE, BO_SAMPLING_OPTIMAL);
    bo_attention *attention = create_attention(context, &desc);
    data *d = make_data(1, 1);
    bo_attention_inputs in = inputs_of(d);
    for (int with = 0; with < 2; with++) {
        const double expected[2][4] = {{0.25, 0.25, 0.25, 0.25}, {0.064, 0.096, 0.24, 0.6}};
        size_t found[4] = {0};
        bo_calibration *c;
        assert_ok(context, bo_calibration_create(context, attention, with ? 0.4 : 0, &c));
        for (int b = 0; b < 4; b++) {
            for (size_t i = 0; i < HEADS * TOKENS * DIM; i++) d->q[i] = (float)b;
            for (size_t i = 0; i < KEY_HEADS * TOKENS * DIM; i++) d->k[i] = (float)b;
            assert_ok(context, bo_calibration_add_arrays(context, c, &one_sequence, &in));
        }
        for (size_t i = 0; i < 2 * KEY_HEADS; i++)
            for (size_t r = 0; r < BO_SAMPLE_ROWS; r++) {
                size_t batch = (size_t)c->sides[i].sample[r * DIM];
                for (size_t j = 0; j < DIM; j++) assert_true(c->sides[i].sample[r * DIM + j] == (float)batch);
                found[batch]++;
            }
        for (size_t b = 0; b < 4; b++) {
            double n = 2 * KEY_HEADS * BO_SAMPLE_ROWS, p = expected[with][b];
            assert_close((double)found[b] / n, p, 5 * sqrt(p * (1 - p) / n));
        }
        bo_calibration_destroy(c);
    }
    free(d);
    bo_attention_destroy(attention);
    bo_context_destroy(context);
}

/* For RFA, calibration uses rows of norm about 1 times σ; for DARK it uses M x. */
static void rows_are_transformed(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    data *d = make_data(5, 1);
    bo_attention_inputs in = inputs_of(d);
    float sigma[KEY_HEADS * DIM], m[KEY_HEADS * 2 * DIM];
    for (size_t i = 0; i < KEY_HEADS * DIM; i++) sigma[i] = 2;
    for (size_t i = 0; i < KEY_HEADS * 2 * DIM; i++) m[i] = (float)i / 10;
    bo_attention_desc desc = desc_of(BO_ATTENTION_RFA, BO_PROPOSAL_NONE, BO_SAMPLING_OPTIMAL);
    desc.features.kernel = BO_KERNEL_ARCCOS;
    bo_attention *rfa = create_attention(context, &desc);
    bo_calibration *c;
    in.sigma = sigma;
    assert_ok(context, bo_calibration_create(context, rfa, 0, &c));
    assert_ok(context, bo_calibration_add_arrays(context, c, &one_sequence, &in));
    for (size_t i = 0; i < 2 * KEY_HEADS; i++)
        for (size_t r = 0; r < BO_SAMPLE_ROWS; r++) {
            double norm = 0;
            for (size_t j = 0; j < DIM; j++) norm += pow((double)c->sides[i].sample[r * DIM + j], 2);
            assert_close(sqrt(norm), 2, 0.02);
        }
    bo_calibration_destroy(c);
    bo_attention_destroy(rfa);

    desc = desc_of(BO_ATTENTION_DARK, BO_PROPOSAL_SDERF, BO_SAMPLING_DRAWN);
    desc.rank = 2;
    bo_attention *dark = create_attention(context, &desc);
    in.sigma = NULL;
    in.m = m;
    assert_ok(context, bo_calibration_create(context, dark, 0, &c));
    assert_ok(context, bo_calibration_add_arrays(context, c, &one_sequence, &in));
    double expected = 0; /* E (Mk)₀ (Mk)₁ of key head 1 */
    for (size_t t = 0; t < TOKENS; t++) {
        double y[2] = {0};
        for (size_t i = 0; i < 2; i++)
            for (size_t j = 0; j < DIM; j++)
                y[i] += (double)m[(2 + i) * DIM + j] * (double)d->k[(TOKENS + t) * DIM + j];
        expected += y[0] * y[1] / TOKENS;
    }
    assert_close(c->sides[3].moments.second[1], expected, 1e-5 * fabs(expected)); /* M x is in float */
    assert_ok(context, bo_calibration_apply(context, c, dark, 0, NULL));
    bo_calibration_destroy(c);
    bo_attention_destroy(dark);
    free(d);
    bo_context_destroy(context);
}

/* ---- proposals --------------------------------------------------------------------------------------------------- */

/* FAVOR++ and FAVOR# minimize the second moment for their data: the data is a single pair of rows, and scaling R up or
 * down in any direction increases the moment. */
static void proposals_minimize_the_second_moment(void **state)
{
    (void)state;
    const float pair[2][3] = {{0.9F, -0.2F, 0.4F}, {0.5F, 0.3F, -0.1F}};
    bo_context *context = test_context(1);
    bo_features_desc desc = {.kernel = BO_KERNEL_SOFTMAX, .dim = 3, .features = 8, .seed = 1};
    bo_feature_sample q = {pair[0], 1, 3}, k = {pair[1], 1, 3};
    bo_features *map;
    assert_ok(context, bo_features_create(context, &desc, &map));
    double second[2][9], root[9], at_best, changed;
    for (size_t i = 0; i < 2; i++)
        for (size_t j = 0; j < 9; j++) second[i][j] = (double)pair[i][j / 3] * (double)pair[i][j % 3];
    double mean[2][3] = {{(double)pair[0][0], (double)pair[0][1], (double)pair[0][2]},
                         {(double)pair[1][0], (double)pair[1][1], (double)pair[1][2]}};
    bo_second_moments mq = {mean[0], second[0]}, mk = {mean[1], second[1]};
    double isotropic;
    assert_ok(context, bo_features_log_second(context, map, false, &q, &k, &isotropic));
    for (int p = BO_PROPOSAL_OPRF; p <= BO_PROPOSAL_SDERF; p++) {
        double before = isotropic;
        assert_ok(context, bo_proposal_root(context, (bo_proposal)p, 3, &mq, &mk, root));
        assert_ok(context, bo_features_propose(context, map, root));
        assert_ok(context, bo_features_log_second(context, map, true, &q, &k, &at_best));
        assert_true(at_best < before);
        isotropic = at_best; /* FAVOR# is better still */
        for (int sign = -1; sign < 2; sign += 2)
            for (size_t direction = 0; direction < (p == BO_PROPOSAL_OPRF ? 1 : 4); direction++) {
                double bent[9];
                for (size_t i = 0; i < 9; i++) {
                    bool scaled = direction == 3 || p == BO_PROPOSAL_OPRF || i % 3 == direction;
                    bent[i] = root[i] * (scaled ? 1 + 0.05 * sign : 1);
                }
                assert_ok(context, bo_features_propose(context, map, bent));
                assert_ok(context, bo_features_log_second(context, map, true, &q, &k, &changed));
                assert_true(changed > at_best + 1e-5);
            }
    }
    bo_features_destroy(map);
    bo_context_destroy(context);
}

static double product(bo_context *context, const bo_features *map, const float *x, const float *y)
{
    float zx[64], zy[64];
    size_t length = bo_features_describe(map)->features;
    double sum = 0;
    assert_ok(context, bo_features_apply(context, map, &(bo_inputs){.rows = 1, .x = x, .stride = DIM}, zx, length));
    assert_ok(context, bo_features_apply(context, map, &(bo_inputs){.rows = 1, .x = y, .stride = DIM}, zy, length));
    for (size_t i = 0; i < length; i++) sum += (double)zx[i] * (double)zy[i];
    return sum;
}

/* Over draws the mean of φ(x)·φ(y) is the kernel, for any calibration data: within five measured standard errors. */
static void estimates_stay_unbiased(void **state)
{
    (void)state;
    enum { DRAWS = 500 };
    bo_context *context = test_context(1);
    data *d = make_data(7, 1);
    const struct {
        bo_attention_kind kind;
        bo_kernel kernel;
        bo_function function;
        bo_proposal proposal;
        bo_sampling sampling;
    } cases[] = {
        {BO_ATTENTION_FAVOR, BO_KERNEL_SOFTMAX, BO_FUNCTION_POSITIVE, BO_PROPOSAL_OPRF, BO_SAMPLING_DRAWN},
        {BO_ATTENTION_FAVOR, BO_KERNEL_SOFTMAX, BO_FUNCTION_POSITIVE, BO_PROPOSAL_SDERF, BO_SAMPLING_DRAWN},
        {BO_ATTENTION_HYBRID, BO_KERNEL_SOFTMAX, BO_FUNCTION_POSITIVE, BO_PROPOSAL_GAUSSIAN, BO_SAMPLING_DRAWN},
        {BO_ATTENTION_FAVOR, BO_KERNEL_SOFTMAX, BO_FUNCTION_POSITIVE, BO_PROPOSAL_NONE, BO_SAMPLING_OPTIMAL},
        {BO_ATTENTION_DARK, BO_KERNEL_SOFTMAX, BO_FUNCTION_POSITIVE, BO_PROPOSAL_GAUSSIAN, BO_SAMPLING_OPTIMAL},
        {BO_ATTENTION_FAVOR, BO_KERNEL_SOFTMAX, BO_FUNCTION_HYPERBOLIC, BO_PROPOSAL_NONE, BO_SAMPLING_OPTIMAL},
        {BO_ATTENTION_FAVOR, BO_KERNEL_SOFTMAX, BO_FUNCTION_SINCOS, BO_PROPOSAL_NONE, BO_SAMPLING_OPTIMAL},
        {BO_ATTENTION_LINEAR, BO_KERNEL_ARCCOS, BO_FUNCTION_RELU, BO_PROPOSAL_NONE, BO_SAMPLING_OPTIMAL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bo_attention_desc desc = desc_of(cases[i].kind, cases[i].proposal, cases[i].sampling);
        desc.features.kernel = cases[i].kernel;
        desc.features.function = cases[i].function;
        desc.features.features = 8;
        desc.features.candidates = cases[i].sampling == BO_SAMPLING_OPTIMAL ? 24 : 0;
        desc.one_draw = true;
        bo_attention *attention = create_attention(context, &desc);
        bo_calibration *c;
        bo_attention_inputs in = inputs_of(d);
        /* small rows; the frequencies were calibrated for larger ones */
        const float x[DIM] = {0.2F, -0.1F, 0.1F, 0.3F, -0.2F}, y[DIM] = {0.1F, 0.2F, 0.1F, 0.2F, 0.1F};
        double sum = 0, squares = 0, expected;
        assert_ok(context, bo_calibration_create(context, attention, 0, &c));
        assert_ok(context, bo_calibration_add_arrays(context, c, &one_sequence, &in));
        for (uint64_t draw = 0; draw < DRAWS; draw++) {
            assert_ok(context, bo_calibration_apply(context, c, attention, draw, NULL));
            double value = product(context, bo_attention_features(attention, 0), x, y);
            sum += value;
            squares += value * value;
        }
        assert_ok(context, bo_kernel_matrix(context, bo_features_describe(bo_attention_features(attention, 0)), 1, x,
                                            DIM, 1, y, DIM, &expected, 1));
        double mean = sum / DRAWS, error = sqrt((squares / DRAWS - mean * mean) / DRAWS);
        if (!(fabs(mean - expected) <= 5 * error && error < 0.1 * fabs(expected)))
            fail_msg("case %zu: mean %g, expected %g within 5 times %g", i, mean, expected, error);
        bo_calibration_destroy(c);
        bo_attention_destroy(attention);
    }
    free(d);
    bo_context_destroy(context);
}

/* ---- use of calibrated attention --------------------------------------------------------------------------------- */

/* Calibrated attention gives the same result twice; a token does not change outputs before it; the draw distinguishes
 * frequencies; earlier states no longer match. */
static void calibrated_attention_is_causal_and_frozen(void **state)
{
    (void)state;
    enum { AT = 40 };
    bo_context *context = test_context(2);
    data *d = make_data(9, 0.8);
    bo_attention_inputs in = inputs_of(d);
    float *out[3];
    size_t floats = HEADS * TOKENS * VALUES;
    for (size_t i = 0; i < 3; i++) out[i] = malloc(floats * sizeof(float));
    for (int p = 0; p < BO_PROPOSAL_COUNT; p++)
        for (int s = BO_SAMPLING_DRAWN; s <= BO_SAMPLING_OPTIMAL; s++) {
            if (!p && !s) continue;
            bo_attention_desc desc = desc_of(BO_ATTENTION_FAVOR, (bo_proposal)p, (bo_sampling)s);
            bo_attention *attention = create_attention(context, &desc);
            bo_calibration *c;
            void *bytes = malloc(bo_attention_state_bytes(attention));
            assert_ok(context, bo_calibration_create(context, attention, 0.9, &c));
            assert_ok(context, bo_calibration_add_arrays(context, c, &one_sequence, &in));
            assert_fails(context, BO_INVALID, "calibrate first",
                         bo_attention_forward_arrays(context, attention, &one_sequence, &in, NULL, NULL, out[0], NULL));
            assert_ok(context, bo_calibration_apply(context, c, attention, 1, NULL));
            assert_ok(context,
                      bo_attention_forward_arrays(context, attention, &one_sequence, &in, NULL, NULL, out[1], NULL));
            assert_ok(context, bo_attention_state_init(context, attention, bytes));
            assert_ok(context, bo_calibration_apply(context, c, attention, 0, NULL));
            assert_int_equal(bo_attention_state_check(context, attention, bytes), BO_INVALID);
            assert_ok(context,
                      bo_attention_forward_arrays(context, attention, &one_sequence, &in, NULL, NULL, out[0], NULL));
            assert_true(memcmp(out[0], out[1], floats * sizeof(float)) != 0);
            /* does not change an existing attention */
            assert_ok(context, bo_calibration_add_arrays(context, c, &one_sequence, &in));
            assert_ok(context,
                      bo_attention_forward_arrays(context, attention, &one_sequence, &in, NULL, NULL, out[1], NULL));
            assert_memory_equal(out[0], out[1], floats * sizeof(float));
            if (s == BO_SAMPLING_OPTIMAL)
                assert_fails(context, BO_INVALID, "bo_calibration_apply", bo_attention_redraw(context, attention, 5));
            else
                assert_ok(context, bo_attention_redraw(context, attention, 0));
            float kept[2] = {d->q[AT * DIM], d->k[AT * DIM]};
            d->q[AT * DIM] = 7, d->k[AT * DIM] = -9;
            assert_ok(context,
                      bo_attention_forward_arrays(context, attention, &one_sequence, &in, NULL, NULL, out[2], NULL));
            d->q[AT * DIM] = kept[0], d->k[AT * DIM] = kept[1];
            for (size_t h = 0; h < HEADS; h++)
                assert_memory_equal(out[2] + h * TOKENS * VALUES, out[0] + h * TOKENS * VALUES,
                                    AT * VALUES * sizeof(float));
            assert_true(memcmp(out[2], out[0], floats * sizeof(float)) != 0);
            free(bytes);
            bo_calibration_destroy(c);
            bo_attention_destroy(attention);
        }
    for (size_t i = 0; i < 3; i++) free(out[i]);
    free(d);
    bo_context_destroy(context);
}

/* The same frequencies and the same report for any number of threads. */
static void threads_do_not_matter(void **state)
{
    (void)state;
    data *d = make_data(11, 0.8);
    bo_attention_inputs in = inputs_of(d);
    bo_attention_desc desc = desc_of(BO_ATTENTION_FAVOR, BO_PROPOSAL_SDERF, BO_SAMPLING_OPTIMAL);
    bo_calibration_report report[2];
    float w[2][KEY_HEADS * 16 * DIM];
    memset(report, 0, sizeof report);
    for (int i = 0; i < 2; i++) {
        bo_context *context = test_context(i ? 5 : 1);
        bo_attention *attention = create_attention(context, &desc);
        bo_calibration *c;
        assert_ok(context, bo_calibration_create(context, attention, 0, &c));
        assert_ok(context, bo_calibration_add_arrays(context, c, &one_sequence, &in));
        assert_ok(context, bo_calibration_apply(context, c, attention, 4, &report[i]));
        for (size_t h = 0; h < KEY_HEADS; h++)
            assert_ok(context,
                      bo_features_get_frequencies(context, bo_attention_features(attention, h), w[i] + h * 16 * DIM));
        bo_calibration_destroy(c);
        bo_attention_destroy(attention);
        bo_context_destroy(context);
    }
    assert_memory_equal(w[0], w[1], sizeof w[0]);
    assert_memory_equal(&report[0], &report[1], sizeof report[0]);
    free(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(moving_averages_agree_with_plain_ones),
        cmocka_unit_test(sampled_rows_have_the_batches_weights),
        cmocka_unit_test(rows_are_transformed),
        cmocka_unit_test(proposals_minimize_the_second_moment),
        cmocka_unit_test(estimates_stay_unbiased),
        cmocka_unit_test(calibrated_attention_is_causal_and_frozen),
        cmocka_unit_test(threads_do_not_matter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
