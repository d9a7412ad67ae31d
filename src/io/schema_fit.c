/* Fits a schema to a file: kinds of columns, categories, classes, replacements of missing values. One pass; a second one
 * only if a column has text after numbers. */
#include "schema.h"
#include "../base/rng.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BO_AUTO_CLASSES = 20 };

/* Statistics of one input column. */
typedef struct bo_collector {
    size_t numbers; /* numbers seen */
    bool late;      /* text after numbers: the categories need the second pass */
    double mean;
    float *values; /* for the median: all values, or a reservoir */
    size_t kept, capacity;
    bo_rng rng;
} bo_collector;

typedef struct bo_fit {
    const bo_data_desc *desc;
    bo_schema *schema;
    bo_collector *collectors;
    size_t *target_columns; /* in the data file; NULL: none */
    bool text_to_categories, second_pass;
} bo_fit;

static bo_status too_many(bo_context *context, const char *place, const char *what)
{
    return bo_fail(context, BO_UNSUPPORTED, "%s: expected at most %d different %s", place, BO_MAX_CATEGORIES, what);
}

/* ---- targets ------------------------------------------------------------------------------------------- */

/* Task AUTO: text means classes; a fraction, or more than BO_AUTO_CLASSES different integers, means regression. A text with a
 * finite value is a code (bo_is_code): a class by its text, a number by its value. */
static bo_status observe_target(bo_context *context, bo_schema *schema, const bo_reader *reader, size_t row,
                                size_t line, size_t column, double value, const char *text)
{
    char place[BO_PLACE_TEXT];
    const bool code = text && isfinite(value);
    if (schema->task == BO_TASK_REGRESSION && text && !code)
        return bo_fail(context, BO_FORMAT, "%s: expected a number, found '%.60s'",
                       bo_place(reader, row, line, column, place), text);
    if (!text && isnan(value))
        return bo_fail(context, BO_FORMAT, "%s: expected a target, found a missing value; remove the row",
                       bo_place(reader, row, line, column, place));
    if (!text && isinf(value))
        return bo_fail(context, BO_FORMAT, "%s: expected a finite target, found an infinite value",
                       bo_place(reader, row, line, column, place));
    if (schema->task == BO_TASK_REGRESSION) return BO_OK;
    if (schema->task == BO_TASK_AUTO && text && !code) schema->task = BO_TASK_CLASSIFICATION;
    bo_status status = BO_OK;
    if (schema->task == BO_TASK_CLASSIFICATION || value == floor(value))
        status = bo_categories_add(context, &schema->classes, value, text);
    if (status == BO_INVALID)
        return too_many(context, bo_place(reader, row, line, column, place),
                        "classes; use --task regression if the target is a number");
    if (status == BO_OK && schema->task == BO_TASK_AUTO &&
        (value != floor(value) || schema->classes.count > BO_AUTO_CLASSES)) {
        schema->task = BO_TASK_REGRESSION;
        bo_categories_free(&schema->classes);
    }
    return status;
}

/* Integers in an IDX file are classes. */
static void decide_by_format(bo_schema *schema, const bo_reader *reader)
{
    if (schema->task == BO_TASK_AUTO && reader->format == BO_FORMAT_IDX && reader->array.type != BO_TYPE_F32 &&
        reader->array.type != BO_TYPE_F64)
        schema->task = BO_TASK_CLASSIFICATION;
}

static bo_status scan_labels(bo_context *context, bo_schema *schema, bo_reader *labels, size_t *rows)
{
    for (*rows = 0;;) {
        bo_data_block block;
        BO_TRY(bo_reader_next(context, labels, SIZE_MAX, &block));
        if (block.rows == 0) return BO_OK;
        for (size_t i = 0; i < block.rows * block.columns; ++i)
            BO_TRY(observe_target(context, schema, labels, *rows + i / block.columns,
                                  block.lines ? block.lines[i / block.columns] : 0, i % block.columns, block.cells[i],
                                  block.text ? block.text[i] : NULL));
        *rows += block.rows;
    }
}

/* In a column of words a header cannot be recognized by type. The first word is a class if it occurs again below, or if no
 * word occurs twice. */
static bool header_is_class(const bo_categories *classes, size_t rows, const char *word)
{
    if (bo_categories_find(classes, 0, word) != SIZE_MAX) return true;
    return classes->count > 0 && classes->count == rows && !classes->items[0].numeric;
}

