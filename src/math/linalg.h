/* Dense linear algebra, row-major. Everything here gives the same bits for any number of threads: the
 * blocking is fixed, each element of the result is summed by one task in a fixed order. Large GEMM, Gram and
 * Cholesky run on our own micro-kernels (src/kernels) through the context's pool; eigenvalues and QR are
 * LAPACK's. */
#ifndef BO_MATH_LINALG_H
#define BO_MATH_LINALG_H

#include "stored.h"
#include "../base/base.h"

/* C (m x n) = alpha op(A) op(B) + beta C. op(A) is m x k: A stored m x k, or k x m when ta. beta = 0
 * overwrites (NaN in C does not spread). */
bo_status bo_gemm(bo_context *context, bool ta, bool tb, size_t m, size_t n, size_t k, float alpha, const float *a,
                  size_t lda, const float *b, size_t ldb, float beta, float *c, size_t ldc);
bo_status bo_gemm64(bo_context *context, bool ta, bool tb, size_t m, size_t n, size_t k, double alpha, const double *a,
                    size_t lda, const double *b, size_t ldb, double beta, double *c, size_t ldc);

/* One of several products that share op(A) (m x k): C (m x n) = alpha op(A) op(B) + beta base + row. */
typedef struct bo_gemm_product {
    size_t n;
    bool tb;
    const void *b; /* floats, or as `stored` says: then tb, and n lines one after the other */
    bo_stored stored;
    size_t ldb;        /* of floats */
    float beta;        /* 0: neither C nor base is read */
    const float *base; /* m x n; NULL: C itself */
    size_t ldbase;
    const float *row; /* n numbers, added to every row; NULL: none */
    float *c;
    size_t ldc;
} bo_gemm_product;

/* bo_gemm in the caller's room, which is aligned to 64 bytes: allocates nothing and cannot fail. The room serves
 * fewer rows and shorter sums too: smaller m, smaller k. */
size_t bo_gemm_bytes(bo_context *context, size_t m, size_t n, size_t k);
void bo_gemm_in(bo_context *context, bool ta, bool tb, size_t m, size_t n, size_t k, float alpha, const float *a,
                size_t lda, const float *b, size_t ldb, float beta, float *c, size_t ldc, void *room);
/* Several products; A is packed once. Of the products the room depends on n and stored alone. */
size_t bo_gemm_shared_bytes(bo_context *context, size_t m, size_t k, size_t count, const bo_gemm_product *products);
void bo_gemm_shared(bo_context *context, bool ta, size_t m, size_t k, float alpha, const float *a, size_t lda,
                    size_t count, const bo_gemm_product *products, void *room);
/* C (n x n) = alpha op(A) op(A)ᵀ + beta base, op(A) n x k, base symmetric with C's stride (NULL: C itself): half the work.
 * In the room of bo_gemm_bytes(context, n, n, k). */
void bo_gemm_symmetric(bo_context *context, bool ta, size_t n, size_t k, float alpha, const float *a, size_t lda,
                       float beta, const float *base, float *c, size_t ldc, void *room);

/* A constant right-hand factor packed once: C (m x n) = A (m x k) Bᵀ with B stored n x k. */
typedef struct bo_packed bo_packed;
bo_status bo_packed_create(bo_context *context, size_t n, size_t k, const float *b, size_t ldb, bo_packed **out);
void bo_packed_destroy(bo_packed *packed);
/* The same in the caller's room, which is aligned to 64 bytes: allocates nothing, cannot fail and is not destroyed. tb: B is
 * stored n x k, else k x n. */
size_t bo_packed_bytes(bo_context *context, size_t n, size_t k);
const bo_packed *bo_packed_in(bo_context *context, bool tb, size_t n, size_t k, const float *b, size_t ldb, void *room);
/* Runs on the calling thread alone (call it from tasks, with some tens of rows: A is to stay in cache); overwrites C. An
 * element's bits do not depend on m or on its row. */
void bo_packed_multiply(const bo_packed *packed, size_t m, const float *a, size_t lda, float *c, size_t ldc);

/* Upper triangle of G (n x n, float64) += ZᵀZ for Z with `rows` rows of n floats. precise: products in
 * float64, else in float32 over at most 512 rows at a time, accumulated in float64. The strict lower triangle
 * is left alone (tiles on the diagonal may write it: treat it as undefined). */
bo_status bo_gram(bo_context *context, size_t n, size_t rows, const float *z, size_t ldz, double *g, size_t ldg,
                  bool precise);
/* Upper triangle of G += scale QᵀQ for Q with `rows` rows of n signed bytes in [-127, 127]. The sums of
 * products are exact integers; with scale a power of two and sums below 2^53 so is G: any split of the rows
 * gives the same bits. */
bo_status bo_gram8(bo_context *context, size_t n, size_t rows, const int8_t *q, size_t ldq, double scale, double *g,
                   size_t ldg);
/* Copies the upper triangle onto the lower. */
void bo_symmetrize(bo_context *context, size_t n, double *g, size_t ldg);
void bo_symmetrize32(bo_context *context, size_t n, float *g, size_t ldg);

/* Cholesky A = L Lᵀ of a symmetric matrix given by its UPPER triangle; afterwards the lower triangle with
 * diagonal holds L and the strict upper one is undefined. BO_NUMERIC when a pivot is not positive: *pivot
 * (may be NULL) says which, and the message too. */
bo_status bo_cholesky(bo_context *context, size_t n, double *a, size_t lda, size_t *pivot);
/* X (n x m) := L⁻¹ X, L⁻ᵀ X. */
bo_status bo_solve_lower(bo_context *context, size_t n, size_t m, const double *l, size_t ldl, double *x, size_t ldx);
bo_status bo_solve_lower_t(bo_context *context, size_t n, size_t m, const double *l, size_t ldl, double *x, size_t ldx);

/* W (outputs x features) that minimizes |Z Wᵀ - Y|² + λ |W|², exactly. BO_NUMERIC where λ is too small for the rank of Z. */
typedef struct bo_readout {
    size_t rows, features, outputs;
    const float *z, *y; /* rows x features, rows x outputs */
    double lambda;
} bo_readout;
bo_status bo_ridge_readout(bo_context *context, const bo_readout *readout, float *w);

/* Eigen-decomposition of a symmetric matrix given by its UPPER triangle: afterwards row i of A is the
 * eigenvector of values[i], ascending. (LAPACK dsyevd.) */
bo_status bo_eigen(bo_context *context, size_t n, double *a, size_t lda, double *values);
/* Eigenvalues of any square matrix (n x n, overwritten), conjugate pairs side by side. (LAPACK dgeev.) */
bo_status bo_eigenvalues(bo_context *context, size_t n, double *a, double *real, double *imaginary);
/* Singular values: A (m x n, overwritten) = U diag(values) Vᵀ with U m x k, Vᵀ k x n, k the smaller of m and n, values
 * descending. (LAPACK dgesdd.) */
bo_status bo_svd(bo_context *context, size_t m, size_t n, double *a, double *u, double *values, double *vt);

/* The first `rows` rows of a Haar-distributed Q (n x n) from a Gaussian matrix (rows x n) in `a` (overwritten): QR with the
 * signs of R's diagonal absorbed, without which LAPACK's Q is not Haar (Mezzadri 2007). */
bo_status bo_haar(bo_context *context, size_t rows, size_t n, double *a, size_t lda);

#endif
