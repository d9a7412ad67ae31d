/* φ_j = elu(t_j) + 1 = t + 1 for t > 0, otherwise e^t (Katharopoulos et al. 2020): no projection, features = dim. */
#ifdef REAL

static void R(forward)(const bo_features *f, size_t rows, const REAL *u, const REAL *t, REAL *z, size_t ldz,
                       void *scratch)
{
    size_t dim = f->desc.dim;
    (void)u, (void)scratch;
    for (size_t r = 0; r < rows; r++)
        for (size_t j = 0; j < dim; j++) {
            REAL value = t[r * dim + j];
            z[r * ldz + j] = value > 0 ? value + 1 : exp(value);
        }
}

static void R(backward)(const bo_features *f, size_t rows, const REAL *u, const REAL *t, const REAL *dz, size_t lddz,
                        REAL *du, REAL *dt, void *scratch)
{
    size_t dim = f->desc.dim;
    (void)u, (void)du, (void)scratch;
    for (size_t r = 0; r < rows; r++)
        for (size_t j = 0; j < dim; j++) {
            REAL value = t[r * dim + j];
            dt[r * dim + j] += dz[r * lddz + j] * (value > 0 ? 1 : exp(value));
        }
}

#else
#include "common.h"

#define BO_TEMPLATE "functions/elu.c"
#include "../both_precisions.h"

/* Computes max(t, 0) + exp(min(t, 0)). There is no u; z is written once. */
static void fast(const bo_features *f, size_t rows, const float *x, size_t ldx, float *z, size_t ldz, float *log_scale)
{
    size_t dim = f->desc.dim;
    (void)log_scale;
    for (size_t r = 0; r < rows; r++) {
        const float *in = x + r * ldx;
        float *out = z + r * ldz;
        for (size_t j = 0; j < dim; j++) {
            float t = f->slope[j] * in[j];
            out[j] = t < 0 ? t : 0;
        }
        f->kernels->exp_shift(dim, out, 0, out);
        for (size_t j = 0; j < dim; j++) {
            float t = f->slope[j] * in[j];
            out[j] += t < 0 ? 0 : t; /* NaN stays NaN */
        }
    }
}

/* φ' = 1 if φ = t + 1 > 1, otherwise φ */
static void fast_backward(const bo_features *f, size_t rows, const float *z, size_t ldz, const float *dz, size_t lddz,
                          float *dt, size_t lddt, float *push)
{
    (void)push;
    for (size_t r = 0; r < rows; r++) {
        const float *value = z + r * ldz, *slope = dz + r * lddz;
        float *out = dt + r * lddt;
        for (size_t j = 0; j < f->desc.dim; j++) {
            float factor = value[j] < 1 ? value[j] : 1;
            out[j] = factor * slope[j];
        }
    }
}

const bo_function_definition bo_function_elu = {
    .name = "elu",
    .kernels = BO_KERNEL_BIT(BO_KERNEL_ELU),
    .exact = true,
    .nonnegative = true,
    .count = bo_count_once,
    BO_FUNCTION_CODE,
};
#endif
