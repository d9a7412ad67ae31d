/* The model part of tokenizer.json: vocabulary, merges, scores. The file is not trusted: ids must be distinct and not
 * far beyond their count, and a merge must join existing tokens into an existing token. */
#include "load.h"
#include "cut_points.h"
#include "unicode.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { SPARE_IDS = 1 << 16 }; /* ids may have gaps, but must not exceed twice their count by more than this */

void bo_load_hash(bo_loading *loading, const void *bytes, size_t length)
{
    for (size_t i = 0; i < length; ++i) /* FNV-1a */
        loading->hash = (loading->hash ^ ((const unsigned char *)bytes)[i]) * 1099511628211u;
}

/* ---- the options of the model ------------------------------------------------------------------------------------ */

static bo_status find_type(bo_loading *loading, const bo_json *model)
{
    static const char *const names[] = {[BO_MODEL_BPE] = "BPE",
                                        [BO_MODEL_UNIGRAM] = "Unigram",
                                        [BO_MODEL_WORDPIECE] = "WordPiece",
                                        [BO_MODEL_WORDS] = "WordLevel"};
    const char *type = bo_load_type(model);
    if (!*type && bo_json_member(model, "merges") != NULL) type = "BPE"; /* old files do not state the type */
    for (size_t i = 0; i < sizeof names / sizeof *names; ++i)
        if (strcmp(type, names[i]) == 0) {
            loading->tokenizer->model = (bo_token_model)i;
            return BO_OK;
        }
    return bo_load_refuse(loading, "a model", model);
}

/* A text before or after the characters of a word. */
static bo_status load_affix(const bo_loading *loading, const bo_json *model, const char *name, char **out)
{
    enum { MAX_AFFIX = 64 };
    const char *affix = bo_load_text(model, name);
    if (!affix || !*affix) return BO_OK;
    if (strlen(affix) > MAX_AFFIX)
        return bo_fail(loading->context, BO_UNSUPPORTED, "%s: the %s has %zu bytes, expected at most %d",
                       loading->where, name, strlen(affix), MAX_AFFIX);
    *out = bo_strdup(loading->context, affix);
    return *out ? BO_OK : BO_MEMORY;
}

/* If ByteLevel is the last pre-tokenizer, symbols are looked up by byte, without byte-level symbols. */
static void choose_byte_level(bo_tokenizer *tokenizer)
{
    size_t byte_level_steps = 0;
    for (size_t i = 0; i < tokenizer->splitter_count; ++i) byte_level_steps += tokenizer->splitters[i].byte_level;
    if (tokenizer->model != BO_MODEL_BPE || tokenizer->byte_fallback || tokenizer->word_prefix ||
        tokenizer->word_suffix || byte_level_steps != 1 ||
        !tokenizer->splitters[tokenizer->splitter_count - 1].byte_level)
        return;
    tokenizer->splitters[tokenizer->splitter_count - 1].byte_level = false;
    tokenizer->byte_level = true;
}

static bo_status load_options(bo_loading *loading, const bo_json *model)
{
    bo_tokenizer *tokenizer = loading->tokenizer;
    const bo_json *dropout = bo_json_member(model, "dropout");
    BO_TRY(find_type(loading, model));
    if (bo_json_is(dropout, BO_JSON_NUMBER) && dropout->number != 0)
        return bo_fail(loading->context, BO_UNSUPPORTED, "%s: a model with dropout (%g) is not supported",
                       loading->where, dropout->number);
    if (tokenizer->model == BO_MODEL_BPE || tokenizer->model == BO_MODEL_WORDPIECE)
        BO_TRY(load_affix(loading, model, "continuing_subword_prefix", &tokenizer->word_prefix));
    if (tokenizer->model == BO_MODEL_BPE)
        BO_TRY(load_affix(loading, model, "end_of_word_suffix", &tokenizer->word_suffix));
    tokenizer->byte_fallback = bo_load_flag(model, "byte_fallback", false);
    tokenizer->fuse_unknown = bo_load_flag(model, "fuse_unk", false);
    tokenizer->ignore_merges = bo_load_flag(model, "ignore_merges", false);
    tokenizer->max_chars = 100;
    bo_json_size(bo_json_member(model, "max_input_chars_per_word"), &tokenizer->max_chars);
    choose_byte_level(tokenizer);
    return BO_OK;
}

/* ---- ids --------------------------------------------------------------------------------------------------------- */

static bo_status bad_id(const bo_loading *loading, const char *token, const char *why)
{
    return bo_fail(loading->context, BO_FORMAT, "%s: the id of the token \"%.80s\" %s", loading->where, token, why);
}

