/* Prediction intervals: quantiles, the deviations that are fitted to errors, and the coverage on new rows, also by size
 * of the prediction. */
#include "math/metrics.h"
#include "oracle.h"

enum { DIM = 2 };

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Intervals of one output with these scores, whose predictions are 0, 1, 2, … */
static bo_intervals intervals_of(bo_context *context, size_t rows, uint64_t seed)
{
    bo_intervals i = {.rows = rows, .knots = 1};
    i.prediction = bo_alloc(context, rows, sizeof(double), "test");
    i.score = bo_alloc(context, rows, sizeof(double), "test");
    bo_rng rng = bo_rng_make(seed, bo_rng_stream("test.scores", 0));
    for (size_t k = 0; k < rows; k++) {
        i.prediction[k] = (double)k;
        i.score[k] = bo_rng_normal(&rng) * (1 + (double)k / (double)rows) + 0.2;
    }
    return i;
}

/* Fewer than 200 scores: one quantile of their sizes for both sides, the ⌈(m + 1) p⌉-th smallest. */
static void test_few_scores(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    static const size_t rows[] = {19, 20, 50, 199};
    static const double levels[] = {0.05, 0.5, 0.8, 0.9, 0.95};
    for (size_t r = 0; r < 4; r++) {
        bo_intervals i = intervals_of(context, rows[r], r);
        double sizes[200], low, high;
        for (size_t k = 0; k < rows[r]; k++) sizes[k] = fabs(i.score[k]);
        qsort(sizes, rows[r], sizeof *sizes, compare);
        for (size_t l = 0; l < 5; l++) {
            bo_quantiles q;
            assert_ok(context, bo_quantiles_find(context, &i, 0, levels[l], &q));
            assert_int_equal(q.windows, 1);
            bo_quantiles_at(&q, 7, &low, &high);
            size_t rank = (size_t)ceil((double)(rows[r] + 1) * levels[l] - 1e-9);
            assert_true(high == sizes[rank - 1] && low == -high);
        }
        bo_intervals_free(&i);
    }
    bo_context_destroy(context);
}

/* 1,000 scores: nine windows of 200 rows at even distances, each with a quantile for each side, and linear in
 * between. */
static void test_windows(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_intervals i = intervals_of(context, 1000, 1);
    bo_quantiles q;
    assert_ok(context, bo_quantiles_find(context, &i, 0, 0.9, &q));
    assert_int_equal(q.windows, 9);
    for (size_t w = 0; w < 9; w++) {
        double sorted[200], low, high;
        memcpy(sorted, i.score + w * 100, sizeof sorted);
        qsort(sorted, 200, sizeof *sorted, compare);
        bo_quantiles_at(&q, (double)(w * 100 + 100), &low, &high);
        /* ⌈201 · 0.95⌉ = 191: the 191st from below and from above */
        assert_true(high == sorted[190] && low == sorted[9]);
    }
    double low, high;
    bo_quantiles_at(&q, 130, &low, &high);
    assert_close(low, 0.7 * q.low[0] + 0.3 * q.low[1], 1e-12);
    assert_close(high, 0.7 * q.high[0] + 0.3 * q.high[1], 1e-12);
    bo_quantiles_at(&q, -1e9, &low, &high);
    assert_true(low == q.low[0] && high == q.high[0]);
    bo_quantiles_at(&q, 1e9, &low, &high);
    assert_true(low == q.low[8] && high == q.high[8]);
    /* the quantiles of a larger level are at least as far out, also beyond the largest score */
    bo_quantiles wider;
    for (double level = 0.1; level < 0.99995; level += level < 0.9 ? 0.1 : 0.0111) {
        assert_ok(context, bo_quantiles_find(context, &i, 0, level, &q));
        assert_ok(context, bo_quantiles_find(context, &i, 0, level + 0.00005, &wider));
        for (size_t w = 0; w < 9; w++) assert_true(wider.low[w] <= q.low[w] && wider.high[w] >= q.high[w]);
    }
    bo_intervals_free(&i);
    bo_context_destroy(context);
}

/* Errors whose size depends on the prediction and on a column: log s is found, and its leave-one-out values are close
 * to fits without the row. */
