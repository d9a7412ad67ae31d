/* Attributes of the operations of backend.h: plain structs, copied by the tape. */
#ifndef BO_BACKEND_ATTRIBUTES_H
#define BO_BACKEND_ATTRIBUTES_H

#include <bochner/attention.h>
#include <bochner/features.h>
#include <bochner/layers.h>

typedef struct bo_embed_attributes {
    char unused;
} bo_embed_attributes;

typedef enum bo_position_kind { BO_POSITION_LEARNED = 0, BO_POSITION_SINUSOIDAL = 1 } bo_position_kind;
typedef struct bo_position_attributes {
    bo_position_kind kind; /* SINUSOIDAL: sin, cos of p / 10000^(2i / w) side by side (1706.03762) */
} bo_position_attributes;

typedef struct bo_linear_attributes {
    size_t weights; /* k, 1 to 4 */
    bool bias, residual;
    double scale; /* s in y_i = s x W_iᵀ + b_i + keep r; 0: 1 */
    double keep;  /* 0: 1 */
} bo_linear_attributes;

typedef enum bo_normalization { BO_NORMALIZE_RMS = 0, BO_NORMALIZE_LAYER = 1 } bo_normalization;
typedef struct bo_norm_attributes {
    bo_normalization kind;
    size_t width; /* divides the columns; gain and bias (1 x width) serve every group */
    double epsilon;
    bool gain, bias;
} bo_norm_attributes;

typedef struct bo_dropout_attributes {
    double rate;     /* in [0, 1) */
    uint64_t stream; /* each dropout of a model has its own; the mask is a function of pass seed, stream and place */
} bo_dropout_attributes;

typedef enum bo_rope_layout {
    BO_ROPE_HALVES = 0,    /* pairs (i, i + rotated / 2): Llama as Hugging Face stores it */
    BO_ROPE_NEIGHBORS = 1, /* pairs (2i, 2i + 1): the paper, GPT-J */
} bo_rope_layout;
typedef struct bo_rope_attributes {
    size_t dim;     /* of a head; divides the columns */
    size_t rotated; /* first columns of a head that turn, even; 0: dim */
    double base;    /* at least 1; 0: 10000 */
    bo_rope_layout layout;
} bo_rope_attributes;

/* Further inputs of attention, a bit each, in this order after q, k, v; shapes as in bo_attention_inputs with tokens as
 * rows: log_gate and beta n x key_heads (GLA: n x key_heads dim), parameters 1 x their length. */
typedef enum bo_attention_given {
    BO_GIVEN_LOG_GATE = 1 << 0,
    BO_GIVEN_SIGMA = 1 << 1,
    BO_GIVEN_M = 1 << 2,
    BO_GIVEN_MIX = 1 << 3,
    BO_GIVEN_BETA = 1 << 4,
    BO_GIVEN_LOG_DECAY = 1 << 5,
    BO_GIVEN_LAMBDA = 1 << 6,
    BO_GIVEN_M_K = 1 << 7,
    BO_GIVEN_BIAS = 1 << 8,
    BO_GIVEN_BIAS_K = 1 << 9,
} bo_attention_given;
enum { BO_GIVEN_COUNT = 10 };
typedef struct bo_attention_attributes {
    const bo_attention *attention; /* outlives the graph */
    unsigned given;                /* bits of bo_attention_given */
    size_t layer;                  /* whose states the pass has, and calibration a run */
    size_t tokens;                 /* of a sequence where the pass gives no lengths; divides the rows; 0: all rows */
    size_t most_sequences;         /* that a pass may give; 0: rows / tokens */
    bool source;                   /* rows are the source's (bo_pass): no states */
    /* Queries are of the stream; k, v and what belongs to keys (log_gate, beta) of the source, with its rows: sequence s of the
     * one asks sequence s of the other, all of it. Causal attention, whose kind, gate or window knows nothing else, reads the
     * source into a state, which every query asks; other attention sees the keys themselves. With states in the pass what
     * was read stays in them, whatever they held. */
    bool cross;
    /* cross without k, v, log_gate and beta: the states of the pass have read a source; they are asked and stay as they are, so
     * that several sequences may share one. No gradients. */
    bool ask;
    size_t key_tokens; /* cross: of a sequence of the source where the pass gives no lengths; 0: all rows */
} bo_attention_attributes;

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
    BO_UNARY_IDENTITY = 10,
    BO_UNARY_COUNT = 11
} bo_unary;
typedef struct bo_unary_attributes {
    bo_unary function;     /* y = factor f(x) + offset */
    double factor, offset; /* factor 0: 1 */
} bo_unary_attributes;     /* of GLU too, without offset */

