/* The bytes of a state: a header, then for each key head its sums and its kept keys. */
#include <math.h>
#include <string.h>
#include "internal.h"

/* More than any sequence: sums of tokens stay far from overflow. */
#define MOST_TOKENS ((uint64_t)1 << 56)

enum { MAGIC = 0x53416f42, VERSION = 1 }; /* "BoAS" */

static size_t padded(size_t floats)
{
    return (floats + 15) / 16 * 16;
}

size_t bo_sums_bytes(size_t features, size_t value_dim)
{
    return (16 + padded(features) + padded(features * value_dim)) * sizeof(float);
}

bo_sums bo_sums_in(const bo_attention *attention, char *bytes)
{
    float *at = (float *)bytes;
    return (bo_sums){at, at + 16, at + 16 + padded(attention->count)};
}

static char *head_at(const bo_attention *attention, void *state, size_t key_head)
{
    return (char *)state + sizeof(bo_state_header) + key_head * (attention->sums_bytes + attention->kept_bytes);
}

bo_sums bo_state_sums(const bo_attention *attention, void *state, size_t key_head)
{
    return bo_sums_in(attention, head_at(attention, state, key_head));
}

void *bo_state_kept(const bo_attention *attention, void *state, size_t key_head)
{
    return head_at(attention, state, key_head) + attention->sums_bytes;
}

bo_sums bo_tape_sums(const bo_call *call, size_t sequence, size_t key_head, size_t index)
{
    const bo_attention *attention = call->attention;
    const bo_sequence *at = &call->sequences[sequence];
    size_t each = attention->engine->tape_states(attention, &call->plan, at->queries, at->keys);
    size_t slot = at->tape_start * attention->desc.key_heads + key_head * each + index;
    return bo_sums_in(attention, call->tape.states + slot * attention->sums_bytes);
}

size_t bo_attention_state_bytes(const bo_attention *attention)
{
    return sizeof(bo_state_header) + attention->desc.key_heads * (attention->sums_bytes + attention->kept_bytes);
}

size_t bo_attention_state_gradient(const bo_attention *attention)
{
    const bo_attention_desc *d = &attention->desc;
    return d->key_heads * (attention->count * (d->value_dim + 1) + attention->held * (d->dim + d->value_dim));
}

bo_status bo_attention_state_begin(bo_context *context, const bo_attention *attention, void *state)
{
    if (!attention || !state)
        return bo_fail(context, BO_INVALID, "state: the %s is NULL", attention ? "state" : "attention");
    if ((uintptr_t)state % 8) return bo_fail(context, BO_INVALID, "state: must be aligned to 8 bytes, as malloc does");
    memset(state, 0, bo_attention_state_bytes(attention));
    bo_state_header header = {.magic = MAGIC, .version = VERSION, .fingerprint = attention->fingerprint};
    memcpy(state, &header, sizeof header);
    for (size_t h = 0; attention->scaled && h < attention->desc.key_heads; h++)
        *bo_state_sums(attention, state, h).log_scale = -INFINITY;
    return BO_OK;
}

bo_status bo_attention_state_check(bo_context *context, const bo_attention *attention, const void *state)
{
    if (!attention) return bo_fail(context, BO_INVALID, "state: the attention is NULL");
    bo_state_header header;
    if (!state)
        return bo_fail(context, BO_INVALID, "state: NULL instead of %zu bytes", bo_attention_state_bytes(attention));
    if ((uintptr_t)state % 8) return bo_fail(context, BO_INVALID, "state: must be aligned to 8 bytes, as malloc does");
    memcpy(&header, state, sizeof header);
    if (header.magic != MAGIC)
        return bo_fail(context, BO_INVALID, "state: these bytes are no state (bo_attention_state_begin makes one)");
    if (header.version != VERSION)
        return bo_fail(context, BO_VERSION, "state: version %u, this library knows %d", header.version, VERSION);
    if (header.fingerprint != attention->fingerprint)
        return bo_fail(context, BO_INVALID,
                       "state: made by another attention or another draw: fingerprint %016llx, expected %016llx",
                       (unsigned long long)header.fingerprint, (unsigned long long)attention->fingerprint);
    if (header.tokens > MOST_TOKENS || (!attention->desc.window && attention->held && header.tokens > attention->held))
        return bo_fail(context, BO_INVALID, "state: damaged: it says that it holds %llu tokens",
                       (unsigned long long)header.tokens);
    for (size_t h = 0; attention->count && h < attention->desc.key_heads; h++) {
        float scale = *bo_state_sums(attention, (void *)state, h).log_scale;
        if (isnan(scale) || scale == INFINITY || (!attention->scaled && scale != 0))
            return bo_fail(context, BO_INVALID, "state: damaged: the log scale of key head %zu is %g", h,
                           (double)scale);
    }
    return BO_OK;
}

