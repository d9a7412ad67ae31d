/* Bochner: what models are made of, beside attention. */
#ifndef BOCHNER_LAYERS_H
#define BOCHNER_LAYERS_H

#include <bochner/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum bo_mlp {
    BO_MLP_RELU2 = 0,     /* max(x, 0)² */
    BO_MLP_GELU = 1,      /* x Φ(x) */
    BO_MLP_SWIGLU = 2,    /* silu(gate) up: Llama's */
    BO_MLP_NONE = 3,      /* attention alone */
    BO_MLP_GELU_TANH = 4, /* GELU by tanh: GPT-2's */
    BO_MLP_COUNT = 5
} bo_mlp;
typedef enum bo_norm { BO_NORM_RMS = 0, BO_NORM_LAYER = 1, BO_NORM_COUNT = 2 } bo_norm;
typedef enum bo_positions {
    BO_POSITIONS_ROPE = 0,            /* halves of each head turn: Llama's layout */
    BO_POSITIONS_ROPE_NEIGHBOURS = 1, /* neighbouring pairs turn */
    BO_POSITIONS_LEARNED = 2,
    BO_POSITIONS_SINUSOIDAL = 3,
    BO_POSITIONS_NONE = 4,
    BO_POSITIONS_COUNT = 5
} bo_positions;

BO_API const char *bo_mlp_name(bo_mlp mlp);    /* "relu2", "gelu", "swiglu", "none", "gelu-tanh"; NULL: no such */
BO_API const char *bo_norm_name(bo_norm norm); /* "rms", "layer" */
BO_API const char *bo_positions_name(bo_positions positions); /* "rope", "rope-neighbours", "learned", … */
BO_API bool bo_mlp_parse(const char *name, bo_mlp *out);
BO_API bool bo_norm_parse(const char *name, bo_norm *out);
BO_API bool bo_positions_parse(const char *name, bo_positions *out);

#ifdef __cplusplus
}
#endif
#endif
