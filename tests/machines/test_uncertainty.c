/* Standard deviations for noise of equal size: the explicit formula, and the coverage of the 95% interval on new rows.
 * Noise of varying size is tested separately: test_intervals.c. */
#include "machines/enums.h"
#include "oracle.h"

enum { ROWS = 120, DIM = 2, FEATURES = 32, NEW_ROWS = 40 };

/* Without deviations from left-out rows, as in files of earlier versions, std² = s² (1 + 1/W + (φ - c)ᵀ (Σ w (φ - c)(φ
 * - c)ᵀ + D)⁻¹ (φ - c)), where c is the weighted mean of φ; without an intercept c = 0 and there is no 1/W. */
static void expect_formula(bo_context *context, const bo_machine_desc *desc, const bo_samples *train)
{
    bo_machine *machine = oracle_fit(context, desc, train);
    bo_intervals_free(&machine->intervals);
    bo_samples fresh = oracle_regression(NEW_ROWS, DIM, 1, 0, 8);
    size_t n = train->rows, features = machine->report.features, outputs = machine->report.outputs;
    bool intercept = !desc->no_intercept;
    double *z = oracle_features(context, machine, n, train->x),
           *q = oracle_features(context, machine, NEW_ROWS, fresh.x);
    double *a = calloc(features * features, sizeof *a), *center = calloc(features, sizeof *center), weight = 0;
    double *squares = calloc(features, sizeof *squares);
    for (size_t i = 0; i < n; i++) {
        double w = train->weights ? (double)train->weights[i] : 1;
        weight += w;
        for (size_t j = 0; j < features; j++) {
            squares[j] += w * z[i * features + j] * z[i * features + j];
            if (intercept) center[j] += w * z[i * features + j];
        }
    }
    for (size_t j = 0; j < features; j++) center[j] /= weight;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < features; j++)
            for (size_t k = 0; k < features; k++)
                a[j * features + k] += (train->weights ? (double)train->weights[i] : 1) *
                                       (z[i * features + j] - center[j]) * (z[i * features + k] - center[k]);
    for (size_t j = 0; j < features; j++)
        a[j * features + j] +=
            desc->lambda + weight * desc->noise * desc->noise + desc->dropout / (1 - desc->dropout) * squares[j];
    double *inverse = oracle_inverse(features, a), mean[2 * NEW_ROWS], std[2 * NEW_ROWS];
    assert_true(machine->report.has_std);
    assert_ok(context, bo_machine_predict(context, machine, &(bo_inputs){.rows = NEW_ROWS, .x = fresh.x},
                                          &(bo_prediction){.mean = mean, .std = std}));
    for (size_t i = 0; i < NEW_ROWS; i++) {
        double form = 0;
        for (size_t j = 0; j < features; j++)
            for (size_t k = 0; k < features; k++)
                form +=
                    (q[i * features + j] - center[j]) * inverse[j * features + k] * (q[i * features + k] - center[k]);
        for (size_t t = 0; t < outputs; t++) {
            double fresh_noise = 1 / machine->mean_weight; /* a new row has the mean weight of the training rows */
            double expected = machine->noise[t] * sqrt(fresh_noise + (intercept ? 1 / weight : 0) + form);
            /* the factor and its products are float32 */
            assert_close(std[i * outputs + t] / expected, 1, 1e-4);
            assert_true(std[i * outputs + t] >= machine->noise[t] * sqrt(fresh_noise));
        }
    }
    free(z), free(q), free(a), free(center), free(squares), free(inverse);
    oracle_drop(&fresh);
    bo_machine_destroy(machine);
}

static void test_formula(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    static const bo_solver solvers[] = {BO_SOLVER_PRIMAL, BO_SOLVER_DUAL};
    for (size_t s = 0; s < 2; s++)
        for (int mode = 0; mode < 8; mode++) {
            bo_samples train = oracle_regression(ROWS, DIM, 2, 0.2, 1);
            if (mode & 1) train.weights = oracle_weights(ROWS, 2);
            bo_machine_desc desc = oracle_desc(FEATURES, 0.3, 0.2);
            desc.solver = solvers[s];
            desc.no_intercept = mode & 2;
            if (mode & 4) desc.noise = 0.02, desc.dropout = 0.05;
            expect_formula(context, &desc, &train);
            oracle_drop(&train);
        }
    bo_context_destroy(context);
}

