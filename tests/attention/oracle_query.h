/* Reference for attention: the matrix a_ij in double by the formula at the top of attention.h, without chunks or tiles.
 *
 * An oracle_head is one key head of one sequence with the query heads that share it. Units: a_ij = exp(e_ij) times a
 * mantissa, and all quantities of query i are relative to exp(top_i), top_i = max_j e_ij. */
#ifndef BO_TEST_ATTENTION_ORACLE_QUERY_H
#define BO_TEST_ATTENTION_ORACLE_QUERY_H

#include "oracle_front.h"
#include <float.h>

/* Arrays are dense and row-major. If causal, query i has the position of key keys - queries + i; keys before the first
 * query are those of the initial state. */
typedef struct oracle_head {
    bo_context *context;
    const bo_attention_desc *desc; /* with defaults filled in */
    const bo_features *features;   /* NULL for SOFTMAX and POWER */
    size_t group, queries, keys;
    size_t kept;                   /* keys of the initial state, which precede those of the call */
    bool read_only;                /* queries are not tokens of the keys: each sees all keys */
    const double *q, *k, *v;       /* group x queries x dim, keys x dim, keys x value_dim */
    const double *log_gate;        /* one per key, even if all are equal; NULL without a gate */
    const double *sigma, *m, *mix; /* dim, rank x dim, group; NULL: defaults */
    const double *bias;            /* rank; NULL: 0 */
    const double *m_k, *bias_k;    /* for the keys; NULL: m, bias */
    const double *s0, *z0;         /* sums of the initial state, relative to exp(log0); NULL: none */
    double log0;
    oracle_noise noise;
    double *out;                       /* group x queries x value_dim */
    double log_final;                  /* log unit of the sums after the last key … */
    double *s_final, *z_final;         /* … which are computed unless NULL */
    const double *dout;                /* NULL: zero */
    const double *ds_final, *dz_final; /* gradients of those sums; NULL: zero */
    double *dq, *dk, *dv, *dlog_gate;  /* overwritten; all or none */
    double *dsigma, *dm, *dmix;        /* added to; NULL: not requested */
    double *dbias, *dm_k, *dbias_k;    /* likewise */
    double *ds0, *dz0;                 /* overwritten; NULL: not requested */
} oracle_head;

/* Values that are computed once for all queries. */
typedef struct oracle_work {
    oracle_map map;
    oracle_front front, front_k; /* for queries and for keys */
    size_t count, width, value;  /* lengths of φ, y and v */
    double *yq, *yk;             /* arguments of φ */
    double *cq, *zq, *ck, *zk;   /* φ = exp(c) z */
    double *scale_q, *running;   /* ℓ(q), and R after each key: units of a clamp */
    double *fade, *weight;       /* log of g_{j+1} … g_i for the current query i, and the input weight of key j */
    double *dzq, *dzk, *db, *dweight;
    double *row; /* keys: exp(e_ij - top_i) */
} oracle_work;

/* SOFTMAX and POWER: every weight belongs to an explicit key. */
static inline bool oracle_explicit(const bo_attention_desc *desc)
{
    return desc->kind == BO_ATTENTION_SOFTMAX || desc->kind == BO_ATTENTION_POWER;
}

static inline bool oracle_windowed(const oracle_head *h, size_t place, size_t j)
{
    if (oracle_explicit(h->desc)) return true;
    return h->desc->kind == BO_ATTENTION_HYBRID && j + h->desc->window > place;
}

static inline bool oracle_sees(const oracle_head *h, size_t place, size_t j)
{
    if (!h->desc->causal) return true;
    if (oracle_explicit(h->desc) && h->desc->window && j + h->desc->window <= place) return false;
    return j <= place;
}

/* ---- gates, features, running scales ----------------------------------------------------------------------------- */

static inline void oracle_prepare_gates(const oracle_head *h, oracle_work *w)
{
    /* an input weight is at least 1e-30, so that the output of a first token with gate 1 is its value */
    for (size_t j = 0; j < h->keys; j++)
        w->weight[j] = h->desc->gate == BO_GATE_CONVEX && h->log_gate ? fmax(1e-30, -expm1(h->log_gate[j])) : 1;
}

