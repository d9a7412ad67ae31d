/* The public calls of attention on a GPU: host.h. */
#include "host.h"
#include <string.h>
#include "../../base/carver.h"
#include "../attention.h"
#include "../calls.h"
#include "../given.h"
#include "call.h"
#include "engine.h"

/* ---- the arrays of a call ---------------------------------------------------------------------------------------- */

/* An array with a row per token. */
typedef struct token_array {
    bo_attention_array *array;
    const float *in;
    float *out;
    bool of_queries;
    size_t heads, width;
} token_array;

/* A parameter, or its gradient. */
typedef struct parameter_array {
    const float **slot;
    const float *in;
    float *out;
    size_t count;
} parameter_array;

enum {
    MAX_ARRAYS = 8 + 2 * BO_GIVEN_OF_TOKENS, /* q, k, v, out and their gradients */
    MAX_PARAMETERS = 2 * BO_PARAMETER_COUNT
};

typedef struct array_list {
    size_t count, parameters;
    token_array arrays[MAX_ARRAYS];
    parameter_array parameter[MAX_PARAMETERS];
} array_list;

static void add(array_list *list, bo_attention_array *array, const float *in, float *out, bool of_queries, size_t heads,
                size_t width)
{
    if (in || out) list->arrays[list->count++] = (token_array){array, in, out, of_queries, heads, width};
}

static void add_parameter(array_list *list, const bo_attention *attention, bo_parameter which, const float **slot,
                          const float *in, float *out)
{
    const size_t count = bo_parameter_size(attention, which) * attention->desc.key_heads;
    if (in || out) list->parameter[list->parameters++] = (parameter_array){slot, in, out, count};
}

