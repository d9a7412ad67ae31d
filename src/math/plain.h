/* Plain vector operations in double, for reference code. */
#ifndef BO_MATH_PLAIN_H
#define BO_MATH_PLAIN_H

#include <stddef.h>

static inline double bo_dot_f64(size_t n, const double *a, const double *b)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

/* y += a x */
static inline void bo_axpy_f64(size_t n, double a, const double *x, double *y)
{
    for (size_t i = 0; i < n; i++) y[i] += a * x[i];
}

#endif
