/* y = x ∘ s, where s is a scalar, one value per column, or one value per row: dx = dy ∘ s, ds = Σ dy ∘ x. */
#include "rows.h"
#include "../shapes.h"

static bo_gpu_scale_axis axis_of(const bo_op_call *call)
{
    if (bo_gpu_count(&call->in[1]) == 1) return BO_GPU_ALL;
    return call->in[1].rows == 1 ? BO_GPU_COLUMN : BO_GPU_ROW;
}

static bo_status sizes(bo_context *context, const bo_op_call *call, bool gradients, size_t *saved, size_t *scratch)
{
    (void)context, (void)gradients;
    const bool parts = call->din[1] && axis_of(call) != BO_GPU_ROW;
    *saved = 0;
    *scratch = parts ? BO_GPU_COLUMN_PARTS * call->in[0].columns * sizeof(double) : 0;
    return BO_OK;
}

static bo_status multiply(bo_context *context, const bo_op_call *call, bo_gpu_source from, bo_gpu_target to)
{
    return BO_LAUNCH(context, scale,
                     &((bo_gpu_scale){.rows = call->in[0].rows,
                                      .columns = call->in[0].columns,
                                      .by = axis_of(call),
                                      .x = from,
                                      .s = bo_gpu_in(call, 1),
                                      .y = to}));
}

static bo_status forward(bo_context *context, const bo_op_call *call)
{
    return multiply(context, call, bo_gpu_in(call, 0), bo_gpu_out(call, 0));
}

static bo_status backward(bo_context *context, const bo_op_call *call)
{
    bool done;
    BO_TRY(bo_gpu_backward_zero(context, call, &done));
    if (done) return BO_OK;
    if (call->din[0]) BO_TRY(multiply(context, call, bo_gpu_dout(call, 0), bo_gpu_din(call, 0)));
    if (!call->din[1]) return BO_OK;
    return BO_LAUNCH(context, scale_sums,
                     &((bo_gpu_scale_sums){.rows = call->in[0].rows,
                                           .columns = call->in[0].columns,
                                           .by = axis_of(call),
                                           .x = bo_gpu_in(call, 0),
                                           .dy = bo_gpu_dout(call, 0),
                                           .ds = bo_gpu_din(call, 1),
                                           .partial = call->scratch}));
}

const bo_op bo_gpu_op_scale = {
    .name = "scale",
    .reads_inputs = 1 << 0 | 1 << 1,
    .shape = bo_shape_scale,
    .sizes = sizes,
    .forward = forward,
    .backward = backward,
};
