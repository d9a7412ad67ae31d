/* What LAPACK does for us: eigenvalues, singular values, QR.
 *
 * Eigen-decomposition, of symmetric matrices by divide and conquer. LAPACK thinks in columns: our upper triangle
 * by rows is its lower triangle by columns, and its eigenvectors, which are columns, are our rows. */
#include <lapacke.h>
#include <limits.h>
#include "linalg.h"

enum { LARGEST_EIGEN = 32766 }; /* the workspace of 1 + 6n + 2n² numbers is counted in 32 bits */

static bo_status diverged(bo_context *context, size_t n, lapack_int info)
{
    return bo_fail(context, BO_NUMERIC, "eigenvalues of a %zu x %zu matrix did not converge (LAPACK says %d)", n, n,
                   (int)info);
}

bo_status bo_eigen(bo_context *context, size_t n, double *a, size_t lda, double *values)
{
    if (n == 0) return BO_OK;
    if (n > LARGEST_EIGEN || lda > INT_MAX) {
        return bo_fail(context, BO_INVALID, "eigenvalues: size %zu (rows %zu apart), expected at most %d", n, lda,
                       LARGEST_EIGEN);
    }
    double work_size;
    lapack_int integers_size, info;
    info = LAPACKE_dsyevd_work(LAPACK_COL_MAJOR, 'V', 'L', (lapack_int)n, a, (lapack_int)lda, values, &work_size, -1,
                               &integers_size, -1);
    if (info != 0) return bo_fail(context, BO_INVALID, "eigenvalues: LAPACK refuses argument %d", (int)-info);
    double *work = bo_alloc_raw(context, (size_t)work_size, sizeof *work, "eigenvectors");
    lapack_int *integers = bo_alloc_raw(context, (size_t)integers_size, sizeof *integers, "eigenvectors");
    bo_status status = BO_MEMORY;
    if (work && integers) {
        info = LAPACKE_dsyevd_work(LAPACK_COL_MAJOR, 'V', 'L', (lapack_int)n, a, (lapack_int)lda, values, work,
                                   (lapack_int)work_size, integers, integers_size);
        status = info == 0 ? BO_OK : diverged(context, n, info);
    }
    bo_free(work);
    bo_free(integers);
    return status;
}

/* By columns it is the transpose, which has the same ones. */
bo_status bo_eigenvalues(bo_context *context, size_t n, double *a, double *real, double *imaginary)
{
    if (n == 0) return BO_OK;
    if (n > LARGEST_EIGEN)
        return bo_fail(context, BO_INVALID, "eigenvalues: size %zu, expected at most %d", n, LARGEST_EIGEN);
    const lapack_int size = (lapack_int)n;
    double *work = bo_alloc_raw(context, 4 * n, sizeof *work, "eigenvalues");
    if (!work) return BO_MEMORY;
    const lapack_int info = LAPACKE_dgeev_work(LAPACK_COL_MAJOR, 'N', 'N', size, a, size, real, imaginary, NULL, 1,
                                               NULL, 1, work, 4 * size);
    bo_free(work);
    return info == 0 ? BO_OK : diverged(context, n, info);
}

/* ---- singular values --------------------------------------------------------------------------------- */

/* Singular values by LAPACK's divide and conquer. LAPACK thinks in columns: our A by rows is its Aᵀ = V S Uᵀ by
 * columns, so that its left vectors, by columns, are our Vᵀ by rows, and its right ones our U. */

enum { LARGEST_SVD = 16384 }; /* the workspace of about 4 n² + 7 n numbers, and m n itself, are counted in 32 bits */

