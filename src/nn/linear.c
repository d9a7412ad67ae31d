/* Linear layers, embeddings, norms, dropout, positions and pairs; names of the kinds of layers. */
#include <bochner/kinds.h>
#include <math.h>
#include "enums.h"
#include "../base/base.h"
#include "internal.h"
#include "lora.h"

/* ====================================================================================================================
 * Names of the kinds of layers. */

static const char *const mlp_names[BO_MLP_COUNT] = {
    "relu2",           "gelu",     "swiglu",     "none",     "gelu-tanh",
    "random-features", "degree-2", "degree-3",   "degree-4", "degree-e",
    "quadratic",       "geglu",    "geglu-tanh", "relu",     "silu"};
static const char *const norm_names[BO_NORM_COUNT] = {"rms", "layer"};
static const char *const position_names[BO_POSITIONS_COUNT] = {"rope", "rope-neighbors", "learned", "sinusoidal",
                                                               "none"};
static const char *const scaling_names[BO_ROPE_SCALING_COUNT] = {"none", "linear", "llama3"};
static const char *const mixer_names[BO_MIXER_COUNT] = {
    "attention", "mlp", "ssm", "conv", "rnn", "gru", "lstm", "degree-2", "degree-3", "degree-4", "degree-e"};
static const char *const ssm_names[BO_SSM_COUNT] = {"diagonal", "closed", "low-rank"};
static const char *const parametrization_names[BO_PARAMETRIZATION_COUNT] = {"standard", "mup", "unit"};
static const char *const storage_names[BO_STORAGE_COUNT] = {"float32", "bfloat16", "float8", "int8", "int4"};
static const char *const lora_init_names[BO_LORA_INIT_COUNT] = {"zero", "random", "weight", "gradient"};

/* CUSTOM and LAYERS have names but are not parsed: a name does not describe them. */
const char *bo_mlp_name(bo_mlp kind)
{
    if (kind == BO_MLP_CUSTOM) return "custom";
    if (kind == BO_MLP_LAYERS) return "layers";
    return (unsigned)kind < BO_MLP_COUNT ? mlp_names[kind] : NULL;
}

bool bo_mlp_parse(const char *name, bo_mlp *out)
{
    if (!name || !out) return false;
    int found = bo_find_name(name, mlp_names, BO_MLP_COUNT);
    if (found >= 0) *out = (bo_mlp)found;
    return found >= 0;
}

BO_NAMED(norm, bo_norm, norm_names)
BO_NAMED(positions, bo_positions, position_names)
BO_NAMED(rope_scaling_kind, bo_rope_scaling_kind, scaling_names)
BO_NAMED(mixer, bo_mixer, mixer_names)
BO_NAMED(ssm, bo_ssm, ssm_names)
BO_NAMED(parametrization, bo_parametrization, parametrization_names)
BO_NAMED(storage, bo_storage, storage_names)
BO_NAMED(lora_init, bo_lora_init, lora_init_names)

/* ====================================================================================================================
 * Linear layers, embeddings, norms, dropout and positions. */

/* ---- weights ----------------------------------------------------------------------------------------------------- */

bo_value bo_nn_parameter(bo_graph *graph, const char *prefix, const char *suffix, size_t rank, const size_t *shape,
                         bo_weight_init init)
{
    bo_nn_name name = bo_nn_join(prefix, suffix);
    bo_weight_desc desc = {
        .name = name.text, .rank = rank, .shape = shape, .role = BO_WEIGHT_ROLE_VECTOR, .init = init};
    return bo_graph_weight(graph, &desc);
}

bo_value bo_nn_vector(bo_graph *graph, const char *prefix, const char *suffix, size_t count, bo_weight_init init)
{
    return bo_nn_parameter(graph, prefix, suffix, 1, &count, init);
}

static bo_weight_init matrix_init(bo_weight_init init, size_t in)
{
    if (init.kind != BO_WEIGHT_INIT_KIND_AUTO) return init;
    return (bo_weight_init){.kind = BO_WEIGHT_INIT_KIND_NORMAL, .b = 1 / sqrt((double)in)};
}

static const bo_rules *rules_of(const bo_graph *graph)
{
    return bo_weights_rules(bo_graph_describe(graph)->weights);
}

