/* Bochner: the lab. Every claim the mathematics rests on, as an experiment that anyone can run: a number that could
 * have come out otherwise, and a verdict computed from it by a rule that stands in the code before the data are there.
 *
 *     const bo_lab_experiment *experiment = bo_lab_find("rff-regression");
 *     bo_lab_result *result;
 *     bo_lab_run(context, experiment, &(bo_lab_options){.quick = true}, &result);
 *     puts(bo_lab_verdict_name(bo_lab_result_verdict(result)));
 *     bo_lab_result_write(context, result, "rff-regression.json");
 *     bo_lab_result_destroy(result);
 *
 * An experiment is measured once for each seed. A claim gets one number from each; a table a number for each cell. */
#ifndef BO_LAB_H
#define BO_LAB_H

#include <bochner/base.h>

/* ---- experiments ----------------------------------------------------------------------------- */

typedef enum bo_lab_verdict {
    BO_LAB_INCONCLUSIVE = 0, /* the interval contains the bound, or some number is missing */
    BO_LAB_HELD = 1,
    BO_LAB_NOT_HELD = 2
} bo_lab_verdict;
const char *bo_lab_verdict_name(bo_lab_verdict verdict); /* "inconclusive", "held", "not held" */
bool bo_lab_verdict_parse(const char *name, bo_lab_verdict *out);

/* How the numbers of a claim, one per seed, decide. The interval is Student's for their mean, at 99%. Where it lies on
 * the claim's side of the bound, the claim held; on the other side, it did not; else nothing is concluded. */
typedef enum bo_lab_rule {
    BO_LAB_AT_LEAST = 0,     /* the interval lies at or above `bound` */
    BO_LAB_AT_MOST = 1,      /* at or below it */
    BO_LAB_BETWEEN = 2,      /* within [bound, upper] */
    BO_LAB_EACH_AT_MOST = 3, /* no statistics: every single number is at most `bound`. For identities */
    BO_LAB_EACH_AT_LEAST = 4
} bo_lab_rule;
/* "at least", "at most", "between", "each at most", "each at least" */
const char *bo_lab_rule_name(bo_lab_rule rule);

typedef struct bo_lab_claim {
    const char *name;      /* a word: "sin-cos" */
    const char *statement; /* a sentence that may turn out false */
    const char *number;    /* what is measured: "error of cosines with a phase / error of sines and cosines" */
    bo_lab_rule rule;
    double bound, upper; /* the effect size, in the unit of the number */
    const char *source;  /* of this claim; NULL: the experiment's */
} bo_lab_claim;

typedef enum bo_lab_picture {
    BO_LAB_LINES = 0,  /* a line a column over the rows, which are numbers; bars for deviations */
    BO_LAB_POINTS = 1, /* points in place of lines */
    BO_LAB_BARS = 2,   /* rows have names: a group of bars each */
    BO_LAB_NO_PICTURE = 3
} bo_lab_picture;

typedef struct bo_lab_table {
    const char *name;   /* a word; also of the picture: EXPERIMENT-NAME.svg */
    const char *title;  /* of table and picture */
    const char *rows;   /* what a row is: "features"; the x axis */
    const char *values; /* what a number in it is, with its unit; the y axis */
    bo_lab_picture picture;
    bool log_x, log_y;
    const char *theory; /* the column that is computed and not measured: drawn dashed. NULL: none is */
} bo_lab_table;

typedef struct bo_lab_experiment {
    const char *name;  /* "rff-regression" */
    const char *group; /* "random features and attention", … */
    const char *title; /* half a line */
    const char *claim; /* what is claimed, in a sentence or two */
    const char *source;
    const char *method; /* a paragraph: what is done, on what data, what is compared, what is fixed beforehand */
    const bo_lab_claim *claims;
    size_t claim_count;
    const bo_lab_table *tables;
    size_t table_count;
    bool timed;        /* measures time: seeds one after the other, with all threads */
    bool text, images; /* reads those of bo_lab_options; the others know of none */
} bo_lab_experiment;

