/* Layers on graphs, and layers that reorder or perturb values. */
#include "internal.h"

bo_value bo_nn_noise(bo_graph *graph, bo_value x, bo_noise_kind kind, double amount, uint64_t stream)
{
    bo_noise_attributes attributes = {.kind = kind, .amount = amount, .stream = stream};
    if (amount == 0) return x;
    return bo_graph_one(graph, BO_OPERATION_NOISE, &attributes, 1, &x);
}

bo_value bo_nn_aggregate(bo_graph *graph, bo_value x, const bo_edges *edges, const bo_aggregate_layer *desc)
{
    bo_aggregate_attributes attributes = {.kind = desc->kind, .dropout = desc->edge_dropout, .stream = desc->stream};
    bo_value nodes = bo_nn_noise(graph, x, BO_NOISE_ROWS, desc->node_dropout, desc->stream + 1);
    return bo_graph_one(graph, BO_OPERATION_AGGREGATE, &attributes, 3,
                        (bo_value[]){nodes, edges->first, edges->neighbors});
}

/* tanh(W_2 s) is computed per node and not per edge, since it does not depend on the receiver. */
bo_value bo_nn_message(bo_graph *graph, const char *prefix, bo_value states, const bo_edges *edges, size_t hidden,
                       const bo_aggregate_layer *desc)
{
    bo_nn_name inward = bo_nn_join(prefix, ".message"), outward = bo_nn_join(prefix, ".update");
    bo_value messages = bo_nn_linear(graph, inward.text, states, &(bo_linear_layer){.out = hidden});
    messages = bo_nn_unary(graph, messages, BO_UNARY_TANH, 1, 0);
    messages = bo_nn_aggregate(graph, messages, edges, desc);
    return bo_nn_output(graph, outward.text, messages, states, NULL);
}
