/* GGUF files: strict reading of metadata and descriptions of tensors. */
#include "gguf.h"
#include <stdlib.h>
#include <string.h>

/* A name of a tensor has at most 64 bytes in the files of llama.cpp; others exist. */
enum { MAX_KEY = 65535, MAX_NAME = 255, MAX_RANK = 4, DEFAULT_ALIGNMENT = 32, MAX_ALIGNMENT = 1 << 20 };
/* The minimum size of an entry (empty key, type, one byte) and of a tensor description (empty name, rank 0). */
enum { MIN_ENTRY = 8 + 4 + 1, MIN_TENSOR = 8 + 4 + 4 + 8 };

static const size_t sizes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8}; /* of bo_gguf_type; 0: variable */
enum { TYPES = sizeof sizes / sizeof *sizes };

struct bo_gguf {
    char *path;
    const unsigned char *bytes;
    size_t size;
    unsigned version;
    bo_gguf_entry *entries;  /* sorted by key */
    bo_gguf_tensor *tensors; /* sorted by name */
    size_t entry_count, tensor_count;
    const bo_gguf_tensor **order; /* the tensors in the order of the file */
};

/* ---- bytes ------------------------------------------------------------------------------------------------------- */

static uint64_t little(const unsigned char *bytes, size_t size)
{
    uint64_t value = 0;
    for (size_t i = size; i > 0; --i) value = value << 8 | bytes[i - 1];
    return value;
}

/* A position in the file. */
typedef struct cursor {
    bo_context *context;
    const bo_gguf *file;
    size_t at;
} cursor;

static bo_status truncated(const cursor *in, const char *what, uint64_t size)
{
    return bo_fail(in->context, BO_FORMAT,
                   "%s: %s at byte %zu: expected %llu bytes, found the end of the file after %zu; the file may be "
                   "truncated",
                   in->file->path, what, in->at, (unsigned long long)size, in->file->size - in->at);
}

static bo_status read_number(cursor *in, size_t size, const char *what, uint64_t *out)
{
    *out = 0;
    if (size > in->file->size - in->at) return truncated(in, what, size);
    *out = little(in->file->bytes + in->at, size);
    in->at += size;
    return BO_OK;
}

static bo_status skip(cursor *in, uint64_t size, const char *what)
{
    if (size > in->file->size - in->at) return truncated(in, what, size);
    in->at += (size_t)size;
    return BO_OK;
}

/* A key or a name as a C string. */
static bo_status read_name(cursor *in, size_t max_length, const char *what, char **out)
{
    const size_t start = in->at;
    uint64_t length;
    BO_TRY(read_number(in, 8, what, &length));
    if (length == 0 || length > max_length)
        return bo_fail(in->context, BO_FORMAT, "%s: %s at byte %zu: expected 1 to %zu bytes, found a length of %llu",
                       in->file->path, what, start, max_length, (unsigned long long)length);
    const unsigned char *text = in->file->bytes + in->at;
    BO_TRY(skip(in, length, what));
    if (memchr(text, 0, (size_t)length))
        return bo_fail(in->context, BO_FORMAT, "%s: %s at byte %zu contains a zero byte", in->file->path, what, start);
    char *copy = bo_alloc(in->context, (size_t)length + 1, 1, "a name of a GGUF file");
    if (!copy) return BO_MEMORY;
    memcpy(copy, text, (size_t)length);
    *out = copy;
    return BO_OK;
}

/* ---- metadata ---------------------------------------------------------------------------------------------------- */

static bo_status read_type(cursor *in, const char *key, const char *what, bo_gguf_type *out)
{
    uint64_t type;
    BO_TRY(read_number(in, 4, what, &type));
    if (type >= TYPES)
        return bo_fail(in->context, BO_FORMAT,
                       "%s: metadata '%.100s' at byte %zu: expected a type of 0 to %d, found %llu", in->file->path, key,
                       in->at - 4, TYPES - 1, (unsigned long long)type);
    *out = (bo_gguf_type)type;
    return BO_OK;
}

static bo_status skip_texts(cursor *in, uint64_t count)
{
    for (uint64_t i = 0; i < count; ++i) {
        uint64_t length;
        BO_TRY(read_number(in, 8, "the length of a string", &length));
        BO_TRY(skip(in, length, "a string"));
    }
    return BO_OK;
}

