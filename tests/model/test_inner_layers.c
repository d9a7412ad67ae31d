/* Lists of layers in place of MLPs: results, seeds, wiring, fingerprints, weights of other models, adapters, storage,
 * and errors. test_blocks.c has gradients, sessions and files of models with such lists (stacks.h). */
#include "adapted.h"
#include "features/fingerprint.h"
#include "gradients.h"
#include "model/network/internal.h"
#include "stacks.h"

#define TWO(first, second)                                                                                             \
    "[{\"name\": \"up\", \"type\": \"linear\", \"width\": " first                                                      \
    ", \"bias\": false}, {\"type\": \"relu2\"}, {\"name\": \"down\", \"type\": "                                       \
    "\"linear\", \"width\": " second ", \"bias\": false}]"

static bo_model_desc inner_desc(const char *layers)
{
    bo_model_desc desc = test_desc("softmax");
    desc.width = 8, desc.block.hidden = 0, desc.block.layers = layers;
    return desc;
}

static void losses_of(bo_context *context, const bo_model *model, float losses[CONTEXT])
{
    int32_t ids[CONTEXT + 1];
    test_tokens(CONTEXT + 1, ids);
    assert_ok(context, window_pass(context, model, ids, CONTEXT, NULL, losses));
}

static void assert_same(bo_context *context, const bo_model *a, const bo_model *b, float tolerance)
{
    float first[CONTEXT], second[CONTEXT];
    losses_of(context, a, first);
    losses_of(context, b, second);
    for (size_t i = 0; i < CONTEXT; i++)
        if (!(fabsf(first[i] - second[i]) <= tolerance))
            fail_msg("loss %zu: %.9g and %.9g", i, (double)first[i], (double)second[i]);
}

/* ---- results ----------------------------------------------------------------------------------------------------- */

static void copy_weight(bo_context *context, const bo_model *from, const char *name, bo_model *to, const char *other,
                        double factor)
{
    float values[12 * 8];
    assert_ok(context, bo_weights_get(context, bo_model_weights(from), name, values, NULL));
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) values[i] *= (float)factor;
    assert_ok(context, bo_weights_set(context, bo_model_weights(to), other, values));
}

/* A list that describes the MLP relu² computes the same as that MLP, with the same number of weights, under every
 * residual rule and parametrization. */
static void compare_with_mlp(bo_context *context, bo_residual residual, bo_parametrization kind)
{
    bo_model_desc desc = inner_desc(TWO("12", "\"input\"")), plain = inner_desc(NULL);
    plain.block.hidden = 12;
    desc.block.residual = plain.block.residual = residual;
    desc.parametrization = plain.parametrization = kind;
    desc.base_width = plain.base_width = kind ? 4 : 0;
    bo_model *model = test_model(context, &desc, NULL), *same = test_model(context, &plain, NULL);
    assert_int_equal(bo_model_report(model)->parameters, bo_model_report(same)->parameters);
    assert_int_equal(bo_model_describe(model)->block.mlp, BO_MLP_LAYERS);
    assert_int_equal(bo_model_adopt(context, same, model, NULL), BO_OK);
    /* at unit scale, MLPs multiply relu² by 1 / √(3/2), which layers do not */
    const double factor = kind == BO_PARAMETRIZATION_UNIT ? pow(1.5, 0.25) : 1;
    for (int layer = 0; layer < LAYERS; layer++) {
        char names[4][64];
        snprintf(names[0], 64, "model.layers.%d.mlp.up.weight", layer);
        snprintf(names[1], 64, "model.layers.%d.mlp.up_proj.weight", layer);
        snprintf(names[2], 64, "model.layers.%d.mlp.down.weight", layer);
        snprintf(names[3], 64, "model.layers.%d.mlp.down_proj.weight", layer);
        for (int i = 0; i < 4; i += 2) copy_weight(context, model, names[i], same, names[i + 1], i ? 1 : factor);
    }
    assert_same(context, model, same, 1e-5f);
    bo_model_destroy(same), bo_model_destroy(model);
}

