/* Scaling by powers of two, so that squares neither overflow nor underflow. It is exact, except for numbers that
 * become smaller than the smallest normal number. */
#ifndef BO_MATH_SCALING_H
#define BO_MATH_SCALING_H

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>

/* Raises *largest to the largest |x[i]|. False: some x[i] is NaN or infinite. */
static inline bool bo_largest(size_t n, const double *x, double *largest)
{
    double max_abs = *largest;
    bool finite = true;
    for (size_t i = 0; i < n; i++) {
        double size = fabs(x[i]);
        finite &= size <= DBL_MAX;
        max_abs = size > max_abs ? size : max_abs;
    }
    *largest = max_abs;
    return finite;
}

/* Returns k with largest in [2^(k-1), 2^k); 0 for 0. */
static inline int bo_exponent(double largest)
{
    int exponent;
    frexp(largest, &exponent);
    return exponent;
}

/* Multiplies by 2^exponent, in two steps because the power itself may not be a double. */
static inline void bo_scale_by(size_t n, int exponent, double *x)
{
    if (exponent == 0) return;
    double first = ldexp(1, exponent / 2), second = ldexp(1, exponent - exponent / 2);
    for (size_t i = 0; i < n; i++) x[i] = x[i] * first * second;
}

#endif
