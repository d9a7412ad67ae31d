/* The added tokens of tokenizer.json: their properties, and the texts by which they are found. */
#include "load.h"
#include "normalize.h"

#include <string.h>

/* Appends the text to find: the text of the token, or its normalized form. */
static bo_status add_text(bo_loading *loading, bo_matcher *matcher, bo_normalizing *work, const bo_added *added,
                          bo_buffer *bytes)
{
    size_t length, lead = 0;
    const char *text = bo_spelling_at(&loading->tokenizer->texts, (size_t)added->id, &length);
    if (added->normalized)
        BO_TRY(bo_normalize_text(loading->context, loading->tokenizer, matcher, work, text, length, &text, &length,
                                 &lead));
    return bo_buffer_append(loading->context, bytes, text, length);
}

static bo_status read_items(bo_loading *loading, const bo_json *list, bo_matcher *matcher, bo_normalizing *work,
                            bo_buffer *bytes, size_t *starts)
{
    bo_tokenizer *tokenizer = loading->tokenizer;
    const bo_json *item;
    BO_JSON_EACH(item, list)
    {
        size_t id;
        const bo_json *number = bo_json_member(item, "id");
        if (!bo_json_size(number, &id) || id >= tokenizer->info.vocab)
            continue; /* an empty text; others were checked */
        if (tokenizer->texts.starts[id] == tokenizer->texts.starts[id + 1]) continue;
        const bool special = bo_load_flag(item, "special", false);
        const bo_added added = {.id = (int32_t)id,
                                .special = special,
                                .left = bo_load_flag(item, "lstrip", false),
                                .right = bo_load_flag(item, "rstrip", false),
                                .word = bo_load_flag(item, "single_word", false),
                                .normalized = bo_load_flag(item, "normalized", !special)};
        if (added.word && !tokenizer->word.code)
            BO_TRY(bo_pattern_compile(loading->context, loading->where, "[" BO_WORD_CHARACTERS "]", &tokenizer->word));
        BO_TRY(add_text(loading, matcher, work, &added, bytes));
        tokenizer->added_of[added.id] = (int32_t)tokenizer->added_count;
        tokenizer->added[tokenizer->added_count++] = added;
        if (added.special && added.normalized) tokenizer->normal_specials = true;
        starts[tokenizer->added_count] = bytes->length;
    }
    return bo_buffer_append(loading->context, bytes, "", 1);
}

static bo_status make_finders(bo_loading *loading)
{
    bo_tokenizer *tokenizer = loading->tokenizer;
    for (int normalized = 0; normalized < 2; ++normalized) {
        size_t bytes = 0, length;
        for (size_t i = 0; i < tokenizer->added_count; ++i) {
            bo_spelling_at(&tokenizer->patterns, i, &length);
            if (tokenizer->added[i].normalized == normalized) bytes += length;
        }
        if (bytes == 0) continue;
        BO_TRY(bo_trie_create(loading->context, bytes, &tokenizer->finders[normalized]));
        for (size_t i = 0; i < tokenizer->added_count; ++i) {
            const char *text = bo_spelling_at(&tokenizer->patterns, i, &length);
            if (tokenizer->added[i].normalized == normalized)
                bo_trie_add(&tokenizer->finders[normalized], text, length, (int32_t)i);
        }
    }
    return BO_OK;
}

bo_status bo_load_added(bo_loading *loading, const bo_json *list)
{
    bo_tokenizer *tokenizer = loading->tokenizer;
    const size_t count = (size_t)bo_json_count(list);
    bo_matcher matcher = {0};
    bo_normalizing work = {0};
    bo_buffer bytes = {0};
    size_t *starts = bo_alloc(loading->context, count + 1, sizeof *starts, "added tokens");
    tokenizer->added = bo_alloc(loading->context, count, sizeof(bo_added), "added tokens");
    tokenizer->added_of = bo_alloc_raw(loading->context, tokenizer->info.vocab, sizeof(int32_t), "added tokens");
    bo_status status = starts && tokenizer->added && tokenizer->added_of ? BO_OK : BO_MEMORY;
    for (size_t i = 0; status == BO_OK && i < tokenizer->info.vocab; ++i) tokenizer->added_of[i] = -1;
    if (status == BO_OK) status = bo_matcher_create(loading->context, &matcher);
    if (status == BO_OK) status = read_items(loading, list, &matcher, &work, &bytes, starts);
    tokenizer->patterns = (bo_spellings){bytes.bytes, starts, tokenizer->added_count}; /* freed with the tokenizer */
    bo_matcher_free(&matcher);
    bo_normalizing_free(&work);
    return status == BO_OK ? make_finders(loading) : status;
}
