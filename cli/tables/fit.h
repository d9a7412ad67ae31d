/* The state of a fit, shared by the in-memory and the streaming path. */
#ifndef CLI_TABLES_FIT_H
#define CLI_TABLES_FIT_H

#include "../common/cli.h"
#include "../common/plot.h"

typedef struct cli_fit_options {
    cli_given was_given;
    const char *labels, *target, *test, *test_labels, *categorical, *drop, *keep, *weights, *group, *length_scales,
        *out, *plot, *device;
    bo_task task;
    bo_format format;
    bo_impute impute;
    bo_loss loss;
    bo_solver solver;
    bo_scaling scaling;
    bo_gram_precision precision;
    unsigned kernel; /* bo_kernel or CLI_KERNEL_AUTO */
    bo_metric_choice metric;
    bo_target_scale target_scale;
    bo_function function;
    bo_draw draw;
    bo_sampling sampling;
    bo_hidden_activation activation;
    size_t features, degree, depth, memory, sample;
    double gamma, lambda, alpha, weight_variance, bias_variance, noise, dropout, holdout, budget;
    bool stream, exact, no_intercept, balanced;
    size_t folds;
    bo_score score;
    const char *compare, *learning_curve;
    cli_plot_kind plot_kind;
} cli_fit_options;

typedef struct cli_fit_job {
    cli_session *session;
    const cli_fit_options *options;
    bo_table_desc source;
    bo_machine_desc desc;
    bo_data *train;          /* in memory: training rows */
    bo_data *test;           /* in memory: held-out rows, or the test file */
    bo_schema *schema;       /* streaming: owned; otherwise NULL */
    const bo_sparse *sample; /* streaming of sparse rows: the sample, while in use */
    size_t rows, read;       /* streaming: rows of all files, and training rows read in the last pass */
    float *length_scales;
    bo_machine *machine;
    bo_metrics *metrics;     /* NULL: no test */
    struct cli_folds *folds; /* NULL: no cross-validation */
    bo_fit_cost plan;
    double started;
} cli_fit_job;

/* False if the job is a cross-validation only. */
bool cli_fit_has_model(const cli_fit_job *job);
const bo_schema *cli_fit_schema(const cli_fit_job *job);
/* Reads --length-scales; the schema must be known. Returns false after a message, like the functions below. */
bool cli_fit_length_scales(cli_fit_job *job);
/* Computes and prints the plan for this number of training rows. */
bool cli_fit_plan(cli_fit_job *job, size_t rows);
/* Streaming: sets machine (on rank 0 only) and schema. */
bool cli_fit_stream(cli_fit_job *job);
bool cli_fit_stream_test(cli_fit_job *job); /* evaluates on the test file or the held-out rows */
void cli_fit_print(const cli_fit_job *job);
void cli_fit_json(const cli_fit_job *job);
void cli_fit_suggest_next(const cli_fit_job *job); /* the last output */

#endif
