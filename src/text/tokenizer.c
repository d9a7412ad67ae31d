/* Properties of a tokenizer, and ids to text. */
#include "facts.h"
#include "encoder.h"
#include "write.h"
#include "../base/rng.h"
#include "../io/output.h"

#include <bochner/data.h>
#include <ctype.h>
#include <string.h>

/* ---- bytes ------------------------------------------------------------------------------------------------------- */

bo_status bo_tokenizer_create(bo_context *context, bo_tokenizer **out)
{
    if (out) *out = NULL;
    BO_REQUIRE(context, out);
    *out = bo_alloc(context, 1, sizeof **out, "a tokenizer");
    if (!*out) return BO_MEMORY;
    **out =
        (bo_tokenizer){.info = {.vocab = 256, .end = -1, .bytes = true, .fingerprint = bo_rng_stream("text.bytes", 0)}};
    return BO_OK;
}

/* All bytes in order, so that the text of a byte token is a part of this string. */
static const char *every_byte(void)
{
#define BYTES_4(n)  n, n + 1, n + 2, n + 3
#define BYTES_16(n) BYTES_4(n), BYTES_4(n + 4), BYTES_4(n + 8), BYTES_4(n + 12)
#define BYTES_64(n) BYTES_16(n), BYTES_16(n + 16), BYTES_16(n + 32), BYTES_16(n + 48)
    static const unsigned char bytes[256] = {BYTES_64(0), BYTES_64(64), BYTES_64(128), BYTES_64(192)};
    return (const char *)bytes;
}

/* ---- queries ----------------------------------------------------------------------------------------------------- */

static void free_steps(bo_tokenizer *tokenizer)
{
    for (size_t i = 0; i < tokenizer->normalizer_count; ++i) {
        bo_pattern_free(&tokenizer->normalizers[i].pattern);
        bo_free(tokenizer->normalizers[i].content);
        bo_charsmap_free(&tokenizer->normalizers[i].charsmap);
    }
    for (size_t i = 0; i < tokenizer->splitter_count; ++i) bo_pattern_free(&tokenizer->splitters[i].pattern);
    for (size_t i = 0; i < tokenizer->decoder_count; ++i) {
        bo_pattern_free(&tokenizer->decoders[i].pattern);
        bo_free(tokenizer->decoders[i].from);
        bo_free(tokenizer->decoders[i].to);
    }
}

void bo_tokenizer_destroy(bo_tokenizer *tokenizer)
{
    if (!tokenizer) return;
    free_steps(tokenizer);
    bo_spellings_free(&tokenizer->texts);
    bo_spellings_free(&tokenizer->pieces);
    bo_free(tokenizer->by_text.slots);
    bo_free(tokenizer->merges.slots);
    bo_free(tokenizer->joints.slots);
    bo_free(tokenizer->in_model);
    bo_free(tokenizer->added_of);
    bo_free(tokenizer->added);
    for (int i = 0; i < 2; ++i) bo_trie_free(&tokenizer->finders[i]);
    bo_spellings_free(&tokenizer->patterns);
    bo_pattern_free(&tokenizer->word);
    bo_free(tokenizer->word_prefix);
    bo_free(tokenizer->word_suffix);
    bo_trie_free(&tokenizer->scored);
    bo_free(tokenizer->scores);
    bo_free(tokenizer->frame);
    bo_free(tokenizer->source);
    bo_free(tokenizer);
}

const bo_tokenizer_info *bo_tokenizer_describe(const bo_tokenizer *tokenizer)
{
    return tokenizer ? &tokenizer->info : NULL;
}

size_t bo_tokenizer_vocab(const bo_tokenizer *tokenizer)
{
    return tokenizer ? tokenizer->info.vocab : 0;
}

bool bo_tokenizer_is_raw(const bo_tokenizer *tokenizer)
{
    return tokenizer && tokenizer->info.bytes;
}

int32_t bo_tokenizer_end(const bo_tokenizer *tokenizer)
{
    return tokenizer ? tokenizer->info.end : -1;
}

uint64_t bo_tokenizer_fingerprint(const bo_tokenizer *tokenizer)
{
    return tokenizer ? tokenizer->info.fingerprint : 0;
}

