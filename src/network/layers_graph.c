/* Layers that look along the edges of a graph. A node without neighbors receives 0. */
#include <stddef.h>
#include "internal.h"

#define AT(member) offsetof(bo_layer_options, member)

static const char *aggregate_name(unsigned value)
{
    static const char *const names[BO_AGGREGATE_COUNT] = {"sum", "mean", "max"};
    return value < BO_AGGREGATE_COUNT ? names[value] : NULL;
}

static bo_edges edges_of(const bo_recorder *r)
{
    return (bo_edges){r->out->first, r->out->neighbors};
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
     .kind = BO_FIELD_NAME,                                                                                            \
     .offset = AT(kind),                                                                                               \
     .names = aggregate_name,                                                                                          \
     .otherwise = BO_AGGREGATE_MEAN},                                                                                  \
        {.name = "edge-dropout", .kind = BO_FIELD_REAL, .offset = AT(edges), .most = 1},                               \
    {                                                                                                                  \
        .name = "node-dropout", .kind = BO_FIELD_REAL, .offset = AT(rate), .most = 1                                   \
    }

static const bo_layer_field graph_fields[] = {
    AGGREGATE,
    {.name = "width", .kind = BO_FIELD_WIDTH, .offset = AT(width)},
    {.name = "bias", .kind = BO_FIELD_BOOL, .offset = AT(bias), .otherwise = 1},
};

/* W_self x_i + W_neighbors agg_j x_j + b (GraphSAGE, 1706.02216); without a width the aggregate alone. */
static bo_value record_graph(bo_recorder *r)
{
    const bo_edges edges = edges_of(r);
    const bo_aggregate_layer layer = layer_of(r);
    const size_t width = r->options->width.value;
    bo_value seen = bo_nn_aggregate(r->graph, r->in[0], &edges, &layer);
    if (!width) return seen;
    r->shape.channels = width;
    /* These names are in files, and first values follow from them: the spelling stays. */
    const bo_nn_name own = bo_nn_join(r->layer->name, ".self"), theirs = bo_nn_join(r->layer->name, ".neighbours");
    bo_value kept =
        bo_nn_linear(r->graph, own.text, r->in[0], &(bo_linear_desc){.out = width, .bias = r->options->bias});
    return bo_nn_linear(r->graph, theirs.text, seen, &(bo_linear_desc){.out = width, .residual = kept});
}

static const bo_layer_field message_fields[] = {
    AGGREGATE,
    {.name = "hidden", .kind = BO_FIELD_WIDTH, .offset = AT(hidden)},
};

/* s_i + W_1 agg_j tanh(W_2 s_j) */
static bo_value record_message(bo_recorder *r)
{
    const bo_edges edges = edges_of(r);
    const bo_aggregate_layer layer = layer_of(r);
    const size_t hidden = r->options->hidden.value ? r->options->hidden.value : r->shape.channels;
    return bo_nn_message(r->graph, r->layer->name, r->in[0], &edges, hidden, &layer);
}

#define FIELDS(list) .fields = list, .field_count = sizeof list / sizeof *list

const bo_layer_type bo_layers_graph[] = {
    {.name = "graph",
     FIELDS(graph_fields),
     .graph = true,
     .takes = BO_TAKES_ROW,
     .sets_width = true,
     .record = record_graph},
    {.name = "message", FIELDS(message_fields), .graph = true, .takes = BO_TAKES_ROW, .record = record_message},
    {0},
};
