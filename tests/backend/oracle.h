/* Reference for every operation of a backend except attention: its definition in backend.h, as loops in double. No code
 * is shared with the library. There are no gradients: finite differences of these functions are the reference for
 * gradients (truth.h). */
#ifndef BO_TEST_BACKEND_ORACLE_H
#define BO_TEST_BACKEND_ORACLE_H

#include "testing.h"
#include "backend/backend.h"

/* rows x columns elements: `x`, or for int32 `index`. */
typedef struct plain_tensor {
    bo_element element;
    size_t rows, columns;
    double *x;
    int32_t *index;
} plain_tensor;

/* One operation with its operands. `mask` belongs to dropout, whose random choice is arbitrary: 0 or 1 for each element
 * (NULL: all 1). The other fields belong to attention and its perturbation (tests/attention/oracle_features.h); 0:
 * none. */
typedef struct plain_op {
    bo_operation kind;
    const void *attributes;
    size_t inputs, outputs;
    plain_tensor in[BO_OP_INPUTS], out[BO_OP_OUTPUTS];
    const double *mask;
    bo_context *context;
    const bo_graph_pass *pass;
    double noise;
    uint64_t seed;
    bool smooth; /* for differences: rounding is the identity */
    const double
        *still[BO_OP_INPUTS]; /* for finite differences: the original values of a shifted input; NULL: not shifted */
} plain_op;

/* Lengths of the sequences of the stream or of the source; NULL: the pass has no lengths. */
static inline const size_t *plain_lengths(const plain_op *op, bool source)
{
    if (!op->pass) return NULL;
    return source ? op->pass->source_lengths : op->pass->lengths;
}

static inline double *plain_zeros(size_t count)
{
    double *array = calloc(count ? count : 1, sizeof *array);
    assert_non_null(array);
    return array;
}

static inline size_t plain_count(const plain_tensor *tensor)
{
    return tensor->rows * tensor->columns;
}

static inline double plain_at(const plain_tensor *tensor, size_t row, size_t column)
{
    return tensor->x[row * tensor->columns + column];
}

/* ---- scalar functions ------------------------------------------------------------------------------------- */

/* log(1 + exp(x)) without overflow. */
static inline double plain_softplus(double x)
{
    return fmax(x, 0) + log1p(exp(-fabs(x)));
}

static inline double plain_function(bo_unary function, double x)
{
    const double pi = 3.14159265358979323846;
    switch (function) {
    case BO_UNARY_GELU: /* Φ(x) = erfc(-x/√2) / 2 */
        return x * erfc(-x / sqrt(2)) / 2;
    case BO_UNARY_GELU_TANH:
        return x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x * x * x)));
    case BO_UNARY_RELU2:
        return x > 0 ? x * x : 0;
    case BO_UNARY_SILU:
        return x / (1 + exp(-x));
    case BO_UNARY_RELU:
        return x > 0 ? x : 0;
    case BO_UNARY_TANH:
        return tanh(x);
    case BO_UNARY_SIGMOID:
        return 1 / (1 + exp(-x));
    case BO_UNARY_LOG_SIGMOID:
        return -plain_softplus(-x);
    case BO_UNARY_SOFTPLUS:
        return plain_softplus(x);
    case BO_UNARY_EXP:
        return exp(x);
    case BO_UNARY_IDENTITY:
        return x;
    }
    fail_msg("function %d is not known to the oracle", (int)function);
    return NAN;
}

static inline void plain_unary(plain_op *op)
{
    const bo_unary_attributes *a = op->attributes;
    double factor = a->factor != 0 ? a->factor : 1;
    for (size_t i = 0; i < plain_count(&op->in[0]); i++)
        op->out[0].x[i] = factor * plain_function(a->function, op->in[0].x[i]) + a->offset;
}

