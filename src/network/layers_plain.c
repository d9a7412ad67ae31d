/* Layers that see one row at a time: linear, functions, norms, shapes. */
#include <stddef.h>
#include "internal.h"

#define AT(member) offsetof(bo_layer_options, member)

/* ---- linear ---------------------------------------------------------------------------------------------------------------- */

static const bo_layer_field linear_fields[] = {
    {.name = "width", .kind = BO_FIELD_WIDTH, .offset = AT(width), .required = true},
    {.name = "bias", .kind = BO_FIELD_BOOL, .offset = AT(bias), .otherwise = 1},
};

static bo_value record_linear(bo_recorder *r)
{
    const bool last = r->layer == &r->network->layers[r->network->output];
    r->shape.channels = r->options->width.value;
    return bo_nn_linear(r->graph, r->layer->name, r->in[0],
                        &(bo_linear_desc){.out = r->shape.channels,
                                          .bias = r->options->bias,
                                          .role = last ? BO_WEIGHT_HEAD : BO_WEIGHT_MATRIX});
}

/* ---- functions ------------------------------------------------------------------------------------------------------------- */

static const char *const unary_names[BO_UNARY_COUNT] = {"gelu",    "gelu-tanh",   "relu2",    "silu", "relu",    "tanh",
                                                        "sigmoid", "log-sigmoid", "softplus", "exp",  "identity"};

/* The type's name is the function's. */
static bo_value record_unary(bo_recorder *r)
{
    const int function = bo_find_name(r->layer->type->name, unary_names, BO_UNARY_COUNT);
    return bo_graph_one(r->graph, BO_OP_UNARY, &(bo_unary_attributes){.function = (bo_unary)function}, 1, r->in);
}

/* ---- norms ----------------------------------------------------------------------------------------------------------------- */

static const char *norm_name(unsigned value)
{
    return bo_norm_name((bo_norm)value);
}

static const bo_layer_field norm_fields[] = {
    {.name = "kind", .kind = BO_FIELD_NAME, .offset = AT(kind), .names = norm_name},
    {.name = "epsilon", .kind = BO_FIELD_REAL, .offset = AT(epsilon), .otherwise = 1e-6},
};

static bo_value record_norm(bo_recorder *r)
{
    return bo_nn_norm(r->graph, r->layer->name, r->in[0],
                      &(bo_norm_layer){.kind = (bo_norm)r->options->kind,
                                       .width = r->shape.channels,
                                       .epsilon = r->options->epsilon});
}

/* ---- shapes ---------------------------------------------------------------------------------------------------------------- */

static bo_value reshape(bo_recorder *r)
{
    return r->shape.channels == r->shapes[0].channels ? r->in[0] : bo_nn_reshape(r->graph, r->in[0], r->shape.channels);
}

static bo_value record_flatten(bo_recorder *r)
{
    r->shape = (bo_shape){.size = {1, 1}, .channels = bo_shape_numbers(&r->shapes[0])};
    return reshape(r);
}

static const bo_layer_field reshape_fields[] = {
    {.name = "height", .kind = BO_FIELD_COUNT, .offset = AT(height)},
    {.name = "width", .kind = BO_FIELD_COUNT, .offset = AT(size)},
    {.name = "length", .kind = BO_FIELD_COUNT, .offset = AT(length)},
    {.name = "channels", .kind = BO_FIELD_WIDTH, .offset = AT(width), .required = true},
};

/* An image where there is a height, a sequence where there is a length, else a row. */
static bo_value record_reshape(bo_recorder *r)
{
    const bo_layer_options *o = r->options;
    const size_t have = bo_shape_numbers(&r->shapes[0]);
    if ((o->height != 0) != (o->size != 0) || (o->height && o->length))
        return bo_record_refuse(r, "an image has \"height\" and \"width\", a sequence a \"length\", a row neither");
    r->shape = (bo_shape){.size = {1, 1}, .channels = o->width.value};
    if (o->height) r->shape = (bo_shape){2, {o->height, o->size}, o->width.value};
    if (o->length) r->shape = (bo_shape){1, {1, o->length}, o->width.value};
    if (bo_shape_places(&r->shape) > BO_NETWORK_SIZE || bo_shape_numbers(&r->shape) != have)
        return bo_record_refuse(r, "%zu x %zu x %zu numbers were asked for, and its input has %zu", r->shape.size[0],
                                r->shape.size[1], r->shape.channels, have);
    return reshape(r);
}

/* ---- the table ------------------------------------------------------------------------------------------------------------- */

#define FIELDS(list) .fields = list, .field_count = sizeof list / sizeof *list

const bo_layer_type bo_layers_plain[] = {
    {.name = "linear", FIELDS(linear_fields), .sets_width = true, .record = record_linear},
    {.name = "gelu", .record = record_unary},
    {.name = "gelu-tanh", .record = record_unary},
    {.name = "relu2", .record = record_unary},
    {.name = "silu", .record = record_unary},
    {.name = "relu", .record = record_unary},
    {.name = "tanh", .record = record_unary},
    {.name = "sigmoid", .record = record_unary},
    {.name = "log-sigmoid", .record = record_unary},
    {.name = "softplus", .record = record_unary},
    {.name = "exp", .record = record_unary},
    {.name = "identity", .record = record_unary},
    {.name = "norm", FIELDS(norm_fields), .record = record_norm},
    {.name = "flatten", .record = record_flatten},
    {.name = "reshape", FIELDS(reshape_fields), .record = record_reshape},
    {0},
};
