/* φ in double by the formulas of features.h: φ(x) = exp(c) z with one c per row, so that exponential maps stay in the
 * range of double for |x| = 30. Maps of moderate size come from the float64 reference of the features module, which has
 * separate tests. */
#ifndef BO_TEST_ATTENTION_ORACLE_FEATURES_H
#define BO_TEST_ATTENTION_ORACLE_FEATURES_H

#include "testing.h"
#include <bochner/attention.h>
#include "features/block.h"
#include "features/facts.h"

static inline double *oracle_zeros(size_t count)
{
    double *array = calloc(count ? count : 1, sizeof *array);
    assert_non_null(array);
    return array;
}

static inline double oracle_dot(size_t n, const double *a, const double *b)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

/* ---- perturbation ------------------------------------------------------------------------------------------------ */

/* Estimates how well a result is determined in float32. The reference is evaluated twice, the second time with every
 * feature, score and weight changed by a random relative amount: `size` times the effect of rounding on its argument.
 * The change of the result is the tolerance. */
typedef struct oracle_noise {
    double size; /* 0: no perturbation */
    uint64_t state;
} oracle_noise;

/* Uniform noise with standard deviation `size` times `amount`. Uses xorshift64 (Marsaglia 2003) for speed. */
static inline double oracle_shake(oracle_noise *noise, double amount)
{
    if (noise->size == 0) return 0;
    noise->state ^= noise->state << 13, noise->state ^= noise->state >> 7, noise->state ^= noise->state << 17;
    return noise->size * amount * 1.7320508 * ((double)(noise->state >> 11) * 0x1p-52 - 1);
}

/* Rounding relative to the size of a row, as caused by sketches and other sums over a whole row. Exact zeros stay 0. */
static inline void oracle_shake_rows(oracle_noise *noise, size_t rows, size_t width, double *x)
{
    for (size_t r = 0; noise->size > 0 && r < rows; r++) {
        double size = sqrt(oracle_dot(width, x + r * width, x + r * width) / (double)width);
        for (size_t f = 0; f < width; f++)
            if (x[r * width + f] != 0) x[r * width + f] += oracle_shake(noise, size);
    }
}

/* ---- feature map ------------------------------------------------------------------------------------------------- */

typedef struct oracle_map {
    bo_context *context;
    const bo_features *features;
    const bo_features_desc *desc;
    size_t dim, count, m; /* dimension of x; length of φ; number of frequencies */
    double *w;            /* m x dim, including gamma; NULL unless the map is one of the softmax kernel */
    double *log_weight;   /* m: logarithms of the importance weights */
    double a, b, log_d;   /* parameters of OPRF; otherwise 0, 1, 0 */
} oracle_map;

static inline double oracle_length(const oracle_map *map, size_t j)
{
    return map->desc->length_scales ? (double)map->desc->length_scales[j] : 1;
}

/* |√γ x|²/2 */
static inline double oracle_half_norm(const oracle_map *map, const double *x)
{
    double sum = 0;
    for (size_t j = 0; j < map->dim; j++) sum += pow(x[j] / oracle_length(map, j), 2);
    return map->desc->gamma * sum / 2;
}

/* w_i·x, and Σ |w_ij x_j|, which bounds its rounding error. */
static inline double oracle_project(const oracle_map *map, size_t i, const double *x, double *magnitude)
{
    double u = 0;
    for (size_t j = 0; j < map->dim; j++) {
        double term = map->w[i * map->dim + j] * x[j] / oracle_length(map, j);
        u += term;
        *magnitude += fabs(term);
    }
    return u;
}

/* The importance weights as float32 represents them. For exponential maps they are recovered from the float64 map: the
 * factor beside exp(u - |x|²/2) at x = a w, where with a - a²/2 = 1/4 neither factor is out of range. */
