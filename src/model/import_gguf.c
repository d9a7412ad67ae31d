/* Models in GGUF files: sizes from the metadata, and one table that maps the names of tensors to those of Hugging
 * Face. */
#include "import_gguf.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAX_SIZE = 1 << 28, NAME = 160 };

/* ====================================================================================================================
 * Names of tensors. */

/* The sizes of a tensor, in terms of the model. */
typedef enum size_word { NONE, WIDTH, VOCAB, CONTEXT, QUERIES, KEYS, FUSED, HIDDEN, TWO_HIDDEN, HEAD } size_word;

enum {
    LAYER = 1,           /* one per layer; the names are those within a layer */
    OPTIONAL = 2,        /* the output matrix, which is the embedding if it is missing */
    NORM = 4,            /* the weight of an RMSNorm */
    BIAS = 8,            /* has a bias */
    ATTENTION_BIAS = 16, /* has a bias if the queries of the first layer have one */
    MLP_BIAS = 32,       /* likewise for the gate of its MLP */
    ROTATED = 64,        /* Llama's files store the rows of a head in the order of rotary pairs */
    SPLIT_HEADS = 128,   /* the file stores all queries, then keys, then values; GPT-NeoX expects them per head */
    TRANSPOSED = 256,    /* GPT-2 stores matrices as inputs x outputs */
    PART = 512,          /* q, k or v: may be a part of attn_qkv */
    SERIAL = 1024        /* missing in a model with parallel residuals */
};
enum {
    LLAMA_NAMES = BO_IMPORT_GATED | BO_IMPORT_STARCODER2 | BO_IMPORT_STABLELM, /* of the parts of attention */
    AFTER = BO_IMPORT_GEMMA3 | BO_IMPORT_OLMO2,                                /* norms after attention and MLP */
    UNBIASED = BO_IMPORT_QWEN3 | BO_IMPORT_GEMMA | BO_IMPORT_GEMMA3 | BO_IMPORT_OLMO2
};

