/* Internals of a model: weights, one attention per layer, and graphs over them, for sessions and for training. */
#ifndef BO_MODEL_H
#define BO_MODEL_H

#include <bochner/lora.h>
#include "../nn/lora.h"
#include "../tape/graph.h"
#include "../text/packs.h"
#include "blocks.h"
#include "network/network.h"
#include "specials.h"

/* Data of a model with adapters. */
typedef struct bo_adapter {
    bo_lora lora;
    char *base;      /* directory of the base; NULL: unknown */
    uint64_t digest; /* digest of the base's weights */
    float *whole;    /* original values of the layers that are trained in full, weight after weight; NULL: none */
    /* weights with the adapters, if these are merged into the model's weights; NULL: the model's weights have the
     * adapters */
    bo_weights *aside;
} bo_adapter;

/* The format of a model directory: names and layout of its members and weights (families.h). */
typedef enum bo_family {
    BO_FAMILY_BOCHNER = 0,
    BO_FAMILY_LLAMA,
    BO_FAMILY_MISTRAL,
    BO_FAMILY_QWEN2,
    BO_FAMILY_QWEN3,
    BO_FAMILY_GEMMA,
    BO_FAMILY_GEMMA3,
    BO_FAMILY_GPT2,
    BO_FAMILY_GPT_NEOX,
    BO_FAMILY_PHI,
    BO_FAMILY_PHI3,
    BO_FAMILY_STARCODER2,
    BO_FAMILY_STABLELM,
    BO_FAMILY_GRANITE,
    BO_FAMILY_OLMO2,
    BO_FAMILY_GPTJ,
    BO_FAMILY_SMOLLM3,
    BO_FAMILY_COUNT
} bo_family;

typedef char bo_activation_name[48];

/* Invariants: `desc` is owned, has all defaults filled in, and creates the same model again; attentions[i] is the
 * attention of place i, with a separate seed, or NULL; weights have memory. A model of the task `predict` has a
 * network, and no layers in `desc`. */
struct bo_model {
    bo_model_desc desc;
    bo_family family; /* family of the directory that the model was loaded from; preferred when it is saved */
    const bo_tokenizer *tokenizer;
    bo_tokenizer *owned; /* the tokenizer if bo_model_load created it, else NULL */
    bo_weights *weights;
    bo_attention **attentions;
    bo_adapter *adapter;             /* NULL: no adapters */
    bo_network *network;             /* PREDICT: owns the weights; NULL: another task */
    bo_features **mlp_maps;          /* maps of random features, by place; NULL: no MLP has one */
    bo_network **mlp_layers;         /* lists of layers in the place of MLPs, by place; NULL entries: another MLP */
    bo_activation_name *activations; /* bo_model_activations() entries */
    bo_specials specials;            /* special tokens, and the files that name them */
    bo_model_info info;              /* facts about the members above (bo_model_refresh) */
};

/* Recomputes the facts after weights, their storage or special tokens have changed. */
void bo_model_refresh(bo_model *model);
/* Members of the info. */
bo_storage bo_model_storage(const bo_model *model);
uint64_t bo_model_frozen_parameters(const bo_model *model);
size_t bo_model_state_bytes(const bo_model *model);

/* Checks the descriptor and fills in all defaults except those that bo_attention_create fills in. `attention` can be
 * passed to it except for the seed (bo_model_layer_seed). tokenizer may be NULL. *out owns its lists
 * (bo_model_desc_release). */
bo_status bo_model_resolve(bo_context *context, const bo_model_desc *desc, const bo_tokenizer *tokenizer,
                           bo_model_desc *out);
/* Builds a model of this descriptor whose weights are declared but have no memory yet. */
bo_status bo_model_build(bo_context *context, const bo_model_desc *desc, const bo_tokenizer *tokenizer, bo_model **out);

/* TRANSLATE: training and scoring use one graph for source and target; decoding uses two. CLASSIFY, MATCH: texts that
 * are read in pieces use two. */
typedef enum bo_model_half {
    BO_HALF_BOTH = 0,
    BO_HALF_SOURCE = 1, /* sources into the states of cross attention, or into summaries; texts into pooled vectors */
    BO_HALF_TARGET = 2, /* the decoder alone, with the sources read before; logits from pooled vectors */
} bo_model_half;

