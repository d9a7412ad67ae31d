/* Operations in fixed blocks of items (rows, or single numbers): a block is a task, and what it computes depends on
 * neither threads nor order. */
#ifndef BO_BACKEND_CPU_BLOCKS_H
#define BO_BACKEND_CPU_BLOCKS_H

#include "../backend.h"
#include "../../kernels/kernels.h"

/* Floats of a block: enough to be worth a task, few enough to stay in the second level of cache. */
enum { BO_BLOCK_FLOATS = BO_SIZE(1 << 14, 64) };

typedef struct bo_cpu_block {
    const bo_op_call *call;
    const bo_kernels *kernels;
    size_t index;      /* of the block */
    size_t first, end; /* its items */
} bo_cpu_block;
typedef void (*bo_block_fn)(const bo_cpu_block *block);

/* Runs fn for blocks of `each` items of `items`. */
void bo_blocks(bo_context *context, const bo_op_call *call, size_t items, size_t each, bo_block_fn fn);

static inline size_t bo_block_count(size_t items, size_t each)
{
    return (items + each - 1) / each;
}

/* Rows of a block where a row is this many floats. */
static inline size_t bo_block_rows(size_t columns)
{
    return columns < BO_BLOCK_FLOATS ? BO_BLOCK_FLOATS / (columns ? columns : 1) : 1;
}

static inline size_t bo_operand_floats(const bo_tensor *operand)
{
    return operand->rows * operand->columns;
}

/* Gradients are written or added. */
static inline void bo_put(float *to, bool add, float value)
{
    *to = add ? *to + value : value;
}

/* No gradient comes in: those that are wanted are zero, and written. */
bool bo_backward_is_zero(const bo_op_call *call);

/* The gradient of a term of a sum: dout[0] itself, as long as the input; nothing where it is not wanted. */
void bo_hand_back(bo_context *context, const bo_op_call *call, size_t input);

/* Every one of the indices (an operand of int32) is in [0, count), or BO_INVALID says which is not. `what` of `op`. */
bo_status bo_indices_check(bo_context *context, const bo_tensor *indices, size_t count, const char *op,
                           const char *what);

/* bo_op.sizes of operations that need nothing. */
bo_status bo_sizes_none(bo_context *context, const bo_op_call *call, bool gradients, size_t *saved, size_t *scratch);

#endif
