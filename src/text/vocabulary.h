/* Strings by number and numbers by string; merges by the pair they join. */
#ifndef BO_TEXT_VOCABULARY_H
#define BO_TEXT_VOCABULARY_H

#include "../base/base.h"

/* String i is bytes[starts[i]] to bytes[starts[i + 1]]. */
typedef struct bo_spellings {
    char *bytes;
    size_t *starts; /* count + 1 */
    size_t count;
} bo_spellings;

/* Reserves `count` strings of `bytes` bytes in total; bo_spellings_add then adds them in order. */
bo_status bo_spellings_create(bo_context *context, size_t count, size_t bytes, bo_spellings *out);
void bo_spellings_add(bo_spellings *strings, const char *text, size_t length);
void bo_spellings_free(bo_spellings *strings);

static inline const char *bo_spelling_at(const bo_spellings *strings, size_t index, size_t *length)
{
    *length = strings->starts[index + 1] - strings->starts[index];
    return strings->bytes + strings->starts[index];
}

uint64_t bo_hash_bytes(const char *text, size_t length);

/* Numbers of strings by their text: open addressing, at most half full; -1 is an empty slot. */
typedef struct bo_lookup {
    int32_t *slots;
    size_t mask;
} bo_lookup;

bo_status bo_lookup_create(bo_context *context, size_t count, bo_lookup *out);
int32_t bo_lookup_find(const bo_lookup *lookup, const bo_spellings *strings, const char *text, size_t length);
/* Adds string `index`. Returns the number of an equal string that is already present, or -1. */
int32_t bo_lookup_add(bo_lookup *lookup, const bo_spellings *strings, int32_t index);
/* String `index` replaces the equal string that is present. */
void bo_lookup_replace(bo_lookup *lookup, const bo_spellings *strings, int32_t index);

/* The adjacent symbols left and right become id; lower ranks first. */
typedef struct bo_merge {
    uint64_t pair; /* left << 32 | right; BO_NO_PAIR: an empty slot */
    uint32_t rank;
    int32_t id;
} bo_merge;

#define BO_NO_PAIR UINT64_MAX

typedef struct bo_merges {
    bo_merge *slots;
    size_t mask;
} bo_merges;

static inline uint64_t bo_pair(int32_t left, int32_t right)
{
    return (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
}

static inline uint64_t bo_hash_pair(uint64_t pair)
{
    pair *= UINT64_C(0x9E3779B97F4A7C15);
    return pair ^ pair >> 32;
}

bo_status bo_merges_create(bo_context *context, size_t count, bo_merges *out);
void bo_merges_add(bo_merges *merges, bo_merge merge); /* an existing pair gets the new rank */

/* NULL: the two are not merged. */
static inline const bo_merge *bo_merges_find(const bo_merges *merges, int32_t left, int32_t right)
{
    const uint64_t pair = bo_pair(left, right);
    for (size_t at = (size_t)bo_hash_pair(pair) & merges->mask;; at = (at + 1) & merges->mask) {
        if (merges->slots[at].pair == pair) return &merges->slots[at];
        if (merges->slots[at].pair == BO_NO_PAIR) return NULL;
    }
}

#endif
