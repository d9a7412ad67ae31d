/* Quality metrics of predictions, computed from accumulated sums. */
#include <math.h>
#include <string.h>
#include "enums.h"
#include "../base/base.h"
#include "metrics.h"
#include "ranking.h"

static const char *const names[] = {
    "rmse", "r2",    "mae",      "median_absolute_error", "coverage_95", "accuracy", "log_loss",
    "auc",  "brier", "macro_f1", "calibration_error"};
BO_NAMED(score, bo_score, names)

bool bo_score_larger_is_better(bo_score score)
{
    return score == BO_SCORE_R2 || score == BO_SCORE_ACCURACY || score == BO_SCORE_AUC || score == BO_SCORE_MACRO_F1;
}

static const bo_measure unknown = {(double)NAN, (double)NAN, 0};

/* ---- regression -------------------------------------------------------------------------------------------------- */

double bo_metrics_target_mae(const bo_metrics *metrics, size_t target)
{
    if (!metrics) return NAN;
    if (target >= metrics->desc.targets || metrics->rows == 0) return NAN;
    return ldexp(metrics->moments[target].absolute.mean, metrics->sums[target].exponent);
}

/* σ/√n, with the sample variance. */
static double error_of_mean(double squared_deviation, uint64_t rows)
{
    if (rows < 2 || !(squared_deviation >= 0) || isinf(squared_deviation)) return NAN;
    return sqrt(squared_deviation / (double)(rows - 1) / (double)rows);
}

static double error_of_fraction(double fraction, uint64_t rows)
{
    return sqrt(fraction * (1 - fraction) / (double)rows);
}

/* The delta method: the standard error of √m is that of the mean square m over 2 √m. */
static double error_of_rmse(const bo_target_sums *sums, double fourth_power, uint64_t rows)
{
    const double mean = sums->squared_error / (double)rows;
    const double deviation = fmax(0, fourth_power - mean * sums->squared_error);
    if (!(mean > 0) || !isfinite(fourth_power)) return NAN;
    return ldexp(error_of_mean(deviation, rows) / (2 * sqrt(mean)), sums->exponent);
}

