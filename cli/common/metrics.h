/* How good predictions are, gathered block by block. */
#ifndef CLI_COMMON_METRICS_H
#define CLI_COMMON_METRICS_H

#include "cli.h"
#include "json.h"

/* A few predictions are kept for the plot: all of them up to this many, then a uniform sample. */
enum { CLI_POINTS = 4000 };

typedef struct cli_target_sums {
    double squared_error, mean, squared_deviation; /* of y: Welford's */
    size_t covered;                                /* inside mean ± 1.96 std */
} cli_target_sums;

typedef struct cli_metrics {
    size_t rows, targets, classes;
    const char *const *labels; /* of the classes; NULL: as the schema has them */
    bool has_std;
    cli_target_sums *sums;                 /* regression: one a target */
    size_t right, *confusion;              /* classification: classes x classes, rows are the truth */
    double log_loss;                       /* sum */
    size_t points;                         /* regression, first target */
    double *truth, *predicted, *deviation; /* deviation is NULL without std */
} cli_metrics;

/* A class as it stood in the file or, where the schema has none (a model that a program saved without one), its number:
 * `number` then holds the words. */
const char *cli_class_label(const bo_schema *schema, size_t index, cli_word *number);

const char *cli_metrics_label(const cli_metrics *metrics, const bo_schema *schema, size_t index, cli_word *number);

void cli_metrics_open(cli_metrics *metrics, const bo_machine_report *report);
void cli_metrics_close(cli_metrics *metrics);
void cli_metrics_regression(cli_metrics *metrics, size_t rows, const double *y, const double *mean, const double *std);
void cli_metrics_classes(cli_metrics *metrics, size_t rows, const double *y, const int *labels,
                         const double *probabilities);
/* Predicts and adds. */
bo_status cli_metrics_predict(cli_metrics *metrics, bo_context *context, const bo_machine *machine, size_t rows,
                              const float *x, const double *y);

double cli_metrics_rmse(const cli_metrics *metrics);     /* over all targets */
double cli_metrics_r2(const cli_metrics *metrics);       /* mean over targets */
double cli_metrics_coverage(const cli_metrics *metrics); /* share inside the 95% interval; NAN without std */
double cli_metrics_accuracy(const cli_metrics *metrics);
double cli_metrics_log_loss(const cli_metrics *metrics);

void cli_metrics_json(const cli_metrics *metrics, const bo_schema *schema, cli_json *json); /* "test": {…} */
void cli_metrics_json_confusion(const cli_metrics *metrics, const bo_schema *schema, cli_json *json);
/* A table, where the classes are few. */
void cli_metrics_print_confusion(const cli_metrics *metrics, const bo_schema *schema, FILE *out);
void cli_metrics_print(const cli_metrics *metrics, const bo_schema *schema, FILE *out);

#endif
