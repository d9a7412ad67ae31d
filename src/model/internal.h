/* Internals of the model module: resolved descriptors, weights and attentions, graphs over them, files, and reading.
 *
 * describe.c, block.c   defaults and checks  model.c     creation             storage.c   storage in fewer bits
 * blocks.c       the blocks of layers       fingerprint.c  hash of a model
 * stack.c        a stack of layers          graph.c      embedding to loss    mlp.c       kinds of MLP
 * families.c     pretrained families        layouts.c    their tensors        reading.c, packing.c   weights in files
 * config.c       config.json                files.c      directories and files    adapt.c, adapter_*.c  LoRA
 * specials.c     special tokens             map_files.c  feature maps in files
 * directory.c       shards and companions      weights.c    digest, copies
 * lanes.c        sequences with states      lane_reader.c  reading tokens     lane_sources.c  sources of translations
 * lane_files.c   saved states               session.c    one lane             sampler.c   the next token
 * classify.c     classification             translate.c  translation          evaluate.c  evaluation
 * capacity.c     attentions by length       compose.c    texts by a model     measure.c   cost of decoding
 * parametrize.c  the parametrization        probe.c      activations, norms   profile.c   operation times
 * capture.c      values inside attention    linearized.c, replace.c   linearized models
 * whiten.c       M of DARK from text
 * teacher.c      a teacher in the graph     compare.c    comparison with it */
#ifndef BO_MODEL_INTERNAL_H
#define BO_MODEL_INTERNAL_H

#include "../nn/nn.h"
#include "model.h"

bo_status bo_model_check_size(bo_context *context, const char *name, size_t value, size_t max_value);
bo_status bo_model_check_real(bo_context *context, const char *name, double value);
/* True if the encoder reads backward in layers 1, 3, …. It does if its mixer is causal, so that each token depends on
 * both sides. */
bool bo_model_alternates(const bo_model_desc *desc);
/* Creates a model of a network. Takes ownership of the network, also after a failure. */
bo_status bo_model_of_network(bo_context *context, bo_network *network, bo_model **out);
/* Whether a description has blocks, or layers. */
bo_status bo_description_reads_text(bo_context *context, const char *text, const char *where, bool *out);
/* Refuse a model of another task. The message starts with `caller` and states the task of the model. */
bo_status bo_model_require_network(bo_context *context, const bo_model *model, const char *caller);
/* Every task but `predict`. */
bo_status bo_model_require_text(bo_context *context, const bo_model *model, const char *caller);
bo_status bo_model_require_language(bo_context *context, const bo_model *model, const char *caller);

/* Creates the attentions of all places of a resolved descriptor, with the capacities for the stream and for the source
 * (0: the capacity in the descriptor). An entry is NULL if the place has no attention. Freed by
 * bo_attentions_destroy. */
bo_status bo_attentions_create(bo_context *context, const bo_model_desc *desc, size_t capacity, size_t source_capacity,
                               bo_attention ***out);
void bo_attentions_destroy(bo_attention **attentions, const bo_model_desc *desc); /* accepts NULL */
/* Returns the branches of the place with this number (bo_model_place) and this attention (NULL: another mixer), without
 * the tokens and sequences, which depend on the graph. */
bo_branch bo_model_branch(const bo_model_desc *desc, size_t number, const bo_attention *attention);
/* Returns the block of layer `layer` for its cross attention: queries, keys and outputs are normalized as its kind
 * requires, for every mixer. */
bo_block bo_model_cross_block(const bo_model_desc *desc, size_t layer);
/* Returns the number of rows of a table of learned positions. */
size_t bo_model_positions(const bo_model_desc *desc);
/* Returns the maximum tokens per sequence that learned positions or matrices allow; 0: no limit. */
size_t bo_model_max_tokens(const bo_model_desc *desc);
/* Sets the rules of the parametrization for the model's weights, before any weight is declared. */
bo_status bo_model_parametrize(bo_context *context, bo_model *model);
/* Resolves the options of the MLP of a block: hidden (at most `max_hidden`), degree_heads and mlp_features. */
bo_status bo_mlp_resolve(bo_context *context, size_t max_hidden, const bo_model_desc *d, bo_block *b);
/* Creates the feature maps of all places of a resolved descriptor and stores their defaults in it. *out is NULL if the
 * MLP has no feature maps. */
bo_status bo_mlp_maps_create(bo_context *context, bo_model_desc *desc, bo_features ***out);
void bo_mlp_maps_destroy(bo_features **maps, const bo_model_desc *desc); /* accepts NULL */
/* Creates the lists of layers of all places; the entry of a place with another MLP is NULL. */
bo_status bo_mlp_layers_create(bo_context *context, const bo_model_desc *desc, bo_network ***out);
void bo_mlp_layers_destroy(bo_network **layers, const bo_model_desc *desc); /* accepts NULL */
/* Refuses a storage that weights cannot have. */
bo_status bo_storage_check(bo_context *context, bo_storage storage, bo_element *out);
/* Allocates the weights of a model that has no memory yet, without values, with its matrices in this storage. */
bo_status bo_model_reserve(bo_context *context, bo_model *model, bo_storage storage);
/* Declares the weights of a new model, with these adapters or (NULL) without. */
bo_status bo_model_declare(bo_context *context, bo_model *model, const bo_lora *lora);
/* Adds adapters without values. any_rank: the rank may exceed the sides of a layer. The original weights are kept
 * separately until the adapters are accepted (adapt.c). */
bo_status bo_model_attach_adapters(bo_context *context, bo_model *model, const bo_lora_desc *desc, bool any_rank);
void bo_model_keep_adapters(bo_model *model);
void bo_adapter_destroy(bo_adapter *adapter); /* accepts NULL */
/* Fills model->activations (probe.c). */
bo_status bo_model_name_activations(bo_context *context, bo_model *model);
/* Writes graph->sides, if the graph has them. */
bo_status bo_graph_write_sides(bo_context *context, const bo_model_graph *graph, size_t examples);

#endif
