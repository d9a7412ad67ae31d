/* Models as directories: saved and loaded bit for bit; files that are inconsistent, missing or truncated are refused by
 * name. */
#include "text/facts.h"
#include <bochner/text.h>
#include "nn/enums.h"
#include "io/tensors.h"
#include "model/config.h"
#include "io/files.h"
#include "models.h"

/* ---- round trips ------------------------------------------------------------------------------------------------- */

static void same_losses(bo_context *context, const bo_model *a, const bo_model *b, const char *what)
{
    int32_t ids[CONTEXT + 1];
    float first[CONTEXT], second[CONTEXT];
    test_tokens(CONTEXT + 1, ids);
    assert_ok(context, window_pass(context, a, ids, CONTEXT, NULL, first));
    assert_ok(context, window_pass(context, b, ids, CONTEXT, NULL, second));
    if (memcmp(first, second, sizeof first) != 0) fail_msg("%s: losses differ after loading", what);
}

static void check_trip(test_directory *directory, const bo_model_desc *desc, const char *what)
{
    bo_context *context = directory->context;
    bo_model *model = test_model(context, desc, NULL), *read, *again;
    char *json, *other;
    assert_ok(context, bo_model_save(context, model, &(bo_sink){.path = directory->path}));
    assert_ok(context, bo_model_load(context, &(bo_source){.path = directory->path}, NULL, &read));
    assert_true(bo_model_fingerprint(model) == bo_model_fingerprint(read));
    same_losses(context, model, read, what);
    assert_ok(context, bo_config_write(context, model, &json));
    assert_ok(context, bo_config_write(context, read, &other));
    assert_string_equal(json, other);
    bo_free(other);
    /* the descriptor of bo_model_describe makes the same model */
    assert_ok(context, bo_model_create(context, bo_model_describe(model), NULL, &again));
    assert_ok(context, bo_config_write(context, again, &other));
    assert_string_equal(json, other);
    assert_ok(context, bo_model_read(context, again, directory->path));
    same_losses(context, model, again, what);
    bo_free(json);
    bo_free(other);
    bo_model_destroy(model);
    bo_model_destroy(read);
    bo_model_destroy(again);
}

static void test_trips(void **state)
{
    for (size_t i = 0; test_kind(i); i++) {
        bo_model_desc desc = test_desc(test_kind(i));
        check_trip(*state, &desc, test_kind(i));
    }
}

/* MLPs with maps, heads and forms; a map without stored tensors; mixers that are one attention. */
static void test_degrees(void **state)
{
    for (unsigned mlp = BO_MLP_RANDOM_FEATURES; mlp < BO_MLP_COUNT; mlp++) {
        bo_model_desc desc = test_desc("softmax");
        desc.block.mlp = (bo_mlp)mlp, desc.block.hidden = 12;
        if (mlp == BO_MLP_DEGREE_3) desc.block.degree_heads = 4;
        check_trip(*state, &desc, bo_mlp_name((bo_mlp)mlp));
    }
    bo_model_desc desc = test_desc("softmax");
    desc.block.mlp = BO_MLP_RANDOM_FEATURES, desc.block.hidden = 0, desc.block.mlp_features.kernel = BO_KERNEL_TAYLOR;
    check_trip(*state, &desc, "an exact map");
    for (unsigned mixer = BO_MIXER_DEGREE_2; mixer <= BO_MIXER_DEGREE_E; mixer++) {
        desc = test_desc("softmax");
        desc.block.attention = (bo_attention_desc){0}, desc.block.mixer = (bo_mixer)mixer;
        check_trip(*state, &desc, bo_mixer_name((bo_mixer)mixer));
    }
}

