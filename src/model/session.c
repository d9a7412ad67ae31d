/* Sessions: reading tokens with a state. */
#include <assert.h>
#include <string.h>
#include "../base/trace.h"
#include "internal.h"
#include "session.h"

/* ---- sizes ------------------------------------------------------------------------------------------------------- */

bool bo_session_has_capacity(const bo_model *model)
{
    return bo_model_keeper(model) != NULL;
}

static bo_status resolve(bo_context *context, const bo_model *model, const bo_session_desc *desc, bo_session *session)
{
    BO_TRY(bo_model_require_language(context, model, "session"));
    bo_session_desc d = desc ? *desc : (bo_session_desc){0};
    BO_TRY(bo_check_reserved(context, "bo_session_desc", d.reserved));
    if (!d.chunk) d.chunk = 256;
    if (!d.capacity) d.capacity = model->desc.context;
    if (d.chunk > BO_SESSION_CHUNK)
        return bo_fail(context, BO_INVALID, "session: chunk must be at most %d, found %zu", BO_SESSION_CHUNK, d.chunk);
    session->model = model;
    session->desc = d;
    session->sizes[session->size_count++] = d.chunk;
    for (size_t size = BO_SESSION_CHUNK; size; size /= 2) {
        if (size < d.chunk) session->sizes[session->size_count++] = size;
        if (size >= 4 && size / 4 * 3 < d.chunk) session->sizes[session->size_count++] = size / 4 * 3;
    }
    BO_TRY(bo_sized_attentions_create(context, model, d.capacity, d.capacity, &session->attentions));
    session->state_bytes = bo_session_states_bytes(session);
    return BO_OK;
}

/* Plans a graph without allocating it. */
static bo_status plan_graph(bo_context *context, const bo_session *session, size_t rows, bo_session_result result,
                            bo_model_graph *out)
{
    bo_model_graph_desc desc = {.rows = rows,
                                .loss = result == BO_SESSION_RESULT_LOSSES,
                                .logits = result == BO_SESSION_RESULT_LAST || result == BO_SESSION_RESULT_ALL,
                                .hidden = result == BO_SESSION_RESULT_HIDDEN,
                                .chosen = result == BO_SESSION_RESULT_ALL ? rows : 1,
                                .attentions = session->attentions.all};
    return bo_model_graph_create(context, session->model, &desc, out);
}

bo_status bo_session_estimate(bo_context *context, const bo_model *model, const bo_session_desc *desc,
                              size_t *state_bytes, size_t *all_bytes)
{
    BO_REQUIRE(context, model);
    bo_session session = {0};
    bo_status status = resolve(context, model, desc, &session);
    size_t bytes = session.state_bytes + sizeof session;
    for (size_t i = 0; status == BO_OK && all_bytes && i < 2 * session.size_count; i++) {
        bo_model_graph graph;
        status = plan_graph(context, &session, session.sizes[i / 2],
                            i % 2 ? BO_SESSION_RESULT_LOSSES : BO_SESSION_RESULT_LAST, &graph);
        if (status != BO_OK) break;
        bytes += bo_graph_bytes(graph.graph);
        bo_model_graph_destroy(&graph);
    }
    if (status == BO_OK && state_bytes) *state_bytes = session.state_bytes;
    if (status == BO_OK && all_bytes)
        *all_bytes = bytes + session.desc.chunk * sizeof(int32_t) + model->desc.vocab * sizeof(float);
    bo_sized_attentions_destroy(&session.attentions, model);
    return status;
}

bo_status bo_session_workspace(bo_context *context, const bo_model *model, const bo_session_desc *desc,
                               bo_session_result result, size_t *bytes)
{
    bo_session session = {0};
    bo_status status = resolve(context, model, desc, &session);
    *bytes = 0;
    for (size_t i = 0; status == BO_OK && i < session.size_count; i++) {
        bo_model_graph graph;
        status = plan_graph(context, &session, session.sizes[i], result, &graph);
        if (status != BO_OK) break;
        *bytes += bo_graph_bytes(graph.graph);
        bo_model_graph_destroy(&graph);
    }
    bo_sized_attentions_destroy(&session.attentions, model);
    return status;
}

/* ---- creation and destruction ------------------------------------------------------------------------------------ */

/* The memory of the states is filled with zeros. */
static bo_status start_states(bo_context *context, bo_session *session)
{
    for (size_t i = 0; i < session->model->desc.layers; i++)
        BO_TRY(bo_layer_state_start(context, session->model, session->attentions.all[i], session->states[i]));
    session->tokens = 0;
    session->has_logits = session->broken = false;
    return BO_OK;
}

bo_status bo_session_reset(bo_context *context, bo_session *session)
{
    BO_REQUIRE(context, session);
    BO_TRY(bo_layer_states_zero(context, session->model, session->memory, session->state_bytes));
    return start_states(context, session);
}

