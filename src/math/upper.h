/* Symmetric rank-k update of an upper triangle: the heart of the Gram matrix and of Cholesky. */
#ifndef BO_MATH_UPPER_H
#define BO_MATH_UPPER_H

#include "../base/base.h"

/* What Z is stored in, and in what its products are summed; the result is always float64. */
typedef enum bo_upper_kind {
    BO_UPPER_F32,         /* float32, summed in float32 registers over the depth of one call */
    BO_UPPER_F32_PRECISE, /* float32, widened when packed, summed in float64 */
    BO_UPPER_F64,         /* float64 throughout */
    BO_UPPER_S8,          /* signed bytes, summed exactly over at most BO_S8_DEPTH rows */
} bo_upper_kind;

/* Room for the two packed panels of Z, n columns and `depth` rows. */
typedef struct bo_upper_panels {
    void *a, *b;
} bo_upper_panels;

bo_status bo_upper_panels_create(bo_context *context, bo_upper_kind kind, size_t n, size_t depth, bo_upper_panels *out);
void bo_upper_panels_destroy(bo_upper_panels *panels);

/* Upper triangle of C (n x n) += factor ZᵀZ, Z with `depth` rows of n numbers; factor is 1 or -1, for bytes
 * any. Tiles on the diagonal write below it too. */
void bo_upper_update(bo_context *context, bo_upper_kind kind, size_t n, size_t depth, double factor, const void *z,
                     size_t ldz, double *c, size_t ldc, const bo_upper_panels *panels);

#endif
