/* Files as a sequence of documents, and documents as parts for threads. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include "../io/foreign.h"
#include "../io/json.h"
#include "documents.h"

/* ====================================================================================================================
 * JSON lines: one object per line; empty lines are skipped. The text of all lines is stored in one block, which is
 * never larger than the file, because an escaped string is at least as long as its content. */

enum { MAX_DEPTH = 64 };

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

/* True if the line contains a NUL, literally or as \u0000 after an even number of backslashes. bo_json would end a
 * string there and lose the rest. */
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

/* Finds the string `field` in one line. */
static bo_status find_text(bo_context *context, const char *where, const bo_json *object, const char *field,
                           const char **out)
{
    const bo_json *value = bo_json_member(object, field);
    if (!bo_json_is(object, BO_JSON_OBJECT)) return bo_fail(context, BO_FORMAT, "%s: expected a JSON object", where);
    if (!value) return bo_fail(context, BO_FORMAT, "%s: the object has no field \"%s\"", where, field);
    if (!bo_json_is(value, BO_JSON_TEXT))
        return bo_fail(context, BO_FORMAT, "%s: the field \"%s\" is not a string", where, field);
    *out = value->text;
    return BO_OK;
}

static bo_status read_line(bo_context *context, const char *where, const char *line, size_t length, const char *field,
                           char *to, size_t *written)
{
    bo_json *object;
    if (has_nul(line, length))
        return bo_fail(context, BO_FORMAT, "%s: contains a NUL character (\\u0000), which is not allowed in text",
                       where);
    BO_TRY(bo_json_parse(context, where, line, length, MAX_DEPTH, &object));
    const char *text = "";
    bo_status status = find_text(context, where, object, field, &text);
    *written = status == BO_OK ? strlen(text) : 0;
    memcpy(to, text, *written);
    bo_json_delete(object);
    return status;
}

static bool is_space_only(const char *line, const char *end)
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
        if (is_space_only(line, stop)) continue;
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

/* ---- documents --------------------------------------------------------------------------------------------------- */

bo_status bo_documents_add(bo_context *context, bo_documents *documents, size_t file, const char *text, size_t length)
{
    if (length == 0) return BO_OK;
    if (documents->count == documents->capacity) {
        size_t capacity = documents->capacity ? 2 * documents->capacity : 16;
        bo_document *larger = bo_realloc(context, documents->items, capacity, sizeof *larger, "the list of documents");
        if (!larger) return BO_MEMORY;
        documents->items = larger;
        documents->capacity = capacity;
    }
    documents->items[documents->count++] = (bo_document){text, length, file};
    documents->bytes += length;
    return BO_OK;
}

static bo_status read_text(bo_context *context, bo_documents *documents, size_t file, const char *separator)
{
    const char *at = documents->mappings[file].data, *end = at + documents->mappings[file].size;
    size_t length = separator ? strlen(separator) : 0;
    while (length > 0) {
        const char *found = memmem(at, (size_t)(end - at), separator, length);
        if (!found) break;
        BO_TRY(bo_documents_add(context, documents, file, at, (size_t)(found - at)));
        at = found + length;
    }
    return bo_documents_add(context, documents, file, at, (size_t)(end - at));
}

static bo_status open_file(bo_context *context, const bo_corpus_desc *desc, size_t file, bo_documents *documents)
{
    const char *path = desc->memory ? "memory" : desc->paths[file];
    documents->paths[file] = bo_strdup(context, path);
    if (!documents->paths[file]) return BO_MEMORY;
    BO_TRY(desc->memory ? bo_mapping_copy(context, desc->memory, desc->memory_bytes, &documents->mappings[file])
                        : bo_mapping_open(context, path, &documents->mappings[file]));
    const bo_mapping *mapping = &documents->mappings[file];
    if (!desc->memory) BO_TRY(bo_foreign_refuse(context, path, mapping->data, mapping->size, BO_READABLE_TEXT));
    if (!(desc->memory ? desc->memory_lines : bo_is_json_lines(path)))
        return read_text(context, documents, file, desc->separator);
    BO_TRY(bo_json_lines_read(context, documents, file, desc->field ? desc->field : "text"));
    bo_mapping_close(&documents->mappings[file]);
    return BO_OK;
}

