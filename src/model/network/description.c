/* Network descriptions: input, layers with their options, loss. docs/guides/network.md defines the format. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "../enums.h"
#include "internal.h"

/* ====================================================================================================================
 * Connections: resolves the names of inputs and sorts the layers topologically. */

/* ---- names ------------------------------------------------------------------------------------------------------- */

static bo_status find(bo_context *context, const char *where, const bo_network *network, const bo_layer *layer,
                      const char *field, const bo_json *item, int *out)
{
    const char *name = bo_json_text_or_null(item);
    bo_nearest nearest = {.distance = BO_NEAREST_MEMBER};
    char place[400];
    snprintf(place, sizeof place, "%.200s%s%s", where, layer ? ": " : "", layer ? bo_layer_name(layer).text : "");
    if (!name) return bo_field_refuse(context, place, field, "the name of a layer", item);
    if (strcmp(name, "input") == 0 && layer) {
        *out = BO_INPUT_LAYER;
        return BO_OK;
    }
    for (size_t i = 0; i < network->count; i++) {
        if (!network->layers[i].named) continue;
        bo_nearest_try(&nearest, name, network->layers[i].name, NULL);
        *out = (int)i;
        if (nearest.distance == 0) return BO_OK;
    }
    return bo_fail(context, BO_FORMAT, "%s: \"%s\": there is no layer \"%.60s\"%s", place, field, name,
                   bo_nearest_hint(&nearest).text);
}

static bo_status read_from(bo_context *context, const char *where, const bo_network *network, const bo_json *json,
                           size_t index, bo_layer *layer)
{
    const bo_json *from = bo_json_member(json, "from"), *item;
    const bo_layer_type *type = layer->type;
    const size_t min_inputs = type->min_inputs ? type->min_inputs : 1,
                 max_inputs = type->max_inputs ? type->max_inputs : 1;
    if (!from) {
        layer->from[0] = index ? (int)index - 1 : BO_INPUT_LAYER;
        layer->inputs = 1;
    } else if (bo_json_is(from, BO_JSON_ARRAY)) {
        if (bo_json_count(from) > BO_NETWORK_FROM)
            return bo_fail(context, BO_FORMAT, "%s: %s: \"from\" names %d layers, expected at most %d", where,
                           bo_layer_name(layer).text, bo_json_count(from), BO_NETWORK_FROM);
        BO_JSON_EACH(item, from)
        BO_TRY(find(context, where, network, layer, "from", item, &layer->from[layer->inputs++]));
    } else {
        BO_TRY(find(context, where, network, layer, "from", from, &layer->from[layer->inputs++]));
    }
    if (layer->inputs >= min_inputs && layer->inputs <= max_inputs) return BO_OK;
    return bo_fail(context, BO_FORMAT, "%s: %s: expected %s %zu inputs, found %zu%s", where, bo_layer_name(layer).text,
                   layer->inputs < min_inputs ? "at least" : "at most",
                   layer->inputs < min_inputs ? min_inputs : max_inputs, layer->inputs,
                   layer->inputs < min_inputs ? ": name them with \"from\"" : "");
}

/* ---- order ------------------------------------------------------------------------------------------------------- */

typedef struct walk {
    bo_network *network;
    unsigned char *state; /* per layer: 0 new, 1 on the path, 2 done */
    size_t *path, *next;  /* layers on the path, and the next input of each */
    size_t depth, done;
} walk;

/* Reports a cycle: lists the layers of the path from `first` as "a, b and c". */
static bo_status refuse_cycle(bo_context *context, const char *where, const walk *w, size_t first)
{
    char cycle[600];
    size_t start = 0, used = 0;
    while (w->path[start] != first) start++;
    for (size_t i = start; i < w->depth && used < 480; i++)
        used += (size_t)snprintf(cycle + used, sizeof cycle - used, "%s%s", i > start ? ", which reads from " : "",
                                 bo_layer_name(&w->network->layers[w->path[i]]).text);
    return bo_fail(context, BO_FORMAT, "%s: a cycle: %s, which reads from %s", where, cycle,
                   bo_layer_name(&w->network->layers[first]).text);
}

