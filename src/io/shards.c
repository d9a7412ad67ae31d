/* Tensors in several safetensors files that an index lists. */
#include "shards.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "bytes.h"
#include "input.h"
#include "json.h"
#include "names.h"

enum { DEPTH = 8 };

/* A line of the weight_map. */
typedef struct entry {
    const char *tensor, *shard;
} entry;

/* An index being opened. Texts belong to the JSON. */
typedef struct listing {
    const char *path;
    entry *entries; /* by tensor */
    size_t count;
    const char **shards; /* by name, each once */
    bo_tensors **parts;  /* those of the shards */
    size_t shard_count;
} listing;

/* ---- the index --------------------------------------------------------------------------------------------------- */

static int by_tensor(const void *a, const void *b)
{
    return strcmp(((const entry *)a)->tensor, ((const entry *)b)->tensor);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* A shard is a file of the directory: an untrusted index must not open other files. */
static bool is_plain(const char *name)
{
    return *name && !strchr(name, '/') && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

static bo_status read_entry(bo_context *context, listing *index, const bo_json *item)
{
    const char *shard = bo_json_text_or_null(item);
    if (!shard)
        return bo_fail(context, BO_FORMAT, "%s: tensor '%.100s': expected the name of a file in \"weight_map\"",
                       index->path, item->key);
    if (!is_plain(shard))
        return bo_fail(context, BO_FORMAT,
                       "%s: tensor '%.100s': expected the name of a file in the same directory, found '%.100s'",
                       index->path, item->key, shard);
    index->entries[index->count++] = (entry){item->key, shard};
    return BO_OK;
}

/* Sorts the entries and collects the shards. */
static bo_status sort_entries(bo_context *context, listing *index)
{
    qsort(index->entries, index->count, sizeof *index->entries, by_tensor);
    for (size_t i = 1; i < index->count; i++)
        if (by_tensor(&index->entries[i - 1], &index->entries[i]) == 0)
            return bo_fail(context, BO_FORMAT, "%s: tensor '%.100s' occurs twice in \"weight_map\"", index->path,
                           index->entries[i].tensor);
    for (size_t i = 0; i < index->count; i++) index->shards[i] = index->entries[i].shard;
    qsort(index->shards, index->count, sizeof *index->shards, by_text);
    for (size_t i = 0; i < index->count; i++)
        if (index->shard_count == 0 || strcmp(index->shards[index->shard_count - 1], index->shards[i]) != 0)
            index->shards[index->shard_count++] = index->shards[i];
    return BO_OK;
}

static bo_status read_map(bo_context *context, listing *index, const bo_json *json)
{
    const bo_json *map = bo_json_member(json, "weight_map"), *item;
    if (!bo_json_is(map, BO_JSON_OBJECT) || !map->child)
        return bo_fail(context, BO_FORMAT, "%s: expected an object \"weight_map\" with the files of the tensors",
                       index->path);
    const size_t count = (size_t)bo_json_count(map);
    index->entries = bo_alloc(context, count, sizeof *index->entries, "an index of shards");
    index->shards = bo_alloc(context, count, sizeof *index->shards, "an index of shards");
    if (!index->entries || !index->shards) return BO_MEMORY;
    BO_JSON_EACH(item, map) BO_TRY(read_entry(context, index, item));
    return sort_entries(context, index);
}

/* ---- the shards -------------------------------------------------------------------------------------------------- */

static bo_status open_shards(bo_context *context, listing *index, const bo_shard_source *source)
{
    bo_names absent = {0};
    for (size_t i = 0; i < index->shard_count; i++)
        if (!source->exists(source->user, index->shards[i])) bo_names_add(&absent, "%.200s", index->shards[i]);
    if (absent.count)
        return bo_fail(context, BO_IO, "%s: missing shards (%zu of %zu): %s", index->path, absent.count,
                       index->shard_count, bo_names_text(&absent));
    index->parts = bo_alloc(context, index->shard_count, sizeof *index->parts, "shards");
    if (!index->parts) return BO_MEMORY;
    for (size_t i = 0; i < index->shard_count; i++)
        BO_TRY(source->open(context, source->user, index->shards[i], &index->parts[i]));
    return BO_OK;
}

/* Returns the number of a shard. */
static size_t number_of(const listing *index, const char *shard)
{
    const char **found = bsearch(&shard, index->shards, index->shard_count, sizeof *index->shards, by_text);
    return (size_t)(found - index->shards);
}

/* Every tensor of the index is in its shard. */
static bo_status check_entries(bo_context *context, const listing *index)
{
    bo_names absent = {0};
    for (size_t i = 0; i < index->count; i++) {
        const entry *line = &index->entries[i];
        if (!bo_tensors_find(index->parts[number_of(index, line->shard)], line->tensor))
            bo_names_add(&absent, "'%.100s' (%.100s)", line->tensor, line->shard);
    }
    if (!absent.count) return BO_OK;
    return bo_fail(context, BO_FORMAT, "%s: tensors that are not in their shards (%zu): %s", index->path, absent.count,
                   bo_names_text(&absent));
}

/* Every tensor of a shard is in the index, with this shard. */
static bo_status check_shard(bo_context *context, const listing *index, size_t number, bo_names *unlisted)
{
    const bo_tensors *part = index->parts[number];
    for (size_t i = 0; i < bo_tensors_count(part); i++) {
        const entry key = {.tensor = bo_tensors_at(part, i)->name};
        const entry *line = bsearch(&key, index->entries, index->count, sizeof key, by_tensor);
        if (!line) {
            bo_names_add(unlisted, "'%.100s' (%.100s)", key.tensor, index->shards[number]);
        } else if (strcmp(line->shard, index->shards[number]) != 0) {
            return bo_fail(context, BO_FORMAT, "%s: tensor '%.100s' is in two shards, %.100s and %.100s", index->path,
                           key.tensor, line->shard, index->shards[number]);
        }
    }
    return BO_OK;
}

static bo_status check_shards(bo_context *context, const listing *index)
{
    bo_names unlisted = {0};
    for (size_t i = 0; i < index->shard_count; i++) BO_TRY(check_shard(context, index, i, &unlisted));
    if (!unlisted.count) return BO_OK;
    return bo_fail(context, BO_FORMAT, "%s: tensors of the shards that are not in the index (%zu): %s", index->path,
                   unlisted.count, bo_names_text(&unlisted));
}

static bo_status open_listing(bo_context *context, listing *index, const bo_json *json, const bo_shard_source *source,
                              bo_tensors **out)
{
    BO_TRY(read_map(context, index, json));
    BO_TRY(open_shards(context, index, source));
    BO_TRY(check_entries(context, index));
    BO_TRY(check_shards(context, index));
    BO_TRY(bo_tensors_join(context, index->path, index->parts, index->shard_count, out));
    index->parts = NULL;
    return BO_OK;
}

bo_status bo_shards_open_memory(bo_context *context, const char *path, const char *text, size_t length,
                                const bo_shard_source *source, bo_tensors **out)
{
    listing index = {.path = path};
    bo_json *json;
    *out = NULL;
    BO_TRY(bo_json_parse(context, path, text, length, DEPTH, &json));
    const bo_status status = bo_json_has_nul(text, length)
                                 ? bo_fail(context, BO_FORMAT, "%s: contains \\u0000, which no name may contain", path)
                                 : open_listing(context, &index, json, source, out);
    for (size_t i = 0; index.parts && i < index.shard_count; i++) bo_tensors_close(index.parts[i]);
    bo_free(index.parts);
    bo_free(index.entries);
    bo_free(index.shards);
    bo_json_delete(json);
    return status;
}

/* ---- a directory ----------------------------------------------------------------------------------------------------
 */

enum { PATH = 4096 };

/* Writes the path of a file in the directory of the index. */
static bool beside(const char *index, const char *name, char out[PATH])
{
    const char *slash = strrchr(index, '/');
    const int directory = slash ? (int)(slash + 1 - index) : 0;
    return snprintf(out, PATH, "%.*s%s", directory, index, name) < PATH;
}

static bool exists(void *user, const char *name)
{
    char path[PATH];
    return beside(user, name, path) && access(path, F_OK) == 0;
}

static bo_status open_beside(bo_context *context, void *user, const char *name, bo_tensors **out)
{
    char path[PATH];
    if (!beside(user, name, path)) return bo_fail(context, BO_INVALID, "the path %.80s… is too long", path);
    return bo_tensors_open(context, path, out);
}

bo_status bo_shards_open(bo_context *context, const char *path, bo_tensors **out)
{
    char *text;
    size_t length;
    *out = NULL;
    const bo_shard_source source = {exists, open_beside, (void *)(uintptr_t)path};
    BO_TRY(bo_bytes_text(context, path, &bo_limits_index, &text, &length));
    const bo_status status = bo_shards_open_memory(context, path, text, length, &source, out);
    bo_free(text);
    return status;
}
