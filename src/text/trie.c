/* A trie whose edges are in one hash table. */
#include "trie.h"

bo_status bo_trie_create(bo_context *context, size_t bytes, bo_trie *out)
{
    size_t places = 16;
    *out = (bo_trie){0};
    if (bytes >= UINT32_MAX / 4)
        return bo_fail(context, BO_UNSUPPORTED, "a vocabulary of %zu bytes is too long", bytes);
    while (places < 2 * (bytes + 1)) places *= 2;
    out->edges = bo_alloc(context, places, sizeof *out->edges, "a vocabulary");
    out->values = bo_alloc_raw(context, bytes + 1, sizeof *out->values, "a vocabulary");
    out->mask = places - 1;
    out->count = 1;
    if (!out->edges || !out->values) {
        bo_trie_free(out);
        return BO_MEMORY;
    }
    out->values[0] = -1;
    return BO_OK;
}

void bo_trie_free(bo_trie *trie)
{
    bo_free(trie->edges);
    bo_free(trie->values);
    *trie = (bo_trie){0};
}

static uint32_t grow(bo_trie *trie, uint32_t node, unsigned char byte)
{
    const uint64_t key = ((uint64_t)node << 8 | byte) + 1, hash = key * UINT64_C(0x9E3779B97F4A7C15);
    const uint32_t new = trie->count++;
    trie->values[new] = -1;
    if (node == 0) {
        trie->first[byte] = new;
        return new;
    }
    size_t at = (size_t)(hash ^ hash >> 32) & trie->mask;
    while (trie->edges[at].key) at = (at + 1) & trie->mask;
    trie->edges[at] = (bo_trie_edge){key, new};
    return new;
}

void bo_trie_add(bo_trie *trie, const char *text, size_t length, int32_t value)
{
    uint32_t node = 0;
    for (size_t i = 0; i < length; ++i) {
        const uint32_t next = bo_trie_step(trie, node, (unsigned char)text[i]);
        node = next ? next : grow(trie, node, (unsigned char)text[i]);
    }
    if (length > 0) trie->values[node] = value;
}
