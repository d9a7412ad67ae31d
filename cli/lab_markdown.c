/* The report in short, as Markdown. */
#include "lab.h"
#include <string.h>

/* Inside a table a bar is a border. */
static void put_text(FILE *out, const char *text)
{
    for (const char *c = text ? text : ""; *c; c++) {
        if (*c == '|' || *c == '<' || *c == '*' || *c == '_' || *c == '`') fputc('\\', out);
        fputc(*c == '\n' ? ' ' : *c, out);
    }
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
    fputs("| ", out);
    put_text(out, o->claim->statement);
    fputs(" | ", out);
    put_text(out, o->claim->number);
    fprintf(out, " | %s | %s%s | %s | %s |\n", cli_lab_number(o->mean).s, cli_lab_interval(o).s,
            cli_lab_is_each(o->claim->rule) || seeds < 2 ? " (least, greatest)" : "", cli_lab_bound(o->claim).s,
            bo_lab_verdict_name(o->verdict));
}

static void put_experiment(FILE *out, const bo_lab_result *result)
{
    const bo_lab_about about = bo_lab_result_about(result);
    const bo_lab_experiment *e = about.experiment;
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
    fputs("\n`", out);
    cli_lab_command(out, &about);
    fputs("`: ", out);
    cli_lab_setting(out, &about);
    fputs(".\n", out);
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
