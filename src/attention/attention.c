/* The object: a map for each key head, and the sizes of its states. */
#include <float.h>
#include <math.h>
#include <string.h>
#include "../base/rng.h"
#include "../features/fingerprint.h"
#include "../features/propose.h"
#include "kinds.h"
#include "kv_cache.h"

/* ---- fingerprint ----------------------------------------------------------------------------------------------- */

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
    for (size_t h = 0; attention->features && h < (d->one_draw ? 1 : d->key_heads); h++)
        hash = mix_in(hash, bo_features_fingerprint(attention->features[h]));
    attention->fingerprint = hash;
    if (attention->features) /* the map may have made another copy */
        attention->desc.features.length_scales = bo_features_describe(attention->features[0])->length_scales;
}

/* ---- maps ------------------------------------------------------------------------------------------------------ */

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

static bo_status create_maps(bo_context *context, bo_attention *attention)
{
    bo_attention_desc *desc = &attention->desc;
    attention->features = bo_alloc(context, desc->key_heads, sizeof *attention->features, "attention's maps");
    if (!attention->features) return BO_MEMORY;
    for (size_t h = 0; h < desc->key_heads; h++) {
        bo_features_desc map = desc->features;
        map.seed = bo_attention_seed(attention, h, 0);
        map.sampling = BO_SAMPLING_DRAWN; /* calibration chooses */
        if (h > 0 && desc->one_draw)
            attention->features[h] = attention->features[0];
        else
            BO_TRY(bo_features_create(context, &map, &attention->features[h]));
    }
    const bo_features *map = attention->features[0];
    bo_features_desc made = *bo_features_describe(map);
    made.sampling = desc->features.sampling;
    made.candidates = desc->features.candidates;
    if (made.sampling == BO_SAMPLING_OPTIMAL) BO_TRY(bo_features_check_choice(context, map, made.candidates));
    if (desc->proposal != BO_PROPOSAL_NONE) BO_TRY(bo_features_check_proposal(context, map));
    desc->features = made;
    attention->count = desc->features.features;
    attention->scaled = bo_features_scaled(map);
    if (desc->normalizer == BO_NORMALIZER_NONE && attention->scaled)
        return bo_fail(context, BO_INVALID, "attention: features of kernel %s need a normalizer, found none",
                       bo_kernel_name(desc->features.kernel));
    if (desc->clamp == 0) desc->clamp = bo_features_nonnegative(map) ? (double)FLT_MIN : 1e-3;
    return BO_OK;
}

/* ---- life ------------------------------------------------------------------------------------------------------ */

/* What a state will take, refused where it cannot be said in a size_t. */
static bo_status measure_state(bo_context *context, bo_attention *attention)
{
    const bo_attention_desc *d = &attention->desc;
    attention->held = d->window ? d->window : d->capacity;
    const bool memory = attention->engine->memory;
    double rows = (double)(memory ? d->dim : attention->count);
    double sums = memory ? (double)attention->engine->memory(attention) : rows * ((double)d->value_dim + 1);
    double kept = ((double)attention->held + 128) * (double)(d->dim + d->value_dim);
    if ((double)d->key_heads * (sums + kept) * sizeof(float) > 0x1p60)
        return bo_fail(context, BO_INVALID,
                       "attention: a state of %zu features, %zu values and %zu kept keys is too large",
                       attention->count, d->value_dim, attention->held);
    double machine = (double)bo_physical_memory();
    if (machine > 0 && sums * sizeof(float) > machine)
        return bo_fail(context, BO_MEMORY,
                       "attention: the sums of one key head, %.0f x %zu numbers, take %.1f GB; this machine has %.1f",
                       rows, d->value_dim, sums * sizeof(float) / 1e9, machine / 1e9);
    if (attention->count) attention->sums_bytes = bo_sums_bytes(attention->count, d->value_dim);
    if (memory) attention->sums_bytes = bo_padded(attention->engine->memory(attention)) * sizeof(float);
    if (attention->held) attention->kept_bytes = bo_kv_cache_bytes(attention->held, d->dim, d->value_dim);
    return BO_OK;
}

/* γ_h = 1 - 2^-(5 + h) (Sun et al. 2023), which is 1 in float32 from h = 19 on: so every eight heads begin anew. */
static bo_status make_decay(bo_context *context, bo_attention *attention)
{
    attention->decay = bo_alloc(context, attention->desc.key_heads, sizeof *attention->decay, "attention's decays");
    if (!attention->decay) return BO_MEMORY;
    for (size_t h = 0; h < attention->desc.key_heads; h++)
        attention->decay[h] = (float)log1p(-ldexp(1, -5 - (int)(h % 8)));
    return BO_OK;
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
    return BO_OK;
}

bo_status bo_attention_create(bo_context *context, const bo_attention_desc *desc, bo_attention **out)
{
    if (!out) return bo_fail(context, BO_INVALID, "attention: there is nowhere to put it: out is NULL");
    *out = NULL;
    if (!desc) return bo_fail(context, BO_INVALID, "attention: the descriptor is NULL");
    bo_attention_desc resolved;
    BO_TRY(bo_attention_resolve(context, desc, &resolved));
    bo_attention *attention = bo_alloc(context, 1, sizeof *attention, "attention");
    if (!attention) return BO_MEMORY;
    attention->desc = resolved;
    attention->kernels = bo_context_kernels(context);
    attention->engine = bo_kind_of(resolved.kind)->engine;
    attention->traits = bo_attention_traits(&resolved);
    attention->group = resolved.heads / resolved.key_heads;
    bo_status status = build(context, attention);
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
    bo_free(attention->features);
    bo_free(attention->decay);
    bo_free(attention);
}

const bo_attention_desc *bo_attention_describe(const bo_attention *attention)
{
    return &attention->desc;
}

bool bo_attention_is_ready(const bo_attention *attention)
{
    return attention->ready;
}

const bo_features *bo_attention_features(const bo_attention *attention, size_t key_head)
{
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
    if (!attention) return bo_fail(context, BO_INVALID, "attention: the attention to redraw is NULL");
    if (!attention->features) return BO_OK;
    if (bo_features_resampled(attention->features[0]))
        return bo_fail(context, BO_INVALID,
                       "attention: frequencies that were chosen by data are drawn again by bo_calibration_apply");
    size_t done, undone, maps = attention->desc.one_draw ? 1 : attention->desc.key_heads;
    bo_status status = redraw_maps(context, attention, maps, draw, &done);
    /* Back to what it was; should even that fail, the new fingerprint keeps old states away. */
    if (status != BO_OK)
        redraw_maps(context, attention, done, attention->draw, &undone);
    else
        attention->draw = draw;
    bo_attention_refresh(attention);
    return status;
}
