/* Requests to stop: signals, and a standard output that cannot be written any more. */
#ifndef CLI_COMMON_SIGNALS_H
#define CLI_COMMON_SIGNALS_H

#include "ranks.h"

/* From now on SIGINT, SIGTERM, SIGHUP and SIGXCPU request a stop. All within a second are one request: timeout sends
 * its signal to the process and to the process group. A later SIGINT, SIGTERM or SIGHUP ends the program at once, and
 * so do five seconds in which the work does not stop. Signals that were ignored at the start stay ignored: SIGHUP by
 * nohup, SIGINT in background jobs of a script. In a parallel job SIGTERM ends the rank. */
void cli_signals_handle(const cli_ranks *ranks);
/* From now on the work saves its results after a request: it may take any time. */
void cli_signals_saving(void);
/* For work that stops between steps. In a parallel job, where ranks agree to stop, a signal of mpirun requests the stop
 * instead of ending the rank at once. */
void cli_signals_between_steps(bool parallel);
/* Nothing checks for a request any more: the next signal ends the program, unless one has already arrived. */
void cli_signals_default(void);
/* Takes a request back if it came by this signal, so that the program goes on and the next signal is a new request.
 * Returns false if there is no such request. */
bool cli_signals_cancel(int number);
int cli_signal(void); /* the signal that requested a stop; 0: none */

/* Whether long work should stop: a signal arrived, or standard output cannot be written. Flushes standard output, so
 * that a reader sees what was printed before the work that follows, and so that a closed pipe is noticed. */
bool cli_interrupted(void);

#endif
