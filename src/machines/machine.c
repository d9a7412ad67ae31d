/* The machine object: names, creation, predictions, tests. Solvers fill it; file.c saves and loads it. */
#include "../base/trace.h"
#include "internal.h"
#include "../device/cpu/kernels.h"
#include "../math/linalg.h"
#include "../math/metrics.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* ---- names ------------------------------------------------------------------------------------------------------- */

static const char *const solver_names[] = {"auto", "primal", "dual", "cg", "sgd", "adam"};
static const char *const loss_names[] = {"auto", "ridge", "logistic"};
static const char *const metric_choice_names[] = {"auto", "none", "diagonal", "learn"};
static const char *const scaling_names[] = {"auto", "columns", "common", "none", "quantile"};
static const char *const precision_names[] = {"auto", "int8", "float32", "float64"};
static const char *const target_scale_names[] = {"auto", "linear", "log"};

BO_NAMED(solver, bo_solver, solver_names)
BO_NAMED(loss, bo_loss, loss_names)
BO_NAMED(scaling, bo_scaling, scaling_names)
BO_NAMED(metric_choice, bo_metric_choice, metric_choice_names)
BO_NAMED(gram_precision, bo_gram_precision, precision_names)
BO_NAMED(target_scale, bo_target_scale, target_scale_names)

/* ---- creation ---------------------------------------------------------------------------------------------------- */

bo_status bo_machine_create(bo_context *context, const bo_fit_report *report, bo_machine **out)
{
    *out = NULL;
    bo_machine *machine = bo_alloc(context, 1, sizeof *machine, "the machine");
    if (!machine) return BO_MEMORY;
    machine->report = *report;
    machine->sharpness = machine->mean_weight = 1;
    machine->beta = bo_alloc(context, report->features * report->outputs, sizeof(double), "the coefficients");
    machine->intercept = bo_alloc(context, report->outputs, sizeof(double), "the coefficients");
    machine->center = bo_alloc(context, report->features, sizeof(double), "the coefficients");
    machine->noise = bo_alloc(context, report->outputs, sizeof(double), "the noise");
    machine->offset = bo_alloc(context, report->classes, sizeof(double), "the calibration");
    const bool logarithms = report->target_scale == BO_TARGET_SCALE_LOG;
    if (logarithms) {
        machine->smearing = bo_alloc(context, report->outputs, sizeof(double), "the scale of the targets");
        machine->reach = bo_alloc(context, 2 * report->outputs, sizeof(double), "the scale of the targets");
    }
    if (!machine->beta || !machine->intercept || !machine->center || !machine->noise || !machine->offset ||
        (logarithms && (!machine->smearing || !machine->reach))) {
        bo_machine_destroy(machine);
        return BO_MEMORY;
    }
    *out = machine;
    return BO_OK;
}

void bo_machine_destroy(bo_machine *machine)
{
    if (!machine) return;
    bo_scaler_free(&machine->scaler);
    bo_features_destroy(machine->phi);
    bo_free(machine->beta);
    bo_free(machine->intercept);
    bo_free(machine->center);
    bo_free(machine->noise);
    bo_intervals_free(&machine->intervals);
    bo_free(machine->smearing);
    bo_free(machine->reach);
    bo_free(machine->factor);
    bo_free(machine->train_x);
    bo_free(machine->train_root_weight);
    bo_free(machine->train_factor);
    bo_free(machine->penalty);
    bo_free(machine->offset);
    for (size_t i = 0; i < machine->others_count; i++) bo_machine_destroy(machine->others[i]);
    bo_free(machine->others);
    bo_free(machine->share);
    bo_free(machine);
}

void bo_machine_forget_uncertainty(bo_machine *machine)
{
    void **arrays[] = {(void **)&machine->factor, (void **)&machine->train_x, (void **)&machine->train_root_weight,
                       (void **)&machine->train_factor, (void **)&machine->penalty};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
        bo_free(*arrays[i]);
        *arrays[i] = NULL;
    }
    machine->uncertainty = BO_UNCERTAINTY_NONE;
    machine->train_rows = 0;
    bo_intervals_free(&machine->intervals);
    machine->report.has_std = false;
}

