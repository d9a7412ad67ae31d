/* Training of a byte-pair encoding: words are counted; then the most frequent pair of symbols is merged repeatedly. */
#include <assert.h>
#include <string.h>
#include "../base/trace.h"
#include "learn.h"
#include "lines.h"
#include "unicode.h"
#include "vocabulary.h"
#include "write.h"

enum { FIRST_PLACES = BO_SIZE(1 << 12, 4), PARTS_A_THREAD = 8 };

/* ---- a tally ----------------------------------------------------------------------------------------------------- */

bo_status bo_tally_create(bo_context *context, bo_tally *out)
{
    *out = (bo_tally){.capacity = FIRST_PLACES / 2, .mask = FIRST_PLACES - 1};
    out->words = bo_alloc_raw(context, out->capacity, sizeof *out->words, "words");
    out->slots = bo_alloc(context, FIRST_PLACES, sizeof *out->slots, "words");
    if (out->words && out->slots) return BO_OK;
    bo_tally_free(out);
    return BO_MEMORY;
}

void bo_tally_free(bo_tally *tally)
{
    bo_free(tally->words);
    bo_free(tally->slots);
    *tally = (bo_tally){0};
}

static uint32_t *slot_of_word(const bo_tally *tally, const char *text, size_t length)
{
    size_t at = (size_t)bo_hash_bytes(text, length) & tally->mask;
    for (; tally->slots[at]; at = (at + 1) & tally->mask) {
        const bo_word *word = &tally->words[tally->slots[at] - 1];
        if (word->length == length && memcmp(word->text, text, length) == 0) break;
    }
    return &tally->slots[at];
}

static bo_status grow_tally(bo_context *context, bo_tally *tally)
{
    size_t places = 2 * (tally->mask + 1);
    if (places / 2 > UINT32_MAX / 2) return bo_fail(context, BO_INVALID, "the text has too many distinct words");
    bo_word *words = bo_realloc(context, tally->words, 2 * tally->capacity, sizeof *words, "words");
    if (!words) return BO_MEMORY;
    tally->words = words;
    tally->capacity *= 2;
    uint32_t *slots = bo_alloc(context, places, sizeof *slots, "words");
    if (!slots) return BO_MEMORY;
    bo_free(tally->slots);
    tally->slots = slots;
    tally->mask = places - 1;
    for (size_t i = 0; i < tally->count; ++i) *slot_of_word(tally, words[i].text, words[i].length) = (uint32_t)i + 1;
    return BO_OK;
}

bo_status bo_tally_add(bo_context *context, bo_tally *tally, const char *text, size_t length, uint64_t count)
{
    uint32_t *slot = slot_of_word(tally, text, length);
    if (*slot) {
        tally->words[*slot - 1].count += count;
        return BO_OK;
    }
    assert(tally->count < tally->capacity);
    tally->words[tally->count++] = (bo_word){text, (uint32_t)length, count};
    *slot = (uint32_t)tally->count;
    return 2 * tally->count > tally->mask ? grow_tally(context, tally) : BO_OK;
}

/* ---- counting on the pool ---------------------------------------------------------------------------------------- */

/* The state of one counting worker. */
typedef struct bo_counter {
    bo_context *context;
    bo_matcher matcher;
    bo_tally tally;
    bo_status status;
} bo_counter;

typedef struct bo_counting {
    const bo_pattern *pattern;
    const char *const *special;
    size_t special_count;
    bo_parts parts;
    size_t first; /* first part of this round */
    bo_counter *counters;
    int workers;
} bo_counting;

static bo_status count_valid(const bo_counting *counting, bo_counter *counter, const char *text, size_t length)
{
    for (size_t at = 0, begin, end; at < length; at = end) {
        BO_TRY(bo_pattern_find(counter->context, counting->pattern, &counter->matcher, text, length, at, &begin, &end));
        for (size_t part = begin; part < end; part += BO_MAX_WORD) {
            size_t piece = end - part < BO_MAX_WORD ? end - part : BO_MAX_WORD;
            BO_TRY(bo_tally_add(counter->context, &counter->tally, text + part, piece, 1));
        }
    }
    return BO_OK;
}