void bo_nn_factor_out_scale(bo_weight_desc *w, size_t in)
{
    double root = sqrt((double)in);
    w->scale = 1 / (w->role == BO_WEIGHT_ROLE_HEAD ? (double)in : root);
    if (w->init.kind != BO_WEIGHT_INIT_KIND_NORMAL) return;
    w->init.a *= root;
    w->init.b *= root;
}

static bo_value matrix(bo_graph *graph, const char *prefix, size_t in, const bo_linear_layer *desc)
{
    bo_nn_name name = bo_nn_join(prefix, ".weight");
    bo_weight_desc w = {.name = name.text,
                        .rank = 2,
                        .shape = (size_t[]){desc->out, in},
                        .role = desc->role,
                        .init = matrix_init(desc->init, in)};
    if (rules_of(graph)->kind == BO_PARAMETRIZATION_UNIT) bo_nn_factor_out_scale(&w, in);
    return bo_graph_weight(graph, &w);
}

/* ---- linear ------------------------------------------------------------------------------------------------------ */

static bo_value rounded(bo_graph *graph, bo_value x, bo_small_float value, bo_small_float gradient)
{
    bo_round_attributes attributes = {.value = value, .gradient = gradient};
    return bo_graph_one(graph, BO_OPERATION_ROUND, &attributes, 1, &x);
}

static bo_value add_residual(bo_graph *graph, bo_value y, bo_value residual, double keep)
{
    if (keep != 0 && keep != 1) residual = bo_nn_unary(graph, residual, BO_UNARY_IDENTITY, keep, 0);
    return bo_graph_one(graph, BO_OPERATION_ADD, NULL, 2, (bo_value[]){residual, y});
}

/* Returns the scale of a weight: that of the parametrization times that of the layer. */
static double scale_of(const bo_graph *graph, bo_value weight, const bo_linear_layer *desc)
{
    const bo_weight *w = bo_graph_weight_of(graph, weight);
    return (w ? w->scale : 1) * (desc->factor != 0 ? desc->factor : 1);
}

/* In float8, x and W are rounded to E4M3 and the gradient of their product to E5M2. The gradient of the residual is not
 * rounded, so the residual is added separately. */
void bo_nn_linears(bo_graph *graph, const char *prefix, bo_value x, size_t count, const char *const *suffixes,
                   const bo_linear_layer *descs, bo_value *out)
{
    bool float8 = rules_of(graph)->float8, fused = descs[0].residual != 0 && !float8;
    bo_linear_attributes attributes = {
        .weights = count, .bias = descs[0].bias, .residual = fused, .keep = descs[0].keep};
    bo_value inputs[BO_OP_INPUTS] = {float8 ? rounded(graph, x, BO_SMALL_FLOAT_E4M3, BO_SMALL_FLOAT_NONE) : x};
    size_t given = 1, in = bo_graph_columns(graph, x);
    bo_nn_name names[4];
    for (size_t i = 0; i < count; i++) {
        names[i] = bo_nn_join(prefix, suffixes[i]);
        bo_value weight = matrix(graph, names[i].text, in, &descs[i]);
        attributes.scale = scale_of(graph, weight, &descs[i]);
        inputs[given++] = float8 ? rounded(graph, weight, BO_SMALL_FLOAT_E4M3, BO_SMALL_FLOAT_NONE) : weight;
    }
    for (size_t i = 0; attributes.bias && i < count; i++)
        inputs[given++] = bo_nn_vector(graph, names[i].text, ".bias", descs[i].out, descs[i].bias_init);
    if (fused) inputs[given++] = descs[0].residual;
    bo_value first = bo_graph_one(graph, BO_OPERATION_LINEAR, &attributes, given, inputs);
    for (size_t i = 0; i < count; i++) out[i] = bo_graph_output(graph, first, i);
    for (size_t i = 0; float8 && i < count; i++)
        out[i] = rounded(graph, out[i], BO_SMALL_FLOAT_NONE, BO_SMALL_FLOAT_E5M2);
    if (float8 && descs[0].residual) out[0] = add_residual(graph, out[0], descs[0].residual, descs[0].keep);
    for (size_t i = 0; i < count; i++)
        out[i] = bo_nn_adapted(graph, names[i].text, descs[i].role, attributes.scale, x, out[i]);
}

bool bo_nn_reserved(bo_graph *graph, const char *prefix, const char *name, const uint64_t reserved[4])
{
    if (!(reserved[0] | reserved[1] | reserved[2] | reserved[3])) return true;
    bo_graph_fail(graph, "%s: the reserved members of its %s are not zero; initialize it with {0}", prefix, name);
    return false;
}

