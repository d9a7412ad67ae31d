#include "tangent.h"
#include <bochner/features.h>
#include <math.h>

double lab_examples_error(const lab_examples *e, size_t first, size_t count, const float *predicted)
{
    double error = 0, size = 0;
    for (size_t i = 0; i < count; i++) {
        const double y = (double)e->y[first + i], d = y - (double)predicted[i];
        error += d * d;
        size += y * y;
    }
    return error / size;
}

/* ---- features ---------------------------------------------------------------------------------------------------- */

size_t lab_tangent_features(size_t dim, size_t m)
{
    return m * (1 + dim);
}

/* df/da_j = relu(w_j·x / √dim) / √m, df/dw_j = a_j [w_j·x > 0] x / √(dim m). */
static void map_unit(const lab_examples *e, size_t m, size_t j, double a, const float *w, float *features)
{
    const size_t width = lab_tangent_features(e->dim, m);
    const double root = sqrt((double)e->dim), scale = 1 / sqrt((double)m);
    for (size_t r = 0; r < lab_examples_rows(e); r++) {
        const float *x = e->x + r * e->dim;
        float *row = features + r * width, *derivatives = row + m + j * e->dim;
        double dot = 0;
        for (size_t i = 0; i < e->dim; i++) dot += (double)w[i] * (double)x[i];
        row[j] = (float)(scale * fmax(0, dot) / root);
        for (size_t i = 0; i < e->dim; i++) derivatives[i] = dot > 0 ? (float)(scale * a * (double)x[i] / root) : 0;
    }
}

bo_status lab_tangent_map(bo_context *context, const lab_examples *e, size_t m, bo_rng *rng, float *features)
{
    float *w = bo_alloc(context, e->dim, sizeof *w, "a hidden unit");
    if (!w) return BO_MEMORY;
    for (size_t j = 0; j < m; j++) {
        for (size_t i = 0; i < e->dim; i++) w[i] = (float)bo_rng_normal(rng);
        map_unit(e, m, j, bo_rng_normal(rng), w, features);
    }
    bo_free(w);
    return BO_OK;
}

/* ---- kernels ----------------------------------------------------------------------------------------------------- */

bo_status lab_tangent_kernel(bo_context *context, const lab_examples *e, double *kernel)
{
    const size_t rows = lab_examples_rows(e);
    const bo_features_desc desc = {.kernel = BO_KERNEL_NTK, .dim = e->dim, .weight_variance = 1};
    return bo_kernel_matrix(context, &desc, rows, e->x, e->dim, rows, e->x, e->dim, kernel, rows);
}

bo_status lab_feature_kernel(bo_context *context, size_t rows, size_t features, const float *phi, double *kernel)
{
    float *single = bo_alloc(context, rows * rows, sizeof *single, "a kernel");
    if (!single) return BO_MEMORY;
    const bo_status status = lab_multiply_single(context, false, true, rows, rows, features, 1, phi, features, phi,
                                                 features, 0, single, rows);
    for (size_t i = 0; status == BO_OK && i < rows * rows; i++) kernel[i] = (double)single[i];
    bo_free(single);
    return status;
}

/* ---- gradient flow ----------------------------------------------------------------------------------------------- */

/* The kernel of the training part is Σ λ v vᵀ. After the time t, the coefficients are Σ (1 - e^(-λt)) / λ (v·y) v. */
typedef struct flow {
    const lab_examples *examples;
    const double *kernel;
    double *vectors, *values, *shares; /* rows: eigenvectors; λ; v·y */
    double *coefficients;
    float *predicted; /* for the parts after the training part */
} flow;

static void at_time(const flow *f, double time)
{
    const lab_examples *e = f->examples;
    const size_t n = e->train, rows = lab_examples_rows(e);
    for (size_t i = 0; i < n; i++) f->coefficients[i] = 0;
    for (size_t k = 0; k < n; k++) {
        const double rate = fmax(f->values[k], 0) * time;
        const double weight = (rate > 1e-12 ? -expm1(-rate) / rate : 1) * time * f->shares[k];
        for (size_t i = 0; i < n; i++) f->coefficients[i] += weight * f->vectors[k * n + i];
    }
    for (size_t r = n; r < rows; r++) {
        double sum = 0;
        for (size_t i = 0; i < n; i++) sum += f->kernel[r * rows + i] * f->coefficients[i];
        f->predicted[r - n] = (float)sum;
    }
}