static const char *next_special(const bo_counting *counting, const char *text, size_t length, size_t *bytes)
{
    const char *nearest = NULL;
    for (size_t i = 0; i < counting->special_count; ++i) {
        size_t size = strlen(counting->special[i]);
        const char *found = memmem(text, nearest ? (size_t)(nearest - text) : length, counting->special[i], size);
        if (!found) continue;
        nearest = found;
        *bytes = size;
    }
    return nearest;
}

static bo_status count_part(const bo_counting *counting, bo_counter *counter, const char *text, size_t length)
{
    while (length > 0) {
        size_t special = 0;
        const char *found = next_special(counting, text, length, &special);
        size_t stretch = found ? (size_t)(found - text) : length;
        for (size_t at = 0; at < stretch;) {
            size_t valid = bo_utf8_valid(text + at, stretch - at);
            BO_TRY(count_valid(counting, counter, text + at, valid));
            at += valid;
            at += bo_utf8_invalid(text + at, stretch - at);
        }
        text += stretch + special;
        length -= stretch + special;
    }
    return BO_OK;
}

static void count_task(void *arg, size_t index, int worker)
{
    bo_counting *counting = arg;
    bo_counter *counter = &counting->counters[worker];
    const bo_text_part *part = &counting->parts.items[counting->first + index];
    if (counter->status == BO_OK) counter->status = count_part(counting, counter, part->text, part->length);
}

static bo_status check_counters(bo_context *context, const bo_counting *counting)
{
    for (int w = 0; w < counting->workers; ++w)
        if (counting->counters[w].status != BO_OK)
            return bo_fail(context, counting->counters[w].status, "%s",
                           bo_context_error(counting->counters[w].context));
    return BO_OK;
}

static bo_status prepare_counting(bo_context *context, bo_counting *counting)
{
    const int workers = bo_context_threads(context);
    counting->counters = bo_alloc(context, (size_t)workers, sizeof *counting->counters, "counting words");
    if (!counting->counters) return BO_MEMORY;
    for (; counting->workers < workers; ++counting->workers) {
        bo_counter *counter = &counting->counters[counting->workers];
        BO_TRY(bo_context_branch(context, &counter->context));
        counter->status = bo_matcher_create(counter->context, &counter->matcher);
        if (counter->status == BO_OK) counter->status = bo_tally_create(counter->context, &counter->tally);
    }
    return check_counters(context, counting);
}

static bo_status count_all(bo_context *context, bo_counting *counting, uint64_t bytes)
{
    const size_t round = (size_t)counting->workers * PARTS_A_THREAD;
    double done = 0;
    for (; counting->first < counting->parts.count; counting->first += round) {
        size_t left = counting->parts.count - counting->first, count = left < round ? left : round;
        BO_TRY(bo_progress(context, "counting words", done, (double)bytes));
        bo_parallel(context, count, count_task, counting);
        BO_TRY(check_counters(context, counting));
        for (size_t i = 0; i < count; ++i) done += (double)counting->parts.items[counting->first + i].length;
    }
    return BO_OK;
}

/* Adds the tallies of all workers to the tally of the first. */
static bo_status sum_up(bo_context *context, bo_counting *counting, bo_tally *out)
{
    bo_tally *sum = &counting->counters[0].tally;
    for (int w = 1; w < counting->workers; ++w) {
        const bo_tally *other = &counting->counters[w].tally;
        for (size_t i = 0; i < other->count; ++i)
            BO_TRY(bo_tally_add(context, sum, other->words[i].text, other->words[i].length, other->words[i].count));
    }
    *out = *sum;
    *sum = (bo_tally){0};
    return BO_OK;
}

/* Counts the words of all documents on the pool. special: texts that are not words. The order of the words depends on
 * the threads; the merges do not. */
