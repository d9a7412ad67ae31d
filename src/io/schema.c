/* Schemas as objects. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "enums.h"
#include "schema.h"

static const char *const use_names[] = {"number", "boolean", "date",  "one-hot", "target-encoded",
                                        "target", "weights", "group", "left out"};
static const char *const why_names[] = {"requested", "row numbers", "nearly unique", "empty", "no target"};
BO_NAMED(column_use, bo_column_use, use_names)
BO_NAMED(omission, bo_omission, why_names)

/* ---- the inputs of a column -------------------------------------------------------------------------------------- */

size_t bo_schema_code_width(const bo_schema *schema)
{
    return schema->classes.count == 2 ? 1 : schema->classes.count ? schema->classes.count : schema->targets;
}

size_t bo_column_width(const bo_schema *schema, const bo_column *column)
{
    switch (column->kind) {
    case BO_COLUMN_NUMBER:
    case BO_COLUMN_BOOLEAN:
        return 1;
    case BO_COLUMN_CATEGORY:
        return column->categories.count;
    case BO_COLUMN_DATE:
        return column->has_time ? BO_DATE_PARTS : BO_DATE_PARTS - 1;
    case BO_COLUMN_ENCODED:
        return column->codes ? bo_schema_code_width(schema) : 1;
    default:
        return 0;
    }
}

/* Columns of x, with the indicator of missing values. */
static size_t inputs_of(const bo_schema *schema, const bo_column *column)
{
    return bo_column_width(schema, column) + (bo_column_is_input(column) && column->indicator);
}

/* The suffix of the name of input k of a column: a separator and the meaning of the input; both empty for a plain
 * number. */
static const char *input_detail(const bo_schema *schema, const bo_column *column, size_t k, const char **separator)
{
    const size_t width = bo_column_width(schema, column);
    *separator = ": ";
    if (k == width) return "missing";
    if (column->kind == BO_COLUMN_CATEGORY) {
        *separator = "=";
        return column->categories.items[k].text;
    }
    if (column->kind == BO_COLUMN_DATE) return bo_date_part_name(k);
    if (column->kind == BO_COLUMN_ENCODED && schema->classes.count)
        return schema->classes.items[width == 1 ? schema->classes.count - 1 : k].text;
    if (column->kind == BO_COLUMN_ENCODED && k < schema->targets) return schema->target_names[k];
    *separator = "";
    return "";
}

/* ---- the object -------------------------------------------------------------------------------------------------- */

