/* Traces: valid at any time, nested, one line per thread, one file per context. */
#include <stdlib.h>
#include "traces.h"
#include "counting.h"
#include "base/trace.h"
#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

static bo_context *traced(const char *path, int threads)
{
    bo_context *context = NULL;
    const bo_context_desc desc = {.threads = threads, .trace = path};
    assert_int_equal(bo_context_create(&desc, &context), BO_OK);
    return context;
}

static void no_trace_by_default(void **state)
{
    (void)state;
    unsetenv("BOCHNER_TRACE");
    bo_context *context = test_context(2);
    assert_null(bo_context_describe(context)->trace);
    assert_false(bo_trace_is_on(context));
    bo_span_begin(context, "unseen");
    bo_span_end(context);
    bo_span_end(context);
    bo_context_destroy(context);
}

static void spans(void **state)
{
    (void)state;
    char path[64];
    bo_context *context = traced(trace_path(path), 1);
    assert_string_equal(bo_context_describe(context)->trace, path);
    bo_span_begin(context, "outer");
    for (int i = 0; i < 3; i++) {
        BO_SPAN(context, "test", "inner");
        bo_trace_args args = {0};
        bo_trace_begin(context, "test", "innermost");
        bo_trace_add_text(&args, "scope", "layer \"0\" \\ mixer");
        bo_trace_add_count(&args, "bytes", UINT64_C(1234567890123));
        bo_trace_end(context, &args);
    }
    bo_span_end(context);
    bo_span_end(context); /* no span is open: ignored */
    bo_span_begin(context, "left open");
    bo_context_destroy(context);
    trace_events t = trace_parse(path);
    assert_int_equal(t.count, 8);
    assert_int_equal(trace_count(&t, "caller", "outer"), 1);
    assert_int_equal(trace_count(&t, "test", "inner"), 3);
    assert_int_equal(trace_count(&t, "caller", "left open"), 1);
    assert_string_equal(t.event[0].name, "outer");
    assert_string_equal(t.event[1].name, "inner");
    assert_string_equal(t.event[2].name, "innermost");
    assert_string_equal(trace_fact(&t.event[2], "scope"), "layer \"0\" \\ mixer");
    assert_true(bo_json_member(t.event[2].args, "bytes")->number == 1234567890123.0);
    trace_free(&t);
    unlink(path);
}

/* Durations agree with the clock. */
static void times(void **state)
{
    (void)state;
    char path[64];
    bo_context *context = traced(trace_path(path), 1);
    const double start = bo_seconds();
    bo_span_begin(context, "nap");
    nanosleep(&(struct timespec){.tv_nsec = 20 * 1000 * 1000}, NULL);
    bo_span_end(context);
    const double elapsed = bo_seconds() - start;
    bo_context_destroy(context);
    trace_events t = trace_parse(path);
    const double seconds = 1e-9 * (double)(t.event[0].end - t.event[0].start);
    assert_true(seconds >= 0.02 && seconds <= elapsed + 1e-9);
    assert_true(fabs(1e-9 * (double)t.event[0].start - start) <=
                elapsed + 1e-6); /* microseconds of the monotonic clock */
    trace_free(&t);
    unlink(path);
}

/* Names may have any bytes and any length. */
static void names(void **state)
{
    (void)state;
    static const char *const texts[] = {"\"quoted\"", "back\\slash", "line\nbreak\ttab\x01",
                                        "\xff\xc3(",  "héllo, 注意", ""};
    char path[64], longest[400];
    memset(longest, '\x02', sizeof longest - 1); /* every byte is escaped */
    longest[sizeof longest - 1] = 0;
    bo_context *context = traced(trace_path(path), 1);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        bo_span_begin(context, texts[i]);
        bo_span_end(context);
    }
    for (int i = 0; i < 100; i++) {
        bo_trace_args args = {0};
        bo_trace_begin(context, "test", longest);
        for (int k = 0; k < 40; k++)
            bo_trace_add_text(&args, "an argument that does not fit is omitted", "0123456789012345678901234");
        bo_trace_add_text(&args, "long", longest);
        assert_true(args.used <= sizeof args.text);
        bo_trace_end(context, &args);
    }
    bo_context_destroy(context);
    trace_events t = trace_parse(path);
    assert_int_equal(t.count, sizeof texts / sizeof *texts + 100);
    for (size_t i = 0; i < 3; i++) assert_string_equal(t.event[i].name, texts[i]);
    assert_string_equal(t.event[3].name, "\xef\xbf\xbd\xef\xbf\xbd("); /* replacement characters */
    assert_string_equal(t.event[4].name, texts[4]);
    trace_free(&t);
    unlink(path);
}

