/* The server: libmicrohttpd receives requests on its threads; the scheduler runs on the thread of bo_server_run. */
#include "http.h"
#include <errno.h>
#include <math.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { HTTP_THREADS = 4, IDLE_SECONDS = 60, HEAD_BYTES = 32 << 10, BLOCK = 32 << 10 };

/* ---- responses --------------------------------------------------------------------------------------------------- */

static void add_headers(const bo_http_call *call, struct MHD_Response *response, const char *type, bool page)
{
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, page ? "no-cache" : "no-store");
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    if (page)
        MHD_add_response_header(response, "Content-Security-Policy",
                                "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'");
    bo_guard_add_headers(call, response);
}

static enum MHD_Result queue(bo_http_call *call, int status, struct MHD_Response *response)
{
    if (!response) return MHD_NO;
    call->status = status;
    atomic_fetch_add(&call->server->service.counters.responses[status / 100 % 6], 1);
    if (status == 429) MHD_add_response_header(response, MHD_HTTP_HEADER_RETRY_AFTER, "1");
    if (status == 401) MHD_add_response_header(response, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
    if (status == 405) {
        char methods[64];
        bo_route_methods(call->path, methods, sizeof methods);
        MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, methods);
    }
    /* After a refused head, the remaining bytes may not be a request. */
    if (call->refusal.status) MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
    const enum MHD_Result result = MHD_queue_response(call->connection, (unsigned)status, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result send_refusal(bo_http_call *call, const bo_refusal *refusal)
{
    bo_context *context;
    if (bo_context_create(&(bo_context_desc){.threads = 1}, &context) != BO_OK) return MHD_NO;
    bo_json_text text = {.context = context};
    bo_refusal_write(refusal, &text);
    struct MHD_Response *response =
        MHD_create_response_from_buffer(text.length, text.bytes ? text.bytes : "", MHD_RESPMEM_MUST_COPY);
    if (response) add_headers(call, response, "application/json", false);
    bo_free(text.bytes);
    bo_context_destroy(context);
    return queue(call, refusal->status, response);
}

static enum MHD_Result send_response(bo_http_call *call, const bo_http_response *content)
{
    const void *body = content->fixed ? content->fixed : content->bytes ? content->bytes : content->text.bytes;
    const size_t size = content->fixed || content->bytes ? content->size : content->text.length;
    struct MHD_Response *response = MHD_create_response_from_buffer(
        size, (void *)(uintptr_t)(body ? body : ""), content->fixed ? MHD_RESPMEM_PERSISTENT : MHD_RESPMEM_MUST_COPY);
    if (response) add_headers(call, response, content->type, content->page);
    return queue(call, content->status, response);
}

static ssize_t read_stream(void *user, uint64_t position, char *out, size_t capacity)
{
    bo_stream_end end;
    (void)position;
    const size_t count = bo_exchange_read(user, out, capacity, &end);
    if (end == BO_STREAM_LOST) return MHD_CONTENT_READER_END_WITH_ERROR;
    return count ? (ssize_t)count : end == BO_STREAM_COMPLETE ? MHD_CONTENT_READER_END_OF_STREAM : 0;
}

static enum MHD_Result send_stream(bo_http_call *call)
{
    struct MHD_Response *response =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK, read_stream, call->exchange, NULL);
    if (response) {
        add_headers(call, response, "text/event-stream; charset=utf-8", false);
        MHD_add_response_header(response, "X-Accel-Buffering", "no"); /* for proxies */
    }
    return queue(call, 200, response);
}

static enum MHD_Result send_body(bo_http_call *call)
{
    bo_context *context;
    const char *body;
    size_t size;
    if (bo_context_create(&(bo_context_desc){.threads = 1}, &context) != BO_OK) return MHD_NO;
    const int status = bo_exchange_finish(context, call->exchange, &body, &size);
    bo_context_destroy(context);
    if (!body) return send_refusal(call, &(bo_refusal){.status = 500, .message = "out of memory for the response"});
    /* The exchange is released when the call is complete, so it outlives the response. */
    struct MHD_Response *response =
        MHD_create_response_from_buffer(size, (void *)(uintptr_t)body, MHD_RESPMEM_PERSISTENT);
    if (response) add_headers(call, response, "application/json", false);
    return queue(call, status, response);
}

/* Sends the response of an exchange that has ended, or a stream. Otherwise the connection is suspended. */
static enum MHD_Result send_exchange(bo_http_call *call)
{
    if (bo_exchange_streams(call->exchange)) return send_stream(call);
    return bo_exchange_wait(call->exchange) ? send_body(call) : MHD_YES;
}

/* ---- requests ---------------------------------------------------------------------------------------------------- */

typedef struct header_count {
    const char *name;
    int count;
} header_count;

static enum MHD_Result count_header(void *user, enum MHD_ValueKind kind, const char *name, const char *value)
{
    header_count *counted = user;
    (void)kind, (void)value;
    counted->count += strcasecmp(name, counted->name) == 0;
    return MHD_YES;
}

static int count_headers(const bo_http_call *call, const char *name)
{
    header_count counted = {.name = name};
    MHD_get_connection_values(call->connection, MHD_HEADER_KIND, count_header, &counted);
    return counted.count;
}

/* A proxy must find the same request boundaries as the server (request smuggling). */
static bool check_framing(const bo_http_call *call, bo_refusal *refusal)
{
    const int hosts = count_headers(call, MHD_HTTP_HEADER_HOST);
    const int lengths = count_headers(call, MHD_HTTP_HEADER_CONTENT_LENGTH);
    if (hosts > 1 || (call->needs_host && hosts == 0))
        return bo_refuse(refusal, 400, NULL, "expected one header Host, found %d", hosts);
    if (lengths + count_headers(call, MHD_HTTP_HEADER_TRANSFER_ENCODING) > 1)
        return bo_refuse(refusal, 400, NULL, "expected one header Content-Length or Transfer-Encoding");
    return true;
}

static bool check_head(bo_http_call *call, bo_refusal *refusal)
{
    bool known;
    const char *length = MHD_lookup_connection_value(call->connection, MHD_HEADER_KIND, "Content-Length");
    call->route = bo_route_find(call->method, call->path, call->argument, &known);
    if (!check_framing(call, refusal)) return false;
    if (!bo_guard_check(call, refusal)) return false;
    if (!known) return bo_refuse(refusal, 404, NULL, "there is no such path; see /openapi.json");
    if (!call->route && !bo_guard_is_preflight(call))
        return bo_refuse(refusal, 405, NULL, "the path does not accept the method %s", call->method);
    if (length && strtoull(length, NULL, 10) > call->server->desc->max_body)
        return bo_refuse(refusal, 413, NULL, "the body is larger than the maximum of %zu bytes",
                         call->server->desc->max_body);
    return true;
}

static bool is_refused(const bo_http_call *call)
{
    return call->peer && call->peer->refused;
}

static bo_http_call *begin_call(bo_server *server, struct MHD_Connection *connection, const char *url,
                                const char *method, const char *version)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    bo_http_call *call = calloc(1, sizeof *call);
    if (!call) return NULL;
    call->server = server;
    call->connection = connection;
    call->peer = info ? info->socket_context : NULL;
    call->started = bo_seconds();
    call->needs_host = strcmp(version, MHD_HTTP_VERSION_1_1) == 0;
    snprintf(call->method, sizeof call->method, "%s", method);
    snprintf(call->path, sizeof call->path, "%s", url);
    atomic_fetch_add(&server->calls, 1);
    if (is_refused(call)) {
        call->status = 429; /* sent and counted already */
        return call;
    }
    check_head(call, &call->refusal);
    bo_watch_receiving(server, call->peer, true);
    return call;
}

