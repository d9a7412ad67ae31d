/* Training with products in bfloat16: nearly the losses of float32, resumed to the same bits in the same precision
 * only. */
#include "runs.h"

static bo_context *rounding(int threads)
{
    bo_context *context = NULL;
    bo_context_desc desc = {.threads = threads, .precision = BO_PRECISION_BFLOAT16};
    assert_int_equal(bo_context_create(&desc, &context), BO_OK);
    return context;
}

static bo_training_score train(bo_context *context, runs *r, const char *attention, bo_model **model)
{
    bo_training_score score;
    bo_trainer *trainer;
    bo_model_desc desc = runs_desc(attention);
    assert_ok(context, bo_model_create(context, &desc, r->tokenizer, model));
    bo_trainer_desc run = runs_trainer(r, *model, NULL);
    run.steps = 30;
    assert_ok(context, bo_trainer_create(context, &run, &trainer));
    assert_ok(context, bo_trainer_run(context, trainer));
    assert_ok(context, bo_trainer_evaluate(context, trainer, &score));
    bo_trainer_destroy(trainer);
    return score;
}

/* The loss starts at log 256 = 5.5; gradients with relative errors of about 2^-8 change the result by a similar
 * amount. */
static void the_loss_is_nearly_the_same(void **state)
{
    static const char *const kinds[] = {"softmax", "rfa-gate", "favor", "gla"};
    runs *r = *state;
    bo_context *half = rounding(2), *alone = rounding(1);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        bo_model *models[3];
        double expected = train(r->context, r, kinds[i], &models[0]).loss,
               found = train(half, r, kinds[i], &models[1]).loss;
        train(alone, r, kinds[i], &models[2]);
        assert_true(expected < 5);
        assert_close(found, expected, 0.02 * expected);
        assert_false(runs_same_weights(models[0], models[1])); /* otherwise bfloat16 was not used */
        assert_true(runs_same_weights(models[1], models[2]));  /* for any number of threads */
        for (int m = 0; m < 3; m++) bo_model_destroy(models[m]);
    }
    bo_context_destroy(half), bo_context_destroy(alone);
}

static bool stop_at_five(void *user, const bo_training_report *report)
{
    (void)user;
    return report->step < 5;
}

static void it_is_resumed_as_it_was(void **state)
{
    runs *r = *state;
    bo_context *half = rounding(2);
    char whole[160], parted[160];
    snprintf(whole, sizeof whole, "%s", runs_path(r, "whole"));
    snprintf(parted, sizeof parted, "%s", runs_path(r, "parted"));
    bo_model *models[3];
    for (int i = 0; i < 3; i++) {
        bo_trainer *trainer;
        bo_model_desc model = runs_desc("favor"); /* with feature maps in the checkpoint */
        assert_ok(half, bo_model_create(half, &model, r->tokenizer, &models[i]));
        bo_trainer_desc desc = runs_trainer(r, models[i], NULL);
        desc.directory = i ? parted : whole;
        desc.resume = i == 2;
        if (i == 1) desc.report = stop_at_five;
        if (i == 2)
            assert_fails(r->context, BO_INVALID, "different precision: expected \"bfloat16\", found none",
                         bo_trainer_create(r->context, &desc, &trainer));
        assert_ok(half, bo_trainer_create(half, &desc, &trainer));
        assert_int_equal(bo_trainer_run(half, trainer), i == 1 ? BO_CANCELED : BO_OK);
        bo_trainer_destroy(trainer);
    }
    assert_true(runs_same_weights(models[0], models[2]));
    for (int i = 0; i < 3; i++) bo_model_destroy(models[i]);
    bo_context_destroy(half);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_loss_is_nearly_the_same, runs_setup, runs_teardown),
        cmocka_unit_test_setup_teardown(it_is_resumed_as_it_was, runs_setup, runs_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
