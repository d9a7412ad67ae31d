/* Calls on the caller's arrays in GPU memory: arrays.h. */
#include "arrays.h"
#include "../arrays.h"
#include "../given.h"
#include "call.h"
#include "engine.h"

/* ---- description ------------------------------------------------------------------------------------------------- */

static bo_gpu_strides strides_of(const bo_attention_array *array, bo_layout layout, const bo_gpu_rows *rows, int heads,
                                 size_t width)
{
    const size_t tokens = (size_t)rows->tokens;
    const bo_attention_array by = bo_attention_array_strides(array, layout, tokens, (size_t)heads, width);
    bo_gpu_strides out = {.row = by.token, .head = by.head};
    if (!rows->starts) out.sequence = (ptrdiff_t)by.sequence - (ptrdiff_t)(tokens * by.token);
    return out;
}

static void set_rows(const bo_strided_call *c, bo_gpu_attention *at)
{
    const int32_t sequences = (int32_t)c->sequences;
    at->queries = (bo_gpu_rows){.starts = c->offsets, .sequences = sequences, .rows = c->rows};
    if (!c->offsets) at->queries.tokens = (int32_t)c->tokens, at->queries.rows = c->sequences * c->tokens;
    at->keys = at->queries;
    if (!c->cross) return;
    const size_t tokens = c->key_tokens ? c->key_tokens : c->tokens;
    at->keys = (bo_gpu_rows){.starts = c->key_offsets, .sequences = sequences, .rows = c->key_rows};
    if (!c->key_offsets) at->keys.tokens = (int32_t)tokens, at->keys.rows = c->sequences * tokens;
}