void bo_report_map(bo_fit_report *report, const bo_features_desc *map)
{
    report->kernel = map->kernel;
    report->function = map->function;
    report->draw = map->draw;
    report->depth = map->depth;
    report->activation = map->activation;
    report->weight_variance = map->weight_variance;
    report->bias_variance = map->bias_variance;
}

bo_row_map bo_machine_row_map(const bo_machine *machine)
{
    return (bo_row_map){&machine->scaler, machine->phi, (float)machine->quantum};
}

const bo_fit_report *bo_machine_report(const bo_machine *machine)
{
    return machine ? &machine->report : NULL;
}

const double *bo_machine_beta(const bo_machine *machine)
{
    return machine ? machine->beta : NULL;
}

bo_status bo_machine_take_solution(bo_context *context, bo_machine *machine, const bo_targets *targets,
                                   const double *beta, const double *intercept, const double *center)
{
    size_t features = machine->report.features, outputs = machine->report.outputs;
    for (size_t t = 0; t < outputs; t++) {
        double scale = targets->classes ? 1 : targets->deviation[t], shift = targets->classes ? 0 : targets->mean[t];
        for (size_t j = 0; j < features; j++) {
            double b = beta[j * outputs + t] * scale;
            if (isfinite(beta[j * outputs + t]) && !isfinite(b))
                return bo_fail(context, BO_NUMERIC,
                               "the standard deviation %g of target %zu is too large for double precision; divide the "
                               "target by a constant",
                               scale, t);
            if (!isfinite(b))
                return bo_fail(
                    context, BO_NUMERIC,
                    "the solution is not finite (coefficient %zu of output %zu); use a lambda larger than %g", j, t,
                    machine->report.lambda);
            machine->beta[j * outputs + t] = b;
        }
        machine->intercept[t] = intercept[t] * scale + shift;
        if (!targets->logarithms) continue;
        /* predictions may leave the range of the training rows by half of it; exp would amplify more */
        const double *range = targets->range + 2 * t, half = 0.5 * (range[1] - range[0]);
        machine->smearing[t] = 1;
        machine->reach[2 * t] = fmax(range[0] - half, -700);
        machine->reach[2 * t + 1] = fmin(range[1] + half, 700);
    }
    memcpy(machine->center, center, features * sizeof *center);
    return BO_OK;
}

enum {
    SCORE_ROWS = 64, /* rows per task of a machine with one output */
    SCORE_FEW = 4,   /* rows for which packing β costs more than the products */
};

/* f(x) of rows of features z. wide: rows x features, for the centered features. */
typedef struct score_job {
    const bo_kernels *kernels;
    const bo_machine *machine;
    size_t rows, ldz;
    const float *z;
    double *wide, *mean;
} score_job;

/* Centers the features of a row and starts its outputs with the intercept. */
static const double *begin_scores(const score_job *job, size_t row)
{
    const bo_machine *machine = job->machine;
    size_t features = machine->report.features, outputs = machine->report.outputs;
    double *wide = job->wide + row * features;
    for (size_t j = 0; j < features; j++) wide[j] = (double)job->z[row * job->ldz + j] - machine->center[j];
    memcpy(job->mean + row * outputs, machine->intercept, outputs * sizeof *job->mean);
    return wide;
}

/* One output: row by row, so that the bits of a row do not depend on the other rows. */
static void score_task(void *arg, size_t index, int worker)
{
    (void)worker;
    const score_job *job = arg;
    const size_t features = job->machine->report.features, first = index * SCORE_ROWS;
    for (size_t i = first; i < bo_min(first + SCORE_ROWS, job->rows); i++)
        job->kernels->dots64(1, features, begin_scores(job, i), features, job->machine->beta, job->mean + i);
}

