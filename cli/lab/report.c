/* bochner lab report: the results in a directory as an HTML page and as Markdown. */
#include "lab.h"
#include "../common/output.h"
#include "../common/paths.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- Markdown ---------------------------------------------------------------------------------------------------- */

/* Writes text with all special characters of Markdown escaped, including table bars. */
static void write_text(FILE *out, const char *text)
{
    for (const char *c = text ? text : ""; *c; c++) {
        if (strchr("|<*_`[\\", *c)) fputc('\\', out);
        fputc((unsigned char)*c < 0x20 ? ' ' : *c, out);
    }
}

/* Names in result files are not trusted: an indented line can contain only code. */
static void write_code(FILE *out, const char *text)
{
    fputs("\n    ", out);
    for (const char *c = text; *c; c++) fputc((unsigned char)*c < 0x20 ? ' ' : *c, out);
    fputs("\n\n", out);
}

static void write_summary(FILE *out, const cli_lab_results *results)
{
    fputs("| Experiment | Subject | Claims held | Inconclusive | Failed | Seeds | Time |\n"
          "|---|---|--:|--:|--:|--:|--:|\n",
          out);
    for (size_t i = 0; i < bo_lab_count(); i++) {
        const bo_lab_result *result = results->items[i];
        if (!result) continue;
        const bo_lab_about about = bo_lab_result_about(result);
        fprintf(out, "| [%s](#%s) | ", about.experiment->name, about.experiment->name);
        write_text(out, about.experiment->title);
        fprintf(out, " | %zu of %zu | %zu | %zu | %zu%s | %s |\n", bo_lab_result_count(result, BO_LAB_HELD),
                about.experiment->claim_count, bo_lab_result_count(result, BO_LAB_INCONCLUSIVE),
                bo_lab_result_count(result, BO_LAB_FAILED), about.seeds, about.quick ? ", quick" : "",
                cli_seconds(about.seconds).s);
    }
    fprintf(out, "\nTotal: %s.\n", cli_lab_tally(results->verdicts).s);
}

/* ---- claims sorted by passage ------------------------------------------------------------------------------------ */

/* Claims quoted from the founding documents, with this verdict. */
static void write_documented(FILE *out, const cli_lab_results *results, const char *title, bo_lab_verdict verdict)
{
    fprintf(out, "\n### Claims as written: %s\n\n| Experiment | Claim | Passage |\n|---|---|---|\n", title);
    for (size_t i = 0; i < bo_lab_count(); i++) {
        const bo_lab_experiment *e = bo_lab_at(i);
        for (size_t k = 0; results->items[i] && k < e->claim_count; k++) {
            const bo_lab_outcome o = bo_lab_result_claim(results->items[i], k);
            if (!o.claim->passage || o.verdict != verdict) continue;
            fprintf(out, "| [%s](#%s), %s | ", e->name, e->name, o.claim->name);
            write_text(out, o.claim->statement);
            fputs(" | ", out);
            write_text(out, o.claim->passage);
            fputs(" |\n", out);
        }
    }
}

/* The other claims by name, one row per experiment. */
static void write_deviations(FILE *out, const cli_lab_results *results)
{
    static const bo_lab_verdict verdicts[] = {BO_LAB_HELD, BO_LAB_FAILED, BO_LAB_INCONCLUSIVE};
    fputs(
        "\n### Additional claims\n\n"
        "Claims that no founding document states: controls, consequences, corrections, and claims of other papers.\n\n"
        "| Experiment | Held | Failed | Inconclusive |\n|---|---|---|---|\n",
        out);
    for (size_t i = 0; i < bo_lab_count(); i++) {
        const bo_lab_experiment *e = bo_lab_at(i);
        if (!results->items[i]) continue;
        fprintf(out, "| [%s](#%s)", e->name, e->name);
        for (size_t v = 0; v < sizeof verdicts / sizeof *verdicts; v++) {
            const char *before = " | ";
            for (size_t k = 0; k < e->claim_count; k++) {
                const bo_lab_outcome o = bo_lab_result_claim(results->items[i], k);
                if (o.claim->passage || o.verdict != verdicts[v]) continue;
                fprintf(out, "%s%s", before, o.claim->name);
                before = ", ";
            }
            if (before[1] == '|') fputs(" |", out);
        }
        fputs(" |\n", out);
    }
}