static bo_status build(bo_context *context, const bo_model *model, const bo_session_desc *desc, bo_session *session)
{
    BO_TRY(resolve(context, model, desc, session));
    session->states = bo_alloc(context, model->desc.layers, sizeof *session->states, "a session's states");
    session->positions = bo_alloc(context, session->desc.chunk, sizeof *session->positions, "positions");
    session->logits = bo_alloc(context, model->desc.vocab, sizeof *session->logits, "logits");
    return session->states && session->positions && session->logits ? BO_OK : BO_MEMORY;
}

static bo_status build_states(bo_context *context, bo_session *session)
{
    session->memory = bo_layer_states_allocate(context, session->model, 1, session->state_bytes, "a session's state");
    if (!session->memory) return BO_MEMORY;
    bo_session_place(session, session->memory, session->states);
    return start_states(context, session);
}

static bo_status create(bo_context *context, const bo_model *model, const bo_session_desc *desc, bool has_states,
                        bo_session **out)
{
    bo_session *session = bo_alloc(context, 1, sizeof *session, "a session");
    if (!session) return BO_MEMORY;
    bo_status status = build(context, model, desc, session);
    if (status == BO_OK && has_states) status = build_states(context, session);
    if (status != BO_OK) {
        bo_session_destroy(session);
        return status;
    }
    *out = session;
    return BO_OK;
}

bo_status bo_session_create(bo_context *context, const bo_model *model, const bo_session_desc *desc, bo_session **out)
{
    if (out) *out = NULL;
    BO_REQUIRE(context, model, out);
    return create(context, model, desc, true, out);
}

bo_status bo_session_create_reader(bo_context *context, const bo_model *model, const bo_session_desc *desc,
                                   bo_session **out)
{
    return create(context, model, desc, false, out);
}

void bo_session_destroy(bo_session *session)
{
    if (!session) return;
    for (size_t r = 0; r < BO_SESSION_RESULT_COUNT; r++)
        for (size_t i = 0; i < session->size_count; i++) bo_model_graph_destroy(&session->graphs[r][i]);
    bo_sized_attentions_destroy(&session->attentions, session->model);
    bo_layer_states_release(session->model, session->memory);
    bo_free(session->states);
    bo_free(session->positions);
    bo_free(session->logits);
    bo_free(session);
}

uint64_t bo_session_tokens(const bo_session *session)
{
    return session ? session->tokens : 0;
}

uint64_t bo_session_most(const bo_model *model, size_t capacity)
{
    const bo_model_desc *d = &model->desc;
    uint64_t most = d->positions == BO_POSITIONS_NONE ? UINT64_MAX : INT32_MAX;
    if (bo_session_has_capacity(model) && capacity < most) most = capacity;
    if (bo_model_most_tokens(d) && bo_model_most_tokens(d) < most) most = bo_model_most_tokens(d);
    return most;
}