/* Visits a layer depth first. There is no recursion, because descriptions can be very deep. */
static bo_status visit(bo_context *context, const char *where, walk *w, size_t root)
{
    if (w->state[root]) return BO_OK;
    w->path[0] = root, w->next[0] = 0, w->depth = 1, w->state[root] = 1;
    while (w->depth) {
        const size_t at = w->path[w->depth - 1];
        const bo_layer *layer = &w->network->layers[at];
        if (w->next[w->depth - 1] == layer->inputs) {
            w->state[at] = 2;
            w->network->order[w->done++] = at;
            w->depth--;
            continue;
        }
        const int from = layer->from[w->next[w->depth - 1]++];
        if (from < 0 || w->state[from] == 2) continue;
        if (w->state[from] == 1) return refuse_cycle(context, where, w, (size_t)from);
        w->path[w->depth] = (size_t)from;
        w->next[w->depth++] = 0;
        w->state[from] = 1;
    }
    return BO_OK;
}

static bo_status sort_layers(bo_context *context, const char *where, walk *w)
{
    bo_network *network = w->network;
    const size_t count = network->count;
    if (network->target >= 0) BO_TRY(visit(context, where, w, (size_t)network->target));
    BO_TRY(visit(context, where, w, network->output));
    const size_t used = w->done;
    for (size_t i = 0; i < count; i++) BO_TRY(visit(context, where, w, i)); /* also finds cycles among unused layers */
    if (used == count) return BO_OK;
    for (size_t i = 0; i < count; i++) { /* reports the first layer whose output is not used */
        bool is_used = i == network->output || (int)i == network->target;
        for (size_t j = 0; j < count; j++)
            for (size_t k = 0; k < network->layers[j].inputs; k++)
                is_used = is_used || network->layers[j].from[k] == (int)i;
        if (!is_used)
            return bo_fail(context, BO_FORMAT,
                           "%s: %s: its output is not used, and it is not the output of the network", where,
                           bo_layer_name(&network->layers[i]).text);
    }
    return bo_fail(context, BO_FORMAT, "%s: some layers do not reach the output", where);
}

static bo_status make_walk(bo_context *context, bo_network *network, walk *out)
{
    *out = (walk){.network = network,
                  .state = bo_alloc(context, network->count, 1, "the wiring of a network"),
                  .path = bo_alloc(context, network->count, sizeof(size_t), "the wiring of a network"),
                  .next = bo_alloc(context, network->count, sizeof(size_t), "the wiring of a network")};
    network->order = bo_alloc(context, network->count, sizeof(size_t), "the wiring of a network");
    return out->state && out->path && out->next && network->order ? BO_OK : BO_MEMORY;
}

/* Reads `from` of every layer, sorts the layers, and refuses unused ones. */
static bo_status read_wiring(bo_context *context, const char *where, const bo_json *json, bo_network *network)
{
    const bo_json *layers = bo_json_member(json, "layers"), *item;
    const bo_json *output = bo_json_member(json, "output");
    size_t index = 0;
    int named = (int)network->count - 1;
    walk w;
    BO_JSON_EACH(item, layers)
    {
        BO_TRY(read_from(context, where, network, item, index, &network->layers[index]));
        index++;
    }
    if (output) BO_TRY(find(context, where, network, NULL, "output", output, &named));
    network->output = (size_t)named;
    bo_status status = make_walk(context, network, &w);
    if (status == BO_OK) status = sort_layers(context, where, &w);
    bo_free(w.state);
    bo_free(w.path);
    bo_free(w.next);
    return status;
}

/* ====================================================================================================================
 * Widths: replaces symbols by numbers of the data, and multiplies hidden widths by the multiplier. Widths of the
 * output, of the layers that determine it, and of layers with the width of the input are not multiplied. */

static bool sets_width(const bo_layer *layer)
{
    const bo_width *width = &layer->options.width;
    return layer->type->sets_width && (width->value || width->symbol);
}

/* Marks layers that only reshape the input: their width does not depend on the multiplier. */
static void mark_reshapes(bo_network *network)
{
    for (size_t i = 0; i < network->count; i++) {
        bo_layer *layer = &network->layers[network->order[i]];
        layer->reshapes_input = !sets_width(layer);
        for (size_t k = 0; k < layer->inputs; k++)
            layer->reshapes_input =
                layer->reshapes_input && (layer->from[k] < 0 || network->layers[layer->from[k]].reshapes_input);
        if (layer->reshapes_input) layer->fixed = true;
    }
}

