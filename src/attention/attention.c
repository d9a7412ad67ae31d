/* Attention objects: one map per key head, and the sizes of states. */
#include <assert.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "../features/enums.h"
#include "../features/facts.h"
#include "../base/rng.h"
#include "../features/fingerprint.h"
#include "../features/propose.h"
#include "kinds.h"
#include "kv_cache.h"
#include "internal.h"

/* ---- fingerprint ------------------------------------------------------------------------------------------------- */

static uint64_t mix_in(uint64_t hash, uint64_t value)
{
    hash ^= value + 0x9e3779b97f4a7c15u + (hash << 6) + (hash >> 2);
    return hash * 0xff51afd7ed558ccdu;
}

void bo_attention_refresh(bo_attention *attention)
{
    const bo_attention_desc *d = &attention->desc;
    const size_t sizes[] = {(size_t)d->kind, d->heads,    d->key_heads,    d->dim,           d->value_dim, d->causal,
                            d->window,       d->capacity, (size_t)d->gate, attention->count, d->unit};
    const double reals[] = {d->scale, d->power};
    uint64_t hash = 0x626f63686e6572;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) hash = mix_in(hash, sizes[i]);
    for (size_t i = 0; i < sizeof reals / sizeof *reals; i++) {
        uint64_t bits;
        memcpy(&bits, &reals[i], sizeof bits);
        hash = mix_in(hash, bits);
    }
    /* M is hashed only if it is optional for the kind: other states keep the fingerprint of older versions. */
    if (attention->traits & BO_TRAIT_MATRIX & ~bo_kind_of(d->kind)->traits) hash = mix_in(hash, d->rank);
    for (size_t h = 0; attention->features && h < (d->one_draw ? 1 : d->key_heads); h++)
        hash = mix_in(hash, bo_features_fingerprint(attention->features[h]));
    attention->fingerprint = hash;
    if (attention->features) /* the map may be another copy */
        attention->desc.features.length_scales = bo_features_describe(attention->features[0])->length_scales;
}

/* ---- maps -------------------------------------------------------------------------------------------------------- */

uint64_t bo_attention_seed(const bo_attention *attention, size_t key_head, uint64_t draw)
{
    const bo_attention_desc *desc = &attention->desc;
    if (key_head == 0 && draw == 0) return desc->features.seed;
    bo_rng rng = bo_rng_make(desc->features.seed, bo_rng_stream("attention head", key_head));
    uint64_t seed = bo_rng_bits(&rng);
    if (draw == 0) return seed;
    rng = bo_rng_make(seed, bo_rng_stream("attention draw", draw));
    return bo_rng_bits(&rng);
}

static const double SMALL = 0x1p24; /* for fewer bytes the memory limit is not queried, because that reads files */

/* Refuses maps that fit into memory individually but not together, before drawing any. */
static bo_status check_maps(bo_context *context, const bo_attention_desc *desc)
{
    const size_t maps = desc->one_draw ? 1 : desc->key_heads;
    bo_features_desc map = desc->features;
    size_t bytes = 0;
    char what[96];
    if (maps == 1) return BO_OK; /* bo_features_create checks it */
    map.sampling = BO_SAMPLING_DRAWN;
    BO_TRY(bo_features_estimate(context, &map, &bytes));
    if ((double)maps * (double)bytes < SMALL) return BO_OK;
    snprintf(what, sizeof what, "attention: a set of %zu maps of %zu features", maps, map.features);
    return bo_check_memory(context, what, (double)maps * (double)bytes, bo_process_memory(),
                           "use fewer features or one draw for all heads");
}

