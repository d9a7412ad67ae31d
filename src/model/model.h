/* A language model's inside: weights, one attention a layer, and graphs over them, for sessions and for training. */
#ifndef BO_MODEL_H
#define BO_MODEL_H

#include <bochner/lora.h>
#include "../nn/lora.h"
#include "../tape/graph.h"
#include "../text/packs.h"

/* What a model with adapters knows of them. */
typedef struct bo_adapter {
    bo_lora lora;
    char *base;        /* folder of the base; NULL: not known */
    uint64_t digest;   /* of the base's weights */
    float *whole;      /* layers that are trained themselves as the base has them, weight after weight; NULL: none */
    bo_weights *aside; /* with the adapters, where they are merged into the model's; NULL: the model's have them */
} bo_adapter;

/* Where layers are numbered through, as for attentions, states, calibrations and dropout: the layers, then (TRANSLATE) as many
 * cross attentions, one per layer, then the encoder's layers. */
typedef enum bo_model_part {
    BO_MODEL_PART_LAYERS = 0,
    BO_MODEL_PART_CROSS = 1,
    BO_MODEL_PART_ENCODER = 2,
    BO_MODEL_PART_END = 3
} bo_model_part;
static inline size_t bo_model_place(const bo_model_desc *d, bo_model_part part) /* the first number; END: of all */
{
    if (part == BO_MODEL_PART_LAYERS) return 0;
    if (part == BO_MODEL_PART_CROSS || d->task != BO_MODEL_TASK_TRANSLATE) return d->layers;
    return 2 * d->layers + (part == BO_MODEL_PART_END ? d->encoder_layers : 0);
}

typedef char bo_activation_name[48];

/* Invariants: `desc` has no zero left where zero meant a default, and makes the same model again; attentions[i] is that of
 * place i, with a seed of its own, or NULL where there is none; weights have memory. */
struct bo_model {
    bo_model_desc desc;
    char **labels; /* desc.labels are these; NULL: the task has none */
    char *custom;  /* desc.custom_mlp.name is this; NULL: the MLP is another */
    const bo_tokenizer *tokenizer;
    bo_tokenizer *owned; /* the same where bo_model_load made it, else NULL */
    bo_weights *weights;
    bo_attention **attentions;
    bo_adapter *adapter;             /* NULL: there are none */
    bo_features **mlp_maps;          /* of random features, by place likewise; NULL: the MLP is another */
    bo_activation_name *activations; /* bo_model_activations of them */
};

/* The descriptor checked and filled in, up to what bo_attention_create does; `attention` can be created from as it is, but
 * for its seed (bo_model_layer_seed). tokenizer may be NULL. */
bo_status bo_model_resolve(bo_context *context, const bo_model_desc *desc, const bo_tokenizer *tokenizer,
                           bo_model_desc *out);
/* A model of this descriptor whose weights are declared and have no memory yet. */
bo_status bo_model_build(bo_context *context, const bo_model_desc *desc, const bo_tokenizer *tokenizer, bo_model **out);

/* TRANSLATE: in training and scoring source and target are in one graph; decoding has two. CLASSIFY, MATCH: so do texts that
 * are read in pieces. */
typedef enum bo_model_half {
    BO_HALF_BOTH = 0,
    BO_HALF_SOURCE = 1, /* sources into the states of cross attention, or their summaries; texts into pooled vectors */
    BO_HALF_TARGET = 2, /* the decoder alone, which asks these; the labels of pooled vectors */
} bo_model_half;

/* A graph of the model over `rows` tokens with what to write into and read from it. */
typedef struct bo_model_graph_desc {
    size_t rows;                     /* tokens in all */
    size_t tokens;                   /* of a sequence where a pass gives no lengths; 0: rows */
    size_t most_sequences;           /* that a pass may give; 0: rows / tokens */
    bool loss;                       /* targets -> loss, losses */
    bool logits;                     /* of the rows written into `chosen` */
    size_t chosen;                   /* how many; 0: 1 */
    bool gradients, checkpoint;      /* see bo_graph_compile_desc; need loss */
    bo_value *stream;                /* room for 1 + 2 layers values of the residual stream, which are kept; or NULL */
    bool bfloat16;                   /* likewise */
    bo_attention *const *attentions; /* one per layer, of the same parameters; NULL: the model's */
    /* Of tasks with examples (packs.h): rows and most_sequences are of the pack's stream, these of the rest. */
    size_t examples;      /* CLASSIFY, MATCH: most labels; SOURCE: most texts */
    size_t source_rows;   /* TRANSLATE; … */
    size_t source_tokens; /* … of a source where a pass gives no lengths; 0: source_rows */
    bo_model_half half;   /* TRANSLATE; SOURCE: rows are the sources, and the pass has a sequence of one row for each */
    double smoothing;     /* of labels and targets in the loss */
} bo_model_graph_desc;

typedef struct bo_model_graph {
    bo_graph *graph;               /* planned, not yet allocated */
    bo_value tokens, targets;      /* int32, rows x 1; targets with a loss */
    bo_value positions;            /* int32, rows x 1; 0: the model has none */
    bo_value chosen;               /* int32; 0: there is nothing to choose, as with one row */
    bo_value loss, losses, logits; /* 0 where not asked for; CLASSIFY, MATCH: a row an example */
    /* Of tasks with examples, 0 where the model has no use for them; bo_model_graph_fill writes them. */
    bo_value reversal, source_tokens, source_positions, source_reversal; /* as in bo_text_pack */
    bo_value first,
        places; /* pooling: places[first[i]] … are the rows of text i; FIRST, LAST: places alone, a row a text */
    bo_value sources;  /* SUMMARY: for every row of the stream the last row of its source */
    bo_value sides[2]; /* MATCH: 0, 2, 4, … and 1, 3, 5, …: which of the pooled vectors are of which side */
    /* SUMMARY, rows x width: SOURCE leaves, TARGET takes the encoder's output in these rows; likewise of CLASSIFY
     * and MATCH the pooled vectors, a row a text */
    bo_value summary;
    bo_value queries; /* SOURCE without SUMMARY: floats of the stream, to be zeros */
} bo_model_graph;

/* Writes a pack into the inputs of a graph made for its sizes, and its sequences into the pass. */
bo_status bo_model_graph_fill(bo_context *context, const bo_model *model, const bo_model_graph *graph,
                              const bo_text_pack *packed, bo_graph_pass *pass);

bo_status bo_model_graph_create(bo_context *context, const bo_model *model, const bo_model_graph_desc *desc,
                                bo_model_graph *out);
void bo_model_graph_destroy(bo_model_graph *graph);

/* What bo_model_save writes, under names of files of the folder; training writes the same into checkpoints. */
bo_status bo_model_write(bo_context *context, const bo_model *model, const char *folder);
/* Overwrites weights (and frequencies that were drawn from data) with those of a folder written for the same desc. */
bo_status bo_model_read(bo_context *context, bo_model *model, const char *folder);
/* Of shapes, attention and tokenizer: what a saved state or checkpoint must fit. */
uint64_t bo_model_fingerprint(const bo_model *model);
/* Of the numbers in all weights, the same for any number of threads; reads them all. */
bo_status bo_model_digest(bo_context *context, const bo_model *model, uint64_t *out);

#endif
