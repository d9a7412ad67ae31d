/* Chooses kernel, scaling and metric by the leave-one-out error of kernel ridge regression on a sample of the rows.
 *
 * The metric is learned as in recursive feature machines (Radhakrishnan et al., arXiv 2212.13881): fit f with the
 * kernel k(Ax, Ay); measure the average outer product of its gradients over the rows, G = mean ∇f ∇fᵀ in the scaled
 * inputs; take a power of G as the new metric AᵀA; repeat. The Laplacian kernel, a product over the columns, takes the
 * diagonal of G; kernels of the 2-norm take all of it.
 *
 * 1. Screen: every candidate, without a metric, on BO_SCREEN_ROWS rows.
 * 2. Compare: those close to the best on BO_TUNE_ROWS rows, by the error that is expected with all rows.
 * 3. Refine: the best of them learn metrics, for as many iterations as reduce the error on one half of the rows when
 * the metric is learned on the other half. */
#include "../base/base.h"
#include "../base/trace.h"
#include "../features/enums.h"
#include "../features/kernel_block.h"
#include "../math/linalg.h"
#include "../math/metric.h"
#include "enums.h"
#include "leave_one_out.h"
#include "samples.h"
#include "scaler.h"
#include "search.h"
#include "tune.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { CANDIDATES = 8, REFINED = 2, ITERATIONS = 5 };

/* How a setting is scored: γ from a grid, near its γ, or near its γ with half of the effort. */
typedef enum effort { FROM_GRID, NEARBY, LIGHT } effort;

typedef struct candidate {
    bo_kernel kernel;
    bo_scaling scaling;
} candidate;

/* The power of G in AᵀA, and the smallest eigenvalue relative to the largest. */
static const double floor_of_metric = 1e-6, gain_of_metric = 0.99;

static double power_of(bo_kernel kernel)
{
    return kernel == BO_KERNEL_LAPLACIAN || kernel == BO_KERNEL_RBF ? 1 : 0.5;
}

void bo_setting_free(bo_setting *setting)
{
    bo_scaler_free(&setting->scaler);
    *setting = (bo_setting){0};
}

static bool has_gradient(bo_kernel kernel)
{
    return kernel <= BO_KERNEL_RATIONAL_QUADRATIC;
}

static bool requires_metric(const bo_machine_desc *desc)
{
    return desc->metric == BO_METRIC_AUTO ? desc->choose_kernel : desc->metric != BO_METRIC_NONE;
}

static bool learns(const bo_machine_desc *desc, const bo_setting *setting)
{
    return requires_metric(desc) && has_gradient(setting->kernel);
}

bool bo_tunes(const bo_machine_desc *desc, const bo_samples *samples)
{
    return !samples->sparse && (desc->choose_kernel || requires_metric(desc));
}

/* ---- candidates -------------------------------------------------------------------------------------------------- */

static size_t list_candidates(const bo_machine_desc *desc, const bo_samples *samples, candidate *out)
{
    static const candidate all[] = {{BO_KERNEL_LAPLACIAN, BO_SCALING_COLUMNS},
                                    {BO_KERNEL_LAPLACIAN, BO_SCALING_QUANTILE},
                                    {BO_KERNEL_MATERN12, BO_SCALING_QUANTILE},
                                    {BO_KERNEL_MATERN32, BO_SCALING_COLUMNS},
                                    {BO_KERNEL_RBF, BO_SCALING_COLUMNS}};
    const bool scaled = desc->scaling != BO_SCALING_AUTO || samples->common_unit;
    const bo_scaling scaling = desc->scaling != BO_SCALING_AUTO ? desc->scaling : BO_SCALING_COMMON;
    size_t count = 0;
    if (!desc->choose_kernel) {
        out[count++] = (candidate){desc->features.kernel, scaled ? scaling : BO_SCALING_COLUMNS};
        if (!scaled) out[count++] = (candidate){desc->features.kernel, BO_SCALING_QUANTILE};
        return count;
    }
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const candidate c = {all[i].kernel, scaled ? scaling : all[i].scaling};
        bool listed = false;
        for (size_t k = 0; k < count; k++)
            listed = listed || (out[k].kernel == c.kernel && out[k].scaling == c.scaling);
        if (!listed) out[count++] = c;
    }
    return count;
}

/* ---- one candidate ----------------------------------------------------------------------------------------------- */

typedef struct tuner {
    bo_context *context;
    const bo_machine_desc *desc;
    const bo_targets *targets;
    const bo_samples *samples;
    double deadline; /* of bo_seconds(); after it nothing is refined */
} tuner;

