/* Temporary copies of standard input and pipes, for work that reads its input more than once. */
#ifndef CLI_COMMON_SPOOL_H
#define CLI_COMMON_SPOOL_H

#include "cli.h"

enum { CLI_SPOOLS = 16 };

/* Unnamed temporary files, which are removed when they are closed or the process ends. {0}: none. */
typedef struct cli_spools {
    FILE *files[CLI_SPOOLS];
    char names[CLI_SPOOLS][32];
    size_t count;
} cli_spools;

/* Returns the path if it can be read again, otherwise the path of a copy, which is valid while `spools` is open;
 * NULL after a message. */
const char *cli_spool(cli_session *session, cli_spools *spools, const char *path);
/* Replaces all of `paths`. */
bool cli_spool_all(cli_session *session, cli_spools *spools, const char **paths, size_t count);
void cli_spools_close(cli_spools *spools);

#endif
