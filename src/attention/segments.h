/* What every engine with a memory of fixed size has: gates as they count, segments of a tape, rows of tokens. */
#ifndef BO_ATTENTION_SEGMENTS_H
#define BO_ATTENTION_SEGMENTS_H

#include "internal.h"

/* The log gate at this place, 0 without one, never less than -1e8. */
float bo_log_gate(const float *log_gate);

/* Tokens between the states that a tape keeps. */
size_t bo_segment(size_t chunk, size_t tokens);
/* An engine's tape_states: those between segments, or where keys are not taken in token by token the only one. */
size_t bo_segment_states(const bo_attention *attention, const bo_attention_cost *plan, size_t queries, size_t keys);

/* Where the tokens of one key head are; rows that are not there are NULL. */
typedef struct bo_token_rows {
    bo_rows k, v, gate, beta;
} bo_token_rows;
bo_token_rows bo_token_rows_at(const bo_call *call, size_t sequence, size_t key_head);

#endif
