/* Cases of gated linear attention, and a float64 reference by its recurrence, token by token: outputs, states and every
 * gradient. */
#ifndef BO_TEST_ATTENTION_GLA_H
#define BO_TEST_ATTENTION_GLA_H

#include "attention/attention.h"
#include "testing.h"

/* ---- cases ------------------------------------------------------------------------------------------------------- */

typedef enum gates { MILD, SLOW, EXTREME, CLOSED, GATES } gates;

typedef struct model {
    bo_attention_desc desc;
    bo_attention_shape shape;
    gates gates;
    /* initial and final states are used; gradients of the outputs are given; queries only, without keys */
    bool states, dout, no_keys;
    uint64_t seed;
} model;

enum { Q, K, V, GATE, OUT, ARRAYS };
static const char *const names[ARRAYS] = {"q", "k", "v", "log_gate", "out"};

/* All arrays of a case. The gradient of OUT is the given dout. */
typedef struct data {
    model model;
    /* total number of tokens, query heads per key head, floats of the states of a sequence */
    size_t total, group, state;
    size_t count[ARRAYS];
    float *array[ARRAYS], *gradient[ARRAYS];
    float *s0, *s1, *ds0, *ds1; /* sequences x key_heads x dim x value_dim: initial, final */
} data;

static inline size_t tokens_of(const model *m, size_t sequence)
{
    return m->shape.lengths ? m->shape.lengths[sequence] : m->shape.tokens;
}

static inline size_t start_of(const model *m, size_t sequence)
{
    size_t start = 0;
    for (size_t s = 0; s < sequence; s++) start += tokens_of(m, s);
    return start;
}

static inline bool of_queries(int array)
{
    return array == Q || array == OUT;
}

/* Index of the first element of row t of (sequence, head). */
static inline size_t at(const data *x, int array, size_t sequence, size_t head, size_t t)
{
    const bo_attention_desc *d = &x->model.desc;
    size_t heads = of_queries(array) ? d->heads : d->key_heads, start = start_of(&x->model, sequence);
    size_t width = array == V || array == OUT ? d->value_dim : d->dim, row = (start + t) * heads + head;
    if (x->model.shape.layout == BO_LAYOUT_HEADS_FIRST)
        row = x->model.shape.lengths ? head * x->total + start + t
                                     : (sequence * heads + head) * x->model.shape.tokens + t;
    return row * width;
}

static inline float *random_floats(size_t count, bo_rng *rng)
{
    float *x = malloc((count + 1) * sizeof *x);
    for (size_t i = 0; i < count; i++) x[i] = (float)bo_rng_normal(rng);
    return x;
}

static inline float random_gate(gates kind, bo_rng *rng)
{
    static const float extremes[] = {0, -1e-3f, -30, -1e4f, -1e9f, -0.5f, -3e38f, -5};
    double u = bo_rng_uniform(rng);
    switch (kind) {
    case MILD:
        return (float)(-0.3 * u);
    case SLOW:
        return (float)(-log1p(exp(-bo_rng_normal(rng))) / 16);
    case EXTREME:
        return extremes[(size_t)(u * 8)];
    default:
        return u < 0.1 ? -1e4f : -0.1f;
    }
}

static inline data make_data(const model *m)
{
    data x = {.model = *m, .total = start_of(m, m->shape.sequences)};
    bo_attention_desc *d = &x.model.desc;
    bo_rng rng = bo_rng_make(m->seed, 77);
    if (!d->key_heads) d->key_heads = d->heads;
    if (!d->value_dim) d->value_dim = d->dim;
    d->kind = BO_ATTENTION_GLA;
    d->causal = true;
    x.model.shape.no_keys = m->no_keys;
    x.group = d->heads / d->key_heads;
    x.state = d->key_heads * d->dim * d->value_dim;
    for (int a = 0; a < ARRAYS; a++) {
        size_t heads = of_queries(a) ? d->heads : d->key_heads;
        x.count[a] = x.total * heads * (a == V || a == OUT ? d->value_dim : d->dim);
        x.array[a] = random_floats(x.count[a], &rng);
        x.gradient[a] = random_floats(x.count[a], &rng);
    }
    for (size_t i = 0; i < x.count[GATE]; i++) x.array[GATE][i] = random_gate(m->gates, &rng);
    size_t states = m->shape.sequences * x.state;
    x.s0 = random_floats(states, &rng), x.s1 = random_floats(states, &rng);
    x.ds0 = random_floats(states, &rng), x.ds1 = random_floats(states, &rng);
    return x;
}

static inline void drop(data *x)
{
    for (int a = 0; a < ARRAYS; a++) free(x->array[a]), free(x->gradient[a]);
    free(x->s0), free(x->s1), free(x->ds0), free(x->ds1);
}

/* ---- recurrence -------------------------------------------------------------------------------------------------- */

/* Results in double. With `sizes` every input is replaced by its magnitude, which bounds the terms of a result. */
typedef struct truth {
    bool sizes;
    double *value[ARRAYS]; /* OUT: outputs; other arrays: gradients */
    double *s1, *ds0;
} truth;

static inline double term(const truth *r, float x)
{
    return r->sizes ? fabs((double)x) : (double)x;
}

/* x / (|x| + e) if unit norms are requested, and its gradient computed from dy in place. */
static inline void to_unit(const data *x, const truth *r, const float *from, double *to)
{
    double norm = 0;
    for (size_t c = 0; c < x->model.desc.dim; c++) norm += (double)from[c] * (double)from[c];
    for (size_t c = 0; c < x->model.desc.dim; c++)
        to[c] = term(r, from[c]) / (x->model.desc.unit ? sqrt(norm) + 1e-3 : 1);
}