static void test_options(void **state)
{
    bo_model_desc desc = test_desc("rfa-gate");
    bo_block blocks[LAYERS];
    desc.block.heads = 4;
    desc.block.key_heads = 2;
    desc.block.head_dim = 6;
    desc.untied = desc.block.bias = true;
    desc.block.norm = BO_NORM_LAYER;
    desc.block.mlp = BO_MLP_SWIGLU;
    desc.block.positions = BO_POSITIONS_LEARNED;
    desc.block.output_norm = BO_CHOICE_YES;
    desc.dropout = 0.1;
    desc.block.rope_base = 500000;
    desc.block.norm_epsilon = 1e-5;
    desc.block.sigma = 0.75;
    desc.block.gate_first = -1;
    desc.seed = UINT64_MAX;
    desc.block.attention.features.seed = (uint64_t)1 << 60 | 1;
    desc.block.attention.temperature = 1.25;
    desc.block.attention.clamp = 0.1;
    desc.block.attention.one_draw = true;
    check_trip(*state, &desc, "options");
    desc = test_desc("softmax"); /* no family has a block of this kind with these biases */
    desc.block.residual = BO_RESIDUAL_PARALLEL, desc.block.mlp = BO_MLP_GEGLU, desc.head_bias = true,
    desc.block.query_norm = BO_CHOICE_YES;
    desc.block.attention_bias = BO_CHOICE_YES, desc.block.output_bias = BO_CHOICE_NO,
    desc.block.mlp_bias = BO_CHOICE_NO;
    desc.embedding_scale = 2.5, desc.block.residual_scale = 0.6, desc.logit_scale = 0.7, desc.block.rotated = 4;
    desc.block.rope_scaling = (bo_rope_scaling){BO_ROPE_SCALING_KIND_LLAMA3, 2, 1, 4, 20};
    test_windows(&desc, blocks, 3, 1, 3, 0);
    check_trip(*state, &desc, "options of pretrained models");
    desc.block.residual = BO_RESIDUAL_SANDWICH, desc.block.joint_norm = true;
    test_windows(&desc, blocks, 3, 1, 3, 100);
    check_trip(*state, &desc, "norms of summands");
    desc = test_desc("softmax"); /* a Qwen3 with all members that its configuration lacks */
    desc.block.mlp = BO_MLP_SWIGLU, desc.block.query_norm = BO_CHOICE_YES, desc.dropout = 0.2, desc.block.sigma = 0.75,
    desc.seed = 9;
    check_trip(*state, &desc, "qwen3");
    desc = test_desc("favor#");
    desc.block.attention.features.sampling = BO_SAMPLING_OPTIMAL;
    check_trip(*state, &desc, "sampling optimal");
    desc = test_desc("linear");
    desc.block.attention.features.kernel = BO_KERNEL_POLYNOMIAL;
    desc.block.attention.features.function = BO_FUNCTION_TENSORSKETCH;
    desc.block.attention.features.degree = 3;
    desc.block.attention.features.features = 32;
    check_trip(*state, &desc, "tensor sketch");
    desc = test_desc("hybrid");
    desc.block.attention.gate = BO_GATE_DECAY;
    check_trip(*state, &desc, "hybrid with a gate");
    desc = test_desc("rfa");
    desc.block.attention.features.draw = BO_DRAW_HADAMARD;
    check_trip(*state, &desc, "hadamard");
}

/* A hybrid has an M exactly if its configuration has a rank. */
static void test_ranks(void **state)
{
    static const char name[] = "model.layers.0.self_attn.m";
    test_directory *directory = *state;
    bo_context *context = directory->context;
    for (size_t rank = 0; rank <= 8; rank += 4) {
        bo_model_desc desc = test_desc("hybrid");
        bo_model *model, *plain;
        desc.block.attention.rank = rank;
        assert_ok(context, bo_model_create(context, &desc, NULL, &model));
        bool found = false;
        for (size_t i = 0; i < bo_weights_count(bo_model_weights(model)); i++)
            found |= !strcmp(bo_weights_at(bo_model_weights(model), i)->name, name);
        assert_int_equal(found, rank > 0);
        check_trip(directory, &desc, "hybrid with a rank");
        desc.block.attention.rank = 0;
        assert_ok(context, bo_model_create(context, &desc, NULL, &plain));
        if (rank)
            assert_fails(context, BO_FORMAT, rank < 8 ? "dim = 4" : name,
                         bo_model_read(context, plain, directory->path));
        bo_model_destroy(model);
        bo_model_destroy(plain);
    }
}

