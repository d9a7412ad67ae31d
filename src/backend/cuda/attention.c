/* Attention on the device: rows are tokens, sequences follow each other. This file describes the call for an engine
 * (attention.h), brings inputs and gradients to the types that engines use, and keeps the headers of states. */
#include <string.h>
#include "attention.h"
#include "../shapes.h"
#include "../cpu/sequences.h"

/* By kind; NULL: no kernels. */
static const bo_cuda_engine *const engines[BO_ATTENTION_COUNT] = {
    [BO_ATTENTION_SOFTMAX] = &bo_cuda_engine_exact,
    [BO_ATTENTION_LINEAR] = &bo_cuda_engine_linear,
    [BO_ATTENTION_RFA] = &bo_cuda_engine_linear,
    [BO_ATTENTION_FAVOR] = &bo_cuda_engine_linear,
    [BO_ATTENTION_DARK] = &bo_cuda_engine_linear,
    [BO_ATTENTION_LEARNED] = &bo_cuda_engine_linear,
    [BO_ATTENTION_HYBRID] = &bo_cuda_engine_hybrid,
    [BO_ATTENTION_POWER] = &bo_cuda_engine_exact,
    [BO_ATTENTION_GLA] = &bo_cuda_engine_gla,
    [BO_ATTENTION_DELTA] = &bo_cuda_engine_delta,
};

static const bo_attention_attributes *attributes_of(const bo_op_call *call)
{
    return call->attributes;
}

static const bo_cuda_engine *engine_of(const bo_op_call *call)
{
    return engines[bo_attention_describe(attributes_of(call)->attention)->kind];
}

/* True if all keys are read before the queries: as on the CPU (bo_attention_reads). */
static bool reads_first(const bo_op_call *call)
{
    const bo_attention_attributes *a = attributes_of(call);
    return a->cross && !a->ask && bo_attention_describe(a->attention)->causal;
}

static bo_status shape(bo_context *context, bo_op_call *call)
{
    BO_TRY(bo_shape_attention(context, call));
    const bo_attention *attention = attributes_of(call)->attention;
    const char *kind = bo_attention_kind_name(bo_attention_describe(attention)->kind);
    const bo_cuda_engine *engine = engine_of(call);
    if (!engine) return bo_fail(context, BO_UNSUPPORTED, "attention: kind %s is not supported on GPUs", kind);
    const char *why = engine->refuses ? engine->refuses(attention) : NULL;
    if (why) return bo_fail(context, BO_UNSUPPORTED, "attention: kind %s is not supported on GPUs %s", kind, why);
    if (reads_first(call) && !engine->reads_first)
        return bo_fail(context, BO_UNSUPPORTED,
                       "attention: cross attention of kind %s with a causal mask is not supported on GPUs", kind);
    return BO_OK;
}

/* ---- inputs ------------------------------------------------------------------------------------------------------ */

enum { OF_TOKENS = BO_ATTENTION_GIVEN_LOG_GATE | BO_ATTENTION_GIVEN_BETA }; /* inputs that are not parameters */

/* q, k and v precede the inputs that `given` lists; if only states are read, q alone. */
static size_t first_given(const bo_op_call *call)
{
    return attributes_of(call)->ask ? 1 : 3;
}

/* Returns the bit of bo_attention_given of an input; BO_ATTENTION_GIVEN_COUNT for q, k and v. */
static size_t bit_of(const bo_op_call *call, size_t input)
{
    const unsigned given = attributes_of(call)->given;
    for (size_t bit = 0, at = first_given(call); bit < BO_ATTENTION_GIVEN_COUNT; bit++)
        if (given >> bit & 1 && at++ == input) return bit;
    return BO_ATTENTION_GIVEN_COUNT;
}

/* The type in which engines take an input and give its gradient: that of q for rows of tokens, float for parameters. */
static bo_cuda_type type_for_engine(const bo_op_call *call, size_t input)
{
    const size_t bit = bit_of(call, input);
    const bool parameter = bit < BO_ATTENTION_GIVEN_COUNT && !(OF_TOKENS >> bit & 1);
    return parameter ? BO_CUDA_F32 : bo_cuda_type_of(call->in[0].element);
}

static bool is_converted(const bo_op_call *call, size_t input)
{
    return bo_cuda_type_of(call->in[input].element) != type_for_engine(call, input);
}