static bo_status count_words(bo_context *context, const bo_documents *documents, const bo_pattern *pattern,
                             const char *const *special, size_t special_count, bo_tally *out)
{
    bo_counting counting = {.pattern = pattern, .special = special, .special_count = special_count};
    bo_status status = bo_parts_make(context, documents, true, &counting.parts);
    if (status == BO_OK) status = prepare_counting(context, &counting);
    if (status == BO_OK) status = count_all(context, &counting, documents->bytes);
    if (status == BO_OK) status = sum_up(context, &counting, out);
    for (int w = 0; w < counting.workers; ++w) {
        bo_matcher_free(&counting.counters[w].matcher);
        bo_tally_free(&counting.counters[w].tally);
        bo_context_destroy(counting.counters[w].context);
    }
    bo_free(counting.counters);
    bo_free(counting.parts.items);
    return status;
}

/* ====================================================================================================================
 * Byte-pair encoding (Sennrich, Haddow and Birch 2016). Counts of pairs are updated word by word. An existing pair
 * never becomes more frequent, because a merge only removes pairs and creates pairs with its own symbol. An entry of
 * the heap is therefore never too small; one that is too large is inserted again with its current count. */

/* A pair, its count, and the words it was seen in (some of which may no longer contain it). */
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

/* ---- growing ----------------------------------------------------------------------------------------------------- */

/* Reserves one more item of `size` bytes. */
static bo_status grow_pairs(bo_context *context, void **items, size_t count, size_t *capacity, size_t size)
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

static uint32_t *slot_of_pair(const bo_learning *learning, uint64_t pair)
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
    for (size_t i = 0; i < learning->pair_count; ++i)
        *slot_of_pair(learning, learning->pairs[i].pair) = (uint32_t)i + 1;
    return BO_OK;
}

/* ---- pairs ------------------------------------------------------------------------------------------------------- */

