/* Batch normalization (1502.03167): y = gain ∘ x̂ + bias, x̂ = (x - mean) r, r = 1 / √(variance + ε), per column over
 * the rows. In training, mean and variance are computed from the batch (two passes, in double) and update the running
 * values: running = (1 - momentum) running + momentum · batch, with the unbiased variance. In evaluation, the running
 * values are used.
 *
 * dgain = Σ dy ∘ x̂, dbias = Σ dy; dx = gain r (dy - mean dy - x̂ mean(dy ∘ x̂)) in training, gain r dy in
 * evaluation. */
#include <math.h>
#include <string.h>
#include "blocks.h"
#include "cpu.h"
#include "../shapes.h"

/* STRIP: columns at a time */
enum { X = 0, GAIN = 1, BIAS = 2, MEAN = 3, VARIANCE = 4, INPUTS = 5, STRIP = BO_SIZE(128, 4) };

/* A call. Each block of rows writes two rows of column sums to `sums`. */
typedef struct batch {
    size_t rows, columns, each, blocks;
    const float *x, *gain, *bias;
    float *mean, *rate; /* mean and r of x̂: saved, or in workspace if nothing is saved */
    double *sums;
} batch;

static batch batch_of(const bo_op_call *call)
{
    batch b = {.rows = call->in[X].rows, .columns = call->in[X].columns};
    b.each = bo_block_rows(b.columns);
    b.blocks = bo_block_count(b.rows, b.each);
    b.x = call->in[X].data, b.gain = call->in[GAIN].data, b.bias = call->in[BIAS].data;
    b.sums = call->scratch;
    if (call->saved)
        b.mean = call->saved;
    else if (b.sums)
        b.mean = (float *)(b.sums + 2 * b.blocks * b.columns);
    if (b.mean) b.rate = b.mean + b.columns;
    return b;
}

static bo_status sizes(bo_context *context, const bo_op_call *call, bool gradients, size_t *saved, size_t *scratch)
{
    (void)context;
    batch b = batch_of(call);
    *saved = gradients ? 2 * b.columns * sizeof(float) : 0;
    *scratch = 2 * b.blocks * b.columns * sizeof(double) + 2 * b.columns * sizeof(float);
    return BO_OK;
}

/* Adds the sums of the blocks in their order, for row `which`. */
static double total_of(const batch *b, size_t which, size_t column)
{
    double total = 0;
    for (size_t i = 0; i < b->blocks; i++) total += b->sums[(2 * i + which) * b->columns + column];
    return total;
}

/* ---- forward ----------------------------------------------------------------------------------------------------- */

static void sum_block(const bo_cpu_block *block)
{
    batch b = batch_of(block->call);
    for (size_t first = 0; first < b.columns; first += STRIP) {
        size_t count = b.columns - first < STRIP ? b.columns - first : STRIP;
        double total[STRIP] = {0};
        for (size_t r = block->first; r < block->end; r++)
            for (size_t j = 0; j < count; j++) total[j] += (double)b.x[r * b.columns + first + j];
        memcpy(b.sums + 2 * block->index * b.columns + first, total, count * sizeof *total);
    }
}

static void square_block(const bo_cpu_block *block)
{
    batch b = batch_of(block->call);
    for (size_t first = 0; first < b.columns; first += STRIP) {
        size_t count = b.columns - first < STRIP ? b.columns - first : STRIP;
        double total[STRIP] = {0};
        for (size_t r = block->first; r < block->end; r++)
            for (size_t j = 0; j < count; j++) {
                double from = (double)b.x[r * b.columns + first + j] - (double)b.mean[first + j];
                total[j] += from * from;
            }
        memcpy(b.sums + (2 * block->index + 1) * b.columns + first, total, count * sizeof *total);
    }
}

static double epsilon_of(const bo_op_call *call)
{
    const bo_batch_norm_attributes *a = call->attributes;
    return a->epsilon != 0 ? a->epsilon : 1e-5;
}

static void move(float *kept, double momentum, double toward)
{
    *kept = (float)((1 - momentum) * (double)*kept + momentum * toward);
}

/* The variance about the rounded mean is that about the exact mean plus the square of the difference. */
static void measure(bo_context *context, const bo_op_call *call, const batch *b)
{
    const bo_batch_norm_attributes *a = call->attributes;
    double momentum = a->momentum != 0 ? a->momentum : 0.1, rows = (double)b->rows;
    bo_blocks(context, call, b->rows, b->each, sum_block);
    for (size_t j = 0; j < b->columns; j++) b->mean[j] = (float)(total_of(b, 0, j) / rows);
    bo_blocks(context, call, b->rows, b->each, square_block);
    for (size_t j = 0; j < b->columns; j++) {
        double mean = total_of(b, 0, j) / rows, off = mean - (double)b->mean[j];
        double squares = fmax(total_of(b, 1, j) - rows * off * off, 0);
        b->rate[j] = (float)(1 / sqrt(squares / rows + epsilon_of(call)));
        if (call->again) continue;
        move((float *)call->in[MEAN].data + j, momentum, mean);
        move((float *)call->in[VARIANCE].data + j, momentum, squares / (rows - 1));
    }
}

