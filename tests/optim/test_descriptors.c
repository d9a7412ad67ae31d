/* Names, defaults, invalid descriptors, and schedules at their boundaries. */
#include "optim/enums.h"
#include "optim_testing.h"

static void test_names(void **state)
{
    (void)state;
    for (int i = 0; i < BO_OPTIMIZER_COUNT; i++) {
        bo_optimizer_kind kind;
        assert_true(bo_optimizer_kind_parse(bo_optimizer_kind_name((bo_optimizer_kind)i), &kind) && (int)kind == i);
    }
    for (int i = 0; i < BO_SCHEDULE_COUNT; i++) {
        bo_schedule_kind kind;
        assert_true(bo_schedule_kind_parse(bo_schedule_kind_name((bo_schedule_kind)i), &kind) && (int)kind == i);
    }
    for (int i = 0; i < BO_MUON_FACTOR_COUNT; i++) {
        bo_muon_factor factor;
        assert_true(bo_muon_factor_parse(bo_muon_factor_name((bo_muon_factor)i), &factor) && (int)factor == i);
    }
    for (int i = 0; i < BO_MUON_ITERATION_COUNT; i++) {
        bo_muon_iteration iteration;
        assert_true(bo_muon_iteration_parse(bo_muon_iteration_name((bo_muon_iteration)i), &iteration) &&
                    (int)iteration == i);
    }
    bo_optimizer_kind kind = BO_OPTIMIZER_SGD;
    assert_false(bo_optimizer_kind_parse("adam", &kind));
    assert_false(bo_optimizer_kind_parse(NULL, &kind));
    assert_int_equal(kind, BO_OPTIMIZER_SGD);
    assert_true(bo_optimizer_kind_parse("AdamW", &kind));
    assert_null(bo_optimizer_kind_name(BO_OPTIMIZER_COUNT));
}

static void test_defaults(void **state)
{
    (void)state;
    static const double rates[] = {0.02, 3e-3, 0.1, 1e-3, 1e-4}, momenta[] = {0.95, -1, 0.9, 0.9, -1};
    bo_context *context = test_context(1);
    for (int i = 0; i < BO_OPTIMIZER_COUNT; i++) {
        bo_optimizer_desc out, again;
        assert_ok(context, bo_optimizer_resolve(context, &(bo_optimizer_desc){.kind = (bo_optimizer_kind)i}, &out));
        assert_true(out.rate == rates[i] && out.momentum == momenta[i] && out.other_rate == 3e-3);
        assert_true(out.beta1 == 0.9 && out.beta2 == 0.95 && out.epsilon == 1e-10);
        assert_true(out.clip == -1 && out.average == 0 && out.decay == 0 && out.iterations == 5);
        assert_ok(context, bo_optimizer_resolve(context, &out, &again));
        assert_memory_equal(&out, &again, sizeof out);
    }
    bo_optimizer_desc out, cubic = {.iteration = BO_MUON_ITERATION_CUBIC, .momentum = -3, .clip = -2};
    assert_ok(context, bo_optimizer_resolve(context, &cubic, &out));
    assert_true(out.iterations == 12 && out.momentum == -1 && out.clip == -1);
    bo_context_destroy(context);
}

static void test_refusals(void **state)
{
    (void)state;
    static const struct {
        bo_optimizer_desc desc;
        const char *message;
    } bad[] = {
        {{.rate = -1e-3}, "rate: expected a number that is at least 0 and finite, found -0.001"},
        {{.rate = NAN}, "rate"},
        {{.rate = INFINITY}, "rate"},
        {{.other_rate = -1}, "AdamW"},
        {{.decay = -0.1}, "weight decay"},
        {{.momentum = 1}, "momentum: expected a number in [0, 1), found 1"},
        {{.momentum = NAN}, "momentum"},
        {{.beta1 = 1}, "beta1"},
        {{.beta1 = -0.5}, "beta1"},
        {{.beta2 = 1.5}, "beta2"},
        {{.epsilon = -1}, "epsilon"},
        {{.epsilon = 1e-50}, "0 in single precision"},
        {{.clip = NAN}, "clipping"},
        {{.average = 1}, "moving average"},
        {{.average = -0.1}, "moving average"},
        {{.kind = BO_OPTIMIZER_COUNT}, "optimizer: 5"},
        {{.factor = BO_MUON_FACTOR_COUNT}, "factor"},
        {{.iteration = BO_MUON_ITERATION_COUNT}, "iteration"},
        {{.iterations = 101}, "at most 100"},
    };
    bo_context *context = test_context(1);
    bo_weights *weights = test_weights(context);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        bo_optimizer *optimizer = (bo_optimizer *)&context;
        assert_fails(context, BO_INVALID, bad[i].message,
                     bo_optimizer_create(context, &bad[i].desc, weights, &optimizer));
        assert_null(optimizer);
        assert_int_equal(bo_optimizer_bytes(context, &bad[i].desc, weights), 0);
    }
    bo_optimizer *optimizer;
    double norm;
    assert_ok(context, bo_optimizer_create(context, &(bo_optimizer_desc){0}, weights, &optimizer));
    assert_fails(context, BO_INVALID, "factor", bo_optimizer_step(context, optimizer, -1, &norm));
    assert_fails(context, BO_INVALID, "factor", bo_optimizer_step(context, optimizer, NAN, &norm));
    bo_optimizer_destroy(optimizer);
    bo_optimizer_desc unknown = {.reserved = {0, 1}};
    bo_schedule later = {.reserved = {1}};
    assert_fails(context, BO_INVALID, "bo_optimizer_desc: its reserved members",
                 bo_optimizer_create(context, &unknown, weights, &optimizer));
    assert_fails(context, BO_INVALID, "bo_schedule: its reserved members", bo_schedule_check(context, &later));
    for (size_t i = 0; i < bo_weights_count(weights); i++) bo_weights_set_frozen(weights, i, true);
    assert_fails(context, BO_INVALID, "no trainable weight",
                 bo_optimizer_create(context, &(bo_optimizer_desc){0}, weights, &optimizer));
    bo_weights_destroy(weights);
    bo_context_destroy(context);
}