static void test_deviation(void **state)
{
    (void)state;
    enum { ROWS = 2000, FEW = 250, COLUMNS = 2, LEFT = 40 };
    bo_context *context = test_context(1);
    double *prediction = malloc(ROWS * sizeof *prediction), *error = malloc(ROWS * sizeof *error);
    double *columns = malloc(ROWS * COLUMNS * sizeof *columns), *left = malloc(ROWS * sizeof *left);
    double *without_row = malloc(ROWS * sizeof *without_row), *truth = malloc(ROWS * sizeof *truth);
    bo_rng rng = bo_rng_make(1, bo_rng_stream("test.deviation", 0));
    for (size_t i = 0; i < ROWS; i++) {
        prediction[i] = 10 * bo_rng_uniform(&rng);
        for (size_t j = 0; j < COLUMNS; j++) columns[i * COLUMNS + j] = bo_rng_normal(&rng);
        truth[i] = 0.2 * prediction[i] - 1 + 0.5 * columns[i * COLUMNS];
        error[i] = exp(truth[i]) * bo_rng_normal(&rng);
    }
    bo_intervals i = {.rows = ROWS, .knots = bo_deviation_knots(ROWS), .columns = COLUMNS};
    i.knot = bo_alloc(context, i.knots, sizeof(double), "test");
    i.coefficient = bo_alloc(context, i.knots + COLUMNS, sizeof(double), "test");
    i.bound = bo_alloc(context, 2, sizeof(double), "test");
    const bo_errors errors = {ROWS, prediction, error, columns};
    assert_ok(context, bo_deviation_fit(context, &errors, 0, &i, left));
    /* E|N(0, 1)| = √(2/π). A row determines log s to about 0.76 (the deviation of |e|/E|e|), so that ten parameters
     * have a root mean square error of 0.76 √(10 / 2000) = 0.054. */
    double squares = 0;
    for (size_t k = 0; k < ROWS; k++) {
        double found = bo_deviation_log(&i, 0, prediction[k], columns + k * COLUMNS);
        squares += pow(found - truth[k] - 0.5 * log(2 / M_PI), 2) / ROWS;
    }
    assert_true(sqrt(squares) < 0.1);
    /* Groups of equal predictions, so that the knots do not change: leaving a row out changes log s as the
     * approximation predicts, up to second order (h = 1/50 of a group, r up to about 3). */
    i.knots = bo_deviation_knots(FEW), i.columns = 0;
    for (size_t k = 0; k < FEW; k++) prediction[k] = (double)(k % i.knots);
    const bo_errors few = {FEW, prediction, error, NULL};
    assert_ok(context, bo_deviation_fit(context, &few, 0, &i, left));
    for (size_t k = 0; k < FEW; k++) truth[k] = bo_deviation_log(&i, 0, prediction[k], NULL);
    double rest = 0, change = 0;
    for (size_t gone = 0; gone < LEFT; gone++) { /* the last row replaces the row that is left out */
        const size_t last = FEW - 1;
        const double p = prediction[gone], e = error[gone];
        prediction[gone] = prediction[last], error[gone] = error[last];
        const bo_errors without = {last, prediction, error, NULL};
        assert_ok(context, bo_deviation_fit(context, &without, 0, &i, without_row));
        const double exact = bo_deviation_log(&i, 0, p, NULL);
        rest += fabs(left[gone] - exact), change += fabs(truth[gone] - exact);
        prediction[gone] = p, error[gone] = e;
    }
    assert_true(change > 0.005 * LEFT && rest < 0.1 * change);
    bo_intervals_free(&i);
    free(prediction), free(error), free(columns), free(left), free(without_row), free(truth);
    bo_context_destroy(context);
}

/* y = 3 x_0 + sin 2 x_1 plus noise that grows eightfold with x_0 and is skewed. */
static bo_samples noisy_rows(size_t rows, size_t targets, uint64_t seed)
{
    bo_samples samples = oracle_regression(rows, DIM, targets, 0, seed);
    bo_rng rng = bo_rng_make(seed, bo_rng_stream("test.noisy", 0));
    for (size_t i = 0; i < rows; i++)
        for (size_t t = 0; t < targets; t++) {
            const double x = (double)samples.x[i * DIM], size = 0.2 + 1.4 / (1 + exp(-2 * x));
            const double noise = -log(1 - bo_rng_uniform(&rng)) - 1; /* exponential, mean 0 and deviation 1 */
            ((double *)samples.y)[i * targets + t] =
                (double)(t + 1) * (3 * x + sin(2 * (double)samples.x[i * DIM + 1]) + size * noise);
        }
    return samples;
}

/* Coverage on new rows, over SEEDS fits with 2,000 left-out rows (500 of CG) and FRESH new rows each. A fifth has
 * windows of 400 (200) rows: the standard error of its coverage is √(.05 .95 (1/1200 + 1/2400)) = 0.8% (CG: 1.1%), and
 * of the total 0.35% (0.6%). Normal intervals of one width cover more than 99% of the first fifth and less than 90% of
 * the last. */
