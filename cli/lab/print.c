/* Results as terminal text and as JSON, and texts shared with the report. */
#include "lab.h"
#include "../common/streams.h"
#include <math.h>
#include <string.h>

/* ---- texts shared by the terminal, the page and Markdown --------------------------------------------------------- */

const char cli_lab_interval_default[] = "99% interval";

const char cli_lab_verdicts_mean[] =
    "A claim held if the 99% confidence interval (Student) of the mean over the seeds lies on the claimed side of the "
    "bound, it failed if the interval lies on the other side, and it is inconclusive otherwise; identities must hold "
    "for every seed.";

cli_lab_text cli_lab_tally(const size_t verdicts[3])
{
    const size_t supported = verdicts[BO_LAB_HELD], open = verdicts[BO_LAB_INCONCLUSIVE],
                 failed = verdicts[BO_LAB_FAILED];
    const size_t all = supported + open + failed;
    cli_lab_text text;
    int length = snprintf(text.s, sizeof text.s, "%zu of %zu claim%s held", supported, all, all == 1 ? "" : "s");
    if (open) length += snprintf(text.s + length, sizeof text.s - (size_t)length, ", %zu inconclusive", open);
    if (failed) snprintf(text.s + length, sizeof text.s - (size_t)length, ", %zu failed", failed);
    return text;
}

void cli_lab_count(const bo_lab_result *result, size_t verdicts[3])
{
    for (int v = 0; v < 3; v++) verdicts[v] += bo_lab_result_count(result, (bo_lab_verdict)v);
}

cli_lab_text cli_lab_summary(const bo_lab_result *result)
{
    size_t verdicts[3] = {0};
    cli_lab_count(result, verdicts);
    return cli_lab_tally(verdicts);
}

cli_short_text cli_lab_number(double value)
{
    if (isnan(value)) return (cli_short_text){"–"};
    if (isinf(value)) return value > 0 ? (cli_short_text){"∞"} : (cli_short_text){"-∞"};
    return cli_significant(value == 0 ? 0 : value, 4); /* avoids -0 */
}

cli_short_text cli_lab_bound(const bo_lab_claim *claim)
{
    cli_short_text word;
    int length =
        snprintf(word.s, sizeof word.s, "%s %.12s", bo_lab_rule_name(claim->rule), cli_lab_number(claim->bound).s);
    if (claim->rule == BO_LAB_BETWEEN)
        snprintf(word.s + length, sizeof word.s - (size_t)length, " and %.12s", cli_lab_number(claim->upper).s);
    return word;
}

cli_short_text cli_lab_interval(const bo_lab_outcome *outcome)
{
    cli_short_text word;
    if (isnan(outcome->low)) return (cli_short_text){"–"};
    snprintf(word.s, sizeof word.s, "%.20s to %.20s", cli_lab_number(outcome->low).s, cli_lab_number(outcome->high).s);
    return word;
}

const char *cli_lab_interval_kind(const bo_lab_outcome *outcome, size_t seeds)
{
    const bool each = outcome->claim->rule == BO_LAB_EACH_AT_MOST || outcome->claim->rule == BO_LAB_EACH_AT_LEAST;
    if (seeds < 2) return "one seed";
    return each || !isfinite(outcome->mean) ? "minimum and maximum" : cli_lab_interval_default;
}

size_t cli_lab_seeds(bool quick, size_t requested)
{
    return requested ? requested : quick ? BO_LAB_QUICK_SEEDS : BO_LAB_SEEDS;
}

void cli_lab_command(FILE *out, const bo_lab_about *about)
{
    fprintf(out, "bochner lab run %s", about->experiment->name);
    if (about->quick) fputs(" --quick", out);
    if (about->seeds != cli_lab_seeds(about->quick, 0)) fprintf(out, " --seeds %zu", about->seeds);
    if (about->seed != 1) fprintf(out, " --seed %llu", (unsigned long long)about->seed);
    if (about->text) fputs(" --text ", out), cli_print_shell_quoted(out, about->text);
    if (about->images) fputs(" --images ", out), cli_print_shell_quoted(out, about->images);
    if (about->experiment->timed) fprintf(out, " --threads %d", about->threads);
}

void cli_lab_setting(FILE *out, const bo_lab_about *about)
{
    fprintf(out, "%s%zu seed%s starting at %llu, %s on %d thread%s (%s kernels), Bochner %s",
            about->quick ? "quick run, " : "", about->seeds, about->seeds == 1 ? "" : "s",
            (unsigned long long)about->seed, cli_seconds(about->seconds).s, about->threads,
            about->threads == 1 ? "" : "s", about->isa, about->version);
    if (about->text) fprintf(out, ", text from %s", about->text);
    if (about->images) fprintf(out, ", images from %s", about->images);
}

