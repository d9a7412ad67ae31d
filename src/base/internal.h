/* The context's inside, for src/base alone. */
#ifndef BO_BASE_INTERNAL_H
#define BO_BASE_INTERNAL_H

#include "base.h"

typedef struct bo_pool bo_pool;

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
    char error[1024];
};

/* Up to `threads` threads, the calling one included; fewer when the system starts no more. */
bo_status bo_pool_create(bo_context *context, int threads, bo_pool **out);
int bo_pool_threads(const bo_pool *pool);
void bo_pool_destroy(bo_pool *pool);
void bo_pool_run(bo_pool *pool, size_t count, bo_task_fn task, void *arg);
bool bo_pool_inside(const bo_context *context, int *worker); /* is this thread running a task of this context? */

#endif
