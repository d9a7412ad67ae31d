/** @file
 * Labeled texts and pairs of texts, read from tab-separated lines, and BLEU.
 *
 *     bo_texts_desc desc = {.kind = BO_TEXTS_LABELED, .paths = paths, .path_count = 1, .tokenizer = tokenizer};
 *     bo_texts *texts;
 *     bo_texts_open(context, &desc, &texts);
 *     size_t count;
 *     const int32_t *first = bo_texts_ids(texts, 0, 0, &count);
 *     bo_texts_close(texts);
 *
 * **Ownership.** The caller closes texts and destroys packs. A tokenizer must outlive the texts that use it.
 * **Threads.** Texts are immutable and may be used by several threads at once; packs need exclusive access.
 */
#ifndef BOCHNER_TEXTS_H
#define BOCHNER_TEXTS_H

#include <bochner/text.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ==== Simple ====================================================================================================== */

/** The columns of a line. */
typedef enum bo_texts_kind {
    BO_TEXTS_LABELED = 0,      /**< label, tab, text */
    BO_TEXTS_LABELED_PAIR = 1, /**< label, tab, text, tab, text */
    BO_TEXTS_PAIR = 2,         /**< source, tab, target */
    BO_TEXTS_ALONE = 3,        /**< text, to be labeled or translated */
    BO_TEXTS_ALONE_PAIR = 4,   /**< text, tab, text, to be labeled */
} bo_texts_kind;

/** The settings of texts. `tokenizer` and one of `paths` and `memory` are required. */
typedef struct bo_texts_desc {
    bo_texts_kind kind;       /**< the columns of a line */
    const char *const *paths; /**< files with one example per line, also gzipped; "-": standard input */
    size_t path_count;        /**< number of files */
    const char *memory;       /**< lines in memory, instead of `paths`; not needed after bo_texts_open() */
    size_t memory_bytes;      /**< number of bytes of `memory` */
    size_t before; /**< number of lines of standard input before `memory`, for the line numbers in messages */
    const bo_tokenizer *tokenizer; /**< the tokenizer; must outlive the texts */
    /** The names of the classes; other labels are refused. Default: the labels that occur in the files, sorted by value
     * if all of them are numbers, otherwise by bytes. Numbers are compared by value: 1 and 1.0 are the same class. */
    const char *const *labels;
    size_t classes; /**< number of `labels` */
    size_t longest; /**< maximum number of tokens per text, the context of the model (default: no limit) */
    bool cut;       /**< truncate longer texts and count them, instead of refusing them */
    size_t end;     /**< an id + 1 that is appended to every text; 0: none. Not counted in `longest` */
    bool empty;     /**< ALONE: an empty line is a text without tokens, also at the end of the input */
    double skip;    /**< fraction of the examples to skip, in the random order of `seed` */
    /** Fraction of the examples to use after `skip`; 0: to the end. If `skip` and `take` are 0, all examples are used
     * in the order of the file; otherwise the order is random, because files are often sorted by class. */
    double take;
    uint64_t seed;        /**< seed of that order */
    uint64_t reserved[4]; /**< must be zero */
} bo_texts_desc;

/** Encoded texts. Immutable; may be shared by threads. */
typedef struct bo_texts bo_texts;

/** Reads and encodes texts.
 *
 * A carriage return at the end of a line is removed. Empty lines at the end of a file are ignored. Special tokens in a
 * text, such as `<|endoftext|>`, are encoded as plain text.
 *
 * @param context    the context
 * @param desc       the texts
 * @param[out] out   the texts; release them with bo_texts_close()
 * @return BO_OK; BO_IO if a file cannot be read; BO_FORMAT, with file and line, if a line has too few or too many tabs,
 *     an empty or blank label or text, bytes that are not UTF-8, a NUL, a label with control characters or one that is
 *     not in `labels`, or a text longer than `longest`; BO_INVALID if there is no line, or only one class and no
 *     `labels`
 */
BO_API bo_status bo_texts_open(bo_context *context, const bo_texts_desc *desc, bo_texts **out);

/** Closes texts.
 *
 * @param texts   the object, or NULL
 */
BO_API void bo_texts_close(bo_texts *texts);

/** Returns the number of examples.
 *
 * @param texts   the texts
 * @return the number of examples
 */
BO_API size_t bo_texts_count(const bo_texts *texts);

