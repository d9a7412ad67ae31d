/* Sum, mean or maximum over the neighbors of each node: see cpu/aggregate.c. In backward, the edges are sorted by their
 * source, and every source adds the gradients of its edges in order. */
#include "rows.h"
#include "../shapes.h"
#include "../../base/rng.h"

/* Parts of the workspace; the parts after `weight` are for backward. */
typedef struct pieces {
    float *weight;
    int32_t *into, *keys;
    void *sorting;
} pieces;

static size_t padded(size_t count)
{
    return bo_padded_bytes(count * sizeof(float));
}

static pieces pieces_of(const bo_op_call *call)
{
    char *at = call->scratch;
    const size_t each = padded(call->in[2].rows);
    return (pieces){(float *)(void *)at, (int32_t *)(void *)(at + each), (int32_t *)(void *)(at + 2 * each),
                    at + 3 * each};
}

static bo_aggregate_kind kind_of(const bo_op_call *call)
{
    return ((const bo_aggregate_attributes *)call->attributes)->kind;
}

static bo_status sizes(bo_context *context, const bo_op_call *call, bool gradients, size_t *saved, size_t *scratch)
{
    (void)context;
    const size_t targets = call->in[1].rows - 1, edges = call->in[2].rows;
    *saved = gradients && kind_of(call) == BO_AGGREGATE_MAX ? targets * call->in[0].columns * sizeof(int32_t) : 0;
    *scratch = padded(edges) + (call->din[0] ? 2 * padded(edges) + bo_gpu_sorted_bytes(edges) : 0);
    return BO_OK;
}

static bo_gpu_edges edges_of(const bo_op_call *call)
{
    return (bo_gpu_edges){.nodes = call->in[0].rows,
                          .targets = call->in[1].rows - 1,
                          .edges = call->in[2].rows,
                          .columns = call->in[0].columns,
                          .first = call->in[1].data,
                          .neighbors = call->in[2].data,
                          .weight = pieces_of(call).weight};
}

static bo_status weigh(bo_context *context, const bo_op_call *call, int32_t *into, int32_t *keys)
{
    const bo_aggregate_attributes *a = call->attributes;
    const bool dropping = call->pass->training && a->dropout > 0;
    return BO_LAUNCH(
        context, edge_weights,
        &((bo_gpu_edge_weights){.graph = edges_of(call),
                                .pass = call->staged->device,
                                .dropping = dropping,
                                .mean = a->kind == BO_AGGREGATE_MEAN,
                                .stream = bo_rng_stream("edges", a->stream),
                                .threshold = dropping ? (uint32_t)(a->dropout * 0x1p32) : 0,
                                .factor = dropping && a->kind == BO_AGGREGATE_SUM ? (float)(1 / (1 - a->dropout)) : 1,
                                .into = into,
                                .keys = keys}));
}

static bo_status forward(bo_context *context, const bo_op_call *call)
{
    const bool largest = kind_of(call) == BO_AGGREGATE_MAX;
    BO_TRY(weigh(context, call, NULL, NULL));
    return BO_LAUNCH(context, aggregate,
                     &((bo_gpu_aggregate){.graph = edges_of(call),
                                          .largest = largest,
                                          .x = bo_gpu_in(call, 0),
                                          .y = bo_gpu_out(call, 0),
                                          .which = largest ? call->saved : NULL}));
}

static bo_status backward(bo_context *context, const bo_op_call *call)
{
    const pieces p = pieces_of(call);
    bo_gpu_sorted sorted;
    bool done;
    BO_TRY(bo_gpu_backward_zero(context, call, &done));
    if (done || !call->din[0]) return BO_OK;
    BO_TRY(weigh(context, call, p.into, p.keys));
    BO_TRY(bo_gpu_sort_keys(context, p.keys, call->in[2].rows, call->in[0].rows, p.sorting, &sorted));
    return BO_LAUNCH(context, aggregate_back,
                     &((bo_gpu_aggregate_back){.graph = edges_of(call),
                                               .sorted = sorted.keys,
                                               .order = sorted.order,
                                               .into = p.into,
                                               .which = kind_of(call) == BO_AGGREGATE_MAX ? call->saved : NULL,
                                               .dy = bo_gpu_dout(call, 0),
                                               .dx = bo_gpu_din(call, 0)}));
}

const bo_op bo_gpu_op_aggregate = {
    .name = "aggregate",
    .attributes = sizeof(bo_aggregate_attributes),
    .reads_inputs = 1 << 1 | 1 << 2,
    .shape = bo_shape_aggregate,
    .sizes = sizes,
    .forward = forward,
    .backward = backward,
};
