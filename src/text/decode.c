/* Decoders change the texts of a list of tokens; some depend on the position of a token in the list. The decoder of
 * byte-level tokenizers keeps bytes that are not UTF-8; `tokenizers` writes replacement characters. */
#include "decode.h"
#include "unicode.h"

#include <bochner/base.h>
#include <stdio.h>
#include <string.h>

/* Replacements may produce at most MAX_GROWTH bytes per byte, plus SPARE_BYTES: each replacement may lengthen the
 * output of the previous one. */
enum { MAX_GROWTH = 64, SPARE_BYTES = 1 << 20 };

/* Token i is text.bytes[ends[i - 1]] to text.bytes[ends[i]]. */
typedef struct bo_tokens {
    bo_buffer text;
    size_t *ends;
    size_t count, capacity;
} bo_tokens;

typedef struct bo_decoding {
    bo_context *context;
    const bo_tokenizer *tokenizer;
    bo_tokens lists[2];
    bo_matcher matcher;
    bo_buffer copy, cleaned[2];
    bool middle;      /* the list is a token in the middle of a text */
    size_t max_bytes; /* maximum bytes of a list */
} bo_decoding;

/* ---- lists ------------------------------------------------------------------------------------------------------- */

/* Ends a token whose text has been appended. */
static bo_status end_token(bo_decoding *decoding, bo_tokens *list)
{
    if (list->count == list->capacity) {
        const size_t capacity = 2 * list->capacity + 16;
        size_t *larger = bo_realloc(decoding->context, list->ends, capacity, sizeof *larger, "text");
        if (!larger) return BO_MEMORY;
        list->ends = larger;
        list->capacity = capacity;
    }
    if (list->text.length > decoding->max_bytes)
        return bo_fail(decoding->context, BO_UNSUPPORTED,
                       "the decoders write at least %zu bytes for the texts of the tokens, expected at most %zu",
                       list->text.length, decoding->max_bytes);
    list->ends[list->count++] = list->text.length;
    return BO_OK;
}

static bo_status add_token(bo_decoding *decoding, bo_tokens *list, const char *text, size_t length)
{
    BO_TRY(bo_buffer_append(decoding->context, &list->text, text, length));
    return end_token(decoding, list);
}

static const char *token_at(const bo_tokens *list, size_t index, size_t *length)
{
    const size_t begin = index ? list->ends[index - 1] : 0;
    *length = list->ends[index] - begin;
    return list->text.bytes ? list->text.bytes + begin : "";
}

static void clear(bo_tokens *list)
{
    list->text.length = list->count = 0;
}

/* ---- decoders that change each token ----------------------------------------------------------------------------- */

static void strip_ends(const bo_decoder *decoder, const char **text, size_t *length)
{
    const size_t bytes = strlen(decoder->from);
    for (size_t i = 0; i < decoder->start && *length >= bytes && memcmp(*text, decoder->from, bytes) == 0; ++i) {
        *text += bytes;
        *length -= bytes;
    }
    for (size_t i = 0; i < decoder->stop && *length >= bytes; ++i) {
        if (memcmp(*text + *length - bytes, decoder->from, bytes) != 0) break;
        *length -= bytes;
    }
}

/* Replaces the string `from`; `to` is a buffer. */
static bo_status replace_string(bo_decoding *decoding, const char *from, const char *with, const char *text,
                                size_t length, bo_buffer *to)
{
    const bo_pattern pattern = {.text = (char *)from, .length = strlen(from)};
    const bo_replacement replacement = {&pattern, with, &decoding->matcher, &decoding->copy, decoding->max_bytes};
    if (pattern.length == 0) return bo_buffer_append(decoding->context, to, text, length);
    return bo_pattern_replace(decoding->context, &replacement, text, length, to, NULL);
}

