/* a + b. */
#include "cpu.h"
#include "blocks.h"
#include "../shapes.h"

static void add_block(const bo_cpu_block *block)
{
    const bo_op_call *call = block->call;
    const float *a = call->in[0].data, *b = call->in[1].data;
    float *y = call->out[0].data;
    for (size_t i = block->first; i < block->end; i++) y[i] = a[i] + b[i];
}

static bo_status forward(bo_context *context, const bo_op_call *call)
{
    bo_blocks(context, call, bo_operand_floats(&call->out[0]), BO_BLOCK_FLOATS, add_block);
    return BO_OK;
}

static bo_status backward(bo_context *context, const bo_op_call *call)
{
    if (bo_backward_is_zero(call)) return BO_OK;
    bo_hand_back(context, call, 0);
    bo_hand_back(context, call, 1);
    return BO_OK;
}

const bo_op bo_cpu_add = {
    .name = "add",
    .passes = bo_passes_add,
    .shape = bo_shape_add,
    .sizes = bo_sizes_none,
    .forward = forward,
    .backward = backward,
};
