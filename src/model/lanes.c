/* Lanes: sequences of one model with states. Memory, graphs, and copies between lanes. */
#include <string.h>
#include "enums.h"
#include "../attention/attention.h"
#include "internal.h"
#include "lanes.h"

/* ---- sizes ------------------------------------------------------------------------------------------------------- */

/* Returns the number of bits below the most significant ones, of which there are `significant`. */
static unsigned small_bits(size_t rows, unsigned significant)
{
    unsigned bits = 0;
    while (rows >> bits >> significant) bits++;
    return bits;
}

size_t bo_lanes_size_below(size_t rows)
{
    const unsigned bits = small_bits(rows, 3);
    return rows >> bits << bits;
}

size_t bo_lanes_size_above(size_t rows)
{
    const size_t step = (size_t)1 << small_bits(rows, 3);
    return (rows + step - 1) / step * step;
}

size_t bo_lanes_block_below(const bo_lanes *lanes, size_t tokens)
{
    const unsigned bits = small_bits(tokens, 2);
    return tokens < lanes->chunk ? tokens >> bits << bits : lanes->chunk;
}

/* ---- states ------------------------------------------------------------------------------------------------------ */

bo_device *bo_lanes_device(const bo_lanes *lanes)
{
    return bo_weights_device(lanes->model->weights);
}

size_t bo_lanes_layer_bytes(const bo_lanes *lanes, size_t layer)
{
    return bo_layer_state_bytes(&lanes->model->desc, layer, lanes->attentions.all[layer]);
}

