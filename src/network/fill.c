/* Examples on their way into a graph. */
#include <math.h>
#include <string.h>
#include "internal.h"

bo_status bo_network_check(bo_context *context, const bo_network *network, const bo_examples *examples, bool targets)
{
    const bo_facts *facts = &network->facts;
    const bool classes = network->loss == BO_NETWORK_CROSS_ENTROPY;
    if (examples->dim != facts->dim)
        return bo_fail(context, BO_INVALID, "the network takes %zu numbers an example, and the data has %zu",
                       facts->dim, examples->dim);
    if ((network->input == BO_NETWORK_GRAPH) != (examples->first != NULL))
        return bo_fail(context, BO_INVALID, "the network takes %s, and the data has %sedges",
                       bo_network_input_name(network->input), examples->first ? "" : "no ");
    if (!targets || network->target != BO_NO_LAYER) return BO_OK;
    if (!examples->y) return bo_fail(context, BO_INVALID, "the data has no targets, which the loss needs");
    if (classes && (!examples->classes || examples->classes > facts->classes))
        return bo_fail(context, BO_INVALID, "the network knows %zu classes, and the data has %zu", facts->classes,
                       examples->classes);
    if (!classes && (examples->classes || examples->targets != facts->targets))
        return bo_fail(context, BO_INVALID, "the network gives %zu targets, and the data has %zu%s", facts->targets,
                       examples->classes ? examples->classes : examples->targets, examples->classes ? " classes" : "");
    return bo_targets_check(context, network, examples);
}

int32_t bo_examples_label(const bo_examples *examples, size_t row)
{
    const double y = examples->y[row * examples->targets];
    return y >= 0 && y < (double)examples->classes ? (int32_t)y : -1;
}

static bo_status fill_rows(bo_context *context, const bo_network *network, bo_network_graph *graph,
                           const bo_examples *data, const size_t *rows)
{
    const size_t dim = data->dim;
    float *room = graph->room;
    if (graph->drawn) return BO_OK;
    for (size_t i = 0; i < graph->examples; i++)
        bo_scaling_apply(&network->inputs, dim, data->x + rows[i] * dim, room + i * dim);
    return bo_graph_write(context, graph->graph, graph->x, room);
}

/* The whole graph once, then only which nodes count. */
static bo_status fill_nodes(bo_context *context, const bo_network *network, bo_network_graph *graph,
                            const bo_examples *data, const size_t *rows)
{
    const int32_t none = 0;
    int32_t *room = graph->room;
    if (graph->written != data) {
        for (size_t i = 0; i < data->rows; i++)
            bo_scaling_apply(&network->inputs, data->dim, data->x + i * data->dim, (float *)room + i * data->dim);
        if (!graph->drawn) BO_TRY(bo_graph_write(context, graph->graph, graph->x, room));
        BO_TRY(bo_graph_write(context, graph->graph, graph->first, data->first));
        BO_TRY(bo_graph_write(context, graph->graph, graph->neighbors, data->edges ? data->neighbors : &none));
    }
    for (size_t i = 0; i < graph->examples; i++) room[i] = (int32_t)rows[i];
    return bo_graph_write(context, graph->graph, graph->chosen, room);
}

static bo_status fill_targets(bo_context *context, const bo_network *network, bo_network_graph *graph,
                              const bo_examples *data, const size_t *rows)
{
    const size_t targets = data->targets;
    int32_t *labels = graph->room;
    float *numbers = graph->room;
    if (network->loss == BO_NETWORK_CROSS_ENTROPY) {
        for (size_t i = 0; i < graph->examples; i++) labels[i] = bo_examples_label(data, rows[i]);
        return bo_graph_write(context, graph->graph, graph->targets, labels);
    }
    for (size_t i = 0; i < graph->examples; i++)
        for (size_t j = 0; j < targets; j++) numbers[i * targets + j] = (float)data->y[rows[i] * targets + j];
    bo_scaling_apply(&network->outputs, graph->examples * targets, numbers, numbers);
    return bo_graph_write(context, graph->graph, graph->targets, numbers);
}

bo_status bo_network_graph_fill(bo_context *context, const bo_network *network, bo_network_graph *graph,
                                const bo_examples *data, const size_t *rows)
{
    for (size_t i = 0; !graph->written && i < graph->constants; i++)
        BO_TRY(bo_graph_write(context, graph->graph, graph->constant[i].value, graph->constant[i].data));
    if (network->input == BO_NETWORK_GRAPH)
        BO_TRY(fill_nodes(context, network, graph, data, rows));
    else
        BO_TRY(fill_rows(context, network, graph, data, rows));
    if (graph->targets) BO_TRY(fill_targets(context, network, graph, data, rows));
    graph->written = data;
    return BO_OK;
}
