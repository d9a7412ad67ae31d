/* Metrics compared with their definitions over all rows, for any blocks; samples of points; invalid calls. */
#include "math/metrics.h"
#include "testing.h"
#include <bochner/metrics.h>
#include <math.h>
#include "base/rng.h"

enum { ROWS = 997, TARGETS = 3, CLASSES = 4 };

typedef struct numbers {
    double y[ROWS * TARGETS], mean[ROWS * TARGETS], std[ROWS * TARGETS];
} numbers;

static void fill(numbers *n)
{
    bo_rng rng = bo_rng_make(1, bo_rng_stream("test.metrics", 0));
    for (size_t i = 0; i < ROWS * TARGETS; i++) {
        n->y[i] = 1e3 * (double)(i % TARGETS + 1) + bo_rng_normal(&rng);
        n->std[i] = 0.5 + bo_rng_uniform(&rng);
        n->mean[i] = n->y[i] + n->std[i] * bo_rng_normal(&rng);
    }
}

static bo_metrics *gather(bo_context *context, const numbers *n, const bo_metrics_desc *desc, size_t block)
{
    bo_metrics *metrics;
    assert_ok(context, bo_metrics_create(context, desc, &metrics));
    for (size_t at = 0; at < ROWS; at += block) {
        const size_t rows = ROWS - at < block ? ROWS - at : block, from = at * TARGETS;
        assert_ok(context, bo_metrics_add(context, metrics,
                                          &(bo_metrics_rows){.rows = rows,
                                                             .y = n->y + from,
                                                             .mean = n->mean + from,
                                                             .std = desc->has_std ? n->std + from : NULL}));
    }
    return metrics;
}

/* The definitions, in long double. */
static void test_regression(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    static numbers n;
    fill(&n);
    const bo_metrics_desc desc = {.targets = TARGETS, .has_std = true, .points = ROWS};
    bo_metrics *one = gather(context, &n, &desc, ROWS), *many = gather(context, &n, &desc, 10);
    double r2 = 0, coverage = 0;
    long double errors = 0;
    for (size_t t = 0; t < TARGETS; t++) {
        long double mean = 0, error = 0, deviation = 0;
        double covered = 0;
        for (size_t i = t; i < ROWS * TARGETS; i += TARGETS) mean += (long double)n.y[i] / ROWS;
        for (size_t i = t; i < ROWS * TARGETS; i += TARGETS) {
            error += powl((long double)n.mean[i] - (long double)n.y[i], 2);
            deviation += powl((long double)n.y[i] - mean, 2);
            covered += fabs(n.mean[i] - n.y[i]) <= 1.959963984540054 * n.std[i];
        }
        /* sums of 1e3 terms in double: 1e3 ε; of deviations from a mean of 1e3, a thousand times that */
        assert_close(bo_metrics_target_rmse(many, t), (double)sqrtl(error / ROWS), 1e-12);
        assert_close(bo_metrics_target_r2(many, t), (double)(1 - error / deviation), 1e-9);
        assert_true(bo_metrics_target_coverage(many, t) == covered / ROWS);
        errors += error, r2 += (double)(1 - error / deviation) / TARGETS, coverage += covered / ROWS / TARGETS;
    }
    assert_close(bo_metrics_rmse(many), (double)sqrtl(errors / (ROWS * TARGETS)), 1e-12);
    assert_close(bo_metrics_r2(many), r2, 1e-9);
    assert_close(bo_metrics_coverage(many), coverage, 1e-12);
    assert_true(many->rows == ROWS && many->points == ROWS);
    assert_memory_equal(one->sums, many->sums, TARGETS * sizeof *one->sums);
    for (size_t i = 0; i < ROWS; i++)
        assert_true(many->truth[i] == n.y[i * TARGETS] && many->predicted[i] == n.mean[i * TARGETS] &&
                    many->deviation[i] == n.std[i * TARGETS]);
    bo_metrics_destroy(one);
    bo_metrics_destroy(many);
    bo_context_destroy(context);
}

static void test_without_deviations(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    static numbers n;
    fill(&n);
    bo_metrics *metrics = gather(context, &n, &(bo_metrics_desc){.targets = TARGETS, .points = 10}, 100);
    assert_true(isnan(bo_metrics_coverage(metrics)) && isnan(bo_metrics_target_coverage(metrics, 0)));
    assert_null(metrics->deviation);
    bo_metrics_destroy(metrics);
    const double y[] = {2, 2}, mean[] = {1, 3}; /* constant targets have no R² */
    assert_ok(context, bo_metrics_create(context, &(bo_metrics_desc){.targets = 1}, &metrics));
    assert_true(isnan(bo_metrics_rmse(metrics)));
    assert_ok(context, bo_metrics_add(context, metrics, &(bo_metrics_rows){.rows = 2, .y = y, .mean = mean}));
    assert_true(bo_metrics_rmse(metrics) == 1 && isnan(bo_metrics_r2(metrics)));
    assert_null(metrics->truth);
    bo_metrics_destroy(metrics);
    bo_context_destroy(context);
}

