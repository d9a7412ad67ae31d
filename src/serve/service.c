#include "../nn/enums.h"
#include "service.h"
#include "base64.h"
#include "choice.h"
#include "conversation.h"
#include <stdio.h>
#include <string.h>
#include <time.h>

/* For models without a chat template. */
static const char PLAIN_TEMPLATE[] = "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n"
                                     "{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}";

/* ---- creation and destruction ------------------------------------------------------------------------------------ */

static void name_model(const char *directory, char *out, size_t size)
{
    size_t end = strlen(directory);
    while (end > 1 && directory[end - 1] == '/') end--;
    size_t start = end;
    while (start > 0 && directory[start - 1] != '/') start--;
    snprintf(out, size, "%.*s", (int)(end - start), directory + start);
    if (!out[0] || strcmp(out, ".") == 0 || strcmp(out, "..") == 0) snprintf(out, size, "model");
}

static bo_status load_template(bo_context *context, bo_service *s)
{
    const bo_status status =
        bo_chat_template_create(context, &(bo_chat_template_desc){.directory = s->desc->directory}, &s->chat);
    if (status == BO_MEMORY) return status;
    s->has_template = status == BO_OK;
    if (!s->has_template) {
        const bo_chat_template_desc plain = {.text = PLAIN_TEMPLATE};
        if (status != BO_IO) /* the model has a template that cannot be used */
            bo_log(context, BO_LOG_WARNING, "conversations are rendered without the model's chat template: %s",
                   bo_context_error(context));
        return bo_chat_template_create(context, &plain, &s->chat);
    }
    const char *end = bo_chat_template_token(s->chat, "eos_token");
    if (end) s->turn_end = bo_tokenizer_find(s->tokenizer, end);
    return BO_OK;
}

/* Returns the bytes per token of a float32 KV cache of all layers. */
static size_t kv_bytes(const bo_model_desc *d)
{
    size_t columns = 0;
    for (size_t i = 0; i < d->layers; i++) {
        const bo_block *b = bo_model_block(d, i);
        columns += b->key_heads * b->head_dim;
    }
    return 2 * sizeof(float) * columns;
}

static void measure_states(bo_service *s)
{
    const bo_slots_memory *memory = bo_scheduler_memory(s->scheduler);
    s->state_bytes_per_token = memory->per_token;
    s->state_bytes = memory->fixed;
    s->kv_bytes_per_token = kv_bytes(bo_model_describe(s->desc->model));
}

bo_status bo_service_create(bo_context *context, const bo_server_desc *desc, bo_service *s)
{
    *s = (bo_service){.desc = desc, .turn_end = -1, .started = (int64_t)time(NULL)};
    s->tokenizer = bo_model_tokenizer(desc->model);
    name_model(desc->directory, s->name, sizeof s->name);
    /* half of the memory that slots and the cache leave free */
    bo_memory_bound memory;
    bo_context_memory(NULL, &memory);
    bo_reservations_open(&s->reservations, memory.bytes / 8);
    if (s->tokenizer) BO_TRY(load_template(context, s));
    const bo_scheduler_desc settings = {.model = desc->model,
                                        .slots = desc->slots,
                                        .capacity = desc->capacity,
                                        .queue = desc->queue,
                                        .grace = desc->grace,
                                        .memory_bytes = desc->cache_bytes,
                                        .disk_bytes = desc->disk_bytes,
                                        .directory = desc->cache_directory,
                                        .keys = desc->keys,
                                        .key_count = desc->key_count,
                                        .counters = &s->counters,
                                        .stop = desc->stop,
                                        .user = desc->user};
    BO_TRY(bo_scheduler_create(context, &settings, &s->scheduler));
    measure_states(s);
    return BO_OK;
}

void bo_service_destroy(bo_service *s)
{
    bo_scheduler_destroy(s->scheduler);
    bo_chat_template_destroy(s->chat);
    bo_reservations_close(&s->reservations);
}

/* ---- prompts ----------------------------------------------------------------------------------------------------- */

static bool refuse_status(bo_context *context, bo_status status, const char *param, bo_refusal *refusal)
{
    if (status == BO_CANCELED) return bo_refuse(refusal, 503, NULL, "the server is stopping");
    return bo_refuse(refusal, status == BO_MEMORY ? 500 : 400, param, "%s", bo_context_error(context));
}

