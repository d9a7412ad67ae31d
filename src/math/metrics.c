/* How good predictions are: sums over rows, and what follows from them. */
#include <bochner/metrics.h>
#include <assert.h>
#include <math.h>
#include "../base/base.h"

void bo_metrics_destroy(bo_metrics *metrics)
{
    if (!metrics) return;
    bo_free(metrics->sums);
    bo_free(metrics->confusion);
    bo_free(metrics->truth);
    bo_free(metrics->predicted);
    bo_free(metrics->deviation);
    bo_free(metrics);
}

static bo_status make_points(bo_context *context, bo_metrics *metrics)
{
    const size_t points = metrics->desc.points;
    if (!points) return BO_OK;
    metrics->truth = bo_alloc(context, points, sizeof *metrics->truth, "points");
    metrics->predicted = bo_alloc(context, points, sizeof *metrics->predicted, "points");
    if (metrics->desc.has_std) metrics->deviation = bo_alloc(context, points, sizeof *metrics->deviation, "points");
    return metrics->truth && metrics->predicted && (metrics->deviation || !metrics->desc.has_std) ? BO_OK : BO_MEMORY;
}

static bo_status make(bo_context *context, bo_metrics *metrics)
{
    const size_t classes = metrics->desc.classes, targets = metrics->desc.targets;
    if (classes > UINT32_MAX)
        return bo_fail(context, BO_INVALID, "metrics: a confusion matrix of %zu classes is too large", classes);
    if (classes) {
        metrics->confusion = bo_alloc(context, classes * classes, sizeof *metrics->confusion, "a confusion matrix");
        return metrics->confusion ? BO_OK : BO_MEMORY;
    }
    metrics->sums = bo_alloc(context, targets, sizeof *metrics->sums, "metrics");
    return metrics->sums ? make_points(context, metrics) : BO_MEMORY;
}

bo_status bo_metrics_create(bo_context *context, const bo_metrics_desc *desc, bo_metrics **out)
{
    *out = NULL;
    if (!desc->targets == !desc->classes)
        return bo_fail(context, BO_INVALID, "metrics: expected targets or classes, found %zu and %zu", desc->targets,
                       desc->classes);
    if (desc->classes && (desc->has_std || desc->points))
        return bo_fail(context, BO_INVALID, "metrics: classes have no standard deviations and no points");
    bo_metrics *metrics = bo_alloc(context, 1, sizeof *metrics, "metrics");
    if (!metrics) return BO_MEMORY;
    metrics->desc = *desc;
    const bo_status status = make(context, metrics);
    if (status != BO_OK)
        bo_metrics_destroy(metrics);
    else
        *out = metrics;
    return status;
}

/* ---- adding ---------------------------------------------------------------------------------------------------- */

/* Reservoir sampling: row i stays with probability desc.points / (i + 1). */
static void keep_point(bo_metrics *metrics, uint64_t row, double truth, double predicted, double deviation)
{
    const size_t most = metrics->desc.points;
    if (!most) return;
    const uint64_t at = row < most ? row : bo_hash(7, row) % (row + 1);
    if (at >= most) return;
    metrics->truth[at] = truth;
    metrics->predicted[at] = predicted;
    if (metrics->deviation) metrics->deviation[at] = deviation;
    if (row < most) metrics->points = (size_t)row + 1;
}

void bo_metrics_add(bo_metrics *metrics, size_t rows, const double *y, const double *mean, const double *std)
{
    const size_t targets = metrics->desc.targets;
    assert(targets > 0 && (std || !metrics->desc.has_std));
    for (size_t i = 0; i < rows; i++) {
        const uint64_t row = metrics->rows++;
        for (size_t t = 0; t < targets; t++) {
            bo_target_sums *sums = &metrics->sums[t];
            const size_t at = i * targets + t;
            const double error = mean[at] - y[at], delta = y[at] - sums->mean;
            sums->squared_error += error * error;
            sums->mean += delta / (double)metrics->rows;
            sums->squared_deviation += delta * (y[at] - sums->mean);
            if (std && fabs(error) <= BO_INTERVAL_95 * std[at]) sums->covered++;
        }
        const size_t first = i * targets;
        keep_point(metrics, row, y[first], mean[first], std ? std[first] : 0);
    }
}

void bo_metrics_add_class(bo_metrics *metrics, size_t truth, size_t predicted, double loss)
{
    assert(truth < metrics->desc.classes && predicted < metrics->desc.classes);
    metrics->log_loss += loss;
    metrics->confusion[truth * metrics->desc.classes + predicted]++;
    metrics->right += truth == predicted;
    metrics->rows++;
}

void bo_metrics_add_classes(bo_metrics *metrics, size_t rows, const double *y, const int *predicted,
                            const double *probabilities)
{
    for (size_t i = 0; i < rows; i++) {
        const size_t truth = (size_t)y[i];
        const double p = probabilities[i * metrics->desc.classes + truth];
        bo_metrics_add_class(metrics, truth, (size_t)predicted[i], -log(p > 1e-15 ? (p < 1 ? p : 1) : 1e-15));
    }
}

/* ---- figures --------------------------------------------------------------------------------------------------- */

double bo_metrics_target_rmse(const bo_metrics *metrics, size_t target)
{
    return sqrt(metrics->sums[target].squared_error / (double)metrics->rows);
}

double bo_metrics_target_r2(const bo_metrics *metrics, size_t target)
{
    const bo_target_sums *sums = &metrics->sums[target];
    return sums->squared_deviation > 0 ? 1 - sums->squared_error / sums->squared_deviation : NAN;
}

double bo_metrics_target_coverage(const bo_metrics *metrics, size_t target)
{
    return metrics->desc.has_std ? (double)metrics->sums[target].covered / (double)metrics->rows : NAN;
}

double bo_metrics_rmse(const bo_metrics *metrics)
{
    double sum = 0;
    for (size_t t = 0; t < metrics->desc.targets; t++) sum += metrics->sums[t].squared_error;
    return sqrt(sum / ((double)metrics->rows * (double)metrics->desc.targets));
}

double bo_metrics_r2(const bo_metrics *metrics)
{
    double sum = 0;
    for (size_t t = 0; t < metrics->desc.targets; t++) sum += bo_metrics_target_r2(metrics, t);
    return sum / (double)metrics->desc.targets;
}

double bo_metrics_coverage(const bo_metrics *metrics)
{
    if (!metrics->desc.has_std) return NAN;
    double sum = 0;
    for (size_t t = 0; t < metrics->desc.targets; t++) sum += (double)metrics->sums[t].covered;
    return sum / ((double)metrics->rows * (double)metrics->desc.targets);
}

double bo_metrics_accuracy(const bo_metrics *metrics)
{
    return (double)metrics->right / (double)metrics->rows;
}

double bo_metrics_log_loss(const bo_metrics *metrics)
{
    return metrics->log_loss / (double)metrics->rows;
}
