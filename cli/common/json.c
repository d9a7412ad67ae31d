#include "json.h"
#include "format.h"
#include <bochner/json.h>
#include <math.h>
#include <string.h>

static void write_bytes(FILE *out, const char *text)
{
    for (; *text; text++) {
        const unsigned char c = (unsigned char)*text;
        if (c < 0x20)
            fprintf(out, "\\u%04x", c);
        else
            fprintf(out, c == '"' || c == '\\' ? "\\%c" : "%c", c);
    }
}

static void write_quoted(const cli_json *json, const char *text)
{
    char piece[256];
    fputc('"', json->out);
    if (json->bytes) write_bytes(json->out, text);
    while (*text && !json->bytes) {
        const size_t length = bo_json_escape(&text, piece, sizeof piece);
        fwrite(piece, 1, length, json->out);
    }
    fputc('"', json->out);
}

/* The comma, the line and the key before an item. */
static void before(cli_json *json, const char *key)
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
        write_quoted(json, key);
        fputs(": ", json->out);
    }
}

static void open_level(cli_json *json, const char *key, bool array)
{
    if (json->left_out || json->depth == CLI_JSON_DEPTH) {
        if (json->left_out == 0) cli_json_add_text(json, key, NULL);
        json->left_out++;
        return;
    }
    before(json, key);
    json->array[json->depth] = array;
    json->some[json->depth] = false;
    json->depth++;
    fputc(array ? '[' : '{', json->out);
}

void cli_json_object(cli_json *json, const char *key)
{
    open_level(json, key, false);
}

void cli_json_array(cli_json *json, const char *key)
{
    open_level(json, key, true);
}

void cli_json_end(cli_json *json)
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

void cli_json_add_text(cli_json *json, const char *key, const char *text)
{
    if (json->left_out) return;
    before(json, key);
    if (text)
        write_quoted(json, text);
    else
        fputs("null", json->out);
}

void cli_json_add_number(cli_json *json, const char *key, double value)
{
    if (json->left_out) return;
    before(json, key);
    fputs(isfinite(value) ? cli_exact(value).s : "null", json->out);
}

void cli_json_add_count(cli_json *json, const char *key, size_t value)
{
    if (json->left_out) return;
    before(json, key);
    fprintf(json->out, "%zu", value);
}

void cli_json_add_flag(cli_json *json, const char *key, bool value)
{
    if (json->left_out) return;
    before(json, key);
    fputs(value ? "true" : "false", json->out);
}

bool cli_json_has_nul(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if (text[i] == 0 || (length - i >= 6 && memcmp(text + i, "\\u0000", 6) == 0)) return true;
        if (text[i] == '\\' && i + 1 < length && text[i + 1] != 0) i++; /* the escaped character may be a backslash */
    }
    return false;
}