static bool has_time(const tuner *t)
{
    return bo_seconds() < t->deadline;
}

static bo_features_desc map_of(const tuner *t, const bo_setting *s)
{
    bo_features_desc map = t->desc->features;
    map.kernel = s->kernel;
    map.dim = s->scaler.kept;
    map.function = BO_FUNCTION_SECTIONS;
    map.gamma = s->gamma;
    map.seed = t->desc->seed;
    return map;
}

/* Scores the setting on rows of the samples, and refines γ and λ. On return `rows` has the scaled rows. */
static bo_status score(const tuner *t, size_t count, effort level, bo_setting *s, bo_samples *rows, bo_loo *loo)
{
    BO_TRY(bo_samples_scaled(t->context, &s->scaler, t->samples, count, t->desc->seed, rows));
    const bo_features_desc map = map_of(t, s);
    bo_search_point point = {level == FROM_GRID ? 0 : s->gamma, s->lambda, INFINITY};
    BO_TRY(bo_search_closed_form(t->context, t->desc, &map, t->targets, rows, level == LIGHT, &point, loo));
    s->gamma = point.gamma;
    s->lambda = point.lambda;
    s->score = point.error;
    return BO_OK;
}

static bo_status evaluate(const tuner *t, size_t count, effort level, bo_setting *s)
{
    bo_samples rows = {0};
    bo_loo loo = {0};
    bo_status status = score(t, count, level, s, &rows, &loo);
    bo_samples_free(&rows);
    bo_loo_free(&loo);
    return status;
}

/* G in the scaled inputs before the metric, from gradients after it: G = Aᵀ G' A. */
static bo_status pull_back(bo_context *context, const bo_metric *metric, size_t dim, const double *after, double *g)
{
    if (!metric->a || metric->diagonal) {
        for (size_t i = 0; i < dim; i++)
            for (size_t j = 0; j < dim; j++)
                g[i * dim + j] = (metric->a ? (double)metric->a[i] * (double)metric->a[j] : 1) * after[i * dim + j];
        return BO_OK;
    }
    const size_t rank = metric->rank, numbers = rank * dim;
    double *a = bo_alloc_raw(context, 2 * numbers, sizeof *a, "the outer product of gradients");
    if (!a) return BO_MEMORY;
    for (size_t k = 0; k < numbers; k++) a[k] = (double)metric->a[k];
    bo_status status = bo_gemm64(context, false, false, rank, dim, rank, 1, after, rank, a, dim, 0, a + numbers, dim);
    if (status == BO_OK)
        status = bo_gemm64(context, true, false, dim, dim, rank, 1, a, dim, a + numbers, dim, 0, g, dim);
    bo_free(a);
    return status;
}

/* The average outer product of the gradients at the rows, of the function that the setting fits to them. */
static bo_status outer_product(const tuner *t, const bo_setting *s, const bo_samples *rows, bo_loo *loo, double *g)
{
    const bo_features_desc map = map_of(t, s);
    const size_t n = rows->rows, dim = map.dim, outputs = t->targets->outputs, block = bo_min(n, BO_SIZE(256, 4));
    float *alpha = bo_alloc_raw(t->context, n * outputs, sizeof *alpha, "coefficients");
    float *gradient = bo_alloc_raw(t->context, block * outputs * dim, sizeof *gradient, "gradients");
    double *after = bo_alloc(t->context, dim * dim, sizeof *after, "the outer product of gradients");
    bo_status status = alpha && gradient && after ? BO_OK : BO_MEMORY;
    double error;
    if (status == BO_OK) status = bo_loo_point(t->context, loo, s->lambda, &error); /* the solution is λ α / √w */
    for (size_t i = 0; status == BO_OK && i < n; i++)
        for (size_t o = 0; o < outputs; o++)
            alpha[i * outputs + o] = (float)(loo->root[i] * loo->solution[i * outputs + o] / s->lambda);
    for (size_t first = 0; status == BO_OK && first < n; first += block) {
        const size_t count = bo_min(block, n - first);
        status = bo_kernel_gradient(t->context, &map, count, rows->x + first * dim, dim, n, rows->x, dim, outputs,
                                    alpha, gradient);
        for (size_t i = 0; status == BO_OK && i < count; i++) {
            const double w = loo->root[first + i] * loo->root[first + i] / loo->weight;
            for (size_t o = 0; o < outputs; o++) {
                const float *v = gradient + (i * outputs + o) * dim;
                for (size_t p = 0; p < dim; p++)
                    for (size_t q = 0; q < dim; q++) after[p * dim + q] += w * (double)v[p] * (double)v[q];
            }
        }
    }
    if (status == BO_OK) status = pull_back(t->context, &s->scaler.metric, s->scaler.dim, after, g);
    bo_free(alpha);
    bo_free(gradient);
    bo_free(after);
    return status;
}

