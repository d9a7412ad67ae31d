/* Sum, mean or maximum over the neighbors of each node. Every edge has a weight (1 for a sum, 1 / number of edges for a
 * mean, 0 for a dropped edge), so that sum and mean are a product with a sparse matrix, and backward is a product with
 * its transpose, built by a counting sort. One task sums each row in edge order. */
#include "cpu.h"
#include <string.h>
#include "blocks.h"
#include "masks.h"
#include "../shapes.h"
#include "../../base/rng.h"

/* The inputs by name, and pieces of workspace. */
typedef struct graph {
    bo_aggregate_kind kind;
    size_t nodes, targets, edges, columns; /* edges: number of edges in first[] */
    const int32_t *first, *neighbors;
    float *weight;                /* per edge */
    int32_t *begin, *edge, *into; /* backward: the edges of source j are edge[begin[j]] …; each has a target */
} graph;

static size_t padded(size_t count)
{
    return bo_padded_bytes(count * sizeof(float));
}

static graph graph_of(const bo_op_call *call)
{
    graph g = {.kind = ((const bo_aggregate_attributes *)call->attributes)->kind,
               .nodes = call->in[0].rows,
               .targets = call->in[1].rows - 1,
               .columns = call->in[0].columns,
               .first = call->in[1].data,
               .neighbors = call->in[2].data};
    char *at = call->scratch;
    size_t max_edges = call->in[2].rows;
    if (g.first) g.edges = (size_t)g.first[g.targets];
    if (!at) return g;
    g.weight = (float *)at;
    g.edge = (int32_t *)(at += padded(max_edges));
    g.into = (int32_t *)(at += padded(max_edges));
    g.begin = (int32_t *)(at + padded(max_edges));
    return g;
}

static bo_status sizes(bo_context *context, const bo_op_call *call, bool gradients, size_t *saved, size_t *scratch)
{
    (void)context;
    graph g = graph_of(&(bo_op_call){.attributes = call->attributes, .in = {call->in[0], call->in[1]}});
    *saved = gradients && g.kind == BO_AGGREGATE_MAX ? g.targets * g.columns * sizeof(int32_t) : 0;
    *scratch = 3 * padded(call->in[2].rows) + padded(g.nodes + 2);
    return BO_OK;
}

/* ---- graph ------------------------------------------------------------------------------------------------------- */

static bo_status check(bo_context *context, const bo_op_call *call)
{
    const int32_t *first = call->in[1].data, *neighbors = call->in[2].data;
    size_t targets = call->in[1].rows - 1, edges = call->in[2].rows;
    if (first[0] != 0)
        return bo_fail(context, BO_INVALID, "aggregate: the first edge of node 0 is %d, expected 0", (int)first[0]);
    for (size_t i = 0; i < targets; i++)
        if (first[i + 1] < first[i] || (size_t)first[i + 1] > edges)
            return bo_fail(context, BO_INVALID, "aggregate: the edges of node %zu end at %d, expected %d to %zu", i,
                           (int)first[i + 1], (int)first[i], edges);
    for (size_t e = 0; e < (size_t)first[targets]; e++)
        if (neighbors[e] < 0 || (size_t)neighbors[e] >= call->in[0].rows)
            return bo_fail(context, BO_INVALID, "aggregate: edge %zu refers to node %d, expected 0 to %zu", e,
                           (int)neighbors[e], call->in[0].rows - 1);
    return BO_OK;
}

static void draw_edges(const bo_kernels *kernels, const bo_op_call *call, const graph *g)
{
    const bo_aggregate_attributes *a = call->attributes;
    bool dropping = call->pass->training && a->dropout > 0;
    float factor = dropping && g->kind == BO_AGGREGATE_SUM ? (float)(1 / (1 - a->dropout)) : 1;
    uint64_t stream = bo_rng_stream("edges", a->stream);
    for (size_t e = 0; e < g->edges; e += BO_MASK_STRIP) {
        size_t count = g->edges - e < BO_MASK_STRIP ? g->edges - e : BO_MASK_STRIP;
        if (dropping)
            bo_mask_draw(kernels, call->pass->seed, stream, a->dropout, factor, e, count, g->weight + e);
        else
            for (size_t i = 0; i < count; i++) g->weight[e + i] = 1;
    }
}

static void weigh_edges(const bo_kernels *kernels, const bo_op_call *call, const graph *g)
{
    draw_edges(kernels, call, g);
    for (size_t i = 0; g->kind == BO_AGGREGATE_MEAN && i < g->targets; i++) {
        float total = 0;
        for (int32_t e = g->first[i]; e < g->first[i + 1]; e++) total += g->weight[e];
        for (int32_t e = g->first[i]; e < g->first[i + 1]; e++) g->weight[e] /= total > 0 ? total : 1;
    }
}

