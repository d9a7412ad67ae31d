/* Analysis before scheduling: which tensors have gradients, and when nodes run. */
#include "internal.h"

/* ---- gradients --------------------------------------------------------------------------------------------------- */

static bool has_trained_input(const bo_graph *graph, const bo_node *node)
{
    for (size_t i = 0; i < node->inputs; i++)
        if (bo_graph_tensor_at(graph, node->in[i])->trained) return true;
    return false;
}

/* Forward over the nodes: marks tensors that depend on a trained weight, or on a value whose gradient is kept. */
static void mark_trained(bo_graph *graph)
{
    for (bo_value v = 1; v < graph->tensors.count; v++) {
        bo_graph_tensor *t = bo_graph_tensor_at(graph, v);
        t->trained =
            t->gradient_kept || (t->origin == BO_ORIGIN_WEIGHT && !bo_weights_at(graph->weights, t->weight)->frozen);
    }
    for (size_t n = 0; n < graph->nodes.count; n++) {
        const bo_node *node = bo_node_at(graph, n);
        const bool any = has_trained_input(graph, node);
        for (size_t i = 0; i < node->outputs; i++) {
            bo_graph_tensor *out = bo_graph_tensor_at(graph, node->out[i]);
            out->trained |= any && out->element == BO_ELEMENT_FLOAT32;
        }
    }
}

/* Weights stored in fewer bits have no gradients. */
static bo_status check_elements(bo_context *context, const bo_graph *graph)
{
    for (bo_value v = 1; v < graph->tensors.count; v++) {
        const bo_graph_tensor *t = bo_graph_tensor_at(graph, v);
        if (t->origin == BO_ORIGIN_WEIGHT && t->element != BO_ELEMENT_FLOAT32)
            return bo_fail(context, BO_INVALID,
                           "weight %s is stored in fewer bits, for inference only: it has no gradient",
                           bo_weights_at(graph->weights, t->weight)->name);
    }
    return BO_OK;
}

/* Gradients are written per input, so a tensor may not be an input twice. */
static bo_status check_distinct(bo_context *context, const bo_graph *graph, const bo_node *node)
{
    for (size_t i = 0; i < node->inputs; i++)
        for (size_t j = 0; j < i; j++)
            if (node->in[i] == node->in[j] && bo_graph_tensor_at(graph, node->in[i])->trained)
                return bo_fail(context, BO_INVALID,
                               "%s: %s: inputs %zu and %zu are the same tensor, which is not supported with gradients",
                               bo_scope_of(graph, node), node->op->name, j, i);
    return BO_OK;
}

/* Backward from the loss: marks tensors that have a gradient, and nodes that have a backward. */
static bo_status mark_graded(bo_context *context, bo_graph *graph)
{
    bo_graph_tensor_at(graph, graph->desc.loss)->graded = true;
    for (size_t n = graph->nodes.count; n-- > 0;) {
        bo_node *node = bo_node_at(graph, n);
        for (size_t i = 0; i < node->outputs; i++) {
            const bo_graph_tensor *out = bo_graph_tensor_at(graph, node->out[i]);
            node->backward |= out->graded && out->trained;
        }
        node->backward &= has_trained_input(graph, node);
        if (!node->backward) continue;
        if (!node->op->backward)
            return bo_fail(context, BO_UNSUPPORTED, "%s: %s has no gradient", bo_scope_of(graph, node), node->op->name);
        BO_TRY(check_distinct(context, graph, node));
        for (size_t i = 0; i < node->inputs; i++) {
            bo_graph_tensor *in = bo_graph_tensor_at(graph, node->in[i]);
            in->graded |= in->trained;
        }
    }
    return BO_OK;
}

/* ---- nodes computed in the backward pass ------------------------------------------------------------------------- */

static void mark_late(bo_graph *graph)
{
    for (size_t n = 0; n < graph->nodes.count; n++) {
        const bo_node *node = bo_node_at(graph, n);
        for (size_t i = 0; i < node->inputs; i++) bo_graph_tensor_at(graph, node->in[i])->read = true;
    }
    for (size_t n = 0; n < graph->nodes.count; n++) {
        bo_node *node = bo_node_at(graph, n);
        node->late = node->backward && node->op->forward_in_backward;
        for (size_t i = 0; i < node->outputs; i++) node->late &= !bo_graph_tensor_at(graph, node->out[i])->read;
    }
}

