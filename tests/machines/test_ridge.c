/* Ridge regression compared with explicit normal equations with an unpenalized intercept. Tolerances:
 * oracle_tolerance. */
#include "oracle.h"

enum { ROWS = 240, DIM = 3, FEATURES = 48, NEW_ROWS = 60 };

static bo_samples new_rows(void)
{
    return oracle_regression(NEW_ROWS, DIM, 1, 0, 99);
}

/* The predictions of the machine on new rows equal predictions from the normal equations with these weights and this
 * penalty. */
static void expect_ridge(bo_context *context, const bo_machine *machine, const bo_samples *train, const double *y,
                         size_t outputs, const double *weights, const double *penalty, bool intercept)
{
    bo_samples fresh = new_rows();
    size_t features = machine->report.features;
    double *z = oracle_features(context, machine, train->rows, train->x);
    double *z_new = oracle_features(context, machine, fresh.rows, fresh.x);
    double *beta = oracle_ridge(train->rows, features, outputs, z, y, weights, penalty, intercept);
    double *mean = oracle_mean(context, machine, fresh.rows, fresh.x), deviation = 0, smallest_penalty = INFINITY;
    for (size_t t = 0; t < outputs; t++) deviation = fmax(deviation, oracle_deviation(train->rows, outputs, y, t));
    for (size_t j = 0; j < features; j++) smallest_penalty = fmin(smallest_penalty, penalty[j]);
    double heaviest = 1;
    for (size_t i = 0; weights && i < train->rows; i++) heaviest = fmax(heaviest, weights[i]);
    double tolerance = oracle_tolerance(train->rows, features, outputs, z, beta, smallest_penalty, deviation,
                                        machine->report.precision == BO_GRAM_PRECISION_FLOAT64);
    for (size_t i = 0; i < fresh.rows; i++)
        for (size_t t = 0; t < outputs; t++)
            assert_close(mean[i * outputs + t], oracle_predict(features, outputs, z_new + i * features, beta, t),
                         heaviest * tolerance);
    free(z);
    free(z_new);
    free(beta);
    free(mean);
    oracle_drop(&fresh);
}

/* ---- the plain fit ----------------------------------------------------------------------------------------------- */

static void test_normal_equations(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    static const double lambdas[] = {1e-3, 0.1, 10, 1000};
    for (size_t targets = 1; targets <= 3; targets += 2) {
        bo_samples train = oracle_regression(ROWS, DIM, targets, 0.3, 1);
        for (size_t k = 0; k < 8; k++) {
            size_t l = k / 2;
            bo_machine_desc desc = oracle_desc(FEATURES, 0.5, lambdas[l]);
            desc.no_intercept = k % 2;
            bo_machine *machine = oracle_fit(context, &desc, &train);
            assert_true(machine->report.gamma == 0.5 && machine->report.lambda == lambdas[l]);
            assert_int_equal(machine->report.solver, BO_SOLVER_PRIMAL);
            double *penalty = oracle_constant(FEATURES, lambdas[l]);
            expect_ridge(context, machine, &train, train.y, targets, NULL, penalty, !desc.no_intercept);
            if (desc.no_intercept) assert_true(machine->intercept[0] == 0);
            free(penalty);
            bo_machine_destroy(machine);
        }
        oracle_drop(&train);
    }
    bo_context_destroy(context);
}

