/* A schema as JSON text in a model file. Runs of equal columns are written as one entry, so that ten thousand pixels
 * are one entry: {"kind": "number", "count": 10000}. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "enums.h"
#include "json.h"
#include "output.h"
#include "schema.h"

/* Version 1 has numbers, categories, targets and unused columns. Up to version 2 there are no origins. */
enum { BO_SCHEMA_VERSION = 3, BO_SCHEMA_DEPTH = 8, BO_SCHEMA_BYTES = 1 << 28, BO_MAX_FOLDS = 64 };

static const char *const task_names[] = {"none", "regression", "classification"};
static const char *const kind_names[BO_COLUMN_KINDS] = {"number", "category", "target", "unused", "boolean",
                                                        "date",   "encoded",  "weight", "group"};
static const char *const date_names[BO_DATE_FORMS] = {"year-month-day", "day-month-year", "month-day-year"};

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static void write_labels(bo_json_text *text, const bo_categories *set)
{
    bo_json_raw(text, "[");
    for (size_t i = 0; i < set->count; ++i) {
        if (i) bo_json_raw(text, ", ");
        bo_json_string(text, set->items[i].text);
    }
    bo_json_raw(text, "]");
}

static bool is_plain(const bo_column *column)
{
    return column->kind == BO_COLUMN_NUMBER && !column->name && isnan(column->fill) && !column->indicator &&
           !column->missing && column->origin == 0;
}

static void write_whole(bo_json_text *text, const char *member, size_t value)
{
    bo_json_raw(text, ", ");
    bo_json_string(text, member);
    bo_json_raw(text, ": ");
    bo_json_whole(text, value);
}

static void write_name(bo_json_text *text, const char *member, const char *value)
{
    bo_json_raw(text, ", ");
    bo_json_string(text, member);
    bo_json_raw(text, ": ");
    bo_json_string(text, value);
}

static void write_numbers(bo_json_text *text, const char *member, const double *values, size_t count)
{
    bo_json_raw(text, ", ");
    bo_json_string(text, member);
    bo_json_raw(text, ": [");
    for (size_t i = 0; i < count; ++i) {
        if (i) bo_json_raw(text, ", ");
        bo_json_number(text, values[i]);
    }
    bo_json_raw(text, "]");
}

/* The number of codes of a target-encoded column, for one fold or all rows. */
static size_t code_count(const bo_schema *schema, const bo_column *column)
{
    return (column->categories.count + 1) * bo_schema_code_width(schema);
}

/* Members that only some kinds of columns have. */
static void write_details(bo_json_text *text, const bo_schema *schema, const bo_column *column, bool folds)
{
    if (column->kind == BO_COLUMN_CATEGORY || column->kind == BO_COLUMN_ENCODED) {
        bo_json_raw(text, ", \"categories\": ");
        write_labels(text, &column->categories);
    }
    if (column->kind == BO_COLUMN_TARGET) write_whole(text, "target", column->first);
    if (column->kind == BO_COLUMN_DATE) {
        write_name(text, "order", date_names[column->date]);
        if (column->has_time) bo_json_raw(text, ", \"time\": true");
    }
    if (column->kind == BO_COLUMN_ENCODED) {
        const size_t count = code_count(schema, column);
        write_numbers(text, "codes", column->codes, count);
        if (folds && column->fold_codes) write_numbers(text, "fold_codes", column->fold_codes, schema->folds * count);
    }
    if (column->kind == BO_COLUMN_UNUSED && column->why) write_name(text, "why", bo_omission_name(column->why));
    if (column->kind == BO_COLUMN_UNUSED && column->values) write_whole(text, "values", column->values);
    if (column->missing) write_whole(text, "missing", column->missing);
    if (column->indicator) bo_json_raw(text, ", \"indicator\": true");
}

