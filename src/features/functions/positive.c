/* φ = exp(u - |t|²/2) / √m (Choromanski et al. 2021): positive features of exp(x·y). OPRF and resampled frequencies use
 * the same code with an offset per frequency and a factor: φ_i = exp(u_i + offset_i + log D - |t|²/2) / √m. */
#ifdef REAL

void R(bo_exponential_forward)(const bo_features *f, size_t rows, const REAL *u, const REAL *t, REAL *z, size_t ldz,
                               void *scratch)
{
    size_t m = f->frequencies, dim = f->desc.dim;
    (void)scratch;
    for (size_t r = 0; r < rows; r++) {
        REAL shift = (REAL)row_shift(f, R(bo_half_norm)(t + r * dim, dim));
        for (size_t i = 0; i < m; i++) z[r * ldz + i] = exp(u[r * m + i] + (REAL)bo_offset(f, i) + shift);
    }
}

/* φ' = φ with respect to u, -t φ with respect to t */
void R(bo_exponential_backward)(const bo_features *f, size_t rows, const REAL *u, const REAL *t, const REAL *dz,
                                size_t lddz, REAL *du, REAL *dt, void *scratch)
{
    size_t m = f->frequencies, dim = f->desc.dim;
    (void)scratch;
    for (size_t r = 0; r < rows; r++) {
        REAL shift = (REAL)row_shift(f, R(bo_half_norm)(t + r * dim, dim)), energy = 0;
        for (size_t i = 0; i < m; i++) {
            REAL e = dz[r * lddz + i] * exp(u[r * m + i] + (REAL)bo_offset(f, i) + shift);
            du[r * m + i] = e;
            energy += e;
        }
        for (size_t j = 0; j < dim; j++) dt[r * dim + j] -= t[r * dim + j] * energy;
    }
}

#else
#include "common.h"
#include <math.h>

static double row_shift(const bo_features *f, double half_norm)
{
    return f->log_d - half_norm - 0.5 * log((double)f->frequencies);
}

#define BO_TEMPLATE "functions/positive.c"
#include "../both_precisions.h"

void bo_exponential_fast(const bo_features *f, size_t rows, const float *x, size_t ldx, float *z, size_t ldz,
                         float *log_scale)
{
    size_t m = f->frequencies;
    double constant = -0.5 * log((double)m);
    for (size_t r = 0; r < rows; r++) {
        float *row = z + r * ldz;
        double common = f->log_d - bo_half_norm_raw(f, x + r * ldx);
        if (f->offset) f->kernels->axpy(m, 1, f->offset_f32, row);
        float top = log_scale ? f->kernels->max(m, row) : 0;
        float shift = bo_row_shift(common, constant, top, log_scale ? log_scale + r : NULL);
        (log_scale ? f->kernels->exp_below : f->kernels->exp_shift)(m, row, shift, row);
    }
}

/* du = dz ∘ z, dt = -t Σ dz z */
void bo_exponential_fast_backward(const bo_features *f, size_t rows, const float *z, size_t ldz, const float *dz,
                                  size_t lddz, float *du, size_t lddu, float *push)
{
    size_t m = f->frequencies;
    for (size_t r = 0; r < rows; r++) push[r] = -bo_product(m, dz + r * lddz, z + r * ldz, du + r * lddu);
}

void bo_exponential_scaled_f64(const bo_features *f, const double *u, const double *t, double *z, double *log_scale)
{
    size_t m = f->frequencies;
    for (size_t i = 0; i < m; i++) z[i] = u[i] + bo_offset(f, i);
    *log_scale = bo_exp_row_f64(m, f->log_d - bo_half_norm_f64(t, f->desc.dim), -0.5 * log((double)m), z);
}

void bo_exponential_scaled_backward_f64(const bo_features *f, const double *z, const double *dz, double *du,
                                        double *push)
{
    for (size_t i = 0; i < f->frequencies; i++) du[i] = dz[i] * z[i];
    *push = -bo_dot_f64(f->frequencies, dz, z);
}

double bo_exponential_log_product(const bo_features *f, size_t i, int product_index, double u, double half_norm)
{
    (void)product_index;
    return 2 * (u + bo_offset(f, i) + f->log_d - half_norm);
}

/* K² (e^{|x+y|²} - 1) / m with K² = e^{2x·y} (Choromanski et al. 2021, Lemma 2) */
static double variance(const bo_features *f, const bo_pair *pair)
{
    return exp(2 * pair->dot) * expm1(pair->plus2) / (double)f->frequencies;
}

const bo_function_definition bo_function_positive = {
    .name = "positive",
    .kernels = BO_KERNEL_BIT(BO_KERNEL_SOFTMAX),
    .exponential = true,
    .nonnegative = true,
    .per_frequency = 1,
    .fast = bo_exponential_fast,
    .fast_backward = bo_exponential_fast_backward,
    .forward_f32 = bo_exponential_forward_f32,
    .forward_f64 = bo_exponential_forward_f64,
    .backward_f32 = bo_exponential_backward_f32,
    .backward_f64 = bo_exponential_backward_f64,
    .scaled_f64 = bo_exponential_scaled_f64,
    .scaled_backward_f64 = bo_exponential_scaled_backward_f64,
    .variance = variance,
    .log_product = bo_exponential_log_product,
};
#endif
