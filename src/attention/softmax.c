/* Softmax attention over explicit keys: their storage, and a tile of queries over a panel of keys. */
#include "softmax.h"
#include <assert.h>
#include <string.h>
#include <float.h>
#include <math.h>

/* ---- keys -------------------------------------------------------------------------------------------------------- */

/* The keys of one (sequence, key head), from the initial state and from the call; storing them in the final state; and
 * gradients of all of them. */

static size_t panels_up(size_t slots)
{
    return (slots + BO_PANEL - 1) / BO_PANEL * BO_PANEL;
}

/* True if panels of keys are packed for products in bfloat16. Powers are computed block by block. */
static bool packs(const bo_attention *attention)
{
    return attention->precision == BO_PRECISION_BFLOAT16 && !(attention->traits & BO_TRAIT_POWER);
}

bo_kv_cache bo_softmax_carve_cache(const bo_attention *attention, size_t ring, bo_carver *carver)
{
    const bo_attention_desc *desc = &attention->desc;
    void *bytes = bo_carve(carver, bo_kv_cache_bytes(ring, desc->dim, desc->value_dim), 1), *packed = NULL;
    if (packs(attention))
        packed = bo_carve(carver, ring / BO_PANEL * bo_kv_packed_numbers(desc->dim, desc->value_dim), sizeof(uint16_t));
    if (!bytes) return (bo_kv_cache){.ring = ring};
    bo_kv_cache kept = bo_kv_cache_at(bytes, ring, desc->dim, desc->value_dim);
    kept.packed = packed;
    return kept;
}

/* With a window, `span` queries see at most window + span positions. */
bo_kv_cache bo_softmax_carve_keys(const bo_attention *attention, size_t longest, size_t span, bo_carver *carver)
{
    const bo_attention_desc *desc = &attention->desc;
    size_t ring = panels_up(longest ? longest : 1), visible_span = panels_up(desc->window + span);
    if (desc->window && visible_span < ring) ring = visible_span;
    return bo_softmax_carve_cache(attention, ring, carver);
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
    if (!keys->begun) keys->begun = first + 1;
    if (keys->fresh.packed)
        bo_kv_cache_pack(kernels, &keys->fresh, keys->old + keys->begun - 1, keys->old + first, keys->old + end,
                         keys->call->gradients != NULL);
    keys->loaded = end;
    return bo_rows_finite(kernels, count, keys->fresh.dim, k.at, k.stride) &&
           bo_rows_finite(kernels, count, keys->fresh.value_dim, v.at, v.stride);
}

static size_t oldest(const bo_softmax_keys *keys, size_t tokens)
{
    return bo_kv_cache_first(tokens, keys->call->attention->cached_keys);
}

void bo_softmax_add_keys(const bo_softmax_tile *tile, const bo_softmax_keys *keys)
{
    if (keys->old) bo_softmax_add(tile, &keys->kept, oldest(keys, keys->old), keys->old);
    bo_softmax_add(tile, &keys->fresh, keys->old, keys->old + keys->loaded);
}

void bo_softmax_store_keys(const bo_softmax_keys *keys)
{
    const bo_call *call = keys->call;
    if (!call->final) return;
    bo_kv_cache final = bo_kv_cache_in(call->attention, call->final[keys->sequence], keys->key_head);
    bo_kv_cache_append(call->kernels, &final, keys->old, keys->count, keys->k, keys->v);
}

/* ---- gradients --------------------------------------------------------------------------------------------------- */

/* Destinations of the gradients of keys and values: those of the call, or those in the initial state. */
typedef struct key_gradients {
    bo_rows k, v;
} key_gradients;

static key_gradients call_gradients(const bo_softmax_keys *keys)
{
    const bo_call *call = keys->call;
    const bo_attention_desc *desc = &call->attention->desc;
    size_t heads = desc->key_heads, sequence = keys->sequence, head = keys->key_head;
    return (key_gradients){bo_rows_at(call, call->gradients->k, heads, desc->dim, true, sequence, head),
                           bo_rows_at(call, call->gradients->v, heads, desc->value_dim, true, sequence, head)};
}