static const struct name_row {
    unsigned families;
    const char *gguf_name, *name;
    size_word rows, columns; /* in the GGUF file */
    unsigned traits;
} names[] = {
    {LLAMA_NAMES | BO_IMPORT_PHI2, "token_embd", "model.embed_tokens", VOCAB, WIDTH, 0},
    {BO_IMPORT_GPTNEOX, "token_embd", "gpt_neox.embed_in", VOCAB, WIDTH, 0},
    {BO_IMPORT_GPT2, "token_embd", "transformer.wte", VOCAB, WIDTH, 0},
    {BO_IMPORT_GPT2, "position_embd", "transformer.wpe", CONTEXT, WIDTH, 0},

    {BO_IMPORT_GATED & ~BO_IMPORT_OLMO2, "attn_norm", "input_layernorm", WIDTH, NONE, LAYER | NORM},
    {BO_IMPORT_LAYER_NORM & ~BO_IMPORT_GPT2, "attn_norm", "input_layernorm", WIDTH, NONE, LAYER | BIAS},
    {BO_IMPORT_GPT2, "attn_norm", "ln_1", WIDTH, NONE, LAYER | BIAS},
    {BO_IMPORT_ROTATED, "attn_q", "self_attn.q_proj", QUERIES, WIDTH, LAYER | ROTATED | ATTENTION_BIAS},
    {BO_IMPORT_ROTATED, "attn_k", "self_attn.k_proj", KEYS, WIDTH, LAYER | ROTATED | ATTENTION_BIAS},
    {BO_IMPORT_ROTATED, "attn_v", "self_attn.v_proj", KEYS, WIDTH, LAYER | ATTENTION_BIAS},
    {BO_IMPORT_ROTATED, "attn_output", "self_attn.o_proj", WIDTH, QUERIES, LAYER | ATTENTION_BIAS},
    {BO_IMPORT_QWEN2 | BO_IMPORT_STARCODER2, "attn_q", "self_attn.q_proj", QUERIES, WIDTH, LAYER | BIAS},
    {BO_IMPORT_QWEN2 | BO_IMPORT_STARCODER2, "attn_k", "self_attn.k_proj", KEYS, WIDTH, LAYER | BIAS},
    {BO_IMPORT_QWEN2 | BO_IMPORT_STARCODER2, "attn_v", "self_attn.v_proj", KEYS, WIDTH, LAYER | BIAS},
    {BO_IMPORT_STABLELM, "attn_q", "self_attn.q_proj", QUERIES, WIDTH, LAYER | ATTENTION_BIAS},
    {BO_IMPORT_STABLELM, "attn_k", "self_attn.k_proj", KEYS, WIDTH, LAYER | ATTENTION_BIAS},
    {BO_IMPORT_STABLELM, "attn_v", "self_attn.v_proj", KEYS, WIDTH, LAYER | ATTENTION_BIAS},
    {UNBIASED, "attn_q", "self_attn.q_proj", QUERIES, WIDTH, LAYER},
    {UNBIASED, "attn_k", "self_attn.k_proj", KEYS, WIDTH, LAYER},
    {UNBIASED, "attn_v", "self_attn.v_proj", KEYS, WIDTH, LAYER},
    {BO_IMPORT_QWEN3 | BO_IMPORT_GEMMA3, "attn_q_norm", "self_attn.q_norm", HEAD, NONE, LAYER | NORM},
    {BO_IMPORT_QWEN3 | BO_IMPORT_GEMMA3, "attn_k_norm", "self_attn.k_norm", HEAD, NONE, LAYER | NORM},
    {BO_IMPORT_OLMO2, "attn_q_norm", "self_attn.q_norm", QUERIES, NONE, LAYER | NORM},
    {BO_IMPORT_OLMO2, "attn_k_norm", "self_attn.k_norm", KEYS, NONE, LAYER | NORM},
    {BO_IMPORT_QWEN2 | UNBIASED | BO_IMPORT_PHI3 | BO_IMPORT_STABLELM, "attn_output", "self_attn.o_proj", WIDTH,
     QUERIES, LAYER},
    {BO_IMPORT_STARCODER2, "attn_output", "self_attn.o_proj", WIDTH, QUERIES, LAYER | BIAS},
    {BO_IMPORT_PHI3, "attn_qkv", "self_attn.qkv_proj", FUSED, WIDTH, LAYER},
    {BO_IMPORT_PHI2, "attn_q", "self_attn.q_proj", QUERIES, WIDTH, LAYER | BIAS | PART},
    {BO_IMPORT_PHI2, "attn_k", "self_attn.k_proj", KEYS, WIDTH, LAYER | BIAS | PART},
    {BO_IMPORT_PHI2, "attn_v", "self_attn.v_proj", KEYS, WIDTH, LAYER | BIAS | PART},
    {BO_IMPORT_PHI2, "attn_output", "self_attn.dense", WIDTH, QUERIES, LAYER | BIAS},
    {BO_IMPORT_GPTNEOX, "attn_qkv", "attention.query_key_value", FUSED, WIDTH, LAYER | BIAS | SPLIT_HEADS},
    {BO_IMPORT_GPTNEOX, "attn_output", "attention.dense", WIDTH, QUERIES, LAYER | BIAS},
    {BO_IMPORT_GPT2, "attn_qkv", "attn.c_attn", FUSED, WIDTH, LAYER | BIAS | TRANSPOSED},
    {BO_IMPORT_GPT2, "attn_output", "attn.c_proj", WIDTH, QUERIES, LAYER | BIAS | TRANSPOSED},

    {AFTER, "post_attention_norm", "post_attention_layernorm", WIDTH, NONE, LAYER | NORM},
    {BO_IMPORT_GEMMA3, "ffn_norm", "pre_feedforward_layernorm", WIDTH, NONE, LAYER | NORM},
    {BO_IMPORT_GATED & ~AFTER, "ffn_norm", "post_attention_layernorm", WIDTH, NONE, LAYER | NORM},
    {BO_IMPORT_GPTNEOX | BO_IMPORT_STARCODER2, "ffn_norm", "post_attention_layernorm", WIDTH, NONE, LAYER | BIAS},
    {BO_IMPORT_STABLELM, "ffn_norm", "post_attention_layernorm", WIDTH, NONE, LAYER | BIAS | SERIAL},
    {BO_IMPORT_GPT2, "ffn_norm", "ln_2", WIDTH, NONE, LAYER | BIAS},
    {(BO_IMPORT_GATED & ~BO_IMPORT_PHI3) | BO_IMPORT_STABLELM, "ffn_gate", "mlp.gate_proj", HIDDEN, WIDTH,
     LAYER | MLP_BIAS},
    {(BO_IMPORT_GATED & ~BO_IMPORT_PHI3) | BO_IMPORT_STABLELM, "ffn_up", "mlp.up_proj", HIDDEN, WIDTH,
     LAYER | MLP_BIAS},
    {BO_IMPORT_PHI3, "ffn_up", "mlp.gate_up_proj", TWO_HIDDEN, WIDTH, LAYER},
    {BO_IMPORT_GATED | BO_IMPORT_STABLELM, "ffn_down", "mlp.down_proj", WIDTH, HIDDEN, LAYER | MLP_BIAS},
    {BO_IMPORT_PHI2, "ffn_up", "mlp.fc1", HIDDEN, WIDTH, LAYER | BIAS},
    {BO_IMPORT_PHI2, "ffn_down", "mlp.fc2", WIDTH, HIDDEN, LAYER | BIAS},
    {BO_IMPORT_GPTNEOX, "ffn_up", "mlp.dense_h_to_4h", HIDDEN, WIDTH, LAYER | BIAS},
    {BO_IMPORT_GPTNEOX, "ffn_down", "mlp.dense_4h_to_h", WIDTH, HIDDEN, LAYER | BIAS},
    {BO_IMPORT_STARCODER2, "ffn_up", "mlp.c_fc", HIDDEN, WIDTH, LAYER | BIAS},
    {BO_IMPORT_STARCODER2, "ffn_down", "mlp.c_proj", WIDTH, HIDDEN, LAYER | BIAS},
    {BO_IMPORT_GPT2, "ffn_up", "mlp.c_fc", HIDDEN, WIDTH, LAYER | BIAS | TRANSPOSED},
    {BO_IMPORT_GPT2, "ffn_down", "mlp.c_proj", WIDTH, HIDDEN, LAYER | BIAS | TRANSPOSED},
    {AFTER, "post_ffw_norm", "post_feedforward_layernorm", WIDTH, NONE, LAYER | NORM},

    {BO_IMPORT_GATED, "output_norm", "model.norm", WIDTH, NONE, NORM},
    {BO_IMPORT_STARCODER2 | BO_IMPORT_STABLELM, "output_norm", "model.norm", WIDTH, NONE, BIAS},
    {BO_IMPORT_PHI2, "output_norm", "model.final_layernorm", WIDTH, NONE, BIAS},
    {BO_IMPORT_GPTNEOX, "output_norm", "gpt_neox.final_layer_norm", WIDTH, NONE, BIAS},
    {BO_IMPORT_GPT2, "output_norm", "transformer.ln_f", WIDTH, NONE, BIAS},
    {LLAMA_NAMES | BO_IMPORT_GPT2, "output", "lm_head", VOCAB, WIDTH, OPTIONAL},
    {BO_IMPORT_PHI2, "output", "lm_head", VOCAB, WIDTH, BIAS},
    {BO_IMPORT_GPTNEOX, "output", "embed_out", VOCAB, WIDTH, 0},
};

