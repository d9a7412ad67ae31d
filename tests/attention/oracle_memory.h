/* Reference for GLA, DELTA and RIDGE: the recurrences at the top of attention.h, token by token in double with all
 * states stored, and their gradients by the reverse recurrences. RIDGE solves each system from scratch.
 *
 * A memory_head is one key head of one sequence with the query heads that share it. S is dim x value_dim; for RIDGE it
 * is G, and H is dim x dim. Perturbation (oracle_features.h) applies to every product that a float32 computation
 * rounds. */
#ifndef BO_TEST_ATTENTION_ORACLE_MEMORY_H
#define BO_TEST_ATTENTION_ORACLE_MEMORY_H

#include "oracle_query.h"

/* Arrays are dense and row-major. Query i sees the keys up to i; without keys it sees the initial state; with
 * `read_only` it sees all keys. */
typedef struct memory_head {
    const bo_attention_desc *desc; /* with defaults filled in */
    size_t group, queries, keys;   /* number of keys: equal to queries, or 0; arbitrary with `read_only` */
    bool read_only;                /* every query comes after the last key */
    const double *q, *k, *v;       /* group x queries x dim, keys x dim, keys x value_dim */
    const double *log_gate;        /* keys, for GLA keys x dim; NULL: 0 */
    const double *beta, *lambda;   /* keys, dim; NULL: 1 */
    const double *s0, *h0;         /* the state before the first key; NULL: 0 */
    /* residual of a linear solve, relative to its right side, that the perturbation allows for */
    double residual;
    oracle_noise noise;
    double *out;                       /* group x queries x value_dim */
    double *s_final, *h_final;         /* NULL: not requested */
    const double *dout;                /* NULL: zero */
    const double *ds_final, *dh_final; /* NULL: zero */
    double *dq, *dk, *dv;              /* overwritten; all or none */
    double *dlog_gate, *dbeta;         /* overwritten; NULL: not requested */
    double *dlambda;                   /* added to; NULL: not requested */
    double *ds0, *dh0;                 /* overwritten; NULL: not requested */
} memory_head;

typedef struct memory_work {
    size_t dim, value, states; /* stored states: all, or the current and previous one */
    bool ridge;
    double *q, *k;     /* inputs of the recurrences, with unit norm if requested */
    double *s, *h;     /* states x dim x value, states x dim x dim */
    double *ds, *dh;   /* dL/dS and dL/dH of the current state */
    double *dq, *dk;   /* gradients of q and k above */
    double *a, *x, *y; /* a linear system and its solutions */
    double *u;         /* DELTA: v - Aᵀ k, where A is the decayed state */
    double *wander;    /* accumulated error of the gradients of gates when they are summed from the end, per channel */
} memory_work;

/* ---- preparation ------------------------------------------------------------------------------------------------- */

static inline double *memory_rows(const memory_head *h, const double *x, size_t rows)
{
    size_t dim = h->desc->dim;
    double *out = oracle_zeros(rows * dim);
    for (size_t r = 0; r < rows; r++) {
        double reach = h->desc->unit ? sqrt(oracle_dot(dim, x + r * dim, x + r * dim)) + 1e-3 : 1;
        for (size_t i = 0; i < dim; i++) out[r * dim + i] = x[r * dim + i] / reach;
    }
    return out;
}

/* H is symmetric, and so is its gradient. */
static inline double memory_symmetric(size_t dim, const double *matrix, size_t at)
{
    return (matrix[at] + matrix[at % dim * dim + at / dim]) / 2;
}

