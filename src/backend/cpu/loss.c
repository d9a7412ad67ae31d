/* Mean losses over elements or rows of a prediction p against a target t, and the relative squared error of p. Sums are
 * in double: first per block in the workspace, then over the blocks in order. Backward multiplies both gradients by the
 * gradient of the loss. */
#include "cpu.h"
#include <math.h>
#include "activate.h"
#include "../shapes.h"

typedef struct loss {
    bo_loss_kind kind;
    size_t items, each, columns; /* number of items; each has `columns` elements */
    const float *p, *t;
} loss;

static loss loss_of(const bo_op_call *call)
{
    bo_loss_kind kind = ((const bo_loss_attributes *)call->attributes)->kind;
    const bo_tensor *p = &call->in[0];
    loss l = {.kind = kind, .p = p->data, .t = call->in[1].data};
    l.columns = kind == BO_LOSS_KIND_KL ? p->columns : 1;
    l.items = kind == BO_LOSS_KIND_KL ? p->rows : bo_operand_floats(p);
    l.each = bo_block_rows(l.columns);
    return l;
}

/* ---- losses per element ------------------------------------------------------------------------------------------ */

/* Computes the losses of up to BO_STRIP elements in memory of that size. BCE is log(1 + exp(p)) - p t = max(p, 0) - p t
 * + log(1 + exp(-|p|)). */
static double strip_loss(bo_loss_kind kind, const bo_kernels *kernels, size_t count, const float *p, const float *t,
                         float *rest)
{
    double sum = 0;
    switch (kind) {
    case BO_LOSS_KIND_MSE:
    case BO_LOSS_KIND_RELATIVE:
        for (size_t i = 0; i < count; i++) rest[i] = p[i] - t[i];
        return kernels->dot(count, rest, rest);
    case BO_LOSS_KIND_L1:
        for (size_t i = 0; i < count; i++) rest[i] = fabsf(p[i] - t[i]);
        return kernels->sum(count, rest);
    default:
        for (size_t i = 0; i < count; i++) rest[i] = -fabsf(p[i]);
        kernels->curve(BO_CURVE_SOFTPLUS, count, rest, rest);
        for (size_t i = 0; i < count; i++)
            sum += (double)rest[i] + (0.5 * ((double)p[i] + fabs((double)p[i])) - (double)p[i] * (double)t[i]);
        return sum;
    }
}

static void elements_forward(const bo_cpu_block *block)
{
    loss l = loss_of(block->call);
    double sum = 0;
    float rest[BO_STRIP];
    for (size_t i = block->first; i < block->end; i += BO_STRIP) {
        size_t count = block->end - i < BO_STRIP ? block->end - i : BO_STRIP;
        sum += strip_loss(l.kind, block->kernels, count, l.p + i, l.t + i, rest);
    }
    ((double *)block->call->scratch)[block->index] = sum;
    if (l.kind != BO_LOSS_KIND_RELATIVE) return;
    const size_t blocks = bo_block_count(l.items, l.each), count = block->end - block->first;
    ((double *)block->call->scratch)[blocks + block->index] =
        block->kernels->dot(count, l.t + block->first, l.t + block->first);
}

/* Computes dL/dp, except for a factor. */
static void strip_gradients(bo_loss_kind kind, const bo_kernels *kernels, size_t count, const float *p, const float *t,
                            float *out)
{
    switch (kind) {
    case BO_LOSS_KIND_MSE:
    case BO_LOSS_KIND_RELATIVE:
        for (size_t i = 0; i < count; i++) out[i] = 2 * (p[i] - t[i]);
        break;
    case BO_LOSS_KIND_L1:
        for (size_t i = 0; i < count; i++) out[i] = (float)((p[i] > t[i]) - (p[i] < t[i]));
        break;
    default:
        kernels->curve(BO_CURVE_SIGMOID, count, p, out);
        for (size_t i = 0; i < count; i++) out[i] -= t[i];
        break;
    }
}

/* dL/dt of RELATIVE, for sums e = Σ (p - t)² and s = Σ t²: 2 (t - p) / s - 2 t e / s². In double, because both terms
 * nearly cancel for a small p. */
static void relative_target(const loss *l, size_t first, size_t count, const double *totals, double factor, bool add,
                            float *dt)
{
    const double share = totals[0] / totals[1], scale = 2 * factor / totals[1];
    for (size_t i = first; i < first + count; i++)
        bo_store(&dt[i], add, (float)(scale * ((double)l->t[i] - (double)l->p[i] - (double)l->t[i] * share)));
}

