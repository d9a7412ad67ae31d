/* Minutes are converted to steps once; then the run has a fixed number of steps. */
#include "runs.h"

typedef struct observed {
    uint64_t steps[2]; /* of the first report that has them, and of the last */
    uint64_t stop_at;
} observed;

static bool note(void *user, const bo_training_report *report)
{
    observed *s = user;
    if (report->steps && !s->steps[0]) s->steps[0] = report->steps;
    s->steps[1] = report->steps;
    return report->step < s->stop_at;
}

static bo_trainer_desc timed(runs *r, bo_model *model, const char *name, observed *s)
{
    bo_trainer_desc desc = runs_trainer(r, model, name);
    desc.steps = 0;
    desc.eval_every = 0;
    desc.minutes = 0.02;
    desc.report = note;
    desc.user = s;
    return desc;
}

/* Returns the seconds of a timed run. */
static double timed_run(runs *r, const char *name)
{
    bo_model *model = runs_model(r, "rfa-gate");
    observed s = {.stop_at = UINT64_MAX};
    bo_trainer_desc desc = timed(r, model, name, &s);
    bo_trainer *trainer;
    assert_ok(r->context, bo_trainer_create(r->context, &desc, &trainer));
    assert_ok(r->context, bo_trainer_run(r->context, trainer));
    const bo_training_report *report = bo_trainer_report(trainer);
    assert_true(report->step == report->steps && report->step > 10 && s.steps[0] == s.steps[1]);
    const double seconds = report->seconds;
    bo_trainer_destroy(trainer);
    bo_model_destroy(model);
    return seconds;
}

/* Steps of 100 microseconds on a shared host: other processes may slow down a run after its steps were counted, so one
 * of several runs has to meet a wide bound. */
static void steps_fill_the_time(void **state)
{
    enum { TRIES = 8 };
    const double expected = 60 * 0.02;
    double seconds = 0;
    for (int i = 0; i < TRIES; i++) {
        char name[16];
        snprintf(name, sizeof name, "timed-%d", i);
        seconds = timed_run(*state, name);
        if (seconds > expected / 3 && seconds < 3 * expected) return;
    }
    fail_msg("the last of %d runs took %g seconds instead of %g", TRIES, seconds, expected);
}

/* A copy of the directory, made during the run, resumes to the same bits. */
static void copied_runs_resume_with_the_same_bits(void **state)
{
    runs *r = *state;
    bo_model *first = runs_model(r, "rfa-gate"), *second = runs_model(r, "rfa-gate");
    bo_trainer *trainer;
    char command[256];
    observed s = {.stop_at = 20};
    bo_trainer_desc desc = timed(r, first, "one", &s);
    assert_ok(r->context, bo_trainer_create(r->context, &desc, &trainer));
    assert_int_equal(bo_trainer_run(r->context, trainer), BO_CANCELED);
    bo_trainer_destroy(trainer);
    snprintf(command, sizeof command, "cp -r %s/one %s/two", r->directory, r->directory);
    assert_int_equal(system(command), 0);
    for (int which = 0; which < 2; which++) {
        observed rest = {.stop_at = UINT64_MAX};
        desc = timed(r, which ? second : first, which ? "two" : "one", &rest);
        desc.resume = true;
        assert_ok(r->context, bo_trainer_create(r->context, &desc, &trainer));
        assert_ok(r->context, bo_trainer_run(r->context, trainer));
        assert_int_equal(bo_trainer_report(trainer)->step, s.steps[1]);
        bo_trainer_destroy(trainer);
    }
    assert_true(runs_same_weights(first, second));
    desc.minutes = 1;
    assert_fails(r->context, BO_INVALID, "different number of minutes", bo_trainer_create(r->context, &desc, &trainer));
    bo_model_destroy(first);
    bo_model_destroy(second);
}

/* With a budget shorter than a step, the run takes at least one step and ends. */
static void a_moment_is_enough(void **state)
{
    runs *r = *state;
    bo_model *model = runs_model(r, "rfa-gate");
    observed s = {.stop_at = UINT64_MAX};
    bo_trainer_desc desc = timed(r, model, NULL, &s);
    bo_trainer *trainer;
    desc.minutes = 1e-9;
    assert_ok(r->context, bo_trainer_create(r->context, &desc, &trainer));
    assert_ok(r->context, bo_trainer_run(r->context, trainer));
    assert_true(bo_trainer_report(trainer)->step >= 1 && bo_trainer_report(trainer)->step <= 3);
    double loss;
    bo_trainer_destroy(trainer);
    assert_ok(r->context, bo_trainer_create(r->context, &desc, &trainer));
    assert_fails(r->context, BO_INVALID, "number of steps", bo_trainer_step(r->context, trainer, &loss));
    bo_trainer_destroy(trainer);
    bo_model_destroy(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(steps_fill_the_time, runs_setup, runs_teardown),
        cmocka_unit_test_setup_teardown(copied_runs_resume_with_the_same_bits, runs_setup, runs_teardown),
        cmocka_unit_test_setup_teardown(a_moment_is_enough, runs_setup, runs_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
