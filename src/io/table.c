/* Tables: one or several files read as one, in memory or in blocks, with rows split into parts. */
#include <assert.h>
#include <math.h>
#include <string.h>
#include "../base/rng.h"
#include "stream.h"

static size_t file_count(const bo_table_desc *desc)
{
    return desc->paths ? desc->files : 1;
}

static bo_data_desc file_desc(const bo_table_desc *desc, size_t file)
{
    bo_data_desc one = desc->data;
    if (desc->paths) one.path = desc->paths[file];
    return one;
}

static bo_status check(bo_context *context, const bo_table_desc *desc)
{
    BO_TRY(bo_check_reserved(context, "bo_table_desc", desc->reserved));
    if (file_count(desc) == 0)
        return bo_fail(context, BO_INVALID, "bo_table_desc: expected at least one file, found none");
    if (desc->paths && desc->data.bytes)
        return bo_fail(context, BO_INVALID, "bo_table_desc: expected files or memory, found both paths and bytes");
    return bo_split_check(context, &desc->split);
}

static bool has_parts(const bo_table_desc *desc)
{
    return desc->split.valid > 0 || desc->split.test > 0 || desc->split.folds > 0;
}

/* ---- in memory --------------------------------------------------------------------------------------------------- */

/* Every file is read with the schema of the first. */
static bo_status load_files(bo_context *context, const bo_table_desc *desc, bo_data **files)
{
    for (size_t i = 0; i < file_count(desc); i++) {
        bo_data_desc one = file_desc(desc, i);
        if (i) one.sparse = files[0]->sparse != NULL;
        BO_TRY(bo_data_load_split(context, &one, i ? files[0]->schema : NULL, &desc->split, &files[i]));
        if (!files[i]->sparse != !files[0]->sparse)
            return bo_fail(context, BO_FORMAT, "%s: expected libsvm text, as in the first file", bo_data_name(&one));
        if (!files[i]->weights != !files[0]->weights || !files[i]->groups != !files[0]->groups)
            return bo_fail(context, BO_FORMAT, "%s: expected the column of %s, as in the first file, found none",
                           bo_data_name(&one), !files[i]->weights != !files[0]->weights ? "weights" : "groups");
        if (!files[i]->y && files[0]->schema->targets)
            return bo_fail(context, BO_FORMAT, "%s: expected the target column '%s', found none", bo_data_name(&one),
                           bo_schema_target(files[0]->schema, 0));
    }
    return BO_OK;
}

static bo_status make_part(bo_context *context, const bo_data *like, size_t rows, bo_data **out)
{
    bo_data *data = *out = bo_alloc(context, 1, sizeof *data, "a table");
    if (!data) return BO_MEMORY;
    *data = (bo_data){.dim = like->dim, .targets = like->targets, .classes = like->classes};
    data->schema = bo_schema_retain(like->schema);
    if (like->y) data->y = bo_alloc_raw(context, rows * like->targets, sizeof *data->y, "the targets of a part");
    if (like->y && !data->y) return BO_MEMORY;
    if (like->weights && !(data->weights = bo_alloc_raw(context, rows, sizeof *data->weights, "the weights of a part")))
        return BO_MEMORY;
    if (like->groups && !(data->groups = bo_alloc_raw(context, rows, sizeof *data->groups, "the groups of a part")))
        return BO_MEMORY;
    if (like->sparse) {
        bo_sparse_block *block;
        BO_TRY(bo_sparse_create(context, like->dim, &block));
        data->sparse = &block->rows;
        return BO_OK;
    }
    if (like->dim && rows > SIZE_MAX / sizeof(double) / like->dim)
        return bo_fail(context, BO_MEMORY, "out of memory: %zu rows x %zu columns", rows, like->dim);
    data->x = bo_alloc_raw(context, rows * like->dim, sizeof *data->x, "the rows of a part");
    return data->x ? BO_OK : BO_MEMORY;
}

