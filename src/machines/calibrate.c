/* The error of a machine, measured on left-out rows: noise variance (regression), calibration of probabilities
 * (classification), and validation metrics. */
#include "../base/base.h"
#include "../math/metrics.h"
#include "left_out.h"
#include "machine.h"
#include "prediction.h"
#include "samples.h"

#include <math.h>
#include <string.h>

/* With leverage h and left-out error e = r/(1 - h), the predictive variance of the left-out row is s²/(1 - h), so s² =
 * mean of e² (1 - h). A row of weight w has noise s²/w, so with weights s² = mean of w e² (1 - h). New rows are assumed
 * to have the mean weight of the training rows. */
static void noise_from(bo_machine *machine, const bo_targets *targets, const bo_left_out *left_out)
{
    for (size_t t = 0; t < left_out->outputs; t++) {
        double sum = 0, rows = 0, weight = 0;
        for (size_t i = 0; i < left_out->rows; i++) {
            double error = left_out->truth[i * left_out->outputs + t] - left_out->prediction[i * left_out->outputs + t];
            sum += left_out->weight[i] * error * error * (1 - left_out->leverage[i]);
            rows += left_out->weight[i] > 0;
            weight += left_out->weight[i];
        }
        machine->mean_weight = rows > 0 ? weight / rows : 1;
        machine->noise[t] = rows > 0 ? sqrt(sum / rows) * targets->deviation[t] : 0;
    }
    machine->report.noise_std = machine->noise[0] / sqrt(machine->mean_weight);
}

typedef struct calibration {
    const bo_left_out *left_out;
    size_t classes;
    double *p;        /* classes: probabilities of the current row */
    double *gradient; /* classes + 1: offsets, then sharpness */
    double *curvature;
    double mean_weight; /* per row */
} calibration;

enum {
    PRIOR_ROWS = 4
}; /* weight of the prior that keeps offsets near 0, so that a class with few rows keeps its score */

/* Mean log loss of softmax(sharpness * score + offset), optionally with gradient and diagonal of the Hessian. */
static double log_loss(calibration *c, double sharpness, const double *offset, bool derivatives)
{
    const bo_left_out *rows = c->left_out;
    size_t classes = c->classes;
    double loss = 0, prior = PRIOR_ROWS * c->mean_weight;
    if (derivatives) {
        memset(c->gradient, 0, (classes + 1) * sizeof *c->gradient);
        memset(c->curvature, 0, (classes + 1) * sizeof *c->curvature);
    }
    for (size_t k = 0; k < classes; k++) {
        loss += 0.5 * prior * offset[k] * offset[k];
        if (derivatives) c->gradient[k] = prior * offset[k], c->curvature[k] = prior;
    }
    for (size_t i = 0; i < rows->rows; i++) {
        const double *score = rows->prediction + i * classes;
        double top = -INFINITY, sum = 0, mean = 0, square = 0, w = rows->weight[i];
        for (size_t k = 0; k < classes; k++) top = fmax(top, c->p[k] = sharpness * score[k] + offset[k]);
        double logit = c->p[rows->label[i]] - top;
        for (size_t k = 0; k < classes; k++) sum += c->p[k] = exp(c->p[k] - top);
        loss += w * (log(sum) - logit);
        if (!derivatives) continue;
        for (size_t k = 0; k < classes; k++) {
            double p = c->p[k] / sum;
            mean += p * score[k];
            square += p * score[k] * score[k];
            c->gradient[k] += w * (p - (k == (size_t)rows->label[i]));
            c->curvature[k] += w * p * (1 - p);
        }
        c->gradient[classes] += w * (mean - score[rows->label[i]]);
        c->curvature[classes] += w * (square - mean * mean);
    }
    return loss;
}

/* Newton's method with a diagonal Hessian and step halving; the problem is convex and small. */
static void minimize(calibration *c, double *sharpness, double *offset, double *trial)
{
    enum { STEPS = 200 };
    double loss = log_loss(c, *sharpness, offset, true);
    for (int step = 0; step < STEPS; step++) {
        double rate = 1, next = loss;
        for (int half = 0; half < 20; half++, rate *= 0.5) {
            for (size_t k = 0; k < c->classes; k++) trial[k] = offset[k] - rate * c->gradient[k] / c->curvature[k];
            double sharper = *sharpness - rate * c->gradient[c->classes] / (c->curvature[c->classes] + 1e-9);
            next = sharper > 0 ? log_loss(c, sharper, trial, false) : INFINITY;
            if (next < loss) {
                *sharpness = sharper;
                memcpy(offset, trial, c->classes * sizeof *offset);
                break;
            }
        }
        if (!(loss - next > 1e-7 * loss)) break;
        loss = log_loss(c, *sharpness, offset, true);
    }
}

