/* Models from descriptions: every member, presets, shared members, tasks; config.json of a model describes the same
 * model; errors and limits. */
#include <bochner/names.h>
#include "model/config.h"
#include "model/internal.h"
#include "stacks.h"
#include "translators.h"

#define SIZES "\"vocab_size\": 20, \"hidden_size\": 8, \"num_hidden_layers\": 2, \"max_position_embeddings\": 16, "
#define MODEL(members) "{" SIZES members "}"
#define BLOCK(members) MODEL("\"blocks\": [{\"heads\": 2, " members "}]")

static bo_status describe(bo_context *context, const char *text, bo_model **out)
{
    return bo_model_create_described(context, &(bo_description){.text = text, .where = "m.json", .seed = 5}, out);
}

static bo_model *described(bo_context *context, const char *text)
{
    bo_model *model;
    const bo_status status = describe(context, text, &model);
    if (status != BO_OK) fail_msg("%s: %s", text, bo_context_error(context));
    return model;
}

/* ---- members ----------------------------------------------------------------------------------------------------- */

/* Parses a description into its descriptor. */
static void every_member(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_model_desc d;
    const char *text =
        "{\"about\": \"all of them\", \"input\": {\"kind\": \"text\"}, \"vocab_size\": 300, \"hidden_size\": 24, "
        "\"num_hidden_layers\": 5, \"max_position_embeddings\": 77, \"tie_word_embeddings\": false, \"dropout\": "
        "0.125, \"seed\": \"18446744073709551615\", \"head_bias\": true, \"embedding_scale\": 3, \"logit_scale\": 0.5, "
        "\"parametrization\": \"mup\", \"base_width\": 12, \"storage\": \"float8\", \"blocks\": [{\"repeat\": 2, "
        "\"residual\": \"parallel\", \"residual_scale\": 0.25, \"norm\": \"layer\", \"norm_epsilon\": 0.001, \"bias\": "
        "true, \"mixer\": \"attention\", \"heads\": 4, \"key_heads\": 2, \"head_dim\": 6, \"attention\": {\"preset\": "
        "\"rfa-gate\", \"scale\": 0.5, \"one_draw\": true, \"clamp\": 0.01, \"features\": {\"kernel\": \"rbf\", "
        "\"function\": \"sincos\", \"draw\": \"orthogonal\", \"features\": 16, \"gamma\": 0.75, \"seed\": \"9\"}}, "
        "\"query_norm\": true, \"output_norm\": false, \"joint_norm\": true, \"sigma\": 2, \"gate_first\": -1, "
        "\"gate_last\": 4, \"attention_bias\": true, \"output_bias\": false, \"positions\": \"rope\", \"rope_base\": "
        "500, \"rotated\": 4, \"rope_scaling\": {\"kind\": \"llama3\", \"factor\": 8, \"low\": 1, \"high\": 4, "
        "\"original\": 64}, \"mlp\": \"random-features\", \"hidden\": 32, \"mlp_bias\": true, \"mlp_features\": "
        "{\"kernel\": \"matern32\", \"gamma\": 2, \"seed\": \"3\"}}, {\"heads\": 2, \"mixer\": \"ssm\", \"ssm\": "
        "\"low-rank\", \"state_size\": 7, \"state_rank\": 3, \"kernel\": 5, \"mlp\": \"degree-2\", \"degree_heads\": "
        "2}, {\"heads\": 1, \"layers\": [{\"type\": \"tanh\"}]}, {\"heads\": 1, \"mlp\": \"custom\", \"custom_mlp\": "
        "\"mine\", \"cross_attention\": \"linear\", \"replaced\": \"softmax\"}]}";
    assert_ok(context, bo_description_read(context, text, NULL, &d));
    assert_int_equal(d.vocab, 300);
    assert_int_equal(d.width, 24);
    assert_int_equal(d.layers, 5);
    assert_int_equal(d.context, 77);
    assert_true(d.untied && d.head_bias);
    assert_true(d.seed == UINT64_MAX);
    assert_close(d.dropout, 0.125, 0);
    assert_close(d.embedding_scale, 3, 0);
    assert_close(d.logit_scale, 0.5, 0);
    assert_int_equal(d.parametrization, BO_PARAMETRIZATION_MUP);
    assert_int_equal(d.base_width, 12);
    assert_int_equal(d.storage, BO_STORAGE_FLOAT8);
    assert_int_equal(d.block_count, 4);
    const bo_block *b = d.blocks;
    assert_int_equal(b->repeat, 2);
    assert_int_equal(b->residual, BO_RESIDUAL_PARALLEL);
    assert_close(b->residual_scale, 0.25, 0);
    assert_int_equal(b->norm, BO_NORM_LAYER);
    assert_close(b->norm_epsilon, 0.001, 0);
    assert_true(b->bias && b->joint_norm);
    assert_int_equal(b->mixer, BO_MIXER_ATTENTION);
    assert_int_equal(b->heads, 4);
    assert_int_equal(b->key_heads, 2);
    assert_int_equal(b->head_dim, 6);
    assert_int_equal(b->query_norm, BO_CHOICE_YES);
    assert_int_equal(b->output_norm, BO_CHOICE_NO);
    assert_close(b->sigma, 2, 0);
    assert_close(b->gate_first, -1, 0);
    assert_close(b->gate_last, 4, 0);
    assert_int_equal(b->attention_bias, BO_CHOICE_YES);
    assert_int_equal(b->output_bias, BO_CHOICE_NO);
    assert_int_equal(b->mlp_bias, BO_CHOICE_YES);
    assert_int_equal(b->positions, BO_POSITIONS_ROPE);
    assert_close(b->rope_base, 500, 0);
    assert_int_equal(b->rotated, 4);
    assert_int_equal(b->rope_scaling.kind, BO_ROPE_SCALING_KIND_LLAMA3);
    assert_close(b->rope_scaling.factor, 8, 0);
    assert_close(b->rope_scaling.low, 1, 0);
    assert_close(b->rope_scaling.high, 4, 0);
    assert_close(b->rope_scaling.original, 64, 0);
    assert_int_equal(b->mlp, BO_MLP_RANDOM_FEATURES);
    assert_int_equal(b->hidden, 32);
    assert_close(b->mlp_features.gamma, 2, 0);
    assert_true(b->mlp_features.seed == 3);
    bo_attention_desc rfa = {.heads = 0};
    assert_true(bo_attention_preset("rfa-gate", &rfa));
    const bo_attention_desc *a = &b->attention;
    assert_int_equal(a->kind, rfa.kind);
    assert_int_equal(a->gate, rfa.gate);
    assert_close(a->scale, 0.5, 0);
    assert_true(a->one_draw);
    assert_close(a->clamp, 0.01, 0);
    assert_int_equal(a->features.features, 16);
    assert_close(a->features.gamma, 0.75, 0);
    assert_int_equal(a->features.draw, BO_DRAW_ORTHOGONAL);
    assert_true(a->features.seed == 9);
    b = &d.blocks[1];
    assert_int_equal(b->ssm, BO_SSM_LOW_RANK);
    assert_int_equal(b->state_size, 7);
    assert_int_equal(b->state_rank, 3);
    assert_int_equal(b->kernel, 5);
    assert_int_equal(b->mlp, BO_MLP_DEGREE_2);
    assert_int_equal(b->degree_heads, 2);
    assert_string_equal(d.blocks[2].layers, "[{\"type\":\"tanh\"}]");
    assert_string_equal(d.blocks[3].custom_mlp.name, "mine");
    assert_int_equal(d.blocks[3].cross_attention.kind, BO_ATTENTION_LINEAR);
    assert_int_equal(d.blocks[3].replaced.heads, 1);
    assert_int_equal(d.block.repeat, 2); /* the first one */
    bo_model_desc_release(&d);
    bo_context_destroy(context);
}

