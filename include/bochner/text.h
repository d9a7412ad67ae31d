/** @file
 * Tokenizers, corpora and batches for language models.
 *
 * A tokenizer has one id per byte, or is an encoding in the format of Hugging Face's tokenizer.json, such as a
 * byte-pair encoding (BPE). A corpus consists of files of text or JSON lines that are mapped into memory, or of text that is in memory. Batches are
 * a pure function of a seed and a step, so that training resumes at the same token.
 *
 *     bo_tokenizer *tokenizer;
 *     bo_tokenizer_create(context, &tokenizer);                        // 256 ids, one per byte
 *     bo_corpus_desc desc = {.paths = paths, .path_count = 1, .tokenizer = tokenizer};
 *     bo_corpus *corpus;
 *     bo_corpus_open(context, &desc, &corpus);
 *     bo_corpus_read(context, corpus, 0, 1024, ids);
 *
 * **Ownership.** The caller destroys tokenizers and closes corpora. A tokenizer must outlive the corpora that use it.
 * **Threads.** Tokenizers and corpora are immutable and may be used by several threads at once.
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
    const char *const *special; /**< texts that are always one token (default: "<|endoftext|>" alone) */
    size_t special_count;       /**< number of special tokens */
    /** A regular expression (Oniguruma, Unicode); pairs are merged only inside its matches (default: that of GPT-2). */
    const char *pattern;
    size_t least;         /**< minimum number of occurrences of a pair that is merged (default: 2) */
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
 * The file is a tokenizer.json, a folder that contains one, or a model that was saved as one ".safetensors" file
 * (model.h). A folder of a Bochner model without a tokenizer.json has the tokenizer of bytes. Supported are the models
 * BPE, Unigram, WordPiece and WordLevel, with almost all normalizers, pre-tokenizers, decoders and post-processors of
 * the package `tokenizers`; ids and decoded texts are those of that package (docs/reference/tokenizers.md).
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

/** Returns the number of ids. All ids are smaller.
 *
 * @param tokenizer   the tokenizer
 * @return the size of the vocabulary
 */
BO_API size_t bo_tokenizer_vocab(const bo_tokenizer *tokenizer);

/** A list of ids that grows. Initialize it with {0}. */
typedef struct bo_ids {
    int32_t *items;  /**< the ids; release them with bo_ids_free() */
    size_t count;    /**< number of ids */
    size_t capacity; /**< number of ids that fit without allocation */
} bo_ids;

/** How a text is encoded; 0: as plain text, also where it has the text of a special token. Values are fixed. */
typedef enum bo_encode {
    BO_ENCODE_SPECIALS = 1, /**< texts of special tokens become these tokens */
    /** The special tokens of the tokenizer's template are added, such as a start token before the text. Many tokenizers
     * have none. */
    BO_ENCODE_TEMPLATE = 2,
    /** A text that a model continues from its start: SPECIALS and TEMPLATE, and an empty text becomes the template alone,
     * the token that ends a text, or a line end, in this order. */
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
 *     its bytes (the message names the character and its position); BO_INVALID if a prompt is empty and the tokenizer has
 *     no token to start a text with
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
 * The decoder may treat tokens by their position, so that the text is not always the sequence of the pieces of its ids.
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

/** The settings of a corpus. `tokenizer` and one of `paths` and `memory` are required. */
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
    uint64_t reserved[4]; /**< must be zero */
} bo_corpus_desc;

/** Opens a corpus.
 *
 * Each document has the special tokens of the tokenizer's template around it (BO_ENCODE_TEMPLATE). The end
 * token follows, if the tokenizer has one and the template does not start or end a document with it. Empty documents
 * are left out. Bytes that are not UTF-8 are reported as a warning in the log if the tokenizer has byte tokens.
 *
 * @param context    the context
 * @param desc       the corpus
 * @param[out] out   the corpus; release it with bo_corpus_close()
 * @return BO_OK; BO_IO if a file cannot be read; BO_INVALID if there is no text; BO_FORMAT if a line is not JSON, a
 *     field is missing, a character cannot be encoded, or bytes are not UTF-8 and the tokenizer has no byte tokens.
 *     Messages contain file and position
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

/* ==== Advanced ==================================================================================================== */

/* ---- tokenizers -------------------------------------------------------------------------------------------------- */

/** Reports whether ids are bytes.
 *
 * @param tokenizer   the tokenizer
 * @return true for the tokenizer of bytes
 */
BO_API bool bo_tokenizer_is_raw(const bo_tokenizer *tokenizer);

/** Finds the id of a token.
 *
 * @param tokenizer   the tokenizer
 * @param token       the text of the token
 * @return the id; -1 if there is no such token
 */
BO_API int32_t bo_tokenizer_find(const bo_tokenizer *tokenizer, const char *token);

/** Returns the id that ends a document, such as that of "<|endoftext|>".
 *
 * @param tokenizer   the tokenizer
 * @return the id; -1 if there is none
 */
BO_API int32_t bo_tokenizer_end(const bo_tokenizer *tokenizer);

/** Tells whether an id is a special token, which is usually not shown in decoded text.
 *
 * @param tokenizer   the tokenizer
 * @param id          the id
 * @return true for an added token that is marked as special; false otherwise, also if there is no such id
 */
