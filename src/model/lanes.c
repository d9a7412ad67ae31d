/* Lanes: many sequences decoded at once. The lanes of a translator also read sources. */
#include <assert.h>
#include <string.h>
#include "../attention/attention.h"
#include "internal.h"
#include "lanes.h"

/* ====================================================================================================================
 * Lanes: creation and destruction, one step of many lanes at once, and replacing lanes by others. */

/* ---- sizes ------------------------------------------------------------------------------------------------------- */

/* Returns the number of bits below the three most significant ones. */
static unsigned small_bits(size_t rows)
{
    unsigned bits = 0;
    while (rows >> bits >= 8) bits++;
    return bits;
}

size_t bo_lanes_size_below(size_t rows)
{
    unsigned bits = small_bits(rows);
    return rows >> bits << bits;
}

size_t bo_lanes_size_above(size_t rows)
{
    size_t step = (size_t)1 << small_bits(rows);
    return (rows + step - 1) / step * step;
}

size_t bo_lanes_size_number(size_t size)
{
    unsigned bits = small_bits(size);
    return 4 * bits + (size >> bits) - 1;
}

/* ---- states ------------------------------------------------------------------------------------------------------ */

static size_t cross_place(const bo_lanes *lanes, size_t layer)
{
    return bo_model_place(&lanes->model->desc, BO_MODEL_PART_CROSS) + layer;
}

static size_t lane_state_bytes(const bo_lanes *lanes, size_t layer)
{
    return bo_layer_state_bytes(&lanes->model->desc, layer, lanes->attentions.all[layer]);
}

static size_t source_state_bytes(const bo_lanes *lanes, size_t layer)
{
    return bo_attention_state_bytes(lanes->attentions.all[cross_place(lanes, layer)]);
}

static bo_status place_states(bo_context *context, const bo_lanes *lanes,
                              size_t (*bytes_of)(const bo_lanes *lanes, size_t layer), bo_lane_blocks *out)
{
    size_t layers = lanes->model->desc.layers;
    out->offsets = bo_alloc(context, layers, sizeof *out->offsets, "places of states");
    if (!out->offsets) return BO_MEMORY;
    for (size_t i = 0; i < layers; i++) {
        out->offsets[i] = out->bytes;
        out->bytes += bo_padded_bytes(bytes_of(lanes, i));
    }
    return BO_OK;
}

/* States are in memory of the backend, summaries in that of the host. */
static void release_blocks(const bo_lanes *lanes, bo_lane_blocks *blocks)
{
    if (blocks->offsets)
        bo_layer_states_release(lanes->model, blocks->memory);
    else
        bo_free(blocks->memory);
    blocks->memory = NULL;
    blocks->count = 0;
}

/* Replaces the memory by memory for `count` blocks. */
static bo_status allocate_blocks(bo_context *context, const bo_lanes *lanes, size_t count, bo_lane_blocks *blocks)
{
    static const char what[] = "states of lanes";
    release_blocks(lanes, blocks);
    blocks->memory = blocks->offsets ? bo_layer_states_allocate(context, lanes->model, count, blocks->bytes, what)
                                     : bo_alloc_raw(context, count, blocks->bytes, what);
    if (!blocks->memory) return BO_MEMORY;
    blocks->count = count;
    return BO_OK;
}

/* The memory of a block is filled with zeros. */
static bo_status start_block(bo_context *context, const bo_lanes *lanes, char *block)
{
    for (size_t i = 0; i < lanes->model->desc.layers; i++)
        BO_TRY(bo_layer_state_start(context, lanes->model, lanes->attentions.all[i], block + lanes->lane.offsets[i]));
    return BO_OK;
}

char *bo_lanes_block(bo_context *context, const bo_lanes *lanes)
{
    char *block = bo_layer_states_allocate(context, lanes->model, 1, lanes->lane.bytes, "the state of a lane");
    if (!block || start_block(context, lanes, block) == BO_OK) return block;
    bo_layer_states_release(lanes->model, block);
    return NULL;
}

bo_status bo_lanes_reserve(bo_context *context, bo_lanes *lanes, size_t lane)
{
    if (!lanes->blocks[lane]) lanes->blocks[lane] = bo_lanes_block(context, lanes);
    return lanes->blocks[lane] ? BO_OK : BO_MEMORY;
}