/* Description of a graph of the model over `rows` tokens, with its inputs and outputs. */
struct bo_model_graph_desc {
    size_t rows;                     /* number of tokens */
    size_t tokens;                   /* tokens per sequence if the pass has no lengths; 0: rows */
    size_t max_sequences;            /* maximum sequences per pass; 0: rows / tokens */
    bool loss;                       /* inputs targets, outputs loss and (not PREDICT) losses */
    bool declares;                   /* declares the weights; the graph cannot be run */
    bool outputs;                    /* outputs the logits of the rows in `chosen`; PREDICT: those of the network */
    size_t chosen;                   /* number of chosen rows; 0: 1 */
    bool hidden;                     /* LANGUAGE: outputs the last hidden state of every row */
    bool gradients, checkpoint;      /* see bo_graph_compile_desc; require loss */
    bo_value *stream;                /* array for 1 + 2 layers values of the residual stream, which are kept; or NULL */
    bo_attention_values *values;     /* array for the values inside attention, one per layer, which are kept; or NULL */
    bool bfloat16;                   /* see bo_graph_compile_desc */
    bo_attention *const *attentions; /* one per layer, with the same parameters; NULL: the model's attentions */
    /* For tasks with examples (packs.h): rows and max_sequences refer to the stream of the pack, the following to the
     * rest. */
    size_t examples; /* CLASSIFY, MATCH: maximum labels; SOURCE: maximum texts; PREDICT: examples per run, or nodes */
    size_t source_rows;   /* TRANSLATE: rows of the source */
    size_t source_tokens; /* TRANSLATE: tokens per source if the pass has no lengths; 0: source_rows */
    /* TRANSLATE; SOURCE: the rows of the sources; the pass has one sequence of one row per source */
    bo_model_half half;
    double smoothing; /* label smoothing of labels and targets */
    /* linearized models: the part that the loss compares with the teacher (teacher.h); requires loss */
    bo_imitation imitate;
    double share;  /* LOGITS: share of the teacher's distribution in the loss; the targets have the rest */
    size_t scored; /* LOGITS: number of rows in `chosen` whose loss is computed; 0: all rows */
    /* PREDICT, which has examples instead of rows: */
    const bo_examples *data; /* nodes and edges of a graph. NULL: one node */
    bool before;             /* the outputs are the inputs of the last layer */
    bool hide;               /* apply the masked layer outside training too, with a fixed mask: for evaluation */
    bool drawn;              /* the input is a weight, "input", with a gradient: for timing */
};

typedef struct bo_teacher bo_teacher;

struct bo_model_graph {
    bo_graph *graph;                /* planned, not yet allocated */
    bo_teacher *teacher;            /* NULL: no imitation */
    bo_value taught;                /* LOGITS: the teacher's residual stream before the final norm */
    bo_value tokens, targets;       /* int32, rows x 1; targets with a loss; PREDICT: only targets, of its loss */
    bo_value positions;             /* int32, rows x 1; 0: the model has none */
    bo_value chosen;                /* int32: the rows with outputs or a loss; 0: all of them */
    bo_value loss, losses, outputs; /* 0: not requested; CLASSIFY, MATCH, PREDICT: one row per example */
    bo_value hidden;                /* rows x width, after the final norm; 0: not requested */
    /* Inputs for tasks with examples, 0 if the model does not use them; bo_model_graph_fill writes them. */
    bo_value reversal, source_tokens, source_positions, source_reversal; /* as in bo_text_pack */
    bo_value first,
        places; /* pooling: places[first[i]] … are the rows of text i; FIRST, LAST: only places, one row per text */
    bo_value sources;  /* SUMMARY: for every row of the stream, the last row of its source */
    bo_value sides[2]; /* MATCH: 0, 2, 4, … and 1, 3, 5, …: the pooled vectors of each side */
    /* SUMMARY, rows x width: the output of the encoder in these rows, an output of SOURCE and an input of TARGET;
     * CLASSIFY, MATCH: likewise the pooled vectors, one row per text */
    bo_value summary;
    bo_value queries;          /* SOURCE without SUMMARY: floats of the stream, to be set to zero */
    bo_network_inputs network; /* PREDICT */
};

bo_status bo_model_graph_create(bo_context *context, const bo_model *model, const bo_model_graph_desc *desc,
                                bo_model_graph *out);
void bo_model_graph_destroy(bo_model_graph *graph);

/* The data of a run: a pack, or (PREDICT) rows of examples. Their number is that of the graph. */
typedef struct bo_model_batch {
    const bo_text_pack *packed;
    const bo_examples *examples;
    const size_t *rows;
} bo_model_batch;
/* Writes a batch into the inputs of a graph of its size, and its sequences into the pass. A pack without sequences
 * leaves the sequences of the pass unchanged. */
bo_status bo_model_graph_fill(bo_context *context, const bo_model *model, bo_model_graph *graph,
                              const bo_model_batch *batch, bo_graph_pass *pass);
