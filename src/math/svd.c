/* Singular values by LAPACK's divide and conquer. LAPACK thinks in columns: our A by rows is its Aᵀ = V S Uᵀ by columns, so
 * that its left vectors, by columns, are our Vᵀ by rows, and its right ones our U. */
#include <lapacke.h>
#include "linalg.h"

enum { LARGEST = 16384 }; /* the workspace of about 4 n² + 7 n numbers, and m n itself, are counted in 32 bits */

bo_status bo_svd(bo_context *context, size_t m, size_t n, double *a, double *u, double *values, double *vt)
{
    const size_t k = m < n ? m : n;
    if (k == 0) return BO_OK;
    if (m > LARGEST || n > LARGEST)
        return bo_fail(context, BO_INVALID, "singular values: a matrix of %zu x %zu, expected at most %d x %d", m, n,
                       LARGEST, LARGEST);
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
