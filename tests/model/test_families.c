/* config.json of pretrained families: the meaning of members in every version of transformers, defaults of absent
 * members, refusals by name, and tensors that do not fit, which are reported together. */
#include "io/files.h"
#include "io/tensors.h"
#include "model/config.h"
#include "model/internal.h"
#include "models.h"

#define SIZES                                                                                                          \
    "\"vocab_size\": 100, \"hidden_size\": 64, \"num_hidden_layers\": 4, \"num_attention_heads\": 8, "                 \
    "\"max_position_embeddings\": 32, \"intermediate_size\": 48"

static bo_status read_config(bo_context *context, const char *type, const char *members, bo_config *out)
{
    char text[2048];
    const bool gpt2 = strcmp(type, "gpt2") == 0;
    snprintf(text, sizeof text, "{\"model_type\": \"%s\", %s%s%s}", type,
             gpt2 ? "\"vocab_size\": 100, \"n_embd\": 64, \"n_layer\": 4, \"n_head\": 8, \"n_positions\": 32" : SIZES,
             *members ? ", " : "", members);
    return bo_config_read(context, "config.json", text, strlen(text), out);
}

static bo_model_desc meaning(bo_context *context, const char *type, const char *members)
{
    bo_config config;
    bo_model_desc resolved;
    assert_ok(context, read_config(context, type, members, &config));
    assert_ok(context, bo_model_resolve(context, &config.desc, NULL, &resolved));
    bo_config_free(&config);
    return resolved;
}

/* ---- defaults ---------------------------------------------------------------------------------------------------- */

/* The values of transformers 5.22, for heads = 8 and width = 64. */
static void absent_members(void **state)
{
    (void)state;
    static const struct {
        const char *type, *members;
        size_t key_heads, head_dim, rotated, window;
        double epsilon, base, embedding;
        bo_mlp mlp;
        bool untied, qkv, output, inner;
        bo_residual residual;
    } cases[] = {
        {"llama", "", 8, 8, 0, 0, 1e-6, 10000, 1, BO_MLP_SWIGLU, true, false, false, false, BO_RESIDUAL_SEQUENTIAL},
        {"mistral", "", 8, 8, 0, 4096, 1e-6, 10000, 1, BO_MLP_SWIGLU, true, false, false, false,
         BO_RESIDUAL_SEQUENTIAL},
        {"qwen2", "\"num_key_value_heads\": 2", 2, 8, 0, 0, 1e-6, 10000, 1, BO_MLP_SWIGLU, true, true, false, false,
         BO_RESIDUAL_SEQUENTIAL},
        {"qwen3", "\"num_key_value_heads\": 2", 2, 128, 0, 0, 1e-6, 10000, 1, BO_MLP_SWIGLU, true, false, false, false,
         BO_RESIDUAL_SEQUENTIAL},
        {"gemma", "\"num_key_value_heads\": 2", 2, 256, 0, 0, 1e-6, 10000, 8, BO_MLP_GEGLU_TANH, false, false, false,
         false, BO_RESIDUAL_SEQUENTIAL},
        {"gpt2", "", 8, 8, 0, 0, 1e-5, 10000, 1, BO_MLP_GELU_TANH, false, true, true, true, BO_RESIDUAL_SEQUENTIAL},
        {"gpt_neox", "", 8, 8, 2, 0, 1e-5, 10000, 1, BO_MLP_GELU, true, true, true, true, BO_RESIDUAL_PARALLEL},
        {"phi", "", 8, 8, 4, 0, 1e-5, 10000, 1, BO_MLP_GELU_TANH, true, true, true, true, BO_RESIDUAL_SHARED},
        {"phi3", "", 8, 8, 0, 0, 1e-5, 10000, 1, BO_MLP_SWIGLU, true, false, false, false, BO_RESIDUAL_SEQUENTIAL},
        {"starcoder2", "", 2, 8, 0, 0, 1e-5, 10000, 1, BO_MLP_GELU_TANH, false, true, true, true,
         BO_RESIDUAL_SEQUENTIAL},
        {"stablelm", "\"num_key_value_heads\": 8", 8, 8, 2, 0, 1e-5, 10000, 1, BO_MLP_SWIGLU, true, false, false, false,
         BO_RESIDUAL_SEQUENTIAL},
        {"granite", "", 8, 8, 0, 0, 1e-6, 10000, 1, BO_MLP_SWIGLU, true, false, false, false, BO_RESIDUAL_SEQUENTIAL},
        {"smollm3", "", 4, 8, 0, 0, 1e-6, 2e6, 1, BO_MLP_SWIGLU, false, false, false, false, BO_RESIDUAL_SEQUENTIAL},
    };
    bo_context *context = test_context(1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bo_model_desc d = meaning(context, cases[i].type, cases[i].members);
        const bo_block_biases biases = bo_block_biases_of(&d.block);
        print_message("%s\n", cases[i].type);
        assert_int_equal(d.block.key_heads, cases[i].key_heads);
        assert_int_equal(d.block.head_dim, cases[i].head_dim);
        assert_int_equal(d.block.rotated, cases[i].rotated);
        assert_int_equal(d.block.attention.window, cases[i].window);
        assert_close(d.block.norm_epsilon, cases[i].epsilon, 0);
        assert_close(d.block.rope_base, cases[i].base, 0);
        assert_close(d.embedding_scale, cases[i].embedding, 0);
        assert_int_equal(d.block.mlp, cases[i].mlp);
        assert_int_equal(d.untied, cases[i].untied);
        assert_int_equal(biases.attention, cases[i].qkv);
        assert_int_equal(biases.output, cases[i].output);
        assert_int_equal(biases.mlp, cases[i].inner);
        assert_int_equal(d.block.residual, cases[i].residual);
        assert_int_equal(d.head_bias, strcmp(cases[i].type, "phi") == 0);
        bo_model_desc_release(&d);
    }
    bo_context_destroy(context);
}