/* Scaling: s(x) has mean 0 and standard deviation 1 per column, or one factor for all columns. */
static void test_scaling(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_samples train = oracle_regression(ROWS, DIM, 1, 0.3, 1);
    float *x = (float *)train.x;
    for (size_t i = 0; i < ROWS; i++) x[i * DIM] = 100 + 5 * x[i * DIM], x[i * DIM + 2] *= 0.01f;
    for (int kind = BO_SCALING_AUTO; kind <= BO_SCALING_NONE; kind++)
        for (int common = 0; common < 2; common++) {
            bo_machine_desc desc = oracle_desc(16, 0.5, 0.1);
            desc.scaling = (bo_scaling)kind;
            train.common_unit = common;
            bo_machine *machine = oracle_fit(context, &desc, &train);
            bo_scaling expected = kind != BO_SCALING_AUTO ? (bo_scaling)kind
                                  : common                ? BO_SCALING_COMMON
                                                          : BO_SCALING_COLUMNS;
            assert_int_equal(machine->report.scaling, expected);
            double total = 0;
            for (size_t j = 0; j < DIM; j++) {
                double mean = 0, square = 0;
                for (size_t i = 0; i < ROWS; i++) {
                    double s =
                        ((double)x[i * DIM + j] - (double)machine->scaler.mean[j]) * (double)machine->scaler.factor[j];
                    mean += s / ROWS;
                    square += s * s / ROWS;
                }
                total += square / DIM;
                if (expected == BO_SCALING_NONE)
                    assert_true(machine->scaler.factor[j] == 1 && machine->scaler.mean[j] == 0);
                if (expected != BO_SCALING_NONE)
                    assert_close(mean, 0, 100 * 0x1p-22); /* a float mean of 100, divided by 5 */
                if (expected == BO_SCALING_COLUMNS) assert_close(square, 1, 1e-5);
            }
            if (expected == BO_SCALING_COMMON) assert_close(total, 1, 1e-5);
            bo_machine_destroy(machine);
        }
    oracle_drop(&train);
    bo_context_destroy(context);
}

/* A constant column changes nothing: it is left out. */
static void test_constant_column(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_samples train = oracle_regression(ROWS, DIM, 1, 0.3, 1);
    for (size_t i = 0; i < ROWS; i++) ((float *)train.x)[i * DIM + 1] = 1e6f;
    for (int kind = BO_SCALING_COLUMNS; kind <= BO_SCALING_COMMON; kind++) {
        bo_machine_desc desc = oracle_desc(16, 0.5, 0.1);
        desc.scaling = (bo_scaling)kind;
        bo_machine *machine = oracle_fit(context, &desc, &train);
        float rows[2][DIM] = {{0.3f, 1e6f, 0.2f}, {0.3f, -5, 0.2f}};
        double mean[2];
        assert_ok(context, bo_machine_predict(context, machine, &(bo_inputs){.rows = 2, .x = rows[0]},
                                              &(bo_prediction){.mean = mean}));
        assert_true(mean[0] == mean[1]);
        bo_machine_destroy(machine);
    }
    oracle_drop(&train);
    bo_context_destroy(context);
}

/* ---- weights ----------------------------------------------------------------------------------------------------- */

static void test_weights(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    bo_samples train = oracle_regression(ROWS, DIM, 2, 0.3, 2);
    train.weights = oracle_weights(ROWS, 3);
    double *weights = malloc(ROWS * sizeof *weights), *penalty = oracle_constant(FEATURES, 0.5);
    for (size_t i = 0; i < ROWS; i++) weights[i] = (double)train.weights[i];
    bo_machine_desc desc = oracle_desc(FEATURES, 0.5, 0.5);
    bo_machine *machine = oracle_fit(context, &desc, &train);
    expect_ridge(context, machine, &train, train.y, 2, weights, penalty, true);
    bo_machine_destroy(machine);
    free(weights);
    free(penalty);
    oracle_drop(&train);
    bo_context_destroy(context);
}

/* A row of weight k equals k copies of the row, and a row of weight 0 equals no row. The targets are scaled with
 * different means, so the results agree up to rounding. */