static void set_strides(const bo_attention *attention, const bo_strided_call *c, bo_gpu_attention *at)
{
    const size_t dim = attention->desc.dim, values = attention->desc.value_dim;
    const int heads = at->heads, key_heads = at->key_heads;
    const bo_layout layout = c->layout;
#define STRIDES(BIT, name)                                                                                             \
    .name = strides_of(&c->name, layout, &at->keys, key_heads, bo_max(bo_given_width(attention, BO_GIVEN_##BIT), 1)),  \
    .d##name =                                                                                                         \
        strides_of(&c->d##name, layout, &at->keys, key_heads, bo_max(bo_given_width(attention, BO_GIVEN_##BIT), 1)),
    at->strides = (bo_gpu_attention_strides){.q = strides_of(&c->q, layout, &at->queries, heads, dim),
                                             .k = strides_of(&c->k, layout, &at->keys, key_heads, dim),
                                             .v = strides_of(&c->v, layout, &at->keys, key_heads, values),
                                             .out = strides_of(&c->out, layout, &at->queries, heads, values),
                                             .dout = strides_of(&c->dout, layout, &at->queries, heads, values),
                                             .dq = strides_of(&c->dq, layout, &at->queries, heads, dim),
                                             .dk = strides_of(&c->dk, layout, &at->keys, key_heads, dim),
                                             .dv = strides_of(&c->dv, layout, &at->keys, key_heads, values),
                                             BO_ATTENTION_GIVEN_LIST(STRIDES, BO_GIVEN_NONE)};
#undef STRIDES
}

static unsigned bit_if(const void *data, unsigned bit)
{
    return data ? bit : 0;
}

static void set_arrays(const bo_strided_call *c, bo_gpu_attention *at)
{
    at->given =
        bit_if(c->q.data, BO_GPU_ARRAY_Q) | bit_if(c->k.data, BO_GPU_ARRAY_K) | bit_if(c->v.data, BO_GPU_ARRAY_V);
    at->requested =
        bit_if(c->dq.data, BO_GPU_ARRAY_Q) | bit_if(c->dk.data, BO_GPU_ARRAY_K) | bit_if(c->dv.data, BO_GPU_ARRAY_V);
    at->q = c->q.data, at->k = c->k.data, at->v = c->v.data, at->out = c->out.data;
    at->dout = c->dout.data, at->dq = c->dq.data, at->dk = c->dk.data, at->dv = c->dv.data;
#define SET(BIT, name, array, gradient)                                                                                \
    at->name = array, at->d##name = gradient;                                                                          \
    at->given |= bit_if(array, BO_ATTENTION_GIVEN_##BIT), at->requested |= bit_if(gradient, BO_ATTENTION_GIVEN_##BIT);
#define SET_TOKENS(BIT, name)    SET(BIT, name, c->name.data, c->d##name.data)
#define SET_PARAMETER(BIT, name) SET(BIT, name, c->name, c->d##name)
    BO_ATTENTION_GIVEN_LIST(SET_TOKENS, SET_PARAMETER)
#undef SET_PARAMETER
#undef SET_TOKENS
#undef SET
    /* If these arrays are aligned, gradients must be aligned too (bo_gpu_require_aligned). */
    const void *const aligned[] = {c->q.data, c->k.data, c->v.data, c->out.data};
    for (size_t i = 0; i < sizeof aligned / sizeof *aligned; i++) at->unaligned |= (uintptr_t)aligned[i] % 16 != 0;
}

/* The call without gradients, which forward ignores. */
static bo_strided_call forward_part(const bo_strided_call *c)
{
    bo_strided_call out = *c;
    out.dout = out.dq = out.dk = out.dv = (bo_attention_array){0};
#define LEAVE_OUT_TOKENS(BIT, name)    out.d##name = (bo_attention_array){0};
#define LEAVE_OUT_PARAMETER(BIT, name) out.d##name = NULL;
    BO_ATTENTION_GIVEN_LIST(LEAVE_OUT_TOKENS, LEAVE_OUT_PARAMETER)
#undef LEAVE_OUT_PARAMETER
#undef LEAVE_OUT_TOKENS
    return out;
}

/* Sets everything except the workspace. */
static bo_gpu_attention describe(const bo_context *context, const bo_attention *attention, const bo_strided_call *c)
{
    bo_gpu_attention at = bo_gpu_attention_of(context, attention, c->cross || c->no_keys);
    at.type = c->element;
    at.keeps = c->training;
    at.continues = c->states != NULL;
    set_rows(c, &at);
    set_strides(attention, c, &at);
    set_arrays(c, &at);
    at.saved = c->training ? c->tape : NULL;
    return at;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static bo_status check_address(bo_context *context, const char *name, const void *at)
{
    bool on_device;
    BO_TRY(bo_device_owns(context, at, &on_device));
    if (on_device) return BO_OK;
    return bo_fail(context, BO_INVALID, "attention: %s is not in the memory of %s; use bo_device_allocate", name,
                   bo_device_name(bo_device_of(context)));
}

/* Refuses addresses in host memory or on another GPU, which kernels cannot read. */
static bo_status check_memory(bo_context *context, const bo_strided_call *c)
{
#define NAME_TOKENS(BIT, name)    {#name, c->name.data}, {"d" #name, c->d##name.data},
#define NAME_PARAMETER(BIT, name) {#name, c->name}, {"d" #name, c->d##name},
    const struct {
        const char *name;
        const void *at;
    } arrays[] = {{"q", c->q.data},
                  {"k", c->k.data},
                  {"v", c->v.data},
                  {"out", c->out.data},
                  {"dout", c->dout.data},
                  {"dq", c->dq.data},
                  {"dk", c->dk.data},
                  {"dv", c->dv.data},
                  {"offsets", c->offsets},
                  {"key_offsets", c->key_offsets},
                  {"tape", c->tape},
                  {"workspace", c->workspace},
                  BO_ATTENTION_GIVEN_LIST(NAME_TOKENS, NAME_PARAMETER)};
#undef NAME_PARAMETER
#undef NAME_TOKENS
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        if (arrays[i].at) BO_TRY(check_address(context, arrays[i].name, arrays[i].at));
    for (size_t i = 0; c->states && i < c->sequences; i++) BO_TRY(check_address(context, "a state", c->states[i]));
    return BO_OK;
}

/* ---- work -------------------------------------------------------------------------------------------------------- */

/* The workspace: the addresses of the states, and the memory of the engine. */
static void **carve_states(const bo_strided_call *c, bo_carver *carver)
{
    return bo_carve(carver, c->states ? c->sequences : 0, sizeof(void *));
}

bo_status bo_gpu_arrays_bytes(bo_context *context, const bo_attention *attention, const bo_strided_call *call,
                              bool backward, size_t *tape, size_t *workspace)
{
    const bo_strided_call part = backward ? *call : forward_part(call);
    const bo_gpu_attention at = describe(context, attention, &part);
    bo_carver carver = {0};
    BO_TRY(bo_gpu_attention_check(context, attention, false));
    if (call->no_keys && attention->desc.kind == BO_ATTENTION_HYBRID)
        return bo_fail(context, BO_UNSUPPORTED, "attention: kind hybrid without keys is not supported on GPUs");
    BO_TRY(bo_gpu_attention_prepare(context, attention));
    carve_states(call, &carver);
    bo_carve(&carver, bo_gpu_attention_scratch_bytes(attention, &at, backward), 1);
    *workspace = carver.bytes;
    *tape = call->training ? bo_gpu_attention_saved_bytes(attention, &at) : 0;
    return BO_OK;
}

/* Writes the addresses of the states by kernel launches, because a recorded graph stores launch arguments. */
static bo_status write_states(bo_context *context, const bo_strided_call *c, void **to)
{
    for (size_t first = 0; c->states && first < c->sequences; first += BO_GPU_ADDRESSES) {
        bo_gpu_addresses a = {.count = (int)bo_min(c->sequences - first, BO_GPU_ADDRESSES), .to = to + first};
        for (int i = 0; i < a.count; i++) a.values[i] = c->states[first + (size_t)i];
        BO_TRY(BO_LAUNCH(context, addresses, &a));
    }
    return BO_OK;
}

static bo_status submit(bo_context *context, const bo_attention *attention, const bo_strided_call *call, bool backward)
{
    bo_gpu_attention at = describe(context, attention, call);
    bo_carver carver = {.at = call->workspace};
    void **states = carve_states(call, &carver);
    at.states = call->states ? states : NULL;
    at.scratch = bo_carve(&carver, 0, 1);
    BO_TRY(write_states(context, call, states));
    return backward ? bo_gpu_attention_backward(context, attention, &at)
                    : bo_gpu_attention_forward(context, attention, &at);
}

static bo_status run(bo_context *context, const bo_attention *attention, const bo_strided_call *call, bool backward)
{
    bo_device *device = bo_device_of(context);
    BO_TRY(bo_gpu_attention_check(context, attention, false));
    BO_TRY(check_memory(context, call));
    BO_TRY(bo_gpu_attention_prepare(context, attention));
    BO_TRY(bo_device_enter_stream(context, device, call->stream));
    const bo_status status = submit(context, attention, call, backward);
    bo_device_leave_stream(device);
    return status;
}

bo_status bo_gpu_arrays_forward(bo_context *context, const bo_attention *attention, const bo_strided_call *call)
{
    const bo_strided_call part = forward_part(call);
    return run(context, attention, &part, false);
}

bo_status bo_gpu_arrays_backward(bo_context *context, const bo_attention *attention, const bo_strided_call *call)
{
    return run(context, attention, call, true);
}
