/* Machines with an exact kernel: predictions, leave-one-out errors, standard deviations and files, compared with kernel
 * ridge regression written out. */
#include "features/enums.h"
#include "oracle.h"

enum { ROWS = 60, DIM = 3, NEW_ROWS = 20 };

static bo_machine_desc exact_desc(bo_kernel kernel)
{
    return oracle_exact(kernel, 0.3);
}

static double *kernel_of(bo_context *context, const bo_machine_desc *desc, size_t n, const float *x, size_t m,
                         const float *y)
{
    bo_features_desc kernel = desc->features;
    double *k = malloc(n * m * sizeof *k);
    kernel.dim = DIM;
    assert_ok(context, bo_kernel_matrix(context, &kernel, n, x, DIM, m, y, DIM, k, m));
    return k;
}

/* Minimizes Σ w |Kα + b - y|² + λ αᵀKα: (W K + λ I) α + W 1 b = W y, and 1ᵀ(λα) = 0, which is the condition of b. The
 * last unknown is b. system: (n + 1)², right: n + 1. */
static void solve_directly(size_t n, const double *k, const double *y, const float *w, double lambda, bool intercept,
                           double *alpha)
{
    size_t size = n + 1;
    double *a = calloc(size * size, sizeof *a);
    for (size_t i = 0; i < n; i++) {
        double weight = w ? (double)w[i] : 1;
        for (size_t j = 0; j < n; j++) a[i * size + j] = weight * k[i * n + j] + (i == j ? lambda : 0);
        a[i * size + n] = intercept ? weight : 0;
        a[n * size + i] = intercept ? 1 : 0;
        alpha[i] = weight * y[i];
    }
    a[n * size + n] = intercept ? 0 : 1;
    alpha[n] = 0;
    oracle_solve(size, 1, a, alpha);
    free(a);
}

static double predict_directly(size_t n, const double *k, const double *alpha)
{
    double sum = alpha[n];
    for (size_t j = 0; j < n; j++) sum += k[j] * alpha[j];
    return sum;
}

/* The variance of f(x), in units of the noise: k(x, x)/λ minus what the rows explain, with a flat prior on the
 * intercept. With C = K/λ + W⁻¹ and k = k(X, x)/λ: k(x, x)/λ - kᵀC⁻¹k + (1 - 1ᵀC⁻¹k)² / 1ᵀC⁻¹1. */
static double variance_directly(size_t n, const double *all, const double *k, double diagonal, double lambda,
                                bool intercept)
{
    double *c = malloc(n * n * sizeof *c), *right = malloc(2 * n * sizeof *right);
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < n; j++) c[i * n + j] = all[i * n + j] / lambda + (i == j ? 1 : 0);
        right[2 * i] = k[i] / lambda;
        right[2 * i + 1] = 1;
    }
    oracle_solve(n, 2, c, right);
    double explained = 0, ones = 0, total = 0;
    for (size_t i = 0; i < n; i++) {
        explained += k[i] / lambda * right[2 * i];
        ones += right[2 * i];
        total += right[2 * i + 1];
    }
    free(c), free(right);
    return diagonal / lambda - explained + (intercept ? (1 - ones) * (1 - ones) / total : 0);
}

static const bo_kernel kernels[] = {BO_KERNEL_RBF,        BO_KERNEL_LAPLACIAN, BO_KERNEL_CAUCHY, BO_KERNEL_SOFTMAX,
                                    BO_KERNEL_POLYNOMIAL, BO_KERNEL_NNGP,      BO_KERNEL_NTK,    BO_KERNEL_HEDGEHOG};

/* Targets are rounded to float in the system; everything else is double. */
static void test_exact_equals_kernel_ridge(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    bo_samples train = oracle_regression(ROWS, DIM, 1, 0.3, 1), fresh = oracle_regression(NEW_ROWS, DIM, 1, 0, 9);
    float *weights = oracle_weights(ROWS, 2);
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        for (int mode = 0; mode < 4; mode++) {
            bo_machine_desc desc = exact_desc(kernels[i]);
            desc.no_intercept = mode & 1;
            train.weights = mode & 2 ? weights : NULL;
            bo_machine *machine = oracle_fit(context, &desc, &train);
            assert_int_equal(machine->report.solver, BO_SOLVER_DUAL);
            assert_int_equal(machine->report.function, BO_FUNCTION_SECTIONS);
            assert_int_equal(machine->report.features, ROWS);
            double *k = kernel_of(context, &desc, ROWS, train.x, ROWS, train.x);
            double *across = kernel_of(context, &desc, NEW_ROWS, fresh.x, ROWS, train.x);
            double alpha[ROWS + 1], *mean = oracle_mean(context, machine, NEW_ROWS, fresh.x);
            solve_directly(ROWS, k, train.y, train.weights, desc.lambda, !desc.no_intercept, alpha);
            for (size_t r = 0; r < NEW_ROWS; r++) {
                double expected = predict_directly(ROWS, across + r * ROWS, alpha);
                if (!(fabs(mean[r] - expected) < 1e-5))
                    fail_msg("%s, mode %d, row %zu: %.9g, expected %.9g", bo_kernel_name(kernels[i]), mode, r, mean[r],
                             expected);
            }
            free(k), free(across), free(mean);
            bo_machine_destroy(machine);
        }
    train.weights = NULL;
    free(weights);
    oracle_drop(&train), oracle_drop(&fresh);
    bo_context_destroy(context);
}

