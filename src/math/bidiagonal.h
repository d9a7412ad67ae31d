/* Bidiagonal matrices: reduction of a square matrix to one, and its singular vectors. */
#ifndef BO_MATH_BIDIAGONAL_H
#define BO_MATH_BIDIAGONAL_H

#include "../base/base.h"

/* Reduces A (n x n, contiguous; finite, entries of at most 1) to B = Uᵀ A V, upper bidiagonal, with the diagonal d and
 * the n - 1 numbers e right of it. U and V are products of reflectors: vector i of U starts at left[i * n + i] and has
 * the factor left_tau[i]; vector i of V starts at a[i * n + i + 1] and has the factor right_tau[i]. */
typedef struct bo_bidiagonal {
    size_t n;
    double *a, *left, *d, *e, *left_tau, *right_tau;
} bo_bidiagonal;
bo_status bo_bidiagonalize(bo_context *context, const bo_bidiagonal *b);

/* Computes B = U diag(d) Vᵀ. Afterwards d holds the singular values (not negative, in any order), and the rows of ut
 * and vt (n x n) are the singular vectors. e is overwritten. */
bo_status bo_bidiagonal_svd(bo_context *context, size_t n, double *d, double *e, double *ut, double *vt);

#endif