/* All missing members remain 0. */
static void nothing_is_needed(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_model_desc d;
    assert_ok(context, bo_description_read(context, "{\"blocks\": [{\"heads\": 2}, {\"heads\": 1}]}", NULL, &d));
    assert_true(!d.vocab && !d.width && !d.layers && !d.context && !d.classes && !d.labels && !d.encoder_blocks);
    assert_true(!d.blocks[0].repeat && !d.blocks[0].layers && d.blocks[0].mlp == BO_MLP_RELU2);
    bo_model_desc_release(&d);
    /* the list once, if the number of layers is not set */
    bo_model *model =
        described(context, "{\"vocab_size\": 20, \"hidden_size\": 8, \"max_position_embeddings\": 16, \"blocks\": "
                           "[{\"heads\": 2, \"repeat\": 3}, {\"heads\": 1}]}");
    assert_int_equal(bo_model_describe(model)->layers, 4);
    assert_int_equal(bo_model_describe(model)->seed, 5);
    bo_model_destroy(model);
    bo_context_destroy(context);
}

/* Forms of one attention: the name of a preset, an object with it, all its members. */
static void presets(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    for (unsigned i = 0; bo_enum_name(BO_ENUM_ATTENTION_PRESET, (int)i); i++) {
        char text[2][512];
        bo_model_desc d[2];
        const char *name = bo_enum_name(BO_ENUM_ATTENTION_PRESET, (int)i);
        snprintf(text[0], 512, BLOCK("\"attention\": \"%s\""), name);
        snprintf(text[1], 512, BLOCK("\"attention\": {\"preset\": \"%s\"}"), name);
        for (size_t k = 0; k < 2; k++) assert_ok(context, bo_description_read(context, text[k], NULL, &d[k]));
        bo_attention_desc expected = {.heads = 0};
        assert_true(bo_attention_preset(name, &expected));
        for (size_t k = 0; k < 2; k++) {
            assert_memory_equal(&d[k].block.attention, &expected, sizeof expected);
            bo_model_desc_release(&d[k]);
        }
        bo_model_destroy(described(context, text[1]));
    }
    /* a number is the number of features, and keeps the other members of a preset */
    bo_model_desc d;
    bo_attention_desc favor = {.heads = 0};
    assert_true(bo_attention_preset("favor", &favor));
    favor.features.features = 9;
    assert_ok(context,
              bo_description_read(context, BLOCK("\"attention\": {\"preset\": \"favor\", \"features\": 9}"), NULL, &d));
    assert_memory_equal(&d.block.attention, &favor, sizeof favor);
    bo_model_desc_release(&d);
    bo_context_destroy(context);
}

