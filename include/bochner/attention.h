/** @file
 * Attention: softmax attention, linear attention through feature maps, and recurrent memories.
 *
 * Linear attention takes time linear in the length and decodes from a state of fixed size. Recurrent memories
 * generalize it.
 *
 *     bo_attention_desc desc = {.kind = BO_ATTENTION_FAVOR, .heads = 8, .dim = 64, .causal = true,
 *                               .features = {.features = 128, .seed = 1}};
 *     bo_attention *attention;
 *     bo_attention_create(context, &desc, &attention);
 *     bo_attention_call call = {.sequences = 1, .tokens = 4096,
 *                               .q = {q}, .k = {k}, .v = {v}, .out = {out}};   // each (1, 8, 4096, 64)
 *     bo_attention_forward(context, attention, &call);
 *     bo_attention_destroy(attention);
 *
 * The output for query i is a sum over the keys j that it sees (all keys, or j <= i if causal):
 *
 *     o_i = Σ_j a_ij v_j / max(Σ_j a_ij, clamp)           a_ij >= 0, any sign for signed features
 *
 *     kind     a_ij
 *     SOFTMAX  exp(s q_i·k_j), for j > i - window if a window is set
 *     LINEAR   φ(q_i)·φ(k_j), φ any map of features.h
 *     RFA      φ(σ∘q̂_i / τ)·φ(σ∘k̂_j / τ), x̂ = x / (|x| + 1e-3), φ sin/cos or arc-cosine (2103.02143)
 *     FAVOR    φ(q_i)·φ(k_j), an unbiased estimate of exp(s q_i·k_j) (2009.14794)
 *     DARK     the same for exp(s (M q_i)·(M k_j)) (2603.04127), or for exp(s q_i·k_j) with frequencies fitted to data
 *     HYBRID   mix · exp(s q_i·k_j) for the `window` latest keys, φ(q_i)·φ(k_j) for earlier ones: one denominator. With
 *              a `rank` the earlier keys have φ(M q_i)·φ(M k_j), as DARK; with a learned map, the weights of LEARNED
 *     LEARNED  φ(W q_i + b)·φ(W' k_j + b'), φ exp(±y), softmax(±y) (Hedgehog, 2402.04347), max(y, 0) (T2R, 2103.13076)
 *     POWER    |s q_i·k_j|^p for any real p > 0, from explicit keys as SOFTMAX
 *
 * s is `scale`, τ `temperature`, p `power` and φ the map of `features` in bo_attention_desc. σ, mix, M, W, b, β, g and
 * Λ are arrays in bo_attention_call. Numbers such as 2103.02143 are papers on arXiv.
 *
 * With a gate g_t in (0, 1] (causal kinds with features), a_ij is also multiplied by g_i g_{i-1} … g_{j+1} and by the
 * input weight 1 - g_j (RFA-Gate) or 1. In HYBRID this holds for the keys before the window, and a gate below e^-1e5 is
 * 0; the keys in the window have no gate.
 *
 * Recurrent memories have no denominator and are causal, except RIDGE (S_0 = G_0 = H_0 = 0; β_t = 1 and g_t = 1 by
 * default):
 *
 *     GLA      o_t = s S_tᵀ q_t,  S_t = diag(g_t) S_{t-1} + k_t v_tᵀ,  one gate per channel (2312.06635)
 *     DELTA    o_t = s S_tᵀ q_t,  S_t = g_t S_{t-1} + β_t k_t (v_t - (g_t S_{t-1})ᵀ k_t)ᵀ  (2406.06484, 2412.06464)
 *     RIDGE    o_t = G_tᵀ (H_t + Λ)⁻¹ q_t,  H_t = g_t H_{t-1} + β_t k_t k_tᵀ,  G_t = g_t G_{t-1} + β_t k_t v_tᵀ: ridge
 *              regression of the values on the keys so far (2506.05233); if not causal, on all keys, without a gate:
 *              o_i = Wᵀq_i,  W = (H + Λ)⁻¹ G,  H = Σ_j β_j k_j k_jᵀ,  G = Σ_j β_j k_j v_jᵀ
 *
 * Nothing overflows: exponential features are stored relative to a running maximum, which is part of the state. Causal
 * attention is exactly causal: a change of token t does not change any bit of an output before t. Results do not depend
 * on the number of threads.
 *
 * **Grouped queries.** `heads` query heads share `key_heads` heads of keys and values. Query head h uses key head h /
 * (heads / key_heads). Features, gate, β, state and parameters belong to key heads; mix belongs to query heads.
 *
 * **Ownership.** The caller destroys an attention. States and tapes are plain memory that the caller owns. **Threads.**
 * An attention may be used by several threads at once, each with its own context, except while its frequencies are
 * replaced (bo_attention_redraw(), bo_calibration_apply(), bo_attention_propose()).
 */
#ifndef BOCHNER_ATTENTION_H
#define BOCHNER_ATTENTION_H

#include <bochner/features.h>
#include <bochner/kinds.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ==== Simple ====================================================================================================== */

/* ---- kinds and descriptor ---------------------------------------------------------------------------------------- */

/** An attention: a descriptor and the frequencies of its feature maps. */
typedef struct bo_attention bo_attention;

/** The formula of an attention, defined at the top of this header. */
typedef enum bo_attention_kind {
    BO_ATTENTION_SOFTMAX = 0, /**< softmax attention */
    BO_ATTENTION_LINEAR = 1,  /**< linear attention with any feature map */
    BO_ATTENTION_RFA = 2,     /**< random feature attention */
    BO_ATTENTION_FAVOR = 3,   /**< FAVOR+ (Performer) and its variants */
    BO_ATTENTION_DARK = 4,    /**< data-aware random features */
    BO_ATTENTION_HYBRID = 5,  /**< softmax in a window, features for earlier keys */
    BO_ATTENTION_LEARNED = 6, /**< learned feature maps */
    BO_ATTENTION_POWER = 7,   /**< power of the inner product */
    BO_ATTENTION_GLA = 8,     /**< gated linear attention */
    BO_ATTENTION_DELTA = 9,   /**< delta rule */
    BO_ATTENTION_RIDGE = 10   /**< ridge regression of the values on the keys */
} bo_attention_kind;

