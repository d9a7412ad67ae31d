/* The scheduler: the bound of its queue, fairness, canceled jobs, deadlines, its end with and without grace, clients in
 * many threads, failures of memory. */
#include "jobs.h"
#include "base/counting.h"
#include <dirent.h>
#include <sys/stat.h>

typedef struct setting {
    bo_context *context;
    bo_model *model; /* whose texts have no end */
    int32_t prompt[MAX_PROMPT];
} setting;

static int setup(void **state)
{
    setting *s = *state = calloc(1, sizeof *s);
    const bo_model_desc desc = test_desc("favor");
    s->context = test_context(1);
    s->model = test_model(s->context, &desc, NULL);
    test_text(1, MAX_PROMPT, s->prompt);
    return 0;
}

static int teardown(void **state)
{
    setting *s = *state;
    bo_model_destroy(s->model);
    bo_context_destroy(s->context);
    free(s);
    return 0;
}

static void test_queue(void **state)
{
    enum { QUEUE = 3 };
    setting *s = *state;
    server v;
    task *tasks[QUEUE + 1];
    bo_job *jobs[QUEUE + 1];
    server_create(&v, s->context, s->model, (bo_scheduler_desc){.slots = 1, .queue = QUEUE});
    for (size_t i = 0; i <= QUEUE; i++) {
        tasks[i] = task_create(&v, s->prompt, 4, 3, NULL);
        jobs[i] = &tasks[i]->job;
    }
    /* all of them, or none */
    assert_int_equal(bo_scheduler_submit(v.scheduler, jobs, QUEUE + 1), BO_SUBMIT_FULL);
    assert_int_equal(v.counters.queued, 0);
    assert_int_equal(v.counters.rejected, 1);
    assert_int_equal(bo_scheduler_submit(v.scheduler, jobs, 2), BO_SUBMIT_DONE);
    assert_int_equal(bo_scheduler_submit(v.scheduler, jobs + 2, 2), BO_SUBMIT_FULL);
    assert_int_equal(bo_scheduler_submit(v.scheduler, jobs + 2, 1), BO_SUBMIT_DONE);
    assert_int_equal(bo_scheduler_submit(v.scheduler, jobs + 3, 1), BO_SUBMIT_FULL);
    assert_int_equal(v.counters.queued, QUEUE);
    server_run(&v);
    for (size_t i = 0; i < QUEUE; i++) {
        assert_int_equal(task_wait(tasks[i]), BO_JOB_LENGTH);
        assert_int_equal(tasks[i]->order, i); /* one slot: in the order of their arrival */
    }
    assert_false(tasks[QUEUE]->done);
    assert_int_equal(task_finish(tasks[QUEUE]), BO_JOB_LENGTH); /* there is space again */
    server_stop(&v);
    assert_int_equal(bo_scheduler_submit(v.scheduler, jobs, 1), BO_SUBMIT_STOPPING);
    assert_int_equal(v.counters.generated_tokens, 3 * (QUEUE + 1));
    server_destroy(&v);
    for (size_t i = 0; i <= QUEUE; i++) task_free(tasks[i]);
}

/* A client with many jobs does not delay one with a single job, which arrives last. */
static void test_fairness(void **state)
{
    enum { MANY = 20, SLOTS = 4 };
    setting *s = *state;
    server v;
    task *many[MANY];
    server_create(&v, s->context, s->model, (bo_scheduler_desc){.slots = SLOTS});
    for (size_t i = 0; i < MANY; i++) {
        many[i] = task_create(&v, s->prompt + i, 5, 10, NULL);
        many[i]->job.client.id = 1;
        task_submit(many[i]);
    }
    task *second = task_create(&v, s->prompt, 5, 10, NULL), *third = task_create(&v, s->prompt, 5, 10, NULL);
    second->job.client.id = 2;
    third->job.client.id = 3;
    task_submit(second);
    task_submit(third);
    server_run(&v);
    task_wait(second);
    task_wait(third);
    /* each has one of the first slots, and jobs are equally long */
    assert_true(second->order < SLOTS);
    assert_true(third->order < SLOTS);
    for (size_t i = 0; i < MANY; i++) {
        assert_int_equal(task_wait(many[i]), BO_JOB_LENGTH);
        /* of a client, the oldest first; jobs that share the slots end in any order */
        if (i > 0) assert_true(many[i]->order + SLOTS > many[i - 1]->order);
    }
    server_end(&v);
    for (size_t i = 0; i < MANY; i++) task_free(many[i]);
    task_free(second);
    task_free(third);
}