/* Returns the rows of a state's gradient, oldest first. */
static key_gradients state_gradients(const bo_softmax_keys *keys, const float *gradient)
{
    if (!gradient) return (key_gradients){{NULL, 0}, {NULL, 0}};
    const bo_attention_desc *desc = &keys->call->attention->desc;
    float *rows = bo_kv_cache_gradient(keys->call->attention, gradient, keys->key_head);
    size_t stride = desc->dim + desc->value_dim;
    return (key_gradients){{rows, stride}, {rows + desc->dim, stride}};
}

static key_gradients initial_gradients(const bo_softmax_keys *keys)
{
    float *const *initial = keys->call->gradients->initial;
    return state_gradients(keys, initial ? initial[keys->sequence] : NULL);
}

/* Copies to (rows first … end - 1) from `from`, starting at its first row; zeros if from is NULL. */
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

static void set_gradients(const bo_softmax_keys *keys, key_gradients to, size_t first, size_t end, key_gradients from)
{
    set_rows(to.k, first, end, keys->call->attention->desc.dim, from.k);
    set_rows(to.v, first, end, keys->call->attention->desc.value_dim, from.v);
}

void bo_softmax_begin_gradients(const bo_softmax_keys *keys)
{
    const bo_call *call = keys->call;
    const key_gradients none = {{NULL, 0}, {NULL, 0}};
    key_gradients from_call = call_gradients(keys), initial = initial_gradients(keys);
    set_gradients(keys, from_call, 0, keys->count, none);
    set_gradients(keys, initial, 0, call->attention->cached_keys, none);
    if (!call->d_final || !call->d_final[keys->sequence]) return;

    key_gradients final = state_gradients(keys, call->d_final[keys->sequence]);
    size_t tokens = keys->old + keys->count, first = oldest(keys, tokens), before = oldest(keys, keys->old);
    size_t from_old =
        first < keys->old ? keys->old - first : 0; /* rows of the final state that were in the initial state */
    if (from_old) set_gradients(keys, initial, first - before, first - before + from_old, final);
    key_gradients from_new = {bo_rows_from(final.k, from_old), bo_rows_from(final.v, from_old)};
    set_gradients(keys, from_call, first + from_old - keys->old, keys->count, from_new);
}

void bo_softmax_add_keys_gradient(const bo_softmax_tile *tile, const bo_softmax_gradient *gradient,
                                  const bo_softmax_keys *keys)
{
    key_gradients from_call = call_gradients(keys), initial = initial_gradients(keys);
    if (keys->old) {
        bo_softmax_add_gradient(tile, gradient, &keys->kept, oldest(keys, keys->old), keys->old, initial.k, initial.v);
    }
    bo_softmax_add_gradient(tile, gradient, &keys->fresh, keys->old, keys->old + keys->loaded, from_call.k,
                            from_call.v);
}

/* ---- a tile ------------------------------------------------------------------------------------------------------ */

/* Online softmax on a tile of queries: scores of a panel of keys, their maximum, exp, the weighted sum of values. */

/* In bfloat16 blocks are taller, because the gradients of keys load and store a panel for each block. */
static size_t block_rows(const bo_attention *attention)
{
    return attention->precision == BO_PRECISION_BFLOAT16 ? BO_SOFTMAX_ROUNDED : BO_SOFTMAX_BLOCK;
}

