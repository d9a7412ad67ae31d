/* Chooses γ and λ in two stages:
 *
 * 1. Coarse: on a few hundred rows, with the exact kernel, over a grid of γ around the median heuristic. One
 *    eigendecomposition per γ gives the exact leave-one-out error of every λ.
 * 2. Fine: a search in factors of two from the best γ, with a line search of λ for each γ. The score is computed with
 *    the features of the machine, because a closed-form kernel can rely on parts of the spectrum where the features
 *    have no frequency. Up to BO_EXACT_ROWS rows the score is exact leave-one-out on all rows; beyond, it is
 *    bo_ridge_score with a quarter and then half of the features. More features allow a more local kernel, so the
 *    change of γ from a quarter to half of the features is applied once more. */
#include "../base/base.h"
#include "../base/rng.h"
#include "../base/trace.h"
#include "../io/sparse.h"
#include "leave_one_out.h"
#include "left_out.h"
#include "ridge.h"
#include "row_map.h"
#include "samples.h"
#include "scaler.h"
#include "search.h"
#include "solvers.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

enum { GRID = 24, PROBE_ROWS = 512 }; /* the probe is the first rows of a random subset */
static const double grid_first = 1e-8, grid_last = 100;
/* k(x, x) is about 1. Below these bounds (γ is relative to the median heuristic) the kernel acts like a polynomial that
 * fits every left-out row and diverges just outside the data. */
static const double lambda_floor = 1e-8, gamma_floor = 1.0 / 32;

/* Scores pairs of γ and λ for stage 2: set a γ, then score several λ. Either exact (loo), or with a machine of fewer
 * features (moments, scored by bo_ridge_score on `probe`). Invariant: if not exact, moments were computed with
 * problem.row_map.phi. */
typedef struct evaluator {
    bo_context *context;
    const bo_features_desc *map;
    const bo_samples *scaled;
    bool exact;
    double spectrum;     /* largest eigenvalue per row, from stage 1 */
    size_t features;     /* of the smaller machine */
    double min_lambda;   /* lower bound of λ */
    double narrowest;    /* lower bound of γ */
    bool by_probability; /* classes, final λ: score by the log loss of left-out rows */
    int tried;           /* values of λ */
    bool cautious;       /* regression, final λ: prefer the larger of equally good λ */
    bo_loo loo;
    bo_fit_problem problem; /* samples: the probe */
    bo_moments moments;
} evaluator;

/* The smallest λ to try: below it, the rounding of features or of their products dominates. */
static double min_lambda_for(const bo_moments *moments, float quantum, double spectrum)
{
    double lowest = lambda_floor;
    if (moments->precision == BO_GRAM_PRECISION_INT8) return fmax(lowest, bo_rounding_floor(quantum, moments->rows));
    while (moments->precision == BO_GRAM_PRECISION_FLOAT32 && lowest < 1 && bo_needs_precision(lowest, spectrum))
        lowest *= 2;
    return lowest;
}

/* The same for an exact kernel: left-out errors are differences of numbers that are rounded relative to the largest
 * eigenvalue, which the trace bounds. */
static double min_lambda_exact(const bo_loo *loo)
{
    double trace = 0;
    for (size_t i = 0; i < loo->rows; i++) trace += loo->kernel[i * loo->rows + i];
    return fmax(lambda_floor, 1e-10 * trace);
}

