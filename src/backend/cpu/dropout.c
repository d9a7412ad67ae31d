/* x m / (1 - rate), where m is 0 with probability `rate` and 1 else, per element. Element e uses random value e of a
 * stream, so backward draws the same mask as forward. In evaluation: x. */
#include "cpu.h"
#include <string.h>
#include "blocks.h"
#include "masks.h"
#include "../shapes.h"
#include "../../base/rng.h"

static bool is_active(const bo_op_call *call)
{
    const bo_dropout_attributes *a = call->attributes;
    return call->pass->training && a->rate > 0;
}

/* Applies the mask to elements first … end - 1 of `from` and writes to `to`. */
static void drop(const bo_cpu_block *block, const float *from, bool add, float *to)
{
    const bo_dropout_attributes *a = block->call->attributes;
    uint64_t stream = bo_rng_stream("dropout", a->stream);
    float factor = (float)(1 / (1 - a->rate)), mask[BO_MASK_STRIP];
    for (size_t first = block->first; first < block->end; first += BO_MASK_STRIP) {
        size_t count = block->end - first < BO_MASK_STRIP ? block->end - first : BO_MASK_STRIP;
        bo_mask_draw(block->kernels, block->call->pass->seed, stream, a->rate, factor, first, count, mask);
        block->kernels->product(count, from + first, mask, add, to + first);
    }
}

static void forward_block(const bo_cpu_block *block)
{
    drop(block, block->call->in[0].data, false, block->call->out[0].data);
}

static void backward_block(const bo_cpu_block *block)
{
    drop(block, block->call->dout[0], block->call->add[0], block->call->din[0]);
}

static void copy_block(const bo_cpu_block *block)
{
    const bo_op_call *call = block->call;
    memcpy((float *)call->out[0].data + block->first, (const float *)call->in[0].data + block->first,
           (block->end - block->first) * sizeof(float));
}

static bo_status forward(bo_context *context, const bo_op_call *call)
{
    bo_blocks(context, call, bo_operand_floats(&call->in[0]), BO_BLOCK_FLOATS,
              is_active(call) ? forward_block : copy_block);
    return BO_OK;
}

static bo_status backward(bo_context *context, const bo_op_call *call)
{
    if (bo_backward_is_zero(call) || !call->din[0]) return BO_OK;
    if (is_active(call))
        bo_blocks(context, call, bo_operand_floats(&call->in[0]), BO_BLOCK_FLOATS, backward_block);
    else
        bo_hand_back(context, call, 0);
    return BO_OK;
}

const bo_op bo_cpu_dropout = {
    .name = "dropout",
    .attributes = sizeof(bo_dropout_attributes),
    .shape = bo_shape_dropout,
    .sizes = bo_sizes_none,
    .forward = forward,
    .backward = backward,
};
