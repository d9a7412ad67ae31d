/* Bochner: text in, token ids out. Tokenizers are bytes, or byte-pair encodings in the format of Hugging Face's
 * tokenizer.json; a corpus is files of text or JSON lines mapped into memory; batches are a pure function of a seed and a
 * step, so that training resumes to the token.
 *
 *     bo_tokenizer *tokenizer;
 *     bo_tokenizer_create(context, &tokenizer);                        // 256 ids, one per byte
 *     bo_corpus_desc desc = {.paths = paths, .path_count = 1, .tokenizer = tokenizer};
 *     bo_corpus *corpus;
 *     bo_corpus_open(context, &desc, &corpus);
 *     bo_corpus_read(context, corpus, 0, 1024, ids); */
#ifndef BOCHNER_TEXT_H
#define BOCHNER_TEXT_H

#include <bochner/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ==== Simple ====================================================================================================== */

/* ---- tokenizers --------------------------------------------------------------------------------------------------- */

typedef struct bo_tokenizer bo_tokenizer; /* immutable, shared by threads */

/* The tokenizer of bytes: ids 0 to 255. It encodes any text. */
BO_API bo_status bo_tokenizer_create(bo_context *context, bo_tokenizer **out);

/* Zero means the default, except vocab. */
typedef struct bo_tokenizer_desc {
    size_t vocab;               /* number of ids: 256 bytes, merges and specials; at least 256 + specials */
    const char *const *special; /* texts that are one token each wherever they occur (default: "<|endoftext|>" alone) */
    size_t special_count;
    const char
        *pattern; /* regular expression (PCRE2, Unicode); pairs merge only inside its matches (default: GPT-2's) */
    size_t least; /* pairs that occur less often are not merged (default: 2) */
    uint64_t reserved[4]; /* zero: room for later versions */
} bo_tokenizer_desc;
/* Learns a byte-level BPE from text files, also gzipped: the most frequent pair first, ties to the smaller ids. */
BO_API bo_status bo_tokenizer_train(bo_context *context, const bo_tokenizer_desc *desc, const char *const *paths,
                                    size_t path_count, bo_tokenizer **out);
/* Loads a tokenizer.json, the one of a folder, or the one of a model that was saved as one ".safetensors" file (model.h). A
 * folder of a Bochner model without one has the tokenizer of bytes. BPE, byte-level or with byte fallback as in Llama, with the normalizers, pre-tokenizers, decoders and post-processors that these
 * use. Anything else is refused by name. */
BO_API bo_status bo_tokenizer_load(bo_context *context, const char *path, bo_tokenizer **out);
/* Writes a tokenizer.json. */
BO_API bo_status bo_tokenizer_save(bo_context *context, const bo_tokenizer *tokenizer, const char *path);
BO_API void bo_tokenizer_destroy(bo_tokenizer *tokenizer);

/* The number of ids: all ids are below it. */
BO_API size_t bo_tokenizer_vocab(const bo_tokenizer *tokenizer);

/* A list of ids that grows; it begins as {0}. */
typedef struct bo_ids {
    int32_t *items;
    size_t count, capacity;
} bo_ids;
/* Appends the ids of `bytes` bytes of text, which need not be terminated. Bytes that are not UTF-8 become byte tokens.
 * BO_FORMAT: a character has no token, and the tokenizer has neither an unknown token nor tokens for its bytes; the message
 * names the character and its place. `specials`: texts of special tokens become these tokens. */
BO_API bo_status bo_tokenizer_encode(bo_context *context, const bo_tokenizer *tokenizer, const char *text, size_t bytes,
                                     bool specials, bo_ids *out);
/* Releases the items; the list is {0} again. `ids` may be NULL. */
BO_API void bo_ids_free(bo_ids *ids);
/* The text of ids, terminated, released with bo_free. For byte-level tokenizers decode(encode(x)) is x, byte for byte. */
BO_API bo_status bo_tokenizer_decode(bo_context *context, const bo_tokenizer *tokenizer, const int32_t *ids,
                                     size_t count, char **out, size_t *bytes);
/* The bytes of one id inside a text, for streaming; owned by the tokenizer. `bytes` may be NULL. */
BO_API const char *bo_tokenizer_piece(const bo_tokenizer *tokenizer, int32_t id, size_t *bytes);

/* ---- corpora ------------------------------------------------------------------------------------------------------ */

typedef struct bo_corpus bo_corpus; /* immutable, shared by threads */

/* Zero means the default, except paths (or memory) and tokenizer. */
typedef struct bo_corpus_desc {
    const char *const *paths; /* text, or JSON lines (.jsonl, .json; one object per line), also gzipped */
    size_t path_count;
    const bo_tokenizer *tokenizer; /* must outlive the corpus */
    const char *field;             /* JSON lines: the name of the text (default: "text") */
    const char *separator;         /* text: ends a document ("<|endoftext|>") (default: a file is a document) */
    double skip, take; /* the part of all tokens from `skip` to skip + take, as fractions; take 0: to the end. Cut at a
                        * token; a validation set is the last part */
    /* Instead of paths: text in memory, which need not outlive the call. */
    const char *memory;
    size_t memory_bytes;
    bool memory_lines;    /* the memory holds JSON lines */
    uint64_t reserved[4]; /* zero: room for later versions */
} bo_corpus_desc;
/* BO_FORMAT or BO_INVALID, with file and place: no text at all, a line that is no JSON, a missing field, a character that the
 * tokenizer cannot encode, bytes that are not UTF-8 where the tokenizer has no byte tokens (where it has, they are a warning in
 * the log). If the tokenizer has an end token, it follows each document. Empty documents are left out. */
