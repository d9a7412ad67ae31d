/* Random features in a model's file. Frequencies are stored also where a seed would draw them again: a model is then the
 * same under any later drawing code. */
#include <stdio.h>
#include <string.h>
#include "../attention/internal.h"
#include "../features/files.h"
#include "files.h"

enum { PREFIX = 96 };

/* Maps of one layer that have something to store. */
static size_t maps_of(const bo_attention *attention)
{
    if (!attention) return 0;
    const bo_attention_desc *desc = bo_attention_describe(attention);
    return attention->features ? desc->one_draw ? 1 : desc->key_heads : 0;
}

size_t bo_maps_count(const bo_model *model)
{
    size_t count = 0;
    for (size_t i = 0; i < model->desc.layers; i++) count += maps_of(model->attentions[i]);
    return count;
}

static void prefix_of(size_t layer, size_t head, char out[PREFIX])
{
    snprintf(out, PREFIX, "model.layers.%zu.self_attn.heads.%zu.", layer, head);
}

static char *joined(bo_context *context, const char *prefix, const char *name)
{
    size_t bytes = strlen(prefix) + strlen(name) + 1;
    char *out = bo_alloc(context, bytes, 1, "a tensor's name");
    if (out) snprintf(out, bytes, "%s%s", prefix, name);
    return out;
}

/* ---- out ---------------------------------------------------------------------------------------------------------- */

static bo_status pack_map(bo_context *context, const bo_features *map, const char *prefix, bo_package *package)
{
    bo_tensor tensors[BO_FEATURES_TENSORS];
    size_t count;
    char *json;
    void *owned;
    BO_TRY(bo_features_pack(context, map, tensors, &count, &json, &owned));
    package->owned[package->owned_count++] = owned;
    bo_status status = BO_OK;
    for (size_t i = 0; status == BO_OK && i < count; i++) {
        bo_tensor *tensor = &package->tensors[package->count];
        *tensor = tensors[i];
        if (!(tensor->name = joined(context, prefix, tensors[i].name)))
            status = BO_MEMORY;
        else
            package->count++;
    }
    char *key = status == BO_OK && count ? joined(context, prefix, "features") : NULL;
    if (status == BO_OK && count && !key) status = BO_MEMORY;
    if (key) {
        package->metas[package->meta_count++] = (bo_meta){key, json};
        json = NULL;
    }
    bo_free(json);
    return status;
}

bo_status bo_maps_pack(bo_context *context, const bo_model *model, bo_package *package)
{
    char prefix[PREFIX];
    for (size_t i = 0; i < model->desc.layers; i++)
        for (size_t h = 0; h < maps_of(model->attentions[i]); h++) {
            prefix_of(i, h, prefix);
            BO_TRY(pack_map(context, bo_attention_features(model->attentions[i], h), prefix, package));
        }
    return BO_OK;
}

/* ---- in ----------------------------------------------------------------------------------------------------------- */

/* The tensors of one map under the names that bo_features_unpack knows. */
static bo_status unpack_map(bo_context *context, const bo_tensors *file, const char *prefix, bool *used,
                            bo_features **out)
{
    bo_tensor tensors[BO_FEATURES_TENSORS];
    size_t count = 0, length = strlen(prefix);
    bo_tensors *view;
    char *key = joined(context, prefix, "features");
    if (!key) return BO_MEMORY;
    const char *json = bo_tensors_meta(file, key);
    bo_free(key);
    if (!json)
        return bo_fail(context, BO_FORMAT, "%s: has no \"%sfeatures\" in its metadata", bo_tensors_path(file), prefix);
    for (size_t i = 0; i < bo_tensors_count(file); i++) {
        const bo_tensor *tensor = bo_tensors_at(file, i);
        if (strncmp(tensor->name, prefix, length) != 0 || count == BO_FEATURES_TENSORS) continue;
        tensors[count] = *tensor;
        tensors[count++].name = tensor->name + length;
        used[i] = true;
    }
    BO_TRY(bo_tensors_borrow(context, bo_tensors_path(file), tensors, count, &view));
    bo_status status = bo_features_unpack(context, view, json, out);
    bo_tensors_close(view);
    return status;
}

/* A map whose features are exact has nothing to read. */
static bo_status stores_nothing(bo_context *context, const bo_features *map, bool *out)
{
    bo_tensor tensors[BO_FEATURES_TENSORS];
    size_t count;
    char *json;
    void *owned;
    BO_TRY(bo_features_pack(context, map, tensors, &count, &json, &owned));
    bo_free(json);
    bo_free(owned);
    *out = count == 0;
    return BO_OK;
}

static bo_status read_layer(bo_context *context, bo_model *model, size_t layer, const bo_tensors *file, bool *used)
{
    bo_attention *attention = model->attentions[layer];
    size_t count = maps_of(attention), done = 0;
    char prefix[PREFIX];
    bool nothing = true;
    if (count) BO_TRY(stores_nothing(context, bo_attention_features(attention, 0), &nothing));
    if (nothing) return BO_OK;
    bo_features **maps = bo_alloc(context, count, sizeof *maps, "a layer's maps");
    bo_status status = maps ? BO_OK : BO_MEMORY;
    for (; status == BO_OK && done < count; done++) {
        prefix_of(layer, done, prefix);
        status = unpack_map(context, file, prefix, used, &maps[done]);
    }
    if (status == BO_OK) {
        status = bo_attention_set_maps(context, attention, maps, count);
        if (status == BO_FORMAT)
            status = bo_fail(context, BO_FORMAT, "%s: layer %zu: %s", bo_tensors_path(file), layer,
                             bo_context_error(context));
    } else {
        for (size_t h = 0; maps && h < count; h++) bo_features_destroy(maps[h]);
    }
    bo_free(maps);
    return status;
}

bo_status bo_maps_read(bo_context *context, bo_model *model, const bo_tensors *file, bool *used)
{
    for (size_t i = 0; i < model->desc.layers; i++) BO_TRY(read_layer(context, model, i, file, used));
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

/* What the maps of a layer are made by, but for the draw. */
static bool alike(const bo_attention_desc *a, const bo_attention_desc *b)
{
    const bo_features_desc *f = &a->features, *g = &b->features;
    return a->kind == b->kind && a->key_heads == b->key_heads && a->one_draw == b->one_draw && f->dim == g->dim &&
           f->features == g->features && f->kernel == g->kernel && f->function == g->function && f->draw == g->draw &&
           f->gamma == g->gamma && f->alpha == g->alpha && f->degree == g->degree && f->pair_norm == g->pair_norm &&
           a->proposal == b->proposal && f->sampling == g->sampling;
}

bo_status bo_maps_adopt(bo_context *context, bo_model *model, const bo_model *from, size_t layer, bool *taken)
{
    bo_attention *attention = model->attentions[layer];
    size_t count = maps_of(attention);
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