static bo_status scores_in(bo_context *context, const score_job *job)
{
    const bo_machine *machine = job->machine;
    size_t features = machine->report.features, outputs = machine->report.outputs;
    if (outputs == 1) {
        bo_parallel(context, bo_ceil_div(job->rows, SCORE_ROWS), score_task, (void *)(uintptr_t)job);
        return BO_OK;
    }
    for (size_t i = 0; i < job->rows; i++) {
        const double *wide = begin_scores(job, i);
        if (job->rows > SCORE_FEW) continue;
        job->kernels->combine64(features, outputs, machine->beta, outputs, wide, job->mean + i * outputs);
    }
    if (job->rows <= SCORE_FEW) return BO_OK;
    return bo_gemm64(context, false, false, job->rows, outputs, features, 1, job->wide, features, machine->beta,
                     outputs, 1, job->mean, outputs);
}

bo_status bo_machine_scores(bo_context *context, const bo_machine *machine, size_t rows, const float *z, size_t ldz,
                            double *mean)
{
    double *wide = bo_alloc_raw(context, rows * machine->report.features, sizeof *wide, "a block of features");
    if (!wide) return BO_MEMORY;
    bo_status status = scores_in(context, &(score_job){.kernels = bo_context_kernels(context),
                                                       .machine = machine,
                                                       .rows = rows,
                                                       .ldz = ldz,
                                                       .z = z,
                                                       .wide = wide,
                                                       .mean = mean});
    bo_free(wide);
    return status;
}

/* ---- predictions, block by block --------------------------------------------------------------------------------- */

enum { PREDICT_ROWS = BO_SIZE(512, 4), PREDICT_NUMBERS = BO_SIZE(1 << 24, 1 << 16) };

/* Buffers for one block, and for standard deviations; allocated once per call. */
typedef struct workspace {
    size_t rows; /* of a block */
    float *z;
    double *columns; /* features x rows, for the triangular solve */
    double *factor;  /* unpacked: features² (PRIMAL) or train_rows² (DUAL) */
    double *train;   /* DUAL: train_rows x features: Zc D⁻¹ */
    double *against; /* DUAL: train_rows x rows */
    double *traits;  /* rows x columns of the deviations */
} workspace;

static void workspace_free(workspace *space)
{
    bo_free(space->z);
    bo_free(space->columns);
    bo_free(space->factor);
    bo_free(space->train);
    bo_free(space->against);
    bo_free(space->traits);
}

/* Computes (φ - center) √w / D of the scaled training rows, block by block. */
static bo_status train_features(bo_context *context, const bo_machine *machine, workspace *space)
{
    size_t features = machine->report.features, dim = machine->scaler.kept, n = machine->train_rows;
    for (size_t first = 0; first < n; first += space->rows) {
        size_t rows = n - first < space->rows ? n - first : space->rows;
        BO_TRY(bo_features_apply(context, machine->phi, rows, machine->train_x + first * dim, dim, space->z, features));
        for (size_t i = 0; i < rows; i++)
            for (size_t j = 0; j < features; j++)
                space->train[(first + i) * features + j] = ((double)space->z[i * features + j] - machine->center[j]) *
                                                           (double)machine->train_root_weight[first + i] /
                                                           machine->penalty[j];
    }
    return BO_OK;
}

/* Rows of a block: at most PREDICT_ROWS, fewer if they are long, so that a block has at most PREDICT_NUMBERS inputs and
 * features. */
static size_t block_rows(const bo_machine *machine, const bo_inputs *inputs)
{
    size_t rows = inputs->rows, dim = inputs->x ? machine->report.dim : 0;
    size_t most = PREDICT_NUMBERS / (dim + machine->report.features) + 1;
    if (most > PREDICT_ROWS) most = PREDICT_ROWS;
    return rows && rows < most ? rows : most;
}

/* Bytes of the scaled inputs of a block, in dense form unless sparse rows are projected as they are. */
static double input_bytes(const bo_machine *machine, const bo_inputs *inputs, size_t rows)
{
    const double dense = 4 * (double)rows * (double)machine->scaler.kept;
    if (inputs->x) return dense;
    return machine->scaler.place ? 0 : 2 * bo_expanded_bytes(rows, machine->scaler.dim);
}