static void a_list_can_be_an_mlp(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    for (bo_residual residual = 0; residual < BO_RESIDUAL_COUNT; residual++)
        for (bo_parametrization kind = 0; kind < BO_PARAMETRIZATION_COUNT; kind++)
            compare_with_mlp(context, residual, kind);
    bo_context_destroy(context);
}

/* An empty difference: layers that multiply by 0 leave the residual stream as it is. */
static void outputs_are_added_to_the_stream(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_model_desc desc = inner_desc("[{\"type\": \"scale\", \"first\": 0}]"), none = inner_desc(NULL);
    bo_model *model, *same;
    none.block.mlp = BO_MLP_NONE;
    assert_ok(context, bo_model_create(context, &desc, NULL, &model));
    assert_ok(context, bo_model_create(context, &none, NULL, &same));
    assert_same(context, model, same, 0);
    bo_model_destroy(same), bo_model_destroy(model);
    bo_context_destroy(context);
}

/* ---- widths ------------------------------------------------------------------------------------------------------ */

/* Numeric widths grow with the model, as symbolic widths do anyway. Errors name the list. */
static void widths(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_model_desc desc = inner_desc(TWO("5", "8")), wide;
    bo_model *model;
    assert_ok(context, bo_model_widen(context, &desc, 24, &wide));
    assert_non_null(strstr(wide.block.layers, "\"width\":15"));
    assert_non_null(strstr(wide.block.layers, "\"width\":24"));
    assert_ok(context, bo_model_create(context, &wide, NULL, &model));
    bo_model_destroy(model);
    bo_model_desc_release(&wide);
    desc = inner_desc(STACK_GATE);
    assert_ok(context, bo_model_widen(context, &desc, 16, &wide));
    assert_ok(context, bo_model_create(context, &wide, NULL, &model));
    bo_model_destroy(model);
    bo_model_desc_release(&wide);
    desc =
        inner_desc("[{\"type\": \"linear\", \"width\": \"input\"}, {\"type\": \"random-features\", \"features\": 1}, "
                   "{\"type\": \"mlp\", \"hidden\": 3}, {\"type\": \"linear\", \"width\": 16}, {\"type\": 5}, 7]");
    desc.width = 16;
    assert_ok(context, bo_model_widen(context, &desc, 8, &wide));
    assert_string_equal(wide.block.layers,
                        "[{\"type\":\"linear\",\"width\":\"input\"},{\"type\":\"random-features\",\"features\":1},"
                        "{\"type\":\"mlp\",\"hidden\":2},{\"type\":\"linear\",\"width\":8},{\"type\":5},7]");
    bo_model_desc_release(&wide);
    desc = inner_desc("[{");
    assert_fails(context, BO_FORMAT, "model: layers", bo_model_widen(context, &desc, 16, &wide));
    bo_context_destroy(context);
}

/* Fan-in and fan-out relative to the base, and the factor, at twice its width. */
static void parametrized(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        double in, out, scale;
    } expected[] = {{"model.layers.1.mlp.up.weight", 2, 2, 1}, {"model.layers.1.mlp.down.weight", 2, 2, 1}};
    bo_context *context = test_context(1);
    bo_model_desc desc =
        inner_desc("[{\"name\": \"up\", \"type\": \"linear\", \"width\": 24}, {\"type\": \"relu2\"}, {\"name\": "
                   "\"down\", \"type\": \"linear\", \"width\": 16}]");
    desc.width = 16, desc.block.heads = 4, desc.block.key_heads = 0;
    desc.parametrization = BO_PARAMETRIZATION_MUP, desc.base_width = 8;
    bo_model *model = test_model(context, &desc, NULL);
    for (size_t i = 0; i < 2; i++) {
        const bo_weight *w = bo_weights_find(model->weights, expected[i].name);
        assert_non_null(w);
        assert_true(w->in == expected[i].in && w->out == expected[i].out && w->scale == expected[i].scale);
    }
    bo_model_destroy(model);
    bo_context_destroy(context);
}

/* ---- seeds ------------------------------------------------------------------------------------------------------- */

