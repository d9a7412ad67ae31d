/* Ridge attention compared with float64: outputs, states and all gradients. Tolerances: without a gate the systems are
 * solved in float64, and for several hundred float32 products of numbers of order one, 1e-5 of the largest number of an
 * array allows for a hundred rounding errors; with a gate, the residual, 1e-6 of the right-hand side, times a condition
 * number below 100. */
#include "ridge_problem.h"

static const problem problems[] = {
    {"one token", 1, 1, 1, 1, 1, {1}, .lambda = 1},
    {"plain", 2, 2, 5, 3, 2, {23, 23}, .chunk = 4},
    {"groups", 6, 2, 4, 5, 1, {17}, .chunk = 8, .weighed = true, .lambda = 0.3, .tokens_first = true},
    {"packed, carried", 2, 1, 7, 2, 3, {9, 1, 14}, .packed = true, .carried = true, .lambda = 2, .chunk = 3},
    {"unit, weighed", 1, 1, 6, 6, 1, {30}, .unit = true, .weighed = true, .lambda = 0.5},
    {"gated", 2, 2, 5, 3, 2, {23, 23}, .chunk = 4, .gated = true, .gates = 0.5},
    {"gated groups", 4, 2, 4, 5, 1, {17}, .chunk = 8, .gated = true, .gates = 1, .weighed = true, .lambda = 0.5},
    {"gated, packed, carried",
     2,
     1,
     7,
     2,
     3,
     {9, 1, 14},
     .packed = true,
     .carried = true,
     .gated = true,
     .gates = 0.1,
     .lambda = 2,
     .chunk = 3,
     .tokens_first = true},
    {"gated, unit, one chunk",
     1,
     1,
     6,
     9,
     1,
     {40},
     .gated = true,
     .gates = 0.3,
     .unit = true,
     .weighed = true,
     .carried = true},
    {"gated, directly", 4, 2, 5, 3, 1, {23}, .chunk = 8, .gated = true, .gates = 0.5, .iterations = 1, .carried = true},
    {"gates of all sizes", 1, 1, 3, 4, 1, {40}, .chunk = 16, .gated = true, .gates = 60, .lambda = 1},
};

static void test_against_float64(void **state)
{
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++) {
        run *r = run_open(2, &problems[i]);
        check(r, problems[i].gated ? 1e-5 : 3e-6);
        run_close(r);
    }
    (void)state;
}

/* Wider than a vector and than a chunk; outputs only, because differences would take long. Λ is so small that conjugate
 * gradients in float32 do not converge: the remaining error is the rounding of the sums between chunks, which 32 nearly
 * dependent keys in 32 dimensions amplify several hundred times. */
static void test_widths(void **state)
{
    static const problem wide[] = {
        {"dim 64", 2, 1, 64, 64, 1, {150}, .lambda = 0.5},
        {"dim 33", 1, 1, 33, 17, 1, {70}, .chunk = 16, .weighed = true},
        {"dim 64, gated", 2, 1, 64, 64, 1, {150}, .lambda = 0.5, .gated = true, .gates = 0.02},
        {"dim 32, a small lambda", 1, 1, 32, 32, 1, {100}, .unit = true, .lambda = 1e-4, .gated = true, .gates = 0.1},
        {"dim 32, a tiny lambda", 1, 1, 32, 32, 1, {100}, .unit = true, .lambda = 1e-8, .gated = true, .gates = 0.1},
        {"dim 33, gated", 1, 1, 33, 17, 1, {70}, .chunk = 16, .weighed = true, .gated = true, .gates = 0.2},
    };
    bo_context *context = test_context(1);
    for (size_t i = 0; i < sizeof wide / sizeof *wide; i++) {
        data d = make_data(&wide[i]);
        check_outputs(context, &d, "out", wide[i].unit ? 1e-4 : 1e-5);
        discard(&d);
    }
    bo_context_destroy(context);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_float64),
        cmocka_unit_test(test_widths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