/* ---- scratch memory ---------------------------------------------------------------------------------------------- */

/* Pieces of the scratch memory of a call in their order; NULL if not needed. */
typedef struct room {
    void *input[BO_OP_INPUTS];    /* an input in the type for the engine */
    void *gradient[BO_OP_INPUTS]; /* a gradient that is converted or added afterwards, as the engine writes it */
    void *rounded[BO_OP_INPUTS];  /* the same in the type of the input, if it is converted and then added */
    float *decay;                 /* gate FIXED: the default */
    void *engine;
} room;

static bool needs_decay(const bo_op_call *call)
{
    const bo_attention_attributes *a = attributes_of(call);
    return bo_attention_describe(a->attention)->gate == BO_GATE_FIXED && !(a->given & BO_ATTENTION_GIVEN_LOG_DECAY);
}

static room carve_room(const bo_op_call *call, bo_carver *carver)
{
    room r = {0};
    for (size_t i = 0; i < call->inputs; i++) {
        const size_t count = bo_cuda_count(&call->in[i]), bytes = bo_cuda_bytes(type_for_engine(call, i));
        const bool converted = is_converted(call, i);
        if (converted) r.input[i] = bo_carve(carver, count, bytes);
        if (!call->din[i] || !(converted || call->add[i])) continue;
        r.gradient[i] = bo_carve(carver, count, bytes);
        if (converted && call->add[i])
            r.rounded[i] = bo_carve(carver, count, bo_cuda_bytes(bo_cuda_type_of(call->in[i].element)));
    }
    if (needs_decay(call))
        r.decay = bo_carve_floats(carver, bo_attention_describe(attributes_of(call)->attention)->key_heads);
    r.engine = bo_carve(carver, 0, 1);
    return r;
}

/* ---- the description of a call ----------------------------------------------------------------------------------- */

static bo_sequences sequences_of(const bo_op_call *call)
{
    const bo_attention_attributes *a = attributes_of(call);
    return (bo_sequences){
        .tokens = a->tokens, .most_sequences = a->most_sequences, .layer = a->layer, .source = a->source};
}

static bo_sequences sources_of(const bo_op_call *call)
{
    const bo_attention_attributes *a = attributes_of(call);
    return (bo_sequences){.tokens = a->key_tokens, .most_sequences = a->most_sequences, .source = true};
}

/* The largest shape of an input's rows. */
static bo_cuda_rows most_rows(const bo_op_call *call, size_t input, const bo_sequences *sequences)
{
    const size_t rows = call->in[input].rows, tokens = sequences->tokens ? sequences->tokens : rows;
    const size_t usual = tokens ? rows / tokens : 0;
    return (bo_cuda_rows){.tokens = (int32_t)tokens,
                          .sequences = (int32_t)(sequences->most_sequences ? sequences->most_sequences : usual),
                          .rows = rows};
}

static bo_status rows_of(bo_context *context, const bo_op_call *call, size_t input, const bo_sequences *sequences,
                         bo_cuda_rows *out)
{
    bo_spans spans;
    BO_TRY(bo_spans_of_input(context, call, input, sequences, "attention", &spans));
    *out = (bo_cuda_rows){
        .tokens = (int32_t)spans.tokens, .sequences = (int32_t)spans.count, .rows = call->in[input].rows};
    if (spans.lengths) out->starts = sequences->source ? call->staged->host.source_starts : call->staged->host.starts;
    return BO_OK;
}

/* Sets what does not depend on the pass. */
static bo_cuda_attention describe_attention(const bo_op_call *call)
{
    const bo_attention_attributes *a = attributes_of(call);
    const bo_attention_view view = bo_attention_view_of(a->attention);
    return (bo_cuda_attention){.type = bo_cuda_type_of(call->in[0].element),
                               .heads = (int)view.desc->heads,
                               .key_heads = (int)view.desc->key_heads,
                               .dim = (int)view.desc->dim,
                               .value_dim = (int)view.desc->value_dim,
                               .causal = view.desc->causal && !a->cross,
                               .cross = a->cross,
                               .reads_first = reads_first(call),
                               .scale = (float)view.desc->scale,
                               .sums_bytes = view.sums_bytes,
                               .kept_bytes = view.kept_bytes};
}

