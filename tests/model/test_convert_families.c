/* GGUF files of families that llama.cpp names and orders differently from Hugging Face, written here from the small
 * models of tests/data/families: the converted model has the logits of the original one, whose logits test_reference.c
 * compares with those of transformers. */
#include <bochner/convert.h>
#include "adapted.h"
#include "foreign.h"
#include "io/files.h"
#include "io/tensors.h"
#include "model/model.h"

enum { TOKENS = 24, NAME = 160 };

typedef struct family_case {
    const char *directory, *architecture;
    const char *found, *replaced; /* a setting that GGUF files cannot state; NULL: none */
    size_t layers, head;
    bool one_added, rotated; /* norms plus 1; rows of queries and keys in the order of rotary pairs */
    void (*more)(foreign_gguf *file);
} family_case;

/* ---- metadata ---------------------------------------------------------------------------------------------------- */

static void of_gemma3(foreign_gguf *file)
{
    foreign_size(file, "gemma3.attention.key_length", 16);
    foreign_size(file, "gemma3.attention.value_length", 16);
    foreign_size(file, "gemma3.attention.sliding_window", 6);
    foreign_size(file, "gemma3.attention.sliding_window_pattern", 2);
    foreign_real(file, "gemma3.attention.layer_norm_rms_epsilon", 1e-6f);
    foreign_real(file, "gemma3.rope.freq_base", 10000);
    foreign_real(file, "gemma3.rope.freq_base_swa", 50);
    foreign_text(file, "gemma3.rope.scaling.type", "linear");
    foreign_real(file, "gemma3.rope.scaling.factor", 2);
}

static void of_granite(foreign_gguf *file)
{
    foreign_real(file, "granite.attention.layer_norm_rms_epsilon", 1e-6f);
    foreign_real(file, "granite.attention.scale", 0.2f);
    foreign_real(file, "granite.embedding_scale", 3);
    foreign_real(file, "granite.residual_scale", 0.4f);
    foreign_real(file, "granite.logit_scale", 2.5f);
}

static void of_olmo2(foreign_gguf *file)
{
    foreign_real(file, "olmo2.attention.layer_norm_rms_epsilon", 1e-5f);
}

static void of_starcoder2(foreign_gguf *file)
{
    foreign_real(file, "starcoder2.attention.layer_norm_epsilon", 1e-5f);
}

/* A serial model, whose tensors decide: files of StableLM 3B have the flag set. */
static void of_stablelm(foreign_gguf *file)
{
    foreign_real(file, "stablelm.attention.layer_norm_epsilon", 1e-5f);
    foreign_size(file, "stablelm.rope.dimension_count", 2);
    foreign_flag(file, "stablelm.use_parallel_residual", 1);
}

static void of_stablelm_parallel(foreign_gguf *file)
{
    foreign_real(file, "stablelm.attention.layer_norm_epsilon", 1e-5f);
    foreign_size(file, "stablelm.rope.dimension_count", 4);
    foreign_flag(file, "stablelm.use_parallel_residual", 1);
}

static const family_case cases[] = {
    {"gemma3", "gemma3", "\"query_pre_attn_scalar\": 20", "\"query_pre_attn_scalar\": 16", 3, 16, true, false,
     of_gemma3},
    {"granite", "granite", NULL, NULL, 2, 8, false, true, of_granite},
    {"olmo2", "olmo2", NULL, NULL, 2, 8, false, false, of_olmo2},
    {"starcoder2", "starcoder2", "\"sliding_window\": 9", "\"sliding_window\": null", 2, 8, false, false,
     of_starcoder2},
    {"stablelm", "stablelm", NULL, NULL, 2, 8, false, false, of_stablelm},
    {"stablelm-parallel", "stablelm", NULL, NULL, 2, 8, false, false, of_stablelm_parallel}};

static void put_metadata(const family_case *c, foreign_gguf *file)
{
    static const struct {
        const char *key;
        uint32_t value;
    } sizes[] = {{"embedding_length", 32},
                 {"feed_forward_length", 48},
                 {"attention.head_count", 4},
                 {"attention.head_count_kv", 2},
                 {"context_length", 64}};
    char key[NAME];
    foreign_text(file, "general.architecture", c->architecture);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        snprintf(key, sizeof key, "%s.%s", c->architecture, sizes[i].key);
        foreign_size(file, key, sizes[i].value);
    }
    snprintf(key, sizeof key, "%s.block_count", c->architecture);
    foreign_size(file, key, (uint32_t)c->layers);
    c->more(file);
}

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

