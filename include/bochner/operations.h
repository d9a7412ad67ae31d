/* Bochner: the operations that a graph can record (graph.h), and their attributes. Advanced tier.
 *
 * An operation takes tensors and makes tensors. A tensor has `rows` rows of `columns` elements, contiguous. An
 * operation that sees more structure in it (heads, channels, sequences) is told so by its attributes, a plain struct
 * that the graph copies. Zero means the default in the fields whose comment names one; in the others it is refused
 * where it makes no sense. Below, n x w means n rows of w columns.
 *
 * Every operation has a gradient with respect to each of its float inputs, except where its comment says otherwise.
 * Results have the same bits for any number of threads. */
#ifndef BOCHNER_OPERATIONS_H
#define BOCHNER_OPERATIONS_H

#include <bochner/attention.h>
#include <bochner/features.h>
#include <bochner/layers.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ==== Advanced ===================================================================================================== */

/* ---- tensors ------------------------------------------------------------------------------------------------------- */

/* What a tensor consists of. BFLOAT16 and INT8 are for matrices that are only read: weights of a model that is not
 * trained. */
typedef enum bo_element {
    BO_ELEMENT_FLOAT32 = 0,
    BO_ELEMENT_INT32 = 1,
    BO_ELEMENT_BFLOAT16 = 2,
    BO_ELEMENT_INT8 = 3
} bo_element;

/* A tensor as an operation sees it. */
typedef struct bo_tensor {
    void *data; /* aligned to 64 bytes; NULL where only the shape counts */
    bo_element element;
    size_t rows, columns;
} bo_tensor;

/* What changes from one run of a graph to the next, beside the contents of its inputs. Zero means the default in
 * every field. */
typedef struct bo_graph_pass {
    bool training; /* dropout and noise are active */
    uint64_t seed; /* of dropout and noise: another for every step and micro-batch */
    /* Sequences lie one after the other in the rows of the graph; their lengths sum up to the number of rows. NULL: as
     * the attributes of operations say. */
    size_t sequences;
    const size_t *lengths;
    /* A graph with two streams of rows (a source and what is made of it): the rows of the source, sequence by
     * sequence; the same number of sequences. Operations say which stream is theirs. NULL where lengths are: as their
     * attributes say. Sequences may be empty in both. */
    const size_t *source_lengths;
    /* What has a memory (attention, SSM, recurrent, causal convolution and mixing) in layer i continues from, and
     * leaves, states[i * sequences + s]: decoding and streaming. NULL: none, every sequence begins anew. Operations on
     * the source always do. */
    void *const *states;
    uint64_t reserved[4]; /* zero */
} bo_graph_pass;

/* ---- the operations ------------------------------------------------------------------------------------------------ */

