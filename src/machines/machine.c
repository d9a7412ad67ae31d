/* The machine object: names, creation, calls of predictions (predict.c), tests. Solvers fill it; file.c saves and loads it. */
#include "enums.h"
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

bo_machine *bo_machine_allocate(bo_context *context)
{
    bo_machine *machine = bo_alloc(context, 1, sizeof *machine, "the machine");
    if (!machine) return NULL;
    machine->version = 1;
    machine->copies = bo_device_copies_create(context);
    machine->deviation_copies = bo_device_copies_create(context);
    if (machine->copies && machine->deviation_copies) return machine;
    bo_machine_destroy(machine);
    return NULL;
}

bo_status bo_machine_create(bo_context *context, const bo_fit_report *report, bo_machine **out)
{
    *out = NULL;
    bo_machine *machine = bo_machine_allocate(context);
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
    bo_device_copies_destroy(machine->copies);
    bo_device_copies_destroy(machine->deviation_copies);
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
    machine->version++;
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

/* ---- predictions ------------------------------------------------------------------------------------------------- */

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
            if (status == BO_OK)
                status = bo_metrics_add(
                    context, metrics,
                    &(bo_metrics_rows){.rows = part.rows, .y = truth, .predicted = predicted, .probabilities = mean});
        } else if (status == BO_OK) {
            status = bo_machine_predict_inputs(context, machine, &part, 0.95, mean, std, low, high);
            const bo_metrics_rows added = {
                .rows = part.rows, .y = truth, .mean = mean, .std = std, .low = low, .high = high};
            if (status == BO_OK) status = bo_metrics_add(context, metrics, &added);
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
