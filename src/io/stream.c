/* Reads rows with a schema: matches columns by name or position, converts numbers to float32, one-hot encodes categories,
 * and imputes or refuses missing values. Binary files take a fast path without cells. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "../base/trace.h"
#include "../base/rng.h"
#include "stream.h"

enum { BO_STREAM_PART_ROWS = BO_SIZE(1024, 2) }; /* rows per block of a part if the format is not seekable */

/* ---- matching columns ---------------------------------------------------------------------------------- */

/* The places of the names of a file, sorted by name. NULL until a column is not where it was expected. */
typedef struct name_order {
    char ***places;
} name_order;

static int by_name(const void *a, const void *b)
{
    return strcmp(**(char **const *)a, **(char **const *)b);
}

static bo_status sort_names(bo_context *context, const bo_reader *reader, name_order *order)
{
    order->places = bo_alloc(context, reader->columns, sizeof *order->places, "the names of columns");
    if (!order->places) return BO_MEMORY;
    for (size_t i = 0; i < reader->columns; ++i) order->places[i] = &reader->names[i];
    qsort(order->places, reader->columns, sizeof *order->places, by_name);
    return BO_OK;
}

/* Finds the column of this name; SIZE_MAX: none. `guess` is tried first: most files have the order of the schema. */
static bo_status find_column(bo_context *context, const bo_reader *reader, char *name, size_t guess, name_order *order,
                             size_t *out)
{
    *out = guess;
    if (guess < reader->columns && strcmp(reader->names[guess], name) == 0) return BO_OK;
    if (!order->places) BO_TRY(sort_names(context, reader, order));
    char **wanted = &name;
    char ***found = bsearch(&wanted, order->places, reader->columns, sizeof *order->places, by_name);
    *out = found ? (size_t)(*found - reader->names) : SIZE_MAX;
    return BO_OK;
}

static void log_extras(bo_context *context, const bo_stream *stream, bool *used, size_t targets_found)
{
    const bo_reader *reader = stream->source.data;
    const bo_schema *schema = stream->schema;
    char names[240] = "";
    size_t extras = 0, length = 0;
    for (size_t i = 0; i < schema->column_count; ++i)
        if (stream->input_columns[i] != SIZE_MAX) used[stream->input_columns[i]] = true;
    for (size_t i = 0; i < schema->targets && targets_found == schema->targets; ++i)
        used[stream->target_columns[i]] = true;
    if (reader->format == BO_FORMAT_LIBSVM) used[0] = true;
    for (size_t i = 0; i < reader->columns; ++i) {
        if (used[i]) continue;
        const char *name = bo_reader_column(reader, i);
        if (extras++ < 3 && name && length < sizeof names - 70)
            length += (size_t)snprintf(names + length, sizeof names - length, "%s%.60s", length ? ", " : ": ", name);
    }
    if (extras)
        bo_log(context, BO_LOG_INFO, "%s: ignoring %zu column%s that the model does not use%s%s",
               bo_reader_path(reader), extras, extras == 1 ? "" : "s", names, extras > 3 ? ", …" : "");
}

/* `known` marks columns that the schema ignores on request. */
static bo_status match_names(bo_context *context, bo_stream *stream, name_order *order, bool *known,
                             size_t *targets_found)
{
    const bo_schema *schema = stream->schema;
    const bo_reader *reader = stream->source.data;
    for (size_t i = 0, guess = 0; i < schema->column_count; ++i) {
        const bo_column *column = &schema->columns[i];
        size_t found = SIZE_MAX;
        if (column->name) BO_TRY(find_column(context, reader, column->name, guess, order, &found));
        if (found != SIZE_MAX) guess = found + 1;
        if (column->kind == BO_COLUMN_UNUSED) {
            if (found != SIZE_MAX) known[found] = true;
            continue;
        }
        if (column->kind == BO_COLUMN_TARGET) {
            if (found == SIZE_MAX) continue;
            stream->target_columns[column->first] = found;
            ++*targets_found;
        } else {
            if (found == SIZE_MAX)
                return bo_fail(context, BO_FORMAT,
                               "%s: expected column '%.100s', with which the model was fitted, found none",
                               bo_reader_path(reader), column->name);
            stream->input_columns[i] = found;
        }
    }
    return BO_OK;
}