static inline void plain_glu(plain_op *op)
{
    const bo_unary_attributes *a = op->attributes;
    double factor = a->factor != 0 ? a->factor : 1;
    for (size_t i = 0; i < plain_count(&op->in[0]); i++)
        op->out[0].x[i] = factor * plain_function(a->function, op->in[0].x[i]) * op->in[1].x[i];
}

static inline void plain_add(plain_op *op)
{
    for (size_t i = 0; i < plain_count(&op->in[0]); i++) op->out[0].x[i] = op->in[0].x[i] + op->in[1].x[i];
}

static inline void plain_dropout(plain_op *op)
{
    const bo_dropout_attributes *a = op->attributes;
    for (size_t i = 0; i < plain_count(&op->in[0]); i++)
        op->out[0].x[i] = op->mask ? op->in[0].x[i] * op->mask[i] / (1 - a->rate) : op->in[0].x[i];
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

static inline void plain_embed(plain_op *op)
{
    const plain_tensor *table = &op->in[1];
    for (size_t r = 0; r < op->in[0].rows; r++)
        for (size_t c = 0; c < table->columns; c++)
            op->out[0].x[r * table->columns + c] = plain_at(table, (size_t)op->in[0].index[r], c);
}

/* base^(-2i / width), and the position times that modulo full turns: at positions up to 2³¹ a double would keep only
 * the first digits. */
static inline long double plain_frequency(size_t i, size_t width, double base)
{
    return powl((long double)base, -2 * (long double)i / (long double)width);
}

static inline double plain_angle(int32_t position, long double frequency)
{
    const long double pi = 3.14159265358979323846264338327950288L;
    return (double)remainderl((long double)position * frequency, 2 * pi);
}

/* sin of even columns, cos of odd ones, of p / 10000^(2i / w) for columns 2i and 2i + 1. */
static inline void plain_sinusoids(plain_op *op)
{
    size_t width = op->in[0].columns;
    for (size_t c = 0; c < width; c++) {
        long double frequency = plain_frequency(c / 2, width, 10000);
        for (size_t r = 0; r < op->in[0].rows; r++) {
            double angle = plain_angle(op->in[1].index[r], frequency);
            op->out[0].x[r * width + c] = plain_at(&op->in[0], r, c) + (c % 2 ? cos(angle) : sin(angle));
        }
    }
}

static inline void plain_position(plain_op *op)
{
    size_t width = op->in[0].columns;
    if (((const bo_position_attributes *)op->attributes)->kind == BO_POSITION_KIND_SINUSOIDAL) {
        plain_sinusoids(op);
        return;
    }
    for (size_t r = 0; r < op->in[0].rows; r++)
        for (size_t c = 0; c < width; c++)
            op->out[0].x[r * width + c] =
                plain_at(&op->in[0], r, c) + plain_at(&op->in[2], (size_t)op->in[1].index[r], c);
}

/* y_i = s x W_iᵀ + b_i + keep r */
static inline void plain_linear(plain_op *op)
{
    const bo_linear_attributes *a = op->attributes;
    const plain_tensor *x = &op->in[0];
    double s = a->scale != 0 ? a->scale : 1, keep = a->keep != 0 ? a->keep : 1;
    for (size_t i = 0; i < a->weights; i++) {
        const plain_tensor *w = &op->in[1 + i], *b = a->bias ? &op->in[1 + a->weights + i] : NULL;
        const plain_tensor *residual = a->residual ? &op->in[op->inputs - 1] : NULL;
        for (size_t r = 0; r < x->rows; r++)
            for (size_t o = 0; o < w->rows; o++) {
                double sum = (b ? b->x[o] : 0) + (residual ? keep * plain_at(residual, r, o) : 0);
                for (size_t c = 0; c < x->columns; c++) sum += s * plain_at(x, r, c) * plain_at(w, o, c);
                op->out[i].x[r * w->rows + o] = sum;
            }
    }
}

static inline void plain_norm_group(const bo_norm_attributes *a, const double *x, const double *gain,
                                    const double *bias, double *y)
{
    double mean = 0, square = 0;
    for (size_t c = 0; a->kind == BO_NORM_LAYER && c < a->width; c++) mean += x[c] / (double)a->width;
    for (size_t c = 0; c < a->width; c++) square += (x[c] - mean) * (x[c] - mean) / (double)a->width;
    for (size_t c = 0; c < a->width; c++)
        y[c] = (x[c] - mean) / sqrt(square + a->epsilon) * (gain ? gain[c] : 1) + (bias ? bias[c] : 0);
}

static inline void plain_norm(plain_op *op)
{
    const bo_norm_attributes *a = op->attributes;
    const double *gain = a->gain ? op->in[1].x : NULL, *bias = a->bias ? op->in[op->inputs - 1].x : NULL;
    for (size_t at = 0; at < plain_count(&op->in[0]); at += a->width)
        plain_norm_group(a, op->in[0].x + at, gain, bias, op->out[0].x + at);
}

/* Rotates pair i of the head at x by an angle. */
static inline void plain_rope_pair(const bo_rope_attributes *a, size_t i, double angle, const double *x, double *y)
{
    size_t rotated = a->rotated ? a->rotated : a->dim;
    size_t first = a->layout == BO_ROPE_LAYOUT_HALVES ? i : 2 * i;
    size_t second = a->layout == BO_ROPE_LAYOUT_HALVES ? i + rotated / 2 : 2 * i + 1;
    y[first] = x[first] * cos(angle) - x[second] * sin(angle);
    y[second] = x[first] * sin(angle) + x[second] * cos(angle);
}

/* The formula of transformers, with the wavelength in tokens. */
static inline long double plain_scaled(long double frequency, const bo_rope_scaling *s)
{
    const long double wavelength = 2 * acosl(-1) / frequency, factor = (long double)s->factor,
                      original = (long double)s->original, low = (long double)s->low, high = (long double)s->high;
    if (s->kind == BO_ROPE_SCALING_KIND_LINEAR) return frequency / factor;
    if (s->kind != BO_ROPE_SCALING_KIND_LLAMA3 || wavelength < original / high) return frequency;
    if (wavelength > original / low) return frequency / factor;
    const long double smooth = (original / wavelength - low) / (high - low);
    return (1 - smooth) * frequency / factor + smooth * frequency;
}

static inline void plain_rope(plain_op *op)
{
    const bo_rope_attributes *a = op->attributes;
    size_t count = plain_count(&op->in[0]), width = op->in[0].columns, rotated = a->rotated ? a->rotated : a->dim;
    for (size_t i = 0; i < count; i++) op->out[0].x[i] = op->in[0].x[i];
    for (size_t i = 0; i < rotated / 2; i++) {
        long double frequency = plain_scaled(plain_frequency(i, rotated, a->base != 0 ? a->base : 10000), &a->scaling);
        for (size_t at = 0; at < count; at += a->dim) {
            double angle = plain_angle(op->in[1].index[at / width], frequency);
            plain_rope_pair(a, i, angle, op->in[0].x + at, op->out[0].x + at);
        }
    }
}

/* ---- losses ------------------------------------------------------------------------------------------------------ */

/* log Σ exp(x_i) */
static inline double plain_log_sum(size_t count, const double *x)
{
    double top = -INFINITY, sum = 0;
    for (size_t i = 0; i < count; i++) top = fmax(top, x[i]);
    for (size_t i = 0; i < count; i++) sum += exp(x[i] - top);
    return top + log(sum);
}

/* KL(softmax(t) | softmax(p)) of one row. */
static inline double plain_divergence(size_t count, const double *p, const double *t)
{
    double sum = 0, log_p = plain_log_sum(count, p), log_t = plain_log_sum(count, t);
    for (size_t i = 0; i < count; i++) sum += exp(t[i] - log_t) * ((t[i] - log_t) - (p[i] - log_p));
    return sum;
}

/* The logits of a row x. still: logits of a constant, which do not move with W and b. */
static inline void plain_logits(const plain_op *op, const double *x, bool still, double *logits)
{
    const bo_cross_entropy_attributes *a = op->attributes;
    const size_t width = op->in[1].columns;
    const double scale = a->scale != 0 ? a->scale : 1, *w = op->in[1].x, *b = a->bias ? op->in[3].x : NULL;
    if (still && op->still[1]) w = op->still[1];
    if (still && b && op->still[3]) b = op->still[3];
    for (size_t v = 0; v < op->in[1].rows; v++) {
        logits[v] = b ? b[v] : 0;
        for (size_t c = 0; c < width; c++) logits[v] += scale * x[c] * w[v * width + c];
    }
}

static inline void plain_cross_entropy(plain_op *op)
{
    const bo_cross_entropy_attributes *a = op->attributes;
    const plain_tensor *x = &op->in[0], *w = &op->in[1], *teacher = &op->in[op->inputs - 1];
    double sum = 0, *logits = plain_zeros(w->rows), *taught = plain_zeros(w->rows);
    size_t counted = 0;
    for (size_t r = 0; r < x->rows; r++) {
        int32_t target = op->in[2].index[r];
        op->out[1].x[r] = 0;
        if (target < 0) continue;
        plain_logits(op, x->x + r * x->columns, false, logits);
        double expected = (1 - a->smoothing) * logits[target];
        for (size_t v = 0; v < w->rows; v++) expected += a->smoothing / (double)w->rows * logits[v];
        double loss = (1 - a->teacher) * (plain_log_sum(w->rows, logits) - expected);
        if (a->teacher > 0) {
            plain_logits(op, teacher->x + r * x->columns, true, taught);
            loss += a->teacher * plain_divergence(w->rows, logits, taught);
        }
        sum += op->out[1].x[r] = loss;
        counted++;
    }
    op->out[0].x[0] = counted ? sum / (double)counted : 0;
    free(logits);
    free(taught);
}

static inline double plain_loss_of(bo_loss_kind kind, double p, double t)
{
    switch (kind) {
    case BO_LOSS_KIND_MSE:
    case BO_LOSS_KIND_RELATIVE:
        return (p - t) * (p - t);
    case BO_LOSS_KIND_L1:
        return fabs(p - t);
    case BO_LOSS_KIND_BCE:
        return t * plain_softplus(-p) + (1 - t) * plain_softplus(p);
    case BO_LOSS_KIND_KL:
        break;
    }
    fail_msg("loss %d is not known to the oracle", (int)kind);
    return NAN;
}

static inline void plain_loss(plain_op *op)
{
    const bo_loss_attributes *a = op->attributes;
    const plain_tensor *p = &op->in[0], *t = &op->in[1];
    bool rows = a->kind == BO_LOSS_KIND_KL;
    size_t terms = rows ? p->rows : plain_count(p);
    double sum = 0;
    for (size_t i = 0; i < terms; i++)
        sum += rows ? plain_divergence(p->columns, p->x + i * p->columns, t->x + i * p->columns)
                    : plain_loss_of(a->kind, p->x[i], t->x[i]);
    double divisor = (double)terms;
    if (a->kind == BO_LOSS_KIND_RELATIVE) {
        divisor = 0;
        for (size_t i = 0; i < terms; i++) divisor += t->x[i] * t->x[i];
    }
    op->out[0].x[0] = divisor == 0 ? 0 : sum / divisor;
}

/* ---- shapes ------------------------------------------------------------------------------------------------------ */

/* Number and shapes of the outputs; the default is one output with the shape of the first input. */
static inline void plain_shape_embed(plain_op *op)
{
    op->out[0].columns = op->in[1].columns;
}

static inline void plain_shape_loss(plain_op *op)
{
    op->out[0].rows = op->out[0].columns = 1;
}

static inline void plain_shape_cross_entropy(plain_op *op)
{
    plain_shape_loss(op);
    op->outputs = 2;
    op->out[1].rows = op->in[0].rows, op->out[1].columns = 1;
}

static inline void plain_shape_linear(plain_op *op)
{
    op->outputs = ((const bo_linear_attributes *)op->attributes)->weights;
    for (size_t i = 0; i < op->outputs; i++) op->out[i].rows = op->in[0].rows, op->out[i].columns = op->in[1 + i].rows;
}

#include "oracle_grid.h"
#include "oracle_degree.h"

#include "oracle_graph.h"

#include "oracle_round.h"

#include "oracle_ssm.h"

#include "oracle_mixers.h"

/* ---- all operations ---------------------------------------------------------------------------------------------- */

typedef void (*plain_forward_fn)(plain_op *op);

typedef struct plain_known {
    plain_forward_fn forward, shape; /* shape NULL: the shape of the first input */
} plain_known;

/* One line per operation; attention has a separate reference. */
static inline const plain_known *plain_known_of(bo_operation kind)
{
    static const plain_known all[BO_OPERATION_COUNT] = {
        [BO_OPERATION_EMBED] = {plain_embed, plain_shape_embed},
        [BO_OPERATION_POSITION] = {plain_position, NULL},
        [BO_OPERATION_LINEAR] = {plain_linear, plain_shape_linear},
        [BO_OPERATION_NORM] = {plain_norm, NULL},
        [BO_OPERATION_DROPOUT] = {plain_dropout, NULL},
        [BO_OPERATION_ROPE] = {plain_rope, NULL},
        [BO_OPERATION_UNARY] = {plain_unary, NULL},
        [BO_OPERATION_GLU] = {plain_glu, NULL},
        [BO_OPERATION_ADD] = {plain_add, NULL},
        [BO_OPERATION_CROSS_ENTROPY] = {plain_cross_entropy, plain_shape_cross_entropy},
        [BO_OPERATION_LOSS] = {plain_loss, plain_shape_loss},
        [BO_OPERATION_RECURRENT] = {plain_recurrent, plain_shape_recurrent},
        [BO_OPERATION_MIX] = {plain_mix, NULL},
        [BO_OPERATION_SSM] = {plain_ssm, NULL},
        [BO_OPERATION_ROUND] = {plain_round, NULL},
        [BO_OPERATION_RESHAPE] = {plain_reshape, plain_shape_reshape},
        [BO_OPERATION_CONCAT] = {plain_concat, plain_shape_concat},
        [BO_OPERATION_AGGREGATE] = {plain_aggregate, plain_shape_aggregate},
        [BO_OPERATION_NOISE] = {plain_noise, NULL},
        [BO_OPERATION_SCALE] = {plain_scale, NULL},
        [BO_OPERATION_PRODUCT] = {plain_product, NULL},
        [BO_OPERATION_FEATURES] = {plain_features, plain_shape_features},
        [BO_OPERATION_QUADRATIC] = {plain_quadratic, plain_shape_quadratic},
        [BO_OPERATION_CONVOLUTION] = {plain_convolution, plain_shape_convolution},
        [BO_OPERATION_POOL] = {plain_pool, plain_shape_pool},
        [BO_OPERATION_BATCH_NORM] = {plain_batch_norm, NULL},
    };
    return &all[kind];
}

/* NULL: the operation is not in this reference. */
static inline plain_forward_fn plain_forward_of(bo_operation kind)
{
    return plain_known_of(kind)->forward;
}

static inline void plain_shape(plain_op *op)
{
    plain_forward_fn shape = plain_known_of(op->kind)->shape;
    op->outputs = 1;
    op->out[0].rows = op->in[0].rows, op->out[0].columns = op->in[0].columns;
    if (shape) shape(op);
}

#endif
