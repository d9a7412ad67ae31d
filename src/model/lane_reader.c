/* Reading tokens in lanes: one token in each of many lanes, or blocks of tokens in one. Both are a run of a graph
 * over some lanes that read the same number of tokens each. */
#include <assert.h>
#include <stdio.h>
#include <string.h>
#include "../attention/enums.h"
#include "../base/trace.h"
#include "internal.h"
#include "lanes.h"

/* ---- checks ------------------------------------------------------------------------------------------------------ */

bo_lane_name bo_lanes_name(const bo_lanes *lanes, size_t lane)
{
    bo_lane_name name = {"session"};
    if (!lanes->is_session) snprintf(name.text, sizeof name.text, "lane %zu", lane);
    return name;
}

uint64_t bo_lanes_max_tokens(const bo_model *model, size_t capacity)
{
    const bo_model_desc *d = &model->desc;
    uint64_t limit = bo_model_positions_kind(d) == BO_POSITIONS_NONE ? UINT64_MAX : INT32_MAX;
    if (bo_model_cached_attention(model)) limit = bo_min(limit, (uint64_t)capacity);
    if (bo_model_max_tokens(d)) limit = bo_min(limit, (uint64_t)bo_model_max_tokens(d));
    return limit;
}

bo_status bo_lanes_check_fits(bo_context *context, const bo_lanes *lanes, size_t lane, size_t count)
{
    const bo_model_desc *d = &lanes->model->desc;
    const bo_attention *keeper = bo_model_cached_attention(lanes->model);
    const bo_lane_name name = bo_lanes_name(lanes, lane);
    const unsigned long long read = lanes->all[lane].tokens;
    if (read + count <= bo_lanes_max_tokens(lanes->model, lanes->desc.capacity)) return BO_OK;
    if (keeper && read + count > lanes->desc.capacity)
        return bo_fail(context, BO_INVALID,
                       "%s: attention %s keeps all keys, and its capacity is %zu tokens; %llu have been read and %zu "
                       "more are requested",
                       name.text, bo_attention_kind_name(bo_attention_describe(keeper)->kind), lanes->desc.capacity,
                       read, count);
    if (bo_model_max_tokens(d) && read + count > bo_model_max_tokens(d))
        return bo_fail(context, BO_INVALID,
                       "%s: the model has only %zu positions; %llu tokens have been read and %zu more are requested",
                       name.text, bo_model_max_tokens(d), read, count);
    return bo_fail(context, BO_INVALID, "%s: positions are limited to %d", name.text, INT32_MAX);
}

static bo_status check_ids(bo_context *context, const bo_lanes *lanes, size_t lane, const int32_t *ids, size_t count,
                           bool targets)
{
    const size_t vocab = lanes->model->desc.vocab;
    for (size_t i = 0; i < count; i++)
        if ((ids[i] < 0 && !targets) || (ids[i] >= 0 && (size_t)ids[i] >= vocab))
            return bo_fail(context, BO_INVALID, "%s: %s %zu should be an id below %zu, found %ld",
                           bo_lanes_name(lanes, lane).text, targets ? "target" : "token", i, vocab, (long)ids[i]);
    return BO_OK;
}

static bo_status check_whole(bo_context *context, const bo_lanes *lanes)
{
    const char *name = lanes->is_session ? "session" : "lanes";
    if (!lanes->broken) return BO_OK;
    return bo_fail(context, BO_INVALID, "%s: an earlier call failed; call bo_%s_reset to start again", name, name);
}

bo_status bo_lanes_check_lane(bo_context *context, const bo_lanes *lanes, size_t lane)
{
    BO_TRY(bo_model_require_language(context, lanes->model, "lanes"));
    if (lane >= lanes->desc.count)
        return bo_fail(context, BO_INVALID, "lanes: lane %zu is requested, but there are only %zu", lane,
                       lanes->desc.count);
    return check_whole(context, lanes);
}

/* ---- one run ----------------------------------------------------------------------------------------------------- */

static char *source_of(const bo_lanes *lanes, size_t lane)
{
    return lanes->source.memory + lanes->all[lane].source * lanes->source.bytes;
}

void *const *bo_lanes_table(bo_lanes *lanes, size_t first, size_t count)
{
    const size_t layers = lanes->model->desc.layers;
    for (size_t i = 0; i < layers; i++)
        for (size_t s = 0; s < count; s++) {
            lanes->table[i * count + s] = lanes->all[first + s].block + lanes->lane.offsets[i];
            if (lanes->source.offsets)
                lanes->table[(layers + i) * count + s] = source_of(lanes, first + s) + lanes->source.offsets[i];
        }
    return lanes->table;
}

static bo_status write_positions(bo_context *context, bo_lanes *lanes, const bo_model_graph *g, const bo_lane_run *r)
{
    if (!g->positions) return BO_OK;
    for (size_t s = 0; s < r->lanes; s++)
        for (size_t i = 0; i < r->tokens; i++)
            lanes->scratch[s * r->tokens + i] = (int32_t)(lanes->all[r->first + s].tokens + i);
    return bo_graph_write(context, g->graph, g->positions, lanes->scratch);
}

