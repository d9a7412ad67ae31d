/** @file
 * Classification and translation of texts with a model.
 *
 * For models whose task (model.h) is classify, match or translate.
 *
 *     bo_model_load(context, "reviews", &model);
 *     bo_texts_desc desc = {.paths = paths, .path_count = 1};
 *     bo_model_preset_texts(model, true, &desc);                                  // kind, tokenizer, …
 *     bo_texts_open(context, &desc, &texts);
 *     bo_model_classify(context, model, texts, 0, count, probabilities);          // count x classes
 *
 * **Ownership.** The caller owns the results; each function states how to release them. **Threads.** The functions take
 * a const model and may run in several threads at once, each with its own context; lanes need exclusive access.
 */
#ifndef BOCHNER_TASKS_H
#define BOCHNER_TASKS_H

#include <bochner/metrics.h>
#include <bochner/generate.h>
#include <bochner/texts.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ==== Simple ====================================================================================================== */

/** Sets the fields of a descriptor of texts that the task of a model determines.
 *
 * These are `kind`, `tokenizer`, `labels`, `longest` (0 if texts of any length can be read) and `end`. The other fields
 * are unchanged.
 *
 * @param model          the model; must outlive the texts
 * @param alone          true: the texts have no labels or targets
 * @param[in,out] desc   the descriptor
 */
BO_API void bo_model_preset_texts(const bo_model *model, bool alone, bo_texts_desc *desc);

/* ---- labels ------------------------------------------------------------------------------------------------------ */

/** Predicts class probabilities.
 *
 * Texts may have any length. If all layers are causal, a text streams through the state in constant memory; otherwise
 * it is read as a whole.
 *
 * @param context              the context
 * @param model                the model
 * @param texts                the texts
 * @param first                the first example
 * @param count                the number of examples
 * @param[out] probabilities   count x classes; class i has the name bo_model_describe(model)->labels[i]
 * @return BO_OK; BO_INVALID if the task of the model has no labels or the texts do not match it
 */
BO_API bo_status bo_model_classify(bo_context *context, const bo_model *model, const bo_texts *texts, size_t first,
                                   size_t count, float *probabilities);

/** The quality of classifications. */
typedef struct bo_classification {
    double loss;          /**< mean negative log-likelihood per example, in nats */
    double accuracy;      /**< fraction of correct labels, in [0, 1] */
    uint64_t examples;    /**< number of examples */
    uint64_t tokens;      /**< number of tokens read */
    double seconds;       /**< time taken, in seconds */
    uint64_t reserved[4]; /**< must be zero */
} bo_classification;

/** Evaluates a classifier on labeled texts.
 *
 * @param context        the context
 * @param model          the model
 * @param texts          the labeled texts
 * @param most           maximum number of examples; 0: all
 * @param[out] out       the result
 * @param[out] metrics   the confusion matrix and more (metrics.h); release it with bo_metrics_destroy(); or NULL
 * @return as bo_model_classify(); BO_INVALID if the texts have no labels or other classes than the model
 */
BO_API bo_status bo_model_evaluate_labels(bo_context *context, const bo_model *model, const bo_texts *texts,
                                          uint64_t most, bo_classification *out, bo_metrics **metrics);

/* ---- translations ------------------------------------------------------------------------------------------------ */

/** The settings of a translation. */
typedef struct bo_translate_desc {
    size_t beam; /**< number of hypotheses kept, at most 1024 (default: 1, greedy) */
    /** Exponent of the length penalty: the score is log p / ((5 + length) / 6)^penalty (1609.08144); < 0: none
     * (default: 1 if beam > 1). */
    double penalty;
    size_t most; /**< maximum number of tokens (default: twice the tokens of the source plus 50, within the context) */
    size_t together;      /**< number of sources translated together (default: 64 / beam, at least 1) */
    uint64_t reserved[4]; /**< must be zero */
} bo_translate_desc;

/** Translates texts.
 *
 * Each source is read once into states of fixed size (with softmax attention: its keys and values), from which its
 * hypotheses are decoded.
 *
 * @param context        the context
 * @param model          the model
 * @param texts          the texts; side 0 is the source
 * @param first          the first example
 * @param count          the number of examples
 * @param desc           the settings, or NULL for the defaults
 * @param[in,out] ids    `count` lists, initialized with {0}; receive the translations without their end token; release
 *     each with bo_ids_free()
 * @param[out] scores    `count` log probabilities; or NULL
 * @return BO_OK; BO_INVALID if the task of the model is not to translate or a source is too long; BO_NUMERIC if the
 *     logits are not finite
 */