/** Returns the number of texts per example.
 *
 * @param texts   the texts
 * @return 1 or 2
 */
BO_API size_t bo_texts_sides(const bo_texts *texts);

/** Returns the number of classes.
 *
 * @param texts   the texts
 * @return the number of classes; 0 if the texts have no labels
 */
BO_API size_t bo_texts_classes(const bo_texts *texts);

/** Returns the names of the classes.
 *
 * @param texts   the texts
 * @return one name per class, owned by the texts; NULL if the texts have no labels
 */
BO_API const char *const *bo_texts_class_names(const bo_texts *texts);

/** Returns the class of an example.
 *
 * @param texts     the texts
 * @param example   the example
 * @return the class; -1 if the texts have no labels or there is no such example
 */
BO_API int32_t bo_texts_label(const bo_texts *texts, size_t example);

/** Returns the ids of one text, including the end token.
 *
 * @param texts        the texts
 * @param example      the example
 * @param side         the text of the example: 0 or 1
 * @param[out] count   the number of ids; 0 if there is no such text
 * @return the ids, owned by the texts; NULL if there is no such text
 */
BO_API const int32_t *bo_texts_ids(const bo_texts *texts, size_t example, size_t side, size_t *count);

/** Returns one text as it is written in the file.
 *
 * @param texts        the texts
 * @param example      the example
 * @param side         the text of the example: 0 or 1
 * @param[out] bytes   the number of bytes; 0 if there is no such text
 * @return the text without a NUL at the end, owned by the texts; NULL if there is no such text
 */
BO_API const char *bo_texts_words(const bo_texts *texts, size_t example, size_t side, size_t *bytes);

/* ==== Advanced ==================================================================================================== */

/** Trains a byte-level BPE (text.h) on the texts of such files, without their labels.
 *
 * @param context    the context
 * @param desc       the settings of the tokenizer
 * @param texts      the texts; `tokenizer`, `longest`, `cut` and `end` are ignored
 * @param[out] out   the tokenizer; release it with bo_tokenizer_destroy()
 * @return as bo_tokenizer_train() and bo_texts_open()
 */
BO_API bo_status bo_tokenizer_train_texts(bo_context *context, const bo_tokenizer_desc *desc,
                                          const bo_texts_desc *texts, bo_tokenizer **out);

/** Returns the columns of a line.
 *
 * @param texts   the texts
 * @return the kind
 */
BO_API bo_texts_kind bo_texts_get_kind(const bo_texts *texts);

/** Returns the number of tokens of all texts of one side.
 *
 * @param texts   the texts
 * @param side    0 or 1
 * @return the number of tokens
 */
BO_API uint64_t bo_texts_tokens(const bo_texts *texts, size_t side);

/** Returns the maximum number of tokens of a text of one side, including the end token.
 *
 * @param texts   the texts
 * @param side    0 or 1
 * @return the number of tokens
 */
BO_API size_t bo_texts_longest(const bo_texts *texts, size_t side);

/** Returns the number of texts that were truncated.
 *
 * @param texts   the texts
 * @return the number of texts
 */
BO_API size_t bo_texts_truncated(const bo_texts *texts);

/** Returns a hash of ids, labels and order.
 *
 * @param texts   the texts
 * @return the hash
 */
BO_API uint64_t bo_texts_fingerprint(const bo_texts *texts);

/** Returns the line of an example, for messages.
 *
 * @param texts       the texts
 * @param example     the example
 * @param[out] path   the file, owned by the texts; NULL if there is no such example. The argument may be NULL
 * @return the line number, from 1; 0 if there is no such example
 */
BO_API size_t bo_texts_line(const bo_texts *texts, size_t example, const char **path);

/* ---- quality ----------------------------------------------------------------------------------------------------- */

/** BLEU of a corpus (Papineni 2002), from 0 to 100.
 *
 * N-grams up to 4 with clipped counts, brevity penalty, one reference per text. Words are separated by spaces, after
 * the 13a rules of mteval if requested. No smoothing: the score is 0 if an n-gram order has no match.
 */
typedef struct bo_bleu {
    double score;              /**< the score */
    double precisions[4];      /**< precision of n-grams of length 1 to 4, in percent */
    double brevity_penalty;    /**< brevity penalty */
    uint64_t length;           /**< number of words of the hypotheses */
    uint64_t reference_length; /**< number of words of the references */
    uint64_t reserved[4];      /**< must be zero */
} bo_bleu;

