/* Predictions of kernel machines on a GPU compared with the CPU: the same machines, fitted on the CPU. Emulated GPUs
 * have blocks of 64 rows. */
#include <bochner/devices.h>
#include "math/metrics.h"
#include "machines/gpu/predict.h"
#include "machines/oracle.h"

enum { ROWS = 400, DIM = 5, STRIDE = DIM + 2, FEATURES = 150, MAX = 200 };

static bo_context *host, *gpu;

typedef struct setting {
    const char *name;
    bo_kernel kernel;
    bo_function function;
    bo_gram_precision precision;
    bo_solver solver;
    size_t rows, targets, classes;
    bo_target_scale target_scale;
    bool on_host; /* GPUs have no kernels for this map */
} setting;

static const setting settings[] = {
    {"regression", .targets = 1},
    {"several outputs", .targets = 3},
    {"features rounded", .precision = BO_GRAM_PRECISION_INT8, .targets = 2},
    {"few training rows", .solver = BO_SOLVER_DUAL, .rows = 90, .targets = 2},
    {"no factor", .solver = BO_SOLVER_CG, .targets = 1},
    {"logarithms", .targets = 1, .target_scale = BO_TARGET_SCALE_LOG},
    {"softmax", BO_KERNEL_SOFTMAX, BO_FUNCTION_POSITIVE, .targets = 1},
    {"arccos", BO_KERNEL_ARCCOS, .targets = 1},
    {"classes", .targets = 1, .classes = 3},
    {"matern32 with phases", BO_KERNEL_MATERN32, BO_FUNCTION_COSBIAS, .targets = 1},
    {"polynomial", BO_KERNEL_POLYNOMIAL, BO_FUNCTION_TENSORSKETCH, .targets = 1, .on_host = true},
};
enum { SETTINGS = sizeof settings / sizeof *settings };

static bo_machine *fit(const setting *s)
{
    const size_t rows = s->rows ? s->rows : ROWS;
    bo_samples samples =
        s->classes ? oracle_classes(rows, DIM, s->classes, 2, 1) : oracle_regression(rows, DIM, s->targets, 0.3, 1);
    bo_machine_desc desc = oracle_desc(FEATURES, 0.2, 0.7);
    bo_machine *machine;
    desc.scaling = BO_SCALING_COLUMNS;
    desc.features.kernel = s->kernel;
    desc.features.function = s->function;
    desc.features.degree = 2;
    desc.precision = s->precision ? s->precision : BO_GRAM_PRECISION_FLOAT32;
    desc.target_scale = s->target_scale;
    if (s->solver) desc.solver = s->solver;
    if (s->target_scale == BO_TARGET_SCALE_LOG)
        for (size_t i = 0; i < rows; i++) ((double *)(uintptr_t)samples.y)[i] = exp(samples.y[i] / 4);
    assert_ok(host, bo_machine_fit(host, &desc, &samples, &machine));
    oracle_drop(&samples);
    return machine;
}

/* New rows, STRIDE elements apart; the gaps must not be read. */
static float *rows_of(uint64_t seed)
{
    float *x = malloc((size_t)MAX * STRIDE * sizeof *x);
    bo_rng rng = bo_rng_make(seed, bo_rng_stream("test.predictions", 0));
    for (size_t k = 0; k < (size_t)MAX * STRIDE; k++) x[k] = k % STRIDE < DIM ? (float)bo_rng_normal(&rng) : NAN;
    return x;
}

/* Features of both devices are computed in float32 from projections |u| < 2^5 and are at most 1, so they differ by less
 * than 2^5 2^-24, and predictions by less than Σ |β| times that. Rounded features may differ by one quantum near the
 * midpoint of two values: errors of 2^-19 are less than 2^-9 of a quantum, so 3 of 150 are too many. Values are
 * compared relative to 1 + their magnitude, as the exponential of a logarithm multiplies its error. Deviations are
 * roots of 1 + q with q < 1 times exponentials of sums of features: their relative errors are smaller. */
static double tolerance_of(const bo_machine *machine)
{
    const size_t outputs = machine->report.outputs;
    double max_sum = 0, largest = 0;
    for (size_t t = 0; t < outputs; t++) {
        double sum = 0;
        for (size_t j = 0; j < FEATURES; j++) {
            sum += fabs(machine->beta[j * outputs + t]);
            largest = fmax(largest, fabs(machine->beta[j * outputs + t]));
        }
        max_sum = fmax(max_sum, sum);
    }
    return 0x1p-19 * max_sum + (machine->quantum > 0 ? 3 * machine->quantum * largest : 0);
}

static void expect_near(const char *name, const char *what, size_t count, const double *expected, const double *found,
                        double tolerance)
{
    for (size_t k = 0; k < count; k++)
        if (!(fabs(found[k] - expected[k]) <= tolerance * (1 + fabs(expected[k]))))
            fail_msg("%s: %s %zu is %.9g, expected %.9g within %.2g", name, what, k, found[k], expected[k], tolerance);
}

