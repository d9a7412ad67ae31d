/* How good predictions are: words, tables and JSON of metrics. */
#ifndef CLI_COMMON_METRICS_H
#define CLI_COMMON_METRICS_H

#include "cli.h"
#include "json.h"

/* Predictions that are kept for the plot. */
enum { CLI_POINTS = 4000 };

/* A class as it stood in the file or, where the schema has none (a model that a program saved without one), its number:
 * `number` then holds the words. */
const char *cli_class_label(const bo_schema *schema, size_t index, cli_word *number);

const char *cli_metrics_label(const bo_metrics *metrics, const bo_schema *schema, size_t index, cli_word *number);

void cli_metrics_json(const bo_metrics *metrics, const bo_schema *schema, cli_json *json); /* "test": {…} */
void cli_metrics_json_confusion(const bo_metrics *metrics, const bo_schema *schema, cli_json *json);
/* A table, where the classes are few. */
void cli_metrics_print_confusion(const bo_metrics *metrics, const bo_schema *schema, FILE *out);
/* "RMSE 53,010 (R² 0.791)"; without R² if it is not finite (the true values do not vary). */
void cli_metrics_print_numbers(FILE *out, double rmse, double r2);
void cli_metrics_print_classes(FILE *out, double accuracy, double log_loss); /* "accuracy 91.2% (log loss 0.23)" */
void cli_metrics_print(const bo_metrics *metrics, const bo_schema *schema, FILE *out);

#endif
