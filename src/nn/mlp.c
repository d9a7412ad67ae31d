/* The layer between attentions: up, a function, down. */
#include "internal.h"

static bo_unary function_of(bo_mlp kind)
{
    switch (kind) {
    case BO_MLP_GELU:
        return BO_UNARY_GELU;
    case BO_MLP_GELU_TANH:
        return BO_UNARY_GELU_TANH;
    case BO_MLP_SWIGLU:
        return BO_UNARY_SILU;
    default:
        return BO_UNARY_RELU2; /* 2109.08668 */
    }
}

static bo_value token_wise(bo_graph *graph, const char *prefix, bo_value x, bo_value residual, const bo_mlp_layer *desc)
{
    static const char *const suffixes[] = {".gate_proj", ".up_proj"};
    bo_nn_name down = bo_nn_join(prefix, ".down_proj");
    bo_linear_desc inward = {.out = desc->hidden, .bias = desc->bias}, both[2] = {inward, inward};
    bo_unary function = function_of(desc->kind);
    double factor = bo_nn_unit_factor(graph, function);
    bo_value hidden, parts[2] = {0};
    if (desc->kind == BO_MLP_SWIGLU) { /* silu(x Gᵀ) ∘ x Uᵀ (2002.05202) */
        bo_nn_linears(graph, prefix, x, 2, suffixes, both, parts);
        hidden =
            bo_graph_one(graph, BO_OP_GLU, &(bo_unary_attributes){.function = function, .factor = factor}, 2, parts);
    } else {
        bo_nn_linears(graph, prefix, x, 1, suffixes + 1, both, parts);
        hidden = bo_nn_unary(graph, parts[0], function, factor, 0);
    }
    return bo_nn_output(graph, down.text, hidden, residual, desc->bias, desc->dropout, bo_nn_stream(desc->layer, 1));
}

bo_value bo_nn_mlp(bo_graph *graph, const char *prefix, bo_value x, bo_value residual, const bo_mlp_layer *desc)
{
    switch (desc->kind) {
    case BO_MLP_NONE:
        return residual;
    case BO_MLP_RANDOM_FEATURES:
        return bo_nn_random_features(graph, prefix, x, residual, desc);
    case BO_MLP_DEGREE_2:
    case BO_MLP_DEGREE_3:
    case BO_MLP_DEGREE_4:
    case BO_MLP_DEGREE_E:
        return bo_nn_degree(graph, prefix, x, residual, desc);
    case BO_MLP_QUADRATIC:
        return bo_nn_quadratic(graph, prefix, x, residual, desc);
    default:
        return token_wise(graph, prefix, x, residual, desc);
    }
}
