/* Chooses kernel, scaling and metric by the leave-one-out error of kernel ridge regression on a sample of the rows.
 *
 * The metric is learned as in recursive feature machines (Radhakrishnan et al., arXiv 2212.13881): fit f with the kernel
 * k(Ax, Ay); measure the average outer product of its gradients over the rows, G = mean ∇f ∇fᵀ in the scaled inputs; take a power
 * of G as the new metric AᵀA; repeat. The Laplacian kernel, a product over the columns, takes the diagonal of G; kernels of the
 * 2-norm take all of it.
 *
 * 1. Screen: every candidate, without a metric, on BO_SCREEN_ROWS rows.
 * 2. Compare: those close to the best on BO_TUNE_ROWS rows, by the error that is expected with all rows.
 * 3. Refine: the best of them learn metrics. A metric that was learned from the rows that judge it looks better than it is, so each
 *    iteration has to reduce the squared error by at least 1%. */
#include "../base/trace.h"
#include "../features/kernel_block.h"
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

static bool asks_for_metric(const bo_machine_desc *desc)
{
    return desc->metric == BO_METRIC_AUTO ? desc->choose_kernel : desc->metric != BO_METRIC_NONE;
}

static bool learns(const bo_machine_desc *desc, const bo_setting *setting)
{
    return asks_for_metric(desc) && has_gradient(setting->kernel);
}

bool bo_tunes(const bo_machine_desc *desc, const bo_samples *samples)
{
    return !samples->sparse && (desc->choose_kernel || asks_for_metric(desc));
}

/* ---- candidates ----------------------------------------------------------------------------------------------- */

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
        bool seen = false;
        for (size_t k = 0; k < count; k++) seen = seen || (out[k].kernel == c.kernel && out[k].scaling == c.scaling);
        if (!seen) out[count++] = c;
    }
    return count;
}

/* ---- one candidate -------------------------------------------------------------------------------------------- */

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

/* Scores the setting on rows of the samples, and refines γ and λ. `rows` holds the scaled rows afterwards. */
static bo_status score(const tuner *t, size_t count, effort how, bo_setting *s, bo_samples *rows, bo_loo *loo)
{
    BO_TRY(bo_samples_scaled(t->context, &s->scaler, t->samples, count, t->desc->seed, rows));
    const bo_features_desc map = map_of(t, s);
    bo_search_point point = {how == FROM_GRID ? 0 : s->gamma, s->lambda, INFINITY};
    BO_TRY(bo_search_closed_form(t->context, t->desc, &map, t->targets, rows, how == LIGHT, &point, loo));
    s->gamma = point.gamma;
    s->lambda = point.lambda;
    s->score = point.error;
    return BO_OK;
}

static bo_status judge(const tuner *t, size_t count, effort how, bo_setting *s)
{
    bo_samples rows = {0};
    bo_loo loo = {0};
    bo_status status = score(t, count, how, s, &rows, &loo);
    bo_samples_free(&rows);
    bo_loo_free(&loo);
    return status;
}

/* G in the scaled inputs before the metric, from gradients after it: G = Aᵀ G' A. */
static void pull_back(const bo_metric *metric, size_t dim, const double *after, double *g)
{
    if (!metric->a) {
        memcpy(g, after, dim * dim * sizeof *g);
        return;
    }
    memset(g, 0, dim * dim * sizeof *g);
    if (metric->diagonal) {
        for (size_t i = 0; i < dim; i++)
            for (size_t j = 0; j < dim; j++)
                g[i * dim + j] = (double)metric->a[i] * (double)metric->a[j] * after[i * dim + j];
        return;
    }
    for (size_t p = 0; p < metric->rank; p++)
        for (size_t q = 0; q < metric->rank; q++)
            for (size_t i = 0; i < dim; i++)
                for (size_t j = 0; j < dim; j++)
                    g[i * dim + j] +=
                        (double)metric->a[p * dim + i] * after[p * metric->rank + q] * (double)metric->a[q * dim + j];
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
    if (status == BO_OK) pull_back(&s->scaler.metric, s->scaler.dim, after, g);
    bo_free(alpha);
    bo_free(gradient);
    bo_free(after);
    return status;
}

