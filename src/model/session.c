/* Sessions: reading with a state. */
#include "session.h"
#include <limits.h>
#include <string.h>
#include "../attention/attention.h"

/* ---- sizes -------------------------------------------------------------------------------------------------------- */

bool bo_session_has_capacity(const bo_model *model)
{
    const bo_attention_desc *attention = &model->desc.attention;
    return bo_nn_mixer_attends(model->desc.mixer) && bo_is_explicit(attention) && !attention->window;
}

size_t bo_session_layer_bytes(const bo_session *session, size_t layer)
{
    return bo_layer_state_bytes(&session->model->desc, layer, session->attentions[layer]);
}

static size_t padded_bytes(const bo_session *session, size_t layer)
{
    return bo_layer_state_room(&session->model->desc, layer, session->attentions[layer]);
}

void bo_session_place(const bo_session *session, char *memory, void **states)
{
    for (size_t i = 0; i < session->model->desc.layers; i++) {
        states[i] = memory;
        memory += padded_bytes(session, i);
    }
}

static bo_status resolve(bo_context *context, const bo_model *model, const bo_session_desc *desc, bo_session *session)
{
    BO_TRY(bo_model_require_language(context, model, "session"));
    bo_session_desc d = desc ? *desc : (bo_session_desc){0};
    if (!d.chunk) d.chunk = 256;
    if (!d.capacity) d.capacity = model->desc.context;
    if (d.chunk > BO_SESSION_CHUNK)
        return bo_fail(context, BO_INVALID, "session: chunk must be at most %d, found %zu", BO_SESSION_CHUNK, d.chunk);
    session->model = model;
    session->desc = d;
    session->attentions = model->attentions;
    session->sizes[session->size_count++] = d.chunk;
    for (size_t size = BO_SESSION_CHUNK; size; size /= 2)
        if (size < d.chunk) session->sizes[session->size_count++] = size;
    if (bo_session_has_capacity(model) && d.capacity != model->desc.attention.capacity) {
        BO_TRY(bo_attentions_create(context, &model->desc, d.capacity, 0, &session->own));
        session->attentions = session->own;
    }
    for (size_t i = 0; i < model->desc.layers; i++) session->state_bytes += padded_bytes(session, i);
    return BO_OK;
}

/* Planned, not allocated. */
static bo_status plan_graph(bo_context *context, const bo_session *session, size_t rows, bool score,
                            bo_model_graph *out)
{
    bo_model_graph_desc desc = {
        .rows = rows, .loss = score, .logits = !score, .attentions = (bo_attention *const *)session->attentions};
    return bo_model_graph_create(context, session->model, &desc, out);
}

bo_status bo_session_memory(bo_context *context, const bo_model *model, const bo_session_desc *desc,
                            size_t *state_bytes, size_t *all_bytes)
{
    bo_session session = {0};
    bo_status status = resolve(context, model, desc, &session);
    size_t bytes = session.state_bytes + sizeof session;
    for (size_t i = 0; status == BO_OK && all_bytes && i < 2 * session.size_count; i++) {
        bo_model_graph graph;
        status = plan_graph(context, &session, session.sizes[i / 2], i % 2, &graph);
        if (status != BO_OK) break;
        bytes += bo_graph_bytes(graph.graph);
        bo_model_graph_destroy(&graph);
    }
    if (status == BO_OK && state_bytes) *state_bytes = session.state_bytes;
    if (status == BO_OK && all_bytes)
        *all_bytes = bytes + session.desc.chunk * sizeof(int32_t) + model->desc.vocab * sizeof(float);
    if (session.own) bo_attentions_destroy(session.own, &model->desc);
    return status;
}

/* ---- life --------------------------------------------------------------------------------------------------------- */

bo_status bo_session_reset(bo_context *context, bo_session *session)
{
    const bo_model_desc *d = &session->model->desc;
    for (size_t i = 0; i < d->layers; i++)
        BO_TRY(bo_layer_state_begin(context, d, i, session->attentions[i], session->states[i]));
    session->tokens = 0;
    session->has_logits = session->broken = false;
    return BO_OK;
}

