/* A model as a folder, and its random features in it. */
#include <bochner/data.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "../base/trace.h"
#include "../attention/attention.h"
#include "../features/files.h"
#include "../io/mapping.h"
#include "adapter.h"
#include "files.h"

/* ====================================================================================================================
 * Random features in a model's file. */

enum { PREFIX = 64 };

static size_t count_maps(const bo_model *model)
{
    size_t count = 0;
    for (size_t i = 0; i < bo_model_place(&model->desc, BO_MODEL_PART_END); i++)
        count += bo_attention_maps(model->attentions[i]) + (model->mlp_maps && model->mlp_maps[i]);
    return count;
}

/* Where the weights of a place have their names. */
static void prefix_of(const bo_model_desc *d, size_t place, bool mlp, char out[PREFIX])
{
    static const char *const stacks[] = {"model", "model", "model.encoder"};
    const bo_model_part part = bo_model_part_of(d, place);
    snprintf(out, PREFIX, "%s.layers.%zu.%s.", stacks[part], place - bo_model_place(d, part),
             mlp                           ? "mlp"
             : part == BO_MODEL_PART_CROSS ? "encoder_attn"
                                           : "self_attn");
}

/* Adds the maps of every layer: "model.layers.N.self_attn.heads.K.features.w", "model.layers.N.mlp.features.w", …; room for
 * the tensors of each and as many metadata as there are maps (count_maps). */
static bo_status pack_maps(bo_context *context, const bo_model *model, bo_package *package)
{
    const bo_model_desc *d = &model->desc;
    char prefix[PREFIX];
    for (size_t i = 0; i < bo_model_place(d, BO_MODEL_PART_END); i++) {
        prefix_of(d, i, false, prefix);
        BO_TRY(bo_package_attention(context, package, model->attentions[i], prefix));
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
        if (!model->mlp_maps || !model->mlp_maps[i]) continue;
        prefix_of(d, i, true, prefix);
        BO_TRY(bo_map_replace(context, file, prefix, used, &model->mlp_maps[i]));
    }
    return BO_OK;
}

/* ---- from another model ------------------------------------------------------------------------------------------- */

static bo_status copy_map(bo_context *context, const bo_features *from, bo_features **out)
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

/* The same layer of the same part, or that model's END. */
static size_t counterpart(const bo_model *model, size_t place, const bo_model *from)
{
    const bo_model_part part = bo_model_part_of(&model->desc, place);
    const size_t theirs = bo_model_place(&from->desc, part) + place - bo_model_place(&model->desc, part);
    const size_t end = bo_model_place(&from->desc, BO_MODEL_PART_END);
    return theirs < end && bo_model_part_of(&from->desc, theirs) == part ? theirs : end;
}

bo_status bo_maps_adopt(bo_context *context, bo_model *model, const bo_model *from, size_t place, bool *taken)
{
    bo_attention *attention = model->attentions[place];
    const size_t count = bo_attention_maps(attention), theirs = counterpart(model, place, from);
    const bo_attention *other =
        theirs < bo_model_place(&from->desc, BO_MODEL_PART_END) ? from->attentions[theirs] : NULL;
    *taken = count && other && alike(bo_attention_describe(attention), bo_attention_describe(other));
    if (!*taken) return BO_OK;
    bo_features **maps = bo_alloc(context, count, sizeof *maps, "a layer's maps");
    bo_status status = maps ? BO_OK : BO_MEMORY;
    for (size_t h = 0; status == BO_OK && h < count; h++)
        status = copy_map(context, bo_attention_features(other, h), &maps[h]);
    if (status == BO_OK)
        status = bo_attention_set_maps(context, attention, maps, count);
    else
        for (size_t h = 0; maps && h < count; h++) bo_features_destroy(maps[h]);
    bo_free(maps);
    return status;
}

