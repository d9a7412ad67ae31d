/* Saved states of lanes: safetensors files with the bytes of each layer's state, and the logits after the last
 * token. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "../nn/enums.h"
#include "../attention/attention.h"
#include "../device/cpu/kernels.h"
#include "internal.h"
#include "lanes.h"

enum { FORMAT_VERSION = 1, NAME = 32 };
static const char format_name[] = "bochner.session";
static const uint64_t MAX_TOKENS = UINT64_C(1) << 56; /* further tokens can still be counted */

typedef char layer_name[NAME];

static void name_layer(size_t layer, layer_name out)
{
    snprintf(out, NAME, "states.%zu", layer);
}

/* ---- states in memory of the host -------------------------------------------------------------------------------- */

static char *allocate_host(bo_context *context, const bo_lanes *lanes)
{
    return bo_alloc_sparse(context, lanes->lane.bytes, 1, lanes->is_session ? "a session's state" : "a lane's state");
}

bo_status bo_lanes_host(bo_context *context, const bo_lanes *lanes, size_t lane, char **out)
{
    *out = lanes->all[lane].block;
    if (!bo_device_is_gpu(bo_lanes_device(lanes))) return BO_OK;
    *out = allocate_host(context, lanes);
    if (!*out) return BO_MEMORY;
    const bo_status status =
        bo_buffer_read(context, bo_lanes_device(lanes), *out, lanes->all[lane].block, lanes->lane.bytes);
    if (status == BO_OK) return BO_OK;
    bo_lanes_host_free(lanes, *out);
    *out = NULL;
    return status;
}

