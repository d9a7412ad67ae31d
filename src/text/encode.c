#include "encoder.h"
#include "cut_points.h"
#include "unicode.h"

#include <stdio.h>
#include <string.h>

/* ---- a word ------------------------------------------------------------------------------------------------------- */

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

/* The bytes of a character that has no token: each its own, if all have one. */
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
        bytes = byte < 128 ? 1 : bo_utf8_character(text + at, length - at);
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

/* The symbols a word begins with: at most one a byte. */
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

/* Where merges are ignored for a word that is itself a token: is it one? */
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
    if (whole < 0) return bo_merge_symbols(encoder);
    encoder->missed = missed; /* its characters need no tokens */
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

/* What lies between two seams. */
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

bo_status bo_encode_word(bo_encoder *encoder, const char *text, size_t length)
{
    for (size_t piece; length > 0; text += piece, length -= piece) {
        piece = bo_cut_points_next(encoder->tokenizer, text, length);
        BO_TRY(encode_piece(encoder, text, piece));
    }
    return BO_OK;
}

/* ---- a text ------------------------------------------------------------------------------------------------------- */

/* The added token that begins at text[at], the longest there is; NULL: none. */
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
    if (added->left) { /* the stretch of white space before it */
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

/* A stretch without added tokens. Bytes that are not UTF-8 are words of their own: expressions could not look at them. */
static bo_status encode_stretch(bo_encoder *encoder, const char *text, size_t length, bool first)
{
    BO_TRY(bo_text_normalize(encoder, text, length, &text, &length));
    for (size_t at = 0; at < length; first = false) {
        size_t valid = bo_utf8_valid(text + at, length - at);
        if (valid > 0) BO_TRY(bo_split(encoder, 0, text + at, valid, first));
        at += valid;
        size_t invalid = bo_utf8_invalid(text + at, length - at);
        BO_TRY(bo_encode_word(encoder, text + at, invalid));
        at += invalid;
    }
    return BO_OK;
}

/* Where the character that was missed stands; normalizing may have made it of others. */
static size_t find_missed(const bo_encoder *encoder, const char *text, size_t from, size_t to)
{
    const char *found = memmem(text + from, to - from, encoder->missed.character, encoder->missed.bytes);
    return found ? (size_t)(found - text) : from;
}

bo_status bo_missed_tell(bo_context *context, const bo_missed *missed, const char *where, size_t place, const char *of)
{
    char name[32];
    const unsigned char first = (unsigned char)missed->character[0];
    if (first <= ' ' || first == 127 || bo_utf8_character(missed->character, missed->bytes) == 0)
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
