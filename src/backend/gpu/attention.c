/* Attention on a GPU (attention/gpu/call.h): rows are tokens, sequences follow each other. This file describes the call
 * and converts inputs and gradients to the types of the kernels. */
#include "gpu.h"
#include "../shapes.h"
#include "../attention.h"
#include "../../attention/given.h"
#include "../../attention/gpu/call.h"
#include "../../base/carver.h"

static bo_status shape(bo_context *context, bo_op_call *call)
{
    BO_TRY(bo_shape_attention(context, call));
    return bo_gpu_attention_check(context, bo_attention_attributes_of(call)->attention, bo_attention_reads(call));
}

/* ---- inputs ------------------------------------------------------------------------------------------------------ */

/* Returns the bit of bo_attention_given of an input; BO_ATTENTION_GIVEN_COUNT for q, k and v. */
static size_t bit_of(const bo_op_call *call, size_t input)
{
    const unsigned given = bo_attention_attributes_of(call)->given;
    for (size_t bit = 0, at = bo_attention_first_given(call); bit < BO_ATTENTION_GIVEN_COUNT; bit++)
        if (given >> bit & 1 && at++ == input) return bit;
    return BO_ATTENTION_GIVEN_COUNT;
}

/* The element type of an input and its gradient in the engines: the type of q for rows of tokens, float for
 * parameters. */
static bo_element type_for_engine(const bo_op_call *call, size_t input)
{
    const size_t bit = bit_of(call, input);
    const bool parameter = BO_GIVEN_PARAMETERS >> bit & 1;
    return parameter ? BO_ELEMENT_FLOAT32 : call->in[0].element;
}

static bool is_converted(const bo_op_call *call, size_t input)
{
    return call->in[input].element != type_for_engine(call, input);
}

/* ---- workspace ---------------------------------------------------------------------------------------------- */

/* Parts of the workspace of a call, in memory order; NULL if not needed. */
typedef struct pieces {
    void *input[BO_OP_INPUTS];    /* an input in the type of the engine */
    void *gradient[BO_OP_INPUTS]; /* a gradient as the engine writes it, before it is converted or accumulated */
    void *rounded[BO_OP_INPUTS];  /* the gradient in the type of the input, if it is converted and then accumulated */
    void *rest;                   /* workspace of the attention */
} pieces;

static pieces carve_pieces(const bo_op_call *call, bo_carver *carver)
{
    pieces p = {0};
    for (size_t i = 0; i < call->inputs; i++) {
        const size_t count = bo_gpu_count(&call->in[i]), bytes = bo_gpu_bytes(type_for_engine(call, i));
        const bool converted = is_converted(call, i);
        if (converted) p.input[i] = bo_carve(carver, count, bytes);
        if (!call->din[i] || !(converted || call->add[i])) continue;
        p.gradient[i] = bo_carve(carver, count, bytes);
        if (converted && call->add[i]) p.rounded[i] = bo_carve(carver, count, bo_gpu_bytes(call->in[i].element));
    }
    p.rest = bo_carve(carver, 0, 1);
    return p;
}

/* ---- the description of a call ----------------------------------------------------------------------------------- */

/* The maximum shape of the rows of an input. */
static bo_gpu_rows max_rows(const bo_op_call *call, size_t input, const bo_sequences *sequences)
{
    const size_t rows = call->in[input].rows, tokens = sequences->tokens ? sequences->tokens : rows;
    const size_t default_sequences = tokens ? rows / tokens : 0;
    return (bo_gpu_rows){.tokens = (int32_t)tokens,
                         .sequences =
                             (int32_t)(sequences->max_sequences ? sequences->max_sequences : default_sequences),
                         .rows = rows};
}

static bo_status rows_of(bo_context *context, const bo_op_call *call, size_t input, const bo_sequences *sequences,
                         bo_gpu_rows *out)
{
    bo_spans spans;
    BO_TRY(bo_spans_of_input(context, call, input, sequences, "attention", &spans));
    *out =
        (bo_gpu_rows){.tokens = (int32_t)spans.tokens, .sequences = (int32_t)spans.count, .rows = call->in[input].rows};
    if (spans.lengths) out->starts = sequences->source ? call->staged->host.source_starts : call->staged->host.starts;
    return BO_OK;
}

/* Sets the fields that do not depend on the pass: the attention and the flags of existing arrays. */
static bo_gpu_attention describe_attention(const bo_context *context, const bo_op_call *call)
{
    const bo_attention_attributes *a = bo_attention_attributes_of(call);
    bo_gpu_attention out = bo_gpu_attention_of(context, a->attention, a->cross);
    out.type = call->in[0].element;
    out.reads_first = bo_attention_reads(call);
    out.given = a->given | BO_GPU_ARRAY_Q | (a->queries_only ? 0 : BO_GPU_ARRAY_K | BO_GPU_ARRAY_V);
    for (size_t i = 0; i < call->inputs; i++)
        if (call->din[i])
            out.requested |= i < bo_attention_first_given(call) ? (unsigned)BO_GPU_ARRAY_Q << i : 1u << bit_of(call, i);
    return out;
}