/* Results of a call that must run on the GPU: the machine has copies there. */
static void expect_copies(const setting *s, const bo_machine *machine, bool deviations)
{
    const bo_device *device = bo_device_of(gpu);
    const bool solves = deviations && machine->uncertainty != BO_UNCERTAINTY_NONE;
    assert_int_equal(bo_device_copy_find(machine->copies, device, machine->version) != NULL, !s->on_host);
    if (solves)
        assert_int_equal(bo_device_copy_find(machine->deviation_copies, device, machine->version) != NULL, !s->on_host);
}

/* ---- regression and classes -------------------------------------------------------------------------------------- */

static void compare_regression(const setting *s, const bo_machine *machine, size_t rows, const float *x)
{
    enum { MEAN, STD, LOW, HIGH, PARTS };
    const size_t count = rows * machine->report.outputs;
    double *found[PARTS], *expected[PARTS], tolerance = tolerance_of(machine);
    for (size_t p = 0; p < PARTS; p++)
        found[p] = malloc(count * sizeof(double)), expected[p] = malloc(count * sizeof(double));
    assert_ok(host, bo_machine_predict(host, machine, &(bo_inputs){.rows = rows, .x = x, .stride = STRIDE},
                                       &(bo_prediction){.mean = expected[MEAN]}));
    assert_ok(gpu, bo_machine_predict(gpu, machine, &(bo_inputs){.rows = rows, .x = x, .stride = STRIDE},
                                      &(bo_prediction){.mean = found[MEAN]}));
    expect_copies(s, machine, false);
    expect_near(s->name, "prediction", count, expected[MEAN], found[MEAN], tolerance);
    assert_ok(host, bo_machine_predict(host, machine, &(bo_inputs){.rows = rows, .x = x, .stride = STRIDE},
                                       &(bo_prediction){.mean = expected[MEAN],
                                                        .low = expected[LOW],
                                                        .high = expected[HIGH],
                                                        .level = 0.9,
                                                        .std = expected[STD]}));
    assert_ok(gpu,
              bo_machine_predict(
                  gpu, machine, &(bo_inputs){.rows = rows, .x = x, .stride = STRIDE},
                  &(bo_prediction){
                      .mean = found[MEAN], .low = found[LOW], .high = found[HIGH], .level = 0.9, .std = found[STD]}));
    expect_copies(s, machine, true);
    static const char *const what[PARTS] = {"prediction", "deviation", "lower end", "upper end"};
    for (size_t p = 0; p < PARTS; p++) {
        expect_near(s->name, what[p], count, expected[p], found[p], tolerance);
        free(found[p]);
        free(expected[p]);
    }
}

static void compare_classes(const setting *s, const bo_machine *machine, size_t rows, const float *x)
{
    const size_t count = rows * machine->report.classes;
    double *p[2] = {malloc(count * sizeof(double)), malloc(count * sizeof(double))};
    int *classes[2] = {malloc(rows * sizeof(int)), malloc(rows * sizeof(int))};
    bo_context *const contexts[2] = {host, gpu};
    for (size_t d = 0; d < 2; d++) {
        assert_ok(contexts[d],
                  bo_machine_predict(contexts[d], machine, &(bo_inputs){.rows = rows, .x = x, .stride = STRIDE},
                                     &(bo_prediction){.probabilities = p[d]}));
        assert_ok(contexts[d],
                  bo_machine_predict(contexts[d], machine, &(bo_inputs){.rows = rows, .x = x, .stride = STRIDE},
                                     &(bo_prediction){.classes = classes[d]}));
    }
    expect_copies(s, machine, false);
    const double tolerance = tolerance_of(machine) * machine->sharpness;
    expect_near(s->name, "probability", count, p[0], p[1], tolerance);
    for (size_t i = 0; i < rows; i++) assert_int_equal(classes[0][i], classes[1][i]);
    for (size_t d = 0; d < 2; d++) {
        free(p[d]);
        free(classes[d]);
    }
}

static void predictions_match_the_cpu(void **state)
{
    static const size_t counts[] = {1, 63, 64, 65, MAX};
    (void)state;
    float *x = rows_of(2);
    for (size_t k = 0; k < SETTINGS; k++) {
        bo_machine *machine = fit(&settings[k]);
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
            (settings[k].classes ? compare_classes : compare_regression)(&settings[k], machine, counts[c], x);
        bo_machine_destroy(machine);
    }
    free(x);
}

