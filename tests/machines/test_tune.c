/* The choice of kernel, scaling and metric: learned metrics find the columns and directions that matter, quantiles
 * follow their definition, committees predict the mean of their members and survive a file. */
#include "oracle.h"
#include "machines/tune.h"
#include "math/special.h"

enum { DIM = 6, ROWS = 300, FRESH = 500 };

/* y = f(x) + noise for a function of the row. */
static bo_samples rows_of(size_t rows, double (*f)(const float *x), double noise, uint64_t seed)
{
    bo_samples samples = oracle_regression(rows, DIM, 1, 0, seed);
    bo_rng rng = bo_rng_make(seed, bo_rng_stream("test.tune", 0));
    for (size_t i = 0; i < rows; i++) ((double *)samples.y)[i] = f(samples.x + i * DIM) + noise * bo_rng_normal(&rng);
    return samples;
}

static double ridge_function(const float *x) /* along (1, 1, -1, 0, 0, 0) */
{
    return sin(1.5 * ((double)x[0] + (double)x[1] - (double)x[2]));
}

static double steps(const float *x) /* columns 0 and 3 */
{
    return (x[0] > 0.2F ? 2 : 0) + (x[3] > -0.5F ? 1 : -1) * (x[0] > -1 ? 1 : 0.2);
}

static double rmse(bo_context *context, const bo_machine *machine, const bo_samples *fresh)
{
    double *mean = oracle_mean(context, machine, fresh->rows, fresh->x), squares = 0;
    for (size_t i = 0; i < fresh->rows; i++) squares += pow(mean[i] - fresh->y[i], 2);
    free(mean);
    return sqrt(squares / (double)fresh->rows);
}

/* ---- the metric -------------------------------------------------------------------------------------------------- */

/* A function of one direction: the metric weights it most, and the error falls to less than 0.7 of that without a
 * metric, with the exact kernel and with features. */
static void test_direction(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    bo_samples train = rows_of(ROWS, ridge_function, 0.05, 1), fresh = rows_of(FRESH, ridge_function, 0, 2);
    for (int exact = 0; exact < 2; exact++) {
        bo_machine_desc desc = {.features = {.kernel = BO_KERNEL_RBF}, .scaling = BO_SCALING_COLUMNS, .seed = 3};
        if (exact) desc.features.function = BO_FUNCTION_SECTIONS;
        if (!exact) desc.features.features = 512;
        bo_machine *plain = oracle_fit(context, &desc, &train);
        desc.metric = BO_METRIC_LEARN;
        bo_machine *learned = oracle_fit(context, &desc, &train);
        assert_int_equal(bo_machine_report(plain)->metric, BO_METRIC_NONE);
        assert_int_equal(bo_machine_report(learned)->metric, BO_METRIC_LEARN);
        assert_true(bo_machine_report(learned)->metric_iterations > 0);
        assert_true(rmse(context, learned, &fresh) < 0.7 * rmse(context, plain, &fresh));
        const bo_metric *m = &learned->scaler.metric;
        const float along[DIM] = {1, 1, -1, 0, 0, 0}, across[DIM] = {0, 0, 0, 1, 1, 1};
        float a[DIM], b[DIM];
        double strong = 0, weak = 0;
        bo_metric_row(m, along, a);
        bo_metric_row(m, across, b);
        for (size_t j = 0; j < DIM; j++) strong += (double)(a[j] * a[j]), weak += (double)(b[j] * b[j]);
        assert_true(strong > 20 * weak);
        bo_machine_destroy(plain);
        bo_machine_destroy(learned);
    }
    oracle_drop(&train);
    oracle_drop(&fresh);
    bo_context_destroy(context);
}

/* A function of two columns: the diagonal metric weights them more than the other four. */
static void test_columns(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    bo_samples train = rows_of(ROWS, steps, 0.05, 4);
    const bo_machine_desc desc = {.features = {.kernel = BO_KERNEL_LAPLACIAN, .function = BO_FUNCTION_SECTIONS},
                                  .metric = BO_METRIC_DIAGONAL,
                                  .seed = 3};
    bo_machine *machine = oracle_fit(context, &desc, &train);
    assert_int_equal(bo_machine_report(machine)->metric, BO_METRIC_DIAGONAL);
    const float *a = machine->scaler.metric.a;
    for (size_t j = 0; j < DIM; j++)
        if (j != 0 && j != 3) assert_true(a[j] < 0.6F * a[0] && a[j] < 0.6F * a[3]);
    bo_machine_destroy(machine);
    oracle_drop(&train);
    bo_context_destroy(context);
}

