/* Mini-batch gradient descent on ½ Σ w|f(x) - y|²/n + ½ β D β/n. The step size comes from the spectrum: with batches of
 * b rows, the largest row norm |z|² = m and the largest eigenvalue λ₁ of ZᵀZ/n, the iteration is stable below 2b/(m +
 * (b - 1)λ₁ + b max D/n). Half of that is used, and the iterates of the second half are averaged. */
#include "../base/base.h"
#include "../base/rng.h"
#include "../math/linalg.h"
#include "machine.h"
#include "passes.h"
#include "ridge.h"
#include "row_map.h"
#include "samples.h"
#include "solvers.h"

#include <math.h>
#include <string.h>

enum { BATCH = 256, EPOCHS = 20, POWER_ROWS = 2048, POWER_STEPS = 20, MAX_HELD_OUT = 4096 };

typedef struct sgd {
    bo_context *context;
    const bo_fit_problem *problem;
    size_t n, features, outputs;
    double *center, *penalty, *mean, *average;
    double weight, largest_norm;
    float *beta, *gradient, *z, *scores;
    size_t *order;
} sgd;

static void sgd_free(sgd *s)
{
    void *blocks[] = {s->center, s->penalty, s->mean, s->average, s->beta, s->gradient, s->z, s->scores, s->order};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) bo_free(blocks[i]);
}

static bo_status sgd_create(bo_context *context, const bo_fit_problem *problem, sgd *s)
{
    size_t features = bo_features_describe(problem->row_map.phi)->features, t = problem->targets->outputs;
    size_t rows = problem->samples->rows, power_rows = rows < POWER_ROWS ? rows : POWER_ROWS;
    *s = (sgd){.context = context, .problem = problem, .n = rows, .features = features, .outputs = t};
    s->center = bo_alloc(context, features, sizeof(double), "the coefficients");
    s->penalty = bo_alloc(context, features, sizeof(double), "the penalty");
    s->mean = bo_alloc(context, t, sizeof(double), "the coefficients");
    s->average = bo_alloc(context, features * t, sizeof(double), "the coefficients");
    s->beta = bo_alloc(context, features * t, sizeof(float), "the coefficients");
    s->gradient = bo_alloc(context, features * t, sizeof(float), "the gradient");
    s->z = bo_alloc(context, power_rows * features, sizeof(float), "a batch");
    s->scores = bo_alloc(context, power_rows * t, sizeof(float), "a batch");
    s->order = bo_alloc(context, rows, sizeof(size_t), "the order of rows");
    if (!s->center || !s->penalty || !s->mean || !s->average || !s->beta || !s->gradient || !s->z || !s->scores ||
        !s->order)
        return BO_MEMORY;
    BO_TRY(bo_pass_means(context, problem, s->center, s->penalty, s->mean, &s->weight, &s->largest_norm));
    bo_penalty_fill(&problem->penalty, s->weight, features, s->penalty, s->penalty);
    return BO_OK;
}

/* Centered, weighted features of the rows order[first…]. */
static bo_status batch_features(sgd *s, size_t first, size_t rows)
{
    const bo_samples *samples = s->problem->samples;
    bo_samples batch;
    BO_TRY(bo_samples_gather(s->context, samples, s->order + first, rows, &batch));
    const bo_input_view inputs = bo_samples_inputs(&batch, 0, rows);
    const bo_status status = bo_row_map_apply(s->context, &s->problem->row_map, &inputs, s->z, s->features);
    bo_samples_free(&batch);
    BO_TRY(status);
    for (size_t i = 0; i < rows; i++) {
        float root = bo_targets_root_weight(s->problem->targets, samples, s->order[first + i]);
        float *z = s->z + i * s->features;
        for (size_t j = 0; j < s->features; j++) z[j] = root * (z[j] - (float)s->center[j]);
    }
    return BO_OK;
}

