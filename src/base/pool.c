/* The thread pool: workers that sleep until a batch of tasks arrives and then claim indices from one counter. */
#include "internal.h"

#include <pthread.h>
#include <stdatomic.h>

/* Invariants: `batch` changes only under `mutex`, before workers are woken; a worker touches task, arg and count only
 * between seeing a new batch and decrementing `busy`; run() returns when `busy` is zero, so none of the three changes
 * while a worker looks at them. */
struct bo_pool {
    bo_context *context;
    int workers; /* besides the calling thread, which is worker 0 */
    pthread_t *threads;
    struct seat *seats;
    pthread_mutex_t mutex;
    pthread_cond_t wake, done;
    unsigned long batch;
    int busy;
    bool stop;
    bo_task_fn task;
    void *arg;
    size_t count;
    atomic_size_t next;
};

struct seat {
    bo_pool *pool;
    int worker;
};

/* Which context's task this thread is running, so that nested calls run inline instead of waiting for themselves. */
static _Thread_local const bo_context *running_context;
static _Thread_local int running_worker;

bool bo_pool_inside(const bo_context *context, int *worker)
{
    *worker = running_worker;
    return running_context == context;
}

static void work(bo_pool *pool, int worker)
{
    const bo_context *outer_context = running_context;
    int outer_worker = running_worker;
    running_context = pool->context;
    running_worker = worker;
    for (;;) {
        size_t index = atomic_fetch_add_explicit(&pool->next, 1, memory_order_relaxed);
        if (index >= pool->count) break;
        pool->task(pool->arg, index, worker);
    }
    running_context = outer_context;
    running_worker = outer_worker;
}

static void *worker_main(void *arg)
{
    struct seat *seat = arg;
    bo_pool *pool = seat->pool;
    unsigned long seen = 0;
    pthread_mutex_lock(&pool->mutex);
    for (;;) {
        while (pool->batch == seen && !pool->stop) pthread_cond_wait(&pool->wake, &pool->mutex);
        if (pool->stop) break;
        seen = pool->batch;
        pthread_mutex_unlock(&pool->mutex);
        work(pool, seat->worker);
        pthread_mutex_lock(&pool->mutex);
        if (--pool->busy == 0) pthread_cond_signal(&pool->done);
    }
    pthread_mutex_unlock(&pool->mutex);
    return NULL;
}

int bo_pool_threads(const bo_pool *pool)
{
    return pool->workers + 1;
}

bo_status bo_pool_create(bo_context *context, int threads, bo_pool **out)
{
    *out = NULL;
    bo_pool *pool = bo_alloc(context, 1, sizeof *pool, "the thread pool");
    if (!pool) return BO_MEMORY;
    pool->context = context;
    pthread_mutex_init(&pool->mutex, NULL);
    pthread_cond_init(&pool->wake, NULL);
    pthread_cond_init(&pool->done, NULL);
    pool->threads = bo_alloc(context, (size_t)threads, sizeof *pool->threads, "the thread pool");
    pool->seats = bo_alloc(context, (size_t)threads, sizeof *pool->seats, "the thread pool");
    if (!pool->threads || !pool->seats) {
        bo_pool_destroy(pool);
        return BO_MEMORY;
    }
    while (pool->workers < threads - 1) {
        struct seat *seat = &pool->seats[pool->workers];
        *seat = (struct seat){pool, pool->workers + 1};
        if (pthread_create(&pool->threads[pool->workers], NULL, worker_main, seat) != 0) break;
        pool->workers++;
    }
    /* Results do not depend on the number of threads, so a limit on processes costs time, not the run. */
    if (pool->workers < threads - 1)
        bo_log(context, BO_LOG_WARNING, "only %d of %d threads could be started", pool->workers + 1, threads);
    *out = pool;
    return BO_OK;
}

void bo_pool_destroy(bo_pool *pool)
{
    if (!pool) return;
    pthread_mutex_lock(&pool->mutex);
    pool->stop = true;
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->mutex);
    for (int i = 0; i < pool->workers; i++) pthread_join(pool->threads[i], NULL);
    pthread_mutex_destroy(&pool->mutex);
    pthread_cond_destroy(&pool->wake);
    pthread_cond_destroy(&pool->done);
    bo_free(pool->threads);
    bo_free(pool->seats);
    bo_free(pool);
}

void bo_pool_run(bo_pool *pool, size_t count, bo_task_fn task, void *arg)
{
    pthread_mutex_lock(&pool->mutex);
    pool->task = task;
    pool->arg = arg;
    pool->count = count;
    atomic_store_explicit(&pool->next, 0, memory_order_relaxed);
    pool->busy = pool->workers;
    pool->batch++;
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->mutex);
    work(pool, 0);
    pthread_mutex_lock(&pool->mutex);
    while (pool->busy > 0) pthread_cond_wait(&pool->done, &pool->mutex);
    pthread_mutex_unlock(&pool->mutex);
}

void bo_parallel(bo_context *context, size_t count, bo_task_fn task, void *arg)
{
    int worker;
    bool nested = bo_pool_inside(context, &worker);
    if (!nested && context->pool && count > 1) {
        bo_pool_run(context->pool, count, task, arg);
        return;
    }
    for (size_t i = 0; i < count; i++) task(arg, i, nested ? worker : 0);
}
