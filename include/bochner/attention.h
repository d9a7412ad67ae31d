/* Bochner: attention. Exact softmax attention; attention with a kernel that is an inner product of features, linear in
 * length and decoded from a state of fixed size; and the memories that grew out of it.
 *
 *     bo_attention_desc desc = {.kind = BO_ATTENTION_FAVOR, .heads = 8, .dim = 64, .causal = true,
 *                               .features = {.features = 128, .seed = 1}};
 *     bo_attention *attention;
 *     bo_attention_create(context, &desc, &attention);
 *     bo_attention_shape shape = {.sequences = 1, .tokens = 4096};
 *     bo_attention_inputs in = {.q = q, .k = k, .v = v};                       // each (1, 8, 4096, 64)
 *     bo_attention_forward(context, attention, &shape, &in, NULL, NULL, out, NULL);
 *
 * What is computed, for query i and the keys j it may see (all, or j <= i when causal):
 *
 *     o_i = Σ_j a_ij v_j / max(Σ_j a_ij, clamp)           a_ij >= 0 or, for signed features, of any sign
 *
 *   kind     a_ij
 *   EXACT    exp(s q_i·k_j), j > i - window where a window is given
 *   LINEAR   φ(q_i)·φ(k_j), φ any map of features.h
 *   RFA      φ(σ∘q̂_i / τ)·φ(σ∘k̂_j / τ), x̂ = x / (|x| + 1e-3), φ sin/cos or arc-cosine (2103.02143)
 *   FAVOR    φ(q_i)·φ(k_j), an unbiased estimate of exp(s q_i·k_j) (2009.14794)
 *   DARK     the same of exp(s (M q_i)·(M k_j)) (2603.04127), or of exp(s q_i·k_j) with frequencies drawn for the data
 *   HYBRID   mix · exp(s q_i·k_j) for the `window` latest keys, φ(q_i)·φ(k_j) for those before: one denominator
 *   LEARNED  φ(W q_i + b)·φ(W' k_j + b'), φ exp(±y), softmax(±y) (Hedgehog, 2402.04347) or max(y, 0) (T2R, 2103.13076)
 *   POWER    |s q_i·k_j|^p for any real p > 0, from explicit keys as EXACT
 *
 * With a gate g_t in (0, 1] (causal kinds with features): a_ij is also multiplied by g_i g_{i-1} … g_{j+1} and by the
 * input weight 1 - g_j (RFA-Gate) or 1.
 *
 * Memories, causal and without a denominator (S_0 = G_0 = H_0 = 0; β_t = 1 and g_t = 1 by default):
 *
 *   GLA      o_t = s S_tᵀ q_t,  S_t = diag(g_t) S_{t-1} + k_t v_tᵀ,  a gate for each channel (2312.06635)
 *   DELTA    o_t = s S_tᵀ q_t,  S_t = g_t S_{t-1} + β_t k_t (v_t - (g_t S_{t-1})ᵀ k_t)ᵀ  (2406.06484, 2412.06464)
 *   RIDGE    o_t = G_tᵀ (H_t + Λ)⁻¹ q_t,  H_t = g_t H_{t-1} + β_t k_t k_tᵀ,  G_t = g_t G_{t-1} + β_t k_t v_tᵀ: ridge
 *            regression of the values on the keys so far (2506.05233)
 *
 * Nothing overflows: exponential features are kept relative to a running maximum, which belongs to the state. Causal
 * means causal: change token t, and every output before t keeps its bits. Results do not depend on the number of
 * threads.
 *
 * Grouped queries. `heads` query heads share `key_heads` heads of keys and values: query head h uses key head h /
 * (heads / key_heads). Features, gate, β, state and parameters belong to key heads, but mix to query heads. */
#ifndef BOCHNER_ATTENTION_H
#define BOCHNER_ATTENTION_H

#include <bochner/features.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct bo_attention bo_attention;

/* ---- simple: describe, create, forward ------------------------------------------------------------------------- */

typedef enum bo_attention_kind {
    BO_ATTENTION_EXACT = 0,
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
    BO_GATE_CONVEX = 1, /* S_t = g_t S_{t-1} + (1 - g_t) φ(k_t) v_tᵀ: RFA-Gate; 1 - g_t is never less than 1e-30 */
    BO_GATE_DECAY = 2,  /* S_t = g_t S_{t-1} + φ(k_t) v_tᵀ */
    BO_GATE_FIXED = 3,  /* the same with one g for all tokens of a key head: retention (2307.08621) */
} bo_gate;

