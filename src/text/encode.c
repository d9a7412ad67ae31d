/* Text to ids: added tokens are found first; the rest is normalized and split into words, and each word is merged. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>
#include "cut_points.h"
#include "encoder.h"
#include "unicode.h"

/* ---- normalizing ------------------------------------------------------------------------------------------------- */

/* Composes or decomposes the valid stretches of a text. */
static bo_status change_form(bo_context *context, int form, const char *text, size_t length, bo_buffer *to)
{
    for (size_t at = 0; at < length;) {
        size_t valid = bo_utf8_valid(text + at, length - at);
        if (valid > 0) {
            utf8proc_uint8_t *changed = NULL;
            utf8proc_ssize_t bytes = utf8proc_map((const utf8proc_uint8_t *)text + at, (utf8proc_ssize_t)valid,
                                                  &changed, (utf8proc_option_t)form);
            bo_status status = bytes < 0 ? bo_fail(context, BO_MEMORY, "normalizing %zu bytes of text: %s", valid,
                                                   utf8proc_errmsg(bytes))
                                         : bo_buffer_append(context, to, (const char *)changed, (size_t)bytes);
            free(changed);
            BO_TRY(status);
            at += valid;
        }
        size_t invalid = bo_utf8_invalid(text + at, length - at);
        BO_TRY(bo_buffer_append(context, to, text + at, invalid));
        at += invalid;
    }
    return BO_OK;
}

static bo_status lower(bo_context *context, const char *text, size_t length, bo_buffer *to)
{
    for (size_t at = 0; at < length;) {
        utf8proc_int32_t point;
        utf8proc_uint8_t changed[4];
        size_t bytes = bo_utf8_length(text + at, length - at);
        if (bytes == 0) {
            BO_TRY(bo_buffer_append(context, to, text + at++, 1));
            continue;
        }
        utf8proc_iterate((const utf8proc_uint8_t *)text + at, (utf8proc_ssize_t)bytes, &point);
        utf8proc_ssize_t written = utf8proc_encode_char(utf8proc_tolower(point), changed);
        BO_TRY(bo_buffer_append(context, to, (const char *)changed, (size_t)written));
        at += bytes;
    }
    return BO_OK;
}

/* Regular expressions need valid text, so each valid stretch is processed separately. */
static bo_status replace(bo_encoder *encoder, const bo_text_normalizer *step, const char *text, size_t length,
                         bo_buffer *to)
{
    bo_context *context = encoder->context;
    const size_t content = strlen(step->content);
    for (size_t at = 0; at < length;) {
        size_t stretch = step->pattern.code ? bo_utf8_valid(text + at, length - at) : length, done = 0;
        while (done < stretch) {
            size_t begin, end;
            BO_TRY(bo_pattern_find(context, &step->pattern, &encoder->matcher, text + at, stretch, done, &begin, &end));
            BO_TRY(bo_buffer_append(context, to, text + at + done, begin - done));
            if (begin < end) BO_TRY(bo_buffer_append(context, to, step->content, content));
            done = end;
        }
        at += stretch;
        size_t invalid = bo_utf8_invalid(text + at, length - at);
        BO_TRY(bo_buffer_append(context, to, text + at, invalid));
        at += invalid;
    }
    return BO_OK;
}

static bo_status strip(bo_context *context, const bo_text_normalizer *step, const char *text, size_t length,
                       bo_buffer *to)
{
    size_t begin = 0, end = 0, bytes;
    while (step->left && bo_utf8_space(text + begin, length - begin, &bytes)) begin += bytes;
    /* end: after the last character that is not white space */
    for (size_t at = begin; at < length; at += bytes ? bytes : 1)
        if (!bo_utf8_space(text + at, length - at, &bytes) || !step->right) end = at + (bytes ? bytes : 1);
    if (end < begin) end = begin;
    return bo_buffer_append(context, to, text + begin, end - begin);
}

