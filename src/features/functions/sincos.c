/* φ = [cos u, sin u] / √m (Rahimi and Recht 2007): φ(x)·φ(y) = mean of cos(w·(x - y)), exactly 1 at x = y. Multiplied
 * by exp(|t|²/2) it estimates the softmax kernel, since exp(x·y) = exp(|x|²/2) exp(|y|²/2) exp(-|x - y|²/2). */
#ifdef REAL

static void R(forward)(const bo_features *f, size_t rows, const REAL *u, const REAL *t, REAL *z, size_t ldz,
                       void *scratch)
{
    size_t m = f->frequencies, dim = f->desc.dim;
    (void)scratch;
    for (size_t r = 0; r < rows; r++) {
        double scale = row_scale(f, R(bo_half_norm)(t + r * dim, dim));
        for (size_t i = 0; i < m; i++) {
            REAL a = (REAL)(scale * bo_weight(f, i)), angle = u[r * m + i];
            z[r * ldz + i] = a * cos(angle);
            z[r * ldz + m + i] = a * sin(angle);
        }
    }
}

static void R(backward)(const bo_features *f, size_t rows, const REAL *u, const REAL *t, const REAL *dz, size_t lddz,
                        REAL *du, REAL *dt, void *scratch)
{
    size_t m = f->frequencies, dim = f->desc.dim;
    (void)scratch;
    for (size_t r = 0; r < rows; r++) {
        double scale = row_scale(f, R(bo_half_norm)(t + r * dim, dim));
        REAL energy = 0; /* Σ dz z, the factor of t in the gradient of exp(|t|²/2) */
        for (size_t i = 0; i < m; i++) {
            REAL a = (REAL)(scale * bo_weight(f, i)), angle = u[r * m + i];
            REAL c = a * cos(angle), s = a * sin(angle);
            REAL dc = dz[r * lddz + i], ds = dz[r * lddz + m + i];
            du[r * m + i] = ds * c - dc * s;
            energy += dc * c + ds * s;
        }
        if (f->desc.kernel == BO_KERNEL_SOFTMAX)
            for (size_t j = 0; j < dim; j++) dt[r * dim + j] += t[r * dim + j] * energy;
    }
}

#else
#include "common.h"
#include <math.h>

static double row_scale(const bo_features *f, double half_norm)
{
    double scale = 1 / sqrt((double)f->frequencies);
    return f->desc.kernel == BO_KERNEL_SOFTMAX ? scale * exp(half_norm) : scale;
}

#define BO_TEMPLATE "functions/sincos.c"
#include "../both_precisions.h"

static void fast(const bo_features *f, size_t rows, const float *x, size_t ldx, float *z, size_t ldz, float *log_scale)
{
    size_t m = f->frequencies;
    bool softmax = f->desc.kernel == BO_KERNEL_SOFTMAX;
    for (size_t r = 0; r < rows; r++) {
        float *row = z + r * ldz;
        double half_norm = softmax ? bo_half_norm_raw(f, x + r * ldx) : 0;
        if (log_scale) {
            log_scale[r] = (float)half_norm;
            half_norm -= (double)log_scale[r]; /* the rounding error of the float log scale stays in the features */
        }
        f->kernels->sincos(m, (float)row_scale(f, half_norm), row, row + m, row);
        bo_apply_weights(f, row);
        bo_apply_weights(f, row + m);
    }
}

/* du = dz₂ ∘ cos - dz₁ ∘ sin, and for the softmax kernel dt = t Σ dz z */
static void fast_backward(const bo_features *f, size_t rows, const float *z, size_t ldz, const float *dz, size_t lddz,
                          float *du, size_t lddu, float *push)
{
    size_t m = f->frequencies;
    for (size_t r = 0; r < rows; r++) {
        const float *value = z + r * ldz, *slope = dz + r * lddz;
        float *out = du + r * lddu;
        for (size_t i = 0; i < m; i++) out[i] = slope[m + i] * value[i] - slope[i] * value[m + i];
        if (push) push[r] = f->kernels->dot_f32(2 * m, slope, value);
    }
}

static void scaled_f64(const bo_features *f, const double *u, const double *t, double *z, double *log_scale)
{
    size_t m = f->frequencies;
    for (size_t i = 0; i < m; i++) {
        double a = row_scale(f, 0) * bo_weight(f, i);
        z[i] = a * cos(u[i]);
        z[m + i] = a * sin(u[i]);
    }
    *log_scale = bo_half_norm_f64(t, f->desc.dim);
}

static void scaled_backward_f64(const bo_features *f, const double *z, const double *dz, double *du, double *push)
{
    size_t m = f->frequencies;
    for (size_t i = 0; i < m; i++) du[i] = dz[m + i] * z[i] - dz[i] * z[m + i];
    *push = bo_dot_f64(2 * m, dz, z);
}

/* With m frequencies, D = x - y: (1 + k(2D) - 2 k(D)²) / 2m, the variance of cos(w·D). */
static double variance(const bo_features *f, const bo_pair *pair)
{
    double m = (double)f->frequencies;
    if (f->desc.kernel == BO_KERNEL_SOFTMAX) {
        double gap = -expm1(-pair->distance2);
        return exp(pair->norm_x + pair->norm_y) * gap * gap / (2 * m);
    }
    double k = bo_kernel_value(&f->desc, pair), k2 = bo_kernel_value_doubled(&f->desc, pair);
    return fmax(0, (1 + k2 - 2 * k * k) / (2 * m));
}

const bo_function_definition bo_function_sincos = {
    .name = "sincos",
    .kernels = BO_SHIFT_INVARIANT_KERNELS | BO_KERNEL_BIT(BO_KERNEL_SOFTMAX),
    .per_frequency = 2,
    .flat = true,
    .fast = fast,
    .fast_backward = fast_backward,
    .forward_f32 = forward_f32,
    .forward_f64 = forward_f64,
    .backward_f32 = backward_f32,
    .backward_f64 = backward_f64,
    .scaled_f64 = scaled_f64,
    .scaled_backward_f64 = scaled_backward_f64,
    .variance = variance,
};
#endif
