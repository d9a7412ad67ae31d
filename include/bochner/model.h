/* Bochner: models of text. A transformer with any attention of attention.h, stored as Hugging Face stores models: a folder
 * with config.json, model.safetensors and tokenizer.json. Language models are here; those that label or translate texts are
 * described here too and used through tasks.h.
 *
 *     bo_model *model;
 *     bo_model_load(context, "shakespeare", &model);
 *     bo_session *session;
 *     bo_session_create(context, model, NULL, &session);
 *     bo_session_feed(context, session, ids, count, logits);           // logits of the last token
 *     int32_t next = bo_sampler_next(&sampler, logits, vocab);
 *
 * A model is immutable and may be shared by threads that each bring a context and sessions of their own (training changes
 * it: train.h). A session is one timeline whose state has a size that is known beforehand: for attention with features
 * it does not grow with what was read. */
#ifndef BOCHNER_MODEL_H
#define BOCHNER_MODEL_H

#include <bochner/attention.h>
#include <bochner/layers.h>
#include <bochner/nn.h>
#include <bochner/profile.h>
#include <bochner/text.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum bo_choice { BO_CHOICE_AUTO = 0, BO_CHOICE_NO = 1, BO_CHOICE_YES = 2 } bo_choice;

typedef enum bo_model_task {
    BO_MODEL_TASK_LANGUAGE = 0,  /* the next token of a text */
    BO_MODEL_TASK_CLASSIFY = 1,  /* a label of a text */
    BO_MODEL_TASK_MATCH = 2,     /* a label of two texts, which one encoder reads */
    BO_MODEL_TASK_TRANSLATE = 3, /* a text from a text: an encoder and a decoder */
} bo_model_task;
/* How the tokens of a text become one vector. */
typedef enum bo_pooling {
    BO_POOLING_MEAN = 0,
    BO_POOLING_MAX = 1,
    BO_POOLING_FIRST = 2,
    BO_POOLING_LAST = 3
} bo_pooling;
/* What a decoder sees of its source. */
typedef enum bo_cross {
    BO_CROSS_ATTENTION = 0, /* every token, through attention in every layer */
    BO_CROSS_SUMMARY = 1,   /* the encoder's last output alone, added to what every token of the target begins with: the
                             * bottleneck of 1406.1078 */
} bo_cross;
/* "language", "classify", "match", "translate"; NULL: no such task. */
BO_API const char *bo_model_task_name(bo_model_task task);
BO_API const char *bo_pooling_name(bo_pooling pooling); /* "mean", "max", "first", "last" */
BO_API const char *bo_cross_name(bo_cross cross);       /* "attention", "summary" */
BO_API bool bo_model_task_parse(const char *name, bo_model_task *out);
BO_API bool bo_pooling_parse(const char *name, bo_pooling *out);
BO_API bool bo_cross_parse(const char *name, bo_cross *out);

/* ---- advanced: a layer of one's own within a model ------------------------------------------------------------------- */

/* Where a layer is recorded. Library-owned, valid during the call. */
typedef struct bo_custom_place {
    void *user;                        /* the layer's */
    const char *prefix;                /* of the names of its weights: "model.layers.3.mlp" */
    size_t layer;                      /* 0, 1, … */
    bo_value x;                        /* rows x width: the residual stream, normalized */
    bo_value residual;                 /* rows x width: the residual stream itself */
    uint64_t stream;                   /* of a dropout of its own */
    const struct bo_model_desc *model; /* with defaults filled in: width, hidden, bias, dropout, … */
} bo_custom_place;

/* A layer between the mixers. `record` records it on the graph by graph.h and nn.h, each row of x by itself, with weights whose
 * names begin with the prefix, and returns the new residual stream: bo_nn_output(graph, "….down", hidden, place->residual, …)
 * adds to it. It is called once per layer and graph, with other numbers of rows each time, and at another width where the
 * parametrization compares with a base model; it must record the same layer each time. Threads that share the model may call
 * it at once. Errors: `return bo_graph_fail(graph, "…")`. */
typedef struct bo_custom_layer {
    const char *name; /* in config.json; names the layer to bo_model_load_custom. The model keeps a copy */
    bo_value (*record)(bo_graph *graph, const bo_custom_place *place);
    void *user;           /* must outlive the model */
    uint64_t reserved[4]; /* zero */
} bo_custom_layer;

