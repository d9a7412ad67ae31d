/* Training of adapters: only A and B change, losses fall, a stopped run is resumed with the same bits, and its
 * directory contains an adapter. */
#include "base/counting.h"
#include "runs.h"

/* A realistic model, in which no matrix is zero. */
static void shake(bo_weights *weights)
{
    for (size_t i = 0; i < bo_weights_count(weights); i++) {
        const bo_weight *weight = bo_weights_at(weights, i);
        bo_rng rng = bo_rng_make(4, i);
        float *values = weight->data;
        for (size_t j = 0; weight->role == BO_WEIGHT_ROLE_MATRIX && j < weight->rows * weight->columns; j++)
            values[j] += (float)(0.1 * bo_rng_normal(&rng));
    }
}

static bo_model *adapted(runs *r, const char *base, bo_lora_init init)
{
    char directory[160];
    bo_model *model = runs_model(r, "rfa-gate");
    snprintf(directory, sizeof directory, "%s", runs_path(r, base));
    shake(model->weights);
    assert_ok(r->context, bo_model_save(r->context, model, &(bo_sink){.path = directory}));
    const bo_lora_desc lora = {.rank = 4, .init = init, .data = r->text, .base = directory};
    assert_ok(r->context, bo_model_adapt(r->context, model, &lora));
    return model;
}

static bo_trainer_desc trainer_of(runs *r, bo_model *model, const char *name)
{
    bo_trainer_desc desc = runs_trainer(r, model, name);
    desc.optimizer = (bo_optimizer_desc){.kind = BO_OPTIMIZER_ADAMW, .rate = 0.01};
    return desc;
}

static void moves_adapters_alone(void **state)
{
    runs *r = *state;
    for (int init = 0; init < BO_LORA_INIT_COUNT; init++) {
        bo_model *model = adapted(r, "base", (bo_lora_init)init), *before = adapted(r, "base", (bo_lora_init)init);
        bo_trainer_desc desc = trainer_of(r, model, NULL);
        bo_trainer *trainer;
        bo_training_cost plan;
        double first = 0, loss = 0;
        assert_ok(r->context, bo_trainer_estimate(r->context, &desc, &plan));
        assert_int_equal(plan.trained, bo_weights_describe(model->weights)->trained);
        assert_true(plan.trained < plan.parameters / 2);
        assert_ok(r->context, bo_trainer_create(r->context, &desc, &trainer));
        for (int i = 0; i < 12; i++) {
            assert_ok(r->context, bo_trainer_step(r->context, trainer, &loss));
            if (i == 0) first = loss;
        }
        assert_true(loss < first - 0.02);
        bo_trainer_destroy(trainer);
        for (size_t i = 0; i < bo_weights_count(model->weights); i++) {
            const bo_weight *now = bo_weights_at(model->weights, i), *old = bo_weights_at(before->weights, i);
            const bool same = memcmp(now->data, old->data, now->rows * now->columns * sizeof(float)) == 0;
            if (same != now->frozen)
                fail_msg("%s is %s and %s", now->name, now->frozen ? "frozen" : "trained", same ? "stayed" : "moved");
        }
        bo_model_destroy(model);
        bo_model_destroy(before);
    }
}