static bo_status copy_inputs(bo_context *context, const bo_data *from, size_t row, bo_data *to)
{
    if (!from->sparse) {
        memcpy(to->x + to->rows * from->dim, from->x + row * from->dim, from->dim * sizeof *to->x);
        return BO_OK;
    }
    return bo_sparse_append(context, (bo_sparse_block *)to->sparse, from->sparse, row);
}

/* The part of row `r` of a file, which is row `row` of all files. */
static bo_split split_of(const bo_table_desc *desc, const bo_data *file, size_t r, uint64_t row)
{
    return bo_split_row(&desc->split, file->groups ? file->groups[r] : row);
}

/* Copies the rows of the files, in order, to their parts. */
static bo_status deal_rows(bo_context *context, const bo_table_desc *desc, bo_data *const *files, bo_data *const *parts)
{
    const size_t targets = files[0]->y ? files[0]->targets : 0;
    uint64_t row = 0;
    for (size_t i = 0; i < file_count(desc); i++)
        for (size_t r = 0; r < files[i]->rows; r++) {
            bo_data *part = parts[split_of(desc, files[i], r, row++)];
            BO_TRY(copy_inputs(context, files[i], r, part));
            if (part->weights) part->weights[part->rows] = files[i]->weights[r];
            if (part->groups) part->groups[part->rows] = files[i]->groups[r];
            if (targets) memcpy(part->y + part->rows * targets, files[i]->y + r * targets, targets * sizeof *part->y);
            part->rows++;
        }
    return BO_OK;
}

/* Checks that every requested part has rows. */
static bo_status check_counts(bo_context *context, const bo_table_desc *desc, const size_t *counts)
{
    static const char *const purposes[BO_SPLIT_COUNT] = {"training", "validation", "testing"};
    const bo_split_desc *split = &desc->split;
    const double test = split->folds ? 1 / (double)split->folds : split->test;
    const double shares[BO_SPLIT_COUNT] = {1, split->valid, test};
    const size_t all = counts[BO_SPLIT_TRAIN] + counts[BO_SPLIT_VALID] + counts[BO_SPLIT_TEST];
    for (int p = 0; p < BO_SPLIT_COUNT; p++)
        if (shares[p] > 0 && counts[p] == 0)
            return bo_fail(context, BO_INVALID,
                           "%s: holding out a fraction of %g of %zu row%s leaves no rows for %s; use more rows or "
                           "another fraction",
                           desc->paths ? desc->paths[0] : bo_data_name(&desc->data), split->valid + test, all,
                           all == 1 ? "" : "s", purposes[p]);
    return BO_OK;
}

static bo_status split_files(bo_context *context, const bo_table_desc *desc, bo_data *const *files, bo_data **parts)
{
    size_t counts[BO_SPLIT_COUNT] = {0};
    uint64_t row = 0;
    for (size_t i = 0; i < file_count(desc); i++)
        for (size_t r = 0; r < files[i]->rows; r++) counts[split_of(desc, files[i], r, row++)]++;
    BO_TRY(check_counts(context, desc, counts));
    for (int p = 0; p < BO_SPLIT_COUNT; p++)
        if (counts[p]) BO_TRY(make_part(context, files[0], counts[p], &parts[p]));
    BO_TRY(deal_rows(context, desc, files, parts));
    for (int p = 0; p < BO_SPLIT_COUNT; p++) assert(!parts[p] || parts[p]->rows == counts[p]);
    return BO_OK;
}

static bo_status load_parts(bo_context *context, const bo_table_desc *desc, bo_data **parts)
{
    BO_TRY(check(context, desc));
    bo_data **files = bo_alloc(context, file_count(desc), sizeof *files, "the files of a table");
    if (!files) return BO_MEMORY;
    bo_status status = load_files(context, desc, files);
    if (status == BO_OK && file_count(desc) == 1 && !has_parts(desc)) {
        parts[BO_SPLIT_TRAIN] = files[0]; /* unchanged */
        files[0] = NULL;
    } else if (status == BO_OK) {
        status = split_files(context, desc, files, parts);
    }
    for (size_t i = 0; i < file_count(desc); i++) bo_data_destroy(files[i]);
    bo_free(files);
    return status;
}

