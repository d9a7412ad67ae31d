/* Reading of safetensors files: u64 header length, JSON header, data. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "bytes.h"
#include "input.h"
#include "json.h"
#include "tensors_layout.h"

/* Indexed by bo_dtype. */
static const struct {
    const char *name;
    size_t size;
} dtypes[BO_DTYPES] = {{"F64", 8}, {"F32", 4}, {"F16", 2}, {"BF16", 2}, {"I64", 8},
                       {"I32", 4}, {"I16", 2}, {"I8", 1},  {"U8", 1},   {"BOOL", 1}};

static const char MARK[] = BO_TENSORS_MARK;

size_t bo_dtype_size(bo_dtype dtype)
{
    return dtypes[dtype].size;
}

const char *bo_dtype_name(bo_dtype dtype)
{
    return dtypes[dtype].name;
}

/* ====================================================================================================================
 * Strict reading: every byte of the data belongs to exactly one tensor. */

/* Tensors are sorted by name. Data that is not aligned for its type is copied; `copied` marks these tensors. */
struct bo_tensors {
    char *path;
    const unsigned char *bytes;
    size_t size;
    bool mapped;
    void *collected; /* owned bytes; NULL: none */
    bo_file_tensor *tensors;
    bool *copied;
    size_t count;
    bo_meta *meta;
    const bo_meta **keys; /* meta, sorted by key */
    size_t meta_count;
    bo_tensors **parts; /* files that have the data; NULL: none */
    size_t part_count;
};

bool bo_tensor_size(bo_dtype dtype, size_t rank, const size_t *shape, size_t *bytes)
{
    *bytes = bo_dtype_size(dtype);
    for (size_t i = 0; i < rank; ++i)
        if (__builtin_mul_overflow(*bytes, shape[i], bytes)) return false;
    return true;
}

static bo_status malformed(bo_context *context, const bo_tensors *file, const char *name, const char *what)
{
    if (!name) return bo_fail(context, BO_FORMAT, "%s: %s", file->path, what);
    return bo_fail(context, BO_FORMAT, "%s: tensor '%.100s': %s", file->path, name, what);
}

/* ---- header ------------------------------------------------------------------------------------------------------ */

static bo_status read_dtype(bo_context *context, const bo_tensors *file, const char *name, const bo_json *item,
                            bo_dtype *out)
{
    const char *text = bo_json_text_or_null(item);
    if (!text) return malformed(context, file, name, "the dtype is missing");
    for (int i = 0; i < BO_DTYPES; ++i)
        if (strcmp(text, dtypes[i].name) == 0) {
            *out = (bo_dtype)i;
            return BO_OK;
        }
    return bo_fail(
        context, BO_UNSUPPORTED,
        "%s: tensor '%.100s': dtype %.20s is not supported; expected F64, F32, F16, BF16, I64, I32, I16, I8, U8 "
        "or BOOL",
        file->path, name, text);
}

static bo_status read_shape(bo_context *context, const bo_tensors *file, const bo_json *item, bo_file_tensor *tensor)
{
    const bo_json *size;
    if (!bo_json_is(item, BO_JSON_ARRAY)) return malformed(context, file, tensor->name, "the shape is missing");
    BO_JSON_EACH(size, item)
    {
        if (tensor->rank == BO_TENSORS_MAX_RANK)
            return malformed(context, file, tensor->name, "expected a rank of at most 8");
        if (!bo_json_size(size, &tensor->shape[tensor->rank]))
            return malformed(context, file, tensor->name, "expected nonnegative integers in the shape");
        ++tensor->rank;
    }
    return BO_OK;
}

