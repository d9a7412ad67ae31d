/* A session's state as a safetensors file: bytes of each layer, and the logits after the last token. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "../attention/attention.h"
#include "../kernels/kernels.h"
#include "../io/tensors.h"
#include "session.h"

enum { FORMAT_VERSION = 1, NAME = 32 };
static const char format_name[] = "bochner.session";
static const uint64_t MOST_TOKENS = UINT64_C(1) << 56; /* more can be counted on top of them */

typedef char layer_name[NAME];

static void name_layer(size_t layer, layer_name out)
{
    snprintf(out, NAME, "states.%zu", layer);
}

/* ---- out ---------------------------------------------------------------------------------------------------------- */

static size_t list_tensors(const bo_session *session, layer_name *names, bo_file_tensor *tensors)
{
    size_t layers = session->model->desc.layers, count = 0;
    for (size_t i = 0; i < layers; i++) {
        size_t bytes = bo_session_layer_bytes(session, i);
        name_layer(i, names[i]);
        tensors[count++] = (bo_file_tensor){
            .name = names[i], .dtype = BO_U8, .rank = 1, .shape = {bytes}, .data = session->states[i], .bytes = bytes};
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

bo_status bo_session_save(bo_context *context, const bo_session *session, const char *path)
{
    if (!session || session->broken)
        return bo_fail(context, BO_INVALID, "session: %s", session ? "an earlier call failed half-way" : "it is NULL");
    char version[16], fingerprint[24], weights[24], tokens[24], capacity[24];
    size_t layers = session->model->desc.layers;
    uint64_t digest;
    BO_TRY(bo_model_digest(context, session->model, &digest));
    snprintf(version, sizeof version, "%d", FORMAT_VERSION);
    snprintf(fingerprint, sizeof fingerprint, "%016llx", (unsigned long long)bo_model_fingerprint(session->model));
    snprintf(weights, sizeof weights, "%016llx", (unsigned long long)digest);
    snprintf(tokens, sizeof tokens, "%llu", (unsigned long long)session->tokens);
    snprintf(capacity, sizeof capacity, "%zu", bo_session_has_capacity(session->model) ? session->desc.capacity : 0);
    bo_meta metas[] = {{"format", format_name}, {"format_version", version}, {"fingerprint", fingerprint},
                       {"weights", weights},    {"tokens", tokens},          {"capacity", capacity}};
    layer_name *names = bo_alloc(context, layers, sizeof *names, "names of states");
    bo_file_tensor *tensors = bo_alloc(context, layers + 1, sizeof *tensors, "a session's states");
    bo_status status = BO_MEMORY;
    if (names && tensors)
        status = bo_tensors_write(context, path, tensors, list_tensors(session, names, tensors), metas,
                                  sizeof metas / sizeof *metas);
    bo_free(names);
    bo_free(tensors);
    return status;
}

/* ---- in ----------------------------------------------------------------------------------------------------------- */

typedef struct header {
    uint64_t fingerprint, weights, tokens, capacity;
} header;

/* A whole number of the metadata. */
static bo_status read_number(bo_context *context, const bo_tensors *file, const char *key, int base, uint64_t *out)
{
    const char *text = bo_tensors_meta(file, key);
    char *end = NULL;
    if (text && *text) *out = strtoull(text, &end, base);
    if (end && !*end) return BO_OK;
    return bo_fail(context, BO_FORMAT, "%s: \"%s\" is missing or no number", bo_tensors_path(file), key);
}

static bo_status read_header(bo_context *context, const bo_tensors *file, header *out)
{
    const char *path = bo_tensors_path(file), *format = bo_tensors_meta(file, "format");
    uint64_t version = 0;
    if (!format || strcmp(format, format_name) != 0)
        return bo_fail(context, BO_FORMAT, "%s: expected the state of a session, found %.60s", path,
                       format ? format : "another safetensors file");
    BO_TRY(read_number(context, file, "format_version", 10, &version));
    if (version > FORMAT_VERSION)
        return bo_fail(context, BO_VERSION, "%s: the state has format %llu, this is Bochner %s, which reads up to %d",
                       path, (unsigned long long)version, bo_version(), FORMAT_VERSION);
    BO_TRY(read_number(context, file, "fingerprint", 16, &out->fingerprint));
    BO_TRY(read_number(context, file, "weights", 16, &out->weights));
    BO_TRY(read_number(context, file, "tokens", 10, &out->tokens));
    if (out->tokens > MOST_TOKENS)
        return bo_fail(context, BO_FORMAT, "%s: \"tokens\": expected at most %llu, found %llu", path,
                       (unsigned long long)MOST_TOKENS, (unsigned long long)out->tokens);
    return read_number(context, file, "capacity", 10, &out->capacity);
}

static bo_status check_model(bo_context *context, const bo_tensors *file, const bo_model *model, const header *head)
{
    uint64_t expected = bo_model_fingerprint(model), digest;
    if (head->fingerprint != expected)
        return bo_fail(context, BO_INVALID,
                       "%s: the state belongs to another model: fingerprint %016llx, this one has %016llx",
                       bo_tensors_path(file), (unsigned long long)head->fingerprint, (unsigned long long)expected);
    BO_TRY(bo_model_digest(context, model, &digest));
    if (head->weights == digest) return BO_OK;
    return bo_fail(context, BO_INVALID,
                   "%s: the state was made with other weights than this model has: it belongs to another training, or "
                   "the model was trained further; let the model read the text again",
                   bo_tensors_path(file));
}

/* What is wrong with the bytes of a state is the file's fault. */
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

/* Of a mixer without attention: numbers, which are finite. */
static bo_status read_numbers(bo_context *context, const bo_tensors *file, const bo_session *session, size_t layer,
                              void *state)
{
    layer_name name;
    const bo_file_tensor *tensor;
    size_t bytes = bo_session_layer_bytes(session, layer);
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
    bo_attention **theirs = NULL;
    bo_attention *const *made_by = session->attentions;
    bo_status status = BO_OK;
    if (bo_session_has_capacity(model) && head->tokens > session->desc.capacity)
        return bo_fail(context, BO_INVALID, "%s: the state holds %llu tokens, the session has room for %zu (capacity)",
                       bo_tensors_path(file), (unsigned long long)head->tokens, session->desc.capacity);
    if (bo_session_has_capacity(model) && head->capacity != session->desc.capacity) {
        status = bo_attentions_create(context, &model->desc, head->capacity, 0, &theirs);
        if (status == BO_INVALID)
            status = bo_fail(context, BO_FORMAT, "%s: %s", bo_tensors_path(file), bo_context_error(context));
        made_by = theirs;
    }
    for (size_t i = 0; status == BO_OK && i < model->desc.layers; i++)
        status = made_by[i] ? read_layer(context, file, i, made_by[i], session->attentions[i], head->tokens, states[i])
                            : read_numbers(context, file, session, i, states[i]);
    bo_attentions_destroy(theirs, &model->desc);
    return status;
}

/* The session changes only when everything has been read. */
static bo_status load(bo_context *context, const bo_tensors *file, bo_session *session, char *memory, void **states)
{
    header head = {0};
    const bo_file_tensor *logits = NULL;
    size_t vocab = session->model->desc.vocab;
    BO_TRY(read_header(context, file, &head));
    BO_TRY(check_model(context, file, session->model, &head));
    bo_session_place(session, memory, states);
    BO_TRY(read_states(context, file, session, &head, states));
    if (bo_tensors_find(file, "logits"))
        BO_TRY(bo_tensors_require(context, file, "logits", BO_F32, 1, &vocab, &logits));
    if (logits) memcpy(session->logits, logits->data, vocab * sizeof(float));
    session->has_logits = logits != NULL;
    session->tokens = head.tokens;
    session->broken = false;
    return BO_OK;
}

bo_status bo_session_load(bo_context *context, bo_session *session, const char *path)
{
    if (!session) return bo_fail(context, BO_INVALID, "session: it is NULL");
    bo_tensors *file;
    BO_TRY(bo_tensors_open(context, path, &file));
    char *memory = bo_alloc_raw(context, session->state_bytes, 1, "a session's state");
    void **states = bo_alloc(context, session->model->desc.layers, sizeof *states, "a session's states");
    bo_status status = memory && states ? load(context, file, session, memory, states) : BO_MEMORY;
    if (status == BO_OK) {
        char *old = session->memory;
        void **old_states = session->states;
        session->memory = memory;
        session->states = states;
        memory = old;
        states = old_states;
    }
    bo_free(memory);
    bo_free(states);
    bo_tensors_close(file);
    return status;
}

bo_status bo_session_peek(bo_context *context, const char *path, uint64_t *tokens)
{
    bo_tensors *file;
    header head = {0};
    BO_TRY(bo_tensors_open(context, path, &file));
    bo_status status = read_header(context, file, &head);
    bo_tensors_close(file);
    if (status == BO_OK) *tokens = head.tokens;
    return status;
}
