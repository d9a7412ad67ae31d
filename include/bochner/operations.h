/** @file
 * The operations that a graph can record, and their attributes, as plain data. graph.h has the functions
 * that record and run them. Advanced tier.
 *
 * An operation takes tensors and produces tensors. A tensor has `rows` rows of `columns` elements, contiguous. The
 * attributes of an operation, a plain struct that the graph copies, describe any further structure (heads, channels,
 * sequences). Zero means the default in the fields whose comment names one; in other fields, a zero that is out of
 * range is refused. Below, n x w means n rows of w columns, and numbers such as 2104.09864 are papers on arXiv.
 *
 * Every operation has a gradient with respect to each of its float inputs, unless its comment states otherwise. Results
 * have the same bits for any number of threads.
 *
 * **Errors.** Inputs or attributes that do not fit are refused while the graph is recorded; bo_graph_compile() then
 * returns BO_INVALID. Settings of a run that do not fit are refused by bo_graph_run().
 */
#ifndef BOCHNER_OPERATIONS_H
#define BOCHNER_OPERATIONS_H

#include <bochner/attention.h>
#include <bochner/features.h>
#include <bochner/kinds.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ==== Advanced ==================================================================================================== */

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

/** A tensor argument of an operation. */
typedef struct bo_tensor {
    void *data;         /**< the elements, aligned to 64 bytes; NULL if only the shape is used */
    bo_element element; /**< the type of the elements */
    size_t rows;        /**< number of rows */
    size_t columns;     /**< number of columns */
} bo_tensor;

/** The settings of one run of a graph, apart from the contents of its inputs. Zero means the default in every field.
 *
 * A graph may have two streams of rows: a source, and a target that is generated from it. The attributes of an
 * operation state which stream its rows belong to. */
typedef struct bo_graph_pass {
    bool training; /**< dropout and noise are active */
    uint64_t seed; /**< seed of dropout and noise; use a different one for every step and micro-batch */
    /** The gradient of the loss itself (default: 1), for example 1/k for each of k micro-batches that share a step. */
    float loss_scale;
    size_t sequences;      /**< number of sequences, which follow each other in the rows of the graph */
    const size_t *lengths; /**< their lengths, whose sum is the number of rows; NULL: as in the attributes */
    /** Lengths of the source sequences, whose sum is the number of rows of the source. The source has the same number
     * of sequences. Sequences may be empty in both streams. NULL if `lengths` is NULL: as in the attributes. */
    const size_t *source_lengths;
    /** For decoding and streaming. Operations with a state (attention, SSM, recurrent, causal convolution and mixing)
     * in layer i continue from states[i * sequences + s] and update it. NULL: every sequence starts with an empty
     * state. Operations on the source always start with an empty state. */
    void *const *states;
    /** For decoding with `states`, one token per sequence: if a sequence has NaNs or infinities, its outputs are NaN
     * and the other sequences continue, as always on a GPU. false: on a CPU the run returns BO_NUMERIC, and the
     * contents of the states are undefined. */
    bool isolate;
    /** For training on consecutive segments; with `states` only. If set, `states` stay unchanged, the updated states
     * are written here, and the graph may have gradients. Final states must not share memory. Attention within one
     * stream and recurrent layers support this; other operations with a state refuse the pass. */
    void *const *final_states;
    /** With `final_states`: the gradients of the loss with respect to the final states, from the next segment:
     * bo_attention_state_gradient_floats() floats each; for recurrent layers, the number of floats of the state. NULL:
     * zero, that is, the final states are constants. */
    const float *const *final_gradients;
    /** With `final_states`: receives the gradients with respect to `states`, one array per state. NULL: not
     * computed. */
    float *const *state_gradients;
    uint64_t reserved[1]; /**< must be zero */
} bo_graph_pass;

/* ---- the operations ---------------------------------------------------------------------------------------------- */

/** The operations: inputs -> outputs. Optional inputs are in brackets. The attributes of an operation, if it has any,
 * are the struct bo_…_attributes of the same name. Numbers never change. */
