#include "packed.h"

#include <string.h>

enum { REST = 64 }; /* tokens of a sequence of the rest, where there is room for so many */

static bool is_pair(const bo_texts *texts)
{
    return bo_texts_kind_of(texts) == BO_TEXTS_PAIR;
}

/* ---- making ----------------------------------------------------------------------------------------------------------- */

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
    packed->most_sequences = packed->most * (pair ? 1 : bo_texts_sides(texts)) + 1;
    BO_TRY(create_stream(context, main_rows, packed->most_sequences, &packed->stream));
    if (pair) BO_TRY(create_stream(context, rows[0], packed->most_sequences, &packed->source));
    if (pair) packed->targets = bo_alloc(context, main_rows, sizeof *packed->targets, "a pack");
    packed->labels = bo_alloc(context, packed->most, sizeof *packed->labels, "a pack");
    return packed->labels && (packed->targets || !pair) ? BO_OK : BO_MEMORY;
}

bo_status bo_text_pack_create(bo_context *context, const bo_texts *texts, const size_t rows[2], size_t most,
                              int32_t begin, bo_text_pack **out)
{
    *out = NULL;
    bo_text_pack *packed = bo_alloc(context, 1, sizeof *packed, "a pack");
    if (!packed) return BO_MEMORY;
    packed->most = most;
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

/* ---- filling ---------------------------------------------------------------------------------------------------------- */

/* Where the next sequence of a stream goes. */
typedef struct bo_filling {
    bo_packed_stream *stream;
    size_t row, sequences;
} bo_filling;

/* Rows [row, row + count) become a sequence; its tokens are there already. counting: its positions are 0, 1, …, else 0. */
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

/* y_1 … y_n end is what is to be said after begin y_1 … y_n. */
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

/* The rest of both streams, in as many pieces. */
static void add_rests(bo_filling *stream, bo_filling *source, size_t most)
{
    const size_t rests[2] = {rest_of(stream), rest_of(source)}, room = most - stream->sequences;
    const size_t wanted = (rests[0] > rests[1] ? rests[0] : rests[1]) / REST + 1,
                 pieces = wanted < room ? wanted : room;
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
            need[pair && side == 0] += bo_texts_get(texts, examples[i], side).count;
    if (count <= packed->most && need[0] <= packed->stream.rows && need[1] <= packed->source.rows) return BO_OK;
    return bo_fail(context, BO_INVALID,
                   "a pack for %zu examples in %zu rows (sources: %zu) cannot hold %zu of %zu tokens (sources: %zu)",
                   packed->most, packed->stream.rows, packed->source.rows, count, need[0], need[1]);
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
            add_text(&source, bo_texts_get(texts, example, 0));
            add_target(packed, &stream, bo_texts_get(texts, example, 1));
        } else {
            for (size_t side = 0; side < bo_texts_sides(texts); ++side)
                add_text(&stream, bo_texts_get(texts, example, side));
        }
    }
    for (size_t i = count; i < packed->most; ++i) packed->labels[i] = -1;
    for (size_t i = stream.row; packed->targets && i < packed->stream.rows; ++i) packed->targets[i] = -1;
    packed->examples = count;
    packed->texts = stream.sequences;
    add_rests(&stream, &source, packed->most_sequences);
    packed->sequences = stream.sequences;
    return BO_OK;
}
