/* The MLP between mixers: sizes for every kind, and the maps of random features, one per layer. */
#include <string.h>
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

/* The default gives as many trained parameters as an MLP of 4 widths: 8 width². Random features, of which only the
 * readout is trained, have half as many. */
static size_t default_hidden(const bo_model_desc *d)
{
    size_t root = 1;
    switch (d->mlp) {
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

static bo_status resolve_features(bo_context *context, size_t most, bo_model_desc *d)
{
    bo_features_desc *f = &d->mlp_features;
    if (f->kernel == BO_KERNEL_CUSTOM || f->custom)
        REFUSE("MLP kernel custom is not supported in a model: a callback cannot be saved in a file");
    if (f->length_scales || f->sample || f->sampling != BO_SAMPLING_DRAWN)
        REFUSE(
            "mlp_features must not have length_scales, a sample or a sampling: the features of an MLP stay as sampled");
    if (f->dim && f->dim != d->width)
        REFUSE("mlp_features.dim must be width = %zu (or 0), found %zu", d->width, f->dim);
    if (f->features && d->hidden && f->features != d->hidden)
        REFUSE("mlp_features.features must be hidden = %zu (or 0), found %zu", d->hidden, f->features);
    if (!d->hidden) d->hidden = f->features;
    if (!d->hidden && bo_features_needs_length(f)) d->hidden = default_hidden(d);
    if (d->hidden > most) REFUSE("hidden must be at most %zu, found %zu", most, d->hidden);
    f->features = d->hidden; /* 0: determined by the feature map */
    f->dim = d->width;
    if (f->gamma == 0) f->gamma = bo_nn_unit_gamma(f->kernel, d->width);
    if (!f->seed) f->seed = d->seed;
    return BO_OK;
}

/* Checks the name, which is written to files and messages. */
static bo_status check_custom(bo_context *context, const bo_custom_layer *layer)
{
    enum { MOST_NAME = 63 };
    BO_TRY(bo_check_reserved(context, "bo_custom_layer", layer->reserved));
    if (!layer->name || !*layer->name || strlen(layer->name) > MOST_NAME ||
        bo_utf8_has_control(layer->name, strlen(layer->name)))
        REFUSE("custom_mlp needs a name of 1 to %d bytes without control characters", MOST_NAME);
    if (!layer->record) REFUSE("custom_mlp '%s' has no record function", layer->name);
    return BO_OK;
}

bo_status bo_mlp_resolve(bo_context *context, size_t most, bo_model_desc *d)
{
    if (d->mlp == BO_MLP_CUSTOM) BO_TRY(check_custom(context, &d->custom_mlp));
    if (d->mlp != BO_MLP_CUSTOM && (d->custom_mlp.name || d->custom_mlp.record))
        REFUSE("custom_mlp requires the MLP custom, found %s", bo_mlp_name(d->mlp));
    if (d->degree_heads && !has_degree(d->mlp))
        REFUSE("degree_heads requires an MLP of a degree, found %zu with %s", d->degree_heads, bo_mlp_name(d->mlp));
    if (d->mlp != BO_MLP_RANDOM_FEATURES) d->mlp_features = (bo_features_desc){0};
    if (d->mlp == BO_MLP_NONE) d->hidden = 0;
    if (d->mlp == BO_MLP_NONE) return BO_OK;
    if (d->mlp == BO_MLP_RANDOM_FEATURES) return resolve_features(context, most, d);
    if (has_degree(d->mlp) && !d->degree_heads) d->degree_heads = 1;
    if (!d->hidden) d->hidden = rounded(default_hidden(d), d->degree_heads ? d->degree_heads : 1);
    if (d->hidden > most) REFUSE("hidden must be at most %zu, found %zu", most, d->hidden);
    if (d->degree_heads && d->hidden % d->degree_heads)
        REFUSE("degree_heads must divide hidden = %zu, found %zu", d->hidden, d->degree_heads);
    if (d->mlp == BO_MLP_QUADRATIC && d->hidden > d->width)
        REFUSE("hidden of quadratic forms must be at most width = %zu, found %zu", d->width, d->hidden);
    return BO_OK;
}

/* ---- feature maps ------------------------------------------------------------------------------------------------ */

void bo_mlp_maps_destroy(bo_features **maps, const bo_model_desc *desc)
{
    for (size_t i = 0; maps && i < bo_model_place(desc, BO_MODEL_PART_END); i++) bo_features_destroy(maps[i]);
    bo_free(maps);
}

bo_status bo_mlp_maps_create(bo_context *context, bo_model_desc *desc, bo_features ***out)
{
    *out = NULL;
    if (desc->mlp != BO_MLP_RANDOM_FEATURES) return BO_OK;
    const size_t places = bo_model_place(desc, BO_MODEL_PART_END);
    bo_status status = BO_OK;
    bo_features **maps = bo_alloc(context, places, sizeof *maps, "a model's maps");
    if (!maps) return BO_MEMORY;
    for (size_t i = 0; status == BO_OK && i < places; i++) {
        if (bo_model_part_of(desc, i) == BO_MODEL_PART_CROSS) continue;
        bo_features_desc layer = desc->mlp_features;
        bo_rng rng = bo_rng_make(layer.seed, bo_rng_stream("model mlp frequencies", i));
        layer.seed = bo_rng_bits(&rng);
        status = bo_features_create(context, &layer, &maps[i]);
    }
    if (status != BO_OK) {
        bo_mlp_maps_destroy(maps, desc);
        return status;
    }
    const uint64_t seed = desc->mlp_features.seed;
    desc->mlp_features = *bo_features_describe(maps[0]);
    desc->mlp_features.seed = seed;
    desc->mlp_features.length_scales = NULL;
    desc->hidden = desc->mlp_features.features;
    *out = maps;
    return BO_OK;
}

uint64_t bo_model_frozen_parameters(const bo_model *model)
{
    if (!model) return 0;
    uint64_t numbers = 0;
    for (size_t i = 0; model->mlp_maps && i < bo_model_place(&model->desc, BO_MODEL_PART_END); i++)
        if (model->mlp_maps[i]) numbers += (uint64_t)bo_features_frequencies(model->mlp_maps[i]) * model->desc.width;
    return numbers;
}