/* A block has the shared members unless it overrides them. MLP and layers are mutually exclusive. */
static void shared(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_model_desc d;
    assert_ok(context,
              bo_description_read(
                  context,
                  MODEL("\"block\": {\"heads\": 2, \"attention\": {\"preset\": \"favor\", \"features\": 8}, "
                        "\"layers\": [{\"type\": \"tanh\"}], \"rope_base\": 77}, \"blocks\": [{}, "
                        "{\"attention\": {\"features\": 6}, \"mlp\": \"swiglu\"}, {\"heads\": 4, \"layers\": "
                        "[{\"type\": \"gelu\"}], \"rope_base\": 55}, {\"mlp\": \"none\"}, {\"mlp\": \"layers\"}]"),
                  NULL, &d));
    for (size_t i = 0; i < 5; i++) {
        const bo_block *b = &d.blocks[i];
        const bool has = i != 1 && i != 3;
        assert_int_equal(b->heads, i == 2 ? 4 : 2);
        assert_int_equal(b->attention.kind, BO_ATTENTION_FAVOR);
        assert_int_equal(b->attention.features.features, i == 1 ? 6 : 8);
        assert_close(b->rope_base, i == 2 ? 55 : 77, 0);
        assert_int_equal(b->layers != NULL, has);
        assert_int_equal(b->mlp, has && i ? BO_MLP_LAYERS
                                 : i == 1 ? BO_MLP_SWIGLU
                                 : i == 3 ? BO_MLP_NONE
                                          : BO_MLP_LAYERS);
        if (has) assert_string_equal(b->layers, i == 2 ? "[{\"type\":\"gelu\"}]" : "[{\"type\":\"tanh\"}]");
    }
    bo_model_desc_release(&d);
    assert_ok(context,
              bo_description_read(context,
                                  MODEL("\"block\": {\"heads\": 2, \"mlp\": \"gelu\", \"hidden\": 5}, \"blocks\": [{}, "
                                        "{\"layers\": [{\"type\": \"tanh\"}]}]"),
                                  NULL, &d));
    assert_int_equal(d.blocks[0].mlp, BO_MLP_GELU);
    assert_int_equal(d.blocks[1].mlp, BO_MLP_LAYERS);
    bo_model_desc_release(&d);
    bo_context_destroy(context);
}