/* Inputs -> outputs; the attributes, where there are any, are called bo_…_attributes. Numbers never change. */
typedef enum bo_operation {
    /* indices (n x 1, int32), table (v x w) -> table[indices] (n x w): embeddings, or rows chosen from a tensor */
    BO_OPERATION_EMBED = 0,
    /* x, positions (n x 1, int32) [, table] -> x + P[positions] */
    BO_OPERATION_POSITION = 1,
    /* x, W_1 … W_k [, b_1 … b_k] [, r] -> y_i = s x W_iᵀ + b_i (+ r where k = 1); W: out x in */
    BO_OPERATION_LINEAR = 2,
    /* x [, gain] [, bias] -> groups of `width` columns, normalized */
    BO_OPERATION_NORM = 3,
    /* x -> x m / (1 - rate) in training, else x */
    BO_OPERATION_DROPOUT = 4,
    /* x, positions -> x with pairs of columns of each head rotated (2104.09864) */
    BO_OPERATION_ROPE = 5,
    /* q, k, v, then what `given` names in the order of bo_attention_given -> output of attention */
    BO_OPERATION_ATTENTION = 6,
    /* x -> f(x) */
    BO_OPERATION_UNARY = 7,
    /* a, b -> f(a) ∘ b; attributes: bo_unary_attributes, without offset */
    BO_OPERATION_GLU = 8,
    /* a, b -> a + b; no attributes */
    BO_OPERATION_ADD = 9,
    /* x (n x w), W (v x w), targets (n x 1, int32; < 0: not counted) -> mean loss (1 x 1), losses (n x 1), in nats, of
     * softmax(x Wᵀ). The n x v logits never exist as a whole */
    BO_OPERATION_CROSS_ENTROPY = 10,
    /* prediction, target (of the same shape) -> mean loss (1 x 1) */
    BO_OPERATION_LOSS = 11,
    /* x, s (1 x 1, 1 x columns or rows x 1) -> x ∘ s; no attributes */
    BO_OPERATION_SCALE = 12,
    /* a_1 … a_k (k from 1 to 4, of the same shape) -> Π f_i(a_i), f the identity or |·|^p */
    BO_OPERATION_PRODUCT = 13,
    /* x -> φ(x) of a feature map, whose frequencies stay */
    BO_OPERATION_FEATURES = 14,
    /* x (n x w), W (out x w²) -> y_o = xᵀ W_o x = Σ_ij W[o, i w + j] x_i x_j; no attributes */
    BO_OPERATION_QUADRATIC = 15,
    /* x (n x c), W (heads T x T) -> y_t = Σ_s W_h[t, s] x_s within each sequence of at most T tokens */
    BO_OPERATION_MIX = 16,
    /* x (n x c) and parameters -> y of c linear systems with a state of N numbers each */
    BO_OPERATION_SSM = 17,
    /* x (n x g h; projected), U (g h x h), b (1 x g h) -> h_1, h_2, … (n x h) */
    BO_OPERATION_RECURRENT = 18,
    /* x (images of places x channels), W (out x kernel places · in / groups) [, b] -> y */
    BO_OPERATION_CONVOLUTION = 19,
    /* x (images) -> the largest or the mean of each window, channel by channel */
    BO_OPERATION_POOL = 20,
    /* x, gain, bias, mean, variance (1 x columns) -> columns normalized over the rows. Training moves `mean` and
     * `variance`, which are frozen weights, toward those of the batch */
    BO_OPERATION_BATCH_NORM = 21,
    /* x -> the same numbers in rows of another length */
    BO_OPERATION_RESHAPE = 22,
    /* x_1 … x_k with the same number of rows -> their columns side by side; no attributes */
    BO_OPERATION_CONCAT = 23,
    /* x (nodes x c), first ((targets + 1) x 1, int32), neighbors (edges x 1, int32) -> y_i: sum, mean or maximum of x
     * over neighbors[first[i]] … neighbors[first[i + 1] - 1]; without any: 0 */
    BO_OPERATION_AGGREGATE = 24,
    /* x -> x + σ ε, or x with parts set to 0, in training; else x */
    BO_OPERATION_NOISE = 25,
    /* x -> x rounded to a small float format; the gradient is rounded to another */
    BO_OPERATION_ROUND = 26
} bo_operation;

/* "embed", "position", "linear", …; NULL: no such operation. */
BO_API const char *bo_operation_name(bo_operation operation);
BO_API bool bo_operation_parse(const char *name, bo_operation *out);

/* ---- rows by themselves -------------------------------------------------------------------------------------------- */

typedef enum bo_position_kind { BO_POSITION_KIND_LEARNED = 0, BO_POSITION_KIND_SINUSOIDAL = 1 } bo_position_kind;
typedef struct bo_position_attributes {
    bo_position_kind kind; /* SINUSOIDAL: sin, cos of p / 10000^(2i / w) side by side (1706.03762) */
} bo_position_attributes;

typedef struct bo_linear_attributes {
    size_t weights; /* k, 1 to 4 */
    bool bias, residual;
    double scale; /* s in y_i = s x W_iᵀ + b_i + keep r; 0: 1 */
    double keep;  /* 0: 1 */
} bo_linear_attributes;

typedef struct bo_norm_attributes {
    bo_norm kind;
    size_t width; /* divides the columns; gain and bias (1 x width) serve every group */
    double epsilon;
    bool gain, bias;
} bo_norm_attributes;

typedef struct bo_dropout_attributes {
    double rate; /* in [0, 1) */
    uint64_t
        stream; /* another for each dropout of a graph; the mask is a function of the pass's seed, stream and place */
} bo_dropout_attributes;