static void test_coverage(void **state)
{
    (void)state;
    enum { SEEDS = 3, FRESH = 4000 };
    bo_context *context = test_context(2);
    static const bo_solver solvers[] = {BO_SOLVER_PRIMAL, BO_SOLVER_DUAL, BO_SOLVER_CG};
    for (size_t s = 0; s < 3; s++) {
        double total = 0, part[BO_COVERAGE_PARTS] = {0}, narrow = 0, wide = 0;
        for (uint64_t seed = 0; seed < SEEDS; seed++) {
            bo_samples train = noisy_rows(solvers[s] == BO_SOLVER_CG     ? 5000
                                          : solvers[s] == BO_SOLVER_DUAL ? 800
                                                                         : 2000,
                                          1, 2 * seed),
                       fresh = noisy_rows(FRESH, 1, 2 * seed + 1);
            bo_machine_desc desc = {
                .features = {.features = 128, .gamma = 0.2}, .lambda = 1, .solver = solvers[s], .seed = seed};
            bo_machine *machine = oracle_fit(context, &desc, &train);
            bo_metrics *metrics;
            assert_true(machine->report.has_std);
            assert_ok(context, bo_machine_create_metrics(context, machine, 0, &metrics));
            assert_ok(context, bo_machine_evaluate(context, machine, &(bo_inputs){.rows = FRESH, .x = fresh.x}, fresh.y,
                                                   metrics));
            total += bo_metrics_coverage(metrics) / SEEDS;
            for (size_t p = 0; p < BO_COVERAGE_PARTS; p++) part[p] += bo_metrics_coverage_part(metrics, p) / SEEDS;
            const float ends[] = {-1.5F, 0, 1.5F, 0};
            double mean[2], low[2], high[2];
            assert_ok(context,
                      bo_machine_predict(context, machine, &(bo_inputs){.rows = 2, .x = ends},
                                         &(bo_prediction){.mean = mean, .low = low, .high = high, .level = 0.9}));
            narrow += high[0] - low[0], wide += high[1] - low[1];
            bo_metrics_destroy(metrics);
            bo_machine_destroy(machine);
            oracle_drop(&train), oracle_drop(&fresh);
        }
        if (!(total > 0.935 && total < 0.965)) fail_msg("solver %d: %.1f%% inside", (int)solvers[s], 100 * total);
        for (size_t p = 0; p < BO_COVERAGE_PARTS; p++)
            if (!(part[p] > 0.91 && part[p] < 0.985))
                fail_msg("solver %d: %.1f%% inside in fifth %zu", (int)solvers[s], 100 * part[p], p);
        /* true sizes 0.27 and 1.53: the width grows by a factor of 5.8 */
        assert_true(wide > 3.5 * narrow && wide < 9 * narrow);
    }
    bo_context_destroy(context);
}

/* With few rows the intervals are wider, so that they still contain the value. Over TRIALS independent fits with 20 new
 * rows each, which share the errors of a fit, the standard error of the coverage is at most √(.05 .95 / TRIALS) =
 * 1.5%. */
static void test_few_rows(void **state)
{
    (void)state;
    enum { TRIALS = 200, FRESH = 20 };
    bo_context *context = test_context(1);
    static const size_t rows[] = {4, 10, 40};
    for (size_t r = 0; r < 3; r++) {
        double inside = 0;
        for (uint64_t seed = 0; seed < TRIALS; seed++) {
            bo_samples train = oracle_regression(rows[r], DIM, 1, 0, 2 * seed),
                       fresh = oracle_regression(FRESH, DIM, 1, 0, 2 * seed + 1);
            bo_rng rng = bo_rng_make(seed, bo_rng_stream("test.few", 0));
            for (size_t i = 0; i < rows[r]; i++) ((double *)train.y)[i] = bo_rng_normal(&rng);
            for (size_t i = 0; i < FRESH; i++) ((double *)fresh.y)[i] = bo_rng_normal(&rng);
            bo_machine_desc desc = {.features = {.features = 16, .gamma = 0.1}, .lambda = 10, .seed = seed};
            bo_machine *machine = oracle_fit(context, &desc, &train);
            double mean[FRESH], low[FRESH], high[FRESH];
            assert_ok(context,
                      bo_machine_predict(context, machine, &(bo_inputs){.rows = FRESH, .x = fresh.x},
                                         &(bo_prediction){.mean = mean, .low = low, .high = high, .level = 0.95}));
            for (size_t i = 0; i < FRESH; i++) inside += fresh.y[i] >= low[i] && fresh.y[i] <= high[i];
            bo_machine_destroy(machine);
            oracle_drop(&train), oracle_drop(&fresh);
        }
        inside /= TRIALS * FRESH;
        if (!(inside > 0.91 && inside < 0.99)) fail_msg("%zu rows: %.1f%% inside", rows[r], 100 * inside);
    }
    bo_context_destroy(context);
}

