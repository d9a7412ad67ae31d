/* bochner lab: the theory as experiments. */
#include "cli.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct lab_options {
    bool quick;
    size_t seeds;
    const char *text, *images, *out;
} lab_options;

static void print_claims(const bo_lab_result *result)
{
    const bo_lab_experiment *e = bo_lab_result_about(result).experiment;
    for (size_t i = 0; i < e->claim_count; i++) {
        const bo_lab_outcome o = bo_lab_result_claim(result, i);
        printf("%-12s  %s\n              %s: %.4g [%.4g, %.4g], %s %g", bo_lab_verdict_name(o.verdict),
               o.claim->statement, o.claim->number, o.mean, o.low, o.high, bo_lab_rule_name(o.claim->rule),
               o.claim->bound);
        if (o.claim->rule == BO_LAB_BETWEEN) printf(" and %g", o.claim->upper);
        putchar('\n');
    }
}

static void print_table(const bo_lab_grid *grid)
{
    printf("\n%s (%s)\n%16s", grid->table->title, grid->table->values, grid->table->rows);
    for (size_t c = 0; c < grid->columns; c++) printf("  %18s", grid->column_names[c]);
    for (size_t r = 0; r < grid->rows; r++) {
        printf("\n%16s", grid->row_names[r]);
        for (size_t c = 0; c < grid->columns; c++) {
            const bo_lab_cell *cell = &grid->cells[r * grid->columns + c];
            if (cell->count)
                printf("  %9.4g ± %6.2g", cell->mean, cell->deviation);
            else
                printf("  %18s", "");
        }
    }
    putchar('\n');
}

static int run_one(cli_session *session, const bo_lab_experiment *experiment, const lab_options *o)
{
    bo_lab_result *result;
    const bo_lab_options options = {
        .quick = o->quick, .seeds = o->seeds, .seed = session->common.seed, .text = o->text, .images = o->images};
    const bo_status status = bo_lab_run(session->context, experiment, &options, &result);
    if (status != BO_OK) return cli_fail_status(session, status);
    printf("%s: %s, %.1f s\n", experiment->name, bo_lab_verdict_name(bo_lab_result_verdict(result)),
           bo_lab_result_about(result).seconds);
    print_claims(result);
    for (size_t i = 0; i < experiment->table_count; i++) {
        const bo_lab_grid grid = bo_lab_result_table(result, i);
        print_table(&grid);
    }
    for (size_t i = 0; i < bo_lab_result_notes(result); i++) printf("Note: %s\n", bo_lab_result_note(result, i));
    bo_lab_result_destroy(result);
    return CLI_DONE;
}

static int lab(const cli_common *common, const cli_arguments *arguments, const lab_options *o)
{
    if (arguments->count == 1 && strcmp(arguments->items[0], "list") == 0) {
        for (size_t i = 0; i < bo_lab_count(); i++) puts(bo_lab_at(i)->name);
        return CLI_DONE;
    }
    const bo_lab_experiment *experiment = arguments->count == 2 ? bo_lab_find(arguments->items[1]) : NULL;
    if (!experiment) return cli_wrong_use("lab", "say list, or run and the name of an experiment");
    cli_session session;
    if (!cli_session_open(&session, "lab", common, false)) return CLI_FAILED;
    const int status = run_one(&session, experiment, o);
    cli_session_close(&session);
    return status;
}

int cli_lab(int argc, char **argv)
{
    lab_options o = {0};
    const cli_option options[] = {
        {CLI_FLAG, "quick", NULL, "smaller sizes and fewer seeds; the same code", &o.quick, NULL, 0, 0},
        {CLI_COUNT, "seeds", "N", "5 unless given, 3 with --quick", &o.seeds, NULL, 0, 1000},
        {CLI_TEXT, "text", "FILE", "text for language models; made-up text unless given", &o.text, NULL, 0, 0},
        {CLI_TEXT, "images", "DIR", "images in IDX files; made-up ones unless given", &o.images, NULL, 0, 0},
        {CLI_TEXT, "out", "DIR", "results are written there", &o.out, NULL, 0, 0},
    };
    const cli_usage usage = {"lab",   "list|run NAME",      "The theory as experiments.", "bochner lab list",
                             options, CLI_COUNT_OF(options)};
    cli_common common = {0};
    cli_arguments arguments = {0};
    const cli_parsed parsed = cli_parse(&usage, argc, argv, &common, &arguments);
    const int status = parsed == CLI_PARSED       ? lab(&common, &arguments, &o)
                       : parsed == CLI_HELP_SHOWN ? CLI_DONE
                                                  : CLI_WRONG_USE;
    free(arguments.items);
    return status;
}