/* Refuses standard deviations whose matrices do not fit into memory, before any work. */
static bo_status check_memory(bo_context *context, const bo_machine *machine, const bo_inputs *inputs, size_t rows,
                              bool deviations)
{
    enum { SMALL = 1 << 24 };
    double features = (double)machine->report.features, n = (double)machine->train_rows;
    double bytes = input_bytes(machine, inputs, rows) + 12 * (double)rows * features;
    if (deviations && machine->uncertainty == BO_UNCERTAINTY_PRIMAL) bytes += 8 * features * (features + (double)rows);
    if (deviations && machine->uncertainty == BO_UNCERTAINTY_DUAL)
        bytes += 8 * (n * (n + features + (double)rows) + features * (double)rows);
    if (bytes < SMALL) return BO_OK;
    return bo_check_memory(context, deviations ? "prediction with standard deviations" : "prediction", bytes,
                           bo_process_memory(),
                           deviations ? "predict without standard deviations" : "use a machine with fewer features");
}

static bo_status prepare(bo_context *context, const bo_machine *machine, const bo_inputs *inputs, bool deviations,
                         workspace *space)
{
    const size_t rows = block_rows(machine, inputs);
    size_t features = machine->report.features, n = machine->train_rows;
    *space = (workspace){.rows = rows};
    BO_TRY(check_memory(context, machine, inputs, rows, deviations));
    space->z = bo_alloc_raw(context, rows * features, sizeof(float), "a block of features");
    if (!space->z) return BO_MEMORY;
    if (!deviations) return BO_OK;
    space->traits = bo_alloc_raw(context, rows * machine->intervals.columns, sizeof(double), "a block of features");
    if (!space->traits) return BO_MEMORY;
    if (machine->uncertainty == BO_UNCERTAINTY_NONE) return BO_OK;
    bool primal = machine->uncertainty == BO_UNCERTAINTY_PRIMAL;
    size_t size = primal ? features : n;
    assert(primal ? machine->factor && !machine->train_factor : machine->train_factor && !machine->factor);
    assert(primal || (machine->train_x && machine->train_root_weight && machine->penalty));
    space->columns = bo_alloc_raw(context, features * rows, sizeof(double), "a block of features");
    space->factor = bo_alloc(context, size * size, sizeof(double), "the factor of the Gram matrix");
    if (!space->columns || !space->factor) return BO_MEMORY;
    for (size_t i = 0, k = 0; i < size; i++)
        for (size_t j = 0; j <= i; j++, k++)
            space->factor[i * size + j] = machine->factor ? (double)machine->factor[k] : machine->train_factor[k];
    if (machine->uncertainty == BO_UNCERTAINTY_PRIMAL) return BO_OK;
    space->train = bo_alloc_raw(context, n * features, sizeof(double), "the training rows' features");
    space->against = bo_alloc_raw(context, n * rows, sizeof(double), "a block of kernel values");
    if (!space->train || !space->against) return BO_MEMORY;
    return train_features(context, machine, space);
}

/* q_i = (φ_i - c)ᵀ (ZᵀZ + D)⁻¹ (φ_i - c) for the rows of space->z.
 * PRIMAL: |L⁻¹ (φ - c)|².
 * DUAL: by the Woodbury identity: |φ - c|²_{D⁻¹} - |M⁻¹ Zc D⁻¹ (φ - c)|², M Mᵀ = Zc D⁻¹ Zcᵀ + I. */
