/* Stop requests: signals, and write errors of standard output. */
#ifndef CLI_COMMON_SIGNALS_H
#define CLI_COMMON_SIGNALS_H

#include "ranks.h"

/* From now on SIGINT, SIGTERM, SIGHUP and SIGXCPU request a stop. Signals within one second are one request: timeout
 * sends its signal to the process and to the process group. A later SIGINT, SIGTERM or SIGHUP ends the program
 * immediately, and so does work that does not stop within five seconds. Signals that were ignored at the start stay
 * ignored: SIGHUP by nohup, SIGINT in background jobs of a script. In a parallel job SIGTERM ends the rank. */
void cli_signals_handle(const cli_ranks *ranks);
/* From now on the work saves its results after a request, without a time limit. */
void cli_signals_saving(void);
/* For work that stops between steps. In a parallel job, where ranks agree to stop, a signal of mpirun requests the stop
 * and does not end the rank immediately. */
void cli_signals_between_steps(bool parallel);
/* No more checks for requests follow: the next signal ends the program, unless one has already arrived. */
void cli_signals_default(void);
/* Cancels a request by this signal, so that the program continues and the next signal is a new request. Returns false
 * if there is no such request. */
bool cli_signals_cancel(int number);
int cli_signal(void); /* the signal that requested a stop; 0: none */

/* True if long work should stop: a signal arrived, or writing standard output failed. Flushes standard output, so that
 * a reader sees earlier output before the next work, and a closed pipe is detected. */
bool cli_interrupted(void);

#endif