/* With memory for one text, jobs run one after the other in free slots, none overtakes another, and none fails. */
static void test_memory(void **state)
{
    enum { JOBS = 4, LONG = 40, SHORT = 2 };
    setting *s = *state;
    server v;
    task *tasks[JOBS];
    server_create(&v, s->context, s->model, (bo_scheduler_desc){.slots = JOBS});
    bo_slots_memory *memory = (bo_slots_memory *)bo_scheduler_memory(v.scheduler);
    assert_int_equal(memory->slots, JOBS);
    assert_true(memory->largest <= memory->budget);
    memory->tokens = 0; /* each takes as much */
    memory->largest = memory->budget = memory->fixed + memory->pages;
    for (size_t i = 0; i < JOBS; i++) {
        tasks[i] = task_create(&v, s->prompt + i, 5, i ? SHORT : LONG, NULL);
        task_submit(tasks[i]);
    }
    server_run(&v);
    for (size_t i = 0; i < JOBS; i++) {
        assert_int_equal(task_wait(tasks[i]), BO_JOB_LENGTH);
        assert_int_equal(tasks[i]->order, i);
    }
    server_end(&v);
    for (size_t i = 0; i < JOBS; i++) task_free(tasks[i]);
}

/* A long prompt does not delay short ones: prompts are read in turns. */
static void test_turns(void **state)
{
    setting *s = *state;
    server v;
    enum { LONG = 700 };
    server_create(&v, s->context, s->model, (bo_scheduler_desc){.slots = 3});
    task *tall = task_create(&v, s->prompt, LONG, 1, NULL), *small = task_create(&v, s->prompt + 3, 20, 1, NULL);
    task_submit(tall);
    task_submit(small);
    server_run(&v);
    task_wait(tall);
    task_wait(small);
    assert_int_equal(small->order, 0);
    server_end(&v);
    task_free(tall);
    task_free(small);
}

static void test_canceled(void **state)
{
    setting *s = *state;
    server v;
    server_start(&v, s->context, s->model, (bo_scheduler_desc){.slots = 1});
    task *running = task_create(&v, s->prompt, 10, FOREVER, NULL), *queued = task_create(&v, s->prompt, 10, 5, NULL);
    task *canceled_task = task_create(&v, s->prompt, 10, FOREVER, NULL),
         *last = task_create(&v, s->prompt, 10, 5, NULL);
    task_submit(running);
    task_submit(queued);
    bo_scheduler_cancel(v.scheduler, &queued->job); /* while it waits */
    assert_int_equal(task_wait(queued), BO_JOB_CANCELED);
    assert_int_equal(queued->generated_count, 0);
    assert_false(task_is_done(running));
    bo_scheduler_cancel(v.scheduler, &running->job); /* while it runs */
    assert_int_equal(task_wait(running), BO_JOB_CANCELED);
    canceled_task->cancel_after = 3; /* while a token is reported to it */
    assert_int_equal(task_finish(canceled_task), BO_JOB_CANCELED);
    assert_int_equal(canceled_task->generated_count, 3);
    assert_int_equal(task_finish(last), BO_JOB_LENGTH);
    task_check("favor", last, NULL, 0);
    server_stop(&v);
    assert_int_equal(v.counters.canceled, 3);
    server_destroy(&v);
    task *const all[] = {running, queued, canceled_task, last};
    for (size_t i = 0; i < 4; i++) task_free(all[i]);
}

