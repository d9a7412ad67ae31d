/* A corpus: files as one sequence of tokens, encoded once and read at any position. */
#include "facts.h"
#include <assert.h>
#include <math.h>
#include <string.h>
#include "../base/trace.h"
#include "../base/rng.h"
#include "documents.h"
#include "encoder.h"
#include "tokenizer.h"

/* The tokens of all files are numbered; the corpus is the range [first, first + tokens). Document d has the tokens
 * [starts[d], starts[d + 1]). They are stored in `narrow` or, if the ids need more bits, in `wide`. Files read with the
 * byte tokenizer use neither array: their tokens are the bytes of documents.items[d]. */
struct bo_corpus {
    const bo_tokenizer *tokenizer;
    bo_documents documents; /* the texts are kept only for byte tokens */
    size_t document_count;
    uint64_t *starts; /* document_count + 1 */
    uint16_t *narrow;
    uint32_t *wide;
    uint64_t first, tokens, bytes;
};

/* ====================================================================================================================
 * The ids of a corpus, computed once. Threads encode the parts of a round in parallel; the results are appended in
 * order. */

enum { PARTS_A_THREAD = 8 };

/* The result of one part. */
typedef struct bo_encoded {
    bo_ids ids;
    bo_status status;
    size_t invalid; /* the first byte that is not valid UTF-8; SIZE_MAX: none */
    bo_missed missed;
} bo_encoded;

typedef struct bo_round {
    bo_corpus *corpus;
    bo_parts parts;
    bo_encoders encoders;
    bo_encoded *encoded; /* results of the parts from `first` on */
    size_t first, size;
    size_t capacity; /* capacity of the ids of the corpus */
    bool warned;     /* the warning about bytes that are not UTF-8 was issued */
} bo_round;

static void encode_part(void *arg, size_t index, int worker)
{
    bo_round *round = arg;
    bo_encoded *encoded = &round->encoded[index];
    bo_encoder *encoder = &round->encoders.items[worker];
    const bo_text_part *part = &round->parts.items[round->first + index];
    encoded->ids.count = 0;
    encoded->status = bo_encoder_run(encoder, part->text, part->length, &encoded->ids);
    encoded->invalid = encoder->invalid;
    encoded->missed = encoder->missed;
}

/* ---- collecting -------------------------------------------------------------------------------------------------- */

static bo_status reserve(bo_context *context, bo_round *round, size_t more)
{
    bo_corpus *corpus = round->corpus;
    const bool narrow = corpus->tokenizer->info.vocab <= UINT16_MAX + 1;
    if (round->capacity - corpus->tokens >= more) return BO_OK;
    size_t capacity = 2 * round->capacity > corpus->tokens + more ? 2 * round->capacity : corpus->tokens + more;
    if (narrow) {
        uint16_t *larger = bo_realloc(context, corpus->narrow, capacity, sizeof *larger, "the tokens of a corpus");
        if (!larger) return BO_MEMORY;
        corpus->narrow = larger;
    } else {
        uint32_t *larger = bo_realloc(context, corpus->wide, capacity, sizeof *larger, "the tokens of a corpus");
        if (!larger) return BO_MEMORY;
        corpus->wide = larger;
    }
    round->capacity = capacity;
    return BO_OK;
}

static void append(bo_corpus *corpus, const int32_t *ids, size_t count)
{
    for (size_t i = 0; i < count; ++i) {
        if (corpus->narrow)
            corpus->narrow[corpus->tokens + i] = (uint16_t)ids[i];
        else
            corpus->wide[corpus->tokens + i] = (uint32_t)ids[i];
    }
    corpus->tokens += count;
}

/* Describes byte `at` of a part for a message: "PATH: byte PLACE OF". */
static size_t locate(const bo_documents *documents, const bo_text_part *part, size_t at, const char **path,
                     const char **of)
{
    const bo_document *document = &documents->items[part->document];
    const bool lines = documents->unescaped[document->file] != NULL;
    *path = documents->paths[document->file];
    *of = lines ? "of a line's text" : "of the file";
    return (size_t)(part->text + at - (lines ? document->text : documents->mappings[document->file].data));
}

/* Bytes that are not UTF-8 are encoded as bytes, with a warning; for a tokenizer without byte tokens they are an
 * error. */
static bo_status warn_invalid(bo_context *context, bo_round *round, const bo_text_part *part, size_t at)
{
    const bo_tokenizer *tokenizer = round->corpus->tokenizer;
    const char *path, *what;
    const size_t place = locate(&round->corpus->documents, part, at, &path, &what);
    if (round->warned) return BO_OK;
    round->warned = true;
    if (!tokenizer->byte_level && !tokenizer->byte_fallback)
        return bo_fail(context, BO_FORMAT, "%s: byte %zu %s is not UTF-8, which this tokenizer needs", path, place,
                       what);
    bo_log(context, BO_LOG_WARNING, "%s: byte %zu %s is not UTF-8; such bytes become tokens of one byte", path, place,
           what);
    return BO_OK;
}