typedef enum bo_normalizer {
    BO_NORMALIZER_SUM = 0,  /* divide by the sum of the weights */
    BO_NORMALIZER_NONE = 1, /* do not: features without log scales (not SOFTMAX, COSH), not EXACT, POWER, HYBRID */
} bo_normalizer;

/* The law that the frequencies of POSITIVE features come from, after the data has been seen (bo_calibration): normal,
 * with importance weights, so that the estimate of exp(s q·k) stays unbiased. Λ, μ: second moments and means of √s q
 * and √s k over the data. */
typedef enum bo_proposal {
    BO_PROPOSAL_NONE = 0,     /* N(0, I): FAVOR+ */
    BO_PROPOSAL_OPRF = 1,     /* N(0, c I), c from the mean of |q + k|²: FAVOR++ (2205.15317) */
    BO_PROPOSAL_SDERF = 2,    /* one c for each principal direction of q + k: FAVOR# (2302.00787) */
    BO_PROPOSAL_GAUSSIAN = 3, /* N(0, Σ*), the best for Gaussian q and k: DARK (2603.04127) */
} bo_proposal;

/* Zero means the default, except heads, dim, and features.features where the map does not fix it. */
typedef struct bo_attention_desc {
    bo_attention_kind kind;
    size_t heads;     /* query heads */
    size_t key_heads; /* 0: heads; divides heads */
    size_t dim;       /* of a query and a key */
    size_t value_dim; /* 0: dim */
    bool causal;
    /* s; 0: 1/√dim. For LINEAR it is features.gamma, and 0 is 1 unless the kernel is one of s q·k: SOFTMAX, LINEAR,
     * POLYNOMIAL, TAYLOR. RFA has a temperature instead; LEARNED and RIDGE have none. */
    double scale;
    /* The map; its dim is filled in. LINEAR: as given. RFA: kernel RBF (the default) or ARCCOS. FAVOR, DARK, HYBRID:
     * kernel SOFTMAX is filled in (HYBRID may name another but RBF), function POSITIVE by default. LEARNED: COSH (the
     * default), HEDGEHOG or RECTIFIER; so may HYBRID, then with W and b. sampling OPTIMAL chooses among candidates when
     * the attention is calibrated; LEVERAGE is refused; a sample (rows as the map sees them) serves OPRF only. EXACT,
     * POWER and the memories have no map: they refuse a sampling and ignore the rest. */
    bo_features_desc features;
    /* FAVOR, DARK, HYBRID with POSITIVE features. With a proposal or sampling OPTIMAL the attention must be calibrated
     * (bo_calibration_apply) before it is used. */
    bo_proposal proposal;
    bool one_draw; /* kinds with features: all key heads share one draw; else each has its own */
    bo_gate gate;
    size_t window; /* HYBRID: 0 is 64. EXACT, POWER: 0 is none. Causal only */
    bo_normalizer normalizer;
    /* Kinds with features: the least denominator, in units of exp(log scale of the query + running log scale);
     * gradients through a clamped denominator are zero. 0: 1e-3 for signed features, the smallest normal float for
     * non-negative ones. Where even the clamped denominator is not larger than the smallest normal float, the output is
     * 0; gradients are 0 where they over the denominator leave 1e36. */
    double clamp;
    double temperature; /* RFA: τ; 0: 1 */
    size_t rank;        /* DARK, LEARNED: rows of M or W; 0: dim */
    double power;       /* POWER: p, a normal float; 0: 2 */
    bool unit;          /* GLA, DELTA, RIDGE: q and k become x / (|x| + 1e-3) first; DELTA is stable for β|k|² <= 2 */
    size_t iterations;  /* RIDGE with a gate: most steps of conjugate gradients before a system is solved directly, by a
                         * factor of H + Λ in double; 0: dim, which cost about as much as the factor … */
    /* … and which end sooner where |residual| <= tolerance |q|; 0: 1e-6. By rounding up to ten times as much may be
     * left, and gradients of q and Λ be off by |H| / λ times that. G and H are float32: everything may be off by
     * |H| / λ of its roundings */
    double tolerance;
    size_t capacity; /* EXACT, POWER: most tokens a state holds; 0: 4096. A window needs no more than itself. */
    size_t chunk;    /* tokens taken at a time; 0: the planner's choice (bo_attention_cost) */
} bo_attention_desc;

