/* The watcher: a thread that detects clients that disconnect while their connection is suspended, and connections that
 * send their requests too slowly. */
#include "http.h"
#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

/* Time limits for the head of a request, and for a closed connection with an incomplete request: the rest may still be
 * on its way to the HTTP thread. */
enum { HEAD_SECONDS = 60, CLOSED_SECONDS = 1 };
static const struct timespec PAUSE = {.tv_nsec = 50000000};

/* ---- limits ------------------------------------------------------------------------------------------------------ */

static bool waits_longer(const bo_peer *peer, const bo_peer *other)
{
    return peer->receiving_since > 0 && (!other || peer->receiving_since < other->receiving_since);
}

/* Returns true if one more connection of this client may be open. May close another connection for this: one of the
 * same client if it has too many, so that a client cannot close connections of other clients. Call with the lock held.
 */
static bool admit(bo_server *server, const char *client)
{
    const bo_server_desc *d = server->desc;
    size_t all = 0, same = 0;
    bo_peer *oldest = NULL, *oldest_same = NULL;
    for (bo_peer *peer = server->peers; peer; peer = peer->after) {
        const bool is_same = strcmp(peer->client, client) == 0;
        if (peer->closing) continue;
        all++;
        same += is_same;
        if (waits_longer(peer, oldest)) oldest = peer;
        if (is_same && waits_longer(peer, oldest_same)) oldest_same = peer;
    }
    if (all < d->connections && same < d->client_connections) return true;
    bo_peer *closed = same < d->client_connections ? oldest : oldest_same;
    if (!closed) return false;
    closed->closing = true;
    shutdown(closed->socket, SHUT_RDWR); /* its HTTP thread closes it */
    return true;
}

/* Refuses a connection beyond the limit. Its HTTP thread receives the whole request before it closes the connection:
 * closing it earlier would discard the response. */
static void refuse(int socket)
{
    static const char body[] =
        "{\"error\": {\"message\": \"too many open connections\", \"type\": \"rate_limit_error\", "
        "\"param\": null, \"code\": \"too_many_connections\"}}";
    char response[512];
    const int length =
        snprintf(response, sizeof response,
                 "HTTP/1.1 429 Too Many Requests\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n"
                 "Retry-After: 1\r\nConnection: close\r\n\r\n%s",
                 sizeof body - 1, body);
    if (send(socket, response, (size_t)length, MSG_NOSIGNAL | MSG_DONTWAIT) == length) shutdown(socket, SHUT_WR);
}

/* ---- connections ------------------------------------------------------------------------------------------------- */

/* All addresses of an IPv6 /64 network count as one client. */
static void describe(const struct sockaddr *address, bo_peer *peer)
{
    const sa_family_t family = address ? address->sa_family : AF_UNSPEC;
    if (family == AF_INET) {
        inet_ntop(family, &((const struct sockaddr_in *)(const void *)address)->sin_addr, peer->address,
                  sizeof peer->address);
        memcpy(peer->client, peer->address, sizeof peer->client);
    } else if (family == AF_INET6) {
        struct in6_addr bits = ((const struct sockaddr_in6 *)(const void *)address)->sin6_addr;
        inet_ntop(family, &bits, peer->address, sizeof peer->address);
        if (!IN6_IS_ADDR_V4MAPPED(&bits)) memset(bits.s6_addr + 8, 0, 8);
        inet_ntop(family, &bits, peer->client, sizeof peer->client);
    }
}

bo_peer *bo_watch_add(bo_server *server, int socket, const struct sockaddr *address)
{
    bo_peer *peer = calloc(1, sizeof *peer);
    if (!peer) return NULL;
    peer->socket = socket;
    describe(address, peer);
    peer->receiving_since = bo_seconds();
    pthread_mutex_lock(&server->lock);
    peer->closing = peer->refused = !admit(server, peer->client);
    if (peer->refused) {
        refuse(socket);
        atomic_fetch_add(&server->service.counters.responses[4], 1);
    }
    peer->after = server->peers;
    if (server->peers) server->peers->before = peer;
    server->peers = peer;
    atomic_fetch_add(&server->service.counters.connections, 1);
    pthread_mutex_unlock(&server->lock);
    return peer;
}

