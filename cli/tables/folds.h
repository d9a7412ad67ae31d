/* Cross-validation: fit --folds, --compare and --learning-curve. */
#ifndef CLI_TABLES_FOLDS_H
#define CLI_TABLES_FOLDS_H

#include "fold_rows.h"

/* The test of one fold. */
typedef struct cli_fold_result {
    size_t rows, trained; /* test rows, training rows */
    double values[CLI_METRICS];
    double gamma, lambda, seconds;
    bo_kernel kernel;
    bo_metric_choice metric;
} cli_fold_result;

/* Settings that are compared. */
typedef struct cli_variant {
    char name[96]; /* "matern32", or "matern32, none" */
    bo_machine_desc desc;
    cli_fold_result *folds;
    char refused[256]; /* the reason if fitting was refused; empty: fitted in every fold */
    bo_metrics *all;   /* metrics over the test rows of all folds; NULL: not requested */
} cli_variant;

/* A point of a learning curve: the score on test and training rows, one value per fold. */
typedef struct cli_curve_point {
    double rows; /* mean number of training rows */
    double *test, *train;
} cli_curve_point;

enum { CLI_VARIANTS = 64, CLI_CURVE_SIZES = 6 };
typedef struct cli_folds {
    size_t folds, rows, classes;
    bool shared; /* folds share the column encodings of the whole table */
    bo_score score;
    const char *compared;  /* "kernel", or "kernel, scaling"; NULL: one variant */
    cli_variant *variants; /* best first, refused ones last */
    size_t count;
    cli_curve_point curve[CLI_CURVE_SIZES];
    size_t points;
} cli_folds;

/* Mean, standard deviation over the folds, and standard error of the mean. The training sets of the folds overlap, so
 * the variance of the mean is not σ²/K: it is estimated as σ² (1/K + 1/(K-1)), where 1/(K-1) is the ratio of test to
 * training rows (Nadeau and Bengio 2003). */
typedef struct cli_spread {
    double mean, deviation, error;
} cli_spread;
cli_spread cli_spread_of(size_t count, const double *values);
/* The spread of a metric over the folds, and of its paired difference from another variant. */
cli_spread cli_variant_spread(const cli_folds *folds, const cli_variant *variant, bo_score metric);
cli_spread cli_variant_difference(const cli_folds *folds, const cli_variant *variant, const cli_variant *other);

/* Parses --compare and fills in the variants of `base`. Returns CLI_DONE, or CLI_USAGE_ERROR after a message. */
int cli_variants_check(const char *list);
void cli_variants_create(cli_folds *folds, const char *list, const bo_machine_desc *base);

/* Runs the cross-validation of a job with loaded training rows; the best variant becomes the descriptor of the machine.
 * False after an error. */
bool cli_folds_run(cli_fit_job *job, cli_folds *out);
void cli_folds_free(cli_folds *folds);

/* Fits each fold to growing parts of its training rows. */
bool cli_learning_curve(cli_fit_job *job, cli_folds *folds, cli_fold_table *table);
int cli_learning_curve_plot(cli_session *session, const cli_folds *folds, const char *path);

void cli_folds_print(const cli_folds *folds, FILE *out);
void cli_folds_json(const cli_folds *folds, cli_json *json); /* "cross_validation": {…} */

/* Fits a machine to rows. *machine is NULL, without a message, if the settings do not suit the rows. */
bool cli_fold_fit(cli_session *session, const bo_machine_desc *desc, const bo_samples *train, bo_machine **machine);
/* Tests it on rows; *metrics is created if it is NULL. */
bool cli_fold_test(cli_session *session, const bo_machine *machine, const bo_samples *test, bo_metrics **metrics);

#endif
