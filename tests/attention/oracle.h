/* A second opinion on attention: the matrix a_ij itself, in double, as the top of attention.h writes it, and its
 * gradients by the quadratic formulas. Nothing here is chunked, tiled or clever; that is the point.
 *
 * One key head of one sequence with the query heads that share it is an oracle_head. Units: a_ij = exp(e_ij) times a
 * mantissa, and everything about query i is relative to exp(top_i), top_i = max_j e_ij. */
#ifndef BO_TEST_ATTENTION_ORACLE_H
#define BO_TEST_ATTENTION_ORACLE_H

#include "oracle_features.h"
#include <float.h>

/* Arrays are dense and row-major. Causal: query i stands at the place of key keys - queries + i; the keys before the
 * first query are those that a state held. */
typedef struct oracle_head {
    bo_context *context;
    const bo_attention_desc *desc; /* with its defaults filled in */
    const bo_features *features;   /* NULL for EXACT */
    size_t group, queries, keys;
    bool asks;                     /* the queries bring no keys: each sees all there are */
    const double *q, *k, *v;       /* group x queries x dim, keys x dim, keys x value_dim */
    const double *log_gate;        /* keys; NULL without a gate */
    const double *sigma, *m, *mix; /* dim, rank x dim, group; NULL: defaults */
    const double *s0, *z0;         /* sums of a state before the first key, relative to exp(log0); NULL: none */
    double log0;
    oracle_noise noise;
    double *out;                       /* group x queries x value_dim */
    double log_final;                  /* in whose units the sums after the last key … */
    double *s_final, *z_final;         /* … are wanted; NULL: not wanted */
    const double *dout;                /* NULL: zero */
    const double *ds_final, *dz_final; /* gradients of those sums; NULL: zero */
    double *dq, *dk, *dv, *dlog_gate;  /* overwritten; all or none */
    double *dsigma, *dm, *dmix;        /* added to, NULL: not wanted */
    double *ds0, *dz0;                 /* overwritten, NULL: not wanted */
} oracle_head;

/* What is computed once for all queries. */
typedef struct oracle_work {
    oracle_map map;
    oracle_front front;
    size_t count, width, value; /* of φ, of y, of v */
    double *yq, *yk;            /* what φ is applied to */
    double *cq, *zq, *ck, *zk;  /* φ = exp(c) z */
    double *scale_q, *running;  /* ℓ(q), and R after each key: units of a clamp */
    double *fade, *weight;      /* log of g_{j+1} … g_i for the query i at hand, and the input weight of key j */
    double *dzq, *dzk, *db, *dweight;
    double *row; /* keys: exp(e_ij - top_i) */
} oracle_work;

static inline bool oracle_windowed(const oracle_head *h, size_t place, size_t j)
{
    if (h->desc->kind == BO_ATTENTION_EXACT) return true;
    return h->desc->kind == BO_ATTENTION_HYBRID && j + h->desc->window > place;
}

static inline bool oracle_sees(const oracle_head *h, size_t place, size_t j)
{
    if (!h->desc->causal) return true;
    if (h->desc->kind == BO_ATTENTION_EXACT && h->desc->window && j + h->desc->window <= place) return false;
    return j <= place;
}

/* ---- gates, features, running scales --------------------------------------------------------------------------- */

static inline void oracle_prepare_gates(const oracle_head *h, oracle_work *w)
{
    /* an input weight is at least 1e-30: a first token whose gate is 1 is still its own answer */
    for (size_t j = 0; j < h->keys; j++)
        w->weight[j] = h->desc->gate == BO_GATE_CONVEX ? fmax(1e-30, -expm1(h->log_gate[j])) : 1;
}

/* What has faded by the key at `place`: since key j into work->fade, and since before the first key. Summed from the
 * latest back, so that what a strong gate closed off does not blur the rest. */
static inline double oracle_fade(const oracle_head *h, oracle_work *w, size_t place)
{
    double sum = 0;
    for (size_t j = h->keys; j-- > 0;) {
        w->fade[j] = sum;
        if (h->log_gate && j <= place) sum += h->log_gate[j];
    }
    return sum;
}

/* R_t = max(R_{t-1} + log g_t, ℓ_t + log input weight); 0 for maps of moderate size. */
static inline void oracle_prepare_scales(const oracle_head *h, oracle_work *w)
{
    bool scaled = bo_features_scaled(h->features);
    double running = scaled ? (h->s0 ? h->log0 : -INFINITY) : 0;
    oracle_log_scales(&w->map, h->group * h->queries, w->yq, w->scale_q);
    double *scale_k = oracle_zeros(h->keys);
    oracle_log_scales(&w->map, h->keys, w->yk, scale_k);
    for (size_t j = 0; j < h->keys; j++) {
        if (scaled) running = fmax(running + (h->log_gate ? h->log_gate[j] : 0), scale_k[j] + log(w->weight[j]));
        w->running[j] = running;
    }
    free(scale_k);
}

