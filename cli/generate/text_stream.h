/* Prints text while it is generated. Only complete UTF-8 characters are printed, and no stop texts. */
#ifndef CLI_GENERATE_TEXT_STREAM_H
#define CLI_GENERATE_TEXT_STREAM_H

#include <bochner/bochner.h>
#include <stdio.h>

typedef struct cli_text_stream {
    FILE *out;           /* NULL: not printed */
    bo_text_stream text; /* the text that was not printed yet, or all of it; freed by the caller */
} cli_text_stream;

/* *stopped: the text ends before a stop text. */
bo_status cli_text_stream_add(bo_context *context, cli_text_stream *stream, const char *bytes, size_t count,
                              bool *stopped);
void cli_text_stream_end(cli_text_stream *stream); /* prints the bytes held back */

#endif
