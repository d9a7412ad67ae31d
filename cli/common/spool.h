/* Temporary copies of standard input and pipes, for commands that read their input more than once. */
#ifndef CLI_COMMON_SPOOL_H
#define CLI_COMMON_SPOOL_H

#include "cli.h"

typedef struct cli_spool {
    int file;
    char name[32];
} cli_spool;

/* Unnamed temporary files, which are removed when they are closed or the process ends. {0}: none. */
typedef struct cli_spools {
    cli_spool *items;
    size_t count;
} cli_spools;

/* Replaces each path that can be read only once with the path of a copy, which is valid while `spools` is open. Returns
 * CLI_DONE, or another status after a message. Call it once. */
int cli_spool_all(cli_session *session, cli_spools *spools, const char **paths, size_t count);
void cli_spools_close(cli_spools *spools);

#endif