/* Every dropout and noise of a model has a separate stream, in all its parts. */
static void streams_differ(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    const char *noisy =
        "[{\"type\": \"dropout\", \"rate\": 0.5}, {\"type\": \"noise\", \"amount\": 1}, {\"type\": \"dropout\", "
        "\"rate\": 0.5}]";
    for (int task = 0; task < 2; task++) {
        bo_model_desc desc = inner_desc(noisy);
        bo_model *model;
        bo_model_graph g;
        uint64_t streams[256];
        size_t count = 0, noises = 0;
        desc.dropout = 0.25, desc.layers = 3;
        if (task) desc.task = BO_MODEL_TASK_TRANSLATE, desc.encoder_layers = 2;
        assert_ok(context, bo_model_create(context, &desc, NULL, &model));
        assert_ok(context, bo_model_graph_create(
                               context, model,
                               &(bo_model_graph_desc){
                                   .rows = 4, .max_sequences = 2, .examples = 1, .source_rows = 3, .loss = true},
                               &g));
        interpreter in = {.graph = g.graph};
        for (size_t i = 0; i < g.graph->nodes.count; i++) {
            const bo_node *node = bo_node_at(g.graph, i);
            const bo_operation kind = interpreter_kind(&in, node->op);
            if (kind != BO_OPERATION_DROPOUT && kind != BO_OPERATION_NOISE) continue;
            const uint64_t stream = kind == BO_OPERATION_DROPOUT
                                        ? ((const bo_dropout_attributes *)node->attributes)->stream
                                        : ((const bo_noise_attributes *)node->attributes)->stream;
            for (size_t k = 0; k < count; k++)
                if (streams[k] == stream)
                    fail_msg("task %d: stream %llu is used twice", task, (unsigned long long)stream);
            streams[count++] = stream;
            noises += kind == BO_OPERATION_NOISE;
        }
        assert_int_equal(noises, task ? 5 : 3);
        assert_true(count >= 3 * noises);
        bo_model_graph_destroy(&g);
        bo_model_destroy(model);
    }
    bo_context_destroy(context);
}

static void noise_follows_the_seed(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    bo_model_desc desc = inner_desc(STACK_NOISE);
    bo_model *model = test_model(context, &desc, NULL);
    float *found[3];
    for (size_t i = 0; i < 3; i++) {
        reading r = reading_create(2 * GRADIENT_WINDOW, &(bo_graph_pass){.training = true, .seed = 3 + i / 2});
        found[i] = gradients_of(context, model, &r, false);
    }
    const size_t bytes = bo_weights_floats(model->weights) * sizeof(float);
    assert_memory_equal(found[0], found[1], bytes);
    assert_memory_not_equal(found[0], found[2], bytes);
    for (size_t i = 0; i < 3; i++) free(found[i]);
    bo_model_destroy(model);
    bo_context_destroy(context);
}

static const bo_features *map_of(const bo_model *model, size_t place)
{
    return model->mlp_layers[place]->layers[0].features;
}

/* Layers with the same list have different frequencies. They depend on the seed of the model. */
static void maps_differ(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_model_desc desc = inner_desc(STACK_MAPS);
    bo_model *model, *again, *other;
    assert_ok(context, bo_model_create(context, &desc, NULL, &model));
    assert_ok(context, bo_model_create(context, &desc, NULL, &again));
    desc.seed++;
    assert_ok(context, bo_model_create(context, &desc, NULL, &other));
    assert_true(bo_features_fingerprint(map_of(model, 0)) != bo_features_fingerprint(map_of(model, 1)));
    assert_true(bo_features_fingerprint(map_of(model, 0)) == bo_features_fingerprint(map_of(again, 0)));
    assert_true(bo_features_fingerprint(map_of(model, 0)) != bo_features_fingerprint(map_of(other, 0)));
    assert_int_equal(bo_model_fingerprint(model), bo_model_fingerprint(again));
    assert_true(bo_model_fingerprint(model) != bo_model_fingerprint(other));
    assert_int_equal(bo_model_report(model)->frozen_parameters, LAYERS * bo_features_frequencies(map_of(model, 0)) * 8);
    bo_model_destroy(other), bo_model_destroy(again), bo_model_destroy(model);
    bo_context_destroy(context);
}

