/* Conversion of a caller's shape into checked geometry, shared by forward, backward, step and the plan. */
#ifndef BO_ATTENTION_CALLS_H
#define BO_ATTENTION_CALLS_H

#include "internal.h"
#include "work.h"

typedef struct bo_geometry {
    bo_work *work;
    bo_sequence *sequences; /* shape.sequences entries */
    size_t queries_total, keys_total;
    bo_attention_cost plan; /* the bytes are those of one worker */
    size_t tape_bytes, tape_states;
} bo_geometry;

bo_status bo_geometry_make(bo_context *context, const bo_attention *attention, const bo_attention_shape *shape,
                           bo_geometry *out);
bo_status bo_geometry_make_in(bo_context *context, const bo_attention *attention, const bo_attention_shape *shape,
                              bo_work *work, bo_geometry *out);
void bo_geometry_free(bo_geometry *geometry);

/* Fills plan: chunk, tiles, bytes per worker, tasks, operations. */
void bo_attention_plan_make(const bo_attention *attention, const bo_sequence *sequences, size_t count,
                            bo_attention_cost *plan);

/* Returns the number of scratch blocks for `tasks` tasks: one per thread, or one per task if there are fewer tasks. */
size_t bo_scratch_count(bo_context *context, size_t tasks);

/* True if the engine can use all threads for every task and is faster with them. */
bool bo_runs_together(bo_context *context, const bo_attention *attention, const bo_attention_cost *plan);
bool bo_backward_runs_together(bo_context *context, const bo_attention *attention, const bo_attention_cost *plan);
/* Returns the workspace bytes of a backward pass, without parameters. */
size_t bo_backward_bytes(bo_context *context, const bo_attention *attention, const bo_attention_cost *plan);

/* Lays out the parts of the tape in `bytes` (NULL: only computes tape_bytes). */
bo_tape bo_tape_at(const bo_attention *attention, const bo_geometry *geometry, void *bytes, size_t *size);

/* Gradients of parameters are summed over this number of groups of sequences: in order within each group, then over the
 * groups, so that the order is fixed. */
enum { BO_PARAMETER_GROUPS = 64 };
size_t bo_parameter_groups(size_t sequences);
/* Floats of one task's parameter gradients (σ or M, then mix), and bytes of all groups and key heads. */
size_t bo_parameter_floats(const bo_attention *attention);
size_t bo_parameter_bytes(const bo_attention *attention, size_t sequences);

/* Fills the members of a call that follow from its arguments and geometry. */
void bo_call_fill(bo_call *call, const bo_attention *attention, const bo_attention_shape *shape,
                  const bo_attention_inputs *inputs, const bo_geometry *geometry, atomic_bool *not_finite);
/* True if the batch has queries. If not, its outputs are empty arrays. */
bool bo_has_outputs(const bo_attention_shape *shape);

/* Checks everything about arrays and parameters that does not require reading q, k, v. */
bo_status bo_inputs_check(bo_context *context, const bo_call *call);
/* Checks that the attention has the inputs whose gradients are requested. */
bo_status bo_gradients_check(bo_context *context, const bo_call *call);
/* Checks that every log gate of the call is finite and at most 0. */
bo_status bo_gates_check(bo_context *context, const bo_call *call);
/* Checks all of q, k and v; the error states the position of the first NaN or infinity. */
bo_status bo_inputs_finite(bo_context *context, const bo_call *call);
/* Fails with the position of the first NaN or infinity in the inputs. */
bo_status bo_inputs_locate_nonfinite(bo_context *context, const bo_call *call);
/* True if the requested gradients of one key head of a sequence are finite, except those of parameters. */
bool bo_gradients_finite(const bo_call *call, size_t sequence, size_t key_head);
/* Fails with the position of the first NaN or infinity in the inputs or, if they are finite, in the gradients. */
bo_status bo_gradients_locate_nonfinite(bo_context *context, const bo_call *call);
/* Checks that no state is written for two sequences, or written for one sequence and read for another (initial may be
 * NULL). */
bo_status bo_states_check_distinct(bo_context *context, bo_work *work, size_t count, const void *const *initial,
                                   void *const *final);
/* Checks that the initial states of the call match the attention, and that the capacity of `final` (NULL: none)
 * suffices. */
bo_status bo_states_check(bo_context *context, const bo_call *call, void *const *final);

#endif