/* The descriptor that goes by a name, as far as the name says: kind, gate, normalizer, unit, proposal, kernel and
 * function; causal becomes true where the kind is nothing else; the rest is as it was. "exact", "linear", "rfa",
 * "rfa-gate", "favor", "favor++", "favor#", "dark", "hybrid", "poly", "taylor", "retention", "hedgehog", "t2r", "power",
 * "gla", "delta", "gated-delta", "ridge", "gated-ridge". False: no such name (or desc is NULL). */
BO_API bool bo_attention_preset(const char *name, bo_attention_desc *desc);
/* The names in order; NULL after the last. */
BO_API const char *bo_attention_preset_name(size_t index);

BO_API bo_status bo_attention_create(bo_context *context, const bo_attention_desc *desc, bo_attention **out);
BO_API void bo_attention_destroy(bo_attention *attention); /* NULL is fine */
/* What was made: the descriptor with defaults filled in. */
BO_API const bo_attention_desc *bo_attention_describe(const bo_attention *attention);
/* The map of one key head; NULL for the kinds without features. Owned by the attention. */
BO_API const bo_features *bo_attention_features(const bo_attention *attention, size_t key_head);
/* Other frequencies of the same law: while training, draw 1, 2, 3, …; draw 0 is the one in use afterwards, and the one
 * create makes. Nobody else may be using the attention meanwhile; states made before no longer fit it. */
BO_API bo_status bo_attention_redraw(bo_context *context, bo_attention *attention, uint64_t draw);

typedef enum bo_layout {
    BO_LAYOUT_HEADS_FIRST = 0, /* (sequences, heads, tokens, dim); packed: (heads, all tokens, dim) */
    BO_LAYOUT_TOKENS_FIRST = 1 /* (sequences, tokens, heads, dim); packed: (all tokens, heads, dim) */
} bo_layout;

/* Sequences of one length, or packed: one after the other, each with its own length, nothing in between. */
typedef struct bo_attention_shape {
    size_t sequences;
    size_t tokens;             /* of each sequence; ignored where lengths are given */
    size_t key_tokens;         /* keys of each sequence where they differ in number (cross attention); 0: tokens */
    const size_t *lengths;     /* one per sequence: packed. NULL: not packed */
    const size_t *key_lengths; /* packed keys; NULL: lengths */
    bool no_keys;              /* ask the initial states only: k and v are NULL (cross attention) */
    bool no_queries;           /* take the keys into the final states only: q and out are NULL */
    bo_layout layout;
} bo_attention_shape;

/* How the systems of RIDGE were solved. Residuals are computed anew from x: with a gate those of all systems; without, where
 * a factor of H + Λ gives x and nothing is iterated, those of the last query of every chunk, and of every step, in the
 * state's own H: how far it and the factor have drifted apart. */
typedef struct bo_solves {
    uint64_t systems, iterations; /* solved, and steps of conjugate gradients in all */
    double largest_residual;      /* |(H + Λ)x - q| / |q|, the largest */
    uint64_t refactored;          /* systems that `iterations` steps did not bring there, solved directly instead */
} bo_solves;

/* Arrays in the shape's layout. log_gate has one number per token and key head: (sequences, key_heads, tokens) or
 * (sequences, tokens, key_heads), for GLA `dim` of them; log g <= 0. Parameters may be NULL, which is the value in
 * brackets. */
typedef struct bo_attention_inputs {
    const float *q, *k, *v;
    const float *log_gate;  /* with a gate CONVEX or DECAY, and for GLA; NULL without */
    const float *sigma;     /* RFA: key_heads x dim [1] */
    const float *m;         /* DARK: M, LEARNED: W: key_heads x rank x dim [the first rows of the identity] */
    const float *mix;       /* HYBRID: heads, each > 0 [1] */
    const float *beta;      /* DELTA, RIDGE: a number per token and key head, >= 0 [1] */
    const float *log_decay; /* gate FIXED: log g of each key head, <= 0 [log(1 - 2^-(5 + h)), h modulo 8] */
    const float *lambda;    /* RIDGE: the diagonal of Λ, key_heads x dim, each > 0 [1] */
    const float *m_k;       /* LEARNED: W', as m [the same as m] */
    const float *bias;      /* LEARNED: b, key_heads x rank [0] */
    const float *bias_k;    /* LEARNED: b', as bias [the same as bias] */
    bo_solves *solves;      /* RIDGE: where forward and step report; NULL: nowhere */
} bo_attention_inputs;

