/* Bochner: models of text. A transformer with any attention of attention.h, stored as Hugging Face stores models: a folder
 * with config.json, model.safetensors and tokenizer.json, or one safetensors file that holds all three. Language models are
 * used through this header; models that label or translate texts are described here and used through tasks.h.
 *
 *     bo_model *model;
 *     bo_model_load(context, "shakespeare", &model);
 *     bo_session *session;
 *     bo_session_create(context, model, NULL, &session);
 *     bo_sampler *sampler;
 *     bo_sampler_create(context, &(bo_sampler_desc){.temperature = 0.8, .seed = 1}, &sampler);
 *     bo_session_feed(context, session, ids, count, logits);           // logits of the last token
 *     int32_t next = bo_sampler_next(sampler, logits, vocab);
 *
 * A model is immutable and may be shared by threads that each bring a context and sessions of their own (training changes
 * it: train.h). A session is one timeline of one thread. The size of its state is known beforehand; for attention with
 * features it does not grow with the number of tokens read. */
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

/* ==== Simple ====================================================================================================== */

/* ---- models -------------------------------------------------------------------------------------------------------- */

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
    BO_CROSS_SUMMARY = 1, /* the last output of the encoder alone, added to the input of every token of the target: the
                             * bottleneck of 1406.1078 */
} bo_cross;

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
    const char *name; /* in config.json; names the layer to bo_model_load_custom. Copied */
    bo_value (*record)(bo_graph *graph, const bo_custom_place *place);
    void *user;           /* must outlive the model */
    uint64_t reserved[4]; /* zero */
} bo_custom_layer;

/* Zero means the default, except layers, width, heads and context. */
typedef struct bo_model_desc {
    size_t layers, width, heads;
    size_t key_heads; /* (default: heads) */
    size_t head_dim;  /* (default: width / heads) */
    /* Of the MLP. Default: 4 width; SwiGLU and DEGREE_2 8/3, DEGREE_3 and DEGREE_E 2, DEGREE_4 8/5 width, QUADRATIC
     * √(8 width), which all give the same number of weights. */
    size_t hidden;
    size_t context; /* tokens of a training window; the range of learned positions */
    size_t vocab;   /* (default: that of the tokenizer) */
    /* Begins as its preset (bo_attention_preset), then any field of attention.h. heads, key_heads, dim, value_dim and causal
     * are filled in. features.features (default: 128 where the map does not determine it); features.seed (default: drawn from
     * `seed`). */
    bo_attention_desc attention;
    bo_mixer mixer; /* mixers other than ATTENTION leave `attention` unused */
    bo_ssm ssm;
    size_t state_size; /* numbers in the state of a channel (default: 16) */
    size_t state_rank; /* columns of P (default: 1) */
    size_t kernel;     /* tokens that a convolution sees (default: 4 beside an SSM, else 64) */
    bo_mlp mlp;
    bo_custom_layer custom_mlp; /* CUSTOM: the layer. `hidden` is for it to read */
    /* RANDOM_FEATURES: any kernel, function and draw. dim and features (= hidden) are filled in. kernel (default: RBF); gamma
     * (default: normalized x are at distance one); seed (default: drawn from `seed`). */
    bo_features_desc mlp_features;
    size_t degree_heads; /* DEGREE_d: groups of columns, each normalized (default: 1) */
    bo_norm norm;
    bo_positions positions;
    double rope_base;      /* (default: 10000) */
    bo_choice query_norm;  /* RMSNorm of q and k in each head; AUTO: where the kind does not normalize them itself */
    bo_choice output_norm; /* RMSNorm of the output of each head; AUTO: where attention has no normalizer */
    /* First values of the parameters of attention. sigma: σ of RFA, and with query_norm |√s q|, |√s k| before features of
     * softmax (default: 1, for HYBRID 3). Gates: σ(gate_first) of the first key head to σ(gate_last) of the last, evenly
     * spaced (default of both: 1 and 5). */
    double sigma, gate_first, gate_last;
    bool untied; /* an output projection of its own instead of the transposed embedding */
    bool bias;   /* of linear layers */
    double dropout;
    double norm_epsilon; /* (default: 1e-6) */
    bo_parametrization parametrization;
    /* MUP, UNIT: the width at which learning rates were found (default: 128). Heads have the same dim at every width. UNIT is
     * untied. */
    size_t base_width;
    bo_storage storage; /* FLOAT8: products are simulated in 8 bits; else FLOAT32 */
    uint64_t seed;      /* of the weights and frequencies */
    /* Encoders (the whole model of CLASSIFY and MATCH) read in both directions: attention is not causal. A mixer or kind of
     * attention that is causal by nature (gates, memories, SSM, RNN, …) reads forward in layers 0, 2, … and backward in the
     * others. */
    bo_model_task task;
    size_t classes;            /* CLASSIFY, MATCH: at least 2 */
    const char *const *labels; /* of the classes, copied (default: "0", "1", …) */
    bo_pooling pooling;        /* CLASSIFY, MATCH */
    bool forward; /* CLASSIFY, MATCH: all layers read forward only: texts of any length stream through a state */
    /* TRANSLATE: `layers` counts the layers of the decoder, and `context` is the longest source and the longest target. The
     * vocabulary has one id more than the tokenizer if the tokenizer has no end token (bo_tokenizer_end); this id begins and
     * ends a target, and ends a source. */
    size_t encoder_layers; /* (default: layers) */
    bo_cross cross;
    /* All zero: as `attention` if attention is the mixer, without its causal parts (gate, window, HYBRID: the features
     * alone), else exact. heads, dim and the like are filled in. */
    bo_attention_desc cross_attention;
    uint64_t reserved[4]; /* zero: room for later versions */
} bo_model_desc;

