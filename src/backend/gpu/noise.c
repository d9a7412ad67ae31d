/* In training: x + amount ε, or x with elements or rows set to 0, with the random values of cpu/noise.c. In evaluation:
 * x. */
#include "rows.h"
#include "../shapes.h"
#include "../../base/rng.h"

static bool is_active(const bo_op_call *call)
{
    return call->pass->training && ((const bo_noise_attributes *)call->attributes)->amount > 0;
}

static uint64_t stream_of(const bo_noise_attributes *a)
{
    return bo_rng_stream("noise", a->stream);
}

static bo_status add_normal(bo_context *context, const bo_op_call *call)
{
    const bo_noise_attributes *a = call->attributes;
    return BO_LAUNCH(context, normal_noise,
                     &((bo_gpu_normal_noise){.count = bo_gpu_count(&call->in[0]),
                                             .pass = call->staged->device,
                                             .stream = stream_of(a),
                                             .amount = (float)a->amount,
                                             .x = bo_gpu_in(call, 0),
                                             .y = bo_gpu_out(call, 0)}));
}

static bo_status remove_some(bo_context *context, const bo_op_call *call, bo_gpu_source from, bo_gpu_target to)
{
    const bo_noise_attributes *a = call->attributes;
    return BO_LAUNCH(context, mask,
                     &((bo_gpu_mask){.count = bo_gpu_count(&call->in[0]),
                                     .row_columns = a->kind == BO_NOISE_ROWS ? call->in[0].columns : 0,
                                     .pass = call->staged->device,
                                     .stream = stream_of(a),
                                     .threshold = (uint32_t)(a->amount * 0x1p32),
                                     .factor = 1,
                                     .x = from,
                                     .y = to}));
}

static bo_status forward(bo_context *context, const bo_op_call *call)
{
    const bo_noise_attributes *a = call->attributes;
    if (!is_active(call)) return bo_gpu_pass_on(context, call);
    if (a->kind == BO_NOISE_NORMAL) return add_normal(context, call);
    return remove_some(context, call, bo_gpu_in(call, 0), bo_gpu_out(call, 0));
}

static bo_status backward(bo_context *context, const bo_op_call *call)
{
    const bo_noise_attributes *a = call->attributes;
    bool done;
    BO_TRY(bo_gpu_backward_zero(context, call, &done));
    if (done || !call->din[0]) return BO_OK;
    if (!is_active(call) || a->kind == BO_NOISE_NORMAL) return bo_gpu_pass_gradient(context, call, 0);
    return remove_some(context, call, bo_gpu_dout(call, 0), bo_gpu_din(call, 0));
}

const bo_op bo_gpu_op_noise = {
    .name = "noise",
    .attributes = sizeof(bo_noise_attributes),
    .shape = bo_shape_noise,
    .sizes = bo_gpu_sizes_none,
    .forward = forward,
    .backward = backward,
};
