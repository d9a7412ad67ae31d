/* Selects rows of a table by index. */
#include "cpu.h"
#include "scatter.h"
#include "stored.h"
#include "../shapes.h"

static void forward_block(const bo_cpu_block *block)
{
    const bo_op_call *call = block->call;
    const int32_t *index = call->in[0].data;
    bo_stored stored = bo_stored_of(call->in[1].element);
    const char *table = call->in[1].data;
    float *y = call->out[0].data;
    size_t width = call->in[1].columns, line = bo_stored_line(stored, width);
    for (size_t r = block->first; r < block->end; r++)
        bo_stored_read(block->kernels, stored, width, table + (size_t)index[r] * line, 0, width, y + r * width);
}

static bo_status forward(bo_context *context, const bo_op_call *call)
{
    BO_TRY(bo_indices_check(context, &call->in[0], call->in[1].rows, "embed", "index"));
    bo_blocks(context, call, call->out[0].rows, bo_block_rows(call->out[0].columns), forward_block);
    return BO_OK;
}

static bo_status backward(bo_context *context, const bo_op_call *call)
{
    BO_TRY(bo_refuse_stored(context, call, "embed"));
    if (!bo_backward_is_zero(call)) bo_scatter(context, call, 0, 1);
    return BO_OK;
}

const bo_op bo_cpu_embed = {
    .name = "embed",
    .reads_inputs = 1 << 0,
    .stored_inputs = 1 << 1,
    .shape = bo_shape_embed,
    .sizes = bo_sizes_none,
    .forward = forward,
    .backward = backward,
};