static uint64_t bits_of(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* The k-th smallest |prediction - y|, k from 0, by bisection of its bits: positive numbers are ordered like their bits.
 * Allocates nothing. */
static double kth_error(const bo_metrics *metrics, size_t k)
{
    uint64_t low = 0, high = bits_of(INFINITY);
    while (low < high) { /* the smallest bound that more than k errors do not exceed */
        const uint64_t middle = low + (high - low) / 2;
        size_t below = 0;
        for (size_t i = 0; i < metrics->points; i++)
            below += bits_of(fabs(metrics->predicted[i] - metrics->truth[i])) <= middle;
        if (below > k)
            high = middle;
        else
            low = middle + 1;
    }
    double value;
    memcpy(&value, &low, sizeof value);
    return value;
}

static double median_error(const bo_metrics *metrics)
{
    const size_t n = metrics->points;
    if (n == 0 || metrics->desc.targets != 1) return NAN;
    const double low = kth_error(metrics, (n - 1) / 2);
    return n % 2 ? low : low / 2 + kth_error(metrics, n / 2) / 2;
}

static bo_measure mean_absolute(const bo_metrics *metrics)
{
    double sum = 0;
    for (size_t t = 0; t < metrics->desc.targets; t++) sum += bo_metrics_target_mae(metrics, t);
    bo_measure out = {sum / (double)metrics->desc.targets, NAN, 0};
    if (metrics->desc.targets == 1)
        out.error = ldexp(error_of_mean(metrics->moments[0].absolute.squared_deviation, metrics->rows),
                          metrics->sums[0].exponent);
    return out;
}

static bo_measure measure_numbers(const bo_metrics *metrics, bo_score score)
{
    const bool one = metrics->desc.targets == 1;
    switch (score) {
    case BO_SCORE_RMSE:
        return (bo_measure){
            bo_metrics_rmse(metrics),
            one ? error_of_rmse(&metrics->sums[0], metrics->moments[0].fourth_power, metrics->rows) : NAN, 0};
    case BO_SCORE_R2:
        return (bo_measure){bo_metrics_r2(metrics), NAN, 0};
    case BO_SCORE_MAE:
        return mean_absolute(metrics);
    case BO_SCORE_MEDIAN_ERROR:
        return (bo_measure){median_error(metrics), NAN, 0};
    case BO_SCORE_COVERAGE: {
        const double covered = bo_metrics_coverage(metrics);
        return (bo_measure){covered, one ? error_of_fraction(covered, metrics->rows) : NAN, 0};
    }
    default:
        return unknown;
    }
}

/* ---- classes ----------------------------------------------------------------------------------------------------- */

/* True if every row has probabilities. */
static bool is_scored(const bo_metrics *metrics)
{
    return metrics->scored == metrics->rows;
}

static bo_class_scores scores_of(const bo_metrics *metrics, size_t index)
{
    const size_t classes = metrics->desc.classes;
    bo_class_scores out = {.auc = NAN, .auc_error = NAN};
    for (size_t i = 0; i < classes; i++) {
        out.rows += metrics->confusion[index * classes + i];
        out.predicted += metrics->confusion[i * classes + index];
    }
    const double right = (double)metrics->confusion[index * classes + index], rows = (double)out.rows,
                 predicted = (double)out.predicted;
    out.precision = out.predicted ? right / predicted : (double)NAN;
    out.recall = out.rows ? right / rows : (double)NAN;
    out.f1 = out.rows + out.predicted ? 2 * right / (rows + predicted) : (double)NAN;
    return out;
}

bo_status bo_metrics_class(bo_context *context, const bo_metrics *metrics, size_t index, bo_class_scores *out)
{
    BO_REQUIRE(context, metrics, out);
    if (index >= metrics->desc.classes)
        return bo_fail(context, BO_INVALID, "metrics: expected a class below %zu, found %zu", metrics->desc.classes,
                       index);
    *out = scores_of(metrics, index);
    if (!metrics->ranking || !is_scored(metrics)) return BO_OK;
    bo_measure auc;
    BO_TRY(bo_ranking_auc(context, metrics->ranking, index, &auc));
    out->auc = auc.value;
    out->auc_error = auc.error;
    return BO_OK;
}

static double macro_f1(const bo_metrics *metrics)
{
    double sum = 0;
    size_t count = 0;
    for (size_t c = 0; c < metrics->desc.classes; c++) {
        const double f1 = scores_of(metrics, c).f1;
        if (isnan(f1)) continue;
        sum += f1;
        count++;
    }
    return sum / (double)count;
}

static double calibration_error(const bo_metrics *metrics)
{
    double sum = 0;
    for (size_t b = 0; b < BO_CALIBRATION_BINS; b++)
        sum += fabs((double)metrics->calibration[b].outcomes - metrics->calibration[b].probability);
    return sum / (double)metrics->rows;
}

static bo_status measure_auc(bo_context *context, const bo_metrics *metrics, bo_measure *out)
{
    if (!metrics->ranking || !is_scored(metrics)) return BO_OK;
    const size_t classes = metrics->desc.classes;
    if (classes == 2) return bo_ranking_auc(context, metrics->ranking, 1, out);
    bo_measure sum = {0, NAN, 0};
    size_t count = 0;
    for (size_t c = 0; c < classes; c++) {
        bo_measure one;
        BO_TRY(bo_ranking_auc(context, metrics->ranking, c, &one));
        if (isnan(one.value)) continue;
        sum.value += one.value;
        sum.bound += one.bound;
        count++;
    }
    if (count) *out = (bo_measure){sum.value / (double)count, NAN, sum.bound / (double)count};
    return BO_OK;
}

static bo_status measure_classes(bo_context *context, const bo_metrics *metrics, bo_score score, bo_measure *out)
{
    const double accuracy = bo_metrics_accuracy(metrics);
    switch (score) {
    case BO_SCORE_ACCURACY:
        *out = (bo_measure){accuracy, error_of_fraction(accuracy, metrics->rows), 0};
        break;
    case BO_SCORE_LOG_LOSS:
        *out = (bo_measure){bo_metrics_log_loss(metrics), error_of_mean(metrics->loss_deviation, metrics->rows), 0};
        break;
    case BO_SCORE_AUC:
        return measure_auc(context, metrics, out);
    case BO_SCORE_BRIER:
        if (is_scored(metrics))
            *out = (bo_measure){metrics->brier.mean, error_of_mean(metrics->brier.squared_deviation, metrics->rows), 0};
        break;
    case BO_SCORE_MACRO_F1:
        *out = (bo_measure){macro_f1(metrics), NAN, 0};
        break;
    case BO_SCORE_CALIBRATION:
        if (is_scored(metrics)) *out = (bo_measure){calibration_error(metrics), NAN, 0};
        break;
    default:
        break;
    }
    return BO_OK;
}

bo_status bo_metrics_measure(bo_context *context, const bo_metrics *metrics, bo_score score, bo_measure *out)
{
    BO_REQUIRE(context, metrics, out);
    *out = unknown;
    if (!bo_score_name(score))
        return bo_fail(context, BO_INVALID, "metrics: expected a value of bo_score, found %d", (int)score);
    if (metrics->rows == 0) return BO_OK;
    if (metrics->desc.classes) return measure_classes(context, metrics, score, out);
    *out = measure_numbers(metrics, score);
    return BO_OK;
}

/* ---- ROC curves -------------------------------------------------------------------------------------------------- */

typedef struct corner {
    double outside, inside; /* rows above the threshold */
} corner;

/* The corners of the curve, from high to low scores. A corner on the line between its neighbors is omitted. */
static size_t corners_of(const bo_rank *ranks, size_t count, corner *corners)
{
    size_t found = 1;
    corners[0] = (corner){0, 0};
    for (size_t i = count; i-- > 0;) {
        if (ranks[i].inside + ranks[i].outside == 0) continue;
        const corner last = corners[found - 1];
        const corner next = {last.outside + (double)ranks[i].outside, last.inside + (double)ranks[i].inside};
        if (found > 1) {
            const corner before = corners[found - 2];
            const double turn = (last.outside - before.outside) * (next.inside - last.inside) -
                                (last.inside - before.inside) * (next.outside - last.outside);
            found -= turn == 0;
        }
        corners[found++] = next;
    }
    return found;
}

bo_status bo_metrics_roc(bo_context *context, const bo_metrics *metrics, size_t index, size_t capacity,
                         double *false_rates, double *true_rates, size_t *count)
{
    if (count) *count = 0;
    BO_REQUIRE(context, metrics, false_rates, true_rates, count);
    if (index >= metrics->desc.classes || capacity < 2)
        return bo_fail(context, BO_INVALID,
                       "metrics: expected a class below %zu and at least 2 points, found class %zu and %zu points",
                       metrics->desc.classes, index, capacity);
    if (!metrics->ranking || metrics->rows == 0 || !is_scored(metrics)) return BO_OK;
    bo_rank *ranks;
    size_t ranked;
    BO_TRY(bo_ranking_ranks(context, metrics->ranking, index, &ranks, &ranked));
    corner *corners = bo_alloc(context, ranked + 1, sizeof *corners, "an ROC curve");
    if (!corners) {
        bo_free(ranks);
        return BO_MEMORY;
    }
    const size_t found = corners_of(ranks, ranked, corners), kept = found < capacity ? found : capacity;
    const corner all = corners[found - 1];
    if (all.outside > 0 && all.inside > 0) {
        for (size_t i = 0; i < kept; i++) {
            const corner at = corners[i * (found - 1) / (kept - 1)];
            false_rates[i] = at.outside / all.outside;
            true_rates[i] = at.inside / all.inside;
        }
        *count = kept;
    }
    bo_free(ranks);
    bo_free(corners);
    return BO_OK;
}
