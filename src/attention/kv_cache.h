/* Keys and values of consecutive positions in the layout that softmax attention reads: keys transposed in panels,
 * values as rows. States (the KV cache) and scratch memory (the keys of a call) have the same layout.
 *
 * Position p is stored in slot p % ring, so that new keys overwrite those that have left the window. Slot s is column s
 * % 64 of panel s / 64: entry i of its key is keys[(s / 64 * dim + i) * 64 + s % 64], its value is values[s * value_dim
 * …]. */
#ifndef BO_ATTENTION_KV_CACHE_H
#define BO_ATTENTION_KV_CACHE_H

#include "internal.h"

enum { BO_PANEL = BO_SIZE(64, 8) }; /* keys per panel */

/* packed: a copy of the panels in the layouts of bfloat16 products (bo_kv_packed); NULL: none. A panel is packed when
 * its keys are loaded (bo_kv_cache_pack). Only caches in scratch memory have packed panels. */
typedef struct bo_kv_cache {
    float *keys, *values;
    size_t ring; /* number of slots */
    size_t dim, value_dim;
    uint16_t *packed;
} bo_kv_cache;

/* A panel as the right-hand factors (device/cpu/bf16.h) of q Kᵀ, P V, dO Vᵀ and dS K, from its first slot on. In P V
 * and dS K, which sum over the slots, slots after the last loaded slot are zero. */
typedef struct bo_kv_packed {
    uint16_t *scores, *values, *value_scores, *keys;
} bo_kv_packed;
/* Returns the length of a packed panel, in elements. */
size_t bo_kv_packed_numbers(size_t dim, size_t value_dim);
bo_kv_packed bo_kv_packed_at(const bo_kv_cache *cache, size_t panel);
/* Packs the panels of the positions first … end - 1, except those that start before `oldest`, the first position
 * that was stored. backward: with the factors of dO Vᵀ and dS K. */
void bo_kv_cache_pack(const bo_kernels *kernels, const bo_kv_cache *cache, size_t oldest, size_t first, size_t end,
                      bool backward);

/* Returns the bytes for a ring of `ring` slots, a multiple of 64. */
size_t bo_kv_cache_bytes(size_t ring, size_t dim, size_t value_dim);
bo_kv_cache bo_kv_cache_at(void *bytes, size_t ring, size_t dim, size_t value_dim);
/* Returns the cached keys of a key head in a state. */
bo_kv_cache bo_kv_cache_in(const bo_attention *attention, const void *state, size_t key_head);

/* Stores `count` keys and values, starting at `position`; if the ring has fewer slots, only the latest. */
void bo_kv_cache_append(const bo_kernels *kernels, const bo_kv_cache *cache, size_t position, size_t count,
                        bo_rows keys, bo_rows values);

/* Stores the token of a step (bo_attention_step) in a state, if the step has a key. Returns the number of tokens in the
 * state afterwards. */
size_t bo_kv_cache_token(const bo_attention *attention, const bo_attention_inputs *in, size_t sequence, size_t key_head,
                         void *state);
/* Copies keys (count x dim) and values (count x value_dim) of the positions from `first` on. */
void bo_kv_cache_read(const bo_kernels *kernels, const bo_kv_cache *cache, size_t first, size_t count, float *keys,
                      float *values);

/* Returns the oldest stored position after `tokens` tokens. */
static inline size_t bo_kv_cache_first(size_t tokens, size_t ring)
{
    return tokens > ring ? tokens - ring : 0;
}
/* Positions within one panel. */
typedef struct bo_kv_piece {
    const float *keys;   /* dim rows of `count`, stride BO_PANEL */
    const float *values; /* count x value_dim */
    size_t count;
    size_t panel, offset; /* its panel, and its first slot in the panel */
} bo_kv_piece;
/* Returns the longest piece that starts at `position` and ends before `end`. */
bo_kv_piece bo_kv_cache_piece(const bo_kv_cache *cache, size_t position, size_t end);

/* Returns the start of the gradients of a key head's cached keys in the gradient of a state. Row r belongs to the r-th
 * oldest key: first the key, then the value. */
float *bo_kv_cache_gradient(const bo_attention *attention, const float *gradient, size_t key_head);

/* ---- gates of cached keys ---------------------------------------------------------------------------------------- */

/* With a gate per token (cached_gates), the cached keys of a key head are followed by their log gates: position p in
 * slot p % ring. A key that leaves the window enters the sums with the product of the gates after it (stream.h). */

/* Returns the log gates of a key head in a state (cached_gates floats). */
float *bo_cached_gates(const bo_attention *attention, const void *state, size_t key_head);
/* Copies the log gates of `count` positions from `first` on. */
void bo_cached_gates_read(const bo_attention *attention, const void *state, size_t key_head, size_t first, size_t count,
                          float *gates);
/* Stores `count` log gates, starting at `position`; if the ring has fewer slots, only the latest. */
void bo_cached_gates_append(const bo_attention *attention, void *state, size_t key_head, size_t position, size_t count,
                            bo_rows gates);
/* Returns the log weight with which the oldest key of a full window enters the sums, at a token with log gate `gate`;
 * also with gate FIXED. */
double bo_cached_gates_entry(const bo_attention *attention, const void *state, size_t key_head, float gate);
/* Returns the start of the gradients of a key head's log gates in the gradient of a state, oldest first. */
float *bo_cached_gates_gradient(const bo_attention *attention, const float *gradient, size_t key_head);

#endif
