/* Products without repeats, in both precisions: row i of `out` (n - i numbers) is a_i [c t_i, other t_{i+1}, other
 * t_{i+2}, …] with c = diagonal, or head for i = 0; n (n + 1) / 2 numbers in all. What the exact polynomials and the
 * self-tensored sketch are made of. */
#ifndef BO_FEATURES_PRODUCTS_H
#define BO_FEATURES_PRODUCTS_H

#include "../internal.h"

typedef struct bo_factors {
    double head, diagonal, other;
} bo_factors;

/* Those of t ⊗ t: (t·t')² = Σ_i (t_i t'_i)² + 2 Σ_{i<j} t_i t_j t'_i t'_j. */
static const bo_factors bo_square = {1, 1, 1.41421356237309504880};

static inline void bo_products_f32(const bo_features *f, size_t n, const float *a, const float *t, bo_factors c,
                                   float *out)
{
    for (size_t i = 0; i < n; out += n - i, i++) {
        out[0] = (float)(i ? c.diagonal : c.head) * a[i] * t[i];
        f->kernels->scale(n - i - 1, (float)c.other * a[i], t + i + 1, out + 1);
    }
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

/* da and dt, which are added to and may be the same, from g = dL/dout. */
static inline void bo_products_back_f32(const bo_features *f, size_t n, const float *a, const float *t, bo_factors c,
                                        const float *g, float *da, float *dt)
{
    for (size_t i = 0; i < n; g += n - i, i++) {
        float own = (float)(i ? c.diagonal : c.head) * g[0], other = (float)c.other;
        f->kernels->axpy(n - i - 1, other * a[i], g + 1, dt + i + 1);
        da[i] += own * t[i] + other * f->kernels->dot_f32(n - i - 1, g + 1, t + i + 1);
        dt[i] += own * a[i];
    }
}

static inline void bo_products_back_f64(const bo_features *f, size_t n, const double *a, const double *t, bo_factors c,
                                        const double *g, double *da, double *dt)
{
    (void)f;
    for (size_t i = 0; i < n; i++) {
        double own = (i ? c.diagonal : c.head) * *g++, sum = own * t[i];
        dt[i] += own * a[i];
        for (size_t j = i + 1; j < n; j++, g++) {
            sum += c.other * *g * t[j];
            dt[j] += c.other * *g * a[i];
        }
        da[i] += sum;
    }
}

#endif
