/* The context's inside, for src/base alone. */
#ifndef BO_BASE_INTERNAL_H
#define BO_BASE_INTERNAL_H

#include "base.h"

typedef struct bo_pool bo_pool;
typedef struct bo_trace bo_trace;

/* Invariants: `error` is always a terminated string; `kernels` is never NULL after create; `pool` is NULL when
 * threads == 1 (every task then runs on the calling thread). */
struct bo_context {
    int threads;
    bo_log_fn log;
    bo_progress_fn progress;
    void *user;
    bo_allocator allocator;
    const struct bo_kernels *kernels;
    bo_pool *pool;
    bo_trace *trace;              /* NULL: none */
    struct bo_trace_track *track; /* a branch's own on its context's trace; NULL: that of the thread */
    char error[1024];
};

/* Up to `threads` threads, the calling one included; fewer when the system starts no more. */
bo_status bo_pool_create(bo_context *context, int threads, bo_pool **out);
int bo_pool_threads(const bo_pool *pool);
void bo_pool_destroy(bo_pool *pool);
void bo_pool_run(bo_pool *pool, size_t count, bo_task_fn task, void *arg);
bool bo_pool_inside(const bo_context *context, int *worker); /* is this thread running a task of this context? */

/* trace.c. BO_IO: the file cannot be written, and errno says why. */
bo_status bo_trace_open(bo_context *context, const char *path);
bo_status bo_trace_share(bo_context *context, bo_context *branch);
void bo_trace_close(bo_context *context);

/* Tasks that a worker runs one after the other in one job, in nanoseconds; those that are short are one event. */
typedef struct bo_trace_tasks {
    uint64_t start, end;
    size_t first, count;
} bo_trace_tasks;
const char *bo_trace_job(const bo_trace *trace); /* the name of the caller's innermost span */
void bo_trace_tasks_begin(const bo_trace *trace, int worker, bo_trace_tasks *tasks);
void bo_trace_task(bo_trace *trace, const char *job, int worker, size_t index, bo_trace_tasks *tasks);
void bo_trace_tasks_end(bo_trace *trace, const char *job, int worker, bo_trace_tasks *tasks);

#endif
