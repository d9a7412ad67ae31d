/* From a caller's shape to checked geometry: what forward, backward, step and the plan share. */
#ifndef BO_ATTENTION_CALLS_H
#define BO_ATTENTION_CALLS_H

#include "internal.h"
#include "work.h"

typedef struct bo_geometry {
    bo_work *work;
    bo_sequence *sequences; /* shape.sequences of them */
    size_t queries_total, keys_total;
    bo_attention_cost plan; /* bytes are those of one worker */
    size_t tape_bytes, tape_states;
} bo_geometry;

bo_status bo_geometry_make(bo_context *context, const bo_attention *attention, const bo_attention_shape *shape,
                           bo_geometry *out);
bo_status bo_geometry_make_in(bo_context *context, const bo_attention *attention, const bo_attention_shape *shape,
                              bo_work *work, bo_geometry *out);
void bo_geometry_free(bo_geometry *geometry);

/* Fills plan: chunk, tiles, bytes a worker, tasks, operations. */
void bo_attention_plan_make(const bo_attention *attention, const bo_sequence *sequences, size_t count,
                            bo_attention_cost *plan);

/* Blocks of scratch for `tasks` tasks: one per thread, or one per task where they are fewer. */
size_t bo_scratch_count(bo_context *context, size_t tasks);

/* Fewer tasks than threads, and an engine that can use all of them. */
bool bo_runs_together(bo_context *context, const bo_attention *attention, const bo_attention_cost *plan);

/* The tape's pieces, laid out in `bytes` (NULL: only counted into tape_bytes). */
bo_tape bo_tape_at(const bo_attention *attention, const bo_geometry *geometry, void *bytes, size_t *size);

/* Gradients of parameters are summed in this many groups of sequences, each in order, then over the groups: a fixed
 * order. */
enum { BO_PARAMETER_GROUPS = 64 };
size_t bo_parameter_groups(size_t sequences);
/* Floats of one task's parameter gradients (σ or M, then mix), and bytes of all groups and key heads. */
size_t bo_parameter_floats(const bo_attention *attention);
size_t bo_parameter_bytes(const bo_attention *attention, size_t sequences);

/* Everything about arrays and parameters that can be checked without reading q, k, v. */
bo_status bo_inputs_check(bo_context *context, const bo_attention *attention, const bo_attention_inputs *inputs,
                          bool no_keys, size_t keys_total, bool no_queries);
/* Every log gate of the call is finite and at most 0. */
bo_status bo_gates_check(bo_context *context, const bo_call *call);
/* Looks at all of q, k and v, and names the first number that is not finite. */
bo_status bo_inputs_finite(bo_context *context, const bo_call *call);
/* Names the first number among the inputs that is not finite. */
bo_status bo_inputs_blame(bo_context *context, const bo_call *call);
/* The gradients of one key head of a sequence are finite, those that are wanted; of parameters apart. */
bool bo_gradients_finite(const bo_call *call, size_t sequence, size_t key_head);
/* Names the first number among the gradients that is not finite, or among the inputs where one is not. */
bo_status bo_gradients_blame(bo_context *context, const bo_call *call);
/* No state is written for two sequences, nor for one while another reads it (initial may be NULL). */
bo_status bo_states_apart(bo_context *context, bo_work *work, size_t count, const void *const *initial,
                          void *const *final);
/* The call's initial states fit, and `final` (NULL: none) can take what comes. */
bo_status bo_states_check(bo_context *context, const bo_call *call, void *const *final);

#endif
