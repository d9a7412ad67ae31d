/* A chunk of attention with features: linear.h has the formulas. */
#include "linear.h"
#include <assert.h>
#include <math.h>
#include <string.h>
#include <float.h>

/* ---- rows to features -------------------------------------------------------------------------------------------- */

bo_mapper bo_mapper_make(const bo_attention *attention, const bo_attention_inputs *in, size_t key_head, size_t rows,
                         bo_carver *carver)
{
    bo_mapper mapper = {.map = attention->features[key_head], .count = attention->count};
    mapper.transform = bo_row_transform_make(attention, in, key_head, carver);
    mapper.t = bo_carve_floats(carver, rows * mapper.transform.width);
    mapper.block = bo_carve(carver, bo_features_block_bytes(mapper.map, rows), 1);
    return mapper;
}

void bo_mapper_features(const bo_mapper *mapper, bo_role role, size_t rows, const float *x, size_t ldx, float *features,
                        float *log_scale)
{
    size_t ldt;
    const float *t = bo_row_transform_forward(&mapper->transform, role, rows, x, ldx, mapper->t, &ldt);
    bo_features_block(mapper->map, rows, t, ldt, features, mapper->count, log_scale, mapper->block);
}

static bool closed_used(const bo_attention *attention)
{
    return bo_features_closed(attention->features[0]) && attention->count > 2 * attention->desc.features.dim;
}

static bo_closed closed_make(const bo_attention *attention, bo_carver *carver)
{
    const bo_features_desc *desc = &attention->desc.features;
    bo_closed closed = {
        .used = closed_used(attention), .taylor = desc->kernel == BO_KERNEL_TAYLOR, .degree = desc->degree};
    if (!closed.used) return closed;
    closed.factor = bo_carve_floats(carver, desc->dim);
    for (size_t j = 0; carver->at && j < desc->dim; j++) {
        double length = desc->length_scales ? (double)desc->length_scales[j] : 1;
        closed.factor[j] = (float)(desc->gamma / (length * length));
    }
    return closed;
}

/* Replaces s by f(s); slope (NULL: not requested) is set to f'(s). */
static void closed_apply(const bo_closed *closed, size_t n, float *s, float *slope)
{
    if (closed->taylor) {
        for (size_t i = 0; slope && i < n; i++) slope[i] = 1 + s[i];
        for (size_t i = 0; i < n; i++) s[i] = 1 + s[i] * (1 + 0.5f * s[i]);
        return;
    }
    float degree = (float)closed->degree;
    for (size_t i = 0; i < n; i++) {
        float base = 1 + s[i], power = 1;
        for (int p = 1; p < closed->degree; p++) power *= base;
        if (slope) slope[i] = degree * power;
        s[i] = base * power;
    }
}

/* ---- weights of keys --------------------------------------------------------------------------------------------- */

float bo_log_input(const bo_attention *attention, float log_gate)
{
    return attention->desc.gate == BO_GATE_CONVEX ? logf(fmaxf(-expm1f(log_gate), BO_MIN_INPUT_WEIGHT)) : 0;
}

double bo_input_derivative(double log_gate)
{
    double input = -expm1(log_gate);
    return input > (double)BO_MIN_INPUT_WEIGHT ? -exp(log_gate) / input : 0;
}

/* Sums of gates may be far larger than any relevant exponent, so their differences are computed in double. */
float bo_linear_weigh(const bo_linear *work, size_t t, float *row)
{
    float r = work->r[work->lag + t];
    if (work->attention->desc.gate == BO_GATE_NONE) return work->kernels->exp_weigh(t, work->lk, -r, row);
    if (r > -INFINITY) return work->kernels->exp_weigh_wide(t, work->c, work->b[work->lag + t] - (double)r, row);
    memset(row, 0, t * sizeof *row); /* all weights vanish */
    return 0;
}

/* Counts the first keys with factorized weights (independently of later keys), and computes exp(c) of these keys. */
static void find_key_factors(bo_linear *work, size_t keys)
{
    const double min_exponent = -8; /* exponents of this size cost at most three bits of float precision */
    work->factored = 0;
    if (work->attention->scaled || work->no_factors) return;
    while (work->factored < keys && work->b[work->lag + work->factored + 1] >= min_exponent) work->factored++;
    for (size_t j = 0; j < work->factored; j++) work->key_factors[j] = (float)work->c[j];
    work->kernels->exp_shift(work->factored, work->key_factors, 0, work->key_factors);
}

