/* The vocabulary of a GGUF file: SentencePiece pieces ("llama") or byte-level BPE ("gpt2"). */
#include "import_gguf.h"
#include <string.h>
#include "../text/unicode.h"

#define KEY "tokenizer.ggml."

static bool is_text(const bo_gguf_entry *entry, const char *text)
{
    const char *found;
    size_t length, at = 0;
    return entry && bo_gguf_next_text(entry, &at, &found, &length) && length == strlen(text) &&
           memcmp(found, text, length) == 0;
}

/* A string of the metadata; *out is NULL if there is none, and is released with bo_free. */
static bo_status copy_text(bo_context *context, const bo_gguf *file, const char *key, char **out)
{
    const bo_gguf_entry *entry = bo_gguf_find(file, key);
    const char *text;
    size_t length, at = 0;
    *out = NULL;
    if (!entry || entry->array || !bo_gguf_next_text(entry, &at, &text, &length)) return BO_OK;
    if (memchr(text, 0, length) || bo_utf8_valid(text, length) != length)
        return bo_fail(context, BO_FORMAT, "%s: metadata '%s': expected UTF-8 without zero bytes", bo_gguf_path(file),
                       key);
    char *copy = bo_alloc(context, length + 1, 1, key);
    if (!copy) return BO_MEMORY;
    memcpy(copy, text, length);
    *out = copy;
    return BO_OK;
}

static bo_status find_id(bo_context *context, const bo_gguf *file, const char *key, size_t count, int64_t *out)
{
    const bo_gguf_entry *entry = bo_gguf_find(file, key);
    uint64_t id;
    double number = 0;
    if (!entry) return BO_OK;
    if (!bo_gguf_whole(entry, 0, &id)) {
        if (bo_gguf_number(entry, 0, &number) && number == -1) return BO_OK; /* none */
        return bo_fail(context, BO_FORMAT, "%s: metadata '%s': expected the number of a token", bo_gguf_path(file),
                       key);
    }
    if (id == UINT32_MAX) return BO_OK;
    if (id >= count)
        return bo_fail(context, BO_FORMAT, "%s: metadata '%s': expected a token below %zu, found %llu",
                       bo_gguf_path(file), key, count, (unsigned long long)id);
    *out = (int64_t)id;
    return BO_OK;
}

static bool find_flag(const bo_gguf *file, const char *key, bool initial)
{
    const bo_gguf_entry *entry = bo_gguf_find(file, key);
    uint64_t flag;
    return entry && bo_gguf_whole(entry, 0, &flag) ? flag != 0 : initial;
}

/* ---- tokens ------------------------------------------------------------------------------------------------------ */

/* An entry that must have an element per token. */
static bo_status check_count(bo_context *context, const bo_gguf *file, const bo_gguf_entry *entry, size_t count)
{
    if (!entry || (entry->array && entry->count == count && entry->type != BO_GGUF_STRING)) return BO_OK;
    return bo_fail(context, BO_FORMAT, "%s: metadata '%s': expected an array of %zu numbers, one per token, found %zu",
                   bo_gguf_path(file), entry->key, count, entry->count);
}

static bo_status read_kind(bo_context *context, const bo_gguf *file, const bo_gguf_entry *types, size_t index,
                           unsigned char *out)
{
    uint64_t kind = BO_TOKEN_NORMAL;
    if (types && (!bo_gguf_whole(types, index, &kind) || kind > BO_TOKEN_BYTE))
        return bo_fail(context, BO_FORMAT, "%s: metadata '" KEY "token_type': token %zu: expected a type of 0 to 6",
                       bo_gguf_path(file), index);
    *out = kind ? (unsigned char)kind : BO_TOKEN_NORMAL;
    return BO_OK;
}

static bo_status read_score(bo_context *context, const bo_gguf *file, const bo_gguf_entry *scores, size_t index,
                            bo_import_vocab *vocab)
{
    double score = 0;
    if (!scores) return BO_OK;
    if (!bo_gguf_number(scores, index, &score) || score != score)
        return bo_fail(context, BO_FORMAT, "%s: metadata '" KEY "scores': token %zu: the score is not a number",
                       bo_gguf_path(file), index);
    vocab->scores[index] = (float)score;
    return BO_OK;
}

static bo_status read_tokens(bo_context *context, const bo_gguf *file, const bo_gguf_entry *tokens, bool pieces,
                             bo_import_vocab *vocab)
{
    const bo_gguf_entry *types = bo_gguf_find(file, KEY "token_type");
    const bo_gguf_entry *scores = pieces ? bo_gguf_find(file, KEY "scores") : NULL;
    const char *text;
    char piece[BO_PIECE_BYTES];
    size_t length, at = 0;
    BO_TRY(check_count(context, file, types, tokens->count));
    BO_TRY(check_count(context, file, scores, tokens->count));
    for (size_t i = 0; bo_gguf_next_text(tokens, &at, &text, &length); i++) {
        unsigned char kind = BO_TOKEN_NORMAL;
        BO_TRY(read_kind(context, file, types, i, &kind));
        if (pieces && kind == BO_TOKEN_USER) { /* stored with spaces */
            const size_t used = bo_import_piece(text, length, piece, sizeof piece);
            if (used != SIZE_MAX) {
                text = piece;
                length = used;
            }
        }
        BO_TRY(bo_import_vocab_add(context, vocab, i, text, length));
        vocab->kinds[i] = kind;
        BO_TRY(read_score(context, file, scores, i, vocab));
    }
    return BO_OK;
}