static inline memory_work memory_prepare(memory_head *h)
{
    size_t rows = h->group * h->queries, dim = h->desc->dim, value = h->desc->value_dim;
    memory_work w = {.dim = dim, .value = value, .ridge = h->desc->kind == BO_ATTENTION_RIDGE};
    w.states = h->dq ? h->keys + 1 : 2;
    w.q = memory_rows(h, h->q, rows), w.k = memory_rows(h, h->k, h->keys);
    w.s = oracle_zeros(w.states * dim * value), w.h = oracle_zeros(w.ridge ? w.states * dim * dim : 0);
    w.ds = oracle_zeros(dim * value), w.dh = oracle_zeros(dim * dim);
    w.dq = oracle_zeros(rows * dim), w.dk = oracle_zeros(h->keys * dim);
    w.a = oracle_zeros(dim * dim), w.x = oracle_zeros(dim), w.y = oracle_zeros(dim);
    w.u = oracle_zeros(value), w.wander = oracle_zeros(dim);
    for (size_t i = 0; h->s0 && i < dim * value; i++) w.s[i] = h->s0[i];
    for (size_t i = 0; w.ridge && h->h0 && i < dim * dim; i++) w.h[i] = memory_symmetric(dim, h->h0, i);
    return w;
}

static inline void memory_drop(memory_work *w)
{
    double *arrays[] = {w->q, w->k, w->s, w->h, w->ds, w->dh, w->dq, w->dk, w->a, w->x, w->y, w->u, w->wander};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) free(arrays[i]);
}

/* S or H after `t` keys. */
static inline double *memory_s(const memory_work *w, size_t t)
{
    return w->s + t % w->states * w->dim * w->value;
}

static inline double *memory_h(const memory_work *w, size_t t)
{
    return w->h + t % w->states * w->dim * w->dim;
}

static inline double memory_beta(const memory_head *h, size_t t)
{
    return h->beta ? h->beta[t] : 1;
}

/* The gate of key t for row i of the state. */
static inline double memory_gate(memory_head *h, size_t t, size_t i)
{
    bool channels = h->desc->kind == BO_ATTENTION_GLA;
    return h->log_gate ? oracle_exp(h->log_gate[channels ? t * h->desc->dim + i : t], &h->noise) : 1;
}

/* Σ_i a_i b_{ic}: column c of a matrix product, with the rounding of its terms. */
static inline double memory_column(memory_head *h, const memory_work *w, const double *a, const double *b, size_t c)
{
    double sum = 0, magnitude = 0;
    for (size_t i = 0; i < w->dim; i++) {
        sum += a[i] * b[i * w->value + c];
        magnitude += fabs(a[i] * b[i * w->value + c]);
    }
    return sum + oracle_shake(&h->noise, magnitude);
}

/* ---- linear systems ---------------------------------------------------------------------------------------------- */

/* Writes H + Λ to work->a. H is a sum of many terms and is perturbed accordingly; its inverse has the same error. */
static inline void memory_system(memory_head *h, memory_work *w, const double *matrix, size_t t)
{
    double terms = fmax(1, sqrt((double)(t + 64)) / 2);
    for (size_t i = 0; i < w->dim; i++)
        for (size_t j = 0; j <= i; j++) {
            double size = sqrt(fabs(matrix[i * w->dim + i] * matrix[j * w->dim + j]));
            double sum = matrix[i * w->dim + j] + oracle_shake(&h->noise, terms * size);
            if (i == j) sum += (h->lambda ? h->lambda[i] : 1) * (1 + oracle_shake(&h->noise, terms));
            w->a[i * w->dim + j] = w->a[j * w->dim + i] = sum;
        }
}

/* Solves a x = b by Gaussian elimination; a is symmetric and positive definite, so no pivoting is needed. */
static inline void memory_eliminate(const memory_work *w, const double *b, double *x)
{
    size_t n = w->dim;
    double *a = oracle_zeros(n * n);
    memcpy(a, w->a, n * n * sizeof *a);
    memcpy(x, b, n * sizeof *x);
    for (size_t p = 0; p < n; p++)
        for (size_t i = p + 1; i < n; i++) {
            double factor = a[i * n + p] / a[p * n + p];
            for (size_t j = p; j < n; j++) a[i * n + j] -= factor * a[p * n + j];
            x[i] -= factor * x[p];
        }
    for (size_t i = n; i-- > 0;) {
        for (size_t j = i + 1; j < n; j++) x[i] -= a[i * n + j] * x[j];
        x[i] /= a[i * n + i];
    }
    free(a);
}