/* Tensors that config.json expresses, or that follow from it. */
static const char *const other_names[] = {"rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight"};

enum { ROWS = sizeof names / sizeof *names, OTHER_ROWS = sizeof other_names / sizeof *other_names };

/* ====================================================================================================================
 * Metadata. */

static const struct {
    const char *name;
    bo_import_family family;
    const char *type; /* model_type of config.json */
} architectures[] = {{"llama", BO_IMPORT_LLAMA, "llama"},
                     {"qwen2", BO_IMPORT_QWEN2, "qwen2"},
                     {"qwen3", BO_IMPORT_QWEN3, "qwen3"},
                     {"gemma", BO_IMPORT_GEMMA, "gemma"},
                     {"gemma3", BO_IMPORT_GEMMA3, "gemma3_text"},
                     {"olmo2", BO_IMPORT_OLMO2, "olmo2"},
                     {"granite", BO_IMPORT_GRANITE, "granite"},
                     {"phi2", BO_IMPORT_PHI2, "phi"},
                     {"phi3", BO_IMPORT_PHI3, "phi3"},
                     {"gpt2", BO_IMPORT_GPT2, "gpt2"},
                     {"gptneox", BO_IMPORT_GPTNEOX, "gpt_neox"},
                     {"starcoder2", BO_IMPORT_STARCODER2, "starcoder2"},
                     {"stablelm", BO_IMPORT_STABLELM, "stablelm"}};

enum { ARCHITECTURES = sizeof architectures / sizeof *architectures };

const bo_gguf_entry *bo_import_setting(const bo_import_model *model, const char *key)
{
    char name[NAME];
    snprintf(name, sizeof name, "%s.%s", model->name, key);
    return bo_gguf_find(model->file, name);
}

static bo_status refuse_setting(bo_context *context, const bo_import_model *model, const char *key,
                                const char *expected)
{
    return bo_fail(context, BO_FORMAT, "%s: metadata '%s.%s': expected %s", bo_gguf_path(model->file), model->name, key,
                   expected);
}

/* An array has one number per layer. All must be equal. */
bo_status bo_import_size(bo_context *context, const bo_import_model *model, const char *key, size_t initial,
                         size_t *out)
{
    const bo_gguf_entry *entry = bo_import_setting(model, key);
    uint64_t value = initial, other;
    for (size_t i = 0; entry && i < entry->count; i++) {
        if (!bo_gguf_whole(entry, i, &other) || other > MAX_SIZE)
            return refuse_setting(context, model, key, "a whole number of at most 2^28");
        if (i > 0 && other != value)
            return bo_fail(
                context, BO_UNSUPPORTED,
                "%s: metadata '%s.%s': layers of different sizes are not supported: expected %llu, found %llu",
                bo_gguf_path(model->file), model->name, key, (unsigned long long)value, (unsigned long long)other);
        value = other;
    }
    *out = (size_t)value;
    return BO_OK;
}

