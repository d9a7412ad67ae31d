/* A list of layers in place of the MLP of a block: a network without a loss whose input is the residual stream. */
#include <stdlib.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "../../features/fingerprint.h"
#include "../files.h"
#include "internal.h"

enum { DEPTH = 8, MAX_BYTES = 1 << 20, PLACES = 1 << 16 };

static bo_status parse(bo_context *context, const char *layers, bo_json **out)
{
    const size_t length = strlen(layers);
    if (length <= MAX_BYTES) return bo_json_parse(context, "layers", layers, length, DEPTH, out);
    return bo_fail(context, BO_INVALID, "layers: %zu bytes are too large for a description", length);
}

static void widen(bo_json *list, double share)
{
    for (bo_json *json = list->child; json; json = json->next) {
        const char *name = bo_json_text_or_null(bo_json_member(json, "type"));
        const bo_layer_type *type = name ? bo_layer_type_find(name) : NULL;
        for (size_t i = 0; type && i < type->field_count; i++) {
            if (type->fields[i].type != BO_FIELD_WIDTH) continue;
            bo_json *width = bo_json_member(json, type->fields[i].name);
            if (bo_json_is(width, BO_JSON_NUMBER)) width->number = fmax(1, nearbyint(width->number * share));
        }
    }
}

bo_status bo_layers_widen(bo_context *context, const char *layers, double share, char **out)
{
    bo_json *list;
    *out = NULL;
    BO_TRY(parse(context, layers, &list));
    if (share != 1) widen(list, share);
    char *text = bo_json_print(list);
    bo_json_delete(list);
    if (!text) return bo_fail(context, BO_MEMORY, "out of memory: a description");
    *out = bo_strdup(context, text);
    free(text);
    return *out ? BO_OK : BO_MEMORY;
}

bo_status bo_layers_normalize(bo_context *context, const char *layers, char **out)
{
    return bo_layers_widen(context, layers, 1, out);
}

/* The description of a network with these layers, which belong to it. */
static bo_json *describe(bo_json *layers, size_t width)
{
    bo_json *json = bo_json_new(BO_JSON_OBJECT), *input = bo_json_put_new(json, "input", bo_json_new(BO_JSON_OBJECT));
    const bool whole = bo_json_put_new(input, "kind", bo_json_new_text("array")) &&
                       bo_json_put_new(input, "width", bo_json_new_number((double)width)) &&
                       bo_json_put_new(json, "loss", bo_json_new_text("mse"));
    if (whole && bo_json_put(json, "layers", layers)) return json;
    bo_json_delete(layers);
    bo_json_delete(json);
    return NULL;
}

/* Records the layers once, with weights that are dropped, to find the shapes and create the objects of layers. */
static bo_status try_layers(bo_context *context, bo_network *network)
{
    BO_TRY(bo_weights_create(context, &network->weights));
    const bo_status status = bo_network_declare(context, network);
    bo_weights_destroy(network->weights);
    network->weights = NULL;
    return status;
}

static bo_status check_output(bo_context *context, const bo_network *network)
{
    const bo_layer *last = &network->layers[network->output];
    if (last->shape.rank == 0 && last->shape.channels == network->info.dim) return BO_OK;
    return bo_fail(context, BO_INVALID, "layers: %s: its output is %s, expected the %zu numbers of the residual stream",
                   bo_layer_name(last).text, bo_shape_text(&last->shape).text, network->info.dim);
}

static void name_layers(bo_network *network, const bo_layers_place *place)
{
    for (size_t i = 0; i < network->count; i++) {
        bo_layer *layer = &network->layers[i];
        char inner_name[BO_NETWORK_NAME];
        snprintf(inner_name, sizeof inner_name, "%.*s", BO_NETWORK_NAME - 1, layer->name);
        snprintf(layer->name, sizeof layer->name, "%.*s.%s", BO_LAYER_NAME - BO_NETWORK_NAME - 1, place->prefix,
                 inner_name);
        layer->place += (place->number + 1) * PLACES;
    }
}

static bo_status build(bo_context *context, const char *layers, const bo_layers_place *place, bo_network *network)
{
    bo_json *list, *json = NULL;
    BO_TRY(parse(context, layers, &list));
    json = describe(list, place->width);
    if (!json) return bo_fail(context, BO_MEMORY, "out of memory: a description");
    const bo_status status = bo_network_describe(context, "layers", json, network);
    bo_json_delete(json);
    BO_TRY(status);
    name_layers(network, place);
    const bo_status tried = try_layers(context, network);
    if (tried == BO_OK) return check_output(context, network);
    return tried == BO_MEMORY ? tried : bo_fail(context, tried, "layers: %s", bo_context_error(context));
}

bo_status bo_network_of_layers(bo_context *context, const char *layers, const bo_layers_place *place, bo_network **out)
{
    bo_network *network = bo_alloc(context, 1, sizeof *network, "layers");
    if (!network) return BO_MEMORY;
    network->multiplier = 1;
    network->within = true;
    network->seed = place->seed;
    network->info.targets = place->width;
    const bo_status status = build(context, layers, place, network);
    if (status != BO_OK)
        bo_network_destroy(network);
    else
        *out = network;
    return status;
}

bo_value bo_network_record(bo_graph *graph, const bo_network *network, bo_value x)
{
    bo_context *context = bo_graph_context(graph);
    const bo_model_graph_desc desc = {.examples = bo_graph_rows(graph, x)};
    bo_model_graph out = {.graph = graph, .network.x = x};
    bo_recorder r = {
        .context = context, .network = network, .desc = &desc, .out = &out, .graph = graph, .examples = desc.examples};
    bo_value y = 0;
    if (!x) return 0; /* an earlier operation failed */
    bo_value *values = bo_record_layers(&r, false);
    if (values) y = values[network->output];
    bo_free(values);
    return r.status == BO_OK ? y : bo_graph_set_error(graph, r.status);
}

/* ---- random features --------------------------------------------------------------------------------------------- */

static const bo_features *find_map(const bo_network *network, const bo_layer *like)
{
    for (size_t i = 0; network && i < network->count; i++) {
        const bo_layer *layer = &network->layers[i];
        if (layer->features && strcmp(layer->name, like->name) == 0 &&
            bo_maps_alike(bo_features_describe(layer->features), bo_features_describe(like->features)))
            return layer->features;
    }
    return NULL;
}

bo_status bo_network_adopt_maps(bo_context *context, bo_network *network, const bo_network *from, bool *copied)
{
    *copied = true;
    for (size_t i = 0; i < network->count; i++) {
        bo_layer *layer = &network->layers[i];
        const bo_features *other = layer->features ? find_map(from, layer) : NULL;
        bo_features *map;
        *copied = *copied && (other || !layer->features);
        if (!other) continue;
        BO_TRY(bo_map_copy(context, other, &map));
        bo_features_destroy(layer->features);
        layer->features = map;
    }
    return BO_OK;
}

uint64_t bo_network_frequencies(const bo_network *network)
{
    uint64_t numbers = 0;
    for (size_t i = 0; i < network->count; i++) {
        const bo_features *map = network->layers[i].features;
        if (map) numbers += (uint64_t)bo_features_frequencies(map) * bo_features_describe(map)->dim;
    }
    return numbers;
}

uint64_t bo_network_maps_fingerprint(const bo_network *network)
{
    uint64_t hash = 0;
    for (size_t i = 0; i < network->count; i++)
        if (network->layers[i].features)
            hash = (hash ^ bo_features_fingerprint(network->layers[i].features)) * UINT64_C(0x100000001b3);
    return hash;
}
