/* φ = softmax([t, -t]) (Zhang et al. 2024, arXiv 2402.04347), after a learned projection if the caller has one.
 * features = 2 dim; they are finite for every t, and their sum is 1. */
#ifdef REAL

/* z = softmax([t, -t]); the largest exponent is max |t| */
static void R(softmax)(size_t dim, const REAL *t, REAL *z)
{
    REAL top = 0, sum = 0;
    for (size_t j = 0; j < dim; j++) top = fmax(top, fabs(t[j]));
    for (size_t j = 0; j < dim; j++) {
        z[j] = exp(t[j] - top);
        z[dim + j] = exp(-t[j] - top);
        sum += z[j] + z[dim + j];
    }
    for (size_t i = 0; i < 2 * dim; i++) z[i] /= sum;
}

static void R(forward)(const bo_features *f, size_t rows, const REAL *u, const REAL *t, REAL *z, size_t ldz,
                       void *scratch)
{
    (void)u, (void)scratch;
    for (size_t r = 0; r < rows; r++) R(softmax)(f->desc.dim, t + r * f->desc.dim, z + r * ldz);
}

/* dt = z₁ (dz₁ - s) - z₂ (dz₂ - s), s = Σ dz z */
static void R(backward)(const bo_features *f, size_t rows, const REAL *u, const REAL *t, const REAL *dz, size_t lddz,
                        REAL *du, REAL *dt, void *scratch)
{
    size_t dim = f->desc.dim;
    REAL *z = scratch;
    (void)u, (void)du;
    for (size_t r = 0; r < rows; r++) {
        const REAL *slope = dz + r * lddz;
        REAL sum = 0;
        R(softmax)(dim, t + r * dim, z);
        for (size_t i = 0; i < 2 * dim; i++) sum += slope[i] * z[i];
        for (size_t j = 0; j < dim; j++)
            dt[r * dim + j] += z[j] * (slope[j] - sum) - z[dim + j] * (slope[dim + j] - sum);
    }
}

#else
#include "common.h"

#define BO_TEMPLATE "functions/hedgehog.c"
#include "../both_precisions.h"

static size_t scratch(const bo_features *f)
{
    return f->desc.features * sizeof(double);
}

static void fast(const bo_features *f, size_t rows, const float *x, size_t ldx, float *z, size_t ldz, float *log_scale)
{
    size_t width = f->desc.features;
    (void)log_scale;
    for (size_t r = 0; r < rows; r++) {
        float *row = z + r * ldz;
        float top = bo_both_signs(f, x + r * ldx, row), sum = f->kernels->exp_sum(width, row, -top, row);
        f->kernels->scale(width, 1 / sum, row, row);
    }
}

static void fast_backward(const bo_features *f, size_t rows, const float *z, size_t ldz, const float *dz, size_t lddz,
                          float *dt, size_t lddt, float *push)
{
    size_t dim = f->desc.dim;
    (void)push;
    for (size_t r = 0; r < rows; r++) {
        const float *value = z + r * ldz, *slope = dz + r * lddz;
        float *out = dt + r * lddt, sum = f->kernels->dot_f32(2 * dim, value, slope);
        for (size_t j = 0; j < dim; j++) out[j] = value[j] * (slope[j] - sum) - value[dim + j] * (slope[dim + j] - sum);
    }
}

const bo_function_definition bo_function_hedgehog = {
    .name = "hedgehog",
    .kernels = BO_KERNEL_BIT(BO_KERNEL_HEDGEHOG),
    .exact = true,
    .nonnegative = true,
    .count = bo_count_twice,
    .scratch = scratch,
    BO_FUNCTION_CODE,
};
#endif
