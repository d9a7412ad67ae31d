/* Concatenation of columns. */
#include "cpu.h"
#include <string.h>
#include "blocks.h"
#include "../shapes.h"

static void forward_block(const bo_cpu_block *block)
{
    const bo_op_call *call = block->call;
    float *y = (float *)call->out[0].data + block->first * call->out[0].columns;
    for (size_t r = block->first; r < block->end; r++)
        for (size_t i = 0; i < call->inputs; i++) {
            size_t columns = call->in[i].columns;
            memcpy(y, (const float *)call->in[i].data + r * columns, columns * sizeof *y);
            y += columns;
        }
}

static void backward_block(const bo_cpu_block *block)
{
    const bo_op_call *call = block->call;
    const float *dy = (const float *)call->dout[0] + block->first * call->out[0].columns;
    for (size_t r = block->first; r < block->end; r++)
        for (size_t i = 0; i < call->inputs; i++) {
            size_t columns = call->in[i].columns;
            float *dx = call->din[i];
            for (size_t c = 0; dx && c < columns; c++) bo_store(&dx[r * columns + c], call->add[i], dy[c]);
            dy += columns;
        }
}

static bo_status forward(bo_context *context, const bo_op_call *call)
{
    bo_blocks(context, call, call->out[0].rows, bo_block_rows(call->out[0].columns), forward_block);
    return BO_OK;
}

static bo_status backward(bo_context *context, const bo_op_call *call)
{
    if (!bo_backward_is_zero(call))
        bo_blocks(context, call, call->out[0].rows, bo_block_rows(call->out[0].columns), backward_block);
    return BO_OK;
}

const bo_op bo_cpu_concat = {
    .name = "concat",
    .shape = bo_shape_concat,
    .sizes = bo_sizes_none,
    .forward = forward,
    .backward = backward,
};