/** The gate: how the state decays before a token is added. HYBRID adds a key to S when it leaves the window, with the
 * weight that it would have had if added immediately. */
typedef enum bo_gate {
    BO_GATE_NONE = 0,   /**< no gate */
    BO_GATE_CONVEX = 1, /**< S_t = g_t S_{t-1} + (1 - g_t) φ(k_t) v_tᵀ: RFA-Gate; 1 - g_t is at least 1e-30 */
    BO_GATE_DECAY = 2,  /**< S_t = g_t S_{t-1} + φ(k_t) v_tᵀ */
    BO_GATE_FIXED = 3   /**< as DECAY, with one g per key head for all tokens: retention (2307.08621) */
} bo_gate;

/** The denominator of the output. */
typedef enum bo_normalizer {
    BO_NORMALIZER_SUM = 0, /**< divide by the sum of the weights */
    /** No division: for features without log scales (not SOFTMAX, COSH); not for kinds SOFTMAX, POWER and HYBRID. */
    BO_NORMALIZER_NONE = 1
} bo_normalizer;

/** The distribution of the frequencies of POSITIVE features, fitted to data (bo_calibration).
 *
 * All are normal distributions with importance weights, so that the estimate of exp(s q·k) stays unbiased.
 */
typedef enum bo_proposal {
    BO_PROPOSAL_NONE = 0,    /**< N(0, I): FAVOR+ */
    BO_PROPOSAL_OPRF = 1,    /**< N(0, c I), c from the mean of |q + k|²: FAVOR++ (2205.15317) */
    BO_PROPOSAL_SDERF = 2,   /**< one c per principal direction of q + k: FAVOR# (2302.00787) */
    BO_PROPOSAL_GAUSSIAN = 3 /**< N(0, Σ*), optimal for Gaussian q and k: DARK (2603.04127) */
} bo_proposal;

/** The settings of an attention.
 *
 * `heads` and `dim` have no default. `features.features` has none either, unless the map determines it.
 */
typedef struct bo_attention_desc {
    bo_attention_kind kind; /**< the formula (default: SOFTMAX) */
    size_t heads;           /**< number of query heads */
    size_t key_heads;       /**< number of key and value heads, a divisor of heads (default: heads) */
    size_t dim;             /**< length of a query and a key */
    size_t value_dim;       /**< length of a value (default: dim) */
    bool causal;            /**< a query sees only the keys up to its own position (default: false) */
    /** The factor s of q·k (default: 1/√dim). LINEAR: the same as `features.gamma`; the default is 1 except for the
     * kernels of s q·k, which are SOFTMAX, LINEAR, POLYNOMIAL and TAYLOR. RFA has a temperature instead. LEARNED and
     * RIDGE have no scale. */
    double scale;
    /** The feature map; `dim` is filled in. LINEAR: any map. RFA: kernel RBF (default) or ARCCOS. FAVOR, DARK, HYBRID:
     * kernel SOFTMAX is filled in (HYBRID accepts all others except RBF), and function POSITIVE is the default.
     * LEARNED: COSH (default), HEDGEHOG or RECTIFIER; HYBRID accepts these too, then with W and b. Sampling OPTIMAL
     * chooses among candidates when the attention is calibrated; LEVERAGE is refused; a sample (rows as the map sees
     * them) is used by OPRF only. SOFTMAX, POWER and the memories have no map: they refuse a sampling and ignore the
     * other fields. */
    bo_features_desc features;
    /** The distribution of the frequencies, for FAVOR, DARK and HYBRID with POSITIVE features (default: NONE). With a
     * proposal or with sampling OPTIMAL, the attention must be calibrated before it is used (bo_calibration_apply()).
     */
    bo_proposal proposal;
    bool one_draw; /**< kinds with features: all key heads share one draw (default: one draw per key head) */
    bo_gate gate;  /**< the gate (default: none) */
    /** HYBRID, SOFTMAX, POWER, causal only: number of latest keys in the window (default: 64 for HYBRID, no window for
     * the others). */
    size_t window;
    bo_normalizer normalizer; /**< the denominator (default: the sum of the weights) */
    /** Kinds with features: the minimum of the denominator, in units of exp(log scale of the query + running log scale)
     * (default: 1e-3 for signed features, the smallest normal float for non-negative ones). Gradients through a clamped
     * denominator are zero. If even the clamped denominator is not larger than the smallest normal float, the output is
     * 0. Gradients are 0 where gradient / denominator exceeds 1e36. */
    double clamp;
    double temperature; /**< RFA: τ (default: 1) */
    /** DARK: number of rows of M; LEARNED, HYBRID with a learned map: of W (default: dim). HYBRID with kernel SOFTMAX:
     * number of rows of M (default: 0, which means no M). */
    size_t rank;
    double power; /**< POWER: p, a normal float (default: 2) */
    bool unit;    /**< GLA, DELTA, RIDGE: replace q and k by x / (|x| + 1e-3); DELTA is stable for β|k|² <= 2 */
    /** RIDGE with a gate: maximum number of steps of conjugate gradients before a system is solved directly, by a
     * factorization of H + Λ in double (default: dim, about the cost of the factorization). */
    size_t iterations;
    /** RIDGE with a gate: conjugate gradients stop at |residual| <= tolerance |q| (default: 1e-6). Rounding may leave a
     * residual up to ten times larger. Gradients of q and Λ then have |H| / λ times that error. G and H are float32, so
     * every result may have an error of |H| / λ times their rounding errors. */
    double tolerance;
    size_t capacity; /**< SOFTMAX, POWER: maximum number of tokens of a state (default: the window, or else 4096) */
    size_t chunk;    /**< tokens processed at a time (default: by cache sizes; bo_attention_estimate() returns it) */
    uint64_t reserved[4]; /**< must be zero */
} bo_attention_desc;