static bo_status check_id(const bo_loading *loading, const char *token, const bo_json *item, size_t max_ids, size_t *id)
{
    if (!bo_json_size(item, id)) return bad_id(loading, token, "is not a whole number");
    if (*id >= max_ids) {
        char why[96];
        snprintf(why, sizeof why, "is %zu, far beyond the number of tokens, %zu", *id, (max_ids - SPARE_IDS) / 2);
        return bad_id(loading, token, why);
    }
    return BO_OK;
}

/* The text of a token, which may contain NUL; text NULL: none. */
typedef struct bo_name {
    const char *text;
    size_t length;
} bo_name;

/* Sets the text of token `id`; the same text may have been set before. */
static bo_status name_id(const bo_loading *loading, bo_name *names, size_t id, const char *text)
{
    const bo_name name = {text, bo_load_length(loading, text)};
    if (names[id].text && (names[id].length != name.length || memcmp(names[id].text, text, name.length) != 0))
        return bo_fail(loading->context, BO_FORMAT, "%s: the tokens \"%.80s\" and \"%.80s\" have the same id, %zu",
                       loading->where, names[id].text, text, id);
    names[id] = name;
    return BO_OK;
}

/* The token of an item of the vocabulary: a member {"a": 0}, or in Unigram the pair ["a", score]. */
static const char *vocab_text(const bo_json *item, bool pairs)
{
    if (!pairs) return item->key;
    const bo_json *text = bo_json_is(item, BO_JSON_ARRAY) ? item->child : NULL;
    return bo_json_is(text, BO_JSON_TEXT) && bo_json_is(text->next, BO_JSON_NUMBER) ? text->text : NULL;
}

static bo_status name_ids(bo_loading *loading, const bo_json *vocab, const bo_json *added, bo_name *names,
                          size_t max_ids)
{
    const bool pairs = loading->tokenizer->model == BO_MODEL_UNIGRAM;
    const bo_json *item;
    size_t id = 0, vocab_size = 0, place = 0;
    BO_JSON_EACH(item, vocab)
    {
        const char *text = vocab_text(item, pairs);
        if (!text)
            return bo_fail(loading->context, BO_FORMAT, "%s: item %zu of the vocabulary is not a token and its score",
                           loading->where, place);
        id = place++;
        if (!pairs) BO_TRY(check_id(loading, text, item, max_ids, &id));
        if (names[id].text) return bad_id(loading, text, "is also that of another token");
        names[id] = (bo_name){text, bo_load_length(loading, text)};
        loading->tokenizer->in_model[id] = true;
        if (id >= vocab_size) vocab_size = id + 1;
    }
    BO_JSON_EACH(item, added)
    {
        const char *content = bo_load_text(item, "content");
        if (!content)
            return bo_fail(loading->context, BO_FORMAT, "%s: an added token has no \"content\"", loading->where);
        if (!*content) continue;
        BO_TRY(check_id(loading, content, bo_json_member(item, "id"), max_ids, &id));
        BO_TRY(name_id(loading, names, id, content));
        if (id >= vocab_size) vocab_size = id + 1;
    }
    loading->tokenizer->info.vocab = vocab_size;
    return BO_OK;
}

/* Stores the texts by id and the ids by text. An id without a token has an empty text, which no lookup finds. A
 * Unigram vocabulary may contain a text twice; the last one counts. */
static bo_status keep_texts(bo_loading *loading, const bo_name *names)
{
    bo_tokenizer *tokenizer = loading->tokenizer;
    size_t bytes = 0;
    for (size_t i = 0; i < tokenizer->info.vocab; ++i) bytes += names[i].length;
    BO_TRY(bo_spellings_create(loading->context, tokenizer->info.vocab, bytes, &tokenizer->texts));
    BO_TRY(bo_lookup_create(loading->context, tokenizer->info.vocab, &tokenizer->by_text));
    for (size_t i = 0; i < tokenizer->info.vocab; ++i) {
        const char *text = names[i].text ? names[i].text : "";
        const size_t length = names[i].length;
        bo_spellings_add(&tokenizer->texts, text, length);
        bo_load_hash(loading, text, length);
        bo_load_hash(loading, "", 1);
        if (length > tokenizer->longest) tokenizer->longest = length;
        if (length == 0 || bo_lookup_add(&tokenizer->by_text, &tokenizer->texts, (int32_t)i) < 0) continue;
        if (tokenizer->model != BO_MODEL_UNIGRAM || !tokenizer->in_model[i])
            return bad_id(loading, text, "is defined twice with different values");
        bo_lookup_replace(&tokenizer->by_text, &tokenizer->texts, (int32_t)i);
    }
    return BO_OK;
}

/* ---- merges ------------------------------------------------------------------------------------------------------ */

