/* The delta rule token by token in float64, slopes of it by central differences, and the same problem put to the
 * library. Tolerances: sums of some hundred float32 products of numbers of order one, so 1e-5 of the largest number of
 * an array leaves room for a hundred roundings; differences over 2e-5 of a smooth float64 function add 1e-8 of it. */
#ifndef BO_TEST_ATTENTION_DELTA_H
#define BO_TEST_ATTENTION_DELTA_H

#include <bochner/attention.h>
#include "../testing.h"

enum { Q, K, V, GATE, BETA, START, ARRAYS, MOST_SEQUENCES = 3 };
static const char *const names[ARRAYS] = {"q", "k", "v", "log_gate", "beta", "initial"};

typedef struct problem {
    const char *name;
    size_t heads, key_heads, dim, values;
    size_t sequences, lengths[MOST_SEQUENCES];
    bool packed, tokens_first, gated, weighed, unit, carried; /* carried: states before, gradients after */
    size_t chunk;
    double gates; /* the largest -log g */
    double norm;  /* of keys; 0: 1 */
} problem;

/* Everything in float64, laid out as the library wants it. */
typedef struct data {
    const problem *p;
    size_t start[MOST_SEQUENCES], total, count[ARRAYS], outs;
    double *in[ARRAYS], *dout, *dfinal;
    double *out, *final; /* what the recurrence says */
} data;

static inline size_t memory_floats(const problem *p)
{
    return p->key_heads * p->dim * p->values;
}

/* The row of a token in an array of `heads` heads. */
static inline size_t row_of(const data *d, size_t heads, size_t sequence, size_t head, size_t token)
{
    const problem *p = d->p;
    size_t start = d->start[sequence];
    if (p->tokens_first) return (start + token) * heads + head;
    if (p->packed) return head * d->total + start + token;
    return start * heads + head * p->lengths[sequence] + token;
}

static inline double *doubles(size_t count)
{
    double *array = calloc(count ? count : 1, sizeof *array);
    assert_non_null(array);
    return array;
}

/* Numbers that float32 holds exactly. */
static inline void fill(bo_rng *rng, double *array, size_t count, double deviation)
{
    for (size_t i = 0; i < count; i++) array[i] = (double)(float)(deviation * bo_rng_normal(rng));
}

static inline data make(const problem *p)
{
    data d = {.p = p};
    bo_rng rng = bo_rng_make(7, bo_rng_stream(p->name, 0));
    for (size_t s = 0; s < p->sequences; s++) {
        d.start[s] = d.total;
        d.total += p->lengths[s];
    }
    size_t keys = d.total * p->key_heads;
    const size_t counts[ARRAYS] = {
        d.total * p->heads * p->dim, keys * p->dim,         keys * p->values,
        p->gated ? keys : 0,         p->weighed ? keys : 0, p->carried ? p->sequences * memory_floats(p) : 0};
    double deviation = (p->norm > 0 ? p->norm : 1) / sqrt((double)p->dim);
    for (int a = 0; a < ARRAYS; a++) {
        d.count[a] = counts[a];
        d.in[a] = doubles(counts[a]);
        fill(&rng, d.in[a], counts[a], a == K ? deviation : 1);
    }
    for (size_t i = 0; i < d.count[GATE]; i++) {
        double which = bo_rng_uniform(&rng);
        d.in[GATE][i] = (double)(float)(-p->gates * bo_rng_uniform(&rng));
        if (which < 0.1) d.in[GATE][i] = 0;
    }
    for (size_t i = 0; i < d.count[BETA]; i++) d.in[BETA][i] = (double)(float)(1.2 * bo_rng_uniform(&rng));
    for (size_t i = 0; i < d.count[BETA]; i += 11) d.in[BETA][i] = 0;
    d.outs = d.total * p->heads * p->values;
    d.dout = doubles(d.outs), d.out = doubles(d.outs);
    d.dfinal = doubles(p->sequences * memory_floats(p)), d.final = doubles(p->sequences * memory_floats(p));
    fill(&rng, d.dout, d.outs, 1);
    if (p->carried) fill(&rng, d.dfinal, p->sequences * memory_floats(p), 1);
    return d;
}

static inline void discard(data *d)
{
    for (int a = 0; a < ARRAYS; a++) free(d->in[a]);
    free(d->dout), free(d->out), free(d->dfinal), free(d->final);
}

/* ---- the recurrence --------------------------------------------------------------------------------------------- */

static inline void unit_row(const problem *p, const double *x, double *to)
{
    double square = 0;
    for (size_t i = 0; i < p->dim; i++) square += x[i] * x[i];
    double factor = p->unit ? 1 / (sqrt(square) + 1e-3) : 1;
    for (size_t i = 0; i < p->dim; i++) to[i] = factor * x[i];
}