/* Zero means the default, except layers, width, heads and context. */
typedef struct bo_model_desc {
    size_t layers, width, heads;
    size_t key_heads; /* 0: heads */
    size_t head_dim;  /* 0: width / heads */
    size_t hidden;  /* of the MLP; 0: 4 width; SwiGLU and DEGREE_2 8/3, DEGREE_3 and _E 2, DEGREE_4 8/5 width, QUADRATIC
                       * √(8 width): as many weights */
    size_t context; /* tokens of a training window; the range of learned positions */
    size_t vocab;   /* 0: the tokenizer's */
    /* As its preset says (bo_attention_preset), then anything of attention.h. heads, key_heads, dim, value_dim and causal
     * are filled in; features.features 0: 128 where the map does not fix it; features.seed 0: from `seed`. */
    bo_attention_desc attention;
    bo_mixer mixer; /* others than attention leave `attention` unused */
    bo_ssm ssm;
    size_t state_size; /* numbers of a channel's state; 0: 16 */
    size_t state_rank; /* columns of P; 0: 1 */
    size_t kernel;     /* tokens that a convolution sees; 0: 4 where it stands beside an SSM, alone 64 */
    bo_mlp mlp;
    bo_custom_layer custom_mlp; /* CUSTOM: the layer. `hidden` is for it to read */
    /* RANDOM_FEATURES: any kernel, function and draw; dim and features are filled in (features: `hidden`), kernel 0 is
     * RBF; gamma 0: so that normalized x are at distance one; seed 0: from `seed`. */
    bo_features_desc mlp_features;
    size_t degree_heads; /* of DEGREE_d: groups of columns, each normalized; 0: 1 */
    bo_norm norm;
    bo_positions positions;
    double rope_base;      /* 0: 10000 */
    bo_choice query_norm;  /* RMSNorm of q and k in each head; AUTO: where the kind does not make them unit itself */
    bo_choice output_norm; /* RMSNorm of each head's output; AUTO: where attention has no normalizer */
    /* Where parameters of attention begin. sigma: σ of RFA, and with query_norm |√s q|, |√s k| before features of softmax;
     * 0: 1, for HYBRID 3. Gates: σ(gate_first) of the first key head, σ(gate_last) of the last, others between; both 0: 1
     * and 5. */
    double sigma, gate_first, gate_last;
    bool untied; /* an output projection of its own instead of the embedding's transpose */
    bool bias;   /* of linear layers */
    double dropout;
    double norm_epsilon; /* 0: 1e-6 */
    bo_parametrization parametrization;
    /* MUP, UNIT: where rates were found; 0: 128. Heads have the same dim at every width. UNIT is untied */
    size_t base_width;
    bo_storage storage; /* FLOAT8: products are simulated in 8 bits; else FLOAT32 */
    uint64_t seed;      /* of the weights and frequencies */
    /* What it is for. Encoders (of CLASSIFY and MATCH all of the model) read in both directions: attention is not causal; a
     * mixer or kind of attention that is causal by nature (gates, memories, SSM, RNN, …) reads forwards in layers 0, 2, … and
     * backwards in the others. */
    bo_model_task task;
    size_t classes;            /* CLASSIFY, MATCH: at least 2 */
    const char *const *labels; /* of the classes; the model keeps copies. NULL: "0", "1", … */
    bo_pooling pooling;        /* CLASSIFY, MATCH */
    bool forward;              /* CLASSIFY, MATCH: all layers read forwards only: any length streams through a state */
    /* TRANSLATE: `layers` are the decoder's, and `context` is the longest source and the longest target. The vocabulary has
     * one id more than the tokenizer where that has no end (bo_tokenizer_end); it begins and ends a target, and ends a source. */
    size_t encoder_layers; /* 0: layers */
    bo_cross cross;
    /* All zero: as `attention` where that is the mixer, without what is causal (gate, window, HYBRID: its features alone),
     * else exact. heads, dim and the like are filled in */
    bo_attention_desc cross_attention;
} bo_model_desc;

typedef struct bo_model bo_model;

/* "tiny" (4 layers, width 128, 4 heads, context 256), "small" (6, 384, 6, 1024), "base" (12, 768, 12, 1024): shape only.
 * False: no such name. */
BO_API bool bo_model_preset(const char *name, bo_model_desc *desc);
BO_API const char *bo_model_preset_name(size_t index); /* NULL after the last */

/* The same description at another width: heads of the same dim, as many more or fewer of them, and hidden (0 stays 0) in
 * proportion. BO_INVALID where heads would not be whole. */
