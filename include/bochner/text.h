/* Bochner: text in, token ids out. Tokenizers are bytes, or byte-pair encodings read from, trained into and written as
 * Hugging Face's tokenizer.json; a corpus is files of text or JSON lines mapped into memory; batches are a pure function
 * of a seed and a step, so that training resumes to the token.
 *
 *     bo_tokenizer *tokenizer;
 *     bo_tokenizer_create(context, &tokenizer);                        // 256 ids, one a byte
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

/* ---- tokenizers --------------------------------------------------------------------------------------------------- */

typedef struct bo_tokenizer bo_tokenizer; /* immutable, shared by threads */

/* Every byte is a token: ids 0 to 255. Any text, nothing unknown. */
BO_API bo_status bo_tokenizer_create(bo_context *context, bo_tokenizer **out);

/* Zero means the default, except vocab. */
typedef struct bo_tokenizer_desc {
    size_t vocab;               /* ids in all: 256 bytes, merges, specials; at least 256 + specials */
    const char *const *special; /* texts that are one token each wherever they stand; NULL: "<|endoftext|>" alone */
    size_t special_count;
    const char *pattern; /* regular expression (PCRE2, Unicode) whose matches are merged within; NULL: GPT-2's */
    size_t least;        /* pairs seen less often are not merged; 0: 2 */
} bo_tokenizer_desc;
/* Byte-level BPE learned from text files (.gz too): the most frequent pair first, ties to the smaller ids. */
BO_API bo_status bo_tokenizer_train(bo_context *context, const bo_tokenizer_desc *desc, const char *const *paths,
                                    size_t path_count, bo_tokenizer **out);
/* A tokenizer.json, or a folder that holds one (a folder of ours without one: bytes). BPE, byte-level or with byte
 * fallback as in Llama; normalizers, pre-tokenizers, decoders and post-processors as far as these need; what is not
 * known is refused by name. */
BO_API bo_status bo_tokenizer_load(bo_context *context, const char *path, bo_tokenizer **out);
BO_API bo_status bo_tokenizer_save(bo_context *context, const bo_tokenizer *tokenizer, const char *path);
BO_API void bo_tokenizer_destroy(bo_tokenizer *tokenizer); /* NULL is fine */

BO_API size_t bo_tokenizer_vocab(const bo_tokenizer *tokenizer); /* ids are below this */
BO_API bool bo_tokenizer_is_raw(const bo_tokenizer *tokenizer);
BO_API int32_t bo_tokenizer_find(const bo_tokenizer *tokenizer, const char *token); /* id of a token's text; -1: none */
/* The id that ends a document ("<|endoftext|>", "</s>", …), -1: none. */
BO_API int32_t bo_tokenizer_end(const bo_tokenizer *tokenizer);
/* Changes when ids would: a model remembers it. */
BO_API uint64_t bo_tokenizer_fingerprint(const bo_tokenizer *tokenizer);

/* ids of `bytes` bytes of text, which need not be terminated; freed with bo_ids_free. Bytes that are not UTF-8 become
 * byte tokens. BO_FORMAT: a character has no token, there is none for what is unknown, and none for its bytes; it and its
 * place are named. specials: texts of special tokens become those tokens. */
typedef struct bo_ids {
    int32_t *items;
    size_t count, capacity;
} bo_ids;
BO_API bo_status bo_tokenizer_encode(bo_context *context, const bo_tokenizer *tokenizer, const char *text, size_t bytes,
                                     bool specials, bo_ids *out); /* appended to *out, which begins as {0} */
BO_API void bo_ids_free(bo_ids *ids);
/* Puts the special tokens around *ids that the tokenizer's template asks for ("<s>" before a text, …); often none. Encoding
 * itself adds nothing. */
BO_API bo_status bo_tokenizer_add_specials(bo_context *context, const bo_tokenizer *tokenizer, bo_ids *ids);
/* The text of ids, freed with bo_free (data.h); decode(encode(x)) is x, byte for byte, for byte-level ones. */
BO_API bo_status bo_tokenizer_decode(bo_context *context, const bo_tokenizer *tokenizer, const int32_t *ids,
                                     size_t count, char **out, size_t *bytes);
