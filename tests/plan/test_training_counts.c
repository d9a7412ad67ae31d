/* Counts of a training step of any model, by the graph of the trainer. */
#include "made_up.h"

static bo_plan_counts counted(bo_context *context, const bo_model_desc *model, const bo_trainer_desc *training)
{
    bo_plan_counts counts;
    assert_ok(context, bo_plan_count_training(context, model, training, &counts));
    return counts;
}

/* For models that bo_plan_count describes, both counts agree: parameters to a percent, operations to a tenth (the graph
 * does not count norms, and the formula approximates the attention). */
static void counts_agree_with_the_formula(void **state)
{
    (void)state;
    static const char *const attentions[] = {"softmax", "linear", "rfa-gate"};
    bo_context *context = test_context(1);
    for (size_t i = 0; i < 6; i++) {
        bo_plan_shape shape = made_up_shape(1 + i % 3, 64 << i % 2, 128, 4);
        bo_model_desc model;
        bo_trainer_desc training;
        bo_plan_counts formula;
        shape.attention = attentions[i / 2];
        assert_ok(context, bo_plan_count(context, &shape, &formula));
        assert_ok(context, bo_plan_descriptors(context, &shape, &model, &training));
        const bo_plan_counts graph = counted(context, &model, &training);
        assert_close(graph.parameters / formula.parameters, 1, 0.01);
        assert_true(graph.tokens == formula.tokens && graph.layers == formula.layers);
        assert_close(graph.operations / (formula.operations + formula.attention), 1, 0.1);
        assert_close(graph.copies / formula.copies, 1, 0.5); /* temporary tensors are not counted on the graph */
    }
    bo_context_destroy(context);
}

/* Every mixer and MLP is counted. Twice the width has more than twice the operations, and 1.5 to 4.5 times the
 * copies. */
static void every_layer_is_counted(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    const bo_trainer_desc training = {.batch = 2};
    for (unsigned mixer = 0; mixer < BO_MIXER_COUNT; mixer++)
        for (unsigned mlp = 0; mlp < BO_MLP_COUNT; mlp++) {
            bo_model_desc model = {.layers = 1,
                                   .width = 32,
                                   .block.heads = 2,
                                   .context = 16,
                                   .vocab = 256,
                                   .block.mixer = mixer,
                                   .block.mlp = mlp};
            bo_model_desc wide;
            if (mlp == BO_MLP_CUSTOM) continue;
            assert_ok(context, bo_model_widen(context, &model, 64, &wide));
            const bo_plan_counts a = counted(context, &model, &training), b = counted(context, &wide, &training);
            assert_true(a.parameters > 0 && b.parameters > 2 * a.parameters);
            assert_true(b.operations > 2 * a.operations && b.copies > 1.5 * a.copies && b.copies < 4.5 * a.copies);
        }
    bo_context_destroy(context);
}

/* A batch in several pieces reads the weights several times; checkpoints and bfloat16 are accepted; a large model is
 * counted without its weights in memory. */
static void settings_are_used(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_model_desc model = {.layers = 2, .width = 32, .block.heads = 2, .context = 16, .vocab = 256};
    const bo_plan_counts whole = counted(context, &model, &(bo_trainer_desc){.batch = 8, .micro_batch = 8});
    const bo_plan_counts parts = counted(context, &model, &(bo_trainer_desc){.batch = 8, .micro_batch = 2});
    assert_true(parts.layers == 4 * whole.layers && parts.tokens == whole.tokens);
    assert_close(parts.operations / whole.operations, 1, 1e-12);
    assert_true(parts.copies > whole.copies);
    const bo_trainer_desc narrow = {
        .batch = 8, .micro_batch = 8, .activations = BO_STORAGE_BFLOAT16, .checkpointing = true};
    assert_true(counted(context, &model, &narrow).copies > 0);
    model.width = 8192, model.block.heads = 64, model.layers = 64;
    assert_true(counted(context, &model, &(bo_trainer_desc){.batch = 1}).parameters > 5e10);
    model.task = BO_MODEL_TASK_TRANSLATE;
    bo_plan_counts counts;
    assert_fails(context, BO_INVALID, "expected a language model",
                 bo_plan_count_training(context, &model, &(bo_trainer_desc){.batch = 1}, &counts));
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_agree_with_the_formula),
        cmocka_unit_test(every_layer_is_counted),
        cmocka_unit_test(settings_are_used),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