BO_API bo_status bo_model_widen(bo_context *context, const bo_model_desc *desc, size_t width, bo_model_desc *out);

/* Random weights. The tokenizer is remembered (not copied: it must outlive the model unless bo_model_load made it). */
BO_API bo_status bo_model_create(bo_context *context, const bo_model_desc *desc, const bo_tokenizer *tokenizer,
                                 bo_model **out);
BO_API void bo_model_destroy(bo_model *model); /* NULL is fine */
/* A folder; "best" and "last" checkpoints of a training folder are found by themselves (last, unless it names one). What
 * config.json promises and model.safetensors does not hold is BO_FORMAT, with tensor, shape expected and found. */
BO_API bo_status bo_model_load(bo_context *context, const char *folder, bo_model **out);
/* Likewise a model with a layer of one's own (BO_MLP_CUSTOM): the one of `layers` with the name that config.json has. Models
 * without load as well. bo_model_load refuses such a model, with the layer's name. */
BO_API bo_status bo_model_load_custom(bo_context *context, const char *folder, const bo_custom_layer *layers,
                                      size_t count, bo_model **out);
/* config.json, model.safetensors, tokenizer.json: each appears whole or not at all, model.safetensors last. */
BO_API bo_status bo_model_save(bo_context *context, const bo_model *model, const char *folder);
/* Takes from `from` what fits by name and shape; the rest stays as drawn. What is new and what is left out goes to the log
 * (a line each at BO_LOG_INFO), and how many tensors were taken to *taken. Where the tokenizers differ, embedding and output
 * are new, with a warning: their rows mean other tokens. */
BO_API bo_status bo_model_adopt(bo_context *context, bo_model *model, const bo_model *from, size_t *taken);

BO_API const bo_model_desc *bo_model_describe(const bo_model *model); /* with defaults filled in */
BO_API const bo_tokenizer *bo_model_tokenizer(const bo_model *model);
/* Keeps matrices, embedding and output as BFLOAT16 or INT8 from now on and gives their float32 back: decoding reads half or a
 * quarter of the bytes. For reading only; before any session, and once. bfloat16 is saved as such (BF16), int8 is not. */
BO_API bo_status bo_model_set_storage(bo_context *context, bo_model *model, bo_storage storage);
BO_API bo_storage bo_model_storage(const bo_model *model);  /* of its matrices */
BO_API uint64_t bo_model_parameters(const bo_model *model); /* numbers in all weights, tied ones once */
BO_API uint64_t
bo_model_frozen_parameters(const bo_model *model); /* … and in frequencies of MLPs, which stay as drawn */
BO_API size_t bo_model_bytes(const bo_model *model);
BO_API const bo_attention *bo_model_attention(const bo_model *model, size_t layer); /* NULL: the mixer is another */
/* Weights by name, "model.layers.0.self_attn.q_proj.weight": for inspection and tests. */
BO_API size_t bo_model_weights(const bo_model *model);
typedef struct bo_weight_info {
    const char *name;
    size_t rank, shape[4];
} bo_weight_info;
BO_API bo_weight_info bo_model_weight(const bo_model *model, size_t index);
BO_API bo_status bo_model_get_weight(bo_context *context, const bo_model *model, const char *name, float *out);
BO_API bo_status bo_model_set_weight(bo_context *context, bo_model *model, const char *name, const float *values);

/* ---- looking inside ------------------------------------------------------------------------------------------------ */

typedef struct bo_activation {
    char name[48]; /* "embedding", "layer 0 attention", "layer 0 mlp", …, "logits" */
    double size;   /* mean |x| over tokens and columns; of a layer, of what it changes in the residual stream */
} bo_activation;
BO_API size_t bo_model_activations(const bo_model *model);
/* What the model makes of one sequence (at most `context` tokens), part by part: bo_model_activations of them. */
BO_API bo_status bo_model_probe(bo_context *context, const bo_model *model, const int32_t *tokens, size_t count,
                                bo_activation *out);
/* |s (W - minus)|₂ of a weight as a matrix of its last extent's columns, s what the parametrization puts in front of it;
 * `minus` NULL: nothing is taken off. To a tenth of a percent. */
BO_API bo_status bo_model_spectral_norm(bo_context *context, const bo_model *model, const char *name,
                                        const float *minus, double *out);
/* Shapes, bytes and times of the operations of one step (profile.h). A model whose matrices are stored in fewer bits has no
 * backward: BO_UNSUPPORTED, except with desc.forward. desc or NULL: all defaults. */