static inline double oracle_log_weight(const oracle_map *map, size_t i)
{
    const float *weights = bo_features_importance(map->features);
    if (!weights) return 0;
    if (weights[i] > 1e-37F && weights[i] < 1e37F) return log((double)weights[i]);
    double *x = oracle_zeros(map->dim), *phi = oracle_zeros(map->count), magnitude = 0;
    for (size_t j = 0; j < map->dim; j++)
        x[j] = 0.293 * map->w[i * map->dim + j] / map->desc->gamma * oracle_length(map, j);
    assert_ok(map->context, bo_features_apply_f64(map->context, map->features, 1, x, map->dim, phi, map->count));
    double u = oracle_project(map, i, x, &magnitude);
    double log_weight = log(phi[i]) + 0.5 * log((double)map->m) - u + oracle_half_norm(map, x);
    assert_true(isfinite(log_weight));
    free(x);
    free(phi);
    return log_weight;
}

static inline oracle_map oracle_map_make(bo_context *context, const bo_features *features)
{
    const bo_features_desc *desc = bo_features_describe(features);
    oracle_map map = {.context = context,
                      .features = features,
                      .desc = desc,
                      .dim = desc->dim,
                      .count = desc->features,
                      .m = bo_features_frequencies(features),
                      .b = 1};
    if (desc->kernel != BO_KERNEL_SOFTMAX) return map;
    float *w = malloc(map.m * map.dim * sizeof *w);
    assert_ok(context, bo_features_get_frequencies(context, features, w));
    map.w = oracle_zeros(map.m * map.dim);
    for (size_t i = 0; i < map.m * map.dim; i++) map.w[i] = (double)w[i];
    free(w);
    map.log_weight = oracle_zeros(map.m);
    for (size_t i = 0; i < map.m; i++) map.log_weight[i] = oracle_log_weight(&map, i);
    if (desc->function == BO_FUNCTION_OPRF) { /* Likhosherstov et al. 2022: the A of minimum variance for |x + y|² */
        double d = (double)map.dim, z2 = desc->pair_norm;
        double rho = (sqrt((2 * z2 + d) * (2 * z2 + d) + 8 * d * z2) - 2 * z2 - d) / (4 * z2);
        map.a = (1 - 1 / rho) / 8;
        map.b = sqrt(1 - 4 * map.a);
        map.log_d = d / 4 * log(1 - 4 * map.a);
    }
    return map;
}

static inline void oracle_map_drop(oracle_map *map)
{
    free(map->w);
    free(map->log_weight);
    map->w = map->log_weight = NULL;
}

/* log φ of each feature of an exponential map. Returns its uncertainty in units of rounding, which is that of the
 * projections; |x|²/2 is the same for a whole row and is kept in double. */
static inline double oracle_log_features(const oracle_map *map, const double *x, double *log_phi)
{
    bool both = map->desc->function == BO_FUNCTION_HYPERBOLIC;
    double half = oracle_half_norm(map, x), max_magnitude = 0;
    double shift = map->log_d - half - 0.5 * log((double)(both ? 2 * map->m : map->m));
    for (size_t i = 0; i < map->m; i++) {
        const double *w = map->w + i * map->dim;
        double magnitude = 0, u = map->b * oracle_project(map, i, x, &magnitude);
        double constant = shift + map->a * oracle_dot(map->dim, w, w) / map->desc->gamma + map->log_weight[i];
        log_phi[i] = u + constant;
        if (both) log_phi[map->m + i] = -u + constant;
        max_magnitude = fmax(max_magnitude, magnitude);
    }
    return max_magnitude;
}

static inline void oracle_exponential(const oracle_map *map, const double *x, double *c, double *z, oracle_noise *noise)
{
    double uncertain = 1 + oracle_log_features(map, x, z);
    *c = -INFINITY;
    for (size_t f = 0; f < map->count; f++) *c = fmax(*c, z[f]);
    for (size_t f = 0; f < map->count; f++) z[f] = exp(z[f] - *c) * (1 + oracle_shake(noise, uncertain));
}