/* Computes b, c and remains once for all chunks, from the shared gate of all tokens. */
static void linear_settle(bo_linear *work, const float *log_gate)
{
    double gate = (double)bo_log_gate(log_gate);
    work->settled = true;
    for (size_t t = 0; t <= work->chunk; t++) {
        work->b[t] = (double)t * gate;
        work->remains[t] = (float)exp(work->b[t]);
    }
    for (size_t j = 0; j < work->chunk; j++) work->c[j] = -work->b[j + 1];
    find_key_factors(work, work->chunk);
}

/* Returns the exponent of the factor of the sums after u rows. For empty sums (-∞) the factor is arbitrary. */
static double remaining(const bo_linear *work, size_t u)
{
    double before = (double)work->r[0], after = (double)work->r[u];
    if (isinf(after)) return isinf(before) ? 0 : after;
    return before + work->b[u] - after;
}

/* Computes the factors of the sums after u rows: for the queries with the accuracy of exp_below, for the sums with full
 * float accuracy, because this error accumulates from chunk to chunk. */
static void find_remains(bo_linear *work)
{
    size_t rows = work->lag + work->keys;
    for (size_t u = 1; u < rows; u++) work->remains[u] = (float)remaining(work, u);
    work->kernels->exp_below(rows - 1, work->remains + 1, 0, work->remains + 1);
    work->remains[rows] = (float)exp(remaining(work, rows));
}

/* Returns the running log scale after a row; log_key: see bo_linear_token. Delayed keys enter with the gates of later
 * tokens as weights, which may be too small for float: below -2^30, where exp of a rounding error is no longer finite,
 * the sums are empty. */
static float follow(const bo_attention *attention, float log_scale, float gate, double log_key)
{
    bool late = attention->traits & BO_TRAIT_WINDOW && attention->desc.gate != BO_GATE_NONE;
    float kept = late && gate < BO_MIN_LOG_GATE ? -INFINITY : log_scale + gate;
    float next = kept > (float)log_key ? kept : (float)log_key;
    return late && next < -0x1p30f ? -INFINITY : next;
}

/* Computes a chunk of one row by the formulas of linear.h. */
bo_sums_token bo_linear_token(const bo_attention *attention, float log_scale, double log_key, const float *log_gate)
{
    float gate = bo_log_gate(log_gate), next = attention->scaled ? follow(attention, log_scale, gate, log_key) : 0;
    if (isinf(next)) return (bo_sums_token){.log_scale = next};
    /* In double, to correct the rounding error of `next` in the sums: slow gates would vanish in large log scales. */
    return (bo_sums_token){.log_scale = next,
                           .decay = (float)exp((double)log_scale + (double)gate - (double)next),
                           .weight = (float)exp(log_key - (double)next)};
}

/* Computes b, r and c of the chunk's rows, from lk and the log scale of the sums. */
static void find_exponents(bo_linear *work, const bo_key_rows *rows)
{
    bool scaled = work->attention->scaled;
    for (size_t u = 0; u < rows->lag + rows->keys; u++) {
        float gate = bo_log_gate(rows->gate ? rows->gate + u * rows->gate_stride : NULL);
        double log_key = -INFINITY;
        work->b[u + 1] = work->b[u] + (double)gate;
        if (u >= rows->lag) {
            size_t j = u - rows->lag;
            double entry = rows->entry ? rows->entry[j] : (double)bo_log_input(work->attention, gate);
            log_key = (double)work->lk[j] + entry;
            work->c[j] = log_key - work->b[u + 1];
        }
        if (scaled) work->r[u + 1] = follow(work->attention, work->r[u], gate, log_key);
    }
}

void bo_linear_begin_chunk(bo_linear *work, const bo_key_rows *rows)
{
    size_t keys = rows->keys, count = rows->lag + keys;
    assert(count <= work->chunk && !(work->settled && rows->lag));
    work->keys = keys;
    work->lag = rows->lag;
    if (!work->weighted || count == 0) return;
    if (!work->settled) {
        work->b[0] = 0;
        work->r[0] = *work->sums.log_scale;
        find_exponents(work, rows);
        find_remains(work);
        find_key_factors(work, keys);
    }
    if (keys <= work->factored) {
        work->kernels->scale(keys, work->remains[count], work->key_factors, work->weights);
        return;
    }
    for (size_t j = 0; j < keys; j++) work->weights[j] = 1;
    bo_linear_weigh(work, keys, work->weights);
}