static bo_status create_maps(bo_context *context, bo_attention *attention)
{
    bo_attention_desc *desc = &attention->desc;
    attention->features = bo_alloc(context, desc->key_heads, sizeof *attention->features, "attention's maps");
    if (!attention->features) return BO_MEMORY;
    BO_TRY(check_maps(context, desc));
    for (size_t h = 0; h < desc->key_heads; h++) {
        bo_features_desc map = desc->features;
        map.seed = bo_attention_seed(attention, h, 0);
        map.sampling = BO_SAMPLING_DRAWN; /* calibration chooses the frequencies */
        if (h > 0 && desc->one_draw)
            attention->features[h] = attention->features[0];
        else {
            BO_TRY(bo_features_create(context, &map, &attention->features[h]));
            BO_TRY(bo_features_set_precision(context, attention->features[h], attention->precision));
        }
    }
    const bo_features *map = attention->features[0];
    bo_features_desc resolved = *bo_features_describe(map);
    resolved.sampling = desc->features.sampling;
    resolved.candidates = desc->features.candidates;
    if (resolved.sampling == BO_SAMPLING_OPTIMAL) BO_TRY(bo_features_check_choice(context, map, resolved.candidates));
    if (desc->proposal != BO_PROPOSAL_NONE) BO_TRY(bo_features_check_proposal(context, map));
    desc->features = resolved;
    attention->count = desc->features.features;
    attention->scaled = bo_features_scaled(map);
    if (desc->normalizer == BO_NORMALIZER_NONE && attention->scaled)
        return bo_fail(context, BO_INVALID, "attention: features of kernel %s need a normalizer, found none",
                       bo_kernel_name(desc->features.kernel));
    if (desc->clamp == 0) desc->clamp = bo_features_nonnegative(map) ? (double)FLT_MIN : 1e-3;
    return BO_OK;
}

/* ---- creation and destruction ------------------------------------------------------------------------------------ */

/* Computes the size of a state. Refused if it does not fit in a size_t. */
static bo_status measure_state(bo_context *context, bo_attention *attention)
{
    const bo_attention_desc *d = &attention->desc;
    attention->cached_keys = d->window ? d->window : d->capacity;
    const bool memory = attention->engine->memory;
    double rows = (double)(memory ? d->dim : attention->count);
    double sums = memory ? (double)attention->engine->memory(attention) : rows * ((double)d->value_dim + 1);
    double kept = ((double)attention->cached_keys + 128) * (double)(d->dim + d->value_dim + 1);
    if ((double)d->key_heads * (sums + kept) * sizeof(float) > 0x1p60)
        return bo_fail(context, BO_INVALID,
                       "attention: a state of %zu features, %zu values and %zu cached keys is too large",
                       attention->count, d->value_dim, attention->cached_keys);
    char what[128];
    snprintf(what, sizeof what, "attention: a sum of %.0f x %zu floats for each key head", rows, d->value_dim);
    if (sums * sizeof(float) >= SMALL)
        BO_TRY(bo_check_memory(context, what, sums * sizeof(float), bo_process_memory(),
                               "use fewer features or a smaller dimension"));
    if (attention->count) attention->sums_bytes = bo_sums_bytes(attention->count, d->value_dim);
    if (memory) attention->sums_bytes = bo_padded(attention->engine->memory(attention)) * sizeof(float);
    if (attention->cached_keys) attention->kept_bytes = bo_kv_cache_bytes(attention->cached_keys, d->dim, d->value_dim);
    if (attention->count && bo_gate_width(d)) attention->cached_gates = attention->cached_keys;
    attention->kept_bytes += bo_padded(attention->cached_gates) * sizeof(float);
    return BO_OK;
}

/* γ_h = 1 - 2^-(5 + h) (Sun et al. 2023) rounds to 1 in float32 for h >= 19; therefore the sequence restarts every
 * eight heads. */
double bo_default_decay(size_t key_head)
{
    return log1p(-ldexp(1, -5 - (int)(key_head % 8)));
}

static bo_status make_decay(bo_context *context, bo_attention *attention)
{
    attention->decay = bo_alloc(context, attention->desc.key_heads, sizeof *attention->decay, "attention's decays");
    if (!attention->decay) return BO_MEMORY;
    for (size_t h = 0; h < attention->desc.key_heads; h++) attention->decay[h] = (float)bo_default_decay(h);
    return BO_OK;
}

/* Checks the invariants of the struct. */
static void assert_invariants(const bo_attention *attention)
{
    const bo_attention_desc *d = &attention->desc;
    assert(d->heads && d->key_heads && d->dim && d->value_dim && attention->group * d->key_heads == d->heads);
    assert(!attention->features == !(attention->traits & BO_TRAIT_FEATURES) &&
           !attention->features == !attention->count);
    assert(!attention->decay == (d->gate != BO_GATE_FIXED));
    for (size_t h = 0; attention->features && h < d->key_heads; h++)
        assert(attention->features[h] && (!d->one_draw || attention->features[h] == attention->features[0]));
    assert(attention->sums_bytes % 64 == 0 && attention->kept_bytes % 64 == 0);
    assert(!attention->kept_bytes == !attention->cached_keys);
    (void)d;
}

