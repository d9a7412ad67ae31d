/* The MLP between mixers: sizes for every kind, and the maps of random features, one per layer. */
#include <stdio.h>
#include <string.h>
#include "../nn/enums.h"
#include "../features/facts.h"
#include "../base/rng.h"
#include "../nn/nn.h"
#include "../text/unicode.h"
#include "internal.h"

#define REFUSE(...) return bo_fail(context, BO_INVALID, "model: " __VA_ARGS__)

/* ---- sizes ------------------------------------------------------------------------------------------------------- */

static bool has_degree(bo_mlp mlp)
{
    return mlp >= BO_MLP_DEGREE_2 && mlp <= BO_MLP_DEGREE_E;
}

static size_t rounded(size_t size, size_t to)
{
    return (size + to - 1) / to * to;
}

/* The default gives as many trained parameters as an MLP of 4 widths: 8 width². Random features have half as many,
 * because only the readout is trained. */
static size_t default_hidden(const bo_model_desc *d, const bo_block *b)
{
    size_t root = 1;
    switch (b->mlp) {
    case BO_MLP_SWIGLU:
    case BO_MLP_GEGLU:
    case BO_MLP_GEGLU_TANH:
    case BO_MLP_DEGREE_2:
    case BO_MLP_DEGREE_E:
        return rounded(8 * d->width / 3, 32);
    case BO_MLP_DEGREE_3:
        return 2 * d->width;
    case BO_MLP_DEGREE_4:
        return rounded(8 * d->width / 5, 32);
    case BO_MLP_QUADRATIC: /* parameters: width hidden² */
        while ((root + 1) * (root + 1) <= 8 * d->width) root++;
        return root < d->width ? root : d->width;
    default:
        return 4 * d->width;
    }
}

static bo_status resolve_features(bo_context *context, size_t max_hidden, const bo_model_desc *d, bo_block *b)
{
    bo_features_desc *f = &b->mlp_features;
    if (f->kernel == BO_KERNEL_CUSTOM || f->custom)
        REFUSE("MLP kernel custom is not supported in a model: a callback cannot be saved in a file");
    if (f->length_scales || f->sample || f->sampling != BO_SAMPLING_DRAWN)
        REFUSE("mlp_features must not have length_scales, a sample or a sampling: the features of an MLP are fixed "
               "after sampling");
    if (f->dim && f->dim != d->width)
        REFUSE("mlp_features.dim must be width = %zu (or 0), found %zu", d->width, f->dim);
    if (f->features && b->hidden && f->features != b->hidden)
        REFUSE("mlp_features.features must be hidden = %zu (or 0), found %zu", b->hidden, f->features);
    if (!b->hidden) b->hidden = f->features;
    if (!b->hidden && bo_features_needs_length(f)) b->hidden = default_hidden(d, b);
    if (b->hidden > max_hidden) REFUSE("hidden must be at most %zu, found %zu", max_hidden, b->hidden);
    f->features = b->hidden; /* 0: determined by the feature map */
    f->dim = d->width;
    if (f->gamma == 0) f->gamma = bo_nn_unit_gamma(f->kernel, d->width);
    if (!f->seed) f->seed = d->seed;
    return BO_OK;
}

/* Checks the name, which is written to files and messages. */
static bo_status check_custom(bo_context *context, const bo_custom_layer *layer)
{
    enum { MAX_NAME = 63 };
    BO_TRY(bo_check_reserved(context, "bo_custom_layer", layer->reserved));
    if (!layer->name || !*layer->name || strlen(layer->name) > MAX_NAME ||
        bo_utf8_has_control(layer->name, strlen(layer->name)))
        REFUSE("custom_mlp needs a name of 1 to %d bytes without control characters", MAX_NAME);
    if (!layer->record) REFUSE("custom_mlp '%s' has no record function", layer->name);
    return BO_OK;
}

