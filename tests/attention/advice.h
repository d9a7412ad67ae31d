/* Queries, keys and values of a chosen size, for tests of bo_attention_advise. */
#ifndef BO_TEST_ADVICE_H
#define BO_TEST_ADVICE_H

#include "attention/attention.h"
#include "testing.h"

#ifndef ADVICE_HEADS /* defaults that tests may override */
#define ADVICE_HEADS     4
#define ADVICE_KEY_HEADS 2
#endif
enum { HEADS = ADVICE_HEADS, KEY_HEADS = ADVICE_KEY_HEADS, TOKENS = 300, DIM = 16, VALUES = 8 };

typedef struct data {
    float q[HEADS * TOKENS * DIM], k[KEY_HEADS * TOKENS * DIM], v[KEY_HEADS * TOKENS * VALUES];
} data;

/* √s q ~ N(0, size²/DIM) in each coordinate, so the norm is about `size`; s = 1/√DIM */
static inline data *make_data_of(double size, uint64_t seed)
{
    data *d = malloc(sizeof *d);
    bo_rng rng = bo_rng_make(seed, bo_rng_stream("test.advise", 0));
    double each = size / sqrt(DIM) * pow(DIM, 0.25);
    for (size_t i = 0; i < HEADS * TOKENS * DIM; i++) d->q[i] = (float)(each * bo_rng_normal(&rng));
    for (size_t i = 0; i < KEY_HEADS * TOKENS * DIM; i++) d->k[i] = (float)(each * bo_rng_normal(&rng));
    for (size_t i = 0; i < KEY_HEADS * TOKENS * VALUES; i++) d->v[i] = (float)bo_rng_normal(&rng);
    return d;
}

static inline data *make_data(double size)
{
    return make_data_of(size, 17);
}

static inline bo_attention_desc desc_of(bool causal)
{
    return (bo_attention_desc){
        .heads = HEADS, .key_heads = KEY_HEADS, .dim = DIM, .value_dim = VALUES, .causal = causal};
}

static const bo_attention_shape one_sequence = {.sequences = 1, .tokens = TOKENS};

/* The caller destroys the advice. */
static inline bo_attention_advice *advise(bo_context *context, const data *d, bool causal, double target,
                                          size_t max_features)
{
    bo_attention_desc desc = desc_of(causal);
    bo_attention_advice *advice;
    assert_ok(context, bo_attention_advise_arrays(context, &desc, &one_sequence, d->q, d->k, d->v, target, max_features,
                                                  &advice));
    assert_true(advice->map_count >= 8 && advice->map_count <= 16);
    return advice;
}

/* Computes the output of an attention on all data. */
static inline float *forward(bo_context *context, const bo_attention *attention, const data *d)
{
    float *out = malloc(HEADS * TOKENS * VALUES * sizeof *out);
    bo_attention_inputs in = {.q = d->q, .k = d->k, .v = d->v};
    assert_ok(context, bo_attention_forward_arrays(context, attention, &one_sequence, &in, NULL, NULL, out, NULL));
    return out;
}

static inline double relative_distance(const float *out, const float *exact)
{
    double error = 0, norm = 0;
    for (size_t i = 0; i < HEADS * TOKENS * VALUES; i++) {
        error += pow((double)out[i] - (double)exact[i], 2);
        norm += pow((double)exact[i], 2);
    }
    return sqrt(error / norm);
}

/* Applies a recommended map in attention over every query of `d`, calibrated on `calibration_data` if required. Returns
 * the median error of several draws relative to `exact`. */
static inline double follow(bo_context *context, const data *calibration_data, const data *d,
                            const bo_attention_desc *desc, const float *exact)
{
    enum { DRAWS = 5 };
    bool calibrated = desc->proposal != BO_PROPOSAL_NONE || desc->features.sampling == BO_SAMPLING_OPTIMAL;
    bo_attention_inputs before = {.q = calibration_data->q, .k = calibration_data->k};
    bo_attention *attention;
    bo_calibration *c = NULL;
    double errors[DRAWS];
    assert_ok(context, bo_attention_create(context, desc, &attention));
    if (calibrated) {
        assert_ok(context, bo_calibration_create(context, attention, 0, &c));
        assert_ok(context, bo_calibration_add_arrays(context, c, &one_sequence, &before));
    }
    for (size_t i = 0; i < DRAWS; i++) {
        if (calibrated)
            assert_ok(context, bo_calibration_apply(context, c, attention, 50 + i, NULL));
        else
            assert_ok(context, bo_attention_redraw(context, attention, 50 + i));
        float *out = forward(context, attention, d);
        size_t at = i;
        double error = relative_distance(out, exact);
        for (; at > 0 && errors[at - 1] > error; at--) errors[at] = errors[at - 1];
        errors[at] = error;
        free(out);
    }
    bo_calibration_destroy(c);
    bo_attention_destroy(attention);
    return errors[DRAWS / 2];
}

static inline float *softmax_of(bo_context *context, const data *d, bool causal)
{
    bo_attention_desc desc = desc_of(causal);
    bo_attention *softmax;
    assert_ok(context, bo_attention_create(context, &desc, &softmax));
    float *exact = forward(context, softmax, d);
    bo_attention_destroy(softmax);
    return exact;
}

#endif
