/* Functions of weight sets that the library needs beyond <bochner/graph.h>: backends, parametrizations, adapters,
 * storage in fewer bits. */
#ifndef BO_TAPE_WEIGHTS_H
#define BO_TAPE_WEIGHTS_H

#include <bochner/graph.h>
#include "../backend/backend.h"

/* How initial values and learning rates follow from shapes (docs/guides/parametrization.md), and options shared by all
 * layers of a set. */
typedef struct bo_rules {
    bo_parametrization kind;
    bo_weights *base;      /* MUP: the same weights at the base width, declared; NULL: this set is the base */
    size_t base_width;     /* UNIT: width to which learning rates refer; 0: 1 */
    size_t branches;       /* UNIT: number of additions to the residual stream; 0: unknown */
    double gradient_scale; /* factor of all gradients after backward, which optimizers divide by; 0: 1 */
    bool float8;           /* linear layers round values to E4M3 and gradients to E5M2 */
} bo_rules;

/* Adds a weight, or finds the weight with the same name. *index (or NULL) is its number. BO_INVALID: a weight of this
 * name has another shape or role, or the weight is new and the set has memory. */
bo_status bo_weights_declare(bo_context *context, bo_weights *weights, const bo_weight_desc *desc, size_t *index);
/* Members of bo_weights_describe(); NULL past the end. */
static inline size_t bo_weights_count(const bo_weights *weights)
{
    return weights ? bo_weights_describe(weights)->count : 0;
}
static inline const bo_weight *bo_weights_at(const bo_weights *weights, size_t index)
{
    return index < bo_weights_count(weights) ? bo_weights_describe(weights)->weight[index] : NULL;
}

bo_status bo_weights_create_on(bo_context *context, bo_device *device, bo_weights **out);
/* Sets the rules, before any weight is declared. Takes ownership of the base. */
void bo_weights_set_rules(bo_weights *weights, const bo_rules *rules);
const bo_rules *bo_weights_rules(const bo_weights *weights);
/* Sets the adapters of linear layers (nn/lora.h), before any weight is declared. They must outlive the set. NULL:
 * none. */
typedef struct bo_lora bo_lora;
void bo_weights_set_lora(bo_weights *weights, const bo_lora *lora);
const bo_lora *bo_weights_lora(const bo_weights *weights);
/* Sets scale, in, out, rate and the initial standard deviation of a weight by the rules of its set. */
void bo_weight_parametrize(const bo_rules *rules, bo_weight *weight);
void bo_weights_set_frozen(bo_weights *weights, size_t index, bool frozen);
/* Returns the number of floats from the first weight to the end of the last. This includes gaps, which are zero, as are
 * their gradients. */
size_t bo_weights_floats(const bo_weights *weights);
/* Stores each weight as elements[i] (FLOAT32, BFLOAT16, INT8 or INT4) permanently and frees the float32 values. For
 * inference only: there are no gradients. Graphs must be recorded afterwards. */
bo_status bo_weights_store(bo_context *context, bo_weights *weights, const bo_element *elements);
/* Allocates weights without memory directly in these elements. The caller fills in the values, using `narrow` of the
 * backend for weights in fewer bits. */
bo_status bo_weights_reserve(bo_context *context, bo_weights *weights, const bo_element *elements);
const void *bo_weights_memory(const bo_weights *weights); /* values as they are stored; NULL: none yet */
/* values of all weights; NULL: none yet, or stored in fewer bits */
void *bo_weights_data(const bo_weights *weights);
/* The gradients of the weights that were trained when bo_weights_allocate was called, in the order of the weights. Each
 * call that found new trainable weights has added a block. */
typedef struct bo_gradients {
    void *data;
    size_t floats;
    struct bo_gradients *next; /* NULL: the last block */
} bo_gradients;
const bo_gradients *bo_weights_gradients(const bo_weights *weights); /* NULL: none */
size_t bo_weights_gradient_floats(const bo_weights *weights); /* floats for the weights that are not frozen now */
bo_status bo_weights_init_one(bo_context *context, bo_weights *weights, size_t index, uint64_t seed);
bo_device *bo_weights_device(const bo_weights *weights);

#endif