/* ---- segments ---------------------------------------------------------------------------------------------------- */

/* Returns the last segment with a backward. Its backward follows its forward directly, so recomputing it would save
 * nothing. */
static uint32_t last_segment(const bo_graph *graph)
{
    for (size_t n = graph->nodes.count; n-- > 0;) {
        const bo_node *node = bo_node_at(graph, n);
        if (node->backward && node->segment) return node->segment;
    }
    return 0;
}

/* Marks tensors that are read outside their segment or kept. */
static void mark_outside(bo_graph *graph)
{
    for (bo_value v = 1; v < graph->tensors.count; v++)
        bo_graph_tensor_at(graph, v)->outside = bo_graph_tensor_at(graph, v)->kept;
    bo_graph_tensor_at(graph, graph->desc.loss)->outside = true;
    for (size_t n = 0; n < graph->nodes.count; n++) {
        const bo_node *node = bo_node_at(graph, n);
        for (size_t i = 0; i < node->inputs; i++) {
            bo_graph_tensor *in = bo_graph_tensor_at(graph, node->in[i]);
            if (in->origin == BO_ORIGIN_OPERATION && bo_node_at(graph, in->node)->segment != node->segment)
                in->outside = true;
        }
    }
}

static void need_inputs(const bo_graph *graph, const bo_node *node, unsigned mask)
{
    for (size_t i = 0; i < node->inputs; i++)
        if (mask >> i & 1) bo_graph_tensor_at(graph, node->in[i])->needed = true;
}

/* Sets *out to true if forward saves data for backward. */
static bo_status saves_data(bo_context *context, const bo_graph *graph, const bo_node *node, bool *out)
{
    size_t saved = 0, scratch = 0;
    bo_op_call call;
    bo_node_call(graph, node, &call);
    bo_status status = node->op->sizes(context, &call, true, &saved, &scratch);
    *out = saved > 0;
    return status == BO_OK ? BO_OK : bo_scope_fail(context, graph, node, status);
}

/* Marks nodes to recompute. Goes in reverse order, so that all readers of a node's outputs are known before the
 * node. */
static bo_status mark_again(bo_context *context, bo_graph *graph)
{
    uint32_t last = last_segment(graph);
    for (size_t n = graph->nodes.count; n-- > 0;) {
        bo_node *node = bo_node_at(graph, n);
        if (!node->segment || node->segment == last) continue;
        bool again = false;
        if (node->backward && !node->late) BO_TRY(saves_data(context, graph, node, &again));
        for (size_t i = 0; i < node->outputs; i++) {
            const bo_graph_tensor *out = bo_graph_tensor_at(graph, node->out[i]);
            bool read = out->needed || (node->backward && node->op->reads_outputs >> i & 1);
            again |= read && !out->outside;
        }
        node->again = again && !node->late;
        if (node->again) need_inputs(graph, node, ~0u);
        if (node->backward) need_inputs(graph, node, node->op->reads_inputs);
    }
    return BO_OK;
}

static bo_status check_kept_gradients(bo_context *context, const bo_graph *graph)
{
    for (bo_value v = 1; v < graph->tensors.count; v++) {
        const bo_graph_tensor *t = bo_graph_tensor_at(graph, v);
        if (t->gradient_kept && !t->graded)
            return bo_fail(context, BO_INVALID,
                           "the gradient of value %u is to be kept, but the loss does not depend on it", v);
        if (t->gradient_kept && t->origin == BO_ORIGIN_WEIGHT && bo_weights_at(graph->weights, t->weight)->frozen)
            return bo_fail(context, BO_INVALID, "the gradient of weight %s is to be kept, but it is frozen",
                           bo_weights_at(graph->weights, t->weight)->name);
    }
    return BO_OK;
}

bo_status bo_graph_analyze(bo_context *context, bo_graph *graph)
{
    if (!graph->desc.gradients) return BO_OK;
    BO_TRY(check_elements(context, graph));
    mark_trained(graph);
    BO_TRY(mark_graded(context, graph));
    if (!bo_graph_tensor_at(graph, graph->desc.loss)->trained)
        return bo_fail(context, BO_INVALID,
                       "the loss does not depend on a trained weight: none is used, or all are frozen");
    BO_TRY(check_kept_gradients(context, graph));
    mark_late(graph);
    if (!graph->desc.checkpoint) return BO_OK;
    mark_outside(graph);
    return mark_again(context, graph);
}