static void test_deadlines(void **state)
{
    setting *s = *state;
    server v;
    server_start(&v, s->context, s->model, (bo_scheduler_desc){.slots = 1});
    task *late = task_create(&v, s->prompt, 10, 5, NULL), *running = task_create(&v, s->prompt, 10, FOREVER, NULL);
    task *queued = task_create(&v, s->prompt, 10, 5, NULL), *last = task_create(&v, s->prompt, 10, 5, NULL);
    late->job.deadline = bo_seconds() - 1;
    assert_int_equal(task_finish(late), BO_JOB_TIMEOUT);
    assert_int_equal(late->generated_count, 0);
    const double start = bo_seconds();
    task *slow = task_create(&v, s->prompt, 10, FOREVER, NULL);
    queued->job.deadline = start + 0.1;
    task_submit(running);
    task_submit(queued);
    assert_int_equal(task_wait(queued), BO_JOB_TIMEOUT); /* also while it waits for a slot */
    assert_true(bo_seconds() >= start + 0.1);
    assert_int_equal(queued->generated_count, 0);
    bo_scheduler_cancel(v.scheduler, &running->job);
    assert_int_equal(task_wait(running), BO_JOB_CANCELED);
    slow->late_after = 3; /* while it runs */
    slow->job.keep_state = true;
    assert_int_equal(task_finish(slow), BO_JOB_TIMEOUT);
    assert_int_equal(slow->generated_count, 3);
    assert_null(slow->job.state);
    assert_int_equal(task_finish(last), BO_JOB_LENGTH);
    server_end(&v);
    task *const all[] = {late, running, queued, slow, last};
    for (size_t i = 0; i < 5; i++) task_free(all[i]);
}

/* ---- the end ----------------------------------------------------------------------------------------------------- */

static void wait_for_tokens(const server *v, size_t count)
{
    while (atomic_load(&v->counters.generated_tokens) < count) usleep(200);
}

static void test_grace(void **state)
{
    setting *s = *state;
    server v;
    server_create(&v, s->context, s->model, (bo_scheduler_desc){.slots = 1, .grace = 60});
    task *one = task_create(&v, s->prompt, 10, 50, NULL), *two = task_create(&v, s->prompt, 10, 5, NULL);
    task_submit(one);
    task_submit(two);
    server_run(&v);
    wait_for_tokens(&v, 1);
    server_stop(&v); /* what runs and waits is finished */
    assert_int_equal(task_wait(one), BO_JOB_LENGTH);
    assert_int_equal(task_wait(two), BO_JOB_LENGTH);
    task_check("favor", two, NULL, 0);
    server_destroy(&v);
    task_free(one);
    task_free(two);
}

static void remove_directory(const char *directory)
{
    DIR *listing = opendir(directory);
    for (struct dirent *entry; (entry = readdir(listing)) != NULL;) {
        char path[512];
        snprintf(path, sizeof path, "%s/%.200s", directory, entry->d_name);
        if (entry->d_name[0] != '.') remove(path);
    }
    closedir(listing);
    rmdir(directory);
}

/* Without a grace period, jobs end immediately. Their states are cached, so that another scheduler with the same
 * directory continues from them. */
