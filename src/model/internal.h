/* The model room: a descriptor made whole, weights and attentions, graphs over them, files, and what reads with them.
 *
 * describe.c   defaults and refusals     model.c      life                     weights.c   out of files, in fewer bits
 * stack.c      layers in a row           graph.c      embedding to loss        mlp.c       kinds of MLP
 * config.c     config.json               files.c      the folder               adapt.c, adapter_files.c   LoRA
 * session.c    reading with a state      sampler.c    the next token           lanes.c     many timelines at once
 * classify.c   labels of texts           translate.c  translations             evaluate.c  windows over a corpus
 * parametrize.c  the base model          probe.c      what it computes on the way */
#ifndef BO_MODEL_INTERNAL_H
#define BO_MODEL_INTERNAL_H

#include "../nn/nn.h"
#include "model.h"

/* Attention of a part checked and filled in, where sizes are resolved. */
bo_status bo_model_resolve_attention(bo_context *context, const bo_model_desc *d, bo_model_part part,
                                     bo_attention_desc *a);
/* What q, k and the heads' outputs of such attention want where nobody chose. */
bo_choice bo_query_norm(const bo_attention_desc *a);
bo_choice bo_output_norm(const bo_attention_desc *a);
/* Copies of the labels, or numbers where there are none; *out NULL where the task has no classes. */
bo_status bo_labels_copy(bo_context *context, const bo_model_desc *d, char ***out);
void bo_labels_free(char **labels, size_t classes); /* NULL is fine */

bo_model_part bo_model_part_of(const bo_model_desc *desc, size_t place);
bool bo_model_attends(const bo_model_desc *desc, bo_model_part part); /* Its places have attentions. */
/* Of a resolved descriptor, but for its seed. */
bo_attention_desc bo_model_attention_of(const bo_model_desc *desc, bo_model_part part);
bool bo_model_is_causal(const bo_model_desc *desc,
                        bo_model_part part); /* Attention of this part sees the past alone. */
/* The encoder reads backwards in layers 1, 3, …: its mixer is causal, and it must see both sides. */
bool bo_model_alternates(const bo_model_desc *desc);
/* Refuses a model of another task in the name of `who`, and says what it is for. */
bo_status bo_model_require_language(bo_context *context, const bo_model *model, const char *who);

/* The attentions of all places, of a resolved descriptor; capacity of those that read the stream and the source, 0: its own.
 * NULL each where there is none. Freed by bo_attentions_destroy. */
bo_status bo_attentions_create(bo_context *context, const bo_model_desc *desc, size_t capacity, size_t source_capacity,
                               bo_attention ***out);
void bo_attentions_destroy(bo_attention **attentions, const bo_model_desc *desc); /* NULL is fine */
/* The layer with this number (bo_model_place), of `attention` (NULL where the mixer is another), without what the graph knows:
 * tokens and sequences. */
bo_mixer_layer bo_model_mixer(const bo_model_desc *desc, size_t number, const bo_attention *attention);
/* Cross attention of layer `layer`, likewise; q and k are normalized as its kind wants it, whatever the mixer. */
bo_attention_layer bo_model_cross_layer(const bo_model_desc *desc, size_t layer, const bo_attention *attention);
/* The memory of a layer: its bytes, the same as a multiple of 64, and made the memory of nothing. */
size_t bo_layer_state_bytes(const bo_model_desc *desc, size_t layer, const bo_attention *attention);
size_t bo_layer_state_room(const bo_model_desc *desc, size_t layer, const bo_attention *attention);
bo_status bo_layer_state_begin(bo_context *context, const bo_model_desc *desc, size_t layer,
                               const bo_attention *attention, void *state);
/* Rows of a table of learned positions. */
size_t bo_model_positions(const bo_model_desc *desc);
/* Most tokens of a sequence that positions or matrices were learned for; 0: any number. */
size_t bo_model_most_tokens(const bo_model_desc *desc);
/* Gives the model's weights, of which none is declared yet, the rules of its parametrization. */
bo_status bo_model_parametrize(bo_context *context, bo_model *model);
/* What describe.c leaves to mlp.c: hidden (at most `most`), degree_heads and mlp_features. */
bo_status bo_mlp_resolve(bo_context *context, size_t most, bo_model_desc *d);
/* Maps of all places, of a resolved descriptor, which gets what they filled in; *out NULL where the MLP has none. */
bo_status bo_mlp_maps_create(bo_context *context, bo_model_desc *desc, bo_features ***out);
void bo_mlp_maps_destroy(bo_features **maps, const bo_model_desc *desc); /* NULL is fine */
/* The weights, which the model does not have yet, declared: with these adapters or (NULL) none. */
bo_status bo_model_declare(bo_context *context, bo_model *model, const bo_lora *lora);
/* Adapters without values; the weights as they were lie aside until the adapters are kept (adapt.c). */
bo_status bo_model_put_adapters(bo_context *context, bo_model *model, const bo_lora_desc *desc);
void bo_model_keep_adapters(bo_model *model);
void bo_model_drop_adapters(bo_model *model); /* of a merged model, or one without */
void bo_adapter_destroy(bo_adapter *adapter); /* NULL is fine */
/* Fills model->activations (probe.c). */
bo_status bo_model_name_activations(bo_context *context, bo_model *model);
/* Into graph->sides, where it has them. */
bo_status bo_graph_write_sides(bo_context *context, const bo_model_graph *graph, size_t examples);

#endif
