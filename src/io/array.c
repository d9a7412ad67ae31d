/* Arrays in binary files: layout and conversion of numbers, rows in bounded pieces, and whole arrays in memory. */
#include <stdio.h>
#include <string.h>
#include "../base/trace.h"
#include "reader.h"

/* ====================================================================================================================
 * The layout of an array in a binary file: the size check, and conversion of its numbers to double or float. */

/* The file must contain the header and `count` numbers, and nothing more if its size is known. `declared` is the shape,
 * for messages. */
static bo_status check_size(bo_context *context, const bo_bytes *bytes, const bo_array_layout *array, uint64_t count,
                            const char *declared)
{
    const char *path = bo_bytes_path(bytes);
    if (count > ((UINT64_MAX >> 1) - array->offset) / array->item)
        return bo_fail(context, BO_FORMAT, "%s: the header declares %s, which is more than a file can hold", path,
                       declared);
    const uint64_t expected = array->offset + count * array->item, bound = bo_bytes_bound(bytes);
    const bool exact = bo_bytes_seekable(bytes);
    if (expected > bound)
        return bo_fail(context, BO_FORMAT,
                       "%s: the file is truncated: the header declares %s (%llu bytes in total), but the file %s %llu",
                       path, declared, (unsigned long long)expected, exact ? "has" : "can have at most",
                       (unsigned long long)bound);
    if (exact && expected < bound)
        return bo_fail(context, BO_FORMAT, "%s: the file has %llu bytes more than its header declares (%s)", path,
                       (unsigned long long)(bound - expected), declared);
    return BO_OK;
}

static bo_status skip_header(bo_context *context, bo_bytes *bytes, const bo_array_layout *array)
{
    unsigned char scratch[1024];
    for (uint64_t left = array->offset; left > 0;) {
        size_t piece = left < sizeof scratch ? (size_t)left : sizeof scratch, got;
        BO_TRY(bo_bytes_read(context, bytes, scratch, piece, &got));
        if (got < piece)
            return bo_fail(context, BO_FORMAT, "%s: the file changed while it was read", bo_bytes_path(bytes));
        left -= piece;
    }
    return BO_OK;
}

/* Checks that nothing follows. Reading one more byte also makes gzip verify its checksum. */
static bo_status array_ends(bo_context *context, bo_bytes *bytes, const char *declared)
{
    unsigned char byte;
    size_t got;
    BO_TRY(bo_bytes_read(context, bytes, &byte, 1, &got));
    if (got)
        return bo_fail(context, BO_FORMAT, "%s: the file has more bytes than its header declares (%s)",
                       bo_bytes_path(bytes), declared);
    return BO_OK;
}

/* ---- conversion -------------------------------------------------------------------------------------------------- */

static inline uint16_t load_16(const unsigned char *p, bool swap)
{
    uint16_t v;
    memcpy(&v, p, sizeof v);
    return swap ? __builtin_bswap16(v) : v;
}

static inline uint32_t load_32(const unsigned char *p, bool swap)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return swap ? __builtin_bswap32(v) : v;
}

static inline uint64_t load_64(const unsigned char *p, bool swap)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return swap ? __builtin_bswap64(v) : v;
}