static void test_no_grace(void **state)
{
    enum { LENGTH = 300, MADE = 50 };
    static const char *const kinds[] = {"favor", "softmax", "hybrid"};
    setting *s = *state;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        char directory[] = "/tmp/bochner-test-XXXXXX";
        const bo_model_desc desc = test_desc(kinds[k]);
        bo_model *model = test_model(s->context, &desc, NULL);
        int32_t text[MAX_PROMPT];
        server v;
        assert_non_null(mkdtemp(directory));
        const bo_scheduler_desc settings = {
            .slots = 1, .memory_bytes = 1 << 24, .disk_bytes = 1 << 26, .directory = directory, .capacity = 3000};
        server_start(&v, s->context, model, settings);
        task *one = task_create(&v, s->prompt, LENGTH, FOREVER, NULL), *two = task_create(&v, s->prompt, 5, 5, NULL);
        one->end_after = MADE;
        /* in one call: the first may end before a second call */
        assert_int_equal(bo_scheduler_submit(v.scheduler, (bo_job *[]){&one->job, &two->job}, 2), BO_SUBMIT_DONE);
        assert_int_equal(task_wait(one), BO_JOB_STOPPING);
        assert_int_equal(task_wait(two), BO_JOB_STOPPING);
        server_stop(&v);
        assert_int_equal(one->generated_count, MADE);
        assert_int_equal(two->generated_count, 0);
        bo_store_stats stats;
        bo_store_get_stats(bo_scheduler_store(v.scheduler), &stats);
        assert_true(stats.prefixes >= 1);
        server_destroy(&v);
        server_start(&v, s->context, model, settings);
        memcpy(text, s->prompt, LENGTH * sizeof *text);
        memcpy(text + LENGTH, one->generated, MADE * sizeof *text);
        task *next = task_create(&v, text, LENGTH + MADE, 10, NULL);
        assert_int_equal(task_finish(next), BO_JOB_LENGTH);
        assert_int_equal(next->job.cached, LENGTH + MADE - 1); /* the last token was not read */
        task_check(kinds[k], next, NULL, 0);
        server_end(&v);
        task_free(one);
        task_free(two);
        task_free(next);
        bo_model_destroy(model);
        remove_directory(directory);
    }
}

/* ---- threads ----------------------------------------------------------------------------------------------------- */

typedef struct client {
    pthread_t thread;
    server *server;
    const int32_t *text;
    uint64_t number;
    size_t finished;
} client;

/* Sends jobs one after the other, some with shared prefixes; cancels some. */
static void *use_scheduler(void *arg)
{
    enum { JOBS = 12 };
    client *c = arg;
    bo_rng rng = bo_rng_make(c->number, 6);
    for (int i = 0; i < JOBS; i++) {
        const size_t count = 1 + bo_rng_below(&rng, 300), max_tokens = bo_rng_below(&rng, 20);
        pthread_mutex_lock(&c->server->lock); /* of the context */
        task *t = task_create(c->server, c->text + 40 * bo_rng_below(&rng, 2), count, max_tokens, NULL);
        pthread_mutex_unlock(&c->server->lock);
        t->job.client.id = c->number;
        task_submit(t);
        const bool cancels = bo_rng_below(&rng, 4) == 0;
        if (cancels) bo_scheduler_cancel(c->server->scheduler, &t->job);
        const bo_job_end end = task_wait(t);
        assert_true(end == BO_JOB_LENGTH || (cancels && end == BO_JOB_CANCELED));
        if (end == BO_JOB_LENGTH) assert_int_equal(t->generated_count, max_tokens);
        c->finished++;
        task_free(t);
    }
    return NULL;
}

