/* What the library needs of a set of weights beyond <bochner/graph.h>: backends, parametrizations, adapters, fewer bits. */
#ifndef BO_TAPE_WEIGHTS_H
#define BO_TAPE_WEIGHTS_H

#include <bochner/graph.h>
#include "../backend/backend.h"

/* How first values and rates follow from shapes (docs/guides/parametrization.md), and what all layers of a set have in common. */
typedef struct bo_rules {
    bo_parametrization kind;
    bo_weights *base;      /* MUP: the same weights at the base width, declared; NULL: this is the base */
    size_t base_width;     /* UNIT: rates count as at this width; 0: 1 */
    size_t branches;       /* UNIT: additions to the residual stream of a graph; 0: not known */
    double gradient_scale; /* backward gives this multiple of all gradients, which optimizers undo; 0: 1 */
    bool float8;           /* linear layers see values rounded to E4M3 and gradients to E5M2 */
} bo_rules;

bo_status bo_weights_create_on(bo_context *context, const bo_backend *backend, bo_weights **out);
/* Before anything is declared. The base is taken over. */
void bo_weights_set_rules(bo_weights *weights, const bo_rules *rules);
const bo_rules *bo_weights_rules(const bo_weights *weights);
/* Adapters of linear layers (nn/lora.h), which must outlive the set; before anything is declared. NULL: none. */
typedef struct bo_lora bo_lora;
void bo_weights_set_lora(bo_weights *weights, const bo_lora *lora);
const bo_lora *bo_weights_lora(const bo_weights *weights);
/* Sets scale, in, out, rate and the deviation of a weight by the rules of its set. */
void bo_weight_parametrize(const bo_rules *rules, bo_weight *weight);
void bo_weights_set_frozen(bo_weights *weights, size_t index, bool frozen);
/* Floats from the first weight to the end of the last, gaps (zeros, and so are their gradients) included. */
size_t bo_weights_floats(const bo_weights *weights);
/* Keeps those marked in `which` (by index; with `element` BFLOAT16 or INT8) in fewer bits, for good, and gives their float32
 * back: for models that are only read. Graphs are recorded afterwards; there are no gradients. */
bo_status bo_weights_store(bo_context *context, bo_weights *weights, const bool *which, bo_element element);
const void *bo_weights_memory(const bo_weights *weights); /* the values as they are kept; NULL: none yet */
void *bo_weights_data(const bo_weights *weights);         /* of all; NULL: none yet, or they are stored */
void *bo_weights_gradients(const bo_weights *weights);    /* of all; NULL: none */
bo_status bo_weights_init_one(bo_context *context, bo_weights *weights, size_t index, uint64_t seed);
const bo_backend *bo_weights_backend(const bo_weights *weights);

#endif
