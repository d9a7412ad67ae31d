/* The thread pool. Workers claim the indices of a batch of tasks from one counter: many at a time while many remain,
 * one at a time near the end. Between batches a worker spins for a while before it sleeps. Once no index is left, the
 * caller waits only for workers that have joined the batch. A short batch therefore costs about a microsecond, and a
 * batch that no worker joins has no overhead.
 *
 * Sleeping workers are woken by the caller and by each other, two at a time, so that waking 63 workers takes six steps.
 * Only as many are woken as the batch has tasks for. Data that several threads write has its own cache line. */
#include "internal.h"

#include <assert.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

enum {
    OPEN = 1 << 15,    /* the batch may be joined */
    JOINED = OPEN - 1, /* mask of the number of workers in the batch */
    BATCH = 1 << 16,   /* increment of the batch number */
    SHARES = 16,       /* a worker claims at most this part of its share of the remaining indices */
    LINE = 64,         /* bytes of a cache line */
    SPINS = 64,        /* between two readings of the clock */
};

/* Time in seconds, from a separate clock: waiting threads read it an arbitrary number of times, and tests replace the
 * main clock with a counter. */
static double ticks(void)
{
    struct timespec now;
#ifdef CLOCK_MONOTONIC_RAW
    clock_gettime(CLOCK_MONOTONIC_RAW, &now);
#else
    clock_gettime(CLOCK_MONOTONIC, &now);
#endif
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Time a thread spins before it sleeps: several times what it takes to wake a thread. */
static const double patience = 1e-4;

/* A worker. `asleep` is set under the mutex. */
struct slot {
    _Alignas(LINE) bo_pool *pool;
    int worker;
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    atomic_bool asleep;
};

/* Invariants: `gate` holds the batch number, whether the batch is open, and how many workers have joined it. The caller
 * writes task, arg, name, count, woken and next only while the gate is closed and no worker has joined. A worker reads
 * them only between joining and leaving. It checks that the gate is open and joins in one atomic step. A thread that is
 * about to sleep sets its flag (`asleep`, `waiting`) before its last check, under its mutex. A thread that changes the
 * gate does so before it checks whether another thread sleeps. */
struct bo_pool {
    bo_context *context;
    int workers; /* excluding the calling thread, which is worker 0 */
    bool spins;  /* threads spin before they sleep */
    pthread_t *threads;
    struct slot *slots;
    pthread_mutex_t mutex; /* of the caller */
    pthread_cond_t done;
    bo_task_fn task;
    void *arg;
    const char *name; /* name of the job on the trace; NULL: no trace */
    size_t count;
    _Alignas(LINE) atomic_ulong gate; /* waiting threads read this line */
    atomic_bool waiting, stop;
    _Alignas(LINE) atomic_size_t next; /* index */
    _Alignas(LINE) atomic_int woken;   /* workers that have been considered for waking in this batch */
};

/* The context whose task this thread is running. Nested calls then run inline and do not wait for themselves. */
static _Thread_local const bo_context *running_context;
static _Thread_local int running_worker;

bool bo_pool_inside(const bo_context *context, int *worker)
{
    *worker = running_worker;
    return running_context == context;
}

/* Claims indices [*first, *end). False: no index remains. */
static bool claim(bo_pool *pool, size_t *first, size_t *end)
{
    const size_t shares = SHARES * ((size_t)pool->workers + 1);
    size_t next = atomic_load_explicit(&pool->next, memory_order_relaxed), claimed;
    do {
        if (next >= pool->count) return false;
        claimed = (pool->count - next) / shares;
        if (claimed == 0) claimed = 1;
    } while (!atomic_compare_exchange_weak_explicit(&pool->next, &next, next + claimed, memory_order_relaxed,
                                                    memory_order_relaxed));
    *first = next;
    *end = next + claimed;
    return true;
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
    for (size_t first, end; claim(pool, &first, &end);)
        for (size_t index = first; index < end; index++) {
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
static bool is_signaled(bo_pool *pool, unsigned long seen)
{
    unsigned long gate = atomic_load(&pool->gate);
    return ((gate & OPEN) && gate / BATCH != seen) || atomic_load(&pool->stop);
}

static void await_signal(bo_pool *pool, struct slot *slot, unsigned long seen)
{
    if (pool->spins) {
        const double end = ticks() + patience;
        do
            for (int i = 0; i < SPINS; i++) {
                if (is_signaled(pool, seen)) return;
                pause_briefly();
            }
        while (ticks() < end);
    }
    pthread_mutex_lock(&slot->mutex);
    atomic_store(&slot->asleep, true);
    while (!is_signaled(pool, seen)) pthread_cond_wait(&slot->wake, &slot->mutex);
    atomic_store(&slot->asleep, false);
    pthread_mutex_unlock(&slot->mutex);
}

static void wake(struct slot *slot)
{
    pthread_mutex_lock(&slot->mutex);
    pthread_cond_signal(&slot->wake);
    pthread_mutex_unlock(&slot->mutex);
}

/* Wakes up to two workers that sleep and have not been considered yet. The caller computes too, so a batch of n tasks
 * needs n - 1 workers. */
static void wake_some(bo_pool *pool)
{
    const size_t useful = pool->count - 1;
    const int max_woken = useful < (size_t)pool->workers ? (int)useful : pool->workers;
    for (int woken = 0; woken < 2 && atomic_load_explicit(&pool->woken, memory_order_relaxed) < max_woken;) {
        const int index = atomic_fetch_add(&pool->woken, 1);
        if (index >= max_woken) return;
        if (!atomic_load(&pool->slots[index].asleep)) continue;
        wake(&pool->slots[index]);
        woken++;
    }
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

static void leave_batch(bo_pool *pool)
{
    unsigned long gate = atomic_fetch_sub(&pool->gate, 1) - 1;
    if ((gate & JOINED) > 0 || !atomic_load(&pool->waiting)) return;
    pthread_mutex_lock(&pool->mutex);
    pthread_cond_signal(&pool->done);
    pthread_mutex_unlock(&pool->mutex);
}

static void *worker_main(void *arg)
{
    struct slot *slot = arg;
    bo_pool *pool = slot->pool;
    unsigned long seen = 0;
    for (;;) {
        await_signal(pool, slot, seen);
        if (atomic_load(&pool->stop)) return NULL;
        if (!join(pool, &seen)) continue;
        wake_some(pool);
        work(pool, slot->worker);
        leave_batch(pool);
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
    pool->spins = bo_available_cpus() >= threads;
    pthread_mutex_init(&pool->mutex, NULL);
    pthread_cond_init(&pool->done, NULL);
    pool->threads = bo_alloc(context, (size_t)threads, sizeof *pool->threads, "the thread pool");
    pool->slots = bo_alloc(context, (size_t)threads, sizeof *pool->slots, "the thread pool");
    if (!pool->threads || !pool->slots) {
        bo_pool_destroy(pool);
        return BO_MEMORY;
    }
    while (pool->workers < threads - 1) {
        struct slot *slot = &pool->slots[pool->workers];
        slot->pool = pool;
        slot->worker = pool->workers + 1;
        pthread_mutex_init(&slot->mutex, NULL);
        pthread_cond_init(&slot->wake, NULL);
        if (pthread_create(&pool->threads[pool->workers], NULL, worker_main, slot) != 0) {
            pthread_mutex_destroy(&slot->mutex);
            pthread_cond_destroy(&slot->wake);
            break;
        }
        pool->workers++;
    }
    /* Results do not depend on the number of threads, so a process limit only costs time. */
    if (pool->workers < threads - 1)
        bo_log(context, BO_LOG_WARNING, "only %d of %d threads could be started", pool->workers + 1, threads);
    *out = pool;
    return BO_OK;
}

void bo_pool_destroy(bo_pool *pool)
{
    if (!pool) return;
    atomic_store(&pool->stop, true);
    for (int i = 0; i < pool->workers; i++) wake(&pool->slots[i]);
    for (int i = 0; i < pool->workers; i++) {
        pthread_join(pool->threads[i], NULL);
        pthread_mutex_destroy(&pool->slots[i].mutex);
        pthread_cond_destroy(&pool->slots[i].wake);
    }
    pthread_mutex_destroy(&pool->mutex);
    pthread_cond_destroy(&pool->done);
    bo_free(pool->threads);
    bo_free(pool->slots);
    bo_free(pool);
}

/* Waits until every worker that joined the closed batch has left it. */
static void await_workers(bo_pool *pool)
{
    if ((atomic_load(&pool->gate) & JOINED) == 0) return;
    if (pool->spins) {
        const double end = ticks() + patience;
        do
            for (int i = 0; i < SPINS; i++) {
                if ((atomic_load(&pool->gate) & JOINED) == 0) return;
                pause_briefly();
            }
        while (ticks() < end);
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
    atomic_store_explicit(&pool->woken, 0, memory_order_relaxed);
    atomic_fetch_add(&pool->gate, BATCH + OPEN);
    wake_some(pool);
    work(pool, 0);
    atomic_fetch_sub(&pool->gate, OPEN);
    await_workers(pool);
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

/* ---- the overhead of a batch --------------------------------------------------------------------------------- */

enum { TRIALS = 11, QUESTIONS = 4096 };   /* measurements, of which the median is used; queries per measurement */
static const double trial_seconds = 2e-5; /* of a task: long enough for spinning workers to join */

static void spin_task(void *arg, size_t index, int worker)
{
    (void)arg, (void)index, (void)worker;
    for (const double end = ticks() + trial_seconds; ticks() < end;) pause_briefly();
}

static double batch_trial(bo_context *context)
{
    const double start = ticks();
    bo_parallel(context, (size_t)context->threads, spin_task, NULL);
    return ticks() - start - trial_seconds;
}

double bo_batch_seconds(bo_context *context)
{
    static const double min_seconds = 5e-7;
    int worker;
    if (!context->pool || bo_pool_inside(context, &worker)) return INFINITY;
    if (context->batch_seconds > 0 && ++context->batch_questions % QUESTIONS) return context->batch_seconds;
    double sorted[TRIALS];
    for (int i = 0; i < TRIALS; i++) {
        const double seconds = batch_trial(context);
        int at = i;
        for (; at > 0 && sorted[at - 1] > seconds; at--) sorted[at] = sorted[at - 1];
        sorted[at] = seconds;
    }
    const double median = sorted[TRIALS / 2];
    context->batch_seconds = median > min_seconds ? median : min_seconds;
    return context->batch_seconds;
}

/* ---- ranges ------------------------------------------------------------------------------------------------------ */

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
