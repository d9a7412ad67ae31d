/* Bochner: attention. Exact softmax attention; attention with a kernel that is an inner product of features, linear in
 * length and decoded from a state of fixed size; and recurrent memories that generalize it.
 *
 *     bo_attention_desc desc = {.kind = BO_ATTENTION_FAVOR, .heads = 8, .dim = 64, .causal = true,
 *                               .features = {.features = 128, .seed = 1}};
 *     bo_attention *attention;
 *     bo_attention_create(context, &desc, &attention);
 *     bo_attention_shape shape = {.sequences = 1, .tokens = 4096};
 *     bo_attention_inputs in = {.q = q, .k = k, .v = v};                       // each (1, 8, 4096, 64)
 *     bo_attention_forward(context, attention, &shape, &in, NULL, NULL, out, NULL);
 *     bo_attention_destroy(attention);
 *
 * The output for query i, over the keys j that it sees (all, or j <= i when causal), is
 *
 *     o_i = Σ_j a_ij v_j / max(Σ_j a_ij, clamp)           a_ij >= 0, or of any sign for signed features
 *
 *   kind     a_ij
 *   EXACT    exp(s q_i·k_j), for j > i - window where a window is given
 *   LINEAR   φ(q_i)·φ(k_j), φ any map of features.h
 *   RFA      φ(σ∘q̂_i / τ)·φ(σ∘k̂_j / τ), x̂ = x / (|x| + 1e-3), φ sin/cos or arc-cosine (2103.02143)
 *   FAVOR    φ(q_i)·φ(k_j), an unbiased estimate of exp(s q_i·k_j) (2009.14794)
 *   DARK     the same of exp(s (M q_i)·(M k_j)) (2603.04127), or of exp(s q_i·k_j) with frequencies drawn for the data
 *   HYBRID   mix · exp(s q_i·k_j) for the `window` latest keys, φ(q_i)·φ(k_j) for those before: one denominator
 *   LEARNED  φ(W q_i + b)·φ(W' k_j + b'), φ exp(±y), softmax(±y) (Hedgehog, 2402.04347) or max(y, 0) (T2R, 2103.13076)
 *   POWER    |s q_i·k_j|^p for any real p > 0, from explicit keys as EXACT
 *
 * With a gate g_t in (0, 1] (causal kinds with features), a_ij is also multiplied by g_i g_{i-1} … g_{j+1} and by the
 * input weight 1 - g_j (RFA-Gate) or 1.
 *
 * Memories are causal and have no denominator (S_0 = G_0 = H_0 = 0; β_t = 1 and g_t = 1 by default):
 *
 *   GLA      o_t = s S_tᵀ q_t,  S_t = diag(g_t) S_{t-1} + k_t v_tᵀ,  one gate per channel (2312.06635)
 *   DELTA    o_t = s S_tᵀ q_t,  S_t = g_t S_{t-1} + β_t k_t (v_t - (g_t S_{t-1})ᵀ k_t)ᵀ  (2406.06484, 2412.06464)
 *   RIDGE    o_t = G_tᵀ (H_t + Λ)⁻¹ q_t,  H_t = g_t H_{t-1} + β_t k_t k_tᵀ,  G_t = g_t G_{t-1} + β_t k_t v_tᵀ: ridge
 *            regression of the values on the keys so far (2506.05233)
 *
 * Nothing overflows: exponential features are kept relative to a running maximum, which is part of the state. Causal
 * attention is exactly causal: changing token t does not change a bit of any output before t. Results do not depend on
 * the number of threads.
 *
 * Grouped queries: `heads` query heads share `key_heads` heads of keys and values. Query head h uses key head
 * h / (heads / key_heads). Features, gate, β, state and parameters belong to key heads; mix belongs to query heads. */
#ifndef BOCHNER_ATTENTION_H
#define BOCHNER_ATTENTION_H

#include <bochner/features.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ==== Simple ====================================================================================================== */

/* ---- kinds and descriptor ---------------------------------------------------------------------------------------- */

typedef struct bo_attention bo_attention;

typedef enum bo_attention_kind {
    BO_ATTENTION_SOFTMAX = 0,
    BO_ATTENTION_LINEAR = 1,
    BO_ATTENTION_RFA = 2,
    BO_ATTENTION_FAVOR = 3,
    BO_ATTENTION_DARK = 4,
    BO_ATTENTION_HYBRID = 5,
    BO_ATTENTION_LEARNED = 6,
    BO_ATTENTION_POWER = 7,
    BO_ATTENTION_GLA = 8,
    BO_ATTENTION_DELTA = 9,
    BO_ATTENTION_RIDGE = 10
} bo_attention_kind;

