/** @file
 * Models of text: transformers with any attention of attention.h.
 *
 * Models are stored as Hugging Face model directories, with config.json, model.safetensors and tokenizer.json, or one
 * safetensors file that contains all three. Language models are read and continue texts through generate.h. Models that
 * classify or translate texts are described here and used through tasks.h.
 *
 *     bo_model *model;
 *     bo_model_load(context, &(bo_source){.path = "shakespeare"}, NULL, &model);
 *     bo_generate(context, model, &(bo_generate_desc){.prompt = "To be"}, show, NULL); // generate.h
 *
 * **Threads.** Threads may share a model. Each thread needs its own context and sessions. Functions that take the model
 * without const (training, bo_weights_set(), …) need exclusive access to it.
 *
 * **Ownership.** A model must outlive its sessions. A tokenizer that is passed to bo_model_create() must outlive the
 * model; a model that was loaded owns its tokenizer.
 */
#ifndef BOCHNER_MODEL_H
#define BOCHNER_MODEL_H

#include <bochner/blocks.h>
#include <bochner/layers.h>
#include <bochner/profile.h>
#include <bochner/text.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ==== Simple ====================================================================================================== */

/* ---- models ------------------------------------------------------------------------------------------------------ */

/** The task of a model. */
typedef enum bo_model_task {
    BO_MODEL_TASK_LANGUAGE = 0,  /**< predict the next token of a text */
    BO_MODEL_TASK_CLASSIFY = 1,  /**< predict the label of a text */
    BO_MODEL_TASK_MATCH = 2,     /**< predict the label of two texts, read by the same encoder */
    BO_MODEL_TASK_TRANSLATE = 3, /**< produce a text from a text, with an encoder and a decoder */
    BO_MODEL_TASK_PREDICT = 4,   /**< predict classes or numbers from arrays, images, sequences or graphs (network.h) */
} bo_model_task;

/** How the token vectors of a text are pooled into one vector. */
typedef enum bo_pooling {
    BO_POOLING_MEAN = 0,  /**< the mean */
    BO_POOLING_MAX = 1,   /**< the maximum of each column */
    BO_POOLING_FIRST = 2, /**< the first token */
    BO_POOLING_LAST = 3   /**< the last token */
} bo_pooling;

/** How a decoder attends to its source. */
typedef enum bo_cross {
    BO_CROSS_ATTENTION = 0, /**< cross attention to all tokens, in every layer */
    BO_CROSS_SUMMARY = 1,   /**< the last output of the encoder, added to the input of every target token (1406.1078) */
} bo_cross;

/** Describes a model: an embedding, layers that are made of blocks, and a head. Zero means the default, except in
 * layers, width, context and the heads of blocks.
 *
 * All layers have the same `block`, or they follow a list: blocks[0] for its `repeat` layers, then blocks[1] likewise,
 * …. After the last block the list repeats until there are `layers` layers. With
 *
 *     const bo_block blocks[] = {{.repeat = 5, .attention.window = 512, …}, {.repeat = 1, …}};
 *
 * every sixth layer attends to all keys.
 *
 * Encoders (all layers of CLASSIFY and MATCH, the encoder of TRANSLATE) read in both directions: attention is not
 * causal. A mixer or kind of attention that is always causal (gates, GLA, DELTA, SSM, RNN, …) reads forward in layers
 * 0, 2, … and backward in the others.
 *
 * TRANSLATE: if the tokenizer has no end token (`end` of bo_tokenizer_info), the vocabulary has one id more than the
 * tokenizer, which serves as the end token. The end token starts and ends a target and ends a source. */
