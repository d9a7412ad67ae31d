/* The table of families of pretrained models. Absent members have the defaults of the configuration classes of
 * transformers (version 5). */
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include "family_table.h"

#define COUNT(list)              (sizeof(list) / sizeof *(list))
#define FIELD(key, sort, member) BO_FIELD_PLAIN(bo_model_desc, key, sort, member)
#define NEEDED(key, member)      BO_FIELD_NEEDED(bo_model_desc, key, SIZE, member)

/* ====================================================================================================================
 * The table. */

#define SIZES                                                                                                          \
    NEEDED("vocab_size", vocab), NEEDED("hidden_size", width), NEEDED("num_hidden_layers", layers),                    \
        NEEDED("num_attention_heads", block.heads), NEEDED("max_position_embeddings", context),                        \
        NEEDED("intermediate_size", block.hidden), FIELD("tie_word_embeddings", NOT, untied)
#define GROUPED FIELD("num_key_value_heads", SIZE, block.key_heads)
#define APART   FIELD("head_dim", SIZE, block.head_dim)
#define RMS     FIELD("rms_norm_eps", REAL, block.norm_epsilon)

static const bo_field llama_fields[] = {SIZES,
                                        GROUPED,
                                        APART,
                                        RMS,
                                        FIELD("attention_bias", CHOICE, block.attention_bias),
                                        FIELD("mlp_bias", CHOICE, block.mlp_bias)};
static const bo_field mistral_fields[] = {SIZES, GROUPED, APART, RMS}; /* also the fields of Qwen2 */
static const bo_field qwen3_fields[] = {SIZES, GROUPED, APART, RMS,
                                        FIELD("attention_bias", CHOICE, block.attention_bias)}; /* also of Gemma */
#define GPT_SIZES                                                                                                      \
    NEEDED("vocab_size", vocab), NEEDED("n_embd", width), NEEDED("n_layer", layers), NEEDED("n_head", block.heads),    \
        NEEDED("n_positions", context), FIELD("n_inner", SIZE, block.hidden),                                          \
        FIELD("layer_norm_epsilon", REAL, block.norm_epsilon), FIELD("resid_pdrop", REAL, dropout),                    \
        FIELD("tie_word_embeddings", NOT, untied)
static const bo_field gpt2_fields[] = {GPT_SIZES};
static const bo_field gptj_fields[] = {GPT_SIZES, FIELD("rotary_dim", SIZE, block.rotated)};
static const bo_field gpt_neox_fields[] = {SIZES, FIELD("layer_norm_eps", REAL, block.norm_epsilon),
                                           FIELD("hidden_dropout", REAL, dropout),
                                           FIELD("attention_bias", CHOICE, block.attention_bias)};
static const bo_field phi_fields[] = {SIZES, GROUPED, APART, FIELD("layer_norm_eps", REAL, block.norm_epsilon),
                                      FIELD("resid_pdrop", REAL, dropout)};
static const bo_field phi3_fields[] = {SIZES, GROUPED, APART, RMS, FIELD("resid_pdrop", REAL, dropout)};
static const bo_field starcoder2_fields[] = {SIZES,
                                             GROUPED,
                                             APART,
                                             FIELD("norm_epsilon", REAL, block.norm_epsilon),
                                             FIELD("residual_dropout", REAL, dropout),
                                             FIELD("use_bias", BOOL, block.bias)};
static const bo_field stablelm_fields[] = {SIZES, GROUPED, FIELD("layer_norm_eps", REAL, block.norm_epsilon),
                                           FIELD("hidden_dropout", REAL, dropout),
                                           FIELD("use_qkv_bias", CHOICE, block.attention_bias)};
static const bo_field granite_fields[] = {SIZES,
                                          GROUPED,
                                          APART,
                                          RMS,
                                          FIELD("attention_bias", CHOICE, block.attention_bias),
                                          FIELD("mlp_bias", CHOICE, block.mlp_bias),
                                          FIELD("embedding_multiplier", REAL, embedding_scale),
                                          FIELD("residual_multiplier", REAL, block.residual_scale),
                                          FIELD("attention_multiplier", REAL, block.attention.scale),
                                          FIELD("logits_scaling", INVERSE, logit_scale)};

static const bo_field gemma3_fields[] = {SIZES,
                                         GROUPED,
                                         APART,
                                         RMS,
                                         FIELD("attention_bias", CHOICE, block.attention_bias),
                                         FIELD("query_pre_attn_scalar", ROOT, block.attention.scale)};

#define FIELDS(name) .fields = name##_fields, .count = COUNT(name##_fields)
#define LLAMA_LIKE                                                                                                     \
    .block.norm_epsilon = 1e-6, .untied = true, .block.attention_bias = BO_CHOICE_NO, .block.mlp_bias = BO_CHOICE_NO,  \
    .block.query_norm = BO_CHOICE_NO, .block.output_norm = BO_CHOICE_NO, .block.rope_base = 10000
