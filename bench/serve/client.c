#include "client.h"
#include "../../src/io/json_tree.h"
#include <errno.h>
#include <math.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PIECE = 1 << 16, STALL = 600 /* seconds */ };

/* The connection of one client. Invariant: `request` < `end` while the client is active; `socket` is -1 otherwise. */
typedef struct client {
    cli_session *session;
    const load_address *address;
    const load_request *requests;
    load_outcome *outcomes;
    int socket;
    size_t request, end; /* the current request, and the end of the range */
    size_t written;      /* bytes of the request that were sent */
    bool used;           /* the connection has served a request before */
    bool received;       /* bytes of the response have arrived */
    bool failed;         /* a message was printed */
    double now;          /* arrival time of the bytes that are being parsed */
    load_response response;
    load_events events;
} client;

/* Prints the error and the server's response ("": no response), once. Prints nothing after a signal, which also stops
 * the server. */
static bool fail(client *c, const char *what, const char *body_text)
{
    if (!c->failed && !cli_signal())
        cli_fail(c->session, "http://%s: %s%s%.300s", c->address->host, what, *body_text ? ": " : "", body_text);
    c->failed = true;
    return false;
}

/* ---- responses --------------------------------------------------------------------------------------------------- */

static size_t count_of(const bo_json *object, const char *name)
{
    const bo_json *item = bo_json_member(object, name);
    return bo_json_is(item, BO_JSON_NUMBER) && item->number >= 0 && item->number < 1e15 ? (size_t)item->number : 0;
}

static void read_usage(load_outcome *outcome, const bo_json *usage)
{
    if (!bo_json_is(usage, BO_JSON_OBJECT)) return;
    outcome->prompt = count_of(usage, "prompt_tokens");
    outcome->generated = count_of(usage, "completion_tokens");
    outcome->cached = count_of(bo_json_member(usage, "prompt_tokens_details"), "cached_tokens");
}

static bool has_text(const bo_json *object, const char *name)
{
    const bo_json *item = bo_json_member(object, name);
    return bo_json_is(item, BO_JSON_TEXT) && item->text[0];
}

/* Whether an event contains a token. A conversation starts with an event that has only the role, and the last event of
 * a response may have only the finish reason. */
static bool has_token(const bo_json *event)
{
    const bo_json *choice = bo_json_at(bo_json_member(event, "choices"), 0);
    const bo_json *delta = bo_json_member(choice, "delta");
    if (!choice) return false;
    if (delta) return has_text(delta, "content") || has_text(delta, "reasoning_content");
    return has_text(choice, "text") || !has_text(choice, "finish_reason");
}

static void add_time(load_outcome *outcome, double time)
{
    if (outcome->count == outcome->capacity) {
        const size_t capacity = 2 * outcome->capacity + 64;
        double *grown = cli_allocate(capacity, sizeof *grown, "times");
        if (outcome->count) memcpy(grown, outcome->tokens, outcome->count * sizeof *grown);
        free(outcome->tokens);
        outcome->tokens = grown;
        outcome->capacity = capacity;
    }
    outcome->tokens[outcome->count++] = time;
}

static void on_event(void *owner, const char *bytes, size_t count)
{
    client *c = owner;
    load_outcome *outcome = &c->outcomes[c->request];
    if (c->failed || strcmp(bytes, "[DONE]") == 0) return;
    bo_json *event = bo_json_read(bytes, count, NULL);
    if (!bo_json_is(event, BO_JSON_OBJECT) || bo_json_member(event, "error")) {
        fail(c, "the server sent in place of a token", bytes);
    } else {
        if (has_token(event)) add_time(outcome, c->now);
        read_usage(outcome, bo_json_member(event, "usage"));
    }
    bo_json_delete(event);
}

static void on_body(void *owner, const char *bytes, size_t count)
{
    enum { MAX_BODY = 1 << 28 };
    client *c = owner;
    load_text *body = &c->outcomes[c->request].body;
    if (c->response.events && c->response.status == 200)
        load_events_read(&c->events, bytes, count);
    else if (body->length + count <= MAX_BODY)
        load_text_add(body, bytes, count);
}

/* ---- connections ------------------------------------------------------------------------------------------------- */

