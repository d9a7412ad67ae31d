/* a + b. */
#include "rows.h"
#include "../shapes.h"

static bo_status forward(bo_context *context, const bo_op_call *call)
{
    return BO_LAUNCH(context, plus,
                     &((bo_gpu_plus){.count = bo_gpu_count(&call->out[0]),
                                     .a = bo_gpu_in(call, 0),
                                     .b = bo_gpu_in(call, 1),
                                     .y = bo_gpu_out(call, 0)}));
}

static bo_status backward(bo_context *context, const bo_op_call *call)
{
    bool done;
    BO_TRY(bo_gpu_backward_zero(context, call, &done));
    if (done) return BO_OK;
    BO_TRY(bo_gpu_pass_gradient(context, call, 0));
    return bo_gpu_pass_gradient(context, call, 1);
}

const bo_op bo_gpu_op_add = {
    .name = "add",
    .passes = bo_passes_add,
    .shape = bo_shape_add,
    .sizes = bo_gpu_sizes_none,
    .forward = forward,
    .backward = backward,
};