/* Files and fingerprints have one form of the text. */
static bo_status normalize_layers(bo_context *context, bo_block *b)
{
    char *text;
    const bo_status status = bo_layers_normalize(context, b->layers, &text);
    if (status == BO_MEMORY) return status;
    if (status != BO_OK) return bo_fail(context, status, "model: %s", bo_context_error(context));
    bo_free((void *)(uintptr_t)b->layers);
    b->layers = text;
    return BO_OK;
}

bo_status bo_mlp_resolve(bo_context *context, size_t max_hidden, const bo_model_desc *d, bo_block *b)
{
    if (b->mlp == BO_MLP_CUSTOM) BO_TRY(check_custom(context, &b->custom_mlp));
    if (b->mlp != BO_MLP_CUSTOM && (b->custom_mlp.name || b->custom_mlp.record))
        REFUSE("custom_mlp requires the MLP custom, found %s", bo_mlp_name(b->mlp));
    if (b->layers && b->mlp && b->mlp != BO_MLP_LAYERS)
        REFUSE("a block has either layers or an MLP, found layers and %s", bo_mlp_name(b->mlp));
    if (b->layers) b->mlp = BO_MLP_LAYERS;
    if (b->mlp == BO_MLP_LAYERS && !b->layers) REFUSE("the MLP layers needs a list of layers");
    if (b->layers) BO_TRY(normalize_layers(context, b));
    if (b->degree_heads && !has_degree(b->mlp))
        REFUSE("degree_heads requires an MLP of a degree, found %zu with %s", b->degree_heads, bo_mlp_name(b->mlp));
    if (b->mlp != BO_MLP_RANDOM_FEATURES) b->mlp_features = (bo_features_desc){0};
    if (b->mlp == BO_MLP_NONE || b->mlp == BO_MLP_LAYERS) b->hidden = 0;
    if (b->mlp == BO_MLP_NONE || b->mlp == BO_MLP_LAYERS) return BO_OK;
    if (b->mlp == BO_MLP_RANDOM_FEATURES) return resolve_features(context, max_hidden, d, b);
    if (has_degree(b->mlp) && !b->degree_heads) b->degree_heads = 1;
    if (!b->hidden) b->hidden = rounded(default_hidden(d, b), b->degree_heads ? b->degree_heads : 1);
    if (b->hidden > max_hidden) REFUSE("hidden must be at most %zu, found %zu", max_hidden, b->hidden);
    if (b->degree_heads && b->hidden % b->degree_heads)
        REFUSE("degree_heads must divide hidden = %zu, found %zu", b->hidden, b->degree_heads);
    if (b->mlp == BO_MLP_QUADRATIC && b->hidden > d->width)
        REFUSE("hidden of quadratic forms must be at most width = %zu, found %zu", d->width, b->hidden);
    return BO_OK;
}

/* ---- feature maps ------------------------------------------------------------------------------------------------ */

void bo_mlp_maps_destroy(bo_features **maps, const bo_model_desc *desc)
{
    for (size_t i = 0; maps && i < bo_model_place(desc, BO_MODEL_PART_END); i++) bo_features_destroy(maps[i]);
    bo_free(maps);
}

static bo_status create_map(bo_context *context, const bo_block *block, size_t place, bo_features **out)
{
    bo_features_desc layer = block->mlp_features;
    bo_rng rng = bo_rng_make(layer.seed, bo_rng_stream("model mlp frequencies", place));
    layer.seed = bo_rng_bits(&rng);
    return bo_features_create(context, &layer, out);
}

/* Copies the defaults that a map filled in to the descriptor. */
static void describe_map(const bo_features *map, bo_block *block)
{
    const uint64_t seed = block->mlp_features.seed;
    block->mlp_features = *bo_features_describe(map);
    block->mlp_features.seed = seed;
    block->mlp_features.length_scales = NULL;
    block->hidden = block->mlp_features.features;
}