static void test_threads(void **state)
{
    enum { CLIENTS = 5 };
    setting *s = *state;
    server v;
    client clients[CLIENTS];
    server_start(&v, s->context, s->model, (bo_scheduler_desc){.slots = 3, .memory_bytes = 1 << 20});
    for (size_t i = 0; i < CLIENTS; i++) {
        clients[i] = (client){.server = &v, .text = s->prompt, .number = i};
        assert_int_equal(pthread_create(&clients[i].thread, NULL, use_scheduler, &clients[i]), 0);
    }
    for (size_t i = 0; i < CLIENTS; i++) {
        pthread_join(clients[i].thread, NULL);
        assert_int_equal(clients[i].finished, 12);
    }
    server_end(&v);
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

typedef struct exhausted {
    counting counted;
    bo_context *context;
    const bo_model *model;
    bo_counters counters;
} exhausted;

static bo_status create(void *arg)
{
    exhausted *e = arg;
    bo_scheduler *scheduler;
    const bo_scheduler_desc desc = {.model = e->model,
                                    .slots = 2,
                                    .queue = 5,
                                    .memory_bytes = 1 << 20,
                                    .counters = &e->counters,
                                    .stop = test_stops};
    const bo_status status = bo_scheduler_create(e->context, &desc, &scheduler);
    if (status != BO_OK) assert_null(scheduler);
    bo_scheduler_destroy(scheduler);
    return status;
}

static void test_creation(void **state)
{
    setting *s = *state;
    exhausted e = {.model = s->model};
    e.context = counting_context(&e.counted, 1);
    counting_inject(&(injection){.counted = &e.counted,
                                 .context = e.context,
                                 .work = create,
                                 .what = &e,
                                 .all = 60,
                                 .stride = 17,
                                 .spared = "the sequences of a call"}); /* the count of operations may be missing */
    bo_context_destroy(e.context);
    assert_int_equal(e.counted.live, 0);
}

/* An allocation fails while jobs run: they fail with a message, or succeed without it; later jobs succeed. */
static void test_exhaustion(void **state)
{
    setting *s = *state;
    counting counted = {0};
    server v;
    server_create(&v, s->context, s->model, (bo_scheduler_desc){.slots = 2});
    bo_scheduler_destroy(v.scheduler);
    bo_context_destroy(v.scheduler_context);
    v.scheduler_context = counting_context(&counted, 1);
    const bo_scheduler_desc desc = {.model = s->model,
                                    .slots = 2,
                                    .queue = 5,
                                    .memory_bytes = 1 << 20,
                                    .counters = &v.counters,
                                    .stop = test_stops,
                                    .user = &v};
    assert_ok(v.scheduler_context, bo_scheduler_create(v.scheduler_context, &desc, &v.scheduler));
    server_run(&v);
    size_t failures = 0;
    bool reached = true;
    for (size_t k = 1; reached; k++) {
        task *one = task_create(&v, s->prompt + k, 40, 6, NULL), *two = task_create(&v, s->prompt + 2 * k, 33, 4, NULL);
        bo_job *jobs[] = {&one->job, &two->job};
        one->job.keep_state = true;
        one->job.frequency_penalty = 1;
        counted.once = true;
        const size_t last = counted.calls + k;
        counted.fail_at = last;
        assert_int_equal(bo_scheduler_submit(v.scheduler, jobs, 2), BO_SUBMIT_DONE);
        for (int i = 0; i < 2; i++) {
            task *t = i ? two : one;
            const bo_job_end end = task_wait(t);
            assert_true(end == BO_JOB_LENGTH || end == BO_JOB_FAILED || end == BO_JOB_BAD_STATE);
            if (end == BO_JOB_LENGTH && i) task_check("favor", t, NULL, 0);
            if (end != BO_JOB_LENGTH) assert_true(strlen(t->job.message) > 10);
            failures += end != BO_JOB_LENGTH;
        }
        while (atomic_load(&v.counters.running)) usleep(100); /* the step is over: nothing is allocated */
        reached = counted.calls >= last;
        counted.fail_at = 0;
        task_free(one);
        task_free(two);
        assert_true(k < 200);
    }
    assert_true(failures > 0);
    task *last = task_create(&v, s->prompt, 40, 6, NULL);
    assert_int_equal(task_finish(last), BO_JOB_LENGTH);
    task_check("favor", last, NULL, 0);
    task_free(last);
    server_end(&v);
    assert_int_equal(counted.live, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_queue, setup, teardown),
        cmocka_unit_test_setup_teardown(test_fairness, setup, teardown),
        cmocka_unit_test_setup_teardown(test_memory, setup, teardown),
        cmocka_unit_test_setup_teardown(test_turns, setup, teardown),
        cmocka_unit_test_setup_teardown(test_canceled, setup, teardown),
        cmocka_unit_test_setup_teardown(test_deadlines, setup, teardown),
        cmocka_unit_test_setup_teardown(test_grace, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_grace, setup, teardown),
        cmocka_unit_test_setup_teardown(test_threads, setup, teardown),
        cmocka_unit_test_setup_teardown(test_creation, setup, teardown),
        cmocka_unit_test_setup_teardown(test_exhaustion, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
