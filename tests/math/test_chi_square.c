/* The tail of a weighted sum of chi-square variables agrees with closed forms over 250 orders of magnitude, with
 * simulation, and with exact tails for thousands of weights. */
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

/* P(χ² > y) with an even number of degrees of freedom: the first terms of a Poisson distribution, from the last one
 * down. */
static double even_tail(int freedom, double y)
{
    const int last = freedom / 2 - 1;
    if (y <= 0) return 1;
    double sum = 0;
    for (int j = last; j >= 0; j--) {
        const double term = exp(j * log(0.5 * y) - 0.5 * y - lgamma(j + 1.0));
        sum += term;
        if (j < 0.5 * y && term < 1e-18 * sum) break;
    }
    return sum;
}

/* Thousands of equal weights b, below the mean and far above it. */
static void many_equal(void **state)
{
    (void)state;
    static const int counts[] = {10, 100, 1500, 10000};
    double *weights = malloc(10000 * sizeof *weights);
    for (size_t i = 0; i < 10000; i++) weights[i] = 1.0 / 1500;
    for (size_t k = 0; k < 4; k++)
        for (double deviations = -4; deviations < 12; deviations += 0.37) {
            const double n = counts[k], y = n + deviations * sqrt(2 * n);
            if (y > 0)
                assert_close(bo_chi_square_tail((size_t)n, weights, y / 1500) / even_tail(counts[k], y), 1, 1e-10);
        }
    free(weights);
}

/* A weight of 1 and n equal weights b: the tail given the first variable z, integrated over z by Simpson's rule. Before
 * the path avoided the poles of the small weights, such tails were 0 or 1. */
static void one_and_many(void **state)
{
    (void)state;
    enum { STEPS = 8000 };
    static const struct {
        int n;
        double b;
    } cases[] = {{1022, 0.003}, {50, 0.3}, {2000, 0.01}, {4000, 1e-3}};
    double *weights = malloc(4001 * sizeof *weights);
    for (size_t k = 0; k < 4; k++) {
        const int n = cases[k].n;
        const double b = cases[k].b, mean = n * b, deviation = b * sqrt(2.0 * n);
        weights[0] = 1;
        for (int i = 1; i <= n; i++) weights[i] = b;
        const double at[] = {mean - 2 * deviation, mean, mean + deviation, mean + 0.1, mean + 1, mean + 4, mean + 20};
        for (size_t i = 0; i < 7; i++) {
            double sum = 0; /* over z from 0 to 10, of 2 φ(z) P(b χ² > x - z²) */
            for (int s = 0; s <= STEPS; s++) {
                const double z = 10.0 * s / STEPS, weight = s == 0 || s == STEPS ? 1 : s % 2 ? 4 : 2;
                sum += weight * exp(-0.5 * z * z) * even_tail(n, (at[i] - z * z) / b);
            }
            sum *= 10.0 / STEPS / 3 * 2 / sqrt(2 * M_PI);
            assert_close(bo_chi_square_tail((size_t)n + 1, weights, at[i]) / sum, 1, 1e-7); /* of Simpson's rule */
        }
    }
    free(weights);
}

/* Tails of draws are uniform: the largest difference of 300 from a uniform distribution is above 1.95/√300 with
 * probability 0.001 (Kolmogorov and Smirnov). The weights of 2,000 words in a text. */
static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void uniform(void **state)
{
    (void)state;
    enum { WEIGHTS = 2000, DRAWS = 300 };
    double *weights = malloc(WEIGHTS * sizeof *weights), tail[DRAWS], largest = 0;
    for (size_t i = 0; i < WEIGHTS; i++) weights[i] = 1 / (double)(i + 1);
    bo_rng rng = bo_rng_make(2, bo_rng_stream("test.chi_square", 1));
    for (size_t d = 0; d < DRAWS; d++) {
        double q = 0;
        for (size_t i = 0; i < WEIGHTS; i++) q += weights[i] * pow(bo_rng_normal(&rng), 2);
        tail[d] = bo_chi_square_tail(WEIGHTS, weights, q);
    }
    qsort(tail, DRAWS, sizeof *tail, by_value);
    for (size_t d = 0; d < DRAWS; d++)
        largest = fmax(largest, fmax((double)(d + 1) / DRAWS - tail[d], tail[d] - (double)d / DRAWS));
    assert_true(largest < 1.95 / sqrt(DRAWS));
    free(weights);
}

static void edges(void **state)
{
    (void)state;
    const double ones[] = {1, 1}, none[] = {0, 0}, bad[] = {1, -1}, inf[] = {INFINITY}, tiny[] = {1e-300};
    assert_close(bo_chi_square_tail(1, ones, 1e-310), 1, 0);
    assert_close(bo_chi_square_tail(2, ones, 1e-40), 1, 0);
    assert_true(bo_chi_square_tail(1, tiny, 1e-300) != 0); /* 0.317, or NAN if that cannot be computed */
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
                                       cmocka_unit_test(many_equal),   cmocka_unit_test(one_and_many),
                                       cmocka_unit_test(uniform),      cmocka_unit_test(edges)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
