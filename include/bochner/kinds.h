/** @file
 * Enumerations of the parts of a model besides attention (MLPs, mixers, norms, positions, parametrizations,
 * storage), and of the element types and operations that graphs, layers and device kernels share.
 *
 * Numbers such as 2105.01601 are papers on arXiv. docs/reference/layers.md describes the layers.
 */
#ifndef BOCHNER_KINDS_H
#define BOCHNER_KINDS_H

#ifdef __cplusplus
extern "C" {
#endif

/* ==== Simple ====================================================================================================== */

/** The MLP of a layer: its activation function, or another map of each token. */
typedef enum bo_mlp {
    BO_MLP_RELU2 = 0,           /**< max(x, 0)² */
    BO_MLP_GELU = 1,            /**< x Φ(x) */
    BO_MLP_SWIGLU = 2,          /**< silu(gate) ∘ up, as in Llama */
    BO_MLP_NONE = 3,            /**< no MLP */
    BO_MLP_GELU_TANH = 4,       /**< GELU approximated by tanh, as in GPT-2 */
    BO_MLP_RANDOM_FEATURES = 5, /**< φ(s x) with a fixed random map of features.h; s and the readout are learned */
    BO_MLP_DEGREE_2 = 6,        /**< (W_1 x) ∘ (W_2 x), without activation function */
    BO_MLP_DEGREE_3 = 7,        /**< product of three linear maps of x */
    BO_MLP_DEGREE_4 = 8,        /**< product of four linear maps of x */
    BO_MLP_DEGREE_E = 9,        /**< u ∘ v ∘ (u² + v²)^((e - 2)/2) of two linear maps u, v of x */
    BO_MLP_QUADRATIC = 10,      /**< xᵀ W_o x for each output o */
    BO_MLP_GEGLU = 11,          /**< gelu(gate) ∘ up */
    BO_MLP_GEGLU_TANH = 12,     /**< the same with GELU approximated by tanh, as in Gemma */
    BO_MLP_RELU = 13,           /**< max(x, 0) */
    BO_MLP_SILU = 14,           /**< x σ(x), without a gate */
    BO_MLP_CUSTOM = 100,        /**< a function of the caller (bo_custom_layer of blocks.h) */
    BO_MLP_LAYERS = 101,        /**< a list of layers (bo_block of blocks.h) */
} bo_mlp;

/** How information moves between the tokens of a sequence. */
typedef enum bo_mixer {
    BO_MIXER_ATTENTION = 0, /**< any attention of attention.h */
    BO_MIXER_MLP = 1,       /**< a causal MLP along the tokens of a window (2105.01601) */
    BO_MIXER_SSM = 2,       /**< state-space systems, one per channel, between two gates */
    BO_MIXER_CONV = 3,      /**< a causal depthwise convolution between two gates */
    BO_MIXER_RNN = 4,       /**< a plain recurrent network */
    BO_MIXER_GRU = 5,       /**< a gated recurrent unit */
    BO_MIXER_LSTM = 6,      /**< a long short-term memory */
    BO_MIXER_DEGREE_2 = 7,  /**< (X W_1) ∘ (T X W_2), where T is a decaying mean */
    BO_MIXER_DEGREE_3 = 8,  /**< (X W_1 Xᵀ) X W_2, causal: linear attention without a normalizer */
    BO_MIXER_DEGREE_4 = 9,  /**< DEGREE_3 ∘ (X W_3) */
    BO_MIXER_DEGREE_E = 10, /**< u ∘ v ∘ (u² + v²)^((e - 2)/2) of the factors u, v of DEGREE_2 */
} bo_mixer;

/** The transition matrix of a state-space mixer; docs/reference/layers.md compares them. */
typedef enum bo_ssm {
    BO_SSM_DIAGONAL = 0, /**< diagonal */
    BO_SSM_CLOSED = 1,   /**< s I + P Pᵀ */
    BO_SSM_LOW_RANK = 2, /**< diagonal + P Qᵀ */
} bo_ssm;

/** How initial values and learning rates of weights depend on the width. */
typedef enum bo_parametrization {
    BO_PARAMETRIZATION_STANDARD = 0, /**< learning rates do not depend on the width */
    BO_PARAMETRIZATION_MUP = 1,      /**< μP (2203.03466): learning rates tuned at base_width fit every width */
    BO_PARAMETRIZATION_UNIT = 2,     /**< unit-scaled μP (2407.17465): values start near 1, for 8-bit floats */
} bo_parametrization;

/** How numbers are stored. */
typedef enum bo_storage {
    BO_STORAGE_FLOAT32 = 0,  /**< 32-bit floats */
    BO_STORAGE_BFLOAT16 = 1, /**< 16-bit floats: for weights, and for activations that are stored for backward */
    BO_STORAGE_FLOAT8 = 2,   /**< a simulation: products use values rounded to E4M3 and gradients rounded to E5M2 */
    BO_STORAGE_INT8 = 3,     /**< 8-bit integers with one scale per group of a row: for weights */
    BO_STORAGE_INT4 = 4,     /**< 4-bit codes with one scale per group of a row: for weights */
} bo_storage;

/** The initial values of the adapters B A of a linear layer (LoRA, 2106.09685). With every choice, adapters do not
 * change the initial output of the model. */
typedef enum bo_lora_init {
    BO_LORA_INIT_ZERO = 0,     /**< A random, B zero */
    BO_LORA_INIT_RANDOM = 1,   /**< both random; rows of A and columns of B have length 1 */
    BO_LORA_INIT_WEIGHT = 2,   /**< the leading singular vectors of the weight (PiSSA, 2404.02948) */
    BO_LORA_INIT_GRADIENT = 3, /**< the leading singular vectors of its gradient (LoRA-GA, 2407.05000) */
} bo_lora_init;

/** Normalization. */
typedef enum bo_norm {
    BO_NORM_RMS = 0,  /**< RMSNorm */
    BO_NORM_LAYER = 1 /**< LayerNorm */
} bo_norm;

/** How a model represents positions. */
typedef enum bo_positions {
    BO_POSITIONS_ROPE = 0,           /**< rotates pairs from the two halves of each head, as in Llama */
    BO_POSITIONS_ROPE_NEIGHBORS = 1, /**< rotates pairs of adjacent columns */
    BO_POSITIONS_LEARNED = 2,        /**< adds a learned vector per position */
    BO_POSITIONS_SINUSOIDAL = 3,     /**< adds sines and cosines of the position */
    BO_POSITIONS_NONE = 4            /**< none */
} bo_positions;

/** How the two branches of a layer, the mixer and the MLP, are joined to the residual stream x. */
typedef enum bo_residual {
    BO_RESIDUAL_SEQUENTIAL = 0, /**< x += mixer(norm(x)), then x += mlp(norm(x)), as in Llama and GPT-2 */
    BO_RESIDUAL_PARALLEL = 1,   /**< x += mixer(norm(x)) + mlp(norm'(x)), as in GPT-NeoX */
    BO_RESIDUAL_SHARED = 2,     /**< x += mixer(norm(x)) + mlp(norm(x)) with one norm, as in Phi */
    BO_RESIDUAL_SANDWICH = 3,   /**< x += norm'(mixer(norm(x))), then x += norm'(mlp(norm(x))), as in Gemma 3 */
    BO_RESIDUAL_AFTER = 4       /**< x += norm(mixer(x)), then x += norm(mlp(x)), as in OLMo 2 */
} bo_residual;

/** How RoPE frequencies are scaled for texts that are longer than those of pretraining. */
typedef enum bo_rope_scaling_kind {
    BO_ROPE_SCALING_KIND_NONE = 0,   /**< not changed */
    BO_ROPE_SCALING_KIND_LINEAR = 1, /**< divided by `factor` (2306.15595) */
    BO_ROPE_SCALING_KIND_LLAMA3 = 2  /**< low frequencies are divided by `factor`, as in Llama 3.1 */
} bo_rope_scaling_kind;

/** A change of the frequencies of RoPE. LLAMA3: a frequency whose wavelength is L tokens is divided by `factor` if L >
 * original / low, and stays if L < original / high. Between them it is interpolated. */
typedef struct bo_rope_scaling {
    bo_rope_scaling_kind kind; /**< the kind (default: NONE) */
    double factor;             /**< LINEAR, LLAMA3: the factor, positive */
    double low;                /**< LLAMA3: positive, less than `high` */
    double high;               /**< LLAMA3: the upper limit */
    double original;           /**< LLAMA3: context length of pretraining, positive */
} bo_rope_scaling;

/* ==== Advanced ==================================================================================================== */

/** The type of the elements of a tensor. BFLOAT16, INT8 and INT4 are for read-only matrices: the weights of a model
 * that is not trained. */
typedef enum bo_element {
    BO_ELEMENT_FLOAT32 = 0,  /**< 32-bit floats */
    BO_ELEMENT_INT32 = 1,    /**< 32-bit integers */
    BO_ELEMENT_BFLOAT16 = 2, /**< 16-bit floats with 8 bits of exponent */
    BO_ELEMENT_INT8 = 3,     /**< 8-bit integers with one scale per group of a row */
    BO_ELEMENT_INT4 = 4,     /**< 4-bit codes with one scale per group of a row */
    BO_ELEMENT_FLOAT64 = 5   /**< 64-bit floats: not in graphs */
} bo_element;

/** Elementwise functions. */
typedef enum bo_unary {
    BO_UNARY_GELU = 0,        /**< x Φ(x) */
    BO_UNARY_GELU_TANH = 1,   /**< the approximation of GELU by tanh, as in GPT-2 */
    BO_UNARY_RELU2 = 2,       /**< max(x, 0)² */
    BO_UNARY_SILU = 3,        /**< x σ(x) */
    BO_UNARY_RELU = 4,        /**< max(x, 0) */
    BO_UNARY_TANH = 5,        /**< tanh(x) */
    BO_UNARY_SIGMOID = 6,     /**< σ(x) = 1 / (1 + exp(-x)) */
    BO_UNARY_LOG_SIGMOID = 7, /**< log σ(x) */
    BO_UNARY_SOFTPLUS = 8,    /**< log(1 + exp(x)) */
    BO_UNARY_EXP = 9,         /**< exp(x) */
    BO_UNARY_IDENTITY = 10    /**< x */
} bo_unary;

/** Losses between a prediction p and a target t. */
typedef enum bo_loss_kind {
    BO_LOSS_KIND_MSE = 0,     /**< mean (p - t)² */
    BO_LOSS_KIND_L1 = 1,      /**< mean absolute difference of p and t */
    BO_LOSS_KIND_BCE = 2,     /**< mean of -t log σ(p) - (1 - t) log σ(-p), t in [0, 1] */
    BO_LOSS_KIND_KL = 3,      /**< mean over rows of KL(softmax(t), softmax(p)): student p, teacher t (distillation) */
    BO_LOSS_KIND_RELATIVE = 4 /**< Σ (p - t)² / Σ t²; 0 if t is zero everywhere */
} bo_loss_kind;

/** The cells of RECURRENT.
 *
 * x is the projected input with its bias. Gates are in the order of PyTorch. The state is h, followed by c for LSTM.
 *
 *     RNN    h = tanh(x + U h + b)
 *     GRU    r, z = σ(x_rz + U_rz h + b_rz), n = tanh(x_n + r ∘ (U_n h + b_n)), h = (1 - z) ∘ n + z ∘ h  (1406.1078)
 *     LSTM   i, f, g, o of x + U h + b; c = σ(f) ∘ c + σ(i) ∘ tanh g, h = σ(o) ∘ tanh c  (Hochreiter 1997)
 */
typedef enum bo_recurrence {
    BO_RECURRENCE_RNN = 0, /**< a plain recurrent network */
    BO_RECURRENCE_GRU = 1, /**< gated recurrent unit */
    BO_RECURRENCE_LSTM = 2 /**< long short-term memory */
} bo_recurrence;

/** Small float formats. Numbers are rounded to the nearest, ties to even. Larger magnitudes saturate to the largest
 * number, with their sign. NaN stays NaN. */
typedef enum bo_small_float {
    BO_SMALL_FLOAT_NONE = 0, /**< no rounding */
    BO_SMALL_FLOAT_E4M3 = 1, /**< 4 bits of exponent, 3 of mantissa; largest 448, smallest 2^-9 (2209.05433) */
    BO_SMALL_FLOAT_E5M2 = 2, /**< 5 bits of exponent, 2 of mantissa; largest 57344, smallest 2^-16 */
    BO_SMALL_FLOAT_BF16 = 3  /**< bfloat16 */
} bo_small_float;

/** Further inputs of attention, one bit each. They follow q, k and v in this order. Shapes are as in
 * bo_attention_call, with tokens as rows: log_gate and beta are n x key_heads (GLA: n x key_heads dim), parameters
 * are 1 x their length. */
typedef enum bo_attention_given {
    BO_ATTENTION_GIVEN_LOG_GATE = 1 << 0,  /**< log_gate */
    BO_ATTENTION_GIVEN_SIGMA = 1 << 1,     /**< sigma */
    BO_ATTENTION_GIVEN_M = 1 << 2,         /**< m */
    BO_ATTENTION_GIVEN_MIX = 1 << 3,       /**< mix */
    BO_ATTENTION_GIVEN_BETA = 1 << 4,      /**< beta */
    BO_ATTENTION_GIVEN_LOG_DECAY = 1 << 5, /**< log_decay */
    BO_ATTENTION_GIVEN_LAMBDA = 1 << 6,    /**< lambda */
    BO_ATTENTION_GIVEN_M_K = 1 << 7,       /**< m_k */
    BO_ATTENTION_GIVEN_BIAS = 1 << 8,      /**< bias */
    BO_ATTENTION_GIVEN_BIAS_K = 1 << 9     /**< bias_k */
} bo_attention_given;

#ifdef __cplusplus
}
#endif
#endif
