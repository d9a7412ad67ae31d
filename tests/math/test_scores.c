/* Figures compared with values of scikit-learn 1.9 and with their definitions over all pairs of rows; bins of the AUC;
 * standard errors; ROC curves. */
#include "math/metrics.h"
#include "math/enums.h"
#include "base/counting.h"
#include <bochner/metrics.h>

static bo_measure measure(bo_context *context, const bo_metrics *metrics, bo_score score)
{
    bo_measure out;
    assert_ok(context, bo_metrics_measure(context, metrics, score, &out));
    return out;
}

static bo_metrics *create(bo_context *context, bo_metrics_desc desc)
{
    bo_metrics *metrics;
    assert_ok(context, bo_metrics_create(context, &desc, &metrics));
    return metrics;
}

enum { MAX_CLASSES = 4 };

/* Adds a row whose predicted class is the most probable class. */
static void add(bo_context *context, bo_metrics *metrics, size_t truth, const double *p)
{
    int best = 0;
    for (int c = 1; c < (int)metrics->desc.classes; c++) best = p[c] > p[best] ? c : best;
    const double y = (double)truth;
    assert_ok(context, bo_metrics_add(context, metrics,
                                      &(bo_metrics_rows){.rows = 1, .y = &y, .predicted = &best, .probabilities = p}));
}

/* The values are those of mean_absolute_error, median_absolute_error, mean_squared_error and r2_score; the standard
 * errors are the definitions in NumPy. */
static void test_numbers(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    const double y[] = {3, -0.5, 2, 7, 1.25}, mean[] = {2.5, 0, 2, 8, 1};
    bo_metrics *metrics = create(context, (bo_metrics_desc){.targets = 1, .points = 10});
    assert_true(isnan(measure(context, metrics, BO_SCORE_MAE).value));
    assert_ok(context, bo_metrics_add(context, metrics, &(bo_metrics_rows){.rows = 5, .y = y, .mean = mean}));
    assert_close(measure(context, metrics, BO_SCORE_RMSE).value, 0.5590169943749475, 1e-15);
    assert_close(measure(context, metrics, BO_SCORE_RMSE).error, 0.1600781059358212, 1e-15);
    assert_close(measure(context, metrics, BO_SCORE_R2).value, 0.9500798722044729, 1e-15);
    assert_close(measure(context, metrics, BO_SCORE_MAE).value, 0.45, 1e-15);
    assert_close(measure(context, metrics, BO_SCORE_MAE).error, 0.16583123951776998, 1e-15);
    assert_true(measure(context, metrics, BO_SCORE_MEDIAN_ERROR).value == 0.5);
    assert_ok(context,
              bo_metrics_add(
                  context, metrics,
                  &(bo_metrics_rows){.rows = 1, .y = y, .mean = mean + 4})); /* an error of 2; errors 0.5 and 0.5 */
    assert_true(measure(context, metrics, BO_SCORE_MEDIAN_ERROR).value == 0.5);
    const double far = 4;
    assert_ok(context, bo_metrics_add(context, metrics, &(bo_metrics_rows){.rows = 1, .y = y, .mean = &far}));
    assert_ok(context, bo_metrics_add(context, metrics,
                                      &(bo_metrics_rows){
                                          .rows = 1, .y = y, .mean = &far})); /* of 0 .25 .5 .5 1 1 1 2: 0.5 and 1 */
    assert_true(measure(context, metrics, BO_SCORE_MEDIAN_ERROR).value == 0.75);
    assert_true(isnan(measure(context, metrics, BO_SCORE_COVERAGE).value));
    assert_true(isnan(measure(context, metrics, BO_SCORE_AUC).value));
    bo_metrics_destroy(metrics);
    /* the mean absolute error of each target, in a unit whose squares are out of range */
    metrics = create(context, (bo_metrics_desc){.targets = 2});
    const double a[] = {1e200, 1, 3e200, 2}, b[] = {2e200, 3, 1e200, 2};
    assert_ok(context, bo_metrics_add(context, metrics, &(bo_metrics_rows){.rows = 2, .y = a, .mean = b}));
    assert_close(bo_metrics_target_mae(metrics, 0) / 1e200, 1.5, 1e-15);
    assert_close(bo_metrics_target_mae(metrics, 1), 1, 1e-15);
    assert_true(isnan(bo_metrics_target_mae(metrics, 2)));
    assert_true(isnan(measure(context, metrics, BO_SCORE_MEDIAN_ERROR).value)); /* no points */
    bo_metrics_destroy(metrics);
    bo_context_destroy(context);
}

