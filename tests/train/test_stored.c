/* Training with activations stored as bfloat16: nearly the losses of float32 in less memory, resumed to the same bits;
 * weights stored in fewer bits cannot be trained. */
#include "runs.h"

static bo_training_score train(runs *r, bo_storage activations, bool checkpointing, bo_model *model)
{
    bo_training_score score;
    bo_trainer *trainer;
    bo_trainer_desc desc = runs_trainer(r, model, NULL);
    desc.activations = activations;
    desc.checkpointing = checkpointing;
    desc.steps = 30;
    assert_ok(r->context, bo_trainer_create(r->context, &desc, &trainer));
    assert_ok(r->context, bo_trainer_run(r->context, trainer));
    assert_ok(r->context, bo_trainer_evaluate(r->context, trainer, &score));
    bo_trainer_destroy(trainer);
    return score;
}

/* The loss starts at log 256 = 5.5; gradients with relative errors of about 2^-8 change the result by a similar
 * amount. */
static void the_loss_is_nearly_the_same(void **state)
{
    runs *r = *state;
    for (int i = 0; i < 2; i++) {
        bo_model *exact = runs_model(r, "rfa-gate"), *half = runs_model(r, "rfa-gate");
        double expected = train(r, BO_STORAGE_FLOAT32, i, exact).loss,
               found = train(r, BO_STORAGE_BFLOAT16, i, half).loss;
        assert_true(expected < 5);
        assert_close(found, expected, 0.02 * expected);
        assert_false(runs_same_weights(exact, half)); /* otherwise bfloat16 was not used */
        bo_model_destroy(exact);
        bo_model_destroy(half);
    }
}

static void stored_activations_need_less_memory(void **state)
{
    runs *r = *state;
    bo_model_desc desc = runs_desc("softmax");
    desc.width = 64, desc.context = 64, desc.layers = 6;
    bo_model *model = runs_model_of(r, &desc);
    bo_training_cost plans[2];
    bo_trainer_desc run = runs_trainer(r, model, NULL);
    run.micro_batch = 4;
    for (int i = 0; i < 2; i++) {
        run.activations = i ? BO_STORAGE_BFLOAT16 : BO_STORAGE_FLOAT32;
        assert_ok(r->context, bo_trainer_estimate(r->context, &run, &plans[i]));
    }
    assert_true((double)plans[1].activation_bytes < 0.65 * (double)plans[0].activation_bytes);
    run.activations = BO_STORAGE_INT8;
    assert_fails(r->context, BO_INVALID, "activations: expected float32 or bfloat16, found int8",
                 bo_trainer_estimate(r->context, &run, &plans[0]));
    bo_model_destroy(model);
}

static bool stop_at_five(void *user, const bo_training_report *report)
{
    (void)user;
    return report->step < 5;
}

static void it_is_resumed_as_it_was(void **state)
{
    runs *r = *state;
    char whole[160], parted[160];
    snprintf(whole, sizeof whole, "%s", runs_path(r, "whole"));
    snprintf(parted, sizeof parted, "%s", runs_path(r, "parted"));
    bo_model *models[3] = {runs_model(r, "rfa-gate"), runs_model(r, "rfa-gate"), runs_model(r, "rfa-gate")};
    for (int i = 0; i < 3; i++) {
        bo_trainer *trainer;
        bo_trainer_desc desc = runs_trainer(r, models[i], NULL);
        desc.directory = i ? parted : whole;
        desc.activations = BO_STORAGE_BFLOAT16;
        if (i == 1) desc.report = stop_at_five;
        if (i == 2) {
            desc.resume = true;
            desc.activations = BO_STORAGE_FLOAT32;
            assert_fails(r->context, BO_INVALID, "different activations: expected \"bfloat16\", found none",
                         bo_trainer_create(r->context, &desc, &trainer));
            desc.activations = BO_STORAGE_BFLOAT16;
        }
        assert_ok(r->context, bo_trainer_create(r->context, &desc, &trainer));
        assert_int_equal(bo_trainer_run(r->context, trainer), i == 1 ? BO_CANCELED : BO_OK);
        bo_trainer_destroy(trainer);
    }
    assert_true(runs_same_weights(models[0], models[2]));
    for (int i = 0; i < 3; i++) bo_model_destroy(models[i]);
}

static void stored_weights_are_not_trained(void **state)
{
    runs *r = *state;
    bo_model *model = runs_model(r, "rfa-gate");
    bo_trainer *trainer;
    assert_ok(r->context, bo_model_set_storage(r->context, model, BO_STORAGE_BFLOAT16));
    const bo_trainer_desc desc = runs_trainer(r, model, NULL);
    assert_fails(r->context, BO_INVALID, "stored in fewer bits, for inference only",
                 bo_trainer_create(r->context, &desc, &trainer));
    bo_model_destroy(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_loss_is_nearly_the_same, runs_setup, runs_teardown),
        cmocka_unit_test_setup_teardown(stored_activations_need_less_memory, runs_setup, runs_teardown),
        cmocka_unit_test_setup_teardown(it_is_resumed_as_it_was, runs_setup, runs_teardown),
        cmocka_unit_test_setup_teardown(stored_weights_are_not_trained, runs_setup, runs_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
