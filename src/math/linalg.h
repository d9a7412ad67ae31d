/* Dense linear algebra, row-major. All functions give the same bits for any number of threads: the blocking is fixed,
 * and each element of the result is summed by one task in a fixed order. Large products run on the micro-kernels of
 * src/device/cpu through the context's pool. */
#ifndef BO_MATH_LINALG_H
#define BO_MATH_LINALG_H

#include "stored.h"
#include "../base/base.h"

/* Computes C (m x n) = alpha op(A) op(B) + beta C. op(A) is m x k: A is stored m x k, or k x m if ta. beta = 0
 * overwrites C without reading it (NaN in C does not spread). */
bo_status bo_gemm(bo_context *context, bool ta, bool tb, size_t m, size_t n, size_t k, float alpha, const float *a,
                  size_t lda, const float *b, size_t ldb, float beta, float *c, size_t ldc);
bo_status bo_gemm64(bo_context *context, bool ta, bool tb, size_t m, size_t n, size_t k, double alpha, const double *a,
                    size_t lda, const double *b, size_t ldb, double beta, double *c, size_t ldc);

/* One of several products that share op(A) (m x k): C (m x n) = alpha op(A) op(B) + beta base + row. */
typedef struct bo_gemm_product {
    size_t n;
    bool tb;
    const void *b; /* floats, or the type `stored`, which requires tb and n consecutive lines */
    bo_stored stored;
    size_t ldb;        /* stride of B in floats; unused for other storage types */
    float beta;        /* 0: neither C nor base is read */
    const float *base; /* m x n; NULL: C itself */
    size_t ldbase;
    const float *row; /* n numbers that are added to every row; NULL: none */
    float *c;
    size_t ldc;
} bo_gemm_product;

/* bo_gemm with a workspace from the caller, aligned to 64 bytes: allocates nothing and cannot fail. The workspace also
 * serves smaller m and k. BFLOAT16: the factors are rounded when they are packed, and sums are float32. */
size_t bo_gemm_bytes(bo_context *context, bo_precision precision, size_t m, size_t n, size_t k);
void bo_gemm_in(bo_context *context, bo_precision precision, bool ta, bool tb, size_t m, size_t n, size_t k,
                float alpha, const float *a, size_t lda, const float *b, size_t ldb, float beta, float *c, size_t ldc,
                void *workspace);
/* The same for bo_gemm64; the workspace also serves smaller n. */
size_t bo_gemm64_bytes(bo_context *context, size_t m, size_t n, size_t k);
void bo_gemm64_in(bo_context *context, bool ta, bool tb, size_t m, size_t n, size_t k, double alpha, const double *a,
                  size_t lda, const double *b, size_t ldb, double beta, double *c, size_t ldc, void *workspace);
/* Adds alpha AᵀB, which must be symmetric, to the upper triangle of C (n x n); A and B are k x n. Tiles on the diagonal
 * also write below it. The workspace has bo_gemm64_bytes(context, n, n, k) bytes. */
void bo_gemm64_upper(bo_context *context, size_t n, size_t k, double alpha, const double *a, const double *b, size_t ld,
                     double *c, size_t ldc, void *workspace);
/* C (m x n) = op(A) op(B), or C += op(A) op(B) if `add`, in double on the calling thread: for tasks. op(A) and op(B)
 * are packed whole, which suits matrices of some hundred rows and columns. upper: elements below the diagonal may be
 * omitted. The workspace is aligned to 64 bytes and also serves smaller products; nothing is allocated. */
typedef struct bo_product64 {
    bool ta, tb, upper, add;
    size_t m, n, k;
    const double *a, *b;
    size_t lda, ldb;
    double *c;
    size_t ldc;
} bo_product64;
size_t bo_product64_bytes(const struct bo_kernels *kernels, size_t m, size_t n, size_t k);
void bo_product64_run(const struct bo_kernels *kernels, const bo_product64 *product, void *workspace);
/* Several products; A is packed once. The workspace size depends only on `n` and `stored` of the products. */
size_t bo_gemm_shared_bytes(bo_context *context, bo_precision precision, size_t m, size_t k, size_t count,
                            const bo_gemm_product *products);
void bo_gemm_shared(bo_context *context, bo_precision precision, bool ta, size_t m, size_t k, float alpha,
                    const float *a, size_t lda, size_t count, const bo_gemm_product *products, void *workspace);
/* Computes C (n x n) = alpha op(A) op(A)ᵀ + beta base with half the work; op(A) is n x k, and base is symmetric with
 * C's stride (NULL: C itself). The workspace has bo_gemm_bytes(context, precision, n, n, k) bytes. */
void bo_gemm_symmetric(bo_context *context, bo_precision precision, bool ta, size_t n, size_t k, float alpha,
                       const float *a, size_t lda, float beta, const float *base, float *c, size_t ldc,
                       void *workspace);

/* A constant right-hand factor that is packed once: C (m x n) = A (m x k) Bᵀ with B stored n x k. */
typedef struct bo_packed bo_packed;
bo_status bo_packed_create(bo_context *context, bo_precision precision, size_t n, size_t k, const float *b, size_t ldb,
                           bo_packed **out);
