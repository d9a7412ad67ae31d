/* Rounding to a small float format, stored as float32: simulates training in eight bits. The gradient passes through
 * and is rounded to a separate format. */
#include "cpu.h"
#include <math.h>
#include <string.h>
#include "blocks.h"
#include "../shapes.h"

/* Values >= `min_normal` have `mantissa` bits after the binary point. Smaller values are multiples of one quantum. */
typedef struct format {
    int mantissa;
    float min_normal, max;
} format;

static const format formats[BO_SMALL_FLOAT_COUNT] = {
    [BO_SMALL_FLOAT_E4M3] = {3, 0x1p-6f, 448},
    [BO_SMALL_FLOAT_E5M2] = {2, 0x1p-14f, 57344},
    /* the exponent range of float32; subnormals are rounded in the same way */
    [BO_SMALL_FLOAT_BF16] = {7, 0, 0x1.FEp127f},
};

/* Rounds an absolute value >= f->min_normal: the excess bits are rounded, ties to even. A carry correctly increments
 * the exponent. */
static float round_normal(const format *f, float size)
{
    uint32_t bits;
    int dropped = 23 - f->mantissa;
    memcpy(&bits, &size, sizeof bits);
    bits += ((uint32_t)1 << (dropped - 1)) - 1 + (bits >> dropped & 1);
    bits &= ~(((uint32_t)1 << dropped) - 1);
    memcpy(&size, &bits, sizeof bits);
    return size;
}

static float round_one(const format *f, float x)
{
    /* the rounding of float32 at 1.5 2^23 quanta is to whole quanta, ties to even */
    const float large = 0x1.8p23f * ldexpf(f->min_normal, -f->mantissa);
    float size = fabsf(x), y = size < f->min_normal ? (size + large) - large : round_normal(f, size);
    return isnan(x) ? x : copysignf(size >= f->max ? f->max : y, x);
}

static void round_all(bo_small_float kind, size_t count, const float *from, bool add, float *to)
{
    if (kind == BO_SMALL_FLOAT_NONE) {
        for (size_t i = 0; i < count; i++) bo_store(&to[i], add, from[i]);
        return;
    }
    const format f = formats[kind];
    for (size_t i = 0; i < count; i++) bo_store(&to[i], add, round_one(&f, from[i]));
}

static void forward_block(const bo_cpu_block *block)
{
    const bo_op_call *call = block->call;
    const bo_round_attributes *a = call->attributes;
    round_all(a->value, block->end - block->first, (const float *)call->in[0].data + block->first, false,
              (float *)call->out[0].data + block->first);
}

static void backward_block(const bo_cpu_block *block)
{
    const bo_op_call *call = block->call;
    const bo_round_attributes *a = call->attributes;
    round_all(a->gradient, block->end - block->first, (const float *)call->dout[0] + block->first, call->add[0],
              (float *)call->din[0] + block->first);
}

static bo_status forward(bo_context *context, const bo_op_call *call)
{
    bo_blocks(context, call, bo_operand_floats(&call->in[0]), BO_BLOCK_FLOATS, forward_block);
    return BO_OK;
}

static bo_status backward(bo_context *context, const bo_op_call *call)
{
    if (bo_backward_is_zero(call) || !call->din[0]) return BO_OK;
    bo_blocks(context, call, bo_operand_floats(&call->in[0]), BO_BLOCK_FLOATS, backward_block);
    return BO_OK;
}

const bo_op bo_cpu_round = {
    .name = "round",
    .attributes = sizeof(bo_round_attributes),
    .shape = bo_shape_round,
    .sizes = bo_sizes_none,
    .passes = bo_passes_round,
    .forward = forward,
    .backward = backward,
};
