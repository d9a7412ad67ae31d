#include "text.h"
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

void load_text_add(load_text *text, const char *bytes, size_t count)
{
    if (count + 1 > text->capacity - text->length) {
        const size_t capacity = 2 * (text->length + count) + 64;
        char *grown = cli_allocate(capacity, 1, "text");
        if (text->length) memcpy(grown, text->bytes, text->length);
        free(text->bytes);
        text->bytes = grown;
        text->capacity = capacity;
    }
    if (count) memcpy(text->bytes + text->length, bytes, count);
    text->length += count;
    text->bytes[text->length] = 0;
}

void load_text_print(load_text *text, const char *format, ...)
{
    char piece[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(piece, sizeof piece, format, arguments);
    va_end(arguments);
    load_text_add(text, piece, strlen(piece));
}

void load_text_json(load_text *text, const char *string)
{
    char piece[256];
    load_text_add(text, "\"", 1);
    while (*string) load_text_add(text, piece, bo_json_escape(&string, piece, sizeof piece));
    load_text_add(text, "\"", 1);
}

void load_text_clear(load_text *text)
{
    text->length = 0;
    if (text->bytes) text->bytes[0] = 0;
}
