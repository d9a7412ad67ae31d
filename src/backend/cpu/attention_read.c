/* Cross attention of kinds that read keys one after the other (gates, windows, GLA, DELTA, RIDGE), as two calls of
 * attention. The first call has keys without queries and writes states; the second has queries without keys and reads
 * them. Backward runs in reverse order and passes the gradients of the states between the calls. */
#include "attention.h"
#include "../../attention/given.h"

/* The data that forward saves for backward: the data of both calls, and the states between them. */
typedef struct saved_data {
    void *reading, *querying;
    char *states;
} saved_data;

static saved_data saved_data_in(const bo_op_call *call, void *bytes, size_t *size)
{
    const bo_attention *attention = ((const bo_attention_attributes *)call->attributes)->attention;
    size_t sequences = bo_attention_sequences(call);
    bo_carver carver = {.at = bytes};
    saved_data out;
    out.reading = bo_carve(&carver, bo_tape_max_bytes(attention, sequences, 0, bo_attention_keys(call)), 1);
    out.querying = bo_carve(&carver, bo_tape_max_bytes(attention, sequences, call->in[0].rows, 0), 1);
    out.states = bo_carve(&carver, sequences, bo_attention_state_bytes(attention));
    if (size) *size = carver.bytes;
    return out;
}

size_t bo_attention_reading_saved(const bo_op_call *call)
{
    size_t bytes;
    saved_data_in(call, NULL, &bytes);
    return bytes;
}

/* Returns the number of floats of all parameters. */
static size_t parameter_floats(const bo_op_call *call)
{
    const bo_attention_attributes *a = call->attributes;
    size_t floats = 0;
    for (size_t bit = 0, input = 3; bit < BO_ATTENTION_GIVEN_COUNT; bit++) {
        if (!(a->given >> bit & 1)) continue;
        if (!(BO_GIVEN_TOKENS >> bit & 1)) floats += bo_padded(bo_operand_floats(&call->in[input]));
        input++;
    }
    return floats;
}

static size_t gradient_floats(const bo_attention *attention)
{
    return bo_padded(bo_attention_state_gradient_floats(attention));
}

void bo_attention_carve_reading(const bo_op_call *call, bool backward, bo_carver *carver,
                                bo_attention_workspace *workspace)
{
    const bo_attention *attention = ((const bo_attention_attributes *)call->attributes)->attention;
    size_t sequences = bo_attention_sequences(call),
           each = backward ? gradient_floats(attention) * sizeof(float) : bo_attention_state_bytes(attention);
    workspace->states = bo_carve(carver, 2 * sequences, sizeof *workspace->states);
    workspace->memory = bo_carve(carver, sequences, each);
    if (backward) workspace->parameters = bo_carve_floats(carver, parameter_floats(call));
}

/* ---- both calls -------------------------------------------------------------------------------------------------- */

bo_attention_shape bo_attention_reading(const bo_attention_shape *shape)
{
    bo_attention_shape out = *shape;
    out.no_queries = true;
    return out;
}

static bo_attention_inputs reading_inputs(bo_attention_inputs in)
{
    in.q = NULL;
    return in;
}

bo_attention_shape bo_attention_querying(const bo_attention_shape *shape)
{
    bo_attention_shape out = *shape;
    out.no_keys = true;
    return out;
}

static bo_attention_inputs querying_inputs(bo_attention_inputs in)
{
    in.k = in.v = NULL;
#define LEAVE_OUT(BIT, name) in.name = NULL;
    BO_ATTENTION_GIVEN_LIST(LEAVE_OUT, BO_GIVEN_NONE)
#undef LEAVE_OUT
    return in;
}

/* Points the first `sequences` entries of workspace->states to consecutive parts of `memory`. */
static void **place(void **states, size_t sequences, char *memory, size_t each)
{
    for (size_t s = 0; s < sequences; s++) states[s] = memory + s * each;
    return states;
}