/* Sets the addresses: those of the call, or those in the scratch memory. */
static void set_arrays(const bo_op_call *call, const room *r, bo_cuda_attention *out)
{
    const void *in[BO_OP_INPUTS] = {0};
    void *d[BO_OP_INPUTS] = {0};
    for (size_t i = 0; i < call->inputs; i++) {
        in[i] = is_converted(call, i) ? r->input[i] : call->in[i].data;
        d[i] = r->gradient[i] ? r->gradient[i] : call->din[i];
    }
    out->q = in[0], out->dq = d[0];
    if (!attributes_of(call)->ask) out->k = in[1], out->v = in[2], out->dk = d[1], out->dv = d[2];
    const float **parameters[BO_ATTENTION_GIVEN_COUNT] = {NULL,       &out->sigma,     &out->m,      &out->mix,
                                                          NULL,       &out->log_decay, &out->lambda, &out->m_k,
                                                          &out->bias, &out->bias_k};
    float **gradients[BO_ATTENTION_GIVEN_COUNT] = {NULL,        &out->dsigma,     &out->dm,      &out->dmix,
                                                   NULL,        &out->dlog_decay, &out->dlambda, &out->dm_k,
                                                   &out->dbias, &out->dbias_k};
    for (size_t i = first_given(call); i < call->inputs; i++) {
        const size_t bit = bit_of(call, i);
        if (1u << bit == BO_ATTENTION_GIVEN_LOG_GATE)
            out->log_gate = in[i], out->dlog_gate = d[i];
        else if (1u << bit == BO_ATTENTION_GIVEN_BETA)
            out->beta = in[i], out->dbeta = d[i];
        else
            *parameters[bit] = in[i], *gradients[bit] = d[i];
    }
    if (needs_decay(call)) out->log_decay = r->decay;
    out->out = call->out[0].data, out->dout = call->dout[0];
    out->saved = call->saved, out->scratch = r->engine;
}

/* The states of the layer in memory of the device; NULL: none. */
static void *const *states_of(const bo_op_call *call, const bo_cuda_attention *at)
{
    bo_sequences sequences = sequences_of(call);
    if (!bo_spans_remember(call, &sequences)) return NULL;
    return call->staged->host.states + sequences.layer * (size_t)at->queries.sequences;
}

static bo_status describe(bo_context *context, const bo_op_call *call, bo_cuda_attention *out, room *r)
{
    const bo_attention_attributes *a = attributes_of(call);
    const bo_sequences sequences = sequences_of(call), sources = sources_of(call);
    bo_carver carver = {.at = call->scratch};
    *r = carve_room(call, &carver);
    *out = describe_attention(call);
    BO_TRY(rows_of(context, call, 0, &sequences, &out->queries));
    out->keys = out->queries;
    if (a->cross && !a->ask) {
        BO_TRY(rows_of(context, call, 1, &sources, &out->keys));
        if (!out->keys.starts != !out->queries.starts || out->keys.sequences != out->queries.sequences)
            return bo_fail(context, BO_INVALID, "attention: the stream has %d sequences and the source %d",
                           (int)out->queries.sequences, (int)out->keys.sequences);
    }
    set_arrays(call, r, out);
    out->states = states_of(call, out);
    return BO_OK;
}

static bo_status sizes(bo_context *context, const bo_op_call *call, bool gradients, size_t *saved, size_t *scratch)
{
    const bo_attention_attributes *a = attributes_of(call);
    const bo_sequences sequences = sequences_of(call), sources = sources_of(call);
    const bo_cuda_engine *engine = engine_of(call);
    static char any[64];
    (void)context;
    bo_op_call counted = *call;
    for (size_t i = 0; i < call->inputs; i++) counted.in[i].data = any;
    counted.out[0].data = any, counted.saved = gradients ? any : NULL;
    bo_carver carver = {0};
    room r = carve_room(&counted, &carver);
    for (size_t i = 0; i < call->inputs; i++) r.input[i] = any; /* engines see which inputs exist */
    r.decay = (float *)(void *)any;
    bo_cuda_attention at = describe_attention(&counted);
    at.queries = at.keys = most_rows(call, 0, &sequences);
    if (a->cross && !a->ask) at.keys = most_rows(call, 1, &sources);
    set_arrays(&counted, &r, &at);
    *saved = gradients && engine->saved ? engine->saved(a->attention, &at) : 0;
    bo_carve(&carver, engine->scratch ? engine->scratch(a->attention, &at, call->dout[0] != NULL) : 0, 1);
    *scratch = carver.bytes;
    return BO_OK;
}

