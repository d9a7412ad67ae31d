/* Fits of kernel machines on a GPU compared with the CPU, which has separate tests. The tables are small, but the Gram
 * matrix has several panels and blocks, and the rows several runs. */
#include <bochner/devices.h>
#include "machines/enums.h"
#include "machines/oracle.h"
#include "machines/fitting.h"
#include "machines/ridge.h"

enum { ROWS = 1100, DIM = 5, FEATURES = 150, NEW_ROWS = 50 };

static bo_context *host, *gpu;

/* ---- settings ---------------------------------------------------------------------------------------------------- */

typedef struct setting {
    const char *name;
    bo_kernel kernel;
    bo_function function;
    bo_gram_precision precision;
    bool weighted, no_intercept, length_scales;
    size_t targets, classes;
    double noise, dropout;
    bool on_host; /* the device does not compute this map */
} setting;

static const setting settings[] = {
    {"rbf", .precision = BO_GRAM_PRECISION_FLOAT32, .targets = 1},
    {"rbf in float64", .precision = BO_GRAM_PRECISION_FLOAT64, .targets = 2},
    {"rbf rounded", .precision = BO_GRAM_PRECISION_INT8, .targets = 1},
    {"weights", .precision = BO_GRAM_PRECISION_FLOAT32, .weighted = true, .targets = 1},
    {"weights in float64", .precision = BO_GRAM_PRECISION_FLOAT64, .weighted = true, .targets = 1,
     .no_intercept = true},
    {"length scales", .precision = BO_GRAM_PRECISION_FLOAT64, .length_scales = true, .targets = 1},
    {"laplacian", BO_KERNEL_LAPLACIAN, .precision = BO_GRAM_PRECISION_FLOAT64, .targets = 1, .noise = 0.01},
    {"matern32 with phases", BO_KERNEL_MATERN32, BO_FUNCTION_COSBIAS, BO_GRAM_PRECISION_FLOAT64, .targets = 1},
    {"cos rounded", BO_KERNEL_RBF, BO_FUNCTION_COSBIAS, BO_GRAM_PRECISION_INT8, .targets = 1, .no_intercept = true},
    {"arccos", BO_KERNEL_ARCCOS, .precision = BO_GRAM_PRECISION_FLOAT64, .targets = 1, .dropout = 0.1},
    {"softmax", BO_KERNEL_SOFTMAX, BO_FUNCTION_POSITIVE, BO_GRAM_PRECISION_FLOAT64, .targets = 1},
    {"softmax by sincos", BO_KERNEL_SOFTMAX, BO_FUNCTION_SINCOS, BO_GRAM_PRECISION_FLOAT64, .targets = 1},
    {"softmax by oprf", BO_KERNEL_SOFTMAX, BO_FUNCTION_OPRF, BO_GRAM_PRECISION_FLOAT32, .targets = 1},
    {"polynomial", BO_KERNEL_POLYNOMIAL, BO_FUNCTION_TENSORSKETCH, BO_GRAM_PRECISION_FLOAT32, .targets = 1,
     .on_host = true},
    {"classes", .precision = BO_GRAM_PRECISION_FLOAT32, .targets = 1, .classes = 3},
};
enum { SETTINGS = sizeof settings / sizeof *settings };

static bo_samples samples_of(const setting *s, size_t rows, uint64_t seed)
{
    bo_samples samples = s->classes ? oracle_classes(rows, DIM, s->classes, 2, seed)
                                    : oracle_regression(rows, DIM, s->targets, 0.3, seed);
    if (s->weighted) samples.weights = oracle_weights(rows, seed);
    return samples;
}

static bo_machine_desc desc_of(const setting *s)
{
    static const float lengths[DIM] = {1, 2, 0.5f, 3, 1};
    bo_machine_desc desc = oracle_desc(FEATURES, 0.2, 0.7);
    desc.features.kernel = s->kernel;
    desc.features.function = s->function;
    desc.features.degree = 2;
    desc.features.length_scales = s->length_scales ? lengths : NULL;
    desc.precision = s->precision;
    desc.no_intercept = s->no_intercept;
    desc.noise = s->noise;
    desc.dropout = s->dropout;
    desc.solver = BO_SOLVER_PRIMAL;
    desc.loss = BO_LOSS_RIDGE;
    return desc;
}

/* Errors of entries of the Gram matrix, relative to the geometric mean of their diagonal: features differ by rounding,
 * rounded features by a quantum near the midpoint of two values, and sums of 1024 products in float32 by about 1e-6. */
static double gram_tolerance(const setting *s)
{
    if (s->precision == BO_GRAM_PRECISION_INT8) return 1e-4;
    return s->precision == BO_GRAM_PRECISION_FLOAT32 ? 1e-5 : 2e-6;
}

