/* Layers: activations, shapes, joins, noise, images, and graphs. */
#include <stddef.h>
#include <string.h>
#include "../../nn/enums.h"
#include "../../base/rng.h"
#include "internal.h"

/* ====================================================================================================================
 * Layers that act on single rows: linear, activations, norms, shapes. */

#define AT(member) offsetof(bo_layer_options, member)

/* ---- linear ------------------------------------------------------------------------------------------------------ */

static const bo_field linear_fields[] = {
    {.name = "width", .type = BO_FIELD_WIDTH, .offset = AT(width), .required = true},
    {.name = "bias", .type = BO_FIELD_BOOL, .offset = AT(bias), .default_value = 1},
};

static bo_value record_linear(bo_recorder *r)
{
    const bool last = !r->network->within && r->layer == &r->network->layers[r->network->output];
    r->shape.channels = r->options->width.value;
    return bo_nn_linear(r->graph, r->layer->name, r->in[0],
                        &(bo_linear_layer){.out = r->shape.channels,
                                           .bias = r->options->bias,
                                           .role = last ? BO_WEIGHT_ROLE_HEAD : BO_WEIGHT_ROLE_MATRIX});
}

/* ---- activations ------------------------------------------------------------------------------------------------- */

static const char *const unary_names[BO_UNARY_COUNT] = {"gelu",    "gelu-tanh",   "relu2",    "silu", "relu",    "tanh",
                                                        "sigmoid", "log-sigmoid", "softplus", "exp",  "identity"};

/* The type has the name of the activation. */
static bo_value record_unary(bo_recorder *r)
{
    const int function = bo_find_name(r->layer->type->name, unary_names, BO_UNARY_COUNT);
    return bo_graph_one(r->graph, BO_OPERATION_UNARY, &(bo_unary_attributes){.function = (bo_unary)function}, 1, r->in);
}

/* ---- norms ------------------------------------------------------------------------------------------------------- */

BO_FIELD_NAMES(bo_norm, norm)

static const bo_field norm_fields[] = {
    {.name = "kind", .type = BO_FIELD_NAME, .offset = AT(kind), .names = norm_names},
    {.name = "epsilon", .type = BO_FIELD_RANGE, .offset = AT(epsilon), .default_value = 1e-6},
};

static bo_value record_norm(bo_recorder *r)
{
    return bo_nn_norm(r->graph, r->layer->name, r->in[0],
                      &(bo_norm_layer){.kind = (bo_norm)r->options->kind,
                                       .width = r->shape.channels,
                                       .epsilon = r->options->epsilon});
}

/* ---- shapes ------------------------------------------------------------------------------------------------------ */

static bo_value reshape(bo_recorder *r)
{
    return r->shape.channels == r->shapes[0].channels ? r->in[0]
                                                      : bo_graph_reshape(r->graph, r->in[0], r->shape.channels);
}

static bo_value record_flatten(bo_recorder *r)
{
    r->shape = (bo_shape){.size = {1, 1}, .channels = bo_shape_numbers(&r->shapes[0])};
    return reshape(r);
}

static const bo_field reshape_fields[] = {
    {.name = "height", .type = BO_FIELD_COUNT, .offset = AT(height)},
    {.name = "width", .type = BO_FIELD_COUNT, .offset = AT(size)},
    {.name = "length", .type = BO_FIELD_COUNT, .offset = AT(length)},
    {.name = "channels", .type = BO_FIELD_WIDTH, .offset = AT(width), .required = true},
};

/* The output is an image if there is a height, a sequence if there is a length, otherwise a row. */
static bo_value record_reshape(bo_recorder *r)
{
    const bo_layer_options *o = r->options;
    const size_t have = bo_shape_numbers(&r->shapes[0]);
    if ((o->height != 0) != (o->size != 0) || (o->height && o->length))
        return bo_record_refuse(
            r, "expected \"height\" and \"width\" for an image, \"length\" for a sequence, or neither for a row");
    r->shape = (bo_shape){.size = {1, 1}, .channels = o->width.value};
    if (o->height) r->shape = (bo_shape){2, {o->height, o->size}, o->width.value};
    if (o->length) r->shape = (bo_shape){1, {1, o->length}, o->width.value};
    if (bo_shape_places(&r->shape) > BO_NETWORK_SIZE || bo_shape_numbers(&r->shape) != have)
        return bo_record_refuse(r, "the shape %zu x %zu x %zu is requested, but its input has %zu numbers",
                                r->shape.size[0], r->shape.size[1], r->shape.channels, have);
    return reshape(r);
}

