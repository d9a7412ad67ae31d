/* The thread pool: every index runs once, on valid workers, each worker runs one task at a time, also when nested. */
#include "testing.h"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <time.h>

enum { MAX_WORKERS = 64 };

typedef struct job {
    bo_context *context, *other;
    atomic_uchar *done;
    atomic_int busy[MAX_WORKERS];
    atomic_int wrong;
    int threads;
} job;

static void mark(void *arg, size_t index, int worker)
{
    job *j = arg;
    if (worker < 0 || worker >= j->threads || atomic_fetch_add(&j->busy[worker], 1) != 0) {
        atomic_fetch_add(&j->wrong, 1);
        return;
    }
    atomic_fetch_add(&j->done[index], 1);
    atomic_fetch_sub(&j->busy[worker], 1);
}

static void test_every_index_once(void **state)
{
    (void)state;
    static const size_t counts[] = {0, 1, 2, 3, 7, 64, 1001, 50000};
    static const int numbers[] = {1, 2, 3, 4, 5, 16, MAX_WORKERS};
    for (size_t n = 0; n < sizeof numbers / sizeof *numbers; n++) {
        job j = {.context = test_context(numbers[n]), .threads = numbers[n]};
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
            j.done = calloc(counts[c] + 1, sizeof *j.done);
            bo_parallel(j.context, counts[c], mark, &j);
            for (size_t i = 0; i < counts[c]; i++) assert_int_equal(j.done[i], 1);
            assert_int_equal(j.done[counts[c]], 0);
            free(j.done);
        }
        assert_int_equal(j.wrong, 0);
        bo_context_destroy(j.context);
    }
}

/* Short consecutive batches: a late worker must not run indices of the next batch with the old task. */
static void test_many_batches(void **state)
{
    (void)state;
    static const int numbers[] = {2, 4, MAX_WORKERS};
    for (size_t n = 0; n < sizeof numbers / sizeof *numbers; n++) {
        job j = {.context = test_context(numbers[n]), .threads = numbers[n]};
        j.done = calloc(8, sizeof *j.done);
        for (int batch = 0; batch < 3000; batch++) {
            memset((void *)j.done, 0, 8 * sizeof *j.done);
            size_t count = (size_t)(batch % 8);
            bo_parallel(j.context, count, mark, &j);
            for (size_t i = 0; i < 8; i++) assert_int_equal(j.done[i], i < count);
        }
        assert_int_equal(j.wrong, 0);
        free(j.done);
        bo_context_destroy(j.context);
    }
}

/* Tasks that end when all of them have started: they need as many threads as there are tasks. */
static void meet(void *arg, size_t index, int worker)
{
    job *j = arg;
    (void)index;
    atomic_fetch_add(&j->busy[0], 1);
    for (double end = bo_seconds() + 60; atomic_load(&j->busy[0]) < atomic_load(&j->busy[1]);) {
        if (bo_seconds() > end) {
            atomic_fetch_add(&j->wrong, 1);
            return;
        }
        sched_yield();
    }
    (void)worker;
}

/* Sleeping workers wake each other: all of them if there are tasks for all, from sleep or while they fall asleep. */
static void test_all_wake(void **state)
{
    (void)state;
    static const int numbers[] = {2, 3, 7, MAX_WORKERS};
    for (size_t n = 0; n < sizeof numbers / sizeof *numbers; n++) {
        job j = {.context = test_context(numbers[n]), .threads = numbers[n]};
        for (int batch = 0; batch < 40 && !j.wrong; batch++) {
            struct timespec delay = {.tv_nsec = batch % 4 * 100000};
            nanosleep(&delay, NULL);
            int tasks = batch % 3 ? numbers[n] : numbers[n] / 2 + 1;
            atomic_store(&j.busy[0], 0);
            atomic_store(&j.busy[1], tasks);
            bo_parallel(j.context, (size_t)tasks, meet, &j);
        }
        assert_int_equal(j.wrong, 0);
        bo_context_destroy(j.context);
    }
}

static void query_inside(void *arg, size_t index, int worker)
{
    job *j = arg;
    (void)index, (void)worker;
    if (!isinf(bo_batch_seconds(j->context))) atomic_fetch_add(&j->wrong, 1);
}

/* A batch takes at least half a microsecond, and forever where tasks run on the calling thread. */
static void test_time_of_a_batch(void **state)
{
    (void)state;
    static const int numbers[] = {1, 2, MAX_WORKERS};
    for (size_t n = 0; n < sizeof numbers / sizeof *numbers; n++) {
        job j = {.context = test_context(numbers[n]), .threads = numbers[n]};
        double seconds = bo_batch_seconds(j.context);
        if (numbers[n] == 1)
            assert_true(isinf(seconds));
        else
            assert_true(isfinite(seconds) && seconds >= 5e-7 && seconds == bo_batch_seconds(j.context));
        if (numbers[n] > 1) bo_parallel(j.context, 10, query_inside, &j);
        assert_int_equal(j.wrong, 0);
        bo_context_destroy(j.context);
    }
}

