/* Adam (Kingma and Ba 2015) on ½ Σ w|f(x) - y|²/n for f = β·(φ - center) + mean, from β = 0.
 *
 * A step of Adam moves every coefficient by about the same amount, independent of the magnitude of its gradient. To
 * first order, and without momentum, it changes f(x) by -η Σ_p φ_p(x) sign(Σ_i r_i φ_p(x_i)), r the residuals. With
 * features of size 1/√R and η = c / Σ_p |φ_p| this sum has a limit as R → ∞, which is not a kernel of x and x_i: it is
 * not linear in the residuals. With φ = gradients of a wide network (function network, kernel ntk) it is the
 * infinite-width limit of that network trained by Adam in the tangent parametrization. The step size c and the number
 * of steps replace λ as the regularization; the rate decreases linearly to 0. Both are chosen by the error on a fifth
 * of the rows, and then all rows are fitted. */
#include "../base/base.h"
#include "../base/rng.h"
#include "../features/enums.h"
#include "../math/linalg.h"
#include "estimate.h"
#include "left_out.h"
#include "machine.h"
#include "passes.h"
#include "row_map.h"
#include "samples.h"
#include "solvers.h"

#include <math.h>
#include <string.h>

enum { MAX_BATCH = 256, MIN_BATCH = 16, SHORT_RUN = 500, LONG_RUN = 4000, MIN_HELD_OUT = 4 };

typedef struct adam {
    bo_context *context;
    const bo_fit_problem *problem; /* its samples are the rows of this run */
    size_t n, features, outputs, batch;
    double *center, *squares, *mean;
    double weight, reach; /* reach: the mean of Σ_p |φ_p - center_p| over rows */
    float *kept;          /* n x features: centered features of all rows, or NULL */
    float *z, *scores, *gradient;
    float *beta, *first, *second; /* coefficients and their moments */
    size_t *order;
    void *workspace; /* scratch of the products */
} adam;

static void adam_free(adam *a)
{
    void *blocks[] = {a->center,   a->squares, a->mean,  a->kept,   a->z,     a->scores,
                      a->gradient, a->beta,    a->first, a->second, a->order, a->workspace};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) bo_free(blocks[i]);
}

/* Centers features and multiplies them by √w; rows are order[first…], or first… if order is NULL. */
static void center(const adam *a, size_t rows, const size_t *order, size_t first, float *z)
{
    for (size_t i = 0; i < rows; i++) {
        size_t row = order ? order[first + i] : first + i;
        float root = bo_targets_root_weight(a->problem->targets, a->problem->samples, row), *at = z + i * a->features;
        for (size_t j = 0; j < a->features; j++) at[j] = root * (at[j] - (float)a->center[j]);
    }
}

/* Keeps the features of all rows if they take at most `memory` bytes, and measures their reach on a block. */
static bo_status keep_features(adam *a, double memory)
{
    size_t n = a->n, features = a->features, block = n < BO_MACHINE_BLOCK ? n : BO_MACHINE_BLOCK;
    if (4 * (double)n * (double)features <= memory)
        a->kept = bo_alloc_raw(a->context, n * features, sizeof(float), "the features of all rows");
    float *some = bo_alloc_raw(a->context, block * features, sizeof(float), "a block of features");
    if (!some) return BO_MEMORY;
    bo_status status = BO_OK;
    for (size_t first = 0; status == BO_OK && first < (a->kept ? n : block); first += block) {
        size_t rows = n - first < block ? n - first : block;
        float *z = a->kept ? a->kept + first * features : some;
        status = bo_problem_features(a->context, a->problem, first, rows, z, features);
        if (status != BO_OK) break;
        center(a, rows, NULL, first, z);
        double sum = 0;
        for (size_t k = 0; k < rows * features; k++) sum += fabs((double)z[k]);
        if (first == 0) a->reach = sum / (double)rows;
    }
    bo_free(some);
    return status;
}

