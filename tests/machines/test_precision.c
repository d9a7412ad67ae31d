/* Features rounded to 8 bits: ridge regression on rounded features, exact sums, chosen only if λ is much larger than
 * the rounding. */
#include "machines/fitting.h"
#include "oracle.h"

enum { ROWS = 300, DIM = 3, FEATURES = 64, NEW = 50 };

static bo_samples training(void)
{
    return oracle_regression(ROWS, DIM, 1, 0.3, 11);
}

static void test_quantum(void **state)
{
    (void)state;
    for (size_t features = 2; features <= 1 << 14; features *= 2)
        for (int function = BO_FUNCTION_SINCOS; function <= BO_FUNCTION_COSBIAS; function++) {
            bo_features_desc map = {.function = (bo_function)function, .features = features, .dim = 1};
            double largest = sqrt(2 / (double)features), quantum = (double)bo_quantum_of(&map);
            int exponent;
            assert_true(frexp(quantum, &exponent) == 0.5); /* a power of two */
            assert_true(largest / quantum <= 128 && largest / quantum > 64);
        }
    bo_features_desc unbounded = {
        .kernel = BO_KERNEL_SOFTMAX, .function = BO_FUNCTION_SINCOS, .features = 64, .dim = 1};
    assert_true(bo_quantum_of(&unbounded) == 0);
}

/* Ridge regression on the rounded features, by the normal equations. */
static void test_is_ridge_on_rounded_features(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    bo_samples train = training(), fresh = oracle_regression(NEW, DIM, 1, 0, 12);
    bo_machine_desc desc = oracle_desc(FEATURES, 0.5, 0.5);
    desc.precision = BO_GRAM_PRECISION_INT8;
    bo_machine *machine = oracle_fit(context, &desc, &train);
    assert_true(machine->quantum > 0);
    assert_int_equal(machine->report.precision, BO_GRAM_PRECISION_INT8);
    double *z = oracle_features(context, machine, ROWS, train.x), *zn = oracle_features(context, machine, NEW, fresh.x);
    double *penalty = oracle_constant(FEATURES, 0.5);
    double *beta = oracle_ridge(ROWS, FEATURES, 1, z, train.y, NULL, penalty, true);
    double *mean = oracle_mean(context, machine, NEW, fresh.x);
    double tolerance = oracle_tolerance(ROWS, FEATURES, 1, z, beta, 0.5, oracle_deviation(ROWS, 1, train.y, 0), false);
    for (size_t i = 0; i < NEW; i++)
        assert_close(mean[i], oracle_predict(FEATURES, 1, zn + i * FEATURES, beta, 0), tolerance);
    free(z), free(zn), free(penalty), free(beta), free(mean);
    bo_machine_destroy(machine);
    oracle_drop(&train), oracle_drop(&fresh);
    bo_context_destroy(context);
}

/* The feature block of the Gram matrix is a sum of integers: any split and any number of threads give the same bits. */
static void test_sums_are_exact(void **state)
{
    (void)state;
    bo_samples train = training();
    bo_machine_desc desc = oracle_desc(FEATURES, 0.5, 0.5);
    desc.precision = BO_GRAM_PRECISION_INT8;
    bo_fitting *fits[2];
    for (int k = 0; k < 2; k++) {
        bo_context *context = test_context(k + 1);
        assert_ok(context, bo_fitting_create(context, &desc, &train, &fits[k]));
        size_t step = k ? 37 : ROWS;
        for (size_t first = 0; first < ROWS; first += step) {
            bo_samples part = train;
            part.rows = ROWS - first < step ? ROWS - first : step;
            part.x += first * DIM;
            part.y += first;
            assert_ok(context, bo_fitting_add(context, fits[k], &part));
        }
        bo_context_destroy(context);
    }
    size_t size = fits[0]->moments.size;
    double quantum = (double)fits[0]->quantum;
    for (size_t i = 0; i < FEATURES; i++)
        for (size_t j = i; j < FEATURES; j++) {
            double a = fits[0]->moments.gram[i * size + j];
            assert_true(a == fits[1]->moments.gram[i * size + j]);
            assert_true(a / quantum / quantum == rint(a / quantum / quantum));
        }
    bo_fitting_destroy(fits[0]), bo_fitting_destroy(fits[1]);
    oracle_drop(&train);
}

/* Rounding is noise with variance quantum²/12 on every feature: the prediction changes by about its product with
 * |β|. */
