/* Ridge attention: G and H of each key head decay and receive β k vᵀ and β k kᵀ; out = Gᵀ (H + Λ)⁻¹ q. Every system is
 * solved from scratch by elimination. */
#ifndef BO_TEST_ATTENTION_RIDGE_PROBLEM_H
#define BO_TEST_ATTENTION_RIDGE_PROBLEM_H

#include "recurrence.h"

static inline bo_attention_kind kind(void)
{
    return BO_ATTENTION_RIDGE;
}

/* G, then H. */
static inline size_t head_floats(const problem *p)
{
    return p->dim * (p->values + p->dim);
}

/* G is arbitrary, H = AAᵀ. */
static inline void fill_memory(bo_rng *rng, const problem *p, double *s)
{
    size_t dim = p->dim;
    double a[MAX_DIM * MAX_DIM], *h = s + dim * p->values;
    fill(rng, s, dim * p->values, 1, 0);
    fill(rng, a, dim * dim, 1 / sqrt((double)dim), 0);
    for (size_t i = 0; i < dim; i++)
        for (size_t j = 0; j < dim; j++) {
            double sum = 0;
            for (size_t m = 0; m < dim; m++) sum += a[i * dim + m] * a[j * dim + m];
            h[i * dim + j] = (double)(float)sum;
        }
}

/* Solves (H + Λ) x = q by elimination with partial pivoting. */
static inline void eliminate(size_t n, const double *h, const double *lambda, const double *q, double *x)
{
    double a[MAX_DIM][MAX_DIM];
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < n; j++) a[i][j] = h[i * n + j] + (i == j ? lambda ? lambda[i] : 1 : 0);
        x[i] = q[i];
    }
    for (size_t c = 0; c < n; c++) {
        size_t pivot = c;
        for (size_t i = c + 1; i < n; i++)
            if (fabs(a[i][c]) > fabs(a[pivot][c])) pivot = i;
        for (size_t j = 0; j < n; j++) {
            double swapped = a[c][j];
            a[c][j] = a[pivot][j], a[pivot][j] = swapped;
        }
        double swapped = x[c];
        x[c] = x[pivot], x[pivot] = swapped;
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
    double g = p->gated ? exp(d->in[GATE][at]) : 1, beta = p->weighed ? d->in[BETA][at] : 1, k[MAX_DIM];
    double *h = s + dim * p->values;
    const double *v = d->in[V] + at * p->values;
    unit_row(p, d->in[K] + at * dim, k);
    for (size_t i = 0; i < dim; i++) {
        for (size_t j = 0; j < p->values; j++) s[i * p->values + j] = g * s[i * p->values + j] + beta * k[i] * v[j];
        for (size_t j = 0; j < dim; j++) h[i * dim + j] = g * h[i * dim + j] + beta * k[i] * k[j];
    }
}

static inline void compute_output(const data *d, size_t sequence, size_t head, size_t token, const double *s)
{
    const problem *p = d->p;
    size_t at = row_of(d, p->heads, sequence, head, token), key_head = head / (p->heads / p->key_heads);
    double q[MAX_DIM], x[MAX_DIM];
    unit_row(p, d->in[Q] + at * p->dim, q);
    eliminate(p->dim, s + p->dim * p->values, d->count[LAMBDA] ? d->in[LAMBDA] + key_head * p->dim : NULL, q, x);
    for (size_t j = 0; j < p->values; j++) {
        double sum = 0;
        for (size_t i = 0; i < p->dim; i++) sum += s[i * p->values + j] * x[i];
        d->out[at * p->values + j] = sum;
    }
}

#endif
