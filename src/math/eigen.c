/* Eigenvectors of a symmetric matrix: reduction to tridiagonal form, divide and conquer, and the reflectors of the
 * reduction applied to the result. */
#include <math.h>
#include <string.h>
#include "../base/trace.h"
#include "linalg.h"
#include "reflect.h"
#include "scaling.h"
#include "tridiagonal.h"

enum { BLOCK = BO_SIZE(128, 5) }; /* reflectors per block */

/* Replaces the rows of q, eigenvectors of T, by the eigenvectors of A = Q T Qᵀ. The last reflectors are applied
 * first. */
static void transform_back(bo_context *context, size_t n, const double *a, size_t lda, const double *tau, double *q,
                           bo_reflectors *reflectors)
{
    for (size_t block = bo_ceil_div(n - 1, BLOCK); block-- > 0;) {
        size_t first = block * BLOCK, count = bo_min(BLOCK, n - 1 - first), start = first + 1;
        bo_reflectors_load(context, reflectors, count, n - start, a + first * lda + start, lda, tau + first, false);
        bo_reflectors_apply(context, reflectors, n, q + start, n);
    }
}

/* scratch: 3 n numbers for the diagonal, the numbers next to it and the factors of the reflectors. */
static bo_status solve(bo_context *context, size_t n, double *a, size_t lda, double *scratch, double *q, size_t *order)
{
    double *d = scratch, *e = d + n, *tau = e + n;
    BO_TRY(bo_tridiagonalize(context, n, a, lda, d, e, tau));
    BO_TRY(bo_tridiagonal_eigen(context, n, d, e, q, order));
    if (n == 1) return BO_OK;
    bo_reflectors *reflectors;
    BO_TRY(bo_reflectors_create(context, bo_min(BLOCK, n - 1), n - 1, n, &reflectors));
    transform_back(context, n, a, lda, tau, q, reflectors);
    bo_reflectors_destroy(reflectors);
    return BO_OK;
}

static bo_status scale_triangle(bo_context *context, size_t n, double *a, size_t lda, int *exponent)
{
    double largest = 0;
    for (size_t i = 0; i < n; i++) {
        if (!bo_largest(n - i, a + i * lda + i, &largest))
            return bo_fail(context, BO_NUMERIC, "eigenvalues: row %zu of a %zu x %zu matrix is not finite", i, n, n);
    }
    *exponent = bo_exponent(largest);
    for (size_t i = 0; i < n; i++) bo_scale_by(n - i, -*exponent, a + i * lda + i);
    return BO_OK;
}

bo_status bo_eigen(bo_context *context, size_t n, double *a, size_t lda, double *values)
{
    if (n == 0) return BO_OK;
    BO_SPAN(context, "math", "eigenvectors");
    int exponent = 0;
    double *scratch = bo_alloc_raw(context, n, 3 * sizeof *scratch, "eigenvectors");
    size_t *order = bo_alloc_raw(context, n, sizeof *order, "eigenvectors");
    double *q = bo_alloc(context, n, n * sizeof *q, "eigenvectors");
    bo_status status = scratch && order && q ? scale_triangle(context, n, a, lda, &exponent) : BO_MEMORY;
    if (status == BO_OK) status = solve(context, n, a, lda, scratch, q, order);
    for (size_t i = 0; i < n && status == BO_OK; i++) {
        values[i] = scratch[order[i]];
        memcpy(a + i * lda, q + order[i] * n, n * sizeof *a);
    }
    if (status == BO_OK) bo_scale_by(n, exponent, values);
    if (status == BO_OK && !(isfinite(values[0]) && isfinite(values[n - 1])))
        status = bo_fail(context, BO_NUMERIC, "eigenvalues of a %zu x %zu matrix exceed the largest number", n, n);
    bo_free(scratch);
    bo_free(order);
    bo_free(q);
    return status;
}
