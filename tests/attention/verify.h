/* Reference results for a trial and their comparison with the library. */
#ifndef BO_TEST_ATTENTION_VERIFY_H
#define BO_TEST_ATTENTION_VERIFY_H

#include "verify_memory.h"

/* ---- attention with weights -------------------------------------------------------------------------------------- */

/* Reads the sums of a state; returns false if the state is empty. */
static inline bool verify_state(verify_head *j, const trial *t, const void *state, double **s, double **z,
                                double *log_scale)
{
    size_t values = j->features * t->d->value_dim;
    float *s32 = trial_floats(values), *z32 = trial_floats(j->features);
    assert_ok(t->context, bo_attention_state_get(t->context, t->attention, state, j->key_head, s32, z32, log_scale));
    *s = verify_doubles(j, values, s32), *z = verify_doubles(j, j->features, z32);
    free(s32);
    free(z32);
    return *log_scale > -INFINITY;
}

static inline void verify_initial(verify_head *j, const trial *t, oracle_head *h)
{
    double *s, *z, log_scale;
    if (!t->initial || !j->features) return;
    if (!verify_state(j, t, t->initial[j->sequence], &s, &z, &log_scale)) return;
    h->s0 = s, h->z0 = z, h->log0 = log_scale;
    h->ds0 = verify_array(j, j->features * t->d->value_dim), h->dz0 = verify_array(j, j->features);
}

/* The part of d_final that belongs to the sums, and the destination of the final sums. */
static inline void verify_final(verify_head *j, const trial *t, oracle_head *h)
{
    double *s, *z;
    size_t width = t->d->value_dim + 1;
    if (!j->features || !verify_state(j, t, t->final[j->sequence], &s, &z, &h->log_final)) return;
    h->s_final = s, h->z_final = z;
    double *ds = verify_array(j, j->features * t->d->value_dim), *dz = verify_array(j, j->features);
    const float *from = t->d_final[j->sequence] + j->key_head * j->features * width;
    for (size_t f = 0; f < j->features; f++) {
        for (size_t c = 0; c + 1 < width; c++) ds[f * (width - 1) + c] = (double)from[f * width + c];
        dz[f] = (double)from[f * width + width - 1];
    }
    h->ds_final = ds, h->dz_final = dz;
}

/* The gate of every key: given per key, or one value for all keys. */
static inline const double *verify_gates(verify_head *j, const trial *t)
{
    if (t->d->gate == BO_GATE_NONE || t->desc.shape.no_keys) return NULL;
    if (t->d->gate != BO_GATE_FIXED) return verify_rows(j, t, LOG_GATE);
    size_t keys = j->kept + t->keys[j->sequence];
    double *gates = verify_array(j, keys), default_gate = log1p(-pow(2, -5 - (double)(j->key_head % 8)));
    for (size_t i = 0; i < keys; i++)
        gates[i] = t->count[LOG_DECAY] ? (double)t->array[LOG_DECAY][j->key_head] : default_gate;
    return gates;
}

static inline void verify_head_parameters(verify_head *j, const trial *t, oracle_head *h, const trial_result *a)
{
    h->sigma = verify_parameter(j, t, SIGMA), h->dsigma = verify_parameter_gradient(j, t, a, SIGMA);
    h->m = verify_parameter(j, t, M), h->dm = verify_parameter_gradient(j, t, a, M);
    h->m_k = verify_parameter(j, t, M_K), h->dm_k = verify_parameter_gradient(j, t, a, M_K);
    h->bias = verify_parameter(j, t, BIAS), h->dbias = verify_parameter_gradient(j, t, a, BIAS);
    h->bias_k = verify_parameter(j, t, BIAS_K), h->dbias_k = verify_parameter_gradient(j, t, a, BIAS_K);
    h->mix = verify_parameter(j, t, MIX), h->dmix = verify_parameter_gradient(j, t, a, MIX);
}

static inline oracle_head verify_oracle(verify_head *j, const trial *t, const trial_result *a)
{
    const bo_attention_desc *d = t->d;
    oracle_head h = {.context = t->context,
                     .desc = d,
                     .features = bo_attention_features(t->attention, j->key_head),
                     .group = j->group,
                     .queries = j->queries,
                     .keys = j->kept + t->keys[j->sequence],
                     .kept = j->kept,
                     .read_only = t->desc.shape.no_keys || t->desc.across};
    h.q = verify_queries(j, t, t->array[Q], d->dim);
    h.dout = verify_queries(j, t, t->gradient[OUT], d->value_dim);
    h.k = verify_rows(j, t, K), h.v = verify_rows(j, t, V);
    h.log_gate = verify_gates(j, t);
    verify_head_parameters(j, t, &h, a);
    h.out = verify_array(j, j->group * j->queries * d->value_dim);
    h.dq = verify_array(j, j->group * j->queries * d->dim), h.dk = verify_array(j, h.keys * d->dim);
    h.dv = verify_array(j, h.keys * d->value_dim), h.dlog_gate = verify_array(j, h.keys);
    verify_initial(j, t, &h);
    verify_final(j, t, &h);
    if (t->desc.forward_only) h.dq = NULL;
    return h;
}