#define GPT_LIKE                                                                                                       \
    .block.norm = BO_NORM_LAYER, .block.norm_epsilon = 1e-5, .block.query_norm = BO_CHOICE_NO,                         \
    .block.output_norm = BO_CHOICE_NO, .block.rope_base = 10000

/* In the order in which bo_family_of tries them. */
static const bo_family_row families[BO_FAMILY_COUNT] = {
    [BO_FAMILY_LLAMA] = {"llama", "LlamaForCausalLM", FIELDS(llama), .defaults = {LLAMA_LIKE}, .act = "hidden_act",
                         .default_act = "silu", .gated = true, .divides = true, .theta = "rope_theta",
                         .ids = {true, 1, 2, -1}},
    [BO_FAMILY_MISTRAL] = {"mistral", "MistralForCausalLM", FIELDS(mistral),
                           .defaults = {LLAMA_LIKE, .block.key_heads = 8}, .default_window = 4096, .act = "hidden_act",
                           .default_act = "silu", .gated = true, .theta = "rope_theta", .windows = BO_WINDOWS_TYPES,
                           .ids = {true, 1, 2, -1}},
    [BO_FAMILY_QWEN2] = {"qwen2", "Qwen2ForCausalLM", FIELDS(mistral),
                         .defaults = {.block.norm_epsilon = 1e-6,
                                      .untied = true,
                                      .block.key_heads = 32,
                                      .block.attention_bias = BO_CHOICE_YES,
                                      .block.output_bias = BO_CHOICE_NO,
                                      .block.mlp_bias = BO_CHOICE_NO,
                                      .block.query_norm = BO_CHOICE_NO,
                                      .block.output_norm = BO_CHOICE_NO,
                                      .block.rope_base = 10000},
                         .act = "hidden_act", .default_act = "silu", .gated = true, .theta = "rope_theta",
                         .windows = BO_WINDOWS_LAYERS},
    [BO_FAMILY_QWEN3] = {"qwen3", "Qwen3ForCausalLM", FIELDS(qwen3),
                         .defaults = {.block.norm_epsilon = 1e-6,
                                      .untied = true,
                                      .block.key_heads = 32,
                                      .block.head_dim = 128,
                                      .block.attention_bias = BO_CHOICE_NO,
                                      .block.mlp_bias = BO_CHOICE_NO,
                                      .block.query_norm = BO_CHOICE_YES,
                                      .block.output_norm = BO_CHOICE_NO,
                                      .block.rope_base = 10000},
                         .act = "hidden_act", .default_act = "silu", .gated = true, .theta = "rope_theta",
                         .windows = BO_WINDOWS_LAYERS},
    [BO_FAMILY_GEMMA] = {"gemma", "GemmaForCausalLM", FIELDS(qwen3),
                         .defaults = {.block.norm_epsilon = 1e-6,
                                      .block.key_heads = 16,
                                      .block.head_dim = 256,
                                      .block.attention_bias = BO_CHOICE_NO,
                                      .block.mlp_bias = BO_CHOICE_NO,
                                      .block.query_norm = BO_CHOICE_NO,
                                      .block.output_norm = BO_CHOICE_NO,
                                      .block.rope_base = 10000},
                         .act = "hidden_act", .default_act = "gelu_pytorch_tanh", .gated = true, .tanh = true,
                         .scaled = true, .theta = "rope_theta",
                         .required = {{"use_bidirectional_attention", BO_VALUE_FALSE}}, .ids = {true, 2, 1, 0}},
    [BO_FAMILY_GEMMA3] = {"gemma3_text", "Gemma3ForCausalLM", FIELDS(gemma3),
                          .defaults = {.block.norm_epsilon = 1e-6,
                                       .block.key_heads = 4,
                                       .block.head_dim = 256,
                                       .block.attention_bias = BO_CHOICE_NO,
                                       .block.mlp_bias = BO_CHOICE_NO,
                                       .block.query_norm = BO_CHOICE_YES,
                                       .block.output_norm = BO_CHOICE_NO,
                                       .block.rope_base = 1e6,
                                       .block.attention.scale = 1.0 / 16,
                                       .block.residual = BO_RESIDUAL_SANDWICH},
                          .act = "hidden_activation", .default_act = "gelu_pytorch_tanh", .gated = true, .scaled = true,
                          .divides = true, .theta = "rope_theta", .local = "rope_local_base_freq",
                          .default_local = 10000, .default_window = 4096, .windows = BO_WINDOWS_PERIOD,
                          .required = {{"use_bidirectional_attention", BO_VALUE_FALSE},
                                       {"final_logit_softcapping", BO_VALUE_NULL},
                                       {"attn_logit_softcapping", BO_VALUE_NULL}},
                          .ids = {true, 2, 1, 0}},
    [BO_FAMILY_GPT2] = {"gpt2", "GPT2LMHeadModel", FIELDS(gpt2),
                        .defaults = {GPT_LIKE, .block.positions = BO_POSITIONS_LEARNED, .block.bias = true,
                                     .dropout = 0.1},
                        .act = "activation_function", .default_act = "gelu_new", .divides = true,
                        .required = {{"scale_attn_weights", BO_VALUE_TRUE},
                                     {"scale_attn_by_inverse_layer_idx", BO_VALUE_FALSE},
                                     {"add_cross_attention", BO_VALUE_FALSE}},
                        .ids = {true, 50256, 50256, -1}},
    [BO_FAMILY_GPT_NEOX] = {"gpt_neox", "GPTNeoXForCausalLM", FIELDS(gpt_neox),
                            .defaults = {GPT_LIKE, .untied = true, .block.attention_bias = BO_CHOICE_YES,
                                         .block.mlp_bias = BO_CHOICE_YES, .block.residual = BO_RESIDUAL_PARALLEL},
                            .act = "hidden_act", .default_act = "gelu", .divides = true, .theta = "rotary_emb_base",
                            .share = "rotary_pct", .default_share = 0.25, .parallel = "use_parallel_residual",
                            .parallel_residual = BO_RESIDUAL_PARALLEL, .ids = {true, 0, 2, -1}},
    [BO_FAMILY_PHI] = {"phi", "PhiForCausalLM", FIELDS(phi),
                       .defaults = {GPT_LIKE, .untied = true, .block.bias = true, .block.residual = BO_RESIDUAL_SHARED,
                                    .head_bias = true},
                       .act = "hidden_act", .default_act = "gelu_new", .theta = "rope_theta",
                       .share = "partial_rotary_factor", .default_share = 0.5,
                       .required = {{"qk_layernorm", BO_VALUE_FALSE}}, .ids = {true, 1, 2, -1}},
    [BO_FAMILY_PHI3] = {"phi3", "Phi3ForCausalLM", FIELDS(phi3),
                        .defaults = {.block.norm_epsilon = 1e-5,
                                     .untied = true,
                                     .block.query_norm = BO_CHOICE_NO,
                                     .block.output_norm = BO_CHOICE_NO,
                                     .block.rope_base = 10000},
                        .act = "hidden_act", .default_act = "silu", .gated = true, .theta = "rope_theta",
                        .share = "partial_rotary_factor", .default_share = 1, .windows = BO_WINDOWS_MEMBER,
                        .ids = {true, 1, 32000, 32000}},
    [BO_FAMILY_STARCODER2] = {"starcoder2", "Starcoder2ForCausalLM", FIELDS(starcoder2),
                              .defaults = {GPT_LIKE, .block.bias = true, .block.key_heads = 2}, .act = "hidden_act",
                              .default_act = "gelu_pytorch_tanh", .theta = "rope_theta", .windows = BO_WINDOWS_MEMBER,
                              .ids = {true, 50256, 50256, -1}},
    [BO_FAMILY_STABLELM] = {"stablelm", "StableLmForCausalLM", FIELDS(stablelm),
                            .defaults = {GPT_LIKE, .untied = true, .block.key_heads = 32,
                                         .block.attention_bias = BO_CHOICE_NO, .block.output_bias = BO_CHOICE_NO,
                                         .block.mlp_bias = BO_CHOICE_NO},
                            .act = "hidden_act", .default_act = "silu", .gated = true, .divides = true,
                            .theta = "rope_theta", .share = "partial_rotary_factor", .default_share = 0.25,
                            .parallel = "use_parallel_residual", .parallel_residual = BO_RESIDUAL_SHARED,
                            .required = {{"qk_layernorm", BO_VALUE_FALSE}}, .ids = {true, 0, 0, -1}},
    [BO_FAMILY_GRANITE] = {"granite", "GraniteForCausalLM", FIELDS(granite),
                           .defaults = {LLAMA_LIKE, .block.attention = {.scale = 1}}, .act = "hidden_act",
                           .default_act = "silu", .gated = true, .theta = "rope_theta", .ids = {true, 1, 2, -1}},
    [BO_FAMILY_OLMO2] = {"olmo2", "Olmo2ForCausalLM", FIELDS(qwen3),
                         .defaults = {.block.norm_epsilon = 1e-5,
                                      .untied = true,
                                      .block.attention_bias = BO_CHOICE_NO,
                                      .block.mlp_bias = BO_CHOICE_NO,
                                      .block.query_norm = BO_CHOICE_YES,
                                      .block.joint_norm = true,
                                      .block.output_norm = BO_CHOICE_NO,
                                      .block.rope_base = 10000,
                                      .block.residual = BO_RESIDUAL_AFTER},
                         .act = "hidden_act", .default_act = "silu", .gated = true, .theta = "rope_theta",
                         .ids = {true, -1, 50279, 1}},
    [BO_FAMILY_GPTJ] = {"gptj", "GPTJForCausalLM", FIELDS(gptj),
                        .defaults = {GPT_LIKE, .block.positions = BO_POSITIONS_ROPE_NEIGHBORS, .block.rotated = 64,
                                     .untied = true, .block.attention_bias = BO_CHOICE_NO,
                                     .block.mlp_bias = BO_CHOICE_YES, .block.residual = BO_RESIDUAL_SHARED,
                                     .head_bias = true},
                        .act = "activation_function", .default_act = "gelu_new", .divides = true,
                        .ids = {true, 50256, 50256, -1}},
    [BO_FAMILY_SMOLLM3] = {"smollm3", "SmolLM3ForCausalLM", FIELDS(llama),
                           .defaults = {.block.norm_epsilon = 1e-6,
                                        .block.key_heads = 4,
                                        .block.attention_bias = BO_CHOICE_NO,
                                        .block.mlp_bias = BO_CHOICE_NO,
                                        .block.query_norm = BO_CHOICE_NO,
                                        .block.output_norm = BO_CHOICE_NO,
                                        .block.rope_base = 2e6},
                           .act = "hidden_act", .default_act = "silu", .gated = true, .theta = "rope_theta",
                           .default_nope = 4, .windows = BO_WINDOWS_NOPE, .ids = {true, 128000, 128001, 128004}},
};