typedef struct bo_model bo_model;

/* Sets layers, width, heads and context of a descriptor: "tiny" (4 layers, width 128, 4 heads, context 256), "small" (6, 384,
 * 6, 1024) or "base" (12, 768, 12, 1024). Returns false if there is no such name. */
BO_API bool bo_model_preset(const char *name, bo_model_desc *desc);

/* Creates a model with random weights. `tokenizer` (or NULL) is not copied and must outlive the model. */
BO_API bo_status bo_model_create(bo_context *context, const bo_model_desc *desc, const bo_tokenizer *tokenizer,
                                 bo_model **out);
BO_API void bo_model_destroy(bo_model *model);

/* Loads a model from a folder, or from one safetensors file (bo_model_save). The folder may be the one of a training run, which
 * holds its latest checkpoint, its folder "best", or a model of Hugging Face's Llama or GPT-2 family. The model owns its
 * tokenizer. A tensor that config.json requires and the file lacks is BO_FORMAT, with its name, the expected and the found
 * shape. */
BO_API bo_status bo_model_load(bo_context *context, const char *path, bo_model **out);
/* Saves a model. A path that ends with ".safetensors" becomes one file, the bytes of bo_model_save_memory; any other path is
 * a folder, which is made if it is missing, with config.json, model.safetensors and tokenizer.json. Each file appears whole or
 * not at all, model.safetensors last. */
BO_API bo_status bo_model_save(bo_context *context, const bo_model *model, const char *path);

/* The descriptor of the model, with defaults filled in. */
BO_API const bo_model_desc *bo_model_describe(const bo_model *model);
/* NULL: the model was created without one. */
BO_API const bo_tokenizer *bo_model_tokenizer(const bo_model *model);

/* ---- sessions: reading and decoding with a state ------------------------------------------------------------------- */

typedef struct bo_session bo_session;

/* Zero means the default. */
typedef struct bo_session_desc {
    size_t chunk;         /* most tokens that are read at a time (default: 256) */
    size_t capacity;      /* most tokens kept by attention with a cache of keys (default: the context of the model) */
    uint64_t reserved[4]; /* zero: room for later versions */
} bo_session_desc;