static bo_status report_missed(bo_context *context, const bo_round *round, const bo_text_part *part,
                               const bo_missed *missed)
{
    const char *path, *of;
    const size_t place = locate(&round->corpus->documents, part, missed->place, &path, &of);
    return bo_missed_report(context, missed, path, place, of);
}

/* A document has the special tokens of the tokenizer's template around it, as in the package `tokenizers`, and ends
 * with the end token. If the template starts a document with the end token, as in some models, it is not repeated. */
static bool needs_end(const bo_tokenizer *tokenizer)
{
    const size_t before = tokenizer->frame_before, after = tokenizer->frame_after;
    if (tokenizer->info.end < 0 || (before && tokenizer->frame[0] == tokenizer->info.end)) return false;
    return !after || tokenizer->frame[before + after - 1] != tokenizer->info.end;
}

static bo_status collect_part(bo_context *context, bo_round *round, size_t index)
{
    bo_corpus *corpus = round->corpus;
    const bo_tokenizer *tokenizer = corpus->tokenizer;
    const bo_encoded *encoded = &round->encoded[index];
    const bo_text_part *part = &round->parts.items[round->first + index];
    const bool begins = round->first + index == 0 || part[-1].document != part->document;
    if (encoded->invalid != SIZE_MAX) BO_TRY(warn_invalid(context, round, part, encoded->invalid));
    if (encoded->missed.bytes > 0) return report_missed(context, round, part, &encoded->missed);
    BO_TRY(reserve(context, round, encoded->ids.count + tokenizer->frame_before + tokenizer->frame_after + 1));
    if (begins) append(corpus, tokenizer->frame, tokenizer->frame_before);
    append(corpus, encoded->ids.items, encoded->ids.count);
    if (!part->last) return BO_OK;
    if (tokenizer->frame_after) append(corpus, tokenizer->frame + tokenizer->frame_before, tokenizer->frame_after);
    if (needs_end(tokenizer)) append(corpus, &tokenizer->info.end, 1);
    corpus->starts[part->document + 1] = corpus->tokens;
    return BO_OK;
}

/* ---- rounds ------------------------------------------------------------------------------------------------------ */

static bo_status encode_all(bo_context *context, bo_round *round)
{
    double done = 0;
    for (; round->first < round->parts.count; round->first += round->size) {
        size_t left = round->parts.count - round->first, count = left < round->size ? left : round->size;
        BO_TRY(bo_progress(context, "encoding", done, (double)round->corpus->documents.bytes));
        bo_parallel(context, count, encode_part, round);
        for (size_t i = 0; i < count; ++i) {
            if (round->encoded[i].status != BO_OK)
                return bo_encoders_failed(context, &round->encoders, round->encoded[i].status);
            BO_TRY(collect_part(context, round, i));
            done += (double)round->parts.items[round->first + i].length;
        }
    }
    return bo_progress(context, "encoding", done, done);
}

static bo_status prepare(bo_context *context, bo_round *round)
{
    bo_corpus *corpus = round->corpus;
    BO_TRY(bo_encoders_create(context, corpus->tokenizer, true, (size_t)corpus->documents.bytes, &round->encoders));
    round->size = (size_t)round->encoders.count * PARTS_A_THREAD;
    round->encoded = bo_alloc(context, round->size, sizeof *round->encoded, "encoded text");
    if (!round->encoded) return BO_MEMORY;
    return bo_parts_make(context, &corpus->documents, bo_tokenizer_cuttable(corpus->tokenizer), &round->parts);
}

/* Fills starts and ids of a corpus whose documents are open, for tokenizers other than bytes. */
static bo_status encode_corpus(bo_context *context, bo_corpus *corpus)
{
    bo_round round = {.corpus = corpus};
    corpus->tokens = 0;
    bo_status status = prepare(context, &round);
    if (status == BO_OK) status = encode_all(context, &round);
    bo_encoders_free(&round.encoders);
    for (size_t i = 0; round.encoded && i < round.size; ++i) bo_ids_free(&round.encoded[i].ids);
    bo_free(round.encoded);
    bo_free(round.parts.items);
    return status;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

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

/* Checks the files of byte tokens before they are read, because other processes may change them. */
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
    BO_REQUIRE(context, corpus);
    BO_REQUIRE_IF(context, count > 0, ids);
    if (first > corpus->tokens || count > corpus->tokens - first)
        return bo_fail(context, BO_INVALID, "corpus: tokens %llu to %llu requested; the corpus has %llu",
                       (unsigned long long)first, (unsigned long long)(first + count),
                       (unsigned long long)corpus->tokens);
    if (count == 0) return BO_OK;
    if (!corpus->narrow && !corpus->wide) BO_TRY(check_files(context, corpus, first, count));
    read_tokens(corpus, first, count, ids);
    return BO_OK;
}

