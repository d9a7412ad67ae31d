#include "documents.h"

#include <string.h>

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

static bo_status open_file(bo_context *context, bo_documents *documents, size_t file, const char *path,
                           const char *field, const char *separator)
{
    documents->paths[file] = bo_strdup(context, path);
    if (!documents->paths[file]) return BO_MEMORY;
    BO_TRY(bo_mapping_open(context, path, &documents->mappings[file]));
    if (!bo_is_json_lines(path)) return read_text(context, documents, file, separator);
    BO_TRY(bo_json_lines_read(context, documents, file, field ? field : "text"));
    bo_mapping_close(&documents->mappings[file]);
    return BO_OK;
}

static bo_status no_text(bo_context *context, const char *const *paths, size_t path_count)
{
    if (path_count == 1) return bo_fail(context, BO_INVALID, "%s: holds no text", paths[0]);
    char names[512] = "";
    size_t used = 0;
    for (size_t i = 0; i < path_count && used + strlen(paths[i]) + 8 < sizeof names; ++i) {
        used += strlen(strcat(strcat(names + used, i ? ", " : ""), paths[i]));
        if (i + 1 < path_count && used + strlen(paths[i + 1]) + 8 >= sizeof names) strcat(names + used, ", …");
    }
    return bo_fail(context, BO_INVALID, "none of the %zu files holds text: %s", path_count, names);
}

static bo_status open_all(bo_context *context, const char *const *paths, size_t path_count, const char *field,
                          const char *separator, bo_documents *out)
{
    out->paths = bo_alloc(context, path_count, sizeof *out->paths, "the list of files");
    out->mappings = bo_alloc(context, path_count, sizeof *out->mappings, "the list of files");
    out->unescaped = bo_alloc(context, path_count, sizeof *out->unescaped, "the list of files");
    if (!out->paths || !out->mappings || !out->unescaped) return BO_MEMORY;
    out->file_count = path_count;
    for (size_t i = 0; i < path_count; ++i)
        if (!paths[i]) return bo_fail(context, BO_INVALID, "file %zu of text has no name: it is NULL", i);
    for (size_t i = 0; i < path_count; ++i) BO_TRY(open_file(context, out, i, paths[i], field, separator));
    return out->count > 0 ? BO_OK : no_text(context, paths, path_count);
}

bo_status bo_documents_open(bo_context *context, const char *const *paths, size_t path_count, const char *field,
                            const char *separator, bo_documents *out)
{
    *out = (bo_documents){0};
    if (!paths || path_count == 0) return bo_fail(context, BO_INVALID, "no file of text was named");
    bo_status status = open_all(context, paths, path_count, field, separator, out);
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
