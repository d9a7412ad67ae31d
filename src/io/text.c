/* Splits text into records and records into fields; stores the strings of a block. */
#include "reader.h"

#include <string.h>

/* ---- records ----------------------------------------------------------------------------------------------------- */

/* The closing quote of a quoted field; `text` starts after the opening quote. NULL: none. */
static const char *closing_quote(const char *text, const char *end)
{
    while (text < end) {
        const char *quote = memchr(text, '"', (size_t)(end - text));
        if (!quote) return NULL;
        if (quote + 1 == end || quote[1] != '"') return quote;
        text = quote + 2;
    }
    return NULL;
}

bo_record_end bo_record_find(const char *text, const char *end, char delimiter, const char **stop)
{
    const char *newline = memchr(text, '\n', (size_t)(end - text));
    const char *bound = newline ? newline : end;
    if (delimiter == 0 || delimiter == ' ' || !memchr(text, '"', (size_t)(bound - text))) {
        *stop = bound;
        return newline ? BO_RECORD_FOUND : BO_RECORD_MORE;
    }
    bool field_start = true; /* only spaces so far: a quote opens a quoted field; elsewhere it is a plain character */
    for (const char *p = text; p < end;) {
        char c = *p++;
        if (c == '"' && field_start) {
            const char *quote = closing_quote(p, end);
            if (!quote) return BO_RECORD_OPEN_QUOTE;
            p = quote + 1;
            field_start = false;
        } else if (c == '\n') {
            *stop = p - 1;
            return BO_RECORD_FOUND;
        } else if (c == delimiter) {
            field_start = true;
        } else if (c != ' ') {
            field_start = false;
        }
    }
    *stop = end;
    return BO_RECORD_MORE;
}

/* Moves the remaining bytes to the front and reads more; grows the buffer if one record fills it. */
static bo_status refill(bo_context *context, bo_reader *reader)
{
    bo_records *records = &reader->records;
    size_t left = records->end - records->begin, got;
    if (records->begin > 0) memmove(records->buffer, records->buffer + records->begin, left);
    records->begin = 0;
    records->end = left;
    if (left == records->capacity) {
        if (left >= BO_MAX_RECORD)
            return bo_fail(context, BO_FORMAT,
                           "%s: line %zu: expected at most %d bytes per line; a quote may not be closed",
                           bo_bytes_path(reader->bytes), records->line, BO_MAX_RECORD);
        size_t capacity = left ? 2 * left : (size_t)1 << 18;
        char *larger = bo_realloc(context, records->buffer, capacity, 1, "a line of text");
        if (!larger) return BO_MEMORY;
        records->buffer = larger;
        records->capacity = capacity;
    }
    BO_TRY(bo_bytes_read(context, reader->bytes, records->buffer + left, records->capacity - left, &got));
    records->end += got;
    records->ended = got < records->capacity - left;
    return BO_OK;
}

static bool is_whitespace(const char *text, const char *end)
{
    while (text < end && (*text == ' ' || *text == '\t' || *text == '\r')) ++text;
    return text == end;
}

static size_t count_newlines(const char *text, const char *end)
{
    size_t count = 0;
    while (text < end && (text = memchr(text, '\n', (size_t)(end - text)))) ++count, ++text;
    return count;
}

bo_status bo_records_next(bo_context *context, bo_reader *reader, const char **text, const char **end, size_t *line)
{
    bo_records *records = &reader->records;
    const bool comments = reader->format == BO_FORMAT_LIBSVM || reader->delimiter == ' ';
    for (;;) {
        if (records->begin == records->end && !records->ended) BO_TRY(refill(context, reader));
        if (records->begin == records->end) {
            *text = *end = NULL;
            return BO_OK;
        }
        const char *start = records->buffer + records->begin, *limit = records->buffer + records->end, *stop = limit;
        bo_record_end found = bo_record_find(start, limit, reader->delimiter, &stop);
        if (found != BO_RECORD_FOUND && !records->ended) {
            BO_TRY(refill(context, reader));
            continue;
        }
        if (found == BO_RECORD_OPEN_QUOTE)
            return bo_fail(context, BO_FORMAT,
                           "%s: line %zu: expected a closing quote for the quoted field that starts here, found none",
                           bo_bytes_path(reader->bytes), records->line);
        *line = records->line;
        records->line += count_newlines(start, stop) + (found == BO_RECORD_FOUND);
        records->begin += (size_t)(stop - start) + (found == BO_RECORD_FOUND);
        if (stop > start && stop[-1] == '\r') --stop;
        if (is_whitespace(start, stop) || (comments && *start == '#')) continue;
        *text = start;
        *end = stop;
        return BO_OK;
    }
}

