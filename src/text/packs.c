/* Packs: the examples of an epoch are shuffled, and each is placed into the open pack that it fills best (best fit,
 * Johnson 1974; shuffled rather than sorted by length, so that packs are alike). Then the packs are shuffled. The
 * result is a function of seed and epoch. */
#include "facts.h"
#include <assert.h>
#include <math.h>
#include <string.h>
#include "../base/rng.h"
#include "packs.h"

enum { MAX_OPEN = 64 };

typedef struct bo_open_pack {
    size_t number, examples;
    size_t remaining[2];
} bo_open_pack;

struct bo_packs {
    bo_packs_desc desc;
    size_t count;      /* number of examples */
    size_t (*need)[2]; /* rows of each example on each side */
    double fill;       /* fill of epoch 0 */

    /* The current epoch: pack p holds examples[starts[p]] to examples[starts[p + 1]]. */
    uint64_t epoch;
    size_t *examples, *starts, packs;

    /* Packs before each epoch that was computed: epoch e has firsts[e + 1] - firsts[e] packs. */
    uint64_t *firsts;
    size_t epochs, capacity;

    /* Workspace: examples in their order, and the pack of each. */
    size_t *order, *numbers;
    bo_open_pack open[MAX_OPEN];
    size_t open_count;
};

/* ---- packing ----------------------------------------------------------------------------------------------------- */

/* The fullest open pack into which both sides fit; with `need` {0, 0} the fullest pack. NULL: none. */
static bo_open_pack *fullest(bo_packs *packs, const size_t need[2])
{
    bo_open_pack *best = NULL;
    size_t min_remaining = SIZE_MAX;
    for (size_t i = 0; i < packs->open_count; ++i) {
        bo_open_pack *open = &packs->open[i];
        const size_t remaining = open->remaining[0] + open->remaining[1];
        if (remaining >= min_remaining || open->remaining[0] < need[0] || open->remaining[1] < need[1]) continue;
        best = open;
        min_remaining = remaining;
    }
    return best;
}

static void close_pack(bo_packs *packs, bo_open_pack *pack)
{
    *pack = packs->open[--packs->open_count];
}

static bo_open_pack *open_pack(bo_packs *packs)
{
    if (packs->open_count == MAX_OPEN) close_pack(packs, fullest(packs, (const size_t[2]){0, 0}));
    bo_open_pack *pack = &packs->open[packs->open_count++];
    *pack = (bo_open_pack){.number = packs->packs++, .remaining = {packs->desc.rows, packs->desc.target_rows}};
    return pack;
}

static void lay(bo_packs *packs, size_t place)
{
    const size_t *need = packs->need[packs->order[place]];
    bo_open_pack *chosen = fullest(packs, need);
    if (!chosen) chosen = open_pack(packs);
    packs->numbers[place] = chosen->number;
    for (int side = 0; side < 2; ++side) chosen->remaining[side] -= need[side];
    const bool full = ++chosen->examples == packs->desc.max_examples || chosen->remaining[0] == 0;
    if (full) close_pack(packs, chosen);
}

/* Converts the pack of each place into the places of each pack; the epoch's permutation renumbers the packs. */
static void collect(bo_packs *packs)
{
    size_t *starts = packs->starts;
    memset(starts, 0, (packs->packs + 1) * sizeof *starts);
    for (size_t i = 0; i < packs->count; ++i) {
        size_t *number = &packs->numbers[i];
        if (!packs->desc.in_order) *number = (size_t)bo_permute(packs->desc.seed, packs->epoch, packs->packs, *number);
        ++starts[*number + 1];
    }
    for (size_t p = 0; p < packs->packs; ++p) starts[p + 1] += starts[p];
    for (size_t i = packs->count; i-- > 0;) packs->examples[--starts[packs->numbers[i] + 1]] = packs->order[i];
    memmove(starts, starts + 1, packs->packs * sizeof *starts); /* the ends become the starts */
    starts[packs->packs] = packs->count;
}

static void lay_out(bo_packs *packs, uint64_t epoch)
{
    packs->epoch = epoch;
    packs->packs = packs->open_count = 0;
    if (packs->desc.in_order) {
        for (size_t i = 0; i < packs->count; ++i) packs->order[i] = i;
    } else {
        bo_rng rng = bo_rng_make(packs->desc.seed, bo_rng_stream("text.packs", epoch));
        bo_rng_permutation(&rng, packs->count, packs->order);
    }
    for (size_t place = 0; place < packs->count; ++place) lay(packs, place);
    collect(packs);
}

/* ---- creation ---------------------------------------------------------------------------------------------------- */

