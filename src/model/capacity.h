/* Attentions for sequences of a given length. Layers that keep every key need a capacity. A model may also have other
 * layers. */
#ifndef BO_MODEL_CAPACITY_H
#define BO_MODEL_CAPACITY_H

#include "model.h"

/* The attentions of all places of a model. Attentions that keep every key have the requested capacity. The others are
 * shared with the model, including their frequencies. */
typedef struct bo_sized_attentions {
    bo_attention **owned; /* by place; NULL: the model's attention is used */
    bo_attention **all;   /* by place */
} bo_sized_attentions;

/* `source`: the capacity of cross attention and of the encoder. Destroy also after a failure. */
bo_status bo_sized_attentions_create(bo_context *context, const bo_model *model, size_t capacity, size_t source,
                                     bo_sized_attentions *out);
void bo_sized_attentions_destroy(bo_sized_attentions *attentions, const bo_model *model);

/* Returns the attention of the first layer that keeps every key. NULL: no layer does, and sequences may have any
 * length. */
const bo_attention *bo_model_cached_attention(const bo_model *model);

#endif
