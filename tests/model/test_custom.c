/* A custom layer in a model: one that rebuilds a built-in MLP gives the same bits in training and decoding; files
 * contain its name, and loading requires its function; errors are reported. */
#include <bochner/lora.h>
#include <bochner/train.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include "nn/enums.h"
#include "models.h"

static bo_value join(bo_graph *graph, const bo_custom_place *place, const char *suffix, bo_value x)
{
    char name[96];
    snprintf(name, sizeof name, "%s%s", place->prefix, suffix);
    return bo_nn_linear(graph, name, x,
                        &(bo_linear_layer){.out = place->model->block.hidden, .bias = place->model->block.bias});
}

/* relu², with the weight names of the built-in MLP. */
static bo_value rebuilt(bo_graph *graph, const bo_custom_place *place)
{
    char down[96];
    int *calls = place->user;
    const bo_output_layer output = {
        .bias = place->model->block.bias, .dropout = place->model->dropout, .stream = place->stream};
    if (calls) ++*calls;
    snprintf(down, sizeof down, "%s.down_proj", place->prefix);
    const bool unit = place->model->parametrization == BO_PARAMETRIZATION_UNIT; /* E relu²(x)² = 1.5 */
    const bo_unary_attributes relu2 = {.function = BO_UNARY_RELU2, .factor = unit ? 1 / sqrt(1.5) : 1};
    bo_value up = join(graph, place, ".up_proj", place->x);
    bo_value hidden = bo_graph_apply(graph, BO_OPERATION_UNARY, &relu2, sizeof relu2, 1, &up);
    return bo_nn_output(graph, down, hidden, place->residual, &output);
}

/* x sin x: not built in. */
static bo_status wave_forward(bo_context *context, const bo_operation_call *call)
{
    const float *x = call->in[0].data;
    (void)context;
    for (size_t i = 0; i < call->in[0].rows * call->in[0].columns; i++)
        ((float *)call->out[0].data)[i] = x[i] * sinf(x[i]);
    return BO_OK;
}

static bo_status wave_backward(bo_context *context, const bo_operation_call *call)
{
    const float *x = call->in[0].data;
    (void)context;
    for (size_t i = 0; call->din[0] && i < call->in[0].rows * call->in[0].columns; i++)
        call->din[0][i] += (sinf(x[i]) + x[i] * cosf(x[i])) * call->dout[0][i];
    return BO_OK;
}

static bo_value waves(bo_graph *graph, const bo_custom_place *place)
{
    static const bo_operation_desc wave = {.name = "wave", .forward = wave_forward, .backward = wave_backward};
    char down[96];
    snprintf(down, sizeof down, "%s.down", place->prefix);
    bo_value hidden = join(graph, place, ".up", place->x);
    hidden = bo_graph_apply_custom(graph, &wave, NULL, 0, 1, &hidden);
    return bo_nn_output(graph, down, hidden, place->residual, NULL);
}

static bo_model_desc custom_desc(const bo_custom_layer *layer)
{
    bo_model_desc desc = test_desc("softmax");
    desc.block.mlp = layer ? BO_MLP_CUSTOM : BO_MLP_RELU2;
    if (layer) desc.block.custom_mlp = *layer;
    return desc;
}

static bo_model *create(bo_context *context, const bo_model_desc *desc)
{
    bo_model *model;
    assert_ok(context, bo_model_create(context, desc, NULL, &model));
    return model;
}

static bo_corpus *corpus_of(bo_context *context, bo_tokenizer **tokenizer)
{
    enum { TOKENS = 1500 };
    static int32_t ids[TOKENS];
    bo_corpus *corpus;
    test_tokens(TOKENS, ids);
    assert_ok(context, bo_tokenizer_create(context, tokenizer));
    assert_ok(
        context,
        bo_corpus_open(context, &(bo_corpus_desc){.tokenizer = *tokenizer, .ids = ids, .id_count = TOKENS}, &corpus));
    return corpus;
}

/* Records the losses of several steps. */
static void train(bo_context *context, bo_model *model, bo_trainer_desc desc, size_t steps, double *losses)
{
    bo_trainer *trainer;
    desc.model = model, desc.batch = 4, desc.steps = steps;
    assert_ok(context, bo_trainer_create(context, &desc, &trainer));
    for (size_t i = 0; i < steps; i++) assert_ok(context, bo_trainer_step(context, trainer, &losses[i]));
    bo_trainer_destroy(trainer);
}

