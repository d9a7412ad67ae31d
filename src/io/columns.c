/* Fits the inputs of a schema: the kind of each column, and the replacements of missing values. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "../base/rng.h"
#include "origins.h"
#include "schema_fit.h"

/* ---- words ------------------------------------------------------------------------------------------------------- */

int bo_truth_read(const char *text, int *family)
{
    static const char *const names[][2] = {{"false", "true"}, {"no", "yes"}, {"f", "t"}, {"n", "y"}};
    for (int i = 0; i < 4; ++i)
        for (int truth = 0; truth < 2; ++truth)
            if (strcasecmp(text, names[i][truth]) == 0) {
                *family = i;
                return truth;
            }
    return -1;
}

/* id, customer_id, customer-id, PassengerId: a column of identifiers of rows. */
static bool is_id_name(const char *name)
{
    const size_t length = name ? strlen(name) : 0;
    if (length < 2 || strcasecmp(name + length - 2, "id") != 0) return false;
    const char before = length > 2 ? name[length - 3] : '_';
    return strchr("_-. ", before) || (name[length - 2] == 'I' && before >= 'a' && before <= 'z');
}

/* The index of a pandas DataFrame, as to_csv writes it: a column without a name, "Unnamed: 0" after another round trip,
 * or the names that reset_index assigns. */
static bool is_index_name(const char *name)
{
    return name && (strncasecmp(name, "unnamed:", 8) == 0 || strcasecmp(name, "index") == 0 ||
                    strcasecmp(name, "level_0") == 0);
}

void bo_column_name_rows(const bo_reader *reader, size_t column, bo_collector *collector)
{
    const char *name = reader->names ? reader->names[column] : NULL;
    collector->is_index = is_index_name(name) || (reader->unnamed && reader->unnamed[column]);
    collector->names_rows = collector->is_index || is_id_name(name);
}

/* ---- observing --------------------------------------------------------------------------------------------------- */

/* Range and running mean; for the median all values, or a uniform sample (reservoir sampling, Vitter 1985, algorithm
 * R). */
static bo_status observe_number(bo_context *context, const bo_data_desc *desc, bo_collector *collector, double value)
{
    if (collector->numbers == 1 || value < collector->low) collector->low = value;
    if (collector->numbers == 1 || value > collector->high) collector->high = value;
    if (value != 0 && value < collector->from) collector->from = value;
    if (value != 0 && value > collector->to) collector->to = value;
    if (desc->impute == BO_IMPUTE_MEAN || desc->impute == BO_IMPUTE_AUTO) {
        const double count = (double)collector->numbers, difference = value - collector->mean; /* which may overflow */
        collector->mean += isfinite(difference) ? difference / count : value / count - collector->mean / count;
    }
    if (desc->impute != BO_IMPUTE_MEDIAN) return BO_OK;
    if (desc->sample_rows && collector->stored == desc->sample_rows) {
        uint64_t place = bo_rng_below(&collector->rng, collector->numbers);
        if (place < collector->stored) collector->values[place] = value;
        return BO_OK;
    }
    if (collector->stored == collector->capacity) {
        size_t capacity = collector->capacity ? 2 * collector->capacity : 256;
        double *values = bo_realloc(context, collector->values, capacity, sizeof *values, "values for a median");
        if (!values) return BO_MEMORY;
        collector->values = values;
        collector->capacity = capacity;
    }
    collector->values[collector->stored++] = value;
    return BO_OK;
}

/* Statistics that distinguish row numbers from other numbers. */
static bo_status observe_integer(bo_context *context, bo_collector *collector, double value)
{
    enum { FIRST_VALUES = 4096 };
    if (value != floor(value) || fabs(value) > 0x1p53) {
        collector->fraction = true;
        return BO_OK;
    }
    collector->print += bo_hash(0, (uint64_t)(int64_t)value);
    if (collector->repeated || collector->numbers > FIRST_VALUES || !collector->names_rows) return BO_OK;
    const size_t before = collector->first.count;
    BO_TRY(bo_categories_add(context, &collector->first, value, NULL));
    collector->repeated = collector->first.count == before;
    return BO_OK;
}

