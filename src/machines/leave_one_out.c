/* Leave-one-out errors of kernel ridge regression on a sample, and of a few training rows of a full fit. */
#include "../base/base.h"
#include "../features/kernel_block.h"
#include "../features/sparse.h"
#include "../math/linalg.h"
#include "leave_one_out.h"
#include "left_out.h"
#include "ridge.h"
#include "row_map.h"
#include "samples.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* ---- a sample, by its kernel matrix ------------------------------------------------------------------------------ */

/* Exact leave-one-out of kernel ridge regression on a sample, for the choice of γ and λ. The kernel is the closed form
 * or the inner product of the machine's features. With an unpenalized intercept the kernel is centered, Kc = H K H with
 * H = I - 11ᵀ/n, and the smoother is S = 11ᵀ/n + Kc(Kc + λ)⁻¹ = 11ᵀ/n + I - λM with M = (Kc + λ)⁻¹, so
 *
 *     residual r = λ M y,   1 - S_ii = λ M_ii - 1/n,   left-out error r_i / (1 - S_ii).
 *
 * With weights, K and y become √w K √w and √w y, the mean and 1/n are weighted (w_i / Σw), and errors are multiplied by
 * √w. */

bo_status bo_loo_create(bo_context *context, const bo_samples *scaled, const bo_targets *targets, bool intercept,
                        bo_loo *out)
{
    size_t n = scaled->rows, outputs = targets->outputs;
    *out = (bo_loo){.rows = n, .scored = n, .outputs = outputs, .intercept = intercept};
    out->kernel = bo_alloc_raw(context, n * n, sizeof(double), "the sample's kernel matrix");
    out->work = bo_alloc_raw(context, n * n, sizeof(double), "the sample's kernel matrix");
    out->targets = bo_alloc_raw(context, n * outputs, sizeof(double), "the sample's targets");
    out->solution = bo_alloc_raw(context, n * outputs, sizeof(double), "the sample's targets");
    out->root = bo_alloc_raw(context, n, sizeof(double), "the sample's weights");
    out->mean = bo_alloc_raw(context, n, sizeof(double), "kernel means");
    if (!out->kernel || !out->work || !out->targets || !out->solution || !out->root || !out->mean) {
        bo_loo_free(out);
        return BO_MEMORY;
    }
    for (size_t i = 0; i < n; i++) {
        out->root[i] = (double)bo_targets_root_weight(targets, scaled, i);
        out->weight += out->root[i] * out->root[i];
    }
    for (size_t t = 0; t < outputs; t++) {
        double mean = 0;
        for (size_t i = 0; i < n; i++) {
            double y = (double)bo_targets_value(targets, scaled->y + i * scaled->targets, t);
            out->targets[i * outputs + t] = y;
            mean += out->root[i] * out->root[i] * y / out->weight;
        }
        for (size_t i = 0; i < n; i++) {
            if (intercept) out->targets[i * outputs + t] -= mean;
            out->targets[i * outputs + t] *= out->root[i];
        }
    }
    return BO_OK;
}

void bo_loo_free(bo_loo *loo)
{
    bo_free(loo->kernel);
    bo_free(loo->work);
    bo_free(loo->targets);
    bo_free(loo->solution);
    bo_free(loo->root);
    bo_free(loo->mean);
    bo_free(loo->inverse);
    *loo = (bo_loo){0};
}

/* zt (features x rows) = zᵀ. */
static void transpose(size_t rows, size_t features, const float *z, float *zt)
{
    enum { BLOCK = BO_SIZE(32, 4) };
    for (size_t i0 = 0; i0 < rows; i0 += BLOCK)
        for (size_t j = 0; j < features; j++)
            for (size_t i = i0; i < rows && i < i0 + BLOCK; i++) zt[j * rows + i] = z[i * features + j];
}

