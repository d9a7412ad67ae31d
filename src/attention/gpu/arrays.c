/* Calls on arrays of a caller in memory of the GPU: arrays.h. */
#include "arrays.h"
#include "../arrays.h"
#include "call.h"
#include "engine.h"

/* ---- description ------------------------------------------------------------------------------------------------- */

static bo_gpu_strides strides_of(const bo_attention_array *array, const bo_gpu_rows *rows, int heads, size_t width)
{
    const size_t tokens = (size_t)rows->tokens;
    const bo_attention_array by = bo_attention_array_strides(array, tokens, (size_t)heads, width);
    bo_gpu_strides out = {.row = by.token, .head = by.head};
    if (!rows->starts) out.sequence = (ptrdiff_t)by.sequence - (ptrdiff_t)(tokens * by.token);
    return out;
}

static void set_rows(const bo_attention_call *c, bo_gpu_attention *at)
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

static void set_strides(const bo_attention *attention, const bo_attention_call *c, bo_gpu_attention *at)
{
    const size_t dim = attention->desc.dim, values = attention->desc.value_dim,
                 gate = bo_max(bo_gate_width(&attention->desc), 1);
    const int heads = at->heads, key_heads = at->key_heads;
    at->strides = (bo_gpu_attention_strides){
        .q = strides_of(&c->q, &at->queries, heads, dim),
        .k = strides_of(&c->k, &at->keys, key_heads, dim),
        .v = strides_of(&c->v, &at->keys, key_heads, values),
        .out = strides_of(&c->out, &at->queries, heads, values),
        .log_gate = strides_of(&c->log_gate, &at->keys, key_heads, gate),
        .beta = strides_of(&c->beta, &at->keys, key_heads, 1),
        .dout = strides_of(&c->dout, &at->queries, heads, values),
        .dq = strides_of(&c->dq, &at->queries, heads, dim),
        .dk = strides_of(&c->dk, &at->keys, key_heads, dim),
        .dv = strides_of(&c->dv, &at->keys, key_heads, values),
        .dlog_gate = strides_of(&c->dlog_gate, &at->keys, key_heads, gate),
        .dbeta = strides_of(&c->dbeta, &at->keys, key_heads, 1),
    };
}

/* The array bits whose pointer is not NULL. */
static unsigned bits_of(size_t count, const void *const *pointers, const unsigned *bits)
{
    unsigned out = 0;
    for (size_t i = 0; i < count; i++) out |= pointers[i] ? bits[i] : 0;
    return out;
}

static void set_arrays(const bo_attention_call *c, bo_gpu_attention *at)
{
    static const unsigned bits[] = {BO_GPU_ARRAY_Q,
                                    BO_GPU_ARRAY_K,
                                    BO_GPU_ARRAY_V,
                                    BO_ATTENTION_GIVEN_LOG_GATE,
                                    BO_ATTENTION_GIVEN_BETA,
                                    BO_ATTENTION_GIVEN_SIGMA,
                                    BO_ATTENTION_GIVEN_M,
                                    BO_ATTENTION_GIVEN_MIX,
                                    BO_ATTENTION_GIVEN_LOG_DECAY,
                                    BO_ATTENTION_GIVEN_LAMBDA,
                                    BO_ATTENTION_GIVEN_M_K,
                                    BO_ATTENTION_GIVEN_BIAS,
                                    BO_ATTENTION_GIVEN_BIAS_K};
    enum { COUNT = sizeof bits / sizeof *bits };
    const void *const given[COUNT] = {c->q.data, c->k.data, c->v.data, c->log_gate.data, c->beta.data,
                                      c->sigma,  c->m,      c->mix,    c->log_decay,     c->lambda,
                                      c->m_k,    c->bias,   c->bias_k};
    const void *const wanted[COUNT] = {c->dq.data, c->dk.data, c->dv.data, c->dlog_gate.data, c->dbeta.data,
                                       c->dsigma,  c->dm,      c->dmix,    c->dlog_decay,     c->dlambda,
                                       c->dm_k,    c->dbias,   c->dbias_k};
    at->given = bits_of(COUNT, given, bits);
    at->wanted = bits_of(COUNT, wanted, bits);
    at->q = c->q.data, at->k = c->k.data, at->v = c->v.data, at->out = c->out.data;
    at->log_gate = c->log_gate.data, at->beta = c->beta.data;
    at->sigma = c->sigma, at->m = c->m, at->mix = c->mix, at->log_decay = c->log_decay, at->lambda = c->lambda;
    at->m_k = c->m_k, at->bias = c->bias, at->bias_k = c->bias_k;
    at->dout = c->dout.data, at->dq = c->dq.data, at->dk = c->dk.data, at->dv = c->dv.data;
    at->dlog_gate = c->dlog_gate.data, at->dbeta = c->dbeta.data;
    at->dsigma = c->dsigma, at->dm = c->dm, at->dmix = c->dmix, at->dlog_decay = c->dlog_decay;
    at->dlambda = c->dlambda, at->dm_k = c->dm_k, at->dbias = c->dbias, at->dbias_k = c->dbias_k;
    /* Gradients must be aligned if these are (bo_gpu_require_aligned). */
    const void *const aligned[] = {c->q.data, c->k.data, c->v.data, c->out.data};
    for (size_t i = 0; i < sizeof aligned / sizeof *aligned; i++) at->unaligned |= (uintptr_t)aligned[i] % 16 != 0;
}