/** Sets the fields of a descriptor that a preset consists of.
 *
 * These are kind, gate, normalizer, unit, proposal, kernel and function. `causal` becomes true if the kind requires it.
 * All other fields keep their values. The presets are "softmax", "linear", "rfa", "rfa-gate", "favor", "favor++",
 * "favor#", "dark", "hybrid", "poly", "taylor", "retention", "hedgehog", "t2r", "power", "gla", "delta", "gated-delta",
 * "ridge" and "gated-ridge". Aliases are "exact" (softmax), "performer" and "favor+" (favor), "darkformer" (dark),
 * "linear-transformer" (linear), "retnet" (retention), "deltanet" (delta) and "gated-deltanet" (gated-delta).
 * bo_enum_name() and bo_enum_parse() with BO_ENUM_ATTENTION_PRESET list and find the names.
 *
 * @param name           the preset or alias
 * @param[in,out] desc   the descriptor
 * @return false if the name is unknown
 */
BO_API bool bo_attention_preset(const char *name, bo_attention_desc *desc);

/* ---- object ------------------------------------------------------------------------------------------------------ */

/** Creates an attention.
 *
 * @param context    the context
 * @param desc       the attention
 * @param[out] out   the new object; release it with bo_attention_destroy()
 * @return BO_OK; BO_INVALID if fields contradict the kind; BO_UNSUPPORTED if the parts of the feature map do not fit
 *     together
 */
BO_API bo_status bo_attention_create(bo_context *context, const bo_attention_desc *desc, bo_attention **out);

/** Destroys an attention.
 *
 * @param attention   the object, or NULL
 */
BO_API void bo_attention_destroy(bo_attention *attention);

/** Returns the descriptor of an attention with the defaults filled in.
 *
 * @param attention   the attention
 * @return the descriptor, owned by the attention
 */
BO_API const bo_attention_desc *bo_attention_describe(const bo_attention *attention);

/* ---- forward ----------------------------------------------------------------------------------------------------- */

/** The order of the dimensions of queries, keys, values and outputs. */
typedef enum bo_layout {
    BO_LAYOUT_HEADS_FIRST = 0, /**< (sequences, heads, tokens, dim); packed: (heads, all tokens, dim) */
    BO_LAYOUT_TOKENS_FIRST = 1 /**< (sequences, tokens, heads, dim); packed: (all tokens, heads, dim) */
} bo_layout;

/** RIDGE: how its linear systems were solved.
 *
 * Residuals are recomputed from the solution. With a gate they cover all systems. Without a gate there is no iteration:
 * a factor of H + Λ gives the solution. Residuals then cover the last query of every chunk and every step, computed
 * with the H of the state, and show how far H and its factor have drifted apart. If the attention is not causal, a
 * forward pass solves for the columns of W, (H + Λ) w = g: value_dim systems for each key head of a sequence. Their
 * residuals are relative to g.
 */
typedef struct bo_solves {
    uint64_t systems;        /**< number of systems solved */
    uint64_t iterations;     /**< total number of steps of conjugate gradients */
    double largest_residual; /**< the largest |(H + Λ)x - q| / |q| */
    uint64_t refactored;     /**< systems that did not converge within `iterations` steps and were solved directly */
    uint64_t reserved[4];    /**< must be zero */
} bo_solves;

/** An input array of a call: one row of elements for each head of each token.
 *
 * Element i of head h of token t of sequence s is at `data` + s * sequence + t * token + h * head + i. In a packed
 * batch, t counts the tokens of all sequences, and s * sequence is left out. If all three strides are 0, the array is
 * contiguous and has the layout of the call. If q, k and v are packed as (tokens, 3, heads, dim), `token` is 3 heads
 * dim, `head` is dim, and `data` of k is heads dim elements after `data` of q.
 */
typedef struct bo_attention_input {
    const void *data; /**< the first element; NULL: no array */
    size_t sequence;  /**< stride between sequences of equal length, in elements */
    size_t token;     /**< stride between tokens, in elements */
    size_t head;      /**< stride between heads, in elements */
} bo_attention_input;

/** An output array of a call, with the same members. */
typedef struct bo_attention_output {
    void *data;      /**< the first element; NULL: no array */
    size_t sequence; /**< stride between sequences of equal length, in elements */
    size_t token;    /**< stride between tokens, in elements */
    size_t head;     /**< stride between heads, in elements */
} bo_attention_output;

/** One call of an attention: shape, arrays, states and gradients. Members that are zero have their defaults.
 *
 * q and out have `heads` heads, k, v, log_gate and beta `key_heads`. Arrays and states are all in host memory or all in
 * the memory of the context's GPU. A parameter that is NULL has the value in brackets. Parameters are float32, or
 * float64 if the arrays are.
 *
 * **Streaming.** With `initial` and `final` equal, states are updated in place, and calls continue a sequence: a prompt
 * in one call, then one token per call. Every split of a sequence into blocks and tokens gives the same outputs up to
 * rounding. Calls with one token per sequence use separate kernels.
 *
 * **No allocation.** A call with a `workspace` allocates nothing. On a GPU it only submits work: it returns before the
 * work is done and can be recorded in a CUDA graph. It does not check values: NaN and infinity in the inputs propagate
 * to the outputs. A call without a workspace allocates memory and waits for the work.
 *
 * Strides, offsets, bfloat16, a stream and a workspace require `final` equal to `initial` (or no keys and no `final`),
 * `offsets` instead of `lengths`, queries, and no state gradients. On the CPU, arrays with strides are copied.
 */
