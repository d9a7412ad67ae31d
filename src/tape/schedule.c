/* The schedule: forward of every node, then backward in reverse order, preceded by the recomputation of its segment. A
 * piece of memory is created by the step that writes it first and lives until the last step that uses it. */
#include "internal.h"

/* ---- pieces ------------------------------------------------------------------------------------------------------ */

/* Adds a piece. 0: out of memory. */
static uint32_t add_piece(bo_context *context, bo_graph *graph, size_t bytes)
{
    bo_arena_piece *piece = bo_list_add(context, &graph->pieces, sizeof *piece, "pieces of a plan");
    if (!piece) return 0;
    *piece = (bo_arena_piece){.bytes = bo_arena_piece_bytes(bytes),
                              .first = (uint32_t)graph->steps.count - 1,
                              .last = (uint32_t)graph->steps.count - 1};
    return (uint32_t)(graph->pieces.count - 1);
}

/* Marks a piece as used by the current step. */
static uint32_t use(bo_graph *graph, uint32_t piece)
{
    bo_arena_piece *used = bo_arena_piece_at(graph, piece);
    if (piece && used->last != BO_NEVER) used->last = (uint32_t)graph->steps.count - 1;
    return piece;
}

/* Adds a piece that is in use during the whole run and after it. */
static bo_status add_permanent(bo_context *context, bo_graph *graph, bo_placement placement,
                               const bo_graph_tensor *tensor, uint32_t *out)
{
    *out = add_piece(context, graph, bo_graph_tensor_bytes(tensor));
    if (!*out) return BO_MEMORY;
    bo_arena_piece *piece = bo_arena_piece_at(graph, *out);
    piece->placement = placement;
    piece->weight = tensor->weight;
    piece->first = 0;
    piece->last = BO_NEVER;
    return BO_OK;
}

