/* Rounding to a small float format; the gradient is rounded to a separate format. */
#include "rows.h"
#include "../shapes.h"

static bo_status round_to(bo_context *context, const bo_op_call *call, bo_small_float format, bo_gpu_source from,
                          bo_gpu_target to)
{
    return BO_LAUNCH(context, round,
                     &((bo_gpu_round){.count = bo_gpu_count(&call->in[0]), .format = (int)format, .x = from, .y = to}));
}

static bo_status forward(bo_context *context, const bo_op_call *call)
{
    const bo_round_attributes *a = call->attributes;
    return round_to(context, call, a->value, bo_gpu_in(call, 0), bo_gpu_out(call, 0));
}

static bo_status backward(bo_context *context, const bo_op_call *call)
{
    const bo_round_attributes *a = call->attributes;
    bool done;
    BO_TRY(bo_gpu_backward_zero(context, call, &done));
    if (done || !call->din[0]) return BO_OK;
    return round_to(context, call, a->gradient, bo_gpu_dout(call, 0), bo_gpu_din(call, 0));
}

const bo_op bo_gpu_op_round = {
    .name = "round",
    .attributes = sizeof(bo_round_attributes),
    .passes = bo_passes_round,
    .shape = bo_shape_round,
    .sizes = bo_gpu_sizes_none,
    .forward = forward,
    .backward = backward,
};