/* Reports an error of the template without the path of its file, which clients must not see. */
static bool refuse_template(bo_context *context, bo_status status, bo_refusal *refusal)
{
    const char *error = bo_context_error(context), *at = strstr(error, ": chat template: line ");
    if (status == BO_CANCELED) return refuse_status(context, status, NULL, refusal);
    return bo_refuse(refusal, status == BO_MEMORY ? 500 : 400, "messages", "%s", at ? at + 2 : error);
}

/* A state of /v1/states ends after its messages, so that more messages can follow. Other requests end with the
 * generation prompt. */
static bool encode_messages(bo_context *context, const bo_service *s, const bo_request *request, bo_ids *out,
                            bo_refusal *refusal)
{
    const bo_chat_options options = {.add_generation_prompt = request->kind != BO_REQUEST_STATE,
                                     .variables = request->variables,
                                     .parse_special = request->parse_special};
    const bo_status status = bo_chat_encode(context, s->chat, s->tokenizer, NULL, 0, &options, out);
    if (status != BO_OK) return refuse_template(context, status, refusal);
    return out->count > 0 ||
           bo_refuse(refusal, 400, "messages", "the chat template renders these messages as an empty text");
}

/* Returns the name of the member that has the text. */
static const char *param_of(const bo_request *request)
{
    return request->variables ? "messages" : request->kind == BO_REQUEST_EMBEDDING ? "input" : "prompt";
}

/* Encodes a text without the additions of a prompt; with the special tokens of the tokenizer's template if `specials`.
 */
static bool encode_text(bo_context *context, const bo_service *s, const bo_prompt *prompt, bool specials, bo_ids *out,
                        const char *param, bo_refusal *refusal)
{
    const unsigned how = specials ? BO_ENCODE_SPECIALS | BO_ENCODE_TEMPLATE : BO_ENCODE_SPECIALS;
    const bo_status status = bo_tokenizer_encode(context, s->tokenizer, prompt->text, prompt->bytes, how, out);
    return status == BO_OK || refuse_status(context, status, param, refusal);
}

static bool copy_ids(bo_context *context, const bo_prompt *prompt, bo_ids *out, bo_refusal *refusal)
{
    out->items = bo_alloc(context, prompt->count, sizeof *out->items, "tokens");
    if (!out->items) return refuse_status(context, BO_MEMORY, NULL, refusal);
    memcpy(out->items, prompt->ids, prompt->count * sizeof *out->items);
    out->count = out->capacity = prompt->count;
    return true;
}

bool bo_service_check_count(const bo_service *s, const bo_request *request, size_t count, bo_refusal *refusal)
{
    const char *param = param_of(request);
    return count <= s->desc->max_prompt ||
           bo_refuse(refusal, 400, param, "%s: %zu tokens, more than the maximum of %zu", param, count,
                     s->desc->max_prompt);
}

bool bo_service_encode(bo_context *context, const bo_service *s, const bo_request *request, size_t index,
                       bool continues, bo_ids *out, bo_refusal *refusal)
{
    const bo_prompt *prompt = request->variables ? NULL : &request->prompts[index];
    const char *param = param_of(request);
    if (prompt && !prompt->text) {
        if (!copy_ids(context, prompt, out, refusal)) return false;
    } else if (!s->tokenizer) {
        return bo_refuse(refusal, 400, param, "the model has no tokenizer; give the prompt as a list of tokens");
    } else if (!prompt) {
        if (!encode_messages(context, s, request, out, refusal)) return false;
    } else if (request->kind == BO_REQUEST_EMBEDDING || request->kind == BO_REQUEST_TOKENIZE) {
        if (!encode_text(context, s, prompt, !continues, out, param, refusal)) return false;
    } else {
        const bo_status status = bo_tokenizer_encode(context, s->tokenizer, prompt->text, prompt->bytes,
                                                     continues ? BO_ENCODE_SPECIALS : BO_ENCODE_PROMPT, out);
        if (status != BO_OK) return refuse_status(context, status, param, refusal);
    }
    return continues || bo_service_check_count(s, request, out->count, refusal);
}

/* ---- states ------------------------------------------------------------------------------------------------------ */

