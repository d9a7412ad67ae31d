/** @file
 * The choices for the parts of a model beside attention: MLPs, mixers, norms, positions, parametrizations and storage.
 *
 * Numbers such as 2105.01601 are papers on arXiv. docs/reference/layers.md describes the layers.
 */
#ifndef BOCHNER_LAYERS_H
#define BOCHNER_LAYERS_H

#include <bochner/base.h>

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
    BO_MLP_CUSTOM = 100,        /**< a function of the caller (bo_custom_layer of model.h) */
    BO_MLP_LAYERS = 101,        /**< a list of layers (bo_block of model.h) */
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
    BO_STORAGE_BFLOAT16 = 1, /**< 16-bit floats: for weights, and for activations that are kept for backward */
    BO_STORAGE_FLOAT8 = 2,   /**< a simulation: products use values rounded to E4M3 and gradients rounded to E5M2 */
    BO_STORAGE_INT8 = 3,     /**< 8-bit integers with one scale per group of a row: for weights */
    BO_STORAGE_INT4 = 4,     /**< 4-bit codes with one scale per group of a row: for weights */
} bo_storage;

/** The initial values of the adapters B A of a linear layer (LoRA, 2106.09685). Adapters do not change the output of
 * the model at the start, for every choice. */
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

/** How the frequencies of RoPE are changed for texts that are longer than those of the first training. */
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
    double high;               /**< LLAMA3: the other limit */
    double original;           /**< LLAMA3: tokens of a text of the first training, positive */
} bo_rope_scaling;

/* ==== Advanced ==================================================================================================== */

#ifdef __cplusplus
}
#endif
#endif
