/* Redrawing of random frequencies during training: steps, attentions, seeds, and the last draw in the saved model. */
#include "lines.h"
#include "attention/attention.h"
#include "features/fingerprint.h"

enum { EVERY = 3 };

/* The number of attentions with random frequencies, and of those whose frequencies differ from the model `before`. */
static size_t changed(const bo_model *model, const bo_model *before, size_t *all)
{
    size_t count = 0;
    *all = 0;
    for (size_t i = 0; i < bo_model_place(&model->desc, BO_MODEL_PART_END); i++) {
        if (!model->attentions[i] || !bo_attention_is_random(model->attentions[i])) continue;
        const bo_features *now = bo_attention_features(model->attentions[i], 0),
                          *then = bo_attention_features(before->attentions[i], 0);
        ++*all;
        count += bo_features_fingerprint(now) != bo_features_fingerprint(then);
    }
    return count;
}

/* Takes steps one by one. `before` is a model with the frequencies of the start. */
static void watch(runs *r, const bo_trainer_desc *desc, const bo_model *before, size_t attentions)
{
    bo_trainer *trainer;
    uint64_t latest = bo_model_fingerprint(desc->model);
    assert_ok(r->context, bo_trainer_create(r->context, desc, &trainer));
    for (uint64_t step = 0; step < 3 * EVERY; step++) {
        size_t all;
        assert_ok(r->context, bo_trainer_step(r->context, trainer, NULL));
        const uint64_t now = bo_model_fingerprint(desc->model);
        assert_true((now != latest) == (step && step % EVERY == 0));
        assert_int_equal(changed(desc->model, before, &all), step < EVERY ? 0 : attentions);
        assert_int_equal(all, attentions);
        latest = now;
    }
    bo_trainer_destroy(trainer);
}

static void language_models_redraw_when_due(void **state)
{
    runs *r = *state;
    static const char *const kinds[] = {"rfa", "rfa-gate", "favor", "dark", "hybrid"};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        bo_model *model = runs_model(r, kinds[i]), *before = runs_model(r, kinds[i]);
        bo_trainer_desc desc = runs_trainer(r, model, NULL);
        desc.redraw_every = EVERY;
        watch(r, &desc, before, 2);
        bo_model_destroy(model);
        bo_model_destroy(before);
    }
}

/* Encoder, decoder and cross attention of a translator have two layers each. */
static void every_attention_of_other_tasks_redraws(void **state)
{
    runs *r = *state;
    static const size_t attentions[] = {0, 2, 2, 6};
    for (bo_model_task task = BO_MODEL_TASK_CLASSIFY; task <= BO_MODEL_TASK_TRANSLATE; task++) {
        lines l = make_lines(r, task);
        bo_model *model = make_model(r, task, "rfa", &l), *before = make_model(r, task, "rfa", &l);
        bo_trainer_desc desc = describe(r, model, &l, NULL);
        desc.redraw_every = EVERY;
        watch(r, &desc, before, attentions[task]);
        bo_model_destroy(model);
        bo_model_destroy(before);
        close_lines(&l);
    }
}

static bo_model *train(runs *r, const char *name, uint64_t seed, double *loss)
{
    bo_model *model = runs_model(r, "rfa");
    bo_trainer_desc desc = runs_trainer(r, model, name);
    bo_trainer *trainer;
    bo_training_score score;
    desc.redraw_every = EVERY;
    desc.seed = seed;
    assert_ok(r->context, bo_trainer_create(r->context, &desc, &trainer));
    assert_ok(r->context, bo_trainer_run(r->context, trainer));
    assert_ok(r->context, bo_trainer_evaluate(r->context, trainer, &score));
    *loss = score.loss;
    bo_trainer_destroy(trainer);
    return model;
}

/* The directory has the last draw: the loaded model is evaluated with it. */
static void the_last_draw_is_saved(void **state)
{
    runs *r = *state;
    double expected;
    bo_model *model = train(r, "saved", 1, &expected), *loaded;
    bo_evaluation found;
    assert_ok(r->context, bo_model_load(r->context, &(bo_source){.path = runs_path(r, "saved")}, NULL, &loaded));
    assert_true(bo_model_fingerprint(model) == bo_model_fingerprint(loaded));
    assert_ok(r->context, bo_model_evaluate(r->context, loaded, r->held_out, 0, 200, &found));
    assert_true(found.loss == expected);
    bo_model_destroy(model);
    bo_model_destroy(loaded);
}

static void draws_follow_the_seed_of_the_run(void **state)
{
    runs *r = *state;
    double loss;
    bo_model *one = train(r, NULL, 1, &loss), *again = train(r, NULL, 1, &loss), *other = train(r, NULL, 2, &loss);
    assert_true(bo_model_fingerprint(one) == bo_model_fingerprint(again));
    assert_true(bo_model_fingerprint(one) != bo_model_fingerprint(other));
    bo_model_destroy(one);
    bo_model_destroy(again);
    bo_model_destroy(other);
}

/* ---- refusals ---------------------------------------------------------------------------------------------------- */

static void refuse(runs *r, bo_model *model, const char *message)
{
    bo_trainer *trainer;
    bo_trainer_desc desc = runs_trainer(r, model, NULL);
    desc.redraw_every = EVERY;
    assert_fails(r->context, BO_INVALID, message, bo_trainer_create(r->context, &desc, &trainer));
    bo_model_destroy(model);
}

static void models_without_random_frequencies_are_refused(void **state)
{
    runs *r = *state;
    static const char *const kinds[] = {"softmax", "linear", "retention", "hedgehog", "gla", "gru"};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        refuse(r, runs_model(r, kinds[i]), "no attention with random frequencies");
    bo_model_desc chosen = runs_desc("favor");
    chosen.block.attention.features.sampling = BO_SAMPLING_OPTIMAL;
    refuse(r, runs_model_of(r, &chosen), "calibrate_every");
    bo_model *adapted = runs_model(r, "rfa");
    const bo_lora_desc lora = {.rank = 2, .init = BO_LORA_INIT_WEIGHT};
    assert_ok(r->context, bo_model_adapt(r->context, adapted, &lora));
    refuse(r, adapted, "adapters cannot draw new frequencies");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(language_models_redraw_when_due, runs_setup, runs_teardown),
        cmocka_unit_test_setup_teardown(every_attention_of_other_tasks_redraws, runs_setup, runs_teardown),
        cmocka_unit_test_setup_teardown(the_last_draw_is_saved, runs_setup, runs_teardown),
        cmocka_unit_test_setup_teardown(draws_follow_the_seed_of_the_run, runs_setup, runs_teardown),
        cmocka_unit_test_setup_teardown(models_without_random_frequencies_are_refused, runs_setup, runs_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