/* Adds inputs, weights, and the gradients of weights and of the loss, which exist before the first step. */
static bo_status add_given(bo_context *context, bo_graph *graph)
{
    if (!bo_list_add(context, &graph->pieces, sizeof(bo_arena_piece), "pieces of a plan"))
        return BO_MEMORY; /* index 0 */
    for (bo_value v = 1; v < graph->tensors.count; v++) {
        bo_graph_tensor *t = bo_graph_tensor_at(graph, v);
        if (t->origin == BO_ORIGIN_OPERATION) continue;
        bo_placement placement = t->origin == BO_ORIGIN_WEIGHT ? BO_PLACEMENT_WEIGHT : BO_PLACEMENT_ARENA;
        BO_TRY(add_permanent(context, graph, placement, t, &t->piece));
        if (t->graded && placement == BO_PLACEMENT_WEIGHT)
            BO_TRY(add_permanent(context, graph, BO_PLACEMENT_GRADIENT, t, &t->gradient));
    }
    if (!graph->desc.gradients) return BO_OK;
    bo_graph_tensor *loss = bo_graph_tensor_at(graph, graph->desc.loss);
    BO_TRY(add_permanent(context, graph, BO_PLACEMENT_ARENA, loss, &loss->gradient));
    graph->seed = loss->gradient;
    return BO_OK;
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */

static bo_status begin_step(bo_context *context, bo_graph *graph, size_t node, bool backward, bo_step **out)
{
    bo_step *step = bo_list_add(context, &graph->steps, sizeof *step, "steps of a plan");
    if (!step) return BO_MEMORY;
    step->node = (uint32_t)node;
    step->backward = backward;
    *out = step;
    return BO_OK;
}

/* Adds pieces for the outputs of the node. */
static bo_status write_outputs(bo_context *context, bo_graph *graph, const bo_node *node, bo_step *step)
{
    for (size_t i = 0; i < node->outputs; i++) {
        bo_graph_tensor *t = bo_graph_tensor_at(graph, node->out[i]);
        step->out[i] = add_piece(context, graph, bo_graph_tensor_bytes(t));
        if (!step->out[i]) return BO_MEMORY;
        t->piece = step->out[i];
        if (t->kept || node->out[i] == graph->desc.loss)
            bo_arena_piece_at(graph, t->piece)->last = BO_NEVER;
        else if (t->storage == BO_ELEMENT_FLOAT32)
            bo_arena_piece_at(graph, t->piece)->floats = t->rows * t->columns;
    }
    return BO_OK;
}

/* Marks which gradients exist, for functions that only need to know this. */
static void mark_gradients(const bo_node *node, const bo_step *step, bo_op_call *call)
{
    for (size_t i = 0; i < node->inputs; i++) {
        call->din[i] = step->din[i] ? call : NULL;
        call->add[i] = step->add[i];
    }
    for (size_t i = 0; i < node->outputs; i++) call->dout[i] = step->dout[i] ? call : NULL;
}

static bo_status query_sizes(bo_context *context, const bo_graph *graph, const bo_node *node, const bo_op_call *call,
                             bool gradients, size_t *saved, size_t *scratch)
{
    size_t more_saved = 0, more_scratch = 0;
    bo_status status = node->op->sizes(context, call, gradients, &more_saved, &more_scratch);
    if (status != BO_OK) return bo_scope_fail(context, graph, node, status);
    if (more_saved > *saved) *saved = more_saved;
    if (more_scratch > *scratch) *scratch = more_scratch;
    return BO_OK;
}

/* Adds scratch memory for the call, and memory for the data saved for backward by forward, or by backward itself if
 * forward runs within it. */
static bo_status add_workspace(bo_context *context, bo_graph *graph, bo_node *node, bo_step *step, bool gradients)
{
    size_t saved = 0, scratch = 0;
    bo_op_call call;
    bo_node_call(graph, node, &call);
    /* for bo_graph_find_nonfinite, which runs forward */
    if (node->late) BO_TRY(query_sizes(context, graph, node, &call, gradients, &saved, &scratch));
    mark_gradients(node, step, &call);
    BO_TRY(query_sizes(context, graph, node, &call, gradients, &saved, &scratch));
    if (scratch && !(step->scratch = add_piece(context, graph, scratch))) return BO_MEMORY;
    bool saves = gradients && (!step->backward || node->late);
    if (saves && saved && !(step->saved = node->saved = add_piece(context, graph, saved))) return BO_MEMORY;
    return BO_OK;
}

/* `gradients`: a backward follows and reads the data saved now. */
static bo_status add_forward(bo_context *context, bo_graph *graph, size_t index, bool gradients, bool again)
{
    bo_step *step;
    bo_node *node = bo_node_at(graph, index);
    BO_TRY(begin_step(context, graph, index, false, &step));
    step->again = again;
    for (size_t i = 0; i < node->inputs; i++) step->in[i] = use(graph, bo_graph_tensor_at(graph, node->in[i])->piece);
    BO_TRY(write_outputs(context, graph, node, step));
    return add_workspace(context, graph, node, step, gradients);
}

/* Keeps the gradient until after the run, if requested. */
static void keep_gradient(bo_graph *graph, const bo_graph_tensor *tensor)
{
    if (tensor->gradient_kept) bo_arena_piece_at(graph, tensor->gradient)->last = BO_NEVER;
}

/* If the gradient of an input equals dout, it reuses the memory of dout instead of a copy: dout is not read after this
 * step. At most one input may do so, since other steps may add to it. */
static void pass_gradient(bo_graph *graph, const bo_node *node, const bo_step *step)
{
    bo_op_call call;
    if (!node->op->passes || !step->dout[0] || bo_graph_tensor_at(graph, node->out[0])->gradient_kept) return;
    bo_node_call(graph, node, &call);
    unsigned passes = node->op->passes(&call);
    for (size_t i = 0; i < node->inputs; i++) {
        bo_graph_tensor *t = bo_graph_tensor_at(graph, node->in[i]);
        if (!(passes >> i & 1) || !t->graded || t->gradient) continue;
        t->gradient = step->dout[0];
        keep_gradient(graph, t);
        return;
    }
}

/* The first step that writes a gradient overwrites it, further steps add to it. Gradients of weights are always added
 * to. */
static bo_status write_gradients(bo_context *context, bo_graph *graph, const bo_node *node, bo_step *step)
{
    pass_gradient(graph, node, step);
    for (size_t i = 0; i < node->inputs; i++) {
        bo_graph_tensor *t = bo_graph_tensor_at(graph, node->in[i]);
        if (!t->graded || (t->gradient && t->gradient == step->dout[0])) continue;
        step->add[i] = t->gradient != 0;
        if (!t->gradient && !(t->gradient = add_piece(context, graph, bo_graph_tensor_bytes(t)))) return BO_MEMORY;
        keep_gradient(graph, t);
        step->din[i] = use(graph, t->gradient);
    }
    return BO_OK;
}

static bo_status add_backward(bo_context *context, bo_graph *graph, size_t index)
{
    bo_step *step;
    bo_node *node = bo_node_at(graph, index);
    BO_TRY(begin_step(context, graph, index, true, &step));
    for (size_t i = 0; i < node->inputs; i++)
        if (node->late || node->op->reads_inputs >> i & 1)
            step->in[i] = use(graph, bo_graph_tensor_at(graph, node->in[i])->piece);
    if (node->late) BO_TRY(write_outputs(context, graph, node, step));
    for (size_t i = 0; i < node->outputs; i++) {
        const bo_graph_tensor *t = bo_graph_tensor_at(graph, node->out[i]);
        bool touched = node->op->reads_outputs >> i & 1 || node->op->forward_in_backward;
        if (!node->late && touched) step->out[i] = use(graph, t->piece);
        step->dout[i] = use(graph, t->gradient);
    }
    step->saved = use(graph, node->saved);
    BO_TRY(write_gradients(context, graph, node, step));
    return add_workspace(context, graph, node, step, true);
}

/* ---- order ------------------------------------------------------------------------------------------------------- */

static bo_status recompute(bo_context *context, bo_graph *graph, uint32_t segment)
{
    for (size_t n = 0; n < graph->nodes.count; n++) {
        const bo_node *node = bo_node_at(graph, n);
        if (node->segment == segment && node->again) BO_TRY(add_forward(context, graph, n, node->backward, true));
    }
    return BO_OK;
}

bo_status bo_graph_schedule(bo_context *context, bo_graph *graph)
{
    BO_TRY(add_given(context, graph));
    for (size_t n = 0; n < graph->nodes.count; n++) {
        const bo_node *node = bo_node_at(graph, n);
        if (!node->late) BO_TRY(add_forward(context, graph, n, node->backward && !node->again, false));
    }
    uint32_t entered = 0;
    for (size_t n = graph->nodes.count; n-- > 0;) {
        const bo_node *node = bo_node_at(graph, n);
        if (!node->backward) continue;
        if (node->segment != entered && node->segment) BO_TRY(recompute(context, graph, node->segment));
        entered = node->segment;
        BO_TRY(add_backward(context, graph, n));
    }
    return BO_OK;
}