static bo_status read_tensor(bo_context *context, bo_tensors *file, const bo_json *item, size_t data_start)
{
    static const char *const known[] = {"dtype", "shape", "data_offsets"};
    bo_file_tensor *tensor = &file->tensors[file->count];
    memset(tensor, 0, sizeof *tensor);
    if (!(tensor->name = bo_strdup(context, item->key))) return BO_MEMORY;
    ++file->count;
    if (!bo_json_is(item, BO_JSON_OBJECT))
        return malformed(context, file, tensor->name, "expected an object in the header");
    const bo_json *member;
    size_t members = 0;
    BO_JSON_EACH(member, item)
    {
        bool fine = false;
        for (size_t i = 0; i < 3; ++i) fine |= strcmp(member->key, known[i]) == 0;
        if (!fine || ++members > 3)
            return malformed(context, file, tensor->name, "the header has an unknown or repeated entry");
    }
    BO_TRY(read_dtype(context, file, tensor->name, bo_json_member(item, "dtype"), &tensor->dtype));
    BO_TRY(read_shape(context, file, bo_json_member(item, "shape"), tensor));
    const bo_json *offsets = bo_json_member(item, "data_offsets");
    size_t begin, end, expected;
    if (!bo_json_is(offsets, BO_JSON_ARRAY) || bo_json_count(offsets) != 2 ||
        !bo_json_size(bo_json_at(offsets, 0), &begin) || !bo_json_size(bo_json_at(offsets, 1), &end))
        return malformed(context, file, tensor->name, "expected two nonnegative integers as data_offsets");
    if (begin > end || end > file->size - data_start)
        return bo_fail(
            context, BO_FORMAT,
            "%s: tensor '%.100s': bytes %zu to %zu are outside the data of %zu bytes; the file may be truncated",
            file->path, tensor->name, begin, end, file->size - data_start);
    if (!bo_tensor_size(tensor->dtype, tensor->rank, tensor->shape, &expected))
        return malformed(context, file, tensor->name, "the shape is too large");
    if (expected != end - begin)
        return bo_fail(context, BO_FORMAT,
                       "%s: tensor '%.100s': expected %zu bytes for its shape and dtype, found %zu in data_offsets",
                       file->path, tensor->name, expected, end - begin);
    tensor->data = file->bytes + data_start + begin;
    tensor->bytes = expected;
    return BO_OK;
}

static bo_status read_meta(bo_context *context, bo_tensors *file, const bo_json *object)
{
    if (file->meta) return malformed(context, file, NULL, "__metadata__ occurs twice");
    if (!bo_json_is(object, BO_JSON_OBJECT))
        return malformed(context, file, NULL, "expected an object as __metadata__");
    size_t count = (size_t)bo_json_count(object);
    file->meta = bo_alloc(context, count, sizeof *file->meta, "metadata");
    if (!file->meta) return BO_MEMORY;
    const bo_json *item;
    BO_JSON_EACH(item, object)
    {
        if (!bo_json_is(item, BO_JSON_TEXT)) return malformed(context, file, NULL, "expected strings in __metadata__");
        if (strcmp(item->key, BO_TENSORS_CHECKSUM) == 0)
            continue; /* metadata of this file only, not of files derived from it */
        bo_meta *meta = &file->meta[file->meta_count++];
        meta->key = bo_strdup(context, item->key);
        meta->value = bo_strdup(context, item->text);
        if (!meta->key || !meta->value) return BO_MEMORY;
    }
    return BO_OK;
}

/* ---- whole file -------------------------------------------------------------------------------------------------- */

static int by_name(const void *a, const void *b)
{
    return strcmp(((const bo_file_tensor *)a)->name, ((const bo_file_tensor *)b)->name);
}

static int by_place(const void *a, const void *b)
{
    const bo_file_tensor *x = a, *y = b;
    if (x->data != y->data) return (const char *)x->data < (const char *)y->data ? -1 : 1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes); /* empty tensors first */
}

