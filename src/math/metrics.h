/* A check that callers of <bochner/metrics.h> make before they predict, and the sample of rows for the coverage. */
#ifndef BO_MATH_METRICS_H
#define BO_MATH_METRICS_H

#include <bochner/metrics.h>

/* Checks that each y is a class number from 0 to classes - 1; the error gives the row. */
bo_status bo_metrics_check_classes(bo_context *context, size_t classes, size_t rows, const double *y);

/* Creates the sample of predictions for bo_metrics_coverage_part, and adds one target of a row: coverage.c. */
bo_status bo_coverage_prepare(bo_context *context, bo_metrics *metrics);
void bo_coverage_keep(bo_metrics *metrics, uint64_t row, size_t target, double mean, bool inside);

#endif
