/* Text that is generated piece by piece: complete UTF-8 characters, up to a stop text. */
#include <assert.h>
#include <string.h>
#include "text_stream.h"

static bo_status append(bo_context *context, bo_text_stream *stream, const char *bytes, size_t count)
{
    if (stream->capacity - stream->length < count + 1) {
        const size_t capacity = 2 * stream->capacity + count + 64;
        char *larger = bo_realloc(context, stream->text, capacity, 1, "generated text");
        if (!larger) return BO_MEMORY;
        stream->text = larger;
        stream->capacity = capacity;
    }
    if (count) memcpy(stream->text + stream->length, bytes, count);
    stream->length += count;
    stream->text[stream->length] = 0;
    return BO_OK;
}

/* Bytes at the end that may be an incomplete character. */
static size_t unfinished(const char *text, size_t length)
{
    for (size_t back = 1; back <= 3 && back <= length; back++) {
        const unsigned char byte = (unsigned char)text[length - back];
        if ((byte & 0xc0) == 0x80) continue; /* within a character */
        const size_t sequence = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
        return sequence > back ? back : 0;
    }
    return 0;
}

/* Bytes at the end that may be the start of a stop text. */
static size_t beginning(const bo_text_stream *stream, const char *stop)
{
    const size_t pending = stream->length - stream->ready, whole = strlen(stop);
    for (size_t count = pending < whole ? pending : whole - 1; count > 0; count--)
        if (memcmp(stream->text + stream->length - count, stop, count) == 0) return count;
    return 0;
}

/* Finds the stop text that is complete first, and the longest of several, so that the result does not depend on the
 * pieces. */
static bool find_stop(const bo_text_stream *stream, size_t *at)
{
    size_t end = SIZE_MAX;
    for (size_t i = 0; i < stream->stop_count; i++) {
        const char *stop = stream->stops[i];
        const size_t length = strlen(stop), last = bo_min(end, stream->length);
        for (size_t from = stream->ready; from + length <= last; from++) {
            if (memcmp(stream->text + from, stop, length) != 0) continue;
            if (from + length < end || from < *at) *at = from;
            end = from + length;
            break;
        }
    }
    return end != SIZE_MAX;
}

bo_status bo_text_stream_add(bo_context *context, bo_text_stream *stream, const char *bytes, size_t count,
                             bool *stopped)
{
    size_t end = 0, pending;
    BO_REQUIRE(context, stream, stopped);
    BO_REQUIRE_IF(context, count > 0, bytes);
    BO_REQUIRE_IF(context, stream->stop_count > 0, stream->stops);
    *stopped = false;
    BO_TRY(append(context, stream, bytes, count));
    if (find_stop(stream, &end)) {
        *stopped = true;
        stream->length = stream->ready = end;
        stream->text[end] = 0;
        return BO_OK;
    }
    pending = unfinished(stream->text + stream->ready, stream->length - stream->ready);
    for (size_t i = 0; i < stream->stop_count; i++) pending = bo_max(pending, beginning(stream, stream->stops[i]));
    stream->ready = stream->length - pending;
    return BO_OK;
}

void bo_text_stream_drop(bo_text_stream *stream)
{
    if (!stream || !stream->ready) return;
    assert(stream->ready <= stream->length);
    stream->length -= stream->ready;
    memmove(stream->text, stream->text + stream->ready, stream->length + 1);
    stream->ready = 0;
}

void bo_text_stream_end(bo_text_stream *stream)
{
    if (stream) stream->ready = stream->length;
}

size_t bo_text_stream_end_characters(bo_text_stream *stream)
{
    if (!stream || !stream->text) return 0;
    const size_t pending = unfinished(stream->text + stream->ready, stream->length - stream->ready);
    stream->ready = stream->length - pending;
    return pending;
}

void bo_text_stream_free(bo_text_stream *stream)
{
    if (!stream) return;
    bo_free(stream->text);
    stream->text = NULL;
    stream->length = stream->ready = stream->capacity = 0;
}
