/* What two vectors have to do with each other. */
#include "internal.h"

bo_value bo_nn_pair(bo_graph *graph, const char *prefix, bo_value u, bo_value v, size_t hidden)
{
    bo_value product = bo_graph_one(graph, BO_OP_PRODUCT, &(bo_product_attributes){{0}}, 2, (bo_value[]){u, v});
    bo_value difference = bo_graph_one(graph, BO_OP_ADD, NULL, 2, (bo_value[]){u, bo_nn_factor(graph, v, -1)});
    bo_value all = bo_nn_concat(graph, 4, (bo_value[]){u, v, product, difference});
    bo_value x = bo_nn_linear(graph, prefix, all, &(bo_linear_desc){.out = hidden, .bias = true});
    return bo_nn_unary(graph, x, BO_UNARY_GELU, bo_nn_unit_factor(graph, BO_UNARY_GELU), 0);
}
