/* The keys of one (sequence, key head): from the initial state and from the call, into the final state, and gradients
 * of all of them. */
#include "softmax.h"
#include <string.h>

static size_t panels_up(size_t slots)
{
    return (slots + BO_PANEL - 1) / BO_PANEL * BO_PANEL;
}

/* With a window, `span` queries see no more than the window before their last. */
bo_kv_cache bo_softmax_carve_keys(const bo_attention *attention, size_t longest, size_t span, bo_carver *carver)
{
    const bo_attention_desc *desc = &attention->desc;
    size_t ring = panels_up(longest ? longest : 1), seen = panels_up(desc->window + span);
    if (desc->window && seen < ring) ring = seen;
    void *bytes = bo_carve(carver, bo_kv_cache_bytes(ring, desc->dim, desc->value_dim), 1);
    return bytes ? bo_kv_cache_at(bytes, ring, desc->dim, desc->value_dim) : (bo_kv_cache){.ring = ring};
}

bo_softmax_keys bo_softmax_keys_of(const bo_call *call, size_t sequence, size_t key_head, bo_kv_cache fresh)
{
    const bo_attention_desc *desc = &call->attention->desc;
    bo_softmax_keys keys = {.call = call, .sequence = sequence, .key_head = key_head, .fresh = fresh};
    if (call->initial) {
        const void *state = call->initial[sequence];
        keys.old = (size_t)((const bo_state_header *)state)->tokens;
        keys.kept = bo_kv_cache_in(call->attention, state, key_head);
    }
    if (!call->shape->no_keys) {
        keys.count = call->sequences[sequence].keys;
        keys.k = bo_rows_at(call, call->in->k, desc->key_heads, desc->dim, true, sequence, key_head);
        keys.v = bo_rows_at(call, call->in->v, desc->key_heads, desc->value_dim, true, sequence, key_head);
    }
    return keys;
}

bool bo_softmax_load(bo_softmax_keys *keys, size_t end)
{
    const bo_kernels *kernels = keys->call->kernels;
    if (end > keys->count) end = keys->count;
    if (keys->loaded >= end) return true;
    size_t first = keys->loaded, count = end - first;
    bo_rows k = bo_rows_from(keys->k, first), v = bo_rows_from(keys->v, first);
    bo_kv_cache_append(kernels, &keys->fresh, keys->old + first, count, k, v);
    keys->loaded = end;
    return bo_rows_finite(kernels, count, keys->fresh.dim, k.at, k.stride) &&
           bo_rows_finite(kernels, count, keys->fresh.value_dim, v.at, v.stride);
}

static size_t oldest(const bo_softmax_keys *keys, size_t tokens)
{
    return bo_kv_cache_first(tokens, keys->call->attention->held);
}

void bo_softmax_add_keys(const bo_softmax_tile *tile, const bo_softmax_keys *keys)
{
    if (keys->old) bo_softmax_add(tile, &keys->kept, oldest(keys, keys->old), keys->old);
    bo_softmax_add(tile, &keys->fresh, keys->old, keys->old + keys->loaded);
}

void bo_softmax_keep(const bo_softmax_keys *keys)
{
    const bo_call *call = keys->call;
    if (!call->final) return;
    bo_kv_cache final = bo_kv_cache_in(call->attention, call->final[keys->sequence], keys->key_head);
    bo_kv_cache_append(call->kernels, &final, keys->old, keys->count, keys->k, keys->v);
}

/* ---- gradients ------------------------------------------------------------------------------------------------- */

/* Where the gradients of keys and of values go: of the call's own, or of those in the initial state. */
typedef struct slopes {
    bo_rows k, v;
} slopes;

static slopes own_slopes(const bo_softmax_keys *keys)
{
    const bo_call *call = keys->call;
    const bo_attention_desc *desc = &call->attention->desc;
    size_t heads = desc->key_heads, sequence = keys->sequence, head = keys->key_head;
    return (slopes){bo_rows_at(call, call->gradients->k, heads, desc->dim, true, sequence, head),
                    bo_rows_at(call, call->gradients->v, heads, desc->value_dim, true, sequence, head)};
}

/* Rows of a state's gradient, oldest first. */
static slopes state_slopes(const bo_softmax_keys *keys, const float *gradient)
{
    if (!gradient) return (slopes){{NULL, 0}, {NULL, 0}};
    const bo_attention_desc *desc = &keys->call->attention->desc;
    float *rows = bo_kv_cache_gradient(keys->call->attention, gradient, keys->key_head);
    size_t stride = desc->dim + desc->value_dim;
    return (slopes){{rows, stride}, {rows + desc->dim, stride}};
}

static slopes initial_slopes(const bo_softmax_keys *keys)
{
    float *const *initial = keys->call->gradients->initial;
    return state_slopes(keys, initial ? initial[keys->sequence] : NULL);
}

/* to (rows first … end - 1) = from (the rows that follow `from`'s first), or 0 where from is NULL */
static void set_rows(bo_rows to, size_t first, size_t end, size_t width, bo_rows from)
{
    if (!to.at) return;
    for (size_t i = first; i < end; i++) {
        float *row = to.at + i * to.stride;
        if (from.at)
            memcpy(row, from.at + (i - first) * from.stride, width * sizeof *row);
        else
            memset(row, 0, width * sizeof *row);
    }
}

static void set_slopes(const bo_softmax_keys *keys, slopes to, size_t first, size_t end, slopes from)
{
    set_rows(to.k, first, end, keys->call->attention->desc.dim, from.k);
    set_rows(to.v, first, end, keys->call->attention->desc.value_dim, from.v);
}

void bo_softmax_begin_slopes(const bo_softmax_keys *keys)
{
    const bo_call *call = keys->call;
    const slopes none = {{NULL, 0}, {NULL, 0}};
    slopes own = own_slopes(keys), initial = initial_slopes(keys);
    set_slopes(keys, own, 0, keys->count, none);
    set_slopes(keys, initial, 0, call->attention->held, none);
    if (!call->d_final || !call->d_final[keys->sequence]) return;

    slopes final = state_slopes(keys, call->d_final[keys->sequence]);
    size_t tokens = keys->old + keys->count, first = oldest(keys, tokens), before = oldest(keys, keys->old);
    size_t from_old =
        first < keys->old ? keys->old - first : 0; /* rows of the final state that were in the initial one */
    if (from_old) set_slopes(keys, initial, first - before, first - before + from_old, final);
    slopes rest = {bo_rows_from(final.k, from_old), bo_rows_from(final.v, from_old)};
    set_slopes(keys, own, first + from_old - keys->old, keys->count, rest);
}

void bo_softmax_add_keys_slope(const bo_softmax_tile *tile, const bo_softmax_slope *slope, const bo_softmax_keys *keys)
{
    slopes own = own_slopes(keys), initial = initial_slopes(keys);
    if (keys->old) {
        bo_softmax_add_slope(tile, slope, &keys->kept, oldest(keys, keys->old), keys->old, initial.k, initial.v);
    }
    bo_softmax_add_slope(tile, slope, &keys->fresh, keys->old, keys->old + keys->loaded, own.k, own.v);
}
