/* Reshaped rows, and concatenated columns. */
#include "rows.h"
#include "../shapes.h"

static bo_status reshape_backward(bo_context *context, const bo_op_call *call)
{
    bool done;
    BO_TRY(bo_gpu_backward_zero(context, call, &done));
    return done ? BO_OK : bo_gpu_pass_gradient(context, call, 0);
}

const bo_op bo_gpu_op_reshape = {
    .name = "reshape",
    .attributes = sizeof(bo_reshape_attributes),
    .passes = bo_passes_reshape,
    .shape = bo_shape_reshape,
    .sizes = bo_gpu_sizes_none,
    .forward = bo_gpu_pass_on,
    .backward = reshape_backward,
};

static bo_status concat_forward(bo_context *context, const bo_op_call *call)
{
    for (size_t i = 0, at = 0; i < call->inputs; at += call->in[i++].columns)
        BO_TRY(BO_LAUNCH(context, slice,
                         &((bo_gpu_slice){.rows = call->out[0].rows,
                                          .columns = call->in[i].columns,
                                          .from_columns = call->in[i].columns,
                                          .to = at,
                                          .to_columns = call->out[0].columns,
                                          .x = bo_gpu_in(call, i),
                                          .y = bo_gpu_out(call, 0)})));
    return BO_OK;
}

static bo_status concat_backward(bo_context *context, const bo_op_call *call)
{
    bool done;
    BO_TRY(bo_gpu_backward_zero(context, call, &done));
    for (size_t i = 0, at = 0; !done && i < call->inputs; at += call->in[i++].columns) {
        if (!call->din[i]) continue;
        BO_TRY(BO_LAUNCH(context, slice,
                         &((bo_gpu_slice){.rows = call->out[0].rows,
                                          .columns = call->in[i].columns,
                                          .from = at,
                                          .from_columns = call->out[0].columns,
                                          .to_columns = call->in[i].columns,
                                          .x = bo_gpu_dout(call, 0),
                                          .y = bo_gpu_din(call, i)})));
    }
    return BO_OK;
}

const bo_op bo_gpu_op_concat = {
    .name = "concat",
    .shape = bo_shape_concat,
    .sizes = bo_gpu_sizes_none,
    .forward = concat_forward,
    .backward = concat_backward,
};
