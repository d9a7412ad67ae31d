/* Standard output, or a file that is written row by row and appears when it is complete (bo_output). */
#ifndef CLI_COMMON_OUTPUT_H
#define CLI_COMMON_OUTPUT_H

#include "cli.h"
#include <stdio.h>

typedef struct cli_output {
    FILE *file;             /* stream for text; cli_output_check reports errors */
    const char *path;       /* NULL: standard output */
    bo_output *replacement; /* the new file, which replaces `path` at commit */
    bool npy;
    size_t columns, item, rows; /* .npy: shape, and bytes per number (4 or 8) */
    size_t group;               /* .npy: the shape is (rows / group, group, columns); 0: (rows, columns) */
} cli_output;

/* Each returns false after a message. `path` NULL is standard output. */
bool cli_output_text(cli_session *session, cli_output *output, const char *path);
bool cli_output_npy(cli_session *session, cli_output *output, const char *path, size_t columns, size_t item);
bool cli_output_rows(cli_session *session, cli_output *output, size_t rows, const void *values); /* .npy only */
bool cli_output_bytes(cli_session *session, cli_output *output, size_t bytes, const void *data);
bool cli_output_check(cli_session *session, cli_output *output);
bool cli_output_commit(cli_session *session, cli_output *output);
void cli_output_abandon(cli_output *output); /* removes the temporary file; does nothing after commit */

bool cli_ends_with(const char *text, const char *end);
void cli_csv_field(FILE *file, const char *text); /* quoted if necessary */

#endif
