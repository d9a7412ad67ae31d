/* Numbers by string, found by their first bytes. */
#ifndef BO_TEXT_TRIE_H
#define BO_TEXT_TRIE_H

#include "../base/base.h"

typedef struct bo_trie_edge {
    uint64_t key; /* node << 8 | byte, plus 1; 0: an empty slot */
    uint32_t node;
} bo_trie_edge;

/* Node 0 is the root. Edges: open addressing, at most half full. */
typedef struct bo_trie {
    bo_trie_edge *edges; /* NULL: the trie is empty */
    size_t mask;
    int32_t *values;     /* by node; -1: no string ends there */
    uint32_t first[256]; /* the edges of the root; 0: none */
    uint32_t count;
} bo_trie;

/* bytes: the total number of bytes of all strings. */
bo_status bo_trie_create(bo_context *context, size_t bytes, bo_trie *out);
void bo_trie_free(bo_trie *trie);
/* A string that is present gets the new value. */
void bo_trie_add(bo_trie *trie, const char *text, size_t length, int32_t value);

/* The next node; 0: none. */
static inline uint32_t bo_trie_step(const bo_trie *trie, uint32_t node, unsigned char byte)
{
    if (node == 0) return trie->first[byte];
    const uint64_t key = ((uint64_t)node << 8 | byte) + 1;
    uint64_t hash = key * UINT64_C(0x9E3779B97F4A7C15);
    for (size_t at = (size_t)(hash ^ hash >> 32) & trie->mask;; at = (at + 1) & trie->mask) {
        if (trie->edges[at].key == key) return trie->edges[at].node;
        if (!trie->edges[at].key) return 0;
    }
}

#endif