bo_status bo_svd(bo_context *context, size_t m, size_t n, double *a, double *u, double *values, double *vt)
{
    const size_t k = m < n ? m : n;
    if (k == 0) return BO_OK;
    if (m > LARGEST_SVD || n > LARGEST_SVD)
        return bo_fail(context, BO_INVALID, "singular values: a matrix of %zu x %zu, expected at most %d x %d", m, n,
                       LARGEST_SVD, LARGEST_SVD);
    const lapack_int rows = (lapack_int)n, columns = (lapack_int)m, least = (lapack_int)k;
    double size;
    lapack_int info =
        LAPACKE_dgesdd_work(LAPACK_COL_MAJOR, 'S', rows, columns, a, rows, values, vt, rows, u, least, &size, -1, NULL);
    if (info != 0) return bo_fail(context, BO_INVALID, "singular values: LAPACK refuses argument %d", (int)-info);
    double *work = bo_alloc_raw(context, (size_t)size, sizeof *work, "singular vectors");
    lapack_int *integers = bo_alloc_raw(context, 8 * k, sizeof *integers, "singular vectors");
    bo_status status = work && integers ? BO_OK : BO_MEMORY;
    if (status == BO_OK)
        info = LAPACKE_dgesdd_work(LAPACK_COL_MAJOR, 'S', rows, columns, a, rows, values, vt, rows, u, least, work,
                                   (lapack_int)size, integers);
    if (info != 0)
        status = bo_fail(context, BO_NUMERIC, "singular values of a %zu x %zu matrix %s (LAPACK says %d)", m, n,
                         info > 0 ? "did not converge" : "that is not finite", (int)info);
    bo_free(work);
    bo_free(integers);
    return status;
}

/* ---- Haar-distributed matrices ----------------------------------------------------------------------- */

/* Haar-distributed orthogonal matrices. Q of a Gaussian matrix's QR factorization is Haar when R's diagonal is
 * positive; LAPACK does not make it so (its Q[0][0], for one, is never positive), so column j of Q is multiplied by
 * the sign of R[j][j] (Mezzadri 2007). */

/* QR in place, then Q in place; `signs` receives the signs of R's diagonal. Returns LAPACK's verdict. */
static lapack_int orthogonalize(lapack_int n, lapack_int count, double *a, lapack_int lda, double *reflectors,
                                double *signs, double *work, lapack_int work_size)
{
    lapack_int info = LAPACKE_dgeqrf_work(LAPACK_COL_MAJOR, n, count, a, lda, reflectors, work, work_size);
    if (info != 0) return info;
    for (lapack_int j = 0; j < count; j++) signs[j] = a[(size_t)j * (size_t)lda + (size_t)j] < 0.0 ? -1.0 : 1.0;
    return LAPACKE_dorgqr_work(LAPACK_COL_MAJOR, n, count, count, a, lda, reflectors, work, work_size);
}

bo_status bo_haar(bo_context *context, size_t rows, size_t n, double *a, size_t lda)
{
    if (rows == 0 || n == 0) return BO_OK;
    if (rows > n)
        return bo_fail(context, BO_INVALID, "orthogonal matrix: %zu rows of length %zu, expected at most %zu", rows, n,
                       n);
    if (n > INT_MAX / 64 || lda > INT_MAX) {
        return bo_fail(context, BO_INVALID, "orthogonal matrix: size %zu (rows %zu apart), expected at most %d", n, lda,
                       INT_MAX / 64);
    }
    /* 64 is at least LAPACK's block size in both routines; a smaller workspace would only make them slower. */
    size_t work_size = 64 * rows;
    double *room = bo_alloc_raw(context, 2 * rows + work_size, sizeof *room, "an orthogonal matrix");
    if (!room) return BO_MEMORY;
    double *signs = room + rows;
    lapack_int info = orthogonalize((lapack_int)n, (lapack_int)rows, a, (lapack_int)lda, room, signs, room + 2 * rows,
                                    (lapack_int)work_size);
    /* LAPACK's columns are our rows; the transpose of a Haar matrix is Haar, and its first rows need no others. */
    for (size_t j = 0; j < rows && info == 0; j++) {
        for (size_t i = 0; i < n; i++) a[j * lda + i] *= signs[j];
    }
    bo_free(room);
    if (info != 0) return bo_fail(context, BO_NUMERIC, "orthogonal matrix: LAPACK says %d", (int)info);
    return BO_OK;
}
