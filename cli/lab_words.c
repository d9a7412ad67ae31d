/* What terminal, page and Markdown say in the same words. */
#include "lab.h"
#include <math.h>
#include <string.h>

const char cli_lab_verdicts_mean[] = "A verdict speaks of one setting at the sizes that were run, not of all others. A "
                                     "claim held where the 99% interval of its "
                                     "number's mean over the seeds (Student's) lies on the claim's side of a bound "
                                     "that stood in the code before, it did not hold "
                                     "where the interval lies on the other side, and else nothing is concluded; "
                                     "identities must hold in every single seed.";

cli_word cli_lab_number(double value)
{
    if (isnan(value)) return (cli_word){"–"};
    if (isinf(value)) return (cli_word){"∞"};
    return cli_significant(value == 0 ? 0 : value, 4); /* no -0 */
}

bool cli_lab_is_each(bo_lab_rule rule)
{
    return rule == BO_LAB_EACH_AT_MOST || rule == BO_LAB_EACH_AT_LEAST;
}

cli_word cli_lab_bound(const bo_lab_claim *claim)
{
    cli_word word;
    int length =
        snprintf(word.s, sizeof word.s, "%s %.12s", bo_lab_rule_name(claim->rule), cli_lab_number(claim->bound).s);
    if (claim->rule == BO_LAB_BETWEEN)
        snprintf(word.s + length, sizeof word.s - (size_t)length, " and %.12s", cli_lab_number(claim->upper).s);
    return word;
}

cli_word cli_lab_interval(const bo_lab_outcome *outcome)
{
    cli_word word;
    if (isnan(outcome->low)) return (cli_word){"–"};
    snprintf(word.s, sizeof word.s, "%.20s to %.20s", cli_lab_number(outcome->low).s, cli_lab_number(outcome->high).s);
    return word;
}

cli_word cli_lab_interval_kind(const bo_lab_outcome *outcome, size_t seeds)
{
    cli_word word;
    const bool interval = !cli_lab_is_each(outcome->claim->rule) && seeds > 1 && isfinite(outcome->mean);
    snprintf(word.s, sizeof word.s, interval ? "99%% interval" : seeds > 1 ? "least and greatest" : "one seed");
    return word;
}

size_t cli_lab_seeds(bool quick, size_t asked)
{
    return asked ? asked : quick ? BO_LAB_QUICK_SEEDS : BO_LAB_SEEDS;
}

/* A word of a command line, quoted where a shell would take it apart. */
static void put_word(FILE *out, const char *before, const char *word)
{
    const bool plain = !word[strcspn(word, " \t\n'\"\\$`&|;<>()*?[]{}~#!")];
    fputs(before, out);
    if (plain) {
        fputs(word, out);
        return;
    }
    fputc('\'', out);
    for (; *word; word++) fputs(*word == '\'' ? "'\\''" : (char[]){*word, 0}, out);
    fputc('\'', out);
}

void cli_lab_command(FILE *out, const bo_lab_about *about)
{
    fprintf(out, "bochner lab run %s", about->experiment->name);
    if (about->quick) fputs(" --quick", out);
    if (about->seeds != cli_lab_seeds(about->quick, 0)) fprintf(out, " --seeds %zu", about->seeds);
    if (about->seed != 1) fprintf(out, " --seed %llu", (unsigned long long)about->seed);
    if (about->text) put_word(out, " --text ", about->text);
    if (about->images) put_word(out, " --images ", about->images);
    if (about->experiment->timed) fprintf(out, " --threads %d", about->threads);
}

void cli_lab_setting(FILE *out, const bo_lab_about *about)
{
    fprintf(out, "%s%zu seed%s from %llu, %s on %d thread%s (%s kernels), Bochner %s", about->quick ? "quick, " : "",
            about->seeds, about->seeds == 1 ? "" : "s", (unsigned long long)about->seed, cli_seconds(about->seconds).s,
            about->threads, about->threads == 1 ? "" : "s", about->isa, about->version);
    if (about->text) fprintf(out, ", text of %s", about->text);
    if (about->images) fprintf(out, ", images of %s", about->images);
}