BO_API bool bo_tokenizer_is_special(const bo_tokenizer *tokenizer, int32_t id);

/** Returns a hash that changes if ids change. Models store it.
 *
 * @param tokenizer   the tokenizer
 * @return the hash
 */
BO_API uint64_t bo_tokenizer_fingerprint(const bo_tokenizer *tokenizer);

/* ---- corpora ----------------------------------------------------------------------------------------------------- */

/** Opens a corpus of given ids, as one document.
 *
 * @param context     the context
 * @param tokenizer   the tokenizer; must outlive the corpus
 * @param ids         the ids; copied
 * @param count       the number of ids
 * @param[out] out    the corpus; release it with bo_corpus_close()
 * @return BO_OK; BO_INVALID if there are no ids or the tokenizer lacks one of them
 */
BO_API bo_status bo_corpus_open_ids(bo_context *context, const bo_tokenizer *tokenizer, const int32_t *ids,
                                    size_t count, bo_corpus **out);

/** Returns the number of bytes of text that the tokens represent, for bits per byte.
 *
 * @param corpus   the corpus
 * @return the number of bytes
 */
BO_API uint64_t bo_corpus_bytes(const bo_corpus *corpus);

/** Returns the number of documents.
 *
 * @param corpus   the corpus
 * @return the number of documents
 */
BO_API uint64_t bo_corpus_documents(const bo_corpus *corpus);

/** Returns a hash of the tokens. A resumed run needs the same.
 *
 * @param corpus   the corpus
 * @return the hash
 */
BO_API uint64_t bo_corpus_fingerprint(const bo_corpus *corpus);

/** Returns the start of the first document after a token.
 *
 * @param corpus   the corpus
 * @param at       the token
 * @return the first token of that document; bo_corpus_tokens() if there is none
 */
BO_API uint64_t bo_corpus_next_document(const bo_corpus *corpus, uint64_t at);

/* ---- batches ----------------------------------------------------------------------------------------------------- */

/** The batches of a training run: windows of `context` inputs and the token that follows each input.
 *
 * An epoch uses every window once, in an order that differs between epochs (a keyed permutation, computed and not
 * stored). Each epoch starts at another offset. With lanes, an epoch uses the windows in the order of the text, except
 * for less than one per lane at the end. `corpus`, `context` and `batch` have no default.
 */
typedef struct bo_batches_desc {
    const bo_corpus *corpus; /**< the corpus */
    size_t context;          /**< tokens per window */
    size_t batch;            /**< sequences per step, over all parts */
    size_t part;             /**< the part of each step to produce, from 0: the rank in a parallel job */
    size_t parts;            /**< number of parts (default: 1) */
    uint64_t seed;           /**< seed of the order */
    bool documents;          /**< runs end at the end of documents: see `lengths` of bo_batches_fill() */
    /** 0: windows in a random order. Otherwise the same number as `batch`: sequence i of a step continues sequence i of
     * the step before it, from one end to the other of its part of the text (a lane). */
    size_t lanes;
    uint64_t reserved[3]; /**< must be zero */
} bo_batches_desc;

/** Checks a descriptor.
 *
 * @param context   the context
 * @param desc      the batches
 * @return BO_OK; BO_INVALID if the corpus is too short or `batch` is not divisible by `parts`
 */
BO_API bo_status bo_batches_check(bo_context *context, const bo_batches_desc *desc);

/** Produces sequences of one step.
 *
 * A run is a window, or with `documents` the part of a window that lies in one document. If there are more runs than
 * room in `lengths`, the last ones are merged.
 *
 * @param context          the context
 * @param desc             the batches
 * @param step             the step, from 0
 * @param first            the first sequence of the step
 * @param count            the number of sequences
 * @param[out] tokens      inputs, count x context
 * @param[out] targets     the tokens that follow, count x context
 * @param[out] positions   positions, count x context, from 0 in each run; or NULL
 * @param[out] lengths     the length of each run; or NULL
 * @param[in,out] runs     the room in `lengths`, at least `count`; becomes the number of runs; or NULL if `lengths`
 *     is NULL
 * @return BO_OK or an error (see base.h); BO_IO as for bo_corpus_read()
 */
BO_API bo_status bo_batches_fill(bo_context *context, const bo_batches_desc *desc, uint64_t step, size_t first,
                                 size_t count, int32_t *tokens, int32_t *targets, int32_t *positions, size_t *lengths,
                                 size_t *runs);

/** Tells whether a sequence has nothing to continue: whether it does not follow the sequence of the same number in the
 * step before. Without lanes, this is true of every sequence.
 *
 * @param desc       the batches
 * @param step       the step, from 0
 * @param sequence   the number of the sequence in the part of the step
 * @return true if there is nothing to continue: without lanes, at the start of an epoch, and with `documents` at the
 *     start of a document; false if desc is NULL
 */
BO_API bool bo_batches_begins(const bo_batches_desc *desc, uint64_t step, size_t sequence);

/** Returns the number of windows per epoch.
 *
 * @param desc   the batches
 * @return the number of windows
 */
BO_API uint64_t bo_batches_per_epoch(const bo_batches_desc *desc);

#ifdef __cplusplus
}
#endif
#endif
