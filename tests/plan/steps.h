/* Checks the predicted times of steps with shapes that were not fitted. Uses one thread and its CPU time, so that other
 * load does not matter; caches and clock rates may still cause errors, so the test may be repeated. */
#ifndef TEST_PLAN_STEPS_H
#define TEST_PLAN_STEPS_H

#include "made_up.h"

enum { FITTED = 7, CHECKED = 4, TRIES = 3 };

static inline bool steps_are_predicted(bo_context *context, const char *attention)
{
    const bo_plan_shape shapes[FITTED + CHECKED] = {made_up_shape(1, 64, 64, 4),   made_up_shape(6, 64, 64, 2),
                                                    made_up_shape(1, 64, 512, 2),  made_up_shape(2, 128, 128, 2),
                                                    made_up_shape(1, 256, 128, 1), made_up_shape(3, 96, 128, 4),
                                                    made_up_shape(1, 192, 64, 1), /* not fitted: */
                                                    made_up_shape(4, 64, 256, 2),  made_up_shape(2, 96, 256, 2),
                                                    made_up_shape(1, 128, 256, 4), made_up_shape(3, 160, 128, 1)};
    bo_plan_timing timings[FITTED + CHECKED];
    bo_plan_host *host;
    bool all = true;
    for (size_t i = 0; i < FITTED + CHECKED; i++) {
        timings[i] = (bo_plan_timing){.shape = shapes[i]};
        timings[i].shape.attention = attention;
    }
    assert_ok(context, bo_plan_time(context, 0.8, timings, FITTED + CHECKED));
    assert_ok(context, bo_plan_host_fit(context, timings, FITTED, 0, &host));
    for (size_t i = FITTED; i < FITTED + CHECKED; i++) {
        bo_plan_range step;
        assert_ok(context, bo_plan_step(context, host, &timings[i].shape, &step));
        const double ratio = step.value / timings[i].seconds;
        if (fabs(ratio - 1) > 0.2) all = false;
        if (fabs(ratio - 1) > 0.2)
            print_message("%s, %zu x %zu, context %zu: predicted %.3g ms, took %.3g\n", attention, shapes[i].layers,
                          shapes[i].width, shapes[i].context, 1e3 * step.value, 1e3 * timings[i].seconds);
    }
    bo_plan_host_destroy(host);
    return all;
}

static inline void assert_steps_are_predicted(bo_context *context, const char *attention)
{
    bool found = false;
    for (size_t t = 0; t < TRIES && !found; t++) found = steps_are_predicted(context, attention);
    if (!found) fail_msg("%s: no try of %d within a fifth", attention, TRIES);
}

#endif
