/* Facilities that every module of the library shares: errors, memory, threads, random numbers, log and progress. */
#ifndef BO_BASE_H
#define BO_BASE_H

#include <bochner/base.h>
#include "counts.h"
#include "sizes.h"
#include "tiny.h"

/* ---- errors ------------------------------------------------------------------------------------------------------ */

/* Stores the message in the context and returns the status, so that a function can end with `return bo_fail(...)`. */
bo_status bo_fail(bo_context *context, bo_status status, const char *format, ...) BO_PRINTF(3, 4);

/* Checks that the reserved members of the public struct `name` are zero. BO_INVALID: the struct was not initialized, or
 * the program was compiled for a later version with fields that this library does not know. */
bo_status bo_check_zeros(bo_context *context, const char *name, const uint64_t *reserved, size_t count);
#define bo_check_reserved(context, name, reserved)                                                                     \
    bo_check_zeros(context, name, reserved, sizeof(reserved) / sizeof *(reserved))

/* Clears the error message, so that a callback that fails without a message can be distinguished from one that set a
 * message. */
void bo_context_forget_error(bo_context *context);

/* Refuses NULL, as <bochner/base.h> promises. It is the first line of every exported function that returns a status,
 * after its output pointers were set to NULL. If the context or one of the pointers is NULL, the function returns
 * BO_INVALID and sets a message with the names of the function and the argument. BO_REQUIRE_IF checks the pointers only
 * if the condition holds, for arrays that may be NULL if they are empty. A pointer is a name or a member (desc->path);
 * the message shows it as written. */
#define BO_REQUIRE(context, ...) BO_REQUIRE_IF(context, true, __VA_ARGS__)
#define BO_REQUIRE_IF(context, condition, ...)                                                                         \
    do {                                                                                                               \
        const void *const bo_required_[] = {__VA_ARGS__};                                                              \
        if (!(context) || ((condition) && bo_any_null(bo_required_, sizeof bo_required_ / sizeof *bo_required_)))      \
            return bo_refuse_null(context, __func__, #__VA_ARGS__, bo_required_);                                      \
    } while (0)
static inline bool bo_any_null(const void *const *pointers, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!pointers[i]) return true;
    return false;
}
/* The slow path of BO_REQUIRE. `names` are the names of `pointers`, separated by commas. One of them is NULL unless the
 * context is NULL. Without a context there is no message. */
bo_status bo_refuse_null(bo_context *context, const char *function, const char *names, const void *const *pointers);

#define BO_TRY(expression)                                                                                             \
    do {                                                                                                               \
        bo_status bo_try_status_ = (expression);                                                                       \
        if (bo_try_status_ != BO_OK) return bo_try_status_;                                                            \
    } while (0)

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* Allocates `count * size` bytes, aligned to 64; bo_alloc zeroes them, bo_alloc_raw does not. On overflow or exhaustion
 * the result is NULL, and the error message states the size and the purpose `what`. A request of zero bytes yields a
 * valid block. A block remembers its allocator, so it may outlive the context. bo_free releases it. */
void *bo_alloc(bo_context *context, size_t count, size_t size, const char *what);
void *bo_alloc_raw(bo_context *context, size_t count, size_t size, const char *what);
/* Resizes a block and keeps its first min(old, new) bytes. On failure the old block stays valid. A NULL block counts as
 * empty. */
void *bo_realloc(bo_context *context, void *block, size_t count, size_t size, const char *what);
char *bo_strdup(bo_context *context, const char *text);
/* Allocates zeros, as bo_alloc does, but the system provides each page of a large block when it is first written. The
 * size is not checked against bo_process_memory: only a part of a block may ever be used. */
void *bo_alloc_sparse(bo_context *context, size_t count, size_t size, const char *what);
/* Fills a block with zeros, and returns the pages of a large block from bo_alloc_sparse to the system. */
void bo_zero_block(void *block);
/* The memory that this process may use (bo_context_memory), and the default limit of a task: three quarters of that
 * memory. */
bo_memory_bound bo_process_memory(void);
/* The remainder of the address-space and data limits. Memory counts when it is allocated, even if it is not written. */
bo_memory_bound bo_process_address_space(void);
/* Physical memory, or less if the cgroup has a limit. Memory counts when it is written. */
bo_memory_bound bo_process_physical_memory(void);
bo_memory_bound bo_default_memory(void);
/* BO_MEMORY if `what` needs more bytes than the limit; the message has both, the source of the limit, and the
 * advice. */
