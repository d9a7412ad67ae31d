/* Fits the targets of a schema: the task, the classes, and the rows without a target. */
#include <math.h>
#include "schema_fit.h"

#include <string.h>

static bo_status missing_target(bo_context *context, bo_fit *fit, const bo_cell *cell)
{
    char place[BO_PLACE_TEXT];
    fit->unlabeled = true;
    if (fit->desc->impute != BO_IMPUTE_NONE && cell->reader->format != BO_FORMAT_LIBSVM) return BO_OK;
    return bo_fail(context, BO_FORMAT, "%s: expected a target, found a missing value; remove the row",
                   bo_cell_place(cell, place));
}

/* None and - are the names of classes if other classes are text; otherwise they are missing values. */
static bo_status observe_ambiguous(bo_context *context, bo_fit *fit, const bo_cell *cell)
{
    if (fit->schema->task == BO_TASK_REGRESSION) return missing_target(context, fit, cell);
    fit->ambiguous = true;
    return bo_categories_add(context, &fit->ambiguous_labels, 0, cell->text);
}

/* Infinity is the name of a class if other classes are text. */
static bo_status observe_infinite(bo_context *context, bo_fit *fit, const bo_cell *cell)
{
    ++fit->infinite;
    bo_note_cell(&fit->first_infinite, cell);
    return bo_categories_add(context, &fit->ambiguous_labels, 0, cell->text);
}

/* Task AUTO: text means classes; a fraction, or more than BO_AUTO_CLASSES different integers, means regression. A text
 * with a finite value is a code (bo_is_code): a class by its text, a number by its value. */
bo_status bo_target_observe(bo_context *context, bo_fit *fit, const bo_cell *cell)
{
    char place[BO_PLACE_TEXT];
    bo_schema *schema = fit->schema;
    const double value = cell->value;
    const char *text = cell->text;
    const bool code = text && isfinite(value);
    if (text && !code && bo_is_missing_text(text)) return observe_ambiguous(context, fit, cell);
    if (text && isinf(value) && schema->task != BO_TASK_REGRESSION && fit->desc->task == BO_TASK_AUTO)
        return observe_infinite(context, fit, cell);
    if (schema->task == BO_TASK_REGRESSION && text && !code)
        return bo_fail(context, BO_FORMAT, "%s: expected a number, found '%.60s'%s", bo_cell_place(cell, place), text,
                       fit->desc->task == BO_TASK_AUTO && schema->targets == 1
                           ? " (the target has numbers above; use --task classification if they are classes)"
                           : "");
    if (!text && isnan(value)) return missing_target(context, fit, cell);
    if (!text && isinf(value))
        return bo_fail(context, BO_FORMAT, "%s: expected a finite target, found an infinite value",
                       bo_cell_place(cell, place));
    if (schema->task == BO_TASK_REGRESSION) return BO_OK;
    if (schema->task == BO_TASK_AUTO && text && !code) schema->task = BO_TASK_CLASSIFICATION;
    bo_status status = BO_OK;
    if (schema->task == BO_TASK_CLASSIFICATION || value == floor(value))
        status = bo_categories_add(context, &schema->classes, value, text);
    if (status == BO_INVALID)
        return bo_fail(context, BO_UNSUPPORTED,
                       "%s: expected at most %d different classes; use --task regression if the target is a number",
                       bo_cell_place(cell, place), BO_MAX_CATEGORIES);
    if (status == BO_OK && schema->task == BO_TASK_AUTO &&
        (value != floor(value) || schema->classes.count > BO_AUTO_CLASSES)) {
        schema->task = BO_TASK_REGRESSION;
        bo_categories_free(&schema->classes);
    }
    return status;
}

void bo_target_end_row(bo_fit *fit)
{
    fit->schema->unlabeled += fit->unlabeled;
    fit->ambiguous_rows += fit->ambiguous && !fit->unlabeled;
    fit->unlabeled = fit->ambiguous = false;
}

void bo_target_decide_by_format(bo_schema *schema, const bo_reader *reader)
{
    if (schema->task == BO_TASK_AUTO && reader->format == BO_FORMAT_IDX && reader->array.type != BO_TYPE_F32 &&
        reader->array.type != BO_TYPE_F64)
        schema->task = BO_TASK_CLASSIFICATION;
}

/* ---- a separate file --------------------------------------------------------------------------------------------- */