bo_status bo_import_real(bo_context *context, const bo_import_model *model, const char *key, double initial,
                         double *out)
{
    const bo_gguf_entry *entry = bo_import_setting(model, key);
    *out = initial;
    if (!entry) return BO_OK;
    if (entry->array || !bo_gguf_number(entry, 0, out) || !(*out - *out == 0))
        return refuse_setting(context, model, key, "a finite number");
    *out = bo_import_round(*out);
    return BO_OK;
}

static bo_status needed_size(bo_context *context, const bo_import_model *model, const char *key, size_t *out)
{
    BO_TRY(bo_import_size(context, model, key, 0, out));
    return *out ? BO_OK : refuse_setting(context, model, key, "a whole number above 0, found none");
}

static bo_status find_architecture(bo_context *context, bo_import_model *model, bo_import *out)
{
    const bo_gguf_entry *entry = bo_gguf_find(model->file, "general.architecture");
    const char *text = NULL;
    size_t length = 0, at = 0;
    const char *path = bo_gguf_path(model->file);
    if (!entry || entry->array || !bo_gguf_next_text(entry, &at, &text, &length))
        return bo_fail(context, BO_FORMAT, "%s: metadata 'general.architecture' is missing", path);
    for (size_t i = 0; i < ARCHITECTURES; i++) {
        if (strlen(architectures[i].name) != length || memcmp(text, architectures[i].name, length) != 0) continue;
        model->name = architectures[i].name;
        model->family = architectures[i].family;
        out->architecture = architectures[i].type;
        return BO_OK;
    }
    char known[256];
    for (size_t i = 0, used = 0; i < ARCHITECTURES; i++)
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "", architectures[i].name);
    return bo_fail(context, BO_UNSUPPORTED, "%s: the architecture '%.*s' is not supported; expected one of: %s", path,
                   (int)bo_min(length, 60), text, known);
}

/* Settings that change the function of a model and that config.json of these architectures cannot express. */
static bo_status check_settings(bo_context *context, const bo_import_model *m)
{
    static const char *const keys[] = {"attn_logit_softcapping", "final_logit_softcapping",
                                       "attention.scale",        "logit_scale",
                                       "embedding_scale",        "residual_scale"};
    const size_t refused = m->family == BO_IMPORT_GRANITE ? 2 : sizeof keys / sizeof *keys;
    const bo_gguf_entry *causal = bo_import_setting(m, "attention.causal");
    uint64_t flag = 1;
    for (size_t i = 0; i < refused; i++)
        if (bo_import_setting(m, keys[i]))
            return bo_fail(context, BO_UNSUPPORTED, "%s: metadata '%s.%s' is not supported", bo_gguf_path(m->file),
                           m->name, keys[i]);
    if (causal && bo_gguf_whole(causal, 0, &flag) && !flag)
        return bo_fail(context, BO_UNSUPPORTED, "%s: attention in both directions is not supported",
                       bo_gguf_path(m->file));
    if (m->window && !(m->family & (BO_IMPORT_LLAMA | BO_IMPORT_PHI3 | BO_IMPORT_GEMMA3)))
        return bo_fail(context, BO_UNSUPPORTED, "%s: a %s model with a sliding window is not supported",
                       bo_gguf_path(m->file), m->name);
    if (!(m->family & (BO_IMPORT_GATED | BO_IMPORT_PHI2)) && m->head_dim * m->heads != m->width)
        return bo_fail(context, BO_UNSUPPORTED, "%s: a %s model should have heads of width / heads = %zu, found %zu",
                       bo_gguf_path(m->file), m->name, m->width / m->heads, m->head_dim);
    if (m->rotated != m->head_dim && (m->family & ((BO_IMPORT_GATED & ~BO_IMPORT_PHI3) | BO_IMPORT_STARCODER2)))
        return bo_fail(
            context, BO_UNSUPPORTED,
            "%s: a %s model that rotates a part of its heads is not supported: expected %zu numbers of a head, "
            "found %zu",
            bo_gguf_path(m->file), m->name, m->head_dim, m->rotated);
    return BO_OK;
}

