/* Metrics of predictions: sums over rows, and the figures computed from them. */
#include "metrics.h"
#include <assert.h>
#include <limits.h>
#include <math.h>
#include "../base/base.h"
#include "scaling.h"

void bo_metrics_destroy(bo_metrics *metrics)
{
    if (!metrics) return;
    bo_free(metrics->sums);
    bo_free(metrics->confusion);
    bo_free(metrics->truth);
    bo_free(metrics->predicted);
    bo_free(metrics->deviation);
    bo_free(metrics->interval_mean);
    bo_free(metrics->interval_inside);
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
    if (out) *out = NULL;
    BO_REQUIRE(context, desc, out);
    BO_TRY(bo_check_reserved(context, "bo_metrics_desc", desc->reserved));
    if (!desc->targets == !desc->classes)
        return bo_fail(context, BO_INVALID,
                       "metrics: expected either targets or classes, found %zu targets and %zu classes", desc->targets,
                       desc->classes);
    if (desc->classes && (desc->has_std || desc->points))
        return bo_fail(context, BO_INVALID, "metrics: metrics of classes do not support standard deviations or points");
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

/* ---- adding ------------------------------------------------------------------------------------------------------ */

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

/* Changes the exponent if the squares of a number are outside the range of double: up for a larger number, down only
 * while the sums are empty. Multiplication by powers of two does not round. */
static void choose_exponent(bo_target_sums *sums, double error, double delta)
{
    enum { ROOM = 400 }; /* squares and sums of numbers from 2^-400 to 2^400 are in range */
    const double largest = fmax(fabs(error), fabs(delta));
    if (!(largest > 0) || !isfinite(largest)) return;
    const int exponent = ilogb(largest), change = exponent - sums->exponent;
    if (change >= -ROOM && change <= ROOM) return;
    if (change < 0 && (sums->squared_error > 0 || sums->squared_deviation > 0)) return;
    sums->squared_error = ldexp(sums->squared_error, -2 * change);
    sums->squared_deviation = ldexp(sums->squared_deviation, -2 * change);
    sums->exponent = exponent;
}

static bo_status add_numbers(bo_context *context, bo_metrics *metrics, size_t rows, const double *y, const double *mean,
                             const double *std, const double *low, const double *high)
{
    const size_t targets = metrics->desc.targets;
    if (targets == 0) return bo_fail(context, BO_INVALID, "metrics: expected classes, found numbers");
    BO_REQUIRE_IF(context, rows > 0 && metrics->desc.has_std, std);
    if (std && rows > 0) BO_TRY(bo_coverage_prepare(context, metrics));
    for (size_t i = 0; i < rows; i++) {
        const uint64_t row = metrics->rows++;
        for (size_t t = 0; t < targets; t++) {
            bo_target_sums *sums = &metrics->sums[t];
            const size_t at = i * targets + t;
            const double error = mean[at] - y[at], delta = y[at] - sums->mean;
            choose_exponent(sums, error, delta);
            sums->squared_error += pow(ldexp(error, -sums->exponent), 2);
            sums->mean += delta / (double)metrics->rows;
            sums->squared_deviation += ldexp(delta, -sums->exponent) * ldexp(y[at] - sums->mean, -sums->exponent);
            if (!std) continue;
            const bool inside = low ? y[at] >= low[at] && y[at] <= high[at] : fabs(error) <= BO_INTERVAL_95 * std[at];
            sums->covered += inside;
            bo_coverage_keep(metrics, row, t, mean[at], inside);
        }
        const size_t first = i * targets;
        keep_point(metrics, row, y[first], mean[first], std ? std[first] : 0);
    }
    return BO_OK;
}

bo_status bo_metrics_add(bo_context *context, bo_metrics *metrics, size_t rows, const double *y, const double *mean,
                         const double *std)
{
    BO_REQUIRE(context, metrics);
    BO_REQUIRE_IF(context, rows > 0, y, mean);
    return add_numbers(context, metrics, rows, y, mean, std, NULL, NULL);
}

bo_status bo_metrics_add_intervals(bo_context *context, bo_metrics *metrics, size_t rows, const double *y,
                                   const double *mean, const double *std, const double *low, const double *high)
{
    BO_REQUIRE(context, metrics);
    BO_REQUIRE_IF(context, rows > 0, y, mean, std, low, high);
    if (metrics->desc.targets > 0 && !metrics->desc.has_std)
        return bo_fail(context, BO_INVALID, "metrics: expected no intervals, because has_std is not set");
    return add_numbers(context, metrics, rows, y, mean, std, low, high);
}

static void add_class(bo_metrics *metrics, size_t truth, size_t predicted, double loss)
{
    assert(truth < metrics->desc.classes && predicted < metrics->desc.classes);
    metrics->log_loss += loss;
    metrics->confusion[truth * metrics->desc.classes + predicted]++;
    metrics->right += truth == predicted;
    metrics->rows++;
}

bo_status bo_metrics_add_class(bo_context *context, bo_metrics *metrics, size_t truth, size_t predicted, double loss)
{
    BO_REQUIRE(context, metrics);
    const size_t classes = metrics->desc.classes;
    if (classes == 0) return bo_fail(context, BO_INVALID, "metrics: expected numbers, found a class");
    if (truth >= classes || predicted >= classes)
        return bo_fail(context, BO_INVALID, "metrics: expected classes from 0 to %zu, found %zu and %zu", classes - 1,
                       truth, predicted);
    add_class(metrics, truth, predicted, loss);
    return BO_OK;
}

bo_status bo_metrics_check_classes(bo_context *context, size_t classes, size_t rows, const double *y)
{
    for (size_t i = 0; i < rows; i++)
        if (!(y[i] >= 0 && y[i] < (double)classes && y[i] == floor(y[i])))
            return bo_fail(context, BO_INVALID, "row %zu: expected a class from 0 to %zu, found %g", i, classes - 1,
                           y[i]);
    return BO_OK;
}

bo_status bo_metrics_add_classes(bo_context *context, bo_metrics *metrics, size_t rows, const double *y,
                                 const int *predicted, const double *probabilities)
{
    BO_REQUIRE(context, metrics);
    BO_REQUIRE_IF(context, rows > 0, y, predicted, probabilities);
    const size_t classes = metrics->desc.classes;
    if (classes == 0) return bo_fail(context, BO_INVALID, "metrics: expected numbers, found classes");
    BO_TRY(bo_metrics_check_classes(context, classes, rows, y));
    for (size_t i = 0; i < rows; i++)
        if (predicted[i] < 0 || (size_t)predicted[i] >= classes)
            return bo_fail(context, BO_INVALID, "row %zu: expected a prediction from 0 to %zu, found %d", i,
                           classes - 1, predicted[i]);
    for (size_t i = 0; i < rows; i++) {
        const size_t truth = (size_t)y[i];
        const double p = probabilities[i * classes + truth];
        add_class(metrics, truth, (size_t)predicted[i], -log(p > 1e-15 ? (p < 1 ? p : 1) : 1e-15));
    }
    return BO_OK;
}

/* ---- figures ----------------------------------------------------------------------------------------------------- */

double bo_metrics_target_rmse(const bo_metrics *metrics, size_t target)
{
    if (!metrics) return NAN;
    if (target >= metrics->desc.targets) return NAN;
    const bo_target_sums *sums = &metrics->sums[target];
    return ldexp(sqrt(sums->squared_error / (double)metrics->rows), sums->exponent);
}

double bo_metrics_target_r2(const bo_metrics *metrics, size_t target)
{
    if (!metrics) return NAN;
    if (target >= metrics->desc.targets) return NAN;
    const bo_target_sums *sums = &metrics->sums[target];
    return sums->squared_deviation > 0 ? 1 - sums->squared_error / sums->squared_deviation : NAN;
}

double bo_metrics_target_coverage(const bo_metrics *metrics, size_t target)
{
    if (!metrics) return NAN;
    if (target >= metrics->desc.targets) return NAN;
    return metrics->desc.has_std ? (double)metrics->sums[target].covered / (double)metrics->rows : NAN;
}

double bo_metrics_rmse(const bo_metrics *metrics)
{
    if (!metrics || metrics->desc.targets == 0 || metrics->rows == 0) return NAN;
    double sum = 0;
    int exponent = INT_MIN; /* of the largest error */
    for (size_t t = 0; t < metrics->desc.targets; t++) {
        const bo_target_sums *sums = &metrics->sums[t];
        int size = sums->exponent + bo_exponent(sums->squared_error) / 2;
        if (sums->squared_error != 0 && size > exponent) exponent = size;
    }
    if (exponent == INT_MIN) return 0;
    for (size_t t = 0; t < metrics->desc.targets; t++)
        sum += ldexp(metrics->sums[t].squared_error, 2 * (metrics->sums[t].exponent - exponent));
    return ldexp(sqrt(sum / ((double)metrics->rows * (double)metrics->desc.targets)), exponent);
}

double bo_metrics_r2(const bo_metrics *metrics)
{
    if (!metrics) return NAN;
    double sum = 0;
    for (size_t t = 0; t < metrics->desc.targets; t++) sum += bo_metrics_target_r2(metrics, t);
    return sum / (double)metrics->desc.targets;
}

double bo_metrics_coverage(const bo_metrics *metrics)
{
    if (!metrics) return NAN;
    if (!metrics->desc.has_std) return NAN;
    double sum = 0;
    for (size_t t = 0; t < metrics->desc.targets; t++) sum += (double)metrics->sums[t].covered;
    return sum / ((double)metrics->rows * (double)metrics->desc.targets);
}

double bo_metrics_accuracy(const bo_metrics *metrics)
{
    return metrics ? (double)metrics->right / (double)metrics->rows : NAN;
}

double bo_metrics_log_loss(const bo_metrics *metrics)
{
    return metrics ? metrics->log_loss / (double)metrics->rows : NAN;
}