/* Streams learn the metric on the sample; classes with either loss learn one too. */
static void test_everywhere(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    bo_samples train = rows_of(ROWS, ridge_function, 0.05, 1), fresh = rows_of(FRESH, ridge_function, 0, 2);
    const bo_machine_desc desc = {
        .features = {.kernel = BO_KERNEL_RBF, .features = 256}, .metric = BO_METRIC_LEARN, .seed = 3};
    bo_fitting *fitting;
    bo_machine *streamed;
    assert_ok(context, bo_fitting_create(context, &desc, &train, &fitting));
    assert_ok(context, bo_fitting_add(context, fitting, &train));
    assert_ok(context, bo_fitting_finish(context, fitting, &streamed));
    assert_int_equal(bo_machine_report(streamed)->metric, BO_METRIC_LEARN);
    assert_true(rmse(context, streamed, &fresh) < 0.2);
    bo_fitting_destroy(fitting);
    bo_machine_destroy(streamed);

    bo_samples classes = rows_of(ROWS, ridge_function, 0, 5);
    for (size_t i = 0; i < ROWS; i++) ((double *)classes.y)[i] = classes.y[i] > 0 ? 1 : 0;
    classes.classes = 2;
    for (bo_loss loss = BO_LOSS_RIDGE; loss <= BO_LOSS_LOGISTIC; loss++) {
        bo_machine_desc other = desc;
        other.loss = loss;
        bo_machine *learned = oracle_fit(context, &other, &classes);
        other.metric = BO_METRIC_NONE;
        bo_machine *plain = oracle_fit(context, &other, &classes);
        assert_int_equal(bo_machine_report(learned)->metric, BO_METRIC_LEARN);
        assert_true(bo_machine_report(learned)->validation_log_loss < bo_machine_report(plain)->validation_log_loss);
        bo_machine_destroy(learned);
        bo_machine_destroy(plain);
    }
    oracle_drop(&classes);
    oracle_drop(&train);
    oracle_drop(&fresh);
    bo_context_destroy(context);
}

/* Nothing can be learned from noise: the validation error shows this, although a metric, γ and λ could fit the left-out
 * errors of 40 columns well, and intervals cover fresh rows: the left-out prediction of a row is the mean of the other
 * targets, which determines the target of the row. */
static void test_noise(void **state)
{
    (void)state;
    enum { COLUMNS = 40, KNOWN = 150 };
    bo_context *context = test_context(2);
    bo_samples train = oracle_regression(KNOWN, COLUMNS, 1, 0, 11), fresh = oracle_regression(FRESH, COLUMNS, 1, 0, 12);
    bo_rng rng = bo_rng_make(13, 0);
    for (size_t i = 0; i < KNOWN; i++) ((double *)train.y)[i] = bo_rng_normal(&rng);
    for (size_t i = 0; i < FRESH; i++) ((double *)fresh.y)[i] = bo_rng_normal(&rng);
    const bo_machine_desc desc = {.choose_kernel = true, .seed = 3};
    bo_machine *machine = oracle_fit(context, &desc, &train);
    assert_true(bo_machine_report(machine)->validation_r2 < 0.2);
    assert_true(rmse(context, machine, &fresh) < 1.2);
    double *low = malloc(3 * FRESH * sizeof *low), *high = low + FRESH, *mean = high + FRESH;
    assert_ok(context, bo_machine_predict(context, machine, &(bo_inputs){.rows = FRESH, .x = fresh.x},
                                          &(bo_prediction){.mean = mean, .low = low, .high = high, .level = 0.95}));
    size_t inside = 0;
    for (size_t i = 0; i < FRESH; i++) inside += fresh.y[i] >= low[i] && fresh.y[i] <= high[i];
    assert_true(inside > 0.85 * FRESH);
    free(low);
    bo_machine_destroy(machine);
    oracle_drop(&train);
    oracle_drop(&fresh);
    bo_context_destroy(context);
}

/* ---- the kernel -------------------------------------------------------------------------------------------------- */

/* Steps along columns need the Laplacian kernel; a smooth function of a direction does not. The chosen machine is
 * better than RBF features. */
static void test_kernel(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    const bo_machine_desc chosen = {.choose_kernel = true, .seed = 3},
                          rbf = {.features = {.features = 1024}, .seed = 3};
    double (*functions[])(const float *) = {steps, ridge_function};
    for (size_t f = 0; f < 2; f++) {
        bo_samples train = rows_of(ROWS, functions[f], 0.05, 6), fresh = rows_of(FRESH, functions[f], 0, 7);
        bo_machine *machine = oracle_fit(context, &chosen, &train), *other = oracle_fit(context, &rbf, &train);
        const bo_fit_report *report = bo_machine_report(machine);
        assert_int_equal(report->function, BO_FUNCTION_SECTIONS);
        assert_int_equal(report->kernel == BO_KERNEL_LAPLACIAN, f == 0);
        assert_true(report->members >= 1 && report->members <= BO_COMMITTEE);
        assert_true(rmse(context, machine, &fresh) < 0.8 * rmse(context, other, &fresh));
        bo_machine_destroy(machine);
        bo_machine_destroy(other);
        oracle_drop(&train);
        oracle_drop(&fresh);
    }
    bo_context_destroy(context);
}