/* The kernel matrix of the features: ZZᵀ. */
static bo_status kernel_of_features(bo_context *context, const bo_features_desc *map, const bo_samples *scaled,
                                    double *k)
{
    bo_features *phi;
    BO_TRY(bo_features_create(context, map, &phi));
    size_t n = scaled->rows, features = bo_features_describe(phi)->features;
    float *z = bo_alloc_raw(context, n * features, sizeof *z, "the sample's features");
    float *zt = bo_alloc_raw(context, n * features, sizeof *zt, "the sample's features");
    const bo_row_map unscaled = {.phi = phi};
    const bo_input_view inputs = bo_samples_inputs(scaled, 0, n);
    bo_status status = z && zt ? bo_row_map_project(context, &unscaled, &inputs, z, features) : BO_MEMORY;
    if (status == BO_OK) {
        transpose(n, features, z, zt);
        memset(k, 0, n * n * sizeof *k);
        status = bo_gram(context, n, features, zt, n, k, n, true);
    }
    if (status == BO_OK) bo_symmetrize(context, n, k, n);
    bo_free(z);
    bo_free(zt);
    bo_features_destroy(phi);
    return status;
}

/* √w (K - means) √w with weighted means. */
static void weigh_and_center(bo_loo *loo)
{
    size_t n = loo->rows;
    double *k = loo->kernel, *mean = loo->mean, total = 0;
    memset(mean, 0, n * sizeof *mean);
    for (size_t i = 0; loo->intercept && i < n; i++) {
        for (size_t j = 0; j < n; j++) mean[i] += k[i * n + j] * loo->root[j] * loo->root[j] / loo->weight;
        total += mean[i] * loo->root[i] * loo->root[i] / loo->weight;
    }
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++)
            k[i * n + j] = (k[i * n + j] + total - mean[i] - mean[j]) * loo->root[i] * loo->root[j];
}

/* Kernels that are not differentiable at 0 have eigenvalues far above the rounding of float32. Smooth kernels do not,
 * and need small λ. */
static bool is_rough(bo_kernel kernel)
{
    return kernel == BO_KERNEL_LAPLACIAN || kernel == BO_KERNEL_MATERN12;
}

static bo_status rough_kernel(bo_context *context, bo_loo *loo, const bo_features_desc *map, const bo_samples *scaled)
{
    const size_t n = loo->rows, dim = scaled->dim;
    float *k = (float *)loo->work;
    BO_TRY(bo_kernel_block(context, map, n, scaled->x, dim, n, scaled->x, dim, k, n));
    for (size_t i = 0; i < n * n; i++) loo->kernel[i] = (double)k[i];
    return BO_OK;
}

bo_status bo_loo_kernel(bo_context *context, bo_loo *loo, const bo_features_desc *map, double gamma, bool closed_form,
                        const bo_samples *scaled)
{
    size_t n = loo->rows;
    bo_features_desc at = *map;
    at.gamma = gamma;
    if (!closed_form || map->kernel == BO_KERNEL_CUSTOM)
        BO_TRY(kernel_of_features(context, &at, scaled, loo->kernel));
    else if (!scaled->sparse && is_rough(map->kernel))
        BO_TRY(rough_kernel(context, loo, &at, scaled));
    else if (scaled->sparse)
        BO_TRY(bo_kernel_matrix_sparse(context, &at, scaled->sparse, loo->kernel));
    else
        BO_TRY(bo_kernel_matrix(context, &at, n, scaled->x, scaled->dim, n, scaled->x, scaled->dim, loo->kernel, n));
    weigh_and_center(loo);
    return BO_OK;
}

/* Mean squared left-out error of the rows from `first` on, from residuals (rows x outputs) and the diagonal of λM. */
static double left_out_error(const bo_loo *loo, size_t first, const double *residual, const double *diagonal,
                             size_t stride)
{
    size_t n = loo->rows, outputs = loo->outputs;
    double sum = 0, weight = 0;
    for (size_t i = first; i < n; i++) {
        double left = diagonal[i * stride] - (loo->intercept ? loo->root[i] * loo->root[i] / loo->weight : 0);
        if (left < 1e-12) return INFINITY; /* the row is interpolated: its left-out error is not known */
        for (size_t t = 0; t < outputs; t++) sum += pow(residual[i * outputs + t] / left, 2);
        weight += loo->root[i] * loo->root[i];
    }
    return weight > 0 ? sum / (weight * (double)outputs) : INFINITY;
}