typedef enum bo_operation {
    /** indices (n x 1, int32), table (v x w) -> table[indices] (n x w): embeddings, or selected rows of a tensor */
    BO_OPERATION_EMBED = 0,
    /** x, positions (n x 1, int32) [, table] -> x + P[positions] */
    BO_OPERATION_POSITION = 1,
    /** x, W_1 … W_k [, b_1 … b_k] [, r] -> y_i = s x W_iᵀ + b_i (+ r if k = 1); W: out x in */
    BO_OPERATION_LINEAR = 2,
    /** x [, gain] [, bias] -> x with groups of `width` columns normalized */
    BO_OPERATION_NORM = 3,
    /** x -> x m / (1 - rate) in training, with a random mask m; else x */
    BO_OPERATION_DROPOUT = 4,
    /** x, positions -> x with pairs of columns of each head rotated (2104.09864) */
    BO_OPERATION_ROPE = 5,
    /** q, k, v, then the inputs in `given`, in the order of bo_attention_given -> output of attention */
    BO_OPERATION_ATTENTION = 6,
    /** x -> f(x) */
    BO_OPERATION_UNARY = 7,
    /** a, b -> f(a) ∘ b; attributes: bo_unary_attributes, without offset */
    BO_OPERATION_GLU = 8,
    /** a, b -> a + b; no attributes */
    BO_OPERATION_ADD = 9,
    /** x (n x w), W (v x w), targets (n x 1, int32; negative: not counted) [, b (1 x v)] [, x' (n x w) of a teacher] ->
     * mean loss (1 x 1), losses (n x 1), in nats, of softmax(s x Wᵀ + b). The n x v logits are never stored as a
     * whole */
    BO_OPERATION_CROSS_ENTROPY = 10,
    /** prediction, target (of the same shape) -> mean loss (1 x 1) */
    BO_OPERATION_LOSS = 11,
    /** x, s (1 x 1, 1 x columns or rows x 1) -> x ∘ s; no attributes */
    BO_OPERATION_SCALE = 12,
    /** a_1 … a_k (k from 1 to 4, of the same shape) -> Π f_i(a_i), where f_i is the identity or an absolute power */
    BO_OPERATION_PRODUCT = 13,
    /** x -> φ(x) for a feature map, whose frequencies are constant */
    BO_OPERATION_FEATURES = 14,
    /** x (n x w), W (out x w²) -> y_o = xᵀ W_o x = Σ_ij W[o, i w + j] x_i x_j; no attributes */
    BO_OPERATION_QUADRATIC = 15,
    /** x (n x c), W (heads T x T) -> y_t = Σ_s W_h[t, s] x_s within each sequence of at most T tokens */
    BO_OPERATION_MIX = 16,
    /** x (n x c) and parameters -> y of c linear systems with a state of N values each */
    BO_OPERATION_SSM = 17,
    /** x (n x g h; projected), U (g h x h), b (1 x g h) -> h_1, h_2, … (n x h) */
    BO_OPERATION_RECURRENT = 18,
    /** x (images of positions x channels), W (out x kernel positions · in / groups) [, b] -> y */
    BO_OPERATION_CONVOLUTION = 19,
    /** x (images) -> the maximum or the mean of each window, per channel */
    BO_OPERATION_POOL = 20,
    /** x, gain, bias, mean, variance (1 x columns) -> x with each column normalized over the rows. In training, `mean`
     * and `variance`, which are frozen weights, move toward those of the batch */
    BO_OPERATION_BATCH_NORM = 21,
    /** x -> the same elements in rows of another length */
    BO_OPERATION_RESHAPE = 22,
    /** x_1 … x_k with the same number of rows -> their columns side by side; no attributes */
    BO_OPERATION_CONCAT = 23,
    /** x (nodes x c), first ((targets + 1) x 1, int32), neighbors (edges x 1, int32) -> y_i: sum, mean or maximum of x
     * over neighbors[first[i]] … neighbors[first[i + 1] - 1]; 0 if there are none */
    BO_OPERATION_AGGREGATE = 24,
    /** x -> x + σ ε, or x with some elements set to 0, in training; else x */
    BO_OPERATION_NOISE = 25,
    /** x -> x rounded to a small float format; the gradient is rounded to another format */
    BO_OPERATION_ROUND = 26
} bo_operation;

/* ---- operations on single rows ----------------------------------------------------------------------------------- */

/** Absolute positions that are added to embeddings. */
typedef enum bo_position_kind {
    BO_POSITION_KIND_LEARNED = 0,   /**< rows of a table, the third input */
    BO_POSITION_KIND_SINUSOIDAL = 1 /**< sin and cos of p / 10000^(2i / w) in adjacent columns (1706.03762) */
} bo_position_kind;

/** Attributes of POSITION. */
typedef struct bo_position_attributes {
    bo_position_kind kind; /**< learned or sinusoidal */
} bo_position_attributes;

