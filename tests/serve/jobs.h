/* A scheduler on its own thread, jobs that record what they get, and the tokens that a session would choose. */
#ifndef BO_TEST_JOBS_H
#define BO_TEST_JOBS_H

#include "model/models.h"
#include "serve/scheduler.h"
#include <pthread.h>
#include <unistd.h>

enum { MAX_PROMPT = 700, MAX_GENERATED = 64, FOREVER = 1 << 20 };

typedef struct server {
    bo_context *context, *scheduler_context; /* of the test, and of the scheduler */
    const bo_model *model;
    bo_scheduler *scheduler;
    bo_counters counters;
    pthread_t thread;
    atomic_bool stop;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    size_t finished; /* jobs that are done */
} server;

typedef struct task {
    bo_job job;
    server *server;
    int32_t prompt[MAX_PROMPT];
    bo_prefix chain[MAX_PROMPT + 1];
    int32_t generated[MAX_GENERATED], scored[MAX_PROMPT];
    float logprobs[MAX_GENERATED], scores[MAX_PROMPT];
    size_t generated_count, scored_count;
    size_t stop_after;   /* the receiver stops the job after this many tokens; 0: never */
    size_t cancel_after; /* the client disconnects after this many tokens; 0: never */
    size_t late_after;   /* its time is over after this many tokens; 0: never */
    size_t end_after;    /* the server stops after this many tokens; 0: never */
    bool done;
    size_t order; /* number of jobs that were done before it */
} task;

/* ---- the scheduler ----------------------------------------------------------------------------------------------- */

static inline bool test_stops(void *user)
{
    const server *s = user;
    return atomic_load(&s->stop);
}

static inline void *test_run(void *user)
{
    server *s = user;
    return bo_scheduler_run(s->scheduler_context, s->scheduler) == BO_OK ? NULL : user;
}

/* Creates the scheduler, which does not run yet. */
static inline void server_create(server *s, bo_context *context, const bo_model *model, bo_scheduler_desc desc)
{
    memset(s, 0, sizeof *s);
    s->context = context;
    s->scheduler_context = test_context(2);
    s->model = model;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    desc.model = model;
    desc.counters = &s->counters;
    desc.stop = test_stops;
    desc.user = s;
    if (!desc.slots) desc.slots = 3;
    if (!desc.capacity) desc.capacity = MAX_PROMPT + MAX_GENERATED;
    if (!desc.queue) desc.queue = 100;
    assert_ok(s->scheduler_context, bo_scheduler_create(s->scheduler_context, &desc, &s->scheduler));
}

static inline void server_run(server *s)
{
    assert_int_equal(pthread_create(&s->thread, NULL, test_run, s), 0);
}

static inline void server_start(server *s, bo_context *context, const bo_model *model, bo_scheduler_desc desc)
{
    server_create(s, context, model, desc);
    server_run(s);
}

/* Stops the scheduler, which wakes up for a job that is canceled, but may not have waited yet. */
static inline void server_stop(server *s)
{
    static bo_job nobody;
    void *failed;
    atomic_store(&s->stop, true);
    do {
        bo_scheduler_cancel(s->scheduler, &nobody);
        usleep(100);
    } while (pthread_tryjoin_np(s->thread, &failed) != 0);
    assert_null(failed);
    assert_int_equal(s->counters.queued, 0);
    assert_int_equal(s->counters.running, 0);
}

static inline void server_destroy(server *s)
{
    bo_scheduler_destroy(s->scheduler);
    bo_context_destroy(s->scheduler_context);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
}

static inline void server_end(server *s)
{
    server_stop(s);
    server_destroy(s);
}

/* ---- jobs -------------------------------------------------------------------------------------------------------- */

static inline bool task_token(bo_context *context, bo_job *job, const bo_job_token *token)
{
    task *t = job->user;
    (void)context;
    if (token->of_prompt) {
        assert_true(t->scored_count < MAX_PROMPT && token->scored);
        t->scored[t->scored_count] = token->id;
        t->scores[t->scored_count++] = token->logprob;
        return true;
    }
    if (t->generated_count < MAX_GENERATED) {
        t->generated[t->generated_count] = token->id;
        t->logprobs[t->generated_count] = token->logprob;
    }
    t->generated_count++;
    if (t->generated_count == t->cancel_after) atomic_store(&job->canceled, true);
    if (t->generated_count == t->late_after) job->deadline = bo_seconds() - 1;
    if (t->generated_count == t->end_after) atomic_store(&t->server->stop, true);
    return t->generated_count != t->stop_after;
}

