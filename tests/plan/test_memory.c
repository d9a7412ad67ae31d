/* Out of memory at the allocations of a plan: BO_MEMORY, nothing leaked, and it succeeds when asked again. */
#include "base/counting.h"
#include "made_up.h"
#include <unistd.h>

typedef struct setting {
    counting counted;
    bo_context *context;
} setting;

static bo_status time_steps(void *what)
{
    setting *s = what;
    bo_plan_timing timings[2] = {{.shape = made_up_shape(1, 32, 16, 1)}, {.shape = made_up_shape(1, 32, 32, 1)}};
    return bo_plan_time(s->context, 1e-3, timings, 2);
}

static bo_status fit(void *what)
{
    setting *s = what;
    bo_plan_timing timings[MADE_UP] = {{.seconds = 0}};
    bo_plan_machine machine;
    for (size_t i = 0; i < MADE_UP; i++) {
        timings[i].shape = made_up_shape(1 + i, 32 << i % 3, 64 + 64 * (i % 2), 1 + i / 2);
        timings[i].seconds = 1e-3 * (double)(1 + i);
    }
    return bo_plan_fit(s->context, timings, MADE_UP, 0, &machine);
}

static bo_status propose(void *what)
{
    setting *s = what;
    bo_plan_machine machine = {.count = 1, .cost = {4e-4, 5e-11, 1e-11, 2e-11}, .error = 0.05};
    machine.timings[0].shape.attention = "exact";
    bo_plan plan;
    return bo_plan_propose(s->context, &machine, NULL, &(bo_plan_budget){.tokens = 6e4}, &plan);
}

static bo_status keep(void *what)
{
    setting *s = what;
    bo_plan_machine machine = {.count = 0};
    bo_status status = fit(what);
    machine.count = 6;
    for (size_t i = 0; i < machine.count; i++)
        machine.timings[i] =
            (bo_plan_timing){.shape = made_up_shape(1 + i, 32 << i % 3, 64 << i % 2, 1 + i), .seconds = 1 + (double)i};
    for (size_t i = 0; i < machine.count; i++)
        machine.timings[i].shape.attention = "exact", machine.timings[i].shape.vocab = 256;
    machine.threads = 1;
    strcpy(machine.isa, "ref");
    if (status == BO_OK) status = bo_plan_machine_save(s->context, &machine, "plan_memory.json");
    if (status == BO_OK) status = bo_plan_machine_load(s->context, "plan_memory.json", &machine);
    return status;
}

/* The count of operations may be missing. */
static void inject(bo_status (*work)(void *), size_t all, size_t every)
{
    setting s = {0};
    s.context = counting_context(&s.counted, 1);
    assert_ok(s.context, work(&s));
    counting_inject(&(injection){&s.counted, s.context, work, &s, all, every, "the sequences of a call"});
    bo_context_destroy(s.context);
    assert_true(s.counted.live == 0);
}

static void timing_may_fail(void **state)
{
    (void)state;
    inject(time_steps, 30, 29);
}

static void fitting_may_fail(void **state)
{
    (void)state;
    inject(fit, 30, 3);
}

static void planning_may_fail(void **state)
{
    (void)state;
    inject(propose, 10, 997);
}

static void keeping_may_fail(void **state)
{
    (void)state;
    inject(keep, 30, 5);
    unlink("plan_memory.json");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(timing_may_fail), cmocka_unit_test(fitting_may_fail),
                                       cmocka_unit_test(planning_may_fail), cmocka_unit_test(keeping_may_fail)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
