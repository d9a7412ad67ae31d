/* The tensors of families of pretrained models: names, and weights that share a tensor. Bochner uses the names of
 * Llama, so only differences are listed. */
#include <stdio.h>
#include <string.h>
#include "families.h"

/* How weights share a tensor. */
typedef enum sharing {
    ALONE,
    QKV,      /* q, k and v stacked */
    QKV_HEAD, /* q, k and v of each head stacked, head by head */
    GATE_UP   /* gate and up projection stacked */
} sharing;

typedef struct name {
    const char *weight, *tensor; /* without ".weight" or ".bias"; "*" is the number of a layer */
    sharing sharing;
    size_t part; /* 0 is the first */
    bool transposed;
} name;

typedef struct layout {
    const char *root;
    const name *names;
    size_t count;
    bool gains_from_one; /* gains of norms are stored as differences from 1 */
} layout;

/* ---- names ------------------------------------------------------------------------------------------------------- */

#define LAYER "model.layers.*."
#define PART(weight_name, tensor_name, how, which)                                                                     \
    {.weight = weight_name, .tensor = tensor_name, .sharing = how, .part = which}
#define WHOLE(weight_name, tensor_name) PART(weight_name, tensor_name, ALONE, 0)
#define TURNED(weight_name, tensor_name, how, which)                                                                   \
    {.weight = weight_name, .tensor = tensor_name, .sharing = how, .part = which, .transposed = true}

/* The Conv1D of GPT-2 stores matrices transposed. */
static const name gpt2_names[] = {
    WHOLE("model.embed_tokens", "transformer.wte"),
    WHOLE("model.embed_positions", "transformer.wpe"),
    WHOLE("model.norm", "transformer.ln_f"),
    WHOLE(LAYER "input_layernorm", "transformer.h.*.ln_1"),
    WHOLE(LAYER "post_attention_layernorm", "transformer.h.*.ln_2"),
    TURNED(LAYER "self_attn.q_proj", "transformer.h.*.attn.c_attn", QKV, 0),
    TURNED(LAYER "self_attn.k_proj", "transformer.h.*.attn.c_attn", QKV, 1),
    TURNED(LAYER "self_attn.v_proj", "transformer.h.*.attn.c_attn", QKV, 2),
    TURNED(LAYER "self_attn.o_proj", "transformer.h.*.attn.c_proj", ALONE, 0),
    TURNED(LAYER "mlp.up_proj", "transformer.h.*.mlp.c_fc", ALONE, 0),
    TURNED(LAYER "mlp.down_proj", "transformer.h.*.mlp.c_proj", ALONE, 0),
};

static const name gptj_names[] = {
    WHOLE("model.embed_tokens", "transformer.wte"),
    WHOLE("model.norm", "transformer.ln_f"),
    WHOLE(LAYER "input_layernorm", "transformer.h.*.ln_1"),
    WHOLE(LAYER "self_attn.q_proj", "transformer.h.*.attn.q_proj"),
    WHOLE(LAYER "self_attn.k_proj", "transformer.h.*.attn.k_proj"),
    WHOLE(LAYER "self_attn.v_proj", "transformer.h.*.attn.v_proj"),
    WHOLE(LAYER "self_attn.o_proj", "transformer.h.*.attn.out_proj"),
    WHOLE(LAYER "mlp.up_proj", "transformer.h.*.mlp.fc_in"),
    WHOLE(LAYER "mlp.down_proj", "transformer.h.*.mlp.fc_out"),
};

static const name gpt_neox_names[] = {
    WHOLE("model.embed_tokens", "gpt_neox.embed_in"),
    WHOLE("model.norm", "gpt_neox.final_layer_norm"),
    WHOLE("lm_head", "embed_out"),
    WHOLE(LAYER "input_layernorm", "gpt_neox.layers.*.input_layernorm"),
    WHOLE(LAYER "post_attention_layernorm", "gpt_neox.layers.*.post_attention_layernorm"),
    PART(LAYER "self_attn.q_proj", "gpt_neox.layers.*.attention.query_key_value", QKV_HEAD, 0),
    PART(LAYER "self_attn.k_proj", "gpt_neox.layers.*.attention.query_key_value", QKV_HEAD, 1),
    PART(LAYER "self_attn.v_proj", "gpt_neox.layers.*.attention.query_key_value", QKV_HEAD, 2),
    WHOLE(LAYER "self_attn.o_proj", "gpt_neox.layers.*.attention.dense"),
    WHOLE(LAYER "mlp.up_proj", "gpt_neox.layers.*.mlp.dense_h_to_4h"),
    WHOLE(LAYER "mlp.down_proj", "gpt_neox.layers.*.mlp.dense_4h_to_h"),
};

static const name phi_names[] = {
    WHOLE("model.norm", "model.final_layernorm"),
    WHOLE(LAYER "self_attn.o_proj", LAYER "self_attn.dense"),
    WHOLE(LAYER "mlp.up_proj", LAYER "mlp.fc1"),
    WHOLE(LAYER "mlp.down_proj", LAYER "mlp.fc2"),
};

static const name phi3_names[] = {
    PART(LAYER "self_attn.q_proj", LAYER "self_attn.qkv_proj", QKV, 0),
    PART(LAYER "self_attn.k_proj", LAYER "self_attn.qkv_proj", QKV, 1),
    PART(LAYER "self_attn.v_proj", LAYER "self_attn.qkv_proj", QKV, 2),
    PART(LAYER "mlp.gate_proj", LAYER "mlp.gate_up_proj", GATE_UP, 0),
    PART(LAYER "mlp.up_proj", LAYER "mlp.gate_up_proj", GATE_UP, 1),
};