static bo_status check_kind(bo_context *context, const bo_import_model *model)
{
    const bo_gguf_entry *split = bo_gguf_find(model->file, "split.count");
    uint64_t parts = 1;
    size_t experts, values;
    if (split && bo_gguf_whole(split, 0, &parts) && parts > 1)
        return bo_fail(context, BO_UNSUPPORTED,
                       "%s: one of %llu files of a split model; merge them first, with llama-gguf-split --merge",
                       bo_gguf_path(model->file), (unsigned long long)parts);
    BO_TRY(bo_import_size(context, model, "expert_count", 0, &experts));
    if (experts)
        return bo_fail(context, BO_UNSUPPORTED, "%s: mixtures of experts are not supported, found %zu experts",
                       bo_gguf_path(model->file), experts);
    BO_TRY(bo_import_size(context, model, "attention.value_length", model->head_dim, &values));
    if (values != model->head_dim)
        return bo_fail(context, BO_UNSUPPORTED,
                       "%s: keys and values of different sizes are not supported, found %zu and %zu",
                       bo_gguf_path(model->file), model->head_dim, values);
    return check_settings(context, model);
}

/* Which layers of Gemma 3 have no window: every sixth one, unless the file states another period, as a number or as a
 * flag per layer. */
static bo_status read_window_period(bo_context *context, bo_import_model *m)
{
    static const char key[] = "attention.sliding_window_pattern";
    const bo_gguf_entry *entry = bo_import_setting(m, key);
    uint64_t value = 6;
    m->window_period = 6;
    if (!entry) return BO_OK;
    if (!entry->array) {
        if (!bo_gguf_whole(entry, 0, &value) || value == 0 || value > MAX_SIZE)
            return refuse_setting(context, m, key, "a whole number above 0");
        m->window_period = (size_t)value;
        return BO_OK;
    }
    size_t first = 0;
    while (first < entry->count && bo_gguf_whole(entry, first, &value) && value) first++;
    m->window_period = first + 1;
    for (size_t i = 0; i < m->layers; i++)
        if (i >= entry->count || !bo_gguf_whole(entry, i, &value) || (value != 0) != ((i + 1) % m->window_period != 0))
            return refuse_setting(context, m, key, "a flag per layer, with a fixed period");
    return BO_OK;
}

static bo_status read_gemma3(bo_context *context, bo_import_model *m)
{
    BO_TRY(bo_import_real(context, m, "rope.freq_base_swa", 10000, &m->local_rope_base));
    return read_window_period(context, m);
}

static bo_status read_granite(bo_context *context, bo_import_model *m)
{
    BO_TRY(bo_import_real(context, m, "attention.scale", 1 / sqrt((double)m->head_dim), &m->attention_scale));
    BO_TRY(bo_import_real(context, m, "embedding_scale", 1, &m->embedding_scale));
    BO_TRY(bo_import_real(context, m, "residual_scale", 1, &m->residual_scale));
    return bo_import_real(context, m, "logit_scale", 1, &m->logit_scale);
}

static bo_status read_sizes(bo_context *context, bo_import_model *m)
{
    const bool layer_norm = m->family & BO_IMPORT_LAYER_NORM;
    const bo_gguf_entry *parallel = bo_import_setting(m, "use_parallel_residual");
    uint64_t flag = 1;
    BO_TRY(needed_size(context, m, "embedding_length", &m->width));
    BO_TRY(needed_size(context, m, "block_count", &m->layers));
    BO_TRY(needed_size(context, m, "feed_forward_length", &m->hidden));
    BO_TRY(needed_size(context, m, "attention.head_count", &m->heads));
    BO_TRY(needed_size(context, m, "context_length", &m->context));
    BO_TRY(bo_import_size(context, m, "attention.head_count_kv", m->heads, &m->key_heads));
    BO_TRY(bo_import_size(context, m, "attention.key_length", m->width / m->heads, &m->head_dim));
    BO_TRY(bo_import_size(context, m, "rope.dimension_count", m->head_dim, &m->rotated));
    BO_TRY(bo_import_size(context, m, "attention.sliding_window", 0, &m->window));
    BO_TRY(bo_import_real(context, m, layer_norm ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon",
                          (m->family & BO_IMPORT_ONE_ADDED) ? 1e-6 : 1e-5, &m->epsilon));
    BO_TRY(bo_import_real(context, m, "rope.freq_base", m->family == BO_IMPORT_GEMMA3 ? 1e6 : 10000, &m->rope_base));
    if (m->family == BO_IMPORT_GEMMA3) BO_TRY(read_gemma3(context, m));
    if (m->family == BO_IMPORT_GRANITE) BO_TRY(read_granite(context, m));
    if (parallel) bo_gguf_whole(parallel, 0, &flag);
    m->parallel = flag != 0;
    if (m->family == BO_IMPORT_STABLELM) /* their files set this key in serial models too */
        m->parallel = !bo_gguf_tensor_find(m->file, "blk.0.ffn_norm.weight");
    if (!m->key_heads || !m->head_dim || m->heads % m->key_heads || m->head_dim % 2)
        return bo_fail(
            context, BO_FORMAT,
            "%s: expected a multiple of the key heads as heads and an even head size, found %zu heads, %zu key "
            "heads and a head size of %zu",
            bo_gguf_path(m->file), m->heads, m->key_heads, m->head_dim);
    if (m->rotated > m->head_dim || m->rotated % 2 || m->rotated == 0)
        return refuse_setting(context, m, "rope.dimension_count", "an even number of at most the head size");
    if (m->layers > bo_gguf_tensors(m->file))
        return bo_fail(context, BO_FORMAT, "%s: expected the tensors of %zu layers, found %zu tensors",
                       bo_gguf_path(m->file), m->layers, bo_gguf_tensors(m->file));
    return check_kind(context, m);
}