static void expect_same_intervals(bo_context *context, const bo_machine *a, size_t a_target, const bo_machine *b,
                                  size_t b_target, double tolerance)
{
    enum { FRESH = 50 };
    bo_samples fresh = oracle_regression(FRESH, DIM, 1, 0, 99);
    double mean[2][FRESH * 3], low[2][FRESH * 3], high[2][FRESH * 3];
    const bo_machine *machines[] = {a, b};
    for (size_t k = 0; k < 2; k++)
        assert_ok(context,
                  bo_machine_predict(context, machines[k], &(bo_inputs){.rows = FRESH, .x = fresh.x},
                                     &(bo_prediction){.mean = mean[k], .low = low[k], .high = high[k], .level = 0.9}));
    for (size_t i = 0; i < FRESH; i++) {
        const size_t at[] = {i * a->report.outputs + a_target, i * b->report.outputs + b_target};
        assert_close(low[0][at[0]], low[1][at[1]], tolerance);
        assert_close(high[0][at[0]], high[1][at[1]], tolerance);
        assert_true(low[0][at[0]] <= mean[0][at[0]] && mean[0][at[0]] <= high[0][at[0]]);
    }
    oracle_drop(&fresh);
}

/* Rows of weight 0 change nothing; each of several targets has the same intervals as in a fit of only this target. */
static void test_weights_and_targets(void **state)
{
    (void)state;
    enum { ROWS = 500 };
    bo_context *context = test_context(2);
    for (int solver = BO_SOLVER_PRIMAL; solver <= BO_SOLVER_DUAL; solver++) {
        const bo_machine_desc desc = {.features = {.features = 64, .gamma = 0.2},
                                      .lambda = 1,
                                      .scaling = BO_SCALING_NONE,
                                      .precision = BO_GRAM_PRECISION_FLOAT64,
                                      .solver = (bo_solver)solver};
        bo_samples all = noisy_rows(ROWS, 1, 5), some = all, three = noisy_rows(ROWS, 3, 6), third = three;
        float *weights = malloc(ROWS * sizeof *weights);
        for (size_t i = 0; i < ROWS; i++) weights[i] = i < ROWS - 100 ? 1 : 0;
        some.rows = ROWS - 100;
        all.weights = weights;
        bo_machine *a = oracle_fit(context, &desc, &all), *b = oracle_fit(context, &desc, &some);
        expect_same_intervals(context, a, 0, b, 0, 1e-3);
        bo_machine_destroy(a), bo_machine_destroy(b);
        double *y = malloc(ROWS * sizeof *y);
        for (size_t i = 0; i < ROWS; i++) y[i] = three.y[i * 3 + 2];
        third.targets = 1, third.y = y;
        a = oracle_fit(context, &desc, &three), b = oracle_fit(context, &desc, &third);
        expect_same_intervals(context, a, 2, b, 0, 1e-3);
        bo_machine_destroy(a), bo_machine_destroy(b);
        free(y);
        oracle_drop(&all), oracle_drop(&three);
    }
    bo_context_destroy(context);
}

static void test_refused(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_samples train = noisy_rows(100, 1, 1), classes = oracle_classes(100, DIM, 3, 2, 1);
    const bo_machine_desc desc = {.features = {.features = 16, .gamma = 0.2}, .lambda = 1, .loss = BO_LOSS_RIDGE};
    bo_machine *machine = oracle_fit(context, &desc, &train), *classifier = oracle_fit(context, &desc, &classes);
    double mean[3], low[3], high[3];
    static const double levels[] = {1, -0.5, 1.5, NAN, INFINITY};
    for (size_t l = 0; l < 5; l++)
        assert_fails(context, BO_INVALID, "level: expected a number between 0 and 1",
                     bo_machine_predict(context, machine, &(bo_inputs){.rows = 1, .x = train.x},
                                        &(bo_prediction){.mean = mean, .low = low, .high = high, .level = levels[l]}));
    assert_fails(context, BO_UNSUPPORTED, "probabilities",
                 bo_machine_predict(context, classifier, &(bo_inputs){.rows = 1, .x = train.x},
                                    &(bo_prediction){.mean = mean, .low = low, .high = high, .level = 0.9}));
    assert_ok(context, bo_machine_predict(context, machine, &(bo_inputs){0}, &(bo_prediction){.level = 0.9}));
    bo_machine_destroy(machine), bo_machine_destroy(classifier);
    oracle_drop(&train), oracle_drop(&classes);
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_few_scores), cmocka_unit_test(test_windows),  cmocka_unit_test(test_deviation),
        cmocka_unit_test(test_coverage),   cmocka_unit_test(test_few_rows), cmocka_unit_test(test_weights_and_targets),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests_name("machines.intervals", tests, NULL, NULL);
}