typedef enum bo_gate {
    BO_GATE_NONE = 0,
    BO_GATE_CONVEX = 1, /* S_t = g_t S_{t-1} + (1 - g_t) φ(k_t) v_tᵀ: RFA-Gate; 1 - g_t is at least 1e-30 */
    BO_GATE_DECAY = 2,  /* S_t = g_t S_{t-1} + φ(k_t) v_tᵀ */
    BO_GATE_FIXED = 3   /* the same with one g per key head for all tokens: retention (2307.08621) */
} bo_gate;

typedef enum bo_normalizer {
    BO_NORMALIZER_SUM = 0, /* divide by the sum of the weights */
    BO_NORMALIZER_NONE = 1 /* no division: features without log scales (not SOFTMAX, COSH); not EXACT, POWER, HYBRID */
} bo_normalizer;

/* The distribution of the frequencies of POSITIVE features, fitted to data (bo_calibration). All are normal, with
 * importance weights, so that the estimate of exp(s q·k) stays unbiased. */
typedef enum bo_proposal {
    BO_PROPOSAL_NONE = 0,    /* N(0, I): FAVOR+ */
    BO_PROPOSAL_OPRF = 1,    /* N(0, c I), c from the mean of |q + k|²: FAVOR++ (2205.15317) */
    BO_PROPOSAL_SDERF = 2,   /* one c per principal direction of q + k: FAVOR# (2302.00787) */
    BO_PROPOSAL_GAUSSIAN = 3 /* N(0, Σ*), optimal for Gaussian q and k: DARK (2603.04127) */
} bo_proposal;

/* Zero means the default, except for heads, dim, and features.features where the map does not fix it. */
typedef struct bo_attention_desc {
    bo_attention_kind kind;
    size_t heads;     /* query heads */
    size_t key_heads; /* a divisor of heads (default: heads) */
    size_t dim;       /* of a query and a key */
    size_t value_dim; /* (default: dim) */
    bool causal;
    /* s (default: 1/√dim). LINEAR: the same as features.gamma; the default is 1 except for the kernels of s q·k, which
     * are SOFTMAX, LINEAR, POLYNOMIAL and TAYLOR. RFA has a temperature instead. LEARNED and RIDGE have no scale. */
    double scale;
    /* The feature map; its dim is filled in. LINEAR: any map. RFA: kernel RBF (default) or ARCCOS. FAVOR, DARK, HYBRID:
     * kernel SOFTMAX is filled in (HYBRID takes any other except RBF) and function POSITIVE is the default. LEARNED:
     * COSH (default), HEDGEHOG or RECTIFIER; HYBRID takes these too, then with W and b. sampling OPTIMAL chooses among
     * candidates when the attention is calibrated; LEVERAGE is refused; a sample (rows as the map sees them) is used by
     * OPRF only. EXACT, POWER and the memories have no map: they refuse a sampling and ignore the rest. */
    bo_features_desc features;
    /* FAVOR, DARK, HYBRID with POSITIVE features. With a proposal, or with sampling OPTIMAL, the attention must be
     * calibrated (bo_calibration_apply) before it is used. */
    bo_proposal proposal;
    bool one_draw; /* kinds with features: all key heads share one draw (default: one draw per key head) */
    bo_gate gate;
    size_t window; /* causal only. HYBRID: (default: 64). EXACT, POWER: (default: none) */
    bo_normalizer normalizer;
    /* Kinds with features: the smallest denominator, in units of exp(log scale of the query + running log scale)
     * (default: 1e-3 for signed features, the smallest normal float for non-negative ones). Gradients through a clamped
     * denominator are zero. Where even the clamped denominator is not larger than the smallest normal float, the output
     * is 0. Gradients are 0 where gradient / denominator exceeds 1e36. */
    double clamp;
    double temperature; /* RFA: τ (default: 1) */
    size_t rank;        /* DARK, LEARNED: rows of M or W (default: dim) */
    double power;       /* POWER: p, a normal float (default: 2) */
    bool unit;          /* GLA, DELTA, RIDGE: replace q and k by x / (|x| + 1e-3); DELTA is stable for β|k|² <= 2 */
    /* RIDGE with a gate: the most steps of conjugate gradients before a system is solved directly, by a factorization
     * of H + Λ in double (default: dim, about the cost of the factorization). */
    size_t iterations;
    /* RIDGE with a gate: conjugate gradients stop at |residual| <= tolerance |q| (default: 1e-6). Rounding may leave up
     * to ten times as much, and gradients of q and Λ an error of |H| / λ times that. G and H are float32: every result
     * may be off by |H| / λ times their rounding errors. */
    double tolerance;
    size_t capacity;      /* EXACT, POWER: the most tokens a state holds (default: the window, or else 4096) */
    size_t chunk;         /* tokens processed at a time (default: chosen by bo_attention_estimate) */
    uint64_t reserved[4]; /* zero: room for later versions */
} bo_attention_desc;