static bo_fitting *add_rows(bo_context *context, const setting *s, const bo_samples *samples)
{
    const bo_machine_desc desc = desc_of(s);
    bo_fitting *fitting;
    assert_ok(context, bo_fitting_create(context, &desc, samples, &fitting));
    assert_ok(context, bo_fitting_add(context, fitting, samples));
    return fitting;
}

/* ---- sums -------------------------------------------------------------------------------------------------------- */

static void expect_same_gram(const setting *s, const bo_fitting *expected, const bo_fitting *found)
{
    const size_t size = expected->moments.size;
    const double *g = expected->moments.gram;
    double *gram;
    assert_non_null(g);
    assert_non_null(found->moments.device);
    assert_int_equal(found->moments.rows, expected->moments.rows);
    assert_int_equal(bo_device_sums_maps(found->moments.device), !s->on_host);
    assert_ok(gpu, bo_moments_open(gpu, &found->moments, &gram));
    for (size_t i = 0; i < size; i++)
        for (size_t j = i; j < size; j++) {
            const double scale = sqrt(g[i * size + i] * g[j * size + j]);
            if (!(fabs(gram[i * size + j] - g[i * size + j]) <= gram_tolerance(s) * scale))
                fail_msg("%s: G[%zu][%zu] = %.9g, expected %.9g", s->name, i, j, gram[i * size + j], g[i * size + j]);
        }
    assert_ok(gpu, bo_moments_close(gpu, &found->moments, gram, false));
}

static void test_sums(void **state)
{
    (void)state;
    for (size_t k = 0; k < SETTINGS; k++) {
        bo_samples samples = samples_of(&settings[k], ROWS, 1);
        bo_fitting *expected = add_rows(host, &settings[k], &samples), *found = add_rows(gpu, &settings[k], &samples);
        expect_same_gram(&settings[k], expected, found);
        bo_fitting_destroy(expected);
        bo_fitting_destroy(found);
        oracle_drop(&samples);
    }
}

/* Blocks that are added sequentially and merged have the sums of all rows. */
static void test_merged_blocks(void **state)
{
    (void)state;
    const setting *s = &settings[1];
    bo_samples samples = samples_of(s, ROWS, 2);
    const bo_machine_desc desc = desc_of(s);
    bo_fitting *expected = add_rows(host, s, &samples), *parts[2];
    const size_t ends[] = {0, 7, 700, 701, ROWS};
    for (size_t p = 0; p < 2; p++) assert_ok(gpu, bo_fitting_create(gpu, &desc, &samples, &parts[p]));
    for (size_t b = 0; b + 1 < sizeof ends / sizeof *ends; b++) {
        const bo_samples block = bo_samples_slice(&samples, ends[b], ends[b + 1] - ends[b], NULL);
        assert_ok(gpu, bo_fitting_add(gpu, parts[b % 2], &block));
    }
    assert_ok(gpu, bo_fitting_merge(gpu, parts[0], parts[1]));
    expect_same_gram(s, expected, parts[0]);
    bo_fitting_destroy(expected);
    bo_fitting_destroy(parts[0]);
    bo_fitting_destroy(parts[1]);
    oracle_drop(&samples);
}

/* ---- systems ----------------------------------------------------------------------------------------------------- */

static void expect_near(const char *name, const char *what, size_t count, const double *expected, const double *found,
                        double tolerance)
{
    double largest = 0;
    for (size_t k = 0; k < count; k++) largest = fmax(largest, fabs(expected[k]));
    for (size_t k = 0; k < count; k++)
        if (!(fabs(found[k] - expected[k]) <= tolerance * largest))
            fail_msg("%s: %s %zu is %.9g, expected %.9g", name, what, k, found[k], expected[k]);
}

