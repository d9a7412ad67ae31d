/* Haar-distributed orthogonal matrices. Q of a Gaussian matrix's QR factorization is Haar when R's diagonal
 * is positive; LAPACK does not make it so (its Q[0][0], for one, is never positive), so column j of Q is
 * multiplied by the sign of R[j][j] (Mezzadri 2007). */
#include <limits.h>
#include <lapacke.h>
#include "linalg.h"

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
