/* Compilation of a recorded graph into steps with offsets in the arena. */
#include <math.h>
#include "internal.h"

static void forget_plan(bo_graph *graph)
{
    bo_graph_forget_runs(graph);
    bo_free(graph->rounded);
    graph->rounded = NULL;
    graph->layers = graph->sequences = 0;
    bo_free(graph->pieces.at);
    bo_free(graph->steps.at);
    if (graph->arena) bo_buffer_release(graph->device, graph->arena);
    graph->pieces = graph->steps = (bo_list){0};
    graph->arena = NULL;
    graph->planned = false;
    graph->info.bytes = 0;
    graph->info.flops = 0;
    graph->seed = 0;
    for (bo_value v = 0; v < graph->tensors.count; v++) {
        bo_graph_tensor *t = bo_graph_tensor_at(graph, v);
        t->trained = t->graded = t->read = t->outside = t->needed = false;
        t->piece = t->gradient = 0;
        t->storage = t->element;
    }
    for (size_t n = 0; n < graph->nodes.count; n++) {
        bo_node *node = bo_node_at(graph, n);
        node->backward = node->late = node->again = false;
        node->saved = 0;
    }
}

static bo_status check_loss(bo_context *context, const bo_graph *graph, const bo_graph_compile_desc *desc)
{
    if (!desc->loss && !desc->gradients) return BO_OK;
    if (!desc->loss || desc->loss >= graph->tensors.count)
        return bo_fail(context, BO_INVALID, "the loss is value %u, but the graph has values 1 to %zu", desc->loss,
                       graph->tensors.count - 1);
    const bo_graph_tensor *loss = bo_graph_tensor_at(graph, desc->loss);
    if (loss->rows != 1 || loss->columns != 1 || loss->element != BO_ELEMENT_FLOAT32 ||
        loss->origin != BO_ORIGIN_OPERATION)
        return bo_fail(context, BO_INVALID, "the loss is %zu x %zu: expected a 1 x 1 result of an operation",
                       loss->rows, loss->columns);
    return BO_OK;
}

/* ---- values on devices ------------------------------------------------------------------------------------------- */

/* Chooses the storage type of values: that of the device, except for losses and for results that the caller reads. */
static void choose_elements(bo_context *context, bo_graph *graph)
{
    if (bo_backend_storage(context, graph->device) != BO_ELEMENT_BFLOAT16) return;
    for (bo_value v = 1; v < graph->tensors.count; v++) {
        bo_graph_tensor *t = bo_graph_tensor_at(graph, v);
        if (t->element != BO_ELEMENT_FLOAT32 || t->origin == BO_ORIGIN_WEIGHT) continue;
        t->storage = BO_ELEMENT_BFLOAT16;
        if (t->origin != BO_ORIGIN_OPERATION) continue;
        const bo_node *node = bo_node_at(graph, t->node);
        for (size_t i = 0; i < node->outputs; i++) {
            const bool result = t->kept && !t->read && !t->gradient_kept && node->op->float_results >> i & 1;
            if (node->out[i] == v && (result || node->op->float_outputs >> i & 1)) t->storage = BO_ELEMENT_FLOAT32;
        }
    }
}

/* Counts the layers with states, and the default number of sequences of a pass. */
static void count_layers(bo_graph *graph)
{
    for (size_t n = 0; n < graph->nodes.count; n++) {
        const bo_node *node = bo_node_at(graph, n);
        bo_op_call call;
        if (!node->op->sequences) continue;
        bo_node_call(graph, node, &call);
        const bo_sequences of = node->op->sequences(&call);
        if (of.source) continue;
        graph->layers = bo_max(graph->layers, of.layer + 1);
        graph->sequences = bo_max(graph->sequences, of.tokens ? call.in[0].rows / of.tokens : 1);
    }
}

