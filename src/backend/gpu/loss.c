/* Mean losses of a prediction against a target: the formulas are in cpu/loss.c. */
#include "rows.h"
#include "../shapes.h"

static bo_loss_kind kind_of(const bo_op_call *call)
{
    return ((const bo_loss_attributes *)call->attributes)->kind;
}

/* KL has one item per row, other losses one per element. */
static size_t items_of(const bo_op_call *call)
{
    return kind_of(call) == BO_LOSS_KIND_KL ? call->in[0].rows : bo_gpu_count(&call->in[0]);
}

static bo_status sizes(bo_context *context, const bo_op_call *call, bool gradients, size_t *saved, size_t *scratch)
{
    (void)context;
    *saved = gradients && kind_of(call) == BO_LOSS_KIND_RELATIVE ? 2 * sizeof(double) : 0;
    *scratch = 2 * BO_GPU_LOSS_BLOCKS * sizeof(double);
    return BO_OK;
}

static bo_status forward(bo_context *context, const bo_op_call *call)
{
    return BO_LAUNCH(context, loss,
                     &((bo_gpu_loss){.kind = (int)kind_of(call),
                                     .items = items_of(call),
                                     .columns = call->in[0].columns,
                                     .p = bo_gpu_in(call, 0),
                                     .t = bo_gpu_in(call, 1),
                                     .loss = call->out[0].data,
                                     .partial = call->scratch,
                                     .totals = call->saved}));
}

static bo_status backward(bo_context *context, const bo_op_call *call)
{
    bool done;
    BO_TRY(bo_gpu_backward_zero(context, call, &done));
    if (done) return BO_OK;
    return BO_LAUNCH(context, loss_back,
                     &((bo_gpu_loss_back){.kind = (int)kind_of(call),
                                          .items = items_of(call),
                                          .columns = call->in[0].columns,
                                          .p = bo_gpu_in(call, 0),
                                          .t = bo_gpu_in(call, 1),
                                          .dloss = call->dout[0],
                                          .totals = kind_of(call) == BO_LOSS_KIND_RELATIVE ? call->saved : NULL,
                                          .dp = bo_gpu_din(call, 0),
                                          .dt = bo_gpu_din(call, 1)}));
}

const bo_op bo_gpu_op_loss = {
    .name = "loss",
    .attributes = sizeof(bo_loss_attributes),
    .reads_inputs = 1 << 0 | 1 << 1,
    .float_outputs = 1 << 0,
    .shape = bo_shape_loss,
    .sizes = sizes,
    .forward = forward,
    .backward = backward,
};
