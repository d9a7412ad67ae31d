/* Reads rows with a schema in blocks: match.c finds the columns, convert.c converts the cells. Rows without a target
 * are omitted, and categories become codes. */
#include <math.h>
#include <string.h>
#include "../base/trace.h"
#include "stream.h"

enum { BO_STREAM_PART_ROWS = BO_SIZE(1024, 2) }; /* rows per block of a part if the format is not seekable */

/* ---- opening ----------------------------------------------------------------------------------------------------- */

/* Row numbers, weights and groups are kept if they are needed. */
static void plan_notes(bo_stream *stream)
{
    const bo_schema *schema = stream->schema;
    for (size_t i = 0; i < schema->column_count; ++i) {
        const bo_column *column = &schema->columns[i];
        stream->encodes |= column->kind == BO_COLUMN_CATEGORY || (bo_column_is_input(column) && column->indicator);
        stream->coded |= column->kind == BO_COLUMN_ENCODED;
        stream->plain &= column->kind == BO_COLUMN_NUMBER || !bo_column_is_input(column);
    }
    stream->noted = stream->coded || stream->weight_column != SIZE_MAX || stream->group_column != SIZE_MAX;
    stream->plain &= !stream->encodes && !stream->noted;
}

/* The fast path needs a binary file of numbers. */
static bo_status plan_runs(bo_context *context, bo_stream *stream)
{
    const bo_schema *schema = stream->schema;
    if (!stream->plain || !bo_reader_is_array(stream->source.data)) return BO_OK;
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

static bo_status plan_shifted(bo_context *context, bo_stream *stream)
{
    const bo_schema *schema = stream->schema;
    if (!schema->origins || !bo_schema_is_sparse(schema)) return BO_OK;
    stream->shifted = bo_alloc(context, schema->column_count, sizeof *stream->shifted, "a column map");
    if (!stream->shifted) return BO_MEMORY;
    for (size_t i = 0; i < schema->column_count; ++i)
        if (schema->columns[i].origin != 0) stream->shifted[stream->shifted_count++] = i;
    return BO_OK;
}

bo_status bo_stream_create(bo_context *context, const bo_data_desc *desc, const bo_schema *schema,
                           bo_data_input *source, bo_stream **out)
{
    *out = NULL;
    bo_stream *stream = bo_alloc(context, 1, sizeof *stream, "a stream");
    if (!stream) {
        bo_data_input_close(source);
        return BO_MEMORY;
    }
    stream->schema = bo_schema_retain(schema);
    stream->source = *source;
    *source = (bo_data_input){0};
    stream->keep_unlabeled = desc->keep_unlabeled;
    stream->plain = true;
    bo_status status = bo_stream_match(context, stream, desc->no_target);
    plan_notes(stream);
    if (status == BO_OK) status = plan_runs(context, stream);
    if (status == BO_OK) status = plan_shifted(context, stream);
    if (status != BO_OK)
        bo_stream_close(stream);
    else
        *out = stream;
    return status;
}

bo_status bo_stream_open(bo_context *context, const bo_data_desc *desc, const bo_schema *schema, bo_stream **out)
{
    *out = NULL;
    bo_data_input source;
    BO_TRY(bo_data_input_open(context, desc, schema->column_count, false, &source));
    return bo_stream_create(context, desc, schema, &source, out);
}

void bo_stream_close(bo_stream *stream)
{
    if (!stream) return;
    bo_data_input_close(&stream->source);
    bo_schema_destroy(stream->schema);
    bo_free(stream->input_columns);
    bo_free(stream->target_columns);
    bo_free(stream->runs);
    bo_free(stream->shifted);
    bo_free(stream->notes.row);
    bo_free(stream->notes.weight);
    bo_free(stream->notes.group);
    if (stream->block) bo_sparse_destroy(&stream->block->rows);
    bo_free(stream);
}

void bo_stream_train(bo_stream *stream, const bo_split_desc *split)
{
    stream->training = true;
    if (split) stream->split = *split;
}

const float *bo_stream_weights(const bo_stream *stream)
{
    return stream->weight_column != SIZE_MAX ? stream->notes.weight : NULL;
}

const uint64_t *bo_stream_groups(const bo_stream *stream)
{
    return stream->group_column != SIZE_MAX ? stream->notes.group : NULL;
}

bool bo_stream_has_target(const bo_stream *stream)
{
    return stream->target_columns != NULL;
}

const bo_data_input *bo_stream_source(const bo_stream *stream)
{
    return &stream->source;
}

/* ---- next -------------------------------------------------------------------------------------------------------- */

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
            BO_TRY(bo_stream_put_targets(context, stream, labels, &block, y));
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

/* Moves to the next row of this part; *remaining: the number of consecutive rows of the part from this row. */
static bo_status enter_part(bo_context *context, bo_stream *stream, size_t *remaining)
{
    const bo_reader *reader = stream->source.data;
    *remaining = SIZE_MAX;
    if (!stream->parted) return BO_OK;
    if (stream->last) {
        *remaining = stream->last - reader->next_row;
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
    *remaining = (block + 1) * BO_STREAM_PART_ROWS - reader->next_row;
    return BO_OK;
}

/* ---- rows without a target, and codes ---------------------------------------------------------------------------- */

static bo_status reserve_notes(bo_context *context, bo_stream *stream, size_t rows)
{
    bo_row_notes *notes = &stream->notes;
    if (!stream->noted || notes->capacity >= rows) return BO_OK;
    size_t *row = bo_realloc(context, notes->row, rows, sizeof *row, "row numbers");
    if (!row) return BO_MEMORY;
    notes->row = row;
    float *weight = bo_realloc(context, notes->weight, rows, sizeof *weight, "weights of rows");
    if (!weight) return BO_MEMORY;
    notes->weight = weight;
    uint64_t *group = bo_realloc(context, notes->group, rows, sizeof *group, "groups of rows");
    if (!group) return BO_MEMORY;
    notes->group = group;
    notes->capacity = rows;
    return BO_OK;
}

static bool is_labeled(const double *y, size_t targets)
{
    for (size_t t = 0; t < targets; ++t)
        if (isnan(y[t])) return false;
    return true;
}

/* Removes rows without a target from rows [at, at + count); returns the number of remaining rows. */
static size_t drop_unlabeled(bo_stream *stream, size_t at, size_t count, float *x, double *y)
{
    const size_t dim = stream->schema->dim, targets = stream->schema->targets;
    size_t to = at;
    for (size_t from = at; from < at + count; ++from) {
        if (!is_labeled(y + from * targets, targets)) continue;
        if (to != from) {
            memcpy(x + to * dim, x + from * dim, dim * sizeof *x);
            memcpy(y + to * targets, y + from * targets, targets * sizeof *y);
            if (stream->noted) {
                stream->notes.row[to] = stream->notes.row[from];
                stream->notes.weight[to] = stream->notes.weight[from];
                stream->notes.group[to] = stream->notes.group[from];
            }
        }
        ++to;
    }
    stream->unlabeled += at + count - to;
    return to - at;
}

/* Replaces the index of a category by its codes. A training row has codes that exclude the rows of its fold. */
static void put_codes(const bo_stream *stream, size_t i, float *x)
{
    const bo_schema *schema = stream->schema;
    const size_t width = bo_schema_code_width(schema);
    const uint64_t key = stream->group_column != SIZE_MAX ? stream->notes.group[i] : stream->next_kept + i;
    const bool trains = stream->training && schema->folds && bo_split_row(&stream->split, key) == BO_SPLIT_TRAIN;
    const size_t fold = trains ? bo_schema_fold(schema, stream->notes.row[i]) : 0;
    for (size_t c = 0; c < schema->column_count; ++c) {
        const bo_column *column = &schema->columns[c];
        if (column->kind != BO_COLUMN_ENCODED || !column->codes) continue;
        const size_t rows = column->categories.count + 1, index = (size_t)x[column->first];
        const double *codes =
            trains ? column->fold_codes + (fold * rows + index) * width : column->codes + index * width;
        for (size_t k = 0; k < width; ++k) x[column->first + k] = (float)codes[k];
    }
}

/* Warns at the end about values of unknown categories, invalid dates and numbers that underflowed. */
static bo_status report_unseen(bo_context *context, bo_stream *stream)
{
    const char *path = bo_reader_path(stream->source.data);
    if (stream->unseen && !stream->silent)
        bo_log(context, BO_LOG_WARNING,
               "%s: %zu value%s of categories that are not in the training data; encoded as %s", path, stream->unseen,
               stream->unseen == 1 ? "" : "s",
               !stream->coded    ? "zeros"
               : stream->encodes ? "zeros or as the mean of the target"
                                 : "the mean of the target");
    if (stream->unlabeled && !stream->silent && !stream->training)
        bo_log(context, BO_LOG_WARNING, "%s: %zu row%s left out because the target is missing", path, stream->unlabeled,
               stream->unlabeled == 1 ? " is" : "s are");
    if (stream->undated && !stream->silent && !stream->training) {
        /* A single invalid date among several is a mistake, as in the training data. */
        const size_t max_undated = stream->dated > BO_DATE_SHARE ? stream->dated / BO_DATE_SHARE : stream->dated > 1;
        if (stream->undated > max_undated)
            return bo_fail(context, BO_FORMAT,
                           "%s; %zu of %zu date%s invalid, and at most 1 of %d%s is read as missing (write NA for a "
                           "missing date)",
                           stream->first_undated, stream->undated, stream->dated, stream->dated == 1 ? " is" : "s are",
                           BO_DATE_SHARE, stream->dated > 1 && stream->dated < BO_DATE_SHARE ? " (or 1 of fewer)" : "");
        bo_log(context, BO_LOG_WARNING, "%s; %zu invalid date%s read as missing", stream->first_undated,
               stream->undated, stream->undated == 1 ? " is" : "s are");
    }
    if (stream->vanished && !stream->silent)
        bo_log(context, BO_LOG_WARNING,
               "%s: %zu number%s too small for float32 (1.4e-45) and read as 0; multiply the columns by a constant",
               path, stream->vanished, stream->vanished == 1 ? " is" : "s are");
    stream->unseen = stream->dated = stream->undated = stream->vanished = stream->unlabeled = 0;
    return BO_OK;
}

/* Reads rows into x, or into `block` if x is NULL. `replaced`: other rows are read in place of rows without a
 * target. */
static bo_status next_rows(bo_context *context, bo_stream *stream, size_t max_rows, bool replaced, float *x,
                           bo_sparse_block *block, double *y, size_t *rows)
{
    BO_SPAN(context, "data", "read rows");
    const bo_schema *schema = stream->schema;
    *rows = 0;
    if (y && schema->targets && !stream->target_columns)
        return bo_fail(context, BO_INVALID, "%s: expected a target column, found none",
                       bo_reader_path(stream->source.data));
    if (schema->targets == 0) y = NULL;
    BO_TRY(reserve_notes(context, stream, max_rows));
    for (size_t read = 0; (replaced ? *rows : read) < max_rows;) {
        const size_t left = max_rows - (replaced ? *rows : read);
        size_t count, got = 0;
        BO_TRY(enter_part(context, stream, &count));
        if (count > left) count = left;
        if (count > 0) {
            float *to = x ? x + *rows * schema->dim : NULL;
            double *targets = y ? y + *rows * schema->targets : NULL;
            BO_TRY(block          ? bo_stream_next_items(context, stream, count, block, targets, &got)
                   : stream->runs ? bo_stream_next_array(context, stream, count, to, targets, &got)
                                  : bo_stream_next_cells(context, stream, count, *rows, to, targets, &got));
            if (stream->source.labels)
                BO_TRY(got ? next_labels(context, stream, got, targets) : end_labels(context, stream));
        }
        if (got == 0) {
            BO_TRY(report_unseen(context, stream));
            break;
        }
        read += got;
        *rows += x && y && !stream->keep_unlabeled ? drop_unlabeled(stream, *rows, got, x, y) : got;
    }
    for (size_t i = 0; i < *rows && stream->coded; ++i) put_codes(stream, i, x + i * schema->dim);
    stream->next_kept += *rows;
    return BO_OK;
}

bo_status bo_stream_next(bo_context *context, bo_stream *stream, size_t max_rows, float *x, double *y, size_t *rows)
{
    return next_rows(context, stream, max_rows, true, x, NULL, y, rows);
}

bo_status bo_stream_next_few(bo_context *context, bo_stream *stream, size_t max_rows, float *x, double *y, size_t *rows)
{
    return next_rows(context, stream, max_rows, false, x, NULL, y, rows);
}

bo_status bo_stream_append_sparse(bo_context *context, bo_stream *stream, size_t max_rows, bo_sparse_block *block,
                                  double *y, size_t *rows)
{
    if (!bo_stream_is_sparse(stream))
        return bo_fail(context, BO_UNSUPPORTED, "%s: expected libsvm text with numbers only, to read sparse rows",
                       bo_reader_path(stream->source.data));
    return next_rows(context, stream, max_rows, true, NULL, block, y, rows);
}

bo_status bo_stream_next_sparse(bo_context *context, bo_stream *stream, size_t max_rows, bo_sparse *x, double *y)
{
    *x = (bo_sparse){0};
    size_t rows;
    if (!stream->block) BO_TRY(bo_sparse_create(context, stream->schema->dim, &stream->block));
    bo_sparse_clear(stream->block);
    BO_TRY(bo_stream_append_sparse(context, stream, max_rows, stream->block, y, &rows));
    *x = stream->block->rows;
    return BO_OK;
}

bo_status bo_stream_rewind(bo_context *context, bo_stream *stream)
{
    stream->unseen = stream->dated = stream->undated = stream->vanished = stream->unlabeled = 0;
    stream->next_kept = 0;
    BO_TRY(bo_data_input_rewind(context, &stream->source));
    if (!stream->parted || stream->last == 0) return BO_OK;
    size_t skipped;
    return skip_rows(context, stream, stream->first, &skipped);
}

bo_status bo_stream_restrict(bo_context *context, bo_stream *stream, size_t index, size_t parts)
{
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