/* The two sides of a merge: ["a", "b"] or "a b". */
static bool merge_sides(const bo_loading *loading, const bo_json *item, const char *side[2], size_t length[2])
{
    if (bo_json_is(item, BO_JSON_ARRAY)) {
        const bo_json *first = item->child, *second = first ? first->next : NULL;
        if (!bo_json_is(first, BO_JSON_TEXT) || !bo_json_is(second, BO_JSON_TEXT) || second->next) return false;
        side[0] = first->text;
        side[1] = second->text;
        length[0] = bo_load_length(loading, side[0]);
        length[1] = bo_load_length(loading, side[1]);
        return true;
    }
    char *space = bo_json_is(item, BO_JSON_TEXT) ? strchr(item->text, ' ') : NULL;
    if (!space || strchr(space + 1, ' ')) return false;
    *space = 0;
    side[0] = item->text;
    side[1] = space + 1;
    length[0] = bo_load_length(loading, side[0]);
    length[1] = bo_load_length(loading, side[1]);
    return true;
}

static bo_status load_merge(bo_loading *loading, const bo_json *item, size_t rank, char *joined)
{
    const bo_tokenizer *tokenizer = loading->tokenizer;
    const char *side[2];
    size_t length[2];
    int32_t ids[3] = {-1, -1, -1};
    if (!merge_sides(loading, item, side, length))
        return bo_fail(loading->context, BO_FORMAT, "%s: merge %zu is not a pair of tokens", loading->where, rank);
    /* the prefix of the right side is not part of the joined token */
    const size_t prefix = tokenizer->word_prefix ? strlen(tokenizer->word_prefix) : 0;
    if (length[1] >= prefix && length[0] + length[1] - prefix <= tokenizer->longest) {
        memcpy(joined, side[0], length[0]);
        memcpy(joined + length[0], side[1] + prefix, length[1] - prefix);
        for (int s = 0; s < 2; ++s) ids[s] = bo_tokenizer_symbol(tokenizer, side[s], length[s]);
        ids[2] = bo_tokenizer_symbol(tokenizer, joined, length[0] + length[1] - prefix);
    }
    if (ids[0] < 0 || ids[1] < 0 || ids[2] < 0)
        return bo_fail(loading->context, BO_FORMAT,
                       "%s: merge %zu, \"%.*s\" and \"%.*s\", needs a token that the vocabulary lacks", loading->where,
                       rank, (int)(length[0] < 80 ? length[0] : 80), side[0], (int)(length[1] < 80 ? length[1] : 80),
                       side[1]);
    bo_merges_add(&loading->tokenizer->merges, (bo_merge){bo_pair(ids[0], ids[1]), (uint32_t)rank, ids[2]});
    bo_load_hash(loading, ids, sizeof ids);
    return BO_OK;
}

static bo_status load_merges(bo_loading *loading, const bo_json *list)
{
    const bo_json *item;
    size_t rank = 0;
    if (!bo_json_is(list, BO_JSON_ARRAY))
        return bo_fail(loading->context, BO_FORMAT, "%s: the model has no list of merges", loading->where);
    BO_TRY(bo_merges_create(loading->context, (size_t)bo_json_count(list), &loading->tokenizer->merges));
    char *joined = bo_alloc_raw(loading->context, loading->tokenizer->longest + 1, 1, "a merge");
    bo_status status = joined ? BO_OK : BO_MEMORY;
    BO_JSON_EACH(item, list)
    {
        if (status != BO_OK) break;
        if (bo_json_is(item, BO_JSON_TEXT) && strncmp(item->text, "#version", 8) == 0) continue; /* a comment */
        status = load_merge(loading, item, rank++, joined);
    }
    bo_free(joined);
    return status;
}

/* ---- symbols ----------------------------------------------------------------------------------------------------- */

static bo_status find_unknown(bo_loading *loading, const bo_json *model)
{
    bo_tokenizer *tokenizer = loading->tokenizer;
    const char *unknown = bo_load_text(model, "unk_token");
    const bo_json *number = bo_json_member(model, "unk_id");
    if (tokenizer->model == BO_MODEL_UNIGRAM) {
        size_t id;
        if (!number || bo_json_is(number, BO_JSON_NULL)) return BO_OK;
        if (!bo_json_size(number, &id) || id >= tokenizer->info.vocab || !tokenizer->in_model[id])
            return bo_fail(loading->context, BO_FORMAT, "%s: the \"unk_id\" is not in the vocabulary", loading->where);
        tokenizer->unknown = (int32_t)id;
        return BO_OK;
    }
    if (!unknown) return BO_OK;
    tokenizer->unknown = bo_tokenizer_symbol(tokenizer, unknown, strlen(unknown));
    if (bo_tokenizer_find(tokenizer, unknown) < 0)
        return bo_fail(loading->context, BO_FORMAT, "%s: the unknown token \"%.80s\" is not in the vocabulary",
                       loading->where, unknown);
    return BO_OK;
}

