/* Explanations against their definitions: permutations written out, curves by loops, Shapley values by enumeration of
 * all orders; linear machines, whose explanations are known; columns of several inputs; threads, cancellation,
 * refusals. */
#include "oracle.h"
#include "math/metrics.h"
#include <bochner/explain.h>

enum { ROWS = 200, DIM = 4 };

static bo_machine_desc describe(bo_kernel kernel)
{
    return (bo_machine_desc){
        .loss = BO_LOSS_RIDGE,
        .features = {.kernel = kernel, .features = kernel == BO_KERNEL_LINEAR ? 0 : 128, .gamma = 0.1},
        .lambda = 0.1,
        .seed = 1};
}

static double predict(bo_context *context, const bo_machine *machine, const float *row)
{
    double out[8];
    if (machine->report.classes)
        assert_ok(context, bo_machine_predict(context, machine, &(bo_inputs){.rows = 1, .x = row},
                                              &(bo_prediction){.probabilities = out}));
    else
        assert_ok(context, bo_machine_predict(context, machine, &(bo_inputs){.rows = 1, .x = row},
                                              &(bo_prediction){.mean = out}));
    return out[0];
}

/* The slope of a linear machine in column j. */
static double slope(bo_context *context, const bo_machine *machine, size_t j)
{
    float a[DIM] = {0}, b[DIM] = {0};
    b[j] = 1;
    return predict(context, machine, b) - predict(context, machine, a);
}

static void column_moments(const bo_samples *s, size_t j, double *mean, double *variance)
{
    *mean = *variance = 0;
    for (size_t i = 0; i < s->rows; i++) *mean += (double)s->x[i * s->dim + j] / (double)s->rows;
    for (size_t i = 0; i < s->rows; i++) *variance += pow((double)s->x[i * s->dim + j] - *mean, 2) / (double)s->rows;
}

/* ---- permutations ------------------------------------------------------------------------------------------------ */

/* With the same permutations, the increase equals the increase for a permuted copy of the table. Machines that were
 * fitted to sparse rows predict them as sparse rows; the reference predicts dense ones, whose last bits of float
 * differ. */
static void compare_importance(bool sparse, double tolerance)
{
    bo_context *context = test_context(2);
    bo_samples s = oracle_regression(ROWS, DIM, 1, 0.3, 1), given = s;
    size_t start[ROWS + 1], count = 0;
    uint32_t column[ROWS * DIM];
    float value[ROWS * DIM];
    for (size_t i = 0; i < ROWS; i++) {
        start[i] = count;
        for (uint32_t j = 0; j < DIM; j++) {
            if (j == i % DIM) ((float *)(uintptr_t)s.x)[i * DIM + j] = 0;
            if (j == i % DIM) continue;
            column[count] = j;
            value[count++] = s.x[i * DIM + j];
        }
    }
    start[ROWS] = count;
    const bo_sparse rows = {ROWS, DIM, start, column, value};
    if (sparse) given.x = NULL, given.sparse = &rows;
    const bo_machine_desc desc = describe(BO_KERNEL_RBF);
    bo_machine *machine = oracle_fit(context, &desc, &given);
    assert_int_equal(machine->scaler.place != NULL, sparse);
    const size_t starts[] = {0, 2, 3, 4}; /* the first column is two inputs */
    const bo_explain_desc explain = {.columns = 3, .starts = starts, .repeats = 3, .seed = 7};
    bo_explain_errors errors;
    bo_column_importance found[3];
    assert_ok(context, bo_explain_permutations(context, machine, &explain, &(bo_inputs){.rows = ROWS, .x = s.x}, s.y,
                                               NULL, &errors, found));
    float *x = malloc(ROWS * DIM * sizeof *x);
    size_t order[ROWS];
    double before = 0;
    for (size_t i = 0; i < ROWS; i++) before += pow(predict(context, machine, s.x + i * DIM) - s.y[i], 2) / ROWS;
    assert_close(errors.error, sqrt(before), tolerance);
    for (size_t c = 0; c < 3; c++) {
        double increase[3], mean = 0, squares = 0;
        for (size_t r = 0; r < 3; r++) {
            bo_rng rng = bo_rng_make(7, bo_rng_stream("explain.permutation", r));
            bo_rng_permutation(&rng, ROWS, order);
            double sum = 0;
            for (size_t i = 0; i < ROWS; i++) {
                for (size_t j = 0; j < DIM; j++)
                    x[i * DIM + j] = s.x[(j >= starts[c] && j < starts[c + 1] ? order[i] : i) * DIM + j];
                sum += pow(predict(context, machine, x + i * DIM) - s.y[i], 2) / ROWS;
            }
            increase[r] = sqrt(sum) - sqrt(before);
            mean += increase[r] / 3;
        }
        for (size_t r = 0; r < 3; r++) squares += pow(increase[r] - mean, 2) / 2;
        assert_close(found[c].increase, mean, tolerance);
        assert_close(found[c].increase_error, sqrt(squares / 3), tolerance);
        assert_true(isnan(found[c].accuracy));
    }
    assert_true(found[0].increase > 5 * found[1].increase); /* the target depends on the first two inputs */
    const bool chosen[3] = {false, true, false};
    bo_column_importance some[3];
    assert_ok(context, bo_explain_permutations(context, machine, &explain, &(bo_inputs){.rows = ROWS, .x = s.x}, s.y,
                                               chosen, &errors, some));
    assert_true(isnan(some[0].increase) && isnan(some[2].increase) && some[1].increase == found[1].increase);
    free(x);
    bo_machine_destroy(machine);
    oracle_drop(&s);
    bo_context_destroy(context);
}