/* Log decay up to the key at `place`: since each key j, in work->fade, and since the start of the call. Summed backward
 * from the latest key, so that a strong gate does not reduce the precision of later terms. */
static inline double oracle_fade(const oracle_head *h, oracle_work *w, size_t place)
{
    double sum = 0, all = 0;
    for (size_t j = h->keys; j-- > 0;) {
        w->fade[j] = sum;
        if (h->log_gate && j <= place) sum += h->log_gate[j];
        if (j >= h->kept) all = sum;
    }
    return all;
}

/* R_t = max(R_{t-1} + log g_t, ℓ + log weight of the key that enters the sums with token t): the key of the token, or
 * in HYBRID that which leaves the window. 0 for maps of moderate size. */
static inline void oracle_prepare_scales(const oracle_head *h, oracle_work *w)
{
    bool scaled = bo_features_scaled(h->features);
    size_t delay = h->desc->kind == BO_ATTENTION_HYBRID ? h->desc->window : 0;
    double running = scaled ? (h->s0 ? h->log0 : -INFINITY) : 0;
    oracle_log_scales(&w->map, h->group * h->queries, w->yq, w->scale_q);
    double *scale_k = oracle_zeros(h->keys);
    oracle_log_scales(&w->map, h->keys, w->yk, scale_k);
    for (size_t t = h->kept; t < h->keys; t++) {
        double gates = 0;
        for (size_t i = 0; h->log_gate && i < delay && i <= t; i++) gates += h->log_gate[t - i];
        if (scaled && h->log_gate) running += h->log_gate[t];
        if (scaled && t >= delay) running = fmax(running, scale_k[t - delay] + log(w->weight[t - delay]) + gates);
        w->running[t] = running;
    }
    free(scale_k);
}

