/* Converts rows of a file to inputs and targets with the columns of a stream: numbers to float32 (origins.h), one-hot
 * encoding, dates, Booleans, imputed or refused missing values. Binary files of numbers take a fast path without
 * cells. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "origins.h"
#include "stream.h"

/* ---- values ------------------------------------------------------------------------------------------------------ */

static bo_status refuse_number(bo_context *context, const bo_reader *reader, size_t row, size_t line, size_t column,
                               double value)
{
    char place[BO_PLACE_TEXT];
    bo_place(reader, row, line, column, place);
    if (isnan(value))
        return bo_fail(context, BO_FORMAT,
                       "%s: expected a value, found a missing value, and the model was fitted without imputation",
                       place);
    if (isinf(value))
        return bo_fail(context, BO_FORMAT, "%s: expected a finite number, found an infinite value", place);
    return bo_fail(context, BO_FORMAT, "%s: expected a number in the range of float32, found %g", place, value);
}

/* The label of a cell. A code that did not occur in training may match a number from training. */
static size_t find_label(const bo_categories *set, double value, const char *text)
{
    const size_t found = bo_categories_find(set, value, text);
    return found == SIZE_MAX && text && isfinite(value) ? bo_categories_find(set, value, NULL) : found;
}

static bo_status put_target(bo_context *context, const bo_stream *stream, const bo_reader *reader, size_t row,
                            size_t line, size_t column, double value, const char *text, double *y)
{
    char place[BO_PLACE_TEXT];
    const bo_schema *schema = stream->schema;
    const bool classes = schema->task == BO_TASK_CLASSIFICATION;
    const size_t found = classes && (text || isfinite(value)) ? find_label(&schema->classes, value, text) : SIZE_MAX;
    *y = (double)found;
    if (found != SIZE_MAX) return BO_OK;
    if (text ? bo_is_missing_text(text) : isnan(value)) {
        *y = NAN;
        if (stream->keep_unlabeled || schema->impute != BO_IMPUTE_NONE) return BO_OK;
        value = NAN;
        text = NULL;
    }
    if (!text && !isfinite(value))
        return bo_fail(context, BO_FORMAT, "%s: expected a finite target, found %s value",
                       bo_place(reader, row, line, column, place), isnan(value) ? "a missing" : "an infinite");
    if (classes) {
        if (text)
            return bo_fail(context, BO_FORMAT, "%s: expected a class of the training data, found '%.60s'",
                           bo_place(reader, row, line, column, place), text);
        return bo_fail(context, BO_FORMAT, "%s: expected a class of the training data, found %.15g",
                       bo_place(reader, row, line, column, place), value);
    }
    if (text && !isfinite(value))
        return bo_fail(context, BO_FORMAT, "%s: expected a number, found '%.60s'",
                       bo_place(reader, row, line, column, place), text);
    *y = value;
    return BO_OK;
}

/* ---- the general path: cells ------------------------------------------------------------------------------------- */

/* One cell of an input column. */
typedef struct input_cell {
    const bo_reader *reader;
    size_t row, line, from;
    double value;
    const char *text;
} input_cell;

static const char *cell_place(const input_cell *cell, char out[BO_PLACE_TEXT])
{
    return bo_place(cell->reader, cell->row, cell->line, cell->from, out);
}

static void put_parts(const bo_column *column, double days, float *x)
{
    float parts[BO_DATE_PARTS];
    bo_date_parts(days, parts);
    memcpy(x, parts, (column->has_time ? BO_DATE_PARTS : BO_DATE_PARTS - 1) * sizeof *x);
}

