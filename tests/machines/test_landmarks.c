/* Machines with landmarks: with all rows as landmarks they equal machines with the exact kernel; conjugate gradients on
 * kernel values give the predictions of the primal solver on the features. */
#include "machines/enums.h"
#include "features/enums.h"
#include "oracle.h"
#include "features/landmarks.h"

enum { ROWS = 190, DIM = 3, NEW_ROWS = 40 }; /* fewer than 200 rows: CG holds out no rows */

static bo_machine_desc landmark_desc(bo_kernel kernel, size_t features, bo_solver solver)
{
    return (bo_machine_desc){.solver = solver,
                             .loss = BO_LOSS_RIDGE,
                             .features = {.kernel = kernel,
                                          .function = BO_FUNCTION_LANDMARKS,
                                          .features = features,
                                          .gamma = 0.4,
                                          .alpha = 1,
                                          .degree = 2},
                             .lambda = 0.1,
                             .seed = 1};
}

/* The largest difference of two predictions, relative to the spread of the first. */
static double difference(bo_context *context, const bo_machine *a, const bo_machine *b, const bo_samples *fresh)
{
    const size_t count = fresh->rows * a->report.outputs;
    double *one = oracle_mean(context, a, fresh->rows, fresh->x), *two = oracle_mean(context, b, fresh->rows, fresh->x);
    double low = one[0], high = one[0], largest_value = 0;
    for (size_t i = 0; i < count; i++) {
        low = fmin(low, one[i]), high = fmax(high, one[i]);
        largest_value = fmax(largest_value, isfinite(two[i]) ? fabs(one[i] - two[i]) : INFINITY);
    }
    free(one), free(two);
    return largest_value / (high - low);
}

static const bo_kernel kernels[] = {BO_KERNEL_RBF,      BO_KERNEL_LAPLACIAN,  BO_KERNEL_CAUCHY,
                                    BO_KERNEL_MATERN12, BO_KERNEL_POLYNOMIAL, BO_KERNEL_NTK};

static void test_all_rows_give_the_exact_kernel(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    bo_samples train = oracle_regression(ROWS, DIM, 2, 0.3, 1), fresh = oracle_regression(NEW_ROWS, DIM, 2, 0, 9);
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
        bo_machine_desc desc = landmark_desc(kernels[i], 0, BO_SOLVER_AUTO);
        desc.features.function = BO_FUNCTION_SECTIONS;
        bo_machine *exact = oracle_fit(context, &desc, &train);
        for (bo_solver solver = BO_SOLVER_PRIMAL; solver <= BO_SOLVER_CG; solver += BO_SOLVER_CG - BO_SOLVER_PRIMAL) {
            desc = landmark_desc(kernels[i], 0, solver); /* the default number, at most one landmark per row */
            bo_machine *machine = oracle_fit(context, &desc, &train);
            assert_int_equal(machine->report.features, ROWS);
            assert_int_equal(machine->report.function, BO_FUNCTION_LANDMARKS);
            assert_int_equal(bo_landmarks_is_bare(machine->phi), solver == BO_SOLVER_CG);
            assert_true(machine->report.accuracy.trace_error < 1e-4);
            const double found = difference(context, exact, machine, &fresh);
            if (!(found < 2e-4))
                fail_msg("%s, %s: differs by %g", bo_kernel_name(kernels[i]), bo_solver_name(solver), found);
            bo_machine_destroy(machine);
        }
        bo_machine_destroy(exact);
    }
    oracle_drop(&train), oracle_drop(&fresh);
    bo_context_destroy(context);
}

/* Intercept or not, weights, several targets, classes, noise on the features, choice by leverage. */
static void test_cg_equals_primal(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    bo_samples many = oracle_regression(ROWS, DIM, 3, 0.3, 1), classes = oracle_classes(ROWS, DIM, 3, 1.5, 1);
    bo_samples fresh = oracle_regression(NEW_ROWS, DIM, 3, 0, 9);
    float *weights = oracle_weights(ROWS, 2);
    for (int mode = 0; mode < 32; mode++) {
        bo_samples *train = mode & 1 ? &classes : &many;
        bo_machine_desc desc = landmark_desc(mode & 16 ? BO_KERNEL_RBF : BO_KERNEL_MATERN32, 40, BO_SOLVER_PRIMAL);
        train->weights = mode & 2 ? weights : NULL;
        desc.no_intercept = mode & 4;
        desc.noise = mode & 8 ? 0.05 : 0;
        desc.features.sampling = mode & 8 ? BO_SAMPLING_LEVERAGE : BO_SAMPLING_DRAWN;
        bo_machine *primal = oracle_fit(context, &desc, train);
        desc.solver = BO_SOLVER_CG;
        bo_machine *machine = oracle_fit(context, &desc, train);
        const double found = difference(context, primal, machine, &fresh);
        if (!(found < 2e-4)) fail_msg("mode %d differs by %g after %d steps", mode, found, machine->report.iterations);
        assert_true(machine->report.iterations < 40);
        bo_machine_destroy(primal);
        bo_machine_destroy(machine);
    }
    many.weights = classes.weights = NULL;
    free(weights);
    oracle_drop(&many), oracle_drop(&classes), oracle_drop(&fresh);
    bo_context_destroy(context);
}