static void observe_text(bo_collector *collector, const bo_cell *cell)
{
    int family = 0;
    bool has_time;
    const int truth = bo_truth_read(cell->text, &family);
    collector->truths &= truth < 0 ? 0 : 1u << family;
    collector->true_count += truth == 1;
    const unsigned forms = bo_date_forms(cell->text, &has_time);
    collector->has_time |= has_time;
    for (int form = 0; form < BO_DATE_FORMS; ++form) {
        double days = 0;
        if (forms & 1u << form && bo_date_read(cell->text, (bo_date_form)form, &days)) {
            ++collector->dates[form];
            collector->days[form] += days;
        } else {
            bo_note_cell(&collector->no_date[form], cell);
        }
    }
}

/* "0,5": a decimal comma in a file whose other numbers have decimal points. */
static bool has_decimal_comma(const char *text)
{
    if (*text == '-' || *text == '+') ++text;
    size_t whole = strspn(text, "0123456789");
    size_t part = text[whole] == ',' ? strspn(text + whole + 1, "0123456789") : 0;
    return whole > 0 && part > 0 && text[whole + 1 + part] == 0;
}

/* The advice names the option of the program and the field in C. */
static bo_status refuse_text(bo_context *context, const bo_cell *cell)
{
    char place[BO_PLACE_TEXT];
    return bo_fail(context, BO_FORMAT, "%s: expected a number, found '%.60s' %s", bo_cell_place(cell, place),
                   cell->text,
                   has_decimal_comma(cell->text)
                       ? "(write decimal points instead of decimal commas)"
                       : "(use --categorical auto, in C .categorical = NULL, to encode text columns, --drop to ignore "
                         "the column, or --target if this is the target)");
}

static bo_status refuse_missing(bo_context *context, const bo_reader *reader, size_t row, size_t line, size_t column)
{
    char place[BO_PLACE_TEXT];
    return bo_fail(context, BO_FORMAT,
                   "%s: expected a value, found a missing value (use --impute mean, in C BO_IMPUTE_MEAN, to replace "
                   "missing values)",
                   bo_place(reader, row, line, column, place));
}

static bo_status refuse_infinite(bo_context *context, const bo_reader *reader, size_t row, size_t line, size_t column)
{
    char place[BO_PLACE_TEXT];
    return bo_fail(context, BO_FORMAT, "%s: expected a finite number, found an infinite value",
                   bo_place(reader, row, line, column, place));
}

bo_status bo_column_observe_label(bo_context *context, bo_fit *fit, const bo_cell *cell)
{
    bo_column *column = &fit->schema->columns[cell->column];
    bo_collector *collector = &fit->collectors[cell->column];
    if (!cell->text && isnan(cell->value)) return BO_OK;
    if (collector->full_at) return BO_OK;
    const bo_status status = bo_categories_add(context, &column->categories, cell->value, cell->text);
    if (status != BO_INVALID) return status;
    collector->full_at = collector->numbers + collector->texts;
    if (!collector->forced) return BO_OK; /* other values have the code of unknown ones */
    char place[BO_PLACE_TEXT];
    return bo_fail(context, BO_UNSUPPORTED, "%s: expected at most %d different categories in one column; use --drop",
                   bo_cell_place(cell, place), BO_MAX_CATEGORIES);
}

/* The first text of a column, which is therefore not numeric. */
static bo_status become_text(bo_context *context, bo_fit *fit, const bo_cell *cell)
{
    bo_collector *collector = &fit->collectors[cell->column];
    if (fit->refuse_text) return refuse_text(context, cell);
    fit->schema->columns[cell->column].kind = BO_COLUMN_CATEGORY;
    collector->late = collector->numbers + collector->missing_texts + collector->infinite > 0;
    fit->second_pass |= collector->late;
    bo_note_cell(&collector->odd, cell);
    return BO_OK;
}

/* False for inputs whose missing values are refused; absent numbers of libsvm text are 0, not missing. */
static bool may_miss(const bo_fit *fit)
{
    const bo_impute impute = fit->desc->impute;
    return impute != BO_IMPUTE_NONE && !(impute == BO_IMPUTE_AUTO && fit->schema->format == BO_FORMAT_LIBSVM);
}

static bo_status observe_missing(bo_context *context, bo_fit *fit, const bo_cell *cell)
{
    ++fit->schema->columns[cell->column].missing;
    return may_miss(fit) ? BO_OK : refuse_missing(context, cell->reader, cell->row, cell->line, cell->column);
}