/* Chooses the last token of each lane. */
static bo_status write_chosen(bo_context *context, bo_lanes *lanes, const bo_model_graph *g, const bo_lane_run *r)
{
    if (!g->chosen) return BO_OK;
    for (size_t s = 0; s < r->lanes; s++) lanes->scratch[s] = (int32_t)((s + 1) * r->tokens - 1);
    return bo_graph_write(context, g->graph, g->chosen, lanes->scratch);
}

static bo_status write_summaries(bo_context *context, bo_lanes *lanes, const bo_model_graph *g, const bo_lane_run *r)
{
    if (!g->summary) return BO_OK;
    assert(r->tokens == 1);
    for (size_t s = 0; s < r->lanes; s++)
        memcpy(lanes->summaries + s * lanes->model->desc.width, source_of(lanes, r->first + s), lanes->source.bytes);
    return bo_graph_write(context, g->graph, g->summary, lanes->summaries);
}

bo_status bo_lanes_run(bo_context *context, bo_lanes *lanes, const bo_lane_run *r, bo_model_graph **out)
{
    bo_model_graph *g;
    BO_TRY(bo_lanes_graph_for(context, lanes, r->result, r->lanes, r->tokens, &g));
    *out = g;
    BO_TRY(bo_graph_write(context, g->graph, g->tokens, r->ids));
    BO_TRY(write_positions(context, lanes, g, r));
    BO_TRY(write_chosen(context, lanes, g, r));
    BO_TRY(write_summaries(context, lanes, g, r));
    if (g->targets) BO_TRY(bo_graph_write(context, g->graph, g->targets, r->targets));
    const bo_graph_pass pass = {.states = bo_lanes_table(lanes, r->first, r->lanes), .isolate = r->isolate};
    BO_TRY(bo_graph_run(context, g->graph, &pass));
    for (size_t s = 0; s < r->lanes; s++) lanes->all[r->first + s].tokens += r->tokens;
    return BO_OK;
}

/* ---- one token in many lanes ------------------------------------------------------------------------------------- */

/* A step. It writes the logits, or the most likely tokens, or neither. */
typedef struct step_request {
    size_t active;
    const int32_t *ids;
    float *logits;
    int32_t *next;
    bool isolate; /* as in bo_graph_pass */
} step_request;

static bo_status check_step(bo_context *context, const bo_lanes *lanes, const step_request *r)
{
    if (r->active > lanes->desc.count)
        return bo_fail(context, BO_INVALID, "lanes: %zu lanes are requested, but there are only %zu", r->active,
                       lanes->desc.count);
    BO_TRY(check_whole(context, lanes));
    if (lanes->source.bytes && !lanes->has_sources)
        return bo_fail(context, BO_INVALID, "lanes: no source has been read yet; call bo_lanes_read first");
    for (size_t i = 0; i < r->active; i++) {
        BO_TRY(check_ids(context, lanes, i, r->ids + i, 1, false));
        BO_TRY(bo_lanes_check_fits(context, lanes, i, 1));
    }
    return BO_OK;
}

/* All allocations come before the first run that changes a state. */
static bo_status prepare_step(bo_context *context, bo_lanes *lanes, size_t active)
{
    bo_model_graph *graph;
    for (size_t i = 0; i < active; i++) BO_TRY(bo_lanes_reserve(context, lanes, i));
    for (size_t first = 0, size; first < active; first += size) {
        size = bo_lanes_size_below(active - first);
        BO_TRY(bo_lanes_graph_for(context, lanes, BO_LANES_LAST, size, 1, &graph));
    }
    return BO_OK;
}

static bo_status step_some(bo_context *context, bo_lanes *lanes, const step_request *q, size_t first, size_t size)
{
    bo_model_graph *g;
    const bo_lane_run r = {.first = first, .lanes = size, .tokens = 1, .ids = q->ids + first, .isolate = q->isolate};
    BO_TRY(bo_lanes_run(context, lanes, &r, &g));
    if (q->next) return bo_graph_read_largest(context, g->graph, g->outputs, q->next + first);
    return q->logits ? bo_graph_read(context, g->graph, g->outputs, q->logits + first * lanes->model->desc.vocab)
                     : BO_OK;
}

