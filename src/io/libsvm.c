/* libsvm text: "label index:value index:value … # comment". Indices start at 1 and ascend; absent values are 0; qid:n
 * is ignored. Column 0 is the label, column i the feature with index i. */
#include "reader.h"

#include <string.h>

static bo_status bad_item(bo_context *context, const bo_reader *reader, size_t line, const bo_reader_field *item,
                          const char *what)
{
    int length = item->end - item->text < 40 ? (int)(item->end - item->text) : 40;
    return bo_fail(context, BO_FORMAT, "%s: line %zu: %s, found '%.*s'", bo_bytes_path(reader->bytes), line, what,
                   length, item->text);
}

static bo_status read_label(bo_context *context, const bo_reader *reader, size_t line, const bo_reader_field *item,
                            double *value)
{
    bo_cell_kind kind = bo_cell_read(item->text, item->end, value);
    if (kind == BO_CELL_NUMBER) return BO_OK;
    if (memchr(item->text, ',', (size_t)(item->end - item->text)))
        return bad_item(context, reader, line, item, "expected one label per line");
    return bad_item(context, reader, line, item, "expected a number as label");
}

static bo_status read_pair(bo_context *context, const bo_reader *reader, size_t line, const bo_reader_field *item,
                           size_t *index, double *value)
{
    const char *colon = memchr(item->text, ':', (size_t)(item->end - item->text));
    if (!colon || colon == item->text) return bad_item(context, reader, line, item, "expected index:value");
    *index = 0;
    if (colon - item->text == 3 && memcmp(item->text, "qid", 3) == 0) return BO_OK;
    for (const char *p = item->text; p < colon; ++p) {
        if (*p < '0' || *p > '9') return bad_item(context, reader, line, item, "expected an integer index");
        *index = *index * 10 + (size_t)(*p - '0');
        if (*index >= BO_MAX_COLUMNS)
            return bad_item(context, reader, line, item, "expected an index of at most 4194303");
    }
    if (*index == 0) return bad_item(context, reader, line, item, "expected indices that start at 1");
    if (bo_cell_read(colon + 1, item->end, value) == BO_CELL_TEXT || colon + 1 == item->end)
        return bad_item(context, reader, line, item, "expected a number after the colon");
    return BO_OK;
}

/* Appends a pair to the items of the row. */
static bo_status keep_item(bo_context *context, bo_libsvm_items *items, size_t index, double value)
{
    if (items->count == items->capacity) {
        const size_t capacity = items->capacity ? 2 * items->capacity : 256;
        uint32_t *column = bo_realloc(context, items->column, capacity, sizeof *column, "a row of libsvm text");
        if (column) items->column = column;
        double *values =
            column ? bo_realloc(context, items->value, capacity, sizeof *values, "a row of libsvm text") : NULL;
        if (!values) return BO_MEMORY;
        items->value = values;
        items->capacity = capacity;
    }
    items->column[items->count] = (uint32_t)index;
    items->value[items->count++] = value;
    return BO_OK;
}

/* Parses a row. Raises *widest to the largest index + 1; if `items` is NULL, it does nothing else. */
static bo_status parse_row(bo_context *context, bo_reader *reader, const char *text, const char *end, size_t line,
                           bo_libsvm_items *items, size_t *widest)
{
    const char *comment = memchr(text, '#', (size_t)(end - text)), *at = text;
    size_t previous = 0;
    bo_reader_field item;
    bool last = false;
    double value;
    if (comment) end = comment;
    bo_field_next(' ', &at, end, &item, &last);
    BO_TRY(read_label(context, reader, line, &item, &value));
    if (items) items->label = value, items->count = 0;
    while (!last) {
        size_t index = 0;
        bo_field_next(' ', &at, end, &item, &last);
        BO_TRY(read_pair(context, reader, line, &item, &index, &value));
        if (index == 0) continue;
        if (index <= previous)
            return bad_item(context, reader, line, &item,
                            index == previous ? "expected each index once" : "expected ascending indices");
        previous = index;
        if (!items) continue;
        if (index >= reader->columns)
            return bo_fail(context, BO_FORMAT, "%s: line %zu: expected feature indices up to %zu, found %zu",
                           bo_bytes_path(reader->bytes), line, reader->columns - 1, index);
        BO_TRY(keep_item(context, items, index, value));
    }
    if (previous + 1 > *widest) *widest = previous + 1;
    return BO_OK;
}

bo_status bo_libsvm_row(bo_context *context, bo_reader *reader, const char *text, const char *end, size_t line,
                        double *cells)
{
    size_t widest = 0;
    bo_libsvm_items *items = &reader->items;
    BO_TRY(parse_row(context, reader, text, end, line, items, &widest));
    memset(cells, 0, reader->columns * sizeof *cells);
    cells[0] = items->label;
    for (size_t k = 0; k < items->count; k++) cells[items->column[k]] = items->value[k];
    return BO_OK;
}

bo_status bo_libsvm_next(bo_context *context, bo_reader *reader, const bo_libsvm_items **items, size_t *line)
{
    const char *text, *end;
    size_t widest = 0;
    *items = NULL;
    BO_TRY(bo_records_next(context, reader, &text, &end, line));
    if (!text) return BO_OK;
    BO_TRY(parse_row(context, reader, text, end, *line, &reader->items, &widest));
    *items = &reader->items;
    reader->next_row++;
    return BO_OK;
}

bo_status bo_libsvm_open(bo_context *context, bo_reader *reader, size_t min_columns)
{
    if (min_columns > BO_MAX_COLUMNS)
        return bo_fail(context, BO_INVALID, "expected at most %d columns, found %zu", BO_MAX_COLUMNS, min_columns);
    BO_TRY(bo_records_rewind(context, reader));
    if (!bo_bytes_rewindable(reader->bytes)) {
        if (min_columns == 0)
            return bo_fail(
                context, BO_UNSUPPORTED,
                "%s: the number of features of libsvm text in a pipe is not known in advance; use a file, or "
                "pass min_columns in C",
                bo_bytes_path(reader->bytes));
        reader->columns = min_columns;
        return BO_OK;
    }
    size_t widest = min_columns > 1 ? min_columns : 1, rows = 0;
    for (;; ++rows) {
        const char *text, *end;
        size_t line;
        BO_TRY(bo_records_next(context, reader, &text, &end, &line));
        if (!text) break;
        BO_TRY(parse_row(context, reader, text, end, line, NULL, &widest));
    }
    reader->columns = widest;
    reader->rows = rows;
    reader->rows_known = true;
    BO_TRY(bo_bytes_rewind(context, reader->bytes));
    return bo_records_rewind(context, reader);
}