/* No gaps, no overlaps, nothing after the last tensor. */
static bo_status check_places(bo_context *context, bo_tensors *file, const unsigned char *start)
{
    const unsigned char *at = start;
    qsort(file->tensors, file->count, sizeof *file->tensors, by_place);
    for (size_t i = 0; i < file->count; ++i) {
        const bo_file_tensor *tensor = &file->tensors[i];
        if ((const unsigned char *)tensor->data != at)
            return malformed(context, file, tensor->name,
                             (const unsigned char *)tensor->data < at ? "overlaps another tensor"
                                                                      : "the bytes before it belong to no tensor");
        at += tensor->bytes;
    }
    if (at != file->bytes + file->size)
        return bo_fail(context, BO_FORMAT, "%s: %zu bytes at the end belong to no tensor", file->path,
                       (size_t)(file->bytes + file->size - at));
    return BO_OK;
}

static int by_key(const void *a, const void *b)
{
    return strcmp((*(const bo_meta *const *)a)->key, (*(const bo_meta *const *)b)->key);
}

static bo_status check_names(bo_context *context, bo_tensors *file)
{
    qsort(file->tensors, file->count, sizeof *file->tensors, by_name);
    for (size_t i = 1; i < file->count; ++i)
        if (strcmp(file->tensors[i - 1].name, file->tensors[i].name) == 0)
            return malformed(context, file, file->tensors[i].name, "occurs twice in the header");
    return BO_OK;
}

static bo_status sort_keys(bo_context *context, bo_tensors *file)
{
    file->keys = bo_alloc(context, file->meta_count, sizeof *file->keys, "metadata");
    if (!file->keys) return BO_MEMORY;
    for (size_t i = 0; i < file->meta_count; ++i) file->keys[i] = &file->meta[i];
    qsort(file->keys, file->meta_count, sizeof *file->keys, by_key);
    for (size_t i = 1; i < file->meta_count; ++i)
        if (strcmp(file->keys[i - 1]->key, file->keys[i]->key) == 0)
            return bo_fail(context, BO_FORMAT, "%s: metadata '%.100s' occurs twice", file->path, file->keys[i]->key);
    return BO_OK;
}

/* Tensors may start at addresses that are not aligned for their type; these are copied. */
static bo_status align_data(bo_context *context, bo_tensors *file)
{
    file->copied = bo_alloc(context, file->count, sizeof *file->copied, "tensors");
    if (!file->copied) return BO_MEMORY;
    for (size_t i = 0; i < file->count; ++i) {
        bo_file_tensor *tensor = &file->tensors[i];
        if ((uintptr_t)tensor->data % bo_dtype_size(tensor->dtype) == 0) continue;
        void *copy = bo_alloc_raw(context, tensor->bytes, 1, "a tensor");
        if (!copy) return BO_MEMORY;
        memcpy(copy, tensor->data, tensor->bytes);
        tensor->data = copy;
        file->copied[i] = true;
    }
    return BO_OK;
}

static bo_status read_header(bo_context *context, bo_tensors *file, const bo_json *json, size_t data_start)
{
    const bo_json *item;
    if (!bo_json_is(json, BO_JSON_OBJECT)) return malformed(context, file, NULL, "expected a JSON object as header");
    file->tensors = bo_alloc(context, (size_t)bo_json_count(json), sizeof *file->tensors, "tensors");
    if (!file->tensors) return BO_MEMORY;
    BO_JSON_EACH(item, json)
    {
        if (strcmp(item->key, "__metadata__") == 0)
            BO_TRY(read_meta(context, file, item));
        else
            BO_TRY(read_tensor(context, file, item, data_start));
    }
    BO_TRY(check_places(context, file, file->bytes + data_start));
    BO_TRY(check_names(context, file));
    BO_TRY(sort_keys(context, file));
    return align_data(context, file);
}

static bool has_checksum(const unsigned char *bytes, size_t size)
{
    return size >= BO_TENSORS_DIGITS_AT + BO_CHECKSUM_DIGITS &&
           bo_checksum_announced(bytes + BO_TENSORS_LENGTH, MARK, sizeof MARK - 1);
}

