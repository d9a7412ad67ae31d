/* A table with held-out rows, a kernel machine and its metrics: the steps of `bochner fit --holdout` with few calls. */
#include "math/metrics.h"
#include "io/output.h"
#include "oracle.h"
#include "base/counting.h"
#include <unistd.h>

enum { ROWS = 1200, DIM = 3, TEST_ROWS = 5000 };

/* Metrics accumulated over blocks equal the metrics of all predictions in one call. */
static void test_regression(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    bo_samples train = oracle_regression(300, DIM, 2, 0.3, 1), test = oracle_regression(TEST_ROWS, DIM, 2, 0.3, 2);
    bo_machine_desc desc = oracle_desc(64, 0.5, 1);
    bo_machine *machine = oracle_fit(context, &desc, &train);
    bo_metrics *metrics;
    assert_ok(context, bo_machine_create_metrics(context, machine, 10, &metrics));
    assert_ok(context,
              bo_machine_evaluate(context, machine, &(bo_inputs){.rows = TEST_ROWS, .x = test.x}, test.y, metrics));
    double *mean = malloc(TEST_ROWS * 2 * sizeof *mean), *std = malloc(3 * TEST_ROWS * 2 * sizeof *std);
    double *low = std + TEST_ROWS * 2, *high = low + TEST_ROWS * 2;
    assert_ok(context,
              bo_machine_predict(context, machine, &(bo_inputs){.rows = TEST_ROWS, .x = test.x},
                                 &(bo_prediction){.mean = mean, .low = low, .high = high, .level = 0.95, .std = std}));
    bo_metrics *whole;
    assert_ok(context, bo_metrics_create(context, &metrics->desc, &whole));
    assert_ok(context,
              bo_metrics_add(context, whole,
                             &(bo_metrics_rows){
                                 .rows = TEST_ROWS, .y = test.y, .mean = mean, .std = std, .low = low, .high = high}));
    for (size_t part = 0; part < BO_COVERAGE_PARTS; part++)
        assert_true(bo_metrics_coverage_part(metrics, part) == bo_metrics_coverage_part(whole, part));
    assert_true(metrics->rows == TEST_ROWS && metrics->points == 10 && metrics->desc.has_std);
    assert_memory_equal(metrics->sums, whole->sums, 2 * sizeof *whole->sums);
    assert_close(bo_metrics_rmse(metrics), oracle_rmse(TEST_ROWS * 2, mean, test.y), 1e-12);
    assert_memory_equal(metrics->predicted, whole->predicted, 10 * sizeof(double));
    bo_metrics_destroy(whole);
    assert_ok(context, bo_metrics_create(context, &(bo_metrics_desc){.targets = 1}, &whole));
    assert_fails(context, BO_INVALID, "expected metrics for this machine",
                 bo_machine_evaluate(context, machine, &(bo_inputs){.rows = TEST_ROWS, .x = test.x}, test.y, whole));
    bo_metrics_destroy(whole);
    bo_metrics_destroy(metrics);
    bo_machine_destroy(machine);
    free(mean);
    free(std);
    oracle_drop(&train);
    oracle_drop(&test);
    bo_context_destroy(context);
}

/* Predictions of single rows, few rows and many. With one output the bits are the same. With several outputs the order
 * of a sum of n + 1 terms differs, n = features: each order has an error of at most (n + 1) 2^-53 (|b| + Σ|β_j (φ_j -
 * c_j)|), up to the second order. With |φ_j|, |c_j| <= √(2 / n), the sum is at most 2 √(2 / n) Σ|β_j| <= 2 √2 |β|. */
static void test_single_rows(void **state)
{
    (void)state;
    enum { FEATURES = 78, MANY = 70 };
    bo_context *context = test_context(2);
    for (size_t outputs = 1; outputs <= 11; outputs += 5) {
        bo_samples train = oracle_regression(300, DIM, outputs, 0.3, 1);
        bo_machine_desc desc = oracle_desc(FEATURES, 0.5, 1);
        bo_machine *machine = oracle_fit(context, &desc, &train);
        const size_t features = machine->report.features;
        double many[MANY * 11], few[4 * 11], squares = 0, intercept = 0;
        for (size_t k = 0; k < features * outputs; k++) squares += machine->beta[k] * machine->beta[k];
        for (size_t k = 0; k < outputs; k++) intercept = fmax(intercept, fabs(machine->intercept[k]));
        const double size = intercept + 2 * sqrt(2 * squares);
        const double error = outputs == 1 ? 0 : 2 * (double)(features + 1) * 0x1.01p-53 * size;
        assert_ok(context, bo_machine_predict(context, machine, &(bo_inputs){.rows = MANY, .x = train.x},
                                              &(bo_prediction){.mean = many}));
        for (size_t rows = 1; rows <= 4; rows += 3)
            for (size_t i = 0; i + rows <= MANY; i += rows) {
                assert_ok(context,
                          bo_machine_predict(context, machine, &(bo_inputs){.rows = rows, .x = train.x + i * DIM},
                                             &(bo_prediction){.mean = few}));
                for (size_t k = 0; k < rows * outputs; k++) assert_close(few[k], many[i * outputs + k], error);
            }
        bo_machine_destroy(machine);
        oracle_drop(&train);
    }
    bo_context_destroy(context);
}