/* ---- members ----------------------------------------------------------------------------------------------------- */

static void rope_of_every_version(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_model_desc d = meaning(context, "llama", "\"rope_theta\": 500");
    assert_close(d.block.rope_base, 500, 0);
    d = meaning(context, "llama", "\"rope_theta\": 500, \"rope_parameters\": {\"rope_theta\": 700}");
    assert_close(d.block.rope_base, 700, 0);
    d = meaning(context, "llama", "\"rope_theta\": 500, \"rope_scaling\": {\"type\": \"linear\", \"factor\": 2}");
    assert_int_equal(d.block.rope_scaling.kind, BO_ROPE_SCALING_KIND_LINEAR);
    assert_close(d.block.rope_scaling.factor, 2, 0);
    assert_close(d.block.rope_base, 500, 0);
    d = meaning(context, "llama",
                "\"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8, \"low_freq_factor\": 1, "
                "\"high_freq_factor\": 4, \"original_max_position_embeddings\": 8192}");
    assert_close(d.block.rope_scaling.original, 8192, 0);
    d = meaning(context, "gpt_neox", "\"rotary_emb_base\": 300, \"rotary_pct\": 1.0");
    assert_int_equal(d.block.rotated, 0); /* the whole head */
    assert_close(d.block.rope_base, 300, 0);
    d = meaning(context, "phi",
                "\"partial_rotary_factor\": 0.25, \"rope_parameters\": {\"partial_rotary_factor\": 0.75}");
    assert_int_equal(d.block.rotated, 6);
    bo_context_destroy(context);
}

/* Compares the windows of the layers with their digits; '.': the layer sees all keys. Releases the descriptor. */
static void assert_windows(bo_model_desc *d, const char *digits)
{
    for (size_t i = 0; i < d->layers; i++)
        assert_int_equal(bo_model_block(d, i)->attention.window, digits[i] == '.' ? 0 : digits[i] - '0');
    bo_model_desc_release(d);
}