/* A file without a checksum is accepted: it comes from another program, or from a version that wrote no checksums. */
static bo_status check_sum(bo_context *context, const bo_tensors *file)
{
    char found[BO_CHECKSUM_DIGITS];
    if (!has_checksum(file->bytes, file->size)) return BO_OK;
    BO_TRY(bo_checksum_find(context, file->bytes, file->size, BO_TENSORS_DIGITS_AT, found));
    if (memcmp(found, file->bytes + BO_TENSORS_DIGITS_AT, sizeof found) == 0) return BO_OK;
    return bo_fail(
        context, BO_FORMAT,
        "%s: the file is damaged, may be truncated, or was changed by another program: its checksum does not "
        "match its %zu bytes, which have the checksum %.16s; use a copy of the file",
        file->path, file->size, found);
}

void bo_tensors_seal(void *bytes, size_t size)
{
    char *digits = (char *)bytes + BO_TENSORS_DIGITS_AT;
    bo_checksum sum;
    if (!has_checksum(bytes, size)) return;
    bo_checksum_start(&sum, bytes, BO_TENSORS_DIGITS_AT);
    bo_checksum_add(&sum, digits + BO_CHECKSUM_DIGITS, size - BO_TENSORS_DIGITS_AT - BO_CHECKSUM_DIGITS);
    bo_checksum_end(&sum, digits);
}

static bo_status read_file(bo_context *context, bo_tensors *file, bool verify)
{
    if (__BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__)
        return bo_fail(context, BO_UNSUPPORTED, "%s: safetensors files are not supported on big-endian computers",
                       file->path);
    if (file->size < 8)
        return bo_fail(
            context, BO_FORMAT,
            "%s: expected a model or a feature map (safetensors), found only %zu bytes; the file may be truncated",
            file->path, file->size);
    if (verify) BO_TRY(check_sum(context, file));
    uint64_t length = 0;
    for (int i = BO_TENSORS_LENGTH - 1; i >= 0; --i) length = length << 8 | file->bytes[i];
    if (length > BO_TENSORS_MAX_HEADER)
        return bo_fail(context, BO_FORMAT,
                       "%s: expected a model or a feature map (safetensors), found another format: the first 8 bytes "
                       "declare a header of %llu bytes, more than the maximum of %d",
                       file->path, (unsigned long long)length, BO_TENSORS_MAX_HEADER);
    if (length > file->size - 8)
        return bo_fail(context, BO_FORMAT,
                       "%s: the header declares %llu bytes, but the file has %zu; the file may be truncated",
                       file->path, (unsigned long long)length, file->size);
    const char *header = (const char *)file->bytes + 8;
    if (length == 0 || header[0] != '{')
        return malformed(context, file, NULL, "expected a model or a feature map (safetensors), found another format");
    bo_json *json;
    BO_TRY(bo_json_parse(context, file->path, header, (size_t)length, 4, &json));
    bo_status status = read_header(context, file, json, 8 + (size_t)length);
    bo_json_delete(json);
    return status;
}

static bo_status map_file(bo_context *context, bo_tensors *file)
{
    struct stat about;
    int fd;
    void *mapping;
    BO_TRY(bo_input_open(context, file->path, &bo_limits_weights, &fd, &about));
    const bo_status status = bo_input_map(context, file->path, fd, (size_t)about.st_size, &mapping);
    close(fd);
    if (!mapping) return status;
    file->bytes = mapping;
    file->size = (size_t)about.st_size;
    file->mapped = true;
    return BO_OK;
}

/* The file at this path, or with `data` the bytes with this name in messages. */
static bo_status open_tensors(bo_context *context, const char *path, const void *data, size_t size, bool verify,
                              bo_tensors **out)
{
    *out = NULL;
    if (!path || !*path) return bo_fail(context, BO_INVALID, "expected the name of a file, found none");
    bo_tensors *file = bo_alloc(context, 1, sizeof *file, "a safetensors file");
    if (!file) return BO_MEMORY;
    file->path = bo_strdup(context, path);
    file->bytes = data;
    file->size = size;
    bo_status status = !file->path ? BO_MEMORY : data ? BO_OK : map_file(context, file);
    if (status == BO_OK) status = read_file(context, file, verify);
    if (status != BO_OK)
        bo_tensors_close(file);
    else
        *out = file;
    return status;
}

