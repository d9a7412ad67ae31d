/* Selects rows of a table by index. An index outside the table selects a row of NaNs. */
#include "rows.h"
#include "../shapes.h"

static bo_status shape(bo_context *context, bo_op_call *call)
{
    BO_TRY(bo_shape_embed(context, call));
    const bo_element element = call->in[1].element;
    if (element == BO_ELEMENT_INT8 || element == BO_ELEMENT_INT4)
        return bo_fail(context, BO_UNSUPPORTED, "embed: tables of 8-bit and 4-bit integers are not supported on GPUs");
    return BO_OK;
}

static bo_status sizes(bo_context *context, const bo_op_call *call, bool gradients, size_t *saved, size_t *scratch)
{
    (void)context, (void)gradients;
    *saved = 0;
    *scratch = bo_gpu_scatter_bytes(call, 0, 1);
    return BO_OK;
}

static bo_status forward(bo_context *context, const bo_op_call *call)
{
    return BO_LAUNCH(context, gather,
                     &((bo_gpu_gather){.rows = call->out[0].rows,
                                       .columns = call->out[0].columns,
                                       .table_rows = call->in[1].rows,
                                       .index = call->in[0].data,
                                       .table = bo_gpu_in(call, 1),
                                       .y = bo_gpu_out(call, 0)}));
}

static bo_status backward(bo_context *context, const bo_op_call *call)
{
    bool done;
    BO_TRY(bo_gpu_backward_zero(context, call, &done));
    return done ? BO_OK : bo_gpu_scatter_rows(context, call, 0, 1);
}

const bo_op bo_gpu_op_embed = {
    .name = "embed",
    .reads_inputs = 1 << 0,
    .stored_inputs = 1 << 1,
    .shape = shape,
    .sizes = sizes,
    .forward = forward,
    .backward = backward,
};
