/* The keys of a sequence in the order in which the sums absorb them: immediately or, in the hybrid, when a key leaves
 * the window. Row j of the stream is absorbed with token j. With a delay it is token j - delay of the call; before that
 * come the keys of the initial state, and before those absent rows. */
#ifndef BO_ATTENTION_STREAM_H
#define BO_ATTENTION_STREAM_H

#include "internal.h"

typedef struct bo_key_stream {
    bo_rows k, v, gate;             /* token 0 of the call is row `delay` */
    size_t delay, early;            /* early <= delay */
    const float *early_k, *early_v; /* rows delay - early … delay - 1: early x dim, early x value_dim */
} bo_key_stream;

/* Returns the keys of a key head without delay, and their gradients. */
bo_key_stream bo_stream_of(const bo_call *call, size_t sequence, size_t key_head);

/* Rows [first, first + lag + keys) of a stream; the first `lag` are absent. */
typedef struct bo_key_rows {
    size_t lag, keys;
    const float *k, *v, *gate;
    size_t ldk, ldv, gate_stride;
} bo_key_rows;

/* Returns the rows in place or, if they are not contiguous, copies in the buffers (rows x dim, rows x value_dim). */
bo_key_rows bo_stream_take(const bo_attention *attention, const bo_key_stream *stream, size_t first, size_t rows,
                           float *k, float *v);

/* The destinations of gradients of a stream; NULL: not requested. add: the arrays already contain other gradients. */
typedef struct bo_gradient_stream {
    bo_rows k, v;
    size_t delay, early;
    float *early_k, *early_v;
    bool add;
} bo_gradient_stream;
bo_gradient_stream bo_gradient_stream_of(const bo_call *call, size_t sequence, size_t key_head);

/* Writes the gradients of rows [first, first + count), none of them absent: dk (count x dim), dv (count x
 * value_dim). */
void bo_stream_give(const bo_attention *attention, const bo_gradient_stream *stream, size_t first, size_t count,
                    const float *dk, const float *dv);

#endif