bo_softmax_tile bo_softmax_carve(const bo_attention *attention, bo_carver *carver)
{
    bo_softmax_tile tile = {
        .kernels = attention->kernels, .dim = attention->desc.dim, .value_dim = attention->desc.value_dim};
    if (attention->traits & BO_TRAIT_POWER) tile.power = (float)attention->desc.power;
    tile.products = bo_multiplier_make(attention->kernels, attention->precision, carver);
    tile.block = block_rows(attention);
    tile.q = bo_carve_floats(carver, BO_SOFTMAX_TILE * tile.dim);
    tile.top = bo_carve_floats(carver, BO_SOFTMAX_TILE);
    tile.sum = bo_carve_floats(carver, BO_SOFTMAX_TILE);
    tile.numerator = bo_carve_floats(carver, BO_SOFTMAX_TILE * tile.value_dim);
    tile.scores = bo_carve_floats(carver, tile.block * BO_PANEL);
    if (!packs(attention)) return tile;
    tile.packed_q = bo_carve(carver, bo_bf16_numbers(BO_SOFTMAX_TILE, tile.dim), sizeof *tile.packed_q);
    tile.weights = bo_carve(carver, bo_bf16_numbers(BO_SOFTMAX_PACKED, BO_PANEL), sizeof *tile.weights);
    return tile;
}

void bo_softmax_unpacked(bo_softmax_tile *tile)
{
    tile->products.panels = NULL;
    tile->packed_q = NULL;
}

bool bo_softmax_begin(bo_softmax_tile *tile, size_t position, size_t rows, bo_rows q, double scale)
{
    tile->position = position;
    assert(rows <= BO_SOFTMAX_TILE);
    tile->rows = rows;
    for (size_t r = 0; r < rows; r++) {
        tile->kernels->scale(tile->dim, (float)scale, q.at + r * q.stride, tile->q + r * tile->dim);
        tile->top[r] = -INFINITY;
        tile->sum[r] = 0.0f;
    }
    memset(tile->numerator, 0, rows * tile->value_dim * sizeof *tile->numerator);
    if (tile->packed_q) tile->kernels->bf16->pack_a(rows, tile->dim, 1, tile->q, tile->dim, true, tile->packed_q);
    return tile->kernels->finite(rows * tile->dim, tile->q);
}

static size_t visible_end(const bo_softmax_tile *tile, size_t row)
{
    return tile->causal ? tile->position + row + 1 : SIZE_MAX;
}

static size_t visible_begin(const bo_softmax_tile *tile, size_t row)
{
    size_t end = tile->position + row + 1;
    return tile->causal && tile->window && end > tile->window ? end - tile->window : 0;
}

/* Some rows of a tile, and the columns of a piece that are visible to at least one of the rows: positions low … high -
 * 1. */
typedef struct block {
    size_t row, rows, low, high;
    const float *keys; /* same layout as in a piece */
    size_t skipped;    /* columns of the piece before low */
} block;

/* Fewer rows per block if the visible range ends within the piece, so that fewer invisible scores are computed. */
enum { EDGE_ROWS = BO_SIZE(16, 2) };

/* False: no row sees any position. */
static bool block_of(const bo_softmax_tile *tile, size_t row, size_t position, const bo_kv_piece *piece, block *b)
{
    size_t end = position + piece->count;
    bool interior = visible_begin(tile, row + tile->block - 1) <= position && visible_end(tile, row) >= end;
    b->row = row;
    size_t edge = bo_multiplier_rounds(&tile->products) ? tile->block : EDGE_ROWS;
    b->rows = bo_min(interior ? tile->block : edge, tile->rows - row);
    b->low = bo_max(position, visible_begin(tile, row));
    b->high = bo_min(end, visible_end(tile, row + b->rows - 1));
    if (b->low >= b->high) return false;
    b->skipped = b->low - position;
    b->keys = piece->keys + b->skipped;
    return true;
}

static void score(const bo_softmax_tile *tile, const block *b)
{
    bo_multiply(&tile->products, b->rows, b->high - b->low, tile->dim, tile->q + b->row * tile->dim, tile->dim, 1,
                b->keys, BO_PANEL, false, tile->scores, BO_PANEL);
}

/* The visible columns of one row in a block: from … from + count - 1. */
typedef struct span {
    size_t from, count;
} span;