/* A missing value: the fill, or the code of unknown values. */
static bo_status put_missing(bo_context *context, bo_stream *stream, const bo_column *column, const input_cell *cell,
                             float *x)
{
    if (stream->schema->impute == BO_IMPUTE_NONE)
        return refuse_number(context, cell->reader, cell->row, cell->line, cell->from, NAN);
    if (column->indicator) x[bo_column_width(stream->schema, column)] = 1;
    if (column->kind == BO_COLUMN_CATEGORY) return BO_OK; /* no category is set */
    if (column->kind == BO_COLUMN_ENCODED) {
        x[0] = (float)column->categories.count;
        return BO_OK;
    }
    if (!bo_origin_narrow(column->fill, column->origin, x))
        return refuse_number(context, cell->reader, cell->row, cell->line, cell->from, column->fill);
    if (column->kind == BO_COLUMN_DATE) put_parts(column, column->fill, x);
    return BO_OK;
}

static bo_status put_label(bo_context *context, bo_stream *stream, const bo_column *column, const input_cell *cell,
                           float *x)
{
    const size_t found = find_label(&column->categories, cell->value, cell->text);
    if (found == SIZE_MAX && cell->text && bo_is_missing_text(cell->text))
        return put_missing(context, stream, column, cell, x);
    stream->unseen += found == SIZE_MAX;
    if (column->kind == BO_COLUMN_ENCODED)
        x[0] = (float)(found == SIZE_MAX ? column->categories.count : found);
    else if (found != SIZE_MAX)
        x[found] = 1;
    return BO_OK;
}

static bo_status put_number(bo_context *context, bo_stream *stream, const bo_column *column, const input_cell *cell,
                            float *x)
{
    char place[BO_PLACE_TEXT];
    if (cell->text && !isfinite(cell->value))
        return bo_fail(context, BO_FORMAT, "%s: expected a number, found '%.60s'", cell_place(cell, place), cell->text);
    if (!bo_origin_narrow(cell->value, column->origin, x))
        return refuse_number(context, cell->reader, cell->row, cell->line, cell->from, cell->value);
    stream->vanished += cell->value != column->origin && x[0] == 0;
    return BO_OK;
}

static bo_status put_truth(bo_context *context, const input_cell *cell, float *x)
{
    char place[BO_PLACE_TEXT];
    int family;
    const int truth = cell->text         ? bo_truth_read(cell->text, &family)
                      : cell->value == 1 ? 1
                      : cell->value == 0 ? 0
                                         : -1;
    x[0] = (float)truth;
    if (truth >= 0) return BO_OK;
    if (cell->text)
        return bo_fail(context, BO_FORMAT, "%s: expected true or false, as in the training data, found '%.60s'",
                       cell_place(cell, place), cell->text);
    return bo_fail(context, BO_FORMAT, "%s: expected true or false, as in the training data, found %g",
                   cell_place(cell, place), cell->value);
}

/* An invalid date is a missing value. Too many of them are refused at the end of the stream (BO_DATE_SHARE). */
static bo_status put_date(bo_context *context, bo_stream *stream, const bo_column *column, const input_cell *cell,
                          float *x)
{
    static const char *const examples[BO_DATE_FORMS] = {"2024-01-31", "31.01.2024", "01/31/2024"};
    char place[BO_PLACE_TEXT], number[BO_NUMBER_TEXT], message[sizeof stream->first_undated];
    double days;
    ++stream->dated;
    if (cell->text && bo_date_read(cell->text, column->date, &days)) {
        put_parts(column, days, x);
        return BO_OK;
    }
    if (!cell->text) bo_number_format(cell->value, number, sizeof number);
    snprintf(message, sizeof message, "%s: expected a date such as %s, as in the training data, found '%.60s'",
             cell_place(cell, place), examples[column->date], cell->text ? cell->text : number);
    if (stream->schema->impute == BO_IMPUTE_NONE) return bo_fail(context, BO_FORMAT, "%s", message);
    if (stream->undated++ == 0) memcpy(stream->first_undated, message, sizeof message);
    return put_missing(context, stream, column, cell, x);
}

