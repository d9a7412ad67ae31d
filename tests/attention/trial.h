/* A trial: an attention with random inputs, computed by the library and by the reference, and their allowed difference.
 *
 * Tolerances are computed: the reference is evaluated again with every feature, score and weight perturbed by 2⁻²¹,
 * eight units of float32 rounding as in sums of tens of terms (times the size of an exponent). The library may differ
 * by the change of the result, times SLACK because there are few perturbations. Only ill-conditioned results get wide
 * tolerances. */
#ifndef BO_TEST_ATTENTION_TRIAL_H
#define BO_TEST_ATTENTION_TRIAL_H

#include "public_call.h"
#include "oracle.h"
#include "trial_arrays.h"

#define TRIAL_NOISE 0x1p-21
enum { TRIAL_SLACK = 12, TRIAL_SHAKES = 2 };

typedef struct trial_desc {
    const char *name;
    bo_attention_desc attention;
    bo_attention_shape shape;
    size_t past;         /* tokens that the initial states have absorbed; 0: no initial states */
    double norm;         /* norm of queries and keys; 0: 1.5 */
    bool final_gradient; /* a gradient of the final states is given */
    bool no_parameters;  /* beta and all arrays from sigma on are NULL */
    bool one_map;        /* m_k and bias_k are NULL: the keys use m and bias */
    bool across;         /* every query sees every key, for any kind: cross attention through states */
    bool forward_only;   /* gradients are not compared */
    uint64_t seed;
} trial_desc;

/* All results of the reference, in the layout of the shape. */
typedef struct trial_result {
    double *out, *gradient[TRIAL_ARRAYS];
    double *initial; /* sequences x state_gradient */
    double *sums;    /* sequences x key_heads x trial_sums, in units of the log scales of the final states */
} trial_result;

typedef struct trial {
    trial_desc desc;
    bo_context *context;
    bo_attention *attention;
    const bo_attention_desc *d;
    size_t *queries, *keys, *query_start, *key_start; /* one per sequence */
    size_t queries_total, keys_total;
    size_t count[TRIAL_ARRAYS];    /* floats of each array; 0: absent */
    float *array[TRIAL_ARRAYS];    /* inputs, and the outputs of the library */
    float *gradient[TRIAL_ARRAYS]; /* gradients of the library; [OUT] is the given dout */
    float *past[SIGMA];            /* k, v, log_gate, beta: sequences x key_heads x past x … */
    bo_solves solves;              /* RIDGE: report of the forward pass */
    void **initial, **final;
    float **d_final, **d_initial;
    void *tape;
    size_t gradient_floats; /* of one state */
} trial;

static inline float *trial_floats(size_t count)
{
    float *array = calloc(count ? count : 1, sizeof *array);
    assert_non_null(array);
    return array;
}

/* ---- construction ------------------------------------------------------------------------------------------------ */

static inline void trial_lengths(trial *t)
{
    const bo_attention_shape *shape = &t->desc.shape;
    size_t n = shape->sequences + 1;
    t->queries = calloc(n, sizeof(size_t)), t->keys = calloc(n, sizeof(size_t));
    t->query_start = calloc(n, sizeof(size_t)), t->key_start = calloc(n, sizeof(size_t));
    for (size_t s = 0; s < shape->sequences; s++) {
        t->queries[s] = shape->lengths ? shape->lengths[s] : shape->tokens;
        t->keys[s] = shape->key_tokens ? shape->key_tokens : shape->tokens;
        if (shape->lengths) t->keys[s] = shape->key_lengths ? shape->key_lengths[s] : shape->lengths[s];
        if (shape->no_keys) t->keys[s] = 0;
        t->query_start[s + 1] = t->query_start[s] + t->queries[s];
        t->key_start[s + 1] = t->key_start[s] + t->keys[s];
    }
    t->queries_total = t->query_start[shape->sequences];
    t->keys_total = t->key_start[shape->sequences];
}

