/* Processes one (sequence, key head) of a call in tiles of queries: all of softmax attention, and the window of the
 * hybrid. */
#ifndef BO_ATTENTION_EXACT_H
#define BO_ATTENTION_EXACT_H

#include "softmax.h"

typedef struct bo_exact {
    const bo_call *call;
    size_t sequence, key_head;
    bo_softmax_tile tile;
    bo_softmax_keys keys;
    bo_softmax_slope slope; /* backward only */
} bo_exact;

/* Returns the bytes for up to `longest` keys, of which those that `span` queries see are loaded at once. */
size_t bo_exact_bytes(const bo_attention *attention, size_t longest, size_t span, bool backward);
bo_exact bo_exact_begin(const bo_call *call, size_t sequence, size_t key_head, size_t span, bool backward,
                        void *scratch);

/* Returns the rows from `first` on of a query head, in an array that has one row per query. */
bo_rows bo_exact_rows(const bo_exact *work, const float *array, size_t width, size_t head, size_t first);
/* Returns the index of a query's top and sum in the tape. */
size_t bo_exact_tape(const bo_exact *work, size_t head, size_t query);
/* Loads the keys that queries before `end` see. */
void bo_exact_load(bo_exact *work, size_t end);
/* Fills the tile with queries first … end - 1 of a head. */
void bo_exact_fill(bo_exact *work, size_t head, size_t first, size_t end);
void bo_exact_note(const bo_call *call, bool finite);

/* The backward pass of the engine: gradients of the part of the output from the window, or from all keys, given the
 * denominator in the tape. */
void bo_exact_backward(const bo_call *call, size_t sequence, size_t key_head, float *parameters, void *scratch);

#endif
