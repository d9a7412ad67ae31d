/* Ridge attention token by token in float64, every system solved anew by elimination: what the tests of its engine
 * hold it to. Gradients are central differences of this. */
#ifndef BO_TEST_ATTENTION_RIDGE_PROBLEM_H
#define BO_TEST_ATTENTION_RIDGE_PROBLEM_H

#include <bochner/attention.h>
#include "../testing.h"

enum { Q, K, V, GATE, BETA, LAMBDA, START, ARRAYS, MOST_SEQUENCES = 3, MOST_DIM = 64 };

typedef struct problem {
    const char *name;
    size_t heads, key_heads, dim, values;
    size_t sequences, lengths[MOST_SEQUENCES];
    bool packed, tokens_first, gated, weighed, unit, carried; /* carried: states before, gradients after */
    size_t chunk;
    double gates;  /* the largest -log g */
    double lambda; /* their middle; 0: not given */
    double tilt;   /* what keys have in common, in units of their deviation: makes H ill-conditioned */
    size_t iterations;
    double tolerance;
} problem;

/* Everything in float64, laid out as the library wants it. */
typedef struct data {
    const problem *p;
    size_t start[MOST_SEQUENCES], total, count[ARRAYS], outs;
    double *in[ARRAYS], *dout, *dfinal;
    double *out, *final; /* what the recurrence says */
} data;

/* Of one key head: G, then H. */
static inline size_t head_floats(const problem *p)
{
    return p->dim * (p->values + p->dim);
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

static inline float *floats_of(size_t count, const double *from)
{
    float *array = calloc(count ? count : 1, sizeof *array);
    assert_non_null(array);
    for (size_t i = 0; from && i < count; i++) array[i] = (float)from[i];
    return array;
}

/* Numbers that float32 holds exactly. */
static inline void fill(bo_rng *rng, double *array, size_t count, double deviation, double mean)
{
    for (size_t i = 0; i < count; i++) array[i] = (double)(float)(deviation * (mean + bo_rng_normal(rng)));
}

/* States as tokens would have left them: G anything, H = AAᵀ. */
static inline void fill_states(bo_rng *rng, const problem *p, size_t heads, double *states)
{
    size_t dim = p->dim;
    double a[MOST_DIM * MOST_DIM];
    for (size_t n = 0; n < heads; n++, states += head_floats(p)) {
        double *h = states + dim * p->values;
        fill(rng, states, dim * p->values, 1, 0);
        fill(rng, a, dim * dim, 1 / sqrt((double)dim), 0);
        for (size_t i = 0; i < dim; i++)
            for (size_t j = 0; j < dim; j++) {
                double sum = 0;
                for (size_t m = 0; m < dim; m++) sum += a[i * dim + m] * a[j * dim + m];
                h[i * dim + j] = (double)(float)sum;
            }
    }
}

static inline data make(const problem *p)
{
    data d = {.p = p};
    bo_rng rng = bo_rng_make(7, bo_rng_stream(p->name, 0));
    for (size_t s = 0; s < p->sequences; s++) {
        d.start[s] = d.total;
        d.total += p->lengths[s];
    }
    size_t keys = d.total * p->key_heads, states = p->sequences * p->key_heads * head_floats(p);
    const size_t counts[ARRAYS] = {[Q] = d.total * p->heads * p->dim,
                                   [K] = keys * p->dim,
                                   [V] = keys * p->values,
                                   [GATE] = p->gated ? keys : 0,
                                   [BETA] = p->weighed ? keys : 0,
                                   [LAMBDA] = p->lambda > 0 ? p->key_heads * p->dim : 0,
                                   [START] = p->carried ? states : 0};
    for (int a = 0; a < ARRAYS; a++) {
        d.count[a] = counts[a];
        d.in[a] = doubles(counts[a]);
        if (a <= V) fill(&rng, d.in[a], counts[a], a == V ? 1 : 1 / sqrt((double)p->dim), a == V ? 0 : p->tilt);
    }
    for (size_t i = 0; i < d.count[GATE]; i++)
        d.in[GATE][i] = i % 10 ? (double)(float)(-p->gates * bo_rng_uniform(&rng)) : 0;
    for (size_t i = 0; i < d.count[BETA]; i++) d.in[BETA][i] = i % 11 ? (double)(float)(1.2 * bo_rng_uniform(&rng)) : 0;
    for (size_t i = 0; i < d.count[LAMBDA]; i++)
        d.in[LAMBDA][i] = (double)(float)(p->lambda * exp(bo_rng_normal(&rng) / 2));
    if (p->carried) fill_states(&rng, p, p->sequences * p->key_heads, d.in[START]);
    d.outs = d.total * p->heads * p->values;
    d.dout = doubles(d.outs), d.out = doubles(d.outs);
    d.dfinal = doubles(states), d.final = doubles(states);
    fill(&rng, d.dout, d.outs, 1, 0);
    if (p->carried) fill(&rng, d.dfinal, states, 0.1, 0);
    return d;
}

static inline void discard(data *d)
{
    for (int a = 0; a < ARRAYS; a++) free(d->in[a]);
    free(d->dout), free(d->out), free(d->dfinal), free(d->final);
}

/* ---- the recurrence -------------------------------------------------------------------------------------------- */

static inline void unit_row(const problem *p, const double *x, double *to)
{
    double square = 0;
    for (size_t i = 0; i < p->dim; i++) square += x[i] * x[i];
    double factor = p->unit ? 1 / (sqrt(square) + 1e-3) : 1;
    for (size_t i = 0; i < p->dim; i++) to[i] = factor * x[i];
}

/* x of (H + Λ) x = q, by elimination with the largest pivots. */
static inline void eliminate(size_t n, const double *h, const double *lambda, const double *q, double *x)
{
    double a[MOST_DIM][MOST_DIM];
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < n; j++) a[i][j] = h[i * n + j] + (i == j ? lambda ? lambda[i] : 1 : 0);
        x[i] = q[i];
    }
    for (size_t c = 0; c < n; c++) {
        size_t pivot = c;
        for (size_t i = c + 1; i < n; i++)
            if (fabs(a[i][c]) > fabs(a[pivot][c])) pivot = i;
        for (size_t j = 0; j < n; j++) {
            double held = a[c][j];
            a[c][j] = a[pivot][j], a[pivot][j] = held;
        }
        double held = x[c];
        x[c] = x[pivot], x[pivot] = held;
        for (size_t i = c + 1; i < n; i++) {
            double factor = a[i][c] / a[c][c];
            for (size_t j = c; j < n; j++) a[i][j] -= factor * a[c][j];
            x[i] -= factor * x[c];
        }
    }
    for (size_t c = n; c-- > 0;) {
        for (size_t j = c + 1; j < n; j++) x[c] -= a[c][j] * x[j];
        x[c] /= a[c][c];
    }
}