static void drop_body(bo_http_call *call)
{
    free(call->body);
    call->body = NULL;
    call->size = call->capacity = 0;
    bo_reserve(&call->server->service.reservations, call->client.id, &call->body_reserved, 0);
}

static void append_body(bo_http_call *call, const char *data, size_t size)
{
    const size_t limit = call->server->desc->max_body;
    if (call->refusal.status || is_refused(call)) return;
    if (size > limit - call->size) {
        bo_refuse(&call->refusal, 413, NULL, "the body is larger than the maximum of %zu bytes", limit);
        return;
    }
    if (call->capacity - call->size < size) {
        const size_t capacity = bo_min(2 * call->capacity + size + 4096, limit);
        bo_service *service = &call->server->service;
        const bool reserved = bo_service_reserve(service, call->client, &call->body_reserved, capacity, &call->refusal);
        char *larger = reserved ? realloc(call->body, capacity) : NULL;
        if (!larger) {
            if (reserved) bo_refuse(&call->refusal, 500, NULL, "out of memory for the body");
            drop_body(call);
            return;
        }
        call->body = larger;
        call->capacity = capacity;
    }
    memcpy(call->body + call->size, data, size);
    call->size += size;
}

/* While the server is stopping, chat templates are canceled: the request would be refused anyway. */
static bool should_continue(void *user, const char *what, double done, double total)
{
    const bo_server *server = user;
    (void)what, (void)done, (void)total;
    return !atomic_load(&server->stopping);
}