/* Removes spaces before signs, as the decoder of BERT does, one rule after the other. */
static bo_status clean(bo_decoding *decoding, const char *text, size_t length, bo_buffer *to)
{
    static const char *const rules[][2] = {{" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
                                           {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
                                           {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
    size_t now = 0;
    decoding->cleaned[0].length = 0;
    BO_TRY(bo_buffer_append(decoding->context, &decoding->cleaned[0], text, length));
    for (size_t i = 0; i < sizeof rules / sizeof *rules && memchr(text, ' ', length); ++i, now = !now) {
        decoding->cleaned[!now].length = 0;
        BO_TRY(replace_string(decoding, rules[i][0], rules[i][1], decoding->cleaned[now].bytes,
                              decoding->cleaned[now].length, &decoding->cleaned[!now]));
    }
    return bo_buffer_append(decoding->context, to, decoding->cleaned[now].bytes, decoding->cleaned[now].length);
}

static bo_status join_words(bo_decoding *decoding, const bo_decoder *decoder, const char *text, size_t length,
                            bool first, bo_buffer *to)
{
    const size_t prefix = strlen(decoder->from);
    bo_buffer *spaced = &decoding->copy;
    const bool continues = length >= prefix && memcmp(text, decoder->from, prefix) == 0;
    if (!first && continues) {
        text += prefix;
        length -= prefix;
    }
    if (!decoder->flag) {
        if (!first && !continues) BO_TRY(bo_buffer_append(decoding->context, to, " ", 1));
        return bo_buffer_append(decoding->context, to, text, length);
    }
    spaced->length = 0;
    if (!first && !continues) BO_TRY(bo_buffer_append(decoding->context, spaced, " ", 1));
    BO_TRY(bo_buffer_append(decoding->context, spaced, text, length));
    BO_TRY(bo_buffer_append(decoding->context, spaced, "", 1));
    return clean(decoding, spaced->bytes, spaced->length - 1, to);
}

static bo_status change_token(bo_decoding *decoding, const bo_decoder *decoder, const char *text, size_t length,
                              bool first, bool last, bo_buffer *to)
{
    bo_context *context = decoding->context;
    switch (decoder->kind) {
    case BO_DECODE_REPLACE: {
        const bo_replacement replacement = {&decoder->pattern, decoder->to, &decoding->matcher, &decoding->copy,
                                            decoding->max_bytes};
        return bo_pattern_replace(context, &replacement, text, length, to, NULL);
    }
    case BO_DECODE_STRIP:
        strip_ends(decoder, &text, &length);
        return bo_buffer_append(context, to, text, length);
    case BO_DECODE_METASPACE:
        return replace_string(decoding, decoder->from, first && decoder->flag ? "" : " ", text, length, to);
    case BO_DECODE_SUFFIX:
        return replace_string(decoding, decoder->from, last ? "" : " ", text, length, to);
    case BO_DECODE_WORDPIECE:
        return join_words(decoding, decoder, text, length, first, to);
    default:
        return bo_buffer_append(context, to, text, length);
    }
}

static bo_status change_tokens(bo_decoding *decoding, const bo_decoder *decoder, const bo_tokens *from, bo_tokens *to)
{
    for (size_t i = 0; i < from->count; ++i) {
        size_t length;
        const char *text = token_at(from, i, &length);
        const bool first = i == 0 && !decoding->middle, last = i + 1 == from->count && !decoding->middle;
        BO_TRY(change_token(decoding, decoder, text, length, first, last, &to->text));
        BO_TRY(end_token(decoding, to));
    }
    return BO_OK;
}

/* ---- decoders that join tokens ----------------------------------------------------------------------------------- */

static bo_status fuse(bo_decoding *decoding, const bo_tokens *from, bool byte_level, bo_tokens *to)
{
    for (size_t i = 0; i < from->count; ++i) {
        size_t length;
        const char *text = token_at(from, i, &length);
        BO_TRY(bo_buffer_reserve(decoding->context, &to->text, length + 1));
        const size_t bytes = byte_level ? bo_byte_level_read(text, length, to->text.bytes + to->text.length) : SIZE_MAX;
        if (bytes == SIZE_MAX) memcpy(to->text.bytes + to->text.length, text, length); /* it has other characters */
        to->text.length += bytes == SIZE_MAX ? length : bytes;
    }
    return end_token(decoding, to);
}

/* <0x0A> is a byte. */
static bool read_byte(const char *text, size_t length, char *byte)
{
    unsigned value = 0;
    if (length != 6 || memcmp(text, "<0x", 3) != 0 || text[5] != '>') return false;
    for (int i = 3; i < 5; ++i) {
        const char c = text[i], small = (char)(c | 32);
        if (c >= '0' && c <= '9')
            value = 16 * value + (unsigned)(c - '0');
        else if (small >= 'a' && small <= 'f')
            value = 16 * value + (unsigned)(small - 'a' + 10);
        else
            return false;
    }
    *byte = (char)value;
    return true;
}

/* Bytes in sequence that are UTF-8 become one token; otherwise each of them becomes a replacement character. A byte in
 * the middle of a text is kept. */
static bo_status end_bytes(bo_decoding *decoding, bo_tokens *to, size_t begin)
{
    const size_t count = to->text.length - begin;
    if (count == 0) return BO_OK;
    if (decoding->middle || bo_utf8_valid(to->text.bytes + begin, count) == count) return end_token(decoding, to);
    to->text.length = begin;
    for (size_t i = 0; i < count; ++i) BO_TRY(add_token(decoding, to, "\xef\xbf\xbd", 3));
    return BO_OK;
}

static bo_status join_bytes(bo_decoding *decoding, const bo_tokens *from, bo_tokens *to)
{
    size_t begin = 0; /* of bytes in sequence */
    for (size_t i = 0; i < from->count; ++i) {
        size_t length;
        char byte;
        const char *text = token_at(from, i, &length);
        if (read_byte(text, length, &byte)) {
            BO_TRY(bo_buffer_append(decoding->context, &to->text, &byte, 1));
            continue;
        }
        BO_TRY(end_bytes(decoding, to, begin));
        BO_TRY(add_token(decoding, to, text, length));
        begin = to->text.length;
    }
    return end_bytes(decoding, to, begin);
}

/* ---- all decoders ------------------------------------------------------------------------------------------------ */

static bo_status decode_step(bo_decoding *decoding, const bo_decoder *decoder, const bo_tokens *from, bo_tokens *to)
{
    clear(to);
    switch (decoder->kind) {
    case BO_DECODE_BYTE_LEVEL:
    case BO_DECODE_FUSE:
        return fuse(decoding, from, decoder->kind == BO_DECODE_BYTE_LEVEL, to);
    case BO_DECODE_BYTES:
        return join_bytes(decoding, from, to);
    default:
        return change_tokens(decoding, decoder, from, to);
    }
}

/* The result is the text of *out, whose tokens follow each other. */
static bo_status decode_list(bo_decoding *decoding, const bo_tokens **out)
{
    size_t now = 0;
    /* the tokens have become one text: steps for its start and end do not apply to a piece inside it */
    bool fused = false;
    const bo_tokenizer *tokenizer = decoding->tokenizer;
    for (size_t i = 0; i < tokenizer->decoder_count; ++i) {
        const bo_decoder *decoder = &tokenizer->decoders[i];
        if (decoding->middle && fused && decoder->kind == BO_DECODE_STRIP) continue;
        BO_TRY(decode_step(decoding, decoder, &decoding->lists[now], &decoding->lists[!now]));
        fused = fused || decoder->kind == BO_DECODE_FUSE || decoder->kind == BO_DECODE_BYTE_LEVEL;
        now = !now;
    }
    *out = &decoding->lists[now];
    return BO_OK;
}

static bo_status begin(bo_context *context, const bo_tokenizer *tokenizer, bo_decoding *out)
{
    bool searches = false;
    *out = (bo_decoding){.context = context, .tokenizer = tokenizer, .max_bytes = SIZE_MAX};
    for (size_t i = 0; i < tokenizer->decoder_count; ++i)
        searches = searches || tokenizer->decoders[i].pattern.code != NULL;
    return searches ? bo_matcher_create(context, &out->matcher) : BO_OK;
}

static void end(bo_decoding *decoding)
{
    for (int i = 0; i < 2; ++i) {
        bo_buffer_free(&decoding->lists[i].text);
        bo_free(decoding->lists[i].ends);
        bo_buffer_free(&decoding->cleaned[i]);
    }
    bo_buffer_free(&decoding->copy);
    bo_matcher_free(&decoding->matcher);
}

/* The text of a token as decoders see it: the text of an added token that is searched for in normalized text is
 * normalized. */
static const char *shown(const bo_tokenizer *tokenizer, size_t id, size_t *length)
{
    const int32_t added = tokenizer->added_of[id];
    if (added >= 0 && tokenizer->added[added].normalized)
        return bo_spelling_at(&tokenizer->patterns, (size_t)added, length);
    return bo_spelling_at(&tokenizer->texts, id, length);
}

/* ---- pieces ------------------------------------------------------------------------------------------------------ */

static bo_status make_piece(bo_decoding *decoding, size_t id, size_t *written, bo_buffer *pieces)
{
    const bo_tokenizer *tokenizer = decoding->tokenizer;
    const size_t max_bytes = MAX_GROWTH * tokenizer->source_bytes + SPARE_BYTES;
    const bo_tokens *out;
    size_t length;
    const char *text = shown(tokenizer, id, &length);
    clear(&decoding->lists[0]);
    decoding->max_bytes = max_bytes - *written;
    BO_TRY(add_token(decoding, &decoding->lists[0], text, length));
    BO_TRY(decode_list(decoding, &out));
    *written += out->text.length;
    return bo_buffer_append(decoding->context, pieces, out->text.bytes, out->text.length);
}

static bo_status make_pieces(bo_decoding *decoding, size_t *starts, bo_buffer *pieces)
{
    size_t written = 0;
    decoding->middle = true;
    for (size_t id = 0; id < decoding->tokenizer->info.vocab; ++id) {
        BO_TRY(make_piece(decoding, id, &written, pieces));
        starts[id + 1] = pieces->length;
    }
    return bo_buffer_append(decoding->context, pieces, "", 1);
}

bo_status bo_make_pieces(bo_context *context, const char *where, bo_tokenizer *tokenizer)
{
    bo_decoding decoding;
    bo_buffer pieces = {0};
    size_t *starts = bo_alloc(context, tokenizer->info.vocab + 1, sizeof *starts, "the texts of tokens");
    bo_status status = starts ? begin(context, tokenizer, &decoding) : BO_MEMORY;
    if (status != BO_OK) {
        bo_free(starts);
        return status;
    }
    status = make_pieces(&decoding, starts, &pieces);
    if (status == BO_UNSUPPORTED) {
        char why[256];
        snprintf(why, sizeof why, "%s", bo_context_error(context));
        bo_fail(context, status, "%s: %s", where, why);
    }
    end(&decoding);
    tokenizer->pieces = (bo_spellings){pieces.bytes, starts, tokenizer->info.vocab}; /* freed with the tokenizer */
    return status;
}

/* ---- texts ------------------------------------------------------------------------------------------------------- */

static bo_status list_tokens(bo_decoding *decoding, const int32_t *ids, size_t count)
{
    const bo_tokenizer *tokenizer = decoding->tokenizer;
    for (size_t i = 0; i < count; ++i) {
        size_t length;
        if (ids[i] < 0 || (size_t)ids[i] >= tokenizer->info.vocab)
            return bo_fail(decoding->context, BO_INVALID, "token %zu is %d; expected ids from 0 to %zu", i, (int)ids[i],
                           tokenizer->info.vocab - 1);
        const char *text = shown(tokenizer, (size_t)ids[i], &length);
        if (length == 0 && !tokenizer->in_model[ids[i]]) continue; /* no such token */
        if (!tokenizer->decodes && decoding->lists[0].count > 0)
            BO_TRY(bo_buffer_append(decoding->context, &decoding->lists[0].text, " ", 1));
        BO_TRY(add_token(decoding, &decoding->lists[0], text, length));
    }
    decoding->max_bytes = MAX_GROWTH * decoding->lists[0].text.length + SPARE_BYTES;
    return BO_OK;
}

static bo_status decode_bytes(bo_context *context, const int32_t *ids, size_t count, char **out)
{
    char *text = bo_alloc_raw(context, count + 1, 1, "text");
    if (!text) return BO_MEMORY;
    for (size_t i = 0; i < count; ++i) {
        if (ids[i] < 0 || ids[i] > 255) {
            bo_free(text);
            return bo_fail(context, BO_INVALID, "token %zu is %d; expected ids from 0 to 255", i, (int)ids[i]);
        }
        text[i] = (char)ids[i];
    }
    text[count] = 0;
    *out = text;
    return BO_OK;
}

static bo_status decode_ids(bo_decoding *decoding, const int32_t *ids, size_t count, char **out, size_t *bytes)
{
    const bo_tokens *decoded;
    BO_TRY(list_tokens(decoding, ids, count));
    if (decoding->lists[0].count == 0) return decode_bytes(decoding->context, NULL, 0, out);
    BO_TRY(decode_list(decoding, &decoded));
    char *text = bo_alloc_raw(decoding->context, decoded->text.length + 1, 1, "text");
    if (!text) return BO_MEMORY;
    if (decoded->text.length > 0) memcpy(text, decoded->text.bytes, decoded->text.length);
    text[decoded->text.length] = 0;
    *out = text;
    *bytes = decoded->text.length;
    return BO_OK;
}

bo_status bo_tokenizer_decode(bo_context *context, const bo_tokenizer *tokenizer, const int32_t *ids, size_t count,
                              char **out, size_t *bytes)
{
    if (out) *out = NULL;
    if (bytes) *bytes = 0;
    BO_REQUIRE(context, tokenizer, out, bytes);
    BO_REQUIRE_IF(context, count > 0, ids);
    if (tokenizer->info.bytes) {
        BO_TRY(decode_bytes(context, ids, count, out));
        *bytes = count;
        return BO_OK;
    }
    bo_decoding decoding;
    BO_TRY(begin(context, tokenizer, &decoding));
    const bo_status status = decode_ids(&decoding, ids, count, out, bytes);
    end(&decoding);
    return status;
}
