/* Text to ids: added tokens are found first; the rest is normalized and split into words, and each word is merged. */
#ifndef BO_TEXT_ENCODER_H
#define BO_TEXT_ENCODER_H

#include "buffer.h"
#include "normalize.h"
#include "tokenizer.h"

/* A word and its ids. A slot of the cache holds the most recent word that maps to it. */
enum { BO_CACHED_WORD = 22, BO_CACHED_IDS = 10 };
typedef struct bo_cached {
    uint8_t length, count; /* length 0: empty */
    char word[BO_CACHED_WORD];
    int32_t ids[BO_CACHED_IDS];
} bo_cached;

/* Unigram: the best path to a position of a word. */
typedef struct bo_path {
    double score;
    size_t start; /* of its last token; SIZE_MAX: no path */
    int32_t id;
} bo_path;

/* Workspace for encoding one word. */
typedef struct bo_merging {
    int32_t *ids; /* symbols; in the end, tokens */
    size_t count, capacity;
    uint32_t *before, *after; /* neighbors of each symbol while a long word is merged */
    uint64_t *heap;           /* rank << 32 | symbol */
    size_t heap_capacity;
    bo_path *paths;
    size_t path_capacity;
} bo_merging;

/* The first character of a text that has no token, for tokenizers without an unknown token. */
typedef struct bo_missed {
    char character[8];
    size_t bytes; /* 0: none */
    size_t place;
} bo_missed;

/* One per thread; `context` belongs to that thread. */
typedef struct bo_encoder {
    bo_context *context;
    const bo_tokenizer *tokenizer;
    bool specials;
    /* One per byte of the text of a run, and of the normalized text of a section: if it is 1, special tokens are plain
     * text. NULL: all are 0. */
    const unsigned char *marks, *normal_marks;
    bo_matcher matcher;
    bo_normalizing normal;
    bo_buffer marked[BO_MAX_STEPS], copies[BO_MAX_STEPS], byte_level[BO_MAX_STEPS]; /* by splitter */
    bo_buffer spelled, copy;
    bo_buffer joined, joined_marks; /* a section whose runs of equal marks were normalized one by one, and its marks */
    bo_cached *cache;
    size_t cache_mask;
    bo_merging merging;
    bo_ids *out;
    size_t invalid; /* position of the first byte that is not UTF-8 in the text of the last run; SIZE_MAX: none */
    bo_missed missed;
    bo_status failed; /* of the search for added tokens */
} bo_encoder;

/* bytes: approximate number of bytes to encode. */
bo_status bo_encoder_create(bo_context *context, const bo_tokenizer *tokenizer, bool specials, size_t bytes,
                            bo_encoder *out);
void bo_encoder_free(bo_encoder *encoder);
/* Appends to *out. */
bo_status bo_encoder_run(bo_encoder *encoder, const char *text, size_t length, bo_ids *out);
/* bo_tokenizer_encode with special tokens, except where bytes are marked. marks: one per byte, or NULL. */
bo_status bo_tokenizer_encode_marked(bo_context *context, const bo_tokenizer *tokenizer, const char *text, size_t bytes,
                                     const unsigned char *marks, bo_ids *out);
/* Fails with a message that names the character without a token and its position: "FILE: byte 7 of the file". */
bo_status bo_missed_report(bo_context *context, const bo_missed *missed, const char *where, size_t place,
                           const char *of);

/* ---- parts of the encoder ---------------------------------------------------------------------------------------- */

/* True if the model must not produce this token for marked text: a special token of several characters. The special
 * tokens of the template were found before, so the text comes from a message. `single`: the text is one character,
 * which has no other token. */
static inline bool bo_encoder_avoids(const bo_encoder *encoder, int32_t id, bool single)
{
    return encoder->marks && !single && bo_tokenizer_is_special(encoder->tokenizer, id);
}

/* The id of a token that the model may produce; -1: none. */
static inline int32_t bo_encoder_symbol(const bo_encoder *encoder, const char *text, size_t length)
{
    const int32_t id = bo_tokenizer_symbol(encoder->tokenizer, text, length);
    return id >= 0 && bo_encoder_avoids(encoder, id, bo_utf8_length(text, length) == length) ? -1 : id;
}

/* Sends each word of the text, which is valid UTF-8, to bo_encode_word, from this splitter on. lead: the number of
 * bytes at the start that come from the first character of the input. */
bo_status bo_split_text(bo_encoder *encoder, size_t step, const char *text, size_t length, size_t lead);
/* Appends the ids of one word to encoder->out. */
bo_status bo_encode_word(bo_encoder *encoder, const char *text, size_t length);
/* Reserves `count` ids in encoder->merging. */
bo_status bo_merging_reserve(bo_encoder *encoder, size_t count);
/* Merges the symbols of encoder->merging, lowest rank first, leftmost of equal ones. */
bo_status bo_merge_symbols(bo_encoder *encoder);
/* The tokens of a word of the models Unigram and WordPiece, in encoder->merging. */
bo_status bo_encode_unigram(bo_encoder *encoder, const char *text, size_t length);
bo_status bo_encode_wordpiece(bo_encoder *encoder, const char *text, size_t length);
/* Appends the unknown token to encoder->merging, or records that there is none. text: the unknown character. */
void bo_add_unknown(bo_encoder *encoder, const char *text, size_t length);
/* Appends the tokens <0x0A> of bytes to encoder->merging; false: some byte has none. */
bool bo_add_bytes(bo_encoder *encoder, const char *text, size_t length);

/* A search for added tokens: a token, and the text before it that has not been used. */
typedef struct bo_added_search {
    size_t search, begin; /* start of the remaining search; start of the next section */
} bo_added_search;
/* The next added token: the section before it is *from to *to, and may be empty. NULL: none; the section is the rest.
 * normalized: selects the tokens to search for. A failure is left in encoder->failed. */
const bo_added *bo_added_next(bo_encoder *encoder, bool normalized, const char *text, size_t length,
                              bo_added_search *search, size_t *from, size_t *to);

/* ---- encoders on the pool ---------------------------------------------------------------------------------------- */

/* One encoder per worker, each with its own context. */
typedef struct bo_encoders {
    bo_context **contexts;
    bo_encoder *items;
    int count;
} bo_encoders;

bo_status bo_encoders_create(bo_context *context, const bo_tokenizer *tokenizer, bool specials, size_t bytes,
                             bo_encoders *out);
void bo_encoders_free(bo_encoders *encoders);
/* Returns the failure of a worker, with its message. */
bo_status bo_encoders_failed(bo_context *context, const bo_encoders *encoders, bo_status status);

#endif
