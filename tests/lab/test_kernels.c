/* Tools for kernels, with known answers. */
#include "testing.h"
#include "lab/tools/kernels.h"
#include "lab/tools/numbers.h"

/* For an exact feature map the estimate is the kernel, up to rounding of 6 float32 features. */
static void an_exact_map_has_no_error(void **state)
{
    (void)state;
    enum { ROWS = 5, DIM = 2 };
    bo_context *context = test_context(1);
    bo_rng rng = bo_rng_make(3, 0);
    float x[ROWS * DIM], estimate[ROWS * ROWS];
    double kernel[ROWS * ROWS];
    const bo_features_desc map = {.kernel = BO_KERNEL_POLYNOMIAL, .degree = 2, .dim = DIM};
    lab_fill_normal(&rng, 1, ROWS * DIM, x);
    assert_ok(context, lab_estimate_kernel(context, &map, ROWS, x, estimate));
    assert_ok(context, bo_kernel_matrix(context, &map, ROWS, x, DIM, ROWS, x, DIM, kernel, ROWS));
    assert_close(sqrt(lab_squared_error(ROWS * ROWS, estimate, kernel)), 0, 1e-4);
    estimate[3] += 0.5f;
    assert_close(lab_squared_error(ROWS * ROWS, estimate, kernel), 0.25 / (ROWS * ROWS), 1e-4);
    bo_context_destroy(context);
}

/* The linear kernel in one dimension is ridge regression: w = Σxy / (Σx² + λ) = 10 / (5 + 5) = 1. */
static void kernel_ridge_is_ridge(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    const bo_features_desc kernel = {.kernel = BO_KERNEL_LINEAR, .dim = 1};
    const float x[] = {1, 2}, other[] = {3, -1, 0};
    const double y[] = {2, 4};
    double prediction[3];
    const lab_kernel_ridge ridge = {&kernel, 2, 3, x, other, y, 5};
    assert_ok(context, lab_kernel_ridge_predict(context, &ridge, prediction));
    assert_close(prediction[0], 3, 1e-12);
    assert_close(prediction[1], -1, 1e-12);
    assert_close(prediction[2], 0, 1e-12);
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_exact_map_has_no_error),
        cmocka_unit_test(kernel_ridge_is_ridge),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
