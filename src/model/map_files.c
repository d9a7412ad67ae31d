/* Random features of a model: in its file, and copied from another model. */
#include <stdio.h>
#include <string.h>
#include "../attention/attention.h"
#include "../features/files.h"
#include "files.h"
#include "internal.h"

enum { PREFIX = 64 };

size_t bo_maps_count(const bo_model *model)
{
    size_t count = 0;
    for (size_t i = 0; i < bo_model_place(&model->desc, BO_MODEL_PART_END); i++)
        count += bo_attention_maps(model->attentions[i]) + (model->mlp_maps && model->mlp_maps[i]) +
                 (model->mlp_layers[i] ? bo_network_maps(model->mlp_layers[i]) : 0);
    return count;
}

/* Writes the name prefix of the weights of a place. */
static void prefix_of(const bo_model_desc *d, size_t place, bool mlp, char out[PREFIX])
{
    static const char *const stacks[] = {"model", "model", "model.encoder"};
    const bo_model_part part = bo_model_part_of(d, place);
    snprintf(out, PREFIX, "%s.layers.%zu.%s.", stacks[part], place - bo_model_place(d, part),
             mlp                           ? "mlp"
             : part == BO_MODEL_PART_CROSS ? "encoder_attn"
                                           : "self_attn");
}

bo_status bo_maps_pack(bo_context *context, const bo_model *model, bo_package *package)
{
    const bo_model_desc *d = &model->desc;
    char prefix[PREFIX];
    for (size_t i = 0; i < bo_model_place(d, BO_MODEL_PART_END); i++) {
        prefix_of(d, i, false, prefix);
        BO_TRY(bo_package_attention(context, package, model->attentions[i], prefix));
        if (model->mlp_layers[i]) BO_TRY(bo_network_pack_maps(context, model->mlp_layers[i], package));
        if (!model->mlp_maps || !model->mlp_maps[i]) continue;
        prefix_of(d, i, true, prefix);
        BO_TRY(bo_package_map(context, package, model->mlp_maps[i], prefix));
    }
    return BO_OK;
}

bo_status bo_maps_read(bo_context *context, bo_model *model, const bo_tensors *file, bool *used)
{
    const bo_model_desc *d = &model->desc;
    char prefix[PREFIX];
    for (size_t i = 0; i < bo_model_place(d, BO_MODEL_PART_END); i++) {
        prefix_of(d, i, false, prefix);
        BO_TRY(bo_attention_unpack(context, file, prefix, used, model->attentions[i]));
        if (model->mlp_layers[i]) BO_TRY(bo_network_read_maps(context, model->mlp_layers[i], file, used));
        if (!model->mlp_maps || !model->mlp_maps[i]) continue;
        prefix_of(d, i, true, prefix);
        BO_TRY(bo_map_replace(context, file, prefix, used, &model->mlp_maps[i]));
    }
    return BO_OK;
}

/* ---- from another model ------------------------------------------------------------------------------------------ */

bo_status bo_map_copy(bo_context *context, const bo_features *from, bo_features **out)
{
    bo_file_tensor tensors[BO_FEATURES_TENSORS];
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

/* Returns the place of the same layer of the same part in the other model, or END. */
static size_t counterpart(const bo_model *model, size_t place, const bo_model *from)
{
    const bo_model_part part = bo_model_part_of(&model->desc, place);
    const size_t source_place = bo_model_place(&from->desc, part) + place - bo_model_place(&model->desc, part);
    const size_t end = bo_model_place(&from->desc, BO_MODEL_PART_END);
    return source_place < end && bo_model_part_of(&from->desc, source_place) == part ? source_place : end;
}

bo_status bo_maps_adopt(bo_context *context, bo_model *model, const bo_model *from, size_t place, bool *copied)
{
    bo_attention *attention = model->attentions[place];
    const size_t count = bo_attention_maps(attention), source_place = counterpart(model, place, from);
    const bo_attention *source =
        source_place < bo_model_place(&from->desc, BO_MODEL_PART_END) ? from->attentions[source_place] : NULL;
    *copied = count && source && alike(bo_attention_describe(attention), bo_attention_describe(source));
    if (!*copied) return BO_OK;
    bo_features **maps = bo_alloc(context, count, sizeof *maps, "a layer's maps");
    bo_status status = maps ? BO_OK : BO_MEMORY;
    for (size_t h = 0; status == BO_OK && h < count; h++)
        status = bo_map_copy(context, bo_attention_features(source, h), &maps[h]);
    if (status == BO_OK)
        status = bo_attention_set_maps(context, attention, maps, count);
    else
        for (size_t h = 0; maps && h < count; h++) bo_features_destroy(maps[h]);
    bo_free(maps);
    return status;
}

bo_status bo_mlp_map_adopt(bo_context *context, bo_model *model, const bo_model *from, size_t place, bool *copied)
{
    const size_t source_place = counterpart(model, place, from);
    const size_t end = bo_model_place(&from->desc, BO_MODEL_PART_END);
    const bool has_map = from->mlp_maps && source_place < end;
    bo_features *map, *target = model->mlp_maps ? model->mlp_maps[place] : NULL,
                      *source = has_map ? from->mlp_maps[source_place] : NULL;
    if (model->mlp_layers[place])
        return bo_network_adopt_maps(context, model->mlp_layers[place],
                                     source_place < end ? from->mlp_layers[source_place] : NULL, copied);
    *copied = !target || (source && bo_maps_alike(bo_features_describe(target), bo_features_describe(source)));
    if (!*copied || !target) return BO_OK;
    BO_TRY(bo_map_copy(context, source, &map));
    bo_features_destroy(target);
    model->mlp_maps[place] = map;
    return BO_OK;
}
