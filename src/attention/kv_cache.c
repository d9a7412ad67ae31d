/* The KV cache: layout, append, pieces. */
#include "kv_cache.h"
#include <string.h>
#include "linear.h"

static size_t panels(size_t slots)
{
    return (slots + BO_PANEL - 1) / BO_PANEL;
}

static size_t key_floats(size_t ring, size_t dim)
{
    return bo_padded(panels(ring) * BO_PANEL * dim); /* small panels (BO_SIZE) are not multiples of 16 */
}

size_t bo_kv_cache_bytes(size_t ring, size_t dim, size_t value_dim)
{
    return (key_floats(ring, dim) + bo_padded(ring * value_dim)) * sizeof(float);
}

bo_kv_cache bo_kv_cache_at(void *bytes, size_t ring, size_t dim, size_t value_dim)
{
    float *keys = bytes;
    return (bo_kv_cache){keys, keys + key_floats(ring, dim), ring, dim, value_dim, NULL};
}

bo_kv_cache bo_kv_cache_in(const bo_attention *attention, const void *state, size_t key_head)
{
    const bo_attention_desc *desc = &attention->desc;
    return bo_kv_cache_at(bo_state_cache(attention, (void *)state, key_head), attention->cached_keys, desc->dim,
                          desc->value_dim);
}

static float *key_slot(const bo_kv_cache *cache, size_t slot)
{
    return cache->keys + slot / BO_PANEL * BO_PANEL * cache->dim + slot % BO_PANEL;
}

/* Returns the number of slots from this one to the end of its panel or of the ring. */
static size_t slots_ahead(const bo_kv_cache *cache, size_t slot)
{
    size_t ahead = BO_PANEL - slot % BO_PANEL, left = cache->ring - slot;
    return ahead < left ? ahead : left;
}

static void store(const bo_kernels *kernels, const bo_kv_cache *cache, size_t slot, size_t count, const float *keys,
                  size_t key_stride, const float *values, size_t value_stride)
{
    kernels->transpose(count, cache->dim, keys, key_stride, key_slot(cache, slot), BO_PANEL);
    for (size_t i = 0; i < count; i++) {
        memcpy(cache->values + (slot + i) * cache->value_dim, values + i * value_stride,
               cache->value_dim * sizeof *values);
    }
}

void bo_kv_cache_append(const bo_kernels *kernels, const bo_kv_cache *cache, size_t position, size_t count,
                        bo_rows keys, bo_rows values)
{
    size_t done = count > cache->ring ? count - cache->ring : 0;
    while (done < count) {
        size_t slot = (position + done) % cache->ring, next = slots_ahead(cache, slot);
        if (next > count - done) next = count - done;
        store(kernels, cache, slot, next, keys.at + done * keys.stride, keys.stride, values.at + done * values.stride,
              values.stride);
        done += next;
    }
}

/* ---- packed panels ----------------------------------------------------------------------------------------------- */

size_t bo_kv_packed_numbers(size_t dim, size_t value_dim)
{
    return bo_bf16_numbers(BO_PANEL, dim) + bo_bf16_numbers(value_dim, BO_PANEL) +
           bo_bf16_numbers(BO_PANEL, value_dim) + bo_bf16_numbers(dim, BO_PANEL);
}

bo_kv_packed bo_kv_packed_at(const bo_kv_cache *cache, size_t panel)
{
    bo_kv_packed p = {.scores = cache->packed + panel * bo_kv_packed_numbers(cache->dim, cache->value_dim)};
    p.values = p.scores + bo_bf16_numbers(BO_PANEL, cache->dim);
    p.value_scores = p.values + bo_bf16_numbers(cache->value_dim, BO_PANEL);
    p.keys = p.value_scores + bo_bf16_numbers(BO_PANEL, cache->value_dim);
    return p;
}

/* Packs lines of `count` <= BO_PANEL floats, padded with zeros to BO_PANEL. */
static void pack_padded(const bo_micro_bf16 *micro, size_t lines, size_t count, const float *x, size_t ld, bool along,
                        uint16_t *out)
{
    const size_t filled = BO_BF16_LINES * bo_bf16_depth(count), sliver = BO_BF16_LINES * bo_bf16_depth(BO_PANEL);
    for (size_t i = 0; i < lines; i += BO_BF16_LINES, out += sliver) {
        micro->pack_b(bo_min(BO_BF16_LINES, lines - i), count, 1, along ? x + i * ld : x + i, ld, along, out);
        memset(out + filled, 0, (sliver - filled) * sizeof *out);
    }
}

/* Packs the first `count` slots of a panel. */
static void pack_panel(const bo_micro_bf16 *micro, const bo_kv_cache *cache, size_t panel, size_t count, bool backward)
{
    const size_t dim = cache->dim, value_dim = cache->value_dim;
    const float *keys = cache->keys + panel * BO_PANEL * dim, *values = cache->values + panel * BO_PANEL * value_dim;
    bo_kv_packed p = bo_kv_packed_at(cache, panel);
    micro->pack_b(count, dim, 1, keys, BO_PANEL, false, p.scores);
    pack_padded(micro, value_dim, count, values, value_dim, false, p.values);
    if (!backward) return;
    micro->pack_b(count, value_dim, 1, values, value_dim, true, p.value_scores);
    pack_padded(micro, dim, count, keys, BO_PANEL, true, p.keys);
}