static inline size_t trial_count(const trial *t, trial_array which)
{
    const bo_attention_desc *d = t->d;
    size_t width = trial_width(d, which);
    if (!trial_accepts(d, which)) return 0;
    if ((which >= SIGMA || which == BETA) && which != OUT && t->desc.no_parameters) return 0;
    if ((which == M_K || which == BIAS_K) && t->desc.one_map) return 0;
    if (which == Q || which == OUT) return t->queries_total * d->heads * width;
    if (which < SIGMA) return t->keys_total * d->key_heads * width;
    if (which == M || which == M_K) width *= d->rank;
    return (which == MIX ? d->heads : d->key_heads) * width;
}

static inline void trial_normal(bo_rng *rng, float *array, size_t count, double deviation)
{
    for (size_t i = 0; i < count; i++) array[i] = (float)(deviation * bo_rng_normal(rng));
}

/* Gates of all sizes: most are moderate, others are 1, near 0, or 0. */
static inline void trial_gates(bo_rng *rng, float *gate, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        double which = bo_rng_uniform(rng);
        gate[i] = (float)(-0.3 * bo_rng_uniform(rng));
        if (which < 0.05) gate[i] = 0;
        if (which > 0.93) gate[i] = -12;
        if (which > 0.95) gate[i] = -100;
        if (which > 0.97) gate[i] = -1e4F;
        if (which > 0.98) gate[i] = -1e9F;
    }
}

/* DELTA is stable for β|k|² <= 2, the other kinds for any β >= 0. Some tokens have β = 0. */
static inline void trial_betas(bo_rng *rng, const bo_attention_desc *d, const float *k, float *beta, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        double square = 1;
        for (size_t c = 0; c < d->dim && !d->unit; c++) square += pow((double)k[i * d->dim + c], 2);
        beta[i] = (float)(1.9 * bo_rng_uniform(rng));
        if (d->kind == BO_ATTENTION_DELTA) beta[i] /= (float)square;
        if (bo_rng_uniform(rng) < 0.05) beta[i] = 0;
    }
}

/* Close to the first rows of the identity. */
static inline void trial_matrices(bo_rng *rng, const bo_attention_desc *d, float *m, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        bool diagonal = i / d->dim % d->rank == i % d->dim;
        m[i] = (float)(diagonal + 0.4 / sqrt((double)d->dim) * bo_rng_normal(rng));
    }
}

static inline void trial_parameters(bo_rng *rng, trial *t)
{
    for (size_t i = 0; i < t->count[SIGMA]; i++) t->array[SIGMA][i] = (float)(0.6 + bo_rng_uniform(rng));
    trial_matrices(rng, t->d, t->array[M], t->count[M]);
    for (size_t i = 0; i < t->count[MIX]; i++) t->array[MIX][i] = (float)(0.3 + 2 * bo_rng_uniform(rng));
    trial_matrices(rng, t->d, t->array[M_K], t->count[M_K]);
    trial_normal(rng, t->array[BIAS], t->count[BIAS], 0.4);
    trial_normal(rng, t->array[BIAS_K], t->count[BIAS_K], 0.4);
    for (size_t i = 0; i < t->count[LAMBDA]; i++) t->array[LAMBDA][i] = (float)(0.4 + bo_rng_uniform(rng));
    for (size_t i = 0; i < t->count[LOG_DECAY]; i++) /* from 1 to e^-2 */
        t->array[LOG_DECAY][i] = (float)(-2 * fmax(0, pow(bo_rng_uniform(rng), 4) - 1e-3));
}

/* Standard deviation of a coordinate of q and k. Keys that DELTA uses without normalization and with β = 1 are small
 * enough to be stable. */
static inline double trial_deviation(const trial *t)
{
    double norm = t->desc.norm > 0 ? t->desc.norm : 1.5;
    if (t->d->kind == BO_ATTENTION_DELTA && !t->d->unit && t->desc.no_parameters) norm = fmin(norm, 0.7);
    return norm / sqrt((double)t->d->dim);
}