bo_status bo_table_load(bo_context *context, const bo_table_desc *desc, bo_data **train, bo_data **valid,
                        bo_data **test)
{
    if (train) *train = NULL;
    if (valid) *valid = NULL;
    if (test) *test = NULL;
    BO_REQUIRE(context, desc, train);
    BO_REQUIRE_IF(context, !(desc->split.valid <= 0), valid);
    BO_REQUIRE_IF(context, !(desc->split.test <= 0) || desc->split.folds > 0, test);
    bo_data *parts[BO_SPLIT_COUNT] = {NULL};
    bo_data **const out[BO_SPLIT_COUNT] = {train, valid, test};
    bo_status status = load_parts(context, desc, parts);
    for (int p = 0; p < BO_SPLIT_COUNT; p++) {
        if (status == BO_OK && out[p])
            *out[p] = parts[p];
        else
            bo_data_destroy(parts[p]);
    }
    return status;
}

/* ---- in blocks --------------------------------------------------------------------------------------------------- */

/* Invariant: desc.rank < ranks; `stream` is open in file `next_file` - 1. */
struct bo_table {
    bo_table_desc desc; /* pointers are borrowed */
    bo_schema *schema;
    bo_split split;
    size_t ranks; /* of a parallel job; the rank is that of the descriptor */
    bo_table_info info;
    size_t next_file;
    bo_stream *stream;      /* NULL: open the next file */
    uint64_t next_row;      /* index of the next row over all files, for the split */
    bo_sparse_block *block; /* rows of the requested part among those of the stream; NULL: none yet */
};

void bo_table_close(bo_table *table)
{
    if (!table) return;
    bo_stream_close(table->stream);
    bo_schema_destroy(table->schema);
    if (table->block) bo_sparse_destroy(&table->block->rows);
    bo_free(table);
}

/* A part of grouped or weighted rows needs these columns in every file. */
static bo_status check_roles(bo_context *context, const bo_table *table, const bo_data_desc *file)
{
    for (size_t i = 0; i < table->schema->column_count; i++) {
        const bo_column_kind kind = table->schema->columns[i].kind;
        if ((kind == BO_COLUMN_WEIGHT && table->stream->weight_column == SIZE_MAX) ||
            (kind == BO_COLUMN_GROUP && table->stream->group_column == SIZE_MAX))
            return bo_fail(context, BO_FORMAT, "%s: expected the column of %s, as in the first file, found none",
                           bo_data_name(file), kind == BO_COLUMN_WEIGHT ? "weights" : "groups");
    }
    return BO_OK;
}

/* With at least as many files as ranks, each rank reads whole files; otherwise each rank reads its part of every
 * file. */
static bo_status open_next(bo_context *context, bo_table *table)
{
    const size_t files = file_count(&table->desc);
    const bool whole = files >= table->ranks;
    assert(!table->stream && table->desc.rank < table->ranks);
    while (whole && table->next_file < files && table->next_file % table->ranks != table->desc.rank) table->next_file++;
    if (table->next_file >= files) return BO_OK;
    const bo_data_desc one = file_desc(&table->desc, table->next_file++);
    BO_TRY(bo_stream_open(context, &one, table->schema, &table->stream));
    if (!table->desc.other_rows) BO_TRY(check_roles(context, table, &one));
    table->info.has_target = bo_stream_has_target(table->stream);
    table->info.sparse = bo_stream_is_sparse(table->stream);
    if (table->next_file == 1 && !table->desc.other_rows) bo_stream_train(table->stream, &table->desc.split);
    return whole ? BO_OK : bo_stream_restrict(context, table->stream, table->desc.rank, table->ranks);
}