static bo_status read_count(cursor *in, bo_gguf_entry *entry)
{
    uint64_t count;
    BO_TRY(read_number(in, 8, "the length of an array", &count));
    const uint64_t min_size = entry->type == BO_GGUF_STRING ? 8 : sizes[entry->type];
    if (count > (in->file->size - in->at) / min_size)
        return bo_fail(
            in->context, BO_FORMAT,
            "%s: metadata '%.100s' at byte %zu: an array of %llu elements does not fit into the %zu bytes that "
            "remain; the file may be truncated",
            in->file->path, entry->key, in->at - 8, (unsigned long long)count, in->file->size - in->at);
    entry->count = (size_t)count;
    return BO_OK;
}

static bo_status read_entry(cursor *in, bo_gguf_entry *entry)
{
    BO_TRY(read_name(in, MAX_KEY, "a metadata key", &entry->key));
    BO_TRY(read_type(in, entry->key, "the type of a metadata value", &entry->type));
    entry->count = 1;
    if (entry->type == BO_GGUF_ARRAY) {
        entry->array = true;
        BO_TRY(read_type(in, entry->key, "the type of an array", &entry->type));
        if (entry->type == BO_GGUF_ARRAY)
            return bo_fail(in->context, BO_UNSUPPORTED,
                           "%s: metadata '%.100s' at byte %zu: arrays of arrays are not supported", in->file->path,
                           entry->key, in->at - 4);
        BO_TRY(read_count(in, entry));
    }
    const size_t start = in->at;
    entry->data = in->file->bytes + start;
    if (entry->type == BO_GGUF_STRING)
        BO_TRY(skip_texts(in, entry->count));
    else
        BO_TRY(skip(in, (uint64_t)entry->count * sizes[entry->type], "a metadata value"));
    entry->bytes = in->at - start;
    return BO_OK;
}

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

static bo_status refuse_tensor(const cursor *in, const bo_gguf_tensor *tensor, const char *what, uint64_t found)
{
    return bo_fail(in->context, BO_FORMAT, "%s: tensor '%.100s', described before byte %zu: %s, found %llu",
                   in->file->path, tensor->name, in->at, what, (unsigned long long)found);
}

/* The file has the fastest dimension first. */
static bo_status read_shape(cursor *in, bo_gguf_tensor *tensor)
{
    uint64_t rank, dim;
    BO_TRY(read_number(in, 4, "the rank of a tensor", &rank));
    if (rank == 0 || rank > MAX_RANK) return refuse_tensor(in, tensor, "expected a rank of 1 to 4", rank);
    tensor->rank = (size_t)rank;
    for (size_t i = 0; i < tensor->rank; ++i) {
        BO_TRY(read_number(in, 8, "a dimension of a tensor", &dim));
        if (dim == 0 || dim > INT64_MAX) return refuse_tensor(in, tensor, "expected a dimension of 1 to 2^63 - 1", dim);
        tensor->shape[tensor->rank - 1 - i] = (size_t)dim;
    }
    return BO_OK;
}

static bo_status measure(const cursor *in, bo_gguf_tensor *tensor)
{
    const bo_block_format *format = tensor->format;
    size_t numbers = 1;
    for (size_t i = 0; i < tensor->rank; ++i)
        if (__builtin_mul_overflow(numbers, tensor->shape[i], &numbers))
            return refuse_tensor(in, tensor, "expected at most 2^64 - 1 numbers in its shape", tensor->shape[i]);
    const size_t row = tensor->shape[tensor->rank - 1];
    if (row % format->numbers)
        return bo_fail(in->context, BO_FORMAT,
                       "%s: tensor '%.100s': expected rows of a multiple of %zu numbers for type %s, found %zu",
                       in->file->path, tensor->name, format->numbers, format->name, row);
    if (__builtin_mul_overflow(numbers / format->numbers, format->bytes, &tensor->bytes))
        return refuse_tensor(in, tensor, "expected at most 2^64 - 1 bytes of data in its shape", numbers);
    return BO_OK;
}

