/* φ = max(t, 0): no projection, features = dim. After a learned projection this is the T2R map of Kasai et al. 2021. */
#ifdef REAL

static void R(forward)(const bo_features *f, size_t rows, const REAL *u, const REAL *t, REAL *z, size_t ldz,
                       void *scratch)
{
    size_t dim = f->desc.dim;
    (void)u, (void)scratch;
    for (size_t r = 0; r < rows; r++)
        for (size_t j = 0; j < dim; j++) z[r * ldz + j] = t[r * dim + j] < 0 ? 0 : t[r * dim + j];
}

static void R(backward)(const bo_features *f, size_t rows, const REAL *u, const REAL *t, const REAL *dz, size_t lddz,
                        REAL *du, REAL *dt, void *scratch)
{
    size_t dim = f->desc.dim;
    (void)u, (void)du, (void)scratch;
    for (size_t r = 0; r < rows; r++)
        for (size_t j = 0; j < dim; j++)
            if (t[r * dim + j] > 0) dt[r * dim + j] += dz[r * lddz + j];
}

#else
#include "common.h"

#define BO_TEMPLATE "functions/rectifier.c"
#include "../both_precisions.h"

static void fast(const bo_features *f, size_t rows, const float *x, size_t ldx, float *z, size_t ldz, float *log_scale)
{
    (void)log_scale;
    for (size_t r = 0; r < rows; r++) {
        bo_scale_row(f, x + r * ldx, z + r * ldz);
        f->kernels->relu(f->desc.dim, 1, z + r * ldz, z + r * ldz);
    }
}

static void fast_backward(const bo_features *f, size_t rows, const float *z, size_t ldz, const float *dz, size_t lddz,
                          float *dt, size_t lddt, float *push)
{
    (void)push;
    for (size_t r = 0; r < rows; r++) {
        const float *value = z + r * ldz, *slope = dz + r * lddz;
        float *out = dt + r * lddt;
        for (size_t j = 0; j < f->desc.dim; j++) {
            float given = slope[j];
            out[j] = value[j] > 0 ? given : 0;
        }
    }
}

const bo_function_definition bo_function_rectifier = {
    .name = "rectifier",
    .kernels = BO_KERNEL_BIT(BO_KERNEL_RECTIFIER),
    .exact = true,
    .nonnegative = true,
    .count = bo_count_once,
    BO_FUNCTION_CODE,
};
#endif