static size_t source_state_bytes(const bo_lanes *lanes, size_t layer)
{
    const size_t place = bo_model_place(&lanes->model->desc, BO_MODEL_PART_CROSS) + layer;
    return bo_attention_state_bytes(lanes->attentions.all[place]);
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

/* States are in backend memory, summaries in host memory. */
static void release_blocks(const bo_lanes *lanes, bo_lane_blocks *blocks)
{
    if (blocks->offsets)
        bo_layer_states_release(lanes->model, blocks->memory);
    else
        bo_free(blocks->memory);
    blocks->memory = NULL;
    blocks->count = 0;
}

bo_status bo_lanes_allocate(bo_context *context, const bo_lanes *lanes, size_t count, bo_lane_blocks *blocks)
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

bo_status bo_lanes_reserve(bo_context *context, bo_lanes *lanes, size_t lane)
{
    const char *what = lanes->is_session ? "a session's state" : "the state of a lane";
    bo_lane *target = &lanes->all[lane];
    if (target->block) return BO_OK;
    target->block = bo_layer_states_allocate(context, lanes->model, 1, lanes->lane.bytes, what);
    if (!target->block) return BO_MEMORY;
    const bo_status status = start_block(context, lanes, target->block);
    if (status != BO_OK) bo_lanes_release(lanes, lane);
    return status;
}

void bo_lanes_release(bo_lanes *lanes, size_t lane)
{
    bo_layer_states_release(lanes->model, lanes->all[lane].block);
    lanes->all[lane].block = NULL;
    lanes->all[lane].tokens = 0;
}

bo_status bo_lanes_restart(bo_context *context, bo_lanes *lanes, size_t lane)
{
    BO_REQUIRE(context, lanes);
    if (lane >= lanes->desc.count)
        return bo_fail(context, BO_INVALID, "lanes: lane %zu is requested, but there are only %zu", lane,
                       lanes->desc.count);
    lanes->all[lane].tokens = 0;
    if (!lanes->all[lane].block) return BO_OK;
    BO_TRY(bo_layer_states_zero(context, lanes->model, lanes->all[lane].block, lanes->lane.bytes));
    return start_block(context, lanes, lanes->all[lane].block);
}

bo_status bo_lanes_reset(bo_context *context, bo_lanes *lanes)
{
    BO_REQUIRE(context, lanes);
    for (size_t i = 0; i < lanes->desc.count; i++) BO_TRY(bo_lanes_restart(context, lanes, i));
    lanes->broken = false;
    return BO_OK;
}

static bo_status repeat_states(bo_context *context, const bo_lanes *lanes, uint64_t tokens, char *block)
{
    for (size_t i = 0; i < lanes->model->desc.layers; i++)
        if (lanes->attentions.all[i])
            BO_TRY(
                bo_attention_state_repeat(context, lanes->attentions.all[i], block + lanes->lane.offsets[i], tokens));
    return BO_OK;
}

bo_status bo_lanes_repeat(bo_context *context, bo_lanes *lanes, size_t lane, uint64_t tokens)
{
    bo_lane *target = &lanes->all[lane];
    char *host;
    BO_TRY(bo_lanes_reserve(context, lanes, lane));
    BO_TRY(bo_lanes_host(context, lanes, lane, &host));
    lanes->broken = true; /* until all layers have changed */
    bo_status status = repeat_states(context, lanes, tokens, host);
    if (status == BO_OK && host != target->block)
        status = bo_buffer_write(context, bo_lanes_device(lanes), target->block, host, lanes->lane.bytes);
    bo_lanes_host_free(lanes, host);
    BO_TRY(status);
    target->tokens = tokens;
    lanes->broken = false;
    return BO_OK;
}

size_t bo_lanes_state_bytes(const bo_lanes *lanes)
{
    return lanes ? lanes->lane.bytes + lanes->source.bytes : 0;
}

uint64_t bo_lanes_tokens(const bo_lanes *lanes, size_t lane)
{
    return lanes && lane < lanes->desc.count ? lanes->all[lane].tokens : 0;
}

/* ---- creation and destruction ------------------------------------------------------------------------------------ */

static bo_status check(bo_context *context, const bo_model *model, const bo_lanes_desc *desc)
{
    BO_TRY(bo_check_reserved(context, "bo_lanes_desc", desc->reserved));
    if (model->desc.task != BO_MODEL_TASK_LANGUAGE && model->desc.task != BO_MODEL_TASK_TRANSLATE)
        return bo_fail(context, BO_INVALID, "lanes: a model with the task %s does not generate tokens",
                       bo_model_task_name(model->desc.task));
    if (!desc->count || desc->count > BO_MAX_LANES)
        return bo_fail(context, BO_INVALID, "lanes: count must be 1 to %d, found %zu", BO_MAX_LANES, desc->count);
    if (desc->capacity > INT32_MAX || desc->source > INT32_MAX)
        return bo_fail(context, BO_INVALID,
                       "lanes: positions are limited to %ld; found a capacity of %zu tokens and of %zu source tokens",
                       (long)INT32_MAX, desc->capacity, desc->source);
    return BO_OK;
}

/* Creates attentions and computes the offsets of the states, without memory for states. */
static bo_status plan(bo_context *context, const bo_model *model, const bo_lanes_desc *desc, size_t chunk,
                      bo_lanes *lanes)
{
    const bo_model_desc *d = &model->desc;
    lanes->model = model;
    lanes->desc = *desc;
    lanes->chunk = chunk ? chunk : BO_LANES_CHUNK;
    if (!desc->capacity) lanes->desc.capacity = bo_model_positions(d);
    if (!desc->source) lanes->desc.source = bo_model_positions(d);
    BO_TRY(bo_sized_attentions_create(context, model, lanes->desc.capacity, lanes->desc.source, &lanes->attentions));
    BO_TRY(place_states(context, lanes, bo_lanes_layer_bytes, &lanes->lane));
    if (d->task != BO_MODEL_TASK_TRANSLATE) return BO_OK;
    if (d->cross == BO_CROSS_ATTENTION) return place_states(context, lanes, source_state_bytes, &lanes->source);
    lanes->source.bytes = d->width * sizeof *lanes->summaries;
    return BO_OK;
}

static bo_status build(bo_context *context, bo_lanes *lanes)
{
    const size_t count = lanes->desc.count, places = bo_model_place(&lanes->model->desc, BO_MODEL_PART_ENCODER);
    const bool summaries = lanes->source.bytes && !lanes->source.offsets;
    lanes->all = bo_alloc(context, count, sizeof *lanes->all, "lanes");
    lanes->next = bo_alloc(context, count, sizeof *lanes->next, "lanes");
    lanes->used = bo_alloc(context, count, sizeof *lanes->used, "lanes");
    lanes->scratch = bo_alloc(context, bo_max(count, lanes->chunk), sizeof *lanes->scratch, "positions");
    lanes->table = bo_alloc(context, count, places * sizeof *lanes->table, "lanes");
    if (summaries) lanes->summaries = bo_alloc(context, count, lanes->source.bytes, "summaries of sources");
    const bool whole = lanes->all && lanes->next && lanes->used && lanes->scratch && lanes->table;
    return whole && (lanes->summaries || !summaries) ? BO_OK : BO_MEMORY;
}

bo_status bo_lanes_build(bo_context *context, const bo_model *model, const bo_lanes_desc *desc, size_t chunk,
                         bool is_session, bo_lanes **out)
{
    bo_lanes *lanes = bo_alloc(context, 1, sizeof *lanes, is_session ? "a session" : "lanes");
    if (!lanes) return BO_MEMORY;
    lanes->is_session = is_session;
    bo_status status = plan(context, model, desc, chunk, lanes);
    if (status == BO_OK) status = build(context, lanes);
    if (status == BO_OK)
        *out = lanes;
    else
        bo_lanes_destroy(lanes);
    return status;
}

bo_status bo_lanes_create(bo_context *context, const bo_model *model, const bo_lanes_desc *desc, bo_lanes **out)
{
    if (out) *out = NULL;
    BO_REQUIRE(context, model, desc, out);
    BO_TRY(check(context, model, desc));
    return bo_lanes_build(context, model, desc, 0, false, out);
}

static void clear(bo_lanes *lanes)
{
    for (bo_lanes_graph *graph = lanes->graphs, *next; graph; graph = next) {
        next = graph->next;
        bo_model_graph_destroy(&graph->graph);
        bo_free(graph);
    }
    bo_sized_attentions_destroy(&lanes->attentions, lanes->model);
    for (size_t i = 0; lanes->all && i < lanes->desc.count; i++) bo_lanes_release(lanes, i);
    release_blocks(lanes, &lanes->source);
    void *const blocks[] = {lanes->lane.offsets, lanes->source.offsets, lanes->all,       lanes->next,
                            lanes->used,         lanes->scratch,        lanes->summaries, lanes->table};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) bo_free(blocks[i]);
}