static bo_status apply(bo_encoder *encoder, const bo_text_normalizer *step, const char *text, size_t length,
                       bo_buffer *to)
{
    bo_context *context = encoder->context;
    switch (step->kind) {
    case BO_NORMALIZE_PREPEND:
        if (length > 0) BO_TRY(bo_buffer_append(context, to, step->content, strlen(step->content)));
        return bo_buffer_append(context, to, text, length);
    case BO_NORMALIZE_REPLACE:
        return replace(encoder, step, text, length, to);
    case BO_NORMALIZE_FORM:
        return change_form(context, step->form, text, length, to);
    case BO_NORMALIZE_LOWERCASE:
        return lower(context, text, length, to);
    case BO_NORMALIZE_STRIP:
        return strip(context, step, text, length, to);
    }
    return BO_OK;
}

/* *out is the text itself if nothing changes; otherwise it is in encoder->normal until the next call. */
static bo_status normalize(bo_encoder *encoder, const char *text, size_t length, const char **out, size_t *out_length)
{
    *out = text;
    *out_length = length;
    for (size_t i = 0; i < encoder->tokenizer->normalizer_count; ++i) {
        bo_buffer *to = &encoder->normal[i % 2];
        to->length = 0;
        BO_TRY(apply(encoder, &encoder->tokenizer->normalizers[i], *out, *out_length, to));
        *out = to->length ? to->bytes : "";
        *out_length = to->length;
    }
    return BO_OK;
}

/* ====================================================================================================================
 * Merges the symbols of a word: the pair of lowest rank first, the leftmost among equals, until no pair has a rank. */

enum { SHORT = BO_SIZE(32, 2) }; /* up to this length, searching every pair each time is faster than a heap */

static uint32_t rank_of(const bo_merge *merge)
{
    return merge ? merge->rank : UINT32_MAX;
}

