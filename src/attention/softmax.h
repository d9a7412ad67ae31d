/* Softmax over explicit keys, a tile of queries at a time: online softmax (1805.02867, 2205.14135). Exact attention is
 * this alone; the hybrid adds features under the same denominator, which is why numerator, sum and top are open to see.
 *
 * Row r of a tile stands for the query at position + r and sees the positions seen_from <= p < seen_end:
 *     weight of key j = exp(q_r·k_j) or |q_r·k_j|^p = exp(p log|q_r·k_j|),   numerator_r = Σ_j weight v_j / exp(top_r),   sum_r = Σ_j weight / exp(top_r).
 * A weight that is not seen enters nothing, neither maxima nor sums, and tiles begin at fixed positions: the bits of a
 * row do not depend on later tokens. */
#ifndef BO_ATTENTION_SOFTMAX_H
#define BO_ATTENTION_SOFTMAX_H

#include "kv_cache.h"

enum {
    BO_SOFTMAX_TILE = BO_SIZE(128, 8), /* most queries in a tile; tiles end at multiples of it */
    /* most rows whose scores are made and used while they are in the first-level cache */
    BO_SOFTMAX_BLOCK = BO_SIZE(32, 4),
};

/* ---- a tile of queries ----------------------------------------------------------------------------------------- */

/* Invariants: rows <= BO_SOFTMAX_TILE; arrays are contiguous; sum == 0, top == -INFINITY where nothing was seen yet. */
typedef struct bo_softmax_tile {
    const bo_kernels *kernels;
    size_t dim, value_dim;
    size_t rows, position;
    bool causal;      /* false: every row sees every position */
    size_t window;    /* causal: latest positions seen, the row's own included; 0: all */
    float power;      /* p; 0: the weight is the exponential */
    float slack;      /* scores may exceed top by this much; 0: top is the largest score seen */
    float *q;         /* rows x dim, scale folded in */
    float *top, *sum; /* rows */
    float *numerator; /* rows x value_dim */
    float *scores;    /* BO_SOFTMAX_BLOCK x BO_PANEL */
} bo_softmax_tile;

/* A tile with arrays from the carver; the rest is zero. */
bo_softmax_tile bo_softmax_carve(const bo_attention *attention, bo_carver *carver);
/* Fills q and begins with nothing seen. False: some query is not finite. */
bool bo_softmax_begin(bo_softmax_tile *tile, size_t position, size_t rows, bo_rows q, double scale);
/* Adds the keys at positions first … end - 1, of which `kept` holds those that some row sees. */
void bo_softmax_add(const bo_softmax_tile *tile, const bo_kv_cache *kept, size_t first, size_t end);

/* ---- its gradient ---------------------------------------------------------------------------------------------- */

/* With P_j = weight / denominator, whatever else the denominator holds: dS_j = P_j (dO·v_j - δ), δ = dO·O. Dividing dO
 * and δ by the tape's sum beforehand lets exp(s - top) stand for P. With a power the gradient of a product x = q·k is
 * dS p / x, 0 where x is. */
typedef struct bo_softmax_slope {
    float *dout;                   /* rows x value_dim: dO / sum */
    float *delta;                  /* rows: δ / sum */
    bo_rows dq;                    /* dS K is added; the scale is the caller's. NULL: not wanted */
    double *total;                 /* Σ dS is added: the gradient of a log weight on all keys. NULL: not wanted */
    float *slopes;                 /* BO_SOFTMAX_BLOCK x BO_PANEL */
    float *products;               /* with a power: q·k of the block; else NULL */
    float *key_rows, *value_panel; /* a piece the other way round: BO_PANEL x dim, value_dim x BO_PANEL */
} bo_softmax_slope;

bo_softmax_slope bo_softmax_carve_slope(const bo_attention *attention, bo_carver *carver);
/* As bo_softmax_add, with top as the forward pass left it less the log weight that keys have in the denominator. dk,
 * dv: where the gradients of the key at position `first` and of those after it are added; NULL: not wanted. */
void bo_softmax_add_slope(const bo_softmax_tile *tile, const bo_softmax_slope *slope, const bo_kv_cache *kept,
                          size_t first, size_t end, bo_rows dk, bo_rows dv);

/* ---- the keys of a task ---------------------------------------------------------------------------------------- */

/* The keys of one (sequence, key head): those the initial state holds, then the call's own, which are loaded into
 * scratch as queries reach them. */
typedef struct bo_softmax_keys {
    const bo_call *call;
    size_t sequence, key_head;
    size_t old;       /* tokens of the initial state: the call's own have positions old, old + 1, … */
    size_t count;     /* of the call's own */
    size_t loaded;    /* of those, in `fresh` */
    bo_kv_cache kept; /* in the initial state; keys == NULL: none */
    bo_kv_cache fresh;
    bo_rows k, v; /* of the call */
} bo_softmax_keys;

/* Scratch for up to `longest` keys of a call, of which those that `span` queries see are loaded at once. */
bo_kv_cache bo_softmax_carve_keys(const bo_attention *attention, size_t longest, size_t span, bo_carver *carver);
bo_softmax_keys bo_softmax_keys_of(const bo_call *call, size_t sequence, size_t key_head, bo_kv_cache fresh);
/* Loads the call's keys before `end`. False: some is not finite. */
bool bo_softmax_load(bo_softmax_keys *keys, size_t end);
/* Adds all that the tile sees of what is loaded. */
void bo_softmax_add_keys(const bo_softmax_tile *tile, const bo_softmax_keys *keys);
/* Adds the call's keys to the final state, if one is wanted; it holds what the initial one held. */
void bo_softmax_keep(const bo_softmax_keys *keys);

/* The same backwards: gradients of keys and values start from those of the final state … */
void bo_softmax_begin_slopes(const bo_softmax_keys *keys);
/* … and take what each tile gives. */
void bo_softmax_add_keys_slope(const bo_softmax_tile *tile, const bo_softmax_slope *slope, const bo_softmax_keys *keys);

/* The tile of queries that begins at query `t` ends before this one. */
static inline size_t bo_softmax_tile_end(size_t old, size_t t, size_t queries)
{
    size_t end = t + BO_SOFTMAX_TILE - (old + t) % BO_SOFTMAX_TILE;
    return end < queries ? end : queries;
}

#endif
