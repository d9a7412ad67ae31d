#include "learn.h"
#include "text_parts.h"
#include "unicode.h"
#include "vocabulary.h"

#include <string.h>

enum { FIRST_PLACES = 1 << 12, PARTS_A_THREAD = 8 };

/* ---- a tally ------------------------------------------------------------------------------------------------------ */

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

static uint32_t *slot_of(const bo_tally *tally, const char *text, size_t length)
{
    size_t at = (size_t)bo_hash_bytes(text, length) & tally->mask;
    for (; tally->slots[at]; at = (at + 1) & tally->mask) {
        const bo_word *word = &tally->words[tally->slots[at] - 1];
        if (word->length == length && memcmp(word->text, text, length) == 0) break;
    }
    return &tally->slots[at];
}

static bo_status grow(bo_context *context, bo_tally *tally)
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
    for (size_t i = 0; i < tally->count; ++i) *slot_of(tally, words[i].text, words[i].length) = (uint32_t)i + 1;
    return BO_OK;
}

bo_status bo_tally_add(bo_context *context, bo_tally *tally, const char *text, size_t length, uint64_t count)
{
    uint32_t *slot = slot_of(tally, text, length);
    if (*slot) {
        tally->words[*slot - 1].count += count;
        return BO_OK;
    }
    tally->words[tally->count++] = (bo_word){text, (uint32_t)length, count};
    *slot = (uint32_t)tally->count;
    return 2 * tally->count > tally->mask ? grow(context, tally) : BO_OK;
}

/* ---- counting on the pool ----------------------------------------------------------------------------------------- */

/* What one worker counts with. */
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
    size_t first; /* part of this round */
    bo_counter *counters;
    int workers;
} bo_counting;

static bo_status count_valid(const bo_counting *counting, bo_counter *counter, const char *text, size_t length)
{
    for (size_t at = 0, begin, end; at < length; at = end) {
        BO_TRY(bo_pattern_find(counter->context, counting->pattern, &counter->matcher, text, length, at, &begin, &end));
        for (size_t part = begin; part < end; part += BO_MOST_WORD) {
            size_t piece = end - part < BO_MOST_WORD ? end - part : BO_MOST_WORD;
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

static bo_status prepare(bo_context *context, bo_counting *counting)
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

/* The first worker's tally takes the others' in. */
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

bo_status bo_count_words(bo_context *context, const bo_documents *documents, const bo_pattern *pattern,
                         const char *const *special, size_t special_count, bo_tally *out)
{
    bo_counting counting = {.pattern = pattern, .special = special, .special_count = special_count};
    bo_status status = bo_parts_make(context, documents, true, &counting.parts);
    if (status == BO_OK) status = prepare(context, &counting);
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
