/* What the layers share: parameters, and which numbers of dropout belong to whom. */
#ifndef BO_NN_INTERNAL_H
#define BO_NN_INTERNAL_H

#include "nn.h"

/* At unit scale the factor that keeps numbers of size 1 so, 1/√in, stands in front of the weight instead of in it; of the
 * head 1/in (2407.17465, Table 2). */
void bo_nn_take_scale_out(bo_weight_desc *w, size_t in);
/* Fails the graph where the reserved words of a layer are not zero: true if they are. */
bool bo_nn_reserved(bo_graph *graph, const char *prefix, const char *name, const uint64_t reserved[4]);
/* What keeps f(x) of size 1 for x ~ N(0, 1) at unit scale, 1 / √E f(x)²; else 1. */
double bo_nn_unit_factor(const bo_graph *graph, bo_unary function);
/* bo_nn_attention in two parts: the heads' outputs, and what follows: their norm and the projection added to `residual`. */
bo_value bo_nn_attend(bo_graph *graph, const char *prefix, bo_value x, bo_value positions,
                      const bo_attention_layer *desc);
bo_value bo_nn_attended(bo_graph *graph, const char *prefix, bo_value out, bo_value residual,
                        const bo_attention_layer *desc);

/* Who asks whom: q is made of x, k and v of `keys`. Both the same: self attention. */
typedef struct bo_asking {
    bo_value x;         /* 0: q is given as it is */
    bo_value keys;      /* 0: states that have read a source are asked */
    bo_value q;         /* where x is 0 */
    bo_value positions; /* of self attention */
} bo_asking;
/* The heads' outputs. */
bo_value bo_nn_ask(bo_graph *graph, const char *prefix, const bo_asking *asking, const bo_attention_layer *desc);

/* ε of norms of products of numbers of size 1, whose mean square is about 1. */
#define BO_NN_SOFT 1.0
#define BO_NN_E    2.71828182845904523536 /* the degree between 2 and 3 */

bo_value bo_nn_ssm_mixer(bo_graph *graph, const char *prefix, bo_value x, bo_value residual, bo_value positions,
                         const bo_mixer_layer *desc);
size_t bo_nn_ssm_mixer_bytes(const bo_mixer_layer *desc);

#endif