static void write_sorted(FILE *out, const cli_lab_results *results)
{
    fputs("\n## Claims by source in the founding documents\n", out);
    write_documented(out, results, "held", BO_LAB_HELD);
    write_documented(out, results, "failed", BO_LAB_FAILED);
    write_documented(out, results, "inconclusive", BO_LAB_INCONCLUSIVE);
    write_deviations(out, results);
}

/* ---- experiments ------------------------------------------------------------------------------------------------- */

static void write_claim(FILE *out, const bo_lab_outcome *o, size_t seeds)
{
    const char *kind = cli_lab_interval_kind(o, seeds);
    fputs("| ", out);
    write_text(out, o->claim->statement);
    fputs(" | ", out);
    write_text(out, o->claim->number);
    fprintf(out, " | %s | %s%s | %s | %s |\n", cli_lab_number(o->mean).s, cli_lab_interval(o).s,
            kind == cli_lab_interval_default ? ""
            : seeds < 2                      ? " (one seed)"
                                             : " (range)",
            cli_lab_bound(o->claim).s, bo_lab_verdict_name(o->verdict));
}

static void write_experiment(FILE *out, const bo_lab_result *result)
{
    const bo_lab_about about = bo_lab_result_about(result);
    const bo_lab_experiment *e = about.experiment;
    char *command = cli_lab_string(cli_lab_command, &about), *setting = cli_lab_string(cli_lab_setting, &about);
    fprintf(out, "\n### %s\n\n**%s.** ", e->name, cli_lab_summary(result).s);
    write_text(out, e->claim);
    if (e->source) {
        fputs(" Source: ", out);
        write_text(out, e->source);
        fputc('.', out);
    }
    fputs("\n\n| Claim | Measured quantity | Mean | 99% interval | Bound | Verdict |\n|---|---|--:|--:|--:|---|\n",
          out);
    for (size_t i = 0; i < e->claim_count; i++) {
        const bo_lab_outcome outcome = bo_lab_result_claim(result, i);
        write_claim(out, &outcome, about.seeds);
    }
    for (size_t i = 0; i < bo_lab_result_notes(result); i++) {
        fputs(i ? "- " : "\n- ", out);
        write_text(out, bo_lab_result_note(result, i));
        fputc('\n', out);
    }
    write_code(out, command);
    write_text(out, setting);
    fputs(".\n", out);
    free(command);
    free(setting);
}