/* The standard deviation grows away from the data. */
static void test_grows_away_from_the_data(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    bo_samples train = oracle_regression(ROWS, DIM, 1, 0.2, 1);
    static const size_t features[] = {64, 256}; /* primal, dual */
    for (size_t k = 0; k < 2; k++) {
        bo_machine_desc desc = oracle_desc(features[k], 0.3, 0.05);
        desc.solver = BO_SOLVER_AUTO;
        bo_machine *machine = oracle_fit(context, &desc, &train);
        float x[] = {0, 0, 6, 6};
        double mean[2], std[2];
        assert_ok(context, bo_machine_predict(context, machine, &(bo_inputs){.rows = 2, .x = x},
                                              &(bo_prediction){.mean = mean, .std = std}));
        assert_true(std[1] > 1.5 * std[0]);
        bo_machine_destroy(machine);
    }
    oracle_drop(&train);
    bo_context_destroy(context);
}

/* Functions drawn from the prior of the model with noise of known size: the 95% interval must contain 95% of new rows.
 * With FUNCTIONS independent draws of FRESH rows the binomial error is √(.05 .95 / 8000) = 0.24%; rows of one draw
 * share s², whose relative error √(2/n) = 8% changes the coverage by 0.08 * 1.96 * 2 φ(1.96) = 1.8% per draw, 0.6% over
 * 8 draws. The total is 0.65%: 93% to 97% is three standard errors. */
static void test_coverage(void **state)
{
    (void)state;
    enum { FUNCTIONS = 8, TRAIN = 300, FRESH = 1000 };
    bo_context *context = test_context(2);
    for (int solver = BO_SOLVER_PRIMAL; solver <= BO_SOLVER_DUAL; solver++) {
        double inside = 0, noise_sum = 0;
        for (uint64_t k = 0; k < FUNCTIONS; k++) {
            bo_samples all = oracle_regression(TRAIN + FRESH, DIM, 1, 0, 10 + k);
            bo_features_desc map = {.dim = DIM, .features = 512, .gamma = 0.5, .seed = 100 + k};
            bo_features *phi;
            float *z = malloc(all.rows * 512 * sizeof *z);
            assert_ok(context, bo_features_create(context, &map, &phi));
            assert_ok(context, bo_features_apply(context, phi,
                                                 &(bo_inputs){.rows = all.rows, .x = all.x, .stride = DIM}, z, 512));
            bo_features_destroy(phi);
            bo_rng rng = bo_rng_make(k, bo_rng_stream("test.prior", 0));
            double beta[512];
            for (size_t j = 0; j < 512; j++) beta[j] = bo_rng_normal(&rng);
            for (size_t i = 0; i < all.rows; i++) {
                double f = 0.3 * bo_rng_normal(&rng);
                for (size_t j = 0; j < 512; j++) f += beta[j] * (double)z[i * 512 + j];
                ((double *)all.y)[i] = f;
            }
            free(z);
            bo_samples train = all;
            train.rows = TRAIN;
            bo_machine_desc desc = {.features = {.features = 256}, .solver = (bo_solver)solver, .seed = k};
            bo_machine *machine = oracle_fit(context, &desc, &train);
            double *mean = malloc(FRESH * sizeof *mean), *std = malloc(FRESH * sizeof *std);
            assert_ok(context,
                      bo_machine_predict(context, machine, &(bo_inputs){.rows = FRESH, .x = all.x + TRAIN * DIM},
                                         &(bo_prediction){.mean = mean, .std = std}));
            for (size_t i = 0; i < FRESH; i++) inside += fabs(mean[i] - all.y[TRAIN + i]) < 1.959964 * std[i];
            noise_sum += machine->report.noise_std / FUNCTIONS;
            free(mean), free(std);
            bo_machine_destroy(machine);
            oracle_drop(&all);
        }
        double share = inside / (FUNCTIONS * FRESH);
        if (!(share > 0.93 && share < 0.97))
            fail_msg("%s: %.1f%% inside", bo_solver_name((bo_solver)solver), 100 * share);
        assert_close(noise_sum / 0.3, 1, 0.1);
    }
    bo_context_destroy(context);
}

