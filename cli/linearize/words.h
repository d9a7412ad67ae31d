/* The command line of `bochner linearize`. */
#ifndef CLI_LINEARIZE_WORDS_H
#define CLI_LINEARIZE_WORDS_H

#include "linearize.h"

typedef struct cli_linearize_words {
    cli_linearize_options options;
    cli_common common;
    int stored_count; /* words of linearize.json, to which options point */
    char **stored;
} cli_linearize_words;

cli_parsed cli_linearize_parse(int argc, char **argv, cli_linearize_words *words);
void cli_linearize_forget(cli_linearize_words *words);
/* Stores the options in the directory. Returns false after a message. */
bool cli_linearize_keep(cli_session *session, const cli_linearize_words *words);

#endif
