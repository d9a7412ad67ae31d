/* Layers on images and sequences: convolution, pooling, batch normalization. */
#include <stddef.h>
#include <string.h>
#include "internal.h"

#define AT(member) offsetof(bo_layer_options, member)

/* ---- windows ------------------------------------------------------------------------------------------------------------- */

/* Kernel, stride and padding as the layer has them; along a sequence only the second counts. */
static bool windows_of(bo_recorder *r, bo_windows *out)
{
    const bo_layer_options *o = r->options;
    const bo_image image = {r->shapes[0].size[0], r->shapes[0].size[1]};
    const bool flat = r->shapes[0].rank == 1;
    const size_t kernel[2] = {flat ? 1 : o->kernel[0], o->kernel[1]};
    const size_t stride[2] = {flat           ? 1
                              : o->stride[0] ? o->stride[0]
                                             : kernel[0],
                              o->stride[1] ? o->stride[1] : kernel[1]};
    const size_t around[2] = {flat ? 0 : o->padding[0], o->padding[1]};
    *out = (bo_windows){.size = {image.height, image.width},
                        .kernel = {kernel[0], kernel[1]},
                        .stride = {stride[0], stride[1]},
                        .before = {around[0], around[1]},
                        .after = {around[0], around[1]}};
    if (o->global) *out = bo_nn_windows_all(image);
    if (o->same) *out = bo_nn_windows_same(image, kernel, stride);
    if (o->causal) out->before[1] = kernel[1] - 1, out->after[1] = 0;
    if (o->causal && (!flat || stride[1] != 1)) {
        bo_record_refuse(r, "\"padding\": \"causal\" is for sequences, with a stride of 1");
        return false;
    }
    for (size_t i = 0; i < 2; i++) {
        if (out->kernel[i] <= image.height * (i == 0) + image.width * (i == 1) + out->before[i] + out->after[i])
            continue;
        bo_record_refuse(r, "kernel %zu x %zu is larger than its input of %zu x %zu%s", out->kernel[0], out->kernel[1],
                         image.height, image.width, around[0] || around[1] ? " with its padding" : "");
        return false;
    }
    return true;
}

/* The shape that windows make of the first input's; one row where there is one place left and nothing else was meant. */
static void set_shape(bo_recorder *r, const bo_windows *windows, size_t channels)
{
    const bo_image after = bo_nn_image_after(windows);
    r->shape = (bo_shape){r->shapes[0].rank, {after.height, after.width}, channels};
    if (r->options->global) r->shape.rank = 0;
}

/* ---- convolution --------------------------------------------------------------------------------------------------------- */

static const bo_layer_field conv_fields[] = {
    {.name = "channels", .kind = BO_FIELD_WIDTH, .offset = AT(width), .required = true},
    {.name = "kernel", .kind = BO_FIELD_PAIR, .offset = AT(kernel), .required = true},
    {.name = "stride", .kind = BO_FIELD_PAIR, .offset = AT(stride), .otherwise = 1},
    {.name = "padding", .kind = BO_FIELD_PADDING, .offset = AT(padding)},
    {.name = "groups", .kind = BO_FIELD_COUNT, .offset = AT(groups), .otherwise = 1},
    {.name = "depthwise", .kind = BO_FIELD_BOOL, .offset = AT(self)},
    {.name = "bias", .kind = BO_FIELD_BOOL, .offset = AT(bias), .otherwise = 1},
};

static bool feeds_relu(const bo_recorder *r)
{
    const bo_network *network = r->network;
    const int own = (int)(r->layer - network->layers);
    for (size_t i = 0; i < network->count; i++)
        for (size_t k = 0; k < network->layers[i].inputs; k++)
            if (network->layers[i].from[k] == own && strcmp(network->layers[i].type->name, "relu") == 0) return true;
    return false;
}