/* ---- fingerprints and weights of other models -------------------------------------------------------------------- */

static uint64_t fingerprint_of(bo_context *context, const bo_model_desc *desc)
{
    bo_model *model;
    assert_ok(context, bo_model_create(context, desc, NULL, &model));
    const uint64_t found = bo_model_fingerprint(model);
    bo_model_destroy(model);
    return found;
}

/* Lists with the same weights but another function, in the decoder and in the encoder, in one block or a list. */
static void fingerprints(void **state)
{
    (void)state;
    static const char *const lists[] = {
        "[{\"type\": \"tanh\"}]", "[{\"type\": \"gelu\"}]", "[{\"type\": \"gelu\"}, {\"type\": \"tanh\"}]",
        "[{\"type\": \"dropout\", \"rate\": 0.5}]", "[{\"type\": \"dropout\", \"rate\": 0.25}]"};
    enum { LISTS_OF = sizeof lists / sizeof *lists };
    bo_context *context = test_context(1);
    uint64_t found[1 + 3 * LISTS_OF];
    size_t count = 0;
    for (size_t place = 0; place < 3; place++)
        for (size_t i = place > 0; i < LISTS_OF; i++) {
            bo_model_desc desc = inner_desc(lists[0]);
            bo_block blocks[] = {desc.block, desc.block};
            desc.task = BO_MODEL_TASK_TRANSLATE, desc.encoder = desc.block;
            if (place == 0) desc.encoder.layers = desc.block.layers = lists[i];
            if (place == 1) desc.encoder.layers = lists[i];
            if (place == 2) desc.blocks = blocks, desc.block_count = 2, blocks[1].layers = lists[i];
            found[count] = fingerprint_of(context, &desc);
            for (size_t k = 0; k < count; k++)
                if (found[k] == found[count]) fail_msg("list %zu at %zu has the fingerprint of model %zu", i, place, k);
            count++;
        }
    /* spaces and forms of numbers do not matter */
    bo_model_desc one = inner_desc(TWO("12", "8")), same = inner_desc(" " TWO("1.2e1", " 8.0") "\n");
    assert_int_equal(fingerprint_of(context, &one), fingerprint_of(context, &same));
    bo_context_destroy(context);
}

/* Weights and frequencies of another model: all weights of a model with the same list, otherwise weights of the same
 * names. */
static void adoption(void **state)
{
    (void)state;
    static const char *const wide =
        "[{\"type\": \"random-features\", \"features\": 14}, {\"type\": \"linear\", \"width\": 8, "
        "\"bias\": false}]";
    bo_context *context = test_context(1);
    bo_model_desc desc = inner_desc(STACK_MAPS), other = inner_desc(wide);
    bo_model *model = test_model(context, &desc, NULL), *same, *wider;
    size_t copied;
    desc.seed = other.seed = 99;
    assert_ok(context, bo_model_create(context, &desc, NULL, &same));
    assert_ok(context, bo_model_create(context, &other, NULL, &wider));
    const uint64_t fingerprint = bo_features_fingerprint(map_of(wider, 0));
    assert_ok(context, bo_model_adopt(context, same, model, &copied));
    assert_int_equal(copied, bo_weights_count(bo_model_weights(model)));
    assert_same(context, model, same, 0);
    assert_true(bo_features_fingerprint(map_of(model, 1)) == bo_features_fingerprint(map_of(same, 1)));
    assert_ok(context, bo_model_adopt(context, wider, model, &copied));
    assert_int_equal(copied, bo_weights_count(bo_model_weights(model)) - LAYERS);
    assert_true(bo_features_fingerprint(map_of(wider, 0)) == fingerprint);
    bo_model_desc plain = inner_desc(NULL);
    bo_model *none;
    assert_ok(context, bo_model_create(context, &plain, NULL, &none));
    assert_ok(context, bo_model_adopt(context, wider, none, &copied));
    assert_int_equal(copied, bo_weights_count(bo_model_weights(model)) - 2 * LAYERS);
    assert_true(bo_features_fingerprint(map_of(wider, 0)) == fingerprint);
    bo_model_destroy(none), bo_model_destroy(wider), bo_model_destroy(same), bo_model_destroy(model);
    bo_context_destroy(context);
}

