/* The accuracy report: measured and predicted errors agree for independent draws. */
#include "maps.h"
#include <unistd.h>

enum { ROWS = 60, PAIRS = 1500 };

/* error² averaged over pairs and seeds has mean V̄ = predicted². Pairs share the frequencies of a seed, so the S seeds
 * are the independent units, and (mean - V̄) / (deviation over seeds / √S) is standard normal. */
static void check_ratio(bo_context *context, bo_features_desc desc, double scale)
{
    enum { SEEDS = 60 };
    float x[ROWS * DIM];
    double mean = 0, square = 0, predicted = 0;
    test_inputs(11, ROWS * DIM, x);
    for (size_t i = 0; i < ROWS * DIM; i++) x[i] *= (float)scale;
    for (size_t s = 0; s < SEEDS; s++) {
        bo_features *f;
        bo_features_accuracy accuracy;
        desc.seed = s;
        desc.sample = x;
        desc.sample_rows = ROWS;
        assert_ok(context, bo_features_create(context, &desc, &f));
        assert_ok(context, bo_features_measure(context, f, &(bo_inputs){.rows = ROWS, .x = x}, PAIRS, 5, &accuracy));
        assert_int_equal(accuracy.pairs, PAIRS);
        assert_true(accuracy.error_max >= accuracy.error_rms && accuracy.error_rms >= fabs(accuracy.error_mean));
        assert_close(accuracy.ratio, accuracy.error_rms / accuracy.predicted_rms, 1e-12);
        double error2 = accuracy.error_rms * accuracy.error_rms;
        mean += error2 / SEEDS;
        square += error2 * error2 / SEEDS;
        predicted = accuracy.predicted_rms * accuracy.predicted_rms;
        bo_features_destroy(f);
    }
    double standard = sqrt((square - mean * mean) / SEEDS);
    if (!(fabs(mean - predicted) <= 4.5 * standard))
        fail_msg("%s: mean squared error %.4g, predicted %.4g, standard error %.2g", map_name(&desc), mean, predicted,
                 standard);
}

static void predictions_hold_for_independent_draws(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    for (int kernel = 0; kernel < BO_KERNEL_CUSTOM; kernel++)
        for (int function = 1; function < BO_FUNCTION_CUSTOM; function++) {
            const bo_function_definition *definition = bo_function_find((bo_function)function);
            if (!(definition->kernels & BO_KERNEL_BIT(kernel)) || definition->exact) continue;
            bo_features_desc desc = {.kernel = (bo_kernel)kernel,
                                     .function = (bo_function)function,
                                     .draw = BO_DRAW_IID,
                                     .dim = DIM,
                                     .features = 128,
                                     .gamma = 0.7};
            check_ratio(context, desc, 1);
        }
    bo_context_destroy(context);
}

static void couplings_do_better(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    float x[ROWS * DIM];
    bo_features_desc desc = {.dim = DIM, .features = 128, .gamma = 0.7, .seed = 1};
    bo_features *f;
    bo_features_accuracy accuracy;
    test_inputs(11, ROWS * DIM, x);
    assert_ok(context, bo_features_create(context, &desc, &f));
    assert_ok(context, bo_features_measure(context, f, &(bo_inputs){.rows = ROWS, .x = x}, PAIRS, 5, &accuracy));
    assert_true(accuracy.ratio < 0.9); /* orthogonal, the default; half the variance at these distances */
    /* with features_for_1pct features the predicted error is 1% */
    size_t many = 2 * (size_t)ceil(accuracy.features_for_1pct / 2);
    bo_features_destroy(f);
    desc.features = many;
    assert_ok(context, bo_features_create(context, &desc, &f));
    assert_ok(context, bo_features_measure(context, f, &(bo_inputs){.rows = ROWS, .x = x}, PAIRS, 5, &accuracy));
    assert_close(accuracy.predicted_rms / accuracy.kernel_rms, 0.01, 0.01 / (double)many);
    bo_features_destroy(f);
    bo_context_destroy(context);
}

static void exact_maps_have_no_error(void **state)
{
    (void)state;
    static const bo_kernel exact[] = {BO_KERNEL_POLYNOMIAL, BO_KERNEL_TAYLOR,   BO_KERNEL_ELU,      BO_KERNEL_LINEAR,
                                      BO_KERNEL_COSH,       BO_KERNEL_HEDGEHOG, BO_KERNEL_RECTIFIER};
    bo_context *context = test_context(1);
    float x[ROWS * DIM];
    test_inputs(12, ROWS * DIM, x);
    for (size_t i = 0; i < sizeof exact / sizeof *exact; i++) {
        bo_features_desc desc = {.kernel = exact[i], .dim = DIM, .degree = 4};
        bo_features *f;
        bo_features_accuracy accuracy;
        assert_ok(context, bo_features_create(context, &desc, &f));
        assert_ok(context, bo_features_measure(context, f, &(bo_inputs){.rows = ROWS, .x = x}, 200, 5, &accuracy));
        assert_close(accuracy.predicted_rms, 0, 0);
        assert_true(accuracy.error_max < 2e-6 * (1 + accuracy.kernel_rms)); /* 210 products of rounded floats */
        assert_close(accuracy.features_for_1pct, (double)bo_features_describe(f)->features, 0);
        bo_features_destroy(f);
    }
    bo_context_destroy(context);
}

/* For x = y the sin/cos features of shift-invariant kernels are exact, and the variance is 0. */
static void variance_vanishes_where_it_should(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    float x[DIM];
    test_inputs(13, DIM, x);
    for (int kernel = 0; kernel <= BO_KERNEL_RATIONAL_QUADRATIC; kernel++) {
        bo_features_desc desc = {.kernel = (bo_kernel)kernel, .dim = DIM, .features = 16, .draw = BO_DRAW_IID};
        bo_features *f;
        assert_ok(context, bo_features_create(context, &desc, &f));
        assert_close(bo_features_variance(f, x, x), 0, 0);
        bo_features_destroy(f);
        desc.function = BO_FUNCTION_COSBIAS; /* the random phase remains: 1/(2m) */
        assert_ok(context, bo_features_create(context, &desc, &f));
        assert_close(bo_features_variance(f, x, x), 0.5 / 16, 1e-15);
        bo_features_destroy(f);
    }
    bo_context_destroy(context);
}

static bool stop_at_ten(void *user, const char *what, double done, double total)
{
    (void)what;
    return done <= total && ++*(int *)user < 10;
}

/* Too many pairs to wait for: the measurement can be canceled. */
static void measuring_can_be_canceled(void **state)
{
    (void)state;
    int calls = 0;
    bo_context_desc about = {.threads = 1, .progress = stop_at_ten, .user = &calls};
    bo_context *context;
    assert_int_equal(bo_context_create(&about, &context), BO_OK);
    float x[4 * DIM];
    test_inputs(14, 4 * DIM, x);
    bo_features_desc desc = {.dim = DIM, .features = 16};
    bo_features *f;
    bo_features_accuracy accuracy;
    assert_ok(context, bo_features_create(context, &desc, &f));
    alarm(60);
    assert_fails(context, BO_CANCELED, "",
                 bo_features_measure(context, f, &(bo_inputs){.rows = 4, .x = x}, SIZE_MAX, 1, &accuracy));
    alarm(0);
    assert_int_equal(calls, 10);
    bo_features_destroy(f);
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(predictions_hold_for_independent_draws),
        cmocka_unit_test(couplings_do_better),
        cmocka_unit_test(exact_maps_have_no_error),
        cmocka_unit_test(variance_vanishes_where_it_should),
        cmocka_unit_test(measuring_can_be_canceled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
