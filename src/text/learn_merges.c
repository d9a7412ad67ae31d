/* Byte-pair encoding (Sennrich, Haddow and Birch 2016). Counts of pairs are kept up to date word by word. A pair of symbols
 * that exist never becomes more frequent, for a merge only takes pairs away and makes pairs of its own symbol; so an entry of
 * the heap is never too small, and one that turns out too large goes back with the count of now. */
#include "learn.h"
#include "vocabulary.h"

#include <string.h>

/* A pair, how often it occurs, and the words it was seen in (some of which may have lost it since). */
typedef struct bo_counted_pair {
    uint64_t pair;
    uint64_t count;
    uint32_t places; /* index + 1 of the last bo_place; 0: none */
} bo_counted_pair;

typedef struct bo_place {
    uint32_t word, before;
} bo_place;

typedef struct bo_merge_candidate {
    uint64_t count, pair;
    uint32_t index;
} bo_merge_candidate;

/* Word w is the `lengths[w]` symbols from starts[w] on. */
typedef struct bo_learning {
    bo_context *context;
    const bo_tally *words;
    int32_t *symbols;
    size_t *starts;
    uint32_t *lengths;
    bo_counted_pair *pairs;
    size_t pair_count, pair_capacity;
    uint32_t *slots; /* pair index + 1, at most half full */
    size_t mask;
    bo_place *places;
    size_t place_count, place_capacity;
    bo_merge_candidate *heap;
    size_t heap_count, heap_capacity;
} bo_learning;

/* ---- growing ------------------------------------------------------------------------------------------------------ */

/* Room for one more of `size` bytes. */
static bo_status grow(bo_context *context, void **items, size_t count, size_t *capacity, size_t size)
{
    if (count < *capacity) return BO_OK;
    size_t larger = *capacity ? 2 * *capacity : 1 << 12;
    if (count >= UINT32_MAX - 1) return bo_fail(context, BO_INVALID, "the text has too many distinct pairs");
    void *block = bo_realloc(context, *items, larger, size, "pairs of symbols");
    if (!block) return BO_MEMORY;
    *items = block;
    *capacity = larger;
    return BO_OK;
}

static uint32_t *slot_of(const bo_learning *learning, uint64_t pair)
{
    size_t at = (size_t)bo_hash_pair(pair) & learning->mask;
    while (learning->slots[at] && learning->pairs[learning->slots[at] - 1].pair != pair) at = (at + 1) & learning->mask;
    return &learning->slots[at];
}

static bo_status spread(bo_learning *learning)
{
    if (learning->slots && 2 * learning->pair_count <= learning->mask) return BO_OK;
    size_t places = learning->slots ? 2 * (learning->mask + 1) : 1 << 13;
    uint32_t *slots = bo_alloc(learning->context, places, sizeof *slots, "pairs of symbols");
    if (!slots) return BO_MEMORY;
    bo_free(learning->slots);
    learning->slots = slots;
    learning->mask = places - 1;
    for (size_t i = 0; i < learning->pair_count; ++i) *slot_of(learning, learning->pairs[i].pair) = (uint32_t)i + 1;
    return BO_OK;
}

/* ---- pairs -------------------------------------------------------------------------------------------------------- */

/* Pairs from `new_from` on are new in this merge, and only of them the words must be noted. */
static bo_status add_pair(bo_learning *learning, uint64_t pair, uint64_t count, uint32_t word, size_t new_from)
{
    uint32_t *slot = slot_of(learning, pair);
    if (!*slot) {
        void *pairs = learning->pairs;
        bo_status status =
            grow(learning->context, &pairs, learning->pair_count, &learning->pair_capacity, sizeof *learning->pairs);
        learning->pairs = pairs;
        BO_TRY(status);
        learning->pairs[learning->pair_count++] = (bo_counted_pair){pair, 0, 0};
        *slot = (uint32_t)learning->pair_count;
        BO_TRY(spread(learning));
        slot = slot_of(learning, pair);
    }
    size_t index = *slot - 1;
    bo_counted_pair *counted = &learning->pairs[index];
    counted->count += count;
    if (index < new_from || (counted->places && learning->places[counted->places - 1].word == word)) return BO_OK;
    void *places = learning->places;
    bo_status status =
        grow(learning->context, &places, learning->place_count, &learning->place_capacity, sizeof *learning->places);
    learning->places = places;
    BO_TRY(status);
    learning->places[learning->place_count++] = (bo_place){word, counted->places};
    counted->places = (uint32_t)learning->place_count;
    return BO_OK;
}

static bo_status add_pairs_of(bo_learning *learning, uint32_t word, size_t new_from)
{
    const int32_t *symbols = learning->symbols + learning->starts[word];
    for (uint32_t i = 0; i + 1 < learning->lengths[word]; ++i)
        BO_TRY(add_pair(learning, bo_pair(symbols[i], symbols[i + 1]), learning->words->words[word].count, word,
                        new_from));
    return BO_OK;
}

static void take_pairs_of(bo_learning *learning, uint32_t word)
{
    const int32_t *symbols = learning->symbols + learning->starts[word];
    for (uint32_t i = 0; i + 1 < learning->lengths[word]; ++i)
        learning->pairs[*slot_of(learning, bo_pair(symbols[i], symbols[i + 1])) - 1].count -=
            learning->words->words[word].count;
}

/* ---- the heap: the most frequent pair on top, of equal ones the smaller ------------------------------------------- */

static bool goes_before(const bo_merge_candidate *a, const bo_merge_candidate *b)
{
    return a->count != b->count ? a->count > b->count : a->pair < b->pair;
}