static inline void learn(const data *d, size_t sequence, size_t head, size_t token, double *s)
{
    const problem *p = d->p;
    size_t at = row_of(d, p->key_heads, sequence, head, token);
    double g = p->gated ? exp(d->in[GATE][at]) : 1, beta = p->weighed ? d->in[BETA][at] : 1, k[64];
    unit_row(p, d->in[K] + at * p->dim, k);
    for (size_t i = 0; i < p->dim * p->values; i++) s[i] *= g;
    for (size_t j = 0; j < p->values; j++) {
        double u = d->in[V][at * p->values + j];
        for (size_t i = 0; i < p->dim; i++) u -= s[i * p->values + j] * k[i];
        for (size_t i = 0; i < p->dim; i++) s[i * p->values + j] += beta * k[i] * u;
    }
}

static inline void answer(const data *d, size_t sequence, size_t head, size_t token, const double *s)
{
    const problem *p = d->p;
    size_t at = row_of(d, p->heads, sequence, head, token);
    double q[64];
    unit_row(p, d->in[Q] + at * p->dim, q);
    for (size_t j = 0; j < p->values; j++) {
        double sum = 0;
        for (size_t i = 0; i < p->dim; i++) sum += s[i * p->values + j] * q[i];
        d->out[at * p->values + j] = sum / sqrt((double)p->dim);
    }
}

static inline void recur_head(const data *d, size_t sequence, size_t head)
{
    const problem *p = d->p;
    size_t floats = p->dim * p->values, group = p->heads / p->key_heads,
           at = sequence * memory_floats(p) + head * floats;
    double *s = d->final + at;
    memset(s, 0, floats * sizeof *s);
    if (p->carried) memcpy(s, d->in[START] + at, floats * sizeof *s);
    for (size_t t = 0; t < p->lengths[sequence]; t++) {
        learn(d, sequence, head, t, s);
        for (size_t g = 0; g < group; g++) answer(d, sequence, head * group + g, t, s);
    }
}

static inline double loss(const data *d)
{
    const problem *p = d->p;
    double sum = 0;
    for (size_t s = 0; s < p->sequences; s++)
        for (size_t h = 0; h < p->key_heads; h++) recur_head(d, s, h);
    for (size_t i = 0; i < d->outs; i++) sum += d->out[i] * d->dout[i];
    for (size_t i = 0; i < p->sequences * memory_floats(p); i++) sum += d->final[i] * d->dfinal[i];
    return sum;
}

static inline double slope(const data *d, int array, size_t i)
{
    const double h = 1e-5;
    double *x = &d->in[array][i], was = *x;
    *x = was + h;
    double up = loss(d);
    *x = was - h;
    double down = loss(d);
    *x = was;
    return (up - down) / (2 * h);
}

/* ---- the library ------------------------------------------------------------------------------------------------ */

typedef struct answers {
    bo_attention *attention;
    bo_attention_shape shape;
    float *in[ARRAYS], *gradient[ARRAYS], *out, *dout, *dfinal;
    void *states[MOST_SEQUENCES], *finals[MOST_SEQUENCES], *tape;
    float *d_initial[MOST_SEQUENCES], *d_final[MOST_SEQUENCES];
    bo_attention_inputs inputs;
} answers;

static inline float *floats_of(const double *from, size_t count)
{
    float *array = calloc(count ? count : 1, sizeof *array);
    assert_non_null(array);
    for (size_t i = 0; from && i < count; i++) array[i] = (float)from[i];
    return array;
}

static inline bo_attention *attention_of(bo_context *context, const problem *p)
{
    bo_attention_desc desc = {.kind = BO_ATTENTION_DELTA,
                              .heads = p->heads,
                              .key_heads = p->key_heads,
                              .dim = p->dim,
                              .value_dim = p->values,
                              .causal = true,
                              .gate = p->gated ? BO_GATE_DECAY : BO_GATE_NONE,
                              .unit = p->unit,
                              .chunk = p->chunk};
    bo_attention *attention;
    assert_ok(context, bo_attention_create(context, &desc, &attention));
    return attention;
}

static inline void *state_of(bo_context *context, const answers *a)
{
    void *state = malloc(bo_attention_state_bytes(a->attention));
    assert_non_null(state);
    assert_ok(context, bo_attention_state_begin(context, a->attention, state));
    return state;
}

static inline void set_states(bo_context *context, const data *d, answers *a)
{
    const problem *p = d->p;
    size_t floats = p->dim * p->values;
    for (size_t s = 0; s < p->sequences; s++) {
        a->states[s] = state_of(context, a);
        a->finals[s] = state_of(context, a);
        a->d_initial[s] = a->gradient[START] + s * memory_floats(p);
        a->d_final[s] = a->dfinal + s * memory_floats(p);
        for (size_t h = 0; p->carried && h < p->key_heads; h++)
            assert_ok(context, bo_attention_state_set(context, a->attention, a->states[s], h,
                                                      a->in[START] + s * memory_floats(p) + h * floats, NULL, 0));
    }
}