bo_status bo_mlp_map_adopt(bo_context *context, bo_model *model, const bo_model *from, size_t place, bool *taken)
{
    const size_t theirs = counterpart(model, place, from);
    const bool there = from->mlp_maps && theirs < bo_model_place(&from->desc, BO_MODEL_PART_END);
    bo_features *map, *mine = model->mlp_maps ? model->mlp_maps[place] : NULL,
                      *other = there ? from->mlp_maps[theirs] : NULL;
    *taken = mine && other && bo_maps_alike(bo_features_describe(mine), bo_features_describe(other));
    if (!*taken) return BO_OK;
    BO_TRY(copy_map(context, other, &map));
    bo_features_destroy(mine);
    model->mlp_maps[place] = map;
    return BO_OK;
}

/* ====================================================================================================================
 * A model as a folder: config.json, model.safetensors, tokenizer.json. */

char *bo_model_path(bo_context *context, const char *folder, const char *name)
{
    size_t bytes = strlen(folder) + strlen(name) + 2;
    char *path = bo_alloc(context, bytes, 1, "a file's name");
    if (path) snprintf(path, bytes, "%s/%s", folder, name);
    return path;
}

/* ---- out ---------------------------------------------------------------------------------------------------------- */

static bo_status write_weights(bo_context *context, const bo_model *model, const char *path)
{
    bo_package package = {0};
    bo_status status = bo_package_weights(context, model->weights, count_maps(model), 0, &package);
    if (status == BO_OK) status = pack_maps(context, model, &package);
    if (status == BO_OK)
        status = bo_tensors_write(context, path, package.tensors, package.count, package.metas, package.meta_count);
    bo_package_free(&package);
    return status;
}

static bo_status write_config(bo_context *context, const bo_model *model, const char *path)
{
    char *json;
    BO_TRY(bo_config_write(context, model, &json));
    bo_status status = bo_file_save(context, path, json, strlen(json));
    bo_free(json);
    return status;
}

static bo_status write_tokenizer(bo_context *context, const bo_model *model, const char *path)
{
    return model->tokenizer ? bo_tokenizer_save(context, model->tokenizer, path) : BO_OK;
}

/* A file of a folder, and what writes it. */
typedef struct piece {
    const char *name;
    bo_status (*write)(bo_context *, const bo_model *, const char *);
} piece;

static bo_status write_pieces(bo_context *context, const bo_model *model, const char *folder, const piece *files,
                              size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char *path = bo_model_path(context, folder, files[i].name);
        if (!path) return BO_MEMORY;
        bo_status status = files[i].write(context, model, path);
        bo_free(path);
        if (status != BO_OK) return status;
    }
    return BO_OK;
}

static bo_status make_folder(bo_context *context, const char *folder)
{
    if (mkdir(folder, 0777) == 0 || errno == EEXIST) return BO_OK;
    return bo_fail(context, BO_IO, "%s: cannot be made: %s", folder, strerror(errno));
}

/* Of a merged model: the adapter, and what it was put into. */
static bo_status write_apart(bo_context *context, const bo_model *model, const char *folder, const piece *files,
                             size_t count)
{
    char *place = bo_model_path(context, folder, "adapter");
    bo_status status = place ? make_folder(context, place) : BO_MEMORY;
    if (status == BO_OK) status = write_pieces(context, model, place, files, count);
    bo_free(place);
    return status;
}

bo_status bo_model_write(bo_context *context, const bo_model *model, const char *folder)
{
    static const piece whole[] = {
        {"tokenizer.json", write_tokenizer}, {"config.json", write_config}, {"model.safetensors", write_weights}};
    static const piece adapter[] = {{"base.safetensors", bo_adapter_write_base},
                                    {"tokenizer.json", write_tokenizer},
                                    {"adapter_config.json", bo_adapter_config_write},
                                    {"adapter_model.safetensors", bo_adapter_write}};
    const bool adapted = model->adapter, merged = adapted && model->adapter->aside;
    if (adapted && !merged)
        return write_pieces(context, model, folder, adapter + 1, 3); /* the base stays where it is */
    BO_TRY(write_pieces(context, model, folder, whole, 3));
    return merged ? write_apart(context, model, folder, adapter, 4) : BO_OK;
}

bo_status bo_model_save(bo_context *context, const bo_model *model, const char *folder)
{
    BO_SPAN(context, "data", "save model");
    if (!model || !folder || !*folder)
        return bo_fail(context, BO_INVALID, "model: %s", model ? "no folder was named" : "the model is NULL");
    BO_TRY(make_folder(context, folder));
    return bo_model_write(context, model, folder);
}