static void test_importance_matches_permuted_tables(void **state)
{
    (void)state;
    compare_importance(false, 1e-9);
    compare_importance(true, 1e-5);
}

/* Without true values: f changes by slope_j (x' - x), whose mean square over permutations is 2 slope² variance; the
 * relative standard deviation of that mean over 200 rows and 5 permutations is below 10%. Two inputs that are equal up
 * to noise and have opposite slopes matter as two columns, but not as one column. */
static void test_changes_of_linear_predictions(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    bo_samples s = oracle_regression(ROWS, DIM, 1, 0, 1);
    float *x = (float *)(uintptr_t)s.x;
    double *y = (double *)(uintptr_t)s.y;
    for (size_t i = 0; i < ROWS; i++) {
        x[i * DIM + 1] = x[i * DIM] + 0.01F * x[i * DIM + 1];
        y[i] = 3 * (double)x[i * DIM] - 3 * (double)x[i * DIM + 1] + (double)x[i * DIM + 2];
    }
    bo_machine_desc desc = describe(BO_KERNEL_LINEAR);
    desc.lambda = 1e-8;
    desc.precision = BO_GRAM_PRECISION_FLOAT64;
    bo_machine *machine = oracle_fit(context, &desc, &s);
    bo_explain_errors errors;
    bo_column_importance alone[DIM], joint[3];
    const bo_explain_desc each = {.seed = 1};
    assert_ok(context, bo_explain_permutations(context, machine, &each, &(bo_inputs){.rows = ROWS, .x = x}, NULL, NULL,
                                               &errors, alone));
    assert_true(isnan(errors.error));
    for (size_t j = 0; j < 3; j++) {
        double mean, variance;
        column_moments(&s, j, &mean, &variance);
        const double expected = fabs(slope(context, machine, j)) * sqrt(2 * variance);
        assert_close(alone[j].increase, expected, 0.15 * expected);
    }
    const bo_explain_desc together = {.columns = 3, .starts = (size_t[]){0, 2, 3, 4}, .seed = 1};
    assert_ok(context, bo_explain_permutations(context, machine, &together, &(bo_inputs){.rows = ROWS, .x = x}, NULL,
                                               NULL, &errors, joint));
    assert_true(joint[0].increase < 0.05 * alone[0].increase);
    bo_machine_destroy(machine);
    oracle_drop(&s);
    bo_context_destroy(context);
}

