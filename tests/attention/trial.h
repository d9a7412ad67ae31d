/* A trial: an attention with random inputs, put through the library and through the oracle, and how far apart they
 * may be.
 *
 * Tolerances are not chosen: the oracle is asked again with every feature, score and weight shaken by 2⁻²¹, eight
 * units of float32's rounding as sums of some tens of terms have (times the size of an exponent), and the library
 * may be off by as much as the answer then moves, times SLACK for the luck of a few draws. Ill-conditioned answers
 * get wide tolerances by themselves, and only they do. */
#ifndef BO_TEST_ATTENTION_TRIAL_H
#define BO_TEST_ATTENTION_TRIAL_H

#include "oracle.h"

#define TRIAL_NOISE 0x1p-21
enum { TRIAL_SLACK = 12, TRIAL_SHAKES = 2, TRIAL_ARRAYS = 8 };

/* The arrays of a call, the same for inputs, outputs and gradients. */
typedef enum trial_array { Q, K, V, LOG_GATE, SIGMA, M, MIX, OUT } trial_array;
static const char *const trial_names[TRIAL_ARRAYS] = {"q", "k", "v", "log_gate", "sigma", "m", "mix", "out"};

typedef struct trial_desc {
    const char *name;
    bo_attention_desc attention;
    bo_attention_shape shape;
    size_t past;         /* tokens that the initial states have absorbed; 0: no initial states */
    double norm;         /* of queries and keys; 0: 1.5 */
    bool final_gradient; /* a gradient flows into the final states */
    bool no_parameters;  /* sigma, m, mix are NULL */
    bool forward_only;   /* the oracle need not know gradients */
    uint64_t seed;
} trial_desc;

/* Everything the oracle says, in the shape's layout. */
typedef struct trial_answer {
    double *out, *gradient[TRIAL_ARRAYS];
    double *initial; /* sequences x state_gradient */
    double *sums;    /* sequences x key_heads x features x (value_dim + 1), in units of the final states' log scales */
} trial_answer;

typedef struct trial {
    trial_desc desc;
    bo_context *context;
    bo_attention *attention;
    const bo_attention_desc *d;
    size_t *queries, *keys, *query_start, *key_start; /* one a sequence */
    size_t queries_total, keys_total;
    size_t count[TRIAL_ARRAYS];         /* of each array; 0: there is none */
    float *array[TRIAL_ARRAYS];         /* inputs, and out as the library left it */
    float *gradient[TRIAL_ARRAYS];      /* as the library left it; [OUT] is dout, given */
    float *past_k, *past_v, *past_gate; /* sequences x key_heads x past x … */
    void **initial, **final;
    float **d_final, **d_initial;
    void *tape;
    size_t gradient_floats; /* of a state */
} trial;

static inline float *trial_floats(size_t count)
{
    float *array = calloc(count ? count : 1, sizeof *array);
    assert_non_null(array);
    return array;
}

/* ---- making ---------------------------------------------------------------------------------------------------- */

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

static inline void trial_counts(trial *t)
{
    const bo_attention_desc *d = t->d;
    bool parameters = !t->desc.no_parameters, keys = !t->desc.shape.no_keys;
    t->count[Q] = t->queries_total * d->heads * d->dim;
    t->count[K] = t->keys_total * d->key_heads * d->dim;
    t->count[V] = t->keys_total * d->key_heads * d->value_dim;
    t->count[LOG_GATE] = d->gate && keys ? t->keys_total * d->key_heads : 0;
    t->count[SIGMA] = parameters && d->kind == BO_ATTENTION_RFA ? d->key_heads * d->dim : 0;
    t->count[M] = parameters && d->kind == BO_ATTENTION_DARK ? d->key_heads * d->rank * d->dim : 0;
    t->count[MIX] = parameters && d->kind == BO_ATTENTION_HYBRID ? d->heads : 0;
    t->count[OUT] = t->queries_total * d->heads * d->value_dim;
}

static inline void trial_normal(bo_rng *rng, float *array, size_t count, double deviation)
{
    for (size_t i = 0; i < count; i++) array[i] = (float)(deviation * bo_rng_normal(rng));
}

/* Gates of every kind: most moderate, some that forget nothing (g = 1), some nearly everything, some all there was. */
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

static inline void trial_fill(trial *t)
{
    const bo_attention_desc *d = t->d;
    bo_rng rng = bo_rng_make(t->desc.seed, bo_rng_stream("test.trial", 0));
    double deviation = (t->desc.norm > 0 ? t->desc.norm : 1.5) / sqrt((double)d->dim);
    for (size_t i = 0; i < TRIAL_ARRAYS; i++) {
        t->array[i] = trial_floats(t->count[i]);
        t->gradient[i] = trial_floats(t->count[i]);
    }
    trial_normal(&rng, t->array[Q], t->count[Q], deviation);
    trial_normal(&rng, t->array[K], t->count[K], deviation);
    trial_normal(&rng, t->array[V], t->count[V], 1);
    trial_gates(&rng, t->array[LOG_GATE], t->count[LOG_GATE]);
    for (size_t i = 0; i < t->count[SIGMA]; i++) t->array[SIGMA][i] = (float)(0.6 + bo_rng_uniform(&rng));
    for (size_t i = 0; i < t->count[M]; i++) {
        bool diagonal = i / d->dim % d->rank == i % d->dim;
        t->array[M][i] = (float)(diagonal + 0.4 / sqrt((double)d->dim) * bo_rng_normal(&rng));
    }
    for (size_t i = 0; i < t->count[MIX]; i++) t->array[MIX][i] = (float)(0.3 + 2 * bo_rng_uniform(&rng));
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
                                 .mix = given[MIX]};
}

