/* Attentions for sequences of a given length: layers that keep every key need a capacity, the others do not. Layers of
 * a model may differ in this. */
#ifndef BO_MODEL_CAPACITY_H
#define BO_MODEL_CAPACITY_H

#include "model.h"

/* The attentions of all places of a model. Those that keep every key have the requested capacity; the others are those
 * of the model, with their frequencies. */
typedef struct bo_sized_attentions {
    bo_attention **owned; /* by place; NULL: that of the model is used */
    bo_attention **all;   /* by place */
} bo_sized_attentions;

/* `source`: the capacity of cross attention and of the encoder. Destroy also after a failure. */
bo_status bo_sized_attentions_create(bo_context *context, const bo_model *model, size_t capacity, size_t source,
                                     bo_sized_attentions *out);
void bo_sized_attentions_destroy(bo_sized_attentions *attentions, const bo_model *model);

/* Returns the attention of the first layer that keeps every key; NULL: none does, and sequences may be of any
 * length. */
const bo_attention *bo_model_cached_attention(const bo_model *model);

#endif