/* ---- queries and keys -------------------------------------------------------------------------------------------- */

/* Rows per panel of features if scores are closed: enough for products near peak speed, and few enough to keep rows
 * with thousands of features in the second-level cache. */
enum { PANEL = BO_SIZE(32, 4) };

size_t bo_linear_depth(const bo_attention *attention)
{
    return closed_used(attention) ? attention->desc.features.dim : attention->count;
}

bo_linear bo_linear_make(const bo_attention *attention, const bo_attention_inputs *in, size_t key_head, size_t chunk,
                         bo_carver *carver)
{
    size_t count = attention->count, value_dim = attention->desc.value_dim;
    bo_linear work = {.attention = attention,
                      .kernels = attention->kernels,
                      .chunk = chunk,
                      .count = count,
                      .value_dim = value_dim,
                      .factored = chunk,
                      .weighted = attention->scaled || attention->desc.gate != BO_GATE_NONE};
    work.products = bo_multiplier_make(attention->kernels, attention->precision, carver);
    work.band = bo_multiplier_rounds(&work.products) ? chunk : BO_BAND;
    work.mapper = bo_mapper_make(attention, in, key_head, chunk, carver);
    work.closed = closed_make(attention, carver);
    work.depth = bo_linear_depth(attention);
    work.panel = work.closed.used ? bo_min(chunk, PANEL) : chunk;
    if (work.closed.used) work.features = bo_carve_floats(carver, work.panel * count);
    work.sums.log_scale = bo_carve_floats(carver, 1);
    work.sums.z = bo_carve_floats(carver, count);
    work.sums.s = bo_carve_floats(carver, count * value_dim);
    work.fk = bo_carve_floats(carver, chunk * work.depth);
    work.fkt = bo_carve_floats(carver, work.depth * chunk);
    work.fq = bo_carve_floats(carver, chunk * work.depth);
    work.lk = bo_carve_floats(carver, chunk);
    work.lq = bo_carve_floats(carver, chunk);
    work.b = bo_carve(carver, chunk + 1, sizeof(double));
    work.r = bo_carve_floats(carver, chunk + 1);
    work.c = bo_carve(carver, bo_padded(chunk), sizeof(double));
    work.remains = bo_carve_floats(carver, chunk + 1);
    work.key_factors = bo_carve_floats(carver, chunk);
    work.factors = bo_carve_floats(carver, chunk);
    work.weights = bo_carve_floats(carver, chunk);
    work.scores = bo_carve_floats(carver, chunk * chunk);
    work.values = bo_carve_floats(carver, chunk * value_dim);
    if (!carver->at) return work;
    for (size_t j = 0; j < chunk; j++) work.weights[j] = work.key_factors[j] = 1;
    for (size_t t = 0; t <= chunk; t++) work.remains[t] = 1;
    memset(work.r, 0, (chunk + 1) * sizeof *work.r);
    bool late = attention->traits & BO_TRAIT_WINDOW; /* then exponents depend on the lag */
    if (attention->desc.gate == BO_GATE_FIXED && !attention->scaled && !late)
        linear_settle(&work, bo_fixed_gate(attention, in, key_head));
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
    work->keys = work->lag = 0;
    if (state) {
        bo_sums_copy(attention, work->sums, bo_state_sums(attention, (void *)state, key_head));
    } else {
        *work->sums.log_scale = attention->scaled ? -INFINITY : 0;
        memset(work->sums.z, 0, work->count * sizeof(float));
        memset(work->sums.s, 0, work->count * work->value_dim * sizeof(float));
    }
    work->r[0] = *work->sums.log_scale;
}

