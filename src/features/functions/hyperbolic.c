/* φ = exp(-|t|²/2) [exp u, exp -u] / √(2m) (Choromanski et al. 2021): each frequency and its negative. */
#ifdef REAL

static void R(forward)(const bo_features *f, size_t rows, const REAL *u, const REAL *t, REAL *z, size_t ldz,
                       void *scratch)
{
    size_t m = f->frequencies, dim = f->desc.dim;
    (void)scratch;
    for (size_t r = 0; r < rows; r++) {
        REAL shift = (REAL)row_shift(f, R(bo_half_norm)(t + r * dim, dim));
        for (size_t i = 0; i < m; i++) {
            REAL offset = (REAL)bo_offset(f, i) + shift;
            z[r * ldz + i] = exp(u[r * m + i] + offset);
            z[r * ldz + m + i] = exp(offset - u[r * m + i]);
        }
    }
}

static void R(backward)(const bo_features *f, size_t rows, const REAL *u, const REAL *t, const REAL *dz, size_t lddz,
                        REAL *du, REAL *dt, void *scratch)
{
    size_t m = f->frequencies, dim = f->desc.dim;
    (void)scratch;
    for (size_t r = 0; r < rows; r++) {
        REAL shift = (REAL)row_shift(f, R(bo_half_norm)(t + r * dim, dim)), energy = 0;
        for (size_t i = 0; i < m; i++) {
            REAL offset = (REAL)bo_offset(f, i) + shift;
            REAL up = dz[r * lddz + i] * exp(u[r * m + i] + offset);
            REAL down = dz[r * lddz + m + i] * exp(offset - u[r * m + i]);
            du[r * m + i] = up - down;
            energy += up + down;
        }
        for (size_t j = 0; j < dim; j++) dt[r * dim + j] -= t[r * dim + j] * energy;
    }
}

#else
#include "common.h"
#include <math.h>

static double row_shift(const bo_features *f, double half_norm)
{
    return -half_norm - 0.5 * log(2 * (double)f->frequencies);
}

#define BO_TEMPLATE "functions/hyperbolic.c"
#include "../both_precisions.h"

static void fast(const bo_features *f, size_t rows, const float *x, size_t ldx, float *z, size_t ldz, float *log_scale)
{
    size_t m = f->frequencies;
    double constant = -0.5 * log(2 * (double)m);
    for (size_t r = 0; r < rows; r++) {
        float *up = z + r * ldz, *down = up + m;
        for (size_t i = 0; i < m; i++) down[i] = -up[i];
        if (f->offset) {
            f->kernels->axpy(m, 1, f->offset_f32, up);
            f->kernels->axpy(m, 1, f->offset_f32, down);
        }
        float top = log_scale ? f->kernels->max(2 * m, up) : 0;
        float shift = bo_row_shift(-bo_half_norm_raw(f, x + r * ldx), constant, top, log_scale ? log_scale + r : NULL);
        (log_scale ? f->kernels->exp_below : f->kernels->exp_shift)(2 * m, up, shift, up);
    }
}

/* du = dz₁ ∘ z₁ - dz₂ ∘ z₂, dt = -t Σ dz z */
static void fast_backward(const bo_features *f, size_t rows, const float *z, size_t ldz, const float *dz, size_t lddz,
                          float *du, size_t lddu, float *push)
{
    size_t m = f->frequencies;
    for (size_t r = 0; r < rows; r++) {
        const float *value = z + r * ldz, *slope = dz + r * lddz;
        float *out = du + r * lddu;
        for (size_t i = 0; i < m; i++) out[i] = slope[i] * value[i] - slope[m + i] * value[m + i];
        push[r] = -f->kernels->dot_f32(2 * m, slope, value);
    }
}

static void scaled_f64(const bo_features *f, const double *u, const double *t, double *z, double *log_scale)
{
    size_t m = f->frequencies;
    for (size_t i = 0; i < m; i++) {
        z[i] = u[i] + bo_offset(f, i);
        z[m + i] = -u[i] + bo_offset(f, i);
    }
    *log_scale = bo_exp_row_f64(2 * m, -bo_half_norm_f64(t, f->desc.dim), -0.5 * log(2 * (double)m), z);
}

static void scaled_backward_f64(const bo_features *f, const double *z, const double *dz, double *du, double *push)
{
    size_t m = f->frequencies;
    for (size_t i = 0; i < m; i++) du[i] = dz[i] * z[i] - dz[m + i] * z[m + i];
    *push = -bo_dot_f64(2 * m, dz, z);
}

/* ½ (1 - e^{-|x+y|²}) times the variance of positive features with the same number of frequencies (the same Lemma 2) */
static double variance(const bo_features *f, const bo_pair *pair)
{
    double positive = exp(2 * pair->dot) * expm1(pair->plus2) / (double)f->frequencies;
    return -0.5 * expm1(-pair->plus2) * positive;
}

/* e^{2u} / 2, e^{-2u} / 2, 1 / 2 */
static double log_product(const bo_features *f, size_t i, int product_index, double u, double half_norm)
{
    const double turn[] = {u, -u, 0};
    return 2 * (turn[product_index] + bo_offset(f, i) - half_norm) - 0.69314718055994530942;
}

const bo_function_definition bo_function_hyperbolic = {
    .name = "hyperbolic",
    .kernels = BO_KERNEL_BIT(BO_KERNEL_SOFTMAX),
    .exponential = true,
    .nonnegative = true,
    .per_frequency = 2,
    .fast = fast,
    .fast_backward = fast_backward,
    .forward_f32 = forward_f32,
    .forward_f64 = forward_f64,
    .backward_f32 = backward_f32,
    .backward_f64 = backward_f64,
    .scaled_f64 = scaled_f64,
    .scaled_backward_f64 = scaled_backward_f64,
    .variance = variance,
    .log_product = log_product,
};
#endif