typedef struct bo_model_desc {
    size_t layers;          /**< number of layers; TRANSLATE: of the decoder */
    size_t width;           /**< width of the residual stream */
    size_t context;         /**< tokens of a training window and range of learned positions; TRANSLATE: longest text */
    size_t vocab;           /**< size of the vocabulary (default: the tokenizer's; required without a tokenizer) */
    bo_block block;         /**< the block of all layers, if there is no list */
    const bo_block *blocks; /**< a list of blocks, copied; NULL: all layers have `block` */
    size_t block_count;     /**< number of blocks in the list */
    bo_model_task task;     /**< the task (default: LANGUAGE) */
    size_t classes;         /**< CLASSIFY, MATCH: number of classes, at least 2 */
    const char *const *labels; /**< CLASSIFY, MATCH: names of the classes, copied (default: "0", "1", …) */
    bo_pooling pooling;        /**< CLASSIFY, MATCH: the pooling (default: MEAN) */
    bool forward;              /**< CLASSIFY, MATCH: all layers read forward; long texts can be streamed */
    bo_cross cross;            /**< TRANSLATE: how the decoder attends to the source (default: ATTENTION) */
    size_t encoder_layers;     /**< TRANSLATE: layers of the encoder (default: layers) */
    bo_block encoder;          /**< TRANSLATE: the block of the encoder; `heads` 0: the blocks of the decoder */
    const bo_block
        *encoder_blocks;        /**< TRANSLATE: blocks of the encoder, copied; NULL: all its layers have `encoder` */
    size_t encoder_block_count; /**< number of blocks in this list */
    bool untied;                /**< a separate output projection instead of the transposed embedding */
    bool head_bias;             /**< LANGUAGE: a bias of the logits */
    double embedding_scale;     /**< factor of the embedding of tokens (default: 1) */
    double logit_scale;         /**< LANGUAGE: factor of the logits (default: 1) */
    double dropout;             /**< dropout rate, in [0, 1) */
    bo_parametrization parametrization; /**< the parametrization (default: STANDARD); UNIT implies `untied` */
    size_t base_width;                  /**< MUP, UNIT: width at which learning rates were tuned (default: 128) */
    bo_storage storage;                 /**< FLOAT32 (default), or FLOAT8: products are simulated in 8 bits */
    uint64_t seed;                      /**< seed of the weights and frequencies */
    uint64_t reserved[4];               /**< must be zero */
} bo_model_desc;

/** A model. */
typedef struct bo_model bo_model;

/** Sets layers, width, block.heads and context of a descriptor by the name of a preset: "tiny" (4 layers, width 128,
 * 4 heads, context 256), "small" (6, 384, 6, 1024) or "base" (12, 768, 12, 1024).
 *
 * @param name          the name
 * @param[in,out] desc  the descriptor; other fields are unchanged
 * @return false if there is no such name; then the descriptor is unchanged
 */
BO_API bool bo_model_preset(const char *name, bo_model_desc *desc);

/** Creates a model with random weights.
 *
 * @param context    the context
 * @param desc       the model; copied
 * @param tokenizer  the tokenizer, or NULL; not copied, must outlive the model
 * @param[out] out   the new model; release it with bo_model_destroy()
 * @return BO_OK; BO_INVALID if fields of the descriptor are inconsistent or do not fit the tokenizer; BO_UNSUPPORTED if
 *     the attention or the feature map does not support the combination of its fields
 */
BO_API bo_status bo_model_create(bo_context *context, const bo_model_desc *desc, const bo_tokenizer *tokenizer,
                                 bo_model **out);

/** Destroys a model and the tokenizer that it owns. Destroy its sessions first. @param model  the model, or NULL */
BO_API void bo_model_destroy(bo_model *model);

/** How adapters (lora.h) are handled when a model is loaded. */
typedef enum bo_adapters {
    BO_ADAPTERS_MERGE = 0, /**< they are merged into the weights */
    BO_ADAPTERS_KEEP = 1,  /**< they are kept separate for further training; the source is an adapter directory */
    BO_ADAPTERS_REMOVE = 2 /**< the base, bit for bit: the source is the directory of a merged model */
} bo_adapters;

/** How a model is loaded. */
typedef struct bo_model_load_desc {
    /** The storage of the matrices, as by bo_model_set_storage() (default: FLOAT32). Weights are converted one at a
     * time, so the float32 model does not need to fit into memory. */
    bo_storage storage;
    const bo_custom_layer *layers; /**< the custom layers of the model, found by their names; NULL: none */
    size_t layer_count;            /**< number of custom layers */
    bo_adapters adapters;          /**< how adapters are handled (default: merged) */
    uint64_t reserved[4];          /**< must be zero */
} bo_model_load_desc;

/** Loads a model from a directory, or from the bytes of one safetensors file of bo_model_save().
 *
 * The directory may be that of a training run, which contains its latest checkpoint, its directory "best", a pretrained
 * model of one of the families of docs/reference/families.md, or an adapter, which is merged into its base model.
 *
 * @param context   the context
 * @param source    the directory or file; memory and callbacks have the bytes of a file
 * @param desc      how to load it; NULL: all defaults
 * @param[out] out  the model, which owns its tokenizer; release it with bo_model_destroy()
 * @return BO_OK; BO_IO if a file cannot be read; BO_FORMAT if a file is malformed, or if a tensor is missing, unknown,
 *     contains NaN or infinity, or has another shape than config.json requires; the message lists the tensors with both
 *     shapes; BO_VERSION if a newer version wrote the model; BO_UNSUPPORTED if the model has a custom layer that `desc`
 *     lacks or an unsupported option of another family; BO_INVALID if the storage is no storage of weights
 */