/* Spans that are nested too deeply are omitted; the others do not change. */
static void too_deep(void **state)
{
    (void)state;
    char path[64];
    bo_context *context = traced(trace_path(path), 1);
    for (int i = 0; i < 200; i++) bo_span_begin(context, "deep");
    for (int i = 0; i < 200; i++) bo_span_end(context);
    bo_span_begin(context, "after");
    bo_span_end(context);
    bo_context_destroy(context);
    trace_events t = trace_parse(path);
    assert_true(trace_count(&t, NULL, "deep") >= 16 && trace_count(&t, NULL, "deep") < 200);
    assert_string_equal(t.event[t.count - 1].name, "after");
    trace_free(&t);
    unlink(path);
}

/* ---- threads ----------------------------------------------------------------------------------------------------- */

static void spin(void *arg, size_t index, int worker)
{
    bo_context *context = arg;
    (void)worker;
    if (index == 7) bo_span_begin(context, "within a task");
    const double end = bo_seconds() + (index % 5 == 0 ? 2e-4 : 2e-6);
    while (bo_seconds() < end) continue;
    if (index == 7) bo_span_end(context);
}

/* Every task is in one event of the thread that ran it; with one thread there is no pool, and the caller's spans
 * contain everything. */
static void tasks(void **state)
{
    (void)state;
    enum { JOBS = 40, TASKS = 50 };
    for (int threads = 1; threads <= 4; threads += 3) {
        char path[64];
        bo_context *context = traced(trace_path(path), threads);
        for (int job = 0; job < JOBS; job++) {
            BO_SPAN(context, "test", "work");
            bo_parallel(context, TASKS, spin, context);
        }
        bo_parallel(context, TASKS, spin, context); /* outside of any span */
        bo_context_destroy(context);
        trace_events t = trace_parse(path);
        size_t ran = 0, lines = 0;
        for (size_t i = 0; i < t.count; i++) {
            const trace_event *e = &t.event[i];
            assert_true(e->thread >= 1 && e->thread <= threads);
            lines |= (size_t)1 << e->thread;
            if (strcmp(e->category, "task") != 0) continue;
            assert_true(strcmp(e->name, "work") == 0 || strcmp(e->name, "job") == 0);
            ran += (size_t)bo_json_member(e->args, "tasks")->number;
        }
        assert_int_equal(ran, threads == 1 ? 0 : (JOBS + 1) * TASKS);
        assert_int_equal(trace_count(&t, "test", "work"), JOBS);
        assert_int_equal(trace_count(&t, "caller", "within a task"), JOBS + 1);
        if (threads == 1) assert_int_equal(lines, 1 << 1);
        trace_free(&t);
        unlink(path);
    }
}

static void sleep_task(void *arg, size_t index, int worker)
{
    (void)arg, (void)index, (void)worker;
    nanosleep(&(struct timespec){.tv_nsec = 30 * 1000 * 1000}, NULL);
}

/* Threads with work have a line with a name. */
static void every_worker(void **state)
{
    (void)state;
    char path[64];
    bo_context *context = traced(trace_path(path), 4);
    bo_span_begin(context, "naps");
    bo_parallel(context, 16, sleep_task, NULL);
    bo_span_end(context);
    bo_context_destroy(context);
    trace_events t = trace_parse(path);
    assert_int_equal(trace_count(&t, "task", "naps"), 16);
    char *text = trace_text(path);
    for (int worker = 1; worker < 4; worker++) {
        char name[32];
        snprintf(name, sizeof name, "\"worker %d\"", worker);
        assert_non_null(strstr(text, name));
        assert_int_equal(t.event[t.count - 1].thread, 4);
    }
    assert_non_null(strstr(text, "\"main\""));
    free(text);
    trace_free(&t);
    unlink(path);
}

