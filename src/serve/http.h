/* Internals of the HTTP part: calls (requests with their responses), connections, and the table of routes. */
#ifndef BO_SERVE_HTTP_H
#define BO_SERVE_HTTP_H

#include <microhttpd.h>
#include <pthread.h>
#include "exchange.h"

/* An open connection, guarded by the lock of the server. The fields of the call belong to its HTTP thread. */
typedef struct bo_peer {
    int socket;
    char address[64]; /* of the client, in full */
    char client[64];  /* identity of the client: the address, for IPv6 its /64 network */
    /* time since which the connection waits for a request or its body; 0: the request is complete */
    double receiving_since;
    double closed_since;   /* when the client was first found to have closed its side; 0: it has not */
    bool has_head;         /* the head of the request has arrived */
    bool closing;          /* the connection was closed in favor of another one, or was refused */
    bool refused;          /* it was refused with status 429; does not change */
    bo_exchange *exchange; /* for which the connection waits; NULL: none */
    struct bo_peer *before, *after;
} bo_peer;

/* A response that is complete before it is sent. */
typedef struct bo_http_response {
    int status;
    const char *type;
    bo_json_text text; /* the body, */
    const void *fixed; /* or static bytes, */
    void *bytes;       /* or bytes to free with bo_free */
    size_t size;       /* of `fixed` or `bytes` */
    bool page;         /* a file of the playground page: browsers may run its scripts */
} bo_http_response;

/* A request while it is received and processed. */
typedef struct bo_http_call {
    struct bo_server *server;
    struct MHD_Connection *connection;
    bo_peer *peer;
    const struct bo_route *route; /* NULL: no such path or method */
    double started;
    char method[16], path[512], argument[BO_SNAPSHOT_ID + 1];
    bool needs_host; /* HTTP/1.1 */
    char *body;
    size_t size, capacity;
    size_t body_reserved, response_reserved; /* reserved bytes */
    bo_refusal refusal;                      /* found before the body was read; status 0: none */
    bo_exchange *exchange;
    bo_client client;
    int status;
} bo_http_call;

/* Handles a call: fills in the response, or starts an exchange. False: the call is refused. */
typedef bool (*bo_handler_fn)(bo_context *context, bo_http_call *call, bo_http_response *response, bo_refusal *refusal);

typedef struct bo_route {
    const char *method, *path; /* a path that ends with "/" is followed by an argument, such as an id */
    bo_handler_fn handler;
    bool open; /* needs no key */
} bo_route;

struct bo_server {
    const bo_server_desc *desc;
    bo_server_desc caller_desc; /* as passed to bo_server_create */
    bo_service service;
    struct MHD_Daemon *daemon;
    char address[128];
    bool loopback;
    atomic_bool stopping;
    double stop_time; /* written by the thread of bo_server_run */
    pthread_mutex_t lock, log_lock;
    bo_peer *peers;
    atomic_size_t calls;
    pthread_t watcher;
    bool has_watcher;
    atomic_bool closing_watcher;
};

/* http_routes.c. Returns the route of a method and path. *known: the path exists, perhaps with another method. */
const bo_route *bo_route_find(const char *method, const char *path, char argument[BO_SNAPSHOT_ID + 1], bool *known);

/* Lists the methods that a path accepts, for the header Allow. */
void bo_route_methods(const char *path, char *out, size_t size);

/* http_guard.c. Checks the key and the headers Host and Origin; sets call->client. */
bool bo_guard_check(bo_http_call *call, bo_refusal *refusal);
/* Adds the CORS headers for the origin that the settings allow. */
void bo_guard_add_headers(const bo_http_call *call, struct MHD_Response *response);
bool bo_guard_is_preflight(const bo_http_call *call);

/* Connections beyond the limit that are being refused or closed. */
enum { BO_CLOSING_CONNECTIONS = 64 };

/* http_watch.c. Detects clients that have disconnected, and connections that send too slowly. */
bool bo_watch_start(struct bo_server *server);
void bo_watch_stop(struct bo_server *server);
/* Adds a connection. If there are too many, the one that has waited longest for a request is closed. If none waits for
 * a request, the new one is refused. */
bo_peer *bo_watch_add(struct bo_server *server, int socket, const struct sockaddr *address);
bool bo_watch_is_closing(struct bo_server *server, const bo_peer *peer);
void bo_watch_remove(struct bo_server *server, bo_peer *peer);
/* Record the current activity of the connection. */
void bo_watch_receiving(struct bo_server *server, bo_peer *peer, bool has_head);
void bo_watch_responding(struct bo_server *server, bo_peer *peer, bo_exchange *exchange);

/* Generated from the files of src/serve/page and openapi.json. */
typedef struct bo_page_file {
    const char *name, *type;
    const unsigned char *bytes;
    size_t size;
} bo_page_file;
extern const bo_page_file bo_page_files[];
extern const size_t bo_page_file_count;

#endif
