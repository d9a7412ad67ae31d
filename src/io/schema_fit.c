/* Fits a schema to a file: uses of columns, categories, classes, replacements of missing values. One pass; a second one
 * if a column has text after numbers; two more for target-encoded columns. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "schema_fit.h"

/* ---- passes ------------------------------------------------------------------------------------------------------ */

static bo_status observe_progress(bo_context *context, const bo_reader *reader)
{
    double total, done = bo_reader_progress(reader, &total);
    return bo_progress(context, "reading", done, total);
}

static bo_status fit_cells(bo_context *context, bo_fit *fit, bo_reader *reader)
{
    bo_schema *schema = fit->schema;
    for (;;) {
        bo_data_block block;
        BO_TRY(bo_reader_next(context, reader, SIZE_MAX, &block));
        if (block.rows == 0) return BO_OK;
        for (size_t r = 0; r < block.rows; ++r) {
            for (size_t c = 0; c < block.columns; ++c) {
                const bo_cell cell = bo_block_cell(reader, &block, r, c);
                if (schema->columns[c].kind == BO_COLUMN_TARGET)
                    BO_TRY(bo_target_observe(context, fit, &cell));
                else if (bo_column_is_input(&schema->columns[c]))
                    BO_TRY(bo_column_observe(context, fit, &cell));
            }
            bo_target_end_row(fit);
        }
        schema->rows += block.rows;
        BO_TRY(observe_progress(context, reader));
    }
}

/* Reads the columns with text after numbers again from the start. */
static bo_status fit_late(bo_context *context, bo_fit *fit, bo_reader *reader)
{
    BO_TRY(bo_reader_rewind(context, reader));
    for (;;) {
        bo_data_block block;
        BO_TRY(bo_reader_next(context, reader, SIZE_MAX, &block));
        if (block.rows == 0) return BO_OK;
        for (size_t r = 0; r < block.rows; ++r)
            for (size_t c = 0; c < block.columns; ++c) {
                const bo_cell cell = bo_block_cell(reader, &block, r, c);
                if (fit->collectors[c].late) BO_TRY(bo_column_observe_label(context, fit, &cell));
            }
    }
}

/* In a binary file without missing values and categories, only the target is read now, until it is known not to be a
 * class. The stream checks all values later. */
static bo_status fit_array(bo_context *context, bo_fit *fit, bo_reader *reader)
{
    bo_schema *schema = fit->schema;
    schema->rows = reader->rows;
    if (!fit->target_columns) return BO_OK;
    const size_t column = fit->target_columns[0];
    for (size_t row = 0; schema->task != BO_TASK_REGRESSION;) {
        const unsigned char *raw;
        size_t rows;
        BO_TRY(bo_reader_next_raw(context, reader, SIZE_MAX, &raw, &rows));
        if (rows == 0) break;
        for (size_t r = 0; r < rows; ++r, ++row) {
            bo_cell cell = {.reader = reader, .row = row, .column = column};
            bo_convert_f64(&reader->array, raw + (r * reader->columns + column) * reader->array.item, 1, &cell.value);
            BO_TRY(bo_target_observe(context, fit, &cell));
        }
        BO_TRY(observe_progress(context, reader));
    }
    return BO_OK;
}

/* Missing values in a binary file, and the range of the values of each column other than 0. */
typedef struct array_scan {
    bool missing;
    double *low, *high, *cells;
    bo_value_sketch *sketches; /* NULL: none */
} array_scan;

/* True if a row of cells has a missing value. */
static bool scan_row(array_scan *scan, size_t columns, const double *cells)
{
    bool missing = false;
    for (size_t c = 0; c < columns; ++c) { /* vectorizes */
        const double value = cells[c];
        missing |= value != value;
        scan->low[c] = ((value < scan->low[c]) & (value != 0)) ? value : scan->low[c];
        scan->high[c] = ((value > scan->high[c]) & (value != 0)) ? value : scan->high[c];
    }
    return missing;
}

static bo_status scan_rows(bo_context *context, bo_reader *reader, array_scan *scan)
{
    const size_t columns = reader->columns;
    for (size_t c = 0; c < columns; ++c) scan->low[c] = INFINITY, scan->high[c] = -INFINITY;
    for (size_t rows = 1; rows > 0 && !scan->missing;) {
        const unsigned char *raw;
        BO_TRY(bo_reader_next_raw(context, reader, BO_BLOCK_CELLS / columns + 1, &raw, &rows));
        bo_convert_f64(&reader->array, raw, rows * columns, scan->cells);
        for (size_t r = 0; r < rows; ++r) scan->missing |= scan_row(scan, columns, scan->cells + r * columns);
        for (size_t r = 0; scan->sketches && r < rows; ++r)
            for (size_t c = 0; c < columns; ++c) bo_sketch_add(&scan->sketches[c], scan->cells[r * columns + c]);
        BO_TRY(observe_progress(context, reader));
    }
    return bo_reader_rewind(context, reader);
}