static void test_weights_are_repetitions(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    bo_samples train = oracle_regression(ROWS, DIM, 1, 0.3, 2), fresh = new_rows();
    train.weights = oracle_weights(ROWS, 3);
    size_t total = 0, k = 0;
    for (size_t i = 0; i < ROWS; i++) total += (size_t)train.weights[i];
    float *x = malloc(total * DIM * sizeof *x);
    double *y = malloc(total * sizeof *y);
    for (size_t i = 0; i < ROWS; i++)
        for (float w = 0; w < train.weights[i]; w++, k++) {
            memcpy(x + k * DIM, train.x + i * DIM, DIM * sizeof *x);
            y[k] = train.y[i];
        }
    bo_samples repeated = {.rows = total, .dim = DIM, .targets = 1, .x = x, .y = y};
    static const bo_solver solvers[] = {BO_SOLVER_PRIMAL, BO_SOLVER_DUAL};
    for (size_t s = 0; s < 2; s++) {
        bo_machine_desc desc = oracle_desc(FEATURES, 0.5, 0.5);
        desc.solver = solvers[s];
        desc.precision = BO_GRAM_PRECISION_FLOAT32; /* weighted rows are never rounded */
        bo_machine *weighted = oracle_fit(context, &desc, &train), *plain = oracle_fit(context, &desc, &repeated);
        double *a = oracle_mean(context, weighted, NEW_ROWS, fresh.x),
               *b = oracle_mean(context, plain, NEW_ROWS, fresh.x);
        double *z = oracle_features(context, plain, total, x), norm = 0;
        for (size_t j = 0; j < FEATURES; j++) norm = fmax(norm, fabs(plain->beta[j]));
        double *beta = oracle_constant(FEATURES + 1, norm);
        double tolerance = oracle_tolerance(total, FEATURES, 1, z, beta, 0.5, oracle_deviation(total, 1, y, 0), false);
        assert_true(oracle_farthest(NEW_ROWS, a, b) < 2 * tolerance);
        free(a), free(b), free(z), free(beta);
        bo_machine_destroy(weighted);
        bo_machine_destroy(plain);
    }
    oracle_drop(&train);
    oracle_drop(&fresh);
    oracle_drop(&repeated);
    bo_context_destroy(context);
}

/* ---- classes ----------------------------------------------------------------------------------------------------- */

static void test_classes(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    bo_samples train = oracle_classes(ROWS, DIM, 3, 2, 4);
    double *signs = oracle_signs(&train), *penalty = oracle_constant(FEATURES, 0.5),
           *weights = malloc(ROWS * sizeof *weights);
    static const float given[] = {2, 0.5, 3};
    double counts[3] = {0};
    for (size_t i = 0; i < ROWS; i++) counts[(size_t)train.y[i]]++;
    for (int mode = 0; mode < 4; mode++) { /* plain, class weights, balanced, both */
        bo_machine_desc desc = oracle_desc(FEATURES, 0.5, 0.5);
        desc.class_weights = mode & 1 ? given : NULL;
        desc.balanced = mode & 2;
        for (size_t i = 0; i < ROWS; i++) {
            size_t c = (size_t)train.y[i];
            weights[i] = (mode & 1 ? (double)given[c] : 1) * (mode & 2 ? ROWS / (3 * counts[c]) : 1);
        }
        bo_machine *machine = oracle_fit(context, &desc, &train);
        assert_int_equal(machine->report.task, BO_TASK_CLASSIFICATION);
        expect_ridge(context, machine, &train, signs, 3, weights, penalty, true);
        bo_machine_destroy(machine);
    }
    free(signs), free(penalty), free(weights);
    oracle_drop(&train);
    bo_context_destroy(context);
}

/* ---- dual -------------------------------------------------------------------------------------------------------- */