/* ---- results ----------------------------------------------------------------------------------------------------- */

static inline size_t trial_cached_keys(const trial *t)
{
    if (!oracle_explicit(t->d) && t->d->kind != BO_ATTENTION_HYBRID) return 0;
    return t->d->window ? t->d->window : t->d->capacity;
}

/* In the gradient of a state, the cached keys follow the sums of all heads. */
static inline size_t verify_kept_at(const verify_head *j, const trial *t)
{
    size_t sums = t->d->key_heads * j->features * (t->d->value_dim + 1);
    return sums + j->key_head * trial_cached_keys(t) * (t->d->dim + t->d->value_dim);
}

/* The gates of the cached keys follow the cached keys of all heads. */
static inline size_t verify_gates_at(const verify_head *j, const trial *t)
{
    size_t row = t->d->dim + t->d->value_dim, sums = j->features * (t->d->value_dim + 1);
    return t->d->key_heads * (sums + trial_cached_keys(t) * row) + j->key_head * trial_cached_keys(t);
}

static inline bool trial_keeps_gates(const trial *t)
{
    return t->d->kind == BO_ATTENTION_HYBRID && trial_accepts(t->d, LOG_GATE);
}

/* Gradients of keys and gates in the final state are added to these keys and gates directly. */
static inline void verify_kept_final(const verify_head *j, const trial *t, oracle_head *h)
{
    size_t dim = t->d->dim, value = t->d->value_dim, all = h->keys, cached_keys = trial_cached_keys(t);
    size_t total = t->desc.past + t->keys[j->sequence], count = total < cached_keys ? total : cached_keys;
    const float *from = t->d_final[j->sequence] + verify_kept_at(j, t);
    for (size_t r = 0; r < count; r++) {
        const float *row = from + r * (dim + value);
        for (size_t c = 0; c < dim; c++) h->dk[(all - count + r) * dim + c] += (double)row[c];
        for (size_t c = 0; c < value; c++) h->dv[(all - count + r) * value + c] += (double)row[dim + c];
        if (trial_keeps_gates(t))
            h->dlog_gate[all - count + r] += (double)t->d_final[j->sequence][verify_gates_at(j, t) + r];
    }
}

static inline void verify_write_initial(const verify_head *j, const trial *t, const oracle_head *h, double *out)
{
    size_t dim = t->d->dim, value = t->d->value_dim, cached_keys = trial_cached_keys(t);
    double *to = out + j->key_head * j->features * (value + 1);
    /* empty sums have no scale, so their gradient is undefined: it only has to be finite */
    const float *found = t->d_initial[j->sequence] + j->key_head * j->features * (value + 1);
    for (size_t i = 0; !h->s0 && i < j->features * (value + 1); i++) to[i] = (double)found[i];
    for (size_t f = 0; h->s0 && f < j->features; f++) {
        for (size_t c = 0; c < value; c++) to[f * (value + 1) + c] = h->ds0[f * value + c];
        to[f * (value + 1) + value] = h->dz0[f];
    }
    size_t count = t->desc.past < cached_keys ? t->desc.past : cached_keys;
    to = out + verify_kept_at(j, t);
    for (size_t r = 0; r < count; r++) {
        size_t from = j->kept - count + r;
        for (size_t c = 0; c < dim; c++) to[r * (dim + value) + c] = h->dk[from * dim + c];
        for (size_t c = 0; c < value; c++) to[r * (dim + value) + dim + c] = h->dv[from * value + c];
        if (trial_keeps_gates(t)) out[verify_gates_at(j, t) + r] = h->dlog_gate[from];
    }
}

static inline void verify_write_sums(const verify_head *j, const trial *t, const oracle_head *h, double *sums)
{
    size_t value = t->d->value_dim, width = value + 1;
    double *to = sums + (j->sequence * t->d->key_heads + j->key_head) * j->features * width;
    for (size_t f = 0; h->s_final && f < j->features; f++) {
        for (size_t c = 0; c < value; c++) to[f * width + c] = h->s_final[f * value + c];
        to[f * width + value] = h->z_final[f];
    }
}

