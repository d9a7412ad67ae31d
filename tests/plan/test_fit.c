/* Costs from timings: least squares with known solutions, and simulated hosts. */
#include "made_up.h"

enum { ROWS = 6 };

static double left(const double (*a)[BO_PLAN_TERM_COUNT], const double *y, const double *x)
{
    double sum = 0;
    for (size_t r = 0; r < ROWS; r++) {
        double e = -y[r];
        for (size_t t = 0; t < BO_PLAN_TERM_COUNT; t++) e += a[r][t] * x[t];
        sum += e * e;
    }
    return sum;
}

/* Exact if the solution is not negative; otherwise no small non-negative change is better (the Karush-Kuhn-Tucker
 * conditions of a convex problem). */
static void least_squares_are_least(void **state)
{
    (void)state;
    bo_rng rng = bo_rng_make(3, 1);
    for (size_t trial = 0; trial < 50; trial++) {
        double a[ROWS][BO_PLAN_TERM_COUNT], y[ROWS], x[BO_PLAN_TERM_COUNT], truth[BO_PLAN_TERM_COUNT];
        for (size_t t = 0; t < BO_PLAN_TERM_COUNT; t++)
            truth[t] = trial % 2 ? bo_rng_normal(&rng) : bo_rng_uniform(&rng);
        for (size_t r = 0; r < ROWS; r++) {
            y[r] = 0;
            for (size_t t = 0; t < BO_PLAN_TERM_COUNT; t++) y[r] += (a[r][t] = bo_rng_uniform(&rng)) * truth[t];
        }
        if (!bo_plan_least_squares(ROWS, (const double (*)[BO_PLAN_TERM_COUNT])a, y, 15, x)) {
            assert_true(trial % 2); /* no set of terms is positive: zero is best */
            continue;
        }
        const double best = left((const double (*)[BO_PLAN_TERM_COUNT])a, y, x);
        if (trial % 2 == 0) assert_true(best < 1e-16);
        for (size_t t = 0; t < BO_PLAN_TERM_COUNT; t++) {
            assert_true(x[t] >= 0);
            for (int sign = -1; sign <= 1; sign += 2) {
                double other[BO_PLAN_TERM_COUNT];
                memcpy(other, x, sizeof x);
                other[t] = fmax(0, other[t] + sign * 1e-3);
                assert_true(left((const double (*)[BO_PLAN_TERM_COUNT])a, y, other) >= best - 1e-12);
            }
        }
    }
}

static void terms_may_be_left_out(void **state)
{
    (void)state;
    const double a[ROWS][BO_PLAN_TERM_COUNT] = {{1, 1, 0, 0}, {1, 2, 0, 0}, {1, 3, 0, 0},
                                                {1, 4, 0, 0}, {1, 5, 0, 0}, {1, 6, 0, 0}};
    const double y[ROWS] = {3, 5, 7, 9, 11, 13};
    double x[BO_PLAN_TERM_COUNT];
    assert_true(bo_plan_least_squares(ROWS, a, y, 3, x));
    assert_close(x[0], 1, 1e-9);
    assert_close(x[1], 2, 1e-9);
    assert_true(bo_plan_least_squares(ROWS, a, y, 1, x));
    assert_close(x[0], 8, 1e-9);
    assert_true(x[1] == 0);
    assert_false(bo_plan_least_squares(ROWS, a, y, 12, x)); /* columns of zeros */
    assert_false(bo_plan_least_squares(ROWS, a, y, 0, x));
}

static void a_known_host_is_found(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_plan_host *host = made_up_host(context);
    for (size_t t = 0; t < BO_PLAN_TERM_COUNT; t++) assert_close(host->costs[t] / made_up_cost[t], 1, 1e-6);
    assert_true(host->error < 1e-6 && host->timing_count == MADE_UP);
    const bo_plan_shape other = made_up_shape(3, 192, 512, 4);
    bo_plan_range step;
    assert_ok(context, bo_plan_step(context, host, &other, &step));
    assert_close(step.value / made_up_seconds(context, &other), 1, 1e-6);
    assert_true(step.low <= step.value && step.value <= step.high);
    bo_plan_host_destroy(host);
    bo_context_destroy(context);
}

/* With 10% noise, predictions of medium shapes have a similar error, which the error of the left-out shapes shows. */
static void noise_is_reported(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_plan_timing timings[MADE_UP];
    bo_plan_host *host;
    made_up_timings(context, NULL, timings);
    for (size_t i = 0; i < MADE_UP; i++) timings[i].seconds *= i % 2 ? 1.1 : 0.9;
    assert_ok(context, bo_plan_host_fit(context, timings, MADE_UP, 0, &host));
    const bo_plan_shape other = made_up_shape(3, 128, 256, 4);
    bo_plan_range step;
    assert_ok(context, bo_plan_step(context, host, &other, &step));
    const double truth = made_up_seconds(context, &other);
    assert_true(host->error > 0.05 && host->error < 1);
    assert_true(step.low < truth && truth < step.high);
    bo_plan_host_destroy(host);
    bo_context_destroy(context);
}

/* One shape took twice as long as it should, and it is the only one that determines the cost of attention: a fit would
 * hide it, but the other, exact shapes predict half of its time. */
static void shapes_are_left_out_in_turn(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_plan_timing timings[MADE_UP];
    bo_plan_host *host;
    made_up_timings(context, NULL, timings);
    timings[2].seconds *= 2;
    assert_ok(context, bo_plan_host_fit(context, timings, MADE_UP, 0, &host));
    assert_true(host->error > 0.5 / sqrt(MADE_UP));
    bo_plan_host_destroy(host);
    bo_context_destroy(context);
}

static void wrong_timings_are_refused(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_plan_timing timings[MADE_UP];
    bo_plan_host *host;
    made_up_timings(context, NULL, timings);
    assert_fails(context, BO_INVALID, "expected 5 to", bo_plan_host_fit(context, timings, 4, 0, &host));
    assert_fails(context, BO_INVALID, "found 99", bo_plan_host_fit(context, timings, 99, 0, &host));
    timings[3].seconds = 0;
    assert_fails(context, BO_INVALID, "timing 3", bo_plan_host_fit(context, timings, MADE_UP, 0, &host));
    made_up_timings(context, NULL, timings);
    timings[2].shape.attention = "softmax";
    assert_fails(context, BO_INVALID, "timing 2", bo_plan_host_fit(context, timings, MADE_UP, 0, &host));
    assert_null(host);
    host = made_up_host(context);
    bo_plan_shape other = made_up_shape(2, 64, 64, 1);
    bo_plan_range step;
    other.attention = "softmax";
    assert_fails(context, BO_INVALID, "measured with rfa-gate", bo_plan_step(context, host, &other, &step));
    other.reserved[0] = 1;
    assert_fails(context, BO_INVALID, "bo_plan_shape", bo_plan_step(context, host, &other, &step));
    bo_plan_host_destroy(host);
    bo_plan_host_destroy(NULL);
    assert_fails(context, BO_INVALID, "bo_plan_calibration",
                 bo_plan_host_calibrate(context, &(bo_plan_calibration){.reserved = {0, 1}}, &host));
    assert_null(host);
    assert_fails(context, BO_INVALID, "no shapes", bo_plan_time(context, 1, timings, 0));
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(least_squares_are_least),     cmocka_unit_test(terms_may_be_left_out),
        cmocka_unit_test(a_known_host_is_found),       cmocka_unit_test(noise_is_reported),
        cmocka_unit_test(shapes_are_left_out_in_turn), cmocka_unit_test(wrong_timings_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