/* A branch has its own line, which the next branch reuses; it may outlive its context. */
static void branches(void **state)
{
    (void)state;
    char path[64];
    bo_context *context = traced(trace_path(path), 2), *one, *two;
    assert_int_equal(bo_context_branch(context, &one), BO_OK);
    assert_int_equal(bo_context_branch(context, &two), BO_OK);
    bo_span_begin(one, "first");
    bo_span_begin(two, "second");
    bo_span_end(one);
    bo_span_end(two);
    bo_context_destroy(one);
    assert_int_equal(bo_context_branch(context, &one), BO_OK);
    bo_span_begin(one, "third");
    bo_span_end(one);
    bo_context_destroy(context);
    bo_span_begin(two, "late");
    bo_span_end(two);
    bo_context_destroy(one);
    bo_context_destroy(two);
    trace_events t = trace_parse(path);
    assert_int_equal(t.count, 4);
    assert_string_equal(t.event[0].name, "first");
    assert_string_equal(t.event[1].name, "third");
    assert_string_equal(t.event[3].name, "late");
    assert_int_equal(t.event[0].thread, 3); /* after the lines of the pool */
    assert_int_equal(t.event[1].thread, 3);
    assert_int_equal(t.event[2].thread, 4);
    trace_free(&t);
    unlink(path);
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

static void numbered(const char *path, int number, char out[80])
{
    snprintf(out, 80, "%.*s.%d.json", (int)(strlen(path) - strlen(".json")), path, number);
}

/* Contexts that exist at the same time write different files; consecutive contexts write the same file. */
static void several_contexts(void **state)
{
    (void)state;
    char path[64], second[80], third[80];
    bo_context *contexts[3];
    setenv("BOCHNER_TRACE", trace_path(path), 1);
    numbered(path, 2, second);
    numbered(path, 3, third);
    for (int i = 0; i < 3; i++) contexts[i] = test_context(1);
    assert_string_equal(bo_context_describe(contexts[0])->trace, path);
    assert_string_equal(bo_context_describe(contexts[1])->trace, second);
    assert_string_equal(bo_context_describe(contexts[2])->trace, third);
    bo_span_begin(contexts[1], "of the second");
    bo_context_destroy(contexts[1]);
    trace_events t = trace_parse(second);
    assert_int_equal(trace_count(&t, NULL, "of the second"), 1);
    trace_free(&t);
    contexts[1] = test_context(1); /* the lowest free number */
    assert_string_equal(bo_context_describe(contexts[1])->trace, second);
    for (int i = 0; i < 3; i++) bo_context_destroy(contexts[i]);
    t = trace_parse(second); /* overwritten */
    assert_int_equal(t.count, 0);
    trace_free(&t);
    setenv("BOCHNER_TRACE", "", 1); /* empty means unset */
    contexts[0] = test_context(1);
    assert_null(bo_context_describe(contexts[0])->trace);
    bo_context_destroy(contexts[0]);
    unsetenv("BOCHNER_TRACE");
    unlink(path), unlink(second), unlink(third);
}

static void not_writable(void **state)
{
    (void)state;
    bo_context *context = (bo_context *)1;
    bo_context_desc desc = {.threads = 2, .trace = "/no such directory/trace.json"};
    assert_int_equal(bo_context_create(&desc, &context), BO_IO);
    assert_int_equal(errno, ENOENT);
    assert_null(context);
    desc.trace = "/tmp";
    assert_int_equal(bo_context_create(&desc, &context), BO_IO);
    assert_int_equal(errno, EISDIR);
    setenv("BOCHNER_TRACE", "/no such directory/trace.json", 1);
    assert_int_equal(bo_context_create(NULL, &context), BO_IO);
    unsetenv("BOCHNER_TRACE");
}

/* A process that crashes leaves valid JSON: all events until at most a second before, and more if there were many. */
static void crash(void **state)
{
    (void)state;
    char path[64];
    trace_path(path);
    const pid_t child = fork();
    if (child == 0) {
        bo_context *context = traced(path, 1);
        for (int i = 0; i < 20000; i++) {
            bo_span_begin(context, "before");
            bo_span_end(context);
        }
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    trace_events t = trace_parse(path);
    assert_true(t.count > 15000 && t.count < 20000);
    trace_free(&t);
    unlink(path);
}

/* A pipe cannot be rewritten: the end of the JSON is written at the end. */
static void pipes(void **state)
{
    (void)state;
    char path[64], copy[80], command[256];
    trace_path(path);
    snprintf(copy, sizeof copy, "%s.copy", path);
    assert_int_equal(mkfifo(path, 0600), 0);
    snprintf(command, sizeof command, "cat '%s' > '%s'", path, copy);
    FILE *reader = popen(command, "w");
    bo_context *context = traced(path, 1);
    for (int i = 0; i < 2000; i++) {
        bo_span_begin(context, "through a pipe");
        bo_span_end(context);
    }
    bo_context_destroy(context);
    assert_int_equal(pclose(reader), 0);
    trace_events t = trace_parse(copy);
    assert_int_equal(t.count, 2000);
    trace_free(&t);
    unlink(path), unlink(copy);
}

static void listen(void *user, bo_log_level level, const char *message)
{
    assert_int_equal(level, BO_LOG_WARNING);
    snprintf(user, 256, "%s", message);
}

static void limit(void **state)
{
    (void)state;
    char path[64], messages[256] = "";
    bo_context *context = NULL;
    const bo_context_desc desc = {.threads = 1, .log = listen, .user = messages, .trace = trace_path(path)};
    assert_int_equal(bo_context_create(&desc, &context), BO_OK);
    bo_trace_set_limit(context, 500000);
    for (int i = 0; i < 20000; i++) {
        bo_span_begin(context, "much");
        bo_span_end(context);
    }
    bo_context_destroy(context);
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    assert_true(info.st_size > 400000 && info.st_size < 500500);
    trace_events t = trace_parse(path);
    assert_true(t.count > 1000 && t.count < 20000);
    char *text = trace_text(path);
    assert_non_null(strstr(text, "the trace is full"));
    assert_non_null(strstr(messages, "maximum size"));
    free(text);
    trace_free(&t);
    unlink(path);
}

/* A full disk ends the trace but not the work: the file stays valid. */
static void full_disk(void **state)
{
    (void)state;
    char path[64], messages[256] = "";
    bo_context *context = NULL;
    bo_context_desc desc = {.threads = 1, .log = listen, .user = messages, .trace = "/dev/full"};
    assert_int_equal(bo_context_create(&desc, &context), BO_IO); /* detected immediately */
    assert_int_equal(errno, ENOSPC);
    desc.trace = trace_path(path);
    assert_int_equal(bo_context_create(&desc, &context), BO_OK);
    struct rlimit before, small;
    getrlimit(RLIMIT_FSIZE, &before);
    small = before;
    small.rlim_cur = 200000;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    for (int i = 0; i < 20000; i++) {
        bo_span_begin(context, "much");
        bo_span_end(context);
    }
    bo_context_destroy(context);
    setrlimit(RLIMIT_FSIZE, &before);
    assert_non_null(strstr(messages, "incomplete"));
    trace_events t = trace_parse(path);
    assert_true(t.count > 500 && t.count < 20000);
    trace_free(&t);
    unlink(path);
}

static void starved(void **state)
{
    (void)state;
    char path[64];
    trace_path(path);
    for (size_t at = 1;; at++) {
        counting memory = {.fail_at = at};
        bo_context *context = NULL, *branch = NULL;
        const bo_context_desc desc = {
            .threads = 2, .trace = path, .allocator = {counting_allocate, counting_release, &memory}};
        bo_status status = bo_context_create(&desc, &context);
        if (status == BO_OK) status = bo_context_branch(context, &branch);
        const bool reached = atomic_load(&memory.calls) >= at;
        bo_context_destroy(branch);
        bo_context_destroy(context);
        assert_int_equal(status, reached ? BO_MEMORY : BO_OK);
        assert_int_equal(atomic_load(&memory.live), 0);
        if (!reached) break;
    }
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest all[] = {
        cmocka_unit_test(no_trace_by_default),
        cmocka_unit_test(spans),
        cmocka_unit_test(times),
        cmocka_unit_test(names),
        cmocka_unit_test(too_deep),
        cmocka_unit_test(tasks),
        cmocka_unit_test(every_worker),
        cmocka_unit_test(branches),
        cmocka_unit_test(several_contexts),
        cmocka_unit_test(not_writable),
        cmocka_unit_test(crash),
        cmocka_unit_test(pipes),
        cmocka_unit_test(limit),
        cmocka_unit_test(full_disk),
        cmocka_unit_test(starved),
    };
    return cmocka_run_group_tests(all, NULL, NULL);
}
