/* Random features in a model's file. */
#include <stdio.h>
#include <string.h>
#include "../attention/internal.h"
#include "../features/files.h"
#include "files.h"

enum { PREFIX = 64 };

size_t bo_maps_count(const bo_model *model)
{
    size_t count = 0;
    for (size_t i = 0; i < model->desc.layers; i++) count += bo_attention_maps(model->attentions[i]);
    return model->mlp_maps ? count + model->desc.layers : count;
}

static void prefix_of(size_t layer, char out[PREFIX])
{
    snprintf(out, PREFIX, "model.layers.%zu.self_attn.", layer);
}

static void mlp_prefix_of(size_t layer, char out[PREFIX])
{
    snprintf(out, PREFIX, "model.layers.%zu.mlp.", layer);
}

bo_status bo_maps_pack(bo_context *context, const bo_model *model, bo_package *package)
{
    char prefix[PREFIX];
    for (size_t i = 0; i < model->desc.layers; i++) {
        prefix_of(i, prefix);
        BO_TRY(bo_package_attention(context, package, model->attentions[i], prefix));
        if (!model->mlp_maps) continue;
        mlp_prefix_of(i, prefix);
        BO_TRY(bo_package_map(context, package, model->mlp_maps[i], prefix));
    }
    return BO_OK;
}

bo_status bo_maps_read(bo_context *context, bo_model *model, const bo_tensors *file, bool *used)
{
    char prefix[PREFIX];
    for (size_t i = 0; i < model->desc.layers; i++) {
        prefix_of(i, prefix);
        BO_TRY(bo_attention_unpack(context, file, prefix, used, model->attentions[i]));
        if (!model->mlp_maps) continue;
        mlp_prefix_of(i, prefix);
        BO_TRY(bo_map_replace(context, file, prefix, used, &model->mlp_maps[i]));
    }
    return BO_OK;
}

/* ---- from another model ------------------------------------------------------------------------------------------- */

static bo_status copy_map(bo_context *context, const bo_features *from, bo_features **out)
{
    bo_tensor tensors[BO_FEATURES_TENSORS];
    size_t count;
    char *json;
    void *owned;
    bo_tensors *view = NULL;
    BO_TRY(bo_features_pack(context, from, tensors, &count, &json, &owned));
    bo_status status = bo_tensors_borrow(context, "another model", tensors, count, &view);
    if (status == BO_OK) status = bo_features_unpack(context, view, json, out);
    bo_tensors_close(view);
    bo_free(json);
    bo_free(owned);
    return status;
}

static bool alike(const bo_attention_desc *a, const bo_attention_desc *b)
{
    return a->kind == b->kind && a->key_heads == b->key_heads && a->one_draw == b->one_draw &&
           a->proposal == b->proposal && bo_maps_alike(&a->features, &b->features);
}

bo_status bo_maps_adopt(bo_context *context, bo_model *model, const bo_model *from, size_t layer, bool *taken)
{
    bo_attention *attention = model->attentions[layer];
    size_t count = bo_attention_maps(attention);
    *taken = layer < from->desc.layers && count && from->attentions[layer] &&
             alike(bo_attention_describe(attention), bo_attention_describe(from->attentions[layer]));
    if (!*taken) return BO_OK;
    bo_features **maps = bo_alloc(context, count, sizeof *maps, "a layer's maps");
    bo_status status = maps ? BO_OK : BO_MEMORY;
    for (size_t h = 0; status == BO_OK && h < count; h++)
        status = copy_map(context, bo_attention_features(from->attentions[layer], h), &maps[h]);
    if (status == BO_OK)
        status = bo_attention_set_maps(context, attention, maps, count);
    else
        for (size_t h = 0; maps && h < count; h++) bo_features_destroy(maps[h]);
    bo_free(maps);
    return status;
}

bo_status bo_mlp_map_adopt(bo_context *context, bo_model *model, const bo_model *from, size_t layer, bool *taken)
{
    bo_features *map;
    *taken = model->mlp_maps && from->mlp_maps && layer < from->desc.layers &&
             bo_maps_alike(bo_features_describe(model->mlp_maps[layer]), bo_features_describe(from->mlp_maps[layer]));
    if (!*taken) return BO_OK;
    BO_TRY(copy_map(context, from->mlp_maps[layer], &map));
    bo_features_destroy(model->mlp_maps[layer]);
    model->mlp_maps[layer] = map;
    return BO_OK;
}
