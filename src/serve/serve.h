/* An HTTP server for a language model (docs/reference/http.md). Only the program links it.
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

/* All fields are required unless a default is stated. All pointers must outlive the server. */
typedef struct bo_server_desc {
    const bo_model *model;
    const char *directory; /* directory of the model, for its chat template and its name */
    const char *host;      /* an address such as "127.0.0.1" or "::1" */
    int port;              /* 0: chosen by the system */
    bool open;             /* allow an address that is not loopback without keys */
    const char *const *keys;
    size_t key_count;   /* 0: requests need no key */
    const char *origin; /* origin of another site whose pages may send requests (CORS); NULL: none */
    size_t slots;       /* maximum concurrent sequences; 0: as many as fit, at most BO_SLOTS_DEFAULT */
    size_t capacity;    /* attention with a KV cache: maximum tokens of a conversation; 0: the context of the model */
    size_t queue;       /* maximum sequences that wait for a slot */
    size_t connections; /* maximum open connections */
    size_t client_connections; /* maximum open connections per address */
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

/* Creates a server and starts to listen. BO_MEMORY: the slots do not fit. BO_IO: the address is in use. BO_INVALID: the
 * address is not loopback and there are no keys. */
bo_status bo_server_create(bo_context *context, const bo_server_desc *desc, bo_server **out);
const char *bo_server_address(const bo_server *server); /* "http://127.0.0.1:8080" */
/* Counts files of the cache directory: damaged files that were discarded, files of other models, and files whose states
 * belong to no API key of this server. */
void bo_server_cache_files(const bo_server *server, size_t *discarded, size_t *foreign, size_t *unowned);
/* Returns the memory of the states of running sequences. */
const bo_slots_memory *bo_server_memory(const bo_server *server);
/* Returns the bytes of the state of a conversation of this number of tokens. */
size_t bo_server_state_bytes(const bo_server *server, size_t tokens);
/* Serves requests until desc.stop returns true. Computes on the calling thread with the threads of the context. */
bo_status bo_server_run(bo_context *context, bo_server *server);
void bo_server_destroy(bo_server *server);

#endif