typedef struct bo_attention_call {
    size_t sequences;     /**< number of sequences; required */
    size_t tokens;        /**< tokens per sequence; ignored in a packed batch */
    bo_attention_input q; /**< queries, (sequences, heads, tokens, dim) */
    bo_attention_input k; /**< keys, (sequences, key_heads, tokens, dim) */
    bo_attention_input v; /**< values, (sequences, key_heads, tokens, value_dim) */
    /** The output, (sequences, heads, tokens, value_dim): written by forward, read by backward. */
    bo_attention_output out;
    void *const *initial; /**< one state per sequence, read before the first token; NULL: empty states */
    /** One state per sequence, written after the last token; NULL: not written. final[s] may equal initial[s] but must
     * not overlap other states. */
    void *const *final;
    bo_layout layout; /**< order of the dimensions (default: heads first) */
    /** The type of the arrays: FLOAT32 (default), BFLOAT16 in GPU memory, or FLOAT64 for the reference code on the CPU
     * (bo_attention_forward()). */
    bo_element element;
    size_t key_tokens; /**< cross attention: keys per sequence (default: tokens) */
    /** log g <= 0, one number per token and key head: (sequences, key_heads, tokens) or (sequences, tokens, key_heads);
     * for GLA `dim` numbers per token and key head. Required by the gates CONVEX and DECAY and by GLA, absent for the
     * others. */
    bo_attention_input log_gate;
    bo_attention_input beta; /**< DELTA, RIDGE: one number >= 0 per token and key head [1] */
    const void *sigma;       /**< RFA: key_heads x dim [1] */
    /** DARK, HYBRID with a rank: M; LEARNED: W: key_heads x rank x dim [the first rows of the identity]. */
    const void *m;
    const void *mix;       /**< HYBRID: one number > 0 per head [1] */
    const void *log_decay; /**< gate FIXED: log g <= 0 per key head [log(1 - 2^-(5 + h)), h modulo 8] */
    const void *lambda;    /**< RIDGE: the diagonal of Λ, key_heads x dim, each > 0 [1] */
    const void *m_k;       /**< LEARNED: W', shaped as m [the same as m] */
    const void *bias;      /**< LEARNED: b, key_heads x rank [0] */
    const void *bias_k;    /**< LEARNED: b', shaped as bias [the same as bias] */
    /** bo_attention_call_bytes() bytes, written by forward for backward; NULL: no backward pass follows. */
    void *tape;
    bo_attention_input dout; /**< backward: the gradient of out; absent: zero */
    bo_attention_output dq;  /**< gradient of q. Gradients are overwritten; absent ones are not computed */
    bo_attention_output dk;  /**< gradient of k */
    bo_attention_output dv;  /**< gradient of v */
    /** Gradient with respect to log g. With CONVEX it includes the input weight, except where the weight is at its
     * minimum (a gate of 1). */
    bo_attention_output dlog_gate;
    bo_attention_output dbeta; /**< gradient of beta */
    void *dsigma;              /**< gradient of sigma */
    void *dm;                  /**< gradient of m; both parts if m_k is not set */
    void *dmix;                /**< gradient of mix */
    void *dlog_decay;          /**< gradient of log_decay */
    void *dlambda;             /**< gradient of lambda */
    void *dm_k;                /**< gradient of m_k */
    void *dbias;               /**< gradient of bias; both parts if bias_k is not set */
    void *dbias_k;             /**< gradient of bias_k */
    /** Gradients of the final states, bo_attention_state_gradient_floats() each; NULL: zero. */
    const float *const *dfinal;
    float *const *dinitial;    /**< gradients of the initial states; NULL: not computed */
    const size_t *lengths;     /**< packed sequences of different lengths: tokens of each; NULL: not packed */
    const size_t *key_lengths; /**< packed: keys of each sequence; NULL: as `lengths` */
    /** Packed, instead of `lengths`, in the memory of the arrays: the first row of each sequence, then the number of
     * rows. */
    const int32_t *offsets;
    const int32_t *key_offsets; /**< the same for the keys, in cross attention */
    size_t rows;                /**< with `offsets`: number of tokens of all sequences */
    size_t key_rows;            /**< with `key_offsets`: number of keys of all sequences */
    bool no_keys;               /**< the initial states are only read; k, v, log_gate and beta are absent */
    bool no_queries;            /**< only add the keys to the final states; q and out are absent */
    void *workspace;            /**< bo_attention_call_bytes() bytes in device memory; NULL: allocated by the call */
    void *stream;               /**< GPU: the cudaStream_t of the work; NULL: the stream of the context's device */
    bo_solves *solves;          /**< RIDGE: written by forward; or NULL */
    uint64_t reserved[4];       /**< must be zero */
} bo_attention_call;

/** Computes the output of an attention.
 *
 * If an input is NaN or infinite, outputs and final states are undefined, but states that would be updated in place are
 * unchanged. With one token per sequence, states are also undefined if finite inputs lead to float overflow. If the
 * progress callback cancels this function or bo_attention_backward(), the outputs are undefined, including states
 * updated in place.
 *
 * With element FLOAT64, plain reference code computes the same formulas, to check results and gradients. Frequencies
 * and the rules of the denominator are the same. The time grows with tokens x keys. Recurrent memories take one step
 * per token and store every state. States, a tape, strides, offsets, a workspace, and calls without keys or queries are
 * not supported.
 *
 * @param context     the context
 * @param attention   the attention
 * @param call        the call
 * @return BO_OK; BO_NUMERIC if an input is NaN or infinite or a result overflows float (the message names array,
 *     sequence, head and token); BO_INVALID if the call contradicts the attention, or if a state belongs to another
 *     attention or is full; BO_UNSUPPORTED if the device has no kernels for it, and for a CUSTOM map in float64
 */
BO_API bo_status bo_attention_forward(bo_context *context, const bo_attention *attention,
                                      const bo_attention_call *call);

/* ---- states ------------------------------------------------------------------------------------------------------ */

/** Returns the size of a state.
 *
 * A state is the past of one sequence, as plain bytes that the caller owns. It may be copied, saved, forked and sent.
 * Its size depends only on the descriptor. A state records its attention (descriptor and draw); every other attention
 * refuses it with BO_INVALID. It must be aligned to 8 bytes; alignment to 64 bytes is faster.
 *
 * @param attention   the attention
 * @return the number of bytes
 */
BO_API size_t bo_attention_state_bytes(const bo_attention *attention);

/** Initializes an empty state, in host memory or in the memory of the context's GPU.
 *
 * @param context      the context
 * @param attention    the attention
 * @param[out] state   bo_attention_state_bytes() bytes
 * @return BO_OK or an error (see base.h)
 */
BO_API bo_status bo_attention_state_init(bo_context *context, const bo_attention *attention, void *state);

