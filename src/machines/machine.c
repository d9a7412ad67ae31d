/* The machine object: names, creation, calls of predictions (predict.c), tests. Solvers fill it; file.c saves and loads
 * it. */
#include "../base/base.h"
#include "../base/trace.h"
#include "../device/copies.h"
#include "../device/cpu/kernels.h"
#include "../math/linalg.h"
#include "../math/metrics.h"
#include "enums.h"
#include "intervals.h"
#include "machine.h"
#include "prediction.h"
#include "row_map.h"
#include "samples.h"
#include "scaler.h"

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
    machine->report.beta = machine->beta;
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
    for (size_t i = 0; i < machine->other_members_count; i++) bo_machine_destroy(machine->other_members[i]);
    bo_free(machine->other_members);
    bo_free(machine->share);
    bo_free(machine);
}

void bo_machine_free_uncertainty(bo_machine *machine)
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

bo_status bo_machine_set_solution(bo_context *context, bo_machine *machine, const bo_targets *targets,
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

/* Predictions of a regression with deviations: the ends of the intervals of the given level, and of 95% intervals for
 * the standard deviations. */
static bo_status predict_intervals(bo_context *context, const bo_machine *machine, const bo_input_view *inputs,
                                   const bo_prediction *out, double *mean)
{
    static const double default_level = 0.95; /* of BO_INTERVAL_95 */
    const double level = out->level != 0 ? out->level : default_level;
    const size_t rows = inputs->rows, count = rows * machine->report.outputs;
    double *deviation = bo_alloc_raw(context, 3 * count, sizeof *deviation, "intervals");
    if (!deviation) return BO_MEMORY;
    double *below = deviation + count, *above = deviation + 2 * count;
    double *low = out->low ? out->low : below,
           *high = out->high ? out->high : above; /* standard deviations come after */
    bo_status status = bo_machine_predict_plain(context, machine, inputs, mean, deviation);
    if (status == BO_OK && (out->low || out->high))
        status = bo_intervals_apply(context, machine, rows, level, mean, deviation, low, high);
    if (status == BO_OK && out->std)
        status = bo_intervals_apply(context, machine, rows, default_level, mean, deviation, below, above);
    if (status != BO_OK) {
        bo_free(deviation);
        return status;
    }
    bo_target_scale_restore(machine, rows, mean);
    if (out->low) bo_target_scale_restore_ends(machine, rows, low);
    if (out->high) bo_target_scale_restore_ends(machine, rows, high);
    if (out->std) bo_target_scale_restore_ends(machine, rows, below);
    if (out->std) bo_target_scale_restore_ends(machine, rows, above);
    for (size_t k = 0; k < count; k++) {
        if (out->std) out->std[k] = (above[k] - below[k]) / (2 * BO_INTERVAL_95);
        if (out->low) low[k] = fmin(low[k], mean[k]);
        if (out->high) high[k] = fmax(high[k], mean[k]);
    }
    bo_free(deviation);
    return BO_OK;
}

static bo_status predict_numbers(bo_context *context, const bo_machine *machine, const bo_input_view *inputs,
                                 const bo_prediction *out)
{
    const size_t count = inputs->rows * machine->report.outputs;
    double *owned = out->mean ? NULL : bo_alloc_raw(context, count, sizeof *owned, "predictions");
    double *mean = out->mean ? out->mean : owned;
    bo_status status = mean ? BO_OK : BO_MEMORY;
    if (status == BO_OK && (out->std || out->low || out->high)) {
        status = predict_intervals(context, machine, inputs, out, mean);
    } else if (status == BO_OK) {
        status = bo_machine_predict_plain(context, machine, inputs, mean, NULL);
        if (status == BO_OK) bo_target_scale_restore(machine, inputs->rows, mean);
    }
    bo_free(owned);
    return status;
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

/* Scores, then classes and probabilities of all rows. */
static bo_status predict_classes(bo_context *context, const bo_machine *machine, const bo_input_view *inputs,
                                 const bo_prediction *out)
{
    const size_t count = machine->report.classes;
    double *output = out->mean ? out->mean : out->probabilities;
    double *owned = output ? NULL : bo_alloc_raw(context, inputs->rows * count, sizeof *owned, "scores");
    double *scores = output ? output : owned;
    bo_status status = scores ? bo_machine_predict_plain(context, machine, inputs, scores, NULL) : BO_MEMORY;
    for (size_t i = 0; status == BO_OK && i < inputs->rows; i++) {
        const double *row = scores + i * count;
        if (out->classes) out->classes[i] = best_class(machine, row);
        if (!out->probabilities) continue;
        double *p = out->probabilities + i * count;
        if (p != row) memcpy(p, row, count * sizeof *p);
        scores_to_probabilities(machine, p);
    }
    bo_free(owned);
    return status;
}

bo_status bo_machine_predict_view(bo_context *context, const bo_machine *machine, const bo_input_view *inputs,
                                  const bo_prediction *out)
{
    const bool deviations = out->std || out->low || out->high;
    if (!machine->report.classes && (out->classes || out->probabilities))
        return bo_fail(context, BO_UNSUPPORTED, "expected a classifier, found a machine for regression");
    if (machine->report.classes && !deviations) return predict_classes(context, machine, inputs, out);
    return predict_numbers(context, machine, inputs, out); /* refuses deviations of classes */
}

bo_status bo_machine_predict(bo_context *context, const bo_machine *machine, const bo_inputs *inputs,
                             const bo_prediction *out)
{
    BO_REQUIRE(context, machine, inputs, out);
    BO_TRY(bo_check_reserved(context, "bo_prediction", out->reserved));
    if (out->level != 0 && !(out->level > 0 && out->level < 1))
        return bo_fail(context, BO_INVALID, "level: expected a number between 0 and 1, found %g", out->level);
    bo_input_view view;
    BO_TRY(bo_input_view_make(context, inputs, machine->report.dim, &view));
    if (view.rows == 0) return BO_OK;
    if (!out->mean && !out->low && !out->high && !out->std && !out->classes && !out->probabilities)
        return bo_fail(context, BO_INVALID, "bo_prediction: expected at least one array, found none");
    return bo_machine_predict_view(context, machine, &view, out);
}

/* ---- tests ------------------------------------------------------------------------------------------------------- */

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

static bo_status evaluate_view(bo_context *context, const bo_machine *machine, const bo_input_view *inputs,
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
        const bo_input_view part = bo_input_view_slice(inputs, at, rows - at < block ? rows - at : block);
        const double *truth = y + at * targets;
        status = bo_progress(context, "testing", (double)at, (double)rows);
        if (status == BO_OK && report->classes) {
            status = bo_machine_predict_view(context, machine, &part,
                                             &(bo_prediction){.classes = predicted, .probabilities = mean});
            if (status == BO_OK)
                status = bo_metrics_add(
                    context, metrics,
                    &(bo_metrics_rows){.rows = part.rows, .y = truth, .predicted = predicted, .probabilities = mean});
        } else if (status == BO_OK) {
            status = bo_machine_predict_view(
                context, machine, &part,
                &(bo_prediction){.mean = mean, .low = low, .high = high, .level = 0.95, .std = std});
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

bo_status bo_machine_evaluate(bo_context *context, const bo_machine *machine, const bo_inputs *inputs, const double *y,
                              bo_metrics *metrics)
{
    BO_REQUIRE(context, machine, inputs, metrics);
    bo_input_view view;
    BO_TRY(bo_input_view_make(context, inputs, machine->report.dim, &view));
    BO_REQUIRE_IF(context, view.rows > 0, y);
    return evaluate_view(context, machine, &view, y, metrics);
}