void bo_lanes_host_free(const bo_lanes *lanes, char *host)
{
    if (bo_device_is_gpu(bo_lanes_device(lanes))) bo_free(host);
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

/* The states in the format of the file. Layers that keep every key have the capacity for the tokens read so far, not
 * the whole capacity of the lane. */
typedef struct written_states {
    const bo_lanes *lanes;
    uint64_t tokens;
    bo_sized_attentions attentions; /* attentions of this capacity; empty if it equals the capacity of the lanes */
    size_t capacity;                /* 0: states have a fixed size */
    char *smaller;                  /* the states of that capacity */
    char *block;                    /* of the capacity of the lanes, in memory of the host */
    bo_file_tensor *tensors;
    layer_name *names;
} written_states;

static void written_states_free(written_states *w)
{
    bo_sized_attentions_destroy(&w->attentions, w->lanes->model);
    if (w->block) bo_lanes_host_free(w->lanes, w->block);
    bo_free(w->smaller);
    bo_free(w->tensors);
    bo_free(w->names);
}

/* Copies the states of layers that keep every key to states of the capacity that is written. */
static bo_status shrink_states(bo_context *context, written_states *w)
{
    const bo_model *model = w->lanes->model;
    const bo_model_desc *d = &model->desc;
    size_t bytes = 0;
    BO_TRY(bo_sized_attentions_create(context, model, w->capacity, w->capacity, &w->attentions));
    for (size_t i = 0; i < d->layers; i++) bytes += bo_layer_state_stride(d, i, w->attentions.all[i]);
    w->smaller = bo_alloc_sparse(context, bytes, 1, "a state to save");
    if (!w->smaller) return BO_MEMORY;
    char *at = w->smaller;
    for (size_t i = 0; i < d->layers; i++) {
        const bo_attention *attention = w->lanes->attentions.all[i], *smaller = w->attentions.all[i];
        if (!attention) continue;
        BO_TRY(bo_attention_state_move(context, attention, w->block + w->lanes->lane.offsets[i], smaller, at));
        w->tensors[i].data = at;
        w->tensors[i].bytes = w->tensors[i].shape[0] = bo_layer_state_bytes(d, i, smaller);
        at += bo_layer_state_stride(d, i, smaller);
    }
    return BO_OK;
}

/* Mixers without attention do not detect overflow. A state with NaN or infinity could not be loaded. */
static bo_status check_numbers(bo_context *context, const bo_lanes *lanes, const char *block)
{
    const bo_kernels *kernels = bo_context_kernels(context);
    for (size_t i = 0; i < lanes->model->desc.layers; i++) {
        const void *state = block + lanes->lane.offsets[i];
        if (!lanes->attentions.all[i] && !kernels->finite(bo_lanes_layer_bytes(lanes, i) / sizeof(float), state))
            return bo_fail(context, BO_NUMERIC,
                           "session: layer %zu: the state contains a NaN or infinity: the activations of the model "
                           "overflowed; restart from an earlier state or with another text",
                           i);
    }
    return BO_OK;
}

static size_t list_tensors(written_states *w, const float *logits)
{
    const bo_model_desc *d = &w->lanes->model->desc;
    for (size_t i = 0; i < d->layers; i++) {
        const size_t bytes = bo_lanes_layer_bytes(w->lanes, i);
        name_layer(i, w->names[i]);
        w->tensors[i] = (bo_file_tensor){.name = w->names[i],
                                         .dtype = BO_U8,
                                         .rank = 1,
                                         .shape = {bytes},
                                         .data = w->block + w->lanes->lane.offsets[i],
                                         .bytes = bytes};
    }
    if (!logits) return d->layers;
    w->tensors[d->layers] = (bo_file_tensor){.name = "logits",
                                             .dtype = BO_F32,
                                             .rank = 1,
                                             .shape = {d->vocab},
                                             .data = logits,
                                             .bytes = d->vocab * sizeof *logits};
    return d->layers + 1;
}

bo_status bo_lanes_hash(bo_context *context, bo_lanes *lanes)
{
    if (lanes->has_hashes && !lanes->is_session) return BO_OK;
    lanes->fingerprint = bo_model_fingerprint(lanes->model);
    BO_TRY(bo_model_digest(context, lanes->model, &lanes->digest));
    lanes->has_hashes = true;
    return BO_OK;
}

static bo_status write_tensors(bo_context *context, written_states *w, const float *logits, bo_output *output)
{
    char version[16], fingerprint[24], weights[24], tokens[24], capacity[24];
    const bo_model *model = w->lanes->model;
    w->names = bo_alloc(context, model->desc.layers, sizeof *w->names, "names of states");
    w->tensors = bo_alloc(context, model->desc.layers + 1, sizeof *w->tensors, "a state to save");
    if (!w->names || !w->tensors) return BO_MEMORY;
    BO_TRY(check_numbers(context, w->lanes, w->block));
    const size_t count = list_tensors(w, logits);
    if (w->capacity && w->capacity < w->lanes->desc.capacity) BO_TRY(shrink_states(context, w));
    snprintf(version, sizeof version, "%d", FORMAT_VERSION);
    snprintf(fingerprint, sizeof fingerprint, "%016llx", (unsigned long long)w->lanes->fingerprint);
    snprintf(weights, sizeof weights, "%016llx", (unsigned long long)w->lanes->digest);
    snprintf(tokens, sizeof tokens, "%llu", (unsigned long long)w->tokens);
    snprintf(capacity, sizeof capacity, "%zu", w->capacity);
    bo_meta metadata[] = {{"format", format_name},
                          {"format_version", version},
                          {"fingerprint", fingerprint},
                          {"weights", weights},
                          {"tokens", tokens},
                          {"capacity", capacity},
                          {"storage", bo_storage_name(bo_model_storage(model))}};
    return bo_tensors_write_output(context, output, w->tensors, count, metadata, sizeof metadata / sizeof *metadata);
}

bo_status bo_lanes_write(bo_context *context, bo_lanes *lanes, size_t lane, const float *logits, bo_output *output)
{
    BO_TRY(bo_lanes_hash(context, lanes));
    BO_TRY(bo_lanes_reserve(context, lanes, lane));
    written_states w = {.lanes = lanes, .tokens = lanes->all[lane].tokens};
    if (bo_model_cached_attention(lanes->model)) w.capacity = w.tokens ? (size_t)w.tokens : 1;
    bo_status status = bo_lanes_host(context, lanes, lane, &w.block);
    if (status == BO_OK) status = write_tensors(context, &w, logits, output);
    written_states_free(&w);
    return status;
}

bo_status bo_lanes_save_memory(bo_context *context, bo_lanes *lanes, size_t lane, void **bytes, size_t *size)
{
    if (bytes) *bytes = NULL;
    if (size) *size = 0;
    BO_REQUIRE(context, lanes, bytes, size);
    bo_output *output;
    BO_TRY(bo_lanes_check_lane(context, lanes, lane));
    BO_TRY(bo_output_open_memory(context, bytes, size, &output));
    return bo_output_finish(context, output, bo_lanes_write(context, lanes, lane, NULL, output));
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
    if (out->tokens > MAX_TOKENS)
        return bo_fail(context, BO_FORMAT, "%s: \"tokens\": expected at most %llu, found %llu", path,
                       (unsigned long long)MAX_TOKENS, (unsigned long long)out->tokens);
    return read_number(context, file, "capacity", 10, &out->capacity);
}

static bo_status check_model(bo_context *context, const bo_tensors *file, const bo_lanes *lanes, const header *head)
{
    if (head->fingerprint != lanes->fingerprint)
        return bo_fail(context, BO_INVALID,
                       "%s: the state belongs to another model: it has fingerprint %016llx, this model has %016llx",
                       bo_tensors_path(file), (unsigned long long)head->fingerprint,
                       (unsigned long long)lanes->fingerprint);
    if (head->weights == lanes->digest) return BO_OK;
    const char *path = bo_tensors_path(file), *storage = bo_tensors_meta(file, "storage");
    const char *current = bo_storage_name(bo_model_storage(lanes->model));
    if (storage && strcmp(storage, current) != 0)
        return bo_fail(context, BO_INVALID,
                       "%s: the state was created with weights stored as %.20s, but the weights of this model are "
                       "stored as %s: load the model in that storage (`storage` of bo_model_load_desc; in the program, "
                       "--weights %.20s), or read the text again",
                       path, storage, current, storage);
    return bo_fail(context, BO_INVALID,
                   "%s: the state was created with other weights: %sby another training run, or before further "
                   "training; read the text again",
                   path, storage ? "" : "in another storage (in the program, --weights), ");
}

/* Reports invalid bytes of a state as an error in the file. */
static bo_status format_error(bo_context *context, bo_status status, const bo_tensors *file, size_t layer)
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
    return format_error(context, status, file, layer);
}