BO_API bo_status bo_model_load(bo_context *context, const bo_source *source, const bo_model_load_desc *desc,
                               bo_model **out);

/** Saves a model.
 *
 * A model of one of the families of docs/reference/families.md is written in the format of the family, which
 * transformers can load. A path that ends with ".safetensors" is written as a single file. Memory and callbacks receive
 * the same bytes. Any other path is a directory, to which config.json, model.safetensors, tokenizer.json,
 * tokenizer_config.json and generation_config.json are written, and other files of the loaded model:
 * special_tokens_map.json, chat_template.jinja. Each file is replaced atomically, model.safetensors last.
 *
 * @param context  the context
 * @param model    the model
 * @param sink     the file, or the directory, which is created if it does not exist; memory or a callback
 * @return BO_OK; BO_IO if a file cannot be written; BO_UNSUPPORTED if weights are stored as INT8 or INT4, or if a model
 *     with adapters that are not merged is saved to one file
 */
BO_API bo_status bo_model_save(bo_context *context, const bo_model *model, const bo_sink *sink);

/** Returns the descriptor of a model, with the defaults filled in. If it has a list of blocks, `block` and `encoder`
 * are the blocks of the first layers.
 *
 * @param model  the model
 * @return the descriptor, owned by the model
 */
BO_API const bo_model_desc *bo_model_describe(const bo_model *model);

/** Copies a descriptor with its lists, names and labels, so that it can be changed.
 *
 * @param context   the context
 * @param desc      the descriptor
 * @param[out] out  the copy; release it with bo_model_desc_release()
 * @return BO_OK or BO_MEMORY
 */
BO_API bo_status bo_model_desc_copy(bo_context *context, const bo_model_desc *desc, bo_model_desc *out);

/** Releases the lists, names and labels of a descriptor that the library has allocated. @param desc  the descriptor */
BO_API void bo_model_desc_release(bo_model_desc *desc);

/** Returns the block of a layer.
 *
 * @param desc   the descriptor of a model, with or without defaults
 * @param layer  the number of the layer, from 0
 * @return the block, owned by the descriptor
 */
BO_API const bo_block *bo_model_block(const bo_model_desc *desc, size_t layer);

/** Returns the tokenizer of a model.
 *
 * @param model  the model
 * @return the tokenizer, valid as long as the model; NULL if the model was created without one
 */
BO_API const bo_tokenizer *bo_model_tokenizer(const bo_model *model);

/* ---- evaluation -------------------------------------------------------------------------------------------------- */

/** The result of an evaluation. */
typedef struct bo_evaluation {
    double loss;              /**< mean nats per token */
    double bits_per_byte;     /**< bits per byte of the text that the scored tokens represent */
    double perplexity;        /**< exp(loss) */
    uint64_t tokens;          /**< number of scored tokens */
    double seconds;           /**< time taken */
    double tokens_per_second; /**< throughput */
    size_t state_bytes;       /**< bytes of the state of a sequence */
    uint64_t reserved[4];     /**< must be zero */
} bo_evaluation;

/** Scores a corpus in windows.
 *
 * Each window starts with an empty state and with the last token of the previous window, so that every token except the
 * first of the corpus is scored once. The memory used does not grow with the corpus.
 *
 * @param context         the context
 * @param model           a language model with a tokenizer
 * @param corpus          the corpus, of at least 2 tokens
 * @param context_tokens  tokens per window; 0: the context of the model
 * @param max_tokens      maximum number of tokens to score; 0: all
 * @param[out] out        the result
 * @return BO_OK; BO_INVALID if the model has another task or no tokenizer, or if it has fewer learned positions than a
 *     window has tokens; BO_IO if the corpus cannot be read
 */
BO_API bo_status bo_model_evaluate(bo_context *context, const bo_model *model, const bo_corpus *corpus,
                                   size_t context_tokens, uint64_t max_tokens, bo_evaluation *out);

/* ==== Advanced ==================================================================================================== */

/* ---- names ------------------------------------------------------------------------------------------------------- */

/** Returns the name of a preset, as bo_model_preset() accepts it.
 *
 * @param index  the number of the preset, from 0
 * @return the name; NULL if the index is past the end
 */
BO_API const char *bo_model_preset_name(size_t index);

/* ---- information ------------------------------------------------------------------------------------------------- */