static bo_value record_conv(bo_recorder *r)
{
    const size_t in = r->shapes[0].channels, groups = r->options->self ? in : r->options->groups;
    bo_convolution_layer layer = {
        .out = r->options->width.value, .groups = groups, .bias = r->options->bias, .relu = feeds_relu(r)};
    if (in % groups != 0 || layer.out % groups != 0)
        return bo_record_refuse(r, "%zu groups should divide its %zu channels and the %zu of its input", groups,
                                layer.out, in);
    if (!windows_of(r, &layer.windows)) return 0;
    set_shape(r, &layer.windows, layer.out);
    return bo_nn_convolution(r->graph, r->layer->name, r->in[0], &layer);
}

/* ---- pooling ------------------------------------------------------------------------------------------------------------- */

static const char *pool_name(unsigned value)
{
    static const char *const names[BO_POOL_COUNT] = {"max", "mean"};
    return value < BO_POOL_COUNT ? names[value] : NULL;
}

static const bo_layer_field pool_fields[] = {
    {.name = "kind", .kind = BO_FIELD_NAME, .offset = AT(kind), .names = pool_name},
    {.name = "kernel", .kind = BO_FIELD_PAIR, .offset = AT(kernel)},
    {.name = "stride", .kind = BO_FIELD_PAIR, .offset = AT(stride)},
    {.name = "padding", .kind = BO_FIELD_PADDING, .offset = AT(padding)},
    {.name = "global", .kind = BO_FIELD_BOOL, .offset = AT(global)},
};

/* Windows side by side unless there is a stride; with "global" one, all of the image. */
static bo_value record_pool(bo_recorder *r)
{
    bo_windows windows;
    if (!r->options->kernel[1] && !r->options->global)
        return bo_record_refuse(r, "give \"kernel\", or \"global\": true for all of its input");
    if (!windows_of(r, &windows)) return 0;
    set_shape(r, &windows, r->shapes[0].channels);
    return bo_nn_pool(r->graph, r->in[0], (bo_pool_kind)r->options->kind, &windows);
}

/* ---- batch normalization --------------------------------------------------------------------------------------------------- */

static const bo_layer_field batch_norm_fields[] = {
    {.name = "epsilon", .kind = BO_FIELD_REAL, .offset = AT(epsilon), .otherwise = 1e-5},
    {.name = "momentum", .kind = BO_FIELD_REAL, .offset = AT(momentum), .most = 1, .otherwise = 0.1},
};

static bo_value record_batch_norm(bo_recorder *r)
{
    return bo_nn_batch_norm(r->graph, r->layer->name, r->in[0], r->options->epsilon, r->options->momentum);
}

/* ---- last ------------------------------------------------------------------------------------------------------------------ */

/* The last row of each sequence: what a recurrent layer knows in the end. */
static bo_value record_last(bo_recorder *r)
{
    const size_t places = bo_shape_places(&r->shapes[0]);
    int32_t *rows = bo_alloc(r->context, r->examples, sizeof *rows, "places in sequences");
    for (size_t i = 0; rows && i < r->examples; i++) rows[i] = (int32_t)((i + 1) * places - 1);
    const bo_value chosen = bo_record_places(r, "last", r->examples, rows);
    r->shape = (bo_shape){.size = {1, 1}, .channels = r->shapes[0].channels};
    return bo_graph_one(r->graph, BO_OP_EMBED, &(bo_embed_attributes){0}, 2, (bo_value[]){chosen, r->in[0]});
}

#define FIELDS(list) .fields = list, .field_count = sizeof list / sizeof *list

const bo_layer_type bo_layers_grid[] = {
    {.name = "conv", FIELDS(conv_fields), .takes = BO_TAKES_PLACES, .sets_width = true, .record = record_conv},
    {.name = "pool", FIELDS(pool_fields), .takes = BO_TAKES_PLACES, .record = record_pool},
    {.name = "batchnorm", FIELDS(batch_norm_fields), .record = record_batch_norm},
    {.name = "last", .takes = BO_TAKES_SEQUENCE, .record = record_last},
    {0},
};
