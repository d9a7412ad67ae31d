/* Reference for attention: the weights of oracle_query.h, and their gradients by the quadratic formulas. */
#ifndef BO_TEST_ATTENTION_ORACLE_H
#define BO_TEST_ATTENTION_ORACLE_H

#include "oracle_query.h"

/* ---- gradients of one query -------------------------------------------------------------------------------------- */

/* d log |x|^p = p/x dx, and 0 if x = 0, where the weight is 0. */
static inline double oracle_power_backward(oracle_head *h, size_t row, size_t j, double dlog)
{
    double product = oracle_product(h, row, j, 0);
    return product == 0 ? 0 : dlog * h->desc->power / product;
}

static inline void oracle_window_backward(oracle_head *h, const oracle_query *query, size_t j, double dlog)
{
    size_t dim = h->desc->dim, row = query->row;
    if (h->desc->kind == BO_ATTENTION_POWER) dlog = oracle_power_backward(h, row, j, dlog);
    for (size_t c = 0; c < dim; c++) {
        double shaken = oracle_scale(h) * dlog * (1 + oracle_shake_term(h));
        h->dq[row * dim + c] += shaken * h->k[j * dim + c];
        h->dk[j * dim + c] += shaken * h->q[row * dim + c];
    }
    if (h->dmix && h->desc->kind == BO_ATTENTION_HYBRID) h->dmix[row / h->queries] += dlog / oracle_mix(h, row);
}

/* da = dL/da_ij in units of exp(-top), a difference of two numbers of size `magnitude` */
static inline void oracle_pair_backward(oracle_head *h, oracle_work *w, const oracle_query *query, size_t j, double da,
                                        double magnitude)
{
    double *dzq = w->dzq + query->row * w->count, *dzk = w->dzk + j * w->count;
    const double *zq = w->zq + query->row * w->count, *zk = w->zk + j * w->count;
    double factor = w->row[j], dot = oracle_dot(w->count, zq, zk);
    for (size_t f = 0; f < w->count; f++) {
        double shaken = factor * w->weight[j] * (da + oracle_shake(&h->noise, magnitude));
        dzq[f] += shaken * zk[f];
        dzk[f] += shaken * zq[f];
    }
    w->dweight[j] += factor * dot * (da + oracle_shake(&h->noise, magnitude));
    w->db[query->place] += factor * w->weight[j] * dot * (da + oracle_shake(&h->noise, magnitude));
    w->db[j] -= factor * w->weight[j] * dot * (da + oracle_shake(&h->noise, magnitude));
}

static inline void oracle_initial_backward(oracle_head *h, oracle_work *w, const oracle_query *query, const double *dn,
                                           double dsum)
{
    for (size_t f = 0; f < w->count; f++) {
        double z = w->zq[query->row * w->count + f];
        double inner = oracle_dot(w->value, dn, h->s0 + f * w->value) + dsum * h->z0[f];
        w->dzq[query->row * w->count + f] += query->initial * inner;
        double flow = query->initial * inner * z * (1 + oracle_shake_term(h));
        if (h->keys) w->db[query->place] += flow;
        if (h->kept) w->db[h->kept - 1] -= flow; /* the sums do not depend on gates before the call */
        z *= 1 + oracle_shake(&h->noise, 1);
        for (size_t c = 0; h->ds0 && c < w->value; c++) h->ds0[f * w->value + c] += query->initial * z * dn[c];
        if (h->dz0) h->dz0[f] += query->initial * z * dsum;
    }
}

static inline void oracle_query_backward(oracle_head *h, oracle_work *w, const oracle_query *query)
{
    if (query->zero) return;
    const double *dout = h->dout + query->row * w->value, *out = h->out + query->row * w->value;
    double *dn = oracle_zeros(w->value);
    double dsum = query->clamped ? 0 : -oracle_dot_shaken(w->value, dout, out, &h->noise) / query->den;
    for (size_t c = 0; c < w->value; c++) dn[c] = dout[c] / query->den;
    for (size_t j = 0; j < h->keys; j++) {
        if (w->row[j] == 0) continue;
        double a = w->row[j] * oracle_mantissa(h, w, query, j);
        const double *v = h->v + j * w->value;
        double da = oracle_dot(w->value, dn, v) + dsum, magnitude = fabs(dsum);
        for (size_t c = 0; c < w->value; c++) magnitude += fabs(dn[c] * v[c]);
        da += oracle_shake(&h->noise, magnitude);
        for (size_t c = 0; c < w->value; c++) h->dv[j * w->value + c] += a * dn[c] * (1 + oracle_shake_term(h));
        if (oracle_windowed(h, query->place, j))
            oracle_window_backward(h, query, j, a * da);
        else
            oracle_pair_backward(h, w, query, j, da, magnitude);
    }
    if (h->s0) oracle_initial_backward(h, w, query, dn, dsum);
    free(dn);
}

/* ---- sums after the last key ------------------------------------------------------------------------------------- */

/* Number of keys whose features are in the sums: all keys, or all that have left the window. */
static inline size_t oracle_absorbed(const oracle_head *h)
{
    if (!h->features) return 0;
    if (h->desc->kind != BO_ATTENTION_HYBRID) return h->keys;
    return h->keys > h->desc->window ? h->keys - h->desc->window : 0;
}

