/* Signals as requests to stop: the first one is noted, its repetition within a second is ignored, a later one ends the
 * process, and so do five seconds in which nothing stops. */
#include "testing.h"
#include "cli/common/signals.h"
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

typedef void (*child_fn)(void);

/* Runs `child` in a process. Returns the status of waitpid and the seconds that passed. */
static int run(child_fn child, double *seconds)
{
    int status = 0;
    const double start = now();
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        cli_signals_handle(&(cli_ranks){.size = 1});
        child();
        _exit(cli_signal() ? cli_signal() : 99);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    *seconds = now() - start;
    return status;
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

static void deaf(void)
{
    raise(SIGHUP);
    wait_until(now() + 60);
}

static void saving(void)
{
    cli_signals_between_steps(false);
    raise(SIGTERM);
    wait_until(now() + 5.5);
}

static void repeated(void **state)
{
    (void)state;
    double seconds;
    int status = run(twice, &seconds);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), SIGTERM);
    status = run(later, &seconds);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGINT);
    status = run(limits, &seconds);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), SIGXCPU);
}

static void five_seconds(void **state)
{
    (void)state;
    double seconds;
    int status = run(deaf, &seconds);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGHUP);
    assert_true(seconds > 4 && seconds < 30);
    status = run(saving, &seconds);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), SIGTERM);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(repeated), cmocka_unit_test(five_seconds)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