BO_API bo_status bo_model_profile(bo_context *context, bo_model *model, const bo_profile_desc *desc, bo_profile **out);

/* ---- sessions: reading and decoding with a state ------------------------------------------------------------------- */

typedef struct bo_session bo_session;

typedef struct bo_session_desc {
    size_t chunk;    /* most tokens taken at a time; 0: 256 */
    size_t capacity; /* most tokens kept by attention with a cache of keys; 0: the model's context */
} bo_session_desc;
/* Bytes of the session's state (what is saved) and of everything it needs, before it is made. */
BO_API bo_status bo_session_estimate(bo_context *context, const bo_model *model, const bo_session_desc *desc,
                                     size_t *state_bytes, size_t *all_bytes);
BO_API bo_status bo_session_create(bo_context *context, const bo_model *model, const bo_session_desc *desc,
                                   bo_session **out);
BO_API void bo_session_destroy(bo_session *session); /* NULL is fine; the model must still be there */
BO_API bo_status bo_session_reset(bo_context *context, bo_session *session);
BO_API uint64_t bo_session_tokens(const bo_session *session); /* read so far */
/* How many more it can read: learned positions end with the context, as matrices along tokens do, and a cache is full. */
BO_API uint64_t bo_session_room(const bo_session *session);
/* Reads `count` tokens, in any split, with the same result up to rounding. logits: vocab of them, after the last token, or
 * NULL; with no tokens those after the last one that was fed, which a saved state keeps. losses: count numbers,
 * -log p(targets[i]) in nats, targets[i] < 0: not counted (0). */
BO_API bo_status bo_session_feed(bo_context *context, bo_session *session, const int32_t *ids, size_t count,
                                 float *logits);
BO_API bo_status bo_session_score(bo_context *context, bo_session *session, const int32_t *ids, const int32_t *targets,
                                  size_t count, float *losses);
/* The state as a file: it knows its model (fingerprint of weights' shapes, draws and tokenizer, and of the weights
 * themselves, which are all read for it) and is refused by another. */
BO_API bo_status bo_session_save(bo_context *context, const bo_session *session, const char *path);
BO_API bo_status bo_session_load(bo_context *context, bo_session *session, const char *path);
/* How many tokens a saved state has read: for the capacity of the session that is to load it. Saved with another capacity it
 * is loaded where its tokens have room. */
BO_API bo_status bo_session_peek(bo_context *context, const char *path, uint64_t *tokens);

/* ---- sampling ------------------------------------------------------------------------------------------------------ */

typedef struct bo_sampler {
    double temperature;        /* 0: 1 */
    size_t top_k;              /* 0: all */
    double top_p;              /* 0: 1 */
    double repetition_penalty; /* 0: 1; of logits of tokens among the latest `recent` (1909.05858) */
    bool greedy;
    uint64_t seed;
    uint64_t drawn;     /* numbers drawn so far; set it to the tokens read to go on as before from a saved state */
    int32_t recent[64]; /* a ring of the latest tokens */
    size_t recent_count;
} bo_sampler;
/* BO_INVALID for what makes no sense: temperature < 0, top_p outside (0, 1], … */
BO_API bo_status bo_sampler_check(bo_context *context, const bo_sampler *sampler);
/* The next id; logits (vocab of them) are overwritten. Remembers it among the recent ones. */
BO_API int32_t bo_sampler_next(bo_sampler *sampler, float *logits, size_t vocab);
BO_API void bo_sampler_remember(bo_sampler *sampler, int32_t id); /* a token that was not drawn: the prompt's */

/* ---- evaluation ---------------------------------------------------------------------------------------------------- */

typedef struct bo_evaluation {
    double loss;          /* mean nats per token */
    double bits_per_byte; /* of the text the scored tokens stand for */
    double perplexity;    /* exp(loss) */
    uint64_t tokens;      /* scored */
    double seconds, tokens_per_second;
    size_t state_bytes;
} bo_evaluation;
/* Windows of `context` tokens (0: the model's), each read from nothing in constant memory, every token but the first of all
 * scored once: a window begins with the last token of the one before. most 0: all tokens. */
BO_API bo_status bo_model_evaluate(bo_context *context, const bo_model *model, const bo_corpus *corpus,
                                   size_t context_tokens, uint64_t most, bo_evaluation *out);

#ifdef __cplusplus
}
#endif
#endif