/* The offset, relative to the data, replaces the address until the start of the data is known. */
static bo_status read_tensor(cursor *in, bo_gguf_tensor *tensor, size_t *offset)
{
    uint64_t type, place;
    BO_TRY(read_name(in, MAX_NAME, "the name of a tensor", &tensor->name));
    BO_TRY(read_shape(in, tensor));
    BO_TRY(read_number(in, 4, "the type of a tensor", &type));
    BO_TRY(read_number(in, 8, "the offset of a tensor", &place));
    tensor->format = bo_block_format_find((uint32_t)type);
    if (!tensor->format)
        return bo_fail(in->context, BO_UNSUPPORTED, "%s: tensor '%.100s': type %llu is unknown; known types: %s",
                       in->file->path, tensor->name, (unsigned long long)type, bo_block_formats());
    *offset = (size_t)place;
    return measure(in, tensor);
}

static bo_status place_tensor(const cursor *in, bo_gguf_tensor *tensor, size_t offset, size_t alignment, size_t start)
{
    const size_t data_size = in->file->size - start;
    if (offset % alignment)
        return bo_fail(in->context, BO_FORMAT,
                       "%s: tensor '%.100s': expected an offset that is a multiple of %zu, found %zu", in->file->path,
                       tensor->name, alignment, offset);
    if (offset > data_size || tensor->bytes > data_size - offset)
        return bo_fail(
            in->context, BO_FORMAT,
            "%s: tensor '%.100s': %zu bytes from offset %zu are outside the data of %zu bytes; the file may be "
            "truncated",
            in->file->path, tensor->name, tensor->bytes, offset, data_size);
    tensor->data = in->file->bytes + start + offset;
    return BO_OK;
}

/* ---- order ------------------------------------------------------------------------------------------------------- */

static int by_key(const void *a, const void *b)
{
    return strcmp(((const bo_gguf_entry *)a)->key, ((const bo_gguf_entry *)b)->key);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const bo_gguf_tensor *)a)->name, ((const bo_gguf_tensor *)b)->name);
}

static int by_place(const void *a, const void *b)
{
    const bo_gguf_tensor *x = *(const bo_gguf_tensor *const *)a, *y = *(const bo_gguf_tensor *const *)b;
    return (x->data > y->data) - (x->data < y->data);
}

static bo_status sort_entries(bo_context *context, bo_gguf *file)
{
    qsort(file->entries, file->entry_count, sizeof *file->entries, by_key);
    for (size_t i = 1; i < file->entry_count; ++i)
        if (by_key(&file->entries[i - 1], &file->entries[i]) == 0)
            return bo_fail(context, BO_FORMAT, "%s: metadata '%.100s' occurs twice", file->path, file->entries[i].key);
    return BO_OK;
}

static bo_status sort_tensors(bo_context *context, bo_gguf *file)
{
    qsort(file->tensors, file->tensor_count, sizeof *file->tensors, by_name);
    for (size_t i = 1; i < file->tensor_count; ++i)
        if (by_name(&file->tensors[i - 1], &file->tensors[i]) == 0)
            return bo_fail(context, BO_FORMAT, "%s: tensor '%.100s' occurs twice", file->path, file->tensors[i].name);
    file->order = bo_alloc(context, file->tensor_count, sizeof *file->order, "the order of tensors");
    if (!file->order) return BO_MEMORY;
    for (size_t i = 0; i < file->tensor_count; ++i) file->order[i] = &file->tensors[i];
    qsort(file->order, file->tensor_count, sizeof *file->order, by_place);
    for (size_t i = 1; i < file->tensor_count; ++i) {
        const bo_gguf_tensor *before = file->order[i - 1], *after = file->order[i];
        if (before->data + before->bytes > after->data)
            return bo_fail(context, BO_FORMAT, "%s: tensor '%.100s' at byte %zu overlaps tensor '%.100s' at byte %zu",
                           file->path, after->name, (size_t)(after->data - file->bytes), before->name,
                           (size_t)(before->data - file->bytes));
    }
    return BO_OK;
}

/* ---- file -------------------------------------------------------------------------------------------------------- */

bool bo_gguf_announced(const void *data, size_t size)
{
    return size >= 4 && memcmp(data, "GGUF", 4) == 0;
}

