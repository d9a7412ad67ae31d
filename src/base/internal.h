/* The definition of bo_context, for src/base only. */
#ifndef BO_BASE_INTERNAL_H
#define BO_BASE_INTERNAL_H

#include "base.h"

typedef struct bo_pool bo_pool;
typedef struct bo_trace bo_trace;

/* Invariants: `error` is always a terminated string. `kernels` is never NULL after creation. `pool` is NULL when
 * threads == 1; every task then runs on the calling thread. */
struct bo_context {
    int threads;
    bo_log_fn log;
    bo_progress_fn progress;
    double progress_interval; /* seconds */
    void *user;
    bo_allocator allocator;
    const struct bo_kernels *kernels;
    bo_precision precision;
    struct bo_device *device;                         /* NULL: the CPU */
    void (*release_device)(struct bo_device *device); /* NULL: it belongs to another context */
    bo_pool *pool;
    double batch_seconds;         /* bo_batch_seconds; 0: not measured … */
    unsigned batch_questions;     /* … and the number of queries since then */
    bo_trace *trace;              /* NULL: not tracing */
    struct bo_trace_track *track; /* the branch's track on the trace of its context; NULL: the track of the thread */
    bo_context_info info;         /* of bo_context_describe; updated by every call */
    char error[4096];             /* some errors are lists */
};

/* Returns the number of CPUs that this process may use. A container or taskset can make it smaller than the number of
 * CPUs of the host. */
int bo_available_cpus(void);

/* Creates a pool of up to `threads` threads, including the calling one; fewer if the system refuses to start more. */
bo_status bo_pool_create(bo_context *context, int threads, bo_pool **out);
int bo_pool_threads(const bo_pool *pool);
void bo_pool_destroy(bo_pool *pool);
void bo_pool_run(bo_pool *pool, size_t count, bo_task_fn task, void *arg);
bool bo_pool_inside(const bo_context *context, int *worker); /* true if this thread is running a task of this context */

/* Functions of trace.c. BO_IO: the file cannot be written; errno gives the reason. */
bo_status bo_trace_open(bo_context *context, const char *path);
bo_status bo_trace_share(bo_context *context, bo_context *branch);
void bo_trace_close(bo_context *context);
const char *bo_context_trace(const bo_context *context); /* the path of the file; NULL: no trace */

/* Consecutive tasks of one worker within one job, in nanoseconds. Short tasks are merged into one event. */
typedef struct bo_trace_tasks {
    uint64_t start, end;
    size_t first, count;
} bo_trace_tasks;
const char *bo_trace_job(const bo_trace *trace); /* name of the caller's innermost span */
void bo_trace_tasks_begin(const bo_trace *trace, int worker, bo_trace_tasks *tasks);
void bo_trace_task(bo_trace *trace, const char *job, int worker, size_t index, bo_trace_tasks *tasks);
void bo_trace_tasks_end(bo_trace *trace, const char *job, int worker, bo_trace_tasks *tasks);

#endif
