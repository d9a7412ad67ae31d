#include "predictions.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

int cli_predictions_check_name(const char *command, const char *out)
{
    static const char *const endings[] = {".csv", ".tsv", ".npy"};
    bool known = !out || strncmp(out, "/dev/", 5) == 0;
    for (size_t i = 0; i < CLI_COUNT_OF(endings); i++) known = known || cli_ends_with(out, endings[i]);
    if (known) return CLI_DONE;
    return cli_usage_error(command, "--out: expected a name ending in .csv or .npy (or .tsv), found '%s'", out);
}

static size_t columns_of(const cli_predictions *table)
{
    return table->copies + (table->classes > 0) + table->numbers;
}

static bool is_json(const cli_predictions *table)
{
    return table->session->common.json && !table->out;
}

/* The requested name of a column, which may not be unique. */
static const char *given_name(const cli_predictions *table, size_t column, char buffer[CLI_NAME])
{
    if (column < table->copies) return table->copy_name(table->user, column, buffer);
    column -= table->copies;
    if (table->classes && column == 0) return "prediction";
    return table->name(table->user, column - (table->classes > 0), buffer);
}

/* If there are very many columns, such as pixels, only the first ones and the copies are compared. */
static bool is_taken(const cli_predictions *table, const char *name)
{
    enum { MAX_COMPARED = 4096 };
    const size_t columns = columns_of(table), limit = table->copies + MAX_COMPARED;
    for (size_t i = 0; i < columns && i < limit; i++)
        if (table->names[i] && strcmp(table->names[i], name) == 0) return true;
    return false;
}

/* Names a column. The suffix is appended until the name is unique. */
static void name_column(cli_predictions *table, size_t column, const char *suffix, const char *what)
{
    char buffer[CLI_NAME];
    const char *name = given_name(table, column, buffer);
    char *unique = cli_allocate(strlen(name) + 1, 1, "the name of a column");
    strcpy(unique, name);
    while (is_taken(table, unique)) {
        char *longer = cli_allocate(strlen(unique) + strlen(suffix) + 1, 1, "the name of a column");
        strcat(strcpy(longer, unique), suffix);
        free(unique);
        unique = longer;
    }
    if (strcmp(unique, name) != 0)
        cli_warn(table->session, "%s: the output already has a column '%s': %s is named '%s'",
                 column < table->copies ? "--copy" : "names of columns", name, what, unique);
    table->names[column] = unique;
}

/* Copies are named last, so that the names of predictions depend on the model only: a copy with the name of a class is
 * renamed, and so is a class named "prediction". */
static void name_columns(cli_predictions *table)
{
    const size_t columns = columns_of(table);
    table->names = cli_allocate(columns + 1, sizeof *table->names, "the names of columns");
    for (size_t i = table->copies; i < columns; i++)
        name_column(table, i, table->classes ? "_probability" : "_value",
                    table->classes ? "the probability of the class" : "the value");
    for (size_t i = 0; i < table->copies; i++) name_column(table, i, "_copied", "the copy");
}

/* In a .npy file a class is its numeric label or, if labels are text, its index. */
static void number_classes(cli_predictions *table)
{
    char buffer[CLI_NAME];
    bool numbers = true;
    table->class_values = cli_allocate(table->classes, sizeof(double), "class labels");
    for (size_t i = 0; i < table->classes; i++) {
        char *end;
        const char *label = table->label(table->user, i, buffer);
        table->class_values[i] = strtod(label, &end);
        numbers = numbers && *label != 0 && *end == 0;
    }
    if (numbers) return;
    for (size_t i = 0; i < table->classes; i++) table->class_values[i] = (double)i;
    cli_note(table->session, "Labels      are text: %s contains their indices, 0 for %s", table->out,
             table->label(table->user, 0, buffer));
}

bool cli_predictions_open(cli_predictions *table)
{
    name_columns(table);
    table->row = cli_allocate(columns_of(table), sizeof(double), "a row of predictions");
    if (!table->out || !cli_ends_with(table->out, ".npy"))
        return cli_output_text(table->session, &table->output, table->out);
    if (table->classes) number_classes(table);
    return cli_output_npy(table->session, &table->output, table->out, columns_of(table), table->item);
}

static char separator_of(const cli_predictions *table)
{
    return table->out && cli_ends_with(table->out, ".tsv") ? '\t' : ',';
}

