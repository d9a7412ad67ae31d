/* Custom operations: a bo_op that calls the functions of a bo_operation_desc on host memory. */
#include <math.h>
#include <string.h>
#include "internal.h"

static const size_t max_bytes = (size_t)1 << 48; /* maximum bytes of saved or scratch memory, as for a tensor */

/* The attributes of a node: the operation, its descriptor and name, followed by the recorded attributes, in one
 * block. */
typedef struct custom {
    bo_op op;
    bo_operation_desc desc;
    size_t bytes; /* bytes of the recorded attributes; 0: none */
} custom;

static size_t attributes_offset(void)
{
    return bo_padded_bytes(sizeof(custom));
}

static const custom *custom_of(const bo_op_call *call)
{
    return call->attributes;
}

/* ---- calls of user functions ------------------------------------------------------------------------------------- */

/* A call as passed to the user's functions, with the arrays that it points to. */
typedef struct custom_call {
    bo_operation_call call;
    float *din[BO_OP_INPUTS];
    const float *dout[BO_OP_OUTPUTS];
} custom_call;

static const bo_operation_call *open_call(const bo_op_call *call, bool backward, custom_call *out)
{
    const custom *c = custom_of(call);
    out->call = (bo_operation_call){.user = c->desc.user,
                                    .attributes = c->bytes ? (const char *)c + attributes_offset() : NULL,
                                    .inputs = call->inputs,
                                    .outputs = c->desc.outputs,
                                    .in = call->in,
                                    .out = call->out,
                                    .saved = call->saved,
                                    .scratch = call->scratch,
                                    .pass = call->pass};
    if (!backward) return &out->call;
    for (size_t i = 0; i < BO_OP_INPUTS; i++) out->din[i] = call->din[i];
    for (size_t i = 0; i < BO_OP_OUTPUTS; i++) out->dout[i] = call->dout[i];
    out->call.din = out->din;
    out->call.dout = out->dout;
    return &out->call;
}

/* Sets an error message even if the function failed without one. */
static bo_status check_status(bo_context *context, const custom *c, bo_status status)
{
    if (status == BO_OK) return BO_OK;
    const char *message = bo_context_error(context);
    return bo_fail(context, status, "%s: %s", c->op.name, *message ? message : bo_status_string(status));
}

/* ---- bo_op ------------------------------------------------------------------------------------------------------- */

static bo_status custom_shape(bo_context *context, bo_op_call *call)
{
    const custom *c = custom_of(call);
    custom_call buffer;
    bo_tensor outputs[BO_OP_OUTPUTS] = {{0}};
    if (c->desc.inputs && call->inputs != c->desc.inputs)
        return bo_fail(context, BO_INVALID, "%s: %zu inputs, expected %zu", c->op.name, call->inputs, c->desc.inputs);
    for (size_t i = 0; !c->desc.shape && i < c->desc.outputs; i++)
        outputs[i] = (bo_tensor){.rows = call->in[0].rows, .columns = call->in[0].columns};
    bo_context_forget_error(context);
    if (c->desc.shape)
        BO_TRY(check_status(context, c, c->desc.shape(context, open_call(call, false, &buffer), outputs)));
    for (size_t i = 0; i < c->desc.outputs; i++) {
        const bo_tensor *out = &outputs[i];
        if (!out->rows || !out->columns || (out->element != BO_ELEMENT_FLOAT32 && out->element != BO_ELEMENT_INT32))
            return bo_fail(context, BO_INVALID,
                           "%s: its shape function sets output %zu to %zu x %zu with element %d, expected at least 1 x "
                           "1 of float32 or int32",
                           c->op.name, i, out->rows, out->columns, (int)out->element);
        call->out[i] = (bo_tensor){.element = out->element, .rows = out->rows, .columns = out->columns};
    }
    call->outputs = c->desc.outputs;
    return BO_OK;
}