size_t bo_lab_count(void);
const bo_lab_experiment *bo_lab_at(size_t index);       /* in the order of the field; NULL: past the last */
const bo_lab_experiment *bo_lab_find(const char *name); /* NULL: there is none */

/* ---- running --------------------------------------------------------------------------------- */

enum { BO_LAB_SEEDS = 5, BO_LAB_QUICK_SEEDS = 3 };

/* Zero means the default in every field. */
typedef struct bo_lab_options {
    bool quick;         /* smaller sizes and fewer seeds; the same code */
    size_t seeds;       /* 0: BO_LAB_SEEDS, quick BO_LAB_QUICK_SEEDS */
    uint64_t seed;      /* of the first; the others follow. 0: 1 */
    const char *text;   /* a text file for experiments with language models; NULL: made-up text */
    const char *images; /* a folder with images in IDX files, as those of MNIST; NULL: made-up images */
} bo_lab_options;

typedef struct bo_lab_result bo_lab_result;

/* Seeds run side by side, each on one thread, unless the experiment is timed; results do not depend on how many. A
 * failure names experiment and seed; there is no result without all of them. Progress goes to the context's
 * callback, which may cancel. */
bo_status bo_lab_run(bo_context *context, const bo_lab_experiment *experiment, const bo_lab_options *options,
                     bo_lab_result **out);
void bo_lab_result_destroy(bo_lab_result *result); /* NULL is fine */

/* ---- results --------------------------------------------------------------------------------- */

typedef struct bo_lab_about {
    const bo_lab_experiment *experiment;
    bool quick;
    size_t seeds;
    uint64_t seed;             /* the first */
    const char *text, *images; /* file names without their folders; NULL: made-up */
    int threads;
    const char *isa, *version;
    double seconds;
} bo_lab_about;
bo_lab_about bo_lab_result_about(const bo_lab_result *result);
/* NOT_HELD if one claim did not hold, else INCONCLUSIVE if one is, else HELD. */
bo_lab_verdict bo_lab_result_verdict(const bo_lab_result *result);
size_t bo_lab_result_count(const bo_lab_result *result, bo_lab_verdict verdict); /* of claims with this one */

typedef struct bo_lab_outcome {
    const bo_lab_claim *claim;
    const double *values;   /* one per seed; NAN: there was none */
    double mean, low, high; /* low, high: the interval; of one seed, an EACH rule, a number missing: least, greatest */
    bo_lab_verdict verdict;
} bo_lab_outcome;
bo_lab_outcome bo_lab_result_claim(const bo_lab_result *result, size_t index); /* below claim_count */

typedef struct bo_lab_cell {
    double mean, deviation; /* over the seeds that have it; deviation 0 of one, and where one is infinite */
    size_t count;           /* 0: the cell is empty */
} bo_lab_cell;
typedef struct bo_lab_grid {
    const bo_lab_table *table;
    size_t rows, columns;
    bool numbers;                    /* rows are numbers: x, ascending */
    const double *x;                 /* rows; NULL where they have names only */
    const char *const *row_names;    /* rows; a number as text where they are numbers */
    const char *const *column_names; /* columns */
    const bo_lab_cell *cells;        /* rows x columns */
} bo_lab_grid;
bo_lab_grid bo_lab_result_table(const bo_lab_result *result, size_t index); /* below table_count */
size_t bo_lab_result_notes(const bo_lab_result *result);
const char *bo_lab_result_note(const bo_lab_result *result, size_t index);

/* JSON with every number of every seed, written beside and renamed. Reading computes intervals and verdicts anew, by
 * the rules of this version; a file of an experiment, claim or table that this version does not have, or of a claim
 * whose number was another one, is BO_FORMAT. */
bo_status bo_lab_result_write(bo_context *context, const bo_lab_result *result, const char *path);
bo_status bo_lab_result_read(bo_context *context, const char *path, bo_lab_result **out);

#endif
