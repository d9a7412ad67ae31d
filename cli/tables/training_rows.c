#include "training_rows.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool held_out(const cli_source *source, uint64_t row)
{
    if (!(source->holdout > 0)) return false;
    return (double)(bo_hash(source->seed, row) >> 11) * 0x1p-53 < source->holdout;
}

static bo_data_desc file_desc(const cli_source *source, size_t file)
{
    bo_data_desc desc = source->desc;
    desc.path = source->paths[file];
    return desc;
}

bo_status cli_schema_copy(bo_context *context, const bo_schema *schema, bo_schema **out)
{
    char *json = NULL;
    bo_status status = bo_schema_to_json(context, schema, &json);
    if (status == BO_OK) status = bo_schema_from_json(context, json, out);
    bo_text_free(json);
    return status;
}

static bool read_scales(cli_session *session, bo_reader *reader, const char *path, size_t dim, float *scales,
                        size_t *count)
{
    bo_data_block block = {.rows = 1};
    while (block.rows > 0) {
        bo_status status = bo_reader_next(session->context, reader, 1024, &block);
        if (status != BO_OK) {
            cli_fail_status(session, status);
            return false;
        }
        for (size_t i = 0; i < block.rows * block.columns; i++, ++*count) {
            float value = (float)block.cells[i];
            if (!(value > 0) || !isfinite(value)) {
                cli_fail(session, "--length-scales: %s: expected positive numbers, found %g as number %zu", path,
                         block.cells[i], *count + 1);
                return false;
            }
            if (*count < dim) scales[*count] = value;
        }
    }
    return true;
}

float *cli_length_scales(cli_session *session, const char *path, const char *data, size_t dim)
{
    bo_reader *reader = NULL;
    bo_status status = bo_reader_open(session->context, path, BO_FORMAT_AUTO, 0, &reader);
    if (status != BO_OK) {
        cli_fail_status(session, status);
        return NULL;
    }
    float *scales = cli_allocate(dim, sizeof(float), "length scales");
    size_t count = 0;
    bool ok = read_scales(session, reader, path, dim, scales, &count);
    bo_reader_close(reader);
    if (ok && count != dim)
        cli_fail(session, "--length-scales: %s has %zu numbers, %s has %zu columns", path, count, data, dim);
    if (ok && count == dim) return scales;
    free(scales);
    return NULL;
}

/* ---- in memory ----------------------------------------------------------------------------------------- */

/* Files are read one after the other under the first one's schema. */
static bool load_files(cli_session *session, const cli_source *source, bo_data **parts)
{
    for (size_t i = 0; i < source->files; i++) {
        bo_data_desc desc = file_desc(source, i);
        bo_status status = bo_data_load(session->context, &desc, i ? parts[0]->schema : NULL, &parts[i]);
        if (status != BO_OK) {
            cli_fail_status(session, status);
            return false;
        }
        if (!parts[i]->y) {
            cli_fail(session, "%s has no column %s to learn from", source->paths[i],
                     bo_schema_target(parts[0]->schema, 0));
            return false;
        }
    }
    return true;
}

static void split_rows(const cli_source *source, bo_data *const *parts, cli_table *table)
{
    size_t dim = table->dim, targets = table->targets;
    uint64_t row = 0;
    for (size_t i = 0; i < source->files; i++) {
        for (size_t r = 0; r < parts[i]->rows; r++) {
            bool test = held_out(source, row++);
            size_t at = test ? table->test_rows++ : table->rows++;
            memcpy((test ? table->test_x : table->x) + at * dim, parts[i]->x + r * dim, dim * sizeof(float));
            memcpy((test ? table->test_y : table->y) + at * targets, parts[i]->y + r * targets,
                   targets * sizeof(double));
        }
    }
}