void bo_linear_map(const bo_linear *work, bo_role role, size_t rows, const float *x, size_t ldx, float *mapped,
                   float *log_scale)
{
    const bo_mapper *mapper = &work->mapper;
    size_t width = mapper->transform.width, ldt;
    if (!work->closed.used) {
        bo_mapper_features(mapper, role, rows, x, ldx, mapped, log_scale);
        return;
    }
    const float *t = bo_row_transform_forward(&mapper->transform, role, rows, x, ldx, mapped, &ldt);
    for (size_t r = 0; t != mapped && r < rows; r++) memcpy(mapped + r * width, t + r * ldt, width * sizeof *mapped);
    memset(log_scale, 0, rows * sizeof *log_scale);
}

void bo_linear_map_queries(bo_linear *work, size_t queries, const float *q, size_t ldq)
{
    bo_linear_map(work, BO_OF_QUERIES, queries, q, ldq, work->fq, work->lq);
}

const float *bo_linear_features(const bo_linear *work, const float *mapped, size_t first, size_t rows)
{
    const float *from = mapped + first * work->depth;
    if (!work->closed.used) return from;
    bo_features_block(work->mapper.map, rows, from, work->depth, work->features, work->count, work->factors,
                      work->mapper.block);
    return work->features;
}

void bo_linear_transpose(const bo_linear *work)
{
    work->kernels->transpose(work->keys, work->depth, work->fk, work->depth, work->fkt, work->chunk);
    if (work->closed.used)
        work->kernels->scale_rows(work->depth, work->keys, work->closed.factor, work->fkt, work->chunk, work->fkt,
                                  work->chunk);
}

/* Finishes one row of scores: visible scores are weighted unless weights factorize, the others are set to 0. Returns
 * the sum if requested. */
static float finish_scores(const bo_linear *work, size_t row, size_t t, bool requested)
{
    float *scores = work->scores + row * work->chunk,
          *derivatives = work->derivatives ? work->derivatives + row * work->chunk : NULL;
    memset(scores + t, 0, (work->keys - t) * sizeof *scores);
    if (work->closed.used) closed_apply(&work->closed, t, scores, derivatives);
    if (t > work->factored) return bo_linear_weigh(work, t, scores);
    return requested ? work->kernels->dot_f32(t, scores, work->key_factors) : 0;
}

void bo_linear_scores(const bo_linear *work, size_t queries, float *sums)
{
    if (work->keys == 0 && sums) memset(sums, 0, queries * sizeof *sums);
    for (size_t first = 0; work->keys && first < queries; first += work->band) {
        size_t rows = bo_min(work->band, queries - first);
        size_t width = bo_visible(work, first + rows - 1);
        bo_multiply(&work->products, rows, width, work->depth, work->fq + first * work->depth, work->depth, 1,
                    work->fkt, work->chunk, false, work->scores + first * work->chunk, work->chunk);
        for (size_t i = first; i < first + rows; i++) {
            float sum = finish_scores(work, i, bo_visible(work, i), sums != NULL);
            if (sums) sums[i] = sum;
        }
    }
}

/* Multiplies features (rows x count) by the sums, some features at a time, so that their part of S stays in the
 * first-level cache. */
static void read_sums(const bo_linear *work, size_t rows, const float *features, float *n, size_t ldn)
{
    enum { FIRST_CACHE = BO_SIZE(6 << 10, 64) }; /* floats used, of 8192 */
    size_t count = work->count, values = work->value_dim, step = FIRST_CACHE / values + 1;
    if (bo_multiplier_rounds(&work->products)) step = count; /* bfloat16 products split the depth separately */
    for (size_t first = 0; first < count; first += step)
        bo_multiply(&work->products, rows, values, bo_min(step, count - first), features + first, count, 1,
                    work->sums.s + first * values, values, first > 0, n, ldn);
}

/* Computes n += scores v for rows [first, end). */
static void add_within(const bo_linear *work, size_t first, size_t end, const float *v, size_t ldv, float *n,
                       size_t ldn)
{
    for (size_t at = first; work->keys && at < end; at += work->band) {
        size_t rows = bo_min(work->band, end - at);
        bo_multiply(&work->products, rows, work->value_dim, bo_visible(work, at + rows - 1),
                    work->scores + at * work->chunk, work->chunk, 1, v, ldv, true, n + at * ldn, ldn);
    }
}