/* ====================================================================================================================
 * Tensors. */

/* Unsupported tensors and the reason. */
typedef struct mapping {
    bo_context *context;
    const bo_import_source *source;
    const bo_import_model *model;
    bo_import *import;
    size_t missing;
    bo_json_text names; /* of missing tensors */
} mapping;

static size_t size_of(const bo_import_model *m, size_word word)
{
    const size_t queries = m->heads * m->head_dim, keys = m->key_heads * m->head_dim;
    switch (word) {
    case WIDTH:
        return m->width;
    case VOCAB:
        return m->vocab;
    case CONTEXT:
        return m->context;
    case QUERIES:
        return queries;
    case KEYS:
        return keys;
    case FUSED:
        return queries + 2 * keys;
    case HIDDEN:
        return m->hidden;
    case TWO_HIDDEN:
        return 2 * m->hidden;
    case HEAD:
        return m->head_dim;
    default:
        return 0;
    }
}

static bo_status check_shape(bo_context *context, const bo_import_model *m, const bo_gguf_tensor *tensor, size_t rank,
                             size_t rows, size_t columns)
{
    const char *path = bo_gguf_path(m->file);
    if (!tensor->format->decode)
        return bo_fail(context, BO_UNSUPPORTED, "%s: tensor '%.100s': type %s is not supported; supported types: %s",
                       path, tensor->name, tensor->format->name, bo_block_formats());
    if (tensor->rank == rank && tensor->shape[0] == rows && (rank == 1 || tensor->shape[1] == columns)) return BO_OK;
    char expected[64];
    snprintf(expected, sizeof expected, rank == 1 ? "(%zu)" : "(%zu, %zu)", rows, columns);
    if (tensor->rank > 2)
        return bo_fail(context, BO_FORMAT, "%s: tensor '%.100s': expected shape %s, found rank %zu", path, tensor->name,
                       expected, tensor->rank);
    return bo_fail(context, BO_FORMAT,
                   tensor->rank == 1 ? "%s: tensor '%.100s': expected shape %s, found (%zu)"
                                     : "%s: tensor '%.100s': expected shape %s, found (%zu, %zu)",
                   path, tensor->name, expected, tensor->shape[0], tensor->shape[1]);
}

static void note_missing(mapping *map, const char *name)
{
    enum { SHOWN = 8 };
    if (map->missing < SHOWN) {
        bo_json_raw(&map->names, map->missing ? ", " : "");
        bo_json_raw(&map->names, name);
    } else if (map->missing == SHOWN) {
        bo_json_raw(&map->names, ", …");
    }
    map->missing++;
}

/* The name of a tensor in the file, or of its part of a fused one. */
static const bo_gguf_tensor *find_tensor(const bo_import_model *m, const struct name_row *row, size_t layer,
                                         const char *suffix, char name[NAME], size_t *first)
{
    *first = 0;
    if (row->traits & LAYER)
        snprintf(name, NAME, "blk.%zu.%s.%s", layer, row->gguf_name, suffix);
    else
        snprintf(name, NAME, "%s.%s", row->gguf_name, suffix);
    const bo_gguf_tensor *tensor = bo_gguf_tensor_find(m->file, name);
    if (tensor || !(row->traits & PART)) return tensor;
    char fused[NAME];
    snprintf(fused, NAME, "blk.%zu.attn_qkv.%s", layer, suffix);
    const size_t queries = size_of(m, QUERIES), keys = size_of(m, KEYS);
    *first = strcmp(row->gguf_name, "attn_q") == 0   ? 0
             : strcmp(row->gguf_name, "attn_k") == 0 ? queries
                                                     : queries + keys;
    return bo_gguf_tensor_find(m->file, fused);
}

static bo_row_order order_of(const struct name_row *row, bool matrix)
{
    if (row->traits & ROTATED) return BO_ROWS_PAIRS;
    if (row->traits & SPLIT_HEADS) return BO_ROWS_QKV_BLOCKS;
    return (row->traits & TRANSPOSED) && matrix ? BO_ROWS_COLUMNS : BO_ROWS_SAME;
}

