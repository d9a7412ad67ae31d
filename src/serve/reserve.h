/* Memory of requests in addition to the states in slots and in the cache: bodies, waiting prompts, and states that are
 * sent. */
#ifndef BO_SERVE_RESERVE_H
#define BO_SERVE_RESERVE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Smaller reservations are not counted, so that small requests are always served. */
enum { BO_RESERVE_MIN = 1 << 20 };

typedef struct bo_reserved {
    uint64_t client;
    size_t bytes;
} bo_reserved;

/* Reserved bytes per client. A client may reserve half of the limit or, if it has no other reservation, all free bytes.
 * The first reservation is not refused if nothing else is reserved. */
typedef struct bo_reservations {
    pthread_mutex_t lock;
    size_t limit, all; /* bytes; limit 0: unlimited */
    bo_reserved *items;
    size_t count, capacity;
} bo_reservations;

void bo_reservations_open(bo_reservations *reservations, size_t limit);
void bo_reservations_close(bo_reservations *reservations);
/* Changes a reservation of *reserved bytes to `bytes`. False: not enough bytes are free; nothing changes. */
bool bo_reserve(bo_reservations *reservations, uint64_t client, size_t *reserved, size_t bytes);

#endif
