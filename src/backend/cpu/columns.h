/* Sums over the rows of a matrix: gradients of biases. */
#ifndef BO_BACKEND_CPU_COLUMNS_H
#define BO_BACKEND_CPU_COLUMNS_H

#include "../../base/base.h"

/* Computes out[j] = Σ_r x[r, j], or += if `add`. */
void bo_sum_columns(bo_context *context, size_t rows, size_t columns, const float *x, bool add, float *out);

#endif
