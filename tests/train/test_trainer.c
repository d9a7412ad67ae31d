/* Training: losses fall, parts of a batch add up, frozen weights do not change, errors are named. */
#include "runs.h"

static void losses_fall(void **state)
{
    runs *r = *state;
    bo_model *model = runs_model(r, "rfa-gate");
    bo_trainer_desc desc = runs_trainer(r, model, NULL);
    bo_trainer *trainer;
    desc.steps = 200;
    desc.eval_every = 100;
    desc.optimizer = (bo_optimizer_desc){.kind = BO_OPTIMIZER_ADAMW, .rate = 0.01};
    assert_ok(r->context, bo_trainer_create(r->context, &desc, &trainer));
    bo_training_score before, after;
    assert_ok(r->context, bo_trainer_evaluate(r->context, trainer, &before));
    assert_close(before.loss, log(256), 0.7); /* untrained */
    assert_ok(r->context, bo_trainer_run(r->context, trainer));
    assert_ok(r->context, bo_trainer_evaluate(r->context, trainer, &after));
    const bo_training_report *report = bo_trainer_report(trainer);
    assert_int_equal(report->step, 200);
    assert_int_equal(report->tokens, 200 * 4 * 16);
    assert_true(after.loss < 2.2); /* 16 characters with unequal frequencies: below log 16 = 2.8 only with context */
    assert_true(report->valid_loss == after.loss && report->best_valid_loss <= after.loss);
    assert_true(report->loss < 2.2 && report->gradient_norm > 0 && report->tokens_per_second > 0 && report->gflops > 0);
    bo_trainer_destroy(trainer);
    bo_model_destroy(model);
}

/* Every kind of attention and mixer, and every option of a run, takes steps and lowers the loss of the same batch. */
static void every_mixer_trains(void **state)
{
    runs *r = *state;
    for (size_t i = 0; test_kind(i); i++) {
        const char *name = test_kind(i);
        bo_model *model = runs_model(r, name);
        bo_trainer_desc desc = runs_trainer(r, model, NULL);
        bo_trainer *trainer;
        double first = 0, loss = 0;
        desc.documents = i % 2;
        desc.checkpointing = i % 3 == 0;
        desc.steps = 6;
        desc.optimizer = (bo_optimizer_desc){.kind = BO_OPTIMIZER_ADAMW, .rate = 0.01};
        desc.schedule = (bo_schedule){.kind = BO_SCHEDULE_CONSTANT, .warmup = UINT64_MAX};
        if (bo_trainer_create(r->context, &desc, &trainer) != BO_OK)
            fail_msg("%s: %s", name, bo_context_error(r->context));
        for (int step = 0; step < 6; step++) {
            if (bo_trainer_step(r->context, trainer, &loss) != BO_OK)
                fail_msg("%s: %s", name, bo_context_error(r->context));
            if (step == 0) first = loss;
        }
        if (!(loss < first - 0.3)) fail_msg("%s: the loss went from %g to %g", name, first, loss);
        bo_trainer_destroy(trainer);
        bo_model_destroy(model);
    }
}

/* The gradient of a batch is the mean of the gradients of its parts: the steps differ by rounding only. */
static void parts_add_up(void **state)
{
    runs *r = *state;
    double losses[2][3];
    for (int way = 0; way < 2; way++) {
        bo_model *model = runs_model(r, "softmax");
        bo_trainer_desc desc = runs_trainer(r, model, NULL);
        bo_trainer *trainer;
        desc.micro_batch = way ? 1 : 4;
        desc.optimizer = (bo_optimizer_desc){.kind = BO_OPTIMIZER_SGD, .clip = -1};
        assert_ok(r->context, bo_trainer_create(r->context, &desc, &trainer));
        for (int i = 0; i < 3; i++) assert_ok(r->context, bo_trainer_step(r->context, trainer, &losses[way][i]));
        bo_trainer_destroy(trainer);
        bo_model_destroy(model);
    }
    for (int i = 0; i < 3; i++)
        assert_close(losses[1][i], losses[0][i], 2e-5); /* several hundred rounding errors of 6e-8 · 5.5 */
}

/* The trainer clips to 1 unless the descriptor sets another value. */
static void gradients_are_clipped(void **state)
{
    runs *r = *state;
    static const double clips[] = {0, 1, -1};
    double losses[3];
    for (int way = 0; way < 3; way++) {
        bo_model *model = runs_model(r, "softmax");
        bo_trainer_desc desc = runs_trainer(r, model, NULL);
        bo_trainer *trainer;
        desc.optimizer = (bo_optimizer_desc){.kind = BO_OPTIMIZER_SGD, .rate = 1, .clip = clips[way]};
        desc.schedule = (bo_schedule){.kind = BO_SCHEDULE_CONSTANT, .warmup = UINT64_MAX};
        assert_ok(r->context, bo_trainer_create(r->context, &desc, &trainer));
        for (int i = 0; i < 2; i++) assert_ok(r->context, bo_trainer_step(r->context, trainer, &losses[way]));
        bo_trainer_destroy(trainer);
        bo_model_destroy(model);
    }
    assert_true(losses[0] == losses[1]);
    assert_true(losses[0] != losses[2]);
}

