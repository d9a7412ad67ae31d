/* Sessions: reading tokens with a state, and states in files. */
#include <assert.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "../base/trace.h"
#include "../attention/attention.h"
#include "../kernels/kernels.h"
#include "../io/output.h"
#include "../io/tensors.h"
#include "internal.h"
#include "session.h"

/* ====================================================================================================================
 * Sessions: reading tokens with a state. */

/* ---- sizes ------------------------------------------------------------------------------------------------------- */

bool bo_session_has_capacity(const bo_model *model)
{
    return bo_model_keeper(model) != NULL;
}

static size_t layer_bytes(const bo_session *session, size_t layer)
{
    return bo_layer_state_bytes(&session->model->desc, layer, session->attentions.all[layer]);
}

static size_t padded_bytes(const bo_session *session, size_t layer)
{
    return bo_layer_state_room(&session->model->desc, layer, session->attentions.all[layer]);
}

/* Sets states[i] to the state of layer i in memory that holds the states of all layers. */
static void place_states(const bo_session *session, char *memory, void **states)
{
    char *at = memory;
    for (size_t i = 0; i < session->model->desc.layers; i++) {
        states[i] = at;
        at += padded_bytes(session, i);
    }
    assert(at == memory + session->state_bytes);
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
    for (size_t i = 0; i < model->desc.layers; i++) session->state_bytes += padded_bytes(session, i);
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

/* ---- creation and destruction ------------------------------------------------------------------------------------ */

bo_status bo_session_reset(bo_context *context, bo_session *session)
{
    BO_REQUIRE(context, session);
    for (size_t i = 0; i < session->model->desc.layers; i++)
        BO_TRY(bo_layer_state_begin(context, session->model, i, session->attentions.all[i], session->states[i]));
    session->tokens = 0;
    session->has_logits = session->broken = false;
    return BO_OK;
}

static bo_status build(bo_context *context, const bo_model *model, const bo_session_desc *desc, bo_session *session)
{
    BO_TRY(resolve(context, model, desc, session));
    session->memory = bo_layer_states_allocate(context, model, 1, session->state_bytes, "a session's state");
    session->states = bo_alloc(context, model->desc.layers, sizeof *session->states, "a session's states");
    session->positions = bo_alloc(context, session->desc.chunk, sizeof *session->positions, "positions");
    session->logits = bo_alloc(context, model->desc.vocab, sizeof *session->logits, "logits");
    if (!session->memory || !session->states || !session->positions || !session->logits) return BO_MEMORY;
    place_states(session, session->memory, session->states);
    return bo_session_reset(context, session);
}

bo_status bo_session_create(bo_context *context, const bo_model *model, const bo_session_desc *desc, bo_session **out)
{
    if (out) *out = NULL;
    BO_REQUIRE(context, model, out);
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

/* ---- states in memory of the host -------------------------------------------------------------------------------- */

static const bo_backend *backend_of(const bo_session *session)
{
    return bo_weights_backend(session->model->weights);
}

/* Copies of the states in memory of the host. */
typedef struct host_states {
    char *memory;
    void **states;
} host_states;

static bo_status host_states_create(bo_context *context, const bo_session *session, host_states *out)
{
    out->memory = bo_alloc_raw(context, session->state_bytes, 1, "a session's state");
    out->states = bo_alloc(context, session->model->desc.layers, sizeof *out->states, "a session's states");
    if (!out->memory || !out->states) return BO_MEMORY;
    place_states(session, out->memory, out->states);
    return BO_OK;
}

static void host_states_free(host_states *h)
{
    bo_free(h->memory);
    bo_free(h->states);
}

static bo_status read_back(bo_context *context, const bo_session *session, const host_states *h)
{
    for (size_t i = 0; i < session->model->desc.layers; i++)
        BO_TRY(backend_of(session)->read(context, h->states[i], session->states[i], layer_bytes(session, i)));
    return BO_OK;
}

static bo_status write_back(bo_context *context, const bo_session *session, const host_states *h)
{
    for (size_t i = 0; i < session->model->desc.layers; i++)
        BO_TRY(backend_of(session)->write(context, session->states[i], h->states[i], layer_bytes(session, i)));
    return BO_OK;
}

static bo_status repeat_states(bo_context *context, const bo_session *session, uint64_t tokens, void *const *states)
{
    for (size_t i = 0; i < session->model->desc.layers; i++)
        if (session->attentions.all[i])
            BO_TRY(bo_attention_state_repeat(context, session->attentions.all[i], states[i], tokens));
    return BO_OK;
}

static bo_status repeat_through_host(bo_context *context, const bo_session *session, uint64_t tokens)
{
    host_states h = {0};
    bo_status status = host_states_create(context, session, &h);
    if (status == BO_OK) status = read_back(context, session, &h);
    if (status == BO_OK) status = repeat_states(context, session, tokens, h.states);
    if (status == BO_OK) status = write_back(context, session, &h);
    host_states_free(&h);
    return status;
}

bo_status bo_session_repeat(bo_context *context, bo_session *session, uint64_t tokens)
{
    if (tokens > bo_session_most(session->model, session->desc.capacity))
        return bo_fail(context, BO_INVALID, "session: it cannot hold %llu tokens", (unsigned long long)tokens);
    session->broken = true; /* until all layers have changed */
    BO_TRY(backend_of(session)->plain ? repeat_states(context, session, tokens, session->states)
                                      : repeat_through_host(context, session, tokens));
    session->tokens = tokens;
    session->has_logits = session->broken = false;
    return BO_OK;
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

/* ====================================================================================================================
 * The state of a session as a safetensors file: the bytes of each layer's state, and the logits after the last
 * token. */

enum { FORMAT_VERSION = 1, NAME = 32 };
static const char format_name[] = "bochner.session";
static const uint64_t MOST_TOKENS = UINT64_C(1) << 56; /* leaves room to count further tokens */

typedef char layer_name[NAME];

static void name_layer(size_t layer, layer_name out)
{
    snprintf(out, NAME, "states.%zu", layer);
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

/* The states as they are written. Layers that keep every key have room for the tokens that were read, not for the whole
 * capacity of the session. */
typedef struct written_states {
    bo_sized_attentions attentions; /* of this capacity; empty if it is that of the session */
    size_t capacity;                /* 0: states have a fixed size */
    char *memory;                   /* of the states that differ from those of the session */
    host_states read;               /* from a device; empty if the states are in memory of the host */
    void *const *states;            /* of the capacity of the session, in memory of the host */
    bo_file_tensor *tensors;
    layer_name *names;
} written_states;

static void written_states_free(written_states *w, const bo_model *model)
{
    bo_sized_attentions_destroy(&w->attentions, model);
    host_states_free(&w->read);
    bo_free(w->memory);
    bo_free(w->tensors);
    bo_free(w->names);
}

/* Copies the states of layers that keep every key to states of the capacity that is written. */
static bo_status shrink_states(bo_context *context, const bo_session *session, written_states *w)
{
    const bo_model_desc *d = &session->model->desc;
    size_t bytes = 0;
    BO_TRY(bo_sized_attentions_create(context, session->model, w->capacity, w->capacity, &w->attentions));
    for (size_t i = 0; i < d->layers; i++) bytes += bo_layer_state_room(d, i, w->attentions.all[i]);
    w->memory = bo_alloc_raw(context, bytes, 1, "a session's state");
    if (!w->memory) return BO_MEMORY;
    char *at = w->memory;
    for (size_t i = 0; i < d->layers; i++) {
        const bo_attention *own = session->attentions.all[i], *smaller = w->attentions.all[i];
        if (!own) continue;
        BO_TRY(bo_attention_state_move(context, own, w->states[i], smaller, at));
        w->tensors[i].data = at;
        w->tensors[i].bytes = w->tensors[i].shape[0] = bo_layer_state_bytes(d, i, smaller);
        at += bo_layer_state_room(d, i, smaller);
    }
    return BO_OK;
}

static bo_status find_states(bo_context *context, const bo_session *session, written_states *w)
{
    w->states = session->states;
    if (backend_of(session)->plain) return BO_OK;
    BO_TRY(host_states_create(context, session, &w->read));
    w->states = w->read.states;
    return read_back(context, session, &w->read);
}

static size_t list_tensors(const bo_session *session, void *const *states, layer_name *names, bo_file_tensor *tensors)
{
    size_t layers = session->model->desc.layers, count = 0;
    for (size_t i = 0; i < layers; i++) {
        size_t bytes = layer_bytes(session, i);
        name_layer(i, names[i]);
        tensors[count++] = (bo_file_tensor){
            .name = names[i], .dtype = BO_U8, .rank = 1, .shape = {bytes}, .data = states[i], .bytes = bytes};
    }
    if (session->has_logits)
        tensors[count++] = (bo_file_tensor){.name = "logits",
                                            .dtype = BO_F32,
                                            .rank = 1,
                                            .shape = {session->model->desc.vocab},
                                            .data = session->logits,
                                            .bytes = session->model->desc.vocab * sizeof(float)};
    return count;
}

static bo_status hash_model(bo_context *context, const bo_session *session, uint64_t *fingerprint, uint64_t *digest)
{
    *fingerprint = session->has_hashes ? session->fingerprint : bo_model_fingerprint(session->model);
    *digest = session->digest;
    return session->has_hashes ? BO_OK : bo_model_digest(context, session->model, digest);
}

static bo_status write_tensors(bo_context *context, const bo_session *session, written_states *w, bo_output *output)
{
    char version[16], fingerprint[24], weights[24], tokens[24], capacity[24];
    const size_t layers = session->model->desc.layers;
    uint64_t model, digest;
    BO_TRY(hash_model(context, session, &model, &digest));
    w->names = bo_alloc(context, layers, sizeof *w->names, "names of states");
    w->tensors = bo_alloc(context, layers + 1, sizeof *w->tensors, "a session's states");
    if (!w->names || !w->tensors) return BO_MEMORY;
    BO_TRY(find_states(context, session, w));
    const size_t count = list_tensors(session, w->states, w->names, w->tensors);
    if (w->capacity && w->capacity < session->desc.capacity) BO_TRY(shrink_states(context, session, w));
    snprintf(version, sizeof version, "%d", FORMAT_VERSION);
    snprintf(fingerprint, sizeof fingerprint, "%016llx", (unsigned long long)model);
    snprintf(weights, sizeof weights, "%016llx", (unsigned long long)digest);
    snprintf(tokens, sizeof tokens, "%llu", (unsigned long long)session->tokens);
    snprintf(capacity, sizeof capacity, "%zu", w->capacity);
    bo_meta metas[] = {{"format", format_name}, {"format_version", version}, {"fingerprint", fingerprint},
                       {"weights", weights},    {"tokens", tokens},          {"capacity", capacity}};
    return bo_tensors_write_output(context, output, w->tensors, count, metas, sizeof metas / sizeof *metas);
}

static bo_status write_state(bo_context *context, const bo_session *session, bo_output *output)
{
    written_states w = {0};
    if (bo_session_has_capacity(session->model)) w.capacity = session->tokens ? (size_t)session->tokens : 1;
    const bo_status status = write_tensors(context, session, &w, output);
    written_states_free(&w, session->model);
    return status;
}

static bo_status check_whole(bo_context *context, const bo_session *session)
{
    return session->broken ? bo_fail(context, BO_INVALID, "session: an earlier call failed") : BO_OK;
}

bo_status bo_session_save(bo_context *context, const bo_session *session, const char *path)
{
    BO_REQUIRE(context, session, path);
    bo_output *output;
    BO_TRY(check_whole(context, session));
    BO_TRY(bo_output_open(context, path, &output));
    return bo_output_finish(context, output, write_state(context, session, output));
}

bo_status bo_session_save_memory(bo_context *context, const bo_session *session, void **bytes, size_t *size)
{
    if (bytes) *bytes = NULL;
    if (size) *size = 0;
    BO_REQUIRE(context, session, bytes, size);
    bo_output *output;
    BO_TRY(check_whole(context, session));
    BO_TRY(bo_output_open_memory(context, bytes, size, &output));
    return bo_output_finish(context, output, write_state(context, session, output));
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

typedef struct header {
    uint64_t fingerprint, weights, tokens, capacity;
} header;

/* Reads an integer of the metadata. */
static bo_status read_number(bo_context *context, const bo_tensors *file, const char *key, int base, uint64_t *out)
{
    const char *text = bo_tensors_meta(file, key);
    char *end = NULL;
    if (text && *text) *out = strtoull(text, &end, base);
    if (end && !*end) return BO_OK;
    return bo_fail(context, BO_FORMAT, "%s: \"%s\" is missing or not a number", bo_tensors_path(file), key);
}

static bo_status read_header(bo_context *context, const bo_tensors *file, header *out)
{
    const char *path = bo_tensors_path(file), *format = bo_tensors_meta(file, "format");
    uint64_t version = 0;
    if (!format || strcmp(format, format_name) != 0)
        return bo_fail(context, BO_FORMAT, "%s: expected the state of a session, found %.60s", path,
                       format ? format : "another safetensors file");
    BO_TRY(read_number(context, file, "format_version", 10, &version));
    if (version == 0) return bo_fail(context, BO_FORMAT, "%s: \"format_version\": expected at least 1, found 0", path);
    if (version > FORMAT_VERSION)
        return bo_fail(context, BO_VERSION, "%s: the state has format %llu, but Bochner %s reads formats up to %d",
                       path, (unsigned long long)version, bo_version(), FORMAT_VERSION);
    BO_TRY(read_number(context, file, "fingerprint", 16, &out->fingerprint));
    BO_TRY(read_number(context, file, "weights", 16, &out->weights));
    BO_TRY(read_number(context, file, "tokens", 10, &out->tokens));
    if (out->tokens > MOST_TOKENS)
        return bo_fail(context, BO_FORMAT, "%s: \"tokens\": expected at most %llu, found %llu", path,
                       (unsigned long long)MOST_TOKENS, (unsigned long long)out->tokens);
    return read_number(context, file, "capacity", 10, &out->capacity);
}

static bo_status check_model(bo_context *context, const bo_tensors *file, const bo_session *session, const header *head)
{
    uint64_t expected, digest;
    BO_TRY(hash_model(context, session, &expected, &digest));
    if (head->fingerprint != expected)
        return bo_fail(context, BO_INVALID,
                       "%s: the state belongs to another model: it has fingerprint %016llx, this model has %016llx",
                       bo_tensors_path(file), (unsigned long long)head->fingerprint, (unsigned long long)expected);
    if (head->weights == digest) return BO_OK;
    return bo_fail(
        context, BO_INVALID,
        "%s: the state was made with other weights: by another training, or before the model was trained further; read the text again",
        bo_tensors_path(file));
}

/* Reports invalid bytes of a state as an error in the file. */
static bo_status blame(bo_context *context, bo_status status, const bo_tensors *file, size_t layer)
{
    if (status != BO_INVALID && status != BO_VERSION) return status;
    return bo_fail(context, BO_FORMAT, "%s: layer %zu: %s", bo_tensors_path(file), layer, bo_context_error(context));
}

static bo_status read_layer(bo_context *context, const bo_tensors *file, size_t layer, const bo_attention *made_by,
                            const bo_attention *attention, uint64_t tokens, void *state)
{
    layer_name name;
    const bo_file_tensor *tensor;
    size_t bytes = bo_attention_state_bytes(made_by);
    name_layer(layer, name);
    BO_TRY(bo_tensors_require(context, file, name, BO_U8, 1, &bytes, &tensor));
    void *copy = bo_alloc_raw(context, bytes, 1, "a state from a file"); /* aligned */
    if (!copy) return BO_MEMORY;
    memcpy(copy, tensor->data, bytes);
    bo_status status = bo_attention_state_move(context, made_by, copy, attention, state);
    bo_free(copy);
    if (status == BO_OK && bo_attention_state_tokens(state) != tokens)
        return bo_fail(context, BO_FORMAT, "%s: layer %zu has read %llu tokens, the session %llu",
                       bo_tensors_path(file), layer, (unsigned long long)bo_attention_state_tokens(state),
                       (unsigned long long)tokens);
    return blame(context, status, file, layer);
}

/* Reads the state of a mixer without attention: finite numbers. */
static bo_status read_numbers(bo_context *context, const bo_tensors *file, const bo_session *session, size_t layer,
                              void *state)
{
    layer_name name;
    const bo_file_tensor *tensor;
    size_t bytes = layer_bytes(session, layer);
    name_layer(layer, name);
    BO_TRY(bo_tensors_require(context, file, name, BO_U8, 1, &bytes, &tensor));
    memcpy(state, tensor->data, bytes);
    if (bo_context_kernels(context)->finite(bytes / sizeof(float), state)) return BO_OK;
    return bo_fail(context, BO_FORMAT, "%s: layer %zu: the state holds a number that is not finite",
                   bo_tensors_path(file), layer);
}

static bo_status read_states(bo_context *context, const bo_tensors *file, const bo_session *session, const header *head,
                             void *const *states)
{
    const bo_model *model = session->model;
    bo_sized_attentions theirs = {0};
    bo_attention *const *made_by = session->attentions.all;
    bo_status status = BO_OK;
    if (bo_session_has_capacity(model) && head->tokens > session->desc.capacity)
        return bo_fail(context, BO_INVALID, "%s: the state has %llu tokens, but the capacity of the session is %zu",
                       bo_tensors_path(file), (unsigned long long)head->tokens, session->desc.capacity);
    if (bo_session_has_capacity(model) && head->capacity != session->desc.capacity) {
        status = bo_sized_attentions_create(context, model, head->capacity, head->capacity, &theirs);
        if (status == BO_INVALID)
            status = bo_fail(context, BO_FORMAT, "%s: %s", bo_tensors_path(file), bo_context_error(context));
        made_by = theirs.all;
    }
    for (size_t i = 0; status == BO_OK && i < model->desc.layers; i++)
        status = made_by[i]
                     ? read_layer(context, file, i, made_by[i], session->attentions.all[i], head->tokens, states[i])
                     : read_numbers(context, file, session, i, states[i]);
    bo_sized_attentions_destroy(&theirs, model);
    return status;
}

/* Reads a state. The session changes only after everything has been read. */
static bo_status load(bo_context *context, const bo_tensors *file, bo_session *session, host_states *h)
{
    header head = {0};
    const bo_file_tensor *logits = NULL;
    size_t vocab = session->model->desc.vocab;
    BO_TRY(read_header(context, file, &head));
    BO_TRY(check_model(context, file, session, &head));
    BO_TRY(host_states_create(context, session, h));
    BO_TRY(read_states(context, file, session, &head, h->states));
    if (bo_tensors_find(file, "logits"))
        BO_TRY(bo_tensors_require(context, file, "logits", BO_F32, 1, &vocab, &logits));
    if (logits && !bo_context_kernels(context)->finite(vocab, logits->data))
        return bo_fail(context, BO_FORMAT, "%s: the logits hold a number that is not finite", bo_tensors_path(file));
    if (!backend_of(session)->plain) {
        session->broken = true; /* until all layers are written */
        BO_TRY(write_back(context, session, h));
    }
    if (logits) memcpy(session->logits, logits->data, vocab * sizeof(float));
    session->has_logits = logits != NULL;
    session->tokens = head.tokens;
    session->broken = false;
    return BO_OK;
}

static bo_status load_from(bo_context *context, bo_session *session, const bo_tensors *file)
{
    host_states h = {0};
    const bo_status status = load(context, file, session, &h);
    if (status == BO_OK && backend_of(session)->plain) {
        const host_states old = {session->memory, session->states};
        session->memory = h.memory;
        session->states = h.states;
        h = old;
    }
    host_states_free(&h);
    return status;
}

/* Opens a file, or (path NULL) its bytes. */
static bo_status open_state(bo_context *context, const char *path, const void *bytes, size_t size, bo_tensors **out)
{
    if (path) return bo_tensors_open(context, path, out);
    return bo_tensors_open_memory(context, "memory", bytes, size, out);
}

static bo_status load_state(bo_context *context, bo_session *session, const char *path, const void *bytes, size_t size)
{
    bo_tensors *file;
    BO_TRY(open_state(context, path, bytes, size, &file));
    const bo_status status = load_from(context, session, file);
    bo_tensors_close(file);
    return status;
}

bo_status bo_session_load(bo_context *context, bo_session *session, const char *path)
{
    BO_REQUIRE(context, session, path);
    return load_state(context, session, path, NULL, 0);
}

bo_status bo_session_load_memory(bo_context *context, bo_session *session, const void *bytes, size_t size)
{
    BO_REQUIRE(context, session);
    BO_REQUIRE_IF(context, size > 0, bytes);
    return load_state(context, session, NULL, bytes, size);
}

bo_status bo_session_recognize(bo_context *context, const bo_session *session, const void *bytes, size_t size)
{
    bo_tensors *file;
    header head = {0};
    BO_TRY(open_state(context, NULL, bytes, size, &file));
    bo_status status = read_header(context, file, &head);
    if (status == BO_OK) status = check_model(context, file, session, &head);
    bo_tensors_close(file);
    return status;
}

static bo_status peek(bo_context *context, const char *path, const void *bytes, size_t size, uint64_t *tokens)
{
    bo_tensors *file;
    header head = {0};
    *tokens = 0;
    BO_TRY(open_state(context, path, bytes, size, &file));
    const bo_status status = read_header(context, file, &head);
    bo_tensors_close(file);
    if (status == BO_OK) *tokens = head.tokens;
    return status;
}

bo_status bo_session_peek(bo_context *context, const char *path, uint64_t *tokens)
{
    BO_REQUIRE(context, path, tokens);
    return peek(context, path, NULL, 0, tokens);
}

bo_status bo_session_peek_memory(bo_context *context, const void *bytes, size_t size, uint64_t *tokens)
{
    BO_REQUIRE(context, tokens);
    BO_REQUIRE_IF(context, size > 0, bytes);
    return peek(context, NULL, bytes, size, tokens);
}
