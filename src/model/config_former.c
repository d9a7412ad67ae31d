/* config.json of formats 1 to 3: one block for all layers, a window in some of them, and a second attention in
 * others. */
#include <stdlib.h>
#include <string.h>
#include "../nn/enums.h"
#include "../attention/attention.h"
#include "../nn/nn.h"
#include "config.h"
#include "internal.h"

#define COUNT(fields) (sizeof fields / sizeof *fields)

/* Members of format 3 besides those of a block. */
typedef struct former {
    bo_block block;
    bo_attention_desc encoder, kept;
    bool has_encoder, has_kept;
    const char *kept_layers; /* in the JSON object */
    size_t window_first, window_period;
    double local_base;
} former;

#define FORMER(key, sort, member) BO_FIELD_PLAIN(former, key, sort, member)

BO_FIELD_NAMES(bo_rope_scaling_kind, rope_scaling_kind)

static bo_status read_scaling(bo_context *context, const char *where, const bo_json *json, bo_rope_scaling *out)
{
    static const bo_field fields[] = {BO_FIELD_ENUM(bo_rope_scaling, "rope_scaling_type", kind, rope_scaling_kind),
                                      BO_FIELD_PLAIN(bo_rope_scaling, "rope_scaling_factor", REAL, factor),
                                      BO_FIELD_PLAIN(bo_rope_scaling, "rope_scaling_low", REAL, low),
                                      BO_FIELD_PLAIN(bo_rope_scaling, "rope_scaling_high", REAL, high),
                                      BO_FIELD_PLAIN(bo_rope_scaling, "rope_scaling_original", REAL, original)};
    return bo_fields_read(context, where, fields, COUNT(fields), json, out);
}

/* Hugging Face's names of the activation of an MLP; silu means a gated MLP. */
static const bo_field act_field = {.name = "hidden_act",
                                   .type = BO_FIELD_NAME,
                                   .offset = offsetof(bo_block, mlp),
                                   BO_FIELD_LIST("relu2", "gelu", "silu", "none", "gelu_new", "random-features",
                                                 "degree-2", "degree-3", "degree-4", "degree-e", "quadratic", "geglu",
                                                 "geglu_tanh", "relu", "swish"),
                                   .more = {{"custom", BO_MLP_CUSTOM}}};

static bo_status read_mlp(bo_context *context, const char *where, const bo_json *json, bo_block *out)
{
    BO_TRY(bo_fields_read(context, where, &act_field, 1, json, out));
    if (out->mlp == BO_MLP_CUSTOM && !out->custom_mlp.name)
        return bo_fail(context, BO_FORMAT, "%s: \"custom_mlp\" should be the name of the custom layer", where);
    return BO_OK;
}

static bo_status read_attentions(bo_context *context, const char *where, const bo_json *json, const bo_model_desc *d,
                                 former *out)
{
    if (!bo_nn_mixer_attends(out->block.mixer)) out->block.attention = (bo_attention_desc){0};
    if (bo_nn_mixer_attends(out->block.mixer) && !bo_json_member(json, "attention"))
        return bo_fail(context, BO_FORMAT, "%s: \"attention\" is missing", where);
    if (d->task == BO_MODEL_TASK_TRANSLATE && d->cross == BO_CROSS_ATTENTION)
        out->block.cross_attention.heads = out->block.heads; /* marks it as set, even if it is softmax attention */
    out->has_encoder = bo_json_member(json, "encoder_attention") != NULL;
    if (out->has_encoder) BO_TRY(bo_config_attention_read(context, where, "encoder_attention", json, &out->encoder));
    out->has_kept = bo_json_member(json, "kept_attention") != NULL;
    if (!out->has_kept) return BO_OK;
    out->kept_layers = bo_json_text_or_null(bo_json_member(json, "kept_layers"));
    if (!out->kept_layers)
        return bo_fail(context, BO_FORMAT, "%s: \"kept_layers\" should be a list of layers such as \"0,5-7\"", where);
    return bo_config_attention_read(context, where, "kept_attention", json, &out->kept);
}

static bo_status read_members(bo_context *context, const char *where, const bo_json *json, const bo_model_desc *d,
                              former *out)
{
    static const bo_field windows[] = {FORMER("window_first", SIZE, window_first),
                                       FORMER("window_period", SIZE, window_period),
                                       FORMER("local_rope_theta", REAL, local_base)};
    BO_TRY(bo_config_former_block(context, where, json, &out->block));
    BO_TRY(bo_fields_read(context, where, windows, COUNT(windows), json, out));
    BO_TRY(read_scaling(context, where, json, &out->block.rope_scaling));
    BO_TRY(read_mlp(context, where, json, &out->block));
    if (out->block.heads) return read_attentions(context, where, json, d, out);
    return bo_fail(context, BO_FORMAT, "%s: \"num_attention_heads\" should be at least 1", where);
}

