/* Rotations of rows of double. */
#include "ref.h"

void bo_ref_rotate(size_t n, size_t count, const double *c, const double *s, double *row, double *y, size_t ldy,
                   size_t outputs, const double *z, double *w, size_t ldw)
{
    for (size_t t = 0; t < count; t++, y += ldy) {
        for (size_t j = 0; j < n; j++) {
            double a = row[j], b = y[j];
            row[j] = c[t] * a + s[t] * b;
            y[j] = c[t] * b - s[t] * a;
        }
        for (size_t g = 0; g < outputs; g++, z++, w += ldw)
            for (size_t j = 0; j < n; j++) w[j] -= *z * row[j];
    }
}