static bo_status build(bo_context *context, bo_attention *attention)
{
    const bo_attention_desc *desc = &attention->desc;
    if (attention->traits & BO_TRAIT_FEATURES) BO_TRY(create_maps(context, attention));
    if (desc->gate == BO_GATE_FIXED) BO_TRY(make_decay(context, attention));
    bool chosen = desc->features.sampling == BO_SAMPLING_OPTIMAL && !bo_features_flat(attention->features[0]);
    attention->ready = desc->proposal == BO_PROPOSAL_NONE && !chosen;
    BO_TRY(measure_state(context, attention));
    bo_attention_refresh(attention);
    assert_invariants(attention);
    return BO_OK;
}

bo_status bo_attention_create(bo_context *context, const bo_attention_desc *desc, bo_attention **out)
{
    if (out) *out = NULL;
    BO_REQUIRE(context, desc, out);
    bo_attention_desc resolved;
    BO_TRY(bo_attention_resolve(context, desc, &resolved));
    bo_attention *attention = bo_alloc(context, 1, sizeof *attention, "attention");
    if (!attention) return BO_MEMORY;
    attention->desc = resolved;
    attention->kernels = bo_context_kernels(context);
    attention->engine = bo_kind_of(resolved.kind)->engine;
    if (attention->engine->rounds) attention->precision = bo_context_precision(context);
    attention->traits = bo_attention_traits(&resolved);
    attention->group = resolved.heads / resolved.key_heads;
    attention->copies = bo_device_copies_create(context);
    bo_status status = attention->copies ? build(context, attention) : BO_MEMORY;
    if (status != BO_OK) {
        bo_attention_destroy(attention);
        return status;
    }
    *out = attention;
    return BO_OK;
}

void bo_attention_destroy(bo_attention *attention)
{
    if (!attention) return;
    size_t maps = attention->desc.one_draw ? 1 : attention->desc.key_heads;
    for (size_t h = 0; attention->features && h < maps; h++) bo_features_destroy(attention->features[h]);
    bo_device_copies_destroy(attention->copies);
    bo_free(attention->features);
    bo_free(attention->decay);
    bo_free(attention);
}

const bo_attention_desc *bo_attention_describe(const bo_attention *attention)
{
    return attention ? &attention->desc : NULL;
}

bool bo_attention_is_ready(const bo_attention *attention)
{
    return attention->ready;
}

bool bo_attention_is_random(const bo_attention *attention)
{
    return attention->features && bo_features_random(attention->features[0]);
}

const bo_features *bo_attention_features(const bo_attention *attention, size_t key_head)
{
    if (!attention) return NULL;
    return attention->features && key_head < attention->desc.key_heads ? attention->features[key_head] : NULL;
}

static bo_status redraw_maps(bo_context *context, bo_attention *attention, size_t maps, uint64_t draw, size_t *done)
{
    for (*done = 0; *done < maps; ++*done)
        BO_TRY(bo_features_redraw(context, attention->features[*done], bo_attention_seed(attention, *done, draw)));
    return BO_OK;
}

bo_status bo_attention_redraw(bo_context *context, bo_attention *attention, uint64_t draw)
{
    BO_REQUIRE(context, attention);
    if (!attention->features) return BO_OK;
    if (bo_features_resampled(attention->features[0]))
        return bo_fail(context, BO_INVALID,
                       "attention: these frequencies were chosen from data and cannot be redrawn without data; use "
                       "bo_calibration_apply");
    size_t done, undone, maps = attention->desc.one_draw ? 1 : attention->desc.key_heads;
    bo_status status = redraw_maps(context, attention, maps, draw, &done);
    /* Restores the previous maps. If this fails too, the new fingerprint prevents the use of old states. */
    if (status != BO_OK)
        redraw_maps(context, attention, done, attention->draw, &undone);
    else
        attention->draw = draw;
    bo_attention_refresh(attention);
    return status;
}

/* ---- maps and states from files ---------------------------------------------------------------------------------- */

/* Maps from a model file, and states with another capacity. */

/* ---- maps -------------------------------------------------------------------------------------------------------- */

