/* Shell completion scripts, generated from the option tables. */
#ifndef CLI_COMMON_COMPLETION_H
#define CLI_COMMON_COMPLETION_H

#include "options.h"

enum { CLI_USAGES = 9 };

/* A command in the overview. A command with several usages ("bench attention", "bench train") expects a subject as its
 * first argument. */
typedef struct cli_listed {
    const char *title; /* title of the group that starts with this command; NULL: no group starts */
    const char *name, *summary;
    const cli_usage *usages[CLI_USAGES]; /* up to the first NULL */
    bool external;                       /* a separate program has the usages (external.h) */
} cli_listed;

/* Prints the script for "bash", "zsh" or "fish". Returns false, and prints nothing, for another shell. */
bool cli_completion(const char *shell, const cli_listed *const *commands, size_t count, FILE *out);
/* Prints the part of the script about one command: "names", the arguments that may follow it, or "options".
 * Returns false, and prints nothing, for another shell or part. */
bool cli_completion_part(const char *shell, const char *part, const cli_listed *command, FILE *out);

#endif
