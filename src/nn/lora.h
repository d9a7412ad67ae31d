/* Low-rank adapters (LoRA, 2106.09685): a linear layer whose name fits gets W = W0 + (α / r) (B A - B0 A0), A r x in, B
 * out x r, of which A and B are trained; all else is frozen, but for layers that are to be trained themselves. A0 and B0 are what A and B began with, so that the adapted
 * model begins as W0 however they are chosen; where B begins at zero there are none. */
#ifndef BO_NN_LORA_H
#define BO_NN_LORA_H

#include <bochner/layers.h>
#include "../tape/graph.h"

/* Held by a set of weights (bo_weights_set_lora): every graph over it records the adapters. */
struct bo_lora {
    size_t rank;
    double alpha;
    /* last words of layers' names ("q_proj") or patterns with a star, comma-separated; "all": every hidden one */
    char *targets;
    char *whole; /* likewise: layers that are trained themselves, and have no adapters; NULL: none */
    bo_lora_init init;
};

/* W0, A and B of one layer, A0 and B0 (NULL: none), by the names P.weight, P.lora_A.weight, …, P.lora_A.first, … */
typedef struct bo_lora_site {
    const bo_weight *weight, *a, *b, *a0, *b0;
} bo_lora_site;
/* False: weight `index` of the set is none that has an adapter. */
bool bo_lora_site_at(bo_weights *weights, size_t index, bo_lora_site *out);

/* y with the adapter of layer `prefix` added, where it has one; `before`: what stands before its weight, which has this
 * role. */
bo_value bo_nn_adapted(bo_graph *graph, const char *prefix, bo_weight_role role, double before, bo_value x, bo_value y);

/* Of a set in which everything is declared: is there a layer for every target, and has it room for the rank? */
bo_status bo_lora_check(bo_context *context, bo_weights *weights);
/* Is this weight one of a layer that is trained itself? */
bool bo_lora_is_whole(const bo_weights *weights, const bo_weight *weight);
/* All but A and B, and layers that are trained themselves. */
void bo_lora_freeze(bo_weights *weights);
/* First values of A and B. GRADIENT: from the gradients of `base`, a set of the same layers; else it may be NULL. */
bo_status bo_lora_begin(bo_context *context, bo_weights *weights, bo_weights *base, uint64_t seed);
/* `plain`, of the same layers without adapters, becomes what `adapted` computes with: every weight as it is or, summed over
 * the rank in double in one order and rounded once, W0 + (α / r) (B A - B0 A0). */
bo_status bo_lora_merge(bo_context *context, bo_weights *adapted, bo_weights *plain);
/* Weights of the same name become those of `from`. */
bo_status bo_lora_copy(bo_context *context, bo_weights *from, bo_weights *to);

#endif
