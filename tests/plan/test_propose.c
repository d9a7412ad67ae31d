/* Plans for a simulated host: the budget is respected, a larger one allows a better model, and a budget that is too
 * small is refused with the minimum. */
#include "base/counting.h"
#include "made_up.h"

static bo_plan *propose(bo_context *context, const bo_plan_host *host, bo_plan_budget budget)
{
    bo_plan *plan;
    assert_ok(context, bo_plan_create(context, &(bo_plan_basis){.host = host}, &budget, &plan));
    assert_true(plan->choice_count >= 1 && plan->choice_count <= 6);
    for (size_t i = 0; i < plan->choice_count; i++) {
        const bo_plan_choice *c = &plan->choices[i];
        assert_true(c->shape.layers >= 2 && c->shape.width % c->shape.heads == 0 && c->steps >= 100);
        assert_true(c->shape.batch % c->micro_batch == 0 && c->memory > 0);
        assert_close(c->tokens, (double)(c->steps * c->shape.batch * c->shape.context), 1);
        assert_close(c->minutes.value / (c->step.value * (double)c->steps / 60), 1, 1e-9);
        assert_true(c->loss.low < c->loss.value && c->loss.value < c->loss.high);
        if (budget.memory) assert_true(c->memory <= budget.memory);
        if (budget.minutes > 0) assert_true(c->minutes.value <= budget.minutes);
        if (budget.tokens > 0) assert_true(c->tokens <= budget.tokens);
        if (budget.parameters > 0) assert_close(c->parameters / budget.parameters, 1, 0.11);
        assert_true(c->shape.context == (budget.context ? budget.context : 256));
    }
    return plan;
}

static void minutes_are_kept(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_plan_host *host = made_up_host(context);
    bo_plan *one = propose(context, host, (bo_plan_budget){.minutes = 1});
    bo_plan *ten = propose(context, host, (bo_plan_budget){.minutes = 10, .context = 128});
    assert_true(one->choices[0].minutes.value > 0.85);
    assert_true(ten->choices[0].loss.value < one->choices[0].loss.value);
    assert_true(ten->choices[0].parameters >= one->choices[0].parameters);
    for (size_t i = 1; i < one->choice_count; i++)
        assert_true(one->choices[i].loss.value >= one->choices[0].loss.value);
    bo_plan_destroy(one);
    bo_plan_destroy(ten);
    bo_plan_host_destroy(host);
    bo_context_destroy(context);
}

static void parameters_and_tokens_are_kept(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_plan_host *host = made_up_host(context);
    bo_plan_destroy(propose(context, host, (bo_plan_budget){.parameters = 3e5}));
    bo_plan_destroy(propose(context, host, (bo_plan_budget){.parameters = 3e5, .minutes = 2}));
    bo_plan_destroy(propose(context, host, (bo_plan_budget){.parameters = 3e5, .tokens = 1e6}));
    bo_plan *few = propose(context, host, (bo_plan_budget){.tokens = 5e5});
    bo_plan *many = propose(context, host, (bo_plan_budget){.tokens = 5e6});
    assert_true(many->choices[0].parameters > few->choices[0].parameters);
    bo_plan_destroy(few);
    bo_plan_destroy(many);
    bo_plan_host_destroy(host);
    bo_context_destroy(context);
}

static void memory_is_kept(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_plan_host *host = made_up_host(context);
    bo_plan *free_one = propose(context, host, (bo_plan_budget){.minutes = 3});
    const size_t half = free_one->choices[0].memory / 2;
    bo_plan *tight = propose(context, host, (bo_plan_budget){.minutes = 3, .memory = half});
    assert_true(tight->choices[0].loss.value >= free_one->choices[0].loss.value);
    bo_plan_destroy(free_one);
    bo_plan_destroy(tight);
    bo_plan_host_destroy(host);
    bo_context_destroy(context);
}

/* Planning does not create the weights of a model, and large budgets always have a plan. */
static void large_models_are_planned_at_no_cost(void **state)
{
    (void)state;
    counting c = {0};
    bo_context *context = counting_context(&c, 1);
    bo_plan_host *host = made_up_host(context);
    bo_plan *plan = propose(context, host, (bo_plan_budget){.parameters = 2e8, .memory = (size_t)1 << 40});
    assert_true(plan->choices[0].memory > (size_t)2e9);
    assert_true(c.peak < (size_t)3e8);
    double costs[BO_PLAN_TERM_COUNT];
    for (size_t t = 0; t < BO_PLAN_TERM_COUNT; t++) costs[t] = 1e9 * host->costs[t];
    bo_plan_host slow = *host;
    slow.costs = costs;
    bo_plan_destroy(propose(context, &slow, (bo_plan_budget){.parameters = 3e5}));
    bo_plan_destroy(plan);
    bo_plan_host_destroy(host);
    bo_context_destroy(context);
}

