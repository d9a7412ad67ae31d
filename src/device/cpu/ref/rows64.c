/* Passes over rows of doubles. */
#include "ref.h"

void bo_ref_dots64(size_t rows, size_t n, const double *a, size_t lda, const double *x, double *y)
{
    for (size_t r = 0; r < rows; r++, a += lda) {
        double sum = 0;
        for (size_t j = 0; j < n; j++) sum += a[j] * x[j];
        y[r] += sum;
    }
}

void bo_ref_combine64(size_t rows, size_t n, const double *a, size_t lda, const double *w, double *z)
{
    for (size_t r = 0; r < rows; r++, a += lda)
        for (size_t j = 0; j < n; j++) z[j] += w[r] * a[j];
}

void bo_ref_dots_combine64(size_t rows, size_t n, const double *a, size_t lda, const double *x, double *y,
                           const double *w, double *z)
{
    bo_ref_dots64(rows, n, a, lda, x, y);
    bo_ref_combine64(rows, n, a, lda, w, z);
}

void bo_ref_rotate_rows64(size_t count, size_t n, const bo_rotation *rotations, double *x, size_t ldx)
{
    for (size_t i = 0; i < count; i++, x += ldx) {
        double c = rotations[i].c, s = rotations[i].s;
        for (size_t j = 0; j < n; j++) {
            double p = x[j], q = x[ldx + j];
            x[j] = c * p + s * q;
            x[ldx + j] = c * q - s * p;
        }
    }
}
