/* Helpers that several functions share. */
#ifndef BO_FEATURES_FUNCTIONS_COMMON_H
#define BO_FEATURES_FUNCTIONS_COMMON_H

#include <math.h>
#include "../enums.h"
#include "../../math/plain.h"
#include "../internal.h"

/* Returns |t|²/2 of a scaled row; the last variant takes a raw row. */
static inline double bo_half_norm_f32(const float *t, size_t dim)
{
    double sum = 0;
    for (size_t j = 0; j < dim; j++) sum += (double)t[j] * (double)t[j];
    return 0.5 * sum;
}

static inline double bo_half_norm_f64(const double *t, size_t dim)
{
    double sum = 0;
    for (size_t j = 0; j < dim; j++) sum += t[j] * t[j];
    return 0.5 * sum;
}

static inline double bo_half_norm_raw(const bo_features *features, const float *x)
{
    const double *factor = features->factor;
    size_t dim = features->desc.dim, j = 0;
    double scale = features->input_scale, sum[4] = {0};
    if (!features->length_scales) return 0.5 * scale * scale * features->kernels->dot(dim, x, x);
    for (; j + 4 <= dim; j += 4)
        for (size_t k = 0; k < 4; k++) sum[k] += (double)x[j + k] * factor[j + k] * ((double)x[j + k] * factor[j + k]);
    for (; j < dim; j++) sum[0] += (double)x[j] * factor[j] * ((double)x[j] * factor[j]);
    return 0.5 * (sum[0] + sum[1] + (sum[2] + sum[3]));
}

static inline double bo_weight(const bo_features *features, size_t i)
{
    return features->weights ? (double)features->weights[i] : 1;
}

/* Multiplies the features of each frequency by its weight; only resampled frequencies have weights here. */
static inline void bo_apply_weights(const bo_features *features, float *z)
{
    for (size_t i = 0; features->weights && i < features->frequencies; i++) z[i] *= features->weights[i];
}

/* Computes t of a raw row. */
static inline void bo_scale_row(const bo_features *features, const float *x, float *t)
{
    size_t dim = features->desc.dim;
    if (!features->length_scales)
        features->kernels->scale(dim, features->slope[0], x, t);
    else
        for (size_t j = 0; j < dim; j++) t[j] = features->slope[j] * x[j];
}

/* Computes out = [t, -t] of a raw row. Returns max |t|. */
static inline float bo_both_signs(const bo_features *features, const float *x, float *out)
{
    size_t dim = features->desc.dim;
    bo_scale_row(features, x, out);
    features->kernels->scale(dim, -1, out, out + dim);
    return features->kernels->max(2 * dim, out);
}

/* Counts features of maps that treat each column separately: `per` features per column. */
static inline bo_status bo_count_columns(bo_context *context, const bo_features_desc *desc, size_t per,
                                         size_t *features)
{
    if (desc->dim > BO_EXACT_MAX_SIZE)
        return bo_fail(context, BO_INVALID, "function %s supports dim up to %d, found %zu",
                       bo_function_name(desc->function), (int)BO_EXACT_MAX_SIZE, desc->dim);
    *features = per * desc->dim;
    return BO_OK;
}

static inline bo_status bo_count_once(bo_context *context, const bo_features_desc *desc, size_t *features)
{
    return bo_count_columns(context, desc, 1, features);
}

static inline bo_status bo_count_twice(bo_context *context, const bo_features_desc *desc, size_t *features)
{
    return bo_count_columns(context, desc, 2, features);
}

/* The function pointers of a definition whose functions have the default names. */
#define BO_FUNCTION_CODE                                                                                               \
    .fast = fast, .fast_backward = fast_backward, .forward_f32 = forward_f32, .forward_f64 = forward_f64,              \
    .backward_f32 = backward_f32, .backward_f64 = backward_f64

/* Returns the number to add to v, where φ = exp(v + common + constant) and `top` is the largest v of a row. With a log
 * scale the features are at most exp(constant): the log scale receives top + common, and the rounding error of that in
 * float (|t|²/2 may be 1e6) stays in the features. */
static inline float bo_row_shift(double common, double constant, float top, float *log_scale)
{
    if (!log_scale) return (float)(common + constant);
    *log_scale = (float)((double)top + common);
    return (float)(common - (double)*log_scale + constant);
}

/* Computes out = a ∘ b and returns the sum, in an order that depends only on n. out overlaps neither input. */
static inline float bo_product(size_t n, const float *restrict a, const float *restrict b, float *restrict out)
{
    enum { LANES = 16 };
    float part[LANES] = {0}, sum = 0;
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (size_t k = 0; k < LANES; k++) {
            out[i + k] = a[i + k] * b[i + k];
            part[k] += out[i + k];
        }
    for (; i < n; i++) {
        out[i] = a[i] * b[i];
        sum += out[i];
    }
    for (size_t k = 0; k < LANES; k++) sum += part[k];
    return sum;
}

/* The same in double for a row z of `n` numbers v, which become the features. */
static inline double bo_exp_row_f64(size_t n, double common, double constant, double *z)
{
    double top = -INFINITY;
    for (size_t i = 0; i < n; i++) top = fmax(top, z[i]);
    for (size_t i = 0; i < n; i++) z[i] = exp(z[i] - top + constant);
    return top + common;
}

static inline double bo_offset(const bo_features *features, size_t i)
{
    return features->offset ? features->offset[i] : 0;
}

/* The exponential functions, defined in positive.c. */
void bo_exponential_fast(const bo_features *features, size_t rows, const float *x, size_t ldx, float *z, size_t ldz,
                         float *log_scale);
void bo_exponential_fast_backward(const bo_features *features, size_t rows, const float *z, size_t ldz, const float *dz,
                                  size_t lddz, float *du, size_t lddu, float *push);
void bo_exponential_forward_f32(const bo_features *features, size_t rows, const float *u, const float *t, float *z,
                                size_t ldz, void *scratch);
void bo_exponential_forward_f64(const bo_features *features, size_t rows, const double *u, const double *t, double *z,
                                size_t ldz, void *scratch);
void bo_exponential_backward_f32(const bo_features *features, size_t rows, const float *u, const float *t,
                                 const float *dz, size_t lddz, float *du, float *dt, void *scratch);
void bo_exponential_backward_f64(const bo_features *features, size_t rows, const double *u, const double *t,
                                 const double *dz, size_t lddz, double *du, double *dt, void *scratch);
void bo_exponential_scaled_f64(const bo_features *features, const double *u, const double *t, double *z,
                               double *log_scale);
void bo_exponential_scaled_backward_f64(const bo_features *features, const double *z, const double *dz, double *du,
                                        double *push);
double bo_exponential_log_product(const bo_features *features, size_t i, int product_index, double u, double half_norm);

#endif