bo_status bo_loo_grid(bo_context *context, bo_loo *loo, const double *lambda, size_t count, double *error,
                      double *largest)
{
    size_t n = loo->rows, outputs = loo->outputs;
    double *values = bo_alloc_raw(context, n, sizeof *values, "eigenvalues");
    double *shrink = bo_alloc_raw(context, n * count, sizeof *shrink, "eigenvalues");
    double *diagonal = bo_alloc_raw(context, n * count, sizeof *diagonal, "eigenvalues");
    double *along = bo_alloc_raw(context, n * outputs, sizeof *along, "projected targets");
    double *scaled = bo_alloc_raw(context, n * outputs, sizeof *scaled, "projected targets");
    bo_status status = values && shrink && diagonal && along && scaled ? BO_OK : BO_MEMORY;
    double *vectors = loo->kernel; /* row k is eigenvector k: M = Σ_k v_k v_kᵀ / (value_k + λ) */
    if (status == BO_OK) status = bo_eigen(context, n, vectors, n, values);
    if (status == BO_OK) {
        for (size_t k = 0; k < n; k++)
            for (size_t l = 0; l < count; l++) shrink[k * count + l] = lambda[l] / (fmax(values[k], 0) + lambda[l]);
        for (size_t k = 0; k < n * n; k++) loo->work[k] = vectors[k] * vectors[k];
        status = bo_gemm64(context, true, false, n, count, n, 1, loo->work, n, shrink, count, 0, diagonal, count);
    }
    if (status == BO_OK)
        status =
            bo_gemm64(context, false, false, n, outputs, n, 1, vectors, n, loo->targets, outputs, 0, along, outputs);
    for (size_t l = 0; status == BO_OK && l < count; l++) {
        for (size_t k = 0; k < n; k++)
            for (size_t t = 0; t < outputs; t++)
                scaled[k * outputs + t] = shrink[k * count + l] * along[k * outputs + t];
        status =
            bo_gemm64(context, true, false, n, outputs, n, 1, vectors, n, scaled, outputs, 0, loo->solution, outputs);
        if (status == BO_OK) error[l] = left_out_error(loo, 0, loo->solution, diagonal + l, count);
    }
    if (status == BO_OK) *largest = fmax(values[n - 1], 0);
    bo_free(values);
    bo_free(shrink);
    bo_free(diagonal);
    bo_free(along);
    bo_free(scaled);
    return status;
}

/* The inverse factor of the scored rows is the inverse of the trailing block of L: rows before them do not enter. */
bo_status bo_loo_point(bo_context *context, bo_loo *loo, double lambda, double *error)
{
    const size_t n = loo->rows, outputs = loo->outputs, scored = loo->scored, first = n - scored;
    assert(scored > 0 && scored <= n);
    *error = INFINITY;
    if (!loo->inverse) loo->inverse = bo_alloc_raw(context, scored * scored, sizeof(double), "the inverse factor");
    double *inverse = loo->inverse;
    double *diagonal = bo_alloc(context, n, sizeof *diagonal, "the inverse's diagonal");
    bo_status status = inverse && diagonal ? BO_OK : BO_MEMORY;
    if (status == BO_OK) {
        memcpy(loo->work, loo->kernel, n * n * sizeof *loo->work);
        for (size_t i = 0; i < n; i++) loo->work[i * n + i] += lambda;
        memcpy(loo->solution, loo->targets, n * outputs * sizeof *loo->solution);
        status = bo_cholesky(context, n, loo->work, n, NULL);
        if (status == BO_NUMERIC) { /* λ is too small for this kernel: scored like interpolation */
            bo_free(diagonal);
            return BO_OK;
        }
    }
    if (status == BO_OK) status = bo_inverse_factor(context, scored, loo->work + first * n + first, n, inverse);
    if (status == BO_OK) status = bo_solve_lower(context, n, outputs, loo->work, n, loo->solution, outputs);
    if (status == BO_OK) status = bo_solve_lower_t(context, n, outputs, loo->work, n, loo->solution, outputs);
    if (status == BO_OK) {
        for (size_t i = 0; i < scored; i++)
            for (size_t j = 0; j <= i; j++)
                diagonal[first + j] += lambda * inverse[i * scored + j] * inverse[i * scored + j];
        for (size_t k = 0; k < n * outputs; k++) loo->solution[k] *= lambda;
        *error = left_out_error(loo, first, loo->solution, diagonal, 1);
    }
    bo_free(diagonal);
    return status;
}

