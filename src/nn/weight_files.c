/* Weights and feature maps in safetensors files. Frequencies are stored even if they could be sampled again from the
 * seed, so that a model does not depend on the version of the sampling code. */
#include "../features/enums.h"
#include "weight_files.h"
#include <stdio.h>
#include <string.h>
#include "../attention/attention.h"
#include "../features/files.h"
#include "../io/output.h"

enum { PREFIX = 160 };

static char *joined(bo_context *context, const char *prefix, const char *name)
{
    size_t bytes = strlen(prefix) + strlen(name) + 1;
    char *out = bo_alloc(context, bytes, 1, "a tensor's name");
    if (out) snprintf(out, bytes, "%s%s", prefix, name);
    return out;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

void bo_package_free(bo_package *package)
{
    for (size_t i = package->first_owned; i < package->count; i++) bo_free((void *)(uintptr_t)package->tensors[i].name);
    for (size_t i = 1; i < package->meta_count; i++) { /* the first entry is "format" */
        bo_free((void *)(uintptr_t)package->metadata[i].key);
        bo_free((void *)(uintptr_t)package->metadata[i].value);
    }
    for (size_t i = 0; i < package->owned_count; i++) bo_free(package->owned[i]);
    bo_free(package->owned);
    bo_free(package->tensors);
    bo_free(package->metadata);
    bo_free(package->host);
    *package = (bo_package){0};
}

/* Adds a weight as it is stored, float32 or bfloat16. */
static bo_status add_weight(bo_context *context, bo_device *device, const bo_weight *weight, bo_package *out)
{
    if (weight->element == BO_ELEMENT_INT8 || weight->element == BO_ELEMENT_INT4)
        return bo_fail(context, BO_UNSUPPORTED, "%s is stored as %s, which cannot be written to a file", weight->name,
                       weight->element == BO_ELEMENT_INT8 ? "int8" : "int4");
    bo_file_tensor *tensor = &out->tensors[out->count++];
    out->first_owned = out->count;
    *tensor = (bo_file_tensor){.name = weight->name,
                               .dtype = weight->element == BO_ELEMENT_BFLOAT16 ? BO_BF16 : BO_F32,
                               .rank = weight->rank,
                               .data = out->host + weight->offset,
                               .bytes = bo_element_bytes(weight->element, weight->rows, weight->columns)};
    memcpy(tensor->shape, weight->shape, weight->rank * sizeof *weight->shape);
    return bo_buffer_read(context, device, out->host + weight->offset, weight->data, tensor->bytes);
}

bo_status bo_package_begin(bo_context *context, size_t tensors, size_t bytes, bo_package *out)
{
    out->tensors = bo_alloc(context, tensors, sizeof *out->tensors, "a model's tensors");
    out->metadata = bo_alloc(context, 1 + BO_PACKAGE_TEXTS, sizeof *out->metadata, "a model's metadata");
    out->host = bo_alloc_raw(context, bytes, 1, "a model's weights for a file");
    if (!out->tensors || !out->metadata || !out->host) return BO_MEMORY;
    out->metadata[out->meta_count++] = (bo_meta){"format", "pt"}; /* required by transformers */
    return BO_OK;
}

bo_status bo_package_weights(bo_context *context, const bo_weights *weights, size_t maps, size_t more, bo_package *out)
{
    size_t count = bo_weights_count(weights), floats = bo_weights_floats(weights);
    out->tensors =
        bo_alloc(context, count + maps * BO_FEATURES_TENSORS + more, sizeof *out->tensors, "a model's tensors");
    out->metadata = bo_alloc(context, 1 + maps + BO_PACKAGE_TEXTS, sizeof *out->metadata, "a model's metadata");
    out->host = bo_alloc_raw(context, floats, sizeof *out->host, "a model's weights for a file");
    out->owned = bo_alloc(context, maps, sizeof *out->owned, "a model's maps");
    if (!out->tensors || !out->metadata || !out->host || !out->owned) return BO_MEMORY;
    out->metadata[out->meta_count++] = (bo_meta){"format", "pt"}; /* required by transformers */
    for (size_t i = 0; i < count; i++)
        BO_TRY(add_weight(context, bo_weights_device(weights), bo_weights_at(weights, i), out));
    return BO_OK;
}

bo_status bo_package_add(bo_context *context, bo_package *package, const char *name, const bo_file_tensor *tensor)
{
    char *copy = bo_strdup(context, name);
    if (!copy) return BO_MEMORY;
    package->tensors[package->count] = *tensor;
    package->tensors[package->count++].name = copy;
    return BO_OK;
}

bo_status bo_package_text(bo_context *context, bo_package *package, const char *name, const char *text)
{
    bo_meta *meta = &package->metadata[package->meta_count++];
    *meta = (bo_meta){bo_strdup(context, name), bo_strdup(context, text)};
    return meta->key && meta->value ? BO_OK : BO_MEMORY;
}

static bo_status add_map(bo_context *context, bo_package *package, const char *prefix, const bo_file_tensor *tensors,
                         size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char *name = joined(context, prefix, tensors[i].name);
        const bo_status status = name ? bo_package_add(context, package, name, &tensors[i]) : BO_MEMORY;
        bo_free(name);
        if (status != BO_OK) return status;
    }
    return BO_OK;
}

