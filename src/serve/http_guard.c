/* Access control: API keys, and the headers Host and Origin, which identify requests that another site makes a browser
 * send. */
#include "http.h"
#include <string.h>
#include <strings.h>

static const char *header(const bo_http_call *call, const char *name)
{
    return MHD_lookup_connection_value(call->connection, MHD_HEADER_KIND, name);
}

/* Compares hashes, so that the time does not depend on the number of matching characters. */
static bool same_key(const bo_prefix_secret *secret, const char *a, const char *b)
{
    const bo_prefix x = bo_prefix_of_bytes(secret, a, strlen(a)), y = bo_prefix_of_bytes(secret, b, strlen(b));
    return ((x.words[0] ^ y.words[0]) | (x.words[1] ^ y.words[1])) == 0;
}

static bool check_key(bo_http_call *call, bo_refusal *refusal)
{
    static const char scheme[] = "Bearer ";
    const bo_server_desc *d = call->server->desc;
    const bo_store *store = bo_scheduler_store(call->server->service.scheduler);
    const bo_prefix_secret *secret = bo_store_secret(store);
    const char *key = header(call, MHD_HTTP_HEADER_AUTHORIZATION);
    const char *client = call->peer ? call->peer->client : "";
    bool found = d->key_count == 0;
    if (key && strncasecmp(key, scheme, sizeof scheme - 1) == 0) {
        key += sizeof scheme - 1;
        for (size_t i = 0; i < d->key_count; i++) found = same_key(secret, key, d->keys[i]) || found;
        if (d->key_count) client = key;
        if (d->key_count && found) call->client.owner = bo_store_owner_of(store, key);
    }
    call->client.id = bo_prefix_of_bytes(secret, client, strlen(client)).words[0];
    /* Browsers send preflight requests without a key. */
    if (found || (call->route && call->route->open) || bo_guard_is_preflight(call)) return true;
    return bo_refuse(refusal, 401, NULL, "this server needs a key: send the header Authorization: Bearer KEY");
}

/* The length of the host in "host:port", including brackets. */
static size_t host_length(const char *text)
{
    const char *end = text[0] == '[' ? strchr(text, ']') : NULL;
    return end ? (size_t)(end - text) + 1 : strcspn(text, ":/");
}

static bool is_loopback_name(const char *host, size_t length)
{
    static const char *const names[] = {"localhost", "[::1]"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strlen(names[i]) == length && strncasecmp(names[i], host, length) == 0) return true;
    return length >= 7 && strncmp(host, "127.", 4) == 0 && strspn(host, "0123456789.") >= length;
}

/* With DNS rebinding, the name of another site resolves to this host, but the header Host still contains that name. */
static bool check_host(const bo_http_call *call, bo_refusal *refusal)
{
    const char *host = header(call, MHD_HTTP_HEADER_HOST);
    if (!call->server->loopback || call->server->desc->key_count || !host) return true;
    if (is_loopback_name(host, host_length(host))) return true;
    return bo_refuse(refusal, 403, NULL, "the header Host names another site");
}

static bool is_allowed_origin(const bo_http_call *call, const char *origin)
{
    const char *allowed = call->server->desc->origin;
    return allowed && (strcmp(allowed, "*") == 0 || strcasecmp(allowed, origin) == 0);
}

static bool check_origin(const bo_http_call *call, bo_refusal *refusal)
{
    const char *origin = header(call, MHD_HTTP_HEADER_ORIGIN), *host = header(call, MHD_HTTP_HEADER_HOST);
    const char *site = origin ? strstr(origin, "://") : NULL;
    if (!origin || is_allowed_origin(call, origin)) return true;
    if (site && host && strcasecmp(site + 3, host) == 0) return true;
    return bo_refuse(refusal, 403, NULL, "the header Origin names another site; --allow-origin allows it");
}

bool bo_guard_check(bo_http_call *call, bo_refusal *refusal)
{
    return check_host(call, refusal) && check_origin(call, refusal) && check_key(call, refusal);
}

bool bo_guard_is_preflight(const bo_http_call *call)
{
    const char *origin = header(call, MHD_HTTP_HEADER_ORIGIN);
    return strcmp(call->method, MHD_HTTP_METHOD_OPTIONS) == 0 && origin && is_allowed_origin(call, origin);
}

void bo_guard_add_headers(const bo_http_call *call, struct MHD_Response *response)
{
    const char *origin = header(call, MHD_HTTP_HEADER_ORIGIN);
    if (!origin || !is_allowed_origin(call, origin)) return;
    MHD_add_response_header(response, MHD_HTTP_HEADER_ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    MHD_add_response_header(response, MHD_HTTP_HEADER_VARY, "Origin");
    if (!bo_guard_is_preflight(call)) return;
    MHD_add_response_header(response, MHD_HTTP_HEADER_ACCESS_CONTROL_ALLOW_METHODS, "GET, POST, PUT, DELETE");
    const char *headers = header(call, "Access-Control-Request-Headers");
    MHD_add_response_header(response, MHD_HTTP_HEADER_ACCESS_CONTROL_ALLOW_HEADERS,
                            headers ? headers : "Authorization, Content-Type");
    MHD_add_response_header(response, "Access-Control-Max-Age", "3600");
}
