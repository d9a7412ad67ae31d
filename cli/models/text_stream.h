/* Prints text while it is generated. Only complete UTF-8 characters are printed, and no stop words. */
#ifndef CLI_MODELS_TEXT_STREAM_H
#define CLI_MODELS_TEXT_STREAM_H

#include "../common/options.h"
#include <stdio.h>

/* Invariant: the bytes held back are shorter than the longest stop word, or an incomplete character. */
typedef struct cli_text_stream {
    FILE *out; /* NULL: not printed */
    const cli_list *stops;
    char *text; /* the bytes held back, or the whole text if it is not printed; freed by the caller */
    size_t length, capacity;
    size_t shown; /* bytes of `text` that are not held back */
} cli_text_stream;

/* Returns false at a stop word, which is not part of the text. */
bool cli_text_stream_add(cli_text_stream *stream, const char *bytes, size_t count);
void cli_text_stream_end(cli_text_stream *stream); /* prints the bytes held back */

#endif
