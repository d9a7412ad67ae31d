/* The interface of attention for other modules, in addition to <bochner/attention.h>: queries about descriptors, calls
 * that do not allocate, maps and states from files. */
#ifndef BO_ATTENTION_ATTENTION_H
#define BO_ATTENTION_ATTENTION_H

#include <bochner/attention.h>
#include "../base/carver.h"

/* ---- descriptors ------------------------------------------------------------------------------------------------- */

/* Returns the length of log_gate per token and key head. 0: log_gate is not used. */
static inline size_t bo_gate_width(const bo_attention_desc *desc)
{
    if (bo_attention_has(desc, BO_TRAIT_CHANNELS)) return desc->dim;
    return desc->gate == BO_GATE_CONVEX || desc->gate == BO_GATE_DECAY ? 1 : 0;
}

/* Returns the kind that replaces this one in cross attention: the kind itself, except for HYBRID. */
bo_attention_kind bo_attention_cross_kind(const bo_attention_desc *desc);
/* True if the attention is calibrated or needs no calibration. */
bool bo_attention_is_ready(const bo_attention *attention);
/* True if bo_attention_redraw changes its features. */
bool bo_attention_is_random(const bo_attention *attention);

/* ---- parameters -------------------------------------------------------------------------------------------------- */

/* Learned parameters, in the order of their gradients in a task's `parameters`. */
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

/* Returns the floats of the parameter per key head. 0: this attention does not have it. */
size_t bo_parameter_size(const bo_attention *attention, bo_parameter which);

/* ---- calls in memory from the caller ----------------------------------------------------------------------------- */

/* Work memory of a call. `room` is aligned to 64 bytes; its first `used` bytes are in use. */
typedef struct bo_work {
    char *room;
    size_t bytes, used;
} bo_work;

/* The public calls in work memory of bo_attention_work_bytes: they do not allocate. */
bo_status bo_attention_forward_in(bo_context *context, const bo_attention *attention, const bo_attention_shape *shape,
                                  const bo_attention_inputs *inputs, const void *const *initial, void *const *final,
                                  float *out, void *tape, bo_work *work);
bo_status bo_attention_backward_in(bo_context *context, const bo_attention *attention, const bo_attention_shape *shape,
                                   const bo_attention_inputs *inputs, const void *const *initial, const float *out,
                                   const void *tape, const float *dout, const float *const *d_final,
                                   const bo_attention_gradients *gradients, bo_work *work);
/* isolate: as in bo_graph_pass. */
bo_status bo_attention_step_in(bo_context *context, const bo_attention *attention, size_t sequences,
                               const bo_attention_inputs *inputs, void *const *states, bool isolate, float *out,
                               bo_work *work);
/* Returns the bytes that suffice for any packed lengths of at most `sequences` sequences with these totals of queries
 * and keys, for forward and step, or for backward. */
size_t bo_attention_work_bytes(bo_context *context, const bo_attention *attention, size_t sequences, size_t queries,
                               size_t keys, bool backward);

/* Returns the bytes of a tape that suffice for any packed lengths of at most `sequences` sequences with these totals of
 * queries and keys. */
size_t bo_tape_most(const bo_attention *attention, size_t sequences, size_t queries, size_t keys);

/* ---- predicted errors -------------------------------------------------------------------------------------------- */

/* The prediction of the variance formula, to first order and for independent frequencies (advise.h): error² = floor² +
 * slope / features, relative to the output of softmax attention. */
typedef struct bo_error_prediction {
    double floor, slope;
} bo_error_prediction;
/* Predicts the error of an attention with one head and a feature map, on a sample of the queries. M, σ and a window are
 * not used. scale: that of softmax attention. */
bo_status bo_attention_predict(bo_context *context, const bo_attention *attention, const bo_attention_shape *shape,
                               const float *q, const float *k, const float *v, double scale, bo_error_prediction *out);
/* Returns the predicted error with this number of features. */
double bo_error_predicted(const bo_error_prediction *prediction, size_t features);

/* ---- maps and states from files ---------------------------------------------------------------------------------- */

/* Replaces the maps by others of the same kind (one per key head, or one with one_draw), for example from a file. Takes
 * ownership, also if the call fails. An attention that needed calibration is ready for use afterwards. */
bo_status bo_attention_set_maps(bo_context *context, bo_attention *attention, bo_features **maps, size_t count);
/* An empty state: its first bytes, after which all are zero. */
size_t bo_attention_state_prefix(const bo_attention *attention);
void bo_attention_state_start(const bo_attention *attention, void *prefix);
/* Converts a state of `from` to a state of `to`, in memory that is filled with zeros; the two may differ only in
 * capacity. Refused if `to` cannot hold the tokens. Slots that hold no token are neither read nor written. */
bo_status bo_attention_state_move(bo_context *context, const bo_attention *from, const void *state,
                                  const bo_attention *to, void *out);
/* Changes the number of tokens that a state has read, so that the cost of a step after many tokens can be measured
 * without reading them. More tokens: kept keys and values are repeated; sums and memories, whose cost does not depend on
 * the number, stay. Fewer tokens: the latest kept keys are dropped. The state stays valid. Refused if the state is empty
 * or cannot hold the tokens. */
bo_status bo_attention_state_repeat(bo_context *context, const bo_attention *attention, void *state, uint64_t tokens);

#endif