/* ---- tasks ------------------------------------------------------------------------------------------------------- */

static void tasks(void **state)
{
    (void)state;
    static const char *const labels[] = {"no", "yes"};
    bo_context *context = test_context(1);
    bo_model_desc d;
    bo_model *model;
    assert_ok(context, bo_description_read(context, BLOCK("\"mlp\": \"none\""), NULL, &d));
    assert_int_equal(d.task, BO_MODEL_TASK_LANGUAGE);
    bo_model_desc_release(&d);
    /* classes may follow */
    const char *text =
        MODEL("\"task\": \"classify\", \"pooling\": \"max\", \"forward\": true, \"blocks\": [{\"heads\": 2}]");
    assert_fails(context, BO_INVALID, "2 to 16384 classes, found 0", describe(context, text, &model));
    assert_ok(context, bo_description_read(context, text, NULL, &d));
    assert_true(d.task == BO_MODEL_TASK_CLASSIFY && d.pooling == BO_POOLING_MAX && d.forward);
    bo_model_desc desc = d;
    desc.classes = 2, desc.labels = labels;
    assert_ok(context, bo_model_create(context, &desc, NULL, &model));
    assert_string_equal(bo_model_describe(model)->labels[1], "yes");
    bo_model_destroy(model);
    bo_model_desc_release(&d);
    model = described(
        context, MODEL("\"task\": \"match\", \"id2label\": {\"0\": \"no\", \"1\": \"yes\"}, \"label2id\": {\"no\": 0, "
                       "\"yes\": 1}, \"blocks\": [{\"heads\": 2}]"));
    assert_int_equal(bo_model_describe(model)->classes, 2);
    bo_model_destroy(model);
    /* separate encoder blocks, or the blocks of the decoder */
    for (int own_blocks = 0; own_blocks < 2; own_blocks++) {
        model = described(
            context, own_blocks
                         ? MODEL("\"task\": \"translate\", \"cross\": \"summary\", \"encoder_layers\": 3, \"blocks\": "
                                 "[{\"heads\": 2}], \"encoder_blocks\": [{\"heads\": 4, \"layers\": [{\"type\": "
                                 "\"tanh\"}]}, {\"heads\": 1}]")
                         : MODEL("\"task\": \"translate\", \"blocks\": [{\"heads\": 2, \"cross_attention\": "
                                 "{\"preset\": \"favor\", \"features\": 6}, \"layers\": [{\"type\": \"tanh\"}]}]"));
        const bo_model_desc *m = bo_model_describe(model);
        assert_int_equal(m->encoder_layers, own_blocks ? 3 : 2);
        assert_int_equal(m->cross, own_blocks ? BO_CROSS_SUMMARY : BO_CROSS_ATTENTION);
        assert_int_equal(m->encoder.heads, own_blocks ? 4 : 2);
        assert_non_null(m->encoder.layers);
        if (!own_blocks) assert_int_equal(m->block.cross_attention.features.features, 6);
        bo_model_destroy(model);
    }
    bo_context_destroy(context);
}

/* ---- config.json ------------------------------------------------------------------------------------------------- */

/* config.json of a model of Bochner is a description of the model: its weights are those of a new model, and it is
 * written as the same file. */