static bo_status solve(bo_context *context, flow *f, double steps, lab_flow_result *out)
{
    enum { TIMES = 40 };
    const lab_examples *e = f->examples;
    const size_t n = e->train, rows = lab_examples_rows(e);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < n; k++) f->vectors[i * n + k] = f->kernel[i * rows + k];
    BO_TRY(lab_eigen(context, n, f->vectors, f->values));
    for (size_t k = 0; k < n; k++) {
        f->shares[k] = 0;
        for (size_t i = 0; i < n; i++) f->shares[k] += f->vectors[k * n + i] * (double)e->y[i];
    }
    *out = (lab_flow_result){INFINITY, INFINITY};
    for (size_t t = 0; t < TIMES; t++) { /* times from 1/λ of the first mode, each two thirds longer, over 8 decades */
        at_time(f, fmin(steps, pow(5.0 / 3, (double)t)) / f->values[n - 1]);
        const double valid = lab_examples_error(e, n, e->valid, f->predicted);
        if (valid >= out->valid) continue;
        *out = (lab_flow_result){valid, lab_examples_error(e, n + e->valid, e->test, f->predicted + e->valid)};
    }
    return BO_OK;
}

bo_status lab_kernel_flow(bo_context *context, const lab_examples *e, const double *kernel, double steps,
                          lab_flow_result *out)
{
    const size_t n = e->train;
    flow f = {.examples = e, .kernel = kernel};
    f.vectors = bo_alloc(context, n * n + 3 * n, sizeof *f.vectors, "gradient flow");
    f.predicted = bo_alloc(context, e->valid + e->test, sizeof *f.predicted, "predictions");
    bo_status status = f.vectors && f.predicted ? BO_OK : BO_MEMORY;
    if (status == BO_OK) {
        f.values = f.vectors + n * n, f.shares = f.values + n, f.coefficients = f.shares + n;
        status = solve(context, &f, steps, out);
    }
    bo_free(f.vectors);
    bo_free(f.predicted);
    return status;
}

/* ---- selected features ------------------------------------------------------------------------------------------- */

/* Directions are columns of features, orthonormal over the training part and extended to the others. */
typedef struct pursuit {
    const lab_examples *examples;
    const float *phi;
    size_t width, count;
    double *directions; /* count x rows */
    double *left;       /* rows: residual of y */
    double *dots, *squares;
} pursuit;

/* Returns the feature with the largest |correlation| with the residual on the training part. */
static size_t best_feature(const pursuit *p)
{
    size_t best = 0;
    for (size_t j = 0; j < p->width; j++) p->dots[j] = p->squares[j] = 0;
    for (size_t i = 0; i < p->examples->train; i++)
        for (size_t j = 0; j < p->width; j++) {
            const double feature = (double)p->phi[i * p->width + j];
            p->dots[j] += feature * p->left[i];
            p->squares[j] += feature * feature;
        }
    for (size_t j = 0; j < p->width; j++)
        if (p->dots[j] * p->dots[j] * p->squares[best] > p->dots[best] * p->dots[best] * p->squares[j]) best = j;
    return best;
}

/* y -= (x·y over the training part) x. */
static void project_out(const lab_examples *e, const double *x, double *y)
{
    double dot = 0;
    for (size_t i = 0; i < e->train; i++) dot += x[i] * y[i];
    for (size_t i = 0; i < lab_examples_rows(e); i++) y[i] -= dot * x[i];
}

/* Returns false if the feature lies in the span of the previous directions. */
static bool add_direction(pursuit *p, size_t feature)
{
    const lab_examples *e = p->examples;
    const size_t rows = lab_examples_rows(e);
    double *x = p->directions + p->count * rows, square = 0;
    for (size_t i = 0; i < rows; i++) x[i] = (double)p->phi[i * p->width + feature];
    for (size_t k = 0; k < p->count; k++) project_out(e, p->directions + k * rows, x);
    for (size_t i = 0; i < e->train; i++) square += x[i] * x[i];
    if (!(square > 1e-8 * p->squares[feature])) return false;
    for (size_t i = 0; i < rows; i++) x[i] /= sqrt(square);
    project_out(e, x, p->left);
    p->count++;
    return true;
}

static double error_left(const pursuit *p, size_t first, size_t count)
{
    double error = 0, size = 0;
    for (size_t i = first; i < first + count; i++) {
        error += p->left[i] * p->left[i];
        size += (double)p->examples->y[i] * (double)p->examples->y[i];
    }
    return error / size;
}

bo_status lab_choose_features(bo_context *context, const lab_examples *e, size_t width, const float *phi,
                              size_t max_features, lab_chosen *out)
{
    const size_t rows = lab_examples_rows(e);
    pursuit p = {.examples = e, .phi = phi, .width = width};
    p.directions = bo_alloc(context, (max_features + 1) * rows + 2 * width, sizeof *p.directions, "chosen features");
    if (!p.directions) return BO_MEMORY;
    p.left = p.directions + max_features * rows, p.dots = p.left + rows, p.squares = p.dots + width;
    for (size_t i = 0; i < rows; i++) p.left[i] = (double)e->y[i];
    *out = (lab_chosen){.valid = INFINITY, .test = INFINITY};
    while (p.count < max_features && add_direction(&p, best_feature(&p))) {
        const double valid = error_left(&p, e->train, e->valid);
        if (valid < out->valid) *out = (lab_chosen){p.count, valid, error_left(&p, e->train + e->valid, e->test)};
    }
    bo_free(p.directions);
    return BO_OK;
}