static bo_status build(bo_context *context, const bo_model *model, const bo_session_desc *desc, bo_session *session)
{
    BO_TRY(resolve(context, model, desc, session));
    session->memory = bo_alloc_raw(context, session->state_bytes, 1, "a session's state");
    session->states = bo_alloc(context, model->desc.layers, sizeof *session->states, "a session's states");
    session->positions = bo_alloc(context, session->desc.chunk, sizeof *session->positions, "positions");
    session->logits = bo_alloc(context, model->desc.vocab, sizeof *session->logits, "logits");
    if (!session->memory || !session->states || !session->positions || !session->logits) return BO_MEMORY;
    bo_session_place(session, session->memory, session->states);
    return bo_session_reset(context, session);
}

bo_status bo_session_create(bo_context *context, const bo_model *model, const bo_session_desc *desc, bo_session **out)
{
    if (!out) return bo_fail(context, BO_INVALID, "session: there is nowhere to put it: out is NULL");
    *out = NULL;
    bo_session *session = bo_alloc(context, 1, sizeof *session, "a session");
    if (!session) return BO_MEMORY;
    bo_status status = build(context, model, desc, session);
    if (status != BO_OK) {
        bo_session_destroy(session);
        return status;
    }
    *out = session;
    return BO_OK;
}

void bo_session_destroy(bo_session *session)
{
    if (!session) return;
    for (size_t i = 0; i < session->size_count; i++) {
        bo_model_graph_destroy(&session->feed[i]);
        bo_model_graph_destroy(&session->score[i]);
    }
    if (session->own) bo_attentions_destroy(session->own, &session->model->desc);
    bo_free(session->memory);
    bo_free(session->states);
    bo_free(session->positions);
    bo_free(session->logits);
    bo_free(session);
}

uint64_t bo_session_tokens(const bo_session *session)
{
    return session->tokens;
}

uint64_t bo_session_room(const bo_session *session)
{
    const bo_model_desc *d = &session->model->desc;
    uint64_t most = d->positions == BO_POSITIONS_NONE ? UINT64_MAX : INT32_MAX;
    if (bo_session_has_capacity(session->model)) most = session->desc.capacity;
    if (bo_model_most_tokens(d) && bo_model_most_tokens(d) < most) most = bo_model_most_tokens(d);
    return most > session->tokens ? most - session->tokens : 0;
}

/* ---- reading ------------------------------------------------------------------------------------------------------ */

static bo_status check_room(bo_context *context, const bo_session *session, size_t count)
{
    const bo_model_desc *d = &session->model->desc;
    uint64_t end = session->tokens + count;
    if (bo_session_has_capacity(session->model) && end > session->desc.capacity)
        return bo_fail(
            context, BO_INVALID,
            "session: attention %s keeps every key, and there is room for %zu tokens (capacity); %llu were read "
            "and %zu more are to come",
            bo_attention_name(d->attention.kind), session->desc.capacity, (unsigned long long)session->tokens, count);
    if (bo_model_most_tokens(d) && end > bo_model_most_tokens(d))
        return bo_fail(context, BO_INVALID,
                       "session: the model has learned %zu positions; %llu tokens were read and %zu more are to come",
                       d->context, (unsigned long long)session->tokens, count);
    if (d->positions != BO_POSITIONS_NONE && end > INT32_MAX)
        return bo_fail(context, BO_INVALID, "session: positions end at %d", INT32_MAX);
    return BO_OK;
}

static bo_status check_ids(bo_context *context, const bo_session *session, const int32_t *ids, size_t count,
                           bool targets)
{
    size_t vocab = session->model->desc.vocab;
    for (size_t i = 0; i < count; i++)
        if ((ids[i] < 0 && !targets) || (ids[i] >= 0 && (size_t)ids[i] >= vocab))
            return bo_fail(context, BO_INVALID, "session: %s %zu should be an id below %zu, found %ld",
                           targets ? "target" : "token", i, vocab, (long)ids[i]);
    return BO_OK;
}

