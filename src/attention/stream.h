/* The keys of a sequence in the order in which the sums absorb them: immediately or, in the hybrid, when a key leaves
 * the window. Row j of the stream is absorbed with token j. With a delay, row j is token j - delay of the call. Earlier
 * rows are the keys of the initial state, and rows before these are absent.
 *
 * Gates are not delayed: token t multiplies the sums by g_t. Key j, which enters with token t = j + delay, must have
 * the weight g_{j+1} … g_t (times its input weight), so that later gates complete the product. */
#ifndef BO_ATTENTION_STREAM_H
#define BO_ATTENTION_STREAM_H

#include "internal.h"

typedef struct bo_key_stream {
    bo_rows k, v;                   /* token 0 of the call is row `delay` */
    bo_rows gate;                   /* log gates of the tokens of the call; at NULL: no gate */
    size_t delay, early;            /* early <= delay */
    const float *early_k, *early_v; /* rows delay - early … delay - 1: early x dim, early x value_dim */
    const float *early_gate;        /* log gates of these tokens, `early` numbers; NULL with gate FIXED or none */
} bo_key_stream;

/* Returns the keys of a key head without delay, and their gradients. */
bo_key_stream bo_stream_of(const bo_call *call, size_t sequence, size_t key_head);

/* Rows [first, first + lag + keys) of a stream; the first `lag` are absent. */
typedef struct bo_key_rows {
    size_t lag, keys;
    const float *k, *v;
    size_t ldk, ldv;
    const float *gate;   /* log gates of the tokens first, first + 1, …, also of absent rows; NULL: none */
    const double *entry; /* with a delay and a gate: log weight with which each key enters the sums; else NULL */
    size_t gate_stride;
} bo_key_rows;

/* Returns the rows in place or, if they are not contiguous, copies in the buffers (rows x dim, rows x value_dim). The
 * buffer `entry` has one double per row and is used only with a delay and a gate. */
bo_key_rows bo_stream_load(const bo_attention *attention, const bo_key_stream *stream, size_t first, size_t rows,
                           float *k, float *v, double *entry);

/* With a delay, a log gate below this limit clears the sums, and keys before it never enter them. Sums of gates are
 * then small enough for differences in double. */
#define BO_MIN_LOG_GATE (-1e5f)
/* The log weight of a key that does not enter the sums. Finite: it is added to other exponents. */
#define BO_NO_ENTRY (-1e30)

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
void bo_stream_write_gradients(const bo_attention *attention, const bo_gradient_stream *stream, size_t first,
                               size_t count, const float *dk, const float *dv);

#endif
