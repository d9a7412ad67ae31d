#include "reserve.h"
#include <assert.h>
#include <stdlib.h>

void bo_reservations_open(bo_reservations *r, size_t limit)
{
    *r = (bo_reservations){.limit = limit};
    pthread_mutex_init(&r->lock, NULL);
}

void bo_reservations_close(bo_reservations *r)
{
    assert(r->all == 0);
    pthread_mutex_destroy(&r->lock);
    free(r->items);
}

/* Finds or creates the record of a client. NULL: out of memory. */
static bo_reserved *find_client(bo_reservations *r, uint64_t client)
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

/* `client_bytes` and `total_bytes`: bytes of other reservations, of the same client and of all clients. A first
 * reservation is never refused if nothing else is reserved, but it may not grow beyond the limit: one request can have
 * any number of states. */
static bool fits(const bo_reservations *r, size_t reserved, size_t client_bytes, size_t total_bytes, size_t bytes)
{
    if (client_bytes > 0 && (bytes > r->limit / 2 || client_bytes > r->limit / 2 - bytes)) return false;
    return (reserved == 0 && total_bytes == 0) || (bytes <= r->limit && total_bytes <= r->limit - bytes);
}

bool bo_reserve(bo_reservations *r, uint64_t client, size_t *reserved, size_t bytes)
{
    if (r->limit == 0) return true;
    if (bytes < BO_RESERVE_MIN) bytes = 0;
    if (bytes == *reserved) return true;
    pthread_mutex_lock(&r->lock);
    bo_reserved *client_record = find_client(r, client);
    const bool done = client_record && (bytes < *reserved || fits(r, *reserved, client_record->bytes - *reserved,
                                                                  r->all - *reserved, bytes));
    if (done) {
        client_record->bytes = client_record->bytes - *reserved + bytes;
        r->all = r->all - *reserved + bytes;
        *reserved = bytes;
    }
    if (client_record && client_record->bytes == 0) *client_record = r->items[--r->count];
    pthread_mutex_unlock(&r->lock);
    return done;
}