/* Largest eigenvalue of ZᵀZ/n from a sample of rows, by power iteration. */
static bo_status largest_eigenvalue(sgd *s, double *out)
{
    size_t m = s->n < POWER_ROWS ? s->n : POWER_ROWS;
    BO_TRY(batch_features(s, 0, m));
    float *v = s->gradient, *u = s->scores;
    bo_rng rng = bo_rng_make(s->problem->desc->seed, bo_rng_stream("machines.sgd.power", 0));
    for (size_t j = 0; j < s->features; j++) v[j] = (float)bo_rng_normal(&rng);
    *out = 0;
    for (int step = 0; step < POWER_STEPS; step++) {
        double norm = 0;
        for (size_t j = 0; j < s->features; j++) norm += (double)v[j] * (double)v[j];
        norm = sqrt(norm);
        *out = step ? norm : 0;
        if (norm == 0) break;
        for (size_t j = 0; j < s->features; j++) v[j] = (float)((double)v[j] / norm);
        BO_TRY(bo_gemm(s->context, false, false, m, 1, s->features, 1, s->z, s->features, v, 1, 0, u, 1));
        BO_TRY(bo_gemm(s->context, true, false, s->features, 1, m, 1 / (float)m, s->z, s->features, u, 1, 0, v, 1));
    }
    memset(s->gradient, 0, s->features * s->outputs * sizeof *s->gradient);
    return BO_OK;
}

static bo_status step(sgd *s, size_t first, size_t rows, double rate)
{
    size_t features = s->features, t = s->outputs;
    const bo_samples *samples = s->problem->samples;
    BO_TRY(batch_features(s, first, rows));
    BO_TRY(bo_gemm(s->context, false, false, rows, t, features, 1, s->z, features, s->beta, t, 0, s->scores, t));
    for (size_t i = 0; i < rows; i++) {
        size_t row = s->order[first + i];
        double root = (double)bo_targets_root_weight(s->problem->targets, samples, row);
        for (size_t k = 0; k < t; k++) {
            double y =
                (double)bo_targets_value(s->problem->targets, samples->y + row * samples->targets, k) - s->mean[k];
            s->scores[i * t + k] -= (float)(root * y);
        }
    }
    BO_TRY(bo_gemm(s->context, true, false, features, t, rows, 1 / (float)rows, s->z, features, s->scores, t, 0,
                   s->gradient, t));
    for (size_t k = 0; k < features * t; k++) {
        double shrink = s->penalty[k / t] / (double)s->n * (double)s->beta[k];
        s->beta[k] = (float)((double)s->beta[k] - rate * ((double)s->gradient[k] + shrink));
    }
    return BO_OK;
}

static bo_status run(sgd *s, bo_machine *machine)
{
    bo_rng rng = bo_rng_make(s->problem->desc->seed, bo_rng_stream("machines.sgd.order", 0));
    bo_rng_permutation(&rng, s->n, s->order);
    /* batch sizes differ by at most one row, so that one step size fits all */
    size_t averaged = 0, batches = (s->n + BATCH - 1) / BATCH, min_batch = s->n / batches;
    double top, b = (double)min_batch;
    BO_TRY(largest_eigenvalue(s, &top));
    double pull = 0;
    for (size_t j = 0; j < s->features; j++) pull = fmax(pull, s->penalty[j] / (double)s->n);
    double rate = b / (s->largest_norm + (b - 1) * top + b * pull);
    machine->report.spectrum = top * (double)s->n;
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        bo_rng_permutation(&rng, s->n, s->order);
        for (size_t k = 0; k < batches; k++) {
            size_t first = k * s->n / batches, rows = (k + 1) * s->n / batches - first;
            BO_TRY(bo_progress(s->context, "gradient descent", epoch + (double)k / (double)batches, EPOCHS));
            BO_TRY(step(s, first, rows, rate));
            machine->report.iterations++;
            if (2 * epoch < EPOCHS) continue;
            averaged++;
            for (size_t j = 0; j < s->features * s->outputs; j++)
                s->average[j] += ((double)s->beta[j] - s->average[j]) / (double)averaged;
        }
        BO_TRY(bo_progress(s->context, "gradient descent", epoch + 1, EPOCHS));
    }
    return BO_OK;
}

static bo_status solve(bo_context *context, const bo_fit_problem *problem, bo_machine *machine)
{
    sgd s;
    bo_status status = sgd_create(context, problem, &s);
    if (status == BO_OK) status = run(&s, machine);
    if (status == BO_OK)
        status = bo_machine_set_solution(context, machine, problem->targets, s.average, s.mean, s.center);
    sgd_free(&s);
    return status;
}

bo_status bo_solve_sgd(bo_context *context, const bo_fit_problem *problem, bo_machine *machine)
{
    return bo_solve_held_out(context, problem, MAX_HELD_OUT, solve, machine);
}