static inline void learn(const data *d, size_t sequence, size_t head, size_t token, double *s)
{
    const problem *p = d->p;
    size_t at = row_of(d, p->key_heads, sequence, head, token), dim = p->dim;
    double g = p->gated ? exp(d->in[GATE][at]) : 1, beta = p->weighed ? d->in[BETA][at] : 1, k[MOST_DIM];
    double *h = s + dim * p->values;
    const double *v = d->in[V] + at * p->values;
    unit_row(p, d->in[K] + at * dim, k);
    for (size_t i = 0; i < dim; i++) {
        for (size_t j = 0; j < p->values; j++) s[i * p->values + j] = g * s[i * p->values + j] + beta * k[i] * v[j];
        for (size_t j = 0; j < dim; j++) h[i * dim + j] = g * h[i * dim + j] + beta * k[i] * k[j];
    }
}

static inline void answer(const data *d, size_t sequence, size_t head, size_t token, const double *s)
{
    const problem *p = d->p;
    size_t at = row_of(d, p->heads, sequence, head, token), key_head = head / (p->heads / p->key_heads);
    double q[MOST_DIM], x[MOST_DIM];
    unit_row(p, d->in[Q] + at * p->dim, q);
    eliminate(p->dim, s + p->dim * p->values, d->count[LAMBDA] ? d->in[LAMBDA] + key_head * p->dim : NULL, q, x);
    for (size_t j = 0; j < p->values; j++) {
        double sum = 0;
        for (size_t i = 0; i < p->dim; i++) sum += s[i * p->values + j] * x[i];
        d->out[at * p->values + j] = sum;
    }
}

/* Answers every `stride`-th token and the last; the others stay as they are. */
static inline void recur(const data *d, size_t stride)
{
    const problem *p = d->p;
    size_t group = p->heads / p->key_heads;
    for (size_t n = 0; n < p->sequences * p->key_heads; n++) {
        size_t sequence = n / p->key_heads, head = n % p->key_heads, tokens = p->lengths[sequence];
        double *s = d->final + n * head_floats(p);
        memset(s, 0, head_floats(p) * sizeof *s);
        if (p->carried) memcpy(s, d->in[START] + n * head_floats(p), head_floats(p) * sizeof *s);
        for (size_t t = 0; t < tokens; t++) {
            learn(d, sequence, head, t, s);
            for (size_t g = 0; (t % stride == 0 || t + 1 == tokens) && g < group; g++)
                answer(d, sequence, head * group + g, t, s);
        }
    }
}

/* ⟨dout, out⟩ + ⟨dfinal, final⟩ */
static inline double loss(const data *d)
{
    double sum = 0;
    recur(d, 1);
    for (size_t i = 0; i < d->outs; i++) sum += d->dout[i] * d->out[i];
    for (size_t i = 0; i < d->p->sequences * d->p->key_heads * head_floats(d->p); i++)
        sum += d->dfinal[i] * d->final[i];
    return sum;
}

static inline double difference(const data *d, int array, size_t index)
{
    double *at = d->in[array] + index, held = *at, step = 1e-5 * fmax(fabs(held), array == LAMBDA ? 0 : 1);
    if (array == GATE) step = 1e-5;
    *at = held + step;
    double after = loss(d);
    *at = held - step;
    double before = loss(d);
    *at = held;
    return (after - before) / (2 * step);
}