/* out: (sequences, heads, tokens, value_dim) or its other layout. `initial` and `final`: a state for each sequence
 * (see below), or NULL: start from nothing, keep nothing; final[s] may be initial[s], but nobody else's. tape:
 * bo_attention_tape_bytes bytes that bo_attention_backward will read, or NULL. Inputs that are not finite are refused
 * with BO_NUMERIC: array, sequence, head and token are named; outputs and final states are then undefined, but states
 * that were to be changed in place are as they were. The context's progress callback is asked now and then and may
 * cancel, here and in backward: what was to be written is then undefined, states in place too. */
BO_API bo_status bo_attention_forward(bo_context *context, const bo_attention *attention,
                                      const bo_attention_shape *shape, const bo_attention_inputs *inputs,
                                      const void *const *initial, void *const *final, float *out, void *tape);

/* ---- gradients ------------------------------------------------------------------------------------------------- */

/* Where gradients go, each overwritten; NULL: not wanted. Shapes as in bo_attention_inputs; d log_gate is with
 * respect to log g (with CONVEX through the input weight too, unless that is at its least, as with a gate of 1). Where
 * m_k is not given, the gradient of m has both parts; bias alike. initial: one array of bo_attention_state_gradient_floats
 * floats per sequence. */
typedef struct bo_attention_gradients {
    float *q, *k, *v, *log_gate, *sigma, *m, *mix;
    float *const *initial;
    float *beta, *log_decay, *lambda, *m_k, *bias, *bias_k;
} bo_attention_gradients;

BO_API bo_status bo_attention_tape_bytes(bo_context *context, const bo_attention *attention,
                                         const bo_attention_shape *shape, size_t *bytes);
/* `initial`, `out` and `tape` as they were in (and left by) forward. d_final: gradients with respect to the final
 * states, or NULL: none. dout may be NULL: zero. BO_UNSUPPORTED for a CUSTOM map without custom_backward; BO_NUMERIC,
 * and the array is named, where a gradient that is asked for leaves float. */
BO_API bo_status bo_attention_backward(bo_context *context, const bo_attention *attention,
                                       const bo_attention_shape *shape, const bo_attention_inputs *inputs,
                                       const void *const *initial, const float *out, const void *tape,
                                       const float *dout, const float *const *d_final,
                                       const bo_attention_gradients *gradients);

/* Floats in the gradient of one state. For the kinds with features: key_heads x features x (value_dim + 1), row i of a
 * head holding dL/dS_i and then dL/dz_i with S and z as bo_attention_state_get gives them and the log scale held fixed.
 * Then, for EXACT, POWER and HYBRID, key_heads x held x (dim + value_dim): gradients of the keys and values the state
 * holds, oldest first; held is the window or else the capacity. For GLA and DELTA key_heads x dim x value_dim: dL/dS. For
 * RIDGE key_heads x dim x (value_dim + dim): dL/dG (dim x value_dim) of a head and then dL/dH (dim x dim). What one
 * segment's backward writes into `initial` is what the one before takes as d_final. */
BO_API size_t bo_attention_state_gradient_floats(const bo_attention *attention);

/* ---- states ---------------------------------------------------------------------------------------------------- */

/* A state is plain bytes: copy, save, fork, send it. Its size depends on the descriptor only. It knows the attention
 * it belongs to (descriptor and draw) and is refused with BO_INVALID by another. It must be aligned to 8 bytes;
 * aligned to 64 it is faster. */
BO_API size_t bo_attention_state_bytes(const bo_attention *attention);
BO_API bo_status bo_attention_state_init(bo_context *context, const bo_attention *attention, void *state);
BO_API bo_status bo_attention_state_check(bo_context *context, const bo_attention *attention, const void *state);
BO_API uint64_t bo_attention_state_tokens(const void *state); /* absorbed so far */

/* One token for each of `sequences` states: q (sequences x heads x dim), k, v, out alike, log_gate (sequences x
 * key_heads). k == NULL: the states are asked and stay as they are. Inputs that are not finite are refused before any
 * state changes; where finite ones lead beyond float (BO_NUMERIC too) the states are undefined afterwards. */