typedef enum bo_rope_layout {
    BO_ROPE_LAYOUT_HALVES = 0,    /* pairs (i, i + rotated / 2): Llama as Hugging Face stores it */
    BO_ROPE_LAYOUT_NEIGHBORS = 1, /* pairs (2i, 2i + 1): the paper, GPT-J */
} bo_rope_layout;
typedef struct bo_rope_attributes {
    size_t dim;     /* of a head; divides the columns */
    size_t rotated; /* first columns of a head that are rotated, even; 0: dim */
    double base;    /* at least 1; 0: 10000 */
    bo_rope_layout layout;
} bo_rope_attributes;

typedef enum bo_unary {
    BO_UNARY_GELU = 0,      /* x Φ(x) */
    BO_UNARY_GELU_TANH = 1, /* its approximation by tanh: GPT-2's */
    BO_UNARY_RELU2 = 2,     /* max(x, 0)² */
    BO_UNARY_SILU = 3,
    BO_UNARY_RELU = 4,
    BO_UNARY_TANH = 5,
    BO_UNARY_SIGMOID = 6,
    BO_UNARY_LOG_SIGMOID = 7,
    BO_UNARY_SOFTPLUS = 8,
    BO_UNARY_EXP = 9,
    BO_UNARY_IDENTITY = 10
} bo_unary;
typedef struct bo_unary_attributes {
    bo_unary function;     /* y = factor f(x) + offset */
    double factor, offset; /* factor 0: 1 */
} bo_unary_attributes;     /* of GLU too, without offset */

typedef struct bo_product_attributes {
    /* The power of each factor. 0 or 1: a itself; other p > 0: |a|^p, whose derivative at 0 counts as 0 */
    double first, second, third, fourth;
} bo_product_attributes;

typedef struct bo_features_attributes {
    const bo_features *features; /* must outlive the graph */
} bo_features_attributes;

typedef struct bo_reshape_attributes {
    size_t columns; /* divides rows x columns of x */
} bo_reshape_attributes;

/* ---- losses -------------------------------------------------------------------------------------------------------- */

typedef struct bo_cross_entropy_attributes {
    double scale; /* of the logits; 0: 1 */
    /* Label smoothing (1512.00567): the target has 1 - smoothing of the probability, and all v share the rest evenly.
     * In [0, 1) */
    double smoothing;
} bo_cross_entropy_attributes;

typedef enum bo_loss_kind {
    BO_LOSS_KIND_MSE = 0, /* mean (p - t)² */
    BO_LOSS_KIND_L1 = 1,  /* mean |p - t| */
    BO_LOSS_KIND_BCE = 2, /* mean of -t log σ(p) - (1 - t) log σ(-p), t in [0, 1] */
    BO_LOSS_KIND_KL = 3 /* mean over rows of KL(softmax(t) | softmax(p)): what a student p loses against its teacher */
} bo_loss_kind;
typedef struct bo_loss_attributes {
    bo_loss_kind kind;
} bo_loss_attributes;

/* ---- within sequences ---------------------------------------------------------------------------------------------- */

/* Further inputs of attention, a bit each, in this order after q, k, v; shapes as in bo_attention_inputs with tokens as
 * rows: log_gate and beta n x key_heads (GLA: n x key_heads dim), parameters 1 x their length. */
typedef enum bo_attention_given {
    BO_ATTENTION_GIVEN_LOG_GATE = 1 << 0,
    BO_ATTENTION_GIVEN_SIGMA = 1 << 1,
    BO_ATTENTION_GIVEN_M = 1 << 2,
    BO_ATTENTION_GIVEN_MIX = 1 << 3,
    BO_ATTENTION_GIVEN_BETA = 1 << 4,
    BO_ATTENTION_GIVEN_LOG_DECAY = 1 << 5,
    BO_ATTENTION_GIVEN_LAMBDA = 1 << 6,
    BO_ATTENTION_GIVEN_M_K = 1 << 7,
    BO_ATTENTION_GIVEN_BIAS = 1 << 8,
    BO_ATTENTION_GIVEN_BIAS_K = 1 << 9
} bo_attention_given;
typedef struct bo_attention_attributes {
    const bo_attention *attention; /* must outlive the graph */
    unsigned given;                /* bits of bo_attention_given */
    size_t layer;                  /* whose states the pass has */
    size_t tokens;                 /* of a sequence where the pass gives no lengths; divides the rows; 0: all rows */
    size_t most_sequences;         /* that a pass may give; 0: rows / tokens */
    bool source;                   /* rows are the source's (bo_graph_pass): no states */
    /* Queries are of the stream; k, v and what belongs to keys (log_gate, beta) of the source, with its rows: sequence
     * s of the one asks sequence s of the other, all of it. Causal attention, whose kind, gate or window knows nothing
     * else, reads the source into a state, which every query asks; other attention sees the keys themselves. With
     * states in the pass what was read stays in them, whatever they held. */
    bool cross;
    /* cross without k, v, log_gate and beta: the states of the pass have read a source; they are asked and stay as
     * they are, so that several sequences may share one. No gradients. */
    bool ask;
    size_t key_tokens; /* cross: of a sequence of the source where the pass gives no lengths; 0: all rows */
} bo_attention_attributes;

