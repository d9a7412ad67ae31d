/* Haar-distributed orthogonal matrices. Q of the QR factorization of a Gaussian matrix is Haar-distributed if the
 * diagonal of R is positive. Reflectors do not ensure that, so row j of Q is multiplied by the sign of the diagonal
 * (Mezzadri 2007). */
#include "linalg.h"
#include "reflect.h"
#include "scaling.h"

enum { BLOCK = BO_SIZE(32, 4) };

/* Vectors are rows: the factorization is A = L Q. The transpose of a Haar matrix is Haar, and the first rows of Q do
 * not depend on the others. */
static void orthogonalize(bo_context *context, size_t rows, size_t n, double *a, size_t lda, double *tau, double *signs,
                          bo_reflectors *reflectors)
{
    bo_lq(context, rows, n, a, lda, tau, reflectors);
    for (size_t j = 0; j < rows; j++) signs[j] = a[j * lda + j] < 0.0 ? -1.0 : 1.0;
    bo_lq_rows(context, rows, n, a, lda, tau, reflectors);
    for (size_t j = 0; j < rows; j++) {
        for (size_t i = 0; i < n; i++) a[j * lda + i] *= signs[j];
    }
}

bo_status bo_haar(bo_context *context, size_t rows, size_t n, double *a, size_t lda)
{
    if (rows == 0 || n == 0) return BO_OK;
    if (rows > n)
        return bo_fail(context, BO_INVALID, "orthogonal matrix: %zu rows of length %zu, expected at most %zu", rows, n,
                       n);
    double largest = 0;
    for (size_t i = 0; i < rows; i++) {
        if (!bo_largest(n, a + i * lda, &largest))
            return bo_fail(context, BO_NUMERIC, "orthogonal matrix: row %zu of %zu is not finite", i, rows);
    }
    for (size_t i = 0; i < rows; i++) bo_scale_by(n, -bo_exponent(largest), a + i * lda);
    double *workspace = bo_alloc_raw(context, rows, 2 * sizeof *workspace, "an orthogonal matrix");
    bo_reflectors *reflectors = NULL;
    bo_status status = workspace ? bo_reflectors_create(context, bo_min(BLOCK, rows), n, rows, &reflectors) : BO_MEMORY;
    if (status == BO_OK) orthogonalize(context, rows, n, a, lda, workspace, workspace + rows, reflectors);
    bo_reflectors_destroy(reflectors);
    bo_free(workspace);
    return status;
}
