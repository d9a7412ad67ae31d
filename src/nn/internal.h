/* Functions shared by the layers: parameters, and the numbering of dropout streams. */
#ifndef BO_NN_INTERNAL_H
#define BO_NN_INTERNAL_H

#include "nn.h"

/* At unit scale, the factor 1/√in that keeps values at size 1 is the scale of the weight and not part of its entries;
 * for the head it is 1/in (2407.17465, Table 2). */
void bo_nn_factor_out_scale(bo_weight_desc *w, size_t in);
/* Returns true if the reserved members of a layer are zero. Otherwise sets the error of the graph and returns false. */
bool bo_nn_reserved(bo_graph *graph, const char *prefix, const char *name, const uint64_t reserved[4]);
/* Returns 1 / √E f(x)² for x ~ N(0, 1) at unit scale, which keeps f(x) at size 1; otherwise 1. */
double bo_nn_unit_factor(const bo_graph *graph, bo_unary function);
/* Attention in two parts: the outputs of the heads, then the norm and the projection, added to `residual`. */
bo_value bo_nn_attend(bo_graph *graph, const char *prefix, bo_value x, bo_value positions, const bo_branch *desc);
bo_value bo_nn_attended(bo_graph *graph, const char *prefix, bo_value out, bo_value residual, const bo_branch *desc);

/* Inputs of attention: q is computed from x, k and v from `keys`. If both are the same, it is self-attention. */
typedef struct bo_attend_inputs {
    bo_value x;                       /* 0: q is given */
    bo_value keys;                    /* 0: use states that have read a source */
    bo_value q;                       /* if x is 0 */
    bo_value positions;               /* for self-attention */
    const bo_attention_values *given; /* q, k and v of self-attention, after norm and RoPE; NULL: computed from x */
} bo_attend_inputs;
/* Records the outputs of the heads. */
bo_value bo_nn_attend_from(bo_graph *graph, const char *prefix, const bo_attend_inputs *from, const bo_branch *desc);

/* ε of norms of products of values of size 1, whose mean square is about 1. */
#define BO_NN_SOFT 1.0
#define BO_NN_E    2.71828182845904523536 /* the degree between 2 and 3 */

/* Degree e: u ∘ v ∘ (u² + v²)^((e - 2)/2) of two factors. It scales as t^e if both are multiplied by t, and keeps the
 * sign of the product. It is smooth except where u = v = 0, and twice continuously differentiable there; the
 * derivative of a third factor |w|^(e - 2) would be unbounded near 0. */
bo_value bo_nn_between(bo_graph *graph, const bo_value factors[2]);
/* Normalizes a product in groups of `width` columns, y / √(mean y² + 1), times `prefix`.weight. */
bo_value bo_nn_soft_norm(bo_graph *graph, const char *prefix, bo_value y, size_t width);

bo_value bo_nn_ssm_mixer(bo_graph *graph, const char *prefix, bo_value x, bo_value residual, bo_value positions,
                         const bo_branch *desc);
size_t bo_nn_ssm_mixer_bytes(const bo_branch *desc);

#endif
