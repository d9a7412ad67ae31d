/* Optimal positive features (FAVOR++, Likhosherstov et al. 2022): φ = D exp(A|w|² + B u - |t|²/2) / √m with B = √(1 -
 * 4A), D = (1 - 4A)^{d/4}, unbiased for exp(x·y) for every A < 1/8. The A that minimizes the variance at z² = |x + y|²
 * is A = (1 - 1/ρ)/8 with ρ = 2d / (√((2z² + d)² + 8 d z²) + 2z² + d). It is never positive, so the features are
 * bounded. z² is the mean over pairs, `pair_norm`. The code is shared with positive.c, with A|w|² as offset. */
#include "common.h"
#include <math.h>

/* Returns the mean of |t + t'|² over independent rows: 2 mean|t|² + 2 |mean t|². */
static double sample_pair_norm(const bo_features_desc *desc)
{
    double norms = 0, means = 0, n = (double)desc->sample_rows;
    double scale = desc->gamma;
    for (size_t j = 0; j < desc->dim; j++) {
        double sum = 0, squares = 0, length = desc->length_scales ? (double)desc->length_scales[j] : 1;
        for (size_t i = 0; i < desc->sample_rows; i++) {
            double t = (double)desc->sample[i * desc->sample_stride + j] / length;
            sum += t;
            squares += t * t;
        }
        norms += scale * squares / n;
        means += scale * (sum / n) * (sum / n);
    }
    return 2 * norms + 2 * means;
}

static bo_status check(bo_context *context, bo_features_desc *desc)
{
    if (desc->pair_norm < 0 || !isfinite(desc->pair_norm))
        return bo_fail(context, BO_INVALID, "pair_norm must be positive, found %g", desc->pair_norm);
    if (desc->pair_norm == 0 && !desc->sample)
        return bo_fail(
            context, BO_INVALID,
            "function oprf needs pair_norm (the mean of |x + y|² over pairs) or a sample to compute it from");
    if (desc->pair_norm == 0) desc->pair_norm = sample_pair_norm(desc);
    /* the sample is all zeros: a tiny positive number has the same effect, and 0 would mean "not given" when loaded */
    if (desc->pair_norm == 0) desc->pair_norm = 1e-300;
    if (!isfinite(desc->pair_norm))
        return bo_fail(context, BO_NUMERIC,
                       "the mean of |x + y|² over the sample is not finite: the sample contains NaN or infinity");
    return BO_OK;
}

static bo_status derive(bo_context *context, bo_features *f)
{
    double d = (double)f->desc.dim, z2 = f->desc.pair_norm;
    (void)context;
    double rho = 2 * d / (sqrt((2 * z2 + d) * (2 * z2 + d) + 8 * d * z2) + 2 * z2 + d);
    f->oprf_a = (1 - 1 / rho) / 8;
    f->u_scale = sqrt(1 - 4 * f->oprf_a);
    f->log_d = 0.25 * d * log1p(-4 * f->oprf_a);
    return BO_OK;
}

/* E[φφ²] = (1-4A)^d (1-8A)^{-d/2} exp(2(1-4A)|x+y|²/(1-8A) - |x|² - |y|²), minus K² */
static double variance(const bo_features *f, const bo_pair *pair)
{
    double d = (double)f->desc.dim, a = f->oprf_a;
    double log_second = d * log1p(-4 * a) - 0.5 * d * log1p(-8 * a) + 2 * (1 - 4 * a) * pair->plus2 / (1 - 8 * a) -
                        pair->norm_x - pair->norm_y;
    double log_square = 2 * pair->dot; /* K² */
    return exp(log_square) * fmax(0, expm1(log_second - log_square)) / (double)f->frequencies;
}

const bo_function_definition bo_function_oprf = {
    .name = "oprf",
    .kernels = BO_KERNEL_BIT(BO_KERNEL_SOFTMAX),
    .exponential = true,
    .nonnegative = true,
    .per_frequency = 1,
    .check = check,
    .derive = derive,
    .fast = bo_exponential_fast,
    .fast_backward = bo_exponential_fast_backward,
    .forward_f32 = bo_exponential_forward_f32,
    .forward_f64 = bo_exponential_forward_f64,
    .backward_f32 = bo_exponential_backward_f32,
    .backward_f64 = bo_exponential_backward_f64,
    .scaled_f64 = bo_exponential_scaled_f64,
    .scaled_backward_f64 = bo_exponential_scaled_backward_f64,
    .variance = variance,
    .log_product = bo_exponential_log_product,
};
