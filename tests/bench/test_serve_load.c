/* The client of `bochner bench serve` against a server with prepared responses: streams, connections that are kept or
 * closed, errors, addresses. */
#include "testing.h"
#include "bench/serve/client.h"
#include <netinet/in.h>
#include <pthread.h>
#include <unistd.h>

enum { PAUSE = 3000 }; /* microseconds */

/* Serves one connection after another, each with its responses in order. "" closes the connection without a response,
 * and
 * "|" is a pause between two pieces. */
typedef struct server {
    int listening;
    const char *const *responses; /* NULL after the last */
    size_t served;                /* number of requests read */
    size_t connections;
    pthread_t thread;
    char url[64];
} server;

static bool read_request(int connection)
{
    char text[4096];
    size_t length = 0, body = 0;
    for (;;) {
        const ssize_t count = recv(connection, text + length, 1, 0);
        if (count <= 0) return false;
        text[++length] = 0;
        const char *body_begin = strstr(text, "\r\n\r\n"), *header = strstr(text, "Content-Length: ");
        if (!body_begin) continue;
        if (header) body = (size_t)strtoul(header + 16, NULL, 10);
        if (length == (size_t)(body_begin + 4 - text) + body) return true;
    }
}

static void write_response(int connection, const char *response)
{
    while (*response) {
        const size_t count = strcspn(response, "|");
        const ssize_t sent = send(connection, response, count, MSG_NOSIGNAL);
        response += count + (response[count] == '|');
        if (sent < 0) return;
        usleep(PAUSE);
    }
}

static void *serve(void *argument)
{
    server *s = argument;
    const char *const *next = s->responses;
    while (*next) {
        const int connection = accept(s->listening, NULL, NULL);
        if (connection < 0) break;
        s->connections++;
        bool open = true;
        while (open && *next && read_request(connection)) {
            s->served++;
            open = **next && !strstr(*next, "Connection: close");
            write_response(connection, *next++);
        }
        close(connection);
    }
    return NULL;
}

static void start(server *s, const char *const *responses)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    *s = (server){.listening = socket(AF_INET, SOCK_STREAM, 0), .responses = responses};
    assert_int_equal(bind(s->listening, (struct sockaddr *)(void *)&address, length), 0);
    assert_int_equal(listen(s->listening, 8), 0);
    assert_int_equal(getsockname(s->listening, (struct sockaddr *)(void *)&address, &length), 0);
    snprintf(s->url, sizeof s->url, "http://127.0.0.1:%d/v1", ntohs(address.sin_port));
    assert_int_equal(pthread_create(&s->thread, NULL, serve, s), 0);
}

static void stop(server *s)
{
    shutdown(s->listening, SHUT_RDWR);
    pthread_join(s->thread, NULL);
    close(s->listening);
}

/* Sends `count` requests of one client. */
static bool send_requests(server *s, size_t count, load_outcome *outcomes)
{
    cli_session session = {.command = "test"};
    load_address address;
    load_request requests[4];
    assert_true(load_address_read(&session, s->url, &address));
    for (size_t i = 0; i < count; i++)
        requests[i] = load_request_make(&address, "POST", "/v1/completions", "{\"prompt\": \"a\"}");
    const bool done = load_run(&session, &address, 1, count, requests, outcomes);
    for (size_t i = 0; i < count; i++) free(requests[i].bytes);
    return done;
}

#define STREAM  "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
#define COUNTED "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

static void times_of_a_stream(void **state)
{
    (void)state;
    static const char *const responses[] = {
        STREAM "data: {\"choices\": [{\"text\": \"a\", \"finish_reason\": null}]}\n|\n|"
               "data: {\"choices\": [{\"text\": \"\", \"finish_reason\": null}]}\n\n|" /* a part of a character */
               "data: {\"choices\": [{\"text\": \"b\", \"finish_reason\": \"length\"}]}\n\n"
               "data: {\"choices\": [{\"text\": \"\", \"finish_reason\": \"length\"}]}\n\n"
               "data: {\"choices\": [], \"usage\": {\"prompt_tokens\": 7, \"completion_tokens\": 4, "
               "\"prompt_tokens_details\": {\"cached_tokens\": 5}}}\n\ndata: [DONE]\n\n",
        STREAM "data: {\"choices\": [{\"delta\": {\"role\": \"assistant\", \"content\": \"\"}}]}\n\n|"
               "data: {\"choices\": [{\"delta\": {\"content\": \"c\"}}]}\n\n|"
               "data: {\"choices\": [{\"delta\": {}, \"finish_reason\": \"stop\"}]}\n\ndata: [DONE]\n\n",
        NULL};
    server s;
    load_outcome outcomes[2] = {0};
    start(&s, responses);
    assert_true(send_requests(&s, 2, outcomes));
    stop(&s);
    const load_outcome *o = &outcomes[0];
    assert_true(o->status == 200 && o->count == 3 && o->prompt == 7 && o->generated == 4 && o->cached == 5);
    /* The server pauses before the end of the first event, before each of the next two, and before it closes. Only
     * times since the request have bounds: bytes that arrive while the client does not run get the same time. */
    const double pause = PAUSE * 1e-6;
    for (size_t i = 0; i < 3; i++) assert_true(o->tokens[i] - o->sent >= (double)(i + 1) * pause);
    assert_true(o->tokens[1] >= o->tokens[0] && o->tokens[2] >= o->tokens[1] && o->ended - o->sent >= 4 * pause);
    assert_true(outcomes[1].count == 1 && outcomes[1].sent >= o->ended && outcomes[1].generated == 0);
    assert_true(s.connections == 2 && s.served == 2);
    for (size_t i = 0; i < 2; i++) load_outcome_free(&outcomes[i]);
}