static inline void trial_fill(trial *t)
{
    bo_rng rng = bo_rng_make(t->desc.seed, bo_rng_stream("test.trial", 0));
    for (size_t i = 0; i < TRIAL_ARRAYS; i++) {
        t->count[i] = trial_count(t, (trial_array)i);
        t->array[i] = trial_floats(t->count[i]);
        t->gradient[i] = trial_floats(t->count[i]);
    }
    trial_normal(&rng, t->array[Q], t->count[Q], trial_deviation(t));
    trial_normal(&rng, t->array[K], t->count[K], trial_deviation(t));
    trial_normal(&rng, t->array[V], t->count[V], 1);
    trial_gates(&rng, t->array[LOG_GATE], t->count[LOG_GATE]);
    trial_parameters(&rng, t);
    trial_betas(&rng, t->d, t->array[K], t->array[BETA], t->count[BETA]);
    trial_normal(&rng, t->gradient[OUT], t->count[OUT], 1);
}

static inline bo_attention_inputs trial_inputs(const trial *t)
{
    const float *given[TRIAL_ARRAYS];
    for (size_t i = 0; i < TRIAL_ARRAYS; i++) given[i] = t->count[i] ? t->array[i] : NULL;
    return (bo_attention_inputs){.q = given[Q],
                                 .k = given[K],
                                 .v = given[V],
                                 .log_gate = given[LOG_GATE],
                                 .sigma = given[SIGMA],
                                 .m = given[M],
                                 .mix = given[MIX],
                                 .beta = given[BETA],
                                 .log_decay = given[LOG_DECAY],
                                 .lambda = given[LAMBDA],
                                 .m_k = given[M_K],
                                 .bias = given[BIAS],
                                 .bias_k = given[BIAS_K]};
}

/* The inputs from a token on, for one sequence in layout TOKENS_FIRST. */
static inline bo_attention_inputs trial_inputs_from(const trial *t, size_t first)
{
    const bo_attention_desc *d = t->d;
    bo_attention_inputs in = trial_inputs(t);
    in.q += first * d->heads * d->dim;
    in.k += first * d->key_heads * d->dim;
    in.v += first * d->key_heads * d->value_dim;
    if (in.log_gate) in.log_gate += first * d->key_heads * trial_width(d, LOG_GATE);
    if (in.beta) in.beta += first * d->key_heads;
    return in;
}

/* An attention with data-dependent frequencies is calibrated on queries and keys similar to those of the trial. */
static inline bo_status trial_calibrate(bo_context *context, const trial *t, bo_attention *attention)
{
    enum { ROWS = 50 };
    const bo_attention_desc *d = bo_attention_describe(attention);
    if (!d->proposal && d->features.sampling != BO_SAMPLING_OPTIMAL) return BO_OK;
    float *q = trial_floats(d->heads * ROWS * d->dim), *k = trial_floats(d->key_heads * ROWS * d->dim);
    bo_rng rng = bo_rng_make(t->desc.seed, bo_rng_stream("test.trial.calibration", 0));
    trial_normal(&rng, q, d->heads * ROWS * d->dim, trial_deviation(t));
    trial_normal(&rng, k, d->key_heads * ROWS * d->dim, trial_deviation(t));
    bo_attention_shape shape = {.sequences = 1, .tokens = ROWS};
    bo_attention_inputs in = trial_inputs(t);
    in.q = q, in.k = k;
    bo_calibration *calibration = NULL;
    bo_status status = bo_calibration_create(context, attention, 0, &calibration);
    if (status == BO_OK) status = bo_calibration_add_arrays(context, calibration, &shape, &in);
    if (status == BO_OK) status = bo_calibration_apply(context, calibration, attention, 0, NULL);
    bo_calibration_destroy(calibration);
    free(q);
    free(k);
    return status;
}

