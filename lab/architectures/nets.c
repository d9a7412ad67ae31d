/* Graphs of nodes, and layers on them. */
#include "nets.h"
#include <math.h>

void lab_net_make(size_t nodes, const bool *sees, lab_net *out)
{
    int32_t edges = 0;
    out->nodes = nodes;
    for (size_t i = 0; i < nodes; i++) {
        out->first[i] = edges;
        for (size_t j = 0; j < nodes; j++)
            if (sees[i * nodes + j]) out->neighbors[edges++] = (int32_t)j;
    }
    out->first[nodes] = edges;
}

void lab_net_draw(bo_rng *rng, size_t nodes, double chance, bool *sees)
{
    for (size_t i = 0; i < nodes * nodes; i++) sees[i] = i / nodes != i % nodes && bo_rng_uniform(rng) < chance;
}

static bo_value record_layers(lab_tape *tape, const lab_layers *l, bo_value x, const lab_edges *edges,
                              const lab_edges *all)
{
    if (l->kind == LAB_RECURRENT) return lab_recurrent(tape->graph, "rnn", x, l->columns);
    if (l->tanh) x = lab_graph_unary(tape->graph, BO_UNARY_TANH, x);
    for (size_t i = 0; i < l->depth; i++) {
        const char name[] = {'l', (char)('0' + i % 10), 0};
        x = l->kind == LAB_AGGREGATES ? lab_aggregate(tape->graph, x, edges, l->aggregate)
                                      : lab_message(tape->graph, name, x, edges, LAB_NET_HIDDEN, l->aggregate);
    }
    return l->kind == LAB_READOUT ? lab_aggregate(tape->graph, x, all, BO_AGGREGATE_MEAN) : x;
}

/* Draws the output weights of message layers, which the library initializes to zero. */
static bo_status draw_updates(lab_tape *tape, const lab_layers *l)
{
    bo_rng rng = bo_rng_make(1, bo_rng_stream("lab.gnn.updates", 0));
    float numbers[LAB_NET_HIDDEN * LAB_NET_HIDDEN];
    if (l->kind != LAB_MESSAGES && l->kind != LAB_READOUT) return BO_OK;
    for (size_t i = 0; i < l->depth; i++) {
        const char name[] = {'l', (char)('0' + i), 0};
        for (size_t k = 0; k < l->columns * LAB_NET_HIDDEN; k++)
            numbers[k] = (float)(bo_rng_normal(&rng) / sqrt((double)LAB_NET_HIDDEN));
        BO_TRY(lab_tape_write(tape, lab_join(name, ".update.weight").text, numbers));
    }
    return BO_OK;
}

static bo_status apply_on(lab_tape *tape, const lab_net *n, const lab_layers *l, const float *x, float *y)
{
    const int32_t whole[2] = {0, (int32_t)n->nodes};
    int32_t all_nodes[LAB_NET_NODES];
    const size_t edges = (size_t)n->first[n->nodes];
    bo_value leaf = lab_tape_leaf(tape, "x", n->nodes, l->columns);
    lab_edges near = {bo_graph_input(tape->graph, "first", BO_ELEMENT_INT32, n->nodes + 1, 1),
                      bo_graph_input(tape->graph, "neighbors", BO_ELEMENT_INT32, edges ? edges : 1, 1)};
    lab_edges all = {bo_graph_input(tape->graph, "whole", BO_ELEMENT_INT32, 2, 1),
                     bo_graph_input(tape->graph, "everybody", BO_ELEMENT_INT32, n->nodes, 1)};
    for (size_t i = 0; i < n->nodes; i++) all_nodes[i] = (int32_t)i;
    BO_TRY(lab_tape_plan(tape, record_layers(tape, l, leaf, &near, &all), 1));
    BO_TRY(bo_graph_write(tape->context, tape->graph, near.first, n->first));
    BO_TRY(bo_graph_write(tape->context, tape->graph, near.neighbors, n->neighbors));
    BO_TRY(bo_graph_write(tape->context, tape->graph, all.first, whole));
    BO_TRY(bo_graph_write(tape->context, tape->graph, all.neighbors, all_nodes));
    BO_TRY(draw_updates(tape, l));
    BO_TRY(lab_tape_write(tape, "x", x));
    BO_TRY(lab_tape_run(tape, NULL));
    return lab_tape_output(tape, y);
}

bo_status lab_net_apply(lab_run *run, const lab_net *n, const lab_layers *l, const float *x, float *y)
{
    lab_tape tape;
    bo_status status = lab_tape_open(lab_context(run), &tape);
    if (status == BO_OK) status = apply_on(&tape, n, l, x, y);
    lab_tape_close(&tape);
    return status;
}
