/* Signals as stop requests: the first is recorded, its repetition within a second is ignored, a later signal ends the
 * process, and so does work that does not stop within five seconds. */
#include "testing.h"
#include "cli/common/signals.h"
#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void wait_until(double end)
{
    while (now() < end) usleep(10000);
}

/* A process that runs a function. Its exit status is the recorded signal. */
typedef struct child {
    void (*run)(void);
    pid_t pid;
    double start;
} child;

static void begin(child *c)
{
    c->start = now();
    c->pid = fork();
    assert_true(c->pid >= 0);
    if (c->pid > 0) return;
    cli_signals_handle(&(cli_ranks){.size = 1});
    c->run();
    _exit(cli_signal() ? cli_signal() : 99);
}

/* Waits for the end and returns the seconds that it took. */
static double end(const child *c, int *status)
{
    assert_int_equal(waitpid(c->pid, status, 0), c->pid);
    return now() - c->start;
}

static void assert_noted(const child *c, int number)
{
    int status;
    end(c, &status);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), number);
}

static double assert_ended_by(const child *c, int number)
{
    int status;
    const double seconds = end(c, &status);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), number);
    return seconds;
}

static void twice(void)
{
    raise(SIGTERM);
    raise(SIGINT);
    raise(SIGTERM);
}

static void later(void)
{
    raise(SIGTERM);
    wait_until(now() + 1.1);
    raise(SIGINT);
}

static void limits(void)
{
    raise(SIGXCPU);
    wait_until(now() + 1.1);
    raise(SIGXCPU);
}

static void ignores_requests(void)
{
    raise(SIGHUP);
    wait_until(now() + 60);
}

static void ignores_limits(void)
{
    raise(SIGXCPU);
    wait_until(now() + 60);
}

static void saving(void)
{
    cli_signals_saving();
    raise(SIGTERM);
    wait_until(now() + 5.5);
}

/* The request arrives before saving starts. */
static void saving_later(void)
{
    cli_signals_between_steps(false);
    raise(SIGTERM);
    cli_signals_saving();
    wait_until(now() + 5.5);
}

/* Steps have not begun. */
static void loading(void)
{
    cli_signals_between_steps(false);
    raise(SIGTERM);
    wait_until(now() + 60);
}

/* Nothing was requested. */
static void unrelated_alarm(void)
{
    errno = EDOM;
    raise(SIGALRM);
    raise(SIGINT);
    if (errno != EDOM) _exit(98);
}

/* The session is closed. */
static void terminal_closed(void)
{
    cli_signals_default();
    raise(SIGHUP);
}

static void limited(void)
{
    cli_signals_default();
    raise(SIGXCPU);
}

static void ignoring(void)
{
    signal(SIGHUP, SIG_IGN);
    cli_signals_default();
    raise(SIGHUP);
}

enum {
    UNRELATED_ALARM,
    TERMINAL_CLOSED,
    LIMITED,
    IGNORING,
    TWICE,
    LATER,
    LIMITS,
    IGNORES_REQUESTS,
    IGNORES_LIMITS,
    SAVING,
    SAVING_LATER,
    LOADING,
    CHILDREN
};

/* They run at the same time. */
static int begin_all(void **state)
{
    static child children[CHILDREN] = {
        {.run = unrelated_alarm}, {.run = terminal_closed}, {.run = limited},      {.run = ignoring},
        {.run = twice},           {.run = later},           {.run = limits},       {.run = ignores_requests},
        {.run = ignores_limits},  {.run = saving},          {.run = saving_later}, {.run = loading}};
    for (size_t i = 0; i < CHILDREN; i++) begin(&children[i]);
    *state = children;
    return 0;
}

static void repeated(void **state)
{
    const child *children = *state;
    assert_noted(&children[TWICE], SIGTERM);
    assert_ended_by(&children[LATER], SIGINT);
    assert_noted(&children[LIMITS], SIGXCPU);
}

static void without_request(void **state)
{
    const child *children = *state;
    assert_noted(&children[UNRELATED_ALARM], SIGINT);
    assert_ended_by(&children[TERMINAL_CLOSED], SIGHUP);
    assert_noted(&children[LIMITED], 128 + SIGXCPU); /* without a core file */
    assert_noted(&children[IGNORING], 99);
}

static void five_seconds(void **state)
{
    const child *children = *state;
    const double seconds = assert_ended_by(&children[IGNORES_REQUESTS], SIGHUP);
    assert_true(seconds > 4 && seconds < 50);
    assert_noted(&children[IGNORES_LIMITS], 128 + SIGXCPU); /* without a core file */
    assert_noted(&children[SAVING], SIGTERM);
    assert_noted(&children[SAVING_LATER], SIGTERM);
    assert_ended_by(&children[LOADING], SIGTERM);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(without_request), cmocka_unit_test(repeated),
                                       cmocka_unit_test(five_seconds)};
    signal(SIGINT, SIG_DFL); /* the environment of the tests may ignore it */
    return cmocka_run_group_tests(tests, begin_all, NULL);
}