static bo_status put_cell(bo_context *context, bo_stream *stream, const bo_column *column, const input_cell *cell,
                          float *x)
{
    const bool labels = column->kind == BO_COLUMN_CATEGORY || column->kind == BO_COLUMN_ENCODED;
    if (isnan(cell->value) && (!cell->text || (!labels && bo_is_missing_text(cell->text))))
        return put_missing(context, stream, column, cell, x);
    if (!cell->text && isinf(cell->value))
        return refuse_number(context, cell->reader, cell->row, cell->line, cell->from, cell->value);
    switch (column->kind) {
    case BO_COLUMN_CATEGORY:
    case BO_COLUMN_ENCODED:
        return put_label(context, stream, column, cell, x);
    case BO_COLUMN_BOOLEAN:
        return put_truth(context, cell, x);
    case BO_COLUMN_DATE:
        return put_date(context, stream, column, cell, x);
    default:
        return put_number(context, stream, column, cell, x);
    }
}

static bo_status put_row(bo_context *context, bo_stream *stream, const bo_data_block *block, size_t r, float *x)
{
    const bo_schema *schema = stream->schema;
    const double *cells = block->cells + r * block->columns;
    const char *const *texts = block->text ? block->text + r * block->columns : NULL;
    input_cell cell = {
        .reader = stream->source.data, .row = block->first_row + r, .line = block->lines ? block->lines[r] : 0};
    if (stream->encodes) memset(x, 0, schema->dim * sizeof *x);
    for (size_t i = 0; i < schema->column_count; ++i) {
        cell.from = stream->input_columns[i];
        if (cell.from == SIZE_MAX) continue;
        const bo_column *column = &schema->columns[i];
        cell.value = cells[cell.from];
        cell.text = texts ? texts[cell.from] : NULL;
        BO_TRY(put_cell(context, stream, column, &cell, x + column->first));
    }
    return BO_OK;
}

/* The row number, weight and group of a row. */
static bo_status put_notes(bo_context *context, bo_stream *stream, const bo_data_block *block, size_t r, size_t at)
{
    const bo_reader *reader = stream->source.data;
    const size_t line = block->lines ? block->lines[r] : 0, first = r * block->columns;
    char place[BO_PLACE_TEXT];
    stream->notes.row[at] = block->first_row + r;
    if (stream->weight_column != SIZE_MAX) {
        const double weight = block->cells[first + stream->weight_column];
        if (!(weight >= 0 && weight <= FLT_MAX))
            return bo_fail(context, BO_FORMAT, "%s: expected a weight that is a number >= 0, found another value",
                           bo_place(reader, block->first_row + r, line, stream->weight_column, place));
        stream->notes.weight[at] = (float)weight;
    }
    if (stream->group_column != SIZE_MAX) {
        const double value = block->cells[first + stream->group_column];
        const char *text = block->text ? block->text[first + stream->group_column] : NULL;
        if (!text && !isfinite(value))
            return bo_fail(context, BO_FORMAT, "%s: expected the name or number of a group, found a missing value",
                           bo_place(reader, block->first_row + r, line, stream->group_column, place));
        stream->notes.group[at] = bo_label_hash(value, text);
    }
    return BO_OK;
}

bo_status bo_stream_put_targets(bo_context *context, const bo_stream *stream, const bo_reader *reader,
                                const bo_data_block *block, double *y)
{
    const size_t targets = stream->schema->targets;
    for (size_t r = 0; r < block->rows; ++r)
        for (size_t t = 0; t < targets; ++t) {
            const size_t column = stream->target_columns[t], i = r * block->columns + column;
            BO_TRY(put_target(context, stream, reader, block->first_row + r, block->lines ? block->lines[r] : 0, column,
                              block->cells[i], block->text ? block->text[i] : NULL, &y[r * targets + t]));
        }
    return BO_OK;
}

bo_status bo_stream_next_cells(bo_context *context, bo_stream *stream, size_t max_rows, size_t at, float *x, double *y,
                               size_t *rows)
{
    bo_data_block block;
    BO_TRY(bo_reader_next(context, stream->source.data, max_rows, &block));
    for (size_t r = 0; r < block.rows; ++r) {
        BO_TRY(put_row(context, stream, &block, r, x + r * stream->schema->dim));
        if (stream->noted) BO_TRY(put_notes(context, stream, &block, r, at + r));
    }
    if (y && !stream->source.labels) BO_TRY(bo_stream_put_targets(context, stream, stream->source.data, &block, y));
    *rows = block.rows;
    return BO_OK;
}