/* ---- in ----------------------------------------------------------------------------------------------------------- */

/* The largest weights of an MLP. */
static double least_mlp(const bo_model_desc *d)
{
    double matrix = (double)d->hidden * (double)d->width;
    if (d->mlp == BO_MLP_CUSTOM) return 0;
    if (d->mlp == BO_MLP_QUADRATIC) return matrix * (double)d->hidden;
    return d->mlp == BO_MLP_RANDOM_FEATURES ? matrix : 2 * matrix;
}

/* Of an attention's frequencies. */
static double least_maps(const bo_attention_desc *a, size_t key_heads)
{
    const bo_features_desc *f = &a->features;
    bool drawn = f->features && f->draw != BO_DRAW_HADAMARD && f->function != BO_FUNCTION_TENSORSKETCH &&
                 f->kernel != BO_KERNEL_POLYNOMIAL;
    return drawn ? (a->one_draw ? 1 : (double)key_heads) * (double)f->features / 2 : 0;
}

/* A configuration may claim any size in a few bytes. Before memory is spent on it, the file must be as large as the
 * largest weights that go with it (in 16 bits). */
static bo_status check_claims(bo_context *context, const char *where, const bo_model_desc *d, const char *weights)
{
    struct stat about;
    if (stat(weights, &about) != 0) return bo_fail(context, BO_IO, "%s: %s", weights, strerror(errno));
    double width = (double)d->width, heads = (double)(d->heads + d->key_heads) * (double)d->head_dim;
    double mixer = d->mixer == BO_MIXER_ATTENTION ? 2 * heads * width : width * width;
    double layers = (double)d->layers + (double)d->encoder_layers;
    double numbers = (double)d->vocab * width + (double)d->classes * width;
    numbers += layers * (mixer + least_mlp(d) + least_maps(&d->attention, d->key_heads));
    if (bo_model_attends(d, BO_MODEL_PART_CROSS))
        numbers += (double)d->layers * (2 * heads * width + least_maps(&d->cross_attention, d->key_heads));
    if (d->positions == BO_POSITIONS_LEARNED) numbers += (double)d->context * width;
    if (2 * numbers <= (double)about.st_size) return BO_OK;
    return bo_fail(context, BO_FORMAT, "%s: promises %.0f numbers or more, but model.safetensors has %.0f bytes", where,
                   numbers, (double)about.st_size);
}

/* NULL where the folder has none and none is needed: models of ours that were made without, others of any vocabulary. */
static bo_status load_tokenizer(bo_context *context, const char *folder, const bo_config *config, bo_tokenizer **out)
{
    char *path = bo_model_path(context, folder, "tokenizer.json");
    if (!path) return BO_MEMORY;
    bool there = access(path, F_OK) == 0;
    bo_free(path);
    if (!there && (config->no_tokenizer || config->family != BO_FAMILY_BOCHNER)) {
        bo_log(context, BO_LOG_WARNING, "%s: has no tokenizer.json", folder);
        return BO_OK;
    }
    BO_TRY(bo_tokenizer_load(context, folder, out));
    if (config->knows_tokenizer && bo_tokenizer_fingerprint(*out) != config->tokenizer_fingerprint)
        bo_log(context, BO_LOG_WARNING, "%s: tokenizer.json is not the one that the model was made with", folder);
    return BO_OK;
}

/* What would be the caller's mistake in a descriptor is the file's here. */
static bo_status blame_file(bo_context *context, bo_status status, const char *where)
{
    if (status != BO_INVALID && status != BO_UNSUPPORTED) return status;
    return bo_fail(context, BO_FORMAT, "%s: %s", where, bo_context_error(context));
}

static bo_status read_tensors(bo_context *context, bo_model *model, bo_family family, const char *path)
{
    bo_tensors *file;
    BO_TRY(bo_tensors_open(context, path, &file));
    bo_status status = bo_model_fill(context, model, family, file);
    bo_tensors_close(file);
    return status;
}

/* Layers of the caller's own, by name. */
typedef struct custom_layers {
    const bo_custom_layer *at;
    size_t count;
} custom_layers;

