/* A description: input, layers with their options, loss. docs/network.md has the format. */
#include <stdio.h>
#include <string.h>
#include "internal.h"

enum { FORMAT = 1 };

static const char *const loss_names[BO_NETWORK_LOSS_COUNT] = {"mse", "l1", "bce", "kl", "cross-entropy"};
static const char *const input_names[BO_NETWORK_INPUT_COUNT] = {"array", "sequence", "image", "graph"};
BO_NAMED(network_input, bo_network_input, input_names)

const char *bo_network_loss_name(bo_network_loss loss)
{
    return loss_names[loss];
}

bo_layer_label bo_layer_name(const bo_layer *layer)
{
    bo_layer_label label;
    snprintf(label.text, sizeof label.text, "layer %zu (%s)", layer->number,
             layer->named || !layer->type ? layer->name : layer->type->name);
    return label;
}

/* ---- input ----------------------------------------------------------------------------------------------------------------- */

/* A size that may be left out: 0. */
static bo_status read_size(bo_context *context, const char *where, const cJSON *json, const char *name, size_t *out)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(json, name);
    size_t value = 0;
    *out = 0;
    if (!item) return BO_OK;
    if (!bo_json_size(item, &value) || value == 0 || value > BO_NETWORK_SIZE)
        return bo_json_refuse(context, where, name, "a whole number from 1 to 16777216", item);
    *out = value;
    return BO_OK;
}

/* What the description leaves open is as the data has it; what both say must be the same. */
static bo_status meet(bo_context *context, const char *where, const char *what, size_t *mine, size_t data)
{
    if (*mine && data && *mine != data)
        return bo_fail(context, BO_FORMAT, "%s: expected data with %zu %s, found %zu", where, *mine, what, data);
    if (!*mine) *mine = data;
    return BO_OK;
}

static bo_status settle_input(bo_context *context, const char *where, bo_network *network)
{
    bo_shape *shape = &network->input_shape;
    const size_t dim = network->facts.dim;
    if (shape->rank == 2 && (!shape->size[0] || !shape->size[1]))
        return bo_fail(context, BO_FORMAT, "%s: an image needs its \"height\" and \"width\"", where);
    if (shape->rank == 1 && !shape->size[1] && shape->channels && dim % shape->channels == 0)
        shape->size[1] = dim / shape->channels;
    if (shape->rank == 1 && (!shape->size[1] || !shape->channels))
        return bo_fail(context, BO_FORMAT, "%s: a sequence needs its \"length\" and \"channels\"", where);
    if (!shape->channels) shape->channels = shape->rank == 2 ? 1 : dim;
    if (!shape->channels)
        return bo_fail(context, BO_FORMAT, "%s: \"width\" is missing, and there is no data to tell it", where);
    size_t numbers = bo_shape_numbers(shape);
    if (bo_shape_places(shape) > BO_NETWORK_SIZE || numbers > BO_NETWORK_SIZE)
        return bo_fail(context, BO_FORMAT, "%s: an example of more than %d numbers is not supported", where,
                       BO_NETWORK_SIZE);
    BO_TRY(meet(context, where, "numbers an example", &numbers, dim));
    network->facts.dim = numbers;
    return BO_OK;
}

static bo_status read_kind(bo_context *context, const char *place, const cJSON *json, bo_network_input *out)
{
    if (!json) return bo_fail(context, BO_FORMAT, "%s is missing", place);
    if (!cJSON_IsObject(json)) return bo_fail(context, BO_FORMAT, "%s: should be an object with a \"kind\"", place);
    const cJSON *kind = cJSON_GetObjectItemCaseSensitive(json, "kind");
    if (!kind) return bo_fail(context, BO_FORMAT, "%s: \"kind\" is missing", place);
    if (bo_network_input_parse(cJSON_GetStringValue(kind), out)) return BO_OK;
    return bo_json_refuse(context, place, "kind", "array, sequence, image or graph", kind);
}