/* ---- before and after an engine ---------------------------------------------------------------------------------- */

static bo_status convert(bo_context *context, size_t count, bo_cuda_type from_type, const void *from,
                         bo_cuda_type to_type, void *to)
{
    return BO_LAUNCH(
        context, convert,
        &((bo_cuda_convert){.count = count, .from_type = from_type, .to_type = to_type, .from = from, .to = to}));
}

static bo_status convert_inputs(bo_context *context, const bo_op_call *call, const room *r)
{
    for (size_t i = 0; i < call->inputs; i++)
        if (r->input[i])
            BO_TRY(convert(context, bo_cuda_count(&call->in[i]), bo_cuda_type_of(call->in[i].element), call->in[i].data,
                           type_for_engine(call, i), r->input[i]));
    return BO_OK;
}

static bo_status write_decay(bo_context *context, const bo_op_call *call, const room *r)
{
    const bo_attention_view view = bo_attention_view_of(attributes_of(call)->attention);
    for (size_t first = 0; r->decay && first < view.desc->key_heads; first += BO_CUDA_CONSTANTS) {
        const size_t count = bo_min(view.desc->key_heads - first, BO_CUDA_CONSTANTS);
        bo_cuda_constants c = {.count = (int)count, .to = r->decay + first};
        memcpy(c.values, view.decay + first, count * sizeof *c.values);
        BO_TRY(BO_LAUNCH(context, constants, &c));
    }
    return BO_OK;
}

static bo_status begin(bo_context *context, const bo_op_call *call, bo_cuda_attention *at, room *r)
{
    const bo_attention_attributes *a = attributes_of(call);
    if (bo_pass_segments(call->pass))
        return bo_fail(context, BO_UNSUPPORTED,
                       "attention: training on consecutive segments (a pass with final states) is not supported on "
                       "GPUs");
    if (!bo_attention_is_ready(a->attention))
        return bo_fail(context, BO_INVALID, "attention: it must be calibrated before it is used");
    BO_TRY(describe(context, call, at, r));
    BO_TRY(convert_inputs(context, call, r));
    return write_decay(context, call, r);
}

/* Gradients from the scratch memory: converted, or added. */
static bo_status finish_gradients(bo_context *context, const bo_op_call *call, const room *r)
{
    for (size_t i = 0; i < call->inputs; i++) {
        if (!r->gradient[i]) continue;
        const size_t count = bo_cuda_count(&call->in[i]);
        const bo_cuda_type type = bo_cuda_type_of(call->in[i].element);
        const void *whole = r->gradient[i];
        if (is_converted(call, i)) {
            void *to = call->add[i] ? r->rounded[i] : call->din[i];
            BO_TRY(convert(context, count, type_for_engine(call, i), r->gradient[i], type, to));
            whole = to;
        }
        if (call->add[i])
            BO_TRY(BO_LAUNCH(
                context, add,
                &((bo_cuda_add){.type = type, .count = count, .a = whole, .y = call->din[i], .accumulate = true})));
    }
    return BO_OK;
}

/* ---- operation --------------------------------------------------------------------------------------------------- */

static bo_status prepare(bo_context *context, const bo_op_call *call)
{
    const bo_cuda_engine *engine = engine_of(call);
    return engine->prepare ? engine->prepare(context, attributes_of(call)->attention) : BO_OK;
}

static bo_cuda_states headers_of(const bo_op_call *call, const bo_cuda_attention *at)
{
    const bo_attention_view view = bo_attention_view_of(attributes_of(call)->attention);
    bo_cuda_states out = {.states = at->states,
                          .keys = at->keys,
                          .key_heads = at->key_heads,
                          .sums_bytes = at->sums_bytes,
                          .kept_bytes = at->kept_bytes,
                          .scaled = view.scaled};
    _Static_assert(sizeof out.header == BO_STATE_HEADER_BYTES, "the header of a state");
    memcpy(&out.header, view.header, sizeof out.header);
    return out;
}