/* The name in a GGUF file. */
static void name_of(const family_case *c, const char *name, char out[NAME])
{
    static const char *const names[][2] = {{"input_layernorm", "attn_norm"},
                                           {"self_attn.q_proj", "attn_q"},
                                           {"self_attn.k_proj", "attn_k"},
                                           {"self_attn.v_proj", "attn_v"},
                                           {"self_attn.o_proj", "attn_output"},
                                           {"self_attn.q_norm", "attn_q_norm"},
                                           {"self_attn.k_norm", "attn_k_norm"},
                                           {"pre_feedforward_layernorm", "ffn_norm"},
                                           {"post_feedforward_layernorm", "post_ffw_norm"},
                                           {"mlp.gate_proj", "ffn_gate"},
                                           {"mlp.up_proj", "ffn_up"},
                                           {"mlp.down_proj", "ffn_down"},
                                           {"mlp.c_fc", "ffn_up"},
                                           {"mlp.c_proj", "ffn_down"}};
    const bool after = strcmp(c->architecture, "gemma3") == 0 || strcmp(c->architecture, "olmo2") == 0;
    const char *suffix = strrchr(name, '.'), *part = NULL;
    unsigned layer;
    int used = 0;
    assert_non_null(suffix);
    if (sscanf(name, "model.layers.%u.%n", &layer, &used) == 1) {
        const size_t length = (size_t)(suffix - name) - (size_t)used;
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            if (strlen(names[i][0]) == length && strncmp(name + used, names[i][0], length) == 0) part = names[i][1];
        if (strncmp(name + used, "post_attention_layernorm", length) == 0)
            part = after ? "post_attention_norm" : "ffn_norm";
        if (!part) fail_msg("%s has no name in a GGUF file", name);
        snprintf(out, NAME, "blk.%u.%s%s", layer, part, suffix);
    } else {
        part = strncmp(name, "lm_head", 7) == 0 ? "output" : strstr(name, "embed") ? "token_embd" : "output_norm";
        snprintf(out, NAME, "%s%s", part, suffix);
    }
}

/* The numbers of a rotary pair become neighbors. */
static void permute(const family_case *c, const bo_file_tensor *tensor, size_t bytes, unsigned char *out)
{
    const size_t rows = tensor->shape[0], row = bytes / rows, half = c->head / 2;
    for (size_t r = 0; r < rows; r++) {
        const size_t at = r % c->head, to = r - at + (at < half ? 2 * at : 2 * (at - half) + 1);
        memcpy(out + to * row, (const unsigned char *)tensor->data + r * row, row);
    }
}

static void put_tensor(const family_case *c, const bo_file_tensor *tensor, foreign_gguf *file)
{
    const size_t rows = tensor->shape[0], columns = tensor->rank == 2 ? tensor->shape[1] : 0;
    const size_t count = rows * (columns ? columns : 1);
    uint32_t type = tensor->dtype == BO_BF16 ? 30 : 1;
    char name[NAME];
    unsigned char *bytes = malloc(count * sizeof(float));
    assert_true(tensor->dtype == BO_BF16 || tensor->dtype == BO_F16);
    memcpy(bytes, tensor->data, 2 * count);
    if (c->rotated && (strstr(tensor->name, "q_proj") || strstr(tensor->name, "k_proj")))
        permute(c, tensor, 2 * count, bytes);
    if (c->one_added && columns == 0) {
        type = 0;
        for (size_t i = 0; i < count; i++) {
            const uint16_t half = ((const uint16_t *)tensor->data)[i];
            const uint32_t bits = (uint32_t)half << 16;
            float value;
            memcpy(&value, &bits, sizeof value);
            value += 1;
            memcpy(bytes + i * sizeof value, &value, sizeof value);
        }
    }
    name_of(c, tensor->name, name);
    foreign_tensor(file, name, rows, columns, type, bytes, count * (type == 0 ? sizeof(float) : 2));
    free(bytes);
}

/* ---- comparison -------------------------------------------------------------------------------------------------- */

static void logits_of(bo_context *context, const char *directory, float *out)
{
    bo_model *model;
    bo_session *session;
    int32_t ids[TOKENS];
    for (int32_t i = 0; i < TOKENS; i++) ids[i] = (i * 37 + 5) % 131;
    assert_ok(context, bo_model_load(context, &(bo_source){.path = directory}, NULL, &model));
    assert_ok(context, bo_session_create(context, model, NULL, &session));
    assert_int_equal(model->desc.vocab, 131);
    for (size_t i = 0; i < TOKENS; i++)
        assert_ok(context, bo_session_feed(context, session, &ids[i], 1, out + 131 * i));
    bo_session_destroy(session);
    bo_model_destroy(model);
}

