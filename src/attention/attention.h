/* The interface of attention for other modules, in addition to <bochner/attention.h>: properties of descriptors, calls
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

/* True if the kind accepts the gate. */
bool bo_attention_takes_gate(bo_attention_kind kind, bo_gate gate);
/* Returns the kind that replaces this one in cross attention: the kind itself, except for HYBRID. */
bo_attention_kind bo_attention_cross_kind(const bo_attention_desc *desc);
/* True if the attention is calibrated or needs no calibration. */
bool bo_attention_is_ready(const bo_attention *attention);
/* True if bo_attention_redraw changes its features. */
bool bo_attention_is_random(const bo_attention *attention);

/* ---- calls on contiguous arrays ---------------------------------------------------------------------------------- */

/* The shape of a batch: sequences of equal length, or packed sequences of different lengths. */
typedef struct bo_attention_shape {
    size_t sequences;          /* number of sequences; required */
    size_t tokens;             /* tokens per sequence; ignored with `lengths` */
    size_t key_tokens;         /* keys per sequence in cross attention (default: tokens) */
    const size_t *lengths;     /* packed: tokens of each sequence; NULL: not packed */
    const size_t *key_lengths; /* packed: keys of each sequence; NULL: same as `lengths` */
    bool no_keys;              /* cross attention: the initial states are only read; k and v are NULL */
    bool no_queries;           /* only add the keys to the final states; q and out are NULL */
    bo_layout layout;          /* order of the dimensions (default: heads first) */
    uint64_t reserved[4];      /* must be zero */
} bo_attention_shape;

/* The inputs of an attention, in the layout of the shape.
 *
 * A parameter that is NULL has the value in brackets.
 */
typedef struct bo_attention_inputs {
    const float *q; /* queries, (sequences, heads, tokens, dim) */
    const float *k; /* keys, (sequences, key_heads, tokens, dim) */
    const float *v; /* values, (sequences, key_heads, tokens, value_dim) */
    /* log g <= 0, one number per token and key head: (sequences, key_heads, tokens) or (sequences, tokens, key_heads);
     * for GLA `dim` numbers per token and key head. Required by the gates CONVEX and DECAY and by GLA, NULL for the
     * others.
     */
    const float *log_gate;
    const float *sigma; /* RFA: key_heads x dim [1] */
    /* DARK, HYBRID with a rank: M; LEARNED: W: key_heads x rank x dim [the first rows of the identity] */
    const float *m;
    const float *mix;       /* HYBRID: one number > 0 per head [1] */
    const float *beta;      /* DELTA, RIDGE: one number >= 0 per token and key head [1] */
    const float *log_decay; /* gate FIXED: log g <= 0 per key head [log(1 - 2^-(5 + h)), h modulo 8] */
    const float *lambda;    /* RIDGE: the diagonal of Λ, key_heads x dim, each > 0 [1] */
    const float *m_k;       /* LEARNED: W', shaped as m [the same as m] */
    const float *bias;      /* LEARNED: b, key_heads x rank [0] */
    const float *bias_k;    /* LEARNED: b', shaped as bias [the same as bias] */
    bo_solves *solves;      /* RIDGE: written by forward and step; or NULL */
    uint64_t reserved[4];   /* must be zero */
} bo_attention_inputs;

/* The output arrays of gradients; NULL: not requested.
 *
 * Every array is overwritten. Shapes are as in bo_attention_inputs.
 */
typedef struct bo_attention_gradients {
    float *q; /* of q */
    float *k; /* of k */
    float *v; /* of v */
    /* With respect to log g. With CONVEX it includes the input weight, except where the weight is at its minimum (a
     * gate of 1). */
    float *log_gate;
    float *sigma;          /* of sigma */
    float *m;              /* of m; both parts if m_k is not set */
    float *mix;            /* of mix */
    float *const *initial; /* of the initial states: bo_attention_state_gradient_floats() floats per sequence */
    float *beta;           /* of beta */
    float *log_decay;      /* of log_decay */
    float *lambda;         /* of lambda */
    float *m_k;            /* of m_k */
    float *bias;           /* of bias; both parts if bias_k is not set */
    float *bias_k;         /* of bias_k */
    uint64_t reserved[4];  /* must be zero */
} bo_attention_gradients;

/* bo_attention_forward, bo_attention_backward and the other public functions with a bo_attention_call, on shapes and
 * contiguous float32 arrays. initial: one state per sequence; NULL: empty states. final: one state per sequence; NULL:
 * not written. tape: bo_attention_tape_bytes bytes, or NULL. d_final: gradients of the final states; NULL: zero. */