/* The validation error equals the error of fits without one row, and deviations equal the deviations of a Gaussian
 * process. */
static void test_errors_and_deviations(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    bo_samples train = oracle_regression(ROWS, DIM, 1, 0.3, 1), fresh = oracle_regression(NEW_ROWS, DIM, 1, 0, 9);
    for (int plain = 0; plain < 2; plain++) {
        bo_machine_desc desc = exact_desc(BO_KERNEL_NTK);
        desc.no_intercept = plain;
        bo_machine *machine = oracle_fit(context, &desc, &train);
        double *k = kernel_of(context, &desc, ROWS, train.x, ROWS, train.x), squares = 0;
        for (size_t gone = 0; gone < ROWS && !plain; gone++) {
            bo_samples rest = oracle_without(&train, gone);
            double *inside = kernel_of(context, &desc, ROWS - 1, rest.x, ROWS - 1, rest.x), alpha[ROWS];
            double *across = kernel_of(context, &desc, 1, train.x + gone * DIM, ROWS - 1, rest.x);
            solve_directly(ROWS - 1, inside, rest.y, NULL, desc.lambda, true, alpha);
            squares += pow(predict_directly(ROWS - 1, across, alpha) - train.y[gone], 2);
            free(inside), free(across);
            oracle_drop(&rest);
        }
        if (!plain) assert_close(machine->report.validation_rmse, sqrt(squares / ROWS), 1e-5);
        double mean[NEW_ROWS], std[NEW_ROWS];
        bo_intervals_free(&machine->intervals); /* the standard deviation for noise of equal size remains */
        assert_ok(context, bo_machine_predict(context, machine, &(bo_inputs){.rows = NEW_ROWS, .x = fresh.x},
                                              &(bo_prediction){.mean = mean, .std = std}));
        double *across = kernel_of(context, &desc, NEW_ROWS, fresh.x, ROWS, train.x);
        for (size_t r = 0; r < NEW_ROWS; r++) {
            double *self = kernel_of(context, &desc, 1, fresh.x + r * DIM, 1, fresh.x + r * DIM);
            double q = variance_directly(ROWS, k, across + r * ROWS, *self, desc.lambda, !plain);
            assert_close(std[r], machine->report.noise_std * sqrt(1 + q), 1e-7 * std[r]);
            free(self);
        }
        free(k), free(across);
        bo_machine_destroy(machine);
    }
    oracle_drop(&train), oracle_drop(&fresh);
    bo_context_destroy(context);
}

static void test_files(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    for (int classes = 0; classes < 2; classes++) {
        bo_samples train = classes ? oracle_classes(ROWS, DIM, 3, 2, 1) : oracle_regression(ROWS, DIM, 2, 0.3, 1);
        bo_machine_desc desc = exact_desc(BO_KERNEL_NTK);
        desc.lambda = desc.features.gamma = 0; /* searched */
        bo_machine *machine = oracle_fit(context, &desc, &train), *again;
        void *bytes;
        size_t size;
        assert_ok(context, bo_machine_save(context, machine, NULL, &(bo_sink){.bytes = &bytes, .size = &size}));
        assert_ok(context, bo_machine_load(context, &(bo_source){.bytes = bytes, .size = size}, &again, NULL));
        double first[3 * ROWS], second[3 * ROWS], std[2][3 * ROWS];
        assert_ok(context, bo_machine_predict(context, machine, &(bo_inputs){.rows = ROWS, .x = train.x},
                                              &(bo_prediction){.mean = first, .std = classes ? NULL : std[0]}));
        assert_ok(context, bo_machine_predict(context, again, &(bo_inputs){.rows = ROWS, .x = train.x},
                                              &(bo_prediction){.mean = second, .std = classes ? NULL : std[1]}));
        assert_memory_equal(first, second, ROWS * machine->report.outputs * sizeof *first);
        if (!classes) assert_memory_equal(std[0], std[1], ROWS * machine->report.outputs * sizeof *first);
        assert_int_equal(again->report.function, BO_FUNCTION_SECTIONS);
        bo_free(bytes);
        bo_machine_destroy(machine), bo_machine_destroy(again);
        oracle_drop(&train);
    }
    bo_context_destroy(context);
}

