/* Opens tables of any format and reads their rows in blocks. */
#include "reader.h"
#include "dates.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static bo_status open_format(bo_context *context, bo_reader *reader, bo_format format, size_t min_columns)
{
    bo_text_form form;
    if ((unsigned)format > BO_FORMAT_SPACED)
        return bo_fail(context, BO_INVALID, "format: expected a value of bo_format, found %d", (int)format);
    BO_TRY(bo_detect(context, reader->bytes, format, &form));
    reader->format = form.format;
    switch (form.format) {
    case BO_FORMAT_NPY:
        return bo_npy_open(context, reader);
    case BO_FORMAT_IDX:
        return bo_idx_open(context, reader);
    case BO_FORMAT_LIBSVM:
        return bo_libsvm_open(context, reader, min_columns);
    case BO_FORMAT_CSV:
    case BO_FORMAT_SPACED:
        return bo_delimited_open(context, reader, &form);
    case BO_FORMAT_AUTO:
        break;
    }
    return bo_fail(context, BO_INVALID, "format: expected a value of bo_format, found %d", (int)format);
}

bo_status bo_reader_open_bytes(bo_context *context, bo_bytes *bytes, bo_format format, size_t min_columns,
                               bo_reader **out)
{
    *out = NULL;
    bo_reader *reader = bo_alloc(context, 1, sizeof *reader, "a reader");
    if (!reader) {
        bo_bytes_close(bytes);
        return BO_MEMORY;
    }
    reader->bytes = bytes;
    bo_status status = open_format(context, reader, format, min_columns);
    reader->info = (bo_reader_info){.format = reader->format,
                                    .path = bo_reader_path(reader),
                                    .columns = reader->columns,
                                    .rows = reader->rows_known ? reader->rows : SIZE_MAX};
    if (status != BO_OK)
        bo_reader_close(reader);
    else
        *out = reader;
    return status;
}

bo_status bo_reader_open(bo_context *context, const bo_source *source, bo_format format, size_t min_columns,
                         bo_reader **out)
{
    if (out) *out = NULL;
    BO_REQUIRE(context, source, out);
    bo_bytes *bytes;
    BO_TRY(bo_bytes_open_source(context, source, &bo_limits_table, false, &bytes));
    return bo_reader_open_bytes(context, bytes, format, min_columns, out);
}

static void free_names(bo_reader *reader)
{
    if (reader->names)
        for (size_t i = 0; i < reader->columns; ++i) bo_free(reader->names[i]);
    bo_free(reader->names);
    bo_free(reader->unnamed);
    reader->names = NULL;
    reader->unnamed = NULL;
}

void bo_reader_close(bo_reader *reader)
{
    if (!reader) return;
    free_names(reader);
    bo_free(reader->cells);
    bo_free(reader->text);
    bo_free(reader->lines);
    bo_free(reader->records.buffer);
    bo_strings_free(&reader->strings);
    bo_free(reader->items.column);
    bo_free(reader->items.value);
    bo_free(reader->raw);
    bo_free(reader->raw_columns);
    bo_bytes_close(reader->bytes);
    bo_free(reader);
}

const bo_reader_info *bo_reader_describe(const bo_reader *reader)
{
    return reader ? &reader->info : NULL;
}

const char *bo_reader_path(const bo_reader *reader)
{
    return bo_bytes_path(reader->bytes);
}

size_t bo_reader_columns(const bo_reader *reader)
{
    return reader->columns;
}

const char *bo_reader_column(const bo_reader *reader, size_t column)
{
    if (!reader) return NULL;
    if (reader->format == BO_FORMAT_LIBSVM && column == 0) return "label";
    return reader->names && column < reader->columns ? reader->names[column] : NULL;
}

const char *bo_reader_column_label(const bo_reader *reader, size_t column, char out[BO_COLUMN_TEXT])
{
    if (reader->names && reader->names[column])
        snprintf(out, BO_COLUMN_TEXT, "column '%.140s'", reader->names[column]);
    else
        snprintf(out, BO_COLUMN_TEXT, "column %zu", column);
    return out;
}

bool bo_reader_rows(const bo_reader *reader, size_t *rows)
{
    if (reader->rows_known) *rows = reader->rows;
    return reader->rows_known;
}

double bo_reader_progress(const bo_reader *reader, double *total)
{
    if (!bo_reader_is_array(reader)) return bo_bytes_progress(reader->bytes, total);
    *total = (double)reader->rows;
    return (double)reader->next_row;
}

bool bo_reader_seekable(const bo_reader *reader)
{
    return bo_reader_is_array(reader) && bo_bytes_seekable(reader->bytes);
}

static bo_status reserve_cells(bo_context *context, bo_reader *reader, size_t cells)
{
    if (reader->cell_capacity >= cells) return BO_OK;
    double *larger = bo_realloc(context, reader->cells, cells, sizeof *larger, "a block of cells");
    if (!larger) return BO_MEMORY;
    reader->cells = larger;
    reader->cell_capacity = cells;
    return BO_OK;
}

