/* Measures the rate of matrix products on this host. */
#ifndef CLI_SHARED_RATES_H
#define CLI_SHARED_RATES_H

#include <bochner/base.h>

enum { BO_RATE_REPEATS = 99 }; /* at most */

/* Measures float32 products n x n x n on all threads, 2 n³ operations each: the median over the repeats (0: 5). */
bo_status bo_gemm_rate(bo_context *context, size_t n, int repeats, double *gflops);

/* Fills an array with numbers in [-0.5, 0.5). */
void bo_rate_fill(size_t count, float *x);
double bo_rate_median(double *values, int count); /* sorts the values */
/* Replaces 0 repeats by the default. BO_INVALID for a number out of range. */
bo_status bo_rate_check_repeats(bo_context *context, int *repeats);

#endif