/** Checks that bytes are a state of an attention and that its values are finite.
 *
 * Every call checks the headers of its states but not their values. Use this function for bytes of unknown origin.
 *
 * @param context     the context
 * @param attention   the attention
 * @param state       bo_attention_state_bytes() bytes
 * @return BO_OK; BO_INVALID if they are not; BO_VERSION if another version of the library wrote them
 */
BO_API bo_status bo_attention_state_check(bo_context *context, const bo_attention *attention, const void *state);

/** Returns the number of tokens that a state has absorbed.
 *
 * @param state   the state
 * @return the number of tokens
 */
BO_API uint64_t bo_attention_state_tokens(const void *state);

/* ==== Advanced ==================================================================================================== */

/* ---- gradients --------------------------------------------------------------------------------------------------- */

/** Returns the memory that a call needs.
 *
 * `tape` and `workspace` of the call are not used. For the workspace, the arrays must have their strides and addresses:
 * their alignment decides which kernels are used. Kernels for bfloat16 are fastest at multiples of 16 bytes. This
 * function may allocate. It uploads the frequencies of the attention to the device if they are not there.
 *
 * @param context          the context
 * @param attention        the attention
 * @param call             the call
 * @param backward         the call is a backward pass
 * @param[out] tape        bytes of the tape; NULL: no tape
 * @param[out] workspace   bytes of the workspace; NULL: no workspace
 * @return BO_OK; BO_INVALID if the call contradicts the attention; BO_UNSUPPORTED if the device has no kernels for it
 */
BO_API bo_status bo_attention_call_bytes(bo_context *context, const bo_attention *attention,
                                         const bo_attention_call *call, bool backward, size_t *tape, size_t *workspace);

/** Computes gradients.
 *
 * With element FLOAT64 the forward pass is recomputed. The conventions are the same, except that there is no limit of
 * 1e36: no gradient flows through a clamped denominator or through an input weight at its minimum, and log scales are
 * constants. If features have log scales, the unit of the clamp depends on q and k. Finite differences of the forward
 * pass therefore differ from these gradients where a denominator is clamped.
 *
 * @param context     the context
 * @param attention   the attention
 * @param call  the call of the forward pass with its output and tape, with `dout` or `dfinal`, and with the gradient
 *     arrays; `final` is not used
 * @return BO_OK; BO_UNSUPPORTED for a CUSTOM map without `custom_backward`; BO_NUMERIC if a requested gradient
 *     overflows float (the message names the array)
 */
BO_API bo_status bo_attention_backward(bo_context *context, const bo_attention *attention,
                                       const bo_attention_call *call);

/* ---- memory and time --------------------------------------------------------------------------------------------- */

/** The execution plan of a shape, and its memory besides inputs, outputs and tape. */
typedef struct bo_attention_cost {
    size_t chunk;          /**< tokens processed at a time by the kinds with features */
    size_t segment;        /**< tokens between two states on the tape */
    size_t query_tile;     /**< queries per tile of softmax attention and windows */
    size_t key_tile;       /**< keys per tile of softmax attention and windows */
    size_t tasks;          /**< number of tasks that may run in parallel: sequences x key heads */
    size_t keys;           /**< keys of the longest sequence */
    size_t forward_bytes;  /**< workspace of the forward pass */
    size_t backward_bytes; /**< workspace of the backward pass */
    size_t tape_bytes;     /**< size of the tape */
    size_t level1_bytes;   /**< size of the first-level cache that the plan is based on */
    size_t level2_bytes;   /**< size of the second-level cache that the plan is based on */
    double operations;     /**< operations of the forward pass, counted as docs/reference/attention.md defines */
    uint64_t reserved[4];  /**< must be zero */
} bo_attention_cost;

/** Estimates the cost of a shape.
 *
 * @param context     the context
 * @param attention   the attention
 * @param call        the shape; arrays are not used
 * @param[out] out    the cost
 * @return BO_OK or an error (see base.h)
 */
BO_API bo_status bo_attention_estimate(bo_context *context, const bo_attention *attention,
                                       const bo_attention_call *call, bo_attention_cost *out);

/* ---- features and draws ------------------------------------------------------------------------------------------ */

/** Returns the feature map of one key head.
 *
 * @param attention   the attention
 * @param key_head    the key head
 * @return the map, owned by the attention; NULL for kinds without features
 */
BO_API const bo_features *bo_attention_features(const bo_attention *attention, size_t key_head);

/** Redraws the frequencies from the same distribution.
 *
 * bo_attention_create() uses draw 0. Use draws 1, 2, 3, … during training and draw 0 afterwards. No other thread may
 * use the attention during the call. States created before are refused afterwards.
 *
 * @param context             the context
 * @param[in,out] attention   the attention
 * @param draw                the number of the draw
 * @return BO_OK or an error (see base.h)
 */
BO_API bo_status bo_attention_redraw(bo_context *context, bo_attention *attention, uint64_t draw);

/* ---- accuracy ---------------------------------------------------------------------------------------------------- */

/** The error of an attention relative to softmax attention and to the closed form of its kernel.
 *
 * The closed form includes gate, window, mix and clamp. Both references are computed in float64. The softmax has scale
 * s; for RFA, LEARNED and RIDGE, and for LINEAR with a kernel other than SOFTMAX and TAYLOR, it has scale 1/√dim.
 * Kernel errors are over pairs of a query and a key whose weight comes from features.
 */
typedef struct bo_attention_accuracy {
    size_t queries;         /**< number of queries per head */
    double against_softmax; /**< |out - softmax| / |softmax|, Frobenius norms over these queries */
    double against_kernel;  /**< the same relative to the kernel of the kind; NAN if it has no closed form */
    double kernel_rms;      /**< root mean square of the kernel; NAN if unknown */
    double kernel_error; /**< root mean square of φ(q)·φ(k) minus the kernel, relative to kernel_rms; NAN if unknown */
    double kernel_predicted; /**< the same by the variance formula for independent draws; NAN if unknown */
    double softmax_seconds;  /**< time of a forward pass of softmax attention */
    double kind_seconds;     /**< time of a forward pass of this attention */
    size_t softmax_bytes;    /**< forward_bytes of softmax attention (bo_attention_cost) */
    size_t kind_bytes;       /**< forward_bytes of this attention */
    uint64_t reserved[4];    /**< must be zero */
} bo_attention_accuracy;