/* Searches for missing values, and for the origins of columns if no value is missing. Integers are never missing, and
 * float32 holds those of 16 bits. */
static bo_status scan_array(bo_context *context, bo_fit *fit, bo_reader *reader, bool *missing)
{
    const size_t columns = reader->columns;
    const bo_number_type type = reader->array.type;
    const bool is_integer = type > BO_TYPE_F64, is_small = reader->array.item < 4;
    const bool finds_missing = !is_integer && fit->desc->impute == BO_IMPUTE_AUTO;
    *missing = false;
    if (!finds_missing && (is_small || fit->desc->no_origin)) return BO_OK;
    array_scan scan = {.cells = bo_alloc_raw(context, BO_BLOCK_CELLS + 4 * columns, sizeof(double), "a block of cells"),
                       .sketches = is_small || fit->desc->no_origin ? NULL : fit->sketches};
    if (!scan.cells) return BO_MEMORY;
    scan.low = scan.cells + BO_BLOCK_CELLS + 2 * columns;
    scan.high = scan.low + columns;
    const bo_status status = scan_rows(context, reader, &scan);
    *missing = finds_missing && scan.missing;
    for (size_t c = 0; status == BO_OK && c < columns && !*missing; ++c) {
        fit->collectors[c].numbers = reader->rows;
        fit->collectors[c].from = scan.low[c];
        fit->collectors[c].to = scan.high[c];
    }
    bo_free(scan.cells);
    return status;
}

/* In libsvm text without imputation and categories, only the pairs are read. */
static bo_status fit_items(bo_context *context, bo_fit *fit, bo_reader *reader)
{
    enum { PROGRESS_ROWS = 1024 };
    bo_schema *schema = fit->schema;
    for (;; ++schema->rows) {
        const bo_libsvm_items *items;
        const size_t row = reader->next_row;
        size_t line;
        BO_TRY(bo_libsvm_next(context, reader, &items, &line));
        if (!items) return BO_OK;
        bo_cell cell = {.reader = reader, .row = row, .line = line, .value = items->label};
        if (schema->columns[0].kind == BO_COLUMN_TARGET) BO_TRY(bo_target_observe(context, fit, &cell));
        for (size_t k = 0; k < items->count; ++k) {
            cell.column = items->column[k];
            cell.value = items->value[k];
            BO_TRY(bo_column_observe(context, fit, &cell));
        }
        schema->numbers += items->count;
        if (schema->rows % PROGRESS_ROWS == 0) BO_TRY(observe_progress(context, reader));
    }
}

/* ---- all --------------------------------------------------------------------------------------------------------- */

static bo_status choose_targets(bo_context *context, const bo_data_desc *desc, const bo_data_input *source,
                                size_t **columns, size_t *count)
{
    *columns = NULL;
    *count = 0;
    if (desc->no_target) return BO_OK;
    if (source->labels) {
        *count = bo_reader_columns(source->labels);
        return BO_OK;
    }
    const bool libsvm = source->data->format == BO_FORMAT_LIBSVM;
    return bo_columns_resolve(context, source->data,
                              desc->target ? desc->target
                              : libsvm     ? "0"
                                           : "-1",
                              "the target", columns, count);
}

static bo_status name_targets(bo_context *context, bo_fit *fit, const bo_data_input *source)
{
    for (size_t i = 0; i < fit->schema->targets; ++i) {
        const bo_reader *reader = source->labels ? source->labels : source->data;
        const size_t column = fit->target_columns ? fit->target_columns[i] : i;
        const char *name = bo_reader_column(reader, column);
        char numbered[40];
        snprintf(numbered, sizeof numbered, fit->target_columns ? "column %zu" : i ? "label %zu" : "label", column);
        fit->schema->target_names[i] = bo_strdup(context, name ? name : numbered);
        if (!fit->schema->target_names[i]) return BO_MEMORY;
        if (!fit->target_columns) continue;
        fit->schema->columns[column].kind = BO_COLUMN_TARGET;
        fit->schema->columns[column].first = i;
    }
    return BO_OK;
}

static const char *role_of(bo_column_kind kind)
{
    return kind == BO_COLUMN_TARGET ? "the target" : kind == BO_COLUMN_WEIGHT ? "the weights" : "the group";
}

