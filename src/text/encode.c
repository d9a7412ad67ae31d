/* Text to ids: added tokens are found first; the rest is normalized and split into words, and each word is encoded. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cut_points.h"
#include "encoder.h"
#include "unicode.h"

/* ---- symbols of a word ------------------------------------------------------------------------------------------- */

bo_status bo_merging_reserve(bo_encoder *encoder, size_t count)
{
    bo_merging *word = &encoder->merging;
    if (word->capacity >= count) return BO_OK;
    bo_free(word->ids);
    word->capacity = 0;
    word->ids = bo_alloc_raw(encoder->context, 2 * count + 64, sizeof *word->ids, "the symbols of a word");
    if (!word->ids) return BO_MEMORY;
    word->capacity = 2 * count + 64;
    return BO_OK;
}

void bo_add_unknown(bo_encoder *encoder, const char *text, size_t length)
{
    if (encoder->tokenizer->unknown >= 0) {
        encoder->merging.ids[encoder->merging.count++] = encoder->tokenizer->unknown;
    } else if (encoder->missed.bytes == 0) {
        encoder->missed = (bo_missed){.bytes = length, .place = SIZE_MAX};
        memcpy(encoder->missed.character, text, length);
    }
}

bool bo_add_bytes(bo_encoder *encoder, const char *text, size_t length)
{
    const int32_t *ids = encoder->tokenizer->byte_ids;
    bo_merging *word = &encoder->merging;
    for (size_t i = 0; i < length; ++i)
        if (ids[(unsigned char)text[i]] < 0) return false;
    for (size_t i = 0; i < length; ++i) word->ids[word->count++] = ids[(unsigned char)text[i]];
    return true;
}

/* The state of spelling: an unknown token is delayed until the next token or the next unknown character outside of it,
 * so that bytes come before it. */
typedef struct bo_spelling_out {
    bo_encoder *encoder;
    bool unknown;
} bo_spelling_out;

static void flush_unknown(bo_spelling_out *spelling)
{
    if (spelling->unknown) bo_add_unknown(spelling->encoder, "", 0);
    spelling->unknown = false;
}

/* A symbol, or -1. character: the character in messages about a missing symbol. text: its bytes, for byte fallback. */
static void add_symbol(bo_spelling_out *spelling, int32_t id, const char *text, size_t length, const char *character,
                       size_t bytes)
{
    bo_encoder *encoder = spelling->encoder;
    const bo_tokenizer *tokenizer = encoder->tokenizer;
    if (id >= 0) {
        flush_unknown(spelling);
        encoder->merging.ids[encoder->merging.count++] = id;
        return;
    }
    if (tokenizer->byte_fallback && !tokenizer->byte_level && bo_add_bytes(encoder, text, length)) return;
    if (tokenizer->unknown < 0) {
        bo_add_unknown(encoder, character, bytes);
        return;
    }
    if (!tokenizer->fuse_unknown) flush_unknown(spelling);
    spelling->unknown = true;
}

/* A symbol with the prefix and the suffix of its position. */
static bo_status add_affixed(bo_spelling_out *spelling, const char *text, size_t length, bool first, bool last)
{
    bo_encoder *encoder = spelling->encoder;
    const bo_tokenizer *tokenizer = encoder->tokenizer;
    const char *prefix = first || !tokenizer->word_prefix ? "" : tokenizer->word_prefix;
    const char *suffix = last && tokenizer->word_suffix ? tokenizer->word_suffix : "";
    bo_buffer *spelled = &encoder->spelled;
    spelled->length = 0;
    BO_TRY(bo_buffer_append(encoder->context, spelled, prefix, strlen(prefix)));
    BO_TRY(bo_buffer_append(encoder->context, spelled, text, length));
    BO_TRY(bo_buffer_append(encoder->context, spelled, suffix, strlen(suffix)));
    const int32_t id = bo_tokenizer_symbol(tokenizer, spelled->bytes, spelled->length);
    add_symbol(spelling, id, spelled->bytes, spelled->length, text, length);
    return BO_OK;
}

static bo_status spell_characters(bo_spelling_out *spelling, const char *text, size_t length)
{
    const bo_tokenizer *tokenizer = spelling->encoder->tokenizer;
    const bool affixed = tokenizer->word_prefix || tokenizer->word_suffix;
    for (size_t at = 0, bytes; at < length; at += bytes) {
        const unsigned char byte = (unsigned char)text[at];
        bytes = byte < 128 ? 1 : bo_utf8_length(text + at, length - at);
        const bool valid = bytes > 0;
        if (!valid) bytes = 1;
        if (affixed) {
            BO_TRY(add_affixed(spelling, text + at, bytes, at == 0, at + bytes == length));
            continue;
        }
        const int32_t id = byte < 128 ? tokenizer->ascii_ids[byte]
                           : valid    ? bo_tokenizer_symbol(tokenizer, text + at, bytes)
                                      : -1;
        add_symbol(spelling, id, text + at, bytes, text + at, bytes);
    }
    return BO_OK;
}