void bo_packed_destroy(bo_packed *packed);
/* The same in a buffer of the caller, aligned to 64 bytes: allocates nothing, cannot fail and is not destroyed. tb: B
 * is stored n x k, else k x n. */
size_t bo_packed_bytes(bo_context *context, bo_precision precision, size_t n, size_t k);
const bo_packed *bo_packed_in(bo_context *context, bo_precision precision, bool tb, size_t n, size_t k, const float *b,
                              size_t ldb, void *buffer);
/* Overwrites C. Runs on the calling thread only; call it from tasks, with some tens of rows so that A stays in the
 * cache. The bits of an element do not depend on m or on its row. */
void bo_packed_multiply(const bo_packed *packed, size_t m, const float *a, size_t lda, float *c, size_t ldc);

/* Adds ZᵀZ to the upper triangle of G (n x n, float64); Z has `rows` rows of n floats. precise: products are computed
 * in float64, else in float32 over at most 512 rows at a time and accumulated in float64. The strict lower triangle is
 * undefined afterwards (tiles on the diagonal may write to it). */
bo_status bo_gram(bo_context *context, size_t n, size_t rows, const float *z, size_t ldz, double *g, size_t ldg,
                  bool precise);
/* Adds scale QᵀQ to the upper triangle of G; Q has `rows` rows of n signed bytes in [-127, 127]. The sums of products
 * are exact integers. G is exact too if scale is a power of two and the sums are below 2^53; then every partition of
 * the rows gives the same bits. */
bo_status bo_gram8(bo_context *context, size_t n, size_t rows, const int8_t *q, size_t ldq, double scale, double *g,
                   size_t ldg);
/* Copies the upper triangle to the lower. */
void bo_symmetrize(bo_context *context, size_t n, double *g, size_t ldg);
void bo_symmetrize32(bo_context *context, size_t n, float *g, size_t ldg);

/* Cholesky factorization A = L Lᵀ of a symmetric matrix given by its UPPER triangle. Afterwards the lower triangle with
 * diagonal holds L, and the strict upper triangle is undefined. BO_NUMERIC if a pivot is not positive: *pivot (may be
 * NULL) and the message give its index. */
bo_status bo_cholesky(bo_context *context, size_t n, double *a, size_t lda, size_t *pivot);
/* Computes X (n x m) := L⁻¹ X, and L⁻ᵀ X. */
bo_status bo_solve_lower(bo_context *context, size_t n, size_t m, const double *l, size_t ldl, double *x, size_t ldx);
bo_status bo_solve_lower_t(bo_context *context, size_t n, size_t m, const double *l, size_t ldl, double *x, size_t ldx);
/* Computes L⁻¹ (n x n, stride n) of a factor with stride ldl, panel by panel to skip zeros: n³/3 operations. */
bo_status bo_inverse_factor(bo_context *context, size_t n, const double *l, size_t ldl, double *inverse);

/* Computes W (outputs x features) that minimizes |Z Wᵀ - Y|² + λ |W|², by a direct solve. BO_NUMERIC if λ is too small
 * for the rank of Z. */
typedef struct bo_readout {
    size_t rows, features, outputs;
    const float *z, *y; /* rows x features, rows x outputs */
    double lambda;
} bo_readout;
bo_status bo_ridge_readout(bo_context *context, const bo_readout *readout, float *w);

/* Eigendecomposition of a symmetric matrix given by its UPPER triangle. Afterwards row i of A is the eigenvector of
 * values[i]; values are ascending. Errors are small multiples of the rounding error relative to the norm of A. Needs
 * about 2 n² numbers of memory. BO_NUMERIC: A is not finite, an eigenvalue is too large for a double, or the iteration
 * does not converge. */
bo_status bo_eigen(bo_context *context, size_t n, double *a, size_t lda, double *values);
/* The `count` largest eigenvalues, descending, of a positive semidefinite matrix (n x n, stride n) given by its UPPER
 * triangle, and their eigenvectors as rows (count x n); count <= n. The matrix is overwritten. Residuals |A v - λ v|
 * are below 1e-9 of the largest eigenvalue. Errors as for bo_eigen. */
bo_status bo_eigen_top(bo_context *context, size_t n, size_t count, double *a, double *values, double *vectors);
/* Computes the eigenvalues of any square matrix (n x n, overwritten); conjugate pairs are adjacent. Intended for at
 * most some hundred rows: the loops are plain. Errors as for bo_eigen. */
bo_status bo_eigenvalues(bo_context *context, size_t n, double *a, double *real, double *imaginary);
/* Singular value decomposition: A (m x n, overwritten) = U diag(values) Vᵀ with U m x k, Vᵀ k x n, k = min(m, n) and
 * values descending. Accuracy and errors as for bo_eigen. Needs about 5 k² numbers of memory, and 2 m n more if m >
 * n. */
bo_status bo_svd(bo_context *context, size_t m, size_t n, double *a, double *u, double *values, double *vt);

/* Computes the first `rows` rows of a Haar-distributed Q (n x n) from a Gaussian matrix (rows x n) in `a`, which is
 * overwritten: QR with the signs of R's diagonal absorbed, without which Q is not Haar-distributed (Mezzadri 2007). */
bo_status bo_haar(bo_context *context, size_t rows, size_t n, double *a, size_t lda);

#endif
