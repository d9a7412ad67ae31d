/* Completion scripts for shells, made from the tables of options. */
#ifndef CLI_COMMON_COMPLETION_H
#define CLI_COMMON_COMPLETION_H

#include "options.h"

enum { CLI_USAGES = 9 };

/* A command as the overview lists it. One with several usages ("bench attention", "bench train") has a subject as
 * its first word. */
typedef struct cli_listed {
    const char *title; /* of the group that starts here; NULL: none starts */
    const char *name, *summary;
    const cli_usage *usages[CLI_USAGES]; /* up to the first NULL */
    bool external;                       /* a program of its own has the usages (external.h) */
} cli_listed;

/* Prints the script for "bash", "zsh" or "fish". Returns false, and prints nothing, for another shell. */
bool cli_completion(const char *shell, const cli_listed *const *commands, size_t count, FILE *out);
/* Prints what the script for the shell contains about one command: "names", the words that may follow it, or "options".
 * Returns false, and prints nothing, for another shell or part. */
bool cli_completion_part(const char *shell, const char *part, const cli_listed *command, FILE *out);

#endif
