#include "signals.h"
#include "streams.h"
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* The first request. A signal handler can only access globals, and signals may arrive in several threads: the thread
 * that sets the time handles the first request. */
static _Atomic int64_t requested_at; /* nanoseconds; 0: no request */
static atomic_int requested;
static atomic_bool silent; /* the end of another rank is reported by ranks 0 and 1 only */
static atomic_bool saves;  /* after a request the work saves its results, without a time limit */

static int64_t nanoseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void handle(int number, void (*handler)(int))
{
    struct sigaction action = {.sa_handler = handler}; /* without SA_RESTART: a read that waits for input returns */
    sigemptyset(&action.sa_mask);
    sigaction(number, &action, NULL);
}

/* A shell starts background jobs of a script with SIGINT ignored, and nohup ignores SIGHUP: both stay ignored. */
static void handle_unless_ignored(int number, void (*handler)(int))
{
    struct sigaction old;
    if (sigaction(number, NULL, &old) == 0 && old.sa_handler != SIG_IGN) handle(number, handler);
}

static void write_message(const char *message)
{
    const ssize_t ignored = write(STDERR_FILENO, message, strlen(message));
    (void)ignored;
}

/* SIGXCPU is repeated for every second beyond the limit. */
static void note(int number)
{
    enum { SECOND = 1000000000, GRACE = 5 };
    int64_t first = 0;
    const int64_t now = nanoseconds();
    if (atomic_compare_exchange_strong(&requested_at, &first, now)) {
        requested = number;
        if (!saves) alarm(GRACE);
    } else if (number != SIGXCPU && now - first > SECOND) {
        handle(number, SIG_DFL);
        raise(number); /* when this handler returns */
    }
}

/* Handlers that return restore errno, which the interrupted code may be about to read. */
static void on_stop(int number)
{
    const int error = errno;
    note(number);
    errno = error;
}

/* The default action of SIGXCPU leaves a core file. */
static void on_limit(int number)
{
    _exit(128 + number);
}

/* The work did not check for the request. The alarm may have been set just before saving started, or come from another
 * process. */
static void on_alarm(int number)
{
    const int error = errno;
    (void)number;
    if (!requested || saves) return;
    write_message("bochner: stopped on request\n");
    if (requested == SIGXCPU) on_limit(SIGXCPU);
    handle(requested, SIG_DFL);
    raise(requested);
    errno = error;
}

/* A rank that waits inside MPI for another rank cannot stop on its own; mpirun ends it because another rank ended.
 * Temporary files of the library remain until the same file is written again; their names are unknown here. */
static void on_rank_ended(int number)
{
    if (!silent)
        write_message("bochner: stopped: another rank of the job ended; no file was replaced by an incomplete one\n");
    _exit(128 + number);
}

/* mpirun also sends this signal when it is interrupted, and ends all ranks a second later. */
static void on_ranks_end(int number)
{
    const int error = errno;
    if (!silent)
        write_message("bochner: mpirun ends the job, or another rank of the job ended: stopping after this step\n");
    note(number);
    errno = error;
}

void cli_signals_handle(const cli_ranks *ranks)
{
    handle_unless_ignored(SIGINT, on_stop);
    handle_unless_ignored(SIGTERM, ranks->size > 1 ? on_rank_ended : on_stop);
    silent = ranks->rank > 1;
    handle(SIGXCPU, on_stop);
    handle(SIGALRM, on_alarm);
    handle_unless_ignored(SIGHUP, on_stop);
    handle(SIGPIPE, SIG_IGN); /* a closed pipe and a file beyond its size limit are failed writes */
    handle(SIGXFSZ, SIG_IGN);
}

void cli_signals_saving(void)
{
    saves = true;
    alarm(0);
}

void cli_signals_between_steps(bool parallel)
{
    if (!parallel) return;
    handle(SIGUSR1, on_stop); /* which mpirun forwards */
    handle(SIGTERM, on_ranks_end);
}

void cli_signals_default(void)
{
    if (cli_signal()) return; /* the message and the output are still to be written */
    handle_unless_ignored(SIGINT, SIG_DFL);
    handle_unless_ignored(SIGTERM, SIG_DFL);
    handle_unless_ignored(SIGHUP, SIG_DFL);
    handle(SIGXCPU, on_limit);
}

bool cli_signals_cancel(int number)
{
    if (requested != number) return false;
    alarm(0);
    requested = 0;
    requested_at = 0;
    return true;
}

int cli_signal(void)
{
    return requested;
}

bool cli_interrupted(void)
{
    return cli_signal() != 0 || !cli_streams_flush();
}