static bo_status forward(bo_context *context, const bo_op_call *call)
{
    const bo_attention_attributes *a = attributes_of(call);
    const bo_cuda_engine *engine = engine_of(call);
    bo_cuda_attention at;
    room r;
    BO_TRY(begin(context, call, &at, &r));
    if (a->ask && !at.states)
        return bo_fail(context, BO_INVALID, "attention: without keys, states that have read a source are required");
    if (!at.states) return engine->forward(context, a->attention, &at);
    if (engine->no_states)
        return bo_fail(context, BO_UNSUPPORTED, "attention: states of kind %s are not supported on GPUs",
                       bo_attention_kind_name(bo_attention_describe(a->attention)->kind));
    const bo_cuda_states headers = headers_of(call, &at);
    if (a->cross && !a->ask) BO_TRY(BO_LAUNCH(context, states_clear, &headers));
    BO_TRY(engine->forward(context, a->attention, &at));
    return a->ask ? BO_OK : BO_LAUNCH(context, states_count, &headers);
}

static bo_status backward(bo_context *context, const bo_op_call *call)
{
    const bo_attention_attributes *a = attributes_of(call);
    const bo_sequences sequences = sequences_of(call);
    bo_cuda_attention at;
    room r;
    bool done;
    BO_TRY(bo_cuda_backward_zero(context, call, &done));
    if (done) return BO_OK;
    if (a->ask) return bo_fail(context, BO_INVALID, "attention: without keys, there are no gradients");
    BO_TRY(bo_spans_begin_anew(context, call, &sequences, "attention"));
    BO_TRY(begin(context, call, &at, &r));
    BO_TRY(engine_of(call)->backward(context, a->attention, &at));
    return finish_gradients(context, call, &r);
}

static size_t usual_sequences(const bo_op_call *call)
{
    const bo_attention_attributes *a = attributes_of(call);
    return a->tokens ? call->in[0].rows / a->tokens : 1;
}

static size_t layer(const bo_op_call *call)
{
    const bo_attention_attributes *a = attributes_of(call);
    return a->source ? 0 : a->layer + 1;
}

/* As on the CPU. */
static double operations(bo_context *context, const bo_op_call *call)
{
    return bo_backend_cpu()->ops[BO_OPERATION_ATTENTION]->operations(context, call);
}

/* ---- calibration ------------------------------------------------------------------------------------------------- */

/* Copies an input to memory of the host, as floats. The caller frees it. NULL: see the context's error. */
static float *input_on_host(bo_context *context, const bo_op_call *call, size_t input)
{
    const bo_cuda_device *device = bo_cuda_open_device();
    const size_t count = bo_cuda_count(&call->in[input]);
    const bool rounded = call->in[input].element == BO_ELEMENT_BFLOAT16;
    float *out = bo_alloc_raw(context, count, sizeof *out, "an input of attention");
    void *held = out && rounded ? bo_alloc_raw(context, count, 2, "an input of attention") : out;
    bo_status status = held ? BO_OK : BO_MEMORY;
    if (status == BO_OK)
        status = bo_cuda_check(context, device->functions->read(device->cuda, held, call->in[input].data,
                                                                count * (rounded ? 2 : sizeof *out)));
    if (status == BO_OK && rounded) status = bo_backend_cpu()->widen(context, BO_ELEMENT_BFLOAT16, 1, count, held, out);
    if (held != out) bo_free(held);
    if (status == BO_OK) return out;
    bo_free(out);
    return NULL;
}

/* Resamples on the host from a copy of all inputs: this happens a few times per model. */
static bo_status calibrate(bo_context *context, const bo_op_call *call, const bo_calibrating *calibrating)
{
    const bo_attention_attributes *a = attributes_of(call);
    bo_op_call copy = *call;
    bo_status status = BO_OK;
    if (!calibrating->calibrations[a->layer] || call->again || a->ask) return BO_OK;
    for (size_t i = 0; i < call->inputs; i++) {
        copy.in[i].element = BO_ELEMENT_FLOAT32;
        copy.in[i].data = status == BO_OK ? input_on_host(context, call, i) : NULL;
        if (!copy.in[i].data) status = BO_MEMORY;
    }
    if (status == BO_OK) status = bo_backend_cpu()->ops[BO_OPERATION_ATTENTION]->calibrate(context, &copy, calibrating);
    for (size_t i = 0; i < call->inputs; i++) bo_free(copy.in[i].data);
    return status == BO_OK ? prepare(context, call) : status;
}

const bo_op bo_cuda_op_attention = {
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
    .layer = layer,
    .sequences = usual_sequences,
    .operations = operations,
};