static void print_markdown(FILE *out, const cli_lab_results *results)
{
    const char *group = "";
    write_summary(out, results);
    write_sorted(out, results);
    for (size_t i = 0; i < bo_lab_count(); i++) {
        if (!results->items[i]) continue;
        if (strcmp(group, bo_lab_at(i)->group) != 0) fprintf(out, "\n## %s\n", group = bo_lab_at(i)->group);
        write_experiment(out, results->items[i]);
    }
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

/* Draws all plots. If the directory is not writable or gnuplot is missing, existing plots are used. */
static size_t draw_plots(cli_lab_job *lab, const cli_lab_results *results)
{
    size_t failed = 0;
    if (access(lab->directory, W_OK) != 0) {
        cli_warn(&lab->session, "%s is not writable: the page uses the existing plots", lab->directory);
        return 0;
    }
    for (size_t i = 0; i < bo_lab_count(); i++) {
        if (!results->items[i]) continue;
        if (!cli_lab_draw(lab, results->items[i], &failed)) {
            cli_warn(&lab->session, "gnuplot is not installed: the page lists the plots that are missing");
            break;
        }
        cli_progress_report(&lab->session.progress, "drawing", (double)i, (double)bo_lab_count());
    }
    cli_progress_clear(&lab->session.progress);
    return failed;
}

static bool write_page(cli_lab_job *lab, const char *path, const cli_lab_results *results, size_t *missing)
{
    cli_output output;
    if (!cli_output_text(&lab->session, &output, path)) return false;
    *missing = cli_lab_page(output.file, lab, results);
    return cli_output_commit(&lab->session, &output);
}

static bool write_markdown(cli_lab_job *lab, const char *path, const cli_lab_results *results)
{
    cli_output output;
    if (!cli_output_text(&lab->session, &output, path)) return false;
    print_markdown(output.file, results);
    return cli_output_commit(&lab->session, &output);
}

static void print_result(const cli_lab_job *lab, const char *page, const cli_lab_results *results, size_t missing)
{
    if (lab->session.common.json) {
        cli_json json = {.out = stdout};
        cli_json_object(&json, NULL);
        cli_json_add_text(&json, "page", page);
        cli_json_add_text(&json, "markdown", lab->options->markdown);
        cli_json_add_count(&json, "experiments", results->count);
        cli_json_add_count(&json, "held", results->verdicts[BO_LAB_HELD]);
        cli_json_add_count(&json, "inconclusive", results->verdicts[BO_LAB_INCONCLUSIVE]);
        cli_json_add_count(&json, "failed", results->verdicts[BO_LAB_FAILED]);
        cli_json_add_count(&json, "unreadable", results->unreadable);
        cli_json_add_count(&json, "missing_plots", missing);
        cli_json_end(&json);
        return;
    }
    printf("%zu experiment%s: %s\n", results->count, results->count == 1 ? "" : "s",
           cli_lab_tally(results->verdicts).s);
    if (missing) printf("%zu plot%s missing; the page lists them\n", missing, missing == 1 ? " is" : "s are");
    printf("Page: %s\n", page);
    if (lab->options->markdown) printf("Markdown: %s\n", lab->options->markdown);
}

static int report(cli_lab_job *lab, const char *page)
{
    const char *markdown = lab->options->markdown;
    cli_lab_results results;
    size_t missing = 0, failed = 0;
    struct stat info;
    errno = 0;
    if (stat(lab->directory, &info) != 0) return cli_fail(&lab->session, "%s: %s", lab->directory, strerror(errno));
    if (!S_ISDIR(info.st_mode)) return cli_fail(&lab->session, "%s: not a directory", lab->directory);
    if (!cli_can_write(&lab->session, page) || (markdown && !cli_can_write(&lab->session, markdown))) return CLI_FAILED;
    cli_lab_read(lab, &results);
    bool done = results.count > 0;
    if (!done)
        cli_fail(&lab->session, "no results in %s (create some with bochner lab run all --quick --out %s)",
                 lab->directory, lab->directory);
    if (done) failed = draw_plots(lab, &results);
    if (done) done = write_page(lab, page, &results, &missing);
    if (done && markdown) done = write_markdown(lab, markdown, &results);
    if (done) print_result(lab, page, &results, missing);
    done = done && !failed && !results.unreadable;
    cli_lab_results_free(&results);
    return done ? CLI_DONE : CLI_FAILED;
}

/* The page and the Markdown file must not overwrite a result or a plot. */
static int check_outputs(const cli_lab_job *lab, const char *page)
{
    const cli_path outputs[] = {{"page", page}, {"markdown", lab->options->markdown}};
    int status = cli_paths_apart("lab", outputs, CLI_COUNT_OF(outputs), NULL, 0);
    for (size_t i = 0; i < bo_lab_count() && status == CLI_DONE; i++) {
        const bo_lab_experiment *e = bo_lab_at(i);
        for (size_t t = 0; t <= e->table_count && status == CLI_DONE; t++) {
            char *path = cli_lab_file(lab, e, t < e->table_count ? &e->tables[t] : NULL);
            const cli_path input = {NULL, path};
            status = cli_paths_apart("lab", outputs, CLI_COUNT_OF(outputs), &input, 1);
            free(path);
        }
    }
    return status;
}

int cli_lab_report(cli_lab_job *lab)
{
    const cli_lab_options *o = lab->options;
    const size_t size = strlen(lab->directory) + 16;
    char *default_page = cli_allocate(size, 1, "file name");
    snprintf(default_page, size, "%s/report.html", lab->directory);
    const char *page = o->page ? o->page : default_page;
    int status = check_outputs(lab, page);
    if (status == CLI_DONE) status = report(lab, page);
    free(default_page);
    return status;
}