/* Each of 40,000 rows is kept with probability p = 1/400: the number from the first half is binomial, within five
 * standard deviations. */
static void test_points(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    enum { ALL = 40000, KEPT = 100 };
    bo_metrics *metrics;
    assert_ok(context, bo_metrics_create(context, &(bo_metrics_desc){.targets = 1, .points = KEPT}, &metrics));
    for (size_t i = 0; i < ALL; i++) {
        const double y = (double)i, mean = -y;
        assert_ok(context, bo_metrics_add(context, metrics, &(bo_metrics_rows){.rows = 1, .y = &y, .mean = &mean}));
    }
    assert_int_equal(metrics->points, KEPT);
    double early = 0;
    for (size_t i = 0; i < KEPT; i++) {
        assert_true(metrics->predicted[i] == -metrics->truth[i]);
        early += metrics->truth[i] < ALL / 2;
    }
    assert_close(early, KEPT / 2, 5 * sqrt(KEPT / 4.0));
    bo_metrics_destroy(metrics);
    bo_context_destroy(context);
}

static void test_classes(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    const char *const labels[CLASSES] = {"a", "b", "c", "d"};
    const double y[] = {0, 1, 2, 3, 3};
    const int predicted[] = {0, 1, 1, 3, 0};
    const double p[] = {1, 0, 0, 0, 0.25, 0.25, 0.25, 0.25, 0.1, 0.6, 0.3, 0, 0, 0, 0, 2, 1, 0, 0, 0};
    bo_metrics *metrics;
    assert_ok(context, bo_metrics_create(context, &(bo_metrics_desc){.classes = CLASSES, .labels = labels}, &metrics));
    assert_ok(context,
              bo_metrics_add(context, metrics,
                             &(bo_metrics_rows){.rows = 2, .y = y, .predicted = predicted, .probabilities = p}));
    assert_ok(context,
              bo_metrics_add(context, metrics,
                             &(bo_metrics_rows){
                                 .rows = 3, .y = y + 2, .predicted = predicted + 2, .probabilities = p + 2 * CLASSES}));
    assert_true(bo_metrics_accuracy(metrics) == 0.6);
    /* a probability above 1 counts as 1, a probability of 0 as 1e-15 */
    assert_close(bo_metrics_log_loss(metrics), (-log(0.25) - log(0.3) - log(1e-15)) / 5, 1e-14);
    assert_ok(context, bo_metrics_add_class(context, metrics, 1, 2, 0.5));
    const uint64_t confusion[] = {1, 0, 0, 0, 0, 1, 1, 0, 0, 1, 0, 0, 1, 0, 0, 1};
    assert_memory_equal(metrics->confusion, confusion, sizeof confusion);
    assert_true(metrics->rows == 6 && metrics->right == 3 && metrics->desc.labels == labels);
    bo_metrics_destroy(metrics);
    bo_context_destroy(context);
}

/* A refused call does not change the sums. */
static void test_wrong_rows(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    const double y[] = {0, 1, 1}, p[9] = {0}, bad[] = {-1, 3, 0.5, (double)NAN, (double)INFINITY, 1e300};
    const int predicted[] = {0, 1, 2};
    bo_metrics *classes, *regression;
    assert_ok(context, bo_metrics_create(context, &(bo_metrics_desc){.classes = 3}, &classes));
    assert_ok(context, bo_metrics_create(context, &(bo_metrics_desc){.targets = 1, .has_std = true}, &regression));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const double truth[] = {0, 1, bad[i]};
        assert_fails(
            context, BO_INVALID, "row 2: expected a class from 0 to 2",
            bo_metrics_add(context, classes,
                           &(bo_metrics_rows){.rows = 3, .y = truth, .predicted = predicted, .probabilities = p}));
    }
    for (int wrong = -1; wrong <= 3; wrong += 4) {
        const int labels[] = {0, wrong, 0};
        assert_fails(context, BO_INVALID, "row 1: expected a prediction from 0 to 2",
                     bo_metrics_add(context, classes,
                                    &(bo_metrics_rows){.rows = 3, .y = y, .predicted = labels, .probabilities = p}));
    }
    assert_fails(context, BO_INVALID, "found 3 and 0", bo_metrics_add_class(context, classes, 3, 0, 1));
    assert_fails(context, BO_INVALID, "found 0 and 3", bo_metrics_add_class(context, classes, 0, 3, 1));
    assert_fails(context, BO_INVALID, "expected classes, found numbers",
                 bo_metrics_add(context, classes, &(bo_metrics_rows){.rows = 3, .y = y, .mean = y, .std = y}));
    assert_fails(context, BO_INVALID, "expected numbers, found a class",
                 bo_metrics_add_class(context, regression, 0, 0, 1));
    assert_fails(context, BO_INVALID, "expected numbers, found classes",
                 bo_metrics_add(context, regression,
                                &(bo_metrics_rows){.rows = 3, .y = y, .predicted = predicted, .probabilities = p}));
    assert_fails(context, BO_INVALID, "argument 'rows->std' is NULL",
                 bo_metrics_add(context, regression, &(bo_metrics_rows){.rows = 3, .y = y, .mean = y}));
    assert_true(classes->rows == 0 && classes->log_loss == 0 && regression->rows == 0);
    assert_true(isnan(bo_metrics_target_rmse(classes, 0)) && isnan(bo_metrics_target_r2(classes, 0)) &&
                isnan(bo_metrics_target_coverage(classes, 0)) && isnan(bo_metrics_target_rmse(regression, 1)));
    bo_metrics_destroy(classes);
    bo_metrics_destroy(regression);
    bo_context_destroy(context);
}

