/* A check of <bochner/metrics.h> that callers make before they predict. */
#ifndef BO_MATH_METRICS_H
#define BO_MATH_METRICS_H

#include <bochner/metrics.h>

/* Each y is a class number from 0 to classes - 1; the error names the row. */
bo_status bo_metrics_check_classes(bo_context *context, size_t classes, size_t rows, const double *y);

#endif
