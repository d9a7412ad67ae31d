/* The dual form, for fewer rows than features. With Zc = √w (φ - center) and a penalty D on β,
 *
 *     M = Zc D⁻¹ Zcᵀ + I,   α = M⁻¹ √w (y - mean),   β = D⁻¹ Zcᵀ α,
 *
 * The cost is n² and n³ instead of R² and R³. All arithmetic is in double: entries of Zc D⁻¹ Zcᵀ may be 1e8 times the
 * entries of I.
 *
 * With an exact kernel (function SECTIONS) Zc Zcᵀ is √w Kc √w, with Kc the centered kernel matrix, and β = √w α / λ are
 * the coefficients of k(·, x_i). Since √wᵀα = 0, only the means of the columns of K remain of the centering of a new
 * row. */
#include "../base/base.h"
#include "../features/sections.h"
#include "../io/sparse.h"
#include "../math/linalg.h"
#include "leave_one_out.h"
#include "left_out.h"
#include "machine.h"
#include "ridge.h"
#include "row_map.h"
#include "samples.h"
#include "scaler.h"
#include "search.h"
#include "solvers.h"

#include <math.h>
#include <string.h>

typedef struct dual {
    size_t rows, features, outputs;
    double *z;       /* rows x features: √w (φ - center) */
    double *zd;      /* rows x features: the same times D⁻¹ */
    double *m;       /* rows x rows: M, then its factor */
    double *alpha;   /* rows x outputs */
    double *inverse; /* rows x rows: L⁻¹ */
    double *center, *squares, *penalty, *beta, *mean;
    double weight;
    bool exact; /* z and zd are NULL */
} dual;

static void dual_free(dual *d)
{
    double *blocks[] = {d->z, d->zd, d->m, d->alpha, d->inverse, d->center, d->squares, d->penalty, d->beta, d->mean};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) bo_free(blocks[i]);
}

static bo_status dual_create(bo_context *context, const bo_fit_problem *problem, dual *d)
{
    size_t n = problem->samples->rows, r = bo_features_describe(problem->row_map.phi)->features,
           t = problem->targets->outputs;
    *d = (dual){.rows = n, .features = r, .outputs = t, .exact = bo_is_sections(problem->row_map.phi)};
    size_t numbers = d->exact ? 0 : n * r;
    d->z = bo_alloc_raw(context, numbers, sizeof(double), "the features of all rows");
    d->zd = bo_alloc_raw(context, numbers, sizeof(double), "the features of all rows");
    d->m = bo_alloc_raw(context, n * n, sizeof(double), "the kernel matrix");
    d->inverse = bo_alloc_raw(context, n * n, sizeof(double), "the inverse factor");
    d->alpha = bo_alloc_raw(context, n * t, sizeof(double), "the dual coefficients");
    d->center = bo_alloc(context, r, sizeof(double), "the coefficients");
    d->squares = bo_alloc(context, r, sizeof(double), "the coefficients");
    d->penalty = bo_alloc(context, r, sizeof(double), "the coefficients");
    d->beta = bo_alloc(context, r * t, sizeof(double), "the coefficients");
    d->mean = bo_alloc(context, t, sizeof(double), "the coefficients");
    return d->z && d->zd && d->m && d->inverse && d->alpha && d->center && d->squares && d->penalty && d->beta &&
                   d->mean
               ? BO_OK
               : BO_MEMORY;
}

static bo_status fill_features(bo_context *context, const bo_fit_problem *problem, dual *d)
{
    size_t block = d->rows < BO_MACHINE_BLOCK ? d->rows : BO_MACHINE_BLOCK;
    float *z = bo_alloc_raw(context, block * d->features, sizeof *z, "a block of features");
    bo_status status = z ? BO_OK : BO_MEMORY;
    for (size_t first = 0; status == BO_OK && first < d->rows; first += block) {
        size_t rows = d->rows - first < block ? d->rows - first : block;
        status = bo_problem_features(context, problem, first, rows, z, d->features);
        for (size_t k = 0; status == BO_OK && k < rows * d->features; k++) d->z[first * d->features + k] = (double)z[k];
    }
    bo_free(z);
    return status;
}

/* Computes means, then centers and weights features and targets. */
static void center_and_weigh(const bo_fit_problem *problem, dual *d)
{
    size_t n = d->rows, r = d->features, outputs = d->outputs;
    const bo_samples *samples = problem->samples;
    for (size_t i = 0; i < n; i++) {
        double root = (double)bo_targets_root_weight(problem->targets, samples, i), w = root * root;
        d->weight += w;
        for (size_t j = 0; j < r; j++) {
            d->center[j] += w * d->z[i * r + j];
            d->squares[j] += w * d->z[i * r + j] * d->z[i * r + j];
        }
        for (size_t t = 0; t < outputs; t++)
            d->mean[t] += w * (double)bo_targets_value(problem->targets, samples->y + i * samples->targets, t);
    }
    for (size_t j = 0; j < r; j++) d->center[j] *= problem->intercept ? 1 / d->weight : 0;
    for (size_t t = 0; t < outputs; t++) d->mean[t] *= problem->intercept ? 1 / d->weight : 0;
    bo_penalty_fill(&problem->penalty, d->weight, r, d->squares, d->penalty);
    for (size_t i = 0; i < n; i++) {
        double root = (double)bo_targets_root_weight(problem->targets, samples, i);
        for (size_t j = 0; j < r; j++) {
            d->z[i * r + j] = root * (d->z[i * r + j] - d->center[j]);
            d->zd[i * r + j] = d->z[i * r + j] / d->penalty[j];
        }
        for (size_t t = 0; t < outputs; t++)
            d->alpha[i * outputs + t] =
                root * ((double)bo_targets_value(problem->targets, samples->y + i * samples->targets, t) - d->mean[t]);
    }
}

