/* The state of a session as a safetensors file: the bytes of each layer's state, and the logits after the last token. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "../attention/attention.h"
#include "../io/output.h"
#include "../io/tensors.h"
#include "../device/cpu/kernels.h"
#include "internal.h"
#include "session.h"

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
    bo_host_states read;            /* from a device; empty if the states are in memory of the host */
    void *const *states;            /* of the capacity of the session, in memory of the host */
    bo_file_tensor *tensors;
    layer_name *names;
} written_states;

static void written_states_free(written_states *w, const bo_model *model)
{
    bo_sized_attentions_destroy(&w->attentions, model);
    bo_host_states_free(&w->read);
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
    w->memory = bo_alloc_sparse(context, bytes, 1, "a session's state");
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
    if (!bo_device_is_gpu(bo_session_device(session))) return BO_OK;
    BO_TRY(bo_host_states_create(context, session, &w->read));
    w->states = w->read.states;
    return bo_host_states_read(context, session, &w->read);
}

/* Mixers without attention do not notice that their numbers overflow. A state with such numbers could not be read. */
static bo_status check_numbers(bo_context *context, const bo_session *session, void *const *states)
{
    const bo_kernels *kernels = bo_context_kernels(context);
    for (size_t i = 0; i < session->model->desc.layers; i++)
        if (!session->attentions.all[i] &&
            !kernels->finite(bo_session_layer_bytes(session, i) / sizeof(float), states[i]))
            return bo_fail(context, BO_NUMERIC,
                           "session: layer %zu: the state holds a number that is not finite: the numbers of the model "
                           "overflowed; start again, from a state before that or with another text",
                           i);
    return BO_OK;
}

