/* The engine: the queue, which jobs get a slot, and the loop. */
#include "engine.h"
#include "slots.h"
#include "../model/lanes.h"
#include <pthread.h>
#include <string.h>
#include <time.h>

/* `first` to `last` is the queue, oldest first. It and `stopping` are guarded by the lock. The slots belong to the thread that
 * runs the engine. */
struct bo_engine {
    bo_engine_desc desc;
    bo_store *store;
    bo_slots slots;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bo_job *first, *last;
    size_t queued;
    bool stopping, draining;
};

/* ---- creation and destruction ------------------------------------------------------------------------------------- */

/* Called from several threads: each call has its own context. */
static bool accepts(void *user, const void *bytes, size_t size)
{
    const bo_engine *engine = user;
    bo_context *context;
    if (bo_context_create(&(bo_context_desc){.threads = 1}, &context) != BO_OK) return false;
    const bool accepted = bo_lanes_recognize(context, engine->slots.lanes, bytes, size) == BO_OK;
    bo_context_destroy(context);
    return accepted;
}

static bo_status build(bo_context *context, const bo_engine_desc *desc, bo_engine *engine)
{
    engine->desc = *desc;
    BO_TRY(bo_slots_create(context, &engine->desc, NULL, &engine->slots));
    const bo_store_desc store = {.memory_bytes = desc->memory_bytes,
                                 .disk_bytes = desc->disk_bytes,
                                 .folder = desc->folder,
                                 .accepts = accepts,
                                 .user = engine};
    BO_TRY(bo_store_create(context, &store, &engine->store));
    engine->slots.store = engine->store;
    return BO_OK;
}

