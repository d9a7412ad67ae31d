/* Products of few rows (gemv.c). */
#ifndef BO_MATH_GEMV_H
#define BO_MATH_GEMV_H

#include "linalg.h"

enum { BO_FEW_ROWS = 8 }; /* packing pays off for more rows */

/* True if the products have few rows and can be computed without packing. */
bool bo_gemv(bool ta, size_t m, size_t count, const bo_gemm_product *products);
/* bo_gemm_shared for such products, and the bytes of work memory that it needs. */
size_t bo_gemv_bytes(size_t m, size_t k, size_t count, const bo_gemm_product *products);
void bo_gemv_multiply(bo_context *context, size_t m, size_t k, float alpha, const float *a, size_t lda, size_t count,
                      const bo_gemm_product *products, void *room);

#endif
