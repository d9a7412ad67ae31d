/* Schemas as objects, and as JSON text in model files. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "json.h"
#include "schema.h"

/* ====================================================================================================================
 * The schema object. */

bo_status bo_schema_new(bo_context *context, size_t columns, size_t targets, bo_schema **out)
{
    *out = NULL;
    bo_schema *schema = bo_alloc(context, 1, sizeof *schema, "a schema");
    if (!schema) return BO_MEMORY;
    schema->references = 1;
    schema->columns = bo_alloc(context, columns, sizeof *schema->columns, "columns of a schema");
    schema->target_names = bo_alloc(context, targets, sizeof *schema->target_names, "targets of a schema");
    if (!schema->columns || !schema->target_names) {
        bo_schema_destroy(schema);
        return BO_MEMORY;
    }
    schema->column_count = columns;
    schema->targets = targets;
    for (size_t i = 0; i < columns; ++i) schema->columns[i].fill = NAN;
    *out = schema;
    return BO_OK;
}

/* Writes the name of a column, or of its category k, to `text`, at most `room` bytes; returns its length with the NUL. */
static size_t write_name(const bo_schema *schema, size_t i, size_t k, char *text, size_t room)
{
    const bo_column *column = &schema->columns[i];
    char numbered[40];
    snprintf(numbered, sizeof numbered, schema->format == BO_FORMAT_LIBSVM ? "feature %zu" : "column %zu", i);
    const bool category = column->kind == BO_COLUMN_CATEGORY;
    return (size_t)snprintf(text, room, "%s%s%s", column->name ? column->name : numbered, category ? "=" : "",
                            category ? column->categories.items[k].text : "") +
           1;
}

/* Names all inputs in schema->input_text, or with text NULL only returns the bytes that they need. */
static size_t name_inputs(bo_schema *schema, char *text, size_t room)
{
    size_t at = 0, used = 0;
    for (size_t i = 0; i < schema->column_count; ++i) {
        const bo_column *column = &schema->columns[i];
        const size_t count = column->kind == BO_COLUMN_NUMBER     ? 1
                             : column->kind == BO_COLUMN_CATEGORY ? column->categories.count
                                                                  : 0;
        for (size_t k = 0; k < count; ++k) {
            if (text) schema->inputs[at++] = text + used;
            used += write_name(schema, i, k, text ? text + used : NULL, text ? room - used : 0);
        }
    }
    return used;
}

bo_status bo_schema_finish(bo_context *context, bo_schema *schema)
{
    schema->dim = 0;
    for (size_t i = 0; i < schema->column_count; ++i) {
        bo_column *column = &schema->columns[i];
        if (column->kind == BO_COLUMN_NUMBER || column->kind == BO_COLUMN_CATEGORY) {
            column->first = schema->dim;
            schema->dim += column->kind == BO_COLUMN_NUMBER ? 1 : column->categories.count;
        }
    }
    schema->common_unit = schema->format == BO_FORMAT_IDX || schema->format == BO_FORMAT_LIBSVM;
    schema->inputs = bo_alloc(context, schema->dim, sizeof *schema->inputs, "names of a schema");
    const size_t bytes = name_inputs(schema, NULL, 0);
    schema->input_text = bo_alloc_raw(context, bytes, 1, "names of a schema");
    if (!schema->inputs || !schema->input_text) return BO_MEMORY;
    name_inputs(schema, schema->input_text, bytes);
    return BO_OK;
}

bool bo_schema_is_sparse(const bo_schema *schema)
{
    if (!schema || schema->format != BO_FORMAT_LIBSVM || schema->column_count < 2) return false;
    const bo_column_kind label = schema->columns[0].kind;
    if (label != BO_COLUMN_TARGET && label != BO_COLUMN_UNUSED) return false;
    for (size_t i = 1; i < schema->column_count; ++i)
        if (schema->columns[i].kind != BO_COLUMN_NUMBER || !isnan(schema->columns[i].fill)) return false;
    return true;
}

bo_schema *bo_schema_retain(const bo_schema *schema)
{
    bo_schema *shared = (bo_schema *)(uintptr_t)schema; /* only the reference count changes */
    __atomic_add_fetch(&shared->references, 1, __ATOMIC_RELAXED);
    return shared;
}

