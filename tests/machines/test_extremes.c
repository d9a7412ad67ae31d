/* Targets and inputs of extreme size: the result does not depend on the unit, or the fit is refused with the reason. */
#include <float.h>
#include "math/metrics.h"
#include "machines/machine.h"
#include "oracle.h"

enum { ROWS = 300, DIM = 3, NEW = 50, FEATURES = 64 };

typedef struct results {
    double mean[NEW], std[NEW], rmse, r2, noise, search;
} results;

static bo_machine_desc desc_of(bo_solver solver)
{
    return (bo_machine_desc){.solver = solver, .features = {.features = FEATURES, .gamma = 0.3}};
}

/* Fits the targets times 2^exponent, saves and loads the machine, and tests it. */
static results fit_scaled(bo_context *context, bo_solver solver, int exponent)
{
    results out = {0};
    bo_samples train = oracle_regression(ROWS, DIM, 1, 0.3, 1), test = oracle_regression(NEW, DIM, 1, 0.3, 2);
    for (size_t i = 0; i < ROWS; i++) ((double *)train.y)[i] = ldexp(train.y[i], exponent);
    for (size_t i = 0; i < NEW; i++) ((double *)test.y)[i] = ldexp(test.y[i], exponent);
    const bo_machine_desc desc = desc_of(solver);
    bo_machine *machine = oracle_fit(context, &desc, &train), *loaded = NULL;
    void *bytes;
    size_t size;
    assert_ok(context, bo_machine_save(context, machine, NULL, &(bo_sink){.bytes = &bytes, .size = &size}));
    assert_ok(context, bo_machine_load(context, &(bo_source){.bytes = bytes, .size = size}, &loaded, NULL));
    bo_metrics *metrics;
    assert_ok(context, bo_machine_create_metrics(context, loaded, 0, &metrics));
    assert_ok(context, bo_machine_evaluate(context, loaded, &(bo_inputs){.rows = NEW, .x = test.x}, test.y, metrics));
    const bool has_std = machine->report.has_std;
    assert_ok(context, bo_machine_predict(context, loaded, &(bo_inputs){.rows = NEW, .x = test.x},
                                          &(bo_prediction){.mean = out.mean, .std = has_std ? out.std : NULL}));
    out.rmse = bo_metrics_rmse(metrics);
    out.r2 = bo_metrics_r2(metrics);
    out.noise = machine->report.noise_std;
    out.search = machine->report.search_score;
    assert_close(machine->report.validation_r2, out.r2, 0.2);
    bo_free(bytes);
    bo_metrics_destroy(metrics);
    bo_machine_destroy(machine);
    bo_machine_destroy(loaded);
    oracle_drop(&train);
    oracle_drop(&test);
    return out;
}

/* Multiplication by a power of two changes no digit of any result. */
static void test_units_of_targets(void **state)
{
    (void)state;
    static const bo_solver solvers[] = {BO_SOLVER_PRIMAL, BO_SOLVER_DUAL, BO_SOLVER_CG, BO_SOLVER_SGD};
    static const int exponents[] = {-900, -660, -20, 20, 660, 900};
    bo_context *context = test_context(2);
    for (size_t s = 0; s < sizeof solvers / sizeof *solvers; s++) {
        const results unscaled = fit_scaled(context, solvers[s], 0);
        assert_true(unscaled.r2 > 0.5 && unscaled.r2 < 1 && unscaled.rmse > 0 && unscaled.noise > 0);
        for (size_t e = 0; e < sizeof exponents / sizeof *exponents; e++) {
            const results scaled = fit_scaled(context, solvers[s], exponents[e]);
            assert_true(scaled.r2 == unscaled.r2 && scaled.search == unscaled.search);
            assert_true(ldexp(scaled.rmse, -exponents[e]) == unscaled.rmse);
            assert_true(ldexp(scaled.noise, -exponents[e]) == unscaled.noise);
            for (size_t i = 0; i < NEW; i++) {
                assert_true(ldexp(scaled.mean[i], -exponents[e]) == unscaled.mean[i]);
                assert_true(ldexp(scaled.std[i], -exponents[e]) == unscaled.std[i]);
            }
        }
    }
    bo_context_destroy(context);
}