static void test_refusals(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    static const bo_metrics_desc wrong[] = {{0}, {.targets = 1, .classes = 2}, {.classes = 2, .has_std = true}};
    bo_metrics *metrics;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_fails(context, BO_INVALID, "metrics", bo_metrics_create(context, &wrong[i], &metrics));
        assert_null(metrics);
    }
    assert_fails(context, BO_INVALID, "too large",
                 bo_metrics_create(context, &(bo_metrics_desc){.classes = SIZE_MAX / 2}, &metrics));
    bo_metrics_destroy(NULL);
    bo_context_destroy(context);
}

/* Squares outside the range of double: the metrics agree with those of the scaled numbers. */
static void test_extreme_units(void **state)
{
    (void)state;
    enum { FEW = 40 };
    static const int exponents[] = {-1000, -600, 0, 600, 1000};
    bo_context *context = test_context(1);
    double unscaled_rmse = 0, unscaled_r2 = 0;
    for (int e = -1; e < (int)(sizeof exponents / sizeof *exponents); e++) {
        const int exponent = e < 0 ? 0 : exponents[e];
        bo_metrics *metrics;
        assert_ok(context, bo_metrics_create(context, &(bo_metrics_desc){.targets = 2}, &metrics));
        bo_rng rng = bo_rng_make(1, 2);
        for (size_t i = 0; i < FEW; i++) {
            double y[2], mean[2];
            for (size_t t = 0; t < 2; t++) {
                y[t] = ldexp(bo_rng_normal(&rng), exponent);
                mean[t] = y[t] + ldexp(0.1 * bo_rng_normal(&rng), exponent);
            }
            assert_ok(context, bo_metrics_add(context, metrics, &(bo_metrics_rows){.rows = 1, .y = y, .mean = mean}));
        }
        if (e < 0) unscaled_rmse = bo_metrics_rmse(metrics), unscaled_r2 = bo_metrics_r2(metrics);
        assert_true(unscaled_rmse > 0.05 && unscaled_rmse < 0.2 && unscaled_r2 > 0.9 && unscaled_r2 < 1);
        assert_true(ldexp(bo_metrics_rmse(metrics), -exponent) == unscaled_rmse &&
                    bo_metrics_r2(metrics) == unscaled_r2);
        bo_metrics *mixed; /* errors of 0 and of very small numbers */
        assert_ok(context, bo_metrics_create(context, &(bo_metrics_desc){.targets = 2}, &mixed));
        const double truth[] = {1, 0}, near[] = {1, ldexp(1, -700)};
        assert_ok(context, bo_metrics_add(context, mixed, &(bo_metrics_rows){.rows = 1, .y = truth, .mean = near}));
        assert_close(ldexp(bo_metrics_rmse(mixed), 700), sqrt(0.5), 1e-15);
        bo_metrics_destroy(mixed);
        const double y = ldexp(1, exponent + 700 > 1000 ? 1000 : exponent + 700), other[] = {y, 0}, zero[] = {0, 0};
        assert_ok(context,
                  bo_metrics_add(context, metrics,
                                 &(bo_metrics_rows){.rows = 1, .y = other, .mean = zero})); /* a much larger error */
        assert_close(bo_metrics_target_rmse(metrics, 0) / (y / sqrt(FEW + 1)), 1, exponent < 500 ? 1e-9 : 1);
        bo_metrics_destroy(metrics);
    }
    bo_context_destroy(context);
}