/* Sets the invisible entries of `x` to 0. */
static span visible_span(const bo_softmax_tile *tile, const block *b, size_t i, float *x)
{
    size_t width = b->high - b->low;
    size_t from = bo_min(bo_max(b->low, visible_begin(tile, b->row + i)), b->high) - b->low;
    size_t end = bo_max(bo_min(b->high, visible_end(tile, b->row + i)), b->low + from) - b->low;
    if (from) memset(x, 0, from * sizeof *x);
    if (end < width) memset(x + end, 0, (width - end) * sizeof *x);
    return (span){from, end - from};
}

/* Makes `top` the reference of row r; earlier sums are multiplied by exp(top_r - top). */
static void raise_top(const bo_softmax_tile *tile, size_t r, float top)
{
    float *numerator = tile->numerator + r * tile->value_dim;
    if (tile->sum[r] > 0.0f) {
        float factor = expf(tile->top[r] - top);
        tile->sum[r] *= factor;
        tile->kernels->scale(tile->value_dim, factor, numerator, numerator);
    }
    tile->top[r] = top;
}

/* Replaces scores by weights relative to exp(top). */
static void weigh(const bo_softmax_tile *tile, const block *b)
{
    for (size_t i = 0; i < b->rows; i++) {
        size_t r = b->row + i;
        float *scores = tile->scores + i * BO_PANEL;
        span s = visible_span(tile, b, i, scores);
        if (!s.count) continue;
        if (tile->power > 0) tile->kernels->log_size(s.count, tile->power, scores + s.from, scores + s.from);
        float top = tile->kernels->max(s.count, scores + s.from);
        if (top == -INFINITY) { /* powers of 0: all weights are 0 */
            memset(scores + s.from, 0, s.count * sizeof *scores);
            continue;
        }
        if (top > tile->top[r] + tile->slack) raise_top(tile, r, top);
        tile->sum[r] += tile->kernels->exp_sum(s.count, scores + s.from, -tile->top[r], scores + s.from);
    }
}

/* ---- packed panels ----------------------------------------------------------------------------------------------- */

/* Computes the weights of a block relative to exp(top), rounded, as slivers of A. */
static void weigh_packed(const bo_softmax_tile *tile, const block *b)
{
    for (size_t i = 0; i < b->rows; i++) {
        size_t r = b->row + i;
        float *scores = tile->scores + i * BO_PANEL, top = -INFINITY;
        uint16_t *line = tile->weights + i / BO_BF16_LINES * BO_BF16_LINES * bo_bf16_depth(BO_PANEL) +
                         i % BO_BF16_LINES * BO_BF16_DEPTH;
        size_t from = bo_min(bo_max(b->low, visible_begin(tile, r)), b->high) - b->low;
        size_t end = bo_max(bo_min(b->high, visible_end(tile, r)), b->low + from) - b->low;
        if (end > from) top = tile->kernels->max(end - from, scores + from);
        if (top > tile->top[r] + tile->slack) raise_top(tile, r, top);
        for (size_t j = 0; j < from; j++) scores[j] = -INFINITY;
        size_t count = end > from ? end : 0;
        float shift = count ? -tile->top[r] : 0;
        tile->sum[r] += tile->kernels->bf16->exp_line(count, scores, shift, bo_bf16_depth(BO_PANEL), line);
    }
}

/* Adds the keys of one packed panel, from its first slot on, to a block of rows. */
static void add_panel(const bo_softmax_tile *tile, const block *b, const bo_kv_packed *packed)
{
    const size_t dim = tile->dim, value_dim = tile->value_dim;
    bo_multiply_panels(tile->kernels->bf16, b->rows, b->high - b->low, dim,
                       tile->packed_q + b->row * bo_bf16_depth(dim), packed->scores, false, tile->scores, BO_PANEL);
    weigh_packed(tile, b);
    bo_multiply_panels(tile->kernels->bf16, b->rows, value_dim, BO_PANEL, tile->weights, packed->values, true,
                       tile->numerator + b->row * value_dim, value_dim);
}

/* Adds the keys of packed panels, from the first slot of one on. The sums of a block of rows stay in the first-level
 * cache. */
