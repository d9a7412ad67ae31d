#include "corpus.h"
#include "../base/rng.h"

#include <math.h>
#include <string.h>

/* ---- reading ------------------------------------------------------------------------------------------------------ */

/* The document that holds token `at` of all tokens: the last one that starts at or before it. */
static size_t document_of(const bo_corpus *corpus, uint64_t at)
{
    size_t low = 0, high = corpus->document_count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (corpus->starts[middle] <= at)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static void read_bytes(const bo_corpus *corpus, uint64_t at, size_t count, int32_t *ids)
{
    for (size_t d = document_of(corpus, at); count > 0; ++d) {
        const unsigned char *text = (const unsigned char *)corpus->documents.items[d].text + (at - corpus->starts[d]);
        uint64_t left = corpus->starts[d + 1] - at;
        size_t piece = left < count ? (size_t)left : count;
        for (size_t i = 0; i < piece; ++i) ids[i] = text[i];
        ids += piece;
        at += piece;
        count -= piece;
    }
}

static void read_tokens(const bo_corpus *corpus, uint64_t first, size_t count, int32_t *ids)
{
    uint64_t at = corpus->first + first;
    if (corpus->narrow)
        for (size_t i = 0; i < count; ++i) ids[i] = corpus->narrow[at + i];
    else if (corpus->wide)
        for (size_t i = 0; i < count; ++i) ids[i] = (int32_t)corpus->wide[at + i];
    else
        read_bytes(corpus, at, count, ids);
}

/* The files of bytes that are about to be read, for others may change them. */
static bo_status check_files(bo_context *context, const bo_corpus *corpus, uint64_t first, size_t count)
{
    const bo_documents *documents = &corpus->documents;
    const uint64_t end = corpus->first + first + count;
    size_t checked = SIZE_MAX;
    for (size_t d = document_of(corpus, corpus->first + first); d < documents->count && corpus->starts[d] < end; ++d) {
        const size_t file = documents->items[d].file;
        if (file != checked) BO_TRY(bo_mapping_check(context, &documents->mappings[file], documents->paths[file]));
        checked = file;
    }
    return BO_OK;
}

bo_status bo_corpus_read(bo_context *context, const bo_corpus *corpus, uint64_t first, size_t count, int32_t *ids)
{
    if (first > corpus->tokens || count > corpus->tokens - first)
        return bo_fail(context, BO_INVALID, "tokens %llu to %llu were asked for, and the corpus has %llu",
                       (unsigned long long)first, (unsigned long long)(first + count),
                       (unsigned long long)corpus->tokens);
    if (count == 0) return BO_OK;
    if (!corpus->narrow && !corpus->wide) BO_TRY(check_files(context, corpus, first, count));
    read_tokens(corpus, first, count, ids);
    return BO_OK;
}

uint64_t bo_corpus_tokens(const bo_corpus *corpus)
{
    return corpus->tokens;
}

uint64_t bo_corpus_bytes(const bo_corpus *corpus)
{
    return corpus->bytes;
}

uint64_t bo_corpus_documents(const bo_corpus *corpus)
{
    return document_of(corpus, corpus->first + corpus->tokens - 1) - document_of(corpus, corpus->first) + 1;
}

uint64_t bo_corpus_next_document(const bo_corpus *corpus, uint64_t at)
{
    if (at >= corpus->tokens) return corpus->tokens;
    uint64_t next = corpus->starts[document_of(corpus, corpus->first + at) + 1] - corpus->first;
    return next < corpus->tokens ? next : corpus->tokens;
}

/* FNV-1a over the number of tokens, the starts of documents and the tokens: all of a corpus up to 16 Mi tokens, beyond that
 * 4096 blocks spread evenly, so that resuming on a hundred gigabytes does not first read them all. */
uint64_t bo_corpus_fingerprint(const bo_corpus *corpus)
{
    enum { BLOCK = 4096, MOST_BLOCKS = 4096 };
    const uint64_t prime = 1099511628211u;
    uint64_t hash = bo_rng_stream("text.corpus", corpus->tokens);
    for (uint64_t d = bo_corpus_next_document(corpus, 0), i = 0; d < corpus->tokens && i < BLOCK;
         d = bo_corpus_next_document(corpus, d), ++i)
        hash = (hash ^ d) * prime;
    uint64_t blocks = (corpus->tokens + BLOCK - 1) / BLOCK, chosen = blocks < MOST_BLOCKS ? blocks : MOST_BLOCKS;
    int32_t ids[BLOCK];
    for (uint64_t b = 0; b < chosen; ++b) {
        uint64_t at = (blocks / chosen * b + blocks % chosen * b / chosen) * BLOCK;
        size_t count = corpus->tokens - at < BLOCK ? (size_t)(corpus->tokens - at) : BLOCK;
        read_tokens(corpus, at, count, ids);
        for (size_t i = 0; i < count; ++i) hash = (hash ^ (uint32_t)ids[i]) * prime;
    }
    return hash;
}

/* ---- opening ------------------------------------------------------------------------------------------------------ */

static bo_status number_tokens(bo_context *context, bo_corpus *corpus)
{
    corpus->document_count = corpus->documents.count;
    corpus->starts = bo_alloc(context, corpus->document_count + 1, sizeof *corpus->starts, "the starts of documents");
    if (!corpus->starts) return BO_MEMORY;
    if (!corpus->tokenizer->bytes) return bo_corpus_encode(context, corpus);
    for (size_t d = 0; d < corpus->document_count; ++d)
        corpus->starts[d + 1] = corpus->starts[d] + corpus->documents.items[d].length;
    return BO_OK;
}

/* Bytes of the text that tokens [first, last) of document d stand for; the token that ends it stands for none. */
static uint64_t piece_bytes(const bo_corpus *corpus, size_t d, uint64_t first, uint64_t last)
{
    uint64_t bytes = 0;
    const uint64_t end = corpus->starts[d + 1];
    for (uint64_t at = first; at < last; ++at) {
        size_t length;
        int32_t id = corpus->narrow ? corpus->narrow[at] : (int32_t)corpus->wide[at];
        bo_tokenizer_piece(corpus->tokenizer, id, &length);
        if (at + 1 < end || id != corpus->tokenizer->end) bytes += length;
    }
    return bytes;
}

/* A whole document's are counted as they were read, for normalizing may change them. */
static uint64_t count_bytes(const bo_corpus *corpus)
{
    if (corpus->tokenizer->bytes) return corpus->tokens;
    const uint64_t first = corpus->first, last = first + corpus->tokens;
    uint64_t bytes = 0;
    for (size_t d = document_of(corpus, first); d < corpus->document_count && corpus->starts[d] < last; ++d) {
        const uint64_t begin = corpus->starts[d], end = corpus->starts[d + 1];
        bytes += first <= begin && end <= last
                     ? corpus->documents.items[d].length
                     : piece_bytes(corpus, d, first > begin ? first : begin, last < end ? last : end);
    }
    return bytes;
}

/* The part from skip to skip + take. Both cuts round in the same way, so that [0, 0.9) and [0.9, 1) share no token. */
static bo_status cut(bo_context *context, bo_corpus *corpus, const bo_corpus_desc *desc)
{
    const double skip = desc->skip, take = desc->take > 0 ? desc->take : 1 - skip;
    if (!(skip >= 0 && skip < 1) || !(desc->take >= 0 && skip + take <= 1 + 1e-9))
        return bo_fail(context, BO_INVALID, "a corpus cannot skip %g of its tokens and take %g", skip, desc->take);
    const uint64_t all = corpus->starts[corpus->document_count];
    uint64_t first = (uint64_t)floor(skip * (double)all), last = (uint64_t)floor((skip + take) * (double)all);
    if (desc->take <= 0 || last > all) last = all;
    if (first >= last)
        return bo_fail(context, BO_INVALID,
                       "%s%s: %llu tokens in all, and none is left from the fraction %g on for %g of them",
                       desc->paths[0], desc->path_count > 1 ? ", …" : "", (unsigned long long)all, skip, take);
    corpus->first = first;
    corpus->tokens = last - first;
    return BO_OK;
}

static bo_status open_corpus(bo_context *context, const bo_corpus_desc *desc, bo_corpus *corpus)
{
    BO_TRY(bo_documents_open(context, desc->paths, desc->path_count, desc->field, desc->separator, &corpus->documents));
    BO_TRY(number_tokens(context, corpus));
    BO_TRY(cut(context, corpus, desc));
    corpus->bytes = count_bytes(corpus);
    if (!corpus->tokenizer->bytes) bo_documents_close(&corpus->documents);
    return BO_OK;
}

bo_status bo_corpus_open(bo_context *context, const bo_corpus_desc *desc, bo_corpus **out)
{
    if (!out) return bo_fail(context, BO_INVALID, "a corpus has nowhere to go: out is NULL");
    *out = NULL;
    if (!desc || !desc->tokenizer) return bo_fail(context, BO_INVALID, "a corpus needs a tokenizer");
    bo_corpus *corpus = bo_alloc(context, 1, sizeof *corpus, "a corpus");
    if (!corpus) return BO_MEMORY;
    corpus->tokenizer = desc->tokenizer;
    bo_status status = open_corpus(context, desc, corpus);
    if (status == BO_OK)
        *out = corpus;
    else
        bo_corpus_close(corpus);
    return status;
}

static bo_status copy_ids(bo_context *context, bo_corpus *corpus, const int32_t *ids, size_t count)
{
    const size_t vocab = bo_tokenizer_vocab(corpus->tokenizer);
    corpus->starts = bo_alloc(context, 2, sizeof *corpus->starts, "the starts of documents");
    if (vocab <= UINT16_MAX + 1)
        corpus->narrow = bo_alloc_raw(context, count, sizeof *corpus->narrow, "a corpus");
    else
        corpus->wide = bo_alloc_raw(context, count, sizeof *corpus->wide, "a corpus");
    if (!corpus->starts || (!corpus->narrow && !corpus->wide)) return BO_MEMORY;
    for (size_t i = 0; i < count; ++i) {
        if (ids[i] < 0 || (size_t)ids[i] >= vocab)
            return bo_fail(context, BO_INVALID, "a corpus: token %zu is %d, and the tokenizer has ids 0 to %zu", i,
                           (int)ids[i], vocab - 1);
        if (corpus->narrow)
            corpus->narrow[i] = (uint16_t)ids[i];
        else
            corpus->wide[i] = (uint32_t)ids[i];
    }
    corpus->document_count = 1;
    corpus->starts[1] = corpus->tokens = count;
    corpus->bytes = corpus->tokenizer->bytes ? count : piece_bytes(corpus, 0, 0, count);
    return BO_OK;
}

bo_status bo_corpus_of_ids(bo_context *context, const bo_tokenizer *tokenizer, const int32_t *ids, size_t count,
                           bo_corpus **out)
{
    if (!out) return bo_fail(context, BO_INVALID, "a corpus has nowhere to go: out is NULL");
    *out = NULL;
    if (!tokenizer || !ids || count == 0) return bo_fail(context, BO_INVALID, "a corpus needs a tokenizer and ids");
    bo_corpus *corpus = bo_alloc(context, 1, sizeof *corpus, "a corpus");
    if (!corpus) return BO_MEMORY;
    corpus->tokenizer = tokenizer;
    const bo_status status = copy_ids(context, corpus, ids, count);
    if (status == BO_OK)
        *out = corpus;
    else
        bo_corpus_close(corpus);
    return status;
}

void bo_corpus_close(bo_corpus *corpus)
{
    if (!corpus) return;
    bo_documents_close(&corpus->documents);
    bo_free(corpus->starts);
    bo_free(corpus->narrow);
    bo_free(corpus->wide);
    bo_free(corpus);
}