void bo_lanes_release(bo_lanes *lanes, size_t lane)
{
    bo_layer_states_release(lanes->model, lanes->blocks[lane]);
    lanes->blocks[lane] = NULL;
    lanes->tokens[lane] = 0;
}

bo_status bo_lanes_restart(bo_context *context, bo_lanes *lanes, size_t lane)
{
    BO_REQUIRE(context, lanes);
    if (lane >= lanes->desc.count)
        return bo_fail(context, BO_INVALID, "lanes: lane %zu is requested, but there are only %zu", lane,
                       lanes->desc.count);
    lanes->tokens[lane] = 0;
    if (!lanes->blocks[lane]) return BO_OK;
    BO_TRY(bo_layer_states_zero(context, lanes->model, lanes->blocks[lane], lanes->lane.bytes));
    return start_block(context, lanes, lanes->blocks[lane]);
}

bo_status bo_lanes_reset(bo_context *context, bo_lanes *lanes)
{
    BO_REQUIRE(context, lanes);
    for (size_t i = 0; i < lanes->desc.count; i++) BO_TRY(bo_lanes_restart(context, lanes, i));
    lanes->broken = false;
    return BO_OK;
}

bool bo_lanes_broken(const bo_lanes *lanes)
{
    return lanes->broken;
}

size_t bo_lanes_state_bytes(const bo_lanes *lanes)
{
    return lanes ? lanes->lane.bytes + lanes->source.bytes : 0;
}

/* ---- creation and destruction ------------------------------------------------------------------------------------ */

static bo_status check(bo_context *context, const bo_model *model, const bo_lanes_desc *desc)
{
    BO_TRY(bo_check_reserved(context, "bo_lanes_desc", desc->reserved));
    if (model->desc.task != BO_MODEL_TASK_LANGUAGE && model->desc.task != BO_MODEL_TASK_TRANSLATE)
        return bo_fail(context, BO_INVALID, "lanes: a model with the task %s does not generate tokens",
                       bo_model_task_name(model->desc.task));
    if (!desc->count || desc->count > BO_LANES_MOST)
        return bo_fail(context, BO_INVALID, "lanes: count must be 1 to %d, found %zu", BO_LANES_MOST, desc->count);
    if (desc->capacity > INT32_MAX || desc->source > INT32_MAX)
        return bo_fail(context, BO_INVALID,
                       "lanes: positions are limited to %ld; found a capacity of %zu tokens and of %zu source tokens",
                       (long)INT32_MAX, desc->capacity, desc->source);
    return BO_OK;
}

static bo_status allocate(bo_context *context, bo_lanes *lanes)
{
    const bo_model_desc *d = &lanes->model->desc;
    size_t count = lanes->desc.count;
    lanes->blocks = bo_alloc(context, count, sizeof *lanes->blocks, "lanes");
    lanes->next = bo_alloc(context, count, sizeof *lanes->next, "lanes");
    lanes->tokens = bo_alloc(context, count, sizeof *lanes->tokens, "lanes");
    lanes->sources = bo_alloc(context, count, sizeof *lanes->sources, "lanes");
    lanes->scratch = bo_alloc(context, count, sizeof *lanes->scratch, "lanes");
    lanes->taken = bo_alloc(context, count, sizeof *lanes->taken, "lanes");
    lanes->table = bo_alloc(context, count, bo_model_place(d, BO_MODEL_PART_ENCODER) * sizeof *lanes->table, "lanes");
    if (!lanes->blocks || !lanes->next || !lanes->tokens || !lanes->sources || !lanes->scratch || !lanes->taken ||
        !lanes->table)
        return BO_MEMORY;
    return BO_OK;
}

/* Creates attentions and computes the offsets of the states, without memory for states. */
static bo_status plan(bo_context *context, const bo_model *model, const bo_lanes_desc *desc, bo_lanes *lanes)
{
    const bo_model_desc *d = &model->desc;
    lanes->model = model;
    lanes->desc = *desc;
    if (!desc->capacity) lanes->desc.capacity = bo_model_positions(d);
    if (!desc->source) lanes->desc.source = bo_model_positions(d);
    BO_TRY(bo_sized_attentions_create(context, model, lanes->desc.capacity, lanes->desc.source, &lanes->attentions));
    BO_TRY(place_states(context, lanes, lane_state_bytes, &lanes->lane));
    if (d->task != BO_MODEL_TASK_TRANSLATE) return BO_OK;
    if (d->cross == BO_CROSS_ATTENTION) return place_states(context, lanes, source_state_bytes, &lanes->source);
    lanes->source.bytes = d->width * sizeof *lanes->summaries;
    return BO_OK;
}

