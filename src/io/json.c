/* JSON: parsed within bounds, and written as text that grows or to a file. */
#include <bochner/json.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "json.h"

/* cJSON recurses; the depth is checked before it does. */
static bool shallow(const char *text, size_t length, int most)
{
    int depth = 0;
    bool quoted = false;
    for (size_t i = 0; i < length; ++i) {
        char c = text[i];
        if (quoted) {
            if (c == '\\')
                ++i;
            else if (c == '"')
                quoted = false;
        } else if (c == '"') {
            quoted = true;
        } else if (c == '{' || c == '[') {
            if (++depth > most) return false;
        } else if (c == '}' || c == ']') {
            --depth;
        }
    }
    return true;
}

bo_status bo_json_parse(bo_context *context, const char *where, const char *text, size_t length, int depth, cJSON **out)
{
    const char *stop = NULL;
    *out = NULL;
    if (!shallow(text, length, depth))
        return bo_fail(context, BO_FORMAT, "%s: the JSON is nested deeper than %d", where, depth);
    cJSON *json = cJSON_ParseWithLengthOpts(text, length, &stop, false);
    size_t at = stop ? (size_t)(stop - text) : 0;
    if (!json) return bo_fail(context, BO_FORMAT, "%s: the JSON is malformed near byte %zu", where, at);
    while (at < length && (text[at] == ' ' || text[at] == '\n' || text[at] == '\t' || text[at] == '\r')) ++at;
    if (at < length) {
        cJSON_Delete(json);
        return bo_fail(context, BO_FORMAT, "%s: something follows the JSON at byte %zu", where, at);
    }
    *out = json;
    return BO_OK;
}

bool bo_json_has_nul(const char *text, size_t length)
{
    for (size_t i = 0; i + 6 <= length; ++i) {
        if (text[i] != '\\') continue;
        if (memcmp(text + i, "\\u0000", 6) == 0) return true;
        ++i; /* what it escapes, be it another one */
    }
    return false;
}

bool bo_json_size(const cJSON *item, size_t *out)
{
    if (!cJSON_IsNumber(item)) return false;
    double value = item->valuedouble;
    if (!(value >= 0 && value <= 9007199254740992.0) || value != floor(value)) return false;
    *out = (size_t)value;
    return true;
}

/* ---- text that grows --------------------------------------------------------------------------------------------- */

static void append(bo_json_text *text, const char *bytes, size_t size)
{
    if (text->failed) return;
    if (text->capacity - text->length < size + 1) {
        size_t capacity = 2 * text->capacity + size + 256;
        char *larger = bo_realloc(text->context, text->bytes, capacity, 1, "JSON text");
        if (!larger) {
            bo_free(text->bytes);
            text->bytes = NULL;
            text->length = text->capacity = 0;
            text->failed = true;
            return;
        }
        text->bytes = larger;
        text->capacity = capacity;
    }
    memcpy(text->bytes + text->length, bytes, size);
    text->length += size;
    text->bytes[text->length] = 0;
}

void bo_json_raw(bo_json_text *text, const char *raw)
{
    append(text, raw, strlen(raw));
}

/* The text in quotes, piece by piece. Bytes that are not UTF-8 become the replacement character, or stay as they are: names
 * of files are what they are. */
static void quote(const char *text, bool as_is, void (*put)(void *sink, const char *bytes, size_t size), void *sink)
{
    put(sink, "\"", 1);
    for (size_t bytes; *text; text += bytes) {
        const unsigned char first = (unsigned char)*text;
        const size_t length = bo_utf8_length(text, 4);
        char escaped[8] = "\\ufffd";
        bytes = length ? length : 1;
        if (first == '"' || first == '\\')
            snprintf(escaped, sizeof escaped, "\\%c", first);
        else if (first == '\n' || first == '\t')
            snprintf(escaped, sizeof escaped, first == '\n' ? "\\n" : "\\t");
        else if (first < 0x20 || first == 0x7f)
            snprintf(escaped, sizeof escaped, "\\u%04x", first);
        else if (length || as_is)
            escaped[0] = 0;
        if (escaped[0])
            put(sink, escaped, strlen(escaped));
        else
            put(sink, text, bytes);
    }
    put(sink, "\"", 1);
}