/* exp(e) with an exponent that the library stores in float32; below e^-100 it is negligible. */
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
    w.front = oracle_front_make(h->desc, h->sigma, h->m, h->bias);
    w.front_k = oracle_front_make(h->desc, h->sigma, h->m_k ? h->m_k : h->m, h->bias_k ? h->bias_k : h->bias);
    if (!h->features) return w;
    w.map = oracle_map_make(h->context, h->features);
    w.count = w.map.count, w.width = w.front.width;
    assert_int_equal(w.map.dim, w.width);
    w.yq = oracle_zeros(rows * w.width), w.yk = oracle_zeros(keys * w.width);
    for (size_t r = 0; r < rows; r++)
        oracle_front_apply(&w.front, h->q + r * h->desc->dim, w.yq + r * w.width, &h->noise);
    for (size_t j = 0; j < keys; j++)
        oracle_front_apply(&w.front_k, h->k + j * h->desc->dim, w.yk + j * w.width, &h->noise);
    if (!bo_features_scaled(h->features)) { /* other maps are perturbed inside */
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

/* ---- single query ------------------------------------------------------------------------------------------------ */

typedef struct oracle_query {
    size_t row, place;   /* row of q; position of the last visible key, if causal */
    double top, initial; /* initial: exp(e - top) of the initial state */
    double window_top;   /* largest log weight inside the window */
    double far;          /* sum of the weights from features, if there is a window */
    double den;          /* the denominator */
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

/* s q·k, with the rounding of a sum of `more` additional terms */
static inline double oracle_product(oracle_head *h, size_t row, size_t j, double more)
{
    size_t dim = h->desc->dim;
    double dot = 0, magnitude = more;
    for (size_t c = 0; c < dim; c++) {
        double term = oracle_scale(h) * h->q[row * dim + c] * h->k[j * dim + c];
        dot += term;
        magnitude += fabs(term);
    }
    return dot + oracle_shake(&h->noise, magnitude);
}

/* log of mix exp(s q·k), or of |s q·k|^p */
static inline double oracle_score(oracle_head *h, size_t row, size_t j)
{
    if (h->desc->kind != BO_ATTENTION_POWER) {
        double mix = h->desc->kind == BO_ATTENTION_HYBRID ? log(oracle_mix(h, row)) : 0;
        return oracle_product(h, row, j, 1) + mix;
    }
    double score = h->desc->power * log(fabs(oracle_product(h, row, j, 0)));
    return score == -INFINITY ? score : score + oracle_shake(&h->noise, 1 + fabs(score));
}

/* The log units of all weights, then the factors exp(e_ij - top_i) in work->row. */
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

/* log of the unit of a clamp: exp(ℓ(q_i) + R_i), or the largest weight of the window if that is larger or if the sums
 * are empty. */
static inline double oracle_unit(oracle_head *h, const oracle_work *w, const oracle_query *query)
{
    if (!h->features) return query->window_top;
    size_t last = query->place;
    double running = bo_features_scaled(h->features) ? (h->s0 ? h->log0 : -INFINITY) : 0;
    if (last < h->keys && last >= h->kept) running = w->running[last];
    if (h->desc->kind == BO_ATTENTION_HYBRID && query->far == 0) return query->window_top;
    /* a float32 that is updated with each token */
    if (running > -INFINITY) running += oracle_shake(&h->noise, fabs(running));
    return fmax(w->scale_q[query->row] + running, query->window_top);
}

/* The rounding error of a sum depends on the magnitudes of its terms, which are larger than the sum for signed
 * features. */
static inline double oracle_dot_shaken(size_t n, const double *a, const double *b, oracle_noise *noise)
{
    double magnitude = 0;
    if (noise->size == 0) return oracle_dot(n, a, b);
    for (size_t i = 0; i < n; i++) magnitude += fabs(a[i] * b[i]);
    return oracle_dot(n, a, b) + oracle_shake(noise, magnitude);
}

/* The relative perturbation of a term of a sum over tokens: a sum of n terms is rounded n times. */
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

/* The same without signs, for the perturbation: numerator and denominator are rounded separately. */
static inline double oracle_unsigned(const oracle_head *h, const oracle_work *w, const oracle_query *query, size_t j)
{
    double sum = 0;
    if (h->noise.size == 0 || oracle_windowed(h, query->place, j)) return 1;
    for (size_t f = 0; f < w->count; f++) sum += fabs(w->zq[query->row * w->count + f] * w->zk[j * w->count + f]);
    return w->weight[j] * sum;
}

static inline void oracle_denominator(oracle_head *h, const oracle_work *w, double sum, oracle_query *query)
{
    if (h->desc->normalizer == BO_NORMALIZER_NONE) {
        query->den = exp(-query->top);
        query->clamped = true;
        return;
    }
    double unit = exp(oracle_unit(h, w, query) - query->top);
    /* a sum near the smallest float32 is not determined: it is perturbed by its own size */
    if (h->noise.size > 0 && h->features && fabs(sum) < 1e-30 * unit)
        sum *= 1 + oracle_shake(&h->noise, 1 / h->noise.size);
    query->clamped = h->features && sum < h->desc->clamp * unit;
    query->den = query->clamped ? h->desc->clamp * unit : sum;
    query->zero = !(query->den > (double)FLT_MIN * unit);
}

static inline oracle_query oracle_output(oracle_head *h, oracle_work *w, size_t row)
{
    bool all = h->read_only || !h->desc->causal;
    size_t place = all ? h->keys - 1 : h->keys - h->queries + row % h->queries;
    oracle_query query = {.row = row, .place = place};
    double *out = h->out + row * w->value, sum = 0;
    oracle_units(h, w, &query);
    for (size_t c = 0; c < w->value; c++) out[c] = 0;
    for (size_t j = 0; j < h->keys; j++) {
        if (w->row[j] == 0) continue;
        double a = w->row[j] * oracle_mantissa(h, w, &query, j),
               max_magnitude = w->row[j] * oracle_unsigned(h, w, &query, j);
        sum += a + max_magnitude * oracle_shake_term(h);
        if (!oracle_windowed(h, place, j)) query.far += a;
        for (size_t c = 0; c < w->value; c++)
            out[c] += h->v[j * w->value + c] * (a + max_magnitude * oracle_shake_term(h));
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

#endif
