/* The allocations of a plan fail: BO_MEMORY, nothing leaks, and a second call succeeds. */
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

static bo_status fit_host(setting *s, bo_plan_host **out)
{
    bo_plan_timing timings[MADE_UP] = {{.seconds = 0}};
    for (size_t i = 0; i < MADE_UP; i++) {
        timings[i].shape = made_up_shape(1 + i, 32 << i % 3, 64 + 64 * (i % 2), 1 + i / 2);
        timings[i].seconds = 1e-3 * (double)(1 + i);
    }
    return bo_plan_host_fit(s->context, timings, MADE_UP, 0, out);
}

static bo_status fit(void *what)
{
    bo_plan_host *host;
    const bo_status status = fit_host(what, &host);
    bo_plan_host_destroy(host);
    return status;
}

static bo_status propose(void *what)
{
    setting *s = what;
    const bo_plan_timing timing = {.shape.attention = "softmax"};
    const bo_plan_host host = {.costs = (const double[]){4e-4, 5e-11, 1e-11, 2e-11},
                               .cost_count = BO_PLAN_TERM_COUNT,
                               .error = 0.05,
                               .timings = &timing,
                               .timing_count = 1};
    bo_plan *plan;
    const bo_status status =
        bo_plan_create(s->context, &(bo_plan_basis){.host = &host}, &(bo_plan_budget){.tokens = 6e4}, &plan);
    bo_plan_destroy(plan);
    return status;
}

static bo_status keep(void *what)
{
    setting *s = what;
    bo_plan_host *host, *again = NULL;
    bo_status status = fit_host(s, &host);
    if (status == BO_OK) status = bo_plan_host_save(s->context, host, "plan_memory.json");
    if (status == BO_OK) status = bo_plan_host_load(s->context, "plan_memory.json", &again);
    bo_plan_host_destroy(host);
    bo_plan_host_destroy(again);
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
