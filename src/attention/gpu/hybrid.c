/* Softmax attention in a window and features for older keys, with one denominator: the engine EXACT computes the window
 * and the engine LINEAR the past, whose keys enter `window` rows later. Backward uses the same engines with the common
 * denominator. */
#include "../kv_cache.h"
#include "linear.h"

static const char *refuses(const bo_attention *attention, const bo_gpu_properties *gpu)
{
    if (attention->desc.normalizer != BO_NORMALIZER_SUM) return "without a denominator";
    return bo_gpu_engine_linear.refuses(attention, gpu);
}

static bo_status prepare(bo_context *context, const bo_attention *attention)
{
    return bo_gpu_engine_linear.prepare(context, attention);
}

/* The call of the window, with outputs that replace those of the call. */
static bo_gpu_attention window_call(const bo_gpu_attention *call, void *out)
{
    bo_gpu_attention window = *call;
    window.out = out, window.strides.out = bo_gpu_tokens_first(call->heads, call->value_dim);
    return window;
}

static bool window_in_tiles(const bo_gpu_attention *call)
{
    const bo_gpu_attention window = window_call(call, NULL);
    return bo_gpu_exact_in_tiles(&window, false);
}

enum { MIX_BLOCKS = 64 };

/* A call and its two parts. */
typedef struct parts {
    bo_gpu_hybrid hybrid;
    bo_gpu_linear_part past;
} parts;

/* Memory that forward saves for backward. */
static void carve_saved(const bo_gpu_attention *c, bo_gpu_hybrid *h, bo_carver *carver)
{
    const size_t rows = c->queries.rows * (size_t)c->heads;
    h->exact.top = bo_carve_floats(carver, rows);
    h->exact.sum = bo_carve_floats(carver, rows);
    h->near = bo_carve(carver, rows * (size_t)c->value_dim, bo_gpu_bytes(c->type));
    h->shares = bo_carve_floats(carver, rows);
}

/* Memory that both directions use. */
static void carve_leaving(const bo_gpu_attention *c, bo_gpu_hybrid *h, bo_carver *carver)
{
    const size_t rows = c->keys.rows * (size_t)c->key_heads, bytes = bo_gpu_bytes(c->type);
    h->k = bo_carve(carver, rows * (size_t)c->dim, bytes);
    h->v = bo_carve(carver, rows * (size_t)c->value_dim, bytes);
    h->entries = bo_carve_floats(carver, rows);
}

static bo_gpu_hybrid begin(const bo_attention *attention, const bo_gpu_attention *call)
{
    const bo_attention_desc *d = &attention->desc;
    return (bo_gpu_hybrid){
        .exact = {.at = *call, .window = (int)d->window, .capacity = (int)attention->cached_keys, .panel = BO_PANEL},
        .gated = d->gate != BO_GATE_NONE,
        .convex = d->gate == BO_GATE_CONVEX,
        .stores_gates = attention->cached_gates > 0,
        .gates_at = bo_kv_cache_bytes(attention->cached_keys, d->dim, d->value_dim),
        .log2 = window_in_tiles(call),
        .clamp = (float)d->clamp,
        .mix_blocks = MIX_BLOCKS};
}

/* The call of the past, with the keys that leave the window. */
static bo_gpu_attention past_call(const bo_gpu_attention *call, const bo_gpu_hybrid *h)
{
    bo_gpu_attention out = *call;
    out.k = h->k, out.strides.k = bo_gpu_tokens_first(call->key_heads, call->dim);
    out.v = h->v, out.strides.v = bo_gpu_tokens_first(call->key_heads, call->value_dim);
    return out;
}

static bo_gpu_linear_part past_part(const bo_attention *attention, const bo_gpu_attention *past, const bo_gpu_hybrid *h,
                                    bool backward, bo_carver *kept, bo_carver *scratch)
{
    bo_gpu_linear_part out = bo_gpu_linear_make(attention, past, backward, kept, scratch);
    out.attention.steps = false;
    out.attention.entries = h->entries;
    out.attention.delay = h->exact.window;
    return out;
}

static parts forward_parts(const bo_attention *attention, const bo_gpu_attention *call, bo_carver *kept,
                           bo_carver *scratch)
{
    parts p = {.hybrid = begin(attention, call)};
    const size_t rows = call->queries.rows * (size_t)call->heads;
    carve_saved(call, &p.hybrid, kept);
    carve_leaving(call, &p.hybrid, scratch);
    const bo_gpu_attention past = past_call(call, &p.hybrid);
    p.past = past_part(attention, &past, &p.hybrid, false, kept, scratch);
    p.hybrid.numerators = p.past.attention.numerators = bo_carve_floats(scratch, rows * (size_t)call->value_dim);
    p.hybrid.tops = p.past.attention.tops = bo_carve_floats(scratch, rows);
    p.hybrid.norms = p.past.attention.norms;
    if (!call->keeps || !call->mix) p.hybrid.shares = NULL;
    return p;
}