static bo_status match_by_name(bo_context *context, bo_stream *stream, bool *known, size_t *targets_found)
{
    name_order order = {NULL};
    const bo_status status = match_names(context, stream, &order, known, targets_found);
    bo_free(order.places);
    return status;
}

static bo_status match_by_place(bo_context *context, bo_stream *stream, bool *known, size_t *targets_found)
{
    const bo_schema *schema = stream->schema;
    const bo_reader *reader = stream->source.data;
    size_t skipped = 0;
    for (size_t i = 0; i < schema->column_count; ++i)
        skipped += schema->columns[i].kind == BO_COLUMN_TARGET || schema->columns[i].kind == BO_COLUMN_UNUSED;
    const size_t with = schema->column_count, without = with - skipped;
    /* Sparse text is as wide as its largest index: the reader widens narrower text, and wider text has unknown features. */
    const bool libsvm = reader->format == BO_FORMAT_LIBSVM, sparse = libsvm && schema->format == BO_FORMAT_LIBSVM;
    const bool complete = reader->columns == with || sparse;
    if (!complete && reader->columns != without) {
        if (skipped)
            return bo_fail(context, BO_FORMAT,
                           "%s: expected %zu columns, as the model was fitted with (%zu without the target), found %zu",
                           bo_reader_path(reader), with, without, reader->columns);
        return bo_fail(context, BO_FORMAT, "%s: expected %zu columns, as the model was fitted with, found %zu",
                       bo_reader_path(reader), with, reader->columns);
    }
    for (size_t i = 0, at = 0; i < schema->column_count; ++i) {
        const bo_column *column = &schema->columns[i];
        const bool input = column->kind == BO_COLUMN_NUMBER || column->kind == BO_COLUMN_CATEGORY;
        if (input)
            stream->input_columns[i] = complete ? i : at++;
        else if (complete && column->kind == BO_COLUMN_TARGET) {
            stream->target_columns[column->first] = i;
            ++*targets_found;
        } else if (complete && column->kind == BO_COLUMN_UNUSED && i < reader->columns)
            known[i] = true;
    }
    return BO_OK;
}

static bo_status match_labels(bo_context *context, bo_stream *stream)
{
    bo_reader *labels = stream->source.labels;
    if (labels->names && bo_categories_find(&stream->schema->classes, 0, labels->names[0]) != SIZE_MAX)
        BO_TRY(bo_reader_drop_header(context, labels)); /* a class is not a header */
    if (bo_reader_columns(labels) != stream->schema->targets)
        return bo_fail(context, BO_FORMAT,
                       "%s: expected %zu column%s of labels, one per target of the model, found %zu",
                       bo_reader_path(labels), stream->schema->targets, stream->schema->targets == 1 ? "" : "s",
                       bo_reader_columns(labels));
    for (size_t i = 0; i < stream->schema->targets; ++i) stream->target_columns[i] = i;
    return BO_OK;
}

static bo_status match_columns(bo_context *context, bo_stream *stream, bool no_target)
{
    const bo_schema *schema = stream->schema;
    const bo_reader *reader = stream->source.data;
    size_t found = 0;
    stream->input_columns = bo_alloc(context, schema->column_count, sizeof *stream->input_columns, "a column map");
    stream->target_columns = bo_alloc(context, schema->targets, sizeof *stream->target_columns, "a column map");
    if (!stream->input_columns || !stream->target_columns) return BO_MEMORY;
    for (size_t i = 0; i < schema->column_count; ++i) stream->input_columns[i] = SIZE_MAX;
    bool *used = bo_alloc(context, reader->columns, sizeof *used, "a column map");
    if (!used) return BO_MEMORY;
    const bo_status status =
        (schema->named && reader->names ? match_by_name : match_by_place)(context, stream, used, &found);
    if (status == BO_OK) log_extras(context, stream, used, found);
    bo_free(used);
    BO_TRY(status);
    if (no_target)
        found = 0;
    else if (stream->source.labels) {
        BO_TRY(match_labels(context, stream));
        found = schema->targets;
    }
    if (schema->targets == 0 || found < schema->targets) {
        bo_free(stream->target_columns);
        stream->target_columns = NULL;
    }
    return BO_OK;
}

