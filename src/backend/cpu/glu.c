/* y = factor f(a) ∘ b (2002.05202): da = factor f'(a) ∘ b ∘ dy, db = factor f(a) ∘ dy. */
#include "cpu.h"
#include "activate.h"
#include "../shapes.h"

static void forward_block(const bo_cpu_block *block)
{
    const bo_unary_attributes *attributes = block->call->attributes;
    const float *a = block->call->in[0].data, *b = block->call->in[1].data;
    float *y = block->call->out[0].data, factor = bo_factor_of(attributes);
    for (size_t i = block->first; i < block->end; i += BO_STRIP) {
        size_t end = block->end - i < BO_STRIP ? block->end : i + BO_STRIP;
        block->kernels->curve(bo_curve_of(attributes), end - i, a + i, y + i);
        for (size_t j = i; j < end; j++) y[j] = factor * y[j] * b[j];
    }
}

static void backward_block(const bo_cpu_block *block)
{
    const bo_op_call *call = block->call;
    const bo_unary_attributes *attributes = call->attributes;
    const float *a = call->in[0].data, *b = call->in[1].data, *dy = call->dout[0];
    float *da = call->din[0], *db = call->din[1], factor = bo_factor_of(attributes), strip[BO_STRIP];
    bo_curve curve = bo_curve_of(attributes);
    for (size_t i = block->first; i < block->end; i += BO_STRIP) {
        size_t count = block->end - i < BO_STRIP ? block->end - i : BO_STRIP;
        if (da) block->kernels->curve_derivative(curve, count, a + i, strip);
        for (size_t j = 0; da && j < count; j++)
            bo_store(&da[i + j], call->add[0], factor * strip[j] * b[i + j] * dy[i + j]);
        if (db) block->kernels->curve(curve, count, a + i, strip);
        for (size_t j = 0; db && j < count; j++) bo_store(&db[i + j], call->add[1], factor * strip[j] * dy[i + j]);
    }
}

static bo_status forward(bo_context *context, const bo_op_call *call)
{
    bo_blocks(context, call, bo_operand_floats(&call->out[0]), BO_BLOCK_FLOATS, forward_block);
    return BO_OK;
}

static bo_status backward(bo_context *context, const bo_op_call *call)
{
    if (bo_backward_is_zero(call)) return BO_OK;
    bo_blocks(context, call, bo_operand_floats(&call->out[0]), BO_BLOCK_FLOATS, backward_block);
    return BO_OK;
}

const bo_op bo_cpu_glu = {
    .name = "glu",
    .attributes = sizeof(bo_unary_attributes),
    .reads_inputs = 1 << 0 | 1 << 1,
    .shape = bo_shape_glu,
    .sizes = bo_sizes_none,
    .forward = forward,
    .backward = backward,
};