/* The initial symbols of a word: at most one per byte, including the bytes of affixes. */
static bo_status spell(bo_encoder *encoder, const char *text, size_t length)
{
    const bo_tokenizer *tokenizer = encoder->tokenizer;
    bo_spelling_out spelling = {.encoder = encoder};
    size_t affixes = 1;
    if (tokenizer->word_prefix) affixes += strlen(tokenizer->word_prefix);
    if (tokenizer->word_suffix) affixes += strlen(tokenizer->word_suffix);
    BO_TRY(bo_merging_reserve(encoder, length * affixes + affixes));
    encoder->merging.count = 0;
    if (tokenizer->byte_level)
        for (size_t i = 0; i < length; ++i)
            add_symbol(&spelling, tokenizer->byte_ids[(unsigned char)text[i]], NULL, 0, text + i, 1);
    else
        BO_TRY(spell_characters(&spelling, text, length));
    flush_unknown(&spelling);
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
            char symbol[BO_BYTE_LEVEL_SIZE];
            size_t bytes = bo_byte_level_write((unsigned char)text[i], symbol);
            BO_TRY(bo_buffer_append(encoder->context, &encoder->spelled, symbol, bytes));
        }
        text = encoder->spelled.bytes;
        length = encoder->spelled.length;
    }
    *id = bo_encoder_symbol(encoder, text, length);
    return BO_OK;
}

static bo_status encode_bpe(bo_encoder *encoder, const char *text, size_t length)
{
    int32_t whole;
    BO_TRY(find_whole(encoder, text, length, &whole));
    if (whole >= 0) {
        BO_TRY(bo_merging_reserve(encoder, 1));
        encoder->merging.ids[0] = whole;
        encoder->merging.count = 1;
        return BO_OK;
    }
    BO_TRY(spell(encoder, text, length));
    return bo_merge_symbols(encoder);
}

/* ---- a word ------------------------------------------------------------------------------------------------------ */