static void test_classes_lose_log_loss_and_accuracy(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    bo_samples s = oracle_classes(ROWS, DIM, 3, 3, 1); /* classes differ in the first two columns */
    const bo_machine_desc desc = describe(BO_KERNEL_RBF);
    bo_machine *machine = oracle_fit(context, &desc, &s);
    const bo_explain_desc explain = {.seed = 1};
    bo_explain_errors errors, none;
    bo_column_importance tested[DIM], changed[DIM];
    assert_ok(context, bo_explain_permutations(context, machine, &explain, &(bo_inputs){.rows = ROWS, .x = s.x}, s.y,
                                               NULL, &errors, tested));
    assert_ok(context, bo_explain_permutations(context, machine, &explain, &(bo_inputs){.rows = ROWS, .x = s.x}, NULL,
                                               NULL, &none, changed));
    bo_metrics *metrics;
    assert_ok(context, bo_machine_create_metrics(context, machine, 0, &metrics));
    assert_ok(context, bo_machine_evaluate(context, machine, &(bo_inputs){.rows = ROWS, .x = s.x}, s.y, metrics));
    assert_close(errors.error, bo_metrics_log_loss(metrics), 1e-12);
    assert_close(errors.accuracy, bo_metrics_accuracy(metrics), 1e-12);
    bo_metrics_destroy(metrics);
    for (size_t j = 0; j < 2; j++) {
        assert_true(tested[j].increase > 0.2 && tested[j].accuracy > 0.05);
        assert_true(changed[j].increase > 0.05 && changed[j].increase < 1);
        assert_true(changed[j].accuracy > tested[j].accuracy); /* some rows were wrong before */
        assert_true(tested[j].increase > 5 * fabs(tested[j + 2].increase));
    }
    bo_machine_destroy(machine);
    oracle_drop(&s);
    bo_context_destroy(context);
}

/* ---- gradients ------------------------------------------------------------------------------------------------------
 */

/* A linear machine has one direction, its gradient per standard deviation. */
static void test_gradients_and_direction_of_a_linear_machine(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    bo_samples s = oracle_regression(ROWS, DIM, 1, 0.3, 1);
    const bo_machine_desc desc = describe(BO_KERNEL_LINEAR);
    bo_machine *machine = oracle_fit(context, &desc, &s);
    double gradients[3], shares[2], vectors[2 * DIM], expected[DIM], norm = 0;
    const bo_explain_desc explain = {.columns = 3, .starts = (size_t[]){0, 2, 3, 4}};
    assert_ok(context, bo_explain_gradients(context, machine, &explain, &(bo_inputs){.rows = ROWS, .x = s.x}, gradients,
                                            2, shares, vectors));
    for (size_t j = 0; j < DIM; j++) {
        double mean, variance;
        column_moments(&s, j, &mean, &variance);
        expected[j] = slope(context, machine, j) * sqrt(variance);
        norm += expected[j] * expected[j];
    }
    /* predictions and gradients are rounded to float: 1e-6 of the largest prediction */
    assert_close(gradients[0], hypot(expected[0], expected[1]), 1e-4 * sqrt(norm));
    assert_close(gradients[2], fabs(expected[3]), 1e-4 * sqrt(norm));
    assert_close(shares[0], 1, 1e-4);
    assert_close(shares[1], 0, 1e-4);
    const double sign = expected[0] > 0 ? 1 : -1; /* the first column dominates */
    for (size_t j = 0; j < DIM; j++) assert_close(vectors[j], sign * expected[j] / sqrt(norm), 1e-3);
    bo_machine_destroy(machine);
    oracle_drop(&s);
    bo_context_destroy(context);
}

/* ---- curves ------------------------------------------------------------------------------------------------------ */

