/* y = Π f_i(a_i), f_i the identity or |·|^p: da_i = dy ∘ f_i'(a_i) ∘ Π_{j≠i} f_j(a_j), with f' = p f / a. Powers are
 * a², or exp(p log|a|). */
#include "cpu.h"
#include <string.h>
#include "activate.h"
#include "../shapes.h"

enum { MAX_FACTORS = BO_PRODUCT_FACTORS };

/* Returns the power of factor i; 0: the factor is a itself. */
static float power_of(const bo_op_call *call, size_t i)
{
    double power = bo_product_power(call->attributes, i);
    return power == 1 ? 0 : (float)power;
}

/* Returns a strip of f_i: the input itself, or its powers in `buffer`. */
static const float *factor(const bo_cpu_block *block, size_t i, size_t first, size_t count, float *buffer)
{
    const float *a = (const float *)block->call->in[i].data + first;
    float power = power_of(block->call, i);
    if (power == 0) return a;
    if (power == 2) {
        block->kernels->product(count, a, a, false, buffer);
        return buffer;
    }
    block->kernels->log_size(count, power, a, buffer);
    block->kernels->exp_shift(count, buffer, 0, buffer);
    return buffer;
}

static void forward_block(const bo_cpu_block *block)
{
    size_t factors = block->call->inputs;
    float *y = block->call->out[0].data, buffer[BO_STRIP];
    for (size_t i = block->first; i < block->end; i += BO_STRIP) {
        size_t count = block->end - i < BO_STRIP ? block->end - i : BO_STRIP;
        memcpy(y + i, factor(block, 0, i, count, buffer), count * sizeof *y);
        for (size_t k = 1; k < factors; k++)
            block->kernels->product(count, y + i, factor(block, k, i, count, buffer), false, y + i);
    }
}

/* Computes da of one factor from a strip of all factors. */
static void backward_factor(const bo_cpu_block *block, size_t k, size_t first, size_t count,
                            const float *const *factors)
{
    const bo_op_call *call = block->call;
    const float *a = (const float *)call->in[k].data + first, *dy = (const float *)call->dout[0] + first;
    float *da = (float *)call->din[k] + first, power = power_of(call, k), gradient[BO_STRIP];
    memcpy(gradient, dy, count * sizeof *gradient);
    for (size_t j = 0; j < call->inputs; j++)
        if (j != k) block->kernels->product(count, gradient, factors[j], false, gradient);
    for (size_t i = 0; power != 0 && i < count; i++)
        gradient[i] *= factors[k][i] == 0 ? 0 : power * (factors[k][i] / a[i]);
    for (size_t i = 0; i < count; i++) bo_store(&da[i], call->add[k], gradient[i]);
}

static void backward_block(const bo_cpu_block *block)
{
    const bo_op_call *call = block->call;
    float buffer[MAX_FACTORS][BO_STRIP];
    const float *factors[MAX_FACTORS];
    for (size_t i = block->first; i < block->end; i += BO_STRIP) {
        size_t count = block->end - i < BO_STRIP ? block->end - i : BO_STRIP;
        for (size_t k = 0; k < call->inputs; k++) factors[k] = factor(block, k, i, count, buffer[k]);
        for (size_t k = 0; k < call->inputs; k++)
            if (call->din[k]) backward_factor(block, k, i, count, factors);
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

const bo_op bo_cpu_product = {
    .name = "product",
    .attributes = sizeof(bo_product_attributes),
    .reads_inputs = (1 << MAX_FACTORS) - 1,
    .shape = bo_shape_product,
    .sizes = bo_sizes_none,
    .forward = forward,
    .backward = backward,
};