static bo_status read_input(bo_context *context, const char *where, const cJSON *json, bo_network *network)
{
    static const char *const fields[] = {"kind", "standardize", "width", "length", "channels", "height"};
    char place[300];
    bo_shape *shape = &network->input_shape;
    snprintf(place, sizeof place, "%.250s: \"input\"", where);
    BO_TRY(read_kind(context, place, json, &network->input));
    BO_TRY(bo_json_known(context, place, json,
                         network->input == BO_NETWORK_IMAGE      ? 6
                         : network->input == BO_NETWORK_SEQUENCE ? 5
                                                                 : 3,
                         fields));
    const cJSON *standardize = cJSON_GetObjectItemCaseSensitive(json, "standardize");
    if (standardize && !cJSON_IsBool(standardize))
        return bo_json_refuse(context, place, "standardize", "true or false", standardize);
    network->standardize = standardize ? cJSON_IsTrue(standardize) : network->input != BO_NETWORK_IMAGE;
    *shape = (bo_shape){.size = {1, 1}};
    if (network->input == BO_NETWORK_SEQUENCE) {
        shape->rank = 1;
        BO_TRY(read_size(context, place, json, "length", &shape->size[1]));
    } else if (network->input == BO_NETWORK_IMAGE) {
        shape->rank = 2;
        BO_TRY(read_size(context, place, json, "height", &shape->size[0]));
        BO_TRY(read_size(context, place, json, "width", &shape->size[1]));
    }
    BO_TRY(read_size(context, place, json, shape->rank ? "channels" : "width", &shape->channels));
    return settle_input(context, place, network);
}

/* ---- loss ------------------------------------------------------------------------------------------------------------------ */

static int find_layer(const bo_network *network, const char *name)
{
    for (size_t i = 0; i < network->count; i++)
        if (network->layers[i].named && strcmp(network->layers[i].name, name) == 0) return (int)i;
    return BO_NO_LAYER;
}

static bo_status read_reference(bo_context *context, const char *where, const cJSON *json, const char *field,
                                const bo_network *network, int *out)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(json, field);
    const char *name = cJSON_GetStringValue(item);
    *out = BO_NO_LAYER;
    if (!item) return BO_OK;
    if (name && strcmp(name, "input") == 0)
        *out = BO_INPUT_LAYER;
    else if (name)
        *out = find_layer(network, name);
    return *out == BO_NO_LAYER ? bo_json_refuse(context, where, field, "\"input\" or the name of a layer", item)
                               : BO_OK;
}

/* A word, or an object with a "type". */
static bo_status read_loss_type(bo_context *context, const char *place, const cJSON *json, bo_network_loss *out)
{
    if (!json) return bo_fail(context, BO_FORMAT, "%s is missing", place);
    const cJSON *type = cJSON_IsObject(json) ? cJSON_GetObjectItemCaseSensitive(json, "type") : json;
    if (!type) return bo_fail(context, BO_FORMAT, "%s: \"type\" is missing", place);
    const int kind = bo_find_name(cJSON_GetStringValue(type), loss_names, BO_NETWORK_LOSS_COUNT);
    if (kind < 0) return bo_json_refuse(context, place, "type", "mse, l1, bce, kl or cross-entropy", type);
    *out = (bo_network_loss)kind;
    return BO_OK;
}

static bo_status read_loss(bo_context *context, const char *where, const cJSON *json, bo_network *network)
{
    static const char *const fields[] = {"type", "target", "masked"};
    char place[300];
    snprintf(place, sizeof place, "%.250s: \"loss\"", where);
    BO_TRY(read_loss_type(context, place, json, &network->loss));
    network->target = network->masked = BO_NO_LAYER;
    if (!cJSON_IsObject(json)) return BO_OK;
    BO_TRY(bo_json_known(context, place, json, 3, fields));
    BO_TRY(read_reference(context, place, json, "target", network, &network->target));
    return read_reference(context, place, json, "masked", network, &network->masked);
}

/* ---- layers ---------------------------------------------------------------------------------------------------------------- */

static bool plain_name(const char *name)
{
    const size_t length = strlen(name);
    return length > 0 && length < BO_NETWORK_NAME && strcmp(name, "input") != 0 &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") == length;
}

static bo_status name_layer(bo_context *context, const char *where, const cJSON *json, bo_layer *layer)
{
    const cJSON *name = cJSON_GetObjectItemCaseSensitive(json, "name"), *type;
    const char *text = cJSON_GetStringValue(name);
    char place[300];
    snprintf(place, sizeof place, "%.250s: layer %zu", where, layer->number);
    if (!cJSON_IsObject(json)) return bo_fail(context, BO_FORMAT, "%s: should be an object with a \"type\"", place);
    if (name && !(text && plain_name(text)))
        return bo_json_refuse(context, place, "name", "fewer than 64 letters, digits, - and _, and not \"input\"",
                              name);
    if (text) snprintf(layer->name, sizeof layer->name, "%s", text);
    layer->named = text != NULL;
    if (text) snprintf(place, sizeof place, "%.200s: layer %zu (%s)", where, layer->number, text);
    type = cJSON_GetObjectItemCaseSensitive(json, "type");
    if (!type) return bo_fail(context, BO_FORMAT, "%s: \"type\" is missing", place);
    text = cJSON_GetStringValue(type);
    if (!text) return bo_json_refuse(context, place, "type", "the name of a type of layers", type);
    layer->type = bo_layer_type_find(text);
    if (!layer->type) {
        const char *nearest = bo_layer_type_nearest(text);
        return bo_fail(context, BO_FORMAT, "%s: there is no type \"%.60s\"%s%s%s", place, text,
                       nearest ? "; is \"" : "", nearest ? nearest : "", nearest ? "\" meant?" : "");
    }
    if (!layer->named) snprintf(layer->name, sizeof layer->name, "%.40s.%zu", layer->type->name, layer->number);
    return BO_OK;
}

