/* y = Π f_i(a_i), f_i the identity or an absolute power: see cpu/product.c. */
#include "rows.h"
#include "../shapes.h"

_Static_assert((int)BO_GPU_FACTORS == (int)BO_PRODUCT_FACTORS, "the same factors");

/* 0: the factor is a itself. */
static float power_of(const bo_op_call *call, size_t i)
{
    const double power = bo_product_power(call->attributes, i);
    return power == 1 ? 0 : (float)power;
}

static bo_status forward(bo_context *context, const bo_op_call *call)
{
    bo_gpu_product p = {.count = bo_gpu_count(&call->out[0]), .factors = (int)call->inputs, .y = bo_gpu_out(call, 0)};
    for (size_t i = 0; i < call->inputs; i++) p.power[i] = power_of(call, i), p.a[i] = bo_gpu_in(call, i);
    return BO_LAUNCH(context, product, &p);
}

static bo_status backward(bo_context *context, const bo_op_call *call)
{
    bool done;
    BO_TRY(bo_gpu_backward_zero(context, call, &done));
    if (done) return BO_OK;
    bo_gpu_product_back p = {
        .count = bo_gpu_count(&call->out[0]), .factors = (int)call->inputs, .dy = bo_gpu_dout(call, 0)};
    for (size_t i = 0; i < call->inputs; i++) {
        p.power[i] = power_of(call, i);
        p.a[i] = bo_gpu_in(call, i), p.da[i] = bo_gpu_din(call, i);
    }
    return BO_LAUNCH(context, product_back, &p);
}

const bo_op bo_gpu_op_product = {
    .name = "product",
    .attributes = sizeof(bo_product_attributes),
    .reads_inputs = (1 << BO_PRODUCT_FACTORS) - 1,
    .shape = bo_shape_product,
    .sizes = bo_gpu_sizes_none,
    .forward = forward,
    .backward = backward,
};