/* Copies the parts into training and test rows of our own. */
static bool copy_parts(cli_session *session, const cli_source *source, bo_data **parts, cli_table *table)
{
    uint64_t all = 0;
    for (size_t i = 0; i < source->files; i++) all += parts[i]->rows;
    size_t test = 0;
    for (uint64_t row = 0; row < all; row++) test += held_out(source, row);
    if (source->holdout > 0 && (test == 0 || test == all)) {
        cli_fail(session, "%s: --holdout %g of its %s row%s leaves none for the %s", source->paths[0], source->holdout,
                 cli_count(all).s, all == 1 ? "" : "s", test ? "training" : "test");
        return false;
    }
    table->x = cli_allocate((size_t)(all - test) * table->dim, sizeof(float), "training rows");
    table->y = cli_allocate((size_t)(all - test) * table->targets, sizeof(double), "training rows");
    table->test_x = cli_allocate(test * table->dim, sizeof(float), "test rows");
    table->test_y = cli_allocate(test * table->targets, sizeof(double), "test rows");
    split_rows(source, parts, table);
    bo_status status = cli_schema_copy(session->context, parts[0]->schema, &table->schema);
    if (status != BO_OK) cli_fail_status(session, status);
    return status == BO_OK;
}

bool cli_table_load(cli_session *session, const cli_source *source, cli_table *table)
{
    *table = (cli_table){0};
    bo_data **parts = cli_allocate(source->files, sizeof(bo_data *), "files");
    bool ok = load_files(session, source, parts);
    if (ok) {
        table->dim = parts[0]->dim;
        table->targets = parts[0]->targets;
        table->classes = parts[0]->classes;
    }
    if (ok && source->files == 1 && !(source->holdout > 0)) {
        table->data = parts[0];
        table->x = parts[0]->x;
        table->y = parts[0]->y;
        table->rows = parts[0]->rows;
        table->schema = parts[0]->schema;
        free(parts);
        return true;
    }
    if (ok) ok = copy_parts(session, source, parts, table);
    for (size_t i = 0; i < source->files; i++) bo_data_destroy(parts[i]);
    free(parts);
    return ok;
}

void cli_table_close(cli_table *table)
{
    if (table->data) {
        bo_data_destroy(table->data);
    } else {
        free(table->x);
        free(table->y);
        bo_schema_destroy(table->schema);
    }
    free(table->test_x);
    free(table->test_y);
    *table = (cli_table){0};
}

/* ---- in blocks ----------------------------------------------------------------------------------------- */

void cli_rows_open(cli_rows *rows, const cli_source *source, const bo_schema *schema, cli_side side, int rank, int size)
{
    *rows = (cli_rows){.source = source, .schema = schema, .side = side, .rank = rank, .size = size};
}

void cli_rows_close(cli_rows *rows)
{
    bo_stream_close(rows->stream);
    rows->stream = NULL;
}

/* With at least as many files as ranks each rank takes whole files, else each takes its part of every file.
 */
static bo_status open_next(bo_context *context, cli_rows *rows)
{
    const cli_source *source = rows->source;
    bool whole = source->files >= (size_t)rows->size;
    while (whole && rows->file < source->files && rows->file % (size_t)rows->size != (size_t)rows->rank) rows->file++;
    if (rows->file >= source->files) return BO_OK;
    bo_data_desc desc = file_desc(source, rows->file++);
    bo_status status = bo_stream_open(context, &desc, rows->schema, &rows->stream);
    if (status == BO_OK && !whole)
        status = bo_stream_part(context, rows->stream, (size_t)rows->rank, (size_t)rows->size);
    return status;
}

/* Moves the rows of the wanted side to the front. */
static size_t keep_side(cli_rows *rows, size_t count, float *x, double *y)
{
    size_t dim = bo_schema_dim(rows->schema), targets = bo_schema_targets(rows->schema), kept = 0;
    for (size_t i = 0; i < count; i++) {
        bool test = held_out(rows->source, rows->next_row++);
        if (test != (rows->side == CLI_TEST_ROWS)) continue;
        if (kept != i) {
            memcpy(x + kept * dim, x + i * dim, dim * sizeof(float));
            memcpy(y + kept * targets, y + i * targets, targets * sizeof(double));
        }
        kept++;
    }
    return kept;
}

bo_status cli_rows_next(bo_context *context, cli_rows *rows, size_t max_rows, float *x, double *y, size_t *count)
{
    *count = 0;
    while (*count == 0) {
        bo_status status = BO_OK;
        if (!rows->stream) {
            status = open_next(context, rows);
            if (status != BO_OK || !rows->stream) return status;
        }
        size_t read = 0;
        status = bo_stream_next(context, rows->stream, max_rows, x, y, &read);
        if (status != BO_OK) return status;
        if (read == 0) cli_rows_close(rows);
        *count = rows->source->holdout > 0 ? keep_side(rows, read, x, y) : read;
    }
    return BO_OK;
}

