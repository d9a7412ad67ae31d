/* Lists of numbers as values of options: "128,256,512". */
#ifndef CLI_COMMON_COUNTS_H
#define CLI_COMMON_COUNTS_H

#include <stdbool.h>
#include <stddef.h>

enum { CLI_COUNTS = 16 };
typedef struct cli_counts {
    size_t items[CLI_COUNTS], count; /* ascending */
} cli_counts;

/* Reads integers in ascending order, separated by commas. Returns false after a message. */
bool cli_read_counts(const char *command, const char *option, const char *text, size_t lower, size_t upper,
                     cli_counts *out);

#endif