static void test_values_are_quantiles_or_all(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_samples s = oracle_regression(ROWS, DIM, 1, 0.3, 1);
    float *x = (float *)(uintptr_t)s.x;
    for (size_t i = 0; i < ROWS; i++) {
        x[i * DIM + 2] = (float)(i % 3 == 0); /* one of three categories, one-hot in two inputs and the rest */
        x[i * DIM + 3] = (float)(i % 3 == 1);
    }
    const bo_machine_desc desc = describe(BO_KERNEL_RBF);
    bo_machine *machine = oracle_fit(context, &desc, &s);
    const bo_explain_desc explain = {.columns = 3, .starts = (size_t[]){0, 1, 2, 4}};
    size_t chosen[10], points;
    assert_ok(context, bo_explain_values(context, machine, &explain, &(bo_inputs){.rows = ROWS, .x = x}, 0, 10, chosen,
                                         &points));
    assert_int_equal(points, 10);
    for (size_t k = 0; k < 10; k++) { /* the number of smaller values is the quantile of the rows */
        size_t below = 0;
        for (size_t i = 0; i < ROWS; i++) below += x[i * DIM] < x[chosen[k] * DIM];
        assert_close((double)below, (0.01 + 0.98 * (double)k / 9) * (ROWS - 1), 0.5 + 1e-9);
    }
    assert_ok(context, bo_explain_values(context, machine, &explain, &(bo_inputs){.rows = ROWS, .x = x}, 2, 10, chosen,
                                         &points));
    assert_int_equal(points, 3); /* (0, 0), (0, 1), (1, 0) */
    assert_int_equal(chosen[0] % 3, 2);
    assert_int_equal(chosen[1] % 3, 1);
    assert_int_equal(chosen[2] % 3, 0);
    bo_machine_destroy(machine);
    oracle_drop(&s);
    bo_context_destroy(context);
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void test_curves_are_means_and_quantiles(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    bo_samples s = oracle_regression(ROWS, DIM, 1, 0.3, 1);
    double *y = (double *)(uintptr_t)s.y;
    for (size_t i = 0; i < ROWS; i++) y[i] += 2 * (double)s.x[i * DIM] * (double)s.x[i * DIM + 2]; /* an interaction */
    enum { POINTS = 6 };
    double width[2];
    for (int linear = 0; linear < 2; linear++) {
        const bo_machine_desc desc = describe(linear ? BO_KERNEL_LINEAR : BO_KERNEL_RBF);
        bo_machine *machine = oracle_fit(context, &desc, &s);
        const bo_explain_desc explain = {0};
        size_t values[POINTS], points;
        double mean[POINTS], low[POINTS], high[POINTS], *curves = malloc(ROWS * POINTS * sizeof *curves), level = 0;
        assert_ok(context, bo_explain_values(context, machine, &explain, &(bo_inputs){.rows = ROWS, .x = s.x}, 0,
                                             POINTS, values, &points));
        assert_ok(context, bo_explain_curve(context, machine, &explain, &(bo_inputs){.rows = ROWS, .x = s.x}, 0, points,
                                            values, mean, low, high));
        for (size_t i = 0; i < ROWS; i++)
            for (size_t k = 0; k < points; k++) {
                float row[DIM];
                memcpy(row, s.x + i * DIM, sizeof row);
                row[0] = s.x[values[k] * DIM];
                curves[k * ROWS + i] = predict(context, machine, row);
                level += curves[k * ROWS + i] / ROWS / (double)points;
            }
        for (size_t i = 0; i < ROWS; i++) {
            double row_mean = 0;
            for (size_t k = 0; k < points; k++) row_mean += curves[k * ROWS + i] / (double)points;
            for (size_t k = 0; k < points; k++) curves[k * ROWS + i] += level - row_mean;
        }
        width[linear] = 0;
        for (size_t k = 0; k < points; k++) {
            double expected = 0;
            for (size_t i = 0; i < ROWS; i++) expected += curves[k * ROWS + i] / ROWS;
            assert_close(mean[k], expected,
                         1e-5); /* shifts have mean 0; predictions of other blocks differ in float bits */
            qsort(curves + k * ROWS, ROWS, sizeof *curves, ascending);
            const double *c = curves + k * ROWS; /* quantiles at 19.9 and 179.1 */
            assert_close(low[k], c[19] + 0.9 * (c[20] - c[19]), 1e-5);
            assert_close(high[k], c[179] + 0.1 * (c[180] - c[179]), 1e-5);
            width[linear] = fmax(width[linear], high[k] - low[k]);
        }
        free(curves);
        bo_machine_destroy(machine);
    }
    assert_true(width[0] > 1 && width[1] < 1e-4); /* effects of a linear machine add up */
    oracle_drop(&s);
    bo_context_destroy(context);
}

/* Probabilities are not shifted and add up to 1. */
static void test_curves_of_classes_stay_probabilities(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_samples s = oracle_classes(ROWS, DIM, 3, 3, 1);
    const bo_machine_desc desc = describe(BO_KERNEL_RBF);
    bo_machine *machine = oracle_fit(context, &desc, &s);
    const bo_explain_desc explain = {0};
    enum { POINTS = 5 };
    size_t values[POINTS], points;
    double mean[POINTS * 3], low[POINTS * 3], high[POINTS * 3];
    assert_ok(context, bo_explain_values(context, machine, &explain, &(bo_inputs){.rows = ROWS, .x = s.x}, 0, POINTS,
                                         values, &points));
    assert_ok(context, bo_explain_curve(context, machine, &explain, &(bo_inputs){.rows = ROWS, .x = s.x}, 0, points,
                                        values, mean, low, high));
    for (size_t k = 0; k < points; k++) {
        assert_close(mean[3 * k] + mean[3 * k + 1] + mean[3 * k + 2], 1, 1e-12);
        for (size_t t = 0; t < 3; t++) assert_true(low[3 * k + t] >= 0 && high[3 * k + t] <= 1);
    }
    assert_true(mean[3 * (points - 1)] > mean[0] + 0.3); /* class 0 is far out on the first axis */
    assert_true(high[0] - low[0] > 0.001);
    bo_machine_destroy(machine);
    oracle_drop(&s);
    bo_context_destroy(context);
}

/* ---- contributions ----------------------------------------------------------------------------------------------- */

enum { BACKGROUND = 6, ORDERS = 24 };

/* Mean over all orders of four columns and all rows of the background. */
static void enumerate(bo_context *context, const bo_machine *machine, const float *x, const float *row,
                      double expected[DIM])
{
    memset(expected, 0, DIM * sizeof *expected);
    for (size_t code = 0; code < ORDERS; code++) {
        size_t left[DIM] = {0, 1, 2, 3}, order[DIM], rest = code;
        for (size_t k = 0; k < DIM; k++) {
            const size_t pick = rest % (DIM - k);
            rest /= DIM - k;
            order[k] = left[pick];
            for (size_t j = pick; j + 1 < DIM - k; j++) left[j] = left[j + 1];
        }
        for (size_t b = 0; b < BACKGROUND; b++) {
            float current[DIM];
            memcpy(current, x + b * DIM, sizeof current);
            double before = predict(context, machine, current);
            for (size_t k = 0; k < DIM; k++) {
                current[order[k]] = row[order[k]];
                const double after = predict(context, machine, current);
                expected[order[k]] += (after - before) / ORDERS / BACKGROUND;
                before = after;
            }
        }
    }
}

/* 4.5 standard errors: one in 1e5 by chance, and the seed is fixed. */
static void test_contributions_are_shapley_values(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    for (int classes = 0; classes < 2; classes++) {
        bo_samples s = classes ? oracle_classes(ROWS, DIM, 2, 2, 1) : oracle_regression(ROWS, DIM, 1, 0.3, 1);
        const bo_machine_desc desc = describe(BO_KERNEL_RBF);
        bo_machine *machine = oracle_fit(context, &desc, &s);
        const size_t outputs = machine->report.outputs;
        const float *row = s.x + 50 * DIM;
        double expected[DIM], base[2], prediction[2], found[DIM * 2], error[DIM * 2], mean = 0;
        enumerate(context, machine, s.x, row, expected);
        const bo_explain_desc explain = {.samples = 100 * BACKGROUND, .seed = 3};
        assert_ok(context, bo_explain_row(context, machine, &explain, &(bo_inputs){.rows = BACKGROUND, .x = s.x}, row,
                                          base, prediction, found, error));
        for (size_t b = 0; b < BACKGROUND; b++) mean += predict(context, machine, s.x + b * DIM) / BACKGROUND;
        assert_close(base[0], mean, 1e-6);
        assert_close(prediction[0], predict(context, machine, row), 1e-6);
        double largest = 0;
        for (size_t j = 0; j < DIM; j++) {
            assert_close(found[j * outputs], expected[j], 4.5 * error[j * outputs] + 1e-6);
            largest = fmax(largest, fabs(expected[j]));
            assert_true(error[j * outputs] < 0.2 * largest || j > 0);
        }
        for (size_t t = 0; t < outputs; t++) {
            double sum = 0;
            for (size_t j = 0; j < DIM; j++) sum += found[j * outputs + t];
            assert_close(sum, prediction[t] - base[t], 1e-6); /* float bits of predictions in other blocks */
        }
        bo_machine_destroy(machine);
        oracle_drop(&s);
    }
    bo_context_destroy(context);
}

/* slope_j (x_j - mean_j) for any sample; a column of two inputs has the sum of both. */
static void test_contributions_of_a_linear_machine(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_samples s = oracle_regression(ROWS, DIM, 1, 0.3, 1);
    const bo_machine_desc desc = describe(BO_KERNEL_LINEAR);
    bo_machine *machine = oracle_fit(context, &desc, &s);
    const bo_explain_desc explain = {.columns = 3, .starts = (size_t[]){0, 1, 2, 4}};
    double base, prediction, found[3];
    const float *row = s.x;
    assert_ok(context, bo_explain_row(context, machine, &explain, &(bo_inputs){.rows = ROWS, .x = s.x}, row, &base,
                                      &prediction, found, NULL));
    double expected[DIM];
    for (size_t j = 0; j < DIM; j++) {
        double mean, variance;
        column_moments(&s, j, &mean, &variance);
        expected[j] = slope(context, machine, j) * ((double)row[j] - mean);
    }
    assert_close(found[0], expected[0], 1e-4);
    assert_close(found[1], expected[1], 1e-4);
    assert_close(found[2], expected[2] + expected[3], 1e-4);
    bo_machine_destroy(machine);
    oracle_drop(&s);
    bo_context_destroy(context);
}

/* ---- threads, refusals ------------------------------------------------------------------------------------------- */

static void test_threads_give_the_same_bits(void **state)
{
    (void)state;
    bo_samples s = oracle_regression(ROWS, DIM, 1, 0.3, 1);
    struct result {
        bo_explain_errors errors;
        bo_column_importance importance[DIM];
        double base, prediction, contributions[DIM], gradients[DIM], shares[DIM], vectors[DIM * DIM];
    } r[2];
    memset(r, 0, sizeof r);
    for (int i = 0; i < 2; i++) {
        bo_context *context = test_context(i ? 3 : 1);
        const bo_machine_desc desc = describe(BO_KERNEL_RBF);
        bo_machine *machine = oracle_fit(context, &desc, &s);
        const bo_explain_desc explain = {.seed = 5, .repeats = 2, .samples = 20};
        assert_ok(context, bo_explain_permutations(context, machine, &explain, &(bo_inputs){.rows = ROWS, .x = s.x},
                                                   s.y, NULL, &r[i].errors, r[i].importance));
        assert_ok(context, bo_explain_row(context, machine, &explain, &(bo_inputs){.rows = ROWS, .x = s.x}, s.x,
                                          &r[i].base, &r[i].prediction, r[i].contributions, NULL));
        assert_ok(context, bo_explain_gradients(context, machine, &explain, &(bo_inputs){.rows = ROWS, .x = s.x},
                                                r[i].gradients, DIM, r[i].shares, r[i].vectors));
        bo_machine_destroy(machine);
        bo_context_destroy(context);
    }
    assert_memory_equal(&r[0], &r[1], sizeof r[0]);
    oracle_drop(&s);
}

static bool stop_at(void *user, const char *what, double done, double total)
{
    (void)done, (void)total;
    return strcmp(what, user) != 0;
}

static void test_refusals_and_cancellation(void **state)
{
    (void)state;
    static const char *const works[] = {"permuting", "explaining", "curves", "gradients"};
    bo_samples s = oracle_regression(ROWS, DIM, 1, 0.3, 1);
    for (size_t w = 0; w < 4; w++) {
        bo_context *context;
        const bo_context_desc settings = {.threads = 1, .progress = stop_at, .user = (void *)(uintptr_t)works[w]};
        assert_int_equal(bo_context_create(&settings, &context), BO_OK);
        const bo_machine_desc desc = describe(BO_KERNEL_RBF);
        bo_machine *machine = oracle_fit(context, &desc, &s);
        const bo_explain_desc ok = {0};
        bo_explain_errors e;
        bo_column_importance importance[DIM];
        const size_t value = 3, beyond = ROWS;
        double a[DIM], b[DIM], c[DIM];
        assert_int_equal(bo_explain_permutations(context, machine, &ok, &(bo_inputs){.rows = ROWS, .x = s.x}, s.y, NULL,
                                                 &e, importance),
                         w == 0 ? BO_CANCELED : BO_OK);
        assert_int_equal(bo_explain_row(context, machine, &ok, &(bo_inputs){.rows = 5, .x = s.x}, s.x, a, b, c, NULL),
                         w == 1 ? BO_CANCELED : BO_OK);
        assert_int_equal(
            bo_explain_curve(context, machine, &ok, &(bo_inputs){.rows = ROWS, .x = s.x}, 1, 1, &value, a, NULL, NULL),
            w == 2 ? BO_CANCELED : BO_OK);
        assert_int_equal(
            bo_explain_gradients(context, machine, &ok, &(bo_inputs){.rows = ROWS, .x = s.x}, a, 0, NULL, NULL),
            w == 3 ? BO_CANCELED : BO_OK);
        const bo_explain_desc few = {.columns = 3}, holes = {.columns = 2, .starts = (size_t[]){0, 2, 2}},
                              shorter = {.columns = 2, .starts = (size_t[]){0, 1, 3}};
        size_t chosen[4], points;
        assert_fails(
            context, BO_INVALID, "one per input",
            bo_explain_gradients(context, machine, &few, &(bo_inputs){.rows = ROWS, .x = s.x}, a, 0, NULL, NULL));
        assert_fails(
            context, BO_INVALID, "starts must increase",
            bo_explain_gradients(context, machine, &holes, &(bo_inputs){.rows = ROWS, .x = s.x}, a, 0, NULL, NULL));
        assert_fails(
            context, BO_INVALID, "number of inputs, 4",
            bo_explain_row(context, machine, &shorter, &(bo_inputs){.rows = ROWS, .x = s.x}, s.x, a, b, c, NULL));
        assert_fails(context, BO_INVALID, "at least one row",
                     bo_explain_permutations(context, machine, &ok, &(bo_inputs){.x = s.x}, s.y, NULL, &e, importance));
        assert_fails(context, BO_INVALID, "at least 2 rows",
                     bo_explain_permutations(context, machine, &ok, &(bo_inputs){.rows = 1, .x = s.x}, s.y, NULL, &e,
                                             importance));
        assert_fails(
            context, BO_INVALID, "directions",
            bo_explain_gradients(context, machine, &ok, &(bo_inputs){.rows = ROWS, .x = s.x}, a, DIM + 1, b, c));
        assert_fails(
            context, BO_INVALID, "column below",
            bo_explain_values(context, machine, &ok, &(bo_inputs){.rows = ROWS, .x = s.x}, DIM, 4, chosen, &points));
        assert_fails(context, BO_INVALID, "there are",
                     bo_explain_curve(context, machine, &ok, &(bo_inputs){.rows = ROWS, .x = s.x}, 1, 1, &beyond, a,
                                      NULL, NULL));
        const float bad[DIM] = {0, INFINITY, 0, 0};
        assert_fails(context, BO_INVALID, "finite",
                     bo_explain_row(context, machine, &ok, &(bo_inputs){.rows = ROWS, .x = s.x}, bad, a, b, c, NULL));
        bo_machine_destroy(machine);
        bo_context_destroy(context);
    }
    oracle_drop(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_importance_matches_permuted_tables),
        cmocka_unit_test(test_changes_of_linear_predictions),
        cmocka_unit_test(test_classes_lose_log_loss_and_accuracy),
        cmocka_unit_test(test_gradients_and_direction_of_a_linear_machine),
        cmocka_unit_test(test_values_are_quantiles_or_all),
        cmocka_unit_test(test_curves_are_means_and_quantiles),
        cmocka_unit_test(test_curves_of_classes_stay_probabilities),
        cmocka_unit_test(test_contributions_are_shapley_values),
        cmocka_unit_test(test_contributions_of_a_linear_machine),
        cmocka_unit_test(test_threads_give_the_same_bits),
        cmocka_unit_test(test_refusals_and_cancellation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