static bo_status custom_sizes(bo_context *context, const bo_op_call *call, bool gradients, size_t *saved,
                              size_t *scratch)
{
    const custom *c = custom_of(call);
    custom_call buffer;
    *saved = *scratch = 0;
    if (!c->desc.sizes) return BO_OK;
    bo_context_forget_error(context);
    BO_TRY(
        check_status(context, c, c->desc.sizes(context, open_call(call, false, &buffer), gradients, saved, scratch)));
    if (*saved >= max_bytes || *scratch >= max_bytes)
        return bo_fail(context, BO_INVALID,
                       "%s: requests %zu saved bytes and %zu scratch bytes, expected less than 2^48", c->op.name,
                       *saved, *scratch);
    if (!gradients) *saved = 0;
    return BO_OK;
}

static bo_status custom_forward(bo_context *context, const bo_op_call *call)
{
    const custom *c = custom_of(call);
    custom_call buffer;
    bo_context_forget_error(context);
    return check_status(context, c, c->desc.forward(context, open_call(call, false, &buffer)));
}

/* The user's function only adds to gradients, so gradients that are not yet written are set to zero. */
static bo_status custom_backward(bo_context *context, const bo_op_call *call)
{
    const custom *c = custom_of(call);
    custom_call buffer;
    for (size_t i = 0; i < call->inputs; i++)
        if (call->din[i] && !call->add[i])
            memset(call->din[i], 0, call->in[i].rows * call->in[i].columns * sizeof(float));
    bo_context_forget_error(context);
    return check_status(context, c, c->desc.backward(context, open_call(call, true, &buffer)));
}

static double custom_operations(bo_context *context, const bo_op_call *call)
{
    const custom *c = custom_of(call);
    custom_call buffer;
    (void)context;
    double count = c->desc.operations ? c->desc.operations(open_call(call, false, &buffer)) : 0;
    return isfinite(count) && count > 0 ? count : 0;
}

/* ---- recording --------------------------------------------------------------------------------------------------- */

static const char *find_error(const bo_graph *graph, const bo_operation_desc *desc, size_t bytes, size_t count)
{
    if (!*desc->name) return "a custom operation needs a name";
    if (!desc->forward) return "it has no forward function";
    if (bo_device_is_gpu(graph->device)) return "functions of the caller cannot access the memory of this backend";
    if (desc->inputs > BO_OP_INPUTS || count > BO_OP_INPUTS || !count) return "expected 1 to 16 inputs";
    if (desc->outputs > BO_OP_OUTPUTS) return "expected at most 4 outputs";
    if (bytes >= max_bytes) return "the attributes have 2^48 bytes or more";
    return NULL;
}

bo_value bo_graph_apply_custom(bo_graph *graph, const bo_operation_desc *desc, const void *attributes,
                               size_t attributes_bytes, size_t count, const bo_value *inputs)
{
    BO_RECORD_REQUIRE(graph, desc);
    BO_RECORD_REQUIRE_IF(graph, count > 0, inputs);
    BO_RECORD_REQUIRE_IF(graph, attributes_bytes > 0, attributes);
    BO_RECORD_REQUIRE(graph, desc->name);
    const char *error = find_error(graph, desc, attributes_bytes, count);
    if (error) return bo_graph_fail(graph, "%s: %s", *desc->name ? desc->name : "custom operation", error);
    if (graph->status != BO_OK) return 0;
    if (bo_check_reserved(graph->context, "bo_operation_desc", desc->reserved) != BO_OK)
        return bo_graph_fail(graph, "%s: %s", desc->name, bo_context_error(graph->context));
    const size_t name = strlen(desc->name) + 1, at = attributes_offset(), end = at + bo_padded_bytes(attributes_bytes);
    custom *c = bo_alloc(graph->context, 1, end + name, "a custom operation");
    if (!c) return bo_graph_record(graph, NULL, NULL, 0, NULL);
    if (attributes_bytes) memcpy((char *)c + at, attributes, attributes_bytes);
    memcpy((char *)c + end, desc->name, name);
    c->desc = *desc;
    c->desc.outputs = desc->outputs ? desc->outputs : 1;
    c->bytes = attributes_bytes;
    c->op = (bo_op){.name = (char *)c + end,
                    .reads_inputs = ~desc->unread_inputs,
                    .reads_outputs = ~desc->unread_outputs,
                    .shape = custom_shape,
                    .sizes = custom_sizes,
                    .forward = custom_forward,
                    .backward = desc->backward ? custom_backward : NULL,
                    .operations = custom_operations};
    return bo_graph_record(graph, &c->op, c, count, inputs);
}