static void add_packed(const bo_softmax_tile *tile, const bo_kv_cache *kept, size_t first, size_t end)
{
    bo_bf16_prepare(tile->kernels->bf16);
    for (size_t row = 0; row < tile->rows; row += BO_SOFTMAX_PACKED) {
        block b = {.row = row, .rows = bo_min(BO_SOFTMAX_PACKED, tile->rows - row)};
        const size_t last = bo_min(end, visible_end(tile, row + b.rows - 1)), from = visible_begin(tile, row);
        bo_kv_piece piece;
        for (b.low = first; b.low < last; b.low += piece.count) {
            piece = bo_kv_cache_piece(kept, b.low, end);
            b.high = bo_min(b.low + piece.count, last);
            bo_kv_packed packed = bo_kv_packed_at(kept, piece.panel);
            if (b.high > from) add_panel(tile, &b, &packed);
        }
    }
}

void bo_softmax_add(const bo_softmax_tile *tile, const bo_kv_cache *kept, size_t first, size_t end)
{
    first = bo_max(first, visible_begin(tile, 0));
    end = bo_min(end, visible_end(tile, tile->rows - 1));
    bo_kv_piece piece;
    for (size_t at = first; at < end; at += piece.count) {
        piece = bo_kv_cache_piece(kept, at, end);
        if (kept->packed && piece.offset == 0) { /* all later pieces also start at slot 0 */
            add_packed(tile, kept, at, end);
            return;
        }
        block b;
        for (size_t row = 0; row < tile->rows; row += b.rows) {
            if (!block_of(tile, row, at, &piece, &b)) continue;
            score(tile, &b);
            weigh(tile, &b);
            bo_multiply(&tile->products, b.rows, tile->value_dim, b.high - b.low, tile->scores, BO_PANEL, 1,
                        piece.values + b.skipped * tile->value_dim, tile->value_dim, true,
                        tile->numerator + row * tile->value_dim, tile->value_dim);
        }
    }
}

/* ---- gradient ---------------------------------------------------------------------------------------------------- */

bo_softmax_gradient bo_softmax_carve_gradient(const bo_attention *attention, bo_carver *carver)
{
    size_t dim = attention->desc.dim, value_dim = attention->desc.value_dim;
    bo_softmax_gradient gradient = {.total = NULL};
    gradient.dout = bo_carve_floats(carver, BO_SOFTMAX_TILE * value_dim);
    gradient.delta = bo_carve_floats(carver, BO_SOFTMAX_TILE);
    gradient.dscores = bo_carve_floats(carver, block_rows(attention) * BO_PANEL);
    if (attention->traits & BO_TRAIT_POWER)
        gradient.products = bo_carve_floats(carver, block_rows(attention) * BO_PANEL);
    gradient.key_rows = bo_carve_floats(carver, BO_PANEL * dim);
    gradient.value_panel = bo_carve_floats(carver, BO_PANEL * value_dim);
    if (!packs(attention)) return gradient;
    size_t blocks = bo_ceil_div(BO_SOFTMAX_TILE, BO_SOFTMAX_ROUNDED);
    gradient.dout_rows = bo_carve(carver, bo_bf16_numbers(BO_SOFTMAX_TILE, value_dim), sizeof(uint16_t));
    gradient.dout_columns = bo_carve(carver, blocks * bo_bf16_numbers(value_dim, BO_SOFTMAX_ROUNDED), sizeof(uint16_t));
    gradient.q_columns = bo_carve(carver, blocks * bo_bf16_numbers(dim, BO_SOFTMAX_ROUNDED), sizeof(uint16_t));
    gradient.turned =
        bo_carve(carver, bo_bf16_numbers(bo_max(BO_PANEL, BO_SOFTMAX_ROUNDED), bo_max(BO_PANEL, BO_SOFTMAX_ROUNDED)),
                 sizeof(uint16_t));
    return gradient;
}