bool bo_tokenizer_is_special(const bo_tokenizer *tokenizer, int32_t id)
{
    if (!tokenizer || tokenizer->info.bytes || id < 0 || (size_t)id >= tokenizer->info.vocab) return false;
    const int32_t added = tokenizer->added_of[id];
    return added >= 0 && tokenizer->added[added].special;
}

int32_t bo_tokenizer_find(const bo_tokenizer *tokenizer, const char *token)
{
    if (!tokenizer || !token) return -1;
    if (tokenizer->info.bytes) return token[0] && !token[1] ? (unsigned char)token[0] : -1;
    return bo_lookup_find(&tokenizer->by_text, &tokenizer->texts, token, strlen(token));
}

const char *bo_tokenizer_piece(const bo_tokenizer *tokenizer, int32_t id, size_t *bytes)
{
    if (!tokenizer) return NULL;
    size_t unwanted;
    if (!bytes) bytes = &unwanted;
    *bytes = 0;
    if (!tokenizer || id < 0 || (size_t)id >= tokenizer->info.vocab) return "";
    if (!tokenizer->info.bytes) return bo_spelling_at(&tokenizer->pieces, (size_t)id, bytes);
    *bytes = 1;
    return every_byte() + id;
}

/* GPT-2's expression never joins a space to the text before it, normalization changes nothing, and no special token
 * contains a space or takes one with it. */
bool bo_tokenizer_cuttable(const bo_tokenizer *tokenizer)
{
    const bo_splitter *splitter = &tokenizer->splitters[0];
    if (!tokenizer->byte_level || tokenizer->normalizer_count > 0 || tokenizer->splitter_count != 1 ||
        splitter->prefixing != BO_PREFIX_NEVER || splitter->cut != BO_CUT_PATTERN ||
        strcmp(splitter->pattern.text, bo_gpt2_pattern) != 0)
        return false;
    for (size_t i = 0; i < tokenizer->added_count; ++i) {
        size_t length;
        const char *text = bo_spelling_at(&tokenizer->texts, (size_t)tokenizer->added[i].id, &length);
        if (tokenizer->added[i].left || tokenizer->added[i].right) return false;
        for (size_t c = 0; c < length; ++c)
            if (isspace((unsigned char)text[c])) return false;
    }
    return true;
}

/* ---- text and ids ------------------------------------------------------------------------------------------------ */

bo_status bo_ids_reserve(bo_context *context, bo_ids *ids, size_t more)
{
    if (ids->capacity - ids->count >= more) return BO_OK;
    size_t capacity = ids->count + more > 2 * ids->capacity ? ids->count + more : 2 * ids->capacity;
    int32_t *larger = bo_realloc(context, ids->items, capacity, sizeof *larger, "token ids");
    if (!larger) return BO_MEMORY;
    ids->items = larger;
    ids->capacity = capacity;
    return BO_OK;
}

void bo_ids_free(bo_ids *ids)
{
    if (!ids) return;
    bo_free(ids->items);
    *ids = (bo_ids){0};
}

static bo_status encode_bytes(bo_context *context, const char *text, size_t bytes, bo_ids *out)
{
    BO_TRY(bo_ids_reserve(context, out, bytes));
    for (size_t i = 0; i < bytes; ++i) out->items[out->count + i] = (unsigned char)text[i];
    out->count += bytes;
    return BO_OK;
}

static bo_status encode(bo_context *context, const bo_tokenizer *tokenizer, const char *text, size_t bytes,
                        bool specials, const unsigned char *marks, bo_ids *out)
{
    if (tokenizer->info.bytes) return encode_bytes(context, text, bytes, out);
    bo_encoder encoder;
    BO_TRY(bo_encoder_create(context, tokenizer, specials, bytes, &encoder));
    encoder.marks = marks;
    const size_t before = out->count;
    bo_status status = bo_encoder_run(&encoder, text, bytes, out);
    if (status == BO_OK && encoder.missed.bytes > 0) {
        out->count = before;
        status = bo_missed_report(context, &encoder.missed, "encoding", encoder.missed.place, "of the text");
    }
    bo_encoder_free(&encoder);
    return status;
}

