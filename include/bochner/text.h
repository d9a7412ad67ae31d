/** @file
 * Tokenizers, corpora, labeled texts and pairs of texts, and BLEU.
 *
 * A tokenizer has one id per byte, or is loaded from a Hugging Face tokenizer.json, such as a byte-pair encoding (BPE).
 * A corpus is one sequence of tokens: files of text or JSON lines that are mapped into memory, or text in memory. Texts
 * are examples, one per line: with a label, or a source and its target.
 *
 *     bo_tokenizer *tokenizer;
 *     bo_tokenizer_create(context, &tokenizer);                        // 256 ids, one per byte
 *     bo_corpus *corpus;
 *     bo_corpus_open(context, &(bo_corpus_desc){.paths = paths, .path_count = 1, .tokenizer = tokenizer}, &corpus);
 *     bo_corpus_read(context, corpus, 0, 1024, ids);
 *     bo_texts *texts;
 *     bo_texts_open(context, &(bo_texts_desc){.paths = lines, .path_count = 1, .tokenizer = tokenizer}, &texts);
 *     bo_texts_get(texts, 0, 0, &text);
 *
 * **Ownership.** The caller destroys tokenizers and closes corpora and texts. A tokenizer must outlive the corpora and
 * texts that use it. **Threads.** Tokenizers, corpora and texts are immutable and may be used concurrently by several
 * threads.
 */
#ifndef BOCHNER_TEXT_H
#define BOCHNER_TEXT_H

#include <bochner/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ==== Simple ====================================================================================================== */

/* ---- tokenizers -------------------------------------------------------------------------------------------------- */

/** A tokenizer. Immutable; may be shared by threads. */
typedef struct bo_tokenizer bo_tokenizer;

/** Creates the tokenizer of bytes, with ids 0 to 255. It encodes any text.
 *
 * @param context    the context
 * @param[out] out   the tokenizer; release it with bo_tokenizer_destroy()
 * @return BO_OK or an error (see base.h)
 */
BO_API bo_status bo_tokenizer_create(bo_context *context, bo_tokenizer **out);

/** The settings to train a tokenizer. `vocab` has no default. */
typedef struct bo_tokenizer_desc {
    size_t vocab;               /**< number of ids: 256 bytes, merges and special tokens; at least 256 + specials */
    const char *const *special; /**< texts that are always one token (default: only "<|endoftext|>") */
    size_t special_count;       /**< number of special tokens */
    /** A regular expression (Oniguruma, Unicode); pairs are merged only inside its matches (default: GPT-2's). */
    const char *pattern;
    size_t min_count;     /**< minimum number of occurrences of a pair that is merged (default: 2) */
    uint64_t reserved[4]; /**< must be zero */
} bo_tokenizer_desc;

/** Trains a byte-level BPE on text files. The most frequent pair is merged first; ties go to the smaller ids.
 *
 * @param context      the context
 * @param desc         the settings
 * @param paths        text files, also gzip-compressed
 * @param path_count   the number of files
 * @param[out] out     the tokenizer; release it with bo_tokenizer_destroy()
 * @return BO_OK; BO_IO if a file cannot be read; BO_FORMAT if it is malformed; BO_UNSUPPORTED if the pattern uses
 *     syntax that is not supported
 */
BO_API bo_status bo_tokenizer_train(bo_context *context, const bo_tokenizer_desc *desc, const char *const *paths,
                                    size_t path_count, bo_tokenizer **out);

/** Loads a tokenizer.
 *
 * The file is a tokenizer.json, a directory that contains one, or a model that was saved as one ".safetensors" file
 * (model.h). A directory of a Bochner model without a tokenizer.json has the tokenizer of bytes. Supported are the
 * models BPE, Unigram, WordPiece and WordLevel, with almost all normalizers, pre-tokenizers, decoders and
 * post-processors of the package `tokenizers`. Ids and decoded texts are the same as in that package
 * (docs/reference/tokenizers.md).
 *
 * @param context    the context
 * @param source     a tokenizer.json, or a directory that contains one
 * @param[out] out   the tokenizer; release it with bo_tokenizer_destroy()
 * @return BO_OK; BO_IO if the file cannot be read; BO_FORMAT if it is malformed; BO_UNSUPPORTED if it uses a component
 *     that is not supported (the message names it)
 */
