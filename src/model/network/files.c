/* The files of a network: config.json with the description and the facts about the data, and the tensors: weights,
 * scalings and the maps of random features. */
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include "../../nn/enums.h"
#include "../enums.h"
#include "../../io/schema.h"
#include "../../io/bytes.h"
#include "../../device/cpu/kernels.h"
#include "../config.h"
#include "internal.h"

enum { FORMAT = 4, FORMER = 2, DEPTH = 24, SCALINGS = 4 };

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

size_t bo_network_maps(const bo_network *network)
{
    size_t count = 0;
    for (size_t i = 0; i < network->count; i++) {
        count += network->layers[i].features != NULL;
        if (network->layers[i].attention) count += bo_attention_maps(network->layers[i].attention);
        if (network->layers[i].inner) count += bo_network_maps(network->layers[i].inner);
    }
    return count;
}

bo_status bo_network_pack_maps(bo_context *context, const bo_network *network, bo_package *package)
{
    for (size_t i = 0; i < network->count; i++) {
        const bo_layer *layer = &network->layers[i];
        const bo_nn_name prefix = bo_nn_join(layer->name, ".");
        if (layer->features) BO_TRY(bo_package_map(context, package, layer->features, prefix.text));
        if (layer->attention) BO_TRY(bo_package_attention(context, package, layer->attention, prefix.text));
        if (layer->inner) BO_TRY(bo_network_pack_maps(context, layer->inner, package));
    }
    return BO_OK;
}

bo_status bo_network_pack(bo_context *context, const bo_network *network, bo_package *package)
{
    BO_TRY(bo_package_weights(context, network->weights, bo_network_maps(network), SCALINGS, package));
    BO_TRY(pack_scalings(context, network, package));
    return bo_network_pack_maps(context, network, package);
}

/* ---- fields ------------------------------------------------------------------------------------------------------ */

BO_FIELD_NAMES(bo_parametrization, parametrization)

static const bo_field build_fields[] = {
    BO_FIELD_NEEDED(bo_build, "seed", SEED, seed),
    BO_FIELD_NEEDED(bo_build, "width_multiplier", REAL, multiplier),
    {.name = "parametrization",
     .type = BO_FIELD_NAME,
     .offset = offsetof(bo_build, parametrization),
     .required = true,
     .names = parametrization_names},
    BO_FIELD_NEEDED(bo_build, "dim", SIZE, info.dim),
    BO_FIELD_NEEDED(bo_build, "targets", SIZE, info.targets),
    BO_FIELD_NEEDED(bo_build, "classes", SIZE, info.classes),
};

/* ---- writing config.json ----------------------------------------------------------------------------------------- */

bo_status bo_network_config_write(bo_context *context, const bo_network *network, bo_json_text *text)
{
    void *schema = NULL;
    size_t size;
    if (network->schema) BO_TRY(bo_schema_write(context, network->schema, false, &schema, &size));
    bo_json_raw(text, "{\n\"architectures\": [");
    bo_json_string(text, bo_config_architecture(BO_MODEL_TASK_PREDICT));
    bo_json_raw(text, "],\n\"model_type\": \"bochner\",\n\"bochner_format\": ");
    bo_json_whole(text, FORMAT);
    bo_json_raw(text, ",\n\"bochner_version\": ");
    bo_json_string(text, bo_version());
    bo_json_raw(text, ",\n\"task\": ");
    bo_json_string(text, bo_model_task_name(BO_MODEL_TASK_PREDICT));
    const bo_build build = {network->info, network->multiplier, network->parametrization, network->seed};
    bo_json_raw(text, ",");
    bo_fields_write(text, build_fields, sizeof build_fields / sizeof *build_fields, &build, "");
    bo_json_raw(text, ",\n\"schema\": ");
    bo_json_raw(text, schema ? schema : "null");
    bo_json_raw(text, ",\n\"network\": ");
    bo_json_raw(text, network->text);
    bo_json_raw(text, "\n}\n");
    bo_free(schema);
    return text->failed ? BO_MEMORY : BO_OK;
}

/* ---- reading weights --------------------------------------------------------------------------------------------- */

