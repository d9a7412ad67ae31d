/* Fits the inputs of a schema: what each column is, and the replacements of missing values. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "schema_fit.h"

/* ---- words ------------------------------------------------------------------------------------------------ */

bool bo_is_missing_word(const char *text)
{
    return (text[0] == '-' && text[1] == 0) || strcasecmp(text, "none") == 0;
}

int bo_truth_read(const char *text, int *family)
{
    static const char *const words[][2] = {{"false", "true"}, {"no", "yes"}, {"f", "t"}, {"n", "y"}};
    for (int i = 0; i < 4; ++i)
        for (int truth = 0; truth < 2; ++truth)
            if (strcasecmp(text, words[i][truth]) == 0) {
                *family = i;
                return truth;
            }
    return -1;
}

/* id, customer_id, customer-id, PassengerId: a column that names rows. */
static bool is_id_name(const char *name)
{
    const size_t length = name ? strlen(name) : 0;
    if (length < 2 || strcasecmp(name + length - 2, "id") != 0) return false;
    const char before = length > 2 ? name[length - 3] : '_';
    return strchr("_-. ", before) || (name[length - 2] == 'I' && before >= 'a' && before <= 'z');
}

/* ---- observing -------------------------------------------------------------------------------------------- */

/* Running mean; for the median all values, or a uniform sample (reservoir sampling, Vitter 1985, algorithm R). */
static bo_status observe_number(bo_context *context, const bo_data_desc *desc, bo_collector *collector, double value)
{
    if (desc->impute == BO_IMPUTE_MEAN || desc->impute == BO_IMPUTE_AUTO) {
        const double count = (double)collector->numbers, difference = value - collector->mean; /* which may overflow */
        collector->mean += isfinite(difference) ? difference / count : value / count - collector->mean / count;
    }
    if (desc->impute != BO_IMPUTE_MEDIAN) return BO_OK;
    if (desc->sample_rows && collector->stored == desc->sample_rows) {
        uint64_t place = bo_rng_below(&collector->rng, collector->numbers);
        if (place < collector->stored) collector->values[place] = (float)value;
        return BO_OK;
    }
    if (collector->stored == collector->capacity) {
        size_t capacity = collector->capacity ? 2 * collector->capacity : 256;
        float *values = bo_realloc(context, collector->values, capacity, sizeof *values, "values for a median");
        if (!values) return BO_MEMORY;
        collector->values = values;
        collector->capacity = capacity;
    }
    collector->values[collector->stored++] = (float)value;
    return BO_OK;
}

/* What tells row numbers from other numbers. */
static bo_status observe_integer(bo_context *context, const bo_column *column, bo_collector *collector, double value)
{
    enum { FIRST_VALUES = 4096 };
    if (value != floor(value) || fabs(value) > 0x1p53) {
        collector->fraction = true;
        return BO_OK;
    }
    if (collector->numbers == 1 || value < collector->low) collector->low = value;
    if (collector->numbers == 1 || value > collector->high) collector->high = value;
    collector->print += bo_hash(0, (uint64_t)(int64_t)value);
    if (collector->repeated || collector->numbers > FIRST_VALUES || !is_id_name(column->name)) return BO_OK;
    const size_t before = collector->first.count;
    BO_TRY(bo_categories_add(context, &collector->first, value, NULL));
    collector->repeated = collector->first.count == before;
    return BO_OK;
}