/* The fast path needs a binary file and no categories. */
static bo_status plan_runs(bo_context *context, bo_stream *stream)
{
    const bo_schema *schema = stream->schema;
    for (size_t i = 0; i < schema->column_count; ++i) stream->one_hot |= schema->columns[i].kind == BO_COLUMN_CATEGORY;
    if (stream->one_hot || !bo_reader_is_array(stream->source.data)) return BO_OK;
    stream->runs = bo_alloc(context, schema->column_count, sizeof *stream->runs, "a column map");
    if (!stream->runs) return BO_MEMORY;
    for (size_t i = 0; i < schema->column_count; ++i) {
        const size_t from = stream->input_columns[i], to = schema->columns[i].first;
        if (from == SIZE_MAX) continue;
        bo_stream_run *run = stream->run_count ? &stream->runs[stream->run_count - 1] : NULL;
        if (run && run->from + run->count == from && run->to + run->count == to)
            ++run->count;
        else
            stream->runs[stream->run_count++] = (bo_stream_run){from, to, 1};
    }
    return BO_OK;
}

bo_status bo_stream_create(bo_context *context, const bo_data_desc *desc, const bo_schema *schema, bo_source *source,
                           bo_stream **out)
{
    *out = NULL;
    bo_stream *stream = bo_alloc(context, 1, sizeof *stream, "a stream");
    if (!stream) {
        bo_source_close(source);
        return BO_MEMORY;
    }
    stream->schema = bo_schema_retain(schema);
    stream->source = *source;
    *source = (bo_source){0};
    bo_status status = match_columns(context, stream, desc->no_target);
    if (status == BO_OK) status = plan_runs(context, stream);
    if (status != BO_OK)
        bo_stream_close(stream);
    else
        *out = stream;
    return status;
}

bo_status bo_stream_open(bo_context *context, const bo_data_desc *desc, const bo_schema *schema, bo_stream **out)
{
    if (out) *out = NULL;
    BO_REQUIRE(context, desc, schema, out);
    bo_source source;
    BO_TRY(bo_source_open(context, desc, schema->column_count, false, &source));
    return bo_stream_create(context, desc, schema, &source, out);
}

void bo_stream_close(bo_stream *stream)
{
    if (!stream) return;
    bo_source_close(&stream->source);
    bo_schema_destroy(stream->schema);
    bo_free(stream->input_columns);
    bo_free(stream->target_columns);
    bo_free(stream->runs);
    if (stream->block) bo_sparse_destroy(&stream->block->rows);
    bo_free(stream);
}

bool bo_stream_has_target(const bo_stream *stream)
{
    return stream->target_columns != NULL;
}

const bo_source *bo_stream_source(const bo_stream *stream)
{
    return &stream->source;
}

/* ---- values -------------------------------------------------------------------------------------------- */

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