/* Replaces scores by weights P, and dscores, which contain dO·v, by dS = P (dO·v - δ). */
static void finish_dscores(const bo_softmax_tile *tile, const bo_softmax_gradient *gradient, const block *b)
{
    for (size_t i = 0; i < b->rows; i++) {
        size_t r = b->row + i;
        float *weights = tile->scores + i * BO_PANEL, *dscores = gradient->dscores + i * BO_PANEL,
              delta = gradient->delta[r];
        span s = visible_span(tile, b, i, weights);
        visible_span(tile, b, i, dscores);
        weights += s.from;
        dscores += s.from;
        float *products = gradient->products ? gradient->products + i * BO_PANEL : NULL;
        if (products) {
            memcpy(products, weights, s.count * sizeof *products);
            tile->kernels->log_size(s.count, tile->power, weights, weights);
        }
        float sum = tile->kernels->exp_sum(s.count, weights, -tile->top[r], weights);
        if (gradient->total)
            *gradient->total += tile->kernels->dot(s.count, weights, dscores) - (double)delta * (double)sum;
        for (size_t j = 0; j < s.count; j++) dscores[j] = weights[j] * (dscores[j] - delta);
        for (size_t j = 0; products && j < s.count; j++)
            dscores[j] = fabsf(products[j]) >= FLT_MIN ? dscores[j] * tile->power / products[j] : 0;
    }
}

static void add_block_slope(const bo_softmax_tile *tile, const bo_softmax_gradient *gradient, const block *b,
                            bo_rows dk, bo_rows dv)
{
    size_t dim = tile->dim, value_dim = tile->value_dim, keys = b->high - b->low;
    const float *q = tile->q + b->row * dim, *dout = gradient->dout + b->row * value_dim;
    score(tile, b);
    bo_multiply(&tile->products, b->rows, keys, value_dim, dout, value_dim, 1, gradient->value_panel + b->skipped,
                BO_PANEL, false, gradient->dscores, BO_PANEL);
    finish_dscores(tile, gradient, b);
    if (dv.at) {
        bo_multiply(&tile->products, keys, value_dim, b->rows, tile->scores, 1, BO_PANEL, dout, value_dim, true, dv.at,
                    dv.stride);
    }
    if (dk.at)
        bo_multiply(&tile->products, keys, dim, b->rows, gradient->dscores, 1, BO_PANEL, q, dim, true, dk.at,
                    dk.stride);
    if (gradient->dq.at) {
        bo_multiply(&tile->products, b->rows, dim, keys, gradient->dscores, BO_PANEL, 1,
                    gradient->key_rows + b->skipped * dim, dim, true, gradient->dq.at + b->row * gradient->dq.stride,
                    gradient->dq.stride);
    }
}

/* Packs dO and q of the tile, in the layouts of all products. */
static void pack_tile(const bo_softmax_tile *tile, const bo_softmax_gradient *gradient)
{
    const bo_micro_bf16 *micro = tile->kernels->bf16;
    const size_t dim = tile->dim, value_dim = tile->value_dim;
    micro->pack_a(tile->rows, value_dim, 1, gradient->dout, value_dim, true, gradient->dout_rows);
    for (size_t row = 0, i = 0; row < tile->rows; row += BO_SOFTMAX_ROUNDED, i++) {
        size_t rows = bo_min(BO_SOFTMAX_ROUNDED, tile->rows - row);
        micro->pack_b(value_dim, rows, 1, gradient->dout + row * value_dim, value_dim, false,
                      gradient->dout_columns + i * bo_bf16_numbers(value_dim, BO_SOFTMAX_ROUNDED));
        micro->pack_b(dim, rows, 1, tile->q + row * dim, dim, false,
                      gradient->q_columns + i * bo_bf16_numbers(dim, BO_SOFTMAX_ROUNDED));
    }
}