static bo_status build(bo_context *context, const bo_model *model, const bo_lanes_desc *desc, bo_lanes *lanes)
{
    BO_TRY(plan(context, model, desc, lanes));
    if (lanes->source.bytes && !lanes->source.offsets) {
        lanes->summaries = bo_alloc(context, desc->count, lanes->source.bytes, "summaries of sources");
        if (!lanes->summaries) return BO_MEMORY;
    }
    BO_TRY(allocate(context, lanes));
    return bo_lanes_reset(context, lanes);
}

bo_status bo_lanes_measure(bo_context *context, const bo_model *model, size_t beam, size_t *bytes)
{
    bo_lanes *lanes = bo_alloc(context, 1, sizeof *lanes, "lanes");
    if (!lanes) return BO_MEMORY;
    const bo_status status = plan(context, model, &(bo_lanes_desc){.count = beam}, lanes);
    *bytes = lanes->lane.bytes + lanes->source.bytes / beam;
    bo_lanes_destroy(lanes);
    return status;
}

bo_status bo_lanes_create(bo_context *context, const bo_model *model, const bo_lanes_desc *desc, bo_lanes **out)
{
    if (out) *out = NULL;
    BO_REQUIRE(context, model, desc, out);
    BO_TRY(check(context, model, desc));
    bo_lanes *lanes = bo_alloc(context, 1, sizeof *lanes, "lanes");
    if (!lanes) return BO_MEMORY;
    bo_status status = build(context, model, desc, lanes);
    if (status != BO_OK) {
        bo_lanes_destroy(lanes);
        return status;
    }
    *out = lanes;
    return BO_OK;
}

void bo_lanes_destroy(bo_lanes *lanes)
{
    if (!lanes) return;
    for (size_t i = 0; i < BO_LANES_SIZES; i++) {
        bo_model_graph_destroy(&lanes->steps[i]);
        bo_model_graph_destroy(&lanes->reads[i]);
    }
    bo_session_destroy(lanes->reader);
    bo_sized_attentions_destroy(&lanes->attentions, lanes->model);
    for (size_t i = 0; lanes->blocks && i < lanes->desc.count; i++)
        bo_layer_states_release(lanes->model, lanes->blocks[i]);
    release_blocks(lanes, &lanes->source);
    void *const blocks[] = {lanes->lane.offsets, lanes->source.offsets, lanes->blocks,       lanes->next,
                            lanes->tokens,       lanes->sources,        lanes->scratch,      lanes->taken,
                            lanes->summaries,    lanes->table,          lanes->reader_states};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) bo_free(blocks[i]);
    bo_free(lanes);
}

/* A graph of one step of this many lanes. */
static bo_model_graph_desc step_desc(size_t size)
{
    return (bo_model_graph_desc){
        .rows = size, .tokens = 1, .most_sequences = size, .logits = true, .chosen = size, .half = BO_HALF_TARGET};
}

static bo_status measure_steps(bo_context *context, const bo_lanes *lanes, size_t *bytes)
{
    for (size_t size = 1; size <= lanes->desc.count; size = bo_lanes_size_above(size + 1)) {
        bo_model_graph graph;
        bo_model_graph_desc desc = step_desc(size);
        desc.attentions = lanes->attentions.all;
        BO_TRY(bo_model_graph_create(context, lanes->model, &desc, &graph));
        *bytes += bo_graph_bytes(graph.graph);
        bo_model_graph_destroy(&graph);
    }
    return BO_OK;
}

bo_status bo_lanes_workspace(bo_context *context, const bo_model *model, const bo_lanes_desc *desc, size_t *bytes)
{
    *bytes = 0;
    BO_TRY(check(context, model, desc));
    bo_lanes *lanes = bo_alloc(context, 1, sizeof *lanes, "lanes");
    if (!lanes) return BO_MEMORY;
    bo_status status = plan(context, model, desc, lanes);
    if (status == BO_OK) status = measure_steps(context, lanes, bytes);
    bo_lanes_destroy(lanes);
    return status;
}