/* The original directory with the setting replaced. */
static void copy_original(test_directory *f, const family_case *c, const char *weights, const char *original,
                          char out[1024])
{
    char path[1200], text[8192] = {0};
    snprintf(out, 1024, "%s/original-%s", f->path, c->directory);
    assert_int_equal(mkdir(out, 0700), 0);
    snprintf(path, sizeof path, "%s/model.safetensors", out);
    assert_int_equal(symlink(weights, path), 0);
    snprintf(path, sizeof path, "%.1000s/config.json", original);
    FILE *in = fopen(path, "rb");
    assert_non_null(in);
    assert_true(fread(text, 1, sizeof text - 1, in) > 0);
    fclose(in);
    snprintf(path, sizeof path, "%s/config.json", out);
    FILE *config = fopen(path, "wb");
    assert_non_null(config);
    const char *at = c->found ? strstr(text, c->found) : text;
    assert_non_null(at);
    fprintf(config, "%.*s%s%s", (int)(at - text), text, c->found ? c->replaced : "",
            at + (c->found ? strlen(c->found) : 0));
    fclose(config);
}

static void check(test_directory *f, const family_case *c)
{
    bo_context *context = f->context;
    char original[1024], weights[1200], directory[1024], copy[1024], from[1024];
    const char *source = getenv("BOCHNER_SOURCE");
    foreign_gguf file = {0};
    bo_tensors *tensors;
    assert_non_null(realpath(source ? source : ".", from));
    snprintf(original, sizeof original, "%.900s/tests/data/families/%s", from, c->directory);
    snprintf(weights, sizeof weights, "%s/model.safetensors", original);
    put_metadata(c, &file);
    assert_ok(context, bo_tensors_open(context, weights, &tensors));
    for (size_t i = 0; i < bo_tensors_count(tensors); i++) put_tensor(c, bo_tensors_at(tensors, i), &file);
    bo_tensors_close(tensors);
    foreign_bytes bytes = foreign_join(&file);
    snprintf(from, sizeof from, "%s", test_write(f, "family.gguf", bytes.data, bytes.size));
    snprintf(directory, sizeof directory, "%s/%s", f->path, c->directory);
    assert_ok(context, bo_convert(context, &(bo_convert_desc){.from = from, .to = directory}));
    copy_original(f, c, weights, original, copy);
    float *expected = malloc(TOKENS * 131 * sizeof *expected), *found = malloc(TOKENS * 131 * sizeof *found);
    logits_of(context, copy, expected);
    logits_of(context, directory, found);
    for (size_t i = 0; i < TOKENS * 131; i++)
        if (!(fabsf(found[i] - expected[i]) <= 2e-5f * (1 + fabsf(expected[i]))))
            fail_msg("%s: logit %zu of token %zu is %g, expected %g", c->directory, i % 131, i / 131, (double)found[i],
                     (double)expected[i]);
    free(expected), free(found), free(bytes.data);
}

static void families_become_the_same_function(void **state)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check(*state, &cases[i]);
}

/* A pattern of windows that config.json cannot express. */
static void patterns_without_a_period(void **state)
{
    test_directory *f = *state;
    static const unsigned char flags[3] = {1, 0, 0};
    foreign_gguf file = {0};
    char directory[1024];
    foreign_array(&file, "gemma3.attention.sliding_window_pattern", 7, 3);
    foreign_put(&file.entries, flags, sizeof flags);
    foreign_text(&file, "general.architecture", "gemma3");
    static const char *const sizes[] = {"embedding_length", "feed_forward_length", "attention.head_count",
                                        "context_length"};
    for (size_t i = 0; i < 4; i++) {
        char key[NAME];
        snprintf(key, sizeof key, "gemma3.%s", sizes[i]);
        foreign_size(&file, key, 8);
    }
    foreign_size(&file, "gemma3.block_count", 3);
    foreign_size(&file, "gemma3.attention.key_length", 2);
    foreign_tensor(&file, "token_embd.weight", 4, 8, 0, (float[32]){0}, 32 * sizeof(float));
    foreign_bytes bytes = foreign_join(&file);
    snprintf(directory, sizeof directory, "%s/none", f->path);
    const bo_convert_desc desc = {.from = test_write(f, "odd.gguf", bytes.data, bytes.size), .to = directory};
    assert_fails(f->context, BO_FORMAT, "sliding_window_pattern': expected a flag per layer, with a fixed period",
                 bo_convert(f->context, &desc));
    free(bytes.data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(families_become_the_same_function, test_setup, directories_teardown),
        cmocka_unit_test_setup_teardown(patterns_without_a_period, test_setup, directories_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