static void mark_fixed(bo_network *network)
{
    network->layers[network->output].fixed = true;
    for (size_t i = network->count; i-- > 0;) { /* from the output to the input */
        const bo_layer *layer = &network->layers[network->order[i]];
        if (!layer->fixed || sets_width(layer)) continue;
        for (size_t k = 0; k < layer->inputs; k++)
            if (layer->from[k] >= 0) network->layers[layer->from[k]].fixed = true;
    }
}

static bo_status resolve_width(bo_context *context, const char *where, const bo_network *network, const bo_layer *layer,
                               bool fixed, bo_width *width)
{
    static const char *const missing[] = {"", "classes", "targets", "numbers of the input"};
    const bo_facts *info = &network->info;
    const size_t known[] = {width->value, info->classes, info->targets, info->dim};
    if (width->symbol != BO_SYMBOL_NUMBER) {
        width->value = known[width->symbol];
        if (width->value) return BO_OK;
        return bo_fail(context, BO_FORMAT,
                       "%s: %s: the number of %s is unknown: neither the data nor the description has it", where,
                       bo_layer_name(layer).text, missing[width->symbol]);
    }
    if (!width->value || fixed) return BO_OK;
    const double wide = fmax(1, round((double)width->value * network->multiplier));
    if (wide > BO_NETWORK_SIZE)
        return bo_fail(context, BO_FORMAT, "%s: %s: a width of %.15g is too large: at most %d is supported", where,
                       bo_layer_name(layer).text, wide, BO_NETWORK_SIZE);
    width->value = (size_t)wide;
    return BO_OK;
}

/* Replaces symbols by numbers and multiplies hidden widths. */
static bo_status settle_widths(bo_context *context, const char *where, bo_network *network)
{
    mark_fixed(network);
    mark_reshapes(network);
    for (size_t i = 0; i < network->count; i++) {
        bo_layer *layer = &network->layers[i];
        const bo_field *fields = layer->type->fields;
        for (size_t f = 0; f < layer->type->field_count; f++) {
            if (fields[f].type != BO_FIELD_WIDTH) continue;
            const bool outer = fields[f].offset == offsetof(bo_layer_options, width);
            BO_TRY(resolve_width(context, where, network, layer, layer->fixed && outer,
                                 (bo_width *)((char *)&layer->options + fields[f].offset)));
        }
    }
    return BO_OK;
}

/* ====================================================================================================================
 * Input, layers, loss. */

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
    const char *dot = strrchr(layer->name, '.'); /* after the prefix of a block */
    snprintf(label.text, sizeof label.text, "layer %zu (%s)", layer->number,
             !layer->named && layer->type ? layer->type->name
             : dot                        ? dot + 1
                                          : layer->name);
    return label;
}

/* ---- input ------------------------------------------------------------------------------------------------------- */

/* Fills in a number that the description does not contain from the data. If both contain it, they must agree. */
static bo_status match_number(bo_context *context, const char *where, const char *what, size_t *value, size_t data)
{
    if (*value && data && *value != data)
        return bo_fail(context, BO_FORMAT, "%s: expected data with %zu %s, found %zu", where, *value, what, data);
    if (!*value) *value = data;
    return BO_OK;
}

static bo_status resolve_input(bo_context *context, const char *where, bo_network *network)
{
    bo_shape *shape = &network->input_shape;
    const size_t dim = network->info.dim;
    if (shape->rank == 2 && (!shape->size[0] || !shape->size[1]))
        return bo_fail(context, BO_FORMAT, "%s: an image needs its \"height\" and \"width\"", where);
    if (shape->rank == 1 && !shape->size[1] && shape->channels && dim % shape->channels == 0)
        shape->size[1] = dim / shape->channels;
    if (shape->rank == 1 && (!shape->size[1] || !shape->channels))
        return bo_fail(context, BO_FORMAT, "%s: a sequence needs its \"length\" and \"channels\"", where);
    if (!shape->channels) shape->channels = shape->rank == 2 ? 1 : dim;
    if (!shape->channels)
        return bo_fail(context, BO_FORMAT, "%s: \"width\" is missing, and there is no data to determine it", where);
    size_t numbers = bo_shape_numbers(shape);
    if (bo_shape_places(shape) > BO_NETWORK_SIZE || numbers > BO_NETWORK_SIZE)
        return bo_fail(context, BO_FORMAT, "%s: an example of more than %d numbers is not supported", where,
                       BO_NETWORK_SIZE);
    BO_TRY(match_number(context, where, "numbers per example", &numbers, dim));
    network->info.dim = numbers;
    return BO_OK;
}