static bo_status quadratic_form(bo_context *context, const bo_machine *machine, workspace *space, size_t rows,
                                double *q)
{
    size_t features = machine->report.features, n = machine->train_rows;
    for (size_t j = 0; j < features; j++)
        for (size_t i = 0; i < rows; i++)
            space->columns[j * rows + i] = (double)space->z[i * features + j] - machine->center[j];
    memset(q, 0, rows * sizeof *q);
    if (machine->uncertainty == BO_UNCERTAINTY_PRIMAL) {
        BO_TRY(bo_solve_lower(context, features, rows, space->factor, features, space->columns, rows));
        for (size_t k = 0; k < features * rows; k++) q[k % rows] += space->columns[k] * space->columns[k];
        return BO_OK;
    }
    BO_TRY(bo_gemm64(context, false, false, n, rows, features, 1, space->train, features, space->columns, rows, 0,
                     space->against, rows));
    BO_TRY(bo_solve_lower(context, n, rows, space->factor, n, space->against, rows));
    for (size_t j = 0; j < features; j++)
        for (size_t i = 0; i < rows; i++)
            q[i] += space->columns[j * rows + i] * space->columns[j * rows + i] / machine->penalty[j];
    for (size_t k = 0; k < n * rows; k++) q[k % rows] -= space->against[k] * space->against[k];
    for (size_t i = 0; i < rows; i++) q[i] = fmax(q[i], 0);
    return BO_OK;
}

static bo_status predict_block(bo_context *context, const bo_machine *machine, workspace *space,
                               const bo_inputs *inputs, double *mean, double *std)
{
    size_t features = machine->report.features, outputs = machine->report.outputs, rows = inputs->rows;
    bo_row_map row_map = bo_machine_row_map(machine);
    BO_TRY(bo_row_map_apply(context, &row_map, inputs, space->z, features));
    BO_TRY(bo_machine_scores(context, machine, rows, space->z, features, mean));
    if (!std) return BO_OK;
    double q[PREDICT_ROWS] = {0};
    const size_t columns = machine->intervals.columns;
    for (size_t i = 0; i < rows; i++)
        for (size_t k = 0; k < columns; k++)
            space->traits[i * columns + k] = (double)space->z[i * features + bo_deviation_column(features, columns, k)];
    if (machine->uncertainty != BO_UNCERTAINTY_NONE) BO_TRY(quadratic_form(context, machine, space, rows, q));
    for (size_t i = 0; i < rows; i++)
        for (size_t t = 0; t < outputs; t++)
            std[i * outputs + t] = machine->noise[t] * sqrt(1 / machine->mean_weight + machine->inverse_weight + q[i]);
    bo_intervals_deviate(machine, rows, space->traits, mean, std);
    return BO_OK;
}

bo_status bo_machine_predict_plain(bo_context *context, const bo_machine *machine, const bo_inputs *inputs,
                                   double *mean, double *std)
{
    BO_SPAN(context, "machine", "predict");
    if (std && machine->uncertainty == BO_UNCERTAINTY_NONE && machine->intervals.rows == 0)
        return bo_fail(context, BO_UNSUPPORTED,
                       machine->report.classes
                           ? "standard deviations are for regression; a classifier predicts probabilities"
                           : "this machine has no standard deviations, because it was fitted with the solver %s, which "
                             "had too few rows to hold some back; use primal or dual",
                       bo_solver_name(machine->report.solver));
    const size_t outputs = machine->report.outputs, rows = inputs->rows;
    BO_TRY(bo_inputs_check_finite(context, inputs, 0, rows, machine->report.dim));
    if (bo_is_sections(machine->phi)) return bo_exact_predict(context, machine, inputs, mean, std);
    workspace space;
    bo_status status = prepare(context, machine, inputs, std != NULL, &space);
    for (size_t first = 0; status == BO_OK && first < rows; first += space.rows) {
        const size_t count = rows - first < space.rows ? rows - first : space.rows;
        const bo_inputs block = bo_inputs_slice(inputs, first, count);
        status =
            predict_block(context, machine, &space, &block, mean + first * outputs, std ? std + first * outputs : NULL);
        if (status == BO_OK) status = bo_progress(context, "predicting", (double)(first + count), (double)rows);
    }
    workspace_free(&space);
    return status;
}

