/* What terminal, page and Markdown say in the same words. */
#include "lab.h"
#include <math.h>
#include <string.h>

const char cli_lab_interval_usual[] = "99% interval";

const char cli_lab_verdicts_mean[] =
    "A verdict speaks of one setting at the sizes that were run, not of all others. A claim held where the 99% "
    "interval of its number's mean over the seeds (Student's) lies on the claim's side of a bound that stood in the "
    "code before, it did not hold where the interval lies on the other side, and else nothing is concluded; identities "
    "must hold in every single seed.";

cli_word cli_lab_number(double value)
{
    if (isnan(value)) return (cli_word){"–"};
    if (isinf(value)) return value > 0 ? (cli_word){"∞"} : (cli_word){"-∞"};
    return cli_significant(value == 0 ? 0 : value, 4); /* no -0 */
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

const char *cli_lab_interval_kind(const bo_lab_outcome *outcome, size_t seeds)
{
    const bool each = outcome->claim->rule == BO_LAB_EACH_AT_MOST || outcome->claim->rule == BO_LAB_EACH_AT_LEAST;
    if (seeds < 2) return "one seed";
    return each || !isfinite(outcome->mean) ? "least and greatest" : cli_lab_interval_usual;
}

size_t cli_lab_seeds(bool quick, size_t asked)
{
    return asked ? asked : quick ? BO_LAB_QUICK_SEEDS : BO_LAB_SEEDS;
}

void cli_lab_command(FILE *out, const bo_lab_about *about)
{
    fprintf(out, "bochner lab run %s", about->experiment->name);
    if (about->quick) fputs(" --quick", out);
    if (about->seeds != cli_lab_seeds(about->quick, 0)) fprintf(out, " --seeds %zu", about->seeds);
    if (about->seed != 1) fprintf(out, " --seed %llu", (unsigned long long)about->seed);
    if (about->text) fputs(" --text ", out), cli_print_word(out, about->text);
    if (about->images) fputs(" --images ", out), cli_print_word(out, about->images);
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

char *cli_lab_words(cli_lab_say_fn say, const bo_lab_about *about)
{
    char *text = NULL;
    size_t length = 0;
    FILE *memory = open_memstream(&text, &length);
    if (memory) {
        say(memory, about);
        fclose(memory);
    }
    return text ? text : cli_allocate(1, 1, "words");
}