/* Computes n = Sᵀ f of each row, and zᵀ f to `before` (NULL: not requested). */
static void read_earlier_sums(const bo_linear *work, size_t queries, float *n, size_t ldn, float *before)
{
    for (size_t first = 0; first < queries; first += work->panel) {
        size_t end = bo_min(first + work->panel, queries);
        const float *features = bo_linear_features(work, work->fq, first, end - first);
        read_sums(work, end - first, features, n + first * ldn, ldn);
        for (size_t i = first; before && i < end; i++, features += work->count)
            before[i] = work->kernels->dot_f32(work->count, features, work->sums.z);
    }
}

/* Computes denominators and tops of the rows from the sums of the scores and zᵀ f; writes the remaining factor of each
 * row to factors. The first `factored` rows use factorized weights. */
static void finish_rows(const bo_linear *work, size_t queries, size_t factored, float *denominator, float *top)
{
    bool divides = bo_linear_divides(work);
    for (size_t i = 0; i < queries; i++) {
        size_t u = bo_elapsed(work, i);
        float remains = work->remains[u], within = denominator[i], before = top[i];
        denominator[i] = i < factored ? remains * (within + before) : within + remains * before;
        if (!divides) denominator[i] = 1;
        work->factors[i] = remains;
        top[i] = work->lq[i] + work->r[u];
    }
}

void bo_linear_queries(const bo_linear *work, size_t queries, const float *v, size_t ldv, float *n, size_t ldn,
                       float *denominator, float *top)
{
    const bo_kernels *kernels = work->kernels;
    size_t values = work->value_dim,
           factored = work->factored < work->keys ? bo_min(work->factored + work->lag, queries) : queries;
    bool divides = bo_linear_divides(work), use_factors = work->weighted && factored && work->keys;
    bo_linear_scores(work, queries, divides ? denominator : NULL);
    read_earlier_sums(work, queries, n, ldn, divides ? top : NULL);
    if (use_factors)
        kernels->scale_rows(bo_min(work->factored, work->keys), values, work->key_factors, v, ldv, work->values,
                            values);
    add_within(work, 0, factored, use_factors ? work->values : v, use_factors ? values : ldv, n, ldn);
    finish_rows(work, queries, factored, denominator, top);
    if (work->weighted) kernels->scale_rows(queries, values, work->factors, n, ldn, n, ldn);
    add_within(work, factored, queries, v, ldv, n, ldn);
}

void bo_linear_absorb(bo_linear *work, const float *v, size_t ldv)
{
    const bo_kernels *kernels = work->kernels;
    size_t count = work->count, values = work->value_dim, keys = work->keys, all = work->lag + keys;
    if (all == 0) return;
    const float *weighed = v;
    float remains = work->remains[all];
    size_t stride = ldv;
    if (keys == 0 && remains != 1) {
        kernels->scale(count, remains, work->sums.z, work->sums.z);
        kernels->scale(count * values, remains, work->sums.s, work->sums.s);
    }
    if (work->weighted) {
        kernels->scale_rows(keys, values, work->weights, v, ldv, work->values, values);
        weighed = work->values;
        stride = values;
    }
    for (size_t first = 0; first < keys; first += work->panel, remains = 1) {
        size_t rows = bo_min(work->panel, keys - first);
        const float *features = bo_linear_features(work, work->fk, first, rows);
        kernels->renew(1, count, rows, work->weights + first, rows, 1, features, count, remains, work->sums.z, count);
        bo_multiply_renew(&work->products, count, values, rows, features, 1, count, weighed + first * stride, stride,
                          remains, work->sums.s, values);
    }
    if (work->weighted) *work->sums.log_scale = work->r[all];
    work->r[0] = *work->sums.log_scale;
    work->keys = work->lag = 0;
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

float bo_normalize(const bo_attention *attention, float denominator, const float *n, float *out)
{
    const bo_kernels *kernels = attention->kernels;
    size_t values = attention->desc.value_dim;
    float clamp = (float)attention->desc.clamp;
    if (attention->desc.normalizer == BO_NORMALIZER_NONE) {
        memcpy(out, n, values * sizeof *out);
        return -1;
    }
    float min_exponent = denominator > clamp ? denominator : clamp;
    if (!(min_exponent > FLT_MIN)) {
        memset(out, 0, values * sizeof *out);
        return INFINITY;
    }
    kernels->scale(values, 1 / min_exponent, n, out);
    return denominator > clamp ? min_exponent : -min_exponent;
}
