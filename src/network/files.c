/* A network as a folder: network.json with the description and the facts taken from the data, and model.safetensors
 * with the weights, the scalings and the maps of random features. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "../base/trace.h"
#include "../io/bytes.h"
#include "../io/checksum.h"
#include "../io/output.h"
#include "../device/cpu/kernels.h"
#include "../nn/weight_files.h"
#include "internal.h"

enum { FORMAT = 2, DEPTH = 24, PATH = 4096, SCALINGS = 4 };

/* The files of the folder. In memory, the description is metadata under the name of its file. */
#define DESCRIPTION_NAME "network.json"
static const char DESCRIPTION[] = DESCRIPTION_NAME, WEIGHTS[] = "model.safetensors",
                  DESCRIPTION_SUM[] = BO_TENSORS_COMPANION(DESCRIPTION_NAME);

static bo_status path_in(bo_context *context, const char *folder, const char *name, char out[PATH])
{
    const int length = snprintf(out, PATH, "%s/%s", folder, name);
    if (length >= 0 && length < PATH - 32) return BO_OK; /* leaves space for temporary names */
    return bo_fail(context, BO_INVALID, "the path %.80s… is too long", folder);
}

/* ---- scalings and maps ------------------------------------------------------------------------------------------- */

static const char *const scaling_names[SCALINGS] = {"scaling.input.shift", "scaling.input.scale",
                                                    "scaling.target.shift", "scaling.target.scale"};

static bo_network_scaling *scaling_at(bo_network *network, size_t index)
{
    return index < 2 ? &network->inputs : &network->outputs;
}

static bo_status pack_scalings(bo_context *context, const bo_network *network, bo_package *package)
{
    for (size_t i = 0; i < SCALINGS; i++) {
        const bo_network_scaling *scaling = i < 2 ? &network->inputs : &network->outputs;
        if (!scaling->count) continue;
        bo_file_tensor tensor = {.dtype = BO_F32,
                                 .rank = 1,
                                 .shape = {scaling->count},
                                 .data = i % 2 ? scaling->scale : scaling->shift,
                                 .bytes = scaling->count * sizeof(float)};
        BO_TRY(bo_package_add(context, package, scaling_names[i], &tensor));
    }
    return BO_OK;
}

static size_t count_maps(const bo_network *network)
{
    size_t count = 0;
    for (size_t i = 0; i < network->count; i++) {
        count += network->layers[i].features != NULL;
        if (network->layers[i].attention) count += bo_attention_maps(network->layers[i].attention);
    }
    return count;
}

