/* The layout of a state: a header, then for each key head its sums and its cached keys. */
#include <assert.h>
#include <math.h>
#include <string.h>
#include "enums.h"
#include "kv_cache.h"

/* More than the tokens of any sequence; sums of token counts cannot overflow. */
#define MAX_TOKENS ((uint64_t)1 << 56)

enum { MAGIC = 0x53416f42, VERSION = 1 }; /* "BoAS" */

size_t bo_sums_bytes(size_t features, size_t value_dim)
{
    return (16 + bo_padded(features) + bo_padded(features * value_dim)) * sizeof(float);
}

bo_sums bo_sums_in(const bo_attention *attention, char *bytes)
{
    float *at = (float *)bytes;
    return (bo_sums){at, at + 16, at + 16 + bo_padded(attention->count)};
}

static char *head_at(const bo_attention *attention, void *state, size_t key_head)
{
    return (char *)state + sizeof(bo_state_header) + key_head * (attention->sums_bytes + attention->kept_bytes);
}

bo_sums bo_state_sums(const bo_attention *attention, void *state, size_t key_head)
{
    return bo_sums_in(attention, head_at(attention, state, key_head));
}

void *bo_state_cache(const bo_attention *attention, void *state, size_t key_head)
{
    return head_at(attention, state, key_head) + attention->sums_bytes;
}

float *bo_state_memory(const bo_attention *attention, void *state, size_t key_head)
{
    return (float *)head_at(attention, state, key_head);
}

float *bo_tape_memory(const bo_call *call, size_t sequence, size_t key_head, size_t index)
{
    const bo_attention *attention = call->attention;
    const bo_sequence *at = &call->sequences[sequence];
    size_t each = attention->engine->tape_states(attention, &call->plan, at->queries, at->keys);
    size_t slot = at->tape_start * attention->desc.key_heads + key_head * each + index;
    return (float *)(call->tape.states + slot * attention->sums_bytes);
}

bo_sums bo_tape_sums(const bo_call *call, size_t sequence, size_t key_head, size_t index)
{
    return bo_sums_in(call->attention, (char *)bo_tape_memory(call, sequence, key_head, index));
}

size_t bo_attention_state_bytes(const bo_attention *attention)
{
    if (!attention) return 0;
    return sizeof(bo_state_header) + attention->desc.key_heads * (attention->sums_bytes + attention->kept_bytes);
}

size_t bo_attention_state_gradient_floats(const bo_attention *attention)
{
    if (!attention) return 0;
    const bo_attention_desc *d = &attention->desc;
    if (attention->engine->memory_gradient) return d->key_heads * attention->engine->memory_gradient(attention);
    return d->key_heads * (attention->count * (d->value_dim + 1) + attention->cached_keys * (d->dim + d->value_dim) +
                           attention->cached_gates);
}

bo_state_header bo_state_header_of(const bo_attention *attention)
{
    return (bo_state_header){.magic = MAGIC, .version = VERSION, .fingerprint = attention->fingerprint};
}

size_t bo_attention_state_prefix(const bo_attention *attention)
{
    return attention->scaled ? bo_attention_state_bytes(attention) : sizeof(bo_state_header);
}

void bo_attention_state_start(const bo_attention *attention, void *prefix)
{
    memset(prefix, 0, bo_attention_state_prefix(attention));
    bo_state_header header = bo_state_header_of(attention);
    static_assert(sizeof header == 64, ""); /* so that sums and keys have the alignment of the state */
    memcpy(prefix, &header, sizeof header);
    for (size_t h = 0; attention->scaled && h < attention->desc.key_heads; h++)
        *bo_state_sums(attention, prefix, h).log_scale = -INFINITY;
}

/* Initializes a state in GPU memory. */
static bo_status init_on_gpu(bo_context *context, const bo_attention *attention, void *state)
{
    bo_device *device = bo_device_of(context);
    const size_t bytes = bo_attention_state_bytes(attention), prefix = bo_attention_state_prefix(attention);
    void *start = bo_alloc(context, prefix, 1, "an empty state");
    if (!start) return BO_MEMORY;
    bo_attention_state_start(attention, start);
    bo_status status = bo_buffer_zero(context, device, state, bytes);
    if (status == BO_OK) status = bo_buffer_write(context, device, state, start, prefix);
    bo_free(start);
    return status;
}