/* The kernel matrix, targets and means of an exact kernel, and the final λ of many rows. */
static bo_status fill_exact(bo_context *context, const bo_fit_problem *problem, dual *d, double *lambda)
{
    const bo_features_desc *map = bo_features_describe(problem->row_map.phi);
    size_t n = d->rows, outputs = d->outputs;
    bo_samples scaled = *problem->samples;
    float *x = bo_alloc_raw(context, n * scaled.dim, sizeof *x, "scaled rows");
    if (!x) return BO_MEMORY;
    const bo_input_view inputs = bo_samples_inputs(problem->samples, 0, n);
    scaled.x = x;
    scaled.dim = problem->row_map.scaler->kept;
    bo_loo loo = {0};
    bo_status status = bo_scaler_apply(context, problem->row_map.scaler, &inputs, x);
    if (status == BO_OK) status = bo_loo_create(context, &scaled, problem->targets, problem->intercept, &loo);
    if (status == BO_OK) status = bo_loo_kernel(context, &loo, map, map->gamma, true, &scaled);
    if (status == BO_OK && !(problem->desc->lambda > 0) && n > BO_EXACT_ROWS)
        status = bo_search_lambda_exact(context, &loo, lambda);
    if (status == BO_OK) {
        for (size_t k = 0; k < n * n; k++) d->m[k] = loo.kernel[k] / *lambda;
        memcpy(d->alpha, loo.targets, n * outputs * sizeof *d->alpha);
        memcpy(d->center, loo.mean, n * sizeof *d->center);
        d->weight = loo.weight;
        for (size_t t = 0; problem->intercept && t < outputs; t++)
            for (size_t i = 0; i < n; i++)
                d->mean[t] += loo.root[i] * loo.root[i] / loo.weight *
                              (double)bo_targets_value(problem->targets, scaled.y + i * scaled.targets, t);
    }
    bo_loo_free(&loo);
    bo_free(x);
    return status;
}

/* β of the kernel sections. The system leaves the direction √w of α to rounding, which 1/λ would amplify: Σβ = 0 is
 * restored. */
static void exact_coefficients(const bo_fit_problem *problem, double lambda, dual *d)
{
    for (size_t t = 0; t < d->outputs; t++) {
        double sum = 0;
        for (size_t i = 0; i < d->rows; i++) {
            double root = (double)bo_targets_root_weight(problem->targets, problem->samples, i);
            sum += d->beta[i * d->outputs + t] = root * d->alpha[i * d->outputs + t] / lambda;
        }
        for (size_t i = 0; problem->intercept && i < d->rows; i++) {
            double root = (double)bo_targets_root_weight(problem->targets, problem->samples, i);
            d->beta[i * d->outputs + t] -= root * root / d->weight * sum;
        }
    }
}

static bo_status refuse_matrix(bo_context *context, double lambda)
{
    char reason[256];
    strncpy(reason, bo_context_error(context), sizeof reason - 1);
    reason[sizeof reason - 1] = 0;
    return bo_fail(context, BO_NUMERIC,
                   "the kernel matrix plus lambda is not positive definite at lambda %g (%s); use a larger lambda",
                   lambda, reason);
}

static bo_status solve(bo_context *context, double lambda, dual *d)
{
    size_t n = d->rows, r = d->features, t = d->outputs;
    if (!d->exact) BO_TRY(bo_gemm64(context, false, true, n, n, r, 1, d->zd, r, d->z, r, 0, d->m, n));
    for (size_t i = 0; i < n; i++) d->m[i * n + i] += 1;
    const bo_status status = bo_cholesky(context, n, d->m, n, NULL);
    if (status == BO_NUMERIC) return refuse_matrix(context, lambda);
    BO_TRY(status);
    BO_TRY(bo_solve_lower(context, n, t, d->m, n, d->alpha, t));
    BO_TRY(bo_solve_lower_t(context, n, t, d->m, n, d->alpha, t));
    if (!d->exact) BO_TRY(bo_gemm64(context, true, false, r, t, n, 1, d->zd, r, d->alpha, t, 0, d->beta, t));
    return bo_inverse_factor(context, n, d->m, n, d->inverse);
}