static parts backward_parts(const bo_attention *attention, const bo_gpu_attention *call, bo_carver *kept,
                            bo_carver *scratch)
{
    parts p = {.hybrid = begin(attention, call)};
    const size_t bytes = bo_gpu_bytes(call->type), rows = call->queries.rows * (size_t)call->heads,
                 keys = call->keys.rows * (size_t)call->key_heads;
    carve_saved(call, &p.hybrid, kept);
    carve_leaving(call, &p.hybrid, scratch);
    bo_gpu_attention past = past_call(call, &p.hybrid);
    past.strides.dq = bo_gpu_tokens_first(call->heads, call->dim);
    past.strides.dk = past.strides.k, past.strides.dv = past.strides.v;
    if (bo_gpu_requested(call, BO_GPU_ARRAY_Q)) past.dq = bo_carve(scratch, rows * (size_t)call->dim, bytes);
    if (bo_gpu_requested(call, BO_GPU_ARRAY_K)) past.dk = bo_carve(scratch, keys * (size_t)call->dim, bytes);
    if (bo_gpu_requested(call, BO_GPU_ARRAY_V)) past.dv = bo_carve(scratch, keys * (size_t)call->value_dim, bytes);
    p.hybrid.dq = past.dq, p.hybrid.dk = past.dk, p.hybrid.dv = past.dv;
    p.past = past_part(attention, &past, &p.hybrid, true, kept, scratch);
    p.hybrid.norms = p.past.attention.norms;
    p.hybrid.out = bo_carve(scratch, rows * (size_t)call->value_dim, bytes);
    p.hybrid.exact.delta = bo_carve_floats(scratch, rows);
    p.hybrid.mix_parts = bo_carve_floats(scratch, (size_t)MIX_BLOCKS * (size_t)call->heads);
    if (!bo_gpu_requested(call, BO_ATTENTION_GIVEN_MIX)) p.hybrid.shares = NULL;
    return p;
}

static size_t count_saved(const bo_attention *attention, const bo_gpu_attention *call)
{
    bo_carver kept = {0}, scratch = {0};
    forward_parts(attention, call, &kept, &scratch);
    return kept.bytes;
}

static size_t saved(const bo_attention *attention, const bo_gpu_attention *call)
{
    const bo_gpu_attention with_states = bo_gpu_with_states(call);
    return bo_max(count_saved(attention, call), count_saved(attention, &with_states));
}

static size_t count_scratch(const bo_attention *attention, const bo_gpu_attention *call, bool backward)
{
    bo_carver kept = {0}, scratch = {0};
    (backward ? backward_parts : forward_parts)(attention, call, &kept, &scratch);
    return scratch.bytes + (backward || call->keeps ? 0 : kept.bytes);
}

static size_t scratch_bytes(const bo_attention *attention, const bo_gpu_attention *call, bool backward)
{
    const bo_gpu_attention with_states = bo_gpu_with_states(call);
    return bo_max(count_scratch(attention, call, backward), count_scratch(attention, &with_states, backward));
}

static bo_status window_forward(bo_context *context, const parts *p)
{
    bo_gpu_exact window = p->hybrid.exact;
    window.at = window_call(&window.at, p->hybrid.near);
    if (p->hybrid.log2) BO_TRY(bo_gpu_require_aligned(context, &window.at));
    return BO_LAUNCH(context, exact_forward, &window);
}

static bo_status update_states(bo_context *context, const parts *p)
{
    if (!p->hybrid.exact.at.states) return BO_OK;
    BO_TRY(BO_LAUNCH(context, exact_append, &p->hybrid.exact));
    return p->hybrid.stores_gates ? BO_LAUNCH(context, hybrid_keep, &p->hybrid) : BO_OK;
}

static bo_status forward(bo_context *context, const bo_attention *attention, const bo_gpu_attention *call)
{
    if (!bo_gpu_has(call, BO_GPU_ARRAY_K))
        return bo_fail(context, BO_UNSUPPORTED, "attention: kind hybrid without keys is not supported on GPUs");
    bo_carver kept = {.at = call->saved}, scratch = {.at = call->scratch};
    if (!call->keeps) { /* without backward, the saved part precedes the scratch memory */
        bo_carver counted = {0}, ignored = {0};
        forward_parts(attention, call, &counted, &ignored);
        kept.at = call->scratch, scratch.at = (char *)call->scratch + counted.bytes;
    }
    parts p = forward_parts(attention, call, &kept, &scratch);
    BO_TRY(BO_LAUNCH(context, hybrid_leave, &p.hybrid));
    BO_TRY(window_forward(context, &p));
    BO_TRY(bo_gpu_linear_forward(context, attention, &p.past));
    BO_TRY(BO_LAUNCH(context, hybrid_merge, &p.hybrid));
    return update_states(context, &p);
}

static bo_status window_backward(bo_context *context, const parts *p)
{
    bo_gpu_exact window = p->hybrid.exact;
    window.at = window_call(&window.at, p->hybrid.out);
    if (p->hybrid.log2) BO_TRY(bo_gpu_require_aligned(context, &window.at));
    return BO_LAUNCH(context, exact_backward, &window);
}

static bo_status backward(bo_context *context, const bo_attention *attention, const bo_gpu_attention *call)
{
    bo_carver kept = {.at = call->saved}, scratch = {.at = call->scratch};
    parts p = backward_parts(attention, call, &kept, &scratch);
    BO_TRY(BO_LAUNCH(context, hybrid_leave, &p.hybrid));
    BO_TRY(BO_LAUNCH(context, hybrid_split, &p.hybrid));
    BO_TRY(window_backward(context, &p));
    BO_TRY(bo_gpu_linear_backward(context, attention, &p.past));
    return call->dq || call->dk || call->dv ? BO_LAUNCH(context, hybrid_return, &p.hybrid) : BO_OK;
}

const bo_gpu_engine bo_gpu_engine_hybrid = {
    .refuses = refuses,
    .saved = saved,
    .scratch = scratch_bytes,
    .prepare = prepare,
    .forward = forward,
    .backward = backward,
};
