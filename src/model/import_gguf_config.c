/* config.json of a GGUF model: one table of members, by architecture. */
#include "import_gguf.h"
#include <math.h>
#include <string.h>

/* The value of a member. */
typedef enum member_value {
    RAW, /* text shared by all models */
    WIDTH,
    VOCAB,
    CONTEXT,
    HIDDEN,
    LAYERS,
    HEADS,
    KEY_HEADS,
    HEAD,
    EPSILON,
    TIED,
    WINDOW,
    ROTATED_PART,
    ROPE_BASE,
    ATTENTION_BIAS,
    MLP_BIAS,
    PARALLEL,
    WINDOW_PERIOD,
    LOCAL_ROPE_BASE,
    SCORE_SCALE, /* of Gemma 3: scores are divided by its root */
    ATTENTION_SCALE,
    EMBEDDING_SCALE,
    RESIDUAL_SCALE,
    LOGIT_SCALE
} member_value;

enum { ALL = BO_IMPORT_ALL, NEWER = ALL & ~BO_IMPORT_GPT2 };
enum {
    GROUPED = NEWER & ~BO_IMPORT_GPTNEOX,
    GEMMAS = BO_IMPORT_GEMMA | BO_IMPORT_GEMMA3,
    SILU = (BO_IMPORT_GATED & ~GEMMAS) | BO_IMPORT_STABLELM
};
static const struct {
    unsigned families;
    const char *name;
    member_value value;
    const char *raw;
} members[] = {
    {BO_IMPORT_QWEN2, "architectures", RAW, "[\"Qwen2ForCausalLM\"]"},
    {BO_IMPORT_QWEN3, "architectures", RAW, "[\"Qwen3ForCausalLM\"]"},
    {BO_IMPORT_GEMMA, "architectures", RAW, "[\"GemmaForCausalLM\"]"},
    {BO_IMPORT_GEMMA3, "architectures", RAW, "[\"Gemma3ForCausalLM\"]"},
    {BO_IMPORT_OLMO2, "architectures", RAW, "[\"Olmo2ForCausalLM\"]"},
    {BO_IMPORT_GRANITE, "architectures", RAW, "[\"GraniteForCausalLM\"]"},
    {BO_IMPORT_STARCODER2, "architectures", RAW, "[\"Starcoder2ForCausalLM\"]"},
    {BO_IMPORT_STABLELM, "architectures", RAW, "[\"StableLmForCausalLM\"]"},
    {BO_IMPORT_GPT2, "architectures", RAW, "[\"GPT2LMHeadModel\"]"},
    {BO_IMPORT_GPTNEOX, "architectures", RAW, "[\"GPTNeoXForCausalLM\"]"},
    {BO_IMPORT_PHI2, "architectures", RAW, "[\"PhiForCausalLM\"]"},
    {BO_IMPORT_PHI3, "architectures", RAW, "[\"Phi3ForCausalLM\"]"},
    {ALL, "vocab_size", VOCAB, NULL},
    {NEWER, "hidden_size", WIDTH, NULL},
    {NEWER, "intermediate_size", HIDDEN, NULL},
    {NEWER, "num_hidden_layers", LAYERS, NULL},
    {NEWER, "num_attention_heads", HEADS, NULL},
    {GROUPED, "num_key_value_heads", KEY_HEADS, NULL},
    {GROUPED & ~BO_IMPORT_STABLELM, "head_dim", HEAD, NULL},
    {NEWER, "max_position_embeddings", CONTEXT, NULL},
    {SILU, "hidden_act", RAW, "\"silu\""},
    {BO_IMPORT_GEMMA | BO_IMPORT_STARCODER2, "hidden_act", RAW, "\"gelu_pytorch_tanh\""},
    {GEMMAS, "hidden_activation", RAW, "\"gelu_pytorch_tanh\""},
    {BO_IMPORT_GPTNEOX, "hidden_act", RAW, "\"gelu\""},
    {BO_IMPORT_PHI2, "hidden_act", RAW, "\"gelu_new\""},
    {BO_IMPORT_GATED, "rms_norm_eps", EPSILON, NULL},
    {BO_IMPORT_GPTNEOX | BO_IMPORT_PHI2 | BO_IMPORT_STABLELM, "layer_norm_eps", EPSILON, NULL},
    {BO_IMPORT_STARCODER2, "norm_epsilon", EPSILON, NULL},
    {BO_IMPORT_ROTATED, "attention_bias", ATTENTION_BIAS, NULL},
    {BO_IMPORT_STABLELM, "use_qkv_bias", ATTENTION_BIAS, NULL},
    {BO_IMPORT_QWEN3 | GEMMAS | BO_IMPORT_OLMO2, "attention_bias", RAW, "false"},
    {BO_IMPORT_STARCODER2, "use_bias", RAW, "true"},
    {BO_IMPORT_GPTNEOX, "attention_bias", RAW, "true"},
    {BO_IMPORT_ROTATED, "mlp_bias", MLP_BIAS, NULL},
    {BO_IMPORT_GPTNEOX | BO_IMPORT_STABLELM, "use_parallel_residual", PARALLEL, NULL},
    {BO_IMPORT_GPTNEOX, "rotary_pct", ROTATED_PART, NULL},
    {BO_IMPORT_GPTNEOX, "rotary_emb_base", ROPE_BASE, NULL},
    {BO_IMPORT_PHI2 | BO_IMPORT_PHI3 | BO_IMPORT_STABLELM, "partial_rotary_factor", ROTATED_PART, NULL},
    {BO_IMPORT_PHI2 | BO_IMPORT_STABLELM, "qk_layernorm", RAW, "false"},
    {BO_IMPORT_LLAMA | BO_IMPORT_PHI3 | BO_IMPORT_STARCODER2 | BO_IMPORT_GEMMA3, "sliding_window", WINDOW, NULL},
    {BO_IMPORT_GEMMA3, "sliding_window_pattern", WINDOW_PERIOD, NULL},
    {BO_IMPORT_GEMMA3, "rope_local_base_freq", LOCAL_ROPE_BASE, NULL},
    {BO_IMPORT_GEMMA3, "query_pre_attn_scalar", SCORE_SCALE, NULL},
    {BO_IMPORT_GRANITE, "attention_multiplier", ATTENTION_SCALE, NULL},
    {BO_IMPORT_GRANITE, "embedding_multiplier", EMBEDDING_SCALE, NULL},
    {BO_IMPORT_GRANITE, "residual_multiplier", RESIDUAL_SCALE, NULL},
    {BO_IMPORT_GRANITE, "logits_scaling", LOGIT_SCALE, NULL},
    {BO_IMPORT_QWEN2 | BO_IMPORT_QWEN3, "use_sliding_window", RAW, "false"},
    {BO_IMPORT_GPT2, "n_embd", WIDTH, NULL},
    {BO_IMPORT_GPT2, "n_inner", HIDDEN, NULL},
    {BO_IMPORT_GPT2, "n_layer", LAYERS, NULL},
    {BO_IMPORT_GPT2, "n_head", HEADS, NULL},
    {BO_IMPORT_GPT2, "n_positions", CONTEXT, NULL},
    {BO_IMPORT_GPT2, "layer_norm_epsilon", EPSILON, NULL},
    {BO_IMPORT_GPT2, "activation_function", RAW, "\"gelu_new\""},
};

