/* A server that answers HTTP requests with a language model (docs/reference/http.md). Only the program links it.
 *
 *     bo_server *server;
 *     bo_server_create(context, &(bo_server_desc){.model = model, .directory = "model", …}, &server);
 *     puts(bo_server_address(server));
 *     bo_server_run(context, server); // until desc.stop
 *     bo_server_destroy(server); */
#ifndef BO_SERVE_SERVE_H
#define BO_SERVE_SERVE_H

#include <bochner/generate.h>
#include <stdio.h>
#include "memory.h"

typedef struct bo_server bo_server;

/* All fields are required, except where a default is named. Everything must outlive the server. */
typedef struct bo_server_desc {
    const bo_model *model;
    const char *directory; /* of the model: its chat template and its name */
    const char *host;      /* an address such as "127.0.0.1" or "::1" */
    int port;              /* 0: chosen by the system */
    bool open;             /* allow an address that is not loopback without keys */
    const char *const *keys;
    size_t key_count;   /* 0: requests need no key */
    const char *origin; /* another site whose pages may send requests (CORS); NULL: none */
    size_t slots;       /* sequences that are generated at a time; 0: as many as fit, at most BO_SLOTS_DEFAULT */
    size_t capacity; /* attention that keeps every key: maximum tokens of a conversation; 0: the context of the model */
    size_t queue;    /* sequences that may wait for a slot */
    size_t connections;        /* open connections */
    size_t client_connections; /* of one address */
    size_t max_body;           /* bytes */
    size_t max_prompt;         /* tokens */
    double timeout;            /* seconds of a request */
    double grace;              /* seconds to finish requests after `stop` */
    size_t cache_bytes, disk_bytes;
    const char *cache_directory; /* NULL: none */
    FILE *log;                   /* one line of JSON per request; NULL: none */
    /* Polled at least five times per second; true: stop. */
    bool (*stop)(void *user);
    void *user;
} bo_server_desc;

/* Listens. BO_MEMORY if the slots do not fit; BO_IO if the address is in use; BO_INVALID if it is not loopback and
 * there are no keys. */
bo_status bo_server_create(bo_context *context, const bo_server_desc *desc, bo_server **out);
const char *bo_server_address(const bo_server *server); /* "http://127.0.0.1:8080" */
/* Files of the cache directory that were discarded because they are damaged, that belong to other models, and whose
 * states belong to no key in use. */
void bo_server_cache_files(const bo_server *server, size_t *discarded, size_t *foreign, size_t *unowned);
/* What the states of running texts take. */
const bo_slots_memory *bo_server_memory(const bo_server *server);
/* Bytes of the state of a conversation of this number of tokens. */
size_t bo_server_state_bytes(const bo_server *server, size_t tokens);
/* Answers requests until desc.stop; computes on the calling thread with the threads of the context. */
bo_status bo_server_run(bo_context *context, bo_server *server);
void bo_server_destroy(bo_server *server);

#endif