/* A factor exp(e) whose exponent is float32 in the end; below e^-100 it is nothing anyway. */
static inline double oracle_exp(double e, oracle_noise *noise)
{
    return e == -INFINITY ? 0 : exp(e) * (1 + oracle_shake(noise, 1 + fmin(fabs(e), 100)));
}

static inline oracle_work oracle_prepare(oracle_head *h)
{
    oracle_work w = {.value = h->desc->value_dim};
    size_t rows = h->group * h->queries, keys = h->keys;
    w.fade = oracle_zeros(keys), w.weight = oracle_zeros(keys), w.row = oracle_zeros(keys);
    w.db = oracle_zeros(keys), w.dweight = oracle_zeros(keys);
    oracle_prepare_gates(h, &w);
    w.front = oracle_front_make(h->desc, h->sigma, h->m);
    if (!h->features) return w;
    w.map = oracle_map_make(h->context, h->features);
    w.count = w.map.count, w.width = w.front.width;
    assert_int_equal(w.map.dim, w.width);
    w.yq = oracle_zeros(rows * w.width), w.yk = oracle_zeros(keys * w.width);
    for (size_t r = 0; r < rows; r++) oracle_front_apply(&w.front, h->q + r * h->desc->dim, w.yq + r * w.width);
    for (size_t j = 0; j < keys; j++) oracle_front_apply(&w.front, h->k + j * h->desc->dim, w.yk + j * w.width);
    if (!bo_features_scaled(h->features)) { /* the others have their noise inside the map */
        for (size_t i = 0; i < rows * w.width; i++) w.yq[i] *= 1 + oracle_shake(&h->noise, 2);
        for (size_t i = 0; i < keys * w.width; i++) w.yk[i] *= 1 + oracle_shake(&h->noise, 2);
    }
    w.cq = oracle_zeros(rows), w.zq = oracle_zeros(rows * w.count), w.dzq = oracle_zeros(rows * w.count);
    w.ck = oracle_zeros(keys), w.zk = oracle_zeros(keys * w.count), w.dzk = oracle_zeros(keys * w.count);
    oracle_phi(&w.map, rows, w.yq, w.cq, w.zq, &h->noise);
    oracle_phi(&w.map, keys, w.yk, w.ck, w.zk, &h->noise);
    w.scale_q = oracle_zeros(rows), w.running = oracle_zeros(keys);
    oracle_prepare_scales(h, &w);
    return w;
}

static inline void oracle_work_drop(oracle_work *w)
{
    double *arrays[] = {w->yq,      w->yk,   w->cq,     w->zq,  w->ck,  w->zk, w->row,    w->scale_q,
                        w->running, w->fade, w->weight, w->dzq, w->dzk, w->db, w->dweight};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) free(arrays[i]);
    if (w->map.features) oracle_map_drop(&w->map);
}

/* ---- one query ------------------------------------------------------------------------------------------------- */

typedef struct oracle_query {
    size_t row, place;   /* of q; the last key it may see, when causal */
    double top, initial; /* initial: exp(e - top) of what the state held */
    double window_top;   /* largest log weight inside the window */
    double far;          /* the weights that come from features, where a window has others */
    double den;          /* what the numerator is divided by */
    bool clamped, zero;
} oracle_query;

static inline double oracle_mix(const oracle_head *h, size_t row)
{
    return h->mix ? h->mix[row / h->queries] : 1;
}

static inline double oracle_scale(const oracle_head *h)
{
    return h->desc->scale != 0 ? h->desc->scale : 1 / sqrt((double)h->desc->dim);
}

/* log of mix exp(s q·k) */
static inline double oracle_score(oracle_head *h, size_t row, size_t j)
{
    size_t dim = h->desc->dim;
    double dot = 0, magnitude = 0;
    for (size_t c = 0; c < dim; c++) {
        double term = oracle_scale(h) * h->q[row * dim + c] * h->k[j * dim + c];
        dot += term;
        magnitude += fabs(term);
    }
    double mix = h->desc->kind == BO_ATTENTION_HYBRID ? log(oracle_mix(h, row)) : 0;
    return dot + mix + oracle_shake(&h->noise, 1 + magnitude);
}

