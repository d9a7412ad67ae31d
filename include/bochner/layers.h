/* Bochner: the parts of models beside attention. */
#ifndef BOCHNER_LAYERS_H
#define BOCHNER_LAYERS_H

#include <bochner/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ==== Simple ====================================================================================================== */

typedef enum bo_mlp {
    BO_MLP_RELU2 = 0,           /* max(x, 0)² */
    BO_MLP_GELU = 1,            /* x Φ(x) */
    BO_MLP_SWIGLU = 2,          /* silu(gate) up: Llama's */
    BO_MLP_NONE = 3,            /* attention alone */
    BO_MLP_GELU_TANH = 4,       /* GELU by tanh: GPT-2's */
    BO_MLP_RANDOM_FEATURES = 5, /* φ(s x) of a map of features.h that stays as drawn; scale s and readout are learned */
    BO_MLP_DEGREE_2 = 6,        /* (W_1 x) ∘ (W_2 x), no activation function; … */
    BO_MLP_DEGREE_3 = 7,
    BO_MLP_DEGREE_4 = 8,
    BO_MLP_DEGREE_E = 9,   /* (W_1 x) ∘ (W_2 x) ∘ softplus(W_3 x)^(e - 2) */
    BO_MLP_QUADRATIC = 10, /* xᵀ W_o x for each output o */
    BO_MLP_CUSTOM = 100,   /* a function of the caller's (bo_custom_layer of model.h) */
} bo_mlp;
/* How information moves between the tokens of a sequence. */
typedef enum bo_mixer {
    BO_MIXER_ATTENTION = 0, /* any of attention.h */
    BO_MIXER_MLP = 1,       /* an MLP along the tokens of a window (2105.01601), causal */
    BO_MIXER_SSM = 2,       /* state-space systems, one per channel, between two gates */
    BO_MIXER_CONV = 3,      /* a causal depthwise convolution between two gates */
    BO_MIXER_RNN = 4,
    BO_MIXER_GRU = 5,
    BO_MIXER_LSTM = 6,
    BO_MIXER_DEGREE_2 = 7,  /* (X W_1) ∘ (T X W_2), T a decaying mean */
    BO_MIXER_DEGREE_3 = 8,  /* (X W_1 Xᵀ) X W_2, causal: linear attention without a normalizer */
    BO_MIXER_DEGREE_4 = 9,  /* … ∘ (X W_3) */
    BO_MIXER_DEGREE_E = 10, /* |q·k|^p for weights, 2p + 1 = e */
} bo_mixer;
/* The transition matrix of a state-space mixer; docs/reference/layers.md compares them. */
typedef enum bo_ssm {
    BO_SSM_DIAGONAL = 0,
    BO_SSM_CLOSED = 1,   /* s I + P Pᵀ */
    BO_SSM_LOW_RANK = 2, /* diagonal + P Qᵀ */
} bo_ssm;
/* How first values and learning rates of weights depend on the width. */
typedef enum bo_parametrization {
    BO_PARAMETRIZATION_STANDARD = 0,
    BO_PARAMETRIZATION_MUP = 1,  /* maximal update (2203.03466): rates found at base_width apply to every width */
    BO_PARAMETRIZATION_UNIT = 2, /* its unit-scaled form (2407.17465): numbers begin near 1, fit for 8-bit floats */
} bo_parametrization;
/* How numbers are stored. FLOAT8 is a simulation: products use values rounded to E4M3 and gradients rounded to E5M2. */
typedef enum bo_storage {
    BO_STORAGE_FLOAT32 = 0,
    BO_STORAGE_BFLOAT16 = 1, /* of activations kept for backward; of weights */
    BO_STORAGE_FLOAT8 = 2,
    BO_STORAGE_INT8 = 3, /* of weights, with a scale per group of a row */
} bo_storage;
/* First values of the adapters B A of a linear layer (LoRA, 2106.09685). With each of them the model begins as it was. */
typedef enum bo_lora_init {
    BO_LORA_INIT_ZERO = 0,     /* A random, B zero */
    BO_LORA_INIT_RANDOM = 1,   /* both random, rows of A and columns of B of length 1 */
    BO_LORA_INIT_WEIGHT = 2,   /* the first singular vectors of the weight (PiSSA, 2404.02948) */
    BO_LORA_INIT_GRADIENT = 3, /* those of its gradient (LoRA-GA, 2407.05000) */
} bo_lora_init;
typedef enum bo_norm { BO_NORM_RMS = 0, BO_NORM_LAYER = 1 } bo_norm;
typedef enum bo_positions {
    BO_POSITIONS_ROPE = 0,           /* halves of each head turn: Llama's layout */
    BO_POSITIONS_ROPE_NEIGHBORS = 1, /* neighboring pairs turn */
    BO_POSITIONS_LEARNED = 2,
    BO_POSITIONS_SINUSOIDAL = 3,
    BO_POSITIONS_NONE = 4
} bo_positions;

/* ==== Advanced ==================================================================================================== */

/* Names of the enums; NULL outside the enum. "relu2", "gelu", "swiglu", … */
BO_API const char *bo_mlp_name(bo_mlp mlp);
/* "rms", "layer" */
BO_API const char *bo_norm_name(bo_norm norm);
/* "rope", "rope-neighbors", "learned", … */
BO_API const char *bo_positions_name(bo_positions positions);
/* "attention", "mlp", "ssm", …, "degree-e" */
BO_API const char *bo_mixer_name(bo_mixer mixer);
/* "diagonal", "closed", "low-rank" */
BO_API const char *bo_ssm_name(bo_ssm ssm);
/* "standard", "mup", "unit" */
BO_API const char *bo_parametrization_name(bo_parametrization parametrization);
/* "float32", "bfloat16", "float8", "int8" */
BO_API const char *bo_storage_name(bo_storage storage);
/* "zero", "random", "weight", "gradient" */
BO_API const char *bo_lora_init_name(bo_lora_init init);

/* False if it is no such name; then *out is unchanged. Case does not matter. */
BO_API bool bo_mlp_parse(const char *name, bo_mlp *out);
BO_API bool bo_norm_parse(const char *name, bo_norm *out);
BO_API bool bo_positions_parse(const char *name, bo_positions *out);
BO_API bool bo_mixer_parse(const char *name, bo_mixer *out);
BO_API bool bo_ssm_parse(const char *name, bo_ssm *out);
BO_API bool bo_parametrization_parse(const char *name, bo_parametrization *out);
BO_API bool bo_storage_parse(const char *name, bo_storage *out);
BO_API bool bo_lora_init_parse(const char *name, bo_lora_init *out);

#ifdef __cplusplus
}
#endif
#endif