/* Likewise, then runs the graph and reads a value. */
bo_status bo_model_graph_compute(bo_context *context, const bo_model *model, bo_model_graph *graph,
                                 const bo_model_batch *batch, bo_value value, float *out);

/* Writes the files of bo_model_save into a directory. Training writes the same files into checkpoints. */
bo_status bo_model_write(bo_context *context, const bo_model *model, const char *directory);
/* Overwrites weights (and data-dependent frequencies) with the contents of a directory that was written for the same
 * descriptor. */
bo_status bo_model_read(bo_context *context, bo_model *model, const char *directory);
/* Return the size of a layer's state in bytes, and its stride: the size rounded up to a multiple of 64. */
size_t bo_layer_state_bytes(const bo_model_desc *desc, size_t layer, const bo_attention *attention);
size_t bo_layer_state_stride(const bo_model_desc *desc, size_t layer, const bo_attention *attention);
/* States are in the memory of the model's backend and have the same bytes on every backend. Allocated memory is filled
 * with zeros. On the CPU, pages are committed when they are first written (bo_alloc_sparse), and `zero` of the whole
 * memory releases them. */
void *bo_layer_states_allocate(bo_context *context, const bo_model *model, size_t count, size_t bytes,
                               const char *what);
bo_status bo_layer_states_zero(bo_context *context, const bo_model *model, void *memory, size_t bytes);
void bo_layer_states_release(const bo_model *model, void *memory);
/* Initialize an empty state: of a layer (attention NULL: its mixer is not attention), or of an attention. */
bo_status bo_layer_state_begin(bo_context *context, const bo_model *model, size_t layer, const bo_attention *attention,
                               void *state);
bo_status bo_attention_state_begin(bo_context *context, const bo_model *model, const bo_attention *attention,
                                   void *state);
/* Likewise for a layer's state in zeroed memory. */
bo_status bo_layer_state_start(bo_context *context, const bo_model *model, const bo_attention *attention, void *state);
/* Checks that bo_model_adapt would accept these adapters. The model is unchanged. */
bo_status bo_model_try_adapters(bo_context *context, bo_model *model, const bo_lora_desc *desc);
/* Removes the adapter data of a merged model. The merged weights are kept. No effect without adapters. */
void bo_model_drop_adapters(bo_model *model);
/* Freezes the weights that a linearized model shares with its original. */
bo_status bo_model_freeze_original(bo_context *context, bo_model *model);
/* Fails if one of those weights is trained. */
bo_status bo_model_check_fixed(bo_context *context, const bo_model *model);
/* Returns a hash of shapes, attention and tokenizer, to check that a saved state or checkpoint fits the model. */
uint64_t bo_model_fingerprint(const bo_model *model);
/* Computes a hash of the values of all weights. It does not depend on the number of threads. It reads all weights. */
bo_status bo_model_digest(bo_context *context, const bo_model *model, uint64_t *out);

/* Undoes bo_model_merge. No session of the model may exist. BO_INVALID: the model has no merged adapters. */
bo_status bo_model_unmerge(bo_context *context, bo_model *model);

/* ---- activations and norms of weights ---------------------------------------------------------------------------- */

/* Returns the number of places where bo_model_probe measures activations (bo_model_activation). */
size_t bo_model_activations(const bo_model *model);
/* Runs one sequence of 1 to `context` tokens of a language model. sizes: one number per place, the mean absolute value
 * over tokens and columns; for a layer, of its contribution to the residual stream. */
bo_status bo_model_probe(bo_context *context, const bo_model *model, const int32_t *tokens, size_t count,
                         double *sizes);
/* Computes the spectral norm |s (W - minus)|₂ with a relative error of 0.1%. W is the weight as a matrix whose columns
 * are its last extent, s its factor in the parametrization. minus: a matrix of the same shape; NULL: none. */
bo_status bo_model_spectral_norm(bo_context *context, const bo_model *model, const char *name, const float *minus,
                                 double *out);

/* ---- linearized models ------------------------------------------------------------------------------------------- */

/* Measures the error of attention relative to its teacher on a corpus of at least one window (BO_IMITATION_ATTENTION).
 * context_tokens: tokens per window; 0: the context of the model. max_tokens: maximum number of tokens, at least one
 * window is used; 0: all. errors: per layer, the relative squared error of the attention output that is added to the
 * residual stream; NAN: the layer is not linearized. */
bo_status bo_model_imitation(bo_context *context, const bo_model *model, const bo_corpus *corpus, size_t context_tokens,
                             uint64_t max_tokens, double *errors);

#endif