bo_status bo_records_rewind(bo_context *context, bo_reader *reader)
{
    bo_records *records = &reader->records;
    const unsigned char *data;
    size_t have, got;
    unsigned char mark[3];
    records->begin = records->end = 0;
    records->ended = false;
    records->line = 1;
    reader->next_row = 0;
    BO_TRY(bo_bytes_peek(context, reader->bytes, 3, &data, &have));
    if (have >= 3 && memcmp(data, "\xef\xbb\xbf", 3) == 0) /* byte order mark of UTF-8 */
        BO_TRY(bo_bytes_read(context, reader->bytes, mark, 3, &got));
    return BO_OK;
}

/* ---- fields ------------------------------------------------------------------------------------------------------ */

static bool field_spaced(const char **at, const char *end, bo_reader_field *field, bool *last)
{
    const char *p = *at;
    while (p < end && (*p == ' ' || *p == '\t')) ++p;
    const char *quote = p < end && *p == '"' ? closing_quote(p + 1, end) : NULL;
    field->quoted = quote && (quote + 1 == end || quote[1] == ' ' || quote[1] == '\t');
    field->text = p + field->quoted;
    while (!field->quoted && p < end && *p != ' ' && *p != '\t') ++p;
    field->end = field->quoted ? quote : p;
    if (field->quoted) p = quote + 1;
    while (p < end && (*p == ' ' || *p == '\t')) ++p;
    *at = p;
    *last = p == end;
    return true;
}

bool bo_field_next(char delimiter, const char **at, const char *end, bo_reader_field *field, bool *last)
{
    if (delimiter == ' ') return field_spaced(at, end, field, last);
    const char *p = *at, *start = p;
    while (p < end && *p == ' ') ++p;
    if (p < end && *p == '"') {
        const char *quote = closing_quote(p + 1, end);
        if (!quote) return false;
        field->text = p + 1;
        field->end = quote;
        field->quoted = true;
        for (p = quote + 1; p < end && *p == ' ';) ++p;
        if (p < end && *p != delimiter) return false;
    } else {
        const char *stop = memchr(p, delimiter, (size_t)(end - p));
        field->text = start;
        field->end = p = stop ? stop : end;
        field->quoted = false;
    }
    *last = p == end;
    *at = p + (p < end);
    return true;
}

/* ---- strings ----------------------------------------------------------------------------------------------------- */

struct bo_strings_piece {
    struct bo_strings_piece *next;
    size_t used, capacity;
    char bytes[];
};

static char *reserve(bo_context *context, bo_strings *strings, size_t size)
{
    struct bo_strings_piece *piece = strings->current;
    while (piece && piece->capacity - piece->used < size) {
        piece = piece->next;
        if (piece) strings->current = piece;
    }
    if (!piece) {
        size_t capacity = size > 1 << 16 ? size : 1 << 16;
        piece = bo_alloc_raw(context, 1, sizeof *piece + capacity, "strings");
        if (!piece) return NULL;
        piece->used = 0;
        piece->capacity = capacity;
        piece->next = NULL;
        if (strings->current)
            strings->current->next = piece;
        else
            strings->first = piece;
        strings->current = piece;
    }
    char *out = piece->bytes + piece->used;
    piece->used += size;
    return out;
}

static bool is_utf8(const char *text, size_t length)
{
    for (size_t i = 0, n; i < length; i += n)
        if ((n = bo_utf8_length(text + i, length - i)) == 0) return false;
    return true;
}

char *bo_strings_add(bo_context *context, bo_strings *strings, const char *text, size_t length)
{
    if (is_utf8(text, length)) {
        char *out = reserve(context, strings, length + 1);
        if (!out) return NULL;
        memcpy(out, text, length);
        out[length] = 0;
        return out;
    }
    char *out = reserve(context, strings, 2 * length + 1), *to = out;
    if (!out) return NULL;
    for (size_t i = 0; i < length; ++i) {
        unsigned char c = (unsigned char)text[i];
        if (c < 0x80) {
            *to++ = (char)c;
        } else { /* Latin-1 */
            *to++ = (char)(0xc0 | c >> 6);
            *to++ = (char)(0x80 | (c & 0x3f));
        }
    }
    *to = 0;
    return out;
}

void bo_strings_clear(bo_strings *strings)
{
    for (struct bo_strings_piece *piece = strings->first; piece; piece = piece->next) piece->used = 0;
    strings->current = strings->first;
}

void bo_strings_free(bo_strings *strings)
{
    for (struct bo_strings_piece *piece = strings->first, *next; piece; piece = next) {
        next = piece->next;
        bo_free(piece);
    }
    strings->first = strings->current = NULL;
}
