/* Softmax attention over explicit keys, a tile of queries at a time: online softmax (arXiv 1805.02867, 2205.14135).
 * Softmax attention uses only this code. The hybrid adds features with the same denominator, so numerator, sum and top
 * are accessible.
 *
 * Row r of a tile is the query at position + r and sees the positions visible_begin <= p < visible_end:
 *     weight of key j = exp(q_r·k_j) or |q_r·k_j|^p = exp(p log|q_r·k_j|),
 *     numerator_r = Σ_j weight v_j / exp(top_r),   sum_r = Σ_j weight / exp(top_r).
 * Invisible keys enter neither maxima nor sums, and tiles start at fixed positions, so the bits of a row do not depend
 * on later tokens. */
#ifndef BO_ATTENTION_SOFTMAX_H
#define BO_ATTENTION_SOFTMAX_H

#include "../math/block.h"
#include "kv_cache.h"

enum {
    BO_SOFTMAX_TILE = BO_SIZE(128, 8), /* maximum queries per tile; tiles end at multiples of it */
    /* maximum rows whose scores are computed and used while they are in the first-level cache */
    BO_SOFTMAX_BLOCK = BO_SIZE(32, 4),
    BO_SOFTMAX_PACKED = BO_SIZE(64, 8),   /* the same for packed panels, forward … */
    BO_SOFTMAX_ROUNDED = BO_SIZE(128, 8), /* … and backward */
};

_Static_assert(BO_SOFTMAX_PACKED % BO_BF16_LINES == 0 || BO_SOFTMAX_PACKED >= BO_SOFTMAX_TILE, "blocks are slivers");
_Static_assert(BO_SOFTMAX_ROUNDED % BO_BF16_LINES == 0 || BO_SOFTMAX_ROUNDED >= BO_SOFTMAX_TILE, "blocks are slivers");

/* ---- a tile of queries ------------------------------------------------------------------------------------------- */

/* Invariants: rows <= BO_SOFTMAX_TILE; arrays are contiguous; sum == 0 and top == -INFINITY before the first key. */
typedef struct bo_softmax_tile {
    const bo_kernels *kernels;
    bo_multiplier products;
    size_t dim, value_dim;
    size_t block; /* maximum rows whose scores are computed together */
    size_t rows, position;
    bool causal;      /* false: every row sees every position */
    size_t window;    /* causal: number of latest visible positions, including the current one; 0: all */
    float power;      /* p; 0: weights are exponentials */
    float slack;      /* scores may exceed top by this amount; 0: top is the largest score so far */
    float *q;         /* rows x dim, multiplied by the scale */
    float *top, *sum; /* one number per row */
    float *numerator; /* rows x value_dim */
    float *scores;    /* block x BO_PANEL */
    /* with packed panels of keys: q as a left-hand factor, and the weights of a block; else NULL */
    uint16_t *packed_q, *weights;
} bo_softmax_tile;

/* Returns a tile with arrays from the carver and zeros elsewhere. */
bo_softmax_tile bo_softmax_carve(const bo_attention *attention, bo_carver *carver);
/* Computes the products of this tile in float32: for few queries, packing the keys takes longer. */
void bo_softmax_unpacked(bo_softmax_tile *tile);
/* Fills q and resets the sums. False: a query contains NaN or infinity. */
bool bo_softmax_begin(bo_softmax_tile *tile, size_t position, size_t rows, bo_rows q, double scale);
/* Adds the keys at positions first … end - 1; `kept` contains all keys that a row sees. */
void bo_softmax_add(const bo_softmax_tile *tile, const bo_kv_cache *kept, size_t first, size_t end);

/* ---- its gradient ------------------------------------------------------------------------------------------------ */

/* With P_j = weight / denominator, where the denominator may contain other terms: dS_j = P_j (dO·v_j - δ), δ = dO·O. dO
 * and δ are divided by the tape's sum beforehand, so that exp(s - top) replaces P. With a power the gradient of a
 * product x = q·k is dS p / x, and 0 if x is 0. */
