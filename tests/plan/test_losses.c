/* Loss laws: a known law is recovered, with intervals that show its uncertainty. */
#include "made_up.h"

static bo_plan_range loss_at(const bo_plan_losses *losses, double parameters, double tokens, double batch)
{
    bo_plan_range range;
    bo_plan_loss(losses, parameters, tokens, batch, &range);
    return range;
}

enum { RUNS = 24 };
static const bo_plan_law truth = {
    .floor = 1.1, .size = 60, .size_power = 0.4, .data = 400, .data_power = 0.45, .batch = 4000};

static void make_runs(bo_plan_run runs[RUNS], double noise)
{
    bo_rng rng = bo_rng_make(5, 1);
    for (size_t i = 0; i < RUNS; i++) {
        bo_plan_run *r = &runs[i];
        r->parameters = 2e4 * pow(3, (double)(i % 4));
        r->tokens = 2e5 * pow(4, (double)(i / 4 % 3));
        r->batch = i / 12 ? 1024 : 8192;
        r->loss = bo_plan_law_at(&truth, r->parameters, r->tokens, r->batch) * (1 + noise * bo_rng_normal(&rng));
    }
}

static void a_known_law_is_found(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_plan_run runs[RUNS];
    bo_plan_losses *losses;
    make_runs(runs, 0);
    assert_ok(context, bo_plan_losses_fit(context, runs, RUNS, &losses));
    assert_true(losses->error < 1e-3);
    assert_close(losses->law.size_power / truth.size_power, 1, 0.1);
    assert_close(losses->law.data_power / truth.data_power, 1, 0.1);
    assert_close(losses->law.batch / truth.batch, 1, 0.1);
    const bo_plan_range far = loss_at(losses, 5e6, 2e7, 2048);
    assert_close(far.value / bo_plan_law_at(&truth, 5e6, 2e7, 2048), 1, 0.02);
    bo_plan_losses_destroy(losses);
    bo_context_destroy(context);
}

/* With 1% noise, predictions for ten times the budget are within their interval, which is wider there. */
static void intervals_hold_the_truth(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_plan_run runs[RUNS];
    bo_plan_losses *losses;
    make_runs(runs, 0.01);
    assert_ok(context, bo_plan_losses_fit(context, runs, RUNS, &losses));
    assert_true(losses->error > 0.004 && losses->error < 0.02);
    const bo_plan_range near = loss_at(losses, 1e5, 1e6, 2048), far = loss_at(losses, 5e6, 3e7, 2048);
    const double near_truth = bo_plan_law_at(&truth, 1e5, 1e6, 2048),
                 far_truth = bo_plan_law_at(&truth, 5e6, 3e7, 2048);
    assert_true(near.low < near_truth && near_truth < near.high);
    assert_true(far.low < far_truth && far_truth < far.high);
    assert_true(far.high - far.low > near.high - near.low);
    bo_plan_losses_destroy(losses);
    bo_context_destroy(context);
}

static void one_batch_needs_no_critical_one(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_plan_run runs[RUNS];
    bo_plan_losses *losses;
    make_runs(runs, 0);
    assert_ok(context, bo_plan_losses_fit(context, runs, 12, &losses)); /* all with the same batch size */
    assert_true(isinf(losses->law.batch) && losses->error < 1e-3);
    bo_plan_losses_destroy(losses);
    bo_context_destroy(context);
}

/* More parameters, more tokens and smaller batches never increase the loss, and the law fits bytes of English. */
static void the_default_law_is_sensible(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_plan_losses *losses;
    assert_ok(context, bo_plan_losses_fit(context, NULL, 0, &losses));
    assert_true(losses->error < 0.05);
    const double middle = loss_at(losses, 4e5, 2e6, 2048).value;
    assert_true(middle > 1.2 && middle < 1.7);
    assert_true(loss_at(losses, 8e5, 2e6, 2048).value < middle);
    assert_true(loss_at(losses, 4e5, 4e6, 2048).value < middle);
    assert_true(loss_at(losses, 4e5, 2e6, 16384).value > middle);
    bo_plan_losses_destroy(losses);
    bo_context_destroy(context);
}

static void wrong_runs_are_refused(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_plan_run runs[RUNS];
    bo_plan_losses *losses;
    make_runs(runs, 0);
    losses = (bo_plan_losses *)runs;
    assert_fails(context, BO_INVALID, "found 7", bo_plan_losses_fit(context, runs, 7, &losses));
    assert_null(losses);
    bo_plan_losses_destroy(losses);
    assert_fails(context, BO_INVALID, "found 65", bo_plan_losses_fit(context, runs, 65, &losses));
    runs[4].loss = NAN;
    assert_fails(context, BO_INVALID, "run 4", bo_plan_losses_fit(context, runs, RUNS, &losses));
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_known_law_is_found),
        cmocka_unit_test(intervals_hold_the_truth),
        cmocka_unit_test(one_batch_needs_no_critical_one),
        cmocka_unit_test(the_default_law_is_sensible),
        cmocka_unit_test(wrong_runs_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