BO_API bo_status bo_tokenizer_load(bo_context *context, const bo_source *source, bo_tokenizer **out);

/** Writes a tokenizer.json.
 *
 * @param context     the context
 * @param tokenizer   the tokenizer
 * @param sink        where to write
 * @return BO_OK; BO_IO if the file cannot be written
 */
BO_API bo_status bo_tokenizer_save(bo_context *context, const bo_tokenizer *tokenizer, const bo_sink *sink);

/** Destroys a tokenizer.
 *
 * @param tokenizer   the object, or NULL
 */
BO_API void bo_tokenizer_destroy(bo_tokenizer *tokenizer);

/** The properties of a tokenizer. */
typedef struct bo_tokenizer_info {
    size_t vocab;         /**< number of ids; all ids are smaller */
    int32_t end;          /**< the id that ends a document, such as that of "<|endoftext|>"; -1: none */
    bool bytes;           /**< ids are bytes: the tokenizer of bo_tokenizer_create() */
    uint64_t fingerprint; /**< a hash that changes if ids change; models store it */
    uint64_t reserved[4]; /**< zero */
} bo_tokenizer_info;

/** Describes a tokenizer.
 *
 * @param tokenizer   the tokenizer
 * @return the description, owned by the tokenizer
 */
BO_API const bo_tokenizer_info *bo_tokenizer_describe(const bo_tokenizer *tokenizer);

/** A growing list of ids. Initialize it with {0}. */
typedef struct bo_ids {
    int32_t *items;  /**< the ids; release them with bo_ids_free() */
    size_t count;    /**< number of ids */
    size_t capacity; /**< number of ids that fit without allocation */
} bo_ids;

/** How a text is encoded. 0: as plain text, including the texts of special tokens. Values are fixed. */
typedef enum bo_encode {
    BO_ENCODE_SPECIALS = 1, /**< texts of special tokens become these tokens */
    /** The special tokens of the tokenizer's template are added, such as a start token before the text. Many tokenizers
     * have none. */
    BO_ENCODE_TEMPLATE = 2,
    /** A prompt that a model continues: SPECIALS and TEMPLATE. An empty text becomes the template alone, the
     * end-of-text token, or a line end, in this order of preference. */
    BO_ENCODE_PROMPT = 7
} bo_encode;

/** Encodes a text and appends its ids to a list.
 *
 * Bytes that are not UTF-8 become byte tokens.
 *
 * @param context       the context
 * @param tokenizer     the tokenizer
 * @param text          the text; a NUL at the end is not needed
 * @param bytes         the number of bytes
 * @param how           values of bo_encode, combined; 0: plain text
 * @param[in,out] out   the list
 * @return BO_OK; BO_FORMAT if a character has no token, and the tokenizer has neither an unknown token nor tokens for
 *     its bytes (the message names the character and its position); BO_INVALID if a prompt is empty and the tokenizer
 *     has no token to start a text with
 */
BO_API bo_status bo_tokenizer_encode(bo_context *context, const bo_tokenizer *tokenizer, const char *text, size_t bytes,
                                     unsigned how, bo_ids *out);

/** Releases the items of a list and sets it to {0}.
 *
 * @param[in,out] ids   the list, or NULL
 */
BO_API void bo_ids_free(bo_ids *ids);

/** Decodes ids to text. For byte-level tokenizers decode(encode(x)) is x, byte for byte.
 *
 * Decoding may depend on the position of a token, so that the text is not always the concatenation of the pieces of its
 * ids.
 *
 * @param context      the context
 * @param tokenizer    the tokenizer
 * @param ids          the ids
 * @param count        the number of ids
 * @param[out] out     the text, followed by a NUL; release it with bo_free()
 * @param[out] bytes   the number of bytes without the NUL
 * @return BO_OK; BO_INVALID if there is no such id; BO_UNSUPPORTED if the decoder writes more than 64 bytes for each
 *     byte of the tokens
 */
BO_API bo_status bo_tokenizer_decode(bo_context *context, const bo_tokenizer *tokenizer, const int32_t *ids,
                                     size_t count, char **out, size_t *bytes);

