/* The tail of a weighted sum of chi-square variables agrees with closed forms over 250 orders of magnitude, and with
 * simulation. */
#include "testing.h"
#include "math/special.h"

/* Pairs of equal weights are exponential variables with means 2λ, whose sums have elementary distributions. */
static void closed_forms(void **state)
{
    (void)state;
    static const double one[] = {1}, two[] = {0.5, 0.5}, four[] = {2, 2, 2, 2}, mixed[] = {3, 1, 0, 3, 1};
    for (double x = 1e-12; x < 1100; x *= 1.7) {
        double erlang = exp(-x / 4) * (1 + x / 4), mixture = (6 * exp(-x / 6) - 2 * exp(-x / 2)) / 4;
        assert_close(bo_chi_square_tail(1, one, x) / erfc(sqrt(x / 2)), 1, 1e-12);
        if (x < 700) assert_close(bo_chi_square_tail(2, two, x) / exp(-x), 1, 1e-12);
        assert_close(bo_chi_square_tail(4, four, x) / erlang, 1, 1e-12);
        assert_close(bo_chi_square_tail(5, mixed, x) / mixture, 1, 1e-12);
        /* a change of unit */
        const double small[] = {1e-9};
        assert_close(bo_chi_square_tail(1, small, 1e-9 * x) / bo_chi_square_tail(1, one, x), 1, 1e-12);
    }
}

/* 100,000 draws: the standard error of a fraction is below 0.0016. */
static void simulation(void **state)
{
    (void)state;
    enum { WEIGHTS = 40, DRAWS = 100000 };
    double weights[WEIGHTS], total = 0;
    for (size_t i = 0; i < WEIGHTS; i++) total += weights[i] = 1 / (double)((i + 1) * (i + 1));
    const double at[] = {0.4 * total, total, 2 * total, 4 * total};
    size_t above[4] = {0};
    bo_rng rng = bo_rng_make(1, bo_rng_stream("test.chi_square", 0));
    for (size_t d = 0; d < DRAWS; d++) {
        double q = 0;
        for (size_t i = 0; i < WEIGHTS; i++) {
            double z = bo_rng_normal(&rng);
            q += weights[i] * z * z;
        }
        for (size_t k = 0; k < 4; k++) above[k] += q > at[k];
    }
    for (size_t k = 0; k < 4; k++) {
        double p = bo_chi_square_tail(WEIGHTS, weights, at[k]);
        assert_close((double)above[k] / DRAWS, p, 4 * sqrt(p * (1 - p) / DRAWS));
    }
}

static void edges(void **state)
{
    (void)state;
    const double ones[] = {1, 1}, none[] = {0, 0}, bad[] = {1, -1}, inf[] = {INFINITY};
    assert_close(bo_chi_square_tail(2, ones, 0), 1, 0);
    assert_close(bo_chi_square_tail(2, ones, -3), 1, 0);
    assert_close(bo_chi_square_tail(2, ones, INFINITY), 0, 0);
    assert_close(bo_chi_square_tail(2, none, 1), 0, 0);
    assert_close(bo_chi_square_tail(2, none, 0), 1, 0);
    assert_true(isnan(bo_chi_square_tail(2, bad, 1)) && isnan(bo_chi_square_tail(1, inf, 1)));
    assert_true(isnan(bo_chi_square_tail(2, ones, NAN)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(closed_forms), cmocka_unit_test(simulation),
                                       cmocka_unit_test(edges)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