bo_value bo_nn_linear(bo_graph *graph, const char *prefix, bo_value x, const bo_linear_layer *desc)
{
    BO_RECORD_REQUIRE(graph, prefix, desc);
    if (!bo_nn_reserved(graph, prefix, "bo_linear_layer", desc->reserved)) return 0;
    bo_value out = 0;
    const char *const suffix = "";
    bo_nn_linears(graph, prefix, x, 1, &suffix, desc, &out);
    return out;
}

/* Unit scale: y = (τ f(x) + x) / √(1 + τ²) with τ² = 1 / (N/2 + l) for branch l of N, so that the initial x has the
 * weight of half of all branches (2407.17465, appendix F, with its ratios at 1). No branch starts at zero in this case.
 */
static void balance(bo_graph *graph, bo_linear_layer *desc)
{
    const bo_rules *rules = rules_of(graph);
    double all = rules->branches ? (double)rules->branches : 2, branch = (double)bo_graph_branch(graph);
    if (rules->kind != BO_PARAMETRIZATION_UNIT) return;
    double tau = 1 / sqrt(all / 2 + branch);
    desc->init = (bo_weight_init){0};
    desc->keep = 1 / sqrt(1 + tau * tau);
    desc->factor = tau * desc->keep;
}

/* Records the norm and the dropout of a summand, and its sum with the residual stream. */
static bo_value join(bo_graph *graph, bo_value y, bo_value residual, const bo_output_layer *desc, double keep)
{
    if (desc->norm) y = bo_nn_norm(graph, desc->norm->prefix, y, desc->norm->layer);
    return add_residual(graph, bo_nn_dropout(graph, y, desc->dropout, desc->stream), residual, keep);
}

bo_value bo_nn_add(bo_graph *graph, bo_value y, bo_value residual, const bo_output_layer *desc)
{
    bo_linear_layer linear = {.factor = 1};
    balance(graph, &linear);
    if (desc->factor != 0) linear.factor *= desc->factor;
    if (linear.factor != 1) y = bo_graph_scale(graph, y, linear.factor);
    return join(graph, y, residual, desc, linear.keep);
}

bo_value bo_nn_output(bo_graph *graph, const char *prefix, bo_value x, bo_value residual, const bo_output_layer *desc)
{
    static const bo_output_layer default_layer = {0};
    BO_RECORD_REQUIRE(graph, prefix);
    if (!desc) desc = &default_layer;
    if (!bo_nn_reserved(graph, prefix, "bo_output_layer", desc->reserved)) return 0;
    bo_linear_layer linear = {.out = bo_graph_columns(graph, residual),
                              .bias = desc->bias,
                              .factor = 1,
                              .init = {.kind = BO_WEIGHT_INIT_KIND_ZERO}};
    balance(graph, &linear);
    if (desc->factor != 0) linear.factor *= desc->factor;
    if (desc->dropout == 0 && !desc->norm) {
        linear.residual = residual;
        return bo_nn_linear(graph, prefix, x, &linear);
    }
    return join(graph, bo_nn_linear(graph, prefix, x, &linear), residual, desc, linear.keep);
}

double bo_nn_unit_factor(const bo_graph *graph, bo_unary function)
{
    if (rules_of(graph)->kind != BO_PARAMETRIZATION_UNIT) return 1;
    switch (function) {
    case BO_UNARY_RELU2:
        return 1 / sqrt(1.5); /* E x⁴ / 2 */
    case BO_UNARY_GELU:
    case BO_UNARY_GELU_TANH:
        return 1 / 0.6521; /* √(1/3 + 1 / (2π√3)) */
    case BO_UNARY_SILU:
        return 1 / 0.5965; /* by quadrature */
    case BO_UNARY_RELU:
        return sqrt(2);
    default:
        return 1;
    }
}

/* ---- other layers ------------------------------------------------------------------------------------------------ */