/* Computes the map for this γ and its moments, in the precision that λ allows. */
static bo_status evaluate_gamma(evaluator *j, double gamma, double lambda)
{
    if (j->exact) {
        bool closed_form = j->map->function == BO_FUNCTION_SECTIONS;
        BO_TRY(bo_loo_kernel(j->context, &j->loo, j->map, gamma, closed_form, j->scaled));
        if (closed_form) j->min_lambda = min_lambda_exact(&j->loo);
        return BO_OK;
    }
    bo_fit_problem *problem = &j->problem;
    bo_features_desc desc = *j->map;
    desc.gamma = gamma;
    desc.features = j->features;
    bo_moments_free(&j->moments);
    bo_features_destroy((bo_features *)problem->row_map.phi);
    problem->row_map.phi = NULL;
    bo_features *phi;
    BO_TRY(bo_features_create(j->context, &desc, &phi));
    problem->row_map.phi = phi;
    const bo_features_desc *map = bo_features_describe(phi);
    bo_gram_precision precision;
    double spectrum = j->spectrum * (double)j->scaled->rows;
    BO_TRY(bo_choose_precision(j->context, problem->desc, map, j->scaled->weights || problem->targets->class_weight,
                               j->scaled->rows, lambda, spectrum, &precision));
    problem->row_map.quantum = precision == BO_GRAM_PRECISION_INT8 ? bo_quantum_of(map) : 0;
    BO_TRY(bo_moments_create(j->context, &problem->row_map, problem->targets->outputs, precision, &j->moments));
    BO_TRY(bo_moments_add(j->context, &j->moments, &problem->row_map, problem->targets, j->scaled, false));
    BO_TRY(bo_moments_spectrum(j->context, &j->moments, problem->intercept, &spectrum));
    j->min_lambda = min_lambda_for(&j->moments, problem->row_map.quantum, spectrum);
    return BO_OK;
}

/* The squared loss penalizes correct scores beyond ±1, and so prefers a larger λ than the log loss. */
static bo_status log_loss(const evaluator *j, const bo_machine_ridge *ridge, double *loss)
{
    const bo_fit_problem *problem = &j->problem;
    bo_left_out rows;
    BO_TRY(bo_ridge_left_out(j->context, ridge, &problem->row_map, problem->targets, problem->samples,
                             problem->intercept, &rows));
    bo_status status = bo_left_out_log_loss(j->context, &rows, loss);
    bo_left_out_free(&rows);
    return status;
}

static bo_status evaluate_lambda(evaluator *j, double lambda, double *error)
{
    BO_TRY(bo_progress(j->context, "choosing lambda", ++j->tried, 0));
    if (j->exact) return bo_loo_point(j->context, &j->loo, lambda, error);
    assert(j->moments.features == bo_features_describe(j->problem.row_map.phi)->features);
    const bo_fit_problem *problem = &j->problem;
    bo_penalty penalty = problem->penalty;
    penalty.lambda = lambda;
    bo_machine_ridge ridge;
    bo_status status =
        bo_ridge_solve(j->context, &j->moments, &penalty, problem->intercept, problem->desc->seed, &ridge);
    if (status == BO_NUMERIC) {
        *error = INFINITY;
        return BO_OK;
    }
    BO_TRY(status);
    status = j->by_probability ? log_loss(j, &ridge, error)
                               : bo_ridge_score(j->context, &ridge, &problem->row_map, problem->targets,
                                                problem->samples, problem->intercept, error);
    *error /= (double)ridge.outputs;
    bo_ridge_free(&ridge);
    return status;
}

/* The vertex of the parabola through three points one step apart, as an offset in steps from the middle one. */
static double vertex(double left, double middle, double right)
{
    double curvature = left - 2 * middle + right;
    if (!(curvature > 0) || !isfinite(curvature)) return 0;
    return fmax(-0.5, fmin(0.5, 0.5 * (left - right) / curvature));
}

/* Minimizes the error over λ in factors of 4 from *lambda, then refines with a parabola. */
static bo_status best_lambda(evaluator *j, bool fixed, double *lambda, double *error)
{
    const double step = 4;
    if (!fixed) *lambda = fmax(*lambda, j->min_lambda);
    BO_TRY(evaluate_lambda(j, *lambda, error));
    if (fixed) return BO_OK;
    double up, down;
    BO_TRY(evaluate_lambda(j, *lambda * step, &up));
    if (up < *error) {
        down = *error;
        for (int i = 0; i < 12 && up < *error; i++) {
            down = *error;
            *error = up;
            *lambda *= step;
            BO_TRY(evaluate_lambda(j, *lambda * step, &up));
        }
    } else {
        BO_TRY(evaluate_lambda(j, *lambda / step, &down));
        for (int i = 0; i < 12 && down < *error && *lambda > j->min_lambda; i++) {
            up = *error;
            *error = down;
            *lambda /= step;
            BO_TRY(evaluate_lambda(j, *lambda / step, &down));
        }
    }
    /* If the errors differ by less than 0.3%, the larger λ is taken: it is more stable on rows unlike the left-out
     * rows. */
    bool tamer = j->cautious && up <= 1.003 * *error;
    *lambda = tamer ? *lambda * step : fmax(*lambda * pow(step, vertex(down, *error, up)), j->min_lambda);
    return BO_OK;
}