/* The GPU evaluates as the CPU does. Sparse rows, for which it has no kernels, are predicted by the CPU. */
static void evaluations_and_sparse_rows(void **state)
{
    (void)state;
    bo_samples samples = oracle_regression(ROWS, DIM, 2, 0.3, 5);
    bo_machine *machine = fit(&settings[2]);
    bo_context *const contexts[2] = {host, gpu};
    double rmse[2], coverage[2], mean[2][4];
    static const size_t start[] = {0, 2, 2};
    static const uint32_t column[] = {1, 3};
    static const float value[] = {0.5F, -1};
    const bo_sparse rows = {.rows = 2, .dim = DIM, .start = start, .column = column, .value = value};
    for (size_t d = 0; d < 2; d++) {
        bo_metrics *metrics;
        assert_ok(contexts[d], bo_machine_create_metrics(contexts[d], machine, 0, &metrics));
        assert_ok(contexts[d], bo_machine_evaluate(contexts[d], machine, &(bo_inputs){.rows = ROWS, .x = samples.x},
                                                   samples.y, metrics));
        rmse[d] = bo_metrics_rmse(metrics), coverage[d] = bo_metrics_coverage(metrics);
        bo_metrics_destroy(metrics);
        assert_ok(contexts[d], bo_machine_predict(contexts[d], machine, &(bo_inputs){.sparse = &rows},
                                                  &(bo_prediction){.mean = mean[d]}));
    }
    assert_close(rmse[1], rmse[0], tolerance_of(machine));
    assert_close(coverage[1], coverage[0], 0.01);
    expect_near("sparse rows", "prediction", 4, mean[0], mean[1], tolerance_of(machine));
    bo_machine_destroy(machine);
    oracle_drop(&samples);
}

/* ---- the same machine again, and out of memory ------------------------------------------------------------------- */

/* Repeated calls are bitwise equal: the copies keep no stale data. */
static void calls_can_be_repeated(void **state)
{
    (void)state;
    float *x = rows_of(3);
    bo_machine *machine = fit(&settings[1]);
    double mean[2][MAX * 3], std[2][MAX * 3];
    for (size_t d = 0; d < 2; d++)
        assert_ok(gpu, bo_machine_predict(gpu, machine, &(bo_inputs){.rows = MAX, .x = x, .stride = STRIDE},
                                          &(bo_prediction){.mean = mean[d], .std = std[d]}));
    assert_memory_equal(mean[0], mean[1], sizeof mean[0]);
    assert_memory_equal(std[0], std[1], sizeof std[0]);
    bo_machine_destroy(machine);
    free(x);
}

/* A loaded machine has the predictions of the saved one. */
static void loaded_machines_predict(void **state)
{
    (void)state;
    float *x = rows_of(6);
    static const size_t cases[] = {0, 3, 8};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        const setting *s = &settings[cases[k]];
        bo_machine *machine = fit(s), *loaded;
        void *bytes;
        size_t size;
        assert_ok(host, bo_machine_save(host, machine, NULL, &(bo_sink){.bytes = &bytes, .size = &size}));
        assert_ok(gpu, bo_machine_load(gpu, &(bo_source){.bytes = bytes, .size = size}, &loaded, NULL));
        (s->classes ? compare_classes : compare_regression)(s, loaded, MAX, x);
        bo_free(bytes);
        bo_machine_destroy(machine);
        bo_machine_destroy(loaded);
    }
    free(x);
}

/* Every allocation on the GPU fails once. Then the machine predicts as before. */
static void out_of_memory_is_an_error(void **state)
{
    (void)state;
    if (!bo_device_properties(bo_device_of(gpu))->emulated) skip();
    float *x = rows_of(4);
    static const size_t cases[] = {1, 3};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        const setting *s = &settings[cases[k]];
        bo_machine *machine = fit(s);
        const size_t count = MAX * machine->report.outputs;
        double *mean = malloc(count * sizeof *mean), *std = malloc(count * sizeof *std);
        size_t failures = 0;
        bo_status status = BO_MEMORY;
        for (size_t bytes = 0; status != BO_OK; bytes += 16384) {
            char limit[32];
            snprintf(limit, sizeof limit, "%zu", bytes);
            assert_int_equal(setenv("BOCHNER_EMULATED_BYTES", limit, 1), 0);
            status = bo_machine_predict(gpu, machine, &(bo_inputs){.rows = MAX, .x = x, .stride = STRIDE},
                                        &(bo_prediction){.mean = mean, .std = std});
            if (status == BO_OK) break;
            assert_int_equal(status, BO_MEMORY);
            assert_non_null(strstr(bo_context_error(gpu), "out of memory of the GPU"));
            assert_non_null(strstr(bo_context_error(gpu), "predict without standard deviations"));
            failures++;
        }
        assert_true(failures > 3);
        unsetenv("BOCHNER_EMULATED_BYTES");
        compare_regression(s, machine, MAX, x);
        bo_machine_destroy(machine);
        free(mean);
        free(std);
    }
    free(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(predictions_match_the_cpu), cmocka_unit_test(evaluations_and_sparse_rows),
        cmocka_unit_test(calls_can_be_repeated),     cmocka_unit_test(loaded_machines_predict),
        cmocka_unit_test(out_of_memory_is_an_error),
    };
    host = test_context(2);
    gpu = test_context(2);
    if (!getenv("BOCHNER_CUDA") || bo_context_use_device(gpu, "cuda") != BO_OK) {
        print_message("skipped: %s\n", bo_context_error(gpu));
        return 77;
    }
    const int failures = cmocka_run_group_tests(tests, NULL, NULL);
    bo_context_destroy(host);
    bo_context_destroy(gpu);
    return failures;
}
