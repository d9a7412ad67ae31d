/* x + P[positions]: rows of a learned table, or sines and cosines (1706.03762). */
#include "rows.h"
#include "../shapes.h"
#include "../cpu/angles.h"

static bool is_learned(const bo_op_call *call)
{
    return ((const bo_position_attributes *)call->attributes)->kind == BO_POSITION_KIND_LEARNED;
}

static bo_status sizes(bo_context *context, const bo_op_call *call, bool gradients, size_t *saved, size_t *scratch)
{
    (void)context, (void)gradients;
    *saved = 0;
    *scratch = is_learned(call) ? bo_gpu_scatter_bytes(call, 1, 2) : bo_angles_bytes(call->in[0].columns);
    return BO_OK;
}

static bo_status add_learned(bo_context *context, const bo_op_call *call)
{
    return BO_LAUNCH(context, gather,
                     &((bo_gpu_gather){.rows = call->out[0].rows,
                                       .columns = call->out[0].columns,
                                       .table_rows = call->in[2].rows,
                                       .index = call->in[1].data,
                                       .table = bo_gpu_in(call, 2),
                                       .x = bo_gpu_in(call, 0),
                                       .y = bo_gpu_out(call, 0)}));
}

static bo_status add_sinusoids(bo_context *context, const bo_op_call *call)
{
    const size_t columns = call->in[0].columns;
    const bo_angles angles = bo_angles_in(columns, call->scratch);
    BO_TRY(bo_gpu_angles(context, columns, 10000, &(bo_rope_scaling){0}, call->scratch));
    return BO_LAUNCH(context, sinusoids,
                     &((bo_gpu_sinusoids){.rows = call->in[0].rows,
                                          .columns = columns,
                                          .high = angles.high,
                                          .low = angles.low,
                                          .position = call->in[1].data,
                                          .x = bo_gpu_in(call, 0),
                                          .y = bo_gpu_out(call, 0)}));
}

static bo_status forward(bo_context *context, const bo_op_call *call)
{
    return is_learned(call) ? add_learned(context, call) : add_sinusoids(context, call);
}

static bo_status backward(bo_context *context, const bo_op_call *call)
{
    bool done;
    BO_TRY(bo_gpu_backward_zero(context, call, &done));
    if (done) return BO_OK;
    BO_TRY(bo_gpu_pass_gradient(context, call, 0));
    return is_learned(call) ? bo_gpu_scatter_rows(context, call, 1, 2) : BO_OK;
}

const bo_op bo_gpu_op_position = {
    .name = "position",
    .attributes = sizeof(bo_position_attributes),
    .reads_inputs = 1 << 1,
    .shape = bo_shape_position,
    .sizes = sizes,
    .forward = forward,
    .backward = backward,
};