static void check_trip(bo_context *context, const char *name, const bo_model_desc *desc)
{
    bo_model *model, *again;
    char *json, *other;
    assert_ok(context, bo_model_create(context, desc, NULL, &model));
    assert_ok(context, bo_config_write(context, model, &json));
    if (!strstr(json, "\"blocks\"")) fail_msg("%s: is written as the model of another family", name);
    assert_ok(context, bo_model_create_described(context, &(bo_description){.text = json}, &again));
    assert_ok(context, bo_config_write(context, again, &other));
    assert_string_equal(json, other);
    assert_int_equal(bo_model_fingerprint(model), bo_model_fingerprint(again));
    uint64_t digests[2];
    assert_ok(context, bo_model_digest(context, model, &digests[0]));
    assert_ok(context, bo_model_digest(context, again, &digests[1]));
    if (digests[0] != digests[1]) fail_msg("%s: other weights", name);
    bo_free(json), bo_free(other);
    bo_model_destroy(again), bo_model_destroy(model);
}

static void config_is_a_description(void **state)
{
    (void)state;
    static const char *const labels[] = {"no", "\"yes\""};
    bo_context *context = test_context(1);
    for (size_t i = 0; i < STACKS; i++) {
        bo_block blocks[STACK_BLOCKS];
        bo_model_desc desc = stack_desc(&stacks[i], blocks);
        desc.dropout = 0.25, desc.untied = i % 2, desc.logit_scale = 0.5;
        check_trip(context, stacks[i].name, &desc);
        desc.task = i % 2 ? BO_MODEL_TASK_CLASSIFY : BO_MODEL_TASK_MATCH, desc.forward = i % 3 == 0;
        desc.classes = 2, desc.labels = labels, desc.pooling = BO_POOLING_MAX, desc.untied = false,
        desc.logit_scale = 0;
        check_trip(context, stacks[i].name, &desc);
    }
    for (size_t i = 0; i < LISTS; i++) {
        bo_block blocks[2 * LIST_BLOCKS];
        bo_model_desc desc = translator_lists(i, blocks);
        check_trip(context, "a translator", &desc);
    }
    for (size_t i = 0; test_kind(i); i++) {
        bo_model_desc desc = test_desc(test_kind(i));
        desc.block.mlp = BO_MLP_DEGREE_2, desc.block.bias = i % 2;
        check_trip(context, test_kind(i), &desc);
    }
    bo_context_destroy(context);
}

/* ---- mistakes and limits ----------------------------------------------------------------------------------------- */

