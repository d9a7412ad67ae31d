/* The types of layers. To add a type, add an entry to the table of its file, with its fields and a function that
 * records it. */
#include <stdio.h>
#include <string.h>
#include "internal.h"

static const bo_layer_type *const tables[] = {bo_layers_plain,    bo_layers_join,     bo_layers_noise, bo_layers_grid,
                                              bo_layers_features, bo_layers_sequence, bo_layers_graph, bo_layers_block};

/* NULL after the last */
static const bo_layer_type *type_at(size_t index)
{
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
        for (const bo_layer_type *type = tables[t]; type->name; type++)
            if (index-- == 0) return type;
    return NULL;
}

const bo_layer_type *bo_layer_type_find(const char *name)
{
    const bo_layer_type *type;
    for (size_t i = 0; (type = type_at(i)); i++)
        if (bo_same_name(name, type->name)) return type;
    return NULL;
}

bo_nearest bo_layer_type_nearest(const char *name)
{
    const bo_layer_type *type;
    bo_nearest nearest = {.distance = strlen(name) / 2 + 1};
    for (size_t i = 0; (type = type_at(i)); i++) {
        bo_nearest_try(&nearest, name, type->name, NULL);
        if (nearest.distance > 1 && strncmp(type->name, name, strlen(type->name)) == 0) /* conv2d, linear_layer */
            nearest = (bo_nearest){type->name, 1};
    }
    return nearest;
}

/* Options of a layer: members of its object, according to the fields of its type. */
bo_status bo_layer_read(bo_context *context, const char *where, bo_layer *layer, const bo_json *json)
{
    const bo_layer_type *type = layer->type;
    bo_known known = {.at = {{.name = "name"}, {.name = "type"}, {.name = "from"}}, .count = 3};
    char place[400], typed[500];
    snprintf(place, sizeof place, "%.200s: %s", where, bo_layer_name(layer).text);
    snprintf(typed, sizeof typed, "%.390s: %s", place, type->name);
    bo_known_add_fields(&known, type->fields, type->field_count);
    BO_TRY(bo_known_check(context, typed, json, &known)); /* first, since a missing option may be misspelled */
    return bo_fields_read(context, place, type->fields, type->field_count, json, &layer->options);
}
