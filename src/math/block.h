/* Products of matrices in cache, on the calling thread: for tasks that compute many products. */
#ifndef BO_MATH_BLOCK_H
#define BO_MATH_BLOCK_H

#include <bochner/base.h>
#include "../base/carver.h"
#include "../device/cpu/kernels.h"

/* The precision of the products of a task. BFLOAT16: factors are rounded when they are packed, and sums are float32.
 * panels: workspace for packed factors; NULL: float32, which needs no workspace. */
typedef struct bo_multiplier {
    const bo_kernels *kernels;
    uint16_t *panels;
} bo_multiplier;

/* Takes the workspace from the carver. */
bo_multiplier bo_multiplier_make(const bo_kernels *kernels, bo_precision precision, bo_carver *carver);

/* True if products are in bfloat16. Then packing a factor takes about as long as multiplying it with 64 lines: use tall
 * blocks, even if some elements are not needed. */
static inline bool bo_multiplier_rounds(const bo_multiplier *multiplier)
{
    return multiplier->panels != NULL;
}

/* C = A B, or C += A B if `add`: `multiply` of kernels.h. Either stride of A is 1. The bits of an element do not depend
 * on m, n, i, j. */
void bo_multiply(const bo_multiplier *multiplier, size_t m, size_t n, size_t k, const float *a, size_t row,
                 size_t column, const float *b, size_t ldb, bool add, float *c, size_t ldc);
/* C = keep C + A B: `renew` of kernels.h. */
void bo_multiply_renew(const bo_multiplier *multiplier, size_t m, size_t n, size_t k, const float *a, size_t row,
                       size_t column, const float *b, size_t ldb, float keep, float *c, size_t ldc);
/* C (m x n) = A B, or C += A B if `add`, from packed factors (device/cpu/bf16.h). Call bo_bf16_prepare before. */
void bo_multiply_panels(const bo_micro_bf16 *micro, size_t m, size_t n, size_t k, const uint16_t *a, const uint16_t *b,
                        bool add, float *c, size_t ldc);

#endif