/** Measures the accuracy over evenly spaced queries.
 *
 * @param context      the context
 * @param attention    the attention
 * @param call         the call, float32 without strides and states; without `out`, a forward pass is measured
 * @param queries      the number of queries per head; 0 means 128
 * @param[out] error   the result
 * @return as bo_attention_forward()
 */
BO_API bo_status bo_attention_measure(bo_context *context, const bo_attention *attention, const bo_attention_call *call,
                                      size_t queries, bo_attention_accuracy *error);

/* ---- traits of kinds --------------------------------------------------------------------------------------------- */

/** Traits of kinds, as bits: fields of the descriptor and arrays of a call that a kind accepts, and properties. */
typedef enum bo_attention_trait {
    BO_TRAIT_SCALE = 1 << 0,        /**< field scale */
    BO_TRAIT_FEATURES = 1 << 1,     /**< a feature map φ: fields features, one_draw, clamp */
    BO_TRAIT_ANY_KERNEL = 1 << 2,   /**< features.kernel may be almost any */
    BO_TRAIT_GAMMA = 1 << 3,        /**< features.gamma besides scale; without it they are the same or not used */
    BO_TRAIT_DRAWS = 1 << 4,        /**< the map may draw frequencies: features.features, draw, sampling */
    BO_TRAIT_PROPOSAL = 1 << 5,     /**< field proposal: positive features estimate exp(s q·k) */
    BO_TRAIT_NORMALIZER = 1 << 6,   /**< field normalizer: the denominator is a sum of features only */
    BO_TRAIT_UNNORMALIZED = 1 << 7, /**< also normalizer NONE, if the kernel allows it */
    BO_TRAIT_WINDOW = 1 << 8,       /**< field window */
    BO_TRAIT_CAPACITY = 1 << 9,     /**< field capacity: the state consists of keys and values */
    BO_TRAIT_TEMPERATURE = 1 << 10, /**< field temperature */
    BO_TRAIT_POWER = 1 << 11,       /**< field power */
    BO_TRAIT_UNIT = 1 << 12,        /**< field unit */
    BO_TRAIT_ITERATIONS = 1 << 13,  /**< fields iterations and tolerance, with a gate; `solves` of a call */
    BO_TRAIT_GATE_CONVEX = 1 << 14, /**< accepts gate CONVEX */
    BO_TRAIT_GATE_DECAY = 1 << 15,  /**< accepts gate DECAY */
    BO_TRAIT_GATE_FIXED = 1 << 16,  /**< accepts gate FIXED */
    BO_TRAIT_CHANNELS = 1 << 17,    /**< input log_gate without a gate, `dim` numbers per token and key head */
    BO_TRAIT_SIGMA = 1 << 18,       /**< input sigma */
    BO_TRAIT_MATRIX = 1 << 19,      /**< input m, a matrix M; field rank */
    BO_TRAIT_AFFINE = 1 << 20,      /**< inputs m, m_k, bias, bias_k: a learned map W x + b; field rank */
    BO_TRAIT_MIX = 1 << 21,         /**< input mix */
    BO_TRAIT_BETA = 1 << 22,        /**< input beta */
    BO_TRAIT_LAMBDA = 1 << 23,      /**< input lambda */
    BO_TRAIT_CAUSAL = 1 << 24,      /**< property: always causal */
    BO_TRAIT_MEMORY = 1 << 25,      /**< property: a recurrent memory, without feature map and denominator */
    BO_TRAIT_UNIT_ROWS = 1 << 26,   /**< property: q and k are always replaced by x / (|x| + 1e-3) */
    BO_TRAIT_PROPOSE = 1 << 27,     /**< property: bo_attention_propose() can draw the frequencies */
    BO_TRAIT_CROSS = 1 << 28        /**< property: usable as cross attention of a model */
} bo_attention_trait;

/** Reports whether a descriptor has one of the given traits.
 *
 * The result depends on the kind, on whether `features.kernel` is that of a learned map, and on whether `rank` is 0:
 * HYBRID with kernel SOFTMAX has MATRIX only with a rank.
 *
 * @param desc     the descriptor
 * @param traits   bits of bo_attention_trait
 * @return true if it has
 */
BO_API bool bo_attention_has(const bo_attention_desc *desc, unsigned traits);

/* ---- names ------------------------------------------------------------------------------------------------------- */

/** Returns the name of the preset that sets the kind, gate, proposal and kernel of a descriptor.
 *
 * @param desc   the descriptor
 * @return the name; if there is no such preset, the name of the kind
 */
BO_API const char *bo_attention_name(const bo_attention_desc *desc);

/* ==== Experimental ================================================================================================ */

#ifdef BO_EXPERIMENTAL

/* ---- calibration ------------------------------------------------------------------------------------------------- */

/** Statistics of q and k, from which data-dependent frequencies are drawn.
 *
 * Frequencies are drawn from a proposal or by optimal sampling (2406.18802). Optimal sampling draws candidates from the
 * proposal (features.candidates) and selects some with probability proportional to sqrt(E f(q)² E f(k)²), each with its
 * importance weight. Statistics are constants of the model: they come from earlier data or from a moving average over
 * training batches, not from the sequence itself. If later tokens of a sequence were added, the outputs before them
 * would depend on them, even with `causal`. With statistics of the first P tokens of a sequence, all outputs from token
 * P on are causal; for the tokens before P use another attention, for example the same one without a proposal.
 *
 *     bo_calibration *calibration;
 *     bo_calibration_create(context, attention, 0.99, &calibration);
 *     // for each batch:     bo_calibration_add(context, calibration, &call);
 *     // every few batches:  bo_calibration_apply(context, calibration, attention, ++draw, NULL);
 *     // after training:     bo_calibration_apply(context, calibration, attention, 0, NULL);
 */
typedef struct bo_calibration bo_calibration;