static inline void oracle_circular(const oracle_map *map, const double *x, double *c, double *z, oracle_noise *noise)
{
    *c = oracle_half_norm(map, x);
    double scale = 1 + oracle_shake(noise, 1);
    for (size_t i = 0; i < map->m; i++) {
        double magnitude = 0, u = oracle_project(map, i, x, &magnitude);
        u += oracle_shake(noise, 1 + magnitude);
        z[i] = scale * exp(map->log_weight[i]) * cos(u) / sqrt((double)map->m);
        z[map->m + i] = scale * exp(map->log_weight[i]) * sin(u) / sqrt((double)map->m);
    }
}

/* u = √γ x and -u, whose exponentials COSH and HEDGEHOG use. */
static inline double oracle_both_signs(const oracle_map *map, const double *x, double *u)
{
    double largest = 0;
    for (size_t j = 0; j < map->dim; j++) {
        u[j] = sqrt(map->desc->gamma) * x[j] / oracle_length(map, j);
        u[map->dim + j] = -u[j];
        largest = fmax(largest, fabs(u[j]));
    }
    return largest;
}

/* exp(±u) relative to the largest one; HEDGEHOG divides by their sum. */
static inline void oracle_signed_exponentials(const oracle_map *map, const double *x, double *c, double *z,
                                              oracle_noise *noise)
{
    double largest = oracle_both_signs(map, x, z), sum = 0;
    *c = largest;
    for (size_t f = 0; f < map->count; f++) {
        z[f] = exp(z[f] - largest) * (1 + oracle_shake(noise, 1 + fmin(largest, 100)));
        sum += z[f];
    }
    if (map->desc->kernel == BO_KERNEL_COSH) return;
    *c = 0;
    for (size_t f = 0; f < map->count; f++) z[f] /= sum;
}

static inline bool oracle_has_both_signs(const oracle_map *map)
{
    return map->desc->kernel == BO_KERNEL_COSH || map->desc->kernel == BO_KERNEL_HEDGEHOG;
}

/* A map with features of moderate size, evaluated by the features module in float64 (a callback in float32). */
static inline void oracle_moderate(const oracle_map *map, size_t rows, const double *x, double *z, oracle_noise *noise)
{
    size_t count = rows * map->count;
    if (map->desc->kernel == BO_KERNEL_CUSTOM) {
        float *narrow = calloc(rows * map->dim + 1, sizeof *narrow), *out = calloc(count + 1, sizeof *out);
        for (size_t i = 0; i < rows * map->dim; i++) narrow[i] = (float)x[i];
        assert_ok(map->context,
                  bo_features_apply(map->context, map->features,
                                    &(bo_inputs){.rows = rows, .x = narrow, .stride = map->dim}, out, map->count));
        for (size_t i = 0; i < count; i++) z[i] = (double)out[i];
        free(narrow);
        free(out);
    } else if (rows) {
        assert_ok(map->context, bo_features_apply_f64(map->context, map->features, rows, x, map->dim, z, map->count));
    }
    oracle_shake_rows(noise, rows, map->count, z);
}

/* φ(x_r) = exp(c_r) z_r. */
static inline void oracle_phi(const oracle_map *map, size_t rows, const double *x, double *c, double *z,
                              oracle_noise *noise)
{
    void (*row)(const oracle_map *, const double *, double *, double *, oracle_noise *) = NULL;
    if (oracle_has_both_signs(map)) row = oracle_signed_exponentials;
    if (map->desc->kernel == BO_KERNEL_SOFTMAX)
        row = map->desc->function == BO_FUNCTION_SINCOS ? oracle_circular : oracle_exponential;
    for (size_t r = 0; r < rows; r++) c[r] = 0;
    if (!row) oracle_moderate(map, rows, x, z, noise);
    for (size_t r = 0; row && r < rows; r++) row(map, x + r * map->dim, c + r, z + r * map->count, noise);
}

