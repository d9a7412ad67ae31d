/* The hybrid's two parts of a row: features for keys that have left the window, exact weights for those inside. */
#ifndef BO_ATTENTION_HYBRID_H
#define BO_ATTENTION_HYBRID_H

#include "exact.h"

/* A numerator (value_dim) and a denominator relative to exp(top); top == -INFINITY: nothing yet. */
typedef struct bo_hybrid_part {
    float *numerator;
    float denominator, top;
} bo_hybrid_part;

/* `far` takes `near` in: both on the larger of their log scales. */
void bo_hybrid_part_merge(const bo_attention *attention, bo_hybrid_part *far, bo_hybrid_part near);
/* What a row of a tile has gathered, times the head's mix. */
bo_hybrid_part bo_window_part(const bo_softmax_tile *tile, size_t row, const bo_attention_inputs *in, size_t head);

size_t bo_hybrid_step_bytes(const bo_attention *attention, size_t count);
void bo_hybrid_step(const bo_attention *attention, const bo_attention_inputs *in, size_t first, size_t count,
                    size_t key_head, void *const *states, float *out, atomic_bool *not_finite, void *scratch);

#endif