static inline void **trial_states(const trial *t)
{
    void **states = calloc(t->desc.shape.sequences + 1, sizeof *states);
    size_t bytes = (bo_attention_state_bytes(t->attention) + 63) / 64 * 64;
    for (size_t s = 0; s < t->desc.shape.sequences; s++) {
        states[s] = aligned_alloc(64, bytes);
        memset(states[s], 0, bytes);
        assert_ok(t->context, bo_attention_state_begin(t->context, t->attention, states[s]));
    }
    return states;
}

/* States that have absorbed `past` tokens. */
static inline void trial_begin(trial *t)
{
    const bo_attention_desc *d = t->d;
    size_t rows = t->desc.shape.sequences * d->key_heads * t->desc.past;
    size_t queries = t->desc.shape.sequences * d->heads * t->desc.past;
    bo_rng rng = bo_rng_make(t->desc.seed, bo_rng_stream("test.trial.past", 0));
    double deviation = (t->desc.norm > 0 ? t->desc.norm : 1.5) / sqrt((double)d->dim);
    t->past_k = trial_floats(rows * d->dim), t->past_v = trial_floats(rows * d->value_dim);
    t->past_gate = trial_floats(rows);
    trial_normal(&rng, t->past_k, rows * d->dim, deviation);
    trial_normal(&rng, t->past_v, rows * d->value_dim, 1);
    trial_gates(&rng, t->past_gate, rows);
    if (!t->desc.past) return;
    t->initial = trial_states(t);
    bo_attention_shape shape = {.sequences = t->desc.shape.sequences, .tokens = t->desc.past};
    bo_attention_inputs in = trial_inputs(t);
    float *q = trial_floats(queries * d->dim), *out = trial_floats(queries * d->value_dim);
    in.q = q, in.k = t->past_k, in.v = t->past_v, in.log_gate = d->gate ? t->past_gate : NULL;
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

/* The sums' part of d_final is of the size of 1 / features: log scales make the sums themselves near one. */
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
    t.gradient_floats = bo_attention_state_gradient(t.attention);
    trial_lengths(&t);
    trial_counts(&t);
    trial_fill(&t);
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
    void *single[] = {t->queries, t->keys, t->query_start, t->key_start, t->past_k, t->past_v, t->past_gate, t->tape};
    for (size_t i = 0; i < sizeof single / sizeof *single; i++) free(single[i]);
    trial_free_each(t->initial, n);
    trial_free_each(t->final, n);
    trial_free_each((void **)t->d_final, n);
    trial_free_each((void **)t->d_initial, n);
    bo_attention_destroy(t->attention);
}

/* ---- the library ----------------------------------------------------------------------------------------------- */

static inline void trial_forward(trial *t)
{
    size_t bytes = 0;
    assert_ok(t->context, bo_attention_tape_bytes(t->context, t->attention, &t->desc.shape, &bytes));
    free(t->tape);
    t->tape = aligned_alloc(64, (bytes + 127) / 64 * 64);
    bo_attention_inputs in = trial_inputs(t);
    bo_status status = bo_attention_forward(t->context, t->attention, &t->desc.shape, &in,
                                            (const void *const *)t->initial, t->final, t->array[OUT], t->tape);
    if (status != BO_OK) fail_msg("%s: forward: %s", t->desc.name, bo_context_error(t->context));
}

static inline bo_attention_gradients trial_gradients(float *const wanted[TRIAL_ARRAYS], float *const *initial)
{
    return (bo_attention_gradients){.q = wanted[Q],
                                    .k = wanted[K],
                                    .v = wanted[V],
                                    .log_gate = wanted[LOG_GATE],
                                    .sigma = wanted[SIGMA],
                                    .m = wanted[M],
                                    .mix = wanted[MIX],
                                    .initial = initial};
}

static inline void trial_backward(trial *t)
{
    float *wanted[TRIAL_ARRAYS];
    for (size_t i = 0; i < TRIAL_ARRAYS; i++) {
        wanted[i] = t->count[i] ? t->gradient[i] : NULL;
        for (size_t j = 0; i != OUT && j < t->count[i]; j++) t->gradient[i][j] = NAN; /* each is overwritten */
    }
    for (size_t s = 0; s < t->desc.shape.sequences; s++)
        for (size_t j = 0; j < t->gradient_floats; j++) t->d_initial[s][j] = NAN;
    bo_attention_gradients g = trial_gradients(wanted, t->initial ? t->d_initial : NULL);
    bo_attention_inputs in = trial_inputs(t);
    const float *const *d_final = t->desc.final_gradient ? (const float *const *)t->d_final : NULL;
    bo_status status =
        bo_attention_backward(t->context, t->attention, &t->desc.shape, &in, (const void *const *)t->initial,
                              t->array[OUT], t->tape, t->gradient[OUT], d_final, &g);
    if (status != BO_OK) fail_msg("%s: backward: %s", t->desc.name, bo_context_error(t->context));
}

#endif