/** The counts that BLEU is computed from. Initialize them with {0}. */
typedef struct bo_bleu_counts {
    uint64_t matches[4];       /**< matching n-grams of length 1 to 4 */
    uint64_t totals[4];        /**< n-grams of the hypotheses */
    uint64_t length;           /**< number of words of the hypotheses */
    uint64_t reference_length; /**< number of words of the references */
    uint64_t reserved[4];      /**< must be zero */
} bo_bleu_counts;

/** Adds one text and its reference.
 *
 * @param context           the context
 * @param[in,out] counts    the counts
 * @param hypothesis        the text
 * @param bytes             the number of bytes of the text
 * @param reference         the reference
 * @param reference_bytes   the number of bytes of the reference
 * @param tokenize          true: split words by the 13a rules of mteval; false: at spaces only
 * @return BO_OK or an error (see base.h)
 */
BO_API bo_status bo_bleu_add(bo_context *context, bo_bleu_counts *counts, const char *hypothesis, size_t bytes,
                             const char *reference, size_t reference_bytes, bool tokenize);

/** Computes BLEU from counts.
 *
 * @param counts     the counts
 * @param[out] out   the result
 */
BO_API void bo_bleu_score(const bo_bleu_counts *counts, bo_bleu *out);

/* ==== Experimental ================================================================================================ */

#ifdef BO_EXPERIMENTAL

/** The ids of a text in memory of the caller. */
typedef struct bo_text_view {
    const int32_t *ids; /**< the ids */
    size_t count;       /**< number of ids, including the end token */
} bo_text_view;

/* ---- packs ------------------------------------------------------------------------------------------------------- */

/** The settings of packs: examples of any length in rows of a fixed number of tokens, without padding to the longest.
 *
 * An epoch uses every example once, in a random order that depends on seed and epoch. Each example is put into the
 * fullest of a few open packs that have enough room on every side; then the packs are shuffled. A batch is `batch`
 * packs. It depends only on seed and step; the last batch of an epoch continues with packs of the next epoch.
 */
typedef struct bo_packs_desc {
    const bo_texts *texts; /**< the texts; must outlive the packs */
    size_t rows; /**< tokens per pack (PAIR: of the sources; otherwise of all texts); at least the longest example */
    size_t target_rows;   /**< PAIR: tokens of the targets per pack; at least the longest target */
    size_t most;          /**< maximum number of examples per pack */
    size_t batch;         /**< packs per step */
    uint64_t seed;        /**< seed of the order */
    bool in_order;        /**< for evaluation: no shuffling, and one epoch; later packs are empty */
    uint64_t reserved[4]; /**< must be zero */
} bo_packs_desc;

/** Packs of examples. */
typedef struct bo_packs bo_packs;

/** Creates packs.
 *
 * @param context    the context
 * @param desc       the packs
 * @param[out] out   the packs; release them with bo_packs_destroy()
 * @return BO_OK; BO_INVALID if an example is longer than a pack
 */
BO_API bo_status bo_packs_create(bo_context *context, const bo_packs_desc *desc, bo_packs **out);

/** Destroys packs.
 *
 * @param packs   the object, or NULL
 */
BO_API void bo_packs_destroy(bo_packs *packs);

/** Returns the number of packs in the first epoch.
 *
 * @param packs   the packs
 * @return the number of packs
 */
BO_API size_t bo_packs_per_epoch(const bo_packs *packs);

/** Returns the fraction of the rows of the first epoch that hold tokens.
 *
 * @param packs   the packs
 * @return the fraction, in (0, 1]
 */
BO_API double bo_packs_occupancy(const bo_packs *packs);

/** Returns the examples of one pack.
 *
 * An epoch is laid out when it is first used, and one epoch is kept at a time: the object must not be shared by
 * threads.
 *
 * @param context          the context
 * @param[in,out] packs    the packs
 * @param step             the step, from 0
 * @param index            the pack of the step
 * @param[out] examples    the examples; room for `most` numbers
 * @param[out] count       the number of examples
 * @return BO_OK or an error (see base.h)
 */
BO_API bo_status bo_packs_get(bo_context *context, bo_packs *packs, uint64_t step, size_t index, size_t *examples,
                              size_t *count);

#endif

#ifdef __cplusplus
}
#endif
#endif
