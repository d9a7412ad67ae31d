/* The report in short, as Markdown. */
#include "lab.h"
#include <stdlib.h>
#include <string.h>

/* As it is: no letter of it is Markdown's, also not the bars of tables. */
static void put_text(FILE *out, const char *text)
{
    for (const char *c = text ? text : ""; *c; c++) {
        if (strchr("|<*_`[\\", *c)) fputc('\\', out);
        fputc((unsigned char)*c < 0x20 ? ' ' : *c, out);
    }
}

/* Names in result files may be anybody's: a line of its own can hold no more than code. */
static void put_code(FILE *out, const char *text)
{
    fputs("\n    ", out);
    for (const char *c = text; *c; c++) fputc((unsigned char)*c < 0x20 ? ' ' : *c, out);
    fputs("\n\n", out);
}

static void put_summary(FILE *out, const cli_lab_results *results)
{
    fputs("| experiment | what it is about | held | not held | inconclusive | seeds | time |\n"
          "|---|---|--:|--:|--:|--:|--:|\n",
          out);
    for (size_t i = 0; i < bo_lab_count(); i++) {
        const bo_lab_result *result = results->items[i];
        if (!result) continue;
        const bo_lab_about about = bo_lab_result_about(result);
        fprintf(out, "| [%s](#%s) | ", about.experiment->name, about.experiment->name);
        put_text(out, about.experiment->title);
        fprintf(out, " | %zu | %zu | %zu | %zu%s | %s |\n", bo_lab_result_count(result, BO_LAB_HELD),
                bo_lab_result_count(result, BO_LAB_NOT_HELD), bo_lab_result_count(result, BO_LAB_INCONCLUSIVE),
                about.seeds, about.quick ? ", quick" : "", cli_seconds(about.seconds).s);
    }
    fprintf(out, "\n%zu claims held, %zu did not, %zu inconclusive.\n", results->verdicts[BO_LAB_HELD],
            results->verdicts[BO_LAB_NOT_HELD], results->verdicts[BO_LAB_INCONCLUSIVE]);
}

static void put_claim(FILE *out, const bo_lab_outcome *o, size_t seeds)
{
    const char *kind = cli_lab_interval_kind(o, seeds);
    fputs("| ", out);
    put_text(out, o->claim->statement);
    fputs(" | ", out);
    put_text(out, o->claim->number);
    fprintf(out, " | %s | %s%s | %s | %s |\n", cli_lab_number(o->mean).s, cli_lab_interval(o).s,
            kind == cli_lab_interval_usual ? ""
            : seeds < 2                    ? " (one seed)"
                                           : " (least, greatest)",
            cli_lab_bound(o->claim).s, bo_lab_verdict_name(o->verdict));
}

static void put_experiment(FILE *out, const bo_lab_result *result)
{
    const bo_lab_about about = bo_lab_result_about(result);
    const bo_lab_experiment *e = about.experiment;
    char *command = cli_lab_words(cli_lab_command, &about), *setting = cli_lab_words(cli_lab_setting, &about);
    fprintf(out, "\n### %s\n\n", e->name);
    put_text(out, e->claim);
    if (e->source) {
        fputs(" From: ", out);
        put_text(out, e->source);
        fputc('.', out);
    }
    fputs("\n\n| claim | number | mean | 99% interval | claimed | verdict |\n|---|---|--:|--:|--:|---|\n", out);
    for (size_t i = 0; i < e->claim_count; i++) {
        const bo_lab_outcome outcome = bo_lab_result_claim(result, i);
        put_claim(out, &outcome, about.seeds);
    }
    for (size_t i = 0; i < bo_lab_result_notes(result); i++) {
        fputs(i ? "- " : "\n- ", out);
        put_text(out, bo_lab_result_note(result, i));
        fputc('\n', out);
    }
    put_code(out, command);
    put_text(out, setting);
    fputs(".\n", out);
    free(command);
    free(setting);
}

void cli_lab_markdown(FILE *out, const cli_lab_results *results)
{
    const char *group = "";
    put_summary(out, results);
    for (size_t i = 0; i < bo_lab_count(); i++) {
        if (!results->items[i]) continue;
        if (strcmp(group, bo_lab_at(i)->group) != 0) fprintf(out, "\n## %s\n", group = bo_lab_at(i)->group);
        put_experiment(out, results->items[i]);
    }
}