static bo_status step(bo_context *context, bo_lanes *lanes, const step_request *r)
{
    BO_TRY(check_step(context, lanes, r));
    BO_TRY(prepare_step(context, lanes, r->active));
    lanes->broken = true;
    for (size_t first = 0, size; first < r->active; first += size) {
        size = bo_lanes_size_below(r->active - first);
        BO_TRY(step_some(context, lanes, r, first, size));
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

/* ---- many tokens in one lane ------------------------------------------------------------------------------------- */

/* The logits of every token need much memory, so fewer tokens are read at a time. */
enum { MAX_LOGITS = 64 };

static size_t next_block(const bo_lanes *lanes, const bo_lane_reading *r)
{
    return bo_lanes_block_below(lanes, r->result == BO_LANES_ALL ? bo_min(r->count, MAX_LOGITS) : r->count);
}

static void advance(const bo_lanes *lanes, bo_lane_reading *r, size_t tokens)
{
    const bo_model_desc *d = &lanes->model->desc;
    const size_t numbers = r->result == BO_LANES_ALL ? d->vocab : r->result == BO_LANES_HIDDEN ? d->width : 1;
    r->ids += tokens;
    r->count -= tokens;
    if (r->targets) r->targets += tokens;
    if (r->out && r->result != BO_LANES_LAST) r->out += tokens * numbers;
}

/* Makes the graphs of all blocks. */
static bo_status prepare_blocks(bo_context *context, bo_lanes *lanes, size_t lane, bo_lane_reading r)
{
    bo_model_graph *graph;
    BO_TRY(bo_lanes_reserve(context, lanes, lane));
    for (size_t tokens; r.count; advance(lanes, &r, tokens)) {
        tokens = next_block(lanes, &r);
        BO_TRY(bo_lanes_graph_for(context, lanes, r.result, 1, tokens, &graph));
    }
    return BO_OK;
}

static bo_status read_result(bo_context *context, const bo_model_graph *g, const bo_lane_reading *r, size_t tokens)
{
    const bool ends = r->result != BO_LANES_LAST || r->count == tokens;
    const bo_value value = g->losses ? g->losses : g->hidden ? g->hidden : g->outputs;
    return r->out && ends ? bo_graph_read(context, g->graph, value, r->out) : BO_OK;
}

static bo_status read_blocks(bo_context *context, bo_lanes *lanes, size_t lane, bo_lane_reading r)
{
    bo_model_graph *g;
    for (size_t tokens; r.count; advance(lanes, &r, tokens)) {
        tokens = next_block(lanes, &r);
        const bo_lane_run one = {
            .result = r.result, .first = lane, .lanes = 1, .tokens = tokens, .ids = r.ids, .targets = r.targets};
        BO_TRY(bo_lanes_run(context, lanes, &one, &g));
        BO_TRY(read_result(context, g, &r, tokens));
    }
    return BO_OK;
}

bo_status bo_lanes_check_reading(bo_context *context, const bo_lanes *lanes, size_t lane, const bo_lane_reading *r)
{
    BO_TRY(check_whole(context, lanes));
    BO_TRY(bo_lanes_check_fits(context, lanes, lane, r->count));
    BO_TRY(check_ids(context, lanes, lane, r->ids, r->count, false));
    return r->targets ? check_ids(context, lanes, lane, r->targets, r->count, true) : BO_OK;
}

bo_status bo_lanes_read_tokens(bo_context *context, bo_lanes *lanes, size_t lane, const bo_lane_reading *r)
{
    BO_SPAN(context, "model", r->targets ? "score tokens" : "read tokens");
    BO_TRY(bo_lanes_check_reading(context, lanes, lane, r));
    if (!r->count) return BO_OK;
    BO_TRY(prepare_blocks(context, lanes, lane, *r));
    lanes->broken = true;
    BO_TRY(read_blocks(context, lanes, lane, *r));
    lanes->broken = false;
    return BO_OK;
}

/* After a failure the lane is empty. Other lanes do not change. */
static bo_status read_alone(bo_context *context, bo_lanes *lanes, size_t lane, const bo_lane_reading *r)
{
    BO_TRY(bo_lanes_check_lane(context, lanes, lane));
    if (!r->count) return bo_fail(context, BO_INVALID, "lanes: at least one token must be read");
    const bo_status status = bo_lanes_read_tokens(context, lanes, lane, r);
    if (lanes->broken) lanes->broken = bo_lanes_restart(context, lanes, lane) != BO_OK;
    return status;
}

bo_status bo_lanes_feed(bo_context *context, bo_lanes *lanes, size_t lane, const int32_t *ids, size_t count,
                        float *logits)
{
    BO_REQUIRE(context, lanes);
    BO_REQUIRE_IF(context, count > 0, ids);
    return read_alone(context, lanes, lane, &(bo_lane_reading){.ids = ids, .count = count, .out = logits});
}

bo_status bo_lanes_logits(bo_context *context, bo_lanes *lanes, size_t lane, const int32_t *ids, size_t count,
                          float *logits)
{
    BO_REQUIRE(context, lanes, logits);
    BO_REQUIRE_IF(context, count > 0, ids);
    return read_alone(context, lanes, lane, &(bo_lane_reading){ids, NULL, count, BO_LANES_ALL, logits});
}

bo_status bo_lanes_hidden(bo_context *context, bo_lanes *lanes, size_t lane, const int32_t *ids, size_t count,
                          float *hidden)
{
    BO_REQUIRE(context, lanes, hidden);
    BO_REQUIRE_IF(context, count > 0, ids);
    return read_alone(context, lanes, lane, &(bo_lane_reading){ids, NULL, count, BO_LANES_HIDDEN, hidden});
}