/* ---- the metric -------------------------------------------------------------------------------------------------- */

static bo_status copy_setting(bo_context *context, const bo_setting *from, bo_setting *to)
{
    bo_setting copy = *from;
    BO_TRY(bo_scaler_copy(context, &from->scaler, &copy.scaler));
    bo_setting_free(to);
    *to = copy;
    return BO_OK;
}

/* The next metric: a power of G of the current one. *learned is false if the function is constant. */
static bo_status next_metric(const tuner *t, bo_setting *s, bool *learned)
{
    const size_t dim = s->scaler.dim;
    const bool diagonal = s->kernel == BO_KERNEL_LAPLACIAN || t->desc->metric == BO_METRIC_DIAGONAL;
    bo_samples rows = {0};
    bo_loo loo = {0};
    bo_metric metric = {0};
    double *g = bo_alloc(t->context, dim * dim, sizeof *g, "the outer product of gradients");
    bo_status status =
        g ? bo_samples_scaled(t->context, &s->scaler, t->samples, BO_TUNE_ROWS, t->desc->seed, &rows) : BO_MEMORY;
    if (status == BO_OK) status = bo_loo_create(t->context, &rows, t->targets, !t->desc->no_intercept, &loo);
    const bo_features_desc map = map_of(t, s);
    loo.scored = 1; /* the solution is needed, not the error */
    if (status == BO_OK) status = bo_loo_kernel(t->context, &loo, &map, s->gamma, true, &rows);
    if (status == BO_OK) status = outer_product(t, s, &rows, &loo, g);
    if (status == BO_UNSUPPORTED)
        status = BO_OK; /* numbers outside the range of float32: nothing is learned */
    else if (status == BO_OK) {
        status = bo_metric_power(t->context, dim, g, power_of(s->kernel), diagonal, floor_of_metric, &metric);
        *learned = status == BO_OK;
        if (status == BO_NUMERIC) status = BO_OK;
    }
    if (status == BO_OK && *learned) status = bo_scaler_set_metric(t->context, &s->scaler, &metric);
    bo_metric_free(&metric);
    bo_samples_free(&rows);
    bo_loo_free(&loo);
    bo_free(g);
    return status;
}

/* ---- cross-validation of the metric
 * ------------------------------------------------------------------------------------------------- */

/* The mean squared error, on scaled rows, of the function that the setting fits to other scaled rows. */
static bo_status error_between(const tuner *t, const bo_setting *s, const bo_samples *from, const bo_samples *to,
                               double *error)
{
    const bo_features_desc map = map_of(t, s);
    const size_t n = from->rows, m = to->rows, outputs = t->targets->outputs;
    const bool intercept = !t->desc->no_intercept;
    bo_loo loo = {0};
    double *k = bo_alloc_raw(t->context, m * n, sizeof *k, "kernel values"), left_out_error, sum = 0, weight = 0;
    bo_status status = k ? bo_loo_create(t->context, from, t->targets, intercept, &loo) : BO_MEMORY;
    loo.scored = 1;
    if (status == BO_OK) status = bo_loo_kernel(t->context, &loo, &map, s->gamma, true, from);
    if (status == BO_OK) status = bo_loo_point(t->context, &loo, s->lambda, &left_out_error);
    if (status == BO_OK) status = bo_kernel_matrix(t->context, &map, m, to->x, map.dim, n, from->x, map.dim, k, n);
    for (size_t o = 0; status == BO_OK && o < outputs; o++) {
        double mean = 0;
        for (size_t j = 0; intercept && j < n; j++)
            mean += loo.root[j] * loo.root[j] / loo.weight *
                    (double)bo_targets_value(t->targets, from->y + j * from->targets, o);
        for (size_t i = 0; i < m; i++) {
            double f = mean;
            for (size_t j = 0; j < n; j++)
                f += loo.root[j] * loo.solution[j * outputs + o] / s->lambda * (k[i * n + j] - loo.mean[j]);
            const double root = (double)bo_targets_root_weight(t->targets, to, i);
            sum += pow(root * (f - (double)bo_targets_value(t->targets, to->y + i * to->targets, o)), 2);
            weight += root * root;
        }
    }
    *error = weight > 0 && isfinite(sum) ? sum / weight : INFINITY;
    bo_loo_free(&loo);
    bo_free(k);
    return status;
}