/* Predictions with intervals: of the given level into low and high, of 95% for the standard deviations. Either may be NULL. */
static bo_status predict_intervals(bo_context *context, const bo_machine *machine, const bo_inputs *inputs,
                                   double level, double *mean, double *std, double *low, double *high)
{
    static const double normal_level = 0.95; /* of BO_INTERVAL_95 */
    const size_t count = inputs->rows * machine->report.outputs;
    double *deviation = bo_alloc_raw(context, 3 * count, sizeof *deviation, "intervals");
    if (!deviation) return BO_MEMORY;
    double *below = deviation + count, *above = deviation + 2 * count;
    bo_status status = bo_machine_predict_plain(context, machine, inputs, mean, deviation);
    if (status == BO_OK && low)
        status = bo_intervals_apply(context, machine, inputs->rows, level, mean, deviation, low, high);
    if (status == BO_OK && std)
        status = bo_intervals_apply(context, machine, inputs->rows, normal_level, mean, deviation, below, above);
    if (status != BO_OK) {
        bo_free(deviation);
        return status;
    }
    bo_target_scale_restore(machine, inputs->rows, mean);
    if (low) bo_target_scale_restore_ends(machine, inputs->rows, low);
    if (low) bo_target_scale_restore_ends(machine, inputs->rows, high);
    if (std) bo_target_scale_restore_ends(machine, inputs->rows, below);
    if (std) bo_target_scale_restore_ends(machine, inputs->rows, above);
    for (size_t k = 0; k < count; k++) {
        if (std) std[k] = (above[k] - below[k]) / (2 * BO_INTERVAL_95);
        if (!low) continue;
        low[k] = fmin(low[k], mean[k]);
        high[k] = fmax(high[k], mean[k]);
    }
    bo_free(deviation);
    return BO_OK;
}

bo_status bo_machine_predict_inputs(bo_context *context, const bo_machine *machine, const bo_inputs *inputs,
                                    double level, double *mean, double *std, double *low, double *high)
{
    if (std || low) return predict_intervals(context, machine, inputs, level, mean, std, low, high);
    BO_TRY(bo_machine_predict_plain(context, machine, inputs, mean, NULL));
    bo_target_scale_restore(machine, inputs->rows, mean);
    return BO_OK;
}

/* Describes dense rows, which must have the columns of the fit. */
static bo_status dense_inputs(bo_context *context, const bo_machine *machine, size_t rows, const float *x, size_t ldx,
                              bo_inputs *out)
{
    *out = (bo_inputs){.rows = rows, .x = x, .ldx = ldx};
    if (ldx >= machine->report.dim) return BO_OK;
    return bo_fail(context, BO_INVALID, "expected rows with %zu columns, as in the fit, found %zu", machine->report.dim,
                   ldx);
}

static bo_status sparse_inputs(bo_context *context, const bo_machine *machine, const bo_sparse *x, bo_inputs *out)
{
    *out = (bo_inputs){.rows = x->rows, .sparse = *x};
    if (x->dim == machine->report.dim) return bo_sparse_check(context, x);
    return bo_fail(context, BO_INVALID, "expected sparse rows with %zu columns, as in the fit, found %zu",
                   machine->report.dim, x->dim);
}

bo_status bo_machine_predict(bo_context *context, const bo_machine *machine, size_t rows, const float *x, size_t ldx,
                             double *mean, double *std)
{
    BO_REQUIRE(context, machine);
    BO_REQUIRE_IF(context, rows > 0, x, mean);
    bo_inputs inputs;
    BO_TRY(dense_inputs(context, machine, rows, x, ldx, &inputs));
    return bo_machine_predict_inputs(context, machine, &inputs, 0, mean, std, NULL, NULL);
}

bo_status bo_machine_predict_sparse(bo_context *context, const bo_machine *machine, const bo_sparse *x, double *mean,
                                    double *std)
{
    BO_REQUIRE(context, machine, x, mean);
    bo_inputs inputs;
    BO_TRY(sparse_inputs(context, machine, x, &inputs));
    return bo_machine_predict_inputs(context, machine, &inputs, 0, mean, std, NULL, NULL);
}

static bo_status check_level(bo_context *context, double level)
{
    if (level > 0 && level < 1) return BO_OK;
    return bo_fail(context, BO_INVALID, "level: expected a number between 0 and 1, found %g", level);
}

