/* The model room: a descriptor made whole, weights and attentions, graphs over them, files, and what reads with them.
 *
 * describe.c  defaults and refusals      model.c    life, weights by name       graph.c     embedding to loss
 * config.c …  config.json                files.c    the folder                  maps.c      frequencies in files
 * session.c … reading with a state       sampler.c  the next token              evaluate.c  windows over a corpus
 * parametrize.c  the base model          probe.c    what it computes on the way */
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
/* The layer with this number (bo_model_place), of `attention` (NULL where the mixer is another), without what the graph knows:
 * tokens and sequences. */
bo_mixer_layer bo_model_mixer(const bo_model_desc *desc, size_t number, bo_attention *attention);
/* Rows of a table of learned positions. */
size_t bo_model_positions(const bo_model_desc *desc);
/* Most tokens of a sequence that positions or matrices were learned for; 0: any number. */
size_t bo_model_most_tokens(const bo_model_desc *desc);
/* Gives the model's weights, of which none is declared yet, the rules of its parametrisation. */
bo_status bo_model_parametrize(bo_context *context, bo_model *model);
/* What describe.c leaves to mlp.c: hidden (at most `most`), degree_heads and mlp_features. */
bo_status bo_mlp_resolve(bo_context *context, size_t most, bo_model_desc *d);
/* Maps of all layers, of a resolved descriptor, which gets what they filled in; *out NULL where the MLP has none. */
bo_status bo_mlp_maps_create(bo_context *context, bo_model_desc *desc, bo_features ***out);
void bo_mlp_maps_destroy(bo_features **maps, size_t layers); /* NULL is fine */
/* The length of the map is the caller's choice; else its function's. */
bool bo_map_has_free_length(const bo_features_desc *map);
/* The weights, which the model does not have yet, declared: with these adapters or (NULL) none. */
bo_status bo_model_declare(bo_context *context, bo_model *model, const bo_lora *lora);
/* Adapters without values; the weights as they were lie aside until the adapters are kept (adapt.c). */
bo_status bo_model_put_adapters(bo_context *context, bo_model *model, const bo_lora_desc *desc);
void bo_model_keep_adapters(bo_model *model);
void bo_model_drop_adapters(bo_model *model); /* of a merged model, or one without */
void bo_adapter_destroy(bo_adapter *adapter); /* NULL is fine */
/* Recorded into out->graph: a graph of each task. */
void bo_model_graph_language(const bo_model *model, const bo_model_graph_desc *desc, bo_model_graph *out);
/* A model of this descriptor whose weights are declared and have no memory yet. */
bo_status bo_model_build(bo_context *context, const bo_model_desc *desc, const bo_tokenizer *tokenizer, bo_model **out);

#endif
