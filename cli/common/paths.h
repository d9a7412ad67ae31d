/* Files a command reads and files it writes: none may be both, and no two outputs may be one. */
#ifndef CLI_COMMON_PATHS_H
#define CLI_COMMON_PATHS_H

#include <stdbool.h>
#include <stddef.h>

typedef struct cli_path {
    const char *option; /* that named it; NULL: an argument */
    const char *path;   /* NULL: not given */
} cli_path;

/* CLI_DONE, or CLI_WRONG_USE after saying which output would replace what. */
int cli_paths_apart(const char *command, const cli_path *outputs, size_t output_count, const cli_path *inputs,
                    size_t input_count);

#endif