/** Attributes of LINEAR. */
typedef struct bo_linear_attributes {
    size_t weights; /**< k, 1 to 4 */
    bool bias;      /**< there is one bias per weight */
    bool residual;  /**< there is a residual r; needs k = 1 */
    double scale;   /**< s in y_i = s x W_iᵀ + b_i + keep r (default: 1) */
    double keep;    /**< factor of the residual (default: 1) */
} bo_linear_attributes;

/** Attributes of NORM. */
typedef struct bo_norm_attributes {
    bo_norm kind;   /**< RMSNorm or LayerNorm */
    size_t width;   /**< columns of a group, a divisor of the columns; all groups share gain and bias (1 x width) */
    double epsilon; /**< added to the mean square or variance */
    bool gain;      /**< there is a gain */
    bool bias;      /**< there is a bias */
} bo_norm_attributes;

/** Attributes of DROPOUT. */
typedef struct bo_dropout_attributes {
    double rate; /**< probability of a zero, in [0, 1) */
    /** A distinct number for each dropout of a graph. The mask is a function of the seed of the pass, this number and
     * the position in the tensor. */
    uint64_t stream;
} bo_dropout_attributes;

/** Which columns of a head form the pairs that RoPE rotates. */
typedef enum bo_rope_layout {
    BO_ROPE_LAYOUT_HALVES = 0,    /**< pairs (i, i + rotated / 2): Llama as stored by Hugging Face */
    BO_ROPE_LAYOUT_NEIGHBORS = 1, /**< pairs (2i, 2i + 1): the paper, GPT-J */
} bo_rope_layout;

/** Attributes of ROPE. */
typedef struct bo_rope_attributes {
    size_t dim;              /**< columns of a head, a divisor of the columns */
    size_t rotated;          /**< number of leading columns of a head that are rotated, even (default: dim) */
    double base;             /**< base of the angles, at least 1 (default: 10000) */
    bo_rope_layout layout;   /**< which columns form a pair */
    bo_rope_scaling scaling; /**< a change of the frequencies */
} bo_rope_attributes;

/** Attributes of UNARY: y = factor f(x) + offset. Also those of GLU, without offset. */
typedef struct bo_unary_attributes {
    bo_unary function; /**< f */
    double factor;     /**< the factor (default: 1) */
    double offset;     /**< the offset */
} bo_unary_attributes;

/** Attributes of PRODUCT: the power p of each factor a. 0 and 1 mean a itself. Any other p > 0 means the absolute value
 * of a to the power p, whose derivative at 0 is taken as 0. */
typedef struct bo_product_attributes {
    double first;  /**< power of the first factor */
    double second; /**< power of the second factor */
    double third;  /**< power of the third factor */
    double fourth; /**< power of the fourth factor */
} bo_product_attributes;

/** Attributes of FEATURES. */
typedef struct bo_features_attributes {
    const bo_features *features; /**< the map; must outlive the graph */
} bo_features_attributes;

/** Attributes of RESHAPE. */
typedef struct bo_reshape_attributes {
    size_t columns; /**< the new number of columns, a divisor of the number of elements of x */
} bo_reshape_attributes;

/* ---- losses ------------------------------------------------------------------------------------------------------ */

/** Attributes of CROSS_ENTROPY. */
typedef struct bo_cross_entropy_attributes {
    double scale; /**< s in s x Wᵀ + b (default: 1) */
    /** Label smoothing (1512.00567), in [0, 1): the target has probability 1 - smoothing, and all v classes share the
     * rest evenly. */
    double smoothing;
    bool bias; /**< there is a bias b */
    /** α in [0, 1], for distillation (1503.02531). If α > 0, the last input is x', the vectors of a teacher that has
     * the same W, s and b. With p = softmax(s x Wᵀ + b) and p' = softmax(s x' Wᵀ + b), the loss of a row with target y
     * is (1 - α) (-log p_y) + α KL(p' | p), and its gradient with respect to the logits is p - (1 - α) e_y - α p'. Not
     * together with smoothing. p' is a constant: W and b have no gradient through it, and the gradient of x' is 0;
     * freeze the weights of the teacher, so that its gradient is not computed. A divergence is never negative, and
     * exactly 0 if x' equals x. Its absolute error is at most 5e-7 (root mean square 1e-7) plus the effect of the
     * rounding of the logits. */
    double teacher;
} bo_cross_entropy_attributes;

/** Attributes of LOSS. */
typedef struct bo_loss_attributes {
    bo_loss_kind kind; /**< the loss */
} bo_loss_attributes;

/* ---- operations within sequences --------------------------------------------------------------------------------- */