bool bo_service_read_state(bo_context *context, const bo_service *s, const void *bytes, size_t size, bo_snapshot **out,
                           bo_refusal *refusal)
{
    char id[BO_SNAPSHOT_ID + 1];
    bo_status status = bo_snapshot_read(context, "state", bytes, size, id, out);
    if (status == BO_OK && (*out)->bytes)
        status = bo_scheduler_validate(context, s->scheduler, (*out)->bytes, (*out)->size);
    uint64_t tokens = 0;
    if (status == BO_OK && (*out)->bytes)
        status = bo_session_peek(context, &(bo_source){.bytes = (*out)->bytes, .size = (*out)->size}, &tokens);
    if (status == BO_OK && tokens != (*out)->tokens)
        status = bo_fail(context, BO_FORMAT, "state: its header does not match its contents");
    const size_t vocab = bo_model_describe(s->desc->model)->vocab;
    for (size_t i = 0; status == BO_OK && i < (*out)->pending_count; i++)
        if ((*out)->pending[i] < 0 || (size_t)(*out)->pending[i] >= vocab)
            status = bo_fail(context, BO_FORMAT, "state: it contains a token that the model does not have");
    if (status == BO_OK && (*out)->messages) status = bo_conversation_check(context, (*out)->messages);
    if (status != BO_OK) {
        bo_snapshot_release(*out);
        *out = NULL;
        return refuse_status(context, status, "state", refusal);
    }
    /* A random hash: with a hash of its choice, a client could replace cached states of other clients. */
    if (!bo_random_bytes(&(*out)->prefix, sizeof(*out)->prefix)) (*out)->prefix = bo_prefix_of_nothing();
    return true;
}

static bool decode_state(bo_context *context, const bo_service *s, const char *data, bo_snapshot **out,
                         bo_refusal *refusal)
{
    size_t size;
    unsigned char *bytes = bo_alloc_raw(context, strlen(data) / 4 + 1, 3, "a state");
    if (!bytes) return refuse_status(context, BO_MEMORY, NULL, refusal);
    const bool done = bo_base64_read(data, bytes, &size)
                          ? bo_service_read_state(context, s, bytes, size, out, refusal)
                          : bo_refuse(refusal, 400, "state", "state: data is not base64");
    bo_free(bytes);
    return done;
}

bool bo_service_find_state(bo_context *context, const bo_service *s, bo_prefix owner, const bo_request *request,
                           bo_snapshot **out, bo_refusal *refusal)
{
    *out = NULL;
    if (request->state_data) return decode_state(context, s, request->state_data, out, refusal);
    if (!request->state) return true;
    *out = bo_store_get(context, bo_scheduler_store(s->scheduler), owner, request->state);
    return *out || bo_refuse(refusal, 404, "state", "state: there is no state %s", request->state);
}

bool bo_service_keep_state(bo_context *context, const bo_service *s, bo_prefix owner, const char *id,
                           bo_snapshot *snapshot, bo_refusal *refusal)
{
    bool full;
    const bo_status status = bo_store_keep(context, bo_scheduler_store(s->scheduler), owner, id, snapshot, &full);
    if (full)
        return bo_refuse(refusal, 507, NULL,
                         "a state of %zu bytes does not fit into the cache; delete other states with DELETE",
                         snapshot->size);
    return status == BO_OK || bo_refuse(refusal, status == BO_IO ? 507 : 500, NULL, "%s", bo_context_error(context));
}

bool bo_service_reserve(bo_service *s, bo_client client, size_t *reserved, size_t bytes, bo_refusal *refusal)
{
    return bo_reserve(&s->reservations, client.id, reserved, bytes) ||
           bo_refuse(refusal, 429, NULL,
                     "the server's memory for large requests and states is in use; send the request again later");
}

/* ---- bodies ------------------------------------------------------------------------------------------------------ */

static void member(bo_json_text *out, const char *name)
{
    bo_json_raw(out, ", \"");
    bo_json_raw(out, name);
    bo_json_raw(out, "\": ");
}

static void whole_member(bo_json_text *out, const char *name, size_t value)
{
    member(out, name);
    bo_json_whole(out, value);
}

static void flag_member(bo_json_text *out, const char *name, bool value)
{
    member(out, name);
    bo_json_raw(out, value ? "true" : "false");
}

