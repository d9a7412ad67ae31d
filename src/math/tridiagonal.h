/* Symmetric tridiagonal matrices: reduction to one, and its eigenvectors. */
#ifndef BO_MATH_TRIDIAGONAL_H
#define BO_MATH_TRIDIAGONAL_H

#include "../base/base.h"

/* Reduces the symmetric matrix A (n x n, upper triangle; finite, entries of at most 1) to T = Qᵀ A Q with the diagonal
 * d and the n - 1 numbers e next to it. Q = H_0 … H_{n-2}; afterwards vector i of the reflectors starts at A[i][i + 1],
 * and its factor is tau[i]. The lower triangle is not read. */
bo_status bo_tridiagonalize(bo_context *context, size_t n, double *a, size_t lda, double *d, double *e, double *tau);

/* Computes the eigenvectors of T as the rows of q (n x n, contiguous), which is zero before. The eigenvalue of row i is
 * d[i]; order lists the rows by ascending eigenvalue. e is overwritten. */
bo_status bo_tridiagonal_eigen(bo_context *context, size_t n, double *d, double *e, double *q, size_t *order);

#endif
