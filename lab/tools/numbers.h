/* Vectors of numbers: drawing, measuring, comparing. */
#ifndef BO_LAB_TOOLS_NUMBERS_H
#define BO_LAB_TOOLS_NUMBERS_H

#include "../measurement.h"

/* |a|, |a - b| for float64 vectors, and for float32 compared with float64. */
double lab_dot(const double *a, const double *b, size_t count);
double lab_norm(const double *a, size_t count);
double lab_distance(const double *a, const double *b, size_t count);
double lab_distance_single(const float *a, const double *b, size_t count);
double lab_largest(const double *values, size_t count); /* 0 if all values are negative */

/* `count` numbers from `first` to `last` in geometric progression. */
void lab_geometric(double first, double last, size_t count, double *out);
/* n over k, an integer. */
double lab_choose(size_t n, size_t k);

/* Fills in `count` numbers from N(0, deviation²). */
void lab_fill_normal(bo_rng *rng, double deviation, size_t count, float *out);
/* `rows` <= n orthonormal rows of n numbers, uniformly distributed. */
bo_status lab_orthonormal(bo_context *context, bo_rng *rng, size_t rows, size_t n, double *out);

#endif