/** Creates empty statistics.
 *
 * @param context     the context
 * @param attention   the attention; only its descriptor is used
 * @param momentum    in [0, 1): weight of the earlier statistics when a batch is added; 0: every row has the same
 *     weight
 * @param[out] out    the new object; release it with bo_calibration_destroy()
 * @return BO_OK; BO_INVALID if the attention has no frequencies to draw
 */
BO_API bo_status bo_calibration_create(bo_context *context, const bo_attention *attention, double momentum,
                                       bo_calibration **out);

/** Destroys statistics.
 *
 * @param calibration   the object, or NULL
 */
BO_API void bo_calibration_destroy(bo_calibration *calibration);

/** Adds a batch.
 *
 * @param context               the context
 * @param[in,out] calibration   the statistics
 * @param call  the shape, q, k, and the parameters of RFA, DARK, LEARNED and HYBRID, float32 without strides; other
 *     members are ignored
 * @return BO_OK; BO_NUMERIC if an input is NaN or infinite
 */
BO_API bo_status bo_calibration_add(bo_context *context, bo_calibration *calibration, const bo_attention_call *call);

/** The expected accuracy of the worst key head.
 *
 * The second moments are the logarithms of the second moment of the kernel estimate of one frequency over independent q
 * and k of the data, relative to E k(q, k)². 0 is perfect. m independent frequencies have a relative variance of
 * (exp(log_…) - 1) / m; dependent frequencies (orthogonal and others) have less. They are measured on a few hundred
 * sampled rows. For norms above about 2 the sample contains too few of the pairs that matter.
 */
typedef struct bo_calibration_report {
    uint64_t rows;        /**< number of rows of q and k added so far */
    size_t key_head;      /**< the key head */
    double log_isotropic; /**< for frequencies from the distribution of the kernel, N(0, I) */
    double log_drawn; /**< for the current frequencies; with sampling including the variance due to the candidates */
    /** The minimum over distributions of independent frequencies: (E sqrt(E (f(q)·f(k))²))², f the features of one
     * frequency, the outer mean over N(0, I), the inner mean over independent q and k */
    double log_floor;
    uint64_t reserved[4]; /**< must be zero */
} bo_calibration_report;

/** Draws the frequencies of every key head from the statistics. The attention is then ready for use.
 *
 * bo_attention_redraw() can redraw from the same proposal but cannot choose among candidates. Trigonometric features
 * are already optimal and do not change. No other thread may use the attention during the call. States created before
 * are refused afterwards. If the call fails, the attention is unchanged.
 *
 * @param context             the context
 * @param calibration         the statistics
 * @param[in,out] attention   the attention
 * @param draw                the number of the draw, as for bo_attention_redraw()
 * @param[out] out            the expected accuracy; or NULL
 * @return BO_OK; BO_INVALID if no row has been added; BO_NUMERIC if the statistics are degenerate
 */
BO_API bo_status bo_calibration_apply(bo_context *context, const bo_calibration *calibration, bo_attention *attention,
                                      uint64_t draw, bo_calibration_report *out);

/** DARK, HYBRID with a rank: computes M = amount · Λ^-½ for each key head (the symmetric root; with rank < dim, one row
 * per leading direction).
 *
 * Λ is the mean of the covariances of q and k, each centered, shrunk by 1% toward its diagonal. 1e-4 of the mean of the
 * diagonal is then added to the diagonal. As for bo_calibration, q and k of the sequence itself make its outputs depend
 * on later tokens.
 *
 * @param context     the context
 * @param attention   the attention
 * @param call        the shape, q and k, float32 without strides; other members are ignored
 * @param amount      the factor; 0: chosen so that |Mx|² and |x|² have equal means over the data
 * @param[out] m      key_heads x rank x dim
 * @return BO_OK; BO_NUMERIC if an input is NaN or infinite or q and k do not vary
 */
BO_API bo_status bo_attention_whiten(bo_context *context, const bo_attention *attention, const bo_attention_call *call,
                                     double amount, float *m);

/** How well the data satisfies the assumptions of the GAUSSIAN proposal, for the worst key head.
 *
 * Λ_q and Λ_k are the second moments of √s q (over the query heads that share the key head) and √s k; Λ is their mean.
 */
typedef struct bo_proposal_report {
    size_t key_head;       /**< the key head with the largest eigenvalue */
    double largest;        /**< largest eigenvalue of Λ */
    double smallest;       /**< smallest eigenvalue of Λ */
    double mean_share;     /**< |mean|² / E|x|²; the theory assumes 0 */
    double mismatch;       /**< |Λ_q - Λ_k| / |Λ_q + Λ_k| (Frobenius); 0 if Λ_q = Λ_k */
    double normality;      /**< E[(x'Λ⁻¹x)²] / (d(d + 2)), the larger of q and k; the theory assumes 1 */
    bool isotropic_finite; /**< plain positive features have finite variance on Gaussian data with these Λ */
    bool proposal_finite;  /**< features drawn from N(0, Σ*) have finite variance */
    size_t clipped;        /**< number of eigenvalues of Σ* lowered to 20, over all heads: the data is too large */
    double log_gain;       /**< log of the ratio of second moments, isotropic over Σ*; NAN if both are infinite */
    uint64_t reserved[4];  /**< must be zero */
} bo_proposal_report;

/** Draws the frequencies of every key head from N(0, Σ*) with importance weights.
 *
 * Σ* = (I + 2Λ)(I - 2Λ)⁻¹; if Λ_q and Λ_k differ, Σ* has the inverse I - 2Λ_q(I + 2Λ_q)⁻¹ - 2Λ_k(I + 2Λ_k)⁻¹. The
 * estimate of exp(s q·k) stays unbiased and has minimal variance for Gaussian q and k. With `one_draw`, all key heads
 * share one distribution. Requires FAVOR, or DARK with M the identity, and function POSITIVE. No other thread may use
 * the attention during the call. States created before are refused afterwards. The statistics are constants afterwards.
 * As for bo_calibration, q and k of the sequence itself make its outputs depend on later tokens.
 *
 * @param context             the context
 * @param[in,out] attention   the attention
 * @param call                the shape, q and k, float32 without strides; other members are ignored
 * @param[out] out            the report; or NULL
 * @return BO_OK; BO_NUMERIC if an input or a second moment is NaN or infinite; BO_INVALID or BO_UNSUPPORTED if the
 *     attention has no proposal
 */