static inline float float_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline double double_of_bits(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* One loop per type, with the byte order outside the loop, so that each loop vectorizes. */
#define BO_CONVERT(item, expression)                                                                                   \
    do {                                                                                                               \
        if (array->swap) {                                                                                             \
            const bool swap = true;                                                                                    \
            (void)swap;                                                                                                \
            for (size_t i = 0; i < count; ++i, raw += (item)) out[i] = (expression);                                   \
        } else {                                                                                                       \
            const bool swap = false;                                                                                   \
            (void)swap;                                                                                                \
            for (size_t i = 0; i < count; ++i, raw += (item)) out[i] = (expression);                                   \
        }                                                                                                              \
    } while (0)

#define BO_CONVERT_TYPES(real)                                                                                         \
    switch (array->type) {                                                                                             \
    case BO_TYPE_F16:                                                                                                  \
        BO_CONVERT(2, (real)bo_half_to_float(load_16(raw, swap)));                                                     \
        break;                                                                                                         \
    case BO_TYPE_F32:                                                                                                  \
        BO_CONVERT(4, (real)float_of_bits(load_32(raw, swap)));                                                        \
        break;                                                                                                         \
    case BO_TYPE_F64:                                                                                                  \
        BO_CONVERT(8, (real)double_of_bits(load_64(raw, swap)));                                                       \
        break;                                                                                                         \
    case BO_TYPE_I8:                                                                                                   \
        BO_CONVERT(1, (real)(int8_t)*raw);                                                                             \
        break;                                                                                                         \
    case BO_TYPE_I16:                                                                                                  \
        BO_CONVERT(2, (real)(int16_t)load_16(raw, swap));                                                              \
        break;                                                                                                         \
    case BO_TYPE_I32:                                                                                                  \
        BO_CONVERT(4, (real)(int32_t)load_32(raw, swap));                                                              \
        break;                                                                                                         \
    case BO_TYPE_I64:                                                                                                  \
        BO_CONVERT(8, (real)(int64_t)load_64(raw, swap));                                                              \
        break;                                                                                                         \
    case BO_TYPE_U8:                                                                                                   \
        BO_CONVERT(1, (real) * raw);                                                                                   \
        break;                                                                                                         \
    case BO_TYPE_U16:                                                                                                  \
        BO_CONVERT(2, (real)load_16(raw, swap));                                                                       \
        break;                                                                                                         \
    case BO_TYPE_U32:                                                                                                  \
        BO_CONVERT(4, (real)load_32(raw, swap));                                                                       \
        break;                                                                                                         \
    case BO_TYPE_U64:                                                                                                  \
        BO_CONVERT(8, (real)load_64(raw, swap));                                                                       \
        break;                                                                                                         \
    }

void bo_convert_f64(const bo_array_layout *array, const unsigned char *raw, size_t count, double *out)
{
    BO_CONVERT_TYPES(double)
}

void bo_convert_f32(const bo_array_layout *array, const unsigned char *raw, size_t count, float *out)
{
    if (array->type == BO_TYPE_F32 && !array->swap) {
        if (count) memcpy(out, raw, count * sizeof *out); /* raw may be NULL at the end */
        return;
    }
    BO_CONVERT_TYPES(float)
}

/* ====================================================================================================================
 * Rows of a binary array, read in bounded pieces. The file is not mapped, so that memory does not grow with its
 * size. */

static const char *describe_declared(const bo_reader *reader, char out[BO_DECLARED_TEXT])
{
    snprintf(out, BO_DECLARED_TEXT, "%zu rows x %zu columns", reader->rows, reader->columns);
    return out;
}

bo_status bo_array_rows_check(bo_context *context, bo_reader *reader, uint64_t rows, uint64_t columns)
{
    const char *path = bo_bytes_path(reader->bytes);
    if (columns == 0) return bo_fail(context, BO_FORMAT, "%s: expected an array with columns, found none", path);
    if (columns > BO_MAX_COLUMNS)
        return bo_fail(context, BO_FORMAT, "%s: found %llu columns, more than the maximum of %d", path,
                       (unsigned long long)columns, BO_MAX_COLUMNS);
    if (rows > (UINT64_MAX >> 2) / (columns * reader->array.item) || rows > SIZE_MAX)
        return bo_fail(context, BO_FORMAT,
                       "%s: the header declares %llu rows x %llu columns, which is more than a file can hold", path,
                       (unsigned long long)rows, (unsigned long long)columns);
    reader->rows = (size_t)rows;
    reader->rows_known = true;
    reader->columns = (size_t)columns;
    char text[BO_DECLARED_TEXT];
    BO_TRY(check_size(context, reader->bytes, &reader->array, rows * columns, describe_declared(reader, text)));
    if (reader->array.by_column && (rows <= 1 || columns == 1)) reader->array.by_column = false;
    if (reader->array.by_column && !bo_bytes_seekable(reader->bytes))
        return bo_fail(
            context, BO_UNSUPPORTED,
            "%s: an array in Fortran order cannot be read from a compressed file or a pipe; save it uncompressed, or "
            "in C order (numpy.ascontiguousarray)",
            path);
    return BO_OK;
}

bo_status bo_array_rows_start(bo_context *context, bo_reader *reader)
{
    if (bo_bytes_seekable(reader->bytes)) return BO_OK;
    return skip_header(context, reader->bytes, &reader->array);
}

bo_status bo_array_rows_rewind(bo_context *context, bo_reader *reader)
{
    reader->next_row = 0;
    if (bo_bytes_seekable(reader->bytes)) return BO_OK;
    BO_TRY(bo_bytes_rewind(context, reader->bytes));
    return bo_array_rows_start(context, reader);
}

static bo_status check_end(bo_context *context, bo_reader *reader)
{
    char text[BO_DECLARED_TEXT];
    if (bo_bytes_seekable(reader->bytes)) return BO_OK;
    return array_ends(context, reader->bytes, describe_declared(reader, text));
}

static bo_status grow(bo_context *context, unsigned char **buffer, size_t *capacity, size_t size)
{
    if (*capacity >= size) return BO_OK;
    bo_free(*buffer);
    *capacity = 0;
    *buffer = bo_alloc_raw(context, size, 1, "a block of rows");
    if (!*buffer) return BO_MEMORY;
    *capacity = size;
    return BO_OK;
}

/* Fortran order: reads a piece of each column and transposes. */
static bo_status read_by_column(bo_context *context, bo_reader *reader, size_t rows)
{
    const size_t item = reader->array.item, columns = reader->columns;
    BO_TRY(grow(context, &reader->raw_columns, &reader->raw_columns_capacity, rows * item));
    for (size_t column = 0; column < columns; ++column) {
        uint64_t offset = reader->array.offset + ((uint64_t)column * reader->rows + reader->next_row) * item;
        BO_TRY(bo_bytes_read_at(context, reader->bytes, offset, reader->raw_columns, rows * item));
        for (size_t row = 0; row < rows; ++row)
            memcpy(reader->raw + (row * columns + column) * item, reader->raw_columns + row * item, item);
    }
    return BO_OK;
}

static bo_status read_by_row(bo_context *context, bo_reader *reader, size_t rows)
{
    const size_t stride = reader->columns * reader->array.item;
    if (bo_bytes_seekable(reader->bytes)) {
        uint64_t offset = reader->array.offset + (uint64_t)reader->next_row * stride;
        return bo_bytes_read_at(context, reader->bytes, offset, reader->raw, rows * stride);
    }
    size_t got;
    BO_TRY(bo_bytes_read(context, reader->bytes, reader->raw, rows * stride, &got));
    if (got < rows * stride)
        return bo_fail(context, BO_FORMAT,
                       "%s: the file is truncated: the header declares %zu rows, the file ends in row %zu",
                       bo_bytes_path(reader->bytes), reader->rows, reader->next_row + got / stride);
    return BO_OK;
}

bo_status bo_reader_next_raw(bo_context *context, bo_reader *reader, size_t max_rows, const unsigned char **raw,
                             size_t *rows)
{
    const size_t stride = reader->columns * reader->array.item, left = reader->rows - reader->next_row;
    /* In Fortran order every column is one read(), so blocks are longer. */
    size_t count = ((size_t)BO_RAW_BLOCK << (reader->array.by_column ? 4 : 0)) / stride;
    if (count == 0) count = 1;
    if (count > max_rows) count = max_rows;
    if (count > left) count = left;
    *rows = 0;
    if (count == 0) return reader->rows == 0 ? check_end(context, reader) : BO_OK;
    BO_TRY(grow(context, &reader->raw, &reader->raw_capacity, count * stride));
    BO_TRY(reader->array.by_column ? read_by_column(context, reader, count) : read_by_row(context, reader, count));
    reader->next_row += count;
    if (reader->next_row == reader->rows) BO_TRY(check_end(context, reader));
    *raw = reader->raw;
    *rows = count;
    return BO_OK;
}

bo_status bo_array_rows_skip(bo_context *context, bo_reader *reader, size_t rows)
{
    if (bo_bytes_seekable(reader->bytes)) {
        reader->next_row += rows;
        return BO_OK;
    }
    while (rows > 0) {
        const unsigned char *raw;
        size_t got;
        BO_TRY(bo_reader_next_raw(context, reader, rows, &raw, &got));
        rows -= got;
    }
    return BO_OK;
}

/* ====================================================================================================================
 * A whole .npy array of any rank as float32 in C order. */

/* Writes text at position `used` of out[0, size), truncated to the buffer; returns the position after the whole
 * text. */
static size_t put_text(char *out, size_t size, size_t used, const char *text)
{
    const size_t left = used < size ? size - used : 0;
    return used + (size_t)snprintf(left ? out + used : NULL, left, "%s", text);
}

size_t bo_array_format(const bo_array *array, char *out, size_t size)
{
    if (!array || (array->rank > 0 && !array->shape) || (size > 0 && !out)) return 0;
    char number[32];
    size_t used = put_text(out, size, 0, "(");
    for (size_t i = 0; i < array->rank; ++i) {
        snprintf(number, sizeof number, "%s%zu", i ? ", " : "", array->shape[i]);
        used = put_text(out, size, used, number);
    }
    return put_text(out, size, used, array->rank == 1 ? ",)" : ")");
}

/* A loaded array and the shape that it points to. */
typedef struct loaded_array {
    bo_array array;
    size_t shape[BO_ARRAY_RANK];
} loaded_array;

void bo_array_destroy(bo_array *array)
{
    if (!array) return;
    bo_free(array->values);
    bo_free(array);
}

static bo_status take_shape(bo_context *context, const char *path, size_t rank, const uint64_t *shape,
                            loaded_array *loaded)
{
    bo_array *array = &loaded->array;
    if (rank > BO_ARRAY_RANK)
        return bo_fail(context, BO_FORMAT, "%s: found an array of rank %zu; the maximum is %d", path, rank,
                       BO_ARRAY_RANK);
    uint64_t count = 1, plausible = 1; /* without dimensions of 0, so that the other dimensions are checked too */
    for (size_t i = 0; i < rank; ++i) {
        if (shape[i] > SIZE_MAX || (shape[i] && plausible > (UINT64_MAX >> 8) / shape[i]))
            return bo_fail(context, BO_FORMAT, "%s: the shape in the .npy header is too large", path);
        if (shape[i]) plausible *= shape[i];
        count *= shape[i];
        loaded->shape[i] = (size_t)shape[i];
    }
    array->rank = rank;
    array->shape = loaded->shape;
    if (count > SIZE_MAX)
        return bo_fail(context, BO_FORMAT, "%s: the array has %llu numbers, too many for this computer", path,
                       (unsigned long long)count);
    array->count = (size_t)count;
    return BO_OK;
}

static bo_status read_exactly(bo_context *context, bo_bytes *bytes, void *data, size_t size, const char *declared)
{
    size_t got;
    BO_TRY(bo_bytes_read(context, bytes, data, size, &got));
    if (got == size) return BO_OK;
    return bo_fail(context, BO_FORMAT,
                   "%s: the file is truncated: it ends before the end of %s, which the header declares",
                   bo_bytes_path(bytes), declared);
}

/* Walks through the numbers of a file in Fortran order, where the first dimension varies fastest, and returns the
 * position of each in C order. */
typedef struct bo_permuted {
    size_t at;
    size_t index[BO_ARRAY_RANK], stride[BO_ARRAY_RANK];
} bo_permuted;

static void permuted_begin(bo_permuted *permuted, const bo_array *array)
{
    *permuted = (bo_permuted){0};
    size_t stride = 1;
    for (size_t i = array->rank; i-- > 0; stride *= array->shape[i]) permuted->stride[i] = stride;
}

static void permuted_next(bo_permuted *permuted, const bo_array *array)
{
    for (size_t i = 0; i < array->rank; ++i) {
        permuted->at += permuted->stride[i];
        if (++permuted->index[i] < array->shape[i]) return;
        permuted->at -= permuted->index[i] * permuted->stride[i];
        permuted->index[i] = 0;
    }
}

/* `raw` and `converted` are buffers of `capacity` numbers each. */
static bo_status read_pieces(bo_context *context, bo_bytes *bytes, const bo_array_layout *layout, bo_array *array,
                             unsigned char *raw, float *converted, size_t capacity, const char *declared)
{
    bo_permuted permuted;
    permuted_begin(&permuted, array);
    for (size_t done = 0; done < array->count;) {
        const size_t piece = array->count - done < capacity ? array->count - done : capacity;
        BO_TRY(read_exactly(context, bytes, raw, piece * layout->item, declared));
        bo_convert_f32(layout, raw, piece, layout->by_column ? converted : array->values + done);
        for (size_t i = 0; layout->by_column && i < piece; ++i, permuted_next(&permuted, array))
            array->values[permuted.at] = converted[i];
        done += piece;
        BO_TRY(bo_progress(context, "reading", (double)done, (double)array->count));
    }
    return BO_OK;
}

static bo_status read_converted(bo_context *context, bo_bytes *bytes, const bo_array_layout *layout, bo_array *array,
                                const char *declared)
{
    const size_t max_numbers = BO_RAW_BLOCK / layout->item,
                 capacity = array->count < max_numbers ? array->count : max_numbers;
    unsigned char *raw = bo_alloc_raw(context, capacity, layout->item, "a piece of an array");
    float *converted =
        raw ? bo_alloc_raw(context, layout->by_column ? capacity : 0, sizeof *converted, "a piece of an array") : NULL;
    bo_status status =
        converted ? read_pieces(context, bytes, layout, array, raw, converted, capacity, declared) : BO_MEMORY;
    bo_free(converted);
    bo_free(raw);
    return status;
}

static bo_status read_array(bo_context *context, bo_bytes *bytes, loaded_array *loaded)
{
    bo_array *array = &loaded->array;
    bo_array_layout layout = {0};
    uint64_t shape[BO_NPY_RANK];
    size_t rank;
    char text[BO_SHAPE_TEXT], declared[BO_DECLARED_TEXT];
    BO_TRY(bo_npy_header_read(context, bytes, &layout, &rank, shape));
    BO_TRY(take_shape(context, bo_bytes_path(bytes), rank, shape, loaded));
    bo_array_format(array, text, sizeof text);
    snprintf(declared, sizeof declared, "an array of shape %s", text);
    BO_TRY(check_size(context, bytes, &layout, array->count, declared));
    BO_TRY(skip_header(context, bytes, &layout));
    array->values = bo_alloc_raw(context, array->count, sizeof *array->values, "an array");
    if (!array->values) return BO_MEMORY;
    if (layout.type == BO_TYPE_F32 && !layout.swap && !layout.by_column)
        BO_TRY(read_exactly(context, bytes, array->values, array->count * sizeof *array->values, declared));
    else
        BO_TRY(read_converted(context, bytes, &layout, array, declared));
    return array_ends(context, bytes, declared);
}

bo_status bo_array_load_bytes(bo_context *context, bo_bytes *bytes, bo_array **out)
{
    BO_SPAN(context, "data", "load array");
    *out = NULL;
    loaded_array *loaded = bo_alloc(context, 1, sizeof *loaded, "an array");
    bo_status status = loaded ? read_array(context, bytes, loaded) : BO_MEMORY;
    bo_bytes_close(bytes);
    if (status == BO_OK)
        *out = &loaded->array;
    else
        bo_array_destroy((bo_array *)loaded);
    return status;
}

bo_status bo_array_load(bo_context *context, const bo_source *source, bo_array **out)
{
    if (out) *out = NULL;
    BO_REQUIRE(context, source, out);
    bo_bytes *bytes;
    BO_TRY(bo_bytes_open_source(context, source, &bo_limits_table, false, &bytes));
    return bo_array_load_bytes(context, bytes, out);
}