/* Redrawn frequencies are saved in the file. */
static void test_redrawn(void **state)
{
    test_directory *directory = *state;
    bo_context *context = directory->context;
    bo_model_desc desc = test_desc("favor");
    bo_model *model = test_model(context, &desc, NULL), *read;
    uint64_t before = bo_model_fingerprint(model);
    for (size_t i = 0; i < LAYERS; i++) assert_ok(context, bo_attention_redraw(context, model->attentions[i], 3));
    assert_true(bo_model_fingerprint(model) != before);
    assert_ok(context, bo_model_save(context, model, &(bo_sink){.path = directory->path}));
    assert_ok(context, bo_model_load(context, &(bo_source){.path = directory->path}, NULL, &read));
    same_losses(context, model, read, "redrawn");
    bo_model_destroy(read);
    bo_model_destroy(model);
}

static char *read_file(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    char *bytes = malloc(4 << 20);
    *size = fread(bytes, 1, 4 << 20, file);
    bytes[*size] = 0;
    fclose(file);
    return bytes;
}

static void test_tokenizer(void **state)
{
    test_directory *directory = *state;
    bo_context *context = directory->context;
    bo_tokenizer *bytes;
    bo_model_desc desc = test_desc("rfa-gate");
    bo_model *read;
    desc.vocab = 0;
    assert_ok(context, bo_tokenizer_create(context, &bytes));
    bo_model *model = test_model(context, &desc, bytes);
    assert_int_equal(bo_model_describe(model)->vocab, 256);
    assert_ok(context, bo_model_save(context, model, &(bo_sink){.path = directory->path}));
    assert_ok(context, bo_model_load(context, &(bo_source){.path = directory->path}, NULL, &read));
    assert_true(bo_tokenizer_is_raw(bo_model_tokenizer(read)));
    assert_int_equal(directory->warnings, 0);
    bo_model_destroy(read);
    bo_model_destroy(model);
    desc.vocab = 255;
    assert_fails(context, BO_INVALID, "tokenizer's 256 ids, found 255", bo_model_create(context, &desc, bytes, &model));
    bo_tokenizer_destroy(bytes);
}

/* The decoder is not part of the fingerprint of a tokenizer, but of the checksum of its file. */
static void test_changed_tokenizer(void **state)
{
    test_directory *directory = *state;
    bo_context *context = directory->context;
    bo_tokenizer *bytes;
    bo_model_desc desc = test_desc("linear");
    bo_model *read;
    size_t size;
    desc.vocab = 0;
    assert_ok(context, bo_tokenizer_create(context, &bytes));
    bo_model *model = test_model(context, &desc, bytes);
    assert_ok(context, bo_model_save(context, model, &(bo_sink){.path = directory->path}));
    char *text = read_file(test_path(directory, "tokenizer.json"), &size), *decoder = strstr(text, "\"decoder\":");
    assert_non_null(decoder);
    memcpy(decoder, "\"comment\"", 9); /* one that is ignored */
    test_write(directory, "tokenizer.json", text, size);
    free(text);
    assert_ok(context, bo_model_load(context, &(bo_source){.path = directory->path}, NULL, &read));
    assert_true(bo_tokenizer_fingerprint(bo_model_tokenizer(read)) == bo_tokenizer_fingerprint(bytes));
    assert_int_equal(directory->warnings, 1);
    assert_non_null(strstr(directory->last_log, "tokenizer.json: its checksum is not the one recorded in "));
    bo_model_destroy(model);
    /* saved again, it is the tokenizer of the new file */
    assert_ok(context, bo_model_save(context, read, &(bo_sink){.path = directory->path}));
    bo_model_destroy(read);
    assert_ok(context, bo_model_load(context, &(bo_source){.path = directory->path}, NULL, &read));
    assert_int_equal(directory->warnings, 1);
    bo_model_destroy(read);
    bo_tokenizer_destroy(bytes);
}

/* ---- inconsistent files ------------------------------------------------------------------------------------------ */

/* Writes config.json with the first `old` replaced. */
static void lie(test_directory *directory, const char *config, const char *old, const char *new)
{
    const char *at = strstr(config, old);
    char text[16384];
    if (!at) fail_msg("config.json lacks %s", old);
    snprintf(text, sizeof text, "%.*s%s%s", (int)(at - config), config, new, at + strlen(old));
    test_text(directory, "config.json", text);
}

