/* JSON lines: one object a line, blank lines are passed over. The text of all lines goes into one block, which is never
 * larger than the file: an escaped string is at least as long as what it stands for. */
#include "documents.h"
#include "../io/json.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { MOST_DEPTH = 64 };

bool bo_is_json_lines(const char *path)
{
    static const char *const endings[] = {".jsonl", ".ndjson", ".json"};
    size_t length = strlen(path);
    if (length > 3 && strcasecmp(path + length - 3, ".gz") == 0) length -= 3;
    for (size_t i = 0; i < sizeof endings / sizeof *endings; ++i) {
        size_t ending = strlen(endings[i]);
        if (length > ending && strncasecmp(path + length - ending, endings[i], ending) == 0) return true;
    }
    return false;
}

/* A NUL, as it is or as \u0000 after an even number of backslashes: cJSON would end a string there and lose the rest. */
static bool has_nul(const char *line, size_t length)
{
    if (memchr(line, 0, length)) return true;
    for (const char *at = line, *end = line + length; (at = memmem(at, (size_t)(end - at), "\\u0000", 6)); at++) {
        size_t before = 0;
        while (at - before > line && at[-1 - (ptrdiff_t)before] == '\\') ++before;
        if (before % 2 == 0) return true;
    }
    return false;
}

/* The string of `field` in one line. */
static bo_status find_text(bo_context *context, const char *where, const cJSON *object, const char *field,
                           const char **out)
{
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(object, field);
    if (!cJSON_IsObject(object)) return bo_fail(context, BO_FORMAT, "%s: is not a JSON object", where);
    if (!value) return bo_fail(context, BO_FORMAT, "%s: the object has no field \"%s\"", where, field);
    if (!cJSON_IsString(value))
        return bo_fail(context, BO_FORMAT, "%s: the field \"%s\" is not a string", where, field);
    *out = value->valuestring;
    return BO_OK;
}

static bo_status read_line(bo_context *context, const char *where, const char *line, size_t length, const char *field,
                           char *to, size_t *written)
{
    cJSON *object;
    if (has_nul(line, length))
        return bo_fail(context, BO_FORMAT, "%s: has a NUL (\\u0000), which text cannot have", where);
    BO_TRY(bo_json_parse(context, where, line, length, MOST_DEPTH, &object));
    const char *text = "";
    bo_status status = find_text(context, where, object, field, &text);
    *written = status == BO_OK ? strlen(text) : 0;
    memcpy(to, text, *written);
    cJSON_Delete(object);
    return status;
}

static bool is_blank(const char *line, const char *end)
{
    while (line < end && (*line == ' ' || *line == '\t' || *line == '\r')) ++line;
    return line == end;
}

bo_status bo_json_lines_read(bo_context *context, bo_documents *documents, size_t file, const char *field)
{
    const char *path = documents->paths[file], *begin = documents->mappings[file].data;
    const char *end = begin + documents->mappings[file].size;
    char *to = documents->unescaped[file] = bo_alloc_raw(context, (size_t)(end - begin), 1, path);
    if (!to) return BO_MEMORY;
    char where[4200];
    size_t number = 1;
    for (const char *line = begin, *stop; line < end; line = stop + 1, ++number) {
        stop = memchr(line, '\n', (size_t)(end - line));
        if (!stop) stop = end;
        if (is_blank(line, stop)) continue;
        snprintf(where, sizeof where, "%s, line %zu", path, number);
        size_t length = 0;
        BO_TRY(read_line(context, where, line, (size_t)(stop - line), field, to, &length));
        BO_TRY(bo_documents_add(context, documents, file, to, length));
        to += length;
        if (number % 4096 == 0)
            BO_TRY(bo_progress(context, "reading JSON lines", (double)(stop - begin), (double)(end - begin)));
    }
    return BO_OK;
}
