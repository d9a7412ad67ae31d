/* φ = [1, t, t_j²/√2, t_i t_j (i < j)]: φ(x)·φ(y) = 1 + s + s²/2 with s = t·t', without error and without repeated
 * products. */
#ifdef REAL

static void R(forward)(const bo_features *f, size_t rows, const REAL *u, const REAL *t, REAL *z, size_t ldz,
                       void *scratch)
{
    size_t dim = f->desc.dim;
    (void)u, (void)scratch;
    for (size_t r = 0; r < rows; r++) {
        const REAL *row = t + r * dim;
        REAL *out = z + r * ldz;
        out[0] = 1;
        memcpy(out + 1, row, dim * sizeof *out);
        R(bo_products)(f, dim, row, row, half_square, out + 1 + dim);
    }
}

static void R(backward)(const bo_features *f, size_t rows, const REAL *u, const REAL *t, const REAL *dz, size_t lddz,
                        REAL *du, REAL *dt, void *scratch)
{
    size_t dim = f->desc.dim;
    (void)u, (void)du, (void)scratch;
    for (size_t r = 0; r < rows; r++) {
        const REAL *row = t + r * dim, *in = dz + r * lddz + 1;
        REAL *grad = dt + r * dim;
        for (size_t j = 0; j < dim; j++) grad[j] += in[j];
        R(bo_products_back)(f, dim, row, row, half_square, in + dim, grad, grad);
    }
}

#else
#include <string.h>
#include "common.h"
#include "products.h"

/* s²/2 = Σ_i (t_i t'_i)²/2 + Σ_{i<j} t_i t_j t'_i t'_j */
static const bo_factors half_square = {0.70710678118654752440, 0.70710678118654752440, 1};

#define BO_TEMPLATE "functions/taylor.c"
#include "../both_precisions.h"

static bo_status count(bo_context *context, const bo_features_desc *desc, size_t *features)
{
    size_t dim = desc->dim;
    if (dim > BO_EXACT_MAX_SIZE)
        return bo_fail(context, BO_INVALID, "function taylor supports dim up to %d, found %zu; use positive",
                       (int)BO_EXACT_MAX_SIZE, dim);
    *features = 1 + dim + dim * (dim + 1) / 2;
    return BO_OK;
}

const bo_function_definition bo_function_taylor = {
    .name = "taylor",
    .kernels = BO_KERNEL_BIT(BO_KERNEL_TAYLOR),
    .exact = true,
    .count = count,
    .forward_f32 = forward_f32,
    .forward_f64 = forward_f64,
    .backward_f32 = backward_f32,
    .backward_f64 = backward_f64,
};
#endif