double bo_import_round(double number)
{
    if (number == 0 || !(number - number == 0)) return number;
    const double exponent = floor(log10(fabs(number)));
    for (int digits = 1; digits <= 8; digits++) {
        const double power = digits - 1 - exponent;
        const double shifted = power >= 0 ? number * pow(10, power) : number / pow(10, -power);
        const double rounded = power >= 0 ? nearbyint(shifted) / pow(10, power) : nearbyint(shifted) * pow(10, -power);
        if ((float)rounded == (float)number) return rounded;
    }
    return number;
}

/* llama.cpp divides scores by the root of width / heads in the largest Gemma 3 (27B), which it identifies by its 62
 * layers. */
static size_t score_scale(const bo_import_model *m)
{
    return m->layers == 62 ? m->width / m->heads : m->head_dim;
}

static void write_value(bo_json_text *text, const bo_import_model *m, member_value value, const char *raw)
{
    const bool flags[] = {
        [TIED] = m->tied, [ATTENTION_BIAS] = m->attention_bias, [MLP_BIAS] = m->mlp_bias, [PARALLEL] = m->parallel};
    const size_t sizes[] = {[WIDTH] = m->width,
                            [VOCAB] = m->vocab,
                            [CONTEXT] = m->context,
                            [HIDDEN] = m->hidden,
                            [LAYERS] = m->layers,
                            [HEADS] = m->heads,
                            [KEY_HEADS] = m->key_heads,
                            [HEAD] = m->head_dim,
                            [WINDOW_PERIOD] = m->window_period,
                            [SCORE_SCALE] = score_scale(m)};
    const double reals[] = {[ROPE_BASE] = m->rope_base,
                            [EPSILON] = m->epsilon,
                            [ROTATED_PART] = (double)m->rotated / (double)m->head_dim,
                            [LOCAL_ROPE_BASE] = m->local_rope_base,
                            [ATTENTION_SCALE] = m->attention_scale,
                            [EMBEDDING_SCALE] = m->embedding_scale,
                            [RESIDUAL_SCALE] = m->residual_scale,
                            [LOGIT_SCALE] = m->logit_scale};
    switch (value) {
    case RAW:
        bo_json_raw(text, raw);
        break;
    case ROPE_BASE:
    case EPSILON:
    case ROTATED_PART:
    case LOCAL_ROPE_BASE:
    case ATTENTION_SCALE:
    case EMBEDDING_SCALE:
    case RESIDUAL_SCALE:
    case LOGIT_SCALE:
        bo_json_number(text, reals[value]);
        break;
    case WINDOW:
        if (m->window)
            bo_json_whole(text, m->window);
        else
            bo_json_raw(text, "null");
        break;
    case TIED:
    case ATTENTION_BIAS:
    case MLP_BIAS:
    case PARALLEL:
        bo_json_raw(text, flags[value] ? "true" : "false");
        break;
    default:
        bo_json_whole(text, sizes[value]);
    }
}