/* Checks a map against the attention's map, except for the draw. */
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
                       "the map of key head %zu has kernel %s, function %s, draw %s; expected %s, %s, %s", head,
                       bo_kernel_name(b->kernel), bo_function_name(b->function), bo_draw_name(b->draw),
                       bo_kernel_name(a->kernel), bo_function_name(a->function), bo_draw_name(a->draw));
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (numbers[i].expected != numbers[i].found)
            return bo_fail(context, BO_FORMAT, "the map of key head %zu has %s = %g, expected %g", head,
                           numbers[i].name, numbers[i].found, numbers[i].expected);
    if (b->length_scales)
        return bo_fail(context, BO_FORMAT, "the map of key head %zu has length scales; expected none", head);
    return BO_OK;
}

bo_status bo_attention_set_maps(bo_context *context, bo_attention *attention, bo_features **maps, size_t count)
{
    size_t expected = attention->desc.one_draw ? 1 : attention->desc.key_heads;
    bo_status status = BO_OK;
    bool calibrated = true;
    if (!attention->features || count != expected)
        status = bo_fail(context, BO_FORMAT, "found %zu feature maps, expected %zu", count,
                         attention->features ? expected : 0);
    for (size_t h = 0; status == BO_OK && h < count; h++)
        status = check_map(context, attention->features[h], maps[h], h);
    for (size_t h = 0; status == BO_OK && h < count; h++)
        status = bo_features_set_precision(context, maps[h], attention->precision);
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

/* ---- states ------------------------------------------------------------------------------------------------------ */

static bo_status move_cache(bo_context *context, const bo_attention *from, const void *state, const bo_attention *to,
                            void *out)
{
    size_t tokens = (size_t)bo_attention_state_tokens(state), dim = from->desc.dim, value_dim = from->desc.value_dim;
    if (tokens > to->cached_keys)
        return bo_fail(context, BO_INVALID, "state: it has %zu tokens, but the new capacity is %zu", tokens,
                       to->cached_keys);
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
    const bool keeps = from->traits & BO_TRAIT_CAPACITY && !from->desc.window;
    BO_TRY(bo_state_check_stored(context, from, state));
    if (!keeps || from->desc.capacity == to->desc.capacity) BO_TRY(bo_state_check(context, to, state));
    if (!keeps) {
        memcpy(out, state, bo_attention_state_bytes(to));
        return BO_OK;
    }
    bo_attention_state_start(to, out);
    return move_cache(context, from, state, to, out);
}

/* Appends copies of the cached keys and values, which belong to the latest tokens, until the number of tokens is
 * reached. */
static bo_status repeat_cache(bo_context *context, const bo_attention *attention, void *state, size_t before,
                              size_t tokens)
{
    const size_t dim = attention->desc.dim, value_dim = attention->desc.value_dim;
    const size_t first = bo_kv_cache_first(before, attention->cached_keys), count = before - first;
    float *keys = bo_alloc_raw(context, count, (dim + value_dim) * sizeof *keys, "keys and values of a state");
    if (!keys) return BO_MEMORY;
    float *values = keys + count * dim;
    for (size_t h = 0; h < attention->desc.key_heads; h++) {
        const bo_kv_cache kept = bo_kv_cache_in(attention, state, h);
        bo_kv_cache_read(attention->kernels, &kept, first, count, keys, values);
        for (size_t at = bo_max(before, bo_kv_cache_first(tokens, attention->cached_keys)), more; at < tokens;
             at += more) {
            const size_t row = (at - before) % count;
            more = bo_min(count - row, tokens - at);
            bo_kv_cache_append(attention->kernels, &kept, at, more, (bo_rows){keys + row * dim, dim},
                               (bo_rows){values + row * value_dim, value_dim});
        }
    }
    bo_free(keys);
    return BO_OK;
}

bo_status bo_attention_state_repeat(bo_context *context, const bo_attention *attention, void *state, uint64_t tokens)
{
    BO_TRY(bo_state_check(context, attention, state));
    const uint64_t before = bo_attention_state_tokens(state);
    if (tokens && !before) return bo_fail(context, BO_INVALID, "state: it has no tokens that could be repeated");
    if (attention->cached_keys && !attention->desc.window && tokens > attention->cached_keys)
        return bo_fail(context, BO_INVALID, "state: %llu tokens are requested, but its capacity is %zu",
                       (unsigned long long)tokens, attention->cached_keys);
    if (attention->cached_keys && tokens > before)
        BO_TRY(repeat_cache(context, attention, state, (size_t)before, (size_t)tokens));
    bo_state_add_tokens(state, tokens - before);
    return BO_OK;
}
