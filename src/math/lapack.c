/* Eigenvalues, singular values and QR by LAPACK.
 *
 * Symmetric eigenproblems use divide and conquer. LAPACK stores matrices by columns: our upper triangle by rows is its
 * lower triangle by columns, and its eigenvectors, which are columns, are our rows. */
#include <limits.h>
#include "linalg.h"

/* The LAPACK routines used, from OpenBLAS. Matrices are stored by columns. Arguments are passed by address; after all
 * others Fortran expects the length of each string, which is 1 here. info: 0, minus the index of an invalid argument,
 * or the number of values that did not converge. */
void dsyevd_(const char *vectors, const char *triangle, const int *n, double *a, const int *lda, double *values,
             double *work, const int *work_size, int *integers, const int *integers_size, int *info, size_t, size_t);
void dgeev_(const char *left, const char *right, const int *n, double *a, const int *lda, double *real,
            double *imaginary, double *vl, const int *ldvl, double *vr, const int *ldvr, double *work,
            const int *work_size, int *info, size_t, size_t);
void dgeqrf_(const int *m, const int *n, double *a, const int *lda, double *reflectors, double *work,
             const int *work_size, int *info);
void dorgqr_(const int *m, const int *n, const int *k, double *a, const int *lda, const double *reflectors,
             double *work, const int *work_size, int *info);
void dgesdd_(const char *vectors, const int *m, const int *n, double *a, const int *lda, double *values, double *u,
             const int *ldu, double *vt, const int *ldvt, double *work, const int *work_size, int *integers, int *info,
             size_t);

enum { LARGEST_EIGEN = 32766 }; /* the size of the workspace, 1 + 6n + 2n² numbers, is a 32-bit integer */

static bo_status diverged(bo_context *context, size_t n, int info)
{
    return bo_fail(context, BO_NUMERIC, "eigenvalues of a %zu x %zu matrix did not converge (LAPACK info %d)", n, n,
                   info);
}

bo_status bo_eigen(bo_context *context, size_t n, double *a, size_t lda, double *values)
{
    if (n == 0) return BO_OK;
    if (n > LARGEST_EIGEN || lda > INT_MAX) {
        return bo_fail(context, BO_INVALID, "eigenvalues: size %zu (stride %zu), expected at most %d", n, lda,
                       LARGEST_EIGEN);
    }
    const int size = (int)n, stride = (int)lda, ask = -1;
    double work_wanted;
    int integers_size, info;
    dsyevd_("V", "L", &size, a, &stride, values, &work_wanted, &ask, &integers_size, &ask, &info, 1, 1);
    if (info != 0) return bo_fail(context, BO_INVALID, "eigenvalues: LAPACK reports invalid argument %d", -info);
    const int work_size = (int)work_wanted;
    double *work = bo_alloc_raw(context, (size_t)work_size, sizeof *work, "eigenvectors");
    int *integers = bo_alloc_raw(context, (size_t)integers_size, sizeof *integers, "eigenvectors");
    bo_status status = BO_MEMORY;
    if (work && integers) {
        dsyevd_("V", "L", &size, a, &stride, values, work, &work_size, integers, &integers_size, &info, 1, 1);
        status = info == 0 ? BO_OK : diverged(context, n, info);
    }
    bo_free(work);
    bo_free(integers);
    return status;
}

/* Read by columns the matrix is its transpose, which has the same eigenvalues. */
bo_status bo_eigenvalues(bo_context *context, size_t n, double *a, double *real, double *imaginary)
{
    if (n == 0) return BO_OK;
    if (n > LARGEST_EIGEN)
        return bo_fail(context, BO_INVALID, "eigenvalues: size %zu, expected at most %d", n, LARGEST_EIGEN);
    const int size = (int)n, work_size = 4 * size, one = 1;
    int info;
    double *work = bo_alloc_raw(context, 4 * n, sizeof *work, "eigenvalues");
    if (!work) return BO_MEMORY;
    dgeev_("N", "N", &size, a, &size, real, imaginary, NULL, &one, NULL, &one, work, &work_size, &info, 1, 1);
    bo_free(work);
    return info == 0 ? BO_OK : diverged(context, n, info);
}

/* ---- singular values --------------------------------------------------------------------------------------------- */

/* Singular values by LAPACK's divide and conquer. LAPACK stores matrices by columns: our A by rows is its Aᵀ = V S Uᵀ
 * by columns, so that its left vectors by columns are our Vᵀ by rows, and its right vectors are our U. */

