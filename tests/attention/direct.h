/* Reference attention by its definition, pair by pair in float64, for kernels that are a function of two rows:
 *
 *     o_i = Σ_j g^(i - j) κ(W q_i + b, W' k_j + b') v_j / (Σ_j of the same, or 1)
 *
 * and comparisons with the library: outputs, gradients along random directions (central differences of the formula),
 * pieces and steps from a state, any number of threads, bitwise causality. The reference uses neither features nor
 * chunks. */
#ifndef BO_TEST_ATTENTION_DIRECT_H
#define BO_TEST_ATTENTION_DIRECT_H

#include "attention/attention.h"
#include "testing.h"

enum { Q, K, V, DECAY, M, M_K, BIAS, BIAS_K, ARRAYS };

/* κ of two rows of length `width`. *size is set to the sum of the magnitudes of its terms. */
typedef double (*direct_kernel)(size_t width, const double *x, const double *y, double *size);

/* Invariant: x[a] contains the elements of given[a], or the default values if the array is not given. */
typedef struct direct {
    bo_attention_desc desc; /* with defaults filled in */
    bo_attention_shape shape;
    direct_kernel kernel;
    size_t count[ARRAYS], outputs;
    float *given[ARRAYS], *gradient[ARRAYS];
    double *x[ARRAYS];
    float *out, *dout;
    void *tape;
    bo_context *context;
    bo_attention *attention;
} direct;

static inline size_t direct_width(const direct *d)
{
    return d->desc.rank ? d->desc.rank : d->desc.dim;
}

/* Index of the first element of row (sequence, head, token) in an array of `heads` heads of width `width`. */
static inline size_t direct_row(const direct *d, size_t heads, size_t width, size_t s, size_t h, size_t t)
{
    size_t tokens = d->shape.tokens;
    bool heads_first = d->shape.layout == BO_LAYOUT_HEADS_FIRST;
    return (heads_first ? (s * heads + h) * tokens + t : (s * tokens + t) * heads + h) * width;
}

/* t = W x + b of one side. Defaults of arrays that are not given: the identity, 0, or the array of the queries. */
static inline void direct_front(const direct *d, size_t key_head, bool keys, const double *x, double *t)
{
    size_t width = direct_width(d), dim = d->desc.dim;
    const double *m = keys && d->x[M_K] ? d->x[M_K] : d->x[M];
    const double *bias = keys && d->x[BIAS_K] ? d->x[BIAS_K] : d->x[BIAS];
    for (size_t i = 0; i < width; i++) {
        t[i] = bias ? bias[key_head * width + i] : 0;
        if (!m) t[i] += x[i];
        for (size_t j = 0; m && j < dim; j++) t[i] += m[(key_head * width + i) * dim + j] * x[j];
    }
}

/* One output row, and the sum of the magnitudes of its terms. */
static inline void direct_query(const direct *d, size_t s, size_t h, size_t i, double *out, double *size)
{
    const bo_attention_desc *desc = &d->desc;
    size_t g = h / (desc->heads / desc->key_heads), values = desc->value_dim, width = direct_width(d);
    double q[128], k[128], total = 0, total_size = 0;
    direct_front(d, g, false, d->x[Q] + direct_row(d, desc->heads, desc->dim, s, h, i), q);
    memset(out, 0, values * sizeof *out);
    memset(size, 0, values * sizeof *size);
    for (size_t j = 0; j < (desc->causal ? i + 1 : d->shape.tokens); j++) {
        const double *v = d->x[V] + direct_row(d, desc->key_heads, values, s, g, j);
        double size_weight, decay = d->x[DECAY] ? exp((double)(i - j) * d->x[DECAY][g]) : 1;
        direct_front(d, g, true, d->x[K] + direct_row(d, desc->key_heads, desc->dim, s, g, j), k);
        double weight = decay * d->kernel(width, q, k, &size_weight);
        total += weight;
        total_size += decay * size_weight;
        for (size_t c = 0; c < values; c++) out[c] += weight * v[c], size[c] += decay * size_weight * fabs(v[c]);
    }
    for (size_t c = 0; desc->normalizer == BO_NORMALIZER_SUM && c < values; c++) {
        out[c] /= total;
        size[c] = (size[c] + fabs(out[c]) * total_size) / total;
    }
}

static inline void direct_forward(const direct *d, double *out, double *size)
{
    for (size_t s = 0; s < d->shape.sequences; s++)
        for (size_t h = 0; h < d->desc.heads; h++)
            for (size_t i = 0; i < d->shape.tokens; i++) {
                size_t at = direct_row(d, d->desc.heads, d->desc.value_dim, s, h, i);
                direct_query(d, s, h, i, out + at, size + at);
            }
}

/* ---- test cases -------------------------------------------------------------------------------------------------- */