enum { OUTER = 20, INNER = 30 };

typedef struct inner_job {
    job *outer;
    size_t index;
    int worker;
} inner_job;

static void inside(void *arg, size_t index, int worker)
{
    inner_job *i = arg;
    if (worker != i->worker) atomic_fetch_add(&i->outer->wrong, 1);
    atomic_fetch_add(&i->outer->done[i->index * INNER + index], 1);
}

static void nest(void *arg, size_t index, int worker)
{
    job *j = arg;
    inner_job inner = {j, index, worker};
    bo_parallel(j->context, INNER, inside, &inner);
}

static void test_nested_runs_inline(void **state)
{
    (void)state;
    for (int threads = 1; threads <= 4; threads++) {
        job j = {.context = test_context(threads), .threads = threads};
        j.done = calloc(OUTER * INNER, sizeof *j.done);
        bo_parallel(j.context, OUTER, nest, &j);
        for (size_t i = 0; i < OUTER * INNER; i++) assert_int_equal(j.done[i], 1);
        assert_int_equal(j.wrong, 0);
        free(j.done);
        bo_context_destroy(j.context);
    }
}

/* A task of one context starts work in another, idle context, with its workers and their numbers; then back again. */
static void cross(void *arg, size_t index, int worker)
{
    (void)worker;
    job *j = arg;
    if (index != 0) return;
    job nested = {.context = j->other, .threads = bo_context_describe(j->other)->threads, .done = j->done};
    bo_parallel(j->other, 100, mark, &nested);
    atomic_fetch_add(&j->wrong, atomic_load(&nested.wrong));
    int me = worker;
    inner_job again = {j, 1, me};
    bo_parallel(j->context, INNER, inside, &again); /* still nested in the first */
}

static void test_two_contexts(void **state)
{
    (void)state;
    job j = {.context = test_context(3), .other = test_context(2), .threads = 3};
    j.done = calloc(100 + 2 * INNER, sizeof *j.done);
    bo_parallel(j.context, 10, cross, &j);
    for (size_t i = 0; i < 100; i++) assert_int_equal(j.done[i], i >= INNER && i < 2 * INNER ? 2 : 1);
    assert_int_equal(j.wrong, 0);
    free(j.done);
    bo_context_destroy(j.context);
    bo_context_destroy(j.other);
}

/* Blocks in separate pages that are unmapped when released: a use after that crashes in every build. */
static void *page_allocate(void *user, size_t bytes)
{
    (void)user;
    size_t whole = bytes + 64;
    char *base = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) return NULL;
    *(size_t *)base = whole;
    return base + 64;
}

static void page_release(void *user, void *block)
{
    (void)user;
    char *base = (char *)block - 64;
    munmap(base, *(size_t *)base);
}

static void count_message(void *user, bo_log_level level, const char *message)
{
    if (level == BO_LOG_WARNING && strstr(message, "threads")) ++*(int *)user;
}

/* A stack larger than the address space: no thread starts, as with a limit on processes. */
static void test_threads_that_do_not_start(void **state)
{
    (void)state;
    pthread_attr_t before, huge;
    assert_int_equal(pthread_getattr_default_np(&before), 0);
    assert_int_equal(pthread_getattr_default_np(&huge), 0);
    assert_int_equal(pthread_attr_setstacksize(&huge, (size_t)1 << 56), 0);
    if (pthread_setattr_default_np(&huge) != 0) skip();
    int warnings = 0;
    bo_context_desc desc = {
        .threads = 4, .log = count_message, .user = &warnings, .allocator = {page_allocate, page_release, NULL}};
    bo_context *context = NULL;
    bo_status status = bo_context_create(&desc, &context);
    assert_int_equal(pthread_setattr_default_np(&before), 0);
    assert_int_equal(status, BO_OK);
    assert_int_equal(bo_context_describe(context)->threads, 1);
    assert_int_equal(warnings, 1);
    job j = {.context = context, .threads = 1};
    j.done = calloc(100, sizeof *j.done);
    bo_parallel(context, 100, mark, &j);
    for (size_t i = 0; i < 100; i++) assert_int_equal(j.done[i], 1);
    assert_int_equal(j.wrong, 0);
    free(j.done);
    bo_context_destroy(context);
    pthread_attr_destroy(&before);
    pthread_attr_destroy(&huge);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_index_once),
        cmocka_unit_test(test_many_batches),
        cmocka_unit_test(test_all_wake),
        cmocka_unit_test(test_time_of_a_batch),
        cmocka_unit_test(test_nested_runs_inline),
        cmocka_unit_test(test_two_contexts),
        cmocka_unit_test(test_threads_that_do_not_start),
    };
    return cmocka_run_group_tests_name("base.pool", tests, NULL, NULL);
}
