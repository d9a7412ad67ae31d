/** @file
 * The types of numbers and the kinds of operations, which graphs, layers and the kernels of every device share. Advanced
 * tier.
 */
#ifndef BOCHNER_KINDS_H
#define BOCHNER_KINDS_H

#ifdef __cplusplus
extern "C" {
#endif

/* ==== Advanced ==================================================================================================== */

/** The type of the elements of a tensor. BFLOAT16, INT8 and INT4 are for matrices that are only read: the weights of a model
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

/** Small float formats. Numbers are rounded to the nearest, ties to even. Numbers beyond the largest become the
 * largest, with their sign. NaN stays NaN. */
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
