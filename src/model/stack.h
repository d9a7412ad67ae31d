/* A stack of layers as part of a graph: an embedding, then mixer and MLP for each layer, each after a norm and added to
 * the residual stream. Language models and classifiers have one stack, translators two: an encoder of the source and a
 * decoder. */
#ifndef BO_MODEL_STACK_H
#define BO_MODEL_STACK_H

#include "internal.h"

typedef struct bo_stack bo_stack;
struct bo_stack {
    bo_graph *graph;
    const bo_model_desc
        *desc;        /* resolved: the descriptor of the model whose weights the graph uses, or of its teacher */
    const char *root; /* prefix of the weights' names: "model" or "model.encoder" */
    size_t layers;
    bo_attention *const *attentions; /* one per layer; NULL entries: another mixer */
    bo_features *const *mlp_maps;    /* one per layer; NULL and NULL entries: another MLP */
    bo_network *const *mlp_layers;   /* likewise */
    /* place of the first layer, for states, calibrations and dropout (bo_model_place) */
    size_t number;
    size_t stream;                /* added to the place for dropout, if the stack is a layer of a network */
    bool within;                  /* part of a segment of its graph */
    size_t tokens, max_sequences; /* see bo_model_graph_desc */
    bool source;                  /* the rows of the source (bo_graph_pass) */
    bo_value positions;           /* 0: the model has none */
    bo_value reversal;            /* order of rows for layers 1, 3, … (bo_packed_stream); 0: no layer is reversed */
    bo_value *watched;            /* array for 1 + 2 layers values of the residual stream, which are kept; or NULL */
    bo_attention_values *values;  /* one per layer, filled in and kept; or NULL */
    /* Called after the mixer of a layer with its input `normed` and its values; NULL: nothing to do. `prefix`: the
     * prefix of the mixer's weights. */
    void (*observe)(const bo_stack *stack, size_t layer, const char *prefix, bo_value normed,
                    const bo_attention_values *values, void *observer);
    void *observer;
    /* Records a term that is added to x between mixer and MLP of a layer; NULL: none. `prefix`: the prefix of the
     * layer's weights. */
    bo_value (*between)(const bo_stack *stack, size_t layer, const char *prefix, bo_value x, const void *user);
    const void *user;
};

/* Returns the stack of a model's layers over the stream of a graph, and creates its inputs `tokens` and `positions`. */
bo_stack bo_stack_of(const bo_model *model, const bo_model_graph_desc *desc, bo_model_graph *out);
bool bo_stack_has_positions(const bo_model_desc *desc);
const bo_block *bo_stack_block(const bo_stack *stack, size_t layer);
/* Records a norm of a layer, and the norm after the last layer. */
bo_value bo_stack_norm(const bo_stack *stack, size_t layer, const char *prefix, bo_value x);
bo_value bo_stack_last_norm(const bo_stack *stack, const char *prefix, bo_value x);
/* Records the residual stream before the first layer. */
bo_value bo_stack_embed(const bo_stack *stack, bo_value tokens);
/* Records the layers. Returns the residual stream before the final norm, with its rows in the original order. */
bo_value bo_stack_record(const bo_stack *stack, bo_value x);

/* Logits: scale x Wᵀ + b. */
typedef struct bo_stack_head {
    bo_value x, matrix, bias; /* bias 0: none */
    double scale;
    bo_value taught; /* x of a teacher with the same matrix and bias; 0: none */
    double share;    /* of the teacher's distribution in the loss */
} bo_stack_head;
/* Records their cross entropy into out->loss and out->losses, and the logits themselves into out->outputs. */
void bo_stack_loss(const bo_stack *stack, const bo_stack_head *head, bo_value targets, double smoothing,
                   bo_model_graph *out);
void bo_stack_logits(const bo_stack *stack, const bo_stack_head *head, bo_model_graph *out);

/* Dropout streams after those of all layers (bo_nn_dropout): for the embedding of the source, and for pooled
 * vectors. */
#define BO_STACK_SOURCE_STREAM ((uint64_t)1 << 32)
#define BO_STACK_POOLED_STREAM (BO_STACK_SOURCE_STREAM + 1)

/* Standard deviation of a table that is both embedding and output matrix, so that initial logits are small. */
#define BO_STACK_TIED 0.02

#endif
