/* y = x ∘ s, where s is a scalar, one value per column, or one value per row. dx = dy ∘ s; ds = Σ dy ∘ x over the
 * elements that share an entry of s. Row sums are computed directly; the others are summed per block in the workspace,
 * then over the blocks in order. */
#include "cpu.h"
#include <string.h>
#include "blocks.h"
#include "../shapes.h"

typedef enum serves { ALL, COLUMN, ROW } serves; /* the elements that share an entry of s */

static serves serves_of(const bo_op_call *call)
{
    if (bo_operand_floats(&call->in[1]) == 1) return ALL;
    return call->in[1].rows == 1 ? COLUMN : ROW;
}

/* Multiplies rows of `from` by s into `to`. */
static void scale_rows(const bo_cpu_block *block, const float *from, bool add, float *to)
{
    const bo_op_call *call = block->call;
    size_t columns = call->in[0].columns;
    serves by = serves_of(call);
    const float *s = call->in[1].data;
    for (size_t r = block->first; r < block->end; r++) {
        const float *x = from + r * columns;
        float *y = to + r * columns, factor = s[by == ROW ? r : 0];
        if (by == COLUMN)
            block->kernels->product(columns, x, s, add, y);
        else if (add)
            block->kernels->axpy(columns, factor, x, y);
        else
            block->kernels->scale(columns, factor, x, y);
    }
}

static void forward_block(const bo_cpu_block *block)
{
    scale_rows(block, block->call->in[0].data, false, block->call->out[0].data);
}

static bo_status forward(bo_context *context, const bo_op_call *call)
{
    bo_blocks(context, call, call->in[0].rows, bo_block_rows(call->in[0].columns), forward_block);
    return BO_OK;
}

/* Computes Σ dy ∘ x over the rows of the block: ds, or the block's part of it. */
static void sum_rows(const bo_cpu_block *block)
{
    const bo_op_call *call = block->call;
    size_t columns = call->in[0].columns;
    serves by = serves_of(call);
    double *sums = NULL; /* of ALL and COLUMN */
    if (by != ROW) sums = (double *)call->scratch + block->index * bo_operand_floats(&call->in[1]);
    if (by != ROW) memset(sums, 0, bo_operand_floats(&call->in[1]) * sizeof *sums);
    for (size_t r = block->first; r < block->end; r++) {
        const float *x = (const float *)call->in[0].data + r * columns,
                    *dy = (const float *)call->dout[0] + r * columns;
        if (by == ALL)
            *sums += block->kernels->dot(columns, dy, x);
        else if (by == ROW)
            bo_store((float *)call->din[1] + r, call->add[1], (float)block->kernels->dot(columns, dy, x));
        else
            for (size_t j = 0; j < columns; j++) sums[j] += (double)dy[j] * (double)x[j];
    }
}

static void backward_block(const bo_cpu_block *block)
{
    const bo_op_call *call = block->call;
    if (call->din[0]) scale_rows(block, call->dout[0], call->add[0], call->din[0]);
    if (call->din[1]) sum_rows(block);
}

static bo_status backward(bo_context *context, const bo_op_call *call)
{
    if (bo_backward_is_zero(call)) return BO_OK;
    size_t each = bo_block_rows(call->in[0].columns), numbers = bo_operand_floats(&call->in[1]);
    bo_blocks(context, call, call->in[0].rows, each, backward_block);
    const double *sums = call->scratch;
    for (size_t i = 0; call->din[1] && serves_of(call) != ROW && i < numbers; i++) {
        double total = 0;
        for (size_t b = 0; b < bo_block_count(call->in[0].rows, each); b++) total += sums[b * numbers + i];
        bo_store((float *)call->din[1] + i, call->add[1], (float)total);
    }
    return BO_OK;
}

static bo_status sizes(bo_context *context, const bo_op_call *call, bool gradients, size_t *saved, size_t *scratch)
{
    (void)context, (void)gradients;
    size_t blocks = bo_block_count(call->in[0].rows, bo_block_rows(call->in[0].columns));
    *saved = 0;
    *scratch = call->din[1] && serves_of(call) != ROW ? blocks * bo_operand_floats(&call->in[1]) * sizeof(double) : 0;
    return BO_OK;
}

const bo_op bo_cpu_scale = {
    .name = "scale",
    .reads_inputs = 1 << 0 | 1 << 1,
    .shape = bo_shape_scale,
    .sizes = sizes,
    .forward = forward,
    .backward = backward,
};