static void test_lies(void **state)
{
    static const struct {
        const char *old, *new, *message;
        bo_status status;
    } lies[] = {
        {"\"hidden_size\": 16", "\"hidden_size\": 32",
         "model.embed_tokens.weight': expected shape (256, 32), found (256, 16)", BO_FORMAT},
        {"\"num_hidden_layers\": 2", "\"num_hidden_layers\": 3", "model.layers.2", BO_FORMAT},
        {"\"num_hidden_layers\": 2", "\"num_hidden_layers\": 1", "model.layers.1", BO_FORMAT},
        {"\"num_hidden_layers\": 2", "\"num_hidden_layers\": 0", "layers must be at least 1", BO_FORMAT},
        {"\"num_hidden_layers\": 2", "\"num_hidden_layers\": -1", "\"num_hidden_layers\" should be a whole", BO_FORMAT},
        {"\"num_hidden_layers\": 2", "\"num_hidden_layers\": 4000", "the configuration needs", BO_FORMAT},
        {"\"hidden_size\": 16", "\"hidden_size\": 1000000", "the configuration needs", BO_FORMAT},
        {"\"hidden_size\": 16", "\"hidden_size\": 1e300", "\"hidden_size\" should be a whole number below 2^53, found",
         BO_FORMAT},
        {"\"vocab_size\": 256", "\"vocab_size\": 1000000000", "vocab must be at most", BO_FORMAT},
        {"\"vocab_size\": 256", "\"vocab_size\": 255", "expected shape (255, 16), found (256, 16)", BO_FORMAT},
        {"\"vocab_size\": 256,", "", "\"vocab_size\" is missing", BO_FORMAT},
        {"\"heads\": 2", "\"heads\": 3", "key_heads must divide", BO_FORMAT},
        {"\"heads\": 2,", "", "block 0 of \"blocks\": \"heads\" is missing", BO_FORMAT},
        {"\"head_dim\": 8", "\"head_dim\": 7", "must be even", BO_FORMAT},
        {"\"features\": 128", "\"features\": 64", "features = 128, expected 64", BO_FORMAT},
        {"\"features\": 128", "\"features\": 1000000000", "the configuration needs", BO_FORMAT},
        {"\"kind\": \"rfa\"", "\"kind\": \"magic\"", "\"kind\" should be one of ", BO_FORMAT},
        {"\"kind\": \"rfa\"", "\"kind\": \"gla\"", "", BO_FORMAT},
        {"\"gate\": \"convex\"", "\"gate\": \"none\"", "g_proj", BO_FORMAT},
        {"\"gate\": \"convex\"", "\"gate\": \"convex\", \"window\": 5", "window 5", BO_FORMAT},
        {"\"gate\"", "\"gates\"",
         "block 0 of \"blocks\": \"attention\": unknown member \"gates\"; did you mean \"gate\"?", BO_FORMAT},
        {"\"mixer\"", "\"mixers\"", "block 0 of \"blocks\": unknown member \"mixers\"; did you mean \"mixer\"?",
         BO_FORMAT},
        {"\"blocks\": [", "\"blocks\": [], \"other\": [", "\"blocks\" should be a list of 1 to 4096 blocks", BO_FORMAT},
        {"\"blocks\": [", "\"blocks\": 3, \"other\": [", "\"blocks\" should be a list", BO_FORMAT},
        {"\"blocks\": [", "\"blocks\": [3, ", "block 0 of \"blocks\": should be a JSON object", BO_FORMAT},
        {"\"kernel\": \"rbf\"", "\"kernel\": \"custom\"", "custom", BO_FORMAT},
        {"\"mlp\": \"relu2\"", "\"mlp\": \"swiglu\"", "gate_proj", BO_FORMAT},
        {"\"tie_word_embeddings\": true", "\"tie_word_embeddings\": false", "lm_head.weight", BO_FORMAT},
        {"\"tie_word_embeddings\": true", "\"tie_word_embeddings\": 1", "true or false, found 1", BO_FORMAT},
        {"\"model_type\": \"bochner\"", "\"model_type\": \"bert\"", "should be bochner or one of llama, mistral, ",
         BO_UNSUPPORTED},
        {"\"model_type\": \"bochner\"", "\"model_type\": \"bert\"", "found bert", BO_UNSUPPORTED},
        {"\"model_type\"", "\"model\"", "\"model_type\" is missing", BO_FORMAT},
        {"\"bochner_format\": 4", "\"bochner_format\": 5", "reads formats up to 4", BO_VERSION},
        {"\"norm_epsilon\": 1e-06", "\"norm_epsilon\": -1", "norm_epsilon must be", BO_FORMAT},
        {"\"dropout\": 0", "\"dropout\": 1", "dropout must be in [0, 1)", BO_FORMAT},
        {"\"attention\": {", "\"attention\": 3, \"replaced\": {", "should be a JSON object", BO_FORMAT},
        {"{", "[{", "malformed", BO_FORMAT},
    };
    test_directory *directory = *state;
    bo_context *context = directory->context;
    bo_model_desc desc = test_desc("rfa-gate");
    bo_model *model = test_model(context, &desc, NULL), *read;
    size_t size;
    assert_ok(context, bo_model_save(context, model, &(bo_sink){.path = directory->path}));
    char *config = read_file(test_path(directory, "config.json"), &size);
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        lie(directory, config, lies[i].old, lies[i].new);
        bo_status status = bo_model_load(context, &(bo_source){.path = directory->path}, NULL, &read);
        if (status != lies[i].status || !strstr(bo_context_error(context), lies[i].message))
            fail_msg("%s instead of %s: %s: %s", lies[i].new, lies[i].old, bo_status_string(status),
                     status ? bo_context_error(context) : "");
        assert_null(read);
    }
    free(config);
    bo_model_destroy(model);
}

