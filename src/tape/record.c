/* Recording of tensors and of the nodes that compute them. */
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "enums.h"
#include "internal.h"

enum { MAX_SCOPE = 128 };
static const size_t max_bytes = (size_t)1 << 48; /* maximum bytes per tensor, so that sums of sizes do not overflow */

/* ---- lists ------------------------------------------------------------------------------------------------------- */

void *bo_list_add(bo_context *context, bo_list *list, size_t size, const char *what)
{
    if (list->count == list->capacity) {
        size_t capacity = list->capacity ? 2 * list->capacity : 16;
        void *grown = bo_realloc(context, list->at, capacity, size, what);
        if (!grown) return NULL;
        list->at = grown;
        list->capacity = capacity;
    }
    assert(list->count < list->capacity);
    void *added = (char *)list->at + size * list->count++;
    memset(added, 0, size);
    return added;
}

/* Adds a tensor to the info. */
static bool add_shape(bo_context *context, bo_graph *graph, const bo_graph_tensor *tensor)
{
    bo_tensor *added = bo_list_add(context, &graph->shapes, sizeof *added, "tensors of a graph");
    if (!added) return false;
    *added = (bo_tensor){.element = tensor->element, .rows = tensor->rows, .columns = tensor->columns};
    graph->info.values = graph->shapes.count;
    graph->info.value = graph->shapes.at;
    return true;
}

/* ---- creation and destruction ------------------------------------------------------------------------------------ */

bo_status bo_graph_create(bo_context *context, bo_weights *weights, bo_graph **out)
{
    if (out) *out = NULL;
    BO_REQUIRE(context, weights, out);
    BO_TRY(bo_device_check(context, bo_weights_device(weights), "a set of weights"));
    bo_graph *graph = bo_alloc(context, 1, sizeof *graph, "a graph");
    if (!graph) return BO_MEMORY;
    graph->context = context;
    graph->weights = weights;
    graph->device = bo_weights_device(weights);
    graph->info.weights = weights;
    if (!bo_list_add(context, &graph->tensors, sizeof(bo_graph_tensor), "tensors of a graph") || /* index 0 */
        !add_shape(context, graph, &(bo_graph_tensor){0})) {
        bo_graph_destroy(graph);
        return BO_MEMORY;
    }
    bo_graph_scope(graph, "graph");
    if (graph->status != BO_OK) {
        bo_graph_destroy(graph);
        return BO_MEMORY;
    }
    *out = graph;
    return BO_OK;
}

void bo_graph_destroy(bo_graph *graph)
{
    if (!graph) return;
    for (size_t i = 0; i < graph->nodes.count; i++) bo_free(bo_node_at(graph, i)->attributes);
    for (size_t i = 0; i < graph->scopes.count; i++) bo_free(((char **)graph->scopes.at)[i]);
    for (size_t i = 0; i < graph->tensors.count; i++) bo_free(bo_graph_tensor_at(graph, (bo_value)i)->name);
    bo_free(graph->tensors.at);
    bo_free(graph->shapes.at);
    bo_free(graph->nodes.at);
    bo_free(graph->scopes.at);
    bo_free(graph->read.at);
    bo_free(graph->pieces.at);
    bo_free(graph->steps.at);
    bo_graph_forget_runs(graph);
    if (graph->arena) bo_buffer_release(graph->device, graph->arena);
    bo_free(graph->rounded);
    bo_free(graph);
}

/* ---- errors and scopes ------------------------------------------------------------------------------------------- */

static const char *current_scope(const bo_graph *graph)
{
    return graph->scopes.count ? ((char **)graph->scopes.at)[graph->scopes.count - 1] : "graph";
}

/* Stores the context's error as the graph's, unless the graph already has one. */
static bo_value remember(bo_graph *graph, bo_status status)
{
    if (graph->status != BO_OK) return 0;
    graph->status = status;
    snprintf(graph->error, sizeof graph->error, "%s: %s", current_scope(graph), bo_context_error(graph->context));
    return 0;
}

#define REFUSE(...) remember(graph, bo_fail(graph->context, BO_INVALID, __VA_ARGS__))

bo_value bo_graph_refuse_null(bo_graph *graph, const char *function, const char *names, const void *const *pointers)
{
    return graph ? remember(graph, bo_refuse_null(graph->context, function, names, pointers)) : 0;
}

bo_value bo_graph_fail(bo_graph *graph, const char *format, ...)
{
    BO_RECORD_REQUIRE(graph, format);
    if (graph->status != BO_OK) return 0;
    char text[BO_TAPE_ERROR];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    return REFUSE("%s", text);
}

