/* The table of routes, and their handlers. */
#include "http.h"
#include <stdio.h>
#include <string.h>

static bool send_json(bo_http_response *response)
{
    response->status = 200;
    response->type = "application/json";
    return true;
}

/* ---- playground page and server status --------------------------------------------------------------------------- */

static bool send_file(bo_http_response *response, const char *name, bo_refusal *refusal)
{
    for (size_t i = 0; i < bo_page_file_count; i++)
        if (strcmp(bo_page_files[i].name, name) == 0) {
            *response = (bo_http_response){.status = 200,
                                           .type = bo_page_files[i].type,
                                           .fixed = bo_page_files[i].bytes,
                                           .size = bo_page_files[i].size,
                                           .page = true};
            return true;
        }
    return bo_refuse(refusal, 404, NULL, "there is no such path");
}

static bool handle_page(bo_context *context, bo_http_call *call, bo_http_response *response, bo_refusal *refusal)
{
    (void)context;
    return send_file(response, call->path[1] ? call->path + 1 : "index.html", refusal);
}

static bool handle_health(bo_context *context, bo_http_call *call, bo_http_response *response, bo_refusal *refusal)
{
    (void)context, (void)refusal;
    const bool stopping = atomic_load(&call->server->stopping);
    bo_json_raw(&response->text, stopping ? "{\"status\": \"stopping\"}" : "{\"status\": \"ok\"}");
    send_json(response);
    response->status = stopping ? 503 : 200;
    return true;
}

static bool handle_metrics(bo_context *context, bo_http_call *call, bo_http_response *response, bo_refusal *refusal)
{
    (void)context, (void)refusal;
    bo_service *service = &call->server->service;
    bo_store_stats stats;
    bo_store_get_stats(bo_scheduler_store(service->scheduler), &stats);
    bo_counters_write(&service->counters, bo_scheduler_memory(service->scheduler)->slots, service->state_bytes, &stats,
                      &response->text);
    response->status = 200;
    response->type = "text/plain; version=0.0.4; charset=utf-8";
    return true;
}

/* ---- the model --------------------------------------------------------------------------------------------------- */

static bool handle_models(bo_context *context, bo_http_call *call, bo_http_response *response, bo_refusal *refusal)
{
    (void)context, (void)refusal;
    bo_json_raw(&response->text, "{\"object\": \"list\", \"data\": [");
    bo_service_write_model(&call->server->service, &response->text);
    bo_json_raw(&response->text, "]}");
    return send_json(response);
}

static bool handle_model(bo_context *context, bo_http_call *call, bo_http_response *response, bo_refusal *refusal)
{
    (void)context;
    const char *name = call->path + strlen(call->route->path);
    if (strcmp(name, call->server->service.name) != 0)
        return bo_refuse(refusal, 404, "model", "there is no model of this name; the model is %s",
                         call->server->service.name);
    bo_service_write_model(&call->server->service, &response->text);
    return send_json(response);
}

static bool parse(bo_context *context, const bo_http_call *call, bo_request_kind kind, bo_request *out,
                  bo_refusal *refusal)
{
    const size_t vocab = bo_model_describe(call->server->desc->model)->vocab;
    return bo_request_parse(context, kind, call->body ? call->body : "", call->size, vocab, out, refusal);
}

static bool handle_tokenize(bo_context *context, bo_http_call *call, bo_http_response *response, bo_refusal *refusal)
{
    bo_request request;
    if (!parse(context, call, BO_REQUEST_TOKENIZE, &request, refusal)) return false;
    const bool done = bo_service_tokenize(context, &call->server->service, &request, &response->text, refusal);
    bo_request_free(&request);
    return done && send_json(response);
}

static bool handle_detokenize(bo_context *context, bo_http_call *call, bo_http_response *response, bo_refusal *refusal)
{
    bo_request request;
    if (!parse(context, call, BO_REQUEST_DETOKENIZE, &request, refusal)) return false;
    const bool done = bo_service_detokenize(context, &call->server->service, &request, &response->text, refusal);
    bo_request_free(&request);
    return done && send_json(response);
}

/* ---- generation -------------------------------------------------------------------------------------------------- */

static void suspend(void *user)
{
    MHD_suspend_connection(user);
}

static void resume(void *user)
{
    MHD_resume_connection(user);
}

static bool start(bo_context *context, bo_http_call *call, bo_request_kind kind, bo_refusal *refusal)
{
    bo_request request;
    const bo_suspension suspension = {.suspend = suspend, .resume = resume, .user = call->connection};
    return parse(context, call, kind, &request, refusal) &&
           bo_exchange_start(context, &call->server->service, &request, call->client, suspension, &call->exchange,
                             refusal);
}

#define HANDLE_WITH_EXCHANGE(name, kind)                                                                               \
    static bool name(bo_context *context, bo_http_call *call, bo_http_response *response, bo_refusal *refusal)         \
    {                                                                                                                  \
        (void)response;                                                                                                \
        return start(context, call, kind, refusal);                                                                    \
    }
HANDLE_WITH_EXCHANGE(handle_completions, BO_REQUEST_COMPLETION)
HANDLE_WITH_EXCHANGE(handle_chat, BO_REQUEST_CHAT)
HANDLE_WITH_EXCHANGE(handle_embeddings, BO_REQUEST_EMBEDDING)
HANDLE_WITH_EXCHANGE(handle_states, BO_REQUEST_STATE)

