/* JSON: bounded parsing, and writing into growing text. */
#include <bochner/data.h>
#include <bochner/json.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "checksum.h"
#include "json.h"
#include "numbers.h"

/* Counts the levels and the values of a JSON text before bo_json recurses and allocates. Stops at depth max_depth +
 * 1. */
static int measure(const char *text, size_t length, int max_depth, size_t *values)
{
    int depth = 0, deepest = 0;
    bool quoted = false;
    *values = 1;
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
            if (++depth > deepest) deepest = depth;
            if (depth > max_depth) break;
            ++*values;
        } else if (c == '}' || c == ']') {
            --depth;
        } else if (c == ',') {
            ++*values;
        }
    }
    return deepest;
}

bo_status bo_json_parse(bo_context *context, const char *where, const char *text, size_t length, int depth,
                        bo_json **out)
{
    const char *stop = NULL;
    *out = NULL;
    size_t values;
    if (measure(text, length, depth, &values) > depth)
        return bo_fail(context, BO_FORMAT, "%s: the JSON is nested deeper than the maximum of %d", where, depth);
    if (values > BO_JSON_VALUES + length / BO_JSON_VALUE_BYTES)
        return bo_fail(context, BO_FORMAT, "%s: the JSON has %zu values, expected at most %zu in %zu bytes", where,
                       values, BO_JSON_VALUES + length / BO_JSON_VALUE_BYTES, length);
    bo_json *json = bo_json_read(text, length, &stop);
    size_t at = stop ? (size_t)(stop - text) : 0;
    if (!json) return bo_fail(context, BO_FORMAT, "%s: the JSON is malformed near byte %zu", where, at);
    while (at < length && (text[at] == ' ' || text[at] == '\n' || text[at] == '\t' || text[at] == '\r')) ++at;
    if (at < length) {
        bo_json_delete(json);
        return bo_fail(context, BO_FORMAT, "%s: expected the end of the JSON at byte %zu, found other text", where, at);
    }
    *out = json;
    return BO_OK;
}

/* ---- checksums --------------------------------------------------------------------------------------------------- */

static const char MARK[] = "{\n  \"checksum\": \"" BO_CHECKSUM_VERSION;
enum { DIGITS_AT = sizeof MARK - 1, SEALED_BYTES = DIGITS_AT + BO_CHECKSUM_DIGITS };
_Static_assert(sizeof BO_JSON_SEALED - 1 == SEALED_BYTES + 2,
               "BO_JSON_SEALED is the mark, the digits, a quote and a comma");

static void find_digits(const char *text, size_t length, char digits[BO_CHECKSUM_DIGITS])
{
    bo_checksum sum;
    bo_checksum_start(&sum, text, DIGITS_AT);
    bo_checksum_add(&sum, text + SEALED_BYTES, length - SEALED_BYTES);
    bo_checksum_end(&sum, digits);
}

bool bo_json_seal(char *text, size_t length)
{
    if (!text || length < SEALED_BYTES || memcmp(text, MARK, DIGITS_AT) != 0) return false;
    find_digits(text, length, text + DIGITS_AT);
    return true;
}

static bool is_intact(const char *text, size_t length)
{
    char digits[BO_CHECKSUM_DIGITS];
    if (!text) return length == 0;
    if (length < SEALED_BYTES || !bo_checksum_announced(text, MARK, DIGITS_AT)) return true;
    find_digits(text, length, digits);
    return memcmp(text + DIGITS_AT, digits, sizeof digits) == 0;
}

bo_status bo_json_check(bo_context *context, const char *where, const char *text, size_t length)
{
    if (context || !where || (length > 0 && !text)) { /* NULL is a valid context if the others are valid */
        BO_REQUIRE(context, where);
        BO_REQUIRE_IF(context, length > 0, text);
    }
    if (is_intact(text, length)) return BO_OK;
    if (!context) return BO_FORMAT;
    return bo_fail(context, BO_FORMAT,
                   "%s: the file is damaged or was edited: its checksum does not match; use a copy of the file, or "
                   "delete its member \"checksum\" to keep what you edited",
                   where);
}