static void windows_and_nulls(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_model_desc d =
        meaning(context, "mistral", "\"sliding_window\": null, \"num_key_value_heads\": null, \"head_dim\": null");
    assert_int_equal(d.block.attention.window, 0);
    assert_int_equal(d.block.key_heads, 8);
    assert_int_equal(d.block.head_dim, 8);
#define QWEN "\"num_key_value_heads\": 2, \"use_sliding_window\": true, \"sliding_window\": 9"
    d = meaning(context, "qwen2", "\"num_key_value_heads\": 2, \"use_sliding_window\": false, \"sliding_window\": 9");
    assert_windows(&d, "....");
    d = meaning(context, "qwen2", QWEN); /* after layer 28 */
    assert_windows(&d, "....");
    d = meaning(context, "qwen2", QWEN ", \"max_window_layers\": 3");
    assert_windows(&d, "...9");
#define FULL    "\"full_attention\""
#define SLIDING "\"sliding_attention\""
    d = meaning(context, "qwen2", QWEN ", \"layer_types\": [" SLIDING ", " FULL ", " SLIDING ", " FULL "]");
    assert_windows(&d, "9.9.");
    d = meaning(context, "qwen2", QWEN ", \"layer_types\": [" FULL ", " FULL ", " FULL ", " FULL "]");
    assert_windows(&d, "....");
    d = meaning(context, "mistral",
                "\"sliding_window\": 9, \"layer_types\": [" FULL ", " FULL ", " SLIDING ", " SLIDING "]");
    assert_windows(&d, "..99");
    d = meaning(context, "qwen2", QWEN ", \"layer_types\": [" SLIDING ", " FULL ", " FULL ", " SLIDING "]");
    assert_windows(&d, "9..9"); /* without a pattern */
    bo_context_destroy(context);
}

/* Compares the layers with characters: 'r' has RoPE and 'n' has none, 'R' and 'N' likewise with a window of 9. */
static void assert_layers(bo_context *context, const char *members, const char *expected)
{
    bo_model_desc d = meaning(context, "smollm3", members);
    for (size_t i = 0; i < d.layers; i++) {
        const bo_block *b = bo_model_block(&d, i);
        const bool rope = b->positions == BO_POSITIONS_ROPE;
        assert_int_equal(expected[i], b->attention.window == 9 ? rope ? 'R' : 'N' : rope ? 'r' : 'n');
    }
    bo_model_desc_release(&d);
}

static void layers_without_positions(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    assert_layers(context, "\"no_rope_layers\": null", "rrrn");
    assert_layers(context, "\"no_rope_layer_interval\": 2", "rnrn");
    assert_layers(context, "\"no_rope_layer_interval\": 1", "nnnn");
    assert_layers(context, "\"no_rope_layer_interval\": 2, \"no_rope_layers\": [0, 0, 1, 1, 0]", "nnrr");
    assert_layers(context, "\"no_rope_layer_interval\": 5, \"sliding_window\": 9", "rrrr");
#define SMOL "\"use_sliding_window\": true, \"sliding_window\": 9"
    assert_layers(context, SMOL, "rrrN");
    assert_layers(context, SMOL ", \"layer_types\": [" SLIDING ", " FULL ", " FULL ", " FULL "]", "Rrrn");
    assert_layers(context, "\"use_sliding_window\": true", "rrrn");
    bo_context_destroy(context);
}