/* ---- the metric ------------------------------------------------------------------------------------------------ */

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
    loo.judged = 1; /* the solution is needed, not the error */
    if (status == BO_OK) status = bo_loo_kernel(t->context, &loo, &map, s->gamma, true, &rows);
    if (status == BO_OK) status = outer_product(t, s, &rows, &loo, g);
    if (status == BO_OK) {
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

/* Learns the metric of a setting while it reduces the error, and adjusts γ and λ to it. */
static bo_status learn(const tuner *t, bo_setting *best)
{
    bo_setting next = {0};
    bo_status status = copy_setting(t->context, best, &next);
    for (int i = 1; status == BO_OK && i <= ITERATIONS && has_time(t); i++) {
        bool learned = false;
        status = bo_progress(t->context, "learning the metric", i, ITERATIONS);
        if (status == BO_OK) status = next_metric(t, &next, &learned);
        if (status != BO_OK || !learned) break;
        next.iterations = i;
        status = judge(t, BO_TUNE_ROWS, LIGHT, &next);
        bo_log(t->context, BO_LOG_DEBUG, "%s, scaling %s, metric %d: left-out error %.4f (before: %.4f)",
               bo_kernel_name(next.kernel), bo_scaling_name(next.scaler.kind), next.iterations, sqrt(next.score),
               sqrt(best->score));
        const bool better = next.score < gain_of_metric * best->score;
        if (status != BO_OK || !better) break;
        status = copy_setting(t->context, &next, best);
    }
    bo_setting_free(&next);
    return status == BO_OK && has_time(t) ? judge(t, BO_TUNE_ROWS, NEARBY, best) : status;
}

/* ---- all candidates --------------------------------------------------------------------------------------------- */

static double expected(const bo_setting *setting)
{
    return setting->score * setting->growth;
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
    *out = (bo_setting){.kernel = c->kernel, .gamma = t->desc->features.gamma, .lambda = t->desc->lambda, .growth = 1};
    BO_TRY(bo_scaler_fit(t->context, c->scaling, t->samples, &out->scaler));
    BO_TRY(judge(t, BO_SCREEN_ROWS, FROM_GRID, out));
    bo_log(t->context, BO_LOG_DEBUG, "%s, scaling %s: left-out error %.4f", bo_kernel_name(out->kernel),
           bo_scaling_name(out->scaler.kind), sqrt(out->score));
    return bo_progress(t->context, "comparing kernels", 0, 0);
}

/* Scores the setting on BO_TUNE_ROWS rows. The error of local kernels falls faster with the number of rows: the fall from
 * BO_SCREEN_ROWS rows is continued to all rows, at half the rate, since errors also approach the noise. */
static bo_status rescore(const tuner *t, bo_setting *s)
{
    const double before = s->score, rows = (double)t->samples->rows;
    if (t->samples->rows <= BO_SCREEN_ROWS) return BO_OK;
    BO_TRY(judge(t, BO_TUNE_ROWS, NEARBY, s));
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
                  const bo_samples *samples, size_t most, bo_setting *out, size_t *count)
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
    const size_t refined = bo_min(screened, bo_max(most, REFINED)),
                 kept = bo_max(count_close(settings, screened), refined);
    for (size_t i = 0; status == BO_OK && i < kept && has_time(&t); i++) status = rescore(&t, &settings[i]);
    sort_settings(settings, kept);
    for (size_t i = 0; status == BO_OK && i < refined && has_time(&t); i++)
        status = learns(desc, &settings[i]) ? learn(&t, &settings[i]) : judge(&t, BO_TUNE_ROWS, NEARBY, &settings[i]);
    sort_settings(settings, refined);
    *count = bo_min(refined, most);
    for (size_t i = 0; i < screened; i++) {
        if (status == BO_OK && i < *count)
            out[i] = settings[i];
        else
            bo_setting_free(&settings[i]);
    }
    return status;
}
