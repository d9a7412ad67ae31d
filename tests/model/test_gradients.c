/* Gradients of models compared with differences of a float64 interpreter of the same graph: every attention, MLP, norm
 * and kind of positions; the same bits with checkpoints and with any number of threads; equal up to rounding in
 * micro-batches. */
#include "gradients.h"

enum { ROWS = 2 * GRADIENT_WINDOW };

/* As small as the preset allows. */
static bo_model_desc small_desc(bo_context *context, const char *preset)
{
    bo_model_desc desc = test_desc(preset);
    bo_model *model = NULL;
    desc.width = 8, desc.block.hidden = 12, desc.block.attention.features.features = 8;
    if (bo_model_create(context, &desc, NULL, &model) != BO_OK) desc.block.attention.features.features = 0;
    bo_model_destroy(model);
    return desc;
}

static void check(bo_context *context, const char *name, const bo_model_desc *desc, const bo_graph_pass *pass)
{
    bo_model *model = test_model(context, desc, NULL);
    reading r = reading_create(ROWS, pass);
    float *gradients = gradients_of(context, model, &r, false);
    compare_gradients(context, name, model, &r, gradients);
    free(gradients);
    bo_model_destroy(model);
}

static void of_every_attention(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    const char *preset;
    for (size_t i = 0; (preset = test_kind(i)); i++) {
        bo_model_desc desc = small_desc(context, preset);
        check(context, preset, &desc, &(bo_graph_pass){0});
    }
    bo_context_destroy(context);
}

/* Every MLP, norm and kind of positions, with tied and untied embeddings, with and without biases, packed and in
 * windows. */
static void of_every_part(void **state)
{
    (void)state;
    static const size_t lengths[] = {3, 0, 9, 2};
    bo_context *context = test_context(2);
    for (unsigned i = 0; i < 10; i++) {
        bo_model_desc desc = small_desc(context, i % 2 ? "softmax" : "rfa-gate");
        char name[64];
        desc.block.mlp = (bo_mlp)(i % BO_MLP_COUNT),
        desc.block.positions = (bo_positions)((i + i / 5) % BO_POSITIONS_COUNT);
        desc.block.norm = (bo_norm)(i / 2 % 2), desc.untied = i % 3 == 0, desc.block.bias = i / 3 % 2;
        desc.block.heads = 2, desc.block.key_heads = i % 4 == 3 ? 1 : 0;
        snprintf(name, sizeof name, "parts %u", i);
        check(context, name, &desc, &(bo_graph_pass){.sequences = i % 3 ? 0 : 4, .lengths = i % 3 ? NULL : lengths});
    }
    bo_context_destroy(context);
}

/* Options of pretrained models: blocks, biases, factors, RoPE of a part of each head with scaled frequencies, and
 * windows in some of the layers. */
static void of_every_option(void **state)
{
    (void)state;
    static const bo_rope_scaling scalings[] = {
        {0}, {.kind = BO_ROPE_SCALING_KIND_LINEAR, .factor = 1.5}, {BO_ROPE_SCALING_KIND_LLAMA3, 2, 1, 4, 20}};
    static const bo_mlp mlps[] = {BO_MLP_GEGLU, BO_MLP_GEGLU_TANH, BO_MLP_SILU, BO_MLP_SWIGLU, BO_MLP_GELU_TANH};
    bo_context *context = test_context(2);
    for (unsigned i = 0; i <= BO_RESIDUAL_COUNT; i++) {
        bo_model_desc desc = small_desc(context, "softmax");
        bo_block blocks[LAYERS];
        char name[64];
        desc.block.residual = (bo_residual)(i % BO_RESIDUAL_COUNT), desc.block.mlp = mlps[i % 5],
        desc.block.norm = (bo_norm)(i / 2 % 2);
        desc.block.heads = 2, desc.block.key_heads = i % 2 ? 1 : 0, desc.block.head_dim = 6,
        desc.block.rotated = i % 2 ? 4 : 0;
        desc.block.attention_bias = i % 3 ? BO_CHOICE_YES : BO_CHOICE_NO,
        desc.block.mlp_bias = i % 2 ? BO_CHOICE_YES : BO_CHOICE_NO;
        desc.block.output_bias = i % 3 == 2 ? BO_CHOICE_NO : BO_CHOICE_AUTO, desc.head_bias = i % 2,
        desc.untied = i % 4 < 2;
        desc.embedding_scale = i % 2 ? 2.5 : 0, desc.block.residual_scale = i == 0 || i == 2 ? 0.6 : 0,
        desc.logit_scale = i > 3 ? 0.7 : 0;
        desc.block.query_norm = i > 2 ? BO_CHOICE_YES : BO_CHOICE_NO, desc.block.joint_norm = i % 2;
        desc.block.rope_scaling = scalings[i / 2 % 3];
        if (i % 3) test_windows(&desc, blocks, 3, i % 3 == 1, i % 3 == 2 ? 2 : 0, i % 2 * 70);
        snprintf(name, sizeof name, "options %u", i);
        check(context, name, &desc, &(bo_graph_pass){0});
    }
    bo_context_destroy(context);
}