/* The initial symbols of bytes and single ASCII characters. */
static void find_symbols(bo_tokenizer *tokenizer)
{
    for (unsigned b = 0; b < 256; ++b) {
        char name[8], symbol[BO_BYTE_LEVEL_SIZE], byte = (char)b;
        snprintf(name, sizeof name, "<0x%02X>", b);
        tokenizer->byte_ids[b] =
            tokenizer->byte_level
                ? bo_tokenizer_symbol(tokenizer, symbol, bo_byte_level_write((unsigned char)b, symbol))
                : bo_tokenizer_symbol(tokenizer, name, strlen(name));
        if (b < 128) tokenizer->ascii_ids[b] = bo_tokenizer_symbol(tokenizer, &byte, 1);
    }
}

/* ---- scores ------------------------------------------------------------------------------------------------------ */

/* Unigram: a character without a token is 10 less probable, as a logarithm, than the least probable token. */
static bo_status load_scores(bo_loading *loading, const bo_json *vocab)
{
    enum { UNKNOWN_PENALTY = 10 };
    bo_tokenizer *tokenizer = loading->tokenizer;
    double min_score = INFINITY;
    const bo_json *item;
    size_t id = 0;
    tokenizer->scores = bo_alloc(loading->context, tokenizer->info.vocab, sizeof *tokenizer->scores, "a vocabulary");
    if (!tokenizer->scores) return BO_MEMORY;
    BO_TRY(bo_trie_create(loading->context, tokenizer->texts.starts[tokenizer->info.vocab], &tokenizer->scored));
    BO_JSON_EACH(item, vocab)
    {
        size_t length;
        const double score = item->child->next->number;
        const char *text = bo_spelling_at(&tokenizer->texts, id, &length);
        if (!isfinite(score))
            return bo_fail(loading->context, BO_FORMAT, "%s: the score of token %zu is not finite", loading->where, id);
        bo_trie_add(&tokenizer->scored, text, length, (int32_t)id);
        tokenizer->scores[id++] = score;
        if (score < min_score) min_score = score;
        bo_load_hash(loading, &score, sizeof score);
    }
    tokenizer->unknown_score = min_score - UNKNOWN_PENALTY;
    return BO_OK;
}

/* ---- the model --------------------------------------------------------------------------------------------------- */

static bo_status load_vocab(bo_loading *loading, const bo_json *vocab, const bo_json *added)
{
    const size_t max_ids = 2 * (size_t)(bo_json_count(vocab) + bo_json_count(added)) + SPARE_IDS;
    bo_name *names = bo_alloc(loading->context, max_ids, sizeof *names, "a vocabulary");
    loading->tokenizer->in_model = bo_alloc(loading->context, max_ids, sizeof(bool), "a vocabulary");
    bo_status status = names && loading->tokenizer->in_model ? BO_OK : BO_MEMORY;
    if (status == BO_OK) status = name_ids(loading, vocab, added, names, max_ids);
    if (status == BO_OK) status = keep_texts(loading, names);
    bo_free(names);
    return status;
}

bo_status bo_load_model(bo_loading *loading, const bo_json *model, const bo_json *added)
{
    bo_tokenizer *tokenizer = loading->tokenizer;
    const bo_json *vocab = bo_json_member(model, "vocab");
    BO_TRY(load_options(loading, model));
    if (!(tokenizer->model == BO_MODEL_UNIGRAM ? bo_json_is(vocab, BO_JSON_ARRAY)
                                               : bo_json_is(vocab, BO_JSON_OBJECT)) ||
        !vocab->child)
        return bo_fail(loading->context, BO_FORMAT, "%s: the model has no vocabulary", loading->where);
    if (added && !bo_json_is(added, BO_JSON_ARRAY) && !bo_json_is(added, BO_JSON_NULL))
        return bo_fail(loading->context, BO_FORMAT, "%s: \"added_tokens\" is not a list", loading->where);
    BO_TRY(load_vocab(loading, vocab, added));
    BO_TRY(bo_load_added(loading, added));
    if (tokenizer->model == BO_MODEL_BPE) BO_TRY(load_merges(loading, bo_json_member(model, "merges")));
    if (tokenizer->model == BO_MODEL_UNIGRAM) BO_TRY(load_scores(loading, vocab));
    find_symbols(tokenizer);
    BO_TRY(find_unknown(loading, model));
    return bo_cut_points_find(loading->context, tokenizer);
}