uint64_t bo_attention_state_tokens(const void *state)
{
    bo_state_header header;
    memcpy(&header, state, sizeof header);
    return header.tokens;
}

void bo_state_add_tokens(void *state, uint64_t tokens)
{
    bo_state_header header;
    memcpy(&header, state, sizeof header);
    header.tokens += tokens;
    memcpy(state, &header, sizeof header);
}

float *bo_sums_gradient(const bo_attention *attention, const float *gradient, size_t key_head)
{
    return (float *)gradient + key_head * attention->count * (attention->desc.value_dim + 1);
}

static bo_status check_sums(bo_context *context, const bo_attention *attention, const void *state, size_t key_head)
{
    BO_TRY(bo_attention_state_check(context, attention, state));
    if (!attention->count) return bo_fail(context, BO_INVALID, "state: kind exact keeps keys and values, not sums");
    if (key_head >= attention->desc.key_heads)
        return bo_fail(context, BO_INVALID, "state: key head %zu of %zu", key_head, attention->desc.key_heads);
    return BO_OK;
}

bo_status bo_attention_state_get(bo_context *context, const bo_attention *attention, const void *state, size_t key_head,
                                 float *s, float *z, double *log_scale)
{
    BO_TRY(check_sums(context, attention, state, key_head));
    bo_sums sums = bo_state_sums(attention, (void *)state, key_head);
    if (s) memcpy(s, sums.s, attention->count * attention->desc.value_dim * sizeof *s);
    if (z) memcpy(z, sums.z, attention->count * sizeof *z);
    if (log_scale) *log_scale = (double)*sums.log_scale;
    return BO_OK;
}

bo_status bo_attention_state_set(bo_context *context, const bo_attention *attention, void *state, size_t key_head,
                                 const float *s, const float *z, double log_scale)
{
    BO_TRY(check_sums(context, attention, state, key_head));
    const bo_kernels *kernels = attention->kernels;
    size_t count = attention->count, values = count * attention->desc.value_dim;
    if (!s || !z) return bo_fail(context, BO_INVALID, "state: %s is NULL", s ? "z" : "s");
    if (!kernels->finite(values, s) || !kernels->finite(count, z))
        return bo_fail(context, BO_NUMERIC, "state: the sums hold a number that is not finite");
    if (!attention->scaled && log_scale != 0)
        return bo_fail(context, BO_INVALID, "state: these features have no log scale: expected 0, found %g", log_scale);
    if (isnan(log_scale) || log_scale > 1e30)
        return bo_fail(context, BO_INVALID, "state: log_scale must be finite or -INFINITY, found %g", log_scale);
    bo_sums sums = bo_state_sums(attention, state, key_head);
    *sums.log_scale = (float)log_scale;
    bool nothing = isinf(*sums.log_scale); /* exp(-∞) s is 0 whatever s */
    for (size_t i = 0; i < values; i++) sums.s[i] = nothing ? 0 : s[i];
    for (size_t i = 0; i < count; i++) sums.z[i] = nothing ? 0 : z[i];
    return BO_OK;
}
