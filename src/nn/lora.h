/* Low-rank adapters (LoRA, 2106.09685). A linear layer whose name matches computes with W = W0 + (α / r) (B A - B0 A0),
 * A r x in, B out x r. A and B are trained. All other weights are frozen, except for layers that are trained in full.
 * A0 and B0 are the initial A and B, so that the adapted model starts as W0 for any initial values. If B starts at
 * zero, A0 and B0 do not exist. */
#ifndef BO_NN_LORA_H
#define BO_NN_LORA_H

#include <bochner/kinds.h>
#include "../tape/graph.h"

/* Belongs to a set of weights (bo_weights_set_lora). Every graph over the set records the adapters. */
struct bo_lora {
    size_t rank;
    double alpha;
    /* last parts of layer names ("q_proj") or patterns with wildcards, comma-separated; "all": every hidden layer */
    char *targets;
    char *whole; /* layers that are trained in full, without adapters, in the same format; NULL: none */
    bo_lora_init init;
    bool any_rank; /* from a file: the rank may exceed the sides of a layer */
};

/* W0, A and B of one layer, and A0 and B0 (NULL: none), named P.weight, P.lora_A.weight, …, P.lora_A.first, … */
typedef struct bo_lora_site {
    const bo_weight *weight, *a, *b, *a0, *b0;
} bo_lora_site;
/* False: weight `index` of the set has no adapter. */
bool bo_lora_site_at(bo_weights *weights, size_t index, bo_lora_site *out);

/* Returns y with the adapter of layer `prefix` added, if it has one. `before`: scale of its weight, which has this
 * role. */
bo_value bo_nn_adapted(bo_graph *graph, const char *prefix, bo_weight_role role, double before, bo_value x, bo_value y);

/* Checks, after all weights are declared, that every target matches a layer, and that the rank does not exceed its
 * size. */
bo_status bo_lora_check(bo_context *context, bo_weights *weights);
/* True if the weight belongs to a layer that is trained in full. */
bool bo_lora_is_whole(const bo_weights *weights, const bo_weight *weight);
/* Freezes all weights except A and B and those of layers that are trained in full. */
void bo_lora_freeze(bo_weights *weights);
/* Sets the initial values of A and B. GRADIENT: from the gradients of `base`, a set of the same layers; otherwise base
 * may be NULL. */
bo_status bo_lora_begin(bo_context *context, bo_weights *weights, bo_weights *base, uint64_t seed);
/* Sets `plain`, a set of the same layers without adapters, to the weights that `adapted` computes with: unchanged
 * weights, and W0 + (α / r) (B A - B0 A0), summed over the rank in double in a fixed order and rounded once. */
bo_status bo_lora_merge(bo_context *context, bo_weights *adapted, bo_weights *plain);
/* Copies the weights of `from` to those of the same name. */
bo_status bo_lora_copy(bo_context *context, bo_weights *from, bo_weights *to);

#endif