bo_status bo_search_lambda(bo_context *context, const bo_fit_problem *problem, bo_moments *moments, double spectrum,
                           double *lambda)
{
    BO_SPAN(context, "machine", "search lambda");
    evaluator j = {.context = context,
                   .problem = *problem,
                   .moments = *moments,
                   .min_lambda = min_lambda_for(moments, problem->row_map.quantum, spectrum),
                   .by_probability = problem->targets->classes > 0,
                   .cautious = problem->targets->classes == 0};
    double error;
    *lambda = problem->penalty.lambda;
    return best_lambda(&j, false, lambda, &error);
}

bo_status bo_search_lambda_exact(bo_context *context, const bo_loo *loo, double *lambda)
{
    BO_SPAN(context, "machine", "search lambda");
    evaluator j = {
        .context = context, .exact = true, .loo = *loo, .min_lambda = min_lambda_exact(loo), .cautious = true};
    double error;
    return best_lambda(&j, false, lambda, &error);
}

static bo_status evaluate_point(evaluator *j, bool fixed_lambda, double gamma, double lambda, bo_search_point *out)
{
    *out = (bo_search_point){gamma, lambda, INFINITY};
    BO_TRY(evaluate_gamma(j, gamma, lambda));
    return best_lambda(j, fixed_lambda, &out->lambda, &out->error);
}

/* Factors of two in γ, larger values first, since more rows usually prefer a more local kernel. */
static bo_status walk(evaluator *j, bool fixed_gamma, bool fixed_lambda, bo_search_point *best)
{
    enum { STEPS = 3 };
    const double step = 2;
    BO_TRY(evaluate_point(j, fixed_lambda, best->gamma, best->lambda, best));
    if (fixed_gamma) return BO_OK;
    bo_search_point up, down;
    BO_TRY(evaluate_point(j, fixed_lambda, best->gamma * step, best->lambda, &up));
    if (up.error < best->error) {
        down = *best;
        for (int i = 0; i < STEPS && up.error < best->error; i++) {
            BO_TRY(bo_progress(j->context, "choosing gamma", 2 + i, 0));
            down = *best;
            *best = up;
            BO_TRY(evaluate_point(j, fixed_lambda, best->gamma * step, best->lambda, &up));
        }
    } else {
        BO_TRY(evaluate_point(j, fixed_lambda, best->gamma / step, best->lambda, &down));
        for (int i = 0; i < STEPS && down.error < best->error && best->gamma > j->narrowest; i++) {
            BO_TRY(bo_progress(j->context, "choosing gamma", 2 + i, 0));
            up = *best;
            *best = down;
            BO_TRY(evaluate_point(j, fixed_lambda, best->gamma / step, best->lambda, &down));
        }
    }
    double offset = vertex(down.error, best->error, up.error);
    best->gamma *= pow(step, offset);
    /* interpolates λ like γ */
    double toward = offset > 0 ? up.lambda : down.lambda;
    best->lambda *= pow(toward / best->lambda, fabs(offset));
    return BO_OK;
}

/* The number of features, or 0 for exact maps, which have a fixed size. */
static size_t growing_features(const bo_features_desc *map)
{
    bool sized = map->kernel <= BO_KERNEL_ARCCOS || map->kernel == BO_KERNEL_CUSTOM || map->kernel == BO_KERNEL_NNGP ||
                 map->kernel == BO_KERNEL_NTK || map->function == BO_FUNCTION_TENSORSKETCH ||
                 map->function == BO_FUNCTION_LANDMARKS;
    return sized ? map->features : 0;
}