/* Sets the fields of a descriptor that a name stands for: kind, gate, normalizer, unit, proposal, kernel and function.
 * causal becomes true where the kind requires it. All other fields keep their values. Names: "softmax", "linear", "rfa",
 * "rfa-gate", "favor", "favor++", "favor#", "dark", "hybrid", "poly", "taylor", "retention", "hedgehog", "t2r",
 * "power", "gla", "delta", "gated-delta", "ridge", "gated-ridge". Aliases: "exact" (softmax), "performer" and "favor+" (favor), "darkformer" (dark),
 * "linear-transformer" (linear), "retnet" (retention), "deltanet" (delta), "gated-deltanet" (gated-delta). Returns
 * false for an unknown name. */
BO_API bool bo_attention_preset(const char *name, bo_attention_desc *desc);

/* ---- object ------------------------------------------------------------------------------------------------------ */

BO_API bo_status bo_attention_create(bo_context *context, const bo_attention_desc *desc, bo_attention **out);
BO_API void bo_attention_destroy(bo_attention *attention);
/* The descriptor with defaults filled in. */
BO_API const bo_attention_desc *bo_attention_describe(const bo_attention *attention);

/* ---- forward ----------------------------------------------------------------------------------------------------- */

typedef enum bo_layout {
    BO_LAYOUT_HEADS_FIRST = 0, /* (sequences, heads, tokens, dim); packed: (heads, all tokens, dim) */
    BO_LAYOUT_TOKENS_FIRST = 1 /* (sequences, tokens, heads, dim); packed: (all tokens, heads, dim) */
} bo_layout;

/* Sequences of one length, or packed: sequences of different lengths stored one after the other without gaps. */
typedef struct bo_attention_shape {
    size_t sequences;
    size_t tokens;             /* per sequence; ignored where lengths are given */
    size_t key_tokens;         /* keys per sequence in cross attention (default: tokens) */
    const size_t *lengths;     /* packed: one per sequence; NULL: not packed */
    const size_t *key_lengths; /* packed: keys per sequence; NULL: lengths */
    bool no_keys;              /* cross attention: read the initial states only; k and v are NULL */
    bool no_queries;           /* only add the keys to the final states; q and out are NULL */
    bo_layout layout;
    uint64_t reserved[4]; /* zero: room for later versions */
} bo_attention_shape;

/* RIDGE: how its linear systems were solved. Residuals are recomputed from the solution. With a gate, residuals cover
 * all systems. Without a gate, nothing is iterated: a factor of H + Λ gives the solution, and residuals cover the last
 * query of every chunk and every step, using the H of the state. They show how far H and its factor have drifted apart.
 * */
typedef struct bo_solves {
    uint64_t systems, iterations; /* systems solved, and steps of conjugate gradients in total */
    double largest_residual;      /* the largest |(H + Λ)x - q| / |q| */
    uint64_t refactored;          /* systems that did not converge within `iterations` steps and were solved directly */
    uint64_t reserved[4];         /* zero: room for later versions */
} bo_solves;

/* Arrays are in the layout of the shape. log_gate has one number per token and key head, (sequences, key_heads, tokens)
 * or (sequences, tokens, key_heads); for GLA it has `dim` numbers per token and key head. log g <= 0. Parameters may be
 * NULL, which means the value in brackets. */
typedef struct bo_attention_inputs {
    const float *q, *k, *v;
    const float *log_gate;  /* required by gates CONVEX and DECAY and by GLA; otherwise NULL */
    const float *sigma;     /* RFA: key_heads x dim [1] */
    const float *m;         /* DARK: M, LEARNED: W: key_heads x rank x dim [the first rows of the identity] */
    const float *mix;       /* HYBRID: heads, each > 0 [1] */
    const float *beta;      /* DELTA, RIDGE: one number per token and key head, >= 0 [1] */
    const float *log_decay; /* gate FIXED: log g per key head, <= 0 [log(1 - 2^-(5 + h)), h modulo 8] */
    const float *lambda;    /* RIDGE: the diagonal of Λ, key_heads x dim, each > 0 [1] */
    const float *m_k;       /* LEARNED: W', as m [the same as m] */
    const float *bias;      /* LEARNED: b, key_heads x rank [0] */
    const float *bias_k;    /* LEARNED: b', as bias [the same as bias] */
    bo_solves *solves;      /* RIDGE: filled by forward and step; or NULL */
    uint64_t reserved[4];   /* zero: room for later versions */
} bo_attention_inputs;