static void refusals_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *type, *members, *message;
    } cases[] = {
        {"llama", "\"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4}",
         "default, linear or llama3, found yarn"},
        {"llama", "\"rope_parameters\": {\"rope_type\": \"dynamic\"}", "found dynamic"},
        {"phi3", "\"rope_scaling\": {\"type\": \"longrope\"}", "found longrope"},
        {"llama", "\"rope_scaling\": {\"type\": \"linear\", \"factor\": 0}", "rope_scaling.factor must be a positive"},
        {"llama", "\"rope_scaling\": {\"type\": \"llama3\", \"factor\": 8}", "rope_scaling must have 0 < low < high"},
        {"llama", "\"rope_parameters\": 3", "\"rope_parameters\" should be an object"},
        {"llama", "\"rope_theta\": 0.5", "the base of RoPE should be at least 1"},
        {"llama", "\"hidden_act\": \"relu\"", "\"hidden_act\" should be one of gelu, gelu_python, "},
        {"gpt2", "\"activation_function\": \"quick_gelu\"", "relu, relu2, found quick_gelu"},
        {"gpt2", "\"scale_attn_by_inverse_layer_idx\": true", "\"scale_attn_by_inverse_layer_idx\" should be false"},
        {"gpt2", "\"scale_attn_weights\": false", "\"scale_attn_weights\" should be true"},
        {"phi", "\"qk_layernorm\": true", "\"qk_layernorm\" should be false"},
        {"phi", "\"partial_rotary_factor\": 0.4", "should be an even number of columns"},
        {"gemma", "\"use_bidirectional_attention\": true", "should be false"},
        {"llama", "\"quantization_config\": {\"bits\": 4}", "quantized weights are not supported"},
        {"llama", "\"is_causal\": false", "\"is_causal\" should be true"},
        {"llama", "\"rms_norm_eps\": 0", "\"rms_norm_eps\" should be positive"},
        {"mistral", "\"num_key_value_heads\": 0", "\"num_key_value_heads\" should be positive"},
        {"gpt_neox", "\"head_dim\": 4", "\"head_dim\" should be 8, found 4"},
        {"llama", "\"attention_bias\": 3", "\"attention_bias\" should be true or false, found 3"},
        {"gpt_neox", "\"use_parallel_residual\": 1", "\"use_parallel_residual\" should be true or false"},
        {"qwen2", QWEN ", \"layer_types\": [" FULL "]", "\"layer_types\" should be a list of 4 types"},
        {"qwen2", QWEN ", \"layer_types\": [1, 2, 3, 4]", "should be full_attention or sliding_attention"},
        {"smollm3", "\"no_rope_layers\": [1, 0]", "\"no_rope_layers\" should be a list of 4 numbers"},
        {"smollm3", "\"no_rope_layers\": [1, 0, 2, 1]", "\"no_rope_layers\" should contain only 0 and 1"},
        {"smollm3", "\"no_rope_layer_interval\": 0", "\"no_rope_layer_interval\" should be positive"},
        {"granite", "\"logits_scaling\": 0", "\"logits_scaling\" should be a positive number"},
        {"llama", "\"num_key_value_heads\": 3", "key_heads must divide heads"},
        {"mamba", "", "should be bochner or one of llama, mistral, qwen2, "},
    };
    bo_context *context = test_context(1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bo_config config;
        bo_model_desc resolved;
        bo_status status = read_config(context, cases[i].type, cases[i].members, &config);
        if (status == BO_OK) status = bo_model_resolve(context, &config.desc, NULL, &resolved);
        if (status == BO_OK || !strstr(bo_context_error(context), cases[i].message))
            fail_msg("%s with %s: %s", cases[i].type, cases[i].members,
                     status ? bo_context_error(context) : "accepted");
    }
    bo_context_destroy(context);
}

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

/* Saves the tensors of a model under other conditions: without some of them, with a wrong shape, with additional
 * ones. */