/* Sets the kind of the columns in `list`, which must still be inputs. */
static bo_status set_kind(bo_context *context, bo_fit *fit, const bo_reader *reader, const char *list, const char *what,
                          size_t max_count, bo_column_kind kind)
{
    size_t *columns, count;
    if (!list || !*list) return BO_OK;
    BO_TRY(bo_columns_resolve(context, reader, list, what, &columns, &count));
    bo_status status = BO_OK;
    if (count > max_count)
        status = bo_fail(context, BO_INVALID, "%s: expected one column for %s, found %zu", bo_reader_path(reader), what,
                         count);
    for (size_t i = 0; i < count && status == BO_OK; ++i) {
        bo_column *column = &fit->schema->columns[columns[i]];
        char label[BO_COLUMN_TEXT];
        if (column->kind != BO_COLUMN_NUMBER && column->kind != BO_COLUMN_UNUSED)
            status = bo_fail(context, BO_INVALID, "%s: %s is %s and cannot be in %s", bo_reader_path(reader),
                             bo_reader_column_label(reader, columns[i], label), role_of(column->kind), what);
        else
            column->kind = kind;
    }
    bo_free(columns);
    return status;
}

/* All other inputs are ignored. */
static bo_status keep_columns(bo_context *context, bo_fit *fit, const bo_reader *reader)
{
    size_t *columns, count;
    if (!fit->desc->keep || !*fit->desc->keep) return BO_OK;
    BO_TRY(bo_columns_resolve(context, reader, fit->desc->keep, "--keep", &columns, &count));
    for (size_t i = 0; i < count; ++i) fit->collectors[columns[i]].kept = true;
    bo_free(columns);
    for (size_t i = 0; i < fit->schema->column_count; ++i)
        if (fit->schema->columns[i].kind == BO_COLUMN_NUMBER && !fit->collectors[i].kept)
            fit->schema->columns[i].kind = BO_COLUMN_UNUSED;
    return BO_OK;
}

static bo_status choose_categories(bo_context *context, bo_fit *fit, const bo_reader *reader)
{
    const char *list = fit->desc->categorical;
    fit->refuse_text = list && strcmp(list, "none") == 0;
    if (!list || !*list || fit->refuse_text || strcmp(list, "auto") == 0) return BO_OK;
    size_t *columns, count;
    BO_TRY(bo_columns_resolve(context, reader, list, "--categorical", &columns, &count));
    for (size_t i = 0; i < count; ++i)
        if (fit->schema->columns[columns[i]].kind == BO_COLUMN_NUMBER) {
            fit->schema->columns[columns[i]].kind = BO_COLUMN_CATEGORY;
            fit->collectors[columns[i]].forced = true;
        }
    bo_free(columns);
    return BO_OK;
}

static bo_status prepare(bo_context *context, bo_fit *fit, const bo_data_input *source)
{
    const bo_reader *reader = source->data;
    bo_schema *schema = fit->schema;
    schema->format = reader->format;
    schema->named = reader->names != NULL;
    schema->separate_labels = source->labels != NULL;
    schema->impute = fit->desc->impute;
    schema->task = schema->targets ? fit->desc->task : BO_TASK_AUTO;
    if (schema->targets > 1) {
        if (schema->task == BO_TASK_CLASSIFICATION)
            return bo_fail(context, BO_UNSUPPORTED, "%s: expected one target column for classification, found %zu",
                           bo_reader_path(source->labels ? source->labels : reader), schema->targets);
        schema->task = BO_TASK_REGRESSION;
    }
    for (size_t i = 0; i < schema->column_count; ++i) {
        if (reader->names && !(schema->columns[i].name = bo_strdup(context, reader->names[i]))) return BO_MEMORY;
        fit->collectors[i].rng = bo_rng_make(fit->desc->seed, bo_rng_stream("data.median", i));
        fit->collectors[i].truths = ~0u;
        fit->collectors[i].from = INFINITY, fit->collectors[i].to = -INFINITY;
        bo_column_name_rows(reader, i, &fit->collectors[i]);
    }
    if (reader->format == BO_FORMAT_LIBSVM) schema->columns[0].kind = BO_COLUMN_UNUSED;
    BO_TRY(name_targets(context, fit, source));
    if (schema->targets && !source->labels) bo_target_decide_by_format(schema, reader);
    BO_TRY(set_kind(context, fit, reader, fit->desc->weights, "--sample-weights", 1, BO_COLUMN_WEIGHT));
    BO_TRY(set_kind(context, fit, reader, fit->desc->group, "--group", 1, BO_COLUMN_GROUP));
    BO_TRY(set_kind(context, fit, reader, fit->desc->drop, "--drop", SIZE_MAX, BO_COLUMN_UNUSED));
    BO_TRY(keep_columns(context, fit, reader));
    return choose_categories(context, fit, reader);
}

