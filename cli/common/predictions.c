#include "predictions.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

int cli_answers_check_name(const char *command, const char *out)
{
    static const char *const endings[] = {".csv", ".tsv", ".npy"};
    bool known = !out || strncmp(out, "/dev/", 5) == 0;
    for (size_t i = 0; i < CLI_COUNT_OF(endings); i++) known = known || cli_ends_with(out, endings[i]);
    if (known) return CLI_DONE;
    return cli_wrong_use(command, "--out: expected a name ending in .csv or .npy (or .tsv), found '%s'", out);
}

static size_t columns_of(const cli_answers *answers)
{
    return answers->copies + (answers->classes > 0) + answers->numbers;
}

static bool is_json(const cli_answers *answers)
{
    return answers->session->common.json && !answers->out;
}

/* What the answers call a column, which another one may be called too. */
static const char *given_name(const cli_answers *answers, size_t column, char room[CLI_NAME])
{
    if (column < answers->copies) return answers->copy_name(answers->user, column, room);
    column -= answers->copies;
    if (answers->classes && column == 0) return "prediction";
    return answers->name(answers->user, column - (answers->classes > 0), room);
}

/* Of very many columns, such as the inputs of pictures, the first ones and the copies are compared. */
static bool is_taken(const cli_answers *answers, const char *name)
{
    enum { MOST = 4096 };
    const size_t columns = columns_of(answers), most = answers->copies + MOST;
    for (size_t i = 0; i < columns && i < most; i++)
        if (answers->names[i] && strcmp(answers->names[i], name) == 0) return true;
    return false;
}

/* Names a column; while another one has the name, with this after it. */
static void name_column(cli_answers *answers, size_t column, const char *suffix, const char *what)
{
    char room[CLI_NAME];
    const char *name = given_name(answers, column, room);
    char *unique = cli_allocate(strlen(name) + 1, 1, "the name of a column");
    strcpy(unique, name);
    while (is_taken(answers, unique)) {
        char *longer = cli_allocate(strlen(unique) + strlen(suffix) + 1, 1, "the name of a column");
        strcat(strcpy(longer, unique), suffix);
        free(unique);
        unique = longer;
    }
    if (strcmp(unique, name) != 0)
        cli_warn(answers->session, "%s: the output has another column '%s': %s is named '%s'",
                 column < answers->copies ? "--copy" : "names of columns", name, what, unique);
    answers->names[column] = unique;
}

/* Copies are named last, so that the names of answers depend on the model only: a copy with the name of a class gets
 * another one, and so does a class "prediction". */
static void name_columns(cli_answers *answers)
{
    const size_t columns = columns_of(answers);
    answers->names = cli_allocate(columns + 1, sizeof *answers->names, "the names of columns");
    for (size_t i = answers->copies; i < columns; i++)
        name_column(answers, i, answers->classes ? "_probability" : "_value",
                    answers->classes ? "the probability of the class" : "the value");
    for (size_t i = 0; i < answers->copies; i++) name_column(answers, i, "_copied", "the copy");
}

/* In a .npy file a class is its numeric label or, if labels are text, its index. */
static void number_classes(cli_answers *answers)
{
    char room[CLI_NAME];
    bool numbers = true;
    answers->class_values = cli_allocate(answers->classes, sizeof(double), "class labels");
    for (size_t i = 0; i < answers->classes; i++) {
        char *end;
        const char *label = answers->label(answers->user, i, room);
        answers->class_values[i] = strtod(label, &end);
        numbers = numbers && *label != 0 && *end == 0;
    }
    if (numbers) return;
    for (size_t i = 0; i < answers->classes; i++) answers->class_values[i] = (double)i;
    cli_say(answers->session, "Labels      are text: %s contains their indices, 0 for %s", answers->out,
            answers->label(answers->user, 0, room));
}

bool cli_answers_open(cli_answers *answers)
{
    name_columns(answers);
    answers->row = cli_allocate(columns_of(answers), sizeof(double), "a row of answers");
    if (!answers->out || !cli_ends_with(answers->out, ".npy"))
        return cli_output_text(answers->session, &answers->output, answers->out);
    if (answers->classes) number_classes(answers);
    return cli_output_npy(answers->session, &answers->output, answers->out, columns_of(answers), answers->item);
}

static char separator_of(const cli_answers *answers)
{
    return answers->out && cli_ends_with(answers->out, ".tsv") ? '\t' : ',';
}

