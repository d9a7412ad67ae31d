/* What the rooms above use of attention beside <bochner/attention.h>: queries about descriptors, calls that allocate nothing,
 * maps and states from files. */
#ifndef BO_ATTENTION_ATTENTION_H
#define BO_ATTENTION_ATTENTION_H

#include <bochner/attention.h>
#include "../base/carver.h"

/* ---- descriptors ------------------------------------------------------------------------------------------------- */

/* log_gate has this many numbers per token and key head; 0: none is taken. */
static inline size_t bo_gate_width(const bo_attention_desc *desc)
{
    if (bo_attention_has(desc, BO_TRAIT_CHANNELS)) return desc->dim;
    return desc->gate == BO_GATE_CONVEX || desc->gate == BO_GATE_DECAY ? 1 : 0;
}

/* The kind that stands for this one in cross attention: itself, but for HYBRID. */
bo_attention_kind bo_attention_cross_kind(const bo_attention_desc *desc);
/* Calibrated, or in no need of it. */
bool bo_attention_is_ready(const bo_attention *attention);

/* ---- parameters -------------------------------------------------------------------------------------------------- */

/* In the order in which their gradients lie in a task's `parameters`. */
typedef enum bo_parameter {
    BO_PARAMETER_SIGMA,
    BO_PARAMETER_M,
    BO_PARAMETER_M_K,
    BO_PARAMETER_BIAS,
    BO_PARAMETER_BIAS_K,
    BO_PARAMETER_MIX,
    BO_PARAMETER_LOG_DECAY,
    BO_PARAMETER_LAMBDA,
    BO_PARAMETER_COUNT
} bo_parameter;

/* Floats of one key head; 0: this attention has no such parameter. */
size_t bo_parameter_size(const bo_attention *attention, bo_parameter which);

/* ---- calls in memory of the caller ------------------------------------------------------------------------------- */

/* Memory for the time of a call. `room` is aligned to 64; its first `used` bytes are taken. */
typedef struct bo_work {
    char *room;
    size_t bytes, used;
} bo_work;

/* The public calls in a room of bo_attention_work_bytes: they allocate nothing. */
bo_status bo_attention_forward_in(bo_context *context, const bo_attention *attention, const bo_attention_shape *shape,
                                  const bo_attention_inputs *inputs, const void *const *initial, void *const *final,
                                  float *out, void *tape, bo_work *work);
bo_status bo_attention_backward_in(bo_context *context, const bo_attention *attention, const bo_attention_shape *shape,
                                   const bo_attention_inputs *inputs, const void *const *initial, const float *out,
                                   const void *tape, const float *dout, const float *const *d_final,
                                   const bo_attention_gradients *gradients, bo_work *work);
bo_status bo_attention_step_in(bo_context *context, const bo_attention *attention, size_t sequences,
                               const bo_attention_inputs *inputs, void *const *states, float *out, bo_work *work);
/* For any packed lengths of at most `sequences` sequences, of so many queries and keys in all: forward and step, or
 * backward. */
size_t bo_attention_work_bytes(bo_context *context, const bo_attention *attention, size_t sequences, size_t queries,
                               size_t keys, bool backward);

/* Bytes of a tape that will do for any packed lengths of at most `sequences` sequences, of so many queries and keys in all. */
size_t bo_tape_most(const bo_attention *attention, size_t sequences, size_t queries, size_t keys);

/* ---- maps and states from elsewhere ------------------------------------------------------------------------------ */

/* Puts other maps of the same kind in place (one per key head, or one with one_draw; taken over, also where it fails): those
 * of a file. What was calibrated is then ready for use. */
bo_status bo_attention_set_maps(bo_context *context, bo_attention *attention, bo_features **maps, size_t count);
/* A state of `from` as one of `to`, which differ in capacity at most; refused where it does not hold the tokens. */
bo_status bo_attention_state_move(bo_context *context, const bo_attention *from, const void *state,
                                  const bo_attention *to, void *out);

#endif