static void test_refused(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_samples train = oracle_regression(ROWS, DIM, 1, 0.2, 1), classes = oracle_classes(ROWS, DIM, 3, 2, 1);
    double mean[3], std[3];
    static const struct {
        bo_solver solver;
        const char *expected_text;
    } cases[] = {{BO_SOLVER_CG, "cg"}, {BO_SOLVER_SGD, "sgd"}};
    for (size_t k = 0; k < 2; k++) {
        bo_machine_desc desc = oracle_desc(FEATURES, 0.3, 1);
        desc.solver = cases[k].solver;
        bo_machine *machine = oracle_fit(context, &desc, &train);
        assert_false(machine->report.has_std);
        assert_fails(context, BO_UNSUPPORTED, cases[k].expected_text,
                     bo_machine_predict(context, machine, &(bo_inputs){.rows = 1, .x = train.x},
                                        &(bo_prediction){.mean = mean, .std = std}));
        assert_ok(context, bo_machine_predict(context, machine, &(bo_inputs){.rows = 1, .x = train.x},
                                              &(bo_prediction){.mean = mean}));
        bo_machine_destroy(machine);
    }
    for (int dual = 0; dual < 2; dual++) {
        bo_machine_desc desc = oracle_desc(FEATURES, 0.3, 1);
        if (dual) desc.solver = BO_SOLVER_DUAL;
        bo_machine *machine = oracle_fit(context, &desc, &classes);
        assert_false(machine->report.has_std);
        assert_fails(context, BO_UNSUPPORTED, "probabilities",
                     bo_machine_predict(context, machine, &(bo_inputs){.rows = 1, .x = classes.x},
                                        &(bo_prediction){.mean = mean, .std = std}));
        bo_machine_destroy(machine);
    }
    bo_machine_desc desc = oracle_desc(FEATURES, 0.3, 1);
    bo_machine *machine = oracle_fit(context, &desc, &train);
    int label;
    assert_fails(context, BO_UNSUPPORTED, "regression",
                 bo_machine_predict(context, machine, &(bo_inputs){.rows = 1, .x = train.x},
                                    &(bo_prediction){.probabilities = mean}));
    assert_fails(context, BO_UNSUPPORTED, "regression",
                 bo_machine_predict(context, machine, &(bo_inputs){.rows = 1, .x = train.x},
                                    &(bo_prediction){.classes = &label}));
    bo_machine_destroy(machine);
    oracle_drop(&train), oracle_drop(&classes);
    bo_context_destroy(context);
}

/* Blocks of 512 rows, a stride wider than the row, and no rows: the result of each row is independent of the other
 * rows. */
static void test_rows_are_independent(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    enum { MANY = 1100, STRIDE = 5 };
    bo_samples train = oracle_regression(ROWS, DIM, 1, 0.2, 1), fresh = oracle_regression(MANY, DIM, 1, 0, 2);
    float *wide = malloc(MANY * STRIDE * sizeof *wide);
    for (size_t i = 0; i < MANY * STRIDE; i++)
        wide[i] = i % STRIDE < DIM ? fresh.x[i / STRIDE * DIM + i % STRIDE] : NAN;
    static const bo_solver solvers[] = {BO_SOLVER_PRIMAL, BO_SOLVER_DUAL};
    for (size_t s = 0; s < 2; s++) {
        bo_machine_desc desc = oracle_desc(FEATURES, 0.3, 0.1);
        desc.solver = solvers[s];
        bo_machine *machine = oracle_fit(context, &desc, &train);
        double *mean = malloc(MANY * sizeof *mean), *std = malloc(MANY * sizeof *std), one, single_std;
        assert_ok(context, bo_machine_predict(context, machine, &(bo_inputs){.rows = MANY, .x = wide, .stride = STRIDE},
                                              &(bo_prediction){.mean = mean, .std = std}));
        for (size_t i = 0; i < MANY; i += 109) {
            assert_ok(context, bo_machine_predict(context, machine, &(bo_inputs){.rows = 1, .x = fresh.x + i * DIM},
                                                  &(bo_prediction){.mean = &one, .std = &single_std}));
            assert_close(one, mean[i], 1e-5);
            assert_close(single_std, std[i], 1e-5);
        }
        assert_ok(context, bo_machine_predict(context, machine, &(bo_inputs){.x = fresh.x},
                                              &(bo_prediction){.mean = mean, .std = std}));
        free(mean), free(std);
        bo_machine_destroy(machine);
    }
    free(wide);
    oracle_drop(&train), oracle_drop(&fresh);
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_formula),
        cmocka_unit_test(test_grows_away_from_the_data),
        cmocka_unit_test(test_coverage),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_rows_are_independent),
    };
    return cmocka_run_group_tests_name("machines.uncertainty", tests, NULL, NULL);
}