/* Where rows are tokens of sequences, as in bo_attention_attributes; and where an operation with a memory keeps it:
 * its bytes begin at `offset` of pass->states[layer * sequences + s]. Zeros are the memory of nothing. */
typedef struct bo_sequences {
    size_t tokens, most_sequences;
    size_t layer, offset;
    bool source; /* rows are the source's (bo_graph_pass): no memory */
} bo_sequences;

/* A sequence may have at most T tokens, also where a memory continues it; more are refused. */
typedef struct bo_mix_attributes {
    bo_sequences sequences;
    size_t heads; /* divides the columns: a matrix T x T for each group of them; 0: 1 */
    bool causal;  /* entries above the diagonal do not count, and have no gradient; needed where there is a memory */
} bo_mix_attributes;
/* Bytes of the memory of one sequence, of rows of `columns` and a matrix for `most` tokens; likewise below. */
BO_API size_t bo_mix_state_bytes(size_t columns, size_t most);

/* For each channel of x by itself s_t = A s_(t-1) + B u_t, y_t = Re(C s_t) + D u_t, that is u convolved with the
 * kernel (D + CB, CAB, CA²B, …). Channel c's parameters are row c of the inputs after x; Δ = exp(log_step); complex
 * numbers are pairs.
 *   DIAGONAL   log_step (c x 1), a, w (c x N), C (c x 2N), D (c x 1)
 *              A = exp(Δ λ), λ = -softplus(a) + i w; B = (A - 1) / λ, held between tokens (S4D, 2206.11893; only the product of
 *              B and C counts, so that a learned B would say nothing new)
 *   CLOSED     log_step, P (c x N r), B, C (c x N), D; all real
 *              A = σ I + P̂ P̂ᵀ, σ = exp(-Δ), P̂ = √(1 - σ) P / √(1 + |P|²): σ <= eig A < 1. Input enters as (1 - σ) B
 *   LOW_RANK   log_step, a, w, P, Q (c x 2 N r; r pairs a state), C, D
 *              A = Λ + P̂ Q̂ᵀ with Λ = exp(Δ λ) and B as DIAGONAL, P̂ = E P / √(1 + |P|²), Q̂ likewise, E = √(1 - |Λ|): for any x, v
 *              |x* A v| <= Σ |Λ_n x_n v_n| + |E x| |E v| <= |x| |v|, so that |A| < 1 */
typedef enum bo_ssm_form {
    BO_SSM_FORM_AUTO = 0,       /* the faster one */
    BO_SSM_FORM_RECURRENT = 1,  /* token by token; what every pass with states does */
    BO_SSM_FORM_CONVOLUTION = 2 /* with the kernel, by FFT; sequences longer than sequences.tokens: token by token */
} bo_ssm_form;
typedef struct bo_ssm_attributes {
    bo_sequences sequences;
    bo_ssm kind;
    bo_ssm_form form;
    size_t size; /* N */
    size_t rank; /* r; 0: 1 */
} bo_ssm_attributes;
BO_API size_t bo_ssm_state_bytes(const bo_ssm_attributes *attributes, size_t channels);

/* x is the projected input with its bias; gates in PyTorch's order. A memory is h and then, of LSTM, c.
 *   RNN    h = tanh(x + U h + b)
 *   GRU    r, z = σ(x_rz + U_rz h + b_rz), n = tanh(x_n + r ∘ (U_n h + b_n)), h = (1 - z) ∘ n + z ∘ h     (1406.1078)
 *   LSTM   i, f, g, o of x + U h + b; c = σ(f) ∘ c + σ(i) ∘ tanh g, h = σ(o) ∘ tanh c
 * (Hochreiter 1997) */