static void test_dual(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    enum { FEW = 60, MANY = 128 };
    for (int mode = 0; mode < 8; mode++) { /* intercept, weights, dropout and noise */
        bo_samples train = oracle_regression(FEW, DIM, 2, 0.3, 5), fresh = new_rows();
        if (mode & 1) train.weights = oracle_weights(FEW, 6);
        bo_machine_desc desc = oracle_desc(MANY, 0.5, 0.2);
        desc.precision = BO_GRAM_PRECISION_FLOAT32; /* the dual solver never rounds features */
        desc.no_intercept = mode & 2;
        if (mode & 4) desc.dropout = 0.1, desc.noise = 0.02;
        bo_machine *primal = oracle_fit(context, &desc, &train);
        desc.solver = BO_SOLVER_DUAL;
        bo_machine *dual = oracle_fit(context, &desc, &train);
        desc.solver = BO_SOLVER_AUTO;
        bo_machine *chosen = oracle_fit(context, &desc, &train);
        assert_int_equal(chosen->report.solver, BO_SOLVER_DUAL);
        assert_non_null(strstr(chosen->report.why_solver, "fewer rows than features"));
        double *a = oracle_mean(context, primal, NEW_ROWS, fresh.x), *b = oracle_mean(context, dual, NEW_ROWS, fresh.x);
        double *c = oracle_mean(context, chosen, NEW_ROWS, fresh.x), *z = oracle_features(context, dual, FEW, train.x);
        double tolerance = oracle_tolerance(FEW, MANY, 2, z, dual->beta, 0.2, 3, false);
        assert_true(oracle_farthest(2 * NEW_ROWS, a, b) < 3 * tolerance); /* weights are at most 3 */
        assert_memory_equal(b, c, 2 * NEW_ROWS * sizeof *b);
        if (mode == 0) {
            double *penalty = oracle_constant(MANY, 0.2);
            expect_ridge(context, dual, &train, train.y, 2, NULL, penalty, true);
            free(penalty);
        }
        free(a), free(b), free(c), free(z);
        bo_machine_destroy(primal), bo_machine_destroy(dual), bo_machine_destroy(chosen);
        oracle_drop(&train), oracle_drop(&fresh);
    }
    bo_context_destroy(context);
}

/* ---- regularizers ------------------------------------------------------------------------------------------------ */

/* Noise with standard deviation σ on the features is equivalent to λ + Σw σ². */
static void test_noise_is_lambda(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    bo_samples train = oracle_regression(ROWS, DIM, 1, 0.3, 1), fresh = new_rows();
    bo_machine_desc noisy = oracle_desc(FEATURES, 0.5, 0.25), plain = noisy;
    noisy.noise = 0.125; /* 240/64 + 1/4 = 4: exact in binary */
    plain.lambda = 4;
    static const bo_solver solvers[] = {BO_SOLVER_PRIMAL, BO_SOLVER_DUAL, BO_SOLVER_CG};
    for (size_t s = 0; s < 3; s++) {
        noisy.solver = plain.solver = solvers[s];
        bo_samples rows = train;
        bo_machine *a = oracle_fit(context, &noisy, &rows), *b = NULL;
        double held_out = solvers[s] == BO_SOLVER_CG ? ROWS / 10 : 0; /* CG holds out rows, so n is smaller */
        plain.lambda = 0.25 + (ROWS - held_out) * 0.125 * 0.125;
        b = oracle_fit(context, &plain, &rows);
        double *f = oracle_mean(context, a, NEW_ROWS, fresh.x), *g = oracle_mean(context, b, NEW_ROWS, fresh.x);
        assert_memory_equal(f, g, NEW_ROWS * sizeof *f);
        free(f), free(g);
        bo_machine_destroy(a), bo_machine_destroy(b);
    }
    oracle_drop(&train), oracle_drop(&fresh);
    bo_context_destroy(context);
}

/* Ridge regression on C corrupted copies of every row with penalty Cλ tends to the machine with `noise` or `dropout` as
 * C grows: the Gram matrix of the copies divided by C equals the matrix of the machine plus errors of order 1/√C. The
 * mean difference of predictions over independent repetitions is compared with its standard error. */
typedef void (*corrupt_fn)(bo_rng *rng, size_t features, const double *z, double amount, double *out);

static void add_noise(bo_rng *rng, size_t features, const double *z, double amount, double *out)
{
    for (size_t j = 0; j < features; j++) out[j] = z[j] + amount * bo_rng_normal(rng);
}

static void drop_features(bo_rng *rng, size_t features, const double *z, double amount, double *out)
{
    for (size_t j = 0; j < features; j++) out[j] = bo_rng_uniform(rng) < amount ? 0 : z[j] / (1 - amount);
}

