/* bochner lab: options, selection of the subcommand, and lab list. */
#include "lab.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- list ------------------------------------------------------------------------------------ */

enum { TITLE_COLUMN = 37 };

/* Adds the verdicts of the stored result, if there is one that can be read. */
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

/* Wraps the text on a terminal and prints one line for programs that read the list. The cursor is at TITLE_COLUMN. */
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

/* ---- the command ----------------------------------------------------------------------------- */

typedef struct verb {
    const char *name;
    int (*run)(cli_lab_job *lab);
} verb;

static const verb verbs[] = {{"list", cli_lab_list}, {"run", cli_lab_run}, {"report", cli_lab_report}};

static const char *verb_name(const void *words, size_t index)
{
    return ((const verb *)words)[index].name;
}

static const verb *find_verb(const char *name)
{
    for (size_t i = 0; i < CLI_COUNT_OF(verbs); i++)
        if (strcmp(verbs[i].name, name) == 0) return &verbs[i];
    const char *near = cli_nearest(name, CLI_COUNT_OF(verbs), verb_name, verbs);
    cli_wrong_use("lab", "expected list, run or report, found '%s'%s%s%s", name, near ? "; did you mean " : "",
                  near ? near : "", near ? "?" : "");
    return NULL;
}

static const char *experiment_name(const void *words, size_t index)
{
    (void)words;
    return bo_lab_at(index)->name;
}

static int check_names(const cli_lab_job *lab)
{
    if (lab->name_count == 0)
        return cli_wrong_use("lab", "run: expected the names of experiments or all (bochner lab list shows the names)");
    for (size_t i = 0; i < lab->name_count; i++) {
        const char *name = lab->names[i];
        if (bo_lab_find(name) || (strcmp(name, "all") == 0 && lab->name_count == 1)) continue;
        if (strcmp(name, "all") == 0) return cli_wrong_use("lab", "run: expected either all or names, found both");
        const char *near = cli_nearest(name, bo_lab_count(), experiment_name, NULL);
        return cli_wrong_use("lab", "run: unknown experiment '%s'%s%s%s", name, near ? "; did you mean " : "",
                             near ? near : "", near ? "?" : "");
    }
    return CLI_DONE;
}

static int check_use(const cli_lab_job *lab, const verb *asked)
{
    const cli_lab_options *o = lab->options;
    const bool run = asked->run == cli_lab_run, report = asked->run == cli_lab_report;
    if (!run && lab->name_count)
        return cli_wrong_use("lab", "%s: expected options only, found '%s'", asked->name, lab->names[0]);
    if (!run && (o->quick || o->missing || CLI_GIVEN(o, seeds) || o->text || o->images))
        return cli_wrong_use("lab", "--quick, --missing, --seeds, --text and --images are options of lab run");
    if (!report && (o->page || o->markdown))
        return cli_wrong_use("lab", "--page and --markdown are options of lab report");
    return run ? check_names(lab) : CLI_DONE;
}

static int lab_command(void *options, const cli_common *common, const cli_arguments *arguments)
{
    const cli_lab_options *o = options;
    if (!arguments->count) return cli_wrong_use("lab", "expected list, run or report");
    const verb *asked = find_verb(arguments->items[0]);
    if (!asked) return CLI_WRONG_USE;
    cli_lab_job lab = {
        .options = o, .directory = o->out, .names = arguments->items + 1, .name_count = arguments->count - 1};
    int status = check_use(&lab, asked);
    if (status != CLI_DONE) return status;
    if (!cli_session_open(&lab.session, "lab", common, false)) return CLI_FAILED;
    status = asked->run(&lab);
    cli_session_close(&lab.session);
    return status;
}

static const cli_option rows[] = {
    SECTION("Results"),
    TEXT("out", "DIR", cli_lab_options, out, "directory of results and plots", .initial = "lab-results"),
    SECTION("Running"),
    FLAG("quick", cli_lab_options, quick, "use smaller sizes and fewer seeds, for a quick check"),
    COUNT("seeds", "N", cli_lab_options, seeds, "number of seeds", .low = 1, .high = 1000,
          .otherwise = "5, or 3 with --quick"),
    FLAG("missing", cli_lab_options, missing, "skip experiments whose result with the same settings is in DIR"),
    TEXT("text", "FILE", cli_lab_options, text, "text for language models", .otherwise = "synthetic text"),
    TEXT("images", "DIR", cli_lab_options, images, "directory with images in IDX format, like MNIST",
         .otherwise = "synthetic images"),
    SECTION("Reporting"),
    TEXT("page", "FILE", cli_lab_options, page, "HTML file to write", .otherwise = "DIR/report.html"),
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
    .essential = {"out", "quick", "seeds", "missing", "text", "images", "page", "markdown", "json"},
    .verbs = {"list", "run", "report"},
};

int cli_lab(int argc, char **argv)
{
    cli_lab_options o = {0};
    return cli_command(&cli_lab_usage, argc, argv, &o, lab_command);
}
