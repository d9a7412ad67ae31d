/* The client of `bochner bench serve`: requests over many parallel connections, with the times of the events. */
#ifndef BO_BENCH_SERVE_CLIENT_H
#define BO_BENCH_SERVE_CLIENT_H

#include "response.h"
#include <sys/socket.h>

typedef struct load_address {
    char host[256];   /* for the header Host: name and port */
    char prefix[128]; /* prefix of every path; "" or, for example, "/api" */
    struct sockaddr_storage socket;
    socklen_t length;
} load_address;

/* Parses http://host:port/prefix and resolves the host name. A trailing "/v1" is removed, because paths start with it.
 * Prints a message and returns false on failure. */
bool load_address_read(cli_session *session, const char *url, load_address *out);

/* The text of a request. */
typedef struct load_request {
    char *bytes; /* freed with free */
    size_t length;
} load_request;

/* `body` is JSON; NULL: no body. */
load_request load_request_make(const load_address *address, const char *method, const char *path, const char *body);

/* The outcome of a request. Times are measured by cli_now. */
typedef struct load_outcome {
    int status;
    double sent, ended; /* when the first byte was sent and the last byte arrived */
    double *tokens;     /* streaming: when each event with a token arrived */
    size_t count, capacity;
    size_t prompt, cached, generated; /* usage that the server reported; 0: not reported */
    load_text body;                   /* the body of a response that is not a stream */
} load_outcome;

void load_outcome_free(load_outcome *outcome);

/* Sends requests[i * each, (i + 1) * each) one after another over the connection of client i, for all clients at the
 * same time, and fills the outcomes of the same index, which are zero before. Prints a message and returns false if a
 * request could not be completed, or if its status is not 200. The caller frees requests and outcomes in both cases. */
bool load_run(cli_session *session, const load_address *address, size_t clients, size_t each,
              const load_request *requests, load_outcome *outcomes);

/* Sends one request and returns the body of the response, which the caller frees. Prints a message and returns NULL on
 * failure. */
char *load_call(cli_session *session, const load_address *address, const char *method, const char *path,
                const char *body);

#endif