bo_value bo_graph_set_error(bo_graph *graph, bo_status status)
{
    return remember(graph, status);
}

bo_context *bo_graph_context(const bo_graph *graph)
{
    return graph->context;
}

void bo_graph_scope(bo_graph *graph, const char *format, ...)
{
    if (!graph || !format || graph->status != BO_OK) return;
    char text[MAX_SCOPE];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    char *copy = bo_strdup(graph->context, text);
    char **scope = copy ? bo_list_add(graph->context, &graph->scopes, sizeof *scope, "scopes of a graph") : NULL;
    if (scope) {
        *scope = copy;
    } else {
        bo_free(copy);
        remember(graph, BO_MEMORY);
    }
}

bo_status bo_scope_fail(bo_context *context, const bo_graph *graph, const bo_node *node, bo_status status)
{
    return bo_fail(context, status, "%s: %s", bo_scope_of(graph, node), bo_context_error(context));
}

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

static bo_value add_tensor(bo_graph *graph, const bo_graph_tensor *tensor)
{
    size_t numbers, bytes;
    if (graph->status != BO_OK) return 0;
    if (!tensor->rows || !tensor->columns || __builtin_mul_overflow(tensor->rows, tensor->columns, &numbers) ||
        __builtin_mul_overflow(numbers, 4, &bytes) || bytes >= max_bytes)
        return REFUSE("a tensor of %zu x %zu numbers: expected at least 1 x 1 and less than 2^48 bytes", tensor->rows,
                      tensor->columns);
    bo_graph_tensor *added = bo_list_add(graph->context, &graph->tensors, sizeof *added, "tensors of a graph");
    if (!added) return remember(graph, BO_MEMORY);
    *added = *tensor;
    if (!add_shape(graph->context, graph, tensor)) return remember(graph, BO_MEMORY);
    added->storage = tensor->element;
    assert(graph->tensors.count > 1); /* index 0 is unused */
    return (bo_value)(graph->tensors.count - 1);
}

bo_value bo_graph_input(bo_graph *graph, const char *name, bo_element element, size_t rows, size_t columns)
{
    BO_RECORD_REQUIRE(graph, name);
    if (graph->status == BO_OK && element != BO_ELEMENT_FLOAT32 && element != BO_ELEMENT_INT32)
        return REFUSE("input %s: unknown element type %d, expected float32 or int32", name, (int)element);
    bo_value value = add_tensor(
        graph, &(bo_graph_tensor){
                   .origin = BO_ORIGIN_INPUT, .element = element, .rows = rows, .columns = columns, .kept = true});
    if (!value) return 0;
    char *copy = bo_strdup(graph->context, name);
    bo_graph_tensor_at(graph, value)->name = copy;
    return copy ? value : remember(graph, BO_MEMORY);
}

bo_value bo_graph_weight(bo_graph *graph, const bo_weight_desc *desc)
{
    BO_RECORD_REQUIRE(graph, desc);
    size_t index;
    if (graph->status != BO_OK) return 0;
    bo_status status = bo_weights_declare(graph->context, graph->weights, desc, &index);
    if (status != BO_OK) return remember(graph, status);
    while (graph->read.count <= index)
        if (!bo_list_add(graph->context, &graph->read, sizeof(bo_value), "weights of a graph"))
            return remember(graph, BO_MEMORY);
    bo_value *value = (bo_value *)graph->read.at + index;
    const bo_weight *weight = bo_weights_at(graph->weights, index);
    if (!*value)
        *value = add_tensor(graph, &(bo_graph_tensor){.origin = BO_ORIGIN_WEIGHT,
                                                      .element = weight->element,
                                                      .rows = weight->rows,
                                                      .columns = weight->columns,
                                                      .weight = index,
                                                      .kept = true});
    return *value;
}

static bool is_value(const bo_graph *graph, bo_value value)
{
    return value > 0 && value < graph->tensors.count;
}

const bo_graph_info *bo_graph_describe(const bo_graph *graph)
{
    return graph ? &graph->info : NULL;
}

const bo_weight *bo_graph_weight_of(const bo_graph *graph, bo_value value)
{
    if (!is_value(graph, value)) return NULL;
    const bo_graph_tensor *tensor = bo_graph_tensor_at(graph, value);
    return tensor->origin == BO_ORIGIN_WEIGHT ? bo_weights_at(graph->weights, tensor->weight) : NULL;
}

void bo_graph_set_plain(bo_graph *graph, bool plain)
{
    graph->plain = plain;
}

bool bo_graph_is_plain(const bo_graph *graph)
{
    return graph->plain;
}