/* Computes `out`: (sequences, heads, tokens, value_dim), or the other layout.
 *   initial, final: one state per sequence, or NULL: start from an empty past, keep nothing. final[s] may be
 *                   initial[s], but no other state.
 *   tape:           bo_attention_tape_bytes bytes that bo_attention_backward will read, or NULL.
 * Inputs that are not finite are refused with BO_NUMERIC; the message names array, sequence, head and token. Outputs
 * and final states are then undefined, but states that would have been updated in place are unchanged. The context's
 * progress callback may cancel this function and backward; their outputs, including states updated in place, are then
 * undefined. */
BO_API bo_status bo_attention_forward(bo_context *context, const bo_attention *attention,
                                      const bo_attention_shape *shape, const bo_attention_inputs *inputs,
                                      const void *const *initial, void *const *final, float *out, void *tape);

/* ---- states ------------------------------------------------------------------------------------------------------ */

/* A state is the past of one sequence as plain bytes in memory of the caller, to be copied, saved, forked or sent. Its
 * size depends on the descriptor only. A state records the attention that it belongs to (descriptor and draw); any
 * other refuses it with BO_INVALID. It must be aligned to 8 bytes; alignment to 64 is faster. */
BO_API size_t bo_attention_state_bytes(const bo_attention *attention);
/* Makes the state of an empty past. */
BO_API bo_status bo_attention_state_init(bo_context *context, const bo_attention *attention, void *state);
/* BO_OK where these bytes are a state of this attention. */
BO_API bo_status bo_attention_state_check(bo_context *context, const bo_attention *attention, const void *state);
/* Tokens that the state has absorbed. */
BO_API uint64_t bo_attention_state_tokens(const void *state);

/* One token for each of `sequences` states: q (sequences x heads x dim); k, v and out alike; log_gate (sequences x
 * key_heads). Where inputs->k is NULL, the states are read and not changed. Inputs that are not finite are refused
 * before any state changes; where finite inputs lead to values beyond float (also BO_NUMERIC), the states are
 * undefined. */
BO_API bo_status bo_attention_step(bo_context *context, const bo_attention *attention, size_t sequences,
                                   const bo_attention_inputs *inputs, void *const *states, float *out);
/* A block of tokens: forward with these states as initial and final ones. Every split of a sequence into blocks and
 * steps gives the same outputs up to rounding. */
BO_API bo_status bo_attention_extend(bo_context *context, const bo_attention *attention,
                                     const bo_attention_shape *shape, const bo_attention_inputs *inputs,
                                     void *const *states, float *out);

/* ==== Advanced ==================================================================================================== */

/* ---- gradients --------------------------------------------------------------------------------------------------- */

/* Where gradients are written; NULL: not wanted. Every array is overwritten. Shapes are those of bo_attention_inputs.
 * The gradient of log_gate is with respect to log g; with CONVEX it includes the input weight, except where that is at
 * its minimum (a gate of 1). Where m_k is not given, the gradient of m has both parts; likewise for bias. initial: one
 * array of bo_attention_state_gradient_floats floats per sequence. */
typedef struct bo_attention_gradients {
    float *q, *k, *v, *log_gate, *sigma, *m, *mix;
    float *const *initial;
    float *beta, *log_decay, *lambda, *m_k, *bias, *bias_k;
    uint64_t reserved[4]; /* zero: room for later versions */
} bo_attention_gradients;

/* The size of the tape of a forward pass. */
BO_API bo_status bo_attention_tape_bytes(bo_context *context, const bo_attention *attention,
                                         const bo_attention_shape *shape, size_t *bytes);
/* Computes gradients. initial, out and tape are those of forward. dout: the gradient of out, or NULL: zero. d_final:
 * the gradients of the final states, or NULL: zero. BO_UNSUPPORTED for a CUSTOM map without custom_backward. BO_NUMERIC
 * where a requested gradient exceeds float; the message names the array. */
BO_API bo_status bo_attention_backward(bo_context *context, const bo_attention *attention,
                                       const bo_attention_shape *shape, const bo_attention_inputs *inputs,
                                       const void *const *initial, const float *out, const void *tape,
                                       const float *dout, const float *const *d_final,
                                       const bo_attention_gradients *gradients);

/* Floats in the gradient of one state.
 *   Kinds with features:  key_heads x features x (value_dim + 1). Row i of a head holds dL/dS_i and then dL/dz_i, with
 *                         S and z as in bo_attention_state_get and the log scale held fixed.
 *   EXACT, POWER, HYBRID: then key_heads x held x (dim + value_dim), the gradients of the keys and values in the state,
 *                         oldest first. held is the window, or else the capacity.
 *   GLA, DELTA:           key_heads x dim x value_dim: dL/dS.
 *   RIDGE:                key_heads x dim x (value_dim + dim): per head dL/dG (dim x value_dim), then dL/dH (dim x
 *                         dim).
 * What backward of one segment writes to `initial` is the d_final of the segment before. */