static bool has_maps(const bo_model_desc *d, bo_model_part part)
{
    const bo_block_list list = bo_blocks_of(d, part);
    for (size_t i = 0; i < list.count; i++)
        if (list.blocks[i].mlp == BO_MLP_RANDOM_FEATURES) return true;
    return false;
}

bo_status bo_mlp_maps_create(bo_context *context, bo_model_desc *desc, bo_features ***out)
{
    *out = NULL;
    if (!has_maps(desc, BO_MODEL_PART_LAYERS) && !has_maps(desc, BO_MODEL_PART_ENCODER)) return BO_OK;
    const size_t places = bo_model_place(desc, BO_MODEL_PART_END);
    bo_status status = BO_OK;
    bo_features **maps = bo_alloc(context, places, sizeof *maps, "a model's maps");
    if (!maps) return BO_MEMORY;
    for (size_t i = 0; status == BO_OK && i < places; i++) {
        const bo_block *block = bo_block_at(desc, i);
        if (bo_model_part_of(desc, i) != BO_MODEL_PART_CROSS && block->mlp == BO_MLP_RANDOM_FEATURES)
            status = create_map(context, block, i, &maps[i]);
    }
    for (size_t i = 0; status == BO_OK && i < places; i++)
        if (maps[i]) describe_map(maps[i], bo_block_edit(desc, i));
    if (status != BO_OK) {
        bo_mlp_maps_destroy(maps, desc);
        return status;
    }
    *out = maps;
    return BO_OK;
}

/* ---- layers in the place of MLPs --------------------------------------------------------------------------------- */

void bo_mlp_layers_destroy(bo_network **layers, const bo_model_desc *desc)
{
    for (size_t i = 0; layers && i < bo_model_place(desc, BO_MODEL_PART_END); i++) bo_network_destroy(layers[i]);
    bo_free(layers);
}

static bo_status create_layers(bo_context *context, const bo_model_desc *d, size_t place, bo_network **out)
{
    const bo_block *block = bo_block_at(d, place);
    const bo_model_part part = bo_model_part_of(d, place);
    char prefix[64];
    if (part == BO_MODEL_PART_CROSS || block->mlp != BO_MLP_LAYERS) return BO_OK;
    snprintf(prefix, sizeof prefix, "%s.layers.%zu.mlp", part == BO_MODEL_PART_ENCODER ? "model.encoder" : "model",
             place - bo_model_place(d, part));
    const bo_status status =
        bo_network_of_layers(context, block->layers, &(bo_layers_place){prefix, d->width, place, d->seed}, out);
    if (status == BO_OK || status == BO_MEMORY) return status;
    return bo_fail(context, status, "model: layer %zu: %s", place - bo_model_place(d, part), bo_context_error(context));
}

bo_status bo_mlp_layers_create(bo_context *context, const bo_model_desc *desc, bo_network ***out)
{
    const size_t places = bo_model_place(desc, BO_MODEL_PART_END);
    bo_status status = BO_OK;
    *out = NULL;
    bo_network **layers = bo_alloc(context, places, sizeof *layers, "layers in blocks");
    if (!layers) return BO_MEMORY;
    for (size_t i = 0; status == BO_OK && i < places; i++) status = create_layers(context, desc, i, &layers[i]);
    if (status == BO_OK)
        *out = layers;
    else
        bo_mlp_layers_destroy(layers, desc);
    return status;
}

uint64_t bo_model_frozen_parameters(const bo_model *model)
{
    if (!model) return 0;
    uint64_t numbers = 0;
    for (size_t i = 0; model->mlp_layers && i < bo_model_place(&model->desc, BO_MODEL_PART_END); i++) {
        const bo_features *map = model->mlp_maps ? model->mlp_maps[i] : NULL;
        if (map) numbers += (uint64_t)bo_features_frequencies(map) * model->desc.width;
        if (model->mlp_layers[i]) numbers += bo_network_frequencies(model->mlp_layers[i]);
    }
    return numbers;
}
