/* Attention by the engine: rows are tokens, sequences lie one after the other (BO_LAYOUT_TOKENS_FIRST). */
#include "cpu.h"
#include "blocks.h"
#include "sequences.h"
#include "../shapes.h"
#include "../../attention/calls.h"

enum { FIRST_GIVEN = 3 }; /* q, k, v come before */

/* ---- sequences --------------------------------------------------------------------------------------------------- */

static bo_sequences sequences_of(const bo_op_call *call)
{
    const bo_attention_attributes *a = call->attributes;
    return (bo_sequences){.tokens = a->tokens, .most_sequences = a->most_sequences, .layer = a->layer};
}

static size_t most_sequences(const bo_op_call *call)
{
    bo_sequences sequences = sequences_of(call);
    return bo_spans_most(call, &sequences);
}

static bo_status shape_of(bo_context *context, const bo_op_call *call, bo_attention_shape *out)
{
    bo_sequences sequences = sequences_of(call);
    bo_spans spans;
    BO_TRY(bo_spans_of(context, call, &sequences, "attention", &spans));
    *out = (bo_attention_shape){
        .sequences = spans.count, .tokens = spans.tokens, .lengths = spans.lengths, .layout = BO_LAYOUT_TOKENS_FIRST};
    return BO_OK;
}

/* Every sequence has one token. */
static bool is_step(const bo_op_call *call, const bo_attention_shape *shape)
{
    for (size_t s = 0; shape->lengths && s < shape->sequences; s++)
        if (shape->lengths[s] != 1) return false;
    return shape->sequences == call->in[0].rows;
}

/* The layer's states, one a sequence; NULL: none. */
static void *const *states_of(const bo_op_call *call, const bo_attention_shape *shape)
{
    const bo_attention_attributes *a = call->attributes;
    if (!call->pass || !call->pass->states) return NULL;
    return call->pass->states + a->layer * shape->sequences;
}

/* ---- inputs and gradients ---------------------------------------------------------------------------------------- */

static bo_attention_inputs inputs_of(const bo_op_call *call)
{
    const bo_attention_attributes *a = call->attributes;
    bo_attention_inputs in = {.q = call->in[0].data, .k = call->in[1].data, .v = call->in[2].data};
    const float **const places[BO_GIVEN_COUNT] = {&in.log_gate,  &in.sigma,  &in.m,   &in.mix,  &in.beta,
                                                  &in.log_decay, &in.lambda, &in.m_k, &in.bias, &in.bias_k};
    for (size_t bit = 0, input = FIRST_GIVEN; bit < BO_GIVEN_COUNT; bit++)
        if (a->given >> bit & 1) *places[bit] = call->in[input++].data;
    return in;
}

/* The engine overwrites: what is to be added goes through scratch, input after input. Floats of those before this one. */
static size_t room_before(const bo_op_call *call, size_t input)
{
    size_t floats = 0;
    for (size_t i = 0; i < input; i++)
        if (call->din[i] && call->add[i]) floats += bo_padded(bo_operand_floats(&call->in[i]));
    return floats;
}

static float *room_for(const bo_op_call *call, size_t input)
{
    if (!call->din[input] || !call->add[input]) return call->din[input];
    return (float *)call->scratch + room_before(call, input);
}

static bo_attention_gradients gradients_of(const bo_op_call *call)
{
    const bo_attention_attributes *a = call->attributes;
    bo_attention_gradients out = {.q = room_for(call, 0), .k = room_for(call, 1), .v = room_for(call, 2)};
    float **const places[BO_GIVEN_COUNT] = {&out.log_gate,  &out.sigma,  &out.m,   &out.mix,  &out.beta,
                                            &out.log_decay, &out.lambda, &out.m_k, &out.bias, &out.bias_k};
    for (size_t bit = 0, input = FIRST_GIVEN; bit < BO_GIVEN_COUNT; bit++)
        if (a->given >> bit & 1) *places[bit] = room_for(call, input), input++;
    return out;
}

static void add_gradients(bo_context *context, const bo_op_call *call)
{
    const bo_kernels *kernels = bo_context_kernels(context);
    for (size_t i = 0; i < call->inputs; i++)
        if (call->din[i] && call->add[i])
            kernels->axpy(bo_operand_floats(&call->in[i]), 1.0f, room_for(call, i), call->din[i]);
}