BO_API size_t bo_attention_state_gradient_floats(const bo_attention *attention);

/* ---- memory and time --------------------------------------------------------------------------------------------- */

/* How a shape will be computed, and the bytes that it takes beyond inputs, outputs and tape. */
typedef struct bo_attention_cost {
    size_t chunk;                /* tokens processed at a time by the kinds with features */
    size_t segment;              /* tokens between two states on the tape */
    size_t query_tile, key_tile; /* of exact attention and windows */
    size_t tasks;                /* that may run in parallel: sequences x key heads */
    size_t keys;                 /* of the longest sequence */
    size_t forward_bytes, backward_bytes, tape_bytes;
    size_t level1_bytes, level2_bytes; /* the caches that the choice is based on */
    double operations;                 /* of the forward pass, counted as docs/reference/attention.md defines */
    uint64_t reserved[4];              /* zero: room for later versions */
} bo_attention_cost;

BO_API bo_status bo_attention_estimate(bo_context *context, const bo_attention *attention,
                                       const bo_attention_shape *shape, bo_attention_cost *out);

/* ---- features and draws ------------------------------------------------------------------------------------------ */

/* The map of one key head, owned by the attention; NULL for the kinds without features. */
BO_API const bo_features *bo_attention_features(const bo_attention *attention, size_t key_head);
/* Replaces the frequencies by another draw from the same distribution. create makes draw 0. Use draws 1, 2, 3, … during
 * training and draw 0 afterwards. No other thread may use the attention during the call. States made before no longer
 * fit. */
BO_API bo_status bo_attention_redraw(bo_context *context, bo_attention *attention, uint64_t draw);

/* ---- inside states ----------------------------------------------------------------------------------------------- */

/* The sums in a state of the kinds with features: Σ_j a_j φ(k_j) v_jᵀ = exp(log_scale) s (features x value_dim) and
 * Σ_j a_j φ(k_j) = exp(log_scale) z (features). GLA and DELTA: s is S (dim x value_dim). RIDGE: s is G and z is H (dim
 * x dim). For these the log scale is 0. z must be NULL where there is none. */
BO_API bo_status bo_attention_state_get(bo_context *context, const bo_attention *attention, const void *state,
                                        size_t key_head, float *s, float *z, double *log_scale);
BO_API bo_status bo_attention_state_set(bo_context *context, const bo_attention *attention, void *state,
                                        size_t key_head, const float *s, const float *z, double log_scale);

/* ---- gates ------------------------------------------------------------------------------------------------------- */

/* log g = log sigmoid(x w_hᵀ + b_h) for each head h. x: tokens x width. w: heads x width. b: heads, or NULL: 0.
 * log_gate: tokens x heads, as BO_LAYOUT_TOKENS_FIRST has it. */
BO_API bo_status bo_gate_forward(bo_context *context, size_t tokens, size_t width, size_t heads, const float *x,
                                 const float *w, const float *b, float *log_gate);
/* log_gate: the output of forward. dx, dw and db are overwritten, or NULL. */
BO_API bo_status bo_gate_backward(bo_context *context, size_t tokens, size_t width, size_t heads, const float *x,
                                  const float *w, const float *log_gate, const float *dlog_gate, float *dx, float *dw,
                                  float *db);

/* ---- accuracy ---------------------------------------------------------------------------------------------------- */

/* The error against exact softmax attention, and against the closed form of the kind's own kernel (with its gate,
 * window, mix and clamp), both in float64. The softmax has scale s; for RFA, LEARNED and RIDGE, and for LINEAR with a
 * kernel other than SOFTMAX and TAYLOR, it has 1/√dim. */
typedef struct bo_attention_accuracy {
    size_t queries;         /* per head */
    double against_softmax; /* |out - exact| / |exact|, Frobenius norms over these queries */
    double against_kernel;  /* the same against the kind's own kernel; NAN where it has no closed form */
    /* Over pairs of a query and a key that it sees through features: the root mean square of the kernel; and the root
     * mean square of φ(q)·φ(k) less the kernel relative to it, measured and by the variance formula for independent
     * draws. NAN where unknown. */
    double kernel_rms, kernel_error, kernel_predicted;
    double softmax_seconds, kind_seconds; /* whole forward passes */
    size_t softmax_bytes, kind_bytes;     /* forward_bytes of bo_attention_cost */
    uint64_t reserved[4];                 /* zero: room for later versions */
} bo_attention_accuracy;

/* Measures the accuracy over evenly spaced queries. out: the output to be judged, or NULL: that of a forward pass now.
 * queries: the number of queries per head (default: 128). */
