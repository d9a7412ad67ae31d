/* Metrics of predictions: sums over rows, and the values computed from them. */
#include "../base/rng.h"
#include "metrics.h"
#include <assert.h>
#include <limits.h>
#include <math.h>
#include "../base/base.h"
#include "ranking.h"
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
    bo_free(metrics->moments);
    bo_free(metrics->calibration);
    bo_ranking_destroy(metrics->ranking);
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

static bo_status make_classes(bo_context *context, bo_metrics *metrics)
{
    const size_t classes = metrics->desc.classes;
    if (classes > UINT32_MAX)
        return bo_fail(context, BO_INVALID, "metrics: a confusion matrix of %zu classes is too large", classes);
    metrics->confusion = bo_alloc(context, classes * classes, sizeof *metrics->confusion, "a confusion matrix");
    metrics->calibration = bo_alloc(context, BO_CALIBRATION_BINS, sizeof *metrics->calibration, "metrics");
    if (!metrics->confusion || !metrics->calibration) return BO_MEMORY;
    return metrics->desc.points ? bo_ranking_create(context, classes, metrics->desc.points, &metrics->ranking) : BO_OK;
}

static bo_status allocate_sums(bo_context *context, bo_metrics *metrics)
{
    if (metrics->desc.classes) return make_classes(context, metrics);
    metrics->sums = bo_alloc(context, metrics->desc.targets, sizeof *metrics->sums, "metrics");
    metrics->moments = bo_alloc(context, metrics->desc.targets, sizeof *metrics->moments, "metrics");
    return metrics->sums && metrics->moments ? make_points(context, metrics) : BO_MEMORY;
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
    if (desc->classes && desc->has_std)
        return bo_fail(context, BO_INVALID, "metrics: metrics of classes do not support standard deviations");
    bo_metrics *metrics = bo_alloc(context, 1, sizeof *metrics, "metrics");
    if (!metrics) return BO_MEMORY;
    metrics->desc = *desc;
    const bo_status status = allocate_sums(context, metrics);
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
    const size_t capacity = metrics->desc.points;
    if (!capacity) return;
    const uint64_t at = row < capacity ? row : bo_hash(7, row) % (row + 1);
    if (at >= capacity) return;
    metrics->truth[at] = truth;
    metrics->predicted[at] = predicted;
    if (metrics->deviation) metrics->deviation[at] = deviation;
    if (row < capacity) metrics->points = (size_t)row + 1;
}

/* Welford 1962; `rows` includes this one. */
static void average(bo_running *running, uint64_t rows, double value)
{
    const double delta = value - running->mean;
    running->mean += delta / (double)rows;
    running->squared_deviation += delta * (value - running->mean);
}

/* Changes the exponent if the square of a number is outside the range of double: up for a larger number, down only
 * while the sums are empty. Multiplication by powers of two does not round. */
static void choose_exponent(bo_target_sums *sums, bo_error_moments *moments, double error, double delta)
{
    enum { MAX_EXPONENT = 400 }; /* squares and sums of numbers from 2^-400 to 2^400 are in range */
    const double largest = fmax(fabs(error), fabs(delta));
    if (!(largest > 0) || !isfinite(largest)) return;
    const int exponent = ilogb(largest), change = exponent - sums->exponent;
    if (change >= -MAX_EXPONENT && change <= MAX_EXPONENT) return;
    if (change < 0 && (sums->squared_error > 0 || sums->squared_deviation > 0)) return;
    sums->squared_error = ldexp(sums->squared_error, -2 * change);
    sums->squared_deviation = ldexp(sums->squared_deviation, -2 * change);
    moments->fourth_power = ldexp(moments->fourth_power, -4 * change);
    moments->absolute.mean = ldexp(moments->absolute.mean, -change);
    moments->absolute.squared_deviation = ldexp(moments->absolute.squared_deviation, -2 * change);
    sums->exponent = exponent;
}