bo_status bo_tensors_open(bo_context *context, const char *path, bo_tensors **out)
{
    return open_tensors(context, path, NULL, 0, true, out);
}

bo_status bo_tensors_open_memory(bo_context *context, const char *name, const void *data, size_t size, bo_tensors **out)
{
    return open_tensors(context, name, size ? data : "", size, true, out);
}

bo_status bo_tensors_open_source(bo_context *context, const bo_source *source, bo_tensors **out)
{
    void *collected = NULL;
    size_t size = source->size;
    *out = NULL;
    BO_TRY(bo_source_check(context, source));
    if (source->path) return bo_tensors_open(context, source->path, out);
    if (source->read) BO_TRY(bo_source_collect(context, source, &bo_limits_weights, &collected, &size));
    const void *bytes = collected ? collected : source->bytes;
    const bo_status status = bo_tensors_open_memory(context, bo_source_name(source), bytes, size, out);
    if (status == BO_OK)
        (*out)->collected = collected;
    else
        bo_free(collected);
    return status;
}

bool bo_tensors_mention(bo_context *context, const char *path, const char *key)
{
    bo_tensors *file;
    if (open_tensors(context, path, NULL, 0, false, &file) != BO_OK) return false;
    const bool found = bo_tensors_meta(file, key) != NULL;
    bo_tensors_close(file);
    return found;
}

bo_status bo_tensors_borrow(bo_context *context, const char *path, const bo_file_tensor *tensors, size_t count,
                            bo_tensors **out)
{
    bo_status status = BO_OK;
    bo_tensors *file = bo_alloc(context, 1, sizeof *file, "borrowed tensors");
    if (!file) return BO_MEMORY;
    file->path = bo_strdup(context, path);
    file->tensors = bo_alloc(context, count, sizeof *file->tensors, "borrowed tensors");
    if (!file->path || !file->tensors) status = BO_MEMORY;
    for (size_t i = 0; status == BO_OK && i < count; ++i) {
        file->tensors[i] = tensors[i];
        if (!(file->tensors[i].name = bo_strdup(context, tensors[i].name))) status = BO_MEMORY;
        ++file->count;
    }
    if (status == BO_OK) status = check_names(context, file);
    if (status != BO_OK)
        bo_tensors_close(file);
    else
        *out = file;
    return status;
}

bo_status bo_tensors_join(bo_context *context, const char *path, bo_tensors **parts, size_t count, bo_tensors **out)
{
    size_t total = 0, at = 0;
    for (size_t i = 0; i < count; ++i) total += parts[i]->count;
    bo_file_tensor *tensors = bo_alloc(context, total, sizeof *tensors, "tensors of several files");
    if (!tensors) return BO_MEMORY;
    for (size_t i = 0; i < count; at += parts[i++]->count)
        memcpy(tensors + at, parts[i]->tensors, parts[i]->count * sizeof *tensors);
    const bo_status status = bo_tensors_borrow(context, path, tensors, total, out);
    bo_free(tensors);
    if (status != BO_OK) return status;
    (*out)->parts = parts;
    (*out)->part_count = count;
    return BO_OK;
}

void bo_tensors_close(bo_tensors *file)
{
    if (!file) return;
    for (size_t i = 0; i < file->part_count; ++i) bo_tensors_close(file->parts[i]);
    bo_free(file->parts);
    for (size_t i = 0; i < file->count; ++i) {
        if (file->copied && file->copied[i]) bo_free((void *)(uintptr_t)file->tensors[i].data);
        bo_free((void *)(uintptr_t)file->tensors[i].name);
    }
    for (size_t i = 0; i < file->meta_count; ++i) {
        bo_free((void *)(uintptr_t)file->meta[i].key);
        bo_free((void *)(uintptr_t)file->meta[i].value);
    }
    if (file->mapped) munmap((void *)(uintptr_t)file->bytes, file->size);
    bo_free(file->collected);
    bo_free(file->tensors);
    bo_free(file->copied);
    bo_free(file->meta);
    bo_free(file->keys);
    bo_free(file->path);
    bo_free(file);
}

