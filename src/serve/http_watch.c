/* The watcher: a thread that notices clients that are gone while their connection is suspended, and connections that send
 * their requests too slowly. */
#include "http.h"
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

enum { HEAD_SECONDS = 60 }; /* for the head of a request */
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

/* A client that closes its side does not wait for an answer. */
static bool is_gone(const bo_peer *peer)
{
    struct pollfd one = {.fd = peer->socket, .events = POLLRDHUP};
    return poll(&one, 1, 0) > 0 && (one.revents & (POLLRDHUP | POLLHUP | POLLERR));
}

static void look(bo_server *server)
{
    const double now = bo_seconds();
    pthread_mutex_lock(&server->lock);
    for (const bo_peer *peer = server->peers; peer; peer = peer->after) {
        const double limit = peer->has_head ? server->desc->timeout : HEAD_SECONDS;
        if (peer->exchange && is_gone(peer))
            bo_exchange_cancel(peer->exchange);
        else if (peer->receiving_since > 0 && now - peer->receiving_since > limit)
            shutdown(peer->socket, SHUT_RDWR); /* its HTTP thread closes it */
    }
    pthread_mutex_unlock(&server->lock);
}

static void *watch(void *arg)
{
    bo_server *server = arg;
    while (!atomic_load(&server->closing)) {
        look(server);
        nanosleep(&PAUSE, NULL);
    }
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