static void name_of(const bo_import_model *m, const struct name_row *row, size_t layer, const char *suffix,
                    char out[NAME])
{
    const char *root = m->family == BO_IMPORT_GPT2      ? "transformer.h"
                       : m->family == BO_IMPORT_GPTNEOX ? "gpt_neox.layers"
                                                        : "model.layers";
    if (row->traits & LAYER)
        snprintf(out, NAME, "%s.%zu.%s.%s", root, layer, row->name, suffix);
    else
        snprintf(out, NAME, "%s.%s", row->name, suffix);
}

static bo_status map_tensor(mapping *map, const struct name_row *row, size_t layer, bool bias)
{
    const bo_import_model *m = map->model;
    const char *suffix = bias ? "bias" : "weight";
    char name[NAME];
    size_t first;
    const bo_gguf_tensor *tensor = find_tensor(m, row, layer, suffix, name, &first);
    if (!tensor && (row->traits & OPTIONAL)) return BO_OK;
    if (!tensor) {
        note_missing(map, name);
        return BO_OK;
    }
    const bool fused = strcmp(tensor->name, name) != 0;
    const size_t rows = size_of(m, row->rows), columns = bias ? 0 : size_of(m, row->columns);
    const bool matrix = columns > 0;
    BO_TRY(check_shape(map->context, m, tensor, matrix ? 2 : 1, fused ? size_of(m, FUSED) : rows, columns));
    const bool swap = matrix && (row->traits & TRANSPOSED);
    const bo_import_tensor result = {.rank = matrix ? 2 : 1,
                                     .shape = {swap ? columns : rows, swap ? rows : columns},
                                     .data = tensor->data,
                                     .format = tensor->format,
                                     .order = order_of(row, matrix),
                                     .heads = row->rows == KEYS ? m->key_heads : m->heads,
                                     .first_row = first,
                                     .minus = (row->traits & NORM) && (m->family & BO_IMPORT_ONE_ADDED) ? 1.0f : 0};
    name_of(m, row, layer, suffix, name);
    return bo_import_add(map->context, map->source, name, &result, map->import);
}

static bool has_bias(const bo_import_model *m, unsigned traits)
{
    return (traits & BIAS) || ((traits & ATTENTION_BIAS) && m->attention_bias) || ((traits & MLP_BIAS) && m->mlp_bias);
}

static bo_status map_row(mapping *map, const struct name_row *row)
{
    const bo_import_model *m = map->model;
    if (!(row->families & m->family) || ((row->traits & OPTIONAL) && m->tied)) return BO_OK;
    if ((row->traits & SERIAL) && m->parallel) return BO_OK;
    for (size_t layer = 0; layer < (row->traits & LAYER ? m->layers : 1); layer++) {
        BO_TRY(map_tensor(map, row, layer, false));
        if (has_bias(m, row->traits)) BO_TRY(map_tensor(map, row, layer, true));
    }
    return BO_OK;
}

/* True if the table has this tensor for the architecture. */
static bool is_mapped(const bo_import_model *m, const char *name)
{
    char expected[NAME], suffix[8] = "weight";
    size_t layer = 0, digits = 0, first;
    const char *bias = strstr(name, ".bias");
    if (bias && !bias[5]) snprintf(suffix, sizeof suffix, "bias");
    if (strncmp(name, "blk.", 4) == 0)
        for (const char *at = name + 4; *at >= '0' && *at <= '9' && digits < 9; at++, digits++)
            layer = 10 * layer + (size_t)(*at - '0');
    for (size_t i = 0; i < ROWS; i++) {
        const struct name_row *row = &names[i];
        if (!(row->families & m->family) || layer >= m->layers) continue;
        if ((row->traits & SERIAL) && m->parallel) continue;
        if (suffix[0] == 'b' && !has_bias(m, row->traits)) continue;
        const bo_gguf_tensor *found = find_tensor(m, row, layer, suffix, expected, &first);
        if (found && strcmp(found->name, name) == 0) return true;
    }
    for (size_t i = 0; m->family != BO_IMPORT_GPT2 && i < OTHER_ROWS; i++)
        if (strcmp(name, other_names[i]) == 0) return true;
    return false;
}

/* A tensor without a table row would be silently dropped. */
static bo_status check_rest(bo_context *context, const bo_import_model *m)
{
    for (size_t i = 0; i < bo_gguf_tensors(m->file); i++) {
        const char *name = bo_gguf_tensor_at(m->file, i)->name;
        if (!is_mapped(m, name))
            return bo_fail(context, BO_UNSUPPORTED,
                           "%s: tensor '%.100s' is not part of a %s model that Bochner supports", bo_gguf_path(m->file),
                           name, m->name);
    }
    return BO_OK;
}

