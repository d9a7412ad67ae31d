/* Reads sources into the states that the lanes of a translator attend to. Sources are packed into graphs of up to a few
 * hundred rows and pass through the encoder into the states of the decoder's cross attention. The remaining rows of a
 * graph are filler, which is read into separate states. */
#include "../text/packs.h"
#include <assert.h>
#include <string.h>
#include "enums.h"
#include "../attention/attention.h"
#include "internal.h"
#include "lanes.h"

enum { ROWS = 512, MIN_ROWS = 16 }; /* rows per graph; a longer source has a graph of its size */

/* One run, over sources first … first + count - 1. Invariants: the lengths of each stream (the sources, then the
 * filler) sum to the graph's rows. */
typedef struct reading {
    bo_lanes *lanes;
    const bo_text_view *sources;
    size_t first, count;
    size_t rows, queries; /* rows of the two streams of the graph */
    size_t sequences;     /* count plus the number of filler sequences */
    size_t *lengths[2];   /* of queries, of sources */
    int32_t *indices;
    void **table;
    float *zeros; /* input of the queries; also space for summaries */
} reading;

/* Returns the number of filler sequences. Filler is split into sequences that are no longer than a source can be. */
static size_t pieces(const bo_lanes *lanes, size_t filler)
{
    size_t found = (filler + lanes->desc.source - 1) / lanes->desc.source;
    return found ? found : 1;
}

/* Consecutive graph sizes differ by at most a quarter. */
static size_t max_pieces(const bo_lanes *lanes, size_t rows)
{
    return pieces(lanes, rows / 4 + MIN_ROWS);
}

/* Returns the maximum number of query rows of a graph: each source has at least one row. */
static size_t max_queries(const bo_lanes *lanes, size_t rows)
{
    size_t sources = rows < lanes->desc.count ? rows : lanes->desc.count;
    return sources + max_pieces(lanes, rows);
}

static size_t max_rows(const bo_lanes *lanes)
{
    return bo_lanes_size_above(lanes->desc.source > ROWS ? lanes->desc.source : ROWS);
}

/* ---- selection of sources and graph size ------------------------------------------------------------------------- */

static size_t sum(const size_t *lengths, size_t count)
{
    size_t all = 0;
    for (size_t i = 0; i < count; i++) all += lengths[i];
    return all;
}

static void choose_sources(reading *r, size_t count)
{
    size_t limit = max_rows(r->lanes), tokens = 0;
    for (r->count = 0; r->first + r->count < count; r->count++) {
        size_t next = r->sources[r->first + r->count].count;
        if (tokens + next > limit) break;
        tokens += next;
    }
    r->rows = bo_lanes_size_above(tokens > MIN_ROWS ? tokens : MIN_ROWS);
    r->queries = max_queries(r->lanes, r->rows);
    r->sequences = r->count;
    for (size_t i = 0; i < r->count; i++) r->lengths[0][i] = 1, r->lengths[1][i] = r->sources[r->first + i].count;
    size_t filler = r->rows - tokens, queries = r->queries - r->count;
    for (size_t left = pieces(r->lanes, filler); left; left--, r->sequences++) {
        size_t longest = r->lanes->desc.source;
        r->lengths[0][r->sequences] = left > 1 ? 1 : queries;
        r->lengths[1][r->sequences] = filler < longest ? filler : longest;
        queries -= r->lengths[0][r->sequences];
        filler -= r->lengths[1][r->sequences];
    }
    assert(sum(r->lengths[0], r->sequences) == r->queries && sum(r->lengths[1], r->sequences) == r->rows);
}

/* ---- inputs of the graph ----------------------------------------------------------------------------------------- */

/* Writes of(row) for every row of the sources; 0 for filler. */
static bo_status write_rows(bo_context *context, const reading *r, const bo_model_graph *g, bo_value value,
                            int32_t (*of)(const bo_text_view *source, size_t begin, size_t place))
{
    size_t at = 0;
    if (!value) return BO_OK;
    memset(r->indices, 0, r->rows * sizeof *r->indices);
    for (size_t s = 0; s < r->count; s++) {
        const bo_text_view *source = &r->sources[r->first + s];
        for (size_t i = 0; i < source->count; i++) r->indices[at + i] = of(source, at, i);
        at += source->count;
    }
    return bo_graph_write(context, g->graph, value, r->indices);
}

static int32_t token_of(const bo_text_view *source, size_t begin, size_t place)
{
    (void)begin;
    return source->ids[place];
}

static int32_t position_of(const bo_text_view *source, size_t begin, size_t place)
{
    (void)source, (void)begin;
    return (int32_t)place;
}

static int32_t reversed(const bo_text_view *source, size_t begin, size_t place)
{
    return (int32_t)(begin + source->count - 1 - place);
}

/* Writes the last row of each source. */
static bo_status write_ends(bo_context *context, const reading *r, const bo_model_graph *g)
{
    int32_t end = -1;
    memset(r->indices, 0, r->queries * sizeof *r->indices);
    for (size_t s = 0; s < r->count; s++) r->indices[s] = end += (int32_t)r->lengths[1][s];
    return bo_graph_write(context, g->graph, g->sources, r->indices);
}

static char *block_of(const reading *r, size_t sequence)
{
    const bo_lane_blocks *blocks = &r->lanes->source;
    size_t spare = blocks->count - max_pieces(r->lanes, max_rows(r->lanes));
    size_t number = sequence < r->count ? r->first + sequence : spare + sequence - r->count;
    return blocks->memory + number * blocks->bytes;
}

