/* Training of a byte-pair encoding: words are counted; then the most frequent pair of symbols is merged repeatedly. */
#ifndef BO_TEXT_LEARN_H
#define BO_TEXT_LEARN_H

#include "documents.h"
#include "pattern.h"

enum { BO_MAX_WORD = 256 }; /* longer words (such as base64 data) are counted in pieces of this size */

typedef struct bo_word {
    const char *text; /* pointer into its document */
    uint32_t length;
    uint64_t count;
} bo_word;

/* Distinct words: open addressing, at most half full, slots hold index + 1. */
typedef struct bo_tally {
    bo_word *words;
    size_t count, capacity;
    uint32_t *slots;
    size_t mask;
} bo_tally;

bo_status bo_tally_create(bo_context *context, bo_tally *out);
bo_status bo_tally_add(bo_context *context, bo_tally *tally, const char *text, size_t length, uint64_t count);
void bo_tally_free(bo_tally *tally);

/* Computes at most `max_merges` merges of pairs that occur at least `min_count` times. byte_ids: the symbols of bytes;
 * merge m produces id first_id + m. */
bo_status bo_learn_merges(bo_context *context, const bo_tally *words, const int32_t byte_ids[256], int32_t first_id,
                          size_t max_merges, uint64_t min_count, int32_t (*merges)[2], size_t *count);

#endif
