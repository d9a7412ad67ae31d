/* A stack of layers as part of a graph: an embedding, then for each layer mixer and MLP, each after a norm and added to the
 * residual. Language models and classifiers have one, translators two: an encoder of the source and a decoder. */
#ifndef BO_MODEL_STACK_H
#define BO_MODEL_STACK_H

#include "internal.h"

typedef struct bo_stack bo_stack;
struct bo_stack {
    bo_graph *graph;
    const bo_model *model;
    const char *root; /* of the weights' names: "model" or "model.encoder" */
    size_t layers;
    bo_attention *const *attentions; /* one per layer; NULL each where the mixer is another */
    bo_features *const *mlp_maps;    /* one per layer; NULL: the MLP is another */
    size_t number;                   /* of the first layer: states, calibrations and dropout (bo_model_place) */
    size_t tokens, most_sequences;   /* see bo_model_graph_desc */
    bool source;                     /* rows are the source's (bo_graph_pass) */
    bo_value positions;              /* 0: the model has none */
    bo_value reversal; /* layers 1, 3, … read rows in this order (bo_packed_stream); 0: all as they lie */
    bo_value *watched; /* room for 1 + 2 layers values of the residual stream, which are kept; or NULL */
    /* What stands between mixer and MLP of a layer, added to x; NULL: nothing. `prefix`: of the layer's weights. */
    bo_value (*between)(const bo_stack *stack, size_t layer, const char *prefix, bo_value x, const void *user);
    const void *user;
};

/* A model's layers over the stream of a graph, whose inputs `tokens` and `positions` are made. */
bo_stack bo_stack_of(const bo_model *model, const bo_model_graph_desc *desc, bo_model_graph *out);
bool bo_stack_has_positions(const bo_model_desc *desc);
bo_value bo_stack_norm(const bo_stack *stack, const char *prefix, bo_value x);
/* The residual stream as it begins. */
bo_value bo_stack_embed(const bo_stack *stack, bo_value tokens);
/* … and as it ends, before the last norm; rows are where they were. */
bo_value bo_stack_record(const bo_stack *stack, bo_value x);

/* Cross entropy of inputs x, W and targets, into out->loss and losses; x Wᵀ into out->logits. */
void bo_stack_loss(const bo_stack *stack, const bo_value inputs[3], double scale, double smoothing,
                   bo_model_graph *out);
void bo_stack_logits(const bo_stack *stack, const bo_value inputs[2], double scale, bo_model_graph *out);

/* Streams of dropout behind those of all layers (bo_nn_dropout): of the source's embedding, and of what is pooled. */
#define BO_STACK_SOURCE_STREAM ((uint64_t)1 << 32)
#define BO_STACK_POOLED_STREAM (BO_STACK_SOURCE_STREAM + 1)

/* Deviation of a table that is an embedding and the output's matrix too, so that logits begin small. */
#define BO_STACK_TIED 0.02

#endif