static enum MHD_Result handle_call(bo_http_call *call)
{
    const bo_context_desc desc = {.threads = 1, .progress = should_continue, .user = call->server};
    bo_context *context;
    bo_http_response response = {.status = 204, .type = "text/plain"};
    bo_refusal refusal = {0};
    bo_watch_responding(call->server, call->peer, NULL);
    if (bo_context_create(&desc, &context) != BO_OK) return MHD_NO;
    response.text.context = context;
    const bool done = !call->route || call->route->handler(context, call, &response, &refusal);
    drop_body(call);
    bo_watch_responding(call->server, call->peer, call->exchange);
    enum MHD_Result result;
    if (!done)
        result = send_refusal(call, &refusal);
    else if (call->exchange)
        result = send_exchange(call);
    else if (response.text.failed)
        result = send_refusal(call, &(bo_refusal){.status = 500, .message = "out of memory for the response"});
    else
        result = send_response(call, &response);
    bo_free(response.text.bytes);
    bo_free(response.bytes);
    bo_context_destroy(context);
    return result;
}

static enum MHD_Result handle(void *user, struct MHD_Connection *connection, const char *url, const char *method,
                              const char *version, const char *data, size_t *size, void **state)
{
    bo_http_call *call = *state;
    if (!call) { /* the head has arrived */
        const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
        const bo_peer *peer = info ? info->socket_context : NULL;
        if (peer && !peer->refused && bo_watch_is_closing(user, peer)) return MHD_NO;
        *state = call = begin_call(user, connection, url, method, version);
        if (!call) return MHD_NO;
        return call->refusal.status == 413 ? send_refusal(call, &call->refusal) : MHD_YES;
    }
    if (*size > 0) {
        append_body(call, data, *size);
        *size = 0;
        return MHD_YES;
    }
    if (is_refused(call)) return MHD_NO;
    if (call->exchange) return send_exchange(call); /* resumed */
    if (call->refusal.status) return send_refusal(call, &call->refusal);
    return handle_call(call);
}

/* ---- the end of a request ---------------------------------------------------------------------------------------- */

/* A log reader that is slow or has exited must not block the server: lines that cannot be written immediately are
 * dropped. A line is short enough for one write to a ready pipe. */
static void write_line(int file, const char *line, size_t length)
{
    struct pollfd ready = {.fd = file, .events = POLLOUT};
    if (poll(&ready, 1, 0) > 0 && (ready.revents & POLLOUT) && write(file, line, length) < 0) return;
}

static void log_call(const bo_http_call *call)
{
    FILE *out = call->server->desc->log;
    bo_exchange_stats f = {0};
    bo_context *context;
    char line[200];
    struct timespec now;
    struct tm date;
    if (!out || bo_context_create(&(bo_context_desc){.threads = 1}, &context) != BO_OK) return;
    bo_json_text text = {.context = context};
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &date);
    if (call->exchange) bo_exchange_get_stats(call->exchange, &f);
    strftime(line, sizeof line, "{\"time\": \"%Y-%m-%dT%H:%M:%S", &date);
    bo_json_raw(&text, line);
    snprintf(line, sizeof line, ".%03ldZ\", \"client\": ", now.tv_nsec / 1000000);
    bo_json_raw(&text, line);
    bo_json_string(&text, call->peer ? call->peer->address : "");
    bo_json_raw(&text, ", \"method\": ");
    bo_json_text_of(&text, call->method, strlen(call->method));
    bo_json_raw(&text, ", \"path\": ");
    bo_json_text_of(&text, call->path, strlen(call->path));
    snprintf(line, sizeof line,
             ", \"status\": %d, \"seconds\": %.6f, \"prompt_tokens\": %zu, \"cached_tokens\": %zu, "
             "\"generated_tokens\": %zu}\n",
             call->status, bo_seconds() - call->started, f.prompt_tokens, f.cached_tokens, f.generated_tokens);
    bo_json_raw(&text, line);
    pthread_mutex_lock(&call->server->log_lock);
    if (!text.failed) write_line(fileno(out), text.bytes, text.length);
    pthread_mutex_unlock(&call->server->log_lock);
    bo_free(text.bytes);
    bo_context_destroy(context);
}