static void test_classes(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    bo_samples train = oracle_classes(600, DIM, 3, 2, 1), test = oracle_classes(TEST_ROWS, DIM, 3, 2, 2);
    bo_machine_desc desc = {.features = {.features = 64, .gamma = 0.5}, .lambda = 1};
    bo_machine *machine = oracle_fit(context, &desc, &train);
    bo_metrics *metrics;
    assert_ok(context, bo_machine_create_metrics(context, machine, 10, &metrics));
    assert_ok(context,
              bo_machine_evaluate(context, machine, &(bo_inputs){.rows = TEST_ROWS, .x = test.x}, test.y, metrics));
    int *found = malloc(TEST_ROWS * sizeof *found);
    double *p = malloc(TEST_ROWS * 3 * sizeof *p), right = 0, loss = 0;
    assert_ok(context, bo_machine_predict(context, machine, &(bo_inputs){.rows = TEST_ROWS, .x = test.x},
                                          &(bo_prediction){.classes = found}));
    assert_ok(context, bo_machine_predict(context, machine, &(bo_inputs){.rows = TEST_ROWS, .x = test.x},
                                          &(bo_prediction){.probabilities = p}));
    for (size_t i = 0; i < TEST_ROWS; i++) {
        right += found[i] == (int)test.y[i];
        loss -= log(fmax(p[i * 3 + (size_t)test.y[i]], 1e-15));
    }
    assert_true(bo_metrics_accuracy(metrics) == right / TEST_ROWS);
    assert_close(bo_metrics_log_loss(metrics), loss / TEST_ROWS, 1e-12);
    ((double *)test.y)[7] = 3;
    assert_fails(context, BO_INVALID, "row 7: expected a class from 0 to 2",
                 bo_machine_evaluate(context, machine, &(bo_inputs){.rows = 100, .x = test.x}, test.y, metrics));
    ((double *)test.y)[7] = 0, ((double *)test.y)[4500] = -1; /* in a later block; nothing is added */
    assert_fails(context, BO_INVALID, "row 4500: expected a class from 0 to 2",
                 bo_machine_evaluate(context, machine, &(bo_inputs){.rows = TEST_ROWS, .x = test.x}, test.y, metrics));
    assert_int_equal(metrics->rows, TEST_ROWS);
    bo_metrics_destroy(metrics);
    bo_machine_destroy(machine);
    free(found);
    free(p);
    oracle_drop(&train);
    oracle_drop(&test);
    bo_context_destroy(context);
}

/* The whole sequence of calls, from a file; every allocation may fail. */
typedef struct trial {
    bo_context *context;
    const char *path;
    double rmse;
    size_t rows;
} trial;

static bo_status hold_out(void *what)
{
    trial *t = what;
    bo_context *context = t->context;
    bo_data *parts[BO_SPLIT_COUNT];
    bo_machine *machine = NULL;
    bo_metrics *metrics = NULL;
    const bo_table_desc table = {.data = {.path = t->path, .task = BO_TASK_REGRESSION},
                                 .split = {.test = 0.2, .seed = 1}};
    const bo_machine_desc desc = {.features = {.features = 32, .gamma = 0.5}, .lambda = 1};
    BO_TRY(bo_table_load(context, &table, &parts[0], &parts[1], &parts[2]));
    const bo_data *test = parts[BO_SPLIT_TEST];
    bo_samples train;
    bo_data_get_samples(parts[BO_SPLIT_TRAIN], &train);
    bo_status status = bo_machine_fit(context, &desc, &train, &machine);
    if (status == BO_OK) status = bo_machine_create_metrics(context, machine, 5, &metrics);
    if (status == BO_OK)
        status =
            bo_machine_evaluate(context, machine, &(bo_inputs){.rows = test->rows, .x = test->x}, test->y, metrics);
    if (status == BO_OK) t->rmse = bo_metrics_rmse(metrics), t->rows = (size_t)metrics->rows;
    bo_metrics_destroy(metrics);
    bo_machine_destroy(machine);
    for (int p = 0; p < BO_SPLIT_COUNT; p++) bo_data_destroy(parts[p]);
    return status;
}

static void test_hold_out(void **state)
{
    (void)state;
    char path[] = "/tmp/bochner-evaluate-XXXXXX";
    close(mkstemp(path));
    bo_samples all = oracle_regression(ROWS, DIM, 1, 0.1, 3);
    double *cells = malloc(ROWS * (DIM + 1) * sizeof *cells);
    for (size_t i = 0; i < ROWS; i++) {
        for (size_t j = 0; j < DIM; j++) cells[i * (DIM + 1) + j] = (double)all.x[i * DIM + j];
        cells[i * (DIM + 1) + DIM] = all.y[i];
    }
    counting c = {0};
    bo_context *context = counting_context(&c, 1);
    trial t = {.context = context, .path = path};
    size_t expected = 0;
    assert_ok(context, bo_npy_save_f64(context, path, ROWS, DIM + 1, cells));
    assert_ok(context, hold_out(&t));
    for (uint64_t row = 0; row < ROWS; row++)
        expected += bo_split_row(&(bo_split_desc){.test = 0.2, .seed = 1}, row) == BO_SPLIT_TEST;
    assert_int_equal(t.rows, expected);
    /* noise of 0.1, and the fit is better than the mean */
    assert_true(t.rmse > 0.05 && t.rmse < oracle_deviation(ROWS, 1, all.y, 0) / 2);
    counting_inject(&(injection){&c, context, hold_out, &t, 60, 7, NULL});
    bo_context_destroy(context);
    assert_true(c.live == 0);
    unlink(path);
    free(cells);
    oracle_drop(&all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_regression),
        cmocka_unit_test(test_single_rows),
        cmocka_unit_test(test_classes),
        cmocka_unit_test(test_hold_out),
    };
    return cmocka_run_group_tests_name("machines.evaluate", tests, NULL, NULL);
}