typedef struct bo_cross_entropy_attributes {
    double scale; /* of the logits; 0: 1 */
    /* Label smoothing (1512.00567): the target has 1 - smoothing of the probability, and all v share the rest evenly. In
     * [0, 1) */
    double smoothing;
} bo_cross_entropy_attributes;

typedef enum bo_loss_kind {
    BO_LOSS_KIND_MSE = 0, /* mean (p - t)² */
    BO_LOSS_KIND_L1 = 1,  /* mean |p - t| */
    BO_LOSS_KIND_BCE = 2, /* mean of -t log σ(p) - (1 - t) log σ(-p), t in [0, 1] */
    BO_LOSS_KIND_KL = 3, /* mean over rows of KL(softmax(t) | softmax(p)): what a student p loses against its teacher */
    BO_LOSS_KIND_COUNT = 4
} bo_loss_kind;
typedef struct bo_loss_attributes {
    bo_loss_kind kind;
} bo_loss_attributes;

typedef struct bo_product_attributes {
    double powers[4]; /* of each factor: 1 (or 0): a itself; other p > 0: |a|^p, whose derivative at 0 counts as 0 */
} bo_product_attributes;

typedef struct bo_features_attributes {
    const bo_features *features; /* outlives the graph */
} bo_features_attributes;

/* ---- within sequences ---------------------------------------------------------------------------------------------- */

/* Where rows are tokens of sequences, as in bo_attention_attributes; and where an operation with a memory keeps it: its bytes
 * (bo_state_bytes of shapes.h) begin at `offset` of pass->states[layer * sequences + s]. Zeros are the memory of nothing. */
typedef struct bo_sequences {
    size_t tokens, most_sequences;
    size_t layer, offset;
    bool source; /* rows are the source's (bo_pass): no memory */
} bo_sequences;

/* A sequence may have at most T tokens, also where a memory continues it; more are refused. */
typedef struct bo_mix_attributes {
    bo_sequences sequences;
    size_t heads; /* divides the columns: a matrix T x T for each group of them; 0: 1 */
    bool causal;  /* entries above the diagonal do not count, and have no gradient; needed where there is a memory */
} bo_mix_attributes;

/* For each channel of x by itself s_t = A s_(t-1) + B u_t, y_t = Re(C s_t) + D u_t, that is u convolved with the kernel
 * (D + CB, CAB, CA²B, …). Channel c's parameters are row c of the inputs after x; Δ = exp(log_step); complex numbers are pairs.
 *   DIAGONAL   log_step (c x 1), a, w (c x N), C (c x 2N), D (c x 1)
 *              A = exp(Δ λ), λ = -softplus(a) + i w; B = (A - 1) / λ, held between tokens (S4D, 2206.11893; only the product of
 *              B and C counts, so that a learned B would say nothing new)
 *   CLOSED     log_step, P (c x N r), B, C (c x N), D; all real
 *              A = σ I + P̂ P̂ᵀ, σ = exp(-Δ), P̂ = √(1 - σ) P / √(1 + |P|²): σ <= eig A < 1. Input enters as (1 - σ) B
 *   LOW_RANK   log_step, a, w, P, Q (c x 2 N r; r pairs a state), C, D
 *              A = Λ + P̂ Q̂ᵀ with Λ = exp(Δ λ) and B as DIAGONAL, P̂ = E P / √(1 + |P|²), Q̂ likewise, E = √(1 - |Λ|): for any x, v
 *              |x* A v| <= Σ |Λ_n x_n v_n| + |E x| |E v| <= |x| |v|, so that |A| < 1 */
typedef enum bo_ssm_form {
    BO_SSM_AUTO = 0,        /* the faster one */
    BO_SSM_RECURRENT = 1,   /* token by token; what every pass with states does */
    BO_SSM_CONVOLUTION = 2, /* with the kernel, by FFT; sequences longer than sequences.tokens: token by token */
    BO_SSM_FORM_COUNT = 3
} bo_ssm_form;
typedef struct bo_ssm_attributes {
    bo_sequences sequences;
    bo_ssm kind;
    bo_ssm_form form;
    size_t size; /* N */
    size_t rank; /* r; 0: 1 */
} bo_ssm_attributes;

