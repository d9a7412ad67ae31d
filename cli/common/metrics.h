/* Metrics of predictions as text, tables and JSON. */
#ifndef CLI_COMMON_METRICS_H
#define CLI_COMMON_METRICS_H

#include "cli.h"
#include "json.h"

/* Number of predictions kept for the plot and the median error, and of probabilities kept for the AUC (16 MiB; one per
 * row for two classes). */
enum { CLI_POINTS = 4000, CLI_SCORES = 1 << 21 };
enum { CLI_METRICS = BO_SCORE_CALIBRATION + 1 };

/* The number of rows to keep (bo_metrics_desc.points); 0 classes: numbers. */
size_t cli_metrics_points(size_t classes);
/* Metrics for the test of a machine. Returns false after a message. */
bool cli_metrics_create(cli_session *session, const bo_machine *machine, bo_metrics **out);
/* The value of a metric; NAN, after a warning, if memory is exhausted. */
bo_measure cli_measure(cli_session *session, const bo_metrics *metrics, bo_score metric);
const char *cli_metric_name(bo_score metric);                          /* "log loss" */
cli_short_text cli_format_metric(bo_score metric, double value);       /* "0.23", "91.2%" */
cli_short_text cli_format_metric_error(bo_score metric, double error); /* the same with two digits */

/* The label of a class in the file, or its number if the schema has no labels (a model saved through the API without
 * them): `number` then stores the text. */
const char *cli_class_label(const bo_schema *schema, size_t index, cli_short_text *number);

const char *cli_metrics_label(const bo_metrics *metrics, const bo_schema *schema, size_t index, cli_short_text *number);

/* "test": {…}: each metric under its name (BO_ENUM_SCORE), their standard errors, the classes. */
void cli_metrics_json(cli_session *session, const bo_metrics *metrics, const bo_schema *schema, cli_json *json);
void cli_metrics_json_confusion(const bo_metrics *metrics, const bo_schema *schema, cli_json *json);
/* A table, if there are few classes. */
void cli_metrics_print_confusion(const bo_metrics *metrics, const bo_schema *schema, FILE *out);
/* "RMSE 53,010 (R² 0.791)"; without R² if it is not finite (constant true values). */
void cli_metrics_print_numbers(FILE *out, double rmse, double r2);
void cli_metrics_print_classes(FILE *out, double accuracy, double log_loss); /* "accuracy 91.2% (log loss 0.23)" */
void cli_metrics_print(cli_session *session, const bo_metrics *metrics, const bo_schema *schema, FILE *out);

#endif
