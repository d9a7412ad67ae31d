/* Code shared by engines with fixed-size memory: gates, segments of a tape, rows of tokens. */
#ifndef BO_ATTENTION_SEGMENTS_H
#define BO_ATTENTION_SEGMENTS_H

#include "internal.h"

/* Returns the log gate at this address; 0 if NULL, at least -1e8. */
float bo_log_gate(const float *log_gate);

/* Returns the number of tokens between the states on a tape. */
size_t bo_segment(size_t chunk, size_t tokens);
/* tape_states of an engine: the states between segments, or one state if keys are not absorbed token by token. */
size_t bo_segment_states(const bo_attention *attention, const bo_attention_cost *plan, size_t queries, size_t keys);

/* The tokens of one key head; rows that do not exist are NULL. */
typedef struct bo_token_rows {
    bo_rows k, v, gate, beta;
} bo_token_rows;
bo_token_rows bo_token_rows_at(const bo_call *call, size_t sequence, size_t key_head);

#endif