/* Equal rows, and kernels whose matrix has a rank of a few. */
static void test_singular_kernel_matrices(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    bo_samples train = oracle_regression(ROWS, DIM, 1, 0.3, 1), fresh = oracle_regression(NEW_ROWS, DIM, 1, 0, 9);
    float *x = (float *)train.x;
    for (size_t i = DIM; i < (size_t)ROWS / 2 * DIM; i++) x[i] = x[i % DIM]; /* half of the rows are the first one */
    for (int mode = 0; mode < 3; mode++)
        for (bo_solver solver = BO_SOLVER_PRIMAL; solver <= BO_SOLVER_CG; solver += BO_SOLVER_CG - BO_SOLVER_PRIMAL) {
            bo_machine_desc desc = landmark_desc(mode == 2 ? BO_KERNEL_LINEAR : BO_KERNEL_RBF, ROWS, solver);
            if (mode == 1) desc.features.gamma = 1e-4, desc.lambda = 0.01;
            bo_machine *machine = oracle_fit(context, &desc, &train);
            desc.features.function = BO_FUNCTION_SECTIONS, desc.solver = BO_SOLVER_AUTO;
            bo_machine *exact = oracle_fit(context, &desc, &train);
            const double found = difference(context, exact, machine, &fresh);
            if (!(found < 0.02)) fail_msg("mode %d, %s: differs by %g", mode, bo_solver_name(solver), found);
            bo_machine_destroy(machine);
            bo_machine_destroy(exact);
        }
    oracle_drop(&train), oracle_drop(&fresh);
    bo_context_destroy(context);
}

/* A machine in a file gives the same bits, and so do other numbers of threads. */
static void test_files_and_threads(void **state)
{
    (void)state;
    bo_context *context = test_context(1), *other = test_context(3);
    bo_samples train = oracle_regression(1000, DIM, 2, 0.3, 1), fresh = oracle_regression(NEW_ROWS, DIM, 2, 0, 9);
    for (bo_solver solver = BO_SOLVER_PRIMAL; solver <= BO_SOLVER_CG; solver += BO_SOLVER_CG - BO_SOLVER_PRIMAL) {
        const bo_machine_desc desc = landmark_desc(BO_KERNEL_MATERN12, 60, solver);
        bo_machine *machine = oracle_fit(context, &desc, &train), *twin = oracle_fit(other, &desc, &train), *again;
        void *bytes;
        size_t size;
        assert_ok(context, bo_machine_save(context, machine, NULL, &(bo_sink){.bytes = &bytes, .size = &size}));
        assert_ok(context, bo_machine_load(context, &(bo_source){.bytes = bytes, .size = size}, &again, NULL));
        assert_int_equal(again->report.function, BO_FUNCTION_LANDMARKS);
        assert_true(again->report.accuracy.trace_error == machine->report.accuracy.trace_error);
        assert_true(machine->report.accuracy.trace_error > 0.01 && machine->report.validation_rows > 0);
        double *one = oracle_mean(context, machine, NEW_ROWS, fresh.x);
        double *two = oracle_mean(context, again, NEW_ROWS, fresh.x),
               *three = oracle_mean(other, twin, NEW_ROWS, fresh.x);
        assert_memory_equal(one, two, 2 * NEW_ROWS * sizeof *one);
        assert_memory_equal(one, three, 2 * NEW_ROWS * sizeof *one);
        free(one), free(two), free(three);
        bo_free(bytes);
        bo_machine_destroy(machine), bo_machine_destroy(twin), bo_machine_destroy(again);
    }
    oracle_drop(&train), oracle_drop(&fresh);
    bo_context_destroy(context), bo_context_destroy(other);
}

/* Rows far from all other rows have leverage 1: sampling by leverage finds them, and the error is smaller. */
static void test_leverage_finds_outliers(void **state)
{
    (void)state;
    enum { SAMPLE = 1000, FAR = 20, LANDMARKS = 40 };
    bo_context *context = test_context(1);
    bo_samples rows = oracle_regression(SAMPLE, DIM, 1, 0, 3);
    float *x = (float *)rows.x;
    size_t found[2] = {0};
    double missed[2];
    for (size_t i = 0; i < SAMPLE * DIM; i++) x[i] *= 0.05f;
    for (size_t i = 0; i < FAR; i++) x[i * DIM] = 5 + 3 * (float)i;
    for (int leverage = 0; leverage < 2; leverage++) {
        const bo_features_desc desc = {.function = BO_FUNCTION_LANDMARKS,
                                       .sampling = leverage ? BO_SAMPLING_LEVERAGE : BO_SAMPLING_DRAWN,
                                       .dim = DIM,
                                       .features = LANDMARKS,
                                       .gamma = 1,
                                       .leverage_lambda = 0.1,
                                       .sample = x,
                                       .sample_rows = SAMPLE};
        bo_features *phi;
        bo_features_accuracy accuracy;
        assert_ok(context, bo_features_create(context, &desc, &phi));
        const float *z = bo_landmarks_rows(phi);
        for (size_t i = 0; i < LANDMARKS; i++) found[leverage] += z[i * DIM] > 4;
        assert_ok(context, bo_features_measure(context, phi, &(bo_inputs){.rows = SAMPLE, .x = x}, 4000, 1, &accuracy));
        missed[leverage] = accuracy.trace_error;
        bo_features_destroy(phi);
    }
    assert_true(found[0] < FAR / 2 && found[1] > FAR * 3 / 4);
    assert_true(missed[1] >= 0 && missed[1] < 0.5 * missed[0]);
    oracle_drop(&rows);
    bo_context_destroy(context);
}