static void refusals(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
        bo_status status; /* 0: BO_FORMAT */
    } cases[] = {
        {"", "m.json: the JSON is malformed near byte 0", 0},
        {"{\"blocks\": [{\"heads\": 2}]", "m.json: the JSON is malformed", 0},
        {"\"blocks\"", "m.json: should be an object", 0},
        {"{\"blocks\": [[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]}", "nested deeper", 0},
        {MODEL("\"blocks\": 3"), "m.json: \"blocks\" should be a list of 1 to 4096 blocks", 0},
        {MODEL("\"blocks\": []"), "m.json: \"blocks\" should be a list of 1 to 4096 blocks", 0},
        {MODEL("\"blocks\": [{\"heads\": 2}, 3]"), "m.json: block 1 of \"blocks\": should be a JSON object", 0},
        {MODEL("\"blocks\": [{\"heads\": 2}, {}]"), "m.json: block 1 of \"blocks\": \"heads\" is missing", 0},
        {BLOCK("\"head\": 2"), "block 0 of \"blocks\": unknown member \"head\"; did you mean \"heads\"?", 0},
        {BLOCK("\"heads\": 4"), "block 0 of \"blocks\": has the member \"heads\" twice", 0},
        {BLOCK("\"repeat\": 4097"), "repeat must be at most 4096, found 4097", BO_INVALID},
        {BLOCK("\"repeat\": -1"), "\"repeat\" should be a whole number", 0},
        {BLOCK("\"repeat\": 1.5"), "\"repeat\" should be a whole number", 0},
        {BLOCK("\"attention\": \"soft\""),
         "block 0 of \"blocks\": \"attention\" should be the name of a preset, found \"soft\"", 0},
        {BLOCK("\"attention\": {\"preset\": 3}"), "\"attention\" should be the name of a preset, found 3", 0},
        {BLOCK("\"attention\": 3"), "\"attention\": should be a JSON object", 0},
        {BLOCK("\"attention\": {\"preset\": \"favor\", \"features\": \"8\"}"),
         "\"attention\": \"features\": should be a JSON object", 0},
        {BLOCK("\"attention\": {\"preset\": \"favor\", \"features\": -8}"), "\"features\" should be a whole number", 0},
        {BLOCK("\"attention\": {\"features\": {\"preset\": \"rbf\"}}"), "\"features\": unknown member \"preset\"", 0},
        {BLOCK("\"mlp_features\": \"rbf\""), "\"mlp_features\": should be a JSON object", 0},
        {BLOCK("\"positions\": \"sometimes\""),
         "\"positions\" should be one of rope, rope-neighbors, learned, sinusoidal, none", 0},
        {BLOCK("\"mlp\": \"custom\", \"custom_mlp\": \"x\""), "custom_mlp 'x' has no record function", BO_INVALID},
        {BLOCK("\"layers\": null"), "layer 0: layers: \"layers\" should be a list of at least one layer", 0},
        {BLOCK("\"layers\": [{\"type\": \"linear\"}]"),
         "model: layer 0: layers: layer 1 (linear): \"width\" is missing", 0},
        {BLOCK("\"layers\": [{\"type\": \"tanh\"}], \"mlp\": \"gelu\""), "a block has either layers or an MLP",
         BO_INVALID},
        {MODEL("\"block\": {\"heads\": 2, \"head\": 2}, \"blocks\": [{}]"),
         "block 0 of \"blocks\": \"block\": unknown member \"head\"; did you mean \"heads\"?", 0},
        {MODEL("\"block\": 2, \"blocks\": [{\"heads\": 2}]"), "\"block\": should be a JSON object", 0},
        {MODEL("\"blocks\": [{\"heads\": 2}], \"blocks\": [{\"heads\": 2}]"), "m.json: has the member \"blocks\" twice",
         0},
        {MODEL("\"blocks\": [{\"heads\": 2}], \"layers\": []"),
         "m.json: unknown member \"layers\"; did you mean \"num_hidden_layers\"?", 0},
        {MODEL("\"blocks\": [{\"heads\": 2}], \"num_attention_heads\": 2"),
         "m.json: unknown member \"num_attention_heads\"", 0},
        {MODEL("\"blocks\": [{\"heads\": 2}], \"input\": {\"kind\": \"image\"}"), "\"input\" should have the kind text",
         0},
        {MODEL("\"blocks\": [{\"heads\": 2}], \"input\": 3"), "\"input\" should have the kind text", 0},
        {MODEL("\"blocks\": [{\"heads\": 2}], \"input\": {\"kind\": \"text\", \"length\": 3}"), "has no other members",
         0},
        {MODEL("\"blocks\": [{\"heads\": 2}], \"bochner_format\": 5"), "has format 5, but Bochner", BO_VERSION},
        {MODEL("\"blocks\": [{\"heads\": 2}], \"bochner_format\": 3"), "has format 3, but Bochner", BO_VERSION},
        {MODEL("\"blocks\": [{\"heads\": 2}], \"bochner_format\": \"4\""),
         "\"bochner_format\" should be a whole number", 0},
        {MODEL("\"blocks\": [{\"heads\": 2}], \"model_type\": \"llama\""),
         "the configuration of a model of the type llama", 0},
        {"{\"model_type\": \"llama\", \"hidden_size\": 8}", "m.json: the config.json of a model that has no \"blocks\"",
         0},
        {"{\"model_type\": \"bochner\", \"bochner_format\": 4, \"task\": \"predict\", \"network\": {}}",
         "m.json: the config.json of a model: its description is the member \"network\"", 0},
        {MODEL("\"blocks\": [{\"heads\": 2}], \"task\": \"sing\""), "\"task\" should be one of language, classify", 0},
        {MODEL("\"blocks\": [{\"heads\": 2}], \"task\": \"predict\""), "a model of the task predict has \"layers\"", 0},
        {MODEL("\"blocks\": [{\"heads\": 2}], \"pooling\": \"max\""),
         "\"pooling\" is for the task classify or match, found language", 0},
        {MODEL("\"blocks\": [{\"heads\": 2}], \"id2label\": {}"), "\"id2label\" is for the task classify or match", 0},
        {MODEL("\"blocks\": [{\"heads\": 2}], \"encoder_blocks\": [{\"heads\": 2}]"),
         "\"encoder_blocks\" is for the task translate", 0},
        {MODEL("\"task\": \"classify\", \"blocks\": [{\"heads\": 2}], \"cross\": \"summary\""),
         "\"cross\" is for the task translate, found classify", 0},
        {MODEL("\"task\": \"classify\", \"blocks\": [{\"heads\": 2}], \"id2label\": 3"),
         "\"id2label\" should be an object", 0},
        {MODEL("\"task\": \"translate\", \"blocks\": [{\"heads\": 2}], \"encoder_blocks\": []"),
         "\"encoder_blocks\" should be a list of 1 to 4096", 0},
        {MODEL("\"task\": \"translate\", \"blocks\": [{\"heads\": 2}], \"encoder_blocks\": [{\"heads\": 2}, "
               "{\"heads\": 0}]"),
         "block 1 of \"encoder_blocks\": \"heads\" is missing", 0},
    };
    bo_context *context = test_context(1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bo_model *model;
        const bo_status expected = cases[i].status ? cases[i].status : BO_FORMAT,
                        status = describe(context, cases[i].text, &model);
        if (status != expected || !strstr(bo_context_error(context), cases[i].message))
            fail_msg("%s: expected '%s', found %s: %s", cases[i].text, cases[i].message, bo_status_string(status),
                     bo_context_error(context));
        assert_null(model);
    }
    /* members that text models do not have */
    bo_model *model;
    bo_examples *examples;
    const float x[2] = {0, 1};
    const double y[2] = {0, 1};
    const char *text = BLOCK("\"mlp\": \"none\"");
    assert_ok(context,
              bo_examples_create(context, &(bo_examples_arrays){.rows = 2, .dim = 1, .targets = 1, .x = x, .y = y},
                                 &examples));
    assert_fails(context, BO_INVALID, "found examples, but the model reads text",
                 bo_model_create_described(context, &(bo_description){.text = text, .examples = examples}, &model));
    assert_fails(context, BO_INVALID, "blocks have no width multiplier",
                 bo_model_create_described(context, &(bo_description){.text = text, .width_multiplier = 2}, &model));
    bo_tokenizer *tokenizer;
    assert_ok(context, bo_tokenizer_create(context, &tokenizer));
    const char *layers =
        "{\"input\": {\"kind\": \"array\"}, \"layers\": [{\"type\": \"linear\", \"width\": 1}], \"loss\": \"mse\"}";
    assert_fails(context, BO_INVALID, "found a tokenizer, but the input is not text",
                 bo_model_create_described(
                     context, &(bo_description){.text = layers, .examples = examples, .tokenizer = tokenizer}, &model));
    bo_tokenizer_destroy(tokenizer);
    bo_examples_destroy(examples);
    bo_context_destroy(context);
}