BO_API bo_status bo_attention_measure(bo_context *context, const bo_attention *attention,
                                      const bo_attention_shape *shape, const bo_attention_inputs *inputs,
                                      const float *out, size_t queries, bo_attention_accuracy *error);

/* ---- traits of kinds --------------------------------------------------------------------------------------------- */

/* Bits: fields of the descriptor and arrays of the inputs that some kinds take and the others refuse, and properties of
 * kinds. */
typedef enum bo_attention_trait {
    /* fields of the descriptor */
    BO_TRAIT_SCALE = 1 << 0,        /* scale */
    BO_TRAIT_FEATURES = 1 << 1,     /* a feature map φ: features, one_draw, clamp */
    BO_TRAIT_ANY_KERNEL = 1 << 2,   /* features.kernel may be almost any */
    BO_TRAIT_GAMMA = 1 << 3,        /* features.gamma beside scale; otherwise they are one number, or there is none */
    BO_TRAIT_DRAWS = 1 << 4,        /* the map may draw frequencies: features.features, draw, sampling */
    BO_TRAIT_PROPOSAL = 1 << 5,     /* proposal: positive features estimate exp(s q·k) */
    BO_TRAIT_NORMALIZER = 1 << 6,   /* normalizer: the denominator is a sum of features alone */
    BO_TRAIT_UNNORMALIZED = 1 << 7, /* also normalizer NONE, where the kernel allows it */
    BO_TRAIT_WINDOW = 1 << 8,       /* window */
    BO_TRAIT_CAPACITY = 1 << 9,     /* capacity: the state consists of keys and values */
    BO_TRAIT_TEMPERATURE = 1 << 10, /* temperature */
    BO_TRAIT_POWER = 1 << 11,       /* power */
    BO_TRAIT_UNIT = 1 << 12,        /* unit */
    BO_TRAIT_ITERATIONS = 1 << 13,  /* iterations and tolerance, with a gate; solves of the inputs */
    BO_TRAIT_GATE_CONVEX = 1 << 14, /* gates that the kind takes */
    BO_TRAIT_GATE_DECAY = 1 << 15,
    BO_TRAIT_GATE_FIXED = 1 << 16,
    /* arrays of the inputs */
    BO_TRAIT_CHANNELS = 1 << 17, /* log_gate without a gate, `dim` numbers per token and key head */
    BO_TRAIT_SIGMA = 1 << 18,    /* sigma */
    BO_TRAIT_MATRIX = 1 << 19,   /* m, a matrix M, and rank */
    BO_TRAIT_AFFINE = 1 << 20,   /* m, m_k, bias, bias_k: a learned map W x + b, and rank */
    BO_TRAIT_MIX = 1 << 21,      /* mix */
    BO_TRAIT_BETA = 1 << 22,     /* beta */
    BO_TRAIT_LAMBDA = 1 << 23,   /* lambda */
    /* properties */
    BO_TRAIT_CAUSAL = 1 << 24,    /* always causal */
    BO_TRAIT_MEMORY = 1 << 25,    /* a memory: no feature map and no denominator */
    BO_TRAIT_UNIT_ROWS = 1 << 26, /* q and k always become x / (|x| + 1e-3) first */
    BO_TRAIT_PROPOSE = 1 << 27,   /* bo_attention_propose can draw its frequencies */
    BO_TRAIT_CROSS = 1 << 28      /* usable as cross attention of a model */
} bo_attention_trait;

/* True where some descriptor of this kind has one of these traits. False outside the enum. */
BO_API bool bo_attention_may(bo_attention_kind kind, unsigned traits);
/* True where this descriptor has one of these traits. Depends on the kind and on whether features.kernel is that of a
 * learned map. */
BO_API bool bo_attention_has(const bo_attention_desc *desc, unsigned traits);
BO_API bool bo_attention_takes_gate(bo_attention_kind kind, bo_gate gate);
/* True where the kind takes this features.kernel. Where a kind has its own default, 0 (RBF) means that default, and RBF
 * itself is not taken. */
BO_API bool bo_attention_takes_kernel(bo_attention_kind kind, bo_kernel kernel);

/* ---- names ------------------------------------------------------------------------------------------------------- */

/* The names of bo_attention_preset in order; NULL after the last. */
BO_API const char *bo_attention_preset_name(size_t index);
/* The name in that list which `name` or alias `name` stands for; NULL for an unknown name. */
BO_API const char *bo_attention_preset_find(const char *name);
/* The name of the preset that sets the kind, gate, proposal and kernel of a descriptor; if there is none, the name of
 * its kind. */
BO_API const char *bo_attention_name(const bo_attention_desc *desc);
/* name: NULL outside the enum. parse: false for an unknown name, and *out is unchanged; case is ignored, and "_" equals
 * "-". */