static size_t list_tensors(const bo_session *session, void *const *states, layer_name *names, bo_file_tensor *tensors)
{
    size_t layers = session->model->desc.layers, count = 0;
    for (size_t i = 0; i < layers; i++) {
        size_t bytes = bo_session_layer_bytes(session, i);
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
    BO_TRY(check_numbers(context, session, w->states));
    const size_t count = list_tensors(session, w->states, w->names, w->tensors);
    if (w->capacity && w->capacity < session->desc.capacity) BO_TRY(shrink_states(context, session, w));
    snprintf(version, sizeof version, "%d", FORMAT_VERSION);
    snprintf(fingerprint, sizeof fingerprint, "%016llx", (unsigned long long)model);
    snprintf(weights, sizeof weights, "%016llx", (unsigned long long)digest);
    snprintf(tokens, sizeof tokens, "%llu", (unsigned long long)session->tokens);
    snprintf(capacity, sizeof capacity, "%zu", w->capacity);
    bo_meta metas[] = {{"format", format_name},
                       {"format_version", version},
                       {"fingerprint", fingerprint},
                       {"weights", weights},
                       {"tokens", tokens},
                       {"capacity", capacity},
                       {"storage", bo_storage_name(bo_model_storage(session->model))}};
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
    const char *path = bo_tensors_path(file), *storage = bo_tensors_meta(file, "storage");
    const char *here = bo_storage_name(bo_model_storage(session->model));
    if (storage && strcmp(storage, here) != 0)
        return bo_fail(
            context, BO_INVALID,
            "%s: the state was made with weights stored as %.20s, but here they are %s: load the model in that "
            "storage (bo_model_load_stored(); in the program, --weights %.20s), or read the text again",
            path, storage, here, storage);
    return bo_fail(context, BO_INVALID,
                   "%s: the state was made with other weights: %sby another training, or before the model was trained "
                   "further; read the text again",
                   path, storage ? "" : "in another storage (in the program, --weights), ");
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
    bo_sized_attentions resized = {0};
    bo_attention *const *made_by = session->attentions.all;
    bo_status status = BO_OK;
    if (bo_session_has_capacity(model) && head->tokens > session->desc.capacity)
        return bo_fail(context, BO_INVALID, "%s: the state has %llu tokens, but the capacity of the session is %zu",
                       bo_tensors_path(file), (unsigned long long)head->tokens, session->desc.capacity);
    if (bo_session_has_capacity(model) && head->capacity != session->desc.capacity) {
        status = bo_sized_attentions_create(context, model, head->capacity, head->capacity, &resized);
        if (status == BO_INVALID)
            status = bo_fail(context, BO_FORMAT, "%s: %s", bo_tensors_path(file), bo_context_error(context));
        made_by = resized.all;
    }
    for (size_t i = 0; status == BO_OK && i < model->desc.layers; i++)
        status = made_by[i]
                     ? read_layer(context, file, i, made_by[i], session->attentions.all[i], head->tokens, states[i])
                     : read_numbers(context, file, session, i, states[i]);
    bo_sized_attentions_destroy(&resized, model);
    return status;
}

/* Reads a state into `h`, whose memory is filled with zeros, and its logits. */
static bo_status read_file(bo_context *context, const bo_tensors *file, const bo_session *session,
                           const bo_host_states *h, header *head, const bo_file_tensor **logits)
{
    size_t vocab = session->model->desc.vocab;
    BO_TRY(read_header(context, file, head));
    BO_TRY(check_model(context, file, session, head));
    BO_TRY(read_states(context, file, session, head, h->states));
    if (bo_tensors_find(file, "logits")) BO_TRY(bo_tensors_require(context, file, "logits", BO_F32, 1, &vocab, logits));
    if (*logits && !bo_context_kernels(context)->finite(vocab, (*logits)->data))
        return bo_fail(context, BO_FORMAT, "%s: the logits hold a number that is not finite", bo_tensors_path(file));
    return BO_OK;
}

/* Reads a state into `h`, or if it is empty, into new memory, which is filled with zeros. The session changes only after
 * everything has been read. */
static bo_status load(bo_context *context, const bo_tensors *file, bo_session *session, bo_host_states *h)
{
    header head = {0};
    const bo_file_tensor *logits = NULL;
    if (!h->states) BO_TRY(bo_host_states_create(context, session, h));
    BO_TRY(read_file(context, file, session, h, &head, &logits));
    if (bo_device_is_gpu(bo_session_device(session))) {
        session->broken = true; /* until all layers are written */
        BO_TRY(bo_host_states_write(context, session, h));
    }
    if (logits) memcpy(session->logits, logits->data, session->model->desc.vocab * sizeof(float));
    session->has_logits = logits != NULL;
    session->tokens = head.tokens;
    session->broken = false;
    return BO_OK;
}

static bo_status load_from(bo_context *context, bo_session *session, const bo_tensors *file)
{
    bo_host_states h = {0};
    const bo_status status = load(context, file, session, &h);
    if (status == BO_OK && !bo_device_is_gpu(bo_session_device(session))) {
        const bo_host_states old = {session->memory, session->states};
        session->memory = h.memory;
        session->states = h.states;
        h = old;
    }
    bo_host_states_free(&h);
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

bo_status bo_session_restore(bo_context *context, bo_session *session, const void *bytes, size_t size)
{
    bo_tensors *file;
    const bool plain = !bo_device_is_gpu(bo_session_device(session));
    bo_host_states h = {.states = plain ? session->states : NULL};
    BO_TRY(open_state(context, NULL, bytes, size, &file));
    const bo_status status = load(context, file, session, &h);
    if (!plain) bo_host_states_free(&h);
    bo_tensors_close(file);
    return status;
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

bo_status bo_session_validate(bo_context *context, const bo_session *session, const void *bytes, size_t size)
{
    bo_tensors *file;
    header head = {0};
    bo_host_states h = {0};
    const bo_file_tensor *logits = NULL;
    BO_TRY(open_state(context, NULL, bytes, size, &file));
    bo_status status = bo_host_states_create(context, session, &h);
    if (status == BO_OK) status = read_file(context, file, session, &h, &head, &logits);
    bo_host_states_free(&h);
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