typedef struct input {
    bo_network_input kind;
    bool standardize;
    size_t width, length, channels, height;
} input;

BO_FIELD_NAMES(bo_network_input, network_input)

/* Those of arrays and graphs, of sequences, and of images: the first ones. */
enum { ARRAY_FIELDS = 3, SEQUENCE_FIELDS = 5, IMAGE_FIELDS = 6 };
static const bo_field input_fields[IMAGE_FIELDS] = {
    {.name = "kind",
     .type = BO_FIELD_NAME,
     .offset = offsetof(input, kind),
     .required = true,
     .names = network_input_names},
    BO_FIELD_PLAIN(input, "standardize", BOOL, standardize),
    BO_FIELD_PLAIN(input, "width", COUNT, width),
    BO_FIELD_PLAIN(input, "length", COUNT, length),
    BO_FIELD_PLAIN(input, "channels", COUNT, channels),
    BO_FIELD_PLAIN(input, "height", COUNT, height),
};

static bo_status read_kind(bo_context *context, const char *place, const bo_json *json, bo_network_input *out)
{
    input in = {.kind = BO_NETWORK_INPUT_ARRAY};
    if (!json) return bo_fail(context, BO_FORMAT, "%s is missing", place);
    if (!bo_json_is(json, BO_JSON_OBJECT))
        return bo_fail(context, BO_FORMAT, "%s: should be an object with a \"kind\"", place);
    BO_TRY(bo_fields_read(context, place, input_fields, 1, json, &in));
    *out = in.kind;
    return BO_OK;
}

static bo_status read_input(bo_context *context, const char *where, const bo_json *json, bo_network *network)
{
    char place[300];
    input in = {.standardize = true};
    size_t count = ARRAY_FIELDS;
    snprintf(place, sizeof place, "%.250s: \"input\"", where);
    BO_TRY(read_kind(context, place, json, &network->input));
    if (network->input == BO_NETWORK_INPUT_SEQUENCE) count = SEQUENCE_FIELDS;
    if (network->input == BO_NETWORK_INPUT_IMAGE) count = IMAGE_FIELDS, in.standardize = false;
    BO_TRY(bo_object_read(context, place, input_fields, count, json, &in));
    network->standardize = in.standardize;
    network->input_shape = count == IMAGE_FIELDS      ? (bo_shape){2, {in.height, in.width}, in.channels}
                           : count == SEQUENCE_FIELDS ? (bo_shape){1, {1, in.length}, in.channels}
                                                      : (bo_shape){0, {1, 1}, in.width};
    return resolve_input(context, place, network);
}

/* ---- loss -------------------------------------------------------------------------------------------------------- */

static int find_layer(const bo_network *network, const char *name)
{
    for (size_t i = 0; i < network->count; i++)
        if (network->layers[i].named && strcmp(network->layers[i].name, name) == 0) return (int)i;
    return BO_NO_LAYER;
}

static bo_status read_reference(bo_context *context, const char *where, const bo_json *json, const char *field,
                                const bo_network *network, int *out)
{
    const bo_json *item = bo_json_member(json, field);
    const char *name = bo_json_text_or_null(item);
    *out = BO_NO_LAYER;
    if (!item) return BO_OK;
    if (name && strcmp(name, "input") == 0)
        *out = BO_INPUT_LAYER;
    else if (name)
        *out = find_layer(network, name);
    return *out == BO_NO_LAYER ? bo_field_refuse(context, where, field, "\"input\" or the name of a layer", item)
                               : BO_OK;
}

