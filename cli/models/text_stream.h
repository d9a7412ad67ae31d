/* Text as it is made, piece by piece: whole letters (UTF-8) go out, stop words never do. */
#ifndef CLI_MODELS_TEXT_STREAM_H
#define CLI_MODELS_TEXT_STREAM_H

#include "../common/options.h"
#include <stdio.h>

/* Invariant: what is held is shorter than the longest stop word, or an unfinished letter. */
typedef struct cli_text_stream {
    FILE *out; /* NULL: only kept */
    const cli_list *stops;
    char *text; /* all of it, freed by the caller */
    size_t length, capacity;
    size_t shown; /* bytes of it that went out */
} cli_text_stream;

/* False: a stop word has come; it and what follows it are not part of the text. */
bool cli_text_stream_add(cli_text_stream *stream, const char *bytes, size_t count);
void cli_text_stream_end(cli_text_stream *stream); /* what was held goes out */

#endif