static bo_status no_text(bo_context *context, char *const *paths, size_t path_count)
{
    if (path_count == 1) return bo_fail(context, BO_INVALID, "%s: contains no text", paths[0]);
    char names[512] = "";
    size_t used = 0;
    for (size_t i = 0; i < path_count && used + strlen(paths[i]) + 8 < sizeof names; ++i) {
        used += strlen(strcat(strcat(names + used, i ? ", " : ""), paths[i]));
        if (i + 1 < path_count && used + strlen(paths[i + 1]) + 8 >= sizeof names) strcat(names + used, ", …");
    }
    return bo_fail(context, BO_INVALID, "none of the %zu files contains text: %s", path_count, names);
}

static bo_status open_all(bo_context *context, const bo_corpus_desc *desc, bo_documents *out)
{
    const size_t count = desc->memory ? 1 : desc->path_count;
    out->paths = bo_alloc(context, count, sizeof *out->paths, "the list of files");
    out->mappings = bo_alloc(context, count, sizeof *out->mappings, "the list of files");
    out->unescaped = bo_alloc(context, count, sizeof *out->unescaped, "the list of files");
    if (!out->paths || !out->mappings || !out->unescaped) return BO_MEMORY;
    out->file_count = count;
    for (size_t i = 0; i < count && !desc->memory; ++i)
        if (!desc->paths[i]) return bo_fail(context, BO_INVALID, "corpus: the path of file %zu is NULL", i);
    for (size_t i = 0; i < count; ++i) BO_TRY(open_file(context, desc, i, out));
    return out->count > 0 ? BO_OK : no_text(context, out->paths, count);
}

bo_status bo_documents_open(bo_context *context, const bo_corpus_desc *desc, bo_documents *out)
{
    *out = (bo_documents){0};
    if (!desc->memory && (!desc->paths || desc->path_count == 0))
        return bo_fail(context, BO_INVALID, "corpus: expected paths or memory, found neither");
    bo_status status = open_all(context, desc, out);
    if (status != BO_OK) bo_documents_close(out);
    return status;
}

void bo_documents_close(bo_documents *documents)
{
    for (size_t i = 0; i < documents->file_count; ++i) {
        bo_mapping_close(&documents->mappings[i]);
        bo_free(documents->unescaped[i]);
        bo_free(documents->paths[i]);
    }
    bo_free(documents->paths);
    bo_free(documents->mappings);
    bo_free(documents->unescaped);
    bo_free(documents->items);
    *documents = (bo_documents){0};
}

/* ---- parts ------------------------------------------------------------------------------------------------------- */

static bo_status add(bo_context *context, bo_parts *parts, bo_text_part part)
{
    if (parts->count == parts->capacity) {
        size_t capacity = parts->capacity ? 2 * parts->capacity : 64;
        bo_text_part *larger = bo_realloc(context, parts->items, capacity, sizeof *larger, "the parts of a text");
        if (!larger) return BO_MEMORY;
        parts->items = larger;
        parts->capacity = capacity;
    }
    parts->items[parts->count++] = part;
    return BO_OK;
}

static size_t part_length(const char *text, size_t length)
{
    size_t at = BO_TEXT_PART_BYTES;
    while (at < length && !((text[at] == ' ' || text[at] == '\n') && text[at - 1] > ' ' && text[at - 1] < 127)) ++at;
    return at < length ? at : length;
}

bo_status bo_parts_make(bo_context *context, const bo_documents *documents, bool cuttable, bo_parts *out)
{
    *out = (bo_parts){0};
    for (size_t d = 0; d < documents->count; ++d) {
        const char *text = documents->items[d].text;
        size_t left = documents->items[d].length;
        while (left > 0) {
            size_t length = cuttable ? part_length(text, left) : left;
            bo_status status = add(context, out, (bo_text_part){text, length, d, length == left});
            if (status != BO_OK) {
                bo_free(out->items);
                *out = (bo_parts){0};
                return status;
            }
            text += length;
            left -= length;
        }
    }
    return BO_OK;
}