/* Reads the state of a mixer without attention. All numbers must be finite. */
static bo_status read_numbers(bo_context *context, const bo_tensors *file, const bo_lanes *lanes, size_t layer,
                              void *state)
{
    layer_name name;
    const bo_file_tensor *tensor;
    size_t bytes = bo_lanes_layer_bytes(lanes, layer);
    name_layer(layer, name);
    BO_TRY(bo_tensors_require(context, file, name, BO_U8, 1, &bytes, &tensor));
    memcpy(state, tensor->data, bytes);
    if (bo_context_kernels(context)->finite(bytes / sizeof(float), state)) return BO_OK;
    return bo_fail(context, BO_FORMAT, "%s: layer %zu: the state contains a NaN or infinity", bo_tensors_path(file),
                   layer);
}

static bo_status read_layers(bo_context *context, const bo_tensors *file, const bo_lanes *lanes, uint64_t tokens,
                             bo_attention *const *made_by, char *block)
{
    for (size_t i = 0; i < lanes->model->desc.layers; i++) {
        char *state = block + lanes->lane.offsets[i];
        BO_TRY(made_by[i] ? read_layer(context, file, i, made_by[i], lanes->attentions.all[i], tokens, state)
                          : read_numbers(context, file, lanes, i, state));
    }
    return BO_OK;
}

static bo_status read_states(bo_context *context, const bo_tensors *file, const bo_lanes *lanes, const header *head,
                             char *block)
{
    const bo_model *model = lanes->model;
    const size_t capacity = lanes->desc.capacity;
    bo_sized_attentions resized = {0};
    if (!bo_model_cached_attention(model) || head->capacity == capacity)
        return read_layers(context, file, lanes, head->tokens, lanes->attentions.all, block);
    bo_status status = bo_sized_attentions_create(context, model, head->capacity, head->capacity, &resized);
    if (status == BO_INVALID)
        status = bo_fail(context, BO_FORMAT, "%s: %s", bo_tensors_path(file), bo_context_error(context));
    if (status == BO_OK) status = read_layers(context, file, lanes, head->tokens, resized.all, block);
    bo_sized_attentions_destroy(&resized, model);
    return status;
}

/* Reads a state into a zeroed block of host memory and finds its logits. Without a block, only checks that the model
 * created the state. */
