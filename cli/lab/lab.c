/* bochner lab: options, selection of the subcommand, and lab list. */
#include "lab.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- list -------------------------------------------------------------------------------------------------------- */

enum { TITLE_COLUMN = 37 };

/* Adds the verdicts of the stored result, if it is readable. */
static void result_json(cli_json *json, cli_lab_job *lab, const bo_lab_experiment *experiment)
{
    char why[CLI_LAB_WHY];
    bo_lab_result *result = cli_lab_result(lab, experiment, why);
    if (!result) return;
    cli_json_object(json, "result");
    cli_lab_counts_json(json, result);
    cli_json_end(json);
    bo_lab_result_destroy(result);
}

static void list_json(cli_lab_job *lab)
{
    cli_json json = {.out = stdout};
    cli_json_object(&json, NULL);
    cli_json_array(&json, "experiments");
    for (size_t i = 0; i < bo_lab_count(); i++) {
        const bo_lab_experiment *e = bo_lab_at(i);
        cli_json_object(&json, NULL);
        cli_json_add_text(&json, "name", e->name);
        cli_json_add_text(&json, "group", e->group);
        cli_json_add_text(&json, "title", e->title);
        cli_json_add_text(&json, "claim", e->claim);
        cli_json_add_text(&json, "source", e->source);
        cli_json_add_count(&json, "claims", e->claim_count);
        cli_json_add_count(&json, "tables", e->table_count);
        cli_json_add_flag(&json, "timed", e->timed);
        result_json(&json, lab, e);
        cli_json_end(&json);
    }
    cli_json_end(&json);
    cli_json_end(&json);
}

/* Wraps the text on a terminal; elsewhere prints one line, for programs. The cursor is at TITLE_COLUMN. */
static void print_title(const char *text)
{
    if (isatty(STDOUT_FILENO))
        cli_print_wrapped(stdout, text, TITLE_COLUMN);
    else
        puts(text);
}

static void list_title(const bo_lab_experiment *experiment)
{
    char title[256];
    snprintf(title, sizeof title, "%.200s%s", experiment->title, experiment->timed ? " (measures time)" : "");
    print_title(title);
}

static void list_result(cli_lab_job *lab, const bo_lab_experiment *experiment)
{
    char why[CLI_LAB_WHY], text[256];
    bo_lab_result *result = cli_lab_result(lab, experiment, why);
    if (!result) return;
    snprintf(text, sizeof text, "%s%s", cli_lab_summary(result).s,
             bo_lab_result_about(result).quick ? " (quick run)" : "");
    printf("%*s", TITLE_COLUMN, "");
    print_title(text);
    bo_lab_result_destroy(result);
}

