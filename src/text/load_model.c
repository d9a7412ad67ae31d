/* The model part of tokenizer.json: vocabulary, added tokens, merges. The file is not trusted: ids must be distinct and
 * not far beyond their number, and a merge must join existing tokens into an existing token. */
#include "load.h"
#include "cut_points.h"
#include "unicode.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SPARE_IDS = 1 << 16 }; /* ids may have gaps, but may not exceed twice their number by more than this */

static void hash_bytes(bo_loading *loading, const void *bytes, size_t length)
{
    for (size_t i = 0; i < length; ++i) /* FNV-1a */
        loading->hash = (loading->hash ^ ((const unsigned char *)bytes)[i]) * 1099511628211u;
}

/* ---- the options of the model ------------------------------------------------------------------------------------ */

static bo_status load_options(bo_loading *loading, const cJSON *model)
{
    static const char *const affixes[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    bo_tokenizer *tokenizer = loading->tokenizer;
    const cJSON *dropout = cJSON_GetObjectItemCaseSensitive(model, "dropout");
    if (strcmp(bo_load_type(model), "BPE") != 0 && (*bo_load_type(model) || !cJSON_HasObjectItem(model, "merges")))
        return bo_load_refuse(loading, "a model", model);
    for (size_t i = 0; i < sizeof affixes / sizeof *affixes; ++i) {
        const char *affix = bo_load_text(model, affixes[i]);
        if (affix && *affix)
            return bo_fail(loading->context, BO_UNSUPPORTED, "%s: a model with a %s (\"%.40s\") is not supported",
                           loading->where, affixes[i], affix);
    }
    if (cJSON_IsNumber(dropout) && dropout->valuedouble != 0)
        return bo_fail(loading->context, BO_UNSUPPORTED, "%s: a model with dropout (%g) is not supported",
                       loading->where, dropout->valuedouble);
    tokenizer->byte_fallback = bo_load_flag(model, "byte_fallback", false);
    tokenizer->fuse_unknown = bo_load_flag(model, "fuse_unk", false);
    tokenizer->ignore_merges = bo_load_flag(model, "ignore_merges", false);
    return BO_OK;
}

/* ---- ids --------------------------------------------------------------------------------------------------------- */

static bo_status bad_id(const bo_loading *loading, const char *token, const char *why)
{
    return bo_fail(loading->context, BO_FORMAT, "%s: the id of the token \"%.80s\" %s", loading->where, token, why);
}

static bo_status check_id(const bo_loading *loading, const char *token, const cJSON *item, size_t most, size_t *id)
{
    if (!bo_json_size(item, id)) return bad_id(loading, token, "is not a whole number");
    if (*id >= most) {
        char why[96];
        snprintf(why, sizeof why, "is %zu, far beyond the number of tokens, %zu", *id, (most - SPARE_IDS) / 2);
        return bad_id(loading, token, why);
    }
    return BO_OK;
}

/* Names token `id` `text`; the same name may have been set before. */
static bo_status name_id(const bo_loading *loading, const char **names, size_t id, const char *text)
{
    if (names[id] && strcmp(names[id], text) != 0)
        return bo_fail(loading->context, BO_FORMAT, "%s: the tokens \"%.80s\" and \"%.80s\" have the same id, %zu",
                       loading->where, names[id], text, id);
    names[id] = text;
    return BO_OK;
}

static bo_status name_ids(bo_loading *loading, const cJSON *vocab, const cJSON *added, const char **names, size_t most)
{
    const cJSON *item;
    size_t id, vocab_size = 0;
    cJSON_ArrayForEach(item, vocab)
    {
        BO_TRY(check_id(loading, item->string, item, most, &id));
        if (names[id]) return bad_id(loading, item->string, "is also that of another token");
        names[id] = item->string;
        if (id >= vocab_size) vocab_size = id + 1;
    }
    cJSON_ArrayForEach(item, added)
    {
        const char *content = bo_load_text(item, "content");
        if (!content || !*content)
            return bo_fail(loading->context, BO_FORMAT, "%s: an added token has no \"content\"", loading->where);
        BO_TRY(check_id(loading, content, cJSON_GetObjectItemCaseSensitive(item, "id"), most, &id));
        BO_TRY(name_id(loading, names, id, content));
        if (id >= vocab_size) vocab_size = id + 1;
    }
    loading->tokenizer->vocab = vocab_size;
    return BO_OK;
}

/* Stores the texts by id and the ids by text. An id without a token has an empty text, which no lookup finds. */
static bo_status keep_texts(bo_loading *loading, const char **names)
{
    bo_tokenizer *tokenizer = loading->tokenizer;
    size_t bytes = 0;
    for (size_t i = 0; i < tokenizer->vocab; ++i) bytes += names[i] ? strlen(names[i]) : 0;
    BO_TRY(bo_spellings_create(loading->context, tokenizer->vocab, bytes, &tokenizer->texts));
    BO_TRY(bo_lookup_create(loading->context, tokenizer->vocab, &tokenizer->by_text));
    for (size_t i = 0; i < tokenizer->vocab; ++i) {
        const char *text = names[i] ? names[i] : "";
        size_t length = strlen(text);
        bo_spellings_add(&tokenizer->texts, text, length);
        hash_bytes(loading, text, length + 1);
        if (length > tokenizer->longest) tokenizer->longest = length;
        if (length > 0 && bo_lookup_add(&tokenizer->by_text, &tokenizer->texts, (int32_t)i) >= 0)
            return bad_id(loading, text, "is defined twice with different values");
    }
    return BO_OK;
}

/* ---- added tokens ------------------------------------------------------------------------------------------------ */

/* The sort key of added tokens. */
typedef struct bo_added_text {
    bo_added added;
    const char *text;
} bo_added_text;

static int compare_added(const void *a, const void *b)
{
    const char *left = ((const bo_added_text *)a)->text, *right = ((const bo_added_text *)b)->text;
    if (*left != *right) return (unsigned char)*left < (unsigned char)*right ? -1 : 1;
    size_t first = strlen(left), second = strlen(right);
    return first != second ? (first > second ? -1 : 1) : strcmp(left, right);
}

static bo_status sort_added(bo_loading *loading, const cJSON *list, bo_added_text *sorted, size_t count)
{
    bo_tokenizer *tokenizer = loading->tokenizer;
    const cJSON *item;
    size_t at = 0;
    cJSON_ArrayForEach(item, list)
    {
        const char *text = bo_load_text(item, "content");
        if (bo_load_flag(item, "single_word", false))
            return bo_fail(loading->context, BO_UNSUPPORTED,
                           "%s: the added token \"%.80s\" is a \"single_word\", which is not supported", loading->where,
                           text);
        bo_added added = {bo_tokenizer_find(tokenizer, text), bo_load_flag(item, "special", false),
                          bo_load_flag(item, "lstrip", false), bo_load_flag(item, "rstrip", false)};
        sorted[at++] = (bo_added_text){added, text};
    }
    qsort(sorted, count, sizeof *sorted, compare_added);
    for (size_t i = 0; i < count; ++i) {
        tokenizer->added[i] = sorted[i].added;
        ++tokenizer->added_from[(unsigned char)*sorted[i].text + 1];
    }
    for (size_t b = 0; b < 256; ++b) tokenizer->added_from[b + 1] += tokenizer->added_from[b];
    tokenizer->added_count = count;
    return BO_OK;
}

static bo_status load_added(bo_loading *loading, const cJSON *list)
{
    size_t count = (size_t)cJSON_GetArraySize(list);
    loading->tokenizer->added = bo_alloc(loading->context, count, sizeof(bo_added), "added tokens");
    bo_added_text *sorted = bo_alloc(loading->context, count, sizeof *sorted, "added tokens");
    bo_status status = loading->tokenizer->added && sorted ? BO_OK : BO_MEMORY;
    if (status == BO_OK) status = sort_added(loading, list, sorted, count);
    bo_free(sorted);
    return status;
}

/* ---- merges ------------------------------------------------------------------------------------------------------ */

/* The two sides of a merge: ["a", "b"] or "a b". */
static bool merge_sides(const cJSON *item, const char *side[2], size_t length[2])
{
    if (cJSON_IsArray(item)) {
        const cJSON *first = item->child, *second = first ? first->next : NULL;
        if (!cJSON_IsString(first) || !cJSON_IsString(second) || second->next) return false;
        side[0] = first->valuestring;
        side[1] = second->valuestring;
        length[0] = strlen(side[0]);
        length[1] = strlen(side[1]);
        return true;
    }
    const char *blank = cJSON_IsString(item) ? strchr(item->valuestring, ' ') : NULL;
    if (!blank || strchr(blank + 1, ' ')) return false;
    side[0] = item->valuestring;
    side[1] = blank + 1;
    length[0] = (size_t)(blank - side[0]);
    length[1] = strlen(side[1]);
    return true;
}

static bo_status load_merge(bo_loading *loading, const cJSON *item, size_t rank, char *joined)
{
    const bo_tokenizer *tokenizer = loading->tokenizer;
    const char *side[2];
    size_t length[2];
    int32_t ids[3] = {-1, -1, -1};
    if (!merge_sides(item, side, length))
        return bo_fail(loading->context, BO_FORMAT, "%s: merge %zu is not a pair of tokens", loading->where, rank);
    bool fits = length[0] + length[1] <= tokenizer->longest;
    if (fits) {
        memcpy(joined, side[0], length[0]);
        memcpy(joined + length[0], side[1], length[1]);
        for (int s = 0; s < 2; ++s) ids[s] = bo_lookup_find(&tokenizer->by_text, &tokenizer->texts, side[s], length[s]);
        ids[2] = bo_lookup_find(&tokenizer->by_text, &tokenizer->texts, joined, length[0] + length[1]);
    }
    if (ids[0] < 0 || ids[1] < 0 || ids[2] < 0)
        return bo_fail(loading->context, BO_FORMAT,
                       "%s: merge %zu, \"%.*s\" and \"%.*s\", needs a token that the vocabulary lacks", loading->where,
                       rank, (int)(length[0] < 80 ? length[0] : 80), side[0], (int)(length[1] < 80 ? length[1] : 80),
                       side[1]);
    bo_merges_add(&loading->tokenizer->merges, (bo_merge){bo_pair(ids[0], ids[1]), (uint32_t)rank, ids[2]});
    hash_bytes(loading, ids, sizeof ids);
    return BO_OK;
}

static bo_status load_merges(bo_loading *loading, const cJSON *list)
{
    const cJSON *item;
    size_t rank = 0;
    if (!cJSON_IsArray(list))
        return bo_fail(loading->context, BO_FORMAT, "%s: the model has no list of merges", loading->where);
    BO_TRY(bo_merges_create(loading->context, (size_t)cJSON_GetArraySize(list), &loading->tokenizer->merges));
    char *joined = bo_alloc_raw(loading->context, loading->tokenizer->longest + 1, 1, "a merge");
    bo_status status = joined ? BO_OK : BO_MEMORY;
    cJSON_ArrayForEach(item, list)
    {
        if (status != BO_OK) break;
        status = load_merge(loading, item, rank++, joined);
    }
    bo_free(joined);
    return status;
}

/* ---- symbols ----------------------------------------------------------------------------------------------------- */

static int32_t find(const bo_tokenizer *tokenizer, const char *text, size_t length)
{
    return bo_lookup_find(&tokenizer->by_text, &tokenizer->texts, text, length);
}

/* The initial symbols of bytes and single ASCII characters. */
static bo_status find_symbols(bo_loading *loading, const cJSON *model)
{
    bo_tokenizer *tokenizer = loading->tokenizer;
    for (unsigned b = 0; b < 256; ++b) {
        char name[8], letter[BO_LETTER_BYTES], byte = (char)b;
        if (tokenizer->byte_level) {
            tokenizer->byte_ids[b] = find(tokenizer, letter, bo_letter_write((unsigned char)b, letter));
        } else {
            snprintf(name, sizeof name, "<0x%02X>", b);
            tokenizer->byte_ids[b] = find(tokenizer, name, strlen(name));
        }
        if (b < 128) tokenizer->ascii_ids[b] = find(tokenizer, &byte, 1);
    }
    const char *unknown = bo_load_text(model, "unk_token");
    if (!unknown) return BO_OK;
    tokenizer->unknown = bo_tokenizer_find(tokenizer, unknown);
    if (tokenizer->unknown < 0)
        return bo_fail(loading->context, BO_FORMAT, "%s: the unknown token \"%.80s\" is not in the vocabulary",
                       loading->where, unknown);
    return BO_OK;
}

bo_status bo_load_model(bo_loading *loading, const cJSON *model, const cJSON *added)
{
    const cJSON *vocab = cJSON_GetObjectItemCaseSensitive(model, "vocab");
    BO_TRY(load_options(loading, model));
    if (!cJSON_IsObject(vocab) || !vocab->child)
        return bo_fail(loading->context, BO_FORMAT, "%s: the model has no vocabulary", loading->where);
    if (added && !cJSON_IsArray(added) && !cJSON_IsNull(added))
        return bo_fail(loading->context, BO_FORMAT, "%s: \"added_tokens\" is not a list", loading->where);
    size_t most = 2 * (size_t)(cJSON_GetArraySize(vocab) + cJSON_GetArraySize(added)) + SPARE_IDS;
    const char **names = bo_alloc(loading->context, most, sizeof *names, "a vocabulary");
    if (!names) return BO_MEMORY;
    bo_status status = name_ids(loading, vocab, added, names, most);
    if (status == BO_OK) status = keep_texts(loading, names);
    bo_free(names);
    BO_TRY(status);
    BO_TRY(load_added(loading, added));
    BO_TRY(load_merges(loading, cJSON_GetObjectItemCaseSensitive(model, "merges")));
    BO_TRY(find_symbols(loading, model));
    return bo_cut_points_find(loading->context, loading->tokenizer);
}
