/* Merges the symbols of a word: the pair of lowest rank first, the leftmost among equals, until no pair has a rank. */
#include "encoder.h"

enum { SHORT = BO_SIZE(32, 2) }; /* up to this length, searching every pair each time is faster than a heap */

/* The merge of two symbols; NULL: there is none. */
static const bo_merge *find(const bo_encoder *encoder, int32_t left, int32_t right)
{
    const bo_merge *merge = bo_merges_find(&encoder->tokenizer->merges, left, right);
    return merge && bo_encoder_avoids(encoder, merge->id, false) ? NULL : merge;
}

static uint32_t rank_of(const bo_merge *merge)
{
    return merge ? merge->rank : UINT32_MAX;
}

static void merge_short(bo_encoder *encoder)
{
    bo_merging *word = &encoder->merging;
    const bo_merge *found[SHORT]; /* [i]: the merge of symbols i and i + 1 */
    int32_t *ids = word->ids;
    size_t count = word->count;
    for (size_t i = 0; i + 1 < count; ++i) found[i] = find(encoder, ids[i], ids[i + 1]);
    while (count > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < count; ++i)
            if (rank_of(found[i]) < rank_of(found[best])) best = i;
        if (!found[best]) break;
        ids[best] = found[best]->id;
        --count;
        for (size_t i = best + 1; i < count; ++i) ids[i] = ids[i + 1];
        for (size_t i = best + 1; i + 1 < count; ++i) found[i] = found[i + 1];
        if (best > 0) found[best - 1] = find(encoder, ids[best - 1], ids[best]);
        if (best + 1 < count) found[best] = find(encoder, ids[best], ids[best + 1]);
    }
    word->count = count;
}

/* ---- long words: a linked list and a heap, n log n --------------------------------------------------------------- */

static void push(uint64_t *heap, size_t *count, uint64_t item)
{
    size_t at = (*count)++;
    for (; at > 0 && heap[(at - 1) / 2] > item; at = (at - 1) / 2) heap[at] = heap[(at - 1) / 2];
    heap[at] = item;
}

static uint64_t pop(uint64_t *heap, size_t *count)
{
    uint64_t top = heap[0], last = heap[--*count];
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < *count; at = child) {
        if (child + 1 < *count && heap[child + 1] < heap[child]) ++child;
        if (heap[child] >= last) break;
        heap[at] = heap[child];
    }
    heap[at] = last;
    return top;
}

/* A merge removes one entry from the heap and adds at most two, so 2 x count entries suffice. */
static bo_status reserve(bo_context *context, bo_merging *word)
{
    if (word->heap_capacity >= 2 * word->count) return BO_OK;
    if (word->count >= UINT32_MAX)
        return bo_fail(context, BO_INVALID, "a word of %zu symbols is too long to merge", word->count);
    bo_free(word->before);
    bo_free(word->after);
    bo_free(word->heap);
    word->heap_capacity = 0;
    word->before = bo_alloc_raw(context, word->count, sizeof *word->before, "merging a long word");
    word->after = bo_alloc_raw(context, word->count, sizeof *word->after, "merging a long word");
    word->heap = bo_alloc_raw(context, 2 * word->count, sizeof *word->heap, "merging a long word");
    if (!word->before || !word->after || !word->heap) return BO_MEMORY;
    word->heap_capacity = 2 * word->count;
    return BO_OK;
}

static void offer(bo_encoder *encoder, size_t *heap_count, uint32_t left, uint32_t right)
{
    const bo_merging *word = &encoder->merging;
    const bo_merge *merge = find(encoder, word->ids[left], word->ids[right]);
    if (merge) push(word->heap, heap_count, (uint64_t)merge->rank << 32 | left);
}

/* Symbols that were merged into their left neighbor are -1. An entry of the heap is valid only if the pair at its
 * position still has its rank. */
static void merge_long(bo_encoder *encoder)
{
    bo_merging *word = &encoder->merging;
    const uint32_t count = (uint32_t)word->count, none = UINT32_MAX;
    size_t heap_count = 0, kept = 0;
    for (uint32_t i = 0; i < count; ++i) {
        word->before[i] = i > 0 ? i - 1 : none;
        word->after[i] = i + 1 < count ? i + 1 : none;
        if (i + 1 < count) offer(encoder, &heap_count, i, i + 1);
    }
    while (heap_count > 0) {
        const uint64_t top = pop(word->heap, &heap_count);
        const uint32_t left = (uint32_t)top, right = word->after[left];
        if (word->ids[left] < 0 || right == none) continue;
        const bo_merge *merge = find(encoder, word->ids[left], word->ids[right]);
        if (!merge || merge->rank != top >> 32) continue;
        word->ids[left] = merge->id;
        word->ids[right] = -1;
        const uint32_t next = word->after[left] = word->after[right];
        if (next != none) word->before[next] = left;
        if (word->before[left] != none) offer(encoder, &heap_count, word->before[left], left);
        if (next != none) offer(encoder, &heap_count, left, next);
    }
    for (uint32_t i = 0; i < count; ++i)
        if (word->ids[i] >= 0) word->ids[kept++] = word->ids[i];
    word->count = kept;
}

bo_status bo_merge_symbols(bo_encoder *encoder)
{
    bo_merging *word = &encoder->merging;
    if (word->count <= SHORT) {
        merge_short(encoder);
        return BO_OK;
    }
    BO_TRY(reserve(encoder->context, word));
    merge_long(encoder);
    return BO_OK;
}