static void several_problems_at_once(void **state)
{
    test_directory *directory = *state;
    bo_context *context = directory->context;
    bo_model_desc desc = test_desc("softmax");
    desc.block.mlp = BO_MLP_SWIGLU, desc.block.query_norm = BO_CHOICE_NO;
    bo_model *model = test_model(context, &desc, NULL), *read_again;
    bo_tensors *file;
    bo_file_tensor tensors[64];
    assert_ok(context, bo_model_save(context, model, &(bo_sink){.path = directory->path}));
    assert_ok(context, bo_tensors_open(context, test_path(directory, "model.safetensors"), &file));
    const size_t count = bo_tensors_count(file);
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        tensors[kept] = *bo_tensors_at(file, i);
        if (strcmp(tensors[kept].name, "model.layers.0.self_attn.k_proj.weight") == 0) continue;
        if (strcmp(tensors[kept].name, "model.layers.1.mlp.up_proj.weight") == 0)
            tensors[kept].rank = 1, tensors[kept].shape[0] *= tensors[kept].shape[1];
        if (strcmp(tensors[kept].name, "model.norm.weight") == 0) tensors[kept].name = "model.norm.scale";
        kept++;
    }
    assert_ok(context, bo_tensors_write(context, test_path(directory, "model.safetensors"), tensors, kept, NULL, 0));
    assert_fails(context, BO_FORMAT, "4 tensors do not fit config.json",
                 bo_model_load(context, &(bo_source){.path = directory->path}, NULL, &read_again));
    const char *error = bo_context_error(context);
    assert_non_null(
        strstr(error, "tensor 'model.layers.0.self_attn.k_proj.weight' is missing, expected shape (16, 16)"));
    assert_non_null(strstr(error, "tensor 'model.layers.1.mlp.up_proj.weight': expected shape (24, 16), found (384)"));
    assert_non_null(strstr(error, "tensor 'model.norm.weight' is missing"));
    assert_non_null(strstr(error, "tensor 'model.norm.scale' is not part of the model"));
    /* a long list is cut */
    char names[64][64];
    for (size_t i = 0; i < kept; i++) {
        snprintf(names[i], sizeof names[i], "x.%s", tensors[i].name);
        tensors[i].name = names[i];
    }
    assert_ok(context, bo_tensors_write(context, test_path(directory, "model.safetensors"), tensors, kept, NULL, 0));
    char message[64];
    snprintf(message, sizeof message, "\n  and %zu more", count + kept - 20);
    assert_fails(context, BO_FORMAT, message,
                 bo_model_load(context, &(bo_source){.path = directory->path}, NULL, &read_again));
    bo_tensors_close(file);
    bo_model_destroy(model);
}

/* The first files of GPT-2 have no prefix of the names, and masks in addition to the weights; some also have the tied
 * output. */
static void former_names(void **state)
{
    test_directory *directory = *state;
    bo_context *context = directory->context;
    const char *source = getenv("BOCHNER_SOURCE"), *root = "transformer.";
    char path[1024], text[4096] = "";
    bo_file_tensor tensors[64];
    bo_tensors *file;
    bo_model *model;
    snprintf(path, sizeof path, "%s/tests/data/families/gpt2/config.json", source ? source : ".");
    FILE *config = fopen(path, "rb");
    assert_non_null(config);
    text[fread(text, 1, sizeof text - 1, config)] = 0;
    fclose(config);
    test_text(directory, "config.json", text);
    snprintf(path, sizeof path, "%s/tests/data/families/gpt2/model.safetensors", source ? source : ".");
    assert_ok(context, bo_tensors_open(context, path, &file));
    size_t count = bo_tensors_count(file);
    for (size_t i = 0; i < count; i++) {
        tensors[i] = *bo_tensors_at(file, i);
        if (strncmp(tensors[i].name, root, strlen(root)) == 0) tensors[i].name += strlen(root);
    }
    tensors[count] = *bo_tensors_find(file, "transformer.wte.weight");
    tensors[count++].name = "lm_head.weight";
    tensors[count] = *bo_tensors_find(file, "transformer.ln_f.bias");
    tensors[count++].name = "h.0.attn.bias";
    assert_ok(context, bo_tensors_write(context, test_path(directory, "model.safetensors"), tensors, count, NULL, 0));
    assert_ok(context, bo_model_load(context, &(bo_source){.path = directory->path}, NULL, &model));
    bo_model_destroy(model);
    /* a separate output matrix contradicts config.json */
    bo_file_tensor *head = &tensors[count - 2];
    unsigned char *other = malloc(head->bytes);
    memcpy(other, head->data, head->bytes);
    other[0] ^= 1;
    head->data = other;
    assert_ok(context, bo_tensors_write(context, test_path(directory, "model.safetensors"), tensors, count, NULL, 0));
    assert_fails(context, BO_FORMAT, "'lm_head.weight' differs from the embedding",
                 bo_model_load(context, &(bo_source){.path = directory->path}, NULL, &model));
    free(other);
    bo_tensors_close(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(absent_members),
        cmocka_unit_test(rope_of_every_version),
        cmocka_unit_test(windows_and_nulls),
        cmocka_unit_test(layers_without_positions),
        cmocka_unit_test(refusals_by_name),
        cmocka_unit_test_setup_teardown(several_problems_at_once, test_setup, test_teardown),
        cmocka_unit_test_setup_teardown(former_names, test_setup, test_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
