/* The ids of a corpus, made once: rounds of parts that threads encode, each into ids of its own, appended in order. */
#include "corpus.h"
#include "encoder.h"
#include "text_parts.h"

enum { PARTS_A_THREAD = 8 };

/* What one part became. */
typedef struct bo_encoded {
    bo_ids ids;
    bo_status status;
    size_t invalid; /* the first byte that is not UTF-8; SIZE_MAX: none */
    bo_missed missed;
} bo_encoded;

typedef struct bo_round {
    bo_corpus *corpus;
    bo_parts parts;
    bo_encoders encoders;
    bo_encoded *encoded; /* of the parts from `first` on */
    size_t first, size;
    size_t capacity; /* of the corpus' ids */
    bool told;       /* that there are bytes which are not UTF-8 */
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

/* ---- collecting --------------------------------------------------------------------------------------------------- */

static bo_status reserve(bo_context *context, bo_round *round, size_t more)
{
    bo_corpus *corpus = round->corpus;
    const bool narrow = corpus->tokenizer->vocab <= UINT16_MAX + 1;
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

/* Byte `at` of a part, for a message: "PATH: byte PLACE OF". */
static size_t locate(const bo_documents *documents, const bo_text_part *part, size_t at, const char **path,
                     const char **of)
{
    const bo_document *document = &documents->items[part->document];
    const bool lines = documents->unescaped[document->file] != NULL;
    *path = documents->paths[document->file];
    *of = lines ? "of a line's text" : "of the file";
    return (size_t)(part->text + at - (lines ? document->text : documents->mappings[document->file].data));
}

/* Bytes that are not UTF-8 are encoded as bytes, which is worth a word, or cannot be, which is an error. */
static bo_status tell_invalid(bo_context *context, bo_round *round, const bo_text_part *part, size_t at)
{
    const bo_tokenizer *tokenizer = round->corpus->tokenizer;
    const char *path, *what;
    const size_t place = locate(&round->corpus->documents, part, at, &path, &what);
    if (round->told) return BO_OK;
    round->told = true;
    if (!tokenizer->byte_level && !tokenizer->byte_fallback)
        return bo_fail(context, BO_FORMAT, "%s: byte %zu %s is not UTF-8, which this tokenizer needs", path, place,
                       what);
    bo_log(context, BO_LOG_WARNING, "%s: byte %zu %s is not UTF-8; such bytes become tokens of one byte", path, place,
           what);
    return BO_OK;
}

static bo_status tell_missed(bo_context *context, const bo_round *round, const bo_text_part *part,
                             const bo_missed *missed)
{
    const char *path, *of;
    const size_t place = locate(&round->corpus->documents, part, missed->place, &path, &of);
    return bo_missed_tell(context, missed, path, place, of);
}

static bo_status collect_part(bo_context *context, bo_round *round, size_t index)
{
    bo_corpus *corpus = round->corpus;
    const bo_encoded *encoded = &round->encoded[index];
    const bo_text_part *part = &round->parts.items[round->first + index];
    if (encoded->invalid != SIZE_MAX) BO_TRY(tell_invalid(context, round, part, encoded->invalid));
    if (encoded->missed.bytes > 0) return tell_missed(context, round, part, &encoded->missed);
    BO_TRY(reserve(context, round, encoded->ids.count + 1));
    append(corpus, encoded->ids.items, encoded->ids.count);
    if (!part->last) return BO_OK;
    if (corpus->tokenizer->end >= 0) append(corpus, &corpus->tokenizer->end, 1);
    corpus->starts[part->document + 1] = corpus->tokens;
    return BO_OK;
}

/* ---- rounds ------------------------------------------------------------------------------------------------------- */

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

bo_status bo_corpus_encode(bo_context *context, bo_corpus *corpus)
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
