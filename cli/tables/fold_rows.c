#include "../common/columns.h"
#include "fold_rows.h"
#include "../common/output.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool failed(cli_session *session, bo_status status)
{
    if (status != BO_OK) cli_fail_status(session, status);
    return status != BO_OK;
}

/* ---- rows of a table in memory ----------------------------------------------------------------------------------- */

static void copy_dense(const bo_samples *from, const size_t *rows, size_t count, cli_rows *out)
{
    out->x = cli_allocate(count * from->dim, sizeof(float), "the rows of a fold");
    for (size_t i = 0; i < count; i++)
        memcpy(out->x + i * from->dim, from->x + rows[i] * from->dim, from->dim * sizeof(float));
    out->samples.x = out->x;
}

static void copy_sparse(const bo_sparse *from, const size_t *rows, size_t count, cli_rows *out)
{
    size_t *start = cli_allocate(count + 1, sizeof *start, "the rows of a fold");
    for (size_t i = 0; i < count; i++) start[i + 1] = start[i] + from->start[rows[i] + 1] - from->start[rows[i]];
    uint32_t *column = cli_allocate(start[count] + 1, sizeof *column, "the rows of a fold");
    float *value = cli_allocate(start[count] + 1, sizeof *value, "the rows of a fold");
    for (size_t i = 0; i < count; i++) {
        const size_t at = from->start[rows[i]], length = start[i + 1] - start[i];
        memcpy(column + start[i], from->column + at, length * sizeof *column);
        memcpy(value + start[i], from->value + at, length * sizeof *value);
    }
    out->sparse = (bo_sparse){count, from->dim, start, column, value};
    out->samples.sparse = &out->sparse;
}

static void gather(const bo_samples *from, const size_t *rows, size_t count, cli_rows *out)
{
    *out = (cli_rows){.samples = *from};
    out->samples.rows = count;
    if (from->sparse)
        copy_sparse(from->sparse, rows, count, out);
    else
        copy_dense(from, rows, count, out);
    out->y = cli_allocate(count * from->targets, sizeof(double), "the rows of a fold");
    for (size_t i = 0; i < count; i++)
        memcpy(out->y + i * from->targets, from->y + rows[i] * from->targets, from->targets * sizeof(double));
    out->samples.y = out->y;
    if (!from->weights) return;
    out->weights = cli_allocate(count, sizeof(float), "the rows of a fold");
    for (size_t i = 0; i < count; i++) out->weights[i] = from->weights[rows[i]];
    out->samples.weights = out->weights;
}

void cli_rows_select(const bo_samples *from, const size_t *parts, size_t below, cli_rows *out)
{
    size_t *rows = cli_allocate(from->rows, sizeof *rows, "row numbers"), count = 0;
    for (size_t i = 0; i < from->rows; i++)
        if (parts[i] < below) rows[count++] = i;
    gather(from, rows, count, out);
    free(rows);
}

void cli_rows_free(cli_rows *rows)
{
    bo_data_destroy(rows->data);
    free(rows->x);
    free(rows->y);
    free(rows->weights);
    free((void *)rows->sparse.start);
    free((void *)rows->sparse.column);
    free((void *)rows->sparse.value);
    *rows = (cli_rows){0};
}

/* ---- rows as text ------------------------------------------------------------------------------------------------ */

/* True if the column is a target of the schema. Without names in the file it is called "column 3". */
static bool is_target(const bo_schema *schema, const bo_reader *reader, size_t column)
{
    char numbered[40];
    const char *name = bo_reader_column(reader, column);
    snprintf(numbered, sizeof numbered, "column %zu", column);
    for (size_t t = 0; t < bo_schema_describe(schema)->targets; t++)
        if (strcmp(cli_target_name(schema, t), name ? name : numbered) == 0) return true;
    return false;
}

typedef struct copying {
    cli_fold_table *table;
    FILE *out;
    size_t columns, rows;
    bool *target; /* of each column */
    bool plain;   /* all inputs are numbers without missing values */
} copying;

/* True for a missing target: its text, if any, is not a class label. */
static bool is_missing(const bo_schema *schema, const bo_data_block *block, size_t at)
{
    const char *text = block->text ? block->text[at] : NULL;
    bo_text_meaning meaning = {.missing = true};
    if (!isnan(block->cells[at])) return false;
    if (text) bo_text_interpret(text, &meaning);
    for (size_t i = 0; text && meaning.missing && i < bo_schema_describe(schema)->classes; i++)
        if (strcmp(cli_class_name(schema, i), text) == 0) return false;
    return meaning.missing;
}

static void copy_cell(copying *c, const bo_data_block *block, size_t at, bool target)
{
    const char *text = block->text ? block->text[at] : NULL;
    if (text)
        cli_csv_field(c->out, text);
    else if (!isnan(block->cells[at]))
        fputs(cli_exact(block->cells[at]).s, c->out);
    if (!target && (text || isnan(block->cells[at]))) c->plain = false;
}