static bo_status measure(bo_context *context, bo_packs *packs)
{
    const bo_texts *texts = packs->desc.texts;
    const size_t rows[2] = {packs->desc.rows, packs->desc.target_rows};
    const bool pair = bo_texts_get_kind(texts) == BO_TEXTS_PAIR;
    for (size_t i = 0; i < packs->count; ++i) {
        size_t *need = packs->need[i];
        for (size_t side = 0; side < bo_texts_sides(texts); ++side)
            need[pair ? side : 0] += bo_text_at(texts, i, side).count;
        if (need[0] <= rows[0] && need[1] <= rows[1]) continue;
        const char *path;
        const size_t line = bo_texts_line(texts, i, &path), side = need[0] > rows[0] ? 0 : 1;
        return bo_fail(context, BO_INVALID, "%s, line %zu: packs have %zu rows%s, found %zu tokens", path, line,
                       rows[side], side ? " of targets" : "", need[side]);
    }
    return BO_OK;
}

static bo_status allocate(bo_context *context, bo_packs *packs)
{
    const size_t count = packs->count;
    packs->need = bo_alloc(context, count, sizeof *packs->need, "the lengths of examples");
    packs->examples = bo_alloc_raw(context, count, sizeof *packs->examples, "packs");
    packs->starts = bo_alloc_raw(context, count + 1, sizeof *packs->starts, "packs");
    packs->order = bo_alloc_raw(context, count, sizeof *packs->order, "packs");
    packs->numbers = bo_alloc_raw(context, count, sizeof *packs->numbers, "packs");
    const bool made = packs->need && packs->examples && packs->starts && packs->order && packs->numbers;
    return made ? BO_OK : BO_MEMORY;
}

static bo_status check(bo_context *context, const bo_packs_desc *desc)
{
    BO_TRY(bo_check_reserved(context, "bo_packs_desc", desc->reserved));
    const bool pair = bo_texts_get_kind(desc->texts) == BO_TEXTS_PAIR;
    if (desc->rows == 0 || (desc->target_rows == 0) == pair || desc->max_examples == 0 || desc->batch == 0)
        return bo_fail(
            context, BO_INVALID,
            "packs: %zu and %zu rows, at most %zu examples, %zu packs per step: expected at least 1 each (target rows "
            "for pairs only)",
            desc->rows, desc->target_rows, desc->max_examples, desc->batch);
    return BO_OK;
}

/* Computes and records the next epoch. */
static bo_status next_epoch(bo_context *context, bo_packs *packs)
{
    if (packs->epochs + 2 > packs->capacity) {
        const size_t capacity = packs->capacity ? 2 * packs->capacity : 16;
        uint64_t *larger = bo_realloc(context, packs->firsts, capacity, sizeof *larger, "the epochs of packs");
        if (!larger) return BO_MEMORY;
        packs->firsts = larger;
        packs->capacity = capacity;
        packs->firsts[0] = 0;
    }
    lay_out(packs, packs->epochs);
    packs->firsts[packs->epochs + 1] = packs->firsts[packs->epochs] + packs->packs;
    ++packs->epochs;
    return BO_OK;
}

static double first_fill(const bo_packs *packs)
{
    double tokens = 0;
    for (size_t i = 0; i < packs->count; ++i) tokens += (double)(packs->need[i][0] + packs->need[i][1]);
    return tokens / ((double)packs->packs * (double)(packs->desc.rows + packs->desc.target_rows));
}

bo_status bo_packs_create(bo_context *context, const bo_packs_desc *desc, bo_packs **out)
{
    if (out) *out = NULL;
    BO_REQUIRE(context, desc, out);
    BO_REQUIRE(context, desc->texts);
    BO_TRY(check(context, desc));
    bo_packs *packs = bo_alloc(context, 1, sizeof *packs, "packs");
    if (!packs) return BO_MEMORY;
    packs->desc = *desc;
    packs->count = bo_texts_count(desc->texts);
    bo_status status = allocate(context, packs);
    if (status == BO_OK) status = measure(context, packs);
    if (status == BO_OK) status = next_epoch(context, packs);
    if (status == BO_OK) {
        packs->fill = first_fill(packs);
        *out = packs;
    } else {
        bo_packs_destroy(packs);
    }
    return status;
}

void bo_packs_destroy(bo_packs *packs)
{
    if (!packs) return;
    bo_free(packs->need);
    bo_free(packs->examples);
    bo_free(packs->starts);
    bo_free(packs->firsts);
    bo_free(packs->order);
    bo_free(packs->numbers);
    bo_free(packs);
}

/* ---- queries ----------------------------------------------------------------------------------------------------- */

size_t bo_packs_per_epoch(const bo_packs *packs)
{
    return packs ? (size_t)packs->firsts[1] : 0;
}