/* Pairs from `new_from` on are new in this merge; words are recorded only for these. */
static bo_status add_pair(bo_learning *learning, uint64_t pair, uint64_t count, uint32_t word, size_t new_from)
{
    uint32_t *slot = slot_of_pair(learning, pair);
    if (!*slot) {
        void *pairs = learning->pairs;
        bo_status status = grow_pairs(learning->context, &pairs, learning->pair_count, &learning->pair_capacity,
                                      sizeof *learning->pairs);
        learning->pairs = pairs;
        BO_TRY(status);
        learning->pairs[learning->pair_count++] = (bo_counted_pair){pair, 0, 0};
        *slot = (uint32_t)learning->pair_count;
        BO_TRY(spread(learning));
        slot = slot_of_pair(learning, pair);
    }
    size_t index = *slot - 1;
    bo_counted_pair *counted = &learning->pairs[index];
    counted->count += count;
    if (index < new_from || (counted->places && learning->places[counted->places - 1].word == word)) return BO_OK;
    void *places = learning->places;
    bo_status status = grow_pairs(learning->context, &places, learning->place_count, &learning->place_capacity,
                                  sizeof *learning->places);
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

static void subtract_pairs_of(bo_learning *learning, uint32_t word)
{
    const int32_t *symbols = learning->symbols + learning->starts[word];
    for (uint32_t i = 0; i + 1 < learning->lengths[word]; ++i)
        learning->pairs[*slot_of_pair(learning, bo_pair(symbols[i], symbols[i + 1])) - 1].count -=
            learning->words->words[word].count;
}

/* ---- the heap: the most frequent pair on top, the smaller among equals ------------------------------------------- */

static bool goes_before(const bo_merge_candidate *a, const bo_merge_candidate *b)
{
    return a->count != b->count ? a->count > b->count : a->pair < b->pair;
}

static bo_status push(bo_learning *learning, bo_merge_candidate candidate)
{
    void *heap = learning->heap;
    bo_status status =
        grow_pairs(learning->context, &heap, learning->heap_count, &learning->heap_capacity, sizeof *learning->heap);
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

static bo_status push_pairs(bo_learning *learning, size_t from, uint64_t min_count)
{
    for (size_t i = from; i < learning->pair_count; ++i)
        if (learning->pairs[i].count >= min_count)
            BO_TRY(
                push(learning, (bo_merge_candidate){learning->pairs[i].count, learning->pairs[i].pair, (uint32_t)i}));
    return BO_OK;
}

/* ---- merging ----------------------------------------------------------------------------------------------------- */

static bool has_pair(const bo_learning *learning, uint32_t word, uint64_t pair)
{
    const int32_t *symbols = learning->symbols + learning->starts[word];
    for (uint32_t i = 0; i + 1 < learning->lengths[word]; ++i)
        if (bo_pair(symbols[i], symbols[i + 1]) == pair) return true;
    return false;
}

/* Replaces every occurrence of the pair in the word by `id`, from the left. */
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

static bo_status merge_pair(bo_learning *learning, uint32_t index, int32_t id, uint64_t min_count)
{
    const uint64_t pair = learning->pairs[index].pair;
    const size_t new_from = learning->pair_count;
    for (uint32_t place = learning->pairs[index].places; place; place = learning->places[place - 1].before) {
        uint32_t word = learning->places[place - 1].word;
        if (!has_pair(learning, word, pair)) continue;
        subtract_pairs_of(learning, word);
        rewrite(learning, word, pair, id);
        BO_TRY(add_pairs_of(learning, word, new_from));
    }
    return push_pairs(learning, new_from, min_count);
}

/* ---- training ---------------------------------------------------------------------------------------------------- */

static bo_status prepare_learning(bo_learning *learning, const int32_t byte_ids[256], uint64_t min_count)
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
    return push_pairs(learning, 0, min_count);
}

static bo_status learn(bo_learning *learning, int32_t first_id, size_t max_merges, uint64_t min_count,
                       int32_t (*merges)[2], size_t *count)
{
    while (*count < max_merges && learning->heap_count > 0) {
        bo_merge_candidate best = pop(learning);
        uint64_t now = learning->pairs[best.index].count;
        if (now != best.count) {
            if (now >= min_count) BO_TRY(push(learning, (bo_merge_candidate){now, best.pair, best.index}));
            continue;
        }
        merges[*count][0] = (int32_t)(best.pair >> 32);
        merges[*count][1] = (int32_t)best.pair;
        BO_TRY(merge_pair(learning, best.index, first_id + (int32_t)*count, min_count));
        if (++*count % 64 == 0) BO_TRY(bo_progress(learning->context, "merging", (double)*count, (double)max_merges));
    }
    return BO_OK;
}

bo_status bo_learn_merges(bo_context *context, const bo_tally *words, const int32_t byte_ids[256], int32_t first_id,
                          size_t max_merges, uint64_t min_count, int32_t (*merges)[2], size_t *count)
{
    bo_learning learning = {.context = context, .words = words};
    *count = 0;
    bo_status status = prepare_learning(&learning, byte_ids, min_count);
    if (status == BO_OK) status = learn(&learning, first_id, max_merges, min_count, merges, count);
    bo_free(learning.symbols);
    bo_free(learning.starts);
    bo_free(learning.lengths);
    bo_free(learning.pairs);
    bo_free(learning.slots);
    bo_free(learning.places);
    bo_free(learning.heap);
    return status;
}

/* ====================================================================================================================
 * A trained tokenizer is written as tokenizer.json and read back, so that all tokenizers are created in the same way.
 */

enum { MAX_VOCAB = 1 << 24 };

static bo_status check_special(bo_context *context, const bo_learned *learned)
{
    for (size_t i = 0; i < learned->special_count; ++i) {
        const char *text = learned->special[i];
        if (!text || !*text) return bo_fail(context, BO_INVALID, "special token %zu is empty", i);
        if (strlen(text) == 1) /* it would equal the text of a byte-level symbol */
            return bo_fail(context, BO_INVALID, "the special token \"%s\" is a single byte, which already is a token",
                           text);
        for (size_t j = 0; j < i; ++j)
            if (strcmp(text, learned->special[j]) == 0)
                return bo_fail(context, BO_INVALID, "the special token \"%s\" is named twice", text);
    }
    return BO_OK;
}

static bo_status check(bo_context *context, const bo_tokenizer_desc *desc, const bo_learned *learned)
{
    const size_t min_vocab = 256 + learned->special_count;
    if (desc->vocab < min_vocab || desc->vocab > MAX_VOCAB)
        return bo_fail(context, BO_INVALID, "vocabulary: found %zu; with %zu special tokens expected %zu to %d",
                       desc->vocab, learned->special_count, min_vocab, MAX_VOCAB);
    return check_special(context, learned);
}

static bo_status learn_documents(bo_context *context, const bo_tokenizer_desc *desc, const bo_documents *documents,
                                 bo_learned *learned, int32_t (*merges)[2])
{
    const size_t specials = learned->special_count;
    int32_t byte_ids[256];
    for (size_t place = 0; place < 256; ++place)
        byte_ids[bo_learned_byte(learned, place)] = (int32_t)(specials + place);
    bo_pattern pattern;
    bo_tally words = {0};
    BO_TRY(bo_pattern_compile(context, "the pattern", learned->pattern ? learned->pattern : bo_gpt2_pattern, &pattern));
    bo_status status = count_words(context, documents, &pattern, learned->special, specials, &words);
    if (status == BO_OK)
        status = bo_learn_merges(context, &words, byte_ids, (int32_t)(specials + 256), desc->vocab - specials - 256,
                                 desc->min_count ? desc->min_count : 2, merges, &learned->merge_count);
    bo_tally_free(&words);
    bo_pattern_free(&pattern);
    return status;
}

static bo_status train(bo_context *context, const bo_tokenizer_desc *desc, const bo_documents *documents,
                       bo_tokenizer **out)
{
    static const char *const default_special[] = {"<|endoftext|>"};
    bo_learned learned = {.special = desc->special ? desc->special : default_special,
                          .special_count = desc->special ? desc->special_count : 1,
                          .pattern = desc->pattern && *desc->pattern ? desc->pattern : NULL};
    BO_TRY(bo_check_reserved(context, "bo_tokenizer_desc", desc->reserved));
    BO_TRY(check(context, desc, &learned));
    int32_t (*merges)[2] = bo_alloc(context, desc->vocab, sizeof *merges, "merges");
    if (!merges) return BO_MEMORY;
    learned.merges = (const int32_t (*)[2])merges;
    bo_json_text text = {0};
    bo_status status = learn_documents(context, desc, documents, &learned, merges);
    if (status == BO_OK) status = bo_tokenizer_write(context, &learned, &text);
    if (status == BO_OK) status = bo_tokenizer_parse(context, "the new tokenizer", text.bytes, text.length, out);
    bo_free(text.bytes);
    bo_free(merges);
    return status;
}

bo_status bo_tokenizer_train(bo_context *context, const bo_tokenizer_desc *desc, const char *const *paths,
                             size_t path_count, bo_tokenizer **out)
{
    if (out) *out = NULL;
    BO_REQUIRE(context, desc, out);
    BO_REQUIRE_IF(context, path_count > 0, paths);
    BO_SPAN(context, "text", "learn tokenizer");
    bo_documents documents;
    BO_TRY(bo_documents_open(context, &(bo_corpus_desc){.paths = paths, .path_count = path_count}, &documents));
    bo_status status = train(context, desc, &documents, out);
    bo_documents_close(&documents);
    return status;
}

bo_status bo_tokenizer_train_texts(bo_context *context, const bo_tokenizer_desc *desc, const bo_texts_desc *texts,
                                   bo_tokenizer **out)
{
    if (out) *out = NULL;
    BO_REQUIRE(context, desc, texts, out);
    bo_lines lines;
    bo_documents documents = {0};
    BO_TRY(bo_lines_open(context, texts, &lines));
    bo_status status = BO_OK;
    for (size_t i = 0; status == BO_OK && i < lines.count * lines.sides; ++i) {
        const bo_line *line = &lines.items[i / lines.sides];
        const size_t side = i % lines.sides;
        status = bo_documents_add(context, &documents, line->file, line->text[side], line->bytes[side]);
    }
    if (status == BO_OK) status = train(context, desc, &documents, out);
    bo_documents_close(&documents);
    bo_lines_close(&lines);
    return status;
}