typedef enum bo_recurrence { BO_RECURRENCE_RNN = 0, BO_RECURRENCE_GRU = 1, BO_RECURRENCE_LSTM = 2 } bo_recurrence;
typedef struct bo_recurrent_attributes {
    bo_sequences sequences;
    bo_recurrence cell;
} bo_recurrent_attributes;
BO_API size_t bo_recurrent_state_bytes(bo_recurrence cell, size_t size); /* of h */

/* ---- on grids ------------------------------------------------------------------------------------------------------ */

/* Rows are the places of images one after the other, row by row; columns are channels. A sequence is an image of
 * height 1. The columns of a kernel's weight are its places, row by row, and within each the channels of a group.
 * Windows of `kernel` places begin every `stride` places of the image with `before` and `after` places of zeros (of
 * max pooling: of nothing) around it. */
typedef struct bo_axis_windows {
    size_t size;   /* of an image */
    size_t kernel; /* 0: 1 */
    size_t stride; /* 0: 1 */
    size_t before, after;
} bo_axis_windows;
typedef struct bo_windows {
    bo_axis_windows height, width; /* the product of both sizes divides the rows */
} bo_windows;

typedef struct bo_convolution_attributes {
    bo_windows windows;
    size_t groups; /* of channels, each convolved by itself; divides both; 0: 1. As many as channels: depthwise */
    bool bias;
    double scale; /* s in y = s W * x + b; 0: 1 */
    /* windows.width.size 0: causal within sequences that are as `sequences` or the pass say. Height 1, stride 1,
     * `before` kernel - 1, `after` 0; the last kernel - 1 rows are its memory. */
    bo_sequences sequences;
} bo_convolution_attributes;
BO_API size_t bo_convolution_state_bytes(const bo_convolution_attributes *attributes, size_t channels);

typedef enum bo_pool_kind { BO_POOL_KIND_MAX = 0, BO_POOL_KIND_MEAN = 1 } bo_pool_kind;
typedef struct bo_pool_attributes {
    /* MEAN divides by the places that are within the image; `before` and `after` less than the kernel */
    bo_windows windows;
    bo_pool_kind kind; /* MAX: the first of equals has the gradient */
} bo_pool_attributes;

typedef struct bo_batch_norm_attributes {
    double epsilon;  /* 0: 1e-5 */
    double momentum; /* of the batch in mean and variance; 0: 0.1 */
} bo_batch_norm_attributes;

/* ---- on the edges of a graph --------------------------------------------------------------------------------------- */

typedef enum bo_aggregate_kind {
    BO_AGGREGATE_SUM = 0,
    BO_AGGREGATE_MEAN = 1,
    BO_AGGREGATE_MAX = 2 /* the first of equals has the gradient */
} bo_aggregate_kind;
typedef struct bo_aggregate_attributes {
    bo_aggregate_kind kind;
    double dropout; /* of edges, in training: they are not there (SUM: those that stay count 1 / (1 - rate)) */
    uint64_t stream;
} bo_aggregate_attributes;

/* ---- in training --------------------------------------------------------------------------------------------------- */

typedef enum bo_noise_kind {
    BO_NOISE_NORMAL = 0, /* + amount ε, ε ~ N(0, 1) */
    BO_NOISE_MASK = 1,   /* each number is 0 with probability `amount`, the others stay as they are */
    BO_NOISE_ROWS = 2    /* each row is 0 with probability `amount`: masked places, nodes left out */
} bo_noise_kind;
typedef struct bo_noise_attributes {
    bo_noise_kind kind;
    double amount;
    uint64_t stream; /* another than those of dropout */
} bo_noise_attributes;

/* To the nearest, ties to even; beyond the largest number to it, with its sign. NaN stays. */
typedef enum bo_small_float {
    BO_SMALL_FLOAT_NONE = 0, /* as it is */
    BO_SMALL_FLOAT_E4M3 = 1, /* 4 bits of exponent, 3 of mantissa, largest 448, smallest 2^-9 (2209.05433) */
    BO_SMALL_FLOAT_E5M2 = 2, /* largest 57344, smallest 2^-16 */
    BO_SMALL_FLOAT_BF16 = 3
} bo_small_float;
typedef struct bo_round_attributes {
    bo_small_float value, gradient;
} bo_round_attributes;

#ifdef __cplusplus
}
#endif
#endif
