/* Products without repeats. */
#include "ref.h"

void bo_ref_triangle(size_t n, const float *a, const float *t, float head, float diagonal, float off_diagonal,
                     float *out)
{
    for (size_t i = 0; i < n; i++) {
        float factor = off_diagonal * a[i];
        *out++ = (i ? diagonal : head) * a[i] * t[i];
        for (size_t j = i + 1; j < n; j++) *out++ = factor * t[j];
    }
}

void bo_ref_triangle_back(size_t n, const float *a, const float *t, float head, float diagonal, float off_diagonal,
                          const float *g, float *da, float *dt)
{
    for (size_t i = 0; i < n; i++) {
        float corner = (i ? diagonal : head) * *g++, sum = 0, factor = off_diagonal * a[i];
        for (size_t j = i + 1; j < n; j++, g++) {
            sum += *g * t[j];
            dt[j] += factor * *g;
        }
        da[i] += corner * t[i] + off_diagonal * sum;
        dt[i] += corner * a[i];
    }
}
