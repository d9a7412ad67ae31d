/* The lab: the claims of the theory as experiments that anyone can run. Each claim has a number that could contradict
 * it. A rule that is fixed in the code before the measurement computes a verdict from the number.
 *
 *     const bo_lab_experiment *experiment = bo_lab_find("rff-regression");
 *     bo_lab_result *result;
 *     bo_lab_run(context, experiment, &(bo_lab_options){.quick = true}, &result);
 *     printf("%zu of %zu claims held\n", bo_lab_result_count(result, BO_LAB_HELD), experiment->claim_count);
 *     bo_lab_result_write(context, result, "rff-regression.json");
 *     bo_lab_result_destroy(result);
 *
 * An experiment is measured once for each seed. Each seed gives one number per claim and one number per cell of a
 * table. */
#ifndef BO_LAB_H
#define BO_LAB_H

#include <bochner/base.h>

/* ---- experiments ----------------------------------------------------------------------------- */

typedef enum bo_lab_verdict {
    BO_LAB_INCONCLUSIVE = 0, /* the interval contains the bound, or a number is missing */
    BO_LAB_HELD = 1,
    BO_LAB_FAILED = 2
} bo_lab_verdict;
const char *bo_lab_verdict_name(bo_lab_verdict verdict); /* "inconclusive", "held", "failed" */
bool bo_lab_verdict_parse(const char *name, bo_lab_verdict *out);

/* The rule by which the numbers of a claim, one per seed, give a verdict. The interval is the 99% Student interval of
 * their mean. If it lies on the claimed side of the bound, the claim held. If it lies on the other side, the claim
 * failed. Otherwise the result is inconclusive. */
typedef enum bo_lab_rule {
    BO_LAB_AT_LEAST = 0,     /* the interval lies at or above `bound` */
    BO_LAB_AT_MOST = 1,      /* at or below it */
    BO_LAB_BETWEEN = 2,      /* within [bound, upper] */
    BO_LAB_EACH_AT_MOST = 3, /* without statistics: every number is at most `bound`; for identities */
    BO_LAB_EACH_AT_LEAST = 4
} bo_lab_rule;
/* "at least", "at most", "between", "each at most", "each at least" */
const char *bo_lab_rule_name(bo_lab_rule rule);

typedef struct bo_lab_claim {
    const char *name;      /* an identifier: "sin-cos" */
    const char *statement; /* a sentence that can be true or false */
    /* the quantity that is measured, with its unit: "squared error of orthogonal frequencies divided by …" */
    const char *number;
    bo_lab_rule rule;
    double bound, upper; /* the effect size, in the unit of the number */
    const char *source;  /* source of this claim; NULL: that of the experiment */
    /* The claim as it is written in one of the documents that the project started from: the document, its lines, and
     * the quoted text. NULL: a variation that we add, such as a control, a consequence or a correction. */
    const char *passage;
} bo_lab_claim;

typedef enum bo_lab_plot {
    BO_LAB_LINES = 0,  /* one line per column over numeric rows; error bars show standard deviations */
    BO_LAB_POINTS = 1, /* points instead of lines */
    BO_LAB_BARS = 2,   /* named rows: one group of bars per row */
    BO_LAB_NO_PLOT = 3
} bo_lab_plot;

typedef struct bo_lab_table {
    const char *name;   /* an identifier, also used for the file of the plot: EXPERIMENT-NAME.svg */
    const char *title;  /* of the table and the plot */
    const char *rows;   /* the meaning of a row: "features"; the x axis */
    const char *values; /* the meaning of a number, with its unit; the y axis */
    bo_lab_plot plot;
    bool log_x, log_y;
    const char *theory; /* the computed column, drawn as a dashed line; NULL: all are measured */
} bo_lab_table;

typedef struct bo_lab_experiment {
    const char *name;  /* "rff-regression" */
    const char *group; /* "random features and attention", … */
    const char *title; /* at most about half a line */
    const char *claim; /* summary of what is claimed, in one to three sentences */
    const char *source;
    const char *method; /* a paragraph: procedure, data, comparisons, and what is fixed in advance */
    const bo_lab_claim *claims;
    size_t claim_count;
    const bo_lab_table *tables;
    size_t table_count;
    bool timed;        /* measures time: seeds run one after another, with all threads */
    bool text, images; /* uses the text or images of bo_lab_options */
} bo_lab_experiment;