BO_API bo_status bo_attention_step(bo_context *context, const bo_attention *attention, size_t sequences,
                                   const bo_attention_inputs *inputs, void *const *states, float *out);
/* A block of tokens: forward with initial and final the same states. Any split of a sequence into blocks and steps
 * gives the same outputs up to rounding. */
BO_API bo_status bo_attention_extend(bo_context *context, const bo_attention *attention,
                                     const bo_attention_shape *shape, const bo_attention_inputs *inputs,
                                     void *const *states, float *out);

/* The sums a state of the kinds with features holds: Σ_j a_j φ(k_j) v_jᵀ = exp(log_scale) s (features x value_dim) and
 * Σ_j a_j φ(k_j) = exp(log_scale) z (features). Of GLA and DELTA s is S (dim x value_dim), of RIDGE s is G and z is H
 * (dim x dim); the log scale is 0, and where there is no z it must be NULL. */
BO_API bo_status bo_attention_state_get(bo_context *context, const bo_attention *attention, const void *state,
                                        size_t key_head, float *s, float *z, double *log_scale);
BO_API bo_status bo_attention_state_set(bo_context *context, const bo_attention *attention, void *state,
                                        size_t key_head, const float *s, const float *z, double log_scale);

/* ---- the plan -------------------------------------------------------------------------------------------------- */

/* How a shape will be computed, and the bytes it takes beyond inputs, outputs and tape. */
typedef struct bo_attention_cost {
    size_t chunk;                /* tokens taken at a time by the kinds with features */
    size_t segment;              /* tokens between the states that the tape keeps */
    size_t query_tile, key_tile; /* of exact attention and windows */
    size_t tasks;                /* that may run at once: sequences x key heads */
    size_t keys;                 /* of the longest sequence */
    size_t forward_bytes, backward_bytes, tape_bytes;
    size_t level1_bytes, level2_bytes; /* caches the choice was made for */
    double operations;                 /* of the forward pass by the fixed count of docs/attention.md */
} bo_attention_cost;
BO_API bo_status bo_attention_estimate(bo_context *context, const bo_attention *attention,
                                       const bo_attention_shape *shape, bo_attention_cost *out);

/* ---- parameters from data -------------------------------------------------------------------------------------- */

/* log g = log sigmoid(x w_hᵀ + b_h) for each head: x is tokens x width, w heads x width, b heads (NULL: 0); log_gate is
 * tokens x heads (the gate of BO_LAYOUT_TOKENS_FIRST). */
BO_API bo_status bo_gate_forward(bo_context *context, size_t tokens, size_t width, size_t heads, const float *x,
                                 const float *w, const float *b, float *log_gate);
/* Each of dx, dw, db is overwritten, or NULL. log_gate as forward left it. */
BO_API bo_status bo_gate_backward(bo_context *context, size_t tokens, size_t width, size_t heads, const float *x,
                                  const float *w, const float *log_gate, const float *dlog_gate, float *dx, float *dw,
                                  float *db);

/* Statistics of q and k from which data-aware frequencies are drawn: proposals, and optimal sampling (2406.18802), which
 * keeps some of many candidates (features.candidates; drawn from the proposal) with probability proportional to
 * sqrt(E f(q)² E f(k)²), each with its importance weight. They are constants of the model: taken from data beforehand
 * or as a moving average over training batches, never within a sequence, so that attention stays causal and unbiased.
 *
 *     bo_calibration *seen;
 *     bo_calibration_create(context, attention, 0.99, &seen);
 *     for each batch: bo_calibration_add(context, seen, &shape, &in); now and then bo_calibration_apply(…, draw++, …);
 *     in use: bo_calibration_apply(context, seen, attention, 0, NULL) once, and never again. */
typedef struct bo_calibration bo_calibration;
/* momentum in [0, 1): what the statistics so far count for when a batch is added; 0: every row counts alike. */
BO_API bo_status bo_calibration_create(bo_context *context, const bo_attention *attention, double momentum,
                                       bo_calibration **out);
BO_API void bo_calibration_destroy(bo_calibration *calibration); /* NULL is fine */
/* Takes in a batch: q, k, and the parameters of RFA, DARK and LEARNED; v and the rest are not looked at. */
BO_API bo_status bo_calibration_add(bo_context *context, bo_calibration *calibration, const bo_attention_shape *shape,
                                    const bo_attention_inputs *inputs);