bo_status bo_attention_forward_arrays(bo_context *context, const bo_attention *attention,
                                      const bo_attention_shape *shape, const bo_attention_inputs *inputs,
                                      const void *const *initial, void *const *final, float *out, void *tape);
bo_status bo_attention_backward_arrays(bo_context *context, const bo_attention *attention,
                                       const bo_attention_shape *shape, const bo_attention_inputs *inputs,
                                       const void *const *initial, const float *out, const void *tape,
                                       const float *dout, const float *const *d_final,
                                       const bo_attention_gradients *gradients);
bo_status bo_attention_tape_bytes(bo_context *context, const bo_attention *attention, const bo_attention_shape *shape,
                                  size_t *bytes);
/* One token for each of several states. Arrays are (sequences, heads, dim). If k is NULL, the states are only read. */
bo_status bo_attention_step(bo_context *context, const bo_attention *attention, size_t sequences,
                            const bo_attention_inputs *inputs, void *const *states, float *out);
/* A block of tokens: bo_attention_forward_arrays with `states` as initial and final states. */
bo_status bo_attention_extend(bo_context *context, const bo_attention *attention, const bo_attention_shape *shape,
                              const bo_attention_inputs *inputs, void *const *states, float *out);
bo_status bo_attention_estimate_arrays(bo_context *context, const bo_attention *attention,
                                       const bo_attention_shape *shape, bo_attention_cost *out);
/* out: the output to compare; NULL: the output of a forward pass. */
bo_status bo_attention_measure_arrays(bo_context *context, const bo_attention *attention,
                                      const bo_attention_shape *shape, const bo_attention_inputs *inputs,
                                      const float *out, size_t queries, bo_attention_accuracy *error);

/* The inputs of an attention in float64: shapes, ranges and defaults are as in bo_attention_inputs. */
typedef struct bo_attention_inputs_f64 {
    const double *q;         /* queries */
    const double *k;         /* keys */
    const double *v;         /* values */
    const double *log_gate;  /* log g; NULL: no gate */
    const double *sigma;     /* RFA: σ; NULL: 1 */
    const double *m;         /* DARK, HYBRID with a rank: M; LEARNED: W; NULL: the first rows of the identity */
    const double *mix;       /* HYBRID: mix; NULL: 1 */
    const double *beta;      /* DELTA, RIDGE: β; NULL: 1 */
    const double *log_decay; /* gate FIXED: log g per key head; NULL: as in bo_attention_inputs */
    const double *lambda;    /* RIDGE: the diagonal of Λ; NULL: 1 */
    const double *m_k;       /* LEARNED: W'; NULL: the same as m */
    const double *bias;      /* LEARNED: b; NULL: 0 */
    const double *bias_k;    /* LEARNED: b'; NULL: the same as bias */
    uint64_t reserved[4];    /* must be zero */
} bo_attention_inputs_f64;

/* The output arrays of float64 gradients; NULL: not requested.
 *
 * Every array is overwritten. Shapes are as in bo_attention_inputs_f64.
 */
typedef struct bo_attention_gradients_f64 {
    double *q;            /* of q */
    double *k;            /* of k */
    double *v;            /* of v */
    double *log_gate;     /* of log_gate, as in bo_attention_gradients */
    double *sigma;        /* of sigma */
    double *m;            /* of m; both parts if m_k is not set */
    double *mix;          /* of mix */
    double *beta;         /* of beta */
    double *log_decay;    /* of log_decay */
    double *lambda;       /* of lambda */
    double *m_k;          /* of m_k */
    double *bias;         /* of bias; both parts if bias_k is not set */
    double *bias_k;       /* of bias_k */
    uint64_t reserved[4]; /* must be zero */
} bo_attention_gradients_f64;

bo_status bo_attention_forward_f64(bo_context *context, const bo_attention *attention, const bo_attention_shape *shape,
                                   const bo_attention_inputs_f64 *inputs, double *out);
bo_status bo_attention_backward_f64(bo_context *context, const bo_attention *attention, const bo_attention_shape *shape,
                                    const bo_attention_inputs_f64 *inputs, const double *dout,
                                    const bo_attention_gradients_f64 *gradients);

/* ---- statistics of contiguous arrays ----------------------------------------------------------------------------- */

bo_status bo_calibration_add_arrays(bo_context *context, bo_calibration *calibration, const bo_attention_shape *shape,
                                    const bo_attention_inputs *inputs);