/* The function that config.json can only name. */
static bo_status find_custom(bo_context *context, const char *where, const custom_layers *layers, bo_custom_layer *out)
{
    const char *name = out->name;
    for (size_t i = 0; i < layers->count; i++) {
        if (!layers->at[i].name || strcmp(layers->at[i].name, name) != 0) continue;
        *out = layers->at[i];
        return BO_OK;
    }
    return bo_fail(
        context, BO_UNSUPPORTED,
        "%s: the MLP is the custom layer '%.60s', a function of the program that made the model: load it with "
        "bo_model_load_custom and a bo_custom_layer of that name",
        where, name);
}

static bo_status load(bo_context *context, const char *folder, const char *config_path, const char *weights_path,
                      const custom_layers *layers, bo_model **out)
{
    bo_mapping text;
    bo_config config;
    bo_model_desc resolved;
    bo_tokenizer *tokenizer = NULL;
    bo_model *model = NULL;
    BO_TRY(bo_mapping_open(context, config_path, &text));
    bo_status status = bo_config_read(context, config_path, text.data, text.size, &config);
    bo_mapping_close(&text);
    if (status == BO_OK && config.custom) status = find_custom(context, config_path, layers, &config.desc.custom_mlp);
    if (status == BO_OK) status = load_tokenizer(context, folder, &config, &tokenizer);
    if (status == BO_OK)
        status = blame_file(context, bo_model_resolve(context, &config.desc, tokenizer, &resolved), config_path);
    if (status == BO_OK) status = check_claims(context, config_path, &resolved, weights_path);
    if (status == BO_OK)
        status = blame_file(context, bo_model_build(context, &config.desc, tokenizer, &model), config_path);
    bo_config_free(&config);
    if (status == BO_OK) status = read_tensors(context, model, config.family, weights_path);
    if (status != BO_OK) {
        bo_model_destroy(model);
        bo_tokenizer_destroy(tokenizer);
        return status;
    }
    model->owned = tokenizer;
    *out = model;
    return BO_OK;
}

static bool holds(const char *folder, const char *name)
{
    char path[4096];
    return snprintf(path, sizeof path, "%s/%s", folder, name) < (int)sizeof path && access(path, F_OK) == 0;
}

bool bo_model_is_folder(const char *folder)
{
    return holds(folder, "config.json");
}

/* The base with the adapter in it, as a model like any other. */
static bo_status load_merged(bo_context *context, const char *folder, bo_model **out)
{
    bo_model *model;
    BO_TRY(bo_model_load_adapted(context, folder, &model));
    const bo_status status = bo_model_merge(context, model);
    if (status == BO_OK) {
        bo_model_drop_adapters(model);
        *out = model;
    } else {
        bo_model_destroy(model);
    }
    return status;
}

bo_status bo_model_load(bo_context *context, const char *folder, bo_model **out)
{
    return bo_model_load_custom(context, folder, NULL, 0, out);
}

bo_status bo_model_load_custom(bo_context *context, const char *folder, const bo_custom_layer *layers, size_t count,
                               bo_model **out)
{
    BO_SPAN(context, "data", "load model");
    if (!out) return bo_fail(context, BO_INVALID, "model: there is nowhere to put it: out is NULL");
    *out = NULL;
    if (!folder || !*folder) return bo_fail(context, BO_INVALID, "model: no folder was named");
    if (!bo_model_is_folder(folder) && holds(folder, "adapter_config.json")) return load_merged(context, folder, out);
    char *config = bo_model_path(context, folder, "config.json"),
         *weights = bo_model_path(context, folder, "model.safetensors");
    bo_status status =
        config && weights ? load(context, folder, config, weights, &(custom_layers){layers, count}, out) : BO_MEMORY;
    bo_free(config);
    bo_free(weights);
    return status;
}

bo_status bo_model_read(bo_context *context, bo_model *model, const char *folder)
{
    char *path = bo_model_path(context, folder, model->adapter ? "adapter_model.safetensors" : "model.safetensors");
    if (!path) return BO_MEMORY;
    bo_status status =
        model->adapter ? bo_adapter_read(context, model, path) : read_tensors(context, model, BO_FAMILY_BOCHNER, path);
    bo_free(path);
    return status;
}