int cli_lab_list(cli_lab_job *lab)
{
    const char *group = "";
    size_t claims = 0;
    if (lab->session.common.json) return list_json(lab), CLI_DONE;
    for (size_t i = 0; i < bo_lab_count(); i++) {
        const bo_lab_experiment *e = bo_lab_at(i);
        if (strcmp(group, e->group) != 0) printf("%s%s\n", i ? "\n" : "", group = e->group);
        printf("  %-24s%2zu claim%s  ", e->name, e->claim_count, e->claim_count == 1 ? " " : "s");
        list_title(e);
        list_result(lab, e);
        claims += e->claim_count;
    }
    printf("\n%zu experiments, %s claims\n", bo_lab_count(), cli_count(claims).s);
    return CLI_DONE;
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

typedef struct subcommand {
    const char *name;
    int (*run)(cli_lab_job *lab);
} subcommand;

static const subcommand subcommands[] = {{"list", cli_lab_list}, {"run", cli_lab_run}, {"report", cli_lab_report}};

static const char *subcommand_name(const void *items, size_t index)
{
    return ((const subcommand *)items)[index].name;
}

static const subcommand *find_subcommand(const char *name)
{
    for (size_t i = 0; i < CLI_COUNT_OF(subcommands); i++)
        if (strcmp(subcommands[i].name, name) == 0) return &subcommands[i];
    const char *near = cli_nearest(name, CLI_COUNT_OF(subcommands), subcommand_name, subcommands);
    cli_usage_error("lab", "expected list, run or report, found '%s'%s%s%s", name, near ? "; did you mean " : "",
                    near ? near : "", near ? "?" : "");
    return NULL;
}

static const char *experiment_name(const void *items, size_t index)
{
    (void)items;
    return bo_lab_at(index)->name;
}

static int check_names(const cli_lab_job *lab)
{
    if (lab->name_count == 0)
        return cli_usage_error("lab",
                               "run: expected the names of experiments or all (bochner lab list shows the names)");
    for (size_t i = 0; i < lab->name_count; i++) {
        const char *name = lab->names[i];
        if (bo_lab_find(name) || (strcmp(name, "all") == 0 && lab->name_count == 1)) continue;
        if (strcmp(name, "all") == 0) return cli_usage_error("lab", "run: expected either all or names, found both");
        const char *near = cli_nearest(name, bo_lab_count(), experiment_name, NULL);
        return cli_usage_error("lab", "run: unknown experiment '%s'%s%s%s", name, near ? "; did you mean " : "",
                               near ? near : "", near ? "?" : "");
    }
    return CLI_DONE;
}

static int check_use(const cli_lab_job *lab, const subcommand *chosen)
{
    const cli_lab_options *o = lab->options;
    const bool run = chosen->run == cli_lab_run, report = chosen->run == cli_lab_report;
    if (!run && lab->name_count)
        return cli_usage_error("lab", "%s: expected options only, found '%s'", chosen->name, lab->names[0]);
    if (!run && (o->quick || o->missing || CLI_GIVEN(o, seeds) || o->text || o->images))
        return cli_usage_error("lab", "--quick, --missing, --seeds, --text and --images are options of lab run");
    if (!report && (o->page || o->markdown))
        return cli_usage_error("lab", "--page and --markdown are options of lab report");
    return run ? check_names(lab) : CLI_DONE;
}

static int lab_command(void *options, const cli_common *common, const cli_arguments *arguments)
{
    const cli_lab_options *o = options;
    if (!arguments->count) return cli_usage_error("lab", "expected list, run or report");
    const subcommand *chosen = find_subcommand(arguments->items[0]);
    if (!chosen) return CLI_USAGE_ERROR;
    cli_lab_job lab = {
        .options = o, .directory = o->out, .names = arguments->items + 1, .name_count = arguments->count - 1};
    int status = check_use(&lab, chosen);
    if (status != CLI_DONE) return status;
    if (!cli_session_open(&lab.session, "lab", common, false)) return CLI_FAILED;
    status = chosen->run(&lab);
    cli_session_close(&lab.session);
    return status;
}

static const cli_option rows[] = {
    SECTION("Results"),
    TEXT("out", "DIR", cli_lab_options, out, "directory of results and plots", .initial = "lab-results"),
    SECTION("Running"),
    FLAG("quick", cli_lab_options, quick, "use smaller sizes and fewer seeds, for a quick check"),
    COUNT("seeds", "N", cli_lab_options, seeds, "number of seeds", .low = 1, .high = 1000,
          .default_text = "5, or 3 with --quick"),
    FLAG("missing", cli_lab_options, missing, "skip experiments whose result with the same settings is in DIR"),
    TEXT("text", "FILE", cli_lab_options, text, "text for language models", .default_text = "synthetic text"),
    TEXT("images", "DIR", cli_lab_options, images, "directory with images in IDX format, like MNIST",
         .default_text = "synthetic images"),
    SECTION("Reporting"),
    TEXT("page", "FILE", cli_lab_options, page, "HTML file to write", .default_text = "DIR/report.html"),
    TEXT("markdown", "FILE", cli_lab_options, markdown, "also write a summary in Markdown"),
    END_OF_OPTIONS,
};

const cli_usage cli_lab_usage = {
    .command = "lab",
    .synopsis = "list [--out DIR]   or   run NAME…|all [--quick] [--out DIR]   or   report [--out DIR]",
    .about = "Runs experiments that test the claims of the theory. Each claim has a measured number and a bound "
             "that is fixed in the code, and gets a verdict (held, inconclusive or failed) over several seeds. "
             "A verdict applies to the tested setting and sizes. list shows the experiments and the results in "
             "DIR. run writes all numbers to DIR/NAME.json and plots to DIR/NAME-TABLE.svg after each "
             "experiment. report writes one HTML page about the results in DIR.",
    .examples = "  bochner lab list\n"
                "  bochner lab run scaled-dot --quick\n"
                "  bochner lab report --page report.html\n",
    .groups = {{rows, 0}},
    .short_help = {"out", "quick", "seeds", "missing", "text", "images", "page", "markdown", "json"},
    .subcommands = {"list", "run", "report"},
};

int cli_lab(int argc, char **argv)
{
    cli_lab_options o = {0};
    return cli_command(&cli_lab_usage, argc, argv, &o, lab_command);
}