/* The bytes of one id as they stand in running text, for streaming; owned by the tokenizer. bytes NULL: not wanted. */
BO_API const char *bo_tokenizer_piece(const bo_tokenizer *tokenizer, int32_t id, size_t *bytes);

/* ---- corpora ------------------------------------------------------------------------------------------------------ */

typedef struct bo_corpus bo_corpus; /* immutable, shared by threads */

typedef struct bo_corpus_desc {
    const char *const *paths; /* text, or JSON lines (.jsonl, .json; one object a line), each also gzipped */
    size_t path_count;
    const bo_tokenizer *tokenizer; /* must outlive the corpus */
    const char *field;             /* of JSON lines: the text's name; NULL: "text" */
    const char *separator;         /* in text files: ends a document ("<|endoftext|>"); NULL: a file is a document */
    double skip, take; /* the part of all tokens from `skip` to skip + take, as fractions; take 0: to the end.
                                    * Cut at a token; a validation set is the last part */
} bo_corpus_desc;
/* BO_FORMAT or BO_INVALID, and the file and place are named: no text at all, a line that is no JSON, a field that is
 * missing, a character that the tokenizer has no token for (nor one for what is unknown), bytes that are not UTF-8 where it
 * has no tokens for them (where it has, they are worth a warning in the
 * log). Documents of a tokenizer with an end token are followed by it; an empty document is none. */
BO_API bo_status bo_corpus_open(bo_context *context, const bo_corpus_desc *desc, bo_corpus **out);
/* Of ids that are there already, copied; one document. BO_INVALID: there is none, or one that the tokenizer does not have. */
BO_API bo_status bo_corpus_open_ids(bo_context *context, const bo_tokenizer *tokenizer, const int32_t *ids,
                                    size_t count, bo_corpus **out);
BO_API void bo_corpus_close(bo_corpus *corpus); /* NULL is fine */
BO_API uint64_t bo_corpus_tokens(const bo_corpus *corpus);
BO_API uint64_t bo_corpus_bytes(const bo_corpus *corpus); /* of the text these tokens stand for: bits per byte */
BO_API uint64_t bo_corpus_documents(const bo_corpus *corpus);
BO_API uint64_t bo_corpus_fingerprint(const bo_corpus *corpus); /* of the tokens: a resumed run needs the same */
/* ids[i] = token first + i, for first + count <= tokens. */
BO_API bo_status bo_corpus_read(bo_context *context, const bo_corpus *corpus, uint64_t first, size_t count,
                                int32_t *ids);
/* The first document that begins after token `at` begins at the token that is returned; bo_corpus_tokens: none does. */
BO_API uint64_t bo_corpus_next_document(const bo_corpus *corpus, uint64_t at);

/* ---- batches ------------------------------------------------------------------------------------------------------ */

/* Windows of `context` inputs and the tokens that follow each. An epoch takes every window once in an order of its own (a
 * keyed permutation, computed and not stored), each epoch from another offset. */
typedef struct bo_batches_desc {
    const bo_corpus *corpus;
    size_t context, batch; /* batch: sequences of a step over all parts */
    size_t part, parts;    /* of each step's sequences (ranks): this one's; parts 0: 1 */
    uint64_t seed;
    bool documents; /* sequences end where documents do: see bo_batch_lengths */
} bo_batches_desc;
/* Sequences `first` to first + count of step `step`: tokens and targets, count x context each. lengths (NULL: not wanted):
 * of the runs within documents that the count x context rows consist of, room for *runs of them; the first rows of a run
 * begin a document or a window; positions (NULL: not wanted) count from the start of each run. Where documents is false a
 * run is a window. More runs than there is room for: the last ones are taken together. */
BO_API bo_status bo_batches_check(bo_context *context,
                                  const bo_batches_desc *desc); /* BO_INVALID: the corpus is too short */
BO_API bo_status bo_batches_fill(bo_context *context, const bo_batches_desc *desc, uint64_t step, size_t first,
                                 size_t count, int32_t *tokens, int32_t *targets, int32_t *positions, size_t *lengths,
                                 size_t *runs);
BO_API uint64_t bo_batches_per_epoch(const bo_batches_desc *desc); /* of an epoch */

#ifdef __cplusplus
}
#endif
#endif
