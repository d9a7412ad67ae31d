/* Work memory of calls: work.h. */
#include "work.h"

void *bo_work_take(bo_context *context, bo_work *work, size_t count, size_t size, const char *what)
{
    size_t left = work ? work->bytes - work->used : 0;
    if (!work || (size && count > left / size) || bo_work_bytes(count, size) > left)
        return bo_alloc_raw(context, count, size, what);
    void *piece = work->room + work->used;
    work->used += bo_work_bytes(count, size);
    return piece;
}

void bo_work_give(bo_work *work, void *piece)
{
    uintptr_t at = (uintptr_t)piece, room = work ? (uintptr_t)work->room : 0;
    if (work && at >= room && at <= room + work->used)
        work->used = at - room;
    else
        bo_free(piece);
}

bo_status bo_desks_take(bo_context *context, bo_work *work, size_t tasks, size_t workers, size_t each, const char *what,
                        bo_desks *out)
{
    *out = (bo_desks){.work = work, .each = each, .by_task = tasks <= workers};
    out->bytes = bo_work_take(context, work, bo_min(tasks, workers), each, what);
    return out->bytes ? BO_OK : BO_MEMORY;
}

void bo_desks_give(bo_desks *desks)
{
    bo_work_give(desks->work, desks->bytes);
}
