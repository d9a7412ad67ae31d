#include "long_text.h"
#include <bochner/tasks.h>
#include <math.h>
#include <string.h>
#include "session.h"

enum { ROWS = 1024 }; /* of a piece */

bool bo_pieces_fit(const bo_model *model)
{
    return model->desc.forward && !bo_session_has_capacity(model);
}

static size_t state_bytes(const bo_model *model)
{
    size_t bytes = 0;
    for (size_t i = 0; i < model->desc.layers; i++) bytes += bo_layer_state_room(&model->desc, i, model->attentions[i]);
    return bytes;
}

size_t bo_model_state_bytes(const bo_model *model)
{
    return bo_pieces_fit(model) ? state_bytes(model) : 0;
}

/* ---- life --------------------------------------------------------------------------------------------------------- */

static void place_states(bo_pieces *p)
{
    char *at = p->memory;
    for (size_t i = 0; i < p->model->desc.layers; i++)
        for (size_t s = 0; s < 2; s++) {
            p->states[2 * i + s] = at;
            at += bo_layer_state_room(&p->model->desc, i, p->model->attentions[i]);
        }
}

static bo_status allocate(bo_context *context, bo_pieces *p)
{
    static const char what[] = "a text read in pieces";
    const bo_model_desc *d = &p->model->desc;
    p->memory = bo_alloc_raw(context, 2, state_bytes(p->model), what);
    p->states = bo_alloc(context, 2 * d->layers, sizeof *p->states, what);
    p->tokens = bo_alloc(context, ROWS, sizeof *p->tokens, what);
    p->positions = bo_alloc(context, ROWS, sizeof *p->positions, what);
    p->pooled = bo_alloc(context, d->width, sizeof *p->pooled, what);
    p->sums = bo_alloc(context, d->width, sizeof *p->sums, what);
    if (!p->memory || !p->states || !p->tokens || !p->positions || !p->pooled || !p->sums) return BO_MEMORY;
    place_states(p);
    bo_model_graph_desc desc = {.rows = ROWS, .most_sequences = 2, .examples = 1, .half = BO_HALF_SOURCE};
    BO_TRY(bo_model_graph_create(context, p->model, &desc, &p->graph));
    return bo_graph_allocate(context, p->graph.graph);
}

bo_status bo_pieces_create(bo_context *context, const bo_model *model, bo_pieces **out)
{
    bo_pieces *pieces = bo_alloc(context, 1, sizeof *pieces, "a text read in pieces");
    if (!pieces) return BO_MEMORY;
    pieces->model = model;
    bo_status status = allocate(context, pieces);
    if (status == BO_OK)
        *out = pieces;
    else
        bo_pieces_destroy(pieces);
    return status;
}

void bo_pieces_destroy(bo_pieces *p)
{
    if (!p) return;
    bo_model_graph_destroy(&p->graph);
    bo_free(p->memory);
    bo_free(p->states);
    bo_free(p->tokens);
    bo_free(p->positions);
    bo_free(p->pooled);
    bo_free(p->sums);
    bo_free(p);
}

/* ---- reading ------------------------------------------------------------------------------------------------------ */

static bo_status begin(bo_context *context, bo_pieces *p)
{
    const bo_model *m = p->model;
    for (size_t i = 0; i < 2 * m->desc.layers; i++)
        BO_TRY(bo_layer_state_begin(context, &m->desc, i / 2, m->attentions[i / 2], p->states[i]));
    for (size_t i = 0; i < m->desc.width; i++) p->sums[i] = m->desc.pooling == BO_POOLING_MAX ? -INFINITY : 0;
    return BO_OK;
}

/* All rows of the piece, or the last. */
static bo_status write_pooling(bo_context *context, const bo_pieces *p, size_t count, int32_t *scratch)
{
    const bo_model_graph *g = &p->graph;
    const int32_t first[2] = {0, (int32_t)count}, last = (int32_t)count - 1;
    if (!g->first) return bo_graph_write(context, g->graph, g->places, &last);
    for (size_t i = 0; i < ROWS; i++) scratch[i] = (int32_t)i;
    BO_TRY(bo_graph_write(context, g->graph, g->first, first));
    return bo_graph_write(context, g->graph, g->places, scratch);
}

static bo_status run(bo_context *context, bo_pieces *p, const int32_t *ids, size_t done, size_t count)
{
    const size_t lengths[2] = {count, ROWS - count};
    const bo_model_graph *g = &p->graph;
    const bo_pass pass = {.sequences = 2, .lengths = lengths, .states = p->states};
    BO_TRY(write_pooling(context, p, count, p->positions));
    memcpy(p->tokens, ids, count * sizeof *ids);
    memset(p->tokens + count, 0, (ROWS - count) * sizeof *ids);
    for (size_t i = 0; i < ROWS; i++) p->positions[i] = i < count ? (int32_t)(done + i) : 0;
    BO_TRY(bo_graph_write(context, g->graph, g->tokens, p->tokens));
    if (g->positions) BO_TRY(bo_graph_write(context, g->graph, g->positions, p->positions));
    BO_TRY(bo_graph_run(context, g->graph, &pass));
    return bo_graph_read(context, g->graph, g->summary, p->pooled);
}

/* What the pieces of a text are pooled to becomes what the text is. */
static void carry(bo_pieces *p, size_t count, size_t all)
{
    const bo_model_desc *d = &p->model->desc;
    for (size_t i = 0; i < d->width; i++) {
        const double now = (double)p->pooled[i];
        if (d->pooling == BO_POOLING_MEAN)
            p->sums[i] += now * (double)count / (double)all;
        else if (d->pooling == BO_POOLING_LAST || now > p->sums[i])
            p->sums[i] = now;
    }
}

bo_status bo_pieces_read(bo_context *context, bo_pieces *p, bo_text_view text, float *pooled)
{
    BO_TRY(begin(context, p));
    for (size_t done = 0; done < text.count;) {
        const size_t left = text.count - done, count = left < ROWS ? left : ROWS;
        BO_TRY(run(context, p, text.ids + done, done, count));
        carry(p, count, text.count);
        done += count;
    }
    for (size_t i = 0; i < p->model->desc.width; i++) pooled[i] = text.count ? (float)p->sums[i] : 0;
    return BO_OK;
}