void bo_service_write_model(const bo_service *s, bo_json_text *out)
{
    const bo_model_desc *d = bo_model_describe(s->desc->model);
    const size_t max_tokens = bo_scheduler_max_tokens(s->scheduler);
    const bool has_attention = d->block.mixer == BO_MIXER_ATTENTION;
    bo_json_raw(out, "{\"id\": ");
    bo_json_text_of(out, s->name, strlen(s->name));
    bo_json_raw(out, ", \"object\": \"model\"");
    whole_member(out, "created", (size_t)s->started);
    bo_json_raw(out, ", \"owned_by\": \"bochner\", \"bochner\": {\"attention\": ");
    bo_json_string(out, has_attention ? bo_attention_name(&d->block.attention) : bo_mixer_name(d->block.mixer));
    whole_member(out, "parameters", bo_model_report(s->desc->model)->parameters);
    whole_member(out, "vocab", d->vocab);
    whole_member(out, "context", d->context);
    member(out, "max_tokens");
    if (max_tokens < INT32_MAX)
        bo_json_whole(out, max_tokens);
    else
        bo_json_raw(out, "null");
    whole_member(out, "state_bytes", s->state_bytes);
    whole_member(out, "state_bytes_per_token", s->state_bytes_per_token);
    whole_member(out, "kv_bytes_per_token", s->kv_bytes_per_token);
    flag_member(out, "tokenizer", s->tokenizer != NULL);
    flag_member(out, "chat_template", s->has_template);
    bo_json_raw(out, "}}");
}

bool bo_service_tokenize(bo_context *context, const bo_service *s, const bo_request *request, bo_json_text *out,
                         bo_refusal *refusal)
{
    bo_ids ids = {0};
    const bool plain = !request->special_tokens && !request->variables && request->prompts[0].text;
    if (!bo_service_encode(context, s, request, 0, plain, &ids, refusal)) {
        bo_ids_free(&ids);
        return false;
    }
    bo_json_raw(out, "{\"tokens\": [");
    for (size_t i = 0; i < ids.count; i++) {
        if (i) bo_json_raw(out, ", ");
        bo_json_whole(out, (size_t)ids.items[i]);
    }
    bo_json_raw(out, "], \"count\": ");
    bo_json_whole(out, ids.count);
    bo_json_raw(out, ", \"pieces\": [");
    for (size_t i = 0; s->tokenizer && i < ids.count; i++) {
        if (i) bo_json_raw(out, ", ");
        bo_token_write_name(s, ids.items[i], out);
    }
    bo_json_raw(out, "]}");
    bo_ids_free(&ids);
    return true;
}

bool bo_service_detokenize(bo_context *context, const bo_service *s, const bo_request *request, bo_json_text *out,
                           bo_refusal *refusal)
{
    char *text;
    size_t bytes;
    if (!s->tokenizer) return bo_refuse(refusal, 400, "tokens", "the model has no tokenizer");
    const bo_status status =
        bo_tokenizer_decode(context, s->tokenizer, request->prompts[0].ids, request->prompts[0].count, &text, &bytes);
    if (status != BO_OK) return refuse_status(context, status, "tokens", refusal);
    bo_json_raw(out, "{\"prompt\": ");
    bo_json_text_of(out, text, bytes);
    bo_json_raw(out, "}");
    bo_free(text);
    return true;
}

void bo_service_write_state(const bo_service *s, const char *id, uint64_t tokens, size_t bytes, bo_json_text *out)
{
    bo_json_raw(out, "{\"object\": \"state\", \"id\": ");
    bo_json_string(out, id);
    whole_member(out, "tokens", (size_t)tokens);
    whole_member(out, "bytes", bytes);
    member(out, "model");
    bo_json_text_of(out, s->name, strlen(s->name));
    bo_json_raw(out, "}");
}

/* The error types and codes of the OpenAI-compatible API. */
static const struct {
    int status;
    const char *type, *code;
} refusals[] = {
    {401, "authentication_error", "invalid_api_key"},
    {403, "permission_error", "forbidden"},
    {404, "not_found_error", "not_found"},
    {405, "invalid_request_error", "method_not_allowed"},
    {408, "timeout_error", "timeout"},
    {413, "invalid_request_error", "body_too_large"},
    {429, "rate_limit_error", "queue_full"},
    {503, "server_error", "stopping"},
    {507, "server_error", "no_room"},
};

void bo_refusal_write(const bo_refusal *refusal, bo_json_text *out)
{
    const char *type = refusal->status >= 500 ? "server_error" : "invalid_request_error", *code = NULL;
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++)
        if (refusals[i].status == refusal->status) type = refusals[i].type, code = refusals[i].code;
    bo_json_raw(out, "{\"error\": {\"message\": ");
    bo_json_text_of(out, refusal->message, strlen(refusal->message));
    member(out, "type");
    bo_json_string(out, type);
    member(out, "param");
    if (refusal->param[0])
        bo_json_string(out, refusal->param);
    else
        bo_json_raw(out, "null");
    member(out, "code");
    if (code)
        bo_json_string(out, code);
    else
        bo_json_raw(out, "null");
    bo_json_raw(out, "}}");
}