/* Rows without a target are excluded from the table. */
static void copy_row(copying *c, const bo_data_block *block, size_t row)
{
    for (size_t i = 0; i < c->columns; i++)
        if (c->target[i] && is_missing(c->table->data->schema, block, row * c->columns + i)) return;
    for (size_t i = 0; i < c->columns; i++) {
        if (i) fputc(',', c->out);
        copy_cell(c, block, row * c->columns + i, c->target[i]);
    }
    fputc('\n', c->out);
    if (++c->rows <= c->table->data->rows) c->table->start[c->rows] = (size_t)ftell(c->out);
}

static void copy_header(copying *c, const bo_reader *reader)
{
    for (size_t i = 0; i < c->columns && bo_reader_column(reader, 0); i++) {
        if (i) fputc(',', c->out);
        cli_csv_field(c->out, bo_reader_column(reader, i));
    }
    if (bo_reader_column(reader, 0)) fputc('\n', c->out);
    c->table->start[0] = (size_t)ftell(c->out);
}

/* Copies a file; false if its columns differ from the first file, or if reading fails. */
static bool copy_file(copying *c, const bo_reader *first, bo_reader *reader)
{
    bo_context *context = c->table->session->context;
    const bo_format format = bo_reader_describe(reader)->format;
    if (format != BO_FORMAT_CSV && format != BO_FORMAT_SPACED) return false;
    if (reader == first) {
        c->columns = bo_reader_describe(reader)->columns;
        c->target = cli_allocate(c->columns, sizeof(bool), "columns");
        for (size_t i = 0; i < c->columns; i++) c->target[i] = is_target(c->table->data->schema, reader, i);
        copy_header(c, reader);
    }
    if (bo_reader_describe(reader)->columns != c->columns) return false;
    for (size_t i = 0; i < c->columns; i++) {
        const char *name = bo_reader_column(reader, i), *other = bo_reader_column(first, i);
        if (!name != !other || (name && strcmp(name, other) != 0)) return false;
    }
    for (;;) {
        bo_data_block block;
        if (bo_reader_next(context, reader, (size_t)-1, &block) != BO_OK) return false;
        if (block.rows == 0) return true;
        for (size_t i = 0; i < block.rows; i++) copy_row(c, &block, i);
    }
}

static bool copy_files(copying *c, const cli_fit_job *job)
{
    bo_context *context = c->table->session->context;
    bo_reader *first = NULL;
    bool same = true;
    for (size_t i = 0; i < job->source.files && same; i++) {
        bo_reader *reader = NULL;
        same = bo_reader_open(context, &(bo_source){.path = job->source.paths[i]}, job->options->format, 0, &reader) ==
               BO_OK;
        same = same && copy_file(c, first ? first : reader, reader);
        if (i == 0)
            first = reader;
        else
            bo_reader_close(reader);
    }
    bo_reader_close(first);
    return same;
}

/* True if the inputs of some column depend on the rows. */
static bool is_learned(const bo_schema *schema)
{
    bo_schema_column_info column;
    for (size_t i = 0; bo_schema_column(schema, i, &column); i++)
        if (column.missing || column.use == BO_USE_ONE_HOT || column.use == BO_USE_ENCODED) return true;
    return false;
}

/* The indices of the columns omitted from the table, which are omitted in every fold: row numbers, for example, are
 * consecutive only in the whole table. */
static char *left_out(const bo_schema *schema)
{
    bo_schema_column_info column;
    const size_t size = 24 * bo_schema_describe(schema)->columns + 1;
    char *list = cli_allocate(size, 1, "a list of columns");
    size_t used = 0;
    for (size_t i = 0; bo_schema_column(schema, i, &column); i++)
        if (column.use == BO_USE_NOTHING)
            used += (size_t)snprintf(list + used, size - used, "%s%zu", used ? "," : "", i);
    return list;
}

/* Keeps the rows as text if the encoding of a column depends on the rows. If that is not possible (binary formats,
 * labels in a separate file, length scales for the columns of the whole table), all folds use the encodings of the
 * table. */
static void keep_text(cli_fold_table *table, const cli_fit_job *job)
{
    size_t size = 0;
    copying c = {.table = table, .plain = !job->options->categorical};
    const bool learned = is_learned(table->data->schema);
    if (table->data->sparse || job->options->labels || job->options->length_scales) {
        table->shared = learned;
        return;
    }
    table->start = cli_allocate(table->data->rows + 1, sizeof *table->start, "the rows of the folds");
    c.out = open_memstream(&table->text, &size);
    bool usable = c.out && copy_files(&c, job);
    const bool written = c.out && !ferror(c.out);
    if (c.out) fclose(c.out);
    free(c.target);
    usable = usable && written && c.rows == table->data->rows;
    if (usable && !c.plain) return;
    table->shared = !usable && learned;
    free(table->text);
    free(table->start);
    table->text = NULL;
    table->start = NULL;
}