/* Reads the loss: a string, or an object with a "type". */
static bo_status read_loss_type(bo_context *context, const char *place, const bo_json *json, bo_network_loss *out)
{
    if (!json) return bo_fail(context, BO_FORMAT, "%s is missing", place);
    const bo_json *type = bo_json_is(json, BO_JSON_OBJECT) ? bo_json_member(json, "type") : json;
    if (!type) return bo_fail(context, BO_FORMAT, "%s: \"type\" is missing", place);
    const int kind = bo_find_name(bo_json_text_or_null(type), loss_names, BO_NETWORK_LOSS_COUNT);
    if (kind < 0) return bo_field_refuse(context, place, "type", "mse, l1, bce, kl or cross-entropy", type);
    *out = (bo_network_loss)kind;
    return BO_OK;
}

static bo_status read_loss(bo_context *context, const char *where, const bo_json *json, bo_network *network)
{
    static const bo_known known = {{{.name = "type"}, {.name = "target"}, {.name = "masked"}}, 3};
    char place[300];
    snprintf(place, sizeof place, "%.250s: \"loss\"", where);
    BO_TRY(read_loss_type(context, place, json, &network->loss));
    network->target = network->masked = BO_NO_LAYER;
    if (!bo_json_is(json, BO_JSON_OBJECT)) return BO_OK;
    BO_TRY(bo_known_check(context, place, json, &known));
    BO_TRY(read_reference(context, place, json, "target", network, &network->target));
    return read_reference(context, place, json, "masked", network, &network->masked);
}

/* ---- layers ------------------------------------------------------------------------------------------------------ */

static bool plain_name(const char *name)
{
    const size_t length = strlen(name);
    return length > 0 && length < BO_NETWORK_NAME && strcmp(name, "input") != 0 &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") == length;
}

static bo_status name_layer(bo_context *context, const char *where, const bo_json *json, bo_layer *layer)
{
    const bo_json *name = bo_json_member(json, "name"), *type;
    const char *text = bo_json_text_or_null(name);
    char place[300];
    snprintf(place, sizeof place, "%.250s: layer %zu", where, layer->number);
    if (!bo_json_is(json, BO_JSON_OBJECT))
        return bo_fail(context, BO_FORMAT, "%s: should be an object with a \"type\"", place);
    if (name && !(text && plain_name(text)))
        return bo_field_refuse(context, place, "name", "fewer than 64 letters, digits, - and _, and not \"input\"",
                               name);
    if (text) snprintf(layer->name, BO_NETWORK_NAME, "%s", text);
    layer->named = text != NULL;
    if (text) snprintf(place, sizeof place, "%.200s: layer %zu (%s)", where, layer->number, text);
    type = bo_json_member(json, "type");
    if (!type) return bo_fail(context, BO_FORMAT, "%s: \"type\" is missing", place);
    text = bo_json_text_or_null(type);
    if (!text) return bo_field_refuse(context, place, "type", "the name of a type of layers", type);
    layer->type = bo_layer_type_find(text);
    if (!layer->type) {
        const bo_nearest nearest = bo_layer_type_nearest(text);
        return bo_fail(context, BO_FORMAT, "%s: there is no type \"%.60s\"%s", place, text,
                       bo_nearest_hint(&nearest).text);
    }
    if (!layer->named) snprintf(layer->name, sizeof layer->name, "%.40s.%zu", layer->type->name, layer->number);
    return BO_OK;
}

static bo_status read_layers(bo_context *context, const char *where, const bo_json *json, bo_network *network)
{
    const size_t count = bo_json_is(json, BO_JSON_ARRAY) ? (size_t)bo_json_count(json) : 0;
    const bo_json *item;
    if (!count) return bo_fail(context, BO_FORMAT, "%s: \"layers\" should be a list of at least one layer", where);
    if (count > BO_NETWORK_LAYERS)
        return bo_fail(context, BO_FORMAT, "%s: %zu layers, but at most %d are supported", where, count,
                       BO_NETWORK_LAYERS);
    network->layers = bo_alloc(context, count, sizeof *network->layers, "a network's layers");
    if (!network->layers) return BO_MEMORY;
    BO_JSON_EACH(item, json)
    {
        bo_layer *layer = &network->layers[network->count];
        layer->number = layer->place = ++network->count;
        BO_TRY(name_layer(context, where, item, layer));
        for (size_t i = 0; layer->named && i + 1 < network->count; i++)
            if (strcmp(network->layers[i].name, layer->name) == 0)
                return bo_fail(context, BO_FORMAT, "%s: layers %zu and %zu have the same name \"%s\"", where, i + 1,
                               network->count, layer->name);
        BO_TRY(layer->type->read ? layer->type->read(context, where, layer, item)
                                 : bo_layer_read(context, where, layer, item));
    }
    return BO_OK;
}