/** Information about a model. Created by the library; later versions may add members at the end. */
typedef struct bo_model_info {
    uint64_t parameters;        /**< number of parameters; tied weights count once */
    uint64_t frozen_parameters; /**< frequencies of MLPs, which are not trained and not counted as parameters */
    size_t bytes;               /**< bytes of the weights */
    bo_storage storage;         /**< storage of the matrices: FLOAT32, BFLOAT16, INT8 or INT4 */
    /** The ids at which generation ends. They come from generation_config.json, else from config.json ("eos_token_id",
     * one id or several), else from tokenizer_config.json ("eos_token"), else from the tokenizer (`end` of
     * bo_tokenizer_info). Ids outside of the vocabulary are left out. NULL: there are none. */
    const int32_t *end_tokens;
    size_t end_count; /**< number of these ids */
    /** The id that starts a text, from the same files ("bos_token_id", "bos_token"), else the id that the tokenizer
     * prepends to a text; -1: none. */
    int32_t begin_token;
    const struct bo_network_info
        *network; /**< PREDICT: information about the network (network.h); NULL: another task */
    /** CLASSIFY, MATCH: bytes of the state that a text streams through; 0: texts are read as a whole */
    size_t state_bytes;
} bo_model_info;

/** Returns information about a model.
 *
 * @param model  the model
 * @return the info, owned by the model; it changes with the model
 */
BO_API const bo_model_info *bo_model_report(const bo_model *model);

/* ---- weights ----------------------------------------------------------------------------------------------------- */

/** Copies the weights of another model that have the same name and shape. The other weights are unchanged. Frequencies
 * of feature maps are copied if both models describe the map in the same way.
 *
 * If the tokenizers differ, the embedding and the output projection are not copied, because their rows belong to other
 * tokens; a warning is logged. Weights that are not copied, and weights of the other model that are not used, are
 * logged at BO_LOG_INFO, one per line.
 *
 * @param context      the context
 * @param model        the model to change
 * @param from         the other model
 * @param[out] copied  the number of copied tensors, or NULL
 * @return BO_OK; BO_INVALID if weights of the model are stored in fewer bits
 */
BO_API bo_status bo_model_adopt(bo_context *context, bo_model *model, const bo_model *from, size_t *copied);

/** Converts matrices, embedding and output projection to BFLOAT16, INT8 or INT4 and releases their float32 values. With
 * INT4, the embedding and the output projection become INT8, because logits are sensitive to their rounding.
 * Decoding then reads about a half, a quarter or a seventh of the bytes.
 *
 * The model can no longer be trained. Call this once, before any session is created. BFLOAT16 is saved as such; INT8
 * and INT4 cannot be saved.
 *
 * @param context  the context
 * @param model    the model
 * @param storage  BFLOAT16, INT8 or INT4; no effect if it is the current storage
 * @return BO_OK; BO_INVALID if the model has been converted or trained
 */
BO_API bo_status bo_model_set_storage(bo_context *context, bo_model *model, bo_storage storage);

/** Returns the attention of a layer.
 *
 * @param model  the model
 * @param layer  the number of the layer, from 0
 * @return the attention, owned by the model; NULL if the mixer is not an attention or if there is no such layer
 */
BO_API const bo_attention *bo_model_attention(const bo_model *model, size_t layer);

/** Returns the weights of a model, for the functions of graph.h: bo_weights_describe(), bo_weights_find(),
 * bo_weights_get(), bo_weights_set(), … A weight has a name ("model.layers.0.self_attn.q_proj.weight"), a shape and
 * more.
 *
 * @param model  the model; setting weights needs exclusive access to it
 * @return the weights, owned by the model and valid until adapters are added, merged or unmerged (lora.h)
 */
BO_API bo_weights *bo_model_weights(const bo_model *model);

/* ---- teachers ---------------------------------------------------------------------------------------------------- */

/** The training target of a linearized model (a block with `replaced`). Its teacher is the same model with the replaced
 * attention, without adapters. */
typedef enum bo_imitation {
    BO_IMITATION_NONE = 0, /**< none: the loss of the text */
    BO_IMITATION_ATTENTION =
        /** the contribution of attention to the residual stream in every linearized layer, for the teacher's q, k and
         * v: the mean over the layers of the relative squared error */
    1,
    BO_IMITATION_LOGITS = 2 /**< the distribution of the next token: KL divergence */
} bo_imitation;

/** Describes a replacement of attention. */
typedef struct bo_replacement_desc {
    bo_attention_desc attention; /**< the new attention; heads, dim and similar fields are filled in */
    /** Layers that keep their attention: indices from 0, ranges and blocks, "0,5-7,block-1"; "": none. NULL: the layers
     * with a window. Layers without softmax attention keep their mixer. */
    const char *kept_layers;
    double sigma;         /**< as in bo_block */
    double gate_first;    /**< as in bo_block */
    double gate_last;     /**< as in bo_block */
    uint64_t seed;        /**< seed of frequencies and new parameters */
    uint64_t reserved[4]; /**< must be zero */
} bo_replacement_desc;

