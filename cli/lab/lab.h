/* The command line of the lab: declarations shared by its subcommands. */
#ifndef CLI_LAB_H
#define CLI_LAB_H

#include "../../lab/lab.h"
#include "../common/cli.h"
#include "../common/json.h"

typedef struct cli_lab_options {
    cli_given was_given;
    bool quick, missing;
    size_t seeds;
    const char *text, *images;
    const char *out;             /* the directory of results: NAME.json, NAME-TABLE.svg */
    const char *page, *markdown; /* files of the report */
} cli_lab_options;

typedef struct cli_lab_job {
    cli_session session;
    const cli_lab_options *options;
    const char *directory;
    const char **names; /* names of experiments; a single "all" selects all */
    size_t name_count;
} cli_lab_job;

int cli_lab(int argc, char **argv); /* the arguments after `bochner lab` */
extern const cli_usage cli_lab_usage;
int cli_lab_list(cli_lab_job *lab);
int cli_lab_run(cli_lab_job *lab);
int cli_lab_report(cli_lab_job *lab);

/* ---- texts ------------------------------------------------------------------------------------------------------- */

/* Four significant digits; "∞"; "–" for a missing number. */
cli_short_text cli_lab_number(double value);
/* "at least 2", "between 0.95 and 1.05" */
cli_short_text cli_lab_bound(const bo_lab_claim *claim);
/* "0.96 to 1.05": the interval, or minimum and maximum if there is none. */
cli_short_text cli_lab_interval(const bo_lab_outcome *outcome);
/* The meaning of the two numbers: "99% interval", "minimum and maximum", or "one seed". */
const char *cli_lab_interval_kind(const bo_lab_outcome *outcome, size_t seeds);
extern const char cli_lab_interval_default[];       /* "99% interval" */
size_t cli_lab_seeds(bool quick, size_t requested); /* number of seeds of a run; requested: 0 for the default */
/* "bochner lab run scaled-dot --quick" */
void cli_lab_command(FILE *out, const bo_lab_about *about);
/* "5 seeds starting at 1, 12 s on 2 threads (avx2 kernels), Bochner 0.8.0, text from bible.txt" */
void cli_lab_setting(FILE *out, const bo_lab_about *about);
/* The output of one of the two functions as a string; freed with free. */
typedef void (*cli_lab_print_fn)(FILE *out, const bo_lab_about *about);
char *cli_lab_string(cli_lab_print_fn print, const bo_lab_about *about);
/* The rule of the verdicts as text. */
extern const char cli_lab_verdicts_mean[];
/* "6 of 8 claims held, 1 inconclusive, 1 failed" */
typedef struct cli_lab_text {
    char s[128];
} cli_lab_text;
cli_lab_text cli_lab_tally(const size_t verdicts[3]); /* number of claims by bo_lab_verdict */
cli_lab_text cli_lab_summary(const bo_lab_result *result);
void cli_lab_count(const bo_lab_result *result, size_t verdicts[3]); /* adds to verdicts */

/* ---- files ------------------------------------------------------------------------------------------------------- */

/* DIRECTORY/NAME.json, or the plot of a table: DIRECTORY/NAME-TABLE.svg. Freed with free. */
char *cli_lab_file(const cli_lab_job *lab, const bo_lab_experiment *experiment, const bo_lab_table *table);

/* Reads the result of an experiment. Returns NULL if there is no result (why is "") or if its file is unusable (why
 * contains the reason). */
enum { CLI_LAB_WHY = 1024 };
bo_lab_result *cli_lab_result(const cli_lab_job *lab, const bo_lab_experiment *experiment, char why[CLI_LAB_WHY]);

/* One result per experiment; NULL: no result. */
typedef struct cli_lab_results {
    bo_lab_result **items; /* bo_lab_count() */
    size_t count;          /* number of results */
    size_t unreadable;     /* number of unusable files, which have been reported */
    size_t verdicts[3];    /* claims by bo_lab_verdict */
} cli_lab_results;
void cli_lab_read(cli_lab_job *lab, cli_lab_results *out);
void cli_lab_results_free(cli_lab_results *results);

/* ---- results ----------------------------------------------------------------------------------------------------- */

void cli_lab_print(const bo_lab_result *result);
void cli_lab_result_json(cli_json *json, const bo_lab_result *result); /* an object inside an array */
void cli_lab_counts_json(cli_json *json, const bo_lab_result *result); /* members held, inconclusive, failed */

bool cli_lab_has_plot(const bo_lab_grid *grid);
/* Draws the plots of a result. Returns true if gnuplot is available. Failures are reported and counted in *failed. */
bool cli_lab_draw(cli_lab_job *lab, const bo_lab_result *result, size_t *failed);

/* ---- report ------------------------------------------------------------------------------------------------------ */

/* Returns the number of missing plots. */
size_t cli_lab_page(FILE *out, const cli_lab_job *lab, const cli_lab_results *results);

#endif