/* The same sums on both sides: solutions agree up to rounding in float64. */
static void test_systems(void **state)
{
    (void)state;
    for (size_t k = 0; k < SETTINGS; k++) {
        const setting *s = &settings[k];
        bo_samples samples = samples_of(s, ROWS, 1);
        const bo_machine_desc desc = desc_of(s);
        bo_fitting *fittings[2] = {add_rows(host, s, &samples), add_rows(gpu, s, &samples)};
        bo_context *contexts[2] = {host, gpu};
        double *gram, spectrum[2];
        bo_machine_ridge ridge[2];
        bo_left_out left_out[2];
        assert_ok(gpu, bo_moments_open(gpu, &fittings[1]->moments, &gram));
        memcpy(gram, fittings[0]->moments.gram, fittings[0]->moments.size * fittings[0]->moments.size * sizeof *gram);
        assert_ok(gpu, bo_moments_close(gpu, &fittings[1]->moments, gram, true));
        for (size_t d = 0; d < 2; d++) {
            const bo_row_map row_map = bo_fitting_row_map(fittings[d]);
            const bo_samples few = bo_samples_slice(&samples, 0, 20, NULL);
            /* the second factorization replaces the first */
            for (double lambda = 30; lambda > 0.1; lambda -= 29.5) {
                const bo_penalty penalty = {lambda, desc.noise, desc.dropout};
                if (lambda < 30) bo_ridge_free(&ridge[d]);
                assert_ok(contexts[d],
                          bo_ridge_solve(contexts[d], &fittings[d]->moments, &penalty, !s->no_intercept, 1, &ridge[d]));
            }
            assert_ok(contexts[d], bo_ridge_left_out(contexts[d], &ridge[d], &row_map, &fittings[d]->targets, &few,
                                                     !s->no_intercept, &left_out[d]));
            assert_ok(contexts[d],
                      bo_moments_spectrum(contexts[d], &fittings[d]->moments, !s->no_intercept, &spectrum[d]));
        }
        const size_t outputs = ridge[0].outputs;
        expect_near(s->name, "coefficient", FEATURES * outputs, ridge[0].beta, ridge[1].beta, 1e-8);
        expect_near(s->name, "center", FEATURES, ridge[0].center, ridge[1].center, 1e-12);
        expect_near(s->name, "residual", outputs, ridge[0].rss, ridge[1].rss, 1e-8);
        expect_near(s->name, "freedom", 1, &ridge[0].freedom, &ridge[1].freedom, 1e-9);
        expect_near(s->name, "score", 1, &ridge[0].gcv, &ridge[1].gcv, 1e-8);
        /* If each device computes the features of these rows in float32, they differ by a few 2^-24, to which
         * predictions are proportional and leverages quadratic. */
        const double rows = s->on_host ? 1e-8 : 16 * 0x1p-24;
        expect_near(s->name, "leverage", 20, left_out[0].leverage, left_out[1].leverage, rows);
        expect_near(s->name, "prediction", 20 * outputs, left_out[0].prediction, left_out[1].prediction, rows);
        expect_near(s->name, "eigenvalue", 1, &spectrum[0], &spectrum[1], 1e-9);
        const size_t packed = FEATURES * (FEATURES + 1) / 2;
        float *factor = malloc(2 * packed * sizeof *factor);
        for (size_t d = 0; d < 2; d++)
            assert_ok(contexts[d], bo_ridge_pack_factor(contexts[d], &ridge[d], factor + d * packed));
        for (size_t i = 0; i < packed; i++)
            assert_close(factor[packed + i], factor[i], 1e-5 * (1 + fabs((double)factor[i])));
        free(factor);
        for (size_t d = 0; d < 2; d++) {
            bo_left_out_free(&left_out[d]);
            bo_ridge_free(&ridge[d]);
            bo_fitting_destroy(fittings[d]);
        }
        oracle_drop(&samples);
    }
}

/* The first pivot that is not positive is reported, in the first block and in a later one. */
static void test_bad_pivots(void **state)
{
    (void)state;
    const setting *s = &settings[1];
    bo_samples samples = samples_of(s, ROWS, 1);
    bo_fitting *fitting = add_rows(gpu, s, &samples);
    static const size_t places[] = {0, 3, 64, 100, FEATURES - 1};
    for (size_t k = 0; k < sizeof places / sizeof *places; k++) {
        double center[FEATURES] = {0}, penalty[FEATURES];
        char message[64];
        for (size_t j = 0; j < FEATURES; j++) penalty[j] = j < places[k] ? 1 : -1e6;
        snprintf(message, sizeof message, "pivot %zu of %d is -", places[k], FEATURES);
        const bo_device_system system = {1, center, penalty};
        assert_fails(gpu, BO_NUMERIC, message, bo_device_sums_factorize(gpu, fitting->moments.device, &system));
    }
    bo_fitting_destroy(fitting);
    oracle_drop(&samples);
}

/* ---- machines ---------------------------------------------------------------------------------------------------- */