static void put_text(void *sink, const char *bytes, size_t size)
{
    append(sink, bytes, size);
}

void bo_json_string(bo_json_text *text, const char *string)
{
    quote(string, true, put_text, text);
}

void bo_json_number(bo_json_text *text, double number)
{
    char formatted[BO_NUMBER_TEXT];
    bo_json_raw(text, isfinite(number) ? bo_number_format(number, formatted) : "null");
}

void bo_json_whole(bo_json_text *text, uint64_t number)
{
    char formatted[24];
    snprintf(formatted, sizeof formatted, "%llu", (unsigned long long)number);
    bo_json_raw(text, formatted);
}

/* ---- objects and arrays to a file -------------------------------------------------------------------------------- */

static void put_file(void *sink, const char *bytes, size_t size)
{
    fwrite(bytes, 1, size, sink);
}

/* The comma, the line and the key before an item. */
static void before(bo_json *json, const char *key)
{
    if (json->depth == 0) return;
    int level = json->depth - 1;
    if (json->array[level]) {
        if (json->some[level]) fputs(", ", json->out);
    } else {
        bool inside_array = json->line;
        for (int i = 0; i < level; i++) inside_array |= json->array[i];
        if (inside_array)
            fputs(json->some[level] ? ", " : "", json->out);
        else
            fprintf(json->out, "%s\n%*s", json->some[level] ? "," : "", 2 * json->depth, "");
    }
    json->some[level] = true;
    if (key) {
        quote(key, false, put_file, json->out);
        fputs(": ", json->out);
    }
}

static void open_level(bo_json *json, const char *key, bool array)
{
    if (json->left_out || json->depth == BO_JSON_DEPTH) {
        if (json->left_out == 0) bo_json_add_text(json, key, NULL);
        json->left_out++;
        return;
    }
    before(json, key);
    json->array[json->depth] = array;
    json->some[json->depth] = false;
    json->depth++;
    fputc(array ? '[' : '{', json->out);
}

void bo_json_object(bo_json *json, const char *key)
{
    open_level(json, key, false);
}

void bo_json_array(bo_json *json, const char *key)
{
    open_level(json, key, true);
}

void bo_json_end(bo_json *json)
{
    if (json->left_out) {
        json->left_out--;
        return;
    }
    if (json->depth == 0) return;
    int level = --json->depth;
    bool inside_array = json->line || json->array[level];
    for (int i = 0; i < level; i++) inside_array |= json->array[i];
    if (!inside_array && json->some[level]) fprintf(json->out, "\n%*s", 2 * level, "");
    fputc(json->array[level] ? ']' : '}', json->out);
    if (level == 0) fputc('\n', json->out);
}

void bo_json_add_text(bo_json *json, const char *key, const char *text)
{
    if (json->left_out) return;
    before(json, key);
    if (text)
        quote(text, false, put_file, json->out);
    else
        fputs("null", json->out);
}

void bo_json_add_number(bo_json *json, const char *key, double value)
{
    if (json->left_out) return;
    char formatted[BO_NUMBER_TEXT];
    before(json, key);
    fputs(isfinite(value) ? bo_number_format(value, formatted) : "null", json->out);
}

void bo_json_add_count(bo_json *json, const char *key, size_t value)
{
    if (json->left_out) return;
    before(json, key);
    fprintf(json->out, "%zu", value);
}

void bo_json_add_flag(bo_json *json, const char *key, bool value)
{
    if (json->left_out) return;
    before(json, key);
    fputs(value ? "true" : "false", json->out);
}
