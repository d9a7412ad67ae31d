/* Configurations of Llama and GPT-2 as Hugging Face writes them. */
#include <string.h>
#include "config.h"

#define COUNT(fields) (sizeof fields / sizeof *fields)
#define SIZE(key, member, needed)                                                                                      \
    {                                                                                                                  \
        .name = key, .type = BO_CONFIG_SIZE, .offset = offsetof(bo_model_desc, member), .required = needed             \
    }
#define REAL(key, member)                                                                                              \
    {                                                                                                                  \
        .name = key, .type = BO_CONFIG_REAL, .offset = offsetof(bo_model_desc, member)                                 \
    }

static const cJSON *get(const cJSON *json, const char *name)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(json, name);
    return cJSON_IsNull(item) ? NULL : item;
}

/* Where it is there it must be this. */
static bo_status expect_text(bo_context *context, const char *where, const cJSON *json, const char *name,
                             const char *expected)
{
    const cJSON *item = get(json, name);
    const char *text = cJSON_GetStringValue(item);
    if (!item || (text && strcmp(text, expected) == 0)) return BO_OK;
    return bo_fail(context, BO_UNSUPPORTED, "%s: \"%s\" should be %s, found %.60s", where, name, expected,
                   text ? text : "something else");
}

static bo_status expect_off(bo_context *context, const char *where, const cJSON *json, const char *name)
{
    const cJSON *item = get(json, name);
    if (!item || cJSON_IsFalse(item)) return BO_OK;
    return bo_fail(context, BO_UNSUPPORTED, "%s: \"%s\" should be false", where, name);
}

/* ---- Llama -------------------------------------------------------------------------------------------------------- */

static const bo_config_field llama_fields[] = {
    SIZE("vocab_size", vocab, true),
    SIZE("hidden_size", width, true),
    SIZE("num_hidden_layers", layers, true),
    SIZE("num_attention_heads", heads, true),
    SIZE("max_position_embeddings", context, true),
    SIZE("intermediate_size", hidden, true),
    SIZE("num_key_value_heads", key_heads, false),
    REAL("rms_norm_eps", norm_epsilon),
    {.name = "tie_word_embeddings", .type = BO_CONFIG_NOT, .offset = offsetof(bo_model_desc, untied)},
};

/* The base lies at the top, or since 2025 in "rope_parameters". */
static bo_status read_rope(bo_context *context, const char *where, const cJSON *json, bo_model_desc *out)
{
    static const bo_config_field theta[] = {REAL("rope_theta", rope_base)};
    const cJSON *parameters = get(json, "rope_parameters"), *scaling = get(json, "rope_scaling");
    BO_TRY(bo_config_fields_read(context, where, theta, COUNT(theta), false, NULL, json, out));
    if (scaling) return bo_fail(context, BO_UNSUPPORTED, "%s: \"rope_scaling\" is not supported", where);
    if (!parameters) return BO_OK;
    BO_TRY(expect_text(context, where, parameters, "rope_type", "default"));
    return bo_config_fields_read(context, where, theta, COUNT(theta), false, NULL, parameters, out);
}

bo_status bo_config_read_llama(bo_context *context, const char *where, const cJSON *json, bo_model_desc *out)
{
    static const bo_config_field dim[] = {SIZE("head_dim", head_dim, false)};
    const cJSON *bias = get(json, "attention_bias"), *mlp_bias = get(json, "mlp_bias");
    out->untied = true; /* as transformers has it where nothing is said */
    BO_TRY(bo_config_fields_read(context, where, llama_fields, COUNT(llama_fields), false, NULL, json, out));
    if (get(json, "head_dim")) BO_TRY(bo_config_fields_read(context, where, dim, COUNT(dim), false, NULL, json, out));
    BO_TRY(expect_text(context, where, json, "hidden_act", "silu"));
    if (cJSON_IsTrue(bias) != cJSON_IsTrue(mlp_bias))
        return bo_fail(context, BO_UNSUPPORTED, "%s: \"attention_bias\" and \"mlp_bias\" should be the same", where);
    out->bias = cJSON_IsTrue(bias);
    out->mlp = BO_MLP_SWIGLU;
    out->query_norm = out->output_norm = BO_CHOICE_NO;
    return read_rope(context, where, json, out);
}

/* ---- GPT-2 -------------------------------------------------------------------------------------------------------- */

static const bo_config_field gpt2_fields[] = {
    SIZE("vocab_size", vocab, true),
    SIZE("n_embd", width, true),
    SIZE("n_layer", layers, true),
    SIZE("n_head", heads, true),
    SIZE("n_positions", context, true),
    REAL("layer_norm_epsilon", norm_epsilon),
    REAL("resid_pdrop", dropout),
    {.name = "tie_word_embeddings", .type = BO_CONFIG_NOT, .offset = offsetof(bo_model_desc, untied)},
};

bo_status bo_config_read_gpt2(bo_context *context, const char *where, const cJSON *json, bo_model_desc *out)
{
    static const bo_config_field inner[] = {SIZE("n_inner", hidden, false)};
    out->norm_epsilon = 1e-5;
    BO_TRY(bo_config_fields_read(context, where, gpt2_fields, COUNT(gpt2_fields), false, NULL, json, out));
    if (get(json, "n_inner"))
        BO_TRY(bo_config_fields_read(context, where, inner, COUNT(inner), false, NULL, json, out));
    BO_TRY(expect_text(context, where, json, "activation_function", "gelu_new"));
    BO_TRY(expect_off(context, where, json, "scale_attn_by_inverse_layer_idx"));
    BO_TRY(expect_off(context, where, json, "reorder_and_upcast_attn"));
    if (out->untied) return bo_fail(context, BO_UNSUPPORTED, "%s: \"tie_word_embeddings\" should be true", where);
    out->mlp = BO_MLP_GELU_TANH;
    out->norm = BO_NORM_LAYER;
    out->positions = BO_POSITIONS_LEARNED;
    out->bias = true;
    out->query_norm = out->output_norm = BO_CHOICE_NO;
    return BO_OK;
}