void bo_graph_restart_branches(bo_graph *graph)
{
    graph->branches = 0;
}

size_t bo_graph_branch(bo_graph *graph)
{
    return graph->branches++;
}

void bo_graph_keep(bo_graph *graph, bo_value value)
{
    if (!graph || graph->status != BO_OK) return;
    if (is_value(graph, value))
        bo_graph_tensor_at(graph, value)->kept = true;
    else
        REFUSE("value %u is to be kept, but the graph has values 1 to %zu", value, graph->tensors.count - 1);
}

void bo_graph_keep_gradient(bo_graph *graph, bo_value value)
{
    if (!graph || graph->status != BO_OK) return;
    if (!is_value(graph, value))
        REFUSE("the gradient of value %u is to be kept, but the graph has values 1 to %zu", value,
               graph->tensors.count - 1);
    else if (bo_graph_tensor_at(graph, value)->element != BO_ELEMENT_FLOAT32)
        REFUSE("the gradient of value %u is to be kept, but it has none: its elements are not float32", value);
    else
        bo_graph_tensor_at(graph, value)->gradient_kept = true;
}

bo_value bo_graph_output(const bo_graph *graph, bo_value value, size_t index)
{
    if (!graph || !is_value(graph, value) || bo_graph_tensor_at(graph, value)->origin != BO_ORIGIN_OPERATION) return 0;
    const bo_node *node = bo_node_at(graph, bo_graph_tensor_at(graph, value)->node);
    return index < node->outputs ? node->out[index] : 0;
}

/* ---- nodes ------------------------------------------------------------------------------------------------------- */

static bo_tensor operand_of(const bo_graph *graph, bo_value value)
{
    const bo_graph_tensor *tensor = bo_graph_tensor_at(graph, value);
    return (bo_tensor){.element = tensor->storage, .rows = tensor->rows, .columns = tensor->columns};
}

void bo_node_call(const bo_graph *graph, const bo_node *node, bo_op_call *call)
{
    *call = (bo_op_call){.attributes = node->attributes, .inputs = node->inputs, .outputs = node->outputs};
    for (size_t i = 0; i < node->inputs; i++) call->in[i] = operand_of(graph, node->in[i]);
    for (size_t i = 0; i < node->outputs; i++) call->out[i] = operand_of(graph, node->out[i]);
}

/* True if the inputs are values of this graph. */
static bool accept(bo_graph *graph, const char *name, size_t count, const bo_value *inputs)
{
    if (count > BO_OP_INPUTS) REFUSE("%s: %zu inputs, expected at most %d", name, count, BO_OP_INPUTS);
    for (size_t i = 0; graph->status == BO_OK && i < count; i++)
        if (!is_value(graph, inputs[i]))
            REFUSE("%s: input %zu is value %u, but the graph has values 1 to %zu", name, i, inputs[i],
                   graph->tensors.count - 1);
    return graph->status == BO_OK;
}

/* Computes the shapes of the outputs and adds them to the graph. Returns the first. */
static bo_value add_outputs(bo_graph *graph, size_t index)
{
    bo_op_call call;
    bo_node *node = bo_node_at(graph, index);
    bo_node_call(graph, node, &call);
    bo_status status = node->op->shape(graph->context, &call);
    if (status != BO_OK) return remember(graph, status);
    assert(call.outputs >= 1 && call.outputs <= BO_OP_OUTPUTS);
    node->outputs = call.outputs;
    for (size_t i = 0; i < call.outputs; i++) {
        const bo_tensor *out = &call.out[i];
        node->out[i] = add_tensor(graph, &(bo_graph_tensor){.origin = BO_ORIGIN_OPERATION,
                                                            .element = out->element,
                                                            .rows = out->rows,
                                                            .columns = out->columns,
                                                            .node = (uint32_t)index});
    }
    return graph->status == BO_OK ? node->out[0] : 0;
}

bo_value bo_graph_record(bo_graph *graph, const bo_op *op, void *attributes, size_t count, const bo_value *inputs)
{
    bo_node *node = attributes && accept(graph, op->name, count, inputs)
                        ? bo_list_add(graph->context, &graph->nodes, sizeof *node, "nodes of a graph")
                        : NULL;
    if (!node) {
        bo_free(attributes);
        return remember(graph, BO_MEMORY); /* if no other error occurred */
    }
    *node = (bo_node){.op = op,
                      .attributes = attributes,
                      .scope = (uint32_t)graph->scopes.count - 1,
                      .segment = graph->segment,
                      .inputs = count};
    for (size_t i = 0; i < count; i++) node->in[i] = inputs[i];
    return add_outputs(graph, graph->nodes.count - 1);
}