bo_status bo_engine_create(bo_context *context, const bo_engine_desc *desc, bo_engine **out)
{
    bo_engine *engine = *out = bo_alloc(context, 1, sizeof *engine, "the engine");
    if (!engine) return BO_MEMORY;
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_init(&engine->lock, NULL);
    pthread_cond_init(&engine->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    const bo_status status = build(context, desc, engine);
    if (status == BO_OK) return BO_OK;
    bo_engine_destroy(engine);
    *out = NULL;
    return status;
}

void bo_engine_destroy(bo_engine *engine)
{
    if (!engine) return;
    bo_store_destroy(engine->store);
    bo_slots_destroy(&engine->slots);
    pthread_cond_destroy(&engine->changed);
    pthread_mutex_destroy(&engine->lock);
    bo_free(engine);
}

bo_store *bo_engine_store(const bo_engine *engine)
{
    return engine->store;
}

size_t bo_engine_most_tokens(const bo_engine *engine)
{
    return engine->slots.most_tokens;
}

bo_status bo_engine_recognize(bo_context *context, const bo_engine *engine, const void *bytes, size_t size)
{
    return bo_lanes_recognize(context, engine->slots.lanes, bytes, size);
}

/* ---- the queue ---------------------------------------------------------------------------------------------------- */

bo_submission bo_engine_submit(bo_engine *engine, bo_job *const *jobs, size_t count)
{
    bo_submission result = BO_SUBMITTED;
    const double now = bo_seconds();
    pthread_mutex_lock(&engine->lock);
    if (engine->stopping)
        result = BO_ENGINE_STOPPING;
    else if (engine->queued + count > engine->desc.queue)
        result = BO_QUEUE_FULL;
    for (size_t i = 0; result == BO_SUBMITTED && i < count; i++) {
        jobs[i]->next = NULL;
        jobs[i]->submitted = now;
        *(engine->last ? &engine->last->next : &engine->first) = jobs[i];
        engine->last = jobs[i];
        engine->queued++;
    }
    atomic_store(&engine->desc.counters->queued, engine->queued);
    if (result == BO_QUEUE_FULL) atomic_fetch_add(&engine->desc.counters->rejected, 1);
    pthread_cond_signal(&engine->changed);
    pthread_mutex_unlock(&engine->lock);
    return result;
}

void bo_engine_cancel(bo_engine *engine, bo_job *job)
{
    atomic_store(&job->canceled, true);
    pthread_mutex_lock(&engine->lock);
    pthread_cond_signal(&engine->changed);
    pthread_mutex_unlock(&engine->lock);
}

static void unlink_job(bo_engine *engine, bo_job *before, const bo_job *job)
{
    *(before ? &before->next : &engine->first) = job->next;
    if (engine->last == job) engine->last = before;
    engine->queued--;
    atomic_store(&engine->desc.counters->queued, engine->queued);
}

static size_t slots_of_client(const bo_engine *engine, uint64_t client)
{
    size_t count = 0;
    for (size_t i = 0; i < engine->slots.used; i++) count += engine->slots.items[i].job->client == client;
    return count;
}

/* The job that gets the next slot: of the client with the fewest slots, the oldest. NULL: none can start now. */
static bo_job *next_job(bo_engine *engine)
{
    bo_job *best = NULL, *before_best = NULL, *before = NULL;
    size_t fewest = SIZE_MAX;
    for (bo_job *job = engine->first; job && fewest > 0; before = job, job = job->next) {
        const size_t count = slots_of_client(engine, job->client);
        if (count >= fewest || bo_slots_reads(&engine->slots, job)) continue;
        best = job;
        before_best = before;
        fewest = count;
    }
    if (best) unlink_job(engine, before_best, best);
    return best;
}

/* A queued job that was canceled or whose time is over; NULL: none. */
static bo_job *next_expired(bo_engine *engine, double now)
{
    for (bo_job *job = engine->first, *before = NULL; job; before = job, job = job->next)
        if (engine->draining || atomic_load(&job->canceled) || now > job->deadline) {
            unlink_job(engine, before, job);
            return job;
        }
    return NULL;
}

static void expire(bo_context *context, bo_engine *engine)
{
    const double now = bo_seconds();
    for (;;) {
        pthread_mutex_lock(&engine->lock);
        bo_job *job = next_expired(engine, now);
        pthread_mutex_unlock(&engine->lock);
        if (!job) return;
        bo_job_finish(context, engine->desc.counters, job,
                      atomic_load(&job->canceled) ? BO_JOB_CANCELED
                      : engine->draining          ? BO_JOB_STOPPING
                                                  : BO_JOB_TIMEOUT);
    }
}

static void admit(bo_context *context, bo_engine *engine)
{
    while (engine->slots.used < engine->desc.slots) {
        pthread_mutex_lock(&engine->lock);
        bo_job *job = next_job(engine);
        pthread_mutex_unlock(&engine->lock);
        if (!job) return;
        bo_slots_start(context, &engine->slots, job);
    }
}

/* ---- the loop ----------------------------------------------------------------------------------------------------- */

/* Waits until a job arrives, for at most a fifth of a second. */
static void wait_for_jobs(bo_engine *engine)
{
    enum { WAIT_NS = 200000000, SECOND_NS = 1000000000 };
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += WAIT_NS;
    until.tv_sec += until.tv_nsec / SECOND_NS;
    until.tv_nsec %= SECOND_NS;
    pthread_mutex_lock(&engine->lock);
    if (!engine->first) pthread_cond_timedwait(&engine->changed, &engine->lock, &until);
    pthread_mutex_unlock(&engine->lock);
}

static void iterate(bo_context *context, bo_engine *engine)
{
    expire(context, engine);
    bo_slots_check(context, &engine->slots, bo_seconds());
    admit(context, engine);
    atomic_store(&engine->desc.counters->running, engine->slots.used);
    bo_slots_step(context, &engine->slots);
    atomic_store(&engine->desc.counters->running, engine->slots.used);
}

static bool is_idle(bo_engine *engine)
{
    pthread_mutex_lock(&engine->lock);
    const bool idle = !engine->first && engine->slots.used == 0;
    pthread_mutex_unlock(&engine->lock);
    return idle;
}

/* Finishes what runs and waits in the queue within the grace period; then ends it. */
static void drain(bo_context *context, bo_engine *engine)
{
    const double end = bo_seconds() + engine->desc.grace;
    pthread_mutex_lock(&engine->lock);
    engine->stopping = true;
    pthread_mutex_unlock(&engine->lock);
    while (!is_idle(engine) && bo_seconds() < end) iterate(context, engine);
    engine->draining = true;
    expire(context, engine);
    bo_slots_end_all(context, &engine->slots, BO_JOB_STOPPING);
    atomic_store(&engine->desc.counters->running, 0);
}

bo_status bo_engine_run(bo_context *context, bo_engine *engine)
{
    while (!engine->desc.stop(engine->desc.user)) {
        iterate(context, engine);
        if (engine->slots.used == 0) wait_for_jobs(engine);
    }
    drain(context, engine);
    return BO_OK;
}

size_t bo_engine_state_bytes(const bo_engine *engine, size_t tokens)
{
    const bo_session_desc desc = {.capacity = tokens ? tokens : 1};
    bo_context *context;
    size_t bytes = 0;
    if (bo_context_create(&(bo_context_desc){.threads = 1}, &context) != BO_OK) return 0;
    bo_session_estimate(context, engine->desc.model, &desc, &bytes, NULL);
    bo_context_destroy(context);
    return bytes;
}