static void logits_of(bo_context *context, const bo_model *model, size_t piece, float *logits)
{
    int32_t ids[CONTEXT];
    bo_session *session;
    test_tokens(CONTEXT, ids);
    assert_ok(context, bo_session_create(context, model, NULL, &session));
    for (size_t i = 0; i < CONTEXT; i += piece)
        assert_ok(context, bo_session_feed(context, session, ids + i, piece, logits));
    bo_session_destroy(session);
}

/* ---- comparison with the built-in layer -------------------------------------------------------------------------- */

static void a_rebuilt_mlp_has_the_bits_of_the_built_in_one(void **state)
{
    (void)state;
    enum { STEPS = 4 };
    int calls = 0;
    const bo_custom_layer layer = {.name = "rebuilt", .record = rebuilt, .user = &calls};
    bo_context *context = test_context(2);
    bo_tokenizer *tokenizer;
    bo_corpus *corpus = corpus_of(context, &tokenizer);
    for (int variant = 0; variant < 5; variant++) {
        double losses[2][STEPS];
        float logits[2][VOCAB];
        for (int custom = 0; custom < 2; custom++) {
            bo_model_desc desc = custom_desc(custom ? &layer : NULL);
            bo_trainer_desc run = {.train.corpus = corpus, .checkpointing = variant == 1};
            if (variant == 2) desc.dropout = 0.1, desc.block.bias = true;
            if (variant == 3) desc.parametrization = BO_PARAMETRIZATION_MUP, desc.base_width = 8;
            if (variant == 4) desc.parametrization = BO_PARAMETRIZATION_UNIT, desc.base_width = 16;
            if (variant == 4) desc.storage = BO_STORAGE_FLOAT8;
            bo_model *model = create(context, &desc);
            train(context, model, run, STEPS, losses[custom]);
            logits_of(context, model, CONTEXT, logits[custom]);
            bo_model_destroy(model);
        }
        for (size_t i = 0; i < STEPS; i++)
            if (losses[0][i] != losses[1][i])
                fail_msg("variant %d, step %zu: %.9g, expected %.9g", variant, i, losses[1][i], losses[0][i]);
        assert_memory_equal(logits[0], logits[1], sizeof *logits);
    }
    assert_true(calls > 10 * LAYERS);
    bo_corpus_close(corpus);
    bo_tokenizer_destroy(tokenizer);
    bo_context_destroy(context);
}

/* ---- layers that are not built in -------------------------------------------------------------------------------- */

/* A session that reads in pieces has the same losses as a graph over the whole window and its targets. */
static void check_scores(bo_context *context, const bo_model *model)
{
    int32_t ids[CONTEXT + 1];
    float whole[CONTEXT], losses[CONTEXT];
    bo_session *session;
    test_tokens(CONTEXT + 1, ids);
    assert_ok(context, window_pass(context, model, ids, CONTEXT, NULL, whole));
    assert_ok(context, bo_session_create(context, model, &(bo_session_desc){.chunk = 12}, &session));
    for (size_t at = 0, piece = 1; at < CONTEXT; at += piece, piece = bo_min(2 * piece + 1, CONTEXT - at))
        assert_ok(context, bo_session_read(
                               context, session,
                               &(bo_session_reading){
                                   .ids = ids + at, .count = piece, .losses = losses + at, .targets = ids + at + 1}));
    for (size_t i = 0; i < CONTEXT; i++) assert_close(losses[i], whole[i], 2e-4);
    bo_session_destroy(session);
}

/* Models of every task accept a custom layer, in their encoders too. */
static void every_task_supports_custom_layers(void **state)
{
    (void)state;
    const bo_custom_layer layer = {.name = "waves", .record = waves};
    bo_context *context = test_context(1);
    for (bo_model_task task = BO_MODEL_TASK_LANGUAGE; task <= BO_MODEL_TASK_TRANSLATE; task++) {
        bo_model_desc desc = custom_desc(&layer);
        desc.task = task;
        if (task == BO_MODEL_TASK_CLASSIFY || task == BO_MODEL_TASK_MATCH) desc.classes = 3;
        bo_model *model = create(context, &desc);
        const bool encoder = bo_weights_find(model->weights, "model.encoder.layers.1.mlp.up.weight") != NULL;
        assert_int_equal(encoder, task == BO_MODEL_TASK_TRANSLATE);
        assert_non_null(bo_weights_find(model->weights, "model.layers.1.mlp.down.weight"));
        bo_model_destroy(model);
    }
    bo_context_destroy(context);
}