static void complete_call(void *user, struct MHD_Connection *connection, void **state,
                          enum MHD_RequestTerminationCode code)
{
    bo_server *server = user;
    bo_http_call *call = *state;
    (void)connection, (void)code;
    if (!call) return;
    bo_watch_receiving(server, call->peer, false);
    log_call(call);
    if (call->exchange) {
        bo_exchange_cancel(call->exchange);
        bo_exchange_release(call->exchange);
    }
    drop_body(call);
    bo_reserve(&server->service.reservations, call->client.id, &call->response_reserved, 0);
    free(call);
    *state = NULL;
    atomic_fetch_sub(&server->calls, 1);
}

static void notify_connection(void *user, struct MHD_Connection *connection, void **context,
                              enum MHD_ConnectionNotificationCode code)
{
    bo_server *server = user;
    if (code == MHD_CONNECTION_NOTIFY_CLOSED) {
        bo_watch_remove(server, *context);
        *context = NULL;
        return;
    }
    const union MHD_ConnectionInfo *socket = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    const int fd = socket ? socket->connect_fd : -1;
    const union MHD_ConnectionInfo *client = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    *context = bo_watch_add(server, fd, client ? client->client_addr : NULL);
}

/* A path with an escaped NUL is not unescaped, so that no route matches. Unescaped, it would be another path. */
static size_t unescape(void *user, struct MHD_Connection *connection, char *text)
{
    (void)user, (void)connection;
    return strstr(text, "%00") ? strlen(text) : MHD_http_unescape(text);
}

/* ---- creation and destruction ------------------------------------------------------------------------------------ */

static bool is_loopback(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr) >> 24 == 127;
    return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)(const void *)address)->sin6_addr);
}

static struct MHD_Daemon *start_daemon(bo_server *server, const struct addrinfo *at)
{
    const bo_server_desc *d = server->desc;
    const unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ITC |
                           (at->ai_family == AF_INET6 ? MHD_USE_IPv6 : 0);
    const unsigned connections = (unsigned)d->connections + BO_CLOSING_CONNECTIONS;
    return MHD_start_daemon(flags, (uint16_t)d->port, NULL, NULL, handle, server, MHD_OPTION_SOCK_ADDR, at->ai_addr,
                            MHD_OPTION_NOTIFY_COMPLETED, complete_call, server, MHD_OPTION_NOTIFY_CONNECTION,
                            notify_connection, server, MHD_OPTION_THREAD_POOL_SIZE, (unsigned)HTTP_THREADS,
                            MHD_OPTION_CONNECTION_LIMIT, connections, MHD_OPTION_CONNECTION_TIMEOUT,
                            (unsigned)IDLE_SECONDS, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)(2 * HEAD_BYTES),
                            MHD_OPTION_UNESCAPE_CALLBACK, unescape, NULL, MHD_OPTION_END);
}

static bo_status listen_at(bo_context *context, bo_server *server, const struct addrinfo *at)
{
    const bo_server_desc *d = server->desc;
    server->loopback = is_loopback(at->ai_addr);
    if (!server->loopback && !d->key_count && !d->open)
        return bo_fail(context, BO_INVALID,
                       "the address %s can be reached from other hosts: give --api-key-file FILE, or --no-key to allow "
                       "requests without a key",
                       d->host);
    errno = 0;
    server->daemon = start_daemon(server, at);
    if (!server->daemon)
        return bo_fail(context, BO_IO, "the server cannot listen at %s port %d: %s", d->host, d->port,
                       errno ? strerror(errno) : "the system refused it");
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_BIND_PORT);
    const bool wide = at->ai_family == AF_INET6;
    snprintf(server->address, sizeof server->address, wide ? "http://[%s]:%d" : "http://%s:%d", d->host,
             info ? (int)info->port : d->port);
    return BO_OK;
}