/* Allocates host memory for the largest value that a caller may write or read. */
static bo_status allocate_rounded(bo_context *context, bo_graph *graph)
{
    size_t max_bytes = 0;
    for (bo_value v = 1; v < graph->tensors.count; v++) {
        const bo_graph_tensor *t = bo_graph_tensor_at(graph, v);
        const bool host_visible = t->origin == BO_ORIGIN_INPUT || t->kept || t->gradient_kept;
        if (host_visible && t->storage == BO_ELEMENT_BFLOAT16 && bo_graph_tensor_bytes(t) > max_bytes)
            max_bytes = bo_graph_tensor_bytes(t);
    }
    if (!max_bytes || graph->rounded) return BO_OK;
    graph->rounded = bo_alloc_raw(context, max_bytes, 1, "values in bfloat16");
    return graph->rounded ? BO_OK : BO_MEMORY;
}

/* ---- compilation ------------------------------------------------------------------------------------------------- */

/* Counts the operations of forward, plus twice as many for nodes with a backward. */
static void count_operations(bo_context *context, bo_graph *graph)
{
    graph->info.flops = 0;
    for (size_t n = 0; n < graph->nodes.count; n++) {
        const bo_node *node = bo_node_at(graph, n);
        bo_op_call call;
        if (!node->op->operations) continue;
        bo_node_call(graph, node, &call);
        graph->info.flops += node->op->operations(context, &call) * (node->backward ? 3 : 1);
    }
}

bo_status bo_graph_check(bo_context *context, const bo_graph *graph)
{
    if (graph->status != BO_OK) return bo_fail(context, graph->status, "%s", graph->error);
    if (graph->segment) return bo_fail(context, BO_INVALID, "segment %u has no end", graph->segment);
    return BO_OK;
}

bo_status bo_graph_compile(bo_context *context, bo_graph *graph, const bo_graph_compile_desc *desc)
{
    BO_REQUIRE(context, graph, desc);
    BO_TRY(bo_graph_check(context, graph));
    BO_TRY(bo_check_reserved(context, "bo_graph_compile_desc", desc->reserved));
    BO_TRY(check_loss(context, graph, desc));
    forget_plan(graph);
    graph->desc = *desc;
    BO_TRY(bo_graph_analyze(context, graph));
    choose_elements(context, graph);
    count_layers(graph);
    BO_TRY(bo_graph_schedule(context, graph));
    BO_TRY(bo_graph_narrow(context, graph));
    BO_TRY(bo_arena_place(context, graph->pieces.count, graph->pieces.at, &graph->info.bytes));
    count_operations(context, graph);
    graph->planned = true;
    return BO_OK;
}

/* Sets the address of a piece after memory has been allocated. */
static bo_status find_address(bo_context *context, bo_graph *graph, bo_arena_piece *piece)
{
    if (piece->placement == BO_PLACEMENT_ARENA) {
        piece->address = graph->arena + piece->offset;
        return BO_OK;
    }
    const bo_weight *weight = bo_weights_at(graph->weights, piece->weight);
    piece->address = piece->placement == BO_PLACEMENT_WEIGHT ? weight->data : weight->gradient;
    if (piece->address) return BO_OK;
    return bo_fail(context, BO_INVALID, "weight %s has no memory for its %s: call bo_weights_allocate first",
                   weight->name, piece->placement == BO_PLACEMENT_WEIGHT ? "values" : "gradient");
}

bo_status bo_graph_allocate(bo_context *context, bo_graph *graph)
{
    BO_REQUIRE(context, graph);
    if (!graph->planned)
        return bo_fail(context, BO_INVALID, "the graph is not compiled yet: call bo_graph_compile first");
    if (graph->arena) return BO_OK;
    BO_TRY(allocate_rounded(context, graph));
    graph->arena = bo_buffer_allocate(context, graph->device, graph->info.bytes, "activations and their gradients");
    if (!graph->arena) return BO_MEMORY;
    bo_status status = BO_OK;
    for (uint32_t i = 1; status == BO_OK && i < graph->pieces.count; i++)
        status = find_address(context, graph, bo_arena_piece_at(graph, i));
    if (status == BO_OK) return BO_OK;
    bo_buffer_release(graph->device, graph->arena);
    graph->arena = NULL;
    return status;
}