/* ---- a few training rows, by their leverages --------------------------------------------------------------------- */

/* Leave-one-out on a few training rows, from the factor of the full fit: the prediction without row i is
 * y_i - r_i / (1 - h_i) with leverage h_i = w_i (1/n + |L⁻¹(φ_i - center)|²). It is exact and needs no refit. */

bo_status bo_left_out_create(bo_context *context, size_t rows, size_t outputs, bool labels, bo_left_out *out)
{
    *out = (bo_left_out){.rows = rows, .outputs = outputs, .inflation = 1};
    out->prediction = bo_alloc(context, rows * outputs, sizeof *out->prediction, "leave-one-out predictions");
    out->truth = bo_alloc(context, rows * outputs, sizeof *out->truth, "leave-one-out predictions");
    out->leverage = bo_alloc(context, rows, sizeof *out->leverage, "leverages");
    out->weight = bo_alloc(context, rows, sizeof *out->weight, "leave-one-out predictions");
    out->label = labels ? bo_alloc(context, rows, sizeof *out->label, "leave-one-out predictions") : NULL;
    if (out->prediction && out->truth && out->leverage && out->weight && (!labels || out->label)) return BO_OK;
    bo_left_out_free(out);
    return BO_MEMORY;
}

void bo_left_out_inflate(bo_left_out *left_out, double factor)
{
    left_out->inflation *= factor;
    for (size_t k = 0; k < left_out->rows * left_out->outputs; k++)
        left_out->prediction[k] = left_out->truth[k] + factor * (left_out->prediction[k] - left_out->truth[k]);
}

void bo_left_out_free(bo_left_out *left_out)
{
    bo_free(left_out->prediction);
    bo_free(left_out->truth);
    bo_free(left_out->leverage);
    bo_free(left_out->weight);
    bo_free(left_out->label);
    bo_free(left_out->columns);
    *left_out = (bo_left_out){0};
}

/* Rows of a task. */
enum { LEFT_OUT_ROWS = BO_SIZE(32, 2) };

typedef struct left_out_job {
    const bo_machine_ridge *ridge;
    size_t rows;
    const float *z; /* rows x features: φ */
    double *v;      /* features x rows: (φ - center)ᵀ, in double for the triangular solve, which replaces it by L⁻¹ v */
    bo_left_out *out;
} left_out_job;

/* Transposes and predicts some rows. */
static void predict_rows(void *arg, size_t index, int worker)
{
    (void)worker;
    const left_out_job *job = arg;
    const bo_machine_ridge *ridge = job->ridge;
    const size_t rows = job->rows, features = ridge->features, outputs = ridge->outputs;
    const size_t first = index * LEFT_OUT_ROWS, end = bo_min(first + LEFT_OUT_ROWS, rows);
    double *prediction = job->out->prediction;
    for (size_t i = first; i < end; i++)
        for (size_t t = 0; t < outputs; t++) prediction[i * outputs + t] = ridge->intercept[t];
    for (size_t j = 0; j < features; j++)
        for (size_t i = first; i < end; i++) {
            const double centered = (double)job->z[i * features + j] - ridge->center[j];
            job->v[j * rows + i] = centered;
            for (size_t t = 0; t < outputs; t++) prediction[i * outputs + t] += centered * ridge->beta[j * outputs + t];
        }
}