bo_status bo_attention_state_init(bo_context *context, const bo_attention *attention, void *state)
{
    BO_REQUIRE(context, attention, state);
    bool on_gpu;
    BO_TRY(bo_device_owns(context, state, &on_gpu));
    if (on_gpu) return init_on_gpu(context, attention, state);
    if ((uintptr_t)state % 8)
        return bo_fail(context, BO_INVALID, "state: it must be aligned to 8 bytes, like memory from malloc");
    const size_t bytes = bo_attention_state_bytes(attention), prefix = bo_attention_state_prefix(attention);
    bo_attention_state_start(attention, state);
    memset((char *)state + prefix, 0, bytes - prefix);
    return BO_OK;
}

bo_status bo_state_check(bo_context *context, const bo_attention *attention, const void *state)
{
    bo_state_header header;
    if ((uintptr_t)state % 8)
        return bo_fail(context, BO_INVALID, "state: it must be aligned to 8 bytes, like memory from malloc");
    memcpy(&header, state, sizeof header);
    if (header.magic != MAGIC)
        return bo_fail(context, BO_INVALID,
                       "state: the bytes are not a state (create one with bo_attention_state_init)");
    if (header.version != VERSION)
        return bo_fail(context, BO_VERSION, "state: version %u; this library reads version %d", header.version,
                       VERSION);
    if (header.fingerprint != attention->fingerprint)
        return bo_fail(
            context, BO_INVALID,
            "state: it was created by another attention or another draw (fingerprint %016llx, expected %016llx)",
            (unsigned long long)header.fingerprint, (unsigned long long)attention->fingerprint);
    if (header.tokens > MAX_TOKENS ||
        (!attention->desc.window && attention->cached_keys && header.tokens > attention->cached_keys))
        return bo_fail(context, BO_INVALID, "state: damaged: its token count is %llu",
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
    if (!state) return 0;
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

float *bo_memory_gradient(const bo_attention *attention, const float *gradient, size_t key_head)
{
    return (float *)gradient + key_head * attention->engine->memory_gradient(attention);
}

static bo_status check_sums(bo_context *context, const bo_attention *attention, const void *state, size_t key_head)
{
    BO_TRY(bo_state_check(context, attention, state));
    if (attention->traits & BO_TRAIT_CAPACITY)
        return bo_fail(context, BO_INVALID, "state: kind %s stores keys and values, not sums",
                       bo_attention_kind_name(attention->desc.kind));
    if (key_head >= attention->desc.key_heads)
        return bo_fail(context, BO_INVALID, "state: key head %zu does not exist; there are %zu", key_head,
                       attention->desc.key_heads);
    return BO_OK;
}

/* The arrays of state_get and state_set in the state. */
typedef struct contents {
    float *s, *z, *log_scale; /* log_scale NULL: no log scale */
    size_t s_floats, z_floats;
} contents;

static contents contents_of(const bo_attention *attention, void *state, size_t key_head)
{
    const bo_attention_desc *d = &attention->desc;
    if (!attention->engine->memory) {
        bo_sums sums = bo_state_sums(attention, state, key_head);
        return (contents){sums.s, sums.z, sums.log_scale, attention->count * d->value_dim, attention->count};
    }
    float *memory = bo_state_memory(attention, state, key_head);
    size_t floats = d->dim * d->value_dim, (*second)(const bo_attention *) = attention->engine->memory_second;
    return (contents){
        .s = memory, .z = memory + bo_padded(floats), .s_floats = floats, .z_floats = second ? second(attention) : 0};
}

/* True if sums and cached keys are finite. Data that an engine derives from them, such as a factor, is not checked. */
static bool is_finite(const bo_attention *attention, void *state, size_t key_head)
{
    const bo_kernels *kernels = attention->kernels;
    const contents stored = contents_of(attention, state, key_head);
    const float *kept = bo_state_cache(attention, state, key_head);
    return kernels->finite(stored.s_floats, stored.s) && kernels->finite(stored.z_floats, stored.z) &&
           kernels->finite(attention->kept_bytes / sizeof *kept, kept);
}

/* The same for the slots of the first `tokens` tokens. The last panel of keys may have empty slots. */
static bool are_slots_finite(const bo_attention *attention, const void *state, size_t key_head, size_t tokens)
{
    const bo_kernels *kernels = attention->kernels;
    const bo_kv_cache kept = bo_kv_cache_in(attention, state, key_head);
    bool finite = kernels->finite(tokens * kept.value_dim, kept.values);
    for (size_t first = 0; finite && first < tokens; first += BO_PANEL) {
        const bo_kv_piece piece = bo_kv_cache_piece(&kept, first, tokens);
        for (size_t i = 0; finite && i < kept.dim; i++)
            finite = kernels->finite(piece.count, piece.keys + i * BO_PANEL);
    }
    return finite;
}

bo_status bo_state_check_stored(bo_context *context, const bo_attention *attention, const void *state)
{
    if (!(attention->traits & BO_TRAIT_CAPACITY) || attention->desc.window)
        return bo_attention_state_check(context, attention, state);
    BO_TRY(bo_state_check(context, attention, state));
    const size_t tokens = (size_t)bo_attention_state_tokens(state);
    for (size_t h = 0; h < attention->desc.key_heads; h++)
        if (!are_slots_finite(attention, state, h, tokens))
            return bo_fail(context, BO_INVALID, "state: damaged: key head %zu contains NaN or infinity", h);
    return BO_OK;
}

bo_status bo_attention_state_check(bo_context *context, const bo_attention *attention, const void *state)
{
    BO_REQUIRE(context, attention, state);
    BO_TRY(bo_state_check(context, attention, state));
    for (size_t h = 0; h < attention->desc.key_heads; h++)
        if (!is_finite(attention, (void *)state, h))
            return bo_fail(context, BO_INVALID, "state: damaged: key head %zu contains NaN or infinity", h);
    for (size_t h = 0; attention->cached_gates && h < attention->desc.key_heads; h++)
        for (size_t i = 0; i < attention->cached_gates; i++)
            if (bo_cached_gates(attention, state, h)[i] > 0)
                return bo_fail(context, BO_INVALID, "state: damaged: key head %zu has a gate above 1", h);
    return BO_OK;
}

bo_status bo_attention_state_get(bo_context *context, const bo_attention *attention, const void *state, size_t key_head,
                                 float *s, float *z, double *log_scale)
{
    BO_REQUIRE(context, attention, state);
    BO_TRY(check_sums(context, attention, state, key_head));
    contents stored = contents_of(attention, (void *)state, key_head);
    if (z && !stored.z_floats)
        return bo_fail(context, BO_INVALID, "state: kind %s has no z", bo_attention_kind_name(attention->desc.kind));
    if (s) memcpy(s, stored.s, stored.s_floats * sizeof *s);
    if (z) memcpy(z, stored.z, stored.z_floats * sizeof *z);
    if (log_scale) *log_scale = stored.log_scale ? (double)*stored.log_scale : 0;
    return BO_OK;
}

bo_status bo_attention_state_set(bo_context *context, const bo_attention *attention, void *state, size_t key_head,
                                 const float *s, const float *z, double log_scale)
{
    BO_REQUIRE(context, attention, state, s);
    BO_TRY(check_sums(context, attention, state, key_head));
    const bo_kernels *kernels = attention->kernels;
    contents stored = contents_of(attention, state, key_head);
    if (!z == (stored.z_floats > 0)) return bo_fail(context, BO_INVALID, "state: z is %sNULL", z ? "not " : "");
    if (!kernels->finite(stored.s_floats, s) || (z && !kernels->finite(stored.z_floats, z)))
        return bo_fail(context, BO_NUMERIC, "state: s or z contains NaN or infinity");
    if (!attention->scaled && log_scale != 0)
        return bo_fail(context, BO_INVALID, "state: these features have no log scale; log_scale must be 0, found %g",
                       log_scale);
    if (isnan(log_scale) || log_scale > 1e30)
        return bo_fail(context, BO_INVALID, "state: log_scale must be finite or -INFINITY, found %g", log_scale);
    bool nothing = isinf((float)log_scale); /* exp(-∞) s is 0 for every s */
    /* derived data of the engine is no longer valid */
    if (attention->engine->memory) memset(stored.s, 0, attention->sums_bytes);
    if (stored.log_scale) *stored.log_scale = (float)log_scale;
    for (size_t i = 0; i < stored.s_floats; i++) stored.s[i] = nothing ? 0 : s[i];
    for (size_t i = 0; i < stored.z_floats; i++) stored.z[i] = nothing ? 0 : z[i];
    return BO_OK;
}