/** How well two models agree on the next token. */
typedef struct bo_agreement {
    uint64_t tokens;      /**< number of positions compared */
    double greedy;        /**< share of the positions with the same most likely token */
    double divergence;    /**< mean KL divergence of the second model's distribution from the first's, in nats */
    uint64_t reserved[4]; /**< zero */
} bo_agreement;

/* ==== Experimental ================================================================================================ */

#ifdef BO_EXPERIMENTAL

/** Describes the same model at another width. head_dim is unchanged. The number of heads, `hidden` (unless 0) and
 * numeric widths in lists of layers are proportional to the width.
 *
 * @param context   the context
 * @param desc      the model
 * @param width     the new width
 * @param[out] out  the new descriptor; release it with bo_model_desc_release()
 * @return BO_OK; BO_INVALID if the number of heads would not be a whole number
 */
BO_API bo_status bo_model_widen(bo_context *context, const bo_model_desc *desc, size_t width, bo_model_desc *out);

/** Tests whether a path contains a model: a directory with config.json or adapter_config.json, or one file of
 * bo_model_save().
 *
 * @param context  the context
 * @param path     the path
 * @return true if it does
 */
BO_API bool bo_model_exists(bo_context *context, const char *path);

/** Returns the text of a file of the loaded model directory: "generation_config.json", "tokenizer_config.json",
 * "special_tokens_map.json" or "chat_template.jinja". Saving the model writes these files again.
 *
 * @param model  the model
 * @param name   the name of the file
 * @return the text, owned by the model; NULL if the directory had no such file or a file equal to that of
 *     bo_model_save()
 */
BO_API const char *bo_model_companion(const bo_model *model, const char *name);

/** Lists the parameters of a linearized model that its teacher does not have, as
 * bo_lora_desc.whole: "g_proj,m". Adapters of a model with another attention train these in full.
 *
 * @param context   the context
 * @param model     a linearized model
 * @param[out] out  the list, "" if there are none; release it with bo_free()
 * @return BO_OK; BO_INVALID if the model is not linearized
 */
BO_API bo_status bo_model_new_parameters(bo_context *context, const bo_model *model, char **out);

/** Returns the name of a place of the residual stream: "embedding", "layer 0 attention", "layer 0 mlp", …, "logits".
 *
 * @param model  the model
 * @param index  the number of the place, from 0
 * @return the name, owned by the model; NULL if the index is past the end
 */
BO_API const char *bo_model_activation(const bo_model *model, size_t index);

/** Measures one step of a model, operation by operation (profile.h).
 *
 * @param context   the context
 * @param model     the model; no other thread may use it during the call
 * @param desc      the step; NULL: all defaults
 * @param[out] out  the profile; release it with bo_profile_destroy()
 * @return BO_OK; BO_UNSUPPORTED if the matrices are stored in fewer bits, which have no backward, and desc.forward is
 *     false
 */
BO_API bo_status bo_model_profile(bo_context *context, bo_model *model, const bo_profile_desc *desc, bo_profile **out);

/** Creates a copy of a language model with another attention and the same weights. Its blocks have the old
 * attention as `replaced`. The parameters of the new attention have their initial values.
 *
 * @param context   the context
 * @param model     a language model with softmax attention; its tokenizer must outlive the copy
 * @param desc      the replacement
 * @param[out] out  the copy; release it with bo_model_destroy()
 * @return BO_OK; BO_INVALID if the model has no softmax attention, if no layer is replaced, or if the attention does
 *     not fit
 */
BO_API bo_status bo_model_replace_attention(bo_context *context, const bo_model *model, const bo_replacement_desc *desc,
                                            bo_model **out);

/** Compares the distributions of two models over the windows of a corpus.
 *
 * @param context         the context
 * @param first           a language model, such as a teacher
 * @param second          a language model with the same vocabulary
 * @param corpus          the corpus, of at least one window
 * @param context_tokens  tokens per window; 0: the smaller context of the two models
 * @param max_tokens      maximum number of tokens to use, at least one window is used; 0: all
 * @param[out] out        the result
 * @return BO_OK; BO_INVALID if the vocabularies differ or the corpus is shorter than a window; BO_IO if the corpus
 *     cannot be read
 */
BO_API bo_status bo_model_agreement(bo_context *context, const bo_model *first, const bo_model *second,
                                    const bo_corpus *corpus, size_t context_tokens, uint64_t max_tokens,
                                    bo_agreement *out);

#endif

#ifdef __cplusplus
}
#endif
#endif