BO_API const char *bo_attention_kind_name(bo_attention_kind kind); /* "softmax", "linear", … */
BO_API bool bo_attention_kind_parse(const char *name, bo_attention_kind *out);
BO_API const char *bo_gate_name(bo_gate gate); /* "none", "convex", "decay", "fixed" */
BO_API bool bo_gate_parse(const char *name, bo_gate *out);
BO_API const char *bo_proposal_name(bo_proposal proposal); /* "none", "oprf", "sderf", "gaussian" */
BO_API bool bo_proposal_parse(const char *name, bo_proposal *out);

/* ==== Experimental ================================================================================================ */

#ifdef BO_EXPERIMENTAL

/* ---- calibration ------------------------------------------------------------------------------------------------- */

/* Statistics of q and k, from which frequencies are drawn that suit the data: by a proposal, or by optimal sampling
 * (2406.18802), which keeps some of many candidates (features.candidates; drawn from the proposal) with probability
 * proportional to sqrt(E f(q)² E f(k)²), each with its importance weight. Statistics are constants of the model: they
 * come from data beforehand or from a moving average over training batches, never from the sequence itself, so that
 * attention stays causal and unbiased.
 *
 *     bo_calibration *seen;
 *     bo_calibration_create(context, attention, 0.99, &seen);
 *     // for each batch:     bo_calibration_add(context, seen, &shape, &in);
 *     // every few batches:  bo_calibration_apply(context, seen, attention, ++draw, NULL);
 *     // after training:     bo_calibration_apply(context, seen, attention, 0, NULL); */
typedef struct bo_calibration bo_calibration;

/* momentum in [0, 1): the weight of the statistics so far when a batch is added; 0: every row counts the same. */
BO_API bo_status bo_calibration_create(bo_context *context, const bo_attention *attention, double momentum,
                                       bo_calibration **out);
BO_API void bo_calibration_destroy(bo_calibration *calibration);
/* Adds a batch: q, k, and the parameters of RFA, DARK and LEARNED. Other inputs are ignored. */
BO_API bo_status bo_calibration_add(bo_context *context, bo_calibration *calibration, const bo_attention_shape *shape,
                                    const bo_attention_inputs *inputs);

/* The expected accuracy, for the key head where it is worst. The second moments are those of one frequency's estimate
 * of the kernel over independent q and k of the data, relative to E k(q, k)², as logarithms: 0 is perfect, and m
 * independent frequencies leave a relative variance of (exp(log_…) - 1) / m; coupled frequencies (orthogonal, …) leave
 * less. They are measured on a few hundred rows that the calibration keeps; for norms above about 2 these contain too
 * few of the pairs that matter. */
typedef struct bo_calibration_report {
    uint64_t rows; /* of q and k, added so far */
    size_t key_head;
    double log_isotropic; /* for frequencies drawn from the spectrum of the kernel, N(0, I) */
    double log_drawn;     /* for the frequencies drawn now; sampled ones include what their candidates add */
    double log_floor;     /* the least possible, reached by optimal sampling: (E sqrt(E f(q)² E f(k)²))² */
    uint64_t reserved[4]; /* zero: room for later versions */
} bo_calibration_report;

/* Draws the frequencies of every key head from the statistics and makes the attention ready for use. draw: as in
 * bo_attention_redraw, which can redraw from the same proposal but cannot choose among candidates. Trigonometric
 * features are optimal as drawn and do not change. No other thread may use the attention during the call. States made
 * before no longer fit. Refused where no row has been added. On failure the attention is unchanged. out: or NULL. */
BO_API bo_status bo_calibration_apply(bo_context *context, const bo_calibration *calibration, bo_attention *attention,
                                      uint64_t draw, bo_calibration_report *out);

/* DARK: computes M = amount · Λ^-½ for each key head (the symmetric root; with rank < dim, one row per leading
 * direction). Λ is the mean of the covariances of q and k, each about its own mean, shrunk by 1% toward its diagonal,
 * to which 1e-4 of its mean is added. amount 0: the mean of |Mx|² over the data equals that of |x|². m: key_heads x
 * rank x dim. */
BO_API bo_status bo_attention_whiten(bo_context *context, const bo_attention *attention,
                                     const bo_attention_shape *shape, const float *q, const float *k, double amount,
                                     float *m);

/* How well the data meets the assumptions of the GAUSSIAN proposal, for the worst key head. Λ_q and Λ_k are the second
 * moments of √s q (over the query heads that share the key head) and √s k; Λ is their mean. */