static bool open_connection(client *c)
{
    const int yes = 1;
    c->socket = socket(c->address->socket.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    c->used = false;
    if (c->socket < 0) return fail(c, strerror(errno), "");
    setsockopt(c->socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    const struct sockaddr *address = (const struct sockaddr *)(const void *)&c->address->socket;
    if (connect(c->socket, address, c->address->length) == 0 || errno == EINPROGRESS) return true;
    return fail(c, strerror(errno), "");
}

static void close_connection(client *c)
{
    if (c->socket >= 0) close(c->socket);
    c->socket = -1;
}

static bool begin_request(client *c)
{
    c->written = 0;
    c->received = false;
    load_response_begin(&c->response, on_body, c);
    load_events_begin(&c->events, on_event, c);
    return c->socket >= 0 || open_connection(c);
}

/* A server may close an idle connection while the next request is in transit. The request is sent again. */
static bool begin_again(client *c)
{
    close_connection(c);
    return begin_request(c);
}

static bool end_request(client *c)
{
    load_outcome *outcome = &c->outcomes[c->request];
    outcome->status = c->response.status;
    outcome->ended = c->now;
    if (outcome->status != 200) {
        char what[32];
        snprintf(what, sizeof what, "status %d", outcome->status);
        return fail(c, what, outcome->body.bytes ? outcome->body.bytes : "");
    }
    if (c->events.broken) return fail(c, "an event is too long", "");
    if (c->response.close) close_connection(c);
    c->used = true;
    if (++c->request == c->end) close_connection(c);
    return c->request == c->end || begin_request(c);
}

static bool write_some(client *c)
{
    const load_request *request = &c->requests[c->request];
    if (c->written == 0) c->outcomes[c->request].sent = cli_now();
    const ssize_t count =
        send(c->socket, request->bytes + c->written, request->length - c->written, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count >= 0)
        c->written += (size_t)count;
    else if (errno == EPIPE || errno == ECONNRESET)
        return c->used && !c->received ? begin_again(c) : fail(c, strerror(errno), "");
    else if (errno != EAGAIN && errno != EINTR && errno != ENOTCONN)
        return fail(c, strerror(errno), "");
    return true;
}

static bool read_some(client *c)
{
    char piece[PIECE];
    const ssize_t count = recv(c->socket, piece, sizeof piece, MSG_DONTWAIT);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return true;
    if (count <= 0 && c->used && !c->received) return begin_again(c);
    if (count < 0) return fail(c, strerror(errno), "");
    c->now = cli_now();
    c->received = true;
    if (count == 0)
        load_response_end(&c->response);
    else if (load_response_read(&c->response, piece, (size_t)count) < (size_t)count && c->response.stage == LOAD_DONE)
        return fail(c, "bytes follow the end of a response", "");
    if (c->failed) return false;
    if (c->response.stage == LOAD_BROKEN) return fail(c, c->response.wrong, "");
    return c->response.stage != LOAD_DONE || end_request(c);
}

/* ---- many clients ------------------------------------------------------------------------------------------------ */

/* One round of reading and writing. Returns the number of active clients. Prints a message and returns SIZE_MAX on
 * failure. */
static size_t serve_clients(client *clients, struct pollfd *polls, size_t count)
{
    size_t active = 0;
    for (size_t i = 0; i < count; i++) {
        client *c = &clients[i];
        const short ready = polls[i].revents;
        bool running = true;
        if (c->socket >= 0 && ready & (POLLIN | POLLHUP | POLLERR))
            running = read_some(c);
        else if (c->socket >= 0 && ready & POLLOUT)
            running = write_some(c);
        if (!running) return SIZE_MAX;
        const bool writes = c->socket >= 0 && c->written < c->requests[c->request].length;
        polls[i] = (struct pollfd){.fd = c->socket, .events = writes ? POLLIN | POLLOUT : POLLIN};
        active += c->socket >= 0;
    }
    return active;
}

/* Waits until a connection is ready, at most a fifth of a second. Returns false on failure, after a message, and after
 * a request to stop. */
static bool wait_for_any(client *clients, struct pollfd *polls, size_t count, double *received)
{
    const int ready = poll(polls, (nfds_t)count, 200);
    const double now = cli_now();
    if (ready < 0 && errno != EINTR) return fail(&clients[0], strerror(errno), "");
    if (ready <= 0) {
        for (size_t i = 0; i < count; i++) polls[i].revents = 0;
        if (now - *received > STALL) return fail(&clients[0], "no response for ten minutes", "");
    } else {
        *received = now;
    }
    return true;
}

bool load_run(cli_session *session, const load_address *address, size_t clients, size_t each,
              const load_request *requests, load_outcome *outcomes)
{
    client *all = cli_allocate(clients, sizeof *all, "clients");
    struct pollfd *polls = cli_allocate(clients, sizeof *polls, "clients");
    const client first = {
        .session = session, .address = address, .requests = requests, .outcomes = outcomes, .socket = -1};
    bool running = true;
    for (size_t i = 0; i < clients; i++) {
        all[i] = first;
        all[i].request = i * each;
        all[i].end = (i + 1) * each;
        running = running && begin_request(&all[i]);
    }
    double received = cli_now(), checked = received;
    while (running) {
        const size_t active = serve_clients(all, polls, clients);
        running = active != SIZE_MAX;
        if (!running || active == 0) break;
        running = wait_for_any(all, polls, clients, &received);
        if (cli_now() - checked > 0.2) { /* not in each round: it would slow down the server */
            checked = cli_now();
            running = running && !cli_interrupted();
        }
    }
    for (size_t i = 0; i < clients; i++) {
        close_connection(&all[i]);
        load_events_free(&all[i].events);
    }
    free(polls);
    free(all);
    return running;
}

void load_outcome_free(load_outcome *outcome)
{
    free(outcome->tokens);
    free(outcome->body.bytes);
    *outcome = (load_outcome){0};
}

char *load_call(cli_session *session, const load_address *address, const char *method, const char *path,
                const char *body)
{
    load_request request = load_request_make(address, method, path, body);
    load_outcome outcome = {0};
    const bool done = load_run(session, address, 1, 1, &request, &outcome);
    char *body_text = done ? outcome.body.bytes : NULL;
    if (done && !body_text) body_text = cli_allocate(1, 1, "a response");
    if (done) outcome.body = (load_text){0};
    load_outcome_free(&outcome);
    free(request.bytes);
    return body_text;
}