/* ---- layers ------------------------------------------------------------------------------------------------------ */

/* The kinds of layers: 1 has a window, 2 has the attention that replaced another. */
enum { WINDOW = 1, REPLACED = 2, KINDS = 4 };

static bo_block block_of(const former *f, size_t kind)
{
    bo_block b = f->block;
    bo_attention_desc *original = f->has_kept ? &b.replaced : &b.attention;
    const bool mixes = f->window_first || f->window_period;
    if (f->has_kept) b.replaced = f->kept;
    if (mixes && original->window) *(kind & WINDOW ? &original->capacity : &original->window) = 0;
    if (kind & WINDOW && f->local_base > 0) b.rope_base = f->local_base, b.rope_scaling = (bo_rope_scaling){0};
    if (!f->has_kept) return b;
    b.replaced.heads = b.heads; /* marks it as set */
    if (kind & REPLACED) return b;
    b.attention = b.replaced;
    b.replaced = (bo_attention_desc){0};
    b.output_norm = bo_output_norm(&b.attention); /* both attentions share the weights of q_norm and k_norm */
    return b;
}

static bo_status arrange(bo_context *context, const char *where, const former *f, bo_model_desc *d)
{
    const bo_attention_desc *original = f->has_kept ? &f->kept : &f->block.attention;
    const bool windows =
        d->task == BO_MODEL_TASK_LANGUAGE && original->window && bo_attention_has(original, BO_TRAIT_CAPACITY);
    size_t *which = bo_alloc(context, d->layers, sizeof *which, "a list of blocks");
    bool *kept = bo_alloc(context, d->layers, sizeof *kept, "a list of layers");
    bo_block kinds[KINDS];
    bo_status status = which && kept ? BO_OK : BO_MEMORY;
    if (status == BO_OK && f->has_kept) status = bo_layers_list(context, where, f->kept_layers, d, kept);
    for (size_t i = 0; i < KINDS; i++) kinds[i] = block_of(f, i);
    for (size_t i = 0; status == BO_OK && i < d->layers; i++) {
        const bool window = windows && i >= f->window_first && !(f->window_period && (i + 1) % f->window_period == 0);
        which[i] = (window ? WINDOW : 0) + (f->has_kept && !kept[i] ? REPLACED : 0);
    }
    if (status == BO_OK) status = bo_blocks_arrange(context, d, BO_MODEL_PART_LAYERS, kinds, which);
    bo_free(which);
    bo_free(kept);
    return status;
}

/* Earlier versions did not write the attention of the encoder: it was equal to the decoder's. */
static bo_status give_encoder(bo_context *context, const former *f, bo_model_desc *d)
{
    const size_t none = 0;
    bo_block encoder = f->block;
    if (d->task != BO_MODEL_TASK_TRANSLATE || !f->has_encoder) return BO_OK;
    bo_block_attend(&encoder, &f->encoder);
    const size_t layers = d->encoder_layers;
    d->encoder_layers = 1;
    const bo_status status = bo_blocks_arrange(context, d, BO_MODEL_PART_ENCODER, &encoder, &none);
    d->encoder_layers = layers;
    return status;
}

/* Format 1 had encoders with ridge attention that read forward and backward in turn, with the same weights. */
static bo_status check_memory(bo_context *context, const char *where, size_t format, const bo_model_desc *d)
{
    const bool translates = d->task == BO_MODEL_TASK_TRANSLATE;
    const bo_block *b = translates && d->encoder.heads ? &d->encoder : &d->block;
    const bool memory = bo_nn_mixer_attends(b->mixer) && bo_attention_has(&b->attention, BO_TRAIT_MEMORY);
    if (format > 1 || d->task == BO_MODEL_TASK_LANGUAGE || d->forward || !memory) return BO_OK;
    if (bo_attention_looks_back(&b->attention)) return BO_OK;
    return bo_fail(context, BO_VERSION,
                   "%s: the model has format %zu, in which encoders with ridge attention read forward and backward in "
                   "turn; this version attends to the whole text: train the model again",
                   where, format);
}

bo_status bo_config_former_read(bo_context *context, const char *where, const bo_json *json, size_t format,
                                bo_model_desc *d)
{
    former f = {.has_kept = false};
    if (!d->layers || d->layers > BO_MAX_BLOCKS)
        return bo_fail(context, BO_FORMAT, "%s: \"num_hidden_layers\" should be 1 to %d, found %zu", where,
                       BO_MAX_BLOCKS, d->layers);
    bo_status status = read_members(context, where, json, d, &f);
    if (status == BO_OK) status = arrange(context, where, &f, d);
    if (status == BO_OK) status = give_encoder(context, &f, d);
    bo_free((void *)(uintptr_t)f.block.custom_mlp.name);
    bo_free((void *)(uintptr_t)f.block.layers);
    return status == BO_OK ? check_memory(context, where, format, d) : status;
}