static bo_status check_call(bo_context *context, const bo_session *session, const int32_t *ids, const int32_t *targets,
                            size_t count)
{
    if (!session) return bo_fail(context, BO_INVALID, "session: it is NULL");
    if (!ids && count) return bo_fail(context, BO_INVALID, "session: %zu tokens, but ids is NULL", count);
    if (session->broken)
        return bo_fail(context, BO_INVALID, "session: an earlier call failed half-way: bo_session_reset begins anew");
    BO_TRY(check_room(context, session, count));
    BO_TRY(check_ids(context, session, ids, count, false));
    return targets ? check_ids(context, session, targets, count, true) : BO_OK;
}

/* The graph of this size, made where it is not there yet. */
static bo_status graph_for(bo_context *context, bo_session *session, size_t size, bool score, bo_model_graph **out)
{
    bo_model_graph *graph = score ? &session->score[size] : &session->feed[size];
    *out = graph;
    if (graph->graph) return BO_OK;
    BO_TRY(plan_graph(context, session, session->sizes[size], score, graph));
    bo_status status = bo_graph_allocate(context, graph->graph);
    if (status != BO_OK) bo_model_graph_destroy(graph);
    return status;
}

static bo_status run(bo_context *context, bo_session *session, bo_model_graph *graph, size_t rows, const int32_t *ids,
                     const int32_t *targets)
{
    const int32_t last = (int32_t)rows - 1;
    const bo_pass pass = {.states = session->states};
    BO_TRY(bo_graph_write(context, graph->graph, graph->tokens, ids));
    if (graph->positions) {
        for (size_t i = 0; i < rows; i++) session->positions[i] = (int32_t)(session->tokens + i);
        BO_TRY(bo_graph_write(context, graph->graph, graph->positions, session->positions));
    }
    if (graph->targets) BO_TRY(bo_graph_write(context, graph->graph, graph->targets, targets));
    if (graph->chosen) BO_TRY(bo_graph_write(context, graph->graph, graph->chosen, &last));
    session->broken = true;
    BO_TRY(bo_graph_run(context, graph->graph, &pass));
    session->broken = false;
    session->tokens += rows;
    return BO_OK;
}

static bo_status read_tokens(bo_context *context, bo_session *session, const int32_t *ids, const int32_t *targets,
                             size_t count, float *losses)
{
    size_t size = 0;
    while (count) {
        bo_model_graph *graph;
        while (session->sizes[size] > count) size++;
        size_t rows = session->sizes[size];
        BO_TRY(graph_for(context, session, size, targets != NULL, &graph));
        BO_TRY(run(context, session, graph, rows, ids, targets));
        session->has_logits = graph->logits != 0;
        count -= rows;
        ids += rows;
        if (!targets && count == 0) return bo_graph_read(context, graph->graph, graph->logits, session->logits);
        if (!targets) continue;
        BO_TRY(bo_graph_read(context, graph->graph, graph->losses, losses));
        targets += rows;
        losses += rows;
    }
    return BO_OK;
}

bo_status bo_session_feed(bo_context *context, bo_session *session, const int32_t *ids, size_t count, float *logits)
{
    BO_TRY(check_call(context, session, ids, NULL, count));
    BO_TRY(read_tokens(context, session, ids, NULL, count, NULL));
    if (!logits) return BO_OK;
    if (!session->has_logits)
        return bo_fail(context, BO_INVALID,
                       "session: there are no logits: no token was fed yet, or the last was scored");
    memcpy(logits, session->logits, session->model->desc.vocab * sizeof *logits);
    return BO_OK;
}

bo_status bo_session_score(bo_context *context, bo_session *session, const int32_t *ids, const int32_t *targets,
                           size_t count, float *losses)
{
    if (!targets || !losses)
        return bo_fail(context, BO_INVALID, "session: %s NULL", targets ? "losses is" : "targets is");
    BO_TRY(check_call(context, session, ids, targets, count));
    return read_tokens(context, session, ids, targets, count, losses);
}