/* offset: one number per class, the start and the result. */
static bo_status calibrate_classes(bo_context *context, const bo_left_out *left_out, double *sharpness, double *offset,
                                   double *loss)
{
    size_t classes = left_out->outputs;
    double *space = bo_alloc_raw(context, 4 * classes + 2, sizeof *space, "the calibration");
    if (!space) return BO_MEMORY;
    calibration c = {left_out, classes, space, space + classes, space + 2 * classes + 1, 0};
    for (size_t i = 0; i < left_out->rows; i++) c.mean_weight += left_out->weight[i] / (double)left_out->rows;
    *sharpness = 2; /* confident rows have scores of about ±1 */
    minimize(&c, sharpness, offset, space + 3 * classes + 2);
    *loss = log_loss(&c, *sharpness, offset, false);
    bo_free(space);
    return BO_OK;
}

bo_status bo_left_out_log_loss(bo_context *context, const bo_left_out *left_out, double *loss)
{
    double *offset = bo_alloc(context, left_out->outputs, sizeof *offset, "the calibration"), sharpness, weight = 0;
    if (!offset) return BO_MEMORY;
    bo_status status = calibrate_classes(context, left_out, &sharpness, offset, loss);
    for (size_t i = 0; i < left_out->rows; i++) weight += left_out->weight[i];
    *loss /= weight > 0 ? weight : 1;
    bo_free(offset);
    return status;
}

/* Predictions and truth of one row, in the units of the data. */
static void restore_units(const bo_machine *machine, const bo_targets *targets, const bo_left_out *left_out, size_t row,
                          double *truth, double *prediction)
{
    for (size_t t = 0; t < left_out->outputs; t++) {
        const size_t at = row * left_out->outputs + t;
        truth[t] = targets->mean[t] + targets->deviation[t] * left_out->truth[at];
        if (targets->logarithms) truth[t] = exp(truth[t]);
        prediction[t] = targets->mean[t] + targets->deviation[t] * left_out->prediction[at];
    }
    bo_target_scale_restore(machine, 1, prediction);
}

/* The class with the largest score of one row, and -log p of the true class. */
static size_t classify_row(const bo_machine *machine, const bo_left_out *left_out, size_t row, double *loss)
{
    const double *score = left_out->prediction + row * left_out->outputs;
    double top = -INFINITY, sum = 0;
    size_t best = 0;
    for (size_t c = 0; c < left_out->outputs; c++) {
        top = fmax(top, machine->sharpness * score[c] + machine->offset[c]);
        if (score[c] > score[best]) best = c;
    }
    for (size_t c = 0; c < left_out->outputs; c++) sum += exp(machine->sharpness * score[c] + machine->offset[c] - top);
    const size_t label = (size_t)left_out->label[row];
    *loss = log(sum) - (machine->sharpness * score[label] + machine->offset[label] - top);
    return best;
}

void bo_report_validation(bo_fit_report *report, const bo_metrics *metrics)
{
    report->validation_rows = (size_t)metrics->rows;
    report->validation_rmse = report->classes ? NAN : bo_metrics_rmse(metrics);
    report->validation_r2 = report->classes ? NAN : bo_metrics_r2(metrics);
    report->validation_accuracy = report->classes ? bo_metrics_accuracy(metrics) : NAN;
    report->validation_log_loss = report->classes ? bo_metrics_log_loss(metrics) : NAN;
}

/* Rows of weight 0 were not used in the fit: dual.c has no left-out error for them. */
static bo_status validate(bo_context *context, bo_machine *machine, const bo_targets *targets,
                          const bo_left_out *left_out)
{
    const bo_metrics_desc desc = {.classes = targets->classes, .targets = targets->classes ? 0 : left_out->outputs};
    bo_metrics *metrics = NULL;
    double *row = bo_alloc_raw(context, 2 * left_out->outputs, sizeof *row, "a validation row");
    bo_status status = row ? bo_metrics_create(context, &desc, &metrics) : BO_MEMORY;
    for (size_t i = 0; status == BO_OK && i < left_out->rows; i++) {
        if (!(left_out->weight[i] > 0)) continue;
        if (targets->classes) {
            double loss;
            const size_t best = classify_row(machine, left_out, i, &loss);
            status = bo_metrics_add_class(context, metrics, (size_t)left_out->label[i], best, loss);
        } else {
            restore_units(machine, targets, left_out, i, row, row + left_out->outputs);
            status = bo_metrics_add(context, metrics,
                                    &(bo_metrics_rows){.rows = 1, .y = row, .mean = row + left_out->outputs});
        }
    }
    if (status == BO_OK) bo_report_validation(&machine->report, metrics);
    bo_metrics_destroy(metrics);
    bo_free(row);
    return status;
}

bo_status bo_machine_calibrate(bo_context *context, bo_machine *machine, const bo_targets *targets,
                               const bo_left_out *left_out)
{
    if (left_out->rows == 0) return BO_OK;
    double loss;
    if (targets->classes) {
        BO_TRY(calibrate_classes(context, left_out, &machine->sharpness, machine->offset, &loss));
    } else {
        noise_from(machine, targets, left_out);
        bo_target_scale_fit(targets, left_out, machine);
        BO_TRY(bo_intervals_fit(context, targets, left_out, machine));
    }
    return validate(context, machine, targets, left_out);
}