void bo_watch_remove(bo_server *server, bo_peer *peer)
{
    if (!peer) return;
    pthread_mutex_lock(&server->lock);
    *(peer->before ? &peer->before->after : &server->peers) = peer->after;
    if (peer->after) peer->after->before = peer->before;
    atomic_fetch_sub(&server->service.counters.connections, 1);
    pthread_mutex_unlock(&server->lock);
    free(peer);
}

bool bo_watch_is_closing(bo_server *server, const bo_peer *peer)
{
    if (!peer) return false;
    pthread_mutex_lock(&server->lock);
    const bool closing = peer->closing;
    pthread_mutex_unlock(&server->lock);
    return closing;
}

void bo_watch_receiving(bo_server *server, bo_peer *peer, bool has_head)
{
    if (!peer) return;
    pthread_mutex_lock(&server->lock);
    peer->receiving_since = bo_seconds();
    peer->has_head = has_head;
    peer->exchange = NULL;
    pthread_mutex_unlock(&server->lock);
}

void bo_watch_responding(bo_server *server, bo_peer *peer, bo_exchange *exchange)
{
    if (!peer) return;
    pthread_mutex_lock(&server->lock);
    peer->receiving_since = 0;
    peer->exchange = exchange;
    pthread_mutex_unlock(&server->lock);
}

/* Cancels the exchange of a client that has closed its side, or shuts down a connection that is late. libmicrohttpd
 * does not detect the end of a request that arrives in pieces and is never completed. */
static void update_peer(const bo_server *server, bo_peer *peer, bool closed, double now)
{
    const double timeout = server->desc->timeout;
    const double limit = peer->has_head || timeout < HEAD_SECONDS ? timeout : HEAD_SECONDS;
    const bool late =
        peer->receiving_since > 0 && now - peer->receiving_since > (peer->closing ? CLOSED_SECONDS : limit);
    if (!closed)
        peer->closed_since = 0;
    else if (peer->closed_since == 0)
        peer->closed_since = now;
    if (closed && peer->exchange)
        bo_exchange_cancel(peer->exchange);
    else if (late || (closed && peer->receiving_since > 0 && now - peer->closed_since > CLOSED_SECONDS))
        shutdown(peer->socket, SHUT_RDWR); /* its HTTP thread closes it */
}

/* Polls all sockets in one call. */
static void poll_peers(bo_server *server, struct pollfd *polls, size_t capacity)
{
    const double now = bo_seconds();
    size_t count = 0;
    pthread_mutex_lock(&server->lock);
    for (const bo_peer *peer = server->peers; peer && count < capacity; peer = peer->after)
        polls[count++] = (struct pollfd){.fd = peer->socket, .events = POLLRDHUP};
    if (count && poll(polls, count, 0) >= 0) {
        size_t at = 0;
        for (bo_peer *peer = server->peers; at < count; peer = peer->after, at++)
            update_peer(server, peer, polls[at].revents & (POLLRDHUP | POLLHUP | POLLERR), now);
    }
    pthread_mutex_unlock(&server->lock);
}

static void *watch(void *arg)
{
    bo_server *server = arg;
    const size_t capacity = server->desc->connections + BO_CLOSING_CONNECTIONS;
    struct pollfd *polls = calloc(capacity, sizeof *polls);
    while (polls && !atomic_load(&server->closing_watcher)) {
        poll_peers(server, polls, capacity);
        nanosleep(&PAUSE, NULL);
    }
    free(polls);
    return NULL;
}

bool bo_watch_start(bo_server *server)
{
    server->has_watcher = pthread_create(&server->watcher, NULL, watch, server) == 0;
    return server->has_watcher;
}

void bo_watch_stop(bo_server *server)
{
    atomic_store(&server->closing_watcher, true);
    if (server->has_watcher) pthread_join(server->watcher, NULL);
    server->has_watcher = false;
}
