/* UNARY, y = factor f(x) + offset, and GLU, y = factor f(a) ∘ b (2002.05202). */
#include "rows.h"
#include "../shapes.h"

static float factor_of(const bo_op_call *call)
{
    const bo_unary_attributes *a = call->attributes;
    return a->factor != 0 ? (float)a->factor : 1;
}

static bo_status forward(bo_context *context, const bo_op_call *call)
{
    const bo_unary_attributes *a = call->attributes;
    const bool gated = call->inputs > 1;
    bo_gpu_curve curve = {.count = bo_gpu_count(&call->out[0]),
                          .function = (int)a->function,
                          .factor = factor_of(call),
                          .offset = gated ? 0 : (float)a->offset,
                          .x = bo_gpu_in(call, 0),
                          .y = bo_gpu_out(call, 0)};
    if (gated) curve.b = bo_gpu_in(call, 1);
    return BO_LAUNCH(context, curve, &curve);
}

static bo_status backward(bo_context *context, const bo_op_call *call)
{
    const bo_unary_attributes *a = call->attributes;
    bool done;
    BO_TRY(bo_gpu_backward_zero(context, call, &done));
    if (done) return BO_OK;
    bo_gpu_curve_back back = {.count = bo_gpu_count(&call->out[0]),
                              .function = (int)a->function,
                              .factor = factor_of(call),
                              .x = bo_gpu_in(call, 0),
                              .dy = bo_gpu_dout(call, 0),
                              .dx = bo_gpu_din(call, 0)};
    if (call->inputs > 1) back.b = bo_gpu_in(call, 1), back.db = bo_gpu_din(call, 1);
    return BO_LAUNCH(context, curve_back, &back);
}

const bo_op bo_gpu_op_unary = {
    .name = "unary",
    .attributes = sizeof(bo_unary_attributes),
    .reads_inputs = 1 << 0,
    .shape = bo_shape_unary,
    .sizes = bo_gpu_sizes_none,
    .forward = forward,
    .backward = backward,
};

const bo_op bo_gpu_op_glu = {
    .name = "glu",
    .attributes = sizeof(bo_unary_attributes),
    .reads_inputs = 1 << 0 | 1 << 1,
    .shape = bo_shape_glu,
    .sizes = bo_gpu_sizes_none,
    .forward = forward,
    .backward = backward,
};