static inline void direct_fill(direct *d, int array, size_t count, double scale, uint64_t seed)
{
    bo_rng rng = bo_rng_make(seed, bo_rng_stream("test.direct", (uint64_t)array));
    d->count[array] = count;
    d->given[array] = malloc(count * sizeof(float));
    d->gradient[array] = calloc(count, sizeof(float));
    d->x[array] = malloc(count * sizeof(double));
    for (size_t i = 0; i < count; i++)
        d->x[array][i] = (double)(d->given[array][i] = (float)(scale * bo_rng_normal(&rng)));
}

/* Sets the default of an array that is not passed to the library but used in the formula. */
static inline void direct_assume(direct *d, int array, size_t count, const double *x)
{
    d->x[array] = malloc(count * sizeof(double));
    memcpy(d->x[array], x, count * sizeof(double));
}

/* Sets given decays. */
static inline void direct_decays(direct *d, const double *log_decay)
{
    direct_fill(d, DECAY, d->desc.key_heads, 0, 1);
    for (size_t g = 0; g < d->desc.key_heads; g++) d->x[DECAY][g] = (double)(d->given[DECAY][g] = (float)log_decay[g]);
}

static inline direct direct_make(int threads, bo_attention_desc desc, bo_attention_shape shape, direct_kernel kernel)
{
    direct d = {.shape = shape, .kernel = kernel, .context = test_context(threads)};
    assert_ok(d.context, bo_attention_create(d.context, &desc, &d.attention));
    d.desc = *bo_attention_describe(d.attention);
    size_t rows = shape.sequences * shape.tokens, bytes;
    direct_fill(&d, Q, rows * d.desc.heads * d.desc.dim, 0.7, 1);
    direct_fill(&d, K, rows * d.desc.key_heads * d.desc.dim, 0.7, 1);
    direct_fill(&d, V, rows * d.desc.key_heads * d.desc.value_dim, 1, 1);
    d.outputs = rows * d.desc.heads * d.desc.value_dim;
    d.out = malloc(d.outputs * sizeof(float));
    d.dout = malloc(d.outputs * sizeof(float));
    bo_rng rng = bo_rng_make(2, bo_rng_stream("test.direct", ARRAYS));
    for (size_t i = 0; i < d.outputs; i++) d.dout[i] = (float)bo_rng_normal(&rng);
    assert_ok(d.context, bo_attention_tape_bytes(d.context, d.attention, &d.shape, &bytes));
    d.tape = malloc(bytes);
    return d;
}

static inline void direct_free(direct *d)
{
    for (int a = 0; a < ARRAYS; a++) free(d->given[a]), free(d->gradient[a]), free(d->x[a]);
    free(d->out), free(d->dout), free(d->tape);
    bo_attention_destroy(d->attention);
    bo_context_destroy(d->context);
}

/* The inputs from token t on, for a single sequence (layout TOKENS_FIRST). */
static inline bo_attention_inputs direct_inputs(const direct *d, size_t t)
{
    const bo_attention_desc *desc = &d->desc;
    return (bo_attention_inputs){.q = d->given[Q] + t * desc->heads * desc->dim,
                                 .k = d->given[K] + t * desc->key_heads * desc->dim,
                                 .v = d->given[V] + t * desc->key_heads * desc->value_dim,
                                 .log_decay = d->given[DECAY],
                                 .m = d->given[M],
                                 .m_k = d->given[M_K],
                                 .bias = d->given[BIAS],
                                 .bias_k = d->given[BIAS_K]};
}

static inline void direct_run(direct *d)
{
    bo_attention_inputs in = direct_inputs(d, 0);
    bo_attention_gradients g = {.q = d->gradient[Q],
                                .k = d->gradient[K],
                                .v = d->gradient[V],
                                .log_decay = d->gradient[DECAY],
                                .m = d->gradient[M],
                                .m_k = d->gradient[M_K],
                                .bias = d->gradient[BIAS],
                                .bias_k = d->gradient[BIAS_K]};
    assert_ok(d->context,
              bo_attention_forward_arrays(d->context, d->attention, &d->shape, &in, NULL, NULL, d->out, d->tape));
    assert_ok(d->context, bo_attention_backward_arrays(d->context, d->attention, &d->shape, &in, NULL, d->out, d->tape,
                                                       d->dout, NULL, &g));
}

/* ---- comparisons ------------------------------------------------------------------------------------------------- */

/* The rounding error of a sum of `terms` float products is at most terms 2^-24 times the sum of their magnitudes, which
 * is in `size`; exponentials and gates add 4 rounding errors. */
static inline void direct_check_outputs(const direct *d, const float *out, size_t terms)
{
    double *expected = malloc(d->outputs * sizeof(double)), *size = malloc(d->outputs * sizeof(double));
    direct_forward(d, expected, size);
    for (size_t i = 0; i < d->outputs; i++)
        assert_close((double)out[i], expected[i], (double)(terms + 4) * 0x1p-24 * size[i]);
    free(expected), free(size);
}

static inline double direct_loss(const direct *d, double *out, double *size)
{
    double loss = 0;
    direct_forward(d, out, size);
    for (size_t i = 0; i < d->outputs; i++) loss += out[i] * (double)d->dout[i];
    return loss;
}

