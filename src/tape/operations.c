/* The most common operations as functions, and the names of all operations. */
#include "enums.h"
#include "internal.h"

const char *bo_operation_name(bo_operation operation)
{
    return (unsigned)operation < BO_OPERATION_COUNT ? bo_backend_cpu()->ops[operation]->name : NULL;
}

bool bo_operation_parse(const char *name, bo_operation *out)
{
    if (!name || !out) return false;
    for (int i = 0; i < BO_OPERATION_COUNT; i++) {
        if (!bo_same_name(name, bo_operation_name((bo_operation)i))) continue;
        *out = (bo_operation)i;
        return true;
    }
    return false;
}

bo_value bo_graph_add(bo_graph *graph, bo_value a, bo_value b)
{
    return bo_graph_one(graph, BO_OPERATION_ADD, NULL, 2, (bo_value[]){a, b});
}

bo_value bo_graph_multiply(bo_graph *graph, bo_value a, bo_value b)
{
    return bo_graph_one(graph, BO_OPERATION_PRODUCT, NULL, 2, (bo_value[]){a, b});
}

bo_value bo_graph_scale(bo_graph *graph, bo_value x, double factor)
{
    if (factor == 0) return bo_graph_fail(graph, "scale: the factor must not be 0");
    bo_unary_attributes attributes = {.function = BO_UNARY_IDENTITY, .factor = factor};
    return bo_graph_one(graph, BO_OPERATION_UNARY, &attributes, 1, &x);
}

bo_value bo_graph_unary(bo_graph *graph, bo_unary function, bo_value x)
{
    return bo_graph_one(graph, BO_OPERATION_UNARY, &(bo_unary_attributes){.function = function}, 1, &x);
}

bo_value bo_graph_linear(bo_graph *graph, bo_value x, bo_value w, bo_value bias)
{
    bo_linear_attributes attributes = {.weights = 1, .bias = bias != 0};
    return bo_graph_one(graph, BO_OPERATION_LINEAR, &attributes, bias ? 3 : 2, (bo_value[]){x, w, bias});
}

bo_value bo_graph_embed(bo_graph *graph, bo_value indices, bo_value table)
{
    return bo_graph_one(graph, BO_OPERATION_EMBED, NULL, 2, (bo_value[]){indices, table});
}

bo_value bo_graph_reshape(bo_graph *graph, bo_value x, size_t columns)
{
    if (graph && bo_graph_columns(graph, x) == columns) return x;
    return bo_graph_one(graph, BO_OPERATION_RESHAPE, &(bo_reshape_attributes){.columns = columns}, 1, &x);
}

/* A tree, because an operation has at most BO_OP_INPUTS inputs: every part but the last is the largest power of it. */
bo_value bo_graph_concat(bo_graph *graph, size_t count, const bo_value *values)
{
    BO_RECORD_REQUIRE_IF(graph, count > 0, values);
    if (count == 1) return values[0];
    bo_value parts[BO_OP_INPUTS];
    size_t each = 1, used = 0;
    while (each * BO_OP_INPUTS < count) each *= BO_OP_INPUTS;
    for (size_t at = 0; at < count; at += each)
        parts[used++] = bo_graph_concat(graph, bo_min(each, count - at), values + at);
    return bo_graph_one(graph, BO_OPERATION_CONCAT, NULL, used, parts);
}

bo_value bo_graph_loss(bo_graph *graph, bo_loss_kind kind, bo_value prediction, bo_value target)
{
    return bo_graph_one(graph, BO_OPERATION_LOSS, &(bo_loss_attributes){.kind = kind}, 2,
                        (bo_value[]){prediction, target});
}

bo_value bo_graph_cross_entropy(bo_graph *graph, bo_value x, bo_value w, bo_value targets)
{
    return bo_graph_one(graph, BO_OPERATION_CROSS_ENTROPY, NULL, 3, (bo_value[]){x, w, targets});
}