/* What the data promises, for the key head where frequencies do worst. Second moments are of one frequency's estimate
 * of the kernel over independent q and k of the data, relative to E k(q, k)², as logarithms: 0 is perfect, and m
 * independent frequencies leave a relative variance of (exp(log_…) - 1) / m; couplings (orthogonal, …) less. Measured
 * on some hundred rows that the calibration keeps, which for norms beyond 2 or so see too few of the pairs that
 * matter. */
typedef struct bo_calibration_report {
    uint64_t rows; /* of q and k, taken in */
    size_t key_head;
    double log_isotropic; /* as drawn from the kernel's spectrum, N(0, I) */
    double log_drawn;     /* as drawn now; of chosen ones with what their candidates add, less the more there are */
    double log_floor;     /* the least there is, by optimal sampling: (E sqrt(E f(q)² E f(k)²))² */
} bo_calibration_report;
/* Draws the frequencies of every key head anew from the statistics, and makes the attention ready for use. draw as in
 * bo_attention_redraw, which takes other frequencies of the same proposal but cannot choose among candidates.
 * Trigonometric features are optimal as drawn, and stay so. Nobody else may be using the attention meanwhile; states
 * made before no longer fit it. Refused where no row has been added. On failure the attention is as it was. out may be
 * NULL. */
BO_API bo_status bo_calibration_apply(bo_context *context, const bo_calibration *calibration, bo_attention *attention,
                                      uint64_t draw, bo_calibration_report *out);

/* DARK: M = amount · Λ^-½ for each key head (the symmetric root; with rank < dim a row for each leading direction),
 * Λ the mean of the covariances of q and k, each about its own mean, shrunk by 1% toward its diagonal, to which
 * 1e-4 of its mean is added. amount 0: the usual temperature, the mean of |Mx|² over the data is that of |x|². m:
 * key_heads x rank x dim. */
BO_API bo_status bo_dark_whiten(bo_context *context, const bo_attention *attention, const bo_attention_shape *shape,
                                const float *q, const float *k, double amount, float *m);

/* The data as DARK's theory sees it, for the worst key head: Λ_q, Λ_k are the second moments of √s q (of the query
 * heads that share it) and √s k, Λ their mean. */
typedef struct bo_dark_report {
    size_t key_head;          /* with the largest eigenvalue */
    double largest, smallest; /* eigenvalues of Λ */
    double mean_share;        /* |mean|² / E|x|²: the theory takes 0 */
    double mismatch;          /* |Λ_q - Λ_k| / |Λ_q + Λ_k| (Frobenius): 0 where Λ_q = Λ_k */
    double normality;         /* E[(x'Λ⁻¹x)²] / (d(d + 2)), the larger of q and k: the theory takes 1 */
    bool isotropic_finite;    /* plain positive features have a finite variance on Gaussian data with these Λ */
    bool proposal_finite;     /* those drawn from N(0, Σ*) too */
    size_t clipped;           /* eigenvalues of Σ* that had to be lowered to 20, over all heads: data too large */
    double log_gain;          /* log of the second moments' ratio, isotropic over Σ*; NAN where both are infinite */
} bo_dark_report;
/* Draws the frequencies of every key head from N(0, Σ*), Σ* = (I + 2Λ)(I - 2Λ)⁻¹, or where Λ_q and Λ_k differ from
 * the normal law with precision I - 2Λ_q(I + 2Λ_q)⁻¹ - 2Λ_k(I + 2Λ_k)⁻¹, with importance weights: still an unbiased
 * estimate of exp(s q·k), of least variance for Gaussian q and k. With one_draw, one law for all key heads. FAVOR
 * and DARK (with M the identity), function POSITIVE. Nobody else may be using the attention meanwhile; states made
 * before no longer fit it. The statistics are constants from now on, so that causal stays causal. out may be NULL. */
BO_API bo_status bo_dark_propose(bo_context *context, bo_attention *attention, const bo_attention_shape *shape,
                                 const float *q, const float *k, bo_dark_report *out);

/* ---- honesty: how far from the truth, and what would reach it --------------------------------------------------- */

