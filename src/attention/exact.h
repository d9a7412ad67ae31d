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
    bo_softmax_gradient gradient; /* backward only */
} bo_exact;

/* Returns the bytes for up to `longest` keys, if the keys that `span` queries see are loaded together. */
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

/* The backward pass of the engine: gradients of the part of the output from the window, or from all keys, with the
 * denominator from the tape. */
void bo_exact_backward(const bo_call *call, size_t sequence, size_t key_head, float *parameters, void *scratch);

/* ---- parts of both passes, shared by one thread (exact.c) and many (exact_waves.c) ------------------------------- */

/* Sets the members that follow from the call. */
void bo_exact_open(const bo_call *call, size_t sequence, size_t key_head, bo_exact *work);
/* Processes queries first … end - 1 of every head of the group. last: also checks the keys that no query sees. */
void bo_exact_forward_queries(bo_exact *work, size_t first, size_t end, bool last);
/* Prepares the gradients of queries first … end - 1 of a head; Σ dS is added to *total (NULL: not requested). */
void bo_exact_begin_tile(bo_exact *work, size_t head, size_t first, size_t end, double *total);
/* Sets rows to 0; multiplies rows. NULL rows are allowed. */
void bo_exact_zero(bo_rows rows, size_t count, size_t width);
void bo_exact_scale(const bo_kernels *kernels, bo_rows rows, size_t count, size_t width, double factor);

/* The passes with all threads on every head. */
bo_status bo_exact_waves(bo_context *context, bo_call *call);
bool bo_exact_waves_pay(const bo_attention *attention, const bo_attention_cost *out, size_t threads);
size_t bo_exact_waves_bytes(const bo_attention *attention, const bo_attention_cost *out, size_t threads);
bo_status bo_exact_waves_backward(bo_context *context, bo_call *call, float *parameters, atomic_bool *too_large);
size_t bo_exact_waves_backward_bytes(const bo_attention *attention, const bo_attention_cost *out, size_t threads);

#endif