BO_API bo_status bo_attention_propose(bo_context *context, bo_attention *attention, const bo_attention_call *call,
                                      bo_proposal_report *out);

/* ---- advice ------------------------------------------------------------------------------------------------------ */

/** One candidate attention and its error. */
typedef struct bo_attention_advice_map {
    /** Create it with `features` or `max_features` features; calibrate it if it has a proposal or sampling OPTIMAL.
     * POLYNOMIAL is (1 + s q·k / p)^p; RFA has a fitted temperature. */
    bo_attention_desc desc;
    /** The smallest tested number of features that reaches the target; 0: none up to `max_features` does. */
    size_t features;
    size_t max_features; /**< the largest tested number of features */
    /** Error of the output relative to softmax attention, measured on queries that were not used for fitting: over the
     * draws at `features`, or of one draw at `max_features`. INFINITY: a denominator of signed features is close to 0,
     * where outputs are arbitrary. */
    double error;
    /** An upper bound on the required number of features, by the variance formula; INFINITY: no number suffices; NAN:
     * unknown (sampling OPTIMAL, HYBRID). */
    double predicted;
} bo_attention_advice_map;

/** The result of bo_attention_advise(). */
typedef struct bo_attention_advice {
    double query_norm;                   /**< root mean square of |√s q| */
    double key_norm;                     /**< root mean square of |√s k| */
    double largest;                      /**< largest eigenvalue of Λ (bo_proposal_report), worst key head */
    double smallest;                     /**< smallest eigenvalue of Λ */
    double effective;                    /**< effective dimension (Σλ)² / Σλ² */
    double entropy;                      /**< mean entropy of the weights of softmax attention, in nats */
    double entropy_share;                /**< entropy over log(number of keys seen) */
    double target;                       /**< relative error of the output to reach */
    bool reachable;                      /**< some candidate reaches the target */
    const bo_attention_advice_map *maps; /**< best first: those that reach the target by state size, then by error */
    size_t map_count;                    /**< number of candidates, at least 1 */
    const char *reason; /**< one or two sentences for the user; starts with "none" if no candidate reaches the target */
} bo_attention_advice;

/** Recommends a feature map for given data.
 *
 * Measures the data and tests the maps that estimate softmax: FAVOR with positive, hyperbolic and trigonometric
 * features, with every proposal, and with sampling OPTIMAL; TAYLOR and POLYNOMIAL of degree 2 and 4 if `max_features`
 * permits; RFA; and for causal attention HYBRID with the best of them.
 *
 * Trials use up to eight heads and two thousand keys per head (HYBRID: the first two thousand tokens). The search uses
 * few queries until the target is reached. The confirmation uses up to 2048 queries and three draws, which must all
 * reach the target. With signed features, every denominator must also be at least half its closed form. Trials use the
 * queries at odd positions; calibration uses the rows at even positions.
 *
 * Errors hold for this data. They are relative to the norm of the softmax output, which may differ for other data from
 * the same distribution. The difference is largest for few heads without a causal mask: outputs are then nearly the
 * mean of the values of each head, so that few numbers determine the norm.
 *
 * @param context        the context
 * @param desc           heads, key_heads, dim, value_dim, causal, scale and features.seed are used
 * @param call  the shape, q, k and v, float32 without strides; without v, random values of unit variance are used.
 *     Other members are ignored
 * @param target         the relative error to reach; 0 means 0.1
 * @param max_features   maximum number of features; 0 means 4096. Sampling OPTIMAL and HYBRID use at most 1024
 * @param[out] out       the advice; release it with bo_attention_advice_destroy()
 * @return BO_OK; BO_NUMERIC if an input is NaN or infinite
 */
BO_API bo_status bo_attention_advise(bo_context *context, const bo_attention_desc *desc, const bo_attention_call *call,
                                     double target, size_t max_features, bo_attention_advice **out);

/** Destroys advice.
 *
 * @param advice   the object, or NULL
 */
BO_API void bo_attention_advice_destroy(bo_attention_advice *advice);

/** Returns the number of floats in the gradient of one state.
 *
 *     Kinds with features      key_heads x features x (value_dim + 1). Row i of a head is dL/dS_i, then dL/dz_i,
 *                              S and z the sums of the features with and without the
 *                              values, relative to exp(log scale), a constant
 *     SOFTMAX, POWER, HYBRID   then key_heads x keys x (dim + value_dim): the gradients of the cached keys and values,
 *                              oldest first; `keys` is the window, or else the capacity
 *     HYBRID, gate CONVEX,     then key_heads x keys: the gradients of the log gates of these keys, which are also in
 *     DECAY                    the state
 *     GLA, DELTA               key_heads x dim x value_dim: dL/dS
 *     RIDGE                    key_heads x dim x (value_dim + dim): per head dL/dG (dim x value_dim), then dL/dH
 *
 * The backward pass of one segment writes `dinitial`, which is the `dfinal` of the previous segment.
 *
 * @param attention   the attention
 * @return the number of floats
 */
BO_API size_t bo_attention_state_gradient_floats(const bo_attention *attention);

/** Reports whether some descriptor of a kind has one of the given traits.
 *
 * @param kind     the kind
 * @param traits   bits of bo_attention_trait
 * @return true if one does; false if the value is not in the enum
 */
BO_API bool bo_attention_may(bo_attention_kind kind, unsigned traits);

/** Reports whether a kind accepts a value of `features.kernel`.
 *
 * If a kind has a default kernel, 0 (RBF) means that default, and RBF is not accepted.
 *
 * @param kind     the kind
 * @param kernel   the kernel
 * @return true if it does
 */
BO_API bool bo_attention_takes_kernel(bo_attention_kind kind, bo_kernel kernel);

#endif

#ifdef __cplusplus
}
#endif
#endif
