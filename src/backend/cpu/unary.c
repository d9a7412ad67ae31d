/* y = factor f(x) + offset. */
#include "cpu.h"
#include "activate.h"
#include "../shapes.h"

static void forward_block(const bo_cpu_block *block)
{
    const bo_unary_attributes *a = block->call->attributes;
    const float *x = block->call->in[0].data;
    float *y = block->call->out[0].data, factor = bo_factor_of(a), offset = (float)a->offset;
    for (size_t i = block->first; i < block->end; i += BO_STRIP) {
        size_t end = block->end - i < BO_STRIP ? block->end : i + BO_STRIP;
        block->kernels->curve(bo_curve_of(a), end - i, x + i, y + i);
        if (factor == 1 && offset == 0) continue;
        for (size_t j = i; j < end; j++) y[j] = factor * y[j] + offset;
    }
}

static void backward_block(const bo_cpu_block *block)
{
    const bo_unary_attributes *a = block->call->attributes;
    const float *x = block->call->in[0].data, *dy = block->call->dout[0];
    float *dx = block->call->din[0], factor = bo_factor_of(a), derivative[BO_STRIP];
    bool add = block->call->add[0];
    for (size_t i = block->first; i < block->end; i += BO_STRIP) {
        size_t count = block->end - i < BO_STRIP ? block->end - i : BO_STRIP;
        block->kernels->curve_derivative(bo_curve_of(a), count, x + i, derivative);
        if (factor == 1 && !add) {
            block->kernels->product(count, derivative, dy + i, false, dx + i);
            continue;
        }
        for (size_t j = 0; j < count; j++) bo_store(&dx[i + j], add, factor * derivative[j] * dy[i + j]);
    }
}

static bo_status forward(bo_context *context, const bo_op_call *call)
{
    bo_blocks(context, call, bo_operand_floats(&call->out[0]), BO_BLOCK_FLOATS, forward_block);
    return BO_OK;
}

static bo_status backward(bo_context *context, const bo_op_call *call)
{
    if (bo_backward_is_zero(call) || !call->din[0]) return BO_OK;
    bo_blocks(context, call, bo_operand_floats(&call->out[0]), BO_BLOCK_FLOATS, backward_block);
    return BO_OK;
}

const bo_op bo_cpu_unary = {
    .name = "unary",
    .attributes = sizeof(bo_unary_attributes),
    .reads_inputs = 1 << 0,
    .shape = bo_shape_unary,
    .sizes = bo_sizes_none,
    .forward = forward,
    .backward = backward,
};