bo_status bo_attention_read(bo_context *context, const bo_op_call *call, const bo_attention_shape *shape,
                            const bo_attention_inputs *in, void *const *states, bo_attention_workspace *workspace)
{
    const bo_attention *attention = ((const bo_attention_attributes *)call->attributes)->attention;
    bo_attention_shape reading = bo_attention_reading(shape), querying = bo_attention_querying(shape);
    bo_attention_inputs source_inputs = reading_inputs(*in), query_inputs = querying_inputs(*in);
    saved_data saved = {0};
    if (call->saved) saved = saved_data_in(call, call->saved, NULL);
    if (!states)
        states = place(workspace->states, shape->sequences, call->saved ? saved.states : workspace->memory,
                       bo_attention_state_bytes(attention));
    BO_TRY(bo_attention_forward_in(context, attention, &reading, &source_inputs, NULL, states, NULL, saved.reading,
                                   &workspace->work));
    return bo_attention_forward_in(context, attention, &querying, &query_inputs, (const void *const *)states, NULL,
                                   call->out[0].data, saved.querying, &workspace->work);
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */

/* Both calls compute a gradient of every parameter. Points the parameter gradients of the reading call to separate
 * memory; add_parameters adds them later. */
static void redirect_parameters(const bo_op_call *call, bo_attention_gradients *reading, float *workspace)
{
    const bo_attention_attributes *a = call->attributes;
    for (size_t bit = 0, input = 3; bit < BO_ATTENTION_GIVEN_COUNT; bit++) {
        if (!(a->given >> bit & 1)) continue;
        float **place = bo_attention_gradient_place(reading, bit);
        size_t floats = bo_operand_floats(&call->in[input++]);
        if (BO_GIVEN_TOKENS >> bit & 1) continue;
        if (*place) *place = workspace;
        workspace += bo_padded(floats);
    }
}

static void add_parameters(bo_context *context, const bo_op_call *call, bo_attention_gradients *from,
                           bo_attention_gradients *to)
{
    const bo_attention_attributes *a = call->attributes;
    for (size_t bit = 0, input = 3; bit < BO_ATTENTION_GIVEN_COUNT; bit++) {
        if (!(a->given >> bit & 1)) continue;
        size_t floats = bo_operand_floats(&call->in[input++]);
        float *more = *bo_attention_gradient_place(from, bit), *sum = *bo_attention_gradient_place(to, bit);
        if (sum && !(BO_GIVEN_TOKENS >> bit & 1)) bo_context_kernels(context)->axpy(floats, 1.0f, more, sum);
    }
}

bo_status bo_attention_read_back(bo_context *context, const bo_op_call *call, const bo_attention_shape *shape,
                                 const bo_attention_inputs *in, const bo_attention_gradients *gradients,
                                 bo_attention_workspace *workspace)
{
    const bo_attention *attention = ((const bo_attention_attributes *)call->attributes)->attention;
    bo_attention_shape reading = bo_attention_reading(shape), querying = bo_attention_querying(shape);
    bo_attention_inputs source_inputs = reading_inputs(*in), query_inputs = querying_inputs(*in);
    bo_attention_gradients query_gradients = *gradients, source_gradients = *gradients;
    saved_data saved = saved_data_in(call, call->saved, NULL);
    size_t sequences = shape->sequences;
    void **states = place(workspace->states, sequences, saved.states, bo_attention_state_bytes(attention));
    void **flow =
        place(workspace->states + sequences, sequences, workspace->memory, gradient_floats(attention) * sizeof(float));
    query_gradients.k = query_gradients.v = NULL;
#define LEAVE_OUT(BIT, name) query_gradients.name = NULL;
    BO_ATTENTION_GIVEN_LIST(LEAVE_OUT, BO_GIVEN_NONE)
#undef LEAVE_OUT
    query_gradients.initial = (float *const *)flow;
    BO_TRY(bo_attention_backward_in(context, attention, &querying, &query_inputs, (const void *const *)states,
                                    call->out[0].data, saved.querying, call->dout[0], NULL, &query_gradients,
                                    &workspace->work));
    source_gradients.q = NULL;
    redirect_parameters(call, &source_gradients, workspace->parameters);
    BO_TRY(bo_attention_backward_in(context, attention, &reading, &source_inputs, NULL, NULL, saved.reading, NULL,
                                    (const float *const *)flow, &source_gradients, &workspace->work));
    add_parameters(context, call, &source_gradients, &query_gradients);
    return BO_OK;
}