/* ---- sparse rows ------------------------------------------------------------------------------------------------- */

bool bo_stream_is_sparse(const bo_stream *stream)
{
    return stream->source.data->format == BO_FORMAT_LIBSVM && bo_schema_is_sparse(stream->schema);
}

/* The zeros of columns before `end` that have an origin and are absent from a row; *next counts these columns. */
static void put_absent(const bo_stream *stream, size_t *next, size_t end, bo_sparse_block *block)
{
    for (; *next < stream->shifted_count && stream->shifted[*next] < end; ++*next) {
        const bo_column *column = &stream->schema->columns[stream->shifted[*next]];
        bo_sparse_put(block, column->first, (float)-column->origin);
    }
}

static bo_status put_items(bo_context *context, bo_stream *stream, const bo_libsvm_items *items, size_t row,
                           size_t line, bo_sparse_block *block)
{
    const bo_schema *schema = stream->schema;
    size_t shifted = 0;
    BO_TRY(bo_sparse_reserve(context, block, items->count + stream->shifted_count));
    for (size_t k = 0; k < items->count; ++k) {
        const size_t column = items->column[k];
        if (column >= schema->column_count) break; /* indices that the model does not know */
        const double value = items->value[k], origin = schema->columns[column].origin;
        float x;
        put_absent(stream, &shifted, column, block);
        if (origin != 0) ++shifted;
        if (!bo_origin_narrow(value, origin, &x))
            return refuse_number(context, stream->source.data, row, line, column, value);
        stream->vanished += value != origin && x == 0;
        if (x != 0) bo_sparse_put(block, schema->columns[column].first, x);
    }
    put_absent(stream, &shifted, schema->column_count, block);
    bo_sparse_end_row(block);
    return BO_OK;
}

bo_status bo_stream_next_items(bo_context *context, bo_stream *stream, size_t max_rows, bo_sparse_block *block,
                               double *y, size_t *rows)
{
    bo_reader *reader = stream->source.data;
    for (*rows = 0; *rows < max_rows; ++*rows) {
        const bo_libsvm_items *items;
        const size_t row = reader->next_row;
        size_t line;
        BO_TRY(bo_libsvm_next(context, reader, &items, &line));
        if (!items) return BO_OK;
        BO_TRY(put_items(context, stream, items, row, line, block));
        if (y && !stream->source.labels)
            BO_TRY(put_target(context, stream, reader, row, line, 0, items->label, NULL, &y[*rows]));
        if (y && !stream->source.labels && isnan(y[*rows]))
            return bo_fail(context, BO_FORMAT, "%s: line %zu: expected a label, found a missing value; remove the row",
                           bo_reader_path(reader), line);
    }
    return BO_OK;
}

/* ---- the fast path: arrays --------------------------------------------------------------------------------------- */

/* NaN and infinity have all exponent bits set; this loop vectorizes. */
static bool all_finite(const float *x, size_t count)
{
    uint32_t bad = 0;
    for (size_t i = 0; i < count; ++i) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        bad |= (bits & 0x7f800000u) == 0x7f800000u;
    }
    return !bad;
}

/* Some value is NaN or infinite: imputes missing values, or reports the first invalid value. */
static bo_status impute_or_refuse(bo_context *context, const bo_stream *stream, const unsigned char *raw,
                                  size_t first_row, size_t rows, float *x)
{
    const bo_schema *schema = stream->schema;
    const bo_reader *reader = stream->source.data;
    for (size_t r = 0; r < rows; ++r)
        for (size_t i = 0; i < schema->column_count; ++i) {
            const size_t from = stream->input_columns[i];
            if (from == SIZE_MAX) continue;
            float *to = &x[r * schema->dim + schema->columns[i].first];
            if (isfinite(*to)) continue;
            double value;
            bo_convert_f64(&reader->array, raw + (r * reader->columns + from) * reader->array.item, 1, &value);
            if (isnan(value)) value = schema->columns[i].fill;
            if (!bo_origin_narrow(value, schema->columns[i].origin, to))
                return refuse_number(context, reader, first_row + r, 0, from, value);
        }
    return BO_OK;
}

