/* A simulated host: timings of the shapes of a calibration, computed from known costs. */
#ifndef TEST_PLAN_MADE_UP_H
#define TEST_PLAN_MADE_UP_H

#include "plan/plan.h"
#include "testing.h"

enum { MADE_UP = 8 };
static const double made_up_cost[BO_PLAN_TERM_COUNT] = {4e-4, 5e-11, 1e-11, 2e-11};

static inline bo_plan_shape made_up_shape(size_t layers, size_t width, size_t context, size_t batch)
{
    return (bo_plan_shape){.layers = layers, .width = width, .heads = width / 32, .context = context, .batch = batch};
}

static inline double made_up_seconds(bo_context *context, const bo_plan_shape *shape)
{
    bo_plan_counts counts;
    double terms[BO_PLAN_TERM_COUNT], sum = 0;
    assert_ok(context, bo_plan_count(context, shape, &counts));
    bo_plan_terms_of(&counts, terms);
    for (size_t t = 0; t < BO_PLAN_TERM_COUNT; t++) sum += made_up_cost[t] * terms[t];
    return sum;
}

static inline void made_up_timings(bo_context *context, const char *attention, bo_plan_timing out[MADE_UP])
{
    const bo_plan_shape shapes[MADE_UP] = {made_up_shape(1, 64, 64, 4),   made_up_shape(8, 64, 64, 4),
                                           made_up_shape(2, 64, 1024, 2), made_up_shape(2, 128, 256, 8),
                                           made_up_shape(6, 128, 256, 2), made_up_shape(1, 256, 512, 2),
                                           made_up_shape(4, 96, 128, 16), made_up_shape(1, 512, 64, 1)};
    for (size_t i = 0; i < MADE_UP; i++) {
        out[i] = (bo_plan_timing){.shape = shapes[i], .spread = 0.01};
        out[i].shape.attention = attention;
        out[i].seconds = made_up_seconds(context, &out[i].shape);
    }
}

static inline bo_plan_host *made_up_host(bo_context *context)
{
    bo_plan_timing timings[MADE_UP];
    bo_plan_host *host;
    made_up_timings(context, NULL, timings);
    assert_ok(context, bo_plan_host_fit(context, timings, MADE_UP, 0, &host));
    return host;
}

#endif
