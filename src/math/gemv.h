/* Products of few rows (gemv.c). */
#ifndef BO_MATH_GEMV_H
#define BO_MATH_GEMV_H

#include "linalg.h"

/* Packing pays off for more rows. Up to BO_ROWS_AT_ONCE rows, nothing is packed. Above, only long lines of floats are
 * multiplied without packing, because the sum over the lanes of a vector takes as long as several products. A row has
 * the same bits alone and among other few rows. */
enum { BO_FEW_ROWS = 64, BO_ROWS_AT_ONCE = 8, BO_LONG_LINE = 256 };

/* True if the products have few rows and can be computed without packing. */
bool bo_gemv(bo_precision precision, bool ta, size_t m, size_t k, size_t count, const bo_gemm_product *products);
/* bo_gemm_shared for such products, and its workspace in bytes. */
size_t bo_gemv_bytes(size_t m, size_t k, size_t count, const bo_gemm_product *products);
void bo_gemv_multiply(bo_context *context, size_t m, size_t k, float alpha, const float *a, size_t lda, size_t count,
                      const bo_gemm_product *products, void *workspace);

#endif