static void test_cut(void **state)
{
    test_directory *directory = *state;
    bo_context *context = directory->context;
    bo_model_desc desc = test_desc("dark");
    bo_model *model = test_model(context, &desc, NULL), *read;
    static const char *const files[] = {"config.json", "model.safetensors"};
    assert_fails(context, BO_IO, "config.json",
                 bo_model_load(context, &(bo_source){.path = directory->path}, NULL, &read));
    assert_fails(context, BO_INVALID, "expected a directory",
                 bo_model_load(context, &(bo_source){.path = ""}, NULL, &read));
    assert_ok(context, bo_model_save(context, model, &(bo_sink){.path = directory->path}));
    for (size_t f = 0; f < 2; f++) {
        size_t size;
        char *bytes = read_file(test_path(directory, files[f]), &size);
        size_t end = f ? size : (size_t)(strrchr(bytes, '}') - bytes);
        for (size_t cut = 0; cut < end; cut += end / 60 + 1) {
            test_write(directory, files[f], bytes, cut);
            if (bo_model_load(context, &(bo_source){.path = directory->path}, NULL, &read) != BO_FORMAT)
                fail_msg("%s cut to %zu of %zu bytes: %s", files[f], cut, size, bo_context_error(context));
        }
        test_write(directory, files[f], bytes, size);
        free(bytes);
    }
    assert_ok(context, bo_model_load(context, &(bo_source){.path = directory->path}, NULL, &read));
    bo_model_destroy(read);
    bo_model_destroy(model);
}

/* ---- shards ------------------------------------------------------------------------------------------------------ */

/* Splits model.safetensors into two shards, with every other tensor in the second. */
static void split(test_directory *directory)
{
    bo_context *context = directory->context;
    static const char *const names[] = {"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"};
    bo_tensors *file;
    bo_file_tensor tensors[2][64];
    size_t counts[2] = {0}, used = 0;
    char index[8192];
    assert_ok(context, bo_tensors_open(context, test_path(directory, "model.safetensors"), &file));
    used += (size_t)snprintf(index, sizeof index, "{\"metadata\": {\"total_size\": 1}, \"weight_map\": {");
    for (size_t i = 0; i < bo_tensors_count(file); i++) {
        tensors[i % 2][counts[i % 2]++] = *bo_tensors_at(file, i);
        used += (size_t)snprintf(index + used, sizeof index - used, "%s\"%s\": \"%s\"", i ? ", " : "",
                                 bo_tensors_at(file, i)->name, names[i % 2]);
    }
    snprintf(index + used, sizeof index - used, "}}");
    for (int i = 0; i < 2; i++)
        assert_ok(context, bo_tensors_write(context, test_path(directory, names[i]), tensors[i], counts[i], NULL, 0));
    test_text(directory, "model.safetensors.index.json", index);
    bo_tensors_close(file);
}

