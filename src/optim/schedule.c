/* Learning rate schedules. */
#include "optim.h"
#include <math.h>

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t warmup_steps(const bo_schedule *schedule, uint64_t steps)
{
    if (schedule->warmup == UINT64_MAX) return 0;
    if (schedule->warmup > 0) return schedule->warmup;
    uint64_t default_steps = steps / 50 > 10 ? steps / 50 : 10;
    return steps == 0 ? default_steps : smaller(default_steps, steps / 2);
}

/* Falls from 1 at `from` to `floor` at `to`. */
static double fall(bo_schedule_kind kind, double step, double from, double to, double floor)
{
    if (step <= from) return 1;
    double part = step < to ? (step - from) / (to - from) : 1;
    double left = kind == BO_SCHEDULE_COSINE ? 0.5 + 0.5 * cos(3.14159265358979323846 * part) : 1 - part;
    return floor + (1 - floor) * left;
}

double bo_schedule_factor(const bo_schedule *schedule, uint64_t step, uint64_t steps)
{
    if (!schedule) return NAN;
    uint64_t warmup = warmup_steps(schedule, steps);
    if (step < warmup) return (double)(step + 1) / (double)warmup;
    if (steps == 0 || schedule->kind == BO_SCHEDULE_CONSTANT) return 1;
    double from = (double)warmup, to = (double)steps;
    if (schedule->kind == BO_SCHEDULE_WSD) from = fmax(from, to - to * (schedule->decay > 0 ? schedule->decay : 0.2));
    return fall(schedule->kind, (double)step, from, to, schedule->floor);
}

bo_status bo_schedule_check(bo_context *context, const bo_schedule *schedule)
{
    BO_REQUIRE(context, schedule);
    BO_TRY(bo_check_reserved(context, "bo_schedule", schedule->reserved));
    if ((unsigned)schedule->kind >= BO_SCHEDULE_COUNT)
        return bo_fail(context, BO_INVALID, "schedule: %d is not one of the %d kinds", (int)schedule->kind,
                       BO_SCHEDULE_COUNT);
    if (!(schedule->floor >= 0 && schedule->floor <= 1))
        return bo_fail(context, BO_INVALID, "schedule: final factor: expected a number from 0 to 1, found %g",
                       schedule->floor);
    if (!(schedule->decay >= 0 && schedule->decay <= 1))
        return bo_fail(context, BO_INVALID, "schedule: decay fraction: expected a number from 0 to 1, found %g",
                       schedule->decay);
    return BO_OK;
}
