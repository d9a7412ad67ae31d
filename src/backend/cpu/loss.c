/* Means over elements, or rows, of what a prediction p loses against a target t. Sums are in double: of a block into
 * scratch, then over the blocks in order. Backward: both gradients, times that of the loss. */
#include "cpu.h"
#include <math.h>
#include "blocks.h"
#include "../shapes.h"

/* ---- losses of single elements ---------------------------------------------------------------------------------- */

static double element_loss(bo_loss_kind kind, double p, double t)
{
    switch (kind) {
    case BO_LOSS_KIND_MSE:
        return (p - t) * (p - t);
    case BO_LOSS_KIND_L1:
        return fabs(p - t);
    default:
        return fmax(p, 0) - p * t + log1p(exp(-fabs(p))); /* BCE: log(1 + exp(p)) - p t, without overflow */
    }
}

static double sigmoid(double x)
{
    return x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x));
}

static double sign(double x)
{
    return x > 0 ? 1 : x < 0 ? -1 : 0;
}

/* dL/dp and dL/dt. */
static void element_slopes(bo_loss_kind kind, double p, double t, double slopes[2])
{
    switch (kind) {
    case BO_LOSS_KIND_MSE:
        slopes[0] = 2 * (p - t);
        break;
    case BO_LOSS_KIND_L1:
        slopes[0] = sign(p - t);
        break;
    default:
        slopes[0] = sigmoid(p) - t;
        break;
    }
    slopes[1] = kind == BO_LOSS_KIND_BCE ? -p : -slopes[0];
}

/* ---- divergence of rows ----------------------------------------------------------------------------------------- */

/* log Σ exp(x). */
static double log_total(size_t n, const float *x, const bo_kernels *kernels)
{
    double top = (double)kernels->max(n, x), sum = 0;
    for (size_t i = 0; i < n; i++) sum += exp((double)x[i] - top);
    return top + log(sum);
}

/* A row's KL(softmax(t) | softmax(p)) = Σ q (log q - log s), q = softmax(t), s = softmax(p). */
typedef struct divergence {
    double p_total, t_total; /* log Σ exp */
    double value;
} divergence;

static divergence divergence_of(size_t n, const float *p, const float *t, const bo_kernels *kernels)
{
    divergence d = {log_total(n, p, kernels), log_total(n, t, kernels), 0};
    for (size_t i = 0; i < n; i++) {
        double log_q = (double)t[i] - d.t_total, log_s = (double)p[i] - d.p_total;
        d.value += exp(log_q) * (log_q - log_s);
    }
    return d;
}

/* dp = s - q, dt = q (log q - log s - KL). */
static void divergence_slopes(const divergence *d, double p, double t, double slopes[2])
{
    double log_q = t - d->t_total, log_s = p - d->p_total;
    slopes[0] = exp(log_s) - exp(log_q);
    slopes[1] = exp(log_q) * (log_q - log_s - d->value);
}

/* ---- the operation ---------------------------------------------------------------------------------------------- */

typedef struct loss {
    bo_loss_kind kind;
    size_t items, each, columns; /* items: what the mean is over, `columns` numbers each */
    const float *p, *t;
} loss;

static loss loss_of(const bo_op_call *call)
{
    bo_loss_kind kind = ((const bo_loss_attributes *)call->attributes)->kind;
    const bo_operand *p = &call->in[0];
    loss l = {.kind = kind, .p = p->data, .t = call->in[1].data};
    l.columns = kind == BO_LOSS_KIND_KL ? p->columns : 1;
    l.items = kind == BO_LOSS_KIND_KL ? p->rows : bo_operand_floats(p);
    l.each = bo_block_rows(l.columns);
    return l;
}

static void forward_block(const bo_block *block)
{
    loss l = loss_of(block->call);
    double sum = 0;
    for (size_t i = block->first; i < block->end; i++)
        sum += l.kind == BO_LOSS_KIND_KL
                   ? divergence_of(l.columns, l.p + i * l.columns, l.t + i * l.columns, block->kernels).value
                   : element_loss(l.kind, (double)l.p[i], (double)l.t[i]);
    ((double *)block->call->scratch)[block->index] = sum;
}

static void put_slopes(const bo_op_call *call, size_t at, const double slopes[2], double scale)
{
    for (size_t side = 0; side < 2; side++)
        if (call->din[side]) bo_put((float *)call->din[side] + at, call->add[side], (float)(slopes[side] * scale));
}

static void backward_block(const bo_block *block)
{
    const bo_op_call *call = block->call;
    loss l = loss_of(call);
    double scale = (double)*(const float *)call->dout[0] / (double)l.items, slopes[2];
    for (size_t i = block->first; i < block->end; i++) {
        divergence d = {0};
        if (l.kind == BO_LOSS_KIND_KL)
            d = divergence_of(l.columns, l.p + i * l.columns, l.t + i * l.columns, block->kernels);
        for (size_t at = i * l.columns; at < (i + 1) * l.columns; at++) {
            if (l.kind == BO_LOSS_KIND_KL)
                divergence_slopes(&d, (double)l.p[at], (double)l.t[at], slopes);
            else
                element_slopes(l.kind, (double)l.p[at], (double)l.t[at], slopes);
            put_slopes(call, at, slopes, scale);
        }
    }
}

static bo_status forward(bo_context *context, const bo_op_call *call)
{
    loss l = loss_of(call);
    bo_blocks(context, call, l.items, l.each, forward_block);
    double sum = 0;
    for (size_t b = 0; b < bo_block_count(l.items, l.each); b++) sum += ((const double *)call->scratch)[b];
    *(float *)call->out[0].data = (float)(sum / (double)l.items);
    return BO_OK;
}

static bo_status backward(bo_context *context, const bo_op_call *call)
{
    loss l = loss_of(call);
    if (!bo_backward_is_zero(call)) bo_blocks(context, call, l.items, l.each, backward_block);
    return BO_OK;
}

static bo_status sizes(bo_context *context, const bo_op_call *call, bool gradients, size_t *saved, size_t *scratch)
{
    (void)context, (void)gradients;
    loss l = loss_of(call);
    *saved = 0;
    *scratch = bo_block_count(l.items, l.each) * sizeof(double);
    return BO_OK;
}

const bo_op bo_cpu_loss = {
    .name = "loss",
    .attributes = sizeof(bo_loss_attributes),
    .reads_inputs = 1 << 0 | 1 << 1,
    .shape = bo_shape_loss,
    .sizes = sizes,
    .forward = forward,
    .backward = backward,
};