static bo_status array_targets(bo_context *context, const bo_stream *stream, const unsigned char *raw, size_t first_row,
                               size_t rows, double *y)
{
    const bo_reader *reader = stream->source.data;
    const size_t targets = stream->schema->targets;
    for (size_t r = 0; r < rows; ++r)
        for (size_t t = 0; t < targets; ++t) {
            const size_t column = stream->target_columns[t];
            double value;
            bo_convert_f64(&reader->array, raw + (r * reader->columns + column) * reader->array.item, 1, &value);
            BO_TRY(put_target(context, stream, reader, first_row + r, 0, column, value, NULL, &y[r * targets + t]));
        }
    return BO_OK;
}

static void count_vanished(bo_stream *stream, const unsigned char *raw, size_t rows, const float *x)
{
    const bo_schema *schema = stream->schema;
    const bo_reader *reader = stream->source.data;
    for (size_t r = 0; r < rows; ++r)
        for (size_t i = 0; i < schema->column_count; ++i) {
            const size_t from = stream->input_columns[i];
            if (from == SIZE_MAX || x[r * schema->dim + schema->columns[i].first] != 0) continue;
            double value;
            bo_convert_f64(&reader->array, raw + (r * reader->columns + from) * reader->array.item, 1, &value);
            stream->vanished += fabs(value - schema->columns[i].origin) > 0; /* NaN: a missing value */
        }
}

/* Converts a run of the columns of a row. */
static void convert_run(const bo_stream *stream, const bo_stream_run *run, const unsigned char *raw, float *x)
{
    const bo_array_layout *array = &stream->source.data->array;
    const double *origins = stream->schema->origins;
    enum { PIECE = 256 };
    raw += run->from * array->item;
    x += run->to;
    if (!origins) {
        bo_convert_f32(array, raw, run->count, x);
        return;
    }
    for (size_t first = 0; first < run->count; first += PIECE) {
        double values[PIECE];
        const size_t count = run->count - first < PIECE ? run->count - first : PIECE;
        bo_convert_f64(array, raw + first * array->item, count, values);
        for (size_t k = 0; k < count; ++k) x[first + k] = (float)(values[k] - origins[run->to + first + k]);
    }
}

bo_status bo_stream_next_array(bo_context *context, bo_stream *stream, size_t max_rows, float *x, double *y,
                               size_t *rows)
{
    bo_reader *reader = stream->source.data;
    const size_t dim = stream->schema->dim, stride = reader->columns * reader->array.item, first = reader->next_row;
    const unsigned char *raw = NULL;
    BO_TRY(bo_reader_next_raw(context, reader, max_rows, &raw, rows));
    if (*rows == 0) return BO_OK;
    if (stream->run_count == 1 && stream->runs[0].count == reader->columns && !stream->schema->origins) {
        bo_convert_f32(&reader->array, raw, *rows * dim, x);
    } else {
        for (size_t r = 0; r < *rows; ++r)
            for (size_t i = 0; i < stream->run_count; ++i)
                convert_run(stream, &stream->runs[i], raw + r * stride, x + r * dim);
    }
    if (!all_finite(x, *rows * dim)) BO_TRY(impute_or_refuse(context, stream, raw, first, *rows, x));
    if (reader->array.type == BO_TYPE_F64) count_vanished(stream, raw, *rows, x);
    if (y && !stream->source.labels) BO_TRY(array_targets(context, stream, raw, first, *rows, y));
    return BO_OK;
}
