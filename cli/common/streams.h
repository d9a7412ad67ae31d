/* Standard input, output and error of the process. */
#ifndef CLI_COMMON_STREAMS_H
#define CLI_COMMON_STREAMS_H

#include "cli.h"

/* Opens streams that the caller closed, so that no other file gets their descriptors. Reading from a closed standard
 * input and writing to a closed standard output still fail; messages to a closed standard error are lost. */
void cli_streams_open(void);
/* Prints to standard error. Messages quote files and arguments, which may contain terminal control sequences: control
 * characters except newline and tab are printed as escapes, such as \x1b. All messages are printed by this function. */
void cli_streams_print(const char *format, ...) BO_PRINTF(1, 2);
/* Flushes messages. In a parallel job, rank 0 prints errors that are the same on all ranks, and mpirun then ends the
 * other ranks: they wait two seconds for that before they print their own errors. */
void cli_streams_flush_messages(void);
/* Flushes standard output. Returns false if output was lost. */
bool cli_streams_flush(void);
/* True if something may have been printed: a terminal shows each line without a flush. */
bool cli_streams_used(void);
void cli_streams_set_error(int error); /* a write failed with this errno */
/* Ends a command that returned `status`: flushes standard output and reports if that fails. Returns the exit status of
 * the program. After a signal, the program ends by this signal, as a shell expects; mpirun ends a parallel job. If the
 * reader closed the pipe, the program ends without a message, as if by SIGPIPE. */
int cli_streams_close(const char *command, int status);

#endif
