/* Batch normalization (1502.03167): the formulas are in cpu/batch_norm.c. */
#include "rows.h"
#include "../shapes.h"

enum { X = 0, GAIN = 1, BIAS = 2, MEAN = 3, VARIANCE = 4, INPUTS = 5 };

/* Partial sums, their totals, and mean and rate if they are not saved. */
static size_t partial_doubles(const bo_op_call *call)
{
    return (2 * BO_GPU_COLUMN_PARTS + 2) * call->in[X].columns;
}

static bo_status sizes(bo_context *context, const bo_op_call *call, bool gradients, size_t *saved, size_t *scratch)
{
    if (call->in[MEAN].element != BO_ELEMENT_FLOAT32 || call->in[VARIANCE].element != BO_ELEMENT_FLOAT32)
        return bo_fail(context, BO_UNSUPPORTED, "batch norm: on GPUs, the running mean and variance must be weights");
    *saved = gradients ? 2 * call->in[X].columns * sizeof(float) : 0;
    *scratch = partial_doubles(call) * sizeof(double) + 2 * call->in[X].columns * sizeof(float);
    return BO_OK;
}

static float *means_of(const bo_op_call *call)
{
    return call->saved ? call->saved : (float *)(void *)((double *)call->scratch + partial_doubles(call));
}

static bool is_training(const bo_op_call *call)
{
    return call->pass && call->pass->training;
}

static bo_status forward(bo_context *context, const bo_op_call *call)
{
    const bo_batch_norm_attributes *a = call->attributes;
    const size_t rows = call->in[X].rows, columns = call->in[X].columns;
    if (is_training(call) && rows < 2)
        return bo_fail(context, BO_INVALID, "batch norm: a batch of %zu rows has no variance, expected at least 2 rows",
                       rows);
    return BO_LAUNCH(context, batch_norm,
                     &((bo_gpu_batch_norm){.rows = rows,
                                           .columns = columns,
                                           .training = is_training(call),
                                           .moves = !call->again,
                                           .epsilon = a->epsilon != 0 ? a->epsilon : 1e-5,
                                           .momentum = a->momentum != 0 ? a->momentum : 0.1,
                                           .x = bo_gpu_in(call, X),
                                           .gain = bo_gpu_in(call, GAIN),
                                           .bias = bo_gpu_in(call, BIAS),
                                           .running_mean = call->in[MEAN].data,
                                           .running_variance = call->in[VARIANCE].data,
                                           .mean = means_of(call),
                                           .rate = means_of(call) + columns,
                                           .y = bo_gpu_out(call, 0),
                                           .partial = call->scratch}));
}

static bo_status backward(bo_context *context, const bo_op_call *call)
{
    bool done;
    BO_TRY(bo_gpu_backward_zero(context, call, &done));
    if (done) return BO_OK;
    for (size_t i = MEAN; i < INPUTS; i++)
        BO_TRY(bo_gpu_no_gradient(context, call, i)); /* running values have no gradient */
    return BO_LAUNCH(context, batch_norm_back,
                     &((bo_gpu_batch_norm_back){.rows = call->in[X].rows,
                                                .columns = call->in[X].columns,
                                                .training = is_training(call),
                                                .x = bo_gpu_in(call, X),
                                                .gain = bo_gpu_in(call, GAIN),
                                                .dy = bo_gpu_dout(call, 0),
                                                .mean = means_of(call),
                                                .rate = means_of(call) + call->in[X].columns,
                                                .dx = bo_gpu_din(call, X),
                                                .dgain = bo_gpu_din(call, GAIN),
                                                .dbias = bo_gpu_din(call, BIAS),
                                                .partial = call->scratch}));
}

const bo_op bo_gpu_op_batch_norm = {
    .name = "batch-norm",
    .attributes = sizeof(bo_batch_norm_attributes),
    .reads_inputs = 1 << X | 1 << GAIN,
    .shape = bo_shape_batch_norm,
    .sizes = sizes,
    .forward = forward,
    .backward = backward,
};