/* The label of a cell. A code that did not occur in training may have been a number there. */
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
    if (!text && !isfinite(value))
        return bo_fail(context, BO_FORMAT, "%s: expected a finite target, found %s value",
                       bo_place(reader, row, line, column, place), isnan(value) ? "a missing" : "an infinite");
    if (schema->task == BO_TASK_CLASSIFICATION) {
        size_t found = find_label(&schema->classes, value, text);
        *y = (double)found;
        if (found != SIZE_MAX) return BO_OK;
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

/* ---- the general path: cells ---------------------------------------------------------------------------- */

static bo_status put_category(bo_context *context, bo_stream *stream, const bo_column *column, const char *place,
                              double value, const char *text, float *x)
{
    if (!text && isinf(value))
        return bo_fail(context, BO_FORMAT, "%s: expected a finite number, found an infinite value", place);
    if (!text && isnan(value)) {
        if (stream->schema->impute != BO_IMPUTE_NONE) return BO_OK; /* no category is set */
        return bo_fail(context, BO_FORMAT,
                       "%s: expected a value, found a missing value, and the model was fitted without imputation",
                       place);
    }
    size_t found = find_label(&column->categories, value, text);
    if (found == SIZE_MAX)
        ++stream->unseen;
    else
        x[column->first + found] = 1;
    return BO_OK;
}

static bo_status put_row(bo_context *context, bo_stream *stream, const bo_data_block *block, size_t r, float *x)
{
    const bo_schema *schema = stream->schema;
    const bo_reader *reader = stream->source.data;
    const size_t row = block->first_row + r, line = block->lines ? block->lines[r] : 0;
    const double *cells = block->cells + r * block->columns;
    const char *const *texts = block->text ? block->text + r * block->columns : NULL;
    char place[BO_PLACE_TEXT];
    if (stream->one_hot) memset(x, 0, schema->dim * sizeof *x);
    for (size_t i = 0; i < schema->column_count; ++i) {
        const size_t from = stream->input_columns[i];
        if (from == SIZE_MAX) continue;
        const bo_column *column = &schema->columns[i];
        const char *text = texts ? texts[from] : NULL;
        double value = cells[from];
        if (column->kind == BO_COLUMN_CATEGORY) {
            bool plain = text || isfinite(value);
            BO_TRY(put_category(context, stream, column, plain ? "" : bo_place(reader, row, line, from, place), value,
                                text, x));
            continue;
        }
        if (text && !isfinite(value))
            return bo_fail(context, BO_FORMAT, "%s: expected a number, found '%.60s'",
                           bo_place(reader, row, line, from, place), text);
        if (isnan(value)) value = column->fill;
        if (!(fabs(value) <= FLT_MAX)) return refuse_number(context, reader, row, line, from, value);
        x[column->first] = (float)value;
        stream->vanished += value != 0 && x[column->first] == 0;
    }
    return BO_OK;
}

static bo_status put_targets(bo_context *context, const bo_stream *stream, const bo_reader *reader,
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

static bo_status next_cells(bo_context *context, bo_stream *stream, size_t max_rows, float *x, double *y, size_t *rows)
{
    bo_data_block block;
    BO_TRY(bo_reader_next(context, stream->source.data, max_rows, &block));
    for (size_t r = 0; r < block.rows; ++r) BO_TRY(put_row(context, stream, &block, r, x + r * stream->schema->dim));
    if (y && !stream->source.labels) BO_TRY(put_targets(context, stream, stream->source.data, &block, y));
    *rows = block.rows;
    return BO_OK;
}

/* ---- sparse rows --------------------------------------------------------------------------------------- */

bool bo_stream_is_sparse(const bo_stream *stream)
{
    return stream && stream->source.data->format == BO_FORMAT_LIBSVM && bo_schema_is_sparse(stream->schema);
}

static bo_status put_items(bo_context *context, bo_stream *stream, const bo_libsvm_items *items, size_t row,
                           size_t line, bo_sparse_block *block)
{
    const bo_schema *schema = stream->schema;
    BO_TRY(bo_sparse_reserve(context, block, items->count));
    for (size_t k = 0; k < items->count; ++k) {
        const size_t column = items->column[k];
        const double value = items->value[k];
        if (column >= schema->column_count) continue; /* an index that the model does not know */
        if (!(fabs(value) <= FLT_MAX)) return refuse_number(context, stream->source.data, row, line, column, value);
        stream->vanished += value != 0 && (float)value == 0;
        if ((float)value != 0) bo_sparse_put(block, schema->columns[column].first, (float)value);
    }
    bo_sparse_end_row(block);
    return BO_OK;
}

static bo_status next_items(bo_context *context, bo_stream *stream, size_t max_rows, bo_sparse_block *block, double *y,
                            size_t *rows)
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
    }
    return BO_OK;
}

/* ---- the fast path: arrays ------------------------------------------------------------------------------ */

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

/* Some value is not finite: imputes missing values, or reports the first bad one. */
static bo_status mend(bo_context *context, const bo_stream *stream, const unsigned char *raw, size_t first_row,
                      size_t rows, float *x)
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
            if (!(fabs(value) <= FLT_MAX)) return refuse_number(context, reader, first_row + r, 0, from, value);
            *to = (float)value;
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
            stream->vanished += fabs(value) > 0; /* NaN: a missing value that was replaced by 0 */
        }
}

static bo_status next_array(bo_context *context, bo_stream *stream, size_t max_rows, float *x, double *y, size_t *rows)
{
    bo_reader *reader = stream->source.data;
    const size_t dim = stream->schema->dim, stride = reader->columns * reader->array.item, first = reader->next_row;
    const unsigned char *raw = NULL;
    BO_TRY(bo_reader_next_raw(context, reader, max_rows, &raw, rows));
    if (*rows == 0) return BO_OK;
    if (stream->run_count == 1 && stream->runs[0].count == reader->columns) {
        bo_convert_f32(&reader->array, raw, *rows * dim, x);
    } else {
        for (size_t r = 0; r < *rows; ++r)
            for (size_t i = 0; i < stream->run_count; ++i) {
                const bo_stream_run *run = &stream->runs[i];
                bo_convert_f32(&reader->array, raw + r * stride + run->from * reader->array.item, run->count,
                               x + r * dim + run->to);
            }
    }
    if (!all_finite(x, *rows * dim)) BO_TRY(mend(context, stream, raw, first, *rows, x));
    if (reader->array.type == BO_TYPE_F64) count_vanished(stream, raw, *rows, x);
    if (y && !stream->source.labels) BO_TRY(array_targets(context, stream, raw, first, *rows, y));
    return BO_OK;
}