size_t bo_lab_count(void);
const bo_lab_experiment *bo_lab_at(size_t index);       /* in the order of the report; NULL: past the last */
const bo_lab_experiment *bo_lab_find(const char *name); /* NULL: unknown */

/* ---- running --------------------------------------------------------------------------------- */

enum { BO_LAB_SEEDS = 5, BO_LAB_QUICK_SEEDS = 3 };

/* Zero means the default in every field. */
typedef struct bo_lab_options {
    bool quick;         /* smaller sizes and fewer seeds; the same code */
    size_t seeds;       /* 0: BO_LAB_SEEDS, or BO_LAB_QUICK_SEEDS for quick */
    uint64_t seed;      /* the first seed; the following seeds are consecutive. 0: 1 */
    const char *text;   /* a text file for experiments with language models; NULL: synthetic text */
    const char *images; /* a directory with images in IDX files, like MNIST; NULL: synthetic images */
} bo_lab_options;

typedef struct bo_lab_result bo_lab_result;

/* Seeds run in parallel, each on one thread, unless the experiment is timed. Results do not depend on the number of
 * threads. An error message names the experiment and the seed, and a result is returned only if all seeds succeed.
 * Progress is reported to the context's callback, which may cancel. */
bo_status bo_lab_run(bo_context *context, const bo_lab_experiment *experiment, const bo_lab_options *options,
                     bo_lab_result **out);
void bo_lab_result_destroy(bo_lab_result *result); /* NULL is allowed */

/* ---- results --------------------------------------------------------------------------------- */

typedef struct bo_lab_about {
    const bo_lab_experiment *experiment;
    bool quick;
    size_t seeds;
    uint64_t seed;             /* the first */
    const char *text, *images; /* file names without their directories; NULL: synthetic */
    int threads;
    const char *isa, *version;
    double seconds;
} bo_lab_about;
bo_lab_about bo_lab_result_about(const bo_lab_result *result);
/* FAILED if any claim failed, otherwise INCONCLUSIVE if any is inconclusive, otherwise HELD. */
bo_lab_verdict bo_lab_result_verdict(const bo_lab_result *result);
/* number of claims with this verdict */
size_t bo_lab_result_count(const bo_lab_result *result, bo_lab_verdict verdict);

typedef struct bo_lab_outcome {
    const bo_lab_claim *claim;
    const double *values; /* one per seed; NAN: missing */
    /* low, high: the interval; for one seed, an EACH rule or a missing number: minimum and maximum */
    double mean, low, high;
    bo_lab_verdict verdict;
} bo_lab_outcome;
bo_lab_outcome bo_lab_result_claim(const bo_lab_result *result, size_t index); /* below claim_count */

typedef struct bo_lab_cell {
    /* over the seeds that recorded a number; the deviation is 0 for one seed and if a number is infinite */
    double mean, deviation;
    size_t count; /* 0: the cell is empty */
} bo_lab_cell;
typedef struct bo_lab_grid {
    const bo_lab_table *table;
    size_t rows, columns;
    bool numbers;                    /* rows are numbers: x, ascending */
    const double *x;                 /* rows; NULL if the rows are named */
    const char *const *row_names;    /* rows; numeric rows: the numbers as text */
    const char *const *column_names; /* columns */
    const bo_lab_cell *cells;        /* rows x columns */
} bo_lab_grid;
bo_lab_grid bo_lab_result_table(const bo_lab_result *result, size_t index); /* below table_count */
size_t bo_lab_result_notes(const bo_lab_result *result);
const char *bo_lab_result_note(const bo_lab_result *result, size_t index);

/* JSON with every number of every seed, written to a temporary file and renamed. Reading recomputes intervals and
 * verdicts with the rules of this version. A file of an experiment, claim or table that this version does not have, or
 * of a claim that measured another quantity, is BO_FORMAT. */
bo_status bo_lab_result_write(bo_context *context, const bo_lab_result *result, const char *path);
bo_status bo_lab_result_read(bo_context *context, const char *path, bo_lab_result **out);

#endif