/* Against exact softmax attention and against the kind's own kernel in closed form (with its gate, window, mix and
 * clamp), in float64, over `queries` evenly spaced queries of each head (0: 128). The scale of softmax is s; 1/√dim
 * for RFA, LEARNED and RIDGE, and for LINEAR unless its kernel is SOFTMAX or TAYLOR. */
typedef struct bo_attention_accuracy {
    size_t queries;         /* of each head */
    double against_softmax; /* |out - exact| / |exact|, Frobenius norms over these queries */
    double against_kernel;  /* the same with the kind's own exact kernel; NAN where it has no closed form */
    /* Of single pairs of a query and a key it sees through features: root mean squares of the kernel, and of
     * φ(q)·φ(k) less the kernel, measured and by the variance formula (independent draws), relative to kernel_rms;
     * NAN where unknown. */
    double kernel_rms, kernel_error, kernel_predicted;
    double softmax_seconds, kind_seconds; /* whole forward passes */
    size_t softmax_bytes, kind_bytes;     /* plans' forward_bytes */
} bo_attention_accuracy;
/* out: what forward gave, or anything else to be judged; NULL: what forward gives now. */
BO_API bo_status bo_attention_measure(bo_context *context, const bo_attention *attention,
                                      const bo_attention_shape *shape, const bo_attention_inputs *inputs,
                                      const float *out, size_t queries, bo_attention_accuracy *error);

enum { BO_ADVICE_MAPS = 16 };
typedef struct bo_attention_advice {
    double query_norm, key_norm;         /* root mean squares of |√s q|, |√s k| */
    double largest, smallest, effective; /* eigenvalues of Λ (see bo_dark_report), worst key head; (Σλ)² / Σλ² */
    double entropy, entropy_share;       /* of exact attention's weights: mean in nats, and over the log of keys seen */
    double target;                       /* relative error of the output asked for */
    bool reachable;
    struct {
        bo_attention_desc desc; /* to create it, with `features` features, or `most`; to be calibrated where it has a
                                   proposal or sampling OPTIMAL. POLYNOMIAL is (1 + s q·k / p)^p; RFA has the
                                   temperature that fits */
        size_t features;        /* fewest tried that reached the target; 0: none up to `most` */
        size_t most;            /* largest tried */
        double error;     /* of the output against softmax, measured on queries that nothing was learned from: over the
                             draws at `features`, or of one at `most`; INFINITY: a denominator of signed features came
                             near 0, where outputs may be anything */
        double predicted; /* features that the variance formula asks for at most; INFINITY: no number of them; NAN: it
                             does not say (sampling OPTIMAL, HYBRID) */
    } maps[BO_ADVICE_MAPS]; /* best first: those that reach the target by the size of their state, then by error */
    size_t map_count;
    char reason[512]; /* a sentence or two for a person; it begins with "none" where nothing reaches the target */
} bo_attention_advice;
/* Measures the data, then tries what estimates softmax: FAVOR with positive, hyperbolic and trigonometric features,
 * with every proposal, and with sampling OPTIMAL; TAYLOR and POLYNOMIAL of degree 2 and 4 where `most` has room for
 * them; RFA; and for causal attention HYBRID with the best of them. On up to eight heads, with up to two thousand of
 * their keys (HYBRID: their first two thousand tokens): on some of the queries until the target is reached, then on up
 * to 2048 of them with three draws, each of which must reach it; signed features must also leave every denominator at
 * least half of what it is in closed form. Queries are those at odd places; calibrations see the rows at even ones. Of
 * desc: heads, key_heads, dim, value_dim, causal, scale, features.seed. v NULL: random values of unit variance. target
 * 0: 0.1. most 0: 4096 features (sampling OPTIMAL and HYBRID try 1024 at most).
 *
 * `error` is of this data. Other arrays of the same law may differ from it in |exact| alone, most where attention is not
 * causal and heads are few: outputs are then much alike, one mean of the values for each head, and the norm that errors
 * are relative to is decided by few numbers. */
BO_API bo_status bo_attention_advise(bo_context *context, const bo_attention_desc *desc,
                                     const bo_attention_shape *shape, const float *q, const float *k, const float *v,
                                     double target, size_t most, bo_attention_advice *out);

/* ---- what kinds differ in -------------------------------------------------------------------------------------- */

/* One bit each: fields of the descriptor and arrays of the inputs that some kinds take and the others refuse, and what a kind
 * is. */
