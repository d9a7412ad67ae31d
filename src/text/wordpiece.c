/* The models WordPiece, which takes the longest token at each position of a word, and WordLevel, which takes words. */
#include "encoder.h"
#include "unicode.h"

#include <bochner/base.h>
#include <string.h>

static size_t count_chars(const char *text, size_t length)
{
    size_t count = 0;
    for (size_t i = 0; i < length; ++i) count += ((unsigned char)text[i] & 0xC0) != 0x80;
    return count;
}

/* Bytes of the last character. */
static size_t last_bytes(const char *text, size_t length)
{
    size_t bytes = 1;
    while (bytes < length && bytes < 4 && ((unsigned char)text[length - bytes] & 0xC0) == 0x80) ++bytes;
    return bytes;
}

/* The longest token at the start of the text; -1: none. Tokens that do not start a word have a prefix. */
static bo_status find_longest(bo_encoder *encoder, const char *text, size_t length, bool begins, size_t *bytes,
                              int32_t *id)
{
    const bo_tokenizer *tokenizer = encoder->tokenizer;
    const char *prefix = begins || !tokenizer->word_prefix ? "" : tokenizer->word_prefix;
    const size_t before = strlen(prefix);
    *id = -1;
    if (length > tokenizer->longest) {
        length = tokenizer->longest;
        while (length > 0 && ((unsigned char)text[length] & 0xC0) == 0x80) --length;
    }
    encoder->spelled.length = 0;
    BO_TRY(bo_buffer_append(encoder->context, &encoder->spelled, prefix, before));
    BO_TRY(bo_buffer_append(encoder->context, &encoder->spelled, text, length));
    for (*bytes = length; *bytes > 0; *bytes -= last_bytes(text, *bytes)) {
        *id = bo_encoder_symbol(encoder, encoder->spelled.bytes, before + *bytes);
        if (*id >= 0) break;
    }
    return BO_OK;
}

static bo_status add_whole(bo_encoder *encoder, const char *text, size_t length)
{
    const int32_t id = encoder->tokenizer->model == BO_MODEL_WORDS ? bo_encoder_symbol(encoder, text, length) : -1;
    encoder->merging.count = 0;
    if (id >= 0)
        encoder->merging.ids[encoder->merging.count++] = id;
    else {
        const size_t first = bo_utf8_length(text, length);
        bo_add_unknown(encoder, text, first ? first : 1);
    }
    return BO_OK;
}

bo_status bo_encode_wordpiece(bo_encoder *encoder, const char *text, size_t length)
{
    BO_TRY(bo_merging_reserve(encoder, length + 1));
    encoder->merging.count = 0;
    if (encoder->tokenizer->model == BO_MODEL_WORDS || count_chars(text, length) > encoder->tokenizer->max_chars)
        return add_whole(encoder, text, length);
    for (size_t at = 0, bytes; at < length; at += bytes) {
        int32_t id;
        BO_TRY(find_longest(encoder, text + at, length - at, at == 0, &bytes, &id));
        if (id < 0) return add_whole(encoder, text, length);
        encoder->merging.ids[encoder->merging.count++] = id;
    }
    return BO_OK;
}
