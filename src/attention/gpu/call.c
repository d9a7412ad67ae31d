/* Calls of attention on a GPU: call.h. */
#include "../enums.h"
#include "call.h"
#include <string.h>
#include "engine.h"

/* By kind; NULL: no kernels. */
static const bo_gpu_engine *const engines[BO_ATTENTION_COUNT] = {
    [BO_ATTENTION_SOFTMAX] = &bo_gpu_engine_exact, [BO_ATTENTION_LINEAR] = &bo_gpu_engine_linear,
    [BO_ATTENTION_RFA] = &bo_gpu_engine_linear,    [BO_ATTENTION_FAVOR] = &bo_gpu_engine_linear,
    [BO_ATTENTION_DARK] = &bo_gpu_engine_linear,   [BO_ATTENTION_LEARNED] = &bo_gpu_engine_linear,
    [BO_ATTENTION_HYBRID] = &bo_gpu_engine_hybrid, [BO_ATTENTION_POWER] = &bo_gpu_engine_exact,
    [BO_ATTENTION_GLA] = &bo_gpu_engine_memory,    [BO_ATTENTION_DELTA] = &bo_gpu_engine_memory,
};

static const bo_gpu_engine *engine_of(const bo_attention *attention)
{
    return engines[attention->desc.kind];
}

bool bo_gpu_attention_exists(const bo_context *context, const bo_attention *attention)
{
    const bo_gpu_engine *engine = engine_of(attention);
    const bo_gpu_properties *gpu = bo_device_properties(bo_device_of(context));
    return engine && !(engine->refuses && engine->refuses(attention, gpu));
}

bo_status bo_gpu_attention_check(bo_context *context, const bo_attention *attention, bool reads_first)
{
    const char *kind = bo_attention_kind_name(attention->desc.kind);
    const bo_gpu_engine *engine = engine_of(attention);
    if (!engine) return bo_fail(context, BO_UNSUPPORTED, "attention: kind %s is not supported on GPUs", kind);
    const bo_gpu_properties *gpu = bo_device_properties(bo_device_of(context));
    const char *why = engine->refuses ? engine->refuses(attention, gpu) : NULL;
    if (why) return bo_fail(context, BO_UNSUPPORTED, "attention: kind %s is not supported on GPUs %s", kind, why);
    if (reads_first && !engine->reads_first)
        return bo_fail(context, BO_UNSUPPORTED,
                       "attention: cross attention of kind %s with a causal mask is not supported on GPUs", kind);
    return BO_OK;
}

static bo_gpu_attention_strides tokens_first(const bo_attention_desc *d)
{
    const int heads = (int)d->heads, key_heads = (int)d->key_heads, dim = (int)d->dim, value_dim = (int)d->value_dim;
    const int gates = (int)bo_max(1, bo_gate_width(d)); /* numbers per key head */
    bo_gpu_attention_strides by = {.q = bo_gpu_tokens_first(heads, dim),
                                   .k = bo_gpu_tokens_first(key_heads, dim),
                                   .v = bo_gpu_tokens_first(key_heads, value_dim),
                                   .out = bo_gpu_tokens_first(heads, value_dim),
                                   .log_gate = bo_gpu_tokens_first(key_heads, gates),
                                   .beta = bo_gpu_tokens_first(key_heads, 1)};
    by.dq = by.q, by.dk = by.k, by.dv = by.v, by.dout = by.out, by.dlog_gate = by.log_gate, by.dbeta = by.beta;
    return by;
}