static bo_status pack_maps(bo_context *context, const bo_network *network, bo_package *package)
{
    for (size_t i = 0; i < network->count; i++) {
        const bo_layer *layer = &network->layers[i];
        const bo_nn_name prefix = bo_nn_join(layer->name, ".");
        if (layer->features) BO_TRY(bo_package_map(context, package, layer->features, prefix.text));
        if (layer->attention) BO_TRY(bo_package_attention(context, package, layer->attention, prefix.text));
    }
    return BO_OK;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

/* Writes the weights, and as metadata the text of network.json or, if that is in a separate file, its checksum. */
static bo_status write_weights(bo_context *context, const bo_network *network, const bo_json_text *description,
                               bool separate, bo_output *output)
{
    bo_package package = {0};
    char sum[BO_CHECKSUM_TEXT];
    bo_checksum_text(description->bytes, description->length, sum);
    bo_status status = bo_package_weights(context, network->weights, count_maps(network), SCALINGS, &package);
    if (status == BO_OK) status = pack_scalings(context, network, &package);
    if (status == BO_OK) status = pack_maps(context, network, &package);
    if (status == BO_OK)
        status = separate ? bo_package_text(context, &package, DESCRIPTION_SUM, sum)
                          : bo_package_text(context, &package, DESCRIPTION, description->bytes);
    if (status == BO_OK)
        status =
            bo_tensors_write_output(context, output, package.tensors, package.count, package.metas, package.meta_count);
    bo_package_free(&package);
    return status;
}

/* Returns the format of a network's file: 1, or 2 if it has a memory that is not causal (ridge attention). In format 1
 * that attention was causal, with the same weights. */
static size_t format_of(const bo_network *network)
{
    for (size_t i = 0; i < network->count; i++) {
        const bo_attention *attention = network->layers[i].attention;
        const bo_attention_desc *desc = attention ? bo_attention_describe(attention) : NULL;
        if (desc && !desc->causal && bo_attention_has(desc, BO_TRAIT_MEMORY)) return 2;
    }
    return 1;
}

/* Makes the text of network.json. text->bytes is freed with bo_free, also after a failure. */
static bo_status describe(bo_context *context, const bo_network *network, bo_json_text *text)
{
    void *schema = NULL;
    size_t size;
    if (network->schema) BO_TRY(bo_schema_save_memory(context, network->schema, &schema, &size));
    bo_json_raw(text, "{\n\"bochner_network\": ");
    bo_json_whole(text, format_of(network));
    bo_json_raw(text, ",\n\"bochner_version\": ");
    bo_json_string(text, bo_version());
    bo_json_raw(text, ",\n\"seed\": ");
    bo_json_digits(text, network->seed);
    bo_json_raw(text, ",\n\"width_multiplier\": ");
    bo_json_number(text, network->multiplier);
    bo_json_raw(text, ",\n\"parametrization\": ");
    bo_json_string(text, bo_parametrization_name(network->parametrization));
    bo_json_raw(text, ",\n\"dim\": ");
    bo_json_whole(text, network->facts.dim);
    bo_json_raw(text, ",\n\"targets\": ");
    bo_json_whole(text, network->facts.targets);
    bo_json_raw(text, ",\n\"classes\": ");
    bo_json_whole(text, network->facts.classes);
    bo_json_raw(text, ",\n\"schema\": ");
    bo_json_raw(text, schema ? schema : "null");
    bo_json_raw(text, ",\n\"model\": ");
    bo_json_raw(text, network->text);
    bo_json_raw(text, "\n}\n");
    bo_free(schema);
    return text->failed ? BO_MEMORY : BO_OK;
}

/* Both files are complete before one of them gets its name. The weights hold the checksum of the description, so that a
 * load detects a folder in which only one of them was replaced. */
static bo_status write_files(bo_context *context, const bo_network *network, const char *folder,
                             const bo_json_text *description)
{
    char path[PATH];
    bo_output *files[2];
    BO_TRY(path_in(context, folder, DESCRIPTION, path));
    BO_TRY(bo_output_open(context, path, &files[0]));
    bo_status status = bo_output_write(context, files[0], description->bytes, description->length);
    if (status == BO_OK) status = path_in(context, folder, WEIGHTS, path);
    if (status == BO_OK) status = bo_output_open(context, path, &files[1]);
    if (status != BO_OK) return bo_output_finish(context, files[0], status);
    status = write_weights(context, network, description, true, files[1]);
    return bo_output_finish_all(context, files, 2, status);
}

bo_status bo_network_write(bo_context *context, const bo_network *network, const char *folder)
{
    bo_json_text text = {.context = context};
    bo_status status = describe(context, network, &text);
    if (status == BO_OK) status = write_files(context, network, folder, &text);
    bo_free(text.bytes);
    return status;
}

bo_status bo_network_save_memory(bo_context *context, const bo_network *network, void **bytes, size_t *size)
{
    if (bytes) *bytes = NULL;
    if (size) *size = 0;
    BO_REQUIRE(context, network, bytes, size);
    bo_json_text text = {.context = context};
    bo_output *output;
    BO_TRY(bo_output_open_memory(context, bytes, size, &output));
    bo_status status = describe(context, network, &text);
    if (status == BO_OK) status = write_weights(context, network, &text, false, output);
    bo_free(text.bytes);
    return bo_output_finish(context, output, status);
}

bo_status bo_network_save(bo_context *context, const bo_network *network, const char *folder)
{
    BO_REQUIRE(context, network, folder);
    if (!*folder) return bo_fail(context, BO_INVALID, "network: no folder is given");
    BO_TRY(bo_output_folder(context, folder));
    return bo_network_write(context, network, folder);
}

/* ---- reading weights --------------------------------------------------------------------------------------------- */

static bo_status find_floats(bo_context *context, const bo_tensors *file, const char *name, size_t rank,
                             const size_t *shape, bool *used, const bo_file_tensor **out)
{
    BO_TRY(bo_tensors_require(context, file, name, BO_F32, rank, shape, out));
    used[*out - bo_tensors_at(file, 0)] = true;
    if (bo_context_kernels(context)->finite((*out)->bytes / sizeof(float), (*out)->data)) return BO_OK;
    return bo_fail(context, BO_FORMAT, "%s: tensor '%s' holds a number that is not finite", bo_tensors_path(file),
                   name);
}

/* True if the file must contain this scaling: it was fitted to a table. A network created without data has none. */
static bool must_scale(const bo_network *network, size_t index)
{
    const bool numbers = network->loss == BO_NETWORK_MSE || network->loss == BO_NETWORK_L1;
    if (!network->schema) return false;
    return index < 2 ? network->standardize : numbers && network->target == BO_NO_LAYER;
}

static bo_status read_scalings(bo_context *context, bo_network *network, const bo_tensors *file, bool *used)
{
    for (size_t i = 0; i < SCALINGS; i++) {
        bo_network_scaling *scaling = scaling_at(network, i);
        const bo_file_tensor *tensor = bo_tensors_find(file, scaling_names[i]);
        const size_t turn = i < 2 ? network->facts.dim : network->facts.targets;
        if (!tensor && !(i % 2 && scaling->count) && !must_scale(network, i)) continue;
        BO_TRY(find_floats(context, file, scaling_names[i], 1, (size_t[]){scaling->count}, used, &tensor));
        if (!tensor->shape[0] || !turn || turn % tensor->shape[0] != 0)
            return bo_fail(context, BO_FORMAT, "%s: tensor '%s' has %zu numbers, which does not divide %zu",
                           bo_tensors_path(file), scaling_names[i], tensor->shape[0], turn);
        if (!scaling->count) BO_TRY(bo_scaling_create(context, tensor->shape[0], scaling));
        memcpy(i % 2 ? scaling->scale : scaling->shift, tensor->data, tensor->bytes);
        for (size_t j = 0; i % 2 && j < scaling->count; j++)
            if (!(scaling->scale[j] > 0))
                return bo_fail(context, BO_FORMAT, "%s: tensor '%s' should have positive numbers",
                               bo_tensors_path(file), scaling_names[i]);
    }
    return BO_OK;
}

static bo_status read_maps(bo_context *context, bo_network *network, const bo_tensors *file, bool *used)
{
    for (size_t i = 0; i < network->count; i++) {
        bo_layer *layer = &network->layers[i];
        const bo_nn_name prefix = bo_nn_join(layer->name, ".");
        if (layer->attention) BO_TRY(bo_attention_unpack(context, file, prefix.text, used, layer->attention));
        if (layer->features) BO_TRY(bo_map_replace(context, file, prefix.text, used, &layer->features));
    }
    return BO_OK;
}

static bo_status read_all(bo_context *context, bo_network *network, const bo_tensors *file, bool *used)
{
    bo_weights *weights = network->weights;
    const bo_file_tensor *tensor;
    /* before memory is allocated for the sizes of the description */
    for (size_t i = 0; i < bo_weights_count(weights); i++) {
        const bo_weight *weight = bo_weights_at(weights, i);
        BO_TRY(find_floats(context, file, weight->name, weight->rank, weight->shape, used, &tensor));
    }
    BO_TRY(read_scalings(context, network, file, used));
    BO_TRY(read_maps(context, network, file, used));
    for (size_t i = 0; i < bo_tensors_count(file); i++)
        if (!used[i])
            return bo_fail(context, BO_FORMAT,
                           "%s: tensor '%.100s' is not part of the network that network.json describes",
                           bo_tensors_path(file), bo_tensors_at(file, i)->name);
    if (!bo_weights_data(weights)) BO_TRY(bo_weights_allocate(context, weights, false));
    for (size_t i = 0; i < bo_weights_count(weights); i++) {
        const bo_weight *weight = bo_weights_at(weights, i);
        tensor = bo_tensors_find(file, weight->name);
        BO_TRY(bo_buffer_write(context, bo_weights_device(weights), weight->data, tensor->data, tensor->bytes));
    }
    return BO_OK;
}

static bo_status read_weights(bo_context *context, bo_network *network, const bo_tensors *file)
{
    bool *used = bo_alloc(context, bo_tensors_count(file), sizeof *used, "a list of tensors");
    const bo_status status = used ? read_all(context, network, file, used) : BO_MEMORY;
    bo_free(used);
    return status;
}

/* sum: the checksum of network.json, to be compared; NULL: not known. */
static bo_status read_folder(bo_context *context, bo_network *network, const char *folder, const char *sum)
{
    char path[PATH], description[PATH];
    bo_tensors *file;
    BO_TRY(path_in(context, folder, WEIGHTS, path));
    BO_TRY(path_in(context, folder, DESCRIPTION, description));
    BO_TRY(bo_tensors_open(context, path, &file));
    if (sum) bo_tensors_compare(context, file, DESCRIPTION_SUM, description, sum);
    const bo_status status = read_weights(context, network, file);
    bo_tensors_close(file);
    return status;
}

bo_status bo_network_read(bo_context *context, bo_network *network, const char *folder)
{
    return read_folder(context, network, folder, NULL);
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

typedef struct header {
    size_t format;
    bo_build build;
    const cJSON *model;
} header;

static bo_status read_header(bo_context *context, const char *where, const cJSON *json, header *out)
{
    const cJSON *seed = cJSON_GetObjectItemCaseSensitive(json, "seed");
    const cJSON *multiplier = cJSON_GetObjectItemCaseSensitive(json, "width_multiplier");
    const char *kind = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, "parametrization"));
    bo_facts *facts = &out->build.facts;
    if (!bo_json_size(cJSON_GetObjectItemCaseSensitive(json, "bochner_network"), &out->format) || out->format < 1)
        return bo_fail(context, BO_FORMAT, "%s: \"bochner_network\" should be a whole number", where);
    if (out->format > FORMAT)
        return bo_fail(context, BO_VERSION, "%s: the network has format %zu, but Bochner %s reads formats up to %d",
                       where, out->format, bo_version(), FORMAT);
    out->model = cJSON_GetObjectItemCaseSensitive(json, "model");
    if (!out->model || !bo_json_size(cJSON_GetObjectItemCaseSensitive(json, "dim"), &facts->dim) ||
        !bo_json_size(cJSON_GetObjectItemCaseSensitive(json, "targets"), &facts->targets) ||
        !bo_json_size(cJSON_GetObjectItemCaseSensitive(json, "classes"), &facts->classes) || !seed ||
        !cJSON_IsNumber(multiplier) || !bo_parametrization_parse(kind, &out->build.parametrization))
        return bo_fail(context, BO_FORMAT,
                       "%s: seed, width_multiplier, parametrization, dim, targets, classes and model are required",
                       where);
    if (!bo_json_uint64(seed, &out->build.seed))
        return bo_fail(context, BO_FORMAT, "%s: \"seed\" should be a whole number below 2^64 as text", where);
    out->build.multiplier = multiplier->valuedouble;
    return BO_OK;
}