/* Room for the engine, behind that for gradients. */
static size_t work_bytes(bo_context *context, const bo_op_call *call, bool backward)
{
    const bo_attention_attributes *a = call->attributes;
    return bo_attention_work_bytes(context, a->attention, most_sequences(call), call->in[0].rows, backward);
}

static bo_work work_of(bo_context *context, const bo_op_call *call, bool backward)
{
    char *room = (char *)call->scratch + room_before(call, call->inputs) * sizeof(float);
    return (bo_work){.room = room, .bytes = work_bytes(context, call, backward)};
}

/* ---- the operation ----------------------------------------------------------------------------------------------- */

/* Data-aware frequencies see the data before it is used, and are drawn for all that was seen. A forward that is computed
 * again adds nothing. */
static bo_status calibrate(bo_context *context, const bo_op_call *call, const bo_attention_shape *shape,
                           const bo_attention_inputs *in)
{
    const bo_attention_attributes *a = call->attributes;
    bo_calibration *seen = call->pass && call->pass->calibrations ? call->pass->calibrations[a->layer] : NULL;
    if (!seen || call->again) return BO_OK;
    BO_TRY(bo_calibration_add(context, seen, shape, in));
    return bo_calibration_apply(context, seen, a->attention, 0, NULL);
}

static bo_status forward(bo_context *context, const bo_op_call *call)
{
    const bo_attention_attributes *a = call->attributes;
    bo_attention_shape shape;
    bo_attention_inputs in = inputs_of(call);
    float *out = call->out[0].data;
    BO_TRY(shape_of(context, call, &shape));
    BO_TRY(calibrate(context, call, &shape, &in));
    bo_work work = work_of(context, call, false);
    void *const *states = states_of(call, &shape);
    if (states && is_step(call, &shape))
        return bo_attention_step_in(context, a->attention, shape.sequences, &in, states, out, &work);
    return bo_attention_forward_in(context, a->attention, &shape, &in, (const void *const *)states, states, out,
                                   call->saved, &work);
}

static bo_status backward(bo_context *context, const bo_op_call *call)
{
    const bo_attention_attributes *a = call->attributes;
    bo_attention_shape shape;
    bo_attention_inputs in = inputs_of(call);
    bo_attention_gradients gradients = gradients_of(call);
    if (bo_backward_is_zero(call)) return BO_OK;
    BO_TRY(bo_spans_begin_anew(context, call, "attention"));
    BO_TRY(shape_of(context, call, &shape));
    bo_work work = work_of(context, call, true);
    BO_TRY(bo_attention_backward_in(context, a->attention, &shape, &in, NULL, call->out[0].data, call->saved,
                                    call->dout[0], NULL, &gradients, &work));
    add_gradients(context, call);
    return BO_OK;
}

static bo_status sizes(bo_context *context, const bo_op_call *call, bool gradients, size_t *saved, size_t *scratch)
{
    const bo_attention_attributes *a = call->attributes;
    bool backward = call->dout[0] != NULL;
    *saved = gradients ? bo_tape_most(a->attention, most_sequences(call), call->in[0].rows) : 0;
    *scratch = room_before(call, call->inputs) * sizeof(float) + work_bytes(context, call, backward);
    return BO_OK;
}

static double operations(bo_context *context, const bo_op_call *call)
{
    const bo_attention_attributes *a = call->attributes;
    bo_attention_shape shape;
    bo_attention_plan plan;
    if (shape_of(context, call, &shape) != BO_OK) return 0;
    return bo_attention_plan_for(context, a->attention, &shape, &plan) == BO_OK ? plan.operations : 0;
}

const bo_op bo_cpu_attention = {
    .name = "attention",
    .attributes = sizeof(bo_attention_attributes),
    .reads_inputs = (1u << BO_OP_INPUTS) - 1,
    .reads_outputs = 1 << 0,
    .shape = bo_shape_attention,
    .sizes = sizes,
    .forward = forward,
    .backward = backward,
    .operations = operations,
};
