/* Several sessions that read tokens in batches: runs of graphs over lanes that belong to different sessions. */
#include "lanes.h"
#include <stdlib.h>
#include <string.h>
#include "../base/trace.h"
#include "internal.h"
#include "session.h"

/* What one session reads. */
typedef struct part {
    bo_session *session;
    const int32_t *ids;
    size_t left;  /* tokens that it has not read yet */
    size_t place; /* of the session in the call */
} part;

/* Sessions that are read together. Invariant: parts are ordered by the number of tokens, the largest first, so that
 * those that have tokens left come first. `view` has their lanes, and the graphs of the first session. */
typedef struct group {
    part *parts;
    size_t count;
    bo_lanes view;
    int32_t *ids;  /* of one run */
    float *logits; /* of one run */
} group;

/* Memory for all groups. */
typedef struct batch {
    part *parts;
    size_t count;
    bo_lane *lanes;
    int32_t *ids, *positions;
    void **table;
    float *logits;
} batch;

/* ---- checks ------------------------------------------------------------------------------------------------------ */

static bo_status check(bo_context *context, bo_session *const *sessions, size_t count, const int32_t *ids,
                       const size_t *tokens)
{
    for (size_t i = 0; i < count; i++)
        if (!sessions[i]) return bo_fail(context, BO_INVALID, "sessions: session %zu is NULL", i);
    for (size_t i = 0; i < count; ids += tokens ? tokens[i] : 1, i++) {
        const bo_lanes *lanes = sessions[i]->lanes;
        if (lanes->model != sessions[0]->lanes->model)
            return bo_fail(context, BO_INVALID, "sessions: session %zu belongs to another model than session 0", i);
        if (tokens && !tokens[i]) return bo_fail(context, BO_INVALID, "sessions: session %zu has no tokens", i);
        BO_TRY(
            bo_lanes_check_reading(context, lanes, 0, &(bo_lane_reading){.ids = ids, .count = tokens ? tokens[i] : 1}));
    }
    return BO_OK;
}

/* ---- order ------------------------------------------------------------------------------------------------------- */

static int compare_addresses(const void *a, const void *b)
{
    const uintptr_t x = (uintptr_t)((const part *)a)->session, y = (uintptr_t)((const part *)b)->session;
    return (x > y) - (x < y);
}

static bo_status check_once(bo_context *context, batch *b)
{
    qsort(b->parts, b->count, sizeof *b->parts, compare_addresses);
    for (size_t i = 1; i < b->count; i++)
        if (b->parts[i].session == b->parts[i - 1].session)
            return bo_fail(context, BO_INVALID, "sessions: %zu and %zu are the same session", b->parts[i - 1].place,
                           b->parts[i].place);
    return BO_OK;
}

/* States of attention that keeps every key are as long as the capacity. */
static size_t capacity_of(const part *p)
{
    const bo_lanes *lanes = p->session->lanes;
    return bo_model_cached_attention(lanes->model) ? lanes->desc.capacity : 0;
}

/* By capacity, then by number of tokens, then in the order of the call. */
static int compare_parts(const void *a, const void *b)
{
    const part *x = a, *y = b;
    const size_t one = capacity_of(x), other = capacity_of(y);
    if (one != other) return one < other ? -1 : 1;
    if (x->left != y->left) return x->left > y->left ? -1 : 1;
    return (x->place > y->place) - (x->place < y->place);
}

/* The number of parts from `first` on that are read together. */
static size_t group_size(const batch *b, size_t first)
{
    size_t count = 1;
    while (first + count < b->count && capacity_of(&b->parts[first + count]) == capacity_of(&b->parts[first])) count++;
    return count;
}

static group open_group(const batch *b, size_t first)
{
    const bo_lanes *lanes = b->parts[first].session->lanes;
    group g = {.parts = b->parts + first, .count = group_size(b, first), .ids = b->ids, .logits = b->logits};
    g.view = *lanes;
    g.view.desc.count = g.count;
    g.view.all = b->lanes;
    g.view.scratch = b->positions;
    g.view.table = b->table;
    for (size_t i = 0; i < g.count; i++) g.view.all[i] = g.parts[i].session->lanes->all[0];
    return g;
}

/* ---- runs -------------------------------------------------------------------------------------------------------- */

/* Returns the number of tokens of the next runs, which all of the first `count` parts still have. */
static size_t next_block(const group *g, size_t count, size_t shortest)
{
    const size_t max_tokens = bo_max(g->view.chunk / count, (size_t)1);
    return bo_lanes_block_below(&g->view, bo_min(shortest, max_tokens));
}

static bo_status run_some(bo_context *context, group *g, size_t first, size_t size, size_t tokens)
{
    bo_model_graph *graph;
    const size_t vocab = g->view.model->desc.vocab;
    for (size_t i = 0; i < size; i++) memcpy(g->ids + i * tokens, g->parts[first + i].ids, tokens * sizeof *g->ids);
    const bo_lane_run run = {.first = first, .lanes = size, .tokens = tokens, .ids = g->ids};
    BO_TRY(bo_lanes_run(context, &g->view, &run, &graph));
    if (g->parts[first + size - 1].left == tokens)
        BO_TRY(bo_graph_read(context, graph->graph, graph->outputs, g->logits));
    for (size_t i = 0; i < size; i++) {
        part *p = &g->parts[first + i];
        p->ids += tokens;
        p->left -= tokens;
        if (!p->left) memcpy(p->session->logits, g->logits + i * vocab, vocab * sizeof *g->logits);
    }
    return BO_OK;
}