static bo_status read_schema(bo_context *context, const cJSON *json, bo_network *network)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(json, "schema");
    if (!item || cJSON_IsNull(item)) return BO_OK;
    char *text = cJSON_PrintUnformatted(item);
    if (!text) return bo_fail(context, BO_MEMORY, "out of memory: a schema");
    bo_schema *schema;
    const bo_status status = bo_schema_load_memory(context, text, strlen(text), &schema);
    if (status == BO_OK) bo_network_set_schema(network, schema);
    cJSON_free(text);
    return status;
}

static bo_status check_format(bo_context *context, const char *where, size_t format, const bo_network *network)
{
    if (format >= format_of(network)) return BO_OK;
    return bo_fail(
        context, BO_VERSION,
        "%s: the network has format %zu, in which ridge attention was always causal; this version attends to "
        "the whole sequence unless \"causal\" is true: train the network again",
        where, format);
}

/* Reports an error that would be the caller's mistake as an error in the file. */
static bo_status blame(bo_context *context, const char *where, bo_status status)
{
    char words[700];
    if (status != BO_INVALID) return status;
    snprintf(words, sizeof words, "%s", bo_context_error(context));
    return bo_fail(context, BO_FORMAT, "%s: %s", where, words);
}

bo_status bo_network_parse(bo_context *context, const char *where, const char *text, size_t length, bo_network **out)
{
    cJSON *json;
    header head = {0};
    *out = NULL;
    if (length > bo_limits_network.bytes)
        return bo_input_too_large(context, where, length, false, bo_limits_network.bytes);
    BO_TRY(bo_json_parse(context, where, text, length, DEPTH, &json));
    bo_status status = read_header(context, where, json, &head);
    if (status == BO_OK) status = blame(context, where, bo_network_build(context, where, head.model, &head.build, out));
    if (status == BO_OK) status = check_format(context, where, head.format, *out);
    if (status == BO_OK) status = read_schema(context, json, *out);
    cJSON_Delete(json);
    if (status != BO_OK) {
        bo_network_destroy(*out);
        *out = NULL;
    }
    return status;
}

