/* Rows of a binary array: read in bounded pieces (never mapped, so that a file of any size leaves memory alone). */
#include "reader.h"

#include <stdio.h>
#include <string.h>

static const char *promise(const bo_reader *reader, char out[BO_PROMISE_TEXT])
{
    snprintf(out, BO_PROMISE_TEXT, "%zu rows x %zu columns", reader->rows, reader->columns);
    return out;
}

bo_status bo_array_rows_check(bo_context *context, bo_reader *reader, uint64_t rows, uint64_t columns)
{
    const char *path = bo_bytes_path(reader->bytes);
    if (columns == 0) return bo_fail(context, BO_FORMAT, "%s: the array has no columns", path);
    if (columns > BO_MAX_COLUMNS)
        return bo_fail(context, BO_FORMAT, "%s: %llu columns, at most %d are read", path, (unsigned long long)columns,
                       BO_MAX_COLUMNS);
    if (rows > (UINT64_MAX >> 2) / (columns * reader->array.item) || rows > SIZE_MAX)
        return bo_fail(context, BO_FORMAT, "%s: %llu rows of %llu columns are more than a file can hold", path,
                       (unsigned long long)rows, (unsigned long long)columns);
    reader->rows = (size_t)rows;
    reader->rows_known = true;
    reader->columns = (size_t)columns;
    char text[BO_PROMISE_TEXT];
    BO_TRY(bo_array_fits(context, reader->bytes, &reader->array, rows * columns, promise(reader, text)));
    if (reader->array.by_column && (rows <= 1 || columns == 1)) reader->array.by_column = false;
    if (reader->array.by_column && !bo_bytes_seekable(reader->bytes))
        return bo_fail(
            context, BO_UNSUPPORTED,
            "%s: an array in Fortran order cannot be read from a compressed file or a pipe; save it in C order "
            "(numpy.ascontiguousarray) or uncompressed",
            path);
    return BO_OK;
}

bo_status bo_array_rows_start(bo_context *context, bo_reader *reader)
{
    if (bo_bytes_seekable(reader->bytes)) return BO_OK;
    return bo_array_skip_header(context, reader->bytes, &reader->array);
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
    char text[BO_PROMISE_TEXT];
    if (bo_bytes_seekable(reader->bytes)) return BO_OK;
    return bo_array_ends(context, reader->bytes, promise(reader, text));
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
