/* The merges of a SentencePiece vocabulary. SentencePiece joins the two neighbors whose concatenation has the best
 * score, the leftmost first. A BPE with ordered merges is equivalent: each split of a piece into two pieces is a merge
 * with the score of the piece. Splits of the same score are in the order of Hugging Face's conversion, the longest left
 * part first. */
#include "import.h"
#include <stdlib.h>
#include <string.h>
#include "../text/vocabulary.h"

/* A merge while it is sorted. */
typedef struct candidate {
    bo_piece_merge merge;
    float score;
    uint32_t number; /* the order in which it was found */
} candidate;

typedef struct finder {
    bo_context *context;
    const bo_import_vocab *vocab;
    bo_spellings strings;
    bo_lookup lookup;
    candidate *found;
    size_t count, capacity;
} finder;

static bool is_piece(const bo_import_vocab *vocab, size_t index)
{
    return vocab->kinds[index] == BO_TOKEN_NORMAL;
}

/* The strings of all tokens; only pieces can be found. */
static bo_status index_pieces(finder *f)
{
    const bo_import_vocab *vocab = f->vocab;
    size_t bytes = 0;
    for (size_t i = 0; i < vocab->count; i++) bytes += strlen(vocab->tokens[i]);
    BO_TRY(bo_spellings_create(f->context, vocab->count, bytes, &f->strings));
    for (size_t i = 0; i < vocab->count; i++) bo_spellings_add(&f->strings, vocab->tokens[i], strlen(vocab->tokens[i]));
    BO_TRY(bo_lookup_create(f->context, vocab->count, &f->lookup));
    for (size_t i = 0; i < vocab->count; i++)
        if (is_piece(vocab, i)) bo_lookup_add(&f->lookup, &f->strings, (int32_t)i);
    return BO_OK;
}

static bo_status add(finder *f, candidate found)
{
    if (f->count == f->capacity) {
        const size_t capacity = f->capacity ? 2 * f->capacity : 1024;
        candidate *larger = bo_realloc(f->context, f->found, capacity, sizeof *larger, "merges of a vocabulary");
        if (!larger) return BO_MEMORY;
        f->found = larger;
        f->capacity = capacity;
    }
    found.number = (uint32_t)f->count;
    f->found[f->count++] = found;
    return BO_OK;
}

static size_t count_chars(const char *text, size_t length)
{
    size_t count = 0;
    for (size_t i = 0; i < length; i++) count += ((unsigned char)text[i] & 0xC0) != 0x80;
    return count;
}

static bo_status split_piece(finder *f, size_t index)
{
    size_t length;
    const char *text = bo_spelling_at(&f->strings, index, &length);
    const size_t chars = count_chars(text, length);
    size_t before = 1; /* characters of the left part */
    for (size_t at = 1; at < length; at++) {
        if (((unsigned char)text[at] & 0xC0) == 0x80) continue;
        const int32_t left = bo_lookup_find(&f->lookup, &f->strings, text, at);
        const int32_t right = left >= 0 ? bo_lookup_find(&f->lookup, &f->strings, text + at, length - at) : -1;
        if (right >= 0)
            BO_TRY(add(f, (candidate){.merge = {(uint32_t)left, (uint32_t)right, (uint32_t)index, (uint16_t)before,
                                                (uint16_t)(chars - before)},
                                      .score = f->vocab->scores[index]}));
        before++;
    }
    return BO_OK;
}

static int falling(size_t a, size_t b)
{
    return (a < b) - (a > b);
}

static int by_rank(const void *a, const void *b)
{
    const candidate *x = a, *y = b;
    if (x->score != y->score) return x->score < y->score ? 1 : -1;
    int order = falling(x->merge.left_chars, y->merge.left_chars);
    if (!order) order = falling(x->merge.right_chars, y->merge.right_chars);
    return order ? order : falling(y->number, x->number);
}

bo_status bo_import_merges(bo_context *context, const bo_import_vocab *vocab, bo_piece_merge **out, size_t *count)
{
    finder f = {.context = context, .vocab = vocab};
    *out = NULL;
    *count = 0;
    bo_status status = index_pieces(&f);
    for (size_t i = 0; status == BO_OK && i < vocab->count; i++)
        if (is_piece(vocab, i)) status = split_piece(&f, i);
    if (status == BO_OK && f.count) qsort(f.found, f.count, sizeof *f.found, by_rank);
    bo_piece_merge *merges =
        status == BO_OK ? bo_alloc_raw(context, f.count, sizeof *merges, "merges of a vocabulary") : NULL;
    if (status == BO_OK && !merges) status = BO_MEMORY;
    for (size_t i = 0; merges && i < f.count; i++) merges[i] = f.found[i].merge;
    if (merges) {
        *out = merges;
        *count = f.count;
    }
    bo_spellings_free(&f.strings);
    bo_free(f.lookup.slots);
    bo_free(f.found);
    return status;
}
