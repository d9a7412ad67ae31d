/* The delta rule: S = g S + β k (v - g Sᵀk)ᵀ, out = Sᵀq / √dim. */
#ifndef BO_TEST_ATTENTION_DELTA_H
#define BO_TEST_ATTENTION_DELTA_H

#include "recurrence.h"

/* Sums of several hundred float32 products of numbers of order one: 1e-5 of the largest element of an array covers a
 * hundred rounding errors. Central differences of a smooth float64 function with a step of 2e-5 add a relative error of
 * 1e-8. */
static const double tolerance = 1e-5;

static inline bo_attention_kind kind(void)
{
    return BO_ATTENTION_DELTA;
}

static inline size_t head_floats(const problem *p)
{
    return p->dim * p->values;
}

static inline void fill_memory(bo_rng *rng, const problem *p, double *s)
{
    fill(rng, s, head_floats(p), 1, 0);
}

static inline void learn(const data *d, size_t sequence, size_t head, size_t token, double *s)
{
    const problem *p = d->p;
    size_t at = row_of(d, p->key_heads, sequence, head, token);
    double g = p->gated ? exp(d->in[GATE][at]) : 1, beta = p->weighed ? d->in[BETA][at] : 1, k[MAX_DIM];
    unit_row(p, d->in[K] + at * p->dim, k);
    for (size_t i = 0; i < p->dim * p->values; i++) s[i] *= g;
    for (size_t j = 0; j < p->values; j++) {
        double u = d->in[V][at * p->values + j];
        for (size_t i = 0; i < p->dim; i++) u -= s[i * p->values + j] * k[i];
        for (size_t i = 0; i < p->dim; i++) s[i * p->values + j] += beta * k[i] * u;
    }
}

static inline void compute_output(const data *d, size_t sequence, size_t head, size_t token, const double *s)
{
    const problem *p = d->p;
    size_t at = row_of(d, p->heads, sequence, head, token);
    double q[MAX_DIM];
    unit_row(p, d->in[Q] + at * p->dim, q);
    for (size_t j = 0; j < p->values; j++) {
        double sum = 0;
        for (size_t i = 0; i < p->dim; i++) sum += s[i * p->values + j] * q[i];
        d->out[at * p->values + j] = sum / sqrt((double)p->dim);
    }
}

#endif