/* ---- table ------------------------------------------------------------------------------------------------------- */

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

/* ====================================================================================================================
 * Layers with several inputs: residual connections, skips, gates; and a learned scale. */

static bool same_shape(const bo_shape *a, const bo_shape *b)
{
    return a->rank == b->rank && a->size[0] == b->size[0] && a->size[1] == b->size[1] && a->channels == b->channels;
}

/* True if all inputs have the same shape. Otherwise fails. */
static bool alike(bo_recorder *r)
{
    for (size_t i = 1; i < r->layer->inputs; i++) {
        if (same_shape(&r->shapes[0], &r->shapes[i])) continue;
        bo_record_refuse(r, "its inputs should have the same shape, found %s and %s", bo_shape_text(&r->shapes[0]).text,
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
        sum = bo_graph_one(r->graph, BO_OPERATION_ADD, NULL, 2, (bo_value[]){sum, r->in[i]});
    return sum;
}

static bo_value record_product(bo_recorder *r)
{
    if (!alike(r)) return 0;
    return bo_graph_one(r->graph, BO_OPERATION_PRODUCT, NULL, r->layer->inputs, r->in);
}

static bo_value record_concat(bo_recorder *r)
{
    r->shape.channels = 0;
    for (size_t i = 0; i < r->layer->inputs; i++) {
        bo_shape other = r->shapes[i];
        other.channels = r->shapes[0].channels;
        if (!same_shape(&r->shapes[0], &other))
            return bo_record_refuse(r, "its inputs should have the same size except for channels, found %s and %s",
                                    bo_shape_text(&r->shapes[0]).text, bo_shape_text(&r->shapes[i]).text);
        r->shape.channels += r->shapes[i].channels;
    }
    return bo_graph_concat(r->graph, r->layer->inputs, r->in);
}

/* ---- scale ------------------------------------------------------------------------------------------------------- */

static const bo_field scale_fields[] = {
    {.name = "kind", .type = BO_FIELD_NAME, .offset = AT(kind), BO_FIELD_LIST("channels", "one")},
    {.name = "first", .type = BO_FIELD_RANGE, .offset = AT(scale), .min = -1e6, .max = 1e6, .default_value = 1},
};

/* x ∘ s with a learned s per channel, or one for all channels (LayerScale, 2103.17239). */
static bo_value record_scale(bo_recorder *r)
{
    const bo_nn_name name = bo_nn_join(r->layer->name, ".scale");
    bo_weight_desc weight = {.name = name.text,
                             .rank = 1,
                             .shape = (size_t[]){r->options->kind ? 1 : r->shape.channels},
                             .role = BO_WEIGHT_ROLE_VECTOR,
                             .init = {.kind = BO_WEIGHT_INIT_KIND_NORMAL, .a = r->options->scale}};
    return bo_graph_one(r->graph, BO_OPERATION_SCALE, NULL, 2,
                        (bo_value[]){r->in[0], bo_graph_weight(r->graph, &weight)});
}

const bo_layer_type bo_layers_join[] = {
    {.name = "add", .min_inputs = 2, .max_inputs = BO_NETWORK_FROM, .record = record_add},
    {.name = "product", .min_inputs = 2, .max_inputs = 4, .record = record_product},
    {.name = "concat", .min_inputs = 2, .max_inputs = BO_NETWORK_FROM, .record = record_concat},
    {.name = "scale", FIELDS(scale_fields), .record = record_scale},
    {0},
};

/* ====================================================================================================================
 * Layers that act only in training: dropout, and the noise of denoising and masked autoencoders. */

static const bo_field dropout_fields[] = {
    {.name = "rate", .type = BO_FIELD_RANGE, .offset = AT(rate), .required = true, .max = 1},
};

static bo_value record_dropout(bo_recorder *r)
{
    return bo_nn_dropout(r->graph, r->in[0], r->options->rate, bo_record_stream(r->layer, 0));
}

static const bo_field noise_fields[] = {
    {.name = "kind", .type = BO_FIELD_NAME, .offset = AT(kind), BO_FIELD_LIST("normal", "mask", "rows")},
    {.name = "amount", .type = BO_FIELD_RANGE, .offset = AT(amount), .required = true},
};

static bo_value record_noise(bo_recorder *r);

bo_value bo_record_noise(bo_recorder *r, const bo_layer *layer, bo_value x)
{
    return bo_nn_noise(r->graph, x, (bo_noise_kind)layer->options.kind, layer->options.amount,
                       bo_record_stream(layer, 0));
}

bool bo_layer_hides(const bo_layer *layer)
{
    return layer->type->record == record_noise && layer->options.kind != BO_NOISE_NORMAL;
}

/* Draws 1 and 0 with the probability of the layer, per row or per value. The mask depends only on the seed and the
 * layer. */
static float *draw_mask(bo_recorder *r)
{
    const size_t width = r->shape.channels, rows = r->examples * bo_shape_places(&r->shape);
    bo_rng rng = bo_rng_make(r->network->seed, bo_rng_stream("network.mask", r->layer->place));
    float *mask = bo_alloc(r->context, rows * width, sizeof *mask, "a mask"), stays = 1;
    for (size_t i = 0; mask && i < rows * width; i++) {
        if (r->options->kind == BO_NOISE_MASK || i % width == 0) stays = bo_rng_uniform(&rng) >= r->options->amount;
        mask[i] = stays;
    }
    return mask;
}

static bo_value record_mask(bo_recorder *r)
{
    const size_t width = r->shape.channels, rows = r->examples * bo_shape_places(&r->shape);
    float *mask = draw_mask(r);
    const bo_value value = bo_record_constant(r, "mask", BO_ELEMENT_FLOAT32, rows, width, mask);
    if (value) r->out->network.mask = mask;
    return bo_graph_one(r->graph, BO_OPERATION_PRODUCT, NULL, 2, (bo_value[]){r->in[0], value});
}

static bo_value record_noise(bo_recorder *r)
{
    const int masked = r->network->masked;
    if (r->options->kind != BO_NOISE_NORMAL && r->options->amount >= 1)
        return bo_record_refuse(r, "\"amount\" is a probability here: expected less than 1, found %g",
                                r->options->amount);
    if (r->desc->hide && masked >= 0 && r->layer == &r->network->layers[masked]) return record_mask(r);
    return bo_record_noise(r, r->layer, r->in[0]);
}

const bo_layer_type bo_layers_noise[] = {
    {.name = "dropout", FIELDS(dropout_fields), .record = record_dropout},
    {.name = "noise", FIELDS(noise_fields), .record = record_noise},
    {0},
};

/* ====================================================================================================================
 * Layers on images and sequences: convolution, pooling, batch normalization. */

/* ---- windows ----------------------------------------------------------------------------------------------------- */

static bool fits(const bo_axis_windows *axis)
{
    return axis->kernel <= axis->size + axis->before + axis->after;
}

/* Computes the windows from kernel, stride and padding of the layer; for sequences, only the second of each pair is
 * used. */
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
    const size_t around[2] = {flat ? 0 : o->padding.size[0], o->padding.size[1]};
    *out = (bo_windows){.height = {image.height, kernel[0], stride[0], around[0], around[0]},
                        .width = {image.width, kernel[1], stride[1], around[1], around[1]}};
    if (o->global) *out = bo_nn_windows_all(image);
    if (o->padding.same) *out = bo_nn_windows_same(image, kernel, stride);
    if (o->padding.causal) out->width.before = kernel[1] - 1, out->width.after = 0;
    if (o->padding.causal && (!flat || stride[1] != 1)) {
        bo_record_refuse(r, "\"padding\": \"causal\" is for sequences, with a stride of 1");
        return false;
    }
    if (fits(&out->height) && fits(&out->width)) return true;
    bo_record_refuse(r, "kernel %zu x %zu is larger than its input of %zu x %zu%s", out->height.kernel,
                     out->width.kernel, image.height, image.width, around[0] || around[1] ? " with its padding" : "");
    return false;
}

/* Sets the output shape of windows on the first input. It becomes one row if a single position is left by a global
 * window. */
static void set_shape(bo_recorder *r, const bo_windows *windows, size_t channels)
{
    const bo_image after = bo_nn_image_after(windows);
    r->shape = (bo_shape){r->shapes[0].rank, {after.height, after.width}, channels};
    if (r->options->global) r->shape.rank = 0;
}

/* ---- convolution ------------------------------------------------------------------------------------------------- */

static const bo_field conv_fields[] = {
    {.name = "channels", .type = BO_FIELD_WIDTH, .offset = AT(width), .required = true},
    {.name = "kernel", .type = BO_FIELD_PAIR, .offset = AT(kernel), .required = true},
    {.name = "stride", .type = BO_FIELD_PAIR, .offset = AT(stride), .default_value = 1},
    {.name = "padding", .type = BO_FIELD_PADDING, .offset = AT(padding)},
    {.name = "groups", .type = BO_FIELD_COUNT, .offset = AT(groups), .default_value = 1},
    {.name = "depthwise", .type = BO_FIELD_BOOL, .offset = AT(self)},
    {.name = "bias", .type = BO_FIELD_BOOL, .offset = AT(bias), .default_value = 1},
};

static bool feeds_relu(const bo_recorder *r)
{
    const bo_network *network = r->network;
    const int index = (int)(r->layer - network->layers);
    for (size_t i = 0; i < network->count; i++)
        for (size_t k = 0; k < network->layers[i].inputs; k++)
            if (network->layers[i].from[k] == index && strcmp(network->layers[i].type->name, "relu") == 0) return true;
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

/* ---- pooling ----------------------------------------------------------------------------------------------------- */

static const bo_field pool_fields[] = {
    {.name = "kind", .type = BO_FIELD_NAME, .offset = AT(kind), BO_FIELD_LIST("max", "mean")},
    {.name = "kernel", .type = BO_FIELD_PAIR, .offset = AT(kernel)},
    {.name = "stride", .type = BO_FIELD_PAIR, .offset = AT(stride)},
    {.name = "padding", .type = BO_FIELD_PADDING, .offset = AT(padding)},
    {.name = "global", .type = BO_FIELD_BOOL, .offset = AT(global)},
};

/* The default stride is the kernel; "global" means one window over the whole image. */
static bo_value record_pool(bo_recorder *r)
{
    bo_windows windows;
    if (!r->options->kernel[1] && !r->options->global)
        return bo_record_refuse(r, "expected \"kernel\", or \"global\": true for the whole input");
    if (!windows_of(r, &windows)) return 0;
    set_shape(r, &windows, r->shapes[0].channels);
    return bo_nn_pool(r->graph, r->in[0], (bo_pool_kind)r->options->kind, &windows);
}

/* ---- batch normalization ----------------------------------------------------------------------------------------- */

static const bo_field batch_norm_fields[] = {
    {.name = "epsilon", .type = BO_FIELD_RANGE, .offset = AT(epsilon), .default_value = 1e-5},
    {.name = "momentum", .type = BO_FIELD_RANGE, .offset = AT(momentum), .max = 1, .default_value = 0.1},
};

static bo_value record_batch_norm(bo_recorder *r)
{
    return bo_nn_batch_norm(r->graph, r->layer->name, r->in[0], r->options->epsilon, r->options->momentum);
}

/* ---- last row ---------------------------------------------------------------------------------------------------- */

/* Selects the last row of each sequence, which is the final output of a recurrent layer. */
static bo_value record_last(bo_recorder *r)
{
    const size_t places = bo_shape_places(&r->shapes[0]);
    int32_t *rows = bo_alloc(r->context, r->examples, sizeof *rows, "places in sequences");
    for (size_t i = 0; rows && i < r->examples; i++) rows[i] = (int32_t)((i + 1) * places - 1);
    const bo_value chosen = bo_record_places(r, "last", r->examples, rows);
    r->shape = (bo_shape){.size = {1, 1}, .channels = r->shapes[0].channels};
    return bo_graph_one(r->graph, BO_OPERATION_EMBED, NULL, 2, (bo_value[]){chosen, r->in[0]});
}

const bo_layer_type bo_layers_grid[] = {
    {.name = "conv", FIELDS(conv_fields), .accepts = BO_ACCEPTS_PLACES, .sets_width = true, .record = record_conv},
    {.name = "pool", FIELDS(pool_fields), .accepts = BO_ACCEPTS_PLACES, .record = record_pool},
    {.name = "batchnorm", FIELDS(batch_norm_fields), .record = record_batch_norm},
    {.name = "last", .accepts = BO_ACCEPTS_SEQUENCE, .record = record_last},
    {0},
};

/* ====================================================================================================================
 * Layers that aggregate along the edges of a graph. A node without neighbors receives 0. */

static bo_edges edges_of(const bo_recorder *r)
{
    return (bo_edges){r->out->network.first, r->out->network.neighbors};
}

static bo_aggregate_layer layer_of(const bo_recorder *r)
{
    return (bo_aggregate_layer){.kind = (bo_aggregate_kind)r->options->kind,
                                .edge_dropout = r->options->edges,
                                .node_dropout = r->options->rate,
                                .stream = bo_record_stream(r->layer, 0)};
}

#define AGGREGATE                                                                                                      \
    {.name = "aggregate",                                                                                              \
     .type = BO_FIELD_NAME,                                                                                            \
     .offset = AT(kind),                                                                                               \
     BO_FIELD_LIST("sum", "mean", "max"),                                                                              \
     .default_value = BO_AGGREGATE_MEAN},                                                                              \
        {.name = "edge-dropout", .type = BO_FIELD_RANGE, .offset = AT(edges), .max = 1},                               \
        {.name = "node-dropout", .type = BO_FIELD_RANGE, .offset = AT(rate), .max = 1}

static const bo_field graph_fields[] = {
    AGGREGATE,
    {.name = "width", .type = BO_FIELD_WIDTH, .offset = AT(width)},
    {.name = "bias", .type = BO_FIELD_BOOL, .offset = AT(bias), .default_value = 1},
};

/* W_self x_i + W_neighbors agg_j x_j + b (GraphSAGE, 1706.02216); without a width, the aggregate alone. */
static bo_value record_graph(bo_recorder *r)
{
    const bo_edges edges = edges_of(r);
    const bo_aggregate_layer layer = layer_of(r);
    const size_t width = r->options->width.value;
    bo_value aggregate = bo_nn_aggregate(r->graph, r->in[0], &edges, &layer);
    if (!width) return aggregate;
    r->shape.channels = width;
    /* These names are part of files, and initial values depend on them: do not change them. */
    const bo_nn_name self_name = bo_nn_join(r->layer->name, ".self"),
                     neighbors_name = bo_nn_join(r->layer->name, ".neighbours");
    bo_value kept =
        bo_nn_linear(r->graph, self_name.text, r->in[0], &(bo_linear_layer){.out = width, .bias = r->options->bias});
    return bo_nn_linear(r->graph, neighbors_name.text, aggregate, &(bo_linear_layer){.out = width, .residual = kept});
}

static const bo_field message_fields[] = {
    AGGREGATE,
    {.name = "hidden", .type = BO_FIELD_WIDTH, .offset = AT(hidden)},
};

/* s_i + W_1 agg_j tanh(W_2 s_j) */
static bo_value record_message(bo_recorder *r)
{
    const bo_edges edges = edges_of(r);
    const bo_aggregate_layer layer = layer_of(r);
    const size_t hidden = r->options->hidden.value ? r->options->hidden.value : r->shape.channels;
    return bo_nn_message(r->graph, r->layer->name, r->in[0], &edges, hidden, &layer);
}

const bo_layer_type bo_layers_graph[] = {
    {.name = "graph",
     FIELDS(graph_fields),
     .graph = true,
     .accepts = BO_ACCEPTS_ROW,
     .sets_width = true,
     .record = record_graph},
    {.name = "message", FIELDS(message_fields), .graph = true, .accepts = BO_ACCEPTS_ROW, .record = record_message},
    {0},
};
