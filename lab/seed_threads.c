/* Runs seeds in parallel, each on one thread. The context's thread pool is not used, because the caller would work in
 * it and could not check for cancellation. */
#include "internal.h"
#include <pthread.h>
#include <time.h>

enum { POLL_NANOSECONDS = 50000000 };

typedef struct crew {
    lab_job *job;
    void (*measure)(lab_run *run);
    atomic_size_t next; /* next seed to measure */
    pthread_mutex_t mutex;
    pthread_cond_t left; /* signaled when a worker ends */
    size_t working;
} crew;

static void measure_seeds(crew *c)
{
    for (size_t i; (i = atomic_fetch_add(&c->next, 1)) < c->job->seeds;) c->measure(&c->job->runs[i]);
}

static void *worker(void *arg)
{
    crew *c = arg;
    measure_seeds(c);
    pthread_mutex_lock(&c->mutex);
    c->working--;
    pthread_cond_signal(&c->left);
    pthread_mutex_unlock(&c->mutex);
    return NULL;
}

/* Reports progress at intervals until the last worker has ended. */
static void watch(crew *c)
{
    pthread_mutex_lock(&c->mutex);
    while (c->working) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += POLL_NANOSECONDS;
        if (until.tv_nsec >= 1000000000) until.tv_nsec -= 1000000000, until.tv_sec++;
        pthread_cond_timedwait(&c->left, &c->mutex, &until);
        pthread_mutex_unlock(&c->mutex);
        if (lab_job_progress(c->job) != BO_OK) atomic_store(&c->job->stopped, true);
        pthread_mutex_lock(&c->mutex);
    }
    pthread_mutex_unlock(&c->mutex);
}

bo_status lab_measure_seeds(lab_job *job, void (*measure)(lab_run *run))
{
    const size_t threads = (size_t)bo_context_describe(job->context)->threads;
    const size_t thread_count = threads < job->seeds ? threads : job->seeds;
    crew c = {.job = job, .measure = measure};
    pthread_t *ids = bo_alloc(job->context, thread_count, sizeof *ids, "the threads of an experiment");
    if (!ids) return BO_MEMORY;
    pthread_mutex_init(&c.mutex, NULL);
    pthread_cond_init(&c.left, NULL);
    size_t started = 0;
    job->watched = true;
    pthread_mutex_lock(&c.mutex);
    while (started < thread_count && pthread_create(&ids[started], NULL, worker, &c) == 0) started++;
    c.working = started;
    pthread_mutex_unlock(&c.mutex);
    watch(&c);
    for (size_t i = 0; i < started; i++) pthread_join(ids[i], NULL);
    job->watched = false;
    measure_seeds(&c); /* if no thread could be started */
    pthread_cond_destroy(&c.left);
    pthread_mutex_destroy(&c.mutex);
    bo_free(ids);
    return BO_OK;
}