bo_status bo_table_open(bo_context *context, const bo_table_desc *desc, const bo_schema *schema, bo_split split,
                        bo_table **out)
{
    if (out) *out = NULL;
    BO_REQUIRE(context, desc, schema, out);
    BO_TRY(check(context, desc));
    BO_TRY(bo_check_reserved(context, "bo_data_desc", desc->data.reserved));
    const size_t ranks = desc->ranks ? desc->ranks : 1;
    if ((unsigned)split > BO_SPLIT_ALL)
        return bo_fail(context, BO_INVALID, "bo_table_open: expected a value of bo_split, found %d", (int)split);
    if (desc->rank >= ranks)
        return bo_fail(context, BO_INVALID,
                       "bo_table_open: expected a rank below the number of ranks, found rank %zu of %zu", desc->rank,
                       ranks);
    if (has_parts(desc) && ranks > 1)
        return bo_fail(
            context, BO_UNSUPPORTED,
            "rows cannot be held out with several ranks, which do not know the row numbers; put the test rows into a "
            "separate file");
    bo_table *table = bo_alloc(context, 1, sizeof *table, "a table");
    if (!table) return BO_MEMORY;
    *table = (bo_table){.desc = *desc, .split = split, .ranks = ranks};
    table->schema = bo_schema_retain(schema);
    const bo_status status = open_next(context, table);
    if (status == BO_OK)
        *out = table;
    else
        bo_table_close(table);
    return status;
}

const bo_table_info *bo_table_describe(const bo_table *table)
{
    return table ? &table->info : NULL;
}

/* Moves the rows of the requested part to the front. */
static size_t keep_selected(bo_table *table, size_t count, float *x, double *y)
{
    const size_t dim = table->schema->dim, targets = table->schema->targets;
    const uint64_t *groups = bo_stream_groups(table->stream);
    bo_row_notes *notes = &table->stream->notes;
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        const uint64_t row = table->next_row++;
        const bo_split split = bo_split_row(&table->desc.split, groups ? groups[i] : row);
        if (split != table->split) continue;
        if (bo_stream_weights(table->stream)) notes->weight[kept] = notes->weight[i];
        if (kept != i) {
            memcpy(x + kept * dim, x + i * dim, dim * sizeof *x);
            if (y) memcpy(y + kept * targets, y + i * targets, targets * sizeof *y);
        }
        kept++;
    }
    return kept;
}

/* Copies the rows of the requested part to the block of the table. */
static bo_status keep_selected_sparse(bo_context *context, bo_table *table, bo_sparse *x, double *y)
{
    const size_t targets = table->schema->targets;
    if (!table->block) BO_TRY(bo_sparse_create(context, x->dim, &table->block));
    bo_sparse_clear(table->block);
    for (size_t i = 0; i < x->rows; i++) {
        const bo_split split = bo_split_row(&table->desc.split, table->next_row++);
        if (split != table->split) continue;
        if (y) memmove(y + table->block->rows.rows * targets, y + i * targets, targets * sizeof *y);
        BO_TRY(bo_sparse_append(context, table->block, x, i));
    }
    *x = table->block->rows;
    return BO_OK;
}

/* True if some rows of the table belong to other parts. */
static bool chooses(const bo_table *table)
{
    return table->split != BO_SPLIT_ALL && (has_parts(&table->desc) || table->split != BO_SPLIT_TRAIN);
}

/* The next rows of the open file, before the rows of other parts are removed. */
static bo_status read_rows(bo_context *context, bo_table *table, size_t max_rows, bo_table_rows *rows, size_t *count)
{
    if (rows->x) return bo_stream_next(context, table->stream, max_rows, rows->x, rows->y, count);
    const bo_status status = bo_stream_next_sparse(context, table->stream, max_rows, &rows->sparse, rows->y);
    *count = rows->sparse.rows;
    return status;
}