static bo_status encode_by_model(bo_encoder *encoder, const char *text, size_t length)
{
    switch (encoder->tokenizer->model) {
    case BO_MODEL_UNIGRAM:
        return bo_encode_unigram(encoder, text, length);
    case BO_MODEL_WORDPIECE:
    case BO_MODEL_WORDS:
        return bo_encode_wordpiece(encoder, text, length);
    default:
        return encode_bpe(encoder, text, length);
    }
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
    BO_TRY(encode_by_model(encoder, text, length));
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

/* ---- a text ------------------------------------------------------------------------------------------------------ */

/* Words that are not valid UTF-8 are encoded separately, because regular expressions cannot process them. */
static bo_status encode_invalid(bo_encoder *encoder, const char *text, size_t length)
{
    const bo_tokenizer *tokenizer = encoder->tokenizer;
    bool byte_level = false;
    if (length == 0) return BO_OK;
    for (size_t i = 0; i < tokenizer->splitter_count; ++i)
        byte_level = byte_level || tokenizer->splitters[i].byte_level;
    if (!byte_level) return bo_encode_word(encoder, text, length);
    encoder->copy.length = 0;
    BO_TRY(bo_buffer_reserve(encoder->context, &encoder->copy, length * BO_BYTE_LEVEL_SIZE));
    for (size_t i = 0; i < length; ++i)
        encoder->copy.length += bo_byte_level_write((unsigned char)text[i], encoder->copy.bytes + encoder->copy.length);
    return bo_encode_word(encoder, encoder->copy.bytes, encoder->copy.length);
}

/* Encodes normalized text without added tokens. */
static bo_status encode_plain(bo_encoder *encoder, const char *text, size_t length, size_t lead)
{
    for (size_t at = 0; at < length;) {
        const size_t valid = bo_utf8_valid(text + at, length - at);
        if (valid > 0) BO_TRY(bo_split_text(encoder, 0, text + at, valid, at < lead ? lead - at : 0));
        at += valid;
        const size_t invalid = bo_utf8_invalid(text + at, length - at);
        BO_TRY(encode_invalid(encoder, text + at, invalid));
        at += invalid;
    }
    return BO_OK;
}

/* The number of bytes with the same mark as the first one. */
static size_t run_of(const unsigned char *marks, size_t length)
{
    size_t end = 1;
    while (end < length && marks[end] == marks[0]) end++;
    return end;
}

/* Normalizes the runs of equal marks one by one, so that each byte of the result has the mark of its source. */
static bo_status normalize_runs(bo_encoder *encoder, const char *text, size_t length, const unsigned char *marks,
                                size_t *lead)
{
    bo_normalizing *work = &encoder->normal;
    bo_buffer *joined = &encoder->joined, *joined_marks = &encoder->joined_marks;
    bo_status status = BO_OK;
    joined->length = joined_marks->length = 0;
    for (size_t at = 0, bytes; status == BO_OK && at < length; at += bytes) {
        const char *part;
        size_t count, other = 0;
        bytes = run_of(marks + at, length - at);
        work->preceded = at > 0;
        work->followed = at + bytes < length;
        status = bo_normalize_text(encoder->context, encoder->tokenizer, &encoder->matcher, work, text + at, bytes,
                                   &part, &count, at ? &other : lead);
        if (status == BO_OK) status = bo_buffer_append(encoder->context, joined, part, count);
        if (status == BO_OK) status = bo_buffer_reserve(encoder->context, joined_marks, count);
        if (status == BO_OK && count) memset(joined_marks->bytes + joined_marks->length, marks[at], count);
        if (status == BO_OK) joined_marks->length += count;
    }
    work->preceded = work->followed = false;
    return status;
}

/* Normalizes a section. Special tokens that are found in the result need its marks. */
static bo_status normalize_section(bo_encoder *encoder, const char **text, size_t *length, const unsigned char *marks,
                                   size_t *lead)
{
    const bo_tokenizer *tokenizer = encoder->tokenizer;
    const char *given = *text;
    const size_t given_length = *length, given_lead = *lead;
    encoder->normal_marks = NULL;
    BO_TRY(bo_normalize_text(encoder->context, tokenizer, &encoder->matcher, &encoder->normal, given, given_length,
                             text, length, lead));
    if (!marks || !tokenizer->normal_specials || !memchr(marks, 1, given_length)) return BO_OK;
    if (*length != given_length || memcmp(*text, given, given_length) != 0) {
        *lead = given_lead;
        BO_TRY(normalize_runs(encoder, given, given_length, marks, lead));
        *text = encoder->joined.length ? encoder->joined.bytes : "";
        *length = encoder->joined.length;
        marks = (const unsigned char *)encoder->joined_marks.bytes;
    }
    encoder->normal_marks = marks;
    return BO_OK;
}

/* Encodes text without the added tokens that are found in the input. start: whether the input begins with it. */
static bo_status encode_section(bo_encoder *encoder, const char *text, size_t length, const unsigned char *marks,
                                bool start)
{
    const bo_tokenizer *tokenizer = encoder->tokenizer;
    size_t lead = tokenizer->leads && start ? bo_utf8_length(text, length) : 0, from, to;
    bo_added_search search = {0, 0};
    if (tokenizer->leads && start && lead == 0) lead = 1;
    BO_TRY(normalize_section(encoder, &text, &length, marks, &lead));
    for (const bo_added *added = NULL; search.begin < length || search.search < length;) {
        added = bo_added_next(encoder, true, text, length, &search, &from, &to);
        BO_TRY(encoder->failed);
        BO_TRY(encode_plain(encoder, text + from, to - from, from < lead ? lead - from : 0));
        if (!added) break;
        BO_TRY(append(encoder, &added->id, 1));
    }
    return BO_OK;
}

/* Finds the position of the character that has no token; normalization may have changed the text. */
static size_t find_missed(const bo_encoder *encoder, const char *text, size_t from, size_t to)
{
    const char *found = memmem(text + from, to - from, encoder->missed.character, encoder->missed.bytes);
    return found ? (size_t)(found - text) : from;
}

bo_status bo_missed_report(bo_context *context, const bo_missed *missed, const char *where, size_t place,
                           const char *of)
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
    encoder->failed = BO_OK;
    encoder->invalid = bo_utf8_valid(text, length);
    if (encoder->invalid == length) encoder->invalid = SIZE_MAX;
    bo_added_search search = {0, 0};
    for (size_t from, to; search.begin < length || search.search < length;) {
        const bo_added *added = bo_added_next(encoder, false, text, length, &search, &from, &to);
        BO_TRY(encoder->failed);
        if (from < to)
            BO_TRY(encode_section(encoder, text + from, to - from, encoder->marks ? encoder->marks + from : NULL,
                                  from == 0));
        if (encoder->missed.bytes > 0 && encoder->missed.place == SIZE_MAX)
            encoder->missed.place = find_missed(encoder, text, from, to);
        if (!added) break;
        BO_TRY(append(encoder, &added->id, 1));
    }
    return BO_OK;
}

bo_status bo_encoder_create(bo_context *context, const bo_tokenizer *tokenizer, bool specials, size_t bytes,
                            bo_encoder *out)
{
    enum { MIN_PLACES = 64, MAX_PLACES = 1 << 14 };
    size_t places = MIN_PLACES;
    while (places < MAX_PLACES && places < bytes / 16) places *= 2;
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
    bo_normalizing_free(&encoder->normal);
    bo_buffer_free(&encoder->spelled);
    bo_buffer_free(&encoder->copy);
    bo_buffer_free(&encoder->joined);
    bo_buffer_free(&encoder->joined_marks);
    for (size_t i = 0; i < BO_MAX_STEPS; ++i) {
        bo_buffer_free(&encoder->marked[i]);
        bo_buffer_free(&encoder->copies[i]);
        bo_buffer_free(&encoder->byte_level[i]);
    }
    bo_free(encoder->cache);
    bo_free(encoder->merging.ids);
    bo_free(encoder->merging.before);
    bo_free(encoder->merging.after);
    bo_free(encoder->merging.heap);
    bo_free(encoder->merging.paths);
    *encoder = (bo_encoder){0};
}
