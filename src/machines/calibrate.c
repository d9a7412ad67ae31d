/* What rows left out say about the machine's own error: the noise of a regression, the probabilities of a classifier. */
#include "internal.h"

#include <math.h>
#include <string.h>

/* With leverage h and left-out error e = r/(1 - h), the predictive variance for the left-out row is s²/(1 - h), so that
 * s² = mean of e² (1 - h). A row of weight w is one with noise s²/w, so that s² is the noise of weight 1 and the mean that of
 * w e² (1 - h); new rows are taken to weigh what training rows weigh on average. */
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
        double scale = targets->deviation[t];
        machine->noise_variance[t] = rows > 0 ? sum / rows * scale * scale : 0;
    }
    machine->report.noise_std = sqrt(machine->noise_variance[0] / machine->mean_weight);
}

typedef struct calibration {
    const bo_left_out *left_out;
    size_t classes;
    double *p;        /* classes: probabilities of the row at hand */
    double *gradient; /* classes + 1: offsets, then sharpness */
    double *curvature;
    double mean_weight; /* of a row */
} calibration;

enum { PRIOR_ROWS = 4 }; /* strength of the pull of offsets to 0: a class with few rows keeps its score */

/* Mean log loss of softmax(sharpness * score + offset), with gradient and diagonal of the Hessian when wanted. */
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
        double own = c->p[rows->label[i]] - top;
        for (size_t k = 0; k < classes; k++) sum += c->p[k] = exp(c->p[k] - top);
        loss += w * (log(sum) - own);
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

/* Diagonal Newton with halving: convex, so it cannot go wrong, and small, so it need not be clever. */
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

/* offset: classes numbers, the start and the result. */
static bo_status calibrate_classes(bo_context *context, const bo_left_out *left_out, double *sharpness, double *offset,
                                   double *loss)
{
    size_t classes = left_out->outputs;
    double *space = bo_alloc_raw(context, 4 * classes + 2, sizeof *space, "the calibration");
    if (!space) return BO_MEMORY;
    calibration c = {left_out, classes, space, space + classes, space + 2 * classes + 1, 0};
    for (size_t i = 0; i < left_out->rows; i++) c.mean_weight += left_out->weight[i] / (double)left_out->rows;
    *sharpness = 2; /* scores are ±1 for the surest rows */
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

bo_status bo_machine_calibrate(bo_context *context, bo_machine *machine, const bo_targets *targets,
                               const bo_left_out *left_out)
{
    if (left_out->rows == 0) return BO_OK;
    double loss;
    if (targets->classes) return calibrate_classes(context, left_out, &machine->sharpness, machine->offset, &loss);
    noise_from(machine, targets, left_out);
    return BO_OK;
}