bo_status bo_package_map(bo_context *context, bo_package *package, const bo_features *map, const char *prefix)
{
    bo_file_tensor tensors[BO_FEATURES_TENSORS];
    size_t count;
    char *json;
    void *owned;
    BO_TRY(bo_features_pack(context, map, tensors, &count, &json, &owned));
    package->owned[package->owned_count++] = owned;
    bo_status status = add_map(context, package, prefix, tensors, count);
    char *key = status == BO_OK && count ? joined(context, prefix, "features") : NULL;
    if (status == BO_OK && count && !key) status = BO_MEMORY;
    if (key) {
        package->metadata[package->meta_count++] = (bo_meta){key, json};
        json = NULL;
    }
    bo_free(json);
    return status;
}

size_t bo_attention_maps(const bo_attention *attention)
{
    if (!attention) return 0;
    const bo_attention_desc *desc = bo_attention_describe(attention);
    return bo_attention_features(attention, 0) ? desc->one_draw ? 1 : desc->key_heads : 0;
}

static void head_prefix(const char *prefix, size_t head, char out[PREFIX])
{
    snprintf(out, PREFIX, "%.120sheads.%zu.", prefix, head);
}

bo_status bo_package_attention(bo_context *context, bo_package *package, const bo_attention *attention,
                               const char *prefix)
{
    char place[PREFIX];
    for (size_t h = 0; h < bo_attention_maps(attention); h++) {
        head_prefix(prefix, h, place);
        BO_TRY(bo_package_map(context, package, bo_attention_features(attention, h), place));
    }
    return BO_OK;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* Sets *out to true if the map has no tensors: its features are exact. */
static bo_status stores_nothing(bo_context *context, const bo_features *map, bool *out)
{
    bo_file_tensor tensors[BO_FEATURES_TENSORS];
    size_t count;
    char *json;
    void *owned;
    BO_TRY(bo_features_pack(context, map, tensors, &count, &json, &owned));
    bo_free(json);
    bo_free(owned);
    *out = count == 0;
    return BO_OK;
}

/* Creates a view of the map's tensors with the names that bo_features_unpack expects. */
bo_status bo_map_unpack(bo_context *context, const bo_tensors *file, const char *prefix, bool *used, bo_features **out)
{
    bo_file_tensor tensors[BO_FEATURES_TENSORS];
    size_t count = 0, length = strlen(prefix);
    bo_tensors *view;
    char *key = joined(context, prefix, "features");
    if (!key) return BO_MEMORY;
    const char *json = bo_tensors_meta(file, key);
    bo_free(key);
    if (!json)
        return bo_fail(context, BO_FORMAT, "%s: \"%sfeatures\" is missing in the metadata", bo_tensors_path(file),
                       prefix);
    for (size_t i = 0; i < bo_tensors_count(file); i++) {
        const bo_file_tensor *tensor = bo_tensors_at(file, i);
        if (strncmp(tensor->name, prefix, length) != 0 || count == BO_FEATURES_TENSORS) continue;
        if (strncmp(tensor->name + length, "features.", 9) != 0) continue; /* other weights of the same layer */
        tensors[count] = *tensor;
        tensors[count++].name = tensor->name + length;
        used[i] = true;
    }
    BO_TRY(bo_tensors_borrow(context, bo_tensors_path(file), tensors, count, &view));
    bo_status status = bo_features_unpack(context, view, json, out);
    bo_tensors_close(view);
    return status;
}

bool bo_maps_alike(const bo_features_desc *a, const bo_features_desc *b)
{
    return a->dim == b->dim && a->features == b->features && a->kernel == b->kernel && a->function == b->function &&
           a->draw == b->draw && a->gamma == b->gamma && a->alpha == b->alpha && a->degree == b->degree &&
           a->pair_norm == b->pair_norm && a->sampling == b->sampling;
}

bo_status bo_map_replace(bo_context *context, const bo_tensors *file, const char *prefix, bool *used, bo_features **map)
{
    bool nothing;
    bo_features *read;
    BO_TRY(stores_nothing(context, *map, &nothing));
    if (nothing) return BO_OK;
    BO_TRY(bo_map_unpack(context, file, prefix, used, &read));
    const bo_features_desc *expected = bo_features_describe(*map), *found = bo_features_describe(read);
    if (!bo_maps_alike(expected, found)) {
        const bo_status status =
            bo_fail(context, BO_FORMAT, "%s: %sfeatures: expected %zu x %zu of %s, found %zu x %zu of %s",
                    bo_tensors_path(file), prefix, expected->features, expected->dim, bo_kernel_name(expected->kernel),
                    found->features, found->dim, bo_kernel_name(found->kernel));
        bo_features_destroy(read);
        return status;
    }
    bo_features_destroy(*map);
    *map = read;
    return BO_OK;
}

static bo_status read_heads(bo_context *context, const bo_tensors *file, const char *prefix, bool *used, size_t count,
                            bo_features **maps)
{
    char place[PREFIX];
    for (size_t h = 0; h < count; h++) {
        head_prefix(prefix, h, place);
        BO_TRY(bo_map_unpack(context, file, place, used, &maps[h]));
    }
    return BO_OK;
}

bo_status bo_attention_unpack(bo_context *context, const bo_tensors *file, const char *prefix, bool *used,
                              bo_attention *attention)
{
    size_t count = bo_attention_maps(attention);
    bool nothing = true;
    if (count) BO_TRY(stores_nothing(context, bo_attention_features(attention, 0), &nothing));
    if (nothing) return BO_OK;
    bo_features **maps = bo_alloc(context, count, sizeof *maps, "a layer's maps");
    if (!maps) return BO_MEMORY;
    bo_status status = read_heads(context, file, prefix, used, count, maps);
    if (status == BO_OK) {
        status = bo_attention_set_maps(context, attention, maps, count);
        if (status == BO_FORMAT)
            status = bo_fail(context, BO_FORMAT, "%s: %.120sheads: %s", bo_tensors_path(file), prefix,
                             bo_context_error(context));
    } else {
        for (size_t h = 0; h < count; h++) bo_features_destroy(maps[h]);
    }
    bo_free(maps);
    return status;
}

/* ---- files with weights only ------------------------------------------------------------------------------------- */

static bo_status write_weights(bo_context *context, const bo_weights *weights, bo_output *output)
{
    bo_package package = {0};
    bo_status status =
        bo_weights_memory(weights)
            ? bo_package_weights(context, weights, 0, 0, &package)
            : bo_fail(context, BO_INVALID, "the weights have no memory yet: call bo_weights_allocate first");
    if (status == BO_OK)
        status = bo_tensors_write_output(context, output, package.tensors, package.count, package.metadata,
                                         package.meta_count);
    bo_package_free(&package);
    return status;
}

bo_status bo_weights_save(bo_context *context, const bo_weights *weights, const bo_sink *sink)
{
    bo_sink_clear(sink);
    BO_REQUIRE(context, weights, sink);
    bo_output *output;
    BO_TRY(bo_output_open_sink(context, sink, &output));
    return bo_output_finish(context, output, write_weights(context, weights, output));
}

/* Checks everything before it changes anything. */
static bo_status set_weights(bo_context *context, bo_weights *weights, const bo_tensors *file)
{
    const size_t count = bo_weights_count(weights);
    const bo_file_tensor *tensor;
    for (size_t i = 0; i < count; i++) {
        const bo_weight *weight = bo_weights_at(weights, i);
        BO_TRY(bo_tensors_require(context, file, weight->name, BO_F32, weight->rank, weight->shape, &tensor));
    }
    if (bo_tensors_count(file) != count)
        return bo_fail(context, BO_FORMAT, "%s: has %zu tensors, expected %zu", bo_tensors_path(file),
                       bo_tensors_count(file), count);
    for (size_t i = 0; i < count; i++) {
        const char *name = bo_weights_at(weights, i)->name;
        BO_TRY(bo_weights_set(context, weights, name, bo_tensors_find(file, name)->data));
    }
    return BO_OK;
}

static bo_status check_memory(bo_context *context, const bo_weights *weights)
{
    if (bo_weights_data(weights)) return BO_OK;
    return bo_fail(context, BO_INVALID, "the weights %s",
                   bo_weights_memory(weights) ? "are stored in fewer bits, for inference only"
                                              : "have no memory yet: call bo_weights_allocate first");
}

bo_status bo_weights_load(bo_context *context, bo_weights *weights, const bo_source *source)
{
    BO_REQUIRE(context, weights, source);
    bo_tensors *file;
    BO_TRY(check_memory(context, weights));
    BO_TRY(bo_tensors_open_source(context, source, &file));
    const bo_status status = set_weights(context, weights, file);
    bo_tensors_close(file);
    return status;
}
