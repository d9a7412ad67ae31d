/* The scheduler: the queue, the assignment of slots, and the main loop. */
#include "scheduler.h"
#include "slots.h"
#include "../model/lanes.h"
#include <pthread.h>
#include <string.h>
#include <time.h>

/* `first` to `last` is the queue, oldest first. The lock guards the queue and `stopping`. The slots belong to the
 * thread that runs the scheduler. */
struct bo_scheduler {
    bo_scheduler_desc desc;
    bo_store *store;
    bo_slots slots;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bo_job *first, *last;
    size_t queued;
    bool stopping, draining;
};

/* ---- creation and destruction ------------------------------------------------------------------------------------ */

/* Called from several threads, so each call creates a context. */
static bool accepts(void *user, const void *bytes, size_t size)
{
    const bo_scheduler *scheduler = user;
    bo_context *context;
    if (bo_context_create(&(bo_context_desc){.threads = 1}, &context) != BO_OK) return false;
    const bool accepted = bo_lanes_validate(context, scheduler->slots.lanes, false, bytes, size) == BO_OK;
    bo_context_destroy(context);
    return accepted;
}

static bo_status build(bo_context *context, const bo_scheduler_desc *desc, bo_scheduler *scheduler)
{
    bo_slots_memory memory;
    scheduler->desc = *desc;
    BO_TRY(bo_slots_plan(context, &scheduler->desc, &memory));
    BO_TRY(bo_slots_create(context, &scheduler->desc, &memory, &scheduler->slots));
    const bo_store_desc store = {.memory_bytes = desc->memory_bytes,
                                 .disk_bytes = desc->disk_bytes,
                                 .directory = desc->directory,
                                 .keys = desc->keys,
                                 .key_count = desc->key_count,
                                 .model = {scheduler->slots.lanes->fingerprint, scheduler->slots.lanes->digest},
                                 .accepts = accepts,
                                 .user = scheduler};
    BO_TRY(bo_store_create(context, &store, &scheduler->store));
    scheduler->slots.store = scheduler->store;
    return BO_OK;
}

