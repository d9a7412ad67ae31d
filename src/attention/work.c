/* Workspace of calls: work.h. */
#include "work.h"

void *bo_work_alloc(bo_context *context, bo_work *work, size_t count, size_t size, const char *what)
{
    size_t left = work ? work->bytes - work->used : 0;
    if (!work || (size && count > left / size) || bo_work_bytes(count, size) > left)
        return bo_alloc_raw(context, count, size, what);
    void *piece = work->memory + work->used;
    work->used += bo_work_bytes(count, size);
    return piece;
}

void bo_work_free(bo_work *work, void *piece)
{
    uintptr_t at = (uintptr_t)piece, memory = work ? (uintptr_t)work->memory : 0;
    if (work && at >= memory && at <= memory + work->used)
        work->used = at - memory;
    else
        bo_free(piece);
}

bo_status bo_scratch_alloc(bo_context *context, bo_work *work, size_t tasks, size_t workers, size_t each,
                           const char *what, bo_scratch *out)
{
    *out = (bo_scratch){.work = work, .each = each, .by_task = tasks <= workers};
    out->bytes = bo_work_alloc(context, work, bo_min(tasks, workers), each, what);
    return out->bytes ? BO_OK : BO_MEMORY;
}

void bo_scratch_free(bo_scratch *scratch)
{
    bo_work_free(scratch->work, scratch->bytes);
}