double bo_packs_occupancy(const bo_packs *packs)
{
    return packs ? packs->fill : NAN;
}

/* The computed epoch that holds pack `at` of all packs. */
static size_t epoch_of(const bo_packs *packs, uint64_t at)
{
    size_t low = 0, high = packs->epochs;
    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        if (packs->firsts[middle] <= at)
            low = middle;
        else
            high = middle;
    }
    return low;
}

bo_status bo_packs_get(bo_context *context, bo_packs *packs, uint64_t step, size_t index, size_t *examples,
                       size_t *count)
{
    BO_REQUIRE(context, packs, examples, count);
    *count = 0;
    if (index >= packs->desc.batch)
        return bo_fail(context, BO_INVALID, "packs: pack %zu requested; a step has %zu", index, packs->desc.batch);
    const uint64_t at = step * packs->desc.batch + index;
    if (packs->desc.in_order && at >= packs->firsts[1]) return BO_OK;
    while (at >= packs->firsts[packs->epochs]) BO_TRY(next_epoch(context, packs));
    const size_t epoch = epoch_of(packs, at);
    if (packs->epoch != epoch) lay_out(packs, epoch);
    const size_t pack = (size_t)(at - packs->firsts[epoch]), first = packs->starts[pack];
    *count = packs->starts[pack + 1] - first;
    memcpy(examples, packs->examples + first, *count * sizeof *examples);
    return BO_OK;
}

/* ---- a pack in host memory --------------------------------------------------------------------------------------- */

enum { REST = 64 }; /* tokens per padding sequence, if the capacity allows it */

static bool is_pair(const bo_texts *texts)
{
    return bo_texts_get_kind(texts) == BO_TEXTS_PAIR;
}

/* ---- creation ---------------------------------------------------------------------------------------------------- */

static bo_status create_stream(bo_context *context, size_t rows, size_t sequences, bo_packed_stream *out)
{
    out->rows = rows;
    out->tokens = bo_alloc(context, rows, sizeof *out->tokens, "a pack");
    out->positions = bo_alloc(context, rows, sizeof *out->positions, "a pack");
    out->reversal = bo_alloc(context, rows, sizeof *out->reversal, "a pack");
    out->lengths = bo_alloc(context, sequences, sizeof *out->lengths, "a pack");
    return out->tokens && out->positions && out->reversal && out->lengths ? BO_OK : BO_MEMORY;
}

static void free_stream(bo_packed_stream *stream)
{
    bo_free(stream->tokens);
    bo_free(stream->positions);
    bo_free(stream->reversal);
    bo_free(stream->lengths);
}

static bo_status create(bo_context *context, const bo_texts *texts, const size_t rows[2], bo_text_pack *packed)
{
    const bool pair = is_pair(texts);
    const size_t main_rows = pair ? rows[1] : rows[0];
    packed->max_sequences = packed->max_examples * (pair ? 1 : bo_texts_sides(texts)) + 1;
    BO_TRY(create_stream(context, main_rows, packed->max_sequences, &packed->stream));
    if (pair) BO_TRY(create_stream(context, rows[0], packed->max_sequences, &packed->source));
    if (pair) packed->targets = bo_alloc(context, main_rows, sizeof *packed->targets, "a pack");
    packed->labels = bo_alloc(context, packed->max_examples, sizeof *packed->labels, "a pack");
    return packed->labels && (packed->targets || !pair) ? BO_OK : BO_MEMORY;
}

bo_status bo_text_pack_create(bo_context *context, const bo_texts *texts, const size_t rows[2], size_t max_examples,
                              int32_t begin, bo_text_pack **out)
{
    *out = NULL;
    bo_text_pack *packed = bo_alloc(context, 1, sizeof *packed, "a pack");
    if (!packed) return BO_MEMORY;
    packed->max_examples = max_examples;
    packed->begin = begin;
    bo_status status = create(context, texts, rows, packed);
    if (status == BO_OK) status = bo_text_pack_fill(context, packed, texts, NULL, 0);
    if (status == BO_OK)
        *out = packed;
    else
        bo_text_pack_destroy(packed);
    return status;
}

void bo_text_pack_destroy(bo_text_pack *packed)
{
    if (!packed) return;
    free_stream(&packed->stream);
    free_stream(&packed->source);
    bo_free(packed->targets);
    bo_free(packed->labels);
    bo_free(packed);
}

/* ---- filling ----------------------------------------------------------------------------------------------------- */

/* Position of the next sequence of a stream. */
typedef struct bo_filling {
    bo_packed_stream *stream;
    size_t row, sequences;
} bo_filling;