uint64_t bo_session_room(const bo_session *session)
{
    if (!session) return 0;
    const uint64_t most = bo_session_most(session->model, session->desc.capacity);
    return most > session->tokens ? most - session->tokens : 0;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static bo_status check_room(bo_context *context, const bo_session *session, size_t count)
{
    const bo_model_desc *d = &session->model->desc;
    uint64_t end = session->tokens + count;
    if (bo_session_has_capacity(session->model) && end > session->desc.capacity)
        return bo_fail(
            context, BO_INVALID,
            "session: attention %s keeps all keys, and its capacity is %zu tokens; %llu have been read and %zu more are requested",
            bo_attention_kind_name(bo_attention_describe(bo_model_keeper(session->model))->kind),
            session->desc.capacity, (unsigned long long)session->tokens, count);
    if (bo_model_most_tokens(d) && end > bo_model_most_tokens(d))
        return bo_fail(
            context, BO_INVALID,
            "session: the model has only %zu positions; %llu tokens have been read and %zu more are requested",
            d->context, (unsigned long long)session->tokens, count);
    if (d->positions != BO_POSITIONS_NONE && end > INT32_MAX)
        return bo_fail(context, BO_INVALID, "session: positions are limited to %d", INT32_MAX);
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
    if (session->broken)
        return bo_fail(context, BO_INVALID, "session: an earlier call failed; call bo_session_reset to start again");
    BO_TRY(check_room(context, session, count));
    BO_TRY(check_ids(context, session, ids, count, false));
    return targets ? check_ids(context, session, targets, count, true) : BO_OK;
}

/* Returns the graph of this size, and creates it if necessary. */
static bo_status graph_for(bo_context *context, bo_session *session, size_t size, bo_session_result result,
                           bo_model_graph **out)
{
    bo_model_graph *graph = &session->graphs[result][size];
    *out = graph;
    if (graph->graph) return BO_OK;
    BO_TRY(plan_graph(context, session, session->sizes[size], result, graph));
    bo_status status = bo_graph_allocate(context, graph->graph);
    if (status != BO_OK) bo_model_graph_destroy(graph);
    return status;
}

static bo_status run(bo_context *context, bo_session *session, bo_model_graph *graph, size_t rows, const int32_t *ids,
                     const int32_t *targets)
{
    const int32_t last = (int32_t)rows - 1;
    const bo_graph_pass pass = {.states = session->states};
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
    assert(!bo_session_has_capacity(session->model) || session->tokens <= session->desc.capacity);
    return BO_OK;
}

/* Tokens to read, and the memory of the result: the losses of `targets`, or the logits or hidden state of every token. */
typedef struct reading {
    const int32_t *ids, *targets;
    size_t count;
    bo_session_result result;
    float *out;
} reading;

/* Logits of every token take a lot of memory, so fewer tokens are read at a time. */
enum { MOST_LOGITS = 64 };

/* Returns the index of the largest block, from index `size`, that may be read next. */
static size_t next_size(const bo_session *session, const reading *r, size_t size)
{
    const size_t most = r->result == BO_SESSION_RESULT_ALL && r->count > MOST_LOGITS ? MOST_LOGITS : r->count;
    while (session->sizes[size] > most) size++;
    return size;
}

/* Keeps the logits after the last token, and copies the rest of the result to the caller. */
static bo_status take_result(bo_context *context, bo_session *session, const bo_model_graph *graph, size_t rows,
                             const reading *r)
{
    const size_t vocab = session->model->desc.vocab;
    switch (r->result) {
    case BO_SESSION_RESULT_LOSSES:
        return bo_graph_read(context, graph->graph, graph->losses, r->out);
    case BO_SESSION_RESULT_HIDDEN:
        return bo_graph_read(context, graph->graph, graph->hidden, r->out);
    case BO_SESSION_RESULT_ALL:
        BO_TRY(bo_graph_read(context, graph->graph, graph->logits, r->out));
        memcpy(session->logits, r->out + (rows - 1) * vocab, vocab * sizeof *session->logits);
        return BO_OK;
    default:
        return r->count == rows ? bo_graph_read(context, graph->graph, graph->logits, session->logits) : BO_OK;
    }
}

static bo_status read_tokens(bo_context *context, bo_session *session, reading r)
{
    const bo_model_desc *d = &session->model->desc;
    const size_t per_token = r.result == BO_SESSION_RESULT_ALL      ? d->vocab
                             : r.result == BO_SESSION_RESULT_HIDDEN ? d->width
                                                                    : 1;
    for (size_t size = 0; r.count;) {
        bo_model_graph *graph;
        size = next_size(session, &r, size);
        const size_t rows = session->sizes[size];
        BO_TRY(graph_for(context, session, size, r.result, &graph));
        BO_TRY(run(context, session, graph, rows, r.ids, r.targets));
        session->has_logits = graph->logits != 0;
        BO_TRY(take_result(context, session, graph, rows, &r));
        r.count -= rows;
        r.ids += rows;
        if (r.targets) r.targets += rows;
        if (r.out) r.out += rows * per_token;
    }
    return BO_OK;
}

bo_status bo_session_feed(bo_context *context, bo_session *session, const int32_t *ids, size_t count, float *logits)
{
    BO_REQUIRE(context, session);
    BO_REQUIRE_IF(context, count > 0, ids);
    BO_SPAN(context, "model", "read tokens");
    BO_TRY(check_call(context, session, ids, NULL, count));
    BO_TRY(read_tokens(context, session, (reading){.ids = ids, .count = count}));
    if (!logits) return BO_OK;
    if (!session->has_logits)
        return bo_fail(context, BO_INVALID,
                       "session: no logits are available: no token has been fed yet, or the last tokens were scored");
    memcpy(logits, session->logits, session->model->desc.vocab * sizeof *logits);
    return BO_OK;
}

bo_status bo_session_score(bo_context *context, bo_session *session, const int32_t *ids, const int32_t *targets,
                           size_t count, float *losses)
{
    BO_REQUIRE(context, session);
    BO_REQUIRE_IF(context, count > 0, ids, targets, losses);
    BO_SPAN(context, "model", "score tokens");
    BO_TRY(check_call(context, session, ids, targets, count));
    return read_tokens(context, session, (reading){ids, targets, count, BO_SESSION_RESULT_LOSSES, losses});
}

bo_status bo_session_logits(bo_context *context, bo_session *session, const int32_t *ids, size_t count, float *logits)
{
    BO_REQUIRE(context, session);
    BO_REQUIRE_IF(context, count > 0, ids, logits);
    BO_SPAN(context, "model", "read tokens");
    BO_TRY(check_call(context, session, ids, NULL, count));
    return read_tokens(context, session,
                       (reading){.ids = ids, .count = count, .result = BO_SESSION_RESULT_ALL, .out = logits});
}

bo_status bo_session_hidden(bo_context *context, bo_session *session, const int32_t *ids, size_t count, float *hidden)
{
    BO_REQUIRE(context, session);
    BO_REQUIRE_IF(context, count > 0, ids, hidden);
    BO_SPAN(context, "model", "read tokens");
    BO_TRY(check_call(context, session, ids, NULL, count));
    return read_tokens(context, session,
                       (reading){.ids = ids, .count = count, .result = BO_SESSION_RESULT_HIDDEN, .out = hidden});
}