typedef enum bo_attention_trait {
    /* the descriptor */
    BO_TRAIT_SCALE = 1 << 0,        /* scale */
    BO_TRAIT_FEATURES = 1 << 1,     /* a map φ: features, one_draw, clamp */
    BO_TRAIT_ANY_KERNEL = 1 << 2,   /* features.kernel may be nearly any */
    BO_TRAIT_GAMMA = 1 << 3,        /* features.gamma beside scale; else they are one number, or there is none */
    BO_TRAIT_DRAWS = 1 << 4,        /* the map may draw frequencies: features.features, draw, sampling */
    BO_TRAIT_PROPOSAL = 1 << 5,     /* proposal: positive features estimate exp(s q·k) */
    BO_TRAIT_NORMALIZER = 1 << 6,   /* normalizer: the denominator is a sum of features alone */
    BO_TRAIT_UNNORMALIZED = 1 << 7, /* normalizer NONE as well, where the kernel allows it */
    BO_TRAIT_WINDOW = 1 << 8,       /* window */
    BO_TRAIT_CAPACITY = 1 << 9,     /* capacity: the state is keys and values and nothing else */
    BO_TRAIT_TEMPERATURE = 1 << 10, /* temperature */
    BO_TRAIT_POWER = 1 << 11,       /* power */
    BO_TRAIT_UNIT = 1 << 12,        /* unit */
    BO_TRAIT_ITERATIONS = 1 << 13,  /* iterations and tolerance, with a gate; solves of the inputs */
    BO_TRAIT_GATE_CONVEX = 1 << 14, /* these gates */
    BO_TRAIT_GATE_DECAY = 1 << 15,
    BO_TRAIT_GATE_FIXED = 1 << 16,
    /* the inputs */
    BO_TRAIT_CHANNELS = 1 << 17, /* log_gate without a gate, `dim` numbers per token and key head */
    BO_TRAIT_SIGMA = 1 << 18,    /* sigma */
    BO_TRAIT_MATRIX = 1 << 19,   /* m, a matrix M, and rank */
    BO_TRAIT_AFFINE = 1 << 20,   /* m, m_k, bias, bias_k: a learned map W x + b, and rank */
    BO_TRAIT_MIX = 1 << 21,      /* mix */
    BO_TRAIT_BETA = 1 << 22,     /* beta */
    BO_TRAIT_LAMBDA = 1 << 23,   /* lambda */
    /* what it is */
    BO_TRAIT_CAUSAL = 1 << 24,    /* causal and nothing else */
    BO_TRAIT_MEMORY = 1 << 25,    /* a matrix that is no sum of features, without a denominator */
    BO_TRAIT_UNIT_ROWS = 1 << 26, /* q and k always become x / (|x| + 1e-3) first */
    BO_TRAIT_PROPOSE = 1 << 27,   /* bo_dark_propose draws its frequencies */
    BO_TRAIT_CROSS = 1 << 28      /* as cross attention of a model */
} bo_attention_trait;

/* Some descriptor of this kind has one of these traits (bits). False outside the enum. */
BO_API bool bo_attention_may(bo_attention_kind kind, unsigned traits);
/* This descriptor has one of them, by its kind and by whether features.kernel is that of a learned map. */
BO_API bool bo_attention_has(const bo_attention_desc *desc, unsigned traits);
BO_API bool bo_attention_takes_gate(bo_attention_kind kind, bo_gate gate);
/* As features.kernel; where the kind has a default of its own, 0 (RBF) stands for that and is not taken itself. */
BO_API bool bo_attention_takes_kernel(bo_attention_kind kind, bo_kernel kernel);

/* ---- names ----------------------------------------------------------------------------------------------------- */

BO_API const char *bo_attention_kind_name(bo_attention_kind kind); /* "exact", "linear", …; NULL outside the enum */
BO_API const char *bo_gate_name(bo_gate gate);                     /* "none", "convex", "decay", "fixed" */
/* False: no such name (or NULL), and *out is as it was. Case does not matter, and "_" is "-". */
BO_API bool bo_attention_kind_parse(const char *name, bo_attention_kind *out);
BO_API bool bo_gate_parse(const char *name, bo_gate *out);
BO_API const char *bo_proposal_name(bo_proposal proposal); /* "none", "oprf", "sderf", "gaussian" */
BO_API bool bo_proposal_parse(const char *name, bo_proposal *out);

#ifdef __cplusplus
}
#endif
#endif