/* The standard deviation of the RMSE over 400 samples of 100 normal errors; that estimate has a relative standard error
 * of 1/√800 = 3.5%, the mean of the standard errors one below it, and the delta method a bias of order 1/100. */
static void test_standard_error(void **state)
{
    (void)state;
    enum { SAMPLES = 400, FEW = 100 };
    bo_context *context = test_context(1);
    bo_rng rng = bo_rng_make(1, bo_rng_stream("test.figures", 0));
    double sum = 0, squares = 0, errors = 0;
    for (int s = 0; s < SAMPLES; s++) {
        double y[FEW] = {0}, mean[FEW];
        for (int i = 0; i < FEW; i++) mean[i] = 10 * bo_rng_normal(&rng);
        bo_metrics *metrics = create(context, (bo_metrics_desc){.targets = 1});
        assert_ok(context, bo_metrics_add(context, metrics, &(bo_metrics_rows){.rows = FEW, .y = y, .mean = mean}));
        const bo_measure rmse = measure(context, metrics, BO_SCORE_RMSE);
        sum += rmse.value, squares += rmse.value * rmse.value, errors += rmse.error / SAMPLES;
        bo_metrics_destroy(metrics);
    }
    const double deviation = sqrt(squares / SAMPLES - pow(sum / SAMPLES, 2));
    assert_close(errors / deviation, 1, 0.15);
    bo_context_destroy(context);
}

/* roc_auc_score, brier_score_loss, log_loss, f1_score and roc_curve. */
static void test_two_classes(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    static const size_t y[] = {0, 0, 1, 1, 1, 0, 1, 0};
    static const double p[] = {0.1, 0.4, 0.4, 0.8, 0.9, 0.8, 0.3, 0.05};
    bo_metrics *metrics = create(context, (bo_metrics_desc){.classes = 2, .points = 100});
    for (size_t i = 0; i < 8; i++) add(context, metrics, y[i], (double[]){1 - p[i], p[i]});
    const bo_measure auc = measure(context, metrics, BO_SCORE_AUC);
    assert_true(auc.value == 0.75 && auc.bound == 0);
    assert_close(measure(context, metrics, BO_SCORE_BRIER).value, 0.2140625, 1e-15);
    assert_close(measure(context, metrics, BO_SCORE_LOG_LOSS).value, 0.5907106186771994, 1e-15);
    assert_close(measure(context, metrics, BO_SCORE_MACRO_F1).value, 0.6190476190476191, 1e-15);
    assert_close(measure(context, metrics, BO_SCORE_ACCURACY).error, sqrt(0.625 * 0.375 / 8), 1e-15);
    /* bins of 0.05: |Σ outcomes - Σ p| of those with 0.05, 0.1, 0.3, 0.4, 0.8 and 0.9 */
    assert_close(measure(context, metrics, BO_SCORE_CALIBRATION).value, (0.05 + 0.1 + 0.7 + 0.2 + 0.6 + 0.1) / 8,
                 1e-14);
    double low[8], high[8];
    size_t count;
    assert_ok(context, bo_metrics_roc(context, metrics, 1, 8, low, high, &count));
    static const double expected[][2] = {{0, 0}, {0, 0.25}, {0.5, 0.75}, {0.5, 1}, {1, 1}};
    assert_int_equal(count, 5);
    for (size_t i = 0; i < count; i++) assert_true(low[i] == expected[i][0] && high[i] == expected[i][1]);
    assert_ok(context, bo_metrics_roc(context, metrics, 0, 8, low, high, &count)); /* mirrored at the other diagonal */
    assert_int_equal(count, 5);
    for (size_t i = 0; i < count; i++)
        assert_true(low[i] == 1 - expected[4 - i][1] && high[i] == 1 - expected[4 - i][0]);
    assert_ok(context, bo_metrics_roc(context, metrics, 1, 2, low, high, &count));
    assert_true(count == 2 && low[0] == 0 && high[1] == 1);
    bo_metrics_destroy(metrics);
    bo_context_destroy(context);
}