void bo_lanes_destroy(bo_lanes *lanes)
{
    if (!lanes) return;
    clear(lanes);
    bo_free(lanes);
}

bo_status bo_lanes_measure(bo_context *context, const bo_model *model, const bo_lanes_desc *desc, size_t *bytes)
{
    bo_lanes lanes = {0};
    const bo_status status = plan(context, model, desc, 0, &lanes);
    *bytes = lanes.lane.bytes + lanes.source.bytes / desc->count;
    clear(&lanes);
    return status;
}

/* ---- graphs ------------------------------------------------------------------------------------------------------ */

/* Creates a graph without memory. */
static bo_status plan_graph(bo_context *context, const bo_lanes *lanes, bo_lanes_result result, size_t count,
                            size_t tokens, bo_model_graph *out)
{
    bo_model_graph_desc desc = {.max_sequences = count, .attentions = lanes->attentions.all};
    if (result == BO_LANES_SOURCES) {
        desc.rows = count;
        desc.source_rows = tokens;
        desc.half = BO_HALF_SOURCE;
    } else if (result == BO_LANES_POOLED) {
        desc.rows = tokens;
        desc.examples = 1;
        desc.half = BO_HALF_SOURCE;
    } else {
        desc.rows = count * tokens;
        desc.tokens = count > 1 ? tokens : 0; /* 0: all rows */
        desc.half = BO_HALF_TARGET;
        desc.loss = result == BO_LANES_LOSSES;
        desc.hidden = result == BO_LANES_HIDDEN;
        desc.outputs = !desc.loss && !desc.hidden;
        desc.chosen = result == BO_LANES_ALL ? desc.rows : count;
    }
    return bo_model_graph_create(context, lanes->model, &desc, out);
}

