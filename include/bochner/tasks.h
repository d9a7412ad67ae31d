/** @file
 * Classification and translation of texts with a model.
 *
 * For models whose task (model.h) is classify, match or translate.
 *
 *     bo_model_load(context, &(bo_source){.path = "reviews"}, NULL, &model);
 *     bo_texts_desc desc = {.paths = paths, .path_count = 1};
 *     bo_model_preset_texts(model, true, &desc);                                  // kind, tokenizer, …
 *     bo_texts_open(context, &desc, &texts);
 *     bo_model_classify(context, model, texts, 0, count, probabilities);          // count x classes
 *
 * **Ownership.** The caller owns the results; each function states how to release them. **Threads.** The functions take
 * a const model and may run in several threads concurrently, each with its own context.
 */
#ifndef BOCHNER_TASKS_H
#define BOCHNER_TASKS_H

#include <bochner/metrics.h>
#include <bochner/generate.h>
#include <bochner/text.h>

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
 * @param max_examples   maximum number of examples; 0: all
 * @param[out] out       the result
 * @param[out] metrics   the confusion matrix and more (metrics.h); release it with bo_metrics_destroy(); or NULL
 * @return as bo_model_classify(); BO_INVALID if the texts have no labels or other classes than the model
 */
BO_API bo_status bo_model_evaluate_labels(bo_context *context, const bo_model *model, const bo_texts *texts,
                                          uint64_t max_examples, bo_classification *out, bo_metrics **metrics);

/* ---- translations ------------------------------------------------------------------------------------------------ */

/** The settings of a translation. */
typedef struct bo_translate_desc {
    size_t beam; /**< number of hypotheses kept, at most 1024 (default: 1, greedy) */
    /** Exponent of the length penalty: the score is log p / ((5 + length) / 6)^penalty (1609.08144); < 0: none
     * (default: 1 if beam > 1). */
    double penalty;
    size_t max_tokens;    /**< maximum number of tokens (default: twice the tokens of the source plus 50, within the
                             context) */
    size_t together;      /**< number of sources per batch (default: 64 / beam, at least 1) */
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
 *     logits are NaN or infinite
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
 * @param context       the context
 * @param model         the model
 * @param texts         pairs of source and target
 * @param max_examples  maximum number of examples; 0: all
 * @param desc          the settings, or NULL: greedy
 * @param tokenize      true: split words by the 13a rules of mteval for BLEU; false: the files are tokenized already
 * @param decode        true: translate and compute BLEU; false: compute the loss only (`bleu` is 0)
 * @param[out] out      the result
 * @return as bo_model_translate()
 */
BO_API bo_status bo_model_evaluate_translation(bo_context *context, const bo_model *model, const bo_texts *texts,
                                               uint64_t max_examples, const bo_translate_desc *desc, bool tokenize,
                                               bool decode, bo_translation *out);

#ifdef __cplusplus
}
#endif
#endif
