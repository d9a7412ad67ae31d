/* Rows of a binary array: read in bounded pieces (never mapped, so that a file of any size leaves memory alone) and
 * converted to double or float. */
#include "reader.h"

#include <string.h>

bo_status bo_array_check(bo_context *context, bo_reader *reader, uint64_t rows, uint64_t columns)
{
    const char *path = bo_bytes_path(reader->bytes);
    if (columns == 0) return bo_fail(context, BO_FORMAT, "%s: the array has no columns", path);
    if (columns > BO_MAX_COLUMNS)
        return bo_fail(context, BO_FORMAT, "%s: %llu columns, at most %d are read", path, (unsigned long long)columns,
                       BO_MAX_COLUMNS);
    uint64_t stride = columns * reader->array.item;
    if (rows > (UINT64_MAX >> 2) / stride)
        return bo_fail(context, BO_FORMAT, "%s: %llu rows of %llu columns are more than a file can hold", path,
                       (unsigned long long)rows, (unsigned long long)columns);
    uint64_t expected = reader->array.offset + rows * stride, bound = bo_bytes_bound(reader->bytes);
    bool exact = bo_bytes_seekable(reader->bytes);
    if (expected > bound)
        return bo_fail(context, BO_FORMAT,
                       "%s: is truncated: its header promises %llu rows x %llu columns, %llu bytes in all, but %s %llu",
                       path, (unsigned long long)rows, (unsigned long long)columns, (unsigned long long)expected,
                       exact ? "it has" : "it can have at most", (unsigned long long)bound);
    if (exact && expected < bound)
        return bo_fail(context, BO_FORMAT,
                       "%s: has %llu bytes more than its header promises (%llu rows x %llu columns)", path,
                       (unsigned long long)(bound - expected), (unsigned long long)rows, (unsigned long long)columns);
    if (rows > SIZE_MAX)
        return bo_fail(context, BO_FORMAT, "%s: %llu rows are too many for this machine", path,
                       (unsigned long long)rows);
    if (reader->array.by_column && (rows <= 1 || columns == 1)) reader->array.by_column = false;
    if (reader->array.by_column && !exact)
        return bo_fail(
            context, BO_UNSUPPORTED,
            "%s: an array in Fortran order cannot be read from a compressed file or a pipe; save it in C order "
            "(numpy.ascontiguousarray) or uncompressed",
            path);
    reader->rows = (size_t)rows;
    reader->rows_known = true;
    reader->columns = (size_t)columns;
    return BO_OK;
}

bo_status bo_array_start(bo_context *context, bo_reader *reader)
{
    unsigned char scratch[1024];
    if (bo_bytes_seekable(reader->bytes)) return BO_OK;
    for (uint64_t left = reader->array.offset; left > 0;) {
        size_t piece = left < sizeof scratch ? (size_t)left : sizeof scratch, got;
        BO_TRY(bo_bytes_read(context, reader->bytes, scratch, piece, &got));
        if (got < piece)
            return bo_fail(context, BO_FORMAT, "%s: changed while it was read", bo_bytes_path(reader->bytes));
        left -= piece;
    }
    return BO_OK;
}

bo_status bo_array_rewind(bo_context *context, bo_reader *reader)
{
    reader->next_row = 0;
    if (bo_bytes_seekable(reader->bytes)) return BO_OK;
    BO_TRY(bo_bytes_rewind(context, reader->bytes));
    return bo_array_start(context, reader);
}

/* The file must end with its last row; asking for one byte more also lets gzip check its checksum. */
static bo_status check_end(bo_context *context, bo_reader *reader)
{
    unsigned char byte;
    size_t got;
    if (bo_bytes_seekable(reader->bytes)) return BO_OK;
    BO_TRY(bo_bytes_read(context, reader->bytes, &byte, 1, &got));
    if (got)
        return bo_fail(context, BO_FORMAT, "%s: has more bytes than its header promises (%zu rows x %zu columns)",
                       bo_bytes_path(reader->bytes), reader->rows, reader->columns);
    return BO_OK;
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

/* Fortran order: a run of each column, then transposed. */
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
        return bo_fail(context, BO_FORMAT, "%s: is truncated: its header promises %zu rows, it ends in row %zu",
                       bo_bytes_path(reader->bytes), reader->rows, reader->next_row + got / stride);
    return BO_OK;
}

bo_status bo_reader_next_raw(bo_context *context, bo_reader *reader, size_t max_rows, const unsigned char **raw,
                             size_t *rows)
{
    const size_t stride = reader->columns * reader->array.item, left = reader->rows - reader->next_row;
    /* A column is one read() in Fortran order, so those blocks are longer. */
    size_t most = ((size_t)BO_RAW_BLOCK << (reader->array.by_column ? 4 : 0)) / stride;
    if (most == 0) most = 1;
    if (most > max_rows) most = max_rows;
    if (most > left) most = left;
    *rows = 0;
    if (most == 0) return reader->rows == 0 ? check_end(context, reader) : BO_OK;
    BO_TRY(grow(context, &reader->raw, &reader->raw_capacity, most * stride));
    BO_TRY(reader->array.by_column ? read_by_column(context, reader, most) : read_by_row(context, reader, most));
    reader->next_row += most;
    if (reader->next_row == reader->rows) BO_TRY(check_end(context, reader));
    *raw = reader->raw;
    *rows = most;
    return BO_OK;
}

bo_status bo_array_skip(bo_context *context, bo_reader *reader, size_t rows)
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

/* ---- conversion ---------------------------------------------------------------------------------------- */

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

/* One loop a type, with the byte order outside the loop so that each vectorises. */
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
        BO_CONVERT(1, (real)*raw);                                                                                     \
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
        if (count) memcpy(out, raw, count * sizeof *out); /* at the end raw may be NULL */
        return;
    }
    BO_CONVERT_TYPES(float)
}
