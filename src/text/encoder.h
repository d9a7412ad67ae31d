/* Text to ids: the tokens that were added are found, the rest is normalized, split into words, and each word merged. */
#ifndef BO_TEXT_ENCODER_H
#define BO_TEXT_ENCODER_H

#include "buffer.h"
#include "tokenizer.h"

/* A word and its ids. A place of the cache holds whatever word came last. */
enum { BO_CACHED_WORD = 22, BO_CACHED_IDS = 10 };
typedef struct bo_cached {
    uint8_t length, count; /* length 0: empty */
    char word[BO_CACHED_WORD];
    int32_t ids[BO_CACHED_IDS];
} bo_cached;

/* Room to merge one word in. */
typedef struct bo_merging {
    int32_t *ids; /* symbols */
    size_t count, capacity;
    uint32_t *before, *after; /* of each symbol, while a long word is merged */
    uint64_t *heap;           /* rank << 32 | symbol */
    size_t heap_capacity;
} bo_merging;

/* The first character of a text that has no token, in a tokenizer that has none for what is unknown. */
typedef struct bo_missed {
    char character[8];
    size_t bytes; /* 0: there is none */
    size_t place;
} bo_missed;

/* One for each thread; `context` is that thread's. */
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
    size_t invalid; /* place of the first byte that is not UTF-8 in the text of the last run; SIZE_MAX: none */
    bo_missed missed;
} bo_encoder;

/* bytes: about how much will be encoded. */
bo_status bo_encoder_create(bo_context *context, const bo_tokenizer *tokenizer, bool specials, size_t bytes,
                            bo_encoder *out);
void bo_encoder_free(bo_encoder *encoder);
/* Appends to *out. */
bo_status bo_encoder_run(bo_encoder *encoder, const char *text, size_t length, bo_ids *out);
/* Fails with the character that has no token and where it is: "FILE: byte 7 of the file". */
bo_status bo_missed_tell(bo_context *context, const bo_missed *missed, const char *where, size_t place, const char *of);

/* ---- encoders on the pool --------------------------------------------------------------------------------------------- */

/* One for each worker, with a context of its own. */
typedef struct bo_encoders {
    bo_context **contexts;
    bo_encoder *items;
    int count;
} bo_encoders;

bo_status bo_encoders_create(bo_context *context, const bo_tokenizer *tokenizer, bool specials, size_t bytes,
                             bo_encoders *out);
void bo_encoders_free(bo_encoders *encoders);
/* Passes on what some worker failed with. */
bo_status bo_encoders_failed(bo_context *context, const bo_encoders *encoders, bo_status status);

#endif