static inline void **trial_states(const trial *t)
{
    void **states = calloc(t->desc.shape.sequences + 1, sizeof *states);
    size_t bytes = (bo_attention_state_bytes(t->attention) + 63) / 64 * 64;
    for (size_t s = 0; s < t->desc.shape.sequences; s++) {
        states[s] = aligned_alloc(64, bytes);
        memset(states[s], 0, bytes);
        assert_ok(t->context, bo_attention_state_init(t->context, t->attention, states[s]));
    }
    return states;
}

/* Rows of past tokens, similar to those of the call. */
static inline void trial_fill_past(trial *t)
{
    const bo_attention_desc *d = t->d;
    size_t rows = t->desc.shape.sequences * d->key_heads * t->desc.past;
    bo_rng rng = bo_rng_make(t->desc.seed, bo_rng_stream("test.trial.past", 0));
    for (size_t i = K; i <= BETA; i++) t->past[i] = trial_floats(rows * trial_width(d, (trial_array)i));
    trial_normal(&rng, t->past[K], rows * d->dim, trial_deviation(t));
    trial_normal(&rng, t->past[V], rows * d->value_dim, 1);
    trial_gates(&rng, t->past[LOG_GATE], rows * trial_width(d, LOG_GATE));
    trial_betas(&rng, d, t->past[K], t->past[BETA], rows);
}

/* States that have absorbed `past` tokens. */
static inline void trial_begin(trial *t)
{
    const bo_attention_desc *d = t->d;
    size_t queries = t->desc.shape.sequences * d->heads * t->desc.past;
    trial_fill_past(t);
    if (!t->desc.past) return;
    t->initial = trial_states(t);
    bo_attention_shape shape = {.sequences = t->desc.shape.sequences, .tokens = t->desc.past};
    bo_attention_inputs in = trial_inputs(t);
    float *q = trial_floats(queries * d->dim), *out = trial_floats(queries * d->value_dim);
    in.q = q, in.k = t->past[K], in.v = t->past[V];
    in.log_gate = trial_accepts(d, LOG_GATE) ? t->past[LOG_GATE] : NULL;
    in.beta = trial_accepts(d, BETA) && !t->desc.no_parameters ? t->past[BETA] : NULL;
    assert_ok(t->context, bo_attention_extend(t->context, t->attention, &shape, &in, t->initial, out));
    free(q);
    free(out);
}

static inline float **trial_state_gradients(const trial *t)
{
    float **arrays = calloc(t->desc.shape.sequences + 1, sizeof *arrays);
    for (size_t s = 0; s < t->desc.shape.sequences; s++) arrays[s] = trial_floats(t->gradient_floats);
    return arrays;
}

/* The part of d_final for the sums has the size 1 / features: with log scales the sums are near one. */
static inline void trial_final_gradients(trial *t)
{
    bo_rng rng = bo_rng_make(t->desc.seed, bo_rng_stream("test.trial.final", 0));
    t->d_initial = trial_state_gradients(t);
    t->d_final = trial_state_gradients(t);
    for (size_t s = 0; t->desc.final_gradient && s < t->desc.shape.sequences; s++)
        trial_normal(&rng, t->d_final[s], t->gradient_floats, 0.3);
}

static inline trial trial_make(bo_context *context, const trial_desc *desc)
{
    trial t = {.desc = *desc, .context = context};
    bo_status status = bo_attention_create(context, &desc->attention, &t.attention);
    if (status != BO_OK) fail_msg("%s: %s", desc->name, bo_context_error(context));
    t.d = bo_attention_describe(t.attention);
    t.gradient_floats = bo_attention_state_gradient_floats(t.attention);
    trial_lengths(&t);
    trial_fill(&t);
    status = trial_calibrate(context, &t, t.attention);
    if (status != BO_OK) fail_msg("%s: calibration: %s", desc->name, bo_context_error(context));
    trial_begin(&t);
    t.final = trial_states(&t);
    trial_final_gradients(&t);
    return t;
}