/* ---- committees -------------------------------------------------------------------------------------------------- */

/* The committee predicts the mean of its members with its shares, bit for bit after a file and for any number of
 * threads, and is at least as good as its leader on left-out rows. */
static void test_committee(void **state)
{
    (void)state;
    bo_context *context = test_context(1), *threads = test_context(3);
    bo_samples train = oracle_regression(120, 2, 2, 0.3, 8), fresh = oracle_regression(40, 2, 2, 0, 9);
    const bo_machine_desc desc = {.choose_kernel = true, .seed = 3};
    bo_machine *machine = oracle_fit(context, &desc, &train), *same = oracle_fit(threads, &desc, &train), *loaded;
    assert_true(machine->other_members_count > 0);
    const size_t count = fresh.rows * 2;
    double *mean = malloc(count * sizeof *mean), *std = malloc(count * sizeof *std),
           *expected = calloc(count, sizeof *mean);
    double *part = malloc(count * sizeof *part), total = machine->share[0];
    assert_ok(context, bo_machine_predict(context, machine, &(bo_inputs){.rows = fresh.rows, .x = fresh.x},
                                          &(bo_prediction){.mean = mean, .std = std}));
    const size_t other_members = machine->other_members_count;
    machine->other_members_count = 0; /* only the leader */
    assert_ok(context, bo_machine_predict(context, machine, &(bo_inputs){.rows = fresh.rows, .x = fresh.x},
                                          &(bo_prediction){.mean = part}));
    machine->other_members_count = other_members;
    for (size_t k = 0; k < count; k++) expected[k] = machine->share[0] * part[k];
    for (size_t a = 0; a < other_members; a++) {
        assert_ok(context,
                  bo_machine_predict(context, machine->other_members[a], &(bo_inputs){.rows = fresh.rows, .x = fresh.x},
                                     &(bo_prediction){.mean = part}));
        for (size_t k = 0; k < count; k++) expected[k] += machine->share[a + 1] * part[k];
        total += machine->share[a + 1];
    }
    assert_close(total, 1, 1e-12);
    for (size_t k = 0; k < count; k++) assert_close(mean[k], expected[k], 1e-12 * fmax(1, fabs(expected[k])));
    for (size_t k = 0; k < count; k++) assert_true(std[k] > 0);

    void *bytes;
    size_t size;
    assert_ok(context, bo_machine_save(context, machine, NULL, &(bo_sink){.bytes = &bytes, .size = &size}));
    assert_ok(context, bo_machine_load(context, &(bo_source){.bytes = bytes, .size = size}, &loaded, NULL));
    assert_int_equal(bo_machine_report(loaded)->members, other_members + 1);
    assert_ok(context, bo_machine_predict(context, loaded, &(bo_inputs){.rows = fresh.rows, .x = fresh.x},
                                          &(bo_prediction){.mean = expected, .std = part}));
    assert_memory_equal(expected, mean, count * sizeof *mean);
    assert_memory_equal(part, std, count * sizeof *std);
    assert_ok(threads, bo_machine_predict(threads, same, &(bo_inputs){.rows = fresh.rows, .x = fresh.x},
                                          &(bo_prediction){.mean = expected, .std = part}));
    assert_memory_equal(expected, mean, count * sizeof *mean);
    bo_free(bytes);
    free(mean);
    free(std);
    free(expected);
    free(part);
    bo_machine_destroy(machine);
    bo_machine_destroy(same);
    bo_machine_destroy(loaded);
    oracle_drop(&train);
    oracle_drop(&fresh);
    bo_context_destroy(context);
    bo_context_destroy(threads);
}

/* The file of a committee whose member is a committee, however deep, is refused. */
static void test_nested_committee(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_samples train = oracle_regression(60, 2, 1, 0.3, 8);
    const bo_machine_desc desc = {.choose_kernel = true, .seed = 3};
    bo_machine *machine = oracle_fit(context, &desc, &train), *loaded;
    assert_true(machine->other_members_count > 0);
    void *bytes;
    size_t size;
    assert_ok(context, bo_machine_save(context, machine, NULL, &(bo_sink){.bytes = &bytes, .size = &size}));
    for (int depth = 0; depth < 3; depth++) {
        bo_machine *outer = oracle_fit(context, &desc, &train);
        bo_machine_destroy(outer->other_members[0]);
        outer->other_members[0] = machine;
        machine = outer;
        bo_free(bytes);
        assert_ok(context, bo_machine_save(context, machine, NULL, &(bo_sink){.bytes = &bytes, .size = &size}));
        assert_fails(context, BO_FORMAT, "a member of the committee is itself a committee",
                     bo_machine_load(context, &(bo_source){.bytes = bytes, .size = size}, &loaded, NULL));
        assert_null(loaded);
    }
    bo_free(bytes);
    bo_machine_destroy(machine);
    oracle_drop(&train);
    bo_context_destroy(context);
}