/* The rows in or outside a fold as CSV; freed with free. */
static char *text_of(const cli_fold_table *table, size_t fold, bool test, size_t *size, size_t *rows)
{
    char *text = cli_allocate(table->start[table->data->rows] + 1, 1, "the rows of a fold");
    memcpy(text, table->text, table->start[0]);
    *size = table->start[0];
    *rows = 0;
    for (size_t i = 0; i < table->data->rows; i++) {
        if ((table->fold[i] == fold) != test) continue;
        const size_t length = table->start[i + 1] - table->start[i];
        memcpy(text + *size, table->text + table->start[i], length);
        *size += length;
        ++*rows;
    }
    return text;
}

/* Reads the rows in or outside a fold, with the schema of the training rows if it is not NULL. *same is false if the
 * rows differ, because a row was parsed as a header. */
static bool read_text(cli_fold_table *table, size_t fold, const bo_schema *schema, cli_rows *out, bool *same)
{
    bo_data_desc desc = table->desc;
    size_t rows;
    char *text = text_of(table, fold, schema != NULL, &desc.size, &rows);
    desc.bytes = text;
    desc.drop = table->drop;
    desc.format = BO_FORMAT_CSV;
    desc.task = table->data->classes ? BO_TASK_CLASSIFICATION : BO_TASK_REGRESSION;
    desc.sparse = false;
    const bo_status status = bo_data_load(table->session->context, &desc, schema, &out->data);
    free(text);
    if (failed(table->session, status)) return false;
    bo_data_get_samples(out->data, &out->samples);
    *same = out->data->rows == rows && out->data->y && out->data->classes == table->data->classes;
    return true;
}

/* ---- folds ------------------------------------------------------------------------------------------------------- */

static void gather_fold(const cli_fold_table *table, size_t fold, cli_rows *train, cli_rows *test)
{
    bo_samples all;
    bo_data_get_samples(table->data, &all);
    size_t *outside = cli_allocate(all.rows, sizeof *outside, "row numbers");
    for (size_t i = 0; i < all.rows; i++) outside[i] = table->fold[i] != fold;
    cli_rows_select(&all, outside, 1, test);
    for (size_t i = 0; i < all.rows; i++) outside[i] = table->fold[i] == fold;
    cli_rows_select(&all, outside, 1, train);
    free(outside);
}

bool cli_fold_rows(cli_fold_table *table, size_t fold, cli_rows *train, cli_rows *test)
{
    bool same = true;
    *train = *test = (cli_rows){0};
    if (table->text) {
        const bool read = read_text(table, fold, NULL, train, &same) &&
                          (!same || read_text(table, fold, train->data->schema, test, &same));
        if (read && same) return true;
        cli_rows_free(train);
        cli_rows_free(test);
        if (!read) return false;
        table->shared = true;
    }
    gather_fold(table, fold, train, test);
    return true;
}

/* A class with all rows in one fold is unknown to the model that is tested on that fold. */
static bool spread_classes(cli_fold_table *table, const uint64_t *groups)
{
    const bo_data *data = table->data;
    size_t *seen = cli_allocate(data->classes, sizeof *seen, "classes"), alone = 0; /* fold + 1 */
    const size_t several = (size_t)-1;
    cli_short_text number;
    const char *label = NULL;
    for (size_t i = 0; i < data->rows; i++) {
        size_t *of = &seen[(size_t)data->y[i]];
        *of = *of == 0 || *of == table->fold[i] + 1 ? table->fold[i] + 1 : several;
    }
    for (size_t i = 0; i < data->rows; i++) {
        if (seen[(size_t)data->y[i]] == several) continue;
        label = cli_class_label(data->schema, (size_t)data->y[i], &number);
        table->fold[i] = CLI_NEVER_TESTED;
        alone++;
    }
    free(seen);
    if (alone && groups) {
        cli_fail(table->session,
                 "--folds: all rows of class '%s' are in one fold, because they are in few groups; use more groups or "
                 "fewer folds, or remove the class",
                 label);
        return false;
    }
    if (alone)
        cli_warn(table->session, "class '%s'%s too few rows to test; they are training rows in every fold", label,
                 alone > 1 ? " and others have" : " has");
    return true;
}

bool cli_fold_table_open(cli_fold_table *table, const cli_fit_job *job, size_t folds)
{
    *table = (cli_fold_table){.session = job->session, .desc = job->source.data, .data = job->train, .folds = folds};
    const uint64_t *groups = job->train->groups;
    const bo_folds_desc desc = {.folds = folds,
                                .seed = job->session->common.seed,
                                .classes = table->data->classes ? table->data->y : NULL,
                                .groups = groups};
    table->fold = cli_allocate(table->data->rows, sizeof *table->fold, "folds");
    if (failed(job->session, bo_split_folds(job->session->context, &desc, table->data->rows, table->fold)))
        return false;
    if (table->data->classes && !spread_classes(table, groups)) return false;
    table->drop = left_out(table->data->schema);
    keep_text(table, job);
    return true;
}

void cli_fold_table_close(cli_fold_table *table)
{
    free(table->fold);
    free(table->drop);
    free(table->text);
    free(table->start);
}