/* Returns the graph of this descriptor, and creates and allocates it if necessary. */
static bo_status make_graph(bo_context *context, const bo_lanes *lanes, bo_model_graph_desc *desc,
                            bo_model_graph *graph)
{
    if (graph->graph) return BO_OK;
    desc->attentions = lanes->attentions.all;
    BO_TRY(bo_model_graph_create(context, lanes->model, desc, graph));
    bo_status status = bo_graph_allocate(context, graph->graph);
    if (status != BO_OK) bo_model_graph_destroy(graph);
    return status;
}

/* ---- one step ---------------------------------------------------------------------------------------------------- */

static bo_status check_lane(bo_context *context, const bo_lanes *lanes, size_t lane, int32_t id)
{
    const bo_model_desc *d = &lanes->model->desc;
    size_t taken = (size_t)lanes->tokens[lane], most = bo_model_most_tokens(d);
    if (id < 0 || (size_t)id >= d->vocab)
        return bo_fail(context, BO_INVALID, "lanes: token of lane %zu should be an id below %zu, found %ld", lane,
                       d->vocab, (long)id);
    const bo_attention *keeper = bo_model_keeper(lanes->model);
    if (keeper && taken >= lanes->desc.capacity)
        return bo_fail(context, BO_INVALID,
                       "lanes: attention %s keeps all keys, and lane %zu has reached its capacity of %zu tokens",
                       bo_attention_kind_name(bo_attention_describe(keeper)->kind), lane, lanes->desc.capacity);
    if ((most && taken >= most) || taken == INT32_MAX)
        return bo_fail(context, BO_INVALID, "lanes: the model has %zu positions, and lane %zu has used all of them",
                       taken, lane);
    return BO_OK;
}

static bo_status check_step(bo_context *context, const bo_lanes *lanes, size_t active, const int32_t *ids)
{
    if (active > lanes->desc.count)
        return bo_fail(context, BO_INVALID, "lanes: %zu lanes are requested, but there are only %zu", active,
                       lanes->desc.count);
    if (lanes->broken)
        return bo_fail(context, BO_INVALID, "lanes: an earlier call failed; call bo_lanes_reset to start again");
    if (lanes->source.bytes && !lanes->has_sources)
        return bo_fail(context, BO_INVALID, "lanes: no source has been read yet; call bo_lanes_read first");
    for (size_t i = 0; i < active; i++) BO_TRY(check_lane(context, lanes, i, ids[i]));
    return BO_OK;
}

static char *source_block(const bo_lanes *lanes, size_t lane)
{
    return lanes->source.memory + (size_t)lanes->sources[lane] * lanes->source.bytes;
}

static void fill_table(bo_lanes *lanes, size_t first, size_t size)
{
    size_t layers = lanes->model->desc.layers;
    for (size_t i = 0; i < layers; i++)
        for (size_t s = 0; s < size; s++) {
            lanes->table[i * size + s] = lanes->blocks[first + s] + lanes->lane.offsets[i];
            if (lanes->source.offsets)
                lanes->table[(layers + i) * size + s] = source_block(lanes, first + s) + lanes->source.offsets[i];
        }
}

/* A step. It writes the logits, or the most likely tokens, or neither. */
typedef struct step_request {
    size_t active;
    const int32_t *ids;
    float *logits;
    int32_t *next;
    bool isolate; /* as in bo_graph_pass */
} step_request;

/* What may fail for lack of memory comes before the first run changes a state. */
static bo_status make_step_graph(bo_context *context, bo_lanes *lanes, size_t size)
{
    bo_model_graph_desc desc = step_desc(size);
    return make_graph(context, lanes, &desc, &lanes->steps[bo_lanes_size_number(size)]);
}

static bo_status run(bo_context *context, bo_lanes *lanes, size_t first, size_t size, const step_request *r)
{
    bo_model_graph *g = &lanes->steps[bo_lanes_size_number(size)];
    fill_table(lanes, first, size);
    BO_TRY(bo_graph_write(context, g->graph, g->tokens, r->ids + first));
    if (g->positions) BO_TRY(bo_graph_write(context, g->graph, g->positions, lanes->tokens + first));
    for (size_t s = 0; g->summary && s < size; s++)
        memcpy(lanes->summaries + s * lanes->model->desc.width, source_block(lanes, first + s), lanes->source.bytes);
    if (g->summary) BO_TRY(bo_graph_write(context, g->graph, g->summary, lanes->summaries));
    BO_TRY(bo_graph_run(context, g->graph, &(bo_graph_pass){.states = lanes->table, .isolate = r->isolate}));
    for (size_t s = 0; s < size; s++) lanes->tokens[first + s]++;
    if (r->next) return bo_graph_read_largest(context, g->graph, g->logits, r->next + first);
    return r->logits ? bo_graph_read(context, g->graph, g->logits, r->logits + first * lanes->model->desc.vocab)
                     : BO_OK;
}