/* By default, kernels of networks are exact for at most as many rows as features. */
static void test_choice(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    bo_samples train = oracle_regression(ROWS, DIM, 1, 0.3, 1);
    static const struct {
        bo_kernel kernel;
        bo_function function;
        size_t features;
        bool exact;
    } cases[] = {{BO_KERNEL_NTK, 0, 0, true},
                 {BO_KERNEL_NNGP, 0, ROWS, true},
                 {BO_KERNEL_NTK, 0, ROWS - 1, false},
                 {BO_KERNEL_NTK, BO_FUNCTION_NETWORK, 128, false},
                 {BO_KERNEL_RBF, 0, 128, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bo_machine_desc desc = exact_desc(cases[i].kernel);
        desc.features.function = cases[i].function;
        desc.features.features = cases[i].features;
        bo_fit_cost cost;
        const bo_fit_shape shape = {.rows = ROWS, .dim = DIM, .outputs = 1};
        assert_ok(context, bo_machine_estimate(context, &desc, &shape, &cost));
        assert_int_equal(cost.exact, cases[i].exact);
        bo_machine *machine = oracle_fit(context, &desc, &train);
        assert_int_equal(machine->report.function == BO_FUNCTION_SECTIONS, cases[i].exact);
        assert_int_equal(machine->report.features, cost.features);
        bo_machine_destroy(machine);
    }
    oracle_drop(&train);
    bo_context_destroy(context);
}

/* The depth that is chosen has the best score of the three. */
static void test_depth_is_searched(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    bo_samples train = oracle_regression(ROWS, DIM, 1, 0.3, 1);
    bo_machine_desc desc = exact_desc(BO_KERNEL_NNGP);
    desc.lambda = 0;
    desc.features.depth = -1;
    bo_machine *machine = oracle_fit(context, &desc, &train);
    const int chosen = machine->report.depth;
    const double score = machine->report.search_score;
    assert_true(chosen >= 1 && chosen <= 3);
    bo_machine_destroy(machine);
    for (desc.features.depth = 1; desc.features.depth <= 3; desc.features.depth++) {
        machine = oracle_fit(context, &desc, &train);
        if (desc.features.depth == chosen)
            assert_true(machine->report.search_score == score);
        else
            assert_true(machine->report.search_score >= score);
        bo_machine_destroy(machine);
    }
    desc.features.depth = -1;
    desc.lambda = 1;
    assert_int_equal(bo_machine_fit(context, &desc, &train, &machine), BO_INVALID);
    assert_non_null(strstr(bo_context_error(context), "set a depth"));
    oracle_drop(&train);
    bo_context_destroy(context);
}

static void test_refusals(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_samples train = oracle_regression(ROWS, DIM, 1, 0.3, 1);
    bo_machine *machine;
    bo_fitting *fitting;
    bo_machine_desc desc = exact_desc(BO_KERNEL_RBF);
    desc.solver = BO_SOLVER_SGD;
    assert_int_equal(bo_machine_fit(context, &desc, &train, &machine), BO_UNSUPPORTED);
    assert_non_null(strstr(bo_context_error(context), "expected the solver dual or cg, found sgd"));
    desc = exact_desc(BO_KERNEL_RBF);
    desc.dropout = 0.1;
    assert_int_equal(bo_machine_fit(context, &desc, &train, &machine), BO_UNSUPPORTED);
    desc = exact_desc(BO_KERNEL_RBF);
    assert_int_equal(bo_fitting_create(context, &desc, &train, &fitting), BO_UNSUPPORTED);
    assert_non_null(strstr(bo_context_error(context), "all rows in memory"));
    oracle_drop(&train);
    bo_context_destroy(context);
}

/* Rows that agree in x and differ in y: with a tiny λ their coefficients are of the size of 1/λ and cancel. */
static void test_equal_rows(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_samples train = oracle_regression(ROWS, DIM, 1, 0, 1);
    for (size_t i = 0; i < ROWS; i += 2)
        memcpy((float *)train.x + (i + 1) * DIM, train.x + i * DIM, DIM * sizeof(float));
    for (size_t i = 0; i < ROWS; i += 2) ((double *)train.y)[i + 1] = -train.y[i];
    bo_machine_desc desc = exact_desc(BO_KERNEL_NTK);
    desc.lambda = 1e-8;
    bo_machine *machine = oracle_fit(context, &desc, &train);
    double *mean = oracle_mean(context, machine, ROWS, train.x);
    for (size_t i = 0; i < ROWS; i++) assert_close(mean[i], 0, 1e-4);
    free(mean);
    bo_machine_destroy(machine);
    oracle_drop(&train);
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exact_equals_kernel_ridge),
        cmocka_unit_test(test_errors_and_deviations),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_choice),
        cmocka_unit_test(test_depth_is_searched),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_equal_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