/* CG is chosen for many rows per landmark, unless a Gram matrix takes no time. */
static void test_choice_of_the_solver(void **state)
{
    (void)state;
    static const struct {
        size_t rows, features;
        bo_solver expected;
    } cases[] = {{100000, 4096, BO_SOLVER_CG}, {10000, 4096, BO_SOLVER_PRIMAL}, {100000, 256, BO_SOLVER_PRIMAL}};
    bo_context *context = test_context(1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bo_machine_desc desc = landmark_desc(BO_KERNEL_MATERN12, cases[i].features, BO_SOLVER_AUTO);
        const bo_fit_shape shape = {.rows = cases[i].rows, .dim = 10, .outputs = 1};
        bo_fit_cost cost;
        desc.memory = (size_t)16 << 30;
        assert_ok(context, bo_machine_estimate(context, &desc, &shape, &cost));
        assert_int_equal(cost.solver, cases[i].expected);
    }
    bo_context_destroy(context);
}

/* The search of γ and λ uses landmarks too; the error is the error on new rows. */
static void test_search(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    bo_samples train = oracle_regression(2500, DIM, 1, 0.3, 1), fresh = oracle_regression(500, DIM, 1, 0.3, 9);
    bo_machine_desc desc = landmark_desc(BO_KERNEL_MATERN32, 256, BO_SOLVER_AUTO);
    desc.lambda = desc.features.gamma = 0;
    bo_machine *machine = oracle_fit(context, &desc, &train);
    double *mean = oracle_mean(context, machine, fresh.rows, fresh.x), squares = 0;
    for (size_t i = 0; i < fresh.rows; i++) squares += pow(mean[i] - fresh.y[i], 2) / (double)fresh.rows;
    assert_true(sqrt(squares) < 0.33); /* the noise is 0.3 */
    assert_close(machine->report.validation_rmse, sqrt(squares), 0.03);
    free(mean);
    bo_machine_destroy(machine);
    oracle_drop(&train), oracle_drop(&fresh);
    bo_context_destroy(context);
}

static void test_refusals(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    float x[4 * DIM] = {0, 1, 2, 1, 0, 3, 2, 2, NAN, 1, 1, 1};
    bo_features *phi;
    bo_features_desc desc = {.function = BO_FUNCTION_LANDMARKS, .dim = DIM, .features = 2};
    assert_fails(context, BO_INVALID, "needs a sample", bo_features_create(context, &desc, &phi));
    desc.sample = x, desc.sample_rows = 4;
    assert_fails(context, BO_NUMERIC, "row 2", bo_features_create(context, &desc, &phi));
    desc.sampling = BO_SAMPLING_OPTIMAL;
    assert_fails(context, BO_UNSUPPORTED, "drawn or leverage", bo_features_create(context, &desc, &phi));
    desc.sampling = BO_SAMPLING_LEVERAGE, desc.leverage_lambda = -1;
    assert_fails(context, BO_INVALID, "leverage_lambda", bo_features_create(context, &desc, &phi));
    desc.sampling = BO_SAMPLING_DRAWN, desc.draw = BO_DRAW_SOBOL;
    assert_fails(context, BO_UNSUPPORTED, "no frequencies", bo_features_create(context, &desc, &phi));
    desc.draw = BO_DRAW_DEFAULT, desc.kernel = BO_KERNEL_CUSTOM;
    assert_fails(context, BO_UNSUPPORTED, "cannot be used", bo_features_create(context, &desc, &phi));
    desc.kernel = BO_KERNEL_RBF, desc.features = 1 << 20;
    assert_fails(context, BO_INVALID, "at most", bo_features_create(context, &desc, &phi));
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_rows_give_the_exact_kernel),
        cmocka_unit_test(test_cg_equals_primal),
        cmocka_unit_test(test_singular_kernel_matrices),
        cmocka_unit_test(test_files_and_threads),
        cmocka_unit_test(test_leverage_finds_outliers),
        cmocka_unit_test(test_choice_of_the_solver),
        cmocka_unit_test(test_search),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests_name("machines.landmarks", tests, NULL, NULL);
}
