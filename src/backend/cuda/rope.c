/* Rotary positions (2104.09864): see cpu/rope.c. Backward rotates by the negative angle. */
#include "rows.h"
#include "../shapes.h"
#include "../cpu/angles.h"

static size_t rotated_of(const bo_rope_attributes *a)
{
    return a->rotated ? a->rotated : a->dim;
}

static bo_status sizes(bo_context *context, const bo_op_call *call, bool gradients, size_t *saved, size_t *scratch)
{
    (void)context, (void)gradients;
    *saved = 0;
    *scratch = bo_angles_bytes(rotated_of(call->attributes));
    return BO_OK;
}

static bo_status rotate(bo_context *context, const bo_op_call *call, float sign, bo_cuda_source from, bo_cuda_target to)
{
    const bo_rope_attributes *a = call->attributes;
    const size_t rotated = rotated_of(a);
    const bool halves = a->layout == BO_ROPE_LAYOUT_HALVES;
    const bo_angles angles = bo_angles_in(rotated, call->scratch);
    BO_TRY(bo_cuda_angles(context, rotated, a->base != 0 ? a->base : 10000, &a->scaling, call->scratch));
    return BO_LAUNCH(context, rope,
                     &((bo_cuda_rope){.rows = call->in[0].rows,
                                      .heads = call->in[0].columns / a->dim,
                                      .dim = a->dim,
                                      .rotated = rotated,
                                      .partner = halves ? rotated / 2 : 1,
                                      .step = halves ? 1 : 2,
                                      .high = angles.high,
                                      .low = angles.low,
                                      .position = call->in[1].data,
                                      .sign = sign,
                                      .x = from,
                                      .y = to}));
}

static bo_status forward(bo_context *context, const bo_op_call *call)
{
    return rotate(context, call, 1, bo_cuda_in(call, 0), bo_cuda_out(call, 0));
}

static bo_status backward(bo_context *context, const bo_op_call *call)
{
    bool done;
    BO_TRY(bo_cuda_backward_zero(context, call, &done));
    if (done || !call->din[0]) return BO_OK;
    return rotate(context, call, -1, bo_cuda_dout(call, 0), bo_cuda_din(call, 0));
}

const bo_op bo_cuda_op_rope = {
    .name = "rope",
    .attributes = sizeof(bo_rope_attributes),
    .reads_inputs = 1 << 1,
    .shape = bo_shape_rope,
    .sizes = sizes,
    .forward = forward,
    .backward = backward,
};