typedef struct bo_proposal_report {
    size_t key_head;          /* the one with the largest eigenvalue */
    double largest, smallest; /* eigenvalues of Λ */
    double mean_share;        /* |mean|² / E|x|²; the theory assumes 0 */
    double mismatch;          /* |Λ_q - Λ_k| / |Λ_q + Λ_k| (Frobenius); 0 where Λ_q = Λ_k */
    double normality;         /* E[(x'Λ⁻¹x)²] / (d(d + 2)), the larger of q and k; the theory assumes 1 */
    bool isotropic_finite;    /* plain positive features have finite variance on Gaussian data with these Λ */
    bool proposal_finite;     /* so do features drawn from N(0, Σ*) */
    size_t clipped;           /* eigenvalues of Σ* that were lowered to 20, over all heads: the data is too large */
    double log_gain;          /* log of the ratio of second moments, isotropic over Σ*; NAN where both are infinite */
    uint64_t reserved[4];     /* zero: room for later versions */
} bo_proposal_report;

/* Draws the frequencies of every key head from N(0, Σ*) with importance weights, where Σ* = (I + 2Λ)(I - 2Λ)⁻¹, or
 * where Λ_q and Λ_k differ, has the inverse I - 2Λ_q(I + 2Λ_q)⁻¹ - 2Λ_k(I + 2Λ_k)⁻¹. The estimate of exp(s q·k) stays
 * unbiased and has the least variance for Gaussian q and k. With one_draw, all key heads share one distribution. For
 * FAVOR and DARK (with M the identity) and function POSITIVE. No other thread may use the attention during the call.
 * States made before no longer fit. The statistics are constants from then on, so that attention stays causal. out: or
 * NULL. */
BO_API bo_status bo_attention_propose(bo_context *context, bo_attention *attention, const bo_attention_shape *shape,
                                      const float *q, const float *k, bo_proposal_report *out);

/* ---- advice ------------------------------------------------------------------------------------------------------ */

/* One candidate and what it achieves. */
typedef struct bo_attention_advice_map {
    /* To be created with `features` features, or with `most`; to be calibrated where it has a proposal or sampling
     * OPTIMAL. POLYNOMIAL is (1 + s q·k / p)^p; RFA has a fitted temperature. */
    bo_attention_desc desc;
    size_t features; /* the fewest tried that reach the target; 0: none up to `most` does */
    size_t most;     /* the largest number tried */
    /* Of the output against softmax, measured on queries that nothing was fitted to: over the draws at `features`, or
     * of one draw at `most`. INFINITY: a denominator of signed features came near 0, where outputs are arbitrary. */
    double error;
    double
        predicted; /* an upper bound by the variance formula on the features needed; INFINITY: no number is enough; NAN:
                         unknown (sampling OPTIMAL, HYBRID) */
} bo_attention_advice_map;

typedef struct bo_attention_advice {
    double query_norm, key_norm;         /* root mean squares of |√s q|, |√s k| */
    double largest, smallest, effective; /* eigenvalues of Λ (bo_proposal_report), worst key head; (Σλ)² / Σλ² */
    double entropy, entropy_share;       /* of the weights of exact attention: mean in nats, and over log(keys seen) */
    double target;                       /* the relative error of the output to reach */
    bool reachable;
    const bo_attention_advice_map *maps; /* best first: those that reach the target by state size, then by error */
    size_t map_count;                    /* at least 1 */
    const char *reason; /* a sentence or two for a person; begins with "none" where nothing reaches the target */
} bo_attention_advice;

/* Measures the data and tries the maps that estimate softmax: FAVOR with positive, hyperbolic and trigonometric
 * features, with every proposal, and with sampling OPTIMAL; TAYLOR and POLYNOMIAL of degree 2 and 4 where `most`
 * allows; RFA; and for causal attention HYBRID with the best of them.
 *   desc:   heads, key_heads, dim, value_dim, causal, scale and features.seed are used.
 *   v:      or NULL: random values of unit variance.
 *   target: the relative error to reach (default: 0.1).
 *   most:   the most features to try (default: 4096); sampling OPTIMAL and HYBRID try at most 1024.
 * Trials use up to eight heads and two thousand keys of each (HYBRID: the first two thousand tokens): few queries until
 * the target is reached, then up to 2048 queries and three draws, each of which must reach it. Signed features must
 * also keep every denominator at half its closed form or more. Trials use the queries at odd positions; calibration
 * uses the rows at even positions.
 *
 * Errors are those of this data. Other data of the same distribution may differ in |exact|, most where attention is not
 * causal and heads are few: outputs are then nearly the mean of the values of each head, and few numbers determine the
 * norm that errors are relative to. */
BO_API bo_status bo_attention_advise(bo_context *context, const bo_attention_desc *desc,
                                     const bo_attention_shape *shape, const float *q, const float *k, const float *v,
                                     double target, size_t most, bo_attention_advice **out);
BO_API void bo_attention_advice_destroy(bo_attention_advice *advice);

#endif

#ifdef __cplusplus
}
#endif
#endif
