/* Completion scripts for shells, made from the tables of options. */
#ifndef CLI_COMPLETION_H
#define CLI_COMPLETION_H

#include "common/options.h"

enum { CLI_USAGES = 9 };

/* A command as the overview lists it. One with several usages ("bench attention", "bench train") has a subject as
 * its first word. */
typedef struct cli_listed {
    const char *title; /* of the group that starts here; NULL: none starts */
    const char *name, *summary;
    const cli_usage *usages[CLI_USAGES]; /* up to the first NULL */
} cli_listed;

/* Prints the script for "bash", "zsh" or "fish". Returns false, and prints nothing, for another shell. */
bool cli_completion(const char *shell, const cli_listed *const *commands, size_t count, FILE *out);

#endif
