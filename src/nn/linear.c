/* Linear layers, embeddings, norms, dropout and positions. */
#include <math.h>
#include "internal.h"

/* ---- weights ---------------------------------------------------------------------------------------------------- */

bo_value bo_nn_parameter(bo_graph *graph, const char *prefix, const char *suffix, size_t rank, const size_t *shape,
                         bo_init init)
{
    bo_nn_name name = bo_nn_join(prefix, suffix);
    bo_weight desc = {.name = name.text, .rank = rank, .role = BO_WEIGHT_VECTOR, .init = init};
    for (size_t i = 0; i < rank; i++) desc.shape[i] = shape[i];
    return bo_graph_weight(graph, &desc);
}

bo_value bo_nn_vector(bo_graph *graph, const char *prefix, const char *suffix, size_t count, bo_init init)
{
    return bo_nn_parameter(graph, prefix, suffix, 1, &count, init);
}

/* The zero value of a linear layer's init is its own default. */
static bo_init matrix_init(bo_init wanted, size_t in)
{
    if (wanted.law != BO_INIT_ZERO || wanted.a == 1) return wanted;
    return (bo_init){.law = BO_INIT_NORMAL, .b = 1 / sqrt((double)in)};
}

static bo_value matrix(bo_graph *graph, const char *prefix, size_t in, const bo_linear_desc *desc)
{
    bo_nn_name name = bo_nn_join(prefix, ".weight");
    return bo_graph_weight(graph, &(bo_weight){.name = name.text,
                                               .rank = 2,
                                               .shape = {desc->out, in},
                                               .role = desc->role,
                                               .init = matrix_init(desc->init, in)});
}

/* ---- linear ----------------------------------------------------------------------------------------------------- */

void bo_nn_linears(bo_graph *graph, const char *prefix, bo_value x, size_t count, const char *const *suffixes,
                   const bo_linear_desc *descs, bo_value *out)
{
    bo_value inputs[BO_OP_INPUTS] = {x};
    size_t given = 1, in = bo_graph_columns(graph, x);
    bo_nn_name names[4];
    bool bias = descs[0].bias, residual = descs[0].residual != 0;
    for (size_t i = 0; i < count; i++) {
        names[i] = bo_nn_join(prefix, suffixes[i]);
        inputs[given++] = matrix(graph, names[i].text, in, &descs[i]);
    }
    for (size_t i = 0; bias && i < count; i++)
        inputs[given++] = bo_nn_vector(graph, names[i].text, ".bias", descs[i].out, descs[i].bias_init);
    if (residual) inputs[given++] = descs[0].residual;
    bo_graph_apply(graph, BO_OP_LINEAR, &(bo_linear_attributes){.weights = count, .bias = bias, .residual = residual},
                   given, inputs, out);
}

bo_value bo_nn_linear(bo_graph *graph, const char *prefix, bo_value x, const bo_linear_desc *desc)
{
    bo_value out = 0;
    const char *const suffix = "";
    bo_nn_linears(graph, prefix, x, 1, &suffix, desc, &out);
    return out;
}

bo_value bo_nn_output(bo_graph *graph, const char *prefix, bo_value x, bo_value residual, bool bias, double dropout,
                      uint64_t stream)
{
    bo_linear_desc desc = {
        .out = bo_graph_columns(graph, residual), .bias = bias, .init = {.law = BO_INIT_ZERO, .a = 1}};
    if (dropout == 0) {
        desc.residual = residual;
        return bo_nn_linear(graph, prefix, x, &desc);
    }
    bo_value y = bo_nn_dropout(graph, bo_nn_linear(graph, prefix, x, &desc), dropout, stream);
    return bo_graph_one(graph, BO_OP_ADD, NULL, 2, (bo_value[]){residual, y});
}

/* ---- the others ------------------------------------------------------------------------------------------------- */

bo_value bo_nn_embedding(bo_graph *graph, const char *prefix, bo_value tokens, size_t vocab, size_t width,
                         double deviation)
{
    bo_nn_name name = bo_nn_join(prefix, ".weight");
    bo_value table = bo_graph_weight(graph, &(bo_weight){.name = name.text,
                                                         .rank = 2,
                                                         .shape = {vocab, width},
                                                         .role = BO_WEIGHT_EMBEDDING,
                                                         .init = {.law = BO_INIT_NORMAL, .b = deviation}});
    return bo_graph_one(graph, BO_OP_EMBED, &(bo_embed_attributes){0}, 2, (bo_value[]){tokens, table});
}

bo_value bo_nn_norm(bo_graph *graph, const char *prefix, bo_value x, const bo_norm_layer *desc)
{
    bool layer = desc->kind == BO_NORM_LAYER;
    bo_init gain = {.law = BO_INIT_ONE};
    if (desc->gain != 0) gain = (bo_init){.law = BO_INIT_NORMAL, .a = desc->gain};
    bo_value inputs[3] = {x, bo_nn_vector(graph, prefix, ".weight", desc->width, gain)};
    if (layer) inputs[2] = bo_nn_vector(graph, prefix, ".bias", desc->width, (bo_init){0});
    bo_norm_attributes attributes = {.kind = layer ? BO_NORMALISE_LAYER : BO_NORMALISE_RMS,
                                     .width = desc->width,
                                     .epsilon = desc->epsilon,
                                     .gain = true,
                                     .bias = layer};
    return bo_graph_one(graph, BO_OP_NORM, &attributes, layer ? 3 : 2, inputs);
}

bo_value bo_nn_dropout(bo_graph *graph, bo_value x, double rate, uint64_t stream)
{
    if (rate == 0) return x;
    return bo_graph_one(graph, BO_OP_DROPOUT, &(bo_dropout_attributes){.rate = rate, .stream = stream}, 1, &x);
}

bo_value bo_nn_positions(bo_graph *graph, const char *prefix, bo_value x, bo_value positions, bo_positions kind,
                         size_t context)
{
    bool learned = kind == BO_POSITIONS_LEARNED;
    if (!learned && kind != BO_POSITIONS_SINUSOIDAL) return x;
    bo_value inputs[3] = {x, positions};
    bo_nn_name name = bo_nn_join(prefix, ".weight");
    if (learned)
        inputs[2] = bo_graph_weight(graph, &(bo_weight){.name = name.text,
                                                        .rank = 2,
                                                        .shape = {context, bo_graph_columns(graph, x)},
                                                        .role = BO_WEIGHT_EMBEDDING,
                                                        .init = {.law = BO_INIT_NORMAL, .b = 0.02}});
    bo_position_attributes attributes = {learned ? BO_POSITION_LEARNED : BO_POSITION_SINUSOIDAL};
    return bo_graph_one(graph, BO_OP_POSITION, &attributes, learned ? 3 : 2, inputs);
}

bo_value bo_nn_unary(bo_graph *graph, bo_value x, bo_unary function, double factor, double offset)
{
    bo_unary_attributes attributes = {.function = function, .factor = factor, .offset = offset};
    return bo_graph_one(graph, BO_OP_UNARY, &attributes, 1, &x);
}
