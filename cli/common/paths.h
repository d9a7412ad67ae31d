/* Checks that no output file of a command is one of its input files or another output. */
#ifndef CLI_COMMON_PATHS_H
#define CLI_COMMON_PATHS_H

#include <stdbool.h>
#include <stddef.h>

typedef struct cli_path {
    const char *option; /* the option that named it; NULL: an argument */
    const char *path;   /* NULL: not given */
} cli_path;

/* Returns CLI_DONE, or CLI_USAGE_ERROR after a message that names the two files. */
int cli_paths_apart(const char *command, const cli_path *outputs, size_t output_count, const cli_path *inputs,
                    size_t input_count);

#endif
