/* Eigen-decomposition by LAPACK, of symmetric matrices by divide and conquer. LAPACK thinks in columns: our upper triangle
 * by rows is its lower triangle by columns, and its eigenvectors, which are columns, are our rows. */
#include <limits.h>
#include <lapacke.h>
#include "linalg.h"

enum { LARGEST = 32766 }; /* the workspace of 1 + 6n + 2n² numbers is counted in 32 bits */

static bo_status diverged(bo_context *context, size_t n, lapack_int info)
{
    return bo_fail(context, BO_NUMERIC, "eigenvalues of a %zu x %zu matrix did not converge (LAPACK says %d)", n, n,
                   (int)info);
}

bo_status bo_eigen(bo_context *context, size_t n, double *a, size_t lda, double *values)
{
    if (n == 0) return BO_OK;
    if (n > LARGEST || lda > INT_MAX) {
        return bo_fail(context, BO_INVALID, "eigenvalues: size %zu (rows %zu apart), expected at most %d", n, lda,
                       LARGEST);
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
    if (n > LARGEST) return bo_fail(context, BO_INVALID, "eigenvalues: size %zu, expected at most %d", n, LARGEST);
    const lapack_int size = (lapack_int)n;
    double *work = bo_alloc_raw(context, 4 * n, sizeof *work, "eigenvalues");
    if (!work) return BO_MEMORY;
    const lapack_int info = LAPACKE_dgeev_work(LAPACK_COL_MAJOR, 'N', 'N', size, a, size, real, imaginary, NULL, 1,
                                               NULL, 1, work, 4 * size);
    bo_free(work);
    return info == 0 ? BO_OK : diverged(context, n, info);
}