static void observe_text(bo_collector *collector, const char *text)
{
    int family = 0;
    bool has_time;
    const int truth = bo_truth_read(text, &family);
    collector->truths &= truth < 0 ? 0 : 1u << family;
    collector->true_count += truth == 1;
    if (!collector->dates) return;
    collector->dates &= bo_date_forms(text, &has_time);
    collector->has_time |= has_time;
    for (int form = 0; form < BO_DATE_FORMS; ++form) {
        double days = 0;
        if (collector->dates & 1u << form && bo_date_read(text, (bo_date_form)form, &days))
            collector->days[form] += days;
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

static bo_status refuse_missing(bo_context *context, const bo_cell *cell)
{
    char place[BO_PLACE_TEXT];
    return bo_fail(context, BO_FORMAT,
                   "%s: expected a value, found a missing value (use --impute mean, in C BO_IMPUTE_MEAN, to replace "
                   "missing values)",
                   bo_cell_place(cell, place));
}

bo_status bo_column_observe_label(bo_context *context, bo_fit *fit, const bo_cell *cell)
{
    bo_column *column = &fit->schema->columns[cell->column];
    bo_collector *collector = &fit->collectors[cell->column];
    if (cell->text ? bo_is_missing_word(cell->text) : isnan(cell->value)) return BO_OK;
    if (collector->full_at) return BO_OK;
    const bo_status status = bo_categories_add(context, &column->categories, cell->value, cell->text);
    if (status != BO_INVALID) return status;
    collector->full_at = collector->numbers + collector->texts;
    if (!collector->forced) return BO_OK; /* other values have the code of unknown ones */
    char place[BO_PLACE_TEXT];
    return bo_fail(context, BO_UNSUPPORTED, "%s: expected at most %d different categories in one column; use --drop",
                   bo_cell_place(cell, place), BO_MAX_CATEGORIES);
}

/* The first text of a column: it is no column of numbers. */
static bo_status become_text(bo_context *context, bo_fit *fit, const bo_cell *cell)
{
    bo_collector *collector = &fit->collectors[cell->column];
    if (fit->refuse_text) return refuse_text(context, cell);
    fit->schema->columns[cell->column].kind = BO_COLUMN_CATEGORY;
    collector->late = collector->numbers > 0;
    fit->second_pass |= collector->late;
    snprintf(collector->odd, sizeof collector->odd, "%.60s", cell->text);
    collector->odd_line = cell->line;
    return BO_OK;
}

bo_status bo_column_observe(bo_context *context, bo_fit *fit, const bo_cell *cell)
{
    char place[BO_PLACE_TEXT];
    bo_column *column = &fit->schema->columns[cell->column];
    bo_collector *collector = &fit->collectors[cell->column];
    const char *text = cell->text;
    if (column->kind == BO_COLUMN_NUMBER && isfinite(cell->value)) text = NULL; /* a code */
    if (!text && isinf(cell->value))
        return bo_fail(context, BO_FORMAT, "%s: expected a finite number, found an infinite value",
                       bo_cell_place(cell, place));
    if (text ? bo_is_missing_word(text) : isnan(cell->value)) {
        ++column->missing;
        const bo_impute impute = fit->desc->impute;
        const bool pairs = fit->schema->format == BO_FORMAT_LIBSVM; /* absent numbers are 0, not missing */
        return impute == BO_IMPUTE_NONE || (impute == BO_IMPUTE_AUTO && pairs) ? refuse_missing(context, cell) : BO_OK;
    }
    if (column->kind == BO_COLUMN_NUMBER && text) BO_TRY(become_text(context, fit, cell));
    if (text) {
        ++collector->texts;
        observe_text(collector, text);
    } else {
        ++collector->numbers;
        BO_TRY(observe_integer(context, column, collector, cell->value));
        BO_TRY(observe_number(context, fit->desc, collector, cell->value));
    }
    return column->kind == BO_COLUMN_NUMBER || collector->late ? BO_OK : bo_column_observe_label(context, fit, cell);
}

/* ---- deciding --------------------------------------------------------------------------------------------- */

/* True for tables of cells, as opposed to arrays and sparse rows. */
static bool has_cells(const bo_schema *schema)
{
    return schema->format == BO_FORMAT_CSV || schema->format == BO_FORMAT_SPACED;
}

/* All different, consecutive integers in any order; or different integers in a column named id. The sum of hashes
 * compares the set of values with low … high. */
static bool is_numbered(const bo_fit *fit, const bo_column *column, const bo_collector *collector)
{
    const size_t rows = fit->schema->rows + fit->schema->unlabeled;
    if (column->kind != BO_COLUMN_NUMBER || collector->kept || collector->fraction || column->missing) return false;
    if (!has_cells(fit->schema) || rows < BO_NUMBERED_LEAST || collector->numbers != rows) return false;
    if (is_id_name(column->name) && !collector->repeated) return true;
    if (collector->high - collector->low + 1 != (double)rows) return false;
    uint64_t print = 0;
    for (size_t i = 0; i < rows; ++i) print += bo_hash(0, (uint64_t)((int64_t)collector->low + (int64_t)i));
    return print == collector->print;
}

/* Most values occur once, as in names, comments and ids. */
static bool is_nearly_unique(const bo_column *column, const bo_collector *collector)
{
    const size_t seen = collector->full_at ? collector->full_at : collector->numbers + collector->texts;
    return column->categories.count > BO_UNIQUE_LEAST && 2 * column->categories.count > seen;
}

static void leave_out(bo_column *column, bo_omission why)
{
    column->kind = BO_COLUMN_UNUSED;
    column->why = why;
    column->values = column->categories.count;
    bo_categories_free(&column->categories);
}

static bool is_one_form(unsigned mask)
{
    return mask && !(mask & (mask - 1));
}

/* Few texts among many different numbers are mistakes; among few numbers they may be categories, as in 0, 1, 2, 3+. */
static bool has_odd_text(const bo_column *column, const bo_collector *collector)
{
    return collector->late && !collector->kept && collector->numbers >= 9 * collector->texts &&
           column->categories.count > BO_ONE_HOT_MOST;
}

static bo_status refuse_odd_text(bo_context *context, const bo_collector *collector, const bo_reader *reader,
                                 size_t index)
{
    char label[BO_COLUMN_TEXT];
    return bo_fail(
        context, BO_FORMAT,
        "%s: line %zu, %s: expected a number, as in most rows, found '%s' (correct it, write NA for a missing "
        "value, or use --drop to ignore the column)",
        bo_reader_path(reader), collector->odd_line, bo_reader_column_label(reader, index, label), collector->odd);
}

static void become_dates(bo_column *column, const bo_collector *collector)
{
    column->kind = BO_COLUMN_DATE;
    while (collector->dates != 1u << column->date) ++column->date;
    column->has_time = collector->has_time;
    bo_categories_free(&column->categories);
}

/* A column with text: dates, truth values, or categories. */
static bo_status settle_text(bo_context *context, const bo_fit *fit, const bo_reader *reader, size_t index)
{
    bo_column *column = &fit->schema->columns[index];
    const bo_collector *collector = &fit->collectors[index];
    const bool encodes = fit->schema->targets > 0 && !fit->desc->keep_unlabeled;
    char label[BO_COLUMN_TEXT];
    bo_categories_sort(&column->categories);
    if (collector->forced) return BO_OK;
    if (has_odd_text(column, collector)) return refuse_odd_text(context, collector, reader, index);
    if (collector->numbers == 0 && is_one_form(collector->dates)) {
        become_dates(column, collector);
        return BO_OK;
    }
    if (collector->numbers == 0 && collector->truths) {
        column->kind = BO_COLUMN_BOOLEAN;
        bo_categories_free(&column->categories);
        return BO_OK;
    }
    if (collector->numbers == 0 && collector->dates)
        bo_log(
            context, BO_LOG_WARNING,
            "%s: %s: dates such as '%s' can be read as day and month or as month and day, and are read as text; write "
            "them as 2024-01-31",
            bo_reader_path(reader), bo_reader_column_label(reader, index, label), collector->odd);
    if (!collector->kept && is_nearly_unique(column, collector))
        leave_out(column, BO_OMIT_UNIQUE);
    else if (column->categories.count > BO_ONE_HOT_MOST && !encodes)
        leave_out(column, BO_OMIT_UNTARGETED);
    else if (column->categories.count > BO_ONE_HOT_MOST)
        column->kind = BO_COLUMN_ENCODED;
    return BO_OK;
}

/* Row numbers are left out unless they are the only input. */
static void leave_out_numbered(bo_fit *fit)
{
    size_t others = 0;
    for (size_t i = 0; i < fit->schema->column_count; ++i) {
        const bo_column *column = &fit->schema->columns[i];
        others += bo_column_is_input(column) && !is_numbered(fit, column, &fit->collectors[i]);
    }
    for (size_t i = 0; i < fit->schema->column_count && others > 0; ++i)
        if (is_numbered(fit, &fit->schema->columns[i], &fit->collectors[i]))
            leave_out(&fit->schema->columns[i], BO_OMIT_NUMBERED);
}

static int by_value(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static double median(bo_collector *collector)
{
    const size_t n = collector->stored;
    qsort(collector->values, n, sizeof *collector->values, by_value);
    return 0.5 * ((double)collector->values[(n - 1) / 2] + (double)collector->values[n / 2]);
}

/* What replaces a missing value. Binary files and libsvm text are imputed only where values are missing, so that their
 * rows are converted without a look at each number. */
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
    if (column->kind == BO_COLUMN_DATE) column->fill = collector->days[column->date] / (double)collector->texts;
}

static void warn_left_out(bo_context *context, const bo_fit *fit, const bo_reader *reader, size_t index)
{
    const bo_column *column = &fit->schema->columns[index];
    char label[BO_COLUMN_TEXT];
    const char *path = bo_reader_path(reader);
    bo_reader_column_label(reader, index, label);
    switch (column->why) {
    case BO_OMIT_NUMBERED:
        bo_log(
            context, BO_LOG_WARNING,
            "%s: %s is left out: it numbers the rows (use --drop to silence this, or --keep with the columns to use)",
            path, label);
        break;
    case BO_OMIT_UNIQUE:
        bo_log(
            context, BO_LOG_WARNING,
            "%s: %s is left out: its text is nearly unique, with %zu values in %zu rows (use --drop to silence this, or "
            "--keep with the columns to use)",
            path, label, column->values, fit->schema->rows + fit->schema->unlabeled - column->missing);
        break;
    case BO_OMIT_EMPTY:
        bo_log(context, BO_LOG_WARNING, "%s: %s is left out: all its values are missing", path, label);
        break;
    case BO_OMIT_UNTARGETED:
        bo_log(
            context, BO_LOG_WARNING,
            "%s: %s is left out: it has %zu different values, more than %d (use --categorical with the column to one-hot "
            "encode it)",
            path, label, column->values, BO_ONE_HOT_MOST);
        break;
    case BO_OMIT_REQUESTED:
        break;
    }
}

static bo_status settle_empty(bo_context *context, const bo_fit *fit, const bo_reader *reader, size_t index)
{
    char label[BO_COLUMN_TEXT];
    if (fit->desc->impute == BO_IMPUTE_AUTO) {
        leave_out(&fit->schema->columns[index], BO_OMIT_EMPTY);
        return BO_OK;
    }
    return bo_fail(context, BO_FORMAT, "%s: %s: expected at least one value to impute from, found only missing values",
                   bo_reader_path(reader), bo_reader_column_label(reader, index, label));
}

bo_status bo_columns_settle(bo_context *context, bo_fit *fit, const bo_reader *reader)
{
    bo_schema *schema = fit->schema;
    for (size_t i = 0; i < schema->column_count; ++i) {
        const bo_collector *collector = &fit->collectors[i];
        if (!bo_column_is_input(&schema->columns[i])) continue;
        if (schema->columns[i].missing && collector->numbers + collector->texts == 0)
            BO_TRY(settle_empty(context, fit, reader, i));
        else if (schema->columns[i].kind == BO_COLUMN_CATEGORY)
            BO_TRY(settle_text(context, fit, reader, i));
    }
    leave_out_numbered(fit);
    for (size_t i = 0; i < schema->column_count; ++i) {
        if (bo_column_is_input(&schema->columns[i])) settle_fill(fit, &schema->columns[i], &fit->collectors[i]);
        if (schema->columns[i].kind == BO_COLUMN_UNUSED) warn_left_out(context, fit, reader, i);
    }
    return BO_OK;
}