/* A trainer stores gradients of the adapters only, as many as estimated. */
static void gradients_of_adapters_alone(void **state)
{
    runs *r = *state;
    counting counted = {0};
    bo_context *context = counting_context(&counted, 1);
    const bo_model_desc shape = {.layers = 2, .width = 64, .block.heads = 2, .context = 16, .vocab = 256, .seed = 3};
    const bo_lora_desc lora = {.rank = 2};
    bo_model *model;
    assert_ok(context, bo_model_create(context, &shape, r->tokenizer, &model));
    assert_ok(context, bo_model_adapt(context, model, &lora));
    const size_t adapters = bo_weights_describe(model->weights)->trained * sizeof(float);
    const size_t whole = bo_weights_describe(model->weights)->parameters * sizeof(float);
    assert_true(adapters < whole / 10);
    bo_training_cost plan;
    bo_trainer *trainer;
    bo_trainer_desc desc = trainer_of(r, model, NULL);
    desc.batch = 1;
    assert_ok(context, bo_trainer_estimate(context, &desc, &plan));
    assert_in_range(plan.gradient_bytes, adapters, adapters + 64 * bo_weights_count(model->weights));
    const size_t before = counted.bytes;
    counted.peak = before;
    assert_ok(context, bo_weights_allocate(context, model->weights, true));
    assert_in_range(counted.bytes - before, plan.gradient_bytes, plan.gradient_bytes + 512);
    assert_ok(context, bo_trainer_create(context, &desc, &trainer));
    const size_t planned = plan.gradient_bytes + plan.optimizer_bytes + plan.activation_bytes;
    assert_in_range(counted.peak - before, planned, planned + whole / 2);
    bo_trainer_destroy(trainer);
    bo_model_destroy(model);
    bo_context_destroy(context);
    assert_true(counted.live == 0);
}

static bool stop_after_six(void *user, const bo_training_report *report)
{
    (void)user;
    return report->step < 6;
}

static void resumed_runs_have_the_same_bits(void **state)
{
    runs *r = *state;
    bo_model *whole = adapted(r, "base", BO_LORA_INIT_WEIGHT), *parted = adapted(r, "base", BO_LORA_INIT_WEIGHT),
             *again;
    bo_trainer_desc desc = trainer_of(r, whole, "whole");
    bo_trainer *trainer;
    assert_ok(r->context, bo_trainer_create(r->context, &desc, &trainer));
    assert_ok(r->context, bo_trainer_run(r->context, trainer));
    bo_trainer_destroy(trainer);
    desc = trainer_of(r, parted, "parted");
    desc.report = stop_after_six;
    assert_ok(r->context, bo_trainer_create(r->context, &desc, &trainer));
    assert_fails(r->context, BO_CANCELED, "step 6", bo_trainer_run(r->context, trainer));
    bo_trainer_destroy(trainer);
    assert_ok(r->context, bo_model_load(r->context, &(bo_source){.path = runs_path(r, "parted")},
                                        &(bo_model_load_desc){.adapters = BO_ADAPTERS_KEEP}, &again));
    desc = trainer_of(r, again, "parted");
    desc.resume = true;
    assert_ok(r->context, bo_trainer_create(r->context, &desc, &trainer));
    assert_ok(r->context, bo_trainer_run(r->context, trainer));
    bo_trainer_destroy(trainer);
    assert_true(runs_same_weights(whole, again));
    assert_true(runs_exists(r, "whole/adapter_model.safetensors") && runs_exists(r, "whole/best/adapter_config.json"));
    assert_false(runs_exists(r, "whole/model.safetensors"));
    assert_ok(r->context, bo_model_merge(r->context, whole));
    desc = trainer_of(r, whole, NULL);
    assert_fails(r->context, BO_INVALID, "merged", bo_trainer_create(r->context, &desc, &trainer));
    bo_model_destroy(whole), bo_model_destroy(parted), bo_model_destroy(again);
}

/* Sequences shorter than the context, which the model keeps. */
static void trains_on_short_sequences(void **state)
{
    runs *r = *state;
    bo_model *model = adapted(r, "base", BO_LORA_INIT_ZERO);
    const size_t context = model->desc.context;
    bo_trainer_desc desc = trainer_of(r, model, "short");
    bo_trainer *trainer;
    desc.window = context / 4;
    assert_ok(r->context, bo_trainer_create(r->context, &desc, &trainer));
    assert_ok(r->context, bo_trainer_run(r->context, trainer));
    const bo_training_report *report = bo_trainer_report(trainer);
    assert_int_equal(report->tokens, report->step * desc.batch * (context / 4));
    bo_trainer_destroy(trainer);
    assert_int_equal(model->desc.context, context);
    desc.resume = true;
    desc.window = context / 2;
    assert_fails(r->context, BO_INVALID, "different window", bo_trainer_create(r->context, &desc, &trainer));
    desc = trainer_of(r, model, NULL);
    desc.window = context + 1;
    assert_fails(r->context, BO_INVALID, "window: expected at most", bo_trainer_create(r->context, &desc, &trainer));
    bo_model_destroy(model);
    model = runs_model(r, "rfa-gate");
    const bo_lora_desc lora = {.rank = 4, .init = BO_LORA_INIT_GRADIENT, .data = r->text, .window = context + 1};
    assert_fails(r->context, BO_INVALID, "lora: window", bo_model_adapt(r->context, model, &lora));
    bo_model_destroy(model);
}

