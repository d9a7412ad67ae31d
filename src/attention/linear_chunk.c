/* A chunk of attention with features: linear.h has the formulas. */
#include <float.h>
#include <math.h>
#include <string.h>
#include "linear.h"

/* Least input weight 1 - g: its logarithm stays finite, and so does the gradient of a gate of exactly 1. */
static const float least_input = 1e-30f;

/* Log gates below this count as this: sums of them leave double its digits, and nothing is left of the past anyway. */
static const float least_gate = -1e8f;

bo_linear bo_linear_make(const bo_attention *attention, const bo_attention_inputs *in, size_t key_head, size_t chunk,
                         bo_carver *carver)
{
    size_t count = attention->count, value_dim = attention->desc.value_dim;
    bo_linear work = {.attention = attention,
                      .kernels = attention->kernels,
                      .map = attention->features[key_head],
                      .chunk = chunk,
                      .count = count,
                      .value_dim = value_dim,
                      .weighted = attention->scaled || attention->desc.gate != BO_GATE_NONE};
    work.front = bo_front_make(attention, in, key_head, carver);
    work.sums.log_scale = bo_carve_floats(carver, 1);
    work.sums.z = bo_carve_floats(carver, count);
    work.sums.s = bo_carve_floats(carver, count * value_dim);
    work.fk = bo_carve_floats(carver, chunk * count);
    work.fkt = bo_carve_floats(carver, count * chunk);
    work.fq = bo_carve_floats(carver, chunk * count);
    work.lk = bo_carve_floats(carver, chunk);
    work.lq = bo_carve_floats(carver, chunk);
    work.b = bo_carve(carver, chunk + 1, sizeof(double));
    work.r = bo_carve_floats(carver, chunk + 1);
    work.c = bo_carve(carver, chunk, sizeof(double));
    work.exponents = bo_carve_floats(carver, chunk);
    work.weights = bo_carve_floats(carver, chunk);
    work.scores = bo_carve_floats(carver, chunk * chunk);
    work.values = bo_carve_floats(carver, chunk * value_dim);
    work.t = bo_carve_floats(carver, chunk * work.front.width);
    work.block = bo_carve(carver, bo_features_block_bytes(work.map, chunk), 1);
    for (size_t j = 0; carver->at && j < chunk; j++) work.weights[j] = 1;
    if (carver->at) memset(work.r, 0, (chunk + 1) * sizeof *work.r);
    return work;
}

void bo_sums_copy(const bo_attention *attention, bo_sums to, bo_sums from)
{
    *to.log_scale = *from.log_scale;
    memcpy(to.z, from.z, attention->count * sizeof *to.z);
    memcpy(to.s, from.s, attention->count * attention->desc.value_dim * sizeof *to.s);
}

void bo_linear_begin(bo_linear *work, const void *state, size_t key_head)
{
    const bo_attention *attention = work->attention;
    work->keys = 0;
    if (state) {
        bo_sums_copy(attention, work->sums, bo_state_sums(attention, (void *)state, key_head));
    } else {
        *work->sums.log_scale = attention->scaled ? -INFINITY : 0;
        memset(work->sums.z, 0, work->count * sizeof(float));
        memset(work->sums.s, 0, work->count * work->value_dim * sizeof(float));
    }
    work->b[0] = 0;
    work->r[0] = *work->sums.log_scale;
}

float bo_log_gate(const float *log_gate)
{
    return log_gate ? fmaxf(*log_gate, least_gate) : 0;
}

float bo_log_input(const bo_attention *attention, float log_gate)
{
    return attention->desc.gate == BO_GATE_CONVEX ? logf(fmaxf(-expm1f(log_gate), least_input)) : 0;
}

double bo_input_slope(float log_gate)
{
    return -exp((double)log_gate) / fmax(-expm1((double)log_gate), (double)least_input);
}

/* Sums of gates may be far larger than any exponent that counts, so they cancel in double. */
float bo_linear_weigh(const bo_linear *work, size_t t, float *row)
{
    if (work->attention->desc.gate == BO_GATE_NONE) return work->kernels->exp_weigh(t, work->lk, -work->r[t], row);
    double after = work->b[t] - (double)work->r[t];
    for (size_t j = 0; j < t; j++) work->exponents[j] = (float)(work->c[j] + after);
    return work->kernels->exp_weigh(t, work->exponents, 0, row);
}

/* b, r, c and the weights of the chunk's keys. */
void bo_linear_exponents(bo_linear *work, const float *log_gate, size_t stride)
{
    bool scaled = work->attention->scaled;
    work->b[0] = 0;
    work->r[0] = *work->sums.log_scale;
    for (size_t j = 0; j < work->keys; j++) {
        float gate = bo_log_gate(log_gate ? log_gate + j * stride : NULL);
        double own = (double)work->lk[j] + (double)bo_log_input(work->attention, gate);
        work->b[j + 1] = work->b[j] + (double)gate;
        work->r[j + 1] = scaled ? fmaxf(work->r[j] + gate, (float)own) : 0;
        work->c[j] = own - work->b[j + 1];
    }
    for (size_t j = 0; j < work->keys; j++) work->weights[j] = 1;
    bo_linear_weigh(work, work->keys, work->weights);
}

void bo_linear_features_into(bo_linear *work, bo_role role, size_t rows, const float *x, size_t ldx, float *features,
                             float *log_scale)
{
    size_t ldt;
    const float *t = bo_front_forward(&work->front, role, rows, x, ldx, work->t, &ldt);
    bo_features_block(work->map, rows, t, ldt, features, work->count, log_scale, work->block);
}

