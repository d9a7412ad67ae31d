#include "reserve.h"
#include <assert.h>
#include <stdlib.h>

void bo_reservations_open(bo_reservations *r, size_t most)
{
    *r = (bo_reservations){.most = most};
    pthread_mutex_init(&r->lock, NULL);
}

void bo_reservations_close(bo_reservations *r)
{
    assert(r->all == 0);
    pthread_mutex_destroy(&r->lock);
    free(r->items);
}

/* The record of a client, which is made if there is none. NULL: no memory. */
static bo_reserved *find(bo_reservations *r, uint64_t client)
{
    for (size_t i = 0; i < r->count; i++)
        if (r->items[i].client == client) return &r->items[i];
    if (r->count == r->capacity) {
        const size_t capacity = 2 * r->capacity + 16;
        bo_reserved *larger = realloc(r->items, capacity * sizeof *larger);
        if (!larger) return NULL;
        r->items = larger;
        r->capacity = capacity;
    }
    r->items[r->count] = (bo_reserved){.client = client};
    return &r->items[r->count++];
}

/* `others`: bytes of other reservations, of the same client and of all. A request that begins alone is never refused,
 * but it may not grow beyond all: the texts of one request can have any number of states. */
static bool fits(const bo_reservations *r, size_t held, size_t others, size_t others_of_all, size_t bytes)
{
    if (others > 0 && (bytes > r->most / 2 || others > r->most / 2 - bytes)) return false;
    return (held == 0 && others_of_all == 0) || (bytes <= r->most && others_of_all <= r->most - bytes);
}

bool bo_reserve(bo_reservations *r, uint64_t client, size_t *held, size_t bytes)
{
    if (r->most == 0) return true;
    if (bytes < BO_RESERVE_LEAST) bytes = 0;
    if (bytes == *held) return true;
    pthread_mutex_lock(&r->lock);
    bo_reserved *own = find(r, client);
    const bool done = own && (bytes < *held || fits(r, *held, own->bytes - *held, r->all - *held, bytes));
    if (done) {
        own->bytes = own->bytes - *held + bytes;
        r->all = r->all - *held + bytes;
        *held = bytes;
    }
    if (own && own->bytes == 0) *own = r->items[--r->count];
    pthread_mutex_unlock(&r->lock);
    return done;
}
