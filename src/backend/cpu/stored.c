/* Numbers in fewer bits than float32: blocks of them as tasks. */
#include "stored.h"
#include "../../kernels/kernels.h"

enum { MOVED = 1 << 15 }; /* floats a task */

typedef struct move_job {
    const bo_kernels *kernels;
    float *floats;
    uint16_t *halves;
    size_t count;
} move_job;

static size_t part_of(const move_job *job, size_t index, size_t *first)
{
    *first = index * MOVED;
    return job->count - *first < MOVED ? job->count - *first : MOVED;
}

static void round_task(void *arg, size_t index, int worker)
{
    (void)worker;
    const move_job *job = arg;
    size_t first, count = part_of(job, index, &first);
    job->kernels->round_bf16(count, job->floats + first, job->halves + first);
}

static void widen_task(void *arg, size_t index, int worker)
{
    (void)worker;
    const move_job *job = arg;
    size_t first, count = part_of(job, index, &first);
    job->kernels->widen_bf16(count, job->halves + first, job->floats + first);
}

bo_status bo_cpu_round_floats(bo_context *context, void *to, const void *floats, size_t count)
{
    move_job job = {bo_context_kernels(context), (float *)(uintptr_t)floats, to, count};
    bo_parallel(context, (count + MOVED - 1) / MOVED, round_task, &job);
    return BO_OK;
}

bo_status bo_cpu_widen_floats(bo_context *context, void *floats, const void *from, size_t count)
{
    move_job job = {bo_context_kernels(context), floats, (uint16_t *)(uintptr_t)from, count};
    bo_parallel(context, (count + MOVED - 1) / MOVED, widen_task, &job);
    return BO_OK;
}
