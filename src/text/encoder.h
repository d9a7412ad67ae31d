/* Text to ids: added tokens are found first; the rest is normalized and split into words, and each word is merged. */
#ifndef BO_TEXT_ENCODER_H
#define BO_TEXT_ENCODER_H

#include "buffer.h"
#include "tokenizer.h"

/* A word and its ids. A slot of the cache holds the most recent word that maps to it. */
enum { BO_CACHED_WORD = 22, BO_CACHED_IDS = 10 };
typedef struct bo_cached {
    uint8_t length, count; /* length 0: empty */
    char word[BO_CACHED_WORD];
    int32_t ids[BO_CACHED_IDS];
} bo_cached;

/* Work memory for merging one word. */
typedef struct bo_merging {
    int32_t *ids; /* symbols */
    size_t count, capacity;
    uint32_t *before, *after; /* neighbors of each symbol while a long word is merged */
    uint64_t *heap;           /* rank << 32 | symbol */
    size_t heap_capacity;
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
    bo_matcher matcher;
    bo_buffer normal[2], marked[BO_MOST_STEPS], spelled;
    bo_cached *cache;
    size_t cache_mask;
    bo_merging merging;
    bo_ids *out;
    size_t invalid; /* position of the first byte that is not UTF-8 in the text of the last run; SIZE_MAX: none */
    bo_missed missed;
} bo_encoder;

/* bytes: approximate number of bytes to encode. */
bo_status bo_encoder_create(bo_context *context, const bo_tokenizer *tokenizer, bool specials, size_t bytes,
                            bo_encoder *out);
void bo_encoder_free(bo_encoder *encoder);
/* Appends to *out. */
bo_status bo_encoder_run(bo_encoder *encoder, const char *text, size_t length, bo_ids *out);
/* Fails with a message that names the character without a token and its position: "FILE: byte 7 of the file". */
bo_status bo_missed_tell(bo_context *context, const bo_missed *missed, const char *where, size_t place, const char *of);

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