/* Without memory for gradients, training is refused. */
static void test_no_gradients(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_weights *weights;
    bo_optimizer *optimizer;
    size_t index;
    bo_weight_desc desc = {.name = "alone", .rows = 2, .columns = 3, .rank = 2, .shape = (size_t[]){2, 3}};
    assert_ok(context, bo_weights_create(context, &weights));
    assert_ok(context, bo_weights_declare(context, weights, &desc, &index));
    assert_true(bo_optimizer_bytes(context, &(bo_optimizer_desc){0}, weights) > 0);
    assert_ok(context, bo_weights_allocate(context, weights, false));
    assert_fails(context, BO_INVALID, "alone has no memory",
                 bo_optimizer_create(context, &(bo_optimizer_desc){0}, weights, &optimizer));
    bo_weights_destroy(weights);
    bo_context_destroy(context);
}

/* ---- schedules --------------------------------------------------------------------------------------------------- */

static double factor(bo_schedule schedule, uint64_t step, uint64_t steps)
{
    return bo_schedule_factor(&schedule, step, steps);
}

static void test_schedules(void **state)
{
    (void)state;
    for (int kind = 0; kind < BO_SCHEDULE_COUNT; kind++) { /* all rise equally, never exceed 1, and end at the floor */
        bo_schedule s = {.kind = (bo_schedule_kind)kind, .warmup = 10, .floor = 0.1};
        for (uint64_t t = 0; t < 10; t++) assert_close(factor(s, t, 110), (double)(t + 1) / 10, 1e-15);
        assert_close(factor(s, 10, 110), 1, 1e-15);
        double end = kind == BO_SCHEDULE_CONSTANT ? 1 : 0.1;
        assert_close(factor(s, 110, 110), end, 1e-12);
        assert_close(factor(s, 1000, 110), end, 1e-12);
        for (uint64_t t = 10; t < 110; t++) assert_true(factor(s, t + 1, 110) <= factor(s, t, 110));
    }
    bo_schedule cosine = {.warmup = 10, .floor = 0.1},
                linear = {.kind = BO_SCHEDULE_LINEAR, .warmup = 10, .floor = 0.1};
    assert_close(factor(cosine, 60, 110), 0.55, 1e-12);
    assert_close(factor(cosine, 35, 110), 0.1 + 0.9 * (0.5 + 0.5 * sqrt(0.5)), 1e-12);
    assert_close(factor(linear, 35, 110), 0.1 + 0.9 * 0.75, 1e-12);
    bo_schedule wsd = {.kind = BO_SCHEDULE_WSD, .warmup = 10};
    assert_close(factor(wsd, 80, 100), 1, 0);
    assert_close(factor(wsd, 90, 100), 0.5, 1e-12);
    wsd.decay = 1; /* all steps after the warmup */
    assert_close(factor(wsd, 55, 100), 0.5, 1e-12);
}

static void test_warmups(void **state)
{
    (void)state;
    bo_schedule default_warmup = {.kind = BO_SCHEDULE_CONSTANT},
                none = {.kind = BO_SCHEDULE_CONSTANT, .warmup = UINT64_MAX};
    assert_close(factor(default_warmup, 0, 100), 0.1, 1e-15);     /* ten steps */
    assert_close(factor(default_warmup, 0, 10000), 0.005, 1e-15); /* a fiftieth of the steps */
    assert_close(factor(default_warmup, 0, 4), 0.5, 1e-15);       /* half of a few steps */
    assert_close(factor(default_warmup, 0, 1), 1, 0);
    assert_close(factor(default_warmup, 0, 0), 0.1, 1e-15); /* the number of steps is not known yet */
    assert_close(factor(default_warmup, 500, 0), 1, 0);
    assert_close(factor(none, 0, 100), 1, 0);
    bo_schedule longer = {.warmup = 200}; /* longer than the run */
    assert_close(factor(longer, 99, 100), 0.5, 1e-15);
    bo_schedule cosine = {.warmup = UINT64_MAX};
    assert_close(factor(cosine, 0, 1), 1, 0);
}

static void test_schedule_refusals(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    assert_ok(context, bo_schedule_check(context, &(bo_schedule){0}));
    assert_fails(context, BO_INVALID, "kinds", bo_schedule_check(context, &(bo_schedule){.kind = BO_SCHEDULE_COUNT}));
    assert_fails(context, BO_INVALID, "final factor", bo_schedule_check(context, &(bo_schedule){.floor = -0.1}));
    assert_fails(context, BO_INVALID, "final factor", bo_schedule_check(context, &(bo_schedule){.floor = NAN}));
    assert_fails(context, BO_INVALID, "decay fraction", bo_schedule_check(context, &(bo_schedule){.decay = 1.1}));
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_no_gradients),
        cmocka_unit_test(test_schedules),
        cmocka_unit_test(test_warmups),
        cmocka_unit_test(test_schedule_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