/* ---- next ---------------------------------------------------------------------------------------------- */

static bo_status too_short(bo_context *context, const bo_stream *stream, const bo_reader *shorter, size_t rows)
{
    const bo_reader *longer = shorter == stream->source.labels ? stream->source.data : stream->source.labels;
    return bo_fail(context, BO_FORMAT, "%s: expected as many rows as in %s, found only %zu", bo_reader_path(shorter),
                   bo_reader_path(longer), rows);
}

static bo_status next_labels(bo_context *context, bo_stream *stream, size_t rows, double *y)
{
    bo_reader *labels = stream->source.labels;
    while (rows > 0) {
        bo_data_block block;
        if (y) {
            BO_TRY(bo_reader_next(context, labels, rows, &block));
            BO_TRY(put_targets(context, stream, labels, &block, y));
            y += block.rows * stream->schema->targets;
        } else {
            BO_TRY(bo_reader_skip(context, labels, rows, &block.rows));
        }
        if (block.rows == 0) return too_short(context, stream, labels, labels->next_row);
        rows -= block.rows;
    }
    return BO_OK;
}

/* The labels must end with the data. */
static bo_status end_labels(bo_context *context, bo_stream *stream)
{
    size_t more;
    BO_TRY(bo_reader_skip(context, stream->source.labels, 1, &more));
    return more ? too_short(context, stream, stream->source.data, stream->source.data->next_row) : BO_OK;
}

static bo_status skip_rows(bo_context *context, bo_stream *stream, size_t rows, size_t *skipped)
{
    size_t labels = 0;
    BO_TRY(bo_reader_skip(context, stream->source.data, rows, skipped));
    if (stream->source.labels) BO_TRY(bo_reader_skip(context, stream->source.labels, *skipped, &labels));
    return BO_OK;
}

/* Moves to the next row of this part; *room: the number of consecutive rows of the part from there. */
static bo_status enter_part(bo_context *context, bo_stream *stream, size_t *room)
{
    const bo_reader *reader = stream->source.data;
    *room = SIZE_MAX;
    if (!stream->parted) return BO_OK;
    if (stream->last) {
        *room = stream->last - reader->next_row;
        return BO_OK;
    }
    size_t block = reader->next_row / BO_STREAM_PART_ROWS;
    const size_t ahead = (stream->part + stream->parts - block % stream->parts) % stream->parts;
    if (ahead) {
        const size_t gap = (block + ahead) * BO_STREAM_PART_ROWS - reader->next_row;
        size_t skipped;
        BO_TRY(skip_rows(context, stream, gap, &skipped));
        block += ahead;
    }
    *room = (block + 1) * BO_STREAM_PART_ROWS - reader->next_row;
    return BO_OK;
}

/* Warns at the end about values of unknown categories and about numbers that were lost. */
static void report_unseen(bo_context *context, bo_stream *stream)
{
    if (stream->unseen)
        bo_log(context, BO_LOG_WARNING,
               "%s: %zu value%s of categories that are not in the training data; encoded as zeros",
               bo_reader_path(stream->source.data), stream->unseen, stream->unseen == 1 ? "" : "s");
    if (stream->vanished)
        bo_log(context, BO_LOG_WARNING,
               "%s: %zu number%s too small for float32 (1.4e-45) and read as 0; multiply the columns by a constant",
               bo_reader_path(stream->source.data), stream->vanished, stream->vanished == 1 ? " is" : "s are");
    stream->unseen = stream->vanished = 0;
}