static bo_status open_socket(bo_context *context, bo_server *server)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV | AI_PASSIVE};
    struct addrinfo *found;
    char port[8];
    snprintf(port, sizeof port, "%d", server->desc->port);
    const int failure = getaddrinfo(server->desc->host, port, &hints, &found);
    if (failure) return bo_fail(context, BO_INVALID, "--host %s: %s", server->desc->host, gai_strerror(failure));
    const bo_status status = listen_at(context, server, found);
    freeaddrinfo(found);
    return status;
}

/* Called by the scheduler. Stores the result for /health. */
static bool should_stop(void *user)
{
    bo_server *server = user;
    const bool stop = server->caller_desc.stop(server->caller_desc.user);
    if (stop && !atomic_exchange(&server->stopping, true)) server->stop_time = bo_seconds();
    return stop;
}

/* Without enough file descriptors, threads would retry to accept connections in a busy loop. */
static void raise_descriptor_limit(size_t connections)
{
    enum { OTHER_DESCRIPTORS = 128 + BO_CLOSING_CONNECTIONS };
    struct rlimit limit;
    const rlim_t required = (rlim_t)connections + OTHER_DESCRIPTORS;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= required) return;
    limit.rlim_cur = limit.rlim_max < required ? limit.rlim_max : required;
    setrlimit(RLIMIT_NOFILE, &limit);
}

static bo_status build(bo_context *context, bo_server *server)
{
    raise_descriptor_limit(server->desc->connections);
    BO_TRY(bo_service_create(context, server->desc, &server->service));
    BO_TRY(open_socket(context, server));
    return bo_watch_start(server) ? BO_OK : bo_fail(context, BO_MEMORY, "a thread could not be started");
}

bo_status bo_server_create(bo_context *context, const bo_server_desc *desc, bo_server **out)
{
    bo_server *server = *out = bo_alloc(context, 1, sizeof *server, "a server");
    bo_server_desc *inner = bo_alloc(context, 1, sizeof *inner, "a server");
    if (!server || !inner) {
        bo_free(server);
        bo_free(inner);
        *out = NULL;
        return BO_MEMORY;
    }
    server->caller_desc = *inner = *desc;
    inner->stop = should_stop;
    inner->user = server;
    server->desc = inner;
    pthread_mutex_init(&server->lock, NULL);
    pthread_mutex_init(&server->log_lock, NULL);
    const bo_status status = build(context, server);
    if (status == BO_OK) return BO_OK;
    bo_server_destroy(server);
    *out = NULL;
    return status;
}

const char *bo_server_address(const bo_server *server)
{
    return server->address;
}

void bo_server_cache_files(const bo_server *server, size_t *discarded, size_t *foreign, size_t *unowned)
{
    bo_store_stats stats;
    bo_store_get_stats(bo_scheduler_store(server->service.scheduler), &stats);
    *discarded = stats.discarded;
    *foreign = stats.foreign;
    *unowned = stats.unowned;
}

const bo_slots_memory *bo_server_memory(const bo_server *server)
{
    return bo_scheduler_memory(server->service.scheduler);
}

size_t bo_server_state_bytes(const bo_server *server, size_t tokens)
{
    return bo_scheduler_state_bytes(server->service.scheduler, tokens);
}

bo_status bo_server_run(bo_context *context, bo_server *server)
{
    enum { MIN_SECONDS = 2 };
    const struct timespec pause = {.tv_nsec = 10000000};
    BO_TRY(bo_scheduler_run(context, server->service.scheduler));
    /* The grace period also covers responses that clients have not read yet. */
    const double min_end = bo_seconds() + MIN_SECONDS,
                 end = fmax(min_end, server->stop_time + server->caller_desc.grace);
    while (atomic_load(&server->calls) > 0 && bo_seconds() < end) nanosleep(&pause, NULL);
    return BO_OK;
}

void bo_server_destroy(bo_server *server)
{
    if (!server) return;
    bo_watch_stop(server);
    if (server->daemon) MHD_stop_daemon(server->daemon);
    bo_service_destroy(&server->service);
    pthread_mutex_destroy(&server->lock);
    pthread_mutex_destroy(&server->log_lock);
    bo_free((void *)(uintptr_t)server->desc);
    bo_free(server);
}
