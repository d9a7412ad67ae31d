/* Layers that are polynomials of their input: products of d linear maps, and quadratic forms. What keeps many of them in a
 * row trainable is a norm of the product (its size is the d-th power of x's) and an output that begins at zero beside the
 * residual, so that twenty layers begin as the identity. The norm is a soft one (BO_NN_SOFT): a product that happens to be
 * small stays so, for to blow it up would blow up its gradient, layer after layer. */
#include "internal.h"

static bo_value norm(bo_graph *graph, const char *prefix, bo_value x, size_t width, double epsilon)
{
    return bo_nn_norm(graph, bo_nn_join(prefix, ".norm").text, x, &(bo_norm_layer){.width = width, .epsilon = epsilon});
}

/* P_d(x) = Π_k (W_k x), k = 1 … d. A degree between 2 and 3 has a third factor of degree e - 2: softplus(W_3 x)^(e - 2), a
 * real power of a positive number. */
bo_value bo_nn_degree_product(bo_graph *graph, const char *prefix, bo_value x, const bo_mlp_layer *desc)
{
    static const char *const suffixes[] = {".factors.0", ".factors.1", ".factors.2", ".factors.3"};
    const bool between = desc->kind == BO_MLP_DEGREE_E;
    const size_t factors = between ? 3 : 2 + (size_t)(desc->kind - BO_MLP_DEGREE_2);
    bo_linear_desc inward = {.out = desc->hidden, .bias = desc->bias};
    bo_product_attributes product = {{0}};
    bo_value parts[4] = {0};
    bo_nn_linears(graph, prefix, x, factors, suffixes, (bo_linear_desc[]){inward, inward, inward, inward}, parts);
    if (between) {
        parts[2] = bo_nn_unary(graph, parts[2], BO_UNARY_SOFTPLUS, 1, 0);
        product.powers[2] = BO_NN_E - 2;
    }
    bo_value y = bo_graph_one(graph, BO_OP_PRODUCT, &product, factors, parts);
    return norm(graph, prefix, y, desc->hidden / (desc->heads ? desc->heads : 1), BO_NN_SOFT);
}

bo_value bo_nn_degree(bo_graph *graph, const char *prefix, bo_value x, bo_value residual, const bo_mlp_layer *desc)
{
    bo_value y = bo_nn_degree_product(graph, prefix, x, desc);
    return bo_nn_output(graph, bo_nn_join(prefix, ".down_proj").text, y, residual, desc->bias, desc->dropout,
                        bo_nn_stream(desc->layer, 1));
}

/* y_o = zᵀ W_o z for every column o of the residual, with z of `hidden` columns: a projection of x, normalized, or, as wide
 * as x, x itself. */
bo_value bo_nn_quadratic(bo_graph *graph, const char *prefix, bo_value x, bo_value residual, const bo_mlp_layer *desc)
{
    const size_t in = desc->hidden;
    bo_nn_name name = bo_nn_join(prefix, ".forms.weight");
    bo_weight forms = {.name = name.text, .rank = 2, .shape = {bo_graph_columns(graph, residual), in * in}};
    if (in != bo_graph_columns(graph, x)) {
        x = bo_nn_linear(graph, bo_nn_join(prefix, ".in_proj").text, x,
                         &(bo_linear_desc){.out = in, .bias = desc->bias});
        x = norm(graph, prefix, x, in, desc->epsilon);
    }
    bo_value y = bo_graph_one(graph, BO_OP_QUADRATIC, NULL, 2, (bo_value[]){x, bo_graph_weight(graph, &forms)});
    y = bo_nn_dropout(graph, y, desc->dropout, bo_nn_stream(desc->layer, 1));
    return bo_graph_one(graph, BO_OP_ADD, NULL, 2, (bo_value[]){residual, y});
}
