/* Reference for kernel machines: simple formulas in double, applied to the features. */
#ifndef BO_TEST_ORACLE_H
#define BO_TEST_ORACLE_H

#include "testing.h"
#include "base/base.h"
#include "base/rng.h"
#include "machines/machine.h"

/* ---- linear algebra ---------------------------------------------------------------------------------------------- */

/* Solves A X = B (n x n, n x m) by Gaussian elimination with partial pivoting; B becomes X, A is destroyed. */
static inline void oracle_solve(size_t n, size_t m, double *a, double *b)
{
    for (size_t k = 0; k < n; k++) {
        size_t pivot = k;
        for (size_t i = k + 1; i < n; i++)
            if (fabs(a[i * n + k]) > fabs(a[pivot * n + k])) pivot = i;
        assert_true(a[pivot * n + k] != 0);
        for (size_t j = 0; pivot != k && j < n; j++) {
            double swap = a[k * n + j];
            a[k * n + j] = a[pivot * n + j], a[pivot * n + j] = swap;
        }
        for (size_t j = 0; pivot != k && j < m; j++) {
            double swap = b[k * m + j];
            b[k * m + j] = b[pivot * m + j], b[pivot * m + j] = swap;
        }
        for (size_t i = k + 1; i < n; i++) {
            double factor = a[i * n + k] / a[k * n + k];
            if (factor == 0) continue;
            for (size_t j = k; j < n; j++) a[i * n + j] -= factor * a[k * n + j];
            for (size_t j = 0; j < m; j++) b[i * m + j] -= factor * b[k * m + j];
        }
    }
    for (size_t k = n; k-- > 0;)
        for (size_t j = 0; j < m; j++) {
            double sum = b[k * m + j];
            for (size_t i = k + 1; i < n; i++) sum -= a[k * n + i] * b[i * m + j];
            b[k * m + j] = sum / a[k * n + k];
        }
}

static inline double *oracle_inverse(size_t n, const double *a)
{
    double *copy = malloc(n * n * sizeof *copy), *inverse = calloc(n * n, sizeof *inverse);
    memcpy(copy, a, n * n * sizeof *copy);
    for (size_t i = 0; i < n; i++) inverse[i * n + i] = 1;
    oracle_solve(n, n, copy, inverse);
    free(copy);
    return inverse;
}

/* ---- data -------------------------------------------------------------------------------------------------------- */

/* A smooth function of the first columns plus noise; targets differ by shift and scale. */
static inline double oracle_truth(const float *x, size_t dim, size_t t)
{
    double second = dim > 1 ? (double)x[1] : 0;
    return (double)(t + 1) * (sin(2 * (double)x[0] + (double)t) + 0.5 * second * second) + 3 * (double)t;
}

static inline bo_samples oracle_regression(size_t rows, size_t dim, size_t targets, double noise, uint64_t seed)
{
    float *x = malloc(rows * dim * sizeof *x);
    double *y = malloc(rows * targets * sizeof *y);
    bo_rng rng = bo_rng_make(seed, bo_rng_stream("test.regression", 0));
    for (size_t i = 0; i < rows * dim; i++) x[i] = (float)bo_rng_normal(&rng);
    for (size_t i = 0; i < rows; i++)
        for (size_t t = 0; t < targets; t++)
            y[i * targets + t] = oracle_truth(x + i * dim, dim, t) + noise * bo_rng_normal(&rng);
    return (bo_samples){.rows = rows, .dim = dim, .targets = targets, .x = x, .y = y};
}

/* Gaussian classes with unit variance; their centers are at `distance` from the origin along different axes (the last
 * one at the origin). Class c has weight c + 1 among the rows. */
static inline bo_samples oracle_classes(size_t rows, size_t dim, size_t classes, double distance, uint64_t seed)
{
    float *x = malloc(rows * dim * sizeof *x);
    double *y = malloc(rows * sizeof *y);
    bo_rng rng = bo_rng_make(seed, bo_rng_stream("test.classes", 0));
    for (size_t i = 0; i < rows; i++) {
        size_t draw = (size_t)bo_rng_below(&rng, classes * (classes + 1) / 2), c = 0;
        while (draw > c) draw -= ++c;
        y[i] = (double)c;
        for (size_t j = 0; j < dim; j++)
            x[i * dim + j] = (float)(bo_rng_normal(&rng) + (j == c && c + 1 < classes ? distance : 0));
    }
    return (bo_samples){.rows = rows, .dim = dim, .targets = 1, .x = x, .y = y, .classes = classes};
}