/* ---- the library ----------------------------------------------------------------------------------------------- */

static inline bo_attention *attention_of(bo_context *context, const problem *p)
{
    bo_attention_desc desc = {.kind = BO_ATTENTION_RIDGE,
                              .heads = p->heads,
                              .key_heads = p->key_heads,
                              .dim = p->dim,
                              .value_dim = p->values,
                              .causal = true,
                              .gate = p->gated ? BO_GATE_DECAY : BO_GATE_NONE,
                              .unit = p->unit,
                              .iterations = p->iterations,
                              .tolerance = p->tolerance,
                              .chunk = p->chunk};
    bo_attention *attention;
    assert_ok(context, bo_attention_create(context, &desc, &attention));
    return attention;
}

static inline bo_attention_shape shape_of(const problem *p)
{
    return (bo_attention_shape){.sequences = p->sequences,
                                .tokens = p->lengths[0],
                                .lengths = p->packed ? p->lengths : NULL,
                                .layout = p->tokens_first ? BO_LAYOUT_TOKENS_FIRST : BO_LAYOUT_HEADS_FIRST};
}

/* A problem in float32, as the library takes it. */
typedef struct run {
    const data *d;
    bo_context *context;
    bo_attention *attention;
    bo_attention_shape shape;
    float *in[ARRAYS], *out;
    bo_attention_inputs inputs;
    void *initial[MOST_SEQUENCES], *final[MOST_SEQUENCES];
    bo_solves solves;
} run;

static inline void set_states(run *r, const float *from)
{
    const problem *p = r->d->p;
    for (size_t n = 0; n < p->sequences * p->key_heads; n++) {
        void *state = r->initial[n / p->key_heads];
        const float *s = from + n * head_floats(p);
        if (n % p->key_heads == 0) assert_ok(r->context, bo_attention_state_begin(r->context, r->attention, state));
        if (p->carried)
            assert_ok(r->context, bo_attention_state_set(r->context, r->attention, state, n % p->key_heads, s,
                                                         s + p->dim * p->values, 0));
    }
}

static inline run *run_make(bo_context *context, const data *d)
{
    run *r = calloc(1, sizeof *r);
    assert_non_null(r);
    r->d = d, r->context = context;
    r->attention = attention_of(context, d->p), r->shape = shape_of(d->p);
    for (int a = 0; a < ARRAYS; a++) r->in[a] = d->count[a] ? floats_of(d->count[a], d->in[a]) : NULL;
    r->inputs = (bo_attention_inputs){.q = r->in[Q],
                                      .k = r->in[K],
                                      .v = r->in[V],
                                      .log_gate = r->in[GATE],
                                      .beta = r->in[BETA],
                                      .lambda = r->in[LAMBDA],
                                      .solves = &r->solves};
    r->out = floats_of(d->outs, NULL);
    for (size_t s = 0; s < d->p->sequences; s++) {
        r->initial[s] = calloc(1, bo_attention_state_bytes(r->attention));
        r->final[s] = calloc(1, bo_attention_state_bytes(r->attention));
    }
    set_states(r, r->in[START]);
    return r;
}

static inline void run_free(run *r)
{
    for (int a = 0; a < ARRAYS; a++) free(r->in[a]);
    for (size_t s = 0; s < MOST_SEQUENCES; s++) free(r->initial[s]), free(r->final[s]);
    bo_attention_destroy(r->attention);
    free(r->out);
    free(r);
}

static inline void run_forward(run *r, void *tape)
{
    assert_ok(r->context, bo_attention_forward(r->context, r->attention, &r->shape, &r->inputs,
                                               (const void *const *)r->initial, r->final, r->out, tape));
}

/* Every number within `tolerance` of the array's largest (or of 1e-3, where all are less). */
static inline void compare(const char *name, const char *what, size_t count, const float *found, const double *expected,
                           double tolerance)
{
    double largest = 1e-3, worst = 0;
    size_t where = 0;
    for (size_t i = 0; i < count; i++) largest = fmax(largest, fabs(expected[i]));
    for (size_t i = 0; i < count; i++) {
        double error = fabs((double)found[i] - expected[i]);
        if (!(error <= worst)) worst = error, where = i;
    }
    if (!(worst <= tolerance * largest))
        fail_msg("%s: %s[%zu] = %.9g, expected %.9g within %.3g", name, what, where, (double)found[where],
                 expected[where], tolerance * largest);
}

static inline float *final_sums(const run *r)
{
    const problem *p = r->d->p;
    float *all = floats_of(p->sequences * p->key_heads * head_floats(p), NULL);
    for (size_t n = 0; n < p->sequences * p->key_heads; n++) {
        float *s = all + n * head_floats(p);
        assert_ok(r->context, bo_attention_state_get(r->context, r->attention, r->final[n / p->key_heads],
                                                     n % p->key_heads, s, s + p->dim * p->values, NULL));
    }
    return all;
}

#endif