/* Tabs and line ends in a tab-separated field become spaces; CSV fields are quoted. */
static void put_text(cli_answers *answers, const char *text)
{
    FILE *file = answers->output.file;
    if (separator_of(answers) == ',') {
        cli_csv_field(file, text);
        return;
    }
    for (; *text; text++) fputc(strchr("\t\r\n", *text) ? ' ' : *text, file);
}

static void put_cell(cli_answers *answers, const cli_cell *cell)
{
    if (cell->text)
        put_text(answers, cell->text);
    else if (!isnan(cell->number))
        fputs(cli_exact(cell->number).s, answers->output.file);
}

static void begin_json(cli_answers *answers)
{
    answers->json = (cli_json){.out = stdout};
    cli_json_object(&answers->json, NULL);
    cli_json_array(&answers->json, "columns");
    for (size_t i = 0; i < columns_of(answers); i++) cli_json_add_text(&answers->json, NULL, answers->names[i]);
    cli_json_end(&answers->json);
    cli_json_array(&answers->json, answers->key ? answers->key : "predictions");
}

/* The header, or the start of the object. */
static void begin(cli_answers *answers)
{
    if (answers->begun || answers->output.npy) return;
    answers->begun = true;
    if (is_json(answers)) {
        begin_json(answers);
        return;
    }
    for (size_t i = 0; i < columns_of(answers); i++) {
        if (i) fputc(separator_of(answers), answers->output.file);
        put_text(answers, answers->names[i]);
    }
    fputc('\n', answers->output.file);
}

static bool row_npy(cli_answers *answers, size_t class_index, const double *numbers)
{
    const size_t first = answers->classes > 0, columns = columns_of(answers);
    if (first) answers->row[0] = answers->class_values[class_index];
    memcpy(answers->row + first, numbers, answers->numbers * sizeof(double));
    if (answers->item == sizeof(float)) { /* in place: each float starts at or before its double */
        for (size_t i = 0; i < columns; i++) {
            const float value = (float)answers->row[i];
            memcpy((char *)answers->row + i * sizeof value, &value, sizeof value);
        }
    }
    return cli_output_rows(answers->session, &answers->output, 1, answers->row);
}

static void row_json(cli_answers *answers, const char *label, const double *numbers)
{
    const bool several = columns_of(answers) > 1;
    if (several) cli_json_array(&answers->json, NULL);
    for (size_t i = 0; i < answers->copies; i++) {
        if (answers->copied[i].text)
            cli_json_add_text(&answers->json, NULL, answers->copied[i].text);
        else
            cli_json_add_number(&answers->json, NULL, answers->copied[i].number);
    }
    if (label) cli_json_add_text(&answers->json, NULL, label);
    for (size_t i = 0; i < answers->numbers; i++) cli_json_add_number(&answers->json, NULL, numbers[i]);
    if (several) cli_json_end(&answers->json);
}

bool cli_answers_row(cli_answers *answers, size_t class_index, const double *numbers)
{
    char room[CLI_NAME];
    if (answers->output.npy) return row_npy(answers, class_index, numbers);
    const char *label = answers->classes ? answers->label(answers->user, class_index, room) : NULL;
    begin(answers);
    answers->session->answered += !answers->out;
    if (is_json(answers)) return row_json(answers, label, numbers), true;
    for (size_t i = 0; i < answers->copies; i++) {
        if (i) fputc(separator_of(answers), answers->output.file);
        put_cell(answers, &answers->copied[i]);
    }
    if (label && answers->copies) fputc(separator_of(answers), answers->output.file);
    if (label) put_text(answers, label);
    for (size_t i = 0; i < answers->numbers; i++) {
        if (answers->copies || label || i) fputc(separator_of(answers), answers->output.file);
        fprintf(answers->output.file, answers->classes ? "%.9g" : "%.15g", numbers[i]); /* targets may be far from 0 */
    }
    fputc('\n', answers->output.file);
    return true;
}

bool cli_answers_flush(cli_answers *answers)
{
    return cli_output_check(answers->session, &answers->output);
}

bool cli_answers_end(cli_answers *answers)
{
    begin(answers);
    return cli_answers_flush(answers) && (!answers->out || cli_output_commit(answers->session, &answers->output));
}

cli_json *cli_answers_json(cli_answers *answers)
{
    if (answers->json.out) {
        cli_json_end(&answers->json); /* the predictions */
    } else {
        answers->json.out = stdout;
        cli_json_object(&answers->json, NULL);
    }
    return &answers->json;
}

void cli_answers_close(cli_answers *answers)
{
    cli_output_abandon(&answers->output);
    for (size_t i = 0; answers->names && i < columns_of(answers); i++) free(answers->names[i]);
    free(answers->names);
    free(answers->class_values);
    free(answers->row);
}
