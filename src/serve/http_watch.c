/* The watcher: a thread that notices clients that are gone while their connection is suspended, and connections that send
 * their requests too slowly. */
#include "http.h"
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

/* For the head of a request; and until a closed connection that sent a part of a request is given up: the rest may be on its
 * way to its HTTP thread. */
enum { HEAD_SECONDS = 60, CLOSED_SECONDS = 1 };
static const struct timespec PAUSE = {.tv_nsec = 50000000};

bo_peer *bo_watch_add(bo_server *server, int socket, const char *address)
{
    bo_peer *peer = calloc(1, sizeof *peer);
    if (!peer) return NULL;
    peer->socket = socket;
    snprintf(peer->address, sizeof peer->address, "%s", address);
    peer->receiving_since = bo_seconds();
    pthread_mutex_lock(&server->lock);
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

void bo_watch_receiving(bo_server *server, bo_peer *peer, bool has_head)
{
    if (!peer) return;
    pthread_mutex_lock(&server->lock);
    peer->receiving_since = bo_seconds();
    peer->has_head = has_head;
    peer->exchange = NULL;
    pthread_mutex_unlock(&server->lock);
}

void bo_watch_answering(bo_server *server, bo_peer *peer, bo_exchange *exchange)
{
    if (!peer) return;
    pthread_mutex_lock(&server->lock);
    peer->receiving_since = 0;
    peer->exchange = exchange;
    pthread_mutex_unlock(&server->lock);
}

/* What happens to a connection. A client that closes its side does not wait for an answer. libmicrohttpd does not notice the
 * end of a request that arrives in pieces and is never completed. */
static void judge(const bo_server *server, bo_peer *peer, bool closed, double now)
{
    const double timeout = server->desc->timeout;
    const double limit = peer->has_head || timeout < HEAD_SECONDS ? timeout : HEAD_SECONDS;
    const bool late = peer->receiving_since > 0 && now - peer->receiving_since > limit;
    if (!closed)
        peer->closed_since = 0;
    else if (peer->closed_since == 0)
        peer->closed_since = now;
    if (closed && peer->exchange)
        bo_exchange_cancel(peer->exchange);
    else if (late || (closed && peer->receiving_since > 0 && now - peer->closed_since > CLOSED_SECONDS))
        shutdown(peer->socket, SHUT_RDWR); /* its HTTP thread closes it */
}

/* Asks for the state of all sockets at once. */
static void look(bo_server *server, struct pollfd *polls, size_t room)
{
    const double now = bo_seconds();
    size_t count = 0;
    pthread_mutex_lock(&server->lock);
    for (const bo_peer *peer = server->peers; peer && count < room; peer = peer->after)
        polls[count++] = (struct pollfd){.fd = peer->socket, .events = POLLRDHUP};
    if (count && poll(polls, count, 0) >= 0) {
        size_t at = 0;
        for (bo_peer *peer = server->peers; at < count; peer = peer->after, at++)
            judge(server, peer, polls[at].revents & (POLLRDHUP | POLLHUP | POLLERR), now);
    }
    pthread_mutex_unlock(&server->lock);
}

static void *watch(void *arg)
{
    bo_server *server = arg;
    const size_t room = server->desc->connections + 64;
    struct pollfd *polls = calloc(room, sizeof *polls);
    while (polls && !atomic_load(&server->closing)) {
        look(server, polls, room);
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
    atomic_store(&server->closing, true);
    if (server->has_watcher) pthread_join(server->watcher, NULL);
    server->has_watcher = false;
}