static void test_close_to_float32(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    bo_samples train = training(), fresh = oracle_regression(NEW, DIM, 1, 0, 12);
    bo_machine_desc desc = oracle_desc(FEATURES, 0.5, 0.5);
    desc.precision = BO_GRAM_PRECISION_INT8;
    bo_machine *rounded = oracle_fit(context, &desc, &train);
    desc.precision = BO_GRAM_PRECISION_FLOAT32;
    bo_machine *plain = oracle_fit(context, &desc, &train);
    assert_true(plain->quantum == 0);
    double *a = oracle_mean(context, rounded, NEW, fresh.x), *b = oracle_mean(context, plain, NEW, fresh.x), norm = 0;
    for (size_t j = 0; j < FEATURES; j++) norm += plain->beta[j] * plain->beta[j];
    double sigma = rounded->quantum / sqrt(12), noise = sigma * sqrt(norm);
    /* training sees n rows with this noise: β changes by at most the effect of target noise of the same size, amplified
     * by at most √(n/λ) per direction; the mean over rows is a few σ|β| */
    assert_true(oracle_rmse(NEW, a, b) < 5 * noise);
    assert_true(oracle_rmse(NEW, a, b) > 0);
    free(a), free(b);
    bo_machine_destroy(rounded), bo_machine_destroy(plain);
    oracle_drop(&train), oracle_drop(&fresh);
    bo_context_destroy(context);
}

static void test_choice(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    bo_samples train = training();
    static const struct {
        double lambda;
        bo_gram_precision expected;
    } cases[] = {{1, BO_GRAM_PRECISION_INT8}, {1e-3, BO_GRAM_PRECISION_FLOAT32}, {1e-7, BO_GRAM_PRECISION_FLOAT64}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        bo_machine_desc desc = oracle_desc(FEATURES, 0.5, cases[k].lambda);
        bo_machine *machine = oracle_fit(context, &desc, &train);
        assert_int_equal(machine->report.precision, cases[k].expected);
        bo_machine_destroy(machine);
    }
    bo_samples weighted = train;
    weighted.weights = oracle_weights(ROWS, 3);
    bo_machine_desc desc = oracle_desc(FEATURES, 0.5, 1);
    bo_machine *machine = oracle_fit(context, &desc, &weighted);
    assert_int_equal(machine->report.precision, BO_GRAM_PRECISION_FLOAT32);
    bo_machine_destroy(machine);
    desc.precision = BO_GRAM_PRECISION_INT8;
    assert_fails(context, BO_UNSUPPORTED, "equal weight", bo_machine_fit(context, &desc, &weighted, &machine));
    desc.features.kernel = BO_KERNEL_ARCCOS;
    assert_fails(context, BO_UNSUPPORTED, "bounded features", bo_machine_fit(context, &desc, &train, &machine));
    free((void *)weighted.weights);
    oracle_drop(&train);
    bo_context_destroy(context);
}

static void test_file_keeps_the_rounding(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    bo_samples train = training();
    bo_machine_desc desc = oracle_desc(FEATURES, 0.5, 0.5);
    desc.precision = BO_GRAM_PRECISION_INT8;
    bo_machine *machine = oracle_fit(context, &desc, &train), *loaded;
    assert_ok(context, bo_machine_save(context, machine, NULL, &(bo_sink){.path = "test_precision.model"}));
    assert_ok(context, bo_machine_load(context, &(bo_source){.path = "test_precision.model"}, &loaded, NULL));
    remove("test_precision.model");
    assert_true(loaded->quantum == machine->quantum);
    double *a = oracle_mean(context, machine, ROWS, train.x), *b = oracle_mean(context, loaded, ROWS, train.x);
    assert_memory_equal(a, b, ROWS * sizeof *a);
    free(a), free(b);
    bo_machine_destroy(machine), bo_machine_destroy(loaded);
    oracle_drop(&train);
    bo_context_destroy(context);
}

/* A nearly constant kernel: its Gram matrix in float32 is not positive definite at this λ, so the fit is repeated in
 * float64. A precision that the caller sets is not changed. */
static void test_float64_where_float32_fails(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_samples train = training();
    bo_machine_desc desc = oracle_desc(FEATURES, 1e-4, 1e-9);
    bo_machine *machine;
    desc.precision = BO_GRAM_PRECISION_FLOAT32;
    assert_fails(context, BO_NUMERIC, "not positive definite", bo_machine_fit(context, &desc, &train, &machine));
    desc.precision = BO_GRAM_PRECISION_AUTO;
    assert_ok(context, bo_machine_fit(context, &desc, &train, &machine));
    assert_int_equal(machine->report.precision, BO_GRAM_PRECISION_FLOAT64);
    bo_machine_destroy(machine);
    oracle_drop(&train);
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_quantum),
        cmocka_unit_test(test_is_ridge_on_rounded_features),
        cmocka_unit_test(test_sums_are_exact),
        cmocka_unit_test(test_close_to_float32),
        cmocka_unit_test(test_choice),
        cmocka_unit_test(test_file_keeps_the_rounding),
        cmocka_unit_test(test_float64_where_float32_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
