/* Operations in fixed blocks of items (rows or single elements). Each block is a task, whose result does not depend on
 * the number of threads or the execution order. */
#ifndef BO_BACKEND_CPU_BLOCKS_H
#define BO_BACKEND_CPU_BLOCKS_H

#include "../backend.h"
#include "../../device/cpu/kernels.h"

/* Floats per block: large enough for a task, small enough for the second-level cache. */
enum { BO_BLOCK_FLOATS = BO_SIZE(1 << 14, 64) };

typedef struct bo_cpu_block {
    const bo_op_call *call;
    const bo_kernels *kernels;
    size_t index;      /* index of the block */
    size_t first, end; /* range of its items */
} bo_cpu_block;
typedef void (*bo_block_fn)(const bo_cpu_block *block);

/* Runs fn for blocks of `each` of the `items` items. */
void bo_blocks(bo_context *context, const bo_op_call *call, size_t items, size_t each, bo_block_fn fn);

static inline size_t bo_block_count(size_t items, size_t each)
{
    return (items + each - 1) / each;
}

/* Returns the rows per block for rows of this many floats. */
static inline size_t bo_block_rows(size_t columns)
{
    return columns < BO_BLOCK_FLOATS ? BO_BLOCK_FLOATS / (columns ? columns : 1) : 1;
}

static inline size_t bo_operand_floats(const bo_tensor *operand)
{
    return operand->rows * operand->columns;
}

/* Writes or adds a gradient. */
static inline void bo_store(float *to, bool add, float value)
{
    *to = add ? *to + value : value;
}

/* True if no gradient comes in. The gradients that are needed are then set to zero. */
bool bo_backward_is_zero(const bo_op_call *call);

/* Passes on the gradient of a term of a sum: dout[0], which is as long as the input. Does nothing if it is not
 * needed. */
void bo_hand_back(bo_context *context, const bo_op_call *call, size_t input);

/* Checks that all indices (an int32 operand) are in [0, count), else returns BO_INVALID and reports the first bad
 * index. `what` of `op` is part of the message. */
bo_status bo_indices_check(bo_context *context, const bo_tensor *indices, size_t count, const char *op,
                           const char *what);

/* bo_op.sizes of operations that need no memory. */
bo_status bo_sizes_none(bo_context *context, const bo_op_call *call, bool gradients, size_t *saved, size_t *scratch);

#endif