static char *many(size_t blocks, size_t layers)
{
    char *text = malloc(16 * blocks + 256), *at = text;
    at += sprintf(at,
                  "{\"vocab_size\": 3, \"hidden_size\": 2, \"max_position_embeddings\": 4, \"num_hidden_layers\": %zu, "
                  "\"block\": {\"heads\": 1, \"mlp\": \"none\", \"mixer\": \"conv\", \"kernel\": 1}, \"blocks\": [",
                  layers);
    for (size_t i = 0; i < blocks; i++) at += sprintf(at, i ? ", {}" : "{}");
    strcpy(at, "]}");
    return text;
}

static void limits(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_model *model;
    static const struct {
        size_t blocks, layers;
        const char *message;
    } cases[] = {{4096, 2, NULL},
                 {4097, 2, "\"blocks\" should be a list of 1 to 4096 blocks"},
                 {1, 4097, "layers must be at most 4096, found 4097"}};
    for (size_t i = 0; i < 3; i++) {
        char *text = many(cases[i].blocks, cases[i].layers);
        if (cases[i].message)
            assert_fails(context, i == 1 ? BO_FORMAT : BO_INVALID, cases[i].message, describe(context, text, &model));
        else
            bo_model_destroy(described(context, text));
        free(text);
    }
    static const char *const repeats[] = {"0", "1", "4096"};
    for (size_t i = 0; i < 3; i++) {
        char text[256];
        snprintf(text, sizeof text, MODEL("\"blocks\": [{\"heads\": 2, \"repeat\": %s}, {\"heads\": 1}]"), repeats[i]);
        model = described(context, text);
        assert_int_equal(bo_model_block(bo_model_describe(model), 1)->heads, i < 2 ? 1 : 2);
        bo_model_destroy(model);
    }
    bo_context_destroy(context);
}