/* One repetition: coefficients of ridge regression on `copies` corrupted copies of each row. */
static double *copies_ridge(const bo_samples *train, size_t features, const double *z, size_t copies,
                            corrupt_fn corrupt, double amount, double lambda, uint64_t seed)
{
    size_t n = features + 1;
    double *a = calloc(n * n, sizeof *a), *b = calloc(n, sizeof *b), *row = malloc(n * sizeof *row);
    bo_rng rng = bo_rng_make(seed, bo_rng_stream("test.copies", 0));
    for (size_t i = 0; i < train->rows; i++)
        for (size_t c = 0; c < copies; c++) {
            corrupt(&rng, features, z + i * features, amount, row);
            row[features] = 1;
            for (size_t j = 0; j < n; j++) {
                for (size_t k = 0; k < n; k++) a[j * n + k] += row[j] * row[k];
                b[j] += row[j] * train->y[i];
            }
        }
    for (size_t j = 0; j < features; j++) a[j * n + j] += lambda * (double)copies;
    oracle_solve(n, 1, a, b);
    free(a);
    free(row);
    return b;
}

static void expect_copies(corrupt_fn corrupt, double noise, double dropout)
{
    enum { SMALL_ROWS = 60, SMALL_FEATURES = 8, COPIES = 200, REPEATS = 12, POINTS = 20 };
    bo_context *context = test_context(1);
    bo_samples train = oracle_regression(SMALL_ROWS, DIM, 1, 0.3, 7), fresh = oracle_regression(POINTS, DIM, 1, 0, 8);
    bo_machine_desc desc = oracle_desc(SMALL_FEATURES, 0.2, 0.1);
    desc.noise = noise;
    desc.dropout = dropout;
    bo_machine *machine = oracle_fit(context, &desc, &train);
    desc.noise = desc.dropout = 0;
    bo_machine *without = oracle_fit(context, &desc, &train);
    double *z = oracle_features(context, machine, SMALL_ROWS, train.x),
           *z_new = oracle_features(context, machine, POINTS, fresh.x);
    double *mean = oracle_mean(context, machine, POINTS, fresh.x),
           *clean = oracle_mean(context, without, POINTS, fresh.x);
    double sum[POINTS] = {0}, squares[POINTS] = {0}, far = 0;
    for (uint64_t r = 0; r < REPEATS; r++) {
        double *beta = copies_ridge(&train, SMALL_FEATURES, z, COPIES, corrupt, noise + dropout, 0.1, r);
        for (size_t i = 0; i < POINTS; i++) {
            double d = oracle_predict(SMALL_FEATURES, 1, z_new + i * SMALL_FEATURES, beta, 0) - mean[i];
            sum[i] += d;
            squares[i] += d * d;
        }
        free(beta);
    }
    /* 12 repetitions: t with 11 degrees of freedom, 20 points; exceeding 7 standard errors has a total probability
     * below 1e-4. The bias of finitely many copies is of order v/C, C = 200, and the standard error is √(v/(12 C)). */
    for (size_t i = 0; i < POINTS; i++) {
        double average = sum[i] / REPEATS, variance = squares[i] / REPEATS - average * average;
        double error = sqrt(variance / (REPEATS - 1));
        assert_close(average / error, 0, 7);
        far = fmax(far, fabs(clean[i] - mean[i]) / error);
    }
    assert_true(far > 40); /* a machine that ignores the regularizer would fail the test */
    free(z), free(z_new), free(mean), free(clean);
    bo_machine_destroy(machine), bo_machine_destroy(without);
    oracle_drop(&train), oracle_drop(&fresh);
    bo_context_destroy(context);
}

static void test_noise_is_noise(void **state)
{
    (void)state;
    expect_copies(add_noise, 0.15, 0);
}

static void test_dropout_is_dropout(void **state)
{
    (void)state;
    expect_copies(drop_features, 0, 0.3);
}