/* Adds the gradients through the keys of a packed panel, from its first slot on. */
static void add_packed_slope(const bo_softmax_tile *tile, const bo_softmax_gradient *gradient, const bo_kv_cache *kept,
                             size_t at, const bo_kv_piece *piece, bo_rows dk, bo_rows dv)
{
    const bo_micro_bf16 *micro = tile->kernels->bf16;
    const bo_kv_packed packed = bo_kv_packed_at(kept, piece->panel);
    bo_bf16_prepare(tile->kernels->bf16);
    const size_t dim = tile->dim, value_dim = tile->value_dim, last = at + piece->count;
    for (size_t row = 0, i = 0; row < tile->rows; row += BO_SOFTMAX_ROUNDED, i++) {
        block b = {.row = row, .rows = bo_min(BO_SOFTMAX_ROUNDED, tile->rows - row), .low = at};
        b.high = bo_min(last, visible_end(tile, row + b.rows - 1));
        if (b.high <= bo_max(at, visible_begin(tile, row))) continue;
        const size_t keys = b.high - at;
        bo_multiply_panels(tile->kernels->bf16, b.rows, keys, dim, tile->packed_q + row * bo_bf16_depth(dim),
                           packed.scores, false, tile->scores, BO_PANEL);
        bo_multiply_panels(tile->kernels->bf16, b.rows, keys, value_dim,
                           gradient->dout_rows + row * bo_bf16_depth(value_dim), packed.value_scores, false,
                           gradient->dscores, BO_PANEL);
        finish_dscores(tile, gradient, &b);
        if (dv.at) {
            micro->pack_a(keys, b.rows, 1, tile->scores, BO_PANEL, false, gradient->turned);
            bo_multiply_panels(tile->kernels->bf16, keys, value_dim, b.rows, gradient->turned,
                               gradient->dout_columns + i * bo_bf16_numbers(value_dim, BO_SOFTMAX_ROUNDED), true, dv.at,
                               dv.stride);
        }
        if (dk.at) {
            micro->pack_a(keys, b.rows, 1, gradient->dscores, BO_PANEL, false, gradient->turned);
            bo_multiply_panels(tile->kernels->bf16, keys, dim, b.rows, gradient->turned,
                               gradient->q_columns + i * bo_bf16_numbers(dim, BO_SOFTMAX_ROUNDED), true, dk.at,
                               dk.stride);
        }
        if (gradient->dq.at) {
            for (size_t r = 0; keys < BO_PANEL && r < b.rows; r++)
                memset(gradient->dscores + r * BO_PANEL + keys, 0, (BO_PANEL - keys) * sizeof *gradient->dscores);
            micro->pack_a(b.rows, BO_PANEL, 1, gradient->dscores, BO_PANEL, true, gradient->turned);
            bo_multiply_panels(tile->kernels->bf16, b.rows, dim, BO_PANEL, gradient->turned, packed.keys, true,
                               gradient->dq.at + row * gradient->dq.stride, gradient->dq.stride);
        }
    }
}

void bo_softmax_add_gradient(const bo_softmax_tile *tile, const bo_softmax_gradient *gradient, const bo_kv_cache *kept,
                             size_t first, size_t end, bo_rows dk, bo_rows dv)
{
    if (kept->packed) pack_tile(tile, gradient);
    size_t at = bo_max(first, visible_begin(tile, 0));
    end = bo_min(end, visible_end(tile, tile->rows - 1));
    for (bo_kv_piece piece; at < end; at += piece.count) {
        piece = bo_kv_cache_piece(kept, at, end);
        if (kept->packed && piece.offset == 0) {
            add_packed_slope(tile, gradient, kept, at, &piece, bo_rows_from(dk, at - first),
                             bo_rows_from(dv, at - first));
            continue;
        }
        tile->kernels->transpose(tile->dim, piece.count, piece.keys, BO_PANEL, gradient->key_rows, tile->dim);
        tile->kernels->transpose(piece.count, tile->value_dim, piece.values, tile->value_dim, gradient->value_panel,
                                 BO_PANEL);
        block b;
        for (size_t row = 0; row < tile->rows; row += b.rows) {
            if (!block_of(tile, row, at, &piece, &b)) continue;
            size_t skipped = b.low - first;
            add_block_slope(tile, gradient, &b, bo_rows_from(dk, skipped), bo_rows_from(dv, skipped));
        }
    }
}
