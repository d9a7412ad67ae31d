/* φ = [e^t, e^-t]: φ(x)·φ(y) = Σ_j 2 cosh(t_j + t'_j), features = 2 dim. After a learned projection this is the map of
 * Hedgehog without its softmax (Zhang et al. 2024). */
#ifdef REAL

static void R(forward)(const bo_features *f, size_t rows, const REAL *u, const REAL *t, REAL *z, size_t ldz,
                       void *scratch)
{
    size_t dim = f->desc.dim;
    (void)u, (void)scratch;
    for (size_t r = 0; r < rows; r++)
        for (size_t j = 0; j < dim; j++) {
            z[r * ldz + j] = exp(t[r * dim + j]);
            z[r * ldz + dim + j] = exp(-t[r * dim + j]);
        }
}

static void R(backward)(const bo_features *f, size_t rows, const REAL *u, const REAL *t, const REAL *dz, size_t lddz,
                        REAL *du, REAL *dt, void *scratch)
{
    size_t dim = f->desc.dim;
    (void)u, (void)du, (void)scratch;
    for (size_t r = 0; r < rows; r++)
        for (size_t j = 0; j < dim; j++)
            dt[r * dim + j] += dz[r * lddz + j] * exp(t[r * dim + j]) - dz[r * lddz + dim + j] * exp(-t[r * dim + j]);
}

#else
#include "common.h"
#include <math.h>

#define BO_TEMPLATE "functions/exponential.c"
#include "../both_precisions.h"

/* The log scale is max |t| + ½ log(features), so that the largest feature is 1/√features. */
static void fast(const bo_features *f, size_t rows, const float *x, size_t ldx, float *z, size_t ldz, float *log_scale)
{
    size_t width = 2 * f->desc.dim;
    double constant = -0.5 * log((double)width);
    for (size_t r = 0; r < rows; r++) {
        float *row = z + r * ldz;
        float top = bo_both_signs(f, x + r * ldx, row);
        if (log_scale) {
            log_scale[r] = (float)((double)top - constant);
            f->kernels->exp_below(width, row, -log_scale[r], row);
        } else {
            f->kernels->exp_shift(width, row, 0, row);
        }
    }
}

static void fast_backward(const bo_features *f, size_t rows, const float *z, size_t ldz, const float *dz, size_t lddz,
                          float *dt, size_t lddt, float *push)
{
    size_t dim = f->desc.dim;
    (void)push;
    for (size_t r = 0; r < rows; r++) {
        const float *value = z + r * ldz, *slope = dz + r * lddz;
        float *out = dt + r * lddt;
        for (size_t j = 0; j < dim; j++) out[j] = slope[j] * value[j] - slope[dim + j] * value[dim + j];
    }
}

static void scaled_f64(const bo_features *f, const double *u, const double *t, double *z, double *log_scale)
{
    size_t dim = f->desc.dim;
    double constant = -0.5 * log(2 * (double)dim);
    (void)u;
    for (size_t j = 0; j < dim; j++) {
        z[j] = t[j];
        z[dim + j] = -t[j];
    }
    *log_scale = bo_exp_row_f64(2 * dim, -constant, constant, z);
}

static void scaled_backward_f64(const bo_features *f, const double *z, const double *dz, double *dt, double *push)
{
    size_t dim = f->desc.dim;
    for (size_t j = 0; j < dim; j++) dt[j] = dz[j] * z[j] - dz[dim + j] * z[dim + j];
    *push = 0;
}

const bo_function_definition bo_function_exponential = {
    .name = "exponential",
    .kernels = BO_KERNEL_BIT(BO_KERNEL_COSH),
    .exact = true,
    .nonnegative = true,
    .count = bo_count_twice,
    .scaled_f64 = scaled_f64,
    .scaled_backward_f64 = scaled_backward_f64,
    BO_FUNCTION_CODE,
};
#endif