/* ---- whole description ------------------------------------------------------------------------------------------- */

static bo_status check_format(bo_context *context, const char *where, const bo_json *json)
{
    const bo_json *item = bo_json_member(json, "format");
    size_t format = FORMAT;
    if (item && (!bo_json_size(item, &format) || format == 0))
        return bo_field_refuse(context, where, "format", "a whole number of 1 or more", item);
    if (format <= FORMAT) return BO_OK;
    return bo_fail(context, BO_VERSION, "%s: has format %zu, but Bochner %s reads formats up to %d", where, format,
                   bo_version(), FORMAT);
}

/* Reads and checks all parts that do not depend on the data. */
static bo_status read_structure(bo_context *context, const char *where, const bo_json *json, bo_network *network)
{
    BO_TRY(read_layers(context, where, bo_json_member(json, "layers"), network));
    BO_TRY(read_loss(context, where, bo_json_member(json, "loss"), network));
    return read_wiring(context, where, json, network);
}

static bo_status check_members(bo_context *context, const char *where, const bo_json *json)
{
    static const bo_known known = {{{.name = "format"},
                                    {.name = "about"},
                                    {.name = "input"},
                                    {.name = "classes"},
                                    {.name = "layers"},
                                    {.name = "output"},
                                    {.name = "loss"}},
                                   7};
    if (!bo_json_is(json, BO_JSON_OBJECT))
        return bo_fail(context, BO_FORMAT, "%s: should be an object with \"layers\"", where);
    if (bo_json_member(json, "blocks") != NULL)
        return bo_fail(context, BO_FORMAT,
                       "%s: describes a text model, a list of blocks; expected \"layers\" (train --blocks)", where);
    if (bo_json_member(json, "network") != NULL && bo_json_member(json, "bochner_format") != NULL)
        return bo_fail(context, BO_FORMAT, "%s: the config.json of a model: its description is the member \"network\"",
                       where);
    if (bo_json_member(json, "model_type") != NULL)
        return bo_fail(context, BO_FORMAT, "%s: the config.json of a model that has no \"blocks\": not a description",
                       where);
    BO_TRY(check_format(context, where, json));
    return bo_known_check(context, where, json, &known);
}

bo_status bo_network_describe(bo_context *context, const char *where, const bo_json *json, bo_network *network)
{
    static const bo_field classes_field = {.name = "classes", .type = BO_FIELD_COUNT};
    size_t classes = 0;
    BO_TRY(check_members(context, where, json));
    BO_TRY(bo_fields_read(context, where, &classes_field, 1, json, &classes));
    BO_TRY(match_number(context, where, "classes", &classes, network->info.classes));
    network->info.classes = classes;
    BO_TRY(read_input(context, where, bo_json_member(json, "input"), network));
    BO_TRY(read_structure(context, where, json, network));
    return settle_widths(context, where, network);
}

bo_status bo_network_find_needs(bo_context *context, const char *where, const bo_json *json, bo_description_needs *out)
{
    char place[300];
    BO_TRY(check_members(context, where, json));
    bo_network *network = bo_alloc(context, 1, sizeof *network, "a network");
    if (!network) return BO_MEMORY;
    snprintf(place, sizeof place, "%.250s: \"input\"", where);
    bo_status status = read_kind(context, place, bo_json_member(json, "input"), &network->input);
    if (status == BO_OK) status = read_structure(context, where, json, network);
    if (status == BO_OK)
        *out = (bo_description_needs){.input = network->input,
                                      .targets = network->target == BO_NO_LAYER,
                                      .task = network->loss == BO_NETWORK_CROSS_ENTROPY ? BO_TASK_CLASSIFICATION
                                                                                        : BO_TASK_REGRESSION};
    bo_network_destroy(network);
    return status;
}
