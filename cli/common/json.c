#include "json.h"
#include "format.h"
#include <bochner/base.h>
#include <math.h>
#include <stdlib.h>

/* Text from files need not be UTF-8; JSON must be: other bytes become the replacement character. */
static void quoted(FILE *out, const char *text)
{
    fputc('"', out);
    for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
        const size_t length = bo_utf8_length((const char *)c, 4);
        if (length > 1) {
            fwrite(c, 1, length, out);
            c += length - 1;
        } else if (length == 0)
            fputs("\\ufffd", out);
        else if (*c == '"' || *c == '\\')
            fprintf(out, "\\%c", *c);
        else if (*c == '\n')
            fputs("\\n", out);
        else if (*c == '\t')
            fputs("\\t", out);
        else if (*c < 0x20 || *c == 0x7f)
            fprintf(out, "\\u%04x", *c);
        else
            fputc(*c, out);
    }
    fputc('"', out);
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
        quoted(json->out, key);
        fputs(": ", json->out);
    }
}

static void open_level(cli_json *json, const char *key, bool array)
{
    before(json, key);
    if (json->depth < CLI_JSON_DEPTH) {
        json->array[json->depth] = array;
        json->some[json->depth] = false;
    }
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
    int level = --json->depth;
    bool inside_array = json->line || json->array[level];
    for (int i = 0; i < level; i++) inside_array |= json->array[i];
    if (!inside_array && json->some[level]) fprintf(json->out, "\n%*s", 2 * level, "");
    fputc(json->array[level] ? ']' : '}', json->out);
    if (level == 0) fputc('\n', json->out);
}

void cli_json_text(cli_json *json, const char *key, const char *text)
{
    before(json, key);
    if (text)
        quoted(json->out, text);
    else
        fputs("null", json->out);
}

void cli_json_number(cli_json *json, const char *key, double value)
{
    before(json, key);
    fputs(isfinite(value) ? cli_exact(value).s : "null", json->out);
}

void cli_json_count(cli_json *json, const char *key, size_t value)
{
    before(json, key);
    fprintf(json->out, "%zu", value);
}

void cli_json_flag(cli_json *json, const char *key, bool value)
{
    before(json, key);
    fputs(value ? "true" : "false", json->out);
}