/* Bound of the terms that cancel in a gradient: at most Σ |dout| size flows through numerators and denominators. The
 * gradient of a decay is a sum over tokens from which the contributions of later tokens are subtracted. */
static inline double direct_flow(const direct *d, int array, const double *size)
{
    double flow = 0;
    for (size_t i = 0; i < d->outputs; i++) flow += size[i] * fabs((double)d->dout[i]);
    return 0x1p-24 * flow * (array == DECAY ? (double)d->shape.tokens : 1);
}

/* Compares along three random directions per array. Central differences with a step of 1e-5 have an error of about
 * 1e-9. Elements of a gradient are float sums of hundreds of terms, each with a relative error of about 1e-5, and the
 * terms are `cancel` times larger than the sums. */
static inline void direct_check_gradients(direct *d, double cancel)
{
    const double step = 1e-5;
    double *out = malloc(d->outputs * sizeof(double)), *size = malloc(d->outputs * sizeof(double));
    for (int a = 0; a < ARRAYS; a++)
        for (uint64_t trial = 0; d->given[a] && trial < 3; trial++) {
            double *x = d->x[a], *way = malloc(d->count[a] * sizeof(double)), loss[2], found = 0, magnitude = 0;
            bo_rng rng = bo_rng_make(3 + trial, bo_rng_stream("test.direct.way", (uint64_t)a));
            for (size_t i = 0; i < d->count[a]; i++) {
                way[i] = bo_rng_normal(&rng);
                found += way[i] * (double)d->gradient[a][i];
                magnitude += fabs(way[i] * (double)d->gradient[a][i]);
            }
            for (int side = 0; side < 2; side++) {
                for (size_t i = 0; i < d->count[a]; i++) x[i] = (double)d->given[a][i] + (side ? step : -step) * way[i];
                loss[side] = direct_loss(d, out, size);
            }
            for (size_t i = 0; i < d->count[a]; i++) x[i] = (double)d->given[a][i];
            double expected = (loss[1] - loss[0]) / (2 * step),
                   allowed = 1e-5 * cancel * magnitude + direct_flow(d, a, size);
            if (!(fabs(found - expected) <= allowed))
                fail_msg("array %d: slope %.9g, expected %.9g within %.3g", a, found, expected, allowed);
            free(way);
        }
    free(out), free(size);
}

/* One sequence in layout TOKENS_FIRST: some tokens in one block, some in single steps, and the others in another
 * block. */
static inline void direct_check_pieces(const direct *d, size_t terms)
{
    const bo_attention_desc *desc = &d->desc;
    size_t tokens = d->shape.tokens, row = desc->heads * desc->value_dim, cut = tokens / 3, steps = tokens / 4;
    void *state = aligned_alloc(64, (bo_attention_state_bytes(d->attention) + 63) / 64 * 64);
    float *out = calloc(d->outputs, sizeof(float));
    assert_ok(d->context, bo_attention_state_init(d->context, d->attention, state));
    bo_attention_shape piece = {.sequences = 1, .tokens = cut, .layout = BO_LAYOUT_TOKENS_FIRST};
    bo_attention_inputs in = direct_inputs(d, 0);
    assert_ok(d->context, bo_attention_extend(d->context, d->attention, &piece, &in, &state, out));
    for (size_t t = cut; t < cut + steps; t++) {
        in = direct_inputs(d, t);
        assert_ok(d->context, bo_attention_step(d->context, d->attention, 1, &in, &state, out + t * row));
    }
    piece.tokens = tokens - cut - steps;
    in = direct_inputs(d, cut + steps);
    assert_ok(d->context,
              bo_attention_extend(d->context, d->attention, &piece, &in, &state, out + (cut + steps) * row));
    direct_check_outputs(d, out, terms);
    free(state), free(out);
}

/* Later tokens of a single sequence change (layout TOKENS_FIRST): earlier outputs are bit-identical. */
static inline void direct_check_causal(const direct *d)
{
    const bo_attention_desc *desc = &d->desc;
    size_t row = desc->heads * desc->value_dim, width = desc->key_heads * desc->dim;
    float *out = malloc(d->outputs * sizeof(float));
    for (size_t t = 1; t < d->shape.tokens; t += 5) {
        bo_attention_inputs in = direct_inputs(d, 0);
        for (size_t i = t * width; i < d->count[K]; i++) d->given[K][i] += 3;
        for (size_t i = t * desc->key_heads * desc->value_dim; i < d->count[V]; i++) d->given[V][i] *= -1e3f;
        assert_ok(d->context,
                  bo_attention_forward_arrays(d->context, d->attention, &d->shape, &in, NULL, NULL, out, NULL));
        assert_memory_equal(out, d->out, t * row * sizeof *out);
        for (size_t i = 0; i < d->count[K]; i++) d->given[K][i] = (float)d->x[K][i];
        for (size_t i = 0; i < d->count[V]; i++) d->given[V][i] = (float)d->x[V][i];
    }
    free(out);
}

#endif