static bo_status step(bo_context *context, bo_lanes *lanes, const step_request *r)
{
    BO_TRY(check_step(context, lanes, r->active, r->ids));
    for (size_t i = 0; i < r->active; i++) BO_TRY(bo_lanes_reserve(context, lanes, i));
    for (size_t first = 0, size; first < r->active; first += size) {
        size = bo_lanes_size_below(r->active - first);
        BO_TRY(make_step_graph(context, lanes, size));
    }
    lanes->broken = true;
    for (size_t first = 0, size; first < r->active; first += size) {
        size = bo_lanes_size_below(r->active - first);
        BO_TRY(run(context, lanes, first, size, r));
    }
    lanes->broken = false;
    return BO_OK;
}

bo_status bo_lanes_step(bo_context *context, bo_lanes *lanes, size_t active, const int32_t *ids, float *logits)
{
    BO_REQUIRE(context, lanes);
    BO_REQUIRE_IF(context, active > 0, ids);
    return step(context, lanes, &(step_request){active, ids, .logits = logits});
}

bo_status bo_lanes_step_isolated(bo_context *context, bo_lanes *lanes, size_t active, const int32_t *ids, float *logits)
{
    return step(context, lanes, &(step_request){active, ids, .logits = logits, .isolate = true});
}

bo_status bo_lanes_step_greedy(bo_context *context, bo_lanes *lanes, size_t active, const int32_t *ids, int32_t *next)
{
    BO_REQUIRE(context, lanes);
    BO_REQUIRE_IF(context, active > 0, ids, next);
    return step(context, lanes, &(step_request){active, ids, .next = next});
}

/* ---- replacing lanes --------------------------------------------------------------------------------------------- */

static void choose_numbers(bo_lanes *lanes, int32_t *numbers, size_t active, const size_t *from)
{
    for (size_t i = 0; i < active; i++) lanes->scratch[i] = numbers[from[i]];
    memcpy(numbers, lanes->scratch, active * sizeof *numbers);
}

static bo_status copy_block(bo_context *context, bo_lanes *lanes, const char *from, size_t to)
{
    if (!from) return bo_lanes_release(lanes, to), BO_OK;
    BO_TRY(bo_lanes_reserve(context, lanes, to));
    return bo_buffer_copy(context, bo_weights_device(lanes->model->weights), lanes->blocks[to], from,
                          lanes->lane.bytes);
}

/* The first lane that continues an old lane takes its block. Further ones copy it into unused blocks. The remaining
 * blocks go to the inactive lanes. */
static bo_status choose_blocks(bo_context *context, bo_lanes *lanes, size_t active, const size_t *from)
{
    bo_status status = BO_OK;
    size_t count = lanes->desc.count, vacant = 0;
    int32_t *source = lanes->scratch; /* the new lane whose block is copied; -1: none */
    memset(lanes->taken, 0, count * sizeof *lanes->taken);
    for (size_t i = 0; i < active; i++) {
        source[i] = -1;
        for (size_t k = 0; lanes->taken[from[i]] && source[i] < 0; k++)
            if (from[k] == from[i]) source[i] = (int32_t)k;
        if (source[i] < 0) lanes->next[i] = lanes->blocks[from[i]];
        lanes->taken[from[i]] = true;
    }
    for (size_t i = 0; i < count; i++) {
        if (i < active && source[i] < 0) continue;
        while (lanes->taken[vacant]) vacant++;
        lanes->next[i] = lanes->blocks[vacant++];
    }
    memcpy(lanes->blocks, lanes->next, count * sizeof *lanes->blocks);
    for (size_t i = 0; status == BO_OK && i < active; i++)
        if (source[i] >= 0) status = copy_block(context, lanes, lanes->blocks[source[i]], i);
    return status;
}

