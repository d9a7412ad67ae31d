/* φ = max(u, 0) / √m: E[relu(w·x) relu(w·y)] is half the arc-cosine kernel of order 1 (Cho and Saul 2009). */
#ifdef REAL

static void R(forward)(const bo_features *f, size_t rows, const REAL *u, const REAL *t, REAL *z, size_t ldz,
                       void *scratch)
{
    size_t m = f->frequencies;
    REAL scale = (REAL)(1 / sqrt((double)m));
    (void)t, (void)scratch;
    for (size_t r = 0; r < rows; r++)
        for (size_t i = 0; i < m; i++) {
            REAL value = u[r * m + i];
            z[r * ldz + i] = value > 0 ? scale * (REAL)bo_weight(f, i) * value : 0;
        }
}

static void R(backward)(const bo_features *f, size_t rows, const REAL *u, const REAL *t, const REAL *dz, size_t lddz,
                        REAL *du, REAL *dt, void *scratch)
{
    size_t m = f->frequencies;
    REAL scale = (REAL)(1 / sqrt((double)m));
    (void)t, (void)dt, (void)scratch;
    for (size_t r = 0; r < rows; r++)
        for (size_t i = 0; i < m; i++)
            du[r * m + i] = u[r * m + i] > 0 ? scale * (REAL)bo_weight(f, i) * dz[r * lddz + i] : 0;
}

#else
#include "common.h"
#include <math.h>

#define BO_TEMPLATE "functions/relu.c"
#include "../both_precisions.h"

static void fast(const bo_features *f, size_t rows, const float *x, size_t ldx, float *z, size_t ldz, float *log_scale)
{
    (void)x, (void)ldx, (void)log_scale;
    for (size_t r = 0; r < rows; r++) {
        f->kernels->relu(f->frequencies, (float)(1 / sqrt((double)f->frequencies)), z + r * ldz, z + r * ldz);
        bo_apply_weights(f, z + r * ldz);
    }
}

/* u > 0 if and only if z > 0, except for values that underflow */
static void fast_backward(const bo_features *f, size_t rows, const float *z, size_t ldz, const float *dz, size_t lddz,
                          float *du, size_t lddu, float *push)
{
    float scale = (float)(1 / sqrt((double)f->frequencies));
    (void)push;
    for (size_t r = 0; r < rows; r++) {
        const float *value = z + r * ldz, *slope = dz + r * lddz;
        float *out = du + r * lddu;
        for (size_t i = 0; i < f->frequencies; i++) {
            float factor = value[i] > 0 ? scale : 0;
            out[i] = factor * slope[i];
        }
        bo_apply_weights(f, out);
    }
}

/* (k₂ - k₁²) / m with k₂ = E[relu² relu²] = |x|²|y|² (3 sin θ cos θ + (π - θ)(1 + 2 cos² θ)) / 2π, half of Cho and
 * Saul's kernel of order 2 */
static double variance(const bo_features *f, const bo_pair *pair)
{
    double norms = pair->norm_x * pair->norm_y;
    if (!(norms > 0)) return 0;
    double c = fmax(-1, fmin(1, pair->dot / sqrt(norms))), theta = acos(c), pi = 3.14159265358979323846;
    double k1 = bo_value_arccos(&f->desc, pair);
    double k2 = norms * (3 * sin(theta) * c + (pi - theta) * (1 + 2 * c * c)) / (2 * pi);
    return fmax(0, k2 - k1 * k1) / (double)f->frequencies;
}

static double log_product(const bo_features *f, size_t i, int product_index, double u, double half_norm)
{
    (void)f, (void)i, (void)product_index, (void)half_norm;
    return u > 0 ? 2 * log(u) : -INFINITY;
}

const bo_function_definition bo_function_relu = {
    .name = "relu",
    .kernels = BO_KERNEL_BIT(BO_KERNEL_ARCCOS),
    .per_frequency = 1,
    .nonnegative = true,
    .fast = fast,
    .fast_backward = fast_backward,
    .forward_f32 = forward_f32,
    .forward_f64 = forward_f64,
    .backward_f32 = backward_f32,
    .backward_f64 = backward_f64,
    .variance = variance,
    .log_product = log_product,
};
#endif
