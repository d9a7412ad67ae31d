/* Layers of several inputs: residuals, skips, gates; and a learned scale. */
#include <stddef.h>
#include "internal.h"

static bool same_shape(const bo_shape *a, const bo_shape *b)
{
    return a->rank == b->rank && a->size[0] == b->size[0] && a->size[1] == b->size[1] && a->channels == b->channels;
}

/* Refuses inputs that are not alike. */
static bool alike(bo_recorder *r)
{
    for (size_t i = 1; i < r->layer->inputs; i++) {
        if (same_shape(&r->shapes[0], &r->shapes[i])) continue;
        bo_record_refuse(r, "its inputs should be alike, found %s and %s", bo_shape_text(&r->shapes[0]).text,
                         bo_shape_text(&r->shapes[i]).text);
        return false;
    }
    return true;
}

static bo_value record_add(bo_recorder *r)
{
    if (!alike(r)) return 0;
    bo_value sum = r->in[0];
    for (size_t i = 1; i < r->layer->inputs; i++)
        sum = bo_graph_one(r->graph, BO_OP_ADD, NULL, 2, (bo_value[]){sum, r->in[i]});
    return sum;
}

static bo_value record_product(bo_recorder *r)
{
    if (!alike(r)) return 0;
    return bo_graph_one(r->graph, BO_OP_PRODUCT, &(bo_product_attributes){{0}}, r->layer->inputs, r->in);
}

static bo_value record_concat(bo_recorder *r)
{
    r->shape.channels = 0;
    for (size_t i = 0; i < r->layer->inputs; i++) {
        bo_shape other = r->shapes[i];
        other.channels = r->shapes[0].channels;
        if (!same_shape(&r->shapes[0], &other))
            return bo_record_refuse(r, "its inputs should have the same places, found %s and %s",
                                    bo_shape_text(&r->shapes[0]).text, bo_shape_text(&r->shapes[i]).text);
        r->shape.channels += r->shapes[i].channels;
    }
    return bo_nn_concat(r->graph, r->layer->inputs, r->in);
}

/* ---- scale ----------------------------------------------------------------------------------------------------------------- */

static const char *scale_name(unsigned value)
{
    static const char *const names[] = {"channels", "one"};
    return value < 2 ? names[value] : NULL;
}

static const bo_layer_field scale_fields[] = {
    {.name = "kind", .kind = BO_FIELD_NAME, .offset = offsetof(bo_layer_options, kind), .names = scale_name},
    {.name = "first",
     .kind = BO_FIELD_REAL,
     .offset = offsetof(bo_layer_options, scale),
     .least = -1e6,
     .otherwise = 1},
};

/* x ∘ s with a learned s for each channel, or one for all (LayerScale, 2103.17239). */
static bo_value record_scale(bo_recorder *r)
{
    const bo_nn_name name = bo_nn_join(r->layer->name, ".scale");
    bo_weight weight = {.name = (char *)(uintptr_t)name.text,
                        .rank = 1,
                        .shape = {r->options->kind ? 1 : r->shape.channels},
                        .role = BO_WEIGHT_VECTOR,
                        .init = {.law = BO_INIT_NORMAL, .a = r->options->scale}};
    return bo_graph_one(r->graph, BO_OP_SCALE, NULL, 2, (bo_value[]){r->in[0], bo_graph_weight(r->graph, &weight)});
}

#define FIELDS(list) .fields = list, .field_count = sizeof list / sizeof *list

const bo_layer_type bo_layers_join[] = {
    {.name = "add", .least = 2, .most = BO_NETWORK_FROM, .record = record_add},
    {.name = "product", .least = 2, .most = 4, .record = record_product},
    {.name = "concat", .least = 2, .most = BO_NETWORK_FROM, .record = record_concat},
    {.name = "scale", FIELDS(scale_fields), .record = record_scale},
    {0},
};