/* The first number, which is invalid if the column contains dates. */
static void note_number(bo_collector *collector, const bo_cell *cell)
{
    char number[BO_NUMBER_TEXT];
    bo_cell shown = *cell;
    bo_number_format(cell->value, number, sizeof number);
    if (!shown.text) shown.text = number;
    bo_note_cell(&collector->first_number, &shown);
}

bo_status bo_column_observe(bo_context *context, bo_fit *fit, const bo_cell *cell)
{
    bo_column *column = &fit->schema->columns[cell->column];
    bo_collector *collector = &fit->collectors[cell->column];
    const char *text = cell->text;
    const bool number = column->kind == BO_COLUMN_NUMBER; /* so far */
    if (number && isfinite(cell->value)) text = NULL;     /* a code */
    if (!text && isinf(cell->value)) return refuse_infinite(context, cell->reader, cell->row, cell->line, cell->column);
    if (!text && isnan(cell->value)) return observe_missing(context, fit, cell);
    if (text && bo_is_missing_text(text)) { /* the kind of the column will determine its meaning */
        ++collector->missing_texts;
        bo_note_cell(&collector->first_missing, cell);
    } else if (text && number && isinf(cell->value)) {
        ++collector->infinite;
        bo_note_cell(&collector->first_infinite, cell);
    } else if (text) {
        if (number) BO_TRY(become_text(context, fit, cell));
        ++collector->texts;
        observe_text(collector, cell);
    } else {
        if (collector->numbers++ == 0) note_number(collector, cell);
        BO_TRY(observe_integer(context, collector, cell->value));
        BO_TRY(observe_number(context, fit->desc, collector, cell->value));
        if (fit->sketches) bo_sketch_add(&fit->sketches[cell->column], cell->value);
    }
    return column->kind == BO_COLUMN_NUMBER || collector->late ? BO_OK : bo_column_observe_label(context, fit, cell);
}

/* ---- deciding ---------------------------------------------------------------------------------------------------- */

/* True for tables of cells, as opposed to arrays and sparse rows. */
static bool has_cells(const bo_schema *schema)
{
    return schema->format == BO_FORMAT_CSV || schema->format == BO_FORMAT_SPACED;
}

/* Row numbers are distinct, consecutive integers in any order; or distinct integers in a column named id; or distinct
 * integers from 0 in a column with the name of an index, if there are few rows and the range is not too wide. The sum
 * of hashes compares the set of values with low … high. Only the first integers are checked to be distinct; the range
 * of all integers must be wide enough. */
static bool is_numbered(const bo_fit *fit, const bo_column *column, const bo_collector *collector)
{
    const size_t rows = fit->schema->rows + fit->schema->unlabeled;
    if (column->kind != BO_COLUMN_NUMBER || collector->kept || collector->fraction || column->missing) return false;
    if (!has_cells(fit->schema) || collector->numbers != rows) return false;
    const double range = collector->high - collector->low + 1, all = (double)rows;
    const bool different = !collector->repeated && range >= all;
    if (collector->is_index && different && collector->low >= 0)
        if (rows >= BO_MIN_NUMBERED_ROWS || range <= BO_MAX_INDEX_RATIO * all) return true;
    if (rows < BO_MIN_NUMBERED_ROWS) return false;
    if (collector->names_rows && !collector->is_index && different) return true;
    if (range != all) return false;
    uint64_t print = 0;
    for (size_t i = 0; i < rows; ++i) print += bo_hash(0, (uint64_t)((int64_t)collector->low + (int64_t)i));
    return print == collector->print;
}

/* Most values occur once, as in names, comments and ids. */
static bool is_nearly_unique(const bo_column *column, const bo_collector *collector)
{
    const size_t seen = collector->full_at ? collector->full_at : collector->numbers + collector->texts;
    return column->categories.count > BO_MIN_UNIQUE_VALUES && 2 * column->categories.count > seen;
}

static void omit(bo_column *column, bo_omission why)
{
    column->kind = BO_COLUMN_UNUSED;
    column->why = why;
    column->values = column->categories.count;
    bo_categories_free(&column->categories);
}

/* The form in which most cells are dates, if at most one of BO_DATE_SHARE is not a date. *ambiguous: another form
 * matches as many. */