/* The minimum in a message is enough. */
static double minimum_in(const char *message)
{
    const char *at = strstr(message, "at least ");
    if (!at) fail_msg("'%s' has no least", message);
    return atof(at + strlen("at least "));
}

static void too_little_is_refused(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_plan_host *host = made_up_host(context);
    const bo_plan_basis basis = {.host = host};
    bo_plan *plan;
    bo_plan_budget budget = {.minutes = 1e-4};
    assert_fails(context, BO_INVALID, "at least", bo_plan_create(context, &basis, &budget, &plan));
    bo_plan_destroy(propose(context, host, (bo_plan_budget){.minutes = 1.02 * minimum_in(bo_context_error(context))}));
    budget = (bo_plan_budget){.tokens = 100};
    assert_fails(context, BO_INVALID, "at least", bo_plan_create(context, &basis, &budget, &plan));
    bo_plan_destroy(propose(context, host, (bo_plan_budget){.tokens = 1.02 * minimum_in(bo_context_error(context))}));
    budget = (bo_plan_budget){.minutes = 1, .memory = 1 << 20};
    assert_fails(context, BO_INVALID, "at least", bo_plan_create(context, &basis, &budget, &plan));
    bo_plan_destroy(propose(
        context, host,
        (bo_plan_budget){.minutes = 1, .memory = (size_t)(1e6 * minimum_in(bo_context_error(context))) + 100000}));
    budget = (bo_plan_budget){.minutes = 1e-4, .memory = 1 << 20}; /* neither: more minutes would not help */
    assert_fails(context, BO_INVALID, "MB of memory", bo_plan_create(context, &basis, &budget, &plan));
    budget = (bo_plan_budget){.parameters = 10};
    assert_fails(context, BO_INVALID, "about 10 parameters", bo_plan_create(context, &basis, &budget, &plan));
    bo_plan_host_destroy(host);
    bo_context_destroy(context);
}

static void nonsense_is_refused(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    const bo_plan_host none = {.timing_count = 0};
    bo_plan_host *host = made_up_host(context);
    const bo_plan_basis basis = {.host = host};
    bo_plan *plan = (bo_plan *)host;
    bo_plan_budget budget = {0};
    assert_fails(context, BO_INVALID, "found none", bo_plan_create(context, &basis, &budget, &plan));
    assert_null(plan);
    bo_plan_destroy(plan);
    budget = (bo_plan_budget){.minutes = 1, .reserved = {0, 0, 0, 7}};
    assert_fails(context, BO_INVALID, "bo_plan_budget", bo_plan_create(context, &basis, &budget, &plan));
    budget = (bo_plan_budget){.minutes = 1, .tokens = 1e6};
    assert_fails(context, BO_INVALID, "both", bo_plan_create(context, &basis, &budget, &plan));
    budget = (bo_plan_budget){.minutes = NAN};
    assert_fails(context, BO_INVALID, "minutes", bo_plan_create(context, &basis, &budget, &plan));
    budget = (bo_plan_budget){.minutes = 2e9};
    assert_fails(context, BO_INVALID, "minutes: expected a number from 0 to 1e+09",
                 bo_plan_create(context, &basis, &budget, &plan));
    budget = (bo_plan_budget){.minutes = 1, .context = (size_t)1 << 40};
    assert_fails(context, BO_INVALID, "context", bo_plan_create(context, &basis, &budget, &plan));
    budget = (bo_plan_budget){.minutes = 1};
    assert_fails(context, BO_INVALID, "no timings",
                 bo_plan_create(context, &(bo_plan_basis){.host = &none}, &budget, &plan));
    const bo_plan_laws laws = {.count = 0};
    const bo_plan_basis both = {.host = host, .laws = &laws}, neither = {0}, newer = {.reserved = {1}};
    assert_fails(context, BO_INVALID, "found both", bo_plan_create(context, &both, &budget, &plan));
    assert_fails(context, BO_INVALID, "found neither", bo_plan_create(context, &neither, &budget, &plan));
    assert_fails(context, BO_INVALID, "bo_plan_basis", bo_plan_create(context, &newer, &budget, &plan));
    bo_plan_host_destroy(host);
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(minutes_are_kept),
        cmocka_unit_test(parameters_and_tokens_are_kept),
        cmocka_unit_test(large_models_are_planned_at_no_cost),
        cmocka_unit_test(memory_is_kept),
        cmocka_unit_test(too_little_is_refused),
        cmocka_unit_test(nonsense_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
