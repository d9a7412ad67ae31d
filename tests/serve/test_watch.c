/* The limit of connections per client: which addresses are one client, and which of its connections is closed. */
#include "testing.h"
#include "serve/http.h"
#include <arpa/inet.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PEERS = 3 };

typedef struct setting {
    bo_server_desc desc;
    bo_server server;
    bo_peer *peers[PEERS];
    int sockets[PEERS][2];
} setting;

/* Opens a connection of each address, with at most two per client. */
static void connect_from(setting *s, const char *const addresses[PEERS])
{
    memset(s, 0, sizeof *s);
    s->desc = (bo_server_desc){.connections = 10, .client_connections = 2};
    s->server.desc = &s->desc;
    assert_int_equal(pthread_mutex_init(&s->server.lock, NULL), 0);
    for (int i = 0; i < PEERS; i++) {
        struct sockaddr_in6 wide = {.sin6_family = AF_INET6};
        struct sockaddr_in narrow = {.sin_family = AF_INET};
        const bool is_wide = inet_pton(AF_INET6, addresses[i], &wide.sin6_addr) == 1;
        if (!is_wide) assert_int_equal(inet_pton(AF_INET, addresses[i], &narrow.sin_addr), 1);
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, s->sockets[i]), 0);
        s->peers[i] = bo_watch_add(&s->server, s->sockets[i][0], is_wide ? (const void *)&wide : (const void *)&narrow);
        assert_non_null(s->peers[i]);
        assert_string_equal(s->peers[i]->address, addresses[i]);
    }
}

static void disconnect(setting *s)
{
    for (int i = 0; i < PEERS; i++) {
        bo_watch_remove(&s->server, s->peers[i]);
        close(s->sockets[i][0]);
        close(s->sockets[i][1]);
    }
    assert_null(s->server.peers);
    pthread_mutex_destroy(&s->server.lock);
}

static void test_clients(void **state)
{
    static const struct {
        const char *addresses[PEERS];
        bool closed; /* the first connection, because all are of one client */
    } cases[] = {
        {{"192.0.2.1", "192.0.2.1", "192.0.2.1"}, true},
        {{"192.0.2.1", "192.0.2.2", "192.0.2.1"}, false},
        {{"2001:db8::1", "2001:db8::1", "2001:db8::1"}, true},
        {{"2001:db8::1", "2001:db8::2", "2001:db8::ffff:ffff:ffff:ffff"}, true}, /* one network of 64 bits */
        {{"2001:db8::1", "2001:db8:0:1::1", "2001:db8::2"}, false},
        {{"::ffff:192.0.2.1", "::ffff:192.0.2.1", "::ffff:192.0.2.1"}, true},
        {{"::ffff:192.0.2.1", "::ffff:192.0.2.2", "::ffff:192.0.2.1"}, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        setting s;
        connect_from(&s, cases[i].addresses);
        char byte;
        assert_int_equal(s.peers[0]->closing, cases[i].closed);
        assert_int_equal(recv(s.sockets[0][1], &byte, 1, MSG_DONTWAIT), cases[i].closed ? 0 : -1);
        assert_false(s.peers[1]->closing || s.peers[2]->closing);
        disconnect(&s);
    }
}

/* The one that has waited longest is closed; one whose request is complete is not, and if all are, the new one is
 * refused. */
static void test_waiting(void **state)
{
    static const char *const same[PEERS] = {"192.0.2.1", "192.0.2.1", "192.0.2.1"};
    setting s;
    (void)state;
    connect_from(&s, same);
    assert_true(s.peers[0]->closing && !s.peers[0]->refused);
    bo_watch_responding(&s.server, s.peers[1], NULL);
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    bo_peer *more = bo_watch_add(&s.server, pair[0], NULL);
    assert_string_equal(more->address, "");
    bo_watch_remove(&s.server, more);
    const struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = inet_addr(same[0])};
    more = bo_watch_add(&s.server, pair[0], (const void *)&address);
    assert_true(s.peers[2]->closing && !s.peers[1]->closing && !more->closing);
    bo_watch_responding(&s.server, more, NULL);
    bo_watch_remove(&s.server, s.peers[2]);
    s.peers[2] = bo_watch_add(&s.server, s.sockets[2][0], (const void *)&address);
    assert_true(s.peers[2]->closing && s.peers[2]->refused && !s.peers[1]->closing && !more->closing);
    bo_watch_remove(&s.server, more);
    close(pair[0]);
    close(pair[1]);
    disconnect(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clients),
        cmocka_unit_test(test_waiting),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