/* Softmax attention is all zero in a descriptor, but counts as set if the description names it, regardless of the
 * position of the heads. */
static void explicit_softmax(void **state)
{
    (void)state;
    static const char *const blocks[] = {
        "\"block\": {\"attention\": \"rfa\", \"cross_attention\": \"softmax\"}, \"blocks\": "
        "[{\"heads\": 2}]",
        "\"block\": {\"attention\": \"rfa\", \"cross_attention\": \"softmax\", \"heads\": 2}, "
        "\"blocks\": [{}]"};
    bo_context *context = test_context(1);
    for (size_t i = 0; i < 2; i++) {
        char text[512];
        snprintf(text, sizeof text, "{" SIZES "\"task\": \"translate\", %s}", blocks[i]);
        bo_model *model = described(context, text);
        assert_int_not_equal(bo_model_describe(model)->block.attention.kind, BO_ATTENTION_SOFTMAX);
        assert_int_equal(bo_model_describe(model)->block.cross_attention.kind, BO_ATTENTION_SOFTMAX);
        bo_model_destroy(model);
    }
    bo_context_destroy(context);
}

/* A list may be longer than the model. What no layer has does not count. */
static void blocks_of_no_layer(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_model *model =
        described(context, MODEL("\"blocks\": [{\"repeat\": 2, \"heads\": 2}, {\"heads\": 2, \"mixer\": \"mlp\"}]"));
    assert_int_equal(bo_model_describe(model)->block_count, 1);
    assert_int_equal(bo_model_max_tokens(&model->desc), 0); /* the mixer mlp would limit it */
    bo_model_destroy(model);
    const bo_block blocks[] = {{.mlp = BO_MLP_GELU}, {.heads = 2}};
    const bo_model_desc desc = {.layers = 2,
                                .width = 8,
                                .context = 8,
                                .vocab = 20,
                                .task = BO_MODEL_TASK_TRANSLATE,
                                .block.heads = 2,
                                .encoder_blocks = blocks,
                                .encoder_block_count = 2};
    assert_fails(context, BO_INVALID, "encoder block 0: heads", bo_model_create(context, &desc, NULL, &model));
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_member),
        cmocka_unit_test(nothing_is_needed),
        cmocka_unit_test(presets),
        cmocka_unit_test(shared),
        cmocka_unit_test(tasks),
        cmocka_unit_test(config_is_a_description),
        cmocka_unit_test(refusals),
        cmocka_unit_test(limits),
        cmocka_unit_test(explicit_softmax),
        cmocka_unit_test(blocks_of_no_layer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