/* ---- quantiles --------------------------------------------------------------------------------------------------- */

/* Ranks go to normal quantiles: heavy tails, ties and values outside; columns of two values are standardized. */
static void test_quantiles(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    enum { N = 1024, COLUMNS = 3 };
    float *x = malloc(N * COLUMNS * sizeof *x);
    for (size_t i = 0; i < N; i++) {
        const double u = ((double)i + 0.5) / N;
        x[i * COLUMNS] = (float)exp(6 * u);              /* skewed, all different */
        x[i * COLUMNS + 1] = (float)(i % 4 == 0);        /* two values */
        x[i * COLUMNS + 2] = i < N / 2 ? 0 : (float)(i); /* half of them equal */
    }
    const bo_samples samples = {.rows = N, .dim = COLUMNS, .targets = 1, .x = x};
    bo_scaler scaler;
    assert_ok(context, bo_scaler_fit(context, BO_SCALING_QUANTILE, &samples, &scaler));
    float rows[4 * COLUMNS] = {0}, out[4 * COLUMNS];
    const double probes[] = {0.1, 0.5, 0.9};
    for (size_t p = 0; p < 3; p++) rows[p * COLUMNS] = (float)exp(6 * probes[p]);
    rows[COLUMNS + 1] = 1;
    rows[3 * COLUMNS] = 1e30F;
    const bo_input_view inputs = {.rows = 4, .x = rows, .ldx = COLUMNS};
    assert_ok(context, bo_scaler_apply(context, &scaler, &inputs, out));
    for (size_t p = 0; p < 3; p++) assert_close((double)out[p * COLUMNS], bo_normal_quantile(probes[p]), 0.01);
    assert_close((double)out[1], -0.25 / sqrt(0.1875), 1e-5);
    assert_close((double)out[COLUMNS + 1], 0.75 / sqrt(0.1875), 1e-5);
    assert_close((double)out[2], bo_normal_quantile(0.25), 0.01); /* the middle of the ties */
    assert_true(out[3 * COLUMNS] > 3 && out[3 * COLUMNS] <= 5);
    bo_scaler_free(&scaler);
    free(x);
    bo_context_destroy(context);
}

/* Targets without noise are interpolated, where λ decreases to the rounding of the kernel matrix: fits must not end
 * there. */
static void test_no_noise(void **state)
{
    (void)state;
    enum { LEVELS = 4, COLUMNS = LEVELS + 1, TABLE = 200 };
    static const double levels[LEVELS] = {1, 5, 2, 9};
    bo_context *context = test_context(2);
    for (uint64_t seed = 0; seed < 4; seed++) {
        float x[TABLE * COLUMNS] = {0};
        double y[TABLE];
        bo_rng rng = bo_rng_make(seed, bo_rng_stream("test.tune", 1));
        for (size_t i = 0; i < TABLE; i++) {
            const size_t level = bo_rng_below(&rng, LEVELS);
            x[i * COLUMNS] = (float)bo_rng_normal(&rng);
            x[i * COLUMNS + 1 + level] = 1;
            y[i] = seed % 2 ? (double)level : levels[level];
        }
        const bo_samples samples = {
            .rows = TABLE, .dim = COLUMNS, .targets = 1, .x = x, .y = y, .classes = seed % 2 ? LEVELS : 0};
        const bo_machine_desc desc = {.choose_kernel = true, .seed = seed};
        bo_machine *machine = oracle_fit(context, &desc, &samples);
        assert_true(seed % 2 || bo_machine_report(machine)->validation_rmse < 1e-3);
        bo_machine_destroy(machine);
    }
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_direction),        cmocka_unit_test(test_columns),
                                       cmocka_unit_test(test_everywhere),       cmocka_unit_test(test_noise),
                                       cmocka_unit_test(test_kernel),           cmocka_unit_test(test_committee),
                                       cmocka_unit_test(test_nested_committee), cmocka_unit_test(test_quantiles),
                                       cmocka_unit_test(test_no_noise)};
    return cmocka_run_group_tests_name("machines.tune", tests, NULL, NULL);
}
