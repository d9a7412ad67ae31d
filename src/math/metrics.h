/* A check that callers of <bochner/metrics.h> make before they predict. */
#ifndef BO_MATH_METRICS_H
#define BO_MATH_METRICS_H

#include <bochner/metrics.h>

/* Checks that each y is a class number from 0 to classes - 1; the error gives the row. */
bo_status bo_metrics_check_classes(bo_context *context, size_t classes, size_t rows, const double *y);

#endif
