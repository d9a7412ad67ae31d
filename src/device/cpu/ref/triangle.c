/* Products without repeats. */
#include "ref.h"

void bo_ref_triangle(size_t n, const float *a, const float *t, float head, float diagonal, float other, float *out)
{
    for (size_t i = 0; i < n; i++) {
        float factor = other * a[i];
        *out++ = (i ? diagonal : head) * a[i] * t[i];
        for (size_t j = i + 1; j < n; j++) *out++ = factor * t[j];
    }
}

void bo_ref_triangle_back(size_t n, const float *a, const float *t, float head, float diagonal, float other,
                          const float *g, float *da, float *dt)
{
    for (size_t i = 0; i < n; i++) {
        float own = (i ? diagonal : head) * *g++, sum = 0, factor = other * a[i];
        for (size_t j = i + 1; j < n; j++, g++) {
            sum += *g * t[j];
            dt[j] += factor * *g;
        }
        da[i] += own * t[i] + other * sum;
        dt[i] += own * a[i];
    }
}