bo_value bo_nn_embedding(bo_graph *graph, const char *prefix, bo_value tokens, size_t vocab, size_t width,
                         double deviation)
{
    BO_RECORD_REQUIRE(graph, prefix);
    bo_nn_name name = bo_nn_join(prefix, ".weight");
    bo_value table =
        bo_graph_weight(graph, &(bo_weight_desc){.name = name.text,
                                                 .rank = 2,
                                                 .shape = (size_t[]){vocab, width},
                                                 .role = BO_WEIGHT_ROLE_EMBEDDING,
                                                 .init = {.kind = BO_WEIGHT_INIT_KIND_NORMAL, .b = deviation}});
    return bo_graph_one(graph, BO_OPERATION_EMBED, NULL, 2, (bo_value[]){tokens, table});
}

bo_value bo_nn_norm(bo_graph *graph, const char *prefix, bo_value x, const bo_norm_layer *desc)
{
    BO_RECORD_REQUIRE(graph, prefix, desc);
    if (!bo_nn_reserved(graph, prefix, "bo_norm_layer", desc->reserved)) return 0;
    bool layer = desc->kind == BO_NORM_LAYER;
    const size_t width = desc->width ? desc->width : bo_graph_columns(graph, x);
    bo_weight_init gain = {.kind = BO_WEIGHT_INIT_KIND_ONE};
    if (desc->gain != 0) gain = (bo_weight_init){.kind = BO_WEIGHT_INIT_KIND_NORMAL, .a = desc->gain};
    bo_value inputs[3] = {x, bo_nn_vector(graph, prefix, ".weight", width, gain)};
    if (layer) inputs[2] = bo_nn_vector(graph, prefix, ".bias", width, (bo_weight_init){0});
    bo_norm_attributes attributes = {.kind = layer ? BO_NORM_LAYER : BO_NORM_RMS,
                                     .width = width,
                                     .epsilon = desc->epsilon != 0 ? desc->epsilon : 1e-6,
                                     .gain = true,
                                     .bias = layer};
    return bo_graph_one(graph, BO_OPERATION_NORM, &attributes, layer ? 3 : 2, inputs);
}

bo_value bo_nn_dropout(bo_graph *graph, bo_value x, double rate, uint64_t stream)
{
    if (graph && rate == 0) return x;
    return bo_graph_one(graph, BO_OPERATION_DROPOUT, &(bo_dropout_attributes){.rate = rate, .stream = stream}, 1, &x);
}

bo_value bo_nn_positions(bo_graph *graph, const char *prefix, bo_value x, bo_value positions, bo_positions kind,
                         size_t context)
{
    bool learned = kind == BO_POSITIONS_LEARNED;
    if (!learned && kind != BO_POSITIONS_SINUSOIDAL) return x;
    bo_value inputs[3] = {x, positions};
    bo_nn_name name = bo_nn_join(prefix, ".weight");
    if (learned)
        inputs[2] = bo_graph_weight(graph, &(bo_weight_desc){.name = name.text,
                                                             .rank = 2,
                                                             .shape = (size_t[]){context, bo_graph_columns(graph, x)},
                                                             .role = BO_WEIGHT_ROLE_EMBEDDING,
                                                             .init = {.kind = BO_WEIGHT_INIT_KIND_NORMAL, .b = 0.02}});
    bo_position_attributes attributes = {learned ? BO_POSITION_KIND_LEARNED : BO_POSITION_KIND_SINUSOIDAL};
    return bo_graph_one(graph, BO_OPERATION_POSITION, &attributes, learned ? 3 : 2, inputs);
}

bo_value bo_nn_unary(bo_graph *graph, bo_value x, bo_unary function, double factor, double offset)
{
    bo_unary_attributes attributes = {.function = function, .factor = factor, .offset = offset};
    return bo_graph_one(graph, BO_OPERATION_UNARY, &attributes, 1, &x);
}

/* ====================================================================================================================
 * Comparison of two vectors. */

bo_value bo_nn_pair(bo_graph *graph, const char *prefix, bo_value u, bo_value v, size_t hidden)
{
    bo_value product = bo_graph_one(graph, BO_OPERATION_PRODUCT, NULL, 2, (bo_value[]){u, v});
    bo_value difference = bo_graph_one(graph, BO_OPERATION_ADD, NULL, 2, (bo_value[]){u, bo_graph_scale(graph, v, -1)});
    bo_value all = bo_graph_concat(graph, 4, (bo_value[]){u, v, product, difference});
    bo_value x = bo_nn_linear(graph, prefix, all, &(bo_linear_layer){.out = hidden, .bias = true});
    return bo_nn_unary(graph, x, BO_UNARY_GELU, bo_nn_unit_factor(graph, BO_UNARY_GELU), 0);
}
