/* What comes from elsewhere: maps out of a model's file, states of another capacity. */
#include <string.h>
#include "../features/propose.h"
#include "internal.h"
#include "kv_cache.h"

/* ---- maps --------------------------------------------------------------------------------------------------------- */

/* Everything but the draw: what attention has been made for. */
static bo_status check_map(bo_context *context, const bo_features *has, const bo_features *given, size_t head)
{
    const bo_features_desc *a = bo_features_describe(has), *b = bo_features_describe(given);
    const struct {
        const char *name;
        double expected, found;
    } numbers[] = {{"dim", (double)a->dim, (double)b->dim}, {"features", (double)a->features, (double)b->features},
                   {"gamma", a->gamma, b->gamma},           {"alpha", a->alpha, b->alpha},
                   {"degree", a->degree, b->degree},        {"pair_norm", a->pair_norm, b->pair_norm}};
    if (a->kernel != b->kernel || a->function != b->function || a->draw != b->draw)
        return bo_fail(context, BO_FORMAT,
                       "the map of key head %zu is of kernel %s, function %s, draw %s; expected %s, %s, %s", head,
                       bo_kernel_name(b->kernel), bo_function_name(b->function), bo_draw_name(b->draw),
                       bo_kernel_name(a->kernel), bo_function_name(a->function), bo_draw_name(a->draw));
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (numbers[i].expected != numbers[i].found)
            return bo_fail(context, BO_FORMAT, "the map of key head %zu has %s = %g, expected %g", head,
                           numbers[i].name, numbers[i].found, numbers[i].expected);
    if (b->length_scales) return bo_fail(context, BO_FORMAT, "the map of key head %zu has length scales", head);
    return BO_OK;
}

bo_status bo_attention_set_maps(bo_context *context, bo_attention *attention, bo_features **maps, size_t count)
{
    size_t expected = attention->desc.one_draw ? 1 : attention->desc.key_heads;
    bo_status status = BO_OK;
    bool calibrated = true;
    if (!attention->features || count != expected)
        status = bo_fail(context, BO_FORMAT, "%zu maps, expected %zu", count, attention->features ? expected : 0);
    for (size_t h = 0; status == BO_OK && h < count; h++)
        status = check_map(context, attention->features[h], maps[h], h);
    for (size_t h = 0; h < count; h++) {
        if (status == BO_OK) {
            bo_features_exchange(attention->features[h], maps[h]);
            const bo_features *map = attention->features[h];
            calibrated = calibrated && (bo_features_proposal(map) || bo_features_resampled(map));
        }
        bo_features_destroy(maps[h]);
    }
    if (status != BO_OK) return status;
    if (calibrated) attention->ready = true;
    bo_attention_refresh(attention);
    return BO_OK;
}

/* ---- states ------------------------------------------------------------------------------------------------------- */

static bo_status move_kept(bo_context *context, const bo_attention *from, const void *state, const bo_attention *to,
                           void *out)
{
    size_t tokens = (size_t)bo_attention_state_tokens(state), dim = from->desc.dim, value_dim = from->desc.value_dim;
    if (tokens > to->held)
        return bo_fail(context, BO_INVALID, "state: it holds %zu tokens, there is room for %zu", tokens, to->held);
    float *keys = bo_alloc_raw(context, tokens, (dim + value_dim) * sizeof *keys, "keys and values of a state");
    if (!keys) return BO_MEMORY;
    float *values = keys + tokens * dim;
    for (size_t h = 0; h < from->desc.key_heads; h++) {
        bo_kv_cache source = bo_kv_cache_in(from, state, h), target = bo_kv_cache_in(to, out, h);
        bo_kv_cache_read(from->kernels, &source, 0, tokens, keys, values);
        bo_kv_cache_append(to->kernels, &target, 0, tokens, (bo_rows){keys, dim}, (bo_rows){values, value_dim});
    }
    bo_state_add_tokens(out, tokens);
    bo_free(keys);
    return BO_OK;
}

bo_status bo_attention_state_move(bo_context *context, const bo_attention *from, const void *state,
                                  const bo_attention *to, void *out)
{
    BO_TRY(bo_attention_state_check(context, from, state));
    if (from->desc.capacity == to->desc.capacity) {
        BO_TRY(bo_attention_state_check(context, to, state));
        memcpy(out, state, bo_attention_state_bytes(to));
        return BO_OK;
    }
    BO_TRY(bo_attention_state_begin(context, to, out));
    return move_kept(context, from, state, to, out);
}