static bo_status adam_create(bo_context *context, const bo_fit_problem *problem, adam *a)
{
    size_t n = problem->samples->rows, features = bo_features_describe(problem->row_map.phi)->features;
    size_t outputs = problem->targets->outputs, batch = n / 8;
    batch = batch > MAX_BATCH ? MAX_BATCH : batch < MIN_BATCH ? MIN_BATCH : batch;
    if (batch > n) batch = n;
    *a = (adam){
        .context = context, .problem = problem, .n = n, .features = features, .outputs = outputs, .batch = batch};
    a->center = bo_alloc(context, features, sizeof(double), "the coefficients");
    a->squares = bo_alloc(context, features, sizeof(double), "the coefficients");
    a->mean = bo_alloc(context, outputs, sizeof(double), "the coefficients");
    a->z = bo_alloc_raw(context, batch * features, sizeof(float), "a batch");
    a->scores = bo_alloc_raw(context, batch * outputs, sizeof(float), "a batch");
    a->gradient = bo_alloc_raw(context, features * outputs, sizeof(float), "the gradient");
    a->beta = bo_alloc(context, features * outputs, sizeof(float), "the coefficients");
    a->first = bo_alloc(context, features * outputs, sizeof(float), "the moments of the gradient");
    a->second = bo_alloc(context, features * outputs, sizeof(float), "the moments of the gradient");
    a->order = bo_alloc_raw(context, n, sizeof(size_t), "the order of rows");
    size_t scores = bo_gemm_bytes(context, BO_PRECISION_FLOAT32, batch, outputs, features),
           gradient = bo_gemm_bytes(context, BO_PRECISION_FLOAT32, features, outputs, batch);
    a->workspace = bo_alloc_raw(context, scores > gradient ? scores : gradient, 1, "a batch");
    if (!a->workspace || !a->center || !a->squares || !a->mean || !a->z || !a->scores || !a->gradient || !a->beta ||
        !a->first || !a->second || !a->order)
        return BO_MEMORY;
    double largest_norm;
    BO_TRY(bo_pass_means(context, problem, a->center, a->squares, a->mean, &a->weight, &largest_norm));
    return keep_features(a, 0.25 * (double)bo_fit_memory(problem->desc).bytes);
}

/* Features of the rows order[first…] into a->z. */
static bo_status batch_features(adam *a, size_t first, size_t rows)
{
    if (a->kept) {
        for (size_t i = 0; i < rows; i++)
            memcpy(a->z + i * a->features, a->kept + a->order[first + i] * a->features, a->features * sizeof(float));
        return BO_OK;
    }
    bo_samples batch;
    BO_TRY(bo_samples_gather(a->context, a->problem->samples, a->order + first, rows, &batch));
    const bo_input_view inputs = bo_samples_inputs(&batch, 0, rows);
    bo_status status = bo_row_map_apply(a->context, &a->problem->row_map, &inputs, a->z, a->features);
    bo_samples_free(&batch);
    if (status == BO_OK) center(a, rows, a->order, first, a->z);
    return status;
}

/* √w times the target of a row, without its mean. */
static float target(const adam *a, size_t row, size_t t)
{
    const bo_samples *samples = a->problem->samples;
    double root = (double)bo_targets_root_weight(a->problem->targets, samples, row);
    double y = (double)bo_targets_value(a->problem->targets, samples->y + row * samples->targets, t);
    return (float)(root * (y - a->mean[t]));
}

static bo_status step(adam *a, size_t first, size_t rows, int number, double rate)
{
    static const float fade_first = 0.9f, fade_second = 0.999f;
    size_t features = a->features, t = a->outputs;
    BO_TRY(batch_features(a, first, rows));
    bo_gemm_in(a->context, BO_PRECISION_FLOAT32, false, false, rows, t, features, 1, a->z, features, a->beta, t, 0,
               a->scores, t, a->workspace);
    for (size_t i = 0; i < rows; i++)
        for (size_t k = 0; k < t; k++) a->scores[i * t + k] -= target(a, a->order[first + i], k);
    bo_gemm_in(a->context, BO_PRECISION_FLOAT32, true, false, features, t, rows, 1 / (float)rows, a->z, features,
               a->scores, t, 0, a->gradient, t, a->workspace);
    const float unbiased = (float)(sqrt(1 - pow(0.999, number)) / (1 - pow(0.9, number)) * rate);
    for (size_t k = 0; k < features * t; k++) {
        float g = a->gradient[k];
        a->first[k] = fade_first * a->first[k] + (1 - fade_first) * g;
        a->second[k] = fade_second * a->second[k] + (1 - fade_second) * g * g;
        if (a->second[k] > 0) a->beta[k] -= unbiased * a->first[k] / sqrtf(a->second[k]);
    }
    return BO_OK;
}

/* Runs `steps` steps from zero, with a step size that decreases from c to 0. */
static bo_status run(adam *a, double c, int steps)
{
    const size_t batches = a->n / a->batch, coefficients = a->features * a->outputs;
    bo_rng rng = bo_rng_make(a->problem->desc->seed, bo_rng_stream("machines.adam.order", 0));
    memset(a->beta, 0, coefficients * sizeof *a->beta);
    memset(a->first, 0, coefficients * sizeof *a->first);
    memset(a->second, 0, coefficients * sizeof *a->second);
    if (!(a->reach > 0)) return BO_OK; /* all features are constant */
    for (int k = 0; k < steps; k++) {
        if ((size_t)k % batches == 0) bo_rng_permutation(&rng, a->n, a->order);
        size_t first = (size_t)k % batches * a->batch;
        BO_TRY(bo_progress(a->context, "gradient descent", k, steps));
        BO_TRY(step(a, first, a->batch, k + 1, c / a->reach * (1 - (double)k / steps)));
    }
    return BO_OK;
}