static inline void oracle_final(oracle_head *h, oracle_work *w)
{
    double all = oracle_fade(h, w, h->keys);
    double initial = oracle_exp(h->s0 ? h->log0 + all - h->log_final : -INFINITY, &h->noise);
    for (size_t f = 0; f < w->count; f++) {
        double shaken = initial * (1 + oracle_shake_term(h));
        h->z_final[f] = h->s0 ? shaken * h->z0[f] : 0;
        for (size_t c = 0; c < w->value; c++)
            h->s_final[f * w->value + c] = h->s0 ? shaken * h->s0[f * w->value + c] : 0;
    }
    for (size_t j = 0; j < oracle_absorbed(h); j++) {
        double factor = w->weight[j] * oracle_exp(w->fade[j] + w->ck[j] - h->log_final, &h->noise);
        for (size_t f = 0; f < w->count; f++) {
            double z = factor * w->zk[j * w->count + f] * (1 + oracle_shake_term(h));
            h->z_final[f] += z;
            for (size_t c = 0; c < w->value; c++)
                h->s_final[f * w->value + c] += z * h->v[j * w->value + c] * (1 + oracle_shake_term(h));
        }
    }
}

static inline void oracle_final_backward(oracle_head *h, oracle_work *w)
{
    double all = oracle_fade(h, w, h->keys);
    if (h->log_final == -INFINITY) return;
    double initial = oracle_exp(h->s0 ? h->log0 + all - h->log_final : -INFINITY, &h->noise);
    for (size_t j = 0; j < oracle_absorbed(h); j++) {
        double factor = oracle_exp(w->fade[j] + w->ck[j] - h->log_final, &h->noise), dlog = 0;
        for (size_t f = 0; f < w->count; f++) {
            double z = w->zk[j * w->count + f];
            const double *ds = h->ds_final + f * w->value, *v = h->v + j * w->value;
            double inner = oracle_dot_shaken(w->value, ds, v, &h->noise) + h->dz_final[f];
            inner += oracle_shake(&h->noise, fabs(h->dz_final[f]));
            w->dzk[j * w->count + f] += w->weight[j] * factor * inner;
            dlog += factor * inner * z;
            for (size_t c = 0; c < w->value; c++)
                h->dv[j * w->value + c] += w->weight[j] * factor * z * h->ds_final[f * w->value + c];
        }
        w->dweight[j] += dlog;
        w->db[h->keys - 1] += w->weight[j] * dlog * (1 + oracle_shake_term(h));
        w->db[j] -= w->weight[j] * dlog * (1 + oracle_shake_term(h));
    }
    for (size_t f = 0; h->s0 && f < w->count; f++) {
        double inner = oracle_dot(w->value, h->ds_final + f * w->value, h->s0 + f * w->value);
        inner += h->dz_final[f] * h->z0[f];
        if (h->keys) w->db[h->keys - 1] += initial * inner;
        if (h->kept) w->db[h->kept - 1] -= initial * inner;
        for (size_t c = 0; h->ds0 && c < w->value; c++)
            h->ds0[f * w->value + c] += initial * h->ds_final[f * w->value + c];
        if (h->dz0) h->dz0[f] += initial * h->dz_final[f];
    }
}

/* ---- the full gradient ------------------------------------------------------------------------------------------- */

static inline void oracle_clear(double *array, size_t count)
{
    for (size_t i = 0; array && i < count; i++) array[i] = 0;
}

static inline void oracle_features_backward(oracle_head *h, oracle_work *w)
{
    size_t rows = h->group * h->queries, dim = h->desc->dim;
    double *dy = oracle_zeros((rows + h->keys) * w->width), *dyk = dy + rows * w->width;
    double *dm_k = h->m_k ? h->dm_k : h->dm,
           *dbias_k = h->bias_k ? h->dbias_k : h->dbias; /* both parts, if the bias is shared */
    oracle_shake_rows(&h->noise, rows, w->count, w->dzq);
    oracle_shake_rows(&h->noise, h->keys, w->count, w->dzk);
    oracle_phi_backward(&w->map, rows, w->yq, w->zq, w->dzq, dy);
    oracle_phi_backward(&w->map, h->keys, w->yk, w->zk, w->dzk, dyk);
    for (size_t r = 0; r < rows; r++)
        oracle_front_backward(&w->front, h->q + r * dim, dy + r * w->width, h->dq + r * dim, h->dsigma, h->dm,
                              h->dbias);
    for (size_t j = 0; j < h->keys; j++)
        oracle_front_backward(&w->front_k, h->k + j * dim, dyk + j * w->width, h->dk + j * dim, h->dsigma, dm_k,
                              dbias_k);
    free(dy);
}

/* From dL/d(log of g_1 … g_j) and from the input weights 1 - g_j. */
static inline void oracle_gates_backward(oracle_head *h, const oracle_work *w)
{
    double sum = 0;
    for (size_t j = h->keys; j-- > 0;) {
        sum += w->db[j];
        h->dlog_gate[j] = sum;
        bool free = w->weight[j] > 1e-30; /* at its minimum it is constant */
        if (h->desc->gate == BO_GATE_CONVEX && free) h->dlog_gate[j] -= exp(h->log_gate[j]) * w->dweight[j];
    }
}

static inline void oracle_compute(oracle_head *h)
{
    oracle_work w = oracle_prepare(h);
    size_t rows = h->group * h->queries;
    bool backward = h->dq != NULL;
    if (backward) {
        oracle_clear(h->dq, rows * h->desc->dim);
        oracle_clear(h->dk, h->keys * h->desc->dim);
        oracle_clear(h->dv, h->keys * w.value);
        oracle_clear(h->ds0, w.count * w.value);
        oracle_clear(h->dz0, w.count);
    }
    for (size_t row = 0; row < rows; row++) {
        oracle_query query = oracle_output(h, &w, row);
        if (backward && h->dout) oracle_query_backward(h, &w, &query);
    }
    if (h->s_final) oracle_final(h, &w);
    if (backward && h->ds_final) oracle_final_backward(h, &w);
    if (backward && h->features) oracle_features_backward(h, &w);
    if (backward && h->dlog_gate && h->log_gate) oracle_gates_backward(h, &w);
    oracle_work_drop(&w);
}

#endif