/* An output matrix with the bytes of the embedding is the embedding. */
static bool find_tied(const bo_import_model *m)
{
    const bo_gguf_tensor *embedding = bo_gguf_tensor_find(m->file, "token_embd.weight");
    const bo_gguf_tensor *output = bo_gguf_tensor_find(m->file, "output.weight");
    if (!output) return (m->family & (LLAMA_NAMES | BO_IMPORT_GPT2)) != 0;
    if (m->family == BO_IMPORT_PHI2 || m->family == BO_IMPORT_GPTNEOX) return false;
    return embedding && embedding->format == output->format && embedding->bytes == output->bytes &&
           memcmp(embedding->data, output->data, output->bytes) == 0;
}

static bo_status map_all(bo_context *context, const bo_import_source *source, bo_import_model *m, bo_import *out)
{
    mapping map = {.context = context, .source = source, .model = m, .import = out, .names = {.context = context}};
    const bo_gguf_tensor *embedding = bo_gguf_tensor_find(m->file, "token_embd.weight");
    bo_status status = BO_OK;
    m->vocab = embedding ? embedding->shape[0] : 1;
    m->tied = find_tied(m);
    m->attention_bias = bo_gguf_tensor_find(m->file, "blk.0.attn_q.bias") != NULL;
    m->mlp_bias = (m->family & BO_IMPORT_ROTATED) && bo_gguf_tensor_find(m->file, "blk.0.ffn_gate.bias");
    for (size_t i = 0; status == BO_OK && i < ROWS; i++) status = map_row(&map, &names[i]);
    if (status == BO_OK && map.names.failed) status = BO_MEMORY;
    if (status == BO_OK && map.missing)
        status = bo_fail(context, BO_FORMAT, "%s: %zu tensor%s of a %s model %s missing: %s", bo_gguf_path(m->file),
                         map.missing, map.missing == 1 ? "" : "s", m->name, map.missing == 1 ? "is" : "are",
                         map.names.bytes);
    bo_free(map.names.bytes);
    return status == BO_OK ? check_rest(context, m) : status;
}

/* ====================================================================================================================
 * The model. */

static bo_status write_texts(bo_context *context, const bo_import_model *m, bo_import *out)
{
    bo_import_vocab vocab = {0};
    for (size_t i = 0; i < BO_IMPORT_TEXTS; i++) out->texts[i].context = context;
    bo_status status = bo_import_gguf_vocab(context, m, &vocab);
    if (status == BO_OK) status = bo_import_gguf_config(context, m, &vocab, out, &out->texts[BO_IMPORT_CONFIG]);
    if (status == BO_OK) bo_import_write_generation(&vocab, &out->texts[BO_IMPORT_GENERATION]);
    if (status == BO_OK && vocab.count) {
        out->tokenizer = vocab.scores ? "SentencePiece BPE" : "byte-level BPE";
        out->tokens = vocab.count;
        status = bo_import_tokenizer(context, &vocab, m->context, &out->texts[BO_IMPORT_TOKENIZER],
                                     &out->texts[BO_IMPORT_TOKENIZER_CONFIG]);
    }
    bo_import_vocab_free(&vocab);
    return status;
}

static bo_status import_file(bo_context *context, const bo_import_source *source, bo_import *out)
{
    bo_import_model m = {0};
    BO_TRY(bo_gguf_open(context, source->path, source->bytes, source->size, &out->gguf));
    m.file = out->gguf;
    snprintf(out->format, sizeof out->format, "GGUF version %u", bo_gguf_version(m.file));
    BO_TRY(find_architecture(context, &m, out));
    BO_TRY(read_sizes(context, &m));
    BO_TRY(map_all(context, source, &m, out));
    if (m.family == BO_IMPORT_LLAMA && m.window) out->architecture = "mistral";
    out->layers = m.layers;
    out->width = m.width;
    out->vocab = m.vocab;
    out->context = m.context;
    return write_texts(context, &m, out);
}

bo_status bo_import_gguf(bo_context *context, const bo_import_source *source, bo_import *out)
{
    *out = (bo_import){0};
    const bo_status status = import_file(context, source, out);
    if (status != BO_OK) bo_import_free(out);
    return status;
}

bo_status bo_import_any(bo_context *context, const bo_import_source *source, bo_import *out)
{
    *out = (bo_import){0};
    if (!bo_gguf_announced(source->bytes, source->size)) return bo_import_llama2c(context, source, out);
    if (source->tokenizer)
        return bo_fail(context, BO_INVALID, "%s: a GGUF file has its own tokenizer; %s is not used", source->path,
                       source->tokenizer_path);
    return bo_import_gguf(context, source, out);
}
