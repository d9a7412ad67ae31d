/* A result on the terminal, and as JSON. */
#include "lab.h"
#include <math.h>
#include <string.h>

static void print_right(const char *text, size_t width)
{
    const size_t letters = cli_letters(text);
    printf("%*s%s", width > letters ? (int)(width - letters) : 0, "", text);
}

/* ---- claims ---------------------------------------------------------------------------------- */

static void print_claim(const bo_lab_outcome *o, size_t seeds)
{
    enum { INDENT = 16 };
    char line[1024];
    printf("  %-*s", INDENT - 2, bo_lab_verdict_name(o->verdict));
    cli_print_wrapped(stdout, o->claim->statement, INDENT);
    snprintf(line, sizeof line, "%.700s: %s (%s: %s); claimed: %s", o->claim->number, cli_lab_number(o->mean).s,
             cli_lab_interval_kind(o, seeds), cli_lab_interval(o).s, cli_lab_bound(o->claim).s);
    printf("%*s", INDENT, "");
    cli_print_wrapped(stdout, line, INDENT);
}

/* ---- tables ---------------------------------------------------------------------------------- */

static cli_word cell_text(const bo_lab_cell *cell)
{
    cli_word word = {""};
    if (cell->count && cell->deviation > 0)
        snprintf(word.s, sizeof word.s, "%.20s ± %.16s", cli_lab_number(cell->mean).s,
                 cli_significant(cell->deviation, 2).s);
    else if (cell->count)
        word = cli_lab_number(cell->mean);
    return word;
}

static size_t column_width(const bo_lab_grid *grid, size_t column)
{
    size_t width = cli_letters(grid->column_names[column]);
    for (size_t r = 0; r < grid->rows; r++) {
        const size_t cell = cli_letters(cell_text(&grid->cells[r * grid->columns + column]).s);
        if (cell > width) width = cell;
    }
    return width;
}

static size_t row_width(const bo_lab_grid *grid)
{
    size_t width = cli_letters(grid->table->rows);
    for (size_t r = 0; r < grid->rows; r++)
        if (cli_letters(grid->row_names[r]) > width) width = cli_letters(grid->row_names[r]);
    return width;
}

static void print_table(const bo_lab_grid *grid)
{
    const size_t first = row_width(grid);
    printf("\n  %s (%s)\n    ", grid->table->title, grid->table->values);
    print_right(grid->table->rows, first);
    for (size_t c = 0; c < grid->columns; c++) {
        fputs("   ", stdout);
        print_right(grid->column_names[c], column_width(grid, c));
    }
    for (size_t r = 0; r < grid->rows; r++) {
        fputs("\n    ", stdout);
        print_right(grid->row_names[r], first);
        for (size_t c = 0; c < grid->columns; c++) {
            fputs("   ", stdout);
            print_right(cell_text(&grid->cells[r * grid->columns + c]).s, column_width(grid, c));
        }
    }
    putchar('\n');
}

void cli_lab_print(const bo_lab_result *result)
{
    const bo_lab_about about = bo_lab_result_about(result);
    const bo_lab_experiment *e = about.experiment;
    printf("%s: %s (%s)\n", e->name, bo_lab_verdict_name(bo_lab_result_verdict(result)), e->title);
    for (size_t i = 0; i < e->claim_count; i++) {
        const bo_lab_outcome outcome = bo_lab_result_claim(result, i);
        print_claim(&outcome, about.seeds);
    }
    for (size_t i = 0; i < e->table_count; i++) {
        const bo_lab_grid grid = bo_lab_result_table(result, i);
        print_table(&grid);
    }
    if (bo_lab_result_notes(result)) putchar('\n');
    for (size_t i = 0; i < bo_lab_result_notes(result); i++) {
        fputs("  Note: ", stdout);
        cli_print_wrapped(stdout, bo_lab_result_note(result, i), 8);
    }
    fputs("\n  ", stdout);
    cli_lab_setting(stdout, &about);
    fputs("\n\n", stdout);
    fflush(stdout);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void claim_json(cli_json *json, const bo_lab_outcome *o, size_t seeds)
{
    cli_json_object(json, NULL);
    cli_json_text(json, "name", o->claim->name);
    cli_json_text(json, "verdict", bo_lab_verdict_name(o->verdict));
    cli_json_text(json, "rule", bo_lab_rule_name(o->claim->rule));
    cli_json_number(json, "bound", o->claim->bound);
    if (o->claim->rule == BO_LAB_BETWEEN) cli_json_number(json, "upper", o->claim->upper);
    cli_json_number(json, "mean", o->mean);
    cli_json_number(json, "low", o->low);
    cli_json_number(json, "high", o->high);
    cli_json_array(json, "values");
    for (size_t i = 0; i < seeds; i++) cli_json_number(json, NULL, o->values[i]);
    cli_json_end(json);
    cli_json_end(json);
}

void cli_lab_result_json(cli_json *json, const bo_lab_result *result)
{
    const bo_lab_about about = bo_lab_result_about(result);
    cli_json_object(json, NULL);
    cli_json_text(json, "name", about.experiment->name);
    cli_json_text(json, "verdict", bo_lab_verdict_name(bo_lab_result_verdict(result)));
    cli_json_flag(json, "quick", about.quick);
    cli_json_count(json, "seeds", about.seeds);
    cli_json_number(json, "seconds", about.seconds);
    cli_json_array(json, "claims");
    for (size_t i = 0; i < about.experiment->claim_count; i++) {
        const bo_lab_outcome outcome = bo_lab_result_claim(result, i);
        claim_json(json, &outcome, about.seeds);
    }
    cli_json_end(json);
    cli_json_array(json, "tables");
    for (size_t i = 0; i < about.experiment->table_count; i++) {
        const bo_lab_grid grid = bo_lab_result_table(result, i);
        cli_json_object(json, NULL);
        cli_json_text(json, "name", grid.table->name);
        cli_json_count(json, "rows", grid.rows);
        cli_json_count(json, "columns", grid.columns);
        cli_json_end(json);
    }
    cli_json_end(json);
    cli_json_end(json);
}