bo_status bo_check_memory(bo_context *context, const char *what, double bytes, bo_memory_bound limit,
                          const char *advice);

/* ---- names ------------------------------------------------------------------------------------------------------- */

/* Compares two names. Case is ignored, and "_" equals "-". NULL equals nothing. */
bool bo_same_name(const char *a, const char *b);
/* Returns the index of the first of `count` names that equals `name`, or -1. */
int bo_find_name(const char *name, const char *const *names, int count);
/* Defines bo_<stem>_name and bo_<stem>_parse for an enum `type`. The array `names` holds the name of each value. */
#define BO_NAMED(stem, type, names)                                                                                    \
    const char *bo_##stem##_name(type value)                                                                           \
    {                                                                                                                  \
        return (unsigned)value < sizeof names / sizeof *names ? names[value] : NULL;                                   \
    }                                                                                                                  \
                                                                                                                       \
    bool bo_##stem##_parse(const char *name, type *out)                                                                \
    {                                                                                                                  \
        int found = bo_find_name(name, names, (int)(sizeof names / sizeof *names));                                    \
        if (found < 0 || !out) return false;                                                                           \
        *out = (type)found;                                                                                            \
        return true;                                                                                                   \
    }

/* ---- facts ------------------------------------------------------------------------------------------------------- */

/* Members of bo_context_info. For NULL: no threads, float32. */
int bo_context_threads(const bo_context *context);
bo_precision bo_context_precision(const bo_context *context);
/* Updates the members that this module knows: all except the instruction set and the device. For
 * bo_context_describe. */
bo_context_info *bo_context_update_info(const bo_context *context);

/* ---- threads ----------------------------------------------------------------------------------------------------- */

/* Runs task(arg, index, worker) for each index in [0, count) on the pool, in any order, and returns when all are done.
 * `worker` is in [0, bo_context_threads); no two concurrent tasks have the same worker, so it can select scratch
 * memory. For deterministic results, what a task computes must not depend on the worker or on the order. Nested calls
 * run inline. */
typedef void (*bo_task_fn)(void *arg, size_t index, int worker);
void bo_parallel(bo_context *context, size_t count, bo_task_fn task, void *arg);
/* Returns the overhead of a batch with one task per thread; INFINITY if tasks run on the calling thread. It is measured
 * from time to time, in half a millisecond. Work that takes less time on one thread should not be divided. The overhead
 * depends on the host and its load, so it must only affect speed. */
double bo_batch_seconds(bo_context *context);

/* Creates a context for one task, which may allocate and fail independently. It has one thread, the same kernels,
 * allocator and device, and no log or progress callback; it must not outlive its context. The waiting caller copies the
 * task's error message. Destroyed with bo_context_destroy. */
bo_status bo_context_branch(bo_context *context, bo_context **out);
/* Sets the progress callback of a branch. It is called on the thread that uses the branch. */
void bo_context_watch(bo_context *branch, bo_progress_fn progress, void *user);

/* ---- log, progress ----------------------------------------------------------------------------------------------- */

void bo_log(bo_context *context, bo_log_level level, const char *format, ...) BO_PRINTF(3, 4);
/* Returns BO_CANCELED, with a message, when the caller's callback requests a stop; otherwise BO_OK. */
bo_status bo_progress(bo_context *context, const char *what, double done, double total);
/* Seconds between two calls of the callback within one pass: 0.05, unless a test sets another interval. */
double bo_context_progress_interval(const bo_context *context);
void bo_context_set_progress_interval(bo_context *context, double seconds);
double bo_seconds(void); /* monotonic clock */

/* The device of the context (device/device.h), which the modules above this one set and use. NULL: the CPU. Attaching a
 * device releases the previous one; destroying the context releases the current one. */
struct bo_device;
struct bo_device *bo_context_attached(const bo_context *context);
void bo_context_attach(bo_context *context, struct bo_device *device, void (*release)(struct bo_device *device));

/* ---- kernels ----------------------------------------------------------------------------------------------------- */

/* The context carries the table of compute kernels for the modules above but never reads it. */
struct bo_kernels;
const struct bo_kernels *bo_context_kernels(const bo_context *context);
/* The rest of bo_context_create, after it has checked the descriptor and chosen the table (device/context.c). */
bo_status bo_context_make(const bo_context_desc *desc, const struct bo_kernels *kernels, bo_context **out);

#endif