/* It can be trained, frozen and adapted, and decodes token by token like the whole text (see test_sessions.c). */
static void a_new_layer_lives_like_any_other(void **state)
{
    (void)state;
    enum { STEPS = 60 };
    const bo_custom_layer layer = {.name = "waves", .record = waves};
    bo_context *context = test_context(2);
    bo_tokenizer *tokenizer;
    bo_corpus *corpus = corpus_of(context, &tokenizer);
    bo_model_desc desc = custom_desc(&layer);
    bo_model *model = create(context, &desc);
    double losses[STEPS];
    float whole[VOCAB], single[VOCAB], before[24 * 16], after[24 * 16];
    const char *frozen = "model.layers.0.mlp.up.weight";
    assert_ok(context, bo_weights_get(context, bo_model_weights(model), frozen, before, NULL));
    train(context, model, (bo_trainer_desc){.train.corpus = corpus, .freeze = "model.layers.0.mlp"}, STEPS, losses);
    if (!(losses[STEPS - 1] < losses[0] - 0.5)) fail_msg("loss %g after %g", losses[STEPS - 1], losses[0]);
    assert_ok(context, bo_weights_get(context, bo_model_weights(model), frozen, after, NULL));
    assert_memory_equal(before, after, sizeof before);
    logits_of(context, model, CONTEXT, whole);
    logits_of(context, model, 1, single);
    for (size_t i = 0; i < VOCAB; i++) assert_close(single[i], whole[i], 2e-4);
    check_scores(context, model);
    bo_lora_desc lora = {.rank = 2, .targets = "up,down"};
    assert_ok(context, bo_model_adapt(context, model, &lora));
    train(context, model, (bo_trainer_desc){.train.corpus = corpus}, 2, losses);
    assert_ok(context, bo_weights_get(context, bo_model_weights(model), frozen, after, NULL));
    assert_memory_equal(before, after, sizeof before);
    assert_ok(context, bo_model_merge(context, model));
    bo_model_destroy(model);
    bo_corpus_close(corpus);
    bo_tokenizer_destroy(tokenizer);
    bo_context_destroy(context);
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

static void files_name_the_layer(void **state)
{
    (void)state;
    char directory[] = "/tmp/test_custom_XXXXXX", command[64];
    assert_non_null(mkdtemp(directory));
    const bo_custom_layer layers[] = {{.name = "other", .record = rebuilt}, {.name = "wa\"ves", .record = waves}};
    bo_context *context = test_context(1);
    bo_model_desc desc = custom_desc(&layers[1]);
    bo_model *model = create(context, &desc), *loaded = NULL;
    float before[VOCAB], after[VOCAB];
    logits_of(context, model, CONTEXT, before);
    assert_ok(context, bo_model_save(context, model, &(bo_sink){.path = directory}));
    assert_fails(context, BO_UNSUPPORTED, "custom layer 'wa\"ves'",
                 bo_model_load(context, &(bo_source){.path = directory}, NULL, &loaded));
    assert_null(loaded);
    assert_non_null(strstr(bo_context_error(context), "bo_model_load"));
    assert_fails(context, BO_UNSUPPORTED, "wa\"ves",
                 bo_model_load(context, &(bo_source){.path = directory},
                               &(bo_model_load_desc){.layers = layers, .layer_count = 1}, &loaded));
    assert_ok(context, bo_model_load(context, &(bo_source){.path = directory},
                                     &(bo_model_load_desc){.layers = layers, .layer_count = 2}, &loaded));
    logits_of(context, loaded, CONTEXT, after);
    assert_memory_equal(before, after, sizeof before);
    assert_string_equal(bo_model_describe(loaded)->block.custom_mlp.name, "wa\"ves");
    assert_int_equal(bo_model_fingerprint(loaded), bo_model_fingerprint(model));
    bo_model_destroy(loaded);
    void *bytes;
    size_t size;
    assert_ok(context, bo_model_save(context, model, &(bo_sink){.bytes = &bytes, .size = &size}));
    assert_fails(context, BO_UNSUPPORTED, "wa\"ves",
                 bo_model_load(context, &(bo_source){.bytes = bytes, .size = size}, NULL, &loaded));
    assert_ok(context, bo_model_load(context, &(bo_source){.bytes = bytes, .size = size},
                                     &(bo_model_load_desc){.layers = layers, .layer_count = 2}, &loaded));
    logits_of(context, loaded, CONTEXT, after);
    assert_memory_equal(before, after, sizeof before);
    bo_model_destroy(loaded);
    bo_free(bytes);
    const bo_custom_layer lied = {.name = "wa\"ves", .record = rebuilt}; /* another layer with the same name */
    assert_fails(context, BO_FORMAT, "up_proj",
                 bo_model_load(context, &(bo_source){.path = directory},
                               &(bo_model_load_desc){.layers = &lied, .layer_count = 1}, &loaded));
    bo_model_destroy(model);
    desc = custom_desc(NULL); /* a model without custom layers loads too */
    model = create(context, &desc);
    assert_ok(context, bo_model_save(context, model, &(bo_sink){.path = directory}));
    assert_ok(context, bo_model_load(context, &(bo_source){.path = directory},
                                     &(bo_model_load_desc){.layers = layers, .layer_count = 2}, &loaded));
    bo_model_destroy(loaded);
    bo_model_destroy(model);
    snprintf(command, sizeof command, "rm -r %s", directory);
    assert_int_equal(system(command), 0);
    bo_context_destroy(context);
}

/* ---- mistakes ---------------------------------------------------------------------------------------------------- */

static bo_value too_wide(bo_graph *graph, const bo_custom_place *place)
{
    return join(graph, place, ".up", place->x);
}

static bo_value nothing(bo_graph *graph, const bo_custom_place *place)
{
    (void)graph, (void)place;
    return 0;
}

static bo_value refuses(bo_graph *graph, const bo_custom_place *place)
{
    return bo_graph_fail(graph, "layer number %zu is odd", place->layer);
}

static bo_value recurrent(bo_graph *graph, const bo_custom_place *place)
{
    const size_t n = place->model->width;
    bo_value u = bo_graph_weight(graph, &(bo_weight_desc){.name = "u", .rank = 2, .shape = (size_t[]){n, n}});
    bo_value b = bo_graph_weight(graph, &(bo_weight_desc){.name = "b", .rank = 2, .shape = (size_t[]){1, n}});
    return bo_graph_apply(graph, BO_OPERATION_RECURRENT, NULL, 0, 3, (bo_value[]){place->x, u, b});
}

static void mistakes_are_sentences(void **state)
{
    (void)state;
    const struct {
        const char *message;
        bo_custom_layer layer;
    } wrong[] = {
        {"needs a name", {.record = rebuilt}},
        {"needs a name", {.name = "", .record = rebuilt}},
        {"needs a name", {.name = "a\nb", .record = rebuilt}},
        {"'mine' has no record function", {.name = "mine"}},
        {"layer 0 mlp: custom layer 'mine' returns 1 x 24, expected the 1 x 16", {.name = "mine", .record = too_wide}},
        {"layer 0 mlp: custom layer 'mine' returns 0 x 0", {.name = "mine", .record = nothing}},
        {"layer 0 mlp: layer number 0 is odd", {.name = "mine", .record = refuses}},
        {"custom layer 'mine' records recurrent, which mixes rows", {.name = "mine", .record = recurrent}},
        {"reserved members", {.name = "mine", .record = rebuilt, .reserved = {1}}},
    };
    bo_context *context = test_context(1);
    bo_model *model;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        bo_model_desc desc = custom_desc(&wrong[i].layer);
        assert_fails(context, BO_INVALID, wrong[i].message, bo_model_create(context, &desc, NULL, &model));
    }
    bo_model_desc desc = custom_desc(&(bo_custom_layer){.name = "mine", .record = rebuilt});
    desc.block.mlp = BO_MLP_GELU;
    assert_fails(context, BO_INVALID, "custom_mlp requires the MLP custom",
                 bo_model_create(context, &desc, NULL, &model));
    bo_mlp parsed;
    assert_false(bo_mlp_parse("custom", &parsed));
    assert_string_equal(bo_mlp_name(BO_MLP_CUSTOM), "custom");
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rebuilt_mlp_has_the_bits_of_the_built_in_one),
        cmocka_unit_test(a_new_layer_lives_like_any_other),
        cmocka_unit_test(every_task_supports_custom_layers),
        cmocka_unit_test(files_name_the_layer),
        cmocka_unit_test(mistakes_are_sentences),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