static bool find_date_form(const bo_collector *collector, bo_date_form *form, bool *ambiguous)
{
    *form = BO_DATE_YMD;
    for (int i = 1; i < BO_DATE_FORMS; ++i)
        if (collector->dates[i] > collector->dates[*form]) *form = (bo_date_form)i;
    *ambiguous = false;
    for (int i = 0; i < BO_DATE_FORMS; ++i)
        *ambiguous |= i != (int)*form && collector->dates[i] == collector->dates[*form];
    const size_t cells = collector->texts + collector->numbers;
    const size_t invalid = cells + collector->infinite - collector->dates[*form];
    return collector->dates[*form] > 0 && invalid * BO_DATE_SHARE <= cells;
}

/* Few texts among many distinct numbers are mistakes. Among few distinct numbers they may be categories, as in 0, 1, 2,
 * 3+. */
static bool has_odd_text(const bo_column *column, const bo_collector *collector)
{
    return !collector->kept && collector->numbers >= 9 * collector->texts && column->categories.count > BO_MAX_ONE_HOT;
}

static bo_status refuse_odd_text(bo_context *context, const bo_collector *collector, const bo_reader *reader,
                                 size_t index)
{
    char label[BO_COLUMN_TEXT];
    return bo_fail(
        context, BO_FORMAT,
        "%s: line %zu, %s: expected a number, as in most rows, found '%s' (correct it, write NA for a missing "
        "value, or use --drop to ignore the column)",
        bo_reader_path(reader), collector->odd.line, bo_reader_column_label(reader, index, label), collector->odd.text);
}

/* Texts such as "nan" and "null" are missing values in a column of numbers, dates or Booleans. */
static bo_status settle_missing(bo_context *context, const bo_fit *fit, const bo_reader *reader, size_t index)
{
    const bo_collector *collector = &fit->collectors[index];
    fit->schema->columns[index].missing += collector->missing_texts;
    if (collector->missing_texts == 0 || may_miss(fit)) return BO_OK;
    return refuse_missing(context, reader, collector->first_missing.row, collector->first_missing.line, index);
}

/* The first cell that is not a date in this form. */
static const bo_noted_cell *first_invalid(const bo_collector *collector, bo_date_form form)
{
    const bo_noted_cell *cells[] = {&collector->no_date[form], &collector->first_infinite, &collector->first_number},
                        *first = NULL;
    for (size_t i = 0; i < sizeof cells / sizeof *cells; ++i)
        if (cells[i]->text[0] && (!first || cells[i]->row < first->row)) first = cells[i];
    return first;
}

/* An invalid date, such as 2023-02-29 or 0, is a missing value. */
static bo_status become_dates(bo_context *context, const bo_fit *fit, const bo_reader *reader, size_t index,
                              bo_date_form form)
{
    bo_column *column = &fit->schema->columns[index];
    const bo_collector *collector = &fit->collectors[index];
    const size_t cells = collector->texts + collector->infinite + collector->numbers,
                 invalid = cells - collector->dates[form];
    column->kind = BO_COLUMN_DATE;
    column->date = form;
    column->has_time = collector->has_time;
    column->missing += invalid;
    bo_categories_free(&column->categories);
    BO_TRY(settle_missing(context, fit, reader, index));
    if (invalid == 0) return BO_OK;
    const bo_noted_cell *first = first_invalid(collector, form);
    char place[BO_PLACE_TEXT];
    bo_place(reader, first->row, first->line, index, place);
    if (!may_miss(fit)) return bo_fail(context, BO_FORMAT, "%s: expected a date, found '%s'", place, first->text);
    bo_log(context, BO_LOG_WARNING,
           "%s: expected a date, found '%s'; %zu of %zu dates of this column %s read as missing", place, first->text,
           invalid, cells, invalid == 1 ? "is invalid and" : "are invalid and");
    return BO_OK;
}

/* Most cells are dates, but too many are invalid or have another form: 0000-00-00 for a missing date, or a table from
 * two programs. */