/* ---- states ------------------------------------------------------------------------------------------------------ */

static bool no_state(const bo_http_call *call, bo_refusal *refusal)
{
    return bo_refuse(refusal, 404, "id", "there is no state %s", call->argument);
}

static bool check_id(const bo_http_call *call, bo_refusal *refusal)
{
    return bo_state_id_is_valid(call->argument) ||
           bo_refuse(refusal, 400, "id", "an id has 1 to 64 letters, digits, \"-\" and \"_\"");
}

static bool handle_get_state(bo_context *context, bo_http_call *call, bo_http_response *response, bo_refusal *refusal)
{
    if (!check_id(call, refusal)) return false;
    bo_snapshot *snapshot =
        bo_store_get(context, bo_scheduler_store(call->server->service.scheduler), call->client.owner, call->argument);
    if (!snapshot) return no_state(call, refusal);
    const size_t size = bo_snapshot_size(snapshot, NULL);
    const bool reserved =
        bo_service_reserve(&call->server->service, call->client, &call->response_reserved, size, refusal);
    const bo_status status =
        reserved ? bo_snapshot_write(context, snapshot, NULL, false, &response->bytes, &response->size) : BO_OK;
    bo_snapshot_release(snapshot);
    if (!reserved) return false;
    response->status = 200;
    response->type = "application/octet-stream";
    return status == BO_OK || bo_refuse(refusal, 500, NULL, "%s", bo_context_error(context));
}

static bool handle_put_state(bo_context *context, bo_http_call *call, bo_http_response *response, bo_refusal *refusal)
{
    const bo_service *service = &call->server->service;
    bo_snapshot *snapshot = NULL;
    if (!check_id(call, refusal)) return false;
    if (!bo_service_read_state(context, service, call->body, call->size, &snapshot, refusal)) return false;
    const bool done = bo_service_keep_state(context, service, call->client.owner, call->argument, snapshot, refusal);
    if (done)
        bo_service_write_state(service, call->argument, bo_snapshot_length(snapshot), bo_snapshot_size(snapshot, NULL),
                               &response->text);
    bo_snapshot_release(snapshot);
    return done && send_json(response);
}

static bool handle_delete_state(bo_context *context, bo_http_call *call, bo_http_response *response,
                                bo_refusal *refusal)
{
    (void)context;
    if (!check_id(call, refusal)) return false;
    if (!bo_store_drop(bo_scheduler_store(call->server->service.scheduler), call->client.owner, call->argument))
        return no_state(call, refusal);
    bo_json_raw(&response->text, "{\"object\": \"state.deleted\", \"id\": ");
    bo_json_string(&response->text, call->argument);
    bo_json_raw(&response->text, ", \"deleted\": true}");
    return send_json(response);
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

static const bo_route routes[] = {
    {"GET", "/health", handle_health, true},
    {"GET", "/metrics", handle_metrics, false},
    {"GET", "/v1/models", handle_models, false},
    {"GET", "/v1/models/", handle_model, false},
    {"POST", "/v1/completions", handle_completions, false},
    {"POST", "/v1/chat/completions", handle_chat, false},
    {"POST", "/v1/embeddings", handle_embeddings, false},
    {"POST", "/v1/tokenize", handle_tokenize, false},
    {"POST", "/v1/detokenize", handle_detokenize, false},
    {"POST", "/v1/states", handle_states, false},
    {"GET", "/v1/states/", handle_get_state, false},
    {"PUT", "/v1/states/", handle_put_state, false},
    {"DELETE", "/v1/states/", handle_delete_state, false},
};
static const bo_route page_route = {"GET", "/", handle_page, true};

static bool is_page_file(const char *path)
{
    bool found = strcmp(path, "/") == 0;
    for (size_t i = 0; i < bo_page_file_count && !found; i++) found = strcmp(path + 1, bo_page_files[i].name) == 0;
    return found;
}

/* True if the path matches the route, with an argument if the route requires one. */
static bool matches(const bo_route *route, const char *path)
{
    const size_t length = strlen(route->path);
    const bool has_argument = route->path[length - 1] == '/';
    return strncmp(path, route->path, length) == 0 && (path[length] != 0) == has_argument &&
           !strchr(path + length, '/');
}

void bo_route_methods(const char *path, char *out, size_t size)
{
    size_t used = 0;
    out[0] = 0;
    if (is_page_file(path)) snprintf(out, size, "GET");
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++)
        if (matches(&routes[i], path) && used < size)
            used += (size_t)snprintf(out + used, size - used, "%s%s", used ? ", " : "", routes[i].method);
}

const bo_route *bo_route_find(const char *method, const char *path, char argument[BO_SNAPSHOT_ID + 1], bool *known)
{
    const char *effective = strcmp(method, "HEAD") == 0 ? "GET" : method;
    *known = is_page_file(path);
    argument[0] = 0;
    if (*known) return strcmp(effective, "GET") == 0 ? &page_route : NULL;
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++) {
        const size_t length = strlen(routes[i].path);
        if (!matches(&routes[i], path)) continue;
        *known = true;
        if (strcmp(routes[i].method, effective) != 0) continue;
        if (path[length] && strlen(path + length) <= BO_SNAPSHOT_ID)
            memcpy(argument, path + length, strlen(path + length) + 1);
        return &routes[i];
    }
    return NULL;
}