/* roc_auc_score (one against the rest, macro), precision_recall_fscore_support, brier_score_loss. */
static void test_three_classes(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    static const size_t y[] = {0, 1, 2, 2, 1, 0, 2, 1, 1};
    static const double p[][4] = {{0.6, 0.3, 0.1}, {0.2, 0.5, 0.3}, {0.1, 0.2, 0.7}, {0.5, 0.3, 0.2}, {0.3, 0.3, 0.4},
                                  {0.6, 0.2, 0.2}, {0.1, 0.6, 0.3}, {0.2, 0.7, 0.1}, {0.2, 0.5, 0.3}};
    bo_metrics *metrics = create(context, (bo_metrics_desc){.classes = 4, .points = 9}); /* the last one has no rows */
    for (size_t i = 0; i < 9; i++) add(context, metrics, y[i], p[i]);
    assert_close(measure(context, metrics, BO_SCORE_AUC).value, 0.8314814814814815, 1e-15);
    assert_close(measure(context, metrics, BO_SCORE_LOG_LOSS).value, 0.7931865575128122, 1e-15);
    assert_close(measure(context, metrics, BO_SCORE_BRIER).value, 0.4577777777777778, 1e-15);
    assert_close(measure(context, metrics, BO_SCORE_MACRO_F1).value, 0.65, 1e-15);
    static const double expected[][4] = {
        {2.0 / 3, 1, 0.8, 1}, {0.75, 0.75, 0.75, 0.8}, {0.5, 1.0 / 3, 0.4, 0.6944444444444444}};
    bo_class_scores scores;
    for (size_t c = 0; c < 3; c++) {
        assert_ok(context, bo_metrics_class(context, metrics, c, &scores));
        assert_close(scores.precision, expected[c][0], 1e-15);
        assert_close(scores.recall, expected[c][1], 1e-15);
        assert_close(scores.f1, expected[c][2], 1e-15);
        assert_close(scores.auc, expected[c][3], 1e-15);
    }
    assert_ok(context, bo_metrics_class(context, metrics, 3, &scores));
    assert_true(scores.rows == 0 && isnan(scores.precision) && isnan(scores.recall) && isnan(scores.f1) &&
                isnan(scores.auc));
    double low[4], high[4];
    size_t count;
    assert_ok(context, bo_metrics_roc(context, metrics, 3, 4, low, high, &count));
    assert_int_equal(count, 0);
    assert_fails(context, BO_INVALID, "found 4", bo_metrics_class(context, metrics, 4, &scores));
    assert_fails(context, BO_INVALID, "class 4", bo_metrics_roc(context, metrics, 4, 4, low, high, &count));
    assert_fails(context, BO_INVALID, "1 points", bo_metrics_roc(context, metrics, 0, 1, low, high, &count));
    bo_measure out;
    assert_fails(context, BO_INVALID, "found 99", bo_metrics_measure(context, metrics, (bo_score)99, &out));
    assert_ok(context, bo_metrics_add_class(context, metrics, 0, 0, 1)); /* a row without probabilities */
    assert_true(isnan(measure(context, metrics, BO_SCORE_AUC).value));
    assert_true(isnan(measure(context, metrics, BO_SCORE_BRIER).value));
    assert_true(isnan(measure(context, metrics, BO_SCORE_CALIBRATION).value));
    bo_metrics_destroy(metrics);
    bo_context_destroy(context);
}

enum { ROWS = 1500 };

/* The definition: over all pairs of a row of the class and another row. The variance is that of DeLong et al.
 * (1988). */
