/* Finds the columns of a schema in a file: by name, otherwise by position. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "stream.h"

/* The places of the names of a file, sorted by name. NULL until a column is not at its expected place. */
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
    char **key = &name;
    char ***found = bsearch(&key, order->places, reader->columns, sizeof *order->places, by_name);
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

/* Column i of the schema, which is not an input, is column `found` of the file. `known` marks columns that are not
 * read. */
static void note_role(bo_stream *stream, size_t i, size_t found, bool *known, size_t *targets_found)
{
    const bo_column *column = &stream->schema->columns[i];
    if (column->kind == BO_COLUMN_TARGET) {
        stream->target_columns[column->first] = found;
        ++*targets_found;
        return;
    }
    if (column->kind == BO_COLUMN_WEIGHT) stream->weight_column = found;
    if (column->kind == BO_COLUMN_GROUP) stream->group_column = found;
    known[found] = true;
}

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
        if (!bo_column_is_input(column)) {
            if (found != SIZE_MAX) note_role(stream, i, found, known, targets_found);
            continue;
        }
        if (found == SIZE_MAX)
            return bo_fail(context, BO_FORMAT,
                           "%s: expected column '%.100s', with which the model was fitted, found none",
                           bo_reader_path(reader), column->name);
        stream->input_columns[i] = found;
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

/* Columns that a file without names may have. */
typedef enum file_shape { ALL_COLUMNS, WITHOUT_TARGETS, ONLY_INPUTS, NO_SHAPE } file_shape;

static file_shape find_shape(const bo_schema *schema, const bo_reader *reader, size_t targets, size_t other_columns)
{
    /* Sparse text is as wide as its largest index: the reader widens narrower text, and wider text has unknown
     * features. */
    if (reader->format == BO_FORMAT_LIBSVM && schema->format == BO_FORMAT_LIBSVM) return ALL_COLUMNS;
    if (reader->columns == schema->column_count) return ALL_COLUMNS;
    if (reader->columns == schema->column_count - targets) return WITHOUT_TARGETS;
    return reader->columns == schema->column_count - targets - other_columns ? ONLY_INPUTS : NO_SHAPE;
}

static bo_status match_by_place(bo_context *context, bo_stream *stream, bool *known, size_t *targets_found)
{
    const bo_schema *schema = stream->schema;
    const bo_reader *reader = stream->source.data;
    size_t targets = 0, other_columns = 0, at = 0;
    for (size_t i = 0; i < schema->column_count; ++i) {
        targets += schema->columns[i].kind == BO_COLUMN_TARGET;
        other_columns += schema->columns[i].kind != BO_COLUMN_TARGET && !bo_column_is_input(&schema->columns[i]);
    }
    const file_shape shape = find_shape(schema, reader, targets, other_columns);
    if (shape == NO_SHAPE && targets)
        return bo_fail(context, BO_FORMAT,
                       "%s: expected %zu columns, as the model was fitted with (%zu without the target), found %zu",
                       bo_reader_path(reader), schema->column_count, schema->column_count - targets, reader->columns);
    if (shape == NO_SHAPE)
        return bo_fail(context, BO_FORMAT, "%s: expected %zu columns, as the model was fitted with, found %zu",
                       bo_reader_path(reader), schema->column_count, reader->columns);
    for (size_t i = 0; i < schema->column_count; ++i) {
        const bo_column *column = &schema->columns[i];
        const bool input = bo_column_is_input(column);
        if (!input && (shape == ONLY_INPUTS || (shape == WITHOUT_TARGETS && column->kind == BO_COLUMN_TARGET)))
            continue; /* not in the file */
        const size_t found = at++;
        if (input)
            stream->input_columns[i] = found;
        else if (found < reader->columns)
            note_role(stream, i, found, known, targets_found);
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

bo_status bo_stream_match(bo_context *context, bo_stream *stream, bool no_target)
{
    const bo_schema *schema = stream->schema;
    const bo_reader *reader = stream->source.data;
    size_t found = 0;
    stream->weight_column = stream->group_column = SIZE_MAX;
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