bool bo_json_has_nul(const char *text, size_t length)
{
    for (size_t i = 0; i + 6 <= length; ++i) {
        if (text[i] != '\\') continue;
        if (memcmp(text + i, "\\u0000", 6) == 0) return true;
        ++i; /* skips the escaped character, which may be a backslash */
    }
    return false;
}

/* The largest whole number that no other whole number is rounded to as a double. */
static const uint64_t EXACT = ((uint64_t)1 << 53) - 1;

bool bo_json_size(const bo_json *item, size_t *out)
{
    if (!bo_json_is(item, BO_JSON_NUMBER)) return false;
    double value = item->number;
    if (!(value >= 0 && value <= (double)EXACT) || value != floor(value)) return false;
    *out = (size_t)value;
    return true;
}

bool bo_json_uint64(const bo_json *item, uint64_t *out)
{
    const char *text = bo_json_text_or_null(item);
    size_t small;
    if (!text) {
        if (!bo_json_size(item, &small)) return false;
        *out = small;
        return true;
    }
    uint64_t value = 0;
    for (const char *at = text; *at; at++) {
        const uint64_t digit = (uint64_t)(*at - '0');
        if (digit > 9 || value > (UINT64_MAX - digit) / 10) return false;
        value = 10 * value + digit;
    }
    *out = value;
    return *text != 0;
}

/* ---- growing text ------------------------------------------------------------------------------------------------ */

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

/* Escapes a text up to `end`, or up to its NUL if `end` is NULL. Bytes that are not UTF-8 become the replacement
 * character, or with `as_is` stay unchanged, as in file names. */
static size_t escape(const char **text, const char *end, bool as_is, char *out, size_t size)
{
    const char *from = *text;
    size_t used = 0;
    for (size_t bytes; end ? from < end : *from != 0; from += bytes) {
        const unsigned char first = (unsigned char)*from;
        const size_t length = bo_utf8_length(from, end && end - from < 4 ? (size_t)(end - from) : 4);
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
        const size_t more = escaped[0] ? strlen(escaped) : bytes;
        if (more > size - used) break;
        memcpy(out + used, escaped[0] ? escaped : from, more);
        used += more;
    }
    *text = from;
    return used;
}

size_t bo_json_escape(const char **text, char *out, size_t size)
{
    if (!text || (size > 0 && !out)) return 0;
    return escape(text, NULL, false, out, size);
}

void bo_json_string(bo_json_text *text, const char *string)
{
    char piece[256];
    bo_json_raw(text, "\"");
    while (*string) append(text, piece, escape(&string, NULL, true, piece, sizeof piece));
    bo_json_raw(text, "\"");
}

void bo_json_text_of(bo_json_text *text, const char *bytes, size_t size)
{
    char piece[256];
    const char *end = bytes + size;
    bo_json_raw(text, "\"");
    while (bytes < end) append(text, piece, escape(&bytes, end, false, piece, sizeof piece));
    bo_json_raw(text, "\"");
}

void bo_json_add(bo_json_text *text, const void *bytes, size_t size)
{
    append(text, bytes, size);
}

void bo_json_number(bo_json_text *text, double number)
{
    char formatted[BO_NUMBER_TEXT];
    bo_number_format(number, formatted, sizeof formatted);
    bo_json_raw(text, isfinite(number) ? formatted : "null");
}

void bo_json_whole(bo_json_text *text, uint64_t number)
{
    char formatted[24];
    if (number > EXACT) {
        bo_json_digits(text, number);
        return;
    }
    snprintf(formatted, sizeof formatted, "%llu", (unsigned long long)number);
    bo_json_raw(text, formatted);
}

void bo_json_digits(bo_json_text *text, uint64_t number)
{
    char formatted[24];
    snprintf(formatted, sizeof formatted, "\"%llu\"", (unsigned long long)number);
    bo_json_raw(text, formatted);
}

bo_status bo_json_text_save(bo_json_text *text, const char *path)
{
    const bool sealed = !text->failed && bo_json_seal(text->bytes, text->length);
    const bo_status status = sealed ? bo_file_save(text->context, path, text->bytes, text->length) : BO_MEMORY;
    bo_free(text->bytes);
    *text = (bo_json_text){.context = text->context};
    return status;
}