bo_status bo_machine_predict_interval(bo_context *context, const bo_machine *machine, size_t rows, const float *x,
                                      size_t ldx, double level, double *mean, double *std, double *low, double *high)
{
    BO_REQUIRE(context, machine);
    BO_REQUIRE_IF(context, rows > 0, x, mean, low, high);
    BO_TRY(check_level(context, level));
    bo_inputs inputs;
    BO_TRY(dense_inputs(context, machine, rows, x, ldx, &inputs));
    return rows ? bo_machine_predict_inputs(context, machine, &inputs, level, mean, std, low, high) : BO_OK;
}

bo_status bo_machine_predict_interval_sparse(bo_context *context, const bo_machine *machine, const bo_sparse *x,
                                             double level, double *mean, double *std, double *low, double *high)
{
    BO_REQUIRE(context, machine, x, mean, low, high);
    BO_TRY(check_level(context, level));
    bo_inputs inputs;
    BO_TRY(sparse_inputs(context, machine, x, &inputs));
    return bo_machine_predict_inputs(context, machine, &inputs, level, mean, std, low, high);
}

static bo_status require_classes(bo_context *context, const bo_machine *machine)
{
    if (machine->report.classes) return BO_OK;
    return bo_fail(context, BO_UNSUPPORTED, "expected a classifier, found a machine for regression");
}

/* softmax(sharpness * score + offset) of one row, in place. */
static void scores_to_probabilities(const bo_machine *machine, double *p)
{
    const size_t classes = machine->report.classes;
    double top = -INFINITY, sum = 0;
    for (size_t c = 0; c < classes; c++) {
        p[c] = machine->sharpness * p[c] + machine->offset[c];
        top = fmax(top, p[c]);
    }
    for (size_t c = 0; c < classes; c++) sum += p[c] = exp(p[c] - top);
    for (size_t c = 0; c < classes; c++) p[c] /= sum;
}

/* The index of the largest score of one row. */
static int best_class(const bo_machine *machine, const double *scores)
{
    size_t best = 0;
    for (size_t c = 1; c < machine->report.classes; c++)
        if (scores[c] > scores[best]) best = c;
    return (int)best;
}

/* Scores, then classes and probabilities (either may be NULL) of all rows. */
static bo_status classify_inputs(bo_context *context, const bo_machine *machine, const bo_inputs *inputs, int *classes,
                                 double *probabilities)
{
    BO_TRY(require_classes(context, machine));
    const size_t count = machine->report.classes;
    double *own = probabilities ? NULL : bo_alloc_raw(context, inputs->rows * count, sizeof *own, "scores");
    double *scores = probabilities ? probabilities : own;
    bo_status status = scores ? bo_machine_predict_plain(context, machine, inputs, scores, NULL) : BO_MEMORY;
    for (size_t i = 0; status == BO_OK && i < inputs->rows; i++) {
        if (classes) classes[i] = best_class(machine, scores + i * count);
        if (probabilities) scores_to_probabilities(machine, scores + i * count);
    }
    bo_free(own);
    return status;
}

bo_status bo_machine_predict_probabilities(bo_context *context, const bo_machine *machine, size_t rows, const float *x,
                                           size_t ldx, double *probabilities)
{
    BO_REQUIRE(context, machine);
    BO_REQUIRE_IF(context, rows > 0, x, probabilities);
    bo_inputs inputs;
    BO_TRY(dense_inputs(context, machine, rows, x, ldx, &inputs));
    return classify_inputs(context, machine, &inputs, NULL, probabilities);
}

bo_status bo_machine_classify(bo_context *context, const bo_machine *machine, size_t rows, const float *x, size_t ldx,
                              int *classes)
{
    BO_REQUIRE(context, machine);
    BO_REQUIRE_IF(context, rows > 0, x, classes);
    bo_inputs inputs;
    BO_TRY(dense_inputs(context, machine, rows, x, ldx, &inputs));
    return classify_inputs(context, machine, &inputs, classes, NULL);
}

bo_status bo_machine_classify_sparse(bo_context *context, const bo_machine *machine, const bo_sparse *x, int *classes,
                                     double *probabilities)
{
    BO_REQUIRE(context, machine, x);
    bo_inputs inputs;
    BO_TRY(sparse_inputs(context, machine, x, &inputs));
    return classify_inputs(context, machine, &inputs, classes, probabilities);
}

