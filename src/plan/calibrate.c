/* This machine: which shapes tell its costs apart. */
#include "plan.h"

static const double SECONDS = 40, QUICK_SECONDS = 4;

/* Each row is heavy in another term: layers that are many and small, long contexts (attention), wide models (products of
 * weights, Muon), a large vocabulary; the others lie between. Small ones first: these alone are quick. */
static const bo_plan_shape shapes[] = {
    {.layers = 1, .width = 64, .heads = 2, .context = 64, .batch = 4},
    {.layers = 8, .width = 64, .heads = 2, .context = 64, .batch = 4},
    {.layers = 2, .width = 64, .heads = 2, .context = 1024, .batch = 2},
    {.layers = 2, .width = 128, .heads = 4, .context = 256, .batch = 4},
    {.layers = 6, .width = 128, .heads = 4, .context = 256, .batch = 1},
    {.layers = 1, .width = 256, .heads = 8, .context = 256, .batch = 2},
    {.layers = 4, .width = 96, .heads = 3, .context = 128, .batch = 8},
    {.layers = 1, .width = 128, .heads = 4, .context = 128, .batch = 4, .vocab = 2048},
    {.layers = 3, .width = 192, .heads = 6, .context = 256, .batch = 4},
    {.layers = 1, .width = 512, .heads = 8, .context = 128, .batch = 2},
    {.layers = 1, .width = 384, .heads = 6, .context = 256, .batch = 8},
    {.layers = 2, .width = 256, .heads = 4, .context = 512, .batch = 4},
    {.layers = 1, .width = 768, .heads = 12, .context = 64, .batch = 2},
};
enum { SHAPES = sizeof shapes / sizeof *shapes, QUICK_SHAPES = 8 };

bo_status bo_plan_calibrate(bo_context *context, const bo_plan_calibration *desc, bo_plan_machine *out)
{
    const bo_plan_calibration d = desc ? *desc : (bo_plan_calibration){0};
    const size_t count = d.quick ? QUICK_SHAPES : SHAPES;
    bo_plan_timing timings[SHAPES];
    for (size_t i = 0; i < count; i++) {
        timings[i] = (bo_plan_timing){.shape = shapes[i]};
        timings[i].shape.attention = d.attention;
        timings[i].shape.optimizer = d.optimizer;
    }
    BO_TRY(bo_plan_time(context, d.seconds > 0 ? d.seconds : d.quick ? QUICK_SECONDS : SECONDS, timings, count));
    return bo_plan_fit(context, timings, count, 0, out);
}