bo_status bo_attention_whiten_arrays(bo_context *context, const bo_attention *attention,
                                     const bo_attention_shape *shape, const float *q, const float *k, double amount,
                                     float *m);
bo_status bo_attention_propose_arrays(bo_context *context, bo_attention *attention, const bo_attention_shape *shape,
                                      const float *q, const float *k, bo_proposal_report *out);
bo_status bo_attention_advise_arrays(bo_context *context, const bo_attention_desc *desc,
                                     const bo_attention_shape *shape, const float *q, const float *k, const float *v,
                                     double target, size_t max_features, bo_attention_advice **out);

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

/* ---- calls in the caller's memory -------------------------------------------------------------------------------- */

/* The workspace of a call. `memory` is aligned to 64 bytes; its first `used` bytes are in use. */
typedef struct bo_work {
    char *memory;
    size_t bytes, used;
} bo_work;

/* The public calls in a workspace of bo_attention_work_bytes: they do not allocate. */
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
/* Returns workspace bytes that suffice for all packed lengths of at most `sequences` sequences with these totals of
 * queries and keys, for forward and step, or for backward. */
size_t bo_attention_work_bytes(bo_context *context, const bo_attention *attention, size_t sequences, size_t queries,
                               size_t keys, bool backward);

/* Returns tape bytes that suffice for all packed lengths of at most `sequences` sequences with these totals of queries
 * and keys. */
size_t bo_tape_max_bytes(const bo_attention *attention, size_t sequences, size_t queries, size_t keys);

/* ---- predicted errors -------------------------------------------------------------------------------------------- */

/* The prediction of the variance formula, to first order and for independent frequencies (advise.h): error² = floor² +
 * slope / features, relative to the output of softmax attention. */
typedef struct bo_error_prediction {
    double floor, slope;
} bo_error_prediction;
/* Predicts the error of an attention with one head and a feature map, on a sample of the queries. M, σ and a window are
 * not used. scale: the scale of softmax attention. */
bo_status bo_attention_predict(bo_context *context, const bo_attention *attention, const bo_attention_shape *shape,
                               const float *q, const float *k, const float *v, double scale, bo_error_prediction *out);
/* Returns the predicted error with this number of features. */
double bo_error_predicted(const bo_error_prediction *prediction, size_t features);

/* ---- maps and states from files ---------------------------------------------------------------------------------- */

/* Replaces the maps (one per key head, or one with one_draw) by maps of the same kind, for example from a file. Takes
 * ownership, also on failure. The attention then needs no calibration. */
bo_status bo_attention_set_maps(bo_context *context, bo_attention *attention, bo_features **maps, size_t count);
/* Copies the sums of one key head from or to a state. Kinds with features: Σ_j a_j φ(k_j) v_jᵀ = exp(log_scale) s
 * (features x value_dim) and Σ_j a_j φ(k_j) = exp(log_scale) z (features). GLA and DELTA: s is S (dim x value_dim).
 * RIDGE: s is G (dim x value_dim) and z is H (dim x dim). For these kinds the log scale is 0. get: arrays may be NULL;
 * z is NULL if the kind has no z. BO_INVALID if the state belongs to another attention or consists of keys and
 * values. */
bo_status bo_attention_state_get(bo_context *context, const bo_attention *attention, const void *state, size_t key_head,
                                 float *s, float *z, double *log_scale);
bo_status bo_attention_state_set(bo_context *context, const bo_attention *attention, void *state, size_t key_head,
                                 const float *s, const float *z, double log_scale);
/* An empty state: the length of its prefix, after which all bytes are zero, and the prefix. */
size_t bo_attention_state_prefix(const bo_attention *attention);
void bo_attention_state_start(const bo_attention *attention, void *prefix);
/* Converts a state of `from` to a state of `to`, in zeroed memory. The two may differ only in capacity. Refused if the
 * tokens exceed the capacity of `to`. Empty slots are neither read nor written. */
bo_status bo_attention_state_move(bo_context *context, const bo_attention *from, const void *state,
                                  const bo_attention *to, void *out);
/* Changes the number of tokens that a state has read, to measure the cost of a step after many tokens without reading
 * them. More tokens: cached keys and values are repeated; sums and memories, whose cost does not depend on the number,
 * stay. Fewer tokens: the latest cached keys are dropped. The state stays valid. Refused if the state is empty or the
 * tokens exceed its capacity. */
bo_status bo_attention_state_repeat(bo_context *context, const bo_attention *attention, void *state, uint64_t tokens);

#endif