bo_status bo_schema_new(bo_context *context, size_t columns, size_t targets, bo_schema **out)
{
    *out = NULL;
    bo_schema *schema = bo_alloc(context, 1, sizeof *schema, "a schema");
    if (!schema) return BO_MEMORY;
    schema->references = 1;
    schema->columns = bo_alloc(context, columns, sizeof *schema->columns, "columns of a schema");
    schema->target_names = bo_alloc(context, targets + 1, sizeof *schema->target_names, "targets of a schema");
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

/* Writes the name of input k of column i to `text`, at most `size` bytes; returns its length with the NUL. */
static size_t write_name(const bo_schema *schema, size_t i, size_t k, char *text, size_t size)
{
    const bo_column *column = &schema->columns[i];
    const char *separator, *detail = input_detail(schema, column, k, &separator);
    const char *relation = column->kind == BO_COLUMN_ENCODED && k < bo_column_width(schema, column)
                               ? schema->classes.count ? "frequency of " : "mean of "
                               : "";
    char numbered[40];
    snprintf(numbered, sizeof numbered, schema->format == BO_FORMAT_LIBSVM ? "feature %zu" : "column %zu", i);
    return (size_t)snprintf(text, size, "%s%s%s%s", column->name ? column->name : numbered, separator, relation,
                            detail) +
           1;
}

/* Writes the names of all inputs to schema->input_text. If `text` is NULL, it only returns the required bytes. */
static size_t name_inputs(bo_schema *schema, char *text, size_t size)
{
    size_t at = 0, used = 0;
    for (size_t i = 0; i < schema->column_count; ++i)
        for (size_t k = 0, count = inputs_of(schema, &schema->columns[i]); k < count; ++k) {
            if (text) schema->inputs[at++] = text + used;
            used += write_name(schema, i, k, text ? text + used : NULL, text ? size - used : 0);
        }
    return used;
}

static bo_status set_origins(bo_context *context, bo_schema *schema)
{
    bool any = false;
    for (size_t i = 0; i < schema->column_count; ++i) any |= schema->columns[i].origin != 0;
    bo_free(schema->origins);
    schema->origins = any ? bo_alloc(context, schema->dim, sizeof *schema->origins, "origins of columns") : NULL;
    if (any && !schema->origins) return BO_MEMORY;
    for (size_t i = 0; any && i < schema->column_count; ++i)
        if (schema->columns[i].kind == BO_COLUMN_NUMBER)
            schema->origins[schema->columns[i].first] = schema->columns[i].origin;
    return BO_OK;
}

bo_status bo_schema_finish(bo_context *context, bo_schema *schema)
{
    schema->dim = 0;
    for (size_t i = 0; i < schema->column_count; ++i) {
        bo_column *column = &schema->columns[i];
        if (!bo_column_is_input(column)) continue;
        column->first = schema->dim;
        schema->dim += inputs_of(schema, column);
    }
    schema->common_unit = schema->format == BO_FORMAT_IDX || schema->format == BO_FORMAT_LIBSVM;
    bo_free(schema->inputs);
    bo_free(schema->input_text);
    schema->inputs = bo_alloc(context, schema->dim + 1, sizeof *schema->inputs, "names of a schema");
    const size_t bytes = name_inputs(schema, NULL, 0);
    schema->input_text = bo_alloc_raw(context, bytes, 1, "names of a schema");
    if (!schema->inputs || !schema->input_text) return BO_MEMORY;
    name_inputs(schema, schema->input_text, bytes);
    return set_origins(context, schema);
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

bo_status bo_schema_note(bo_context *context, bo_schema *schema)
{
    const size_t classes = bo_schema_classes(schema);
    bo_free(schema->class_names);
    schema->class_names = bo_alloc(context, classes + 1, sizeof *schema->class_names, "names of a schema");
    if (!schema->class_names) return BO_MEMORY;
    for (size_t i = 0; i < classes; ++i) schema->class_names[i] = schema->classes.items[i].text;
    schema->info = (bo_schema_info){.inputs = schema->dim,
                                    .targets = schema->targets,
                                    .classes = classes,
                                    .columns = schema->column_count,
                                    .rows = schema->rows,
                                    .unlabeled = schema->unlabeled,
                                    .input_names = (const char *const *)schema->inputs,
                                    .target_names = (const char *const *)schema->target_names,
                                    .class_names = schema->class_names,
                                    .origins = schema->origins,
                                    .common_unit = schema->common_unit,
                                    .sparse = bo_schema_is_sparse(schema)};
    return BO_OK;
}

const bo_schema_info *bo_schema_describe(const bo_schema *schema)
{
    return schema ? &schema->info : NULL;
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
            bo_free(schema->columns[i].codes);
            bo_free(schema->columns[i].fold_codes);
        }
    if (schema->target_names)
        for (size_t i = 0; i < schema->targets; ++i) bo_free(schema->target_names[i]);
    bo_free(schema->columns);
    bo_free(schema->inputs);
    bo_free(schema->input_text);
    bo_free(schema->origins);
    bo_free(schema->target_names);
    bo_free(schema->class_names);
    bo_categories_free(&schema->classes);
    bo_free(schema);
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

double bo_schema_origin(const bo_schema *schema, size_t index)
{
    if (!schema || index >= schema->dim) return NAN;
    return schema->origins ? schema->origins[index] : 0;
}

const char *bo_schema_target(const bo_schema *schema, size_t index)
{
    if (!schema) return NULL;
    return index < schema->targets ? schema->target_names[index] : NULL;
}

bool bo_schema_column(const bo_schema *schema, size_t index, bo_schema_column_info *out)
{
    static const bo_column_use uses[BO_COLUMN_KINDS] = {
        [BO_COLUMN_NUMBER] = BO_USE_NUMBER,   [BO_COLUMN_CATEGORY] = BO_USE_ONE_HOT, [BO_COLUMN_TARGET] = BO_USE_TARGET,
        [BO_COLUMN_UNUSED] = BO_USE_NOTHING,  [BO_COLUMN_BOOLEAN] = BO_USE_BOOLEAN,  [BO_COLUMN_DATE] = BO_USE_DATE,
        [BO_COLUMN_ENCODED] = BO_USE_ENCODED, [BO_COLUMN_WEIGHT] = BO_USE_WEIGHTS,   [BO_COLUMN_GROUP] = BO_USE_GROUP};
    if (!schema || !out || index >= schema->column_count) return false;
    const bo_column *column = &schema->columns[index];
    *out = (bo_schema_column_info){.name = column->name,
                                   .use = uses[column->kind],
                                   .first = inputs_of(schema, column) ? column->first : 0,
                                   .inputs = inputs_of(schema, column),
                                   .values = column->categories.count ? column->categories.count : column->values,
                                   .missing = column->missing,
                                   .why = column->why};
    return true;
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
