/* Progress of factorizations, the longest operations that do not iterate over rows of data. */
#ifndef BO_MATH_PROGRESS_H
#define BO_MATH_PROGRESS_H

#include "../base/base.h"

/* Reports that `done` of n rows of a matrix are factored, at a cost that is cubic in n. Short factorizations do not
 * report, because the loops around them do. Returns BO_CANCELED when the caller requests a stop. */
static inline bo_status bo_factorization_progress(bo_context *context, const char *what, size_t n, size_t done)
{
    enum { SHORT = BO_SIZE(1024, 8) };
    if (n < SHORT) return BO_OK;
    double left = 1 - (double)done / (double)n;
    return bo_progress(context, what, 1 - left * left * left, 1);
}

#endif
