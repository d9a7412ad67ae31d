/* CSV (RFC 4180 with comma, semicolon, tab or vertical bar) and whitespace-separated values: the header, and records to
 * rows of cells. */
#include "reader.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Replaces doubled quotes, and trims the whitespace around unquoted text. */
static char *field_string(bo_context *context, bo_strings *strings, const bo_reader_field *field)
{
    const char *text = field->text, *end = field->end;
    if (!field->quoted) {
        while (text < end && (*text == ' ' || *text == '\t')) ++text;
        while (text < end && (end[-1] == ' ' || end[-1] == '\t')) --end;
    }
    char *out = bo_strings_add(context, strings, text, (size_t)(end - text));
    if (!out || !field->quoted) return out;
    char *to = out;
    for (const char *from = out; *from; ++from) {
        *to++ = *from;
        if (from[0] == '"' && from[1] == '"') ++from;
    }
    *to = 0;
    return out;
}

static bo_status bad_quote(bo_context *context, const bo_reader *reader, size_t line, size_t column)
{
    char label[BO_COLUMN_TEXT];
    return bo_fail(context, BO_FORMAT,
                   "%s: line %zu, %s: expected a delimiter after the closing quote, found other text",
                   bo_bytes_path(reader->bytes), line, bo_reader_column_label(reader, column, label));
}

static bo_status refuse_duplicates(bo_context *context, const bo_reader *reader, size_t line)
{
    /* An open-addressed hash table of column numbers + 1. */
    size_t size = 16;
    while (size < 2 * reader->columns) size *= 2;
    size_t *table = bo_alloc(context, size, sizeof *table, "column names");
    if (!table) return BO_MEMORY;
    bo_status status = BO_OK;
    for (size_t i = 0; i < reader->columns && status == BO_OK; ++i) {
        uint64_t hash = 1469598103934665603u;
        for (const char *p = reader->names[i]; *p; ++p) hash = (hash ^ (unsigned char)*p) * 1099511628211u;
        size_t at = (size_t)(hash ^ hash >> 32) & (size - 1);
        while (table[at] && strcmp(reader->names[table[at] - 1], reader->names[i]) != 0) at = (at + 1) & (size - 1);
        if (table[at])
            status = bo_fail(context, BO_FORMAT,
                             "%s: line %zu: the header has '%s' twice, in columns %zu and %zu; rename one of them",
                             bo_bytes_path(reader->bytes), line, reader->names[i], table[at] - 1, i);
        table[at] = i + 1;
    }
    bo_free(table);
    return status;
}

static bo_status set_name(bo_context *context, bo_reader *reader, size_t line, size_t column,
                          const bo_reader_field *field)
{
    char *name = field_string(context, &reader->strings, field);
    if (!name) return BO_MEMORY;
    if (strlen(name) > BO_MAX_NAME)
        return bo_fail(context, BO_FORMAT,
                       "%s: line %zu, column %zu: the name of the column has %zu bytes, expected at most %d",
                       bo_bytes_path(reader->bytes), line, column, strlen(name), BO_MAX_NAME);
    char number[32];
    reader->unnamed[column] = !*name;
    snprintf(number, sizeof number, "column %zu", column);
    reader->names[column] = bo_strdup(context, *name ? name : number);
    return reader->names[column] ? BO_OK : BO_MEMORY;
}

static bo_status read_header(bo_context *context, bo_reader *reader, const char *text, const char *end, size_t line)
{
    reader->names = bo_alloc(context, reader->columns, sizeof *reader->names, "column names");
    reader->unnamed = bo_alloc(context, reader->columns, sizeof *reader->unnamed, "column names");
    if (!reader->names || !reader->unnamed) return BO_MEMORY;
    bool last = false;
    for (size_t column = 0; column < reader->columns && !last; ++column) {
        bo_reader_field field;
        if (!bo_field_next(reader->delimiter, &text, end, &field, &last))
            return bad_quote(context, reader, line, column);
        BO_TRY(set_name(context, reader, line, column, &field));
    }
    return refuse_duplicates(context, reader, line);
}

static bo_status count_columns(bo_context *context, bo_reader *reader, const char *text, const char *end, size_t line)
{
    size_t columns = 0;
    for (bool last = false; !last; ++columns) {
        bo_reader_field field;
        if (!bo_field_next(reader->delimiter, &text, end, &field, &last))
            return bad_quote(context, reader, line, columns);
    }
    if (columns > BO_MAX_COLUMNS)
        return bo_fail(context, BO_FORMAT, "%s: line %zu: found %zu columns, more than the maximum of %d",
                       bo_bytes_path(reader->bytes), line, columns, BO_MAX_COLUMNS);
    reader->columns = columns;
    return BO_OK;
}

