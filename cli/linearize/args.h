/* The command line of `bochner linearize`. */
#ifndef CLI_LINEARIZE_ARGS_H
#define CLI_LINEARIZE_ARGS_H

#include "linearize.h"

typedef struct cli_linearize_args {
    cli_linearize_options options;
    cli_common common;
    int stored_count; /* arguments from linearize.json; the options point to them */
    char **stored;
} cli_linearize_args;

cli_parsed cli_linearize_parse(int argc, char **argv, cli_linearize_args *args);
void cli_linearize_args_free(cli_linearize_args *args);
/* Writes the options to the directory. Returns false after a message. */
bool cli_linearize_save_options(cli_session *session, const cli_linearize_args *args);

#endif
