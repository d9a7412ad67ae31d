/* Sobol points: their polynomials are all primitive polynomials, their nets have the promised t, and scrambling is
 * uniform. */
#include "testing.h"
#include "math/sobol.h"

/* There are phi(2^d - 1) / d primitive polynomials of degree d. */
static void polynomials_are_complete(void **state)
{
    (void)state;
    enum { COUNT = BO_SOBOL_MAX_DIMENSIONS - 1 };
    uint32_t *polynomials = malloc(COUNT * sizeof *polynomials);
    bo_sobol_polynomials(COUNT, polynomials);
    const size_t expected[] = {0, 1, 1, 2, 2, 6, 6, 18, 16, 48, 60, 176, 144, 630, 756, 1800};
    size_t found[17] = {0};
    for (size_t i = 0; i < COUNT; i++) {
        if (i > 0) assert_true(polynomials[i - 1] < polynomials[i]);
        found[31 - __builtin_clz(polynomials[i])]++;
    }
    for (size_t d = 1; d <= 15; d++) assert_int_equal(found[d], expected[d]);
    assert_int_equal(polynomials[0], 3);  /* x + 1 */
    assert_int_equal(polynomials[1], 7);  /* x² + x + 1 */
    assert_int_equal(polynomials[4], 19); /* x⁴ + x + 1 */
    free(polynomials);
}

/* Every elementary interval of volume 2^(t - k) contains 2^t of the first 2^k points; t is at most the sum of (degree -
 * 1) over the dimensions. */
static void check_net(const double *points, size_t stride, const size_t *dims, const unsigned *bits, size_t s,
                      unsigned k, unsigned t)
{
    size_t boxes = (size_t)1 << (k - t), *counts = calloc(boxes, sizeof *counts);
    for (size_t i = 0; i < (size_t)1 << k; i++) {
        size_t box = 0;
        for (size_t j = 0; j < s; j++) {
            box = box << bits[j] | (size_t)(points[i * stride + dims[j]] * (double)(1 << bits[j]));
        }
        counts[box]++;
    }
    for (size_t b = 0; b < boxes; b++) assert_int_equal(counts[b], 1u << t);
    free(counts);
}

static void nets_are_balanced(void **state)
{
    (void)state;
    enum { DIM = 40, K = 9 };
    bo_context *context = test_context(2);
    double *points = malloc((1 << K) * DIM * sizeof *points);
    for (uint64_t seed = 0; seed < 3; seed++) {
        assert_ok(context, bo_sobol_points(context, DIM, 1 << K, seed, points));
        for (size_t j = 0; j < DIM; j++) check_net(points, DIM, &j, (unsigned[]){K}, 1, K, 0);
        for (unsigned a = 0; a <= K; a++) { /* degrees 0 and 1: t = 0 */
            check_net(points, DIM, (size_t[]){0, 1}, (unsigned[]){a, K - a}, 2, K, 0);
        }
        for (unsigned a = 0; a <= K - 1; a++) { /* x + 1, x² + x + 1: t = 1 */
            for (unsigned b = 0; a + b <= K - 1; b++) {
                check_net(points, DIM, (size_t[]){0, 1, 2}, (unsigned[]){a, b, K - 1 - a - b}, 3, K, 1);
            }
        }
        for (unsigned a = 0; a <= K - 4; a++) { /* both cubics: t = 4 */
            check_net(points, DIM, (size_t[]){3, 4}, (unsigned[]){a, K - 4 - a}, 2, K, 4);
        }
    }
    free(points);
    bo_context_destroy(context);
}

/* Over seeds each coordinate of each point is uniform: mean 1/2, variance 1/12, E (u - 1/2)⁴ = 1/80; pairs of
 * coordinates are uncorrelated. z-scores are below 5. */
static void scrambling_is_uniform(void **state)
{
    (void)state;
    enum { DIM = 7, COUNT = 5, SEEDS = 3000 };
    bo_context *context = test_context(1);
    double mean[COUNT * DIM] = {0}, square[COUNT * DIM] = {0}, cross[COUNT] = {0}, points[COUNT * DIM];
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        assert_ok(context, bo_sobol_points(context, DIM, COUNT, seed, points));
        for (int i = 0; i < COUNT * DIM; i++) {
            assert_true(points[i] > 0.0 && points[i] < 1.0);
            double u = points[i] - 0.5;
            mean[i] += u / SEEDS, square[i] += u * u / SEEDS;
        }
        for (int i = 0; i < COUNT; i++) cross[i] += (points[i * DIM] - 0.5) * (points[i * DIM + 5] - 0.5) / SEEDS;
    }
    for (int i = 0; i < COUNT * DIM; i++) {
        assert_close(mean[i], 0.0, 5 * sqrt(1.0 / 12 / SEEDS));
        assert_close(square[i], 1.0 / 12, 5 * sqrt((1.0 / 80 - 1.0 / 144) / SEEDS));
    }
    for (int i = 0; i < COUNT; i++) assert_close(cross[i], 0.0, 5 * sqrt(1.0 / 144 / SEEDS));
    bo_context_destroy(context);
}

static void points_depend_on_seed_alone(void **state)
{
    (void)state;
    enum { DIM = 300, COUNT = 1000 };
    double *expected = malloc(DIM * COUNT * sizeof *expected), *points = malloc(DIM * COUNT * sizeof *points);
    for (int threads = 1; threads <= 3; threads++) {
        bo_context *context = test_context(threads);
        assert_ok(context, bo_sobol_points(context, DIM, COUNT, 42, threads == 1 ? expected : points));
        if (threads > 1) assert_memory_equal(points, expected, DIM * COUNT * sizeof *points);
        /* a shorter request is a prefix */
        assert_ok(context, bo_sobol_points(context, DIM, 301, 42, points));
        assert_memory_equal(points, expected, DIM * 301 * sizeof *points);
        assert_ok(context, bo_sobol_points(context, DIM, 1, 43, points));
        assert_memory_not_equal(points, expected, DIM * sizeof *points);
        bo_context_destroy(context);
    }
    free(expected), free(points);
}

static void limits_are_reported(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    double *points = malloc(BO_SOBOL_MAX_DIMENSIONS * 2 * sizeof *points);
    assert_ok(context, bo_sobol_points(context, BO_SOBOL_MAX_DIMENSIONS, 2, 1, points));
    assert_ok(context, bo_sobol_points(context, 3, 0, 1, NULL));
    assert_fails(context, BO_UNSUPPORTED, "4097 dimensions", bo_sobol_points(context, 4097, 1, 1, points));
    free(points);
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(polynomials_are_complete), cmocka_unit_test(nets_are_balanced),
        cmocka_unit_test(scrambling_is_uniform),    cmocka_unit_test(points_depend_on_seed_alone),
        cmocka_unit_test(limits_are_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
