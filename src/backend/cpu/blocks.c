/* Blocks of items as tasks. */
#include "blocks.h"
#include <string.h>

typedef struct blocks_job {
    const bo_op_call *call;
    const bo_kernels *kernels;
    size_t items, each;
    bo_block_fn fn;
} blocks_job;

static void task(void *arg, size_t index, int worker)
{
    (void)worker;
    const blocks_job *job = arg;
    size_t first = index * job->each, end = job->items - first < job->each ? job->items : first + job->each;
    job->fn(&(bo_cpu_block){job->call, job->kernels, index, first, end});
}

void bo_blocks(bo_context *context, const bo_op_call *call, size_t items, size_t each, bo_block_fn fn)
{
    blocks_job job = {call, bo_context_kernels(context), items, each, fn};
    bo_parallel(context, bo_block_count(items, each), task, &job);
}

bool bo_backward_is_zero(const bo_op_call *call)
{
    for (size_t i = 0; i < call->outputs; i++)
        if (call->dout[i]) return false;
    for (size_t i = 0; i < call->inputs; i++)
        if (call->din[i] && !call->add[i]) memset(call->din[i], 0, bo_operand_floats(&call->in[i]) * sizeof(float));
    return true;
}

typedef struct hand_back_job {
    size_t count;
    const float *from;
    float *to;
    bool add;
} hand_back_job;

static void hand_back_task(void *arg, size_t index, int worker)
{
    (void)worker;
    const hand_back_job *job = arg;
    size_t first = index * BO_BLOCK_FLOATS, rest = job->count - first;
    size_t end = rest < BO_BLOCK_FLOATS ? job->count : first + BO_BLOCK_FLOATS;
    for (size_t i = first; i < end; i++) bo_store(&job->to[i], job->add, job->from[i]);
}

void bo_hand_back(bo_context *context, const bo_op_call *call, size_t input)
{
    hand_back_job job = {bo_operand_floats(&call->in[input]), call->dout[0], call->din[input], call->add[input]};
    if (job.to) bo_parallel(context, bo_block_count(job.count, BO_BLOCK_FLOATS), hand_back_task, &job);
}

bo_status bo_indices_check(bo_context *context, const bo_tensor *indices, size_t count, const char *op,
                           const char *what)
{
    const int32_t *index = indices->data;
    for (size_t i = 0; i < indices->rows; i++)
        if (index[i] < 0 || (size_t)index[i] >= count)
            return bo_fail(context, BO_INVALID, "%s: %s %zu is %d, expected 0 to %zu", op, what, i, (int)index[i],
                           count - 1);
    return BO_OK;
}

bo_status bo_sizes_none(bo_context *context, const bo_op_call *call, bool gradients, size_t *saved, size_t *scratch)
{
    (void)context, (void)call, (void)gradients;
    *saved = *scratch = 0;
    return BO_OK;
}