static inline float *oracle_weights(size_t rows, uint64_t seed) /* integers from 0 to 3 */
{
    float *weights = malloc(rows * sizeof *weights);
    bo_rng rng = bo_rng_make(seed, bo_rng_stream("test.weights", 0));
    for (size_t i = 0; i < rows; i++) weights[i] = (float)bo_rng_below(&rng, 4);
    return weights;
}

static inline void oracle_drop(bo_samples *samples)
{
    free((void *)samples->x);
    free((void *)samples->y);
    free((void *)samples->weights);
    *samples = (bo_samples){0};
}

/* The same rows without row `gone`. */
static inline bo_samples oracle_without(const bo_samples *all, size_t gone)
{
    size_t rows = all->rows - 1, dim = all->dim, targets = all->targets;
    float *x = malloc(rows * dim * sizeof *x), *w = all->weights ? malloc(rows * sizeof *w) : NULL;
    double *y = malloc(rows * targets * sizeof *y);
    for (size_t i = 0; i < rows; i++) {
        size_t from = i + (i >= gone);
        memcpy(x + i * dim, all->x + from * dim, dim * sizeof *x);
        memcpy(y + i * targets, all->y + from * targets, targets * sizeof *y);
        if (w) w[i] = all->weights[from];
    }
    bo_samples out = *all;
    out.rows = rows, out.x = x, out.y = y, out.weights = w;
    return out;
}

/* ---- features of a kernel machine -------------------------------------------------------------------------------- */

/* A feature in the precision int8: the nearest of 255 multiples of the quantum. */
static inline double oracle_round(double z, double quantum)
{
    return quantum > 0 ? fmax(-127, fmin(127, rint(z / quantum))) * quantum : z;
}

/* φ(s(x)) in double, with the map and scaling of the machine; features are tested separately. */
static inline double *oracle_features(bo_context *context, const bo_machine *machine, size_t rows, const float *x)
{
    size_t dim = machine->report.dim, features = machine->report.features;
    float *scaled = malloc(rows * dim * sizeof *scaled), *z = malloc(rows * features * sizeof *z);
    double *wide = malloc(rows * features * sizeof *wide);
    for (size_t i = 0; i < rows * dim; i++)
        scaled[i] = (x[i] - machine->scaler.mean[i % dim]) * machine->scaler.factor[i % dim];
    assert_ok(context, bo_features_apply(context, machine->phi, &(bo_inputs){.rows = rows, .x = scaled, .stride = dim},
                                         z, features));
    for (size_t i = 0; i < rows * features; i++) wide[i] = oracle_round((double)z[i], machine->quantum);
    free(scaled);
    free(z);
    return wide;
}

/* ---- ridge ------------------------------------------------------------------------------------------------------- */

/* Minimizes Σ w_i |β·z_i + b - y_i|² + Σ_j D_j |β_j|² by the normal equations of [z, 1]. beta: (features + 1) x
 * targets, with the intercept in the last row (zero without intercept). w NULL: all 1. */
static inline double *oracle_ridge(size_t rows, size_t features, size_t targets, const double *z, const double *y,
                                   const double *w, const double *penalty, bool intercept)
{
    size_t n = features + (intercept ? 1 : 0);
    double *a = calloc(n * n, sizeof *a), *b = calloc((features + 1) * targets, sizeof *b);
    for (size_t i = 0; i < rows; i++) {
        double weight = w ? w[i] : 1;
        for (size_t j = 0; j < n; j++) {
            double zj = weight * (j < features ? z[i * features + j] : 1);
            for (size_t k = 0; k < n; k++) a[j * n + k] += zj * (k < features ? z[i * features + k] : 1);
            for (size_t t = 0; t < targets; t++) b[j * targets + t] += zj * y[i * targets + t];
        }
    }
    for (size_t j = 0; j < features; j++) a[j * n + j] += penalty[j];
    oracle_solve(n, targets, a, b);
    free(a);
    return b;
}

static inline double oracle_predict(size_t features, size_t targets, const double *z, const double *beta, size_t t)
{
    double sum = beta[features * targets + t];
    for (size_t j = 0; j < features; j++) sum += z[j] * beta[j * targets + t];
    return sum;
}

/* ±1 columns for classes. */
static inline double *oracle_signs(const bo_samples *samples)
{
    double *y = malloc(samples->rows * samples->classes * sizeof *y);
    for (size_t i = 0; i < samples->rows; i++)
        for (size_t c = 0; c < samples->classes; c++) y[i * samples->classes + c] = samples->y[i] == (double)c ? 1 : -1;
    return y;
}