/* ---- tests --------------------------------------------------------------------------------------------------- */

bo_status bo_machine_create_metrics(bo_context *context, const bo_machine *machine, size_t points, bo_metrics **out)
{
    if (out) *out = NULL;
    BO_REQUIRE(context, machine, out);
    const bo_fit_report *report = &machine->report;
    const bo_metrics_desc classes = {.classes = report->classes, .points = points};
    const bo_metrics_desc numbers = {.targets = report->outputs, .has_std = report->has_std, .points = points};
    return bo_metrics_create(context, report->classes ? &classes : &numbers, out);
}

enum { EVALUATED_ROWS = 4096 };

static bo_status evaluate_inputs(bo_context *context, const bo_machine *machine, const bo_inputs *inputs,
                                 const double *y, bo_metrics *metrics)
{
    const bo_fit_report *report = &machine->report;
    const bool has_std = metrics->desc.has_std;
    const size_t outputs = report->outputs, targets = report->classes ? 1 : outputs, rows = inputs->rows;
    if (metrics->desc.classes != report->classes || metrics->desc.targets != (report->classes ? 0 : outputs))
        return bo_fail(context, BO_INVALID,
                       "expected metrics for this machine; create them with bo_machine_create_metrics");
    if (report->classes) BO_TRY(bo_metrics_check_classes(context, report->classes, rows, y));
    const size_t block = rows < EVALUATED_ROWS ? rows : EVALUATED_ROWS;
    double *mean = bo_alloc_raw(context, block * outputs, sizeof *mean, "predictions");
    double *std = has_std ? bo_alloc_raw(context, 3 * block * outputs, sizeof *std, "predictions") : NULL;
    double *low = std ? std + block * outputs : NULL, *high = std ? low + block * outputs : NULL;
    int *predicted = report->classes ? bo_alloc_raw(context, block, sizeof *predicted, "predictions") : NULL;
    bo_status status = mean && (std || !has_std) && (predicted || !report->classes) ? BO_OK : BO_MEMORY;
    for (size_t at = 0; at < rows && status == BO_OK; at += block) {
        const bo_inputs part = bo_inputs_slice(inputs, at, rows - at < block ? rows - at : block);
        const double *truth = y + at * targets;
        status = bo_progress(context, "testing", (double)at, (double)rows);
        if (status == BO_OK && report->classes) {
            status = classify_inputs(context, machine, &part, predicted, mean);
            if (status == BO_OK) status = bo_metrics_add_classes(context, metrics, part.rows, truth, predicted, mean);
        } else if (status == BO_OK) {
            status = bo_machine_predict_inputs(context, machine, &part, 0.95, mean, std, low, high);
            if (status == BO_OK)
                status = std ? bo_metrics_add_intervals(context, metrics, part.rows, truth, mean, std, low, high)
                             : bo_metrics_add(context, metrics, part.rows, truth, mean, NULL);
        }
    }
    bo_free(mean);
    bo_free(std);
    bo_free(predicted);
    return status;
}

bo_status bo_machine_evaluate(bo_context *context, const bo_machine *machine, size_t rows, const float *x, size_t ldx,
                              const double *y, bo_metrics *metrics)
{
    BO_REQUIRE(context, machine, metrics);
    BO_REQUIRE_IF(context, rows > 0, x, y);
    bo_inputs inputs;
    BO_TRY(dense_inputs(context, machine, rows, x, ldx, &inputs));
    return evaluate_inputs(context, machine, &inputs, y, metrics);
}

bo_status bo_machine_evaluate_sparse(bo_context *context, const bo_machine *machine, const bo_sparse *x,
                                     const double *y, bo_metrics *metrics)
{
    BO_REQUIRE(context, machine, x, y, metrics);
    bo_inputs inputs;
    BO_TRY(sparse_inputs(context, machine, x, &inputs));
    return evaluate_inputs(context, machine, &inputs, y, metrics);
}