/* The log units of every weight, then the weights' factors exp(e_ij - top_i) into work->row. */
static inline void oracle_units(oracle_head *h, oracle_work *w, oracle_query *query)
{
    double c = w->cq ? w->cq[query->row] : 0, all = oracle_fade(h, w, query->place);
    query->top = query->window_top = -INFINITY;
    for (size_t j = 0; j < h->keys; j++) {
        w->row[j] = -INFINITY;
        if (!oracle_sees(h, query->place, j)) continue;
        bool window = oracle_windowed(h, query->place, j);
        w->row[j] = window ? oracle_score(h, query->row, j) : c + w->ck[j] + w->fade[j];
        if (window) query->window_top = fmax(query->window_top, w->row[j]);
        query->top = fmax(query->top, w->row[j]);
    }
    double initial = h->s0 ? c + h->log0 + all : -INFINITY;
    query->top = fmax(query->top, initial);
    if (query->top == -INFINITY) query->top = 0;
    for (size_t j = 0; j < h->keys; j++) w->row[j] = oracle_exp(w->row[j] - query->top, &h->noise);
    query->initial = oracle_exp(initial - query->top, &h->noise);
}

/* log of the unit that a clamp is given in: exp(ℓ(q_i) + R_i), or where a window has a larger weight (or the sums
 * have none at all) that. */
static inline double oracle_unit(oracle_head *h, const oracle_work *w, const oracle_query *query)
{
    if (!h->features) return query->window_top;
    size_t last = query->place, skip = 0;
    double running = bo_features_scaled(h->features) ? (h->s0 ? h->log0 : -INFINITY) : 0;
    if (h->desc->kind == BO_ATTENTION_HYBRID) skip = h->desc->window;
    if (h->keys && last < h->keys && last >= skip) running = w->running[last - skip];
    if (h->desc->kind == BO_ATTENTION_HYBRID && query->far == 0) return query->window_top;
    if (running > -INFINITY) running += oracle_shake(&h->noise, fabs(running)); /* a float32, renewed with each token */
    return fmax(w->scale_q[query->row] + running, query->window_top);
}

/* Rounding of a sum is that of its terms' magnitudes, which signed features do not share. */
static inline double oracle_dot_shaken(size_t n, const double *a, const double *b, oracle_noise *noise)
{
    double magnitude = 0;
    if (noise->size == 0) return oracle_dot(n, a, b);
    for (size_t i = 0; i < n; i++) magnitude += fabs(a[i] * b[i]);
    return oracle_dot(n, a, b) + oracle_shake(noise, magnitude);
}

/* The relative amount that a term of a sum over tokens is shaken by: a sum of n terms is rounded n times. */
static inline double oracle_shake_term(oracle_head *h)
{
    size_t rows = h->group * h->queries, terms = rows > h->keys ? rows : h->keys;
    return oracle_shake(&h->noise, fmax(1, sqrt((double)terms) / 2));
}

static inline double oracle_mantissa(oracle_head *h, const oracle_work *w, const oracle_query *query, size_t j)
{
    if (oracle_windowed(h, query->place, j)) return 1;
    const double *zq = w->zq + query->row * w->count, *zk = w->zk + j * w->count;
    return w->weight[j] * oracle_dot_shaken(w->count, zq, zk, &h->noise);
}

/* The same without signs, for noise: numerator and denominator are rounded each by itself. */
static inline double oracle_unsigned(const oracle_head *h, const oracle_work *w, const oracle_query *query, size_t j)
{
    double sum = 0;
    if (h->noise.size == 0 || oracle_windowed(h, query->place, j)) return 1;
    for (size_t f = 0; f < w->count; f++) sum += fabs(w->zq[query->row * w->count + f] * w->zk[j * w->count + f]);
    return w->weight[j] * sum;
}

static inline void oracle_denominator(oracle_head *h, const oracle_work *w, double sum, oracle_query *query)
{
    if (h->desc->normaliser == BO_NORMALISER_NONE) {
        query->den = exp(-query->top);
        query->clamped = true;
        return;
    }
    double unit = exp(oracle_unit(h, w, query) - query->top);
    /* near the smallest float32 that is left of a sum is luck: shaken by its own size, whatever is asked */
    if (h->noise.size > 0 && h->features && fabs(sum) < 1e-30 * unit)
        sum *= 1 + oracle_shake(&h->noise, 1 / h->noise.size);
    query->clamped = h->features && sum < h->desc->clamp * unit;
    query->den = query->clamped ? h->desc->clamp * unit : sum;
    query->zero = !(query->den > (double)FLT_MIN * unit);
}