static inline double *oracle_constant(size_t count, double value)
{
    double *out = malloc(count * sizeof *out);
    for (size_t i = 0; i < count; i++) out[i] = value;
    return out;
}

static inline double oracle_deviation(size_t rows, size_t targets, const double *y, size_t t)
{
    double mean = 0, squares = 0;
    for (size_t i = 0; i < rows; i++) mean += y[i * targets + t] / (double)rows;
    for (size_t i = 0; i < rows; i++) squares += pow(y[i * targets + t] - mean, 2) / (double)rows;
    return sqrt(squares);
}

/* Bound of the difference to the reference predictions when the Gram matrix G has rounding errors |δG| <= ε |G|, with ε
 * a few times 2⁻²⁴ for float32 products: δβ = -(G + D)⁻¹ δG β, so |δf| <= |z| |δG| |β| / min D, and the same again for
 * the right-hand side. |G| <= Σ w |z|². */
static inline double oracle_tolerance(size_t rows, size_t features, size_t targets, const double *z, const double *beta,
                                      double min_penalty, double deviation, bool precise)
{
    double gram = 0, largest = 0, norm = 0;
    for (size_t i = 0; i < rows; i++) {
        double squared_norm = 0;
        for (size_t j = 0; j < features; j++) squared_norm += z[i * features + j] * z[i * features + j];
        gram += squared_norm;
        largest = fmax(largest, squared_norm);
    }
    for (size_t t = 0; t < targets; t++) {
        double square = 0;
        for (size_t j = 0; j < features; j++) square += pow(beta[j * targets + t], 2);
        norm = fmax(norm, sqrt(square));
    }
    double unit = precise ? 0x1p-50 : 0x1p-23;
    /* targets are float32 in the system: an error of 2⁻²⁴ each, propagated by the smoother, whose norm is at most 1 */
    return 2 * unit * sqrt(largest) * norm * gram / min_penalty + deviation * (4 * sqrt((double)rows) * 0x1p-24 + unit);
}

/* ---- kernel machines --------------------------------------------------------------------------------------------- */

/* A simple machine: all parameters given, no scaling. */
static inline bo_machine_desc oracle_desc(size_t features, double gamma, double lambda)
{
    return (bo_machine_desc){.scaling = BO_SCALING_NONE,
                             .loss = BO_LOSS_RIDGE,
                             .solver = BO_SOLVER_PRIMAL,
                             .features = {.features = features, .gamma = gamma},
                             .lambda = lambda,
                             .seed = 1};
}

/* An exact kernel, with parameters for every kernel. */
static inline bo_machine_desc oracle_exact(bo_kernel kernel, double lambda)
{
    return (bo_machine_desc){.scaling = BO_SCALING_NONE,
                             .loss = BO_LOSS_RIDGE,
                             .features = {.kernel = kernel,
                                          .function = BO_FUNCTION_SECTIONS,
                                          .gamma = 0.4,
                                          .depth = 2,
                                          .bias_variance = 0.1,
                                          .alpha = 1,
                                          .degree = 2},
                             .lambda = lambda,
                             .seed = 1};
}

static inline bo_machine *oracle_fit(bo_context *context, const bo_machine_desc *desc, const bo_samples *samples)
{
    bo_machine *machine = NULL;
    assert_ok(context, bo_machine_fit(context, desc, samples, &machine));
    assert_non_null(machine);
    return machine;
}

static inline double *oracle_mean(bo_context *context, const bo_machine *machine, size_t rows, const float *x)
{
    double *mean = malloc(rows * machine->report.outputs * sizeof *mean);
    assert_ok(context,
              bo_machine_predict(context, machine, &(bo_inputs){.rows = rows, .x = x}, &(bo_prediction){.mean = mean}));
    return mean;
}

static inline double oracle_rmse(size_t count, const double *a, const double *b)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++) sum += (a[i] - b[i]) * (a[i] - b[i]);
    return sqrt(sum / (double)count);
}

static inline double oracle_farthest(size_t count, const double *a, const double *b)
{
    double largest_value = 0;
    for (size_t i = 0; i < count; i++) {
        double d = fabs(a[i] - b[i]);
        if (!(d <= largest_value)) largest_value = d; /* also true for NaN */
    }
    return largest_value;
}

#endif