/* Makes rows [row, row + count) a sequence; its tokens are already stored. counting: positions are 0, 1, …; otherwise
 * all 0. */
static void end_sequence(bo_filling *filling, size_t count, bool counting)
{
    bo_packed_stream *stream = filling->stream;
    const size_t first = filling->row, last = first + count;
    for (size_t i = first; i < last; ++i) {
        stream->positions[i] = counting ? (int32_t)(i - first) : 0;
        stream->reversal[i] = (int32_t)(first + last - 1 - i);
    }
    stream->lengths[filling->sequences++] = count;
    filling->row = last;
}

static void add_text(bo_filling *filling, bo_text_view text)
{
    memcpy(filling->stream->tokens + filling->row, text.ids, text.count * sizeof *text.ids);
    end_sequence(filling, text.count, true);
}

/* After begin y_1 … y_n the targets are y_1 … y_n end. */
static void add_target(bo_text_pack *packed, bo_filling *filling, bo_text_view text)
{
    int32_t *tokens = packed->stream.tokens + filling->row;
    memcpy(packed->targets + filling->row, text.ids, text.count * sizeof *text.ids);
    tokens[0] = packed->begin;
    memcpy(tokens + 1, text.ids, (text.count - 1) * sizeof *text.ids);
    end_sequence(filling, text.count, true);
}

static size_t rest_of(const bo_filling *filling)
{
    return filling->stream->rows - filling->row;
}

static void add_rest(bo_filling *filling, size_t pieces)
{
    memset(filling->stream->tokens + filling->row, 0, rest_of(filling) * sizeof *filling->stream->tokens);
    for (; pieces; --pieces) end_sequence(filling, rest_of(filling) / pieces, false);
}

/* Fills the rest of both streams with the same number of padding sequences. */
static void add_rests(bo_filling *stream, bo_filling *source, size_t max_sequences)
{
    const size_t rests[2] = {rest_of(stream), rest_of(source)}, available = max_sequences - stream->sequences;
    const size_t needed = (rests[0] > rests[1] ? rests[0] : rests[1]) / REST + 1,
                 pieces = needed < available ? needed : available;
    add_rest(stream, pieces);
    if (source->stream->rows > 0) add_rest(source, pieces);
}

static bo_status check_fit(bo_context *context, const bo_text_pack *packed, const bo_texts *texts,
                           const size_t *examples, size_t count)
{
    size_t need[2] = {0, 0};
    const bool pair = is_pair(texts);
    for (size_t i = 0; i < count; ++i)
        for (size_t side = 0; side < bo_texts_sides(texts); ++side)
            need[pair && side == 0] += bo_text_at(texts, examples[i], side).count;
    if (count <= packed->max_examples && need[0] <= packed->stream.rows && need[1] <= packed->source.rows) return BO_OK;
    return bo_fail(context, BO_INVALID,
                   "a pack for %zu examples in %zu rows (sources: %zu) cannot hold %zu of %zu tokens (sources: %zu)",
                   packed->max_examples, packed->stream.rows, packed->source.rows, count, need[0], need[1]);
}

static bool lengths_hold(const bo_packed_stream *stream, size_t sequences)
{
    size_t rows = 0;
    for (size_t i = 0; i < sequences; ++i) rows += stream->lengths[i];
    return rows == stream->rows;
}

bo_status bo_text_pack_fill(bo_context *context, bo_text_pack *packed, const bo_texts *texts, const size_t *examples,
                            size_t count)
{
    BO_TRY(check_fit(context, packed, texts, examples, count));
    bo_filling stream = {.stream = &packed->stream}, source = {.stream = &packed->source};
    for (size_t i = 0; i < count; ++i) {
        const size_t example = examples[i];
        packed->labels[i] = bo_texts_label(texts, example);
        if (is_pair(texts)) {
            add_text(&source, bo_text_at(texts, example, 0));
            add_target(packed, &stream, bo_text_at(texts, example, 1));
        } else {
            for (size_t side = 0; side < bo_texts_sides(texts); ++side)
                add_text(&stream, bo_text_at(texts, example, side));
        }
    }
    for (size_t i = count; i < packed->max_examples; ++i) packed->labels[i] = -1;
    for (size_t i = stream.row; packed->targets && i < packed->stream.rows; ++i) packed->targets[i] = -1;
    packed->examples = count;
    packed->texts = stream.sequences;
    add_rests(&stream, &source, packed->max_sequences);
    packed->sequences = stream.sequences;
    assert(packed->sequences <= packed->max_sequences && lengths_hold(&packed->stream, packed->sequences));
    assert(!packed->source.rows || lengths_hold(&packed->source, packed->sequences));
    return BO_OK;
}
