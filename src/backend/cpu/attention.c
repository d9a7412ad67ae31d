/* Attention by the functions of src/attention: rows are tokens, sequences follow each other
 * (BO_LAYOUT_TOKENS_FIRST). */
#include "attention.h"
#include "cpu.h"
#include "../shapes.h"
#include "../../attention/given.h"

/* ---- sequences --------------------------------------------------------------------------------------------------- */

size_t bo_attention_sequences(const bo_op_call *call)
{
    bo_sequences sequences = bo_attention_stream(call);
    return bo_spans_max_count(call, &sequences);
}

size_t bo_attention_keys(const bo_op_call *call)
{
    const bo_attention_attributes *a = call->attributes;
    return a->queries_only ? 0 : call->in[1].rows;
}

/* Adds the source sequences. Their number must equal the number of target sequences. */
static bo_status add_keys(bo_context *context, const bo_op_call *call, bo_attention_shape *out)
{
    const bo_sequences source = bo_attention_source(call);
    bo_spans keys;
    BO_TRY(bo_spans_of_input(context, call, 1, &source, "attention", &keys));
    if (!keys.lengths != !out->lengths)
        return bo_fail(context, BO_INVALID, "attention: the pass has lengths of the %s, but none of the %s",
                       keys.lengths ? "source" : "stream", keys.lengths ? "stream" : "source");
    if (keys.count != out->sequences)
        return bo_fail(context, BO_INVALID,
                       "attention: the stream has %zu sequences and the source %zu, expected equal numbers",
                       out->sequences, keys.count);
    out->key_lengths = keys.lengths;
    out->key_tokens = keys.tokens;
    return BO_OK;
}

static bo_status shape_of(bo_context *context, const bo_op_call *call, bo_attention_shape *out)
{
    const bo_attention_attributes *a = call->attributes;
    bo_sequences sequences = bo_attention_stream(call);
    bo_spans spans;
    BO_TRY(bo_spans_of_input(context, call, 0, &sequences, "attention", &spans));
    *out = (bo_attention_shape){.sequences = spans.count,
                                .tokens = spans.tokens,
                                .lengths = spans.lengths,
                                .no_keys = a->queries_only,
                                .layout = BO_LAYOUT_TOKENS_FIRST};
    return a->cross && !a->queries_only ? add_keys(context, call, out) : BO_OK;
}

/* True if every sequence has one token. */
static bool is_step(const bo_op_call *call, const bo_attention_shape *shape)
{
    for (size_t s = 0; shape->lengths && s < shape->sequences; s++)
        if (shape->lengths[s] != 1) return false;
    return shape->sequences == call->in[0].rows;
}

/* Returns the states of the layer, one per sequence, or NULL. */
static void *const *states_of(const bo_op_call *call, const bo_attention_shape *shape)
{
    bo_sequences sequences = bo_attention_stream(call);
    if (!bo_spans_have_states(call, &sequences)) return NULL;
    return call->pass->states + sequences.layer * shape->sequences;
}

/* The index of the layer's first sequence in the arrays of a pass on consecutive segments. */
static size_t state_index(const bo_op_call *call, const bo_attention_shape *shape)
{
    return ((const bo_attention_attributes *)call->attributes)->layer * shape->sequences;
}

static bo_status check_segments(bo_context *context, const bo_op_call *call)
{
    const bo_attention_attributes *a = call->attributes;
    if (!bo_pass_segments(call->pass) || a->source || !a->cross) return BO_OK;
    return bo_fail(context, BO_INVALID, "attention: a pass with final states does not support cross attention");
}

/* ---- inputs and gradients ---------------------------------------------------------------------------------------- */

static bo_attention_inputs inputs_of(const bo_op_call *call)
{
    const bo_attention_attributes *a = call->attributes;
    bo_attention_inputs in = {.q = call->in[0].data};
    if (!a->queries_only) in.k = call->in[1].data, in.v = call->in[2].data;
#define PLACE(BIT, name) [BO_GIVEN_##BIT] = &in.name,
    const float **const places[] = {BO_ATTENTION_GIVEN_LIST(PLACE, PLACE)};
#undef PLACE
    for (size_t bit = 0, input = bo_attention_first_given(call); bit < BO_ATTENTION_GIVEN_COUNT; bit++)
        if (a->given >> bit & 1) *places[bit] = call->in[input++].data;
    return in;
}

/* Attention overwrites gradients, so gradients to be accumulated are written to the workspace first, input by input.
 * Returns the floats of the inputs before this one. */