const bo_family_row *bo_family_row_of(bo_family family)
{
    return &families[family];
}

bo_family bo_family_find(const char *type)
{
    for (int i = BO_FAMILY_BOCHNER + 1; i < BO_FAMILY_COUNT; i++)
        if (strcmp(type, families[i].type) == 0) return (bo_family)i;
    return BO_FAMILY_BOCHNER;
}

void bo_family_list(char *out, size_t size)
{
    size_t length = 0;
    *out = 0;
    for (int i = BO_FAMILY_BOCHNER + 1; i < BO_FAMILY_COUNT && length < size; i++)
        length += (size_t)snprintf(out + length, size - length, "%s%s", length ? ", " : "", families[i].type);
}

/* ---- activation functions ---------------------------------------------------------------------------------------- */

/* Names in transformers, and the MLP without and with a gate. Files are written with the first name of an MLP. */
static const struct {
    const char *name;
    int plain, gated;
} acts[] = {{"gelu", BO_MLP_GELU, BO_MLP_GEGLU},
            {"gelu_python", BO_MLP_GELU, BO_MLP_GEGLU},
            {"gelu_pytorch_tanh", BO_MLP_GELU_TANH, BO_MLP_GEGLU_TANH},
            {"gelu_new", BO_MLP_GELU_TANH, BO_MLP_GEGLU_TANH},
            {"gelu_fast", BO_MLP_GELU_TANH, BO_MLP_GEGLU_TANH},
            {"gelu_python_tanh", BO_MLP_GELU_TANH, BO_MLP_GEGLU_TANH},
            {"gelu_accurate", BO_MLP_GELU_TANH, BO_MLP_GEGLU_TANH},
            {"silu", BO_MLP_SILU, BO_MLP_SWIGLU},
            {"swish", BO_MLP_SILU, BO_MLP_SWIGLU},
            {"relu", BO_MLP_RELU, BO_FAMILY_NO_MLP},
            {"relu2", BO_MLP_RELU2, BO_FAMILY_NO_MLP}};

int bo_family_mlp(const bo_family_row *f, const char *act)
{
    if (f->tanh && strcmp(act, "gelu") == 0) act = f->default_act;
    for (size_t i = 0; i < COUNT(acts); i++)
        if (strcmp(act, acts[i].name) == 0) return f->gated ? acts[i].gated : acts[i].plain;
    return BO_FAMILY_NO_MLP;
}

const char *bo_family_act(const bo_family_row *f, bo_mlp mlp)
{
    if (bo_family_mlp(f, f->default_act) == (int)mlp) return f->default_act;
    for (size_t i = 0; i < COUNT(acts); i++)
        if (bo_family_mlp(f, acts[i].name) == (int)mlp) return acts[i].name;
    return NULL;
}

void bo_family_acts(const bo_family_row *row, char *out, size_t size)
{
    size_t length = 0;
    *out = 0;
    for (size_t i = 0; i < COUNT(acts) && length < size; i++)
        if (bo_family_mlp(row, acts[i].name) != BO_FAMILY_NO_MLP)
            length += (size_t)snprintf(out + length, size - length, "%s%s", length ? ", " : "", acts[i].name);
}