static inline void from_unit(const data *x, const truth *r, const float *from, double *dy)
{
    double norm = 0, inner = 0;
    if (!x->model.desc.unit) return;
    for (size_t c = 0; c < x->model.desc.dim; c++) {
        norm += (double)from[c] * (double)from[c];
        inner += term(r, from[c]) * dy[c];
    }
    norm = sqrt(norm);
    for (size_t c = 0; c < x->model.desc.dim; c++)
        dy[c] = dy[c] / (norm + 1e-3) +
                (r->sizes ? 1 : -1) * term(r, from[c]) * inner / (norm * (norm + 1e-3) * (norm + 1e-3));
}

/* One key head of one sequence. */
typedef struct place {
    const data *x;
    truth *r;
    size_t sequence, key_head, dim, values, size;
    double scale;
} place;

static inline double gate_of(const place *p, size_t t, size_t channel)
{
    if (p->x->model.no_keys) return 1;
    return exp((double)p->x->array[GATE][at(p->x, GATE, p->sequence, p->key_head, t) + channel]);
}

/* Computes the outputs at t, and S_t from S_{t-1}. */
static inline void go_on(const place *p, size_t t, const double *before, double *now, double *row)
{
    const data *x = p->x;
    const float *v = x->array[V] + at(x, V, p->sequence, p->key_head, t);
    to_unit(x, p->r, x->array[K] + at(x, K, p->sequence, p->key_head, t), row);
    for (size_t i = 0; i < p->size; i++) {
        now[i] = gate_of(p, t, i / p->values) * before[i];
        if (!x->model.no_keys) now[i] += row[i / p->values] * term(p->r, v[i % p->values]);
    }
    for (size_t h = p->key_head * x->group; h < (p->key_head + 1) * x->group; h++) {
        double *out = p->r->value[OUT] + at(x, OUT, p->sequence, h, t);
        to_unit(x, p->r, x->array[Q] + at(x, Q, p->sequence, h, t), row);
        for (size_t i = 0; i < p->size; i++) out[i % p->values] += p->scale * row[i / p->values] * now[i];
    }
}

/* Computes the gradients at t, and R_t g_t from R_{t+1} g_{t+1} (in `back`), where R = dL/dS. */
static inline void go_back(const place *p, size_t t, const double *before, const double *now, double *back, double *row)
{
    const data *x = p->x;
    size_t key = at(x, K, p->sequence, p->key_head, t), value = at(x, V, p->sequence, p->key_head, t);
    for (size_t h = p->key_head * x->group; x->model.dout && h < (p->key_head + 1) * x->group; h++) {
        size_t query = at(x, Q, p->sequence, h, t);
        const float *dout = x->gradient[OUT] + at(x, OUT, p->sequence, h, t);
        to_unit(x, p->r, x->array[Q] + query, row);
        for (size_t i = 0; i < p->size; i++) {
            p->r->value[Q][query + i / p->values] += p->scale * now[i] * term(p->r, dout[i % p->values]);
            back[i] += p->scale * row[i / p->values] * term(p->r, dout[i % p->values]);
        }
        from_unit(x, p->r, x->array[Q] + query, p->r->value[Q] + query);
    }
    if (x->model.no_keys) return;
    to_unit(x, p->r, x->array[K] + key, row);
    for (size_t i = 0; i < p->size; i++) {
        p->r->value[K][key + i / p->values] += back[i] * term(p->r, x->array[V][value + i % p->values]);
        p->r->value[V][value + i % p->values] += back[i] * row[i / p->values];
        back[i] *= gate_of(p, t, i / p->values);
        p->r->value[GATE][key + i / p->values] += before[i] * back[i];
    }
    from_unit(x, p->r, x->array[K] + key, p->r->value[K] + key);
}

static inline void recur(const data *x, truth *r, size_t sequence, size_t key_head)
{
    const bo_attention_desc *d = &x->model.desc;
    place p = {x,
               r,
               sequence,
               key_head,
               d->dim,
               d->value_dim,
               d->dim * d->value_dim,
               d->scale > 0 ? d->scale : 1 / sqrt((double)d->dim)};
    size_t tokens = tokens_of(&x->model, sequence), state = sequence * x->state + key_head * p.size;
    double *s = calloc((tokens + 1) * p.size, sizeof *s), *back = calloc(p.size, sizeof *back);
    double *row = malloc(p.dim * sizeof *row);
    for (size_t i = 0; x->model.states && i < p.size; i++) {
        s[i] = term(r, x->s0[state + i]);
        back[i] = term(r, x->ds1[state + i]);
    }
    for (size_t t = 0; t < tokens; t++) go_on(&p, t, s + t * p.size, s + (t + 1) * p.size, row);
    for (size_t t = tokens; t-- > 0;) go_back(&p, t, s + t * p.size, s + (t + 1) * p.size, back, row);
    memcpy(r->s1 + state, s + tokens * p.size, p.size * sizeof *s);
    memcpy(r->ds0 + state, back, p.size * sizeof *back);
    free(s), free(back), free(row);
}

static inline truth find_truth(const data *x, bool sizes)
{
    truth r = {.sizes = sizes};
    size_t states = x->model.shape.sequences * x->state;
    for (int a = 0; a < ARRAYS; a++) r.value[a] = calloc(x->count[a] + 1, sizeof(double));
    r.s1 = calloc(states + 1, sizeof(double)), r.ds0 = calloc(states + 1, sizeof(double));
    for (size_t s = 0; s < x->model.shape.sequences; s++)
        for (size_t h = 0; h < x->model.desc.key_heads; h++) recur(x, &r, s, h);
    return r;
}

static inline void drop_truth(truth *r)
{
    for (int a = 0; a < ARRAYS; a++) free(r->value[a]);
    free(r->s1), free(r->ds0);
}

#endif