/* Sets the addresses of the arrays, in the call or in the workspace. */
static void set_arrays(const bo_op_call *call, const pieces *p, bo_gpu_attention *out)
{
    const void *in[BO_OP_INPUTS] = {0};
    void *d[BO_OP_INPUTS] = {0};
    for (size_t i = 0; i < call->inputs; i++) {
        in[i] = is_converted(call, i) ? p->input[i] : call->in[i].data;
        d[i] = p->gradient[i] ? p->gradient[i] : call->din[i];
    }
    out->q = in[0], out->dq = d[0];
    if (!bo_attention_attributes_of(call)->queries_only) out->k = in[1], out->v = in[2], out->dk = d[1], out->dv = d[2];
    for (size_t i = bo_attention_first_given(call); i < call->inputs; i++) {
        switch (bit_of(call, i)) {
#define SET(BIT, name)                                                                                                 \
    case BO_GIVEN_##BIT:                                                                                               \
        out->name = in[i], out->d##name = d[i];                                                                        \
        break;
            BO_ATTENTION_GIVEN_LIST(SET, SET)
#undef SET
        }
    }
    out->out = call->out[0].data, out->dout = call->dout[0];
    out->saved = call->saved, out->scratch = p->rest;
}

/* The states of the layer in device memory, or NULL. */
static void *const *states_of(const bo_op_call *call, const bo_gpu_attention *at)
{
    bo_sequences sequences = bo_attention_stream(call);
    if (!bo_spans_have_states(call, &sequences)) return NULL;
    return call->staged->host.states + sequences.layer * (size_t)at->queries.sequences;
}

static bo_status describe(bo_context *context, const bo_op_call *call, bo_gpu_attention *out, pieces *p)
{
    const bo_attention_attributes *a = bo_attention_attributes_of(call);
    const bo_sequences sequences = bo_attention_stream(call), sources = bo_attention_source(call);
    bo_carver carver = {.at = call->scratch};
    *p = carve_pieces(call, &carver);
    *out = describe_attention(context, call);
    out->keeps = call->saved != NULL;
    BO_TRY(rows_of(context, call, 0, &sequences, &out->queries));
    out->keys = out->queries;
    if (a->cross && !a->queries_only) {
        BO_TRY(rows_of(context, call, 1, &sources, &out->keys));
        if (!out->keys.starts != !out->queries.starts || out->keys.sequences != out->queries.sequences)
            return bo_fail(context, BO_INVALID, "attention: the stream has %d sequences and the source %d",
                           (int)out->queries.sequences, (int)out->keys.sequences);
    }
    set_arrays(call, p, out);
    out->states = states_of(call, out);
    out->continues = out->states != NULL;
    return BO_OK;
}

static bo_status sizes(bo_context *context, const bo_op_call *call, bool gradients, size_t *saved, size_t *scratch)
{
    const bo_attention_attributes *a = bo_attention_attributes_of(call);
    const bo_sequences sequences = bo_attention_stream(call), sources = bo_attention_source(call);
    const bool backward = call->dout[0] != NULL;
    bo_gpu_attention at = describe_attention(context, call);
    at.keeps = gradients;
    at.queries = at.keys = max_rows(call, 0, &sequences);
    if (a->cross && !a->queries_only) at.keys = max_rows(call, 1, &sources);
    *saved = gradients ? bo_gpu_attention_saved_bytes(a->attention, &at) : 0;
    bo_carver carver = {0};
    carve_pieces(call, &carver);
    bo_carve(&carver, bo_gpu_attention_scratch_bytes(a->attention, &at, backward), 1);
    *scratch = carver.bytes;
    return BO_OK;
}

/* ---- before and after an engine ---------------------------------------------------------------------------------- */

static bo_status convert(bo_context *context, size_t count, bo_element from_type, const void *from, bo_element to_type,
                         void *to)
{
    return BO_LAUNCH(
        context, convert,
        &((bo_gpu_convert){.count = count, .from_type = from_type, .to_type = to_type, .from = from, .to = to}));
}

static bo_status convert_inputs(bo_context *context, const bo_op_call *call, const pieces *p)
{
    for (size_t i = 0; i < call->inputs; i++)
        if (p->input[i])
            BO_TRY(convert(context, bo_gpu_count(&call->in[i]), call->in[i].element, call->in[i].data,
                           type_for_engine(call, i), p->input[i]));
    return BO_OK;
}

static bo_status begin(bo_context *context, const bo_op_call *call, bo_gpu_attention *at, pieces *p)
{
    if (bo_pass_segments(call->pass))
        return bo_fail(context, BO_UNSUPPORTED,
                       "attention: training on consecutive segments (a pass with final states) is not supported on "
                       "GPUs");
    BO_TRY(describe(context, call, at, p));
    return convert_inputs(context, call, p);
}