uint64_t bo_corpus_tokens(const bo_corpus *corpus)
{
    return corpus ? corpus->tokens : 0;
}

uint64_t bo_corpus_bytes(const bo_corpus *corpus)
{
    return corpus ? corpus->bytes : 0;
}

uint64_t bo_corpus_documents(const bo_corpus *corpus)
{
    return corpus ? document_of(corpus, corpus->first + corpus->tokens - 1) - document_of(corpus, corpus->first) + 1
                  : 0;
}

uint64_t bo_corpus_next_document(const bo_corpus *corpus, uint64_t at)
{
    if (!corpus) return 0;
    if (at >= corpus->tokens) return corpus->tokens;
    uint64_t next = corpus->starts[document_of(corpus, corpus->first + at) + 1] - corpus->first;
    return next < corpus->tokens ? next : corpus->tokens;
}

/* FNV-1a over the number of tokens, the starts of documents and the tokens. A corpus of more than 16 Mi tokens
 * contributes 4096 evenly spaced blocks, so that resuming on a hundred gigabytes does not read them all. */
uint64_t bo_corpus_fingerprint(const bo_corpus *corpus)
{
    if (!corpus) return 0;
    enum { BLOCK = 4096, MAX_BLOCKS = 4096 };
    const uint64_t prime = 1099511628211u;
    uint64_t hash = bo_rng_stream("text.corpus", corpus->tokens);
    for (uint64_t d = bo_corpus_next_document(corpus, 0), i = 0; d < corpus->tokens && i < BLOCK;
         d = bo_corpus_next_document(corpus, d), ++i)
        hash = (hash ^ d) * prime;
    uint64_t blocks = (corpus->tokens + BLOCK - 1) / BLOCK, chosen = blocks < MAX_BLOCKS ? blocks : MAX_BLOCKS;
    int32_t ids[BLOCK];
    for (uint64_t b = 0; b < chosen; ++b) {
        uint64_t at = (blocks / chosen * b + blocks % chosen * b / chosen) * BLOCK;
        size_t count = corpus->tokens - at < BLOCK ? (size_t)(corpus->tokens - at) : BLOCK;
        read_tokens(corpus, at, count, ids);
        for (size_t i = 0; i < count; ++i) hash = (hash ^ (uint32_t)ids[i]) * prime;
    }
    return hash;
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static bo_status number_tokens(bo_context *context, bo_corpus *corpus)
{
    corpus->document_count = corpus->documents.count;
    corpus->starts = bo_alloc(context, corpus->document_count + 1, sizeof *corpus->starts, "the starts of documents");
    if (!corpus->starts) return BO_MEMORY;
    if (!corpus->tokenizer->info.bytes) return encode_corpus(context, corpus);
    for (size_t d = 0; d < corpus->document_count; ++d)
        corpus->starts[d + 1] = corpus->starts[d] + corpus->documents.items[d].length;
    return BO_OK;
}

/* Bytes of text of the tokens [first, last); the special tokens around a document have none. */
static uint64_t piece_bytes(const bo_corpus *corpus, uint64_t first, uint64_t last)
{
    uint64_t bytes = 0;
    for (uint64_t at = first; at < last; ++at) {
        size_t length;
        const int32_t id = corpus->narrow ? corpus->narrow[at] : (int32_t)corpus->wide[at];
        bo_tokenizer_piece(corpus->tokenizer, id, &length);
        if (!bo_tokenizer_frames(corpus->tokenizer, id)) bytes += length;
    }
    return bytes;
}

/* The bytes of a whole document are counted as read, because normalization may change them. */
static uint64_t count_bytes(const bo_corpus *corpus)
{
    if (corpus->tokenizer->info.bytes) return corpus->tokens;
    const uint64_t first = corpus->first, last = first + corpus->tokens;
    uint64_t bytes = 0;
    for (size_t d = document_of(corpus, first); d < corpus->document_count && corpus->starts[d] < last; ++d) {
        const uint64_t begin = corpus->starts[d], end = corpus->starts[d + 1];
        bytes += first <= begin && end <= last
                     ? corpus->documents.items[d].length
                     : piece_bytes(corpus, first > begin ? first : begin, last < end ? last : end);
    }
    return bytes;
}

/* Selects the part from skip to skip + take. Both limits are rounded in the same way, so that [0, 0.9) and [0.9, 1)
 * share no token. */
static bo_status cut(bo_context *context, bo_corpus *corpus, const bo_corpus_desc *desc)
{
    const double skip = desc->skip, take = desc->take > 0 ? desc->take : 1 - skip;
    if (!(skip >= 0 && skip < 1) || !(desc->take >= 0 && skip + take <= 1 + 1e-9))
        return bo_fail(context, BO_INVALID,
                       "corpus: skip %g and take %g: expected fractions from 0 to 1 whose sum is at most 1", skip,
                       desc->take);
    const uint64_t all = corpus->starts[corpus->document_count];
    uint64_t first = (uint64_t)floor(skip * (double)all), last = (uint64_t)floor((skip + take) * (double)all);
    if (desc->take <= 0 || last > all) last = all;
    if (first >= last)
        return bo_fail(context, BO_INVALID,
                       "%s%s: the corpus has %llu tokens; none is left after skipping the fraction %g and taking %g",
                       desc->ids ? "corpus" : corpus->documents.paths[0], corpus->documents.file_count > 1 ? ", …" : "",
                       (unsigned long long)all, skip, take);
    corpus->first = first;
    corpus->tokens = last - first;
    return BO_OK;
}

static bo_status copy_ids(bo_context *context, bo_corpus *corpus, const int32_t *ids, size_t count)
{
    if (count == 0) return bo_fail(context, BO_INVALID, "corpus: expected at least one id, found none");
    const size_t vocab = bo_tokenizer_vocab(corpus->tokenizer);
    corpus->starts = bo_alloc(context, 2, sizeof *corpus->starts, "the starts of documents");
    if (vocab <= UINT16_MAX + 1)
        corpus->narrow = bo_alloc_raw(context, count, sizeof *corpus->narrow, "a corpus");
    else
        corpus->wide = bo_alloc_raw(context, count, sizeof *corpus->wide, "a corpus");
    if (!corpus->starts || (!corpus->narrow && !corpus->wide)) return BO_MEMORY;
    for (size_t i = 0; i < count; ++i) {
        if (ids[i] < 0 || (size_t)ids[i] >= vocab)
            return bo_fail(context, BO_INVALID, "corpus: token %zu is %d; expected ids from 0 to %zu", i, (int)ids[i],
                           vocab - 1);
        if (corpus->narrow)
            corpus->narrow[i] = (uint16_t)ids[i];
        else
            corpus->wide[i] = (uint32_t)ids[i];
    }
    corpus->document_count = 1;
    corpus->starts[1] = corpus->tokens = count;
    return BO_OK;
}

static bo_status open_ids(bo_context *context, const bo_corpus_desc *desc, bo_corpus *corpus)
{
    if (desc->path_count || desc->memory)
        return bo_fail(context, BO_INVALID, "corpus: expected one of paths, memory and ids, found several");
    if (!desc->ids) return bo_fail(context, BO_INVALID, "corpus: ids is NULL");
    BO_TRY(copy_ids(context, corpus, desc->ids, desc->id_count));
    BO_TRY(cut(context, corpus, desc));
    corpus->bytes = corpus->tokenizer->info.bytes ? corpus->tokens
                                                  : piece_bytes(corpus, corpus->first, corpus->first + corpus->tokens);
    return BO_OK;
}

static bo_status open_corpus(bo_context *context, const bo_corpus_desc *desc, bo_corpus *corpus)
{
    if (desc->ids || desc->id_count) return open_ids(context, desc, corpus);
    BO_TRY(bo_documents_open(context, desc, &corpus->documents));
    BO_TRY(number_tokens(context, corpus));
    BO_TRY(cut(context, corpus, desc));
    corpus->bytes = count_bytes(corpus);
    if (!corpus->tokenizer->info.bytes) bo_documents_close(&corpus->documents);
    return BO_OK;
}

static bool corpus_holds(const bo_corpus *corpus)
{
    bool holds = corpus->starts[0] == 0 && corpus->first + corpus->tokens <= corpus->starts[corpus->document_count];
    for (size_t d = 0; holds && d < corpus->document_count; ++d) holds = corpus->starts[d] <= corpus->starts[d + 1];
    return holds && !(corpus->narrow && corpus->wide);
}

bo_status bo_corpus_open(bo_context *context, const bo_corpus_desc *desc, bo_corpus **out)
{
    if (out) *out = NULL;
    BO_REQUIRE(context, desc, out);
    BO_REQUIRE(context, desc->tokenizer);
    BO_SPAN(context, "text", "tokenize");
    BO_TRY(bo_check_reserved(context, "bo_corpus_desc", desc->reserved));
    bo_corpus *corpus = bo_alloc(context, 1, sizeof *corpus, "a corpus");
    if (!corpus) return BO_MEMORY;
    corpus->tokenizer = desc->tokenizer;
    bo_status status = open_corpus(context, desc, corpus);
    assert(status != BO_OK || corpus_holds(corpus));
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