/* `desc` may be NULL. The model must outlive the session. */
BO_API bo_status bo_session_create(bo_context *context, const bo_model *model, const bo_session_desc *desc,
                                   bo_session **out);
BO_API void bo_session_destroy(bo_session *session);
/* Forgets everything that was read. */
BO_API bo_status bo_session_reset(bo_context *context, bo_session *session);
/* The number of tokens read so far. */
BO_API uint64_t bo_session_tokens(const bo_session *session);
/* Reads `count` tokens. Any division into calls gives the same result up to rounding. `logits` (or NULL) receives one number
 * per id of the vocabulary, after the last token; without tokens those after the last token that was fed, which a saved state
 * keeps. */
BO_API bo_status bo_session_feed(bo_context *context, bo_session *session, const int32_t *ids, size_t count,
                                 float *logits);
/* The state as a file. It carries fingerprints of its model (shapes, draws, tokenizer) and of the weights, all of which are
 * read for it; a session of another model refuses it. */
BO_API bo_status bo_session_save(bo_context *context, const bo_session *session, const char *path);
/* A state that was saved with another capacity is loaded if its tokens fit. The session is unchanged after a failure. */
BO_API bo_status bo_session_load(bo_context *context, bo_session *session, const char *path);

/* ---- sampling ------------------------------------------------------------------------------------------------------ */

typedef struct bo_sampler bo_sampler;

/* Zero means the default. */
typedef struct bo_sampler_desc {
    double temperature;        /* divisor of the logits (default: 1) */
    size_t top_k;              /* choose among the k most likely tokens (default: all) */
    double top_p;              /* choose among the most likely tokens that together have probability p (default: 1) */
    double repetition_penalty; /* of the logits of tokens among the latest `window` (1909.05858) (default: 1) */
    size_t window;             /* latest tokens that the penalty applies to (default: 64) */
    bool greedy;               /* always the most likely token */
    uint64_t seed;
    uint64_t reserved[4]; /* zero: room for later versions */
} bo_sampler_desc;

/* `desc` may be NULL. BO_INVALID: a temperature below 0, a top_p outside (0, 1], … */
BO_API bo_status bo_sampler_create(bo_context *context, const bo_sampler_desc *desc, bo_sampler **out);
BO_API void bo_sampler_destroy(bo_sampler *sampler);
/* The next id. `logits` (`vocab` numbers) is overwritten. The id is remembered for the repetition penalty. */
BO_API int32_t bo_sampler_next(bo_sampler *sampler, float *logits, size_t vocab);

/* ---- evaluation ---------------------------------------------------------------------------------------------------- */

typedef struct bo_evaluation {
    double loss;          /* mean nats per token */
    double bits_per_byte; /* of the text that the scored tokens represent */
    double perplexity;    /* exp(loss) */
    uint64_t tokens;      /* scored */
    double seconds, tokens_per_second;
    size_t state_bytes;
    uint64_t reserved[4]; /* zero: room for later versions */
} bo_evaluation;
/* Scores a corpus in windows of `context_tokens` tokens (0: the context of the model). Each window begins with an empty state
 * and with the last token of the window before it, so that every token but the first of the corpus is scored once. `most`:
 * tokens to score (0: all). Memory does not grow with the corpus. */
BO_API bo_status bo_model_evaluate(bo_context *context, const bo_model *model, const bo_corpus *corpus,
                                   size_t context_tokens, uint64_t most, bo_evaluation *out);

/* ==== Advanced ==================================================================================================== */

/* ---- names --------------------------------------------------------------------------------------------------------- */

/* Names of the enums: "language", "classify", "match", "translate"; "mean", "max", "first", "last"; "attention", "summary".
 * NULL outside the enum. */