bo_status bo_table_next(bo_context *context, bo_table *table, size_t max_rows, bo_table_rows *rows)
{
    BO_REQUIRE(context, table, rows);
    BO_TRY(bo_check_reserved(context, "bo_table_rows", rows->reserved));
    rows->rows = 0;
    rows->weights = NULL;
    rows->sparse = (bo_sparse){0};
    while (rows->rows == 0) {
        if (!table->stream) BO_TRY(open_next(context, table));
        if (!table->stream) return BO_OK;
        size_t count = 0;
        BO_TRY(read_rows(context, table, max_rows, rows, &count));
        if (count == 0) {
            bo_stream_close(table->stream);
            table->stream = NULL;
            continue;
        }
        if (chooses(table) && rows->x) count = keep_selected(table, count, rows->x, rows->y);
        if (chooses(table) && !rows->x) BO_TRY(keep_selected_sparse(context, table, &rows->sparse, rows->y));
        rows->rows = rows->x ? count : rows->sparse.rows;
        rows->weights = bo_stream_weights(table->stream);
    }
    return BO_OK;
}

enum { COUNT_BLOCK = 256 };

/* ---- counts and samples ------------------------------------------------------------------------------------------ */

/* Counts the rows that a stream returns: those with a target. */
static bo_status count_rows(bo_context *context, bo_stream *stream, float *x, double *y, size_t *rows)
{
    *rows = 0;
    for (size_t count = 1; count > 0; *rows += count)
        BO_TRY(bo_stream_next(context, stream, COUNT_BLOCK, x, bo_stream_has_target(stream) ? y : NULL, &count));
    return BO_OK;
}

static bo_status count_file(bo_context *context, const bo_data_desc *file, const bo_schema *schema, size_t *rows)
{
    bo_stream *stream;
    BO_TRY(bo_stream_open(context, file, schema, &stream));
    stream->silent = true;
    bo_status status = BO_OK;
    if (!stream->runs || schema->impute != BO_IMPUTE_NONE || !bo_reader_rows(stream->source.data, rows)) {
        float *x = bo_alloc_raw(context, COUNT_BLOCK * schema->dim, sizeof *x, "a block of rows");
        double *y = bo_alloc_raw(context, COUNT_BLOCK * schema->targets, sizeof *y, "a block of rows");
        status = x && y ? count_rows(context, stream, x, y, rows) : BO_MEMORY;
        bo_free(x);
        bo_free(y);
    }
    bo_stream_close(stream);
    return status;
}

bo_status bo_table_count(bo_context *context, const bo_table_desc *desc, const bo_schema *schema, size_t *counts)
{
    BO_REQUIRE(context, desc, schema, counts);
    BO_TRY(check(context, desc));
    counts[0] = schema->rows;
    for (size_t i = 1; i < file_count(desc); i++) {
        const bo_data_desc one = file_desc(desc, i);
        BO_TRY(count_file(context, &one, schema, &counts[i]));
    }
    return BO_OK;
}

/* Samples from each file in proportion to its number of rows. */
static bo_status sample_files(bo_context *context, const bo_table_desc *desc, const bo_schema *schema,
                              const size_t *counts, size_t count, float *x, double *y, float *weights, size_t *sampled)
{
    const size_t one_file = 1;
    double all = 0, before = 0;
    if (!counts) counts = &one_file;
    for (size_t i = 0; i < file_count(desc); i++) all += (double)counts[i];
    for (size_t i = 0; i < file_count(desc); i++) {
        const size_t first = (size_t)llround((double)count * before / all);
        before += (double)counts[i];
        const size_t share = (size_t)llround((double)count * before / all) - first;
        size_t found = 0;
        if (share == 0) continue;
        const bo_data_desc one = file_desc(desc, i);
        bo_stream *stream = NULL;
        bo_status status = bo_stream_open(context, &one, schema, &stream);
        if (status == BO_OK && i == 0 && !desc->other_rows) bo_stream_train(stream, NULL);
        if (status == BO_OK)
            status = bo_stream_sample(context, stream, share, desc->split.seed + i, x + *sampled * schema->dim,
                                      y ? y + *sampled * schema->targets : NULL, weights ? weights + *sampled : NULL,
                                      &found);
        bo_stream_close(stream);
        if (status != BO_OK) return status;
        *sampled += found;
    }
    return BO_OK;
}