static inline trial_result trial_result_make(const trial *t)
{
    trial_result a = {.out = oracle_zeros(t->count[OUT])};
    size_t n = t->desc.shape.sequences;
    for (size_t i = 0; i < OUT; i++) a.gradient[i] = oracle_zeros(t->count[i]);
    a.initial = oracle_zeros(n * t->gradient_floats);
    a.sums = oracle_zeros(n * t->d->key_heads * trial_sums(t));
    return a;
}

static inline void trial_result_drop(trial_result *a)
{
    free(a->out);
    free(a->initial);
    free(a->sums);
    for (size_t i = 0; i < OUT; i++) free(a->gradient[i]);
}

static inline void verify_write_gradients(const verify_head *j, const trial *t, const oracle_head *h, trial_result *a)
{
    verify_write_queries(j, t, h->dq, t->d->dim, a->gradient[Q]);
    verify_write_rows(j, t, h->dk, K, a->gradient[K]);
    verify_write_rows(j, t, h->dv, V, a->gradient[V]);
    if (t->count[LOG_GATE]) verify_write_rows(j, t, h->dlog_gate, LOG_GATE, a->gradient[LOG_GATE]);
    for (size_t i = 0; t->count[LOG_DECAY] && h->log_gate && i < h->keys; i++)
        a->gradient[LOG_DECAY][j->key_head] += h->dlog_gate[i];
    if (t->initial) verify_write_initial(j, t, h, a->initial + j->sequence * t->gradient_floats);
}

static inline void verify_weights(const trial *t, verify_head *j, oracle_noise *noise, trial_result *a)
{
    oracle_head h = verify_oracle(j, t, a);
    h.noise = *noise;
    oracle_compute(&h);
    if (t->desc.final_gradient) verify_kept_final(j, t, &h);
    verify_write_queries(j, t, h.out, t->d->value_dim, a->out);
    verify_write_sums(j, t, &h, a->sums);
    if (!t->desc.forward_only) verify_write_gradients(j, t, &h, a);
    *noise = h.noise;
}

static inline void verify_one(const trial *t, size_t sequence, size_t key_head, oracle_noise *noise, trial_result *a)
{
    verify_head j = verify_head_make(t, sequence, key_head);
    (trial_is_memory(t->d) ? verify_memory : verify_weights)(t, &j, noise, a);
    verify_head_drop(&j);
}

static inline trial_result compute_expected(const trial *t, double size, uint64_t seed)
{
    trial_result a = trial_result_make(t);
    oracle_noise noise = {size, 0x9e3779b97f4a7c15 * (seed + 1)};
    for (size_t s = 0; s < t->desc.shape.sequences; s++)
        for (size_t h = 0; h < t->d->key_heads; h++) verify_one(t, s, h, &noise, &a);
    return a;
}

/* ---- comparison -------------------------------------------------------------------------------------------------- */

typedef struct verify_expected {
    trial_result truth, shaken[TRIAL_SHAKES];
} verify_expected;

static inline verify_expected verify_make(const trial *t)
{
    verify_expected expected = {.truth = compute_expected(t, 0, 0)};
    for (size_t i = 0; i < TRIAL_SHAKES; i++) expected.shaken[i] = compute_expected(t, TRIAL_NOISE, i + 1);
    return expected;
}

static inline void verify_drop(verify_expected *expected)
{
    trial_result_drop(&expected->truth);
    for (size_t i = 0; i < TRIAL_SHAKES; i++) trial_result_drop(&expected->shaken[i]);
}

/* Tolerance per row: SLACK times the change of this row under perturbation, or a quarter of the largest change of any
 * row; the rounding of the result, which is a sum of many terms; and values that are 0 up to underflow next to values
 * of order one. Results above 1e36 only have to be finite. */