static void write_member(bo_json_text *text, const bo_import_model *m, const char *name, member_value value,
                         const char *raw)
{
    bo_json_raw(text, "  \"");
    bo_json_raw(text, name);
    bo_json_raw(text, "\": ");
    write_value(text, m, value, raw);
    bo_json_raw(text, ",\n");
}

bo_status bo_import_gguf_config(bo_context *context, const bo_import_model *m, const bo_import_vocab *vocab,
                                const bo_import *import, bo_json_text *text)
{
    const bool mistral = strcmp(import->architecture, "mistral") == 0;
    bo_json_raw(text, "{\n  \"model_type\": ");
    bo_json_string(text, import->architecture);
    bo_json_raw(text, ",\n");
    if (m->family == BO_IMPORT_LLAMA)
        write_member(text, m, "architectures", RAW, mistral ? "[\"MistralForCausalLM\"]" : "[\"LlamaForCausalLM\"]");
    bo_import_write_dtype(import, text);
    bo_import_write_ids(vocab, text);
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        if (!(members[i].families & m->family)) continue;
        if (members[i].value == WINDOW && m->family == BO_IMPORT_LLAMA && !mistral) continue;
        write_member(text, m, members[i].name, members[i].value, members[i].raw);
    }
    if (mistral && (m->attention_bias || m->mlp_bias))
        return bo_fail(context, BO_UNSUPPORTED, "%s: a Llama with a sliding window and biases is not supported",
                       bo_gguf_path(m->file));
    if (m->family != BO_IMPORT_GPT2) BO_TRY(bo_import_gguf_rope(context, m, text));
    bo_json_raw(text, "  \"tie_word_embeddings\": ");
    write_value(text, m, TIED, NULL);
    bo_json_raw(text, "\n}\n");
    return text->failed ? BO_MEMORY : BO_OK;
}
