/* Rotary positions (2104.09864): see cpu/rope.c. Backward rotates by the negative angle. */
#include "rows.h"
#include "../shapes.h"
#include "../cpu/angles.h"

static size_t rotated_of(const bo_rope_attributes *a)
{
    return a->rotated ? a->rotated : a->dim;
}

static bool has_few(const bo_rope_attributes *a)
{
    return rotated_of(a) / 2 <= BO_GPU_FEW_TURNS;
}

static bo_status sizes(bo_context *context, const bo_op_call *call, bool gradients, size_t *saved, size_t *scratch)
{
    (void)context, (void)gradients;
    *saved = 0;
    *scratch = has_few(call->attributes) ? 0 : bo_angles_bytes(rotated_of(call->attributes));
    return BO_OK;
}

/* Sets the frequencies: in the arguments, or in scratch device memory. */
static bo_status set_frequencies(bo_context *context, const bo_op_call *call, bo_gpu_rope *r)
{
    const bo_rope_attributes *a = call->attributes;
    const double base = a->base != 0 ? a->base : 10000;
    if (has_few(a)) {
        bo_angles_part(r->rotated, base, &a->scaling, 0, r->rotated / 2, r->few_high, r->few_low);
        return BO_OK;
    }
    const bo_angles angles = bo_angles_in(r->rotated, call->scratch);
    r->high = angles.high, r->low = angles.low;
    return bo_gpu_angles(context, r->rotated, base, &a->scaling, call->scratch);
}

static bo_status rotate(bo_context *context, const bo_op_call *call, float sign, bo_gpu_source from, bo_gpu_target to)
{
    const bo_rope_attributes *a = call->attributes;
    const size_t rotated = rotated_of(a);
    const bool halves = a->layout == BO_ROPE_LAYOUT_HALVES;
    bo_gpu_rope r = {.rows = call->in[0].rows,
                     .heads = call->in[0].columns / a->dim,
                     .dim = a->dim,
                     .rotated = rotated,
                     .partner = halves ? rotated / 2 : 1,
                     .step = halves ? 1 : 2,
                     .position = call->in[1].data,
                     .sign = sign,
                     .x = from,
                     .y = to};
    BO_TRY(set_frequencies(context, call, &r));
    return BO_LAUNCH(context, rope, &r);
}

static bo_status forward(bo_context *context, const bo_op_call *call)
{
    return rotate(context, call, 1, bo_gpu_in(call, 0), bo_gpu_out(call, 0));
}

static bo_status backward(bo_context *context, const bo_op_call *call)
{
    bool done;
    BO_TRY(bo_gpu_backward_zero(context, call, &done));
    if (done || !call->din[0]) return BO_OK;
    return rotate(context, call, -1, bo_gpu_dout(call, 0), bo_gpu_din(call, 0));
}

const bo_op bo_gpu_op_rope = {
    .name = "rope",
    .attributes = sizeof(bo_rope_attributes),
    .reads_inputs = 1 << 1,
    .shape = bo_shape_rope,
    .sizes = sizes,
    .forward = forward,
    .backward = backward,
};
