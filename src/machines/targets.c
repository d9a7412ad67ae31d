/* The right-hand side of the linear system. */
#include "internal.h"

#include <math.h>

void bo_targets_free(bo_targets *targets)
{
    bo_free(targets->mean);
    bo_free(targets->deviation);
    bo_free(targets->class_weight);
    *targets = (bo_targets){0};
}

/* Without an intercept nothing may be taken off the targets: β alone must reach them. */
static bo_status fit_regression(bo_context *context, bool intercept, const bo_samples *samples, bo_targets *out)
{
    size_t count = samples->targets, rows = samples->rows;
    out->outputs = count;
    out->mean = bo_alloc(context, count, sizeof *out->mean, "the targets");
    out->deviation = bo_alloc(context, count, sizeof *out->deviation, "the targets");
    if (!out->mean || !out->deviation) return BO_MEMORY;
    for (size_t t = 0; t < count; t++) {
        double sum = 0, squares = 0, total = 0;
        for (size_t i = 0; i < rows; i++) {
            double w = samples->weights ? (double)samples->weights[i] : 1;
            sum += w * samples->y[i * count + t];
            total += w;
        }
        double mean = intercept ? sum / total : 0;
        for (size_t i = 0; i < rows; i++)
            squares += (samples->weights ? (double)samples->weights[i] : 1) * pow(samples->y[i * count + t] - mean, 2);
        out->mean[t] = mean;
        out->deviation[t] = squares > 0 ? sqrt(squares / total) : 1;
    }
    return BO_OK;
}

static bo_status fit_classes(bo_context *context, const bo_machine_desc *desc, const bo_samples *samples,
                             bo_targets *out)
{
    size_t classes = samples->classes;
    out->classes = out->outputs = classes;
    size_t *count = bo_alloc(context, classes, sizeof *count, "the classes");
    if (!count) return BO_MEMORY;
    size_t present = 0;
    for (size_t i = 0; i < samples->rows; i++) present += count[(size_t)samples->y[i]]++ == 0;
    bo_status status = BO_OK;
    if (present < 2)
        status = bo_fail(context, BO_INVALID, "classification needs rows of at least 2 classes, found %zu", present);
    else if (desc->balanced || desc->class_weights) {
        out->class_weight = bo_alloc(context, classes, sizeof *out->class_weight, "the class weights");
        if (!out->class_weight) status = BO_MEMORY;
        for (size_t c = 0; status == BO_OK && c < classes; c++) {
            double weight = desc->class_weights ? (double)desc->class_weights[c] : 1;
            if (!(weight >= 0 && isfinite(weight)))
                status = bo_fail(context, BO_INVALID, "class %zu: expected a weight >= 0, found %g", c, weight);
            /* a class that a stream's sample lacks is rarer than one row of it */
            double rows = count[c] ? (double)count[c] : 1;
            if (desc->balanced) weight *= (double)samples->rows / ((double)present * rows);
            out->class_weight[c] = (float)weight;
        }
    }
    bo_free(count);
    return status;
}

bo_status bo_targets_fit(bo_context *context, const bo_machine_desc *desc, const bo_samples *samples, bo_targets *out)
{
    *out = (bo_targets){0};
    bo_status status = samples->classes ? fit_classes(context, desc, samples, out)
                                        : fit_regression(context, !desc->no_intercept, samples, out);
    if (status != BO_OK) bo_targets_free(out);
    return status;
}

float bo_targets_value(const bo_targets *targets, const double *y, size_t t)
{
    if (targets->classes) return (size_t)y[0] == t ? 1 : -1;
    return (float)((y[t] - targets->mean[t]) / targets->deviation[t]);
}

float bo_targets_root_weight(const bo_targets *targets, const bo_samples *samples, size_t row)
{
    float weight = samples->weights ? samples->weights[row] : 1;
    if (targets->class_weight) weight *= targets->class_weight[(size_t)samples->y[row]];
    return sqrtf(weight);
}