enum { SAMPLE_BLOCK = 1024 };

/* The place of a row in a sample of `count` rows, by reservoir sampling; `count` or more: the row is not in the
 * sample. */
static uint64_t place_in_sample(const bo_table_desc *desc, uint64_t row, size_t count)
{
    const uint64_t seed = desc->split.seed ^ 0x73616d706c65u;
    return row < count ? row : bo_hash(seed, row) % (row + 1);
}

/* One pass over the training rows: held-out rows must not influence γ or the scaling. */
static bo_status sample_pass(bo_context *context, bo_table *table, size_t count, float *block_x, double *block_y,
                             float *x, double *y, float *weights, size_t *sampled)
{
    const size_t dim = table->schema->dim, targets = table->schema->targets;
    uint64_t row = 0;
    for (bo_table_rows block = {.x = block_x, .y = y ? block_y : NULL, .rows = 1}; block.rows > 0;) {
        BO_TRY(bo_table_next(context, table, SAMPLE_BLOCK, &block));
        for (size_t i = 0; i < block.rows; i++, row++) {
            const uint64_t at = place_in_sample(&table->desc, row, count);
            if (at >= count) continue;
            memcpy(x + at * dim, block_x + i * dim, dim * sizeof *x);
            if (y) memcpy(y + at * targets, block_y + i * targets, targets * sizeof *y);
            if (weights) weights[at] = block.weights[i];
        }
    }
    *sampled = (size_t)(row < count ? row : count);
    return BO_OK;
}

/* All training rows, also in a parallel job. */
static bo_status open_alone(bo_context *context, const bo_table_desc *desc, const bo_schema *schema, bo_table **out)
{
    bo_table_desc alone = *desc;
    alone.rank = alone.ranks = 0;
    return bo_table_open(context, &alone, schema, BO_SPLIT_TRAIN, out);
}

static bo_status sample_training(bo_context *context, const bo_table_desc *desc, const bo_schema *schema, size_t count,
                                 float *x, double *y, float *weights, size_t *sampled)
{
    bo_table *table;
    BO_TRY(open_alone(context, desc, schema, &table));
    float *block_x = bo_alloc_raw(context, SAMPLE_BLOCK * schema->dim, sizeof *block_x, "a block of rows");
    double *block_y = bo_alloc_raw(context, SAMPLE_BLOCK * schema->targets, sizeof *block_y, "a block of rows");
    const bo_status status =
        block_x && block_y ? sample_pass(context, table, count, block_x, block_y, x, y, weights, sampled) : BO_MEMORY;
    bo_table_close(table);
    bo_free(block_x);
    bo_free(block_y);
    return status;
}

static bool has_weights(const bo_schema *schema)
{
    for (size_t i = 0; i < schema->column_count; i++)
        if (schema->columns[i].kind == BO_COLUMN_WEIGHT) return true;
    return false;
}

bo_status bo_table_sample(bo_context *context, const bo_table_desc *desc, const bo_schema *schema, const size_t *counts,
                          size_t count, float *x, double *y, float *weights, size_t *sampled)
{
    BO_REQUIRE(context, desc, schema, sampled);
    BO_REQUIRE_IF(context, count > 0, x);
    BO_REQUIRE_IF(context, file_count(desc) > 1, counts);
    *sampled = 0;
    BO_TRY(check(context, desc));
    if (weights && !has_weights(schema))
        return bo_fail(context, BO_INVALID, "bo_table_sample: expected a schema with weights, found none");
    if (has_parts(desc)) return sample_training(context, desc, schema, count, x, y, weights, sampled);
    return sample_files(context, desc, schema, counts, count, x, y, weights, sampled);
}