/* Perturbation of a solution, in units of rounding, for the allowed residual. */
static inline double memory_units(const memory_head *h)
{
    return h->noise.size > 0 ? 1 + h->residual / h->noise.size : 0;
}

/* Solves the system; with perturbation, with the accuracy of a float32 solution that has this residual. */
static inline void memory_solve(memory_head *h, const memory_work *w, const double *b, double *x)
{
    double size = sqrt(oracle_dot(w->dim, b, b) / (double)w->dim), *shaken = oracle_zeros(w->dim);
    for (size_t i = 0; i < w->dim; i++) shaken[i] = b[i] + oracle_shake(&h->noise, memory_units(h) * size);
    memory_eliminate(w, shaken, x);
    free(shaken);
}

/* ---- forward ----------------------------------------------------------------------------------------------------- */

static inline void memory_error(memory_head *h, memory_work *w, size_t t)
{
    const double *before = memory_s(w, t), *k = w->k + t * w->dim;
    double gate = memory_gate(h, t, 0);
    for (size_t c = 0; c < w->value; c++) {
        double v = h->v[t * w->value + c];
        w->u[c] = v + oracle_shake(&h->noise, fabs(v)) - gate * memory_column(h, w, k, before, c);
    }
}

/* Computes the state after key t from the state before it. */
static inline void memory_absorb(memory_head *h, memory_work *w, size_t t)
{
    const double *k = w->k + t * w->dim, *v = h->v + t * w->value, *before = memory_s(w, t);
    double *after = memory_s(w, t + 1), beta = memory_beta(h, t);
    if (h->desc->kind == BO_ATTENTION_DELTA) memory_error(h, w, t), v = w->u;
    for (size_t i = 0; i < w->dim; i++) {
        double gate = memory_gate(h, t, i);
        for (size_t c = 0; c < w->value; c++)
            after[i * w->value + c] = gate * before[i * w->value + c] * (1 + oracle_shake(&h->noise, 1)) +
                                      beta * k[i] * v[c] * (1 + oracle_shake(&h->noise, 2));
        for (size_t j = 0; w->ridge && j < w->dim; j++)
            memory_h(w, t + 1)[i * w->dim + j] = gate * memory_h(w, t)[i * w->dim + j] + beta * k[i] * k[j];
    }
}

static inline double memory_scale(const memory_head *h)
{
    return h->desc->kind == BO_ATTENTION_RIDGE ? 1 : h->desc->scale;
}

/* The output of query `row` for the state after `t` keys. For RIDGE the linear system is that of this state. */
static inline void memory_output(memory_head *h, memory_work *w, size_t row, size_t t)
{
    const double *x = w->q + row * w->dim;
    if (w->ridge) memory_solve(h, w, x, w->x), x = w->x;
    for (size_t c = 0; c < w->value; c++)
        h->out[row * w->value + c] = memory_scale(h) * memory_column(h, w, x, memory_s(w, t), c);
}

