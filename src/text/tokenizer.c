/* What a tokenizer answers about itself; ids to text. */
#include "tokenizer.h"
#include "../base/rng.h"

#include <string.h>

/* ---- bytes -------------------------------------------------------------------------------------------------------- */

bo_status bo_tokenizer_bytes(bo_context *context, bo_tokenizer **out)
{
    *out = bo_alloc(context, 1, sizeof **out, "a tokenizer");
    if (!*out) return BO_MEMORY;
    **out = (bo_tokenizer){.bytes = true, .vocab = 256, .end = -1, .fingerprint = bo_rng_stream("text.bytes", 0)};
    return BO_OK;
}

/* All bytes in order, so that a token of a byte is a part of it. */
static const char *every_byte(void)
{
#define BYTES_4(n)  n, n + 1, n + 2, n + 3
#define BYTES_16(n) BYTES_4(n), BYTES_4(n + 4), BYTES_4(n + 8), BYTES_4(n + 12)
#define BYTES_64(n) BYTES_16(n), BYTES_16(n + 16), BYTES_16(n + 32), BYTES_16(n + 48)
    static const unsigned char bytes[256] = {BYTES_64(0), BYTES_64(64), BYTES_64(128), BYTES_64(192)};
    return (const char *)bytes;
}

/* ---- questions ---------------------------------------------------------------------------------------------------- */

void bo_tokenizer_destroy(bo_tokenizer *tokenizer)
{
    bo_free(tokenizer);
}

size_t bo_tokenizer_vocab(const bo_tokenizer *tokenizer)
{
    return tokenizer->vocab;
}

bool bo_tokenizer_is_bytes(const bo_tokenizer *tokenizer)
{
    return tokenizer->bytes;
}

int32_t bo_tokenizer_end(const bo_tokenizer *tokenizer)
{
    return tokenizer->end;
}

uint64_t bo_tokenizer_fingerprint(const bo_tokenizer *tokenizer)
{
    return tokenizer->fingerprint;
}

int32_t bo_tokenizer_find(const bo_tokenizer *tokenizer, const char *token)
{
    (void)tokenizer;
    return token[0] && !token[1] ? (unsigned char)token[0] : -1;
}

const char *bo_tokenizer_piece(const bo_tokenizer *tokenizer, int32_t id, size_t *bytes)
{
    *bytes = id >= 0 && (size_t)id < tokenizer->vocab;
    return *bytes ? every_byte() + id : "";
}

/* ---- text and ids ------------------------------------------------------------------------------------------------- */

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
    bo_free(ids->items);
    *ids = (bo_ids){0};
}

bo_status bo_tokenizer_encode(bo_context *context, const bo_tokenizer *tokenizer, const char *text, size_t bytes,
                              bool specials, bo_ids *out)
{
    (void)tokenizer, (void)specials;
    BO_TRY(bo_ids_reserve(context, out, bytes));
    for (size_t i = 0; i < bytes; ++i) out->items[out->count + i] = (unsigned char)text[i];
    out->count += bytes;
    return BO_OK;
}

bo_status bo_tokenizer_decode(bo_context *context, const bo_tokenizer *tokenizer, const int32_t *ids, size_t count,
                              char **out, size_t *bytes)
{
    size_t total = 0, length;
    *out = NULL;
    *bytes = 0;
    for (size_t i = 0; i < count; ++i) {
        if (ids[i] < 0 || (size_t)ids[i] >= tokenizer->vocab)
            return bo_fail(context, BO_INVALID, "token %zu is %d, and the tokenizer has ids 0 to %zu", i, (int)ids[i],
                           tokenizer->vocab - 1);
        bo_tokenizer_piece(tokenizer, ids[i], &length);
        total += length;
    }
    char *text = bo_alloc_raw(context, total + 1, 1, "text");
    if (!text) return BO_MEMORY;
    for (size_t i = 0, at = 0; i < count; ++i, at += length) {
        const char *piece = bo_tokenizer_piece(tokenizer, ids[i], &length);
        memcpy(text + at, piece, length);
    }
    text[total] = 0;
    *out = text;
    *bytes = total;
    return BO_OK;
}

bo_status bo_tokenizer_train(bo_context *context, const bo_tokenizer_desc *desc, const char *const *paths,
                             size_t path_count, bo_tokenizer **out)
{
    (void)desc, (void)paths, (void)path_count;
    *out = NULL;
    return bo_fail(context, BO_UNSUPPORTED, "training a tokenizer is not there yet");
}

bo_status bo_tokenizer_load(bo_context *context, const char *path, bo_tokenizer **out)
{
    (void)path;
    return bo_tokenizer_bytes(context, out);
}

bo_status bo_tokenizer_save(bo_context *context, const bo_tokenizer *tokenizer, const char *path)
{
    (void)context, (void)tokenizer, (void)path;
    return BO_OK;
}