/* Reads rows into x, or into `block` if x is NULL. */
static bo_status next_rows(bo_context *context, bo_stream *stream, size_t max_rows, float *x, bo_sparse_block *block,
                           double *y, size_t *rows)
{
    BO_SPAN(context, "data", "read rows");
    const bo_schema *schema = stream->schema;
    *rows = 0;
    if (y && schema->targets && !stream->target_columns)
        return bo_fail(context, BO_INVALID, "%s: expected a target column, found none",
                       bo_reader_path(stream->source.data));
    if (schema->targets == 0) y = NULL;
    while (*rows < max_rows) {
        size_t room, got = 0;
        BO_TRY(enter_part(context, stream, &room));
        if (room > max_rows - *rows) room = max_rows - *rows;
        if (room > 0) {
            float *to = x ? x + *rows * schema->dim : NULL;
            double *targets = y ? y + *rows * schema->targets : NULL;
            BO_TRY(block          ? next_items(context, stream, room, block, targets, &got)
                   : stream->runs ? next_array(context, stream, room, to, targets, &got)
                                  : next_cells(context, stream, room, to, targets, &got));
            if (stream->source.labels)
                BO_TRY(got ? next_labels(context, stream, got, targets) : end_labels(context, stream));
        }
        if (got == 0) {
            report_unseen(context, stream);
            break;
        }
        *rows += got;
    }
    return BO_OK;
}

bo_status bo_stream_next(bo_context *context, bo_stream *stream, size_t max_rows, float *x, double *y, size_t *rows)
{
    BO_REQUIRE(context, stream, rows);
    BO_REQUIRE_IF(context, max_rows > 0, x);
    return next_rows(context, stream, max_rows, x, NULL, y, rows);
}

bo_status bo_stream_append_sparse(bo_context *context, bo_stream *stream, size_t max_rows, bo_sparse_block *block,
                                  double *y, size_t *rows)
{
    if (!bo_stream_is_sparse(stream))
        return bo_fail(context, BO_UNSUPPORTED, "%s: expected libsvm text with numbers only, to read sparse rows",
                       bo_reader_path(stream->source.data));
    return next_rows(context, stream, max_rows, NULL, block, y, rows);
}

bo_status bo_stream_next_sparse(bo_context *context, bo_stream *stream, size_t max_rows, bo_sparse *x, double *y)
{
    if (x) *x = (bo_sparse){0};
    BO_REQUIRE(context, stream, x);
    size_t rows;
    if (!stream->block) BO_TRY(bo_sparse_create(context, stream->schema->dim, &stream->block));
    bo_sparse_clear(stream->block);
    BO_TRY(bo_stream_append_sparse(context, stream, max_rows, stream->block, y, &rows));
    *x = stream->block->rows;
    return BO_OK;
}

bo_status bo_stream_rewind(bo_context *context, bo_stream *stream)
{
    BO_REQUIRE(context, stream);
    stream->unseen = stream->vanished = 0;
    BO_TRY(bo_source_rewind(context, &stream->source));
    if (!stream->parted || stream->last == 0) return BO_OK;
    size_t skipped;
    return skip_rows(context, stream, stream->first, &skipped);
}

bo_status bo_stream_restrict(bo_context *context, bo_stream *stream, size_t index, size_t parts)
{
    BO_REQUIRE(context, stream);
    if (parts == 0 || index >= parts)
        return bo_fail(context, BO_INVALID,
                       "bo_stream_restrict: expected a part below the number of parts, found part %zu of %zu", index,
                       parts);
    if (stream->source.data->next_row != 0)
        return bo_fail(context, BO_INVALID, "bo_stream_restrict: expected a stream before its first read");
    const bo_reader *data = stream->source.data, *labels = stream->source.labels;
    stream->parted = parts > 1;
    stream->part = index;
    stream->parts = parts;
    stream->first = stream->last = 0;
    if (!stream->parted || !bo_reader_seekable(data) || (labels && !bo_reader_seekable(labels))) return BO_OK;
    const size_t share = data->rows / parts, rest = data->rows % parts; /* the first `rest` parts have one more row */
    stream->first = index * share + (index < rest ? index : rest);
    stream->last = stream->first + share + (index < rest);
    size_t skipped;
    return skip_rows(context, stream, stream->first, &skipped);
}

/* ====================================================================================================================
 * A seeded uniform sample of the rows of a stream. */

static int by_index(const void *a, const void *b)
{
    size_t x = *(const size_t *)a, y = *(const size_t *)b;
    return (x > y) - (x < y);
}