char *cli_lab_string(cli_lab_print_fn print, const bo_lab_about *about)
{
    char *text = NULL;
    size_t length = 0;
    FILE *memory = open_memstream(&text, &length);
    if (memory) {
        print(memory, about);
        fclose(memory);
    }
    return text ? text : cli_allocate(1, 1, "words");
}

static void print_right(const char *text, size_t width)
{
    const size_t width_used = cli_display_width(text);
    printf("%*s%s", width > width_used ? (int)(width - width_used) : 0, "", text);
}

/* ---- claims ------------------------------------------------------------------------------------------------------ */

static void print_claim(const bo_lab_outcome *o, size_t seeds)
{
    enum { INDENT = 16 };
    char line[1024];
    printf("  %-*s", INDENT - 2, bo_lab_verdict_name(o->verdict));
    cli_print_wrapped(stdout, o->claim->statement, INDENT);
    snprintf(line, sizeof line, "%.700s: %s (%s: %s); bound: %s", o->claim->number, cli_lab_number(o->mean).s,
             cli_lab_interval_kind(o, seeds), cli_lab_interval(o).s, cli_lab_bound(o->claim).s);
    printf("%*s", INDENT, "");
    cli_print_wrapped(stdout, line, INDENT);
}

/* ---- tables ------------------------------------------------------------------------------------------------------ */

static cli_short_text cell_text(const bo_lab_cell *cell)
{
    cli_short_text word = {""};
    if (cell->count && cell->deviation > 0)
        snprintf(word.s, sizeof word.s, "%.20s ± %.16s", cli_lab_number(cell->mean).s,
                 cli_significant(cell->deviation, 2).s);
    else if (cell->count)
        word = cli_lab_number(cell->mean);
    return word;
}

static size_t column_width(const bo_lab_grid *grid, size_t column)
{
    size_t width = cli_display_width(grid->column_names[column]);
    for (size_t r = 0; r < grid->rows; r++) {
        const size_t cell = cli_display_width(cell_text(&grid->cells[r * grid->columns + column]).s);
        if (cell > width) width = cell;
    }
    return width;
}

static size_t row_width(const bo_lab_grid *grid)
{
    size_t width = cli_display_width(grid->table->rows);
    for (size_t r = 0; r < grid->rows; r++)
        if (cli_display_width(grid->row_names[r]) > width) width = cli_display_width(grid->row_names[r]);
    return width;
}

static void print_table(const bo_lab_grid *grid)
{
    const size_t first = row_width(grid);
    char title[1024];
    snprintf(title, sizeof title, "%.500s (%.500s)", grid->table->title, grid->table->values);
    fputs("\n  ", stdout);
    cli_print_wrapped(stdout, title, 2);
    fputs("    ", stdout);
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
    printf("%s: %s\n  %s\n\n", e->name, e->title, cli_lab_summary(result).s);
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
    cli_streams_flush();
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

static void claim_json(cli_json *json, const bo_lab_outcome *o, size_t seeds)
{
    cli_json_object(json, NULL);
    cli_json_add_text(json, "name", o->claim->name);
    cli_json_add_text(json, "verdict", bo_lab_verdict_name(o->verdict));
    cli_json_add_text(json, "rule", bo_lab_rule_name(o->claim->rule));
    cli_json_add_number(json, "bound", o->claim->bound);
    if (o->claim->rule == BO_LAB_BETWEEN) cli_json_add_number(json, "upper", o->claim->upper);
    cli_json_add_number(json, "mean", o->mean);
    cli_json_add_number(json, "low", o->low);
    cli_json_add_number(json, "high", o->high);
    cli_json_array(json, "values");
    for (size_t i = 0; i < seeds; i++) cli_json_add_number(json, NULL, o->values[i]);
    cli_json_end(json);
    cli_json_end(json);
}

void cli_lab_counts_json(cli_json *json, const bo_lab_result *result)
{
    cli_json_add_count(json, "held", bo_lab_result_count(result, BO_LAB_HELD));
    cli_json_add_count(json, "inconclusive", bo_lab_result_count(result, BO_LAB_INCONCLUSIVE));
    cli_json_add_count(json, "failed", bo_lab_result_count(result, BO_LAB_FAILED));
}

void cli_lab_result_json(cli_json *json, const bo_lab_result *result)
{
    const bo_lab_about about = bo_lab_result_about(result);
    cli_json_object(json, NULL);
    cli_json_add_text(json, "name", about.experiment->name);
    cli_lab_counts_json(json, result);
    cli_json_add_flag(json, "quick", about.quick);
    cli_json_add_count(json, "seeds", about.seeds);
    cli_json_add_number(json, "seconds", about.seconds);
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
        cli_json_add_text(json, "name", grid.table->name);
        cli_json_add_count(json, "rows", grid.rows);
        cli_json_add_count(json, "columns", grid.columns);
        cli_json_end(json);
    }
    cli_json_end(json);
    cli_json_end(json);
}