bo_status bo_lanes_graph_for(bo_context *context, bo_lanes *lanes, bo_lanes_result result, size_t count, size_t tokens,
                             bo_model_graph **out)
{
    if (result == BO_LANES_ALL && tokens == 1) result = BO_LANES_LAST;
    bo_lanes_graph *found = lanes->graphs;
    while (found && (found->result != result || found->lanes != count || found->tokens != tokens)) found = found->next;
    if (!found) {
        found = bo_alloc(context, 1, sizeof *found, "a graph of lanes");
        if (!found) return BO_MEMORY;
        *found = (bo_lanes_graph){.result = result, .lanes = count, .tokens = tokens, .next = lanes->graphs};
        bo_status status = plan_graph(context, lanes, result, count, tokens, &found->graph);
        if (status == BO_OK) status = bo_graph_allocate(context, found->graph.graph);
        if (status != BO_OK) {
            bo_model_graph_destroy(&found->graph);
            bo_free(found);
            return status;
        }
        lanes->graphs = found;
    }
    *out = &found->graph;
    return BO_OK;
}

static bo_status add_graph(bo_context *context, const bo_lanes *lanes, bo_lanes_result result, size_t count,
                           size_t tokens, size_t *bytes)
{
    bo_model_graph graph;
    BO_TRY(plan_graph(context, lanes, result, count, tokens, &graph));
    *bytes += bo_graph_describe(graph.graph)->bytes;
    bo_model_graph_destroy(&graph);
    return BO_OK;
}

static bo_status add_blocks(bo_context *context, const bo_lanes *lanes, bo_lanes_result result, size_t *bytes)
{
    for (size_t tokens = lanes->chunk; tokens; tokens = bo_lanes_block_below(lanes, tokens - 1))
        BO_TRY(add_graph(context, lanes, result, 1, tokens, bytes));
    return BO_OK;
}

static bo_status add_steps(bo_context *context, const bo_lanes *lanes, bo_lanes_result result, size_t *bytes)
{
    for (size_t size = 1; size <= lanes->desc.count; size = bo_lanes_size_above(size + 1))
        BO_TRY(add_graph(context, lanes, result, size, 1, bytes));
    return BO_OK;
}

bo_status bo_lanes_workspace(bo_context *context, const bo_model *model, const bo_lanes_desc *desc, size_t chunk,
                             bo_lanes_result result, size_t *bytes)
{
    bo_lanes lanes = {0};
    *bytes = 0;
    bo_status status = plan(context, model, desc, chunk, &lanes);
    if (status == BO_OK) status = (chunk ? add_blocks : add_steps)(context, &lanes, result, bytes);
    clear(&lanes);
    return status;
}

/* ---- replacing lanes --------------------------------------------------------------------------------------------- */

static bo_status copy_block(bo_context *context, bo_lanes *lanes, const char *from, size_t to)
{
    if (!from) return bo_lanes_release(lanes, to), BO_OK;
    BO_TRY(bo_lanes_reserve(context, lanes, to));
    return bo_buffer_copy(context, bo_lanes_device(lanes), lanes->all[to].block, from, lanes->lane.bytes);
}

/* The first lane that continues an old lane takes its block. Further ones copy it into unused blocks. Inactive lanes
 * get the remaining blocks. */
static bo_status choose(bo_context *context, bo_lanes *lanes, size_t active, const size_t *from)
{
    bo_status status = BO_OK;
    size_t count = lanes->desc.count, free_lane = 0;
    int32_t *origin = lanes->scratch; /* the new lane whose block is copied; -1: none */
    bo_lane *next = lanes->next;
    memset(lanes->used, 0, count * sizeof *lanes->used);
    for (size_t i = 0; i < active; i++) {
        origin[i] = -1;
        for (size_t k = 0; lanes->used[from[i]] && origin[i] < 0; k++)
            if (from[k] == from[i]) origin[i] = (int32_t)k;
        next[i] = lanes->all[from[i]];
        lanes->used[from[i]] = true;
    }
    for (size_t i = 0; i < count; i++) {
        if (i < active && origin[i] < 0) continue;
        if (i >= active) next[i] = lanes->all[i];
        while (lanes->used[free_lane]) free_lane++;
        next[i].block = lanes->all[free_lane++].block;
    }
    lanes->next = lanes->all;
    lanes->all = next;
    for (size_t i = 0; i < active; i++) {
        if (origin[i] < 0) continue;
        if (status == BO_OK) status = copy_block(context, lanes, next[origin[i]].block, i);
        if (status != BO_OK) bo_lanes_release(lanes, i);
    }
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
            return bo_fail(context, BO_INVALID, "lanes: lane %zu continues lane %zu, expected one of %zu lanes", i,
                           from[i], lanes->desc.count);
    return choose(context, lanes, active, from);
}