/* ---- adapters and storage ---------------------------------------------------------------------------------------- */

static size_t adapted(const bo_model *model, const char *layer)
{
    char name[128];
    snprintf(name, sizeof name, "%s.lora_A.weight", layer);
    return bo_weights_find(model->weights, name) != NULL;
}

/* Adapters apply to the linear layers of a list as to other layers: to all, or by name. */
static void adapters(void **state)
{
    static const char *const targets[] = {NULL, "up", "linear.4", "model.layers.1.*down", "block-0.up"};
    static const struct {
        const char *layer;
        const char *with; /* by target */
    } expected[] = {{"model.layers.0.mlp.up", "11001"},       {"model.layers.1.mlp.up", "11000"},
                    {"model.layers.0.mlp.down", "10000"},     {"model.layers.1.mlp.down", "10010"},
                    {"model.layers.1.mlp.linear.4", "10100"}, {"model.layers.0.self_attn.q_proj", "10000"}};
    test_directory *directory = *state;
    bo_context *context = directory->context;
    const char *list =
        "[{\"name\": \"up\", \"type\": \"linear\", \"width\": 6}, {\"type\": \"tanh\"}, {\"name\": \"down\", \"type\": "
        "\"linear\", \"width\": 5}, {\"type\": \"linear\", \"width\": 8}]";
    for (size_t t = 0; t < sizeof targets / sizeof *targets; t++) {
        bo_model_desc desc = inner_desc(list);
        bo_block blocks[] = {desc.block, desc.block};
        desc.blocks = blocks, desc.block_count = 2;
        bo_model *model = test_model(context, &desc, NULL), *merged, *base = test_model(context, &desc, NULL);
        assert_ok(context, bo_model_adapt(context, model, &(bo_lora_desc){.rank = 2, .targets = targets[t]}));
        for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
            if (adapted(model, expected[i].layer) != (expected[i].with[t] == '1'))
                fail_msg("targets %s: %s", targets[t] ? targets[t] : "all", expected[i].layer);
        assert_same(context, model, base, 2e-5f);
        move_adapters(model);
        assert_ok(context, bo_model_save(context, base, &(bo_sink){.path = test_path(directory, "base")}));
        bo_lora_desc with = {.rank = 2, .targets = targets[t], .base = test_path(directory, "base")};
        bo_model_destroy(base);
        assert_ok(context, bo_model_load(context, &(bo_source){.path = with.base}, NULL, &base));
        assert_ok(context, bo_model_adapt(context, base, &with));
        move_adapters(base);
        assert_ok(context, bo_model_save(context, base, &(bo_sink){.path = test_path(directory, "adapter")}));
        assert_ok(context,
                  bo_model_load(context, &(bo_source){.path = test_path(directory, "adapter")}, NULL, &merged));
        assert_same(context, base, merged, 2e-5f);
        bo_model_destroy(merged), bo_model_destroy(base), bo_model_destroy(model);
    }
}

/* Matrices of lists are stored in fewer bits, the last one too. */
static void storage(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    static const bo_storage storages[] = {BO_STORAGE_BFLOAT16, BO_STORAGE_INT8, BO_STORAGE_INT4};
    static const float tolerances[] = {0.05f, 0.1f, 1};
    for (size_t i = 0; i < 3; i++) {
        bo_model_desc desc = inner_desc(TWO("64", "8"));
        bo_model *model = test_model(context, &desc, NULL), *exact = test_model(context, &desc, NULL);
        assert_ok(context, bo_model_set_storage(context, model, storages[i]));
        const bo_weight *last = bo_weights_find(model->weights, "model.layers.1.mlp.down.weight");
        assert_int_equal(last->role, BO_WEIGHT_ROLE_MATRIX);
        assert_int_equal(last->element, i == 0 ? BO_ELEMENT_BFLOAT16 : i == 1 ? BO_ELEMENT_INT8 : BO_ELEMENT_INT4);
        assert_same(context, model, exact, tolerances[i]);
        bo_model_destroy(exact), bo_model_destroy(model);
    }
    bo_context_destroy(context);
}

