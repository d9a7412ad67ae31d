/* What every layer of the library shares: failing, allocating, threads, random numbers, log and progress. */
#ifndef BO_BASE_H
#define BO_BASE_H

#include <bochner/base.h>
#include "counts.h"
#include "sizes.h"
#include "tiny.h"

/* ---- failing ------------------------------------------------------------------------------------------- */

/* Stores the sentence in the context and returns the status, so that `return bo_fail(...)` reads as one thing. */
bo_status bo_fail(bo_context *context, bo_status status, const char *format, ...) BO_PRINTF(3, 4);

/* The reserved words of a public struct `name` must be zero. BO_INVALID: the struct was not initialized, or the program was
 * compiled for a later version, whose fields this one does not know. */
bo_status bo_check_reserved(bo_context *context, const char *name, const uint64_t reserved[4]);

/* "" again, so that a function of the caller that fails without a sentence can be told from one that gave its own. */
void bo_context_forget_error(bo_context *context);

#define BO_TRY(expression)                                                                                             \
    do {                                                                                                               \
        bo_status bo_try_status_ = (expression);                                                                       \
        if (bo_try_status_ != BO_OK) return bo_try_status_;                                                            \
    } while (0)

/* ---- memory -------------------------------------------------------------------------------------------- */

/* `count * size` bytes, zeroed (bo_alloc) or not (bo_alloc_raw), aligned to 64. On overflow or exhaustion: NULL
 * and the context's error says how much was wanted and `what` for. A request of zero bytes yields a valid block.
 * A block remembers its allocator, so that it may outlive the context; bo_free releases it. */
void *bo_alloc(bo_context *context, size_t count, size_t size, const char *what);
void *bo_alloc_raw(bo_context *context, size_t count, size_t size, const char *what);
/* Keeps the first min(old, new) bytes; on failure the old block stays valid. NULL is an empty old block. */
void *bo_realloc(bo_context *context, void *block, size_t count, size_t size, const char *what);
char *bo_strdup(bo_context *context, const char *text);
size_t bo_usual_memory(void); /* bytes that a work may take unless told otherwise: three quarters of the machine's */

/* ---- names --------------------------------------------------------------------------------------------- */

/* Are these the same name? Case does not matter, and "_" is "-". NULL is the same as nothing. */
bool bo_same_name(const char *a, const char *b);
/* The first of `count` names that is the same; -1: none is. */
int bo_find_name(const char *name, const char *const *names, int count);
/* Defines bo_<stem>_name and bo_<stem>_parse of an enum (`type`) whose values number the strings of the array `names`. */
#define BO_NAMED(stem, type, names)                                                                                    \
    const char *bo_##stem##_name(type value)                                                                           \
    {                                                                                                                  \
        return (unsigned)value < sizeof names / sizeof *names ? names[value] : NULL;                                   \
    }                                                                                                                  \
                                                                                                                       \
    bool bo_##stem##_parse(const char *name, type *out)                                                                \
    {                                                                                                                  \
        int found = bo_find_name(name, names, (int)(sizeof names / sizeof *names));                                    \
        if (found >= 0) *out = (type)found;                                                                            \
        return found >= 0;                                                                                             \
    }

/* ---- threads ------------------------------------------------------------------------------------------- */

/* Runs task(arg, index, worker) for index in [0, count) on the pool, in any order; returns when all are done.
 * worker is in [0, bo_context_threads) and no two tasks run with the same worker at once (per-worker scratch).
 * Determinism is the caller's: what a task computes must not depend on worker or order. Nested calls run inline. */
typedef void (*bo_task_fn)(void *arg, size_t index, int worker);
void bo_parallel(bo_context *context, size_t count, bo_task_fn task, void *arg);

/* A context for one task, which may allocate and fail there by itself: one thread, the same kernels and allocator, no log and
 * no progress. The task's message is passed on by whoever waits for it; freed with bo_context_destroy. */
bo_status bo_context_branch(bo_context *context, bo_context **out);
/* Gives a branch a callback of its own after all: called on the thread that works with it. */
void bo_context_watch(bo_context *branch, bo_progress_fn progress, void *user);

/* ---- log, progress ------------------------------------------------------------------------------------- */

void bo_log(bo_context *context, bo_log_level level, const char *format, ...) BO_PRINTF(3, 4);
/* BO_CANCELED (with a message) when the caller's callback asks to stop, else BO_OK. */
bo_status bo_progress(bo_context *context, const char *what, double done, double total);
double bo_seconds(void); /* a monotonic clock */

/* ---- kernels ------------------------------------------------------------------------------------------- */

/* The context carries the table of kernels for every layer above but never looks into it. The one function it needs to
 * fill the pointer is declared here and defined by src/kernels, so that no #include of base points upward. */
struct bo_kernels;
const struct bo_kernels *bo_kernels_find(const char *isa);
const char *bo_kernels_isa(const struct bo_kernels *kernels);
const struct bo_kernels *bo_context_kernels(const bo_context *context);

#endif