/* The reservoir of a sample: the drawn rows; slot[k] is the row of element k of the sample. It grows with the number of
 * rows read, which is not known in advance; `count` may be much larger. */
typedef struct reservoir {
    size_t count, seen, capacity;
    size_t *slot;
    bo_sparse_block *drawn;
    double *block_y, *y; /* targets of a block of rows, and of the sample */
} reservoir;

static bo_status grow_reservoir(bo_context *context, size_t targets, reservoir *r)
{
    const size_t doubled = r->capacity ? 2 * r->capacity : SAMPLE_BLOCK,
                 capacity = doubled < r->count ? doubled : r->count;
    size_t *slot = bo_realloc(context, r->slot, capacity, sizeof *slot, "a sample of rows");
    if (!slot) return BO_MEMORY;
    r->slot = slot;
    double *y = bo_realloc(context, r->y, capacity * targets, sizeof *y, "a sample of rows");
    if (!y) return BO_MEMORY;
    r->y = y;
    r->capacity = capacity;
    return BO_OK;
}

static bo_status fill_reservoir(bo_context *context, bo_table *table, reservoir *r)
{
    const size_t targets = table->schema->targets;
    for (bo_table_rows block = {.y = r->block_y, .rows = 1}; block.rows > 0;) {
        BO_TRY(bo_table_next(context, table, SAMPLE_BLOCK, &block));
        for (size_t i = 0; i < block.rows; i++, r->seen++) {
            const size_t at = (size_t)place_in_sample(&table->desc, r->seen, r->count);
            if (at >= r->count) continue;
            if (at == r->capacity)
                BO_TRY(grow_reservoir(context, targets, r)); /* the places of the first rows are in order */
            r->slot[at] = r->drawn->rows.rows;
            BO_TRY(bo_sparse_append(context, r->drawn, &block.sparse, i));
            memcpy(r->y + at * targets, r->block_y + i * targets, targets * sizeof *r->y);
        }
    }
    return BO_OK;
}

static bo_status sample_sparse(bo_context *context, bo_table *table, size_t count, reservoir *r, bo_data *data)
{
    const bo_schema *schema = table->schema;
    bo_sparse_block *chosen;
    r->count = count;
    r->block_y = bo_alloc(context, SAMPLE_BLOCK * schema->targets, sizeof *r->block_y, "a block of rows");
    if (!r->block_y) return BO_MEMORY;
    BO_TRY(grow_reservoir(context, schema->targets, r));
    BO_TRY(bo_sparse_create(context, schema->dim, &r->drawn));
    BO_TRY(fill_reservoir(context, table, r));
    *data = (bo_data){.rows = r->seen < count ? r->seen : count,
                      .dim = schema->dim,
                      .targets = schema->targets,
                      .classes = bo_schema_classes(schema),
                      .schema = bo_schema_retain(schema)};
    BO_TRY(bo_sparse_gather(context, &r->drawn->rows, r->slot, data->rows, &chosen));
    data->sparse = &chosen->rows;
    data->y = r->y;
    r->y = NULL;
    return BO_OK;
}

bo_status bo_table_sample_sparse(bo_context *context, const bo_table_desc *desc, const bo_schema *schema, size_t count,
                                 bo_data **out)
{
    if (out) *out = NULL;
    BO_REQUIRE(context, desc, schema, out);
    bo_table *table = NULL;
    reservoir r = {0};
    bo_data *data = bo_alloc(context, 1, sizeof *data, "a table");
    bo_status status = data ? open_alone(context, desc, schema, &table) : BO_MEMORY;
    if (status == BO_OK) status = sample_sparse(context, table, count, &r, data);
    bo_table_close(table);
    bo_free(r.slot);
    bo_free(r.block_y);
    bo_free(r.y);
    if (r.drawn) bo_sparse_destroy(&r.drawn->rows);
    if (status == BO_OK)
        *out = data;
    else
        bo_data_destroy(data);
    return status;
}