static void warn_mixed_dates(bo_context *context, const bo_collector *collector, const bo_reader *reader, size_t index,
                             bo_date_form form)
{
    const size_t *dates = collector->dates, cells = collector->texts + collector->infinite + collector->numbers,
                 other = dates[BO_DATE_DMY] > dates[BO_DATE_MDY] ? dates[BO_DATE_DMY] : dates[BO_DATE_MDY];
    if (dates[form] == cells || 2 * (dates[BO_DATE_YMD] + other) <= cells) return;
    const bo_noted_cell *first = first_invalid(collector, form);
    char place[BO_PLACE_TEXT];
    bo_log(context, BO_LOG_WARNING,
           "%s: expected a date, as in %zu of %zu rows, found '%s'; the column is read as text (write all dates as "
           "2024-01-31, and NA for missing ones)",
           bo_place(reader, first->row, first->line, index, place), dates[form], cells, first->text);
}

static bo_status settle_empty(bo_context *context, const bo_fit *fit, const bo_reader *reader, size_t index)
{
    char label[BO_COLUMN_TEXT];
    if (fit->desc->impute == BO_IMPUTE_AUTO) {
        omit(&fit->schema->columns[index], BO_OMIT_EMPTY);
        return BO_OK;
    }
    return bo_fail(context, BO_FORMAT, "%s: %s: expected at least one value to impute from, found only missing values",
                   bo_reader_path(reader), bo_reader_column_label(reader, index, label));
}

/* A column with text: dates, Booleans, or categories. */
static bo_status settle_text(bo_context *context, const bo_fit *fit, const bo_reader *reader, size_t index)
{
    bo_column *column = &fit->schema->columns[index];
    bo_collector *collector = &fit->collectors[index];
    const bool encodes = fit->schema->targets > 0 && !fit->desc->keep_unlabeled;
    char label[BO_COLUMN_TEXT];
    bo_date_form form;
    bool ambiguous;
    bo_categories_sort(&column->categories);
    if (column->categories.count == 0) return settle_empty(context, fit, reader, index);
    if (collector->forced) return BO_OK;
    if (has_odd_text(column, collector)) return refuse_odd_text(context, collector, reader, index);
    const bool dates = find_date_form(collector, &form, &ambiguous);
    if (dates && !ambiguous) return become_dates(context, fit, reader, index, form);
    if (collector->numbers + collector->infinite == 0 && collector->truths) {
        column->kind = BO_COLUMN_BOOLEAN;
        bo_categories_free(&column->categories);
        return settle_missing(context, fit, reader, index);
    }
    if (dates)
        bo_log(
            context, BO_LOG_WARNING,
            "%s: %s: dates such as '%s' can be read as day and month or as month and day, and are read as text; write "
            "them as 2024-01-31",
            bo_reader_path(reader), bo_reader_column_label(reader, index, label), collector->odd.text);
    else
        warn_mixed_dates(context, collector, reader, index, form);
    collector->texts += collector->missing_texts + collector->infinite;
    if (!collector->kept && is_nearly_unique(column, collector))
        omit(column, BO_OMIT_UNIQUE);
    else if (column->categories.count > BO_MAX_ONE_HOT && !encodes)
        omit(column, BO_OMIT_UNTARGETED);
    else if (column->categories.count > BO_MAX_ONE_HOT)
        column->kind = BO_COLUMN_ENCODED;
    return BO_OK;
}

/* A column without text except numbers and missing values. */
static bo_status settle_numbers(bo_context *context, const bo_fit *fit, const bo_reader *reader, size_t index)
{
    const bo_collector *collector = &fit->collectors[index];
    if (collector->infinite)
        return refuse_infinite(context, reader, collector->first_infinite.row, collector->first_infinite.line, index);
    BO_TRY(settle_missing(context, fit, reader, index));
    return fit->schema->columns[index].missing && collector->numbers == 0 ? settle_empty(context, fit, reader, index)
                                                                          : BO_OK;
}