/* `count` distinct numbers below `bound`, ascending (Floyd's algorithm: Bentley and Floyd 1987). */
static bo_status draw_distinct(bo_context *context, bo_rng *rng, size_t bound, size_t count, size_t *out)
{
    size_t size = 16;
    while (size < 2 * count) size *= 2;
    size_t *table = bo_alloc(context, size, sizeof *table, "a sample of rows");
    if (!table) return BO_MEMORY;
    for (size_t i = 0; i < count; ++i) {
        const size_t top = bound - count + i;
        size_t pick = (size_t)bo_rng_below(rng, top + 1);
        for (int again = 0; again < 2; ++again) {
            size_t at = (size_t)(pick * 0x9e3779b97f4a7c15u >> 20) & (size - 1);
            while (table[at] && table[at] != pick + 1) at = (at + 1) & (size - 1);
            if (!table[at]) {
                table[at] = pick + 1;
                break;
            }
            pick = top; /* already drawn: use the top, which cannot be */
        }
        out[i] = pick;
    }
    qsort(out, count, sizeof *out, by_index);
    bo_free(table);
    return BO_OK;
}

static bo_status sample_by_seeking(bo_context *context, bo_stream *stream, size_t rows, bo_rng *rng, float *x,
                                   double *y, size_t *sampled)
{
    const size_t total = stream->source.data->rows, count = rows < total ? rows : total;
    size_t *picks = bo_alloc_raw(context, count, sizeof *picks, "a sample of rows"), got = 1;
    if (!picks) return BO_MEMORY;
    bo_status status = draw_distinct(context, rng, total, count, picks);
    for (*sampled = 0; *sampled < count && status == BO_OK && got; *sampled += got) {
        size_t run = 1; /* consecutive rows are one read */
        while (*sampled + run < count && picks[*sampled + run] == picks[*sampled] + run) ++run;
        status = bo_reader_seek(context, stream->source.data, picks[*sampled]);
        if (status == BO_OK && stream->source.labels)
            status = bo_reader_seek(context, stream->source.labels, picks[*sampled]);
        if (status == BO_OK)
            status = bo_stream_next(context, stream, run, x + *sampled * stream->schema->dim,
                                    y ? y + *sampled * stream->schema->targets : NULL, &got);
    }
    bo_free(picks);
    return status;
}

/* Algorithm R (Vitter 1985). */
static bo_status sample_by_pass(bo_context *context, bo_stream *stream, size_t rows, bo_rng *rng, float *x, double *y,
                                size_t *sampled)
{
    const size_t dim = stream->schema->dim, targets = stream->schema->targets, block = 256;
    float *block_x = bo_alloc_raw(context, block * dim, sizeof *block_x, "a block of rows");
    double *block_y = bo_alloc_raw(context, block * (targets ? targets : 1), sizeof *block_y, "a block of rows");
    bo_status status = block_x && block_y ? BO_OK : BO_MEMORY;
    size_t seen = 0, got = 1;
    while (status == BO_OK && got > 0) {
        status = bo_stream_next(context, stream, block, block_x, y ? block_y : NULL, &got);
        for (size_t r = 0; status == BO_OK && r < got; ++r, ++seen) {
            size_t place = seen < rows ? seen : (size_t)bo_rng_below(rng, seen + 1);
            if (place >= rows) continue;
            memcpy(x + place * dim, block_x + r * dim, dim * sizeof *x);
            if (y) memcpy(y + place * targets, block_y + r * targets, targets * sizeof *y);
        }
    }
    *sampled = seen < rows ? seen : rows;
    bo_free(block_x);
    bo_free(block_y);
    return status;
}

bo_status bo_stream_sample(bo_context *context, bo_stream *stream, size_t rows, uint64_t seed, float *x, double *y,
                           size_t *sampled)
{
    BO_REQUIRE(context, stream, sampled);
    BO_REQUIRE_IF(context, rows > 0, x);
    const bo_reader *data = stream->source.data, *labels = stream->source.labels;
    const bool seeks = bo_reader_seekable(data) && (!labels || bo_reader_seekable(labels)), parted = stream->parted;
    bo_rng rng = bo_rng_make(seed, bo_rng_stream("data.sample", 0));
    *sampled = 0;
    stream->parted = false; /* the sample is drawn from the whole file and is the same for every part */
    bo_status status = bo_source_rewind(context, &stream->source);
    if (status == BO_OK)
        status = seeks ? sample_by_seeking(context, stream, rows, &rng, x, y, sampled)
                       : sample_by_pass(context, stream, rows, &rng, x, y, sampled);
    stream->parted = parted;
    if (status == BO_OK) status = bo_stream_rewind(context, stream);
    return status;
}