static bo_measure all_pairs(const size_t *y, const double *p, size_t classes, size_t index)
{
    double m = 0, n = 0, sum = 0, inside = 0, outside = 0;
    for (size_t i = 0; i < ROWS; i++) *(y[i] == index ? &m : &n) += 1;
    static double part[ROWS];
    for (size_t i = 0; i < ROWS; i++) {
        part[i] = 0;
        for (size_t j = 0; j < ROWS; j++) {
            if ((y[i] == index) == (y[j] == index)) continue;
            const double score = p[i * classes + index], other_score = p[j * classes + index];
            const bool above = y[i] == index ? score > other_score : score < other_score;
            part[i] += above ? 1 : score == other_score ? 0.5 : 0;
        }
        if (y[i] == index) sum += part[i];
    }
    const double auc = sum / m / n;
    for (size_t i = 0; i < ROWS; i++) {
        const double square = pow(part[i] / (y[i] == index ? n : m) - auc, 2);
        *(y[i] == index ? &inside : &outside) += square;
    }
    return (bo_measure){auc, sqrt(inside / (m - 1) / m + outside / (n - 1) / n), 0};
}

/* Exact while all rows are kept; afterwards within the bound, which is at most half of the largest share of a bin: the
 * rows are not sorted, so a bin holds about 1/100 of them. */
static void test_pairs(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    static size_t y[ROWS];
    static double p[ROWS * MAX_CLASSES];
    for (size_t classes = 2; classes <= MAX_CLASSES; classes++) {
        bo_rng rng = bo_rng_make(1, bo_rng_stream("test.figures", classes));
        bo_metrics *exact = create(context, (bo_metrics_desc){.classes = classes, .points = ROWS}),
                   *binned = create(context, (bo_metrics_desc){.classes = classes, .points = 100});
        for (size_t i = 0; i < ROWS; i++) {
            double sum = 0, *row = p + i * classes;
            y[i] = (size_t)(bo_rng_uniform(&rng) * bo_rng_uniform(&rng) * (double)classes); /* unbalanced */
            for (size_t c = 0; c < classes; c++) {
                row[c] = 1 + floor(20 * bo_rng_uniform(&rng)) + (c == y[i] ? 5 : 0); /* many ties */
                sum += row[c];
            }
            for (size_t c = 0; c < classes; c++) row[c] /= sum;
            if (classes == 2) row[0] = 1 - row[1];
            add(context, exact, y[i], row);
            add(context, binned, y[i], row);
        }
        for (size_t c = 0; c < classes; c++) {
            const bo_measure truth = all_pairs(y, p, classes, c);
            bo_class_scores scores;
            assert_ok(context, bo_metrics_class(context, exact, c, &scores));
            if (classes == 2 && c == 0) continue; /* 1 - p rounds ties apart: compared below */
            assert_close(scores.auc, truth.value, 1e-13);
            assert_close(scores.auc_error, truth.error, 1e-13);
        }
        bo_class_scores first, second;
        assert_ok(context, bo_metrics_class(context, exact, 0, &first));
        assert_ok(context, bo_metrics_class(context, exact, 1, &second));
        if (classes == 2) assert_true(first.auc == second.auc);
        const bo_measure all = measure(context, exact, BO_SCORE_AUC), some = measure(context, binned, BO_SCORE_AUC);
        assert_true(all.bound == 0 && some.bound > 0 && some.bound < 0.5 * 0.05);
        assert_true(some.value != all.value);
        assert_close(some.value, all.value, some.bound);
        assert_true(measure(context, exact, BO_SCORE_BRIER).value == measure(context, binned, BO_SCORE_BRIER).value);
        bo_metrics_destroy(exact);
        bo_metrics_destroy(binned);
    }
    bo_context_destroy(context);
}

/* The bits do not depend on how the rows are divided into calls, also across the change to bins. NaN is the lowest
 * score. */
static void test_blocks(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    static double y[ROWS], p[ROWS * 2];
    static int predicted[ROWS];
    bo_rng rng = bo_rng_make(3, bo_rng_stream("test.figures", 9));
    for (size_t i = 0; i < ROWS; i++) {
        y[i] = bo_rng_uniform(&rng) < 0.3;
        p[2 * i + 1] = i % 97 ? 0.7 * bo_rng_uniform(&rng) + 0.3 * y[i] : (double)NAN;
        p[2 * i] = 1 - p[2 * i + 1];
        predicted[i] = p[2 * i + 1] > 0.5;
    }
    double values[3];
    static const size_t blocks[] = {1, 37, ROWS};
    for (size_t b = 0; b < 3; b++) {
        bo_metrics *metrics = create(context, (bo_metrics_desc){.classes = 2, .points = 1000});
        for (size_t at = 0; at < ROWS; at += blocks[b]) {
            const size_t rows = ROWS - at < blocks[b] ? ROWS - at : blocks[b];
            assert_ok(context, bo_metrics_add(context, metrics,
                                              &(bo_metrics_rows){.rows = rows,
                                                                 .y = y + at,
                                                                 .predicted = predicted + at,
                                                                 .probabilities = p + 2 * at}));
        }
        values[b] = measure(context, metrics, BO_SCORE_AUC).value;
        bo_metrics_destroy(metrics);
    }
    assert_true(values[0] > 0.6 && values[0] < 1 && values[0] == values[1] && values[0] == values[2]);
    bo_context_destroy(context);
}

