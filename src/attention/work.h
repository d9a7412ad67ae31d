/* The workspace of a call: a stack allocator in the caller's memory, so that the call does not allocate, or the
 * heap. */
#ifndef BO_ATTENTION_WORK_H
#define BO_ATTENTION_WORK_H

#include "internal.h"

/* Returns the bytes of a piece. */
static inline size_t bo_work_bytes(size_t count, size_t size)
{
    return bo_padded_bytes(count * size);
}

/* Returns count * size bytes, aligned to 64, not initialized. They are allocated on the heap if work is NULL or has too
 * few bytes left. NULL: out of memory; the context has the error. */
void *bo_work_alloc(bo_context *context, bo_work *work, size_t count, size_t size, const char *what);
/* Pieces must be returned in the reverse order of bo_work_alloc; NULL is allowed. */
void bo_work_free(bo_work *work, void *piece);

/* Scratch memory of a call: blocks that concurrent tasks do not share, one per worker or, if there are fewer tasks, one
 * per task. */
typedef struct bo_scratch {
    bo_work *work;
    char *bytes;
    size_t each;
    bool by_task;
} bo_scratch;

bo_status bo_scratch_alloc(bo_context *context, bo_work *work, size_t tasks, size_t workers, size_t each,
                           const char *what, bo_scratch *out);
void bo_scratch_free(bo_scratch *scratch);

static inline void *bo_scratch_of(const bo_scratch *scratch, size_t index, int worker)
{
    return scratch->bytes + (scratch->by_task ? index : (size_t)worker) * scratch->each;
}

#endif