/* x is the projected input with its bias; gates in PyTorch's order. A memory is h and then, of LSTM, c.
 *   RNN    h = tanh(x + U h + b)
 *   GRU    r, z = σ(x_rz + U_rz h + b_rz), n = tanh(x_n + r ∘ (U_n h + b_n)), h = (1 - z) ∘ n + z ∘ h     (1406.1078)
 *   LSTM   i, f, g, o of x + U h + b; c = σ(f) ∘ c + σ(i) ∘ tanh g, h = σ(o) ∘ tanh c                    (Hochreiter 1997) */
typedef enum bo_recurrence {
    BO_RECURRENCE_RNN = 0,
    BO_RECURRENCE_GRU = 1,
    BO_RECURRENCE_LSTM = 2,
    BO_RECURRENCE_COUNT = 3
} bo_recurrence;
typedef struct bo_recurrent_attributes {
    bo_sequences sequences;
    bo_recurrence cell;
} bo_recurrent_attributes;

/* ---- on grids ------------------------------------------------------------------------------------------------------ */

/* Rows are the places of images one after the other, row by row; columns are channels. A sequence is an image of height
 * 1. The columns of a kernel's weight are its places, row by row, and within each the channels of a group. Windows of
 * kernel[0] x kernel[1] places begin every stride[i] places of the image with `before` and `after` places of zeros (of
 * max pooling: of nothing) around it. */
typedef struct bo_windows {
    size_t size[2];   /* height, width of an image; their product divides the rows */
    size_t kernel[2]; /* 0: 1 */
    size_t stride[2]; /* 0: 1 */
    size_t before[2], after[2];
} bo_windows;

typedef struct bo_convolution_attributes {
    bo_windows windows;
    size_t groups; /* of channels, each convolved by itself; divides both; 0: 1. As many as channels: depthwise */
    bool bias;
    double scale; /* s in y = s W * x + b; 0: 1 */
    /* windows.size[1] 0: causal within sequences that are as `sequences` or the pass say. Height 1, stride 1, `before`
     * kernel - 1, `after` 0; the last kernel - 1 rows are its memory (bo_convolution_state_bytes). */
    bo_sequences sequences;
} bo_convolution_attributes;

typedef enum bo_pool_kind { BO_POOL_MAX = 0, BO_POOL_MEAN = 1, BO_POOL_COUNT = 2 } bo_pool_kind;
typedef struct bo_pool_attributes {
    /* MEAN divides by the places that are within the image; `before` and `after` less than the kernel */
    bo_windows windows;
    bo_pool_kind kind; /* MAX: the first of equals has the gradient */
} bo_pool_attributes;

typedef struct bo_batch_norm_attributes {
    double epsilon;  /* 0: 1e-5 */
    double momentum; /* of the batch in mean and variance; 0: 0.1 */
} bo_batch_norm_attributes;

typedef struct bo_reshape_attributes {
    size_t columns; /* divides rows x columns of x */
} bo_reshape_attributes;

/* ---- on graphs ----------------------------------------------------------------------------------------------------- */

typedef enum bo_aggregate_kind {
    BO_AGGREGATE_SUM = 0,
    BO_AGGREGATE_MEAN = 1,
    BO_AGGREGATE_MAX = 2, /* the first of equals has the gradient */
    BO_AGGREGATE_COUNT = 3
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
    BO_NOISE_ROWS = 2,   /* each row is 0 with probability `amount`: masked places, nodes left out */
    BO_NOISE_COUNT = 3
} bo_noise_kind;
typedef struct bo_noise_attributes {
    bo_noise_kind kind;
    double amount;
    uint64_t stream; /* among those of dropout: each has its own */
} bo_noise_attributes;

/* To the nearest, ties to even; beyond the largest number to it, with its sign. NaN stays. */
typedef enum bo_small_float {
    BO_SMALL_NONE = 0, /* as it is */
    BO_SMALL_E4M3 = 1, /* 4 bits of exponent, 3 of mantissa, largest 448, smallest 2^-9 (2209.05433) */
    BO_SMALL_E5M2 = 2, /* largest 57344, smallest 2^-16 */
    BO_SMALL_BF16 = 3,
    BO_SMALL_COUNT = 4
} bo_small_float;
typedef struct bo_round_attributes {
    bo_small_float value, gradient;
} bo_round_attributes;

#endif