static void frozen_weights_stay(void **state)
{
    runs *r = *state;
    bo_model *model = runs_model(r, "rfa-gate"), *before = runs_model(r, "rfa-gate");
    bo_trainer_desc desc = runs_trainer(r, model, NULL);
    bo_trainer *trainer;
    desc.freeze = "model.layers.0,*.mlp.*";
    assert_ok(r->context, bo_trainer_create(r->context, &desc, &trainer));
    assert_ok(r->context, bo_trainer_run(r->context, trainer));
    bo_trainer_destroy(trainer);
    size_t moved = 0;
    for (size_t i = 0; i < bo_weights_count(model->weights); i++) {
        const bo_weight *weight = bo_weights_at(model->weights, i), *old = bo_weights_at(before->weights, i);
        const bool same = memcmp(weight->data, old->data, weight->rows * weight->columns * sizeof(float)) == 0;
        const bool named = strncmp(weight->name, "model.layers.0", 14) == 0 || strstr(weight->name, ".mlp.");
        if (named && !same) fail_msg("%s is frozen and moved", weight->name);
        moved += !same;
        assert_false(weight->frozen); /* restored after the trainer */
    }
    assert_true(moved > 3);
    desc.freeze = "model.layer.0";
    assert_fails(r->context, BO_INVALID, "model.layer.0", bo_trainer_create(r->context, &desc, &trainer));
    desc.freeze = "*";
    assert_fails(r->context, BO_INVALID, "nothing is left to train", bo_trainer_create(r->context, &desc, &trainer));
    bo_model_destroy(model);
    bo_model_destroy(before);
}

/* Learning words makes random characters less likely, at the latest after the character frequencies are learned. */
static void patience_ends(void **state)
{
    runs *r = *state;
    bo_model *model = runs_model(r, "rfa-gate");
    bo_trainer_desc desc = runs_trainer(r, model, "early");
    bo_trainer *trainer;
    desc.valid.corpus = r->noise;
    desc.steps = 400;
    desc.eval_every = 5;
    desc.patience = 2;
    assert_ok(r->context, bo_trainer_create(r->context, &desc, &trainer));
    assert_ok(r->context, bo_trainer_run(r->context, trainer));
    const bo_training_report report = *bo_trainer_report(trainer);
    assert_true(report.stopped_early && report.step < 400 && report.step % 5 == 0);
    assert_true(report.valid_loss > report.best_valid_loss);
    bo_trainer_destroy(trainer);
    desc.resume = true; /* it has ended, also when resumed */
    assert_ok(r->context, bo_trainer_create(r->context, &desc, &trainer));
    assert_ok(r->context, bo_trainer_run(r->context, trainer));
    assert_int_equal(bo_trainer_report(trainer)->step, report.step);
    bo_trainer_destroy(trainer);
    bo_model_destroy(model);
}

/* ---- errors ------------------------------------------------------------------------------------------------------ */

static void nan_is_named(void **state)
{
    runs *r = *state;
    bo_model *model = runs_model(r, "rfa-gate");
    bo_trainer_desc desc = runs_trainer(r, model, "nan");
    bo_trainer *trainer;
    double loss;
    assert_ok(r->context, bo_trainer_create(r->context, &desc, &trainer));
    for (int i = 0; i < 3; i++) assert_ok(r->context, bo_trainer_step(r->context, trainer, &loss));
    assert_ok(r->context, bo_trainer_checkpoint(r->context, trainer));
    const bo_weight *weight = bo_weights_find(model->weights, "model.layers.1.mlp.up_proj.weight");
    assert_non_null(weight);
    ((float *)weight->data)[5] = NAN;
    assert_fails(r->context, BO_NUMERIC, "step 4: ", bo_trainer_step(r->context, trainer, &loss));
    if (!strstr(bo_context_error(r->context), "the first NaN or infinity is in model.layers.1.mlp.up_proj.weight") ||
        !strstr(bo_context_error(r->context), "checkpoints/step-3"))
        fail_msg("%s", bo_context_error(r->context));
    assert_fails(r->context, BO_NUMERIC, "weights contain a NaN or infinity",
                 bo_trainer_checkpoint(r->context, trainer));
    assert_true(runs_exists(r, "nan/checkpoints/step-3/training.json"));
    bo_trainer_destroy(trainer);
    bo_model_destroy(model);
}