static bo_status add_numbers(bo_context *context, bo_metrics *metrics, const bo_metrics_rows *added)
{
    const size_t targets = metrics->desc.targets, rows = added->rows;
    const double *y = added->y, *mean = added->mean, *std = added->std, *low = added->low, *high = added->high;
    if (low && !metrics->desc.has_std)
        return bo_fail(context, BO_INVALID, "metrics: expected no intervals, because has_std is not set");
    if (std && rows > 0) BO_TRY(bo_coverage_prepare(context, metrics));
    for (size_t i = 0; i < rows; i++) {
        const uint64_t row = metrics->rows++;
        for (size_t t = 0; t < targets; t++) {
            bo_target_sums *sums = &metrics->sums[t];
            bo_error_moments *moments = &metrics->moments[t];
            const size_t at = i * targets + t;
            const double error = mean[at] - y[at], delta = y[at] - sums->mean;
            choose_exponent(sums, moments, error, delta);
            const double scaled = ldexp(error, -sums->exponent), square = scaled * scaled;
            sums->squared_error += square;
            moments->fourth_power += square * square;
            average(&moments->absolute, metrics->rows, fabs(scaled));
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

static void add_class(bo_metrics *metrics, size_t truth, size_t predicted, double loss)
{
    assert(truth < metrics->desc.classes && predicted < metrics->desc.classes);
    bo_running losses = {metrics->rows ? metrics->log_loss / (double)metrics->rows : 0, metrics->loss_deviation};
    average(&losses, metrics->rows + 1, loss);
    metrics->loss_deviation = losses.squared_deviation;
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

/* Two classes: the squared error of one probability; more: the sum over the classes. */
static double brier_of(size_t classes, size_t truth, const double *p)
{
    double sum = 0;
    for (size_t c = classes == 2; c < classes; c++) sum += pow(p[c] - (c == truth), 2);
    return sum;
}

static void add_probabilities(bo_metrics *metrics, size_t truth, size_t predicted, const double *p)
{
    const size_t classes = metrics->desc.classes, shown = classes == 2 ? 1 : predicted;
    average(&metrics->brier, ++metrics->scored, brier_of(classes, truth, p));
    const double place = fmin(fmax(p[shown], 0), 1) * BO_CALIBRATION_BINS;
    bo_calibration_bin *bin =
        &metrics->calibration[place < BO_CALIBRATION_BINS ? (size_t)place : BO_CALIBRATION_BINS - 1];
    bin->rows++;
    bin->outcomes += truth == shown;
    bin->probability += p[shown];
}

bo_status bo_metrics_check_classes(bo_context *context, size_t classes, size_t rows, const double *y)
{
    for (size_t i = 0; i < rows; i++)
        if (!(y[i] >= 0 && y[i] < (double)classes && y[i] == floor(y[i])))
            return bo_fail(context, BO_INVALID, "row %zu: expected a class from 0 to %zu, found %g", i, classes - 1,
                           y[i]);
    return BO_OK;
}

static bo_status add_classes(bo_context *context, bo_metrics *metrics, const bo_metrics_rows *added)
{
    const size_t classes = metrics->desc.classes, rows = added->rows;
    const int *predicted = added->predicted;
    const double *y = added->y, *probabilities = added->probabilities;
    BO_TRY(bo_metrics_check_classes(context, classes, rows, y));
    for (size_t i = 0; i < rows; i++)
        if (predicted[i] < 0 || (size_t)predicted[i] >= classes)
            return bo_fail(context, BO_INVALID, "row %zu: expected a prediction from 0 to %zu, found %d", i,
                           classes - 1, predicted[i]);
    if (metrics->ranking) BO_TRY(bo_ranking_add(context, metrics->ranking, rows, y, probabilities));
    for (size_t i = 0; i < rows; i++) {
        const size_t truth = (size_t)y[i];
        add_probabilities(metrics, truth, (size_t)predicted[i], probabilities + i * classes);
        const double p = probabilities[i * classes + truth];
        add_class(metrics, truth, (size_t)predicted[i], -log(p > 1e-15 ? (p < 1 ? p : 1) : 1e-15));
    }
    return BO_OK;
}

bo_status bo_metrics_add(bo_context *context, bo_metrics *metrics, const bo_metrics_rows *rows)
{
    BO_REQUIRE(context, metrics, rows);
    BO_TRY(bo_check_reserved(context, "bo_metrics_rows", rows->reserved));
    if (metrics->desc.classes && (rows->mean || rows->std || rows->low || rows->high))
        return bo_fail(context, BO_INVALID, "metrics: expected classes, found numbers");
    if (metrics->desc.targets && (rows->predicted || rows->probabilities))
        return bo_fail(context, BO_INVALID, "metrics: expected numbers, found classes");
    if (rows->rows > 0) {
        const bool numbers = metrics->desc.targets > 0, interval = rows->low || rows->high;
        BO_REQUIRE(context, rows->y);
        BO_REQUIRE_IF(context, numbers, rows->mean);
        BO_REQUIRE_IF(context, numbers && (metrics->desc.has_std || interval), rows->std);
        BO_REQUIRE_IF(context, interval, rows->low, rows->high);
        BO_REQUIRE_IF(context, !numbers, rows->predicted, rows->probabilities);
    }
    return metrics->desc.classes ? add_classes(context, metrics, rows) : add_numbers(context, metrics, rows);
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

void bo_metrics_report(const bo_metrics *metrics, bo_metrics_summary *out)
{
    if (!out) return;
    *out = (bo_metrics_summary){NAN, NAN, NAN, {NAN, NAN, NAN, NAN, NAN}, NAN, NAN, {0}};
    if (!metrics) return;
    const bool classes = metrics->desc.classes > 0;
    out->rmse = bo_metrics_rmse(metrics);
    out->r2 = classes ? NAN : bo_metrics_r2(metrics);
    out->coverage = classes ? NAN : bo_metrics_coverage(metrics);
    for (size_t i = 0; i < BO_COVERAGE_PARTS; i++) out->coverage_parts[i] = bo_metrics_coverage_part(metrics, i);
    out->accuracy = classes ? bo_metrics_accuracy(metrics) : NAN;
    out->log_loss = classes ? bo_metrics_log_loss(metrics) : NAN;
}

bool bo_metrics_target(const bo_metrics *metrics, size_t index, bo_target_scores *out)
{
    if (out) *out = (bo_target_scores){0};
    if (!metrics || !out || index >= metrics->desc.targets) return false;
    out->rmse = bo_metrics_target_rmse(metrics, index);
    out->mae = bo_metrics_target_mae(metrics, index);
    out->r2 = bo_metrics_target_r2(metrics, index);
    out->coverage = bo_metrics_target_coverage(metrics, index);
    return true;
}