/* Gradients from the workspace: converted, or added. */
static bo_status finish_gradients(bo_context *context, const bo_op_call *call, const pieces *p)
{
    for (size_t i = 0; i < call->inputs; i++) {
        if (!p->gradient[i]) continue;
        const size_t count = bo_gpu_count(&call->in[i]);
        const bo_element type = call->in[i].element;
        const void *whole = p->gradient[i];
        if (is_converted(call, i)) {
            void *to = call->add[i] ? p->rounded[i] : call->din[i];
            BO_TRY(convert(context, count, type_for_engine(call, i), p->gradient[i], type, to));
            whole = to;
        }
        if (call->add[i])
            BO_TRY(BO_LAUNCH(
                context, add,
                &((bo_gpu_add){.type = type, .count = count, .a = whole, .y = call->din[i], .accumulate = true})));
    }
    return BO_OK;
}

/* ---- operation --------------------------------------------------------------------------------------------------- */

static bo_status prepare(bo_context *context, const bo_op_call *call)
{
    return bo_gpu_attention_prepare(context, bo_attention_attributes_of(call)->attention);
}

static bo_status forward(bo_context *context, const bo_op_call *call)
{
    const bo_attention_attributes *a = bo_attention_attributes_of(call);
    bo_gpu_attention at;
    pieces p;
    BO_TRY(begin(context, call, &at, &p));
    if (a->queries_only && !at.states)
        return bo_fail(context, BO_INVALID, "attention: without keys, states that have read a source are required");
    return bo_gpu_attention_forward(context, a->attention, &at);
}

static bo_status backward(bo_context *context, const bo_op_call *call)
{
    const bo_attention_attributes *a = bo_attention_attributes_of(call);
    const bo_sequences sequences = bo_attention_stream(call);
    bo_gpu_attention at;
    pieces p;
    bool done;
    BO_TRY(bo_gpu_backward_zero(context, call, &done));
    if (done) return BO_OK;
    if (a->queries_only) return bo_fail(context, BO_INVALID, "attention: without keys, there are no gradients");
    BO_TRY(bo_spans_refuse_states(context, call, &sequences, "attention"));
    BO_TRY(begin(context, call, &at, &p));
    BO_TRY(bo_gpu_attention_backward(context, a->attention, &at));
    return finish_gradients(context, call, &p);
}

/* As on the CPU. */
static double operations(bo_context *context, const bo_op_call *call)
{
    return bo_backend_cpu()->ops[BO_OPERATION_ATTENTION]->operations(context, call);
}

/* ---- calibration ------------------------------------------------------------------------------------------------- */

/* Copies an input to host memory as floats. The caller frees it. NULL on error (see the context's error). */
static float *input_on_host(bo_context *context, const bo_op_call *call, size_t input)
{
    const size_t count = bo_gpu_count(&call->in[input]);
    const bool rounded = call->in[input].element == BO_ELEMENT_BFLOAT16;
    float *out = bo_alloc_raw(context, count, sizeof *out, "an input of attention");
    void *numbers = out && rounded ? bo_alloc_raw(context, count, 2, "an input of attention") : out;
    bo_status status = numbers ? BO_OK : BO_MEMORY;
    if (status == BO_OK)
        status = bo_buffer_read(context, bo_device_of(context), numbers, call->in[input].data,
                                count * (rounded ? 2 : sizeof *out));
    if (status == BO_OK && rounded)
        status = bo_backend_cpu()->widen(context, BO_ELEMENT_BFLOAT16, 1, count, numbers, out);
    if (numbers != out) bo_free(numbers);
    if (status == BO_OK) return out;
    bo_free(out);
    return NULL;
}

/* Resamples on the host from a copy of all inputs, a few times per model. */
static bo_status calibrate(bo_context *context, const bo_op_call *call, const bo_calibrating *calibrating)
{
    const bo_attention_attributes *a = bo_attention_attributes_of(call);
    bo_op_call copy = *call;
    bo_status status = BO_OK;
    if (!calibrating->calibrations[a->layer] || call->again || a->queries_only) return BO_OK;
    for (size_t i = 0; i < call->inputs; i++) {
        copy.in[i].element = BO_ELEMENT_FLOAT32;
        copy.in[i].data = status == BO_OK ? input_on_host(context, call, i) : NULL;
        if (!copy.in[i].data) status = BO_MEMORY;
    }
    if (status == BO_OK) status = bo_backend_cpu()->ops[BO_OPERATION_ATTENTION]->calibrate(context, &copy, calibrating);
    for (size_t i = 0; i < call->inputs; i++) bo_free(copy.in[i].data);
    return status == BO_OK ? prepare(context, call) : status;
}

const bo_op bo_gpu_op_attention = {
    .name = "attention",
    .attributes = sizeof(bo_attention_attributes),
    .reads_inputs = (1u << BO_OP_INPUTS) - 1,
    .reads_outputs = 1 << 0,
    .shape = shape,
    .sizes = sizes,
    .prepare = prepare,
    .forward = forward,
    .calibrate = calibrate,
    .backward = backward,
    .sequences = bo_attention_stream,
    .operations = operations,
};