/** Returns the bytes of one id inside a text, for streaming output.
 *
 * @param tokenizer    the tokenizer
 * @param id           the id
 * @param[out] bytes   the number of bytes; or NULL
 * @return the bytes, owned by the tokenizer; "" if there is no such id
 */
BO_API const char *bo_tokenizer_piece(const bo_tokenizer *tokenizer, int32_t id, size_t *bytes);

/* ---- corpora ----------------------------------------------------------------------------------------------------- */

/** A sequence of tokens from text files. Immutable; may be shared by threads. */
typedef struct bo_corpus bo_corpus;

/** The settings of a corpus. `tokenizer` and one of `paths`, `memory` and `ids` are required. */
typedef struct bo_corpus_desc {
    const char *const *paths; /**< files of text, or of JSON lines (.jsonl, .json; one object per line); also gzipped */
    size_t path_count;        /**< number of files */
    const bo_tokenizer *tokenizer; /**< the tokenizer; must outlive the corpus */
    const char *field;             /**< JSON lines: the field that contains the text (default: "text") */
    /** Text: marks the end of a document, such as "<|endoftext|>" (default: one document per file). */
    const char *separator;
    double skip;          /**< fraction of all tokens to skip at the start; a validation set is the last part */
    double take;          /**< fraction of all tokens to use after `skip`, cut at a token; 0: to the end */
    const char *memory;   /**< text in memory, instead of `paths`; not needed after bo_corpus_open() */
    size_t memory_bytes;  /**< number of bytes of `memory` */
    bool memory_lines;    /**< `memory` contains JSON lines */
    const int32_t *ids;   /**< ids, instead of `paths` and `memory`, as one document; copied */
    size_t id_count;      /**< number of `ids` */
    uint64_t reserved[4]; /**< must be zero */
} bo_corpus_desc;

/** Opens a corpus.
 *
 * Each document has the special tokens of the tokenizer's template around it (BO_ENCODE_TEMPLATE). The end token
 * follows, if the tokenizer has one and the template does not start or end a document with it. Empty documents are
 * skipped. Bytes that are not UTF-8 are reported as a warning in the log if the tokenizer has byte tokens.
 *
 * @param context    the context
 * @param desc       the corpus
 * @param[out] out   the corpus; release it with bo_corpus_close()
 * @return BO_OK; BO_IO if a file cannot be read; BO_INVALID if there is no text or no such id; BO_FORMAT if a line is
 *     not JSON, a field is missing, a character cannot be encoded, or bytes are not UTF-8 and the tokenizer has no byte
 *     tokens. Messages contain file and position
 */
BO_API bo_status bo_corpus_open(bo_context *context, const bo_corpus_desc *desc, bo_corpus **out);

/** Closes a corpus.
 *
 * @param corpus   the object, or NULL
 */
BO_API void bo_corpus_close(bo_corpus *corpus);

/** Returns the number of tokens.
 *
 * @param corpus   the corpus
 * @return the number of tokens
 */
BO_API uint64_t bo_corpus_tokens(const bo_corpus *corpus);

/** Reads tokens.
 *
 * @param context    the context
 * @param corpus     the corpus
 * @param first      the first token
 * @param count      the number of tokens; first + count must not exceed the number of tokens
 * @param[out] ids   `count` ids
 * @return BO_OK; BO_IO if a file was truncated since the corpus was opened
 */
BO_API bo_status bo_corpus_read(bo_context *context, const bo_corpus *corpus, uint64_t first, size_t count,
                                int32_t *ids);

/* ---- labeled texts and pairs ------------------------------------------------------------------------------------- */