/* The error on held-out rows of a setting whose metric, γ and λ were chosen on the rows of the tuner. */
static bo_status held_out_error(const tuner *t, const bo_setting *s, const bo_samples *held_out, double *error)
{
    bo_samples from = {0}, to = {0};
    bo_status status = bo_samples_scaled(t->context, &s->scaler, t->samples, t->samples->rows, t->desc->seed, &from);
    if (status == BO_OK)
        status = bo_samples_scaled(t->context, &s->scaler, held_out, held_out->rows, t->desc->seed, &to);
    if (status == BO_OK) status = error_between(t, s, &from, &to, error);
    bo_samples_free(&from);
    bo_samples_free(&to);
    return status;
}

/* The results of the cross-validation on half of the rows: the number of iterations of the metric, and the ratio of the
 * squared error on the other half to the left-out error of the first, at least 1. */
typedef struct validation {
    int iterations;
    double optimism;
} validation;

static bo_status cross_validate_on(const tuner *t, const bo_setting *start, bool metric, const bo_samples *held_out,
                                   validation *out)
{
    enum { PATIENCE = 1 };
    bo_setting s = {0};
    double best = INFINITY;
    bo_status status = copy_setting(t->context, start, &s);
    for (int i = 0; status == BO_OK && i <= (metric ? ITERATIONS : 0) && i <= out->iterations + PATIENCE + 1; i++) {
        double error = INFINITY;
        bool learned = true;
        if (i > 0) status = next_metric(t, &s, &learned);
        if (status != BO_OK || !learned) break;
        status = evaluate(t, BO_TUNE_ROWS, i == 0 ? NEARBY : LIGHT, &s);
        if (status == BO_OK) status = held_out_error(t, &s, held_out, &error);
        if (status == BO_OK && error < (i == 0 ? INFINITY : gain_of_metric * best)) {
            best = error;
            *out = (validation){i, error / s.score};
        }
        if (status == BO_OK) status = bo_progress(t->context, "learning the metric", i, ITERATIONS);
    }
    bo_setting_free(&s);
    return status;
}

/* The leave-one-out error of a metric is too optimistic, because the metric was fitted to the same rows, like γ and λ.
 * The metric is therefore cross-validated: learned on half of the rows and scored on the other half. */
static bo_status cross_validate(const tuner *t, const bo_setting *start, bool metric, validation *out)
{
    enum { MIN_ROWS = 8, UNCERTAIN_ROWS = 20 };
    *out = (validation){0, 1};
    bo_samples all;
    BO_TRY(bo_samples_subset(t->context, t->samples, BO_TUNE_ROWS, t->desc->seed + 1, &all));
    const size_t half = all.rows / 2;
    const bo_samples training = bo_samples_slice(&all, 0, half, NULL),
                     held_out = bo_samples_slice(&all, half, all.rows - half, NULL);
    tuner inner = *t;
    inner.samples = &training;
    bo_status status = all.rows >= MIN_ROWS ? cross_validate_on(&inner, start, metric, &held_out, out) : BO_OK;
    const double rows = (double)held_out.rows; /* few rows measure the ratio poorly */
    out->optimism =
        isfinite(out->optimism) ? pow(fmin(fmax(out->optimism, 1), 100), rows / (rows + UNCERTAIN_ROWS)) : 1;
    bo_samples_free(&all);
    return status;
}

/* Learns the metric of a setting for the number of iterations that cross-validation selects, and adjusts γ and λ to it.
 */
static bo_status refine(const tuner *t, bo_setting *s)
{
    validation found;
    BO_TRY(cross_validate(t, s, learns(t->desc, s), &found));
    s->optimism = found.optimism;
    for (int i = 1; i <= found.iterations && has_time(t); i++) {
        bool learned = false;
        BO_TRY(next_metric(t, s, &learned));
        if (!learned) break;
        s->iterations = i;
        BO_TRY(evaluate(t, BO_TUNE_ROWS, LIGHT, s));
    }
    if (has_time(t)) BO_TRY(evaluate(t, BO_TUNE_ROWS, NEARBY, s));
    bo_log(t->context, BO_LOG_DEBUG, "%s, scaling %s, %d metrics: left-out error %.4f, %.4f on fresh rows",
           bo_kernel_name(s->kernel), bo_scaling_name(s->scaler.kind), s->iterations, sqrt(s->score),
           sqrt(s->score * s->optimism));
    return BO_OK;
}

