/* Coverage of intervals by size of the prediction, from a uniform sample of the rows. */
#include "metrics.h"
#include <math.h>
#include <string.h>
#include "../base/base.h"
#include "../base/rng.h"

enum { MAX_ROWS = 16384, MAX_NUMBERS = 1 << 20 };

static size_t max_rows(const bo_metrics *metrics)
{
    const size_t capacity = MAX_NUMBERS / metrics->desc.targets;
    return capacity < BO_COVERAGE_PARTS ? BO_COVERAGE_PARTS : capacity < MAX_ROWS ? capacity : MAX_ROWS;
}

bo_status bo_coverage_prepare(bo_context *context, bo_metrics *metrics)
{
    const size_t count = max_rows(metrics) * metrics->desc.targets;
    if (!metrics->desc.has_std || metrics->interval_inside) return BO_OK;
    double *mean = bo_alloc_raw(context, count, sizeof *mean, "the coverage of intervals");
    bool *inside = mean ? bo_alloc_raw(context, count, sizeof *inside, "the coverage of intervals") : NULL;
    if (!inside) {
        bo_free(mean);
        return BO_MEMORY;
    }
    metrics->interval_mean = mean;
    metrics->interval_inside = inside;
    return BO_OK;
}

/* Reservoir sampling: row i stays with probability capacity / (i + 1). All targets of a row go to the same place. */
void bo_coverage_keep(bo_metrics *metrics, uint64_t row, size_t target, double mean, bool inside)
{
    if (!metrics->interval_inside) return;
    const size_t capacity = max_rows(metrics);
    const uint64_t at = row < capacity ? row : bo_hash(11, row) % (row + 1);
    if (at >= capacity) return;
    metrics->interval_mean[at * metrics->desc.targets + target] = mean;
    metrics->interval_inside[at * metrics->desc.targets + target] = inside;
    if (row < capacity) metrics->interval_rows = (size_t)row + 1;
}

/* Bits with the same order as the numbers. */
static uint64_t order_of(double number)
{
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    return bits >> 63 ? ~bits : bits | (uint64_t)1 << 63;
}

/* The number of predictions of a target up to a number, which is given by its order bits. */
static size_t count_up_to(const bo_metrics *metrics, size_t target, uint64_t order)
{
    size_t count = 0;
    for (size_t i = 0; i < metrics->interval_rows; i++)
        count += order_of(metrics->interval_mean[i * metrics->desc.targets + target]) <= order;
    return count;
}

/* The number of true values inside their intervals among the `rank` smallest predictions of a target; equal predictions
 * are taken in the order of the rows. Bisection finds the last of these predictions without memory for a sort. */
static size_t inside_below(const bo_metrics *metrics, size_t target, size_t rank)
{
    uint64_t low = 0, high = UINT64_MAX;
    while (low < high) {
        const uint64_t middle = low + (high - low) / 2;
        if (count_up_to(metrics, target, middle) >= rank)
            high = middle;
        else
            low = middle + 1;
    }
    size_t inside = 0, equal = rank - (low > 0 ? count_up_to(metrics, target, low - 1) : 0);
    for (size_t i = 0; i < metrics->interval_rows; i++) {
        const size_t at = i * metrics->desc.targets + target;
        const uint64_t order = order_of(metrics->interval_mean[at]);
        if (order > low || (order == low && equal == 0)) continue;
        if (order == low) equal--;
        inside += metrics->interval_inside[at];
    }
    return inside;
}

double bo_metrics_coverage_part(const bo_metrics *metrics, size_t part)
{
    if (!metrics || part >= BO_COVERAGE_PARTS || metrics->interval_rows < BO_COVERAGE_PARTS) return NAN;
    const size_t rows = metrics->interval_rows, targets = metrics->desc.targets;
    const size_t first = part * rows / BO_COVERAGE_PARTS, end = (part + 1) * rows / BO_COVERAGE_PARTS;
    size_t inside = 0;
    for (size_t t = 0; t < targets; t++) inside += inside_below(metrics, t, end) - inside_below(metrics, t, first);
    return (double)inside / ((double)(end - first) * (double)targets);
}
