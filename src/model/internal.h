/* The model room: a descriptor made whole, weights and attentions, graphs over them, files, and what reads with them.
 *
 * describe.c  defaults and refusals      model.c    life, weights by name       graph.c     embedding to loss
 * config.c …  config.json                files.c    the folder                  maps.c      frequencies in files
 * session.c … reading with a state       sampler.c  the next token              evaluate.c  windows over a corpus */
#ifndef BO_MODEL_INTERNAL_H
#define BO_MODEL_INTERNAL_H

#include "../nn/nn.h"
#include "model.h"

/* The descriptor checked and filled in, up to what bo_attention_create does; `attention` can be created from as it is, but
 * for its seed (bo_model_layer_seed). tokenizer may be NULL. */
bo_status bo_model_resolve(bo_context *context, const bo_model_desc *desc, const bo_tokenizer *tokenizer,
                           bo_model_desc *out);
/* The attentions of all layers, of a resolved descriptor; `capacity` 0: its own. NULL each where the mixer is another. Freed
 * by bo_attentions_destroy. */
bo_status bo_attentions_create(bo_context *context, const bo_model_desc *desc, size_t capacity, bo_attention ***out);
void bo_attentions_destroy(bo_attention **attentions, size_t layers); /* NULL is fine */
/* Layer `layer` of `attention` (NULL where the mixer is another), without what the graph knows: tokens and sequences. */
bo_mixer_layer bo_model_mixer(const bo_model_desc *desc, size_t layer, bo_attention *attention);
/* Most tokens of a sequence that positions or matrices were learned for; 0: any number. */
size_t bo_model_most_tokens(const bo_model_desc *desc);
/* A model of this descriptor whose weights are declared and have no memory yet. */
bo_status bo_model_build(bo_context *context, const bo_model_desc *desc, const bo_tokenizer *tokenizer, bo_model **out);

#endif