static inline void verify_compare(const trial *t, const char *what, size_t count, size_t width, const float *found,
                                  const double *truth, const double *const *shaken)
{
    double worst = 0, largest = 0, rounds = (double)(t->queries_total * t->d->heads / t->d->key_heads);
    for (size_t i = 0; i < count; i++) {
        for (size_t n = 0; n < TRIAL_SHAKES; n++) worst = fmax(worst, fabs(shaken[n][i] - truth[i]));
        largest = fmax(largest, fabs(truth[i]));
    }
    for (size_t row = 0; row * width < count; row++) {
        double deviation = 0;
        for (size_t i = row * width; i < (row + 1) * width; i++)
            for (size_t n = 0; n < TRIAL_SHAKES; n++) deviation = fmax(deviation, fabs(shaken[n][i] - truth[i]));
        double tolerance = TRIAL_SLACK * fmax(deviation, 0.25 * worst) + 0x1p-23 * largest * (4 + sqrt(rounds)) + 1e-20;
        for (size_t i = row * width; i < (row + 1) * width; i++)
            if (!(fabs((double)found[i] - truth[i]) <= tolerance) && !(fabs(truth[i]) > 1e36 && isfinite(found[i])))
                fail_msg("%s: %s, row %zu of %zu, column %zu: found %.9g, expected %.9g within %.3g", t->desc.name,
                         what, row, count / width, i - row * width, (double)found[i], truth[i], tolerance);
    }
}

/* S and z adjacent, as in the gradients of states. */
static inline float *verify_sums(const trial *t, const void *state, size_t key_head)
{
    size_t features = trial_features(t), width = t->d->value_dim + 1;
    float *s = trial_floats(features * width), *z = trial_floats(features), *rows = trial_floats(features * width);
    double log_scale;
    assert_ok(t->context, bo_attention_state_get(t->context, t->attention, state, key_head, s, z, &log_scale));
    for (size_t f = 0; f < features; f++) {
        for (size_t c = 0; c + 1 < width; c++) rows[f * width + c] = s[f * (width - 1) + c];
        rows[f * width + width - 1] = z[f];
    }
    free(s);
    free(z);
    return rows;
}

static inline void verify_final_states(const trial *t, const verify_expected *v)
{
    const double *shaken[TRIAL_SHAKES];
    size_t sums = trial_sums(t), heads = t->d->key_heads, matrix = t->d->dim * t->d->value_dim;
    size_t width = trial_is_memory(t->d) ? t->d->value_dim : t->d->value_dim + 1;
    for (size_t i = 0; sums && i < t->desc.shape.sequences * heads; i++) {
        size_t at = i * sums, first = trial_is_memory(t->d) ? matrix : sums;
        float *found = (trial_is_memory(t->d) ? verify_matrices : verify_sums)(t, t->final[i / heads], i % heads);
        for (size_t n = 0; n < TRIAL_SHAKES; n++) shaken[n] = v->shaken[n].sums + at;
        verify_compare(t, "final sums", first, width, found, v->truth.sums + at, shaken);
        for (size_t n = 0; n < TRIAL_SHAKES; n++) shaken[n] += first;
        verify_compare(t, "final H", sums - first, t->d->dim, found + first, v->truth.sums + at + first, shaken);
        free(found);
    }
}

static inline void verify_forward(const trial *t, const verify_expected *v)
{
    const double *shaken[TRIAL_SHAKES];
    for (size_t n = 0; n < TRIAL_SHAKES; n++) shaken[n] = v->shaken[n].out;
    verify_compare(t, "out", t->count[OUT], t->d->value_dim, t->array[OUT], v->truth.out, shaken);
    verify_final_states(t, v);
}

static inline void verify_backward(const trial *t, const verify_expected *v)
{
    const double *shaken[TRIAL_SHAKES];
    for (size_t i = 0; i < OUT; i++) {
        char what[32];
        snprintf(what, sizeof what, "gradient of %s", trial_names[i]);
        for (size_t n = 0; n < TRIAL_SHAKES; n++) shaken[n] = v->shaken[n].gradient[i];
        verify_compare(t, what, t->count[i], trial_width(t->d, (trial_array)i), t->gradient[i], v->truth.gradient[i],
                       shaken);
    }
    for (size_t s = 0; t->initial && s < t->desc.shape.sequences; s++) {
        size_t at = s * t->gradient_floats, heads = trial_is_memory(t->d) ? t->d->key_heads : 0;
        for (size_t h = 0; h < heads; h++) verify_symmetrize(t, t->d_initial[s] + h * trial_sums(t));
        for (size_t n = 0; n < TRIAL_SHAKES; n++) shaken[n] = v->shaken[n].initial + at;
        verify_compare(t, "gradient of the initial state", t->gradient_floats, 1, t->d_initial[s],
                       v->truth.initial + at, shaken);
    }
}

/* Runs forward and backward passes of a trial and compares both with the reference. */
static inline void verify_trial(trial *t)
{
    trial_forward(t);
    trial_backward(t);
    verify_expected expected = verify_make(t);
    verify_forward(t, &expected);
    verify_backward(t, &expected);
    verify_drop(&expected);
}

#endif