/* Returns the loaded network, or destroys it after an error. */
static bo_status finish_load(bo_status status, bo_network **out)
{
    if (status == BO_OK) return BO_OK;
    bo_network_destroy(*out);
    *out = NULL;
    return status;
}

bo_status bo_network_load(bo_context *context, const char *folder, bo_network **out)
{
    if (out) *out = NULL;
    BO_REQUIRE(context, folder, out);
    BO_SPAN(context, "data", "load network");
    char path[PATH], *text, sum[BO_CHECKSUM_TEXT];
    size_t length;
    BO_TRY(path_in(context, folder, DESCRIPTION, path));
    BO_TRY(bo_bytes_text(context, path, &bo_limits_network, &text, &length));
    bo_checksum_text(text, length, sum);
    bo_status status = bo_network_parse(context, path, text, length, out);
    bo_free(text);
    if (status == BO_OK) status = read_folder(context, *out, folder, sum);
    return finish_load(status, out);
}

bo_status bo_network_load_memory(bo_context *context, const void *bytes, size_t size, bo_network **out)
{
    if (out) *out = NULL;
    BO_REQUIRE(context, out);
    BO_REQUIRE_IF(context, size > 0, bytes);
    BO_SPAN(context, "data", "load network");
    bo_tensors *file;
    BO_TRY(bo_tensors_open_memory(context, "memory", bytes, size, &file));
    const char *text = bo_tensors_meta(file, DESCRIPTION);
    bo_status status =
        text ? bo_network_parse(context, DESCRIPTION, text, strlen(text), out)
             : bo_fail(context, BO_FORMAT, "memory: not a network: \"%s\" is missing in the metadata", DESCRIPTION);
    if (status == BO_OK) status = read_weights(context, *out, file);
    bo_tensors_close(file);
    return finish_load(status, out);
}
