/* A schema as an object: making, sharing, asking. */
#include "schema.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

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

static char *joined(bo_context *context, const char *a, const char *b, const char *c)
{
    size_t room = strlen(a) + strlen(b) + strlen(c) + 1;
    char *out = bo_alloc_raw(context, room, 1, "a column name");
    if (out) snprintf(out, room, "%s%s%s", a, b, c);
    return out;
}

static bo_status name_inputs(bo_context *context, bo_schema *schema)
{
    size_t at = 0;
    for (size_t i = 0; i < schema->column_count; ++i) {
        const bo_column *column = &schema->columns[i];
        char numbered[40];
        snprintf(numbered, sizeof numbered, schema->format == BO_FORMAT_LIBSVM ? "feature %zu" : "column %zu", i);
        const char *name = column->name ? column->name : numbered;
        if (column->kind == BO_COLUMN_NUMBER) {
            if (!(schema->inputs[at++] = joined(context, name, "", ""))) return BO_MEMORY;
        } else if (column->kind == BO_COLUMN_CATEGORY) {
            for (size_t k = 0; k < column->categories.count; ++k)
                if (!(schema->inputs[at++] = joined(context, name, "=", column->categories.items[k].text)))
                    return BO_MEMORY;
        }
    }
    return BO_OK;
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
    if (!schema->inputs) return BO_MEMORY;
    return name_inputs(context, schema);
}

bo_schema *bo_schema_retain(const bo_schema *schema)
{
    bo_schema *shared = (bo_schema *)(uintptr_t)schema; /* only the count changes */
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
    if (schema->inputs)
        for (size_t i = 0; i < schema->dim; ++i) bo_free(schema->inputs[i]);
    if (schema->target_names)
        for (size_t i = 0; i < schema->targets; ++i) bo_free(schema->target_names[i]);
    bo_free(schema->columns);
    bo_free(schema->inputs);
    bo_free(schema->target_names);
    bo_categories_free(&schema->classes);
    bo_free(schema);
}

size_t bo_schema_dim(const bo_schema *schema)
{
    return schema->dim;
}

size_t bo_schema_targets(const bo_schema *schema)
{
    return schema->targets;
}

size_t bo_schema_classes(const bo_schema *schema)
{
    return schema->task == BO_TASK_CLASSIFICATION ? schema->classes.count : 0;
}

const char *bo_schema_class(const bo_schema *schema, size_t index)
{
    return index < schema->classes.count ? schema->classes.items[index].text : NULL;
}

const char *bo_schema_input(const bo_schema *schema, size_t index)
{
    return index < schema->dim ? schema->inputs[index] : NULL;
}

const char *bo_schema_target(const bo_schema *schema, size_t index)
{
    return index < schema->targets ? schema->target_names[index] : NULL;
}

size_t bo_schema_rows(const bo_schema *schema)
{
    return schema->rows;
}

bool bo_schema_common_unit(const bo_schema *schema)
{
    return schema->common_unit;
}

void bo_text_free(char *text)
{
    bo_free(text);
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