static inline oracle_query oracle_answer(oracle_head *h, oracle_work *w, size_t row)
{
    bool all = h->asks || !h->desc->causal;
    size_t place = all ? h->keys - 1 : h->keys - h->queries + row % h->queries;
    oracle_query query = {.row = row, .place = place};
    double *out = h->out + row * w->value, sum = 0;
    oracle_units(h, w, &query);
    for (size_t c = 0; c < w->value; c++) out[c] = 0;
    for (size_t j = 0; j < h->keys; j++) {
        if (w->row[j] == 0) continue;
        double a = w->row[j] * oracle_mantissa(h, w, &query, j), most = w->row[j] * oracle_unsigned(h, w, &query, j);
        sum += a + most * oracle_shake_term(h);
        if (!oracle_windowed(h, place, j)) query.far += a;
        for (size_t c = 0; c < w->value; c++) out[c] += h->v[j * w->value + c] * (a + most * oracle_shake_term(h));
    }
    for (size_t f = 0; h->s0 && f < w->count; f++) {
        double z = query.initial * w->zq[row * w->count + f];
        sum += z * h->z0[f] * (1 + oracle_shake_term(h));
        query.far += z * h->z0[f];
        for (size_t c = 0; c < w->value; c++) out[c] += z * h->s0[f * w->value + c] * (1 + oracle_shake_term(h));
    }
    oracle_denominator(h, w, sum, &query);
    for (size_t c = 0; c < w->value; c++) out[c] = query.zero ? 0 : out[c] / query.den;
    return query;
}

/* ---- gradients of one query ------------------------------------------------------------------------------------ */

static inline void oracle_window_backward(oracle_head *h, const oracle_query *query, size_t j, double dlog)
{
    size_t dim = h->desc->dim, row = query->row;
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
        if (h->keys) w->db[query->place] += query->initial * inner * z * (1 + oracle_shake_term(h));
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

/* ---- the sums after the last key ------------------------------------------------------------------------------- */

/* Keys whose features are in the sums: all, or all that have left the window. */
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
        for (size_t c = 0; h->ds0 && c < w->value; c++)
            h->ds0[f * w->value + c] += initial * h->ds_final[f * w->value + c];
        if (h->dz0) h->dz0[f] += initial * h->dz_final[f];
    }
}

/* ---- all of it ------------------------------------------------------------------------------------------------- */

static inline void oracle_clear(double *array, size_t count)
{
    for (size_t i = 0; array && i < count; i++) array[i] = 0;
}

static inline void oracle_features_backward(oracle_head *h, oracle_work *w)
{
    size_t rows = h->group * h->queries, dim = h->desc->dim;
    double *dy = oracle_zeros((rows + h->keys) * w->width), *dyk = dy + rows * w->width;
    oracle_shake_rows(&h->noise, rows, w->count, w->dzq);
    oracle_shake_rows(&h->noise, h->keys, w->count, w->dzk);
    oracle_phi_backward(&w->map, rows, w->yq, w->zq, w->dzq, dy);
    oracle_phi_backward(&w->map, h->keys, w->yk, w->zk, w->dzk, dyk);
    for (size_t r = 0; r < rows; r++)
        oracle_front_backward(&w->front, h->q + r * dim, dy + r * w->width, h->dq + r * dim, h->dsigma, h->dm);
    for (size_t j = 0; j < h->keys; j++)
        oracle_front_backward(&w->front, h->k + j * dim, dyk + j * w->width, h->dk + j * dim, h->dsigma, h->dm);
    free(dy);
}

/* From dL/d(log of g_1 … g_j) and from the input weights 1 - g_j. */
static inline void oracle_gates_backward(oracle_head *h, const oracle_work *w)
{
    double sum = 0;
    for (size_t j = h->keys; j-- > 0;) {
        sum += w->db[j];
        h->dlog_gate[j] = sum;
        if (h->desc->gate == BO_GATE_CONVEX) h->dlog_gate[j] -= exp(h->log_gate[j]) * w->dweight[j];
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
        oracle_query query = oracle_answer(h, &w, row);
        if (backward && h->dout) oracle_query_backward(h, &w, &query);
    }
    if (h->s_final) oracle_final(h, &w);
    if (backward && h->ds_final) oracle_final_backward(h, &w);
    if (backward && h->features) oracle_features_backward(h, &w);
    if (backward && h->dlog_gate && h->log_gate) oracle_gates_backward(h, &w);
    oracle_work_drop(&w);
}

#endif
