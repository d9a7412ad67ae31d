/* A ridge readout satisfies its normal equations. */
#include "testing.h"
#include "math/linalg.h"

enum { ROWS = 1100, FEATURES = 13, OUTPUTS = 3 }; /* more rows than a chunk has */

static void draw(size_t count, uint64_t seed, float *x)
{
    bo_rng rng = bo_rng_make(seed, 3);
    for (size_t i = 0; i < count; i++) x[i] = (float)bo_rng_normal(&rng);
}

/* Zᵀ (Z w - y) + λ w = 0 up to the rounding of w: each term is at most |z|₂ |residual|₂, and w is float, so the error
 * of the sum is at most |Z|² 2⁻²⁴ |w|, |Z|² < 4 ROWS. */
static void satisfies_the_normal_equations(void **state)
{
    (void)state;
    static float z[ROWS * FEATURES], y[ROWS * OUTPUTS], w[OUTPUTS * FEATURES];
    bo_context *context = test_context(2);
    draw(ROWS * FEATURES, 1, z);
    draw(ROWS * OUTPUTS, 2, y);
    bo_readout readout = {ROWS, FEATURES, OUTPUTS, z, y, 7};
    assert_ok(context, bo_ridge_readout(context, &readout, w));
    for (size_t o = 0; o < OUTPUTS; o++)
        for (size_t i = 0; i < FEATURES; i++) {
            double sum = readout.lambda * (double)w[o * FEATURES + i];
            for (size_t r = 0; r < ROWS; r++) {
                double rest = -(double)y[r * OUTPUTS + o];
                for (size_t j = 0; j < FEATURES; j++) rest += (double)z[r * FEATURES + j] * (double)w[o * FEATURES + j];
                sum += (double)z[r * FEATURES + i] * rest;
            }
            assert_close(sum, 0, 4 * ROWS * 0x1p-24);
        }
    bo_context_destroy(context);
}

static void refuses_nonsense(void **state)
{
    (void)state;
    float z[4] = {1, 0, 1, 0}, y[2] = {1, 2}, w[2];
    bo_context *context = test_context(1);
    bo_readout readout = {2, 2, 1, z, y, -1};
    assert_int_equal(bo_ridge_readout(context, &readout, w), BO_INVALID);
    readout.lambda = 0; /* rank 1 */
    assert_int_equal(bo_ridge_readout(context, &readout, w), BO_NUMERIC);
    readout.lambda = 1;
    assert_ok(context, bo_ridge_readout(context, &readout, w));
    assert_true(w[0] == 1 && w[1] == 0); /* w (2 + 1) = 1 + 2 */
    readout.rows = 0;
    assert_int_equal(bo_ridge_readout(context, &readout, w), BO_INVALID);
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(satisfies_the_normal_equations),
        cmocka_unit_test(refuses_nonsense),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
