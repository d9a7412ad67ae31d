/* φ = √(2/m) cos(u + b), b uniform on [0, 2π) (Rahimi and Recht 2007, their second form). One feature per frequency,
 * but the random phase adds variance: sin/cos with half the frequencies is better if k(2D) < 2 k(D)², which always
 * holds for the RBF kernel. */
#ifdef REAL

static void R(forward)(const bo_features *f, size_t rows, const REAL *u, const REAL *t, REAL *z, size_t ldz,
                       void *scratch)
{
    size_t m = f->frequencies;
    REAL scale = (REAL)sqrt(2 / (double)m);
    (void)t, (void)scratch;
    for (size_t r = 0; r < rows; r++)
        for (size_t i = 0; i < m; i++)
            z[r * ldz + i] = scale * (REAL)bo_weight(f, i) * cos(u[r * m + i] + (REAL)f->bias[i]);
}

static void R(backward)(const bo_features *f, size_t rows, const REAL *u, const REAL *t, const REAL *dz, size_t lddz,
                        REAL *du, REAL *dt, void *scratch)
{
    size_t m = f->frequencies;
    REAL scale = (REAL)sqrt(2 / (double)m);
    (void)t, (void)dt, (void)scratch;
    for (size_t r = 0; r < rows; r++)
        for (size_t i = 0; i < m; i++)
            du[r * m + i] = -dz[r * lddz + i] * scale * (REAL)bo_weight(f, i) * sin(u[r * m + i] + (REAL)f->bias[i]);
}

#else
#include "common.h"
#include <math.h>

#define BO_TEMPLATE "functions/cosbias.c"
#include "../both_precisions.h"

static void fast(const bo_features *f, size_t rows, const float *x, size_t ldx, float *z, size_t ldz, float *log_scale)
{
    size_t m = f->frequencies;
    (void)x, (void)ldx, (void)log_scale;
    for (size_t r = 0; r < rows; r++) {
        f->kernels->cos_shift(m, (float)sqrt(2 / (double)m), z + r * ldz, f->bias, z + r * ldz);
        bo_apply_weights(f, z + r * ldz);
    }
}

static bo_status prepare(bo_context *context, bo_features *f)
{
    f->bias = bo_alloc_raw(context, f->frequencies, sizeof *f->bias, "the phases of the features");
    if (!f->bias) return BO_MEMORY;
    bo_rng rng = bo_rng_make(f->desc.seed, bo_rng_stream("features.bias", 0));
    for (size_t i = 0; i < f->frequencies; i++) f->bias[i] = (float)(6.28318530717958647692 * bo_rng_uniform(&rng));
    return BO_OK;
}

/* 2 cos(a + b) cos(c + b) = cos(a - c) + cos(a + c + 2b): the variance of cos(w·D), plus 1/2 for the phase. */
static double variance(const bo_features *f, const bo_pair *pair)
{
    double k = bo_kernel_value(&f->desc, pair), k2 = bo_kernel_value_doubled(&f->desc, pair);
    return fmax(0, (1 + 0.5 * k2 - k * k) / (double)f->frequencies);
}

static double log_product(const bo_features *f, size_t i, int product_index, double u, double half_norm)
{
    double c = cos(u + (double)f->bias[i]);
    (void)product_index, (void)half_norm;
    return log(2 * c * c);
}

const bo_function_definition bo_function_cosbias = {
    .name = "cosbias",
    .kernels = BO_SHIFT_INVARIANT_KERNELS,
    .per_frequency = 1,
    .prepare = prepare,
    .fast = fast,
    .forward_f32 = forward_f32,
    .forward_f64 = forward_f64,
    .backward_f32 = backward_f32,
    .backward_f64 = backward_f64,
    .variance = variance,
    .log_product = log_product,
};
#endif