/* NULL: the backend does not support the operation; the error is stored in the graph. */
static const bo_op *find_op(bo_graph *graph, bo_operation operation)
{
    const bo_op *op = (unsigned)operation < BO_OPERATION_COUNT ? bo_backend_of(graph->device)->ops[operation] : NULL;
    const char *name = bo_operation_name(operation);
    if (!op && graph->status == BO_OK && name)
        remember(graph, bo_fail(graph->context, BO_UNSUPPORTED, "operation %s is not supported on %s; use the CPU",
                                name, bo_device_name(graph->device)));
    if (!op && graph->status == BO_OK) REFUSE("operation %d does not exist", (int)operation);
    return graph->status == BO_OK ? op : NULL;
}

/* True if all bytes are zero. Attributes that are unknown to this version must be. */
static bool is_zero(const void *bytes, size_t count)
{
    const char *at = bytes;
    for (size_t i = 0; i < count; i++)
        if (at[i]) return false;
    return true;
}

bo_value bo_graph_apply(bo_graph *graph, bo_operation operation, const void *attributes, size_t attributes_bytes,
                        size_t count, const bo_value *inputs)
{
    BO_RECORD_REQUIRE_IF(graph, count > 0, inputs);
    BO_RECORD_REQUIRE_IF(graph, attributes_bytes > 0, attributes);
    const bo_op *op = find_op(graph, operation);
    if (!op) return 0;
    const size_t known = attributes_bytes < op->attributes ? attributes_bytes : op->attributes;
    if (attributes && !is_zero((const char *)attributes + known, attributes_bytes - known))
        return REFUSE("%s: attributes of %zu bytes have nonzero bytes after the %zu that this version supports",
                      op->name, attributes_bytes, op->attributes);
    void *copy = bo_alloc(graph->context, 1, op->attributes, "attributes of a node");
    if (copy && known) memcpy(copy, attributes, known);
    return bo_graph_record(graph, op, copy, count, inputs);
}

bo_value bo_graph_one(bo_graph *graph, bo_operation operation, const void *attributes, size_t count,
                      const bo_value *inputs)
{
    const bo_op *op = graph ? find_op(graph, operation) : NULL;
    return op ? bo_graph_apply(graph, operation, attributes, attributes ? op->attributes : 0, count, inputs) : 0;
}

size_t bo_graph_recorded(const bo_graph *graph)
{
    return graph->nodes.count;
}

const char *bo_graph_mixes(const bo_graph *graph, size_t since)
{
    static const bo_operation mixing[] = {BO_OPERATION_ATTENTION, BO_OPERATION_MIX,       BO_OPERATION_SSM,
                                          BO_OPERATION_RECURRENT, BO_OPERATION_POOL,      BO_OPERATION_CONVOLUTION,
                                          BO_OPERATION_AGGREGATE, BO_OPERATION_BATCH_NORM};
    for (size_t n = since; n < graph->nodes.count; n++)
        for (size_t i = 0; i < sizeof mixing / sizeof *mixing; i++)
            if (bo_node_at(graph, n)->op == bo_backend_of(graph->device)->ops[mixing[i]])
                return bo_node_at(graph, n)->op->name;
    return NULL;
}

void bo_graph_storable(const bo_graph *graph, bool *mask)
{
    for (size_t w = 0; w < bo_weights_count(graph->weights); w++) mask[w] = false;
    for (bo_value v = 1; v < graph->tensors.count; v++) {
        const bo_graph_tensor *t = bo_graph_tensor_at(graph, v);
        if (t->origin == BO_ORIGIN_WEIGHT) mask[t->weight] = true;
    }
    for (size_t n = 0; n < graph->nodes.count; n++) {
        const bo_node *node = bo_node_at(graph, n);
        for (size_t i = 0; i < node->inputs; i++) {
            const bo_graph_tensor *t = bo_graph_tensor_at(graph, node->in[i]);
            if (t->origin == BO_ORIGIN_WEIGHT && !(node->op->stored_inputs >> i & 1)) mask[t->weight] = false;
        }
    }
}

/* ---- segments ---------------------------------------------------------------------------------------------------- */

void bo_graph_segment(bo_graph *graph, bool begin)
{
    if (!graph || graph->status != BO_OK) return;
    if (begin && graph->segment)
        REFUSE("segments cannot be nested");
    else if (!begin && !graph->segment)
        REFUSE("a segment is ended that was not started");
    else
        graph->segment = begin ? ++graph->segments : 0; /* segments are numbered from 1 */
}
