#include "columns_line.h"
#include "../common/format.h"
#include <stdarg.h>
#include <stdio.h>

enum { LINE = 1024, NAMES_SHOWN = 4 };

/* Text that is truncated at its capacity. */
typedef struct line {
    char text[LINE];
    size_t used;
} line;

static void add(line *to, const char *format, ...) BO_PRINTF(2, 3);
static void add(line *to, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    const int length = vsnprintf(to->text + to->used, LINE - to->used, format, values);
    va_end(values);
    if (length > 0) to->used += (size_t)length < LINE - to->used ? (size_t)length : LINE - 1 - to->used;
}

static bool is_plain(const bo_schema_column_info *column)
{
    return column->use == BO_USE_NUMBER && column->missing == 0;
}

static cli_short_text name_of(const bo_schema_column_info *column, size_t index)
{
    cli_short_text name;
    if (column->name)
        snprintf(name.s, sizeof name.s, "%.*s", (int)sizeof name.s - 1, column->name);
    else
        snprintf(name.s, sizeof name.s, "column %zu", index);
    return name;
}

static const char *use_phrase(bo_column_use use, size_t count)
{
    if (use == BO_USE_NUMBER) return count == 1 ? "number" : "numbers";
    if (use == BO_USE_BOOLEAN) return count == 1 ? "boolean" : "booleans";
    if (use == BO_USE_DATE) return count == 1 ? "date" : "dates";
    return bo_enum_name(BO_ENUM_COLUMN_USE, use);
}

/* The names of columns with the same use in parentheses, with details of each column. */
static void add_names(line *to, const bo_schema *schema, bo_column_use use)
{
    bo_schema_column_info column;
    size_t shown = 0;
    for (size_t i = 0; bo_schema_column(schema, i, &column); i++) {
        if (column.use != use || (use == BO_USE_NOTHING && column.why == BO_OMIT_REQUESTED)) continue;
        if (shown++ == NAMES_SHOWN) break;
        add(to, "%s%s", shown > 1 ? ", " : "", name_of(&column, i).s);
        if (use == BO_USE_ENCODED) add(to, ": %s values", cli_count(column.values).s);
        if (use == BO_USE_NOTHING) add(to, ": %s", bo_enum_name(BO_ENUM_OMISSION, column.why));
    }
    if (shown > NAMES_SHOWN) add(to, ", ...");
    if (shown == 0) add(to, "as requested");
}

static void add_use(line *to, const bo_schema *schema, bo_column_use use)
{
    bo_schema_column_info column;
    size_t count = 0, inputs = 0;
    for (size_t i = 0; bo_schema_column(schema, i, &column); i++)
        if (column.use == use) count++, inputs += column.inputs;
    if (count == 0 || use == BO_USE_TARGET) return;
    add(to, "%s%s %s", to->used ? ", " : "", cli_count(count).s, use_phrase(use, count));
    if (use == BO_USE_NUMBER || use == BO_USE_BOOLEAN) return;
    add(to, " (");
    if (use == BO_USE_ONE_HOT || use == BO_USE_DATE)
        add(to, "%s inputs", cli_count(inputs).s);
    else
        add_names(to, schema, use);
    add(to, ")");
}

static void add_missing(line *to, const bo_schema *schema)
{
    bo_schema_column_info column;
    size_t count = 0;
    for (size_t i = 0; bo_schema_column(schema, i, &column); i++) {
        if (column.missing == 0 || column.use == BO_USE_NOTHING) continue;
        if (count++ < NAMES_SHOWN)
            add(to, "%s%s: %s", count > 1 ? ", " : "; missing values are imputed (", name_of(&column, i).s,
                cli_count(column.missing).s);
    }
    if (count) add(to, count > NAMES_SHOWN ? ", ...)" : ")");
}

void cli_columns_report(cli_session *session, const bo_schema *schema)
{
    line text = {.used = 0};
    bo_schema_column_info column;
    bool plain = true;
    for (size_t i = 0; bo_schema_column(schema, i, &column); i++)
        plain &= is_plain(&column) || column.use == BO_USE_TARGET;
    if (plain) return;
    for (int use = BO_USE_NUMBER; use <= BO_USE_NOTHING; use++) add_use(&text, schema, (bo_column_use)use);
    add_missing(&text, schema);
    cli_note(session, "Columns     %s", text.text);
}

void cli_columns_json(cli_json *json, const bo_schema *schema)
{
    bo_schema_column_info column;
    size_t numbers = 0;
    for (size_t i = 0; bo_schema_column(schema, i, &column); i++) numbers += column.use == BO_USE_NUMBER;
    cli_json_add_count(json, "number_columns", numbers);
    cli_json_array(json, "columns");
    for (size_t i = 0; bo_schema_column(schema, i, &column); i++) {
        if (is_plain(&column)) continue;
        cli_json_object(json, NULL);
        cli_json_add_text(json, "name", name_of(&column, i).s);
        cli_json_add_text(json, "use", bo_enum_name(BO_ENUM_COLUMN_USE, column.use));
        if (column.inputs) cli_json_add_count(json, "inputs", column.inputs);
        if (column.values) cli_json_add_count(json, "values", column.values);
        if (column.missing) cli_json_add_count(json, "missing", column.missing);
        if (column.use == BO_USE_NOTHING) cli_json_add_text(json, "why", bo_enum_name(BO_ENUM_OMISSION, column.why));
        cli_json_end(json);
    }
    cli_json_end(json);
    if (bo_schema_describe(schema)->unlabeled)
        cli_json_add_count(json, "rows_without_target", bo_schema_describe(schema)->unlabeled);
}