static const name starcoder2_names[] = {
    WHOLE(LAYER "mlp.up_proj", LAYER "mlp.c_fc"),
    WHOLE(LAYER "mlp.down_proj", LAYER "mlp.c_proj"),
};

#define NAMES(list) .names = list##_names, .count = sizeof list##_names / sizeof *list##_names

static const layout layouts[BO_FAMILY_COUNT] = {
    [BO_FAMILY_GEMMA] = {.gains_from_one = true},
    [BO_FAMILY_GEMMA3] = {.gains_from_one = true},
    [BO_FAMILY_GPT2] = {.root = "transformer.", NAMES(gpt2)},
    [BO_FAMILY_GPTJ] = {.root = "transformer.", NAMES(gptj)},
    [BO_FAMILY_GPT_NEOX] = {.root = "gpt_neox.", NAMES(gpt_neox)},
    [BO_FAMILY_PHI] = {NAMES(phi)},
    [BO_FAMILY_PHI3] = {NAMES(phi3)},
    [BO_FAMILY_STARCODER2] = {NAMES(starcoder2)},
};

const char *bo_family_root(bo_family family)
{
    return layouts[family].root ? layouts[family].root : "model.";
}

/* ---- places ------------------------------------------------------------------------------------------------------ */

/* Matches the name of a weight with a pattern. layer, rest: the text in place of "*", and the text after the match. */
static bool match(const char *pattern, const char *text, char layer[24], const char **rest)
{
    size_t digits = 0;
    for (; *pattern; pattern++) {
        if (*pattern != '*') {
            if (*text++ != *pattern) return false;
            continue;
        }
        while (digits < 23 && *text >= '0' && *text <= '9') layer[digits++] = *text++;
    }
    layer[digits] = 0;
    *rest = text;
    return *text == '.' || !*text;
}

/* Writes a pattern with "*" replaced, followed by `rest`. */
static void fill(const char *pattern, const char *layer, const char *rest, char *out, size_t size)
{
    const char *star = strchr(pattern, '*');
    if (star)
        snprintf(out, size, "%.*s%s%s%s", (int)(star - pattern), pattern, layer, star + 1, rest);
    else
        snprintf(out, size, "%s%s", pattern, rest);
}

/* Sets the rows of the tensor that the weight has. */
static void set_part(const bo_model_desc *d, const name *n, bo_weight_place *out)
{
    const size_t queries = d->block.heads * d->block.head_dim, keys = d->block.key_heads * d->block.head_dim;
    switch (n->sharing) {
    case QKV:
        out->first = n->part == 0 ? 0 : n->part == 1 ? queries : queries + keys;
        out->rows = queries + 2 * keys;
        break;
    case QKV_HEAD:
        out->first = n->part * d->block.head_dim;
        out->group = d->block.head_dim;
        out->period = 3 * d->block.head_dim;
        out->rows = 3 * queries;
        break;
    case GATE_UP:
        out->first = n->part * d->block.hidden;
        out->rows = 2 * d->block.hidden;
        break;
    case ALONE:
    default:
        break;
    }
}

static bool ends_with(const char *text, const char *end)
{
    const size_t length = strlen(text), tail = strlen(end);
    return length >= tail && strcmp(text + length - tail, end) == 0;
}

static bool is_gain(const char *weight)
{
    return ends_with(weight, "norm.weight");
}

bo_weight_place bo_family_place(bo_family family, const bo_model_desc *desc, const bo_weight *weight)
{
    const layout *l = &layouts[family];
    const size_t rows = weight->shape[0];
    bo_weight_place out = {.rows = rows, .group = rows, .period = rows};
    const char *rest;
    char layer[24];
    snprintf(out.tensor, sizeof out.tensor, "%s", weight->name);
    if (l->gains_from_one && is_gain(weight->name)) out.offset = 1;
    for (size_t i = 0; i < l->count; i++) {
        if (!match(l->names[i].weight, weight->name, layer, &rest)) continue;
        fill(l->names[i].tensor, layer, rest, out.tensor, sizeof out.tensor);
        out.transposed = l->names[i].transposed && weight->rank == 2;
        set_part(desc, &l->names[i], &out);
        break;
    }
    return out;
}

/* ---- other tensors ----------------------------------------------------------------------------------------------- */

bool bo_family_is_head(bo_family family, const char *tensor)
{
    const layout *l = &layouts[family];
    const char *head = "lm_head";
    for (size_t i = 0; i < l->count; i++)
        if (strcmp(l->names[i].weight, head) == 0) head = l->names[i].tensor;
    return strncmp(tensor, head, strlen(head)) == 0 && strcmp(tensor + strlen(head), ".weight") == 0;
}

bool bo_family_ignores(bo_family family, const bo_model_desc *desc, const char *tensor)
{
    static const char *const ends[] = {".rotary_emb.inv_freq", ".attn.bias", ".attn.masked_bias", ".attention.bias",
                                       ".attention.masked_bias"};
    if (family == BO_FAMILY_BOCHNER) return false;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (ends_with(tensor, ends[i])) return true;
    return !desc->untied && bo_family_is_head(family, tensor);
}