/* ---- other uses -------------------------------------------------------------------------------------------------- */

static void used_as_other_mlps(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_model_desc desc = inner_desc(STACK_GATE);
    bo_model *model = test_model(context, &desc, NULL);
    bo_profile *profile;
    assert_ok(context, bo_model_profile(context, model, &(bo_profile_desc){.tokens = 8, .repeats = 1}, &profile));
    bo_profile_destroy(profile);
    uint64_t digest;
    assert_ok(context, bo_model_digest(context, model, &digest));
    bo_model_destroy(model);
    bo_context_destroy(context);
}

/* ---- mistakes ---------------------------------------------------------------------------------------------------- */

#define SEQUENCE(layer) "[{\"type\": \"reshape\", \"length\": 2, \"channels\": 4}, " layer ", {\"type\": \"flatten\"}]"

static void refusals(void **state)
{
    (void)state;
    static const struct {
        const char *layers, *message;
    } cases[] = {
        {"", "model: layers: the JSON is malformed"},
        {"[", "model: layers: the JSON is malformed near byte"},
        {"[{\"type\": \"tanh\"}] 3", "model: layers: expected the end of the JSON"},
        {"[[[[[[[[[[1]]]]]]]]]]", "layers: the JSON is nested deeper"},
        {"[]", "model: layer 0: layers: \"layers\" should be a list of at least one layer"},
        {"{}", "\"layers\" should be a list"},
        {"null", "\"layers\" should be a list"},
        {"[3]", "model: layer 0: layers: layer 1: should be an object with a \"type\""},
        {"[{\"type\": \"liner\", \"width\": 8}]", "layer 1: there is no type \"liner\"; did you mean \"linear\"?"},
        {"[{\"type\": \"linear\", \"width\": 7}]",
         "layer 0: layers: layer 1 (linear): its output is 7, expected the 8 numbers of the residual stream"},
        {"[{\"name\": \"a\", \"type\": \"linear\", \"width\": 8}, {\"name\": \"b\", \"type\": \"linear\", \"width\": "
         "9}]",
         "layer 2 (b): its output is 9, expected the 8 numbers"},
        {"[{\"type\": \"linear\", \"width\": \"classes\"}]",
         "layers: layer 1 (linear): the number of classes is unknown"},
        {"[{\"type\": \"reshape\", \"length\": 2, \"channels\": 4}]", "its output is 2 x 4, expected the 8 numbers"},
        {"[{\"name\": \"bn\", \"type\": \"batchnorm\"}]",
         "model: layer 0: layers: layer 1 (bn): it mixes rows by batch-norm; layers in the place of an MLP must act on "
         "single rows"},
        {SEQUENCE("{\"name\": \"g\", \"type\": \"gru\", \"width\": 4}"), "layer 2 (g): it mixes rows by recurrent"},
        {SEQUENCE("{\"type\": \"conv\", \"channels\": 4, \"kernel\": 1}"),
         "layer 2 (conv): it mixes rows by convolution"},
        {SEQUENCE("{\"type\": \"pool\", \"kernel\": 1}"), "layer 2 (pool): it mixes rows by pool"},
        {SEQUENCE("{\"type\": \"ssm\", \"size\": 4}"), "layer 2 (ssm): it mixes rows by ssm"},
        {SEQUENCE("{\"type\": \"mix\", \"heads\": 2}"), "layer 2 (mix): it mixes rows by mix"},
        {SEQUENCE("{\"type\": \"attention\", \"heads\": 2}"), "layer 2 (attention): it mixes rows by attention"},
        {SEQUENCE("{\"type\": \"block\", \"heads\": 2}"),
         "layer 2 (block): it mixes rows by attention; layers in the place"},
        {SEQUENCE("{\"type\": \"block\", \"heads\": 2, \"positions\": \"none\"}"),
         "layer 2 (block): it mixes rows by attention"},
        {SEQUENCE("{\"type\": \"positions\"}"), "layer 2 (positions): it needs the positions of rows"},
        {SEQUENCE("{\"type\": \"last\"}"), "layer 2 (last): it needs the positions of rows"},
        {"[{\"type\": \"attention\", \"heads\": 2}]",
         "layer 0: layers: layer 1 (attention): attention does not accept rows"},
        {"[{\"type\": \"last\"}]", "last does not accept rows"},
        {"[{\"name\": \"g\", \"type\": \"graph\"}]", "layer 1 (g): graph needs the edges of a graph"},
        {"[{\"type\": \"message\"}]", "layer 1 (message): message needs the edges of a graph"},
        {"[{\"type\": \"tanh\", \"from\": \"x\"}]", "layer 1 (tanh): \"from\": there is no layer \"x\""},
        {"[{\"name\": \"a\", \"type\": \"tanh\"}, {\"name\": \"a\", \"type\": \"tanh\"}]",
         "layers 1 and 2 have the same name \"a\""},
    };
    bo_context *context = test_context(1);
    bo_model *model;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const bo_model_desc desc = inner_desc(cases[i].layers);
        const bo_status status = bo_model_create(context, &desc, NULL, &model);
        if (status == BO_OK || status == BO_MEMORY || !strstr(bo_context_error(context), cases[i].message) ||
            strncmp(bo_context_error(context), "model: ", 7) != 0)
            fail_msg("%s: expected '%s', found: %s", cases[i].layers, cases[i].message,
                     status ? bo_context_error(context) : "accepted");
        assert_null(model);
    }
    const char *plain = "[{\"type\": \"tanh\"}]";
