/* A tokenizer learned from text is written as tokenizer.json and read back, so that there is one way to make one. */
#include "learn.h"
#include "lines.h"
#include "write.h"

#include <string.h>

enum { MOST_VOCAB = 1 << 24 };

static bo_status check_special(bo_context *context, const bo_learned *learned)
{
    for (size_t i = 0; i < learned->special_count; ++i) {
        const char *text = learned->special[i];
        if (!text || !*text) return bo_fail(context, BO_INVALID, "special token %zu is empty", i);
        if (strlen(text) == 1) /* it would be a letter's text, too */
            return bo_fail(context, BO_INVALID, "the special token \"%s\" is a single byte, which is a token already",
                           text);
        for (size_t j = 0; j < i; ++j)
            if (strcmp(text, learned->special[j]) == 0)
                return bo_fail(context, BO_INVALID, "the special token \"%s\" is named twice", text);
    }
    return BO_OK;
}

static bo_status check(bo_context *context, const bo_tokenizer_desc *desc, const bo_learned *learned)
{
    const size_t fewest = 256 + learned->special_count;
    if (desc->vocab < fewest || desc->vocab > MOST_VOCAB)
        return bo_fail(context, BO_INVALID,
                       "a vocabulary of %zu was asked for; with %zu special tokens it has %zu to %d", desc->vocab,
                       learned->special_count, fewest, MOST_VOCAB);
    return check_special(context, learned);
}

static bo_status learn_documents(bo_context *context, const bo_tokenizer_desc *desc, const bo_documents *documents,
                                 bo_learned *learned, int32_t (*merges)[2])
{
    const size_t specials = learned->special_count;
    int32_t byte_ids[256];
    for (size_t place = 0; place < 256; ++place)
        byte_ids[bo_learned_byte(learned, place)] = (int32_t)(specials + place);
    bo_pattern pattern;
    bo_tally words = {0};
    BO_TRY(bo_pattern_compile(context, "the pattern", learned->pattern ? learned->pattern : bo_gpt2_pattern, &pattern));
    bo_status status = bo_count_words(context, documents, &pattern, learned->special, specials, &words);
    if (status == BO_OK)
        status = bo_learn_merges(context, &words, byte_ids, (int32_t)(specials + 256), desc->vocab - specials - 256,
                                 desc->least ? desc->least : 2, merges, &learned->merge_count);
    bo_tally_free(&words);
    bo_pattern_free(&pattern);
    return status;
}

static bo_status train(bo_context *context, const bo_tokenizer_desc *desc, const bo_documents *documents,
                       bo_tokenizer **out)
{
    static const char *const usual[] = {"<|endoftext|>"};
    bo_learned learned = {.special = desc->special ? desc->special : usual,
                          .special_count = desc->special ? desc->special_count : 1,
                          .pattern = desc->pattern && *desc->pattern ? desc->pattern : NULL};
    BO_TRY(check(context, desc, &learned));
    int32_t(*merges)[2] = bo_alloc(context, desc->vocab, sizeof *merges, "merges");
    if (!merges) return BO_MEMORY;
    learned.merges = (const int32_t(*)[2])merges;
    bo_json_text text = {0};
    bo_status status = learn_documents(context, desc, documents, &learned, merges);
    if (status == BO_OK) status = bo_tokenizer_write(context, &learned, &text);
    if (status == BO_OK) status = bo_tokenizer_parse(context, "the new tokenizer", text.bytes, text.length, out);
    bo_free(text.bytes);
    bo_free(merges);
    return status;
}

static bo_status check_arguments(bo_context *context, const void *desc, bo_tokenizer **out)
{
    if (out) *out = NULL;
    if (desc && out) return BO_OK;
    return bo_fail(context, BO_INVALID, "a tokenizer cannot be learned: %s is NULL", desc ? "out" : "desc");
}

bo_status bo_tokenizer_train(bo_context *context, const bo_tokenizer_desc *desc, const char *const *paths,
                             size_t path_count, bo_tokenizer **out)
{
    bo_documents documents;
    BO_TRY(check_arguments(context, desc, out));
    BO_TRY(bo_documents_open(context, paths, path_count, NULL, NULL, &documents));
    bo_status status = train(context, desc, &documents, out);
    bo_documents_close(&documents);
    return status;
}

bo_status bo_tokenizer_train_texts(bo_context *context, const bo_tokenizer_desc *desc, const bo_texts_desc *texts,
                                   bo_tokenizer **out)
{
    bo_lines lines;
    bo_documents documents = {0};
    BO_TRY(check_arguments(context, texts ? desc : NULL, out));
    BO_TRY(bo_lines_open(context, texts, &lines));
    bo_status status = BO_OK;
    for (size_t i = 0; status == BO_OK && i < lines.count * lines.sides; ++i) {
        const bo_line *line = &lines.items[i / lines.sides];
        const size_t side = i % lines.sides;
        status = bo_documents_add(context, &documents, line->file, line->text[side], line->bytes[side]);
    }
    if (status == BO_OK) status = train(context, desc, &documents, out);
    bo_documents_close(&documents);
    bo_lines_close(&lines);
    return status;
}
