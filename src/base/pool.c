/* The thread pool. Workers claim the indices of a batch of tasks from one counter. Between batches a worker spins for a
 * few microseconds before it sleeps. Once no index is left, the caller waits only for workers that have joined the
 * batch. A short batch therefore costs about a microsecond, and a batch that no worker joins has no overhead. */
#include "internal.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

enum {
    OPEN = 1 << 15,     /* the batch may be joined */
    JOINED = OPEN - 1,  /* mask of the number of workers in the batch */
    BATCH = 1 << 16,    /* increment of the batch number */
    PATIENCE = 1 << 12, /* spins before sleeping: some tens of microseconds */
};

/* Invariants: `gate` holds the batch number, whether the batch is open, and how many workers have joined it. The caller
 * writes task, arg, name, count and next only while the gate is closed and no worker has joined. A worker reads them
 * only between joining and leaving; it joins in one atomic step with seeing the gate open. A thread that is about to
 * sleep sets its flag (`asleep`, `waiting`) before its last check, under the mutex. A thread that changes the gate does
 * so before it checks whether another thread sleeps. */
struct bo_pool {
    bo_context *context;
    int workers; /* excluding the calling thread, which is worker 0 */
    int patience;
    pthread_t *threads;
    struct seat *seats;
    pthread_mutex_t mutex;
    pthread_cond_t wake, done;
    atomic_ulong gate;
    atomic_int asleep;
    atomic_bool waiting, stop;
    bo_task_fn task;
    void *arg;
    const char *name; /* name of the job on the trace; NULL: no trace */
    size_t count;
    atomic_size_t next;
};

struct seat {
    bo_pool *pool;
    int worker;
};

/* The context whose task this thread is running. Nested calls then run inline and do not wait for themselves. */
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
    bo_trace *trace = pool->name ? pool->context->trace : NULL;
    bo_trace_tasks tasks;
    if (trace) bo_trace_tasks_begin(trace, worker, &tasks);
    for (;;) {
        size_t index = atomic_fetch_add_explicit(&pool->next, 1, memory_order_relaxed);
        if (index >= pool->count) break;
        pool->task(pool->arg, index, worker);
        if (trace) bo_trace_task(trace, pool->name, worker, index, &tasks);
    }
    if (trace) bo_trace_tasks_end(trace, pool->name, worker, &tasks);
    running_context = outer_context;
    running_worker = outer_worker;
}

static void pause_briefly(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* True if there is a batch that this worker has not seen and may join, or if the pool is closing. */
static bool has_news(bo_pool *pool, unsigned long seen)
{
    unsigned long gate = atomic_load(&pool->gate);
    return ((gate & OPEN) && gate / BATCH != seen) || atomic_load(&pool->stop);
}

static void await_news(bo_pool *pool, unsigned long seen)
{
    for (int i = 0; i < pool->patience; i++) {
        if (has_news(pool, seen)) return;
        pause_briefly();
    }
    pthread_mutex_lock(&pool->mutex);
    atomic_fetch_add(&pool->asleep, 1);
    while (!has_news(pool, seen)) pthread_cond_wait(&pool->wake, &pool->mutex);
    atomic_fetch_sub(&pool->asleep, 1);
    pthread_mutex_unlock(&pool->mutex);
}

/* Joins the open batch. False: the batch has closed meanwhile. */
static bool join(bo_pool *pool, unsigned long *seen)
{
    unsigned long gate = atomic_load(&pool->gate);
    while (gate & OPEN) {
        if (atomic_compare_exchange_weak(&pool->gate, &gate, gate + 1)) {
            *seen = gate / BATCH;
            return true;
        }
    }
    return false;
}

static void leave(bo_pool *pool)
{
    unsigned long gate = atomic_fetch_sub(&pool->gate, 1) - 1;
    if ((gate & JOINED) > 0 || !atomic_load(&pool->waiting)) return;
    pthread_mutex_lock(&pool->mutex);
    pthread_cond_signal(&pool->done);
    pthread_mutex_unlock(&pool->mutex);
}

static void *worker_main(void *arg)
{
    struct seat *seat = arg;
    bo_pool *pool = seat->pool;
    unsigned long seen = 0;
    for (;;) {
        await_news(pool, seen);
        if (atomic_load(&pool->stop)) return NULL;
        if (!join(pool, &seen)) continue;
        work(pool, seat->worker);
        leave(pool);
    }
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
    /* if threads outnumber the processors, spinning would take time from threads that work */
    pool->patience = sysconf(_SC_NPROCESSORS_ONLN) >= threads ? PATIENCE : 0;
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
    /* Results do not depend on the number of threads, so a process limit only costs time. */
    if (pool->workers < threads - 1)
        bo_log(context, BO_LOG_WARNING, "only %d of %d threads could be started", pool->workers + 1, threads);
    *out = pool;
    return BO_OK;
}

static void wake_sleepers(bo_pool *pool)
{
    pthread_mutex_lock(&pool->mutex);
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->mutex);
}

void bo_pool_destroy(bo_pool *pool)
{
    if (!pool) return;
    atomic_store(&pool->stop, true);
    wake_sleepers(pool);
    for (int i = 0; i < pool->workers; i++) pthread_join(pool->threads[i], NULL);
    pthread_mutex_destroy(&pool->mutex);
    pthread_cond_destroy(&pool->wake);
    pthread_cond_destroy(&pool->done);
    bo_free(pool->threads);
    bo_free(pool->seats);
    bo_free(pool);
}

/* Waits until every worker that joined the closed batch has left it. */
static void await_leaving(bo_pool *pool)
{
    for (int i = 0; i < pool->patience; i++) {
        if ((atomic_load(&pool->gate) & JOINED) == 0) return;
        pause_briefly();
    }
    pthread_mutex_lock(&pool->mutex);
    atomic_store(&pool->waiting, true);
    while ((atomic_load(&pool->gate) & JOINED) > 0) pthread_cond_wait(&pool->done, &pool->mutex);
    atomic_store(&pool->waiting, false);
    pthread_mutex_unlock(&pool->mutex);
}

void bo_pool_run(bo_pool *pool, size_t count, bo_task_fn task, void *arg)
{
    assert((atomic_load_explicit(&pool->gate, memory_order_relaxed) & (OPEN | JOINED)) == 0);
    pool->task = task;
    pool->arg = arg;
    pool->name = pool->context->trace ? bo_trace_job(pool->context->trace) : NULL;
    pool->count = count;
    atomic_store_explicit(&pool->next, 0, memory_order_relaxed);
    atomic_fetch_add(&pool->gate, BATCH + OPEN);
    if (atomic_load(&pool->asleep) > 0) wake_sleepers(pool);
    work(pool, 0);
    atomic_fetch_sub(&pool->gate, OPEN);
    await_leaving(pool);
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

typedef struct ranges {
    bo_range_fn range;
    void *user;
    size_t count, grain;
} ranges;

static void range_task(void *arg, size_t index, int worker)
{
    const ranges *r = arg;
    const size_t begin = index * r->grain, left = r->count - begin;
    (void)worker;
    r->range(r->user, begin, begin + (left < r->grain ? left : r->grain));
}

void bo_context_parallel(bo_context *context, size_t count, size_t grain, bo_range_fn range, void *user)
{
    if (!context || !range) return;
    ranges r = {range, user, count, grain ? grain : 1};
    bo_parallel(context, count / r.grain + (count % r.grain != 0), range_task, &r);
}