BO_API bo_status bo_model_translate(bo_context *context, const bo_model *model, const bo_texts *texts, size_t first,
                                    size_t count, const bo_translate_desc *desc, bo_ids *ids, double *scores);

/** The quality of translations. */
typedef struct bo_translation {
    double loss;          /**< mean negative log-likelihood per target token, in nats */
    double perplexity;    /**< exp(loss) */
    bo_bleu bleu;         /**< BLEU of the translations against the targets as written in the file */
    uint64_t examples;    /**< number of examples */
    uint64_t tokens;      /**< number of target tokens */
    size_t state_bytes;   /**< memory of one hypothesis, including its share of the source */
    double seconds;       /**< time of decoding, in seconds */
    uint64_t reserved[4]; /**< must be zero */
} bo_translation;

/** Evaluates translations on pairs of texts.
 *
 * @param context    the context
 * @param model      the model
 * @param texts      pairs of source and target
 * @param most       maximum number of examples; 0: all
 * @param desc       the settings, or NULL: greedy
 * @param tokenize   true: split words by the 13a rules of mteval for BLEU; false: the files are tokenized already
 * @param decode     true: translate and compute BLEU; false: compute the loss only (`bleu` is 0)
 * @param[out] out   the result
 * @return as bo_model_translate()
 */
BO_API bo_status bo_model_evaluate_translation(bo_context *context, const bo_model *model, const bo_texts *texts,
                                               uint64_t most, const bo_translate_desc *desc, bool tokenize, bool decode,
                                               bo_translation *out);

/* ==== Experimental ================================================================================================ */

#ifdef BO_EXPERIMENTAL

/* ---- lanes: several sequences that step together ----------------------------------------------------------------- */

/** Sequences of one model that read one token each per step, for language models and decoders.
 *
 * The size of the state of a lane is known in advance. The weights of the model must not change while it has lanes.
 */
typedef struct bo_lanes bo_lanes;

/** The settings of lanes. `count` has no default. */
typedef struct bo_lanes_desc {
    size_t count;    /**< number of lanes */
    size_t capacity; /**< maximum tokens per lane if attention keeps every key (default: the context of the model) */
    /** TRANSLATE: maximum tokens per source if attention keeps every key (default: the context of the model). */
    size_t source;
    uint64_t reserved[4]; /**< must be zero */
} bo_lanes_desc;

/** Creates lanes.
 *
 * @param context    the context
 * @param model      the model; must outlive the lanes
 * @param desc       the lanes
 * @param[out] out   the lanes; release them with bo_lanes_destroy()
 * @return BO_OK or an error (see base.h)
 */
BO_API bo_status bo_lanes_create(bo_context *context, const bo_model *model, const bo_lanes_desc *desc, bo_lanes **out);

/** Destroys lanes.
 *
 * @param lanes   the object, or NULL
 */
BO_API void bo_lanes_destroy(bo_lanes *lanes);

/** Returns the memory of one lane, including the state of its source, which lanes of the same source share.
 *
 * @param lanes   the lanes
 * @return the number of bytes
 */
BO_API size_t bo_lanes_state_bytes(const bo_lanes *lanes);

/** Resets all lanes to an empty sequence. Their sources stay.
 *
 * @param context         the context
 * @param[in,out] lanes   the lanes
 * @return BO_OK or an error (see base.h)
 */
BO_API bo_status bo_lanes_reset(bo_context *context, bo_lanes *lanes);

/** TRANSLATE: reads sources and resets all lanes.
 *
 * Source i is assigned to lanes i n … (i + 1) n - 1, where n = lanes / count.
 *
 * @param context         the context
 * @param[in,out] lanes   the lanes
 * @param sources         the sources; not needed after the call
 * @param count           the number of sources
 * @return BO_OK or an error (see base.h)
 */
BO_API bo_status bo_lanes_read(bo_context *context, bo_lanes *lanes, const bo_text_view *sources, size_t count);

/** Reads one token in each of the first lanes.
 *
 * If the call fails after it has started, the lanes must be reset.
 *
 * @param context         the context
 * @param[in,out] lanes   the lanes
 * @param active          the number of lanes that read a token
 * @param ids             one token per active lane
 * @param[out] logits     active x vocab numbers for the next token; or NULL
 * @return BO_OK or an error (see base.h)
 */
BO_API bo_status bo_lanes_step(bo_context *context, bo_lanes *lanes, size_t active, const int32_t *ids, float *logits);