static void connections_are_kept(void **state)
{
    (void)state;
    static const char *const responses[] = {COUNTED, COUNTED, COUNTED, NULL};
    server s;
    load_outcome outcomes[3] = {0};
    start(&s, responses);
    assert_true(send_requests(&s, 3, outcomes));
    stop(&s);
    assert_true(s.connections == 1 && s.served == 3);
    for (size_t i = 0; i < 3; i++) {
        assert_string_equal(outcomes[i].body.bytes, "ok");
        load_outcome_free(&outcomes[i]);
    }
}

/* A request is sent again only if the connection has served a request before. */
static void closed_connections_are_opened_again(void **state)
{
    (void)state;
    static const char *const responses[] = {COUNTED, "", COUNTED, NULL}, *const never[] = {"", COUNTED, NULL};
    server s;
    load_outcome outcomes[2] = {0};
    start(&s, responses);
    assert_true(send_requests(&s, 2, outcomes));
    stop(&s);
    assert_true(s.connections == 2 && s.served == 3);
    for (size_t i = 0; i < 2; i++) load_outcome_free(&outcomes[i]);
    start(&s, never);
    assert_false(send_requests(&s, 1, outcomes));
    stop(&s);
    assert_int_equal(s.served, 1);
    load_outcome_free(&outcomes[0]);
}

static void errors_end_the_run(void **state)
{
    (void)state;
    static const char *const bad[][3] = {
        {"HTTP/1.1 429 Busy\r\nContent-Length: 4\r\n\r\nwait", COUNTED, NULL},
        {"what?\r\n\r\n", COUNTED, NULL},
        {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok and more", COUNTED, NULL},
        {"HTTP/1.1 200 OK\r\nContent-Length: 9\r\nConnection: close\r\n\r\nok", COUNTED, NULL},
        {STREAM "data: {\"error\": {\"message\": \"no memory\"}}\n\n", COUNTED, NULL},
        {STREAM "data: {]\n\n", COUNTED, NULL},
        {STREAM "data: 1\n\n", COUNTED, NULL},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        server s;
        load_outcome outcomes[2] = {0};
        start(&s, bad[i]);
        assert_false(send_requests(&s, 2, outcomes));
        stop(&s);
        assert_int_equal(s.served, 1);
        for (size_t k = 0; k < 2; k++) load_outcome_free(&outcomes[k]);
    }
}

static void addresses(void **state)
{
    (void)state;
    static const char *const good[][3] = {{"http://127.0.0.1:8080", "127.0.0.1:8080", ""},
                                          {"http://127.0.0.1", "127.0.0.1", ""},
                                          {"http://127.0.0.1:1/v1/", "127.0.0.1:1", ""},
                                          {"http://127.0.0.1:1/api//", "127.0.0.1:1", "/api"},
                                          {"http://127.0.0.1:1/api/v1", "127.0.0.1:1", "/api"},
                                          {"http://[::1]:90/", "[::1]:90", ""},
                                          {"http://[::1]", "[::1]", ""}};
    static const char *const bad[] = {"127.0.0.1:80",    "https://127.0.0.1", "http://",
                                      "http://:80",      "http://127.0.0.1:", "http://[::1:80",
                                      "http://h:123456", "http://h:x",        "http://127.0.0.1/ x"};
    cli_session session = {.command = "test"};
    load_address address;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_true(load_address_read(&session, good[i][0], &address));
        assert_string_equal(address.host, good[i][1]);
        assert_string_equal(address.prefix, good[i][2]);
        assert_true(address.length > 0);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) assert_false(load_address_read(&session, bad[i], &address));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(times_of_a_stream), cmocka_unit_test(connections_are_kept),
                                       cmocka_unit_test(closed_connections_are_opened_again),
                                       cmocka_unit_test(errors_end_the_run), cmocka_unit_test(addresses)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
