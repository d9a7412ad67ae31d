/* φ = t: γ x·y without error, features = dim. Gives linear attention on unchanged queries and keys. */
#ifdef REAL

static void R(forward)(const bo_features *f, size_t rows, const REAL *u, const REAL *t, REAL *z, size_t ldz,
                       void *scratch)
{
    size_t dim = f->desc.dim;
    (void)u, (void)scratch;
    for (size_t r = 0; r < rows; r++) memcpy(z + r * ldz, t + r * dim, dim * sizeof *z);
}

static void R(backward)(const bo_features *f, size_t rows, const REAL *u, const REAL *t, const REAL *dz, size_t lddz,
                        REAL *du, REAL *dt, void *scratch)
{
    size_t dim = f->desc.dim;
    (void)u, (void)t, (void)du, (void)scratch;
    for (size_t r = 0; r < rows; r++)
        for (size_t j = 0; j < dim; j++) dt[r * dim + j] += dz[r * lddz + j];
}

#else
#include <string.h>
#include "common.h"

#define BO_TEMPLATE "functions/identity.c"
#include "../both_precisions.h"

static void fast(const bo_features *f, size_t rows, const float *x, size_t ldx, float *z, size_t ldz, float *log_scale)
{
    (void)log_scale;
    for (size_t r = 0; r < rows; r++) bo_scale_row(f, x + r * ldx, z + r * ldz);
}

static void fast_backward(const bo_features *f, size_t rows, const float *z, size_t ldz, const float *dz, size_t lddz,
                          float *dt, size_t lddt, float *push)
{
    (void)z, (void)ldz, (void)push;
    for (size_t r = 0; r < rows; r++) memcpy(dt + r * lddt, dz + r * lddz, f->desc.dim * sizeof *dt);
}

const bo_function_definition bo_function_identity = {
    .name = "identity",
    .kernels = BO_KERNEL_BIT(BO_KERNEL_LINEAR),
    .exact = true,
    .count = bo_count_once,
    BO_FUNCTION_CODE,
};
#endif