/* Searches with a quarter, then with half of the features, and extrapolates the change of γ. */
static bo_status walk_growing(evaluator *j, bool fixed_gamma, bool fixed_lambda, bo_search_point *best)
{
    enum { MIN_FEATURES = 128 }; /* with fewer features the best γ differs */
    size_t features = growing_features(j->map),
           step = 2 * (j->map->custom_per_frequency ? j->map->custom_per_frequency : 1);
    size_t min_features = j->map->draw == BO_DRAW_MOMENT
                              ? 4 * j->map->dim
                              : MIN_FEATURES; /* moment matching needs more than dim frequencies */
    size_t quarter_size = bo_round_up(features / 4, step), half_size = bo_round_up(features / 2, step);
    if (half_size > BO_SEARCH_FEATURES) half_size = bo_round_up(BO_SEARCH_FEATURES, step);
    if (quarter_size > half_size / 2) quarter_size = bo_round_up(half_size / 2, step);
    if (quarter_size < min_features)
        quarter_size = features < min_features ? features : bo_round_up(min_features, step);
    if (half_size < quarter_size) half_size = quarter_size;
    if (!features) quarter_size = half_size = j->map->features;
    if (features && !fixed_gamma) {
        j->features = quarter_size;
        BO_TRY(walk(j, fixed_gamma, fixed_lambda, best));
    }
    double quarter = best->gamma;
    j->features = half_size;
    if (half_size > quarter_size || fixed_gamma || !features) BO_TRY(walk(j, fixed_gamma, fixed_lambda, best));
    if (half_size > quarter_size && !fixed_gamma) best->gamma *= fmax(1, fmin(1.5, best->gamma / quarter));
    return BO_OK;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Distances of two rows; adds |x_a|² to *norm (dense rows only: kernels of x·y have no sparse rows). */
static bo_sparse_pair compare_rows(const bo_samples *scaled, size_t a, size_t b, const float *scales, double *norm)
{
    if (scaled->sparse) return bo_sparse_compare(scaled->sparse, a, b, scales, 0);
    const float *x = scaled->x + a * scaled->dim, *y = scaled->x + b * scaled->dim;
    bo_sparse_pair pair = {0};
    for (size_t k = 0; k < scaled->dim; k++) {
        double scale = scales ? (double)scales[k] : 1, a_k = (double)x[k] / scale, d = a_k - (double)y[k] / scale;
        pair.sum += fabs(d);
        pair.square += d * d;
        *norm += a_k * a_k;
    }
    return pair;
}

bo_status bo_typical_gamma(bo_context *context, const bo_features_desc *map, const bo_samples *scaled, uint64_t seed,
                           double *out)
{
    bo_kernel kernel = map->kernel;
    const float *scales = map->length_scales;
    enum { PAIRS = 1000 };
    double *distance = bo_alloc_raw(context, PAIRS, sizeof *distance, "distances");
    if (!distance) return BO_MEMORY;
    bo_rng rng = bo_rng_make(seed, bo_rng_stream("machines.median", 0));
    double norm = 0;
    for (size_t p = 0; p < PAIRS; p++) {
        size_t a = (size_t)bo_rng_below(&rng, scaled->rows), b = (size_t)bo_rng_below(&rng, scaled->rows - 1);
        b += b >= a;
        const bo_sparse_pair pair = compare_rows(scaled, a, b, scales, &norm);
        distance[p] = kernel == BO_KERNEL_LAPLACIAN ? pair.sum : pair.square;
    }
    qsort(distance, PAIRS, sizeof *distance, compare_doubles);
    double middle = distance[PAIRS / 2];
    if (middle == 0) middle = distance[PAIRS - 1];
    bo_free(distance);
    if (middle == 0) middle = 1;
    switch (kernel) {
    case BO_KERNEL_RBF:
    case BO_KERNEL_RATIONAL_QUADRATIC:
    case BO_KERNEL_LAPLACIAN:
        *out = 1 / middle;
        break;
    case BO_KERNEL_CAUCHY:
    case BO_KERNEL_MATERN12:
    case BO_KERNEL_MATERN32:
    case BO_KERNEL_MATERN52:
        *out = 1 / sqrt(middle);
        break;
    default:
        *out = norm > 0 ? PAIRS / norm : 1;
        break;
    }
    return BO_OK;
}

/* Stage 1. */
static bo_status coarse(bo_context *context, const bo_features_desc *map, const bo_targets *targets,
                        const bo_samples *scaled, bool intercept, const double *gammas, size_t count,
                        const double *lambdas, size_t lambda_count, bo_search_point *best, double *largest)
{
    bo_loo loo;
    BO_TRY(bo_loo_create(context, scaled, targets, intercept, &loo));
    double error[GRID];
    best->error = INFINITY;
    bo_status status = BO_OK;
    for (size_t g = 0; status == BO_OK && g < count; g++) {
        double top;
        status = bo_loo_kernel(context, &loo, map, gammas[g], true, scaled);
        if (status == BO_OK) status = bo_loo_grid(context, &loo, lambdas, lambda_count, error, &top);
        for (size_t l = 0; status == BO_OK && l < lambda_count; l++)
            if (error[l] < best->error) {
                *best = (bo_search_point){gammas[g], lambdas[l], error[l]};
                *largest = top;
            }
        if (status == BO_OK) status = bo_progress(context, "choosing gamma", (double)(g + 1), (double)count);
    }
    bo_loo_free(&loo);
    if (status == BO_OK && !isfinite(best->error)) { /* every λ interpolates the sample: take the middle of the grid */
        *best = (bo_search_point){gammas[count / 2], lambdas[lambda_count / 2], INFINITY};
        *largest = (double)scaled->rows;
    }
    return status;
}

static bo_status fine(bo_context *context, const bo_machine_desc *desc, const bo_features_desc *map,
                      const bo_targets *targets, const bo_samples *scaled, bool fixed_gamma, double typical,
                      double spectrum, bo_search_point *best)
{
    bo_sparse view;
    const bo_samples probe = bo_samples_slice(scaled, 0, scaled->rows < PROBE_ROWS ? scaled->rows : PROBE_ROWS, &view);
    evaluator j = {
        .context = context,
        .map = map,
        .scaled = scaled,
        .exact = scaled->rows <= BO_EXACT_ROWS || map->function == BO_FUNCTION_SECTIONS,
        .spectrum = spectrum,
        .min_lambda = lambda_floor,
        .narrowest = typical * gamma_floor,
        .problem = {
            desc, &probe, {NULL, NULL, 0}, targets, {0, desc->noise, desc->dropout}, !desc->no_intercept, 0, NULL}};
    bo_status status;
    if (j.exact) {
        status = bo_loo_create(context, scaled, targets, j.problem.intercept, &j.loo);
        if (status == BO_OK) status = walk(&j, fixed_gamma, desc->lambda > 0, best);
    } else {
        status = walk_growing(&j, fixed_gamma, desc->lambda > 0, best);
    }
    bo_loo_free(&j.loo);
    bo_moments_free(&j.moments);
    bo_features_destroy((bo_features *)j.problem.row_map.phi);
    return status;
}

/* Rows for stage 2: all if there are at most 10,000, otherwise at least 10,000 and at most half of them. Exact kernels
 * take fewer. */
static size_t fine_rows(const bo_features_desc *map, size_t available, size_t rows)
{
    enum { SMALL = 10000 };
    if (map->function == BO_FUNCTION_SECTIONS) return available < BO_EXACT_ROWS ? available : BO_EXACT_ROWS;
    if (available <= SMALL) return available;
    size_t half = rows / 2 > SMALL ? rows / 2 : SMALL;
    return half < available ? half : available;
}

bo_status bo_samples_scaled(bo_context *context, const bo_scaler *scaler, const bo_samples *samples, size_t count,
                            uint64_t seed, bo_samples *out)
{
    BO_TRY(bo_samples_subset(context, samples, count, seed, out));
    const bo_input_view inputs = bo_samples_inputs(out, 0, out->rows);
    out->dim = scaler->kept;
    if (out->x) {
        float *x = bo_alloc_raw(context, out->rows * scaler->kept, sizeof *x, "scaled rows");
        bo_status status = x ? bo_scaler_apply(context, scaler, &inputs, x) : BO_MEMORY;
        bo_free((float *)out->x);
        out->x = x;
        if (status != BO_OK) bo_samples_free(out);
        return status;
    }
    bo_sparse_block *scaled;
    bo_status status = bo_scaler_apply_sparse(context, scaler, &inputs.sparse, &scaled);
    if (status != BO_OK) {
        bo_samples_free(out);
        return status;
    }
    bo_sparse_destroy(out->sparse);
    out->sparse = &scaled->rows;
    return BO_OK;
}

static size_t fill_gammas(const bo_features_desc *map, double typical, double *gammas)
{
    static const double factors[] = {1.0 / 32, 1.0 / 8, 1.0 / 2, 2, 8};
    /* ReLU features are homogeneous: γ only rescales λ */
    bool network = map->kernel == BO_KERNEL_NNGP || map->kernel == BO_KERNEL_NTK;
    bool homogeneous = network && map->activation == BO_HIDDEN_RELU && map->bias_variance == 0;
    if (map->gamma > 0 || map->kernel == BO_KERNEL_ARCCOS || homogeneous) {
        gammas[0] = map->gamma > 0 ? map->gamma : network ? typical : 1;
        return 1;
    }
    for (size_t i = 0; i < sizeof factors / sizeof *factors; i++) gammas[i] = typical * factors[i];
    return sizeof factors / sizeof *factors;
}

static size_t fill_lambdas(const bo_machine_desc *desc, double *lambdas)
{
    lambdas[0] = desc->lambda;
    if (desc->lambda > 0) return 1;
    for (size_t l = 0; l < GRID; l++) lambdas[l] = grid_first * pow(grid_last / grid_first, (double)l / (GRID - 1));
    return GRID;
}

/* The λ that suits another γ: k ≈ 1 - (γ d)^p near 0, so that λ is in proportion to γ^p; p = 1 for kernels that are not
 * smooth. */
static double carried_lambda(const evaluator *j, const bo_search_point *best, double gamma)
{
    const bool rough = j->map->kernel == BO_KERNEL_LAPLACIAN || j->map->kernel == BO_KERNEL_MATERN12;
    return fmax(rough ? best->lambda * gamma / best->gamma : best->lambda, j->min_lambda);
}

/* Walks from *best in factors of two of γ, in one direction, while the error decreases by at least 0.2%. */
static bo_status walk_toward(evaluator *j, double factor, bool fixed_lambda, bo_search_point *best, bool *moved)
{
    enum { STEPS = 4 };
    *moved = false;
    for (int i = 0; i < STEPS && best->gamma * factor >= j->narrowest; i++) {
        const double gamma = best->gamma * factor;
        bo_search_point next = {gamma, fixed_lambda ? best->lambda : carried_lambda(j, best, gamma), INFINITY};
        BO_TRY(evaluate_gamma(j, gamma, next.lambda));
        BO_TRY(evaluate_lambda(j, next.lambda, &next.error));
        if (!(next.error < 0.998 * best->error)) return BO_OK;
        *best = next;
        *moved = true;
    }
    return BO_OK;
}

/* A search for the closed form, where every error costs a factorization: λ, then γ, then λ again if γ changed. `light`:
 * γ only, with a λ that suits it. */
static bo_status walk_closed_form(evaluator *j, bool fixed_gamma, bool fixed_lambda, bool light, bo_search_point *best)
{
    bool moved = false;
    if (light) {
        best->lambda = fixed_lambda ? best->lambda : fmax(best->lambda, j->min_lambda);
        BO_TRY(evaluate_gamma(j, best->gamma, best->lambda));
        BO_TRY(evaluate_lambda(j, best->lambda, &best->error));
    } else {
        BO_TRY(evaluate_point(j, fixed_lambda, best->gamma, best->lambda, best));
    }
    if (fixed_gamma) return BO_OK;
    BO_TRY(walk_toward(j, 2, fixed_lambda, best, &moved));
    if (!moved) BO_TRY(walk_toward(j, 0.5, fixed_lambda, best, &moved));
    return moved && !fixed_lambda && !light ? evaluate_point(j, false, best->gamma, best->lambda, best) : BO_OK;
}

bo_status bo_search_closed_form(bo_context *context, const bo_machine_desc *desc, const bo_features_desc *map,
                                const bo_targets *targets, const bo_samples *scaled, bool light, bo_search_point *best,
                                bo_loo *loo)
{
    const bool fixed_gamma = desc->features.gamma > 0, fixed_lambda = desc->lambda > 0;
    enum { SKETCH_ROWS = 250, MIN_SCORED = 800 }; /* the walk corrects the result of the few rows */
    double typical, largest, gammas[8], lambdas[GRID];
    BO_TRY(bo_typical_gamma(context, map, scaled, desc->seed, &typical));
    if (!(best->gamma > 0)) {
        bo_features_desc open = *map;
        open.gamma = desc->features.gamma;
        const bo_samples few = bo_samples_slice(scaled, 0, bo_min(scaled->rows, SKETCH_ROWS), NULL);
        const size_t gamma_count = fill_gammas(&open, typical, gammas);
        const size_t lambda_count = fill_lambdas(desc, lambdas);
        BO_TRY(coarse(context, map, targets, &few, !desc->no_intercept, gammas, gamma_count, lambdas, lambda_count,
                      best, &largest));
    }
    evaluator j = {.context = context,
                   .map = map,
                   .scaled = scaled,
                   .exact = true,
                   .min_lambda = lambda_floor,
                   .narrowest = typical * gamma_floor,
                   .problem = {desc, scaled, {NULL, NULL, 0}, targets, {0, 0, 0}, !desc->no_intercept, 0, NULL}};
    bo_status status = bo_loo_create(context, scaled, targets, j.problem.intercept, &j.loo);
    /* with many rows, scoring half of them is as accurate as scoring all, at an eighth of the cost of the inverse
     * factor */
    if (status == BO_OK) j.loo.scored = bo_max(bo_min(scaled->rows, MIN_SCORED), scaled->rows / 2);
    if (status == BO_OK) status = walk_closed_form(&j, fixed_gamma, fixed_lambda, light, best);
    *loo = j.loo;
    return status;
}

bo_status bo_search(bo_context *context, const bo_machine_desc *desc, const bo_features_desc *map,
                    const bo_scaler *scaler, const bo_targets *targets, const bo_samples *samples, size_t rows,
                    bo_search_choice *out)
{
    BO_SPAN(context, "machine", "search");
    bo_features_desc plain = *map; /* the search does not use data-dependent sampling */
    plain.sampling = BO_SAMPLING_DRAWN;
    double begin = bo_seconds(), gammas[8], lambdas[GRID], largest = 0, typical = 1;
    bo_samples few = {0}, many = {0};
    bo_search_point best = {0};
    bo_status status = bo_samples_scaled(context, scaler, samples, BO_COARSE_ROWS, desc->seed, &few);
    plain.sample = few.x;
    plain.sample_rows = few.rows;
    plain.sample_stride = few.dim;
    if (status == BO_OK) status = bo_typical_gamma(context, map, &few, desc->seed, &typical);
    size_t gamma_count = fill_gammas(map, typical, gammas), lambda_count = fill_lambdas(desc, lambdas);
    if (status == BO_OK)
        status = coarse(context, &plain, targets, &few, !desc->no_intercept, gammas, gamma_count, lambdas, lambda_count,
                        &best, &largest);
    if (status == BO_OK) {
        out->spectrum = largest * (double)rows / (double)few.rows;
        bool open = gamma_count > 1 || lambda_count > 1;
        if (open)
            status =
                bo_samples_scaled(context, scaler, samples, fine_rows(map, samples->rows, rows), desc->seed, &many);
        if (open && status == BO_OK &&
            map->function == BO_FUNCTION_LANDMARKS) { /* rows other than the probe, if there are enough */
            const size_t skip = many.rows > map->features + PROBE_ROWS ? PROBE_ROWS : 0;
            plain.sample = many.x + skip * many.dim;
            plain.sample_rows = many.rows - skip;
        }
        if (status == BO_OK && open)
            status = fine(context, desc, &plain, targets, &many, gamma_count == 1, typical, largest / (double)few.rows,
                          &best);
    }
    bo_samples_free(&few);
    bo_samples_free(&many);
    out->gamma = best.gamma;
    out->lambda = best.lambda;
    out->score = gamma_count > 1 || lambda_count > 1 ? sqrt(best.error) : NAN;
    out->seconds = bo_seconds() - begin;
    return status;
}
