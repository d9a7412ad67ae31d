/* Random features, products of linear maps, quadratic forms, and the MLPs of transformers as residual blocks. */
#include <math.h>
#include <stddef.h>
#include "../../nn/enums.h"
#include "../../features/enums.h"
#include "../../base/rng.h"
#include "internal.h"

#define AT(member) offsetof(bo_layer_options, member)
enum { MAX_NUMBERS = 1 << 28 }; /* of the frequencies of a map, or of the forms of a layer */

static const char *kernel_name(unsigned value)
{
    return value == BO_KERNEL_CUSTOM ? "" : bo_kernel_name((bo_kernel)value);
}

static const char *function_name(unsigned value)
{
    return value == BO_FUNCTION_CUSTOM ? "" : bo_function_name((bo_function)value);
}

BO_FIELD_NAMES(bo_draw, draw)

#define MAP_FIELDS                                                                                                     \
    {.name = "kernel", .type = BO_FIELD_NAME, .offset = AT(features.kernel), .names = kernel_name},                    \
        {.name = "function", .type = BO_FIELD_NAME, .offset = AT(features.function), .names = function_name},          \
        {.name = "draw", .type = BO_FIELD_NAME, .offset = AT(features.draw), .names = draw_names},                     \
    {                                                                                                                  \
        .name = "gamma", .type = BO_FIELD_RANGE, .offset = AT(features.gamma)                                          \
    }

/* Creates the feature map of a layer over `dim` columns. Its frequencies follow from the network's seed and the layer's
 * number. */
static bo_status create_map(bo_context *context, bo_layer *layer, size_t dim, size_t features, uint64_t seed)
{
    bo_features_desc desc = layer->options.features;
    desc.dim = dim;
    desc.features = features;
    if (desc.gamma == 0) desc.gamma = bo_nn_unit_gamma(desc.kernel, dim);
    bo_rng rng = bo_rng_make(seed, bo_rng_stream("network.features", layer->place));
    desc.seed = bo_rng_bits(&rng);
    if ((double)dim * (double)features > MAX_NUMBERS)
        return bo_fail(context, BO_UNSUPPORTED, "%zu features of %zu numbers are too many", features, dim);
    return bo_features_create(context, &desc, &layer->features);
}

/* ---- random features --------------------------------------------------------------------------------------------- */

static const bo_field random_fields[] = {
    {.name = "features", .type = BO_FIELD_WIDTH, .offset = AT(width), .required = true},
    MAP_FIELDS,
};

static bo_status create_random(bo_context *context, bo_layer *layer, const bo_shape *in, const bo_network *network)
{
    return create_map(context, layer, in->channels, layer->options.width.value, network->seed);
}

/* √m φ(s x): s is learned, the frequencies are fixed, and the readout is a linear layer after it. |φ| is about 1 for
 * any number of features m. */
static bo_value record_random(bo_recorder *r)
{
    bo_value s = bo_nn_vector(r->graph, r->layer->name, ".scale", 1, (bo_weight_init){.kind = BO_WEIGHT_INIT_KIND_ONE});
    bo_value scaled = bo_graph_one(r->graph, BO_OPERATION_SCALE, NULL, 2, (bo_value[]){r->in[0], s});
    bo_value z =
        bo_graph_one(r->graph, BO_OPERATION_FEATURES, &(bo_features_attributes){r->layer->features}, 1, &scaled);
    r->shape.channels = bo_features_describe(r->layer->features)->features;
    return bo_nn_unary(r->graph, z, BO_UNARY_IDENTITY, sqrt((double)r->shape.channels), 0);
}

/* ---- degree, quadratic ------------------------------------------------------------------------------------------- */

static const bo_field degree_fields[] = {
    {.name = "degree", .type = BO_FIELD_NAME, .offset = AT(kind), BO_FIELD_LIST("2", "3", "4", "e"), .required = true},
    {.name = "width", .type = BO_FIELD_WIDTH, .offset = AT(width), .required = true},
    {.name = "heads", .type = BO_FIELD_COUNT, .offset = AT(heads), .default_value = 1},
    {.name = "bias", .type = BO_FIELD_BOOL, .offset = AT(bias)},
    {.name = "norm", .type = BO_FIELD_BOOL, .offset = AT(self), .default_value = 1},
};