static void merge_short(const bo_merges *merges, bo_merging *word)
{
    const bo_merge *found[SHORT]; /* [i]: the merge of symbols i and i + 1 */
    int32_t *ids = word->ids;
    size_t count = word->count;
    for (size_t i = 0; i + 1 < count; ++i) found[i] = bo_merges_find(merges, ids[i], ids[i + 1]);
    while (count > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < count; ++i)
            if (rank_of(found[i]) < rank_of(found[best])) best = i;
        if (!found[best]) break;
        ids[best] = found[best]->id;
        --count;
        for (size_t i = best + 1; i < count; ++i) ids[i] = ids[i + 1];
        for (size_t i = best + 1; i + 1 < count; ++i) found[i] = found[i + 1];
        if (best > 0) found[best - 1] = bo_merges_find(merges, ids[best - 1], ids[best]);
        if (best + 1 < count) found[best] = bo_merges_find(merges, ids[best], ids[best + 1]);
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
static bo_status make_room(bo_context *context, bo_merging *word)
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

static void offer(const bo_merges *merges, bo_merging *word, size_t *heap_count, uint32_t left, uint32_t right)
{
    const bo_merge *merge = bo_merges_find(merges, word->ids[left], word->ids[right]);
    if (merge) push(word->heap, heap_count, (uint64_t)merge->rank << 32 | left);
}

/* Symbols that were merged into their left neighbor are -1. An entry of the heap is valid only if the pair at its
 * position still has its rank. */
static void merge_long(const bo_merges *merges, bo_merging *word)
{
    const uint32_t count = (uint32_t)word->count, none = UINT32_MAX;
    size_t heap_count = 0, kept = 0;
    for (uint32_t i = 0; i < count; ++i) {
        word->before[i] = i > 0 ? i - 1 : none;
        word->after[i] = i + 1 < count ? i + 1 : none;
        if (i + 1 < count) offer(merges, word, &heap_count, i, i + 1);
    }
    while (heap_count > 0) {
        const uint64_t top = pop(word->heap, &heap_count);
        const uint32_t left = (uint32_t)top, right = word->after[left];
        if (word->ids[left] < 0 || right == none) continue;
        const bo_merge *merge = bo_merges_find(merges, word->ids[left], word->ids[right]);
        if (!merge || merge->rank != top >> 32) continue;
        word->ids[left] = merge->id;
        word->ids[right] = -1;
        const uint32_t next = word->after[left] = word->after[right];
        if (next != none) word->before[next] = left;
        if (word->before[left] != none) offer(merges, word, &heap_count, word->before[left], left);
        if (next != none) offer(merges, word, &heap_count, left, next);
    }
    for (uint32_t i = 0; i < count; ++i)
        if (word->ids[i] >= 0) word->ids[kept++] = word->ids[i];
    word->count = kept;
}

/* Merges the symbols of encoder->merging, lowest rank first, leftmost of equal ones. */
static bo_status merge_symbols(bo_encoder *encoder)
{
    const bo_merges *merges = &encoder->tokenizer->merges;
    bo_merging *word = &encoder->merging;
    if (word->count <= SHORT) {
        merge_short(merges, word);
        return BO_OK;
    }
    BO_TRY(make_room(encoder->context, word));
    merge_long(merges, word);
    return BO_OK;
}

/* ---- a word ------------------------------------------------------------------------------------------------------ */

/* A character of at most four bytes. */
static void add_unknown(bo_encoder *encoder, const char *text, size_t length)
{
    const bo_tokenizer *tokenizer = encoder->tokenizer;
    bo_merging *word = &encoder->merging;
    if (tokenizer->unknown < 0) {
        if (encoder->missed.bytes > 0) return;
        encoder->missed = (bo_missed){.bytes = length, .place = SIZE_MAX};
        memcpy(encoder->missed.character, text, length);
        return;
    }
    if (tokenizer->fuse_unknown && word->count > 0 && word->ids[word->count - 1] == tokenizer->unknown) return;
    word->ids[word->count++] = tokenizer->unknown;
}

/* Encodes a character without a token as bytes, if all of its bytes have tokens. */
static void add_bytes(bo_encoder *encoder, const char *text, size_t length)
{
    const bo_tokenizer *tokenizer = encoder->tokenizer;
    bo_merging *word = &encoder->merging;
    bool all = tokenizer->byte_level || tokenizer->byte_fallback;
    for (size_t i = 0; i < length; ++i) all = all && tokenizer->byte_ids[(unsigned char)text[i]] >= 0;
    if (!all) {
        add_unknown(encoder, text, length);
        return;
    }
    for (size_t i = 0; i < length; ++i) word->ids[word->count++] = tokenizer->byte_ids[(unsigned char)text[i]];
}

static void spell_characters(bo_encoder *encoder, const char *text, size_t length)
{
    const bo_tokenizer *tokenizer = encoder->tokenizer;
    bo_merging *word = &encoder->merging;
    for (size_t at = 0, bytes; at < length; at += bytes) {
        unsigned char byte = (unsigned char)text[at];
        bytes = byte < 128 ? 1 : bo_utf8_length(text + at, length - at);
        int32_t id = byte < 128  ? tokenizer->ascii_ids[byte]
                     : bytes > 0 ? bo_lookup_find(&tokenizer->by_text, &tokenizer->texts, text + at, bytes)
                                 : -1;
        if (bytes == 0) bytes = 1;
        if (id >= 0)
            word->ids[word->count++] = id;
        else
            add_bytes(encoder, text + at, bytes);
    }
}

/* The initial symbols of a word: at most one per byte. */
static bo_status spell(bo_encoder *encoder, const char *text, size_t length)
{
    bo_merging *word = &encoder->merging;
    if (word->capacity < length) {
        bo_free(word->ids);
        word->capacity = 0;
        word->ids = bo_alloc_raw(encoder->context, 2 * length + 64, sizeof *word->ids, "the symbols of a word");
        if (!word->ids) return BO_MEMORY;
        word->capacity = 2 * length + 64;
    }
    word->count = 0;
    if (encoder->tokenizer->byte_level)
        for (size_t i = 0; i < length; ++i) add_bytes(encoder, text + i, 1);
    else
        spell_characters(encoder, text, length);
    return BO_OK;
}

/* If merges are ignored for words that are tokens: looks the word up. */
static bo_status find_whole(bo_encoder *encoder, const char *text, size_t length, int32_t *id)
{
    const bo_tokenizer *tokenizer = encoder->tokenizer;
    *id = -1;
    if (!tokenizer->ignore_merges || length > tokenizer->longest) return BO_OK;
    if (tokenizer->byte_level) {
        encoder->spelled.length = 0;
        for (size_t i = 0; i < length; ++i) {
            char letter[BO_LETTER_BYTES];
            size_t bytes = bo_letter_write((unsigned char)text[i], letter);
            BO_TRY(bo_buffer_append(encoder->context, &encoder->spelled, letter, bytes));
        }
        text = encoder->spelled.bytes;
        length = encoder->spelled.length;
    }
    *id = bo_lookup_find(&tokenizer->by_text, &tokenizer->texts, text, length);
    return BO_OK;
}

static bo_status merge_word(bo_encoder *encoder, const char *text, size_t length)
{
    int32_t whole;
    BO_TRY(find_whole(encoder, text, length, &whole));
    const bo_missed missed = encoder->missed;
    BO_TRY(spell(encoder, text, length));
    if (whole < 0) return merge_symbols(encoder);
    encoder->missed = missed; /* its characters do not need tokens */
    encoder->merging.ids[0] = whole;
    encoder->merging.count = 1;
    return BO_OK;
}

static bo_status append(bo_encoder *encoder, const int32_t *ids, size_t count)
{
    bo_ids *out = encoder->out;
    if (count == 0) return BO_OK;
    if (out->capacity - out->count < count) BO_TRY(bo_ids_reserve(encoder->context, out, count));
    memcpy(out->items + out->count, ids, count * sizeof *ids);
    out->count += count;
    return BO_OK;
}

/* Encodes the text between two cut points. */
static bo_status encode_piece(bo_encoder *encoder, const char *text, size_t length)
{
    bo_cached *cached = NULL;
    if (length <= BO_CACHED_WORD) {
        cached = &encoder->cache[bo_hash_bytes(text, length) & encoder->cache_mask];
        if (cached->length == length && memcmp(cached->word, text, length) == 0)
            return append(encoder, cached->ids, cached->count);
    }
    BO_TRY(merge_word(encoder, text, length));
    const bo_merging *word = &encoder->merging;
    if (cached && word->count <= BO_CACHED_IDS && encoder->missed.bytes == 0) {
        cached->length = (uint8_t)length;
        cached->count = (uint8_t)word->count;
        memcpy(cached->word, text, length);
        memcpy(cached->ids, word->ids, word->count * sizeof *word->ids);
    }
    return append(encoder, word->ids, word->count);
}

/* Appends the ids of one word to encoder->out. */
static bo_status encode_word(bo_encoder *encoder, const char *text, size_t length)
{
    for (size_t piece; length > 0; text += piece, length -= piece) {
        piece = bo_cut_points_next(encoder->tokenizer, text, length);
        BO_TRY(encode_piece(encoder, text, piece));
    }
    return BO_OK;
}

/* ---- words of a text --------------------------------------------------------------------------------------------- */

static bo_status split(bo_encoder *encoder, size_t step, const char *text, size_t length, bool first);

/* The state of a text in one splitter; [begin, end) is a part that may still grow. */
typedef struct bo_cutting {
    bo_encoder *encoder;
    size_t step;
    const char *text;
    bool first;
    size_t begin, end;
    bool matched; /* the part that may grow is a match */
} bo_cutting;

static bo_status pass_on(bo_cutting *cutting, size_t begin, size_t end)
{
    if (begin == end) return BO_OK;
    return split(cutting->encoder, cutting->step + 1, cutting->text + begin, end - begin, cutting->first && begin == 0);
}

/* Passes the waiting part on; [begin, end) waits in its place. */
static bo_status wait_instead(bo_cutting *cutting, size_t begin, size_t end, bool matched)
{
    bo_status status = pass_on(cutting, cutting->begin, cutting->end);
    cutting->begin = begin;
    cutting->end = end;
    cutting->matched = matched;
    return status;
}

/* Processes the next stretch of the text: a match or the text between two matches. */
static bo_status take(bo_cutting *cutting, bo_behavior behavior, size_t begin, size_t end, bool matched)
{
    const bool waiting = cutting->begin < cutting->end;
    bool joins = false;
    if (begin == end) return BO_OK;
    switch (behavior) {
    case BO_SPLIT_REMOVED:
        return matched ? BO_OK : pass_on(cutting, begin, end);
    case BO_SPLIT_ISOLATED:
        return pass_on(cutting, begin, end);
    case BO_SPLIT_CONTIGUOUS:
        joins = waiting && cutting->matched == matched;
        break;
    case BO_SPLIT_MERGED_WITH_PREVIOUS: /* a match joins the text before it */
        joins = waiting && matched && !cutting->matched;
        break;
    case BO_SPLIT_MERGED_WITH_NEXT:
        joins = waiting && !matched && cutting->matched;
        break;
    }
    if (!joins) return wait_instead(cutting, begin, end, matched);
    cutting->end = end;
    cutting->matched = matched;
    return BO_OK;
}

static bo_status cut(bo_encoder *encoder, size_t step, const char *text, size_t length, bool first)
{
    const bo_splitter *splitter = &encoder->tokenizer->splitters[step];
    bo_cutting cutting = {.encoder = encoder, .step = step, .text = text, .first = first};
    for (size_t at = 0, begin, end; at < length; at = end) {
        BO_TRY(
            bo_pattern_find(encoder->context, &splitter->pattern, &encoder->matcher, text, length, at, &begin, &end));
        BO_TRY(take(&cutting, splitter->behavior, at, begin, splitter->invert));
        BO_TRY(take(&cutting, splitter->behavior, begin, end, !splitter->invert));
    }
    return pass_on(&cutting, cutting.begin, cutting.end);
}

/* The text with its blanks replaced and a prefix before it. */
static bo_status mark(bo_encoder *encoder, size_t step, const char **text, size_t *length, bool first)
{
    const bo_splitter *splitter = &encoder->tokenizer->splitters[step];
    const size_t blank = strlen(splitter->blank), prefix = strlen(splitter->prefix);
    const bool wanted = splitter->prefixing == BO_PREFIX_ALWAYS || (splitter->prefixing == BO_PREFIX_FIRST && first);
    const bool begins = (*length >= prefix && memcmp(*text, splitter->prefix, prefix) == 0) ||
                        (blank > 0 && *length > 0 && **text == ' ');
    if (*length == 0 || (blank == 0 && (!wanted || begins))) return BO_OK;
    bo_buffer *to = &encoder->marked[step];
    to->length = 0;
    if (wanted && !begins) BO_TRY(bo_buffer_append(encoder->context, to, splitter->prefix, prefix));
    for (const char *at = *text, *end = at + *length; at < end;) {
        const char *found = blank ? memchr(at, ' ', (size_t)(end - at)) : NULL;
        BO_TRY(bo_buffer_append(encoder->context, to, at, (size_t)((found ? found : end) - at)));
        if (found) BO_TRY(bo_buffer_append(encoder->context, to, splitter->blank, blank));
        at = found ? found + 1 : end;
    }
    *text = to->bytes;
    *length = to->length;
    return BO_OK;
}

/* Sends each word of the text, which is valid UTF-8, to encode_word. first: the start of the text. */
static bo_status split(bo_encoder *encoder, size_t step, const char *text, size_t length, bool first)
{
    if (step == encoder->tokenizer->splitter_count) return encode_word(encoder, text, length);
    BO_TRY(mark(encoder, step, &text, &length, first));
    if (encoder->tokenizer->splitters[step].pattern.text) return cut(encoder, step, text, length, first);
    return split(encoder, step + 1, text, length, first);
}

/* ---- a text ------------------------------------------------------------------------------------------------------ */

/* The longest added token that begins at text[at]; NULL: none. */
static const bo_added *added_at(const bo_encoder *encoder, const char *text, size_t length, size_t at, size_t *bytes)
{
    const bo_tokenizer *tokenizer = encoder->tokenizer;
    const unsigned char byte = (unsigned char)text[at];
    for (size_t i = tokenizer->added_from[byte]; i < tokenizer->added_from[byte + 1]; ++i) {
        const bo_added *added = &tokenizer->added[i];
        const char *there = bo_spelling_at(&tokenizer->texts, (size_t)added->id, bytes);
        if (added->special && !encoder->specials) continue;
        if (*bytes <= length - at && memcmp(text + at, there, *bytes) == 0) return added;
    }
    return NULL;
}

static const bo_added *next_added(const bo_encoder *encoder, const char *text, size_t length, size_t from,
                                  size_t *begin, size_t *end)
{
    const size_t *starts = encoder->tokenizer->added_from;
    const bo_added *added = NULL;
    size_t bytes = 0, at = from;
    *begin = *end = length;
    if (encoder->tokenizer->added_count == 0) return NULL;
    for (; at < length && !added; ++at) {
        const unsigned char byte = (unsigned char)text[at];
        if (starts[byte] < starts[byte + 1]) added = added_at(encoder, text, length, at, &bytes);
    }
    if (!added) return NULL;
    *begin = at - 1;
    *end = *begin + bytes;
    while (added->right && bo_utf8_space(text + *end, length - *end, &bytes)) *end += bytes;
    if (added->left) { /* the white space before it */
        size_t blank = *begin;
        for (size_t i = from; i < *begin; i += bytes ? bytes : 1)
            if (!bo_utf8_space(text + i, *begin - i, &bytes))
                blank = *begin;
            else if (blank == *begin)
                blank = i;
        *begin = blank;
    }
    return added;
}

/* Encodes a stretch without added tokens. Bytes that are not valid UTF-8 form separate words, because regular
 * expressions cannot process them. */
static bo_status encode_stretch(bo_encoder *encoder, const char *text, size_t length, bool first)
{
    BO_TRY(normalize(encoder, text, length, &text, &length));
    for (size_t at = 0; at < length; first = false) {
        size_t valid = bo_utf8_valid(text + at, length - at);
        if (valid > 0) BO_TRY(split(encoder, 0, text + at, valid, first));
        at += valid;
        size_t invalid = bo_utf8_invalid(text + at, length - at);
        BO_TRY(encode_word(encoder, text + at, invalid));
        at += invalid;
    }
    return BO_OK;
}

/* Finds the position of the character that has no token; normalization may have changed the text. */
static size_t find_missed(const bo_encoder *encoder, const char *text, size_t from, size_t to)
{
    const char *found = memmem(text + from, to - from, encoder->missed.character, encoder->missed.bytes);
    return found ? (size_t)(found - text) : from;
}

bo_status bo_missed_tell(bo_context *context, const bo_missed *missed, const char *where, size_t place, const char *of)
{
    char name[32];
    const unsigned char first = (unsigned char)missed->character[0];
    if (first <= ' ' || first == 127 || bo_utf8_length(missed->character, missed->bytes) == 0)
        snprintf(name, sizeof name, "the byte 0x%02X", first);
    else
        snprintf(name, sizeof name, "'%.*s'", (int)missed->bytes, missed->character);
    return bo_fail(context, BO_FORMAT,
                   "%s: byte %zu %s: the tokenizer has no token for %s, and none for unknown characters", where, place,
                   of, name);
}

bo_status bo_encoder_run(bo_encoder *encoder, const char *text, size_t length, bo_ids *out)
{
    encoder->out = out;
    encoder->missed = (bo_missed){0};
    encoder->invalid = bo_utf8_valid(text, length);
    if (encoder->invalid == length) encoder->invalid = SIZE_MAX;
    for (size_t at = 0, begin, end; at < length; at = end) {
        const bo_added *added = next_added(encoder, text, length, at, &begin, &end);
        if (begin > at) BO_TRY(encode_stretch(encoder, text + at, begin - at, at == 0));
        if (encoder->missed.bytes > 0 && encoder->missed.place == SIZE_MAX)
            encoder->missed.place = find_missed(encoder, text, at, begin);
        if (added) BO_TRY(append(encoder, &added->id, 1));
    }
    return BO_OK;
}

bo_status bo_encoder_create(bo_context *context, const bo_tokenizer *tokenizer, bool specials, size_t bytes,
                            bo_encoder *out)
{
    enum { FEWEST = 64, MOST = 1 << 14 };
    size_t places = FEWEST;
    while (places < MOST && places < bytes / 16) places *= 2;
    *out = (bo_encoder){.context = context, .tokenizer = tokenizer, .specials = specials, .invalid = SIZE_MAX};
    out->cache = bo_alloc(context, places, sizeof *out->cache, "a cache of words");
    out->cache_mask = places - 1;
    bo_status status = out->cache ? bo_matcher_create(context, &out->matcher) : BO_MEMORY;
    if (status != BO_OK) bo_encoder_free(out);
    return status;
}

void bo_encoder_free(bo_encoder *encoder)
{
    bo_matcher_free(&encoder->matcher);
    bo_buffer_free(&encoder->normal[0]);
    bo_buffer_free(&encoder->normal[1]);
    bo_buffer_free(&encoder->spelled);
    for (size_t i = 0; i < BO_MOST_STEPS; ++i) bo_buffer_free(&encoder->marked[i]);
    bo_free(encoder->cache);
    bo_free(encoder->merging.ids);
    bo_free(encoder->merging.before);
    bo_free(encoder->merging.after);
    bo_free(encoder->merging.heap);
    *encoder = (bo_encoder){0};
}

/* ====================================================================================================================
 * Encoders for the workers of a pool. Each has its own context, so that tasks may allocate and fail. */

static bo_status create_one(bo_context *context, const bo_tokenizer *tokenizer, bool specials, size_t bytes,
                            bo_context **branch, bo_encoder *out)
{
    BO_TRY(bo_context_branch(context, branch));
    bo_status status = bo_encoder_create(*branch, tokenizer, specials, bytes, out);
    if (status != BO_OK) {
        bo_fail(context, status, "%s", bo_context_error(*branch));
        bo_context_destroy(*branch);
    }
    return status;
}

bo_status bo_encoders_create(bo_context *context, const bo_tokenizer *tokenizer, bool specials, size_t bytes,
                             bo_encoders *out)
{
    const int workers = bo_context_threads(context);
    *out = (bo_encoders){0};
    out->contexts = bo_alloc(context, (size_t)workers, sizeof *out->contexts, "encoders");
    out->items = bo_alloc(context, (size_t)workers, sizeof *out->items, "encoders");
    bo_status status = out->contexts && out->items ? BO_OK : BO_MEMORY;
    for (int w = 0; status == BO_OK && w < workers; ++w) {
        status = create_one(context, tokenizer, specials, bytes, &out->contexts[w], &out->items[w]);
        if (status == BO_OK) ++out->count;
    }
    if (status != BO_OK) bo_encoders_free(out);
    return status;
}

void bo_encoders_free(bo_encoders *encoders)
{
    for (int w = 0; w < encoders->count; ++w) {
        bo_encoder_free(&encoders->items[w]);
        bo_context_destroy(encoders->contexts[w]);
    }
    bo_free(encoders->contexts);
    bo_free(encoders->items);
    *encoders = (bo_encoders){0};
}

bo_status bo_encoders_failed(bo_context *context, const bo_encoders *encoders, bo_status status)
{
    for (int w = 0; w < encoders->count; ++w)
        if (*bo_context_error(encoders->contexts[w]))
            return bo_fail(context, status, "%s", bo_context_error(encoders->contexts[w]));
    return bo_fail(context, status, "encoding: %s", bo_status_string(status));
}