/* Adds the special tokens of the template around the ids from `first` on. */
static bo_status add_frame(bo_context *context, const bo_tokenizer *tokenizer, size_t first, bo_ids *ids)
{
    const size_t before = tokenizer->frame_before, after = tokenizer->frame_after, count = ids->count - first;
    if (before + after == 0) return BO_OK;
    BO_TRY(bo_ids_reserve(context, ids, before + after));
    int32_t *at = ids->items + first;
    memmove(at + before, at, count * sizeof *at);
    memcpy(at, tokenizer->frame, before * sizeof *at);
    memcpy(at + before + count, tokenizer->frame + before, after * sizeof *at);
    ids->count += before + after;
    return BO_OK;
}

/* The first token of an empty prompt. */
static bo_status encode_start(bo_context *context, const bo_tokenizer *tokenizer, bo_ids *out)
{
    const size_t first = out->count;
    size_t bytes = 1;
    const char *text = tokenizer->info.end < 0 ? "\n" : bo_tokenizer_piece(tokenizer, tokenizer->info.end, &bytes);
    const bo_status status = encode(context, tokenizer, text, bytes, true, NULL, out);
    if (status != BO_OK && status != BO_FORMAT) return status;
    if (out->count > first) return BO_OK;
    return bo_fail(context, BO_INVALID,
                   "the prompt is empty, and the tokenizer has no token to start a text with (neither an end-of-text "
                   "token nor a line end)");
}

bo_status bo_tokenizer_encode(bo_context *context, const bo_tokenizer *tokenizer, const char *text, size_t bytes,
                              unsigned how, bo_ids *out)
{
    BO_REQUIRE(context, tokenizer, out);
    BO_REQUIRE_IF(context, bytes > 0, text);
    if (how > BO_ENCODE_PROMPT)
        return bo_fail(context, BO_INVALID, "encoding: expected values of bo_encode, found %u", how);
    const size_t first = out->count;
    const bool prompt = how == BO_ENCODE_PROMPT;
    if (bytes || !prompt) BO_TRY(encode(context, tokenizer, text, bytes, (how & BO_ENCODE_SPECIALS) != 0, NULL, out));
    if (how & BO_ENCODE_TEMPLATE) BO_TRY(add_frame(context, tokenizer, first, out));
    return prompt && out->count == first ? encode_start(context, tokenizer, out) : BO_OK;
}

bo_status bo_tokenizer_encode_marked(bo_context *context, const bo_tokenizer *tokenizer, const char *text, size_t bytes,
                                     const unsigned char *marks, bo_ids *out)
{
    return encode(context, tokenizer, text, bytes, true, marks, out);
}

bool bo_tokenizer_frames(const bo_tokenizer *tokenizer, int32_t id)
{
    for (size_t i = 0; i < tokenizer->frame_before + tokenizer->frame_after; ++i)
        if (tokenizer->frame[i] == id) return true;
    return id == tokenizer->info.end;
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

/* The tokenizer.json, terminated: as loaded or as written. */
static bo_status spell_out(bo_context *context, const bo_tokenizer *tokenizer, char **out, size_t *size)
{
    if (!tokenizer->source) {
        const bo_learned bytes = {.byte_order = true, .pattern = ""};
        bo_json_text text;
        const bo_status status = bo_tokenizer_write(context, &bytes, &text);
        if (status == BO_OK)
            *out = text.bytes, *size = text.length;
        else
            bo_free(text.bytes);
        return status;
    }
    char *copy = bo_alloc_raw(context, tokenizer->source_bytes + 1, 1, "a tokenizer");
    if (!copy) return BO_MEMORY;
    memcpy(copy, tokenizer->source, tokenizer->source_bytes);
    copy[tokenizer->source_bytes] = 0;
    *out = copy, *size = tokenizer->source_bytes;
    return BO_OK;
}

bo_status bo_tokenizer_save(bo_context *context, const bo_tokenizer *tokenizer, const bo_sink *sink)
{
    char *text = NULL;
    size_t size = 0;
    bo_output *output;
    bo_sink_clear(sink);
    BO_REQUIRE(context, tokenizer, sink);
    BO_TRY(bo_output_open_sink(context, sink, &output));
    bo_status status = spell_out(context, tokenizer, &text, &size);
    if (status == BO_OK) status = bo_output_write(context, output, text, size);
    bo_free(text);
    return bo_output_finish(context, output, status);
}