/* Returns the number of columns written. */
static size_t write_columns(bo_json_text *text, const bo_schema *schema, size_t first, bool folds)
{
    const bo_column *column = &schema->columns[first];
    size_t count = 1;
    bo_json_raw(text, "{\"kind\": ");
    bo_json_string(text, kind_names[column->kind]);
    if (is_plain(column)) {
        while (first + count < schema->column_count && is_plain(column + count)) ++count;
        if (count > 1) write_whole(text, "count", count);
    }
    if (column->name) write_name(text, "name", column->name);
    if (!isnan(column->fill)) {
        bo_json_raw(text, ", \"fill\": ");
        bo_json_number(text, column->fill);
    }
    if (column->origin != 0) {
        bo_json_raw(text, ", \"origin\": ");
        bo_json_number(text, column->origin);
    }
    write_details(text, schema, column, folds);
    bo_json_raw(text, "}");
    return count;
}

/* `folds`: with the codes for training rows. */
bo_status bo_schema_write(bo_context *context, const bo_schema *schema, bool folds, void **bytes, size_t *size)
{
    bo_json_text text = {.context = context};
    bo_json_raw(&text, "{\"version\": ");
    bo_json_whole(&text, BO_SCHEMA_VERSION);
    bo_json_raw(&text, ", \"format\": ");
    bo_json_string(&text, bo_format_name(schema->format));
    bo_json_raw(&text, ", \"task\": ");
    bo_json_string(&text, task_names[schema->task]);
    bo_json_raw(&text, ", \"impute\": ");
    bo_json_string(&text, bo_impute_name(schema->impute));
    bo_json_raw(&text, ", \"rows\": ");
    bo_json_whole(&text, schema->rows);
    bo_json_raw(&text, schema->named ? ", \"named\": true" : ", \"named\": false");
    bo_json_raw(&text, schema->separate_labels ? ", \"separate_labels\": true" : ", \"separate_labels\": false");
    bo_json_raw(&text, ", \"targets\": [");
    for (size_t i = 0; i < schema->targets; ++i) {
        if (i) bo_json_raw(&text, ", ");
        bo_json_string(&text, schema->target_names[i]);
    }
    bo_json_raw(&text, "], \"classes\": ");
    write_labels(&text, &schema->classes);
    if (folds && schema->folds) {
        char seed[24];
        snprintf(seed, sizeof seed, "%llu", (unsigned long long)schema->fold_seed); /* beyond the range of a double */
        write_whole(&text, "folds", schema->folds);
        write_name(&text, "fold_seed", seed);
    }
    bo_json_raw(&text, ", \"columns\": [");
    for (size_t i = 0; i < schema->column_count;) {
        if (i) bo_json_raw(&text, ", ");
        i += write_columns(&text, schema, i, folds);
    }
    bo_json_raw(&text, "]}");
    if (text.failed) return BO_MEMORY;
    *bytes = text.bytes;
    *size = text.length;
    return BO_OK;
}

static bo_status save_schema(bo_context *context, const bo_schema *schema, bool folds, const bo_sink *sink)
{
    bo_output *output;
    void *bytes = NULL;
    size_t size;
    BO_TRY(bo_output_open_sink(context, sink, &output));
    bo_status status = bo_schema_write(context, schema, folds, &bytes, &size);
    if (status == BO_OK) status = bo_output_write(context, output, bytes, size);
    bo_free(bytes);
    return bo_output_finish(context, output, status);
}

bo_status bo_schema_save(bo_context *context, const bo_schema *schema, const bo_sink *sink)
{
    bo_sink_clear(sink);
    BO_REQUIRE(context, schema, sink);
    return save_schema(context, schema, false, sink);
}