BO_API const char *bo_model_task_name(bo_model_task task);
BO_API const char *bo_pooling_name(bo_pooling pooling);
BO_API const char *bo_cross_name(bo_cross cross);
/* False if it is no such name; then *out is unchanged. */
BO_API bool bo_model_task_parse(const char *name, bo_model_task *out);
BO_API bool bo_pooling_parse(const char *name, bo_pooling *out);
BO_API bool bo_cross_parse(const char *name, bo_cross *out);
/* The names that bo_model_preset knows; NULL after the last. */
BO_API const char *bo_model_preset_name(size_t index);

/* ---- models in files and in memory ---------------------------------------------------------------------------------------------- */

/* bo_model_load for models with a layer of the caller's own (BO_MLP_CUSTOM): the one of `layers` that has the name in
 * config.json. Models without such a layer load as well. bo_model_load refuses such a model, with the name of the layer. */
BO_API bo_status bo_model_load_custom(bo_context *context, const char *path, const bo_custom_layer *layers,
                                      size_t count, bo_model **out);
/* The same from the bytes of bo_model_save_memory. */
BO_API bo_status bo_model_load_custom_memory(bo_context *context, const void *bytes, size_t size,
                                             const bo_custom_layer *layers, size_t count, bo_model **out);
/* Whether a path holds a model: a folder with config.json or adapter_config.json, or one file of bo_model_save. */
BO_API bool bo_model_exists(bo_context *context, const char *path);
/* The model as one safetensors image: the tensors of model.safetensors, and the text of config.json and of tokenizer.json in
 * its metadata under these names. *bytes is released with bo_free. A merged model (lora.h) is written without the adapters it
 * was merged from; BO_UNSUPPORTED: adapters that are not merged, whose base is elsewhere. */
BO_API bo_status bo_model_save_memory(bo_context *context, const bo_model *model, void **bytes, size_t *size);
/* The bytes need not outlive the call. The model owns its tokenizer. */
BO_API bo_status bo_model_load_memory(bo_context *context, const void *bytes, size_t size, bo_model **out);

/* ---- weights ------------------------------------------------------------------------------------------------------- */

/* Copies the weights of `from` that fit by name and shape; the other weights stay as drawn. Tensors that are new and tensors
 * that are left out are logged, one per line at BO_LOG_INFO. *taken (or NULL) is the number of copied tensors. Where the
 * tokenizers differ, embedding and output are not copied, with a warning: their rows belong to other tokens. */
BO_API bo_status bo_model_adopt(bo_context *context, bo_model *model, const bo_model *from, size_t *taken);
/* Keeps matrices, embedding and output as BFLOAT16 or INT8 from now on and releases their float32 values: decoding reads half
 * or a quarter of the bytes. For models that are only read; once, and before any session. BFLOAT16 is saved as such (BF16),
 * INT8 cannot be saved. */
BO_API bo_status bo_model_set_storage(bo_context *context, bo_model *model, bo_storage storage);
/* Of its matrices. */
BO_API bo_storage bo_model_storage(const bo_model *model);
/* The number of numbers in all weights; tied weights count once. */
BO_API uint64_t bo_model_parameters(const bo_model *model);
/* The number of numbers in the frequencies of MLPs, which are not trained and not among the weights. */
BO_API uint64_t bo_model_frozen_parameters(const bo_model *model);
/* Of the weights. */
BO_API size_t bo_model_bytes(const bo_model *model);
/* NULL: the mixer of this layer is no attention. */
BO_API const bo_attention *bo_model_attention(const bo_model *model, size_t layer);

/* The number of weights. */
BO_API size_t bo_model_weights(const bo_model *model);
/* A weight (graph.h): its name ("model.layers.0.self_attn.q_proj.weight"), rank, shape and more. NULL after the last. Valid
 * until adapters are added, merged or unmerged (lora.h). */
