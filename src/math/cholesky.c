/* Cholesky factorization, right-looking, on the upper triangle: A = UᵀU block row by block row, so that every
 * operand is read along its rows. For each block: factor U11; U12 = U11⁻ᵀ A12; A22 -= U12ᵀ U12 (Golub and Van
 * Loan, 4.2.6). */
#include <math.h>
#include "linalg.h"
#include "panel.h"
#include "substitution.h"
#include "upper.h"

/* Factors the upper triangle of an n x n block in place; returns n, or the index of the pivot that is not
 * positive. */
static size_t factor_block(size_t n, double *a, size_t lda)
{
    for (size_t p = 0; p < n; p++) {
        double *restrict pivot_row = a + p * lda;
        if (!(pivot_row[p] > 0.0 && isfinite(pivot_row[p]))) return p;
        double root = sqrt(pivot_row[p]), inverse = 1.0 / root;
        pivot_row[p] = root;
        for (size_t j = p + 1; j < n; j++) pivot_row[j] *= inverse;
        for (size_t i = p + 1; i < n; i++) {
            double factor = pivot_row[i];
            double *restrict row = a + i * lda;
            for (size_t j = i; j < n; j++) row[j] -= factor * pivot_row[j];
        }
    }
    return n;
}

/* substitution and panels are for what lies right of the first block; a single block needs neither. */
static bo_status factor(bo_context *context, size_t n, double *a, size_t lda, size_t *pivot,
                        bo_substitution *substitution, const bo_upper_panels *panels)
{
    size_t step = bo_substitution_rows(context);
    for (size_t p = 0; p < n; p += step) {
        size_t rows = bo_smaller(step, n - p), rest = n - p - rows;
        double *diagonal = a + p * lda + p, *right = diagonal + rows;
        size_t bad = factor_block(rows, diagonal, lda);
        if (bad < rows) {
            if (pivot) *pivot = p + bad;
            return bo_fail(context, BO_NUMERIC,
                           "Cholesky: pivot %zu of %zu is %g, expected a positive number: the matrix is not positive "
                           "definite",
                           p + bad, n, diagonal[bad * lda + bad]);
        }
        if (rest == 0) break;
        bo_substitution_solve(context, substitution, BO_TRIANGLE_UPPER_TRANSPOSED, rows, diagonal, lda, rest, right,
                              lda);
        bo_upper_update(context, BO_UPPER_F64, rest, rows, -1, right, lda, right + rows * lda, lda, panels);
    }
    bo_symmetrize(context, n, a, lda); /* L = Uᵀ */
    return BO_OK;
}

bo_status bo_cholesky(bo_context *context, size_t n, double *a, size_t lda, size_t *pivot)
{
    size_t step = bo_substitution_rows(context);
    if (n <= step) return factor(context, n, a, lda, pivot, NULL, NULL); /* one block: nothing beside it */
    bo_substitution *substitution;
    bo_upper_panels panels;
    BO_TRY(bo_substitution_create(context, step, n - step, &substitution));
    bo_status status = bo_upper_panels_create(context, BO_UPPER_F64, n - step, step, &panels);
    if (status == BO_OK) {
        status = factor(context, n, a, lda, pivot, substitution, &panels);
        bo_upper_panels_destroy(&panels);
    }
    bo_substitution_destroy(substitution);
    return status;
}
