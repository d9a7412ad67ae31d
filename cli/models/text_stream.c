#include "text_stream.h"
#include "../common/format.h"
#include "../common/streams.h"
#include <stdlib.h>
#include <string.h>

static void append(cli_text_stream *stream, const char *bytes, size_t count)
{
    if (stream->capacity - stream->length < count + 1) {
        const size_t capacity = 2 * stream->capacity + count + 256;
        char *larger = cli_allocate(capacity, 1, "text");
        if (stream->length) memcpy(larger, stream->text, stream->length);
        free(stream->text);
        stream->text = larger;
        stream->capacity = capacity;
    }
    memcpy(stream->text + stream->length, bytes, count);
    stream->length += count;
    stream->text[stream->length] = 0;
}

/* Text that was printed is dropped: a text of any length takes the same memory. */
static void show(cli_text_stream *stream, size_t end)
{
    if (end <= stream->shown) return;
    if (!stream->out) {
        stream->shown = end;
        return;
    }
    fwrite(stream->text, 1, end, stream->out);
    cli_streams_flush();
    stream->length -= end;
    memmove(stream->text, stream->text + end, stream->length + 1);
}

/* Bytes at the end that may be an incomplete character. */
static size_t unfinished(const char *text, size_t length)
{
    for (size_t back = 1; back <= 3 && back <= length; back++) {
        const unsigned char byte = (unsigned char)text[length - back];
        if ((byte & 0xc0) == 0x80) continue; /* within a character */
        const size_t letter = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
        return letter > back ? back : 0;
    }
    return 0;
}

/* Bytes at the end that may be the start of a stop word. */
static size_t beginning(const cli_text_stream *stream, const char *word)
{
    const size_t held = stream->length - stream->shown, whole = strlen(word);
    for (size_t count = held < whole ? held : whole - 1; count > 0; count--)
        if (memcmp(stream->text + stream->length - count, word, count) == 0) return count;
    return 0;
}

/* Finds the first stop word. */
static bool stopped(const cli_text_stream *stream, size_t *at)
{
    bool found = false;
    for (size_t i = 0; i < stream->stops->count; i++) {
        const char *word = stream->stops->items[i];
        const size_t length = strlen(word);
        for (size_t from = stream->shown; from + length <= stream->length && !(found && from >= *at); from++) {
            if (memcmp(stream->text + from, word, length) != 0) continue;
            *at = from;
            found = true;
        }
    }
    return found;
}

bool cli_text_stream_add(cli_text_stream *stream, const char *bytes, size_t count)
{
    size_t end = 0;
    append(stream, bytes, count);
    if (stopped(stream, &end)) {
        stream->length = end;
        stream->text[end] = 0;
        return false;
    }
    size_t held = unfinished(stream->text + stream->shown, stream->length - stream->shown);
    for (size_t i = 0; i < stream->stops->count; i++) {
        const size_t begun = beginning(stream, stream->stops->items[i]);
        if (begun > held) held = begun;
    }
    show(stream, stream->length - held);
    return true;
}

void cli_text_stream_end(cli_text_stream *stream)
{
    show(stream, stream->length);
}