/* The parameters of a new attention change too. All other weights of the base are fixed. The base is named after it is
 * written. */
static void moves_a_new_attention(void **state)
{
    runs *r = *state;
    bo_model *softmax = runs_model(r, "softmax"), *model, *before, *loaded;
    bo_replacement_desc replacement = {.kept_layers = "0", .gate_first = 2, .gate_last = 2, .seed = 5};
    char *whole = NULL, base[160];
    shake(softmax->weights);
    bo_attention_preset("dark", &replacement.attention);
    replacement.attention.gate = BO_GATE_DECAY;
    replacement.attention.features.features = 16;
    assert_fails(r->context, BO_INVALID, "is not linearized", bo_model_new_parameters(r->context, softmax, &whole));
    assert_ok(r->context, bo_model_replace_attention(r->context, softmax, &replacement, &model));
    assert_ok(r->context, bo_model_replace_attention(r->context, softmax, &replacement, &before));
    assert_ok(r->context, bo_model_new_parameters(r->context, model, &whole));
    assert_string_equal(whole, "g_proj,m");
    const bo_lora_desc lora = {.rank = 2, .whole = whole};
    snprintf(base, sizeof base, "%s", runs_path(r, "run/base"));
    assert_fails(r->context, BO_INVALID, "no adapters", bo_model_set_base(r->context, model, base));
    assert_ok(r->context, bo_model_adapt(r->context, model, &lora));
    assert_fails(r->context, BO_INVALID, "is not a model", bo_model_set_base(r->context, model, base));
    bo_trainer_desc desc = trainer_of(r, model, "run");
    bo_trainer *trainer;
    assert_ok(r->context, bo_trainer_create(r->context, &desc, &trainer));
    assert_ok(r->context, bo_model_save(r->context, before, &(bo_sink){.path = base}));
    assert_ok(r->context, bo_model_set_base(r->context, model, base));
    assert_ok(r->context, bo_trainer_run(r->context, trainer));
    bo_trainer_destroy(trainer);
    size_t moved = 0;
    for (size_t i = 0; i < bo_weights_count(before->weights); i++) {
        const bo_weight *old = bo_weights_at(before->weights, i), *now = bo_weights_find(model->weights, old->name);
        const bool same = memcmp(now->data, old->data, old->rows * old->columns * sizeof(float)) == 0;
        const bool is_new = strstr(old->name, ".g_proj.") || strstr(old->name, "self_attn.m");
        if (same == is_new) fail_msg("%s %s", old->name, same ? "stayed" : "moved");
        moved += !same;
    }
    assert_int_equal(moved, 3); /* m, and weight and bias of the gates, of one layer */
    assert_ok(r->context, bo_model_load(r->context, &(bo_source){.path = runs_path(r, "run")},
                                        &(bo_model_load_desc){.adapters = BO_ADAPTERS_KEEP}, &loaded));
    assert_true(runs_same_weights(model, loaded));
    bo_free(whole);
    bo_model_destroy(softmax), bo_model_destroy(model), bo_model_destroy(before), bo_model_destroy(loaded);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(moves_adapters_alone, runs_setup, runs_teardown),
        cmocka_unit_test_setup_teardown(moves_a_new_attention, runs_setup, runs_teardown),
        cmocka_unit_test_setup_teardown(trains_on_short_sequences, runs_setup, runs_teardown),
        cmocka_unit_test_setup_teardown(gradients_of_adapters_alone, runs_setup, runs_teardown),
        cmocka_unit_test_setup_teardown(resumed_runs_have_the_same_bits, runs_setup, runs_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