/* ---- special tokens ---------------------------------------------------------------------------------------------- */

static bo_status read_specials(bo_context *context, const bo_gguf *file, bo_import_vocab *vocab)
{
    const struct {
        const char *key;
        int64_t *id;
    } ids[] = {{KEY "bos_token_id", &vocab->bos},
               {KEY "eos_token_id", &vocab->eos},
               {KEY "eot_token_id", &vocab->eot},
               {KEY "unknown_token_id", &vocab->unk},
               {KEY "padding_token_id", &vocab->pad}};
    if (vocab->scores && vocab->count > 2) { /* the defaults of SentencePiece */
        vocab->unk = 0;
        vocab->bos = 1;
        vocab->eos = 2;
    }
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
        BO_TRY(find_id(context, file, ids[i].key, vocab->count, ids[i].id));
    static const char *const beginning[] = {"llama-bpe", "llama3", "llama-v3", "falcon3", "pixtral", "lfm2", "tekken"};
    bool begins = vocab->scores != NULL; /* unless the file states it */
    for (size_t i = 0; !vocab->scores && i < sizeof beginning / sizeof *beginning; i++)
        begins |= strcmp(vocab->pre, beginning[i]) == 0;
    vocab->add_bos = find_flag(file, KEY "add_bos_token", begins) && vocab->bos != BO_TOKEN_NONE;
    vocab->add_eos = find_flag(file, KEY "add_eos_token", false) && vocab->eos != BO_TOKEN_NONE;
    vocab->space_prefix = vocab->scores && find_flag(file, KEY "add_space_prefix", true);
    for (size_t i = 0; i < 2; i++) { /* tokens around texts are special, whatever their type */
        const int64_t id = i ? vocab->eos : vocab->bos;
        if (id != BO_TOKEN_NONE && vocab->kinds[id] == BO_TOKEN_NORMAL) vocab->kinds[id] = BO_TOKEN_CONTROL;
    }
    return copy_text(context, file, "tokenizer.chat_template", &vocab->chat_template);
}

static bo_status read_pre(bo_context *context, const bo_gguf *file, bo_import_vocab *vocab)
{
    BO_TRY(copy_text(context, file, KEY "pre", &vocab->pre));
    if (vocab->pre) return BO_OK;
    bo_log(context, BO_LOG_WARNING, "%s: metadata '" KEY "pre' is missing: the default pre-tokenizer is used",
           bo_gguf_path(file));
    vocab->pre = bo_strdup(context, "default");
    return vocab->pre ? BO_OK : BO_MEMORY;
}

static bo_status read_all(bo_context *context, const bo_import_model *m, const bo_gguf_entry *tokens, bool pieces,
                          bo_import_vocab *vocab)
{
    BO_TRY(bo_import_vocab_create(context, bo_gguf_path(m->file), tokens->count, 3 * tokens->bytes, pieces, vocab));
    if (!pieces) {
        vocab->merges = bo_gguf_find(m->file, KEY "merges");
        if (!vocab->merges || vocab->merges->type != BO_GGUF_STRING)
            return bo_fail(context, BO_FORMAT, "%s: metadata '" KEY "merges' is missing", bo_gguf_path(m->file));
        BO_TRY(read_pre(context, m->file, vocab));
    }
    BO_TRY(read_tokens(context, m->file, tokens, pieces, vocab));
    return read_specials(context, m->file, vocab);
}

bo_status bo_import_gguf_vocab(bo_context *context, const bo_import_model *m, bo_import_vocab *out)
{
    const bo_gguf_entry *kind = bo_gguf_find(m->file, KEY "model"), *tokens = bo_gguf_find(m->file, KEY "tokens");
    const bool pieces = is_text(kind, "llama"), bytes = is_text(kind, "gpt2");
    const char *path = bo_gguf_path(m->file), *name = "";
    size_t length = 0, at = 0;
    BO_TRY(bo_import_vocab_create(context, path, 0, 0, false, out));
    if (!kind || is_text(kind, "none") || is_text(kind, "no_vocab")) {
        bo_log(context, BO_LOG_WARNING, "%s: the file has no tokenizer", path);
        return BO_OK;
    }
    if (!pieces && !bytes) {
        bo_gguf_next_text(kind, &at, &name, &length);
        return bo_fail(context, BO_UNSUPPORTED,
                       "%s: metadata '" KEY "model': the tokenizer '%.*s' is not supported; expected llama or gpt2",
                       path, (int)bo_min(length, 60), name);
    }
    if (!tokens || !tokens->array || tokens->type != BO_GGUF_STRING || tokens->count == 0)
        return bo_fail(context, BO_FORMAT, "%s: metadata '" KEY "tokens': expected an array of strings", path);
    if (tokens->count > m->vocab)
        return bo_fail(context, BO_FORMAT, "%s: expected at most %zu tokens, the rows of the embedding, found %zu",
                       path, m->vocab, tokens->count);
    bo_import_vocab_free(out);
    const bo_status status = read_all(context, m, tokens, pieces, out);
    if (status != BO_OK) bo_import_vocab_free(out);
    return status;
}