/** Attributes of ATTENTION. */
typedef struct bo_attention_attributes {
    const bo_attention *attention; /**< the attention; must outlive the graph */
    unsigned given;                /**< bits of bo_attention_given: the inputs after q, k and v */
    size_t layer;                  /**< the layer whose states of the pass are used */
    size_t tokens;                 /**< tokens per sequence if a pass has no lengths; divides the rows (default: all) */
    size_t max_sequences;          /**< maximum number of sequences of a pass (default: rows / tokens) */
    bool source;                   /**< the rows belong to the source (see bo_graph_pass): no states */
    /** Cross attention. The queries belong to the target stream. k, v and the inputs that belong to keys (log_gate,
     * beta) belong to the source and have its rows. The queries of sequence s attend to all of source sequence s.
     * Attention that is causal because of its kind, gate or window reads the source into a state, which every query
     * uses; other attention uses the keys directly. If the pass has states, they are overwritten with the source. */
    bool cross;
    /** Cross attention without k, v, log_gate and beta. The states of the pass must contain a source. They are not
     * changed, so several sequences may share one. No gradients. */
    bool queries_only;
    size_t key_tokens; /**< cross: tokens per source sequence without lengths in the pass (default: all rows) */
} bo_attention_attributes;

/** The sequences that rows belong to, as in bo_attention_attributes, and the location of the state of an operation: its
 * bytes start at `offset` of pass->states[layer * sequences + s]. Zeros are an empty state. */
typedef struct bo_sequences {
    size_t tokens;        /**< tokens per sequence if a pass has no lengths; divides the rows (default: all) */
    size_t max_sequences; /**< maximum number of sequences of a pass (default: rows / tokens) */
    size_t layer;         /**< the layer whose states of the pass are used */
    size_t offset;        /**< start of the operation's bytes in the state */
    bool source;          /**< the rows belong to the source (see bo_graph_pass): no state */
} bo_sequences;

/** Attributes of MIX. A sequence has at most T tokens, including the tokens of its state. */
typedef struct bo_mix_attributes {
    bo_sequences sequences; /**< the sequences */
    size_t heads;           /**< groups of columns with one T x T matrix each; a divisor of the columns (default: 1) */
    bool causal;            /**< ignore entries above the diagonal, without gradient; required with a state */
} bo_mix_attributes;

/** How SSM computes.
 *
 * Each channel of x is a linear system, s_t = A s_(t-1) + B u_t, y_t = Re(C s_t) + D u_t. This is the convolution of u
 * with the kernel (D + CB, CAB, CA²B, …). The parameters of channel c are row c of the inputs after x. Δ is
 * exp(log_step); complex numbers are pairs.
 *
 *     DIAGONAL   log_step (c x 1), a, w (c x N), C (c x 2N), D (c x 1)
 *                A = exp(Δ λ), λ = -softplus(a) + i w; B = (A - 1) / λ: inputs are constant between tokens (zero-order
 *                hold; S4D, 2206.11893). Only the product of B and C matters, so B is not learned
 *     CLOSED     log_step, P (c x N r), B, C (c x N), D; all real
 *                A = σ I + P̂ P̂ᵀ, σ = exp(-Δ), P̂ = √(1 - σ) P / √(1 + |P|²): σ <= eig A < 1. The input enters as
 *                (1 - σ) B
 *     LOW_RANK   log_step, a, w, P, Q (c x 2 N r; r pairs per state), C, D
 *                A = Λ + P̂ Q̂ᵀ with Λ = exp(Δ λ) and B as in DIAGONAL, P̂ = E P / √(1 + |P|²), Q̂ likewise,
 *                E = √(1 - |Λ|): for all x and v, |x* A v| <= Σ |Λ_n x_n v_n| + |E x| |E v| <= |x| |v|, hence |A| < 1
 */
typedef enum bo_ssm_form {
    BO_SSM_FORM_AUTO = 0,       /**< the faster one */
    BO_SSM_FORM_RECURRENT = 1,  /**< token by token; always used in a pass with states */
    BO_SSM_FORM_CONVOLUTION = 2 /**< with the kernel, by FFT; sequences longer than sequences.tokens: token by token */
} bo_ssm_form;

/** Attributes of SSM. */
typedef struct bo_ssm_attributes {
    bo_sequences sequences; /**< the sequences */
    bo_ssm kind;            /**< the transition matrix */
    bo_ssm_form form;       /**< how it is computed */
    size_t size;            /**< N, the size of the state of a channel */
    size_t rank;            /**< r (default: 1) */
} bo_ssm_attributes;