static void refuse_targets(bo_context *context, double factor, double last, const char *expected_text)
{
    bo_samples train = oracle_regression(ROWS, DIM, 1, 0.3, 1);
    for (size_t i = 0; i < ROWS; i++) ((double *)train.y)[i] *= factor;
    if (last != 0) ((double *)train.y)[ROWS - 1] = last;
    float weights[ROWS];
    for (size_t i = 0; i < ROWS; i++) weights[i] = last != 0 && i == ROWS - 1 ? 0 : 1;
    train.weights = weights;
    const bo_machine_desc desc = desc_of(BO_SOLVER_PRIMAL);
    bo_machine *machine = NULL;
    assert_fails(context, BO_INVALID, expected_text, bo_machine_fit(context, &desc, &train, &machine));
    assert_null(machine);
    train.weights = NULL;
    oracle_drop(&train);
}

static void test_targets_out_of_range(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    refuse_targets(context, 1e-300, 0, "is too small for double precision; multiply the target by a constant");
    refuse_targets(context, 1e300, 0, "row 0: expected a target between -1e+290 and 1e+290");
    refuse_targets(context, 1, 1e200, "row 299: the target 1e+200 is too far from the other targets");
    bo_context_destroy(context);
}

/* A row of a stream far beyond the sample. */
static void test_stream_out_of_range(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_samples train = oracle_regression(ROWS, DIM, 1, 0.3, 1);
    bo_machine_desc desc = desc_of(BO_SOLVER_PRIMAL);
    desc.lambda = 1;
    bo_fitting *fitting;
    assert_ok(context, bo_fitting_create(context, &desc, &train, &fitting));
    assert_ok(context, bo_fitting_add(context, fitting, &train));
    ((double *)train.y)[7] = -1e100;
    assert_fails(context, BO_INVALID, "row 7: the target -1e+100 is too far", bo_fitting_add(context, fitting, &train));
    bo_fitting_destroy(fitting);
    oracle_drop(&train);
    bo_context_destroy(context);
}

/* Inputs are standardized in any unit of float32; beyond, the column is named. */
static void test_units_of_inputs(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    static const int exponents[] = {0, -120, 120, -135, 127};
    double unscaled[ROWS], mean[ROWS];
    for (size_t e = 0; e < sizeof exponents / sizeof *exponents; e++) {
        bo_samples train = oracle_regression(ROWS, DIM, 1, 0.3, 1);
        float *x = (float *)train.x;
        for (size_t i = 0; i < ROWS; i++)
            x[i * DIM + 1] = fmaxf(-FLT_MAX, fminf(FLT_MAX, ldexpf(x[i * DIM + 1], exponents[e])));
        bo_machine_desc desc = desc_of(BO_SOLVER_PRIMAL);
        desc.lambda = 1;
        bo_machine *machine = NULL;
        if (abs(exponents[e]) <= 120) {
            assert_ok(context, bo_machine_fit(context, &desc, &train, &machine));
            assert_ok(context, bo_machine_predict(context, machine, &(bo_inputs){.rows = ROWS, .x = train.x},
                                                  &(bo_prediction){.mean = e ? mean : unscaled}));
            for (size_t i = 0; e && i < ROWS; i++) assert_true(mean[i] == unscaled[i]);
        } else {
            assert_fails(context, BO_INVALID, "input column 1: expected a standard deviation between 1e-37 and 1e+37",
                         bo_machine_fit(context, &desc, &train, &machine));
        }
        bo_machine_destroy(machine);
        oracle_drop(&train);
    }
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_units_of_targets),
        cmocka_unit_test(test_targets_out_of_range),
        cmocka_unit_test(test_stream_out_of_range),
        cmocka_unit_test(test_units_of_inputs),
    };
    return cmocka_run_group_tests_name("machines.extremes", tests, NULL, NULL);
}