/* A learning rate that is far too large ends with an error, not with a checkpoint of infinities. */
static void divergence_ends(void **state)
{
    runs *r = *state;
    bo_model *model = runs_model(r, "softmax");
    bo_trainer_desc desc = runs_trainer(r, model, NULL);
    bo_trainer *trainer;
    desc.optimizer = (bo_optimizer_desc){.kind = BO_OPTIMIZER_SGD, .rate = 1e38, .clip = -1};
    desc.schedule.warmup = UINT64_MAX;
    assert_ok(r->context, bo_trainer_create(r->context, &desc, &trainer));
    assert_fails(r->context, BO_NUMERIC, "step ", bo_trainer_run(r->context, trainer));
    bo_trainer_destroy(trainer);
    bo_model_destroy(model);
}

static void nonsense_is_refused(void **state)
{
    runs *r = *state;
    bo_model *model = runs_model(r, "rfa-gate");
    const bo_trainer_desc good = runs_trainer(r, model, NULL);
    bo_trainer *trainer;
    bo_trainer_desc desc = good;
    desc.minutes = 1;
    assert_fails(r->context, BO_INVALID, "found both", bo_trainer_create(r->context, &desc, &trainer));
    desc.steps = 0;
    desc.minutes = 0;
    assert_fails(r->context, BO_INVALID, "found neither", bo_trainer_create(r->context, &desc, &trainer));
    desc.minutes = NAN;
    assert_fails(r->context, BO_INVALID, "minutes", bo_trainer_create(r->context, &desc, &trainer));
    desc = good;
    desc.micro_batch = 3;
    assert_fails(r->context, BO_INVALID, "divisor", bo_trainer_create(r->context, &desc, &trainer));
    desc = good;
    desc.directory = "/proc/no/such/place";
    assert_fails(r->context, BO_IO, "/proc/no:", bo_trainer_create(r->context, &desc, &trainer));
    desc = good;
    desc.resume = true;
    assert_fails(r->context, BO_INVALID, "directory", bo_trainer_create(r->context, &desc, &trainer));
    desc = good;
    desc.steps = UINT64_MAX;
    assert_fails(r->context, BO_INVALID, "steps: expected at most", bo_trainer_create(r->context, &desc, &trainer));
    assert_fails(r->context, BO_INVALID, "argument 'desc' is NULL", bo_trainer_create(r->context, NULL, &trainer));
    assert_fails(r->context, BO_INVALID, "argument 'out' is NULL", bo_trainer_create(r->context, &good, NULL));
    desc = good;
    desc.optimizer.rate = -1;
    assert_int_equal(bo_trainer_create(r->context, &desc, &trainer), BO_INVALID);
    const bo_texts *texts = (const bo_texts *)&good; /* never read */
    desc = good;
    desc.train.texts = texts;
    assert_fails(r->context, BO_INVALID, "found several", bo_trainer_create(r->context, &desc, &trainer));
    desc = good;
    desc.valid.texts = texts;
    assert_fails(r->context, BO_INVALID, "another kind", bo_trainer_create(r->context, &desc, &trainer));
    desc = good;
    desc.train.corpus = NULL;
    assert_fails(r->context, BO_INVALID, "another kind", bo_trainer_create(r->context, &desc, &trainer));
    assert_null(trainer);
    bo_model_destroy(model);
}

static void plan_tells(void **state)
{
    runs *r = *state;
    bo_model *model = runs_model(r, "rfa-gate");
    bo_trainer_desc desc = runs_trainer(r, model, NULL);
    bo_training_cost plan, less;
    assert_ok(r->context, bo_trainer_estimate(r->context, &desc, &plan));
    assert_int_equal(plan.parameters, bo_model_report(model)->parameters);
    assert_int_equal(plan.micro_batch, 4);
    assert_true(plan.gradient_bytes >= 4 * plan.parameters && plan.optimizer_bytes > 0 && plan.operations > 0);
    assert_true(plan.all_bytes > plan.activation_bytes + plan.gradient_bytes && plan.state_bytes > 0);
    desc.micro_batch = 1;
    assert_ok(r->context, bo_trainer_estimate(r->context, &desc, &less));
    assert_true(less.activation_bytes < plan.activation_bytes);
    assert_close(less.operations, plan.operations, 1e-6 * plan.operations);
    bo_model_destroy(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(losses_fall, runs_setup, runs_teardown),
        cmocka_unit_test_setup_teardown(every_mixer_trains, runs_setup, runs_teardown),
        cmocka_unit_test_setup_teardown(parts_add_up, runs_setup, runs_teardown),
        cmocka_unit_test_setup_teardown(gradients_are_clipped, runs_setup, runs_teardown),
        cmocka_unit_test_setup_teardown(frozen_weights_stay, runs_setup, runs_teardown),
        cmocka_unit_test_setup_teardown(patience_ends, runs_setup, runs_teardown),
        cmocka_unit_test_setup_teardown(nan_is_named, runs_setup, runs_teardown),
        cmocka_unit_test_setup_teardown(divergence_ends, runs_setup, runs_teardown),
        cmocka_unit_test_setup_teardown(nonsense_is_refused, runs_setup, runs_teardown),
        cmocka_unit_test_setup_teardown(plan_tells, runs_setup, runs_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
