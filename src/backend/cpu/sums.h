/* Sums over rows. */
#ifndef BO_BACKEND_CPU_SUMS_H
#define BO_BACKEND_CPU_SUMS_H

#include "../backend.h"

/* out[j] = Σ over rows of x[row, j], or added: the gradient of a bias. In float32 over few rows, then in float64. */
void bo_column_sums(bo_context *context, size_t rows, size_t columns, const float *x, bool add, float *out);

#endif
