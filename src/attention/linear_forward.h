/* The forward pass of attention with features: what a task of one key head (linear.c) and the waves of a few heads on many
 * threads (linear_waves.c) share. */
#ifndef BO_ATTENTION_LINEAR_FORWARD_H
#define BO_ATTENTION_LINEAR_FORWARD_H

#include "linear.h"
#include "stream.h"

/* One key head of one sequence: where its arrays are. */
typedef struct bo_linear_task {
    const bo_call *call;
    const bo_sequence *at;
    size_t sequence, key_head;
    bo_rows k, v, gate;
} bo_linear_task;
bo_linear_task bo_linear_task_make(const bo_call *call, size_t sequence, size_t key_head);

typedef struct bo_linear_forward {
    bo_linear linear;
    float *n, *denominator, *top; /* of a chunk's queries */
} bo_linear_forward;
bo_linear_forward bo_linear_forward_make(const bo_attention *attention, const bo_attention_inputs *in, size_t key_head,
                                         size_t chunk, bo_carver *carver);

/* What fk holds of keys [first, first + keys), and their log scales; false: numbers that are not finite, or too large. */
bool bo_linear_map_keys(const bo_linear_task *task, bo_linear *linear, size_t first, size_t keys, float *mapped,
                        float *log_scale);
/* Queries [first, first + queries) of every head of the group against the sums and the chunk's keys. */
bool bo_linear_ask(const bo_linear_task *task, bo_linear_forward *work, size_t first, size_t queries);
/* Before the chunk that begins at token `first`: the tape keeps the sums where a segment begins. */
void bo_linear_record(const bo_linear_task *task, const bo_linear *linear, size_t first);

/* The whole pass with every thread at work on every head; the same bits. */
bo_status bo_linear_waves(bo_context *context, bo_call *call);
size_t bo_linear_waves_threads(size_t tasks);
size_t bo_linear_waves_bytes(const bo_attention *attention, const bo_attention_plan *plan, size_t threads);

#endif