static void list_inputs(const bo_attention *attention, const bo_attention_inputs *in, float *out, bo_strided_call *c,
                        array_list *list)
{
    const bo_attention_desc *d = &attention->desc;
    add(list, &c->q, in->q, NULL, true, d->heads, d->dim);
    add(list, &c->k, in->k, NULL, false, d->key_heads, d->dim);
    add(list, &c->v, in->v, NULL, false, d->key_heads, d->value_dim);
    add(list, &c->out, NULL, out, true, d->heads, d->value_dim);
#define ADD_TOKENS(BIT, name)                                                                                          \
    add(list, &c->name, in->name, NULL, false, d->key_heads, bo_max(bo_given_width(attention, BO_GIVEN_##BIT), 1));
#define ADD_PARAMETER(BIT, name) add_parameter(list, attention, BO_PARAMETER_##BIT, &c->name, in->name, NULL);
    BO_ATTENTION_GIVEN_LIST(ADD_TOKENS, ADD_PARAMETER)
#undef ADD_PARAMETER
#undef ADD_TOKENS
}

static void list_gradients(const bo_attention *attention, const float *dout, const bo_attention_gradients *g,
                           bo_strided_call *c, array_list *list)
{
    const bo_attention_desc *d = &attention->desc;
    add(list, &c->dout, dout, NULL, true, d->heads, d->value_dim);
    add(list, &c->dq, NULL, g->q, true, d->heads, d->dim);
    add(list, &c->dk, NULL, g->k, false, d->key_heads, d->dim);
    add(list, &c->dv, NULL, g->v, false, d->key_heads, d->value_dim);
#define ADD_TOKENS(BIT, name)                                                                                          \
    add(list, &c->d##name, NULL, g->name, false, d->key_heads, bo_max(bo_given_width(attention, BO_GIVEN_##BIT), 1));
#define ADD_PARAMETER(BIT, name)                                                                                       \
    add_parameter(list, attention, BO_PARAMETER_##BIT, (const float **)&c->d##name, NULL, g->name);
    BO_ATTENTION_GIVEN_LIST(ADD_TOKENS, ADD_PARAMETER)
#undef ADD_PARAMETER
#undef ADD_TOKENS
}

/* ---- the shape of a call ----------------------------------------------------------------------------------------- */

/* Rows of all sequences. */
typedef struct totals {
    size_t queries, keys;
} totals;

static bool is_cross(const bo_attention_shape *shape)
{
    return !shape->no_keys &&
           (shape->key_lengths || (!shape->lengths && shape->key_tokens && shape->key_tokens != shape->tokens));
}

/* offsets, key_offsets: in memory of the GPU; NULL if the batch is not packed. */
static bo_strided_call shape_call(const bo_attention_shape *shape, const totals *rows, const int32_t *offsets,
                                  const int32_t *key_offsets)
{
    const bool cross = is_cross(shape);
    return (bo_strided_call){.layout = BO_LAYOUT_TOKENS_FIRST,
                             .no_keys = shape->no_keys,
                             .sequences = shape->sequences,
                             .tokens = shape->tokens,
                             .key_tokens = cross ? shape->key_tokens : 0,
                             .cross = cross,
                             .offsets = offsets,
                             .key_offsets = cross ? key_offsets : NULL,
                             .rows = rows->queries,
                             .key_rows = cross ? rows->keys : 0};
}

/* Sets the strides that the layout of a shape means. */
static void set_strides(const bo_attention_shape *shape, const totals *rows, const token_array *a)
{
    bo_attention_array *array = a->array;
    const size_t tokens = shape->lengths ? (a->of_queries ? rows->queries : rows->keys)
                                         : (a->of_queries || !is_cross(shape) ? shape->tokens : shape->key_tokens);
    if (shape->layout == BO_LAYOUT_TOKENS_FIRST)
        array->head = a->width, array->token = a->heads * a->width;
    else
        array->token = a->width, array->head = tokens * a->width;
    array->sequence = tokens * a->heads * a->width;
}

static size_t numbers_of(const totals *rows, const token_array *a)
{
    return (a->of_queries ? rows->queries : rows->keys) * a->heads * a->width;
}

/* ---- host arrays ------------------------------------------------------------------------------------------------- */

bool bo_gpu_host_supports(const bo_context *context, const bo_call *call, bool kept)
{
    const bo_attention_shape *shape = call->shape;
    if (!bo_context_is_on_gpu(context) || !bo_gpu_attention_exists(context, call->attention)) return false;
    if (shape->no_queries || !call->queries_total || (!shape->no_keys && !call->keys_total)) return false;
    if (is_cross(shape) && (call->attention->desc.causal || call->initial || call->final)) return false;
    if (shape->no_keys && call->attention->desc.kind == BO_ATTENTION_HYBRID) return false;
    const bool gradients_of_states = call->d_final || (call->gradients && call->gradients->initial);
    return !(kept && (call->initial || call->final || gradients_of_states));
}

/* The memory of a call on the GPU. */
typedef struct pieces {
    float *wide; /* an array before or after rounding to bfloat16; NULL: no rounding */
    void *arrays[MAX_ARRAYS], *parameters[MAX_PARAMETERS];
    int32_t *offsets, *key_offsets;
    char *states;
    size_t bytes;
} pieces;

typedef struct transfer {
    bo_context *context;
    bo_device *device;
    const bo_call *call;
    bo_element element;
    totals rows;
    array_list list;
    size_t state_bytes;
    pieces at;
    char *arrays, *work; /* GPU memory: the pieces; tape and workspace */
    bo_strided_call c;
    void **states; /* on the host: the addresses of the states */
} transfer;

static void lay_out(transfer *t)
{
    const bo_attention_shape *shape = t->call->shape;
    bo_carver carver = {.at = t->arrays};
    size_t widest = 0;
    for (size_t i = 0; i < t->list.count; i++) {
        const size_t count = numbers_of(&t->rows, &t->list.arrays[i]);
        t->at.arrays[i] = bo_carve(&carver, count, bo_gpu_bytes(t->element));
        widest = bo_max(widest, count);
    }
    for (size_t i = 0; i < t->list.parameters; i++)
        t->at.parameters[i] = bo_carve_floats(&carver, t->list.parameter[i].count);
    const bool rounds = t->element != BO_ELEMENT_FLOAT32;
    t->at.wide = bo_carve_floats(&carver, rounds ? widest : 0);
    if (shape->lengths) t->at.offsets = bo_carve(&carver, shape->sequences + 1, sizeof(int32_t));
    if (shape->lengths && is_cross(shape)) t->at.key_offsets = bo_carve(&carver, shape->sequences + 1, sizeof(int32_t));
    t->at.states = bo_carve(&carver, t->states ? shape->sequences : 0, t->state_bytes);
    t->at.bytes = carver.bytes;
}

/* Fills the call with the addresses of the pieces. */
static void fill_call(transfer *t)
{
    const bo_attention_shape *shape = t->call->shape;
    t->c = shape_call(shape, &t->rows, t->at.offsets, t->at.key_offsets);
    t->c.element = t->element;
    for (size_t i = 0; i < t->list.count; i++) {
        t->list.arrays[i].array->data = t->at.arrays[i];
        set_strides(shape, &t->rows, &t->list.arrays[i]);
    }
    for (size_t i = 0; i < t->list.parameters; i++) *t->list.parameter[i].slot = t->at.parameters[i];
    t->c.training = t->call->gradients != NULL;
    t->c.states = t->states;
}

static bo_status write_offsets(transfer *t, const size_t *lengths, int32_t *to)
{
    const size_t sequences = t->call->shape->sequences;
    int32_t *offsets = bo_alloc(t->context, sequences + 1, sizeof *offsets, "offsets of sequences");
    if (!offsets) return BO_MEMORY;
    for (size_t s = 0; s < sequences; s++) offsets[s + 1] = offsets[s] + (int32_t)lengths[s];
    const bo_status status = bo_buffer_write(t->context, t->device, to, offsets, (sequences + 1) * sizeof *offsets);
    bo_free(offsets);
    return status;
}

static bo_status convert(transfer *t, size_t count, bo_element from, const void *x, bo_element to, void *y)
{
    return BO_LAUNCH(t->context, convert,
                     &((bo_gpu_convert){.count = count, .from_type = from, .to_type = to, .from = x, .to = y}));
}

static bo_status upload(transfer *t)
{
    const bo_attention_shape *shape = t->call->shape;
    if (shape->lengths) BO_TRY(write_offsets(t, shape->lengths, t->at.offsets));
    if (t->at.key_offsets) BO_TRY(write_offsets(t, shape->key_lengths, t->at.key_offsets));
    for (size_t i = 0; i < t->list.count; i++) {
        const token_array *a = &t->list.arrays[i];
        const size_t count = numbers_of(&t->rows, a);
        float *to = t->element == BO_ELEMENT_FLOAT32 ? t->at.arrays[i] : t->at.wide;
        if (!a->in) continue;
        BO_TRY(bo_buffer_write(t->context, t->device, to, a->in, count * sizeof *to));
        if (t->element != BO_ELEMENT_FLOAT32)
            BO_TRY(convert(t, count, BO_ELEMENT_FLOAT32, to, t->element, t->at.arrays[i]));
    }
    for (size_t i = 0; i < t->list.parameters; i++) {
        const parameter_array *p = &t->list.parameter[i];
        if (p->in) BO_TRY(bo_buffer_write(t->context, t->device, t->at.parameters[i], p->in, p->count * sizeof *p->in));
    }
    return BO_OK;
}

static bo_status download(transfer *t)
{
    for (size_t i = 0; i < t->list.count; i++) {
        const token_array *a = &t->list.arrays[i];
        const size_t count = numbers_of(&t->rows, a);
        const void *from = t->at.arrays[i];
        if (!a->out) continue;
        if (t->element != BO_ELEMENT_FLOAT32) {
            BO_TRY(convert(t, count, t->element, from, BO_ELEMENT_FLOAT32, t->at.wide));
            from = t->at.wide;
        }
        BO_TRY(bo_buffer_read(t->context, t->device, a->out, from, count * sizeof *a->out));
    }
    for (size_t i = 0; i < t->list.parameters; i++) {
        const parameter_array *p = &t->list.parameter[i];
        if (p->out)
            BO_TRY(bo_buffer_read(t->context, t->device, p->out, t->at.parameters[i], p->count * sizeof *p->out));
    }
    return BO_OK;
}

static bo_status write_states(transfer *t)
{
    const bo_call *call = t->call;
    const size_t sequences = t->states ? call->shape->sequences : 0;
    for (size_t s = 0; s < sequences; s++) {
        const void *from = call->initial ? call->initial[s] : call->final[s]; /* which is empty */
        t->states[s] = t->at.states + s * t->state_bytes;
        BO_TRY(bo_buffer_write(t->context, t->device, t->states[s], from, t->state_bytes));
    }
    return BO_OK;
}

static bo_status read_states(transfer *t)
{
    const bo_call *call = t->call;
    for (size_t s = 0; call->final && s < call->shape->sequences; s++)
        BO_TRY(bo_buffer_read(t->context, t->device, call->final[s], t->states[s], t->state_bytes));
    return BO_OK;
}

/* Backward recomputes the output but does not return it. If the gradient of the output is not given, it is zero, like
 * the memory. */
static void list_backward(transfer *t)
{
    const bo_call *call = t->call;
    const bo_attention_desc *d = &call->attention->desc;
    for (size_t i = 0; i < t->list.count; i++)
        if (t->list.arrays[i].array == &t->c.out) t->list.arrays[i].out = NULL;
    list_gradients(call->attention, call->dout, call->gradients, &t->c, &t->list);
    if (!call->dout)
        t->list.arrays[t->list.count++] = (token_array){&t->c.dout, NULL, NULL, true, d->heads, d->value_dim};
}

static bo_status allocate_arrays(transfer *t)
{
    lay_out(t);
    t->arrays = bo_buffer_allocate(t->context, t->device, t->at.bytes, "the arrays of attention");
    if (!t->arrays) return BO_MEMORY;
    lay_out(t);
    fill_call(t);
    return BO_OK;
}

static bo_status allocate_work(transfer *t)
{
    const bo_attention *attention = t->call->attention;
    size_t tape = 0, forward = 0, backward = 0;
    BO_TRY(bo_strided_bytes(t->context, attention, &t->c, false, &tape, &forward));
    if (t->c.training) BO_TRY(bo_strided_bytes(t->context, attention, &t->c, true, &tape, &backward));
    const size_t place = bo_padded_bytes(tape);
    t->work = bo_buffer_allocate(t->context, t->device, place + bo_max(forward, backward), "attention's workspace");
    if (!t->work) return BO_MEMORY;
    t->c.tape = t->work, t->c.workspace = t->work + place;
    return BO_OK;
}

static bo_status open(bo_context *context, const bo_call *call, transfer *t)
{
    const bool rounds = bo_context_precision(context) == BO_PRECISION_BFLOAT16;
    *t = (transfer){.context = context,
                    .device = bo_device_of(context),
                    .call = call,
                    .element = rounds ? BO_ELEMENT_BFLOAT16 : BO_ELEMENT_FLOAT32,
                    .rows = {call->queries_total, call->keys_total},
                    .state_bytes = bo_attention_state_bytes(call->attention)};
    list_inputs(call->attention, call->in, call->out, &t->c, &t->list);
    if (call->gradients) list_backward(t);
    if (call->initial || call->final) {
        t->states = bo_alloc(context, call->shape->sequences, sizeof *t->states, "addresses of states");
        if (!t->states) return BO_MEMORY;
    }
    BO_TRY(allocate_arrays(t));
    return allocate_work(t);
}

static void close(transfer *t)
{
    bo_buffer_release(t->device, t->arrays);
    bo_buffer_release(t->device, t->work);
    bo_free(t->states);
}

static bo_status check_finite(bo_context *context, const bo_call *call, const transfer *t)
{
    bool finite = true;
    for (size_t i = 0; i < t->list.count; i++) {
        const token_array *a = &t->list.arrays[i];
        if (a->out) finite &= call->kernels->finite(numbers_of(&t->rows, a), a->out);
    }
    for (size_t i = 0; i < t->list.parameters; i++) {
        const parameter_array *p = &t->list.parameter[i];
        if (p->out) finite &= call->kernels->finite(p->count, p->out);
    }
    if (finite) return BO_OK;
    return call->gradients ? bo_gradients_locate_nonfinite(context, call) : bo_inputs_locate_nonfinite(context, call);
}

static bo_status compute(transfer *t)
{
    BO_TRY(upload(t));
    BO_TRY(write_states(t));
    BO_TRY(bo_strided_forward(t->context, t->call->attention, &t->c));
    if (t->call->gradients) BO_TRY(bo_strided_backward(t->context, t->call->attention, &t->c));
    BO_TRY(download(t));
    BO_TRY(read_states(t));
    return check_finite(t->context, t->call, t);
}

static bo_status run(bo_context *context, const bo_call *call)
{
    transfer t;
    bo_status status = open(context, call, &t);
    if (status == BO_OK) status = compute(&t);
    close(&t);
    return status;
}

bo_status bo_gpu_host_forward(bo_context *context, const bo_call *call)
{
    return run(context, call);
}

bo_status bo_gpu_host_backward(bo_context *context, const bo_call *call)
{
    return run(context, call);
}

/* ---- GPU arrays -------------------------------------------------------------------------------------------------- */

bo_status bo_gpu_holds_arrays(bo_context *context, const bo_attention_inputs *in, const float *out, bool *on_device)
{
    const float *const arrays[] = {in->q, in->k, in->v, out, in->log_gate, in->beta};
    size_t on_gpu = 0, count = 0;
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
        if (!arrays[i]) continue;
        BO_TRY(bo_device_owns(context, arrays[i], on_device));
        on_gpu += *on_device, count++;
    }
    *on_device = on_gpu > 0;
    if (on_gpu == 0 || on_gpu == count) return BO_OK;
    return bo_fail(
        context, BO_INVALID,
        "attention: some of q, k, v, out, log_gate and beta are in host memory, and some in the memory of %s",
        bo_device_name(bo_device_of(context)));
}

/* Describes a call. *offsets: offsets of packed sequences in GPU memory, which the caller releases. */
static bo_status describe(bo_context *context, const bo_attention *attention, const bo_attention_shape *shape,
                          const bo_attention_inputs *in, float *out, const float *dout,
                          const bo_attention_gradients *gradients, bo_strided_call *c)
{
    array_list list = {0};
    BO_TRY(bo_check_reserved(context, "bo_attention_shape", shape->reserved));
    if (shape->layout != BO_LAYOUT_HEADS_FIRST && shape->layout != BO_LAYOUT_TOKENS_FIRST)
        return bo_fail(context, BO_INVALID, "attention: layout %d is unknown", (int)shape->layout);
    if (shape->lengths || shape->key_lengths || shape->no_queries)
        return bo_fail(context, BO_UNSUPPORTED,
                       "attention: packed sequences in GPU memory require offsets instead of lengths, and keys "
                       "without queries are not supported");
    const totals rows = {shape->sequences * shape->tokens,
                         shape->sequences * (is_cross(shape) ? shape->key_tokens : shape->tokens)};
    bo_strided_call shaped = shape_call(shape, &rows, NULL, NULL);
    list_inputs(attention, in, out, c, &list);
    if (gradients) list_gradients(attention, dout, gradients, c, &list);
    *c = shaped;
    for (size_t i = 0; i < list.count; i++) {
        const token_array *a = &list.arrays[i];
        a->array->data = a->in ? (void *)(uintptr_t)a->in : a->out;
        set_strides(shape, &rows, a);
    }
    for (size_t i = 0; i < list.parameters; i++)
        *list.parameter[i].slot = list.parameter[i].in ? list.parameter[i].in : list.parameter[i].out;
    return BO_OK;
}

bo_status bo_gpu_strided_run(bo_context *context, const bo_attention *attention, bo_strided_call *c, bool backward)
{
    bo_device *device = bo_device_of(context);
    size_t tape, bytes;
    BO_TRY(bo_strided_bytes(context, attention, c, backward, &tape, &bytes));
    c->workspace = bo_buffer_allocate(context, device, bytes, "attention's workspace");
    if (!c->workspace) return BO_MEMORY;
    const bo_status status = (backward ? bo_strided_backward : bo_strided_forward)(context, attention, c);
    bo_buffer_release(device, c->workspace); /* waits for the work */
    return status;
}

bo_status bo_gpu_device_forward(bo_context *context, const bo_attention *attention, const bo_attention_shape *shape,
                                const bo_attention_inputs *inputs, void *const *states, float *out, void *tape)
{
    bo_strided_call c = {0};
    BO_TRY(describe(context, attention, shape, inputs, out, NULL, NULL, &c));
    c.training = tape != NULL;
    c.tape = tape;
    c.states = states;
    return bo_gpu_strided_run(context, attention, &c, false);
}

/* Writes the gradients for an output gradient of zero. */
static bo_status zero_gradients(bo_context *context, const bo_attention *attention, const bo_attention_shape *shape,
                                const bo_attention_gradients *gradients)
{
    array_list list = {0};
    bo_strided_call c;
    const totals rows = {shape->sequences * shape->tokens,
                         shape->sequences * (is_cross(shape) ? shape->key_tokens : shape->tokens)};
    list_gradients(attention, NULL, gradients, &c, &list);
    for (size_t i = 0; i < list.count; i++) {
        const token_array *a = &list.arrays[i];
        BO_TRY(bo_buffer_zero(context, bo_device_of(context), a->out, numbers_of(&rows, a) * sizeof *a->out));
    }
    for (size_t i = 0; i < list.parameters; i++) {
        const parameter_array *p = &list.parameter[i];
        BO_TRY(bo_buffer_zero(context, bo_device_of(context), p->out, p->count * sizeof *p->out));
    }
    return BO_OK;
}

bo_status bo_gpu_device_backward(bo_context *context, const bo_attention *attention, const bo_attention_shape *shape,
                                 const bo_attention_inputs *inputs, const float *out, const void *tape,
                                 const float *dout, const bo_attention_gradients *gradients)
{
    bo_strided_call c = {0};
    BO_TRY(describe(context, attention, shape, inputs, (float *)(uintptr_t)out, dout, gradients, &c));
    if (!dout) return zero_gradients(context, attention, shape, gradients);
    c.training = true;
    c.tape = (void *)(uintptr_t)tape;
    return bo_gpu_strided_run(context, attention, &c, true);
}

size_t bo_gpu_device_tape_bytes(const bo_context *context, const bo_attention *attention,
                                const bo_attention_shape *shape)
{
    if (!bo_context_is_on_gpu(context) || !bo_gpu_attention_exists(context, attention)) return 0;
    if (shape->lengths || shape->no_queries) return 0;
    bo_gpu_attention at = bo_gpu_attention_of(context, attention, is_cross(shape) || shape->no_keys);
    const size_t keys = is_cross(shape) ? shape->key_tokens : shape->tokens;
    at.given = BO_GPU_ARRAY_Q | (shape->no_keys ? 0 : BO_GPU_ARRAY_K | BO_GPU_ARRAY_V);
    at.keeps = true;
    at.queries = (bo_gpu_rows){.tokens = (int32_t)shape->tokens,
                               .sequences = (int32_t)shape->sequences,
                               .rows = shape->sequences * shape->tokens};
    at.keys =
        (bo_gpu_rows){.tokens = (int32_t)keys, .sequences = (int32_t)shape->sequences, .rows = shape->sequences * keys};
    return bo_gpu_attention_saved_bytes(attention, &at);
}