typedef struct bo_softmax_gradient {
    float *dout;                   /* rows x value_dim: dO / sum */
    float *delta;                  /* one number per row: δ / sum */
    bo_rows dq;                    /* dS K is added, without the scale. NULL: not requested */
    double *total;                 /* Σ dS is added: the gradient of a log weight on all keys. NULL: not requested */
    float *dscores;                /* block x BO_PANEL */
    float *products;               /* with a power: q·k of the block; else NULL */
    float *key_rows, *value_panel; /* transposes of a piece: BO_PANEL x dim, value_dim x BO_PANEL */
    /* with packed panels of keys: dO as a left-hand factor; dO and q as right-hand factors, one panel per block of
     * BO_SOFTMAX_ROUNDED rows; weights or dS of a block as a left-hand factor; else NULL */
    uint16_t *dout_rows, *dout_columns, *q_columns, *turned;
} bo_softmax_gradient;

bo_softmax_gradient bo_softmax_carve_gradient(const bo_attention *attention, bo_carver *carver);
/* Like bo_softmax_add; top is the top of the forward pass minus the log weight of the keys in the denominator. dk, dv:
 * rows to which the gradients are added, starting with the key at position `first`; NULL: not requested. */
void bo_softmax_add_gradient(const bo_softmax_tile *tile, const bo_softmax_gradient *gradient, const bo_kv_cache *kept,
                             size_t first, size_t end, bo_rows dk, bo_rows dv);

/* ---- the keys of a task ------------------------------------------------------------------------------------------ */

/* The keys of one (sequence, key head): first the keys in the initial state, then the keys of the call, which are
 * loaded into scratch memory as queries reach them. */
typedef struct bo_softmax_keys {
    const bo_call *call;
    size_t sequence, key_head;
    size_t old;       /* tokens of the initial state: keys of the call have positions old, old + 1, … */
    size_t count;     /* keys of the call */
    size_t loaded;    /* keys of the call that are in `fresh` */
    size_t begun;     /* if not 0: the index of the first loaded key plus 1 */
    bo_kv_cache kept; /* keys in the initial state; keys == NULL: none */
    bo_kv_cache fresh;
    bo_rows k, v; /* keys and values of the call */
} bo_softmax_keys;

/* A cache of `ring` slots, a multiple of BO_PANEL, in scratch memory. */
bo_kv_cache bo_softmax_carve_cache(const bo_attention *attention, size_t ring, bo_carver *carver);
/* Allocates memory for up to `longest` keys of a call, if the keys that `span` queries see are loaded together. */
bo_kv_cache bo_softmax_carve_keys(const bo_attention *attention, size_t longest, size_t span, bo_carver *carver);
bo_softmax_keys bo_softmax_keys_of(const bo_call *call, size_t sequence, size_t key_head, bo_kv_cache fresh);
/* Loads the call's keys before `end`. False: a key contains NaN or infinity. */
bool bo_softmax_load(bo_softmax_keys *keys, size_t end);
/* Adds all loaded keys that the tile sees. */
void bo_softmax_add_keys(const bo_softmax_tile *tile, const bo_softmax_keys *keys);
/* Adds the call's keys to the final state if it is requested. The final state already contains the keys of the initial
 * state. */
void bo_softmax_store_keys(const bo_softmax_keys *keys);

/* Backward: initializes the gradients of keys and values with those of the final state. */
void bo_softmax_begin_gradients(const bo_softmax_keys *keys);
/* Backward: adds the gradients from one tile. */
void bo_softmax_add_keys_gradient(const bo_softmax_tile *tile, const bo_softmax_gradient *gradient,
                                  const bo_softmax_keys *keys);

/* Returns the end of the tile that starts at query `t`. */
static inline size_t bo_softmax_tile_end(size_t old, size_t t, size_t queries)
{
    size_t end = t + BO_SOFTMAX_TILE - (old + t) % BO_SOFTMAX_TILE;
    return end < queries ? end : queries;
}

#endif