/* dx from dz = exp(c) dL/dφ, through u (`du`) and through |√γ x|²/2 (`dhalf`). */
static inline void oracle_softmax_backward(const oracle_map *map, const double *x, const double *z, const double *dz,
                                           double *dx)
{
    double dhalf = 0;
    for (size_t j = 0; j < map->dim; j++) dx[j] = 0;
    for (size_t i = 0; i < map->m; i++) {
        double first = dz[i] * z[i], second = 0, du = map->b * first;
        if (map->desc->function == BO_FUNCTION_HYPERBOLIC) {
            second = dz[map->m + i] * z[map->m + i];
            du = first - second;
        }
        if (map->desc->function == BO_FUNCTION_SINCOS) {
            second = dz[map->m + i] * z[map->m + i];
            du = dz[map->m + i] * z[i] - dz[i] * z[map->m + i];
        }
        dhalf += map->desc->function == BO_FUNCTION_SINCOS ? first + second : -first - second;
        for (size_t j = 0; j < map->dim; j++) dx[j] += du * map->w[i * map->dim + j] / oracle_length(map, j);
    }
    for (size_t j = 0; j < map->dim; j++)
        dx[j] += dhalf * map->desc->gamma * x[j] / (oracle_length(map, j) * oracle_length(map, j));
}

/* d exp(±u) = ±exp(±u) du; for a softmax the mean is subtracted. */
static inline void oracle_both_signs_backward(const oracle_map *map, const double *z, const double *dz, double *dx)
{
    double all = map->desc->kernel == BO_KERNEL_HEDGEHOG ? oracle_dot(map->count, z, dz) : 0;
    for (size_t j = 0; j < map->dim; j++) {
        size_t k = map->dim + j;
        double du = z[j] * (dz[j] - all) - z[k] * (dz[k] - all);
        dx[j] = sqrt(map->desc->gamma) * du / oracle_length(map, j);
    }
}

static inline void oracle_custom_backward(const oracle_map *map, size_t rows, const double *x, const double *dz,
                                          double *dx)
{
    size_t in = rows * map->dim, out = rows * map->count;
    float *x32 = malloc(in * sizeof *x32), *dx32 = malloc(in * sizeof *dx32), *dz32 = malloc(out * sizeof *dz32);
    for (size_t i = 0; i < in; i++) x32[i] = (float)x[i];
    for (size_t i = 0; i < out; i++) dz32[i] = (float)dz[i];
    assert_ok(map->context, bo_features_backward(map->context, map->features, &(bo_inputs){.rows = rows, .x = x32},
                                                 dz32, map->count, dx32, map->dim, NULL, NULL));
    for (size_t i = 0; i < in; i++) dx[i] = (double)dx32[i];
    free(x32);
    free(dx32);
    free(dz32);
}

static inline void oracle_phi_backward(const oracle_map *map, size_t rows, const double *x, const double *z,
                                       const double *dz, double *dx)
{
    if (map->desc->kernel == BO_KERNEL_SOFTMAX) {
        for (size_t r = 0; r < rows; r++)
            oracle_softmax_backward(map, x + r * map->dim, z + r * map->count, dz + r * map->count, dx + r * map->dim);
    } else if (oracle_has_both_signs(map)) {
        for (size_t r = 0; r < rows; r++)
            oracle_both_signs_backward(map, z + r * map->count, dz + r * map->count, dx + r * map->dim);
    } else if (map->desc->kernel == BO_KERNEL_CUSTOM) {
        oracle_custom_backward(map, rows, x, dz, dx);
    } else if (rows) {
        assert_ok(map->context, bo_features_backward_f64(map->context, map->features, rows, x, map->dim, dz, map->count,
                                                         dx, map->dim, NULL, NULL));
    }
}

/* The log scales that define the unit of a clamp. The library chooses them, and only the clamp depends on them. */
static inline void oracle_log_scales(const oracle_map *map, size_t rows, const double *x, double *scales)
{
    float *x32 = malloc((rows * map->dim + 1) * sizeof *x32), *z = malloc((map->count + 16) * sizeof *z), scale;
    void *scratch = aligned_alloc(64, bo_features_block_bytes(map->features, 1) + 64);
    for (size_t i = 0; i < rows * map->dim; i++) x32[i] = (float)x[i];
    for (size_t r = 0; r < rows; r++) {
        bo_features_block(map->features, 1, x32 + r * map->dim, map->dim, z, map->count, &scale, scratch);
        scales[r] = (double)scale;
    }
    free(x32);
    free(z);
    free(scratch);
}

#endif