/* Predictions, standard deviations and reports of whole fits. */
static void test_machines(void **state)
{
    (void)state;
    for (size_t k = 0; k < SETTINGS; k++) {
        const setting *s = &settings[k];
        bo_samples samples = samples_of(s, ROWS, 1), fresh = samples_of(s, NEW_ROWS, 9);
        const bo_machine_desc desc = desc_of(s);
        bo_machine *expected, *found;
        assert_ok(host, bo_machine_fit(host, &desc, &samples, &expected));
        assert_ok(gpu, bo_machine_fit(gpu, &desc, &samples, &found));
        const double tolerance = s->precision == BO_GRAM_PRECISION_INT8 ? 1e-3 : 2e-4;
        const size_t count = NEW_ROWS * expected->report.outputs;
        double *mean[2] = {malloc(count * sizeof(double)), malloc(count * sizeof(double))};
        double *std[2] = {malloc(count * sizeof(double)), malloc(count * sizeof(double))};
        bo_machine *const machines[2] = {expected, found};
        for (size_t d = 0; d < 2; d++)
            assert_ok(host, bo_machine_predict(host, machines[d], &(bo_inputs){.rows = NEW_ROWS, .x = fresh.x},
                                               &(bo_prediction){.mean = mean[d], .std = s->classes ? NULL : std[d]}));
        expect_near(s->name, "prediction", count, mean[0], mean[1], tolerance);
        if (!s->classes) expect_near(s->name, "deviation", count, std[0], std[1], tolerance);
        assert_int_equal(found->report.solver, BO_SOLVER_PRIMAL);
        assert_int_equal(found->report.precision, expected->report.precision);
        assert_close(found->report.spectrum, expected->report.spectrum, tolerance * expected->report.spectrum);
        for (size_t d = 0; d < 2; d++) {
            free(mean[d]);
            free(std[d]);
        }
        bo_machine_destroy(expected);
        bo_machine_destroy(found);
        oracle_drop(&samples);
        oracle_drop(&fresh);
    }
}

/* The search of gamma and lambda runs on the device, too, and selects the same values. The defaults are the defaults of
 * the device. */
static void test_search(void **state)
{
    (void)state;
    bo_samples samples =
        oracle_regression(2400, DIM, 1, 0.3, 4); /* more rows than a search with the exact kernel supports */
    bo_machine_desc desc = {.features = {.features = 64}, .seed = 1, .precision = BO_GRAM_PRECISION_FLOAT64};
    bo_machine *expected, *found;
    desc.solver = BO_SOLVER_PRIMAL;
    assert_ok(host, bo_machine_fit(host, &desc, &samples, &expected));
    desc.solver = BO_SOLVER_AUTO;
    assert_ok(gpu, bo_machine_fit(gpu, &desc, &samples, &found));
    assert_int_equal(found->report.solver, BO_SOLVER_PRIMAL);
    assert_close(found->report.gamma, expected->report.gamma, 1e-3 * expected->report.gamma);
    assert_close(found->report.lambda, expected->report.lambda, 1e-2 * expected->report.lambda);
    assert_close(found->report.validation_rmse, expected->report.validation_rmse, 1e-3);
    bo_machine_destroy(expected);
    bo_machine_destroy(found);
    oracle_drop(&samples);
}

/* ---- refusals ---------------------------------------------------------------------------------------------------- */

static void test_refusals(void **state)
{
    (void)state;
    const setting classes = {"classes", .targets = 1, .classes = 2};
    bo_samples samples = samples_of(&classes, 60, 1);
    static const bo_solver solvers[] = {BO_SOLVER_DUAL, BO_SOLVER_CG, BO_SOLVER_SGD, BO_SOLVER_ADAM};
    bo_machine *machine;
    for (size_t k = 0; k < sizeof solvers / sizeof *solvers; k++) {
        bo_machine_desc desc = oracle_desc(32, 0.2, 0.7);
        char message[64];
        desc.solver = solvers[k];
        snprintf(message, sizeof message, "solver %s is not supported on the device cuda", bo_solver_name(solvers[k]));
        assert_fails(gpu, BO_UNSUPPORTED, message, bo_machine_fit(gpu, &desc, &samples, &machine));
    }
    bo_machine_desc logistic = oracle_desc(32, 0.2, 0.7), exact = oracle_desc(32, 0.2, 0.7);
    logistic.solver = exact.solver = BO_SOLVER_AUTO;
    logistic.loss = BO_LOSS_LOGISTIC;
    exact.features.function = BO_FUNCTION_SECTIONS;
    assert_fails(gpu, BO_UNSUPPORTED, "loss logistic is not supported on the device cuda",
                 bo_machine_fit(gpu, &logistic, &samples, &machine));
    assert_fails(gpu, BO_UNSUPPORTED, "function sections", bo_machine_fit(gpu, &exact, &samples, &machine));
    oracle_drop(&samples);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums),     cmocka_unit_test(test_merged_blocks), cmocka_unit_test(test_systems),
        cmocka_unit_test(test_machines), cmocka_unit_test(test_bad_pivots),    cmocka_unit_test(test_search),
        cmocka_unit_test(test_refusals),
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