void bo_kv_cache_pack(const bo_kernels *kernels, const bo_kv_cache *cache, size_t oldest, size_t first, size_t end,
                      bool backward)
{
    if (end - first > cache->ring) first = end - cache->ring;
    for (size_t at = first / BO_PANEL * BO_PANEL; at < end; at += BO_PANEL)
        if (at >= oldest)
            pack_panel(kernels->bf16, cache, at % cache->ring / BO_PANEL, bo_min(BO_PANEL, end - at), backward);
}

bo_kv_piece bo_kv_cache_piece(const bo_kv_cache *cache, size_t position, size_t end)
{
    size_t slot = position % cache->ring, count = slots_ahead(cache, slot);
    if (count > end - position) count = end - position;
    return (bo_kv_piece){key_slot(cache, slot), cache->values + slot * cache->value_dim, count, slot / BO_PANEL,
                         slot % BO_PANEL};
}

size_t bo_kv_cache_token(const bo_attention *attention, const bo_attention_inputs *in, size_t sequence, size_t key_head,
                         void *state)
{
    size_t tokens = (size_t)((const bo_state_header *)state)->tokens,
           row = sequence * attention->desc.key_heads + key_head;
    if (!in->k) return tokens;
    bo_kv_cache cache = bo_kv_cache_in(attention, state, key_head);
    bo_rows k = {(float *)in->k + row * cache.dim, cache.dim},
            v = {(float *)in->v + row * cache.value_dim, cache.value_dim};
    bo_kv_cache_append(attention->kernels, &cache, tokens, 1, k, v);
    return tokens + 1;
}

void bo_kv_cache_read(const bo_kernels *kernels, const bo_kv_cache *cache, size_t first, size_t count, float *keys,
                      float *values)
{
    for (size_t done = 0; done < count;) {
        bo_kv_piece piece = bo_kv_cache_piece(cache, first + done, first + count);
        kernels->transpose(cache->dim, piece.count, piece.keys, BO_PANEL, keys + done * cache->dim, cache->dim);
        memcpy(values + done * cache->value_dim, piece.values, piece.count * cache->value_dim * sizeof *values);
        done += piece.count;
    }
}

float *bo_kv_cache_gradient(const bo_attention *attention, const float *gradient, size_t key_head)
{
    const bo_attention_desc *desc = &attention->desc;
    size_t sums = desc->key_heads * attention->count * (desc->value_dim + 1);
    return (float *)gradient + sums + key_head * attention->cached_keys * (desc->dim + desc->value_dim);
}

/* ---- gates of cached keys ---------------------------------------------------------------------------------------- */

float *bo_cached_gates(const bo_attention *attention, const void *state, size_t key_head)
{
    const bo_attention_desc *desc = &attention->desc;
    char *cache = bo_state_cache(attention, (void *)state, key_head);
    return (float *)(cache + bo_kv_cache_bytes(attention->cached_keys, desc->dim, desc->value_dim));
}

void bo_cached_gates_read(const bo_attention *attention, const void *state, size_t key_head, size_t first, size_t count,
                          float *gates)
{
    const float *from = bo_cached_gates(attention, state, key_head);
    for (size_t i = 0; i < count; i++) gates[i] = from[(first + i) % attention->cached_keys];
}

void bo_cached_gates_append(const bo_attention *attention, void *state, size_t key_head, size_t position, size_t count,
                            bo_rows gates)
{
    float *to = bo_cached_gates(attention, state, key_head);
    for (size_t i = count > attention->cached_keys ? count - attention->cached_keys : 0; i < count; i++)
        to[(position + i) % attention->cached_keys] = gates.at[i * gates.stride];
}

double bo_cached_gates_entry(const bo_attention *attention, const void *state, size_t key_head, float gate)
{
    size_t slots = attention->cached_keys, first = (size_t)bo_attention_state_tokens(state) % slots;
    if (!attention->cached_gates) return gate < BO_MIN_LOG_GATE ? BO_NO_ENTRY : (double)slots * (double)gate;
    const float *cache = bo_cached_gates(attention, state, key_head);
    double sum = (double)bo_log_input(attention, bo_log_gate(cache + first)) + (double)gate;
    bool wiped = gate < BO_MIN_LOG_GATE;
    for (size_t i = 1; i < slots; i++) {
        float next = cache[first + i < slots ? first + i : first + i - slots];
        wiped |= next < BO_MIN_LOG_GATE;
        sum += (double)next;
    }
    return wiped ? BO_NO_ENTRY : sum;
}

float *bo_cached_gates_gradient(const bo_attention *attention, const float *gradient, size_t key_head)
{
    return bo_kv_cache_gradient(attention, gradient, attention->desc.key_heads) + key_head * attention->cached_gates;
}
