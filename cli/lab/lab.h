/* The lab on the command line: what its commands share. */
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
    const char *out;             /* the folder of results: NAME.json, NAME-TABLE.svg */
    const char *page, *markdown; /* of the report */
} cli_lab_options;

typedef struct cli_lab_job {
    cli_session session;
    const cli_lab_options *options;
    const char *folder;
    const char **names; /* of experiments; a single "all" is all of them */
    size_t name_count;
} cli_lab_job;

int cli_lab_list(cli_lab_job *lab);
int cli_lab_run(cli_lab_job *lab);
int cli_lab_report(cli_lab_job *lab);

/* ---- words ----------------------------------------------------------------------------------- */

/* Four digits; "∞", and "–" where there is none. */
cli_word cli_lab_number(double value);
/* "at least 2", "between 0.95 and 1.05" */
cli_word cli_lab_bound(const bo_lab_claim *claim);
/* "0.96 to 1.05": the interval, or least and greatest where there is none. */
cli_word cli_lab_interval(const bo_lab_outcome *outcome);
/* What those two numbers are: the usual, "least and greatest", "one seed". */
const char *cli_lab_interval_kind(const bo_lab_outcome *outcome, size_t seeds);
extern const char cli_lab_interval_usual[];     /* "99% interval" */
size_t cli_lab_seeds(bool quick, size_t asked); /* what a run takes; `asked` 0: its default */
/* "bochner lab run scaled-dot --quick" */
void cli_lab_command(FILE *out, const bo_lab_about *about);
/* "5 seeds from 1, 12 s on 2 threads (avx2 kernels), Bochner 0.8.0, text of bible.txt" */
void cli_lab_setting(FILE *out, const bo_lab_about *about);
/* One of the two as a string; freed with free. */
typedef void (*cli_lab_say_fn)(FILE *out, const bo_lab_about *about);
char *cli_lab_words(cli_lab_say_fn say, const bo_lab_about *about);
/* What a verdict says and what it does not. */
extern const char cli_lab_verdicts_mean[];

/* ---- files ----------------------------------------------------------------------------------- */

/* FOLDER/NAME.json, or the picture of a table: FOLDER/NAME-TABLE.svg. Freed with free. */
char *cli_lab_file(const cli_lab_job *lab, const bo_lab_experiment *experiment, const bo_lab_table *table);

/* The result of an experiment. NULL: there is none, or its file holds another thing, which `why` says (else it is ""). */
enum { CLI_LAB_WHY = 1024 };
bo_lab_result *cli_lab_result(const cli_lab_job *lab, const bo_lab_experiment *experiment, char why[CLI_LAB_WHY]);

/* A result for each experiment, NULL where there is none. */
typedef struct cli_lab_results {
    bo_lab_result **items; /* bo_lab_count() */
    size_t count;          /* of those that are there */
    size_t unreadable;     /* files that are no such results; each was said */
    size_t verdicts[3];    /* claims by bo_lab_verdict */
} cli_lab_results;
void cli_lab_read(cli_lab_job *lab, cli_lab_results *out);
void cli_lab_forget(cli_lab_results *results);

/* ---- a result -------------------------------------------------------------------------------- */

void cli_lab_print(const bo_lab_result *result);
void cli_lab_result_json(cli_json *json, const bo_lab_result *result); /* an object inside an array */

bool cli_lab_has_picture(const bo_lab_grid *grid);
/* Draws the pictures of a result. True: gnuplot is there. What could not be drawn is said and counted in *failed. */
bool cli_lab_draw(cli_lab_job *lab, const bo_lab_result *result, size_t *failed);

/* ---- the report ------------------------------------------------------------------------------ */

/* Returns how many pictures are missing. */
size_t cli_lab_page(FILE *out, const cli_lab_job *lab, const cli_lab_results *results);

#endif