/* σ(P_d(x)), where σ is the norm of products; without the norm, P_d(x). */
static bo_value record_degree(bo_recorder *r)
{
    const bo_layer_options *o = r->options;
    if (o->width.value % o->heads != 0)
        return bo_record_refuse(r, "%zu heads should divide its width of %zu", o->heads, o->width.value);
    r->shape.channels = o->width.value;
    const bo_block block = {.mlp = (bo_mlp)(BO_MLP_DEGREE_2 + o->kind),
                            .hidden = o->width.value,
                            .degree_heads = o->heads,
                            .bias = o->bias};
    if (!o->self) return bo_nn_degree_product(r->graph, r->layer->name, r->in[0], &block);
    return bo_nn_degree(r->graph, r->layer->name, r->in[0], &block);
}

static const bo_field quadratic_fields[] = {
    {.name = "width", .type = BO_FIELD_WIDTH, .offset = AT(width), .required = true},
};

/* y_o = xᵀ W_o x */
static bo_value record_quadratic(bo_recorder *r)
{
    const size_t in = r->shapes[0].channels;
    const bo_nn_name name = bo_nn_join(r->layer->name, ".forms.weight");
    r->shape.channels = r->options->width.value;
    if ((double)in * (double)in * (double)r->shape.channels > MAX_NUMBERS)
        return bo_record_refuse(r, "%zu forms of %zu x %zu numbers are too many", r->shape.channels, in, in);
    bo_weight_desc forms = {.name = name.text,
                            .rank = 2,
                            .shape = (size_t[]){r->shape.channels, in * in},
                            .init = {.kind = BO_WEIGHT_INIT_KIND_NORMAL, .b = 1 / (double)in}};
    return bo_graph_one(r->graph, BO_OPERATION_QUADRATIC, NULL, 2,
                        (bo_value[]){r->in[0], bo_graph_weight(r->graph, &forms)});
}

/* ---- MLP blocks -------------------------------------------------------------------------------------------------- */

BO_FIELD_NAMES(bo_mlp, mlp)

static const bo_field mlp_fields[] = {
    {.name = "kind", .type = BO_FIELD_NAME, .offset = AT(kind), .names = mlp_names},
    {.name = "hidden", .type = BO_FIELD_WIDTH, .offset = AT(hidden), .required = true},
    {.name = "heads", .type = BO_FIELD_COUNT, .offset = AT(heads), .default_value = 1},
    {.name = "dropout", .type = BO_FIELD_RANGE, .offset = AT(rate), .max = 1},
    {.name = "bias", .type = BO_FIELD_BOOL, .offset = AT(bias)},
    MAP_FIELDS,
};

static bo_status create_mlp(bo_context *context, bo_layer *layer, const bo_shape *in, const bo_network *network)
{
    if (layer->options.kind != BO_MLP_RANDOM_FEATURES) return BO_OK;
    return create_map(context, layer, in->channels, layer->options.hidden.value, network->seed);
}

/* x + mlp(rms(x)): the MLP block of a transformer, of any kind. */
static bo_value record_mlp(bo_recorder *r)
{
    const bo_layer_options *o = r->options;
    const double in = (double)r->shapes[0].channels, hidden = (double)o->hidden.value;
    if (o->hidden.value % o->heads != 0)
        return bo_record_refuse(r, "%zu heads should divide its %zu hidden columns", o->heads, o->hidden.value);
    if (o->kind == BO_MLP_QUADRATIC && in * hidden * hidden > MAX_NUMBERS)
        return bo_record_refuse(r, "%.0f forms of %.0f x %.0f numbers are too many", in, hidden, hidden);
    bo_value normed = bo_nn_norm(r->graph, bo_nn_join(r->layer->name, ".input_norm").text, r->in[0],
                                 &(bo_norm_layer){.width = r->shapes[0].channels, .epsilon = 1e-6});
    return bo_nn_mlp(r->graph, r->layer->name, normed, r->in[0],
                     &(bo_mlp_layer){.kind = (bo_mlp)o->kind,
                                     .hidden = o->hidden.value,
                                     .features = r->layer->features,
                                     .heads = o->heads,
                                     .bias = o->bias,
                                     .dropout = o->rate,
                                     .epsilon = 1e-6,
                                     .layer = r->layer->place});
}

#define FIELDS(list) .fields = list, .field_count = sizeof list / sizeof *list

const bo_layer_type bo_layers_features[] = {
    {.name = "random-features",
     FIELDS(random_fields),
     .sets_width = true,
     .create = create_random,
     .record = record_random},
    {.name = "degree", FIELDS(degree_fields), .sets_width = true, .record = record_degree},
    {.name = "quadratic", FIELDS(quadratic_fields), .sets_width = true, .record = record_quadratic},
    {.name = "mlp", FIELDS(mlp_fields), .create = create_mlp, .record = record_mlp},
    {0},
};