/* ---- all candidates ---------------------------------------------------------------------------------------------- */

static double expected(const bo_setting *setting)
{
    return setting->score * setting->growth * setting->optimism;
}

static void sort_settings(bo_setting *settings, size_t count)
{
    for (size_t i = 1; i < count; i++)
        for (size_t k = i; k > 0 && expected(&settings[k]) < expected(&settings[k - 1]); k--) {
            const bo_setting other = settings[k];
            settings[k] = settings[k - 1];
            settings[k - 1] = other;
        }
}

static bo_status screen(const tuner *t, const candidate *c, bo_setting *out)
{
    *out = (bo_setting){
        .kernel = c->kernel, .gamma = t->desc->features.gamma, .lambda = t->desc->lambda, .growth = 1, .optimism = 1};
    BO_TRY(bo_scaler_fit(t->context, c->scaling, t->samples, &out->scaler));
    BO_TRY(evaluate(t, BO_SCREEN_ROWS, FROM_GRID, out));
    bo_log(t->context, BO_LOG_DEBUG, "%s, scaling %s: left-out error %.4f", bo_kernel_name(out->kernel),
           bo_scaling_name(out->scaler.kind), sqrt(out->score));
    return bo_progress(t->context, "comparing kernels", 0, 0);
}

/* Scores the setting on BO_TUNE_ROWS rows. The error of local kernels falls faster with the number of rows: the fall
 * from BO_SCREEN_ROWS rows is continued to all rows, at half the rate, since errors also approach the noise. */
static bo_status rescore(const tuner *t, bo_setting *s)
{
    const double before = s->score, rows = (double)t->samples->rows;
    if (t->samples->rows <= BO_SCREEN_ROWS) return BO_OK;
    BO_TRY(evaluate(t, BO_TUNE_ROWS, NEARBY, s));
    const double doublings = log2((double)bo_min(t->samples->rows, BO_TUNE_ROWS) / BO_SCREEN_ROWS);
    if (rows > BO_TUNE_ROWS) s->growth = pow(fmin(s->score / before, 1), 0.5 * log2(rows / BO_TUNE_ROWS) / doublings);
    bo_log(t->context, BO_LOG_DEBUG, "%s, scaling %s: left-out error %.4f, with all rows about %.4f",
           bo_kernel_name(s->kernel), bo_scaling_name(s->scaler.kind), sqrt(s->score), sqrt(expected(s)));
    return BO_OK;
}

/* The settings whose score is close to the best one, of settings in ascending order. */
static size_t count_close(const bo_setting *settings, size_t count)
{
    static const double close = 1.15;
    size_t kept = 1;
    while (kept < count && settings[kept].score < close * settings[0].score) kept++;
    return kept;
}

bo_status bo_tune(bo_context *context, const bo_machine_desc *desc, const bo_targets *targets,
                  const bo_samples *samples, size_t max_count, bo_setting *out, size_t *count)
{
    BO_SPAN(context, "machine", "tune");
    const double deadline = desc->budget > 0 ? bo_seconds() + 0.6 * desc->budget : INFINITY;
    const tuner t = {context, desc, targets, samples, deadline};
    candidate candidates[CANDIDATES];
    bo_setting settings[CANDIDATES] = {0};
    const size_t all = list_candidates(desc, samples, candidates);
    bo_status status = BO_OK;
    size_t screened = 0;
    for (; status == BO_OK && screened < all && (screened == 0 || has_time(&t)); screened++)
        status = screen(&t, &candidates[screened], &settings[screened]);
    sort_settings(settings, screened);
    const size_t refined = bo_min(screened, bo_max(max_count, REFINED)),
                 kept = bo_max(count_close(settings, screened), refined);
    for (size_t i = 0; status == BO_OK && i < kept && has_time(&t); i++) status = rescore(&t, &settings[i]);
    sort_settings(settings, kept);
    for (size_t i = 0; status == BO_OK && i < refined && has_time(&t); i++) status = refine(&t, &settings[i]);
    sort_settings(settings, refined);
    *count = bo_min(refined, max_count);
    for (size_t i = 0; i < screened; i++) {
        if (status == BO_OK && i < *count)
            out[i] = settings[i];
        else
            bo_setting_free(&settings[i]);
    }
    return status;
}