static bo_status find_floats(bo_context *context, const bo_tensors *file, const char *name, size_t rank,
                             const size_t *shape, bool *used, const bo_file_tensor **out)
{
    BO_TRY(bo_tensors_require(context, file, name, BO_F32, rank, shape, out));
    used[*out - bo_tensors_at(file, 0)] = true;
    if (bo_context_kernels(context)->finite((*out)->bytes / sizeof(float), (*out)->data)) return BO_OK;
    return bo_fail(context, BO_FORMAT, "%s: tensor '%s' contains a NaN or infinity", bo_tensors_path(file), name);
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
        const size_t turn = i < 2 ? network->info.dim : network->info.targets;
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

bo_status bo_network_read_maps(bo_context *context, bo_network *network, const bo_tensors *file, bool *used)
{
    for (size_t i = 0; i < network->count; i++) {
        bo_layer *layer = &network->layers[i];
        const bo_nn_name prefix = bo_nn_join(layer->name, ".");
        if (layer->attention) BO_TRY(bo_attention_unpack(context, file, prefix.text, used, layer->attention));
        if (layer->features) BO_TRY(bo_map_replace(context, file, prefix.text, used, &layer->features));
        if (layer->inner) BO_TRY(bo_network_read_maps(context, layer->inner, file, used));
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
    BO_TRY(bo_network_read_maps(context, network, file, used));
    for (size_t i = 0; i < bo_tensors_count(file); i++)
        if (!used[i])
            return bo_fail(context, BO_FORMAT,
                           "%s: tensor '%.100s' is not part of the network that its description has",
                           bo_tensors_path(file), bo_tensors_at(file, i)->name);
    if (!bo_weights_data(weights)) BO_TRY(bo_weights_allocate(context, weights, false));
    for (size_t i = 0; i < bo_weights_count(weights); i++) {
        const bo_weight *weight = bo_weights_at(weights, i);
        tensor = bo_tensors_find(file, weight->name);
        BO_TRY(bo_buffer_write(context, bo_weights_device(weights), weight->data, tensor->data, tensor->bytes));
    }
    return BO_OK;
}

bo_status bo_network_fill(bo_context *context, bo_network *network, const bo_tensors *file)
{
    bool *used = bo_alloc(context, bo_tensors_count(file), sizeof *used, "a list of tensors");
    const bo_status status = used ? read_all(context, network, file, used) : BO_MEMORY;
    bo_free(used);
    return status;
}

/* ---- reading config.json ----------------------------------------------------------------------------------------- */

typedef struct header {
    size_t format;
    bool causal; /* ridge attention is causal, as in format 1 of network.json; the weights are the same */
    bo_build build;
    const bo_json *model;
} header;

/* Reads the format of network.json or config.json, and finds the description. */
static bo_status read_format(bo_context *context, const char *where, const bo_json *json, header *out)
{
    const char *const name = bo_json_member(json, "bochner_network") != NULL ? "bochner_network" : "bochner_format";
    const bool former = strcmp(name, "bochner_network") == 0;
    const size_t max_format = former ? FORMER : FORMAT;
    if (!bo_json_size(bo_json_member(json, name), &out->format) || out->format < 1)
        return bo_fail(context, BO_FORMAT, "%s: \"%s\" should be a whole number", where, name);
    if (out->format > max_format)
        return bo_fail(context, BO_VERSION, "%s: the network has format %zu, but Bochner %s reads formats up to %zu",
                       where, out->format, bo_version(), max_format);
    out->causal = former && out->format < FORMER;
    out->model = bo_json_member(json, former ? "model" : "network");
    return BO_OK;
}

static bo_status read_header(bo_context *context, const char *where, const bo_json *json, header *out)
{
    BO_TRY(read_format(context, where, json, out));
    if (!out->model) return bo_fail(context, BO_FORMAT, "%s: the description of the network is missing", where);
    return bo_fields_read(context, where, build_fields, sizeof build_fields / sizeof *build_fields, json, &out->build);
}

static bo_status read_schema(bo_context *context, const bo_json *json, bo_network *network)
{
    const bo_json *item = bo_json_member(json, "schema");
    if (!item || bo_json_is(item, BO_JSON_NULL)) return BO_OK;
    char *text = bo_json_print(item);
    if (!text) return bo_fail(context, BO_MEMORY, "out of memory: a schema");
    bo_schema *schema;
    const bo_status status = bo_schema_parse(context, text, strlen(text), &schema);
    if (status == BO_OK) bo_network_set_schema(network, schema);
    free(text);
    return status;
}

static bool attends_both_ways(const bo_network *network)
{
    for (size_t i = 0; i < network->count; i++) {
        const bo_attention *attention = network->layers[i].attention;
        const bo_attention_desc *desc = attention ? bo_attention_describe(attention) : NULL;
        if (desc && !desc->causal && bo_attention_has(desc, BO_TRAIT_MEMORY)) return true;
    }
    return false;
}

static bo_status check_format(bo_context *context, const char *where, const header *head, const bo_network *network)
{
    if (!head->causal || !attends_both_ways(network)) return BO_OK;
    return bo_fail(
        context, BO_VERSION,
        "%s: the network has format %zu, in which ridge attention was always causal; this version attends to "
        "the whole sequence unless \"causal\" is true: train the network again",
        where, head->format);
}

/* Reports an invalid argument as an error in the file. */
static bo_status format_error(bo_context *context, const char *where, bo_status status)
{
    char message[700];
    if (status != BO_INVALID) return status;
    snprintf(message, sizeof message, "%s", bo_context_error(context));
    return bo_fail(context, BO_FORMAT, "%s: %s", where, message);
}

bo_status bo_network_parse(bo_context *context, const char *where, const char *text, size_t length, bo_network **out)
{
    bo_json *json;
    header head = {0};
    *out = NULL;
    if (length > bo_limits_network.bytes)
        return bo_input_too_large(context, where, length, false, bo_limits_network.bytes);
    BO_TRY(bo_json_parse(context, where, text, length, DEPTH, &json));
    bo_status status = read_header(context, where, json, &head);
    if (status == BO_OK)
        status = format_error(context, where, bo_network_build(context, where, head.model, &head.build, out));
    if (status == BO_OK) status = check_format(context, where, &head, *out);
    if (status == BO_OK) status = read_schema(context, json, *out);
    bo_json_delete(json);
    if (status != BO_OK) {
        bo_network_destroy(*out);
        *out = NULL;
    }
    return status;
}

bo_status bo_network_config_is(bo_context *context, const char *where, const char *text, size_t length, bool *out)
{
    const char *name = bo_model_task_name(BO_MODEL_TASK_PREDICT);
    bo_json *json;
    *out = false;
    if (!strstr(text, name) && !strstr(text, "bochner_network")) return BO_OK; /* before it is parsed */
    const bo_status status = bo_json_parse(context, where, text, length, DEPTH, &json);
    if (status != BO_OK) return status == BO_FORMAT ? BO_OK : status; /* the reader reports the error */
    const char *task = bo_json_text_or_null(bo_json_member(json, "task"));
    *out = bo_json_member(json, "bochner_network") != NULL || (task && strcmp(task, name) == 0);
    bo_json_delete(json);
    return BO_OK;
}