/* In arrays and pairs without categories and missing values, only a part is read. */
static bo_status first_pass(bo_context *context, bo_fit *fit, bo_reader *reader)
{
    const bo_impute impute = fit->desc->impute;
    const bool lazy = impute == BO_IMPUTE_NONE || impute == BO_IMPUTE_AUTO;
    bool plain = bo_reader_is_array(reader) && lazy && fit->schema->targets <= 1, missing = false;
    for (size_t i = 0; i < fit->schema->column_count; ++i) plain &= fit->schema->columns[i].kind != BO_COLUMN_CATEGORY;
    if (plain) BO_TRY(scan_array(context, fit, reader, &missing));
    if (plain && !missing) return fit_array(context, fit, reader);
    return bo_schema_is_sparse(fit->schema) && lazy ? fit_items(context, fit, reader) : fit_cells(context, fit, reader);
}

static bool has_codes(const bo_schema *schema)
{
    for (size_t i = 0; i < schema->column_count; ++i)
        if (schema->columns[i].kind == BO_COLUMN_ENCODED) return true;
    return false;
}

static bo_status fit_all(bo_context *context, bo_fit *fit, bo_data_input *source, const bo_split_desc *split)
{
    bo_reader *reader = source->data;
    BO_TRY(prepare(context, fit, source));
    BO_TRY(first_pass(context, fit, reader));
    if (fit->second_pass) BO_TRY(fit_late(context, fit, reader));
    if (fit->schema->rows == 0)
        return bo_fail(context, BO_FORMAT, "%s: expected rows, found none%s", bo_reader_path(reader),
                       reader->names ? " below its header" : "");
    if (source->labels) BO_TRY(bo_target_fit_labels(context, fit, source->labels));
    BO_TRY(bo_target_settle(context, fit, source->labels ? source->labels : reader));
    BO_TRY(bo_columns_settle(context, fit, reader));
    BO_TRY(bo_schema_finish(context, fit->schema));
    if (fit->schema->dim == 0)
        return bo_fail(context, BO_FORMAT, "%s: expected input columns beside the target, found none",
                       bo_reader_path(reader));
    if (has_codes(fit->schema)) BO_TRY(bo_schema_encode(context, fit->desc, source, split, fit->schema));
    return bo_schema_note(context, fit->schema);
}

static void free_fit(bo_fit *fit, size_t columns)
{
    for (size_t i = 0; fit->collectors && i < columns; ++i) {
        bo_free(fit->collectors[i].values);
        bo_categories_free(&fit->collectors[i].first);
    }
    bo_free(fit->collectors);
    bo_free(fit->sketches);
    bo_free(fit->target_columns);
    bo_categories_free(&fit->ambiguous_labels);
}

bo_status bo_schema_fit_source(bo_context *context, const bo_data_desc *desc, bo_data_input *source,
                               const bo_split_desc *split, bo_schema **out)
{
    bo_fit fit = {.desc = desc};
    size_t targets;
    const size_t columns = bo_reader_columns(source->data);
    *out = NULL;
    BO_TRY(choose_targets(context, desc, source, &fit.target_columns, &targets));
    fit.collectors = bo_alloc(context, columns, sizeof *fit.collectors, "statistics of columns");
    bo_status status = fit.collectors ? bo_schema_new(context, columns, targets, &fit.schema) : BO_MEMORY;
    if (status == BO_OK && columns <= BO_SKETCH_COLUMNS && !desc->no_origin) {
        fit.sketches = bo_alloc(context, columns, sizeof *fit.sketches, "samples of columns");
        if (!fit.sketches) status = BO_MEMORY;
    }
    if (status == BO_OK) status = fit_all(context, &fit, source, split);
    free_fit(&fit, columns);
    if (status != BO_OK)
        bo_schema_destroy(fit.schema);
    else
        *out = fit.schema;
    return status;
}

static bo_status fit_file(bo_context *context, const bo_data_desc *desc, const bo_split_desc *split, bo_schema **out)
{
    bo_data_input source;
    if (bo_data_is_standard_input(desc))
        return bo_fail(context, BO_UNSUPPORTED,
                       "standard input can be read only once, but streaming reads the table several times; use a file");
    BO_TRY(bo_data_input_open(context, desc, 0, false, &source));
    bo_status status = bo_schema_fit_source(context, desc, &source, split, out);
    bo_data_input_close(&source);
    return status;
}

bo_status bo_schema_fit(bo_context *context, const bo_table_desc *desc, bo_schema **out)
{
    if (out) *out = NULL;
    BO_REQUIRE(context, desc, out);
    bo_data_desc first = desc->data;
    if (desc->paths && desc->files) first.path = desc->paths[0];
    BO_TRY(bo_split_check(context, &desc->split));
    return fit_file(context, &first, &desc->split, out);
}