static bo_status fit_labels(bo_context *context, bo_fit *fit, bo_reader *labels)
{
    bo_schema *schema = fit->schema;
    const bo_task task = schema->task;
    size_t rows;
    decide_by_format(schema, labels);
    BO_TRY(scan_labels(context, schema, labels, &rows));
    if (rows + 1 == schema->rows && labels->names && header_is_class(&schema->classes, rows, labels->names[0])) {
        schema->task = task;
        bo_categories_free(&schema->classes);
        bo_free(schema->target_names[0]);
        if (!(schema->target_names[0] = bo_strdup(context, "label"))) return BO_MEMORY;
        BO_TRY(bo_reader_drop_header(context, labels));
        BO_TRY(scan_labels(context, schema, labels, &rows));
    }
    if (rows != schema->rows)
        return bo_fail(context, BO_FORMAT, "%s: expected %zu labels, one per row of the data, found %zu%s%.60s%s",
                       bo_reader_path(labels), schema->rows, rows, labels->names ? " below the header '" : "",
                       labels->names ? labels->names[0] : "", labels->names ? "'" : "");
    return BO_OK;
}

/* ---- inputs -------------------------------------------------------------------------------------------- */

/* Running mean; for the median all values, or a uniform sample (reservoir sampling, Vitter 1985, algorithm R). */
static bo_status observe_number(bo_context *context, const bo_data_desc *desc, bo_collector *collector, double value)
{
    ++collector->numbers;
    if (desc->impute == BO_IMPUTE_MEAN) {
        const double count = (double)collector->numbers, difference = value - collector->mean; /* which may overflow */
        collector->mean += isfinite(difference) ? difference / count : value / count - collector->mean / count;
    }
    if (desc->impute != BO_IMPUTE_MEDIAN) return BO_OK;
    if (desc->sample_rows && collector->kept == desc->sample_rows) {
        uint64_t place = bo_rng_below(&collector->rng, collector->numbers);
        if (place < collector->kept) collector->values[place] = (float)value;
        return BO_OK;
    }
    if (collector->kept == collector->capacity) {
        size_t capacity = collector->capacity ? 2 * collector->capacity : 256;
        float *values = bo_realloc(context, collector->values, capacity, sizeof *values, "values for a median");
        if (!values) return BO_MEMORY;
        collector->values = values;
        collector->capacity = capacity;
    }
    collector->values[collector->kept++] = (float)value;
    return BO_OK;
}

/* "0,5": a decimal comma in a file whose columns are not separated by commas. */
static bool has_decimal_comma(const char *text)
{
    if (*text == '-' || *text == '+') ++text;
    size_t whole = strspn(text, "0123456789");
    size_t part = text[whole] == ',' ? strspn(text + whole + 1, "0123456789") : 0;
    return whole > 0 && part > 0 && text[whole + 1 + part] == 0;
}

/* The advice names the option of the program and the field in C. */
static bo_status refuse_text(bo_context *context, const bo_fit *fit, const char *place, const char *text)
{
    const char *advice = "(use --categorical auto, in C .categorical = \"auto\", to one-hot encode text columns, or "
                         "--target if this is the target)";
    if (fit->desc->categorical) advice = "(add the column to --categorical)";
    if (has_decimal_comma(text)) advice = "(write decimal points instead of decimal commas)";
    return bo_fail(context, BO_FORMAT, "%s: expected a number, found '%.60s' %s", place, text, advice);
}