static bo_status check_version(const cursor *in, uint64_t version)
{
    const char *path = in->file->path;
    if (version == 2 || version == 3) return BO_OK;
    if (version == 1)
        return bo_fail(in->context, BO_UNSUPPORTED,
                       "%s: GGUF version 1 is not supported; expected version 2 or 3: convert the model again with a "
                       "current program",
                       path);
    if (version != 0 && (version & 0xFFFF) == 0)
        return bo_fail(in->context, BO_UNSUPPORTED, "%s: big-endian GGUF files are not supported", path);
    return bo_fail(in->context, BO_UNSUPPORTED, "%s: expected GGUF version 2 or 3, found %llu", path,
                   (unsigned long long)version);
}

/* A count of elements of at least `min_size` bytes each. */
static bo_status read_total(cursor *in, size_t min_size, const char *what, size_t *out)
{
    uint64_t count;
    *out = 0;
    BO_TRY(read_number(in, 8, what, &count));
    if (count > (in->file->size - in->at) / min_size)
        return bo_fail(in->context, BO_FORMAT,
                       "%s: %s at byte %zu is %llu, which does not fit into the file of %zu bytes", in->file->path,
                       what, in->at - 8, (unsigned long long)count, in->file->size);
    *out = (size_t)count;
    return BO_OK;
}

static bo_status find_alignment(bo_context *context, const bo_gguf *file, size_t *out)
{
    const bo_gguf_entry *entry = bo_gguf_find(file, "general.alignment");
    uint64_t value = DEFAULT_ALIGNMENT;
    *out = 1;
    if (entry && !bo_gguf_whole(entry, 0, &value)) value = 0;
    if (value == 0 || value > MAX_ALIGNMENT || (value & (value - 1)))
        return bo_fail(context, BO_FORMAT, "%s: general.alignment: expected a power of two of at most %d, found %llu",
                       file->path, MAX_ALIGNMENT, (unsigned long long)value);
    *out = (size_t)value;
    return BO_OK;
}

/* `offsets` has one element per tensor. */
static bo_status read_tensors(cursor *in, bo_gguf *file, size_t count, size_t *offsets)
{
    size_t alignment;
    for (size_t i = 0; i < count; ++i) {
        file->tensor_count = i + 1; /* its name is freed with the file */
        BO_TRY(read_tensor(in, &file->tensors[i], &offsets[i]));
    }
    BO_TRY(find_alignment(in->context, file, &alignment));
    const size_t padding = (alignment - in->at % alignment) % alignment;
    if (count == 0) return BO_OK;
    BO_TRY(skip(in, padding, "the padding before the data"));
    for (size_t i = 0; i < count; ++i) BO_TRY(place_tensor(in, &file->tensors[i], offsets[i], alignment, in->at));
    return sort_tensors(in->context, file);
}

static bo_status read_all(bo_context *context, bo_gguf *file)
{
    cursor in = {context, file, 4};
    uint64_t version;
    size_t tensors, entries;
    BO_TRY(read_number(&in, 4, "the version", &version));
    BO_TRY(check_version(&in, version));
    file->version = (unsigned)version;
    BO_TRY(read_total(&in, MIN_TENSOR, "the number of tensors", &tensors));
    BO_TRY(read_total(&in, MIN_ENTRY, "the number of metadata entries", &entries));
    file->entries = bo_alloc(context, entries, sizeof *file->entries, "metadata");
    file->tensors = bo_alloc(context, tensors, sizeof *file->tensors, "tensors");
    size_t *offsets = bo_alloc(context, tensors, sizeof *offsets, "offsets of tensors");
    bo_status status = file->entries && file->tensors && offsets ? BO_OK : BO_MEMORY;
    for (size_t i = 0; status == BO_OK && i < entries; ++i) {
        file->entry_count = i + 1;
        status = read_entry(&in, &file->entries[i]);
    }
    if (status == BO_OK) status = sort_entries(context, file);
    if (status == BO_OK) status = read_tensors(&in, file, tensors, offsets);
    bo_free(offsets);
    return status;
}