/** Reads one token in each of the first lanes, and returns the most likely next ones.
 *
 * Logits stay on the device of the model, so that on a GPU this is faster than bo_lanes_step().
 *
 * @param context         the context
 * @param[in,out] lanes   the lanes
 * @param active          the number of lanes that read a token
 * @param ids             one token per active lane
 * @param[out] next       the token with the largest logit per active lane, the first of equal ones; may be `ids`
 * @return BO_OK or an error (see base.h)
 */
BO_API bo_status bo_lanes_step_greedy(bo_context *context, bo_lanes *lanes, size_t active, const int32_t *ids,
                                      int32_t *next);

/** Resets one lane to an empty sequence. Its source stays.
 *
 * @param context         the context
 * @param[in,out] lanes   the lanes
 * @param lane            the lane
 * @return BO_OK; BO_INVALID if there is no such lane
 */
BO_API bo_status bo_lanes_restart(bo_context *context, bo_lanes *lanes, size_t lane);

/** Returns the number of tokens that a lane has read.
 *
 * @param lanes   the lanes
 * @param lane    the lane
 * @return the number of tokens; 0 if there is no such lane
 */
BO_API uint64_t bo_lanes_tokens(const bo_lanes *lanes, size_t lane);

/** LANGUAGE: reads a block of tokens in one lane, as bo_session_feed() does.
 *
 * If the call fails after it has started, the lane is empty. Other lanes do not change.
 *
 * @param context         the context
 * @param[in,out] lanes   the lanes
 * @param lane            the lane
 * @param ids             the tokens
 * @param count           the number of tokens, at least 1
 * @param[out] logits     `vocab` numbers for the next token; or NULL
 * @return BO_OK; BO_INVALID if a token is not in the vocabulary or the lane has no room
 */
BO_API bo_status bo_lanes_feed(bo_context *context, bo_lanes *lanes, size_t lane, const int32_t *ids, size_t count,
                               float *logits);

/** LANGUAGE: reads a block of tokens in one lane and returns the logits after each of them, as bo_session_logits() does.
 *
 * @param context         the context
 * @param[in,out] lanes   the lanes
 * @param lane            the lane
 * @param ids             the tokens
 * @param count           the number of tokens, at least 1
 * @param[out] logits     count x vocab numbers
 * @return as bo_lanes_feed()
 */
BO_API bo_status bo_lanes_logits(bo_context *context, bo_lanes *lanes, size_t lane, const int32_t *ids, size_t count,
                                 float *logits);

/** LANGUAGE: reads a block of tokens in one lane and returns their last hidden states, as bo_session_hidden() does.
 *
 * @param context         the context
 * @param[in,out] lanes   the lanes
 * @param lane            the lane
 * @param ids             the tokens
 * @param count           the number of tokens, at least 1
 * @param[out] hidden     count x width numbers
 * @return as bo_lanes_feed()
 */
BO_API bo_status bo_lanes_hidden(bo_context *context, bo_lanes *lanes, size_t lane, const int32_t *ids, size_t count,
                                 float *hidden);

/** LANGUAGE: writes the state of a lane to memory, in the format of bo_session_save(), without logits.
 *
 * @param context        the context
 * @param[in,out] lanes  the lanes; they do not change
 * @param lane           the lane
 * @param[out] bytes     the state; release it with bo_free()
 * @param[out] size      the number of bytes
 * @return BO_OK or an error (see base.h)
 */
BO_API bo_status bo_lanes_save_memory(bo_context *context, bo_lanes *lanes, size_t lane, void **bytes, size_t *size);

/** LANGUAGE: reads the state of a lane, or of a session, into a lane. If the call fails, the lane does not change.
 *
 * @param context         the context
 * @param[in,out] lanes   the lanes
 * @param lane            the lane
 * @param bytes           the state; not needed after the call
 * @param size            the number of bytes
 * @return as bo_session_load()
 */
BO_API bo_status bo_lanes_load_memory(bo_context *context, bo_lanes *lanes, size_t lane, const void *bytes,
                                      size_t size);

/** Rearranges lanes: lane i receives the state of lane from[i], for beam search and to close gaps when sequences end.
 *
 * Nothing is copied if no lane is used twice. The states of the lanes from `active` on are lost. If there is no
 * memory for a copy, its lane is empty.
 *
 * @param context         the context
 * @param[in,out] lanes   the lanes
 * @param active          the number of lanes to keep
 * @param from            the former lane of each
 * @return BO_OK or an error (see base.h)
 */
BO_API bo_status bo_lanes_choose(bo_context *context, bo_lanes *lanes, size_t active, const size_t *from);

#endif

#ifdef __cplusplus
}
#endif
#endif