static bo_status observe_input(bo_context *context, bo_fit *fit, const bo_reader *reader, size_t row, size_t line,
                               size_t index, double value, const char *text)
{
    char place[BO_PLACE_TEXT];
    bo_column *column = &fit->schema->columns[index];
    bo_collector *collector = &fit->collectors[index];
    if (column->kind == BO_COLUMN_NUMBER && isfinite(value)) text = NULL; /* a code */
    if (!text && !isfinite(value)) {
        if (isinf(value))
            return bo_fail(context, BO_FORMAT, "%s: expected a finite number, found an infinite value",
                           bo_place(reader, row, line, index, place));
        if (fit->desc->impute != BO_IMPUTE_NONE) return BO_OK;
        return bo_fail(
            context, BO_FORMAT,
            "%s: expected a value, found a missing value (use --impute median, in C BO_IMPUTE_MEDIAN, to replace missing "
            "values)",
            bo_place(reader, row, line, index, place));
    }
    if (column->kind == BO_COLUMN_NUMBER && text) {
        if (!fit->text_to_categories) return refuse_text(context, fit, bo_place(reader, row, line, index, place), text);
        column->kind = BO_COLUMN_CATEGORY;
        collector->late = collector->numbers > 0;
        fit->second_pass |= collector->late;
    }
    if (column->kind == BO_COLUMN_NUMBER) return observe_number(context, fit->desc, collector, value);
    bo_status status = bo_categories_add(context, &column->categories, value, text);
    if (status == BO_INVALID)
        return too_many(context, bo_place(reader, row, line, index, place),
                        "categories in one column; remove the column");
    return status;
}

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
        for (size_t r = 0, i = 0; r < block.rows; ++r) {
            const size_t row = block.first_row + r, line = block.lines ? block.lines[r] : 0;
            for (size_t c = 0; c < block.columns; ++c, ++i) {
                const char *text = block.text ? block.text[i] : NULL;
                if (schema->columns[c].kind == BO_COLUMN_TARGET)
                    BO_TRY(observe_target(context, schema, reader, row, line, c, block.cells[i], text));
                else if (schema->columns[c].kind != BO_COLUMN_UNUSED)
                    BO_TRY(observe_input(context, fit, reader, row, line, c, block.cells[i], text));
            }
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
        for (size_t r = 0, i = 0; r < block.rows; ++r)
            for (size_t c = 0; c < block.columns; ++c, ++i)
                if (fit->collectors[c].late)
                    BO_TRY(observe_input(context, fit, reader, block.first_row + r, block.lines ? block.lines[r] : 0, c,
                                         block.cells[i], block.text ? block.text[i] : NULL));
    }
}

/* Of a binary file without imputation and categories only the target is read, until it is known not to be a class. The
 * stream checks all values later. */
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
            double value;
            bo_convert_f64(&reader->array, raw + (r * reader->columns + column) * reader->array.item, 1, &value);
            BO_TRY(observe_target(context, schema, reader, row, 0, column, value, NULL));
        }
        BO_TRY(observe_progress(context, reader));
    }
    return BO_OK;
}

/* Of libsvm text without imputation and categories only the pairs are read. */
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
        if (schema->columns[0].kind == BO_COLUMN_TARGET)
            BO_TRY(observe_target(context, schema, reader, row, line, 0, items->label, NULL));
        for (size_t k = 0; k < items->count; ++k)
            BO_TRY(observe_input(context, fit, reader, row, line, items->column[k], items->value[k], NULL));
        schema->numbers += items->count;
        if (schema->rows % PROGRESS_ROWS == 0) BO_TRY(observe_progress(context, reader));
    }
}

/* ---- all ----------------------------------------------------------------------------------------------- */

static bo_status choose_targets(bo_context *context, const bo_data_desc *desc, const bo_source *source,
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

static bo_status name_targets(bo_context *context, bo_fit *fit, const bo_source *source)
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

static bo_status drop_columns(bo_context *context, bo_fit *fit, const bo_reader *reader)
{
    size_t *columns, count;
    if (!fit->desc->drop || !*fit->desc->drop) return BO_OK;
    BO_TRY(bo_columns_resolve(context, reader, fit->desc->drop, "columns to ignore", &columns, &count));
    bo_status status = BO_OK;
    for (size_t i = 0; i < count && status == BO_OK; ++i) {
        bo_column *column = &fit->schema->columns[columns[i]];
        char label[BO_COLUMN_TEXT];
        if (column->kind == BO_COLUMN_TARGET)
            status = bo_fail(context, BO_INVALID, "%s: %s is the target and cannot be ignored", bo_reader_path(reader),
                             bo_reader_column_label(reader, columns[i], label));
        else
            column->kind = BO_COLUMN_UNUSED;
    }
    bo_free(columns);
    return status;
}

static bo_status choose_categories(bo_context *context, bo_fit *fit, const bo_reader *reader)
{
    const char *list = fit->desc->categorical;
    fit->text_to_categories = list && strcmp(list, "auto") == 0;
    if (!list || !*list || fit->text_to_categories) return BO_OK;
    size_t *columns, count;
    BO_TRY(bo_columns_resolve(context, reader, list, "categories", &columns, &count));
    for (size_t i = 0; i < count; ++i)
        if (fit->schema->columns[columns[i]].kind == BO_COLUMN_NUMBER)
            fit->schema->columns[columns[i]].kind = BO_COLUMN_CATEGORY;
    bo_free(columns);
    return BO_OK;
}

static bo_status prepare(bo_context *context, bo_fit *fit, const bo_source *source)
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
    }
    if (reader->format == BO_FORMAT_LIBSVM) schema->columns[0].kind = BO_COLUMN_UNUSED;
    BO_TRY(name_targets(context, fit, source));
    if (schema->targets && !source->labels) decide_by_format(schema, reader);
    BO_TRY(drop_columns(context, fit, reader));
    return choose_categories(context, fit, reader);
}