/* Transposes the graph by a counting sort: begin[j + 2] counts the edges of j; prefix sums give the start of j in
 * begin[j + 1]; placing the edges advances it to the start of j + 1. */
static void transpose_edges(const graph *g)
{
    memset(g->begin, 0, (g->nodes + 2) * sizeof *g->begin);
    for (size_t e = 0; e < g->edges; e++) g->begin[g->neighbors[e] + 2]++;
    for (size_t j = 2; j < g->nodes + 2; j++) g->begin[j] += g->begin[j - 1];
    for (size_t i = 0; i < g->targets; i++)
        for (int32_t e = g->first[i]; e < g->first[i + 1]; e++) {
            int32_t place = g->begin[g->neighbors[e] + 1]++;
            g->edge[place] = e;
            g->into[place] = (int32_t)i;
        }
}

/* ---- forward ----------------------------------------------------------------------------------------------------- */

static void sum_block(const bo_cpu_block *block)
{
    const graph g = graph_of(block->call);
    const float *x = block->call->in[0].data;
    for (size_t i = block->first; i < block->end; i++) {
        float *y = (float *)block->call->out[0].data + i * g.columns;
        memset(y, 0, g.columns * sizeof *y);
        for (int32_t e = g.first[i]; e < g.first[i + 1]; e++)
            if (g.weight[e] != 0)
                block->kernels->axpy(g.columns, g.weight[e], x + (size_t)g.neighbors[e] * g.columns, y);
    }
}

/* `which`, if not NULL: the edge with the maximum, or -1 for a node without edges. */
static void max_block(const bo_cpu_block *block)
{
    const graph g = graph_of(block->call);
    const float *x = block->call->in[0].data;
    for (size_t i = block->first; i < block->end; i++) {
        float *y = (float *)block->call->out[0].data + i * g.columns;
        int32_t *which = block->call->saved ? (int32_t *)block->call->saved + i * g.columns : NULL;
        bool none = true;
        memset(y, 0, g.columns * sizeof *y);
        for (size_t c = 0; which && c < g.columns; c++) which[c] = -1;
        for (int32_t e = g.first[i]; e < g.first[i + 1]; e++) {
            const float *row = x + (size_t)g.neighbors[e] * g.columns;
            if (g.weight[e] == 0) continue;
            for (size_t c = 0; c < g.columns; c++) {
                bool larger = none || row[c] > y[c] || row[c] != row[c];
                if (larger && which) which[c] = e;
                if (larger) y[c] = row[c];
            }
            none = false;
        }
    }
}

static bo_status forward(bo_context *context, const bo_op_call *call)
{
    BO_TRY(check(context, call));
    const graph g = graph_of(call);
    weigh_edges(bo_context_kernels(context), call, &g);
    bo_blocks(context, call, g.targets, bo_block_rows(g.columns * 4),
              g.kind == BO_AGGREGATE_MAX ? max_block : sum_block);
    return BO_OK;
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */

static void backward_block(const bo_cpu_block *block)
{
    const bo_op_call *call = block->call;
    const graph g = graph_of(call);
    const float *dout = call->dout[0];
    for (size_t j = block->first; j < block->end; j++) {
        float *dx = (float *)call->din[0] + j * g.columns;
        if (!call->add[0]) memset(dx, 0, g.columns * sizeof *dx);
        for (int32_t place = g.begin[j]; place < g.begin[j + 1]; place++) {
            int32_t e = g.edge[place];
            const float *dy = dout + (size_t)g.into[place] * g.columns;
            const int32_t *which =
                g.kind == BO_AGGREGATE_MAX ? (const int32_t *)call->saved + (size_t)g.into[place] * g.columns : NULL;
            if (!which && g.weight[e] != 0) block->kernels->axpy(g.columns, g.weight[e], dy, dx);
            for (size_t c = 0; which && c < g.columns; c++) dx[c] += which[c] == e ? dy[c] : 0;
        }
    }
}

static bo_status backward(bo_context *context, const bo_op_call *call)
{
    if (bo_backward_is_zero(call) || !call->din[0]) return BO_OK;
    const graph g = graph_of(call);
    weigh_edges(bo_context_kernels(context), call, &g);
    transpose_edges(&g);
    bo_blocks(context, call, g.nodes, bo_block_rows(g.columns * 4), backward_block);
    return BO_OK;
}

const bo_op bo_cpu_aggregate = {
    .name = "aggregate",
    .attributes = sizeof(bo_aggregate_attributes),
    .reads_inputs = 1 << 1 | 1 << 2,
    .shape = bo_shape_aggregate,
    .sizes = sizes,
    .forward = forward,
    .backward = backward,
};