BO_API const bo_weight *bo_model_weight(const bo_model *model, size_t index);
/* Values by name: as many floats as the shape has. */
BO_API bo_status bo_model_get_weight(bo_context *context, const bo_model *model, const char *name, float *out);
BO_API bo_status bo_model_set_weight(bo_context *context, bo_model *model, const char *name, const float *values);

/* Shapes, bytes and times of the operations of one step (profile.h). A model whose matrices are stored in fewer bits has no
 * backward: BO_UNSUPPORTED, except with desc.forward. `desc` may be NULL. */
BO_API bo_status bo_model_profile(bo_context *context, bo_model *model, const bo_profile_desc *desc, bo_profile **out);

/* ---- sessions ------------------------------------------------------------------------------------------------------ */

/* Bytes of the state of a session, which is what is saved, and of everything it needs, before it is created. Each may be
 * NULL. */
BO_API bo_status bo_session_estimate(bo_context *context, const bo_model *model, const bo_session_desc *desc,
                                     size_t *state_bytes, size_t *all_bytes);
/* The number of tokens that can still be read: learned positions and matrices along tokens end with the context, and a cache of
 * keys has a capacity. */
BO_API uint64_t bo_session_room(const bo_session *session);
/* Reads `count` tokens like bo_session_feed. losses[i] is -log p(targets[i]) in nats, 0 where targets[i] < 0. */
BO_API bo_status bo_session_score(bo_context *context, bo_session *session, const int32_t *ids, const int32_t *targets,
                                  size_t count, float *losses);
/* The number of tokens that a saved state has read, for the capacity of the session that is to load it. */
BO_API bo_status bo_session_peek(bo_context *context, const char *path, uint64_t *tokens);
/* The same with the bytes of the file in memory. *bytes is released with bo_free. */
BO_API bo_status bo_session_save_memory(bo_context *context, const bo_session *session, void **bytes, size_t *size);
BO_API bo_status bo_session_load_memory(bo_context *context, bo_session *session, const void *bytes, size_t size);
BO_API bo_status bo_session_peek_memory(bo_context *context, const void *bytes, size_t size, uint64_t *tokens);

/* ---- sampling ------------------------------------------------------------------------------------------------------ */

/* Remembers a token that was not drawn (one of the prompt) for the repetition penalty. */
BO_API void bo_sampler_remember(bo_sampler *sampler, int32_t id);
/* The count of random numbers drawn so far. Setting it to the number of tokens read continues from a saved state as if there
 * had been no break. */
BO_API uint64_t bo_sampler_drawn(const bo_sampler *sampler);
BO_API void bo_sampler_set_drawn(bo_sampler *sampler, uint64_t drawn);

/* ==== Experimental ================================================================================================ */

#ifdef BO_EXPERIMENTAL

/* The same description at another width: heads of the same dim, their number and hidden (0 stays 0) in proportion. BO_INVALID
 * if the number of heads would not be whole. */
BO_API bo_status bo_model_widen(bo_context *context, const bo_model_desc *desc, size_t width, bo_model_desc *out);

/* The number of places where bo_model_probe measures activations. */
BO_API size_t bo_model_activations(const bo_model *model);
/* The name of such a place: "embedding", "layer 0 attention", "layer 0 mlp", …, "logits". NULL after the last. */
BO_API const char *bo_model_activation(const bo_model *model, size_t index);
/* Runs one sequence of at most `context` tokens. sizes[i] is the mean |x| over tokens and columns at place i; at a layer, of its
 * contribution to the residual stream. */
BO_API bo_status bo_model_probe(bo_context *context, const bo_model *model, const int32_t *tokens, size_t count,
                                double *sizes);
/* |s (W - minus)|₂ to a tenth of a percent: W is the weight as a matrix whose columns are its last extent, s the factor that
 * the parametrization puts in front of it. `minus` may be NULL. */
BO_API bo_status bo_model_spectral_norm(bo_context *context, const bo_model *model, const char *name,
                                        const float *minus, double *out);

#endif

#ifdef __cplusplus
}
#endif
#endif