static inline void trial_free_each(void **array, size_t count)
{
    for (size_t i = 0; array && i < count; i++) free(array[i]);
    free(array);
}

static inline void trial_drop(trial *t)
{
    size_t n = t->desc.shape.sequences;
    for (size_t i = 0; i < TRIAL_ARRAYS; i++) {
        free(t->array[i]);
        free(t->gradient[i]);
    }
    void *single[] = {t->queries, t->keys, t->query_start, t->key_start, t->tape};
    for (size_t i = 0; i < SIGMA; i++) free(t->past[i]);
    for (size_t i = 0; i < sizeof single / sizeof *single; i++) free(single[i]);
    trial_free_each(t->initial, n);
    trial_free_each(t->final, n);
    trial_free_each((void **)t->d_final, n);
    trial_free_each((void **)t->d_initial, n);
    bo_attention_destroy(t->attention);
}

/* ---- the library ------------------------------------------------------------------------------------------------- */

static inline void trial_forward(trial *t)
{
    size_t bytes = 0;
    bo_attention_inputs in = trial_inputs(t);
    if (t->d->kind == BO_ATTENTION_RIDGE) in.solves = &t->solves;
    bo_attention_call call = call_of_arrays(&t->desc.shape, &in, t->array[OUT]);
    assert_ok(t->context, bo_attention_call_bytes(t->context, t->attention, &call, false, &bytes, NULL));
    free(t->tape);
    t->tape = aligned_alloc(64, (bytes + 127) / 64 * 64);
    memset(t->tape, 0, bytes); /* the tape has padding that is not written */
    call.initial = t->initial;
    call.final = t->final;
    call.tape = t->tape;
    bo_status status = bo_attention_forward(t->context, t->attention, &call);
    if (status != BO_OK) fail_msg("%s: forward: %s", t->desc.name, bo_context_error(t->context));
}

static inline bo_attention_gradients trial_gradients(float *const requested[TRIAL_ARRAYS], float *const *initial)
{
    return (bo_attention_gradients){.q = requested[Q],
                                    .k = requested[K],
                                    .v = requested[V],
                                    .log_gate = requested[LOG_GATE],
                                    .sigma = requested[SIGMA],
                                    .m = requested[M],
                                    .mix = requested[MIX],
                                    .initial = initial,
                                    .beta = requested[BETA],
                                    .log_decay = requested[LOG_DECAY],
                                    .lambda = requested[LAMBDA],
                                    .m_k = requested[M_K],
                                    .bias = requested[BIAS],
                                    .bias_k = requested[BIAS_K]};
}

static inline void trial_backward(trial *t)
{
    float *requested[TRIAL_ARRAYS];
    for (size_t i = 0; i < TRIAL_ARRAYS; i++) {
        requested[i] = t->count[i] ? t->gradient[i] : NULL;
        for (size_t j = 0; i != OUT && j < t->count[i]; j++) t->gradient[i][j] = NAN; /* to be overwritten */
    }
    for (size_t s = 0; s < t->desc.shape.sequences; s++)
        for (size_t j = 0; j < t->gradient_floats; j++) t->d_initial[s][j] = NAN;
    bo_attention_gradients g = trial_gradients(requested, t->initial ? t->d_initial : NULL);
    bo_attention_inputs in = trial_inputs(t);
    bo_attention_call call = call_of_arrays(&t->desc.shape, &in, t->array[OUT]);
    CALL_SET_GRADIENTS(&call, &g);
    call.initial = t->initial;
    call.tape = t->tape;
    call.dout.data = t->gradient[OUT];
    call.dfinal = t->desc.final_gradient ? (const float *const *)t->d_final : NULL;
    call.dinitial = g.initial;
    bo_status status = bo_attention_backward(t->context, t->attention, &call);
    if (status != BO_OK) fail_msg("%s: backward: %s", t->desc.name, bo_context_error(t->context));
}

#endif
