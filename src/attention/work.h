/* Memory for the time of a call: cut from a room that the caller hands in, so that the call allocates nothing, or else
 * allocated. */
#ifndef BO_ATTENTION_WORK_H
#define BO_ATTENTION_WORK_H

#include "internal.h"

/* What a piece of it takes in a room. */
static inline size_t bo_work_bytes(size_t count, size_t size)
{
    return bo_padded_bytes(count * size);
}

/* count * size bytes, aligned to 64, undefined. work NULL, or less left in it: allocated. NULL: the context's error says
 * why. */
void *bo_work_take(bo_context *context, bo_work *work, size_t count, size_t size, const char *what);
/* Pieces are given back in the reverse order of their taking; NULL is fine. */
void bo_work_give(bo_work *work, void *piece);

/* A call's scratch: blocks that tasks running at once do not share, one per worker or, where they are fewer, one per task. */
typedef struct bo_desks {
    bo_work *work;
    char *bytes;
    size_t each;
    bool by_task;
} bo_desks;

bo_status bo_desks_take(bo_context *context, bo_work *work, size_t tasks, size_t workers, size_t each, const char *what,
                        bo_desks *out);
void bo_desks_give(bo_desks *desks);

static inline void *bo_desk_of(const bo_desks *desks, size_t index, int worker)
{
    return desks->bytes + (desks->by_task ? index : (size_t)worker) * desks->each;
}

#endif