/* The structs have the single metrics; metrics that do not apply are NAN. */
static void test_reports(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    static numbers n;
    fill(&n);
    bo_metrics *metrics = gather(context, &n, &(bo_metrics_desc){.targets = TARGETS, .has_std = true}, 100);
    bo_metrics_summary all;
    bo_target_scores one;
    bo_metrics_report(metrics, &all);
    assert_true(all.rmse == bo_metrics_rmse(metrics) && all.r2 == bo_metrics_r2(metrics));
    assert_true(all.coverage == bo_metrics_coverage(metrics) && isnan(all.accuracy) && isnan(all.log_loss));
    for (size_t i = 0; i < BO_COVERAGE_PARTS; i++)
        assert_true(all.coverage_parts[i] > 0.8 && all.coverage_parts[i] == bo_metrics_coverage_part(metrics, i));
    for (size_t t = 0; t < TARGETS; t++) {
        assert_true(bo_metrics_target(metrics, t, &one));
        assert_true(one.rmse == bo_metrics_target_rmse(metrics, t) && one.mae == bo_metrics_target_mae(metrics, t));
        assert_true(one.r2 == bo_metrics_target_r2(metrics, t));
        assert_true(one.coverage == bo_metrics_target_coverage(metrics, t));
    }
    assert_false(bo_metrics_target(metrics, TARGETS, &one));
    bo_metrics_destroy(metrics);
    const double y[] = {0, 1, 1}, p[] = {0.9, 0.1, 0.2, 0.8, 0.6, 0.4};
    const int predicted[] = {0, 1, 0};
    const bo_metrics_rows rows = {.rows = 3, .y = y, .predicted = predicted, .probabilities = p};
    assert_ok(context, bo_metrics_create(context, &(bo_metrics_desc){.classes = 2}, &metrics));
    bo_metrics_report(metrics, &all);
    assert_true(isnan(all.accuracy) && isnan(all.log_loss));
    assert_ok(context, bo_metrics_add(context, metrics, &rows));
    bo_metrics_report(metrics, &all);
    assert_close(all.accuracy, 2.0 / 3, 1e-15);
    assert_close(all.log_loss, -(log(0.9) + log(0.8) + log(0.4)) / 3, 1e-15);
    assert_true(isnan(all.rmse) && isnan(all.r2) && isnan(all.coverage) && isnan(all.coverage_parts[0]));
    assert_false(bo_metrics_target(metrics, 0, &one));
    bo_metrics_rows mixed = rows;
    mixed.mean = y;
    assert_fails(context, BO_INVALID, "expected classes", bo_metrics_add(context, metrics, &mixed));
    mixed = rows;
    mixed.reserved[3] = 1;
    assert_fails(context, BO_INVALID, "reserved", bo_metrics_add(context, metrics, &mixed));
    assert_int_equal(metrics->rows, 3);
    bo_metrics_destroy(metrics);
    bo_context_destroy(context);
}

/* An interval has both ends, and standard deviations. */
static void test_intervals_are_whole(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    const double y[] = {1, 2}, ends[] = {0, 3};
    bo_metrics *metrics;
    assert_ok(context, bo_metrics_create(context, &(bo_metrics_desc){.targets = 1, .has_std = true}, &metrics));
    bo_metrics_rows rows = {.rows = 2, .y = y, .mean = y, .std = y, .low = ends};
    assert_fails(context, BO_INVALID, "'rows->high' is NULL", bo_metrics_add(context, metrics, &rows));
    rows.low = NULL, rows.high = ends;
    assert_fails(context, BO_INVALID, "'rows->low' is NULL", bo_metrics_add(context, metrics, &rows));
    rows.low = ends, rows.std = NULL;
    assert_fails(context, BO_INVALID, "'rows->std' is NULL", bo_metrics_add(context, metrics, &rows));
    assert_int_equal(metrics->rows, 0);
    rows.std = y;
    assert_ok(context, bo_metrics_add(context, metrics, &rows));
    assert_true(bo_metrics_coverage(metrics) == 0); /* 1 is outside [0, 0], and 2 outside [3, 3] */
    bo_metrics_destroy(metrics);
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_regression),
        cmocka_unit_test(test_without_deviations),
        cmocka_unit_test(test_points),
        cmocka_unit_test(test_classes),
        cmocka_unit_test(test_wrong_rows),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_extreme_units),
        cmocka_unit_test(test_reports),
        cmocka_unit_test(test_intervals_are_whole),
    };
    return cmocka_run_group_tests_name("math.metrics", tests, NULL, NULL);
}
