/* Internals of the model module: resolved descriptors, weights and attentions, graphs over them, files, and reading.
 *
 * describe.c     defaults and checks        model.c      creation             storage.c   storage in fewer bits
 * stack.c        a stack of layers          graph.c      embedding to loss    mlp.c       kinds of MLP
 * families.c     pretrained families        layouts.c    their tensors        reading.c, packing.c   weights in files
 * config.c       config.json                files.c      folders and files    adapt.c, adapter_*.c  LoRA
 * specials.c     special tokens             map_files.c  feature maps in files
 * folder.c       shards and companions      weights.c    digest, copies
 * session*.c     reading with a state       sampler.c    the next token       lanes.c     many sequences at once
 * classify.c     classification             translate.c  translation          evaluate.c  evaluation
 * capacity.c     attentions by length       compose.c    texts by a model     measure.c   cost of decoding
 * parametrize.c  the parametrization        probe.c      activations, norms   profile.c   operation times
 * capture.c      values inside attention    kept.c, replace.c   a second attention
 * whiten.c       M of DARK from text
 * teacher.c      a teacher in the graph     compare.c    comparison with it */
#ifndef BO_MODEL_INTERNAL_H
#define BO_MODEL_INTERNAL_H

#include "../nn/nn.h"
#include "model.h"

/* Checks the attention of a part and fills in its defaults, after sizes have been resolved. */
bo_status bo_model_resolve_attention(bo_context *context, const bo_model_desc *d, bo_model_part part,
                                     bo_attention_desc *a);
/* The default normalization of queries and keys, and of the outputs of the heads, for an attention. */
bo_choice bo_query_norm(const bo_attention_desc *a);
bo_choice bo_output_norm(const bo_attention_desc *a);
/* Copies the labels, or numbers the classes if there are none. *out is NULL if the task has no classes. */
bo_status bo_labels_copy(bo_context *context, const bo_model_desc *d, char ***out);
void bo_labels_free(char **labels, size_t classes); /* accepts NULL */

bo_model_part bo_model_part_of(const bo_model_desc *desc, size_t place);
/* True if the layers of the part have attention. */
bool bo_model_attends(const bo_model_desc *desc, bo_model_part part);
/* Returns the field of the descriptor with the attention of a part. */
const bo_attention_desc *bo_model_kind(const bo_model_desc *desc, bo_model_part part);
/* Likewise of a place: kept_attention for a layer that keeps it. */
const bo_attention_desc *bo_model_kind_at(const bo_model_desc *desc, size_t place);
/* True if a field of the descriptor is not zero. */
bool bo_model_is_given(const bo_attention_desc *desc);
/* True if the model has a second attention, kept_attention, even if no layer keeps it. */
bool bo_model_has_kept(const bo_model_desc *desc);
bool bo_model_keeps(const bo_model_desc *desc, size_t layer); /* True if the layer has kept_attention. */
/* Checks kept_layers and kept_attention (kept.c). */
bo_status bo_model_resolve_kept(bo_context *context, bo_model_desc *desc);
/* Returns the descriptor of the model with kept_attention in all layers, which shares the pointers of `desc`. It has
 * the weights of the model except those of `attention` alone. */
bo_model_desc bo_model_original(const bo_model_desc *desc);
/* Returns the attention of a place of a resolved descriptor, without its seed. */
bo_attention_desc bo_model_attention_at(const bo_model_desc *desc, size_t place);
bool bo_model_is_causal(const bo_model_desc *desc,
                        bo_model_part part); /* True if the attention of this part is causal. */
/* True if the encoder reads backward in layers 1, 3, …. It does if its mixer is causal, so that each token depends on
 * both sides. */
bool bo_model_alternates(const bo_model_desc *desc);
/* The biases that a model has: of q, k and v, of the output projection of attention, and of the MLP. */
typedef struct bo_model_biases {
    bool attention, output, mlp;
} bo_model_biases;
bo_model_biases bo_model_biases_of(const bo_model_desc *desc);
/* True if only some of the layers have the window of `attention`. */
bool bo_model_mixes_windows(const bo_model_desc *desc);
/* True if this layer has the window, if there is one. */
bool bo_model_has_window(const bo_model_desc *desc, size_t layer);
/* Refuses a model of another task. The message starts with `who` and states the task of the model. */
bo_status bo_model_require_language(bo_context *context, const bo_model *model, const char *who);

/* Creates the attentions of all places of a resolved descriptor, with the capacities for the stream and for the source
 * (0: that of the descriptor). An entry is NULL if the place has no attention. Freed by bo_attentions_destroy. */
bo_status bo_attentions_create(bo_context *context, const bo_model_desc *desc, size_t capacity, size_t source_capacity,
                               bo_attention ***out);
void bo_attentions_destroy(bo_attention **attentions, const bo_model_desc *desc); /* accepts NULL */
/* Returns the layer with this number (bo_model_place) and this attention (NULL: another mixer), without the tokens and
 * sequences, which depend on the graph. */
bo_mixer_layer bo_model_mixer(const bo_model_desc *desc, size_t number, const bo_attention *attention);
/* Likewise for the cross attention of layer `layer`. Queries, keys and outputs are normalized as its kind requires, for
 * every mixer. */
bo_attention_layer bo_model_cross_layer(const bo_model_desc *desc, size_t layer, const bo_attention *attention);
/* Returns the number of rows of a table of learned positions. */
size_t bo_model_positions(const bo_model_desc *desc);
/* Returns the maximum tokens per sequence that learned positions or matrices allow; 0: no limit. */
size_t bo_model_most_tokens(const bo_model_desc *desc);
/* Sets the rules of the parametrization for the model's weights, before any weight is declared. */
bo_status bo_model_parametrize(bo_context *context, bo_model *model);
/* Resolves the options of the MLP: hidden (at most `most`), degree_heads and mlp_features. */
bo_status bo_mlp_resolve(bo_context *context, size_t most, bo_model_desc *d);
/* Creates the feature maps of all places of a resolved descriptor and stores their defaults in it. *out is NULL if the
 * MLP has no feature maps. */
bo_status bo_mlp_maps_create(bo_context *context, bo_model_desc *desc, bo_features ***out);
void bo_mlp_maps_destroy(bo_features **maps, const bo_model_desc *desc); /* accepts NULL */
/* Refuses a storage that weights cannot have. */
bo_status bo_storage_check(bo_context *context, bo_storage storage, bo_element *out);
/* Allocates the weights of a model that has no memory yet, without values, with its matrices in this storage. */
bo_status bo_model_reserve(bo_context *context, bo_model *model, bo_storage storage);
/* Declares the weights of a model that has none yet, with these adapters or (NULL) without. */
bo_status bo_model_declare(bo_context *context, bo_model *model, const bo_lora *lora);
/* Adds adapters without values. any_rank: the rank may exceed the sides of a layer. The original weights are kept separately until the adapters are accepted (adapt.c). */
bo_status bo_model_put_adapters(bo_context *context, bo_model *model, const bo_lora_desc *desc, bool any_rank);
void bo_model_keep_adapters(bo_model *model);
void bo_adapter_destroy(bo_adapter *adapter); /* accepts NULL */
/* Fills model->activations (probe.c). */
bo_status bo_model_name_activations(bo_context *context, bo_model *model);
/* Writes graph->sides, if the graph has them. */
bo_status bo_graph_write_sides(bo_context *context, const bo_model_graph *graph, size_t examples);

#endif