static void elements_backward(const bo_cpu_block *block)
{
    const bo_op_call *call = block->call;
    loss l = loss_of(call);
    float *dp = call->din[0], *dt = call->din[1], strip[BO_STRIP];
    const double *totals = l.kind == BO_LOSS_KIND_RELATIVE ? call->saved : NULL;
    const double divisor = totals ? totals[1] : (double)l.items;
    if (divisor == 0) { /* a target of zeros */
        for (size_t i = block->first; i < block->end; i++) {
            if (dp) bo_store(&dp[i], call->add[0], 0);
            if (dt) bo_store(&dt[i], call->add[1], 0);
        }
        return;
    }
    float scale = (float)((double)*(const float *)call->dout[0] / divisor);
    for (size_t i = block->first; i < block->end; i += BO_STRIP) {
        size_t count = block->end - i < BO_STRIP ? block->end - i : BO_STRIP;
        strip_gradients(l.kind, block->kernels, count, l.p + i, l.t + i, strip);
        const float *opposite = l.kind == BO_LOSS_KIND_BCE ? l.p + i : strip; /* -dL/dt */
        for (size_t j = 0; dp && j < count; j++) bo_store(&dp[i + j], call->add[0], scale * strip[j]);
        for (size_t j = 0; dt && !totals && j < count; j++) bo_store(&dt[i + j], call->add[1], -scale * opposite[j]);
        if (dt && totals)
            relative_target(&l, i, count, totals, (double)*(const float *)call->dout[0], call->add[1], dt);
    }
}

/* ---- divergence per row ------------------------------------------------------------------------------------------ */

/* Computes log Σ exp(x). */
static double log_total(size_t n, const float *x, const bo_kernels *kernels)
{
    double top = (double)kernels->max(n, x), sum = 0;
    for (size_t i = 0; i < n; i++) sum += exp((double)x[i] - top);
    return top + log(sum);
}

/* KL(softmax(t) | softmax(p)) of a row = Σ q (log q - log s), q = softmax(t), s = softmax(p). In double, since a small
 * divergence is small compared with its terms. */
typedef struct divergence {
    double p_total, t_total; /* log Σ exp */
    double value;
} divergence;

/* Returns q times a difference of logarithms; 0 if q is 0, also if the difference is infinite (tokens with probability
 * 0 under the teacher). */
static double weigh(double q, double difference)
{
    return q == 0 ? 0 : q * difference;
}

static divergence divergence_of(size_t n, const float *p, const float *t, const bo_kernels *kernels)
{
    divergence d = {log_total(n, p, kernels), log_total(n, t, kernels), 0};
    for (size_t i = 0; i < n; i++) {
        double log_q = (double)t[i] - d.t_total, log_s = (double)p[i] - d.p_total;
        d.value += weigh(exp(log_q), log_q - log_s);
    }
    return d;
}

static void rows_forward(const bo_cpu_block *block)
{
    loss l = loss_of(block->call);
    double sum = 0;
    for (size_t r = block->first; r < block->end; r++)
        sum += divergence_of(l.columns, l.p + r * l.columns, l.t + r * l.columns, block->kernels).value;
    ((double *)block->call->scratch)[block->index] = sum;
}

/* dp = s - q, dt = q (log q - log s - KL). */
static void rows_backward(const bo_cpu_block *block)
{
    const bo_op_call *call = block->call;
    loss l = loss_of(call);
    float *dp = call->din[0], *dt = call->din[1];
    double scale = (double)*(const float *)call->dout[0] / (double)l.items;
    for (size_t r = block->first; r < block->end; r++) {
        const float *p = l.p + r * l.columns, *t = l.t + r * l.columns;
        divergence d = divergence_of(l.columns, p, t, block->kernels);
        for (size_t j = 0; j < l.columns; j++) {
            double log_q = (double)t[j] - d.t_total, log_s = (double)p[j] - d.p_total, q = exp(log_q);
            size_t at = r * l.columns + j;
            if (dp) bo_store(&dp[at], call->add[0], (float)(scale * (exp(log_s) - q)));
            if (dt) bo_store(&dt[at], call->add[1], (float)(scale * weigh(q, log_q - log_s - d.value)));
        }
    }
}

/* ---- operation --------------------------------------------------------------------------------------------------- */

static double total(const double *sums, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++) sum += sums[i];
    return sum;
}

static bo_status forward(bo_context *context, const bo_op_call *call)
{
    loss l = loss_of(call);
    bo_blocks(context, call, l.items, l.each, l.kind == BO_LOSS_KIND_KL ? rows_forward : elements_forward);
    const size_t blocks = bo_block_count(l.items, l.each);
    double sum = total(call->scratch, blocks), divisor = (double)l.items;
    if (l.kind == BO_LOSS_KIND_RELATIVE) {
        double *totals = call->saved;
        divisor = total((const double *)call->scratch + blocks, blocks);
        if (totals) totals[0] = sum, totals[1] = divisor;
    }
    *(float *)call->out[0].data = (float)(divisor == 0 ? 0 : sum / divisor);
    return BO_OK;
}

static bo_status backward(bo_context *context, const bo_op_call *call)
{
    loss l = loss_of(call);
    if (bo_backward_is_zero(call)) return BO_OK;
    bo_blocks(context, call, l.items, l.each, l.kind == BO_LOSS_KIND_KL ? rows_backward : elements_backward);
    return BO_OK;
}

static bo_status sizes(bo_context *context, const bo_op_call *call, bool gradients, size_t *saved, size_t *scratch)
{
    (void)context;
    loss l = loss_of(call);
    const size_t sums = l.kind == BO_LOSS_KIND_RELATIVE ? 2 : 1; /* of the differences and of the target */
    *saved = gradients && sums == 2 ? 2 * sizeof(double) : 0;
    *scratch = sums * bo_block_count(l.items, l.each) * sizeof(double);
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