void bo_schema_destroy(bo_schema *schema)
{
    if (!schema || __atomic_sub_fetch(&schema->references, 1, __ATOMIC_ACQ_REL) > 0) return;
    if (schema->columns)
        for (size_t i = 0; i < schema->column_count; ++i) {
            bo_free(schema->columns[i].name);
            bo_categories_free(&schema->columns[i].categories);
        }
    if (schema->target_names)
        for (size_t i = 0; i < schema->targets; ++i) bo_free(schema->target_names[i]);
    bo_free(schema->columns);
    bo_free(schema->inputs);
    bo_free(schema->input_text);
    bo_free(schema->target_names);
    bo_categories_free(&schema->classes);
    bo_free(schema);
}

size_t bo_schema_inputs(const bo_schema *schema)
{
    return schema ? schema->dim : 0;
}

size_t bo_schema_targets(const bo_schema *schema)
{
    return schema ? schema->targets : 0;
}

size_t bo_schema_classes(const bo_schema *schema)
{
    if (!schema) return 0;
    return schema->task == BO_TASK_CLASSIFICATION ? schema->classes.count : 0;
}

const char *bo_schema_class(const bo_schema *schema, size_t index)
{
    if (!schema) return NULL;
    return index < schema->classes.count ? schema->classes.items[index].text : NULL;
}

const char *bo_schema_input(const bo_schema *schema, size_t index)
{
    if (!schema) return NULL;
    return index < schema->dim ? schema->inputs[index] : NULL;
}

const char *bo_schema_target(const bo_schema *schema, size_t index)
{
    if (!schema) return NULL;
    return index < schema->targets ? schema->target_names[index] : NULL;
}

size_t bo_schema_rows(const bo_schema *schema)
{
    return schema ? schema->rows : 0;
}

bool bo_schema_has_common_unit(const bo_schema *schema)
{
    return schema && schema->common_unit;
}

const char *bo_place(const bo_reader *reader, size_t row, size_t line, size_t column, char out[BO_PLACE_TEXT])
{
    char label[BO_COLUMN_TEXT];
    bo_reader_column_label(reader, column, label);
    if (line)
        snprintf(out, BO_PLACE_TEXT, "%.300s: line %zu, %s", bo_reader_path(reader), line, label);
    else
        snprintf(out, BO_PLACE_TEXT, "%.300s: row %zu, %s", bo_reader_path(reader), row, label);
    return out;
}

/* ====================================================================================================================
 * A schema as JSON text in a model file. Runs of equal columns are written as one entry, so that ten thousand pixels are
 * one entry: {"kind": "number", "count": 10000}. */

enum { BO_SCHEMA_VERSION = 1, BO_SCHEMA_DEPTH = 8, BO_SCHEMA_BYTES = 1 << 28 };

static const char *const task_names[] = {"none", "regression", "classification"};
static const char *const kind_names[] = {"number", "category", "target", "unused"};

/* ---- writing ----------------------------------------------------------------------------------------------- */

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
    return column->kind == BO_COLUMN_NUMBER && !column->name && isnan(column->fill);
}

/* Returns the number of columns written. */
static size_t write_columns(bo_json_text *text, const bo_schema *schema, size_t first)
{
    const bo_column *column = &schema->columns[first];
    size_t count = 1;
    bo_json_raw(text, "{\"kind\": ");
    bo_json_string(text, kind_names[column->kind]);
    if (is_plain(column)) {
        while (first + count < schema->column_count && is_plain(column + count)) ++count;
        if (count > 1) {
            bo_json_raw(text, ", \"count\": ");
            bo_json_whole(text, count);
        }
    }
    if (column->name) {
        bo_json_raw(text, ", \"name\": ");
        bo_json_string(text, column->name);
    }
    if (!isnan(column->fill)) {
        bo_json_raw(text, ", \"fill\": ");
        bo_json_number(text, column->fill);
    }
    if (column->kind == BO_COLUMN_CATEGORY) {
        bo_json_raw(text, ", \"categories\": ");
        write_labels(text, &column->categories);
    }
    if (column->kind == BO_COLUMN_TARGET) {
        bo_json_raw(text, ", \"target\": ");
        bo_json_whole(text, column->first);
    }
    bo_json_raw(text, "}");
    return count;
}