/* |L⁻¹ v|² of some rows. */
static void measure_rows(void *arg, size_t index, int worker)
{
    (void)worker;
    const left_out_job *job = arg;
    const size_t first = index * LEFT_OUT_ROWS, end = bo_min(first + LEFT_OUT_ROWS, job->rows);
    for (size_t j = 0; j < job->ridge->features; j++) {
        const double *v = job->v + j * job->rows;
        for (size_t i = first; i < end; i++) job->out->leverage[i] += v[i] * v[i];
    }
}

/* On entry `leverage` has |L⁻¹ v|² and `prediction` the predictions of the fit to all rows. */
static void leave_out(const bo_machine_ridge *ridge, const bo_targets *targets, const bo_samples *samples,
                      bool intercept, bo_left_out *out)
{
    size_t rows = samples->rows, outputs = ridge->outputs;
    for (size_t i = 0; i < rows; i++) {
        double root = (double)bo_targets_root_weight(targets, samples, i);
        double h = root * root * (out->leverage[i] + (intercept ? 1 / ridge->weight : 0));
        out->leverage[i] = h = fmin(h, 1 - 1e-9);
        out->weight[i] = root * root;
        for (size_t t = 0; t < outputs; t++) {
            double y = (double)bo_targets_value(targets, samples->y + i * samples->targets, t);
            double residual = y - out->prediction[i * outputs + t];
            out->truth[i * outputs + t] = y;
            out->prediction[i * outputs + t] = y - residual / (1 - h);
        }
        if (out->label) out->label[i] = (int)samples->y[i];
    }
}

bo_status bo_ridge_left_out(bo_context *context, const bo_machine_ridge *ridge, const bo_row_map *row_map,
                            const bo_targets *targets, const bo_samples *samples, bool intercept, bo_left_out *out)
{
    size_t rows = samples->rows, features = ridge->features;
    BO_TRY(bo_left_out_create(context, rows, ridge->outputs, targets->classes > 0, out));
    out->fit_weight = intercept ? ridge->weight : 0;
    float *z = bo_alloc_raw(context, rows * features, sizeof *z, "leave-one-out rows");
    double *v = bo_alloc_raw(context, rows * features, sizeof *v, "leave-one-out rows");
    const bo_input_view inputs = bo_samples_inputs(samples, 0, rows);
    bo_status status = z && v ? bo_row_map_apply(context, row_map, &inputs, z, features) : BO_MEMORY;
    left_out_job job = {ridge, rows, z, v, out};
    const size_t tasks = bo_ceil_div(rows, LEFT_OUT_ROWS);
    if (status == BO_OK) {
        bo_parallel(context, tasks, predict_rows, &job);
        status = bo_ridge_solve_lower(context, ridge, rows, v);
    }
    if (status == BO_OK) {
        bo_parallel(context, tasks, measure_rows, &job);
        leave_out(ridge, targets, samples, intercept, out);
    }
    bo_free(z);
    bo_free(v);
    if (status != BO_OK) bo_left_out_free(out);
    return status;
}

bo_status bo_ridge_score(bo_context *context, const bo_machine_ridge *ridge, const bo_row_map *row_map,
                         const bo_targets *targets, const bo_samples *probe, bool intercept, double *score)
{
    *score = ridge->gcv;
    if (!isfinite(ridge->gcv)) return BO_OK;
    bo_left_out rows;
    BO_TRY(bo_ridge_left_out(context, ridge, row_map, targets, probe, intercept, &rows));
    double left = 1 - ridge->freedom / ridge->rows, exact = 0, averaged = 0;
    for (size_t i = 0; i < rows.rows; i++) {
        double shrink = (1 - rows.leverage[i]) / left;
        for (size_t t = 0; t < rows.outputs; t++) {
            double error = rows.truth[i * rows.outputs + t] - rows.prediction[i * rows.outputs + t];
            exact += rows.weight[i] * error * error;
            averaged += rows.weight[i] * error * error * shrink * shrink;
        }
    }
    if (averaged > 0) *score = ridge->gcv * exact / averaged;
    bo_left_out_free(&rows);
    return BO_OK;
}
