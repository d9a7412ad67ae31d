/* Products without repeats (bo_kernels.triangle) in both precisions, for the closed-form polynomials and the
 * self-tensored sketch. Gradients are accumulated. */
#ifndef BO_FEATURES_FUNCTIONS_PRODUCTS_H
#define BO_FEATURES_FUNCTIONS_PRODUCTS_H

#include "../internal.h"

static inline void bo_products_f32(const bo_features *f, size_t n, const float *a, const float *t, bo_factors c,
                                   float *out)
{
    f->kernels->triangle(n, a, t, (float)c.head, (float)c.diagonal, (float)c.other, out);
}

static inline void bo_products_f64(const bo_features *f, size_t n, const double *a, const double *t, bo_factors c,
                                   double *out)
{
    (void)f;
    for (size_t i = 0; i < n; i++) {
        *out++ = (i ? c.diagonal : c.head) * a[i] * t[i];
        for (size_t j = i + 1; j < n; j++) *out++ = c.other * a[i] * t[j];
    }
}

static inline void bo_products_back_f32(const bo_features *f, size_t n, const float *a, const float *t, bo_factors c,
                                        const float *g, float *da, float *dt)
{
    f->kernels->triangle_back(n, a, t, (float)c.head, (float)c.diagonal, (float)c.other, g, da, dt);
}

static inline void bo_products_back_f64(const bo_features *f, size_t n, const double *a, const double *t, bo_factors c,
                                        const double *g, double *da, double *dt)
{
    (void)f;
    for (size_t i = 0; i < n; i++) {
        double coefficient = (i ? c.diagonal : c.head) * *g++, sum = coefficient * t[i];
        dt[i] += coefficient * a[i];
        for (size_t j = i + 1; j < n; j++, g++) {
            sum += c.other * *g * t[j];
            dt[j] += c.other * *g * a[i];
        }
        da[i] += sum;
    }
}

#endif
