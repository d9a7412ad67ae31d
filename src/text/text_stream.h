/* Text that grows while it is generated. Only complete UTF-8 characters are ready, and no part of a stop text.
 *
 *     bo_text_stream stream = {.stops = stops, .stop_count = 1};
 *     bo_text_stream_add(context, &stream, piece, bytes, &stopped); // then print text[0 … ready), and
 *     bo_text_stream_drop(&stream);                                 // forget it
 */
#ifndef BO_TEXT_STREAM_H
#define BO_TEXT_STREAM_H

#include "../base/base.h"

/* Initialize it with the stop texts, and all other fields zero. */
typedef struct bo_text_stream {
    const char *const *stops; /* texts that end the stream, not empty; must outlive the stream */
    size_t stop_count;
    char *text;      /* terminated by NUL unless it is NULL; released by bo_text_stream_free */
    size_t length;   /* bytes of the text */
    size_t ready;    /* leading bytes that will not change; the remaining bytes are pending */
    size_t capacity; /* capacity of the text in bytes */
} bo_text_stream;

/* Appends bytes. *stopped: the text now ends before a stop text, and all of it is ready. */
bo_status bo_text_stream_add(bo_context *context, bo_text_stream *stream, const char *bytes, size_t count,
                             bool *stopped);
/* Removes the bytes that are ready, so that a text of any length takes little memory. */
void bo_text_stream_drop(bo_text_stream *stream);
/* Makes the pending bytes ready, at the end of the text. */
void bo_text_stream_end(bo_text_stream *stream);
/* Makes the pending bytes ready, except an incomplete character at the end, which later tokens may complete. Returns
 * the number of its bytes, which start at `ready`. */
size_t bo_text_stream_end_characters(bo_text_stream *stream);
/* Releases the text and makes the stream empty. The stop texts stay. */
void bo_text_stream_free(bo_text_stream *stream);

#endif
