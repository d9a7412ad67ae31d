/* Problems |y - Xw|² with a prescribed spectrum, and their solutions in float64. */
#ifndef BO_LAB_TOOLS_LEAST_SQUARES_H
#define BO_LAB_TOOLS_LEAST_SQUARES_H

#include "numbers.h"

typedef struct lab_least_squares_desc {
    size_t rows, dim;
    /* Singular values of X in descending order, as many as the smaller of rows and dim. NULL: entries of X are N(0,
     * 1). */
    const double *scales;
    const float *x; /* rows x dim: X; NULL: random */
    double noise;   /* standard deviation of y - X truth */
} lab_least_squares_desc;

/* Invariants: x is representable in float32, so both precisions use the same data; X = Σ_i scales[i] u_i v_iᵀ up to
 * this rounding, where v_i, the rows of `directions`, are orthonormal. */
typedef struct lab_least_squares {
    size_t rows, dim, rank;     /* rank: the smaller of rows and dim */
    double *x, *y;              /* rows x dim, rows */
    double *truth;              /* dim: N(0, 1) */
    double *scales;             /* rank */
    double *directions;         /* rank x dim */
    float *x_single, *y_single; /* the same in float32 */
} lab_least_squares;

bo_status lab_least_squares_open(bo_context *context, const lab_least_squares_desc *desc, bo_rng *rng,
                                 lab_least_squares *out);
void lab_least_squares_close(lab_least_squares *problem);

/* The w that minimizes |y - Xw|² + λ Σ_j penalty_j w_j². penalty: NULL for all 1. X may have any rank if λ > 0. */
bo_status lab_ridge(bo_context *context, const lab_least_squares *problem, double lambda, const double *penalty,
                    double *w);
double lab_squares(const lab_least_squares *problem, const double *w); /* |y - Xw|² */

#endif