/** The columns of a line. */
typedef enum bo_texts_kind {
    BO_TEXTS_LABELED = 0,      /**< label, tab, text */
    BO_TEXTS_LABELED_PAIR = 1, /**< label, tab, text, tab, text */
    BO_TEXTS_PAIR = 2,         /**< source, tab, target */
    BO_TEXTS_ALONE = 3,        /**< text, to be classified or translated */
    BO_TEXTS_ALONE_PAIR = 4,   /**< text, tab, text, to be classified */
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
 *     a label or text that is empty or only white space, bytes that are not UTF-8, a NUL, a label with control
 *     characters or one that is not in `labels`, or a text longer than `longest`; BO_INVALID if there is no line, or
 *     only one class and no `labels`
 */
BO_API bo_status bo_texts_open(bo_context *context, const bo_texts_desc *desc, bo_texts **out);

/** Closes texts.
 *
 * @param texts   the object, or NULL
 */
BO_API void bo_texts_close(bo_texts *texts);

/** The properties of texts. */
typedef struct bo_texts_info {
    size_t count;              /**< number of examples */
    size_t sides;              /**< texts per example: 1 or 2 */
    size_t classes;            /**< number of classes; 0: the texts have no labels */
    const char *const *labels; /**< one name per class; NULL: the texts have no labels */
    bo_texts_kind kind;        /**< the columns of a line */
    size_t truncated;          /**< number of texts that were truncated */
    size_t longest[2];         /**< for each side: maximum number of tokens of a text, including the end token */
    uint64_t tokens[2];        /**< for each side: number of tokens of all texts */
    uint64_t reserved[4];      /**< zero */
} bo_texts_info;

/** Describes texts.
 *
 * @param texts   the texts
 * @return the description, owned by the texts
 */
BO_API const bo_texts_info *bo_texts_describe(const bo_texts *texts);

/** One text of an example. The memory belongs to the texts. */
typedef struct bo_text {
    const int32_t *ids;   /**< the ids, including the end token; NULL: there is no such text */
    size_t count;         /**< number of ids */
    const char *text;     /**< the original text from the file, without a NUL at the end */
    size_t bytes;         /**< number of bytes of `text` */
    int32_t label;        /**< the class of the example; -1: the texts have no labels */
    uint64_t reserved[4]; /**< zero */
} bo_text;

/** Returns one text of an example.
 *
 * @param texts     the texts
 * @param example   the example
 * @param side      the text of the example: 0 or 1
 * @param[out] out  the text; zeros and the label -1 if there is no such text
 */
BO_API void bo_texts_get(const bo_texts *texts, size_t example, size_t side, bo_text *out);

/* ==== Advanced ==================================================================================================== */

/* ---- tokenizers -------------------------------------------------------------------------------------------------- */

/** Finds the id of a token.
 *
 * @param tokenizer   the tokenizer
 * @param token       the text of the token
 * @return the id; -1 if there is no such token
 */
BO_API int32_t bo_tokenizer_find(const bo_tokenizer *tokenizer, const char *token);

/** Returns true if an id is a special token, which decoded text normally omits.
 *
 * @param tokenizer   the tokenizer
 * @param id          the id
 * @return true for an added token that is marked as special; false otherwise, including unknown ids
 */
BO_API bool bo_tokenizer_is_special(const bo_tokenizer *tokenizer, int32_t id);

/** Trains a byte-level BPE on the texts of such files, without their labels.
 *
 * @param context    the context
 * @param desc       the settings of the tokenizer
 * @param texts      the texts; `tokenizer`, `longest`, `cut` and `end` are ignored
 * @param[out] out   the tokenizer; release it with bo_tokenizer_destroy()
 * @return as bo_tokenizer_train() and bo_texts_open()
 */
BO_API bo_status bo_tokenizer_train_texts(bo_context *context, const bo_tokenizer_desc *desc,
                                          const bo_texts_desc *texts, bo_tokenizer **out);

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

/** The counts for BLEU. Initialize them with {0}. */
typedef struct bo_bleu_counts {
    uint64_t matches[4];       /**< matching n-grams of length 1 to 4 */
    uint64_t totals[4];        /**< n-grams of the hypotheses */
    uint64_t length;           /**< number of words of the hypotheses */
    uint64_t reference_length; /**< number of words of the references */
    uint64_t reserved[4];      /**< must be zero */
} bo_bleu_counts;

/* ==== Experimental ================================================================================================ */

#ifdef BO_EXPERIMENTAL

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

/** Returns the number of bytes of text that the tokens represent, for bits per byte.
 *
 * @param corpus   the corpus
 * @return the number of bytes
 */
BO_API uint64_t bo_corpus_bytes(const bo_corpus *corpus);

#endif

#ifdef __cplusplus
}
#endif
#endif