bo_status bo_schema_save_memory(bo_context *context, const bo_schema *schema, void **bytes, size_t *size)
{
    if (bytes) *bytes = NULL;
    if (size) *size = 0;
    BO_REQUIRE(context, schema, bytes, size);
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
    bo_json_raw(&text, ", \"columns\": [");
    for (size_t i = 0; i < schema->column_count;) {
        if (i) bo_json_raw(&text, ", ");
        i += write_columns(&text, schema, i);
    }
    bo_json_raw(&text, "]}");
    if (text.failed) return BO_MEMORY;
    *bytes = text.bytes;
    *size = text.length;
    return BO_OK;
}

/* ---- reading ------------------------------------------------------------------------------------------------ */

static bo_status malformed(bo_context *context, const char *what)
{
    return bo_fail(context, BO_FORMAT, "the schema in the model is malformed: %s", what);
}

static const cJSON *member(const cJSON *object, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(object, name);
}

/* The index of a string among `names`, or `count`. */
static int choice(const cJSON *item, const char *const *names, int count)
{
    const char *value = cJSON_GetStringValue(item);
    for (int i = 0; i < count; ++i)
        if (value && strcmp(value, names[i]) == 0) return i;
    return count;
}

static bo_status read_labels(bo_context *context, const cJSON *array, bo_categories *set)
{
    const cJSON *item;
    size_t count = 0;
    if (!cJSON_IsArray(array)) return malformed(context, "expected a list of categories or classes");
    cJSON_ArrayForEach(item, array)
    {
        const char *label = cJSON_GetStringValue(item);
        if (!label) return malformed(context, "expected strings as categories or classes");
        bo_status status = bo_categories_add_label(context, set, label);
        if (status == BO_INVALID) return malformed(context, "too many categories or classes");
        if (status != BO_OK) return status;
        if (set->count != ++count) return malformed(context, "a category or class occurs twice");
    }
    return BO_OK;
}

static bo_status count_columns(bo_context *context, const cJSON *array, size_t *columns)
{
    const cJSON *item;
    *columns = 0;
    if (!cJSON_IsArray(array)) return malformed(context, "expected a list of columns");
    cJSON_ArrayForEach(item, array)
    {
        const cJSON *count = member(item, "count");
        size_t n = 1;
        if (!cJSON_IsObject(item) || (count && (!bo_json_size(count, &n) || n == 0 || n > BO_MAX_COLUMNS)))
            return malformed(context, "a column entry is invalid");
        *columns += n;
        if (*columns > BO_MAX_COLUMNS) return malformed(context, "too many columns");
    }
    return *columns ? BO_OK : malformed(context, "expected at least one column");
}

static bo_status read_column(bo_context *context, const cJSON *item, bo_schema *schema, bo_column *column)
{
    const cJSON *name = member(item, "name"), *fill = member(item, "fill");
    int kind = choice(member(item, "kind"), kind_names, 4);
    if (kind == 4) return malformed(context, "the kind of a column is invalid");
    column->kind = (bo_column_kind)kind;
    if (name && !cJSON_IsString(name)) return malformed(context, "the name of a column is invalid");
    if (name && strlen(name->valuestring) > BO_MAX_NAME)
        return bo_fail(
            context, BO_FORMAT,
            "the schema in the model is malformed: the name of column %zu has %zu bytes, expected at most %d",
            (size_t)(column - schema->columns), strlen(name->valuestring), BO_MAX_NAME);
    if (!name != !schema->named) return malformed(context, "expected names for all columns or for none");
    if (name && !(column->name = bo_strdup(context, name->valuestring))) return BO_MEMORY;
    if (fill && (!cJSON_IsNumber(fill) || !isfinite(fill->valuedouble)))
        return malformed(context, "the fill value of a column is invalid");
    if (fill) column->fill = fill->valuedouble;
    if (kind == BO_COLUMN_CATEGORY) return read_labels(context, member(item, "categories"), &column->categories);
    if (kind == BO_COLUMN_TARGET && (!bo_json_size(member(item, "target"), &column->first) ||
                                     column->first >= schema->targets || schema->separate_labels))
        return malformed(context, "a target column is invalid");
    return BO_OK;
}