/* Tabs and line ends in a tab-separated field become spaces; CSV fields are quoted. */
static void write_text(cli_predictions *table, const char *text)
{
    FILE *file = table->output.file;
    if (separator_of(table) == ',') {
        cli_csv_field(file, text);
        return;
    }
    for (; *text; text++) fputc(strchr("\t\r\n", *text) ? ' ' : *text, file);
}

static void write_cell(cli_predictions *table, const cli_cell *cell)
{
    if (cell->text)
        write_text(table, cell->text);
    else if (!isnan(cell->number))
        fputs(cli_exact(cell->number).s, table->output.file);
}

static void begin_json(cli_predictions *table)
{
    table->json = (cli_json){.out = stdout};
    cli_json_object(&table->json, NULL);
    cli_json_array(&table->json, "columns");
    for (size_t i = 0; i < columns_of(table); i++) cli_json_add_text(&table->json, NULL, table->names[i]);
    cli_json_end(&table->json);
    cli_json_array(&table->json, table->key ? table->key : "predictions");
}

/* The header, or the start of the object. */
static void begin(cli_predictions *table)
{
    if (table->begun || table->output.npy) return;
    table->begun = true;
    if (is_json(table)) {
        begin_json(table);
        return;
    }
    for (size_t i = 0; i < columns_of(table); i++) {
        if (i) fputc(separator_of(table), table->output.file);
        write_text(table, table->names[i]);
    }
    fputc('\n', table->output.file);
}

static bool row_npy(cli_predictions *table, size_t class_index, const double *numbers)
{
    const size_t first = table->classes > 0, columns = columns_of(table);
    if (first) table->row[0] = table->class_values[class_index];
    memcpy(table->row + first, numbers, table->numbers * sizeof(double));
    if (table->item == sizeof(float)) { /* in place: each float starts at or before its double */
        for (size_t i = 0; i < columns; i++) {
            const float value = (float)table->row[i];
            memcpy((char *)table->row + i * sizeof value, &value, sizeof value);
        }
    }
    return cli_output_rows(table->session, &table->output, 1, table->row);
}

static void row_json(cli_predictions *table, const char *label, const double *numbers)
{
    const bool several = columns_of(table) > 1;
    if (several) cli_json_array(&table->json, NULL);
    for (size_t i = 0; i < table->copies; i++) {
        if (table->copied[i].text)
            cli_json_add_text(&table->json, NULL, table->copied[i].text);
        else
            cli_json_add_number(&table->json, NULL, table->copied[i].number);
    }
    if (label) cli_json_add_text(&table->json, NULL, label);
    for (size_t i = 0; i < table->numbers; i++) cli_json_add_number(&table->json, NULL, numbers[i]);
    if (several) cli_json_end(&table->json);
}

bool cli_predictions_row(cli_predictions *table, size_t class_index, const double *numbers)
{
    char buffer[CLI_NAME];
    if (table->output.npy) return row_npy(table, class_index, numbers);
    const char *label = table->classes ? table->label(table->user, class_index, buffer) : NULL;
    begin(table);
    table->session->printed_lines += !table->out;
    if (is_json(table)) return row_json(table, label, numbers), true;
    for (size_t i = 0; i < table->copies; i++) {
        if (i) fputc(separator_of(table), table->output.file);
        write_cell(table, &table->copied[i]);
    }
    if (label && table->copies) fputc(separator_of(table), table->output.file);
    if (label) write_text(table, label);
    for (size_t i = 0; i < table->numbers; i++) {
        if (table->copies || label || i) fputc(separator_of(table), table->output.file);
        fprintf(table->output.file, table->classes ? "%.9g" : "%.15g", numbers[i]); /* targets may be far from 0 */
    }
    fputc('\n', table->output.file);
    return true;
}

bool cli_predictions_flush(cli_predictions *table)
{
    return cli_output_check(table->session, &table->output);
}

bool cli_predictions_end(cli_predictions *table)
{
    begin(table);
    return cli_predictions_flush(table) && (!table->out || cli_output_commit(table->session, &table->output));
}

cli_json *cli_predictions_json(cli_predictions *table)
{
    if (table->json.out) {
        cli_json_end(&table->json); /* the predictions */
    } else {
        table->json.out = stdout;
        cli_json_object(&table->json, NULL);
    }
    return &table->json;
}

void cli_predictions_close(cli_predictions *table)
{
    cli_output_abandon(&table->output);
    for (size_t i = 0; table->names && i < columns_of(table); i++) free(table->names[i]);
    free(table->names);
    free(table->class_values);
    free(table->row);
}
