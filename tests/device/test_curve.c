/* Activations of every instruction set compared with plain C in double: every size up to a few vectors, in place,
 * magnitudes from the smallest normal float to the largest, and the typical range of networks. */
#include "testing.h"
#include <float.h>
#include "isas.h"

static const char *const names[BO_CURVE_COUNT] = {"gelu",    "gelu_tanh",   "relu2",    "silu", "relu",    "tanh",
                                                  "sigmoid", "log_sigmoid", "softplus", "exp",  "identity"};

/* Rounding: about ten operations of half a unit each after an exponential with an error of 2e-7, so 1e-6 of the value.
 * A derivative is a sum of terms of at most 1.2, which may cancel: then 1e-6 of the terms. Results below FLT_MIN may be
 * 0. */
static void check(const bo_kernels *table, bo_curve curve, bool derivative, float x)
{
    const bo_kernels *plain = bo_kernels_find("ref");
    float found, expected;
    (derivative ? table->curve_derivative : table->curve)(curve, 1, &x, &found);
    (derivative ? plain->curve_derivative : plain->curve)(curve, 1, &x, &expected);
    if (found == expected) return; /* infinities too */
    double tolerance = 1e-6 * fabs((double)expected) + (double)FLT_MIN * fmax(1, fabs((double)x));
    bool cancels = curve == BO_CURVE_GELU || curve == BO_CURVE_GELU_TANH || curve == BO_CURVE_SILU;
    if (derivative && cancels) tolerance = 1e-6;
    /* its argument has an error of a few units, which the exponential multiplies */
    if (curve == BO_CURVE_GELU_TANH && !derivative)
        tolerance += 1e-6 * fabs((double)expected) * pow(fabs((double)x), 3);
    if (!(fabs((double)found - (double)expected) <= tolerance))
        fail_msg("%s: %s%s at %.9g is %.9g, expected %.9g", table->isa, derivative ? "slope of " : "", names[curve],
                 (double)x, (double)found, (double)expected);
}

#define FOR_EACH_CURVE(table, curve, derivative)                                                                       \
    FOR_EACH_TABLE(table)                                                                                              \
    for (int curve = 0; curve < BO_CURVE_COUNT; curve++)                                                               \
        for (int derivative = 0; derivative < 2; derivative++)

static void values_and_derivatives(void **state)
{
    (void)state;
    FOR_EACH_CURVE(table, curve, derivative)
    {
        bo_rng rng = bo_rng_make(3, (uint64_t)curve);
        for (int i = 0; i < 20000; i++) check(table, (bo_curve)curve, derivative, (float)(3 * bo_rng_normal(&rng)));
        for (double size = FLT_MIN; size < FLT_MAX; size *= 1.37) {
            check(table, (bo_curve)curve, derivative, (float)size);
            check(table, (bo_curve)curve, derivative, (float)-size);
        }
        check(table, (bo_curve)curve, derivative, 0.0f);
        check(table, (bo_curve)curve, derivative, -0.0f);
    }
}

static void every_size_in_place(void **state)
{
    (void)state;
    enum { MAX = 70 };
    float x[MAX + 1], y[MAX + 1], one;
    for (int i = 0; i <= MAX; i++) x[i] = (float)(i - 35) * 0.21f;
    FOR_EACH_CURVE(table, curve, derivative)
    {
        for (size_t n = 0; n <= MAX; n++) {
            memcpy(y, x, sizeof x);
            (derivative ? table->curve_derivative : table->curve)((bo_curve)curve, n, y, y);
            for (size_t i = 0; i < n; i++) { /* bitwise equal at any position */
                (derivative ? table->curve_derivative : table->curve)((bo_curve)curve, 1, &x[i], &one);
                assert_memory_equal(&y[i], &one, sizeof one);
            }
            assert_memory_equal(&y[n], &x[n], sizeof *y);
        }
    }
}

static void not_a_number_stays(void **state)
{
    (void)state;
    float x = NAN, y;
    FOR_EACH_CURVE(table, curve, derivative)
    {
        if (derivative && (curve == BO_CURVE_RELU || curve == BO_CURVE_RELU2 || curve == BO_CURVE_IDENTITY)) continue;
        (derivative ? table->curve_derivative : table->curve)((bo_curve)curve, 1, &x, &y);
        if (!isnan(y)) fail_msg("%s: %s of NaN is %g", table->isa, names[curve], (double)y);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_and_derivatives),
        cmocka_unit_test(every_size_in_place),
        cmocka_unit_test(not_a_number_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