bo_status bo_scheduler_create(bo_context *context, const bo_scheduler_desc *desc, bo_scheduler **out)
{
    bo_scheduler *scheduler = *out = bo_alloc(context, 1, sizeof *scheduler, "the scheduler");
    if (!scheduler) return BO_MEMORY;
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_init(&scheduler->lock, NULL);
    pthread_cond_init(&scheduler->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    const bo_status status = build(context, desc, scheduler);
    if (status == BO_OK) return BO_OK;
    bo_scheduler_destroy(scheduler);
    *out = NULL;
    return status;
}

void bo_scheduler_destroy(bo_scheduler *scheduler)
{
    if (!scheduler) return;
    bo_store_destroy(scheduler->store);
    bo_slots_destroy(&scheduler->slots);
    pthread_cond_destroy(&scheduler->changed);
    pthread_mutex_destroy(&scheduler->lock);
    bo_free(scheduler);
}

bo_store *bo_scheduler_store(const bo_scheduler *scheduler)
{
    return scheduler->store;
}

size_t bo_scheduler_max_tokens(const bo_scheduler *scheduler)
{
    return scheduler->slots.max_tokens;
}

const bo_slots_memory *bo_scheduler_memory(const bo_scheduler *scheduler)
{
    return &scheduler->slots.memory;
}

bo_status bo_scheduler_validate(bo_context *context, const bo_scheduler *scheduler, const void *bytes, size_t size)
{
    return bo_lanes_validate(context, scheduler->slots.lanes, true, bytes, size);
}

/* ---- the queue --------------------------------------------------------------------------------------------------- */

bo_submission bo_scheduler_submit(bo_scheduler *scheduler, bo_job *const *jobs, size_t count)
{
    bo_submission result = BO_SUBMIT_DONE;
    const double now = bo_seconds();
    pthread_mutex_lock(&scheduler->lock);
    if (scheduler->stopping)
        result = BO_SUBMIT_STOPPING;
    else if (scheduler->queued + count > scheduler->desc.queue)
        result = BO_SUBMIT_FULL;
    for (size_t i = 0; result == BO_SUBMIT_DONE && i < count; i++) {
        jobs[i]->next = NULL;
        jobs[i]->submitted = now;
        *(scheduler->last ? &scheduler->last->next : &scheduler->first) = jobs[i];
        scheduler->last = jobs[i];
        scheduler->queued++;
    }
    atomic_store(&scheduler->desc.counters->queued, scheduler->queued);
    if (result == BO_SUBMIT_FULL) atomic_fetch_add(&scheduler->desc.counters->rejected, 1);
    pthread_cond_signal(&scheduler->changed);
    pthread_mutex_unlock(&scheduler->lock);
    return result;
}

void bo_scheduler_cancel(bo_scheduler *scheduler, bo_job *job)
{
    atomic_store(&job->canceled, true);
    pthread_mutex_lock(&scheduler->lock);
    pthread_cond_signal(&scheduler->changed);
    pthread_mutex_unlock(&scheduler->lock);
}

static void unlink_job(bo_scheduler *scheduler, bo_job *before, const bo_job *job)
{
    *(before ? &before->next : &scheduler->first) = job->next;
    if (scheduler->last == job) scheduler->last = before;
    scheduler->queued--;
    atomic_store(&scheduler->desc.counters->queued, scheduler->queued);
}

static size_t slots_of_client(const bo_scheduler *scheduler, uint64_t client)
{
    size_t count = 0;
    for (size_t i = 0; i < scheduler->slots.used; i++) count += scheduler->slots.items[i].job->client.id == client;
    return count;
}

/* Returns the job for the next slot: the oldest job of the client with the fewest slots. NULL: none can start now.
 * Other jobs do not overtake a job that waits for memory. */
static bo_job *next_job(bo_scheduler *scheduler)
{
    bo_job *best = NULL, *before_best = NULL, *before = NULL;
    size_t min_count = SIZE_MAX;
    for (bo_job *job = scheduler->first; job && min_count > 0; before = job, job = job->next) {
        const size_t count = slots_of_client(scheduler, job->client.id);
        if (count >= min_count || bo_slots_is_reading_prefix(&scheduler->slots, job)) continue;
        best = job;
        before_best = before;
        min_count = count;
    }
    if (!best || !bo_slots_fits(&scheduler->slots, best)) return NULL;
    unlink_job(scheduler, before_best, best);
    return best;
}

/* Removes and returns a queued job that was canceled or has timed out; NULL: none. */
static bo_job *next_expired(bo_scheduler *scheduler, double now)
{
    for (bo_job *job = scheduler->first, *before = NULL; job; before = job, job = job->next)
        if (scheduler->draining || atomic_load(&job->canceled) || now > job->deadline) {
            unlink_job(scheduler, before, job);
            return job;
        }
    return NULL;
}

static void expire(bo_context *context, bo_scheduler *scheduler)
{
    const double now = bo_seconds();
    for (;;) {
        pthread_mutex_lock(&scheduler->lock);
        bo_job *job = next_expired(scheduler, now);
        pthread_mutex_unlock(&scheduler->lock);
        if (!job) return;
        bo_job_finish(context, scheduler->desc.counters, job,
                      atomic_load(&job->canceled) ? BO_JOB_CANCELED
                      : scheduler->draining       ? BO_JOB_STOPPING
                                                  : BO_JOB_TIMEOUT);
    }
}

static void admit(bo_context *context, bo_scheduler *scheduler)
{
    while (scheduler->slots.used < scheduler->desc.slots) {
        pthread_mutex_lock(&scheduler->lock);
        bo_job *job = next_job(scheduler);
        pthread_mutex_unlock(&scheduler->lock);
        if (!job) return;
        bo_slots_start(context, &scheduler->slots, job);
    }
}

/* ---- the loop ---------------------------------------------------------------------------------------------------- */

/* Waits for a job, for at most 0.2 seconds. */
static void wait_for_jobs(bo_scheduler *scheduler)
{
    enum { WAIT_NS = 200000000, SECOND_NS = 1000000000 };
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += WAIT_NS;
    until.tv_sec += until.tv_nsec / SECOND_NS;
    until.tv_nsec %= SECOND_NS;
    pthread_mutex_lock(&scheduler->lock);
    if (!scheduler->first) pthread_cond_timedwait(&scheduler->changed, &scheduler->lock, &until);
    pthread_mutex_unlock(&scheduler->lock);
}

static void iterate(bo_context *context, bo_scheduler *scheduler)
{
    expire(context, scheduler);
    bo_slots_check(context, &scheduler->slots, bo_seconds());
    admit(context, scheduler);
    atomic_store(&scheduler->desc.counters->running, scheduler->slots.used);
    bo_slots_step(context, &scheduler->slots);
    atomic_store(&scheduler->desc.counters->running, scheduler->slots.used);
}

static bool is_idle(bo_scheduler *scheduler)
{
    pthread_mutex_lock(&scheduler->lock);
    const bool idle = !scheduler->first && scheduler->slots.used == 0;
    pthread_mutex_unlock(&scheduler->lock);
    return idle;
}

/* Finishes running and queued jobs within the grace period, then ends the remaining ones. */
static void drain(bo_context *context, bo_scheduler *scheduler)
{
    const double end = bo_seconds() + scheduler->desc.grace;
    pthread_mutex_lock(&scheduler->lock);
    scheduler->stopping = true;
    pthread_mutex_unlock(&scheduler->lock);
    while (!is_idle(scheduler) && bo_seconds() < end) iterate(context, scheduler);
    scheduler->draining = true;
    expire(context, scheduler);
    bo_slots_end_all(context, &scheduler->slots, BO_JOB_STOPPING);
    atomic_store(&scheduler->desc.counters->running, 0);
}

bo_status bo_scheduler_run(bo_context *context, bo_scheduler *scheduler)
{
    while (!scheduler->desc.stop(scheduler->desc.user)) {
        iterate(context, scheduler);
        if (scheduler->slots.used == 0) wait_for_jobs(scheduler);
    }
    drain(context, scheduler);
    return BO_OK;
}

size_t bo_scheduler_state_bytes(const bo_scheduler *scheduler, size_t tokens)
{
    const bo_session_desc desc = {.capacity = tokens ? tokens : 1};
    bo_context *context;
    size_t bytes = 0;
    if (bo_context_create(&(bo_context_desc){.threads = 1}, &context) != BO_OK) return 0;
    bo_session_estimate(context, scheduler->desc.model, &desc, &bytes, NULL);
    bo_context_destroy(context);
    return bytes;
}