static void recall(const bo_op_call *call, const batch *b)
{
    const float *mean = call->in[MEAN].data, *variance = call->in[VARIANCE].data;
    for (size_t j = 0; j < b->columns; j++) {
        b->mean[j] = mean[j];
        b->rate[j] = (float)(1 / sqrt((double)variance[j] + epsilon_of(call)));
    }
}

static void forward_block(const bo_cpu_block *block)
{
    batch b = batch_of(block->call);
    for (size_t r = block->first; r < block->end; r++) {
        const float *x = b.x + r * b.columns;
        float *y = (float *)block->call->out[0].data + r * b.columns;
        for (size_t j = 0; j < b.columns; j++) y[j] = (x[j] - b.mean[j]) * b.rate[j] * b.gain[j] + b.bias[j];
    }
}

static bo_status forward(bo_context *context, const bo_op_call *call)
{
    batch b = batch_of(call);
    bool training = call->pass && call->pass->training;
    if (training && b.rows < 2)
        return bo_fail(context, BO_INVALID, "batch norm: a batch of %zu rows has no variance, expected at least 2 rows",
                       b.rows);
    if (training)
        measure(context, call, &b);
    else
        recall(call, &b);
    bo_blocks(context, call, b.rows, b.each, forward_block);
    return BO_OK;
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */

/* Computes Σ dy and Σ dy ∘ x̂. */
static void gradient_sums_block(const bo_cpu_block *block)
{
    batch b = batch_of(block->call);
    for (size_t first = 0; first < b.columns; first += STRIP) {
        size_t count = b.columns - first < STRIP ? b.columns - first : STRIP;
        double level[STRIP] = {0}, along[STRIP] = {0};
        for (size_t r = block->first; r < block->end; r++) {
            const float *x = b.x + r * b.columns + first;
            const float *dy = (const float *)block->call->dout[0] + r * b.columns + first;
            for (size_t j = 0; j < count; j++) {
                level[j] += (double)dy[j];
                along[j] += (double)(dy[j] * ((x[j] - b.mean[first + j]) * b.rate[first + j]));
            }
        }
        memcpy(b.sums + 2 * block->index * b.columns + first, level, count * sizeof *level);
        memcpy(b.sums + (2 * block->index + 1) * b.columns + first, along, count * sizeof *along);
    }
}

/* Adds the sums of all blocks to the sums of the first block: [0] level, [1] along. */
static void gather(const batch *b)
{
    for (size_t which = 0; which < 2; which++)
        for (size_t j = 0; j < b->columns; j++) b->sums[which * b->columns + j] = total_of(b, which, j);
}

static void input_block(const bo_cpu_block *block)
{
    const bo_op_call *call = block->call;
    batch b = batch_of(call);
    bool training = call->pass && call->pass->training;
    for (size_t first = 0; first < b.columns; first += STRIP) {
        size_t count = b.columns - first < STRIP ? b.columns - first : STRIP;
        float level[STRIP] = {0}, along[STRIP] = {0}, scale[STRIP];
        const float *mean = b.mean + first, *rate = b.rate + first;
        for (size_t j = 0; j < count; j++) {
            scale[j] = b.gain[first + j] * rate[j];
            if (!training) continue;
            level[j] = (float)(b.sums[first + j] / (double)b.rows);
            along[j] = (float)(b.sums[b.columns + first + j] / (double)b.rows);
        }
        for (size_t r = block->first; r < block->end; r++) {
            const float *x = b.x + r * b.columns + first, *dy = (const float *)call->dout[0] + r * b.columns + first;
            float *dx = (float *)call->din[X] + r * b.columns + first;
            for (size_t j = 0; j < count; j++)
                bo_store(&dx[j], call->add[X], scale[j] * (dy[j] - level[j] - (x[j] - mean[j]) * rate[j] * along[j]));
        }
    }
}

static bo_status backward(bo_context *context, const bo_op_call *call)
{
    if (bo_backward_is_zero(call)) return BO_OK;
    batch b = batch_of(call);
    bo_blocks(context, call, b.rows, b.each, gradient_sums_block);
    gather(&b);
    float *dgain = call->din[GAIN], *dbias = call->din[BIAS];
    for (size_t j = 0; dgain && j < b.columns; j++) bo_store(&dgain[j], call->add[GAIN], (float)b.sums[b.columns + j]);
    for (size_t j = 0; dbias && j < b.columns; j++) bo_store(&dbias[j], call->add[BIAS], (float)b.sums[j]);
    for (size_t i = MEAN; i < INPUTS; i++) /* running values have no gradient */
        if (call->din[i] && !call->add[i]) memset(call->din[i], 0, b.columns * sizeof(float));
    if (call->din[X]) bo_blocks(context, call, b.rows, b.each, input_block);
    return BO_OK;
}

const bo_op bo_cpu_batch_norm = {
    .name = "batch-norm",
    .attributes = sizeof(bo_batch_norm_attributes),
    .reads_inputs = 1 << X | 1 << GAIN,
    .shape = bo_shape_batch_norm,
    .sizes = sizes,
    .forward = forward,
    .backward = backward,
};