/** Attributes of RECURRENT. */
typedef struct bo_recurrent_attributes {
    bo_sequences sequences; /**< the sequences */
    bo_recurrence cell;     /**< the cell */
} bo_recurrent_attributes;

/* ---- operations on grids ----------------------------------------------------------------------------------------- */

/** Windows along one axis of an image: windows of `kernel` positions start at every `stride` positions of the padded
 * image.
 */
typedef struct bo_axis_windows {
    size_t size;   /**< length of an image */
    size_t kernel; /**< length of a window (default: 1) */
    size_t stride; /**< distance of windows (default: 1) */
    size_t before; /**< padding before the image: zeros; in max pooling the padding is ignored */
    size_t after;  /**< padding after the image, likewise */
} bo_axis_windows;

/** Windows on images. Rows of a tensor are the positions of images, one image after the other, row by row; columns are
 * channels. A sequence is an image of height 1. The columns of the weight of a kernel are its positions, row by row,
 * and within each position the channels of a group. */
typedef struct bo_windows {
    bo_axis_windows height; /**< vertical */
    bo_axis_windows width;  /**< horizontal; the product of both sizes divides the rows */
} bo_windows;

/** Attributes of CONVOLUTION. */
typedef struct bo_convolution_attributes {
    bo_windows windows; /**< the windows */
    /** Groups of channels that are convolved separately; divides both numbers of channels (default: 1). One group per
     * channel: depthwise. */
    size_t groups;
    bool bias;    /**< there is a bias b */
    double scale; /**< s in y = s W * x + b (default: 1) */
    /** If windows.width.size is 0, the convolution is causal within these sequences. Then height and stride are 1,
     * `before` is kernel - 1, `after` is 0, and the state is the last kernel - 1 rows. */
    bo_sequences sequences;
} bo_convolution_attributes;

/** What POOL computes in each window. */
typedef enum bo_pool_kind {
    BO_POOL_KIND_MAX = 0, /**< the maximum; if several are equal, the first one gets the gradient */
    BO_POOL_KIND_MEAN = 1 /**< the mean over the positions within the image */
} bo_pool_kind;

/** Attributes of POOL. */
typedef struct bo_pool_attributes {
    bo_windows windows; /**< the windows; `before` and `after` are less than the kernel */
    bo_pool_kind kind;  /**< maximum or mean */
} bo_pool_attributes;

/** Attributes of BATCH_NORM. */
typedef struct bo_batch_norm_attributes {
    double epsilon;  /**< added to the variance (default: 1e-5) */
    double momentum; /**< weight of a new batch in mean and variance, 0 to 1 (default: 0.1) */
} bo_batch_norm_attributes;

/* ---- operations on the edges of a graph -------------------------------------------------------------------------- */

/** The function that AGGREGATE applies to the neighbors of a node. */
typedef enum bo_aggregate_kind {
    BO_AGGREGATE_SUM = 0,  /**< the sum */
    BO_AGGREGATE_MEAN = 1, /**< the mean */
    BO_AGGREGATE_MAX = 2   /**< the maximum; if several are equal, the first one gets the gradient */
} bo_aggregate_kind;

/** Attributes of AGGREGATE. */
typedef struct bo_aggregate_attributes {
    bo_aggregate_kind kind; /**< sum, mean or maximum */
    double dropout;         /**< rate of removal of edges in training, in [0, 1); SUM: others count 1 / (1 - rate) */
    uint64_t stream;        /**< as in bo_dropout_attributes */
} bo_aggregate_attributes;

/* ---- operations for training ------------------------------------------------------------------------------------- */

/** The kind of noise. */
typedef enum bo_noise_kind {
    BO_NOISE_NORMAL = 0, /**< adds amount ε, ε ~ N(0, 1) */
    BO_NOISE_MASK = 1,   /**< sets each element to 0 with probability `amount` */
    BO_NOISE_ROWS = 2    /**< sets each row to 0 with probability `amount`: masked positions, removed nodes */
} bo_noise_kind;

/** Attributes of NOISE. */
typedef struct bo_noise_attributes {
    bo_noise_kind kind; /**< the kind of noise */
    double amount;      /**< standard deviation, at least 0; or probability, in [0, 1) */
    uint64_t stream;    /**< as in bo_dropout_attributes, different from all streams of dropout */
} bo_noise_attributes;

/** Attributes of ROUND. */
typedef struct bo_round_attributes {
    bo_small_float value;    /**< the format of the output */
    bo_small_float gradient; /**< the format of the gradient */
} bo_round_attributes;

#ifdef __cplusplus
}
#endif
#endif