static void checkpoints_and_threads_change_nothing(void **state)
{
    (void)state;
    bo_context *contexts[] = {test_context(1), test_context(5)};
    const char *preset;
    for (size_t i = 0; (preset = test_kind(i)); i++) {
        bo_model_desc desc = small_desc(contexts[0], preset);
        desc.dropout = 0.2;
        bo_model *model = test_model(contexts[0], &desc, NULL);
        reading r = reading_create(ROWS, &(bo_graph_pass){.training = true, .seed = 3});
        float *first = gradients_of(contexts[0], model, &r, false);
        for (size_t n = 0; n < 3; n++) {
            float *other = gradients_of(contexts[n % 2], model, &r, n > 0);
            if (memcmp(first, other, bo_weights_floats(model->weights) * sizeof *first))
                fail_msg("%s: gradients with %s differ", preset, n > 0 ? "checkpoints" : "the same again");
            free(other);
        }
        float *threads = gradients_of(contexts[1], model, &r, false);
        if (memcmp(first, threads, bo_weights_floats(model->weights) * sizeof *first))
            fail_msg("%s: gradients depend on threads", preset);
        free(threads);
        free(first);
        bo_model_destroy(model);
    }
    for (size_t i = 0; i < 2; i++) bo_context_destroy(contexts[i]);
}

/* Four windows at once, or one by one with a quarter of the loss each; all have the same number of targets. */
static void micro_batches_add_up(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    bo_model_desc desc = small_desc(context, "rfa-gate");
    bo_model *model = test_model(context, &desc, NULL);
    reading all = reading_create(4 * GRADIENT_WINDOW, &(bo_graph_pass){0});
    for (size_t i = 0; i < all.rows; i++)
        all.targets[i] = i % GRADIENT_WINDOW == 2 ? -1 : all.tokens[(i + 3) % all.rows];
    float *whole = gradients_of(context, model, &all, false);
    compare_gradients(context, "four windows at once", model, &all, whole);
    clear_gradients(model);
    reading one = all;
    one.rows = GRADIENT_WINDOW;
    bo_model_graph g = graph_create(context, model, &one, true, false);
    one.pass.loss_scale = 0.25f;
    for (size_t i = 0; i < 4; i++) {
        assert_ok(context, bo_graph_write(context, g.graph, g.tokens, all.tokens + i * GRADIENT_WINDOW));
        assert_ok(context, bo_graph_write(context, g.graph, g.targets, all.targets + i * GRADIENT_WINDOW));
        assert_ok(context, bo_graph_run(context, g.graph, &one.pass));
    }
    compare_gradients(context, "one window after the other", model, &all, bo_weights_gradients(model->weights)->data);
    bo_model_graph_destroy(&g);
    free(whole);
    bo_model_destroy(model);
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_every_attention),   cmocka_unit_test(of_every_part),
        cmocka_unit_test(of_every_option),      cmocka_unit_test(checkpoints_and_threads_change_nothing),
        cmocka_unit_test(micro_batches_add_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
