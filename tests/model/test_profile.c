/* Profiles of models: every kind and task; weights do not change. */
#include "models.h"
#include "labelers.h"
#include <string.h>

/* Number of operations in a scope. */
static size_t in_scope(const bo_profile *p, const char *scope)
{
    size_t count = 0;
    for (size_t i = 0; i < p->operation_count; i++) count += strcmp(p->operations[i].scope, scope) == 0;
    return count;
}

static void check(bo_context *context, bo_model *model, const bo_profile_desc *desc, const char *subject)
{
    const size_t bytes = bo_weights_floats(model->weights) * sizeof(float);
    char *before = malloc(bytes);
    bo_profile *p;
    memcpy(before, bo_weights_data(model->weights), bytes);
    assert_ok(context, bo_model_profile(context, model, desc, &p));
    assert_memory_equal(before, bo_weights_data(model->weights), bytes);
    free(before);
    const bo_profile_totals *t = &p->totals;
    assert_string_equal(t->subject, subject);
    assert_true(t->forward > 0 && (t->backward > 0) == !desc->forward && (t->again > 0) == desc->checkpointing);
    assert_int_equal(t->repeats, desc->repeats ? desc->repeats : 5);
    for (size_t layer = 0; layer < LAYERS; layer++) {
        char scope[64];
        snprintf(scope, sizeof scope, "layer %zu mlp", layer);
        assert_true(in_scope(p, scope) >= 3);
    }
    size_t weights = 0;
    for (size_t i = 0; i < p->value_count; i++) {
        const bo_value_info *value = &p->values[i];
        if (value->origin != BO_VALUE_ORIGIN_WEIGHT) continue;
        assert_non_null(bo_weights_find(model->weights, value->name));
        if (desc->forward) assert_false(value->trained);
        weights++;
    }
    assert_int_equal(weights, bo_weights_count(model->weights));
    bo_profile_destroy(p);
}

static void every_kind(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    for (size_t i = 0; test_kind(i); i++) {
        const bo_model_desc desc = test_desc(test_kind(i));
        bo_model *model = test_model(context, &desc, NULL);
        check(context, model,
              &(bo_profile_desc){
                  .batch = 2, .tokens = 16, .repeats = 1, .forward = i % 3 == 1, .checkpointing = i % 3 == 2},
              i % 3 == 1 ? "forward of 2 x 16 tokens" : "a training step of 2 x 16 tokens");
        bo_model_destroy(model);
    }
    bo_context_destroy(context);
}

static void every_task(void **state)
{
    (void)state;
    static const char *const subjects[] = {
        "a training step of 1 x 48 tokens", "a training step of 1 texts of 48 tokens",
        "a training step of 1 pairs of texts of 48 tokens", "a training step of 1 sources and targets of 48 tokens"};
    bo_context *context = test_context(1);
    for (bo_model_task task = BO_MODEL_TASK_LANGUAGE; task <= BO_MODEL_TASK_TRANSLATE; task++)
        for (int variant = 0; variant < 3; variant++) {
            const bool labels = task == BO_MODEL_TASK_CLASSIFY || task == BO_MODEL_TASK_MATCH;
            bo_model_desc desc =
                labels ? labeler_desc(variant ? "rfa" : "gru", task) : test_desc(variant ? "rfa" : "gru");
            bo_model *model;
            desc.task = task;
            if (labels) desc.pooling = variant == 1 ? BO_POOLING_LAST : variant ? BO_POOLING_MAX : BO_POOLING_MEAN;
            if (task == BO_MODEL_TASK_TRANSLATE && variant == 2) desc.cross = BO_CROSS_SUMMARY;
            assert_ok(context, bo_model_create(context, &desc, NULL, &model));
            check(context, model, &(bo_profile_desc){0}, subjects[task]);
            bo_model_destroy(model);
        }
    bo_context_destroy(context);
}

static void refusals(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    const bo_model_desc desc = test_desc("softmax");
    bo_model *model = test_model(context, &desc, NULL);
    bo_profile *p = (bo_profile *)1;
    assert_fails(context, BO_INVALID, "bo_profile_desc",
                 bo_model_profile(context, model, &(bo_profile_desc){.reserved = {1}}, &p));
    assert_fails(context, BO_INVALID, "49 tokens exceed the model's context of 48",
                 bo_model_profile(context, model, &(bo_profile_desc){.tokens = 49}, &p));
    assert_null(p);
    assert_fails(context, BO_INVALID, "at most",
                 bo_model_profile(context, model, &(bo_profile_desc){.batch = SIZE_MAX}, &p));
    assert_fails(context, BO_INVALID, "1001 runs",
                 bo_model_profile(context, model, &(bo_profile_desc){.repeats = 1001}, &p));
    bo_model_destroy(model);
    model = test_model(context, &desc, NULL);
    assert_ok(context, bo_model_set_storage(context, model, BO_STORAGE_BFLOAT16));
    assert_fails(context, BO_UNSUPPORTED, "bfloat16", bo_model_profile(context, model, NULL, &p));
    assert_ok(context, bo_model_profile(context, model, &(bo_profile_desc){.forward = true, .repeats = 1}, &p));
    bool stored = false;
    for (size_t i = 0; i < p->value_count; i++) stored |= strcmp(p->values[i].type, "bfloat16") == 0;
    assert_true(stored);
    bo_profile_destroy(p);
    bo_model_destroy(model);
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_kind), cmocka_unit_test(every_task),
                                       cmocka_unit_test(refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