static bo_status count_file(bo_context *context, const cli_source *source, size_t file, size_t *rows)
{
    bo_reader *reader = NULL;
    bo_status status = bo_reader_open(context, source->paths[file], source->desc.format, 0, &reader);
    if (status == BO_OK && !bo_reader_rows(reader, rows)) {
        bo_data_block block = {.rows = 1};
        *rows = 0;
        while (status == BO_OK && block.rows > 0) {
            status = bo_reader_next(context, reader, 4096, &block);
            if (status == BO_OK) *rows += block.rows;
        }
    }
    bo_reader_close(reader);
    return status;
}

bo_status cli_source_count(bo_context *context, const cli_source *source, const bo_schema *schema, size_t *counts)
{
    counts[0] = bo_schema_rows(schema);
    for (size_t i = 1; i < source->files; i++) {
        bo_status status = count_file(context, source, i, &counts[i]);
        if (status != BO_OK) return status;
    }
    return BO_OK;
}

/* Of each file as many rows as its share of all. */
static bo_status sample_files(bo_context *context, const cli_source *source, const bo_schema *schema,
                              const size_t *counts, size_t want, float *x, double *y, size_t *sampled)
{
    size_t dim = bo_schema_dim(schema), targets = bo_schema_targets(schema);
    double all = 0, before = 0;
    for (size_t i = 0; i < source->files; i++) all += (double)counts[i];
    *sampled = 0;
    for (size_t i = 0; i < source->files; i++) {
        size_t first = (size_t)llround((double)want * before / all);
        before += (double)counts[i];
        size_t share = (size_t)llround((double)want * before / all) - first, found = 0;
        if (share == 0) continue;
        bo_data_desc desc = file_desc(source, i);
        bo_stream *stream = NULL;
        bo_status status = bo_stream_open(context, &desc, schema, &stream);
        if (status == BO_OK)
            status = bo_stream_sample(context, stream, share, source->seed + i, x + *sampled * dim,
                                      y + *sampled * targets, &found);
        bo_stream_close(stream);
        if (status != BO_OK) return status;
        *sampled += found;
    }
    return BO_OK;
}

/* Reservoir sampling over one pass of the training rows: test rows must not choose γ or the scaling. */
static bo_status sample_training(bo_context *context, const cli_source *source, const bo_schema *schema, size_t want,
                                 float *x, double *y, size_t *sampled)
{
    enum { BLOCK = 1024 };
    size_t dim = bo_schema_dim(schema), targets = bo_schema_targets(schema), count = 0;
    float *block_x = cli_allocate(BLOCK * dim, sizeof(float), "a block of rows");
    double *block_y = cli_allocate(BLOCK * targets, sizeof(double), "a block of rows");
    cli_rows rows;
    cli_rows_open(&rows, source, schema, CLI_TRAIN_ROWS, 0, 1);
    bo_status status;
    uint64_t row = 0;
    while ((status = cli_rows_next(context, &rows, BLOCK, block_x, block_y, &count)) == BO_OK && count > 0) {
        for (size_t i = 0; i < count; i++, row++) {
            uint64_t at = row < want ? row : bo_hash(source->seed ^ 0x73616d706c65u, row) % (row + 1);
            if (at >= want) continue;
            memcpy(x + at * dim, block_x + i * dim, dim * sizeof(float));
            memcpy(y + at * targets, block_y + i * targets, targets * sizeof(double));
        }
    }
    cli_rows_close(&rows);
    free(block_x);
    free(block_y);
    *sampled = (size_t)(row < want ? row : want);
    return status;
}

bo_status cli_source_sample(bo_context *context, const cli_source *source, const bo_schema *schema,
                            const size_t *counts, size_t want, float *x, double *y, size_t *sampled)
{
    if (source->holdout > 0) return sample_training(context, source, schema, want, x, y, sampled);
    return sample_files(context, source, schema, counts, want, x, y, sampled);
}
