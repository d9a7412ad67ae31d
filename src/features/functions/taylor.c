/* φ = [1, t, t_j²/√2, t_i t_j (i < j)]: φ(x)·φ(y) = 1 + s + s²/2 with s = t·t', exactly, without repeats. */
#ifdef REAL

static void R(forward)(const bo_features *f, size_t rows, const REAL *u, const REAL *t, REAL *z, size_t ldz,
                       void *scratch)
{
    size_t dim = f->desc.dim;
    const REAL half = (REAL)0.70710678118654752440;
    (void)u, (void)scratch;
    for (size_t r = 0; r < rows; r++) {
        const REAL *row = t + r * dim;
        REAL *out = z + r * ldz;
        *out++ = 1;
        for (size_t j = 0; j < dim; j++) *out++ = row[j];
        for (size_t i = 0; i < dim; i++) {
            *out++ = half * row[i] * row[i];
            for (size_t j = i + 1; j < dim; j++) *out++ = row[i] * row[j];
        }
    }
}

static void R(backward)(const bo_features *f, size_t rows, const REAL *u, const REAL *t, const REAL *dz, size_t lddz,
                        REAL *du, REAL *dt, void *scratch)
{
    size_t dim = f->desc.dim;
    const REAL twice = (REAL)1.41421356237309504880;
    (void)u, (void)du, (void)scratch;
    for (size_t r = 0; r < rows; r++) {
        const REAL *row = t + r * dim, *in = dz + r * lddz + 1;
        REAL *grad = dt + r * dim;
        for (size_t j = 0; j < dim; j++) grad[j] += *in++;
        for (size_t i = 0; i < dim; i++) {
            grad[i] += twice * row[i] * *in++;
            for (size_t j = i + 1; j < dim; j++, in++) {
                grad[i] += row[j] * *in;
                grad[j] += row[i] * *in;
            }
        }
    }
}

#else
#include <string.h>
#include "common.h"

#define BO_TEMPLATE "functions/taylor.c"
#include "../twice.h"

/* t stands among the features. Row i of the products: Σ_j dz_ij t_j for t_i, dz_ij t_i for t_j. */
static void fast_backward(const bo_features *f, size_t rows, const float *z, size_t ldz, const float *dz, size_t lddz,
                          float *dt, size_t lddt, float *push)
{
    size_t dim = f->desc.dim;
    const float twice = 1.41421356237309504880f;
    (void)push;
    for (size_t r = 0; r < rows; r++) {
        const float *t = z + r * ldz + 1, *in = dz + r * lddz + 1;
        float *out = dt + r * lddt;
        memcpy(out, in, dim * sizeof *out);
        in += dim;
        for (size_t i = 0; i < dim; in += dim - i, i++) {
            out[i] += twice * t[i] * in[0] + f->kernels->dot_f32(dim - i - 1, t + i + 1, in + 1);
            f->kernels->axpy(dim - i - 1, t[i], in + 1, out + i + 1);
        }
    }
}

static bo_status count(bo_context *context, const bo_features_desc *desc, size_t *features)
{
    size_t dim = desc->dim;
    if (dim > BO_EXACT_MOST)
        return bo_fail(context, BO_INVALID, "function taylor has at most dim %d, found %zu; use positive",
                       (int)BO_EXACT_MOST, dim);
    *features = 1 + dim + dim * (dim + 1) / 2;
    return BO_OK;
}

const bo_function_definition bo_function_taylor = {
    .name = "taylor",
    .kernels = BO_KERNEL_BIT(BO_KERNEL_TAYLOR),
    .exact = true,
    .count = count,
    .fast_backward = fast_backward,
    .forward_f32 = forward_f32,
    .forward_f64 = forward_f64,
    .backward_f32 = backward_f32,
    .backward_f64 = backward_f64,
};
#endif