bo_status bo_gguf_open(bo_context *context, const char *path, const void *data, size_t size, bo_gguf **out)
{
    *out = NULL;
    if (!bo_gguf_announced(data, size))
        return bo_fail(context, BO_FORMAT, "%s: expected a GGUF file, found another format", path);
    bo_gguf *file = bo_alloc(context, 1, sizeof *file, "a GGUF file");
    if (!file) return BO_MEMORY;
    file->bytes = data;
    file->size = size;
    file->path = bo_strdup(context, path);
    const bo_status status = file->path ? read_all(context, file) : BO_MEMORY;
    if (status != BO_OK)
        bo_gguf_close(file);
    else
        *out = file;
    return status;
}

void bo_gguf_close(bo_gguf *file)
{
    if (!file) return;
    for (size_t i = 0; i < file->entry_count; ++i) bo_free(file->entries[i].key);
    for (size_t i = 0; i < file->tensor_count; ++i) bo_free(file->tensors[i].name);
    bo_free(file->entries);
    bo_free(file->tensors);
    bo_free(file->order);
    bo_free(file->path);
    bo_free(file);
}

/* ---- access ------------------------------------------------------------------------------------------------------ */

const char *bo_gguf_path(const bo_gguf *file)
{
    return file->path;
}

unsigned bo_gguf_version(const bo_gguf *file)
{
    return file->version;
}

size_t bo_gguf_tensors(const bo_gguf *file)
{
    return file->tensor_count;
}

const bo_gguf_tensor *bo_gguf_tensor_at(const bo_gguf *file, size_t index)
{
    return index < file->tensor_count ? file->order[index] : NULL;
}

const bo_gguf_tensor *bo_gguf_tensor_find(const bo_gguf *file, const char *name)
{
    const bo_gguf_tensor key = {.name = (char *)(uintptr_t)name};
    return file->tensor_count ? bsearch(&key, file->tensors, file->tensor_count, sizeof key, by_name) : NULL;
}

const bo_gguf_entry *bo_gguf_find(const bo_gguf *file, const char *key)
{
    const bo_gguf_entry key_entry = {.key = (char *)(uintptr_t)key};
    return file->entry_count ? bsearch(&key_entry, file->entries, file->entry_count, sizeof key_entry, by_key) : NULL;
}

/* The value of an element of a signed type. */
static int64_t signed_value(bo_gguf_type type, uint64_t bits)
{
    switch (type) {
    case BO_GGUF_INT8:
        return (int8_t)bits;
    case BO_GGUF_INT16:
        return (int16_t)bits;
    case BO_GGUF_INT32:
        return (int32_t)bits;
    default:
        return (int64_t)bits;
    }
}

static bool is_signed(bo_gguf_type type)
{
    return type == BO_GGUF_INT8 || type == BO_GGUF_INT16 || type == BO_GGUF_INT32 || type == BO_GGUF_INT64;
}

bool bo_gguf_number(const bo_gguf_entry *entry, size_t index, double *out)
{
    if (entry->type == BO_GGUF_STRING || index >= entry->count) return false;
    const size_t size = sizes[entry->type];
    const uint64_t bits = little(entry->data + index * size, size);
    if (entry->type == BO_GGUF_FLOAT32) {
        const uint32_t word = (uint32_t)bits;
        float value;
        memcpy(&value, &word, sizeof value);
        *out = value;
    } else if (entry->type == BO_GGUF_FLOAT64) {
        memcpy(out, &bits, sizeof *out);
    } else {
        *out = is_signed(entry->type) ? (double)signed_value(entry->type, bits) : (double)bits;
    }
    return true;
}

bool bo_gguf_whole(const bo_gguf_entry *entry, size_t index, uint64_t *out)
{
    const bo_gguf_type type = entry->type;
    if (type == BO_GGUF_STRING || type == BO_GGUF_FLOAT32 || type == BO_GGUF_FLOAT64 || index >= entry->count)
        return false;
    const uint64_t bits = little(entry->data + index * sizes[type], sizes[type]);
    if (is_signed(type) && signed_value(type, bits) < 0) return false;
    *out = bits;
    return true;
}

bool bo_gguf_next_text(const bo_gguf_entry *entry, size_t *at, const char **text, size_t *length)
{
    if (entry->type != BO_GGUF_STRING || *at >= entry->bytes) return false;
    const unsigned char *place = entry->data + *at;
    *length = (size_t)little(place, 8);
    *text = (const char *)place + 8;
    *at += 8 + *length;
    return true;
}