static bo_status read_file(bo_context *context, const bo_tensors *file, const bo_lanes *lanes, header *head,
                           char *block, const bo_file_tensor **logits)
{
    size_t vocab = lanes->model->desc.vocab;
    *logits = NULL;
    BO_TRY(read_header(context, file, head));
    BO_TRY(check_model(context, file, lanes, head));
    if (!block) return BO_OK;
    if (bo_model_cached_attention(lanes->model) && head->tokens > lanes->desc.capacity)
        return bo_fail(context, BO_INVALID, "%s: the state has %llu tokens, but the capacity of the session is %zu",
                       bo_tensors_path(file), (unsigned long long)head->tokens, lanes->desc.capacity);
    BO_TRY(read_states(context, file, lanes, head, block));
    if (bo_tensors_find(file, "logits")) BO_TRY(bo_tensors_require(context, file, "logits", BO_F32, 1, &vocab, logits));
    if (*logits && !bo_context_kernels(context)->finite(vocab, (*logits)->data))
        return bo_fail(context, BO_FORMAT, "%s: the logits contain a NaN or infinity", bo_tensors_path(file));
    return BO_OK;
}

/* Returns zeroed host memory for a state: the block of an empty lane, otherwise new memory. */
static char *begin_load(bo_context *context, const bo_lanes *lanes, const bo_lane *lane)
{
    if (lane->tokens || !lane->block || bo_device_is_gpu(bo_lanes_device(lanes))) return allocate_host(context, lanes);
    bo_zero_block(lane->block);
    return lane->block;
}

/* Returns the block of a loaded state: its memory, or a copy on the GPU. */
static bo_status to_block(bo_context *context, const bo_lanes *lanes, const bo_lane *lane, char *host, char **block)
{
    *block = host;
    if (!bo_device_is_gpu(bo_lanes_device(lanes))) return BO_OK;
    const bool in_place = lane->block && !lane->tokens;
    *block = in_place ? lane->block : bo_layer_states_allocate(context, lanes->model, 1, lanes->lane.bytes, "a state");
    if (!*block) return BO_MEMORY;
    const bo_status status = bo_buffer_write(context, bo_lanes_device(lanes), *block, host, lanes->lane.bytes);
    if (status == BO_OK)
        bo_free(host);
    else if (!in_place)
        bo_layer_states_release(lanes->model, *block);
    return status;
}

bo_status bo_lanes_load(bo_context *context, bo_lanes *lanes, size_t lane, const bo_tensors *file, float *logits,
                        bool *has_logits)
{
    bo_lane *target = &lanes->all[lane];
    const bo_file_tensor *found = NULL;
    header head = {0};
    BO_TRY(bo_lanes_hash(context, lanes));
    char *block, *host = begin_load(context, lanes, target);
    if (!host) return BO_MEMORY;
    bo_status status = read_file(context, file, lanes, &head, host, &found);
    if (status == BO_OK) status = to_block(context, lanes, target, host, &block);
    if (status != BO_OK) {
        if (host != target->block) bo_free(host);
        if (!target->tokens) bo_lanes_restart(context, lanes, lane);
        return status;
    }
    if (block != target->block) bo_lanes_release(lanes, lane);
    *target = (bo_lane){block, head.tokens, target->source};
    if (has_logits) *has_logits = found != NULL;
    if (logits && found) memcpy(logits, found->data, found->bytes);
    return BO_OK;
}

bo_status bo_lanes_load_memory(bo_context *context, bo_lanes *lanes, size_t lane, const void *bytes, size_t size)
{
    bo_tensors *file;
    BO_REQUIRE(context, lanes);
    BO_REQUIRE_IF(context, size > 0, bytes);
    BO_TRY(bo_lanes_check_lane(context, lanes, lane));
    BO_TRY(bo_tensors_open_memory(context, "memory", bytes, size, &file));
    const bo_status status = bo_lanes_load(context, lanes, lane, file, NULL, NULL);
    bo_tensors_close(file);
    return status;
}

bo_status bo_lanes_validate(bo_context *context, const bo_lanes *lanes, bool states, const void *bytes, size_t size)
{
    bo_tensors *file;
    header head = {0};
    const bo_file_tensor *logits;
    BO_TRY(bo_tensors_open_memory(context, "memory", bytes, size, &file));
    char *host = states ? allocate_host(context, lanes) : NULL;
    const bo_status status = host || !states ? read_file(context, file, lanes, &head, host, &logits) : BO_MEMORY;
    bo_free(host);
    bo_tensors_close(file);
    return status;
}

bo_status bo_lanes_peek(bo_context *context, const bo_tensors *file, uint64_t *tokens)
{
    header head = {0};
    BO_TRY(read_header(context, file, &head));
    *tokens = head.tokens;
    return BO_OK;
}