/* Row numbers are omitted unless they are the only input. */
static void omit_numbered(bo_fit *fit)
{
    size_t other_inputs = 0;
    for (size_t i = 0; i < fit->schema->column_count; ++i) {
        const bo_column *column = &fit->schema->columns[i];
        other_inputs += bo_column_is_input(column) && !is_numbered(fit, column, &fit->collectors[i]);
    }
    for (size_t i = 0; i < fit->schema->column_count && other_inputs > 0; ++i)
        if (is_numbered(fit, &fit->schema->columns[i], &fit->collectors[i]))
            omit(&fit->schema->columns[i], BO_OMIT_NUMBERED);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(bo_collector *collector)
{
    const size_t n = collector->stored;
    qsort(collector->values, n, sizeof *collector->values, by_value);
    return 0.5 * collector->values[(n - 1) / 2] + 0.5 * collector->values[n / 2];
}

/* The replacement of a missing value. Columns of binary files and libsvm text are imputed only if values are missing,
 * so that their rows are converted without checking each number. */
static void settle_fill(const bo_fit *fit, bo_column *column, bo_collector *collector)
{
    const bo_impute impute = fit->desc->impute;
    if (impute == BO_IMPUTE_NONE || (impute == BO_IMPUTE_AUTO && !has_cells(fit->schema) && !column->missing)) return;
    column->indicator = impute == BO_IMPUTE_AUTO && column->missing > 0;
    if (column->kind == BO_COLUMN_NUMBER)
        column->fill = impute == BO_IMPUTE_MEDIAN ? median(collector) : collector->mean;
    if (isinf(column->fill)) column->fill = NAN; /* beyond the range of float32, which the stream refuses */
    if (column->kind == BO_COLUMN_BOOLEAN) {
        const double share = (double)collector->true_count / (double)collector->texts;
        column->fill = impute == BO_IMPUTE_MEDIAN ? (share > 0.5) : share;
    }
    if (column->kind == BO_COLUMN_DATE)
        column->fill = collector->days[column->date] / (double)collector->dates[column->date];
}

/* Numbers that are absent from libsvm text are 0. With an origin they would have to be stored, so at most half of them
 * may be absent. */
static void settle_origin(const bo_fit *fit, size_t index)
{
    bo_column *column = &fit->schema->columns[index];
    const bo_collector *collector = &fit->collectors[index];
    const bool is_sparse =
        fit->schema->format == BO_FORMAT_LIBSVM && 2 * collector->numbers < fit->schema->rows + fit->schema->unlabeled;
    if (column->kind != BO_COLUMN_NUMBER || collector->numbers == 0 || is_sparse || fit->desc->no_origin) return;
    column->origin = bo_origin_of(collector->from, collector->to, fit->sketches ? &fit->sketches[index] : NULL);
}

static void warn_omitted(bo_context *context, const bo_fit *fit, const bo_reader *reader, size_t index)
{
    const bo_column *column = &fit->schema->columns[index];
    char label[BO_COLUMN_TEXT];
    const char *path = bo_reader_path(reader),
               *advice = "(use --drop to silence this; to use it, list all inputs with --keep)";
    bo_reader_column_label(reader, index, label);
    switch (column->why) {
    case BO_OMIT_NUMBERED:
        bo_log(context, BO_LOG_WARNING, "%s: %s is left out: it numbers the rows %s", path, label, advice);
        break;
    case BO_OMIT_UNIQUE:
        bo_log(context, BO_LOG_WARNING, "%s: %s is left out: its text is nearly unique, with %zu values in %zu rows %s",
               path, label, column->values, fit->schema->rows + fit->schema->unlabeled - column->missing, advice);
        break;
    case BO_OMIT_EMPTY:
        bo_log(context, BO_LOG_WARNING, "%s: %s is left out: all its values are missing", path, label);
        break;
    case BO_OMIT_UNTARGETED:
        bo_log(context, BO_LOG_WARNING,
               "%s: %s is left out: it has %zu different values, more than %d (use --categorical with the column to "
               "one-hot encode it)",
               path, label, column->values, BO_MAX_ONE_HOT);
        break;
    case BO_OMIT_REQUESTED:
        break;
    }
}

bo_status bo_columns_settle(bo_context *context, bo_fit *fit, const bo_reader *reader)
{
    bo_schema *schema = fit->schema;
    for (size_t i = 0; i < schema->column_count; ++i) {
        if (schema->columns[i].kind == BO_COLUMN_NUMBER)
            BO_TRY(settle_numbers(context, fit, reader, i));
        else if (schema->columns[i].kind == BO_COLUMN_CATEGORY)
            BO_TRY(settle_text(context, fit, reader, i));
    }
    omit_numbered(fit);
    for (size_t i = 0; i < schema->column_count; ++i) {
        if (bo_column_is_input(&schema->columns[i])) settle_fill(fit, &schema->columns[i], &fit->collectors[i]);
        settle_origin(fit, i);
        if (schema->columns[i].kind == BO_COLUMN_UNUSED) warn_omitted(context, fit, reader, i);
    }
    return BO_OK;
}
