/* Symmetric rank-k update of an upper triangle, used by the Gram matrix and by Cholesky. */
#ifndef BO_MATH_UPPER_H
#define BO_MATH_UPPER_H

#include "../base/base.h"

/* The type of Z, and the type in which its products are summed. The result is always float64. */
typedef enum bo_upper_kind {
    BO_UPPER_F32,         /* float32, summed in float32 registers over the depth of one call */
    BO_UPPER_F32_PRECISE, /* float32, widened when packed, summed in float64 */
    BO_UPPER_F64,         /* float64 throughout */
    BO_UPPER_S8,          /* signed bytes, summed exactly over at most BO_S8_DEPTH rows */
} bo_upper_kind;

/* Memory for the two packed panels of Z with n columns and `depth` rows. */
typedef struct bo_upper_panels {
    void *a, *b;
} bo_upper_panels;

bo_status bo_upper_panels_create(bo_context *context, bo_upper_kind kind, size_t n, size_t depth, bo_upper_panels *out);
void bo_upper_panels_destroy(bo_upper_panels *panels);

/* Computes the upper triangle of C (n x n) += factor ZᵀZ; Z has `depth` rows of n numbers. factor is 1 or -1; for bytes
 * it may be any number. Tiles on the diagonal also write below it. */
void bo_upper_update(bo_context *context, bo_upper_kind kind, size_t n, size_t depth, double factor, const void *z,
                     size_t ldz, double *c, size_t ldc, const bo_upper_panels *panels);

#endif
