/* Vocabularies of models that are converted. */
#include "import.h"
#include <string.h>
#include "../text/unicode.h"

void bo_import_vocab_free(bo_import_vocab *vocab)
{
    bo_free(vocab->text);
    bo_free(vocab->tokens);
    bo_free(vocab->kinds);
    bo_free(vocab->scores);
    bo_free(vocab->pre);
    bo_free(vocab->chat_template);
    *vocab = (bo_import_vocab){0};
}

bo_status bo_import_vocab_create(bo_context *context, const char *where, size_t count, size_t bytes, bool scored,
                                 bo_import_vocab *out)
{
    *out = (bo_import_vocab){.where = where,
                             .bos = BO_TOKEN_NONE,
                             .eos = BO_TOKEN_NONE,
                             .eot = BO_TOKEN_NONE,
                             .unk = BO_TOKEN_NONE,
                             .pad = BO_TOKEN_NONE};
    if (count > INT32_MAX)
        return bo_fail(context, BO_FORMAT, "%s: expected at most %d tokens, found %zu", where, INT32_MAX, count);
    out->capacity = bytes + count;
    out->text = bo_alloc(context, out->capacity, 1, "tokens");
    out->tokens = bo_alloc(context, count, sizeof *out->tokens, "tokens");
    out->kinds = bo_alloc(context, count, 1, "tokens");
    if (scored) out->scores = bo_alloc(context, count, sizeof *out->scores, "scores of tokens");
    if (out->text && out->tokens && out->kinds && (out->scores || !scored)) return BO_OK;
    bo_import_vocab_free(out);
    return BO_MEMORY;
}

bo_status bo_import_vocab_add(bo_context *context, bo_import_vocab *vocab, size_t index, const char *text,
                              size_t length)
{
    const size_t max_bytes = vocab->scores ? BO_PIECE_BYTES : BO_TOKEN_BYTES;
    if (length == 0 || length > max_bytes)
        return bo_fail(context, BO_FORMAT, "%s: token %zu: expected 1 to %zu bytes, found %zu", vocab->where, index,
                       max_bytes, length);
    if (memchr(text, 0, length))
        return bo_fail(context, BO_FORMAT, "%s: token %zu contains a zero byte", vocab->where, index);
    if (bo_utf8_valid(text, length) != length)
        return bo_fail(context, BO_FORMAT, "%s: token %zu is not UTF-8 from byte %zu on", vocab->where, index,
                       bo_utf8_valid(text, length));
    char *to = index ? (char *)(uintptr_t)vocab->tokens[index - 1] + strlen(vocab->tokens[index - 1]) + 1 : vocab->text;
    if (length >= vocab->capacity - (size_t)(to - vocab->text))
        return bo_fail(context, BO_FORMAT,
                       "%s: token %zu: the tokens have more bytes than the file declares; the file may be truncated or "
                       "belong to another model",
                       vocab->where, index);
    memcpy(to, text, length);
    to[length] = 0;
    vocab->tokens[index] = to;
    vocab->kinds[index] = BO_TOKEN_NORMAL;
    vocab->count = index + 1;
    return BO_OK;
}

size_t bo_import_piece(const char *text, size_t length, char *out, size_t out_size)
{
    static const char SPACE[] = "\xE2\x96\x81";
    size_t used = 0;
    for (size_t i = 0; i < length; i++) {
        const size_t bytes = text[i] == ' ' ? sizeof SPACE - 1 : 1;
        if (bytes > out_size - used) return SIZE_MAX;
        memcpy(out + used, text[i] == ' ' ? SPACE : &text[i], bytes);
        used += bytes;
    }
    return used;
}