/* Without the gradients, which forward ignores. */
static bo_attention_call forward_part(const bo_attention_call *c)
{
    bo_attention_call out = *c;
    out.dout = out.dq = out.dk = out.dv = out.dlog_gate = out.dbeta = (bo_attention_array){0};
    out.dsigma = out.dm = out.dmix = out.dlog_decay = out.dlambda = out.dm_k = out.dbias = out.dbias_k = NULL;
    return out;
}

/* Sets all but the workspace. */
static bo_gpu_attention describe(const bo_context *context, const bo_attention *attention, const bo_attention_call *c)
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

/* ---- memory ---------------------------------------------------------------------------------------------------- */

static bo_status check_address(bo_context *context, const char *name, const void *at)
{
    bool held;
    BO_TRY(bo_device_holds(context, at, &held));
    if (held) return BO_OK;
    return bo_fail(context, BO_INVALID, "attention: %s is not in the memory of %s; use bo_device_allocate", name,
                   bo_device_name(bo_device_of(context)));
}

/* Refuses addresses of the host and of another GPU, which kernels cannot read. */
static bo_status check_memory(bo_context *context, const bo_attention_call *c)
{
    const struct {
        const char *name;
        const void *at;
    } arrays[] = {{"q", c->q.data},
                  {"k", c->k.data},
                  {"v", c->v.data},
                  {"out", c->out.data},
                  {"log_gate", c->log_gate.data},
                  {"beta", c->beta.data},
                  {"dout", c->dout.data},
                  {"dq", c->dq.data},
                  {"dk", c->dk.data},
                  {"dv", c->dv.data},
                  {"dlog_gate", c->dlog_gate.data},
                  {"dbeta", c->dbeta.data},
                  {"offsets", c->offsets},
                  {"key_offsets", c->key_offsets},
                  {"tape", c->tape},
                  {"workspace", c->workspace},
                  {"sigma", c->sigma},
                  {"m", c->m},
                  {"mix", c->mix},
                  {"log_decay", c->log_decay},
                  {"lambda", c->lambda},
                  {"m_k", c->m_k},
                  {"bias", c->bias},
                  {"bias_k", c->bias_k},
                  {"dsigma", c->dsigma},
                  {"dm", c->dm},
                  {"dmix", c->dmix},
                  {"dlog_decay", c->dlog_decay},
                  {"dlambda", c->dlambda},
                  {"dm_k", c->dm_k},
                  {"dbias", c->dbias},
                  {"dbias_k", c->dbias_k}};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        if (arrays[i].at) BO_TRY(check_address(context, arrays[i].name, arrays[i].at));
    for (size_t i = 0; c->states && i < c->sequences; i++) BO_TRY(check_address(context, "a state", c->states[i]));
    return BO_OK;
}

/* ---- work -------------------------------------------------------------------------------------------------------- */

/* The workspace: the addresses of the states, and the memory of the engine. */
static void **carve_states(const bo_attention_call *c, bo_carver *carver)
{
    return bo_carve(carver, c->states ? c->sequences : 0, sizeof(void *));
}

bo_status bo_gpu_arrays_bytes(bo_context *context, const bo_attention *attention, const bo_attention_call *call,
                              bool backward, size_t *tape, size_t *workspace)
{
    const bo_attention_call part = backward ? *call : forward_part(call);
    const bo_gpu_attention at = describe(context, attention, &part);
    bo_carver carver = {0};
    BO_TRY(bo_gpu_attention_check(context, attention, false));
    BO_TRY(bo_gpu_attention_prepare(context, attention));
    carve_states(call, &carver);
    bo_carve(&carver, bo_gpu_attention_scratch_bytes(attention, &at, backward), 1);
    *workspace = carver.bytes;
    *tape = call->training ? bo_gpu_attention_saved_bytes(attention, &at) : 0;
    return BO_OK;
}

/* Writes the addresses of the states by launches, whose arguments a recording keeps. */
static bo_status write_states(bo_context *context, const bo_attention_call *c, void **to)
{
    for (size_t first = 0; c->states && first < c->sequences; first += BO_GPU_ADDRESSES) {
        bo_gpu_addresses a = {.count = (int)bo_min(c->sequences - first, BO_GPU_ADDRESSES), .to = to + first};
        for (int i = 0; i < a.count; i++) a.values[i] = c->states[first + (size_t)i];
        BO_TRY(BO_LAUNCH(context, addresses, &a));
    }
    return BO_OK;
}

static bo_status submit(bo_context *context, const bo_attention *attention, const bo_attention_call *call,
                        bool backward)
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

static bo_status run(bo_context *context, const bo_attention *attention, const bo_attention_call *call, bool backward)
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

bo_status bo_gpu_arrays_forward(bo_context *context, const bo_attention *attention, const bo_attention_call *call)
{
    const bo_attention_call part = forward_part(call);
    return run(context, attention, &part, false);
}

bo_status bo_gpu_arrays_backward(bo_context *context, const bo_attention *attention, const bo_attention_call *call)
{
    return run(context, attention, call, true);
}