static int by_value(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static bo_status settle(bo_context *context, bo_fit *fit, const bo_reader *reader)
{
    bo_schema *schema = fit->schema;
    for (size_t i = 0; i < schema->column_count; ++i) {
        bo_column *column = &schema->columns[i];
        bo_collector *collector = &fit->collectors[i];
        char label[BO_COLUMN_TEXT];
        if (column->kind == BO_COLUMN_CATEGORY) bo_categories_sort(&column->categories);
        if (column->kind != BO_COLUMN_NUMBER || schema->impute == BO_IMPUTE_NONE) continue;
        if (collector->numbers == 0)
            return bo_fail(context, BO_FORMAT,
                           "%s: %s: expected at least one value to impute from, found only missing values",
                           bo_reader_path(reader), bo_reader_column_label(reader, i, label));
        column->fill = collector->mean;
        if (schema->impute == BO_IMPUTE_MEDIAN) {
            const size_t n = collector->kept;
            qsort(collector->values, n, sizeof *collector->values, by_value);
            column->fill = 0.5 * ((double)collector->values[(n - 1) / 2] + (double)collector->values[n / 2]);
        }
    }
    if (schema->targets && schema->task == BO_TASK_AUTO) schema->task = BO_TASK_CLASSIFICATION;
    bo_categories_sort(&schema->classes);
    BO_TRY(bo_schema_finish(context, schema));
    if (schema->dim == 0)
        return bo_fail(context, BO_FORMAT, "%s: expected input columns beside the target, found none",
                       bo_reader_path(reader));
    return BO_OK;
}

static bo_status fit_all(bo_context *context, bo_fit *fit, bo_source *source)
{
    bo_reader *reader = source->data;
    BO_TRY(prepare(context, fit, source));
    bool plain = bo_reader_is_array(reader) && fit->desc->impute == BO_IMPUTE_NONE && fit->schema->targets <= 1;
    for (size_t i = 0; i < fit->schema->column_count; ++i) plain &= fit->schema->columns[i].kind != BO_COLUMN_CATEGORY;
    const bool pairs = bo_schema_is_sparse(fit->schema) && fit->desc->impute == BO_IMPUTE_NONE;
    BO_TRY(plain   ? fit_array(context, fit, reader)
           : pairs ? fit_items(context, fit, reader)
                   : fit_cells(context, fit, reader));
    if (fit->second_pass) BO_TRY(fit_late(context, fit, reader));
    if (fit->schema->rows == 0)
        return bo_fail(context, BO_FORMAT, "%s: expected rows, found none%s", bo_reader_path(reader),
                       reader->names ? " below its header" : "");
    if (source->labels) BO_TRY(fit_labels(context, fit, source->labels));
    return settle(context, fit, reader);
}

bo_status bo_schema_fit_source(bo_context *context, const bo_data_desc *desc, bo_source *source, bo_schema **out)
{
    bo_fit fit = {.desc = desc};
    size_t targets;
    const size_t columns = bo_reader_columns(source->data);
    *out = NULL;
    BO_TRY(choose_targets(context, desc, source, &fit.target_columns, &targets));
    fit.collectors = bo_alloc(context, columns, sizeof *fit.collectors, "statistics of columns");
    bo_status status = fit.collectors ? bo_schema_new(context, columns, targets, &fit.schema) : BO_MEMORY;
    if (status == BO_OK) status = fit_all(context, &fit, source);
    if (fit.collectors)
        for (size_t i = 0; i < columns; ++i) bo_free(fit.collectors[i].values);
    bo_free(fit.collectors);
    bo_free(fit.target_columns);
    if (status != BO_OK)
        bo_schema_destroy(fit.schema);
    else
        *out = fit.schema;
    return status;
}

bo_status bo_schema_fit(bo_context *context, const bo_data_desc *desc, bo_schema **out)
{
    if (out) *out = NULL;
    BO_REQUIRE(context, desc, out);
    bo_source source;
    if (bo_data_is_standard_input(desc))
        return bo_fail(context, BO_UNSUPPORTED,
                       "standard input can be read only once, but a schema needs a separate pass; use a file");
    BO_TRY(bo_source_open(context, desc, 0, false, &source));
    bo_status status = bo_schema_fit_source(context, desc, &source, out);
    bo_source_close(&source);
    return status;
}