enum { LARGEST_SVD = 16384 }; /* the sizes of the workspace, about 4 n² + 7 n numbers, and of m n are 32-bit integers */

bo_status bo_svd(bo_context *context, size_t m, size_t n, double *a, double *u, double *values, double *vt)
{
    const size_t k = m < n ? m : n;
    if (k == 0) return BO_OK;
    if (m > LARGEST_SVD || n > LARGEST_SVD)
        return bo_fail(context, BO_INVALID, "singular values: a matrix of %zu x %zu, expected at most %d x %d", m, n,
                       LARGEST_SVD, LARGEST_SVD);
    const int rows = (int)n, columns = (int)m, least = (int)k, ask = -1;
    double wanted;
    int info;
    dgesdd_("S", &rows, &columns, a, &rows, values, vt, &rows, u, &least, &wanted, &ask, NULL, &info, 1);
    if (info != 0) return bo_fail(context, BO_INVALID, "singular values: LAPACK reports invalid argument %d", -info);
    const int size = (int)wanted;
    double *work = bo_alloc_raw(context, (size_t)size, sizeof *work, "singular vectors");
    int *integers = bo_alloc_raw(context, 8 * k, sizeof *integers, "singular vectors");
    bo_status status = work && integers ? BO_OK : BO_MEMORY;
    if (status == BO_OK)
        dgesdd_("S", &rows, &columns, a, &rows, values, vt, &rows, u, &least, work, &size, integers, &info, 1);
    if (info != 0)
        status = bo_fail(context, BO_NUMERIC, "singular values of a %zu x %zu matrix %s (LAPACK info %d)", m, n,
                         info > 0 ? "did not converge" : "that is not finite", info);
    bo_free(work);
    bo_free(integers);
    return status;
}

/* ---- Haar-distributed matrices ----------------------------------------------------------------------------------- */

/* Haar-distributed orthogonal matrices. Q of the QR factorization of a Gaussian matrix is Haar-distributed if the
 * diagonal of R is positive. LAPACK does not ensure that (its Q[0][0] is never positive), so column j of Q is
 * multiplied by the sign of R[j][j] (Mezzadri 2007). */

/* Computes QR in place, then Q in place; writes the signs of R's diagonal to `signs`. Returns LAPACK's info. */
static int orthogonalize(int n, int count, double *a, int lda, double *reflectors, double *signs, double *work,
                         int work_size)
{
    int info;
    dgeqrf_(&n, &count, a, &lda, reflectors, work, &work_size, &info);
    if (info != 0) return info;
    for (int j = 0; j < count; j++) signs[j] = a[(size_t)j * (size_t)lda + (size_t)j] < 0.0 ? -1.0 : 1.0;
    dorgqr_(&n, &count, &count, a, &lda, reflectors, work, &work_size, &info);
    return info;
}

bo_status bo_haar(bo_context *context, size_t rows, size_t n, double *a, size_t lda)
{
    if (rows == 0 || n == 0) return BO_OK;
    if (rows > n)
        return bo_fail(context, BO_INVALID, "orthogonal matrix: %zu rows of length %zu, expected at most %zu", rows, n,
                       n);
    if (n > INT_MAX / 64 || lda > INT_MAX) {
        return bo_fail(context, BO_INVALID, "orthogonal matrix: size %zu (stride %zu), expected at most %d", n, lda,
                       INT_MAX / 64);
    }
    /* 64 is at least LAPACK's block size in both routines; a smaller workspace would only be slower. */
    size_t work_size = 64 * rows;
    double *room = bo_alloc_raw(context, 2 * rows + work_size, sizeof *room, "an orthogonal matrix");
    if (!room) return BO_MEMORY;
    double *signs = room + rows;
    int info = orthogonalize((int)n, (int)rows, a, (int)lda, room, signs, room + 2 * rows, (int)work_size);
    /* LAPACK's columns are our rows. The transpose of a Haar matrix is Haar, and its first rows do not depend on the
     * others. */
    for (size_t j = 0; j < rows && info == 0; j++) {
        for (size_t i = 0; i < n; i++) a[j * lda + i] *= signs[j];
    }
    bo_free(room);
    if (info != 0) return bo_fail(context, BO_NUMERIC, "orthogonal matrix: LAPACK failed with info %d", info);
    return BO_OK;
}
