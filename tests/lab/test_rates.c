/* Sweeps of learning rates, for losses with a known minimum. */
#include "testing.h"
#include "lab/learning/rates.h"

/* A parabola over log2 of the rate with its minimum at `minimum`. */
static lab_rates parabola(double minimum)
{
    lab_rates r = lab_rates_make(5, 0.25, 2);
    for (size_t i = 0; i < r.count; i++) r.losses[i] = 3 + pow(log2(r.rates[i]) - minimum, 2);
    return r;
}

static void test_make(void **state)
{
    (void)state;
    const lab_rates r = lab_rates_make(99, 1, 3);
    assert_int_equal(r.count, LAB_MAX_RATES);
    assert_close(r.rates[3], 27, 1e-12);
    assert_true(isnan(r.losses[0]));
}

static void test_between(void **state)
{
    (void)state;
    for (double minimum = -1.4; minimum < 1.5; minimum += 0.2) {
        const lab_rates r = parabola(minimum);
        assert_int_equal(lab_rates_best(&r), (size_t)lround(minimum + 2));
        assert_close(log2(lab_rates_between(&r)), minimum, 1e-12);
    }
    const lab_rates low = parabola(-7), high = parabola(7); /* minimum outside the range of rates */
    assert_close(lab_rates_between(&low), 0.25, 0);
    assert_close(lab_rates_between(&high), 4, 0);
}

static void test_loss(void **state)
{
    (void)state;
    const lab_rates r = parabola(0);
    assert_close(lab_rates_loss(&r, 2), 4, 1e-12);
    assert_close(lab_rates_loss(&r, sqrt(2)), 3.5, 1e-12); /* halfway from 3 at 1 to 4 at 2 */
    assert_close(lab_rates_loss(&r, 0.01), 7, 1e-12);
    assert_close(lab_rates_loss(&r, 100), 7, 1e-12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_make), cmocka_unit_test(test_between),
                                       cmocka_unit_test(test_loss)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