static bo_status read_layers(bo_context *context, const char *where, const cJSON *json, bo_network *network)
{
    const size_t count = cJSON_IsArray(json) ? (size_t)cJSON_GetArraySize(json) : 0;
    const cJSON *item;
    if (!count) return bo_fail(context, BO_FORMAT, "%s: \"layers\" should be a list of layers, of one or more", where);
    if (count > BO_NETWORK_LAYERS)
        return bo_fail(context, BO_FORMAT, "%s: %zu layers are more than the %d that are supported", where, count,
                       BO_NETWORK_LAYERS);
    network->layers = bo_alloc(context, count, sizeof *network->layers, "a network's layers");
    if (!network->layers) return BO_MEMORY;
    cJSON_ArrayForEach(item, json)
    {
        bo_layer *layer = &network->layers[network->count];
        layer->number = ++network->count;
        BO_TRY(name_layer(context, where, item, layer));
        for (size_t i = 0; layer->named && i + 1 < network->count; i++)
            if (strcmp(network->layers[i].name, layer->name) == 0)
                return bo_fail(context, BO_FORMAT, "%s: layers %zu and %zu are both called \"%s\"", where, i + 1,
                               network->count, layer->name);
        BO_TRY(bo_fields_read(context, where, layer, item, &layer->options));
    }
    return BO_OK;
}

/* ---- all of it ------------------------------------------------------------------------------------------------------------- */

static bo_status check_format(bo_context *context, const char *where, const cJSON *json)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(json, "format");
    size_t format = FORMAT;
    if (item && (!bo_json_size(item, &format) || format == 0))
        return bo_json_refuse(context, where, "format", "a whole number of 1 or more", item);
    if (format <= FORMAT) return BO_OK;
    return bo_fail(context, BO_VERSION, "%s: has format %zu; this is Bochner %s, which reads up to %d", where, format,
                   bo_version(), FORMAT);
}

/* What needs no data to be judged. */
static bo_status read_structure(bo_context *context, const char *where, const cJSON *json, bo_network *network)
{
    BO_TRY(read_layers(context, where, cJSON_GetObjectItemCaseSensitive(json, "layers"), network));
    BO_TRY(read_loss(context, where, cJSON_GetObjectItemCaseSensitive(json, "loss"), network));
    return bo_wiring_read(context, where, json, network);
}

static bo_status check_members(bo_context *context, const char *where, const cJSON *json)
{
    static const char *const fields[] = {"format", "about", "input", "classes", "layers", "output", "loss"};
    if (!cJSON_IsObject(json)) return bo_fail(context, BO_FORMAT, "%s: should be an object with \"layers\"", where);
    BO_TRY(check_format(context, where, json));
    return bo_json_known(context, where, json, sizeof fields / sizeof *fields, fields);
}

bo_status bo_description_read(bo_context *context, const char *where, const cJSON *json, bo_network *network)
{
    size_t classes = 0;
    BO_TRY(check_members(context, where, json));
    BO_TRY(read_size(context, where, json, "classes", &classes));
    BO_TRY(meet(context, where, "classes", &classes, network->facts.classes));
    network->facts.classes = classes;
    BO_TRY(read_input(context, where, cJSON_GetObjectItemCaseSensitive(json, "input"), network));
    BO_TRY(read_structure(context, where, json, network));
    return bo_widths_settle(context, where, network);
}

bo_status bo_description_needs(bo_context *context, const char *where, const cJSON *json, bo_network_needs *out)
{
    char place[300];
    BO_TRY(check_members(context, where, json));
    bo_network *network = bo_alloc(context, 1, sizeof *network, "a network");
    if (!network) return BO_MEMORY;
    snprintf(place, sizeof place, "%.250s: \"input\"", where);
    bo_status status = read_kind(context, place, cJSON_GetObjectItemCaseSensitive(json, "input"), &network->input);
    if (status == BO_OK) status = read_structure(context, where, json, network);
    if (status == BO_OK)
        *out = (bo_network_needs){.input = network->input,
                                  .targets = network->target == BO_NO_LAYER,
                                  .task = network->loss == BO_NETWORK_CROSS_ENTROPY ? BO_TASK_CLASSIFICATION
                                                                                    : BO_TASK_REGRESSION};
    bo_network_destroy(network);
    return status;
}