static size_t added_before(const bo_op_call *call, size_t input)
{
    size_t floats = 0;
    for (size_t i = 0; i < input; i++)
        if (call->din[i] && call->add[i]) floats += bo_padded(bo_operand_floats(&call->in[i]));
    return floats;
}

static float *target(const bo_op_call *call, const bo_attention_workspace *workspace, size_t input)
{
    if (!call->din[input] || !call->add[input]) return call->din[input];
    return workspace->added + added_before(call, input);
}

float **bo_attention_gradient_place(bo_attention_gradients *g, size_t bit)
{
#define PLACE(BIT, name) [BO_GIVEN_##BIT] = &g->name,
    float **const places[] = {BO_ATTENTION_GIVEN_LIST(PLACE, PLACE)};
#undef PLACE
    return places[bit];
}

bo_attention_gradients bo_attention_gradients_of(const bo_op_call *call, const bo_attention_workspace *workspace)
{
    const bo_attention_attributes *a = call->attributes;
    bo_attention_gradients out = {.q = target(call, workspace, 0)};
    if (!a->queries_only) out.k = target(call, workspace, 1), out.v = target(call, workspace, 2);
    for (size_t bit = 0, input = bo_attention_first_given(call); bit < BO_ATTENTION_GIVEN_COUNT; bit++)
        if (a->given >> bit & 1) *bo_attention_gradient_place(&out, bit) = target(call, workspace, input++);
    return out;
}

static void add_gradients(bo_context *context, const bo_op_call *call, const bo_attention_workspace *workspace)
{
    const bo_kernels *kernels = bo_context_kernels(context);
    for (size_t i = 0; i < call->inputs; i++)
        if (call->din[i] && call->add[i])
            kernels->axpy(bo_operand_floats(&call->in[i]), 1.0f, target(call, workspace, i), call->din[i]);
}

bo_attention_workspace bo_attention_workspace_of(bo_context *context, const bo_op_call *call, bool backward,
                                                 size_t *bytes)
{
    const bo_attention_attributes *a = call->attributes;
    size_t sequences = bo_attention_sequences(call);
    bo_carver carver = {.at = call->scratch};
    bo_attention_workspace workspace = {.added = bo_carve_floats(&carver, added_before(call, call->inputs))};
    if (bo_attention_reads(call)) bo_attention_carve_reading(call, backward, &carver, &workspace);
    workspace.work.bytes =
        bo_attention_work_bytes(context, a->attention, sequences, call->in[0].rows, bo_attention_keys(call), backward);
    workspace.work.memory = bo_carve(&carver, workspace.work.bytes, 1);
    if (bytes) *bytes = carver.bytes;
    return workspace;
}

/* ---- operation --------------------------------------------------------------------------------------------------- */

/* Adds q and k to the calibration, except in a repeated forward, if there are no keys, or for a second attention of the
 * same layer (a teacher's). */
static bo_status calibrate(bo_context *context, const bo_op_call *call, const bo_calibrating *calibrating)
{
    const bo_attention_attributes *a = call->attributes;
    bo_calibration *calibration = calibrating->calibrations[a->layer];
    if (!calibration || call->again || a->queries_only || calibrating->attentions[a->layer] != a->attention)
        return BO_OK;
    bo_attention_shape shape;
    const bo_attention_inputs in = inputs_of(call);
    BO_TRY(shape_of(context, call, &shape));
    BO_TRY(bo_calibration_add_arrays(context, calibration, &shape, &in));
    return bo_calibration_apply(context, calibration, calibrating->attentions[a->layer], 0, NULL);
}

/* Within one stream, sequences continue from states and update them, or write the updated states elsewhere. Across
 * streams, keys are read from the start or not at all. */
static bo_status attend(bo_context *context, const bo_op_call *call, const bo_attention_shape *shape,
                        const bo_attention_inputs *in, void *const *states, bo_work *work)
{
    const bo_attention_attributes *a = call->attributes;
    const bool segments = states && bo_pass_segments(call->pass);
    void *const *initial = a->cross && !a->queries_only ? NULL : states, *const * final =
                                                                             a->queries_only ? NULL : states;
    float *out = call->out[0].data;
    if (segments) final = call->again ? NULL : call->pass->final_states + state_index(call, shape);
    if (initial && !segments && is_step(call, shape))
        return bo_attention_step_in(context, a->attention, shape->sequences, in, states, call->pass->isolate, out,
                                    work);
    return bo_attention_forward_in(context, a->attention, shape, in, (const void *const *)initial, final, out,
                                   call->saved, work);
}