static inline void task_done(bo_context *context, bo_job *job)
{
    task *t = job->user;
    server *s = t->server;
    (void)context;
    pthread_mutex_lock(&s->lock);
    t->done = true;
    t->order = s->finished++;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

/* A greedy job that reads a prompt after the text of a state, if any. */
static inline task *task_create(server *s, const int32_t *prompt, size_t count, size_t max_tokens, bo_snapshot *start)
{
    task *t = calloc(1, sizeof *t);
    const bo_prefix_secret *secret = bo_store_secret(bo_scheduler_store(s->scheduler));
    assert_true(count <= MAX_PROMPT);
    t->server = s;
    memcpy(t->prompt, prompt, count * sizeof *prompt);
    t->chain[0] = start ? start->prefix : bo_prefix_of_nothing();
    for (size_t i = 0; i < count; i++) t->chain[i + 1] = bo_prefix_next(secret, t->chain[i], prompt[i]);
    t->job = (bo_job){.prompt = t->prompt,
                      .prompt_count = count,
                      .chain = t->chain,
                      .start = start,
                      .max_tokens = max_tokens,
                      .end_token = -1,
                      .deadline = 1e300,
                      .token = task_token,
                      .done = task_done,
                      .user = t};
    assert_ok(s->context, bo_sampler_create(s->context, &(bo_sampler_desc){.greedy = true}, &t->job.sampler));
    return t;
}

/* Replaces the sampler by one that draws. */
static inline void task_draw(task *t, uint64_t seed)
{
    const bo_sampler_desc desc = {.seed = seed, .temperature = 1.2, .top_k = 50};
    bo_sampler_destroy(t->job.sampler);
    assert_ok(t->server->context, bo_sampler_create(t->server->context, &desc, &t->job.sampler));
}

static inline void task_free(task *t)
{
    bo_sampler_destroy(t->job.sampler);
    bo_snapshot_release(t->job.state);
    free(t);
}

static inline void task_submit(task *t)
{
    bo_job *job = &t->job;
    assert_int_equal(bo_scheduler_submit(t->server->scheduler, &job, 1), BO_SUBMIT_DONE);
}

static inline bool task_is_done(task *t)
{
    pthread_mutex_lock(&t->server->lock);
    const bool done = t->done;
    pthread_mutex_unlock(&t->server->lock);
    return done;
}

static inline bo_job_end task_wait(task *t)
{
    server *s = t->server;
    pthread_mutex_lock(&s->lock);
    while (!t->done) pthread_cond_wait(&s->changed, &s->lock);
    pthread_mutex_unlock(&s->lock);
    assert_int_equal(t->job.generated, t->generated_count);
    return t->job.end;
}

static inline bo_job_end task_finish(task *t)
{
    task_submit(t);
    return task_wait(t);
}

/* ---- the same by a session --------------------------------------------------------------------------------------- */

static inline double test_logprob(const float *logits, int32_t id)
{
    double largest = -INFINITY, total = 0;
    for (size_t i = 0; i < VOCAB; i++) largest = fmax(largest, (double)logits[i]);
    for (size_t i = 0; i < VOCAB; i++) total += exp((double)logits[i] - largest);
    return (double)logits[id] - largest - log(total);
}

/* A session that has read a text in chunks of the size that the scheduler uses, all but its last token. */
static inline bo_session *test_reader(const server *s, const int32_t *ids, size_t count)
{
    enum { CHUNK = BO_SIZE(256, 8) };
    bo_session *session;
    const bo_session_desc desc = {.capacity = 2 * MAX_PROMPT};
    assert_ok(s->context, bo_session_create(s->context, s->model, &desc, &session));
    for (size_t at = 0, more; at + 1 < count; at += more) {
        more = bo_min(count - 1 - at, CHUNK);
        assert_ok(s->context, bo_session_feed(s->context, session, ids + at, more, NULL));
    }
    return session;
}

/* The tokens of a greedy job are the most likely ones of a session after `before` and the prompt. Logits differ by up
 * to 2e-4, as steps of lanes add in another order (test_lane_reader.c); so a token may be less likely by twice as much.
 */
static inline void task_check(const char *name, const task *t, const int32_t *before, size_t count)
{
    const server *s = t->server;
    const size_t all = count + t->job.prompt_count;
    int32_t *ids = calloc(all, sizeof *ids);
    float logits[VOCAB];
    if (count) memcpy(ids, before, count * sizeof *ids);
    memcpy(ids + count, t->prompt, t->job.prompt_count * sizeof *ids);
    bo_session *session = test_reader(s, ids, all);
    int32_t last = ids[all - 1];
    for (size_t i = 0; i < t->generated_count; i++) {
        size_t best = 0;
        assert_ok(s->context, bo_session_feed(s->context, session, &last, 1, logits));
        for (size_t v = 0; v < VOCAB; v++) best = logits[v] > logits[best] ? v : best;
        last = t->generated[i];
        if (!(logits[best] - logits[last] <= 4e-4f))
            fail_msg("%s: token %zu is %d, expected %zu", name, i, (int)last, best);
        if (t->job.top >= 0) assert_close((double)t->logprobs[i], test_logprob(logits, last), 1e-3);
    }
    bo_session_destroy(session);
    free(ids);
}

/* Ids without a simple pattern, which depend on the seed. */
static inline void test_text(uint64_t seed, size_t count, int32_t *ids)
{
    bo_rng rng = bo_rng_make(seed, 77);
    for (size_t i = 0; i < count; i++) ids[i] = (int32_t)bo_rng_below(&rng, VOCAB);
}

#endif