static inline void memory_outputs(memory_head *h, memory_work *w, size_t query, size_t t)
{
    if (w->ridge) memory_system(h, w, memory_h(w, t), t);
    for (size_t g = 0; g < h->group; g++) memory_output(h, w, g * h->queries + query, t);
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */

/* o = s Sᵀ q, or Gᵀ x with x = (H + Λ)⁻¹ q. In the second case y = (H + Λ)⁻¹ G do, dq = y, dH = -y xᵀ, dΛ = -x∘y. */
static inline void memory_output_backward(memory_head *h, memory_work *w, size_t row, size_t t)
{
    const double *x = w->q + row * w->dim, *dout = h->dout + row * w->value, *s = memory_s(w, t);
    double *dx = w->dq + row * w->dim, scale = memory_scale(h);
    for (size_t i = 0; i < w->dim; i++) dx[i] = scale * oracle_dot_shaken(w->value, s + i * w->value, dout, &h->noise);
    if (w->ridge) {
        memory_solve(h, w, x, w->x), x = w->x;
        memory_solve(h, w, dx, w->y);
        for (size_t i = 0; i < w->dim; i++) {
            dx[i] = w->y[i];
            if (h->dlambda) h->dlambda[i] -= w->x[i] * w->y[i] * (1 + oracle_shake(&h->noise, 2));
            for (size_t j = 0; j < w->dim; j++)
                w->dh[i * w->dim + j] -= w->y[i] * w->x[j] * (1 + oracle_shake(&h->noise, 2));
        }
    }
    for (size_t i = 0; i < w->dim; i++) {
        w->wander[i] += oracle_shake(&h->noise, memory_units(h) * fabs(dx[i] * w->q[row * w->dim + i]));
        for (size_t c = 0; c < w->value; c++)
            w->ds[i * w->value + c] += scale * x[i] * dout[c] * (1 + oracle_shake(&h->noise, 2));
    }
}

static inline void memory_outputs_backward(memory_head *h, memory_work *w, size_t query, size_t t)
{
    if (!h->dout) return;
    if (w->ridge) memory_system(h, w, memory_h(w, t), t);
    for (size_t g = 0; g < h->group; g++) memory_output_backward(h, w, g * h->queries + query, t);
}

/* S = A + β k uᵀ, u = v - Aᵀ k: dA = dS - k duᵀ with du = β dSᵀ k. */
static inline void memory_delta_backward(memory_head *h, memory_work *w, size_t t, double *du)
{
    const double *k = w->k + t * w->dim, *before = memory_s(w, t);
    double beta = memory_beta(h, t), gate = memory_gate(h, t, 0);
    memory_error(h, w, t);
    for (size_t c = 0; c < w->value; c++) h->dv[t * w->value + c] = du[c] = beta * memory_column(h, w, k, w->ds, c);
    for (size_t i = 0; i < w->dim; i++) {
        double along = oracle_dot_shaken(w->value, w->ds + i * w->value, w->u, &h->noise);
        double back = gate * oracle_dot_shaken(w->value, before + i * w->value, du, &h->noise);
        w->dk[t * w->dim + i] = beta * along - back;
        if (h->dbeta) h->dbeta[t] += k[i] * along;
        for (size_t c = 0; c < w->value; c++)
            w->ds[i * w->value + c] -= k[i] * du[c] * (1 + oracle_shake(&h->noise, 2));
    }
}

/* S = A + β k vᵀ, H = B + β k kᵀ. */
static inline void memory_plain_backward(memory_head *h, memory_work *w, size_t t)
{
    const double *k = w->k + t * w->dim, *v = h->v + t * w->value;
    double beta = memory_beta(h, t);
    for (size_t c = 0; c < w->value; c++) h->dv[t * w->value + c] = beta * memory_column(h, w, k, w->ds, c);
    for (size_t i = 0; i < w->dim; i++) {
        double along = oracle_dot_shaken(w->value, w->ds + i * w->value, v, &h->noise);
        if (h->dbeta) h->dbeta[t] += k[i] * along;
        w->dk[t * w->dim + i] = beta * along;
        for (size_t j = 0; w->ridge && j < w->dim; j++) {
            double both = (w->dh[i * w->dim + j] + w->dh[j * w->dim + i]) * (1 + oracle_shake(&h->noise, 2));
            w->dk[t * w->dim + i] += beta * both * k[j];
            if (h->dbeta) h->dbeta[t] += k[i] * both * k[j] / 2;
        }
    }
}

/* A = g S and B = g H; then dS and dH of the previous state. */
static inline void memory_gate_backward(memory_head *h, memory_work *w, size_t t)
{
    bool channels = h->desc->kind == BO_ATTENTION_GLA;
    for (size_t i = 0; i < w->dim; i++) {
        double gate = memory_gate(h, t, i);
        double inner = oracle_dot_shaken(w->value, w->ds + i * w->value, memory_s(w, t) + i * w->value, &h->noise);
        if (w->ridge) inner += oracle_dot_shaken(w->dim, w->dh + i * w->dim, memory_h(w, t) + i * w->dim, &h->noise);
        w->wander[i] += oracle_shake(&h->noise, fabs(w->dk[t * w->dim + i] * w->k[t * w->dim + i]));
        if (h->dlog_gate) h->dlog_gate[channels ? t * w->dim + i : t] += gate * inner + w->wander[i];
        for (size_t c = 0; c < w->value; c++) w->ds[i * w->value + c] *= gate * (1 + oracle_shake(&h->noise, 1));
        for (size_t j = 0; j < w->dim; j++) w->dh[i * w->dim + j] *= gate * (1 + oracle_shake(&h->noise, 1));
    }
}

static inline void memory_absorb_backward(memory_head *h, memory_work *w, size_t t)
{
    double *du = oracle_zeros(w->value);
    h->desc->kind == BO_ATTENTION_DELTA ? memory_delta_backward(h, w, t, du) : memory_plain_backward(h, w, t);
    memory_gate_backward(h, w, t);
    free(du);
}

/* x / (|x| + 1e-3) if unit norms are requested. */
static inline void memory_rows_backward(const memory_head *h, const double *x, const double *dy, size_t rows,
                                        double *dx)
{
    size_t dim = h->desc->dim;
    for (size_t i = 0; i < rows * dim; i++) dx[i] = h->desc->unit ? 0 : dy[i];
    for (size_t r = 0; h->desc->unit && r < rows; r++)
        oracle_unit_backward(dim, x + r * dim, dy + r * dim, dx + r * dim);
}

static inline void memory_backward(memory_head *h, memory_work *w)
{
    size_t matrix = w->dim * w->value, square = w->dim * w->dim;
    size_t gates = h->desc->kind == BO_ATTENTION_GLA ? w->dim : 1;
    for (size_t i = 0; h->ds_final && i < matrix; i++) w->ds[i] = h->ds_final[i];
    for (size_t i = 0; h->dh_final && i < square; i++) w->dh[i] = h->dh_final[i];
    for (size_t i = 0; h->dlog_gate && i < h->keys * gates; i++) h->dlog_gate[i] = 0;
    for (size_t i = 0; h->dbeta && i < h->keys; i++) h->dbeta[i] = 0;
    bool apart = h->read_only || !h->keys;
    for (size_t query = h->queries; apart && query-- > 0;) memory_outputs_backward(h, w, query, h->keys);
    for (size_t t = h->keys; t-- > 0;) {
        if (!apart) memory_outputs_backward(h, w, t, t + 1);
        memory_absorb_backward(h, w, t);
    }
    for (size_t i = 0; h->ds0 && i < matrix; i++) h->ds0[i] = w->ds[i];
    for (size_t i = 0; h->dh0 && i < square; i++) h->dh0[i] = memory_symmetric(w->dim, w->dh, i);
    memory_rows_backward(h, h->q, w->dq, h->group * h->queries, h->dq);
    memory_rows_backward(h, h->k, w->dk, h->keys, h->dk);
}

static inline void memory_compute(memory_head *h)
{
    memory_work w = memory_prepare(h);
    bool apart = h->read_only || !h->keys;
    for (size_t t = 0; t < h->keys; t++) {
        memory_absorb(h, &w, t);
        if (!apart) memory_outputs(h, &w, t, t + 1);
    }
    for (size_t query = 0; apart && query < h->queries; query++) memory_outputs(h, &w, query, h->keys);
    for (size_t i = 0; h->s_final && i < w.dim * w.value; i++) h->s_final[i] = memory_s(&w, h->keys)[i];
    for (size_t i = 0; w.ridge && h->h_final && i < w.dim * w.dim; i++) h->h_final[i] = memory_h(&w, h->keys)[i];
    if (h->dq) memory_backward(h, &w);
    memory_drop(&w);
}

#endif
