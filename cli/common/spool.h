/* Input that comes once, standard input or a pipe, for work that reads it more than once. */
#ifndef CLI_COMMON_SPOOL_H
#define CLI_COMMON_SPOOL_H

#include "cli.h"

enum { CLI_SPOOLS = 16 };

/* Copies without a name; they are gone when they are closed, or when the process ends. {0} is none. */
typedef struct cli_spools {
    FILE *files[CLI_SPOOLS];
    char names[CLI_SPOOLS][32];
    size_t count;
} cli_spools;

/* The path itself where it can be read again, else that of a copy, which is valid while `spools` is open. NULL: said why. */
const char *cli_spool(cli_session *session, cli_spools *spools, const char *path);
/* All of `paths`, in place. */
bool cli_spool_all(cli_session *session, cli_spools *spools, const char **paths, size_t count);
void cli_spools_close(cli_spools *spools);

#endif