static void test_shards(void **state)
{
    test_directory *directory = *state;
    bo_context *context = directory->context;
    bo_model_desc desc = test_desc("softmax");
    bo_model *model = test_model(context, &desc, NULL), *read;
    assert_ok(context, bo_model_save(context, model, &(bo_sink){.path = directory->path}));
    split(directory);
    /* a single file comes first, as in transformers */
    assert_int_equal(rename(test_path(directory, "model-00002-of-00002.safetensors"), test_path(directory, "away")), 0);
    assert_ok(context, bo_model_load(context, &(bo_source){.path = directory->path}, NULL, &read));
    bo_model_destroy(read);
    unlink(test_path(directory, "model.safetensors"));
    assert_fails(context, BO_IO, "missing shards (1 of 2): model-00002-of-00002.safetensors",
                 bo_model_load(context, &(bo_source){.path = directory->path}, NULL, &read));
    assert_int_equal(rename(test_path(directory, "away"), test_path(directory, "model-00002-of-00002.safetensors")), 0);
    assert_ok(context, bo_model_load(context, &(bo_source){.path = directory->path}, NULL, &read));
    same_losses(context, model, read, "shards");
    bo_model_destroy(read);
    assert_ok(context, bo_model_create(context, &desc, NULL, &read));
    assert_ok(context, bo_model_read(context, read, directory->path));
    same_losses(context, model, read, "shards read as a checkpoint");
    bo_model_destroy(read);
    unlink(test_path(directory, "model.safetensors.index.json"));
    assert_fails(context, BO_IO,
                 "model.safetensors: ", bo_model_load(context, &(bo_source){.path = directory->path}, NULL, &read));
    test_text(directory, "pytorch_model.bin", "PK");
    assert_fails(context, BO_UNSUPPORTED, "save_pretrained",
                 bo_model_load(context, &(bo_source){.path = directory->path}, NULL, &read));
    bo_model_destroy(model);
}

/* ---- other number formats ---------------------------------------------------------------------------------------- */

/* Every weight as BF16, the upper half of its bits. */
static void test_bfloat16(void **state)
{
    test_directory *directory = *state;
    bo_context *context = directory->context;
    bo_model_desc desc = test_desc("softmax");
    bo_model *model = test_model(context, &desc, NULL), *read;
    bo_tensors *file;
    assert_ok(context, bo_model_save(context, model, &(bo_sink){.path = directory->path}));
    assert_ok(context, bo_tensors_open(context, test_path(directory, "model.safetensors"), &file));
    bo_file_tensor tensors[64];
    size_t count = bo_tensors_count(file);
    for (size_t i = 0; i < count; i++) {
        tensors[i] = *bo_tensors_at(file, i);
        size_t numbers = tensors[i].bytes / 4;
        uint16_t *halves = malloc(numbers * 2);
        for (size_t j = 0; j < numbers; j++) halves[j] = (uint16_t)(((const uint32_t *)tensors[i].data)[j] >> 16);
        tensors[i].dtype = BO_BF16;
        tensors[i].data = halves;
        tensors[i].bytes = numbers * 2;
    }
    assert_ok(context, bo_tensors_write(context, test_path(directory, "model.safetensors"), tensors, count, NULL, 0));
    assert_ok(context, bo_model_load(context, &(bo_source){.path = directory->path}, NULL, &read));
    for (size_t i = 0; i < count; i++) {
        float values[4096];
        assert_ok(context, bo_weights_get(context, bo_model_weights(read), tensors[i].name, values, NULL));
        for (size_t j = 0; j < tensors[i].bytes / 2; j++) {
            uint32_t bits;
            memcpy(&bits, &values[j], sizeof bits);
            assert_int_equal(bits, (uint32_t)((const uint16_t *)tensors[i].data)[j] << 16);
        }
    }
    ((uint16_t *)(uintptr_t)tensors[3].data)[1] = 0x7f80;
    assert_ok(context, bo_tensors_write(context, test_path(directory, "model.safetensors"), tensors, count, NULL, 0));
    bo_model *bad;
    assert_fails(context, BO_FORMAT, "contains a NaN or infinity",
                 bo_model_load(context, &(bo_source){.path = directory->path}, NULL, &bad));
    assert_non_null(strstr(bo_context_error(context), tensors[3].name));
    for (size_t i = 0; i < count; i++) free((void *)(uintptr_t)tensors[i].data);
    bo_tensors_close(file);
    bo_model_destroy(read);
    bo_model_destroy(model);
}

