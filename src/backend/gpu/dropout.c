/* x m / (1 - rate) with the random mask m of cpu/dropout.c. In evaluation: x. */
#include "rows.h"
#include "../shapes.h"
#include "../../base/rng.h"

static bool is_active(const bo_op_call *call)
{
    return call->pass->training && ((const bo_dropout_attributes *)call->attributes)->rate > 0;
}

static bo_status drop(bo_context *context, const bo_op_call *call, bo_gpu_source from, bo_gpu_target to)
{
    const bo_dropout_attributes *a = call->attributes;
    return BO_LAUNCH(context, mask,
                     &((bo_gpu_mask){.count = bo_gpu_count(&call->in[0]),
                                     .pass = call->staged->device,
                                     .stream = bo_rng_stream("dropout", a->stream),
                                     .threshold = (uint32_t)(a->rate * 0x1p32),
                                     .factor = (float)(1 / (1 - a->rate)),
                                     .x = from,
                                     .y = to}));
}

static bo_status forward(bo_context *context, const bo_op_call *call)
{
    if (!is_active(call)) return bo_gpu_pass_on(context, call);
    return drop(context, call, bo_gpu_in(call, 0), bo_gpu_out(call, 0));
}

static bo_status backward(bo_context *context, const bo_op_call *call)
{
    bool done;
    BO_TRY(bo_gpu_backward_zero(context, call, &done));
    if (done || !call->din[0]) return BO_OK;
    if (!is_active(call)) return bo_gpu_pass_gradient(context, call, 0);
    return drop(context, call, bo_gpu_dout(call, 0), bo_gpu_din(call, 0));
}

const bo_op bo_gpu_op_dropout = {
    .name = "dropout",
    .attributes = sizeof(bo_dropout_attributes),
    .shape = bo_shape_dropout,
    .sizes = bo_gpu_sizes_none,
    .forward = forward,
    .backward = backward,
};
