/* A check for callers of <bochner/metrics.h> before they predict, single metrics, and the sample of rows for the
 * coverage. */
#ifndef BO_MATH_METRICS_H
#define BO_MATH_METRICS_H

#include <bochner/metrics.h>

/* Checks that each y is a class number from 0 to classes - 1; the error gives the row. */
bo_status bo_metrics_check_classes(bo_context *context, size_t classes, size_t rows, const double *y);

/* Adds one row of a classification without its probabilities: AUC, Brier score and calibration are then not available.
 * `loss` is -log p(truth). */
bo_status bo_metrics_add_class(bo_context *context, bo_metrics *metrics, size_t truth, size_t predicted, double loss);

/* Members of bo_metrics_summary and bo_target_scores. NAN if there is no such part or target. */
double bo_metrics_rmse(const bo_metrics *metrics);
double bo_metrics_r2(const bo_metrics *metrics);
double bo_metrics_coverage(const bo_metrics *metrics);
double bo_metrics_coverage_part(const bo_metrics *metrics, size_t part);
double bo_metrics_accuracy(const bo_metrics *metrics);
double bo_metrics_log_loss(const bo_metrics *metrics);
double bo_metrics_target_rmse(const bo_metrics *metrics, size_t target);
double bo_metrics_target_mae(const bo_metrics *metrics, size_t target);
double bo_metrics_target_r2(const bo_metrics *metrics, size_t target);
double bo_metrics_target_coverage(const bo_metrics *metrics, size_t target);

/* Creates the sample of predictions for bo_metrics_coverage_part, and adds one target of a row: coverage.c. */
bo_status bo_coverage_prepare(bo_context *context, bo_metrics *metrics);
void bo_coverage_keep(bo_metrics *metrics, uint64_t row, size_t target, double mean, bool inside);

#endif