/* Messages name files that are not models, and what to do. */
static void test_other_formats(void **state)
{
    test_directory *directory = *state;
    static const struct {
        const char *name, *bytes, *found, *advice;
    } cases[] = {{"model.gguf", "GGUF\3\1\1\1\1\1\1\1", "found a GGUF model", "bochner convert FILE --out DIR"},
                 {"model.bin", "24ka\1\1\1\1\1\1\1\1", "found a llama2.c model", "bo_convert()"},
                 {"pytorch_model.bin", "PK\3\4\1\1\1\1\1\1\1", "found a PyTorch file", "save_pretrained"},
                 {"old.pt", "\x80\2}q\1\1\1\1\1\1", "found a Python pickle", "save_pretrained"},
                 {"model.gz", "\x1f\x8b\x8\1\1\1\1\1\1", "found a gzip-compressed file", "gunzip"},
                 {"model.zst", "\x28\xb5\x2f\xfd\1\1\1\1\1", "found a Zstandard-compressed file", "unzstd"},
                 {"model.onnx", "\x8\7\x12\1\1\1\1\1\1\1", "found an ONNX model", "Hugging Face"},
                 {"notes.txt", "Some text that is no model.", "found another format", "load a model directory"},
                 {"other.json", "{\"a\": 1, \"b\": 2}", "found a JSON file", "load the directory that contains it"}};
    bo_model *read;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *path = test_write(directory, cases[i].name, cases[i].bytes, strlen(cases[i].bytes));
        const bo_status status = bo_model_load(directory->context, &(bo_source){.path = path}, NULL, &read);
        const char *message = bo_context_error(directory->context);
        assert_null(read);
        if (status == BO_OK || !strstr(message, cases[i].found) || !strstr(message, cases[i].advice) ||
            !strstr(message, cases[i].name) || strstr(message, "header of"))
            fail_msg("%s: %s", cases[i].name, message);
    }
    assert_fails(directory->context, BO_IO, "no config.json; it contains a GGUF model, model.gguf",
                 bo_model_load(directory->context, &(bo_source){.path = directory->path}, NULL, &read));
    unlink(test_path(directory, "model.gguf"));
    assert_fails(directory->context, BO_IO, "not a model directory: it has no config.json; bo_model_save()",
                 bo_model_load(directory->context, &(bo_source){.path = directory->path}, NULL, &read));
    /* the weights of a directory in the layout of Hugging Face */
    const bo_file_tensor tensor = {
        .name = "a", .dtype = BO_F32, .rank = 1, .shape = {1}, .data = &(float){1}, .bytes = sizeof(float)};
    const char *weights = test_path(directory, "model.safetensors");
    assert_ok(directory->context, bo_tensors_write(directory->context, weights, &tensor, 1, NULL, 0));
    assert_fails(directory->context, BO_FORMAT, "\"config.json\" is missing",
                 bo_model_load(directory->context, &(bo_source){.path = weights}, NULL, &read));
    test_write(directory, "config.json", "{}", 2);
    assert_fails(directory->context, BO_FORMAT, "found the weights of a model directory; load the directory",
                 bo_model_load(directory->context, &(bo_source){.path = weights}, NULL, &read));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_trips, test_setup, test_teardown),
        cmocka_unit_test_setup_teardown(test_degrees, test_setup, test_teardown),
        cmocka_unit_test_setup_teardown(test_options, test_setup, test_teardown),
        cmocka_unit_test_setup_teardown(test_ranks, test_setup, test_teardown),
        cmocka_unit_test_setup_teardown(test_redrawn, test_setup, test_teardown),
        cmocka_unit_test_setup_teardown(test_tokenizer, test_setup, test_teardown),
        cmocka_unit_test_setup_teardown(test_changed_tokenizer, test_setup, test_teardown),
        cmocka_unit_test_setup_teardown(test_lies, test_setup, test_teardown),
        cmocka_unit_test_setup_teardown(test_cut, test_setup, test_teardown),
        cmocka_unit_test_setup_teardown(test_shards, test_setup, test_teardown),
        cmocka_unit_test_setup_teardown(test_bfloat16, test_setup, test_teardown),
        cmocka_unit_test_setup_teardown(test_other_formats, test_setup, test_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