static bo_status forward(bo_context *context, const bo_op_call *call)
{
    const bo_attention_attributes *a = call->attributes;
    bo_attention_shape shape;
    bo_attention_inputs in = inputs_of(call);
    BO_TRY(shape_of(context, call, &shape));
    BO_TRY(check_segments(context, call));
    bo_attention_workspace workspace = bo_attention_workspace_of(context, call, false, NULL);
    void *const *states = states_of(call, &shape);
    if (a->queries_only && !states)
        return bo_fail(context, BO_INVALID, "attention: without keys, states that have read a source are required");
    if (bo_attention_reads(call)) return bo_attention_read(context, call, &shape, &in, states, &workspace);
    return attend(context, call, &shape, &in, states, &workspace.work);
}

/* Computes the gradients of the inputs, and of the initial states if the pass requests them. */
static bo_status attend_back(bo_context *context, const bo_op_call *call, const bo_attention_shape *shape,
                             const bo_attention_inputs *in, bo_attention_gradients *gradients, bo_work *work)
{
    const bo_attention_attributes *a = call->attributes;
    void *const *states = states_of(call, shape);
    const float *const *d_final = states ? call->pass->final_gradients : NULL;
    if (states && call->pass->state_gradients)
        gradients->initial = call->pass->state_gradients + state_index(call, shape);
    return bo_attention_backward_in(context, a->attention, shape, in, (const void *const *)states, call->out[0].data,
                                    call->saved, call->dout[0], d_final ? d_final + state_index(call, shape) : NULL,
                                    gradients, work);
}

static bo_status backward(bo_context *context, const bo_op_call *call)
{
    const bo_attention_attributes *a = call->attributes;
    bo_sequences sequences = bo_attention_stream(call);
    bo_attention_shape shape;
    bo_attention_inputs in = inputs_of(call);
    if (bo_backward_is_zero(call)) return BO_OK;
    if (a->queries_only) return bo_fail(context, BO_INVALID, "attention: without keys, there are no gradients");
    BO_TRY(bo_spans_refuse_states(context, call, &sequences, "attention"));
    BO_TRY(shape_of(context, call, &shape));
    bo_attention_workspace workspace = bo_attention_workspace_of(context, call, true, NULL);
    bo_attention_gradients gradients = bo_attention_gradients_of(call, &workspace);
    if (bo_attention_reads(call))
        BO_TRY(bo_attention_read_back(context, call, &shape, &in, &gradients, &workspace));
    else
        BO_TRY(attend_back(context, call, &shape, &in, &gradients, &workspace.work));
    add_gradients(context, call, &workspace);
    return BO_OK;
}

static bo_status sizes(bo_context *context, const bo_op_call *call, bool gradients, size_t *saved, size_t *scratch)
{
    const bo_attention_attributes *a = call->attributes;
    bool backward = call->dout[0] != NULL, reads = bo_attention_reads(call);
    *saved = 0;
    if (gradients)
        *saved = reads ? bo_attention_reading_saved(call)
                       : bo_tape_max_bytes(a->attention, bo_attention_sequences(call), call->in[0].rows,
                                           bo_attention_keys(call));
    bo_op_call counted = *call;
    counted.scratch = NULL;
    bo_attention_workspace_of(context, &counted, backward, scratch);
    return BO_OK;
}

static double planned_operations(bo_context *context, const bo_attention *attention, const bo_attention_shape *shape)
{
    bo_attention_cost plan;
    return bo_attention_estimate_arrays(context, attention, shape, &plan) == BO_OK ? plan.operations : 0;
}

static double operations(bo_context *context, const bo_op_call *call)
{
    const bo_attention_attributes *a = call->attributes;
    bo_attention_shape shape;
    if (shape_of(context, call, &shape) != BO_OK) return 0;
    if (!bo_attention_reads(call)) return planned_operations(context, a->attention, &shape);
    bo_attention_shape reading = bo_attention_reading(&shape), querying = bo_attention_querying(&shape);
    return planned_operations(context, a->attention, &reading) + planned_operations(context, a->attention, &querying);
}

const bo_op bo_cpu_attention = {
    .name = "attention",
    .attributes = sizeof(bo_attention_attributes),
    .reads_inputs = (1u << BO_OP_INPUTS) - 1,
    .reads_outputs = 1 << 0,
    .shape = bo_shape_attention,
    .sizes = sizes,
    .forward = forward,
    .calibrate = calibrate,
    .backward = backward,
    .operations = operations,
};