bo_status bo_schema_share(bo_context *context, const bo_schema *schema, const bo_sink *sink)
{
    bo_sink_clear(sink);
    BO_REQUIRE(context, schema, sink);
    return save_schema(context, schema, true, sink);
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static bo_status malformed(bo_context *context, const char *what)
{
    return bo_fail(context, BO_FORMAT, "the schema in the model is malformed: %s", what);
}

static const bo_json *member(const bo_json *object, const char *name)
{
    return bo_json_member(object, name);
}

/* The index of a string among `names`, or `count`. */
static int choice(const bo_json *item, const char *const *names, int count)
{
    const char *value = bo_json_text_or_null(item);
    for (int i = 0; i < count; ++i)
        if (value && strcmp(value, names[i]) == 0) return i;
    return count;
}

static bo_status read_labels(bo_context *context, const bo_json *array, bo_categories *set)
{
    const bo_json *item;
    size_t count = 0;
    if (!bo_json_is(array, BO_JSON_ARRAY)) return malformed(context, "expected a list of categories or classes");
    BO_JSON_EACH(item, array)
    {
        const char *label = bo_json_text_or_null(item);
        if (!label) return malformed(context, "expected strings as categories or classes");
        bo_status status = bo_categories_add_label(context, set, label);
        if (status == BO_INVALID) return malformed(context, "too many categories or classes");
        if (status != BO_OK) return status;
        if (set->count != ++count) return malformed(context, "a category or class occurs twice");
    }
    return BO_OK;
}

static bo_status count_columns(bo_context *context, const bo_json *array, size_t *columns)
{
    const bo_json *item;
    *columns = 0;
    if (!bo_json_is(array, BO_JSON_ARRAY)) return malformed(context, "expected a list of columns");
    BO_JSON_EACH(item, array)
    {
        const bo_json *count = member(item, "count");
        size_t n = 1;
        if (!bo_json_is(item, BO_JSON_OBJECT) || (count && (!bo_json_size(count, &n) || n == 0 || n > BO_MAX_COLUMNS)))
            return malformed(context, "a column entry is invalid");
        *columns += n;
        if (*columns > BO_MAX_COLUMNS) return malformed(context, "too many columns");
    }
    return *columns ? BO_OK : malformed(context, "expected at least one column");
}

static bo_status read_codes(bo_context *context, const bo_json *array, size_t count, double **out)
{
    const bo_json *item;
    size_t i = 0;
    if (!bo_json_is(array, BO_JSON_ARRAY) || (size_t)bo_json_count(array) != count)
        return malformed(context, "the codes of a column are invalid");
    double *codes = *out = bo_alloc_raw(context, count, sizeof *codes, "codes of categories");
    if (!codes) return BO_MEMORY;
    BO_JSON_EACH(item, array)
    {
        /* x is float32 */
        if (!bo_json_is(item, BO_JSON_NUMBER) || !(fabs(item->number) <= FLT_MAX))
            return malformed(context, "a code of a column is invalid");
        codes[i++] = item->number;
    }
    return BO_OK;
}

static bo_status read_encoded(bo_context *context, const bo_json *item, const bo_schema *schema, bo_column *column)
{
    const bo_json *folds = member(item, "fold_codes");
    BO_TRY(read_labels(context, member(item, "categories"), &column->categories));
    if (schema->targets == 0) return malformed(context, "an encoded column needs a target");
    const size_t count = code_count(schema, column);
    BO_TRY(read_codes(context, member(item, "codes"), count, &column->codes));
    if (!folds && schema->folds == 0) return BO_OK;
    return read_codes(context, folds, schema->folds * count, &column->fold_codes);
}

static bo_status read_date(bo_context *context, const bo_json *item, bo_column *column)
{
    const int form = choice(member(item, "order"), date_names, BO_DATE_FORMS);
    if (form == BO_DATE_FORMS) return malformed(context, "the order of a date is invalid");
    column->date = (bo_date_form)form;
    column->has_time = bo_json_is(member(item, "time"), BO_JSON_TRUE);
    /* 10,000 years */
    return isnan(column->fill) || fabs(column->fill) < 4e6 ? BO_OK
                                                           : malformed(context, "the fill value of a date is invalid");
}

static bo_status read_details(bo_context *context, const bo_json *item, const bo_schema *schema, bo_column *column)
{
    const char *why = bo_json_text_or_null(member(item, "why"));
    bo_json_size(member(item, "missing"), &column->missing);
    column->indicator = bo_json_is(member(item, "indicator"), BO_JSON_TRUE);
    switch (column->kind) {
    case BO_COLUMN_CATEGORY:
        return read_labels(context, member(item, "categories"), &column->categories);
    case BO_COLUMN_ENCODED:
        return read_encoded(context, item, schema, column);
    case BO_COLUMN_DATE:
        return read_date(context, item, column);
    case BO_COLUMN_TARGET:
        if (!bo_json_size(member(item, "target"), &column->first) || column->first >= schema->targets ||
            schema->separate_labels)
            return malformed(context, "a target column is invalid");
        return BO_OK;
    case BO_COLUMN_UNUSED:
        bo_json_size(member(item, "values"), &column->values);
        if (why && !bo_omission_parse(why, &column->why))
            return malformed(context, "the reason of an unused column is unknown");
        return BO_OK;
    default:
        return BO_OK;
    }
}

static bo_status read_column(bo_context *context, const bo_json *item, bo_schema *schema, bo_column *column)
{
    const bo_json *name = member(item, "name"), *fill = member(item, "fill"), *origin = member(item, "origin");
    int kind = choice(member(item, "kind"), kind_names, BO_COLUMN_KINDS);
    if (kind == BO_COLUMN_KINDS) return malformed(context, "the kind of a column is invalid");
    column->kind = (bo_column_kind)kind;
    if (name && !bo_json_is(name, BO_JSON_TEXT)) return malformed(context, "the name of a column is invalid");
    if (name && strlen(name->text) > BO_MAX_NAME)
        return bo_fail(
            context, BO_FORMAT,
            "the schema in the model is malformed: the name of column %zu has %zu bytes, expected at most %d",
            (size_t)(column - schema->columns), strlen(name->text), BO_MAX_NAME);
    if (!name != !schema->named) return malformed(context, "expected names for all columns or for none");
    if (name && !(column->name = bo_strdup(context, name->text))) return BO_MEMORY;
    if (fill && (!bo_json_is(fill, BO_JSON_NUMBER) || !isfinite(fill->number)))
        return malformed(context, "the fill value of a column is invalid");
    if (fill) column->fill = fill->number;
    if (origin &&
        (column->kind != BO_COLUMN_NUMBER || !bo_json_is(origin, BO_JSON_NUMBER) || !(fabs(origin->number) <= FLT_MAX)))
        return malformed(context, "the origin of a column is invalid");
    if (origin) column->origin = origin->number;
    return read_details(context, item, schema, column);
}

/* `seen` has a flag for each target. */
static bo_status read_list(bo_context *context, const bo_json *array, bo_schema *schema, bool *seen)
{
    const bo_json *item;
    size_t at = 0, targets = 0;
    BO_JSON_EACH(item, array)
    {
        size_t count = 1;
        bo_json_size(member(item, "count"), &count);
        bo_column *column = &schema->columns[at];
        BO_TRY(read_column(context, item, schema, column));
        if (count > 1 && !is_plain(column)) return malformed(context, "a repeated column is invalid");
        if (column->kind == BO_COLUMN_TARGET) {
            if (seen[column->first]) return malformed(context, "a target occurs twice");
            seen[column->first] = true;
            ++targets;
        }
        at += count;
    }
    if (!schema->separate_labels && targets != schema->targets) return malformed(context, "a target has no column");
    return BO_OK;
}

static bo_status read_columns(bo_context *context, const bo_json *array, bo_schema *schema)
{
    bool *seen = bo_alloc(context, schema->targets, sizeof *seen, "targets of a schema");
    const bo_status status = seen ? read_list(context, array, schema, seen) : BO_MEMORY;
    bo_free(seen);
    return status;
}

static bo_status read_targets(bo_context *context, const bo_json *array, bo_schema *schema)
{
    const bo_json *item;
    size_t i = 0;
    BO_JSON_EACH(item, array)
    {
        const char *name = bo_json_text_or_null(item);
        if (!name) return malformed(context, "the name of a target is invalid");
        if (!(schema->target_names[i++] = bo_strdup(context, name))) return BO_MEMORY;
    }
    return BO_OK;
}

/* Only bo_schema_share writes folds. */
static bo_status read_folds(bo_context *context, const bo_json *json, bo_schema *schema)
{
    const bo_json *folds = member(json, "folds");
    const char *seed = bo_json_text_or_null(member(json, "fold_seed"));
    char *end = NULL;
    if (!folds && !seed) return BO_OK;
    if (!bo_json_size(folds, &schema->folds) || schema->folds < 2 || schema->folds > BO_MAX_FOLDS || !seed)
        return malformed(context, "folds or fold_seed is invalid");
    schema->fold_seed = strtoull(seed, &end, 10);
    return *seed && !*end ? BO_OK : malformed(context, "folds or fold_seed is invalid");
}

static bo_status read_members(bo_context *context, const bo_json *json, bo_schema *schema)
{
    int task = choice(member(json, "task"), task_names, 3);
    const bo_json *named = member(json, "named"), *separate = member(json, "separate_labels");
    if (!bo_format_parse(bo_json_text_or_null(member(json, "format")), &schema->format) ||
        !bo_impute_parse(bo_json_text_or_null(member(json, "impute")), &schema->impute) ||
        schema->format == BO_FORMAT_AUTO || task == 3 || !bo_json_is_bool(named) || !bo_json_is_bool(separate) ||
        !bo_json_size(member(json, "rows"), &schema->rows))
        return malformed(context, "format, task, impute, rows, named or separate_labels is missing or invalid");
    schema->task = (bo_task)task;
    schema->named = bo_json_is(named, BO_JSON_TRUE);
    schema->separate_labels = bo_json_is(separate, BO_JSON_TRUE);
    if ((schema->task == BO_TASK_AUTO) != (schema->targets == 0))
        return malformed(context, "task and targets disagree");
    BO_TRY(read_targets(context, member(json, "targets"), schema));
    BO_TRY(read_labels(context, member(json, "classes"), &schema->classes));
    if ((schema->task == BO_TASK_CLASSIFICATION) != (schema->classes.count > 0) ||
        (schema->classes.count && schema->targets != 1))
        return malformed(context, "task and classes disagree");
    BO_TRY(read_folds(context, json, schema));
    BO_TRY(read_columns(context, member(json, "columns"), schema));
    BO_TRY(bo_schema_finish(context, schema));
    return schema->dim ? bo_schema_note(context, schema) : malformed(context, "expected at least one input");
}

static bo_status read_schema(bo_context *context, const bo_json *json, bo_schema **out)
{
    const bo_json *targets = member(json, "targets");
    size_t version, columns;
    if (!bo_json_is(json, BO_JSON_OBJECT) || !bo_json_size(member(json, "version"), &version))
        return malformed(context, "the version is missing");
    if (version > BO_SCHEMA_VERSION)
        return bo_fail(
            context, BO_VERSION,
            "the schema in the model has version %zu; this library reads versions up to %d (install a newer version)",
            version, BO_SCHEMA_VERSION);
    if (!bo_json_is(targets, BO_JSON_ARRAY)) return malformed(context, "expected a list of targets");
    BO_TRY(count_columns(context, member(json, "columns"), &columns));
    bo_schema *schema;
    BO_TRY(bo_schema_new(context, columns, (size_t)bo_json_count(targets), &schema));
    bo_status status = read_members(context, json, schema);
    if (status != BO_OK)
        bo_schema_destroy(schema);
    else
        *out = schema;
    return status;
}

bo_status bo_schema_parse(bo_context *context, const char *text, size_t size, bo_schema **out)
{
    bo_json *json;
    if (size > BO_SCHEMA_BYTES) return malformed(context, "it is too large");
    BO_TRY(bo_json_parse(context, "the schema in the model", text, size, BO_SCHEMA_DEPTH, &json));
    const bo_status status = read_schema(context, json, out);
    bo_json_delete(json);
    return status;
}

bo_status bo_schema_load(bo_context *context, const bo_source *source, bo_schema **out)
{
    if (out) *out = NULL;
    BO_REQUIRE(context, source, out);
    bo_bytes *bytes;
    char *text;
    size_t size;
    BO_TRY(bo_bytes_open_source(context, source, &bo_limits_network, false, &bytes));
    bo_status status = bo_bytes_rest(context, bytes, &text, &size);
    if (status == BO_OK) {
        status = bo_schema_parse(context, text, size, out);
        bo_free(text);
    }
    bo_bytes_close(bytes);
    return status;
}