bo_status bo_lanes_choose(bo_context *context, bo_lanes *lanes, size_t active, const size_t *from)
{
    BO_REQUIRE(context, lanes);
    BO_REQUIRE_IF(context, active > 0, from);
    if (active > lanes->desc.count)
        return bo_fail(context, BO_INVALID, "lanes: %zu lanes are requested, but there are only %zu", active,
                       lanes->desc.count);
    for (size_t i = 0; i < active; i++)
        if (from[i] >= lanes->desc.count)
            return bo_fail(context, BO_INVALID, "lanes: lane %zu is to continue lane %zu, but there are only %zu lanes",
                           i, from[i], lanes->desc.count);
    choose_numbers(lanes, lanes->tokens, active, from);
    choose_numbers(lanes, lanes->sources, active, from);
    return choose_blocks(context, lanes, active, from);
}

/* ====================================================================================================================
 * Reading sources into states. Sources are packed one after the other, as many at a time as fit into a few hundred
 * rows, and pass through the encoder into the states of the decoder's cross attention. The remaining rows of a graph
 * are filler, which is read into separate states. */

enum { ROWS = 512, LEAST_ROWS = 16 }; /* rows per graph; a longer source has a graph of its size */

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
static size_t most_pieces(const bo_lanes *lanes, size_t rows)
{
    return pieces(lanes, rows / 4 + LEAST_ROWS);
}

/* Returns the maximum number of query rows of a graph: each source has at least one row. */
static size_t most_queries(const bo_lanes *lanes, size_t rows)
{
    size_t sources = rows < lanes->desc.count ? rows : lanes->desc.count;
    return sources + most_pieces(lanes, rows);
}

static size_t most_rows(const bo_lanes *lanes)
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

static void take_sources(reading *r, size_t count)
{
    size_t most = most_rows(r->lanes), tokens = 0;
    for (r->count = 0; r->first + r->count < count; r->count++) {
        size_t next = r->sources[r->first + r->count].count;
        if (tokens + next > most) break;
        tokens += next;
    }
    r->rows = bo_lanes_size_above(tokens > LEAST_ROWS ? tokens : LEAST_ROWS);
    r->queries = most_queries(r->lanes, r->rows);
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
    size_t spare = blocks->count - most_pieces(r->lanes, most_rows(r->lanes));
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
    bo_lanes *lanes = r->lanes;
    bo_model_graph *g = &lanes->reads[bo_lanes_size_number(r->rows)];
    bo_model_graph_desc desc = {
        .rows = r->queries, .source_rows = r->rows, .most_sequences = r->queries, .half = BO_HALF_SOURCE};
    bo_graph_pass pass = {
        .sequences = r->sequences, .lengths = r->lengths[0], .source_lengths = r->lengths[1], .states = r->table};
    BO_TRY(make_graph(context, lanes, &desc, g));
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
    size_t rows = most_rows(lanes), queries = most_queries(lanes, rows), blocks = count + most_pieces(lanes, rows);
    size_t columns = d->heads * d->head_dim > d->width ? d->heads * d->head_dim : d->width;
    for (size_t i = 0; i < 2; i++) {
        r->lengths[i] = bo_alloc(context, queries, sizeof *r->lengths[i], "lengths of sources");
        if (!r->lengths[i]) return BO_MEMORY;
    }
    r->indices = bo_alloc(context, rows > queries ? rows : queries, sizeof *r->indices, "tokens of sources");
    r->table =
        bo_alloc(context, queries, bo_model_place(d, BO_MODEL_PART_ENCODER) * sizeof *r->table, "states of sources");
    r->zeros = bo_alloc(context, queries, columns * sizeof *r->zeros, "queries of sources");
    if (!r->indices || !r->table || !r->zeros) return BO_MEMORY;
    return blocks > lanes->source.count ? allocate_blocks(context, lanes, blocks, &lanes->source) : BO_OK;
}

static bo_status read_all(bo_context *context, reading *r, size_t count)
{
    BO_TRY(prepare(context, r->lanes, count, r));
    for (r->first = 0; r->first < count; r->first += r->count) {
        take_sources(r, count);
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
        lanes->sources[i] = (int32_t)(i / n < count ? i / n : count - 1);
    lanes->has_sources = true;
    return bo_lanes_reset(context, lanes);
}