static bo_status push(bo_learning *learning, bo_merge_candidate candidate)
{
    void *heap = learning->heap;
    bo_status status =
        grow(learning->context, &heap, learning->heap_count, &learning->heap_capacity, sizeof *learning->heap);
    learning->heap = heap;
    BO_TRY(status);
    size_t at = learning->heap_count++;
    for (; at > 0 && goes_before(&candidate, &learning->heap[(at - 1) / 2]); at = (at - 1) / 2)
        learning->heap[at] = learning->heap[(at - 1) / 2];
    learning->heap[at] = candidate;
    return BO_OK;
}

static bo_merge_candidate pop(bo_learning *learning)
{
    bo_merge_candidate *heap = learning->heap, top = heap[0], last = heap[--learning->heap_count];
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < learning->heap_count; at = child) {
        if (child + 1 < learning->heap_count && goes_before(&heap[child + 1], &heap[child])) ++child;
        if (!goes_before(&heap[child], &last)) break;
        heap[at] = heap[child];
    }
    heap[at] = last;
    return top;
}

static bo_status push_pairs(bo_learning *learning, size_t from, uint64_t least)
{
    for (size_t i = from; i < learning->pair_count; ++i)
        if (learning->pairs[i].count >= least)
            BO_TRY(
                push(learning, (bo_merge_candidate){learning->pairs[i].count, learning->pairs[i].pair, (uint32_t)i}));
    return BO_OK;
}

/* ---- merging ------------------------------------------------------------------------------------------------------ */

static bool has_pair(const bo_learning *learning, uint32_t word, uint64_t pair)
{
    const int32_t *symbols = learning->symbols + learning->starts[word];
    for (uint32_t i = 0; i + 1 < learning->lengths[word]; ++i)
        if (bo_pair(symbols[i], symbols[i + 1]) == pair) return true;
    return false;
}

/* Every occurrence of the pair in the word, from the left, becomes `id`. */
static void rewrite(bo_learning *learning, uint32_t word, uint64_t pair, int32_t id)
{
    int32_t *symbols = learning->symbols + learning->starts[word];
    uint32_t length = learning->lengths[word], kept = 0;
    for (uint32_t i = 0; i < length; ++i) {
        bool joins = i + 1 < length && bo_pair(symbols[i], symbols[i + 1]) == pair;
        symbols[kept++] = joins ? id : symbols[i];
        if (joins) ++i;
    }
    learning->lengths[word] = kept;
}

static bo_status merge_pair(bo_learning *learning, uint32_t index, int32_t id, uint64_t least)
{
    const uint64_t pair = learning->pairs[index].pair;
    const size_t new_from = learning->pair_count;
    for (uint32_t place = learning->pairs[index].places; place; place = learning->places[place - 1].before) {
        uint32_t word = learning->places[place - 1].word;
        if (!has_pair(learning, word, pair)) continue;
        take_pairs_of(learning, word);
        rewrite(learning, word, pair, id);
        BO_TRY(add_pairs_of(learning, word, new_from));
    }
    return push_pairs(learning, new_from, least);
}

/* ---- all of it ---------------------------------------------------------------------------------------------------- */

static bo_status prepare(bo_learning *learning, const int32_t byte_ids[256], uint64_t least)
{
    const bo_tally *words = learning->words;
    size_t total = 0;
    for (size_t w = 0; w < words->count; ++w) total += words->words[w].length;
    learning->symbols = bo_alloc_raw(learning->context, total, sizeof *learning->symbols, "the symbols of words");
    learning->starts = bo_alloc_raw(learning->context, words->count, sizeof *learning->starts, "words");
    learning->lengths = bo_alloc_raw(learning->context, words->count, sizeof *learning->lengths, "words");
    if (!learning->symbols || !learning->starts || !learning->lengths) return BO_MEMORY;
    BO_TRY(spread(learning));
    for (size_t w = 0, at = 0; w < words->count; ++w) {
        const bo_word *word = &words->words[w];
        learning->starts[w] = at;
        learning->lengths[w] = word->length;
        for (uint32_t i = 0; i < word->length; ++i) learning->symbols[at++] = byte_ids[(unsigned char)word->text[i]];
        BO_TRY(add_pairs_of(learning, (uint32_t)w, 0));
    }
    return push_pairs(learning, 0, least);
}

static bo_status learn(bo_learning *learning, int32_t first_id, size_t most, uint64_t least, int32_t (*merges)[2],
                       size_t *count)
{
    while (*count < most && learning->heap_count > 0) {
        bo_merge_candidate best = pop(learning);
        uint64_t now = learning->pairs[best.index].count;
        if (now != best.count) {
            if (now >= least) BO_TRY(push(learning, (bo_merge_candidate){now, best.pair, best.index}));
            continue;
        }
        merges[*count][0] = (int32_t)(best.pair >> 32);
        merges[*count][1] = (int32_t)best.pair;
        BO_TRY(merge_pair(learning, best.index, first_id + (int32_t)*count, least));
        if (++*count % 64 == 0) BO_TRY(bo_progress(learning->context, "merging", (double)*count, (double)most));
    }
    return BO_OK;
}

bo_status bo_learn_merges(bo_context *context, const bo_tally *words, const int32_t byte_ids[256], int32_t first_id,
                          size_t most, uint64_t least, int32_t (*merges)[2], size_t *count)
{
    bo_learning learning = {.context = context, .words = words};
    *count = 0;
    bo_status status = prepare(&learning, byte_ids, least);
    if (status == BO_OK) status = learn(&learning, first_id, most, least, merges, count);
    bo_free(learning.symbols);
    bo_free(learning.starts);
    bo_free(learning.lengths);
    bo_free(learning.pairs);
    bo_free(learning.slots);
    bo_free(learning.places);
    bo_free(learning.heap);
    return status;
}
