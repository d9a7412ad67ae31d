/* Memory that requests take beside the states in slots and in the cache: bodies, prompts that wait, states that are
 * sent. */
#ifndef BO_SERVE_RESERVE_H
#define BO_SERVE_RESERVE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Less is not counted: small requests are served whatever large ones take. */
enum { BO_RESERVE_MIN = 1 << 20 };

typedef struct bo_reserved {
    uint64_t client;
    size_t bytes;
} bo_reserved;

/* Clients with reserved bytes. A client may reserve half of all, or, if it has nothing else, what is free. The first
 * bytes of a request are not refused if nothing else is reserved. */
typedef struct bo_reservations {
    pthread_mutex_t lock;
    size_t limit, all; /* bytes; most 0: not limited */
    bo_reserved *items;
    size_t count, capacity;
} bo_reservations;

void bo_reservations_open(bo_reservations *reservations, size_t limit);
void bo_reservations_close(bo_reservations *reservations);
/* Changes a reservation of *held bytes to `bytes`. False: they are not free, and nothing changed. */
bool bo_reserve(bo_reservations *reservations, uint64_t client, size_t *reserved, size_t bytes);

#endif