bo_status bo_delimited_open(bo_context *context, bo_reader *reader, const bo_text_form *form)
{
    const char *text, *end;
    size_t line, begin, first_line;
    reader->delimiter = form->delimiter;
    reader->number_form = form->number;
    BO_TRY(bo_records_rewind(context, reader));
    BO_TRY(bo_records_next(context, reader, &text, &end, &line));
    if (!text) return bo_fail(context, BO_FORMAT, "%s: the file is empty", bo_bytes_path(reader->bytes));
    begin = (size_t)(text - reader->records.buffer);
    first_line = line;
    BO_TRY(count_columns(context, reader, text, end, line));
    if (form->header) return read_header(context, reader, text, end, line);
    reader->records.begin = begin; /* the first record is data: rewind to it */
    reader->records.line = first_line;
    return BO_OK;
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

static bo_status ragged(bo_context *context, const bo_reader *reader, const char *text, const char *end, size_t line)
{
    size_t count = 0;
    for (bool last = false; !last; ++count) {
        bo_reader_field field;
        if (!bo_field_next(reader->delimiter, &text, end, &field, &last)) break;
    }
    return bo_fail(context, BO_FORMAT, "%s: line %zu: expected %zu columns, as in the first row, found %zu",
                   bo_bytes_path(reader->bytes), line, reader->columns, count);
}

bo_status bo_text_reserve(bo_context *context, bo_reader *reader)
{
    if (reader->text_capacity < reader->cell_capacity) {
        const char **larger = bo_realloc(context, reader->text, reader->cell_capacity, sizeof *larger, "text cells");
        if (!larger) return BO_MEMORY;
        reader->text = larger;
        reader->text_capacity = reader->cell_capacity;
    }
    memset(reader->text + reader->text_used, 0, (reader->cell_capacity - reader->text_used) * sizeof *reader->text);
    reader->text_used = reader->cell_capacity;
    return BO_OK;
}

static bo_status put_text(bo_context *context, bo_reader *reader, const bo_reader_field *field, size_t line, size_t row,
                          size_t column)
{
    char label[BO_COLUMN_TEXT];
    if (memchr(field->text, 0, (size_t)(field->end - field->text)))
        return bo_fail(context, BO_FORMAT, "%s: line %zu, %s: expected text, found a zero byte",
                       bo_bytes_path(reader->bytes), line, bo_reader_column_label(reader, column, label));
    if (!reader->block_has_text) { /* first text cell of this block: all other cells start without text */
        reader->text_used = 0;
        BO_TRY(bo_text_reserve(context, reader));
        reader->block_has_text = true;
    }
    char *copy = field_string(context, &reader->strings, field);
    if (!copy) return BO_MEMORY;
    reader->text[row * reader->columns + column] = copy;
    return BO_OK;
}

/* True for missing values that may also be text: NaN and null, but not NA, N/A and ?. */
static bool is_ambiguous(const bo_reader_field *field)
{
    const char *text = field->text;
    while (text < field->end && strchr(" \t+-", *text)) ++text;
    return text < field->end && strchr("nN", *text) && field->end - text >= 3 && text[1] != '/';
}

static bo_status put_field(bo_context *context, bo_reader *reader, const bo_reader_field *field, size_t line,
                           size_t row, size_t column)
{
    double *cell = &reader->cells[row * reader->columns + column];
    const bo_cell_kind kind = bo_cell_read_form(&reader->number_form, field->text, field->end, cell);
    const bool number = isnan(*cell) ? !is_ambiguous(field) : isfinite(*cell) && !bo_is_code(field->text, field->end);
    if (kind != BO_CELL_TEXT && number) return BO_OK;
    return put_text(context, reader, field, line, row, column);
}

bo_status bo_delimited_row(bo_context *context, bo_reader *reader, const char *text, const char *end, size_t line,
                           size_t row)
{
    const char *at = text;
    const char delimiter = reader->delimiter;
    double *cells = reader->cells + row * reader->columns;
    const size_t columns = reader->columns;
    const bool points = reader->number_form.decimal == '.';
    bool last = false;
    for (size_t column = 0; column < columns; ++column) {
        if (last) return ragged(context, reader, text, end, line);
        /* Fast path: a plain number that ends at the delimiter or at the end of the record. */
        const char *stop;
        while (at < end && *at == ' ') ++at;
        if (delimiter == ' ')
            while (at < end && (*at == ' ' || *at == '\t')) ++at;
        if (points && bo_number_read(at, end, &stop, &cells[column]) && isfinite(cells[column]) &&
            !bo_is_code(at, stop)) {
            while (stop < end && *stop == ' ') ++stop;
            if (delimiter == ' ') {
                if (stop == end || stop[-1] == ' ' || *stop == '\t') {
                    while (stop < end && (*stop == ' ' || *stop == '\t')) ++stop;
                    at = stop;
                    last = at == end;
                    continue;
                }
            } else if (stop == end || *stop == delimiter) {
                last = stop == end;
                at = stop + !last;
                continue;
            }
        }
        bo_reader_field field;
        if (!bo_field_next(delimiter, &at, end, &field, &last)) return bad_quote(context, reader, line, column);
        BO_TRY(put_field(context, reader, &field, line, row, column));
    }
    return last ? BO_OK : ragged(context, reader, text, end, line);
}