bo_gpu_attention bo_gpu_attention_of(const bo_context *context, const bo_attention *attention, bool cross)
{
    const bo_attention_desc *d = &attention->desc;
    const bo_gpu_properties *gpu = bo_device_properties(bo_device_of(context));
    return (bo_gpu_attention){.heads = (int)d->heads,
                              .key_heads = (int)d->key_heads,
                              .dim = (int)d->dim,
                              .value_dim = (int)d->value_dim,
                              .causal = d->causal && !cross,
                              .cross = cross,
                              .scale = (float)d->scale,
                              .strides = tokens_first(d),
                              .processors = gpu->processors,
                              .shared_bytes = gpu->shared_bytes,
                              .sums_bytes = attention->sums_bytes,
                              .kept_bytes = attention->kept_bytes};
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* The default of gate FIXED is written before the memory of the engine. */
static size_t decay_floats(const bo_attention *attention, const bo_gpu_attention *call)
{
    const bool fixed = attention->desc.gate == BO_GATE_FIXED && !bo_gpu_has(call, BO_ATTENTION_GIVEN_LOG_DECAY);
    return fixed ? bo_padded(attention->desc.key_heads) : 0;
}

size_t bo_gpu_attention_saved_bytes(const bo_attention *attention, const bo_gpu_attention *call)
{
    const bo_gpu_engine *engine = engine_of(attention);
    return engine->saved ? engine->saved(attention, call) : 0;
}

size_t bo_gpu_attention_scratch_bytes(const bo_attention *attention, const bo_gpu_attention *call, bool backward)
{
    const bo_gpu_engine *engine = engine_of(attention);
    const size_t decay = decay_floats(attention, call) * sizeof(float);
    return decay + (engine->scratch ? engine->scratch(attention, call, backward) : 0);
}

bo_status bo_gpu_attention_prepare(bo_context *context, const bo_attention *attention)
{
    const bo_gpu_engine *engine = engine_of(attention);
    return engine->prepare ? engine->prepare(context, attention) : BO_OK;
}

/* ---- arrays ------------------------------------------------------------------------------------------------------ */

/* An array that the call has, and its strides. */
typedef struct call_array {
    const char *name;
    const void *at;
    bo_gpu_strides by;
    bool keys;   /* its rows are those of keys */
    bool pieces; /* kernels for tensor cores copy it 16 bytes at a time */
} call_array;

enum { CALL_ARRAYS = 12 };

static void list_arrays(const bo_gpu_attention *c, call_array (*out)[CALL_ARRAYS])
{
    const bo_gpu_attention_strides *by = &c->strides;
    const call_array all[CALL_ARRAYS] = {{"q", c->q, by->q, false, true},
                                         {"k", c->k, by->k, true, true},
                                         {"v", c->v, by->v, true, true},
                                         {"the output", c->out, by->out, false, true},
                                         {"the log gates", c->log_gate, by->log_gate, true, false},
                                         {"beta", c->beta, by->beta, true, false},
                                         {"the gradient of the output", c->dout, by->dout, false, true},
                                         {"the gradient of q", c->dq, by->dq, false, true},
                                         {"the gradient of k", c->dk, by->dk, true, true},
                                         {"the gradient of v", c->dv, by->dv, true, true},
                                         {"the gradient of the log gates", c->dlog_gate, by->dlog_gate, true, false},
                                         {"the gradient of beta", c->dbeta, by->dbeta, true, false}};
    memcpy(*out, all, sizeof all);
}

bo_status bo_gpu_require_aligned(bo_context *context, const bo_gpu_attention *call)
{
    call_array arrays[CALL_ARRAYS];
    list_arrays(call, &arrays);
    for (size_t i = 0; i < CALL_ARRAYS; i++) {
        const call_array *array = &arrays[i];
        if (!array->at || !array->pieces) continue;
        if ((uintptr_t)array->at % 16)
            return bo_fail(context, BO_INVALID,
                           "attention: the address of %s must be a multiple of 16 bytes like q, k, v and the "
                           "output, found %zu more",
                           array->name, (size_t)((uintptr_t)array->at % 16));
        if (!bo_gpu_by_eight(array->by))
            return bo_fail(context, BO_INVALID,
                           "attention: the strides of %s must be multiples of 8 numbers like q, k, v and the "
                           "output, found %zu between rows, %zu between heads, %td between sequences",
                           array->name, array->by.row, array->by.head, array->by.sequence);
    }
    return BO_OK;
}

/* Sequences of different lengths have no sequence stride. */
static bo_status check_strides(bo_context *context, const bo_gpu_attention *call)
{
    call_array arrays[CALL_ARRAYS];
    list_arrays(call, &arrays);
    for (size_t i = 0; i < CALL_ARRAYS; i++)
        if (arrays[i].at && arrays[i].by.sequence && (arrays[i].keys ? &call->keys : &call->queries)->starts)
            return bo_fail(context, BO_INVALID,
                           "attention: %s has heads before tokens, which requires sequences of equal lengths",
                           arrays[i].name);
    return BO_OK;
}

/* Writes the default decays, and returns the call of the engine. */
static bo_status enter(bo_context *context, const bo_attention *attention, const bo_gpu_attention *call,
                       bo_gpu_attention *out)
{
    const size_t floats = decay_floats(attention, call), heads = attention->desc.key_heads;
    if (!attention->ready) return bo_fail(context, BO_INVALID, "attention: it must be calibrated before it is used");
    BO_TRY(check_strides(context, call));
    *out = *call;
    if (floats) out->log_decay = call->scratch, out->scratch = (float *)call->scratch + floats;
    for (size_t first = 0; floats && first < heads; first += BO_GPU_CONSTANTS) {
        const size_t count = bo_min(heads - first, BO_GPU_CONSTANTS);
        bo_gpu_constants c = {.count = (int)count, .to = (float *)call->scratch + first};
        memcpy(c.values, attention->decay + first, count * sizeof *c.values);
        BO_TRY(BO_LAUNCH(context, constants, &c));
    }
    return BO_OK;
}

/* ---- both directions --------------------------------------------------------------------------------------------- */

static bo_gpu_states headers_of(const bo_attention *attention, const bo_gpu_attention *call)
{
    return (bo_gpu_states){.states = call->states,
                           .keys = call->keys,
                           .header = bo_state_header_of(attention),
                           .key_heads = call->key_heads,
                           .sums_bytes = call->sums_bytes,
                           .kept_bytes = call->kept_bytes,
                           .scaled = attention->scaled};
}

bo_status bo_gpu_attention_forward(bo_context *context, const bo_attention *attention, const bo_gpu_attention *call)
{
    bo_gpu_attention prepared;
    const bool reads = bo_gpu_has(call, BO_GPU_ARRAY_K);
    BO_TRY(enter(context, attention, call, &prepared));
    if (!call->states) return engine_of(attention)->forward(context, attention, &prepared);
    const bo_gpu_states headers = headers_of(attention, call);
    if (call->cross && reads) BO_TRY(BO_LAUNCH(context, states_clear, &headers));
    BO_TRY(engine_of(attention)->forward(context, attention, &prepared));
    return reads ? BO_LAUNCH(context, states_count, &headers) : BO_OK;
}

bo_status bo_gpu_attention_backward(bo_context *context, const bo_attention *attention, const bo_gpu_attention *call)
{
    bo_gpu_attention prepared;
    BO_TRY(enter(context, attention, call, &prepared));
    return engine_of(attention)->backward(context, attention, &prepared);
}