static bo_status begin_states(bo_context *context, const reading *r)
{
    const bo_lanes *lanes = r->lanes;
    size_t layers = lanes->model->desc.layers, cross = bo_model_place(&lanes->model->desc, BO_MODEL_PART_CROSS);
    for (size_t i = 0; lanes->source.offsets && i < layers; i++)
        for (size_t s = 0; s < r->sequences; s++) {
            char *state = block_of(r, s) + lanes->source.offsets[i];
            r->table[(cross + i) * r->sequences + s] = state;
            BO_TRY(bo_attention_state_begin(context, lanes->model, lanes->attentions.all[cross + i], state));
        }
    return BO_OK;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static bo_status fill(bo_context *context, const reading *r, const bo_model_graph *g)
{
    BO_TRY(write_rows(context, r, g, g->source_tokens, token_of));
    BO_TRY(write_rows(context, r, g, g->source_positions, position_of));
    BO_TRY(write_rows(context, r, g, g->source_reversal, reversed));
    if (g->queries) BO_TRY(bo_graph_write(context, g->graph, g->queries, r->zeros));
    return g->sources ? write_ends(context, r, g) : BO_OK;
}

/* Summaries are read through `zeros`, since there are no queries in this case. */
static bo_status keep_summaries(bo_context *context, const reading *r, const bo_model_graph *g)
{
    size_t width = r->lanes->model->desc.width;
    BO_TRY(bo_graph_read(context, g->graph, g->summary, r->zeros));
    for (size_t s = 0; s < r->count; s++) memcpy(block_of(r, s), r->zeros + s * width, width * sizeof *r->zeros);
    return BO_OK;
}

static bo_status read_some(bo_context *context, const reading *r)
{
    bo_model_graph *g;
    const bo_graph_pass pass = {
        .sequences = r->sequences, .lengths = r->lengths[0], .source_lengths = r->lengths[1], .states = r->table};
    BO_TRY(bo_lanes_graph_for(context, r->lanes, BO_LANES_SOURCES, r->queries, r->rows, &g));
    BO_TRY(begin_states(context, r));
    BO_TRY(fill(context, r, g));
    BO_TRY(bo_graph_run(context, g->graph, &pass));
    return g->summary ? keep_summaries(context, r, g) : BO_OK;
}

static bo_status check_sources(bo_context *context, const bo_lanes *lanes, const bo_text_view *sources, size_t count)
{
    const bo_model_desc *d = &lanes->model->desc;
    if (d->task != BO_MODEL_TASK_TRANSLATE)
        return bo_fail(context, BO_INVALID, "lanes: a model with the task %s has no sources",
                       bo_model_task_name(d->task));
    if (!sources || !count || count > lanes->desc.count)
        return bo_fail(context, BO_INVALID, "lanes: expected 1 to %zu sources, found %zu", lanes->desc.count,
                       sources ? count : 0);
    for (size_t s = 0; s < count; s++) {
        if (!sources[s].count || sources[s].count > lanes->desc.source)
            return bo_fail(context, BO_INVALID, "lanes: source %zu should have 1 to %zu tokens, found %zu", s,
                           lanes->desc.source, sources[s].count);
        for (size_t i = 0; i < sources[s].count; i++)
            if (sources[s].ids[i] < 0 || (size_t)sources[s].ids[i] >= d->vocab)
                return bo_fail(context, BO_INVALID,
                               "lanes: token %zu of source %zu should be an id below %zu, found %ld", i, s, d->vocab,
                               (long)sources[s].ids[i]);
    }
    return BO_OK;
}

/* Allocates memory for the largest graph. */
static bo_status prepare(bo_context *context, bo_lanes *lanes, size_t count, reading *r)
{
    const bo_model_desc *d = &lanes->model->desc;
    size_t rows = max_rows(lanes), queries = max_queries(lanes, rows), blocks = count + max_pieces(lanes, rows);
    size_t columns = d->block.heads * d->block.head_dim > d->width ? d->block.heads * d->block.head_dim : d->width;
    for (size_t i = 0; i < 2; i++) {
        r->lengths[i] = bo_alloc(context, queries, sizeof *r->lengths[i], "lengths of sources");
        if (!r->lengths[i]) return BO_MEMORY;
    }
    r->indices = bo_alloc(context, rows > queries ? rows : queries, sizeof *r->indices, "tokens of sources");
    r->table =
        bo_alloc(context, queries, bo_model_place(d, BO_MODEL_PART_ENCODER) * sizeof *r->table, "states of sources");
    r->zeros = bo_alloc(context, queries, columns * sizeof *r->zeros, "queries of sources");
    if (!r->indices || !r->table || !r->zeros) return BO_MEMORY;
    return blocks > lanes->source.count ? bo_lanes_allocate(context, lanes, blocks, &lanes->source) : BO_OK;
}

static bo_status read_all(bo_context *context, reading *r, size_t count)
{
    BO_TRY(prepare(context, r->lanes, count, r));
    for (r->first = 0; r->first < count; r->first += r->count) {
        choose_sources(r, count);
        BO_TRY(read_some(context, r));
    }
    return BO_OK;
}

bo_status bo_lanes_read(bo_context *context, bo_lanes *lanes, const bo_text_view *sources, size_t count)
{
    BO_REQUIRE(context, lanes);
    BO_REQUIRE_IF(context, count > 0, sources);
    BO_TRY(check_sources(context, lanes, sources, count));
    reading r = {.lanes = lanes, .sources = sources};
    lanes->has_sources = false;
    bo_status status = read_all(context, &r, count);
    void *const blocks[] = {r.lengths[0], r.lengths[1], r.indices, r.table, r.zeros};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) bo_free(blocks[i]);
    if (status != BO_OK) return status;
    for (size_t i = 0, n = lanes->desc.count / count; i < lanes->desc.count; i++)
        lanes->all[i].source = i / n < count ? i / n : count - 1;
    lanes->has_sources = true;
    return bo_lanes_reset(context, lanes);
}