/* Runs all blocks, or only creates their graphs, so that all allocations come first. */
static bo_status read_group(bo_context *context, group *g, bool run)
{
    bo_model_graph *graph;
    size_t done = 0;
    for (size_t count = g->count; count;) {
        const size_t shortest = g->parts[count - 1].left - (run ? 0 : done), tokens = next_block(g, count, shortest);
        for (size_t first = 0, size; first < count; first += size) {
            size = bo_lanes_size_below(count - first);
            BO_TRY(run ? run_some(context, g, first, size, tokens)
                       : bo_lanes_graph_for(context, &g->view, BO_LANES_LAST, size, tokens, &graph));
        }
        done += tokens;
        while (count && g->parts[count - 1].left == (run ? 0 : done)) count--;
    }
    return BO_OK;
}

static bo_status use_group(bo_context *context, const batch *b, size_t first, bool run)
{
    group g = open_group(b, first);
    const bo_status status = read_group(context, &g, run);
    g.parts[0].session->lanes->graphs = g.view.graphs;
    for (size_t i = 0; run && i < g.count; i++) g.parts[i].session->lanes->all[0].tokens = g.view.all[i].tokens;
    return status;
}

/* ---- one call ---------------------------------------------------------------------------------------------------- */

static void close_batch(batch *b)
{
    void *const blocks[] = {b->parts, b->lanes, b->ids, b->positions, b->table, b->logits};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) bo_free(blocks[i]);
}

static bo_status open_batch(bo_context *context, bo_session *const *sessions, size_t count, const int32_t *ids,
                            const size_t *tokens, batch *b)
{
    const bo_model_desc *d = &sessions[0]->lanes->model->desc;
    const size_t places = bo_model_place(d, BO_MODEL_PART_ENCODER);
    size_t rows = count;
    for (size_t i = 0; i < count; i++) rows = bo_max(rows, sessions[i]->lanes->chunk);
    b->count = count;
    b->parts = bo_alloc(context, count, sizeof *b->parts, "sessions");
    b->lanes = bo_alloc(context, count, sizeof *b->lanes, "sessions");
    b->ids = bo_alloc(context, rows, sizeof *b->ids, "tokens");
    b->positions = bo_alloc(context, rows, sizeof *b->positions, "positions");
    b->table = bo_alloc(context, count, places * sizeof *b->table, "sessions");
    b->logits = bo_alloc(context, count, d->vocab * sizeof *b->logits, "logits");
    if (!b->parts || !b->lanes || !b->ids || !b->positions || !b->table || !b->logits) return BO_MEMORY;
    for (size_t i = 0; i < count; i++) {
        b->parts[i] = (part){sessions[i], ids, tokens ? tokens[i] : 1, i};
        ids += b->parts[i].left;
    }
    BO_TRY(check_once(context, b));
    qsort(b->parts, count, sizeof *b->parts, compare_parts);
    for (size_t i = 0; i < count; i++) BO_TRY(bo_lanes_reserve(context, sessions[i]->lanes, 0));
    return BO_OK;
}

/* If this fails, all sessions are broken. */
static bo_status read_all(bo_context *context, const batch *b)
{
    for (size_t i = 0; i < b->count; i++) b->parts[i].session->lanes->broken = true;
    for (size_t first = 0; first < b->count; first += group_size(b, first)) BO_TRY(use_group(context, b, first, true));
    for (size_t i = 0; i < b->count; i++) {
        b->parts[i].session->lanes->broken = false;
        b->parts[i].session->has_logits = true;
    }
    return BO_OK;
}

static bo_status read_together(bo_context *context, const batch *b)
{
    for (size_t first = 0; first < b->count; first += group_size(b, first)) BO_TRY(use_group(context, b, first, false));
    return read_all(context, b);
}

bo_status bo_sessions_feed(bo_context *context, bo_session *const *sessions, size_t count, const int32_t *ids,
                           const size_t *tokens, float *logits)
{
    batch b = {0};
    BO_REQUIRE_IF(context, count > 0, sessions, ids);
    if (!count) return BO_OK;
    BO_SPAN(context, "model", "read tokens");
    BO_TRY(check(context, sessions, count, ids, tokens));
    if (count == 1) return bo_session_feed(context, sessions[0], ids, tokens ? tokens[0] : 1, logits);
    bo_status status = open_batch(context, sessions, count, ids, tokens, &b);
    if (status == BO_OK) status = read_together(context, &b);
    close_batch(&b);
    const size_t vocab = sessions[0]->lanes->model->desc.vocab;
    for (size_t i = 0; status == BO_OK && logits && i < count; i++)
        memcpy(logits + i * vocab, sessions[i]->logits, vocab * sizeof *logits);
    return status;
}