static bo_status scan_labels(bo_context *context, bo_fit *fit, bo_reader *labels, size_t *rows)
{
    for (*rows = 0;;) {
        bo_data_block block;
        BO_TRY(bo_reader_next(context, labels, SIZE_MAX, &block));
        if (block.rows == 0) return BO_OK;
        for (size_t r = 0; r < block.rows; ++r) {
            for (size_t c = 0; c < block.columns; ++c) {
                const bo_cell cell = bo_block_cell(labels, &block, r, c);
                BO_TRY(bo_target_observe(context, fit, &cell));
            }
            bo_target_end_row(fit);
        }
        *rows += block.rows;
    }
}

/* In a column of text a header cannot be recognized by type. The first text is a class if it occurs again below, or if
 * no text occurs twice. */
static bool header_is_class(const bo_categories *classes, size_t rows, const char *text)
{
    if (bo_categories_find(classes, 0, text) != SIZE_MAX) return true;
    return classes->count > 0 && classes->count == rows && !classes->items[0].numeric;
}

bo_status bo_target_fit_labels(bo_context *context, bo_fit *fit, bo_reader *labels)
{
    bo_schema *schema = fit->schema;
    const bo_task task = schema->task;
    size_t rows;
    bo_target_decide_by_format(schema, labels);
    BO_TRY(scan_labels(context, fit, labels, &rows));
    if (rows + 1 == schema->rows && labels->names && header_is_class(&schema->classes, rows, labels->names[0])) {
        schema->task = task;
        schema->unlabeled = fit->ambiguous_rows = fit->infinite = 0;
        fit->first_infinite = (bo_noted_cell){0};
        bo_categories_free(&schema->classes);
        bo_categories_free(&fit->ambiguous_labels);
        bo_free(schema->target_names[0]);
        if (!(schema->target_names[0] = bo_strdup(context, "label"))) return BO_MEMORY;
        BO_TRY(bo_reader_drop_header(context, labels));
        BO_TRY(scan_labels(context, fit, labels, &rows));
    }
    if (rows != schema->rows)
        return bo_fail(context, BO_FORMAT, "%s: expected %zu labels, one per row of the data, found %zu%s%.60s%s",
                       bo_reader_path(labels), schema->rows, rows, labels->names ? " below the header '" : "",
                       labels->names ? labels->names[0] : "", labels->names ? "'" : "");
    return BO_OK;
}

/* ---- the task ---------------------------------------------------------------------------------------------------- */

static bool has_text(const bo_categories *classes)
{
    for (size_t i = 0; i < classes->count; ++i)
        if (!classes->items[i].numeric) return true;
    return false;
}

bo_status bo_target_settle(bo_context *context, bo_fit *fit, const bo_reader *reader)
{
    bo_schema *schema = fit->schema;
    if (schema->targets == 0) return BO_OK;
    if (schema->task == BO_TASK_AUTO) schema->task = BO_TASK_CLASSIFICATION;
    if (fit->infinite && !has_text(&schema->classes)) {
        char place[BO_PLACE_TEXT];
        const size_t column = fit->target_columns ? fit->target_columns[0] : 0;
        return bo_fail(context, BO_FORMAT, "%s: expected a finite target, found an infinite value",
                       bo_place(reader, fit->first_infinite.row, fit->first_infinite.line, column, place));
    }
    if (has_text(&schema->classes))
        for (size_t i = 0; i < fit->ambiguous_labels.count; ++i)
            BO_TRY(bo_categories_add(context, &schema->classes, 0, fit->ambiguous_labels.items[i].text));
    else if (fit->ambiguous_rows && fit->desc->impute == BO_IMPUTE_NONE)
        return bo_fail(context, BO_FORMAT, "%s: the target '%s': expected numbers, found '%s'; remove these rows",
                       bo_reader_path(reader), schema->target_names[0], fit->ambiguous_labels.items[0].text);
    else
        schema->unlabeled += fit->ambiguous_rows;
    bo_categories_sort(&schema->classes);
    if (schema->rows == schema->unlabeled)
        return bo_fail(
            context, BO_FORMAT,
            "%s: the target '%s': expected values, found only missing values (use --target to name another column)",
            bo_reader_path(reader), schema->target_names[0]);
    if (fit->desc->keep_unlabeled) schema->unlabeled = 0;
    schema->rows -= schema->unlabeled;
    if (schema->unlabeled)
        bo_log(context, BO_LOG_WARNING, "%s: %zu row%s left out because the target is missing", bo_reader_path(reader),
               schema->unlabeled, schema->unlabeled == 1 ? " is" : "s are");
    return BO_OK;
}