static inline answers ready(bo_context *context, const data *d)
{
    const problem *p = d->p;
    answers a = {.attention = attention_of(context, p)};
    assert_int_equal(bo_attention_state_gradient(a.attention), memory_floats(p));
    a.shape = (bo_attention_shape){.sequences = p->sequences,
                                   .tokens = p->lengths[0],
                                   .lengths = p->packed ? p->lengths : NULL,
                                   .layout = p->tokens_first ? BO_LAYOUT_TOKENS_FIRST : BO_LAYOUT_HEADS_FIRST};
    for (int i = 0; i < ARRAYS; i++) a.in[i] = floats_of(d->in[i], d->count[i]);
    for (int i = 0; i < START; i++) a.gradient[i] = floats_of(NULL, d->count[i]);
    a.gradient[START] = floats_of(NULL, p->sequences * memory_floats(p));
    a.out = floats_of(NULL, d->outs), a.dout = floats_of(d->dout, d->outs);
    a.dfinal = floats_of(d->dfinal, p->sequences * memory_floats(p));
    set_states(context, d, &a);
    a.inputs = (bo_attention_inputs){.q = a.in[Q], .k = a.in[K], .v = a.in[V]};
    if (p->gated) a.inputs.log_gate = a.in[GATE];
    if (p->weighed) a.inputs.beta = a.in[BETA];
    size_t bytes;
    assert_ok(context, bo_attention_tape_bytes(context, a.attention, &a.shape, &bytes));
    a.tape = malloc(bytes);
    assert_non_null(a.tape);
    return a;
}

static inline bo_status forward(bo_context *context, const data *d, answers *a)
{
    const void *const *initial = d->p->carried ? (const void *const *)a->states : NULL;
    return bo_attention_forward(context, a->attention, &a->shape, &a->inputs, initial, a->finals, a->out, a->tape);
}

static inline bo_status backward(bo_context *context, const data *d, answers *a)
{
    bool carried = d->p->carried;
    bo_attention_gradients gradients = {.q = a->gradient[Q],
                                        .k = a->gradient[K],
                                        .v = a->gradient[V],
                                        .log_gate = d->p->gated ? a->gradient[GATE] : NULL,
                                        .beta = a->gradient[BETA],
                                        .initial = a->d_initial};
    if (!d->p->weighed) gradients.beta = NULL;
    return bo_attention_backward(context, a->attention, &a->shape, &a->inputs,
                                 carried ? (const void *const *)a->states : NULL, a->out, a->tape, a->dout,
                                 carried ? (const float *const *)a->d_final : NULL, &gradients);
}

static inline void drop(const data *d, answers *a)
{
    bo_attention_destroy(a->attention);
    for (int i = 0; i < ARRAYS; i++) free(a->in[i]), free(a->gradient[i]);
    for (size_t s = 0; s < d->p->sequences; s++) free(a->states[s]), free(a->finals[s]);
    free(a->out), free(a->dout), free(a->dfinal), free(a->tape);
}

/* ---- against the recurrence ------------------------------------------------------------------------------------- */

static inline double largest(const double *x, size_t count)
{
    double most = 1e-30;
    for (size_t i = 0; i < count; i++) most = fmax(most, fabs(x[i]));
    return most;
}

static inline void assert_array(const problem *p, const char *what, const float *actual, const double *expected,
                                size_t count)
{
    double tolerance = 1e-5 * largest(expected, count);
    for (size_t i = 0; i < count; i++)
        if (!(fabs((double)actual[i] - expected[i]) <= tolerance))
            fail_msg("%s: %s[%zu] is %.9g, expected %.9g within %.2g", p->name, what, i, (double)actual[i], expected[i],
                     tolerance);
}

static inline void check_finals(bo_context *context, const data *d, const answers *a)
{
    const problem *p = d->p;
    size_t floats = p->dim * p->values;
    float *s = floats_of(NULL, floats);
    for (size_t i = 0; i < p->sequences * p->key_heads; i++) {
        assert_ok(context, bo_attention_state_get(context, a->attention, a->finals[i / p->key_heads], i % p->key_heads,
                                                  s, NULL, NULL));
        assert_array(p, "final", s, d->final + i * floats, floats);
    }
    free(s);
}

static inline void check_gradients(const data *d, const answers *a)
{
    for (int array = 0; array < ARRAYS; array++) {
        double *expected = doubles(d->count[array]);
        for (size_t i = 0; i < d->count[array]; i++) expected[i] = slope(d, array, i);
        assert_array(d->p, names[array], a->gradient[array], expected, d->count[array]);
        free(expected);
    }
}

#endif