/* ---- access ------------------------------------------------------------------------------------------------------ */

size_t bo_tensors_count(const bo_tensors *file)
{
    return file->count;
}

const bo_file_tensor *bo_tensors_at(const bo_tensors *file, size_t index)
{
    return index < file->count ? &file->tensors[index] : NULL;
}

const bo_file_tensor *bo_tensors_find(const bo_tensors *file, const char *name)
{
    const bo_file_tensor key = {.name = name};
    return file->count ? bsearch(&key, file->tensors, file->count, sizeof key, by_name) : NULL;
}

const char *bo_tensors_meta(const bo_tensors *file, const char *key)
{
    for (size_t i = 0; i < file->part_count; ++i) {
        const char *value = bo_tensors_meta(file->parts[i], key);
        if (value) return value;
    }
    const bo_meta target = {.key = key}, *place = &target;
    const bo_meta *const *found =
        file->keys ? bsearch(&place, file->keys, file->meta_count, sizeof *file->keys, by_key) : NULL;
    return found ? (*found)->value : NULL;
}

size_t bo_tensors_meta_count(const bo_tensors *file)
{
    return file->meta_count;
}

bo_meta bo_tensors_meta_at(const bo_tensors *file, size_t index)
{
    return index < file->meta_count ? file->meta[index] : (bo_meta){NULL, NULL};
}

const char *bo_tensors_path(const bo_tensors *file)
{
    return file->path;
}

void bo_tensors_compare(bo_context *context, const bo_tensors *file, const char *key, const char *path,
                        const char *checksum)
{
    const char *written = bo_tensors_meta(file, key);
    if (!written || strcmp(written, checksum) == 0) return;
    bo_log(context, BO_LOG_WARNING,
           "%s: its checksum is not the one recorded in %s: it was edited, or it is damaged (expected %.20s, found %s)",
           path, file->path, written, checksum);
}

static const char *shape_text(size_t rank, const size_t *shape, bool zero_is_any, char out[200])
{
    size_t used = (size_t)snprintf(out, 200, "(");
    for (size_t i = 0; i < rank && used < 170; ++i) {
        const char *comma = i ? ", " : "";
        if (shape[i] == 0 && zero_is_any)
            used += (size_t)snprintf(out + used, 200 - used, "%sany", comma);
        else
            used += (size_t)snprintf(out + used, 200 - used, "%s%zu", comma, shape[i]);
    }
    snprintf(out + used, 200 - used, ")");
    return out;
}

bo_status bo_tensors_require(bo_context *context, const bo_tensors *file, const char *name, bo_dtype dtype, size_t rank,
                             const size_t *shape, const bo_file_tensor **out)
{
    const bo_file_tensor *tensor = bo_tensors_find(file, name);
    char found[200], expected[200];
    *out = NULL;
    if (!tensor) return bo_fail(context, BO_FORMAT, "%s: expected tensor '%.100s', found none", file->path, name);
    if (tensor->dtype != dtype)
        return bo_fail(context, BO_FORMAT, "%s: tensor '%.100s': expected dtype %s, found %s", file->path, name,
                       dtypes[dtype].name, dtypes[tensor->dtype].name);
    bool same = tensor->rank == rank;
    for (size_t i = 0; same && i < rank; ++i) same = shape[i] == 0 || shape[i] == tensor->shape[i];
    if (!same)
        return bo_fail(context, BO_FORMAT, "%s: tensor '%.100s': expected shape %s, found %s", file->path, name,
                       shape_text(rank, shape, true, expected), shape_text(tensor->rank, tensor->shape, false, found));
    *out = tensor;
    return BO_OK;
}