#define REFUSED(message, ...)                                                                                          \
    do {                                                                                                               \
        bo_model_desc desc = inner_desc(plain);                                                                        \
        bo_block blocks[2] = {desc.block, desc.block};                                                                 \
        (void)blocks;                                                                                                  \
        __VA_ARGS__;                                                                                                   \
        assert_fails(context, BO_INVALID, message, bo_model_create(context, &desc, NULL, &model));                     \
        assert_null(model);                                                                                            \
    } while (0)
    REFUSED("model: a block has either layers or an MLP, found layers and gelu", desc.block.mlp = BO_MLP_GELU);
    REFUSED("model: the MLP layers needs a list of layers", desc.block.layers = NULL; desc.block.mlp = BO_MLP_LAYERS);
    REFUSED("residual rule sandwich requires the mixer attention and an MLP with an activation function or layers, "
            "found conv and layers",
            desc.block.residual = BO_RESIDUAL_SANDWICH;
            desc.block.mixer = BO_MIXER_CONV);
    REFUSED("custom_mlp requires the MLP custom, found relu2", desc.block.custom_mlp.name = "x");
    REFUSED("degree_heads requires an MLP of a degree", desc.block.degree_heads = 2);
    REFUSED("model: block 1: a block has either layers or an MLP", desc.blocks = blocks; desc.block_count = 2;
            blocks[1].mlp = BO_MLP_SWIGLU);
    REFUSED("model: encoder block 1: a block has either", desc.task = BO_MODEL_TASK_TRANSLATE;
            desc.encoder_blocks = blocks; desc.encoder_block_count = 2; blocks[1].mlp = BO_MLP_SWIGLU);
    bo_context_destroy(context);
}

#define IN_DIRECTORY(function) cmocka_unit_test_setup_teardown(function, test_setup, directories_teardown)
int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_can_be_an_mlp),
        cmocka_unit_test(outputs_are_added_to_the_stream),
        cmocka_unit_test(widths),
        cmocka_unit_test(parametrized),
        cmocka_unit_test(streams_differ),
        cmocka_unit_test(noise_follows_the_seed),
        cmocka_unit_test(maps_differ),
        cmocka_unit_test(fingerprints),
        cmocka_unit_test(adoption),
        IN_DIRECTORY(adapters),
        cmocka_unit_test(storage),
        cmocka_unit_test(used_as_other_mlps),
        cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