/* Reserves one more row of text. A block starts small and grows, so that small files need little memory. */
static bo_status reserve_row(bo_context *context, bo_reader *reader, size_t row, size_t max_rows)
{
    if ((row + 1) * reader->columns > reader->cell_capacity) {
        size_t rows = row ? 4 * row : 16;
        if (rows > max_rows) rows = max_rows;
        BO_TRY(reserve_cells(context, reader, rows * reader->columns));
    }
    if (row >= reader->line_capacity) {
        const size_t rows = row ? 4 * row : 16;
        size_t *larger = bo_realloc(context, reader->lines, rows, sizeof *larger, "line numbers");
        if (!larger) return BO_MEMORY;
        reader->lines = larger;
        reader->line_capacity = rows;
    }
    return reader->block_has_text ? bo_text_reserve(context, reader) : BO_OK;
}

static bo_status next_text(bo_context *context, bo_reader *reader, size_t max_rows, size_t *rows)
{
    bo_strings_clear(&reader->strings);
    reader->block_has_text = false;
    for (*rows = 0; *rows < max_rows; ++*rows) {
        const char *text, *end;
        size_t line;
        BO_TRY(bo_records_next(context, reader, &text, &end, &line));
        if (!text) break;
        BO_TRY(reserve_row(context, reader, *rows, max_rows));
        if (reader->format == BO_FORMAT_LIBSVM)
            BO_TRY(bo_libsvm_row(context, reader, text, end, line, reader->cells + *rows * reader->columns));
        else
            BO_TRY(bo_delimited_row(context, reader, text, end, line, *rows));
        reader->lines[*rows] = line;
    }
    reader->next_row += *rows;
    return BO_OK;
}

bo_status bo_reader_next(bo_context *context, bo_reader *reader, size_t max_rows, bo_data_block *block)
{
    BO_REQUIRE(context, reader, block);
    memset(block, 0, sizeof *block);
    block->columns = reader->columns;
    block->first_row = reader->next_row;
    size_t count = BO_BLOCK_CELLS / reader->columns;
    if (count == 0) count = 1;
    if (count > max_rows) count = max_rows;
    if (reader->rows_known && count > reader->rows - reader->next_row) count = reader->rows - reader->next_row;
    if (!bo_reader_is_array(reader)) {
        if (count == 0) return BO_OK;
        BO_TRY(next_text(context, reader, count, &block->rows));
        block->text = reader->block_has_text ? reader->text : NULL;
        block->lines = reader->lines;
    } else {
        const unsigned char *raw;
        BO_TRY(bo_reader_next_raw(context, reader, count, &raw, &block->rows));
        if (block->rows == 0) return BO_OK;
        BO_TRY(reserve_cells(context, reader, block->rows * reader->columns));
        bo_convert_f64(&reader->array, raw, block->rows * reader->columns, reader->cells);
    }
    block->cells = reader->cells;
    return BO_OK;
}

bo_status bo_reader_skip(bo_context *context, bo_reader *reader, size_t rows, size_t *skipped)
{
    *skipped = 0;
    if (bo_reader_is_array(reader)) {
        size_t left = reader->rows - reader->next_row;
        *skipped = rows < left ? rows : left;
        return bo_array_rows_skip(context, reader, *skipped);
    }
    for (; *skipped < rows; ++*skipped) {
        const char *text, *end;
        size_t line;
        BO_TRY(bo_records_next(context, reader, &text, &end, &line));
        if (!text) break;
    }
    reader->next_row += *skipped;
    return BO_OK;
}

bo_status bo_reader_rewind(bo_context *context, bo_reader *reader)
{
    BO_REQUIRE(context, reader);
    if (bo_reader_is_array(reader)) return bo_array_rows_rewind(context, reader);
    BO_TRY(bo_bytes_rewind(context, reader->bytes));
    BO_TRY(bo_records_rewind(context, reader));
    if (!reader->names) return BO_OK;
    const char *text, *end;
    size_t line;
    return bo_records_next(context, reader, &text, &end, &line); /* the header */
}

bo_status bo_reader_drop_header(bo_context *context, bo_reader *reader)
{
    free_names(reader);
    return bo_reader_rewind(context, reader);
}

bo_status bo_reader_seek(bo_context *context, bo_reader *reader, size_t row)
{
    if (!bo_reader_seekable(reader))
        return bo_fail(context, BO_UNSUPPORTED, "%s: only an uncompressed .npy or IDX file can be read out of order",
                       bo_reader_path(reader));
    if (row > reader->rows)
        return bo_fail(context, BO_INVALID, "%s: expected a row up to %zu, found %zu", bo_reader_path(reader),
                       reader->rows, row);
    reader->next_row = row;
    return BO_OK;
}

void bo_text_interpret(const char *text, bo_text_meaning *out)
{
    if (out) *out = (bo_text_meaning){0};
    if (!text || !out) return;
    out->missing = bo_is_missing_text(text);
    for (int form = 0; form < BO_DATE_FORMS; ++form)
        out->date[form] = bo_date_read(text, (bo_date_form)form, &out->days[form]);
}