/* 1 - S_ii = (M⁻¹)_ii - w_i/n, and the weighted residual is α: left-out errors need no refit. */
static bo_status leave_out(bo_context *context, const bo_fit_problem *problem, const dual *d, bo_left_out *out)
{
    size_t n = d->rows, outputs = d->outputs;
    const bo_samples *samples = problem->samples;
    BO_TRY(bo_left_out_create(context, n, outputs, problem->targets->classes > 0, out));
    out->fit_weight = problem->intercept ? d->weight : 0;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j <= i; j++) out->leverage[j] += d->inverse[i * n + j] * d->inverse[i * n + j];
    for (size_t i = 0; i < n; i++) {
        double root = (double)bo_targets_root_weight(problem->targets, samples, i);
        double left = out->leverage[i] - (problem->intercept ? root * root / d->weight : 0);
        left = fmax(left, 1e-9);
        out->leverage[i] = 1 - left;
        out->weight[i] = root * root;
        for (size_t t = 0; t < outputs; t++) {
            double y = (double)bo_targets_value(problem->targets, samples->y + i * samples->targets, t);
            double error = root > 0 ? d->alpha[i * outputs + t] / left / root : 0;
            out->truth[i * outputs + t] = y;
            out->prediction[i * outputs + t] = y - error;
        }
        if (out->label) out->label[i] = (int)samples->y[i];
    }
    return BO_OK;
}

/* Scaled training rows, in dense form. */
static bo_status keep_rows(bo_context *context, const bo_fit_problem *problem, float *out)
{
    const bo_scaler *scaler = problem->row_map.scaler;
    const bo_input_view inputs = bo_samples_inputs(problem->samples, 0, problem->samples->rows);
    if (inputs.x) return bo_scaler_apply(context, scaler, &inputs, out);
    bo_sparse_block *scaled;
    BO_TRY(bo_scaler_apply_sparse(context, scaler, &inputs.sparse, &scaled));
    for (size_t i = 0; i < inputs.rows; i++) bo_sparse_expand(&scaled->rows, i, out + i * scaler->kept);
    bo_sparse_destroy(&scaled->rows);
    return BO_OK;
}

/* Copies the arrays that predictions of standard deviations need. */
static bo_status keep_uncertainty(bo_context *context, const bo_fit_problem *problem, const dual *d,
                                  bo_machine *machine)
{
    const bo_samples *samples = problem->samples;
    size_t n = d->rows;
    machine->train_rows = n;
    machine->train_root_weight = bo_alloc_raw(context, n, sizeof(float), "the training rows");
    machine->train_factor = bo_alloc_raw(context, n * (n + 1) / 2, sizeof(double), "the kernel matrix");
    if (!machine->train_root_weight || !machine->train_factor) return BO_MEMORY;
    if (!d->exact) {
        machine->train_x = bo_alloc_raw(context, n * problem->row_map.scaler->kept, sizeof(float), "the training rows");
        machine->penalty = bo_alloc_raw(context, d->features, sizeof(double), "the penalty");
        if (!machine->train_x || !machine->penalty) return BO_MEMORY;
        BO_TRY(keep_rows(context, problem, machine->train_x));
        memcpy(machine->penalty, d->penalty, d->features * sizeof *d->penalty);
    }
    for (size_t i = 0, k = 0; i < n; i++) {
        machine->train_root_weight[i] = bo_targets_root_weight(problem->targets, samples, i);
        for (size_t j = 0; j <= i; j++, k++) machine->train_factor[k] = d->m[i * n + j];
    }
    machine->inverse_weight = problem->intercept ? 1 / d->weight : 0;
    machine->uncertainty = d->exact ? BO_UNCERTAINTY_EXACT : BO_UNCERTAINTY_DUAL;
    return BO_OK;
}

static bo_status finish(bo_context *context, const bo_fit_problem *problem, dual *d, bo_machine *machine)
{
    BO_TRY(bo_machine_set_solution(context, machine, problem->targets, d->beta, d->mean, d->center));
    bo_left_out left_out;
    BO_TRY(leave_out(context, problem, d, &left_out));
    bo_left_out_inflate(&left_out, sqrt(problem->optimism));
    bo_status status = bo_left_out_columns(context, &problem->row_map, problem->samples, &left_out);
    if (status == BO_OK) status = bo_machine_calibrate(context, machine, problem->targets, &left_out);
    if (problem->left_out)
        *problem->left_out = left_out;
    else
        bo_left_out_free(&left_out);
    if (status == BO_OK && !problem->targets->classes) status = keep_uncertainty(context, problem, d, machine);
    return status;
}

bo_status bo_solve_dual(bo_context *context, const bo_fit_problem *problem, bo_machine *machine)
{
    dual d;
    double lambda = problem->penalty.lambda;
    bo_status status = dual_create(context, problem, &d);
    if (status == BO_OK)
        status = d.exact ? fill_exact(context, problem, &d, &lambda) : fill_features(context, problem, &d);
    if (status == BO_OK) {
        if (!d.exact) center_and_weigh(problem, &d);
        status = solve(context, lambda, &d);
    }
    if (status == BO_OK && d.exact) {
        exact_coefficients(problem, lambda, &d);
        machine->report.lambda = lambda;
    }
    if (status == BO_OK) status = finish(context, problem, &d, machine);
    dual_free(&d);
    return status;
}