BO_API bo_status bo_corpus_open(bo_context *context, const bo_corpus_desc *desc, bo_corpus **out);
BO_API void bo_corpus_close(bo_corpus *corpus);
/* The number of tokens. */
BO_API uint64_t bo_corpus_tokens(const bo_corpus *corpus);
/* ids[i] = token first + i; first + count must be at most the number of tokens. */
BO_API bo_status bo_corpus_read(bo_context *context, const bo_corpus *corpus, uint64_t first, size_t count,
                                int32_t *ids);

/* ==== Advanced ==================================================================================================== */

/* ---- tokenizers --------------------------------------------------------------------------------------------------- */

/* The bytes of tokenizer.json; *bytes is released with bo_free. */
BO_API bo_status bo_tokenizer_save_memory(bo_context *context, const bo_tokenizer *tokenizer, void **bytes,
                                          size_t *size);
BO_API bo_status bo_tokenizer_load_memory(bo_context *context, const void *bytes, size_t size, bo_tokenizer **out);
/* Whether ids are bytes. */
BO_API bool bo_tokenizer_is_raw(const bo_tokenizer *tokenizer);
/* The id of the token with this text; -1: there is none. */
BO_API int32_t bo_tokenizer_find(const bo_tokenizer *tokenizer, const char *token);
/* The id that ends a document ("<|endoftext|>", "</s>", …); -1: there is none. */
BO_API int32_t bo_tokenizer_end(const bo_tokenizer *tokenizer);
/* Changes when ids would change; a model remembers it. */
BO_API uint64_t bo_tokenizer_fingerprint(const bo_tokenizer *tokenizer);
/* Puts the special tokens of the tokenizer's template around *ids ("<s>" before a text, …); often there are none.
 * bo_tokenizer_encode adds none of these. */
BO_API bo_status bo_tokenizer_add_specials(bo_context *context, const bo_tokenizer *tokenizer, bo_ids *ids);

/* ---- corpora ------------------------------------------------------------------------------------------------------ */

/* A corpus of ids, which are copied; one document. BO_INVALID: there are none, or the tokenizer lacks one of them. */
BO_API bo_status bo_corpus_open_ids(bo_context *context, const bo_tokenizer *tokenizer, const int32_t *ids,
                                    size_t count, bo_corpus **out);
/* Bytes of the text that the tokens represent, for bits per byte. */
BO_API uint64_t bo_corpus_bytes(const bo_corpus *corpus);
/* The number of documents. */
BO_API uint64_t bo_corpus_documents(const bo_corpus *corpus);
/* Of the tokens; a resumed run needs the same. */
BO_API uint64_t bo_corpus_fingerprint(const bo_corpus *corpus);
/* The token at which the first document after token `at` begins; bo_corpus_tokens: there is none. */
BO_API uint64_t bo_corpus_next_document(const bo_corpus *corpus, uint64_t at);

/* ---- batches ------------------------------------------------------------------------------------------------------ */

/* Windows of `context` inputs and the token that follows each input. An epoch takes every window once, in an order of its own
 * (a keyed permutation, computed and not stored); each epoch starts at another offset. Zero means the default, except corpus,
 * context and batch. */
typedef struct bo_batches_desc {
    const bo_corpus *corpus;
    size_t context;
    size_t batch;       /* sequences per step over all parts */
    size_t part, parts; /* this part of the sequences of each step, and the number of parts (ranks) (default: 1) */
    uint64_t seed;
    bool documents;       /* runs end where documents end: see `lengths` of bo_batches_fill */
    uint64_t reserved[4]; /* zero: room for later versions */
} bo_batches_desc;
/* BO_INVALID: the corpus is too short. */
BO_API bo_status bo_batches_check(bo_context *context, const bo_batches_desc *desc);
/* Sequences `first` to first + count of step `step`: tokens and targets, count x context each. `lengths` (or NULL) has room for
 * *runs numbers and receives the lengths of the runs that the count x context rows consist of; *runs becomes their number. A run
 * is a window, or (documents) the part of a window within one document. If there are more runs than room, the last ones are
 * taken together. `positions` (or NULL) counts from 0 in each run. */
BO_API bo_status bo_batches_fill(bo_context *context, const bo_batches_desc *desc, uint64_t step, size_t first,
                                 size_t count, int32_t *tokens, int32_t *targets, int32_t *positions, size_t *lengths,
                                 size_t *runs);
/* The number of windows in an epoch. */
BO_API uint64_t bo_batches_per_epoch(const bo_batches_desc *desc);

#ifdef __cplusplus
}
#endif
#endif