/* Dropout p is equivalent to the penalty λ + p/(1 - p) |z_j|² on coefficient j. */
static void test_dropout_is_generalized_ridge(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    bo_samples train = oracle_regression(ROWS, DIM, 1, 0.3, 1);
    bo_machine_desc desc = oracle_desc(FEATURES, 0.5, 0.5);
    desc.dropout = 0.3;
    desc.noise = 0.1;
    bo_machine *machine = oracle_fit(context, &desc, &train);
    double *z = oracle_features(context, machine, ROWS, train.x),
           *penalty = oracle_constant(FEATURES, 0.5 + ROWS * 0.01);
    for (size_t i = 0; i < ROWS * FEATURES; i++) penalty[i % FEATURES] += 0.3 / 0.7 * z[i] * z[i];
    expect_ridge(context, machine, &train, train.y, 1, NULL, penalty, true);
    free(z), free(penalty);
    bo_machine_destroy(machine);
    oracle_drop(&train);
    bo_context_destroy(context);
}

/* ---- precision --------------------------------------------------------------------------------------------------- */

/* λ is tiny relative to the spectrum: float32 products would change the result by ε |G| / λ; the machine detects this
 * and sums in float64. */
static void test_tiny_lambda(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    bo_samples train = oracle_regression(ROWS, DIM, 1, 0.3, 1);
    bo_machine_desc desc = oracle_desc(FEATURES, 0.5, 1e-7);
    bo_machine *machine = oracle_fit(context, &desc, &train);
    assert_int_equal(machine->report.precision, BO_GRAM_PRECISION_FLOAT64);
    double *penalty = oracle_constant(FEATURES, 1e-7);
    expect_ridge(context, machine, &train, train.y, 1, NULL, penalty, true);
    bo_machine_destroy(machine);
    desc.lambda = 1;
    machine = oracle_fit(context, &desc, &train);
    assert_int_not_equal(machine->report.precision, BO_GRAM_PRECISION_FLOAT64);
    /* the largest eigenvalue of the centered Gram matrix, by an independent power iteration, within a few percent */
    double *z = oracle_features(context, machine, ROWS, train.x), v[FEATURES], u[ROWS], top = 0, center[FEATURES] = {0};
    for (size_t i = 0; i < ROWS * FEATURES; i++) center[i % FEATURES] += z[i] / ROWS;
    for (size_t j = 0; j < FEATURES; j++) v[j] = 1 + (double)j / 7;
    for (int step = 0; step < 300; step++) {
        double norm = 0;
        for (size_t j = 0; j < FEATURES; j++) norm += v[j] * v[j];
        top = sqrt(norm);
        for (size_t j = 0; j < FEATURES; j++) v[j] /= top;
        for (size_t i = 0; i < ROWS; i++) {
            u[i] = 0;
            for (size_t j = 0; j < FEATURES; j++) u[i] += (z[i * FEATURES + j] - center[j]) * v[j];
        }
        memset(v, 0, sizeof v);
        for (size_t i = 0; i < ROWS * FEATURES; i++) v[i % FEATURES] += (z[i] - center[i % FEATURES]) * u[i / FEATURES];
    }
    assert_close(machine->report.spectrum / top, 1, 0.1);
    free(z), free(penalty);
    bo_machine_destroy(machine);
    oracle_drop(&train);
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_normal_equations),
        cmocka_unit_test(test_scaling),
        cmocka_unit_test(test_constant_column),
        cmocka_unit_test(test_weights),
        cmocka_unit_test(test_weights_are_repetitions),
        cmocka_unit_test(test_classes),
        cmocka_unit_test(test_dual),
        cmocka_unit_test(test_noise_is_lambda),
        cmocka_unit_test(test_noise_is_noise),
        cmocka_unit_test(test_dropout_is_dropout),
        cmocka_unit_test(test_dropout_is_generalized_ridge),
        cmocka_unit_test(test_tiny_lambda),
    };
    return cmocka_run_group_tests_name("machines.ridge", tests, NULL, NULL);
}
