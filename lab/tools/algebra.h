/* Dense linear algebra of the library, row-major, for experiments (src/math/linalg.h). */
#ifndef BO_LAB_TOOLS_ALGEBRA_H
#define BO_LAB_TOOLS_ALGEBRA_H

#include "../measurement.h"

/* C (m x n) = alpha op(A) op(B) + beta C; op(A) is m x k, the transposed A if ta. beta = 0 overwrites C. */
bo_status lab_multiply(bo_context *context, bool ta, bool tb, size_t m, size_t n, size_t k, double alpha,
                       const double *a, size_t lda, const double *b, size_t ldb, double beta, double *c, size_t ldc);
/* The same in single precision. */
bo_status lab_multiply_single(bo_context *context, bool ta, bool tb, size_t m, size_t n, size_t k, float alpha,
                              const float *a, size_t lda, const float *b, size_t ldb, float beta, float *c, size_t ldc);

/* X (n x m) := A⁻¹ X for a symmetric positive definite A (n x n, given by its upper triangle, overwritten).
 * BO_NUMERIC: it is not positive definite. */
bo_status lab_solve_positive(bo_context *context, size_t n, size_t m, double *a, double *x);

/* A symmetric matrix (n x n, given by its upper triangle): row i becomes the eigenvector of values[i]; values
 * ascend. */
bo_status lab_eigen(bo_context *context, size_t n, double *a, double *values);
/* The eigenvalues of any square matrix (n x n, overwritten); conjugate pairs are adjacent. */
bo_status lab_eigenvalues(bo_context *context, size_t n, double *a, double *real, double *imaginary);
/* A (m x n, overwritten) = U diag(values) Vᵀ with U m x k, Vᵀ k x n, k = min(m, n) and values in descending order. */
bo_status lab_svd(bo_context *context, size_t m, size_t n, double *a, double *u, double *values, double *vt);
/* A random orthogonal matrix (n x n) from a matrix of independent normal numbers in `a`. */
bo_status lab_haar(bo_context *context, size_t n, double *a);

/* W (outputs x features) minimizes |Z Wᵀ - Y|² + λ |W|². */
typedef struct lab_readout {
    size_t rows, features, outputs;
    const float *z, *y; /* rows x features, rows x outputs */
    double lambda;
} lab_readout;
bo_status lab_ridge_readout(bo_context *context, const lab_readout *readout, float *w);

#endif