enum { KEPT = 300, BLOCK = 100 };

typedef struct job {
    bo_context *context;
    size_t blocks;
} job;

static bo_status read_scores(bo_context *context, const bo_metrics *metrics)
{
    bo_measure auc;
    bo_class_scores scores;
    double low[BLOCK], high[BLOCK];
    size_t count;
    bo_status status = bo_metrics_measure(context, metrics, BO_SCORE_AUC, &auc);
    if (status == BO_OK) status = bo_metrics_class(context, metrics, 1, &scores);
    if (status == BO_OK) status = bo_metrics_roc(context, metrics, 1, BLOCK, low, high, &count);
    if (status == BO_OK) assert_true(auc.value > 0.5 && count > 2);
    return status;
}

static bo_status add_and_read(void *what)
{
    const job *j = what;
    bo_metrics *metrics;
    bo_rng rng = bo_rng_make(2, 2);
    const bo_metrics_desc desc = {.classes = 3, .points = KEPT};
    bo_status status = bo_metrics_create(j->context, &desc, &metrics);
    for (size_t b = 0; b < j->blocks && status == BO_OK; b++) {
        double y[BLOCK], p[3 * BLOCK] = {0};
        int predicted[BLOCK] = {0};
        for (size_t i = 0; i < BLOCK; i++) {
            y[i] = (double)(i % 3);
            p[3 * i + i % 3] = 0.5 * bo_rng_uniform(&rng);
        }
        status = bo_metrics_add(j->context, metrics,
                                &(bo_metrics_rows){.rows = BLOCK, .y = y, .predicted = predicted, .probabilities = p});
    }
    if (status == BO_OK) status = read_scores(j->context, metrics);
    bo_metrics_destroy(metrics);
    return status;
}

/* Memory does not grow with the rows, and every allocation may fail, also at the change to bins. */
static void test_memory(void **state)
{
    (void)state;
    counting c = {0};
    bo_context *context = counting_context(&c, 1);
    size_t peaks[2];
    for (size_t i = 0; i < 2; i++) {
        c.peak = 0;
        assert_ok(context, add_and_read(&(job){context, i ? 400 : 10}));
        peaks[i] = c.peak;
    }
    assert_true(peaks[0] > 0 && peaks[0] == peaks[1]);
    job few = {context, 5};
    counting_inject(&(injection){&c, context, add_and_read, &few, .all = 1000, .stride = 1});
    bo_context_destroy(context);
}

static void test_names(void **state)
{
    (void)state;
    bo_score score = BO_SCORE_RMSE;
    assert_string_equal(bo_score_name(BO_SCORE_CALIBRATION), "calibration_error");
    assert_null(bo_score_name((bo_score)(BO_SCORE_CALIBRATION + 1)));
    assert_true(bo_score_parse("log_loss", &score) && score == BO_SCORE_LOG_LOSS);
    assert_false(bo_score_parse("loss", &score) || bo_score_parse(NULL, &score));
    assert_true(bo_score_larger_is_better(BO_SCORE_AUC) && !bo_score_larger_is_better(BO_SCORE_BRIER));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),       cmocka_unit_test(test_standard_error), cmocka_unit_test(test_two_classes),
        cmocka_unit_test(test_three_classes), cmocka_unit_test(test_pairs),          cmocka_unit_test(test_blocks),
        cmocka_unit_test(test_memory),        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests_name("math.scores", tests, NULL, NULL);
}
