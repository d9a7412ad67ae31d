/* Coverage of intervals by size of the prediction, compared with sorted rows. */
#include "math/metrics.h"
#include "testing.h"
#include <bochner/metrics.h>
#include <math.h>
#include "base/rng.h"

enum { ROWS = 1003, TARGETS = 2, MANY = 40000 };

typedef struct row {
    double mean;
    size_t index;
    bool inside;
} row;

static int compare(const void *a, const void *b)
{
    const row *x = a, *y = b;
    if (x->mean != y->mean) return x->mean > y->mean ? 1 : -1;
    return (x->index > y->index) - (x->index < y->index);
}

/* Predictions of both signs, many of them equal; wide intervals for small ones, in blocks of any size. */
static void test_parts(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    static double y[ROWS * TARGETS], mean[ROWS * TARGETS], std[ROWS * TARGETS], low[ROWS * TARGETS],
        high[ROWS * TARGETS];
    static row rows[ROWS];
    bo_rng rng = bo_rng_make(1, bo_rng_stream("test.coverage", 0));
    for (size_t k = 0; k < ROWS * TARGETS; k++) {
        mean[k] = floor(20 * bo_rng_normal(&rng)) / 4;
        y[k] = mean[k] + bo_rng_normal(&rng);
        std[k] = 1;
        low[k] = mean[k] - (mean[k] < 0 ? 3 : 1.2);
        high[k] = mean[k] + (mean[k] < 0 ? 3 : 0.8);
    }
    bo_metrics *metrics;
    assert_ok(context, bo_metrics_create(context, &(bo_metrics_desc){.targets = TARGETS, .has_std = true}, &metrics));
    assert_true(isnan(bo_metrics_coverage_part(metrics, 0)));
    for (size_t at = 0; at < ROWS; at += 100) {
        const size_t count = ROWS - at < 100 ? ROWS - at : 100, k = at * TARGETS;
        assert_ok(
            context,
            bo_metrics_add(
                context, metrics,
                &(bo_metrics_rows){
                    .rows = count, .y = y + k, .mean = mean + k, .std = std + k, .low = low + k, .high = high + k}));
    }
    double expected[BO_COVERAGE_PARTS] = {0}, total = 0;
    for (size_t t = 0; t < TARGETS; t++) {
        for (size_t i = 0; i < ROWS; i++) {
            const size_t k = i * TARGETS + t;
            rows[i] = (row){mean[k], i, y[k] >= low[k] && y[k] <= high[k]};
            total += rows[i].inside / (double)(ROWS * TARGETS);
        }
        qsort(rows, ROWS, sizeof *rows, compare);
        for (size_t p = 0; p < BO_COVERAGE_PARTS; p++) {
            const size_t first = p * ROWS / 5, end = (p + 1) * ROWS / 5;
            for (size_t i = first; i < end; i++) expected[p] += rows[i].inside / (double)((end - first) * TARGETS);
        }
    }
    assert_close(bo_metrics_coverage(metrics), total, 1e-12);
    for (size_t p = 0; p < BO_COVERAGE_PARTS; p++)
        assert_close(bo_metrics_coverage_part(metrics, p), expected[p], 1e-12);
    assert_true(expected[0] > 0.98 && expected[4] < 0.75);
    assert_true(isnan(bo_metrics_coverage_part(metrics, BO_COVERAGE_PARTS)) &&
                isnan(bo_metrics_coverage_part(NULL, 0)));
    bo_metrics_destroy(metrics);
    bo_context_destroy(context);
}

/* Many rows: a sample of 16,384, whose fifths have 3,277 rows: six standard errors of a fraction are 6 √(.05 .95/3277)
 * = 2.3%. Rows of bo_metrics_add have the interval mean ± 1.96 std. */
static void test_sample(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_metrics *metrics;
    assert_ok(context, bo_metrics_create(context, &(bo_metrics_desc){.targets = 1, .has_std = true}, &metrics));
    bo_rng rng = bo_rng_make(2, bo_rng_stream("test.coverage", 0));
    for (size_t i = 0; i < MANY; i++) {
        const double mean = bo_rng_normal(&rng), y = mean + bo_rng_normal(&rng), std = 1;
        assert_ok(context,
                  bo_metrics_add(context, metrics, &(bo_metrics_rows){.rows = 1, .y = &y, .mean = &mean, .std = &std}));
    }
    assert_int_equal(metrics->interval_rows, 16384);
    for (size_t p = 0; p < BO_COVERAGE_PARTS; p++) assert_close(bo_metrics_coverage_part(metrics, p), 0.95, 0.023);
    bo_metrics_destroy(metrics);
    bo_context_destroy(context);
}

static void test_refused(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_metrics *plain, *classes;
    const double y = 0, std = 1, low = -1, high = 1;
    assert_ok(context, bo_metrics_create(context, &(bo_metrics_desc){.targets = 1}, &plain));
    assert_ok(context, bo_metrics_create(context, &(bo_metrics_desc){.classes = 2}, &classes));
    assert_fails(
        context, BO_INVALID, "has_std is not set",
        bo_metrics_add(context, plain,
                       &(bo_metrics_rows){.rows = 1, .y = &y, .mean = &y, .std = &std, .low = &low, .high = &high}));
    assert_fails(
        context, BO_INVALID, "expected classes",
        bo_metrics_add(context, classes,
                       &(bo_metrics_rows){.rows = 1, .y = &y, .mean = &y, .std = &std, .low = &low, .high = &high}));
    assert_ok(context, bo_metrics_add(context, plain, &(bo_metrics_rows){.rows = 1, .y = &y, .mean = &y}));
    assert_true(isnan(bo_metrics_coverage_part(plain, 0)) && isnan(bo_metrics_coverage_part(classes, 0)));
    bo_metrics_destroy(plain);
    bo_metrics_destroy(classes);
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_sample),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests_name("math.coverage", tests, NULL, NULL);
}