void bo_linear_keys(bo_linear *work, size_t keys, const float *k, size_t ldk, const float *log_gate, size_t gate_stride)
{
    bo_linear_features_into(work, BO_OF_KEYS, keys, k, ldk, work->fk, work->lk);
    bo_linear_take(work, keys, log_gate, gate_stride);
}

void bo_linear_take(bo_linear *work, size_t keys, const float *log_gate, size_t gate_stride)
{
    work->keys = keys;
    if (work->weighted && keys) bo_linear_exponents(work, log_gate, gate_stride);
}

void bo_linear_features(bo_linear *work, size_t queries, const float *q, size_t ldq)
{
    bo_linear_features_into(work, BO_OF_QUERIES, queries, q, ldq, work->fq, work->lq);
}

float bo_linear_remains(const bo_linear *work, size_t t)
{
    if (t == 0 || !work->weighted) return 1;
    return (float)exp((double)work->r[0] + work->b[t] - (double)work->r[t]);
}

void bo_linear_scores(const bo_linear *work, size_t queries, size_t lag, float *sums)
{
    const bo_kernels *kernels = work->kernels;
    for (size_t first = 0; first < queries; first += BO_BAND) {
        size_t rows = queries - first < BO_BAND ? queries - first : BO_BAND;
        size_t width = bo_visible(first + rows - 1, lag, work->keys);
        kernels->multiply(rows, width, work->count, work->fq + first * work->count, work->count, 1, work->fkt,
                          work->chunk, false, work->scores + first * work->chunk, work->chunk);
        for (size_t i = first; i < first + rows; i++) {
            float *row = work->scores + i * work->chunk;
            size_t t = bo_visible(i, lag, work->keys);
            memset(row + t, 0, (work->keys - t) * sizeof *row);
            if (work->weighted) {
                float sum = bo_linear_weigh(work, t, row);
                if (sums) sums[i] = sum;
            } else if (sums) {
                sums[i] = kernels->dot_f32(t, row, work->weights);
            }
        }
    }
}

void bo_linear_queries(const bo_linear *work, size_t queries, size_t lag, const float *v, size_t ldv, float *n,
                       size_t ldn, float *denominator, float *top)
{
    const bo_kernels *kernels = work->kernels;
    size_t count = work->count, values = work->value_dim;
    bo_linear_scores(work, queries, lag, denominator);
    kernels->multiply(queries, values, count, work->fq, count, 1, work->sums.s, values, false, n, ldn);
    for (size_t i = 0; i < queries; i++) {
        size_t t = bo_visible(i, lag, work->keys);
        float remains = bo_linear_remains(work, t);
        float before = kernels->dot_f32(count, work->fq + i * count, work->sums.z);
        if (remains != 1) kernels->scale(values, remains, n + i * ldn, n + i * ldn);
        denominator[i] += remains * before;
        top[i] = work->lq[i] + work->r[t];
    }
    for (size_t first = 0; first < queries; first += BO_BAND) {
        size_t rows = queries - first < BO_BAND ? queries - first : BO_BAND;
        kernels->multiply(rows, values, bo_visible(first + rows - 1, lag, work->keys),
                          work->scores + first * work->chunk, work->chunk, 1, v, ldv, true, n + first * ldn, ldn);
    }
}

void bo_linear_absorb(bo_linear *work, const float *v, size_t ldv)
{
    const bo_kernels *kernels = work->kernels;
    size_t count = work->count, values = work->value_dim, keys = work->keys;
    if (keys == 0) return;
    float remains = bo_linear_remains(work, keys);
    const float *weighed = v;
    size_t stride = ldv;
    if (work->weighted) {
        for (size_t j = 0; j < keys; j++)
            kernels->scale(values, work->weights[j], v + j * ldv, work->values + j * values);
        weighed = work->values;
        stride = values;
    }
    if (remains != 1) {
        kernels->scale(count, remains, work->sums.z, work->sums.z);
        kernels->scale(count * values, remains, work->sums.s, work->sums.s);
    }
    kernels->multiply(1, count, keys, work->weights, keys, 1, work->fk, count, true, work->sums.z, count);
    kernels->multiply(count, values, keys, work->fk, 1, count, weighed, stride, true, work->sums.s, values);
    if (work->weighted) *work->sums.log_scale = work->r[keys];
    work->b[0] = 0;
    work->r[0] = *work->sums.log_scale;
    work->keys = 0;
}

bool bo_log_scales_fit(size_t n, const float *log_scale)
{
    bool fit = true;
    for (size_t i = 0; i < n; i++) fit = fit && fabsf(log_scale[i]) < 0x1p30f;
    return fit;
}

bool bo_linear_finite(const bo_attention *attention, float denominator, const float *n)
{
    return isfinite(denominator) && attention->kernels->finite(attention->desc.value_dim, n);
}

float bo_normalise(const bo_attention *attention, float denominator, const float *n, float *out)
{
    const bo_kernels *kernels = attention->kernels;
    size_t values = attention->desc.value_dim;
    float clamp = (float)attention->desc.clamp;
    if (attention->desc.normaliser == BO_NORMALISER_NONE) {
        memcpy(out, n, values * sizeof *out);
        return -1;
    }
    float least = denominator > clamp ? denominator : clamp;
    if (!(least > FLT_MIN)) {
        memset(out, 0, values * sizeof *out);
        return INFINITY;
    }
    kernels->scale(values, 1 / least, n, out);
    return denominator > clamp ? least : -least;
}