/* `seen` has a flag for each target. */
static bo_status read_list(bo_context *context, const cJSON *array, bo_schema *schema, bool *seen)
{
    const cJSON *item;
    size_t at = 0, targets = 0;
    cJSON_ArrayForEach(item, array)
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

static bo_status read_columns(bo_context *context, const cJSON *array, bo_schema *schema)
{
    bool *seen = bo_alloc(context, schema->targets, sizeof *seen, "targets of a schema");
    const bo_status status = seen ? read_list(context, array, schema, seen) : BO_MEMORY;
    bo_free(seen);
    return status;
}

static bo_status read_targets(bo_context *context, const cJSON *array, bo_schema *schema)
{
    const cJSON *item;
    size_t i = 0;
    cJSON_ArrayForEach(item, array)
    {
        const char *name = cJSON_GetStringValue(item);
        if (!name) return malformed(context, "the name of a target is invalid");
        if (!(schema->target_names[i++] = bo_strdup(context, name))) return BO_MEMORY;
    }
    return BO_OK;
}

static bo_status read_members(bo_context *context, const cJSON *json, bo_schema *schema)
{
    int task = choice(member(json, "task"), task_names, 3);
    const cJSON *named = member(json, "named"), *separate = member(json, "separate_labels");
    if (!bo_format_parse(cJSON_GetStringValue(member(json, "format")), &schema->format) ||
        !bo_impute_parse(cJSON_GetStringValue(member(json, "impute")), &schema->impute) ||
        schema->format == BO_FORMAT_AUTO || task == 3 || !cJSON_IsBool(named) || !cJSON_IsBool(separate) ||
        !bo_json_size(member(json, "rows"), &schema->rows))
        return malformed(context, "format, task, impute, rows, named or separate_labels is missing or invalid");
    schema->task = (bo_task)task;
    schema->named = cJSON_IsTrue(named);
    schema->separate_labels = cJSON_IsTrue(separate);
    if ((schema->task == BO_TASK_AUTO) != (schema->targets == 0))
        return malformed(context, "task and targets disagree");
    BO_TRY(read_targets(context, member(json, "targets"), schema));
    BO_TRY(read_labels(context, member(json, "classes"), &schema->classes));
    if ((schema->task == BO_TASK_CLASSIFICATION) != (schema->classes.count > 0) ||
        (schema->classes.count && schema->targets != 1))
        return malformed(context, "task and classes disagree");
    BO_TRY(read_columns(context, member(json, "columns"), schema));
    BO_TRY(bo_schema_finish(context, schema));
    return schema->dim ? BO_OK : malformed(context, "expected at least one input");
}

static bo_status read_schema(bo_context *context, const cJSON *json, bo_schema **out)
{
    const cJSON *targets = member(json, "targets");
    size_t version, columns;
    if (!cJSON_IsObject(json) || !bo_json_size(member(json, "version"), &version))
        return malformed(context, "the version is missing");
    if (version > BO_SCHEMA_VERSION)
        return bo_fail(
            context, BO_VERSION,
            "the schema in the model has version %zu; this library reads versions up to %d (install a newer version)",
            version, BO_SCHEMA_VERSION);
    if (!cJSON_IsArray(targets)) return malformed(context, "expected a list of targets");
    BO_TRY(count_columns(context, member(json, "columns"), &columns));
    bo_schema *schema;
    BO_TRY(bo_schema_new(context, columns, (size_t)cJSON_GetArraySize(targets), &schema));
    bo_status status = read_members(context, json, schema);
    if (status != BO_OK)
        bo_schema_destroy(schema);
    else
        *out = schema;
    return status;
}

bo_status bo_schema_load_memory(bo_context *context, const void *bytes, size_t size, bo_schema **out)
{
    if (out) *out = NULL;
    BO_REQUIRE(context, out);
    BO_REQUIRE_IF(context, size > 0, bytes);
    if (size > BO_SCHEMA_BYTES) return malformed(context, "it is too large");
    cJSON *json;
    BO_TRY(bo_json_parse(context, "the schema in the model", bytes, size, BO_SCHEMA_DEPTH, &json));
    bo_status status = read_schema(context, json, out);
    cJSON_Delete(json);
    return status;
}
