/* Who takes from whom: names become numbers, and layers an order in which each comes after what it takes. */
#include <stdio.h>
#include <string.h>
#include "internal.h"

/* ---- names ----------------------------------------------------------------------------------------------------------------- */

static bo_status find(bo_context *context, const char *where, const bo_network *network, const bo_layer *layer,
                      const char *field, const cJSON *item, int *out)
{
    const char *name = cJSON_GetStringValue(item), *nearest = NULL;
    size_t best = 3;
    char place[400];
    snprintf(place, sizeof place, "%.200s%s%s", where, layer ? ": " : "", layer ? bo_layer_name(layer).text : "");
    if (!name) return bo_json_refuse(context, place, field, "the name of a layer", item);
    if (strcmp(name, "input") == 0 && layer) {
        *out = BO_INPUT_LAYER;
        return BO_OK;
    }
    for (size_t i = 0; i < network->count; i++) {
        if (!network->layers[i].named) continue;
        const size_t distance = bo_word_distance(name, network->layers[i].name);
        if (distance < best) best = distance, nearest = network->layers[i].name;
        *out = (int)i;
        if (distance == 0) return BO_OK;
    }
    return bo_fail(context, BO_FORMAT, "%s: \"%s\" names \"%.60s\", and no layer is called that%s%s%s", place, field,
                   name, nearest ? "; is \"" : "", nearest ? nearest : "", nearest ? "\" meant?" : "");
}

static bo_status read_from(bo_context *context, const char *where, const bo_network *network, const cJSON *json,
                           size_t index, bo_layer *layer)
{
    const cJSON *from = cJSON_GetObjectItemCaseSensitive(json, "from"), *item;
    const bo_layer_type *type = layer->type;
    const size_t least = type->least ? type->least : 1, most = type->most ? type->most : 1;
    if (!from) {
        layer->from[0] = index ? (int)index - 1 : BO_INPUT_LAYER;
        layer->inputs = 1;
    } else if (cJSON_IsArray(from)) {
        if (cJSON_GetArraySize(from) > BO_NETWORK_FROM)
            return bo_fail(context, BO_FORMAT, "%s: %s: \"from\" names %d layers; at most %d are taken", where,
                           bo_layer_name(layer).text, cJSON_GetArraySize(from), BO_NETWORK_FROM);
        cJSON_ArrayForEach(item, from)
            BO_TRY(find(context, where, network, layer, "from", item, &layer->from[layer->inputs++]));
    } else {
        BO_TRY(find(context, where, network, layer, "from", from, &layer->from[layer->inputs++]));
    }
    if (layer->inputs >= least && layer->inputs <= most) return BO_OK;
    return bo_fail(context, BO_FORMAT, "%s: %s: takes %s %zu inputs, found %zu%s", where, bo_layer_name(layer).text,
                   layer->inputs < least ? "at least" : "at most", layer->inputs < least ? least : most, layer->inputs,
                   layer->inputs < least ? ": name them with \"from\"" : "");
}

/* ---- order ----------------------------------------------------------------------------------------------------------------- */

typedef struct walk {
    bo_network *network;
    unsigned char *state; /* of a layer: 0 new, 1 on the way, 2 done */
    size_t *path, *next;  /* layers on the way, and which of their inputs is next */
    size_t depth, done;
} walk;

/* "a, b and c": the layers of the path from `first` on. */
static bo_status refuse_cycle(bo_context *context, const char *where, const walk *w, size_t first)
{
    char words[600];
    size_t start = 0, used = 0;
    while (w->path[start] != first) start++;
    for (size_t i = start; i < w->depth && used < 480; i++)
        used += (size_t)snprintf(words + used, sizeof words - used, "%s%s", i > start ? ", which takes from " : "",
                                 bo_layer_name(&w->network->layers[w->path[i]]).text);
    return bo_fail(context, BO_FORMAT, "%s: a cycle: %s, which takes from %s", where, words,
                   bo_layer_name(&w->network->layers[first]).text);
}

/* Depth first, without recursion: descriptions may be as deep as they are long. */
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
    for (size_t i = 0; i < count; i++) BO_TRY(visit(context, where, w, i)); /* cycles beside the way, too */
    if (used == count) return BO_OK;
    for (size_t i = 0; i < count; i++) { /* the last of those that nobody takes from */
        bool taken = i == network->output || (int)i == network->target;
        for (size_t j = 0; j < count; j++)
            for (size_t k = 0; k < network->layers[j].inputs; k++)
                taken = taken || network->layers[j].from[k] == (int)i;
        if (!taken)
            return bo_fail(context, BO_FORMAT, "%s: %s: nothing takes from it, and it is not the output", where,
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

bo_status bo_wiring_read(bo_context *context, const char *where, const cJSON *json, bo_network *network)
{
    const cJSON *layers = cJSON_GetObjectItemCaseSensitive(json, "layers"), *item;
    const cJSON *output = cJSON_GetObjectItemCaseSensitive(json, "output");
    size_t index = 0;
    int named = (int)network->count - 1;
    walk w;
    cJSON_ArrayForEach(item, layers)
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