static bo_status store_solution(bo_context *context, const adam *a, bo_machine *machine)
{
    size_t count = a->features * a->outputs;
    double *beta = bo_alloc_raw(context, count, sizeof *beta, "the coefficients");
    if (!beta) return BO_MEMORY;
    for (size_t k = 0; k < count; k++) beta[k] = (double)a->beta[k];
    bo_status status = bo_machine_set_solution(context, machine, a->problem->targets, beta, a->mean, a->center);
    bo_free(beta);
    return status;
}

/* ---- the choice of the rate and of the number of steps ----------------------------------------------------------- */

typedef struct choice {
    double size; /* c */
    int steps;
    double error;
} choice;

/* Runs with this choice and replaces *best if its error on the held-out rows is smaller. */
static bo_status attempt(adam *a, const bo_samples *held_out, choice candidate, bo_machine *machine, choice *best,
                         bo_left_out *left_out)
{
    bo_left_out rows;
    BO_TRY(run(a, candidate.size, candidate.steps));
    machine->report.iterations += candidate.steps;
    BO_TRY(store_solution(a->context, a, machine));
    BO_TRY(bo_pass_held_out(a->context, machine, a->problem->targets, held_out, &rows));
    double weight = 0;
    for (size_t i = 0; i < rows.rows; i++) {
        weight += rows.weight[i];
        for (size_t t = 0; t < rows.outputs; t++)
            candidate.error +=
                rows.weight[i] * pow(rows.prediction[i * rows.outputs + t] - rows.truth[i * rows.outputs + t], 2);
    }
    candidate.error /= weight > 0 ? weight * (double)rows.outputs : 1;
    if (best->steps && !(candidate.error < best->error)) {
        bo_left_out_free(&rows);
        return BO_OK;
    }
    bo_left_out_free(left_out);
    *left_out = rows;
    *best = candidate;
    return BO_OK;
}

static bo_status choose(adam *a, const bo_samples *held_out, bo_machine *machine, choice *best, bo_left_out *left_out)
{
    static const double sizes[] = {0.3, 0.1, 0.03};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        BO_TRY(attempt(a, held_out, (choice){sizes[i], SHORT_RUN, 0}, machine, best, left_out));
    const double size = best->size;
    BO_TRY(attempt(a, held_out, (choice){size, LONG_RUN, 0}, machine, best, left_out));
    return attempt(a, held_out, (choice){size / 3, LONG_RUN, 0}, machine, best, left_out);
}

static bo_status choose_on(bo_context *context, const bo_fit_problem *problem, const bo_samples *held_out,
                           bo_machine *machine, choice *best, bo_left_out *left_out)
{
    adam a;
    bo_status status = adam_create(context, problem, &a);
    if (status == BO_OK) status = choose(&a, held_out, machine, best, left_out);
    adam_free(&a);
    return status;
}

/* Chooses on a fifth of the rows, which also give the noise or the calibration of the machine. */
static bo_status choose_held_out(bo_context *context, const bo_fit_problem *problem, bo_machine *machine, choice *best,
                                 bo_left_out *left_out)
{
    const bo_samples *all = problem->samples;
    size_t count = all->rows / 5;
    if (count < MIN_HELD_OUT) {
        *best = (choice){0.1, SHORT_RUN, 0};
        return BO_OK;
    }
    size_t *order = bo_alloc_raw(context, all->rows, sizeof *order, "the order of rows");
    if (!order) return BO_MEMORY;
    bo_rng rng = bo_rng_make(problem->desc->seed, bo_rng_stream("machines.held_out", 0));
    bo_rng_permutation(&rng, all->rows, order);
    bo_samples held_out = {0}, rest = {0};
    bo_status status = bo_samples_gather(context, all, order, count, &held_out);
    if (status == BO_OK) status = bo_samples_gather(context, all, order + count, all->rows - count, &rest);
    bo_free(order);
    bo_fit_problem reduced = *problem;
    reduced.samples = &rest;
    if (status == BO_OK) status = choose_on(context, &reduced, &held_out, machine, best, left_out);
    bo_samples_free(&held_out);
    bo_samples_free(&rest);
    return status;
}

bo_status bo_solve_adam(bo_context *context, const bo_fit_problem *problem, bo_machine *machine)
{
    choice best = {0};
    bo_left_out left_out = {0};
    adam a = {0};
    bo_status status = choose_held_out(context, problem, machine, &best, &left_out);
    if (status == BO_OK) status = adam_create(context, problem, &a);
    if (status == BO_OK && !isfinite(a.reach))
        status = bo_fail(context, BO_NUMERIC, "the features of kernel %s are not finite; scale the columns",
                         bo_kernel_name(bo_features_describe(problem->row_map.phi)->kernel));
    if (status == BO_OK) status = run(&a, best.size, best.steps);
    if (status == BO_OK) status = store_solution(context, &a, machine);
    if (status == BO_OK && left_out.rows) status = bo_machine_calibrate(context, machine, problem->targets, &left_out);
    machine->report.iterations += best.steps;
    adam_free(&a);
    bo_left_out_free(&left_out);
    return status;
}
